//! Operations on a window of this process, as its peers ask for them: see
//! [`remote`](super::remote) for what they send.
//!
//! Requests are carried out in the order in which they were sent. A peer that was asked to announce
//! its messages, for too many are stored here, announces its requests as well: they are pulled
//! first, and those that come meanwhile wait their turn in [`late`](super::late).

use std::collections::HashMap;
use std::sync::Arc;

use weft_sys::buf::Buf;
use weft_wire::{Envelope, Kind, OpId, PeerId, Ticket};

use super::late::Lates;
use super::ops::{Ops, Owner, State, Status, Until};
use super::reach::Reach;
use super::remote::{ATOMIC_LEN, asked_of, end_unanswered, heading, read_start, u64_at, wants};
use super::sends::{Outgoing, Started};
use super::share::{Notes, Seen, Share};
use super::turn::{Access, Along};
use super::work::EndpointWork;
use crate::remote::{
    AtomicOp, Change, Closing, ELEMENTS_MAX, Refusal, Rights, Scalar, Spot, Windows,
};

/// Long puts of one peer whose payload has not been announced yet: it follows at once.
const SETUPS_MAX: usize = 1024;

/// A request that is announced is not longer than this: it would fit into a frame or a ring.
pub(super) const REQUEST_MAX: u64 = 4 << 20;

/// A long put that is on its way.
#[derive(Debug)]
pub(super) struct Landing {
    /// The asker's operation.
    answer: u64,
    refusal: Option<Refusal>,
    spot: Spot,
    along: Along,
}

/// A long put that was said to come.
struct Setup {
    peer: PeerId,
    op: u64,
    spot: Spot,
    along: Along,
}

/// Memory of a window that a peer reads.
pub(super) struct Given {
    pub(super) memory: Buf,
    pub(super) seen: Seen,
    pub(super) share: Option<Share>,
}

/// Memory of a window that a peer is reading.
struct Reading {
    peer: PeerId,
    /// The asker's operation.
    op: u64,
    seen: Seen,
    share: Option<Share>,
}

/// What an endpoint knows of its windows and of requests for them.
#[derive(Default)]
pub(super) struct Remote {
    pub(super) windows: Arc<Windows>,
    pub(super) notes: Notes,
    /// The last operation of several requests that this endpoint has begun.
    pub(super) shares: u64,
    setups: Vec<Setup>,
    pub(super) late: Lates,
    pub(super) reach: Reach,
    /// The region that the request just taken is for.
    pub(super) asked_for: Option<u64>,
    /// What the next answer tells of the directory: where it is, or 0.
    pub(super) introduces: u64,
    /// What peers are reading, by the operations that send it.
    given: HashMap<u64, Reading>,
    /// The answer's bytes; kept to be used again.
    pub(super) bytes: Vec<u8>,
}

/// What an asker is answered.
pub(super) enum Answer {
    /// Nothing: it was no request.
    None,
    /// The bytes in [`Remote::bytes`], or why not.
    Code(u64, Result<(), Refusal>),
    /// Memory of a window.
    Memory(u64, Given),
}

