//! `weft lab`: virtual clusters of network namespaces on this machine, and the library form of
//! them, for `weft run --lab`, benchmarks and tests.
//!
//! A node is a network namespace with a host name of its own; cables are veth pairs, switches are
//! bridges in a namespace that has no address. The namespaces have no names in the file system:
//! a *holder* process keeps them open, so that no lab outlives its holder, and a temporary lab not
//! its owner, even if that is killed. As root the holder makes them directly, else in a user
//! namespace of its own.

mod build;
mod command;
mod error;
mod handle;
pub mod holder;
mod plan;
mod spec;
mod state;

pub use command::{Args, run};
pub use error::LabError;
pub use handle::{Lab, Options};
pub use spec::{LabSpec, Topology};
pub use state::{Record, all, directory};

/// The host name of a node.
pub fn node_name(node: u32) -> String {
    format!("node{node}")
}
