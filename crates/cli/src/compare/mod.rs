//! `weft compare`: Weft beside sockets, bare floors, and the MPI libraries that are installed, all
//! in one run. Rounds alternate between the contenders, and those count in which the machine's
//! processors stood as they mostly do; what is judged are ratios of medians.

mod child;
mod contender;
mod halo;
mod html;
mod mpi;
mod report;
mod rounds;
mod shown;
mod targets;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use crate::CliError;
use crate::bench::crew::Crew;
use crate::bench::figure::Figure;
use crate::bench::floor::Op;
use crate::bench::load;
use crate::bench::place::Place;
use crate::interrupt::Interrupt;
use crate::lab::{Lab, LabSpec, Options, Topology};
use crate::mpi::{Brand, Preload};
use crate::plot;
use contender::{AMONG, Arena, Contender, Means, Plan, Reach, TOKEN, TOKEN_RANKS};
use html::Output;
use mpi::{Layout, Mpi, MpiRun, Task};
use shown::Shown;

/// Arguments of `weft compare`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Under a minute: Weft beside TCP over a cable of two virtual nodes; with --mpi some kernels
    /// and patterns of two ranks
    #[arg(long)]
    quick: bool,
    /// MPI programs: kernels of programs and patterns of communication, by each MPI library that
    /// is installed, on Weft beside its own shared memory and TCP; each that is slower is marked
    #[arg(long)]
    mpi: bool,
    /// Boundary exchange: Weft's plans beside MPI programs by persistent requests and neighbourhood
    /// collectives, and beside TCP sockets; what steps wait, within a node and over cables
    #[arg(long, conflicts_with = "mpi")]
    halo: bool,
    /// Weft's provider libweft-fi.so for --mpi and --halo, or its directory [default: beside this
    /// program]
    #[arg(long, value_name = "FILE")]
    provider: Option<PathBuf>,
    /// One JSON object per figure and per target; with --mpi also per cell and per summary
    #[arg(long)]
    json: bool,
    /// How often each contender is measured, on a virtual machine whose processors are moved
    /// meanwhile up to three times as often; medians are shown [default: 3; quick: 2, with --mpi 1;
    /// with --halo 5 and 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Milliseconds per figure [default: 150, quick: 80; with --mpi 30 and 15, of a kernel twice
    /// as many; with --halo 400 and 150]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    ms: Option<u64>,
    /// MTU of the cable in the temporary lab, bytes
    #[arg(long, default_value_t = 1500,
          value_parser = clap::value_parser!(u32).range(576..=65_000))]
    mtu: u32,
    /// Only contenders whose name contains one of these, separated by commas. With --mpi: names of
    /// libraries (mpich), places (2x2: ranks and nodes), kernels and patterns (stream; kernels or
    /// patterns for all), of each kind that is named
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where the plot goes
    #[arg(long, default_value = "weft-compare.svg")]
    svg: PathBuf,
    /// Also writes one page for a browser: tables, plots, and what the machine is; it needs no
    /// other file, so that figures can be sent
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Compares and reports.
///
/// # Errors
/// When Weft itself could not be measured, or with `--mpi` anything; or a signal came.
pub fn run(args: &Args) -> Result<(), CliError> {
    // Before anything is started that would have to be ended.
    let stop = Interrupt::prepare()?;
    if args.halo {
        return halo::run(args, &stop);
    }
    let mut page = Output::prepare(args)?;
    let place = Place::lab(args.mtu).unwrap_or_else(|why| {
        eprintln!("weft: no lab, so only messages within a node are compared: {why}");
        Place::here()
    });
    let here = Place::here();
    let plan = plan(args);
    let contenders = match args.mpi {
        true => mpi::contenders(args, &plan, place.is_lab())?,
        false => contenders(args, &plan, place.is_lab()),
    };
    stop.check()?;
    if contenders.is_empty() {
        return Err(CliError::Usage("no contender has such a name".into()));
    }
    let mut arena = Arena {
        wide: wide(args.mtu, &contenders)?,
        pair: Crew::start(&place, &stop, if args.mpi { 0 } else { 2 }, true)?,
        here: &here,
        place: &place,
        stop: &stop,
    };
    // Before and after: what begins or ends in between shows in one of them.
    let before = load::tell_of_others();
    let outcome = rounds::run(args, &plan, &contenders, &mut arena)?;
    let after = load::tell_of_others();
    outcome.notes.iter().for_each(|note| eprintln!("{note}"));
    if let Some(page) = &mut page {
        page.note(before.or(after));
        page.note(outcome.notes.clone());
    }
    if outcome.figures.is_empty() {
        return Err(CliError::Bench("nothing could be measured; the reasons are above".into()));
    }
    match args.mpi {
        true => mpi::show(args, &stop, &contenders, &outcome, page)?,
        false => show(args, &stop, &contenders, &outcome.figures, page)?,
    }
    let counts = |at: usize| args.mpi || contenders[at].is_weft();
    match outcome.failed.iter().find(|(at, _)| counts(*at)) {
        None => Ok(()),
        Some((at, _)) => {
            let label = &contenders[*at].label;
            Err(CliError::Bench(format!("{label} could not be measured: see above")))
        }
    }
}

