//! What follows from a record: sums over ranks, and who is waited for. All that shows a run takes
//! its figures from here, so that they agree.
//!
//! Sums are floating-point numbers: counts of a damaged record may be anything, and must not wrap.

use std::collections::BTreeMap;

use crate::units::share;
use crate::{Ended, Rank, Run};

/// A run and its sums.
pub struct Sums<'a> {
    /// The run.
    pub run: &'a Run,
    /// Time that the ranks ran, of all together.
    pub life_ns: f64,
    /// Of that, in waits.
    pub waits_ns: f64,
    /// Of that, in calls, if all ranks know it.
    pub calls_ns: Option<f64>,
    /// Of that, without a processor.
    pub robbed_ns: f64,
    /// For each rank, how long others waited for it.
    pub waited_for: BTreeMap<u32, f64>,
    /// Messages sent.
    pub messages: f64,
    /// Their bytes.
    pub bytes: f64,
}

impl<'a> Sums<'a> {
    /// The sums of a run.
    pub fn new(run: &'a Run) -> Sums<'a> {
        let of = |part: fn(&Rank) -> u64| run.ranks.iter().map(|r| part(r) as f64).sum::<f64>();
        let mut waited_for = BTreeMap::new();
        for rank in &run.ranks {
            for waited in &rank.waited_for {
                if let Some(other) = waited.rank.filter(|other| *other != rank.rank) {
                    *waited_for.entry(other).or_default() += waited.ns as f64;
                }
            }
        }
        let (messages, bytes) = sent(run);
        let known = !run.ranks.is_empty() && run.ranks.iter().all(|r| r.calls_ns.is_some());
        Sums {
            run,
            life_ns: of(|r| r.lasted_ns),
            waits_ns: of(|r| r.waits_ns.min(r.lasted_ns)),
            calls_ns: known.then(|| of(|r| r.calls_ns.unwrap_or(0).min(r.lasted_ns))),
            robbed_ns: of(|r| r.robbed_ns),
            waited_for,
            messages,
            bytes,
        }
    }

    /// What part of the time of all ranks a time is.
    pub fn of_life(&self, ns: f64) -> f64 {
        share(ns, self.life_ns)
    }

    /// What part of the others' time they waited for a rank.
    pub fn waited_share(&self, rank: u32) -> f64 {
        let own = self.rank(rank).map_or(0.0, |r| r.lasted_ns as f64);
        share(self.waited_for.get(&rank).copied().unwrap_or(0.0), self.life_ns - own)
    }

    /// The rank that was waited for longest.
    pub fn most_waited_for(&self) -> Option<u32> {
        let most = self.waited_for.iter().max_by(|a, b| a.1.total_cmp(b.1));
        most.filter(|(_, ns)| **ns > 0.0).map(|(rank, _)| *rank)
    }

    /// The rank with this number.
    pub fn rank(&self, number: u32) -> Option<&'a Rank> {
        let at = self.run.ranks.binary_search_by_key(&number, |rank| rank.rank).ok()?;
        self.run.ranks.get(at)
    }

    /// Waits of a rank for ranks of other nodes.
    pub fn remote_waits_ns(&self, rank: &Rank) -> f64 {
        let remote = |other: u32| self.rank(other).is_some_and(|other| other.node != rank.node);
        let waits = rank.waited_for.iter().filter(|w| w.rank.is_some_and(remote));
        waits.map(|w| w.ns as f64).sum()
    }

    /// A counter of the engine, of all ranks together.
    pub fn count(&self, name: &str) -> f64 {
        self.run.ranks.iter().map(|rank| count(rank, name)).sum()
    }

    /// How often ranks have told senders to stop, of all together.
    pub fn holds(&self) -> f64 {
        self.run.ranks.iter().map(holds).sum()
    }

    /// Frames given to links for each message that went over them, acknowledgements included.
    pub fn frames_a_message(&self) -> Option<f64> {
        let messages = self.count("messages_sent") + self.count("announced");
        let frames = self.count("frames_sent");
        (messages > 0.0 && frames > 0.0).then(|| frames / messages)
    }

