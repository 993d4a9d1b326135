//! `weft bench barrier`: barriers with work between them, as MCD's authors measured them, over any
//! algorithms and numbers of ranks.

use std::path::PathBuf;

use serde::Serialize;
use weft::collective::Algorithm;
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::group::{Group, GroupOptions, Way};
use weft_sys::clock::now_ns;

use super::ranks::{self, Ranks, Times, Took};
use super::{Common, Rank, failed, join};
use crate::CliError;
use crate::bench::figure::{Figure, Value, digits};
use crate::output::{Table, json_line};
use crate::plot::{self, Curve, Panel, Picture, What};

/// Arguments of `weft bench barrier`.
#[derive(clap::Args, Debug)]
pub struct BarrierArgs {
    #[command(flatten)]
    common: Common,
    /// Ways, with commas: auto, shm, dissemination[WAYS], treeK[-2net], nomialK,
    /// concurrent[-2net], sequencer; hierarchical, alone or, as hierarchical-tree4, with the
    /// algorithm between nodes; or all: auto, hierarchical, dissemination to dissemination3, tree2
    /// to tree4, nomial3, nomial4, concurrent, sequencer, and, where two wires lead to each node,
    /// tree3-2net and concurrent-2net
    #[arg(long, default_value = "auto", value_delimiter = ',', value_name = "A")]
    algorithm: Vec<String>,
    /// Numbers of ranks, the first ones of the job; by default all of them, with --svg 2, 3, 4, 6,
    /// 8, ...
    #[arg(long, value_delimiter = ',', value_name = "N")]
    ranks: Vec<u32>,
    /// Work between two barriers, us
    #[arg(long, default_value_t = 30.0, value_name = "US")]
    work: f64,
    /// Barriers of a block; blocks are repeated until the time is over
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    repeats: u32,
    /// Draws each way against the number of ranks
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Before anything is measured, ns: many ranks on few processors take 0.1 s to find their pace.
const WARM_NS: u64 = 150_000_000;
/// All ways are measured in turn, so often: what else the cores have to do changes.
const ROUNDS: u64 = 8;
/// Barriers without work between them are timed so many at a time.
const BATCH: u32 = 10;
const TAG: u64 = 77;
/// The name for the usual ways.
const ALL: &str = "all";

/// One measured point, as JSON has it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    #[serde(flatten)]
    pub(super) figure: Figure,
    #[serde(flatten)]
    ranks: Ranks,
}

impl Point {
    /// The mean of all ranks, us.
    pub(super) fn mean_us(&self) -> f64 {
        match self.figure.value {
            Value::TimeUs(spread) => spread.mean,
            other => other.number(),
        }
    }
}

/// Measures, and writes on rank 0.
///
/// # Errors
/// When the job or a peer fails; [`CliError::Usage`] for options that make no sense.
pub fn run(args: &BarrierArgs) -> Result<(), CliError> {
    // What makes no sense is said before anything is opened.
    ways(&args.algorithm, 1)?;
    let Rank { context, device, common, _job } = join(&args.common)?;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    let wires = match args.algorithm.iter().any(|name| name == ALL) {
        true => wires(&endpoint).map_err(failed)?,
        false => 1,
    };
    let ways = ways(&args.algorithm, wires)?;
    let sizes = sizes(args, endpoint.size())?;
    let mut points = Vec::new();
    for &size in &sizes {
        let plan = Block { size, work_ns: (args.work * 1000.0) as u64, count: args.repeats };
        let measured = measure(&endpoint, &ways, &plan, common.ms, device).map_err(failed)?;
        if common.json {
            measured.iter().for_each(json_line);
        }
        points.extend(measured);
    }
    if endpoint.rank() != 0 {
        return Ok(());
    }
    if !common.json {
        table(&points).print();
    }
    match &args.svg {
        None => Ok(()),
        Some(path) => draw(path, &points),
    }
}

