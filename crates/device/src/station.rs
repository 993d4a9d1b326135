//! The station: the lock around a context's state, polite waiting on it, and the tender thread that
//! makes progress while the program does something else.

pub(crate) mod judge;
#[cfg(test)]
mod model;
mod tender;

use std::cell::Cell;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use weft_sys::biased::{Biased, BiasedLock};
use weft_sys::clock::now_ns;
use weft_sys::cpu;
use weft_sys::watch::{Waker, Watch};

use crate::attention::Attention;
use crate::courtesy::Gap;
use crate::device::{Device, Wake};
use crate::error::Error;
use crate::page::Doing;
use crate::patience::{CROWDED_POLLS, Next, Patience};
use judge::Phase;
pub(crate) use tender::TENDER;
use tender::Tender;

/// So many waits that begin without a look at the clock at most follow each other.
const WAITS_PER_LOOK: u32 = 16;

/// The longest that a waiting program sleeps at one go.
const SLEEP_NS: u64 = 500_000_000;

/// A caller who polls for ever gives the processor away after so many polls that found nothing.
const IDLE_ROUNDS: u32 = 16;

/// The longest sleep within a call that was only to look whether something is there: the caller may
/// hold a lock of its own meanwhile.
const IDLE_SLEEP_NS: u64 = 1_000_000;

/// Each so many times that calls give way in a crowd, the calling thread asks for short turns: it
/// may be another one than the last time.
const SHORT_TURNS_INTERVAL: u32 = 256;

/// Has the kernel give this thread short turns. Where others compute on the same cores, a yield
/// costs as much as one, and so does waking up (measured: collective operations of 5 ranks of 2
/// cores beside 3 processes that only compute take a third to a half of the time; barriers of 32
/// native ranks by themselves, 0.25 ms at the worst instead of 1 to 4).
#[cold]
fn take_short_turns() {
    if let Err(error) = cpu::take_short_turns() {
        tracing::debug!(%error, "the kernel gives no short turns");
    }
}

/// The state, while one thread has it.
pub type Guard<'a, W> = Biased<'a, W>;

/// What a station guards.
pub trait Work: Send + 'static {
    /// The device that brings it what arrives.
    fn device(&mut self) -> &mut dyn Device;

    /// Has it and its device say from now on what calls leave to the tender, and that they polled.
    fn leave_to(&mut self, attention: &Arc<Attention>);

    /// When something is to be done though nothing arrives, ns of the monotonic clock.
    fn deadline_ns(&mut self) -> Option<u64> {
        self.device().deadline_ns()
    }

    /// Whether something has happened that the device knows nothing of: asked once more when the
    /// device is armed for sleep.
    fn has_news(&mut self) -> bool {
        false
    }

    /// Whether something has ended that the program has not been told yet: the tender may have
    /// seen to it since the program last looked.
    fn has_untold(&self) -> bool {
        false
    }

    /// The program takes nothing more, and ends.
    fn leave(&mut self) {}

    /// A call has waited, and goes on.
    fn waited(&mut self) {}

    /// Shows by its page what the program does, if it has one.
    fn show(&mut self, _doing: Doing) {}

    /// Makes progress while the program is away, leaving to the program what is the program's.
    /// `true` if something was done.
    fn tend(&mut self, now_ns: u64) -> bool;
}

/// The state that the program and its tender both see without the lock.
struct Shared<W> {
    work: BiasedLock<W>,
    attention: Arc<Attention>,
    phase: AtomicU8,
    /// The count of polls when the program went to sleep somewhere else.
    left_at: AtomicU64,
    /// The time when a wait or the tender last looked at the clock: the tender does so in every
    /// [`Tender`]'s tick in which the program does not sleep.
    looked_ns: AtomicU64,

    /// What a sleeping call watches; whoever finds it taken by another thread naps instead.
    sleeper: Mutex<Sleeper>,
    /// How often the program has slept there.
    sleeps: AtomicU32,
    stop: AtomicBool,
}

impl<W> Shared<W> {
    /// Looks at the clock.
    #[inline]
    fn look(&self) -> u64 {
        let now = now_ns();
        self.looked_ns.store(now, Ordering::Relaxed);
        now
    }
}

