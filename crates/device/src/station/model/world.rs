//! One process at one moment: the program, its tender, and what they leave to each other.
//!
//! What the tender decides, and when the timer rings, is the real code's own ([`judge`]). What is
//! modelled is the rest: the timer, the order in which the tender looks, and what a send, a poll
//! and the tender's work do ([`Attention`](crate::attention::Attention), `company.rs`, `sending.rs`
//! and `polling.rs` in `ether`, and `endpoint/work.rs` in `weft`). A send here may be held, or wait
//! for room, whenever one of the real code may be in some run, and whether a poll ends early is
//! anyone's choice: that only adds to what can happen.

pub(super) mod program;
mod tender;

use super::{DELAY, Kind, LIMITS, Law};
use crate::station::judge::{Judge, Limits, Phase};

/// What a program may do within one step.
const ACTIONS: u8 = 2;

/// Where the tender is in its round. It gets to the end of its round by the step that is said,
/// however it is held up in between.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Asleep { watches: bool, until: u64 },
    Woken { by: u64 },
    Looked { by: u64, now: u64, polls: u64, rang: bool },
    StandsBack { by: u64, now: u64, polls: u64 },
    Tends { by: u64, now: u64 },
}

/// See the module's page. Times are in steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct World {
    pub(super) now: u64,
    timer: Option<u64>,
    /// When a poll puts the timer off, and how often in a row that was in time.
    again: u64,
    in_time: u64,
    polls: u64,
    due: bool,
    judge: Judge,
    at: At,
    phase: Phase,
    /// The program keeps the lock.
    locked: bool,
    stopped: bool,
    actions: u8,
    sent: u8,
    /// Whether messages may be held, which polls alone bring about; and since when some are.
    trusted: bool,
    held: Option<u64>,
    /// Sends wait for room, which comes with an arrival.
    queued: bool,
    arrived: Option<u64>,
    /// When something is to be done though nothing arrives.
    deadline: Option<u64>,
    /// Something has come that only the program can take.
    unread: bool,
    /// The tender's looks in a row at which there was nothing, and the last one's time.
    calm: u8,
    looked: u64,
}

/// A state, whatever the time is: from equal ones the same can happen.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Key([i8; 17]);

impl World {
    pub(super) fn new(kind: Kind, law: Law) -> World {
        let limits = Limits { tick_ns: law.tick, ..LIMITS };
        World {
            now: 0,
            timer: None,
            again: 0,
            in_time: 0,
            polls: 0,
            due: false,
            judge: Judge::new(limits, 0, 0),
            at: At::Woken { by: DELAY },
            phase: Phase::Awake,
            locked: false,
            stopped: false,
            actions: ACTIONS,
            sent: 0,
            trusted: kind.holds,
            held: None,
            queued: false,
            arrived: None,
            deadline: None,
            unread: false,
            calm: 0,
            looked: 0,
        }
    }

    pub(super) fn key(&self) -> Key {
        let from_now = |at: u64| (at as i64 - self.now as i64) as i8;
        let time = |at: Option<u64>| at.map_or(i8::MAX, from_now);
        // A time that is over is like any other one, where only that is asked.
        let to_come = |at: u64| if at == u64::MAX { i8::MAX } else { from_now(at).max(0) };
        // What the judge makes of polls and time is their difference, in the end.
        let brisk = |polls: u64, now: u64| {
            let polled = (polls - self.judge.seen) * LIMITS.rare_ns;
            (polled as i64 - (now as i64 - self.judge.seen_ns as i64)).clamp(-40, 40) as i8
        };
        let since_look = |polls: u64| (self.polls - polls).min(20) as i8;
        let at = match self.at {
            At::Asleep { watches, until } => [i8::from(watches), from_now(until), 0, 0],
            At::Woken { by } => [2, from_now(by), 0, 0],
            At::Looked { by, now, polls, rang } => {
                let late = 10 * from_now(by) + from_now(now);
                [3 + i8::from(rang), late, brisk(polls, now), since_look(polls)]
            }
            At::StandsBack { by, now, polls } => {
                [5, from_now(by), from_now(now), since_look(polls)]
            }
            At::Tends { by, now } => [6, from_now(by), from_now(now), 0],
        };
        let bits = [self.due, self.locked, self.stopped, self.queued]
            .into_iter()
            .chain([self.unread, self.trusted, self.phase == Phase::Awake])
            .fold(0, |bits, bit| 2 * bits + u8::from(bit));
        Key([
            at[0],
            at[1],
            at[2],
            at[3],
            bits as i8,
            time(self.timer),
            to_come(self.again),
            self.in_time as i8,
            brisk(self.polls, self.now),
            self.judge.asleep_ns as i8,
            self.actions as i8,
            self.sent as i8,
            time(self.held),
            time(self.arrived),
            time(self.deadline),
            self.calm as i8,
            from_now(self.looked).max(-(LIMITS.tick_ns as i8)),
        ])
    }

