//! Which windows peers of the same node may read and write by themselves, through the kernel: a
//! *directory*, memory that an endpoint shows to those who ask for something. It says where a
//! window's memory lies; the peer copies with no help from its owner.
//!
//! Whoever copies is counted at the window, so that its owner can wait for the end of that when it
//! closes the window. A peer that lies gets no more than the kernel gives it anyway.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;

use super::Rights;

/// Windows that are listed at most. Each has one of some places by its key; where all of them are
/// taken, it is not listed.
const PLACES: usize = 128;
const PLACES_OF_KEY: usize = 4;

/// Words of a place. The state is odd while a window is listed there, and each time another number,
/// so that nobody takes a window for another one.
const WORDS: usize = 8;
const STATE: usize = 0;
const KEY: usize = 1;
const BASE: usize = 2;
const ADDR: usize = 3;
const LEN: usize = 4;
const RIGHTS: usize = 5;
const USERS: usize = 6;

/// Bytes of a directory.
pub(crate) const DIRECTORY_LEN: usize = PLACES * WORDS * size_of::<u64>();

/// A copy takes less than this, also by a process that waits for its processor. A peer that was
/// killed during one is counted for ever.
const COPY_NS: u64 = 20_000_000_000;

/// The directory of an endpoint of this process.
#[derive(Debug)]
pub(crate) struct Directory {
    memory: Buf,
}

/// What a directory says of a window.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    pub(super) key: u64,
    /// The number of its first byte, and where that is.
    pub(super) base: u64,
    pub(super) addr: u64,
    pub(super) len: u64,
    pub(super) rights: Rights,
}

impl Directory {
    /// In memory that is zeroed, shared with those who are shown it, and as long as it says.
    pub(crate) fn new(memory: Buf) -> Directory {
        debug_assert_eq!(memory.len(), DIRECTORY_LEN);
        Directory { memory }
    }

    /// Where it is.
    pub(crate) fn addr(&self) -> usize {
        self.memory.pieces().next().map_or(0, |piece| piece.addr())
    }

    fn get(&self, place: usize, word: usize) -> u64 {
        let mut bytes = [0; 8];
        self.memory.read((place * WORDS + word) * 8, &mut bytes);
        u64::from_ne_bytes(bytes)
    }

    fn set(&self, place: usize, word: usize, value: u64) {
        self.memory.write((place * WORDS + word) * 8, &value.to_ne_bytes());
    }

    /// Lists a window, if its place is free.
    pub(super) fn list(&self, window: Listed) {
        let is_free = |place: &usize| !self.lists(*place) && self.get(*place, USERS) == 0;
        let Some(place) = places_of(window.key).find(is_free) else { return };
        self.set(place, KEY, window.key);
        self.set(place, BASE, window.base);
        self.set(place, ADDR, window.addr);
        self.set(place, LEN, window.len);
        self.set(place, RIGHTS, rights_word(window.rights));
        fence(Ordering::Release);
        self.turn_over(place);
    }

    fn lists(&self, place: usize) -> bool {
        self.get(place, STATE) & 1 != 0
    }

    fn turn_over(&self, place: usize) {
        self.set(place, STATE, self.get(place, STATE).wrapping_add(1));
    }

    /// Lists it no longer: no copy is begun after this. Gives the places that it has, or had before
    /// the directory was cleared: somebody may still be copying.
    pub(super) fn remove(&self, key: u64) -> impl Iterator<Item = usize> {
        let its = places_of(key).filter(|&place| self.get(place, KEY) == key);
        its.filter(|&place| self.lists(place)).for_each(|place| self.turn_over(place));
        // Who is counted after this sees it.
        fence(Ordering::SeqCst);
        places_of(key).filter(move |&place| self.get(place, KEY) == key)
    }

    /// Whether somebody copies by it, or was killed when it did.
    pub(super) fn is_used(&self) -> bool {
        (0..PLACES).any(|place| self.get(place, USERS) != 0)
    }

    /// Lists nothing any more.
    pub(super) fn clear(&self) {
        (0..PLACES).filter(|&place| self.lists(place)).for_each(|place| self.turn_over(place));
        fence(Ordering::SeqCst);
    }
}

/// Peers that still copy to or from a window that was closed.
#[derive(Debug)]
pub(super) struct Copiers {
    pub(super) directory: std::sync::Arc<Directory>,
    pub(super) place: usize,
    pub(super) closed_ns: u64,
}

impl Copiers {
    pub(super) fn are_gone(&self) -> bool {
        fence(Ordering::SeqCst);
        self.directory.get(self.place, USERS) == 0
            || now_ns().saturating_sub(self.closed_ns) > COPY_NS
    }
}

/// Keys may be addresses, or counted: all of their bits decide.
fn places_of(key: u64) -> impl Iterator<Item = usize> {
    let first = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (0..PLACES_OF_KEY).map(move |next| (first as usize + next) % PLACES)
}

fn rights_word(rights: Rights) -> u64 {
    u64::from(rights.get) | u64::from(rights.put) << 1
}

/// Counts this process at a peer's window while it copies.
pub(crate) struct Visit<'a> {
    users: &'a AtomicU64,
    /// Where the bytes are, as the peer counts.
    pub(crate) addr: u64,
}

