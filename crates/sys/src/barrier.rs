//! Memory barriers that one thread has executed on the processors of all the others.

use std::sync::OnceLock;
use std::time::Duration;

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes a command and two zeros, and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Prepares [`everywhere`], once in a process: takes milliseconds where it has several threads
/// already. `false` where the kernel refuses (before Linux 4.14, and in some sandboxes).
pub fn register() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
}

/// A full memory barrier on every processor that runs a thread of this process, before it returns:
/// some microseconds if one does. [`register`] has said that there is one.
pub fn everywhere() {
    if !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        // Refused since: a filter came later. What is in flight arrives by itself in much less.
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::{MEMBARRIER, refuse};

    #[test]
    fn a_barrier_ends_also_where_it_is_refused_meanwhile() {
        if !register() {
            return println!("SKIPPED: no barriers here");
        }
        everywhere();
        // The filter holds for the thread that asks for it, so it goes with this one.
        let thread = std::thread::spawn(|| {
            if let Err(error) = refuse(&[MEMBARRIER]) {
                return println!("SKIPPED: no seccomp filters here: {error}");
            }
            assert!(!membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED));
            everywhere();
        });
        thread.join().unwrap();
    }
}
