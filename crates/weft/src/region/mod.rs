//! Regions: memory of a process that its peers read, write and change by themselves, while its own
//! program does something else.
//!
//! A process registers memory, and sends its peers the region's [`RegionHandle`], which is plain
//! data. They `put` bytes into it, `get` bytes out of it, and change numbers in it in one step. (To
//! the code below, and to libfabric, a region is a *window*: [`remote`](crate::remote).)
//!
//! | to | calls |
//! |---|---|
//! | register memory that Weft allocates | [`Endpoint::region`] |
//! | register a vector of one's own | [`Endpoint::register`] |
//! | get it back | [`OwnedRegion::into_vec`] |
//! | register borrowed memory | [`Scope::register`] |
//! | move bytes, and wait | [`Endpoint::put`], [`Endpoint::put_with`], [`Endpoint::get`] |
//! | start to | [`Endpoint::iput`], [`Endpoint::iput_with`], [`Endpoint::iget`] |
//! | start to, with borrowed memory | the same of a [`Scope`] |
//! | change numbers, and get the old | [`Endpoint::fetch_add`], [`Endpoint::compare_swap`] |
//! | the same, in rows | [`Endpoint::fetch_and_op`], [`Endpoint::compare_and_op`] |
//! | change rows of numbers | [`Endpoint::accumulate`] |
//! | learn of puts | [`Region::wait_notice`], [`Region::try_notice`] |
//! | connect a buffer with a peer's, and write to it | [`Endpoint::join`], [`Joined`] |
//! | have later ones be done later | [`Endpoint::fence`] |
//! | be sure that all is there | [`Endpoint::flush`], [`Endpoint::flush_all`] |
//!
//! ```
//! use weft::endpoint::Endpoint;
//! use weft::region::RegionHandle;
//! use weft::remote::Rights;
//! # use weft::context::{Context, ContextOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut job = weft::wireup::Job::from_env()?;
//! # let endpoint = Endpoint::new(Context::open(&mut job, &ContextOptions::default())?)?;
//! // The owner registers memory, and sends the handle to whom it likes: here, to itself.
//! let region = endpoint.region(4096, Rights::ALL)?;
//! endpoint.send(endpoint.rank(), 1, &region.handle().to_bytes())?;
//!
//! // A peer receives the handle, and needs nothing else of the owner from then on.
//! let mut bytes = [0; weft::region::HANDLE_LEN];
//! endpoint.recv(endpoint.rank(), 1, &mut bytes)?;
//! let there = RegionHandle::from_bytes(&bytes)?;
//! endpoint.put_with(&there, 16, b"hello", 7)?;
//! assert_eq!(endpoint.fetch_add(&there, 0, 5u64)?, 0);
//! assert_eq!(endpoint.compare_swap(&there, 0, 5u64, 9)?, 5);
//!
//! // The owner is told of a put that has a value along, when its bytes are there.
//! let notice = region.wait_notice()?;
//! assert_eq!((notice.value, notice.offset, notice.len), (7, 16, 5));
//! let mut word = [0; 5];
//! region.read(16, &mut word)?;
//! assert_eq!(&word, b"hello");
//!
//! // A dropped region is gone at once, and for ever.
//! drop(region);
//! let error = endpoint.put(&there, 0, b"late").unwrap_err();
//! assert!(error.to_string().contains("it was dropped"));
//! # Ok(())
//! # }
//! ```
//!
//! # What holds when
//!
//! **An operation has ended when it has been done at the owner**, not when it is on its way: the
//! bytes of a put are in the region then, and whoever looks there sees them. So a flush is a wait
//! for the operations under way, and costs nothing where there are none.
//!
//! **Operations that were started are not ordered.** Short puts and atomic operations on one peer's
//! memory are done in the order in which they were started, but a put of more than some KiB is
//! fetched by its owner and may be overtaken, and a get may read what was put after its start. What
//! has to be done later is started after a [`fence`](Endpoint::fence), which waits for these. A
//! notice is
//! told when the bytes of its own put are there; those of others that were started before may come
//! later.
//!
//! **Operations at the same bytes at the same time** leave a mixture. Those that change numbers do
//! not, as long as all use these, the owner included (with its own handle): each is one step. Reals
//! are added in the order of arrival.
//!
//! **The owner's program need not call anything.** Its calls do what peers ask for, and while it
//! makes none Weft's own thread does. In memory that Weft has allocated, with the right to put,
//! peers of the same node put (without a value) and get by themselves, from their second operation
//! on: that is a plain copy, and takes nothing of the owner's.
//!
//! # Dropping
//!
//! No byte of the region is written or read for peers after the drop, and operations that had not
//! ended fail at them with [`Error::Refused`], as do all later ones: no key is given twice. Weft's
//! own memory, and a vector that was given, are dropped at once, whoever is still writing there:
//! they live as long as that takes. For borrowed memory the drop waits until pieces that peers are
//! moving in this moment have ended, for these go straight there: as long as such a transfer takes,
//! or until a peer that has died is noticed. So does [`OwnedRegion::into_vec`].
//!
//! # Errors
//!
//! What the handle tells is checked before anything is sent ([`Error::Region`]: bounds, rights,
//! numbers that are not aligned). The owner checks all of it again, and the key
//! ([`Error::Refused`]); where a peer copies by itself, it looks at what the owner has written
//! beside the memory. [`Error::PeerDead`] and [`Error::PeerClosed`] are as for messages.
//! Operations whose end nobody asks for ([`Endpoint::detach`]) fail in the next flush.
//!
//! Offsets and lengths are in bytes. A put, a get or a notice of no bytes is one like others.

