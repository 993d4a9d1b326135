//! `weft mpirun`: runs an unmodified MPI program on Weft, with its own MPI's launcher.
//!
//! What could go wrong is looked at before the program starts: the provider is found and loads in
//! the MPI's libfabric, on every node; links to the other nodes are usable. Then the environment is
//! set so that the library either runs on Weft or fails, a key is made for the job, and the
//! launcher is started. Nothing is left behind, however it ends: what still runs is found by a mark
//! in its environment and killed, by a guard if this process was killed itself.

pub mod board;
mod errand;
mod leftovers;
mod names;
pub mod sweep;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use weft_sys::process::Setup;

use crate::CliError;
use crate::lab::{Lab, node_name};
use crate::mpi::check::{Site, examine};
use crate::mpi::{
    Brand, Help, Hosts, Install, Launch, MpiError, Preload, Provider, Transport,
    collectives_by_weft, variables,
};
use crate::profile::{Outcome, Profile};
use crate::run::{Host, Map, hosts, open_lab_as, places, random_digits, seconds, way, way_to};
use board::Board;
use errand::Errand;

/// Runs an MPI program on Weft.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How many ranks
    #[arg(short = 'n', long = "ranks", value_parser = clap::value_parser!(u32).range(1..=65536))]
    ranks: u32,
    /// Hosts to run on, as alpha,beta:4 (ranks each)
    #[arg(long, conflicts_with = "lab")]
    hosts: Option<String>,
    /// Run on the nodes of a lab: its name, or a specification such as nodes=2,topology=mesh
    #[arg(long)]
    lab: Option<String>,
    /// Which MPI [default: the one that the program is linked to]
    #[arg(long, value_enum)]
    mpi: Option<Brand>,
    /// Options for the MPI's own launcher, in one word or several: --mpi-args="--map-by node"
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    mpi_args: Vec<String>,
    /// Weft's provider libweft-fi.so, or its directory [default: beside this program, or ../lib]
    #[arg(long, value_name = "FILE")]
    provider: Option<PathBuf>,
    /// Have Weft do collective operations, too: MPI_Barrier, MPI_Bcast, MPI_Allreduce and within a
    /// node some others (which of them, by WEFT_COLLECTIVES). Without this option that is so where
    /// all ranks share one node
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "auto", default_missing_value = "always", hide_default_value = true)]
    collectives: When,
    /// By what messages travel: Weft, or for comparison the MPI's own shared memory and TCP
    #[arg(long, value_enum, default_value = "weft")]
    transport: Transport,
    /// End the job after so many seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Record the run, and write a report of it when it is over [default FILE: weft-profile.html]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "weft-profile.html", conflicts_with = "dry_run")]
    profile: Option<PathBuf>,
    /// Make all checks and show the launcher's command line, but do not start it
    #[arg(long)]
    dry_run: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// When Weft does collective operations for a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum When {
    /// In every job.
    Always,
    /// In none.
    Never,
    /// Where all ranks share one node.
    Auto,
}

impl When {
    /// Whether it does them in a job where it does by itself, or does not.
    fn is_now(self, by_itself: bool) -> bool {
        self == When::Always || self == When::Auto && by_itself
    }
}

/// Where the ranks go.
enum Stage {
    Here,
    Lab(Lab, Vec<u32>),
    Remote(Vec<(String, u32)>),
}

