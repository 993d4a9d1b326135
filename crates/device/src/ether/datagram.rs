//! Datagrams, and who hears what is sent to everyone.

use weft_proto::SendError;
use weft_wire::{LinkId, PeerId};

use super::Ether;
use crate::device::Row;

impl Ether {
    /// Sends a datagram with one system call.
    #[inline]
    pub(super) fn send_datagram(&mut self, peer: PeerId, wire: Option<u8>, bytes: &[u8]) -> bool {
        if wire.is_none() {
            return match self.engine.datagram(peer, bytes, &mut self.burst) {
                Ok(link) => self.hand_over(link),
                Err(error) => self.unsent(peer, &error),
            };
        }
        let mut write = |_, into: &mut [u8]| into.copy_from_slice(bytes);
        self.send_row(peer, &mut Row { wire, ..Row::one(bytes.len(), &mut write) })
    }

    /// Gives the burst to a link; it does not wait for a look at the clock.
    #[inline(always)]
    fn hand_over(&mut self, link: LinkId) -> bool {
        let sent = self.links.hand_over(link, &mut self.burst);
        let now = if sent.is_ok() { self.now } else { self.read_clock() };
        self.links.settle_datagram(&mut self.engine, now, link, sent)
    }

    /// Sends a row of datagrams to several: one frame of each for all who are known to hear it, one
    /// each for the others, of whom it is found out meanwhile.
    pub(super) fn send_to_all(&mut self, group: u16, peers: &[PeerId], row: &mut Row<'_>) {
        let link = self.engine.loudest(peers, row);
        let told = link.filter(|&link| self.send_to_everyone(link, group, row));
        for &peer in peers {
            if told.is_none_or(|link| !self.engine.hears(peer, link)) {
                self.send_row(peer, row);
            }
        }
        if peers.len() > 1 {
            self.probe(group, peers);
        }
    }

    /// Sends a row to everyone who hears a link. What the link does not take is lost; `false` where
    /// it takes nothing.
    fn send_to_everyone(&mut self, link: LinkId, group: u16, row: &mut Row<'_>) -> bool {
        let mut at = 0;
        while at < row.count {
            match self.engine.multicast(link, group, row, at, &mut self.burst) {
                Ok(count) if self.hand_over(link) => at += count,
                _ => return at > 0,
            }
        }
        true
    }

    /// Sends a row to one peer; `false` when not all of it went.
    fn send_row(&mut self, peer: PeerId, row: &mut Row<'_>) -> bool {
        let mut at = 0;
        while at < row.count {
            match self.engine.datagrams(peer, row, at, &mut self.burst) {
                Ok((link, count)) if self.hand_over(link) => at += count,
                Ok(_) => return false,
                Err(error) => return self.unsent(peer, &error),
            }
        }
        true
    }

    /// A peer could not be sent a datagram: looks for it, if it may only not be connected.
    #[cold]
    fn unsent(&mut self, peer: PeerId, error: &SendError) -> bool {
        // The hello that looks for it goes out at once.
        if matches!(error, SendError::Full) {
            let now = self.read_clock();
            self.engine.connect(now, peer);
            self.transmit(now);
        }
        false
    }

    /// Asks who hears what is sent to everyone, where that is not known.
    #[inline]
    fn probe(&mut self, group: u16, peers: &[PeerId]) {
        let mut links = self.engine.to_probe(self.now, peers);
        while links != 0 {
            let link = LinkId(links.trailing_zeros() as u8);
            links &= links - 1;
            if self.engine.hear_probe(link, group, &mut self.burst).is_ok() {
                self.hand_over(link);
            }
        }
    }

    /// Tells those who asked that they were heard.
    #[inline]
    pub(super) fn answer_probes(&mut self) {
        while let Some(link) = self.engine.hear_answer(&mut self.burst) {
            self.hand_over(link);
        }
    }
}