mod element;
mod handle;
pub(crate) mod joined;
mod owned;

use std::fmt;
use std::sync::Arc;

use weft_wire::PeerId;

#[allow(unused_imports, reason = "for the page above")]
use crate::endpoint::Scope;
use crate::endpoint::{Endpoint, LentBy};
use crate::error::Error;
use crate::remote::{Refusal, Rights, Spot, Windows};

pub(crate) use element::bytes_of;
pub use element::{Element, elements};
pub use handle::{HANDLE_LEN, RegionHandle};
pub use joined::Joined;
pub use owned::OwnedRegion;

/// Notices of a region that wait to be taken. A put with a value that would bring one more is
/// refused.
pub const NOTICES_MAX: usize = 1 << 16;

/// A peer's put with a value has been done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Who.
    pub source: u32,
    /// The value that it gave along.
    pub value: u64,
    /// The first byte that it wrote.
    pub offset: u64,
    /// Bytes that it wrote.
    pub len: usize,
}

impl Notice {
    pub(crate) fn new(source: PeerId, value: u64, at: Spot, len: usize) -> Notice {
        Notice { source: source.0, value, offset: at.addr, len }
    }
}

/// Memory of this process that peers may reach: see the module's page. May be shared by threads.
///
/// Its bytes change while the program does something else, so it is no slice: the owner reads and
/// writes it by copies, or, for single numbers, by [`Endpoint::fetch_and_op`] and its siblings.
pub struct Region<'e> {
    endpoint: &'e Endpoint,
    windows: Arc<Windows>,
    handle: RegionHandle,
    lent_by: LentBy,
}

impl fmt::Debug for Region<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl<'e> Region<'e> {
    pub(crate) fn new(
        endpoint: &'e Endpoint,
        windows: Arc<Windows>,
        handle: RegionHandle,
        lent_by: LentBy,
    ) -> Region<'e> {
        Region { endpoint, windows, handle, lent_by }
    }

    /// What peers reach it by.
    pub fn handle(&self) -> RegionHandle {
        self.handle
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.handle.len as usize
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.handle.len == 0
    }

    /// Copies the bytes from `offset` on to `into`, as many as that has. Bytes that a peer writes
    /// in this moment may be old or new.
    ///
    /// # Errors
    /// [`Error::Region`] if they are not all inside.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.own(offset, into.len())?.read(0, into);
        Ok(())
    }

    /// Copies `bytes` to the region, from `offset` on.
    ///
    /// # Errors
    /// [`Error::Region`] if they would not all be inside.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.own(offset, bytes.len())?.write(0, bytes);
        Ok(())
    }

    /// Where it was registered.
    fn endpoint(&self) -> &'e Endpoint {
        self.endpoint
    }

    /// The region's bytes, to its owner: whatever its rights.
    fn own(&self, offset: u64, len: usize) -> Result<weft_sys::buf::Buf, Error> {
        let spot = self.handle.place(offset, len, Rights::default())?;
        self.windows.find(spot, len, Rights::default()).map_err(|refusal: Refusal| {
            Error::region(format!("this process's own region: {}", refusal.why_region()))
        })
    }

    /// The oldest notice that was not taken yet, if there is one; makes progress.
    pub fn try_notice(&self) -> Option<Notice> {
        self.endpoint.try_notice(self.handle.key)
    }

    /// As [`Region::try_notice`], but waits for one.
    ///
    /// # Errors
    /// [`Error::PeerDead`] or [`Error::PeerClosed`] when the last of the others is gone.
    pub fn wait_notice(&self) -> Result<Notice, Error> {
        self.endpoint.wait_notice(self.handle.key, None)
    }

    /// As [`Region::wait_notice`], for at most `timeout_ns`.
    ///
    /// # Errors
    /// As for [`Region::wait_notice`], and [`Error::TimedOut`].
    pub fn wait_notice_timeout(&self, timeout_ns: u64) -> Result<Notice, Error> {
        self.endpoint.wait_notice(self.handle.key, Some(timeout_ns))
    }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        self.endpoint.drop_region(self.handle.key, self.lent_by);
    }
}
