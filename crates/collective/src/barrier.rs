//! A rank's state in barrier after barrier.
//!
//! Frames are single datagrams outside the reliable streams, and carry the barrier's number (the
//! colour of MCD's authors, made wide). A rank can be at most one barrier ahead of another, for
//! none leaves a barrier before all have entered it; so a frame is of this barrier, of the next, or
//! old. Nothing is acknowledged. A rank that waits for long asks whoever should have told it; and
//! whoever has told it, which follows from its state alone, tells it again.

use super::algorithm::Algorithm;
use super::slots::Slots;
use super::steps::{Step, Steps};

/// What a frame says of the barrier with its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mark {
    /// The sender has entered, and so have those that it had to hear of before; this fills a slot
    /// of the receiver.
    Entered(u32),
    /// All have entered.
    Released,
    /// The sender misses what fills this slot of it.
    AskEntered(u32),
    /// The sender misses the release.
    AskReleased,
}

/// To whom a frame goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// To one rank, over one of the algorithm's links.
    One {
        /// Which.
        rank: u32,
        /// Over which link.
        link: u8,
    },
    /// To all others, by one multicast.
    All,
}

/// A rank's state. `out` of its functions takes the frames to be sent: where to, the barrier's
/// number, and what it says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Barrier {
    steps: Steps,
    /// The steps, and who fills each slot, where they were worked out beforehand.
    table: Box<[Step]>,
    sources: Box<[Option<u32>]>,
    /// The barrier that was entered last; they are counted from 1.
    number: u64,
    /// Whether it has not been left.
    inside: bool,
    /// The next step.
    at: u32,
    released: bool,
    /// Filled slots, of the barriers with even and with odd numbers.
    filled: [Slots; 2],
}

