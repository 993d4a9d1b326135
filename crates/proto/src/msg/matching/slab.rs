//! Numbered places for entries, reused in steady state and given back after peaks.

/// "No slot": the end of a list, or an empty bucket.
pub(super) const NIL: u32 = u32::MAX;

/// Slots that are never given back: what a small program needs at all times.
const KEPT: usize = 256;

/// From this many slots on, all of them are given back as soon as the slab is empty. Below it,
/// filling the slab again and again costs no allocation; above, the allocations are few for each
/// thousand entries.
const LARGE: usize = 1 << 14;

#[derive(Debug)]
enum Slot<T> {
    /// The next free slot, or [`NIL`].
    Free(u32),
    Used(T),
}

/// A growing array of slots with a list of the free ones. A slot keeps its number while it is used.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    len: usize,
    /// Entries taken out since the current window began; a window is as many as there are slots.
    taken: usize,
    /// The largest `len` within the current window.
    peak: usize,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: NIL, len: 0, taken: 0, peak: 0 }
    }

    /// Entries.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Slots, used and free: every slot number is below it.
    #[inline]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Puts an entry into a free slot and gives the slot's number.
    #[inline]
    pub(super) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        self.peak = self.peak.max(self.len);
        let slot = self.free;
        if slot == NIL {
            return self.push(value);
        }
        let place = &mut self.slots[slot as usize];
        if let Slot::Free(next) = *place {
            self.free = next;
        }
        *place = Slot::Used(value);
        slot
    }

    #[cold]
    fn push(&mut self, value: T) -> u32 {
        let slot = u32::try_from(self.slots.len()).unwrap_or(NIL);
        assert!(slot < NIL, "more than four thousand million entries in one matching queue");
        self.slots.push(Slot::Used(value));
        slot
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        match self.slots.get(slot as usize) {
            Some(Slot::Used(value)) => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        match self.slots.get_mut(slot as usize) {
            Some(Slot::Used(value)) => Some(value),
            _ => None,
        }
    }

    /// Takes an entry out; `None` where the slot is free.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> Option<T> {
        let place = self.slots.get_mut(slot as usize)?;
        if let Slot::Free(_) = place {
            return None;
        }
        let Slot::Used(value) = std::mem::replace(place, Slot::Free(self.free)) else {
            return None;
        };
        self.free = slot;
        self.len -= 1;
        self.taken += 1;
        Some(value)
    }

    /// The used slots in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, place)| match place {
            Slot::Used(value) => Some((slot as u32, value)),
            Slot::Free(_) => None,
        })
    }

    /// Gives memory back where a peak has passed, and says whether it did: the number of slots may
    /// then be smaller. A call costs a comparison, nearly always.
    #[inline]
    pub(super) fn trim(&mut self) -> bool {
        let slots = self.slots.len();
        if slots <= KEPT || (self.taken < slots && (self.len > 0 || slots < LARGE)) {
            return false;
        }
        self.trim_now()
    }

    #[cold]
    fn trim_now(&mut self) -> bool {
        let slots = self.slots.len();
        let quiet = self.peak.saturating_mul(8) <= slots || self.len == 0 && slots >= LARGE;
        self.taken = 0;
        self.peak = self.len;
        if !quiet {
            return false;
        }
        let keep = self.slots.iter().rposition(|s| matches!(s, Slot::Used(_))).map_or(0, |s| s + 1);
        self.slots.truncate(keep.max(KEPT));
        self.slots.shrink_to_fit();
        // The low slots first, so that the high ones become free for the next time.
        self.free = NIL;
        for (slot, place) in self.slots.iter_mut().enumerate().rev() {
            if let Slot::Free(next) = place {
                *next = self.free;
                self.free = slot as u32;
            }
        }
        self.slots.len() < slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_keep_their_numbers() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab.get(a), slab.get(b), slab.len()), (Some(&'c'), Some(&'b'), 2));
        assert_eq!(slab.get(NIL), None);
        assert_eq!(slab.remove(7), None);
        assert_eq!(slab.slots(), 2);
    }

    #[test]
    fn a_repeated_peak_keeps_its_memory_and_a_passed_one_gives_it_back() {
        let mut slab = Slab::new();
        // Miri is a thousand times slower.
        let many = if cfg!(miri) { 400 } else { 4000 };
        for _ in 0..20 {
            let slots: Vec<u32> = (0..many).map(|n| slab.insert(n)).collect();
            for slot in slots {
                slab.remove(slot);
                assert!(!slab.trim());
            }
        }
        assert_eq!(slab.slots(), many);
        let stays = slab.insert(0);
        let mut trimmed = 0;
        for n in 0..3 * many {
            let slot = slab.insert(n);
            slab.remove(slot);
            trimmed += u32::from(slab.trim());
        }
        assert_eq!((trimmed, slab.slots()), (1, KEPT.max(stays as usize + 1)));
        assert_eq!(slab.get(stays), Some(&0));
    }

    // Too many entries for Miri, and no other code than in the test above.
    #[cfg(not(miri))]
    #[test]
    fn a_large_slab_is_given_back_when_empty() {
        let mut slab = Slab::new();
        let slots: Vec<u32> = (0..LARGE).map(|n| slab.insert(n)).collect();
        for slot in slots {
            slab.remove(slot);
        }
        assert!(slab.trim());
        assert_eq!(slab.slots(), KEPT);
        assert!(slab.slots.capacity() < 2 * KEPT);
    }
}
