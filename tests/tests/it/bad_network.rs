//! What goes wrong in the network around a job: interfaces that change or vanish, nodes that are
//! taken for each other, loops, floods. The job goes on where there is a way; where there is none,
//! an error says what is wrong.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weft_link::{HELLO_PORT, Link, LinkOptions, PacketLink};
use weft_sys::ns::NetNs;
use weft_tests::job::{Cluster, Job, PATIENCE, eventually, resident, run_in};
use weft_wire::{Address, Burst, FrameKind, Header, JobKey};

use super::bad_frames::{hello, overhear};
use super::bad_input::{counter, fails, two, works};
use super::{RANK, WEFT};

/// A limit on silence that tests wait for, and one that no test comes near.
const SHORT: (&str, &str) = ("WEFT_PEER_LIMIT_S", "1");
const LONGER: (&str, &str) = ("WEFT_PEER_LIMIT_S", "60");

/// A job of so many ranks whose ranks outlive each other.
fn several(lab: &Cluster, ranks: &str, role: &[&str], variables: &[(&str, &str)]) -> Job {
    let program = ["-n", ranks, "--keep-going", "--lab", lab.name(), "--", RANK];
    Job::start(WEFT, &[&program[..], role].concat(), variables)
}

/// A job of two that move messages both ways and check each byte, under way.
fn flow(lab: &Cluster, variables: &[(&str, &str)]) -> Job {
    let mut job = two(Some(lab), &["flow", "8", "200000"], &[&[LONGER], variables].concat());
    goes_on(&mut job);
    job
}

/// More messages come, both ways, than were on their way.
fn goes_on(job: &mut Job) {
    job.grows("@0 got", 30);
    job.grows("@1 got", 30);
}

fn complete(mut job: Job) -> String {
    job.order("stop");
    assert_eq!(job.number("@0 complete"), job.number("@1 complete"));
    job.ends_well()
}

fn set(node: &NetNs, interface: &str, what: &[&str]) {
    run_in(node, "ip", &[&["link", "set", interface], what].concat());
}

#[test]
fn a_cluster_in_two_parts_is_named_from_both_sides() {
    let Some(lab) = Cluster::new(WEFT, "topology=cables=node0+node1;node2+node3") else { return };
    let (status, said) = several(&lab, "4", &["talk", "1"], &[]).ends();
    assert!(!status.success(), "{said}");
    for (answer, silent) in [("node0, node1", "node2, node3"), ("node2, node3", "node0, node1")] {
        let words = format!("in two parts: {answer} answer; {silent} do not");
        assert!(said.contains(&words), "{words:?} is not in:\n{said}");
    }
}

#[test]
fn an_mtu_that_changes_under_a_job_does_not_stop_it() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,mtu=9000") else { return };
    let (a, b, switch) = (lab.node(0), lab.node(1), lab.switch());
    for links in ["packet", "udp", "tso", "packet,udp,tso"] {
        let mut job = flow(&lab, &[("WEFT_LINKS", links)]);
        // A switch of the kernel's passes long frames that a wire would not: only those that are
        // neither long nor short are lost there.
        let at_switch = (links == "packet" || links == "udp").then_some((&switch, "p0-1"));
        for mtu in ["1500", "9000"] {
            for (place, interface) in [(&a, "lan0"), (&b, "lan0")].into_iter().chain(at_switch) {
                set(place, interface, &["mtu", mtu]);
                goes_on(&mut job);
            }
        }
        let said = complete(job);
        // Where each frame fits the smaller MTU, as the kernel cuts it, there is nothing to tell.
        let told = said.matches("do not pass on link").count();
        assert!(told <= 2 * links.split(',').count(), "{said}");
        assert!(told > 0 || links != "packet", "{said}");
    }
}

#[test]
fn a_smaller_mtu_is_told_once_however_many_peers_it_shows_with() {
    let Some(lab) = Cluster::new(WEFT, "nodes=4,mtu=9000") else { return };
    set(&lab.switch(), "p0-0", &["mtu", "3000"]);
    let said = several(&lab, "4", &["talk", "6"], &[LONGER, ("WEFT_LINKS", "packet")]).ends_well();
    assert!(counter(&said, 0, "ether.mtu_reduced") > 1, "{said}");
    let told = said.matches("do not pass on link").count();
    assert!((1..=4).contains(&told), "once for each rank's interface, not {told} times: {said}");
}

