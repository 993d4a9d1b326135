//! What `weft bench ... --svg` draws: every figure that it writes as JSON, where it belongs.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::{WEFT, err, labs_work, out, weft};

/// An element of an SVG file, with the text that stands in it.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    text: String,
}

/// Reads a well-formed document: every element, in the order in which they begin.
fn elements(svg: &str) -> Vec<Element> {
    let (mut all, mut open): (Vec<Element>, Vec<usize>) = Default::default();
    let mut rest = svg.trim_start();
    assert!(rest.starts_with("<svg "), "no picture: {rest}");
    while let Some(begin) = rest.find('<') {
        let text = rest[..begin].trim();
        match open.last() {
            Some(&at) => all[at].text.push_str(text),
            None => assert!(text.is_empty(), "outside of all elements: {text}"),
        }
        let end = begin + rest[begin..].find('>').expect("a tag ends");
        let tag = &rest[begin + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let at = open.pop().unwrap_or_else(|| panic!("{name} ends, and was not begun"));
            assert_eq!(all[at].name, name, "another element ends");
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        if !closed {
            open.push(all.len());
        }
        all.push(element(tag));
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "cut off: {open:?} {rest}");
    all
}

fn element(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut element = Element { name: name.into(), ..Element::default() };
    while let Some((attribute, value)) = rest.trim_start().split_once("=\"") {
        let (value, after) = value.split_once('"').expect("a value ends");
        let other = element.attributes.insert(attribute.into(), value.into());
        assert!(other.is_none() && !value.contains('&'), "{attribute} of {tag}");
        rest = after;
    }
    assert!(rest.trim().is_empty(), "{rest} in {tag}");
    element
}

/// The curves: where their points are, in pixels from the upper left corner. Lines of the axes are
/// thin, and those in the legend have two ends.
fn curves(all: &[Element], points: usize) -> Vec<Vec<(i32, i32)>> {
    let at = |pair: &str| {
        let (x, y) = pair.split_once(',').expect("two numbers");
        (x.parse().expect("a pixel"), y.parse().expect("a pixel"))
    };
    let thick = |e: &&Element| e.name == "polyline" && e.attributes["stroke-width"] != "1";
    let lines = all.iter().filter(thick);
    let lines = lines.map(|e| e.attributes["points"].split_whitespace().map(at).collect());
    lines.filter(|line: &Vec<_>| line.len() == points).collect()
}

/// Runs a benchmark on the nodes of a lab; gives the lines that are rates or times, and the
/// picture.
fn drawn(bench: &str) -> (Vec<Value>, Vec<Element>) {
    let what = bench.split(' ').next().unwrap_or_default();
    let file = format!("{what}-{}.svg", std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let job = "run -n 4 --lab nodes=4,topology=switch --timeout 100 --";
    let words = format!("{job} {WEFT} bench {bench} --json --ms 10 --svg {}", file.display());
    let done = weft(&words.split(' ').collect::<Vec<_>>());
    assert!(done.status.success(), "weft {words}: {}", err(&done));
    let svg = std::fs::read_to_string(&file).expect("it was drawn");
    std::fs::remove_file(&file).expect("it is there");
    let lines = out(&done).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut lines: Vec<Value> = lines;
    lines.retain(|line| line.get("count").is_none());
    (lines, elements(&svg))
}

/// Checks that there is a curve for each label, in the order in which they first come, with a point
/// for each number of ranks, as high as its value; and that axes say what they are.
fn check(bench: &str, axis: &str, label: fn(&Value) -> String, value: fn(&Value) -> f64) {
    let (lines, all) = drawn(bench);
    let mut labels: Vec<String> = Vec::new();
    for line in &lines {
        if !labels.contains(&label(line)) {
            labels.push(label(line));
        }
    }
    let texts: Vec<&str> = all.iter().map(|e| e.text.as_str()).collect();
    for wanted in [axis, "ranks", "2", "3", "4"] {
        assert!(texts.contains(&wanted), "no {wanted} in {texts:?}");
    }
    let curves = curves(&all, 3);
    assert_eq!(curves.len(), labels.len(), "{labels:?} {curves:?}");
    let circles = all.iter().filter(|e| e.name == "circle").count();
    assert_eq!(circles, 4 * labels.len(), "for each of 2, 3, 4 ranks, and with the name");
    let mut points = Vec::new();
    for (name, curve) in labels.iter().zip(&curves) {
        let named = texts.iter().filter(|text| *text == name).count();
        assert_eq!(named, 1, "{name} in {texts:?}");
        let lines: Vec<&Value> = lines.iter().filter(|line| label(line) == *name).collect();
        assert_eq!(lines.iter().map(|l| &l["ranks"]).collect::<Vec<_>>(), [2, 3, 4]);
        for (at, (line, &(x, y))) in lines.iter().zip(curve).enumerate() {
            assert_eq!(x, curves[0][at].0, "ranks of {name} stand above those of others");
            assert!(at == 0 || curve[at - 1].0 < x, "{name}: {curve:?}");
            points.push((value(line), y));
        }
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(points.is_sorted_by(|a, b| a.1 >= b.1), "more is higher: {points:?}");
}

fn number(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("no {name} in {line}"))
}

fn with_size(line: &Value, way: &str) -> String {
    let size = match line["bytes"].as_u64() {
        Some(bytes) if bytes >= 1024 => format!("{}K", bytes / 1024),
        bytes => bytes.unwrap_or_default().to_string(),
    };
    format!("{way}, {size}")
}

#[test]
fn a_picture_of_barriers_has_a_curve_for_each_way() {
    if !labs_work("plot-barrier") {
        return;
    }
    check(
        "barrier --algorithm all --repeats 5 --work 0",
        "mean time of a barrier, us (lower is better)",
        |line| line["mode"].as_str().unwrap_or("auto").to_string(),
        |line| number(&line["time_us"], "mean"),
    );
}

#[test]
fn a_picture_of_broadcasts_has_a_curve_for_each_way_and_size() {
    if !labs_work("plot-bcast") {
        return;
    }
    check(
        "bcast --bytes 64,1K,32K",
        "MB/s at each receiver (higher is better)",
        |line| with_size(line, line["mode"].as_str().unwrap_or("broadcast")),
        |line| number(line, "bandwidth_mb_s"),
    );
}

#[test]
fn a_picture_of_ordered_messages_has_a_curve_for_each_size() {
    if !labs_work("plot-group") {
        return;
    }
    check(
        "group --bytes 64,1K --senders 2",
        "messages per second, of all (higher is better)",
        |line| with_size(line, "ordered"),
        |line| number(line, "messages_per_s"),
    );
}

#[test]
fn a_picture_that_is_cut_off_or_mixed_up_is_found() {
    let found = |svg: &str| {
        let svg = svg.to_string();
        std::panic::catch_unwind(move || elements(&svg)).is_err()
    };
    assert_eq!(elements("<svg a=\"1\">\n<text>\n us\n</text><br/></svg>\n")[1].text, "us");
    for wrong in [
        "<svg a=\"1\"><text></svg></text>",
        "<svg a=\"1\"><text></text>",
        "<svg a=\"1\"></svg><br",
        "<svg a=\"1\" a=\"2\"></svg>",
        "<svg a=1></svg>",
        "words",
    ] {
        assert!(found(wrong), "{wrong}");
    }
}
