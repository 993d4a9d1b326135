//! What goes out: fills one burst for one peer over one of its paths. Frames are built as late as
//! this, so that all that waits together travels together.

use weft_wire::{
    Burst, ChunkWriter, DATA_LEN, FrameKind, HEADER_LEN, HELLO_LEN, Header, LinkId, flags,
};

use super::{Peer, State};
use crate::engine::Hub;
use crate::event::{Cause, Payloads};
use crate::msg::transfer::Stage;
use crate::rail::{self, Path};
use crate::reliable::Content;
use crate::time::Instant;

/// Bytes that an ordinary small frame is reckoned with when a path is chosen.
const SMALL: usize = 256;

/// A frame of which all but the header has been written.
struct Written {
    len: usize,
    content: Content,
    /// Whether it carries credit.
    flow: bool,
    /// Whether it wants an acknowledgement, and whether at once.
    wants: bool,
    at_once: bool,
}

impl Peer {
    /// Fills `burst`; `None` when there is nothing to send now.
    pub fn fill(
        &mut self,
        hub: &mut Hub,
        now: Instant,
        payloads: &mut dyn Payloads,
        burst: &mut Burst,
    ) -> Option<LinkId> {
        if !self.greeting.waiting.is_empty()
            && let Some(link) = self.fill_hello(hub, burst)
        {
            return Some(link);
        }
        match self.state {
            State::Open => {}
            State::Ended(Cause::Closed | Cause::ClosedHere) => {
                return self.fill_words(hub, now, burst);
            }
            _ => return None,
        }
        if let Some(link) = self.fill_probe(hub, now, burst) {
            return Some(link);
        }
        let bulk_first = std::mem::replace(&mut self.bulk_turn, false) || self.announces(hub);
        if bulk_first && let Some(link) = self.fill_bulk(hub, now, payloads, burst) {
            return Some(link);
        }
        if self.out.has_more()
            && let Some(link) = self.fill_messages(hub, now, burst)
        {
            self.bulk_turn = !self.bulk.is_empty();
            return Some(link);
        }
        if !self.bulk.is_empty()
            && let Some(link) = self.fill_bulk(hub, now, payloads, burst)
        {
            return Some(link);
        }
        self.fill_words(hub, now, burst)
    }

    fn fill_hello(&mut self, hub: &mut Hub, burst: &mut Burst) -> Option<LinkId> {
        let due = self.next_hello(hub)?;
        let spec = &hub.links[due.link.index()].spec;
        burst.reset(due.to, spec.headroom);
        let hello = self.hello(hub, &due);
        let len = hello.encode(hub.job, &hub.hello_key, burst.space(HELLO_LEN)?);
        burst.push(len);
        hub.counters.hellos_sent += 1;
        hub.counters.frames_sent += 1;
        Some(due.link)
    }

    /// A padded frame that tries a size out.
    fn fill_probe(&mut self, hub: &mut Hub, now: Instant, burst: &mut Burst) -> Option<LinkId> {
        let at = self.paths.iter().position(|p| p.search.due && !p.suspect && p.takes_words())?;
        let path = &mut self.paths[at];
        path.search.due = false;
        let size = path.search.size();
        burst.reset(path.to, hub.links[path.link.index()].spec.headroom);
        let mut w = ChunkWriter::new(burst.space(size)?);
        w.ping();
        w.pad_to(size);
        let content = Content::Probe { size: size as u16 };
        let written = Written { len: size, content, flow: false, wants: true, at_once: true };
        let frame = w.into_frame();
        seal(self.index, &self.send_key, self.address.port, path, hub, frame, &written);
        note(path, hub, now, &written, false);
        burst.push(size);
        Some(path.link)
    }

