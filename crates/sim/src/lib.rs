//! Simulated networks that run Weft's real protocol engine, in simulated time.
//!
//! Layers, each usable without the next:
//! * [`queue`] and [`rng`]: time and chance. A run is a seed: the same seed gives the same run on
//!   every machine.
//! * [`net`] and [`world`]: frames on wires and through switches, with faults that can be set while
//!   a run goes on, and the nodes that exchange them.
//! * [`barrier`] and [`exchange`]: the schedules of barriers, with up to a million ranks, and of
//!   reductions and exchanges of blocks.
//! * [`proto`]: processes with the real engine on such a network, and a checker that knows what a
//!   reliable message service may never do.
#![forbid(unsafe_code)]

pub mod barrier;
pub mod exchange;
pub mod net;
pub mod proto;
pub mod queue;
pub mod rng;
pub mod tune;
pub mod world;
