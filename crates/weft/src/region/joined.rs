//! Joined buffers: two regions that are connected, each at one of two ranks. (The idea is CF's.)

use std::fmt;
use std::sync::{Mutex, PoisonError};

use weft_sys::buf::Buf;

use super::{Notice, Region, RegionHandle};
use crate::endpoint::{Endpoint, Request};
use crate::error::Error;

/// A join that has begun: this end is there, and the peer is told of it. Dropped, it is called off.
pub struct Joining<'e> {
    endpoint: &'e Endpoint,
    peer: u32,
    end: Option<(Region<'e>, Buf)>,
    /// The peer's word.
    came: Option<Request>,
}

impl<'e> Joining<'e> {
    pub(crate) fn new(
        endpoint: &'e Endpoint,
        peer: u32,
        (own, memory): (Region<'e>, Buf),
        came: Request,
    ) -> Joining<'e> {
        Joining { endpoint, peer, end: Some((own, memory)), came: Some(came) }
    }

    /// Waits for the peer for at most `timeout_ns`. `None`: it has not joined yet.
    ///
    /// # Errors
    /// As for [`Endpoint::join`]; [`Error::NoRequest`] once it has ended.
    pub fn wait_for(&mut self, timeout_ns: u64) -> Result<Option<Joined<'e>>, Error> {
        let came = self.came.take().ok_or(Error::NoRequest)?;
        let ended = match self.endpoint.wait_for(came, timeout_ns) {
            Ok(ended) => ended?,
            Err(came) => {
                self.came = Some(came);
                return Ok(None);
            }
        };
        let theirs = RegionHandle::from_bytes(&ended.buffer)?.of_peer(self.peer);
        let (own, memory) = self.end.take().ok_or(Error::NoRequest)?;
        Ok(Some(Joined { endpoint: self.endpoint, own, memory, theirs, long: Mutex::default() }))
    }
}

impl fmt::Debug for Joining<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "joining rank {}", self.peer)
    }
}

impl Drop for Joining<'_> {
    fn drop(&mut self) {
        if let Some(came) = self.came.take() {
            self.endpoint.cancel(&came);
            self.endpoint.detach(came);
        }
    }
}

/// One end of two joined buffers, made by [`Endpoint::join`]. A write moves any part of this end to
/// any place of the other one, with no matching and no call there; a flag wakes the other side.
///
/// ```
/// # use weft::{context::{Context, ContextOptions}, endpoint::Endpoint, wireup::Job};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut job = Job::single()?;
/// # let endpoint = Endpoint::new(Context::open(&mut job, &ContextOptions::default())?)?;
/// # let peer = endpoint.rank();
/// // Both ranks join their ends, here under the number 1.
/// let end = endpoint.join(peer, 1, 4096)?;
/// end.fill(0, b"hello")?;
/// end.write(0, 100, 5)?;
/// end.flag(7)?;
/// // The other side:
/// assert_eq!(end.wait_flag()?, 7);
/// let mut word = [0; 5];
/// end.look(100, &mut word)?;
/// assert_eq!(&word, b"hello");
/// # Ok(())
/// # }
/// ```
///
/// # Order
///
/// A flag is seen after all that was written before it, and after earlier flags; nothing is lost,
/// and nothing comes twice. What is written between two flags is unordered.
///
/// Threads may share an end: a flag is seen after what any of them had written before.
pub struct Joined<'e> {
    endpoint: &'e Endpoint,
    own: Region<'e>,
    memory: Buf,
    theirs: RegionHandle,
    /// Writes that a flag could overtake.
    long: Mutex<Vec<Request>>,
}

