//! `weft sim` as scripts see it.

use std::process::Output;

use super::{err, out};

fn sim(arguments: &str) -> Output {
    let arguments: Vec<&str> = std::iter::once("sim").chain(arguments.split_whitespace()).collect();
    super::weft(&arguments)
}

#[test]
fn seeds_are_run_and_summed_up() {
    let output = sim("proto --seeds 4 --start 10 --nodes 3");
    assert!(output.status.success(), "{}", err(&output));
    let summary = out(&output);
    assert!(summary.starts_with("4 seeds, 0 failed;"), "{summary}");
}

#[test]
fn a_json_line_for_each_seed() {
    let output = sim("proto --seeds 3 --nodes 2 --loss 5 --json");
    let lines = out(&output);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    for line in lines.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["bench"], "sim-proto");
        assert_eq!(value["ranks"], 2);
        assert!(value["failure"].is_null() && value["digest"].is_u64(), "{line}");
    }
}

#[test]
fn a_canary_is_found_and_the_command_that_shows_it_again_is_given() {
    let output = sim("proto --seeds 50 --nodes 2 --canary lose");
    assert_eq!(output.status.code(), Some(1));
    let errors = err(&output);
    let again = errors.lines().find_map(|l| l.split_once("again with: weft sim "));
    let Some((_, again)) = again else { panic!("no command to replay: {errors}") };
    let replay = sim(again);
    assert_eq!(replay.status.code(), Some(1));
    let what = |text: &str| text.lines().find(|l| l.contains("failed in the")).map(String::from);
    let (first, second) = (what(&errors), what(&err(&replay)));
    assert!(first.is_some() && errors.contains(&second.unwrap_or_default()), "{errors}");
}

#[test]
fn bad_usage_is_told_from_failure() {
    assert_eq!(sim("proto --nodes 1").status.code(), Some(2));
    assert_eq!(sim("proto --loss 95").status.code(), Some(2));
    let output = sim("proto --canary dodo");
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("choose one of twice, lose"));
}

/// What `sim barrier` writes as JSON, a line for each algorithm.
fn barriers(arguments: &str) -> Vec<serde_json::Value> {
    let output = sim(&format!("barrier --json {arguments}"));
    assert!(output.status.success(), "{arguments}: {}", err(&output));
    let text = out(&output);
    let lines: Result<Vec<_>, _> = text.lines().map(serde_json::from_str).collect();
    lines.unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn number(line: &serde_json::Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("no {name} in {line}"))
}

#[test]
fn a_json_line_for_each_algorithm_of_a_barrier() {
    let lines = barriers("--nodes 32");
    assert!(lines.len() >= 6, "{lines:?}");
    for line in &lines {
        assert_eq!((&line["bench"], &line["device"]), (&"sim-barrier".into(), &"sim".into()));
        assert_eq!((&line["ranks"], &line["bytes"]), (&32.into(), &0.into()));
        let time = &line["time_us"];
        let [min, p50, p99] = ["min", "p50", "p99"].map(|name| number(time, name));
        assert!(0.0 < min && min <= p50 && p50 <= p99, "{line}");
        let [low, high] = ["rank_min_us", "rank_max_us"].map(|name| number(line, name));
        let mean = number(time, "mean");
        assert!(min <= low && low <= mean && mean <= high, "{line}");
        assert!(number(line, "frames") > 0.0 && number(line, "model_us") > 0.0, "{line}");
        for name in ["exit_skew_us", "span_us", "repairs", "collisions"] {
            assert!(number(line, name) >= 0.0, "{line}");
        }
        assert!(!line["algorithm"].as_str().unwrap().contains("-2net"), "there is one link");
    }
}

#[test]
fn a_barrier_as_comma_separated_values_has_a_heading_and_as_many_cells_in_each_row() {
    let output = sim("barrier --nodes 16 --repeats 5 --csv");
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][..5], ["algorithm", "ranks", "mean_us", "rank_min", "rank_max"]);
    assert_eq!(rows.len(), 1 + barriers("--nodes 16 --repeats 5").len());
    for row in &rows[1..] {
        assert_eq!((row.len(), row[1]), (rows[0].len(), "16"), "{text}");
        let (among, numbers) = row[2..].split_last().unwrap();
        assert!(numbers.iter().all(|cell| cell.parse::<f64>().is_ok()), "{text}");
        assert_eq!(*among, row[0], "an algorithm over all goes by itself");
    }
}

