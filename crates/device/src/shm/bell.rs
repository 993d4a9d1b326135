//! The process's doorbell: one page that all its local peers map.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use weft_ring::{Bell, Memory, Sleep};
use weft_sys::futex;
use weft_sys::mem::{self, Mapping};

use crate::device::Doorbell;
use crate::error::Error;

/// Bytes of the page's used part.
const LEN: usize = 64;

/// A process's own doorbell.
pub(super) struct OwnBell {
    pub(super) bell: Bell,
    fd: OwnedFd,
}

impl OwnBell {
    pub(super) fn new() -> Result<OwnBell, Error> {
        let failed = |cause: &dyn std::fmt::Display| Error::os("making a doorbell", cause);
        let fd = mem::memfd("weft-bell", LEN);
        let fd = fd.map_err(|e| Error::system("making a doorbell", &e))?;
        let bell = attach(fd.as_fd()).map_err(|e| failed(&e))?;
        Ok(OwnBell { bell, fd })
    }
}

impl AsFd for OwnBell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Doorbell for OwnBell {
    fn sleep(&self, timeout_ns: u64) {
        // Without futexes this returns at once and the caller polls: slow, but it works.
        let _ = futex::wait(self.bell.word(), Sleep::Futex as u32, Some(timeout_ns));
    }

    fn ring(&self) {
        // The owner's device may have been polled while the owner sleeps, and says now that it is
        // awake: the futex knows better.
        self.bell.nudge();
        futex::wake(self.bell.word(), 1);
    }
}

/// A peer's doorbell.
pub(super) fn attach(fd: BorrowedFd<'_>) -> Result<Bell, String> {
    let mapping = Mapping::new(fd, LEN).map_err(|e| e.to_string())?;
    let memory = Memory::new(Arc::new(mapping)).map_err(|e| e.to_string())?;
    Bell::new(memory).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_sleeper_is_woken_though_its_device_was_polled_meanwhile() {
        const LIMIT: Duration = Duration::from_secs(60);
        let bell = Arc::new(OwnBell::new().unwrap());
        bell.bell.arm(Sleep::Futex);
        let sleeper = {
            let bell = bell.clone();
            thread::spawn(move || bell.sleep(10 * LIMIT.as_nanos() as u64))
        };
        thread::sleep(Duration::from_millis(50));
        bell.bell.disarm();
        let begun = Instant::now();
        while !sleeper.is_finished() {
            assert!(begun.elapsed() < LIMIT, "it sleeps on");
            bell.ring();
            thread::sleep(Duration::from_millis(1));
        }
    }
}
