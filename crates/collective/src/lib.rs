//! Collectives as schedules: what each rank does, step by step, as a pure function of algorithm,
//! rank and size. The same steps run on real processes and, with a million ranks, in the simulator.
//!
//! | file | concern |
//! |---|---|
//! | `algorithm` | the barrier algorithms by name, and what they cost under LogP |
//! | `steps` | the steps of one rank |
//! | `barrier` | a rank's state in barrier after barrier, and the repair of lost frames |
//! | `meeting` | how the ranks of one node meet in a barrier by node |
//! | `broadcast` | reliable broadcast over datagrams |
//! | `exchange` | reductions and exchanges of blocks: the rounds of one rank |
//! | `order` | a group whose members deliver the same messages in the same order |
//! | `quarrel` | which of two members that have lost each other stays |
//! | `way` | the ways that barriers go, by name, and which costs least |
//! | `explore` | every run of a few ranks, for tests of what goes through barriers |
//!
//! No I/O, no clock, no `unsafe`: frames and the time go in; frames and deadlines come out.
#![forbid(unsafe_code)]

mod algorithm;
mod barrier;
pub mod broadcast;
pub mod exchange;
pub mod explore;
#[cfg(test)]
mod explore_tests;
mod meeting;
pub mod order;
pub mod quarrel;
#[cfg(test)]
mod rng;
mod slots;
mod steps;
mod way;

pub use algorithm::{Algorithm, AlgorithmError, Less, LogP, LogPError};
pub use barrier::{Barrier, Mark, Target};
pub use meeting::{Arrival, Meeting, have_all_arrived};
pub use steps::{Step, Steps};
pub use way::{CANDIDATES, OVER_ONE, Way, WayError};
