//! The turn line: one cache line that two ends write in turn.

use std::hint::spin_loop;
use std::{ptr, slice};

use crate::layout::{INLINE, INLINE_AT};
use crate::sync::Ordering;
use crate::ticks::ticks;
use crate::words::write_words;
use crate::{Head, Item, Memory, RingError};

/// One end of a turn line, which carries one small item at a time, there and back again.
///
/// A ring in each direction costs a ping-pong two lines, and each of them must be taken from its
/// reader before it is written. Where both sides write the same line, the reader of an item has the
/// line at hand that it answers in: about half the traffic between the cores.
///
/// ```text
/// [turn:8 kind:8 len:16 after:32][head: 3 words][32 bytes of payload]
/// ```
///
/// Only the end whose turn it is may write, and reading the other's item gives it the turn. So
/// nothing waits in the line when it is written, and no room has to be given back. Who sends twice
/// in a row uses its ring for the second item. `after` says how many items of that ring come before
/// the one in the line: thereby the order is kept. A payload over 32 bytes lies in a block, which
/// the line's first byte of payload names ([`crate::Blocks`]).
pub struct Turn {
    mem: Memory,
    /// The line's first word, as of the last turn that was taken.
    last: u64,
    mine: bool,
    /// The item read last. It was copied out, so that the line is free for the answer, and so that
    /// the other process cannot change it any more.
    item: Item,
    payload: [u64; INLINE / 8],
    /// What is being written. It goes into the line all at once: the other end looks at the line
    /// all the time, and would take it away between two writes.
    draft: [u64; INLINE / 8],
    len: usize,
    pace: Pace,
    /// Whether nobody has looked since the last write, and when that was.
    fresh: bool,
    wrote: u64,
    /// Bytes of the longest payload: more than [`INLINE`] where they may lie in a block.
    longest: usize,
}

/// The line's first word, taken apart.
#[derive(Clone, Copy)]
struct Control {
    turn: u8,
    kind: u8,
    len: usize,
    after: u32,
}

impl Control {
    #[inline]
    fn pack(self) -> u64 {
        let small = u64::from(self.turn) | u64::from(self.kind) << 8 | (self.len as u64) << 16;
        small | u64::from(self.after) << 32
    }

    #[inline]
    fn unpack(word: u64) -> Control {
        let (turn, kind, len) = (word as u8, (word >> 8) as u8, (word >> 16) as u16);
        Control { turn, kind, len: usize::from(len), after: (word >> 32) as u32 }
    }
}

/// How long an end that has written leaves the line alone.
///
/// With the item, its reader gets the line for itself, so that it can answer at once: unless the
/// end that has written looks too early, and takes the line back. Then both the answer and the next
/// look have to wait for the line once more, which costs as much as a second line would.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// For the time of so many spin-loop hints, in which the other end should have answered.
    Pause(u32),
    /// Its first look is left out if it comes within so many [`ticks`] of the write: where the
    /// other end takes longer to answer than could be waited for, and looks follow each other.
    Skip(u64),
}

/// What there is in a turn line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Nothing for this end.
    Nothing,
    /// An item, but items of the ring come before it.
    Later,
    /// An item, which has been taken out.
    Item,
}

impl Turn {
    /// An end of an unused turn line: the first line of zeroed memory. Of the two ends, one is the
    /// `first` to write.
    ///
    /// # Errors
    /// When there is no line.
    pub fn new(mem: Memory, first: bool, pace: Pace) -> Result<Turn, RingError> {
        if mem.is_empty() {
            return Err(RingError::Memory("it is too small"));
        }
        let payload = [0; INLINE / 8];
        let item = Item { kind: 0, head: Head::default(), len: 0 };
        Ok(Turn {
            mem,
            last: 0,
            mine: first,
            item,
            payload,
            draft: payload,
            len: 0,
            pace,
            fresh: false,
            wrote: 0,
            longest: INLINE,
        })
    }

    /// Another pace from now on.
    pub(crate) fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// From now on payloads of at most `len` bytes may lie in blocks.
    pub(crate) fn take_blocks(&mut self, len: usize) {
        self.longest = len.max(INLINE);
    }

    /// Whether it is this end's turn to write.
    #[inline]
    pub fn is_mine(&self) -> bool {
        self.mine
    }

    /// Room for `len` bytes, to be filled in place, at most [`INLINE`].
    ///
    /// # Panics
    /// If it is not this end's turn, or `len` is over [`INLINE`].
    #[inline]
    pub fn reserve(&mut self, len: usize) -> &mut [u8] {
        assert!(self.mine && len <= INLINE, "a turn line takes small items in turn");
        self.len = len;
        self.space()
    }