/// Over how many wires the nodes of the job reach each other, 1 or 2 (and more): rank 0 finds out,
/// and tells the others.
pub(super) fn wires(endpoint: &Endpoint) -> Result<u8, Error> {
    let mut word = [1];
    if endpoint.rank() != 0 {
        endpoint.send(0, TAG, &word)?;
        endpoint.recv(0, TAG, &mut word)?;
        return Ok(word[0]);
    }
    let others = || 1..endpoint.size();
    for rank in others() {
        endpoint.recv(rank, TAG, &mut word)?;
    }
    let least = || others().map(|rank| endpoint.wires(rank)).filter(|&wires| wires > 0).min();
    // A connection begins with one wire, and looks for the others.
    let until = now_ns() + WARM_NS;
    while least() == Some(1) && now_ns() < until {
        endpoint.progress();
        std::thread::yield_now();
    }
    word = [if least() > Some(1) { 2 } else { 1 }];
    for rank in others() {
        endpoint.send(rank, TAG, &word)?;
    }
    Ok(word[0])
}

/// Reads the names of ways; of all the usual ones those that want no more wires. Each comes once.
fn ways(names: &[String], wires: u8) -> Result<Vec<Way>, CliError> {
    let mut all: Vec<Way> = Vec::new();
    for name in names {
        let named = if name == ALL {
            let usual = Algorithm::USUAL.into_iter().filter(|a| a.links() <= wires);
            [Way::Auto, Way::ByNode(None)].into_iter().chain(usual.map(Way::Flat)).collect()
        } else {
            vec![name.parse::<Way>().map_err(|e| CliError::Usage(e.to_string()))?]
        };
        // One that was named twice is measured once.
        for way in named {
            if !all.contains(&way) {
                all.push(way);
            }
        }
    }
    Ok(all)
}

fn sizes(args: &BarrierArgs, most: u32) -> Result<Vec<u32>, CliError> {
    if let Some(wrong) = args.ranks.iter().find(|&&n| !(2..=most).contains(&n)) {
        let why = format!("--ranks {wrong}: the job has {most}, and a barrier wants 2");
        return Err(CliError::Usage(why));
    }
    if !args.ranks.is_empty() {
        return Ok(args.ranks.clone());
    }
    if args.svg.is_none() {
        return Ok(vec![most]);
    }
    let steps = (1..16).flat_map(|k| [2u32 << (k - 1), 3 << (k - 1)]);
    let mut all: Vec<u32> = steps.filter(|&n| n < most).chain([most]).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// What is repeated.
pub(super) struct Block {
    /// The first so many ranks of the job take part.
    pub(super) size: u32,
    pub(super) work_ns: u64,
    pub(super) count: u32,
}

/// A way that is measured.
struct Contest<'e> {
    way: Way,
    group: Group<'e>,
    /// Blocks in all rounds together.
    blocks: u64,
    times: Times,
}

/// Measures ways in alternating rounds; the points are given to rank 0.
pub(super) fn measure(
    endpoint: &Endpoint,
    ways: &[Way],
    plan: &Block,
    ms: u64,
    device: &str,
) -> Result<Vec<Point>, Error> {
    if endpoint.rank() >= plan.size {
        return Ok(Vec::new());
    }
    let ranks: Vec<u32> = (0..plan.size).collect();
    let steps = steps_of(plan.work_ns);
    let mut contests = Vec::new();
    for &way in ways {
        let options = GroupOptions { way, ..GroupOptions::from_env()? };
        let group = Group::new(endpoint, &ranks, &options)?;
        let blocks = agree(&group, plan, steps, ms)?;
        contests.push(Contest { way, group, blocks, times: Times::default() });
    }
    for round in 0..ROUNDS {
        for contest in &mut contests {
            contest.go(plan, steps, round)?;
        }
    }
    contests.into_iter().filter_map(|c| c.point(plan, device).transpose()).collect()
}

