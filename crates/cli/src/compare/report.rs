//! The figures of a comparison as tables and as JSON lines.

use serde::Serialize;

use super::contender::{Contender, Means, Reach};
use super::targets::Target;
use crate::bench::figure::{Figure, digits, size_text};
use crate::output::{Table, json_line};

/// Size and number of each figure of one contender, by size.
pub fn points(figures: &[Figure], bench: &str, device: &str) -> Vec<(u64, f64)> {
    let mut points: Vec<(u64, f64)> = figures
        .iter()
        .filter(|f| f.bench == bench && f.device == device && f.mode.is_none())
        .map(|f| (f.bytes, f.value.number()))
        .collect();
    points.sort_by_key(|p| p.0);
    points
}

/// Everything as JSON lines: figures, then targets.
pub fn json(figures: &[Figure], targets: &[Target]) {
    #[derive(Serialize)]
    struct Line<'a> {
        bench: &'static str,
        name: &'a str,
        ours: String,
        base: String,
        ratio: String,
        wanted: String,
        reached: bool,
    }
    figures.iter().for_each(json_line);
    for target in targets {
        if let Some(v) = target.judge(figures) {
            let (bench, name) = ("target", target.name);
            let (ours, base, ratio, wanted) = (v.ours, v.base, v.ratio, v.wanted);
            json_line(&Line { bench, name, ours, base, ratio, wanted, reached: v.reached });
        }
    }
}

/// Everything as tables for people.
pub fn tables(contenders: &[Contender], figures: &[Figure], targets: &[Target]) {
    let benches = [("lat", "there and back, median"), ("bw", "windows of 32 messages")];
    for reach in [Reach::Within, Reach::Between] {
        for (bench, title) in benches {
            let mut labels: Vec<&str> = contenders
                .iter()
                .filter(|c| c.reach == reach && !matches!(c.means, Means::Floors(_)))
                .map(|c| c.label.as_str())
                .filter(|label| figures.iter().any(|f| f.bench == bench && f.device == *label))
                .collect();
            let mut seen = Vec::new();
            labels.retain(|l| {
                !seen.contains(l) && {
                    seen.push(*l);
                    true
                }
            });
            if !labels.is_empty() {
                println!("\n{title}, {}", reach.title());
                sizes(bench, &labels, figures).print();
            }
        }
    }
    let rest: Vec<&Figure> =
        figures.iter().filter(|f| !["lat", "bw"].contains(&f.bench.as_str())).collect();
    if !rest.is_empty() {
        println!("\nwhat else was measured");
        let mut table = Table::new(["what", "ranks", "bytes", "figure", "cpu"]);
        for f in rest {
            let cpu = f.cpu_s_per_gb.map_or(String::new(), |c| format!("{} s/GB", digits(c)));
            let what = if f.bench == "floor" {
                f.device.clone()
            } else {
                format!("{} {}", f.device, f.bench)
            };
            let (ranks, bytes) = (f.ranks.to_string(), size_text(f.bytes));
            table.row([what, ranks, bytes, f.value.text(), cpu]);
        }
        table.print();
    }
    verdicts(figures, targets);
}

/// A row for each size, a column for each contender; beside the others, the first one's figure
/// divided by theirs.
fn sizes(bench: &str, labels: &[&str], figures: &[Figure]) -> Table {
    let of = |label: &str, bytes: u64| {
        let is = |f: &&Figure| f.bench == bench && f.device == label && f.bytes == bytes;
        figures.iter().find(|f| is(f) && f.mode.is_none())
    };
    let mut headings = vec!["bytes".to_string(), labels[0].to_string()];
    for other in &labels[1..] {
        headings.extend([other.to_string(), "ratio".to_string()]);
    }
    let mut all: Vec<u64> =
        labels.iter().flat_map(|l| points(figures, bench, l)).map(|p| p.0).collect();
    all.sort_unstable();
    all.dedup();
    let mut table = Table::new(headings);
    for bytes in all {
        let first = of(labels[0], bytes);
        let text = |f: Option<&Figure>| f.map_or("-".to_string(), |f| f.value.text());
        let mut row = vec![size_text(bytes), text(first)];
        for other in &labels[1..] {
            let other = of(other, bytes);
            let ratio = match (first, other) {
                (Some(a), Some(b)) => digits(a.value.number() / b.value.number()),
                _ => "-".to_string(),
            };
            row.extend([text(other), ratio]);
        }
        table.row(row);
    }
    table
}

fn verdicts(figures: &[Figure], targets: &[Target]) {
    let mut table = Table::new(["target", "weft", "against", "ratio", "wanted", ""]);
    let mut any = false;
    for target in targets {
        let Some(v) = target.judge(figures) else { continue };
        let reached = if v.reached { "reached" } else { "MISSED" };
        table.row([target.name, &v.ours, &v.base, &v.ratio, &v.wanted, reached]);
        any = true;
    }
    if any {
        println!("\ntargets");
        table.print();
    }
}
