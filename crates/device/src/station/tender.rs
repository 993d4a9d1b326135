//! The thread that makes progress while the program does not.
//!
//! It judges by what is due and by whether arrivals are looked at, not by whether calls are made: a
//! program that only sends makes calls and still looks after nothing. While the program polls, the
//! tender sleeps and watches nothing, for a descriptor that is watched costs whoever sends to it a
//! wake-up. A timer ([`Attention`](crate::attention::Attention)) wakes it when something that a
//! call left behind is due, and when nobody has polled for a millisecond or two; from then on
//! arrivals wake it, until the program polls again.

use std::mem::replace;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use weft_sys::clock::now_ns;
use weft_sys::watch::Waker;

use super::judge::{Judge, Limits, Phase, Rest, Sight, Then};
use super::{Shared, Sleeper, Work, take_short_turns};
use crate::attention;
use crate::device::{Pulse, Wake};
use crate::error::Error;
use crate::page::Doing;

/// The name of its thread.
pub(crate) const TENDER: &str = "weft-tender";

/// The tender's longest sleep while the program is awake, and may leave something to it without a
/// word.
pub(super) const TICK_NS: u64 = 5_000_000;

/// The longest one otherwise. (Open MPI's second endpoint, for windows, is not polled by programs
/// that have none: with 5 ms here it took its receiver's core away 200 times a second.)
const LONG_TICK_NS: u64 = 40_000_000;

const LIMITS: Limits =
    Limits { tick_ns: TICK_NS, long_tick_ns: LONG_TICK_NS, min_sleep_ns: 50_000, rare_ns: 500_000 };

/// See the module's page.
pub(super) struct Tender<W: Work> {
    shared: Arc<Shared<W>>,
    /// Watches the device's descriptors, and wakes for `Station::stop`.
    sleeper: Sleeper,
    /// Watches no descriptors of the device: for sleeping by time only, while they are the
    /// program's to watch.
    idle: Sleeper,
    pulse: Option<Arc<dyn Pulse>>,
    judge: Judge,
    /// How often anybody had learnt that others want cores, at the last rest.
    crowds: u32,
    /// How often the program had slept on the descriptors at the last look.
    sleeps: u32,
    /// When peers were last answered here, or told that this process lives.
    told_ns: u64,
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
        let told_ns = now_ns();
        let judge = Judge::new(LIMITS, shared.attention.polls(), told_ns);
        let shared = shared.clone();
        let tender = Tender { shared, sleeper, idle, pulse, judge, crowds: 0, sleeps: 0, told_ns };
        let thread = thread::Builder::new()
            .name(TENDER.into())
            .spawn(move || tender.run())
            .map_err(|e| Error::system("starting the tender thread", &e))?;
        Ok((thread, [waker, idle_waker]))
    }

    fn run(mut self) {
        take_short_turns();
        while !self.shared.stop.load(Ordering::Acquire) {
            let now = self.shared.look();
            let sight = self.look(now);
            match self.judge.judge(&sight) {
                Then::Nap(nap_ns) => self.nap(nap_ns),
                Then::StandIn => self.stand_in(now),
                Then::Tend => self.tend(now),
                Then::StandBack => self.stand_back(now, sight.polls),
            }
        }
    }

    fn look(&self, now_ns: u64) -> Sight {
        let attention = &self.shared.attention;
        let (polls, rang) = (attention.polls(), attention.rang());
        let phase = Phase::from_u8(self.shared.phase.load(Ordering::Relaxed));
        let left = polls == self.shared.left_at.load(Ordering::Relaxed);
        if rang && phase == Phase::Awake {
            attention.heard(now_ns);
        }
        Sight { now_ns, polls, rang, phase, left, turn_ns: attention.turn_ns() }
    }

    /// The program polls: it is left alone until it has not for a while.
    fn stand_back(&mut self, now: u64, polls: u64) {
        self.judge.saw(polls, now);
        self.sleeper.clear();
        self.clear_sleeper();
        self.shared.attention.put_off(now);
        self.nap(LONG_TICK_NS);
    }

    /// The program makes calls: where it has not slept in them since the last look, its descriptors
    /// are watched no longer. A call's end would be the place, if every way to poll had one.
    fn clear_sleeper(&mut self) {
        let sleeps = self.shared.sleeps.load(Ordering::Relaxed);
        if replace(&mut self.sleeps, sleeps) == sleeps
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
            // That nobody polls is no news of a program that sleeps: it is not to wake for it.
            let attention = &self.shared.attention;
            if attention.rang() && !attention.is_due() {
                return;
            }
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
        self.nap(self.judge.stays_out(self.shared.attention.is_due()));
    }

    /// The program computes: does its work, and sleeps until there is more.
    fn tend(&mut self, now: u64) {
        let Some(mut work) = self.shared.work.try_lock() else { return self.stay_out(now) };
        // It may have gone to sleep since, before it let the lock go: what is taken here now would
        // not wake it.
        if self.shared.phase.load(Ordering::Relaxed) != Phase::Awake as u8 {
            return;
        }
        self.told_ns = now;
        self.shared.attention.tends();
        let did = work.tend(now);
        work.show(Doing::Computes);
        let device = work.device();
        device.flush(now);
        self.sleeper.refresh(device);
        // Where others want the cores, its short turns end those of ranks that compute while others
        // wait for theirs. (*stream* with 4 ranks of 2 cores, Open MPI, in the mean: 1320 B every
        // 200 us 0.55 ms so, 0.68 if its second endpoint's tender sleeps for long.)
        let crowds = attention::crowds();
        let crowded = replace(&mut self.crowds, crowds) != crowds;
        let short = device.may_hold() || crowded;
        let quiet = device.arm(Wake::Descriptor) && !work.has_news();
        let until_ns = work.deadline_ns().map(|d| d.saturating_sub(now));
        self.judge.saw(self.shared.attention.polls(), now);
        self.shared.attention.rests();
        drop(work);
        match self.judge.rest(quiet, did, until_ns, short) {
            Rest::Watch(limit_ns) => _ = self.sleeper.watch.wait(limit_ns),
            Rest::Nap(nap_ns) => self.nap(nap_ns),
            Rest::None => {}
        }
    }
}
