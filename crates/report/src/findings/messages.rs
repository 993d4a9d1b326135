//! Messages that are too many, or that nobody takes.

use super::{Finding, cost, cost_at_most, finding};
use crate::sums::{self, Sums};
use crate::units::{self, bytes, many, share};
use crate::{Flow, Rank};

/// Very many small messages from one rank to another.
pub fn small(sums: &Sums) -> Vec<Finding> {
    /// What a message costs each of its two ends whatever its size, within a node and with an MPI
    /// library above: 0.3 us at least on processors of these years.
    const MESSAGE_NS: f64 = 300.0;
    /// Longer messages cost more by their bytes than by their number.
    const BYTES_MOST: f64 = 256.0;
    /// Of a sender's time, from which on one peer's messages are many.
    const SHARE_LEAST: f64 = 0.02;
    let is_many = |flow: &&Flow| {
        let life = sums.rank(flow.from).map_or(0.0, |rank| rank.lasted_ns as f64);
        let messages = flow.messages as f64;
        share(flow.bytes as f64, messages) <= BYTES_MOST
            && share(messages * MESSAGE_NS, life) >= SHARE_LEAST
    };
    let flows: Vec<&Flow> = sums.run.flows.iter().filter(is_many).collect();
    let Some(most) = flows.iter().max_by_key(|flow| flow.messages) else { return Vec::new() };
    let what = || {
        let (from, to) = (most.from, most.to);
        let number = units::count(most.messages as f64);
        let each = bytes(share(most.bytes as f64, most.messages as f64));
        let others = match flows.len() - 1 {
            0 => String::new(),
            n => format!("; so do {} of ranks", many(n, "other pair")),
        };
        format!("rank {from} sends rank {to} {number} messages of {each} on average{others}.")
    };
    let cure = "Put several into one: collect what goes to one rank and send it at the end of a \
                step (MPI_Pack or a derived datatype, where it lies apart).";
    let all: f64 = flows.iter().map(|flow| flow.messages as f64).sum();
    finding(cost(sums, 2.0 * all * MESSAGE_NS), what, cure)
}

/// Ranks that do not look at what comes, so that senders are told to stop.
pub fn holds(sums: &Sums) -> Vec<Finding> {
    /// One now and then is how a burst is slowed down. Once in so many messages it is a habit.
    const MESSAGES_A_HOLD: f64 = 1000.0;
    /// Fewer are chance.
    const HOLDS_LEAST: f64 = 10.0;
    let often = |rank: &&Rank| {
        let holds = sums::holds(rank);
        holds >= HOLDS_LEAST && holds * MESSAGES_A_HOLD >= sums::received(rank)
    };
    let waited = |rank: &Rank| sums.waited_for.get(&rank.rank).copied().unwrap_or(0.0);
    let ranks: Vec<&Rank> = sums.run.ranks.iter().filter(often).collect();
    let Some(worst) = ranks.iter().max_by(|a, b| waited(a).total_cmp(&waited(b))) else {
        return Vec::new();
    };
    let what = || {
        format!(
            "rank {} does not take what comes: it has told senders {} times to stop, and they \
             waited until it looked.",
            worst.rank,
            units::count(sums::holds(worst))
        )
    };
    let cure = "Have it receive more often, or post receives before it computes (MPI_Irecv); or \
                have the senders wait for an answer now and then.";
    finding(cost_at_most(sums, ranks.iter().map(|rank| waited(rank)).sum()), what, cure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{S, even, wait_for};

    #[test]
    fn many_small_messages_are_told_and_few_or_long_ones_are_not() {
        let mut run = even(4, 2);
        let flow = |from, to, messages, bytes| Flow { from, to, messages, bytes };
        run.flows = vec![flow(0, 1, 5_000_000, 80_000_000), flow(2, 3, 2_000_000, 2_000_000)];
        let found = small(&Sums::new(&run)).pop().unwrap();
        let said = "rank 0 sends rank 1 5 M messages of 16 B on average; so do 1 other pair of";
        assert!(found.what.starts_with(said), "{}", found.what);
        // Seven million, 0.3 us at both ends, of 40 s.
        assert!((found.cost.unwrap().share - 0.105).abs() < 1e-9, "{found:?}");
        run.flows = vec![flow(0, 1, 5_000_000, 80_000_000_000), flow(2, 3, 100, 100)];
        assert_eq!(small(&Sums::new(&run)), []);
    }

    #[test]
    fn a_receiver_that_does_not_look_is_named() {
        let mut run = even(4, 2);
        wait_for(&mut run, 0, Some(2), 3 * S);
        run.ranks[2].counts = [("stops_sent", 1200), ("messages_received", 100_000)]
            .map(|(name, n)| (name.to_string(), n))
            .into();
        let found = holds(&Sums::new(&run)).pop().unwrap();
        assert!(found.what.contains("rank 2") && found.what.contains("1.2 k times"), "{found:?}");
        run.ranks[2].counts.insert("messages_received".into(), 9_000_000);
        assert_eq!(holds(&Sums::new(&run)), []);
        // Within a node.
        run.ranks[2].counts =
            [("shm.holds", 30), ("shm.received", 20_000)].map(|(name, n)| (name.into(), n)).into();
        let found = holds(&Sums::new(&run)).pop().unwrap();
        assert!(found.what.contains("told senders 30 times"), "{found:?}");
        run.ranks[2].counts.insert("shm.received".into(), 9_000_000);
        assert_eq!(holds(&Sums::new(&run)), []);
    }
}
