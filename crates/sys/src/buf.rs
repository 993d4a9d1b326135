//! Memory of the user that an operation reads or fills while the user's code goes on.
//!
//! A non-blocking send or receive outlives the call that started it, so the library holds the
//! buffer's address. [`Buf`] is that address, together with what keeps the memory valid until the
//! operation has ended. All use of it is safe from there on, bounds included.

use std::any::Any;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::array::Claim;
use crate::mem::Region;
use crate::plain::Plain;

/// One piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    ptr: NonNull<u8>,
    len: usize,
}

impl Piece {
    pub(crate) fn start(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

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

/// User memory in one or several pieces, seen as one row of bytes. A clone speaks of the same
/// memory.
///
/// Reading and writing are safe because each way to make a `Buf` keeps its memory alive: a promise
/// ([`Buf::from_raw`]), shared ownership ([`Buf::from_vec`], [`Buf::from_numbers`]), or a loan that
/// cannot end while a `Buf` of it exists ([`lend`]). As with any I/O buffer, bytes that are written
/// by one operation while another uses them are unspecified.
#[derive(Debug)]
pub struct Buf {
    first: Piece,
    /// The pieces after the first; nearly always none, so that a `Buf` costs no allocation.
    rest: Option<Box<[Piece]>>,
    len: usize,
    keeper: Keeper,
}

/// What keeps the memory of a [`Buf`] valid.
#[derive(Debug)]
enum Keeper {
    /// The promise of `from_raw`'s caller.
    Promise,
    /// Ownership, shared with the clones. The vector is never touched through this pointer while
    /// other clones exist.
    Owned(Arc<Vec<u8>>),
    /// The same of a vector of any numbers.
    Numbers(Arc<dyn Any + Send + Sync>),
    /// Memory of a region, which nobody reaches in another way any more, and what goes with it.
    Region(Arc<(Box<dyn Any + Send + Sync>, Region)>),
    /// A loan: the count of `Buf`s that stand on the memory, which lives in the frame of `lend`.
    Loan(NonNull<AtomicUsize>),
    /// The promise of `from_raw`'s caller, who keeps it until no clone of the token is left.
    Token(Arc<()>),
    /// An array, whose bytes are in use until no clone of the claim is left.
    Claim(Arc<Claim>),
    /// Whatever keeps each of several others.
    Several(Arc<[Buf]>),
}

// SAFETY: a `Buf` is addresses of memory that its keeper keeps valid on any thread; the count of a
// loan is atomic.
unsafe impl Send for Buf {}
// SAFETY: what a shared reference can do to the memory a clone can do as well, which may be sent to
// another thread.
unsafe impl Sync for Buf {}

impl Clone for Buf {
    fn clone(&self) -> Buf {
        self.with(self.first, self.rest.clone(), self.len)
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let Keeper::Loan(count) = self.keeper {
            // SAFETY: `lend` does not return before the count is zero, so it still exists.
            unsafe { count.as_ref() }.fetch_sub(1, Ordering::Release);
        }
    }
}

/// What [`lend`] gives its caller: borrowed memory becomes a [`Buf`] by it.
pub struct Loans<'env> {
    count: AtomicUsize,
    env: PhantomData<std::cell::Cell<&'env mut [u8]>>,
}

impl<'env> Loans<'env> {
    /// Memory to be read.
    pub fn read(&self, bytes: &'env [u8]) -> Buf {
        self.loan(bytes.as_ptr().cast_mut(), bytes.len())
    }

    /// Memory to be filled.
    pub fn fill(&self, bytes: &'env mut [u8]) -> Buf {
        self.loan(bytes.as_mut_ptr(), bytes.len())
    }

