//! Posted receives: a run in front for each kind, of those that want the same; behind it a table
//! per shape in use, and one list for receives of rare shapes.

use std::cmp::Reverse;

use weft_wire::Kind;

use super::index::Index;
use super::queue::{Ends, Links};
use super::run::Run;
use super::shape::Shape;
use super::slab::{NIL, Slab};
use super::{Arrival, Posted, Want};

/// Shapes that have a table at one time. A program that uses more at once finds the receives of the
/// others by looking through them.
const TABLES: usize = 8;

#[derive(Debug)]
struct Entry<R> {
    want: Want,
    /// Receives are numbered in the order of posting, over all shapes.
    seq: u64,
    /// Its table's number, [`TABLES`] for none: such receives are in one list.
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

/// Where a receive is.
#[derive(Clone, Copy)]
pub(super) enum Found {
    /// The first of its kind's run.
    Front(usize),
    /// In a table, or in the list of rare shapes.
    Behind {
        slot: u32,
        /// Its table's number, [`TABLES`] for none.
        table: usize,
        bucket: usize,
    },
}

/// Kinds of messages are told apart by the low bits of their numbers: two that are taken for one
/// only keep each other from the run in front.
const KINDS: usize = 16;

#[derive(Debug)]
pub(super) struct PostedQueue<R> {
    /// By kind, receives that want the same, with none behind when each was posted: so they are
    /// older than all others that fit what they fit. Nearly always the ones, where messages go
    /// there and back or in windows; they cost no table. (One run for all kinds would be taken for
    /// ever by a receive that stays, as those of MPICH for its active messages do.)
    runs: [Run<R>; KINDS],
    /// How many of each kind are not in front.
    behind: [u32; KINDS],
    slab: Slab<Entry<R>>,
    links: Links,
    tables: Vec<Table>,
    rare: Ends,
    next_seq: u64,
}

impl<R> PostedQueue<R> {
    pub(super) fn new() -> PostedQueue<R> {
        PostedQueue {
            runs: std::array::from_fn(|_| Run::new()),
            behind: [0; KINDS],
            slab: Slab::new(),
            links: Links::default(),
            tables: Vec::new(),
            rare: Ends::EMPTY,
            next_seq: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slab.len() + self.runs.iter().map(Run::len).sum::<usize>()
    }

    #[inline]
    pub(super) fn insert(&mut self, want: Want, receive: R) -> Posted {
        let seq = self.next_seq;
        self.next_seq += 1;
        let kind = place(want.kind);
        if self.behind[kind] == 0 && self.runs[kind].takes(&want) {
            self.runs[kind].push(want, seq, receive);
            return Posted { slot: NIL, seq };
        }
        self.insert_behind(want, seq, receive)
    }

    fn insert_behind(&mut self, want: Want, seq: u64, receive: R) -> Posted {
        let shape = Shape::of(&want);
        let number = self.table_for(shape);
        self.behind[place(want.kind)] += 1;
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
            None => TABLES as u8,
        }
    }

    /// The oldest receive that the arrival fits.
    #[inline]
    pub(super) fn find(&self, arrival: &Arrival) -> Option<Found> {
        let kind = place(arrival.kind);
        if self.runs[kind].fits(arrival) {
            return Some(Found::Front(kind));
        }
        if self.behind[kind] == 0 { None } else { self.find_behind(arrival) }
    }

    fn find_behind(&self, arrival: &Arrival) -> Option<Found> {
        let slab = &self.slab;
        let mut best: Option<(u64, Found)> = None;
        for (number, table) in self.tables.iter().enumerate() {
            if table.len == 0 {
                continue;
            }
            let key = table.shape.key_for(arrival);
            let same = |s| slab.get(s).is_some_and(|e| table.shape.key(&e.want) == key);
            let (slot, bucket) = table.index.first(key.hash(), same);
            if let Some(entry) = slab.get(slot)
                && best.is_none_or(|(seq, _)| entry.seq < seq)
            {
                best = Some((entry.seq, Found::Behind { slot, table: number, bucket }));
            }
        }
        if self.rare.is_empty() { best.map(|(_, f)| f) } else { self.oldest_rare(arrival, best) }
    }

