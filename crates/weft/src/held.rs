//! Peers that were asked to hold, because memory for what they send is short here.

use weft_wire::PeerId;

use crate::device::Device;

/// Bytes that a peer may still send after it was asked to hold, before it is expelled: many times
/// what a ring, or the credit of a connection, lets it have under way.
pub(crate) const HELD_MAX: usize = 16 << 20;

/// Who was asked, and what has come from each since.
#[derive(Default)]
pub(crate) struct Held(Vec<(PeerId, usize)>);

impl Held {
    /// Asks a peer to hold, of which these bytes have come; expels one that goes on all the same.
    #[cold]
    pub(crate) fn ask(
        &mut self,
        device: &mut dyn Device,
        peer: PeerId,
        bytes: usize,
        why: &'static str,
    ) {
        match self.0.iter_mut().find(|(held, _)| *held == peer) {
            Some((_, since)) => {
                *since += bytes;
                if *since > HELD_MAX {
                    device.expel(peer, why);
                }
            }
            None => {
                self.0.push((peer, 0));
                device.hold(peer, true);
            }
        }
    }

    /// Whether a peer was asked.
    pub(crate) fn has(&self, peer: PeerId) -> bool {
        self.0.iter().any(|(held, _)| *held == peer)
    }

    /// Whether none was.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all, for them to be let go.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = PeerId> + use<> {
        std::mem::take(&mut self.0).into_iter().map(|(peer, _)| peer)
    }
}
