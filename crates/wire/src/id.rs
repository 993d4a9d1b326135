//! The numbers by which the crates above name things to each other.

use std::fmt;

/// A peer as the local process numbers it: the rank in a job, or the position in an address table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PeerId(pub u32);

impl PeerId {
    /// The peer's number as an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A link of this process, in the order in which the links were opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LinkId(pub u8);

impl LinkId {
    /// The link's number as an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An operation of the local user that ends later: chosen by the layer that starts the operation,
/// handed back unchanged when it ends. A device never looks inside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct OpId(pub u64);

/// A peer's announcement of a large message, by which the receiver asks for the payload. Chosen by
/// the device; valid until the payload was pulled or the peer died.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ticket(pub u64);
