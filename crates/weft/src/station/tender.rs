//! The thread that makes progress while the program does not.
//!
//! It judges by what is due and by whether arrivals are looked at, not by whether calls are made: a
//! program that only sends makes calls and still looks after nothing. While the program polls, the
//! tender sleeps and watches nothing, for a descriptor that is watched costs whoever sends to it a
//! wake-up. A timer ([`Attention`](crate::attention::Attention)) wakes it when something that a
//! call left behind is due, and when nobody has polled for one to two milliseconds; from then on arrivals
//! wake it, until the program polls again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use weft_sys::clock::now_ns;
use weft_sys::watch::Waker;

use super::{Phase, Shared, Sleeper, Work, take_short_turns};
use crate::device::{Pulse, Wake};
use crate::error::Error;

/// The tender's longest sleep while the program is awake.
pub(super) const TICK_NS: u64 = 5_000_000;

/// A program that polls less often than this is looked after all the same.
const RARE_NS: u64 = 500_000;

/// The tender's longest sleep while the program itself sleeps in a call, and so needs no tender.
const LONG_TICK_NS: u64 = 40_000_000;

/// The tender's shortest sleep, so that a deadline it cannot meet does not make it spin.
const MIN_SLEEP_NS: u64 = 50_000;

/// See the module's page.
pub(super) struct Tender<W: Work> {
    shared: Arc<Shared<W>>,
    /// Watches the device's descriptors, and wakes for `Station::stop`.
    sleeper: Sleeper,
    /// Watches no descriptors of the device: for sleeping by time only, while they are the
    /// program's to watch.
    idle: Sleeper,
    pulse: Option<Arc<dyn Pulse>>,
    /// How often had been polled at the last look, and when that was.
    seen: u64,
    seen_ns: u64,
    /// How often the program had slept on the descriptors at the last look.
    sleeps: u32,
    /// When peers were last answered here, or told that this process lives.
    told_ns: u64,
    /// The longest sleep while nobody uses what it looks after.
    tick_ns: u64,
}

impl<W: Work> Tender<W> {
    /// Starts it; gives what wakes it, wherever it sleeps.
    pub(super) fn start(
        shared: &Arc<Shared<W>>,
        pulse: Option<Arc<dyn Pulse>>,
    ) -> Result<(JoinHandle<()>, [Waker; 2]), Error> {
        let alarm = Some(shared.attention.fd());
        let (sleeper, waker) = Sleeper::new(alarm)?;
        let (idle, idle_waker) = Sleeper::new(alarm)?;
        let (seen, now) = (shared.attention.polls(), now_ns());
        let (sleeps, seen_ns, told_ns) = (0, now, now);
        let shared = shared.clone();
        let tick_ns = TICK_NS;
        let tender =
            Tender { shared, sleeper, idle, pulse, seen, seen_ns, sleeps, told_ns, tick_ns };
        let thread = thread::Builder::new()
            .name("weft-tender".into())
            .spawn(move || tender.run())
            .map_err(|e| Error::system("starting the tender thread", &e))?;
        Ok((thread, [waker, idle_waker]))
    }

    fn run(mut self) {
        take_short_turns();
        let mut asleep_ns = TICK_NS;
        while !self.shared.stop.load(Ordering::Acquire) {
            let now = self.shared.look();
            let attention = &self.shared.attention;
            let (polls, rang) = (attention.polls(), attention.rang());
            let phase = self.shared.phase.load(Ordering::Relaxed);
            if phase == Phase::OnDescriptors as u8 {
                asleep_ns = (asleep_ns * 2).min(LONG_TICK_NS);
                self.nap(asleep_ns);
                continue;
            }
            asleep_ns = TICK_NS;
            if phase == Phase::OnDoorbell as u8 {
                self.stand_in(now);
                continue;
            }
            let left = polls == self.shared.left_at.load(Ordering::Relaxed);
            if rang {
                attention.heard(now);
            }
            let rare_ns = RARE_NS.max(attention.turn_ns());
            let brisk = rare_ns * polls.wrapping_sub(self.seen) > now.saturating_sub(self.seen_ns);
            // Who polls puts the timer off: that it rang says that nobody has for a while, or that
            // something is due.
            if rang || left || !brisk {
                self.tend(now);
            } else {
                self.stand_back(now, polls);
            }
        }
    }

    /// The program polls: it is left alone until it has not for a while.
    fn stand_back(&mut self, now: u64, polls: u64) {
        (self.seen, self.seen_ns) = (polls, now);
        self.sleeper.clear();
        self.clear_sleeper();
        self.shared.attention.put_off(now);
        self.nap(LONG_TICK_NS);
    }

    /// The program makes calls: where it has not slept in them since the last look, its descriptors
    /// are watched no longer. A call's end would be the place, if every way to poll had one.
    fn clear_sleeper(&mut self) {
        let sleeps = self.shared.sleeps.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.sleeps, sleeps) == sleeps
            && let Ok(mut sleeper) = self.shared.sleeper.try_lock()
        {
            sleeper.clear();
        }
    }

    /// Sleeps by time; only `Station::stop` wakes it.
    fn nap(&mut self, tick_ns: u64) {
        self.idle.watch.wait(tick_ns);
    }

    /// The program sleeps on the doorbell: watches the descriptors in its place, and rings.
    fn stand_in(&mut self, now: u64) {
        let doorbell = {
            // It may have woken up and keep the lock for long.
            let Some(mut work) = self.shared.work.try_lock() else { return self.stay_out(now) };
            self.sleeper.refresh(work.device());
            work.device().doorbell()
        };
        if self.sleeper.watch.wait(LONG_TICK_NS)
            && let Some(doorbell) = doorbell
        {
            let did = self.shared.work.try_lock().is_some_and(|mut work| work.tend(now_ns()));
            doorbell.ring();
            if !did {
                self.nap(TICK_NS / 10);
            }
        }
    }

    /// The program keeps the lock: for a moment, or with a message in hand for as long as it likes.
    /// A busy process must not be taken for dead, so its peers are told now and then that it lives.
    fn stay_out(&mut self, now: u64) {
        if let Some(pulse) = &self.pulse
            && now.saturating_sub(self.told_ns) >= pulse.interval_ns()
        {
            self.told_ns = now;
            pulse.beat();
        }
        let due = self.shared.attention.is_due();
        self.nap(if due { MIN_SLEEP_NS } else { TICK_NS });
    }

    /// The program computes: does its work, and sleeps until there is more.
    fn tend(&mut self, now: u64) {
        let Some(mut work) = self.shared.work.try_lock() else { return self.stay_out(now) };
        self.told_ns = now;
        let did = work.tend(now);
        let device = work.device();
        device.flush(now);
        self.sleeper.refresh(device);
        let quiet = device.arm(Wake::Descriptor) && !work.has_news();
        // What nobody uses is looked at more and more rarely: a process may have many endpoints, and
        // a wake-up costs the program some microseconds.
        let used = did || self.shared.attention.polls().wrapping_sub(self.seen) > 1;
        self.tick_ns = if used { TICK_NS } else { (self.tick_ns * 2).min(LONG_TICK_NS) };
        let timeout = work.deadline_ns().map_or(self.tick_ns, |d| d.saturating_sub(now));
        (self.seen, self.seen_ns) = (self.shared.attention.polls(), now);
        self.shared.attention.attended(now);
        drop(work);
        if quiet {
            self.sleeper.watch.wait(timeout.clamp(MIN_SLEEP_NS, self.tick_ns));
        } else if !did {
            // Something is there that only the program can take.
            self.nap(TICK_NS);
        }
    }
}
