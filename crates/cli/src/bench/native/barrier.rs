//! `weft bench barrier`: barriers with work between them, as MCD's authors measured them, over any
//! algorithms and numbers of ranks.

use std::path::PathBuf;

use serde::Serialize;
use weft::collective::Algorithm;
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::group::{Group, GroupOptions, Way};
use weft_sys::clock::now_ns;

use super::{Common, Rank, failed, join};
use crate::CliError;
use crate::bench::figure::{Figure, Spread, Value, digits};
use crate::bench::samples::Samples;
use crate::output::{Table, json_line};
use crate::plot::{self, Curve, Panel, What};

/// Arguments of `weft bench barrier`.
#[derive(clap::Args, Debug)]
pub struct BarrierArgs {
    #[command(flatten)]
    common: Common,
    /// Ways, with commas: auto, shm, dissemination[WAYS], treeK[-2net], nomialK,
    /// concurrent[-2net], sequencer; hierarchical, alone or, as hierarchical-tree4, with the
    /// algorithm between nodes; or all of the usual ones, with -2net where two wires lead to each
    /// node
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

/// What one rank has measured.
#[derive(Clone, Debug, Default, PartialEq)]
struct Took {
    /// Of a barrier, us: shortest, half, 99 of 100, mean.
    spread: Spread,
    /// The longest, us.
    max: f64,
    /// Of the last block: when each barrier was left, ns of the monotonic clock.
    left_ns: Vec<u64>,
    /// Which boot of which kernel that clock is of.
    clock: u64,
}

/// One measured point, as JSON has it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    #[serde(flatten)]
    pub(super) figure: Figure,
    /// Of each rank its shortest and its longest barrier, the means over ranks, as MCD's authors
    /// give them and `weft sim barrier`.
    rank_min_us: f64,
    rank_max_us: f64,
    /// The least and the greatest of the ranks' means.
    least_mean_us: f64,
    greatest_mean_us: f64,
    /// From the first rank that leaves to the last, the mean; where all share a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_skew_us: Option<f64>,
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
    samples: Samples,
    took: Took,
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
        let (samples, took) = (Samples::new(), Took::default());
        contests.push(Contest { way, group, blocks, samples, took });
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
        let Contest { group, blocks, samples, took, .. } = self;
        for _ in *blocks * round / ROUNDS..*blocks * (round + 1) / ROUNDS {
            took.left_ns.clear();
            block(group, plan, steps, |ns, count, now| {
                samples.record(ns, u64::from(count));
                took.left_ns.push(now);
            })?;
        }
        Ok(())
    }

    /// What came of it, at rank 0.
    fn point(mut self, plan: &Block, device: &str) -> Result<Option<Point>, Error> {
        self.took.spread = self.samples.spread();
        self.took.max = self.samples.max_us();
        self.took.clock = clock();
        let endpoint = self.group.endpoint();
        if self.group.rank() != 0 {
            endpoint.send(0, TAG, &encode(&self.took))?;
            return Ok(None);
        }
        let mut all = vec![self.took];
        for rank in 1..plan.size {
            let mut bytes = vec![0; 8 * (WORDS + plan.count as usize)];
            let status = endpoint.recv(rank, TAG, &mut bytes)?;
            all.push(decode(&bytes[..status.len.min(bytes.len())]));
        }
        Ok(Some(point(self.way, plan, device, &all)))
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

/// Names the clock, so that only times of one clock are compared.
fn clock() -> u64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.bytes()
        .filter_map(|b| char::from(b).to_digit(16))
        .fold(0, |h: u64, d| h.wrapping_mul(31).wrapping_add(u64::from(d)))
}

/// What a rank says before the times at which it left.
const WORDS: usize = 6;

fn encode(took: &Took) -> Vec<u8> {
    let Spread { min, p50, p99, mean } = took.spread;
    let words: [u64; WORDS - 1] = [min, p50, p99, mean, took.max].map(f64::to_bits);
    let words = words.iter().chain([&took.clock]).chain(&took.left_ns);
    words.flat_map(|word| word.to_le_bytes()).collect()
}

