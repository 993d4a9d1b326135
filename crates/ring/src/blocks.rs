//! Blocks: room for payloads that passes from one end to the other with what is in it.

use std::slice;

use crate::layout::LINE;
use crate::{Memory, RingError};

/// Most blocks of a connection: an end looks through all of its own for one that has come.
const MOST: usize = 32;

/// The longest block: a turn line tells of 16 bits of length.
const LONGEST: usize = 32 << 10;

/// One end of a row of blocks, each of which belongs to one of the two ends: it alone may write
/// there. An item hands the block over that its payload lies in; whoever has read it has the block
/// from then on, and uses it for what it sends next.
///
/// A ring's memory was read last by its consumer, so each of its lines must be taken away from that
/// cache before it is written, and is then fetched from the writer's: two moves between the cores
/// for each line of a payload. A block is written by whom it was read last, and moves once. (4 KiB
/// there and back between two cores of a Xeon of 2023, copies in and out included, nothing else:
/// 2.2 us by a ring each way, 1.5 us so.)
///
/// Whoever only receives soon has all blocks, and whoever only sends none; that one uses its ring.
pub struct Blocks {
    mem: Memory,
    size: usize,
    /// The blocks of this end, the one that it has had in hand last at the end.
    mine: Vec<u8>,
}

impl Blocks {
    /// An end of the blocks of `size` bytes that `mem` has room for. One of the two ends is the
    /// `first`; each begins with half of them.
    ///
    /// # Errors
    /// When these are not 0 to 32 of them, or they are not made of whole lines, at most 32 KiB.
    pub fn new(mem: Memory, size: usize, first: bool) -> Result<Blocks, RingError> {
        if size == 0 || !size.is_multiple_of(LINE) || size > LONGEST {
            return Err(RingError::Memory("a block must be made of whole lines, at most 32 KiB"));
        }
        let count = mem.len() / size;
        if count > MOST {
            return Err(RingError::Memory("it has room for more than 32 blocks"));
        }
        let half = count / 2;
        let mine = if first { 0..half } else { half..count }.map(|b| b as u8).collect();
        Ok(Blocks { mem, size, mine })
    }

    /// Bytes of a block.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether this end has a block for `len` bytes.
    #[inline]
    pub(crate) fn has(&self, len: usize) -> bool {
        len <= self.size && !self.mine.is_empty()
    }

    /// The first `len` bytes of the block that is passed next.
    ///
    /// # Panics
    /// If this end has none, or it is shorter.
    #[inline]
    pub(crate) fn space(&mut self, len: usize) -> &mut [u8] {
        let block = *self.mine.last().expect("this end has a block");
        let at = self.at(block, len);
        self.mem.note(at, len.max(1), true);
        // SAFETY: `at` has checked that the bytes lie inside the memory, which is always
        // initialised (zeros at first). The block is ours: the other end has released it to us, or
        // never had it, and takes it again only after an item's release store has passed it.
        unsafe { slice::from_raw_parts_mut(self.mem.at(at), len) }
    }

    /// Passes a block to the other end: from now on it is not to be touched. The item that is sent
    /// next must name it.
    ///
    /// # Panics
    /// If this end has none.
    #[inline]
    pub(crate) fn pass(&mut self) -> u8 {
        self.mine.pop().expect("this end has a block")
    }

    /// Whether the other end can have passed this block with so many bytes in it.
    ///
    /// # Errors
    /// When it cannot: there is no such block, or it is this end's, or too short.
    #[inline]
    pub(crate) fn check(&self, block: u8, len: usize) -> Result<(), RingError> {
        let here = (usize::from(block) + 1) * self.size <= self.mem.len();
        if !here || self.mine.contains(&block) || len > self.size {
            return Err(RingError::Corrupt("a block"));
        }
        Ok(())
    }

    /// The first `len` bytes of a block that an item has named, and that has been checked. As for
    /// [`crate::Consumer::payload`], they are to be taken for bytes from outside.
    ///
    /// # Panics
    /// If there is no such block, or it is shorter.
    #[inline]
    pub(crate) fn payload(&self, block: u8, len: usize) -> &[u8] {
        let at = self.at(block, len);
        self.mem.note(at, len.max(1), false);
        // SAFETY: `at` has checked that the bytes lie inside the memory. The acquire of the item's
        // first word makes the other end's writes visible, and an honest one does not touch what it
        // has passed; for another see `Consumer::payload`.
        unsafe { slice::from_raw_parts(self.mem.at(at), len) }
    }

    /// Keeps a block that an item has named and that was read.
    #[inline]
    pub(crate) fn keep(&mut self, block: u8) {
        if self.check(block, 0).is_ok() {
            self.mine.push(block);
        }
    }

    /// Where a block begins.
    #[inline]
    fn at(&self, block: u8, len: usize) -> usize {
        let at = usize::from(block) * self.size;
        assert!(len <= self.size && at + self.size <= self.mem.len(), "a payload outside a block");
        at
    }
}
