//! The example `fdtd`: right to the last digits, and the same to the last bit however many ranks
//! there are and whatever carries their boundaries.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use weft_tests::job::{Cluster, Job, KILL, eventually, signal};

use super::{FDTD, WEFT};

/// SIGINT.
const INT: i32 = 2;
/// Few enough for debug code, and no multiple of the ranks.
const CELLS: &str = "15";

fn start(lab: Option<&Cluster>, ranks: &str, more: &[&str]) -> Job {
    let mut arguments = vec!["--keep-going", "-n", ranks];
    if let Some(lab) = lab {
        arguments.extend(["--lab", lab.name()]);
    }
    arguments.extend(["--", FDTD, "--cells", CELLS]);
    arguments.extend(more);
    Job::start(WEFT, &arguments, &[])
}

/// Runs it to its end and gives what it came to.
fn result(lab: Option<&Cluster>, ranks: &str, more: &[&str]) -> Value {
    let said = start(lab, ranks, &[more, &["--json"]].concat()).ends_well();
    let line = said.lines().find(|line| line.starts_with('{')).expect("a result");
    let result: Value = serde_json::from_str(line).expect("a line of JSON");
    assert_eq!(result["ranks"].to_string(), ranks, "{said}");
    for time in ["whole_s", "step_us", "compute_ns_per_cell", "wait_us"] {
        assert!(result[time].as_f64().is_some_and(|time| time > 0.0), "{time}: {said}");
    }
    result
}

fn sum(result: &Value) -> String {
    let sum = result["sum"].as_str().expect("a sum").to_string();
    assert_eq!(sum.len(), 16);
    sum
}

#[test]
fn fields_are_the_same_bit_for_bit_however_they_are_cut_and_carried() {
    let steps = ["--steps", "60"];
    let alone = sum(&result(None, "1", &steps));
    assert_ne!(alone, sum(&result(None, "1", &["--steps", "59"])), "the sum tells steps apart");
    for ranks in ["2", "4"] {
        assert_eq!(sum(&result(None, ranks, &steps)), alone, "{ranks} ranks");
    }
    let tcp = ["--steps", "60", "--transport", "tcp"];
    assert_eq!(sum(&result(None, "3", &tcp)), alone, "by tcp");
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for (ranks, way) in [("2", &steps[..]), ("3", &steps), ("2", &tcp), ("3", &tcp)] {
        assert_eq!(
            sum(&result(Some(&lab), ranks, way)),
            alone,
            "{ranks} ranks on 2 nodes, {way:?}"
        );
    }
}

#[test]
fn pictures_do_not_tell_how_the_box_was_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let pictures = |ranks: &str, transport: &str| {
        let into = folder.path().join(format!("{ranks} {transport}"));
        let name = into.to_str().expect("a temporary directory's name is text");
        let more = ["--steps", "30", "--every", "10", "--pictures", name, "--transport", transport];
        result(None, ranks, &more);
        files(&into)
    };
    let alone = pictures("1", "weft");
    let names: Vec<&str> = alone.keys().map(String::as_str).collect();
    assert_eq!(names, ["ez-000010.png", "ez-000020.png", "ez-000030.png"]);
    assert_ne!(alone["ez-000010.png"], alone["ez-000020.png"], "the wave moves");
    assert_eq!(pictures("4", "weft"), alone);
    assert_eq!(pictures("2", "tcp"), alone);
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = std::fs::read_dir(folder).expect("the folder of pictures").flatten();
    let whole = |file: std::fs::DirEntry| {
        let bytes = std::fs::read(file.path()).expect("a picture");
        (file.file_name().to_string_lossy().into_owned(), bytes)
    };
    all.map(whole).collect()
}

/// More steps than it will ever do.
const ENDLESS: [&str; 4] = ["--steps", "1000000000", "--every", "1"];

/// Starts an endless run and waits until it has done steps.
fn endless(transport: &str, folder: &Path) -> Job {
    let name = folder.to_str().expect("a temporary directory's name is text");
    let more = ["--pictures", name, "--transport", transport];
    let job = start(None, "3", &[&ENDLESS[..], &more].concat());
    eventually("the first steps", || folder.join("ez-000003.png").exists());
    job
}

#[test]
fn a_signal_for_one_rank_ends_all_at_the_same_step() {
    for transport in ["weft", "tcp"] {
        let folder = tempfile::tempdir().expect("a folder");
        let job = endless(transport, folder.path());
        // The launcher would tell all, and be patient for two seconds only.
        signal(processes(folder.path())[1], INT);
        let (status, said) = job.ends();
        assert_eq!(status.code(), Some(128 + INT), "{said}");
        // What was computed until then is right, and told.
        assert!(said.contains("fdtd: ended by a signal after "), "{said}");
        assert!(said.contains("at the worst point"), "{said}");
    }
}

#[test]
fn a_killed_rank_ends_the_run_in_an_error() {
    for (transport, why) in [("weft", "is gone"), ("tcp", "has broken")] {
        let folder = tempfile::tempdir().expect("a folder");
        let job = endless(transport, folder.path());
        let ranks = processes(folder.path());
        assert_eq!(ranks.len(), 3);
        signal(ranks[1], KILL);
        let (status, said) = job.ends();
        assert!(!status.success(), "{said}");
        assert!(said.contains(why), "{transport}: {said}");
    }
}

/// The ranks that put pictures into this folder.
fn processes(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
    let is_one = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(FDTD) && line.contains(&*folder.to_string_lossy())
    };
    let mut all: Vec<u32> = pids.filter(is_one).collect();
    all.sort_unstable();
    all
}

/// What a command writes on a terminal, which the program `script` makes for it.
fn on_a_terminal(command: &str) -> String {
    let mut script = Command::new("script");
    script.args(["-qec", command, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
    let output = script.output().expect("script, of the package bsdutils");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn how_far_it_is_is_shown_on_a_terminal_and_written_to_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("errors").to_str().expect("text").to_string();
    // Enough to be drawn more than once.
    let alone = format!("{FDTD} --cells {CELLS} --steps 5000");
    for command in [&alone, &format!("{WEFT} run -n 2 -- {alone}")] {
        let said = on_a_terminal(command);
        assert!(said.contains("/5000 steps"), "{said}");
        assert!(said.contains("at the worst point"), "{said}");
        // The bar is on standard error, the result on standard output.
        let said = on_a_terminal(&format!("{command} 2>{file}"));
        assert!(said.contains("at the worst point") && !said.contains("/5000"), "{said}");
        assert_eq!(std::fs::read_to_string(&file).expect("errors"), "");
    }
}
