//! What is known of a message that was received.

use weft_wire::Envelope;

/// What is known of a message, once it has been matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The number of the process that sent it.
    pub source: u32,
    /// What it says of itself.
    pub envelope: Envelope,
    /// Bytes that it has. A receive into less memory than that ends in
    /// [`Error::Truncated`](crate::error::Error::Truncated).
    pub len: usize,
}

impl Status {
    /// Its tag.
    pub fn tag(&self) -> u64 {
        self.envelope.tag
    }
}
