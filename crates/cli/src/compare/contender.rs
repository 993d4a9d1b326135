//! Who takes part in a comparison, and how one round of each is run.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use weft_sys::process::Setup;

use super::child;
use super::mpi::{MpiRun, Task};
use super::rounds::{Failure, Round, Timed};
use crate::CliError;
use crate::bench::crew::Crew;
use crate::bench::figure::{Figure, size_text};
use crate::bench::floor::Op;
use crate::bench::place::Place;
use crate::interrupt::Interrupt;
use crate::lab::Lab;

/// What every contender measures.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How often.
    pub rounds: u32,
    /// No round begins that would end later than this, but the first ones.
    pub limit: Duration,
    /// Milliseconds per figure.
    pub ms: u64,
    /// Sizes of messages there and back, bytes.
    pub lat_bytes: Vec<u64>,
    /// Sizes of messages in windows of 32, bytes.
    pub bw_bytes: Vec<u64>,
}

/// Where a contender's messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Between two processes of one node.
    Within,
    /// Over a cable between two nodes.
    Between,
    /// Between [`AMONG`] nodes on a switch, a process on each.
    Among,
}

/// Nodes where more than two take part.
pub const AMONG: u32 = 8;

impl Reach {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Reach::Within => "within a node",
            Reach::Between => "over a cable between two nodes",
            Reach::Among => "between nodes on a switch",
        }
    }
}

/// By what means a contender works.
pub enum Means {
    /// Bare system calls.
    Floors(Vec<Op>),
    /// TCP sockets, polled; measured like a message library.
    Sockets,
    /// Weft on a device, with these variables set.
    Weft {
        /// `WEFT_DEVICE`.
        device: &'static str,
        /// Other variables.
        env: Vec<(&'static str, &'static str)>,
        /// What is measured beyond latency and bandwidth: ranks, and the words after `weft bench`.
        more: Vec<(u32, &'static str)>,
    },
    /// Benchmarks of two ranks under `weft run`: the words after `weft bench`, of each.
    Bench {
        /// By benchmark.
        words: Vec<Vec<String>>,
    },
    /// An MPI library, on its own transport or on Weft.
    Mpi(MpiRun),
}

/// One who takes part.
pub struct Contender {
    /// Its name in the table, in the plot and in JSON.
    pub label: String,
    /// Where its messages go.
    pub reach: Reach,
    /// How.
    pub means: Means,
}

/// What is needed to run rounds.
pub struct Arena<'a> {
    /// The two nodes.
    pub place: &'a Place,
    /// More nodes, on switches, where they are wanted.
    pub wide: Vec<Lab>,
    /// Processes for floors.
    pub pair: Crew<'a>,
    /// This node.
    pub here: &'a Place,
    /// Whether all is to end.
    pub stop: &'a Interrupt,
}

impl Arena<'_> {
    /// The lab of so many nodes; none for one.
    ///
    /// # Errors
    /// When there is none.
    pub fn lab(&self, nodes: u32) -> Result<Option<&Lab>, CliError> {
        if nodes == 1 {
            return Ok(None);
        }
        let mut labs = self.place.as_lab().into_iter().chain(&self.wide);
        labs.find(|lab| lab.nodes() == nodes).map(Some).ok_or_else(no_lab)
    }
}

impl Contender {
    /// How many nodes it needs.
    pub fn nodes(&self) -> u32 {
        match (&self.means, self.reach) {
            (Means::Mpi(run), _) => run.layout.nodes,
            (_, Reach::Within) => 1,
            (_, Reach::Between) => 2,
            (_, Reach::Among) => AMONG,
        }
    }

    /// Its name while it is measured.
    pub fn title(&self) -> String {
        let kernel = |run: &MpiRun| {
            let first = run.tasks.first().filter(|task| task.is_kernel());
            first.map_or("patterns", Task::bench)
        };
        match &self.means {
            Means::Mpi(run) => format!("{}, {}", self.label, kernel(run)),
            _ => self.label.clone(),
        }
    }

    /// Whether it is Weft, or an MPI on Weft.
    pub fn is_weft(&self) -> bool {
        match &self.means {
            Means::Weft { .. } | Means::Bench { .. } => true,
            Means::Mpi(run) => run.provider.is_some(),
            Means::Floors(_) | Means::Sockets => false,
        }
    }

    /// Measures everything in `plan` once but for what has `failed` before.
    ///
    /// # Errors
    /// Why nothing could be measured.
    pub fn round(
        &self,
        plan: &Plan,
        arena: &mut Arena<'_>,
        failed: &[Failure],
    ) -> Result<Round, CliError> {
        let figures = match &self.means {
            Means::Floors(ops) => {
                let mut figures = Vec::new();
                for &op in ops {
                    let figure = match op {
                        Op::FutexRing => futex_ring(plan, arena)?,
                        _ => arena.pair.measure(op, plan.ms)?,
                    };
                    figures.push(Timed::now(figure));
                }
                figures
            }
            Means::Sockets => self.sockets(plan, arena)?,
            Means::Weft { device, env, more } => self.weft(plan, arena, device, env, more)?,
            Means::Bench { words } => {
                let mut figures = Vec::new();
                for words in words {
                    let command = self.weft_run(arena, 2, true)?;
                    let words = words.iter().map(String::as_str);
                    figures.extend(self.bench(plan, arena, command, words)?);
                }
                figures
            }
            Means::Mpi(run) => {
                let lab = arena.lab(run.layout.nodes)?;
                return run.round(&self.label, lab, failed, arena.stop);
            }
        };
        Ok(Round { figures, failed: Vec::new() })
    }

