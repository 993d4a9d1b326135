//! What a queue or a counter depends on: endpoints that must be kept going, and how its user waits
//! for it.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weft_sys::clock::now_ns;
use weft_sys::watch::{Signal, readable};

use crate::abi::*;
use crate::ep::{Live, is_alone};
use crate::fail::Fail;
use crate::gate::{Gate, Threads};

/// How long a wait spins before it sleeps.
const SPIN: Duration = Duration::from_micros(20);

/// The longest sleep at one go.
const SLEEP: Duration = Duration::from_millis(200);

/// So many polls are made in the first look of a wait: a microsecond, of a program that may have
/// other work.
const FIRST_POLLS: u32 = 16;

/// And in the next ones of who has none: some 5 us each over a cable. Where threads may meet,
/// others want the endpoint meanwhile.
const BRISK_POLLS: u32 = 64;
const BRISK_POLLS_AMONG_THREADS: u32 = 16;

/// So many looks are first or next ones.
const BRISK_ROUNDS: u32 = 4;

/// Who looks again so soon after a look that found nothing does nothing else meanwhile: it waits.
const AGAIN_NS: u64 = 2_000;

/// The endpoints that a queue or counter depends on.
pub struct Sources {
    list: Gate<Vec<Arc<Live>>>,
    /// Readable when there is something; there is one where the user may sleep.
    signal: Option<Arc<Signal>>,
    /// The user sleeps, or is about to.
    armed: AtomicBool,
    /// The user was told to wake up though there may be nothing.
    woken: AtomicBool,
    /// Looks in a row that found nothing, since the user last began something.
    rounds: AtomicU32,
    /// Whether nothing was given away since then.
    anew: AtomicBool,
    /// When one of the first of them was over.
    looked_ns: AtomicU64,
    brisk_polls: u32,
}

impl Sources {
    /// None yet. `object` says how the user is going to wait.
    ///
    /// # Errors
    /// When there is no such way to wait, or the process is out of descriptors.
    pub fn new(object: fi_wait_obj, threads: Threads) -> Result<Sources, Fail> {
        let signal = match object {
            FI_WAIT_NONE => None,
            FI_WAIT_UNSPEC | FI_WAIT_FD | FI_WAIT_YIELD => {
                Some(Arc::new(Signal::new().map_err(|_| Fail(FI_EMFILE))?))
            }
            _ => return Err(Fail::NO_SYS),
        };
        Ok(Sources {
            list: Gate::new(Vec::new(), threads),
            signal,
            armed: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            rounds: AtomicU32::new(0),
            anew: AtomicBool::new(true),
            looked_ns: AtomicU64::new(0),
            brisk_polls: match threads {
                Threads::One => BRISK_POLLS,
                _ => BRISK_POLLS_AMONG_THREADS,
            },
        })
    }

    /// As [`Sources::new`], for what can be waited for whatever it was opened with.
    ///
    /// # Errors
    /// As for [`Sources::new`].
    pub fn waitable(object: fi_wait_obj, threads: Threads) -> Result<Sources, Fail> {
        let object = if object == FI_WAIT_NONE { FI_WAIT_UNSPEC } else { object };
        Sources::new(object, threads)
    }

    /// Depends on one more.
    pub fn add(&self, live: &Arc<Live>) {
        let mut list = self.list.enter();
        if list.iter().any(|other| Arc::ptr_eq(other, live)) {
            return;
        }
        if let Some(signal) = &self.signal {
            live.endpoint.signal_by(Arc::clone(signal));
        }
        list.push(Arc::clone(live));
    }

    /// Depends on one less.
    pub fn remove(&self, live: &Arc<Live>) {
        self.list.enter().retain(|other| !Arc::ptr_eq(other, live));
    }

    /// Keeps them going; `true` if something was done.
    #[inline]
    pub fn progress(&self) -> bool {
        all(&self.list.enter())
    }

    /// As [`Sources::progress`], but for who waits several times at first: whoever is told that
    /// there is nothing may do something else before it asks again. (MPICH gives its processor away
    /// each time: a message of 8 bytes there and back 7.9 us, so 7.4; in a node 2.36 and 1.78.)
    ///
    /// The look right after one that found something, after something was done, and after the user
    /// has begun something is a single one: Open MPI 4 empties its queue before it answers (in a
    /// node 2.1 us with several, 0.54 so), and MPICH looks once before it sees that it need not
    /// wait (a put with its lock 21.9 us with 16 polls there and in each of the first looks, 20.1
    /// so).
    #[inline]
    pub fn progress_briskly(&self) -> bool {
        let list = self.list.enter();
        let [live] = &list[..] else {
            return all(&list);
        };
        let did = match self.rounds.load(Ordering::Relaxed) {
            rounds @ 1..=BRISK_ROUNDS if live.endpoint.may_spin() => self.several(live, rounds),
            _ => live.progress(),
        };
        if did {
            self.begin_again();
        }
        did
    }

