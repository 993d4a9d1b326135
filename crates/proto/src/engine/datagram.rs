//! Datagrams: single frames outside the reliable streams, to one peer or to everyone.

use weft_wire::{
    Burst, FrameError, FrameKind, GROUPS_PORT, HEADER_LEN, Header, LinkAddr, LinkId, ORIGIN_LEN,
    Origin, PeerId, flags,
};

use super::Engine;
use super::hub::Hub;
use super::row::{datagram_path, fill_row, short_path, wires};
use crate::event::{Cause, PathState, Row, SendError};
use crate::peer::{State, bit};
use crate::rail::{self, Path};
use crate::time::Instant;

/// Whether a frame is for all members of a group: for whoever hears it and has the job's key.
#[inline]
pub(super) fn is_for_group(header: &Header) -> bool {
    header.kind == FrameKind::Datagram && header.port == GROUPS_PORT
}

/// So often at most it is looked whether somebody is to be asked what it hears, ns.
const PROBE_NS: u64 = 250_000;

impl Hub {
    /// Whether a frame is for all members of a group that this process is in.
    #[inline]
    pub(super) fn hears(&self, header: &Header) -> bool {
        is_for_group(header) && self.groups.contains(&(header.index as u16))
    }
}

/// Bytes that peers are looked for with when a datagram's link is chosen.
pub(super) const TYPICAL_LEN: usize = 100;

impl Engine {
    /// The longest payload of a datagram, bytes: what fits a frame that every link carries.
    #[inline]
    pub fn datagram_max(&self) -> usize {
        self.hub.least_mtu.min(self.hub.config.base_mtu) - HEADER_LEN - ORIGIN_LEN
    }

    /// The longest payload, bytes, of datagrams that all of `peers` are known to get now by
    /// whatever way: the least of what their paths carry. Not less than [`Engine::datagram_max`].
    pub fn datagram_room(&self, peers: &[PeerId]) -> usize {
        let least = |peer: &PeerId| {
            let paths = self.peers.get(peer.index())?.as_ref()?.paths.iter();
            paths.filter(|path| path.takes_words()).map(|path| path.mtu).min()
        };
        let base = self.hub.least_mtu.min(self.hub.config.base_mtu);
        let all = peers.iter().map(|peer| least(peer).unwrap_or(base)).min();
        all.unwrap_or(base).max(base) - HEADER_LEN - ORIGIN_LEN
    }

    /// The longest payload, bytes, of datagrams that bring data of `of` bytes to all of `peers`, by
    /// one frame each: what the paths to them carry on the link that takes so much soonest, if none
    /// of them is in trouble. Not less than [`Engine::datagram_room`].
    pub fn multicast_room(&self, peers: &[PeerId], of: usize) -> usize {
        let room = self.datagram_room(peers);
        let Some(link) = self.loudest_for(peers, of, Some) else { return room };
        let carries = |peer: &PeerId| {
            let peer = self.peers.get(peer.index())?.as_ref()?;
            let path = peer.paths.iter().find(|path| path.link == link)?;
            let sound = path.takes_words() && path.is_sound() && !path.rest.is_on();
            (sound && peer.hearing.over() & bit(link) != 0).then_some(path.mtu)
        };
        let least =
            peers.iter().try_fold(usize::MAX, |least, peer| Some(least.min(carries(peer)?)));
        least.map_or(room, |mtu| room.max(mtu - HEADER_LEN - ORIGIN_LEN))
    }

    /// Makes `burst` one datagram for `peer` and says by which link to send it, at once. It may get
    /// lost, come twice, or be overtaken; nobody is told.
    ///
    /// # Errors
    /// [`SendError::Full`] while the peer is not connected ([`Engine::connect`] looks for it) or no
    /// link to it works; [`SendError::TooLong`] above what a link to it carries; the others as
    /// for a message.
    #[inline]
    pub fn datagram(
        &mut self,
        peer: PeerId,
        bytes: &[u8],
        burst: &mut Burst,
    ) -> Result<LinkId, SendError> {
        if let Some(link) = self.short_datagram(peer, bytes, burst) {
            return Ok(link);
        }
        let mut write = |_, into: &mut [u8]| into.copy_from_slice(bytes);
        let mut row = Row::one(bytes.len(), &mut write);
        self.datagrams(peer, &mut row, 0, burst).map(|(link, _)| link)
    }

