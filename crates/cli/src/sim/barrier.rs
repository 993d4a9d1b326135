//! `weft sim barrier`: the shipped schedules, under the LogP model.

use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use weft::collective::{Algorithm, LogP};
use weft::group::{Way, WayError};
use weft_sim::barrier::{self, BOARD_US, BarrierError, Options, Report};

use crate::CliError;
use crate::output::{Table, json_line, progress_wanted};
use crate::plot::{self, Curve, Panel, Picture, What};

/// The most points of a curve below the largest number of ranks: its powers of two.
const POINTS_MAX: u32 = 24;

/// Arguments of `weft sim barrier`.
#[derive(clap::Args, Debug)]
pub struct BarrierArgs {
    /// Ranks, 1 to 16777216; with --svg, the largest number
    #[arg(long, visible_alias = "ranks", value_name = "N")]
    nodes: u32,
    /// dissemination[WAYS], treeK, nomialK, concurrent, sequencer: with -2net over two links; any
    /// way of real groups, as hierarchical-tree4 or shm; or all
    #[arg(long, default_value = "all", value_name = "A")]
    algorithm: String,
    /// Ranks of a node, for ways by node: they share its links. To an algorithm over all, each
    /// rank is on a node of its own
    #[arg(long, default_value_t = 1, value_name = "K")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    per_node: u32,
    /// What a node's board takes from an arrival, or its being opened, to the others seeing it, us
    #[arg(long, default_value_t = BOARD_US, value_name = "US")]
    board: f64,
    /// Microseconds to send, on the way, to receive, and between two frames of a link
    #[arg(long, default_value = "3,17.5,9.5,9", value_name = "o_s,L,o_r,g")]
    logp: LogP,
    /// Links of each rank, 1 or 2: with 2, trees and concurrent spread over both
    #[arg(long, default_value_t = 1, value_name = "K")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=2))]
    links: u8,
    /// A frame takes up to this much longer, us
    #[arg(long, default_value_t = 0.0, value_name = "US")]
    jitter: f64,
    /// One shared half-duplex wire of 100 Mb/s, with collisions, instead of a switch: for at most
    /// 1024 ranks, more stations than that no Ethernet may have
    #[arg(long)]
    hub: bool,
    /// Frames lost, percent
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    loss: f64,
    /// Work between two barriers, us
    #[arg(long, default_value_t = 30.0, value_name = "US")]
    work: f64,
    /// Barriers one after the other; by default 100, and 1 above 100000 ranks
    #[arg(long, value_name = "COUNT")]
    repeats: Option<u32>,
    /// How long a rank waits before it asks for what it misses, us
    #[arg(long, default_value_t = 10_000.0, value_name = "US")]
    patience: f64,
    /// Of jitter, loss and collisions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object for each algorithm and number of ranks
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Comma-separated values with a heading
    #[arg(long)]
    csv: bool,
    /// Draws each algorithm against the number of ranks, from 2 to --nodes
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Serialize)]
struct Times {
    min: f64,
    p50: f64,
    p99: f64,
    mean: f64,
}

#[derive(Serialize)]
struct Line {
    bench: &'static str,
    device: &'static str,
    algorithm: String,
    ranks: u32,
    /// Ranks that share a node's links, and how many nodes there are.
    per_node: u32,
    nodes: u32,
    /// What the nodes go by, where there are several.
    among: Option<String>,
    board_us: f64,
    bytes: u64,
    time_us: Times,
    rank_min_us: f64,
    rank_max_us: f64,
    exit_skew_us: f64,
    span_us: f64,
    model_us: f64,
    frames: u64,
    repairs: u64,
    collisions: u64,
}

/// One simulated point.
struct Point {
    options: Options,
    report: Report,
}

impl Point {
    fn among(&self) -> Option<String> {
        (self.options.stations() > 1).then(|| self.options.algorithm().to_string())
    }
}

