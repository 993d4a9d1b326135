//! Operations on a peer's memory: requests and answers between endpoints.
//!
//! | message | tag | payload |
//! |---|---|---|
//! | `PUT` | the asker's operation | [`Spot`], bytes |
//! | `CONTROL`, then `LONG_PUT` | the same in both | [`Spot`]; the bytes, announced |
//! | `GET` | the asker's operation | [`Spot`], length |
//! | `ATOMIC` | the asker's operation | [`Spot`], count, operation, type, operands, comparands |
//! | `ANSWER` | the operation | the bytes asked for; `flags` says why it was refused, or 0 |
//!
//! What a process asks of its own memory is done at once: it must not be overtaken by what others
//! ask for afterwards, having seen what its program did next.
//!
//! A long put is pulled straight into the window, and a long answer straight into the asker's
//! memory. An asker is answered when the bytes are there, so the end of its operation says that.

use std::sync::Arc;

use weft_sys::buf::Buf;
use weft_wire::{Envelope, Kind, OpId, PeerId, Ticket};

use super::ops::{Ops, Owner, State, Status};
use super::sends::{Outgoing, Started};
use super::turn::{Access, Atomic, Occurrence};
use super::work::{EndpointWork, whole};
use crate::device::SendError;
use crate::error::Error;
use crate::remote::{AtomicOp, Change, ELEMENTS_MAX, Refusal, Rights, Scalar, Spot, Windows};

/// In `flags` of a request: the envelope's data is a word for the peer.
const HAS_DATA: u8 = 1;

/// Bytes of a [`Spot`].
const SPOT_LEN: usize = 16;

/// Bytes before the operands of an atomic operation.
const ATOMIC_LEN: usize = SPOT_LEN + 8;

/// Long puts of one peer whose payload has not been announced yet: it follows at once.
const SETUPS_MAX: usize = 1024;

/// The longest of what is said in groups, bytes; and how many longer ones than the shortest are
/// brought here at one time: they can be asked for again.
const WORD_MAX: usize = 80 << 10;
const WORDS_MAX: usize = 64;
const WORD_SHORT: usize = 128;

/// A long put that is on its way.
#[derive(Debug)]
pub(super) struct Landing {
    /// The asker's operation.
    answer: u64,
    refusal: Option<Refusal>,
    key: u64,
    data: Option<u64>,
}

/// A long put that was said to come.
struct Setup {
    peer: PeerId,
    op: u64,
    spot: Spot,
    data: Option<u64>,
}

/// What an endpoint knows of its windows and of requests for them.
#[derive(Default)]
pub(super) struct Remote {
    pub(super) windows: Arc<Windows>,
    /// Whether every access is told.
    pub(super) watched: bool,
    setups: Vec<Setup>,
    /// The answer's bytes; kept to be used again.
    bytes: Vec<u8>,
}

/// What an asker is answered.
pub(super) enum Answer {
    /// Nothing: it was no request.
    None,
    /// The bytes in [`Remote::bytes`], or why not.
    Code(u64, Result<(), Refusal>),
    /// Memory of a window.
    Memory(u64, Buf),
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

fn spot_at(bytes: &[u8]) -> Option<Spot> {
    Some(Spot { key: u64_at(bytes, 0)?, addr: u64_at(bytes, 8)? })
}

fn spot_bytes(spot: Spot) -> [u8; SPOT_LEN] {
    let mut bytes = [0; SPOT_LEN];
    bytes[..8].copy_from_slice(&spot.key.to_le_bytes());
    bytes[8..].copy_from_slice(&spot.addr.to_le_bytes());
    bytes
}

fn word(envelope: &Envelope) -> Option<u64> {
    (envelope.flags & HAS_DATA != 0).then_some(envelope.data)
}

impl Remote {
    fn note(&self, ops: &mut Ops, peer: PeerId, seen: (Access, u64, usize), data: Option<u64>) {
        if self.watched || data.is_some() {
            let (access, key, len) = seen;
            ops.tell(Occurrence::Accessed { peer: peer.0, access, key, len, data });
        }
    }

    /// Does what a message asks for, if it is a request.
    pub(super) fn take(
        &mut self,
        ops: &mut Ops,
        peer: PeerId,
        envelope: &Envelope,
        payload: &[u8],
    ) -> Answer {
        self.bytes.clear();
        let op = envelope.tag;
        let result = match envelope.kind {
            Kind::PUT => spot_at(payload)
                .ok_or(Refusal::Nonsense)
                .and_then(|spot| self.write(ops, peer, spot, &payload[SPOT_LEN..], word(envelope))),
            Kind::CONTROL => {
                self.expect(peer, envelope, payload);
                return Answer::None;
            }
            // Short enough to come whole.
            Kind::LONG_PUT => match self.expected(peer, op) {
                Some(Setup { spot, data, .. }) => self.write(ops, peer, spot, payload, data),
                None => return Answer::None,
            },
            Kind::GET => match self.read(ops, peer, payload) {
                Ok(memory) => return Answer::Memory(op, memory),
                Err(refusal) => Err(refusal),
            },
            Kind::ATOMIC => self.change(ops, peer, envelope, payload),
            _ => return Answer::None,
        };
        Answer::Code(op, result)
    }

