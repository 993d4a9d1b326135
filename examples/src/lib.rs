//! Example programs on Weft's native API, under `src/bin`. Run them by `weft run`:
//!
//! ```text
//! weft run -n 4 -- target/release/ring
//! weft run -n 2 --lab nodes=2 -- target/release/pingpong
//! ```
#![forbid(unsafe_code)]
