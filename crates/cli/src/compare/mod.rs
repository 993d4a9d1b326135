//! `weft compare`: Weft beside sockets, bare floors, and the MPI libraries that are installed, all
//! in one run. Rounds alternate between the contenders, and those count in which the machine's
//! processors stood as they mostly do; what is judged are ratios of medians.

mod child;
mod contender;
mod contest;
mod mpi;
mod report;
mod rounds;
mod targets;
mod watch;

use std::path::PathBuf;

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
use mpi::{Mpi, MpiRun};
use rounds::Outcome;

/// Arguments of `weft compare`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Under a minute: Weft beside TCP over a cable of two virtual nodes
    #[arg(long)]
    quick: bool,
    /// MPI programs: MPICH, Open MPI and Intel MPI on Weft beside their own shared memory and TCP
    #[arg(long)]
    mpi: bool,
    /// Weft's provider libweft-fi.so for --mpi, or its directory [default: beside this program]
    #[arg(long, value_name = "FILE", requires = "mpi")]
    provider: Option<PathBuf>,
    /// One JSON object per figure and per target
    #[arg(long)]
    json: bool,
    /// How often each contender is measured, on a virtual machine whose processors are moved
    /// meanwhile up to three times as often; medians are shown [default: 3; quick: 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Milliseconds per figure [default: 150, quick: 80]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    ms: Option<u64>,
    /// MTU of the cable in the temporary lab, bytes
    #[arg(long, default_value_t = 1500,
          value_parser = clap::value_parser!(u32).range(576..=65_000))]
    mtu: u32,
    /// Only contenders whose name contains one of these, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where the plot goes
    #[arg(long, default_value = "weft-compare.svg")]
    svg: PathBuf,
}

/// Compares and reports.
///
/// # Errors
/// When Weft itself could not be measured, nothing could, or a signal came.
pub fn run(args: &Args) -> Result<(), CliError> {
    // Before anything is started that would have to be ended.
    let stop = Interrupt::prepare()?;
    let place = Place::lab(args.mtu).unwrap_or_else(|why| {
        eprintln!("weft: no lab, so only messages within a node are compared: {why}");
        Place::here()
    });
    let here = Place::here();
    let contenders = contenders(args, place.is_lab())?;
    stop.check()?;
    if contenders.is_empty() {
        return Err(CliError::Usage("no contender has such a name".into()));
    }
    let among = contenders.iter().any(|c| c.reach == Reach::Among);
    let mut arena = Arena {
        wide: if among { Some(wide(args.mtu)?) } else { None },
        pair: Crew::start(&place, &stop, if args.mpi { 0 } else { 2 }, true)?,
        here: &here,
        place: &place,
        stop: &stop,
    };
    // Before and after: what begins or ends in between shows in one of them.
    load::tell_of_others();
    let Outcome { figures, failed, note } =
        rounds::run(args, &plan(args), &contenders, &mut arena)?;
    load::tell_of_others();
    note.iter().for_each(|note| eprintln!("{note}"));
    if figures.is_empty() {
        return Err(CliError::Bench("nothing could be measured; the reasons are above".into()));
    }
    let judged = if args.mpi { contest::targets() } else { targets::targets(args.mtu.into()) };
    if args.json {
        report::json(&contenders, &figures, &judged);
    } else {
        report::tables(&contenders, &figures, &judged);
    }
    draw(args, &contenders, &figures)?;
    match failed {
        None => Ok(()),
        Some(label) => Err(CliError::Bench(format!("{label} could not be measured: see above"))),
    }
}

/// Nodes on a switch.
fn wide(mtu: u32) -> Result<Lab, CliError> {
    let spec = LabSpec { nodes: AMONG, topology: Topology::Switch, links: 1, mtu };
    Ok(Lab::temporary(&spec, &Options::default())?)
}

/// What Weft shows beyond latency and bandwidth, in a full comparison: within a node, and between.
const ALONE: [(u32, &str); 5] = [
    (2, "bw --bytes 1M --memory weft"),
    (TOKEN_RANKS, TOKEN),
    (2, "idle"),
    (2, "barrier --work 0"),
    (CROWD, "barrier --work 0"),
];
const ONE_WAY: [(u32, &str); 2] = [(2, "rate --bytes 64"), (2, "barrier --work 0")];

