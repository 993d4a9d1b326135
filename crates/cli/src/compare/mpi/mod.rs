//! `weft compare --mpi`: MPI libraries on Weft beside the same libraries on their own transports,
//! running the same programs: kernels of programs, and patterns of communication.

mod cells;
mod layout;
mod library;
mod summary;
mod table;
mod targets;
mod task;
mod wish;
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;

pub use layout::Layout;
pub use library::{Mpi, MpiRun};
pub use task::Task;
pub use work::CROWD;

use super::Args;
use super::contender::{Contender, Means, Plan, Reach};
use super::html::Output;
use super::rounds::Outcome;
use crate::CliError;
use crate::interrupt::Interrupt;
use crate::mpi::{Brand, Install, Preload, Provider, collectives_by_weft};
use cells::Cell;
use wish::Wish;
use work::Kernel;

/// So many times as long as a pattern's figure takes a kernel's.
const KERNEL_MS: u64 = 2;

/// What a library's messages go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Weft.
    Weft,
    /// Weft, which also does collective operations.
    Collectives,
    /// The library's own shared memory within a node, and TCP between nodes.
    Own,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Weft => "weft",
            Side::Collectives => "weft collectives",
            Side::Own => "own",
        }
    }
}

/// The name of a library at a place in results.
fn label(brand: Brand, side: Side, place: Layout) -> String {
    format!("{} {} {}", brand.name(), side.name(), place.name())
}

/// The libraries that are installed, on Weft and on their own transports.
///
/// # Errors
/// When Weft's provider is not found, or a library that it needs, or something is asked for that
/// there is not.
pub fn contenders(args: &Args, plan: &Plan, lab: bool) -> Result<Vec<Contender>, CliError> {
    let wish = Wish::parse(&args.only)?;
    // What is asked for by name is measured whole.
    let brief = args.quick && wish.benches.is_empty();
    let libraries: Vec<Mpi> =
        Mpi::all().into_iter().filter(|mpi| wish.has_brand(mpi.install.brand)).collect();
    let mut all = Vec::new();
    for place in work::places(args.quick) {
        if !wish.has_place(place) || (!lab && place.nodes > 1) {
            continue;
        }
        for mpi in &libraries {
            let mut add = |program: &Path, tasks: Vec<Task>, ms| {
                if tasks.is_empty() {
                    return Ok(());
                }
                let it = Programs { args, wish: &wish, mpi, place, program, tasks, ms };
                it.sides().map(|sides| all.extend(sides))
            };
            for kernel in work::kernels(place, brief) {
                if !wish.has_bench(kernel.name, true) {
                    continue;
                }
                match kernel_tasks(mpi, kernel, brief) {
                    Ok((program, tasks)) => add(&program, tasks, plan.ms * KERNEL_MS)?,
                    Err(why) => {
                        eprintln!("weft: {} of {} is left out: {why}", kernel.name, mpi.name())
                    }
                }
            }
            let mut tasks = work::patterns(place, brief);
            tasks.retain(|task| wish.has_bench(task.bench(), false));
            add(&mpi.patterns, tasks, plan.ms)?;
        }
    }
    Ok(all)
}

/// A program at a place.
struct Programs<'a> {
    args: &'a Args,
    wish: &'a Wish,
    mpi: &'a Mpi,
    place: Layout,
    program: &'a Path,
    tasks: Vec<Task>,
    ms: u64,
}

impl Programs<'_> {
    /// It on Weft, and on the library's own transport.
    fn sides(&self) -> Result<Vec<Contender>, CliError> {
        let Programs { args, wish, mpi, place, .. } = *self;
        let mut sides = vec![Side::Weft, Side::Own];
        if place == work::NODES {
            sides.insert(1, Side::Collectives);
        }
        let mut all = Vec::new();
        for side in sides {
            let label = label(mpi.install.brand, side, place);
            if !wish.has_label(&label) {
                continue;
            }
            let provider = match side {
                Side::Own => None,
                _ => Some(Provider::find(args.provider.as_deref())?),
            };
            let preload = match &provider {
                Some(provider) if side == Side::Collectives => Some(provider.preload()?),
                _ => Preload::find(args.provider.as_deref()),
            };
            // As `weft mpirun` does.
            let shared = place.nodes == 1 && collectives_by_weft(place.ranks);
            let by_weft = shared && preload.is_some();
            let collectives = provider.is_some() && (side == Side::Collectives || by_weft);
            let run = MpiRun {
                install: mpi.install.clone(),
                program: self.program.to_path_buf(),
                provider,
                preload,
                collectives,
                layout: place,
                tasks: self.tasks.clone(),
                ms: self.ms,
            };
            let reach = match place.nodes {
                1 => Reach::Within,
                2 => Reach::Between,
                _ => Reach::Among,
            };
            all.push(Contender { label, reach, means: Means::Mpi(run) });
        }
        Ok(all)
    }
}