/// Does what the arguments say; the exit status is the launcher's.
///
/// # Errors
/// When the job cannot be started.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let name = args.program.first().map(|p| p.to_string_lossy().into_owned());
    let install = Install::for_program(&name.unwrap_or_default(), args.mpi)?;
    let provider = match args.transport {
        Transport::Weft => Some(Provider::find(args.provider.as_deref())?),
        Transport::Own => None,
    };
    if provider.is_some() {
        install.libfabric()?;
    }
    let preload = preload(args, provider.as_ref())?;
    // Before anything is started that would have to be ended.
    let errand = Errand::prepare()?;
    let mut profile = args.profile()?;
    let calls = calls(profile.as_mut(), provider.as_ref());
    let stage = stage(args)?;
    let by_itself = preload.is_some() && stage.is_shared(args.ranks);
    let collectives = provider.is_some() && args.collectives.is_now(by_itself);
    let settings = variables(&install, args.transport, provider.as_ref());
    let help = match &provider {
        Some(provider) => {
            let (stage, install, settings) = (&stage, &install, &settings[..]);
            let looks = Looks { stage, install, provider, calls: calls.as_deref(), settings };
            looks.helped_by(preload.as_ref(), collectives, args.collectives == When::Always)?
        }
        None => Help::Nothing,
    };
    let mut all: Vec<(String, String)> =
        settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    if provider.is_some() {
        all.push(("WEFT_JOB_KEY".into(), random_digits(16)?));
    }
    all.extend(profile.as_ref().map(Profile::variable));
    let board = (!args.dry_run).then(Board::make).transpose()?;
    if let Some(board) = &board {
        all.push((board::MARK.into(), board.mark()));
    }
    let local = !matches!(stage, Stage::Remote(_));
    let program = args.program(local && !args.dry_run)?;
    let options = args.mpi_args.iter().flat_map(|o| o.split_whitespace()).map(OsString::from);
    let launch = Launch {
        install: &install,
        hosts: stage.hosts(),
        ranks: args.ranks,
        variables: all,
        preload,
        help,
        calls,
        options: options.collect(),
        program,
        bind: true,
    };
    let (mut command, setup) = launch.command()?;
    let Some(board) = board else {
        show(&command);
        return Ok(ExitCode::SUCCESS);
    };
    keep_directories(&mut command, &install, local.then_some(&board));
    let mut outcome = Outcome { size: args.ranks, ..Outcome::default() };
    let mut status = errand.run(command, setup, &launch, board, args.timeout, &mut outcome);
    if let (Some(profile), Ok(code)) = (profile, &status) {
        status = profile.finish(*code, &outcome, &stage.others());
    }
    // The lab of `stage` goes after the job, also after an error.
    drop(launch);
    drop(stage);
    Ok(ExitCode::from(status?))
}

impl Args {
    /// The program and its arguments; `told`: every rank writes down who it is before it becomes
    /// the program.
    fn program(&self, told: bool) -> Result<Vec<OsString>, CliError> {
        let mut program = self.program.clone();
        if told {
            let me = std::env::current_exe().map_err(CliError::io("find this program's file"))?;
            program.splice(0..0, [me.into_os_string(), "mpi-rank".into(), "--".into()]);
        }
        Ok(program)
    }

    /// What is to be recorded, if it is.
    fn profile(&self) -> Result<Option<Profile>, CliError> {
        let Some(file) = &self.profile else { return Ok(None) };
        if self.transport == Transport::Own {
            let why = "--profile records what Weft does: leave out --transport own";
            return Err(CliError::Usage(why.into()));
        }
        let command = self.program.iter().map(|word| word.to_string_lossy().into_owned());
        Profile::prepare(file, command.collect()).map(Some)
    }
}

/// What is looked at on each node before the start.
struct Looks<'a> {
    stage: &'a Stage,
    install: &'a Install,
    provider: &'a Provider,
    calls: Option<&'a str>,
    settings: &'a [(&'static str, String)],
}

impl Looks<'_> {
    /// Looks whether the program can run, and says what Weft's library can do in the ranks: what
    /// only makes them faster is left out where it cannot be had, unless it was asked for.
    fn helped_by(
        &self,
        preload: Option<&Preload>,
        collectives: bool,
        asked: bool,
    ) -> Result<Help, CliError> {
        let wanted = Help::wanted(self.install.brand, collectives);
        let help = preload.map_or(Help::Nothing, |_| wanted);
        let preload = preload.filter(|_| help != Help::Nothing);
        match (self.at_all(preload), preload) {
            (Err(why), Some(preload)) if !asked => {
                self.at_all(None)?;
                let file = &preload.value;
                eprintln!("weft mpirun: without {file}, which would make it faster: {why}");
                Ok(Help::Nothing)
            }
            (looked, _) => looked.map(|()| help),
        }
    }

    /// Looks at each node, and shows what is to be said of it.
    fn at_all(&self, preloaded: Option<&Preload>) -> Result<(), CliError> {
        for site in self.stage.sites()? {
            let node = site.name.clone();
            let Looks { install, provider, calls, settings, .. } = self;
            for note in examine(site, install, provider, preloaded, *calls, settings)? {
                eprintln!("weft mpirun: on {node}: {note}");
            }
        }
        Ok(())
    }
}

/// Weft's library for MPI programs: without it they run as well, only slower.
fn preload(args: &Args, provider: Option<&Provider>) -> Result<Option<Preload>, CliError> {
    match (provider, args.collectives) {
        (Some(provider), When::Always) => Ok(Some(provider.preload()?)),
        (None, When::Always) => {
            let why = "--collectives goes with Weft only: leave out --transport own";
            Err(CliError::Usage(why.into()))
        }
        (Some(provider), _) => Ok(provider.preload().ok()),
        (None, _) => Ok(Preload::find(args.provider.as_deref())),
    }
}

/// What counts the calls of a run that is recorded: without it they are not known.
fn calls(profile: Option<&mut Profile>, provider: Option<&Provider>) -> Option<String> {
    let (profile, provider) = (profile?, provider?);
    provider.calls().map_err(|why| profile.note(format!("calls are not known: {why}"))).ok()
}

