//! Fuzz harnesses: everything that takes bytes or text from outside the process, and random
//! sequences of operations beside a plain model.
//!
//! Each harness is a function from an input to nothing that panics on a defect. `tests/fuzz.rs`
//! runs them by bolero: a bounded number of times with `cargo test`, for as long as one likes with
//! `make fuzz`. A failure prints its input and `BOLERO_RANDOM_SEED=...`; set that variable to run
//! the same input again.
//!
//! The random operations on the tag matcher stand beside the matcher itself, in `weft-proto`, and
//! harnesses of what is private to `weft` in files named `fuzzed.rs` there.
#![forbid(unsafe_code)]

pub mod group;
pub mod member;
pub mod ring;
pub mod text;
pub mod wire;
