//! Where things lie in a ring, and what a slot's first word means.

use crate::RingError;

/// Bytes of a cache line, of a slot, and of a unit of the data area.
pub const LINE: usize = 64;

/// Bytes of payload that lie in the slot itself.
pub const INLINE: usize = 32;

/// Byte offset of the payload in its slot.
pub(crate) const INLINE_AT: usize = LINE - INLINE;

/// Byte offset of the consumer's place.
pub(crate) const PLACE_AT: usize = 0;

/// Byte offset of the word by which the producer says that it waits for room.
pub(crate) const WANT_AT: usize = LINE;

/// Byte offset of the slots.
pub(crate) const SLOTS_AT: usize = 2 * LINE;

/// Three words that travel with an item, in its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Head(pub u64, pub u64, pub u64);

/// How large a ring is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    slots: u32,
    units: u32,
}

impl Geometry {
    /// A ring of `slots` slots with a data area of `data` bytes.
    ///
    /// # Errors
    /// Both must be powers of two: 4 to 65536 slots, 256 bytes to 16 MiB.
    pub fn new(slots: usize, data: usize) -> Result<Geometry, RingError> {
        if !slots.is_power_of_two() || !(4..=1 << 16).contains(&slots) {
            return Err(RingError::Memory("slots must be a power of two from 4 to 65536"));
        }
        if !data.is_power_of_two() || !(4 * LINE..=16 << 20).contains(&data) {
            return Err(RingError::Memory("data bytes must be a power of two, 256 to 16 Mi"));
        }
        Ok(Geometry { slots: slots as u32, units: (data / LINE) as u32 })
    }

    /// Slots: items that can be on their way.
    pub fn slots(&self) -> usize {
        self.slots as usize
    }

    /// Bytes of the data area.
    pub fn data(&self) -> usize {
        self.units as usize * LINE
    }

    /// Bytes of memory that the ring needs.
    pub fn size(&self) -> usize {
        self.data_at() + self.data()
    }

    /// The longest payload in bytes: a quarter of the data area. A consumer that has looked at
    /// everything keeps less than a quarter back, and less than a quarter is lost at the end of the
    /// area, so a payload of this length always finds room in the end.
    pub fn max_len(&self) -> usize {
        self.data() / 4
    }

    pub(crate) fn slot_at(&self, place: u32) -> usize {
        SLOTS_AT + (place & (self.slots - 1)) as usize * LINE
    }

    pub(crate) fn data_at(&self) -> usize {
        SLOTS_AT + self.slots as usize * LINE
    }

    pub(crate) fn units(&self) -> u32 {
        self.units
    }

    /// Where a payload of `len` bytes goes when `used` units have been used so far: the byte
    /// offset, and how many units it takes with those that are skipped because they end before it
    /// does.
    #[inline]
    pub(crate) fn place(&self, used: u32, len: usize) -> (usize, u32) {
        let take = len.div_ceil(LINE) as u32;
        let at = used & (self.units - 1);
        let left = self.units - at;
        if take <= left {
            (self.data_at() + at as usize * LINE, take)
        } else {
            (self.data_at(), left + take)
        }
    }
}

/// A slot's first word, taken apart.
#[derive(Clone, Copy)]
pub(crate) struct Control {
    pub(crate) seq: u32,
    pub(crate) kind: u8,
    pub(crate) len: usize,
    /// The payload lies in a block, which the slot's first byte of payload names.
    pub(crate) lent: bool,
}

/// The bit of a length that says that the payload lies in a block: no ring's payload is as long.
const LENT: u64 = 1 << 63;

impl Control {
    #[inline]
    pub(crate) fn pack(self) -> u64 {
        let lent = if self.lent { LENT } else { 0 };
        u64::from(self.seq) | u64::from(self.kind) << 32 | (self.len as u64) << 40 | lent
    }

    #[inline]
    pub(crate) fn unpack(word: u64) -> Control {
        let (len, lent) = ((word & !LENT) >> 40, word & LENT != 0);
        Control { seq: word as u32, kind: (word >> 32) as u8, len: len as usize, lent }
    }
}

/// The consumer's place as one word, so that both halves change together: slots and units that it
/// has given back, modulo 2^32.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slots: u32,
    pub(crate) units: u32,
}

impl Place {
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.slots) | u64::from(self.units) << 32
    }

    pub(crate) fn unpack(word: u64) -> Place {
        Place { slots: word as u32, units: (word >> 32) as u32 }
    }
}