    /// Messages and control words, as many as wait.
    fn fill_messages(&mut self, hub: &mut Hub, now: Instant, burst: &mut Burst) -> Option<LinkId> {
        let bytes = self.out.next_bytes().max(SMALL);
        let Some(at) = rail::urgent(&self.paths, &hub.links, bytes) else {
            self.paths.iter_mut().for_each(|p| p.limited = true);
            return None;
        };
        self.begin(hub, at, burst);
        let mut first = true;
        while let Some(max) = frame_room(&self.paths[at], hub, burst) {
            let Some(space) = burst.space(max) else { break };
            let mut w = ChunkWriter::new(space);
            let flow = first && self.words(hub, now, &mut w);
            first = false;
            let fresh = self.paths[at].mtu - HEADER_LEN;
            let Hub { pieces, counters, .. } = &mut *hub;
            let content = self.out.fill(&mut w, fresh, pieces, &mut counters.retransmits);
            if w.is_empty() {
                break;
            }
            let path = &mut self.paths[at];
            let len = w.len();
            let after = path.room().saturating_sub(len as u64);
            let at_once = after < path.mtu as u64;
            path.limited |= at_once;
            let wants = content.is_some() || flow;
            let content = content.unwrap_or(Content::Nothing);
            let ended = content == Content::Nothing;
            let written = Written { len, content, flow, wants, at_once };
            let frame = w.into_frame();
            seal(self.index, &self.send_key, self.address.port, path, hub, frame, &written);
            note(path, hub, now, &written, true);
            burst.push(len);
            if ended || !self.out.has_more() {
                break;
            }
        }
        if self.out.waits_for_credit {
            self.out.waits_for_credit = false;
            hub.counters.credit_waits += 1;
        }
        (!burst.is_empty()).then(|| self.paths[at].link)
    }

    /// Pieces of pulled payloads, from one transfer after another.
    fn fill_bulk(
        &mut self,
        hub: &mut Hub,
        now: Instant,
        payloads: &mut dyn Payloads,
        burst: &mut Burst,
    ) -> Option<LinkId> {
        let count = self.paths.len();
        for step in 0..count {
            let at = (self.next_path + step) % count;
            if !self.paths[at].bulk || !self.paths[at].can_send(1) {
                continue;
            }
            let &id = self.bulk.front()?;
            let Some(waiting) = hub.transfers.get_mut(id).map(|t| t.pieces.waiting()) else {
                self.bulk.pop_front();
                return self.fill_bulk(hub, now, payloads, burst);
            };
            let path = &mut self.paths[at];
            let spec = &hub.links[path.link.index()].spec;
            // Bursts are cheap by the frame: small ones wait until a good part of the window is
            // free, which it will be, for something is on its way.
            let good = (spec.max_burst as u64).min(path.cc.window() / 4).min(waiting);
            if path.sender.in_flight > 0 && path.extra == 0 && path.room() < good {
                path.limited = true;
                continue;
            }
            self.next_path = (at + 1) % count;
            if self.bulk_burst(hub, now, at, payloads, burst) {
                return Some(self.paths[at].link);
            }
        }
        None
    }

    fn bulk_burst(
        &mut self,
        hub: &mut Hub,
        now: Instant,
        at: usize,
        payloads: &mut dyn Payloads,
        burst: &mut Burst,
    ) -> bool {
        self.begin(hub, at, burst);
        let mut first = true;
        let most = self.burst_most(hub, at);
        while let Some(&id) = self.bulk.front() {
            if burst.bytes().len() >= most {
                break;
            }
            let Some(max) = frame_room(&self.paths[at], hub, burst) else { break };
            let Some(space) = burst.space(max) else { break };
            let mut w = ChunkWriter::new(space);
            let flow = first && self.words(hub, now, &mut w);
            first = false;
            let announced = self.announces(hub).then(|| {
                let fresh = self.paths[at].mtu - HEADER_LEN;
                let Hub { pieces, counters, .. } = &mut *hub;
                self.out.fill(&mut w, fresh, pieces, &mut counters.retransmits)
            });
            let (content, more) = match announced {
                // Still not: there is more before it.
                Some(Some(content)) if self.announces(hub) => (content, true),
                Some(Some(content)) => piece(hub, id, payloads, &mut w, Some(content)),
                // There is no credit for it; the pieces have to wait for the pull then.
                Some(None) => (Content::Nothing, false),
                None => piece(hub, id, payloads, &mut w, None),
            };
            if !more {
                self.bulk.pop_front();
                if let Some(t) = hub.transfers.get_mut(id) {
                    t.queued = false;
                }
            }
            if w.is_empty() {
                continue;
            }
            let path = &mut self.paths[at];
            let len = w.len();
            let after = path.room().saturating_sub(len as u64);
            let blocked = after < path.mtu as u64;
            path.limited |= blocked;
            let wants = flow || content != Content::Nothing;
            let written = Written { len, content, flow, wants, at_once: blocked || !more };
            let frame = w.into_frame();
            seal(self.index, &self.send_key, self.address.port, path, hub, frame, &written);
            note(path, hub, now, &written, true);
            burst.push(len);
        }
        // The next transfer has its turn.
        if self.bulk.len() > 1 {
            self.bulk.rotate_left(1);
        }
        !burst.is_empty()
    }

