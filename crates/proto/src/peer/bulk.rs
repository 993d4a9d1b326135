//! What goes out of large messages: their pieces, from one transfer after another.

use weft_wire::{
    Burst, ChunkWriter, DATA_LEN, HEADER_LEN, Header, Key, LinkId, OpId, Run, Tail, flags,
};

use super::Peer;
use super::fill::{WORDS_ROOM, Written, frame_room, header, note, seal};
use crate::engine::Hub;
use crate::event::{LinkSpec, Payloads};
use crate::msg::transfer::Stage;
use crate::rail::{self, Path};
use crate::reliable::{self, Content, Haste};
use crate::time::Instant;

/// Shorter pieces are copied into their frame even where the link would take them from where they
/// lie.
const LEND_FROM: usize = 1024;

/// Bytes of a frame for what may stand before the piece of a large message: its header, an
/// announcement, words.
const BESIDE_PIECE: usize = 2 * WORDS_ROOM + HEADER_LEN + DATA_LEN;

impl Peer {
    /// Pieces of pulled payloads, from one transfer after another.
    pub(super) fn fill_bulk(
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
            let id = self.next_bulk(hub)?;
            let waiting = hub.transfers.get_mut(id).map_or(0, |t| t.pieces.waiting());
            let path = &mut self.paths[at];
            let spec = &hub.links[path.link.index()].spec;
            let good = worth(path, spec).min(waiting);
            if path.sender.in_flight > 0 && path.extra == 0 && path.room() < good {
                path.limited = true;
                continue;
            }
            if count > 1 {
                let each = waiting.min(self.burst_most(hub, at) as u64);
                let all = waiting.saturating_mul(self.bulk.len() as u64);
                if rail::others_are_sooner(&self.paths, &hub.links, at, (each, all))
                    && !self.is_tried(hub, now, at, waiting)
                {
                    continue;
                }
            }
            self.next_path = (at + 1) % count;
            let before = self.paths[at].sender.in_flight;
            if self.bulk_burst(hub, now, at, payloads, burst) {
                let path = &mut self.paths[at];
                path.spend(path.sender.in_flight.saturating_sub(before));
                return Some(path.link);
            }
        }
        None
    }

    /// Whether a path that is left for being slow carries something all the same, to measure it.
    fn is_tried(&mut self, hub: &Hub, now: Instant, at: usize, waiting: u64) -> bool {
        rail::is_too_slow(&self.paths, &hub.links, at) && self.paths[at].is_tried(now, waiting)
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
        let (mut first, mut awaited) = (true, false);
        let most = self.burst_most(hub, at);
        while let Some(id) = self.next_bulk(hub) {
            let Some(max) = frame_room(&self.paths[at], hub, burst) else { break };
            let max = if max > most { max.min(frame_most(hub, id, most)) } else { max };
            // After a short frame there may be no room for a piece.
            if burst.bytes().len() >= most || max <= HEADER_LEN + DATA_LEN {
                break;
            }
            let Some(space) = burst.space(max) else { break };
            let mut w = ChunkWriter::new(space);
            let flow = first && self.words(hub, Some(now), &mut w);
            first = false;
            let gathers = hub.links[self.paths[at].link.index()].spec.gathers;
            let mut tail = None;
            let mut read = |op, offset, into: &mut [u8]| {
                if gathers && into.len() >= LEND_FROM {
                    tail = Some(Tail { op, offset, len: into.len() });
                } else {
                    payloads.read(op, offset, into);
                }
            };
            let (content, more) = self.bulk_frame(hub, at, id, &mut read, &mut w);
            if !more {
                self.bulk.pop_front();
                if let Some(t) = hub.transfers.get_mut(id) {
                    t.queued = false;
                    awaited |= !t.buffered;
                }
            }
            if w.is_empty() {
                continue;
            }
            let path = &mut self.paths[at];
            let len = w.len();
            let after = path.room().saturating_sub(len as u64);
            path.limited |= after < path.mtu as u64;
            let wants = flow || content != Content::Nothing;
            let written = Written { len, content, flow, wants, haste: Haste::Usual };
            let frame = w.into_frame();
            seal(self.index, &self.send_key, self.address.port, path, hub, frame, &written);
            note(path, hub, now, &written, true);
            burst.push(len);
            if let Some(tail) = tail {
                burst.lend(tail);
            }
            if more {
                self.bulk_run(hub, now, at, payloads, burst, most);
            }
        }
        // The next transfer has its turn.
        if self.bulk.len() > 1 {
            self.bulk.rotate_left(1);
        }
        // An acknowledgement is in time if it comes before the window is used up.
        let path = &self.paths[at];
        if awaited || path.room() < worth(path, &hub.links[path.link.index()].spec) {
            ask(&self.send_key, burst);
        }
        !burst.is_empty()
    }

    /// Writes the next piece of a transfer, behind its announcement if that has not been sent.
    /// Gives the frame's content, and whether the transfer has more to send.
    #[inline]
    fn bulk_frame(
        &mut self,
        hub: &mut Hub,
        at: usize,
        id: u64,
        read: &mut dyn FnMut(OpId, u64, &mut [u8]),
        w: &mut ChunkWriter<'_>,
    ) -> (Content, bool) {
        if !self.announces(hub) {
            return piece(hub, id, read, w, None);
        }
        let fresh = self.paths[at].mtu - HEADER_LEN;
        let Hub { pieces, counters, .. } = &mut *hub;
        match self.out.fill(w, fresh, pieces, &mut counters.retransmits) {
            // Still not: there is more before it.
            Some(content) if self.announces(hub) => (content, true),
            Some(content) => piece(hub, id, read, w, Some(content)),
            // There is no credit for it; the pieces have to wait for the pull then.
            None => (Content::Nothing, false),
        }
    }

    /// The transfer whose turn it is. Those that have nothing to send now leave the row: they were
    /// withdrawn, or less was pulled than had been pushed.
    fn next_bulk(&mut self, hub: &mut Hub) -> Option<u64> {
        while let Some(&id) = self.bulk.front() {
            let transfer = hub.transfers.get_mut(id);
            if transfer.as_ref().is_some_and(|t| t.pieces.has_more()) {
                return Some(id);
            }
            self.bulk.pop_front();
            if let Some(t) = transfer {
                t.queued = false;
            }
        }
        None
    }

    /// How many bytes the next burst of bulk may have. A receiver can do nothing with a burst
    /// before all of it is there; so the first is short, and none is longer than what the receiver
    /// has to do until then: all before it of the same message, or what else is on its way.
    fn burst_most(&self, hub: &mut Hub, at: usize) -> usize {
        let next = self.bulk.front().and_then(|&id| hub.transfers.get_mut(id));
        let sent = next.map_or(u64::MAX, |t| t.pieces.sent());
        let path = &self.paths[at];
        let long = hub.links[path.link.index()].spec.pieces > 1;
        let usual = hub.config.first_burst_frames * path.mtu;
        let first = if long { hub.config.first_long_bytes } else { usual } as u64;
        usize::try_from(first.max(sent).max(path.sender.in_flight)).unwrap_or(usize::MAX)
    }

    /// Whether bulk goes in long frames, or by the only path: then an announcement goes with what
    /// is pushed. Elsewhere it goes before that, for the peer may not look for more at once: a look
    /// for nothing may cost a system call.
    #[inline]
    pub(super) fn has_long_frames(&self, hub: &Hub) -> bool {
        let long = |p: &Path| p.bulk && hub.links[p.link.index()].spec.pieces > 1;
        self.paths.len() == 1 || self.paths.iter().any(long)
    }

    /// Whether the next transfer is a pushed one whose announcement has not been sent: both go
    /// together.
    #[inline]
    pub(super) fn announces(&self, hub: &mut Hub) -> bool {
        let next = self.bulk.front().and_then(|&id| hub.transfers.get_mut(id));
        next.is_some_and(|t| matches!(t.stage, Stage::Pushing { seq } if self.out.is_unsent(seq)))
    }

    /// Goes on with what was begun as long as frames are alike: the next pieces of the transfer
    /// whose turn it is, but for the last that the burst, the window or the transfer allows.
    fn bulk_run(
        &mut self,
        hub: &mut Hub,
        now: Instant,
        at: usize,
        payloads: &mut dyn Payloads,
        burst: &mut Burst,
        most: usize,
    ) {
        let path = &mut self.paths[at];
        let spec = &hub.links[path.link.index()].spec;
        let Some((&id, t)) =
            self.bulk.front().and_then(|id| Some((id, hub.transfers.get_mut(*id)?)))
        else {
            return;
        };
        let (whose, pushed) = match t.stage {
            Stage::Sending { pull } => (pull, false),
            Stage::Pushing { seq } if !self.out.is_unsent(seq) => (id, true),
            _ => return,
        };
        let (stride, headroom) = (burst.stride(), burst.headroom());
        let size = stride - headroom;
        let plain = spec.integrity && path.extra == 0 && size > HEADER_LEN + DATA_LEN;
        let bytes = most.min(spec.max_burst).saturating_sub(burst.bytes().len());
        let piece = (size - HEADER_LEN).saturating_sub(DATA_LEN).max(1) as u64;
        let count = (path.room() / size as u64)
            .saturating_sub(1)
            .min((bytes / stride) as u64)
            .min((spec.max_frames - burst.count()) as u64)
            .min(t.pieces.run(piece));
        if count == 0 || !plain {
            return;
        }
        let header = header(self.index, self.address.port, hub.job, path);
        let run = Run::new(&header, &self.send_key, size, whose, pushed);
        let frames = burst.extend(count as usize);
        let count = frames.len() / stride;
        let offset = t.pieces.take_run(count as u64 * piece);
        let (mut number, mut from) = (path.sender.next_number(), offset);
        for frame in frames.chunks_exact_mut(stride) {
            payloads.read(t.op, from, run.write(&mut frame[headroom..], number, from));
            (number, from) = (number + 1, from + piece);
        }
        let bytes = reliable::Run { offset, len: piece as u32 };
        path.sender.note_run(now, count, size, id, bytes);
        hub.counters.frames_sent += count as u64;
        hub.counters.bulk_bytes_sent += count as u64 * piece;
    }
}

