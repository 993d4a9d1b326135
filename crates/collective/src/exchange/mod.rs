//! Reductions and exchanges of blocks as schedules: the rounds of one rank, a pure function of what
//! is done, the way, rank, size and lengths.
//!
//! In a round a rank sends at most one message and receives at most one, and then does one act on
//! memory. Messages between two ranks are taken in the order in which the rounds name them.
//!
//! | file | concern |
//! |---|---|
//! | `reduce` | broadcast, reduce, allreduce |
//! | `slices` | reduce-scatter |
//! | `blocks` | gather, scatter, allgather, alltoall |
//! | `memory` | the rounds' acts on plain bytes |
//!
//! Sources: Bruck and others (1997) for `Bruck`; Rabenseifner (2004) for `Halving` of allreduce,
//! Träff (2023) for that of reduce-scatter; Thakur, Rabenseifner and Gropp (2005) for which is best
//! when.

mod blocks;
mod memory;
mod reduce;
mod slices;
#[cfg(test)]
mod tests;

pub use memory::Memory;

/// What is done. A *block* is what one rank gives or gets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum What {
    /// `root`'s data goes to all.
    Broadcast {
        /// Who has the data.
        root: u32,
    },
    /// All ranks' data is combined, element by element, at `root`; what the others have in their
    /// place afterwards is unspecified.
    Reduce {
        /// Who gets the result.
        root: u32,
    },
    /// As `Reduce`, but all ranks get the result.
    Allreduce,
    /// Each rank has a block for each rank. They are combined as by `Allreduce`, and each rank gets
    /// its own block of the result.
    ReduceScatter,
    /// A block of each rank, in the order of ranks, at `root`.
    Gather {
        /// Who gets the blocks.
        root: u32,
    },
    /// A block for each rank, in the order of ranks, from `root`.
    Scatter {
        /// Who has the blocks.
        root: u32,
    },
    /// As `Gather`, but all ranks get the blocks.
    Allgather,
    /// Each rank has a block for each rank; each gets one from each.
    Alltoall,
}

/// How it is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// A binomial tree.
    Binomial,
    /// The root speaks with each rank itself.
    Direct,
    /// All data is exchanged at distances 1, 2, 4, ...
    Doubling,
    /// Half of it, a quarter, ..., and then, where all get all, the results the same way back.
    Halving,
    /// Each rank sends to the next and receives from the one before, n - 1 times or twice that.
    Ring,
    /// Blocks at distances 1, 2, 4, ..., several in a message.
    Bruck,
    /// Each block by a message of its own, at distances 1, 2, 3, ...
    Pairwise,
}

/// A part of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area {
    /// The caller's memory that is only read: gather's and allgather's own block, the blocks of
    /// scatter, alltoall and reduce-scatter.
    Input,
    /// The caller's memory that is filled, or changed in place.
    Work,
    /// Memory of the one who executes, [`Exchange::scratch_len`] bytes.
    Scratch,
}

/// Bytes of an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Which area.
    pub area: Area,
    /// The first byte.
    pub at: usize,
    /// How many.
    pub len: usize,
}

/// A message that is sent or received. There are none of length 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The other rank.
    pub rank: u32,
    /// From where, or to where.
    pub span: Span,
}

/// Which blocks are copied where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// This one.
    One {
        /// Its place in the area it comes from.
        from: usize,
        /// Its place in the area it goes to.
        to: usize,
    },
    /// Block i to place i + `by`, modulo the number of ranks.
    Rotated {
        /// By how much.
        by: usize,
    },
    /// Block i to place `by` - i, modulo the number of ranks.
    Mirrored {
        /// The place of block 0.
        by: usize,
    },
    /// The blocks whose number has this bit, side by side from place `to` on.
    Packed {
        /// The bit's value.
        bit: usize,
        /// Where the first goes.
        to: usize,
    },
    /// Back from there.
    Unpacked {
        /// The bit's value.
        bit: usize,
        /// Where the first comes from.
        from: usize,
    },
}

impl Order {
    /// Calls `copy(from, to)` for each block.
    pub fn each(self, size: usize, mut copy: impl FnMut(usize, usize)) {
        let with = |bit| (0..size).filter(move |block| block & bit != 0).enumerate();
        match self {
            Order::One { from, to } => copy(from, to),
            Order::Rotated { by } => (0..size).for_each(|i| copy(i, (i + by) % size)),
            Order::Mirrored { by } => (0..size).for_each(|i| copy(i, (by + size - i) % size)),
            Order::Packed { bit, to } => with(bit).for_each(|(i, block)| copy(block, to + i)),
            Order::Unpacked { bit, from } => with(bit).for_each(|(i, block)| copy(from + i, block)),
        }
    }
}

