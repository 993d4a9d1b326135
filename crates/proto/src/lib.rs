//! Weft's protocol engine, without I/O: frames and the time go in; frames, events and the next
//! deadline come out. It has no clock, no sockets, no threads and no `unsafe`, so the same code
//! runs over real links, in the simulator, and under fuzzers, where a run is a seed.
//!
//! [`Engine`] makes a reliable, ordered message service of lossy links. A message takes this way:
//!
//! 1. [`Engine::send`] (or `reserve`, fill, `commit`) numbers it and keeps it in the peer's
//!    *outbox* ([`msg`]). A first message starts the *greeting* (`peer/greeting.rs`): hellos on
//!    every link.
//! 2. [`Engine::transmit`] picks a peer with work, asks `rail` for a path, and lets the outbox
//!    write as many messages as fit into frames of a burst. Each frame gets a packet number of its
//!    path.
//! 3. [`Engine::receive`] checks header, tag and number of a frame; [`Engine::next`] reads its
//!    chunks one by one. A message in its turn is given to the owner where it lies in the frame;
//!    one that came too early is held in the *inbox*.
//! 4. The frame is acknowledged, with the next frame that goes back, or after a while. What an
//!    acknowledgement says is settled in `peer/settle.rs`: arrived, or lost and to be sent again,
//!    in a new packet on any path.
//!
//! A large message is announced in the same order, pulled by the receiver when it knows where to
//! put it, and its bytes never pass through the engine: frames are filled from, and read into, the
//! owner's memory.
//!
//! | folder | concern |
//! |---|---|
//! | `engine/` | the calls of the owner; what all peers share |
//! | `peer/` | one peer: greeting, life and death, goodbye; filling and reading frames |
//! | `reliable/` | packet numbers, acknowledgements, round trips, loss, probe timeouts |
//! | `cc/` | congestion control: a trait, a file for each algorithm |
//! | `flow/` | credit, STOP and GO |
//! | `msg/` | order, fragments, transfers, and the matching of tags |
//! | `rail/` | which link carries what; which frame size passes |
//!
//! Beside the engine there is [`interrupts`], which decides how long network cards wait before they
//! interrupt.
//!
//! To add a congestion control: a file in `cc/`, a line in [`cc::Algorithm`]. To add a chunk: its
//! layout in weft-wire, and what it means in `peer/take.rs`.
#![forbid(unsafe_code)]

pub mod cc;
mod config;
mod counters;
mod engine;
mod event;
mod flow;
pub mod interrupts;
pub mod msg;
mod peer;
pub mod rail;
pub mod ranges;
mod reliable;
mod route;
mod slab;
mod time;

pub use config::Config;
pub use counters::Counters;
pub use engine::Engine;
pub use event::{Cause, Incoming, LinkSpec, PathState, Payloads, Row, SendError, Warning};
pub use route::Relaying;
pub use time::Instant;
