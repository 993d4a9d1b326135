//! The operations of an endpoint that have not ended, or whose end nobody has asked for yet.

use weft_proto::msg::matching::Posted;
use weft_sys::buf::Buf;
use weft_wire::{Envelope, OpId, PeerId};

use crate::error::Error;

/// What is known of a message, once it has been matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The number of the process that sent it.
    pub source: u32,
    /// What it says of itself.
    pub envelope: Envelope,
    /// Bytes that it has. A receive into less memory than that ends in [`Error::Truncated`].
    pub len: usize,
}

impl Status {
    /// Its tag.
    pub fn tag(&self) -> u64 {
        self.envelope.tag
    }
}

/// Where an operation stands.
#[derive(Debug)]
pub(super) enum State {
    /// No operation: the slot is free, and this is the next free one.
    Free(Option<u32>),
    /// A send that waits for room at the device.
    Waiting,
    /// A send whose payload the receiver has not taken yet.
    Announced,
    /// A receive that waits for a message.
    Posted(Posted),
    /// A receive whose payload is on its way.
    Pulling(Status),
    /// It has ended.
    Ended(Result<Status, Error>),
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
    /// Nobody will ask how it ended.
    pub(super) detached: bool,
}

/// A slab of operations: a slot is used again, under another generation, when its operation's end
/// has been told.
#[derive(Default)]
pub(super) struct Ops {
    slots: Vec<Op>,
    free: Option<u32>,
    live: usize,
}

impl Ops {
    /// A new operation.
    #[inline]
    pub(super) fn insert(&mut self, state: State, peer: PeerId, buf: Buf) -> u32 {
        self.live += 1;
        let Some(slot) = self.free else {
            let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 operations");
            self.slots.push(Op { state, generation: 0, peer, buf, detached: false });
            return slot;
        };
        let op = &mut self.slots[slot as usize];
        let State::Free(next) = op.state else { unreachable!("the free list holds free slots") };
        self.free = next;
        op.state = state;
        op.peer = peer;
        op.buf = buf;
        op.detached = false;
        slot
    }

    /// The operation in `slot`.
    #[inline]
    pub(super) fn at(&mut self, slot: u32) -> &mut Op {
        &mut self.slots[slot as usize]
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
        op.state = State::Ended(result);
        if op.detached {
            self.remove(slot);
        } else if !op.buf.is_owned() {
            op.buf = Buf::empty();
        }
    }

    /// Frees the slot, and gives the operation's memory.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> Buf {
        let next = self.free.replace(slot);
        self.live -= 1;
        let op = self.at(slot);
        op.state = State::Free(next);
        op.generation = op.generation.wrapping_add(1);
        std::mem::replace(&mut op.buf, Buf::empty())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// The slots of all sends to `peer` that have not ended.
    pub(super) fn sends_to(&self, peer: PeerId) -> Vec<u32> {
        let mut found = Vec::new();
        for (slot, op) in self.slots.iter().enumerate() {
            if op.peer == peer && matches!(op.state, State::Waiting | State::Announced) {
                found.push(slot as u32);
            }
        }
        found
    }
}