/// What is done with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// The elements of `span` are combined with those of `with`, which are as many.
    Combine {
        /// One operand of each, and the result.
        span: Span,
        /// The other operands, in scratch memory.
        with: Span,
        /// Whether the operand of `with` stands left of the other.
        theirs_first: bool,
    },
    /// Whole blocks are copied.
    Blocks {
        /// From which area.
        from: Area,
        /// To which.
        to: Area,
        /// Which blocks.
        order: Order,
    },
}

/// A round: `before`, then both messages, then, when both are through, `after`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// What is done first.
    pub before: Act,
    /// The message that is sent.
    pub send: Option<Move>,
    /// The message that is received.
    pub receive: Option<Move>,
    /// What is done last.
    pub after: Act,
}

impl Round {
    const NOTHING: Round =
        Round { before: Act::Nothing, send: None, receive: None, after: Act::Nothing };

    fn send(mut self, rank: u32, span: Span) -> Round {
        self.send = (span.len > 0).then_some(Move { rank, span });
        self
    }

    fn receive(mut self, rank: u32, span: Span) -> Round {
        self.receive = (span.len > 0).then_some(Move { rank, span });
        self
    }

    fn before(mut self, from: Area, to: Area, order: Order) -> Round {
        self.before = Act::Blocks { from, to, order };
        self
    }

    fn after(mut self, from: Area, to: Area, order: Order) -> Round {
        self.after = Act::Blocks { from, to, order };
        self
    }

    /// With what lies at the start of the scratch memory.
    fn combine(self, span: Span, theirs_first: bool) -> Round {
        self.combine_with(span, Exchange::aside(span), theirs_first)
    }

    fn combine_with(mut self, span: Span, with: Span, theirs_first: bool) -> Round {
        if span.len > 0 {
            self.after = Act::Combine { span, with, theirs_first };
        }
        self
    }
}

/// One rank's part in one exchange.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Exchange {
    /// What is done.
    pub what: What,
    /// The way.
    pub way: Way,
    /// Whether operands must stay in the order of ranks, because the operator does not commute.
    pub ordered: bool,
    /// Which rank's part.
    pub rank: u32,
    /// Of how many ranks.
    pub size: u32,
    /// Bytes of an element.
    pub unit: usize,
    /// Elements of a block, or of the whole data where there are no blocks.
    pub count: usize,
}

/// Up to so many bytes a message's way costs more than its bytes do.
const SHORT: usize = 32 << 10;

/// So few ranks, with short blocks, are better heard by one of them each than by way of others,
/// which would have to be woken in the middle.
const FEW: u32 = 16;

/// Up to so many bytes a block is better copied on the way a few times than sent by itself.
const SHORT_BLOCK: usize = 1 << 10;

impl Exchange {
    /// The part of `rank`, in the way that fits the lengths. All ranks choose the same.
    ///
    /// # Panics
    /// If there is no such rank, or no such root.
    pub fn new(what: What, rank: u32, size: u32, unit: usize, count: usize) -> Exchange {
        assert!(rank < size && what.root().is_none_or(|root| root < size), "no such rank");
        let way = what.ways()[0];
        Exchange { what, way, ordered: false, rank, size, unit, count }.chosen()
    }

    /// The same, with an operator that does not commute.
    #[must_use]
    pub fn in_order(mut self) -> Exchange {
        self.ordered = true;
        self.chosen()
    }

    fn chosen(mut self) -> Exchange {
        let block = self.unit * self.count;
        let all = block * self.size as usize;
        self.way = match self.what {
            What::Broadcast { .. } => Way::Binomial,
            What::Reduce { .. } if self.size <= FEW && block <= SHORT_BLOCK => Way::Direct,
            What::Reduce { .. } => Way::Binomial,
            What::Allreduce if block <= SHORT => Way::Doubling,
            What::Allreduce if self.ordered || self.size.is_power_of_two() => Way::Halving,
            What::Allreduce => Way::Ring,
            What::ReduceScatter if block <= SHORT && !self.ordered => Way::Halving,
            What::ReduceScatter => Way::Pairwise,
            What::Gather { .. } | What::Scatter { .. } if all <= SHORT => Way::Binomial,
            What::Gather { .. } | What::Scatter { .. } => Way::Direct,
            What::Allgather if all <= SHORT => Way::Bruck,
            What::Allgather => Way::Ring,
            What::Alltoall if block <= SHORT_BLOCK && self.size > 4 => Way::Bruck,
            What::Alltoall => Way::Pairwise,
        };
        self
    }

