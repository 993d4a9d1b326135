//! `weft tune` where nothing can be set: it says why. What it sets, `make test-nic` looks at.

use std::io::Write;
use std::process::Stdio;

use super::*;

#[test]
fn what_cannot_be_set_says_why() {
    for (name, why) in [("lo", "does not let"), ("no-such-if0", "no such interface")] {
        let output = weft(&["tune", "--interface", name, "--rx-usecs", "3", "--", "true"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(err(&output).contains(&format!("{name}: ")), "{}", err(&output));
        assert!(err(&output).contains(why), "{}", err(&output));
        let shown = weft(&["tune", "--interface", name, "--json"]);
        assert!(shown.status.success(), "{}", err(&shown));
        let line: serde_json::Value = serde_json::from_str(&out(&shown)).expect("a line of JSON");
        assert_eq!(line["interface"], name);
        assert!(line["why_not"].as_str().is_some_and(|said| said.contains(why)), "{line}");
    }
}

#[test]
fn bad_usage_is_told() {
    for bad in [&["--", "true"][..], &["--adaptive", "--rx-usecs", "3"], &["--rx-usecs", "x"]] {
        assert_eq!(weft(&[&["tune"], bad].concat()).status.code(), Some(2), "{bad:?}");
    }
}

/// A guard that is told what makes no sense, or of a card that is gone, ends all the same.
#[test]
fn the_guard_ends_when_its_pipe_does() {
    for (told, status) in [("", 0), ("odd\nlo 1 2\n", 0), ("no-such-if0 3 0 0 0 0 0\n", 1)] {
        let mut guard = Command::new(WEFT);
        let guard = guard.arg("tune-guard").stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut guard = guard.spawn().expect("weft starts");
        guard.stdin.take().expect("a pipe").write_all(told.as_bytes()).unwrap();
        let output = guard.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{told}");
        assert_eq!(err(&output).contains("no-such-if0"), status != 0, "{}", err(&output));
    }
}

#[test]
fn a_job_on_cards_that_cannot_be_set_says_so_and_goes_on() {
    if !labs_work("tune") {
        return;
    }
    let job = ["run", "-n", "4", "--lab", "nodes=2", "--timeout", "60", "--", WEFT];
    let bench = ["bench", "barrier", "--ms", "20"];
    let mut command = Command::new(WEFT);
    let output = command.args(job).args(bench).env("WEFT_TUNE", "adaptive").output().unwrap();
    let said = err(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("interrupts stay as they are"), "{said}");
    assert!(said.contains("veth"), "{said}");
    let output = Command::new(WEFT).args(job).args(bench).env("WEFT_TUNE", "fast").output();
    let said = err(&output.unwrap());
    assert!(said.contains("WEFT_TUNE=fast") && said.contains("adaptive"), "{said}");
}

#[test]
fn simulated_policies_are_a_table_and_lines_of_json() {
    let table = out(&weft(&["sim", "tune"]));
    assert!(table.contains("net_dim") && table.contains("heat"), "{table}");
    let json = weft(&["sim", "tune", "--json"]);
    let lines: Vec<serde_json::Value> =
        out(&json).lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert!(lines.iter().any(|l| l["policy"] == "weft job" && l["is_mixture"] == true));
    assert_eq!(weft(&["sim", "tune", "--interrupt", "-1"]).status.code(), Some(2));
}