/// Simulates and prints.
///
/// # Errors
/// [`CliError::Usage`] for options that make no sense; a rank that is stuck or early.
pub fn run(args: &BarrierArgs) -> Result<ExitCode, CliError> {
    if !(0.0..=100.0).contains(&args.loss) {
        return Err(CliError::Usage(format!("--loss {}: it is a percentage, 0 to 100", args.loss)));
    }
    let ways = ways(args)?;
    let sizes = sizes(args);
    let bar = progress((ways.len() * sizes.len()) as u64);
    let mut points = Vec::new();
    for &way in &ways {
        for &ranks in &sizes {
            bar.set_message(format!("{way} with {ranks}"));
            let options = options(args, way, ranks);
            let report = barrier::run(&options).map_err(|e| match e {
                BarrierError::Options(why) => CliError::Usage(why),
                other => CliError::Bench(format!("{way} with {ranks} ranks: {other}")),
            })?;
            points.push(Point { options, report });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    print(args, &points);
    if let Some(path) = &args.svg {
        plot::svg(path, &[Picture::Curves(panel(args, &ways, &points))])
            .map_err(CliError::Bench)?;
        eprintln!("weft: wrote {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn ways(args: &BarrierArgs) -> Result<Vec<Way>, CliError> {
    if args.algorithm == "all" {
        let fits = Algorithm::USUAL.into_iter().filter(|a| a.links() <= args.links);
        let by_node = fits.clone().filter(|_| args.per_node > 1);
        return Ok(fits.map(Way::Flat).chain(by_node.map(|a| Way::ByNode(Some(a)))).collect());
    }
    let way: Way = args.algorithm.parse().map_err(|e: WayError| CliError::Usage(e.to_string()))?;
    // Dissemination and the sequencer make no use of a second link.
    match format!("{way}-2net").parse() {
        Ok(both) if args.links == 2 => Ok(vec![both]),
        _ => Ok(vec![way]),
    }
}

fn sizes(args: &BarrierArgs) -> Vec<u32> {
    if args.svg.is_none() {
        return vec![args.nodes];
    }
    let mut sizes: Vec<u32> = (1..=POINTS_MAX).map(|k| 1 << k).collect();
    sizes.retain(|&n| n < args.nodes);
    sizes.push(args.nodes);
    sizes
}

fn options(args: &BarrierArgs, way: Way, ranks: u32) -> Options {
    let usual = if ranks > 100_000 { 1 } else { 100 };
    Options {
        per_node: args.per_node,
        board_us: args.board,
        jitter_us: args.jitter,
        hub: args.hub,
        loss: (args.loss * 10_000.0) as u32,
        work_us: args.work,
        repeats: args.repeats.unwrap_or(usual),
        patience_us: args.patience,
        seed: args.seed,
        ..Options::new(way, ranks, args.logp)
    }
}

fn print(args: &BarrierArgs, points: &[Point]) {
    if args.json {
        points.iter().for_each(|point| json_line(&line(point)));
        return;
    }
    let columns = [
        "algorithm",
        "ranks",
        "mean us",
        "rank min",
        "rank max",
        "exit skew",
        "model us",
        "frames",
        "repairs",
        "collisions",
        "per node",
        "among",
    ];
    let rows = points.iter().map(|point| {
        let (Point { options, report: r }, us) = (point, |v: f64| format!("{v:.1}"));
        vec![
            options.way.to_string(),
            options.ranks.to_string(),
            us(r.mean_us),
            us(r.min_us),
            us(r.max_us),
            us(r.skew_us),
            us(options.model_us()),
            r.frames.to_string(),
            r.repairs.to_string(),
            r.collisions.to_string(),
            options.per_station().to_string(),
            point.among().unwrap_or_else(|| "-".into()),
        ]
    });
    if args.csv {
        println!("{}", columns.join(",").replace(' ', "_"));
        rows.for_each(|row| println!("{}", row.join(",")));
        return;
    }
    let mut table = Table::new(columns);
    rows.for_each(|row| table.row(row));
    table.print();
}

fn line(point: &Point) -> Line {
    let Point { options, report: r } = point;
    Line {
        bench: "sim-barrier",
        device: "sim",
        algorithm: options.way.to_string(),
        ranks: options.ranks,
        per_node: options.per_station(),
        nodes: options.stations(),
        among: point.among(),
        board_us: options.board_us,
        bytes: 0,
        time_us: Times { min: r.least_us, p50: r.p50_us, p99: r.p99_us, mean: r.mean_us },
        rank_min_us: r.min_us,
        rank_max_us: r.max_us,
        exit_skew_us: r.skew_us,
        span_us: r.span_us,
        model_us: options.model_us(),
        frames: r.frames,
        repairs: r.repairs,
        collisions: r.collisions,
    }
}

fn panel(args: &BarrierArgs, ways: &[Way], points: &[Point]) -> Panel {
    let LogP { o_s, l, o_r, g } = args.logp;
    let wire = if args.hub { "one wire" } else { "a switch" };
    let nodes = match args.per_node {
        1 => String::new(),
        ranks => format!("; by node {ranks} ranks, board {} us", args.board),
    };
    let curves = ways.iter().map(|way| Curve {
        label: way.to_string(),
        bold: matches!(way, Way::ByNode(_)),
        points: points
            .iter()
            .filter(|p| p.options.way == *way)
            .map(|p| (u64::from(p.options.ranks), p.report.mean_us.max(0.001)))
            .collect(),
    });
    Panel {
        title: format!("Barrier over {wire}: o_s {o_s}, L {l}, o_r {o_r}, g {g} us{nodes}"),
        what: What::Barrier,
        curves: curves.collect(),
    }
}

fn progress(count: u64) -> ProgressBar {
    if count < 2 || !progress_wanted() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}");
    ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
