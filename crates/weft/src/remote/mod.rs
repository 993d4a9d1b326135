//! Remote memory: *windows*, pieces of this process's memory that its peers may read, write and
//! change by atomic operations, without its program's help (the idea is MCD's and CF's). A program
//! that registers memory has a window of it as a [`Region`](crate::region::Region).
//!
//! A window is reached by its key only, inside its bounds, and with the rights it was opened with.
//! What a peer asks for is done by the calls of the process that has the window, or by its tender
//! while it computes. The operations themselves are an endpoint's
//! ([`Turn`](crate::boundary::Turn)).

mod atomic;
mod directory;
mod fold;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_sys::cpu;

use crate::error::Error;

pub(crate) use atomic::Change;
pub use atomic::{AtomicOp, ELEMENTS_MAX, Scalar};
use directory::{Copiers, Listed};
pub(crate) use directory::{DIRECTORY_LEN, Directory, Visit};
pub(crate) use fold::{fold, reduces};

/// The first key that is given out where none was asked for. Keys that programs choose are small,
/// most often.
const FIRST_KEY: u64 = 1 << 32;

/// What peers may do with a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights {
    /// Read it.
    pub get: bool,
    /// Write it. Atomic operations need the right to write, and those that give the former value
    /// the right to read as well.
    pub put: bool,
}

impl Rights {
    /// To read and to write.
    pub const ALL: Rights = Rights { get: true, put: true };

    fn cover(self, wanted: Rights) -> bool {
        (self.get || !wanted.get) && (self.put || !wanted.put)
    }
}

/// A place in a peer's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// The window's key.
    pub key: u64,
    /// The first byte, counted as the window's owner said: from 0, or by its own addresses.
    pub addr: u64,
}

/// Why a request for a window's memory is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Refusal {
    /// There is no window with this key.
    Key = 1,
    /// The bytes are not all inside it.
    Bounds = 2,
    /// It was opened without the right.
    Rights = 3,
    /// The request makes no sense.
    Nonsense = 4,
    /// It is one of several that are one operation, and there are too many such.
    Shares = 5,
    /// Its bytes could not be had from the asker.
    Lost = 6,
    /// It has a word along, and too many such wait there.
    Notices = 7,
}

impl Refusal {
    /// From its number on the wire.
    pub(crate) fn from_code(code: u8) -> Refusal {
        match code {
            1 => Refusal::Key,
            2 => Refusal::Bounds,
            3 => Refusal::Rights,
            5 => Refusal::Shares,
            6 => Refusal::Lost,
            7 => Refusal::Notices,
            _ => Refusal::Nonsense,
        }
    }

    /// For a program, which knows windows as regions.
    pub(crate) fn why_region(self) -> &'static str {
        match self {
            Refusal::Key => {
                "it has no such region: it was dropped, or the handle is of another job or rank; \
                 have its owner send a new handle"
            }
            Refusal::Bounds => "the bytes are not all inside the region",
            Refusal::Rights => "the region was registered without the right to do this",
            other => other.why(),
        }
    }

    /// For people.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Refusal::Key => "it has no window with this key: was it closed, or not opened yet?",
            Refusal::Bounds => "the bytes are not all inside the window",
            Refusal::Rights => "the window was opened without the right to do this",
            Refusal::Shares => {
                "too many operations of several requests each have begun there and not ended: wait \
                 for some before more are begun"
            }
            Refusal::Lost => {
                "the bytes could not be read from this process's memory: was it freed or unmapped \
                 before the operation had ended?"
            }
            Refusal::Notices => {
                "too many notices wait at the region: its owner must take some first (`try_notice`)"
            }
            Refusal::Nonsense => "the request cannot be read: is Weft the same on all nodes?",
        }
    }
}

struct Window {
    buf: Buf,
    token: Arc<()>,
    rights: Rights,
    base: u64,
    /// Of memory that peers may reach by themselves: what lies behind it, cleared at the end.
    mark: Option<Buf>,
}

#[derive(Default)]
struct Table {
    by_key: HashMap<u64, Window>,
    given: u64,
    regions: RegionKeys,
    /// Where windows are listed that peers of the node reach by themselves, and whether new ones
    /// are: who was copying when a directory was given up is waited for all the same.
    directories: Vec<(Arc<Directory>, bool)>,
}

impl Table {
    fn find(&self, spot: Spot, len: usize, rights: Rights) -> Result<Buf, Refusal> {
        let window = self.by_key.get(&spot.key).ok_or(Refusal::Key)?;
        if !window.rights.cover(rights) {
            return Err(Refusal::Rights);
        }
        let offset = spot.addr.checked_sub(window.base).ok_or(Refusal::Bounds)?;
        let offset = usize::try_from(offset).map_err(|_| Refusal::Bounds)?;
        if offset.checked_add(len).is_none_or(|end| end > window.buf.len()) {
            return Err(Refusal::Bounds);
        }
        Ok(window.buf.range(offset, len))
    }
}