    /// The round number `at`, from 0 on; `None` after the last.
    pub fn round(&self, at: u32) -> Option<Round> {
        match self.what {
            What::Broadcast { root } => self.broadcast(root, at),
            What::Reduce { root } => self.reduce(root, at),
            What::Allreduce => self.allreduce(at),
            What::ReduceScatter => self.reduce_scatter(at),
            What::Gather { root } => self.gather(root, at),
            What::Scatter { root } => self.scatter(root, at),
            What::Allgather => self.allgather(at),
            What::Alltoall => self.alltoall(at),
        }
    }

    /// Bytes of the block, or of the whole data where there are no blocks.
    pub fn block(&self) -> usize {
        self.unit * self.count
    }

    /// Bytes of the memory that is only read.
    pub fn input_len(&self) -> usize {
        match self.what {
            What::Broadcast { .. } | What::Reduce { .. } | What::Allreduce => 0,
            What::Gather { .. } | What::Allgather => self.block(),
            What::Scatter { root } if root != self.rank => 0,
            What::Scatter { .. } | What::Alltoall | What::ReduceScatter => {
                self.block() * self.size as usize
            }
        }
    }

    /// Bytes of the memory that is filled or changed.
    pub fn work_len(&self) -> usize {
        match self.what {
            What::Gather { root } if root != self.rank => 0,
            What::Gather { .. } | What::Allgather | What::Alltoall => {
                self.block() * self.size as usize
            }
            _ => self.block(),
        }
    }

    /// Bytes of scratch memory.
    pub fn scratch_len(&self) -> usize {
        let all = self.block() * self.size as usize;
        match (self.what, self.way) {
            (What::Broadcast { .. }, _) => 0,
            (What::Reduce { .. }, _) => self.block(),
            (What::Allreduce, Way::Ring) => {
                self.count.div_ceil(self.size as usize).max(1) * self.unit
            }
            (What::Allreduce, _) => self.block(),
            (What::ReduceScatter, Way::Halving) => all + self.half() * self.block(),
            (What::ReduceScatter, _) => 2 * self.block(),
            (What::Alltoall, Way::Bruck) => all + 2 * self.packed() * self.block(),
            (_, Way::Binomial | Way::Bruck) => all,
            _ => 0,
        }
    }

    /// The rank that lies `by` above this one, in a circle.
    fn above(&self, by: u32) -> u32 {
        ((u64::from(self.rank) + u64::from(by)) % u64::from(self.size)) as u32
    }

    /// The rank that lies `by` below.
    fn below(&self, by: u32) -> u32 {
        self.above(self.size - by % self.size)
    }
}

impl What {
    /// The rank that all others depend on.
    pub fn root(self) -> Option<u32> {
        match self {
            What::Broadcast { root }
            | What::Reduce { root }
            | What::Gather { root }
            | What::Scatter { root } => Some(root),
            What::Allreduce | What::ReduceScatter | What::Allgather | What::Alltoall => None,
        }
    }

    /// Whether elements are combined.
    pub fn combines(self) -> bool {
        matches!(self, What::Reduce { .. } | What::Allreduce | What::ReduceScatter)
    }

    /// Whether operands can stay in the order of ranks in this way.
    pub fn keeps_order(self, way: Way) -> bool {
        match self {
            What::Allreduce => way != Way::Ring,
            What::ReduceScatter => way != Way::Halving,
            _ => true,
        }
    }

    /// In which ways it can be done.
    pub fn ways(self) -> &'static [Way] {
        match self {
            What::Broadcast { .. } => &[Way::Binomial],
            What::Reduce { .. } => &[Way::Direct, Way::Binomial],
            What::Allreduce => &[Way::Doubling, Way::Halving, Way::Ring],
            What::ReduceScatter => &[Way::Halving, Way::Pairwise],
            What::Gather { .. } | What::Scatter { .. } => &[Way::Binomial, Way::Direct],
            What::Allgather => &[Way::Bruck, Way::Ring],
            What::Alltoall => &[Way::Bruck, Way::Pairwise],
        }
    }
}
