//! Sleeping on descriptors: an epoll set that is replaced as a whole when the descriptors change,
//! and that another thread can wake.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// Wakes a [`Watch`] from any thread.
#[derive(Debug)]
pub struct Waker(Signal);

impl Waker {
    /// Ends the watch's current wait, or its next one if it is not waiting.
    pub fn wake(&self) {
        self.0.set();
    }
}

/// A descriptor that is readable from [`Signal::set`] to [`Signal::clear`], for programs that sleep
/// on descriptors of their own.
#[derive(Debug)]
pub struct Signal {
    event: OwnedFd,
}

impl Signal {
    /// One that is not set.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn new() -> io::Result<Signal> {
        Ok(Signal { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Makes it readable.
    pub fn set(&self) {
        // Fails only when the counter is full: then it is readable already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        // Fails when it was not set.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// A descriptor that becomes readable at a time that any thread may set. To set it costs a third of
/// what it costs to wake a thread.
#[derive(Debug)]
pub struct Timer {
    timer: OwnedFd,
}

impl Timer {
    /// One that is not set.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Timer { timer: timerfd_create(TimerfdClockId::Monotonic, flags)? })
    }

    /// Makes it readable at `at_ns` of the monotonic clock, and at no time before.
    pub fn set(&self, at_ns: u64) {
        // At 0 it would never be.
        let (once, at) = (timespec(0), timespec(at_ns.max(1)));
        let when = Itimerspec { it_interval: once, it_value: at };
        // A time that the kernel does not take is no error of the caller's: the tender's tick
        // comes.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &when);
    }

    /// Makes it unreadable, until the time that it is set to next; whether it was readable.
    pub fn clear(&self) -> bool {
        rustix::io::read(&self.timer, &mut [0u8; 8]).is_ok()
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// Waits until a descriptor is readable, at most `timeout_ns`; `false` if it is not by then.
pub fn readable(fd: BorrowedFd<'_>, timeout_ns: u64) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let timeout = timespec(timeout_ns);
    poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// Descriptors to sleep on.
pub struct Watch {
    epoll: OwnedFd,
    signal: Signal,
}

impl Watch {
    /// A watch on nothing but its waker.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn new() -> io::Result<(Watch, Waker)> {
        let signal = Signal::new()?;
        let waker = Waker(Signal { event: signal.event.try_clone()? });
        let epoll = with_waker(signal.as_fd())?;
        Ok((Watch { epoll, signal }, waker))
    }

    /// Watches `fds`, and no longer those before. One that cannot be watched, because it was closed
    /// meanwhile, is passed over.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn set(&mut self, fds: &[RawFd]) -> io::Result<()> {
        let epoll = with_waker(self.signal.as_fd())?;
        for &fd in fds.iter().filter(|fd| **fd >= 0) {
            // SAFETY: the descriptor is only named to the kernel, which refuses a closed one; were
            // the number given to another file meanwhile, the worst is a wake-up for nothing.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            let _ = epoll::add(&epoll, fd, epoll::EventData::new_u64(1), epoll::EventFlags::IN);
        }
        self.epoll = epoll;
        Ok(())
    }

    /// Sleeps until a descriptor is readable, the waker is used, or the time is up; `true` unless
    /// the time was up. A signal ends it as well.
    pub fn wait(&mut self, timeout_ns: u64) -> bool {
        let timeout = timespec(timeout_ns);
        // Which descriptors are ready does not matter, so room for a few is enough.
        let mut room = [MaybeUninit::uninit(); 4];
        let Ok((ready, _)) = epoll::wait(&self.epoll, &mut room, Some(&timeout)) else {
            return true;
        };
        if ready.iter().any(|e| e.data.u64() == 0) {
            self.signal.clear();
        }
        !ready.is_empty()
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// An epoll set with only the waker's descriptor in it, marked by data 0.
fn with_waker(event: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, event, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    Ok(epoll)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_timer_wakes_once_for_each_time_it_is_set_to() {
        let (mut watch, _) = Watch::new().unwrap();
        let timer = Timer::new().unwrap();
        watch.set(&[timer.as_fd().as_raw_fd()]).unwrap();
        assert!(!watch.wait(1_000), "it is not set");
        for at_ns in [0, crate::clock::now_ns() + 1_000_000] {
            timer.set(at_ns);
            assert!(watch.wait(u64::MAX >> 1) && crate::clock::now_ns() >= at_ns);
            assert!(timer.clear() && !timer.clear());
            assert!(!watch.wait(1_000));
        }
    }

    #[test]
    fn wakes_for_a_descriptor_for_the_waker_and_for_the_time() {
        let (mut watch, waker) = Watch::new().unwrap();
        assert!(!watch.wait(1_000));
        waker.wake();
        assert!(watch.wait(u64::MAX >> 1));
        assert!(!watch.wait(1_000), "a wake counts once");
        let (read, write) = rustix::pipe::pipe().unwrap();
        watch.set(&[read.as_raw_fd(), -1]).unwrap();
        rustix::io::write(&write, b"x").unwrap();
        assert!(watch.wait(u64::MAX >> 1));
        watch.set(&[]).unwrap();
        assert!(!watch.wait(1_000));
    }
}