fn compiled(install: &Install, kernel: &Kernel) -> Result<PathBuf, CliError> {
    let source = format!("{}.c", kernel.name);
    let files = [(source.as_str(), kernel.source), work::COMMON];
    library::compile(install, kernel.name, &files)
}

/// The kernel of this name compiled for a library.
///
/// # Errors
/// When it cannot be compiled, or there is none.
pub fn kernel_program(install: &Install, name: &str) -> Result<PathBuf, CliError> {
    let kernel = work::KERNELS.iter().find(|kernel| kernel.name == name);
    let none = || CliError::Bench(format!("there is no kernel named {name}"));
    compiled(install, kernel.ok_or_else(none)?)
}

/// A kernel compiled for a library, and what can be measured of it; if `brief`, the first of that.
fn kernel_tasks(mpi: &Mpi, kernel: &Kernel, brief: bool) -> Result<(PathBuf, Vec<Task>), CliError> {
    let program = compiled(&mpi.install, kernel)?;
    let said = Command::new(&program).arg("list").output();
    let said = said.map_err(CliError::io(format!("run {}", program.display())))?;
    let words = String::from_utf8_lossy(&said.stdout);
    let tasks = words.lines().take(if brief { 1 } else { usize::MAX });
    let tasks: Vec<Task> = tasks.map(|word| Task::Kernel(kernel.name, word.into())).collect();
    if tasks.is_empty() {
        let why = String::from_utf8_lossy(&said.stderr).trim().to_string();
        return Err(CliError::Bench(format!("it does not say what it measures: {why}")));
    }
    Ok((program, tasks))
}

/// All cells, by library and place as the contenders are.
fn all_cells(contenders: &[Contender], outcome: &Outcome) -> Vec<Cell> {
    let failed: Vec<(String, Option<Task>)> = outcome
        .failed
        .iter()
        .flat_map(|(at, task)| {
            let contender = &contenders[*at];
            let whole = runs(contender).flat_map(|run| run.tasks.clone());
            let tasks: Vec<Task> = task.clone().map_or_else(|| whole.collect(), |task| vec![task]);
            tasks.into_iter().map(|task| (contender.label.clone(), Some(task)))
        })
        .collect();
    let mut seen: Vec<(Brand, Layout)> = Vec::new();
    let all = contenders.iter().flat_map(runs);
    for run in all.clone() {
        if !seen.contains(&(run.install.brand, run.layout)) {
            seen.push((run.install.brand, run.layout));
        }
    }
    let of = |(brand, place)| {
        let mut tasks: Vec<Task> = Vec::new();
        for run in all.clone().filter(|run| (run.install.brand, run.layout) == (brand, place)) {
            let new = run.tasks.iter().filter(|task| !tasks.contains(task)).cloned();
            let new: Vec<Task> = new.collect();
            tasks.extend(new);
        }
        cells::cells(brand, place, &tasks, &outcome.figures, &failed)
    };
    seen.into_iter().flat_map(of).collect()
}

fn runs(contender: &Contender) -> impl Iterator<Item = &MpiRun> + Clone {
    let run = match &contender.means {
        Means::Mpi(run) => Some(run),
        _ => None,
    };
    run.into_iter()
}

/// Shows what came of the comparison, as tables or as JSON lines, and draws it.
///
/// # Errors
/// When the plot cannot be written.
pub fn show(
    args: &Args,
    stop: &Interrupt,
    contenders: &[Contender],
    outcome: &Outcome,
    page: Option<Output>,
) -> Result<(), CliError> {
    let cells = all_cells(contenders, outcome);
    let judged = targets::targets();
    let shown = table::tables(contenders, &outcome.figures, &judged, &cells);
    match args.json {
        true => table::json(contenders, &outcome.figures, &judged, &cells),
        false => shown.print(),
    }
    let mut pictures = table::pictures(&cells);
    let pairs = contenders.iter().filter(|c| runs(c).all(|run| run.layout.ranks == 2));
    let pairs: Vec<&Contender> = pairs.collect();
    pictures.extend(super::curves(&pairs, &outcome.figures));
    super::draw(args, stop, &shown, &pictures, page)
}
