//! What cost a run most, in words: each rule looks at the record for one thing that makes programs
//! slow, says what it cost and what to do.
//!
//! Costs of several findings may be the same time twice: a rank that is waited for because it
//! computes longer may be the one whose processor others took. They are not to be added.

mod ends;
mod links;
mod messages;
mod processors;
mod waits;

use crate::Run;
use crate::sums::Sums;
use crate::units::{percent, time};

/// Something that a run lost time by, or that went wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What it cost. `None`: it is no matter of time, and comes first.
    pub cost: Option<Cost>,
    /// What was seen.
    pub what: String,
    /// What to do.
    pub cure: String,
}

/// Time that was lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Of the time of all ranks, from 0 on.
    pub share: f64,
    /// Of each rank, on average.
    pub ns: f64,
    /// It may be less: nobody can tell how much of these waits comes of it.
    pub at_most: bool,
}

impl Cost {
    /// In words: `41 % of the time (4.1 s of each rank)`.
    pub fn text(&self) -> String {
        let up_to = if self.at_most { "up to " } else { "" };
        format!("{up_to}{} of the time ({} of each rank)", percent(self.share), time(self.ns))
    }
}

/// What costs less is not told. Two runs of one program differ by a few percent on a machine that
/// does other things, too, so nobody would see that a cure has helped.
const LEAST_SHARE: f64 = 0.03;

/// So many findings are shown: what comes after costs less, and is better looked at in a run
/// without these.
const SHOWN_MOST: usize = 3;

/// All rules.
const RULES: &[fn(&Sums) -> Vec<Finding>] = &[
    ends::nobody,
    ends::failed,
    waits::imbalance,
    waits::hub,
    waits::exchange,
    waits::late_receivers,
    links::one_carries_all,
    links::udp_only,
    links::loss,
    messages::small,
    messages::holds,
    processors::robbed,
];

/// The findings that cost most, most first. Empty: nothing costs more than a few percent.
pub fn findings(run: &Run) -> Vec<Finding> {
    let sums = Sums::new(run);
    let mut found: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&sums)).collect();
    let share = |finding: &Finding| finding.cost.map_or(f64::INFINITY, |cost| cost.share);
    found.sort_by(|a, b| share(b).total_cmp(&share(a)));
    found.truncate(SHOWN_MOST);
    found
}

/// What is said where nothing was found.
pub fn nothing() -> String {
    format!("Nothing was found that costs {} of the time or more.", percent(LEAST_SHARE))
}

/// The cost of `ns` of the time of all ranks, if it is worth telling.
fn cost(sums: &Sums, ns: f64) -> Option<Cost> {
    let share = sums.of_life(ns).min(1.0);
    let each = sums.life_ns / sums.run.ranks.len().max(1) as f64;
    (share >= LEAST_SHARE).then_some(Cost { share, ns: share * each, at_most: false })
}

/// The same, for time that is lost at most.
fn cost_at_most(sums: &Sums, ns: f64) -> Option<Cost> {
    cost(sums, ns).map(|cost| Cost { at_most: true, ..cost })
}

/// A finding with a cost, or none without.
fn finding(cost: Option<Cost>, what: impl FnOnce() -> String, cure: &str) -> Vec<Finding> {
    let found = cost.map(|cost| Finding { cost: Some(cost), what: what(), cure: cure.into() });
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{S, even};

    #[test]
    fn an_even_run_has_no_findings_and_neither_has_none_at_all() {
        assert_eq!(findings(&even(4, 2)), []);
        // A rule must not divide by what is not there.
        let mut run = even(4, 1);
        run.ranks.iter_mut().for_each(|rank| rank.lasted_ns = 0);
        assert_eq!(findings(&run), []);
        let none = findings(&Run::default());
        assert!(none.len() == 1 && none[0].what.contains("No rank"), "{none:?}");
    }

    #[test]
    fn three_are_told_the_costliest_first_and_what_is_no_time_before_them() {
        let mut run = even(4, 2);
        for rank in &mut run.ranks {
            rank.robbed_ns = 2 * S;
            rank.waits_ns = 4 * S;
        }
        run.ranks[3].ended = crate::Ended::Signal(9);
        run.ranks[3].waits_ns = 0;
        let found = findings(&run);
        assert!(found.len() == 3 && found[0].cost.is_none(), "{found:?}");
        let shares: Vec<f64> = found[1..].iter().filter_map(|f| f.cost).map(|c| c.share).collect();
        assert!(shares.len() == 2 && shares[0] >= shares[1], "{found:?}");
        let said = found[1].cost.unwrap().text();
        assert!(said.contains("% of the time (") && said.contains(" s of each rank)"), "{said}");
    }
}
