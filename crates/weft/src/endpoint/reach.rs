//! Regions of peers in the same node that this process reads and writes by itself, without their
//! owners' doing anything.
//!
//! Such a region is memory that Weft has allocated with the right to put, and behind it lies its
//! *mark*: the key, the length and the rights. The owner shows the memory to whom it has answered a
//! request for it; from then on that peer's operations look at the mark and copy. The mark is what
//! the owner checks otherwise, and is cleared when the region is dropped: who copies in that very
//! moment writes to memory that nobody uses any more.
//!
//! Other windows lie in memory of the program's own. Where they lie says the owner's
//! [directory](Directory), of which a peer is told with the first answer; it copies by cross-memory
//! attach.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use weft_sys::buf::Buf;
use weft_sys::mem::Mapping;
use weft_wire::{Envelope, Kind, PeerId};

use super::ops::Status;
use super::work::EndpointWork;
use crate::device::Device;
use crate::region::RegionHandle;
use crate::remote::{DIRECTORY_LEN, Directory, Rights, Spot, Visit, Windows};
use crate::shm::Regions;

/// Words of a mark.
const WORDS: usize = 3;

/// Regions of peers that are remembered; with more, all are found anew.
const KNOWN_MAX: usize = 1024;

/// Bytes of memory for a region of `len` bytes, and where its mark is.
pub(super) fn marked(len: usize) -> Option<(usize, usize)> {
    let mark = len.checked_next_multiple_of(64)?;
    Some((mark.checked_add(64)?, mark))
}

/// What the mark of a region says.
pub(super) fn mark(key: u64, len: u64, rights: Rights) -> [u64; WORDS] {
    [key, len, u64::from(rights.get) | u64::from(rights.put) << 1]
}

