//! What comes in: one chunk after another of a frame that has been found genuine.

use weft_wire::{
    Chunk, Envelope, FrameError, OpId, PeerId, Pushed, Ticket, is_message, message_at,
};

use super::{Peer, State};
use crate::engine::Hub;
use crate::event::{Cause, Incoming, Message, Place};
use crate::msg::inbox::{Ready, Verdict};
use crate::msg::outbox::Body;
use crate::msg::pushes::{Fate, Need};
use crate::msg::transfer::{Stage, Transfer};
use crate::reliable::{Haste, LAY_SHARE, expand};
use crate::time::Instant;

/// How far a frame has been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub peer: PeerId,
    /// The peer's link.
    pub path: u8,
    pub number: u64,
    pub at: usize,
    pub end: usize,
    /// Whether it asks for an acknowledgement.
    pub wants: bool,
    /// Whether there was nothing in it but messages in their turn: of all deadlines, only that of
    /// an acknowledgement may have come nearer.
    pub plain: bool,
    /// How soon.
    pub haste: Haste,
}

/// What reading a chunk led to.
pub(crate) enum Step {
    /// The owner is to have this.
    Event(Incoming),
    /// The owner is to have the hub's message.
    Message,
    /// Go on.
    More,
}

/// A control word: sequenced, but obeyed whenever it comes.
enum Word {
    Pull { ticket: u64, len: u64, pull: u64, again: bool },
    Refuse { pull: u64 },
}

/// Refusals that may wait to be sent to one peer, as a multiple of the outbox: a peer that pulls
/// what was never announced, and acknowledges nothing, must not fill our memory.
const WORDS_MAX: usize = 4;

impl Peer {
    /// Reads the next chunk.
    ///
    /// # Errors
    /// When it is malformed or more than was granted: the frame is then not acknowledged.
    #[inline]
    pub fn step(
        &mut self,
        hub: &mut Hub,
        now: Instant,
        cursor: &mut Cursor,
        frame: &[u8],
    ) -> Result<Step, FrameError> {
        if is_message(frame, cursor.at) && !matches!(self.state, State::Ended(_)) {
            return self.take_message(hub, cursor, frame);
        }
        let (chunk, next) = Chunk::decode(frame, cursor.at, cursor.end)?;
        cursor.at = next;
        cursor.wants |= !matches!(chunk, Chunk::Ack(_) | Chunk::Pad);
        cursor.plain &= matches!(chunk, Chunk::Message { .. });
        if let State::Ended(_) = self.state {
            // Only to learn that our last word has arrived, and to acknowledge the peer's.
            return Ok(Step::More);
        }
        match chunk {
            Chunk::Data { pull, offset, payload } => self.take_data(hub, pull, offset, payload),
            Chunk::Push { ticket, offset, payload } => {
                self.take_push(hub, ticket, offset, payload, frame)
            }
            Chunk::Ack(ack) => {
                self.on_ack(hub, now, &ack, frame).ok_or(FrameError::Chunk(10))?;
                Ok(Step::More)
            }
            Chunk::Flow { hold, until, bytes, epoch } => {
                self.take_flow(hub, hold, until, bytes, epoch);
                Ok(Step::More)
            }
            Chunk::Fragment { seq, envelope, offset, total, payload } => {
                let seq = expand(seq, self.inbox.next());
                let part = u64::from(offset)..u64::from(offset) + payload.len() as u64;
                let Hub { config, pool, .. } = &mut *hub;
                let (total, bytes) = (u64::from(total), &frame[payload]);
                let verdict = self.inbox.fragment(seq, &envelope, part, total, bytes, config, pool);
                self.later(hub, verdict)
            }
            Chunk::Announce { seq, envelope, len, ticket, pushed } => {
                if pushed != Pushed::Nothing {
                    self.pushes.announced(ticket, pushed == Pushed::Whole, &mut hub.pool);
                }
                self.take_announcement(hub, seq, envelope, len, ticket)
            }
            Chunk::Pull { seq, ticket, len, pull, again } => {
                self.take_word(hub, seq, Word::Pull { ticket, len, pull, again })
            }
            Chunk::Refuse { seq, pull } => self.take_word(hub, seq, Word::Refuse { pull }),
            Chunk::Close { seq, whole } => self.take_close(hub, cursor, seq, whole),
            // Messages were taken above.
            Chunk::Message { .. } | Chunk::Ping | Chunk::Pad => Ok(Step::More),
        }
    }

