//! Broadcast, reduce and allreduce.
//!
//! Operands are combined in the same order in every run with the same number of ranks and elements
//! and the same way. With `Doubling` and `Halving` the order is that of ranks, and the tree is the
//! same in both: for the pairs (0, 1), (2, 3), ... first, then for pairs of these.

use super::super::algorithm::rounds;
use super::{Area, Exchange, Round, Span, Way};

/// Elements `lo..hi`.
type Range = (usize, usize);

impl Exchange {
    /// Elements of the data.
    fn elements(&self, (lo, hi): Range) -> Span {
        Span { area: Area::Work, at: lo * self.unit, len: (hi - lo) * self.unit }
    }

    /// The start of the scratch memory, as long as `span`.
    pub(super) fn aside(span: Span) -> Span {
        Span { area: Area::Scratch, at: 0, ..span }
    }

    fn whole(&self) -> Span {
        self.elements((0, self.count))
    }

    /// The rank's place in a tree with its root at 0, and back.
    pub(super) fn place_below(&self, root: u32) -> u32 {
        self.below(root)
    }

    pub(super) fn placed(&self, root: u32, place: u32) -> u32 {
        ((u64::from(root) + u64::from(place)) % u64::from(self.size)) as u32
    }

    pub(super) fn broadcast(&self, root: u32, at: u32) -> Option<Round> {
        let levels = rounds(self.size, 2);
        let bit = 1 << levels.checked_sub(at + 1)?;
        let place = self.place_below(root);
        Some(if place.is_multiple_of(2 * bit) && place + bit < self.size {
            Round::NOTHING.send(self.placed(root, place + bit), self.whole())
        } else if place % (2 * bit) == bit {
            Round::NOTHING.receive(self.placed(root, place - bit), self.whole())
        } else {
            Round::NOTHING
        })
    }

    /// To the root; where the order of ranks counts, to rank 0, which hands the result on.
    pub(super) fn reduce(&self, root: u32, at: u32) -> Option<Round> {
        let direct = self.way == Way::Direct;
        let levels = if direct { self.size - 1 } else { rounds(self.size, 2) };
        let top = if self.ordered { 0 } else { root };
        if at == levels && top != root {
            return Some(match self.rank {
                rank if rank == top => Round::NOTHING.send(root, self.whole()),
                rank if rank == root => Round::NOTHING.receive(top, self.whole()),
                _ => Round::NOTHING,
            });
        }
        if at >= levels {
            return None;
        }
        let place = self.place_below(top);
        if direct {
            return Some(match place {
                // In the order of ranks, counted from the root on.
                0 => Round::NOTHING
                    .receive(self.placed(top, at + 1), Exchange::aside(self.whole()))
                    .combine(self.whole(), false),
                _ if at == 0 => Round::NOTHING.send(top, self.whole()),
                _ => Round::NOTHING,
            });
        }
        let bit = 1 << at;
        Some(if place % (2 * bit) == bit {
            Round::NOTHING.send(self.placed(top, place - bit), self.whole())
        } else if place.is_multiple_of(2 * bit) && place + bit < self.size {
            Round::NOTHING
                .receive(self.placed(top, place + bit), Exchange::aside(self.whole()))
                .combine(self.whole(), false)
        } else {
            Round::NOTHING
        })
    }

    pub(super) fn allreduce(&self, at: u32) -> Option<Round> {
        match self.way {
            Way::Ring => self.ring(at),
            _ => self.paired(at),
        }
    }

    /// The largest power of two of ranks takes part in the exchange; each of the lowest others
    /// gives its data to the rank above it first, and gets the result from there.
    fn paired(&self, at: u32) -> Option<Round> {
        let core = 1 << self.size.ilog2();
        let extra = self.size - core;
        let folded = self.rank < 2 * extra;
        let levels = core.ilog2();
        let turns = if self.way == Way::Halving { 2 * levels } else { levels };
        let first = u32::from(extra > 0);
        let whole = self.whole();
        let (even, odd) = (folded && self.rank.is_multiple_of(2), folded && self.rank % 2 == 1);
        let turn = at.wrapping_sub(first);
        if at < first {
            return Some(match (even, odd) {
                (true, _) => Round::NOTHING.send(self.rank + 1, whole),
                (_, true) => Round::NOTHING
                    .receive(self.rank - 1, Exchange::aside(whole))
                    .combine(whole, true),
                _ => Round::NOTHING,
            });
        }
        if turn < turns {
            if even {
                return Some(Round::NOTHING);
            }
            let place = if odd { self.rank / 2 } else { self.rank - extra };
            let rank_of = |place: u32| if place < extra { 2 * place + 1 } else { place + extra };
            return Some(match self.way {
                Way::Halving => self.halving(place, turn, levels, rank_of),
                _ => self.doubling(place, turn, rank_of),
            });
        }
        (turn == turns && extra > 0).then(|| match (even, odd) {
            (true, _) => Round::NOTHING.receive(self.rank + 1, whole),
            (_, true) => Round::NOTHING.send(self.rank - 1, whole),
            _ => Round::NOTHING,
        })
    }

    fn doubling(&self, place: u32, turn: u32, rank_of: impl Fn(u32) -> u32) -> Round {
        let partner = place ^ 1 << turn;
        let (rank, whole) = (rank_of(partner), self.whole());
        Round::NOTHING
            .send(rank, whole)
            .receive(rank, Exchange::aside(whole))
            .combine(whole, partner < place)
    }

    fn halving(&self, place: u32, turn: u32, levels: u32, rank_of: impl Fn(u32) -> u32) -> Round {
        let back = turn >= levels;
        let level = if back { 2 * levels - 1 - turn } else { turn };
        let partner = place ^ 1 << level;
        let mine = self.elements(self.share(place, level + 1));
        let theirs = self.elements(self.share(partner, level + 1));
        let rank = rank_of(partner);
        if back {
            return Round::NOTHING.send(rank, mine).receive(rank, theirs);
        }
        Round::NOTHING
            .send(rank, theirs)
            .receive(rank, Exchange::aside(mine))
            .combine(mine, partner < place)
    }

    /// The elements that are left to a place after so many halvings.
    fn share(&self, place: u32, halvings: u32) -> Range {
        let (mut lo, mut hi) = (0, self.count);
        for level in 0..halvings {
            let middle = lo + (hi - lo) / 2;
            if place >> level & 1 == 0 { hi = middle } else { lo = middle }
        }
        (lo, hi)
    }

    /// Part i starts at rank i + 1 and goes round the ring; then the results do.
    fn ring(&self, at: u32) -> Option<Round> {
        let steps = self.size - 1;
        let part = |number: u32| {
            let edge = |number: u32| {
                (self.count as u128 * u128::from(number) / u128::from(self.size)) as usize
            };
            self.elements((edge(number), edge(number + 1)))
        };
        let (next, last) = (self.above(1), self.below(1));
        if at < steps {
            let received = part(self.below(at + 1));
            return Some(
                Round::NOTHING
                    .send(next, part(self.below(at)))
                    .receive(last, Exchange::aside(received))
                    .combine(received, true),
            );
        }
        let step = at - steps;
        (step < steps).then(|| {
            Round::NOTHING
                .send(next, part(self.above(self.size + 1 - step)))
                .receive(last, part(self.below(step)))
        })
    }
}
