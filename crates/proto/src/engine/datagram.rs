//! Datagrams: single frames outside the reliable streams, to one peer or to everyone.

use weft_wire::{
    Burst, FrameError, FrameKind, HEADER_LEN, Header, INDEX_MAX, LinkId, ORIGIN_LEN, Origin,
    PeerId, flags,
};

use super::Engine;
use crate::event::{Cause, Incoming, SendError};
use crate::peer::{State, bit};
use crate::time::Instant;

/// Whether a frame is for whoever hears it and has the job's key.
#[inline]
pub(super) fn is_for_everyone(header: &Header) -> bool {
    header.kind == FrameKind::Datagram && header.port == 0 && header.index == INDEX_MAX
}

/// Bytes that peers are looked for with when a datagram's link is chosen.
const TYPICAL_LEN: usize = 100;

impl Engine {
    /// The longest payload of a datagram, bytes: what fits a frame that every link carries.
    #[inline]
    pub fn datagram_max(&self) -> usize {
        self.hub.least_mtu.min(self.hub.config.base_mtu) - HEADER_LEN - ORIGIN_LEN
    }

    /// Makes `burst` one datagram for `peer` and says by which link to send it, at once. It may get
    /// lost, come twice, or be overtaken; nobody is told.
    ///
    /// # Errors
    /// [`SendError::Full`] while the peer is not connected (it is being looked for from now on) or
    /// no link to it works; [`SendError::TooLong`] above [`Engine::datagram_max`]; the others as
    /// for a message.
    #[inline]
    pub fn datagram(
        &mut self,
        now: Instant,
        peer: PeerId,
        bytes: &[u8],
        burst: &mut Burst,
    ) -> Result<LinkId, SendError> {
        let max = self.datagram_max();
        if bytes.len() > max {
            return Err(SendError::TooLong { max });
        }
        if self.close_at.is_some() {
            return Err(SendError::Dead(Cause::ClosedHere));
        }
        self.connect(now, peer);
        let link = self.fill_datagram(peer, 0, bytes, burst)?;
        self.hub.counters.datagrams_sent += 1;
        Ok(link)
    }

    fn fill_datagram(
        &mut self,
        peer: PeerId,
        flags: u8,
        bytes: &[u8],
        burst: &mut Burst,
    ) -> Result<LinkId, SendError> {
        let hub = &mut self.hub;
        let Some(Some(peer)) = self.peers.get(peer.index()) else {
            return Err(SendError::NoPeer);
        };
        if let State::Ended(why) = peer.state {
            return Err(SendError::Dead(why));
        }
        // Neither the window nor the order binds it: it goes now or never.
        let healthy = |p: &crate::rail::Path| p.takes_words() && !p.suspect;
        let any = peer.paths.iter().any(healthy);
        let paths = peer.paths.iter().filter(|p| p.takes_words() && (!any || !p.suspect));
        let path = paths.min_by_key(|p| hub.links[p.link.index()].time_ns(TYPICAL_LEN));
        let Some(path) = path.filter(|_| peer.state == State::Open) else {
            hub.counters.datagrams_unsent += 1;
            return Err(SendError::Full);
        };
        burst.reset(path.to, hub.links[path.link.index()].spec.headroom);
        let header = Header {
            kind: FrameKind::Datagram,
            flags: flags | flags::CRC,
            port: peer.address.port,
            job: hub.job,
            len: bytes.len() as u16,
            index: peer.index,
            path: path.link.0,
            number: 0,
            crc: 0,
        };
        let len = HEADER_LEN + bytes.len();
        let Some(frame) = burst.space(len) else { return Err(SendError::Full) };
        frame[HEADER_LEN..].copy_from_slice(bytes);
        header.seal(&peer.send_key, frame);
        burst.push(len);
        hub.counters.frames_sent += 1;
        Ok(path.link)
    }

    /// The link over which most of `peers` hear what is sent to everyone, if there are at least
    /// two; the fastest of several.
    pub fn loudest(&self, peers: &[PeerId]) -> Option<LinkId> {
        let mut best: Option<(usize, u64, LinkId)> = None;
        for (at, link) in self.hub.links.iter().enumerate() {
            let id = LinkId(at as u8);
            if !link.up || link.spec.everyone.is_none() {
                continue;
            }
            let count = peers.iter().filter(|&&p| self.hears(p, id)).count();
            let time = link.time_ns(TYPICAL_LEN);
            let better = best.is_none_or(|(c, t, _)| count > c || (count == c && time < t));
            if count >= 2 && better {
                best = Some((count, time, id));
            }
        }
        best.map(|(.., link)| link)
    }

    /// Whether `peer` has said that it hears what is sent to everyone over `link`.
    #[inline]
    pub fn hears(&self, peer: PeerId, link: LinkId) -> bool {
        matches!(self.peers.get(peer.index()), Some(Some(p)) if p.hearing.over() & bit(link) != 0)
    }

    /// Makes `burst` one datagram for all who hear `link`. Whoever has the job's key and knows this
    /// process takes it.
    ///
    /// # Errors
    /// [`SendError::TooLong`]; [`SendError::Full`] where the link cannot do that.
    pub fn multicast(
        &mut self,
        link: LinkId,
        bytes: &[u8],
        burst: &mut Burst,
    ) -> Result<(), SendError> {
        let max = self.datagram_max();
        if bytes.len() > max {
            return Err(SendError::TooLong { max });
        }
        self.fill_multicast(link, bytes, burst)?;
        self.hub.counters.multicasts_sent += 1;
        Ok(())
    }

