//! Reliable broadcast over a network that loses, doubles and reorders datagrams: each byte leaves
//! the sender once, by multicast, and what a receiver misses is sent to it again. No I/O, no clock:
//! frames and the time in, frames and deadlines out.
//!
//! Each rank's broadcasts form one row of *fragments*, numbered without a gap from broadcast to
//! broadcast; so the next one need not wait until the last is confirmed. A datagram carries one
//! fragment, or several that follow each other where that goes to all.
//!
//! - **Repair.** A receiver that sees a gap reports which ranges it misses, a short time later:
//!   each rank after another delay, so that the repair of the first spares the others their
//!   reports. One that waits and hears nothing reports that, too. What one receiver misses goes to
//!   it alone, what several miss to all. What was sent again some times, and is missed still, goes
//!   to each for certain: it may be longer than what paths carry by now.
//! - **Flow control.** A receiver has room for a window of fragments beyond what it has been asked
//!   to receive. The sender keeps within the room of the slowest, and within a *flight* that grows
//!   while nothing is lost, and halves where much is.
//! - **Size.** Each fragment says how long the pieces of its broadcast are, and which one it is; so
//!   the sender can choose what all paths carry, and receivers need not know beforehand. Several
//!   in a datagram are for links with long frames; where much is lost they go one by one for a
//!   while, as repairs always do.
//! - **No implosion.** Without loss a receiver reports only when it is asked: a fragment names at
//!   most one rank that shall report, each in turn, twice a window; and at the end the sender asks
//!   those that have not confirmed, at most [`ASKED_MAX`] at a time.
//! - **Death.** The caller says who is dead: nobody waits for that one any more.
//!
//! | file | concern |
//! |---|---|
//! | `frame` | the three frames as bytes |
//! | `sender` | the one who has the data |
//! | `receiver` | what one rank has of one sender |
//!
//! The sender's asking is NORM's probing (RFC 5740) made selective, the spread reports are those of
//! SRM (Floyd and others, 1997).

mod frame;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use frame::{Asked, Data, Frame, FrameError, RANGES_MAX, Ranges, Report};
pub use receiver::{Receiver, ReceiverError};
pub use sender::{Sender, To};

/// Ranks that are asked to report and have not answered, at most.
pub const ASKED_MAX: usize = 8;

/// Bytes of a fragment in datagrams with this many bytes of payload, frame included.
pub fn piece_of(datagram: usize) -> u16 {
    datagram.saturating_sub(frame::DATA_LEN).clamp(1, usize::from(u16::MAX)) as u16
}

/// What sender and receivers of a group agree on, and how patient they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Fragments of broadcasts that it has not been asked to receive yet that a receiver keeps, a
    /// power of two, and at least eight for each rank.
    pub window: u64,
    /// Fragments that may be under way at once, a power of two and not less.
    pub ahead: u64,
    /// After so long without an answer one asks again, ns; each time without progress twice as
    /// long.
    pub patience_ns: u64,
    /// How long a gap may be the network's reordering, ns.
    pub reorder_ns: u64,
}

impl Limits {
    /// For a group of this size.
    pub fn new(size: u32) -> Limits {
        let window = (8 * u64::from(size)).next_power_of_two().max(256);
        Limits { window, ahead: window.max(2048), patience_ns: 1_000_000, reorder_ns: 50_000 }
    }

    /// Patience after so many tries.
    fn patience(&self, tries: u32) -> u64 {
        self.patience_ns << tries.min(6)
    }
}