    fn expect(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) {
        let Some(spot) = spot_at(payload) else { return };
        if self.setups.iter().filter(|s| s.peer == peer).count() >= SETUPS_MAX {
            return;
        }
        self.setups.push(Setup { peer, op: envelope.tag, spot, data: word(envelope) });
    }

    fn expected(&mut self, peer: PeerId, op: u64) -> Option<Setup> {
        let at = self.setups.iter().position(|s| s.peer == peer && s.op == op)?;
        Some(self.setups.swap_remove(at))
    }

    fn write(
        &mut self,
        ops: &mut Ops,
        peer: PeerId,
        spot: Spot,
        bytes: &[u8],
        data: Option<u64>,
    ) -> Result<(), Refusal> {
        let rights = Rights { get: false, put: true };
        self.windows.find(spot, bytes.len(), rights)?.write(0, bytes);
        self.note(ops, peer, (Access::Put, spot.key, bytes.len()), data);
        Ok(())
    }

    fn read(&mut self, ops: &mut Ops, peer: PeerId, payload: &[u8]) -> Result<Buf, Refusal> {
        let spot = spot_at(payload).ok_or(Refusal::Nonsense)?;
        let len = u64_at(payload, SPOT_LEN).ok_or(Refusal::Nonsense)?;
        let len = usize::try_from(len).map_err(|_| Refusal::Bounds)?;
        let memory = self.windows.find(spot, len, Rights { get: true, put: false })?;
        self.note(ops, peer, (Access::Get, spot.key, len), None);
        Ok(memory)
    }

    fn change(
        &mut self,
        ops: &mut Ops,
        peer: PeerId,
        envelope: &Envelope,
        payload: &[u8],
    ) -> Result<(), Refusal> {
        let head = payload.get(..ATOMIC_LEN).ok_or(Refusal::Nonsense)?;
        let spot = spot_at(head).ok_or(Refusal::Nonsense)?;
        let count = u32::from_le_bytes([head[16], head[17], head[18], head[19]]) as usize;
        let op = *AtomicOp::ALL.get(usize::from(head[20])).ok_or(Refusal::Nonsense)?;
        let scalar = *Scalar::ALL.get(usize::from(head[21])).ok_or(Refusal::Nonsense)?;
        let fetch = head[22] != 0;
        let rows = &payload[ATOMIC_LEN..];
        let row = count * scalar.size();
        let operands = if op == AtomicOp::Read { 0 } else { row };
        let expected = operands + if op.compares() { row } else { 0 };
        if count > ELEMENTS_MAX || rows.len() != expected {
            return Err(Refusal::Nonsense);
        }
        let (operands, comparands) = rows.split_at(operands);
        let change = Change { op, scalar, count, operands, comparands };
        self.windows.change(spot, &change, fetch, &mut self.bytes)?;
        if !fetch {
            self.bytes.clear();
        }
        let access = if fetch { Access::FetchAtomic } else { Access::Atomic };
        self.note(ops, peer, (access, spot.key, row), word(envelope));
        Ok(())
    }
}

impl EndpointWork {
    /// A new operation that a peer will answer.
    fn ask(&mut self, peer: PeerId, into: Buf, owner: Owner) -> (u32, u64) {
        let slot = self.ops.insert(State::Remote, peer, into);
        self.ops.at(slot).owner = owner;
        (slot, self.ops.id(slot).0)
    }

    /// Forgets an operation whose request could not be sent.
    fn asked(&mut self, slot: u32, sent: Result<(), Error>) -> Result<(), Error> {
        if sent.is_err() {
            self.ops.remove(slot);
        }
        sent
    }