/// Labs with more than two nodes, on switches, where they are needed.
fn wide(mtu: u32, contenders: &[Contender]) -> Result<Vec<Lab>, CliError> {
    let mut sizes: Vec<u32> = contenders.iter().map(Contender::nodes).filter(|n| *n > 2).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let lab = |nodes| {
        let spec = LabSpec { nodes, topology: Topology::Switch, mtu, ..LabSpec::default() };
        Ok(Lab::temporary(&spec, &Options::default())?)
    };
    sizes.into_iter().map(lab).collect()
}

/// Tables or JSON lines, and the plot.
fn show(
    args: &Args,
    stop: &Interrupt,
    contenders: &[Contender],
    figures: &[Figure],
    page: Option<Output>,
) -> Result<(), CliError> {
    let judged = targets::targets(args.mtu.into());
    let shown = report::tables(contenders, figures, &judged);
    match args.json {
        true => report::json(contenders, figures, &judged),
        false => shown.print(),
    }
    let pictures = curves(&contenders.iter().collect::<Vec<_>>(), figures);
    draw(args, stop, &shown, &pictures, page)
}

/// What Weft shows beyond latency and bandwidth, in a full comparison: within a node, and between.
const ALONE: [(u32, &str); 7] = [
    (2, "bw --bytes 1M --memory weft"),
    (2, "put --bytes 8,1M"),
    (2, "put --bytes 1M --borrowed"),
    (TOKEN_RANKS, TOKEN),
    (2, "idle"),
    (2, "barrier --work 0"),
    (CROWD, "barrier --work 0"),
];
const ONE_WAY: [(u32, &str); 4] = [
    (2, "rate --bytes 64"),
    (2, "barrier --work 0"),
    (2, "put --bytes 1M"),
    (2, "put --bytes 1M --busy"),
];

