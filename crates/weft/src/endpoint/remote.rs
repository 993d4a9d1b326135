//! Operations on a peer's memory, as who asks for them sees them. What the peer does is in
//! [`serve`](super::serve).
//!
//! | message | tag | payload |
//! |---|---|---|
//! | `PUT` | the asker's operation | [`Start`], bytes |
//! | `CONTROL`, then `LONG_PUT` | the same in both | [`Start`]; the bytes, announced |
//! | `GET` | the asker's operation | [`Start`], length |
//! | `ATOMIC` | the asker's operation | [`Start`], count, operation, type, operands, comparands |
//! | `ANSWER` | the operation | the bytes asked for; `flags` says why it was refused, or 0 |
//!
//! What a process asks of its own memory is done at once: it must not be overtaken by what others
//! ask for afterwards, having seen what its program did next.
//!
//! A long put is pulled straight into the window, and a long answer straight into the asker's
//! memory. An asker is answered when the bytes are there, so the end of its operation says that.
//!
//! To a peer of the node an answer says once, in `data`, where this endpoint's
//! [directory](super::reach) is; from then on it copies some by itself.

use weft_sys::buf::Buf;
use weft_wire::{Envelope, Kind, OpId, PeerId};

use super::ops::{Ops, Owner, State, Status, Until};
use super::sends::{Outgoing, Started};
use super::serve::Answer;
use super::share::{SHARE_LEN, Share};
use super::turn::{Along, Atomic};
use super::work::EndpointWork;
use crate::device::SendError;
use crate::error::Error;
use crate::remote::{AtomicOp, ELEMENTS_MAX, Refusal, Spot};

/// In `flags` of a request: the envelope's data is a word for the peer.
const HAS_DATA: u8 = 1;
/// The request is one of several that are one operation.
const HAS_SHARE: u8 = 2;

/// Bytes of a [`Spot`].
const SPOT_LEN: usize = 16;

/// Bytes between an atomic operation's start and its operands.
pub(super) const ATOMIC_LEN: usize = 8;

/// A longer put is not copied to wait for room: its payload is announced.
const COPIED_MAX: usize = 16 << 10;

/// A request's first bytes: the [`Spot`], the [`Share`] if it has one, and what is of fixed length
/// behind them.
struct Start {
    bytes: [u8; SPOT_LEN + SHARE_LEN + ATOMIC_LEN],
    len: usize,
}

impl Start {
    fn new(at: Spot, share: Option<Share>) -> Start {
        let mut start = Start { bytes: [0; SPOT_LEN + SHARE_LEN + ATOMIC_LEN], len: 0 };
        start.push(&at.key.to_le_bytes());
        start.push(&at.addr.to_le_bytes());
        if let Some(share) = share {
            start.push(&share.bytes());
        }
        start
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A request's envelope, with what goes along.
fn heading_of(op: u64, kind: Kind, along: Along) -> Envelope {
    let flags = if along.data.is_some() { HAS_DATA } else { 0 }
        | if along.share.is_some() { HAS_SHARE } else { 0 };
    Envelope { tag: op, data: along.data.unwrap_or(0), kind, flags, ..Envelope::default() }
}

/// What goes along with a request, its place, and the bytes behind; `None` if it is too short.
pub(super) fn read_start<'a>(
    envelope: &Envelope,
    payload: &'a [u8],
) -> Option<(Along, Spot, &'a [u8])> {
    let (spot, rest) = payload.split_at_checked(SPOT_LEN)?;
    let spot = Spot { key: u64_at(spot, 0)?, addr: u64_at(spot, 8)? };
    let data = (envelope.flags & HAS_DATA != 0).then_some(envelope.data);
    if envelope.flags & HAS_SHARE == 0 {
        return Some((Along { data, share: None }, spot, rest));
    }
    let (share, rest) = rest.split_first_chunk::<SHARE_LEN>()?;
    Some((Along { data, share: Some(Share::from_bytes(*share)) }, spot, rest))
}

/// A number in a request.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

impl EndpointWork {
    /// A new operation that a peer will answer.
    fn ask(&mut self, peer: PeerId, into: Buf, wants: usize, owner: Owner) -> (u32, u64) {
        let slot =
            self.ops.insert(State::Remote { wants, sending: false, reads: false }, peer, into);
        self.ops.at(slot).owner = owner;
        (slot, self.ops.id(slot).0)
    }