/// How long a frame of a burst of `most` bytes may be: so long, or a little longer if the transfer
/// ends with it.
#[inline]
fn frame_most(hub: &mut Hub, id: u64, most: usize) -> usize {
    let waiting = hub.transfers.get_mut(id).map_or(0, |t| t.pieces.waiting());
    let all = usize::try_from(waiting).unwrap_or(usize::MAX).saturating_add(BESIDE_PIECE);
    if all <= most.saturating_add(most / 4) { all } else { most }
}

/// Writes the next piece of a transfer, behind `before` if that is an announcement just written.
/// Gives the frame's content, and whether the transfer has more to send.
#[inline]
fn piece(
    hub: &mut Hub,
    id: u64,
    read: &mut dyn FnMut(OpId, u64, &mut [u8]),
    w: &mut ChunkWriter<'_>,
    before: Option<Content>,
) -> (Content, bool) {
    let nothing = (before.unwrap_or(Content::Nothing), before.is_some());
    let Some(t) = hub.transfers.get_mut(id) else { return nothing };
    // Words have taken the room: the next frame has it.
    let Some(room) = w.room().checked_sub(DATA_LEN + 1) else { return (nothing.0, true) };
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
    read(t.op, offset, into);
    hub.counters.retransmits += u64::from(again);
    hub.counters.bulk_bytes_sent += if again { 0 } else { len as u64 };
    let content = match announced {
        Some((first, count)) => Content::Pushed { first, count, id, len: len as u16 },
        None => Content::Bulk { id, offset, len: len as u32 },
    };
    (content, t.pieces.has_more())
}

/// Bytes that the window should have room for before more bulk goes out. Bursts are cheap by the
/// frame; small ones wait until a good part of the window is free, which it will be, for something
/// is on its way.
#[inline]
fn worth(path: &Path, spec: &LinkSpec) -> u64 {
    (spec.max_burst as u64).min(path.cc.window() / 4).max(path.mtu as u64)
}

/// Makes the last frame of a burst ask for an acknowledgement at once: it is what the sender waits
/// for.
fn ask(key: &Key, burst: &mut Burst) {
    let frame = burst.last_mut();
    if let Ok(header) = Header::decode(frame) {
        Header { flags: header.flags | flags::ACK_NOW, crc: 0, ..header }.seal(key, frame);
    }
}