    fn loan(&self, ptr: *mut u8, len: usize) -> Buf {
        self.count.fetch_add(1, Ordering::Relaxed);
        let ptr = NonNull::new(ptr).unwrap_or(NonNull::dangling());
        let keeper = Keeper::Loan(NonNull::from(&self.count));
        Buf { first: Piece { ptr, len }, rest: None, len, keeper }
    }
}

/// Lends borrowed memory to operations for the time of `f`. Before `f` ends, every operation that
/// was given some of it must have ended.
///
/// A [`Buf`] that outlives `f` would speak of memory that may be gone: the process is then aborted.
/// That is an error of this library, never of its user.
pub fn lend<'env, R>(f: impl FnOnce(&Loans<'env>) -> R) -> R {
    /// Runs the check also when `f` panics.
    struct Check<'a, 'env>(&'a Loans<'env>);
    impl Drop for Check<'_, '_> {
        fn drop(&mut self) {
            if self.0.count.load(Ordering::Acquire) != 0 {
                eprintln!("weft: borrowed memory is still in use by an operation: aborting");
                std::process::abort();
            }
        }
    }
    let loans = Loans { count: AtomicUsize::new(0), env: PhantomData };
    let check = Check(&loans);
    let result = f(check.0);
    drop(check);
    result
}

impl Buf {
    /// No memory.
    pub fn empty() -> Buf {
        let first = Piece { ptr: NonNull::dangling(), len: 0 };
        Buf { first, rest: None, len: 0, keeper: Keeper::Promise }
    }

    /// Makes it speak of no memory. (Faster than to put an empty one in its place, for most need
    /// not be dropped.)
    #[inline]
    pub fn clear(&mut self) {
        if matches!(self.keeper, Keeper::Promise) && self.rest.is_none() {
            self.first.len = 0;
            self.len = 0;
        } else {
            *self = Buf::empty();
        }
    }

    /// `len` bytes at `ptr`.
    ///
    /// # Safety
    /// Until the operation that it is given to has ended (completed, failed, or been cancelled),
    /// the memory must be readable, and writable too where the operation fills it, and nobody may
    /// write it (or, where it is filled, touch it).
    pub unsafe fn from_raw(ptr: *mut u8, len: usize) -> Buf {
        let ptr = NonNull::new(ptr).unwrap_or(NonNull::dangling());
        Buf { first: Piece { ptr, len }, rest: None, len, keeper: Keeper::Promise }
    }

    /// The same memory, with a token by which its owner can tell whether a `Buf` that was made from
    /// this one still exists: then [`Arc::strong_count`] is over 1.
    #[must_use]
    pub fn with_token(&self, token: &Arc<()>) -> Buf {
        let keeper = Keeper::Token(token.clone());
        Buf { first: self.first, rest: self.rest.clone(), len: self.len, keeper }
    }

    /// Several pieces as one row of bytes.
    ///
    /// # Safety
    /// As for [`Buf::from_raw`], for each piece.
    pub unsafe fn from_pieces(pieces: impl IntoIterator<Item = (*mut u8, usize)>) -> Buf {
        let mut all = pieces
            .into_iter()
            .filter(|(_, len)| *len > 0)
            .map(|(ptr, len)| Piece { ptr: NonNull::new(ptr).unwrap_or(NonNull::dangling()), len });
        let Some(first) = all.next() else { return Buf::empty() };
        let rest: Box<[Piece]> = all.collect();
        let len = first.len + rest.iter().map(|p| p.len).sum::<usize>();
        let rest = (!rest.is_empty()).then_some(rest);
        Buf { first, rest, len, keeper: Keeper::Promise }
    }

    /// The bytes of a vector, which [`Buf::into_vec`] gives back.
    pub fn from_vec(mut vec: Vec<u8>) -> Buf {
        let ptr = NonNull::new(vec.as_mut_ptr()).unwrap_or(NonNull::dangling());
        let len = vec.len();
        let keeper = Keeper::Owned(Arc::new(vec));
        Buf { first: Piece { ptr, len }, rest: None, len, keeper }
    }

