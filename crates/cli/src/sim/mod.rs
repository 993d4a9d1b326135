//! `weft sim`: the protocol engine and the schedules on simulated networks.

mod barrier;
mod collective;
mod goodput;
mod proto;
mod tune;

use std::process::ExitCode;

use clap::Subcommand;

use crate::CliError;

/// Arguments of `weft sim`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Runs of the protocol engine with faults, checked, each from a seed
    Proto(proto::ProtoArgs),
    /// Barriers of up to a million ranks, under the LogP model
    Barrier(barrier::BarrierArgs),
    /// Reductions and exchanges of blocks, under the LogP model
    Collective(collective::CollectiveArgs),
    /// How much of a wire is used, by loss and round trip
    Goodput(goodput::GoodputArgs),
    /// What delays of interrupts cost programs: fixed ones, the kernel's net_dim, and Weft's own
    Tune(tune::TuneArgs),
}

/// Runs one simulation, or many.
///
/// # Errors
/// What kept it from running; a seed that fails is an exit status.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    match &args.what {
        What::Proto(args) => proto::run(args),
        What::Barrier(args) => barrier::run(args),
        What::Collective(args) => collective::run(args),
        What::Goodput(args) => goodput::run(args),
        What::Tune(args) => tune::run(args),
    }
}
