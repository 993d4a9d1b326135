//! Message passing over shared memory and plain Ethernet, for small clusters of ordinary computers.
//!
//! A program runs as several processes, the *ranks* of a *job*, on one machine or several. Each
//! opens a [`Context`](context::Context) on a channel and can then send messages to every other
//! rank:
//!
//! ```
//! use weft::context::{Context, ContextOptions};
//! use weft::wireup::Job;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut job = Job::from_env()?;
//! let mut context = Context::open(&mut job, &ContextOptions::from_env()?)?;
//! let next = (context.rank() + 1) % context.size();
//! let mut message = context.reserve(next, 5)?;
//! message.bytes().copy_from_slice(b"hello");
//! message.send_tagged(7);
//!
//! let message = context.recv()?;
//! println!("rank {} says {}", message.source(), String::from_utf8_lossy(&message));
//! # assert_eq!((&message[..], message.tag()), (&b"hello"[..], 7));
//! # Ok(())
//! # }
//! ```
//!
//! The [`guide`] goes from there to regions and the exchange of boundaries, in ten minutes.
//!
//! # Layers
//!
//! | layer | is | module |
//! |---|---|---|
//! | endpoint | tagged messages of any size, matched as MPI does | [`endpoint`] |
//! | context | a channel with numbered peers; messages built and read in place | [`context`] |
//! | station | the lock, polite waiting, and the tender thread (in `weft-device`) | |
//! | device | a whole, reliable message service for one medium | [`device`] |
//! | | shared memory of one node | [`shm`] |
//! | | Ethernet: the protocol engine over lossy links | [`ether`] |
//! | | the process itself | [`loopback`] |
//! | | several devices as one, by a table | [`composite`] |
//! | groups | barriers of some or all ranks | [`group`] |
//! | collectives | schedules, executed by an endpoint or a simulator | [`collective`] |
//! | regions | memory that peers read, write and change, as programs see it | [`region`] |
//! | halo | boundaries of arrays, exchanged by a plan that is built once | [`halo`] |
//! | windows | memory that peers read, write and change by themselves | [`remote`] |
//! | wire-up | how ranks find each other under a launcher | [`wireup`] |
//! | survey | who is reached over which link, how fast, without a job | [`survey`] |
//! | tune | how long network cards wait before they interrupt | [`tune`] |
//! | version | which versions of frames, libfabric and the C interface this one has | [`version`] |
//! | boundary | what libfabric and MPI need of an endpoint; not for programs | [`boundary`] |
//!
//! A context is for messages that fit one piece and are taken in the order of their arrival; its
//! messages cost the least. An endpoint adds tags, matching, sizes without limit, and operations
//! that go on while the program computes.
//!
//! Every wait is polite (it spins briefly, yields, then sleeps), and none is for ever: what waits
//! for a process that dies ends in an error that names it.
#![forbid(unsafe_code)]

pub mod address;
pub mod boundary;
pub mod collective;
pub mod context;
pub mod endpoint;
pub mod group;
pub mod guide;
pub mod halo;
mod held;
pub mod log;
pub mod region;
pub mod remote;
#[cfg(test)]
mod script;
pub mod survey;
pub mod version;
pub mod wireup;

#[doc(inline)]
pub use weft_device::{attention, composite, device, env, error, ether, loopback, page, shm, tune};
