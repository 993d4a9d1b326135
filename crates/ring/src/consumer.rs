//! The end of a ring that takes items out.

use std::{ptr, slice};

use crate::layout::{Control, INLINE, INLINE_AT, PLACE_AT, Place, WANT_AT};
use crate::sync::{Ordering, fence};
use crate::{Geometry, Head, Memory, RingError};

/// An item, without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// What the producer called it.
    pub kind: u8,
    /// Its three words.
    pub head: Head,
    /// Bytes of its payload.
    pub len: usize,
}

/// The end of a ring that takes items out. There must be only one of a ring.
pub struct Consumer {
    mem: Memory,
    geometry: Geometry,
    /// Items and units taken out so far.
    taken: Place,
    /// What the producer knows to be given back.
    back: Place,
    /// Whether the slots still hold the zeros that they began with.
    first_lap: bool,
    /// What the next slot held when it was found empty.
    empty: Option<u64>,
    /// Bytes of a payload that may lie in a block.
    longest_lent: usize,
    current: Option<Current>,
    broken: Option<RingError>,
}

/// The item that was looked at and not yet released.
#[derive(Clone, Copy)]
struct Current {
    item: Item,
    /// Where its payload lies, and how many units of the data area it takes.
    at: usize,
    take: u32,
    /// The block that it lies in instead.
    block: Option<u8>,
}

impl Consumer {
    /// The consumer of an empty ring in zeroed memory.
    ///
    /// # Errors
    /// When the memory is smaller than [`Geometry::size`].
    pub fn new(mem: Memory, geometry: Geometry) -> Result<Consumer, RingError> {
        if mem.len() < geometry.size() {
            return Err(RingError::Memory("it is too small"));
        }
        let start = Place { slots: 0, units: 0 };
        Ok(Consumer {
            mem,
            geometry,
            taken: start,
            back: start,
            first_lap: true,
            empty: None,
            longest_lent: 0,
            current: None,
            broken: None,
        })
    }

    /// From now on payloads of at most `len` bytes may lie in blocks.
    pub(crate) fn take_blocks(&mut self, len: usize) {
        self.longest_lent = len;
    }

