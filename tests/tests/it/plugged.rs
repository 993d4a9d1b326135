//! Cables that come and go while a job runs: put in, pulled out and put back, or bad.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_tests::held::HeldCable;
use weft_tests::job::{Cluster, Job, eventually, run_in};

use super::{RANK, WEFT};

/// A limit on silence that no test comes near.
const LONGER: (&str, &str) = ("WEFT_PEER_LIMIT_S", "60");

/// Two ranks, each on a node, that send to each other until they are told to stop.
pub(super) fn start(lab: &Cluster, links: &str) -> Job {
    start_with(lab, &[LONGER, ("WEFT_LINKS", links)])
}

fn start_with(lab: &Cluster, variables: &[(&str, &str)]) -> Job {
    let arguments = ["-n", "2", "--lab", lab.name(), "--", RANK, "across", "1"];
    Job::start(WEFT, &arguments, variables)
}

/// Bytes that node 0 has sent by an interface.
pub(super) fn sent_bytes(lab: &Cluster, interface: &str) -> u64 {
    let show = || Command::new("ip").args(["-s", "-j", "link", "show", interface]).output();
    let output = lab.node(0).run(show).expect("the `ip` program");
    let all: Value = serde_json::from_slice(&output.stdout).expect("what `ip` shows");
    all[0]["stats64"]["tx"]["bytes"].as_u64().expect("a count of bytes")
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

pub(super) fn stops(mut job: Job) -> String {
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

/// Neither end sees it: the port is taken out of its switch.
#[test]
fn a_cable_that_falls_silent_is_left_and_what_it_lost_comes_by_the_other() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,links=2") else { return };
    let arguments = ["-n", "2", "--lab", lab.name(), "--", RANK, "among", "2"];
    let mut job = Job::start(WEFT, &arguments, &[LONGER]);
    job.grows("@0 got ", 50);
    for port in ["p0-0", "p0-1"] {
        let show = || Command::new("ip").args(["-j", "link", "show", port]).output();
        let output = lab.switch().run(show).expect("the `ip` program");
        let all: Value = serde_json::from_slice(&output.stdout).expect("what `ip` shows");
        let bridge = all[0]["master"].as_str().expect("the port's switch");
        run_in(&lab.switch(), "ip", &["link", "set", port, "nomaster"]);
        job.grows("@0 got ", 50);
        run_in(&lab.switch(), "ip", &["link", "set", port, "master", bridge]);
        job.grows("@0 got ", 50);
    }
    job.order("stop");
    let sent = job.number("@0 all from 1: ");
    assert_eq!(job.number("@1 all from 0: "), sent);
    for rank in 0..2 {
        let gap = job.number(&format!("@{rank} longest gap "));
        println!("the longest that rank {rank} waited for a message: {gap} ms");
        job.says(&format!("@{rank} complete"));
    }
}

#[test]
fn a_cable_that_is_put_in_while_a_job_runs_is_used() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,topology=mesh") else { return };
    let mut job = start(&lab, "packet,udp,tso");
    let there = job.rank(1);
    job.says("@0 got");
    plug(&lab, ["more0", "more1"], there);
    let begun = Instant::now();
    // More than hellos and all that finds out what it is good for.
    eventually("use of the new cable", || sent_bytes(&lab, "more0") > 1 << 20);
    let took = begun.elapsed();
    println!("a cable that was put in has carried a MiB {} ms later", took.as_millis());
    assert!(took < Duration::from_secs(60), "{took:?}");
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
    // Both ends find so, each of what it sends, and say it once.
    for _ in 0..2 {
        job.mentions("loses more than one frame in fifty");
    }
    job.grows("@0 got ", 50);
    let said = stops(job);
    let left = said.lines().find_map(|l| l.strip_prefix("@0 counter ether.paths_left "));
    assert!(left.is_some_and(|times| times != "0"), "{said}");
}

/// Both cables are alike, so that only losses can decide.
#[test]
fn a_cable_that_loses_nothing_any_more_is_taken_again() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,topology=mesh") else { return };
    let [bad, good] = ["held0", "held1"].map(|name| HeldCable::plug(&lab, name));
    bad.loses_one_in(12);
    let only = ("WEFT_INTERFACES", "held0,held1");
    let mut job = start_with(&lab, &[LONGER, ("WEFT_LINKS", "packet"), only]);
    for _ in 0..2 {
        job.mentions("loses more than one frame in fifty");
    }
    bad.loses_one_in(0);
    let (begun, before) = (Instant::now(), bad.carried_bytes());
    // Far more than what asks whether it is better now.
    eventually("use of the mended cable", || bad.carried_bytes() > before + (8 << 20));
    println!("a mended cable has carried 8 MiB {} ms later", begun.elapsed().as_millis());
    job.grows("@0 got ", 20);
    let said = stops(job);
    assert!(good.carried_bytes() > 0, "{said}");
}

/// Its round trip is so long that no machine, however loaded, takes the other cable to be as far.
#[test]
fn a_far_longer_way_carries_little_where_there_is_another() {
    // It is the first, and so the one that a choice by order would take.
    let spec = "topology=cables=node0+node1+rate=100mbit+delay=300ms;node0+node1";
    let Some(lab) = Cluster::new(WEFT, spec) else { return };
    let mut job = start(&lab, "packet,udp,tso");
    // Until a few answers have come nobody knows how far it is.
    job.grows("@0 got ", 60);
    let sent = || ["to1a", "to1b"].map(|name| sent_bytes(&lab, name));
    // What asks whether it is better remains. What went by it at first is sent again, by it as
    // well, for as long as a busy machine takes for that.
    let is_left = (0..4).any(|_| {
        let before = sent();
        job.grows("@0 got ", 60);
        let after = sent();
        let [far, near] = [0, 1].map(|at| after[at] - before[at]);
        println!("bytes by the far way: {far}, by the near one: {near}");
        far < near / 5
    });
    let said = stops(job);
    assert!(is_left, "{said}");
}
