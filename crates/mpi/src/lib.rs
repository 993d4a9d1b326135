//! `libweft-mpi.so`: collective operations of unmodified MPI programs by Weft. Preloaded
//! (`LD_PRELOAD`), it stands before the MPI library: `MPI_Barrier`, `MPI_Bcast` and `MPI_Allreduce`
//! of any communicator within one group of processes are done by Weft's groups, and within a node
//! `MPI_Reduce`, `MPI_Allgather` and `MPI_Alltoall`, too; what it does not do better, or at all,
//! goes on to the library by its profiling names (`PMPI_*`). Windows that MPI allocates within a
//! node are memory that all map.
//!
//! One file serves MPICH and Open MPI. Their handles differ (whole numbers there, pointers here):
//! here they are machine words, and `library` knows which library it is.
//!
//! At the first operation on a communicator its processes exchange their addresses by the library
//! itself, make a group, and agree whether all of them could. So what is done by whom is the same
//! at all processes: it depends on that, and on the number of bytes, which MPI demands to be the
//! same.
//!
//! | module | is |
//! |---|---|
//! | `entries` | the functions of MPI that are replaced, by their names in C |
//! | `fortran` | those of Fortran, which lead there by way of the library's own |
//! | `calls` | what they do |
//! | `together` | what is done by memory that all processes of a communicator share |
//! | `comm` | a communicator's group, made at the first use and kept as an attribute |
//! | `level` | what the library provides to threads |
//! | `library` | the MPI library of the process: its functions and constants |
//! | `loaded` | the shared objects of the process, by the file that the provider has as well |
//! | `names` | its predefined datatypes and operators |
//! | `memory` | messages as rows of bytes, whatever their datatype |
//! | `probes` | what a probe may be told, which MPICH's graphs need |
//! | `provider` | the functions of Weft's provider, by which all is done |
//! | `session` | one session for all ranks of a node under MPICH's launcher |
//! | `settings` | what is to be done by Weft |
//! | `window` | one-sided operations within a node, on memory that all its processes map |
//! | `yields` | MPICH's calls of `sched_yield`, of which most are of no use to anybody |
//!
//! Besides, it answers calls of MPICH's that the provider makes needless, and has MPICH's launcher
//! leave the ranks of a node in one session.
//!
//! Nothing is done where the provider is not in use, or the library is another one.
#![allow(clippy::too_many_arguments, reason = "MPI's functions have as many")]

mod calls;
mod comm;
pub mod entries;
pub mod fortran;
mod level;
mod library;
mod loaded;
mod memory;
mod names;
mod probes;
mod provider;
pub mod session;
mod settings;
#[allow(dead_code, reason = "some of it is the provider's")]
mod table;
mod together;
mod window;
pub mod yields;
