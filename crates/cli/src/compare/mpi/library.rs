//! The MPI libraries to compare with: programs compiled for them, and the command lines that run
//! these within a node or over cables.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use weft_sys::process::Setup;

use super::{Layout, Task};
use crate::CliError;
use crate::cache::kept;
use crate::compare::child::{self, Run};
use crate::compare::rounds::{Failure, Round};
use crate::interrupt::Interrupt;
use crate::lab::Lab;
use crate::mpi::{Brand, Help, Hosts, Install, Launch, Preload, Provider, Transport, variables};
use crate::mpirun::board::{Board, MARK};
use crate::mpirun::keep_directories;
use crate::mpirun::sweep::Guard;

/// The patterns that the libraries run; some are the same measurements as Weft's own.
const PATTERNS: &str = include_str!("../../../mpi/patterns.c");

/// An installed MPI library with the patterns compiled for it.
#[derive(Clone, Debug)]
pub struct Mpi {
    /// Which.
    pub install: Install,
    /// The program of the patterns.
    pub patterns: PathBuf,
}

impl Mpi {
    /// Finds a library and compiles the patterns for it.
    ///
    /// # Errors
    /// When it is not installed, or they cannot be compiled.
    pub fn find(brand: Brand) -> Result<Mpi, CliError> {
        let install = Install::find(brand)?;
        let patterns = compile(&install, "patterns", &[("patterns.c", PATTERNS)])?;
        Ok(Mpi { install, patterns })
    }

    /// The libraries that are installed.
    pub fn all() -> Vec<Mpi> {
        let found = |brand: Brand| match Mpi::find(brand) {
            Ok(mpi) => Some(mpi),
            Err(why) => {
                eprintln!("weft: {} is left out: {why}", brand.name());
                None
            }
        };
        Brand::ALL.into_iter().filter_map(found).collect()
    }

    /// The family's name in results and options.
    pub fn name(&self) -> &'static str {
        self.install.brand.name()
    }
}

/// Runs of a program.
#[derive(Clone, Debug)]
pub struct MpiRun {
    /// By which library.
    pub install: Install,
    /// Compiled for it.
    pub program: PathBuf,
    /// Weft's provider; none where the library's own transport is measured.
    pub provider: Option<Provider>,
    /// Weft's library for MPI programs, where there is one.
    pub preload: Option<Preload>,
    /// Whether it is to do collective operations.
    pub collectives: bool,
    /// Where its ranks are.
    pub layout: Layout,
    /// What is measured.
    pub tasks: Vec<Task>,
    /// Milliseconds for each.
    pub ms: u64,
}

/// So many starts in a row without any figure, and no more are tried.
const STARTS_MAX: u32 = 2;

impl MpiRun {
    /// Measures everything but what has `failed` before, on this node or on those of a lab. What
    /// comes after a task that fails is measured by a new start.
    ///
    /// # Errors
    /// When it cannot be started at all, or a signal comes.
    pub fn round(
        &self,
        label: &str,
        lab: Option<&Lab>,
        failed: &[Failure],
        stop: &Interrupt,
    ) -> Result<Round, CliError> {
        let gone = |task: &&Task| failed.iter().any(|f| f.task.as_ref() == Some(*task));
        let tasks: Vec<&Task> = self.tasks.iter().filter(|task| !gone(task)).collect();
        let mut left = &tasks[..];
        let (mut round, mut in_vain) = (Round::default(), 0);
        while !left.is_empty() {
            let Run { figures, end } = self.start(label, lab, left, stop)?;
            let done = figures.len().min(left.len());
            round.figures.extend(figures);
            let why = match end {
                Ok(()) if done == left.len() => break,
                Ok(()) => "it gave no figure".to_string(),
                Err(why) => why.to_string(),
            };
            in_vain = if done == 0 { in_vain + 1 } else { 0 };
            // One that fails after its last figure has failed at that.
            let at = done.min(left.len() - 1);
            let to = if in_vain == STARTS_MAX { left.len() } else { at + 1 };
            let fails = |task: &&Task| Failure { task: Some((*task).clone()), why: why.clone() };
            round.failed.extend(left[at..to].iter().map(fails));
            left = &left[to..];
        }
        Ok(round)
    }

