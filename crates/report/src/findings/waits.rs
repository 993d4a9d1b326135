//! Who is waited for, and why.

use super::{Finding, LEAST_SHARE, cost, cost_at_most, finding};
use crate::Rank;
use crate::sums::{Sums, median, work_ns};
use crate::units::{percent, ranks, share, time};

/// Ranks that compute longer than others, who wait for them. Who joined late or died early is left
/// out: it had less time, not less work.
struct Uneven {
    /// Those that compute longest.
    heavy: Vec<u32>,
    /// How much longer the longest computes than the middle one, as a share.
    excess: f64,
    /// The same as a time.
    excess_ns: f64,
    /// How long the others waited that would not have, had all computed as long.
    lost_ns: f64,
    /// Most of the difference is time without a processor.
    robbed: bool,
}

/// Ranks computing within this of each other do not differ by their work, but by chance.
const EXCESS_LEAST: f64 = 0.05;

/// More than this is told as a time.
const EXCESS_MOST: f64 = 10.0;

fn uneven(sums: &Sums) -> Option<Uneven> {
    let longest = sums.run.ranks.iter().map(|rank| rank.lasted_ns).max()?;
    let whole = |rank: &&Rank| rank.lasted_ns >= longest / 2;
    let all: Vec<&Rank> = sums.run.ranks.iter().filter(whole).collect();
    let middle = median(all.iter().map(|rank| work_ns(rank)));
    let most = all.iter().map(|rank| work_ns(rank)).fold(0.0, f64::max);
    let excess = share(most, middle) - 1.0;
    // Where ranks do next to nothing but make calls, a great share more is no more than that.
    let is_little = most - middle < LEAST_SHARE * longest as f64;
    if all.len() < 2 || excess < EXCESS_LEAST || is_little {
        return None;
    }
    let lost = |rank: &&Rank| (most - work_ns(rank)).min(rank.waits_ns as f64);
    let is_heavy = |rank: &&&Rank| work_ns(rank) >= (most + middle) / 2.0;
    let heavy: Vec<&&Rank> = all.iter().filter(is_heavy).collect();
    let robbed = heavy.iter().map(|r| r.robbed_ns as f64).sum::<f64>() / heavy.len() as f64;
    let usual = median(all.iter().map(|rank| rank.robbed_ns as f64));
    Some(Uneven {
        heavy: heavy.iter().map(|rank| rank.rank).collect(),
        excess,
        excess_ns: most - middle,
        lost_ns: all.iter().map(lost).sum(),
        robbed: robbed - usual >= (most - middle) / 2.0,
    })
}

/// Some ranks have more work, or a slower node.
pub fn imbalance(sums: &Sums) -> Vec<Finding> {
    let Some(uneven) = uneven(sums).filter(|uneven| !uneven.robbed) else { return Vec::new() };
    let names = ranks(&uneven.heavy);
    let (is_waited_for, it, computes) = match uneven.heavy.len() {
        1 => ("is waited for", "it", "computes"),
        _ => ("are waited for", "they", "compute"),
    };
    let cost = cost(sums, uneven.lost_ns);
    let what = || {
        // Of next to nothing any share is great.
        let excess = match uneven.excess < EXCESS_MOST {
            true => percent(uneven.excess),
            false => time(uneven.excess_ns),
        };
        let longer = format!("{computes} up to {excess} longer than most");
        let lost = cost.map_or(0.0, |cost| cost.share);
        match waited_share(sums, &uneven.heavy) {
            // Who waits for it is late for the next one.
            share if share < lost / 2.0 => {
                format!("{names} {longer}; some wait for that, and others for those.")
            }
            share => {
                format!("{names} {is_waited_for} {} of the time: {it} {longer}.", percent(share))
            }
        }
    };
    let Some(node) = whole_node(sums, &uneven.heavy) else {
        return finding(cost, what, "Divide the work anew, so that each rank computes as long.");
    };
    let what = || format!("{} These are all ranks of {}.", what(), sums.node(node));
    let cure = "If they have more work than the others, divide it anew. If not, that node is \
                slower: `weft doctor` there shows a processor that is slowed down, and `top` what \
                else runs.";
    finding(cost, what, cure)
}

/// The node that has all of these ranks and no other, where there are several nodes.
fn whole_node(sums: &Sums, heavy: &[u32]) -> Option<u32> {
    let node = sums.rank(*heavy.first()?)?.node;
    let same = heavy.iter().all(|rank| sums.rank(*rank).is_some_and(|r| r.node == node));
    let whole = sums.ranks_of(node).count() == heavy.len();
    (same && whole && sums.run.nodes.len() > 1).then_some(node)
}

