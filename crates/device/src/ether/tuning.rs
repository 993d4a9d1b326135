//! `WEFT_TUNE=adaptive`: how long the network cards wait before they interrupt, by what this
//! process does. One process of each node does it; the guard that will put everything back has the
//! name by which the others know that it is done.
//!
//! Polls say what the program does: while it waits, one follows the other closely, or it sleeps
//! between them; while it computes there are none but the tender's. What is to be set, a thread
//! sets: drivers take their time.

use std::io::ErrorKind;
use std::mem::{replace, take};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weft_proto::Counters;
use weft_sys::net::Coalescing;

use crate::env;
use crate::error::Error;
use crate::station::TENDER;
use crate::tune::cards::Card;
use crate::tune::control::{Controller, INTERVAL_NS, STEPS_US, Sample};
use crate::tune::guard::Guard;

/// Polls of who waits follow each other within this time, ns: an interrupt may lie between them.
const CLOSE_NS: u64 = 50_000;

/// How often it is looked whether the node has lost who did it.
const LOOK: Duration = Duration::from_millis(500);

/// Payload of a usual frame: links that join frames count the long ones.
const FRAME_BYTES: u64 = 1448;

/// Polls that have found something, after which it begins: what an MPI library has opened and does
/// not use says nothing of the program.
const IN_USE: u32 = 16;

/// Nobody sets anything yet.
const NOBODY: u32 = u32::MAX;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Tuning {
    is_wanted: bool,
    /// Those of the links, until it begins.
    interfaces: Vec<String>,
    found: u32,
    setter: Option<Setter>,
    controller: Option<Controller>,
    /// Who has polled last, and whether that was the tender.
    who: (usize, bool),
    polled_ns: u64,
    /// Whether the program sleeps, and whether its last poll has found nothing.
    sleeps: bool,
    in_vain: bool,
    /// Since the last decision.
    began_ns: u64,
    waited_ns: u64,
    waits: u64,
    frames: u64,
    caught: u64,
    /// Frames so far, and whether the last ones have come while the program computed.
    came: u64,
    catches: bool,
}

/// The thread that sets.
#[derive(Debug)]
struct Setter {
    orders: Option<Sender<u32>>,
    thread: Option<JoinHandle<()>>,
    /// What the first card has to begin with, us, or [`NOBODY`].
    first_us: Arc<AtomicU32>,
}

impl Tuning {
    /// As the user wants it.
    ///
    /// # Errors
    /// When `WEFT_TUNE` cannot be read.
    pub(super) fn from_env() -> Result<Tuning, Error> {
        let mut tuning = Tuning::none();
        tuning.is_wanted = match env::text("WEFT_TUNE").as_deref() {
            None | Some("off") => false,
            Some("adaptive") => true,
            Some(other) => {
                return Err(Error::setting(env::refuse("WEFT_TUNE", other, "no such way")));
            }
        };
        Ok(tuning)
    }

    /// Does nothing.
    pub(super) fn none() -> Tuning {
        Tuning {
            is_wanted: false,
            interfaces: Vec::new(),
            found: 0,
            setter: None,
            controller: None,
            who: (0, false),
            polled_ns: 0,
            sleeps: false,
            in_vain: false,
            began_ns: 0,
            waited_ns: 0,
            waits: 0,
            frames: 0,
            caught: 0,
            came: 0,
            catches: false,
        }
    }