    /// Starts the program for these tasks.
    fn start(
        &self,
        label: &str,
        lab: Option<&Lab>,
        tasks: &[&Task],
        stop: &Interrupt,
    ) -> Result<Run, CliError> {
        let board = Board::make()?;
        let (command, setup) = self.command(label, lab, tasks, &board)?;
        // What the launcher leaves is ended after it, also when we are killed.
        let guard = Guard::start(&board.mark());
        let guard = guard.map_err(CliError::io("starting a guard"))?;
        child::run(command, setup, Duration::from_millis(self.ms * 3), Some(guard), stop)
    }

    /// The command for these tasks, and how it is started; its processes have the mark of `board`.
    fn command(
        &self,
        label: &str,
        lab: Option<&Lab>,
        tasks: &[&Task],
        board: &Board,
    ) -> Result<(Command, Setup), CliError> {
        let install = &self.install;
        let transport = if self.provider.is_some() { Transport::Weft } else { Transport::Own };
        let mut settings = variables(install, transport, self.provider.as_ref());
        settings.push((MARK, board.mark()));
        let hosts = lab.map_or(Hosts::Here, |lab| Hosts::Lab(lab, self.layout.share(lab.nodes())));
        let mut program = vec![self.program.clone().into_os_string()];
        program.extend([label.into(), self.ms.to_string().into()]);
        program.extend(tasks.iter().flat_map(|task| task.words()).map(Into::into));
        let launch = Launch {
            install,
            hosts,
            ranks: self.layout.ranks,
            variables: settings
                .into_iter()
                .map(|(name, value)| (name.to_string(), value))
                .collect(),
            preload: self.preload.clone(),
            help: match &self.provider {
                Some(_) => Help::wanted(install.brand, self.collectives),
                None => Help::Nothing,
            },
            calls: None,
            options: Vec::new(),
            program,
            // Programs choose their processors themselves, the same way for every library.
            bind: false,
        };
        let (mut command, setup) = launch.command()?;
        keep_directories(&mut command, install, Some(board));
        Ok((command, setup))
    }
}

/// Compiles a program, once for each version of it and each library: names and contents of its
/// files, the first of which is the source.
///
/// # Errors
/// When there is no compiler, or it fails.
pub fn compile(
    install: &Install,
    program: &str,
    files: &[(&str, &str)],
) -> Result<PathBuf, CliError> {
    let name = install.brand.name();
    let (Some(mpicc), Some(mut compiler)) = (&install.mpicc, install.compiler()) else {
        let mpiexec = install.mpiexec.display();
        return Err(CliError::Bench(format!("there is no mpicc beside {name}'s {mpiexec}")));
    };
    kept(&format!("{program}-{name}"), (files, mpicc), |own| {
        let folder = own.with_extension("source");
        let done = compile_in(&folder, files, &mut compiler, own);
        let _ = fs::remove_dir_all(&folder);
        let done = done.map_err(CliError::io(format!("compile in {}", folder.display())))?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(CliError::Bench(format!(
            "{name}'s mpicc cannot compile {program} (is a C compiler installed?): {}",
            said.trim()
        )))
    })
}

fn compile_in(
    folder: &std::path::Path,
    files: &[(&str, &str)],
    compiler: &mut Command,
    to: &std::path::Path,
) -> std::io::Result<std::process::Output> {
    fs::create_dir_all(folder)?;
    for (name, text) in files {
        fs::write(folder.join(name), text)?;
    }
    let source = files.first().map(|(name, _)| folder.join(name)).unwrap_or_default();
    compiler.args(["-O2", "-o"]).arg(to).arg(source).arg("-lm").output()
}
