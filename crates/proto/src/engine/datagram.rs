//! Datagrams: single frames outside the reliable streams, to one peer or to everyone.

use weft_wire::{
    Burst, FrameError, FrameKind, GROUPS_PORT, HEADER_LEN, Header, Key, LinkId, ORIGIN_LEN, Origin,
    PeerId, flags,
};

use super::Engine;
use super::hub::Hub;
use crate::event::{Cause, Incoming, LinkSpec, Row, SendError};
use crate::peer::{PATHS_MAX, State, bit};
use crate::rail::Path;
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
const TYPICAL_LEN: usize = 100;

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
            let sound = path.takes_words() && !path.suspect && !path.rest.is_on();
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
        let mut write = |_, into: &mut [u8]| into.copy_from_slice(bytes);
        let mut row = Row::one(bytes.len(), &mut write);
        self.datagrams(peer, &mut row, 0, burst).map(|(link, _)| link)
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
        let Some(Some(peer)) = self.peers.get(peer.index()) else {
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
        let crc = if spec.integrity { 0 } else { flags::CRC };
        let header = Header {
            kind: FrameKind::Datagram,
            flags: flags | crc,
            port: peer.address.port,
            job: hub.job,
            len: 0,
            index: peer.index,
            path: path.link.0,
            number: 0,
            crc: 0,
        };
        let count = fill_row(burst, spec, &header, &peer.send_key, &[], row, at);
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
            let count = peers.iter().filter(|&&p| self.hears(p, id)).count();
            let time = link.data_ns(bytes, each.max(TYPICAL_LEN));
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

    /// Whether `peer` has said that it hears what is sent to everyone over `link`.
    #[inline]
    pub fn hears(&self, peer: PeerId, link: LinkId) -> bool {
        matches!(self.peers.get(peer.index()), Some(Some(p)) if p.hearing.over() & bit(link) != 0)
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
        let header = Header {
            kind: FrameKind::Datagram,
            flags: if link.spec.integrity { 0 } else { flags::CRC },
            port: GROUPS_PORT,
            job: hub.job,
            len: 0,
            index: u32::from(group),
            path: id.0,
            number: 0,
            crc: 0,
        };
        let mut origin = [0; ORIGIN_LEN];
        Origin { node: hub.me.node, nonce: hub.me.nonce }.encode(&mut origin);
        let count = fill_row(burst, &link.spec, &header, &hub.everyone_key, &origin, row, at);
        hub.counters.frames_sent += count as u64;
        if count == 0 { Err(SendError::Full) } else { Ok(count) }
    }

    /// The links over which to ask now who of `peers` hears, a bit each: those that lead to a peer
    /// of which it is not known. It counts as asked; follow it by [`Engine::hear_probe`] for each.
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
            if p.state == State::Open && p.hearing.ask(now, to_it & able) {
                links |= to_it & able & !p.hearing.over();
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

    /// A datagram came.
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
        header.verify(if everyone { &peer.everyone_key } else { &peer.receive_key }, frame)?;
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

/// The path for datagrams of `row`, of which the next frame has `len` bytes: of those that work the
/// one that takes the row's data soonest. Neither window nor order binds it: it goes now or never.
#[inline]
fn datagram_path<'a>(paths: &'a [Path], hub: &Hub, row: &Row<'_>, len: usize) -> Option<&'a Path> {
    let medium = row.wire.and_then(|wire| wire_of(paths, hub, wire));
    let (bytes, each) = (row.of.max(TYPICAL_LEN), row.len.max(TYPICAL_LEN));
    let mut best: Option<((bool, u64), &Path)> = None;
    for path in paths {
        let link = &hub.links[path.link.index()];
        let wired = medium.is_none_or(|medium| link.spec.medium == medium);
        if path.takes_words() && wired && len <= link.spec.mtu {
            // One that has stopped answering only where there is no other.
            let key = (path.suspect, link.data_ns(bytes, each));
            if best.is_none_or(|(least, _)| key < least) {
                best = Some((key, path));
            }
        }
    }
    best.map(|(_, path)| path)
}

/// The wire with number `wire`, round and round, among those to a peer that work; `None`: there is
/// but one.
#[cold]
fn wire_of(paths: &[Path], hub: &Hub, wire: u8) -> Option<u32> {
    let medium = |p: &Path| hub.links[p.link.index()].spec.medium;
    let healthy = |p: &&Path| p.takes_words() && !p.suspect;
    let mut media = [0; PATHS_MAX];
    let mut count = 0;
    for path in paths.iter().filter(healthy) {
        if !media[..count].contains(&medium(path)) && count < media.len() {
            media[count] = medium(path);
            count += 1;
        }
    }
    media[..count].sort_unstable();
    (count > 1).then(|| media[usize::from(wire) % count])
}

/// Fills `burst` with the datagrams of `row` from number `at` on, as far as the link takes them in
/// one burst, each begun with `origin`; gives how many. Each is written once, where it is sent.
#[inline]
fn fill_row(
    burst: &mut Burst,
    spec: &LinkSpec,
    header: &Header,
    key: &Key,
    origin: &[u8],
    row: &mut Row<'_>,
    at: usize,
) -> usize {
    let head = HEADER_LEN + origin.len();
    let mut count = 0;
    while at + count < row.count && count < spec.max_frames {
        let len = head + row.len_of(at + count);
        if count > 0 && burst.bytes().len() + spec.headroom + len > spec.max_burst {
            break;
        }
        let Some(frame) = burst.space(len) else { break };
        frame[HEADER_LEN..head].copy_from_slice(origin);
        (row.write)(at + count, &mut frame[head..]);
        Header { len: (len - HEADER_LEN) as u16, ..*header }.seal(key, frame);
        burst.push(len);
        count += 1;
    }
    count
}

/// Answers about hearing that may wait.
const HEARD_MAX: usize = 256;
