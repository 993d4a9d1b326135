//! Unexpected messages: one list in the order of arrival, and tables for the shapes of searches
//! that would look far into it.

use super::index::Index;
use super::queue::{Ends, Links};
use super::shape::Shape;
use super::slab::{NIL, Slab};
use super::{Arrival, Want};

/// Messages that a search looks at, one after the other, before it makes a table: about where the
/// walk begins to cost more than a look-up.
const WALK: usize = 8;

/// Tables at one time. A search of yet another shape replaces the one made longest ago, which costs
/// no more than a few walks through the list.
const TABLES: usize = 4;

#[derive(Debug)]
struct Entry<U> {
    arrival: Arrival,
    message: U,
    number: u64,
}

#[derive(Debug)]
struct Table {
    shape: Shape,
    index: Index,
    links: Links,
}

#[derive(Debug)]
pub(super) struct UnexpectedQueue<U> {
    slab: Slab<Entry<U>>,
    order: Ends,
    links: Links,
    /// Messages ever stored.
    kept: u64,
    /// Every message is in each of them; none while the list is short.
    tables: Vec<Table>,
    /// Tables out of use, for their memory.
    spare: Vec<Table>,
}

impl<U> UnexpectedQueue<U> {
    pub(super) fn new() -> UnexpectedQueue<U> {
        UnexpectedQueue {
            slab: Slab::new(),
            order: Ends::EMPTY,
            links: Links::default(),
            kept: 0,
            tables: Vec::new(),
            spare: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    #[inline]
    pub(super) fn keep(&mut self, arrival: Arrival, message: U) {
        let slot = self.slab.insert(Entry { arrival, message, number: self.kept });
        self.kept += 1;
        self.links.append(&mut self.order, slot);
        for table in &mut self.tables {
            table.add(&self.slab, slot, &arrival);
        }
    }

    #[inline]
    pub(super) fn peek(&mut self, want: &Want) -> Option<(Arrival, &U)> {
        let slot = self.find(want)?;
        self.slab.get(slot).map(|e| (e.arrival, &e.message))
    }

    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    pub(super) fn number(&mut self, want: &Want) -> Option<u64> {
        let slot = self.find(want)?;
        self.slab.get(slot).map(|e| e.number)
    }

    #[inline]
    pub(super) fn claim(&mut self, want: &Want) -> Option<(Arrival, U)> {
        let slot = self.find(want)?;
        let entry = self.take(slot)?;
        self.settle();
        Some((entry.arrival, entry.message))
    }

    /// The slot of the oldest message that is wanted.
    #[inline]
    fn find(&mut self, want: &Want) -> Option<u32> {
        if self.order.is_empty() {
            return None;
        }
        let shape = Shape::of(want);
        if let Some(table) = self.tables.iter().find(|t| t.shape == shape) {
            return table.first(&self.slab, want);
        }
        let mut slot = self.order.first;
        for _ in 0..WALK {
            let entry = self.slab.get(slot)?;
            if want.fits(&entry.arrival) {
                return Some(slot);
            }
            slot = self.links.after(slot);
        }
        if slot == NIL {
            return None;
        }
        let number = self.make_table(shape);
        self.tables[number].first(&self.slab, want)
    }

    #[cold]
    fn make_table(&mut self, shape: Shape) -> usize {
        if self.tables.len() >= TABLES {
            self.drop_table(0);
        }
        let (index, links) = match self.spare.pop() {
            Some(table) => (table.index, table.links),
            None => (Index::default(), Links::default()),
        };
        let mut table = Table { shape, index, links };
        for slot in self.links.iter(self.order.first) {
            if let Some(entry) = self.slab.get(slot) {
                table.add(&self.slab, slot, &entry.arrival);
            }
        }
        self.tables.push(table);
        self.tables.len() - 1
    }

    /// Empties a table message by message, so that its next use finds it empty and allocated.
    fn drop_table(&mut self, number: usize) {
        let mut table = self.tables.remove(number);
        for slot in self.links.iter(self.order.first) {
            if let Some(entry) = self.slab.get(slot) {
                table.remove(&self.slab, slot, &entry.arrival);
            }
        }
        self.spare.push(table);
    }

    /// Takes the message in a slot out of the list and the tables.
    #[inline]
    fn take(&mut self, slot: u32) -> Option<Entry<U>> {
        let arrival = self.slab.get(slot)?.arrival;
        self.links.unlink(&mut self.order, slot);
        for table in &mut self.tables {
            table.remove(&self.slab, slot, &arrival);
        }
        self.slab.remove(slot)
    }

    /// After messages have left: drops tables that a short list does not need, and memory that a
    /// passed peak has left.
    #[inline]
    fn settle(&mut self) {
        // Half of what makes a table, so that a list of about that length does not make and drop
        // one with every message.
        while !self.tables.is_empty() && self.len() <= WALK / 2 {
            self.drop_table(self.tables.len() - 1);
        }
        if self.slab.trim() {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        self.links.resize(self.slab.slots());
        self.spare.clear();
        for table in &mut self.tables {
            table.links.resize(self.slab.slots());
            table.index.shrink();
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Arrival, &U)> {
        self.links
            .iter(self.order.first)
            .filter_map(|slot| self.slab.get(slot))
            .map(|entry| (entry.arrival, &entry.message))
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Arrival, &mut U) -> bool) {
        let mut slot = self.order.first;
        while slot != NIL {
            let after = self.links.after(slot);
            if let Some(entry) = self.slab.get_mut(slot)
                && !keep(&entry.arrival, &mut entry.message)
            {
                self.take(slot);
            }
            slot = after;
        }
        self.settle();
    }

    /// Slots and buckets allocated, for tests of memory.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let tables = self.tables.iter().chain(&self.spare);
        self.slab.slots() + tables.map(|t| t.index.buckets()).sum::<usize>()
    }

    /// Tables in use, for tests.
    #[cfg(test)]
    pub(super) fn tables(&self) -> usize {
        self.tables.len()
    }
}

impl Table {
    #[inline]
    fn add<U>(&mut self, slab: &Slab<Entry<U>>, slot: u32, arrival: &Arrival) {
        let shape = self.shape;
        let key = shape.key_for(arrival);
        self.index.append(&mut self.links, slot, key.hash(), |s| {
            slab.get(s).is_some_and(|e| shape.key_for(&e.arrival) == key)
        });
    }

    #[inline]
    fn remove<U>(&mut self, slab: &Slab<Entry<U>>, slot: u32, arrival: &Arrival) {
        let shape = self.shape;
        let key = shape.key_for(arrival);
        self.index.remove(&mut self.links, slot, key.hash(), |s| {
            slab.get(s).is_some_and(|e| shape.key_for(&e.arrival) == key)
        });
    }

    /// The slot of the oldest message that a receive of this shape wants.
    #[inline(never)]
    fn first<U>(&self, slab: &Slab<Entry<U>>, want: &Want) -> Option<u32> {
        let key = self.shape.key(want);
        let same = |s| slab.get(s).is_some_and(|e| self.shape.key_for(&e.arrival) == key);
        let first = self.index.first(key.hash(), same).0;
        (first != NIL).then_some(first)
    }
}
