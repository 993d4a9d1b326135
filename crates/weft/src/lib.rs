//! Message passing over shared memory and plain Ethernet.
#![forbid(unsafe_code)]

pub mod device;