    /// Reads the next chunk, a whole message.
    #[inline]
    fn take_message(
        &mut self,
        hub: &mut Hub,
        cursor: &mut Cursor,
        frame: &[u8],
    ) -> Result<Step, FrameError> {
        let (seq, envelope, payload) = message_at(frame, cursor.at, cursor.end)?;
        cursor.at = payload.end;
        cursor.wants = true;
        let seq = expand(seq, self.inbox.next());
        let Hub { config, pool, counters, .. } = &mut *hub;
        let bytes = &frame[payload.clone()];
        let verdict = self.inbox.message(seq, &envelope, bytes, config, pool);
        if verdict != Verdict::Now {
            counters.reordered += 1;
            return self.later(hub, verdict);
        }
        counters.messages_received += 1;
        hub.message = Message { peer: self.id, envelope, place: Place::Frame(payload) };
        self.taken(hub);
        Ok(Step::Message)
    }

    /// A frame has been read to its end: it is to be acknowledged.
    #[inline]
    pub fn has_read(&mut self, hub: &mut Hub, now: Instant, cursor: &Cursor) {
        let Some(space) = self.spaces.get_mut(usize::from(cursor.path)) else { return };
        let numbers = cursor.number..cursor.number + 1;
        let due = space.note(numbers, now, cursor.wants, (cursor.haste, self.ack_ns), &hub.config);
        if hub.absence.before(now) > self.ack_ns / LAY_SHARE {
            space.came_unseen();
        }
        let at = space.ack_at;
        if due {
            self.wake(hub);
        }
        if cursor.plain {
            self.schedule_by(hub, at);
        } else {
            self.schedule(hub);
        }
    }

    /// The peer's last word.
    fn take_close(
        &mut self,
        hub: &mut Hub,
        cursor: &mut Cursor,
        seq: u32,
        whole: bool,
    ) -> Result<Step, FrameError> {
        let seq = expand(seq, self.inbox.next());
        let Hub { config, pool, .. } = &mut *hub;
        match self.inbox.word(seq, Ready::Close { whole }, config, pool) {
            Verdict::Now => self.closed(hub, whole),
            verdict => return self.later(hub, verdict),
        }
        cursor.haste = Haste::Now;
        Ok(Step::More)
    }

    fn take_announcement(
        &mut self,
        hub: &mut Hub,
        seq: u32,
        envelope: Envelope,
        len: u64,
        ticket: u64,
    ) -> Result<Step, FrameError> {
        let seq = expand(seq, self.inbox.next());
        let ready = Ready::Announced { envelope, len, ticket };
        let Hub { config, pool, .. } = &mut *hub;
        // An honest peer never has more: it counts as well, and learns later of what is asked for.
        if self.pushes.unasked >= config.announced_most && seq >= self.inbox.next() {
            return Err(FrameError::Credit);
        }
        match self.inbox.word(seq, ready, config, pool) {
            Verdict::Now => {
                self.pushes.unasked += 1;
                self.taken(hub);
                let (peer, ticket) = (self.id, Ticket(ticket));
                Ok(Step::Event(Incoming::Announced { peer, envelope, len, ticket }))
            }
            verdict => self.later(hub, verdict),
        }
    }

    /// The owner has taken something in its turn: what was held may now have its own, and the peer
    /// may send more.
    #[inline]
    fn taken(&mut self, hub: &mut Hub) {
        if self.inbox.has_ready() {
            hub.drain.push_back(self.id);
        }
        if !self.flow.due && self.inbox.credit_due(&hub.config) {
            self.flow.due = true;
            self.wake(hub);
        }
    }

    fn later(&mut self, hub: &mut Hub, verdict: Verdict) -> Result<Step, FrameError> {
        if verdict == Verdict::Beyond {
            return Err(FrameError::Credit);
        }
        self.taken(hub);
        Ok(Step::More)
    }

