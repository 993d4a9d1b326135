//! What goes out: fills one burst for one peer over one of its paths. Frames are built as late as
//! this, so that all that waits together travels together.

use weft_wire::{Burst, ChunkWriter, FrameKind, HEADER_LEN, HELLO_LEN, Header, LinkId, flags};

use super::{Peer, State};
use crate::engine::Hub;
use crate::event::{Cause, Payloads};
use crate::rail::{self, Path, SMALL};
use crate::reliable::{Content, Haste};
use crate::time::Instant;

/// A frame that lacks at most this share of the length that a burst wants is padded.
const PADDING_SHARE: usize = 8;

/// A frame of which all but the header has been written.
#[derive(Debug)]
pub(super) struct Written {
    pub len: usize,
    pub content: Content,
    /// Whether it carries credit.
    pub flow: bool,
    /// Whether it wants an acknowledgement, and how soon.
    pub wants: bool,
    pub haste: Haste,
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
        let bulk_first = std::mem::replace(&mut self.bulk_turn, false)
            || (self.announces(hub) && self.has_long_frames(hub));
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
        let at = (0..self.paths.len()).find(|&at| self.probe_due(hub, now, at))?;
        let path = &mut self.paths[at];
        path.search.due = false;
        let size = path.search.size();
        // A small frame behind it: its acknowledgement tells what became of the large one.
        path.ping = true;
        burst.reset(path.to, hub.links[path.link.index()].spec.headroom);
        let mut w = ChunkWriter::new(burst.space(size)?);
        w.ping();
        w.pad_to(size);
        let content = Content::Probe { size: size as u16 };
        let haste = Haste::Now;
        let written = Written { len: size, content, flow: false, wants: true, haste };
        let frame = w.into_frame();
        seal(self.index, &self.send_key, self.address.port, path, hub, frame, &written);
        note(path, hub, now, &written, false);
        burst.push(size);
        Some(path.link)
    }

    /// Whether a size is to be tried out on path `at`; not where another process of the same node
    /// has shown that it passes, or is about to.
    fn probe_due(&mut self, hub: &mut Hub, now: Instant, at: usize) -> bool {
        let (path, node) = (&mut self.paths[at], self.address.node);
        if !path.search.due || path.suspect || !path.takes_words() {
            return false;
        }
        let size = path.search.size();
        if hub.ways.passes(path.link, node, &path.to) >= size {
            path.search.on_acked(now, size, &hub.config);
            self.set_mtu(hub, at, size);
            return false;
        }
        let pause = hub.config.probe_pause_ns;
        if let Some(until) = hub.ways.try_out(path.link, node, now, pause) {
            path.search.wait_until(until.plus(hub.random() % pause));
            return false;
        }
        true
    }

    /// Messages and control words, as many as wait.
    fn fill_messages(&mut self, hub: &mut Hub, now: Instant, burst: &mut Burst) -> Option<LinkId> {
        let bytes = self.out.waiting_bytes().max(SMALL);
        let Some(at) = rail::urgent(&self.paths, &hub.links, bytes) else {
            self.paths.iter_mut().for_each(|p| p.limited = true);
            return None;
        };
        self.begin(hub, at, burst);
        // A lone message goes before what is said beside it, so that its receiver is not kept.
        let lone = self.out.has_lone_message()
            && self.out.waiting_bytes() + HEADER_LEN <= self.paths[at].mtu;
        // Who has said goodbye says what has come with each frame, but sends none for that alone.
        let has_words = self.flow.due || self.spaces.iter().any(|s| s.is_pending());
        let mut first = true;
        while let Some(max) = frame_room(&self.paths[at], hub, burst) {
            let begun = !burst.is_empty();
            let Some(space) = burst.space(max) else { break };
            let mut w = ChunkWriter::new(space);
            let mut flow = first && !lone && self.words(hub, Some(now), &mut w);
            let fresh = self.paths[at].mtu - HEADER_LEN;
            let Hub { pieces, counters, .. } = &mut *hub;
            let content = self.out.fill(&mut w, fresh, pieces, &mut counters.retransmits);
            flow |= first && lone && self.words(hub, Some(now), &mut w);
            let idle = content.is_none() && !(first && has_words);
            first = false;
            if w.is_empty() || idle {
                break;
            }
            // A burst's frames have one length: a little padding lets the next one follow.
            if begun && self.out.has_more() && w.room() <= max / PADDING_SHARE {
                w.pad_to(max);
            }
            let content = content.unwrap_or(Content::Nothing);
            let written = self.seal_messages(hub, at, w, content, flow);
            note(&mut self.paths[at], hub, now, &written, true);
            burst.push(written.len);
            if content == Content::Nothing || !self.out.has_more() {
                break;
            }
        }
        if self.out.waits_for_credit {
            self.out.waits_for_credit = false;
            hub.counters.credit_waits += 1;
        }
        (!burst.is_empty()).then(|| self.paths[at].link)
    }

    /// Ends a frame with messages on path `at`, but for its record.
    #[inline]
    pub(super) fn seal_messages(
        &mut self,
        hub: &Hub,
        at: usize,
        w: ChunkWriter<'_>,
        content: Content,
        flow: bool,
    ) -> Written {
        let path = &mut self.paths[at];
        let len = w.len();
        let after = path.room().saturating_sub(len as u64);
        let is_last = after < path.mtu as u64;
        path.limited |= is_last;
        let haste = match is_last {
            true => Haste::Now,
            false if self.out.has_awaited() => Haste::Soon,
            false => Haste::Usual,
        };
        let wants = content != Content::Nothing || flow;
        let written = Written { len, content, flow, wants, haste };
        let frame = w.into_frame();
        seal(self.index, &self.send_key, self.address.port, path, hub, frame, &written);
        written
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
        let flow = self.words(hub, Some(now), &mut w);
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
        let haste = if ping.is_some() { Haste::Now } else { Haste::Usual };
        let written = Written { len, content, flow, wants, haste };
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
            let sound = self.paths.iter().position(|p| p.takes_words() && p.is_sound());
            sound.or_else(|| self.paths.iter().position(|p| p.takes_words()))
        })
    }

    #[inline]
    pub(super) fn begin(&mut self, hub: &Hub, at: usize, burst: &mut Burst) {
        let path = &self.paths[at];
        burst.reset(path.to, hub.links[path.link.index()].spec.headroom);
    }

    /// Writes pending acknowledgements and credit; whether credit is among them. Without the time
    /// the acknowledgements do not say how long they were held back.
    #[inline]
    pub(super) fn words(
        &mut self,
        hub: &mut Hub,
        now: Option<Instant>,
        w: &mut ChunkWriter<'_>,
    ) -> bool {
        for (at, space) in self.spaces.iter_mut().enumerate() {
            let again = self.said_close && space.has_any();
            if (space.is_pending() || again) && w.room() >= ACK_ROOM {
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
/// Room that is wanted for what is said beside a message, over up to four paths.
pub(super) const WORDS_ROOM: usize = 4 * ACK_ROOM + FLOW_ROOM;

/// How long the next frame of the burst may be; `None`: it may have no further one.
#[inline]
pub(super) fn frame_room(path: &Path, hub: &Hub, burst: &Burst) -> Option<usize> {
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

/// Writes the header of a frame.
#[inline]
pub(super) fn seal(
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
        flags: crc | written.haste.flags(),
        len: (written.len - HEADER_LEN) as u16,
        ..header(index, port, hub.job, path)
    };
    header.seal(key, frame);
}

/// The header of the next frame, as far as it does not depend on what is in it.
#[inline]
pub(super) fn header(index: u32, port: u16, job: u32, path: &Path) -> Header {
    Header {
        kind: FrameKind::Stream,
        flags: 0,
        port,
        job,
        len: 0,
        index,
        path: path.link.0,
        number: path.sender.next_number() as u32,
        crc: 0,
    }
}

/// Records a frame as sent. `counts`: its bytes count against the window.
#[inline]
pub(super) fn note(path: &mut Path, hub: &mut Hub, now: Instant, written: &Written, counts: bool) {
    let size = if counts { written.len } else { 0 };
    path.sender.note(now, written.content, written.flow, written.wants, size);
    path.extra = path.extra.saturating_sub(u8::from(counts));
    hub.counters.frames_sent += 1;
}