#[test]
fn an_interface_that_vanishes_is_left_and_without_the_last_one_the_peer_is() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,links=2") else { return };
    let mut job = flow(&lab, &[]);
    run_in(&lab.node(0), "ip", &["link", "del", "lan0"]);
    goes_on(&mut job);
    let said = complete(job);
    assert!(said.contains("link is down"), "{said}");

    let mut job = several(&lab, "2", &["flow"], &[SHORT]);
    goes_on(&mut job);
    run_in(&lab.node(0), "ip", &["link", "del", "lan1"]);
    let (status, said) = job.ends();
    assert!(!status.success(), "{said}");
    for (rank, other) in [(0, 1), (1, 0)] {
        let error = said.lines().find(|line| line.starts_with(&format!("@{rank} error")));
        let error = error.unwrap_or_else(|| panic!("rank {rank} has no error: {said}"));
        let name = format!("rank {other} (process ");
        assert!(error.contains(&name) && error.contains("every cable to it is down"), "{error}");
    }
}

#[test]
fn a_cable_that_leads_to_nobody_of_the_job_does_no_harm() {
    let drawn = "topology=cables=node0+node1;node0+node2;node1+node2";
    let Some(lab) = Cluster::new(WEFT, drawn) else { return };
    works(Some(&lab), &["talk", "2"], &[]);
    // The two have no cable in common, and no process runs between them.
    let words = ["answered none of", "do both nodes admit an interface of the same segment"];
    fails(Some(&lab), &["talk", "1"], &[("WEFT_INTERFACES", "to2*")], &words);
}

#[test]
fn two_nodes_with_one_ethernet_address_are_named_and_another_cable_is_used() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,links=2") else { return };
    let mac = lab.interface(0, "lan0").mac.expect("an Ethernet address");
    let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
    set(&lab.node(1), "lan0", &["address", &mac]);
    let said = works(Some(&lab), &["talk", "2"], &[LONGER]);
    let words = ["have the same Ethernet address", &mac, "node0", "node1", "`ip link set"];
    assert!(words.iter().all(|word| said.contains(word)), "{words:?} are not all in {said}");
    assert!(said.matches("same Ethernet address").count() <= 2, "{said}");
    // Without another one the error comes after the warning that says why.
    let only = [("WEFT_INTERFACES", "lan0"), SHORT];
    fails(Some(&lab), &["talk", "1"], &only, &["have the same Ethernet address", "is gone"]);
}

#[test]
fn nodes_that_share_an_id_talk_or_are_told_to_be_copies() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    let (status, said) = two(Some(&lab), &["talk", "1"], &[("WEFT_NODE", "7")]).ends();
    let told = said.contains("node0 and node1") || said.contains("node1 and node0");
    let told = told && said.contains("set WEFT_NODE differently on each");
    assert!(status.success() || told, "{said}");
}

#[test]
fn both_ends_of_two_cables_on_one_switch_are_no_trouble() {
    let drawn = "topology=cables=node0+switch0;node0+switch0;node1+switch0;node1+switch0";
    let Some(lab) = Cluster::new(WEFT, drawn) else { return };
    let mut job = flow(&lab, &[]);
    set(&lab.node(0), "lan0", &["down"]);
    goes_on(&mut job);
    set(&lab.node(0), "lan0", &["up"]);
    set(&lab.node(1), "lan0b", &["down"]);
    goes_on(&mut job);
    complete(job);
}

#[test]
fn a_loop_of_switches_that_know_of_it_is_gone_round() {
    let drawn = "topology=cables=node0+switch0;node1+switch1";
    let Some(lab) = Cluster::new(WEFT, drawn) else { return };
    let switch = lab.switch();
    let ip = |arguments: &str| run_in(&switch, "ip", &arguments.split(' ').collect::<Vec<_>>());
    for bridge in ["sw0", "sw1"] {
        // In hundredths of a second, the least that there are.
        let fast = "stp_state 1 forward_delay 200 hello_time 100 max_age 600";
        ip(&format!("link set {bridge} type bridge {fast}"));
    }
    for cable in ["x", "y"] {
        ip(&format!("link add {cable}0 type veth peer name {cable}1"));
        for end in ["0", "1"] {
            ip(&format!("link set {cable}{end} master sw{end} up"));
        }
    }
    // Until the switches have agreed nothing passes, which takes four seconds, or more where the
    // processors are busy.
    let mut job = flow(&lab, &[]);
    ip("link set x0 down");
    goes_on(&mut job);
    ip("link set x0 up");
    ip("link set y0 down");
    goes_on(&mut job);
    complete(job);
}