impl Window {
    /// As a directory has it, which has no regions: those have marks.
    fn listed(&self, key: u64) -> Option<Listed> {
        let mut pieces = self.buf.pieces();
        let (Some(whole), None) = (pieces.next(), pieces.next()) else { return None };
        let (base, rights, addr) = (self.base, self.rights, whole.addr() as u64);
        let listed = Listed { key, base, addr, len: self.buf.len() as u64, rights };
        (key < FIRST_REGION_KEY).then_some(listed)
    }
}

/// Keys of regions are not less.
pub(crate) const FIRST_REGION_KEY: u64 = 1 << 63;

/// The keys of regions: none is given twice, and a handle of another process, or of another job,
/// names none of them. So the upper half is drawn, and the lower one counted.
#[derive(Default)]
struct RegionKeys {
    drawn: u32,
    count: u32,
}

impl RegionKeys {
    fn next(&mut self) -> Result<u64, Error> {
        self.count = self.count.wrapping_add(1);
        if self.drawn == 0 || self.count == 0 {
            let mut drawn = [0; 4];
            cpu::random(&mut drawn)
                .map_err(|e| Error::system("drawing a number for a region's key", &e))?;
            // Keys that programs choose, and those that windows are given, are small.
            self.drawn = u32::from_ne_bytes(drawn) | 1 << 31;
        }
        Ok(u64::from(self.drawn) << 32 | u64::from(self.count))
    }
}

/// Held for each change: several threads, and the same memory in several [`Windows`], are possible.
static CHANGES: Mutex<()> = Mutex::new(());

/// The windows of a process, or of a part of it. May be shared by threads and endpoints.
#[derive(Default)]
pub struct Windows {
    table: Mutex<Table>,
}

/// A window that was closed while a peer's request still used its memory.
#[derive(Debug)]
#[must_use = "the memory may be used until `is_over`"]
pub struct Closing {
    token: Arc<()>,
    copiers: Vec<Copiers>,
}

impl Closing {
    /// Whether nobody uses the memory any more. Until then the endpoints must make progress.
    pub fn is_over(&self) -> bool {
        Arc::strong_count(&self.token) == 1 && self.copiers.iter().all(Copiers::are_gone)
    }
}

impl Windows {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a window on `buf`, under `key` or, if that is `None`, one that is free. Peers name its
    /// bytes by numbers from `base` on. The memory must stay valid until the window has been closed
    /// and [`Closing::is_over`].
    ///
    /// # Errors
    /// [`Error::KeyTaken`].
    pub fn open(
        &self,
        key: Option<u64>,
        buf: &Buf,
        rights: Rights,
        base: u64,
    ) -> Result<u64, Error> {
        let mut table = self.table();
        let key = key.unwrap_or_else(|| {
            while table.by_key.contains_key(&(FIRST_KEY + table.given)) {
                table.given += 1;
            }
            FIRST_KEY + table.given
        });
        match table.by_key.entry(key) {
            Entry::Occupied(_) => Err(Error::KeyTaken { key }),
            Entry::Vacant(place) => {
                let token = Arc::new(());
                let buf = buf.with_token(&token);
                let window = place.insert(Window { buf, token, rights, base, mark: None });
                if let Some(listed) = window.listed(key) {
                    let lists = table.directories.iter().filter(|(_, lists)| *lists);
                    lists.for_each(|(directory, _)| directory.list(listed));
                }
                Ok(key)
            }
        }
    }

    /// Opens the window of a region, under a key that no other ever had. Memory that is `lent` must
    /// stay valid as [`Windows::open`] says; other memory lives as long as it is used.
    pub(crate) fn open_region(
        &self,
        buf: &Buf,
        rights: Rights,
        lent: bool,
        mark: Option<Buf>,
    ) -> Result<u64, Error> {
        let mut table = self.table();
        let mut key = table.regions.next()?;
        while table.by_key.contains_key(&key) {
            key = table.regions.next()?;
        }
        let token = Arc::new(());
        let buf = if lent { buf.with_token(&token) } else { buf.clone() };
        table.by_key.insert(key, Window { buf, token, rights, base: 0, mark });
        Ok(key)
    }

    /// Whether there is a window with this key.
    pub(crate) fn has(&self, key: u64) -> bool {
        self.table().by_key.contains_key(&key)
    }

    /// Closes a window; `None` if there is none with this key.
    pub fn close(&self, key: u64) -> Option<Closing> {
        let mut table = self.table();
        let window = table.by_key.remove(&key)?;
        let closed_ns = now_ns();
        let mut copiers = Vec::new();
        for (directory, _) in &table.directories {
            let of = |place| Copiers { directory: Arc::clone(directory), place, closed_ns };
            copiers.extend(directory.remove(key).map(of));
        }
        if let Some(mark) = &window.mark {
            mark.write(0, &vec![0; mark.len()]);
        }
        Some(Closing { token: window.token, copiers })
    }