    /// The room that was reserved last, again.
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        assert!(self.mine && self.len <= INLINE, "a turn line takes small items in turn");
        // SAFETY: `draft` has INLINE bytes, all initialised, for which every value is valid.
        unsafe { slice::from_raw_parts_mut(self.draft.as_mut_ptr().cast(), self.len) }
    }

    /// Sends what was reserved last, as an item that comes after the first `after` items of the
    /// ring. From now on it is the other end's turn.
    ///
    /// # Panics
    /// If it is not this end's turn.
    #[inline]
    pub fn commit(&mut self, kind: u8, head: Head, after: u32) {
        self.write(kind, head, self.len, None, after);
    }

    /// Sends an item with a copy of `payload`, at most [`INLINE`] bytes: as [`Turn::commit`].
    ///
    /// # Panics
    /// If it is not this end's turn, or the payload is too long.
    #[inline]
    pub fn push(&mut self, kind: u8, head: Head, payload: &[u8], after: u32) {
        self.write(kind, head, payload.len(), Some(payload), after);
    }

    /// Sends an item whose payload of `len` bytes lies in a block: as [`Turn::commit`].
    #[inline]
    pub(crate) fn lend(&mut self, kind: u8, head: Head, len: usize, block: u8, after: u32) {
        self.write(kind, head, len, Some(&[block]), after);
    }

    #[inline]
    fn next(&self) -> u8 {
        (self.last as u8).wrapping_add(1)
    }

    /// Writes an item of `len` bytes with this in the line, or with what was reserved.
    #[inline]
    fn write(&mut self, kind: u8, head: Head, len: usize, payload: Option<&[u8]>, after: u32) {
        let here = payload.map_or(self.len, <[u8]>::len);
        assert!(self.mine && here <= INLINE, "a turn line takes small items in turn");
        self.mine = false;
        self.fresh = true;
        self.last = Control { turn: self.next(), kind, len, after }.pack();
        // SAFETY: `draft` has INLINE bytes, all initialised.
        let draft = || unsafe { slice::from_raw_parts(self.draft.as_ptr().cast(), here) };
        let payload = payload.unwrap_or_else(draft);
        // One by one, which atomics are: read as a vector a moment after they were written one by
        // one, they would come only when the store buffer has drained.
        let Head(a, b, c) = head;
        for (at, word) in [(8, a), (16, b), (24, c)] {
            self.mem.word(at).store(word, Ordering::Relaxed);
        }
        self.mem.note(0, 1, true);
        // SAFETY: inside the line, aligned to 8, and ours to write until the store below.
        unsafe { write_words(self.mem.at(INLINE_AT), payload) };
        self.mem.word(0).store(self.last, Ordering::Release);
        if let Pace::Skip(_) = self.pace {
            self.wrote = ticks();
        }
    }

    /// Whether a look should be left out, by the line's [`Pace`].
    #[inline]
    pub fn is_early(&mut self) -> bool {
        match self.pace {
            Pace::Skip(most) if std::mem::take(&mut self.fresh) => {
                ticks().wrapping_sub(self.wrote) < most
            }
            _ => false,
        }
    }

    /// Takes the other end's item out, if it is there and `taken` items of its ring were released,
    /// which is to have `slots` slots.
    ///
    /// # Errors
    /// When the line holds what no other end writes.
    #[inline]
    pub fn take(&mut self, taken: u32, slots: usize) -> Result<Taken, RingError> {
        if self.mine {
            return Ok(Taken::Nothing);
        }
        if std::mem::take(&mut self.fresh)
            && let Pace::Pause(hints) = self.pace
        {
            (0..hints).for_each(|_| spin_loop());
        }
        let word = self.mem.word(0).load(Ordering::Acquire);
        if word == self.last {
            return Ok(Taken::Nothing);
        }
        let Control { turn, kind, len, after } = Control::unpack(word);
        let before = after.wrapping_sub(taken);
        if turn != self.next() || len > self.longest || before as usize > slots {
            return Err(RingError::Corrupt("a turn"));
        }
        if before != 0 {
            return Ok(Taken::Later);
        }
        if let Pace::Skip(_) = self.pace {
            // It came to be read. To have it for writing takes a way to the other end and back once
            // more, which goes on while the answer is thought of.
            self.mem.expect_write(0);
        }
        let head = |at| self.mem.word(at).load(Ordering::Relaxed);
        self.item.head = Head(head(8), head(16), head(24));
        self.mem.note(0, 1, false);
        // SAFETY: inside the line and aligned; integers, for which every value is valid. The
        // acquire above has made the other's writes visible, and it does not write before its next
        // turn.
        self.payload = unsafe { ptr::read(self.mem.at(INLINE_AT).cast()) };
        (self.item.kind, self.item.len) = (kind, len);
        self.last = word;
        self.mine = true;
        Ok(Taken::Item)
    }

    /// The item that was taken out last.
    #[inline]
    pub fn item(&self) -> &Item {
        &self.item
    }

    /// The block in which its payload lies.
    #[inline]
    pub(crate) fn block(&self) -> Option<u8> {
        (self.item.len > INLINE).then(|| self.payload[0].to_ne_bytes()[0])
    }

    /// Its payload.
    ///
    /// # Panics
    /// If it lies in a block.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let len = self.item.len;
        assert!(len <= INLINE, "its payload lies in a block");
        // SAFETY: `payload` has INLINE bytes, all initialised.
        unsafe { slice::from_raw_parts(self.payload.as_ptr().cast(), len) }
    }
}