    /// Whether it is to be told of polls.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_wanted
    }

    /// The links are open, on these interfaces.
    pub(super) fn begin(&mut self, interfaces: Vec<String>) {
        self.interfaces = interfaces;
    }

    #[cold]
    fn start(&mut self) {
        let interfaces = take(&mut self.interfaces);
        let (orders, ordered) = channel();
        let first_us = Arc::new(AtomicU32::new(NOBODY));
        let first = first_us.clone();
        let thread = thread::Builder::new()
            .name("weft-tune".into())
            .spawn(move || set_until_the_end(&interfaces, &ordered, &first));
        match thread {
            Ok(thread) => {
                let (orders, thread) = (Some(orders), Some(thread));
                self.setter = Some(Setter { orders, thread, first_us });
            }
            Err(error) => tracing::warn!(%error, "WEFT_TUNE: no thread for it"),
        }
    }

    /// Who calls this goes to sleep.
    pub(super) fn falls_asleep(&mut self) {
        self.sleeps = !self.is_tender();
    }

    fn is_tender(&mut self) -> bool {
        let me = weft_sys::cpu::thread();
        if me != self.who.0 {
            self.who = (me, thread::current().name() == Some(TENDER));
        }
        self.who.1
    }

    /// Arrivals were looked at, and something was found, or not. Whether it is time to decide.
    pub(super) fn polled(&mut self, now_ns: u64, found: bool, counters: &Counters) -> bool {
        let came = counters.frames_received.max(counters.bulk_bytes_received / FRAME_BYTES);
        let newer = came.saturating_sub(replace(&mut self.came, came));
        let gap_ns = now_ns.saturating_sub(replace(&mut self.polled_ns, now_ns));
        let by_tender = self.is_tender();
        let waits = replace(&mut self.sleeps, false) || (!by_tender && gap_ns < CLOSE_NS);
        if waits {
            self.waited_ns += gap_ns;
        }
        if found && waits && self.in_vain {
            self.waits += 1;
        }
        // What is there after the program has computed came meanwhile, until there is no more.
        self.catches |= !waits;
        if self.catches {
            self.caught += newer;
        }
        self.in_vain = !found && !by_tender;
        self.catches &= !self.in_vain;
        if found && self.found < IN_USE {
            self.found += 1;
            if self.found == IN_USE {
                self.start();
            }
        }
        now_ns.saturating_sub(self.began_ns) >= INTERVAL_NS
    }

    /// Decides by what happened since the last time.
    #[cold]
    pub(super) fn decide(&mut self, now_ns: u64) {
        let span_ns = now_ns - replace(&mut self.began_ns, now_ns);
        let waited_ns = replace(&mut self.waited_ns, 0);
        let sample = Sample {
            span_ns,
            idle: waited_ns as f64 / span_ns as f64,
            frames: self.came.saturating_sub(replace(&mut self.frames, self.came)),
            caught: Some(replace(&mut self.caught, 0)),
            waits: Some(replace(&mut self.waits, 0)),
        };
        let Some(setter) = &self.setter else { return };
        let first_us = setter.first_us.load(Ordering::Acquire);
        if first_us == NOBODY {
            return;
        }
        let controller = self.controller.get_or_insert_with(|| Controller::new(first_us));
        if let Some(delay_us) = controller.next(&sample) {
            let Sample { idle, frames, waits, .. } = sample;
            tracing::info!(delay_us, idle, frames, waits, span_ns, "interrupts: another delay");
            if let Some(orders) = &setter.orders {
                let _ = orders.send(delay_us);
            }
        }
    }
}

