//! Collective operations of real processes, on one node and on several.

use std::thread;
use std::time::Duration;

use weft_tests::job::{CONT, Cluster, Job, KILL, run_in, signal, stop};

use super::{RANK, WEFT};

/// Who has no cable to another has no way to it either.
const NO_WAY: (&str, &str) = ("WEFT_RELAY", "off");

/// Starts the role `collect` with `n` ranks, on this node or a lab's.
fn ranks(lab: Option<&Cluster>, n: u32, max: &str) -> Job {
    role(lab, n, &["collect", max], &[])
}

fn role(lab: Option<&Cluster>, n: u32, role: &[&str], variables: &[(&str, &str)]) -> Job {
    let n = n.to_string();
    let mut arguments = vec!["-n", &n, "--keep-going"];
    if let Some(lab) = lab {
        arguments.extend(["--lab", lab.name()]);
    }
    arguments.extend(["--", RANK]);
    arguments.extend(role);
    let limit = ("WEFT_PEER_LIMIT_S", "2");
    Job::start(WEFT, &arguments, &[&[limit], variables].concat())
}

fn run(mut job: Job, rounds: u64) {
    job.grows("@0 rounds", rounds);
    job.order("stop");
    job.ends_well();
}

#[test]
fn they_are_right_on_one_node() {
    for n in [1, 2, 3, 6] {
        run(ranks(None, n, "5000"), 20);
    }
    run(ranks(None, 3, "200000"), 10);
}

#[test]
fn they_are_right_across_nodes() {
    let Some(lab) = Cluster::new(WEFT, "nodes=3") else { return };
    for n in [3, 5] {
        run(ranks(Some(&lab), n, "5000"), 20);
    }
    run(ranks(Some(&lab), 3, "200000"), 10);
    let fault = ("WEFT_FAULT", "loss=1%,dup=1%,reorder=2%,seed=8");
    for (n, max) in [(4, "3000"), (6, "500"), (3, "50000")] {
        run(role(Some(&lab), n, &["collect", max], &[fault]), 20);
    }
}

#[test]
fn the_death_of_one_ends_them_for_all() {
    let lab = Cluster::new(WEFT, "nodes=3");
    for lab in [None, lab.as_ref()] {
        for victim in [1, 4] {
            let mut job = ranks(lab, 5, "3000");
            let pids = job.pids(5);
            job.grows("@0 rounds", 5);
            signal(pids[victim], KILL);
            for rank in (0..5).filter(|rank| *rank != victim) {
                let said = job.says(&format!("@{rank} fails:"));
                assert!(said.contains(&format!("rank {victim} ")), "rank {rank}: {said}");
            }
        }
    }
}

/// A group whose members all deliver the same, on a wire that makes mistakes or not.
fn group(lab: Option<&Cluster>, n: u32, variables: &[(&str, &str)]) {
    let mut job = role(lab, n, &["cast", "4000"], variables);
    job.grows("@0 rounds", 20);
    job.order("stop");
    let first = job.says("@0 digest ");
    for rank in 1..n {
        assert_eq!(job.says(&format!("@{rank} digest ")), first, "rank {rank} delivers otherwise");
    }
    job.ends_well();
}

#[test]
fn groups_broadcast_and_deliver_in_one_order() {
    for n in [1, 2, 4] {
        group(None, n, &[]);
    }
    let Some(lab) = Cluster::new(WEFT, "nodes=3") else { return };
    for n in [3, 5] {
        group(Some(&lab), n, &[]);
    }
    for links in ["packet", "udp"] {
        group(Some(&lab), 3, &[("WEFT_LINKS", links)]);
    }
    let fault = ("WEFT_FAULT", "loss=2%,dup=2%,reorder=3%,seed=4");
    group(Some(&lab), 4, &[fault]);
}

/// A receiver that gets no turn for a while misses nothing; one that dies holds nobody up.
#[test]
fn broadcasts_go_on_past_a_receiver_that_is_late_or_dies() {
    let lab = Cluster::new(WEFT, "nodes=4");
    for lab in [None, lab.as_ref()] {
        let mut job = role(lab, 4, &["spread"], &[]);
        let pids = job.pids(4);
        let go_on = |job: &mut Job, ranks: &[u32]| {
            // Several times: what is under way may be done without the one that is missing.
            for _ in 0..3 {
                ranks.iter().for_each(|rank| job.grows(&format!("@{rank} rounds"), 5));
            }
        };
        go_on(&mut job, &[0, 1, 2, 3]);
        stop(pids[2]);
        thread::sleep(Duration::from_millis(800));
        signal(pids[2], CONT);
        go_on(&mut job, &[0, 1, 2, 3]);
        signal(pids[1], KILL);
        go_on(&mut job, &[0, 2, 3]);
    }
}

