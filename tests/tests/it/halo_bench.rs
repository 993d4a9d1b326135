//! `weft bench halo`: every pattern and cut, by Weft and by sockets, checks its boundaries and
//! tells what a step is made of.

use serde_json::Value;
use weft_tests::job::{Cluster, Job};

use super::WEFT;

const TIMES: [&str; 4] = ["step_us", "compute_us", "pack_us", "wait_us"];

/// Runs it and gives its lines.
fn figures(lab: Option<&Cluster>, ranks: &str, more: &[&str]) -> Vec<Value> {
    let mut arguments = vec!["-n", ranks];
    if let Some(lab) = lab {
        arguments.extend(["--lab", lab.name()]);
    }
    arguments.extend(["--", WEFT, "bench", "halo", "--json", "--ms", "10", "--cells", "12x9x15"]);
    arguments.extend(more);
    let said = Job::start(WEFT, &arguments, &[]).ends_well();
    let lines = said.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Each pattern is there once, whole, and with boundaries of so many cells.
fn are_whole(figures: &[Value], ranks: u64, cells: u64, stages: u64, rest: &str) {
    let names = ["one-way", "two-way", "alternating"];
    assert_eq!(figures.len(), names.len(), "{figures:?}");
    for (figure, name) in figures.iter().zip(names) {
        // What alternates has two stages.
        let stages = if name == "alternating" { 2 } else { stages };
        let rest = rest.replace("STAGES", &stages.to_string());
        assert_eq!(figure["mode"].as_str(), Some(format!("{name}/12x9x15/{rest}").as_str()));
        assert_eq!(figure["bench"].as_str(), Some("halo"));
        assert_eq!(figure["ranks"].as_u64(), Some(ranks));
        assert_eq!(figure["bytes"].as_u64(), Some(8 * cells));
        for time in TIMES {
            for of in ["min", "p50", "p99", "mean"] {
                assert!(figure[time][of].as_f64().is_some(), "{time} {of}: {figure}");
            }
        }
        let mean = |time: &str| figure[time]["mean"].as_f64().unwrap_or(0.0);
        assert!(mean("step_us") > mean("wait_us") && mean("wait_us") > 0.0, "{figure}");
        assert!(mean("wait_us") >= mean("pack_us"), "{figure}");
    }
}

#[test]
fn boundaries_go_every_way_and_steps_are_told_apart() {
    let lab = Cluster::new(WEFT, "nodes=2,links=2");
    for transport in ["weft", "tcp"] {
        let by = ["--transport", transport];
        for lab in [None, lab.as_ref()] {
            are_whole(&figures(lab, "2", &by), 2, 9 * 15, 1, "1/STAGES/0");
            let strided = [&by[..], &["--fields", "3", "--stages", "2", "--axis", "2"]].concat();
            are_whole(&figures(lab, "3", &strided), 3, 12 * 9, 2, "3/STAGES/2");
        }
    }
    let middle = ["--axis", "1", "--fields", "2"];
    are_whole(&figures(None, "4", &middle), 4, 12 * 15, 1, "2/STAGES/1");
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let arguments = ["-n", "2", "--", WEFT, "bench", "halo", "--cells", "1x4x4"];
    let (status, said) = Job::start(WEFT, &arguments, &[]).ends();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("more ranks than layers: 2"), "{said}");
}