    #[cold]
    fn oldest_rare(&self, arrival: &Arrival, best: Option<(u64, Found)>) -> Option<Found> {
        let limit = best.map_or(u64::MAX, |(seq, _)| seq);
        self.links
            .iter(self.rare.first)
            .map_while(|slot| self.slab.get(slot).map(|entry| (entry, slot)))
            .take_while(|(entry, _)| entry.seq < limit)
            .find(|(entry, _)| entry.want.fits(arrival))
            .map(|(_, slot)| Found::Behind { slot, table: TABLES, bucket: 0 })
            .or(best.map(|(_, found)| found))
    }

    /// The receive that [`PostedQueue::find`] found.
    #[inline]
    pub(super) fn get_mut(&mut self, found: Found) -> Option<(Posted, &mut R)> {
        match found {
            Found::Front(kind) => {
                self.runs[kind].first_mut().map(|(seq, r)| (Posted { slot: NIL, seq }, r))
            }
            Found::Behind { slot, .. } => {
                let entry = self.slab.get_mut(slot);
                entry.map(|e| (Posted { slot, seq: e.seq }, &mut e.receive))
            }
        }
    }

    /// Takes out the receive that [`PostedQueue::find`] found, with no change between.
    #[inline]
    pub(super) fn take(&mut self, found: Found) -> Option<R> {
        match found {
            Found::Front(kind) => self.runs[kind].pop(),
            Found::Behind { slot, table, bucket } => self.take_behind(slot, table, bucket),
        }
    }

    fn take_behind(&mut self, slot: u32, table: usize, bucket: usize) -> Option<R> {
        match self.tables.get_mut(table) {
            None => self.links.unlink(&mut self.rare, slot),
            Some(table) => {
                table.len -= 1;
                table.index.remove_at(&mut self.links, slot, bucket);
            }
        }
        let entry = self.slab.remove(slot)?;
        self.behind[place(entry.want.kind)] -= 1;
        self.settle();
        Some(entry.receive)
    }

    pub(super) fn cancel(&mut self, posted: Posted) -> Option<R> {
        if posted.slot == NIL {
            return self.runs.iter_mut().find_map(|run| run.cancel(posted.seq));
        }
        let entry = self.slab.get(posted.slot)?;
        if entry.seq != posted.seq {
            return None;
        }
        let receive = self.unlink(posted.slot).map(|entry| entry.receive);
        self.settle();
        receive
    }

    pub(super) fn cancel_all(
        &mut self,
        mut which: impl FnMut(&Want, &R) -> bool,
        mut each: impl FnMut(Want, R),
    ) {
        // Others of their kind are younger; those of other kinds may have been posted before them.
        let runs = self.runs.iter_mut();
        let mut fronts: Vec<_> = runs.flat_map(|run| run.take_out(&mut which)).collect();
        fronts.sort_unstable_by_key(|(seq, ..)| Reverse(*seq));
        let mut slots: Vec<(u64, u32)> = self
            .slab
            .iter()
            .filter(|(_, e)| which(&e.want, &e.receive))
            .map(|(slot, e)| (e.seq, slot))
            .collect();
        slots.sort_unstable();
        for (seq, slot) in slots {
            while let Some((_, want, receive)) = fronts.pop_if(|(front, ..)| *front < seq) {
                each(want, receive);
            }
            if let Some(entry) = self.unlink(slot) {
                each(entry.want, entry.receive);
            }
        }
        while let Some((_, want, receive)) = fronts.pop() {
            each(want, receive);
        }
        self.settle();
    }

    /// After receives have left: gives memory back that a passed peak has left.
    #[inline]
    fn settle(&mut self) {
        if self.slab.trim() {
            self.give_back();
        }
    }

    #[inline]
    fn unlink(&mut self, slot: u32) -> Option<Entry<R>> {
        let slab = &self.slab;
        let entry = slab.get(slot)?;
        self.behind[place(entry.want.kind)] -= 1;
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
        let runs = self.runs.iter().map(Run::allocated).sum::<usize>();
        let buckets = self.tables.iter().map(|t| t.index.buckets()).sum::<usize>();
        self.slab.slots() + runs + buckets
    }
}

/// Where receives of this kind are counted, and have their run.
#[inline]
fn place(kind: Kind) -> usize {
    usize::from(kind.0) % KINDS
}
