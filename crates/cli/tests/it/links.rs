//! `weft links`: on labs, whose nodes find each other and nobody else.

use std::collections::BTreeSet;

use super::*;

fn lines(output: &Output) -> Vec<serde_json::Value> {
    out(output).lines().map(|l| serde_json::from_str(l).expect("a line of JSON")).collect()
}

/// Surveys a lab; gives the lines of ways and those of other odd things. Where the machine is too
/// busy for a way to be measured in time, it does what it is told then: it gives it longer.
fn on_lab(spec: &str) -> (Vec<serde_json::Value>, Vec<serde_json::Value>) {
    for seconds in ["3", "12", "30"] {
        let output = weft(&["links", "--json", "--lab", spec, "--seconds", seconds]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        if seconds == "30" || !out(&output).contains("give it longer with --seconds") {
            return lines(&output).into_iter().partition(|l| l["to"].is_string());
        }
    }
    unreachable!("the last survey is taken as it is")
}

#[test]
fn two_nodes_are_found_over_both_cables() {
    if !labs_work("links-mesh") {
        return;
    }
    let (ways, _) = on_lab("nodes=2,topology=mesh,links=2");
    assert_eq!(ways.len(), 12, "{ways:?}");
    for way in &ways {
        assert_eq!((&way["bench"], &way["ranks"]), (&"links".into(), &2.into()));
        assert_ne!(way["from"], way["to"]);
        assert!(way["rtt_us"]["p50"].as_f64().is_some_and(|us| us > 0.0), "{way}");
        assert!(way["rtt_us"]["min"].as_f64() <= way["rtt_us"]["p50"].as_f64(), "{way}");
        assert!(way["bandwidth_mb_s"].as_f64().is_some_and(|v| v > 0.0), "{way}");
        assert!(way["mtu"] == 1500 || way["mtu"] == 1472 || way["mtu"] == 64800, "{way}");
    }
}

/// The lines of two nodes that no cable joins.
fn far(lines: &[serde_json::Value], from: &str, to: &str) -> Vec<serde_json::Value> {
    let is = |l: &&serde_json::Value| l["from"] == from && l["to"] == to && l["link"].is_null();
    lines.iter().filter(is).cloned().collect()
}

/// The nodes between, way by way.
fn through(line: &serde_json::Value) -> BTreeSet<String> {
    let ways = line["ways"].as_array().map_or(&[][..], Vec::as_slice);
    ways.iter().map(|way| way["through"].to_string()).collect()
}

/// Surveys a lab until all ways are found: on a busy machine one may come late.
fn until(spec: &str, are_found: impl Fn(&[serde_json::Value]) -> bool) -> Vec<serde_json::Value> {
    let mut all = Vec::new();
    for _ in 0..6 {
        let (ways, other) = on_lab(spec);
        all = [ways, other].concat();
        if are_found(&all) {
            break;
        }
    }
    all
}

#[test]
fn the_ends_of_a_chain_reach_each_other_through_all_others() {
    if !labs_work("links-chain") {
        return;
    }
    let all = until("nodes=4,topology=chain", |all| {
        far(all, "node0", "node3").iter().all(|line| line["hops"] == 2)
    });
    let has = |from: &str, to: &str| all.iter().any(|w| w["from"] == from && w["to"] == to);
    assert!(has("node0", "node1") && has("node1", "node0") && has("node2", "node1"), "{all:?}");
    let (there, back) = (far(&all, "node0", "node3"), far(&all, "node3", "node0"));
    assert_eq!((there.len(), back.len()), (1, 1), "{all:?}");
    assert_eq!((&there[0]["hops"], &there[0]["answers"]), (&2.into(), &true.into()), "{there:?}");
    assert!(there[0]["rtt_us"]["p50"].as_f64().is_some_and(|us| us > 0.0), "{there:?}");
    assert!(there[0]["bandwidth_mb_s"].as_f64().is_some_and(|v| v > 0.0), "{there:?}");
    assert!(through(&there[0]).contains("[\"node1\",\"node2\"]"), "{there:?}");
    assert!(through(&back[0]).contains("[\"node2\",\"node1\"]"), "{back:?}");
    assert!(far(&all, "node0", "node1").is_empty(), "a cable joins these");
}

#[test]
fn opposite_nodes_of_a_ring_have_two_ways_and_a_picture_shows_all() {
    if !labs_work("links-ring") {
        return;
    }
    let both = ["[\"node1\"]", "[\"node3\"]"].map(String::from).into();
    let all = until("nodes=4,topology=ring", |all| {
        far(all, "node0", "node2").iter().all(|line| through(line) == both)
    });
    let across = far(&all, "node0", "node2");
    assert_eq!((across.len(), &across[0]["hops"]), (1, &1.into()), "{across:?}");
    assert_eq!(through(&across[0]), both, "{across:?}");
    let folder = std::env::temp_dir().join(format!("weft-links-{}", std::process::id()));
    let file = folder.join("cables.svg");
    let path = file.display().to_string();
    let output = weft(&["links", "--lab", "nodes=4,topology=ring", "--svg", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let picture = std::fs::read_to_string(&file);
    let _ = std::fs::remove_dir_all(&folder);
    let picture = picture.expect("the file was made");
    for word in ["node0", "node3", "node0 to1a to node1 to0a", "4 nodes, 4 cables", "</svg>"] {
        assert!(picture.contains(word), "{word}: {picture}");
    }
}

#[test]
fn who_is_reached_by_nobody_is_named_and_so_is_who_hands_nothing_on() {
    if !labs_work("links-apart") {
        return;
    }
    let (_, other) = on_lab("topology=cables=node0+node1;node1+node2;node3+switch0");
    let said = |line: &serde_json::Value| line["odd"][0].as_str().unwrap_or("").to_string();
    let apart = other.iter().find(|line| line["from"] == "node3" && line["link"].is_null());
    let apart = apart.map(said).unwrap_or_default();
    assert!(apart.starts_with("node3 is reached by nobody else"), "{other:?}");
    assert!(apart.contains("node0, node1 and node2"), "{apart}");

    let output = Command::new(WEFT)
        .args(["links", "--json", "--lab", "nodes=3,topology=chain"])
        .env("WEFT_RELAY", "off")
        .output()
        .expect("weft starts");
    let all = lines(&output);
    let across = far(&all, "node0", "node2");
    assert_eq!((&across[0]["hops"], &across[0]["answers"]), (&().into(), &false.into()));
    let cause = "no way between node0 and node2: node1 hands nothing on because of this: ";
    let is_it = |text: &str| text.starts_with(cause) && text.contains("WEFT_RELAY=off");
    assert!(all.iter().any(|line| is_it(&said(line))), "{all:?}");
}

#[test]
fn a_cable_that_is_much_longer_is_for_where_nothing_else_reaches() {
    if !labs_work("links-long") {
        return;
    }
    let (ways, _) = on_lab("topology=cables=node0+node1+delay=20ms;node0+node1");
    let of = |interface: &str| {
        let is = |w: &&serde_json::Value| {
            w["from"] == "node0" && w["link"].as_str().is_some_and(|l| l.ends_with(interface))
        };
        ways.iter().filter(is).cloned().collect::<Vec<_>>()
    };
    for way in of("to1a") {
        assert_eq!((&way["spare"], &way["bulk"]), (&true.into(), &false.into()), "{way}");
        let why = way["why"].as_str().unwrap_or("");
        assert!(why.contains(" ms is more than 4 x ") && why.ends_with("+ 0.4 ms"), "{way}");
    }
    let near = of("to1b");
    assert!(near.iter().any(|w| w["small"] == true) && near.iter().any(|w| w["bulk"] == true));
    assert!(near.iter().all(|w| w["spare"] == false), "{near:?}");
}

/// Runs a script on a node of a lab of its own, as the shell's variable `weft` the command.
fn on_node0(test: &str, script: &str) -> Option<Output> {
    if !labs_work(test) {
        return None;
    }
    let name = format!("links-{}-{test}", std::process::id());
    let up = weft(&["lab", "up", "--name", &name, "--topology", "mesh"]);
    assert!(up.status.success(), "{}", err(&up));
    let script = format!("weft={WEFT}; lab={name}; {script}");
    let output = weft(&["lab", "exec", "--name", &name, "node0", "--", "sh", "-c", &script]);
    weft(&["lab", "down", "--name", &name]);
    Some(output)
}

#[test]
fn where_nobody_answers_it_says_what_to_check() {
    let Some(output) = on_node0("nobody", "$weft links --seconds 0.5") else { return };
    assert_eq!(output.status.code(), Some(1), "{}", out(&output));
    assert!(err(&output).contains("run `weft links` on the other nodes"), "{}", err(&output));
    assert!(out(&output).contains("nobody answers on to1a of node0"), "{}", out(&output));
    let Some(output) = on_node0("none", "WEFT_INTERFACES=eth99 $weft links --seconds 0.5") else {
        return;
    };
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("weft info"), "{}", err(&output));
    assert!(out(&output).contains("no network interface eth99"), "{}", out(&output));
}

#[test]
fn different_mtus_are_odd() {
    let name = format!("links-{}-mtu", std::process::id());
    if !labs_work("links-mtu") {
        return;
    }
    let up = weft(&["lab", "up", "--name", &name, "--topology", "mesh"]);
    assert!(up.status.success(), "{}", err(&up));
    let set = ["ip", "link", "set", "to0a", "mtu", "1400"];
    let exec = ["lab", "exec", "--name", &name, "node1", "--"];
    let set = weft(&[&exec[..], &set].concat());
    let output = weft(&["links", "--lab", &name]);
    weft(&["lab", "down", "--name", &name]);
    assert!(set.status.success(), "{}", err(&set));
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let said = out(&output);
    assert!(said.contains("MTU mismatch: packet:to1a of node0 takes frames of 1500"), "{said}");
}

#[test]
fn an_interrupt_ends_it_and_its_lab() {
    if !labs_work("links-interrupt") {
        return;
    }
    let spec = "nodes=2,topology=mesh,mtu=1777";
    let mut child = Command::new(WEFT)
        .args(["links", "--seconds", "600", "--lab", spec])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("weft starts");
    let mark = format!("{WEFT}\0links\0--report\0--seconds\0600");
    eventually("the survey", || !processes_with(&mark).is_empty());
    weft_sys::process::signal(child.id(), false, 2);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    eventually("the end of all", || processes_with(&mark).is_empty());
    eventually("the end of the lab", || {
        processes_with("topology=mesh,links=1,mtu=1777").is_empty()
    });
}

#[test]
fn other_hosts_survey_as_well() {
    // The way to a host is the way into the lab's node of that name.
    let way = "printf '#!/bin/sh\\nhost=$1; shift; exec %s lab exec --name %s $host -- \"$@\"' \
               $weft $lab > $ssh; chmod +x $ssh";
    let script = format!(
        "ssh=$(mktemp); trap 'rm $ssh' EXIT; {way}; \
         WEFT_SSH=$ssh $weft links --json --seconds 1 --hosts node1"
    );
    let Some(output) = on_node0("hosts", &script) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let all = lines(&output);
    let has = |from: &str, to: &str| all.iter().any(|w| w["from"] == from && w["to"] == to);
    assert!(has("node0", "node1") && has("node1", "node0"), "{all:?}");
}

#[test]
fn nonsense_is_bad_usage() {
    for bad in [&["--seconds", "0"][..], &["--lab", "nodes=0"]] {
        let output = weft(&[&["links"], bad].concat());
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {}", err(&output));
    }
}
