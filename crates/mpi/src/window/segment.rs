//! A part of a window: memory that all processes of a node map, and the lock under which it is
//! added to. Peers open it by the number that it has in its process (`/proc`): it has no name in
//! any file system, and is gone with the last who maps it.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

/// Before the program's memory: a page for the lock.
const HEAD: usize = 4096;

/// Where a process has one for others to open, and what it is, for the number may be another
/// process's where they are in containers of their own.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Place {
    process: u32,
    number: i32,
    device: u64,
    inode: u64,
    len: u64,
}

/// The memory. Unmapped when dropped.
pub struct Segment {
    at: NonNull<u8>,
    /// The program's bytes.
    pub len: usize,
}

// SAFETY: memory that is mapped for all threads; who writes to it when is up to the program, as
// with all windows, and the lock is one for several threads.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// The result of a system call that gives -1 with `errno`.
fn done(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Segment {
    /// One of so many zero bytes, and what keeps it open until the others have mapped it.
    pub fn new(len: usize) -> io::Result<(Segment, OwnedFd, Place)> {
        let all = len.checked_add(HEAD).and_then(|all| libc::off_t::try_from(all).ok());
        let all = all.ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a text that ends in a zero byte; what is opened belongs to nobody else.
        let file = unsafe {
            let number = done(libc::memfd_create(c"weft-window".as_ptr(), flags))?;
            OwnedFd::from_raw_fd(number)
        };
        // SAFETY: an open file. Sealed, it cannot be cut off under those who map it.
        unsafe {
            done(libc::ftruncate(file.as_raw_fd(), all))?;
            let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
            done(libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals))?;
        }
        let segment = Segment::map(&file, len)?;
        segment.make_lock()?;
        let (device, inode) = identity(&file)?;
        let (process, number) = (std::process::id(), file.as_raw_fd());
        let place = Place { process, number, device, inode, len: len as u64 };
        Ok((segment, file, place))
    }

    /// That of a peer.
    pub fn of(place: &Place) -> io::Result<Segment> {
        let refused = |_| io::ErrorKind::InvalidData;
        let path = format!("/proc/{}/fd/{}", place.process, place.number);
        let file: OwnedFd = std::fs::File::options().read(true).write(true).open(path)?.into();
        let len = usize::try_from(place.len).map_err(refused)?;
        // SAFETY: an open file.
        let seals = unsafe { done(libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS))? };
        let same = identity(&file)? == (place.device, place.inode);
        let all = place.len.checked_add(HEAD as u64);
        if !same || seals & libc::F_SEAL_SHRINK == 0 || all != Some(size(&file)?) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Segment::map(&file, len)
    }

    fn map(file: &OwnedFd, len: usize) -> io::Result<Segment> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new pages of a file of that length.
        let at = unsafe {
            let file = file.as_raw_fd();
            libc::mmap(ptr::null_mut(), len + HEAD, access, libc::MAP_SHARED, file, 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Segment { at, len })
    }

    /// The program's memory.
    pub fn memory(&self) -> *mut u8 {
        // SAFETY: within what is mapped, or at its end.
        unsafe { self.at.as_ptr().add(HEAD) }
    }

    fn lock(&self) -> *mut libc::pthread_mutex_t {
        const { assert!(size_of::<libc::pthread_mutex_t>() <= HEAD) };
        self.at.as_ptr().cast()
    }

    fn make_lock(&self) -> io::Result<()> {
        let good = |code| if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) };
        // SAFETY: plain data, set up by the first call; nobody else has the lock yet.
        unsafe {
            let mut kind: libc::pthread_mutexattr_t = std::mem::zeroed();
            good(libc::pthread_mutexattr_init(&raw mut kind))?;
            good(libc::pthread_mutexattr_setpshared(&raw mut kind, libc::PTHREAD_PROCESS_SHARED))?;
            good(libc::pthread_mutexattr_setrobust(&raw mut kind, libc::PTHREAD_MUTEX_ROBUST))?;
            good(libc::pthread_mutex_init(self.lock(), &raw const kind))
        }
    }

    /// Does something while nobody else in the node does anything under this lock. Who dies within
    /// it leaves it to the next.
    pub fn locked<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        // SAFETY: a lock that its maker has set up, mapped as long as this is.
        unsafe {
            match libc::pthread_mutex_lock(self.lock()) {
                0 => {}
                libc::EOWNERDEAD => _ = libc::pthread_mutex_consistent(self.lock()),
                code => return Err(io::Error::from_raw_os_error(code)),
            }
        }
        let given = work();
        // SAFETY: held since above.
        unsafe { libc::pthread_mutex_unlock(self.lock()) };
        Ok(given)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and used by nobody any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len + HEAD) };
    }
}

fn facts(file: &OwnedFd) -> io::Result<libc::stat> {
    // SAFETY: plain data, which the call fills; an open file.
    unsafe {
        let mut facts: libc::stat = std::mem::zeroed();
        done(libc::fstat(file.as_raw_fd(), &raw mut facts))?;
        Ok(facts)
    }
}

fn identity(file: &OwnedFd) -> io::Result<(u64, u64)> {
    facts(file).map(|facts| (facts.st_dev, facts.st_ino))
}

fn size(file: &OwnedFd) -> io::Result<u64> {
    facts(file).map(|facts| facts.st_size as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads_and_sums_are_whole() {
        let (own, file, place) = Segment::new(100).unwrap();
        let peer = Segment::of(&place).unwrap();
        drop(file);
        let count = |segment: &Segment| {
            let number = segment.memory().cast::<u32>();
            // SAFETY: within the memory, and nobody else is at it.
            segment.locked(|| unsafe { *number += 1 }).unwrap();
        };
        std::thread::scope(|scope| {
            for segment in [&own, &peer] {
                scope.spawn(move || (0..1000).for_each(|_| count(segment)));
            }
        });
        // SAFETY: all threads have ended.
        assert_eq!(unsafe { *own.memory().cast::<u32>() }, 2000);
    }

    #[test]
    fn what_is_not_that_memory_is_refused() {
        let (_own, file, place) = Segment::new(100).unwrap();
        let (_other, _open, another) = Segment::new(100).unwrap();
        let wrong = [
            Place { inode: another.inode, ..place },
            Place { len: place.len + 1, ..place },
            Place { len: u64::MAX, ..place },
            Place { process: u32::MAX, ..place },
        ];
        for wrong in wrong {
            assert!(Segment::of(&wrong).is_err(), "{wrong:?}");
        }
        drop(file);
        assert!(Segment::of(&place).is_err());
    }

    #[test]
    fn who_dies_with_the_lock_leaves_it() {
        let (own, _file, _place) = Segment::new(0).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: a lock that is set up; this thread ends with it.
                unsafe { libc::pthread_mutex_lock(own.lock()) };
            });
        });
        assert_eq!(own.locked(|| 1).unwrap(), 1);
        assert_eq!(own.locked(|| 2).unwrap(), 2);
    }
}