impl Barrier {
    /// Of `rank` among `size`.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn new(algorithm: Algorithm, rank: u32, size: u32) -> Barrier {
        let steps = Steps::new(algorithm, rank, size);
        let filled = Default::default();
        Barrier {
            steps,
            table: Box::default(),
            sources: Box::default(),
            number: 0,
            inside: false,
            at: 0,
            released: false,
            filled,
        }
    }

    /// All ranks but this one.
    #[cfg(test)]
    pub(super) fn others(&self) -> Vec<u32> {
        self.steps.others()
    }

    /// Works out the steps once and for all: for ranks that are in a hurry, and few.
    pub fn with_table(mut self) -> Barrier {
        self.table = (0..).map_while(|at| self.steps.get(at)).collect();
        let awaited = self.table.iter().filter_map(|step| match step {
            Step::Await { slot } => Some(*slot + 1),
            _ => None,
        });
        let slots = awaited.max().unwrap_or(0);
        self.sources = (0..slots).map(|slot| self.steps.source(slot)).collect();
        self
    }

    /// Who fills a slot; `None` if the rank has no such slot.
    #[inline]
    fn source(&self, slot: u32) -> Option<u32> {
        if self.table.is_empty() {
            return self.steps.source(slot);
        }
        self.sources.get(slot as usize).copied().flatten()
    }

    #[inline]
    fn step(&self, at: u32) -> Option<Step> {
        if self.table.is_empty() {
            return self.steps.get(at);
        }
        self.table.get(at as usize).copied()
    }

    /// Whether the rank waits in a barrier.
    #[inline]
    pub fn is_inside(&self) -> bool {
        self.inside
    }

    /// The number of the barrier that was entered last.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Enters the next barrier.
    ///
    /// # Panics
    /// If the rank has not left the one before.
    #[inline]
    pub fn enter(&mut self, mut out: impl FnMut(Target, u64, Mark)) {
        assert!(!self.inside, "barrier {} is not over", self.number);
        self.number += 1;
        self.inside = true;
        self.released = false;
        self.at = 0;
        self.go_on(&mut out);
    }

    #[inline]
    fn filled(&mut self, number: u64) -> &mut Slots {
        &mut self.filled[(number % 2) as usize]
    }

    /// Takes all steps that need not wait.
    #[inline(always)]
    fn go_on(&mut self, out: &mut impl FnMut(Target, u64, Mark)) {
        loop {
            let number = self.number;
            match self.step(self.at) {
                Some(Step::Tell { to, slot, link }) => {
                    out(Target::One { rank: to, link }, number, Mark::Entered(slot));
                }
                Some(Step::Release) => out(Target::All, number, Mark::Released),
                Some(Step::Await { slot }) if self.filled(number).contains(slot) => {}
                Some(Step::AwaitRelease) if self.released => {}
                Some(_) => return,
                None => {
                    self.inside = false;
                    self.filled(number).clear();
                    return;
                }
            }
            self.at += 1;
        }
    }

    /// The barrier that was left last.
    fn left(&self) -> u64 {
        self.number - u64::from(self.inside)
    }

    /// Takes a frame that came from rank `from`. What makes no sense is ignored.
    #[inline(always)]
    pub fn take(
        &mut self,
        from: u32,
        number: u64,
        mark: Mark,
        mut out: impl FnMut(Target, u64, Mark),
    ) {
        let now = self.inside && number == self.number;
        match mark {
            Mark::Entered(slot) => {
                let next = number == self.number + 1;
                if (now || next) && self.source(slot) == Some(from) {
                    self.filled(number).insert(slot);
                }
            }
            Mark::Released => self.released |= now && from == 0,
            Mark::AskEntered(slot) => {
                if self.has_told(from, slot, number) {
                    out(Target::One { rank: from, link: 0 }, number, Mark::Entered(slot));
                }
            }
            Mark::AskReleased => {
                if self.steps.releases() && number <= self.left() {
                    out(Target::One { rank: from, link: 0 }, number, Mark::Released);
                }
            }
        }
        if now {
            self.go_on(&mut out);
        }
    }

    /// All have entered the barrier that this rank is in, as someone says who has left it: takes
    /// the steps that are left, and waits for nothing.
    pub fn finish(&mut self, mut out: impl FnMut(Target, u64, Mark)) {
        let number = self.number;
        while self.inside {
            match self.step(self.at) {
                Some(Step::Tell { to, slot, link }) => {
                    out(Target::One { rank: to, link }, number, Mark::Entered(slot));
                }
                Some(Step::Release) => out(Target::All, number, Mark::Released),
                Some(Step::Await { .. } | Step::AwaitRelease) => {}
                None => {
                    self.inside = false;
                    self.filled(number).clear();
                }
            }
            self.at += 1;
        }
    }

    /// Whether all have told this rank that it would wait for first in the next barrier: for who
    /// has something to do between hearing of them and entering.
    pub fn is_awaited(&mut self) -> bool {
        let number = self.number + 1;
        let mut at = 0;
        while let Some(Step::Await { slot }) = self.step(at) {
            if !self.filled(number).contains(slot) {
                return false;
            }
            at += 1;
        }
        true
    }

    /// As [`Barrier::ask`], for those that [`Barrier::is_awaited`] looks for.
    pub fn ask_next(&mut self, mut out: impl FnMut(Target, u64, Mark)) {
        let number = self.number + 1;
        let mut at = 0;
        while let Some(Step::Await { slot }) = self.step(at) {
            if !self.filled(number).contains(slot)
                && let Some(rank) = self.source(slot)
            {
                out(Target::One { rank, link: 0 }, number, Mark::AskEntered(slot));
            }
            at += 1;
        }
    }

    /// Whether this rank has filled that slot of another.
    fn has_told(&self, other: u32, slot: u32, number: u64) -> bool {
        if number <= self.left() {
            return self.steps.tells(other, slot);
        }
        let told = |at| {
            matches!(self.step(at), Some(Step::Tell { to, slot: its, .. })
                if (to, its) == (other, slot))
        };
        number == self.number && (0..self.at).any(told)
    }

    /// The rank has waited for long: asks for all that it waits for now.
    pub fn ask(&mut self, mut out: impl FnMut(Target, u64, Mark)) {
        if !self.inside {
            return;
        }
        let number = self.number;
        for at in self.at.. {
            match self.step(at) {
                Some(Step::Await { slot }) => {
                    if !self.filled(number).contains(slot)
                        && let Some(rank) = self.source(slot)
                    {
                        let target = Target::One { rank, link: 0 };
                        out(target, number, Mark::AskEntered(slot));
                    }
                }
                Some(Step::AwaitRelease) if at == self.at => {
                    return out(Target::One { rank: 0, link: 0 }, number, Mark::AskReleased);
                }
                _ => return,
            }
        }
    }
}
