//! What goes out: messages into the engine, bursts out of it into the links.

use weft_proto::Instant;
use weft_sys::buf::Buf;
use weft_wire::{Envelope, LinkId, OpId, PeerId};

use super::Ether;
use crate::device::SendError;

/// What is sent in one go before arrivals are looked at: so many bytes of large messages ...
const BYTES_PER_ROUND: usize = 512 * 1024;
/// ... and so many bursts of what is short. With many ranks on a core a round is all that a turn on
/// it has, and the next one may be a tenth of a second away: what many peers wait for must not be
/// handed out in morsels.
const BURSTS_PER_ROUND: usize = 128;

/// Once in so many ns a lone message is sent by the clock, so that its acknowledgements measure the
/// round trip; the others do not wait for the clock.
const LOOK_NS: u64 = 20_000;

impl Ether {
    /// Sends what the engine has for the links, within a limit; `true` if the limit was reached.
    pub(super) fn transmit(&mut self, now: Instant) -> bool {
        self.company.goes();
        let mut bytes = 0;
        for _ in 0..BURSTS_PER_ROUND {
            match self.engine.transmit(now, &mut self.transfers, &mut self.burst) {
                Some(link) => {
                    let (engine, burst) = (&mut self.engine, &mut self.burst);
                    bytes += burst.bytes().len() + burst.tail().map_or(0, |tail| tail.len);
                    self.links.send(engine, now, link, burst, &self.transfers);
                }
                None => return false,
            }
            if bytes >= BYTES_PER_ROUND {
                break;
            }
        }
        true
    }

    /// A message was given to the engine: sends it now, unless it does better to wait for company.
    #[inline]
    pub(super) fn after_send(&mut self, now: Instant, peer: PeerId, len: usize) {
        // Where nobody sees to it, nothing waits.
        if !self.company.waits(now.0, peer, len) || !self.is_attended {
            self.transmit(now);
            let now = self.read_clock();
            self.company.done_by(now.0);
        }
    }

    /// Whether the next message, of `len` bytes for `peer`, goes at once.
    #[inline]
    pub(super) fn goes_alone(&mut self, peer: PeerId, len: usize) -> bool {
        self.company.is_alone(peer, len) || {
            let now = self.read_clock();
            self.company.begins_anew(now.0)
        }
    }

    /// Has the engine announce a message; gives the time and the transfer's id.
    pub(super) fn prepare(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<(Instant, OpId), SendError> {
        let (now, len) = (self.read_clock(), payload.len());
        let id = self.transfers.insert(op, payload.clone());
        match self.engine.announce(now, peer, envelope, len as u64, id) {
            Ok(()) => Ok((now, id)),
            Err(error) => {
                self.transfers.remove(id);
                Err(self.refusal(peer, len, error))
            }
        }
    }

    /// The burst is a lone message of `len` bytes: sends it. All else, the clock included, is done
    /// while it is on its way.
    #[inline]
    pub(super) fn send_now(&mut self, peer: PeerId, link: LinkId, len: usize) {
        let sent = self.links.hand_over(link, &mut self.burst);
        let now = self.read_clock();
        self.company.went(now.0, peer, len);
        self.engine.went(now, &self.burst);
        self.links.settle_sent(&mut self.engine, now, link, 1, sent);
    }

    /// The time, for a lone message, and whether it is exact: only now and then.
    #[inline]
    pub(super) fn read_clock_rarely(&mut self) -> (Instant, bool) {
        let exact = self.now.since(self.looked) >= LOOK_NS;
        if exact {
            self.looked = self.read_clock();
        }
        (self.now, exact)
    }
}
