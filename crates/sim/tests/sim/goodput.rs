//! How much of a wire is used. Simulated figures are the same on every machine, so they may be
//! asserted.

use weft_sim::proto::goodput::{Case, LOSSES, RTTS, eager_incast, measure, table};

const LAN: [u64; 4] = [RTTS[0], RTTS[1], RTTS[2], RTTS[3]];

#[test]
fn one_percent_of_loss_leaves_seventy_percent_on_a_lan() {
    assert_eq!(LOSSES[3], 10_000);
    for rtt in LAN {
        let free = measure(&Case::pair(rtt, 0)).unwrap();
        let lossy = measure(&Case::pair(rtt, LOSSES[3])).unwrap();
        let share = lossy.bytes_per_s / free.bytes_per_s;
        assert!(share >= 0.7, "{rtt} ns: {share:.2} of loss-free");
    }
}

#[test]
fn many_senders_to_one_fill_the_link_in_spite_of_a_shallow_switch() {
    for case in [Case::incast(), eager_incast()] {
        let figure = measure(&case).unwrap();
        assert!(figure.link_share >= 0.8, "{case:?}: {figure:?}");
    }
}

#[test]
fn frames_that_take_many_on_the_wire_give_way_where_something_is_lost() {
    for rtt in LAN {
        let without = measure(&Case { long: false, ..Case::long_pair(rtt, 0) }).unwrap();
        for loss in LOSSES {
            let lossy = measure(&Case::long_pair(rtt, loss)).unwrap();
            let share = lossy.bytes_per_s / without.bytes_per_s;
            let least = if loss <= 10_000 { 0.7 } else { 0.5 };
            assert!(share >= least, "{rtt} ns, {loss} millionths: {share:.2} of loss-free");
        }
    }
    for case in [Case::incast(), eager_incast()] {
        let figure = measure(&Case { long: true, ..case }).unwrap();
        assert!(figure.link_share >= 0.8, "{case:?}: {figure:?}");
    }
}

#[test]
fn the_table_is_what_it_was() {
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("goodput", table().unwrap());
    });
}