/// Ranks of the barrier that shows what waiting costs where ranks outnumber processors.
const CROWD: u32 = 32;
/// The same of MPI programs.
const MPI_BARRIER: [&str; 2] = ["barrier", "0"];

fn plan(args: &Args) -> Plan {
    let sizes =
        |quick: &[u64], full: &[u64]| if args.quick { quick.to_vec() } else { full.to_vec() };
    Plan {
        ms: args.ms.unwrap_or(if args.quick { 80 } else { 150 }),
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

fn contenders(args: &Args, lab: bool) -> Result<Vec<Contender>, CliError> {
    if args.mpi {
        return contest::contenders(args, lab);
    }
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
    let barrier = MPI_BARRIER.map(String::from);
    let words = [plan(args).words(), barrier.to_vec()].concat();
    let preload = Preload::find(args.provider.as_deref());
    let of = |mpi, ranks, words| {
        let (provider, preload, collectives) = (None, preload.clone(), false);
        Means::Mpi(MpiRun { mpi, provider, preload, collectives, ranks, words })
    };
    let own = |mpi| of(mpi, 2, words.clone());
    let (within, between) = (Reach::Within, Reach::Between);
    let full = !args.quick;
    if full || !lab {
        add("floors within", within, Means::Floors(vec![Op::CacheLine, Op::CrossMemory(1 << 20)]));
        add("weft shm", within, weft("shm", &[], if full { &ALONE } else { &[] }));
    }
    if full {
        add("futex ring", within, Means::Floors(vec![Op::FutexRing]));
        add("weft composite", within, weft("composite", &[], &[]));
        for (brand, means) in mpis() {
            let transport = if brand == Brand::OpenMpi { "sm" } else { "shm" };
            let crowd = of(means.clone(), CROWD, barrier.to_vec());
            add(&format!("{} {transport}", brand.name()), within, own(means));
            add(&format!("{} {transport}", brand.name()), within, crowd);
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
        for (brand, means) in mpis() {
            let words = ["barrier", "0", "cast", "65536", "1048576"].map(String::from);
            let wide = of(means.clone(), AMONG, words.to_vec());
            add(&format!("{} tcp", brand.name()), between, own(means));
            add(&format!("{} tcp, nodes", brand.name()), Reach::Among, wide);
        }
        let more = [
            (AMONG, "barrier --work 0"),
            (AMONG, "bcast --bytes 64K,1M --ranks 8,2"),
            (AMONG, "group --bytes 64,1K --ranks 8,2"),
        ];
        add("weft ether, nodes", Reach::Among, weft("ether", &[], &more));
    }
    Ok(all)
}

/// The MPI libraries that are installed.
fn mpis() -> Vec<(Brand, Mpi)> {
    let found = |brand: Brand| match Mpi::find(brand) {
        Ok(mpi) => Some((brand, mpi)),
        Err(why) => {
            eprintln!("weft: {} is left out: {why}", brand.name());
            None
        }
    };
    Brand::ALL.into_iter().filter_map(found).collect()
}

fn draw(args: &Args, contenders: &[Contender], figures: &[Figure]) -> Result<(), CliError> {
    let mut panels = Vec::new();
    for reach in [Reach::Within, Reach::Between] {
        for (bench, what) in [("lat", plot::What::Latency), ("bw", plot::What::Bandwidth)] {
            let mut seen = Vec::new();
            let curves: Vec<plot::Curve> = contenders
                .iter()
                .filter(|c| c.reach == reach && !matches!(c.means, Means::Floors(_)))
                .filter(|c| {
                    !seen.contains(&&c.label) && {
                        seen.push(&c.label);
                        true
                    }
                })
                .map(|c| plot::Curve {
                    label: c.label.clone(),
                    bold: c.is_weft(),
                    points: report::points(figures, bench, &c.label),
                })
                .filter(|curve| !curve.points.is_empty())
                .collect();
            if !curves.is_empty() {
                let title = format!("{} {}", what.title(), reach.title());
                panels.push(plot::Panel { title, what, curves });
            }
        }
    }
    if panels.is_empty() {
        return Ok(());
    }
    plot::svg(&args.svg, &panels).map_err(CliError::Bench)?;
    eprintln!("weft: plot in {}", args.svg.display());
    Ok(())
}
