//! `weft sim collective`: the shipped rounds of reductions and exchanges, under the LogP model.

use std::process::ExitCode;

use serde::Serialize;
use weft::collective::LogP;
use weft::collective::exchange::{Way, What};
use weft_sim::exchange::{self, ExchangeError, Options, Report, UNIT};

use crate::CliError;
use crate::output::{Table, json_line};

/// Arguments of `weft sim collective`.
#[derive(clap::Args, Debug)]
pub struct CollectiveArgs {
    /// Ranks
    #[arg(long, value_name = "N")]
    nodes: u32,
    /// broadcast, reduce, allreduce, reduce-scatter, gather, scatter, allgather or alltoall
    #[arg(long, value_name = "WHAT", value_parser = what)]
    what: What,
    /// The way, as binomial, direct, doubling, halving, ring, bruck, pairwise; usual: the one that
    /// ranks choose; or all
    #[arg(long, default_value = "usual", value_name = "WAY")]
    way: String,
    /// Bytes of each rank's data or block, in elements of 8
    #[arg(long, default_value_t = 8, value_name = "BYTES")]
    bytes: usize,
    /// The rank that has or gets all, of operations with one
    #[arg(long, default_value_t = 0, value_name = "RANK")]
    root: u32,
    /// An operator that does not commute
    #[arg(long)]
    ordered: bool,
    /// Microseconds to send, on the way, to receive, and between two messages of a link
    #[arg(long, default_value = "3,17.5,9.5,9", value_name = "o_s,L,o_r,g")]
    logp: LogP,
    /// Microseconds that a further byte takes on a link; 0.08 is 100 Mb/s
    #[arg(long, default_value_t = 0.08, value_name = "US")]
    byte: f64,
    /// Longer messages are announced, and fetched when the receiver is there
    #[arg(long, default_value_t = 16 << 10, value_name = "BYTES")]
    eager: usize,
    /// A message takes up to this much longer, us
    #[arg(long, default_value_t = 0.0, value_name = "US")]
    jitter: f64,
    /// Ranks start within this time, us
    #[arg(long, default_value_t = 0.0, value_name = "US")]
    skew: f64,
    /// Of jitter, of starts and of the data
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object for each way
    #[arg(long)]
    json: bool,
}

/// All by their names; who the root is, is another option's matter.
const ALL: [(&str, What); 8] = [
    ("broadcast", What::Broadcast { root: 0 }),
    ("reduce", What::Reduce { root: 0 }),
    ("allreduce", What::Allreduce),
    ("reduce-scatter", What::ReduceScatter),
    ("gather", What::Gather { root: 0 }),
    ("scatter", What::Scatter { root: 0 }),
    ("allgather", What::Allgather),
    ("alltoall", What::Alltoall),
];

fn what(text: &str) -> Result<What, String> {
    let found = ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, what)| *what).ok_or_else(|| {
        let names = ALL.map(|(name, _)| name);
        format!("choose one of {}", names.join(", "))
    })
}

impl CollectiveArgs {
    fn with_root(&self) -> What {
        let root = self.root;
        match self.what {
            What::Broadcast { .. } => What::Broadcast { root },
            What::Reduce { .. } => What::Reduce { root },
            What::Gather { .. } => What::Gather { root },
            What::Scatter { .. } => What::Scatter { root },
            without => without,
        }
    }

    fn ways(&self) -> Result<Vec<Option<Way>>, CliError> {
        let ways = self.what.ways();
        match self.way.as_str() {
            "usual" => Ok(vec![None]),
            "all" => {
                let fits = |way: &Way| !self.ordered || self.what.keeps_order(*way);
                Ok(ways.iter().copied().filter(fits).map(Some).collect())
            }
            name => {
                let found = ways.iter().find(|way| name_of(**way) == name);
                let names: Vec<String> = ways.iter().copied().map(name_of).collect();
                let why = || format!("--way {name}: choose usual, all, {}", names.join(", "));
                found.map(|way| vec![Some(*way)]).ok_or_else(|| CliError::Usage(why()))
            }
        }
    }

    fn options(&self, way: Option<Way>) -> Options {
        Options {
            way,
            ordered: self.ordered,
            byte_us: self.byte,
            eager_max: self.eager,
            jitter_us: self.jitter,
            skew_us: self.skew,
            seed: self.seed,
            ..Options::new(self.with_root(), self.nodes, self.bytes / UNIT, self.logp)
        }
    }
}

fn name_of(way: Way) -> String {
    format!("{way:?}").to_lowercase()
}

#[derive(Serialize)]
struct Times {
    min: f64,
    mean: f64,
    max: f64,
}

#[derive(Serialize)]
struct Line {
    bench: &'static str,
    device: &'static str,
    what: &'static str,
    way: String,
    ranks: u32,
    bytes: usize,
    time_us: Times,
    span_us: f64,
    rounds: u32,
    messages: u64,
    announced: u64,
    bytes_sent: u64,
}

/// Simulates, checks what ranks have in the end, and prints.
///
/// # Errors
/// [`CliError::Usage`] for options that make no sense; a rank that is stuck, or has something
/// wrong.
pub fn run(args: &CollectiveArgs) -> Result<ExitCode, CliError> {
    if !args.bytes.is_multiple_of(UNIT) {
        let why = format!("--bytes {}: elements have {UNIT} bytes", args.bytes);
        return Err(CliError::Usage(why));
    }
    let what = ALL.iter().find(|(_, what)| *what == args.what).map_or("", |(name, _)| *name);
    let mut lines = Vec::new();
    for way in args.ways()? {
        let options = args.options(way);
        let report = exchange::run(&options).map_err(|e| match e {
            ExchangeError::Options(why) => CliError::Usage(why),
            other => CliError::Bench(format!("{what} with {} ranks: {other}", args.nodes)),
        })?;
        lines.push(line(what, &options, report));
    }
    print(args, &lines);
    Ok(ExitCode::SUCCESS)
}

fn line(what: &'static str, options: &Options, report: Report) -> Line {
    let Report { span_us, least_us, mean_us, most_us, rounds, messages, announced, bytes } = report;
    Line {
        bench: "sim-collective",
        device: "sim",
        what,
        way: name_of(options.chosen()),
        ranks: options.ranks,
        bytes: options.count * UNIT,
        time_us: Times { min: least_us, mean: mean_us, max: most_us },
        span_us,
        rounds,
        messages,
        announced,
        bytes_sent: bytes,
    }
}

fn print(args: &CollectiveArgs, lines: &[Line]) {
    if args.json {
        return lines.iter().for_each(json_line);
    }
    let columns = ["what", "way", "ranks", "bytes", "span us", "rank mean", "rounds", "messages"];
    let mut table = Table::new(columns.into_iter().chain(["announced", "bytes sent"]));
    for line in lines {
        table.row([
            line.what.to_owned(),
            line.way.clone(),
            line.ranks.to_string(),
            line.bytes.to_string(),
            format!("{:.1}", line.span_us),
            format!("{:.1}", line.time_us.mean),
            line.rounds.to_string(),
            line.messages.to_string(),
            line.announced.to_string(),
            line.bytes_sent.to_string(),
        ]);
    }
    table.print();
}