impl Contest<'_> {
    /// This round's share of the blocks.
    fn go(&mut self, plan: &Block, steps: u64, round: u64) -> Result<(), Error> {
        let Contest { group, blocks, times, .. } = self;
        for _ in *blocks * round / ROUNDS..*blocks * (round + 1) / ROUNDS {
            times.begin();
            block(group, plan, steps, |ns, count, now| times.record(ns, count, now))?;
        }
        // Who is through waits politely: what it does next would else take the core from those who
        // still have to leave the last barrier, where ranks share cores.
        group.barrier()
    }

    /// What came of it, at rank 0.
    fn point(self, plan: &Block, device: &str) -> Result<Option<Point>, Error> {
        let all = self.times.collect(self.group.endpoint(), plan.size)?;
        Ok(all.map(|all| point(self.way, plan, device, &all)))
    }
}

/// Warms up, and agrees on the number of blocks.
fn agree(group: &Group<'_>, plan: &Block, steps: u64, ms: u64) -> Result<u64, Error> {
    let endpoint = group.endpoint();
    let warm_at = now_ns() + WARM_NS;
    loop {
        let started = now_ns();
        block(group, plan, steps, |_, _, _| {})?;
        let ended = now_ns();
        // Rank 0 says: 0 for more, else the number of blocks.
        let mut word = [0; 8];
        if group.rank() == 0 {
            if ended >= warm_at && group.is_settled() {
                let fit = ms * 1_000_000 / (ended - started).max(1);
                word = fit.clamp(1, 100_000).to_le_bytes();
            }
            for rank in 1..plan.size {
                endpoint.send(rank, TAG, &word)?;
            }
        } else {
            endpoint.recv(0, TAG, &mut word)?;
        }
        match u64::from_le_bytes(word) {
            0 => {}
            blocks => return Ok(blocks),
        }
    }
}

/// Goes through a block of barriers with `steps` of work between them; `each` is told how long so
/// many took, and when they ended.
fn block(
    group: &Group<'_>,
    plan: &Block,
    steps: u64,
    mut each: impl FnMut(u64, u32, u64),
) -> Result<(), Error> {
    group.barrier()?;
    let mut before = now_ns();
    let mut left = plan.count;
    while left > 0 {
        let batch = if steps > 0 { 1 } else { BATCH.min(left) };
        if steps > 0 {
            work(steps);
            before = now_ns();
        }
        for _ in 0..batch {
            group.barrier()?;
        }
        let now = now_ns();
        each(now - before, batch, now);
        before = now;
        left -= batch;
    }
    Ok(())
}

/// Computes for so many steps. Not until so much time has gone by: ranks that share a processor
/// would then work at the same time.
fn work(steps: u64) {
    let mut x = 0u64;
    for step in 0..steps {
        x = std::hint::black_box(x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(step));
    }
}

/// How many steps of [`work`] take this long.
fn steps_of(work_ns: u64) -> u64 {
    const PROBE: u64 = 2_000;
    const TRIES: usize = 20;
    if work_ns == 0 {
        return 0;
    }
    let probe = |_| {
        let started = now_ns();
        work(PROBE);
        now_ns() - started
    };
    // The shortest: the others were kept from the processor.
    let shortest_ns = (0..TRIES).map(probe).min().unwrap_or(1).max(1);
    work_ns * PROBE / shortest_ns
}

fn point(way: Way, plan: &Block, device: &str, all: &[Took]) -> Point {
    let name = way.to_string();
    Point {
        figure: Figure {
            bench: "barrier".into(),
            device: device.into(),
            ranks: plan.size,
            bytes: 0,
            mode: (way != Way::Auto).then_some(name),
            value: Value::TimeUs(ranks::spread(all)),
            cpu_s_per_gb: None,
            mpi_us: None,
            share: None,
        },
        ranks: Ranks::of(all),
    }
}

fn name(point: &Point) -> &str {
    point.figure.mode.as_deref().unwrap_or("auto")
}