    /// The usual case, in few steps: a short one to a connected peer, some path to which is well.
    /// `None`: it is another case.
    #[inline]
    fn short_datagram(&mut self, peer: PeerId, bytes: &[u8], burst: &mut Burst) -> Option<LinkId> {
        let hub = &mut self.hub;
        let peer = self.peers.get_mut(peer.index())?.as_mut()?;
        if peer.state != State::Open || self.close_at.is_some() || bytes.len() > TYPICAL_LEN {
            return None;
        }
        let path = short_path(&peer.paths, &hub.links)?;
        let spec = &hub.links[path.link.index()].spec;
        burst.reset(path.to, spec.headroom);
        let frame = burst.space(HEADER_LEN + bytes.len())?;
        frame[HEADER_LEN..].copy_from_slice(bytes);
        let header = header_of(hub, (peer.address.port, peer.index), path.link);
        let header = Header { len: bytes.len() as u16, ..header };
        peer.last_out.seal(&header, &peer.send_key, frame);
        burst.push(HEADER_LEN + bytes.len());
        hub.counters.frames_sent += 1;
        hub.counters.datagrams_sent += 1;
        Some(path.link)
    }

    /// Makes `burst` the datagrams of `row` from number `at` on, as many as fit, for `peer`; says
    /// by which link to send it, and how many there are.
    ///
    /// # Errors
    /// As for [`Engine::datagram`].
    #[inline]
    pub fn datagrams(
        &mut self,
        peer: PeerId,
        row: &mut Row<'_>,
        at: usize,
        burst: &mut Burst,
    ) -> Result<(LinkId, usize), SendError> {
        if self.close_at.is_some() {
            return Err(SendError::Dead(Cause::ClosedHere));
        }
        let (link, count) = self.fill_datagrams(peer, 0, row, at, burst)?;
        self.hub.counters.datagrams_sent += count as u64;
        Ok((link, count))
    }

    fn fill_datagrams(
        &mut self,
        peer: PeerId,
        flags: u8,
        row: &mut Row<'_>,
        at: usize,
        burst: &mut Burst,
    ) -> Result<(LinkId, usize), SendError> {
        let hub = &mut self.hub;
        let Some(Some(peer)) = self.peers.get_mut(peer.index()) else {
            return Err(SendError::NoPeer);
        };
        if let State::Ended(why) = peer.state {
            return Err(SendError::Dead(why));
        }
        let (first, rest) = (row.len_of(at), row.count - at);
        let path = datagram_path(&peer.paths, hub, row, HEADER_LEN + first);
        let Some(path) = path.filter(|_| peer.state == State::Open) else {
            let most = hub.links.iter().map(|link| link.spec.mtu).max().unwrap_or(0);
            let max = most.saturating_sub(HEADER_LEN);
            if first > max && most > 0 {
                return Err(SendError::TooLong { max });
            }
            hub.counters.datagrams_unsent += rest as u64;
            return Err(SendError::Full);
        };
        let spec = &hub.links[path.link.index()].spec;
        burst.reset(path.to, spec.headroom);
        let header = header_of(hub, (peer.address.port, peer.index), path.link);
        let header = Header { flags: header.flags | flags, ..header };
        let count =
            fill_row(burst, spec, (&header, &peer.send_key), &mut peer.last_out, &[], row, at);
        hub.counters.frames_sent += count as u64;
        if count == 0 { Err(SendError::Full) } else { Ok((path.link, count)) }
    }

    /// The link over which most of `peers` hear what is sent to everyone, if there are at least
    /// two; of several that carry its datagrams the one that takes `row` fastest.
    pub fn loudest(&self, peers: &[PeerId], row: &Row<'_>) -> Option<LinkId> {
        self.loudest_for(peers, row.of, |mtu| (row.len <= mtu).then_some(row.len))
    }

    /// As [`Engine::loudest`], for so many bytes, in datagrams of the length that `each` gives for
    /// what a link carries.
    fn loudest_for(
        &self,
        peers: &[PeerId],
        bytes: usize,
        each: impl Fn(usize) -> Option<usize>,
    ) -> Option<LinkId> {
        let bytes = bytes.max(TYPICAL_LEN);
        let mut best: Option<(usize, u64, LinkId)> = None;
        for (at, link) in self.hub.links.iter().enumerate() {
            let id = LinkId(at as u8);
            let Some(each) = each(link.spec.mtu - HEADER_LEN - ORIGIN_LEN) else { continue };
            if !link.up || link.spec.everyone.is_none() {
                continue;
            }
            let hearers = peers.iter().filter(|&&p| self.hears(p, id));
            let (count, further) = hearers.fold((0, 0), |(count, further), &p| {
                (count + 1, self.further_ns(p, id).max(further))
            });
            let time = link.data_ns(bytes, each.max(TYPICAL_LEN)) + further;
            let better = best.is_none_or(|(c, t, _)| count > c || (count == c && time < t));
            if count >= 2 && better {
                best = Some((count, time, id));
            }
        }
        best.map(|(.., link)| link)
    }

