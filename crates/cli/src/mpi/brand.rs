//! The families of MPI libraries.

/// An MPI library's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Brand {
    /// MPICH, with its launcher Hydra.
    Mpich,
    /// Open MPI, with its launcher PRRTE (5) or ORTE (4).
    #[value(name = "openmpi")]
    OpenMpi,
    /// Intel MPI, with MPICH's binary interface and a Hydra of its own.
    #[value(name = "impi")]
    Intel,
}

impl Brand {
    /// All that are known.
    pub const ALL: [Brand; 3] = [Brand::Mpich, Brand::OpenMpi, Brand::Intel];

    /// Its name in results and options.
    pub fn name(self) -> &'static str {
        match self {
            Brand::Mpich => "mpich",
            Brand::OpenMpi => "openmpi",
            Brand::Intel => "impi",
        }
    }

    /// The wheels that bring it.
    pub fn wheels(self) -> &'static str {
        match self {
            Brand::Mpich => "mpich",
            Brand::OpenMpi => "openmpi",
            Brand::Intel => "impi-rt impi-devel",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Brand::Mpich => "MPICH",
            Brand::OpenMpi => "Open MPI",
            Brand::Intel => "Intel MPI",
        }
    }

    /// The file name of its library.
    pub fn library(self) -> &'static str {
        match self {
            Brand::Mpich | Brand::Intel => "libmpi.so.12",
            Brand::OpenMpi => "libmpi.so.40",
        }
    }

    /// The families whose library has this file name: several where they have one binary interface.
    /// The common one of MPI 5 may be any's, and so may a name without a number.
    pub fn of_library(name: &str) -> Vec<Brand> {
        if name == "libmpi.so" || name.starts_with("libmpi_abi.so") {
            return Brand::ALL.to_vec();
        }
        Brand::ALL.into_iter().filter(|b| b.library() == name).collect()
    }

    /// Names under which its launcher may be installed, the least ambiguous first.
    pub(super) fn launchers(self) -> &'static [&'static str] {
        match self {
            Brand::Mpich => &["mpiexec.hydra", "mpiexec.mpich", "mpiexec"],
            Brand::OpenMpi => &["mpiexec.openmpi", "mpiexec"],
            Brand::Intel => &["mpiexec.hydra", "mpiexec"],
        }
    }

    /// Names under which its compiler may be installed.
    pub(super) fn compilers(self) -> &'static [&'static str] {
        match self {
            Brand::Mpich => &["mpicc.mpich", "mpicc"],
            Brand::OpenMpi => &["mpicc.openmpi", "mpicc"],
            Brand::Intel => &["mpicc"],
        }
    }
}
