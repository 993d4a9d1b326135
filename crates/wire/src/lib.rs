//! Frame layouts of Weft and their checks: bytes to typed values and back, with no I/O, no clock,
//! no allocation on the path of a message, and no `unsafe`.
//!
//! A **frame** is what a link moves in one piece: one Ethernet payload or one UDP datagram. It
//! begins with a fixed header and carries **chunks** (the word is SCTP's): message fragments,
//! acknowledgements, credits, announcements. All integers are little-endian.
#![forbid(unsafe_code)]

mod address;
mod burst;
mod envelope;
mod id;
mod link_addr;

pub use address::{ADDRESS_LEN, Address, AddressError};
pub use burst::Burst;
pub use envelope::{Envelope, Kind};
pub use id::{LinkId, OpId, PeerId, Ticket};
pub use link_addr::LinkAddr;