/// What part of their time other ranks waited for one of these.
fn waited_share(sums: &Sums, these: &[u32]) -> f64 {
    let others = || sums.run.ranks.iter().filter(|rank| !these.contains(&rank.rank));
    let for_these = |rank: &Rank| -> f64 {
        let waits = rank.waited_for.iter().filter(|w| w.rank.is_some_and(|r| these.contains(&r)));
        waits.map(|w| w.ns as f64).sum()
    };
    share(others().map(for_these).sum(), others().map(|rank| rank.lasted_ns as f64).sum())
}

/// A rank that is waited for by many, and does not compute longer.
fn most_waited_for(sums: &Sums) -> Option<u32> {
    /// Fewer ranks always wait for one of few others.
    const RANKS_LEAST: usize = 4;
    let rank = sums.most_waited_for()?;
    let of = sums.waited_for.get(&rank)?;
    let all: f64 = sums.waited_for.values().sum();
    let heavy = uneven(sums).is_some_and(|uneven| uneven.heavy.contains(&rank));
    let one = *of >= all / 2.0 && sums.run.ranks.len() >= RANKS_LEAST;
    (one && !heavy).then_some(rank)
}

/// One rank serves the others.
pub fn hub(sums: &Sums) -> Vec<Finding> {
    let Some(hub) = most_waited_for(sums) else { return Vec::new() };
    let what = || {
        format!(
            "rank {hub} is waited for {} of the time, more than all others together, though it \
             does not compute longer: the others go through it, one after the other.",
            percent(sums.waited_share(hub))
        )
    };
    let cure = "Let collective operations do what it does, if they can (MPI_Bcast, MPI_Reduce, \
                MPI_Gather: they use all ranks), or have several ranks that serve.";
    let ns = sums.waited_for.get(&hub).copied().unwrap_or(0.0);
    finding(cost_at_most(sums, ns), what, cure)
}

/// All ranks wait alike: it is the exchange that takes time.
pub fn exchange(sums: &Sums) -> Vec<Finding> {
    /// Every program that exchanges something waits a little for it. From a tenth of the time on it
    /// is worth changing the program.
    const SHARE_LEAST: f64 = 0.10;
    let explained = uneven(sums).map_or(0.0, |uneven| uneven.lost_ns);
    let left = (sums.waits_ns - explained).max(0.0);
    if sums.of_life(left) < SHARE_LEAST || most_waited_for(sums).is_some() {
        return Vec::new();
    }
    let remote: f64 = sums.run.ranks.iter().map(|rank| sums.remote_waits_ns(rank)).sum();
    let known: f64 = sums.waited_for.values().sum();
    let place = match share(remote, known) {
        _ if known <= 0.0 || sums.run.nodes.len() < 2 => String::new(),
        part => format!(" {} of it is for ranks of other nodes.", percent(part)),
    };
    let what = || {
        let alike = percent(sums.of_life(left));
        format!(
            "All ranks wait {alike} of their time for messages, none for one rank alone.{place}"
        )
    };
    let cure = "Begin exchanges earlier and compute meanwhile (MPI_Irecv and MPI_Isend first, \
                MPI_Waitall last); send fewer and longer messages; put ranks that exchange most on \
                one node.";
    finding(cost(sums, left), what, cure)
}

