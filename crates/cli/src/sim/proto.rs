//! `weft sim proto`: seeds by the hundred, or one of them in detail.

use std::process::ExitCode;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use weft_sim::proto::{self, Canary, Fixed, Options, Outcome};

use crate::CliError;
use crate::output::{json_line, progress_wanted};

/// Arguments of `weft sim proto`.
#[derive(clap::Args, Debug)]
pub struct ProtoArgs {
    /// How many seeds to run
    #[arg(long, default_value_t = 100, conflicts_with = "seed")]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0, conflicts_with = "seed")]
    start: u64,
    /// Runs this seed alone
    #[arg(long)]
    seed: Option<u64>,
    /// Writes everything that happens in the run to standard error
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Machines, 2 to 256, instead of a number drawn from the seed
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=256))]
    nodes: Option<u32>,
    /// Loss in percent, 0 to 90, instead of one drawn from the seed
    #[arg(long, value_name = "PERCENT", value_parser = parse_loss)]
    loss: Option<u32>,
    /// Puts a defect in, which has to be found: the exit status is 1 when it is. One of twice,
    /// lose, damage, forget, misplace, hasty, spin
    #[arg(long, value_name = "WHICH", num_args = 0..=1, default_missing_value = "twice")]
    canary: Option<Canary>,
    /// Goes on after a seed has failed
    #[arg(long)]
    keep_going: bool,
    /// Seeds at a time, instead of one for each core
    #[arg(long)]
    threads: Option<usize>,
    /// One JSON object for each seed
    #[arg(long)]
    json: bool,
}

/// A share in percent, as millionths.
fn parse_loss(text: &str) -> Result<u32, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=90.0).contains(&percent) => Ok((percent * 10_000.0) as u32),
        _ => Err("give a loss in percent, from 0 to 90".into()),
    }
}

/// What was seen in all seeds together.
#[derive(Default)]
struct Sum {
    seeds: u64,
    failed: u64,
    messages: u64,
    pulls: u64,
    deaths: u64,
    frames: u64,
    simulated_s: f64,
}

#[derive(Serialize)]
struct Line<'a> {
    bench: &'a str,
    device: &'a str,
    ranks: u32,
    bytes: u64,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

/// Runs the seeds.
///
/// # Errors
/// None of its own; a seed that fails is exit status 1.
pub fn run(args: &ProtoArgs) -> Result<ExitCode, CliError> {
    let options = Options {
        fixed: Fixed { nodes: args.nodes, loss: args.loss },
        canary: args.canary,
        trace: args.trace,
    };
    let (first, count) = args.seed.map_or((args.start, args.seeds), |seed| (seed, 1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let bar = progress(count, count > 1 && !args.json);
    let (mut sum, began) = (Sum::default(), Instant::now());
    proto::sweep(first, count, &options, args.threads.unwrap_or(cores), |outcome| {
        sum.add(&outcome);
        bar.inc(1);
        if args.json {
            let bytes = outcome.tally.bytes;
            let (bench, device, ranks) = ("sim-proto", "sim", outcome.nodes);
            json_line(&Line { bench, device, ranks, bytes, outcome: &outcome });
        }
        if outcome.failure.is_some() {
            bar.suspend(|| report(&outcome, args));
        } else if args.seed.is_some() && !args.json {
            println!("{}", describe(&outcome));
        }
        outcome.failure.is_none() || args.keep_going
    });
    bar.finish_and_clear();
    if !args.json && args.seed.is_none() {
        println!("{}", sum.text(began.elapsed().as_secs_f64()));
    }
    if let (Some(canary), 0) = (args.canary, sum.failed) {
        eprintln!("weft: the canary \"{}\" was not found in {count} seeds", canary.name());
    }
    Ok(if sum.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn progress(count: u64, wanted: bool) -> ProgressBar {
    if !wanted || !progress_wanted() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Writes a failure, how to see it again, and what went before it.
fn report(outcome: &Outcome, args: &ProtoArgs) {
    let Some(failure) = &outcome.failure else { return };
    for line in &failure.trace {
        eprintln!("  {line}");
    }
    eprintln!(
        "weft: seed {} failed in the {} at {:.3} ms, at process {}: {}",
        outcome.seed,
        failure.part,
        failure.at_ns as f64 / 1e6,
        failure.process,
        failure.what
    );
    let mut replay = format!("weft sim proto --seed {} --trace", outcome.seed);
    if let Some(nodes) = args.nodes {
        replay += &format!(" --nodes {nodes}");
    }
    if let Some(loss) = args.loss {
        replay += &format!(" --loss {}", f64::from(loss) / 10_000.0);
    }
    if let Some(canary) = args.canary {
        replay += &format!(" --canary {}", canary.name());
    }
    eprintln!("weft: see it again with: {replay}");
}

fn describe(outcome: &Outcome) -> String {
    let t = &outcome.tally;
    format!(
        "seed {}: {} machines, {} messages, {} told, {} pulls, {} withdrawn, {} failed, {} deaths, \
         {} frames, {:.3} s simulated, settled {:.3} ms after the faults, digest {:016x}",
        outcome.seed,
        outcome.nodes,
        t.messages,
        t.told,
        t.pulls,
        t.withdrawn,
        t.failed,
        t.deaths,
        outcome.frames,
        outcome.simulated_ns as f64 / 1e9,
        outcome.settled_ns as f64 / 1e6,
        outcome.digest
    )
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.failed += u64::from(outcome.failure.is_some());
        self.messages += outcome.tally.messages;
        self.pulls += outcome.tally.pulls;
        self.deaths += outcome.tally.deaths;
        self.frames += outcome.frames;
        self.simulated_s += outcome.simulated_ns as f64 / 1e9;
    }

    fn text(&self, seconds: f64) -> String {
        format!(
            "{} seeds, {} failed; {} messages and {} pulls checked, {} deaths, {} frames, {:.0} s \
             simulated in {:.1} s, {:.1} seeds/s",
            self.seeds,
            self.failed,
            self.messages,
            self.pulls,
            self.deaths,
            self.frames,
            self.simulated_s,
            seconds,
            self.seeds as f64 / seconds.max(1e-9)
        )
    }
}