/// What is sent to everyone goes round for ever, and switches forget where everybody is. The cables
/// of the loop are slow, so that it does not take this machine.
#[test]
fn a_loop_of_switches_that_nobody_breaks_shows_in_a_counter_and_another_cable_is_used() {
    let drawn = "topology=cables=node0+switch0;node1+switch1;node0+node1";
    let Some(lab) = Cluster::new(WEFT, drawn) else { return };
    let switch = lab.switch();
    let run = |program: &str, arguments: &str| {
        run_in(&switch, program, &arguments.split(' ').collect::<Vec<_>>());
    };
    for cable in ["x", "y"] {
        run("ip", &format!("link add {cable}0 type veth peer name {cable}1"));
        for end in ["0", "1"] {
            let slow = "root tbf rate 4mbit burst 3000 limit 20000";
            run("tc", &format!("qdisc add dev {cable}{end} {slow}"));
            run("ip", &format!("link set {cable}{end} master sw{end} up"));
        }
    }
    let arguments = ["-n", "2", "--lab", lab.name(), "--", RANK, "across", "1"];
    let mut job = Job::start(WEFT, &arguments, &[LONGER]);
    // On a busy machine a message lies for a minute or two now and then.
    job.patience(5 * PATIENCE);
    job.says("@0 got");
    eventually("frames that go round", || sent_frames(&switch, "x0") > 5_000);
    job.grows("@0 got ", 8);
    job.order("stop");
    let said = job.ends_well();
    let counted = |rank: u32| {
        let start = format!("@{rank} counter ether.hellos_received ");
        let count = said.lines().find_map(|line| line.strip_prefix(&start));
        count.map_or(0, |count| count.parse::<u64>().expect("a number"))
    };
    // Some dozens without the loop; a busy machine leaves many where they are.
    assert!(counted(0) + counted(1) > 1_000, "{} and {}", counted(0), counted(1));
}

/// Frames that an interface has sent.
fn sent_frames(node: &NetNs, interface: &str) -> u64 {
    let show = || Command::new("ip").args(["-s", "-j", "link", "show", interface]).output();
    let output = node.run(show).expect("the `ip` program");
    let all: Value = serde_json::from_slice(&output.stdout).expect("what `ip` shows");
    all[0]["stats64"]["tx"]["packets"].as_u64().expect("a count of frames")
}

/// Hellos in the name of nobody in particular: of another job, of this one without its key, and
/// real ones once more.
fn false_hellos(real: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let header = Header::decode(&real[0]).expect("a header");
    let hello = |number: u64, job: u32| {
        let from = Address::new(number, number, number as u16, 6, "nobody");
        hello((number, number, header.port), from, job, JobKey([number as u8; 16]))
    };
    let foreign = (1..500).map(|n| hello(n, header.job.wrapping_add(n as u32)));
    let keyless = (500..1000).map(|n| hello(n, header.job));
    let again = real.iter().cycle().take(500).cloned();
    foreign.chain(keyless).chain(again).collect()
}

/// Sends frames to everyone in front of node 1 from there, some thousands each second, until
/// `over`.
fn flood(lab: &Cluster, frames: &[Vec<u8>], over: &AtomicBool) {
    let from = lab.interface(1, "lan0");
    let link = lab.node(1).run(|| Ok(PacketLink::open(&from, &LinkOptions::new(1, None))));
    let mut link = link.expect("the node").expect("a packet link");
    let socket = lab.node(1).run(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket");
    let port = Header::decode(&frames[0]).expect("a header").port;
    let mut burst = Burst::new(16 << 10);
    for few in frames.chunks(10).cycle() {
        for frame in few {
            let everyone = link.info().everyone.expect("a packet link can speak to everyone");
            burst.reset(everyone, link.info().headroom);
            burst.space(frame.len()).expect("room")[..].copy_from_slice(frame);
            burst.push(frame.len());
            link.send(&mut burst).expect("the link is up");
            for port in [port, HELLO_PORT] {
                let _ = socket.send_to(frame, ("10.100.0.1", port));
            }
        }
        if over.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_flood_of_hellos_costs_neither_the_job_nor_memory_nor_a_full_log() {
    /// What the memory of a rank may grow by.
    const GROWTH: u64 = 32 << 20;
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    let mut job = None;
    let heard = overhear(&lab, 0, || job = Some(flow(&lab, &[])));
    let mut job = job.expect("it was started");
    let hello = |f: &&Vec<u8>| Header::decode(f).is_ok_and(|h| h.kind == FrameKind::Hello);
    let real: Vec<_> = heard.iter().filter(hello).cloned().collect();
    assert!(!real.is_empty(), "the job has begun without a hello");
    let frames = false_hellos(&real);

    let pids = job.pids(2);
    let held = || pids.iter().map(|&pid| resident(pid).expect("it lives")).sum::<u64>();
    let (before, over) = (held(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| flood(&lab, &frames, &over));
        let watched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..8).for_each(|_| goes_on(&mut job));
            thread::sleep(Duration::from_secs(1));
            goes_on(&mut job);
        }));
        over.store(true, Ordering::Relaxed);
        watched.expect("the job goes on");
    });
    let after = held();
    assert!(after < before + GROWTH, "grown from {before} to {after} bytes");
    let said = complete(job);
    let (known, without) = ("ether.hellos_received", "ether.dropped_key");
    assert!(counter(&said, 0, known) > 500 && counter(&said, 0, without) > 100, "{said}");
    let lines = said.lines().filter(|line| !line.starts_with('@')).count();
    assert!(lines < 20, "{lines} lines of log:\n{said}");
}