    /// Forgets an operation whose request could not be sent.
    fn asked(&mut self, slot: u32, sent: Result<(), Error>) -> Result<u32, Error> {
        if sent.is_err() {
            self.ops.remove(slot);
        }
        sent.map(|()| slot)
    }

    /// Gives the operation's slot, as [`EndpointWork::get`] and [`EndpointWork::atomic`] do; it may
    /// have ended. One with a request ends when `from` is free, too, and keeps it till then.
    pub(super) fn put(
        &mut self,
        peer: PeerId,
        from: &Buf,
        at: Spot,
        along: Along,
        owner: Owner,
    ) -> Result<u32, Error> {
        let is_requested = owner == Owner::Request;
        let kept = if is_requested { from.clone() } else { Buf::empty() };
        let (slot, op) = self.ask(peer, kept, 0, owner);
        let start = Start::new(at, along.share);
        let envelope = heading_of(op, Kind::PUT, along);
        if self.device.is_self(peer) {
            self.ask_self(peer, &envelope, start.as_slice(), &[from]);
            return Ok(slot);
        }
        if along.is_nothing() && self.copies_alone(peer, from, at, true) {
            answered(&mut self.ops, peer, &heading(op, 0), &[]);
            return Ok(slot);
        }
        let len = start.len + from.len();
        let sent = if self.is_copied(peer, len) {
            self.send_parts(peer, &envelope, start.as_slice(), &[from])
        } else if !self.announces(peer, len)
            && self.try_parts(peer, &envelope, start.as_slice(), &[from])?
        {
            Ok(())
        } else {
            let setup = Envelope { kind: Kind::CONTROL, ..envelope };
            let long = Envelope { kind: Kind::LONG_PUT, ..envelope };
            self.send_copy(peer, &setup, start.as_slice())
                .and_then(|()| self.send(peer, &long, Outgoing::Kept(from, Until::Free)))
                .map(|started| match started {
                    Started::Slot(long) if is_requested => self.attach(long, slot),
                    started => self.detach(started),
                })
        };
        self.asked(slot, sent)
    }

    /// Has a put wait for the end of the operation that sends its payload.
    fn attach(&mut self, long: u32, put: u32) {
        let id = self.ops.id(put);
        if let State::Remote { sending, .. } = &mut self.ops.at(put).state {
            *sending = true;
        }
        self.own(long, Owner::Put(id));
    }

    /// Whether a put of `len` bytes is copied by the call that starts it.
    pub(super) fn puts_at_once(&self, peer: PeerId, len: usize) -> bool {
        self.device.is_self(peer) || self.is_copied(peer, SPOT_LEN + SHARE_LEN + len)
    }

    /// Whether a request of `len` bytes is copied where there is no room for it.
    fn is_copied(&self, peer: PeerId, len: usize) -> bool {
        len <= COPIED_MAX && !self.announces(peer, len)
    }

