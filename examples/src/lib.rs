//! Example programs on Weft's native API, under `src/bin`. Run them by `weft run`:
//!
//! ```text
//! weft run -n 4 -- target/release/ring
//! weft run -n 2 --lab nodes=2 -- target/release/pingpong
//! weft run -n 2 --lab nodes=2 -- target/release/fdtd --cells 96 --pictures waves
//! ```
//!
//! The longest of them has modules of its own: [`fdtd`].
#![forbid(unsafe_code)]

pub mod fdtd;
