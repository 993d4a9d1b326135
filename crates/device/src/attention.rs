//! What a call of the program leaves to the tender when it returns, told without a lock: what is
//! due and when, and whether the program looks after things itself.
//!
//! No later call may be needed for what was begun: a program may compute for as long as it likes.
//! So there is a timer, which wakes the tender: at the time when something is due, and otherwise
//! when nobody has polled for a while. Who polls over and over puts it off now and then, so that it
//! never rings.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use weft_sys::clock::now_ns;
use weft_sys::watch::Timer;

use crate::courtesy;
use crate::error::Error;
use crate::station::judge;

/// See the module's page.
#[derive(Debug)]
pub struct Attention {
    timer: Timer,
    /// Whether sends wait for room, or for a connection that is being made: the next poll sees to
    /// them, or the tender. Written by whoever has the lock.
    due: AtomicBool,
    /// Counts polls, the program's and the tender's.
    polls: AtomicU64,
    /// When the next poll puts the timer off, ns.
    put_off_ns: AtomicU64,
    /// So long after the last poll the timer rings, ns, and half of that at least.
    unattended_ns: AtomicU64,
    /// How often in a row it was put off in time.
    in_time: AtomicU64,
    /// When the timer rings, ns, and by how much the tender was late to hear it, lately.
    rings_ns: AtomicU64,
    late_ns: AtomicU64,
    /// When the program last gave its core away after a send, and how long it is to keep it then.
    gave_ns: AtomicU64,
    gap_ns: AtomicU64,
}

/// See [`Attention::unattended_ns`]; so long for each rank that shares a core, up to the other:
/// where cores are not free, who does not poll most likely waits for one.
const UNATTENDED_NS: u64 = 2_000_000;
const UNATTENDED_MAX_NS: u64 = 20_000_000;

/// So many times as long it is for who has put the timer off in time so often in a row
/// ([`judge::leave_ns`]), and has not learnt that others want its core.
const LEAVE: u64 = 4;
const STEADY: u64 = 64;

/// How often anybody in the process has learnt that others want its core.
static CROWDS: AtomicU32 = AtomicU32::new(0);

