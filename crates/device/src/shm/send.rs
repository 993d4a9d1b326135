//! The way out: messages and announcements.

use weft_ring::{Head, Refused};
use weft_sys::buf::Buf;
use weft_wire::{Envelope, Kind, OpId, PeerId};

use super::item::{self, Announcement, MAX_PIECES, OfferId};
use super::peer::{Line, State};
use super::region::Entry;
use super::{EAGER_MAX, READER_EAGER_MAX, Shm};
use crate::device::SendError;
use crate::error::Error;

impl Shm {
    /// The peer's place in `peers`, if it is ours.
    #[inline]
    pub(super) fn at(&self, peer: PeerId) -> Option<usize> {
        self.route.get(peer.index()).filter(|&&at| at != u32::MAX).map(|&at| at as usize)
    }

    /// The longest message to `peer` that goes through its ring in one piece.
    #[inline]
    pub(super) fn eager_max(&self, peer: PeerId) -> usize {
        if !self.reads_all {
            return EAGER_MAX;
        }
        let line = self.at(peer).and_then(|at| self.peers[at].line.as_ref());
        line.map_or(EAGER_MAX, |line| line.ends.max_len().min(READER_EAGER_MAX))
    }

    /// The peer's place, for sending: it is connected and lets us send.
    #[inline]
    pub(super) fn way_to(&mut self, peer: PeerId, eager: bool) -> Result<usize, SendError> {
        let Some(at) = self.at(peer) else {
            return Err(SendError::Failed(Error::UnknownPeer { peer }));
        };
        match &self.peers[at].line {
            Some(line) if line.talks && line.backlog.is_empty() => {
                if eager && line.outbox.held() {
                    self.peers[at].refused = true;
                    self.quiet = false;
                    self.count.held += 1;
                    return Err(SendError::Held);
                }
                Ok(at)
            }
            _ => Err(self.no_way_to(at)),
        }
    }

    #[cold]
    fn no_way_to(&mut self, at: usize) -> SendError {
        let peer = &mut self.peers[at];
        if let State::Gone(error) = &peer.state {
            return SendError::Failed(error.clone());
        }
        if let Some(line) = &peer.line {
            if line.bye {
                return SendError::Failed(peer.closed());
            }
            if let Some(why) = &line.ended {
                return SendError::Failed(peer.dead(why));
            }
        }
        if self.closing {
            return SendError::Failed(peer.dead("this process has said goodbye"));
        }
        peer.refused = true;
        self.quiet = false;
        if let State::Idle { retry_ns, wanted: wanted @ false } = &mut peer.state {
            *wanted = true;
            *retry_ns = 0;
            self.next_look_ns = 0;
        }
        self.count.full += 1;
        SendError::Full
    }

    /// What the ring's refusal means to the one above.
    #[cold]
    fn refused(&mut self, at: usize, len: usize, refused: Refused) -> SendError {
        self.quiet = false;
        let peer = &mut self.peers[at];
        match refused {
            Refused::Full => {
                peer.refused = true;
                self.count.full += 1;
                // An announcement needs next to no room, and the receiver can go on without the
                // sender.
                if len > EAGER_MAX { SendError::Held } else { SendError::Full }
            }
            Refused::TooLong => SendError::Failed(Error::TooLong { len, max: EAGER_MAX }),
            Refused::Corrupt(error) => {
                let failed = SendError::Failed(peer.dead(&error.to_string()));
                if let Some(line) = &mut peer.line {
                    line.end(&error.to_string());
                }
                failed
            }
        }
    }

    #[inline]
    fn check_len(&self, peer: PeerId, len: usize) -> Result<(), SendError> {
        if len <= EAGER_MAX {
            return Ok(());
        }
        let max = self.eager_max(peer);
        if len <= max { Ok(()) } else { Err(SendError::Failed(Error::TooLong { len, max })) }
    }

    #[inline]
    pub(super) fn reserve_in(&mut self, peer: PeerId, len: usize) -> Result<(), SendError> {
        self.reserved = usize::MAX;
        self.check_len(peer, len)?;
        let at = self.way_to(peer, true)?;
        if let Some(line) = &mut self.peers[at].line
            && let Err(refused) = line.ends.reserve(len)
        {
            return Err(self.refused(at, len, refused));
        }
        self.reserved = at;
        self.count.sent_bytes += len as u64;
        Ok(())
    }

    #[inline]
    pub(super) fn send_in(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &[u8],
    ) -> Result<(), SendError> {
        self.reserved = usize::MAX;
        self.check_len(peer, payload.len())?;
        let at = self.way_to(peer, true)?;
        let Some(line) = &mut self.peers[at].line else { return Err(SendError::Full) };
        match line.push(item::MESSAGE, item::head(envelope), payload, true) {
            Ok(()) => {
                self.count.sent += 1;
                self.count.sent_bytes += payload.len() as u64;
                self.count.woken += u64::from(line.ring());
                Ok(())
            }
            Err(refused) => Err(self.refused(at, payload.len(), refused)),
        }
    }

