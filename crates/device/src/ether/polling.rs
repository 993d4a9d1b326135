//! The rounds of a poll: what has come, what is due, and what is then to go out.

use weft_proto::Instant;
use weft_wire::Burst;

use super::Ether;
use super::incoming::Current;

/// Rounds of arrivals in one poll, while more have come.
const ROUNDS_PER_POLL: usize = 8;

/// Polls that cost a system call each between two looks at the clock: some microseconds.
const POLLS_PER_LOOK: u32 = 8;

impl Ether {
    /// A poll has found nothing.
    #[inline]
    fn found_none(&mut self) {
        self.company.looked();
        self.engine.found_none();
    }

    /// Looks at what changes seldom, when it is time to.
    fn look_around(&mut self, now: Instant) {
        let generation = self.links.generation;
        if self.links.check_state(&mut self.engine, now) {
            self.settle_links(generation, now.0);
        }
    }

    /// Does what depends on which links there are, where they were those of `generation` before.
    pub(super) fn settle_links(&mut self, generation: u64, now_ns: u64) {
        let anew = self.links.generation != generation;
        self.office.settle(&self.links, &mut self.engine, anew, now_ns);
        if self.burst.bytes_max() < self.links.max_burst() {
            self.burst = Burst::new(self.links.max_burst());
        }
    }

    #[inline]
    pub(super) fn poll_links(&mut self, now_ns: u64) -> bool {
        self.current = Current::Nothing;
        if self.company.hurried() {
            let now = self.read_clock();
            self.company.polled(now.0);
            // Before anything is found, for whoever finds something may compute from then on.
            if self.company.is_waiting() {
                self.transmit(now);
            }
        }
        // A time that is a little old will do where a poll is next to nothing: what needs it
        // exactly reads the clock. Polls that cost a system call make it too old.
        self.now = self.now.max(Instant(now_ns));
        self.engine.looks(self.now);
        self.engine.end_read(self.now);
        let quiet = self.calls.is_empty() && self.engine.is_idle(self.now);
        if quiet {
            if self.links.is_idle(self.now) {
                self.found_none();
                return false;
            }
            if self.take_found() {
                return true;
            }
        }
        if self.links.is_warm(self.now) {
            self.polls = self.polls.wrapping_add(1);
            if self.polls.is_multiple_of(POLLS_PER_LOOK) {
                self.read_clock();
            }
        }
        // With many ranks on a core this may be all that a turn on it has.
        for _ in 0..ROUNDS_PER_POLL {
            if self.next_event() {
                return true;
            }
            if !self.unread || self.early_since_ns.is_some() {
                break;
            }
            let now = self.read_clock();
            self.transmit(now);
        }
        // What is sent says when: a poll's time may be an old one.
        let now = if self.engine.has_to_send() { self.read_clock() } else { self.now };
        if !self.unread {
            self.found_none();
        }
        if self.engine.deadline().is_some_and(|deadline| deadline <= now) {
            self.engine.timeout(now);
        }
        if !self.calls.is_empty() {
            self.calls.call_some(&mut self.engine, now);
        }
        self.look_around(now);
        self.answer_probes();
        self.transmit(now);
        if self.early_since_ns.is_some() {
            return false;
        }
        // Timers and the links' state cause events as well, and so does what sending has freed.
        while let Some(incoming) = self.engine.next(now, &[]) {
            if self.take(incoming) {
                return true;
            }
        }
        false
    }
}
