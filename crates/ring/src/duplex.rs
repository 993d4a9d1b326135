//! One end of a connection both ways: two rings, a turn line and blocks.

use crate::layout::INLINE;
use crate::{Blocks, Consumer, Head, Item, Pace, Producer, Refused, RingError, Taken, Turn};

/// One end of a connection: a ring each way, a turn line for small items that go there and back,
/// and blocks for longer payloads. Items arrive in the order in which they were put in, whichever
/// way each one takes.
pub struct Duplex {
    out: Producer,
    into: Consumer,
    turn: Turn,
    blocks: Blocks,
    /// Whether what is sent goes into blocks.
    lends: bool,
    /// Items that were.
    lent: u64,
    /// Whether the current item came by the turn line.
    turned: bool,
    room: Room,
}

/// Where what was reserved last lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Ring,
    Turn,
    /// In the next block, with so many bytes.
    Block(usize),
}

impl Duplex {
    /// An end that sends by `out` and receives by `into`. The turn line and the blocks must be as
    /// unused as the rings, and the other end must have their other ends.
    pub fn new(out: Producer, mut into: Consumer, mut turn: Turn, blocks: Blocks) -> Duplex {
        into.take_blocks(blocks.size());
        turn.take_blocks(blocks.size());
        Duplex { out, into, turn, blocks, lends: false, lent: 0, turned: false, room: Room::Ring }
    }

    /// From now on, payloads over [`INLINE`] bytes are sent in blocks where there are any: for who
    /// reads all of each payload that comes. The others' blocks are not at hand.
    pub fn lend(&mut self) {
        self.lends = true;
    }

    /// How long the turn line is left alone after a write, from now on.
    pub fn set_pace(&mut self, pace: Pace) {
        self.turn.set_pace(pace);
    }

    /// The longest payload in bytes that can be sent.
    pub fn max_len(&self) -> usize {
        self.out.max_len()
    }

    /// Room for an item with `len` bytes of payload: see [`Producer::reserve`].
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<&mut [u8], Refused> {
        self.room = Room::Ring;
        if len <= INLINE {
            if !self.turn.is_mine() {
                return self.out.reserve(len);
            }
            self.room = Room::Turn;
            return Ok(self.turn.reserve(len));
        }
        if !self.lends || !self.blocks.has(len) {
            return self.out.reserve(len);
        }
        if !self.turn.is_mine() {
            self.out.reserve(0)?;
        }
        self.room = Room::Block(len);
        Ok(self.blocks.space(len))
    }

    /// Whether what was reserved last lies in a block.
    #[inline]
    pub fn in_block(&self) -> bool {
        matches!(self.room, Room::Block(_))
    }

    /// Items that were sent in blocks so far.
    pub fn lent(&self) -> u64 {
        self.lent
    }

    /// The room that was reserved last, again.
    ///
    /// # Panics
    /// If nothing was reserved.
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        match self.room {
            Room::Ring => self.out.space(),
            Room::Turn => self.turn.space(),
            Room::Block(len) => self.blocks.space(len),
        }
    }

    /// Sends what was reserved last.
    ///
    /// # Panics
    /// If nothing was reserved.
    #[inline]
    pub fn commit(&mut self, kind: u8, head: Head) {
        match std::mem::replace(&mut self.room, Room::Ring) {
            Room::Ring => self.out.commit(kind, head),
            Room::Turn => self.turn.commit(kind, head, self.out.put()),
            Room::Block(len) => {
                let block = self.blocks.pass();
                self.lent += 1;
                if self.turn.is_mine() {
                    self.turn.lend(kind, head, len, block, self.out.put());
                } else {
                    self.out.lend(kind, head, len, block);
                }
            }
        }
    }

    /// Sends an item with a copy of `payload`.
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline]
    pub fn push(&mut self, kind: u8, head: Head, payload: &[u8]) -> Result<(), Refused> {
        if payload.len() > INLINE {
            self.reserve(payload.len())?.copy_from_slice(payload);
            self.commit(kind, head);
            return Ok(());
        }
        if self.turn.is_mine() {
            self.room = Room::Ring;
            self.turn.push(kind, head, payload, self.out.put());
            return Ok(());
        }
        self.push_by_ring(kind, head, payload)
    }

    /// As [`Duplex::push`], but by the ring alone: for who does not send in turn with the other
    /// end, but at the same time.
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline]
    pub fn push_by_ring(&mut self, kind: u8, head: Head, payload: &[u8]) -> Result<(), Refused> {
        self.room = Room::Ring;
        self.out.push(kind, head, payload)
    }

    /// See [`Producer::want_room`].
    ///
    /// # Errors
    /// When the ring is unusable.
    pub fn want_room(&mut self) -> Result<bool, RingError> {
        self.out.want_room()
    }

    /// The oldest item: the same one again until it is [`Duplex::release`]d.
    ///
    /// # Errors
    /// When the connection is unusable.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<&Item>, RingError> {
        self.look(false)
    }

    /// As [`Duplex::peek`], for who looks again at once if there is nothing: an item that has just
    /// come may be seen then only ([`Pace::Skip`]).
    ///
    /// # Errors
    /// When the connection is unusable.
    #[inline]
    pub fn peek_patiently(&mut self) -> Result<Option<&Item>, RingError> {
        self.look(true)
    }

    #[inline]
    fn look(&mut self, patiently: bool) -> Result<Option<&Item>, RingError> {
        if !self.turned {
            // In this order: where the ring shows an item that comes after the one in the turn
            // line, that one can be seen as well.
            let found = self.into.look()?;
            let early = patiently && !found && self.turn.is_early();
            if !self.turn.is_mine() && !early {
                self.look_at_turn(found)?;
            }
        }
        let current = self.current();
        if let Some(&Item { len, .. }) = current
            && len > INLINE
            && let Some(block) = self.block()
        {
            self.blocks.check(block, len)?;
        }
        Ok(current)
    }

    #[inline]
    fn look_at_turn(&mut self, found: bool) -> Result<(), RingError> {
        match self.turn.take(self.into.taken(), self.into.slots())? {
            Taken::Item => {
                // The ring's turn comes when this one is released.
                self.into.look_again();
                self.turned = true;
            }
            // What comes before it can be seen by now.
            Taken::Later if !found => _ = self.into.look()?,
            Taken::Later | Taken::Nothing => {}
        }
        Ok(())
    }

    /// Whether another item than the current one can be seen in the ring.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.into.has_more()
    }

    /// The item that [`Duplex::peek`] last gave, if it was not released since.
    #[inline]
    pub fn current(&self) -> Option<&Item> {
        if self.turned { Some(self.turn.item()) } else { self.into.current() }
    }

    /// The payload of the item that [`Duplex::peek`] last gave: see [`Consumer::payload`].
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        if let Some(&Item { len, .. }) = self.current()
            && len > INLINE
            && let Some(block) = self.block()
        {
            return self.blocks.payload(block, len);
        }
        if self.turned { self.turn.payload() } else { self.into.payload() }
    }

    /// The block in which the current item's payload lies.
    #[inline]
    fn block(&self) -> Option<u8> {
        if self.turned { self.turn.block() } else { self.into.block() }
    }

    /// Gives the item back that [`Duplex::peek`] last gave: see [`Consumer::release`].
    #[inline]
    pub fn release(&mut self) -> bool {
        if let Some(block) = self.block() {
            self.blocks.keep(block);
        }
        !std::mem::take(&mut self.turned) && self.into.release()
    }
}