/// See [`CROWDS`].
pub(crate) fn crowds() -> u32 {
    CROWDS.load(Ordering::Relaxed)
}

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
            due: AtomicBool::new(false),
            polls,
            put_off_ns,
            unattended_ns,
            in_time: AtomicU64::new(0),
            rings_ns: AtomicU64::new(0),
            late_ns: AtomicU64::new(0),
            gave_ns: AtomicU64::new(0),
            gap_ns: AtomicU64::new(courtesy::GAP_NS),
        })
    }

    /// Whether the program has kept its core for so long that a send is to give it away.
    pub(crate) fn has_kept_core(&self, now_ns: u64) -> bool {
        let since_ns = now_ns.saturating_sub(self.gave_ns.load(Ordering::Relaxed));
        since_ns >= self.gap_ns.load(Ordering::Relaxed)
    }

    /// It has given it away, and is not to do so again for so long.
    pub(crate) fn gave_core(&self, now_ns: u64, gap_ns: u64) {
        self.gave_ns.store(now_ns, Ordering::Relaxed);
        self.gap_ns.store(gap_ns, Ordering::Relaxed);
    }

    /// Sends wait: if nobody polls before `at_ns` of the monotonic clock, the tender is to.
    pub fn due_by(&self, at_ns: u64) {
        self.due.store(true, Ordering::Relaxed);
        self.set(at_ns);
    }

    fn set(&self, at_ns: u64) {
        self.rings_ns.store(at_ns, Ordering::Relaxed);
        self.timer.set(at_ns);
    }

    /// None waits any longer.
    #[inline]
    pub fn done(&self) {
        self.due.store(false, Ordering::Relaxed);
    }

    /// Arrivals are being looked at, at a time that may be a little old. Now and then, and no more
    /// often than each millisecond, gives `true`: then there is time for what costs some.
    #[inline]
    pub fn polled(&self, now_ns: u64) -> bool {
        // One that gets lost, because threads poll at once, does no harm: the count moves.
        self.polls.store(self.polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let now_and_then = now_ns >= self.put_off_ns.load(Ordering::Relaxed);
        if now_and_then {
            self.put_off_from_now();
        }
        now_and_then
    }

    /// Whether the tender polls at this moment.
    #[inline]
    pub(crate) fn is_tended(&self) -> bool {
        self.put_off_ns.load(Ordering::Relaxed) == u64::MAX
    }

    /// For a poll, whose time may be older than the timer is long.
    #[cold]
    fn put_off_from_now(&self) {
        self.put_off(now_ns());
    }

    /// So many ranks share a core.
    pub(crate) fn share_cores(&self, ranks_per_core: u64) {
        let unattended_ns = UNATTENDED_NS.saturating_mul(ranks_per_core).min(UNATTENDED_MAX_NS);
        self.unattended_ns.store(unattended_ns, Ordering::Relaxed);
    }

    /// Others want the program's core.
    #[inline]
    pub(crate) fn note_crowd(&self) {
        // One that gets lost does no harm.
        CROWDS.store(CROWDS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        if self.in_time.load(Ordering::Relaxed) != 0 {
            self.in_time.store(0, Ordering::Relaxed);
        }
    }

    /// The timer rings when nobody has polled for a while from now on.
    pub(crate) fn put_off(&self, now_ns: u64) {
        let unattended_ns = self.unattended_ns.load(Ordering::Relaxed);
        let late = now_ns >= self.rings_ns.load(Ordering::Relaxed);
        let in_time = if late { 0 } else { self.in_time.load(Ordering::Relaxed) + 1 };
        self.in_time.store(in_time, Ordering::Relaxed);
        let limits = (unattended_ns, LEAVE * UNATTENDED_NS);
        let leave_ns = judge::leave_ns(in_time, STEADY, limits);
        let off = judge::put_off(now_ns, leave_ns, self.turn_ns());
        self.put_off_ns.store(off.again_ns, Ordering::Relaxed);
        self.set(off.rings_ns);
    }

    /// The tender hears that the timer has rung.
    pub(crate) fn heard(&self, now_ns: u64) {
        let before = self.late_ns.load(Ordering::Relaxed);
        let late_ns = judge::late_ns(before, self.rings_ns.load(Ordering::Relaxed), now_ns);
        self.late_ns.store(late_ns, Ordering::Relaxed);
    }

    /// So long a program may wait for its turn on a core, ns, as far as the tender has seen.
    pub(crate) fn turn_ns(&self) -> u64 {
        judge::turn_ns(self.late_ns.load(Ordering::Relaxed))
    }

    /// How often they were.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// The tender polls, from now on: it needs no timer to do so again.
    pub(crate) fn tends(&self) {
        self.put_off_ns.store(u64::MAX, Ordering::Relaxed);
    }

    /// The tender rests: the next poll puts the timer off, for the program may compute from then
    /// on, and its poll has disarmed the bell that would wake the tender.
    pub(crate) fn rests(&self) {
        self.put_off_ns.store(0, Ordering::Relaxed);
    }

    /// Whether the timer has rung since this was last asked.
    pub(crate) fn rang(&self) -> bool {
        self.timer.clear()
    }

    /// Whether something is due, or will be.
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// Readable when a time has come.
    pub(crate) fn fd(&self) -> RawFd {
        self.timer.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::station::judge::TURNS;

    #[test]
    fn a_time_rings_once_and_what_was_done_is_not_due() {
        let attention = Attention::new().unwrap();
        assert!(!attention.rang() && !attention.is_due());
        attention.due_by(1);
        assert!(attention.rang() && !attention.rang() && attention.is_due());
        attention.done();
        assert!(!attention.is_due());
    }

    #[test]
    fn who_waits_for_cores_is_given_time() {
        let attention = Attention::new().unwrap();
        attention.due_by(1_000);
        (0..20).for_each(|_| attention.heard(8_001_000));
        let turn_ns = attention.turn_ns();
        assert!((TURNS * 7_900_000..=TURNS * 8_000_000).contains(&turn_ns), "{turn_ns}");
        attention.put_off(1_000);
        attention.polled(turn_ns / 2);
        assert_eq!(attention.rings_ns.load(Ordering::Relaxed), 1_000 + turn_ns, "not yet");
        attention.due_by(1_000);
        (0..60).for_each(|_| attention.heard(1_000));
        assert!(attention.turn_ns() < 100, "cores are free again");
    }

    #[test]
    fn who_polls_for_long_is_given_more_time_until_it_has_not_polled_once() {
        let attention = Attention::new().unwrap();
        let rings_ns = || attention.rings_ns.load(Ordering::Relaxed);
        let mut now = 1_000;
        let mut put_off = |times: u64| {
            attention.put_off(now);
            assert_eq!(rings_ns() - now, times * UNATTENDED_NS);
            now = attention.put_off_ns.load(Ordering::Relaxed);
        };
        (0..STEADY).for_each(|_| put_off(1));
        (0..3).for_each(|_| put_off(LEAVE));
        attention.note_crowd();
        (1..STEADY).for_each(|_| put_off(1));
        put_off(LEAVE);
        now = rings_ns();
        attention.put_off(now);
        assert_eq!(rings_ns() - now, UNATTENDED_NS);
    }

    #[test]
    fn it_rings_for_who_no_longer_polls_and_not_before() {
        let attention = Attention::new().unwrap();
        let rings_ns = || attention.rings_ns.load(Ordering::Relaxed);
        let began = now_ns();
        // However old the time is that it is told.
        attention.polled(0);
        assert_eq!(attention.polls(), 1);
        let first = rings_ns();
        assert!(first >= began + UNATTENDED_NS, "{first}");
        // Half of the time later it is put off again; before that a poll costs nothing.
        attention.polled(began + UNATTENDED_NS / 2 - 1);
        assert_eq!(rings_ns(), first);
        std::thread::sleep(std::time::Duration::from_nanos(UNATTENDED_NS));
        attention.polled(now_ns());
        let second = rings_ns();
        assert!(second >= first + UNATTENDED_NS / 2, "{second}");
        attention.tends();
        attention.polled(u64::MAX - 1);
        assert_eq!(rings_ns(), second, "its own polls need no timer");
        attention.rests();
        attention.polled(1);
        assert!(rings_ns() > second);
    }
}
