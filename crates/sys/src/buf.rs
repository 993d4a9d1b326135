//! Memory of the user that an operation reads or fills while the user's code goes on.
//!
//! A non-blocking send or receive outlives the call that started it, so the library holds the
//! buffer's address. [`Buf`] is that address, with the promise made once, where it is made: whoever
//! creates one says that the memory stays valid until the operation has ended. All use is safe from
//! there on, bounds included.

use std::ptr::{self, NonNull};

/// One piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    ptr: NonNull<u8>,
    len: usize,
}

impl Piece {
    /// The address, for system calls that take one.
    pub fn addr(&self) -> usize {
        self.ptr.as_ptr() as usize
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// User memory in one or several pieces, seen as one row of bytes.
#[derive(Clone, Debug)]
pub struct Buf {
    first: Piece,
    /// The pieces after the first; nearly always none, so that a `Buf` costs no allocation.
    rest: Option<Box<[Piece]>>,
    len: usize,
}

// SAFETY: a `Buf` is addresses only; `Buf::from_raw`'s caller promises that the memory stays valid
// and that nobody else touches it in a conflicting way until the operation ends, on any thread.
unsafe impl Send for Buf {}

impl Buf {
    /// No memory.
    pub fn empty() -> Buf {
        Buf { first: Piece { ptr: NonNull::dangling(), len: 0 }, rest: None, len: 0 }
    }

    /// `len` bytes at `ptr`.
    ///
    /// # Safety
    /// Until the operation that it is given to has ended (completed, failed, or been cancelled), the
    /// memory must be readable, and writable too where the operation fills it, and nobody may write
    /// it (or, where it is filled, touch it).
    pub unsafe fn from_raw(ptr: *mut u8, len: usize) -> Buf {
        let ptr = NonNull::new(ptr).unwrap_or(NonNull::dangling());
        Buf { first: Piece { ptr, len }, rest: None, len }
    }

    /// Several pieces as one row of bytes.
    ///
    /// # Safety
    /// As for [`Buf::from_raw`], for each piece.
    pub unsafe fn from_pieces(pieces: &[(*mut u8, usize)]) -> Buf {
        let mut all = pieces.iter().filter(|(_, len)| *len > 0).map(|&(ptr, len)| Piece {
            ptr: NonNull::new(ptr).unwrap_or(NonNull::dangling()),
            len,
        });
        let Some(first) = all.next() else { return Buf::empty() };
        let rest: Box<[Piece]> = all.collect();
        let len = first.len + rest.iter().map(|p| p.len).sum::<usize>();
        Buf { first, rest: (!rest.is_empty()).then_some(rest), len }
    }

    /// Bytes in all pieces.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        std::iter::once(self.first).chain(self.rest.iter().flat_map(|r| r.iter().copied()))
    }

    /// The same memory, cut off after `len` bytes.
    pub fn truncated(&self, len: usize) -> Buf {
        if len >= self.len {
            return self.clone();
        }
        let mut left = len;
        let mut cut: Vec<Piece> = Vec::new();
        for piece in self.pieces() {
            let take = piece.len.min(left);
            left -= take;
            if take > 0 || cut.is_empty() {
                cut.push(Piece { ptr: piece.ptr, len: take });
            }
        }
        let rest: Box<[Piece]> = cut[1..].into();
        Buf { first: cut[0], rest: (!rest.is_empty()).then_some(rest), len }
    }

    /// Copies bytes out of the memory, from `offset` on, and says how many there were: less than
    /// `into.len()` only where the memory ends.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        self.each(offset, into.len(), |at, done, len| {
            // SAFETY: `each` keeps `at..at + len` inside a piece, which `from_raw`'s caller vouched
            // for, and `done + len` inside `into`.
            unsafe { ptr::copy_nonoverlapping(at, into[done..done + len].as_mut_ptr(), len) }
        })
    }

    /// Copies bytes into the memory, from `offset` on, and says how many found room.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> usize {
        self.each(offset, from.len(), |at, done, len| {
            // SAFETY: as in `read`; the caller of `from_raw` vouched for writing as well.
            unsafe { ptr::copy_nonoverlapping(from[done..done + len].as_ptr(), at, len) }
        })
    }

    /// Calls `f(address, bytes done before, length)` for each contiguous run of the range, and gives
    /// the bytes covered.
    #[inline]
    fn each(&self, offset: usize, want: usize, mut f: impl FnMut(*mut u8, usize, usize)) -> usize {
        let mut skip = offset;
        let mut done = 0;
        for piece in self.pieces() {
            if skip >= piece.len {
                skip -= piece.len;
                continue;
            }
            let len = (piece.len - skip).min(want - done);
            if len == 0 {
                break;
            }
            // SAFETY: `skip < piece.len`, so the address stays inside the piece.
            f(unsafe { piece.ptr.as_ptr().add(skip) }, done, len);
            skip = 0;
            done += len;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_across_pieces_stay_inside() {
        let mut a = [1u8, 2, 3];
        let mut b = [4u8, 5];
        // SAFETY: both arrays outlive `buf`, and are not touched while it is used.
        let buf = unsafe {
            Buf::from_pieces(&[(a.as_mut_ptr(), 3), (a.as_mut_ptr(), 0), (b.as_mut_ptr(), 2)])
        };
        assert_eq!(buf.len(), 5);
        let mut out = [0u8; 8];
        assert_eq!(buf.read(2, &mut out), 3);
        assert_eq!(&out[..3], [3, 4, 5]);
        assert_eq!(buf.write(1, &[9, 9, 9, 9, 9, 9]), 4);
        assert_eq!(buf.read(5, &mut out), 0);
        let cut = buf.truncated(4);
        assert_eq!((cut.len(), cut.pieces().count()), (4, 2));
        assert_eq!(buf.truncated(0).len(), 0);
        assert_eq!((a, b), ([1, 9, 9], [9, 9]));
    }
}