impl Remote {
    /// Does what a message asks for, if it is a request.
    pub(super) fn take(
        &mut self,
        ops: &mut Ops,
        peer: PeerId,
        envelope: &Envelope,
        payload: &[u8],
    ) -> Answer {
        self.bytes.clear();
        self.asked_for = None;
        let op = envelope.tag;
        if envelope.kind == Kind::LONG_PUT {
            // Short enough to come whole.
            let Some(Setup { spot, along, .. }) = self.expected(peer, op) else {
                return Answer::None;
            };
            if let Err(refusal) = self.notes.admit(peer, spot.key, along) {
                return Answer::Code(op, Err(refusal));
            }
            let result = self.write(spot, payload);
            return Answer::Code(op, self.noted(ops, peer, result, along));
        }
        if ![Kind::PUT, Kind::CONTROL, Kind::GET, Kind::ATOMIC].contains(&envelope.kind) {
            return Answer::None;
        }
        let Some((along, spot, rest)) = read_start(envelope, payload) else {
            return match envelope.kind {
                Kind::CONTROL => Answer::None,
                _ => Answer::Code(op, Err(Refusal::Nonsense)),
            };
        };
        if envelope.kind != Kind::ATOMIC {
            self.asked_for = Some(spot.key);
        }
        if envelope.kind == Kind::CONTROL {
            self.expect(Setup { peer, op, spot, along });
            return Answer::None;
        }
        if let Err(refusal) = self.notes.admit(peer, spot.key, along) {
            return Answer::Code(op, Err(refusal));
        }
        let result = match envelope.kind {
            Kind::GET => match self.read(spot, rest) {
                // Told when it has been read.
                Ok((memory, seen)) => {
                    return Answer::Memory(op, Given { memory, seen, share: along.share });
                }
                Err(refusal) => Err(refusal),
            },
            Kind::PUT => self.write(spot, rest),
            _ => self.change(spot, rest),
        };
        Answer::Code(op, self.noted(ops, peer, result, along))
    }

    /// Tells of a request as it should be.
    fn noted(
        &mut self,
        ops: &mut Ops,
        peer: PeerId,
        result: Result<Seen, Refusal>,
        along: Along,
    ) -> Result<(), Refusal> {
        self.notes.note(ops, peer, result.ok(), (along.data, along.share));
        result.map(drop)
    }

    /// A peer has read what it asked for, or (`None`) will not.
    pub(super) fn given(
        &mut self,
        ops: &mut Ops,
        peer: PeerId,
        seen: Option<Seen>,
        share: Option<Share>,
    ) {
        self.notes.note(ops, peer, seen, (None, share));
    }

    /// An answer may say where its sender's directory is.
    #[inline]
    pub(super) fn learn(&mut self, peer: PeerId, answer: &Envelope) {
        if answer.data != 0 {
            self.reach.told(peer, answer.data);
        }
    }

    fn expect(&mut self, setup: Setup) {
        if self.setups.iter().filter(|s| s.peer == setup.peer).count() < SETUPS_MAX {
            self.setups.push(setup);
        }
    }

    fn expected(&mut self, peer: PeerId, op: u64) -> Option<Setup> {
        let at = self.setups.iter().position(|s| s.peer == peer && s.op == op)?;
        Some(self.setups.swap_remove(at))
    }

    fn write(&mut self, spot: Spot, bytes: &[u8]) -> Result<Seen, Refusal> {
        let rights = Rights { get: false, put: true };
        self.windows.find(spot, bytes.len(), rights)?.write(0, bytes);
        Ok(Seen { access: Access::Put, spot, len: bytes.len() })
    }

    fn read(&mut self, spot: Spot, rest: &[u8]) -> Result<(Buf, Seen), Refusal> {
        let len = u64_at(rest, 0).ok_or(Refusal::Nonsense)?;
        let len = usize::try_from(len).map_err(|_| Refusal::Bounds)?;
        let memory = self.windows.find(spot, len, Rights { get: true, put: false })?;
        Ok((memory, Seen { access: Access::Get, spot, len }))
    }

    fn change(&mut self, spot: Spot, rest: &[u8]) -> Result<Seen, Refusal> {
        let (head, rows) = rest.split_first_chunk::<ATOMIC_LEN>().ok_or(Refusal::Nonsense)?;
        let count = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let op = *AtomicOp::ALL.get(usize::from(head[4])).ok_or(Refusal::Nonsense)?;
        let scalar = *Scalar::ALL.get(usize::from(head[5])).ok_or(Refusal::Nonsense)?;
        let fetch = head[6] != 0;
        let row = count.checked_mul(scalar.size()).ok_or(Refusal::Nonsense)?;
        let operands = if op == AtomicOp::Read { 0 } else { row };
        let comparands = if op.compares() { row } else { 0 };
        if count > ELEMENTS_MAX || rows.len() != operands + comparands {
            return Err(Refusal::Nonsense);
        }
        let (operands, comparands) = rows.split_at(operands);
        let change = Change { op, scalar, count, operands, comparands };
        self.windows.change(spot, &change, fetch, &mut self.bytes)?;
        if !fetch {
            self.bytes.clear();
        }
        let access = if fetch { Access::FetchAtomic } else { Access::Atomic };
        Ok(Seen { access, spot, len: row })
    }