    /// The bytes of a vector of numbers, which [`Buf::into_numbers`] gives back.
    pub fn from_numbers<T: Plain>(mut vec: Vec<T>) -> Buf {
        let ptr = NonNull::new(vec.as_mut_ptr().cast()).unwrap_or(NonNull::dangling());
        let len = size_of_val(vec.as_slice());
        let keeper = Keeper::Numbers(Arc::new(vec));
        Buf { first: Piece { ptr, len }, rest: None, len, keeper }
    }

    /// The memory of a region, which lives until no clone is left; then `along` is dropped, and the
    /// memory given back.
    pub fn from_region(region: Region, along: Box<dyn Any + Send + Sync>) -> Buf {
        let first = Piece { ptr: region.ptr(), len: region.len() };
        let keeper = Keeper::Region(Arc::new((along, region)));
        Buf { first, rest: None, len: first.len, keeper }
    }

    /// The vector it was made from; `None` while a clone exists, or if it was made otherwise.
    pub fn into_vec(mut self) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.keeper, Keeper::Promise) {
            Keeper::Owned(vec) => Arc::into_inner(vec),
            other => {
                self.keeper = other;
                None
            }
        }
    }

    /// The vector of numbers that it was made from.
    ///
    /// # Errors
    /// Itself, while a clone exists, or if it was made otherwise.
    pub fn into_numbers<T: Plain>(mut self) -> Result<Vec<T>, Buf> {
        let keeper = match std::mem::replace(&mut self.keeper, Keeper::Promise) {
            Keeper::Numbers(kept) => match kept.downcast::<Vec<T>>().map(Arc::try_unwrap) {
                Ok(Ok(vec)) => return Ok(vec),
                Ok(Err(shared)) => Keeper::Numbers(shared),
                Err(of_others) => Keeper::Numbers(of_others),
            },
            other => other,
        };
        self.keeper = keeper;
        Err(self)
    }

    /// Whether it is a vector's memory, which [`Buf::into_vec`] gives back.
    pub fn is_owned(&self) -> bool {
        matches!(self.keeper, Keeper::Owned(_))
    }

    /// Other pieces of the same memory, kept by the same keeper.
    fn with(&self, first: Piece, rest: Option<Box<[Piece]>>, len: usize) -> Buf {
        let keeper = match &self.keeper {
            Keeper::Promise => Keeper::Promise,
            Keeper::Owned(vec) => Keeper::Owned(vec.clone()),
            Keeper::Numbers(vec) => Keeper::Numbers(vec.clone()),
            Keeper::Region(region) => Keeper::Region(region.clone()),
            Keeper::Loan(count) => {
                // SAFETY: `self` is counted, so `lend` has not returned.
                unsafe { count.as_ref() }.fetch_add(1, Ordering::Relaxed);
                Keeper::Loan(*count)
            }
            Keeper::Token(token) => Keeper::Token(token.clone()),
            Keeper::Claim(claim) => Keeper::Claim(claim.clone()),
            Keeper::Several(all) => Keeper::Several(all.clone()),
        };
        Buf { first, rest, len, keeper }
    }

    /// The same memory, kept by a claim to it.
    pub(crate) fn kept_by(mut self, claim: Claim) -> Buf {
        self.keeper = Keeper::Claim(Arc::new(claim));
        self
    }

    /// The memory of all, one behind the other.
    pub fn chain(all: Vec<Buf>) -> Buf {
        let len = all.iter().map(Buf::len).sum();
        let mut pieces = all.iter().flat_map(Buf::pieces).filter(|piece| piece.len > 0);
        let first = pieces.next().unwrap_or(Piece { ptr: NonNull::dangling(), len: 0 });
        let rest: Box<[Piece]> = pieces.collect();
        let rest = (!rest.is_empty()).then_some(rest);
        Buf { first, rest, len, keeper: Keeper::Several(all.into()) }
    }

    /// The memory, if it is one piece.
    pub(crate) fn only(&self) -> Option<Piece> {
        self.rest.is_none().then_some(self.first)
    }

    /// The first piece as a slice.
    ///
    /// # Safety
    /// Nobody writes it meanwhile.
    pub(crate) unsafe fn slice(&self) -> &[u8] {
        // SAFETY: the keeper keeps the memory valid; the rest is the caller's.
        unsafe { std::slice::from_raw_parts(self.first.ptr.as_ptr(), self.first.len) }
    }

    /// The first piece as a slice to be changed.
    ///
    /// # Safety
    /// Nobody uses it meanwhile.
    pub(crate) unsafe fn slice_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `slice`.
        unsafe { std::slice::from_raw_parts_mut(self.first.ptr.as_ptr(), self.first.len) }
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
        self.range(0, len)
    }

    /// The bytes from `offset` on, `len` of them or fewer where the memory ends.
    pub fn range(&self, offset: usize, len: usize) -> Buf {
        if offset == 0 && len >= self.len {
            return self.clone();
        }
        let mut cut: Vec<Piece> = Vec::new();
        let mut only = Piece { ptr: self.first.ptr, len: 0 };
        let covered = self.each(offset, len, |at, _, len| {
            let piece = Piece { ptr: NonNull::new(at).unwrap_or(NonNull::dangling()), len };
            // Memory in one piece, the usual case, costs no allocation.
            if only.len == 0 { only = piece } else { cut.push(piece) }
        });
        self.with(only, (!cut.is_empty()).then(|| cut.into()), covered)
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

    /// As [`Buf::read`], by another way to copy: into as many bytes as there are.
    pub(crate) fn read_by(
        &self,
        offset: usize,
        into: &mut [u8],
        copy: impl Fn(&[u8], &mut [u8]),
    ) -> usize {
        self.each(offset, into.len(), |at, done, len| {
            // SAFETY: as in `read`.
            copy(unsafe { std::slice::from_raw_parts(at, len) }, &mut into[done..done + len])
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

    /// Copies as many bytes as fit from the start of this memory to the start of `into`, and says
    /// how many. The two may be the same memory.
    pub fn copy_to(&self, into: &Buf) -> usize {
        let mut offset = 0;
        for piece in self.pieces() {
            let put = into.each(offset, piece.len, |at, done, len| {
                // SAFETY: `each` keeps both ranges inside memory that the keepers keep valid;
                // `copy` allows them to overlap.
                unsafe { ptr::copy(piece.ptr.as_ptr().add(done), at, len) }
            });
            offset += put;
            if put < piece.len {
                break;
            }
        }
        offset
    }

    /// Calls `f(address, bytes done before, length)` for each contiguous run of the range, and
    /// gives the bytes covered.
    #[inline]
    pub(crate) fn each(
        &self,
        offset: usize,
        want: usize,
        mut f: impl FnMut(*mut u8, usize, usize),
    ) -> usize {
        if self.rest.is_some() {
            return self.each_of_several(offset, want, f);
        }
        let len = self.first.len.saturating_sub(offset).min(want);
        if len > 0 {
            // SAFETY: `offset < first.len`, so the address stays inside the piece.
            f(unsafe { self.first.ptr.as_ptr().add(offset) }, 0, len);
        }
        len
    }

    #[inline(never)]
    fn each_of_several(
        &self,
        offset: usize,
        want: usize,
        mut f: impl FnMut(*mut u8, usize, usize),
    ) -> usize {
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
            Buf::from_pieces([(a.as_mut_ptr(), 3), (a.as_mut_ptr(), 0), (b.as_mut_ptr(), 2)])
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
        let middle = buf.range(2, 2);
        assert_eq!((middle.len(), middle.pieces().count()), (2, 2));
        assert_eq!((buf.range(4, 9).len(), buf.range(9, 1).len()), (1, 0));
        assert_eq!((a, b), ([1, 9, 9], [9, 9]));
    }

    #[test]
    fn what_is_cleared_speaks_of_no_memory_and_keeps_none() {
        let mut bytes = [1u8; 4];
        // SAFETY: `bytes` outlives the buffers, and is not touched while they are used.
        let [one, several] = unsafe {
            let (first, second) = (bytes.as_mut_ptr(), bytes.as_mut_ptr().add(3));
            [Buf::from_raw(first, 4), Buf::from_pieces([(first, 1), (second, 1)])]
        };
        let token = Arc::new(());
        let kept = one.with_token(&token);
        for mut buf in [one, several, kept, Buf::from_vec(vec![1, 2])] {
            buf.clear();
            assert_eq!((buf.len(), buf.write(0, &[9]), buf.range(0, 1).len()), (0, 0, 0));
            assert!(buf.pieces().all(|piece| piece.is_empty()));
        }
        assert_eq!((bytes, Arc::strong_count(&token)), ([1; 4], 1));
    }

    #[test]
    fn a_token_tells_whether_the_memory_is_in_use() {
        let mut bytes = [1u8; 4];
        let token = Arc::new(());
        // SAFETY: `bytes` outlives `buf`, and is not touched while it is used.
        let buf = unsafe { Buf::from_raw(bytes.as_mut_ptr(), 4) }.with_token(&token);
        let part = buf.range(1, 2);
        drop(buf);
        assert_eq!(Arc::strong_count(&token), 2);
        drop(part);
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn a_vector_comes_back_when_no_clone_is_left() {
        let buf = Buf::from_vec(vec![1, 2, 3]);
        let clone = buf.clone();
        clone.write(1, &[7]);
        assert!(clone.into_vec().is_none());
        assert_eq!(buf.into_vec(), Some(vec![1, 7, 3]));
    }

    #[test]
    fn numbers_come_back_as_they_were_given() {
        let buf = Buf::from_numbers(vec![1u32, 2]);
        let part = buf.range(4, 4);
        part.write(0, &7u32.to_ne_bytes());
        let buf = buf.into_numbers::<u32>().unwrap_err();
        drop(part);
        let buf = buf.into_numbers::<f32>().unwrap_err();
        assert_eq!((buf.len(), buf.into_numbers().unwrap()), (8, vec![1u32, 7]));
        assert!(Buf::from_vec(vec![1]).into_numbers::<u8>().is_err());
        assert!(Buf::from_numbers::<f64>(Vec::new()).into_numbers::<f64>().unwrap().is_empty());
    }

    #[test]
    fn a_region_lives_as_long_as_a_clone() {
        let along = Arc::new(());
        let mut region = Region::new(10).unwrap();
        region[2] = 7;
        let buf = Buf::from_region(region, Box::new(along.clone()));
        assert_eq!(buf.len(), 10);
        let part = buf.range(2, 3);
        drop(buf);
        let mut bytes = [1; 4];
        assert_eq!((part.write(1, &[8]), part.read(0, &mut bytes)), (1, 3));
        assert_eq!((bytes, Arc::strong_count(&along)), ([7, 8, 0, 1], 2));
        drop(part);
        assert_eq!(Arc::strong_count(&along), 1);
    }

    #[test]
    fn a_chain_keeps_what_it_is_made_of() {
        let (a, b) = (Buf::from_vec(vec![1, 2]), Buf::from_vec(vec![3, 4, 5]));
        let chain = Buf::chain(vec![a.clone(), Buf::empty(), b.range(1, 2)]);
        assert_eq!((chain.len(), chain.pieces().count()), (4, 2));
        chain.range(1, 2).write(0, &[8, 9]);
        drop(chain);
        assert_eq!((a.into_vec(), b.into_vec()), (Some(vec![1, 8]), Some(vec![3, 9, 5])));
        assert!(Buf::chain(Vec::new()).is_empty());
    }

    #[test]
    fn a_loan_reads_and_fills_borrowed_memory() {
        let from = [5u8; 4];
        let mut into = [0u8; 4];
        lend(|loans| {
            let (a, b) = (loans.read(&from), loans.fill(&mut into));
            let mut bytes = [0; 4];
            a.clone().read(0, &mut bytes);
            b.truncated(3).write(0, &bytes);
        });
        assert_eq!(into, [5, 5, 5, 0]);
    }
}
