//! Weft for C: what becomes `libweft.so`, and the source of `weft.h`.
//!
//! | file | concern |
//! |---|---|
//! | `error` | the one way into the library: what calls return, and the text of the last error |
//! | `table` | handles: checked numbers, not addresses |
//! | `memory` | what C gives as a pointer and a length |
//! | `job`, `endpoint` | a process's place in its job; its endpoint |
//! | `context` | messages in the memory of the device |
//! | `message` | tagged messages, and requests |
//! | `region` | memory that peers reach |
//! | `joined` | buffers that are connected with a peer's |
//! | `numbers` | types and operators; changing numbers of regions |
//! | `collective`, `group` | what all ranks do together, or some of them |
//! | `halo` | exchange of boundaries by a plan |
//!
//! Every function does what the method of the same name in [`weft`] does. It goes through
//! `error::call`, so that no panic leaves it; handles are looked up, so that a dead one is an
//! error; and memory is checked for null, which is all that can be checked of it. The header is
//! made from these files (`tests/header.rs`): their comments are what C programmers read.
#![allow(non_camel_case_types, reason = "these are the names of C")]
#![allow(clippy::missing_safety_doc, reason = "the comments are C's, and say what memory must be")]

pub mod collective;
pub mod context;
pub mod endpoint;
pub mod error;
pub mod group;
pub mod halo;
pub mod job;
pub mod joined;
mod memory;
pub mod message;
pub mod numbers;
pub mod region;
mod table;
