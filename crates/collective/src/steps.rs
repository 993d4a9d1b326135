//! The steps of one rank in a barrier: a pure function, computed as asked for, so that a million
//! ranks need no memory for them.

use super::algorithm::{Algorithm, rounds};

/// What a rank does next. A *slot* names one of the messages that a rank waits for: the sender says
/// which one it fills.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// Tell a rank, over one of the algorithm's links.
    Tell {
        /// Whom.
        to: u32,
        /// Which of its slots.
        slot: u32,
        /// Over which link.
        link: u8,
    },
    /// Wait until a slot is filled.
    Await {
        /// Which.
        slot: u32,
    },
    /// Tell all others that the barrier is over.
    Release,
    /// Wait to be told so.
    AwaitRelease,
}

/// The steps of one rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Steps {
    algorithm: Algorithm,
    rank: u32,
    size: u32,
}

impl Steps {
    /// Of `rank` among `size`.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn new(algorithm: Algorithm, rank: u32, size: u32) -> Steps {
        assert!(rank < size, "rank {rank} of {size}");
        Steps { algorithm, rank, size }
    }

    /// All ranks but this one.
    #[cfg(test)]
    pub(super) fn others(&self) -> Vec<u32> {
        (0..self.size).filter(|&rank| rank != self.rank).collect()
    }

    /// The step number `at`, from 0 on; `None` after the last.
    #[inline]
    pub fn get(&self, at: u32) -> Option<Step> {
        if self.size < 2 {
            return None;
        }
        match self.algorithm {
            Algorithm::Dissemination { ways } => self.dissemination(ways, at),
            Algorithm::Tree { arity: 2, links } => self.nomial(2, links, at),
            Algorithm::Tree { arity, links } => self.tree(arity - 1, links, at),
            Algorithm::Nomial { arity } => self.nomial(arity, 1, at),
            Algorithm::Concurrent { links } => self.concurrent(links, at),
            Algorithm::Sequencer => self.concurrent(1, at),
        }
    }

    /// Who fills a slot; `None` if the rank has no such slot.
    pub fn source(&self, slot: u32) -> Option<u32> {
        let Steps { algorithm, rank, size } = *self;
        let from = match algorithm {
            Algorithm::Dissemination { ways } => {
                let reach = u64::from(slot % ways + 1) * power(ways + 1, slot / ways);
                if reach >= u64::from(size) {
                    return None;
                }
                let size = u64::from(size);
                (u64::from(rank) + size - reach) % size
            }
            Algorithm::Tree { arity: 2, .. } => self.nomial_child(2, slot)?,
            Algorithm::Nomial { arity } => self.nomial_child(arity, slot)?,
            Algorithm::Tree { arity, .. } if slot < arity - 1 => {
                u64::from(rank) * u64::from(arity - 1) + u64::from(slot) + 1
            }
            Algorithm::Concurrent { .. } | Algorithm::Sequencer if rank == 0 => u64::from(slot) + 1,
            _ => return None,
        };
        (from < u64::from(size)).then_some(from as u32)
    }

    /// Whether this rank ends the barrier for all.
    pub fn releases(&self) -> bool {
        self.rank == 0 && self.algorithm.multicasts()
    }

    /// Whether this rank fills that slot of another.
    pub fn tells(&self, other: u32, slot: u32) -> bool {
        other < self.size && Steps { rank: other, ..*self }.source(slot) == Some(self.rank)
    }

    fn dissemination(&self, ways: u32, at: u32) -> Option<Step> {
        let round = at / (2 * ways);
        let base = power(ways + 1, round);
        let size = u64::from(self.size);
        if base >= size {
            return None;
        }
        // In the last round there may be fewer, and its steps follow each other without a gap.
        let here = u64::from(ways).min((size - 1) / base) as u32;
        let within = at - round * 2 * ways;
        let slot = |way: u32| round * ways + way;
        if within < here {
            let reach = u64::from(within + 1) * base;
            let to = ((u64::from(self.rank) + reach) % size) as u32;
            return Some(Step::Tell { to, slot: slot(within), link: 0 });
        }
        (within < 2 * here).then(|| Step::Await { slot: slot(within - here) })
    }

    /// The complete tree: the children of v are `children * v + 1` and those behind it.
    fn tree(&self, children: u32, links: u8, at: u32) -> Option<Step> {
        let (v, children) = (u64::from(self.rank), u64::from(children));
        let first = v * children + 1;
        let count = u64::from(self.size).saturating_sub(first).min(children) as u32;
        if at < count {
            return Some(Step::Await { slot: at });
        }
        self.upwards(at - count, || {
            let slot = ((v - 1) % children) as u32;
            (((v - 1) / children) as u32, slot, (slot % u32::from(links)) as u8)
        })
    }

    /// What follows when all below have been heard.
    fn upwards(&self, at: u32, parent: impl FnOnce() -> (u32, u32, u8)) -> Option<Step> {
        match (self.rank, at) {
            (0, 0) => Some(Step::Release),
            (0, _) => None,
            (_, 0) => {
                let (to, slot, link) = parent();
                Some(Step::Tell { to, slot, link })
            }
            (_, 1) => Some(Step::AwaitRelease),
            _ => None,
        }
    }

    /// Rounds in which a rank hears of others: as many as its number has zeros at the end.
    fn heard_rounds(&self, arity: u32) -> u32 {
        let all = rounds(self.size, arity);
        if self.rank == 0 {
            return all;
        }
        let (mut rest, mut zeros) = (self.rank, 0);
        while rest.is_multiple_of(arity) {
            rest /= arity;
            zeros += 1;
        }
        zeros.min(all)
    }

    fn nomial_child(&self, arity: u32, slot: u32) -> Option<u64> {
        let (round, digit) = (slot / (arity - 1), slot % (arity - 1) + 1);
        if round >= self.heard_rounds(arity) {
            return None;
        }
        Some(u64::from(self.rank) + u64::from(digit) * power(arity, round))
    }

    /// The K-nomial tree: the digits of a rank, in base `arity`, say to whom it tells in which
    /// round.
    fn nomial(&self, arity: u32, links: u8, at: u32) -> Option<Step> {
        let heard = self.heard_rounds(arity);
        // Children that do not exist are at the end of a round, perhaps of several.
        let size = u64::from(self.size);
        let mut before = 0;
        for round in 0..heard {
            let unit = power(arity, round);
            let above = (size - 1 - u64::from(self.rank)) / unit;
            let count = above.min(u64::from(arity - 1)) as u32;
            if at < before + count {
                return Some(Step::Await { slot: round * (arity - 1) + at - before });
            }
            before += count;
        }
        self.upwards(at - before, || {
            let unit = power(arity, heard);
            let digit = u64::from(self.rank) / unit % u64::from(arity);
            let slot = heard * (arity - 1) + digit as u32 - 1;
            let to = u64::from(self.rank) - digit * unit;
            (to as u32, slot, (slot % u32::from(links)) as u8)
        })
    }

    fn concurrent(&self, links: u8, at: u32) -> Option<Step> {
        if self.rank == 0 && at < self.size - 1 {
            return Some(Step::Await { slot: at });
        }
        let at = if self.rank == 0 { at - (self.size - 1) } else { at };
        let slot = self.rank.wrapping_sub(1);
        self.upwards(at, || (0, slot, (slot % u32::from(links)) as u8))
    }
}