    /// From now on this process takes what is sent to all members of groups with these tags, and of
    /// no others.
    pub fn hear_groups(&mut self, tags: &[u16]) {
        self.hub.groups = tags.to_vec();
    }

    /// How many wires lead to `peer` now, of those that work.
    pub fn wires(&self, peer: PeerId) -> usize {
        let peer = self.peers.get(peer.index()).and_then(Option::as_ref);
        peer.map_or(0, |peer| wires(&peer.paths, &self.hub).1)
    }

    /// What leads to `peer` now, of what works.
    pub fn paths(&self, peer: PeerId) -> Vec<PathState> {
        let Some(Some(peer)) = self.peers.get(peer.index()) else { return Vec::new() };
        let between = |path: &Path| self.hub.ways.between(path.link, &path.to, path.hops);
        let links = &self.hub.links;
        let carries = |at: usize| peer.paths[at].bulk && !rail::is_too_slow(&peer.paths, links, at);
        let state = |(at, path): (usize, &Path)| PathState {
            link: path.link,
            hops: path.hops,
            between: between(path).map_or(Vec::new(), <[u64]>::to_vec),
            small: path.prompt,
            bulk: carries(at),
            spare: path.spare,
            rtt_ns: path.sender.rtt.least,
        };
        let all = peer.paths.iter().enumerate();
        all.filter(|(_, path)| path.up && !path.suspect).map(state).collect()
    }

    /// Whether `peer` has said that it hears what is sent to everyone over `link`, and is not
    /// reached better by others.
    #[inline]
    pub fn hears(&self, peer: PeerId, link: LinkId) -> bool {
        let Some(Some(peer)) = self.peers.get(peer.index()) else { return false };
        let is_spare = || peer.paths.iter().any(|path| path.link == link && path.spare);
        peer.hearing.over() & bit(link) != 0 && !is_spare()
    }

    /// By so much `peer` is further over `link` than over the nearest, ns.
    fn further_ns(&self, peer: PeerId, link: LinkId) -> u64 {
        let peer = self.peers.get(peer.index()).and_then(Option::as_ref);
        let over = peer.and_then(|peer| peer.paths.iter().find(|path| path.link == link));
        over.map_or(0, Path::further_ns)
    }

    /// Makes `burst` the datagrams of `row` from number `at` on, as many as fit, for all who hear
    /// `link` and what is for groups with this tag; gives how many. Whoever has the job's key and
    /// knows this process takes them.
    ///
    /// # Errors
    /// [`SendError::TooLong`]; [`SendError::Full`] where the link cannot do that.
    pub fn multicast(
        &mut self,
        link: LinkId,
        group: u16,
        row: &mut Row<'_>,
        at: usize,
        burst: &mut Burst,
    ) -> Result<usize, SendError> {
        let count = self.fill_multicast(link, group, row, at, burst)?;
        self.hub.counters.multicasts_sent += count as u64;
        Ok(count)
    }

    fn fill_multicast(
        &mut self,
        id: LinkId,
        group: u16,
        row: &mut Row<'_>,
        at: usize,
        burst: &mut Burst,
    ) -> Result<usize, SendError> {
        let hub = &mut self.hub;
        let link = hub.links.get(id.index()).filter(|link| link.up);
        let Some((link, to)) = link.and_then(|l| Some((l, l.spec.everyone?))) else {
            hub.counters.datagrams_unsent += 1;
            return Err(SendError::Full);
        };
        let max = link.spec.mtu - HEADER_LEN - ORIGIN_LEN;
        if row.len_of(at) > max {
            return Err(SendError::TooLong { max });
        }
        burst.reset(to, link.spec.headroom);
        let header = header_of(hub, (GROUPS_PORT, u32::from(group)), id);
        let mut origin = [0; ORIGIN_LEN];
        Origin { node: hub.me.node, nonce: hub.me.nonce }.encode(&mut origin);
        let key = &hub.everyone_key;
        let last = &mut hub.last_out;
        let count = fill_row(burst, &link.spec, (&header, key), last, &origin, row, at);
        hub.counters.frames_sent += count as u64;
        if count == 0 { Err(SendError::Full) } else { Ok(count) }
    }