#[test]
fn where_the_node_between_may_hand_nothing_on_another_way_is_taken_or_it_is_said() {
    let Some(ring) = Cluster::new(WEFT, "nodes=4,topology=ring") else { return };
    let role = ["--only", "1", "--no-relay", "talk", "2"];
    let kernel = ("WEFT_RELAY", "kernel");
    let said = several(&ring, "4", &role, &[kernel]).ends_well();
    assert_eq!(counter(&said, 1, "ether.relayed_frames"), 0, "{said}");
    assert!(counter(&said, 3, "ether.relayed_frames") > 0, "{said}");
    let Some(chain) = Cluster::new(WEFT, "nodes=3,topology=chain") else { return };
    let (status, said) = several(&chain, "3", &role, &[kernel, ("WEFT_LOG", "info")]).ends();
    assert!(!status.success(), "{said}");
    assert!(said.contains("this node hands on no frames of others"), "{said}");
    assert!(said.contains("may the nodes between hand them on"), "{said}");
}

fn tc(node: &NetNs, arguments: &str) {
    run_in(node, "tc", &arguments.split(' ').collect::<Vec<_>>());
}

/// What `tc` shows of an interface.
fn shown(node: &NetNs, what: &str) -> String {
    let arguments: Vec<&str> = what.split(' ').collect();
    let output = node.run(|| std::process::Command::new("tc").args(&arguments).output());
    String::from_utf8_lossy(&output.expect("the `tc` program").stdout).into_owned()
}

#[test]
fn queues_and_filters_of_others_on_the_node_between_stay_as_they_are() {
    let Some(lab) = Cluster::new(WEFT, "nodes=3,topology=chain") else { return };
    let node = lab.node(1);
    tc(&node, "qdisc add dev to0a clsact");
    tc(&node, "qdisc add dev to2a root tbf rate 1gbit burst 100kb latency 50ms");
    // One that finds nothing to do.
    let none = "protocol all prio 7 u32 match u32 0 0xffffffff at 0 flowid 1:1";
    tc(&node, &format!("filter add dev to0a ingress {none}"));
    let look = || {
        ["qdisc show dev to0a", "qdisc show dev to2a", "filter show dev to0a ingress"]
            .map(|what| shown(&node, what))
    };
    let before = look();
    assert!(before[0].contains("clsact") && before[1].contains("tbf"), "{before:?}");
    assert!(before[2].contains("u32"), "{before:?}");
    let said = several(&lab, "3", &["talk", "3"], &[]).ends_well();
    assert!(counter(&said, 1, "ether.relayed_frames") > 0, "{said}");
    assert_eq!(look(), before);
}

#[test]
fn a_way_that_swallows_what_goes_through_it_is_left() {
    let Some(lab) = Cluster::new(WEFT, "nodes=4,topology=ring") else { return };
    let mut job = several(&lab, "4", &["across"], &[LONGER]);
    job.grows("@0 got ", 20);
    // Node 1 tells of ways as before, and its own frames pass; those of others end in it.
    let node = lab.node(1);
    for (end, out, from) in [(0, "to2a", "to1a"), (2, "to0a", "to1a")] {
        let mac = lab.interface(end, from).mac.expect("an Ethernet address");
        let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
        tc(&node, &format!("qdisc add dev {out} clsact"));
        let filter = format!("filter add dev {out} egress protocol all u32 match ether src {mac}");
        tc(&node, &format!("{filter} action mirred egress redirect dev lo"));
    }
    job.grows("@0 got ", 100);
    job.order("stop");
    job.says("@0 complete");
    job.says("@2 complete");
}

#[test]
fn a_switch_with_port_security_lets_nothing_through_for_others_and_another_way_is_taken() {
    let drawn = "topology=cables=node0+switch0;node1+switch0;node1+node2;node2+node3;node3+node0";
    let Some(lab) = Cluster::new(WEFT, drawn) else { return };
    let mut job = several(&lab, "4", &["across"], &[LONGER]);
    job.grows("@0 got ", 20);
    let switch = lab.switch();
    for node in [0, 1] {
        let port = format!("p0-{node}");
        let mac = lab.interface(node, "lan0").mac.expect("an Ethernet address");
        let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
        let bridge = |words: &[&str]| run_in(&switch, "bridge", words);
        bridge(&["link", "set", "dev", &port, "learning", "off"]);
        bridge(&["fdb", "flush", "dev", &port, "master", "dynamic"]);
        bridge(&["fdb", "replace", &mac, "dev", &port, "master", "static"]);
        bridge(&["link", "set", "dev", &port, "locked", "on"]);
    }
    job.grows("@0 got ", 60);
    job.order("stop");
    job.says("@0 complete");
    job.says("@2 complete");
}
