//! Gather, scatter, allgather and alltoall.

use super::super::algorithm::rounds;
use super::{Area, Exchange, Order, Round, Span, Way};

use Area::{Input, Scratch, Work};

impl Exchange {
    /// Blocks `first..first + count` of an area.
    pub(super) fn blocks(&self, area: Area, first: u32, count: u32) -> Span {
        let block = self.block();
        Span { area, at: first as usize * block, len: count as usize * block }
    }

    /// How many blocks at most go in one message of alltoall's `Bruck`.
    pub(super) fn packed(&self) -> usize {
        self.size as usize / 2 + 1
    }

    /// How many blocks a subtree of height `level` has in it that begins at `place`.
    fn subtree(&self, place: u32, bit: u32) -> u32 {
        bit.min(self.size.saturating_sub(place))
    }

    /// The root's own block, or that of a rank that is alone.
    fn own(&self, from: Area, to: Area) -> Round {
        let own = |area: Area, whole: bool| match (area, whole) {
            (_, true) => self.rank as usize,
            _ => 0,
        };
        let one = self.block();
        let order = Order::One {
            from: own(from, self.input_len() > one),
            to: own(to, self.work_len() > one),
        };
        Round::NOTHING.before(from, to, order)
    }

    pub(super) fn gather(&self, root: u32, at: u32) -> Option<Round> {
        match self.way {
            Way::Binomial => self.gather_by_tree(root, at),
            _ => self.gather_directly(root, at),
        }
    }

    fn gather_directly(&self, root: u32, at: u32) -> Option<Round> {
        if self.rank != root {
            return (at == 0).then(|| Round::NOTHING.send(root, self.blocks(Input, 0, 1)));
        }
        if at == 0 {
            return Some(self.own(Input, Work));
        }
        let from = (at < self.size).then(|| self.above(at))?;
        Some(Round::NOTHING.receive(from, self.blocks(Work, from, 1)))
    }

    /// A rank's scratch memory has the blocks of its subtree, its own first.
    fn gather_by_tree(&self, root: u32, at: u32) -> Option<Round> {
        if at == 0 {
            return Some(Round::NOTHING.before(Input, Scratch, Order::One { from: 0, to: 0 }));
        }
        let (level, place) = (at - 1, self.place_below(root));
        let levels = rounds(self.size, 2);
        if level == levels && place == 0 {
            let by = root as usize;
            return Some(Round::NOTHING.before(Scratch, Work, Order::Rotated { by }));
        }
        if level >= levels {
            return None;
        }
        let bit = 1 << level;
        let above = place + bit;
        Some(if place % (2 * bit) == bit {
            let held = self.blocks(Scratch, 0, self.subtree(place, bit));
            Round::NOTHING.send(self.placed(root, place - bit), held)
        } else if place.is_multiple_of(2 * bit) && above < self.size {
            let room = self.blocks(Scratch, bit, self.subtree(above, bit));
            Round::NOTHING.receive(self.placed(root, above), room)
        } else {
            Round::NOTHING
        })
    }

    pub(super) fn scatter(&self, root: u32, at: u32) -> Option<Round> {
        match self.way {
            Way::Binomial => self.scatter_by_tree(root, at),
            _ => self.scatter_directly(root, at),
        }
    }

    fn scatter_directly(&self, root: u32, at: u32) -> Option<Round> {
        if self.rank != root {
            return (at == 0).then(|| Round::NOTHING.receive(root, self.blocks(Work, 0, 1)));
        }
        if at == 0 {
            return Some(self.own(Input, Work));
        }
        let to = (at < self.size).then(|| self.above(at))?;
        Some(Round::NOTHING.send(to, self.blocks(Input, to, 1)))
    }

    fn scatter_by_tree(&self, root: u32, at: u32) -> Option<Round> {
        let (levels, place) = (rounds(self.size, 2), self.place_below(root));
        if at == 0 {
            let by = self.size as usize - root as usize;
            return Some(match place {
                0 => Round::NOTHING.before(Input, Scratch, Order::Rotated { by }),
                _ => Round::NOTHING,
            });
        }
        if at == levels + 1 {
            return Some(Round::NOTHING.before(Scratch, Work, Order::One { from: 0, to: 0 }));
        }
        let bit = 1 << levels.checked_sub(at)?;
        let above = place + bit;
        Some(if place.is_multiple_of(2 * bit) && above < self.size {
            let theirs = self.blocks(Scratch, bit, self.subtree(above, bit));
            Round::NOTHING.send(self.placed(root, above), theirs)
        } else if place % (2 * bit) == bit {
            let mine = self.blocks(Scratch, 0, self.subtree(place, bit));
            Round::NOTHING.receive(self.placed(root, place - bit), mine)
        } else {
            Round::NOTHING
        })
    }

    pub(super) fn allgather(&self, at: u32) -> Option<Round> {
        if self.way == Way::Ring {
            if at == 0 {
                return Some(self.own(Input, Work));
            }
            return (at < self.size).then(|| {
                Round::NOTHING
                    .send(self.above(1), self.blocks(Work, self.below(at - 1), 1))
                    .receive(self.below(1), self.blocks(Work, self.below(at), 1))
            });
        }
        if at == 0 {
            return Some(Round::NOTHING.before(Input, Scratch, Order::One { from: 0, to: 0 }));
        }
        let levels = rounds(self.size, 2);
        if at <= levels {
            let bit = 1 << (at - 1);
            let count = self.subtree(bit, bit);
            return Some(
                Round::NOTHING
                    .send(self.below(bit), self.blocks(Scratch, 0, count))
                    .receive(self.above(bit), self.blocks(Scratch, bit, count)),
            );
        }
        let by = self.rank as usize;
        (at == levels + 1).then(|| Round::NOTHING.before(Scratch, Work, Order::Rotated { by }))
    }

    pub(super) fn alltoall(&self, at: u32) -> Option<Round> {
        if self.way == Way::Pairwise {
            let own = Order::One { from: self.rank as usize, to: self.rank as usize };
            if at == 0 {
                return Some(Round::NOTHING.before(Input, Work, own));
            }
            let (to, from) = (self.above(at % self.size), self.below(at));
            return (at < self.size).then(|| {
                Round::NOTHING
                    .send(to, self.blocks(Input, to, 1))
                    .receive(from, self.blocks(Work, from, 1))
            });
        }
        let by = self.rank as usize;
        if at == 0 {
            let by = self.size as usize - by;
            return Some(Round::NOTHING.before(Input, Scratch, Order::Rotated { by }));
        }
        let levels = rounds(self.size, 2);
        if at <= levels {
            let bit = 1 << (at - 1);
            let count = (0..self.size).filter(|block| block & bit != 0).count() as u32;
            let (out, back) = (self.size, self.size + self.packed() as u32);
            let bits = bit as usize;
            return Some(
                Round::NOTHING
                    .before(Scratch, Scratch, Order::Packed { bit: bits, to: out as usize })
                    .send(self.above(bit), self.blocks(Scratch, out, count))
                    .receive(self.below(bit), self.blocks(Scratch, back, count))
                    .after(Scratch, Scratch, Order::Unpacked { bit: bits, from: back as usize }),
            );
        }
        (at == levels + 1).then(|| Round::NOTHING.before(Scratch, Work, Order::Mirrored { by }))
    }
}
