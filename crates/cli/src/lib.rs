//! The `weft` command: a module per subcommand, each with the arguments it takes (`Args`) and a
//! function `run` that does the work. The enum `Command` lists them.
//!
//! Exit status: 0 done, 1 failed (a message on standard error says what, why, and what to do),
//! 2 bad usage. Results go to standard output, everything else to standard error.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod bench;
mod cache;
pub mod compare;
pub mod doctor;
pub mod environment;
pub mod error;
pub mod info;
pub mod interrupt;
pub mod lab;
pub mod links;
pub mod mpi;
pub mod mpirun;
pub mod output;
pub mod plot;
pub mod run;
pub mod sim;
pub mod tune;

pub use error::CliError;

/// Message passing over shared memory and plain Ethernet.
#[derive(Parser, Debug)]
#[command(name = "weft", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What the command can do.
#[derive(Subcommand, Debug)]
enum Command {
    /// Shows devices, links and rights of this node, and what mends what is unusable
    Info(info::Args),
    /// Checks this node for what costs speed or hangs jobs
    Doctor(doctor::Args),
    /// Finds peers on every link: who reaches whom, how fast, and what is odd
    Links(links::Args),
    /// Makes, shows and uses virtual clusters of network namespaces
    Lab(lab::Args),
    /// Runs a native program as a job
    Run(run::Args),
    #[command(hide = true)]
    RunAgent,
    #[command(hide = true)]
    RunGuard,
    #[command(hide = true)]
    RunProbe(run::probe::Args),
    /// Runs an MPI program on Weft, with its own MPI's launcher
    Mpirun(mpirun::Args),
    #[command(hide = true)]
    MpirunGuard(mpirun::sweep::Args),
    #[command(hide = true)]
    MpiCheck(mpi::check::Args),
    #[command(hide = true)]
    MpiRank(mpirun::board::RankArgs),
    /// Prints the environment that puts MPI on Weft, for another launcher
    Env(environment::Args),
    #[command(hide = true)]
    LabHolder(lab::holder::Args),
    /// Measures this machine, and Weft on it
    Bench(bench::Args),
    /// Sets Weft beside sockets and the installed MPI libraries
    Compare(compare::Args),
    /// Shows how long network cards wait before they interrupt, or sets it for a while
    Tune(tune::Args),
    #[command(hide = true)]
    TuneGuard,
    /// Runs the protocol on simulated networks
    Sim(sim::Args),
}

/// Reads the command line, does what it says, and gives the exit status.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    weft::log::to_standard_error("warn");
    // Commands that another one starts leave it to that one.
    let quiet = matches!(
        cli.command,
        Command::LabHolder(_)
            | Command::RunAgent
            | Command::RunGuard
            | Command::MpirunGuard(_)
            | Command::TuneGuard
            | Command::MpiCheck(_)
            | Command::MpiRank(_)
    );
    if !quiet {
        output::warn_of_unknown_variables();
    }
    let done: Result<ExitCode, CliError> = match cli.command {
        Command::Info(args) => info::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Links(args) => links::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Run(args) => run::run(&args).map_err(CliError::from),
        Command::RunAgent => run::agent::run(),
        Command::RunGuard => Ok(run::guard::run()),
        Command::RunProbe(args) => run::probe::run(&args),
        Command::Mpirun(args) => mpirun::run(&args),
        Command::MpirunGuard(args) => Ok(mpirun::sweep::run(&args)),
        Command::MpiCheck(args) => mpi::check::run(&args),
        Command::MpiRank(args) => mpirun::board::become_rank(&args),
        Command::Env(args) => environment::run(&args),
        Command::LabHolder(args) => lab::holder::run(&args),
        Command::Bench(args) => bench::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Compare(args) => compare::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Tune(args) => tune::run(&args),
        Command::TuneGuard => Ok(weft::tune::guard::run()),
        Command::Sim(args) => sim::run(&args),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weft: {error}");
            error.exit_code()
        }
    }
}