    /// The oldest item in the ring: the same one again until it is [`Consumer::release`]d.
    ///
    /// # Errors
    /// When the ring is unusable, now and from then on.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<&Item>, RingError> {
        self.look()?;
        Ok(self.current())
    }

    /// Whether there is an item, which is the current one from now on.
    #[inline(always)]
    pub(crate) fn look(&mut self) -> Result<bool, RingError> {
        if self.current.is_some() {
            return Ok(true);
        }
        let at = self.geometry.slot_at(self.taken.slots);
        let word = self.mem.word(at).load(Ordering::Acquire);
        if self.empty == Some(word) {
            return Ok(false);
        }
        if word as u32 != self.taken.slots.wrapping_add(1) {
            return self.nothing(word);
        }
        self.take_up(at, Control::unpack(word))?;
        Ok(true)
    }

    /// Whether there is an item that [`Consumer::peek`] has not given. A look, not a check.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        let next = self.taken.slots.wrapping_add(u32::from(self.current.is_some()));
        let word = self.mem.word(self.geometry.slot_at(next)).load(Ordering::Relaxed);
        word as u32 == next.wrapping_add(1)
    }

    /// Items released so far, modulo 2^32.
    #[inline]
    pub(crate) fn taken(&self) -> u32 {
        self.taken.slots
    }

    /// Forgets the item that was looked at, without releasing it: the next look finds it again.
    #[inline]
    pub(crate) fn look_again(&mut self) {
        self.current = None;
    }

    /// The block in which the current item's payload lies.
    #[inline]
    pub(crate) fn block(&self) -> Option<u8> {
        self.current.as_ref().and_then(|current| current.block)
    }

    /// Slots of the ring.
    #[inline]
    pub(crate) fn slots(&self) -> usize {
        self.geometry.slots()
    }

    /// The item that [`Consumer::peek`] last gave, if it was not released since.
    #[inline]
    pub fn current(&self) -> Option<&Item> {
        self.current.as_ref().map(|current| &current.item)
    }

    /// The payload of the item that [`Consumer::peek`] last gave.
    ///
    /// The bytes lie in memory that the producer's process can write. It does not before they are
    /// released, unless it is broken or hostile; then they may change while they are read. So treat
    /// them as bytes from outside: copy out first whatever is checked and used afterwards.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let current = self.current.as_ref().expect("an item was looked at");
        assert!(current.block.is_none(), "its payload lies in a block");
        self.mem.note(current.at, current.item.len.max(1), false);
        // SAFETY: `take_up` has computed `at` from our own count and checked the length, so the
        // range lies inside the memory. The acquire of the slot's word makes the producer's writes
        // to it visible, and an honest producer does not touch it before `release`. What another
        // process does to shared memory is outside of the language's model; as with any mapping of
        // a file, the bytes may then differ from read to read, which no valid use of `u8`s turns
        // into more.
        unsafe { slice::from_raw_parts(self.mem.at(current.at), current.item.len) }
    }

    /// Gives the item back that [`Consumer::peek`] last gave. `true`: the producer waits for room
    /// and there is some now, so its doorbell must be rung.
    #[inline]
    pub fn release(&mut self) -> bool {
        let Some(current) = self.current.take() else { return false };
        self.empty = None;
        self.taken.slots = self.taken.slots.wrapping_add(1);
        self.taken.units = self.taken.units.wrapping_add(current.take);
        if self.first_lap && self.taken.slots == self.geometry.slots() as u32 {
            self.first_lap = false;
        }
        let slots = self.taken.slots.wrapping_sub(self.back.slots);
        let units = self.taken.units.wrapping_sub(self.back.units);
        let due = slots >= self.geometry.slots() as u32 / 4 || units >= self.geometry.units() / 4;
        due && self.give_back()
    }

    /// Tells the producer what it may use again.
    #[cold]
    fn give_back(&mut self) -> bool {
        self.back = self.taken;
        self.mem.word(PLACE_AT).store(self.taken.pack(), Ordering::Release);
        // Pairs with the fence in `Producer::want_room`.
        fence(Ordering::SeqCst);
        let want = self.mem.word(WANT_AT);
        if want.load(Ordering::Relaxed) == 0 {
            return false;
        }
        want.store(0, Ordering::Relaxed);
        true
    }

    /// The ring is empty if the slot still holds what it held one lap ago.
    #[inline]
    fn nothing(&mut self, word: u64) -> Result<bool, RingError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let seq = Control::unpack(word).seq;
        let before = self.taken.slots.wrapping_add(1).wrapping_sub(self.geometry.slots() as u32);
        let empty = if self.first_lap { word == 0 } else { seq == before };
        if !empty {
            return Err(self.breaks("a sequence number"));
        }
        self.empty = Some(word);
        Ok(false)
    }

    #[inline(never)]
    fn take_up(&mut self, slot: usize, control: Control) -> Result<(), RingError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let Control { kind, len, lent, .. } = control;
        let longest = if lent { self.longest_lent } else { self.geometry.max_len() };
        if len > longest || lent && len <= INLINE {
            return Err(self.breaks("a length"));
        }
        let (at, take) = if len <= INLINE || lent {
            (slot + INLINE_AT, 0)
        } else {
            self.geometry.place(self.taken.units, len)
        };
        self.mem.note(slot, 1, false);
        // SAFETY: the slot is inside the memory and aligned; the words are integers, for which
        // every value is valid, and the acquire of the slot's first word has made them visible.
        let head = unsafe { ptr::read(self.mem.at(slot + 8).cast::<Head>()) };
        // SAFETY: as above: the first byte of the slot's room for a payload.
        let block = lent.then(|| unsafe { ptr::read(self.mem.at(slot + INLINE_AT)) });
        self.current = Some(Current { item: Item { kind, head, len }, at, take, block });
        Ok(())
    }

    #[cold]
    fn breaks(&mut self, what: &'static str) -> RingError {
        let error = RingError::Corrupt(what);
        (self.broken, self.empty) = (Some(error), None);
        error
    }
}
