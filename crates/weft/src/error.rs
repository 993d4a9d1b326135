//! The library's errors: each says what failed, why, and what to do.

use weft_wire::PeerId;

/// An error of the library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A peer has died or can no longer be reached.
    #[error("rank {peer} ({name}) is gone: {why}")]
    PeerDead {
        /// Its number.
        peer: PeerId,
        /// Its node and process, for people.
        name: String,
        /// How it was noticed.
        why: String,
    },
}
