//! Jobs on nodes that have no cable to each other: frames go through the nodes between.

use std::process::Command;

use weft_sys::relay::programs_at;
use weft_tests::job::{CONT, Cluster, Job, KILL, eventually, run_in, signal, stop};
use weft_tests::mpi::{Mpi, Run, alone, provider};

use super::{RANK, WEFT};

/// A limit on silence that no test comes near.
const LONGER: (&str, &str) = ("WEFT_PEER_LIMIT_S", "60");

fn cluster(spec: &str) -> Option<Cluster> {
    Cluster::new(WEFT, spec)
}

fn start(lab: &Cluster, ranks: &str, role: &[&str], variables: &[(&str, &str)]) -> Job {
    let mut arguments = vec!["-n", ranks, "--keep-going", "--lab", lab.name(), "--", RANK];
    arguments.extend(role);
    Job::start(WEFT, &arguments, variables)
}

/// Frames are handed on by a thread of a rank, though its node's kernel might.
const BY_A_PROCESS: (&str, &str) = ("WEFT_RELAY", "process");
const BY_THE_KERNEL: (&str, &str) = ("WEFT_RELAY", "kernel");

/// Frames that a rank's node has handed on, as its end told.
fn relayed(said: &str, rank: u32) -> u64 {
    let start = format!("@{rank} counter ether.relayed_frames ");
    said.lines().find_map(|line| line.strip_prefix(&start)).map_or(0, |n| n.parse().unwrap())
}

#[test]
fn everybody_talks_to_everybody_whatever_the_cables() {
    for (spec, ranks, between) in [
        ("nodes=4,topology=chain", "4", &[1, 2][..]),
        ("nodes=4,topology=ring,addresses=none", "4", &[]),
        ("nodes=4,topology=star,addresses=same", "4", &[0]),
        ("topology=grid=2x3", "6", &[]),
        ("topology=groups=2x2", "4", &[]),
        ("nodes=3,topology=chain", "6", &[]),
        ("nodes=3,topology=chain,links=2", "3", &[1]),
    ] {
        let Some(lab) = cluster(spec) else { return };
        let said = start(&lab, ranks, &["talk", "3"], &[]).ends_well();
        for &rank in between {
            assert!(relayed(&said, rank) > 0, "{spec}, rank {rank}: {said}");
        }
        // In groups all have a port of the switch, and need nobody between.
        let all: u64 = (0..6).map(|rank| relayed(&said, rank)).sum();
        assert!(all > 100 || spec.contains("groups"), "{spec}: {all} frames: {said}");
    }
}

/// Also what the kernel is to cut, and frames of links of each kind.
#[test]
fn everybody_talks_to_everybody_where_a_process_hands_frames_on() {
    for (spec, ranks, links) in [
        ("nodes=3,topology=chain", "3", "packet,tso"),
        ("nodes=3,topology=chain", "6", "packet"),
        ("nodes=3,topology=chain", "3", "tso"),
        ("nodes=4,topology=ring,addresses=none", "4", "packet,tso"),
    ] {
        let Some(lab) = cluster(spec) else { return };
        let variables = [BY_A_PROCESS, ("WEFT_LINKS", links)];
        let said = start(&lab, ranks, &["talk", "3"], &variables).ends_well();
        let all: u64 = (0..6).map(|rank| relayed(&said, rank)).sum();
        assert!(all > 100, "{spec}, {links}: {all} frames: {said}");
    }
}

#[test]
fn a_node_whose_program_stands_still_hands_on_all_the_same() {
    let Some(lab) = cluster("nodes=3,topology=chain") else { return };
    let mut job = start(&lab, "3", &["across"], &[LONGER, BY_THE_KERNEL]);
    let between = job.rank(1);
    job.says("@0 got");
    stop(between);
    let before = job.number("@0 got ");
    for _ in 0..5 {
        job.grows("@0 got ", 1);
    }
    assert!(job.number("@0 got ") > before);
    signal(between, CONT);
    job.order("stop");
    let said = job.ends_well();
    assert!(relayed(&said, 1) > 100, "{said}");
}

/// The program's processor is its own all the while; a thread of the process hands on.
#[test]
fn a_node_whose_program_computes_hands_on_all_the_same() {
    let Some(lab) = cluster("nodes=3,topology=chain") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let done = folder.path().join("done");
    let role = ["aside", done.to_str().expect("a name")];
    let mut job = start(&lab, "3", &role, &[LONGER, BY_A_PROCESS]);
    job.says("@1 computes");
    for _ in 0..5 {
        job.grows("@0 got ", 1);
    }
    std::fs::write(&done, "").expect("a file");
    // Only now: until here it has not looked.
    job.says("@1 has computed");
    job.order("stop");
    let said = job.ends_well();
    assert!(relayed(&said, 1) > 100, "{said}");
}

/// What a node has got for handing frames on: programs of the kernel, and addresses of others that
/// its interfaces take.
fn left_behind(lab: &Cluster, node: u32) -> (u32, bool) {
    let ends = ["to0a", "to2a"];
    let index = |name: &str| lab.interface(node, name).index;
    let programs = ends.map(|name| lab.node(node).run(|| programs_at(index(name))));
    let show = || Command::new("ip").args(["-d", "link", "show"]).output();
    let shown = lab.node(node).run(show).expect("the `ip` program");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(" promiscuity "), "{shown}");
    let takes_all = shown.split(" promiscuity ").skip(1).any(|rest| !rest.starts_with('0'));
    (programs.into_iter().map(|n| n.expect("a count of programs")).sum(), takes_all)
}