#[test]
fn a_plot_of_barriers_has_a_curve_for_each_algorithm_and_a_row_for_each_point() {
    let name = format!("barriers-{}.svg", std::process::id());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let path = file.to_str().unwrap();
    let lines = barriers(&format!("--nodes 20 --repeats 3 --links 2 --svg {path}"));
    let svg = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let mut names: Vec<&str> = lines.iter().filter_map(|l| l["algorithm"].as_str()).collect();
    names.dedup();
    for name in &names {
        let sizes = lines.iter().filter(|l| l["algorithm"] == *name).map(|l| number(l, "ranks"));
        assert_eq!(sizes.collect::<Vec<_>>(), [2.0, 4.0, 8.0, 16.0, 20.0], "{name}");
        assert!(svg.lines().any(|line| line.trim() == *name), "no {name} in {svg}");
    }
    let circles = svg.matches("<circle").count();
    assert_eq!(circles, lines.len() + names.len(), "one for each point, and in the legend");
}

#[test]
fn two_links_bring_the_algorithms_that_spread_over_both() {
    let names = |arguments: &str| {
        let name = |line: &serde_json::Value| line["algorithm"].as_str().unwrap().to_string();
        barriers(arguments).iter().map(name).collect::<Vec<_>>()
    };
    let all = names("--nodes 8 --links 2 --repeats 2");
    for name in ["tree3-2net", "concurrent-2net", "tree3", "dissemination"] {
        assert!(all.iter().any(|other| other == name), "{all:?}");
    }
    let few = "--nodes 8 --links 2 --repeats 2 --algorithm";
    assert_eq!(names(&format!("{few} tree4")), ["tree4-2net"]);
    assert_eq!(names(&format!("{few} hierarchical-tree4")), ["hierarchical-tree4-2net"]);
    assert_eq!(names(&format!("{few} shm --per-node 8")), ["shm"]);
    assert_eq!(names(&format!("{few} dissemination")), ["dissemination"]);
}

#[test]
fn ranks_that_share_nodes_go_by_node_and_bring_these_ways_to_all_others() {
    let all = barriers("--nodes 32 --per-node 4 --repeats 2");
    let by_node = |line: &&serde_json::Value| number(line, "per_node") == 4.0;
    assert_eq!(all.iter().filter(by_node).count() * 2, all.len(), "each algorithm goes both ways");
    for line in &all {
        let name = line["algorithm"].as_str().unwrap();
        let (among, nodes) = match name.strip_prefix("hierarchical-") {
            Some(among) => (among, 8),
            None => (name, 32),
        };
        assert_eq!((&line["among"], &line["nodes"]), (&among.into(), &nodes.into()), "{line}");
    }
    for name in ["nomial4", "sequencer", "hierarchical-dissemination3", "hierarchical-tree4"] {
        assert!(all.iter().any(|line| line["algorithm"] == name), "no {name}");
    }
    let one = |arguments: &str| barriers(&format!("--nodes 32 --algorithm {arguments}")).remove(0);
    let free = one("hierarchical --per-node 4 --logp 1,20,0.01,0.01");
    assert_eq!(
        (&free["algorithm"], &free["among"]),
        (&"hierarchical".into(), &"concurrent".into())
    );
    let node = one("shm --per-node 32 --board 0.5");
    assert_eq!((&node["among"], &node["nodes"]), (&serde_json::Value::Null, &1.into()));
    assert_eq!((number(&node, "span_us"), number(&node, "frames")), (1.0, 0.0));
}