    /// How many bytes the next burst of bulk may have. A receiver can do nothing with a burst
    /// before all of it is there; so the first is short, and none is longer than all before it.
    fn burst_most(&self, hub: &mut Hub, at: usize) -> usize {
        let next = self.bulk.front().and_then(|&id| hub.transfers.get_mut(id));
        let sent = next.map_or(u64::MAX, |t| t.pieces.sent());
        let first = (hub.config.first_burst_frames * self.paths[at].mtu) as u64;
        usize::try_from(first.max(sent)).unwrap_or(usize::MAX)
    }

    /// Whether the next transfer is a pushed one whose announcement has not been sent: both go
    /// together.
    #[inline]
    fn announces(&self, hub: &mut Hub) -> bool {
        let next = self.bulk.front().and_then(|&id| hub.transfers.get_mut(id));
        next.is_some_and(|t| matches!(t.stage, Stage::Pushing { seq } if self.out.is_unsent(seq)))
    }

    /// What has to be said even if nothing else is: acknowledgements, credit, pings.
    fn fill_words(&mut self, hub: &mut Hub, now: Instant, burst: &mut Burst) -> Option<LinkId> {
        let ping = self.paths.iter().position(|p| p.ping && p.takes_words());
        let due = self.flow.due || self.spaces.iter().any(|s| s.is_due());
        let at = match ping {
            Some(at) => at,
            None if due => self.voice(hub)?,
            None => return None,
        };
        self.begin(hub, at, burst);
        let mut w = ChunkWriter::new(burst.space(self.paths[at].mtu)?);
        let flow = self.words(hub, now, &mut w);
        let path = &mut self.paths[at];
        let wants = flow || ping.is_some();
        if ping.is_some() {
            path.ping = false;
            w.ping();
            hub.counters.pings_sent += 1;
        } else {
            hub.counters.acks_only_sent += 1;
        }
        if w.is_empty() {
            return None;
        }
        let (len, content) = (w.len(), Content::Nothing);
        let written = Written { len, content, flow, wants, at_once: ping.is_some() };
        let frame = w.into_frame();
        seal(self.index, &self.send_key, self.address.port, path, hub, frame, &written);
        note(path, hub, now, &written, false);
        burst.push(len);
        Some(path.link)
    }

    /// The path for acknowledgements: the quickest on the wire over which the peer was heard last,
    /// whatever its window. Nothing tells us that another wire is dead as long as all that we say
    /// over it is acknowledgements, which nobody acknowledges.
    fn voice(&self, hub: &Hub) -> Option<usize> {
        let medium = |link: LinkId| hub.links.get(link.index()).map(|l| l.spec.medium);
        let wire = medium(self.life.heard_by);
        let near = self.paths.iter().enumerate();
        let near = near.filter(|(_, p)| p.takes_words() && medium(p.link) == wire);
        let near = near.min_by_key(|(_, p)| hub.links[p.link.index()].time_ns(1));
        near.map(|(at, _)| at).or_else(|| {
            let sound = self.paths.iter().position(|p| p.takes_words() && !p.suspect);
            sound.or_else(|| self.paths.iter().position(|p| p.takes_words()))
        })
    }

    #[inline]
    fn begin(&mut self, hub: &Hub, at: usize, burst: &mut Burst) {
        let path = &self.paths[at];
        burst.reset(path.to, hub.links[path.link.index()].spec.headroom);
    }