    /// One of the first looks of a wait. The clock is not read for the very first, within which a
    /// message within a node has come.
    fn several(&self, live: &Live, rounds: u32) -> bool {
        let again = || now_ns() < self.looked_ns.load(Ordering::Relaxed) + AGAIN_NS;
        let polls = match rounds {
            1 => FIRST_POLLS,
            _ if again() => self.brisk_polls,
            _ => 1,
        };
        let did = live.progress_within(polls);
        if !did {
            self.looked_ns.store(now_ns(), Ordering::Relaxed);
        }
        did
    }

    /// The user has found something or begun something, or something was done: what it looks for
    /// next may be there already, or take its time.
    #[inline]
    pub fn begin_again(&self) {
        if self.rounds.load(Ordering::Relaxed) != 0 {
            self.rounds.store(0, Ordering::Relaxed);
        }
    }

    /// The user has found nothing, and will look again: it gives way to others, at times. `true` if
    /// it has, so that something may have come meanwhile.
    ///
    /// A user who waits here does not sleep where the process has another endpoint that may have
    /// something: Open MPI has one for messages, and one for remote memory from its first window
    /// on, and looks at both in turn. (A sleep at the first was 1 ms without a look at the second:
    /// in a node, 10 of 100 atomic operations on a process that waits took 0.5 to 1 ms.)
    #[inline]
    pub fn idle(&self) -> bool {
        let rounds = self.rounds.load(Ordering::Relaxed).saturating_add(1);
        self.rounds.store(rounds, Ordering::Relaxed);
        if rounds == 1 {
            self.anew.store(true, Ordering::Relaxed);
        }
        // Not with the list in hand, for this may take a while; to keep one of it is not free.
        let due = |live: &&Arc<Live>| live.endpoint.is_idle_due(rounds);
        let first = self.list.enter().first().filter(due).cloned();
        let anew = || self.anew.swap(false, Ordering::Relaxed);
        first.is_some_and(|live| live.endpoint.idle(anew(), is_alone()))
    }

    /// There is something: wakes the user if it sleeps.
    #[inline]
    pub fn notify(&self) {
        if let Some(signal) = &self.signal
            && self.armed.load(Ordering::Acquire)
            && self.armed.swap(false, Ordering::AcqRel)
        {
            signal.set();
        }
    }

    /// Wakes the user in any case.
    pub fn wake(&self) -> Result<(), Fail> {
        let signal = self.signal.as_ref().ok_or(Fail::NO_SYS)?;
        self.woken.store(true, Ordering::Release);
        signal.set();
        Ok(())
    }

    /// Prepares for the user's sleep: `false` if `any` says that there is something already.
    pub fn arm(&self, any: impl Fn() -> bool) -> bool {
        let Some(signal) = &self.signal else { return !any() };
        signal.clear();
        self.armed.store(true, Ordering::Release);
        self.progress();
        if any() || self.woken.load(Ordering::Acquire) {
            self.armed.store(false, Ordering::Release);
            signal.set();
            return false;
        }
        for live in self.list.enter().iter() {
            live.endpoint.rest();
        }
        true
    }

    /// Waits until `step` gives something; `None` when the time is up (a negative one never is) or
    /// somebody has called [`Sources::wake`].
    ///
    /// # Errors
    /// Where there is nothing to sleep on.
    pub fn wait<R>(
        &self,
        timeout_ms: c_int,
        any: impl Fn() -> bool,
        mut step: impl FnMut() -> Option<R>,
    ) -> Result<Option<R>, Fail> {
        let signal = self.signal.as_ref().ok_or(Fail::NO_SYS)?;
        let begun = Instant::now();
        let limit = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        loop {
            self.progress();
            if let Some(found) = step() {
                return Ok(Some(found));
            }
            if self.woken.swap(false, Ordering::AcqRel) {
                signal.clear();
                return Ok(None);
            }
            let waited = begun.elapsed();
            if limit.is_some_and(|limit| waited >= limit) {
                return Ok(None);
            }
            if waited < SPIN {
                std::hint::spin_loop();
                continue;
            }
            if self.arm(&any) {
                let left = limit.map_or(SLEEP, |limit| (limit - waited).min(SLEEP));
                readable(signal.as_fd(), left.as_nanos() as u64);
                self.armed.store(false, Ordering::Release);
            }
        }
    }

    /// What a user can sleep on by itself.
    pub fn descriptor(&self) -> Option<c_int> {
        self.signal.as_ref().map(|signal| signal.as_fd().as_raw_fd())
    }
}

/// Keeps all of them going; `true` if something was done.
#[inline]
fn all(list: &[Arc<Live>]) -> bool {
    let mut did = false;
    for live in list {
        did |= live.progress();
    }
    did
}
