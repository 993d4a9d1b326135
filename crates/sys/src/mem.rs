//! Memory that processes share without a name: memfds, sealed so that nobody can shrink one under
//! another's feet (which would kill the other by SIGBUS), and their mappings.

use std::any::Any;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::buf::Buf;

/// Bytes that a memfd's length is rounded up to: the largest page size in use on Linux (aarch64).
const PAGE: usize = 64 << 10;

/// A new memfd of at least `len` bytes, zeroed, sealed in size, closed on exec. It takes no memory
/// before it is written, needs no file system, and goes with its last descriptor and mapping.
/// `name` is shown in `/proc/PID/maps`.
///
/// # Errors
/// When no more descriptors can be had, or the kernel has no memfds.
pub fn memfd(name: &str, len: usize) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, round_up(len) as u64)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(fd)
}

/// Forbids every new writable mapping of a memfd; mappings that there are stay writable.
///
/// # Errors
/// On kernels before 5.1.
pub fn seal_writes(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fcntl_add_seals(fd, SealFlags::FUTURE_WRITE)?)
}

fn round_up(len: usize) -> usize {
    len.max(1).next_multiple_of(PAGE)
}

/// A shared mapping of a memfd. Other processes may read and write the same bytes at any time, so
/// they are seen here only as atomic words, or copied.
#[derive(Debug)]
pub struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; its bytes are reached by atomics or
// copied.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `fd` for reading and writing. A child made by `fork` does not
    /// get them.
    ///
    /// # Errors
    /// When `fd`, perhaps from another process, is no memfd, is shorter, or is not sealed against
    /// shrinking; or the kernel refuses.
    pub fn new(fd: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        let mapping = Mapping::map(fd, len, ProtFlags::READ | ProtFlags::WRITE)?;
        mapping.keep_from_children()?;
        Ok(mapping)
    }

    /// A child made by `fork` does not get it: what the child writes there would be written in the
    /// memory of this process, and of others.
    fn keep_from_children(&self) -> io::Result<()> {
        // SAFETY: the range is mapped by `self`; a child that lacks it cannot reach it by any safe
        // means, as a forked child of a threaded program may do next to nothing.
        unsafe { madvise(self.ptr.as_ptr().cast(), self.len, Advice::LinuxDontFork) }
            .map_err(io::Error::from)
    }

    /// Has the kernel give it all its pages now, which costs a quarter of a microsecond each, and
    /// not one after the other when they are first touched, which costs two. Where it cannot
    /// (before Linux 5.14, or for want of memory) they come later, as ever.
    pub fn populate(&self) {
        // SAFETY: the range is mapped by `self`; no byte changes.
        let _ = unsafe { madvise(self.ptr.as_ptr().cast(), self.len, Advice::LinuxPopulateWrite) };
    }

    /// As [`Mapping::new`], all of `fd`, which may have at most `most` bytes.
    ///
    /// # Errors
    /// As for [`Mapping::new`], and when there are more.
    pub fn whole(fd: BorrowedFd<'_>, most: usize) -> io::Result<Mapping> {
        match usize::try_from(fstat(fd)?.st_size) {
            Ok(len) if len <= round_up(most) => Mapping::new(fd, len),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the memfd is too long")),
        }
    }

    /// Maps the first `len` bytes of `fd` for reading.
    ///
    /// # Errors
    /// As for [`Mapping::new`].
    pub fn read_only(fd: BorrowedFd<'_>, len: usize) -> io::Result<ReadOnly> {
        Mapping::map(fd, len, ProtFlags::READ).map(ReadOnly)
    }

    fn map(fd: BorrowedFd<'_>, len: usize, prot: ProtFlags) -> io::Result<Mapping> {
        let refuse = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
        let seals = fcntl_get_seals(fd).map_err(|_| refuse("the descriptor is no memfd"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(refuse("the memfd is not sealed against shrinking"));
        }
        let known = u64::try_from(fstat(fd)?.st_size).unwrap_or(0);
        if len == 0 || known < len as u64 {
            return Err(refuse("the memfd is shorter than was said"));
        }
        // SAFETY: the kernel chooses the address, so no other memory is touched.
        let ptr = unsafe { mmap(ptr::null_mut(), len, prot, MapFlags::SHARED, fd, 0)? };
        let ptr = NonNull::new(ptr.cast()).ok_or_else(|| refuse("mapped at address zero"))?;
        Ok(Mapping { ptr, len })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte in it; never so.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Mapping {
    /// Copies bytes of `from` to byte `at` and those behind it, and says how many: fewer where the
    /// mapping ends. Who uses the same bytes meanwhile sees a mixture, as with any I/O buffer.
    pub fn fill(&self, at: usize, from: &Buf) -> usize {
        let mut done = 0;
        for piece in from.pieces() {
            let len = piece.len().min(self.len.saturating_sub(at.saturating_add(done)));
            // SAFETY: the mapping is writable, and has so many bytes there; it is no memory of
            // Rust's, so that no `Buf` has pieces of it. The piece is valid by its `Buf`.
            unsafe {
                let to = self.ptr.as_ptr().add(if len == 0 { 0 } else { at + done });
                ptr::copy_nonoverlapping(piece.start(), to, len);
            }
            done += len;
        }
        done
    }

    /// Copies up to `len` bytes from byte `from` on to byte `at` of `into`, and says how many:
    /// fewer where one of the two ends.
    pub fn copy_to(&self, from: usize, into: &Buf, at: usize, len: usize) -> usize {
        let len = len.min(self.len.saturating_sub(from));
        if len == 0 {
            return 0;
        }
        // SAFETY: the range is inside the mapping, which is sealed against shrinking. Whoever
        // writes it before the operation has ended makes a mixture of bytes, as with any I/O
        // buffer.
        let bytes = unsafe { slice::from_raw_parts(self.ptr.as_ptr().add(from), len) };
        into.write(at, bytes)
    }
}

impl AsRef<[AtomicU64]> for Mapping {
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is readable and writable (a read-only one is wrapped), page aligned,
        // lives as long as `self`, and cannot be cut short because it is sealed.
        unsafe { slice::from_raw_parts(self.ptr.as_ptr().cast(), self.len / 8) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map` and nothing borrows it any more.
        let _ = unsafe { munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}

/// A mapping that can only be read; the process that made the memory may write it meanwhile.
#[derive(Debug)]
pub struct ReadOnly(Mapping);

impl ReadOnly {
    /// Bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there is no byte in it; never so.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> *const u8 {
        self.0.ptr.as_ptr()
    }

    /// See [`Mapping::copy_to`].
    pub fn copy_to(&self, from: usize, into: &Buf, at: usize, len: usize) -> usize {
        self.0.copy_to(from, into, at, len)
    }
}

/// Memory for messages that other processes can map and so copy from directly. To its owner it is
/// just a slice of bytes. Others can only ever map it for reading, and a child made by `fork` does
/// not get it.
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    fd: OwnedFd,
    len: usize,
}

/// As a [`Region`], which others may map for writing, too. So it is no slice: its owner, too, uses
/// it as a [`Buf`].
#[derive(Debug)]
pub struct OpenRegion(Region);

impl OpenRegion {
    /// `len` zeroed bytes.
    ///
    /// # Errors
    /// As for [`Region::new`].
    pub fn new(len: usize) -> io::Result<OpenRegion> {
        Region::unsealed(len).map(OpenRegion)
    }

    /// Its address, by which others speak of it.
    pub fn addr(&self) -> usize {
        self.0.addr()
    }

    /// Bytes that were mapped: its length rounded up.
    pub fn mapped(&self) -> usize {
        self.0.mapped()
    }

    /// See [`Buf::from_region`].
    pub fn into_buf(self, along: Box<dyn Any + Send + Sync>) -> Buf {
        Buf::from_region(self.0, along)
    }
}

impl AsFd for OpenRegion {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Region {
    /// `len` zeroed bytes.
    ///
    /// # Errors
    /// When no more descriptors or memory can be had.
    pub fn new(len: usize) -> io::Result<Region> {
        let region = Region::unsealed(len)?;
        // Kernels before 5.1 lack this seal; there, others of the same user could write too.
        let _ = seal_writes(region.as_fd());
        Ok(region)
    }

    fn unsealed(len: usize) -> io::Result<Region> {
        let fd = memfd("weft-region", len)?;
        let mapping = Mapping::new(fd.as_fd(), round_up(len))?;
        // Large pages where the system gives them to shared memory; a refusal costs nothing.
        // SAFETY: the range is the mapping just made, and the advice changes no contents.
        let _ = unsafe { madvise(mapping.ptr.as_ptr().cast(), mapping.len, Advice::LinuxHugepage) };
        Ok(Region { mapping, fd, len })
    }

    /// Its address, by which others speak of it.
    pub fn addr(&self) -> usize {
        self.mapping.ptr.as_ptr() as usize
    }

    /// The same, for a [`Buf`] that takes the region over.
    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.mapping.ptr
    }

    /// Bytes that were mapped: `len` rounded up.
    pub fn mapped(&self) -> usize {
        self.mapping.len
    }
}

impl AsFd for Region {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped, at least `len` long, and written by nobody but the owner through
        // `deref_mut` (or through a `Buf`, whose maker vouches for it).
        unsafe { slice::from_raw_parts(self.mapping.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` excludes other borrows here, and other processes only
        // read.
        unsafe { slice::from_raw_parts_mut(self.mapping.ptr.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_of_one_memfd_see_each_other() {
        let fd = memfd("weft-test", 100).unwrap();
        let a = Mapping::new(fd.as_fd(), PAGE).unwrap();
        let b = Mapping::new(fd.as_fd(), PAGE).unwrap();
        a.as_ref()[7].store(42, Ordering::Release);
        assert_eq!(b.as_ref()[7].load(Ordering::Acquire), 42);
        assert!(ftruncate(&fd, 0).is_err(), "sealed against shrinking");
    }

    #[test]
    fn a_foreign_descriptor_is_refused_with_the_reason() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let error = Mapping::new(file.as_fd(), 4096).unwrap_err();
        assert!(error.to_string().contains("no memfd"), "{error}");
        let open = rustix::fs::memfd_create("x", MemfdFlags::ALLOW_SEALING).unwrap();
        let error = Mapping::new(open.as_fd(), 4096).unwrap_err();
        assert!(error.to_string().contains("not sealed"), "{error}");
        let short = memfd("weft-test", 10).unwrap();
        let error = Mapping::new(short.as_fd(), PAGE + 1).unwrap_err();
        assert!(error.to_string().contains("shorter"), "{error}");
        let error = Mapping::new(short.as_fd(), usize::MAX).unwrap_err();
        assert!(error.to_string().contains("shorter"), "{error}");
    }

    #[test]
    fn a_region_is_a_slice_that_others_can_only_read() {
        let mut region = Region::new(100).unwrap();
        assert_eq!(region.len(), 100);
        region[3..6].copy_from_slice(b"abc");
        let other = Mapping::read_only(region.as_fd(), region.mapped()).unwrap();
        let into = Buf::from_vec(vec![0; 4]);
        assert_eq!(other.copy_to(3, &into, 1, 100), 3);
        assert_eq!(other.copy_to(usize::MAX, &into, 0, 1), 0);
        assert_eq!(into.into_vec().unwrap(), b"\0abc");
        assert!(Mapping::new(region.as_fd(), 100).is_err(), "not for writing");
    }

    /// Whether children do not get the mapping at an address, as the kernel says it: `dc`.
    fn is_kept_from_children(addr: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&format!("{addr:x}-")));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).expect("it is mapped");
        flags.split_whitespace().any(|flag| flag == "dc")
    }

    #[test]
    fn children_do_not_get_memory_that_processes_share() {
        let (region, open) = (Region::new(100).unwrap(), OpenRegion::new(100).unwrap());
        assert!(is_kept_from_children(region.addr()) && is_kept_from_children(open.addr()));
        let other = Mapping::new(open.as_fd(), open.mapped()).unwrap();
        assert!(is_kept_from_children(other.ptr.as_ptr() as usize));
        let fd = memfd("weft-test", 100).unwrap();
        let all = Mapping::map(fd.as_fd(), PAGE, ProtFlags::READ).unwrap();
        assert!(!is_kept_from_children(all.ptr.as_ptr() as usize));
    }

    #[test]
    fn an_open_region_is_written_by_others() {
        let region = OpenRegion::new(100).unwrap();
        let other = Mapping::new(region.as_fd(), region.mapped()).unwrap();
        let buf = region.into_buf(Box::new(()));
        let from = Buf::chain(vec![Buf::from_vec(b"ab".to_vec()), Buf::from_vec(b"c".to_vec())]);
        assert_eq!(other.fill(97, &from), 3);
        let mut last = [0; 4];
        assert_eq!((buf.read(96, &mut last), &last), (4, b"\0abc"));
        let into = Buf::from_vec(vec![0; 2]);
        assert_eq!(other.copy_to(98, &into, 0, 2), 2);
        assert_eq!(into.into_vec().unwrap(), b"bc");
        // What lies beyond its pages is not there.
        assert_eq!(other.fill(other.len() - 1, &from), 1);
        assert_eq!(other.fill(usize::MAX, &from), 0);
        assert_eq!(other.copy_to(usize::MAX, &Buf::from_vec(vec![0; 2]), 0, 2), 0);
    }
}
