//! Cables that come and go while a job runs: put in, pulled out and put back, or bad.

use weft_tests::job::{Cluster, Job, run_in};

use super::{RANK, WEFT};

/// A limit on silence that no test comes near.
const LONGER: (&str, &str) = ("WEFT_PEER_LIMIT_S", "60");

/// Two ranks, each on a node, that send to each other until they are told to stop.
fn start(lab: &Cluster, links: &str) -> Job {
    let arguments = ["-n", "2", "--lab", lab.name(), "--", RANK, "across", "1"];
    Job::start(WEFT, &arguments, &[LONGER, ("WEFT_LINKS", links)])
}

/// Puts a cable between two nodes, one of which has the process `there`.
fn plug(lab: &Cluster, ends: [&str; 2], there: u32) {
    let there = there.to_string();
    let cable = ["link", "add", ends[0], "type", "veth", "peer", "name", ends[1], "netns", &there];
    run_in(&lab.node(0), "ip", &cable);
    for (node, end) in ends.into_iter().enumerate() {
        run_in(&lab.node(node as u32), "ip", &["link", "set", end, "up"]);
    }
}

fn stops(mut job: Job) -> String {
    job.order("stop");
    job.ends_well()
}

#[test]
fn an_adapter_that_is_pulled_out_and_put_back_is_used_again() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,topology=mesh") else { return };
    let mut job = start(&lab, "packet,udp,tso");
    let there = job.rank(1);
    for _ in 0..2 {
        job.says("@0 got");
        // With its cable, and so the other one as well.
        run_in(&lab.node(0), "ip", &["link", "del", "to1a"]);
        // Another interface of the same name, with another address.
        plug(&lab, ["to1a", "to0a"], there);
        job.grows("@0 got ", 50);
    }
    stops(job);
}

#[test]
fn a_cable_that_is_put_in_while_a_job_runs_is_used() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,topology=mesh") else { return };
    let mut job = start(&lab, "packet,udp,tso");
    let there = job.rank(1);
    job.says("@0 got");
    plug(&lab, ["more0", "more1"], there);
    job.grows("@0 got ", 50);
    run_in(&lab.node(1), "ip", &["link", "set", "to0a", "down"]);
    job.grows("@0 got ", 50);
    let said = stops(job);
    let by_it = said.lines().find_map(|l| l.strip_prefix("@0 counter packet:more0.sent_frames "));
    assert!(by_it.is_some_and(|frames| frames != "0"), "{said}");
}

#[test]
fn a_cable_that_loses_frames_is_left_to_the_other() {
    let spec = "topology=cables=node0+node1+loss=8%;node0+node1";
    let Some(lab) = Cluster::new(WEFT, spec) else { return };
    // All as frames of the wire, so that there are many.
    let mut job = start(&lab, "packet");
    job.grows("@0 got ", 50);
    let said = stops(job);
    assert!(said.contains("loses more than one frame in fifty"), "{said}");
    let left = said.lines().find_map(|l| l.strip_prefix("@0 counter ether.paths_left "));
    assert!(left.is_some_and(|times| times != "0"), "{said}");
}
