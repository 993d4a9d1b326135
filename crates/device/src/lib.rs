//! Weft's devices, and the waiting for them: what contexts and endpoints stand on.
//!
//! A *device* is a whole, reliable message service for one medium; above the trait
//! [`Device`](device::Device) nobody knows which. A *station* is the lock around a device's owner,
//! with polite waiting and a thread, the *tender*, that makes progress while the program computes.
//! Programs use `weft`, which has the modules that are of use to them under the same names.
//!
//! | module | concern |
//! |---|---|
//! | [`device`] | the trait |
//! | [`shm`] | shared memory of one node |
//! | [`ether`] | Ethernet: the protocol engine over lossy links |
//! | [`loopback`] | the process itself; the template for further devices |
//! | [`composite`] | several devices as one, by a table |
//! | [`station`] | the lock, polite waiting, and the tender thread |
//! | [`attention`] | what a call leaves to the tender |
//! | [`patience`] | how long to spin before sleeping |
//! | [`courtesy`] | letting others run after a send |
//! | [`pace`] | how fast copies of long messages are |
//! | [`tune`] | how long network cards wait before they interrupt |
//! | [`error`], [`env`](mod@env) | the errors of the library, and the `WEFT_*` variables |
#![forbid(unsafe_code)]

pub mod attention;
pub mod composite;
pub mod courtesy;
pub mod device;
pub mod env;
pub mod error;
pub mod ether;
pub mod loopback;
pub mod pace;
pub mod page;
pub mod patience;
pub mod shm;
pub mod station;
pub mod tune;

mod status;

pub use status::Status;