fn decode(bytes: &[u8]) -> Took {
    let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let mut next = || words.next().unwrap_or(0);
    let [min, p50, p99, mean, max] = std::array::from_fn(|_| f64::from_bits(next()));
    let clock = next();
    Took { spread: Spread { min, p50, p99, mean }, max, clock, left_ns: words.collect() }
}

fn point(way: Way, plan: &Block, device: &str, all: &[Took]) -> Point {
    let mean = |of: fn(&Took) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    let spread = Spread {
        min: all.iter().map(|took| took.spread.min).fold(f64::INFINITY, f64::min),
        p50: mean(|took| took.spread.p50),
        p99: mean(|took| took.spread.p99),
        mean: mean(|took| took.spread.mean),
    };
    let means = || all.iter().map(|took| took.spread.mean);
    let name = way.to_string();
    Point {
        figure: Figure {
            bench: "barrier".into(),
            device: device.into(),
            ranks: plan.size,
            bytes: 0,
            mode: (way != Way::Auto).then_some(name),
            value: Value::TimeUs(spread),
            cpu_s_per_gb: None,
        },
        rank_min_us: mean(|took| took.spread.min),
        rank_max_us: mean(|took| took.max),
        least_mean_us: means().fold(f64::INFINITY, f64::min),
        greatest_mean_us: means().fold(0.0, f64::max),
        exit_skew_us: skew_us(all),
    }
}

/// The mean time from the first rank that leaves a barrier to the last.
fn skew_us(all: &[Took]) -> Option<f64> {
    let first = all.first()?;
    if all.iter().any(|took| took.clock != first.clock) {
        return None;
    }
    let count = all.iter().map(|took| took.left_ns.len()).min().filter(|count| *count > 0)?;
    let skew = |at: usize| {
        let times = || all.iter().map(|took| took.left_ns[at]);
        (times().max().unwrap_or(0) - times().min().unwrap_or(0)) as f64 / 1000.0
    };
    Some((0..count).map(skew).sum::<f64>() / count as f64)
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
        let skew = point.exit_skew_us.map_or("-".into(), digits);
        let best = best_fixed(points, point.figure.ranks);
        let ratio = best.map_or("-".into(), |best| digits(s.mean / best));
        let of_ranks = [point.rank_min_us, point.rank_max_us];
        let means = [point.least_mean_us, point.greatest_mean_us];
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
    plot::svg(path, &[Panel { title, what: What::Barrier, curves }]).map_err(CliError::Bench)?;
    eprintln!("weft: plot in {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(mean: f64, left_ns: &[u64], clock: u64) -> Took {
        let spread = Spread { min: 1.0, p50: 2.0, p99: 3.0, mean };
        Took { spread, max: 2.0 * mean, left_ns: left_ns.to_vec(), clock }
    }

    #[test]
    fn what_a_rank_says_is_understood_and_cut_words_are_zeros() {
        let said = took(2.5, &[10, 20, 30], 7);
        assert_eq!(decode(&encode(&said)), said);
        assert_eq!(decode(&encode(&said)[..20]).clock, 0);
    }

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
    fn skew_is_the_mean_over_barriers_and_only_of_one_clock() {
        let all = [took(1.0, &[1000, 5000], 7), took(3.0, &[3000, 9000], 7)];
        assert_eq!(skew_us(&all), Some(3.0));
        assert_eq!(skew_us(&[all[0].clone(), took(1.0, &[1, 2], 8)]), None);
        let plan = Block { size: 2, work_ns: 0, count: 2 };
        let point = point(Way::ByNode(None), &plan, "shm", &all);
        assert_eq!((point.rank_min_us, point.mean_us(), point.rank_max_us), (1.0, 2.0, 4.0));
        assert_eq!((point.least_mean_us, point.greatest_mean_us), (1.0, 3.0));
        let text = serde_json::to_string(&point).unwrap();
        assert!(text.contains("\"rank_max_us\":4.0") && text.contains("\"least_mean_us\":1.0"));
        let read: Figure = serde_json::from_str(&text).unwrap();
        assert_eq!(read, point.figure, "it reads as a plain figure, too");
    }
}