    /// A peer is gone.
    pub(super) fn bury(&mut self, peer: PeerId) {
        self.notes.bury(peer);
        self.setups.retain(|setup| setup.peer != peer);
        self.late.bury(peer);
        self.reach.bury(peer);
    }
}

impl EndpointWork {
    /// Answers a request.
    pub(super) fn answer(&mut self, peer: PeerId, answer: Answer) {
        if matches!(answer, Answer::None) {
            return;
        }
        match answer {
            Answer::None => {}
            Answer::Code(op, Ok(())) => {
                let bytes = std::mem::take(&mut self.remote.bytes);
                let data = std::mem::take(&mut self.remote.introduces);
                self.send_answer(peer, &Envelope { data, ..heading(op, 0) }, &bytes);
                self.remote.bytes = bytes;
            }
            Answer::Code(op, Err(why)) => self.send_answer(peer, &heading(op, why as u8), &[]),
            Answer::Memory(op, given) => self.give(peer, op, given),
        }
    }

    #[inline]
    fn send_answer(&mut self, peer: PeerId, heading: &Envelope, bytes: &[u8]) {
        let keep = || Buf::from_vec(bytes.to_vec());
        // An asker that is gone needs no answer.
        if let Ok(Started::Slot(slot)) = self.send(peer, heading, Outgoing::Borrowed(bytes, &keep))
        {
            self.entrust(slot, None);
            self.answer_waits(peer);
        }
    }

    /// Sends memory of a window. It has been read when that has ended: until then its program must
    /// not be told so, for it may write it anew.
    fn give(&mut self, peer: PeerId, op: u64, given: Given) {
        let Given { memory, seen, share } = given;
        let data = std::mem::take(&mut self.remote.introduces);
        let heading = Envelope { data, ..heading(op, 0) };
        match self.send(peer, &heading, Outgoing::Kept(&memory, Until::Free)) {
            Ok(Started::Ended) => self.remote.given(&mut self.ops, peer, Some(seen), share),
            Ok(Started::Slot(slot)) => {
                let id = self.ops.id(slot).0;
                self.remote.given.insert(id, Reading { peer, op, seen, share });
                self.own(slot, Owner::Giver);
                self.answer_waits(peer);
            }
            Err(_) => self.remote.given(&mut self.ops, peer, None, share),
        }
    }

    /// Peers have read what they asked for.
    #[cold]
    pub(super) fn reads_ended(&mut self) {
        for (id, well) in std::mem::take(&mut self.ops.given) {
            if let Some(Reading { peer, seen, share, .. }) = self.remote.given.remove(&id.0) {
                self.remote.given(&mut self.ops, peer, Some(seen).filter(|_| well), share);
            }
        }
    }

    /// Closes the window of a region. Peers that have not begun to read what they asked for are
    /// told that it is gone.
    pub(super) fn close_region(&mut self, key: u64) -> Option<Closing> {
        self.remote.notes.notices.close(key);
        self.remote.reach.dropped(key);
        let closing = self.remote.windows.close(key)?;
        let of = self.remote.given.iter().filter(|(_, reading)| reading.seen.spot.key == key);
        let of: Vec<_> = of.map(|(id, reading)| (OpId(*id), reading.peer, reading.op)).collect();
        for (id, peer, op) in of {
            let Some(slot) = self.ops.slot(id) else { continue };
            // Who was told of the bytes, and does not learn that they were taken back, waits for an
            // answer; to who does, this one is none.
            if self.cancel(slot) {
                self.send_answer(peer, &heading(op, Refusal::Key as u8), &[]);
            }
        }
        self.reads_ended();
        Some(closing)
    }

