//! What a datagram frame for everyone begins with.
//!
//! A datagram is one frame outside the reliable streams. Its packet number is zero, nobody
//! acknowledges it, and it always has a checksum: as all its headers are alike, that is what binds
//! its keyed tag to its body. To one process it names a connection, as other frames do, and its
//! body is the payload. To everyone it goes to port 0, names no connection
//! ([`INDEX_MAX`](crate::INDEX_MAX)), is sealed with the key of [`JobKey::everyone`], and its body
//! begins with its sender's [`Origin`].
//!
//! [`JobKey::everyone`]: crate::JobKey::everyone

use crate::bytes::{put, u64_at};

/// Bytes of an [`Origin`].
pub const ORIGIN_LEN: usize = 16;

/// Who sent a datagram to everyone. Followed by nothing it asks the receivers to say that they have
/// heard it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The sender's node.
    pub node: u64,
    /// The sender's nonce.
    pub nonce: u64,
}

impl Origin {
    /// Writes it at the start of `body`.
    ///
    /// # Panics
    /// If `body` is shorter than [`ORIGIN_LEN`].
    #[inline]
    pub fn encode(&self, body: &mut [u8]) {
        put(body, 0, self.node.to_le_bytes());
        put(body, 8, self.nonce.to_le_bytes());
    }

    /// Reads it from the start of `body`; `None` where that is too short.
    #[inline]
    pub fn decode(body: &[u8]) -> Option<Origin> {
        let whole = body.len() >= ORIGIN_LEN;
        whole.then(|| Origin { node: u64_at(body, 0), nonce: u64_at(body, 8) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_read_as_it_was_written_and_never_from_less() {
        let origin = Origin { node: u64::MAX - 1, nonce: 7 };
        let mut body = [0; ORIGIN_LEN + 1];
        origin.encode(&mut body);
        assert_eq!(Origin::decode(&body), Some(origin));
        assert_eq!(Origin::decode(&body[..ORIGIN_LEN]), Some(origin));
        assert_eq!(Origin::decode(&body[..ORIGIN_LEN - 1]), None);
    }
}