    pub(super) fn put(
        &mut self,
        peer: PeerId,
        from: &Buf,
        at: Spot,
        data: Option<u64>,
        owner: Owner,
    ) -> Result<(), Error> {
        let (slot, op) = self.ask(peer, Buf::empty(), owner);
        let flags = if data.is_some() { HAS_DATA } else { 0 };
        let kind = Kind::PUT;
        let envelope =
            Envelope { tag: op, data: data.unwrap_or(0), kind, flags, ..Envelope::default() };
        if self.device.is_self(peer) {
            self.ask_self(peer, &envelope, &spot_bytes(at), &[from]);
            return Ok(());
        }
        let caps = self.device.caps(peer);
        let len = SPOT_LEN + from.len();
        let sent = if len <= caps.eager_max && len < caps.announce_from {
            self.send_parts(peer, &envelope, &spot_bytes(at), &[from])
        } else {
            let setup = Envelope { kind: Kind::CONTROL, ..envelope };
            let long = Envelope { kind: Kind::LONG_PUT, ..envelope };
            self.send_copy(peer, &setup, &spot_bytes(at))
                .and_then(|()| self.send(peer, &long, Outgoing::Kept(from)))
                .map(|started| self.detach(started))
        };
        self.asked(slot, sent)
    }

    pub(super) fn get(
        &mut self,
        peer: PeerId,
        into: Buf,
        at: Spot,
        owner: Owner,
    ) -> Result<(), Error> {
        let mut request = [0; SPOT_LEN + 8];
        request[..SPOT_LEN].copy_from_slice(&spot_bytes(at));
        request[SPOT_LEN..].copy_from_slice(&(into.len() as u64).to_le_bytes());
        let (slot, op) = self.ask(peer, into, owner);
        let envelope = Envelope { tag: op, kind: Kind::GET, ..Envelope::default() };
        if self.device.is_self(peer) {
            self.ask_self(peer, &envelope, &request, &[]);
            return Ok(());
        }
        let sent = self.send_copy(peer, &envelope, &request);
        self.asked(slot, sent)
    }

    pub(super) fn atomic(
        &mut self,
        peer: PeerId,
        atomic: Atomic<'_>,
        at: Spot,
        data: Option<u64>,
        owner: Owner,
    ) -> Result<(), Error> {
        let Atomic { op, scalar, count, operands, comparands, fetch } = atomic;
        let row = count * scalar.size();
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
        let mut head = [0; ATOMIC_LEN];
        head[..SPOT_LEN].copy_from_slice(&spot_bytes(at));
        head[16..20].copy_from_slice(&(count as u32).to_le_bytes());
        (head[20], head[21], head[22]) = (op as u8, scalar as u8, u8::from(fetch.is_some()));
        let none = Buf::empty();
        let operands = if op == AtomicOp::Read { &none } else { operands };
        let comparands = if op.compares() { comparands } else { &none };
        let (slot, id) = self.ask(peer, fetch.unwrap_or_else(Buf::empty), owner);
        let envelope = Envelope {
            tag: id,
            data: data.unwrap_or(0),
            kind: Kind::ATOMIC,
            flags: if data.is_some() { HAS_DATA } else { 0 },
            ..Envelope::default()
        };
        if self.device.is_self(peer) {
            self.ask_self(peer, &envelope, &head, &[operands, comparands]);
            return Ok(());
        }
        let sent = self.send_parts(peer, &envelope, &head, &[operands, comparands]);
        self.asked(slot, sent)
    }

