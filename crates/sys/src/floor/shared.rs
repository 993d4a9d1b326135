//! A memory segment shared by the processes of a measurement: a memfd that children inherit.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// 64-bit words in memory that several processes map. Unmapped on drop.
#[derive(Debug)]
pub struct SharedWords {
    fd: OwnedFd,
    base: NonNull<AtomicU64>,
    words: usize,
}

impl SharedWords {
    /// A new segment of `words` zeroed words. Its descriptor is inherited by child processes, which
    /// find it by number ([`SharedWords::inherited`]).
    ///
    /// # Errors
    /// What `memfd_create`, `ftruncate` or `mmap` says.
    pub fn create(words: usize) -> io::Result<SharedWords> {
        let fd = memfd_create("weft-bench", MemfdFlags::empty())?;
        ftruncate(&fd, (words * 8) as u64)?;
        SharedWords::map(fd)
    }

    /// Maps the segment whose descriptor a parent process has left open as `number`.
    ///
    /// # Errors
    /// When there is no such descriptor, or it cannot be mapped.
    pub fn inherited(number: RawFd) -> io::Result<SharedWords> {
        if number < 3 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // SAFETY: the number is checked by the duplication, which fails on one that is not open;
        // the original is only borrowed for the length of the call.
        let fd = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?;
        SharedWords::map(fd)
    }

    fn map(fd: OwnedFd) -> io::Result<SharedWords> {
        let bytes = fstat(&fd)?.st_size as usize;
        if bytes < 8 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, rights, flags, &fd, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedWords { fd, base, words: bytes / 8 })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `words` words long, lives as long as `self`, and is
        // only ever used as atomic words, by every process that maps it.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }

    /// The first half of word `i` in memory, to sleep on.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn half(&self, i: usize) -> &AtomicU32 {
        let word: *const AtomicU64 = &self.words()[i];
        // SAFETY: the word lies inside the mapping, which lives as long as `self`, and is aligned
        // for a half of it; whoever uses a word by its half does so with atomics only.
        unsafe { &*word.cast::<AtomicU32>() }
    }

    /// The number of the descriptor, which stays the same in child processes.
    pub fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `map` with this length, and no reference into it outlives
        // `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.words * 8) };
    }
}

// SAFETY: the words are atomic, and the mapping belongs to the value, not to a thread.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

/// Takes a descriptor number from a call that has just made it.
pub(super) fn owned(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller passes the result of a call that makes a new descriptor, owned by nobody
    // else yet.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn two_mappings_show_the_same_words() {
        let a = SharedWords::create(64).unwrap();
        let b = SharedWords::inherited(a.number()).unwrap();
        a.words()[63].store(7, Ordering::Release);
        assert_eq!(b.words()[63].load(Ordering::Acquire), 7);
    }

    #[test]
    fn a_number_that_is_not_open_is_refused() {
        assert!(SharedWords::inherited(0).is_err());
        assert!(SharedWords::inherited(987_654).is_err());
    }
}