    fn fill_multicast(
        &mut self,
        id: LinkId,
        bytes: &[u8],
        burst: &mut Burst,
    ) -> Result<(), SendError> {
        let hub = &mut self.hub;
        let link = hub.links.get(id.index()).filter(|link| link.up);
        let Some((link, to)) = link.and_then(|l| Some((l, l.spec.everyone?))) else {
            hub.counters.datagrams_unsent += 1;
            return Err(SendError::Full);
        };
        burst.reset(to, link.spec.headroom);
        let header = Header {
            kind: FrameKind::Datagram,
            flags: flags::CRC,
            port: 0,
            job: hub.job,
            len: (ORIGIN_LEN + bytes.len()) as u16,
            index: INDEX_MAX,
            path: id.0,
            number: 0,
            crc: 0,
        };
        let len = HEADER_LEN + ORIGIN_LEN + bytes.len();
        let Some(frame) = burst.space(len) else { return Err(SendError::Full) };
        let origin = Origin { node: hub.me.node, nonce: hub.me.nonce };
        origin.encode(&mut frame[HEADER_LEN..]);
        frame[HEADER_LEN + ORIGIN_LEN..].copy_from_slice(bytes);
        header.seal(&hub.everyone_key, frame);
        burst.push(len);
        hub.counters.frames_sent += 1;
        Ok(())
    }

    /// The links over which to ask now who of `peers` hears, a bit each: those that lead to a peer
    /// of which it is not known. It counts as asked; follow it by [`Engine::hear_probe`] for each.
    pub fn to_probe(&mut self, now: Instant, peers: &[PeerId]) -> u32 {
        let mut links = 0;
        for peer in peers {
            let Some(Some(p)) = self.peers.get_mut(peer.index()) else { continue };
            if p.state == State::Open && p.hearing.ask(now) {
                links |= p.paths.iter().filter(|p| p.up).fold(0, |all, p| all | bit(p.link));
            }
        }
        let can = |at: usize| self.hub.links[at].spec.everyone.is_some();
        let able = (0..self.hub.links.len()).filter(|&at| can(at));
        links & able.fold(0, |all, at| all | bit(LinkId(at as u8)))
    }

    /// Makes `burst` the question who hears what is sent to everyone over `link`.
    ///
    /// # Errors
    /// [`SendError::Full`] where the link cannot do that.
    pub fn hear_probe(&mut self, link: LinkId, burst: &mut Burst) -> Result<(), SendError> {
        self.fill_multicast(link, &[], burst)?;
        self.hub.counters.hear_probes_sent += 1;
        Ok(())
    }

    /// An answer to such a question, if one is due: fills `burst` and says by which link.
    pub fn hear_answer(&mut self, burst: &mut Burst) -> Option<LinkId> {
        while let Some((peer, heard)) = self.hub.heard.pop() {
            if let Ok(link) = self.fill_datagram(peer, flags::HEARD, &[heard], burst) {
                self.hub.counters.hear_answers_sent += 1;
                return Some(link);
            }
        }
        None
    }

    /// A datagram came.
    pub(super) fn take_datagram(
        &mut self,
        now: Instant,
        link: LinkId,
        header: &Header,
        frame: &[u8],
    ) -> Result<(), FrameError> {
        let everyone = is_for_everyone(header);
        let mut range = HEADER_LEN..HEADER_LEN + usize::from(header.len);
        let id = if everyone {
            let origin =
                Origin::decode(header.body(frame)).ok_or(FrameError::Short(frame.len()))?;
            range.start += ORIGIN_LEN;
            let known = self.nonces.get(&(origin.node, origin.nonce));
            known.ok_or(FrameError::Index(header.index))?.index()
        } else {
            header.index as usize
        };
        let Some(Some(peer)) = self.peers.get_mut(id) else {
            return Err(FrameError::Index(header.index));
        };
        header.verify(if everyone { &peer.everyone_key } else { &peer.receive_key }, frame)?;
        // Without a checksum the tag would say nothing of the body.
        if header.flags & flags::CRC == 0 {
            return Err(FrameError::Crc);
        }
        if let State::Ended(_) = peer.state {
            return Err(FrameError::Gone);
        }
        peer.heard(now, link);
        let hub = &mut self.hub;
        if header.flags & flags::HEARD != 0 && !everyone {
            let over = frame.get(range.start).filter(|_| range.len() == 1);
            let over = *over.ok_or(FrameError::Chunk(FrameKind::Datagram as u8))?;
            peer.hearing.note(LinkId(over));
        } else if everyone && range.is_empty() {
            // An answer for each link that asks; more are not needed, for the question comes again.
            let answer = (peer.id, header.path);
            if hub.heard.len() < HEARD_MAX && !hub.heard.contains(&answer) {
                hub.heard.push(answer);
            }
        } else {
            hub.counters.datagrams_received += 1;
            hub.events.push_back(Incoming::Datagram { peer: peer.id, range });
        }
        Ok(())
    }
}

/// Answers about hearing that may wait.
const HEARD_MAX: usize = 256;
