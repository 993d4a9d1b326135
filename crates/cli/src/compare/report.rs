//! The figures of a comparison as tables and as JSON lines.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::contender::{Contender, Means, Reach};
use super::shown::Shown;
use super::targets::{Bound, Target, Verdict};
use crate::bench::figure::{Figure, digits, size_text};
use crate::mpi::Install;
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
pub fn json(contenders: &[Contender], figures: &[Figure], targets: &[Target]) {
    for figure in figures {
        let by = contenders.iter().find(|c| c.label == figure.device).and_then(mpi_of);
        let (mpi, mpiexec) = by.map(|by| (by.title(), by.mpiexec.display().to_string())).unzip();
        json_line(&Measured { figure, mpi, mpiexec });
    }
    for target in targets {
        if let Some(verdict) = target.judge(figures) {
            json_line(&Line { name: target.name, verdict });
        }
    }
}

/// A figure as JSON has it: with the MPI library that was measured, if one was.
#[derive(Serialize)]
struct Measured<'a> {
    #[serde(flatten)]
    figure: &'a Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    mpi: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mpiexec: Option<String>,
}

/// The MPI library that a contender is.
fn mpi_of(contender: &Contender) -> Option<&Install> {
    match &contender.means {
        Means::Mpi(run) => Some(&run.install),
        _ => None,
    }
}

/// A target as JSON has it.
struct Line<'a> {
    name: &'a str,
    verdict: Verdict<'a>,
}

impl Serialize for Line<'_> {
    /// Names of fields have the units of what is judged.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Line { name, verdict } = self;
        let Verdict { ours, base, bound, found, reached } = verdict;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("bench", "target")?;
        map.serialize_entry("target", name)?;
        map.serialize_entry("of", &ours.bench)?;
        map.serialize_entry("device", &ours.device)?;
        map.serialize_entry("ranks", &ours.ranks)?;
        map.serialize_entry("bytes", &ours.bytes)?;
        if let Some(mode) = &ours.mode {
            map.serialize_entry("mode", mode)?;
        }
        let (value, unit) = judged(*bound, ours);
        map.serialize_entry(&format!("value_{unit}"), &value)?;
        if let Some(base) = base {
            let (value, unit) = judged(*bound, base);
            map.serialize_entry("against", &base.device)?;
            map.serialize_entry("against_ranks", &base.ranks)?;
            map.serialize_entry(&format!("against_{unit}"), &value)?;
        }
        let (limit, lower) = bound.limit();
        match bound {
            Bound::AtMost(_) | Bound::AtLeast(_) | Bound::CpuAtMost(_) => {
                map.serialize_entry("ratio", found)?;
                map.serialize_entry("limit", &limit)?;
            }
            Bound::OneWayNs(_) => {
                map.serialize_entry("difference_ns", found)?;
                map.serialize_entry("limit_ns", &limit)?;
            }
            Bound::Alone(_) => map.serialize_entry(&format!("limit_{unit}"), &limit)?,
        }
        map.serialize_entry("bound", if lower { "at_least" } else { "at_most" })?;
        map.serialize_entry("reached", reached)?;
        map.end()
    }
}

/// The number of a figure that is judged, and its unit.
fn judged(bound: Bound, figure: &Figure) -> (f64, &'static str) {
    match bound {
        Bound::CpuAtMost(_) => (figure.cpu_s_per_gb.unwrap_or(0.0), "cpu_s_per_gb"),
        _ => (figure.value.number(), figure.value.unit()),
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
pub fn tables(contenders: &[Contender], figures: &[Figure], targets: &[Target]) -> Shown {
    let mut shown = Shown::default();
    let mut mpis: Vec<&Install> = Vec::new();
    for mpi in contenders.iter().filter_map(mpi_of) {
        if !mpis.contains(&mpi) {
            mpis.push(mpi);
        }
    }
    for mpi in mpis {
        shown.words(format!("{}: {}", mpi.brand.name(), mpi.title_and_place()));
    }
    shown
        .words("ratio: Weft's figure divided by the one to its left (of times, below 1 is faster)");
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
                let title = format!("{title}, {}", reach.title());
                shown.table(title, side_by_side(bench, &labels, figures));
            }
        }
    }
    let has_table =
        |f: &&Figure| TABLES.iter().any(|(bench, _)| f.bench == *bench) && f.mode.is_none();
    let rest: Vec<&Figure> = figures.iter().filter(|f| !has_table(f)).collect();
    if !rest.is_empty() {
        let mut table = Table::new(["what", "ranks", "bytes", "figure", "cpu"]);
        for f in rest {
            let cpu = f.cpu_s_per_gb.map_or(String::new(), |c| format!("{} s/GB", digits(c)));
            let (ranks, bytes) = (f.ranks.to_string(), size_text(f.bytes));
            table.row([what(f), ranks, bytes, f.value.text(), cpu]);
        }
        shown.table("floors, and what else was measured", table);
    }
    verdicts(&mut shown, figures, targets);
    shown
}

