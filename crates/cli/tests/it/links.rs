//! `weft links`: on labs, whose nodes find each other and nobody else.

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

#[test]
fn a_chain_has_no_way_between_its_ends() {
    if !labs_work("links-chain") {
        return;
    }
    let (ways, other) = on_lab("nodes=3,topology=chain");
    let has = |from: &str, to: &str| ways.iter().any(|w| w["from"] == from && w["to"] == to);
    assert!(has("node0", "node1") && has("node1", "node0") && has("node2", "node1"), "{ways:?}");
    assert!(!has("node0", "node2") && !has("node2", "node0"), "{ways:?}");
    assert!(other.is_empty(), "{other:?}");
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
