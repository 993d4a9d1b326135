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

/// Benchmarks that have tables of their own, and what those are called.
const TABLES: [(&str, &str); 10] = [
    ("lat", "there and back, median"),
    ("bw", "windows of 32 messages"),
    ("barrier", "barrier, median"),
    ("bcast", "broadcast"),
    ("cast", "broadcasts one after the other, at each receiver"),
    ("group", "ordered messages"),
    ("allreduce", "sum over all ranks, median"),
    ("put", "remote write, complete, median"),
    ("lput", "remote write with its lock, median"),
    ("fadd", "remote fetch-and-add, median"),
];

/// Everything as tables for people.
pub fn tables(contenders: &[Contender], figures: &[Figure], targets: &[Target]) {
    for reach in [Reach::Within, Reach::Between, Reach::Among] {
        for (bench, title) in TABLES {
            let measured =
                |label: &str| figures.iter().any(|f| f.bench == bench && f.device == label);
            let mut labels: Vec<&str> = Vec::new();
            for c in contenders.iter().filter(|c| c.reach == reach && measured(&c.label)) {
                let own = !matches!(c.means, Means::Floors(_));
                if own && !labels.contains(&c.label.as_str()) {
                    labels.push(&c.label);
                }
            }
            if !labels.is_empty() {
                println!("\n{title}, {}", reach.title());
                side_by_side(bench, &labels, figures).print();
            }
        }
    }
    let shown = |f: &&Figure| TABLES.iter().any(|(bench, _)| f.bench == *bench) && f.mode.is_none();
    let rest: Vec<&Figure> = figures.iter().filter(|f| !shown(f)).collect();
    if !rest.is_empty() {
        println!("\nfloors, and what else was measured");
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

/// A row for each number of ranks and each size, a column for each contender; beside the others,
/// the figure of the one before them divided by theirs, where that is the same library on Weft.
fn side_by_side(bench: &str, labels: &[&str], figures: &[Figure]) -> Table {
    let of = |label: &str, row: (u32, u64)| {
        let is = |f: &&Figure| f.bench == bench && f.device == label && (f.ranks, f.bytes) == row;
        figures.iter().find(|f| is(f) && f.mode.is_none())
    };
    let mut headings = vec!["ranks".to_string(), "bytes".to_string()];
    for (at, label) in labels.iter().enumerate() {
        headings.push(label.to_string());
        if compared_with(labels, at).is_some() {
            headings.push("ratio".to_string());
        }
    }
    let measured = |f: &&Figure| f.bench == bench && f.mode.is_none();
    let mut rows: Vec<(u32, u64)> = figures
        .iter()
        .filter(|f| measured(f) && labels.contains(&f.device.as_str()))
        .map(|f| (f.ranks, f.bytes))
        .collect();
    rows.sort_unstable();
    rows.dedup();
    let mut table = Table::new(headings);
    for row in rows {
        let text = |f: Option<&Figure>| f.map_or("-".to_string(), |f| f.value.text());
        let mut cells = vec![row.0.to_string(), size_text(row.1)];
        for (at, label) in labels.iter().enumerate() {
            let own = of(label, row);
            cells.push(text(own));
            if let Some(first) = compared_with(labels, at) {
                cells.push(match (of(first, row), own) {
                    (Some(a), Some(b)) => digits(a.value.number() / b.value.number()),
                    _ => "-".to_string(),
                });
            }
        }
        table.row(cells);
    }
    table
}

/// Which figure stands above the fraction beside the one at `at`: that of the same MPI library on
/// Weft, or else the first one's.
fn compared_with<'a>(labels: &[&'a str], at: usize) -> Option<&'a str> {
    let library = |label: &'a str| label.split(' ').next().unwrap_or(label);
    if labels[at].contains("weft") && library(labels[at]) != "weft" {
        return None;
    }
    let mut on_weft = labels.iter().filter(|l| l.contains("weft") && **l != labels[at]);
    let same = on_weft.find(|l| library(l) == library(labels[at]) && library(l) != "weft");
    same.copied().or((at > 0).then_some(labels[0]))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_compared_with_its_own_library_on_weft_or_with_the_first() {
        let mpi = ["mpich weft shm", "mpich shm", "openmpi weft shm", "openmpi sm"];
        let of = |labels: &[&'static str], at| compared_with(labels, at);
        assert_eq!([0, 2].map(|at| of(&mpi, at)), [None, None]);
        assert_eq!(of(&mpi, 1), Some("mpich weft shm"));
        assert_eq!(of(&mpi, 3), Some("openmpi weft shm"));
        let plain = ["weft ether", "tcp sockets", "weft ether udp"];
        assert_eq!(
            [0, 1, 2].map(|at| of(&plain, at)),
            [None, Some("weft ether"), Some("weft ether")]
        );
    }
}
