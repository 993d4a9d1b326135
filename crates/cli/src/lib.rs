//! The `weft` command: a module per subcommand, each with the arguments it takes (`Args`) and a
//! function `run` that does the work. The enum `Command` lists them.
//!
//! Exit status: 0 done, 1 failed (a message on standard error says what, why, and what to do),
//! 2 bad usage. Results go to standard output, everything else to standard error.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

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
pub mod manual;
pub mod mpi;
pub mod mpirun;
pub mod output;
pub mod plot;
pub mod profile;
pub mod run;
pub mod sim;
pub mod top;
pub mod tune;
mod version;

pub use error::CliError;

/// Message passing over shared memory and plain Ethernet.
#[derive(Parser, Debug)]
#[command(name = "weft", arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
    /// With --version: also those of frames, provider, libfabric and C library, and the build
    #[arg(long, requires = "version")]
    verbose: bool,
    #[command(subcommand)]
    command: Option<Command>,
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
    ProfilePages(profile::pages::Args),
    #[command(hide = true)]
    MpiCheck(mpi::check::Args),
    #[command(hide = true)]
    MpiRank(mpirun::board::RankArgs),
    /// Prints the environment that puts MPI on Weft, for another launcher
    Env(environment::Args),
    #[command(hide = true)]
    LabHolder(lab::holder::Args),
    /// Shows the jobs of this machine while they run
    Top(top::Args),
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
    /// Writes manual pages, and completions for bash, zsh and fish
    Manual(manual::Args),
}

/// All that the command line may hold, with examples: what it is read by, and what help and manual
/// pages are made of.
pub fn command() -> clap::Command {
    manual::examples::added(Cli::command())
}

/// Reads the command line, does what it says, and gives the exit status.
pub fn main() -> ExitCode {
    let read = Cli::from_arg_matches(&command().get_matches());
    let cli = read.unwrap_or_else(|error| error.exit());
    let Some(command) = cli.command.filter(|_| !cli.version) else {
        println!("{}", version::text(cli.verbose));
        return ExitCode::SUCCESS;
    };
    weft::log::to_standard_error("warn");
    // Commands that another one starts leave it to that one.
    let quiet = matches!(
        command,
        Command::LabHolder(_)
            | Command::RunAgent
            | Command::RunGuard
            | Command::MpirunGuard(_)
            | Command::TuneGuard
            | Command::MpiCheck(_)
            | Command::ProfilePages(_)
            | Command::MpiRank(_)
    );
    if !quiet {
        output::warn_of_unknown_variables();
    }
    let done: Result<ExitCode, CliError> = match command {
        Command::Info(args) => info::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Links(args) => links::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Run(args) => run::run(&args),
        Command::RunAgent => run::agent::run(),
        Command::RunGuard => Ok(run::guard::run()),
        Command::RunProbe(args) => run::probe::run(&args),
        Command::Mpirun(args) => mpirun::run(&args),
        Command::MpirunGuard(args) => Ok(mpirun::sweep::run(&args)),
        Command::ProfilePages(args) => profile::pages::run(&args),
        Command::MpiCheck(args) => mpi::check::run(&args),
        Command::MpiRank(args) => mpirun::board::become_rank(&args),
        Command::Env(args) => environment::run(&args),
        Command::LabHolder(args) => lab::holder::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Bench(args) => bench::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Compare(args) => compare::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Tune(args) => tune::run(&args),
        Command::TuneGuard => Ok(weft::tune::guard::run()),
        Command::Sim(args) => sim::run(&args),
        Command::Manual(args) => manual::run(&args, &self::command()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weft: {error}");
            error.exit_code()
        }
    }
}
