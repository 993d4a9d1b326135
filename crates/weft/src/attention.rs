//! What a call of the program leaves to the tender when it returns, told without a lock: what is
//! due and when, and whether the program looks after things itself.
//!
//! No later call may be needed for what was begun: a program may compute for as long as it likes.
//! So there is a timer, which wakes the tender: at the time when something is due, and otherwise
//! when nobody has polled for a while. Who polls over and over puts it off now and then, so that it
//! never rings.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weft_sys::watch::Timer;

use crate::error::Error;

/// Something that is done by the next poll, or by the tender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Due {
    /// Messages that are held to share a frame are to go.
    Held = 1,
    /// Sends wait for room, or for a connection that is being made.
    Queued = 2,
}

/// See the module's page.
#[derive(Debug)]
pub struct Attention {
    timer: Timer,
    /// Of [`Due`]. Written by whoever has the lock.
    due: AtomicU32,
    /// Counts polls, the program's and the tender's.
    polls: AtomicU64,
    /// When the next poll puts the timer off, ns.
    put_off_ns: AtomicU64,
    /// So long after the last poll the timer rings, ns, and half of that at least.
    unattended_ns: AtomicU64,
    /// When the timer rings, ns, and by how much the tender was late to hear it, lately.
    rings_ns: AtomicU64,
    late_ns: AtomicU64,
}

/// See [`Attention::unattended_ns`]; so long for each rank that shares a core, up to the other:
/// where cores are not free, who does not poll most likely waits for one.
const UNATTENDED_NS: u64 = 2_000_000;
const UNATTENDED_MAX_NS: u64 = 20_000_000;

/// Other nodes' ranks and other programs share the cores as well, and are not counted: a tender
/// that hears the timer late has had to wait for a core, and so has the program. So many times as
/// long it may go without a poll, up to the other: a tender that takes a program's place because
/// that waits for its turn only takes another turn from all (measured: alltoall of 128 ranks of 2
/// cores, two thirds of the processors' time).
const TURNS: u64 = 4;
const TURNS_MAX_NS: u64 = 100_000_000;

impl Attention {
    /// Nothing is due.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn new() -> Result<Attention, Error> {
        let (polls, put_off_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        let unattended_ns = AtomicU64::new(UNATTENDED_NS);
        let timer = Timer::new().map_err(|e| Error::system("making a timer", &e))?;
        Ok(Attention {
            timer,
            due: AtomicU32::new(0),
            polls,
            put_off_ns,
            unattended_ns,
            rings_ns: AtomicU64::new(0),
            late_ns: AtomicU64::new(0),
        })
    }

    /// If nobody polls before `at_ns` of the monotonic clock, the tender is to. A time that was
    /// told before no longer counts: in a row of bursts none but the last wakes it.
    pub fn due_by(&self, what: Due, at_ns: u64) {
        self.due.store(self.due.load(Ordering::Relaxed) | what as u32, Ordering::Relaxed);
        self.set(at_ns);
    }

    fn set(&self, at_ns: u64) {
        self.rings_ns.store(at_ns, Ordering::Relaxed);
        self.timer.set(at_ns);
    }

    /// It has been done.
    #[inline]
    pub fn done(&self, what: Due) {
        let due = self.due.load(Ordering::Relaxed);
        if due & what as u32 != 0 {
            self.due.store(due & !(what as u32), Ordering::Relaxed);
        }
    }