/// Ranks of the barrier that shows what waiting costs where ranks outnumber processors.
const CROWD: u32 = mpi::CROWD.ranks;
fn plan(args: &Args) -> Plan {
    let sizes =
        |quick: &[u64], full: &[u64]| if args.quick { quick.to_vec() } else { full.to_vec() };
    let (rounds, ms, limit) = match (args.mpi, args.quick) {
        (true, true) => (1, 15, Duration::from_secs(50)),
        (true, false) => (3, 30, Duration::from_secs(22 * 60)),
        (false, true) => (2, 80, Duration::MAX),
        (false, false) => (3, 150, Duration::MAX),
    };
    // Who asks for more gets it.
    let limit = if args.rounds.is_some() || args.ms.is_some() { Duration::MAX } else { limit };
    Plan {
        rounds: args.rounds.unwrap_or(rounds),
        limit,
        ms: args.ms.unwrap_or(ms),
        lat_bytes: sizes(
            &[8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20],
            &[8, 64, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
        ),
        bw_bytes: sizes(
            &[64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20],
            &[64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20],
        ),
    }
}

fn contenders(args: &Args, plan: &Plan, lab: bool) -> Vec<Contender> {
    let mut all = Vec::new();
    let mut add = |label: &str, reach: Reach, means: Means| {
        let wanted = args.only.is_empty() || args.only.iter().any(|o| label.contains(o.as_str()));
        if wanted && (lab || reach == Reach::Within) {
            all.push(Contender { label: label.into(), reach, means });
        }
    };
    let weft = |device, env: &[(&'static str, &'static str)], more: &[(u32, &'static str)]| {
        Means::Weft { device, env: env.to_vec(), more: more.to_vec() }
    };
    let barrier = vec![Task::Pattern("barrier", 0)];
    let tasks = [plan.tasks(), barrier.clone()].concat();
    let preload = Preload::find(args.provider.as_deref());
    let of = |mpi: &Mpi, layout, tasks: &[Task]| {
        let (install, program, tasks) = (mpi.install.clone(), mpi.patterns.clone(), tasks.to_vec());
        let (provider, preload, collectives) = (None, preload.clone(), false);
        let ms = plan.ms;
        Means::Mpi(MpiRun { install, program, provider, preload, collectives, layout, tasks, ms })
    };
    let (within, between) = (Reach::Within, Reach::Between);
    let full = !args.quick;
    if full || !lab {
        let memory = vec![Op::CacheLine, Op::CrossMemory(1 << 20), Op::Copy(1 << 20)];
        add("floors within", within, Means::Floors(memory));
        add("weft shm", within, weft("shm", &[], if full { &ALONE } else { &[] }));
    }
    if full {
        add("futex ring", within, Means::Floors(vec![Op::FutexRing]));
        add("weft composite", within, weft("composite", &[], &[]));
        for mpi in Mpi::all() {
            let transport = if mpi.install.brand == Brand::OpenMpi { "sm" } else { "shm" };
            let label = format!("{} {transport}", mpi.name());
            add(&label, within, of(&mpi, Layout::new(2, 1), &tasks));
            add(&label, within, of(&mpi, Layout::new(CROWD, 1), &barrier));
        }
    }
    let mut floors = vec![Op::PacketRing(64), Op::PacketMeet(64), Op::UdpStream(args.mtu.into())];
    if full {
        floors.extend([Op::UdpPoll(64), Op::UdpRate(64)]);
    }
    add("floors between", between, Means::Floors(floors));
    add("weft ether", between, weft("ether", &[], if full { &ONE_WAY } else { &[] }));
    add("tcp sockets", between, Means::Sockets);
    if full {
        add("weft ether udp", between, weft("ether", &[("WEFT_LINKS", "udp")], &[]));
        let casts = [64 << 10, 1 << 20].map(|bytes| Task::Pattern("cast", bytes));
        let casts = [&barrier[..], &casts].concat();
        for mpi in Mpi::all() {
            let label = format!("{} tcp", mpi.name());
            add(&label, between, of(&mpi, Layout::new(2, 2), &tasks));
            let wide = of(&mpi, Layout::new(AMONG, AMONG), &casts);
            add(&format!("{label}, nodes"), Reach::Among, wide);
        }
        let more = [
            (AMONG, "barrier --work 0"),
            (AMONG, "bcast --bytes 64K,1M --ranks 8,2"),
            (AMONG, "group --bytes 64,1K --ranks 8,2"),
        ];
        add("weft ether, nodes", Reach::Among, weft("ether", &[], &more));
    }
    all
}

/// Curves of latency and bandwidth, within a node and between two.
fn curves(contenders: &[&Contender], figures: &[Figure]) -> Vec<plot::Picture> {
    let mut panels = Vec::new();
    for reach in [Reach::Within, Reach::Between] {
        for (bench, what) in [("lat", plot::What::Latency), ("bw", plot::What::Bandwidth)] {
            let mut curves: Vec<plot::Curve> = Vec::new();
            for c in contenders {
                let is_wanted = c.reach == reach && !matches!(c.means, Means::Floors(_));
                if !is_wanted || curves.iter().any(|curve| curve.label == c.label) {
                    continue;
                }
                let points = report::points(figures, bench, &c.label);
                let (label, bold) = (c.label.clone(), c.is_weft());
                if !points.is_empty() {
                    curves.push(plot::Curve { label, bold, points });
                }
            }
            if !curves.is_empty() {
                let title = format!("{} {}", what.title(), reach.title());
                panels.push(plot::Picture::Curves(plot::Panel { title, what, curves }));
            }
        }
    }
    panels
}

/// Draws the plot, and writes the page if one is asked for.
fn draw(
    args: &Args,
    stop: &Interrupt,
    shown: &Shown,
    pictures: &[plot::Picture],
    page: Option<Output>,
) -> Result<(), CliError> {
    if !pictures.is_empty() {
        plot::svg(&args.svg, pictures).map_err(CliError::Bench)?;
        eprintln!("weft: plot in {}", args.svg.display());
    }
    let Some(page) = page else { return Ok(()) };
    page.write(args, html::facts(args, stop)?, shown, pictures)
}
