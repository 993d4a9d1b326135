//! Which of two members that have lost each other stays.
//!
//! Where the cable between two members fails, each finds the other gone. If all believed both, both
//! would be out. So who finds another one gone *accuses* it, and goes by that itself; the others
//! wait for a verdict, which one of them gives for all, and which they pass on. A dead member
//! accuses nobody, and is out. Of two that accuse each other that one is out which is at odds with
//! more members that can still be heard, as one is whose cables have all failed; else that with the
//! higher rank, for the lowest is the sequencer.
//!
//! The verdict is given by the member with the lowest rank that is in no quarrel. It waits for a
//! while first, for both sides to be heard: it tells the accused, which answers by accusing the
//! other. If it is lost as well, or does not give one, the next one does, after a longer while.
//! Whom all others accuse knows by that that it is out.
//! No I/O, no clock.

use std::collections::{BTreeMap, BTreeSet};

/// How long the accused, and other members, are given to be heard.
const HEARING_NS: u64 = 250_000_000;

/// Each next one who could give the verdict waits for so many times that longer.
const TURNS: u64 = 8;

/// Who is out, and who has found it gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Its rank.
    pub out: u32,
    /// The rank of the other.
    pub by: u32,
}

/// The quarrels of a group's members, as member `me` has heard of them.
#[derive(Clone, Debug)]
pub struct Quarrels {
    me: u32,
    size: u32,
    /// Who accuses whom, and since when that is known, ns.
    since: BTreeMap<(u32, u32), u64>,
    deadline_ns: u64,
}

impl Quarrels {
    /// None yet, for rank `me` of `size`.
    pub fn new(me: u32, size: u32) -> Quarrels {
        Quarrels { me, size, since: BTreeMap::new(), deadline_ns: u64::MAX }
    }

    /// When [`Quarrels::verdict`] wants to be called, ns.
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// `by` has found `accused` gone, and says so. Whether the accused is to be told of it by this
    /// member, so that it is heard. `stays`: who is not gone.
    pub fn accuse(
        &mut self,
        by: u32,
        accused: u32,
        now_ns: u64,
        stays: impl Fn(u32) -> bool,
    ) -> bool {
        let known = self.since.contains_key(&(by, accused));
        if known || by == accused || !stays(by) || !stays(accused) {
            return false;
        }
        self.since.insert((by, accused), now_ns);
        if accused == self.me {
            // It may be that nobody else is left to decide.
            self.deadline_ns = 0;
            return false;
        }
        self.deadline_ns = self.deadline_ns.min(now_ns + HEARING_NS);
        let involved = self.involved();
        (0..self.me).all(|rank| !stays(rank) || involved.contains(&rank))
            && !involved.contains(&self.me)
    }

    /// Somebody is gone: quarrels may be over, or others have to decide them. Gives whom that one
    /// had accused.
    pub fn without(&mut self, rank: u32) -> Vec<u32> {
        let accused = self.since.keys().filter(|(by, _)| *by == rank).map(|(_, a)| *a).collect();
        self.since.retain(|(by, accused), _| *by != rank && *accused != rank);
        self.deadline_ns = if self.since.is_empty() { u64::MAX } else { 0 };
        accused
    }

    fn involved(&self) -> BTreeSet<u32> {
        self.since.keys().flat_map(|&(by, accused)| [by, accused]).collect()
    }

    /// The next verdict that it is this member's turn to give.
    pub fn verdict(&mut self, now_ns: u64, stays: impl Fn(u32) -> bool) -> Option<Verdict> {
        self.since.retain(|(by, accused), _| stays(*by) && stays(*accused));
        self.deadline_ns = u64::MAX;
        if self.since.is_empty() {
            return None;
        }
        let (me, involved) = (self.me, self.involved());
        let live: Vec<u32> = (0..self.size).filter(|rank| stays(*rank)).collect();
        let apart = live.iter().filter(|rank| !involved.contains(rank));
        let (apart, before) = (apart.clone().count(), apart.filter(|rank| **rank < me).count());
        let accuses_me = |rank: &u32| self.since.contains_key(&(*rank, me));
        for (&(by, accused), &since) in &self.since {
            let others = |rank: &&u32| **rank != by && **rank != accused;
            if accused == me {
                // Nobody is left who would hear this member, or judge.
                if live.iter().all(|rank| *rank == me || accuses_me(rank)) {
                    return Some(Verdict { out: me, by });
                }
                continue;
            }
            let turn = if involved.contains(&me) {
                // Where all quarrel, each can judge those of others.
                let quarrel = |rank: &&u32| **rank < me && involved.contains(rank);
                apart + live.iter().filter(quarrel).filter(others).count()
            } else {
                before
            };
            let at = since.saturating_add(HEARING_NS * (1 + TURNS * turn as u64));
            if at <= now_ns {
                let out = self.loser(by, accused);
                self.deadline_ns = 0;
                return Some(Verdict { out, by: if out == by { accused } else { by } });
            }
            self.deadline_ns = self.deadline_ns.min(at);
        }
        None
    }

