//! Message passing over shared memory and plain Ethernet.
#![forbid(unsafe_code)]

pub mod address;
pub mod composite;
pub mod context;
pub mod device;
pub mod endpoint;
pub mod env;
pub mod error;
pub mod loopback;
pub mod wireup;

mod patience;
mod station;
