//! `libweft-calls.so`: how often an MPI program calls what, and how long it is in there. `weft
//! mpirun --profile` preloads it (`LD_PRELOAD`), before all other libraries: each function of MPI
//! that communicates or waits is found here first, and goes on to the next one of its name, that of
//! `libweft-mpi.so` or the MPI library's own.
//!
//! Nothing is known here of the functions but their names: whatever they are given, up to 13
//! machine words, goes on as it came. So one file serves all MPI libraries, whose handles differ.
//!
//! | module | is |
//! |---|---|
//! | `functions` | the functions of MPI, by their names in C |
//! | `count` | what is counted of each call |
//! | `next` | whither a call goes on |
//! | `shown` | the page by which the launcher learns of it ([`weft_device::page::calls`]) |
//! | `loaded` | the shared objects of the process, by the file that the provider has as well |
//!
//! MPICH's and Intel MPI's bindings for Fortran call C's functions by these names, so their
//! programs are counted as well, those of `use mpi_f08` in part: what has a buffer (`MPI_Send`)
//! goes by C's names, all else (`MPI_Init`, `MPI_Wait`) by the profiling names (`PMPI_*`), which
//! are not here. Open MPI's bindings call these only. Where `MPI_Init` was not counted, the
//! launcher sees that calls are missing, and says nothing of them.
#![allow(clippy::too_many_arguments, reason = "MPI's functions have as many")]

mod count;
pub mod functions;
mod loaded;
mod next;
mod shown;
