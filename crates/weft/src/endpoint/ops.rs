//! The operations of an endpoint that have not ended, or whose end nobody has asked for yet.

use std::collections::{HashMap, VecDeque};

#[doc(inline)]
pub use weft_device::Status;
use weft_proto::msg::matching::Posted;
use weft_sys::buf::Buf;
use weft_wire::{OpId, PeerId};

use super::collective::{PartEnd, Running, Side};
use super::many::Many;
use super::serve::Landing;
use super::turn::{Cookie, Occurrence, Received};
use crate::error::Error;

/// When a send ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// When its memory may be used again.
    Free,
    /// The same, but a long message when its receiver has it.
    Taken,
    /// When its receiver has it: in the memory of a receive, or stored for one to come.
    There,
}

/// Where an operation stands.
#[derive(Debug)]
pub(super) enum State {
    /// No operation: the slot is free, and this is the next free one.
    Free(Option<u32>),
    /// A send that waits for room at the device.
    Waiting,
    /// A send of which the device tells when the receiver has taken it.
    Announced,
    /// A receive that waits for a message.
    Posted(Posted),
    /// A receive whose payload is on its way.
    Pulling(Status),
    /// A receive of several messages.
    Many(Box<Many>),
    /// A message on its way into the memory of a receive of several, from this offset on.
    Part { status: Status, many: u32, offset: usize },
    /// An operation on a peer's memory that waits for the answer, which must have so many bytes;
    /// `sending`: and that must not end before another, which sends its payload. `reads`: the
    /// answer is memory of the peer's, which is not copied when the request is taken.
    Remote { wants: usize, sending: bool, reads: bool },
    /// The same, whose answer is here while its payload is still held.
    Answered(Result<Status, Error>),
    /// A peer's long put that is on its way into a window.
    Landing(Box<Landing>),
    /// A peer's request that could only be announced, and is being pulled.
    Request,
    /// What a peer says in a group, on its way here.
    Word,
    /// A barrier or a broadcast of a group.
    Joint,
    /// A collective operation by messages.
    Collective(Box<Running>),
    /// It has ended.
    Ended(Result<Status, Error>),
}

/// Who is told how an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// Whoever holds its request.
    Request,
    /// Nobody.
    Nobody,
    /// The endpoint's boundary, by an [`Occurrence`].
    Boundary(Cookie),
    /// A collective operation, one of whose messages it is.
    Part { whole: u32, side: Side },
    /// An operation on a peer's memory, whose payload it sends.
    Put(OpId),
    /// The window's side, for memory that a peer reads.
    Giver,
}

/// One operation.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) state: State,
    /// Which operation of this slot it is.
    pub(super) generation: u32,
    /// The other process, for a send.
    pub(super) peer: PeerId,
    /// The memory it reads or fills, until it ends; after that, kept for the owner of a vector.
    pub(super) buf: Buf,
    pub(super) owner: Owner,
    /// When it ends, for a send.
    pub(super) until: Until,
}

impl Op {
    /// Goes from a state that owns nothing to another. (An assignment would call the old one's
    /// destructor, and move the new one there a moment after it was written: see `Envelope`.)
    #[inline(always)]
    pub(super) fn go_to(&mut self, state: State) {
        debug_assert!(!matches!(
            self.state,
            State::Many(_) | State::Landing(_) | State::Collective(_) | State::Ended(Err(_))
        ));
        std::mem::forget(std::mem::replace(&mut self.state, state));
    }
}

/// A slab of operations: a slot is used again, under another generation, when its operation's end
/// has been told.
#[derive(Default)]
pub(super) struct Ops {
    slots: Vec<Op>,
    free: Option<u32>,
    live: usize,
    /// For the endpoint's boundary, oldest first.
    pub(super) occurrences: Vec<Occurrence>,
    /// For collective operations, oldest first.
    pub(super) parts: VecDeque<PartEnd>,
    /// For windows: sends of their memory, and whether they have ended well.
    pub(super) given: Vec<(OpId, bool)>,
    /// How the first operation of each peer failed that nobody asks for, until it is asked for.
    pub(super) unasked: HashMap<PeerId, Error>,
    /// Counts the ends that somebody waits for.
    pub(super) ends: u32,
}

impl Ops {
    /// A new operation.
    pub(super) fn insert(&mut self, state: State, peer: PeerId, buf: Buf) -> u32 {
        let slot = self.insert_receive(|| buf, Owner::Request);
        let op = self.at(slot);
        op.peer = peer;
        op.go_to(state);
        slot
    }