#[test]
fn a_shared_wire_collides_and_jitter_spreads_a_barrier() {
    let one = |arguments: &str| {
        let lines = barriers(&format!("--nodes 16 --algorithm dissemination {arguments}"));
        assert_eq!(lines.len(), 1);
        lines[0].clone()
    };
    let mean = |line: &serde_json::Value| number(&line["time_us"], "mean");
    let (switch, hub, jitter) = (one(""), one("--hub"), one("--jitter 50"));
    assert_eq!(number(&switch, "collisions"), 0.0);
    assert!(number(&hub, "collisions") > 0.0 && mean(&hub) > mean(&switch), "{hub}");
    let spread = |line| number(line, "rank_max_us") - number(line, "rank_min_us");
    assert!(mean(&jitter) > mean(&switch) && spread(&jitter) > spread(&switch), "{jitter}");
    // What is random is the seed's.
    assert_eq!(one("--jitter 50 --seed 7"), one("--jitter 50 --seed 7"));
    assert_ne!(one("--jitter 50 --seed 7"), jitter);
}

#[test]
fn wrong_use_of_a_simulated_barrier_is_answered_by_what_is_possible() {
    for (arguments, possible) in [
        ("--nodes 8 --algorithm tree", "tree2 to tree64"),
        ("--nodes 8 --algorithm sequencer-2net", "concurrent-2net"),
        ("--nodes 0", "at least one rank"),
        ("--nodes 99999999", "16777216"),
        ("--nodes 2000 --hub", "1024"),
        ("--nodes 8 --links 3", "1..=2"),
        ("--nodes 8 --logp 1,2,3", "3,17.5,9.5,9"),
        ("--nodes 8 --work=-1", "microseconds from 0"),
        ("--nodes 8 --loss 101", "0 to 100"),
        ("--nodes 8 --per-node 0", "--per-node"),
        ("--nodes 8 --board=-1", "microseconds from 0"),
        ("--nodes 8 --per-node 7 --algorithm shm", "go by hierarchical"),
        ("--nodes 8 --algorithm hierarchical-tree", "tree2 to tree64"),
        ("--nodes 8 --repeats 0", "at least one barrier"),
        ("--nodes 8 --json --csv", "--csv"),
        ("", "--nodes"),
    ] {
        let output = sim(&format!("barrier {arguments}"));
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", out(&output));
        assert!(err(&output).contains(possible), "{arguments}: {}", err(&output));
    }
}

#[test]
fn a_json_line_for_each_way_of_a_collective_operation() {
    let output = sim("collective --what allreduce --nodes 12 --bytes 4096 --way all --json");
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ways: Vec<_> = lines.iter().filter_map(|line| line["way"].as_str()).collect();
    assert_eq!(ways, ["doubling", "halving", "ring"]);
    for line in &lines {
        assert_eq!(
            (&line["bench"], &line["what"]),
            (&"sim-collective".into(), &"allreduce".into())
        );
        assert_eq!((&line["ranks"], &line["bytes"]), (&12.into(), &4096.into()));
        assert!(number(&line["time_us"], "mean") > 0.0 && number(line, "messages") > 0.0, "{line}");
    }
    let ordered = "collective --what reduce-scatter --nodes 5 --way all --ordered";
    let row = out(&sim(ordered));
    let row: Vec<&str> = row.lines().skip(1).flat_map(str::split_whitespace).collect();
    assert_eq!(row[..3], ["reduce-scatter", "pairwise", "5"], "{row:?}");
    let usual = out(&sim("collective --what gather --nodes 9 --root 8 --jitter 20 --skew 50"));
    assert!(usual.lines().nth(1).is_some_and(|row| row.contains("binomial")), "{usual}");
}

#[test]
fn a_collective_operation_that_makes_no_sense_is_refused_with_a_reason() {
    for (arguments, why) in [
        ("--what allreduce --nodes 4 --way bruck", "doubling, halving, ring"),
        ("--what reduce --nodes 4 --root 4", "4 ranks"),
        ("--what alltoall --nodes 1000000", "GiB"),
        ("--what gossip --nodes 4", "choose one of broadcast"),
        ("--what gather --nodes 4 --bytes 9", "8 bytes"),
    ] {
        let output = sim(&format!("collective {arguments}"));
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(err(&output).contains(why), "{arguments}: {}", err(&output));
    }
}