impl Joined<'_> {
    /// The rank at the other end.
    pub fn peer(&self) -> u32 {
        self.theirs.rank()
    }

    /// Bytes of this end.
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Whether this end has no bytes.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// Bytes of the other end.
    pub fn peer_len(&self) -> u64 {
        self.theirs.len()
    }

    /// Copies `bytes` into this end, from `offset` on.
    ///
    /// # Errors
    /// [`Error::Region`] if they would not all be inside.
    pub fn fill(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.own.write(offset, bytes)
    }

    /// Copies bytes of this end, from `offset` on, to `into`, as many as that has.
    ///
    /// # Errors
    /// [`Error::Region`] if they are not all inside.
    pub fn look(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.own.read(offset, into)
    }

    /// Starts to move `len` bytes of this end, from byte `from` on, to byte `to` of the other one.
    /// They must not be changed before the next flag has been given, or a [`Joined::flush`].
    ///
    /// # Errors
    /// [`Error::Region`] if they are not all inside, here or there; [`Error::PeerDead`],
    /// [`Error::PeerClosed`].
    pub fn write(&self, from: u64, to: u64, len: usize) -> Result<(), Error> {
        self.own.handle().place(from, len, super::Rights::default())?;
        let bytes = self.memory.range(from as usize, len);
        let (request, is_long) = self.endpoint.put_from(&self.theirs, to, &bytes, None)?;
        if is_long {
            let mut long = self.long.lock().unwrap_or_else(PoisonError::into_inner);
            long.push(request);
        } else {
            self.endpoint.detach(request);
        }
        Ok(())
    }

    /// Gives the other side a flag: it is seen there after all that was written before. Waits for
    /// long writes that it could overtake.
    ///
    /// # Errors
    /// As for [`Joined::write`]; [`Error::Refused`] for a long write if the other end is gone.
    pub fn flag(&self, value: u64) -> Result<(), Error> {
        self.settle(None)?;
        let (request, _) = self.endpoint.put_from(&self.theirs, 0, &Buf::empty(), Some(value))?;
        self.endpoint.detach(request);
        Ok(())
    }

    /// Waits until all that was written is there, and all flags.
    ///
    /// # Errors
    /// How the first of them failed.
    pub fn flush(&self) -> Result<(), Error> {
        self.settle(None)?;
        self.endpoint.flush(self.theirs.rank())
    }

    /// Waits, for at most `timeout_ns`, for long writes that a flag could overtake: without any, a
    /// flag does not wait. `false`: some are still under way.
    ///
    /// # Errors
    /// As for [`Joined::flag`].
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn settle_for(&self, timeout_ns: u64) -> Result<bool, Error> {
        self.settle(Some(timeout_ns))
    }

    fn settle(&self, timeout_ns: Option<u64>) -> Result<bool, Error> {
        // Held meanwhile: another thread's flag is to be after the same writes.
        let mut long = self.long.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.endpoint.have_ended(&long, timeout_ns) {
            return Ok(false);
        }
        self.endpoint.wait_all(std::mem::take(&mut *long)).map(|_| true)
    }

    /// This end's memory.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn memory(&self) -> &Buf {
        &self.memory
    }

    /// The oldest flag that was not taken yet, if there is one; makes progress.
    pub fn try_flag(&self) -> Option<u64> {
        self.own.try_notice().map(|Notice { value, .. }| value)
    }

    /// As [`Joined::try_flag`], but waits for one.
    ///
    /// # Errors
    /// [`Error::PeerDead`] or [`Error::PeerClosed`] when the other side is gone.
    pub fn wait_flag(&self) -> Result<u64, Error> {
        self.endpoint.notice_of(&self.own.handle(), self.peer(), None).map(|notice| notice.value)
    }

    /// As [`Joined::wait_flag`], for at most `timeout_ns`.
    ///
    /// # Errors
    /// As for [`Joined::wait_flag`], and [`Error::TimedOut`].
    pub fn wait_flag_timeout(&self, timeout_ns: u64) -> Result<u64, Error> {
        let notice = self.endpoint.notice_of(&self.own.handle(), self.peer(), Some(timeout_ns))?;
        Ok(notice.value)
    }
}

impl fmt::Debug for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes joined with {} of rank {}", self.len(), self.peer_len(), self.peer())
    }
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let long = self.long.get_mut().unwrap_or_else(PoisonError::into_inner);
        for request in long.drain(..) {
            self.endpoint.detach(request);
        }
    }
}
