//! Reduce-scatter.
//!
//! With `Pairwise` operands are combined in the order of ranks. With `Halving` the order is
//! another one at each rank, and follows from the number of ranks alone.

use super::super::algorithm::rounds;
use super::{Area, Exchange, Order, Round, Way};

use Area::{Input, Scratch, Work};

impl Exchange {
    /// How many blocks at most go in one message of reduce-scatter's `Halving`.
    pub(super) fn half(&self) -> usize {
        self.size as usize / 2
    }

    pub(super) fn reduce_scatter(&self, at: u32) -> Option<Round> {
        match self.way {
            Way::Halving => self.halves(at),
            _ => self.slices(at),
        }
    }

    /// Allgather's `Bruck` the other way round. Block i of the scratch memory is for the rank that
    /// lies i above. Of the blocks that are left, the upper half goes to the rank above by as many
    /// as stay; so each message, with the one that comes, halves them, and there may be any number.
    fn halves(&self, at: u32) -> Option<Round> {
        let size = self.size;
        if at == 0 {
            let by = (size - self.rank) as usize;
            return Some(Round::NOTHING.before(Input, Scratch, Order::Rotated { by }));
        }
        let levels = rounds(size, 2);
        if at > levels {
            let done = Order::One { from: 0, to: 0 };
            return (at == levels + 1).then(|| Round::NOTHING.before(Scratch, Work, done));
        }
        let left = |halvings: u32| (u64::from(size).div_ceil(1 << halvings)) as u32;
        let (before, stay) = (left(at - 1), left(at));
        let go = before - stay;
        let came = self.blocks(Scratch, size, go);
        Some(
            Round::NOTHING
                .send(self.above(stay), self.blocks(Scratch, stay, go))
                .receive(self.below(stay), came)
                .combine_with(self.blocks(Scratch, 0, go), came, true),
        )
    }

    /// Each block by itself. They come from the ranks below first, the nearest first; then from
    /// those above, the farthest first, which are combined apart and joined in the end.
    fn slices(&self, at: u32) -> Option<Round> {
        let (size, rank) = (self.size, self.rank);
        let own = self.blocks(Work, 0, 1);
        let apart = self.blocks(Scratch, 1, 1);
        if at == 0 {
            let order = Order::One { from: rank as usize, to: 0 };
            return Some(Round::NOTHING.before(Input, Work, order));
        }
        if at >= size {
            let joins = at == size && rank + 1 < size;
            return joins.then(|| Round::NOTHING.combine_with(own, apart, false));
        }
        let (to, from) = (self.above(at), self.below(at));
        let round = Round::NOTHING.send(to, self.blocks(Input, to, 1));
        if from + 1 == size {
            return Some(round.receive(from, apart));
        }
        let sum = if from < rank { own } else { apart };
        Some(round.receive(from, Exchange::aside(own)).combine(sum, true))
    }
}