    fn loser(&self, by: u32, accused: u32) -> u32 {
        let is_heard: BTreeSet<u32> = self.since.keys().map(|(by, _)| *by).collect();
        if !is_heard.contains(&accused) {
            return accused;
        }
        let at_odds = |rank: u32| {
            let pairs = self.since.keys();
            let other = |&(a, b): &(u32, u32)| match (a == rank, b == rank) {
                (true, _) => Some(b),
                (_, true) => Some(a),
                _ => None,
            };
            let others: BTreeSet<u32> = pairs.filter_map(other).collect();
            others.intersection(&is_heard).count()
        };
        let key = |rank: u32| (at_odds(rank), rank);
        if key(by) > key(accused) { by } else { accused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: u64 = HEARING_NS + 1;

    fn all(_: u32) -> bool {
        true
    }

    /// What member `me` of `size` makes of what it hears.
    fn heard(me: u32, size: u32, accusations: &[(u32, u32)]) -> Quarrels {
        let mut quarrels = Quarrels::new(me, size);
        for (by, accused) in accusations {
            quarrels.accuse(*by, *accused, 1, all);
        }
        quarrels
    }

    #[test]
    fn who_says_nothing_is_out_and_of_two_that_accuse_each_other_the_higher() {
        let mut silent = heard(0, 4, &[(3, 1)]);
        assert_eq!(silent.verdict(HEARING_NS, all), None, "both sides are heard first");
        assert_eq!(silent.deadline_ns(), LATE);
        assert_eq!(silent.verdict(LATE, all), Some(Verdict { out: 1, by: 3 }));
        for order in [[(1, 3), (3, 1)], [(3, 1), (1, 3)]] {
            let verdict = heard(0, 4, &order).verdict(LATE, all);
            assert_eq!(verdict, Some(Verdict { out: 3, by: 1 }));
        }
        // Two that have died accuse nobody, so whoever accuses both is not the one with fewer
        // friends.
        let mut two = heard(0, 5, &[(1, 3), (1, 4)]);
        assert_eq!(two.verdict(LATE, all).map(|v| v.out), Some(3));
        assert_eq!(two.verdict(LATE, |rank| rank != 3).map(|v| v.out), Some(4));
        assert_eq!(two.verdict(LATE, |rank| rank != 3 && rank != 4), None);
        assert_eq!(two.deadline_ns(), u64::MAX);
    }

    #[test]
    fn one_whose_cables_have_failed_is_out_and_no_other() {
        let accusations = [(0, 2), (0, 3), (0, 4), (2, 0), (3, 0), (4, 0)];
        let mut quarrels = heard(1, 5, &accusations);
        assert_eq!(quarrels.verdict(LATE, all).map(|v| v.out), Some(0));
        assert_eq!(quarrels.verdict(LATE, |rank| rank != 0), None);
    }

    #[test]
    fn the_next_one_decides_if_the_first_does_not() {
        let mut second = heard(2, 4, &[(0, 3)]);
        assert_eq!(second.verdict(LATE, all), None);
        let later = second.deadline_ns();
        assert!(later > LATE && second.verdict(later, all).is_some());
        // At once, if that one is gone.
        let mut second = heard(2, 4, &[(0, 3)]);
        assert_eq!(second.without(1), []);
        assert!(second.verdict(LATE, |rank| rank != 1).is_some());
        // Those who quarrel come last, and judge others only.
        let mut all_at_odds = heard(0, 4, &[(1, 0), (2, 3)]);
        assert_eq!(all_at_odds.verdict(LATE, all), Some(Verdict { out: 3, by: 2 }));
        assert_eq!(all_at_odds.without(3), []);
        assert_eq!(all_at_odds.verdict(u64::MAX, |rank| rank != 3), None);
        // Whom all others accuse knows it by itself.
        let mut lonely = heard(1, 4, &[(0, 1), (2, 1)]);
        assert_eq!(lonely.verdict(LATE, all), None);
        lonely.accuse(3, 1, LATE, all);
        assert_eq!(lonely.verdict(LATE, all).map(|v| v.out), Some(1));
        // Of the accused alone with its accuser nobody else can judge.
        let alone = all_at_odds.verdict(1, |rank| rank < 2);
        assert_eq!(alone, Some(Verdict { out: 0, by: 1 }));
    }

    #[test]
    fn the_first_one_asks_the_accused_once() {
        let mut first = Quarrels::new(1, 4);
        assert!(first.accuse(0, 3, 1, all));
        assert!(!first.accuse(0, 3, 2, all), "it was told");
        assert!(!Quarrels::new(2, 4).accuse(0, 3, 1, all), "another one tells it");
        assert!(!Quarrels::new(3, 4).accuse(0, 3, 1, all));
        assert!(!first.accuse(2, 2, 1, all) && !first.accuse(0, 2, 1, |rank| rank != 2));
        assert_eq!(first.without(0), [3]);
    }
}
