//! Integration tests of Weft: one binary, a module per part.

mod bad_frames;
mod bad_input;
mod bad_network;
mod c;
mod collectives;
mod devices;
mod fdtd;
mod groups;
mod halo_bench;
mod hosts;
mod joint;
mod last_resort;
mod links;
mod long_frames;
mod manual;
mod mpi;
mod mpi_asleep;
mod mpi_attended;
mod mpi_calls;
mod mpi_collectives;
mod mpi_graphs;
mod mpi_programs;
mod mpi_refused;
mod mpi_windows;
mod mpi_yields;
mod pages;
mod plugged;
mod processes;
mod profile;
mod real_links;
mod regions;
mod relay;
mod rootless;
mod soak;
mod survey;
mod tidy;
mod top;
mod ways;

/// The `weft` command under test.
const WEFT: &str = env!("CARGO_BIN_EXE_weft-for-tests");

/// The example `fdtd`.
const FDTD: &str = env!("CARGO_BIN_EXE_fdtd-for-tests");

/// The program of the ranks in tests of jobs.
const RANK: &str = env!("CARGO_BIN_EXE_test-rank");
