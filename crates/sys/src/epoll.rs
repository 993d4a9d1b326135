//! Waiting for several descriptors at once, and a descriptor to wake somebody with.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

/// A set of descriptors that is waited on together. It is itself a descriptor that is readable
/// while one of its members is, so sets can be members of sets.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

/// Most members whose readiness one wait reports.
const MAX_EVENTS: usize = 16;

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    /// When no more descriptors can be had (`ulimit -n`).
    pub fn new() -> io::Result<Epoll> {
        Ok(Epoll { fd: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Adds a member, known by `token`. It leaves the set when its last copy is closed.
    ///
    /// # Errors
    /// When it is a member already, or cannot be waited on.
    pub fn add(&self, member: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.fd, member, data, epoll::EventFlags::IN)?;
        Ok(())
    }

    /// Takes a member out.
    ///
    /// # Errors
    /// When it is not a member.
    pub fn remove(&self, member: BorrowedFd<'_>) -> io::Result<()> {
        epoll::delete(&self.fd, member)?;
        Ok(())
    }

    /// Waits until a member is readable, or `timeout_ns` has passed (`None`: as long as it takes),
    /// and calls `each` with the tokens of those that are; says how many there were. A signal ends
    /// the wait early, with none.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn wait(&self, timeout_ns: Option<u64>, mut each: impl FnMut(u64)) -> io::Result<usize> {
        let limit = timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let event =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [event; MAX_EVENTS];
        let count = match epoll::wait(&self.fd, &mut events, limit.as_ref()) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..count] {
            each(event.data.u64());
        }
        Ok(count)
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A descriptor that is readable from [`WakeFd::wake`] to [`WakeFd::clear`].
#[derive(Debug)]
pub struct WakeFd {
    fd: OwnedFd,
}

impl WakeFd {
    /// One that is not readable yet.
    ///
    /// # Errors
    /// When no more descriptors can be had.
    pub fn new() -> io::Result<WakeFd> {
        Ok(WakeFd { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Makes it readable. Never blocks.
    pub fn wake(&self) {
        // Only a counter at its limit is refused, and then it is readable already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable again.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_within_a_set_tells_who_woke() {
        let (outer, inner) = (Epoll::new().unwrap(), Epoll::new().unwrap());
        let wake = WakeFd::new().unwrap();
        inner.add(wake.as_fd(), 3).unwrap();
        outer.add(inner.as_fd(), 9).unwrap();
        assert_eq!(outer.wait(Some(0), |_| ()).unwrap(), 0);
        wake.wake();
        let mut tokens = Vec::new();
        outer.wait(None, |t| tokens.push(t)).unwrap();
        inner.wait(None, |t| tokens.push(t)).unwrap();
        assert_eq!(tokens, [9, 3]);
        wake.clear();
        assert_eq!(outer.wait(Some(0), |_| ()).unwrap(), 0);
        inner.remove(wake.as_fd()).unwrap();
        assert!(inner.remove(wake.as_fd()).is_err());
    }
}
