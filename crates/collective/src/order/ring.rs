//! Values by number, of which only those of a window are there at one time; its memory is used
//! again and again.

use std::sync::Arc;

/// See the module's page.
#[derive(Clone, Debug)]
pub(super) struct Ring<T> {
    /// Each with its number; none before the first use.
    slots: Vec<Option<(u64, T)>>,
    capacity: u64,
    /// What the capacity may grow to.
    most: u64,
    count: usize,
    /// The greatest number that was put in since it was empty.
    last: u64,
}

impl<T> Ring<T> {
    /// For windows of usually `usual` and at most `most` numbers.
    pub(super) fn new(usual: u64, most: u64) -> Ring<T> {
        let (capacity, most) = (usual.next_power_of_two(), most.next_power_of_two());
        Ring { slots: Vec::new(), capacity, most, count: 0, last: 0 }
    }

    /// How far apart the numbers in it may be.
    pub(super) fn reach(&self) -> u64 {
        self.most
    }

    fn at(&self, number: u64) -> usize {
        (number & (self.capacity - 1)) as usize
    }

    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let (known, value) = self.slots.get(self.at(number))?.as_ref()?;
        (*known == number).then_some(value)
    }

    /// Puts a value in, over one with the same number, or one that is a whole reach older.
    pub(super) fn insert(&mut self, number: u64, value: T) {
        if self.slots.is_empty() {
            self.slots.resize_with(self.capacity as usize, || None);
        }
        while self.capacity < self.most
            && matches!(&self.slots[self.at(number)], Some((known, _)) if *known != number)
        {
            self.grow();
        }
        let at = self.at(number);
        if self.slots[at].as_ref().is_some_and(|(known, _)| *known > number) {
            return;
        }
        self.last = if self.count == 0 { number } else { self.last.max(number) };
        self.count += usize::from(self.slots[at].is_none());
        self.slots[at] = Some((number, value));
    }

    #[cold]
    fn grow(&mut self) {
        self.capacity *= 2;
        let new = (0..self.capacity).map(|_| None).collect();
        for slot in std::mem::replace(&mut self.slots, new).into_iter().flatten() {
            let at = self.at(slot.0);
            self.slots[at] = Some(slot);
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let at = self.at(number);
        let slot = self.slots.get_mut(at)?;
        let (_, value) = slot.take_if(|(known, _)| *known == number)?;
        self.count -= 1;
        Some(value)
    }

    pub(super) fn clear(&mut self) {
        self.slots.iter_mut().for_each(|slot| *slot = None);
        self.count = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The greatest number that is in it, or was until lately; 0 where it is empty.
    pub(super) fn last(&self) -> u64 {
        if self.count == 0 { 0 } else { self.last }
    }
}

/// Bytes that are kept in several places.
pub(super) type Bytes = Arc<Vec<u8>>;

/// Memory that is used again once nobody keeps it.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Vec<Bytes>);

/// Pieces that a pool keeps.
const POOL_MAX: usize = 1024;

impl Pool {
    /// A copy of `bytes`.
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Bytes {
        let mut piece = self.0.pop().unwrap_or_default();
        match Arc::get_mut(&mut piece) {
            Some(memory) => {
                memory.clear();
                memory.extend_from_slice(bytes);
                piece
            }
            None => Arc::new(bytes.to_vec()),
        }
    }

    /// Takes a piece back, if this was the last place that kept it.
    pub(super) fn give_back(&mut self, mut piece: Bytes) {
        if self.0.len() < POOL_MAX && Arc::get_mut(&mut piece).is_some() {
            self.0.push(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_slides_over_a_ring() {
        let mut ring = Ring::new(6, 8);
        assert_eq!((ring.reach(), ring.remove(3), ring.last()), (8, None, 0));
        assert_eq!(ring.get(3), None);
        for number in 1..=8u64 {
            ring.insert(number, number);
        }
        assert_eq!((ring.last(), ring.remove(3), ring.remove(3)), (8, Some(3), None));
        ring.insert(11, 11);
        ring.insert(3, 3);
        assert_eq!((ring.get(3), ring.get(11)), (None, Some(&11)), "the old gives way to the new");
        ring.clear();
        assert!(ring.is_empty() && ring.get(8).is_none());
    }

    #[test]
    fn a_ring_grows_as_far_as_it_may_where_numbers_are_far_apart() {
        let mut ring = Ring::new(4, 16);
        for number in [2, 1, 9, 16, 5] {
            ring.insert(number, number);
        }
        assert!([1, 2, 5, 9, 16].iter().all(|n| ring.get(*n) == Some(n)));
        assert_eq!((ring.capacity, ring.count, ring.last()), (16, 5, 16));
        ring.insert(17, 17);
        assert_eq!((ring.get(1), ring.get(17), ring.capacity), (None, Some(&17), 16));
    }

    #[test]
    fn memory_is_used_again_when_nobody_keeps_it() {
        let mut pool = Pool::default();
        let first = pool.copy(b"abc");
        let kept = Arc::clone(&first);
        pool.give_back(first);
        assert!(pool.0.is_empty(), "it is still kept");
        pool.give_back(kept);
        assert_eq!(*pool.copy(b"d"), b"d");
        assert!(pool.0.is_empty());
    }
}
