//! Datagrams, and who hears what is sent to everyone.

use weft_proto::Instant;
use weft_wire::{LinkId, PeerId};

use super::Ether;
use crate::device::SendError;

impl Ether {
    /// Sends a datagram with one system call.
    #[inline]
    pub(super) fn send_datagram(&mut self, peer: PeerId, bytes: &[u8]) -> Result<(), SendError> {
        let now = self.read_clock();
        match self.engine.datagram(now, peer, bytes, &mut self.burst) {
            Ok(link) => self.hand_over(now, link),
            Err(error) => {
                // The hello that looks for it goes out at once.
                if matches!(error, weft_proto::SendError::Full) {
                    self.transmit(now);
                }
                Err(self.refusal(peer, bytes.len(), error))
            }
        }
    }

    /// Gives the burst to a link.
    #[inline]
    fn hand_over(&mut self, now: Instant, link: LinkId) -> Result<(), SendError> {
        let taken = self.links.send_datagram(&mut self.engine, now, link, &mut self.burst);
        if taken { Ok(()) } else { Err(SendError::Full) }
    }

    /// Sends a datagram to several: one frame for all who are known to hear it, one each for the
    /// others, of whom it is found out meanwhile.
    pub(super) fn send_to_all(&mut self, peers: &[PeerId], bytes: &[u8]) {
        let link = self.engine.loudest(peers);
        let now = self.read_clock();
        let mut told = None;
        if let Some(link) = link
            && self.engine.multicast(link, bytes, &mut self.burst).is_ok()
            && self.hand_over(now, link).is_ok()
        {
            told = Some(link);
        }
        let mut asks = peers.len() > 1;
        for &peer in peers {
            if told.is_some_and(|link| self.engine.hears(peer, link)) {
                continue;
            }
            let _ = self.send_datagram(peer, bytes);
            if std::mem::take(&mut asks) {
                self.probe(now, peers);
            }
        }
    }

    /// Asks who hears what is sent to everyone, where that is not known.
    #[cold]
    fn probe(&mut self, now: Instant, peers: &[PeerId]) {
        let mut links = self.engine.to_probe(now, peers);
        while links != 0 {
            let link = LinkId(links.trailing_zeros() as u8);
            links &= links - 1;
            if self.engine.hear_probe(link, &mut self.burst).is_ok() {
                let _ = self.hand_over(now, link);
            }
        }
    }

    /// Tells those who asked that they were heard.
    #[inline]
    pub(super) fn answer_probes(&mut self, now: Instant) {
        while let Some(link) = self.engine.hear_answer(&mut self.burst) {
            let _ = self.hand_over(now, link);
        }
    }
}
