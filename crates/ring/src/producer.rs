//! The end of a ring that puts items in.

use std::{ptr, slice};

use crate::layout::{Control, INLINE, INLINE_AT, PLACE_AT, Place, WANT_AT};
use crate::sync::{Ordering, fence};
use crate::words::write_words;
use crate::{Geometry, Head, Memory, RingError};

/// Why a ring took no item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There is no room just now.
    Full,
    /// The payload is longer than [`Geometry::max_len`].
    TooLong,
    /// The ring is unusable.
    Corrupt(RingError),
}

/// The end of a ring that puts items in. There must be only one of a ring.
pub struct Producer {
    mem: Memory,
    geometry: Geometry,
    /// Items put in so far, modulo 2^32.
    put: u32,
    /// Units of the data area used so far, modulo 2^32.
    used: u32,
    /// What the consumer had given back when it was last looked at.
    back: Place,
    reserved: Option<Reserved>,
    /// The length that last found no room.
    refused: usize,
}

/// What was reserved last.
#[derive(Clone, Copy)]
struct Reserved {
    /// Where its payload lies in the memory, and how many bytes it has.
    at: usize,
    len: usize,
    /// Units of the data area that it takes.
    take: u32,
}

impl Producer {
    /// The producer of an empty ring: memory of zeros, or one that the same process has made.
    ///
    /// # Errors
    /// When the memory is smaller than [`Geometry::size`].
    pub fn new(mem: Memory, geometry: Geometry) -> Result<Producer, RingError> {
        if mem.len() < geometry.size() {
            return Err(RingError::Memory("it is too small"));
        }
        let back = Place { slots: 0, units: 0 };
        Ok(Producer { mem, geometry, put: 0, used: 0, back, reserved: None, refused: 0 })
    }

    /// The longest payload in bytes.
    pub fn max_len(&self) -> usize {
        self.geometry.max_len()
    }

    /// Items put in so far, modulo 2^32.
    pub fn put(&self) -> u32 {
        self.put
    }

    /// Room for an item with `len` bytes of payload, to be filled in place. A second call without
    /// [`Producer::commit`] forgets the first. What the bytes are before they are written is
    /// unspecified.
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<&mut [u8], Refused> {
        self.reserved = None;
        let (at, take) = if len <= INLINE {
            (self.geometry.slot_at(self.put) + INLINE_AT, 0)
        } else if len <= self.geometry.max_len() {
            self.geometry.place(self.used, len)
        } else {
            return Err(Refused::TooLong);
        };
        if !self.fits(take) {
            self.look()?;
            if !self.fits(take) {
                self.refused = len;
                return Err(Refused::Full);
            }
        }
        self.reserved = Some(Reserved { at, len, take });
        Ok(self.space())
    }

    /// The room that was reserved last, again.
    ///
    /// # Panics
    /// If nothing was reserved.
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        let Reserved { at, len, .. } = self.reserved.expect("something was reserved");
        self.mem.note(at, len.max(1), true);
        // SAFETY: `at..at + len` lies inside the slot or the data area, hence inside the memory.
        // The consumer has given this room back (or never had it) and takes it again only after
        // `commit` has released it; the memory is always initialised (zeros at first).
        unsafe { slice::from_raw_parts_mut(self.mem.at(at), len) }
    }

    /// Puts what was reserved last into the ring as one item.
    ///
    /// # Panics
    /// If nothing was reserved.
    #[inline]
    pub fn commit(&mut self, kind: u8, head: Head) {
        let Reserved { len, take, .. } = self.reserved.take().expect("commit follows reserve");
        self.publish(kind, head, len, take, false);
    }

    /// Puts an item into the ring whose payload of `len` bytes lies in a block, where room for an
    /// item without payload was reserved last.
    ///
    /// # Panics
    /// If nothing was reserved.
    #[inline]
    pub(crate) fn lend(&mut self, kind: u8, head: Head, len: usize, block: u8) {
        let reserved = self.reserved.take().expect("an item without payload was reserved");
        // SAFETY: the slot's room for a payload, inside the memory, aligned to 8, and ours as
        // `reserve` has said.
        unsafe { write_words(self.mem.at(reserved.at), &[block]) };
        self.publish(kind, head, len, 0, true);
    }

    #[inline]
    fn publish(&mut self, kind: u8, head: Head, len: usize, take: u32, lent: bool) {
        let at = self.geometry.slot_at(self.put);
        self.mem.note(at, 1, true);
        // SAFETY: the slot is inside the memory; the three words after its first are ours until the
        // store below, as `reserve` found the slot free. They are aligned to 8.
        unsafe { ptr::write(self.mem.at(at + 8).cast::<Head>(), head) };
        self.put = self.put.wrapping_add(1);
        self.used = self.used.wrapping_add(take);
        let control = Control { seq: self.put, kind, len, lent };
        self.mem.word(at).store(control.pack(), Ordering::Release);
    }

    /// Puts an item with a copy of `payload` into the ring.
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
        self.reserve(payload.len())?;
        let at = self.geometry.slot_at(self.put) + INLINE_AT;
        // SAFETY: the slot's room for a payload is inside the memory, aligned to 8, and ours as
        // `reserve` has said. The words go into it together, and together with what `commit`
        // writes, for the consumer looks at the slot all the time and would take the line away
        // between two writes.
        unsafe { write_words(self.mem.at(at), payload) };
        self.commit(kind, head);
        Ok(())
    }

    /// Asks the consumer to tell when it gives room back ([`crate::Consumer::release`] says so
    /// there, once), unless what last found no room would find it now: then the answer is `true`.
    ///
    /// # Errors
    /// When the ring is unusable.
    pub fn want_room(&mut self) -> Result<bool, RingError> {
        let want = self.mem.word(WANT_AT);
        want.store(1, Ordering::Relaxed);
        // Pairs with the fence in `Consumer::give_back`: either it sees the wish, or we see the
        // room.
        fence(Ordering::SeqCst);
        let take = match self.refused {
            ..=INLINE => 0,
            len => self.geometry.place(self.used, len).1,
        };
        if let Err(Refused::Corrupt(error)) = self.look() {
            return Err(error);
        }
        let room = self.fits(take);
        if room {
            self.mem.word(WANT_AT).store(0, Ordering::Relaxed);
        }
        Ok(room)
    }

    #[inline]
    fn fits(&self, take: u32) -> bool {
        let slots = self.put.wrapping_sub(self.back.slots);
        let units = self.used.wrapping_sub(self.back.units);
        slots < self.geometry.slots() as u32 && units + take <= self.geometry.units()
    }

    /// Looks at what the consumer has given back.
    #[cold]
    fn look(&mut self) -> Result<(), Refused> {
        let place = Place::unpack(self.mem.word(PLACE_AT).load(Ordering::Acquire));
        let slots = place.slots.wrapping_sub(self.back.slots);
        let units = place.units.wrapping_sub(self.back.units);
        // It can have given back only what was put in, and takes nothing back again.
        if slots > self.put.wrapping_sub(self.back.slots)
            || units > self.used.wrapping_sub(self.back.units)
        {
            return Err(Refused::Corrupt(RingError::Corrupt("the consumer's place")));
        }
        self.back = place;
        Ok(())
    }
}
