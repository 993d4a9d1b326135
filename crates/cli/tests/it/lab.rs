//! Virtual clusters: all shapes, rootless too, found by later commands, gone without a trace.

use super::*;

/// A lab of this test, taken down when the test ends, however it ends.
pub struct Up(pub String);

impl Up {
    pub fn new(test: &str, arguments: &[&str]) -> Option<Up> {
        if !labs_work(test) {
            return None;
        }
        let up = Up(format!("t-{}-{test}", std::process::id()));
        let mut all = vec!["lab", "up", "--json", "--name", &up.0];
        all.extend_from_slice(arguments);
        let made = weft(&all);
        assert!(made.status.success(), "{}", err(&made));
        Some(up)
    }

    pub fn exec(&self, node: &str, command: &[&str]) -> Output {
        let mut all = vec!["lab", "exec", "--name", &self.0, node, "--"];
        all.extend_from_slice(command);
        weft(&all)
    }

    pub fn record(&self) -> serde_json::Value {
        let list = weft(&["lab", "list", "--json"]);
        let lines = out(&list);
        let mut all = lines.lines().map(|l| serde_json::from_str(l).expect("a line of JSON"));
        all.find(|r: &serde_json::Value| r["lab"] == self.0.as_str()).expect("the lab is listed")
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        weft(&["lab", "down", "--name", &self.0]);
    }
}

/// The interfaces of a node other than its loopback, and whether each has a carrier.
pub fn interfaces(lab: &Up, node: &str) -> Vec<(String, u32)> {
    let script = "for i in /sys/class/net/*; do echo $(basename $i) $(cat $i/mtu $i/carrier); done";
    let shown = lab.exec(node, &["sh", "-c", script]);
    let mut found = Vec::new();
    for line in out(&shown).lines().filter(|l| !l.starts_with("lo ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words.get(2), Some(&"1"), "no carrier: {line}");
        found.push((words[0].to_string(), words[1].parse().expect("an MTU")));
    }
    found
}

pub fn shape_has(test: &str, arguments: &[&str], counts: &[usize], mtu: u32) {
    let Some(lab) = Up::new(test, arguments) else { return };
    for (node, &count) in counts.iter().enumerate() {
        let found = interfaces(&lab, &format!("node{node}"));
        assert_eq!(found.len(), count, "node{node}: {found:?}");
        assert!(found.iter().all(|(_, m)| *m == mtu), "{found:?}");
    }
    let host = lab.exec("1", &["hostname"]);
    assert_eq!(out(&host).trim(), "node1");
}

#[test]
fn a_switch_joins_all_nodes() {
    let shape = ["--nodes", "3", "--topology", "switch", "--links", "2", "--mtu", "9000"];
    shape_has("switch", &shape, &[2, 2, 2], 9000);
}

#[test]
fn a_mesh_has_a_cable_for_each_pair() {
    let shape = ["--nodes", "4", "--topology", "mesh", "--links", "2"];
    shape_has("mesh", &shape, &[6, 6, 6, 6], 1500);
}

#[test]
fn a_chain_has_ends() {
    shape_has("chain", &["--nodes", "3", "--topology", "chain"], &[1, 2, 1], 1500);
}

#[test]
fn a_ring_has_none() {
    shape_has("ring", &["--nodes", "4", "--topology", "ring"], &[2, 2, 2, 2], 1500);
}

#[test]
fn a_rootless_lab_works_as_well() {
    let may = Command::new("unshare").args(["-U", "true"]).status();
    if !may.is_ok_and(|s| s.success()) {
        println!("SKIPPED: rootless: this machine allows no user namespaces");
        return;
    }
    let shape = ["--rootless", "--nodes", "2", "--topology", "mesh", "--links", "2"];
    shape_has("rootless", &shape, &[2, 2], 1500);
}

#[test]
fn the_exit_status_of_a_program_is_passed_on() {
    let Some(lab) = Up::new("status", &["--nodes", "1"]) else { return };
    assert_eq!(lab.exec("node0", &["sh", "-c", "exit 41"]).status.code(), Some(41));
    assert_eq!(lab.exec("node0", &["true"]).status.code(), Some(0));
    let none = lab.exec("node9", &["true"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(err(&none).contains("node0"), "{}", err(&none));
}

#[test]
fn down_ends_what_runs_inside_and_only_that() {
    let Some(lab) = Up::new("inside", &["--nodes", "2"]) else { return };
    let mut outside = Command::new("sleep").arg("600").spawn().expect("sleep");
    let mark = format!("6{}", std::process::id());
    let enter = ["lab", "exec", "--name", &lab.0, "node1", "--", "sleep", &mark];
    let mut inside = Command::new(WEFT).args(enter).spawn().expect("weft");
    eventually("the program inside", || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", inside.id()));
        name.is_ok_and(|n| n.trim() == "sleep")
    });
    let holder = lab.record()["holder"].as_u64().expect("a holder") as u32;
    assert!(weft(&["lab", "down", "--name", &lab.0]).status.success());
    let ended = inside.wait().expect("the program inside has ended");
    assert!(!ended.success() && !lives(holder));
    assert!(lives(outside.id()));
    outside.kill().and_then(|()| outside.wait()).expect("the program outside");
}

#[test]
fn a_lab_whose_holder_was_killed_is_forgotten() {
    let Some(lab) = Up::new("stale", &["--nodes", "1"]) else { return };
    let holder = lab.record()["holder"].as_u64().expect("a holder") as u32;
    assert!(weft_sys::process::signal(holder, false, 9));
    eventually("the holder's end", || !lives(holder));
    let missing = lab.exec("node0", &["true"]);
    assert_eq!(missing.status.code(), Some(2), "{}", err(&missing));
    assert!(!out(&weft(&["lab", "list"])).contains(&lab.0));
}

#[test]
fn labs_of_another_pid_namespace_are_left_alone() {
    let Some(lab) = Up::new("apart", &["--nodes", "1"]) else { return };
    let list = |options: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(options).args(["--pid", "--fork", "--mount-proc", WEFT, "lab", "list"]);
        command.output().expect("unshare")
    };
    let mut listed = list(&[]);
    if !listed.status.success() {
        listed = list(&["--user", "--map-current-user"]);
    }
    if !listed.status.success() {
        println!("SKIPPED: no PID namespace can be made: {}", err(&listed).trim());
        return;
    }
    assert!(!out(&listed).contains(&lab.0), "its processes are others");
    lab.record();
}

#[test]
fn a_name_is_taken_once() {
    let Some(lab) = Up::new("twice", &["--nodes", "1"]) else { return };
    let again = weft(&["lab", "up", "--name", &lab.0]);
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("already"), "{}", err(&again));
}

#[test]
fn bad_usage_is_named() {
    for (arguments, word) in [
        (&["lab", "up", "--nodes", "0"][..], "1 to 256"),
        (&["lab", "up", "--mtu", "99"], "1280"),
        (&["lab", "up", "--name", "../x"], "letters"),
        (&["lab", "up", "--topology", "torus"], "mesh"),
        (&["lab", "down", "--name", "never-made"], "no lab never-made"),
    ] {
        let output = weft(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(word), "{}", err(&output));
    }
}
