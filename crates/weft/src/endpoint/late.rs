//! Requests of peers that cannot be carried out yet, for what came before them has not been, or
//! because answers to the same peer are not taken.
//!
//! A peer's requests wait in a row. What of it is here is bounded: bytes of announced requests stay
//! at their sender until their turn is near, and a peer too many of whose short requests are here
//! is asked to announce (STOP), so that more of them stay there, too. The device bounds the
//! announcements. A peer that goes on sending is expelled.

use std::collections::VecDeque;

use weft_sys::buf::Buf;
use weft_wire::{Envelope, Kind, OpId, PeerId, Ticket};

use super::ops::{Owner, State};
use super::serve::{Answer, REQUEST_MAX};
use super::work::{EndpointWork, UNRULY};
use crate::held::HELD_MAX;
use crate::remote::Refusal;

/// Bytes of one peer's waiting requests, bookkeeping included, from which on more of them stay at
/// their sender; one request may always be here.
pub(super) const LATE_MAX: usize = REQUEST_MAX as usize;

/// What a request is counted with besides its bytes.
const LATE_OVERHEAD: usize = 96;

/// Answers that wait for room at the device before the requests of the same peer wait as well.
pub(super) const ANSWERS_MAX: usize = 1024;

/// A request that cannot be carried out yet.
struct Late {
    envelope: Envelope,
    request: Request,
}

enum Request {
    /// Its bytes are at its sender.
    Announced {
        len: usize,
        ticket: Ticket,
    },
    /// They are being pulled.
    Pulled(OpId, usize),
    There(Vec<u8>),
    /// They cannot be had from their sender.
    Lost,
    /// A long put's payload.
    Long {
        len: usize,
        ticket: Ticket,
    },
}

impl Late {
    /// What it is counted with: an announcement is the device's to bound.
    fn cost(&self) -> usize {
        match &self.request {
            Request::Announced { .. } | Request::Long { .. } | Request::Lost => 0,
            Request::Pulled(_, len) => len + LATE_OVERHEAD,
            Request::There(bytes) => bytes.len() + LATE_OVERHEAD,
        }
    }
}

/// The waiting requests of one peer.
struct Row {
    peer: PeerId,
    requests: VecDeque<Late>,
    /// What they cost.
    bytes: usize,
    /// How many at the beginning are not just announced.
    begun: usize,
    /// Whether the peer was asked to announce its requests.
    held: bool,
    /// Whether it takes no answers, so that none of its requests is carried out.
    stuck: bool,
}

/// The rows of all peers; there are none where nothing waits.
#[derive(Default)]
pub(super) struct Lates {
    /// A few at most, so that they are searched.
    rows: Vec<Row>,
    /// How many peers take no answers.
    stuck: usize,
}

impl Lates {
    /// Whether requests of a peer wait, and so must those that come after them.
    #[inline]
    pub(super) fn waits(&self, peer: PeerId) -> bool {
        !self.rows.is_empty() && self.rows.iter().any(|row| row.peer == peer)
    }

    /// Whether a peer is asked to announce because of its requests.
    pub(super) fn holds(&self, peer: PeerId) -> bool {
        self.rows.iter().any(|row| row.peer == peer && row.held)
    }

    /// Whether there are peers that take no answers.
    #[inline]
    pub(super) fn has_stuck(&self) -> bool {
        self.stuck > 0
    }

    /// A peer is gone, or nothing of its waits any more.
    pub(super) fn bury(&mut self, peer: PeerId) {
        if let Some(at) = self.rows.iter().position(|row| row.peer == peer) {
            self.stuck -= usize::from(self.rows.swap_remove(at).stuck);
        }
    }