    /// The next held message that has its turn.
    pub fn pop_held(&mut self, hub: &mut Hub) -> Option<(Incoming, Option<Vec<u8>>)> {
        let peer = self.id;
        let popped = self.inbox.pop();
        // Even if it is nothing: words that were obeyed before their turn have been passed over,
        // and a peer that has sent nothing else waits for the credit that this frees.
        if !self.flow.due && self.inbox.credit_due(&hub.config) {
            self.flow.due = true;
            self.wake(hub);
        }
        Some(match popped? {
            Ready::Message { envelope, buffer } => {
                hub.counters.messages_received += 1;
                hub.message = Message { peer, envelope, place: Place::Held };
                (Incoming::Message, Some(buffer))
            }
            Ready::Announced { envelope, len, ticket } => {
                self.pushes.unasked += 1;
                (Incoming::Announced { peer, envelope, len, ticket: Ticket(ticket) }, None)
            }
            Ready::Close { whole } => {
                self.closed(hub, whole);
                return None;
            }
        })
    }

    #[inline]
    fn take_data(
        &mut self,
        hub: &mut Hub,
        pull: u64,
        offset: u64,
        range: std::ops::Range<usize>,
    ) -> Result<Step, FrameError> {
        let Some(p) = hub.pulls.get_mut(pull).filter(|p| p.peer == self.id) else {
            // A piece that was sent twice, and the second came after the end.
            return Ok(Step::More);
        };
        let end = offset.checked_add(range.len() as u64).filter(|&end| end <= p.len);
        let end = end.ok_or(FrameError::Chunk(7))?;
        let op = p.op;
        if !self.arrived(hub, pull, offset..end) {
            return Ok(Step::More);
        }
        Ok(Step::Event(Incoming::Data { peer: self.id, op, offset, range }))
    }

    /// A piece of what we pull has come and is of use; whether it is new. The last one ends the
    /// pull.
    pub fn arrived(&mut self, hub: &mut Hub, pull: u64, range: std::ops::Range<u64>) -> bool {
        let Some(p) = hub.pulls.get_mut(pull) else { return false };
        let new = p.received.insert(range);
        hub.counters.bulk_bytes_received += new;
        if new > 0 && p.received.first() == Some(0..p.len) {
            let op = p.op;
            hub.pulls.release(pull);
            self.pushes.ended(pull);
            hub.events.push_back(Incoming::Done { op });
        }
        new > 0
    }

    #[inline]
    fn take_push(
        &mut self,
        hub: &mut Hub,
        ticket: u64,
        offset: u64,
        range: std::ops::Range<usize>,
        frame: &[u8],
    ) -> Result<Step, FrameError> {
        let Hub { config, pool, counters, .. } = &mut *hub;
        let pull = match self.pushes.piece(ticket, offset, &frame[range.clone()], config, pool) {
            Fate::For(pull) => pull,
            Fate::Kept => {
                counters.pushed_kept += 1;
                return Ok(Step::More);
            }
            Fate::Dropped => {
                counters.pushed_in_vain += 1;
                return Ok(Step::More);
            }
        };
        // Less may be wanted than the sender could know.
        let wanted = hub.pulls.get_mut(pull).map_or(0, |p| p.len).saturating_sub(offset);
        let len = (range.len() as u64).min(wanted) as usize;
        if len == 0 {
            return Ok(Step::More);
        }
        self.take_data(hub, pull, offset, range.start..range.start + len)
    }

    /// Asks for the first `len` bytes of what was announced with `ticket`, as `pull`, for `op`.
    pub fn pull(&mut self, hub: &mut Hub, ticket: u64, len: u64, (pull, op): (u64, OpId)) {
        self.pushes.unasked = self.pushes.unasked.saturating_sub(1);
        let (need, mut kept) = self.pushes.pulled(ticket, pull);
        let again = need == Need::All;
        if len == 0 {
            self.pushes.ended(pull);
        }
        kept.cut(len);
        let any = !kept.is_empty();
        if any {
            hub.events.push_back(Incoming::Kept { peer: self.id, op });
            for part in kept.have.iter() {
                self.arrived(hub, pull, part);
            }
            hub.kept.push_back(kept);
        } else {
            hub.pool.give(kept.bytes);
        }
        let body = Body::Pull { ticket, len, pull, again };
        if need == Need::Receipt && !any {
            // It goes with the acknowledgement of the last piece.
            self.add(hub, &Envelope::default(), body);
        } else {
            self.push(hub, &Envelope::default(), body);
        }
    }