    pub(super) fn get(
        &mut self,
        peer: PeerId,
        into: Buf,
        at: Spot,
        share: Option<Share>,
        owner: Owner,
    ) -> Result<u32, Error> {
        let mut start = Start::new(at, share);
        start.push(&(into.len() as u64).to_le_bytes());
        let wants = into.len();
        let (slot, op) = self.ask(peer, into, wants, owner);
        if let State::Remote { reads, .. } = &mut self.ops.at(slot).state {
            *reads = true;
        }
        let envelope = heading_of(op, Kind::GET, Along { data: None, share });
        if self.device.is_self(peer) {
            self.ask_self(peer, &envelope, start.as_slice(), &[]);
            return Ok(slot);
        }
        let buf = share.is_none().then(|| self.ops.at(slot).buf.clone());
        if buf.is_some_and(|buf| self.copies_alone(peer, &buf, at, false)) {
            let status = Status { source: peer.0, envelope: Envelope::default(), len: wants };
            self.ops.end_answered(slot, Ok(status));
            return Ok(slot);
        }
        let sent = self.send_copy(peer, &envelope, start.as_slice());
        self.asked(slot, sent)
    }

    pub(super) fn atomic(
        &mut self,
        peer: PeerId,
        atomic: Atomic<'_>,
        at: Spot,
        along: Along,
        owner: Owner,
    ) -> Result<u32, Error> {
        let Atomic { op, scalar, count, operands, comparands, fetch } = atomic;
        let row = count.saturating_mul(scalar.size());
        let short = |buf: &Buf, wanted: bool| wanted && buf.len() != row;
        let wrong = !op.takes(scalar)
            || count > ELEMENTS_MAX
            || short(operands, op != AtomicOp::Read)
            || short(comparands, op.compares())
            || fetch.as_ref().is_some_and(|into| into.len() != row);
        if wrong {
            let why = format!("{op:?} cannot be done with {count} elements of type {scalar:?}");
            return Err(Error::Refused { peer, why });
        }
        let mut start = Start::new(at, along.share);
        start.push(&(count as u32).to_le_bytes());
        start.push(&[op as u8, scalar as u8, u8::from(fetch.is_some()), 0]);
        let none = Buf::empty();
        let operands = if op == AtomicOp::Read { &none } else { operands };
        let comparands = if op.compares() { comparands } else { &none };
        let into = fetch.unwrap_or_else(Buf::empty);
        let wants = into.len();
        let (slot, id) = self.ask(peer, into, wants, owner);
        let envelope = heading_of(id, Kind::ATOMIC, along);
        let rows = [operands, comparands];
        if self.device.is_self(peer) {
            self.ask_self(peer, &envelope, start.as_slice(), &rows);
            return Ok(slot);
        }
        let sent = self.send_parts(peer, &envelope, start.as_slice(), &rows);
        self.asked(slot, sent)
    }

    /// A share of an operation that is asked for in so many requests.
    pub(super) fn share(&mut self, parts: usize) -> Option<Share> {
        let parts = u32::try_from(parts).ok()?;
        self.remote.shares = self.remote.shares.wrapping_add(1);
        Some(Share { whole: self.remote.shares, parts })
    }

    /// Does what this process asks of itself, and ends the operation.
    fn ask_self(&mut self, peer: PeerId, envelope: &Envelope, head: &[u8], parts: &[&Buf]) {
        let request = together(head, parts);
        let (op, code, bytes) = match self.remote.take(&mut self.ops, peer, envelope, &request) {
            Answer::None => return,
            Answer::Code(op, Ok(())) => (op, 0, std::mem::take(&mut self.remote.bytes)),
            Answer::Code(op, Err(why)) => (op, why as u8, Vec::new()),
            Answer::Memory(op, given) => {
                let bytes = together(&[], &[&given.memory]);
                self.remote.given(&mut self.ops, peer, Some(given.seen), given.share);
                (op, 0, bytes)
            }
        };
        answered(&mut self.ops, peer, &heading(op, code), &bytes);
    }

    /// Sends a message that is put together from several pieces of memory; they may be used again
    /// at once.
    pub(super) fn send_parts(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        head: &[u8],
        parts: &[&Buf],
    ) -> Result<(), Error> {
        if self.try_parts(peer, envelope, head, parts)? {
            return Ok(());
        }
        let bytes = together(head, parts);
        let kept = Outgoing::Kept(&Buf::from_vec(bytes), Until::Free);
        let started = self.send(peer, envelope, kept)?;
        self.detach(started);
        Ok(())
    }

