//! `weft bench` and `weft compare`: the lines that scripts depend on. No figure is judged.

use serde_json::Value;

use crate::{WEFT, err, out, weft};

/// Whether it went well, the lines that are JSON, and what it said.
fn lines(words: &str) -> (bool, Vec<Value>, String) {
    let done = weft(&words.split(' ').collect::<Vec<_>>());
    let lines = out(&done).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    (done.status.success(), lines, err(&done))
}

fn figures(words: &str) -> Vec<Value> {
    let (done, lines, said) = lines(words);
    assert!(done, "weft {words}: {said}");
    assert!(!lines.is_empty(), "weft {words} gave no figure: {said}");
    for line in &lines {
        for name in ["bench", "device", "ranks", "bytes"] {
            assert!(line.get(name).is_some(), "no {name} in {line}");
        }
    }
    lines
}

fn p50(line: &Value, unit: &str) -> f64 {
    line[unit]["p50"].as_f64().unwrap_or_else(|| panic!("no {unit} in {line}"))
}

#[test]
fn floors_of_memory_and_sockets_have_figures() {
    let what = "system-call,memcpy,udp-poll,tcp-poll,tcp-stream,futex-ring";
    let all = figures(&format!(
        "bench floor --json --rounds 1 --ms 20 --no-lab --processes 4 --what {what}"
    ));
    assert_eq!(all.len(), 7, "{all:?}");
    let of = |name: &str| all.iter().find(|l| l["device"] == name).unwrap();
    assert!(p50(of("udp-poll"), "rtt_us") > 0.0);
    assert!(p50(of("futex-ring"), "time_us") > 0.0);
    assert!(of("tcp-stream")["bandwidth_mb_s"].as_f64().unwrap() > 0.0);
    assert!(of("tcp-stream")["cpu_s_per_gb"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_floor_that_there_is_not_is_bad_usage_and_names_those_there_are() {
    let (done, _, said) = lines("bench floor --what cold-fusion");
    assert!(!done && said.contains("cold-fusion") && said.contains("packet-ring"), "{said}");
}

#[test]
fn one_rank_alone_is_told_how_to_start_two() {
    let (done, _, said) = lines("bench lat");
    assert!(!done && said.contains("weft run -n 2"), "{said}");
}

#[test]
fn two_ranks_measure_shared_memory() {
    let run = |bench: &str| {
        figures(&format!(
            "run -n 2 --device shm --timeout 60 -- {WEFT} bench {bench} --json --ms 20"
        ))
    };
    let lat = run("lat --bytes 8,1M");
    assert_eq!(lat.len(), 2);
    assert!(lat.iter().all(|l| l["device"] == "shm" && p50(l, "rtt_us") > 0.0), "{lat:?}");
    let bw = run("bw --bytes 64K --memory user,weft");
    assert_eq!(bw.len(), 2);
    assert!(bw.iter().all(|l| l["bandwidth_mb_s"].as_f64().unwrap() > 0.0), "{bw:?}");
    assert!(run("rate --bytes 64")[0]["messages_per_s"].as_f64().unwrap() > 0.0);
    assert!(p50(&run("ring")[0], "time_us") > 0.0);
}

#[test]
fn groups_of_two_and_three_measure_barriers_broadcasts_and_order() {
    let run = |bench: &str| {
        figures(&format!(
            "run -n 3 --device shm --timeout 60 -- {WEFT} bench {bench} --ranks 2,3 --json --ms 20"
        ))
    };
    let of = |lines: &[Value], mode: Option<&str>, ranks: u64| {
        let is = |l: &&Value| l["mode"].as_str() == mode && l["ranks"] == ranks;
        lines.iter().find(is).unwrap_or_else(|| panic!("no {mode:?} of {ranks}: {lines:?}")).clone()
    };
    let barriers = run("barrier --algorithm auto,dissemination --work 0 --repeats 10");
    assert_eq!(barriers.len(), 4);
    let (broadcasts, ordered) = (run("bcast --bytes 1K"), run("group --bytes 64 --senders 2"));
    for ranks in [2, 3] {
        for mode in [None, Some("dissemination")] {
            let barrier = of(&barriers, mode, ranks);
            let mean = |name: &str| barrier[name].as_f64().unwrap();
            assert!(p50(&barrier, "time_us") > 0.0);
            assert!(mean("rank_min_us") > 0.0 && mean("rank_min_us") <= mean("rank_max_us"));
            assert!(mean("least_mean_us") <= mean("greatest_mean_us"));
            assert!(mean("rank_min_us") <= mean("greatest_mean_us"));
            assert!(mean("least_mean_us") <= mean("rank_max_us"));
        }
        assert!(of(&broadcasts, None, ranks)["bandwidth_mb_s"].as_f64().unwrap() > 0.0);
        assert!(of(&ordered, None, ranks)["messages_per_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn parameters_of_messages_and_what_barriers_cost_by_them() {
    let run = |arguments: &str| {
        format!("run -n 2 --device shm --timeout 60 -- {WEFT} bench logp --ms 20 {arguments}")
    };
    let all = figures(&run("--bytes 8,1K --json"));
    let number = |line: &Value, name: &str| {
        line[name].as_f64().unwrap_or_else(|| panic!("no {name} in {line}"))
    };
    let of = |bench: &str| all.iter().filter(|l| l["bench"] == bench).collect::<Vec<_>>();
    // First those of a datagram, then those of messages by size.
    let (parameters, barriers) = (of("logp"), of("barrier"));
    assert_eq!(
        parameters.iter().map(|l| l["bytes"].as_u64()).collect::<Vec<_>>()[1..],
        [Some(8), Some(1024)]
    );
    for line in &parameters {
        for name in ["o_s_us", "l_us", "o_r_us", "g_us"] {
            assert!(number(line, name) >= 0.0, "{line}");
        }
        assert!(number(line, "rtt_us") > 0.0, "{line}");
    }
    assert!(parameters[0]["favours_four"].is_boolean(), "{}", parameters[0]);
    assert!(parameters[2]["per_byte_ns"].is_number(), "{}", parameters[2]);
    let modes: Vec<&str> = barriers.iter().filter_map(|l| l["mode"].as_str()).collect();
    assert!(modes.contains(&"dissemination") && modes.contains(&"nomial3"), "{modes:?}");
    assert!(barriers.iter().all(|l| p50(l, "time_us") > 0.0));

    let words = run("--bytes 8");
    let done = weft(&words.split_whitespace().collect::<Vec<_>>());
    assert!(done.status.success(), "{}", err(&done));
    let table = out(&done);
    let wanted = [
        "WEFT_LOGP=",
        "modelled us",
        "measured / modelled",
        "nomial4",
        "round trip us",
        "G ns/byte",
    ];
    for wanted in wanted {
        assert!(table.contains(wanted), "no {wanted} in {table}");
    }
}

#[test]
fn with_two_cables_barriers_over_both_are_measured_and_modelled() {
    if !crate::labs_work("two-cables") {
        return;
    }
    for (links, more) in [(1, false), (2, true)] {
        let run = |bench: &str| {
            let lab = format!("run -n 2 --lab nodes=2,links={links} --timeout 60 --");
            let lines = figures(&format!("{lab} {WEFT} bench {bench} --json --ms 10"));
            let mode = |l: &Value| l["mode"].as_str().map(String::from);
            lines.iter().filter_map(mode).collect::<Vec<_>>()
        };
        let barriers = run("barrier --algorithm all,hierarchical-tree4 --repeats 10");
        let modelled = run("logp --bytes 8");
        assert!(barriers.contains(&"hierarchical-tree4".to_string()), "{barriers:?}");
        for name in ["tree3-2net", "concurrent-2net"] {
            assert_eq!(barriers.iter().any(|mode| mode == name), more, "{links}: {barriers:?}");
            assert_eq!(modelled.iter().any(|mode| mode == name), more, "{links}: {modelled:?}");
        }
    }
}
