//! `weft bench halo`: steps of a program that exchanges boundaries. Each stage sweeps over its
//! fields, then exchanges their boundaries; what a step computes, packs and waits is told apart.
//! `examples/mpi/programs/halo.c` does the same with MPI.

mod plan;
mod shape;
mod sockets;

use weft::endpoint::Endpoint;
use weft_sys::clock::now_ns;

use super::{Common, Rank, failed, join};
use crate::CliError;
use crate::bench::figure::{Figure, Share, Value, digits, size_text};
use crate::bench::samples::Samples;
use crate::output::{Table, json_line};
use plan::Planned;
use shape::Slab;
use sockets::{Fields, Sockets};

pub use shape::{Cells, Pattern, Shape};

/// Arguments of `weft bench halo`.
#[derive(clap::Args, Debug)]
pub struct HaloArgs {
    #[command(flatten)]
    common: Common,
    /// Cells of all ranks together: along each edge of a cube, or as 64x64x128, slowest axis first
    #[arg(long, default_value = "128")]
    cells: Cells,
    /// Fields of doubles that are exchanged in each stage
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    fields: u8,
    /// Stages of a step, each with fields of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    stages: u8,
    /// The axis that is cut: 0 is the slowest, whose boundaries lie in one piece
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    axis: u8,
    /// In which directions boundaries go
    #[arg(long, value_enum, value_delimiter = ',', default_value = "one-way,two-way,alternating")]
    pattern: Vec<Pattern>,
    /// What carries them
    #[arg(long, value_enum, default_value = "weft")]
    transport: Transport,
}

/// What carries boundaries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Transport {
    /// Plans of Weft.
    Weft,
    /// TCP sockets.
    Tcp,
}

/// What a sweep does to a cell: it comes to rest at 1.
const SHRINK: f64 = 0.5;
const GROW: f64 = 0.5;
/// Steps from one start of the fields, which are checked then. After many more all cells would be
/// alike.
const STEPS: usize = 20;
/// Blocks of steps that warm up.
const WARM: usize = 2;
/// So many steps are measured at most.
const STEPS_MAX: usize = 1 << 16;

/// Holds the fields and exchanges their boundaries.
trait Exchange {
    /// Lends a field, ghost layers included.
    fn lend(
        &mut self,
        stage: usize,
        field: usize,
        work: &mut dyn FnMut(&mut [f64]),
    ) -> Result<(), CliError>;

    /// Begins to exchange a stage's boundaries.
    fn start(&mut self, stage: usize) -> Result<(), CliError>;

    /// Waits until they are there and have left.
    fn wait(&mut self, stage: usize) -> Result<(), CliError>;
}

/// Measures, and writes on rank 0.
///
/// # Errors
/// When the job or a peer fails, a boundary is wrong, or there are more ranks than layers.
pub fn run(args: &HaloArgs) -> Result<(), CliError> {
    let Rank { context, device, mut _job, .. } = join(&args.common)?;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    let mut sockets = match args.transport {
        Transport::Weft => None,
        Transport::Tcp => Some(Sockets::open(&mut _job)?),
    };
    let device = if sockets.is_some() { "tcp sockets" } else { device };
    let mut figures = Vec::new();
    for &pattern in &args.pattern {
        let alternating = pattern == Pattern::Alternating;
        let shape = Shape {
            pattern,
            cells: args.cells,
            fields: args.fields.into(),
            stages: if alternating { 2 } else { args.stages.into() },
            axis: args.axis.into(),
        };
        let slab = Slab::of(shape, endpoint.rank(), endpoint.size()).ok_or_else(|| {
            let ranks = endpoint.size();
            CliError::Usage(format!("there are more ranks than layers: {ranks}; use --cells"))
        })?;
        let times = match &mut sockets {
            Some(sockets) => measure(&endpoint, slab, args, &mut Fields::new(sockets, slab))?,
            None => measure(&endpoint, slab, args, &mut Planned::new(&endpoint, slab)?)?,
        };
        let Some(share) = collect(&endpoint, &times)? else { continue };
        let figure = figure(device, &slab, share);
        if args.common.json {
            json_line(&figure);
        }
        figures.push(figure);
    }
    if endpoint.rank() == 0 && !args.common.json {
        table(&figures).print();
    }
    // Nobody leaves while others still send what rank 0 waits for.
    endpoint.allreduce(weft::remote::AtomicOp::Sum, &mut [0u64]).map_err(failed)
}

/// Times of steps, us: all of it, computation, packing and starting, the whole exchange.
type Times = [Vec<f64>; 4];

/// Blocks of steps until the time is over.
fn measure(
    endpoint: &Endpoint,
    slab: Slab,
    args: &HaloArgs,
    exchange: &mut impl Exchange,
) -> Result<Times, CliError> {
    let mut times = Times::default();
    let mut until = 0;
    for block in 0.. {
        fill(slab, exchange)?;
        if block == WARM {
            times = Times::default();
            until = now_ns() + args.common.ms * 1_000_000;
        }
        // The ranks begin together, and end together.
        let over = block > WARM && now_ns() >= until || times[0].len() + STEPS > STEPS_MAX;
        let mut over = [u64::from(over && endpoint.rank() == 0)];
        endpoint.allreduce(weft::remote::AtomicOp::Sum, &mut over).map_err(failed)?;
        if over != [0] {
            break;
        }
        for _ in 0..STEPS {
            let step = step(slab, exchange)?;
            times.iter_mut().zip(step).for_each(|(all, ns)| all.push(ns as f64 / 1000.0));
        }
        check(slab, exchange)?;
    }
    Ok(times)
}

