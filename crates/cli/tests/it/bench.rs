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
    for what in ["put", "get", "put --borrowed"] {
        let moved = run(&format!("{what} --bytes 8,100K"));
        let (what, borrowed) = what.split_once(' ').unwrap_or((what, ""));
        let returns = what == "put" && borrowed.is_empty();
        assert_eq!(moved.len(), 4 + usize::from(returns), "{moved:?}");
        assert!(
            moved.iter().all(|l| borrowed.is_empty() != l["mode"].to_string().contains("borr"))
        );
        assert!(moved.get(4).is_none_or(|l| p50(l, "rtt_us") > 0.0), "{moved:?}");
        assert!(moved.iter().all(|l| l["bench"] == what), "{moved:?}");
        assert!(p50(&moved[1], "time_us") > 0.0);
        assert!(moved[2]["bandwidth_mb_s"].as_f64().unwrap() > 0.0);
    }
}

/// What is told of each rank by itself gives what is told of all together.
fn ranks_agree(line: &Value) {
    let of = |value: &Value, name: &str| {
        value[name].as_f64().unwrap_or_else(|| panic!("no {name} in {value}: {line}"))
    };
    let each = line["each_rank"].as_array().unwrap_or_else(|| panic!("no ranks in {line}"));
    assert_eq!(Some(each.len() as u64), line["ranks"].as_u64(), "{line}");
    let about = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs().max(b.abs());
    for (own, all) in
        [("min_us", "rank_min_us"), ("mean_us", "rank_mean_us"), ("max_us", "rank_max_us")]
    {
        let mean = each.iter().map(|rank| of(rank, own)).sum::<f64>() / each.len() as f64;
        assert!(about(mean, of(line, all)), "{all}: {mean} in {line}");
    }
    let means = || each.iter().map(|rank| of(rank, "mean_us"));
    assert!(about(means().fold(f64::INFINITY, f64::min), of(line, "least_mean_us")), "{line}");
    assert!(about(means().fold(0.0, f64::max), of(line, "greatest_mean_us")), "{line}");
    for rank in each {
        let [min, mean, max] = ["min_us", "mean_us", "max_us"].map(|name| of(rank, name));
        // A histogram has three digits.
        assert!(0.0 < min && min <= mean * 1.01 && mean <= max * 1.01, "{line}");
    }
    assert!(of(line, "exit_skew_us") >= 0.0, "ranks of one machine share a clock: {line}");
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
    let (broadcasts, ordered) = (run("bcast --bytes 1K,8K"), run("group --bytes 64 --senders 2"));
    for ranks in [2, 3] {
        for mode in [None, Some("dissemination")] {
            let barrier = of(&barriers, mode, ranks);
            assert!(p50(&barrier, "time_us") > 0.0);
            assert_eq!(barrier["time_us"]["mean"], barrier["rank_mean_us"], "{barrier}");
        }
        let rates = |l: &&Value| l["ranks"] == ranks && l.get("count").is_none();
        for line in [&barriers, &broadcasts, &ordered].into_iter().flatten().filter(rates) {
            ranks_agree(line);
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
    let bytes = parameters.iter().map(|l| l["bytes"].as_u64()).collect::<Vec<_>>();
    assert_eq!(bytes[1..], [Some(8), Some(1024)], "within a node there is no link");
    for line in &parameters {
        for name in ["o_s_us", "l_us", "o_r_us", "g_us"] {
            assert!(number(line, name) >= 0.0, "{line}");
        }
        assert!(number(line, "rtt_us") > 0.0, "{line}");
    }
    assert!(parameters[2]["per_byte_ns"].is_number(), "{}", parameters[2]);
    let modes: Vec<&str> = barriers.iter().filter_map(|l| l["mode"].as_str()).collect();
    for name in ["dissemination", "dissemination3", "nomial3", "nomial4", "tree4", "sequencer"] {
        assert!(modes.contains(&name), "no {name} in {modes:?}");
    }
    assert!(barriers.iter().all(|l| p50(l, "time_us") > 0.0 && number(l, "modelled_us") >= 0.0));
    whether_four_is_better(parameters[0], &barriers);

    let words = run("--bytes 8");
    let done = weft(&words.split_whitespace().collect::<Vec<_>>());
    assert!(done.status.success(), "{}", err(&done));
    let table = out(&done);
    let wanted = [
        "WEFT_LOGP=",
        "modelled us",
        "measured / modelled",
        "o_s + L",
        "for nomial4 to beat dissemination among 16 ranks",
        "Among 2 ranks, by the model, ",
        "Among 2 ranks, as measured, ",
        "round trip us",
        "G ns/byte",
    ];
    for wanted in wanted {
        assert!(table.contains(wanted), "no {wanted} in {table}");
    }
}

/// The answers about the 4-ary tree follow from the parameters, and from what barriers took.
fn whether_four_is_better(datagram: &Value, barriers: &[&Value]) {
    let of = |value: &Value, name: &str| {
        value[name].as_f64().unwrap_or_else(|| panic!("no {name} in {value}"))
    };
    let [o_s, l, o_r, g] = ["o_s_us", "l_us", "o_r_us", "g_us"].map(|name| of(datagram, name));
    let condition = &datagram["condition"];
    assert_eq!((&condition["ranks"], &condition["tree"]), (&16.into(), &"nomial4".into()));
    for (name, left) in [("without_gaps", 3.0 * o_r), ("with_gaps", 4.0 * o_r.max(g) - o_r)] {
        let sides = &condition[name];
        let (its_left, right) = (of(sides, "left_us"), of(sides, "right_us"));
        assert!((its_left - left).abs() < 1e-6 && (right - o_s - l).abs() < 1e-6, "{sides}");
        assert_eq!(sides["holds"], its_left < right, "{sides}");
    }
    let four = &datagram["four"];
    assert_eq!(four["ranks"], datagram["ranks"]);
    let rivals = four["rivals"].as_array().unwrap();
    let names: Vec<_> = rivals.iter().filter_map(|rival| rival["algorithm"].as_str()).collect();
    assert_eq!(names, ["dissemination", "tree4", "nomial4"]);
    for rival in rivals {
        let barrier = barriers.iter().find(|l| l["mode"] == rival["algorithm"]).unwrap();
        assert_eq!(rival["measured_us"], barrier["time_us"]["mean"]);
        assert_eq!(rival["modelled_us"], barrier["modelled_us"]);
    }
    for (wins, us) in [("model_wins", "modelled_us"), ("measured_wins", "measured_us")] {
        let least = rivals.iter().map(|rival| of(rival, us)).fold(f64::INFINITY, f64::min);
        let first = rivals.iter().filter(|rival| of(rival, us) <= least);
        let first: Vec<_> = first.map(|rival| rival["algorithm"].clone()).collect();
        assert_eq!(four[wins].as_array(), Some(&first), "{four}");
    }
}

#[test]
fn each_link_is_measured_by_itself() {
    if !crate::labs_work("each-link") {
        return;
    }
    let links_of = |kinds: &str| {
        let job = format!("run --lab nodes=2,links=2 -n 2 --timeout 60 -- env WEFT_LINKS={kinds}");
        let lines = figures(&format!("{job} {WEFT} bench logp --json --ms 10 --bytes 8,1K"));
        let mut links = Vec::new();
        for line in lines.iter().filter(|line| line["link"].is_string()) {
            let name = line["link"].as_str().unwrap().to_string();
            let size = (line["mode"].as_str().unwrap().to_string(), line["bytes"].as_u64());
            assert!(line["rtt_us"].as_f64().is_some_and(|us| us > 0.0), "{line}");
            assert_eq!((&line["device"], &line["ranks"]), (&"ether".into(), &2.into()), "{line}");
            assert_eq!(line["condition"].is_object(), size.0 == "datagram", "{line}");
            links.push((name, size.0, size.1.unwrap()));
        }
        links
    };
    for kinds in [&["packet", "udp", "tso"][..], &["udp"]] {
        let mut links = links_of(&kinds.join(","));
        // A busy machine may take longer to meet over a link than is waited for.
        for _ in 0..2 {
            if links.len() < 3 * 2 * kinds.len() {
                links = links_of(&kinds.join(","));
            }
        }
        for size in [("datagram", 28), ("message", 8), ("message", 1024)] {
            let here = |kind: &str| {
                let is = |(name, mode, bytes): &&(String, String, u64)| {
                    name.starts_with(&format!("{kind}:")) && (mode.as_str(), *bytes) == size
                };
                links.iter().filter(is).count()
            };
            let all: usize = kinds.iter().map(|kind| here(kind)).sum();
            assert!(kinds.iter().all(|kind| here(kind) == 2), "a cable each: {links:?}");
            assert_eq!(links.len(), 3 * all, "{links:?}");
        }
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