/// The mark as it lies in memory.
pub(super) fn mark_bytes(mark: [u64; WORDS]) -> Vec<u8> {
    mark.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// What is known of a peer's region.
enum Known {
    /// So many operations on it went by requests.
    Asked(u32),
    /// Where it begins. The device has the memory, until it hears that it is gone.
    At(Weak<Mapping>, usize),
}

/// A region that is reached, and whose mark is as its handle says: what the handle allows lies
/// before the mark, so that there is memory for all of it.
pub(super) struct Reached {
    memory: Arc<Mapping>,
    from: usize,
}

impl Reached {
    /// Copies to it.
    pub(super) fn put(&self, offset: u64, from: &Buf) {
        let done = self.memory.fill(self.from + offset as usize, from);
        debug_assert_eq!(done, from.len());
    }

    /// Copies from it.
    pub(super) fn get(&self, offset: u64, into: &Buf) {
        let done = self.memory.copy_to(self.from + offset as usize, into, 0, into.len());
        debug_assert_eq!(done, into.len());
    }
}

/// See the module's page.
#[derive(Default)]
pub(super) struct Reach {
    known: HashMap<(PeerId, u64), Known>,
    /// To whom which of this process's regions was shown; the directory counts as number 0.
    shown: HashSet<(PeerId, u64)>,
    /// Where memory for a directory is from: nowhere, if none may be made.
    pub(super) regions: Option<Arc<Regions>>,
    own: Option<Arc<Directory>>,
    directories: HashMap<PeerId, Told>,
}

/// The directory of a peer: where it is there, and here.
struct Told {
    addr: u64,
    memory: Weak<Mapping>,
    from: usize,
}

/// The number of the directory among regions that were shown.
const DIRECTORY: u64 = 0;

/// So many bytes are copied by oneself. To ask an owner who waits costs less than a call of the
/// kernel for fewer, and of more it copies half.
const ALONE: RangeInclusive<usize> = 512..=64 << 10;

impl Reach {
    /// A peer is gone.
    pub(super) fn bury(&mut self, peer: PeerId) {
        self.known.retain(|(of, _), _| *of != peer);
        self.shown.retain(|(to, _)| *to != peer);
        self.directories.remove(&peer);
    }

    /// Shows the directory to a peer that asks for memory of a window, if it was not and can be:
    /// gives where it is.
    pub(super) fn introduces(
        &mut self,
        device: &mut dyn Device,
        windows: &Windows,
        peer: PeerId,
    ) -> Option<u64> {
        if self.shown.contains(&(peer, DIRECTORY)) {
            return None;
        }
        // Who cannot copy by itself needs none.
        device.copy_pace(peer)?;
        if self.own.is_none() {
            let memory = self.regions.as_ref()?.allocate_open(DIRECTORY_LEN);
            let directory = Arc::new(Directory::new(memory.ok()?));
            windows.list_in(&directory);
            self.own = Some(directory);
        }
        let addr = self.own.as_ref()?.addr();
        self.shown.insert((peer, DIRECTORY));
        device.show(peer, addr, DIRECTORY_LEN).then_some(addr as u64)
    }

    /// The program wants to be told of what peers do, or the endpoint is being closed: peers ask
    /// for everything from now on.
    pub(super) fn introduces_no_more(&mut self, windows: &Windows) {
        self.regions = None;
        if let Some(own) = self.own.take() {
            windows.list_no_more(&own);
        }
    }

    /// A peer has told where its directory is.
    pub(super) fn told(&mut self, peer: PeerId, addr: u64) {
        self.directories.insert(peer, Told { addr, memory: Weak::new(), from: 0 });
    }

    /// The directory of a peer, and from which word on.
    pub(super) fn directory(
        &mut self,
        device: &mut dyn Device,
        peer: PeerId,
    ) -> Option<(Arc<Mapping>, usize)> {
        let told = self.directories.get_mut(&peer)?;
        if let Some(memory) = told.memory.upgrade() {
            return Some((memory, told.from));
        }
        let found = usize::try_from(told.addr).ok();
        match found.and_then(|addr| device.reach(peer, addr, DIRECTORY_LEN)) {
            Some((memory, from)) => {
                (told.memory, told.from) = (Arc::downgrade(&memory), from / size_of::<u64>());
                Some((memory, told.from))
            }
            None => {
                self.directories.remove(&peer);
                None
            }
        }
    }

    /// A region of this process is dropped.
    pub(super) fn dropped(&mut self, key: u64) {
        self.shown.retain(|(_, shown)| *shown != key);
    }

    /// A request of a peer for memory of a window is being answered: the peer is shown that memory,
    /// if it can be.
    pub(super) fn answers(
        &mut self,
        device: &mut dyn Device,
        windows: &Windows,
        (peer, key): (PeerId, u64),
    ) {
        if !self.shown.insert((peer, key)) {
            return;
        }
        if let Some((addr, len)) = windows.open_memory(key) {
            device.show(peer, addr, len);
        }
    }

    /// The memory of a region, if it can be reached now.
    fn find(&mut self, device: &mut dyn Device, handle: &RegionHandle) -> Option<Reached> {
        let (len, addr) = (usize::try_from(handle.len).ok()?, usize::try_from(handle.addr).ok()?);
        let (all, at_mark) = marked(len)?;
        let name = (PeerId(handle.rank), handle.key);
        if !self.known.contains_key(&name) && self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let known = self.known.entry(name).or_insert(Known::Asked(0));
        if let Known::Asked(times) = known {
            *times = times.saturating_add(1);
            // The first one has the owner show it. It may not be able to, or it comes later.
            if *times == 1 || !times.is_power_of_two() {
                return None;
            }
            let (memory, from) = device.reach(name.0, addr, all)?;
            *known = Known::At(Arc::downgrade(&memory), from);
        }
        let Known::At(memory, from) = known else { return None };
        let from = *from;
        let Some(memory) = memory.upgrade() else {
            self.known.insert(name, Known::Asked(0));
            return None;
        };
        let words: &[AtomicU64] = (*memory).as_ref();
        let said = (from + at_mark) / size_of::<u64>();
        let wanted = mark(handle.key, handle.len, handle.rights);
        // A handle that lies may say that it is anywhere.
        let there = words.get(said..).unwrap_or_default().iter();
        let said = there.take(WORDS).map(|word| word.load(Ordering::Acquire));
        if said.eq(wanted) {
            return Some(Reached { memory, from });
        }
        // It was dropped, or the handle is forged: the owner says so.
        self.known.insert(name, Known::Asked(0));
        None
    }
}

impl EndpointWork {
    /// Copies between `buf` and a peer's window, to there if it `puts`, by itself if that can be.
    /// `false`: it is to be asked for, also where that is certain to be refused.
    pub(super) fn copies_alone(&mut self, peer: PeerId, buf: &Buf, at: Spot, puts: bool) -> bool {
        if self.remote.reach.directories.is_empty() || !ALONE.contains(&buf.len()) {
            return false;
        }
        let Some((memory, from)) = self.remote.reach.directory(&mut *self.device, peer) else {
            return false;
        };
        let words: &[AtomicU64] = (*memory).as_ref();
        let wanted = Rights { get: !puts, put: puts };
        let words = words.get(from..).unwrap_or_default();
        let Some(visit) = Visit::begin(words, (at.key, at.addr), buf.len(), wanted) else {
            return false;
        };
        match puts {
            true => self.device.copy_out(peer, visit.addr, buf),
            false => self.device.copy_in(peer, visit.addr, buf),
        }
    }

    /// The memory of a peer's region, if this process reaches it by itself and nothing else is
    /// under way to its owner that comes first.
    pub(super) fn reached(&mut self, handle: &RegionHandle) -> Option<Reached> {
        if handle.addr == 0 {
            return None;
        }
        let idle = self.ops.len() == 0 || self.ops.remote_of(Some(PeerId(handle.rank))).is_empty();
        if idle { self.remote.reach.find(&mut *self.device, handle) } else { None }
    }
}

/// How an operation ended that was done at once.
pub(super) fn done(handle: &RegionHandle, kind: Kind, len: usize) -> Status {
    let envelope = Envelope { kind, ..Envelope::default() };
    Status { source: handle.rank, envelope, len }
}
