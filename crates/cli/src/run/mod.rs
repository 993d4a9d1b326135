//! `weft run`: starts the ranks of a native program, on this machine, on the nodes of a lab, or on
//! a few hosts reached by ssh, and serves their wire-up (PMI-1). What MPI programs need is done by
//! the MPI's own launcher.
//!
//! Nothing is left behind: ranks run in process groups of their own and die with this process, also
//! when it is killed; a temporary lab goes with it.

pub mod agent;
mod board;
mod error;
mod frames;
pub mod guard;
mod job;
mod output;
mod place;
pub mod probe;
mod remote;
mod team;
mod way;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use weft_sys::process::Signals;

use crate::CliError;
use crate::lab::{Lab, LabSpec, Options, node_name};
use crate::profile::{Outcome, Profile};
use agent::Start;
use board::Board;
use job::{Job, Policy};
use output::Printer;
use remote::Remote;
use team::{Post, Program, Team};

pub use error::RunError;
pub(crate) use place::{Host, Map, hosts, places};
pub(crate) use team::ending;
pub(crate) use way::{answer_limit, leader, silent, way, way_to, weft_on};

/// The devices that a program can be told to use.
const DEVICES: [&str; 4] = ["composite", "shm", "ether", "loopback"];

/// How ranks are tied to processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Bind {
    /// Each rank to one processor, in turn where there are fewer.
    Core,
    /// Not at all.
    None,
}

/// Runs a native program as a job.
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
    /// The device to use: composite, shm, ether, loopback
    #[arg(long)]
    device: Option<String>,
    /// In which order ranks fill nodes or hosts
    #[arg(long, value_enum, default_value = "block")]
    map: Map,
    /// Tie each rank to a processor
    #[arg(long, value_enum, default_value = "none")]
    bind: Bind,
    /// End the job after so many seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Put rank and place before each line of output
    #[arg(long)]
    label: bool,
    /// Let the other ranks go on when one fails
    #[arg(long)]
    keep_going: bool,
    /// Record the run, and write a report of it when it is over [default FILE: weft-profile.html]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "weft-profile.html")]
    profile: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "a number of seconds is expected")?;
    Duration::try_from_secs_f64(number).map_err(|e| e.to_string())
}

/// Does what the arguments say; the exit status is that of the first rank that failed.
///
/// # Errors
/// When the job cannot be started.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    if let Some(name) = args.device.as_ref().filter(|d| !DEVICES.contains(&d.as_str())) {
        let there = DEVICES.join(", ");
        return Err(RunError::NoDevice { name: name.clone(), there }.into());
    }
    // Before anything is started that would have to be ended.
    let ended_by = [Signal::TERM, Signal::INT, Signal::HUP].map(Signal::as_raw);
    let signals = Signals::take(&ended_by).map_err(RunError::io("taking signals"))?;
    let profile = args.profile.as_deref().map(|file| Profile::prepare(file, args.command()));
    let profile = profile.transpose()?;
    let lab = args.lab.as_deref().map(open_lab).transpose()?;
    let mut launch = Launch::new(args)?;
    launch.program.variables.extend(profile.as_ref().map(Profile::variable));
    match (&args.hosts, &lab) {
        (Some(list), _) => launch.on_hosts(args, list)?,
        (None, lab) => launch.here(args, lab.as_ref())?,
    }
    let policy = Policy { keep_going: args.keep_going, timeout: args.timeout };
    let Launch { team, remotes, places, hosts, board, printer, .. } = launch;
    let others: Vec<String> = remotes.iter().map(|remote| remote.host().to_string()).collect();
    let mut outcome = Outcome { size: args.ranks, ..Outcome::default() };
    let job = Job { team, remotes, places, hosts, board, printer, policy, signals };
    let code = job.run(&mut outcome)?;
    let status = profile.map_or(Ok(code), |profile| profile.finish(code, &outcome, &others));
    if let Some(lab) = lab.filter(|l| l.record().owner == Some(std::process::id())) {
        lab.down()?;
    }
    Ok(ExitCode::from(status?))
}

