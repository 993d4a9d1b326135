//! How an endpoint sends: at once where the device has room, and else as an operation that waits.

use std::collections::VecDeque;

use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_wire::{Envelope, PeerId};

use super::exchange::EXCHANGED_MAX;
use super::late::is_answer;
use super::ops::{State, Status, Until};
use super::work::{EndpointWork, is_matched};
use crate::device::SendError;
use crate::error::Error;

/// Sends to one peer that wait for room, in order. Answers to what it has asked for go past all
/// others: the peer may not take these before it is answered.
pub(super) struct Queue {
    pub(super) peer: PeerId,
    pub(super) answers: bool,
    pub(super) sends: VecDeque<(u32, Envelope)>,
}

/// How a send began.
pub(super) enum Started {
    /// It has ended: the payload is on its way and may be used again.
    Ended,
    /// It goes on as an operation.
    Slot(u32),
}

/// What is sent, and how it stays valid if the send goes on as an operation.
pub(super) enum Outgoing<'a> {
    /// Memory that stays valid by its `Buf`, and when the send ends.
    Kept(&'a Buf, Until),
    /// Borrowed memory, and how to borrow it for longer.
    Borrowed(&'a [u8], &'a dyn Fn() -> Buf),
}

impl Outgoing<'_> {
    fn len(&self) -> usize {
        match self {
            Outgoing::Kept(buf, _) => buf.len(),
            Outgoing::Borrowed(bytes, _) => bytes.len(),
        }
    }

    fn keep(self) -> Buf {
        match self {
            Outgoing::Kept(buf, _) => buf.clone(),
            Outgoing::Borrowed(_, keep) => keep(),
        }
    }

    #[inline]
    fn until(&self) -> Until {
        match self {
            Outgoing::Kept(_, until) => *until,
            Outgoing::Borrowed(..) => Until::Free,
        }
    }
}

impl EndpointWork {
    /// Starts a send. Small messages are copied to the device at once; those it has no room for,
    /// and large ones, become operations.
    #[inline]
    pub(super) fn send(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        outgoing: Outgoing<'_>,
    ) -> Result<Started, Error> {
        let len = outgoing.len();
        let announced = self.announces(peer, len) || self.exchanges(peer, len);
        let first = self.queues.is_empty() || self.is_first(peer, envelope);
        let until = outgoing.until();
        if !announced && first && until != Until::There {
            let begun = (len > EXCHANGED_MAX).then(now_ns);
            let sent = match &outgoing {
                Outgoing::Borrowed(bytes, _) => self.device.send(peer, envelope, bytes),
                Outgoing::Kept(buf, _) => self.device.reserve(peer, len).map(|()| {
                    self.device.fill(0, buf);
                    self.device.commit(envelope);
                }),
            };
            match sent {
                Ok(()) => {
                    if let Some(begun) = begun {
                        self.exchange.into_ring.note(len, now_ns() - begun);
                    }
                    return Ok(Started::Ended);
                }
                Err(SendError::Failed(error)) => return Err(error),
                Err(SendError::Full | SendError::Held) => {}
            }
        }
        if let Some(error) = self.death(peer) {
            return Err(error.clone());
        }
        let slot = self.ops.insert(State::Waiting, peer, outgoing.keep());
        self.ops.at(slot).until = until;
        if !first || !self.try_send(slot, envelope, announced) {
            self.enqueue(peer, slot, *envelope);
        }
        Ok(Started::Slot(slot))
    }

    /// Whether nothing that must go before it waits for room.
    #[cold]
    fn is_first(&self, peer: PeerId, envelope: &Envelope) -> bool {
        !self.waits(peer, is_answer(envelope.kind))
    }

    #[cold]
    fn enqueue(&mut self, peer: PeerId, slot: u32, envelope: Envelope) {
        let answers = is_answer(envelope.kind);
        match self.queues.iter_mut().find(|q| q.peer == peer && q.answers == answers) {
            Some(queue) => queue.sends.push_back((slot, envelope)),
            None => {
                let sends = VecDeque::from([(slot, envelope)]);
                self.queues.push(Queue { peer, answers, sends });
                self.note_queues();
            }
        }
    }

    /// One try to hand a waiting send to the device, which may be to `announce` it; `false`: no
    /// room.
    fn try_send(&mut self, slot: u32, envelope: &Envelope, mut announce: bool) -> bool {
        let id = self.ops.id(slot);
        let op = self.ops.at(slot);
        let (peer, len) = (op.peer, op.buf.len());
        if !announce {
            let result = self.device.reserve(peer, len);
            match result {
                Ok(()) => {
                    let begun = (len > EXCHANGED_MAX).then(now_ns);
                    self.device.fill(0, &op.buf);
                    if let Some(begun) = begun {
                        self.exchange.into_ring.note(len, now_ns() - begun);
                    }
                    if op.until == Until::There {
                        op.state = State::Announced;
                        self.device.commit_awaited(envelope, id);
                        return true;
                    }
                    self.device.commit(envelope);
                    self.ops.end(slot, Ok(Status { source: peer.0, envelope: *envelope, len }));
                    return true;
                }
                Err(SendError::Full) => return false,
                Err(SendError::Held) => announce = true,
                Err(SendError::Failed(error)) => {
                    self.ops.end(slot, Err(error));
                    return true;
                }
            }
        }
        debug_assert!(announce);
        // Only the ends of plain messages say nothing of their receiver.
        let announced = if is_matched(envelope.kind) && op.until == Until::Free {
            self.device.announce_buffered(peer, envelope, &op.buf, id)
        } else {
            self.device.announce(peer, envelope, &op.buf, id).map(|()| false)
        };
        match announced {
            Ok(false) => op.state = State::Announced,
            Ok(true) => {
                self.ops.end(slot, Ok(Status { source: peer.0, envelope: *envelope, len }));
            }
            Err(SendError::Full | SendError::Held) => return false,
            Err(SendError::Failed(error)) => self.ops.end(slot, Err(error)),
        }
        true
    }

    /// Tries the waiting sends again, in order for each peer.
    #[cold]
    pub(super) fn retry(&mut self) -> bool {
        let mut did = false;
        let mut queues = std::mem::take(&mut self.queues);
        queues.retain_mut(|queue| {
            while let Some((slot, envelope)) = queue.sends.front().copied() {
                let len = self.ops.at(slot).buf.len();
                let announced = self.announces(queue.peer, len);
                if !self.try_send(slot, &envelope, announced) {
                    return true;
                }
                did = true;
                queue.sends.pop_front();
            }
            false
        });
        self.queues = queues;
        if self.remote.late.has_stuck() {
            self.serve_stuck();
        }
        if self.queues.is_empty() {
            self.note_queues();
        }
        did
    }
}
