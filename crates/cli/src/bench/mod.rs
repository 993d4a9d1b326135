//! `weft bench`: figures of this machine and of Weft, one result a line.

pub mod agent;
pub mod crew;
pub mod figure;
pub mod floor;
pub mod floors;
pub mod load;
mod native;
pub mod place;
pub mod samples;
pub mod table;

pub use native::halo_table;

use clap::Subcommand;

use crate::CliError;

/// Arguments of `weft bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// What nobody can beat here: bare memory, system calls, sockets
    Floor(floors::FloorArgs),
    /// A message there and back between two ranks
    Lat(native::LatencyArgs),
    /// Windows of 32 messages between two ranks
    Bw(native::BandwidthArgs),
    /// Writes to a region of rank 1: one after the other, and windows of 32
    Put(native::MoveArgs),
    /// Reads of a region of rank 1: one after the other, and windows of 32
    Get(native::MoveArgs),
    /// Registering memory, and the first look at a peer's region beside later ones
    Register(native::RegionArgs),
    /// Messages in one direction, from rank 0 to rank 1
    Rate(native::RateArgs),
    /// A token round all ranks
    Ring(native::RingArgs),
    /// Barriers with work between them
    Barrier(native::BarrierArgs),
    /// One rank's data to all others, by multicast and by a message to each
    Bcast(native::BcastArgs),
    /// Messages that all ranks deliver in one order
    Group(native::GroupArgs),
    /// Steps that exchange boundaries: what they compute, pack and wait
    ///
    /// `weft compare --halo` measures the same by MPI and by sockets beside it, draws it (`--svg`),
    /// and tells the ratios.
    Halo(native::HaloArgs),
    /// What a datagram costs, over all links and over each, and barriers by that and as measured
    Logp(native::LogpArgs),
    /// Processor time of a rank that waits a second
    Idle(native::IdleArgs),
    /// A process of a floor measurement (started by `weft bench floor`)
    #[command(hide = true)]
    Agent(agent::AgentArgs),
    /// What this node's cable is (asked by the process that made a lab)
    #[command(hide = true)]
    Site,
}

/// Runs one benchmark.
///
/// # Errors
/// What kept it from giving its figures.
pub fn run(args: &Args) -> Result<(), CliError> {
    match &args.what {
        What::Floor(args) => floors::run(args),
        What::Lat(args) => native::lat(args),
        What::Bw(args) => native::bw(args),
        What::Put(args) => native::put(args),
        What::Get(args) => native::get(args),
        What::Register(args) => native::register(args),
        What::Rate(args) => native::rate(args),
        What::Ring(args) => native::ring(args),
        What::Barrier(args) => native::barrier(args),
        What::Bcast(args) => native::bcast(args),
        What::Group(args) => native::group(args),
        What::Halo(args) => native::halo(args),
        What::Logp(args) => native::logp(args),
        What::Idle(args) => native::idle(args),
        What::Agent(args) => agent::run(args),
        What::Site => place::tell_site(),
    }
}