/// A switch need not carry what is sent to a group, and may cease to.
#[test]
fn groups_go_on_where_a_switch_drops_what_is_for_a_group() {
    let Some(lab) = Cluster::new(WEFT, "nodes=3") else { return };
    let set = |carries: &str| {
        let port = ["link", "set", "dev", "p0-2", "type", "bridge_slave", "mcast_flood", carries];
        run_in(&lab.switch(), "ip", &port);
    };
    for links in ["packet", "udp"] {
        for from_the_start in [true, false] {
            set(if from_the_start { "off" } else { "on" });
            let mut job = role(Some(&lab), 3, &["cast", "4000"], &[("WEFT_LINKS", links)]);
            job.grows("@0 rounds", 20);
            set("off");
            job.grows("@0 rounds", 200);
            job.order("stop");
            // One of the two others hears, then: that is no more than a frame to it alone.
            let by_multicast = job.ends_well().contains("@0 counter ether.multicasts_sent");
            assert_eq!(by_multicast, !from_the_start, "{links}");
        }
    }
}

#[test]
fn a_group_outlives_its_sequencers() {
    let lab = Cluster::new(WEFT, "nodes=3");
    for lab in [None, lab.as_ref()] {
        let mut job = role(lab, 4, &["outlive"], &[]);
        let pids = job.pids(4);
        for victim in &pids[..2] {
            job.grows("@3 rounds", 20);
            job.grows("@2 rounds", 20);
            signal(*victim, KILL);
        }
        job.grows("@3 rounds", 20);
        job.grows("@2 rounds", 20);
    }
}

#[test]
fn where_one_cable_of_many_fails_all_that_stay_agree() {
    let Some(lab) = Cluster::new(WEFT, "nodes=3,topology=mesh") else { return };
    let mut job = role(Some(&lab), 3, &["outlive"], &[NO_WAY]);
    (0..3).for_each(|rank| job.grows(&format!("@{rank} rounds"), 20));
    run_in(&lab.node(0), "ip", &["link", "set", "to1a", "down"]);
    // One of the two at its ends has no part in the group any more, and is told so.
    let (out, why) = job.says_any(&["@0 error", "@1 error"]);
    assert!(why.contains("this very process"), "{why}");
    for rank in [1 - out, 2] {
        job.grows(&format!("@{rank} rounds"), 20);
    }
}

/// Frames then go through the third node.
#[test]
fn a_mesh_goes_on_whole_without_one_of_its_cables() {
    let Some(lab) = Cluster::new(WEFT, "nodes=3,topology=mesh") else { return };
    let mut job = role(Some(&lab), 3, &["outlive"], &[]);
    (0..3).for_each(|rank| job.grows(&format!("@{rank} rounds"), 20));
    run_in(&lab.node(0), "ip", &["link", "set", "to1a", "down"]);
    // Longer than a peer may be silent.
    thread::sleep(Duration::from_secs(3));
    (0..3).for_each(|rank| job.grows(&format!("@{rank} rounds"), 20));
}

/// In a mesh of more than three, one of the two at the ends of a cable is out; and if all cables of
/// a node fail but one, that node. All others go on.
#[test]
fn in_a_mesh_only_as_many_as_must_are_out() {
    let Some(lab) = Cluster::new(WEFT, "nodes=5,topology=mesh") else { return };
    let several = [(2, 0), (2, 1), (2, 3)];
    for (cables, out) in [(&[(0, 3)][..], &[0, 3][..]), (&[(1, 2)], &[1, 2]), (&several, &[2])] {
        let set = |to: &str| {
            for (a, b) in cables {
                let name = format!("to{b}a");
                run_in(&lab.node(*a), "ip", &["link", "set", &name, to]);
            }
        };
        let mut job = role(Some(&lab), 5, &["outlive"], &[NO_WAY]);
        (0..5).for_each(|rank| job.grows(&format!("@{rank} rounds"), 20));
        set("down");
        let errors: Vec<String> = out.iter().map(|rank| format!("@{rank} error")).collect();
        let errors: Vec<&str> = errors.iter().map(String::as_str).collect();
        let (which, why) = job.says_any(&errors);
        assert!(why.contains("this very process"), "{why}");
        // Long enough for whoever else is accused to be told.
        for _ in 0..20 {
            for rank in (0..5).filter(|rank| *rank != out[which]) {
                job.grows(&format!("@{rank} rounds"), 20);
            }
        }
        drop(job);
        set("up");
    }
}

/// What was cut for long frames, and lost, comes by messages when paths carry shorter ones only.
#[test]
fn what_was_cut_for_long_frames_arrives_where_they_do_not_any_more() {
    let Some(lab) = Cluster::new(WEFT, "nodes=3,mtu=9000") else { return };
    let set = |mtu: &str| {
        for port in ["p0-0", "p0-1", "p0-2"] {
            run_in(&lab.switch(), "ip", &["link", "set", port, "mtu", mtu]);
        }
    };
    for links in ["packet", "udp"] {
        set("9000");
        let fault = ("WEFT_FAULT", "loss=5%,seed=5");
        let mut job = role(Some(&lab), 3, &["cast", "20000"], &[("WEFT_LINKS", links), fault]);
        job.grows("@0 rounds", 20);
        set("1500");
        job.grows("@0 rounds", 200);
        job.order("stop");
        let first = job.says("@0 digest ");
        for rank in 1..3 {
            assert_eq!(job.says(&format!("@{rank} digest ")), first, "rank {rank}");
        }
        job.ends_well();
    }
}