impl Drop for Setter {
    /// Before the process goes on, everything is as it was.
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread: takes the office once nobody has it, sets what is ordered, and puts everything back
/// when there will be no more orders.
fn set_until_the_end(interfaces: &[String], orders: &Receiver<u32>, first_us: &AtomicU32) {
    let mut guard = loop {
        match Guard::start() {
            Ok(guard) => break guard,
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                if orders.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
            Err(error) => {
                refuse(&error);
                return;
            }
        }
    };
    let known = interfaces.iter().find_map(|i| Card::open(i).ok());
    let first = known.map_or(0, |(_, before)| before.rx_us);
    let cards: Vec<Card> = interfaces.iter().filter_map(|i| guarded(i, &mut guard)).collect();
    if cards.is_empty() {
        // Nobody else of the node need try.
        while orders.recv().is_ok() {}
        return;
    }
    let delay_us = Controller::new(first).delay_us();
    cards.iter().for_each(|card| set(card, delay_us));
    first_us.store(first, Ordering::Release);
    while let Ok(mut delay_us) = orders.recv() {
        // Only the last one counts.
        orders.try_iter().for_each(|later| delay_us = later);
        cards.iter().for_each(|card| set(card, delay_us));
    }
    if !guard.end() {
        tracing::warn!("the interrupts of network cards are not put back: ethtool -C sets them");
    }
}

/// The card, guarded, if it can be set at all: it is, to another delay than it has.
fn guarded(interface: &str, guard: &mut Guard) -> Option<Card> {
    let (card, before) = match Card::open(interface) {
        Ok(opened) => opened,
        Err(error) => return refuse(&error),
    };
    if let Err(error) = guard.watch(interface, &before) {
        return refuse(&error);
    }
    let [first, second, ..] = STEPS_US;
    let other = if before.rx_us == second { first } else { second };
    match card.set(&Coalescing { rx_us: other, adaptive_rx: false, ..before }) {
        Ok(_) => Some(card),
        Err(error) => {
            let _ = guard.forget(interface);
            refuse(&error)
        }
    }
}

fn refuse(why: &dyn std::error::Error) -> Option<Card> {
    tracing::warn!("WEFT_TUNE: interrupts stay as they are: {why}");
    None
}

fn set(card: &Card, delay_us: u32) {
    match card.set_delay(delay_us) {
        Ok(now) => tracing::info!(card = card.name(), rx_usecs = now.rx_us, delay_us, "set"),
        Err(error) => tracing::info!(delay_us, "this delay is left out: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Counters {
        Counters::default()
    }

    /// What a tuning has counted, of polls at these times that found something or not.
    fn counted(polls: &[(u64, bool)]) -> (u64, u64) {
        let mut tuning = Tuning::none();
        tuning.polled(0, false, &none());
        for &(at, found) in polls {
            tuning.polled(at, found, &none());
        }
        (tuning.waited_ns, tuning.waits)
    }

    #[test]
    fn close_polls_are_a_wait_and_far_ones_are_not() {
        let waits = [(1_000, false), (2_000, false), (3_000, true)];
        assert_eq!(counted(&waits), (3_000, 1));
        let computes = [(1_000_000, true), (2_000_000, true)];
        assert_eq!(counted(&computes), (0, 0), "what was there when it came was not waited for");
    }

    #[test]
    fn who_sleeps_waits_and_the_tender_does_not() {
        let mut tuning = Tuning::none();
        tuning.polled(0, false, &none());
        tuning.falls_asleep();
        tuning.polled(1_000_000, true, &none());
        assert_eq!((tuning.waited_ns, tuning.waits), (1_000_000, 1));
        let tends = move || {
            tuning.polled(1_001_000, false, &none());
            tuning.falls_asleep();
            tuning.polled(1_002_000, true, &none());
            (tuning.waited_ns, tuning.waits)
        };
        let tender = thread::Builder::new().name(TENDER.into()).spawn(tends).unwrap();
        assert_eq!(tender.join().unwrap(), (1_000_000, 1));
    }

    #[test]
    fn frames_that_are_there_after_work_came_meanwhile_and_others_did_not() {
        let mut tuning = Tuning::none();
        let came = |frames_received| Counters { frames_received, ..none() };
        tuning.polled(0, false, &came(0));
        tuning.polled(1_000, true, &came(10));
        assert_eq!(tuning.caught, 0);
        tuning.polled(1_000_000, true, &came(17));
        tuning.polled(1_001_000, true, &came(18));
        tuning.polled(1_002_000, false, &came(18));
        tuning.polled(1_003_000, true, &came(30));
        assert_eq!((tuning.caught, tuning.came), (8, 30));
    }
}