    /// Arrivals are being looked at, at a time that may be a little old.
    #[inline]
    pub fn polled(&self, now_ns: u64) {
        // One that gets lost, because threads poll at once, does no harm: the count moves.
        self.polls.store(self.polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        if now_ns >= self.put_off_ns.load(Ordering::Relaxed) {
            self.put_off(now_ns);
        }
    }

    /// So many ranks share a core.
    pub(crate) fn share_cores(&self, ranks_per_core: u64) {
        let unattended_ns = UNATTENDED_NS.saturating_mul(ranks_per_core).min(UNATTENDED_MAX_NS);
        self.unattended_ns.store(unattended_ns, Ordering::Relaxed);
    }

    /// The timer rings when nobody has polled for a while from now on.
    #[cold]
    pub(crate) fn put_off(&self, now_ns: u64) {
        let unattended_ns = self.unattended_ns.load(Ordering::Relaxed).max(self.turn_ns());
        self.put_off_ns.store(now_ns + unattended_ns / 2, Ordering::Relaxed);
        self.set(now_ns + unattended_ns);
    }

    /// The tender hears that the timer has rung.
    pub(crate) fn heard(&self, now_ns: u64) {
        let late_ns = now_ns.saturating_sub(self.rings_ns.load(Ordering::Relaxed));
        let before = self.late_ns.load(Ordering::Relaxed);
        // Not more than counts: whoever was stopped for long has not waited for a turn.
        let late_ns = late_ns.min(TURNS_MAX_NS / TURNS);
        self.late_ns.store((3 * before + late_ns) / 4, Ordering::Relaxed);
    }

    /// So long a program may wait for its turn on a core, ns, as far as the tender has seen.
    pub(crate) fn turn_ns(&self) -> u64 {
        (TURNS * self.late_ns.load(Ordering::Relaxed)).min(TURNS_MAX_NS)
    }

    /// How often they were.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// The tender looks after everything from now on, woken by arrivals. A poll of the program takes
    /// its place, so that one sets the timer again; those soon after do not.
    pub(crate) fn attended(&self, now_ns: u64) {
        let unattended_ns = self.unattended_ns.load(Ordering::Relaxed).max(self.turn_ns());
        self.put_off_ns.store(now_ns + unattended_ns / 2, Ordering::Relaxed);
    }

    /// Whether the timer has rung since this was last asked.
    pub(crate) fn rang(&self) -> bool {
        self.timer.clear()
    }

    /// Whether something is due, or will be.
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed) != 0
    }

    /// Readable when a time has come.
    pub(crate) fn fd(&self) -> RawFd {
        self.timer.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_rings_once_and_what_was_done_is_not_due() {
        let attention = Attention::new().unwrap();
        assert!(!attention.rang() && !attention.is_due());
        attention.due_by(Due::Held, 1);
        assert!(attention.rang() && !attention.rang());
        attention.due_by(Due::Queued, 1);
        attention.done(Due::Held);
        assert!(attention.rang() && attention.is_due(), "the other is still due");
        attention.done(Due::Queued);
        assert!(!attention.is_due());
    }

    #[test]
    fn who_waits_for_cores_is_given_time() {
        let attention = Attention::new().unwrap();
        attention.due_by(Due::Held, 1_000);
        (0..20).for_each(|_| attention.heard(8_001_000));
        let turn_ns = attention.turn_ns();
        assert!((TURNS * 7_900_000..=TURNS * 8_000_000).contains(&turn_ns), "{turn_ns}");
        attention.put_off(1);
        attention.polled(turn_ns / 2);
        assert_eq!(attention.rings_ns.load(Ordering::Relaxed), 1 + turn_ns, "not yet");
        attention.due_by(Due::Held, 1_000);
        (0..60).for_each(|_| attention.heard(1_000));
        assert!(attention.turn_ns() < 100, "cores are free again");
    }

    #[test]
    fn it_rings_for_who_no_longer_polls_and_not_before() {
        let attention = Attention::new().unwrap();
        let far = weft_sys::clock::now_ns() + 1_000_000_000_000;
        attention.polled(far);
        assert_eq!(attention.polls(), 1);
        assert!(!attention.rang());
        // Half of the time later it is put off again; before that a poll costs nothing.
        attention.put_off(1);
        attention.polled(UNATTENDED_NS / 2);
        assert!(attention.rang());
        attention.polled(UNATTENDED_NS / 2 + 1);
        assert!(attention.rang());
        attention.attended(2 * UNATTENDED_NS);
        attention.polled(2 * UNATTENDED_NS + 1);
        assert!(!attention.rang(), "the tender has just looked");
        attention.polled(3 * UNATTENDED_NS);
        assert!(attention.rang(), "a poll that is not followed by others");
    }
}