    fn sockets(&self, plan: &Plan, arena: &mut Arena<'_>) -> Result<Vec<Timed>, CliError> {
        let lat = plan.lat_bytes.iter().map(|&bytes| ("lat", Op::TcpPoll(bytes)));
        let bw = plan.bw_bytes.iter().map(|&bytes| ("bw", Op::TcpStream(bytes)));
        let mut figures = Vec::new();
        for (bench, op) in lat.chain(bw) {
            let figure = arena.pair.measure(op, plan.ms)?;
            let device = self.label.clone();
            figures.push(Timed::now(Figure { bench: bench.into(), device, ..figure }));
        }
        Ok(figures)
    }

    fn weft(
        &self,
        plan: &Plan,
        arena: &Arena<'_>,
        device: &str,
        env: &[(&str, &str)],
        more: &[(u32, &'static str)],
    ) -> Result<Vec<Timed>, CliError> {
        let sizes = |sizes: &[u64]| -> String {
            let texts: Vec<String> = sizes.iter().map(|b| size_text(*b)).collect();
            texts.join(",")
        };
        let mut benches = Vec::new();
        if self.reach != Reach::Among {
            benches.push((2, format!("lat --bytes {}", sizes(&plan.lat_bytes))));
            benches.push((2, format!("bw --bytes {}", sizes(&plan.bw_bytes))));
        }
        benches.extend(more.iter().map(|(n, words)| (*n, words.to_string())));
        let mut figures: Vec<Timed> = Vec::new();
        for (n, words) in benches {
            let mut command = self.weft_run(arena, n, words != TOKEN)?;
            command.env("WEFT_DEVICE", device).envs(env.iter().copied());
            figures.extend(self.bench(plan, arena, command, words.split(' '))?);
        }
        Ok(figures)
    }

    /// Has a `weft run` run a benchmark; the figures have this contender's name.
    fn bench<'w>(
        &self,
        plan: &Plan,
        arena: &Arena<'_>,
        mut command: Command,
        words: impl Iterator<Item = &'w str>,
    ) -> Result<Vec<Timed>, CliError> {
        command.arg("--").arg(own_program()?).arg("bench").args(words);
        command.args(["--json", "--ms", &plan.ms.to_string()]);
        let run = child::run(command, Setup::default(), plan.time(), None, arena.stop)?;
        let mut figures = run.whole()?;
        figures.iter_mut().for_each(|timed| timed.figure.device.clone_from(&self.label));
        Ok(figures)
    }

    /// `weft run` with `n` ranks, here or on the nodes. If `bound`, each stays on a processor, as
    /// the ranks of MPI libraries do in their benchmark: else Linux takes some 0.1 s to share many
    /// ranks out.
    fn weft_run(&self, arena: &Arena<'_>, n: u32, bound: bool) -> Result<Command, CliError> {
        let mut command = Command::new(own_program()?);
        let bind = if bound { "core" } else { "none" };
        command.args(["run", "--bind", bind, "-n", &n.to_string()]);
        if let Some(lab) = arena.lab(self.nodes())? {
            command.args(["--lab", &lab.record().name]);
        }
        Ok(command)
    }
}

/// The benchmark whose peer, processes on futexes, are not bound either.
pub const TOKEN: &str = "ring";

/// As many processes as its token goes round: Weft's ranks, and their peer's.
pub const TOKEN_RANKS: u32 = 32;

/// The peer of [`TOKEN`], by processes as new as Weft's ranks are: where Linux has put each of them
/// decides (measured with Weft's: 8 to 12 us a hop if all are on one processor, 29 to 39 if each is
/// on another one than the one before it).
fn futex_ring(plan: &Plan, arena: &Arena<'_>) -> Result<Figure, CliError> {
    let mut crew = Crew::start(arena.here, arena.stop, TOKEN_RANKS as usize, false)?;
    crew.measure(Op::FutexRing, plan.ms)
}

fn no_lab() -> CliError {
    CliError::Bench("it needs a lab (run as root)".into())
}

impl Plan {
    /// What is measured, as patterns for MPI libraries.
    pub fn tasks(&self) -> Vec<Task> {
        let of = |bench, sizes: &[u64]| sizes.iter().map(|b| Task::Pattern(bench, *b)).collect();
        let both: [Vec<Task>; 2] = [of("lat", &self.lat_bytes), of("bw", &self.bw_bytes)];
        both.concat()
    }

    /// About how long one contender takes, at most.
    fn time(&self) -> Duration {
        let figures = (self.lat_bytes.len() + self.bw_bytes.len()) as u64;
        Duration::from_millis(self.ms * figures * 3)
    }
}

fn own_program() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(CliError::io("find this program's file"))
}
