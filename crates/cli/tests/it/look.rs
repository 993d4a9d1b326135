//! What `weft info` and `weft doctor` say of a node: of a lab's, so that it can be spoilt.

use super::*;

fn lines(output: &Output) -> Vec<serde_json::Value> {
    out(output).lines().map(|l| serde_json::from_str(l).expect("a line of JSON")).collect()
}

/// Runs a script on node0 of a lab of its own.
fn on_node(test: &str, script: &str) -> Option<Output> {
    if !labs_work(test) {
        return None;
    }
    let name = format!("look-{}-{test}", std::process::id());
    let shape = ["--topology", "mesh", "--links", "2"];
    let up = weft(&[&["lab", "up", "--name", &name][..], &shape].concat());
    assert!(up.status.success(), "{}", err(&up));
    let output = weft(&["lab", "exec", "--name", &name, "node0", "--", "sh", "-c", script]);
    weft(&["lab", "down", "--name", &name]);
    Some(output)
}

#[test]
fn info_shows_devices_and_links() {
    let Some(output) = on_node("info", &format!("{WEFT} info --json")) else { return };
    let items = lines(&output);
    let usable = |name: &str| items.iter().find(|i| i["name"] == name).map(|i| i["usable"] == true);
    for name in ["shm", "ether", "composite", "packet:to1a", "udp:to1a", "packet:to1b", "ways"] {
        assert_eq!(usable(name), Some(true), "{name}: {items:?}");
    }
    assert!(out(&weft(&["info"])).contains("composite"));
}

#[test]
fn info_says_why_and_what_mends_it() {
    let script = format!("ip link set to1a down && {WEFT} info --json");
    let Some(output) = on_node("down", &script) else { return };
    let items = lines(&output);
    let link = items.iter().find(|i| i["name"] == "udp:to1a").expect("the link is listed");
    assert_eq!(link["usable"], false);
    assert_eq!(link["cure"], "ip link set to1a up");
}

#[test]
fn doctor_finds_what_is_spoilt() {
    let script = format!("ip link set to1b mtu 1400 && WEFT_DEVCE=shm {WEFT} doctor --json");
    let Some(output) = on_node("doctor", &script) else { return };
    assert_eq!(output.status.code(), Some(1));
    let found = lines(&output);
    let problem = |check: &str| {
        let mut all = found.iter().filter(|f| f["check"] == check);
        all.any(|f| f["level"] == "problem" && f["cure"].is_string())
    };
    assert!(problem("MTU") && problem("environment"), "{found:?}");
    assert!(err(&output).contains("WEFT_DEVICE"), "{}", err(&output));
    let many = weft(&["doctor", "--ranks", "100000"]);
    assert_eq!(many.status.code(), Some(1));
    assert!(out(&many).contains("PROBLEM"), "{}", out(&many));
}

#[test]
fn the_version_is_told_short_and_long() {
    let short = out(&weft(&["--version"]));
    assert_eq!(short, format!("weft {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(out(&weft(&["-V"])), short);
    let long = weft(&["--version", "--verbose"]);
    assert_eq!(long.status.code(), Some(0));
    let long = out(&long);
    assert!(long.starts_with(&short), "{long}");
    for name in ["wire", "provider", "libfabric", "C library", "build", "compiler", "commit"] {
        assert!(long.lines().any(|line| line.starts_with(name)), "{name} is missing in\n{long}");
    }
    for wrong in [&["--verbose"][..], &[]] {
        let said = weft(wrong);
        assert_eq!(said.status.code(), Some(2), "{wrong:?}: {}", err(&said));
    }
}