    /// Takes an announced message that is not matched: a long put, a long answer, or what could
    /// only be announced.
    pub(super) fn take_unmatched(
        &mut self,
        peer: PeerId,
        envelope: Envelope,
        len: u64,
        ticket: Ticket,
    ) {
        match envelope.kind {
            Kind::LONG_PUT => {
                let len = len as usize;
                if !self.long_waits(peer, envelope, len, ticket) {
                    self.land(peer, envelope.tag, len, ticket);
                }
            }
            Kind::ANSWER => self.take_answer(peer, &envelope, len, ticket),
            Kind::PUT | Kind::CONTROL | Kind::GET | Kind::ATOMIC if len <= REQUEST_MAX => {
                self.announce_late(peer, envelope, len as usize, ticket);
            }
            Kind::GROUP if self.has_room_for_word(len) => self.pull_word(peer, len, ticket),
            _ => self.pull_away(peer, len, ticket),
        }
    }

    fn take_answer(&mut self, peer: PeerId, envelope: &Envelope, len: u64, ticket: Ticket) {
        self.remote.learn(peer, envelope);
        let asked = asked_of(&mut self.ops, peer, envelope.tag);
        match asked {
            Some(slot) if wants(&mut self.ops, slot, envelope, len) => {
                let envelope = Envelope::default();
                let status = Status { source: peer.0, envelope, len: len as usize };
                self.pull(slot, status, ticket);
            }
            asked => {
                if let Some(slot) = asked {
                    end_unanswered(&mut self.ops, slot, envelope.flags);
                }
                self.pull_away(peer, len, ticket);
            }
        }
    }

    /// Pulls what nobody asked for into nothing, so that its sender is rid of it.
    fn pull_away(&mut self, peer: PeerId, len: u64, ticket: Ticket) {
        let slot = self.ops.insert(State::Waiting, peer, Buf::empty());
        self.ops.at(slot).owner = Owner::Nobody;
        let (source, envelope) = (peer.0, Envelope::default());
        self.pull(slot, Status { source, envelope, len: len as usize }, ticket);
    }

    pub(super) fn land(&mut self, peer: PeerId, op: u64, len: usize, ticket: Ticket) {
        let rights = Rights { get: false, put: true };
        let (memory, landing) = match self.remote.expected(peer, op) {
            Some(Setup { spot, along, .. }) => {
                let admitted = self.remote.notes.admit(peer, spot.key, along);
                let found = admitted.and_then(|()| self.remote.windows.find(spot, len, rights));
                let refusal = found.as_ref().err().copied();
                let memory = found.unwrap_or_else(|_| Buf::empty());
                (memory, Landing { answer: op, refusal, spot, along })
            }
            None => {
                let (refusal, along) = (Some(Refusal::Nonsense), Along::default());
                let spot = Spot { key: 0, addr: 0 };
                (Buf::empty(), Landing { answer: op, refusal, spot, along })
            }
        };
        let slot = self.ops.insert(State::Landing(Box::new(landing)), peer, memory.clone());
        self.ops.at(slot).owner = Owner::Nobody;
        let id = self.ops.id(slot);
        self.device.pull(peer, ticket, memory, id);
    }

    /// A long put is there, or (`!well`) cannot be had from its sender, who is told so: if it
    /// lives, it waits for an answer.
    pub(super) fn landed(&mut self, slot: u32, well: bool) {
        let op = self.ops.at(slot);
        let peer = op.peer;
        let len = op.buf.len();
        let State::Landing(landing) = std::mem::replace(&mut op.state, State::Waiting) else {
            return;
        };
        self.ops.remove(slot);
        self.remote.bytes.clear();
        let Landing { answer, refusal, spot, along } = *landing;
        let seen = Seen { access: Access::Put, spot, len };
        let refusal = if well { refusal } else { refusal.or(Some(Refusal::Lost)) };
        // Nobody sees the bytes any more if the window was closed meanwhile.
        let refusal = refusal.or((!self.remote.windows.has(spot.key)).then_some(Refusal::Key));
        let result = self.remote.noted(&mut self.ops, peer, refusal.map_or(Ok(seen), Err), along);
        self.answer(peer, Answer::Code(answer, result));
    }
}