    /// How long what is to be done has been waiting.
    pub(super) fn waited(&self) -> u64 {
        let age = |since: Option<u64>| since.map_or(0, |since| self.now.saturating_sub(since));
        age(self.held).max(age(self.arrived)).max(age(self.deadline))
    }

    /// Whether the tender looks again and again though there is nothing to be done.
    pub(super) fn spins(&self) -> bool {
        self.calm > 5
    }

    fn is_calm(&self) -> bool {
        let nothing = self.held.is_none() && !self.queued && self.arrived.is_none();
        nothing && !self.unread && self.deadline.is_none_or(|deadline| deadline > self.now)
    }

    fn arrivals(&self, kind: Kind, all: &mut Vec<(&'static str, World)>) {
        if !kind.arrivals || self.arrived.is_some() {
            return;
        }
        let next = World { arrived: Some(self.now), calm: 0, ..*self };
        all.push(("something arrives", next));
        if kind.unread {
            all.push(("something arrives for the program", World { unread: true, ..next }));
        }
    }

    fn time(&self, kind: Kind) -> Option<(&'static str, World)> {
        let by = match self.at {
            At::Asleep { .. } => u64::MAX,
            At::Woken { by }
            | At::Looked { by, .. }
            | At::StandsBack { by, .. }
            | At::Tends { by, .. } => by,
        };
        let must_poll = kind.always_polls && !self.stopped && self.actions == ACTIONS;
        if self.now >= by || must_poll {
            return None;
        }
        let mut next = World { now: self.now + 1, actions: ACTIONS, ..*self };
        if self.locked {
            // Nobody can do anything: what waits does so from the lock's end on.
            for since in [&mut next.held, &mut next.arrived] {
                *since = since.map(|since| since + 1);
            }
            next.deadline = next.deadline.map(|deadline| deadline.max(next.now));
        }
        Some(("time passes", next))
    }

    /// Wakes who is to be woken.
    fn wake(&mut self, law: Law) {
        let deadline = self.deadline.is_some_and(|deadline| deadline <= self.now);
        if self.phase == Phase::OnDescriptors && (self.arrived.is_some() || deadline) {
            self.phase = Phase::Awake;
            self.unread = false;
            self.progress(false, law);
        }
        if let At::Asleep { watches, until } = self.at {
            let rings = self.timer.is_some_and(|at| at <= self.now);
            if rings || self.now >= until || watches && self.arrived.is_some() {
                self.at = At::Woken { by: self.now + DELAY };
            }
        }
    }

    /// All that can happen now: what in the same step, and what with the next one.
    pub(super) fn happenings(&self, kind: Kind, law: Law) -> Vec<(&'static str, World)> {
        let mut all = Vec::new();
        self.actions(kind, law, &mut all);
        self.arrivals(kind, &mut all);
        all.extend(self.looks(law));
        all.extend(self.time(kind));
        all.iter_mut().for_each(|(_, next)| next.wake(law));
        all
    }
}
