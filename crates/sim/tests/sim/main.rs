//! The real engine on simulated networks: seeds with faults, defects that have to be found, and
//! how much of a wire is used.

mod barrier;
mod canary;
mod exchange;
mod goodput;
mod seeds;
mod tune;