    /// The links over which to ask now who of `peers` hears, a bit each: those that lead to a peer
    /// of which it is not known, or has not been asked for long. It counts as asked; follow it by
    /// [`Engine::hear_probe`] for each.
    /// Costs next to nothing if it was called a short time ago.
    #[inline]
    pub fn to_probe(&mut self, now: Instant, peers: &[PeerId]) -> u32 {
        if now < self.probe_at { 0 } else { self.look_for_deaf(now, peers) }
    }

    #[cold]
    fn look_for_deaf(&mut self, now: Instant, peers: &[PeerId]) -> u32 {
        self.probe_at = now.plus(PROBE_NS);
        let can = |at: usize| self.hub.links[at].spec.everyone.is_some();
        let able = (0..self.hub.links.len()).filter(|&at| can(at));
        let able = able.fold(0, |all, at| all | bit(LinkId(at as u8)));
        let mut links = 0;
        for peer in peers {
            let Some(Some(p)) = self.peers.get_mut(peer.index()) else { continue };
            let to_it = p.paths.iter().filter(|p| p.up).fold(0, |all, p| all | bit(p.link));
            if p.state == State::Open {
                links |= p.hearing.ask(now, to_it & able);
            }
        }
        links
    }

    /// Makes `burst` the question who hears what is sent to a group over `link`.
    ///
    /// # Errors
    /// [`SendError::Full`] where the link cannot do that.
    pub fn hear_probe(
        &mut self,
        link: LinkId,
        group: u16,
        burst: &mut Burst,
    ) -> Result<(), SendError> {
        self.fill_multicast(link, group, &mut Row::one(0, &mut |_, _| ()), 0, burst)?;
        self.hub.counters.hear_probes_sent += 1;
        Ok(())
    }

    /// An answer to such a question, if one is due: fills `burst` and says by which link.
    pub fn hear_answer(&mut self, burst: &mut Burst) -> Option<LinkId> {
        while let Some((peer, heard)) = self.hub.heard.pop() {
            let mut write = |_, into: &mut [u8]| into[0] = heard;
            let mut row = Row::one(1, &mut write);
            if let Ok((link, _)) = self.fill_datagrams(peer, flags::HEARD, &mut row, 0, burst) {
                self.hub.counters.hear_answers_sent += 1;
                return Some(link);
            }
        }
        None
    }

    /// Gives `each` the frames that tell `peer` that this process lives: a link, the address there,
    /// and the frame. They may be sent at any time, and any number of times, without the engine.
    /// None while the peer is not connected.
    pub fn life_signs(
        &self,
        peer: PeerId,
        mut each: impl FnMut(LinkId, LinkAddr, [u8; HEADER_LEN]),
    ) {
        let Some(Some(peer)) = self.peers.get(peer.index()) else { return };
        if peer.state != State::Open {
            return;
        }
        for path in &peer.paths {
            let mut frame = [0; HEADER_LEN];
            let header = header_of(&self.hub, (peer.address.port, peer.index), path.link);
            let header = Header { flags: header.flags | flags::ALIVE, ..header };
            header.seal(&peer.send_key, &mut frame);
            each(path.link, path.to, frame);
        }
    }

    /// A datagram came.
    #[inline]
    pub(super) fn take_datagram(
        &mut self,
        now: Instant,
        link: LinkId,
        header: &Header,
        frame: &[u8],
    ) -> Result<(), FrameError> {
        let everyone = is_for_group(header);
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
        let key = if everyone { &peer.everyone_key } else { &peer.receive_key };
        peer.last_in.verify(header, key, frame)?;
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
        } else if header.flags & flags::ALIVE == 0 {
            hub.counters.datagrams_received += 1;
            self.datagram = Some((peer.id, range));
        }
        Ok(())
    }
}

/// The header of an empty datagram over `link`, for a port and an index there. It has a checksum
/// only where the medium has none.
#[inline]
fn header_of(hub: &Hub, (port, index): (u16, u32), link: LinkId) -> Header {
    let integrity = hub.links[link.index()].spec.integrity;
    Header {
        kind: FrameKind::Datagram,
        flags: if integrity { 0 } else { flags::CRC },
        port,
        job: hub.job,
        len: 0,
        index,
        path: link.0,
        number: 0,
        crc: 0,
    }
}

/// Answers about hearing that may wait.
const HEARD_MAX: usize = 256;
