//! Weft measured through its own API by the ranks of a job: `weft run -n 2 -- weft bench lat`.
//!
//! Rank 0 keeps time and writes the results; the last message of a measurement says that it is the
//! last, so nothing is agreed on beforehand.

mod bandwidth;
mod barrier;
mod flow;
mod groups;
mod halo;
mod latency;
mod logp;
mod messages;
mod ranks;
mod regions;
mod register;

use weft::context::{Context, ContextOptions, DeviceKind};
use weft::wireup::Job;
use weft_sys::floor::{pin, usable_cpus};

use super::figure::{Figure, Value, parse_size, size_text};
use crate::CliError;
use crate::output::{Table, json_line};

pub use bandwidth::{BandwidthArgs, run as bw};
pub use barrier::{BarrierArgs, run as barrier};
pub use flow::{IdleArgs, RateArgs, RingArgs, idle, rate, ring};
pub use groups::{BcastArgs, GroupArgs, bcast, group};
pub use halo::{HaloArgs, run as halo, table as halo_table};
pub use latency::{LatencyArgs, run as lat};
pub use logp::{LogpArgs, run as logp};
pub use regions::{MoveArgs, RegionArgs, get, put};
pub use register::register;

/// What all of these benchmarks are told.
#[derive(clap::Args, Clone, Debug)]
pub struct Common {
    /// One JSON object per figure
    #[arg(long)]
    json: bool,
    /// Milliseconds per figure
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(10..=600_000))]
    ms: u64,
    /// Do not tie each rank to a processor of its own
    #[arg(long)]
    unpinned: bool,
}

/// Sizes as people write them.
#[derive(clap::Args, Clone, Debug)]
pub struct Sizes {
    /// Message sizes, as 8,64,4K,1M
    #[arg(long, value_delimiter = ',', value_parser = message_size,
          default_value = "8,64,512,4K,32K,256K,1M,4M")]
    bytes: Vec<u64>,
}

fn message_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("a message of these benchmarks has at least 1 byte".into()),
        n if n > 1 << 30 => Err("a message of these benchmarks has at most 1G".into()),
        n => Ok(n),
    }
}

/// A rank of the job, ready to measure.
pub struct Rank {
    context: Context,
    device: &'static str,
    common: Common,
    _job: Job,
}

/// Joins the job and opens a context on the device that the environment names.
///
/// # Errors
/// When there are fewer than two ranks, or the context cannot be opened.
pub fn join(common: &Common) -> Result<Rank, CliError> {
    let mut job = Job::from_env()?;
    if job.size() < 2 {
        let why = "one rank has nobody to talk to: use `weft run -n 2 -- weft bench ...`";
        return Err(CliError::Usage(why.into()));
    }
    let cpus = usable_cpus();
    if !common.unpinned && job.size() as usize <= cpus.len() {
        pin(&[cpus[job.rank() as usize % cpus.len()]])
            .map_err(CliError::io("choose a processor"))?;
    }
    let options = ContextOptions::from_env().map_err(failed)?;
    let named = DeviceKind::NAMES.iter().find(|(_, kind)| *kind == options.device);
    let device = named.map_or("weft", |(name, _)| name);
    let context = Context::open(&mut job, &options).map_err(failed)?;
    Ok(Rank { context, device, common: common.clone(), _job: job })
}

/// An error of the library as one of the command.
pub fn failed(error: weft::error::Error) -> CliError {
    CliError::Bench(error.to_string())
}

/// What rank 0 writes.
struct Results {
    device: &'static str,
    ranks: u32,
    json: bool,
    table: Table,
}

impl Results {
    fn new(rank: &Rank) -> Results {
        let table = Table::new(["bench", "device", "ranks", "bytes", "figure", "mode", "cpu"]);
        Results { device: rank.device, ranks: rank.context.size(), json: rank.common.json, table }
    }

    /// One more figure; written at once as JSON, at the end as a table.
    fn add(&mut self, bench: &str, bytes: u64, mode: Option<&str>, value: Value, cpu: Option<f64>) {
        let figure = Figure {
            bench: bench.into(),
            device: self.device.into(),
            ranks: self.ranks,
            bytes,
            mode: mode.map(String::from),
            value,
            cpu_s_per_gb: cpu,
            mpi_us: None,
            share: None,
        };
        if self.json {
            return json_line(&figure);
        }
        let cpu = cpu.map_or(String::new(), |c| format!("{c:.2} s/GB"));
        let (ranks, mode) = (self.ranks.to_string(), mode.unwrap_or("").to_string());
        let (bytes, text) = (size_text(bytes), value.text());
        self.table.row([bench.to_string(), self.device.to_string(), ranks, bytes, text, mode, cpu]);
    }

    fn finish(self) {
        if !self.json {
            self.table.print();
        }
    }
}

/// Whether a rank takes part in a benchmark for two. The others sleep until a rank leaves: their
/// nodes may be on the way between the two.
fn takes_part(rank: &mut Rank) -> bool {
    let one_of_two = rank.context.rank() < 2;
    while !one_of_two && rank.context.recv().is_ok() {}
    one_of_two
}
