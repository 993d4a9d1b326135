//! An array that its owner sees as a slice while operations read and fill parts of it.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, PoisonError};

use crate::buf::Buf;
use crate::mem::Region;

/// One piece of memory that knows which of its bytes are in use, and how. Bytes that the owner
/// looks at are not filled meanwhile, and bytes that it changes are not used at all: whatever comes
/// second is refused. (Operations do not exclude each other: they are by one who knows what they
/// do.) A clone speaks of the same array.
#[derive(Clone, Debug)]
pub struct Array {
    shared: Arc<Shared>,
}

struct Shared {
    memory: Buf,
    uses: Mutex<Uses>,
}

#[derive(Default)]
struct Uses {
    last: u64,
    live: Vec<Use>,
}

struct Use {
    number: u64,
    bytes: Range<usize>,
    writes: bool,
    /// Whether it is the owner's, and not an operation's.
    owners: bool,
}

/// A use that lasts until this is dropped.
pub(crate) struct Claim {
    shared: Arc<Shared>,
    number: u64,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "claim {} of an array", self.number)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.memory.len())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut uses = self.shared.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.live.retain(|a_use| a_use.number != self.number);
    }
}

/// Bytes of an array that are looked at.
#[derive(Debug)]
pub struct Reading {
    _claim: Claim,
    bytes: Buf,
}

/// Bytes of an array that are changed.
#[derive(Debug)]
pub struct Writing {
    _claim: Claim,
    bytes: Buf,
}

impl Array {
    /// An array in memory that a `Buf` stands for, which is in one piece.
    ///
    /// # Safety
    /// Nobody uses the memory in another way than by this array and its clones.
    pub unsafe fn new(memory: Buf) -> Array {
        debug_assert!(memory.only().is_some(), "an array is one piece");
        Array { shared: Arc::new(Shared { memory, uses: Mutex::default() }) }
    }

    /// An array in the memory of a region, which lives as long as it; then `along` is dropped.
    pub fn from_region(region: Region, along: Box<dyn Any + Send + Sync>) -> Array {
        // SAFETY: the region and the `Buf` of it are given away here.
        unsafe { Array::new(Buf::from_region(region, along)) }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.shared.memory.len()
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it begins.
    pub fn addr(&self) -> usize {
        self.shared.memory.pieces().next().map_or(0, |piece| piece.addr())
    }

    /// These bytes, to be read; `None` while some of them are written, or if there are not so many.
    pub fn read(&self, bytes: Range<usize>) -> Option<Reading> {
        let claim = self.claim(bytes.clone(), false, true)?;
        Some(Reading { _claim: claim, bytes: self.shared.memory.range(bytes.start, bytes.len()) })
    }

    /// These bytes, to be changed; `None` while some of them are in use.
    pub fn write(&self, bytes: Range<usize>) -> Option<Writing> {
        let claim = self.claim(bytes.clone(), true, true)?;
        Some(Writing { _claim: claim, bytes: self.shared.memory.range(bytes.start, bytes.len()) })
    }

    /// These bytes for an operation, which reads or (`writes`) fills them; they are in use until
    /// the last clone is gone. `None` while the owner uses them in a way that forbids it, or if
    /// there are not so many.
    pub fn lend(&self, bytes: Range<usize>, writes: bool) -> Option<Buf> {
        let claim = self.claim(bytes.clone(), writes, false)?;
        Some(self.shared.memory.range(bytes.start, bytes.len()).kept_by(claim))
    }

    fn claim(&self, bytes: Range<usize>, writes: bool, owners: bool) -> Option<Claim> {
        if bytes.start > bytes.end || bytes.end > self.len() {
            return None;
        }
        let mut uses = self.shared.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let forbids = |other: &Use| {
            let overlaps = other.bytes.start < bytes.end && bytes.start < other.bytes.end;
            overlaps && (writes || other.writes) && (owners || other.owners)
        };
        if uses.live.iter().any(forbids) {
            return None;
        }
        uses.last += 1;
        let number = uses.last;
        uses.live.push(Use { number, bytes, writes, owners });
        Some(Claim { shared: self.shared.clone(), number })
    }
}

impl Deref for Reading {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the array's memory is one piece, which the claim keeps alive, and nobody writes
        // these bytes as long as it lasts.
        unsafe { self.bytes.slice() }
    }
}

impl Deref for Writing {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as for `Reading`.
        unsafe { self.bytes.slice() }
    }
}

impl DerefMut for Writing {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `Reading`; nobody else uses these bytes at all.
        unsafe { self.bytes.slice_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(len: usize) -> Array {
        // SAFETY: the vector is used by nobody else.
        unsafe { Array::new(Buf::from_vec(vec![0; len])) }
    }

    #[test]
    fn uses_that_forbid_each_other_are_refused() {
        let array = array(16);
        let left = array.lend(0..8, true).unwrap();
        assert!(array.read(4..12).is_none() && array.write(7..8).is_none());
        assert!(array.lend(0..1, false).is_some(), "operations do not exclude each other");
        assert!(array.lend(8..9, true).is_some());
        let right = array.read(8..16).unwrap();
        assert!(array.read(8..16).is_some() && array.write(15..16).is_none());
        assert!(array.lend(15..16, true).is_none() && array.lend(15..16, false).is_some());
        let part = left.range(2, 2);
        drop(left);
        assert!(array.read(0..16).is_none(), "a part of the memory is still lent");
        drop(part);
        assert!(array.read(0..16).is_some());
        drop(right);
        assert!(array.write(0..16).is_some());
        assert!(array.read(0..17).is_none() && array.read(17..17).is_none());
    }

    #[test]
    fn memory_lives_as_long_as_somebody_uses_it() {
        let array = array(8);
        array.write(0..8).unwrap().copy_from_slice(&[7; 8]);
        let (lent, seen) = (array.lend(0..4, false).unwrap(), array.read(4..8).unwrap());
        drop(array);
        let mut bytes = [0; 4];
        assert_eq!((lent.read(0, &mut bytes), bytes, &*seen), (4, [7; 4], &[7; 4][..]));
    }
}