fn power(base: u32, exponent: u32) -> u64 {
    u64::from(base).saturating_pow(exponent)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn all() -> Vec<Algorithm> {
        let mut all = Algorithm::USUAL.to_vec();
        all.extend(
            ["nomial5", "dissemination4", "tree5"].map(|name| name.parse::<Algorithm>().unwrap()),
        );
        all
    }

    #[test]
    fn every_message_has_one_sender_and_one_receiver_that_waits_for_it() {
        for algorithm in all() {
            for size in 1..=70 {
                let (mut told, mut awaited) = (HashSet::new(), HashSet::new());
                for rank in 0..size {
                    let steps = Steps::new(algorithm, rank, size);
                    let mut at = 0;
                    while let Some(step) = steps.get(at) {
                        at += 1;
                        match step {
                            Step::Tell { to, slot, .. } => {
                                assert!(to < size && to != rank);
                                assert_eq!(
                                    Steps::new(algorithm, to, size).source(slot),
                                    Some(rank)
                                );
                                assert!(told.insert((to, slot)), "{algorithm} {size} {rank}");
                            }
                            Step::Await { slot } => assert!(awaited.insert((rank, slot))),
                            Step::Release => assert_eq!(rank, 0),
                            Step::AwaitRelease => assert_ne!(rank, 0),
                        }
                    }
                    assert!(steps.get(at + 1).is_none());
                }
                assert_eq!(told, awaited, "{algorithm} with {size}");
            }
        }
    }

    #[test]
    fn nobody_is_through_before_all_have_entered() {
        // What each rank knows of, carried along by its messages, must be everyone at its end.
        for algorithm in all() {
            for size in 1..=40u32 {
                assert_eq!(least_known(algorithm, size), size as usize, "{algorithm} {size}");
            }
        }
    }

    /// Runs the steps in one process; gives the least number of ranks that a rank knew of at its
    /// end.
    fn least_known(algorithm: Algorithm, size: u32) -> usize {
        let mut at = vec![0; size as usize];
        let mut known: Vec<HashSet<u32>> = (0..size).map(|rank| HashSet::from([rank])).collect();
        let mut filled: std::collections::HashMap<(u32, u32), HashSet<u32>> = Default::default();
        let mut released: Option<HashSet<u32>> = None;
        loop {
            let mut moved = false;
            for rank in 0..size {
                let (own, place) = (rank as usize, &mut at[rank as usize]);
                let done = match Steps::new(algorithm, rank, size).get(*place) {
                    None => false,
                    Some(Step::Tell { to, slot, .. }) => {
                        filled.insert((to, slot), known[own].clone());
                        true
                    }
                    Some(Step::Release) => {
                        released = Some(known[own].clone());
                        true
                    }
                    Some(Step::Await { slot }) => filled.get(&(rank, slot)).is_some_and(|news| {
                        known[own].extend(news);
                        true
                    }),
                    Some(Step::AwaitRelease) => released.as_ref().is_some_and(|news| {
                        known[own].extend(news);
                        true
                    }),
                };
                *place += u32::from(done);
                moved |= done;
            }
            if !moved {
                break;
            }
        }
        for rank in 0..size {
            let end = Steps::new(algorithm, rank, size).get(at[rank as usize]);
            assert_eq!(end, None, "rank {rank} of {size} is stuck in {algorithm}");
        }
        known.iter().map(HashSet::len).min().unwrap_or(0)
    }
}
