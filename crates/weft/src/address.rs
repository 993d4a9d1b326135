//! Where a process can be reached: 64 bytes that travel through any wire-up.
pub use weft_wire::Address;
