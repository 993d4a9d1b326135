//! Lock-free rings, turn lines and doorbells on memory that two processes share.
//!
//! A **ring** carries items from one [`Producer`] to one [`Consumer`]. An item is a kind, three
//! words (its [`Head`]) and a payload. It lies in one 64-byte slot, payload included where that has
//! at most [`INLINE`] bytes, so that a small message moves exactly one cache line from core to
//! core; a longer payload lies in one contiguous run of the data area. Both are written and read in
//! place.
//!
//! ```text
//! line 0   the consumer's place: what it has given back        written by the consumer, rarely
//! line 1   "I wait for room"                                   written by the producer, rarely
//! line 2.. slots: [seq:32 kind:8 len:24][head: 3 words][32 bytes of payload]
//! then     data area, a byte ring of 64-byte units
//! ```
//!
//! A slot is full when its sequence number is that of the place the consumer has come to; payload
//! never overwrites the sequence number, so nothing has to be cleared and memory of zeros is an
//! empty ring. The consumer gives room back a quarter of the ring at a time, and the producer looks
//! at that line only when the ring seems full: in the steady state the slot's line is the only one
//! that moves. Where a payload lies in the data area follows from the lengths before it; it is
//! never taken from shared memory.
//!
//! A **turn line** ([`Turn`]) is one more line, for both directions: small items that go there and
//! back take it in turn, and cost half of what the lines of two rings do. **Blocks** ([`Blocks`])
//! are the same for longer payloads: room that passes to the other end with what is in it. A
//! [`Duplex`] is one end of a connection: a ring each way, the turn line and the blocks, with one
//! order for all.
//!
//! A **doorbell** ([`Bell`]) is one word that says whether its owner sleeps. Whoever has put an
//! item into a ring looks at it afterwards; whoever wants to sleep sets it first and looks at the
//! rings again: one of the two sees the other.
//!
//! A **board** ([`Board`]) is two words in lines of their own, by which many processes hold
//! barriers. A **slate** ([`Slate`]) is a row of cards for each of them, by which they show each
//! other some bytes.
//!
//! # Trust
//! The other process may write anything at any time. Every control word is read once, and each
//! length and position is checked before use; nonsense ends in [`RingError::Corrupt`]. A payload is
//! handed out as `&[u8]` although a hostile peer could change it while it is read: see
//! [`Consumer::payload`].
//!
//! This crate makes no system call and needs no operating system; `sys` has futexes and mappings.

mod bell;
mod blocks;
mod board;
mod consumer;
mod duplex;
mod layout;
mod memory;
mod producer;
mod slate;
mod sync;
mod ticks;
mod turn;
mod words;

pub use bell::{Bell, Sleep};
pub use blocks::Blocks;
pub use board::Board;
pub use consumer::{Consumer, Item};
pub use duplex::Duplex;
pub use layout::{Geometry, Head, INLINE, LINE};
pub use memory::Memory;
pub use producer::{Producer, Refused};
pub use slate::{Shown, Slate};
pub use ticks::ticks;
pub use turn::{Pace, Taken, Turn};

/// What can be wrong with a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RingError {
    /// The other process has written what no producer or consumer writes.
    #[error("the shared ring holds nonsense ({0}): the other process is broken; restart the job")]
    Corrupt(&'static str),
    /// The memory does not fit the ring.
    #[error("the memory does not fit the ring: {0}")]
    Memory(&'static str),
}
