//! Peers that nobody has sent to: they are called, so that whoever only waits for one learns of its
//! death.

use weft_proto::{Engine, Instant};
use weft_wire::PeerId;

/// A peer is called so long after it was associated, ns. Not at once: most often a message comes
/// first.
const CALL_AFTER_NS: u64 = 20_000_000;

/// Peers called in one poll at most.
const CALLS_PER_POLL: usize = 64;

/// With more peers than this, none is called unless somebody waits for it: each would cost a ping
/// now and then.
pub(super) const CALLED_MAX: usize = 256;

/// Peers to be called, the last first, and when.
#[derive(Default)]
pub(super) struct Calls {
    to_call: Vec<PeerId>,
    at_ns: u64,
}

impl Calls {
    /// Whether nobody is to be called.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.to_call.is_empty()
    }

    /// A peer was associated, and is to be called.
    pub(super) fn add(&mut self, peer: PeerId, now_ns: u64) {
        self.to_call.push(peer);
        self.at_ns = now_ns + CALL_AFTER_NS;
    }

    /// When the next one is due, ns of the monotonic clock.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        (!self.to_call.is_empty()).then_some(self.at_ns)
    }

    /// Calls some, if it is time to.
    #[cold]
    pub(super) fn call_some(&mut self, engine: &mut Engine, now: Instant) {
        if now.0 < self.at_ns {
            return;
        }
        for _ in 0..CALLS_PER_POLL {
            let Some(peer) = self.to_call.pop() else { break };
            engine.connect(now, peer);
        }
    }
}
