//! The short way out: one small message to a peer for whom nothing else waits. What it does is what
//! `fill` would do, in the order in which that would, without asking what else there is.

use weft_wire::{Burst, ChunkWriter, Envelope, HEADER_LEN, LinkId, MESSAGE_LEN};

use super::fill::{SMALL, WORDS_ROOM};
use super::{Peer, State};
use crate::engine::Hub;
use crate::rail;
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

/// The longest message that goes this way, bytes: the choice of a path is that of any small frame.
const LONE_MAX: usize = SMALL - MESSAGE_LEN;

impl Peer {
    /// Makes `burst` a frame with this message and what is to be said beside it; `None`, and
    /// nothing was sent, where that is not simple.
    #[inline]
    pub fn send_lone(
        &mut self,
        hub: &mut Hub,
        now: Instant,
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
            && len <= LONE_MAX
            && self.out.takes_lone(len);
        if !is_simple {
            return None;
        }
        let at = rail::urgent(&self.paths, &hub.links, SMALL)?;
        let path = &self.paths[at];
        if HEADER_LEN + MESSAGE_LEN + len + WORDS_ROOM > path.mtu {
            return None;
        }
        burst.reset(path.to, hub.links[path.link.index()].spec.headroom);
        let mut w = ChunkWriter::new(burst.space(path.mtu)?);
        let place = self.place_lone(hub, payload)?;
        hub.unfinished += usize::from(self.out.is_empty());
        hub.counters.messages_sent += 1;
        let seq = self.out.commit_lone(envelope, place, len);
        // A message goes before what is said beside it, so that its receiver is not kept.
        w.message(seq as u32, envelope, self.out.reserved(place, len));
        let flow = self.words(hub, now, &mut w);
        let content = Content::Messages { first: seq, count: 1 };
        let len = self.end_messages(hub, now, at, w, content, flow);
        burst.push(len);
        hub.last_sent = Some(self.id);
        Some(self.paths[at].link)
    }

    /// Where the message's bytes are in the outbox; the caller's are copied there.
    #[inline]
    fn place_lone(&mut self, hub: &mut Hub, payload: Payload<'_>) -> Option<u32> {
        let bytes = match payload {
            Payload::Reserved { at, .. } => return Some(at),
            Payload::Given(bytes) => bytes,
        };
        if self.out.len() >= hub.config.outbox_messages {
            return None;
        }
        let at = self.out.reserve(bytes.len(), hub.config.outbox_bytes, &mut hub.rings)?;
        self.out.reserved(at, bytes.len()).copy_from_slice(bytes);
        Some(at)
    }
}