    /// Writes pending acknowledgements and credit; whether credit is among them.
    #[inline]
    fn words(&mut self, hub: &mut Hub, now: Instant, w: &mut ChunkWriter<'_>) -> bool {
        for (at, space) in self.spaces.iter_mut().enumerate() {
            if space.is_pending() && w.room() >= ACK_ROOM {
                let (delay, ranges) = space.acknowledge(now);
                hub.counters.acks_sent += u64::from(w.ack(at as u8, delay, ranges));
            }
        }
        if !self.flow.due || w.room() < FLOW_ROOM {
            return false;
        }
        self.flow.due = false;
        let (until, bytes) = self.inbox.tell_credit(&hub.config);
        w.flow(self.flow.hold, until as u32, bytes, self.flow.epoch);
        hub.counters.credits_sent += 1;
        true
    }
}

/// Room that is wanted for an ack chunk: its head and a few ranges.
const ACK_ROOM: usize = 16 + 8 * 8;
/// Bytes of a flow chunk.
const FLOW_ROOM: usize = 20;

/// How long the next frame of the burst may be; `None`: it may have no further one.
#[inline]
fn frame_room(path: &Path, hub: &Hub, burst: &Burst) -> Option<usize> {
    let spec = &hub.links[path.link.index()].spec;
    if burst.is_empty() {
        return Some(path.mtu);
    }
    let max = path.mtu.min(burst.stride() - spec.headroom);
    let fits = burst.count() < spec.max_frames
        && burst.bytes().len() + spec.headroom + max <= spec.max_burst
        && path.can_send(max);
    fits.then_some(max)
}

/// Writes the next piece of a transfer, behind `before` if that is an announcement just written.
/// Gives the frame's content, and whether the transfer has more to send.
#[inline]
fn piece(
    hub: &mut Hub,
    id: u64,
    payloads: &mut dyn Payloads,
    w: &mut ChunkWriter<'_>,
    before: Option<Content>,
) -> (Content, bool) {
    let nothing = (before.unwrap_or(Content::Nothing), before.is_some());
    let Some(t) = hub.transfers.get_mut(id) else { return nothing };
    let Some(room) = w.room().checked_sub(DATA_LEN + 1) else { return nothing };
    let announced = match before {
        None => None,
        Some(Content::Messages { first, count }) if t.pieces.is_fresh() => Some((first, count)),
        Some(_) => return nothing,
    };
    let most = if announced.is_some() { room.min(usize::from(u16::MAX) - 1) } else { room };
    let Some((range, again)) = t.pieces.take(most as u64 + 1) else { return nothing };
    let (offset, len) = (range.start, (range.end - range.start) as usize);
    let into = match t.stage {
        Stage::Sending { pull } => w.data(pull, offset, len),
        Stage::Announced | Stage::Pushing { .. } => w.push(id, offset, len),
    };
    payloads.read(t.op, offset, into);
    hub.counters.retransmits += u64::from(again);
    hub.counters.bulk_bytes_sent += if again { 0 } else { len as u64 };
    let content = match announced {
        Some((first, count)) => Content::Pushed { first, count, id, len: len as u16 },
        None => Content::Bulk { id, offset, len: len as u32 },
    };
    (content, t.pieces.has_more())
}

/// Writes the header of a frame.
#[inline]
fn seal(
    index: u32,
    key: &weft_wire::Key,
    port: u16,
    path: &Path,
    hub: &Hub,
    frame: &mut [u8],
    written: &Written,
) {
    let crc = if hub.links[path.link.index()].spec.integrity { 0 } else { flags::CRC };
    let header = Header {
        kind: FrameKind::Stream,
        flags: crc | if written.at_once { flags::ACK_NOW } else { 0 },
        port,
        job: hub.job,
        len: (written.len - HEADER_LEN) as u16,
        index,
        path: path.link.0,
        number: path.sender.next_number() as u32,
        crc: 0,
    };
    header.seal(key, frame);
}

/// Records a frame as sent. `counts`: its bytes count against the window.
#[inline]
fn note(path: &mut Path, hub: &mut Hub, now: Instant, written: &Written, counts: bool) {
    let size = if counts { written.len } else { 0 };
    path.sender.note(now, written.content, written.flow, written.wants, size);
    path.extra = path.extra.saturating_sub(u32::from(counts));
    hub.counters.frames_sent += 1;
}
