//! Interfaces that are a last resort: bridges, and networks of containers and tunnels. What goes
//! over them, and when they are opened at all.

use std::process::Command;

use serde_json::Value;
use weft_tests::job::{Cluster, eventually, run_in};

use super::WEFT;
use super::bad_input::{counter, fails, works};
use super::plugged::{sent_bytes, start, stops};

/// A silence that the test waits for.
const SHORT: (&str, &str) = ("WEFT_PEER_LIMIT_S", "1");

fn ip(lab: &Cluster, node: u32, arguments: &str) {
    run_in(&lab.node(node), "ip", &arguments.split(' ').collect::<Vec<_>>());
}

/// Puts an interface of a node into a bridge of its own.
fn bridge(lab: &Cluster, node: u32, port: &str) {
    ip(lab, node, "link add br0 type bridge");
    ip(lab, node, &format!("link set {port} master br0"));
    ip(lab, node, "link set br0 up");
}

/// What `weft links` says of a lab.
fn survey(lab: &Cluster) -> Vec<Value> {
    let output = Command::new(WEFT).args(["links", "--json", "--lab", lab.name()]).output();
    let output = output.expect("`weft links` runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("text");
    said.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Bytes that node 0 sends by each of its cables while messages go there and back.
fn carried(lab: &Cluster, job: &mut weft_tests::job::Job) -> [u64; 2] {
    let sent = || ["to1a", "to1b"].map(|name| sent_bytes(lab, name));
    let before = sent();
    job.grows("@0 got ", 60);
    let after = sent();
    [0, 1].map(|at| after[at] - before[at])
}

#[test]
fn a_bridge_beside_a_cable_carries_only_while_the_cable_is_down() {
    // At both ends, and at one: the other sees an ordinary card there.
    for ends in [&[0, 1][..], &[0], &[1]] {
        let Some(lab) = Cluster::new(WEFT, "nodes=2,topology=mesh,links=2") else { return };
        for &node in ends {
            bridge(&lab, node, if node == 0 { "to1b" } else { "to0b" });
        }
        let mut job = start(&lab, "packet,udp,tso");
        // What was sent before the cable was found may have gone by the bridge.
        job.grows("@0 got ", 60);
        let [cable, bridge] = carried(&lab, &mut job);
        println!("{ends:?}: {cable} bytes by the cable, {bridge} by the bridge");
        // Questions whether it still answers, and what is late on a busy machine and sent again.
        assert!(bridge < cable / 5, "{ends:?}: {bridge} and {cable} bytes");
        ip(&lab, 1, "link set to0a down");
        job.grows("@0 got ", 20);
        let [cable, bridge] = carried(&lab, &mut job);
        assert!(cable < bridge / 5, "it is down, {ends:?}: {bridge} and {cable} bytes");
        ip(&lab, 1, "link set to0a up");
        eventually("use of the cable", || {
            let [cable, bridge] = carried(&lab, &mut job);
            bridge < cable / 5
        });
        stops(job);
    }
}

#[test]
fn a_survey_says_what_is_a_last_resort_and_why() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,topology=mesh,links=2") else { return };
    bridge(&lab, 1, "to0b");
    // On a busy machine not all is measured in time.
    let (mut last, mut cable) = (Vec::new(), Vec::new());
    eventually("a survey that has measured both cables", || {
        let measured = survey(&lab).into_iter().filter(|line| line["used_for"].is_string());
        let is_last = |line: &Value| {
            line["link"].as_str().is_some_and(|l| l.ends_with("to1b") || l.ends_with("br0"))
        };
        (last, cable) = measured.partition(is_last);
        let from_there = |line: &Value| cable.iter().any(|other| other["from"] == line["from"]);
        !last.is_empty() && last.iter().all(from_there)
    });
    // Either end knows, though only one has the bridge.
    for line in last {
        assert_eq!(line["last_resort"], "bridge", "{line}");
        assert_eq!(line["used_for"], "only where nothing else reaches", "{line}");
        assert_eq!(line["why"], "a last resort (bridge)", "{line}");
    }
    assert!(cable.iter().all(|line| line["last_resort"].is_null()), "{cable:?}");
    assert!(cable.iter().any(|line| line["small"] == true), "{cable:?}");
}

#[test]
fn two_bridges_are_enough_where_there_is_nothing_else() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,topology=mesh") else { return };
    bridge(&lab, 0, "to1a");
    bridge(&lab, 1, "to0a");
    let said = works(Some(&lab), &["talk", "3"], &[]);
    assert!(counter(&said, 0, "packet:br0.sent_frames") > 0, "{said}");
}

/// A machine that has only a tunnel, or the like, needs no setting.
#[test]
fn an_inner_network_is_used_only_where_nothing_else_is_up() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,topology=mesh,links=2") else { return };
    for (node, cable) in [(0, "to1b"), (1, "to0b")] {
        ip(&lab, node, &format!("link set {cable} down"));
        ip(&lab, node, &format!("link set {cable} name zt0 up"));
    }
    let said = works(Some(&lab), &["talk", "3"], &[]);
    assert!(counter(&said, 0, "packet:to1a.sent_frames") > 0, "{said}");
    assert!(!said.contains("packet:zt0"), "{said}");
    ip(&lab, 0, "link set to1a down");
    let said = works(Some(&lab), &["talk", "3"], &[]);
    assert!(counter(&said, 0, "packet:zt0.sent_frames") > 0, "{said}");
}

/// Where containers run, each host has the same network with the same address. What is sent there
/// comes back to its sender, by another bridge of the same node, or to nobody.
#[test]
fn networks_of_containers_with_the_same_address_on_both_hosts_reach_nobody() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,topology=mesh") else { return };
    for node in [0, 1] {
        ip(&lab, node, "link add docker0 type bridge");
        ip(&lab, node, "address add 172.17.0.1/16 dev docker0");
        ip(&lab, node, "link add br-inside type bridge");
        ip(&lab, node, "link add veth0 type veth peer name inside0");
        for (end, bridge) in [("veth0", "docker0"), ("inside0", "br-inside")] {
            ip(&lab, node, &format!("link set {end} master {bridge} up"));
            ip(&lab, node, &format!("link set {bridge} up"));
        }
    }
    let said = works(Some(&lab), &["talk", "3"], &[]);
    assert!(!said.contains("docker0"), "{said}");
    ip(&lab, 0, "link del to1a");
    let is_up = || lab.interface(0, "docker0").state.usable();
    eventually("the bridge", is_up);
    for links in ["packet,udp,tso", "udp"] {
        let variables = [SHORT, ("WEFT_LINKS", links)];
        fails(Some(&lab), &["talk", "1"], &variables, &["answered none of"]);
    }
}
