//! Weft's protocol engine, without I/O.
#![forbid(unsafe_code)]

pub mod msg;
