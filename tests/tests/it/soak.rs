//! Messages with random gaps between them, in which nobody makes a call.

use std::process::Command;

use weft_tests::job::{Cluster, Job};

use super::{RANK, WEFT};

/// `make test-mpi` has a million.
#[test]
fn what_is_sent_now_and_then_comes_once_in_order_and_without_a_further_call() {
    const COUNT: u64 = 12_000;
    let lab = Cluster::new(WEFT, "nodes=2");
    let mut command = Command::new(RANK);
    command.args(["soak", &COUNT.to_string(), "6"]).args(lab.as_ref().map(Cluster::name));
    let mut job = Job::of(&mut command);
    assert_eq!(job.number("@0 received "), COUNT);
    job.ends_well();
}