/// Messages lie there until their receiver asks for them, and their senders wait.
pub fn late_receivers(sums: &Sums) -> Vec<Finding> {
    // How long a message lies costs nothing by itself; what the others wait for that rank meanwhile
    // is the most that it can.
    let lost = |rank: &Rank| {
        let waited = sums.waited_for.get(&rank.rank).copied().unwrap_or(0.0);
        waited.min(rank.late_receivers.ns as f64)
    };
    let all = &sums.run.ranks;
    let Some(worst) = all.iter().max_by(|a, b| lost(a).total_cmp(&lost(b))) else {
        return Vec::new();
    };
    let what = || {
        let count = crate::units::count(worst.late_receivers.times as f64);
        format!(
            "rank {} posts its receives late: {count} messages were there before them, and others \
             waited meanwhile.",
            worst.rank
        )
    };
    let cure = "Post receives before computing (MPI_Irecv), so that messages go where they belong \
                as they come.";
    finding(cost_at_most(sums, all.iter().map(lost).sum()), what, cure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{S, even, wait_for};
    use crate::{Late, Run};

    fn one(rule: fn(&Sums) -> Vec<Finding>, run: &Run) -> Finding {
        rule(&Sums::new(run)).pop().expect("something is found")
    }

    /// Rank 3 computes 9 s of 10, the others 7, and wait for it 2.5.
    fn heavy() -> Run {
        let mut run = even(4, 2);
        for rank in 0..3 {
            run.ranks[rank].waits_ns = 0;
            wait_for(&mut run, rank, Some(3), 3 * S);
        }
        run.ranks[3].waits_ns = S;
        run
    }

    #[test]
    fn a_rank_with_more_work_is_named_with_what_the_others_wait() {
        let found = one(imbalance, &heavy());
        let said = "rank 3 is waited for 30 % of the time: it computes up to 29 % longer than most";
        assert!(found.what.starts_with(said), "{}", found.what);
        // Two seconds of ten, of three ranks of four.
        let cost = found.cost.unwrap();
        assert!((cost.share - 0.15).abs() < 1e-9 && !cost.at_most, "{cost:?}");
        assert!(found.cure.starts_with("Divide the work anew"), "{}", found.cure);
        assert_eq!(imbalance(&Sums::new(&even(4, 2))), []);
    }

    #[test]
    fn where_most_only_make_calls_the_rank_that_computes_is_told_by_a_time() {
        let mut run = even(4, 2);
        run.ranks.iter_mut().for_each(|rank| rank.calls_ns = Some(10 * S - S / 1000));
        for rank in 0..3 {
            wait_for(&mut run, rank, Some(3), 2 * S);
        }
        run.ranks[3].calls_ns = Some(8 * S);
        let found = one(imbalance, &run);
        assert!(found.what.ends_with("it computes up to 2 s longer than most."), "{}", found.what);
        // Ten times as much as next to nothing.
        run.ranks[3].calls_ns = Some(10 * S - S / 100);
        assert_eq!(imbalance(&Sums::new(&run)), []);
        assert!(one(hub, &run).what.starts_with("rank 3 is waited for"));
    }

    #[test]
    fn a_node_whose_ranks_are_all_slow_is_named() {
        let mut run = heavy();
        run.ranks[2].waits_ns = S;
        let found = one(imbalance, &run);
        assert!(found.what.starts_with("ranks 2 and 3 are waited for"), "{}", found.what);
        assert!(found.what.ends_with("all ranks of node1."), "{}", found.what);
        assert!(found.cure.contains("weft doctor"), "{}", found.cure);
    }

    #[test]
    fn time_without_a_processor_is_no_work_and_who_died_early_had_no_less() {
        let mut run = heavy();
        run.ranks[3].robbed_ns = 2 * S;
        assert_eq!(imbalance(&Sums::new(&run)), []);
        let mut run = even(4, 2);
        run.ranks[1].lasted_ns = S;
        assert_eq!(imbalance(&Sums::new(&run)), []);
    }

    #[test]
    fn waits_that_are_passed_on_or_have_no_name_are_told_all_the_same() {
        let mut run = heavy();
        run.ranks.iter_mut().for_each(|rank| rank.waited_for.clear());
        let found = one(imbalance, &run);
        assert!(
            found.what.ends_with("some wait for that, and others for those."),
            "{}",
            found.what
        );
    }

    #[test]
    fn a_rank_that_serves_all_is_told_from_one_with_more_work() {
        let mut run = even(4, 2);
        for rank in 1..4 {
            wait_for(&mut run, rank, Some(0), 4 * S);
        }
        run.ranks[0].waits_ns = 4 * S;
        let found = one(hub, &run);
        assert!(found.what.starts_with("rank 0 is waited for 40 %"), "{}", found.what);
        assert!(found.cost.unwrap().at_most, "{found:?}");
        assert_eq!(exchange(&Sums::new(&run)), []);
        assert_eq!(hub(&Sums::new(&heavy())), []);
        assert_eq!(hub(&Sums::new(&even(4, 2))), []);
    }

    #[test]
    fn waits_that_all_share_are_the_exchange() {
        let mut run = even(4, 2);
        for rank in 0..4 {
            wait_for(&mut run, rank, Some((rank as u32 + 1) % 4), 2 * S);
        }
        let found = one(exchange, &run);
        assert!(found.what.starts_with("All ranks wait 20 %"), "{}", found.what);
        assert!(found.what.contains("50 % of it is for ranks of other nodes"), "{}", found.what);
        assert_eq!(exchange(&Sums::new(&even(4, 2))), []);
    }

    #[test]
    fn late_receives_cost_what_others_waited_at_most() {
        let mut run = even(4, 2);
        run.ranks[2].late_receivers = Late { ns: 90 * S, times: 1200 };
        assert_eq!(late_receivers(&Sums::new(&run)), [], "nobody waited");
        wait_for(&mut run, 0, Some(2), 2 * S);
        let found = one(late_receivers, &run);
        assert!(found.what.contains("rank 2 posts its receives late: 1.2 k"), "{}", found.what);
        let cost = found.cost.unwrap();
        assert!((cost.share - 0.05).abs() < 1e-9 && cost.at_most, "{cost:?}");
    }
}