impl<'a> Visit<'a> {
    /// A visit to `len` bytes from number `at` on of the window of this key, if the directory,
    /// these words of a peer's memory, lists it with such rights.
    pub(crate) fn begin(
        words: &'a [AtomicU64],
        (key, at): (u64, u64),
        len: usize,
        wanted: Rights,
    ) -> Option<Visit<'a>> {
        let state = |place: &[AtomicU64]| {
            let state = place[STATE].load(Ordering::SeqCst);
            (state & 1 != 0 && place[KEY].load(Ordering::Acquire) == key).then_some(state)
        };
        let mut places = places_of(key).filter_map(|at| words.get(at * WORDS..(at + 1) * WORDS));
        let (place, before) = places.find_map(|place| Some((place, state(place)?)))?;
        let users = &place[USERS];
        users.fetch_add(1, Ordering::SeqCst);
        let mut visit = Visit { users, addr: 0 };
        let word = |word: usize| place[word].load(Ordering::Acquire);
        let (base, addr, all, rights) = (word(BASE), word(ADDR), word(LEN), word(RIGHTS));
        // From here on its owner waits, if it has not closed it meanwhile.
        if state(place) != Some(before) {
            return None;
        }
        let (offset, wanted) = (at.checked_sub(base)?, rights_word(wanted));
        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= all);
        visit.addr = addr.checked_add(offset)?;
        (fits && rights & wanted == wanted).then_some(visit)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.users.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory, and its words as a peer sees them.
    fn words(directory: &Directory) -> Vec<AtomicU64> {
        (0..PLACES * WORDS)
            .map(|at| AtomicU64::new(directory.get(at / WORDS, at % WORDS)))
            .collect()
    }

    fn listed(key: u64, addr: u64) -> Listed {
        Listed { key, base: 1000, addr, len: 64, rights: Rights::ALL }
    }

    #[test]
    fn a_visit_finds_what_is_listed_and_no_more() {
        let directory = Directory::new(Buf::from_vec(vec![0; DIRECTORY_LEN]));
        // All that want the places of the first one, of keys as addresses are.
        let first = 0x5561_ba89_6800;
        let same = |key: &u64| places_of(*key).next() == places_of(first).next();
        let keys: Vec<u64> =
            (0..).map(|n| first + (n << 12)).filter(same).take(PLACES_OF_KEY + 1).collect();
        for (at, key) in keys.iter().enumerate() {
            directory.list(listed(*key, 4096 * (at as u64 + 1)));
        }
        let seen = words(&directory);
        let visit =
            |key, at, len| Visit::begin(&seen, (key, at), len, Rights::ALL).map(|visit| visit.addr);
        let (last, rest) = keys.split_last().unwrap();
        for (at, key) in rest.iter().enumerate() {
            let addr = 4096 * (at as u64 + 1);
            assert_eq!(visit(*key, 1000, 64), Some(addr));
            assert_eq!(visit(*key, 1063, 1), Some(addr + 63));
            assert_eq!(visit(*key, 1063, 2), None);
            assert_eq!(visit(*key, 999, 1), None);
            assert_eq!(visit(*key, u64::MAX, usize::MAX), None);
        }
        assert_eq!(visit(*last, 1000, 1), None, "its places were taken");
        assert_eq!(visit(8, 1000, 1), None);
        assert!(seen.iter().skip(USERS).step_by(WORDS).all(|w| w.load(Ordering::Relaxed) == 0));
        assert!(Visit::begin(&seen[..1], (first, 1000), 1, Rights::ALL).is_none(), "cut short");
        let place: Vec<usize> = directory.remove(rest[1]).collect();
        assert_eq!(place.len(), 1);
        directory.list(listed(*last, 1 << 20));
        assert_eq!(directory.remove(*last).collect::<Vec<_>>(), place);
        directory.clear();
        let seen = words(&directory);
        let visits = |key: &u64| Visit::begin(&seen, (*key, 1000), 1, Rights::ALL).is_some();
        assert!(!keys.iter().any(visits));
    }

    #[test]
    fn a_window_is_not_taken_for_another_one_of_the_same_key() {
        let directory = Directory::new(Buf::from_vec(vec![0; DIRECTORY_LEN]));
        directory.list(listed(1, 4096));
        let place = directory.remove(1).next().unwrap();
        let state = directory.get(place, STATE);
        assert_eq!(state & 1, 0);
        directory.list(listed(1, 8192));
        assert_eq!((directory.lists(place), directory.get(place, STATE)), (true, state + 1));
        // One that was cleared is waited for, too.
        directory.set(place, USERS, 1);
        directory.clear();
        assert!(!directory.lists(place));
        assert_eq!(directory.remove(1).collect::<Vec<_>>(), [place]);
    }

    #[test]
    fn rights_are_looked_at() {
        let directory = Directory::new(Buf::from_vec(vec![0; DIRECTORY_LEN]));
        let (get, put) = (Rights { get: true, put: false }, Rights { get: false, put: true });
        directory.list(Listed { rights: get, ..listed(1, 4096) });
        directory.list(Listed { rights: put, ..listed(2, 4096) });
        let seen = words(&directory);
        let visits = |key, wanted| Visit::begin(&seen, (key, 1000), 1, wanted).is_some();
        assert_eq!(
            [visits(1, get), visits(1, put), visits(2, get), visits(2, put)],
            [true, false, false, true]
        );
    }

    #[test]
    fn who_copies_is_waited_for_but_not_for_ever() {
        let directory = std::sync::Arc::new(Directory::new(Buf::from_vec(vec![0; DIRECTORY_LEN])));
        directory.list(listed(3, 4096));
        let place = places_of(3).next().unwrap();
        directory.set(place, USERS, 1);
        assert_eq!(directory.remove(3).collect::<Vec<_>>(), [place]);
        let copiers = |closed_ns| Copiers { directory: directory.clone(), place, closed_ns };
        assert!(!copiers(now_ns()).are_gone());
        assert!(copiers(now_ns().saturating_sub(COPY_NS + 1)).are_gone());
        // One that was killed keeps the place.
        directory.list(listed(3, 8192));
        assert!(!directory.lists(place) && directory.remove(3).count() == 2);
        directory.set(place, USERS, 0);
        assert!(copiers(now_ns()).are_gone());
    }
}