/// Has the launcher make its directories in the job's own, which goes with the job also when the
/// launcher is killed. Left behind, they would make a later launcher fail that happens to be a
/// process of the same number.
pub fn keep_directories(command: &mut Command, install: &Install, board: Option<&Board>) {
    if let (Some(name), Some(board)) = (install.directories(), board) {
        command.env(name, board.path().join("launcher"));
    }
}

/// Writes what would be started; the job's key is not among it.
fn show(command: &Command) {
    let told = command.get_envs().filter(|(name, _)| *name != "WEFT_JOB_KEY");
    for (name, value) in told.filter_map(|(name, value)| Some((name, value?))) {
        println!("{}={}", name.to_string_lossy(), value.to_string_lossy());
    }
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|w| w.to_string_lossy()).collect();
    println!("{}", words.join(" "));
}

/// How many nodes the batch system has given, where they are several.
fn allocated(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let names = ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"];
    let count = names.into_iter().find_map(|name| variable(name)?.parse().ok());
    count.filter(|nodes| *nodes > 1)
}

fn stage(args: &Args) -> Result<Stage, CliError> {
    let count = |room: &[Option<u32>]| -> Result<Vec<u32>, CliError> {
        let placed = places(args.ranks, room, Map::Block)?;
        let of = |at: usize| placed.iter().filter(|p| **p == at).count() as u32;
        Ok((0..room.len()).map(of).collect())
    };
    if let Some(lab) = &args.lab {
        // Launchers do not find their way through other nodes, nor does the library's own
        // transport.
        let weft = matches!(args.transport, Transport::Weft);
        let lab = open_lab_as(lab, |spec| spec.management |= weft && !spec.is_joined())?;
        let counts = count(&vec![None; lab.nodes() as usize])?;
        return Ok(Stage::Lab(lab, counts));
    }
    let Some(list) = &args.hosts else {
        if let Some(nodes) = allocated(|name| std::env::var(name).ok()) {
            eprintln!(
                "weft mpirun: all ranks are on this node, one of {nodes} that Slurm has given: \
                 --hosts names those to use, and srun starts ranks on all of them"
            );
        }
        return Ok(Stage::Here);
    };
    let list: Vec<Host> = hosts(list)?;
    let room: Vec<Option<u32>> = list.iter().map(|h| h.slots).collect();
    let counts = count(&room)?.into_iter();
    let used = list.into_iter().zip(counts).filter(|(_, n)| *n > 0);
    Ok(Stage::Remote(used.map(|(host, n)| (host.name, n)).collect()))
}

impl Stage {
    fn hosts(&self) -> Hosts<'_> {
        match self {
            Stage::Here => Hosts::Here,
            Stage::Lab(lab, counts) => Hosts::Lab(lab, counts.clone()),
            Stage::Remote(hosts) => {
                // Where ssh itself leads, launchers know how to use it.
                let way = weft::env::text("WEFT_SSH").map(|_| way().join(" "));
                Hosts::Remote { hosts: hosts.clone(), way }
            }
        }
    }

    /// Whether ranks share this node, all of them, for whom Weft does collective operations.
    fn is_shared(&self, ranks: u32) -> bool {
        matches!(self, Stage::Here) && collectives_by_weft(ranks)
    }

    /// Hosts whose ranks write into directories of their own.
    fn others(&self) -> Vec<String> {
        match self {
            Stage::Here | Stage::Lab(..) => Vec::new(),
            Stage::Remote(hosts) => hosts.iter().map(|(host, _)| host.clone()).collect(),
        }
    }

    /// The places to look at before the start.
    fn sites(&self) -> Result<Vec<Site>, MpiError> {
        match self {
            Stage::Here => {
                let name = weft_sys::ns::host_name();
                let (prefix, setup) = (Vec::new(), Setup::default());
                Ok(vec![Site { name, prefix, setup, needs_links: false }])
            }
            Stage::Lab(lab, counts) => {
                let used = counts.iter().filter(|n| **n > 0).count() as u32;
                let site = |node: u32| {
                    let setup = Setup { enter: Some(lab.enter(node)?), ..Setup::default() };
                    let (name, prefix) = (node_name(node), Vec::new());
                    Ok(Site { name, prefix, setup, needs_links: used > 1 })
                };
                (0..used).map(site).collect()
            }
            Stage::Remote(hosts) => Ok(hosts
                .iter()
                .map(|(host, _)| Site {
                    name: host.clone(),
                    prefix: way_to(host),
                    setup: Setup::default(),
                    needs_links: hosts.len() > 1,
                })
                .collect()),
        }
    }
}