/// One step; what it took, ns.
fn step(slab: Slab, exchange: &mut impl Exchange) -> Result<[u64; 4], CliError> {
    let (begun, mut took) = (now_ns(), [0; 4]);
    let layers = slab.own[slab.shape.axis];
    for stage in 0..slab.shape.stages {
        let from = now_ns();
        for field in 0..slab.shape.fields {
            exchange.lend(stage, field, &mut |cells| {
                let (rows, len) = slab.rows(stage, 0, layers);
                for row in rows {
                    cells[row..row + len].iter_mut().for_each(|c| *c = *c * SHRINK + GROW);
                }
            })?;
        }
        let swept = now_ns();
        exchange.start(stage)?;
        let started = now_ns();
        exchange.wait(stage)?;
        let came = now_ns();
        took[1] += swept - from;
        took[2] += started - swept;
        took[3] += came - swept;
    }
    took[0] = now_ns() - begun;
    Ok(took)
}

/// The value of a field's cells at the start, of a rank.
fn begun(rank: u32, stage: usize, field: usize) -> f64 {
    2.0 + f64::from(rank) + (100 * stage + 10 * field) as f64
}

/// Every cell as it is at the start.
fn fill(slab: Slab, exchange: &mut impl Exchange) -> Result<(), CliError> {
    for (stage, field) in fields(slab) {
        let value = begun(slab.rank, stage, field);
        exchange.lend(stage, field, &mut |cells| cells.fill(value))?;
    }
    Ok(())
}

/// Compares own cells and ghost layers with what sweeps have made of the start.
fn check(slab: Slab, exchange: &mut impl Exchange) -> Result<(), CliError> {
    let layers = slab.own[slab.shape.axis];
    for (stage, field) in fields(slab) {
        let mut wrong = None;
        exchange.lend(stage, field, &mut |cells| {
            let mut look = |rank, layer, layers| {
                let right =
                    (0..STEPS).fold(begun(rank, stage, field), |value, _| value * SHRINK + GROW);
                let (rows, len) = slab.rows(stage, layer, layers);
                let all = rows.flat_map(|row| &cells[row..row + len]);
                wrong =
                    wrong.or(all.copied().find(|cell| *cell != right).map(|c| (layer, c, right)));
            };
            look(slab.rank, 0, layers);
            for up in [true, false] {
                let from = slab.neighbour(!up).filter(|_| slab.shape.pattern.goes(stage, up));
                if let Some(rank) = from {
                    look(rank, slab.outer(up), 1);
                }
            }
        })?;
        if let Some((layer, found, right)) = wrong {
            return Err(CliError::Bench(format!(
                "rank {}: field {field} of stage {stage} has {found} where {right} is due, in or \
                 after layer {layer}: a boundary was lost or spoilt",
                slab.rank
            )));
        }
    }
    Ok(())
}

/// All fields by stage and number.
fn fields(slab: Slab) -> impl Iterator<Item = (usize, usize)> {
    let of = move |stage| (0..slab.shape.fields).map(move |field| (stage, field));
    (0..slab.shape.stages).flat_map(of)
}

/// The times of all steps of all ranks; `None` at all but rank 0.
fn collect(endpoint: &Endpoint, times: &Times) -> Result<Option<Share>, CliError> {
    let first = endpoint.rank() == 0;
    let mut spreads = Vec::new();
    for own in times {
        let ranks = if first { endpoint.size() as usize } else { 0 };
        let mut all = vec![0.0; own.len() * ranks];
        endpoint.gather(0, own, &mut all).map_err(failed)?;
        let mut samples = Samples::new();
        all.iter().for_each(|us| samples.record((us * 1000.0) as u64, 1));
        spreads.push(samples.spread());
    }
    let [step_us, compute_us, pack_us, wait_us] = std::array::from_fn(|at| spreads[at]);
    Ok(first.then_some(Share { step_us, compute_us, pack_us, wait_us }))
}

fn figure(device: &str, slab: &Slab, share: Share) -> Figure {
    Figure {
        bench: "halo".into(),
        device: device.into(),
        ranks: slab.ranks,
        bytes: (slab.face() * size_of::<f64>()) as u64,
        mode: Some(slab.shape.to_string()),
        value: Value::TimeUs(share.step_us),
        cpu_s_per_gb: None,
        mpi_us: None,
        share: Some(share),
    }
}

/// Medians of steps in us, for people.
pub fn table(figures: &[Figure]) -> Table {
    let headings = ["halo", "device", "ranks", "boundary", "step us", "compute", "pack", "wait"];
    let mut table = Table::new(headings);
    for figure in figures {
        let share = figure.share.unwrap_or_default();
        let Share { step_us, compute_us, pack_us, wait_us } = share;
        let mut cells = vec![figure.mode.clone().unwrap_or_default(), figure.device.clone()];
        cells.extend([figure.ranks.to_string(), size_text(figure.bytes)]);
        cells.extend([step_us, compute_us, pack_us, wait_us].map(|spread| digits(spread.p50)));
        table.row(cells);
    }
    table
}