    /// A new operation that waits, of no peer's, as a receive begins. Its memory is asked for last,
    /// and so is made where it is kept: see [`Op::go_to`].
    #[inline(always)]
    pub(super) fn insert_receive(&mut self, memory: impl FnOnce() -> Buf, owner: Owner) -> u32 {
        self.live += 1;
        let slot = self.free.unwrap_or_else(|| self.grow());
        let op = &mut self.slots[slot as usize];
        let State::Free(next) = op.state else { unreachable!("the free list holds free slots") };
        self.free = next;
        op.go_to(State::Waiting);
        op.peer = PeerId(u32::MAX);
        op.owner = owner;
        op.until = Until::Free;
        debug_assert!(op.buf.is_empty() && !op.buf.is_owned(), "a free slot has no memory");
        std::mem::forget(std::mem::replace(&mut op.buf, memory()));
        slot
    }

    /// One more slot, free.
    #[cold]
    fn grow(&mut self) -> u32 {
        let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 operations");
        self.slots.push(Op {
            state: State::Free(None),
            generation: 0,
            peer: PeerId(u32::MAX),
            buf: Buf::empty(),
            owner: Owner::Nobody,
            until: Until::Free,
        });
        slot
    }

    /// The operation in `slot`.
    #[inline]
    pub(super) fn at(&mut self, slot: u32) -> &mut Op {
        &mut self.slots[slot as usize]
    }

    /// Whether a receive of more than `len` bytes waits in a slot.
    pub(super) fn is_posted(&self, slot: u32, len: usize) -> bool {
        let op = self.slots.get(slot as usize);
        op.is_some_and(|op| matches!(op.state, State::Posted(_)) && op.buf.len() > len)
    }

    /// The operation that a request names, if its end has not been told yet.
    #[inline]
    pub(super) fn named(&mut self, slot: u32, generation: u32) -> Option<&mut Op> {
        let op = self.slots.get_mut(slot as usize)?;
        (op.generation == generation && !matches!(op.state, State::Free(_))).then_some(op)
    }

    /// What a device calls the operation in `slot`.
    #[inline]
    pub(super) fn id(&self, slot: u32) -> OpId {
        OpId(u64::from(slot) | u64::from(self.slots[slot as usize].generation) << 32)
    }

    /// The slot that a device means.
    #[inline]
    pub(super) fn slot(&mut self, id: OpId) -> Option<u32> {
        let (slot, generation) = (id.0 as u32, (id.0 >> 32) as u32);
        self.named(slot, generation).map(|_| slot)
    }

    /// Ends an operation. Its memory is given up at once, unless it is a vector that the owner
    /// wants back.
    #[inline]
    pub(super) fn end(&mut self, slot: u32, result: Result<Status, Error>) {
        let op = self.at(slot);
        match op.owner {
            Owner::Boundary(cookie) => {
                self.remove(slot);
                self.tell(Occurrence::Ended { cookie, result, placed: None });
            }
            Owner::Request => {
                self.ends = self.ends.wrapping_add(1);
                let op = self.at(slot);
                op.state = State::Ended(result);
                if !op.buf.is_owned() {
                    op.buf = Buf::empty();
                }
            }
            Owner::Nobody => self.end_unasked(slot, result),
            Owner::Put(put) => {
                self.remove(slot);
                self.put_sent(put);
            }
            Owner::Giver => {
                self.given.push((self.id(slot), result.is_ok()));
                self.remove(slot);
            }
            Owner::Part { whole, side } => {
                self.ends = self.ends.wrapping_add(1);
                self.remove(slot);
                self.parts.push_back(PartEnd { whole, side, result });
            }
        }
    }

    /// Ends an operation whose end nobody asks for. That one on a peer's memory has failed is told
    /// by a flush.
    fn end_unasked(&mut self, slot: u32, result: Result<Status, Error>) {
        let op = self.at(slot);
        let remote = matches!(op.state, State::Remote { .. } | State::Answered(_))
            || matches!(op.state, State::Pulling(_)) && op.peer.0 != u32::MAX;
        if let Err(error) = result
            && remote
        {
            let peer = op.peer;
            self.unasked.entry(peer).or_insert(error);
        }
        self.remove(slot);
    }

    /// Ends an operation on a peer's memory that has been answered, once its payload is free.
    #[inline]
    pub(super) fn end_answered(&mut self, slot: u32, result: Result<Status, Error>) {
        match &mut self.at(slot).state {
            state @ State::Remote { sending: true, .. } => *state = State::Answered(result),
            _ => self.end(slot, result),
        }
    }

    /// The payload of a put is free again.
    fn put_sent(&mut self, put: OpId) {
        let Some(slot) = self.slot(put) else { return };
        match &mut self.at(slot).state {
            State::Remote { sending, .. } => *sending = false,
            State::Answered(result) => {
                let result = std::mem::replace(result, Err(Error::NoRequest));
                self.end(slot, result);
            }
            _ => {}
        }
    }