impl Args {
    /// The program and its arguments, as text.
    fn command(&self) -> Vec<String> {
        self.program.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

/// The lab of that name, or a temporary one of that specification.
pub(crate) fn open_lab(text: &str) -> Result<Lab, RunError> {
    open_lab_as(text, |_| {})
}

/// The lab of that name, or a temporary one of that specification after `change`.
pub(crate) fn open_lab_as(text: &str, change: impl Fn(&mut LabSpec)) -> Result<Lab, RunError> {
    if text.contains('=') {
        let mut spec: LabSpec = text.parse()?;
        change(&mut spec);
        return Ok(Lab::temporary(&spec, &Options::default())?);
    }
    Ok(Lab::find(text)?)
}

/// A job that is being started.
struct Launch {
    program: Program,
    team: Team,
    remotes: Vec<Remote>,
    places: Vec<String>,
    hosts: Vec<Option<usize>>,
    board: Board,
    printer: Printer,
}

/// So many random bytes in hexadecimal digits, for a job's key or name.
///
/// # Errors
/// When the kernel gives none.
pub(crate) fn random_digits(bytes: usize) -> Result<String, RunError> {
    let mut random = vec![0; bytes];
    weft_sys::cpu::random(&mut random).map_err(RunError::io("making the job's key"))?;
    Ok(random.iter().map(|b| format!("{b:02x}")).collect())
}

impl Launch {
    fn new(args: &Args) -> Result<Launch, RunError> {
        let key = (weft::wireup::KEY_NAME.to_string(), random_digits(16)?);
        let name = format!("weft-{}", random_digits(8)?);
        // Ranks look for the job's key on the board of that name.
        let mut variables = vec![("WEFT_RUN".to_string(), name.clone())];
        if let Some(device) = &args.device {
            variables.push(("WEFT_DEVICE".to_string(), device.clone()));
        }
        Ok(Launch {
            program: Program { words: args.program.clone(), size: args.ranks, variables },
            team: Team::default(),
            remotes: Vec::new(),
            places: Vec::new(),
            hosts: Vec::new(),
            board: Board::new(name, args.ranks, [key]),
            printer: Printer::default(),
        })
    }

    /// Labels, once the places are known.
    fn label(&mut self, args: &Args) {
        let label = |(rank, place): (usize, &String)| format!("[{rank}@{place}] ");
        let labels = || self.places.iter().enumerate().map(label).collect();
        self.printer = Printer::new(args.label.then(labels));
    }

    /// Starts all ranks on this machine, on the nodes of `lab` if there is one.
    fn here(&mut self, args: &Args, lab: Option<&Lab>) -> Result<(), RunError> {
        let nodes = lab.map_or(1, Lab::nodes) as usize;
        let placed = places(args.ranks, &vec![None; nodes], args.map)?;
        let here = weft_sys::ns::host_name();
        let name = |node: &usize| lab.map_or(here.clone(), |_| node_name(*node as u32));
        self.places = placed.iter().map(name).collect();
        self.hosts = vec![None; placed.len()];
        self.label(args);
        let cpus = processors(args, placed.len())?;
        let mut seen = vec![0; nodes];
        for (rank, &node) in placed.iter().enumerate() {
            let count = placed.iter().filter(|n| **n == node).count() as u32;
            let enter = lab.map(|l| l.enter(node as u32)).transpose()?;
            let local = (seen[node], count);
            seen[node] += 1;
            let input = if rank == 0 { input()? } else { Stdio::null() };
            let cpu = cpus.get(rank).copied();
            let piped = self.printer.wants_all();
            let post = Post { rank: rank as u32, local, cpu, enter, input, piped };
            self.team.start(&self.program, post)?;
        }
        Ok(())
    }

    /// Has all ranks started by agents on other hosts.
    fn on_hosts(&mut self, args: &Args, list: &str) -> Result<(), RunError> {
        let list = hosts(list)?;
        let limit = answer_limit()?;
        let room: Vec<Option<u32>> = list.iter().map(|h| h.slots).collect();
        let placed = places(args.ranks, &room, args.map)?;
        self.places = placed.iter().map(|&at| list[at].name.clone()).collect();
        self.label(args);
        let directory = std::env::current_dir().map_err(RunError::io("finding this directory"))?;
        let mut variables: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)))
            .filter(|(name, _)| holds_elsewhere(name))
            .collect();
        variables.append(&mut self.program.variables);
        let mut remote_of = vec![None; list.len()];
        for (at, host) in list.iter().enumerate() {
            let ranks = (0..args.ranks).filter(|&r| placed[r as usize] == at);
            let ranks: Vec<_> = ranks.map(|r| (r, None)).collect();
            if ranks.is_empty() {
                continue;
            }
            let start = Start {
                words: args.command(),
                directory: directory.to_string_lossy().into_owned(),
                size: args.ranks,
                variables: variables.clone(),
                ranks,
            };
            remote_of[at] = Some(self.remotes.len());
            self.remotes.push(Remote::start(&host.name, &start, limit)?);
        }
        self.hosts = placed.iter().map(|&at| remote_of[at]).collect();
        Ok(())
    }
}

/// Whether a variable that is set here holds on other hosts as well: Weft's settings do, except for
/// what is true of this machine alone (who it is, and how it gets to the others).
fn holds_elsewhere(name: &str) -> bool {
    name.starts_with("WEFT_") && !["WEFT_NODE", "WEFT_REMOTE_EXE", "WEFT_SSH"].contains(&name)
}

/// The processor of each rank, if they are to be tied: one each, or, where ranks outnumber them, in
/// turn.
fn processors(args: &Args, ranks: usize) -> Result<Vec<usize>, RunError> {
    if args.bind == Bind::None {
        return Ok(Vec::new());
    }
    let allowed = rustix::thread::sched_getaffinity(None)
        .map_err(|e| RunError::io("asking for processors")(e.into()))?;
    let cpus: Vec<usize> =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|&c| allowed.is_set(c)).collect();
    Ok(cpus.into_iter().cycle().take(ranks).collect())
}

/// The standard input of rank 0. A rank is not in the terminal's foreground group and would be
/// stopped if it read from it, so there a thread reads for it.
pub(crate) fn input() -> Result<Stdio, RunError> {
    if !std::io::stdin().is_terminal() {
        return Ok(Stdio::inherit());
    }
    let (from, mut to) = std::io::pipe().map_err(RunError::io("making a pipe"))?;
    std::thread::spawn(move || std::io::copy(&mut std::io::stdin(), &mut to));
    Ok(from.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_true_of_one_machine_is_not_told_to_others() {
        assert!(["WEFT_DEVICE", "WEFT_INTERFACES", "WEFT_LOG"].into_iter().all(holds_elsewhere));
        let here = ["WEFT_NODE", "WEFT_SSH", "WEFT_REMOTE_EXE", "HOME"];
        assert!(!here.into_iter().any(holds_elsewhere));
    }
}
