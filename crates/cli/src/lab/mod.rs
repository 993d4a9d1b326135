//! `weft lab`: virtual clusters of network namespaces on this machine, and the library form of
//! them, for `weft run --lab`, benchmarks and tests.
//!
//! A node is a network namespace with a host name of its own; cables are veth pairs, switches are
//! bridges in a namespace that has no address. A cable that does something to frames has a bridge
//! or a thread inside, in a namespace of the lab's own. The namespaces have no names in the file
//! system: a *holder* process keeps them open, so that no lab outlives its holder, and a temporary
//! lab not its owner, even if that is killed. As root the holder makes them directly, else in a
//! user namespace of its own.

mod build;
mod command;
mod drawing;
mod error;
mod forward;
mod handle;
pub mod holder;
mod plan;
mod shape;
mod shaped;
mod spec;
mod state;
mod topology;

pub use command::{Args, run};
pub use drawing::Drawing;
pub use error::LabError;
pub use handle::{Lab, Options};
pub use shape::Shape;
pub use spec::{Addresses, LabSpec};
pub use state::{Record, all, directory};
pub use topology::Topology;

/// The host name of a node.
pub fn node_name(node: u32) -> String {
    format!("node{node}")
}