    /// What waits of all peers' requests, for tests.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.bytes).sum()
    }

    fn row(&mut self, peer: PeerId) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.peer == peer)
    }

    fn row_or_new(&mut self, peer: PeerId) -> &mut Row {
        let at = self.rows.iter().position(|row| row.peer == peer).unwrap_or_else(|| {
            let requests = VecDeque::new();
            self.rows.push(Row { peer, requests, bytes: 0, begun: 0, held: false, stuck: false });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    fn add(&mut self, peer: PeerId, late: Late) -> &mut Row {
        let row = self.row_or_new(peer);
        row.bytes += late.cost();
        row.requests.push_back(late);
        row
    }
}

impl EndpointWork {
    /// A request has come whole, and others of the peer wait.
    #[cold]
    pub(super) fn keep_late(&mut self, peer: PeerId, envelope: Envelope, payload: Vec<u8>) {
        let request = Request::There(payload);
        let row = self.remote.late.add(peer, Late { envelope, request });
        if row.bytes > LATE_MAX + HELD_MAX {
            self.device.expel(peer, UNRULY);
        } else if row.bytes > LATE_MAX && !row.held {
            row.held = true;
            self.device.hold(peer, true);
        }
    }

    /// A request has been announced.
    pub(super) fn announce_late(
        &mut self,
        peer: PeerId,
        envelope: Envelope,
        len: usize,
        ticket: Ticket,
    ) {
        let request = Request::Announced { len, ticket };
        self.remote.late.add(peer, Late { envelope, request });
        self.pull_late(peer);
    }

    /// A long put's payload has been announced: it waits, if others of the peer do (`true`).
    pub(super) fn long_waits(
        &mut self,
        peer: PeerId,
        envelope: Envelope,
        len: usize,
        ticket: Ticket,
    ) -> bool {
        if !self.remote.late.waits(peer) {
            return false;
        }
        let request = Request::Long { len, ticket };
        self.remote.late.add(peer, Late { envelope, request });
        true
    }

    /// Pulls what of a peer's announced requests may be here.
    fn pull_late(&mut self, peer: PeerId) {
        let Some(row) = self.remote.late.row(peer) else { return };
        while let Some(late) = row.requests.get_mut(row.begun) {
            if let Request::Announced { len, ticket } = late.request {
                let fits = row.bytes + len + LATE_OVERHEAD <= LATE_MAX || row.begun == 0;
                if !fits || row.stuck {
                    return;
                }
                let memory = Buf::from_vec(vec![0; len]);
                let slot = self.ops.insert(State::Request, peer, memory.clone());
                self.ops.at(slot).owner = Owner::Nobody;
                let id = self.ops.id(slot);
                late.request = Request::Pulled(id, len);
                row.bytes += late.cost();
                self.device.pull(peer, ticket, memory, id);
            }
            row.begun += 1;
        }
    }

    /// The bytes of a request that was announced are there, or (`!well`) never will be.
    #[cold]
    pub(super) fn request_pulled(&mut self, slot: u32, well: bool) {
        let (id, peer) = (self.ops.id(slot), self.ops.at(slot).peer);
        let memory = self.ops.remove(slot);
        let Some(row) = self.remote.late.row(peer) else { return };
        let pulled = |late: &Late| matches!(late.request, Request::Pulled(of, _) if of == id);
        let Some(at) = row.requests.iter().position(pulled) else { return };
        if well {
            let mut bytes = vec![0; memory.len()];
            memory.read(0, &mut bytes);
            row.requests[at].request = Request::There(bytes);
        } else {
            let late = &mut row.requests[at];
            row.bytes -= late.cost();
            late.request = Request::Lost;
        }
        self.serve_late(peer);
    }

    /// Carries out what has its turn of a peer's requests.
    fn serve_late(&mut self, peer: PeerId) {
        while let Some(Late { envelope, request }) = self.next_late(peer) {
            match request {
                Request::There(bytes) => {
                    let answer = self.remote.take(&mut self.ops, peer, &envelope, &bytes);
                    self.answer(peer, answer);
                }
                Request::Long { len, ticket } => self.land(peer, envelope.tag, len, ticket),
                // If the asker lives, it waits for an answer.
                Request::Lost if envelope.kind != Kind::CONTROL => {
                    self.answer(peer, Answer::Code(envelope.tag, Err(Refusal::Lost)));
                }
                Request::Lost | Request::Announced { .. } | Request::Pulled(..) => {}
            }
        }
        self.pull_late(peer);
    }

    /// The next request of a peer, if it can be carried out now. The row ends with the last.
    fn next_late(&mut self, peer: PeerId) -> Option<Late> {
        let row = self.remote.late.row(peer)?;
        if row.stuck {
            return None;
        }
        let waits =
            |late: &Late| matches!(late.request, Request::Announced { .. } | Request::Pulled(..));
        let next = row.requests.front().is_some_and(|late| !waits(late));
        let next = if next { row.requests.pop_front() } else { None };
        if let Some(late) = &next {
            row.bytes -= late.cost();
            row.begun = row.begun.saturating_sub(1);
        }
        let lets_go = row.held && row.bytes < LATE_MAX / 2;
        row.held &= !lets_go;
        if row.requests.is_empty() && next.is_none() {
            self.remote.late.bury(peer);
        }
        if lets_go && !self.holds(peer) {
            self.device.hold(peer, false);
        }
        next
    }

    /// An answer to a peer waits for room: if too many do, the peer's requests wait as well.
    #[cold]
    pub(super) fn answer_waits(&mut self, peer: PeerId) {
        if self.answers_waiting(peer) < ANSWERS_MAX {
            return;
        }
        let row = self.remote.late.row_or_new(peer);
        if !std::mem::replace(&mut row.stuck, true) {
            self.remote.late.stuck += 1;
        }
    }

    /// Goes on with the requests of peers that have taken answers.
    #[cold]
    pub(super) fn serve_stuck(&mut self) {
        let rows = self.remote.late.rows.iter();
        let stuck: Vec<PeerId> = rows.filter(|row| row.stuck).map(|row| row.peer).collect();
        for peer in stuck {
            if self.answers_waiting(peer) > ANSWERS_MAX / 2 {
                continue;
            }
            if let Some(row) = self.remote.late.row(peer) {
                row.stuck = false;
                self.remote.late.stuck -= 1;
                self.serve_late(peer);
            }
        }
    }

    /// Answers to a peer that wait for room at the device.
    fn answers_waiting(&self, peer: PeerId) -> usize {
        let queue = self.queues.iter().find(|q| q.peer == peer && q.answers);
        queue.map_or(0, |queue| queue.sends.len())
    }
}

/// Whether messages of this kind go past others that wait: whoever asked for them may not take the
/// others before it has them.
#[inline]
pub(super) fn is_answer(kind: Kind) -> bool {
    kind == Kind::ANSWER
}
