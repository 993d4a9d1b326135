//! Frame layouts of Weft and their checks: bytes to typed values and back, with no I/O, no clock,
//! no allocation on the path of a message, and no `unsafe`.
//!
//! A **frame** is what a link moves in one piece: one Ethernet payload or one UDP datagram. It
//! begins with a fixed header ([`Header`]: who it is for, its packet number, a keyed tag) and
//! carries **chunks** ([`Chunk`]; the word is SCTP's): messages, fragments, acknowledgements,
//! credits, announcements. A [`Hello`] frame carries a fixed body instead, so that two processes
//! that know only each other's [`Address`] find one another. All integers are little-endian.
#![forbid(unsafe_code)]

mod address;
mod burst;
mod bytes;
mod chunk;
mod chunk_write;
mod datagram;
mod envelope;
mod error;
mod header;
mod hello;
mod id;
mod key;
mod last;
mod link_addr;
mod route;
mod run;

pub use address::{ADDRESS_LEN, Address, AddressError};
pub use burst::{Burst, Tail};
pub use chunk::{
    ACK_RANGES_MAX, Ack, Chunk, DATA_LEN, FRAGMENT_LEN, MESSAGE_LEN, PULL_ID_MASK, Pushed,
    begins_with_message, is_datagram, is_message, message_at,
};
pub use chunk_write::ChunkWriter;
pub use datagram::{ORIGIN_LEN, Origin};
pub use envelope::{Envelope, Kind};
pub use error::FrameError;
pub use header::{
    EVERYONE_PORT, FRAME_MAX, FrameKind, GROUP_OFFSET, GROUPS_PORT, HEADER_LEN, Header, INDEX_MAX,
    JOB_OFFSET, MAGIC, PORT_OFFSET, VERSION, flags, whole_len,
};
pub use hello::{HELLO_LEN, Hello};
pub use id::{LinkId, OpId, PeerId, Ticket};
pub use key::{JobKey, Key};
pub use last::LastHeader;
pub use link_addr::LinkAddr;
pub use route::{HOPS_MAX, Hop, Route};
pub use run::{Run, RunReader};