    /// The operations on the memory of `peer`, or of any, that have not ended.
    pub(super) fn remote_of(&self, peer: Option<PeerId>) -> Vec<(u32, u32)> {
        let goes_on = |op: &Op| match op.state {
            State::Remote { .. } | State::Answered(_) => true,
            State::Pulling(_) => op.peer.0 != u32::MAX,
            _ => false,
        };
        let of = |op: &Op| peer.is_none_or(|peer| op.peer == peer) && goes_on(op);
        let found = self.slots.iter().enumerate().filter(|(_, op)| of(op));
        found.map(|(slot, op)| (slot as u32, op.generation)).collect()
    }

    /// Those of them that later ones may overtake: puts whose bytes the peer fetches, and gets,
    /// whose bytes may still be in the peer's memory when it has taken the request. (What atomic
    /// operations fetch is copied with the change.)
    pub(super) fn overtaken_by_later(&self, peer: PeerId) -> Vec<(u32, u32)> {
        let is_overtaken = |op: &Op| match op.state {
            State::Remote { sending, reads, .. } => sending || reads,
            State::Answered(_) | State::Pulling(_) => true,
            _ => false,
        };
        let of = self.slots.iter().enumerate().filter(|(_, op)| op.peer == peer);
        let found = of.filter(|(_, op)| is_overtaken(op));
        found.map(|(slot, op)| (slot as u32, op.generation)).collect()
    }

    /// Ends a receive well: as [`Ops::end`], in fewer moves.
    #[inline]
    pub(super) fn end_received(&mut self, slot: u32, status: Status) {
        let Owner::Boundary(cookie) = self.at(slot).owner else {
            return self.end(slot, Ok(status));
        };
        self.at(slot).buf.clear();
        self.free(slot);
        self.tell(Occurrence::Received(Received::new(cookie, &status)));
    }

    /// Tells the boundary of something.
    #[inline]
    pub(super) fn tell(&mut self, occurrence: Occurrence) {
        self.ends = self.ends.wrapping_add(1);
        self.occurrences.push(occurrence);
    }

    /// Says who is to be told of an end that has come already.
    #[cold]
    pub(super) fn entrust_ended(&mut self, slot: u32, owner: Owner) {
        let op = self.at(slot);
        if let State::Ended(result) = std::mem::replace(&mut op.state, State::Waiting) {
            op.owner = owner;
            self.end(slot, result);
        }
    }

    /// Frees the slot, and gives the operation's memory.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> Buf {
        let buf = std::mem::replace(&mut self.at(slot).buf, Buf::empty());
        self.free(slot);
        buf
    }

    /// Frees the slot, whose memory was given.
    #[inline]
    fn free(&mut self, slot: u32) {
        let next = self.free.replace(slot);
        self.live -= 1;
        let op = self.at(slot);
        op.state = State::Free(next);
        op.generation = op.generation.wrapping_add(1);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Whom a message was announced to that it has not taken yet.
    pub(super) fn announced_to(&self) -> Option<PeerId> {
        let first = self.slots.iter().find(|op| matches!(op.state, State::Announced));
        first.map(|op| op.peer)
    }

    /// The slot of an operation that the boundary calls `context` and that could be cancelled.
    pub(super) fn by_context(&self, context: u64) -> Option<u32> {
        let could = |op: &Op| {
            matches!(op.owner, Owner::Boundary(cookie) if cookie.context == context)
                && matches!(
                    op.state,
                    State::Posted(_) | State::Many(_) | State::Waiting | State::Announced
                )
        };
        self.slots.iter().position(could).map(|slot| slot as u32)
    }

    /// The slots of all collective operations by messages.
    pub(super) fn collectives(&self) -> Vec<u32> {
        self.running().map(|(slot, _)| slot).collect()
    }

    /// All collective operations by messages, with their slots.
    pub(super) fn running(&self) -> impl Iterator<Item = (u32, &Running)> {
        self.slots.iter().enumerate().filter_map(|(slot, op)| match &op.state {
            State::Collective(running) => Some((slot as u32, &**running)),
            _ => None,
        })
    }

    /// The slots of the messages of a collective operation that are under way.
    pub(super) fn parts_of(&self, whole: u32) -> Vec<u32> {
        let is_part = |op: &Op| matches!(op.owner, Owner::Part { whole: of, .. } if of == whole);
        let live = |op: &Op| !matches!(op.state, State::Free(_));
        let found = self.slots.iter().enumerate().filter(|(_, op)| live(op) && is_part(op));
        found.map(|(slot, _)| slot as u32).collect()
    }

    /// The slots of all operations with `peer` that it was to end and has not.
    pub(super) fn expected_of(&self, peer: PeerId) -> Vec<u32> {
        let mut found = Vec::new();
        for (slot, op) in self.slots.iter().enumerate() {
            let waits =
                matches!(op.state, State::Waiting | State::Announced | State::Remote { .. });
            if op.peer == peer && waits {
                found.push(slot as u32);
            }
        }
        found
    }
}
