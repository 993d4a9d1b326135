//! Sleeping on a word that processes share.

use std::io;
use std::sync::atomic::AtomicU32;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

/// How a [`wait`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// Somebody called [`wake`], a signal came, or nothing at all happened.
    Woken,
    /// The word was not what was expected, so there was no sleep.
    Changed,
    /// The time is up.
    TimedOut,
}

/// Sleeps while `word` is `expected`, at most `timeout_ns` (`None`: as long as it takes).
///
/// # Errors
/// When the kernel has no futexes.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> io::Result<Waited> {
    let limit = timeout_ns.map(|ns| Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    });
    match futex::wait(word, Flags::empty(), expected, limit.as_ref()) {
        Ok(()) | Err(Errno::INTR) => Ok(Waited::Woken),
        Err(Errno::AGAIN) => Ok(Waited::Changed),
        Err(Errno::TIMEDOUT) => Ok(Waited::TimedOut),
        Err(error) => Err(error.into()),
    }
}

/// Wakes at most `count` of those who sleep on `word`, in whatever process. Costs a system call
/// also when nobody does.
pub fn wake(word: &AtomicU32, count: u32) {
    // Nothing can go wrong with an aligned word of this process.
    let _ = futex::wake(word, Flags::empty(), count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_sleeper_is_woken_or_finds_the_word_changed_or_times_out() {
        let word = AtomicU32::new(1);
        assert_eq!(wait(&word, 1, Some(1_000_000)).unwrap(), Waited::TimedOut);
        assert_eq!(wait(&word, 2, None).unwrap(), Waited::Changed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 1 {
                    wait(&word, 1, Some(20_000_000_000)).unwrap();
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(5));
            word.store(0, Ordering::Release);
            wake(&word, 1);
        });
    }
}