    fn take_flow(&mut self, hub: &mut Hub, hold: bool, until: u32, bytes: u64, epoch: u32) {
        let until = expand(until, self.out.granted_until());
        self.out.grant(until, bytes);
        if self.flow.on_word(hold, epoch) {
            if hold {
                hub.counters.stops_received += 1;
            } else {
                hub.counters.gos_received += 1;
            }
        }
        self.wake(hub);
    }

    fn take_word(&mut self, hub: &mut Hub, seq: u32, word: Word) -> Result<Step, FrameError> {
        if self.out.len() > WORDS_MAX * hub.config.outbox_messages {
            return Err(FrameError::Credit);
        }
        let seq = expand(seq, self.inbox.next());
        let Hub { config, pool, .. } = &mut *hub;
        match self.inbox.control(seq, config, pool) {
            Verdict::Now => {
                match word {
                    Word::Pull { ticket, len, pull, again } => {
                        self.start_sending(hub, ticket, len, pull, again);
                    }
                    Word::Refuse { pull } => self.refused_pull(hub, pull),
                }
                self.taken(hub);
                Ok(Step::More)
            }
            verdict => self.later(hub, verdict),
        }
    }

    /// The peer wants an announced payload.
    fn start_sending(&mut self, hub: &mut Hub, ticket: u64, len: u64, pull: u64, again: bool) {
        let id = self.id;
        // One that was taken back, too, is asked for in the end.
        self.out.announced = self.out.announced.saturating_sub(1);
        let known = hub.transfers.get_mut(ticket).filter(|t| t.peer == id && len <= t.len);
        let transfer = match known.map(|t| t.stage) {
            Some(Stage::Announced) => ticket,
            Some(Stage::Pushing { .. }) => {
                self.learn_from_push(again);
                match if again { renew(hub, ticket) } else { Some(ticket) } {
                    Some(transfer) => transfer,
                    None => return,
                }
            }
            Some(Stage::Sending { .. }) | None => {
                return self.push(hub, &Default::default(), Body::Refuse { pull });
            }
        };
        let Some(t) = hub.transfers.get_mut(transfer) else { return };
        let anew = again || t.stage == Stage::Announced;
        t.stage = Stage::Sending { pull };
        if anew {
            t.pieces.start(len);
        } else {
            t.pieces.set_len(len);
        }
        if len == 0 || t.pieces.is_complete() {
            let op = t.op;
            self.transfer_done(hub, transfer);
            hub.events.push_back(Incoming::Done { op });
            if self.leaving {
                self.leave_further(hub);
            }
        } else if t.pieces.has_more() && !std::mem::replace(&mut t.queued, true) {
            self.bulk.push_back(transfer);
            self.wake(hub);
        }
    }

    /// The peer has withdrawn what we pull.
    fn refused_pull(&mut self, hub: &mut Hub, pull: u64) {
        let peer = self.id;
        if let Some(p) = hub.pulls.get_mut(pull).filter(|p| p.peer == peer) {
            let (op, why) = (p.op, Cause::Withdrawn);
            hub.pulls.release(pull);
            self.pushes.ended(pull);
            hub.events.push_back(Incoming::Failed { op, peer, why });
        }
    }
}

/// Gives a transfer another id, so that what was acknowledged under the former one, and dropped,
/// does not count.
fn renew(hub: &mut Hub, former: u64) -> Option<u64> {
    let transfer = std::mem::take(hub.transfers.get_mut(former)?);
    hub.transfers.release(former);
    let (id, slot) = hub.transfers.take()?;
    *slot = Transfer { queued: false, ..transfer };
    Some(id)
}
