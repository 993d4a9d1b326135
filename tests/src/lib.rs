//! What integration tests share: conformance suites, generic over what they test, and virtual
//! networks to run them on.
#![forbid(unsafe_code)]

pub mod c;
pub mod device_conformance;
pub mod held;
pub mod job;
pub mod link_conformance;
pub mod mpi;
pub mod pages;
pub mod program;
pub mod segment;
