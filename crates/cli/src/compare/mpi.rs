//! The MPI libraries to compare with: the benchmark compiled for them, and the command lines that
//! run it within a node or over a cable.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use weft_sys::process::Setup;

use crate::CliError;
use crate::cache::kept;
use crate::lab::Lab;
use crate::mpi::{Brand, Help, Hosts, Install, Launch, Preload, Provider, Transport, variables};
use crate::mpirun::board::{Board, MARK};
use crate::mpirun::keep_directories;

/// The benchmark that the libraries run; the same measurements as Weft's own.
const SOURCE: &str = include_str!("../../../../examples/mpi/pair.c");

/// An installed MPI library with the benchmark compiled for it.
#[derive(Clone, Debug)]
pub struct Mpi {
    /// Which.
    pub install: Install,
    program: PathBuf,
}

impl Mpi {
    /// Finds a library and compiles the benchmark for it.
    ///
    /// # Errors
    /// When it is not installed, or the benchmark cannot be compiled.
    pub fn find(brand: Brand) -> Result<Mpi, CliError> {
        let install = Install::find(brand)?;
        let program = compile(&install)?;
        Ok(Mpi { install, program })
    }
}

/// A run of the benchmark.
#[derive(Clone, Debug)]
pub struct MpiRun {
    /// By which library.
    pub mpi: Mpi,
    /// Weft's provider; none where the library's own transport is measured.
    pub provider: Option<Provider>,
    /// Weft's library for MPI programs, where there is one.
    pub preload: Option<Preload>,
    /// Whether it is to do collective operations.
    pub collectives: bool,
    /// How many ranks.
    pub ranks: u32,
    /// What is measured: names of benchmarks, each with sizes after it.
    pub words: Vec<String>,
}

impl MpiRun {
    /// The command that measures for `ms` milliseconds a figure, on this node or on those of a lab,
    /// and how it is started; its processes have the mark of `board`.
    ///
    /// # Errors
    /// When the lab is gone.
    pub fn command(
        &self,
        label: &str,
        ms: u64,
        lab: Option<&Lab>,
        board: &Board,
    ) -> Result<(Command, Setup), CliError> {
        let install = &self.mpi.install;
        let transport = if self.provider.is_some() { Transport::Weft } else { Transport::Own };
        let mut settings = variables(install, transport, self.provider.as_ref());
        settings.push((MARK, board.mark()));
        let hosts = lab.map_or(Hosts::Here, |lab| {
            let nodes = lab.nodes();
            let share = |node| self.ranks / nodes + u32::from(node < self.ranks % nodes);
            Hosts::Lab(lab, (0..nodes).map(share).collect())
        });
        let mut program = vec![self.mpi.program.clone().into_os_string()];
        program.extend([label.into(), ms.to_string().into()]);
        program.extend(self.words.iter().map(Into::into));
        let launch = Launch {
            install,
            hosts,
            ranks: self.ranks,
            variables: settings
                .into_iter()
                .map(|(name, value)| (name.to_string(), value))
                .collect(),
            preload: self.preload.clone(),
            help: match &self.provider {
                Some(_) => Help::wanted(install.brand, self.collectives),
                None => Help::Nothing,
            },
            options: Vec::new(),
            program,
            // The benchmark chooses its processor itself, the same way for every library.
            bind: false,
        };
        let (mut command, setup) = launch.command()?;
        keep_directories(&mut command, install, Some(board));
        Ok((command, setup))
    }

    /// How many figures there will be, at most.
    pub fn figures(&self) -> u64 {
        self.words.len() as u64
    }
}

/// Compiles the benchmark, once for each version of it and each library.
fn compile(install: &Install) -> Result<PathBuf, CliError> {
    let name = install.brand.name();
    let (Some(mpicc), Some(mut compiler)) = (&install.mpicc, install.compiler()) else {
        let mpiexec = install.mpiexec.display();
        return Err(CliError::Bench(format!("there is no mpicc beside {name}'s {mpiexec}")));
    };
    kept(&format!("pair-{name}"), (SOURCE, mpicc), |own| {
        let source = own.with_extension("c");
        fs::write(&source, SOURCE).map_err(CliError::io(format!("write {}", source.display())))?;
        let done = compiler.args(["-O2", "-o"]).arg(own).arg(&source).output();
        let _ = fs::remove_file(&source);
        let done = done.map_err(CliError::io(format!("run {}", mpicc.display())))?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(CliError::Bench(format!(
            "{name}'s mpicc cannot compile the benchmark (is a C compiler installed?): {}",
            said.trim()
        )))
    })
}
