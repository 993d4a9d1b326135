//! One end of a connection both ways: two rings and a turn line.

use crate::layout::INLINE;
use crate::{Consumer, Head, Item, Producer, Refused, RingError, Taken, Turn};

/// One end of a connection: a ring each way, and a turn line for small items that go there and
/// back. Items arrive in the order in which they were put in, whichever way each one takes.
pub struct Duplex {
    out: Producer,
    into: Consumer,
    turn: Turn,
    /// Whether the current item came by the turn line.
    turned: bool,
    /// Whether what was reserved last is in the turn line.
    in_turn: bool,
}

impl Duplex {
    /// An end that sends by `out` and receives by `into`. The turn line must be as unused as the
    /// rings, and the other end must have its other end.
    pub fn new(out: Producer, into: Consumer, turn: Turn) -> Duplex {
        Duplex { out, into, turn, turned: false, in_turn: false }
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
        self.in_turn = len <= INLINE && self.turn.is_mine();
        if self.in_turn { Ok(self.turn.reserve(len)) } else { self.out.reserve(len) }
    }

    /// The room that was reserved last, again.
    ///
    /// # Panics
    /// If nothing was reserved.
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        if self.in_turn { self.turn.space() } else { self.out.space() }
    }

    /// Sends what was reserved last.
    ///
    /// # Panics
    /// If nothing was reserved.
    #[inline]
    pub fn commit(&mut self, kind: u8, head: Head) {
        if std::mem::take(&mut self.in_turn) {
            self.turn.commit(kind, head, self.out.put());
        } else {
            self.out.commit(kind, head);
        }
    }

    /// Sends an item with a copy of `payload`.
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline]
    pub fn push(&mut self, kind: u8, head: Head, payload: &[u8]) -> Result<(), Refused> {
        self.in_turn = false;
        if payload.len() <= INLINE && self.turn.is_mine() {
            self.turn.push(kind, head, payload, self.out.put());
            return Ok(());
        }
        self.out.push(kind, head, payload)
    }

    /// As [`Duplex::push`], but not by the turn line: for who does not send in turn with the other
    /// end, but at the same time.
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline]
    pub fn push_by_ring(&mut self, kind: u8, head: Head, payload: &[u8]) -> Result<(), Refused> {
        self.in_turn = false;
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
        if !self.turned {
            // In this order: where the ring shows an item that comes after the one in the turn
            // line, that one can be seen as well.
            let found = self.into.look()?;
            if !self.turn.is_mine() {
                self.look_at_turn(found)?;
            }
        }
        Ok(self.current())
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
        if self.turned { self.turn.payload() } else { self.into.payload() }
    }

    /// Gives the item back that [`Duplex::peek`] last gave: see [`Consumer::release`].
    #[inline]
    pub fn release(&mut self) -> bool {
        !std::mem::take(&mut self.turned) && self.into.release()
    }
}