/// Guards a context's state, waits on it, and keeps it going by a tender thread.
pub struct Station<W: Work> {
    shared: Arc<Shared<W>>,
    patience: Mutex<Patience>,
    /// [`Patience::polls`], for those who have no time for a lock.
    polls: AtomicU32,
    /// How often a call has given way in a crowd. Not exact when threads do so at once.
    turns: AtomicU32,
    /// From a yield after a send to the next one.
    gap: Mutex<Gap>,
    /// Waits that began without a look at the clock since the last one that did not.
    blind: AtomicU32,
    tender: Option<JoinHandle<()>>,
    /// Wake the tender, wherever it sleeps.
    wakers: [Waker; 2],
}

/// A watch and the descriptors in it.
struct Sleeper {
    watch: Watch,
    generation: Option<u64>,
    /// A descriptor that is always among them.
    always: Option<RawFd>,
}

impl Sleeper {
    fn new(always: Option<RawFd>) -> Result<(Sleeper, Waker), Error> {
        let failed = |e| Error::system("making an epoll set", &e);
        let (mut watch, waker) = Watch::new().map_err(failed)?;
        watch.set(always.as_slice()).map_err(failed)?;
        Ok((Sleeper { watch, generation: None, always }, waker))
    }

    /// Watches nothing any more. A socket that is watched tells so with every frame, whether
    /// anybody sleeps or not, and that costs more than to watch it anew.
    fn clear(&mut self) {
        if self.generation.take().is_some() {
            // Out of descriptors: then it goes on watching, which only costs time.
            let _ = self.watch.set(self.always.as_slice());
        }
    }

    /// Brings the descriptors up to date.
    fn refresh(&mut self, device: &dyn Device) {
        let generation = device.watch_generation();
        if self.generation == Some(generation) {
            return;
        }
        let mut fds: Vec<RawFd> = self.always.into_iter().collect();
        device.watch(&mut |fd| fds.push(fd));
        // Out of descriptors: sleeping then ends by time alone, which is slower but not wrong.
        if self.watch.set(&fds).is_ok() {
            self.generation = Some(generation);
        }
    }
}

thread_local! {
    /// Whether this thread's waits go on with earlier ones.
    static GOES_ON: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, whose waits go on with one that ended for its time was over: they do not look on for a
/// while before they sleep, as a wait does that begins. So one that is made of parts costs no more
/// than one that is not.
pub fn going_on<R>(f: impl FnOnce() -> R) -> R {
    /// Also if `f` panics.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            GOES_ON.set(self.0);
        }
    }
    let _before = Before(GOES_ON.replace(true));
    f()
}

impl<W: Work> Station<W> {
    /// A station around `work`, with its tender running.
    pub fn new(mut work: W, patience: Patience) -> Result<Station<W>, Error> {
        let pulse = work.device().pulse();
        let attention = Arc::new(Attention::new()?);
        attention.share_cores(patience.ranks_per_core());
        work.leave_to(&attention);
        let (sleeper, _) = Sleeper::new(None)?;
        let shared = Arc::new(Shared {
            work: BiasedLock::new(work),
            attention,
            phase: AtomicU8::new(Phase::Awake as u8),
            left_at: AtomicU64::new(u64::MAX),
            looked_ns: AtomicU64::new(now_ns()),
            sleeper: Mutex::new(sleeper),
            sleeps: AtomicU32::new(0),
            stop: AtomicBool::new(false),
        });
        let (tender, wakers) = Tender::start(&shared, pulse)?;
        let polls = AtomicU32::new(patience.polls());
        let patience = Mutex::new(patience);
        let (turns, blind) = (AtomicU32::new(0), AtomicU32::new(0));
        let (gap, tender) = (Mutex::new(Gap::default()), Some(tender));
        Ok(Station { shared, patience, polls, turns, gap, blind, tender, wakers })
    }

