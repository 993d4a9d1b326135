//! What the program does, and what a poll does for whoever makes it.

use super::{At, World};
use crate::station::judge::{self, Phase};
use crate::station::model::{Kind, Law};

/// So many steps a message is held while others are sent, a send that waits for room is left to the
/// program, and it takes until an answer is missed.
const HELD: u64 = 1;
const QUEUED: u64 = 2;
const ANSWER: u64 = 4;

/// Sends without a poll that make one.
const SENDS_PER_POLL: u8 = 4;

/// A poll puts the timer off by so many steps where nobody waits for cores.
pub(in crate::station::model) const UNATTENDED: u64 = 4;

/// By so many once it has been polled in time so often.
pub(in crate::station::model) const LEAVE: u64 = 7;
const STEADY: u64 = 2;

impl World {
    pub(super) fn polled(&mut self, law: Law) {
        self.polls += 1;
        if self.now >= self.again {
            self.put_off(self.now, law);
        }
    }

    pub(super) fn put_off(&mut self, now: u64, law: Law) {
        let late = self.timer.is_none_or(|at| now >= at);
        self.in_time = if late { 0 } else { (self.in_time + 1).min(STEADY) };
        let leave = judge::leave_ns(self.in_time, STEADY, (UNATTENDED, LEAVE));
        let off = judge::put_off(now, leave, law.turn);
        (self.again, self.timer) = (off.again_ns, Some(off.rings_ns));
    }

    fn due_by(&mut self, at: u64, law: Law) {
        self.due = true;
        if !law.counts_calls {
            self.timer = Some(at);
        }
    }

    /// A poll; one that has found what is waited for may end `early`, before it sends.
    pub(super) fn progress(&mut self, early: bool, law: Law) {
        self.polled(law);
        self.sent = 0;
        if law.polls_send_first || !early {
            self.held = None;
        }
        if self.arrived.take().is_some() {
            (self.queued, self.due) = (false, false);
            // Whoever has got something is to acknowledge it.
            self.deadline = Some(self.now + ANSWER);
        } else if self.deadline.is_some_and(|deadline| deadline <= self.now) {
            self.deadline = None;
        }
    }

    fn begin_action(&self) -> World {
        World { actions: self.actions - 1, calm: 0, ..*self }
    }

    fn poll(&self, early: bool, law: Law) -> World {
        let mut next = self.begin_action();
        next.unread = false;
        // Whoever polls disarms the bell.
        if let At::Asleep { watches, .. } = &mut next.at {
            *watches = false;
        }
        next.progress(early, law);
        next
    }

    /// All ways in which a send can go.
    fn sends(&self, kind: Kind, law: Law, all: &mut Vec<(&'static str, World)>) {
        let mut begun = self.begin_action();
        if law.counts_calls {
            begun.polled(law);
        }
        begun.sent += 1;
        if kind.answers && begun.deadline.is_none() {
            begun.deadline = Some(self.now + ANSWER);
        }
        let mut found = Vec::new();
        if kind.queues && !begun.queued {
            let mut waits = begun;
            waits.queued = true;
            waits.due_by(self.now + QUEUED, law);
            found.push(("a send waits for room", waits));
        }
        found.push(("a send goes", World { held: None, ..begun }));
        // What has waited for long takes the next one along.
        if begun.trusted && begun.held.is_none_or(|since| self.now < since + HELD) {
            let held = begun.held.or(Some(self.now));
            found.push(("a send is held", World { held, ..begun }));
        }
        for (name, mut next) in found {
            if next.sent >= SENDS_PER_POLL || self.queued {
                if next.arrived.is_some() {
                    let mut early = next;
                    early.progress(true, law);
                    all.push((name, early));
                }
                next.progress(false, law);
            }
            all.push((name, next));
        }
    }

    pub(super) fn actions(&self, kind: Kind, law: Law, all: &mut Vec<(&'static str, World)>) {
        if self.phase == Phase::OnDescriptors || self.actions == 0 {
            return;
        }
        if kind.keeps_lock {
            let ends = World { locked: false, stopped: true, ..self.begin_action() };
            let begins = World { locked: true, ..self.begin_action() };
            if self.locked {
                all.push(("the lock is left", ends));
            } else if !self.stopped {
                all.push(("the lock is taken", begins));
            }
        }
        if self.locked || self.stopped {
            return;
        }
        if kind.sends {
            self.sends(kind, law, all);
        }
        if kind.polls {
            for trusted in [false, kind.holds] {
                all.push(("a poll", World { trusted, ..self.poll(false, law) }));
                if self.arrived.is_some() {
                    all.push(("a poll ends early", World { trusted, ..self.poll(true, law) }));
                }
            }
        }
        if kind.stops {
            all.push(("it stops", World { stopped: true, ..self.begin_action() }));
        }
        if kind.sleeps {
            let mut next = self.poll(false, law);
            next.phase = Phase::OnDescriptors;
            all.push(("it sleeps", next));
        }
    }
}
