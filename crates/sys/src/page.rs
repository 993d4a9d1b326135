//! A file in memory that its process writes word by word, for others to look at.

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A new file, mapped. Its bytes are reserved, so that writing them cannot fail later.
#[derive(Debug)]
pub struct PageFile {
    ptr: NonNull<u64>,
    words: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; its words are reached by atomics.
unsafe impl Send for PageFile {}
// SAFETY: as above.
unsafe impl Sync for PageFile {}

impl PageFile {
    /// Makes a file of `words` zeroed words, which this user may read and nobody may open for
    /// writing.
    ///
    /// # Errors
    /// When there is a file of that name, or no room; then none is left there.
    pub fn create(path: &Path, words: usize) -> io::Result<PageFile> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR)?;
        let bytes = words * 8;
        let mapped = fallocate(&file, FallocateFlags::empty(), 0, bytes as u64).and_then(|()| {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: the kernel chooses the address, so no other memory is touched.
            unsafe { mmap(ptr::null_mut(), bytes, prot, MapFlags::SHARED, &file, 0) }
        });
        match mapped.map(|at| NonNull::new(at.cast())) {
            Ok(Some(ptr)) => {
                let page = PageFile { ptr, words };
                // A child made by `fork` does not write its parent's page.
                // SAFETY: the range is the mapping just made, and nobody else has it yet.
                unsafe { madvise(page.ptr.as_ptr().cast(), bytes, Advice::LinuxDontFork)? };
                Ok(page)
            }
            failed => {
                let _ = rustix::fs::unlink(path);
                Err(failed.err().map_or_else(|| io::ErrorKind::OutOfMemory.into(), Into::into))
            }
        }
    }
}

impl AsRef<[AtomicU64]> for PageFile {
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY: mapped for reading and writing, page aligned, and as long as `self`. Only this
        // user could cut the file short, and would have to change its mode first.
        unsafe { slice::from_raw_parts(self.ptr.as_ptr().cast(), self.words) }
    }
}

impl Drop for PageFile {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `create` and nothing borrows it any more.
        let _ = unsafe { munmap(self.ptr.as_ptr().cast(), self.words * 8) };
    }
}

/// Opens a file that somebody else may have put there, for reading: neither through a link, nor
/// waiting for anything.
///
/// # Errors
/// What the kernel says.
pub fn look_at(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Time of processors that this process has used, ns, and for how long its first thread was ready
/// to run and had none, where the kernel tells.
pub fn processor_times() -> (u64, u64) {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let used_ns = used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64;
    let told = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let robbed_ns = told.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    (used_ns, robbed_ns.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_is_written_is_read_from_the_file_and_a_second_of_its_name_is_refused() {
        let path = std::env::temp_dir().join(format!("weft-page-{}", std::process::id()));
        let page = PageFile::create(&path, 512).unwrap();
        page.as_ref()[511].store(u64::from_ne_bytes(*b"lastword"), Ordering::Relaxed);
        assert_eq!(&std::fs::read(&path).unwrap()[511 * 8..], b"lastword");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o400);
        let again = PageFile::create(&path, 512).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert!(path.exists());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_for_which_there_is_no_room_is_not_left() {
        let path = std::env::temp_dir().join(format!("weft-page-long-{}", std::process::id()));
        PageFile::create(&path, 1 << 58).unwrap_err();
        assert!(!path.exists());
    }
}
