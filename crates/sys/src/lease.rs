//! Leases on files, by which the kernel tells whether a file is in use.

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::AsRawFd;

/// From the kernel's headers, the same on x86 and ARM; `libc` has no name for it.
const F_SETSIG: c_int = 10;

/// Whether nobody but this descriptor uses a file: no process has it open or mapped, wherever it
/// is, in another container or of another user as well. `false` also where the kernel does not
/// tell: a lease is given on a regular file of one's own, by most file systems (`fcntl(2)`). Once
/// given it lasts until the descriptor is closed; who opens the file before then waits for that.
pub fn nobody_else_uses(file: &File) -> bool {
    let fd = file.as_raw_fd();
    // SAFETY: an open descriptor; both requests take a number and touch no memory. The signal by
    // which the kernel asks for the lease back would be one that ends this process.
    unsafe {
        libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::fs::{Mode, OFlags};
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::*;

    #[test]
    fn who_has_a_file_open_or_mapped_uses_it() {
        let path = format!("/dev/shm/weft-lease-{}", std::process::id());
        let open = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        open.set_len(4096).unwrap();
        // By which it is found without a name, and which is no use of it.
        let place = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        std::fs::remove_file(path).unwrap();
        let again = format!("/proc/self/fd/{}", place.as_raw_fd());
        let unused = || nobody_else_uses(&File::open(&again).unwrap());
        assert!(!unused());
        let none = std::ptr::null_mut();
        // SAFETY: a place of the kernel's choice.
        let at = unsafe { mmap(none, 4096, ProtFlags::READ, MapFlags::SHARED, &open, 0) }.unwrap();
        drop(open);
        assert!(!unused());
        // SAFETY: nobody has looked at it.
        unsafe { munmap(at, 4096) }.unwrap();
        // A process that another test starts has all descriptors for a moment.
        let limit = Instant::now() + Duration::from_secs(30);
        while !unused() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(unused());
    }
}