    /// The ranks of a node.
    pub fn ranks_of(&self, node: u32) -> impl Iterator<Item = &'a Rank> {
        self.run.ranks.iter().filter(move |rank| rank.node == node)
    }

    /// A node's name.
    pub fn node(&self, node: u32) -> &'a str {
        self.run.nodes.get(node as usize).map_or("?", |node| node.name.as_str())
    }

    /// The ranks that did not end well, the first to end first.
    pub fn failed(&self) -> Vec<&'a Rank> {
        let bad = |r: &&Rank| matches!(r.ended, Ended::Code(_) | Ended::Signal(_));
        let mut failed: Vec<&Rank> = self.run.ranks.iter().filter(bad).collect();
        failed.sort_by_key(|rank| rank.began_ns.saturating_add(rank.lasted_ns));
        failed
    }
}

/// Messages and bytes that were sent: by pairs, or else by sizes.
fn sent(run: &Run) -> (f64, f64) {
    let add = |(a, b): (f64, f64), (m, n): (u64, u64)| (a + m as f64, b + n as f64);
    if run.flows.is_empty() {
        let sizes = run.ranks.iter().flat_map(|rank| &rank.sizes);
        return sizes.map(|s| (s.messages, s.bytes)).fold((0.0, 0.0), add);
    }
    run.flows.iter().map(|f| (f.messages, f.bytes)).fold((0.0, 0.0), add)
}

/// A counter of a rank's engine.
pub fn count(rank: &Rank, name: &str) -> f64 {
    rank.counts.get(name).copied().unwrap_or(0) as f64
}

/// How often a rank has told senders to stop: by a STOP on the wire, and within its node.
pub fn holds(rank: &Rank) -> f64 {
    count(rank, "stops_sent") + count(rank, "shm.holds")
}

/// The messages that it took of those whom it can tell that.
pub fn received(rank: &Rank) -> f64 {
    count(rank, "messages_received") + count(rank, "shm.received")
}

/// What a rank did outside of Weft's calls, as far as is known.
pub fn work_ns(rank: &Rank) -> f64 {
    rank.lasted_ns.saturating_sub(rank.calls_ns.unwrap_or(0).max(rank.waits_ns)) as f64
}

/// The middle one, or the lower of the two in the middle; 0 for none.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flow, Node, Size, Waited};

    #[test]
    fn sums_count_what_others_waited_and_never_wrap() {
        let waited = |rank, ns| Waited { rank, ns, times: 1 };
        let rank = |rank: u32, node, waited_for| Rank {
            rank,
            node,
            lasted_ns: u64::MAX,
            waited_for,
            sizes: vec![Size { up_to: 8, messages: 1, bytes: 8 }],
            ..Rank::default()
        };
        let run = Run {
            nodes: vec![Node::default(), Node::default()],
            ranks: vec![
                rank(0, 0, vec![waited(Some(0), 7), waited(Some(1), 5), waited(None, 3)]),
                rank(1, 0, vec![]),
                rank(4, 1, vec![waited(Some(1), 2), waited(Some(9), 2)]),
            ],
            ..Run::default()
        };
        let sums = Sums::new(&run);
        assert_eq!(sums.most_waited_for(), Some(1));
        assert_eq!(sums.waited_for[&1], 7.0);
        assert!(sums.life_ns > 5e19, "{}", sums.life_ns);
        // Nobody knows where rank 9 is.
        assert_eq!(sums.remote_waits_ns(&run.ranks[2]), 2.0);
        assert_eq!((sums.messages, sums.bytes, sums.calls_ns), (3.0, 24.0, None));
        let flows = vec![Flow { from: 0, to: 1, messages: u64::MAX, bytes: u64::MAX }; 2];
        let run = Run { flows, ..run };
        assert!(Sums::new(&run).bytes > 3e19);
    }

    #[test]
    fn nothing_has_sums_too() {
        let sums = Run::default();
        let sums = Sums::new(&sums);
        assert_eq!(
            (sums.of_life(1.0), sums.waited_share(0), sums.most_waited_for()),
            (0.0, 0.0, None)
        );
        assert_eq!((sums.frames_a_message(), sums.calls_ns, sums.node(3)), (None, None, "?"));
    }
}