/// What a figure that stands in no table of its own is.
fn what(figure: &Figure) -> String {
    let Figure { bench, device, mode, .. } = figure;
    let of = match (bench.as_str(), mode.as_deref()) {
        ("floor", _) => return device.clone(),
        ("rate", None) => "messages one way",
        ("ring", None) => "token once round all ranks",
        ("idle", None) => "processor time of a rank that waits",
        ("bw", Some("weft-memory")) => "windows of 32 messages, Weft's memory",
        ("bcast", Some("root frames")) => "frames of the root for a broadcast",
        ("bcast", Some("root bytes")) => "bytes of the root on the wire for a broadcast",
        ("bcast", Some("repeated")) => "a message to each instead of a broadcast",
        ("bcast", Some("repeated root frames")) => "frames of the root for a message to each",
        ("bcast", Some("repeated root bytes")) => {
            "bytes of the root on the wire for a message to each"
        }
        ("group", Some("frames")) => "frames of all for an ordered message",
        ("group", Some("wire bytes")) => "bytes of all on the wire for an ordered message",
        (bench, None) => bench,
        (bench, Some(mode)) => return format!("{device}: {bench}, {mode}"),
    };
    format!("{device}: {of}")
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

/// How the targets stand whose figures there are.
pub fn verdicts(shown: &mut Shown, figures: &[Figure], targets: &[Target]) {
    let mut table = Table::new(["target", "weft", "against", "ratio", "wanted", ""]);
    let mut any = false;
    for target in targets {
        let Some(verdict) = target.judge(figures) else { continue };
        table.row(words(target.name, &verdict));
        any = true;
    }
    if any {
        shown.table("targets", table);
    }
}

/// A target for people.
fn words(name: &str, verdict: &Verdict<'_>) -> [String; 6] {
    let Verdict { ours, base, bound, found, reached } = *verdict;
    let text = |figure: &Figure| match (bound, figure.cpu_s_per_gb) {
        (Bound::CpuAtMost(_), Some(cpu)) => format!("{} s/GB", digits(cpu)),
        _ => figure.value.text(),
    };
    let (ratio, wanted) = match bound {
        Bound::AtLeast(limit) => (format!("{} x", digits(found)), format!(">= {limit} x")),
        Bound::AtMost(limit) | Bound::CpuAtMost(limit) => {
            (format!("{} x", digits(found)), format!("<= {limit} x"))
        }
        Bound::OneWayNs(limit) => (format!("{found:+.1} ns"), format!("<= +{limit} ns")),
        Bound::Alone(limit) => (text(ours), format!("<= {limit} %")),
    };
    let against = base.map_or(String::new(), |b| format!("{} ({})", text(b), b.device));
    let reached = if reached { "reached" } else { "MISSED" };
    [name.into(), text(ours), against, ratio, wanted, reached.into()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::targets::{key, target};
    use super::*;
    use crate::bench::figure::{Spread, Value};

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

    #[test]
    fn a_target_is_a_line_of_numbers_with_units() {
        let figure = |bench: &str, device: &str, value, cpu| Figure {
            bench: bench.into(),
            device: device.into(),
            ranks: 2,
            bytes: 8,
            mode: None,
            value,
            cpu_s_per_gb: cpu,
            mpi_us: None,
            share: None,
        };
        let rtt = |p50| Value::RttUs(Spread { p50, ..Spread::default() });
        let all = [
            figure("lat", "weft", rtt(3.0), None),
            figure("lat", "tcp", rtt(4.0), None),
            figure("bw", "weft", Value::BandwidthMbS(200.0), Some(0.5)),
            figure("bw", "tcp", Value::BandwidthMbS(100.0), Some(1.0)),
            figure("idle", "weft", Value::CpuPercent(3.0), None),
        ];
        let line = |bench, bound| {
            let (ours, base) = (key(bench, "weft", 8), key(bench, "tcp", 8));
            let base = if bench == "idle" { ours.clone() } else { base };
            let verdict = target("a name", ours, bound, base).judge(&all).unwrap();
            serde_json::to_value(Line { name: "a name", verdict }).unwrap()
        };
        let common = |of: &str| {
            json!({ "bench": "target", "target": "a name", "of": of, "device": "weft", "ranks": 2,
                    "bytes": 8 })
        };
        for (of, bound, more) in [
            (
                "lat",
                Bound::AtMost(0.5),
                json!({ "value_us": 3.0, "against": "tcp", "against_ranks": 2, "against_us": 4.0,
                        "ratio": 0.75, "limit": 0.5, "bound": "at_most", "reached": false }),
            ),
            (
                "lat",
                Bound::OneWayNs(10.0),
                json!({ "value_us": 3.0, "against": "tcp", "against_ranks": 2, "against_us": 4.0,
                        "difference_ns": -500.0, "limit_ns": 10.0, "bound": "at_most",
                        "reached": true }),
            ),
            (
                "bw",
                Bound::AtLeast(1.8),
                json!({ "value_mb_s": 200.0, "against": "tcp", "against_ranks": 2,
                        "against_mb_s": 100.0, "ratio": 2.0, "limit": 1.8, "bound": "at_least",
                        "reached": true }),
            ),
            (
                "bw",
                Bound::CpuAtMost(1.0),
                json!({ "value_cpu_s_per_gb": 0.5, "against": "tcp", "against_ranks": 2,
                        "against_cpu_s_per_gb": 1.0, "ratio": 0.5, "limit": 1.0,
                        "bound": "at_most", "reached": true }),
            ),
            (
                "idle",
                Bound::Alone(2.0),
                json!({ "value_percent": 3.0, "limit_percent": 2.0, "bound": "at_most",
                        "reached": false }),
            ),
        ] {
            let mut wanted = common(of);
            wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(line(of, bound), wanted);
        }
    }
}
