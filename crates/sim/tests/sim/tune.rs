//! Weft's control of interrupts beside fixed delays and a model of the kernel's.

use weft_sim::tune::{Costs, Load, Policy, Row, compare, loads, mixtures, run};

/// The ratio of a policy to the best fixed delay.
fn ratio(row: &Row, policy: Policy) -> f64 {
    let at = Policy::all().iter().position(|p| *p == policy).unwrap();
    row.ratios[at]
}

fn rows(of: &[Load], costs: &Costs) -> Vec<Row> {
    of.iter().map(|load| compare(load, costs).unwrap()).collect()
}

#[test]
fn no_load_is_slower_than_with_the_delay_that_is_best_for_it() {
    for (from_last, mbit) in [(false, 1000), (true, 1000), (false, 10_000)] {
        for row in rows(&loads(), &Costs { from_last, mbit, ..Costs::default() }) {
            let ratio = ratio(&row, Policy::Weft);
            assert!(ratio <= 1.03, "{} {from_last} {mbit}: {ratio}", row.load);
        }
    }
}

#[test]
fn mixtures_are_faster_than_with_any_fixed_delay() {
    for row in rows(&mixtures(), &Costs::default()) {
        let ratio = ratio(&row, Policy::Weft);
        assert!(ratio < 1.0, "{}: {ratio}", row.load);
    }
}

/// Else the simulation would have nothing to decide: no fixed delay, and not the kernel's way
/// either, is good for all.
#[test]
fn nothing_else_is_good_for_all_loads() {
    let rows = rows(&loads(), &Costs::default());
    for policy in Policy::all() {
        let worst = rows.iter().map(|row| ratio(row, policy)).fold(1.0, f64::max);
        let is_own = matches!(policy, Policy::Weft | Policy::WeftOutside);
        assert!(is_own || worst > 1.1, "{policy}: {worst}");
    }
}

#[test]
fn a_run_is_always_the_same_and_delays_change_seldom() {
    for load in mixtures() {
        let runs = [0, 1].map(|_| run(&load, Policy::Weft, &Costs::default()).unwrap());
        assert_eq!(runs[0].run_ns, runs[1].run_ns);
        let changes = runs[0].counts[0].changes;
        let intervals = runs[0].run_ns / 10_000_000;
        assert!(changes > 0 && changes < intervals / 4, "{changes} of {intervals}");
    }
}
