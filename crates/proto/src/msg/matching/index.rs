//! A hash table from a key to the queue of the slots that have it, oldest first.
//!
//! Open addressing with linear probing and backward-shift deletion: no tombstones, so that the
//! table is as fast after a million matches as after one. Keys are not stored: the caller compares
//! with the first slot of a queue. That the slots of one key share a bucket keeps a search O(1)
//! also where ten thousand messages have the same key.

use super::queue::{Ends, Links};
use super::slab::NIL;

const LEAST_BUCKETS: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    ends: Ends,
}

const EMPTY: Bucket = Bucket { hash: 0, ends: Ends::EMPTY };

/// The table. It is allocated at the first key, and grows at half full.
#[derive(Debug, Default)]
pub(super) struct Index {
    buckets: Vec<Bucket>,
    keys: usize,
}

impl Index {
    /// The bucket whose key has this hash and satisfies `same`, or the empty one where it would be.
    /// The table has at least one empty bucket.
    #[inline]
    fn find(&self, hash: u32, same: impl Fn(Ends) -> bool) -> usize {
        let mask = self.buckets.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let bucket = &self.buckets[at];
            if bucket.ends.is_empty() || (bucket.hash == hash && same(bucket.ends)) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// The oldest slot of a key, or [`NIL`], and the bucket, valid until the next change:
    /// `same` says whether a slot has the key.
    #[inline]
    pub(super) fn first(&self, hash: u32, same: impl Fn(u32) -> bool) -> (u32, usize) {
        if self.keys == 0 {
            return (NIL, 0);
        }
        let at = self.find(hash, |ends| same(ends.first));
        (self.buckets[at].ends.first, at)
    }

    /// Puts a slot at the end of its key's queue.
    #[inline]
    pub(super) fn append(
        &mut self,
        links: &mut Links,
        slot: u32,
        hash: u32,
        same: impl Fn(u32) -> bool,
    ) {
        if self.keys * 2 >= self.buckets.len() {
            self.resize((self.buckets.len() * 2).max(LEAST_BUCKETS));
        }
        let at = self.find(hash, |ends| same(ends.first));
        let bucket = &mut self.buckets[at];
        self.keys += usize::from(bucket.ends.is_empty());
        bucket.hash = hash;
        links.append(&mut bucket.ends, slot);
    }

    /// Takes a slot, which is in the table under this hash, out of its key's queue.
    #[inline]
    pub(super) fn remove(
        &mut self,
        links: &mut Links,
        slot: u32,
        hash: u32,
        same: impl Fn(u32) -> bool,
    ) {
        let at = self.find(hash, |ends| ends.first == slot || same(ends.first));
        self.remove_at(links, slot, at);
    }

    /// Takes a slot out of the queue of a bucket that [`Index::first`] gave.
    #[inline]
    pub(super) fn remove_at(&mut self, links: &mut Links, slot: u32, at: usize) {
        let bucket = &mut self.buckets[at];
        debug_assert!(!bucket.ends.is_empty(), "slot {slot} is not in the index");
        links.unlink(&mut bucket.ends, slot);
        if bucket.ends.is_empty() {
            self.keys -= 1;
            self.close_gap(at);
        }
    }

    /// Moves later buckets of the same run back over an emptied one, so that no search ends early.
    #[inline]
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.buckets.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let bucket = self.buckets[at];
            if bucket.ends.is_empty() {
                break;
            }
            let home = bucket.hash as usize & mask;
            // It may move if its home is not within (gap, at].
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.buckets[gap] = bucket;
                gap = at;
            }
        }
        self.buckets[gap] = EMPTY;
    }

    /// Gives the memory back that a passed peak has left.
    pub(super) fn shrink(&mut self) {
        let fitting = (self.keys * 4).next_power_of_two().max(LEAST_BUCKETS);
        if fitting < self.buckets.len() {
            self.resize(fitting);
        }
    }

    #[cold]
    fn resize(&mut self, buckets: usize) {
        let old = std::mem::replace(&mut self.buckets, vec![EMPTY; buckets]);
        let mask = buckets - 1;
        for bucket in old.into_iter().filter(|b| b.ends.first != NIL) {
            let mut at = bucket.hash as usize & mask;
            while !self.buckets[at].ends.is_empty() {
                at = (at + 1) & mask;
            }
            self.buckets[at] = bucket;
        }
    }

    /// Buckets allocated, for tests of memory.
    #[cfg(test)]
    pub(super) fn buckets(&self) -> usize {
        self.buckets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots 0..n with chosen hashes and keys.
    struct Table {
        index: Index,
        links: Links,
        keys: Vec<(u32, u32)>,
    }

    impl Table {
        fn append(&mut self, hash: u32, key: u32) -> u32 {
            let slot = self.keys.len() as u32;
            self.keys.push((hash, key));
            let keys = &self.keys;
            self.index.append(&mut self.links, slot, hash, |s| keys[s as usize] == (hash, key));
            slot
        }

        fn remove(&mut self, slot: u32) {
            let keys = &self.keys;
            let (hash, key) = keys[slot as usize];
            self.index.remove(&mut self.links, slot, hash, |s| keys[s as usize] == (hash, key));
        }

        fn queue(&self, hash: u32, key: u32) -> Vec<u32> {
            let (first, _) = self.index.first(hash, |s| self.keys[s as usize] == (hash, key));
            self.links.iter(first).collect()
        }
    }

    #[test]
    fn keys_of_one_hash_stay_apart_and_survive_removals() {
        let mut t = Table { index: Index::default(), links: Links::default(), keys: Vec::new() };
        // All of them begin at the last buckets, so that the runs wrap round the table's end.
        let slots: Vec<u32> = (0..6).map(|n| t.append(14 + n / 3, n % 3)).collect();
        let more = t.append(14, 1);
        assert_eq!(t.queue(14, 1), [slots[1], more]);
        t.remove(slots[0]);
        t.remove(slots[1]);
        assert_eq!((t.queue(14, 0), t.queue(14, 1)), (vec![], vec![more]));
        for (n, &slot) in slots.iter().enumerate().skip(2) {
            assert_eq!(t.queue(14 + n as u32 / 3, n as u32 % 3), [slot]);
        }
        t.remove(more);
        for &slot in &slots[2..] {
            t.remove(slot);
            assert_eq!(t.queue(t.keys[slot as usize].0, t.keys[slot as usize].1), []);
        }
        assert_eq!(t.index.keys, 0);
    }

    #[test]
    fn the_table_grows_and_shrinks() {
        let mut t = Table { index: Index::default(), links: Links::default(), keys: Vec::new() };
        assert_eq!(t.queue(3, 3), []);
        for n in 0..1000u32 {
            t.append(n.wrapping_mul(0x9E37_79B9), n);
        }
        assert!(t.index.buckets() >= 2000);
        for n in (0..1000).filter(|n| n % 100 != 7) {
            t.remove(n);
        }
        t.index.shrink();
        assert!(t.index.buckets() <= 64);
        for n in (7..1000).step_by(100) {
            assert_eq!(t.queue((n as u32).wrapping_mul(0x9E37_79B9), n as u32), [n as u32]);
        }
    }
}