/// The best fixed way with so many ranks, us.
fn best_fixed(points: &[Point], ranks: u32) -> Option<f64> {
    let fixed = points.iter().filter(|p| p.figure.ranks == ranks && p.figure.mode.is_some());
    fixed.map(Point::mean_us).min_by(f64::total_cmp)
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new([
        "way",
        "ranks",
        "mean us",
        "min",
        "p50",
        "p99",
        "rank min",
        "rank max",
        "least mean",
        "greatest mean",
        "exit skew",
        "/best",
    ]);
    for point in points {
        let Value::TimeUs(s) = point.figure.value else { continue };
        let ranks = &point.ranks;
        let skew = ranks.exit_skew_us.map_or("-".into(), digits);
        let best = best_fixed(points, point.figure.ranks);
        let ratio = best.map_or("-".into(), |best| digits(s.mean / best));
        let of_ranks = [ranks.rank_min_us, ranks.rank_max_us];
        let means = [ranks.least_mean_us, ranks.greatest_mean_us];
        let numbers = [s.mean, s.min, s.p50, s.p99].into_iter().chain(of_ranks).chain(means);
        let mut cells = vec![name(point).to_string(), point.figure.ranks.to_string()];
        cells.extend(numbers.map(digits));
        cells.extend([skew, ratio]);
        table.row(cells);
    }
    table
}

fn draw(path: &std::path::Path, points: &[Point]) -> Result<(), CliError> {
    let mut curves: Vec<Curve> = Vec::new();
    for point in points {
        let at = (u64::from(point.figure.ranks), point.mean_us());
        match curves.iter_mut().find(|curve| curve.label == name(point)) {
            Some(curve) => curve.points.push(at),
            None => {
                let label = name(point).to_string();
                curves.push(Curve { bold: label == "auto", label, points: vec![at] });
            }
        }
    }
    let device = points.first().map_or("", |p| &p.figure.device);
    let title = format!("{} ({device})", What::Barrier.title());
    let panel = Panel { title, what: What::Barrier, curves };
    plot::svg(path, &[Picture::Curves(panel)]).map_err(CliError::Bench)?;
    eprintln!("weft: plot in {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_is_named_twice_is_measured_once() {
        let of = |names: &[&str]| ways(&names.iter().map(|n| n.to_string()).collect::<Vec<_>>(), 1);
        let all = of(&["all"]).unwrap();
        assert_eq!(of(&["auto", "all", "auto"]).unwrap(), all);
        assert_eq!(of(&["hierarchical", "all"]).unwrap()[..2], [Way::ByNode(None), Way::Auto]);
        assert!(of(&["auto", "sideways"]).is_err());
    }

    #[test]
    fn of_all_ways_those_for_two_wires_are_left_out_where_there_is_one() {
        let names = |wires| {
            let all = ways(&[ALL.to_string()], wires).unwrap();
            all.iter().map(Way::to_string).collect::<Vec<_>>()
        };
        let two = ["tree3-2net".to_string(), "concurrent-2net".to_string()];
        assert!(two.iter().all(|name| names(2).contains(name) && !names(1).contains(name)));
        let chosen = ways(&["hierarchical-tree4".to_string()], 1).unwrap();
        assert_eq!(chosen[0].to_string(), "hierarchical-tree4");
        let error = ways(&["tree".to_string()], 1).unwrap_err().to_string();
        assert!(error.contains("nomial3") && error.contains("hierarchical-"), "{error}");
    }

    #[test]
    fn a_point_reads_as_a_plain_figure_too() {
        let plan = Block { size: 2, work_ns: 0, count: 2 };
        let point = point(Way::ByNode(None), &plan, "shm", &[Took::default(), Took::default()]);
        let text = serde_json::to_string(&point).unwrap();
        assert!(
            text.contains("\"rank_max_us\":0.0") && text.contains("\"each_rank\":[{"),
            "{text}"
        );
        let read: Figure = serde_json::from_str(&text).unwrap();
        assert_eq!(read, point.figure);
    }

    #[test]
    fn all_ways_are_those_that_have_a_name_of_their_own() {
        let all: Vec<String> =
            ways(&[ALL.to_string()], 2).unwrap().iter().map(Way::to_string).collect();
        assert_eq!(all[..2], ["auto", "hierarchical"]);
        for name in ["dissemination3", "nomial3", "nomial4", "sequencer"] {
            assert!(all.iter().any(|way| way == name), "no {name} in {all:?}");
        }
    }
}
