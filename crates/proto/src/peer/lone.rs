//! The short way out: one small message to a peer for whom nothing else waits. What it does is what
//! `fill` would do, in the order in which that would, without asking what else there is; and in two
//! steps: the frame is made, and what is to be known of it later is recorded when it is on its way,
//! while its receiver reads it.

use weft_wire::{Burst, ChunkWriter, Envelope, HEADER_LEN, LinkId, MESSAGE_LEN, PeerId};

use super::fill::{Written, note};
use super::{Peer, State};
use crate::engine::Hub;
use crate::rail::{self, Path, SMALL};
use crate::reliable::Content;
use crate::time::Instant;

/// A message's bytes.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// The caller's.
    Given(&'a [u8]),
    /// So many in the outbox, where they were reserved.
    Reserved { at: u32, len: usize },
}

/// A message whose frame has been made, and nothing else.
#[derive(Debug)]
pub(crate) struct Lone {
    pub peer: PeerId,
    envelope: Envelope,
    /// Its place in the outbox, and whether its bytes are there already.
    at: u32,
    len: usize,
    placed: bool,
    path: usize,
    frame: Written,
}

/// Whether a frame of `mtu` bytes holds so many. For what is to be said beside them there may be no
/// room: that goes with the next frame then, or alone when it is due.
#[inline]
fn fits(bytes: usize, mtu: usize) -> bool {
    HEADER_LEN + bytes <= mtu
}

impl Peer {
    /// Makes `burst` a frame with this message and what is to be said beside it; `None`, and
    /// nothing has changed, where that is not simple. [`Peer::went`] must follow.
    #[inline]
    pub fn make_lone(
        &mut self,
        hub: &mut Hub,
        (now, exact): (Instant, bool),
        envelope: &Envelope,
        payload: Payload<'_>,
        burst: &mut Burst,
    ) -> Option<LinkId> {
        let len = match payload {
            Payload::Given(bytes) => bytes.len(),
            Payload::Reserved { len, .. } => len,
        };
        // Whoever has something to send, of whatever kind, is queued, but for messages and bulk
        // that the window keeps back.
        let is_simple = !self.queued
            && self.state == State::Open
            && !self.flow.held
            && self.bulk.is_empty()
            && self.out.takes_lone(len);
        if !is_simple {
            return None;
        }
        let path = self.lone_path(hub, MESSAGE_LEN + len)?;
        let Path { mtu, to, link, .. } = self.paths[path];
        if !fits(MESSAGE_LEN + len, mtu) {
            return None;
        }
        let at = match payload {
            Payload::Reserved { at, .. } => at,
            Payload::Given(_) if self.out.len() >= hub.config.outbox_messages => return None,
            Payload::Given(_) => self.out.reserve(len, hub.config.outbox_bytes, &mut hub.rings)?,
        };
        burst.reset(to, hub.links[link.index()].spec.headroom);
        let mut w = ChunkWriter::new(burst.space(mtu)?);
        let seq = self.out.end();
        // A message goes before what is said beside it, so that its receiver is not kept.
        w.message(
            seq as u32,
            envelope,
            match payload {
                Payload::Given(bytes) => bytes,
                Payload::Reserved { .. } => self.out.reserved(at, len),
            },
        );
        let flow = self.says_words(hub, (now, exact), path)
            && self.words(hub, exact.then_some(now), &mut w);
        let content = Content::Messages { first: seq, count: 1 };
        let frame = self.seal_messages(hub, path, w, content, flow);
        burst.push(frame.len);
        let placed = matches!(payload, Payload::Reserved { .. });
        hub.lone = Some(Lone { peer: self.id, envelope: *envelope, at, len, placed, path, frame });
        Some(link)
    }

    /// The path for a message that is `bytes` long with what stands before it, if that is one for
    /// small frames.
    #[inline]
    fn lone_path(&self, hub: &Hub, bytes: usize) -> Option<usize> {
        if bytes <= SMALL {
            return rail::urgent(&self.paths, &hub.links, SMALL);
        }
        let at = self.paths.iter().position(|p| p.prompt)?;
        if !fits(bytes, self.paths[at].mtu) {
            return None;
        }
        rail::urgent(&self.paths, &hub.links, bytes).filter(|best| *best == at)
    }

    /// Whether a lone message carries what is to be said beside it. Where messages go there and
    /// back without a pause, an acknowledgement in each is most of the work of all (it is written,
    /// read, and what it settles is settled one by one), and of the code that the processor must
    /// have at hand; so most of them carry none. Where an answer takes longer than that work, each
    /// carries one: else it would go by itself right after.
    #[inline]
    fn says_words(&self, hub: &Hub, (now, exact): (Instant, bool), path: usize) -> bool {
        let config = &hub.config;
        let soon = now.plus(config.ack_delay_ns / 2);
        let sender = &self.paths[path].sender;
        exact
            || sender.rtt.smooth > config.ack_delay_ns / 2
            || !sender.has_sent_since(now, config.brisk_ns)
            || self.spaces.iter().any(|s| s.ack_at.is_some_and(|at| at <= soon))
    }

    /// Records a message that is on its way in `burst`.
    #[inline]
    pub fn went(&mut self, hub: &mut Hub, now: Instant, lone: &Lone, burst: &Burst) {
        hub.unfinished += usize::from(self.out.is_empty());
        hub.counters.messages_sent += 1;
        hub.counters.messages_alone += 1;
        hub.last_sent = Some(self.id);
        if !lone.placed {
            let payload = &burst.bytes()[burst.headroom() + HEADER_LEN + MESSAGE_LEN..][..lone.len];
            self.out.reserved(lone.at, lone.len).copy_from_slice(payload);
        }
        self.out.commit_lone(&lone.envelope, lone.at, lone.len);
        let path = &mut self.paths[lone.path];
        note(path, hub, now, &lone.frame, true);
        // That is the only moment that has come nearer.
        let at = path.sender.deadline(&hub.config);
        self.schedule_by(hub, at);
    }
}