    /// The same, if there is room for it now.
    fn try_parts(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        head: &[u8],
        parts: &[&Buf],
    ) -> Result<bool, Error> {
        let len = head.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        if self.has_waiting_for(peer) || len > self.device.caps(peer).eager_max {
            return Ok(false);
        }
        match self.device.reserve(peer, len) {
            Ok(()) => {}
            Err(SendError::Failed(error)) => return Err(error),
            Err(SendError::Full | SendError::Held) => return Ok(false),
        }
        self.device.space()[..head.len()].copy_from_slice(head);
        let mut at = head.len();
        for part in parts {
            self.device.fill(at, part);
            at += part.len();
        }
        self.device.commit(envelope);
        Ok(true)
    }

    /// Sends a copy of `bytes`.
    #[inline]
    pub(super) fn send_copy(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let keep = || Buf::from_vec(bytes.to_vec());
        let started = self.send(peer, envelope, Outgoing::Borrowed(bytes, &keep))?;
        self.detach(started);
        Ok(())
    }

    /// Nobody asks how a send ends.
    pub(super) fn detach(&mut self, started: Started) {
        if let Started::Slot(slot) = started {
            self.entrust(slot, None);
        }
    }
}

/// What an answer says of itself.
pub(super) fn heading(op: u64, code: u8) -> Envelope {
    Envelope { tag: op, kind: Kind::ANSWER, flags: code, ..Envelope::default() }
}

/// Several pieces of memory as one.
fn together(head: &[u8], parts: &[&Buf]) -> Vec<u8> {
    let mut bytes = vec![0; head.len() + parts.iter().map(|part| part.len()).sum::<usize>()];
    bytes[..head.len()].copy_from_slice(head);
    let mut at = head.len();
    for part in parts {
        at += part.read(0, &mut bytes[at..]);
    }
    bytes
}

/// The operation that an answer names, if it was asked of this peer.
pub(super) fn asked_of(ops: &mut Ops, peer: PeerId, op: u64) -> Option<u32> {
    let slot = ops.slot(OpId(op))?;
    let op = ops.at(slot);
    (op.peer == peer && matches!(op.state, State::Remote { .. })).then_some(slot)
}

/// Ends an operation whose answer has not brought what it asked for, as one with such `flags` says:
/// who has it, but not as many bytes, says 0.
pub(super) fn end_unanswered(ops: &mut Ops, slot: u32, code: u8) {
    let op = ops.at(slot);
    let why = match (code, op.owner) {
        (0, _) => {
            "it answered with another number of bytes than it was asked for: is Weft the same on \
              all nodes?"
        }
        (code, Owner::Boundary(_)) => Refusal::from_code(code).why(),
        (code, _) => Refusal::from_code(code).why_region(),
    };
    let (peer, why) = (op.peer, why.to_string());
    ops.end_answered(slot, Err(Error::Refused { peer, why }));
}

/// Whether an answer of `len` bytes is what the operation that it names ([`asked_of`]) wants.
pub(super) fn wants(ops: &mut Ops, slot: u32, envelope: &Envelope, len: u64) -> bool {
    let State::Remote { wants, .. } = ops.at(slot).state else { return false };
    envelope.flags == 0 && wants as u64 == len
}

/// An answer has come whole.
pub(super) fn answered(ops: &mut Ops, peer: PeerId, envelope: &Envelope, payload: &[u8]) {
    let Some(slot) = asked_of(ops, peer, envelope.tag) else { return };
    if !wants(ops, slot, envelope, payload.len() as u64) {
        return end_unanswered(ops, slot, envelope.flags);
    }
    ops.at(slot).buf.write(0, payload);
    let (len, envelope) = (ops.at(slot).buf.len(), Envelope::default());
    ops.end_answered(slot, Ok(Status { source: peer.0, envelope, len }));
}
