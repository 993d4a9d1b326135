//! Message passing over shared memory and plain Ethernet.
#![forbid(unsafe_code)]

pub mod address;
pub mod composite;
pub mod context;
pub mod device;
pub mod error;
pub mod loopback;

mod patience;
mod station;