    /// Does what this process asks of itself, and ends the operation.
    fn ask_self(&mut self, peer: PeerId, envelope: &Envelope, head: &[u8], parts: &[&Buf]) {
        let request = together(head, parts);
        let (op, code, bytes) = match self.remote.take(&mut self.ops, peer, envelope, &request) {
            Answer::None => return,
            Answer::Code(op, Ok(())) => (op, 0, std::mem::take(&mut self.remote.bytes)),
            Answer::Code(op, Err(why)) => (op, why as u8, Vec::new()),
            Answer::Memory(op, memory) => (op, 0, together(&[], &[&memory])),
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
        let len = head.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        if !self.has_waiting_for(peer) && len <= self.device.caps(peer).eager_max {
            match self.device.reserve(peer, len) {
                Ok(()) => {
                    gather(head, parts, self.device.space());
                    self.device.commit(envelope);
                    return Ok(());
                }
                Err(SendError::Failed(error)) => return Err(error),
                Err(SendError::Full | SendError::Held) => {}
            }
        }
        let bytes = together(head, parts);
        let started = self.send(peer, envelope, Outgoing::Kept(&Buf::from_vec(bytes)))?;
        self.detach(started);
        Ok(())
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
    fn detach(&mut self, started: Started) {
        if let Started::Slot(slot) = started {
            self.entrust(slot, None);
        }
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, peer: PeerId, answer: Answer) {
        // An asker that is gone needs no answer.
        let _ = match answer {
            Answer::None => Ok(()),
            Answer::Code(op, Ok(())) => {
                let bytes = std::mem::take(&mut self.remote.bytes);
                let sent = self.send_copy(peer, &heading(op, 0), &bytes);
                self.remote.bytes = bytes;
                sent
            }
            Answer::Code(op, Err(why)) => self.send_copy(peer, &heading(op, why as u8), &[]),
            Answer::Memory(op, memory) => self
                .send(peer, &heading(op, 0), Outgoing::Kept(&memory))
                .map(|started| self.detach(started)),
        };
    }

    /// Takes an announced message that is not matched: a long put, or a long answer.
    pub(super) fn take_unmatched(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        len: u64,
        ticket: Ticket,
    ) {
        if envelope.kind == Kind::LONG_PUT {
            return self.land(peer, envelope.tag, len as usize, ticket);
        }
        let status = Status { source: peer.0, envelope: Envelope::default(), len: len as usize };
        let has_room = status.len <= WORD_SHORT || self.words_pulled < WORDS_MAX;
        if envelope.kind == Kind::GROUP && status.len <= WORD_MAX && has_room {
            return self.pull_word(peer, status, ticket);
        }
        let asked = (envelope.kind == Kind::ANSWER)
            .then(|| asked_of(&mut self.ops, peer, envelope.tag))
            .flatten();
        // What nobody asked for is pulled into nothing, so that its sender is rid of it.
        let slot = asked.unwrap_or_else(|| {
            let slot = self.ops.insert(State::Waiting, peer, Buf::empty());
            self.ops.at(slot).owner = Owner::Nobody;
            slot
        });
        self.pull(slot, status, ticket);
    }

    fn land(&mut self, peer: PeerId, op: u64, len: usize, ticket: Ticket) {
        let rights = Rights { get: false, put: true };
        let (memory, landing) = match self.remote.expected(peer, op) {
            Some(Setup { spot, data, .. }) => {
                let found = self.remote.windows.find(spot, len, rights);
                let refusal = found.as_ref().err().copied();
                let memory = found.unwrap_or_else(|_| Buf::empty());
                (memory, Landing { answer: op, refusal, key: spot.key, data })
            }
            None => {
                let refusal = Some(Refusal::Nonsense);
                (Buf::empty(), Landing { answer: op, refusal, key: 0, data: None })
            }
        };
        let slot = self.ops.insert(State::Landing(Box::new(landing)), peer, memory.clone());
        self.ops.at(slot).owner = Owner::Nobody;
        let id = self.ops.id(slot);
        self.device.pull(peer, ticket, memory, id);
    }

    /// A long put is there.
    pub(super) fn landed(&mut self, slot: u32) {
        let op = self.ops.at(slot);
        let peer = op.peer;
        let len = op.buf.len();
        let State::Landing(landing) = std::mem::replace(&mut op.state, State::Waiting) else {
            return;
        };
        self.ops.remove(slot);
        self.remote.bytes.clear();
        let result = landing.refusal.map_or(Ok(()), Err);
        if result.is_ok() {
            let seen = (Access::Put, landing.key, len);
            self.remote.note(&mut self.ops, peer, seen, landing.data);
        }
        self.answer(peer, Answer::Code(landing.answer, result));
    }
}

/// What an answer says of itself.
fn heading(op: u64, code: u8) -> Envelope {
    Envelope { tag: op, kind: Kind::ANSWER, flags: code, ..Envelope::default() }
}

/// Copies several pieces of memory one behind the other.
fn gather(head: &[u8], parts: &[&Buf], into: &mut [u8]) {
    let (start, mut rest) = into.split_at_mut(head.len());
    start.copy_from_slice(head);
    for part in parts {
        let (own, behind) = rest.split_at_mut(part.len());
        part.read(0, own);
        rest = behind;
    }
}

/// The same into fresh memory.
fn together(head: &[u8], parts: &[&Buf]) -> Vec<u8> {
    let mut bytes = vec![0; head.len() + parts.iter().map(|part| part.len()).sum::<usize>()];
    gather(head, parts, &mut bytes);
    bytes
}

/// The operation that an answer names, if it was asked of this peer.
fn asked_of(ops: &mut Ops, peer: PeerId, op: u64) -> Option<u32> {
    let slot = ops.slot(OpId(op))?;
    let op = ops.at(slot);
    (op.peer == peer && matches!(op.state, State::Remote)).then_some(slot)
}

/// An answer has come whole.
pub(super) fn answered(ops: &mut Ops, peer: PeerId, envelope: &Envelope, payload: &[u8]) {
    let Some(slot) = asked_of(ops, peer, envelope.tag) else { return };
    let result = match envelope.flags {
        0 => {
            let status =
                Status { source: peer.0, envelope: Envelope::default(), len: payload.len() };
            let room = ops.at(slot).buf.write(0, payload);
            whole(status, room)
        }
        code => Err(Error::Refused { peer, why: Refusal::from_code(code).why().to_string() }),
    };
    ops.end(slot, result);
}