    #[inline]
    pub(super) fn datagram_in(&mut self, peer: PeerId, bytes: &[u8]) -> Result<(), SendError> {
        self.reserved = usize::MAX;
        if bytes.len() > EAGER_MAX {
            return Err(SendError::Failed(Error::TooLong { len: bytes.len(), max: EAGER_MAX }));
        }
        let at = self.way_to(peer, false)?;
        let Some(line) = &mut self.peers[at].line else { return Err(SendError::Full) };
        match line.push(item::DATAGRAM, Head::default(), bytes, false) {
            Ok(()) => {
                self.count.datagrams_sent += 1;
                self.count.woken += u64::from(line.ring());
                Ok(())
            }
            Err(refused) => Err(self.refused(at, bytes.len(), refused)),
        }
    }

    /// The line on which something is reserved.
    #[inline]
    pub(super) fn reserved_line(&mut self) -> &mut Line {
        let line = self.peers.get_mut(self.reserved).and_then(|p| p.line.as_mut());
        line.expect("something was reserved, and no poll came between")
    }

    #[inline]
    pub(super) fn commit_in(&mut self, kind: u8, envelope: &Envelope) {
        let line = self.reserved_line();
        line.ends.commit(kind, item::head(envelope));
        let woken = line.ring();
        self.reserved = usize::MAX;
        self.count.sent += 1;
        self.count.woken += u64::from(woken);
    }

    pub(super) fn announce_in(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<(), SendError> {
        self.reserved = usize::MAX;
        let at = self.way_to(peer, false)?;
        let Some(id) = self.peers[at].offers.place(envelope.kind == Kind::ANSWER) else {
            // The peer rings when it has pulled one of them; no room in the ring is waited for.
            self.count.full += 1;
            return Err(SendError::Full);
        };
        let region = self.region_of(at, payload);
        let announcement = describe(id, payload, region);
        let size = announcement.size();
        let put = match &mut self.peers[at].line {
            Some(line) => {
                // Before the ring makes the announcement visible.
                line.outbox.offer(id);
                line.ends.reserve(size).map(|space| announcement.encode(space))
            }
            None => Err(Refused::Full),
        };
        if let Err(refused) = put {
            return Err(self.refused(at, size, refused));
        }
        let peer = &mut self.peers[at];
        peer.offers.put(op, payload);
        if let Some(line) = &mut peer.line {
            line.ends.commit(item::ANNOUNCE, item::head(envelope));
            self.count.woken += u64::from(line.ring());
        }
        self.count.announced += 1;
        self.count.sent_bytes += payload.len() as u64;
        Ok(())
    }

    /// The region that the payload lies in, of which the peer is told first; 0 if in none.
    fn region_of(&mut self, at: usize, payload: &Buf) -> u32 {
        let mut pieces = payload.pieces();
        let (Some(piece), None) = (pieces.next(), pieces.next()) else { return 0 };
        self.show_region(at, piece.addr(), piece.len())
    }

    /// Tells a peer of the region that these bytes lie in; gives its number, 0 if there is none.
    pub(super) fn show_region(&mut self, at: usize, addr: usize, len: usize) -> u32 {
        let Some(entry) = self.regions.find(addr, len) else { return 0 };
        let Some(line) = &mut self.peers[at].line else { return 0 };
        let known = line.told.contains(&entry.id) || tell(line, &entry);
        if known { entry.id } else { 0 }
    }

    pub(super) fn withdraw_in(&mut self, peer: PeerId, op: OpId) -> bool {
        let Some(at) = self.at(peer) else { return false };
        let peer = &mut self.peers[at];
        let (Some(id), Some(line)) = (peer.offers.find(op), &peer.line) else { return false };
        let withdrawn = line.outbox.withdraw(id);
        if withdrawn {
            peer.offers.withdraw(id);
        }
        withdrawn
    }

    /// Tells the peers which regions are gone, so that they unmap them.
    pub(super) fn tell_gone(&mut self) {
        for id in self.regions.take_gone() {
            for line in self.peers.iter_mut().filter_map(|p| p.line.as_mut()) {
                if let Some(found) = line.told.iter().position(|&told| told == id) {
                    line.told.swap_remove(found);
                    line.packet(&super::hello::Packet::Gone { id }, &[]);
                }
            }
        }
    }
}

fn tell(line: &mut Line, entry: &Entry) -> bool {
    use std::os::fd::AsFd;
    let (addr, len) = (entry.addr as u64, entry.mapped as u64);
    let packet = super::hello::Packet::Region { id: entry.id, addr, len };
    let told = line.packet(&packet, &[entry.as_fd()]);
    if told {
        line.told.push(entry.id);
    }
    told
}

/// What the peer is told of a payload.
fn describe(id: OfferId, payload: &Buf, region: u32) -> Announcement {
    let mut pieces = payload.pieces().map(|p| (p.addr() as u64, p.len() as u64));
    let first = pieces.next().unwrap_or_default();
    let mut rest: Vec<(u64, u64)> = pieces.by_ref().take(MAX_PIECES).collect();
    let named = rest.len() < MAX_PIECES;
    if !named {
        rest.clear();
    }
    Announcement { id, len: payload.len() as u64, region, first, rest, named }
}