#[test]
fn a_node_that_is_killed_leaves_neither_programs_nor_addresses_behind() {
    let Some(lab) = cluster("nodes=3,topology=chain") else { return };
    let cable = lab.interface(1, "to0a").index;
    if let Err(error) = lab.node(1).run(|| programs_at(cable)) {
        return println!("SKIPPED: this kernel does not tell of programs: {error}");
    }
    let mut job = start(&lab, "3", &["across", "2"], &[LONGER, BY_THE_KERNEL]);
    let between = job.rank(1);
    job.grows("@0 got ", 20);
    assert_eq!(left_behind(&lab, 1), (2, true), "a program at each cable");
    signal(between, KILL);
    eventually("the end of its programs", || left_behind(&lab, 1) == (0, false));
    // With it, the way between the others has gone.
    drop(job);
}

/// With the process that hands frames on, its way stands still.
#[test]
fn a_ring_goes_on_the_other_way_round_while_a_process_that_hands_on_stands_still() {
    let Some(lab) = cluster("nodes=4,topology=ring") else { return };
    let mut job = start(&lab, "4", &["across"], &[LONGER, BY_A_PROCESS]);
    let pids = job.pids(4);
    job.grows("@0 got ", 20);
    for between in [pids[1], pids[3]] {
        stop(between);
        job.grows("@0 got ", 20);
        signal(between, CONT);
        job.grows("@0 got ", 20);
    }
    job.order("stop");
    let said = job.ends_well();
    assert!(relayed(&said, 1) > 0 && relayed(&said, 3) > 0, "{said}");
}

#[test]
fn a_ring_goes_on_without_one_of_its_cables_and_without_one_of_its_nodes() {
    let Some(lab) = cluster("nodes=4,topology=ring") else { return };
    let mut job = start(&lab, "4", &["among", "1"], &[LONGER]);
    let between = job.pids(4)[1];
    job.says("@0 got");
    // Node 0 sees nothing of this cable.
    run_in(&lab.node(1), "ip", &["link", "set", "to2a", "down"]);
    job.grows("@0 got ", 20);
    run_in(&lab.node(1), "ip", &["link", "set", "to2a", "up"]);
    job.grows("@0 got ", 20);
    run_in(&lab.node(3), "ip", &["link", "set", "to0a", "down"]);
    job.grows("@0 got ", 20);
    run_in(&lab.node(3), "ip", &["link", "set", "to0a", "up"]);
    job.grows("@0 got ", 20);
    signal(between, KILL);
    job.grows("@0 got ", 20);
    job.order("stop");
    // Each is one that was checked, with its number.
    let sent = job.number("@0 all from 2: ");
    for (rank, from) in [(0, 3), (2, 0), (2, 3), (3, 0), (3, 2)] {
        assert_eq!(job.number(&format!("@{rank} all from {from}: ")), sent);
    }
    for rank in [0, 2, 3] {
        let gap = job.number(&format!("@{rank} longest gap "));
        println!("the longest that rank {rank} waited for a message: {gap} ms");
        job.says(&format!("@{rank} complete"));
    }
}

#[test]
fn nothing_is_handed_on_where_that_is_switched_off() {
    let Some(lab) = cluster("nodes=3,topology=chain") else { return };
    let job = start(&lab, "3", &["talk", "1"], &[("WEFT_RELAY", "off")]);
    let (status, said) = job.ends();
    assert!(!status.success() && said.contains("none of"), "{said}");
    let job = start(&lab, "3", &["talk", "1"], &[("WEFT_RELAY", "no")]);
    let (status, said) = job.ends();
    assert!(!status.success() && said.contains("`process` or `off`"), "{said}");
}

/// The launcher has a network of its own there, which ranks leave alone.
#[test]
fn mpi_programs_run_on_a_ring_a_star_and_a_chain() {
    let Some(provider) = provider(WEFT) else { return };
    if cluster("nodes=1").is_none() {
        return;
    }
    let _turn = alone();
    let provider = provider.display().to_string();
    let sources = ["stress.c", "stress_messages.c", "stress_shared.c"];
    for mpi in Mpi::all() {
        let program = mpi.compile("stress", &sources, env!("CARGO_TARGET_TMPDIR"));
        for (spec, variables) in [
            ("nodes=4,topology=ring", &[][..]),
            ("nodes=4,topology=ring", &[BY_A_PROCESS]),
            ("nodes=4,topology=star,addresses=none", &[]),
            ("nodes=4,topology=chain", &[]),
        ] {
            let options = ["--provider", &provider, "--lab", spec];
            let run = Run { weft: WEFT, ranks: 4, lab: None, options: &options, variables };
            let small = ["--seed", "5", "--rounds", "20", "--largest", "100000"];
            let said = run.start(&program, &small).ends_well();
            assert!(said.contains("stress: good"), "{} on {spec}, {variables:?}: {said}", mpi.name);
        }
    }
}