    /// The state, for one call of the program.
    #[inline]
    pub fn lock(&self) -> Guard<'_, W> {
        self.shared.work.lock()
    }

    /// As [`Station::wait_until`], for a step that gives something when it is over.
    pub fn wait<T>(
        &self,
        timeout_ns: Option<u64>,
        mut step: impl FnMut(&mut W, u64) -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        let _ = self.wait_until(timeout_ns, |work, now_ns| {
            found = step(work, now_ns);
            found.is_some()
        });
        found
    }

    /// Calls `step` until it says that it is over or `timeout_ns` has gone by (`None` then):
    /// spinning at first, then yielding, then sleeping until something arrives. `step` polls the
    /// device and gets the time. The lock is held on from the step that was the last.
    ///
    /// No result is handed through here: what is moved on just after it was written, in other
    /// pieces, waits for the store buffer (measured: 15 ns of a small message's way).
    pub fn wait_until(
        &self,
        timeout_ns: Option<u64>,
        step: impl FnMut(&mut W, u64) -> bool,
    ) -> Option<Guard<'_, W>> {
        self.wait_from(self.shared.look(), timeout_ns, step)
    }

    /// As [`Station::wait_until`], without a limit, for waits that are most often over at once: the
    /// first steps get a time that may be some milliseconds old, the others one that is not.
    pub fn wait_briefly(&self, step: impl FnMut(&mut W, u64) -> bool) -> Option<Guard<'_, W>> {
        let blind = self.blind.load(Ordering::Relaxed) + 1;
        let look = blind == WAITS_PER_LOOK;
        self.blind.store(if look { 0 } else { blind }, Ordering::Relaxed);
        let looked_ns = self.shared.looked_ns.load(Ordering::Relaxed);
        self.wait_from(if look { self.shared.look() } else { looked_ns }, None, step)
    }

    /// As [`Station::wait_until`], from a time that is given to the first steps.
    #[inline(always)]
    fn wait_from(
        &self,
        mut started: u64,
        timeout_ns: Option<u64>,
        mut step: impl FnMut(&mut W, u64) -> bool,
    ) -> Option<Guard<'_, W>> {
        let (mut now, mut yielded_at) = (started, started);
        let end = timeout_ns.map(|t| started.saturating_add(t));
        let (mut round, mut turned) = (0, false);
        loop {
            let polls = self.polls.load(Ordering::Relaxed);
            let mut work = self.lock();
            if std::mem::take(&mut turned) {
                work.device().turned();
            }
            for _ in 0..polls {
                if step(&mut work, now) {
                    if round > 0 {
                        self.waited(&mut work, polls);
                    }
                    return Some(work);
                }
                // Also for the sender's sake: a line that is read without a pause is harder to take
                // for writing (measured: a fifth of a small message's round trip).
                std::hint::spin_loop();
            }
            now = self.shared.look();
            if end.is_some_and(|end| now >= end) {
                return None;
            }
            if round == 0 {
                // Waiting begins now: the time before may have been old, and lies back no longer
                // than a round if it was not.
                (started, yielded_at) = (if GOES_ON.get() { 0 } else { now }, now);
            }
            let next = self.patience(|p| p.next(round, now - started, now - yielded_at));
            round += 1;
            // A single poll is all that crowded cores allow: there the others go first.
            let lively = next == Next::Sleep && polls > 1 && work.device().is_lively(now);
            match if lively { Next::Yield } else { next } {
                Next::Spin => {}
                Next::Yield => {
                    drop(work);
                    turned = polls == CROWDED_POLLS;
                    now = self.give_way(now, turned);
                    yielded_at = now;
                }
                Next::Sleep => {
                    self.sleep(work, now, end.map_or(SLEEP_NS, |end| end - now));
                    now = now_ns();
                    yielded_at = now;
                }
            }
        }
    }

    /// A wait has ended that was not over at once.
    fn waited(&self, work: &mut W, polls: u32) {
        if polls == CROWDED_POLLS {
            self.patience(Patience::ended);
        }
        work.waited();
    }

    /// Lets others run who want to, at `now`, and learns whether there are any; gives the time.
    /// Where it is known that there are (`crowded`), only how long their turn was.
    fn give_way(&self, now: u64, crowded: bool) -> u64 {
        if crowded {
            let turns = self.turns.load(Ordering::Relaxed);
            self.turns.store(turns.wrapping_add(1), Ordering::Relaxed);
            if turns.is_multiple_of(SHORT_TURNS_INTERVAL) {
                take_short_turns();
            }
        }
        cpu::yield_now();
        let then = now_ns();
        if crowded {
            self.patience(|p| p.turned(then - now));
            return then;
        }
        if !Patience::is_long(then - now) {
            self.patience(|p| p.yielded(false));
            return then;
        }
        let crowded = cpu::give_way();
        self.patience(|p| {
            p.yielded(crowded);
            if crowded {
                p.turned(then - now);
            }
        });
        now_ns()
    }

    /// After a call that has sent: lets others run who want to
    /// ([`Courtesy`](crate::courtesy::Courtesy)).
    #[cold]
    pub fn let_others_run(&self) {
        let now = now_ns();
        cpu::yield_now();
        let then = now_ns();
        let mut gap = self.gap.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.attention.gave_core(then, gap.after(then - now));
    }

    /// Learns how many ranks share this node's cores.
    pub fn share_cores(&self, ranks: usize) {
        let per_core = self.patience(|p| {
            p.share_cores(ranks, cpu::shared());
            p.ranks_per_core()
        });
        self.shared.attention.share_cores(per_core);
    }

    /// Whether [`Station::idle`] is to be asked after so many polls in a row that found nothing.
    #[inline]
    pub fn is_idle_due(&self, rounds: u32) -> bool {
        !self.may_spin() || rounds.is_multiple_of(IDLE_ROUNDS)
    }

    /// Whether cores are free, as far as is known.
    #[inline]
    pub fn may_spin(&self) -> bool {
        self.polls.load(Ordering::Relaxed) != CROWDED_POLLS
    }

    /// A caller who polls for ever has found nothing for a while; `anew`: for the first time since
    /// it last found or did something. One who may not sleep only yields.
    pub fn idle(&self, anew: bool, may_sleep: bool) -> bool {
        let now = now_ns();
        let next = self.patience(|p| p.idle(anew, now, may_sleep));
        match next {
            Next::Spin => {}
            Next::Yield => {
                let crowded = self.polls.load(Ordering::Relaxed) == CROWDED_POLLS;
                let then = self.give_way(now, crowded);
                if crowded {
                    self.lock().device().turned();
                }
                self.patience(|p| p.idled(then));
            }
            Next::Sleep => {
                let work = self.lock();
                self.sleep(work, now, IDLE_SLEEP_NS);
                let now = now_ns();
                self.patience(|p| p.idled(now));
            }
        }
        next != Next::Spin
    }

    /// The program goes to sleep somewhere else: the tender is to take over at once.
    pub fn leave(&self) {
        self.shared.left_at.store(self.shared.attention.polls(), Ordering::Relaxed);
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Asks or tells the patience something.
    fn patience<T>(&self, what: impl FnOnce(&mut Patience) -> T) -> T {
        let mut patience = self.patience.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = what(&mut patience);
        let polls = patience.polls();
        self.polls.store(polls, Ordering::Relaxed);
        if polls == CROWDED_POLLS {
            self.shared.attention.note_crowd();
        }
        answer
    }

    /// Sleeps until the device has something, it wants to be polled, or `limit_ns` is up.
    fn sleep(&self, mut work: Guard<'_, W>, now: u64, limit_ns: u64) {
        let Ok(mut sleeper) = self.shared.sleeper.try_lock() else {
            // Another thread sleeps for this context already; a short nap is polite enough.
            drop(work);
            thread::sleep(std::time::Duration::from_micros(50));
            return;
        };
        let deadline_ns = work.deadline_ns();
        let device = work.device();
        device.flush(now);
        let doorbell = device.doorbell();
        let wake = if doorbell.is_some() { Wake::Doorbell } else { Wake::Descriptor };
        if !device.arm(wake) || work.has_news() || work.has_untold() {
            return;
        }
        work.show(Doing::Sleeps);
        let device = work.device();
        let until_deadline = deadline_ns.map_or(SLEEP_NS, |d| d.saturating_sub(now));
        let timeout = limit_ns.min(until_deadline).min(SLEEP_NS);
        let phase = &self.shared.phase;
        match doorbell {
            Some(doorbell) => {
                phase.store(Phase::OnDoorbell as u8, Ordering::Relaxed);
                drop(work);
                doorbell.sleep(timeout);
            }
            None => {
                sleeper.refresh(device);
                self.shared.sleeps.fetch_add(1, Ordering::Relaxed);
                phase.store(Phase::OnDescriptors as u8, Ordering::Relaxed);
                drop(work);
                sleeper.watch.wait(timeout);
            }
        }
        phase.store(Phase::Awake as u8, Ordering::Relaxed);
    }

    /// Stops the tender and gives the state back.
    pub fn into_inner(mut self) -> Option<W> {
        self.stop();
        let shared = Arc::clone(&self.shared);
        drop(self);
        Arc::into_inner(shared).map(|s| s.work.into_inner())
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.wakers.iter().for_each(Waker::wake);
        if let Some(tender) = self.tender.take() {
            let _ = tender.join();
        }
    }
}

impl<W: Work> Drop for Station<W> {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests;
