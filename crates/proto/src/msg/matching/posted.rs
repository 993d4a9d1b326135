//! Posted receives: a table per shape in use, and one list for receives of rare shapes.

use super::index::Index;
use super::queue::{Ends, Links};
use super::shape::Shape;
use super::slab::Slab;
use super::{Arrival, Posted, Want};

/// Shapes that have a table at one time. A program that uses more at once finds the receives of the
/// others by looking through them.
const TABLES: usize = 8;

/// Stands for the list of the receives whose shape has no table.
const NO_TABLE: u8 = TABLES as u8;

#[derive(Debug)]
struct Entry<R> {
    want: Want,
    /// Receives are numbered in the order of posting, over all shapes.
    seq: u64,
    table: u8,
    receive: R,
}

#[derive(Debug)]
struct Table {
    shape: Shape,
    index: Index,
    /// Receives in it.
    len: usize,
}

#[derive(Debug)]
pub(super) struct PostedQueue<R> {
    slab: Slab<Entry<R>>,
    links: Links,
    tables: Vec<Table>,
    rare: Ends,
    next_seq: u64,
}

impl<R> PostedQueue<R> {
    pub(super) fn new() -> PostedQueue<R> {
        PostedQueue {
            slab: Slab::new(),
            links: Links::default(),
            tables: Vec::new(),
            rare: Ends::EMPTY,
            next_seq: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    #[inline]
    pub(super) fn insert(&mut self, want: Want, receive: R) -> Posted {
        let shape = Shape::of(&want);
        let number = self.table_for(shape);
        let seq = self.next_seq;
        self.next_seq += 1;
        let slot = self.slab.insert(Entry { want, seq, table: number, receive });
        match self.tables.get_mut(usize::from(number)) {
            None => self.links.append(&mut self.rare, slot),
            Some(table) => {
                let key = shape.key(&want);
                let slab = &self.slab;
                table.len += 1;
                table.index.append(&mut self.links, slot, key.hash(), |s| {
                    slab.get(s).is_some_and(|e| shape.key(&e.want) == key)
                });
            }
        }
        Posted { slot, seq }
    }

    /// The number of the shape's table, made where there is none and room for one.
    #[inline]
    fn table_for(&mut self, shape: Shape) -> u8 {
        match self.tables.iter().position(|t| t.shape == shape) {
            Some(number) => number as u8,
            None => self.new_table(shape),
        }
    }

    #[cold]
    fn new_table(&mut self, shape: Shape) -> u8 {
        if self.tables.len() < TABLES {
            self.tables.push(Table { shape, index: Index::default(), len: 0 });
            return (self.tables.len() - 1) as u8;
        }
        match self.tables.iter().position(|t| t.len == 0) {
            Some(number) => {
                self.tables[number].shape = shape;
                number as u8
            }
            None => NO_TABLE,
        }
    }

    /// The slot of the oldest receive that the arrival fits.
    #[inline]
    pub(super) fn find(&self, arrival: &Arrival) -> Option<u32> {
        let slab = &self.slab;
        let mut best: Option<(u64, u32)> = None;
        for table in self.tables.iter().filter(|t| t.len > 0) {
            let key = table.shape.key_for(arrival);
            let ends = table.index.queue(key.hash(), |s| {
                slab.get(s).is_some_and(|e| table.shape.key(&e.want) == key)
            });
            if let Some(entry) = slab.get(ends.first)
                && best.is_none_or(|(seq, _)| entry.seq < seq)
            {
                best = Some((entry.seq, ends.first));
            }
        }
        if !self.rare.is_empty() {
            best = self.oldest_rare(arrival, best);
        }
        best.map(|(_, slot)| slot)
    }

    #[cold]
    fn oldest_rare(&self, arrival: &Arrival, best: Option<(u64, u32)>) -> Option<(u64, u32)> {
        let limit = best.map_or(u64::MAX, |(seq, _)| seq);
        self.links
            .iter(self.rare)
            .map_while(|slot| self.slab.get(slot).map(|entry| (entry, slot)))
            .take_while(|(entry, _)| entry.seq < limit)
            .find(|(entry, _)| entry.want.fits(arrival))
            .map(|(entry, slot)| (entry.seq, slot))
            .or(best)
    }

    /// The receive in a slot that [`PostedQueue::find`] gave.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<(Posted, &mut R)> {
        self.slab.get_mut(slot).map(|e| (Posted { slot, seq: e.seq }, &mut e.receive))
    }

    /// Takes the receive in a slot out.
    #[inline]
    pub(super) fn take(&mut self, slot: u32) -> Option<R> {
        let receive = self.unlink(slot).map(|entry| entry.receive);
        if self.slab.trim() {
            self.give_back();
        }
        receive
    }

    pub(super) fn cancel(&mut self, posted: Posted) -> Option<R> {
        let entry = self.slab.get(posted.slot)?;
        if entry.seq == posted.seq { self.take(posted.slot) } else { None }
    }

    pub(super) fn cancel_all(
        &mut self,
        mut which: impl FnMut(&Want, &R) -> bool,
        mut each: impl FnMut(Want, R),
    ) {
        let mut slots: Vec<(u64, u32)> = self
            .slab
            .iter()
            .filter(|(_, e)| which(&e.want, &e.receive))
            .map(|(slot, e)| (e.seq, slot))
            .collect();
        slots.sort_unstable();
        for (_, slot) in slots {
            if let Some(entry) = self.unlink(slot) {
                each(entry.want, entry.receive);
            }
        }
        if self.slab.trim() {
            self.give_back();
        }
    }

    #[inline]
    fn unlink(&mut self, slot: u32) -> Option<Entry<R>> {
        let slab = &self.slab;
        let entry = slab.get(slot)?;
        match self.tables.get_mut(usize::from(entry.table)) {
            None => self.links.unlink(&mut self.rare, slot),
            Some(table) => {
                let shape = table.shape;
                let key = shape.key(&entry.want);
                table.len -= 1;
                table.index.remove(&mut self.links, slot, key.hash(), |s| {
                    slab.get(s).is_some_and(|e| shape.key(&e.want) == key)
                });
            }
        }
        self.slab.remove(slot)
    }

    #[cold]
    fn give_back(&mut self) {
        self.links.resize(self.slab.slots());
        for table in &mut self.tables {
            table.index.shrink();
        }
    }

    /// Slots and buckets allocated, for tests of memory.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.slab.slots() + self.tables.iter().map(|t| t.index.buckets()).sum::<usize>()
    }
}