    /// Lists all windows there, now and until [`Windows::list_no_more`].
    pub(crate) fn list_in(&self, directory: &Arc<Directory>) {
        let mut table = self.table();
        table.directories.retain(|(known, lists)| *lists || known.is_used());
        table.directories.push((Arc::clone(directory), true));
        let listed = table.by_key.iter().filter_map(|(key, window)| window.listed(*key));
        listed.for_each(|listed| directory.list(listed));
    }

    /// Lists nothing there any more.
    pub(crate) fn list_no_more(&self, directory: &Arc<Directory>) {
        let mut table = self.table();
        let known = table.directories.iter_mut().find(|(known, _)| Arc::ptr_eq(known, directory));
        if let Some((_, lists)) = known {
            *lists = false;
        }
        directory.clear();
    }

    /// Where the memory of a window that peers may reach by themselves begins, and its bytes with
    /// the mark.
    pub(crate) fn open_memory(&self, key: u64) -> Option<(usize, usize)> {
        let table = self.table();
        let window = table.by_key.get(&key)?;
        let addr = |buf: &Buf| buf.pieces().next().map(|piece| piece.addr());
        let (from, mark) = (addr(&window.buf)?, window.mark.as_ref()?);
        Some((from, addr(mark)?.checked_sub(from)? + mark.len()))
    }

    /// The memory at `spot`.
    pub(crate) fn find(&self, spot: Spot, len: usize, rights: Rights) -> Result<Buf, Refusal> {
        self.table().find(spot, len, rights)
    }

    /// Makes a change in one step, as far as other changes by this process are concerned; gives
    /// what was there before to `former`.
    pub(crate) fn change(
        &self,
        spot: Spot,
        change: &Change<'_>,
        fetch: bool,
        former: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let rights = Rights { get: fetch, put: change.op != AtomicOp::Read };
        let buf = self.table().find(spot, change.len(), rights)?;
        let _alone = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        if change.apply(&buf, former) { Ok(()) } else { Err(Refusal::Nonsense) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(windows: &Windows, addr: u64, len: usize, rights: Rights) -> Result<usize, Refusal> {
        windows.find(Spot { key: 7, addr }, len, rights).map(|buf| buf.len())
    }

    #[test]
    fn memory_is_reached_by_key_inside_its_bounds_with_its_rights_only() {
        let windows = Windows::default();
        let buf = Buf::from_vec(vec![0; 16]);
        let read = Rights { get: true, put: false };
        assert_eq!(windows.open(Some(7), &buf, read, 100), Ok(7));
        assert_eq!(windows.open(Some(7), &buf, read, 0), Err(Error::KeyTaken { key: 7 }));
        assert_eq!(find(&windows, 100, 16, read), Ok(16));
        assert_eq!(find(&windows, 116, 0, read), Ok(0));
        assert_eq!(find(&windows, 99, 1, read), Err(Refusal::Bounds));
        assert_eq!(find(&windows, 116, 1, read), Err(Refusal::Bounds));
        assert_eq!(find(&windows, 101, usize::MAX, read), Err(Refusal::Bounds));
        assert_eq!(find(&windows, u64::MAX, 2, read), Err(Refusal::Bounds));
        assert_eq!(find(&windows, 100, 1, Rights::ALL), Err(Refusal::Rights));
        assert!(windows.close(7).unwrap().is_over());
        assert_eq!(find(&windows, 100, 1, read), Err(Refusal::Key));
        assert!(windows.close(7).is_none());
    }

    #[test]
    fn no_region_gets_the_key_of_another() {
        let (windows, other) = (Windows::default(), Windows::default());
        let buf = Buf::from_vec(vec![0; 8]);
        let mut keys = Vec::new();
        for round in 0..100 {
            let of = if round % 2 == 0 { &windows } else { &other };
            let key = of.open_region(&buf, Rights::ALL, round % 3 == 0, None).unwrap();
            assert!(of.has(key) && of.close(key).unwrap().is_over() && !of.has(key));
            keys.push(key);
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 100);
    }

    #[test]
    fn memory_of_a_dropped_region_lives_while_it_is_used() {
        let windows = Windows::default();
        let key =
            windows.open_region(&Buf::from_vec(vec![7; 8]), Rights::ALL, false, None).unwrap();
        let used = windows.find(Spot { key, addr: 0 }, 8, Rights::ALL).unwrap();
        assert!(windows.close(key).unwrap().is_over());
        let mut bytes = [0; 8];
        assert_eq!((used.read(0, &mut bytes), bytes), (8, [7; 8]));
    }

    #[test]
    fn a_closed_window_says_when_its_memory_is_free() {
        let windows = Windows::default();
        let key = windows.open(None, &Buf::from_vec(vec![0; 8]), Rights::ALL, 0).unwrap();
        let other = windows.open(None, &Buf::from_vec(vec![0; 8]), Rights::ALL, 0).unwrap();
        assert_ne!(key, other);
        let used = windows.find(Spot { key, addr: 4 }, 4, Rights::ALL).unwrap();
        let closing = windows.close(key).unwrap();
        assert!(!closing.is_over());
        drop(used);
        assert!(closing.is_over());
    }
}
