//! The families of MPI libraries.

/// An MPI library's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Brand {
    /// MPICH, with its launcher Hydra.
    Mpich,
    /// Open MPI, with its launcher PRRTE (5) or ORTE (4).
    #[value(name = "openmpi")]
    OpenMpi,
}

impl Brand {
    /// All that are known.
    pub const ALL: [Brand; 2] = [Brand::Mpich, Brand::OpenMpi];

    /// Its name in results and options.
    pub fn name(self) -> &'static str {
        match self {
            Brand::Mpich => "mpich",
            Brand::OpenMpi => "openmpi",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Brand::Mpich => "MPICH",
            Brand::OpenMpi => "Open MPI",
        }
    }

    /// The file name of its library.
    pub fn library(self) -> &'static str {
        match self {
            Brand::Mpich => "libmpi.so.12",
            Brand::OpenMpi => "libmpi.so.40",
        }
    }

    /// The family that a library's file name belongs to. The common one of MPI 5 belongs to any.
    pub fn of_library(name: &str) -> Option<Brand> {
        Brand::ALL.into_iter().find(|b| b.library() == name)
    }

    /// Names under which its launcher may be installed, the least ambiguous first.
    pub(super) fn launchers(self) -> &'static [&'static str] {
        match self {
            Brand::Mpich => &["mpiexec.hydra", "mpiexec.mpich", "mpiexec"],
            Brand::OpenMpi => &["mpiexec.openmpi", "mpiexec"],
        }
    }

    /// Names under which its compiler may be installed.
    pub(super) fn compilers(self) -> &'static [&'static str] {
        match self {
            Brand::Mpich => &["mpicc.mpich", "mpicc"],
            Brand::OpenMpi => &["mpicc.openmpi", "mpicc"],
        }
    }
}
