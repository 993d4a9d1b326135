//! Weft's protocol engine, without I/O.
#![forbid(unsafe_code)]

pub mod cc;
mod config;
mod counters;
mod engine;
mod event;
mod flow;
pub mod msg;
mod peer;
mod rail;
pub mod ranges;
mod reliable;
mod slab;
mod time;

pub use config::Config;
pub use counters::Counters;
pub use engine::Engine;
pub use event::{Cause, Incoming, LinkSpec, Payloads, Place, SendError, Warning};
pub use time::Instant;
