//! Which polls in vain are a wait.

use std::mem::replace;

use super::{By, Wait};

/// So few polls in vain are no wait: to look at the clock for each would cost more than they do.
const LEAST: u32 = 16;

/// Polls with a gap between them have other work between them, unless the process slept in a call
/// of Weft's, or somebody else had its processor: then it had polled densely before, or has used
/// less of the processor than all the time of its polls and half of the gap.
const GAP_NS: u64 = 50_000;
const DENSE_POLLS: u32 = 64;
const DENSE_NS: u64 = 5_000;

/// Where cores are not free, a wait has few polls, and yields and sleeps between them: there each
/// counts, until so many in a row had no yield.
const CROWDED: u32 = 64;

/// The stretch of polls that is going on.
#[derive(Default, Debug)]
pub(super) struct Waits {
    vain: u32,
    /// Whether it is a wait; then, when that began, and when the last poll was.
    is_on: bool,
    from_ns: u64,
    last_ns: u64,
    /// How much of a processor the thread had used when it began or after the last gap, and when
    /// that was.
    used_ns: u64,
    looked_ns: u64,
    /// The process has slept, or given its processor away, since the last poll.
    away: bool,
    /// See [`CROWDED`].
    crowded: u32,
    /// The wait that ended last, until it is known that it did.
    over: Option<Wait>,
}

impl Waits {
    /// Whether one is going on.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    fn begin(&mut self, now_ns: u64, used_ns: u64) {
        (self.is_on, self.from_ns, self.last_ns) = (true, now_ns, now_ns);
        (self.used_ns, self.looked_ns) = (used_ns, now_ns);
    }

    /// One more poll in vain, at a time that may be a little old; gives waits that are over. `used`
    /// tells how much of a processor the thread has used, by a system call.
    #[inline]
    pub(super) fn in_vain(
        &mut self,
        now_ns: u64,
        clock: impl FnOnce() -> u64,
        used: impl FnOnce() -> u64,
    ) -> [Option<Wait>; 2] {
        self.vain = self.vain.saturating_add(1);
        if !self.is_on {
            if self.vain < LEAST && self.crowded == 0 {
                return [None, None];
            }
            self.begin(clock(), used());
            return [self.over.take(), None];
        }
        let over = self.over.take();
        let away = std::mem::take(&mut self.away);
        let gap_ns = now_ns.saturating_sub(self.last_ns);
        if gap_ns > GAP_NS && !away && !self.is_dense() && self.has_worked(now_ns, used()) {
            return [over, self.leave()];
        }
        self.last_ns = self.last_ns.max(now_ns);
        [over, None]
    }

    fn is_dense(&self) -> bool {
        let polls = u64::from(self.vain);
        self.vain >= DENSE_POLLS && self.last_ns - self.from_ns <= polls * DENSE_NS
    }

    /// Whether the thread has used its processor since the last poll.
    fn has_worked(&mut self, now_ns: u64, used_ns: u64) -> bool {
        let polls_ns = self.last_ns.saturating_sub(replace(&mut self.looked_ns, now_ns));
        let used_since_ns = used_ns.saturating_sub(replace(&mut self.used_ns, used_ns));
        used_since_ns > polls_ns + (now_ns - self.last_ns) / 2
    }

    /// The process goes to sleep for what may come.
    pub(super) fn sleep(&mut self, now_ns: u64, used: impl FnOnce() -> u64) {
        if !self.is_on {
            self.begin(now_ns, used());
        }
        self.away = true;
    }

    /// The process has given its processor away, and has it again.
    pub(super) fn turned(&mut self) {
        self.crowded = CROWDED;
        self.away = true;
    }

    /// A poll has found something; gives the wait before this one.
    #[inline]
    pub(super) fn found(
        &mut self,
        by: impl FnOnce() -> By,
        clock: impl FnOnce() -> u64,
    ) -> Option<Wait> {
        let over = self.over.take();
        if self.is_on {
            self.over = Some(Wait { from_ns: self.from_ns, until_ns: clock(), by: by() });
        }
        self.crowded = self.crowded.saturating_sub(1);
        self.stop();
        over
    }

    /// What was found last is nothing that the program waited for: if it waited, it still does.
    pub(super) fn go_on(&mut self) {
        if let Some(wait) = self.over.take() {
            (self.is_on, self.vain) = (true, DENSE_POLLS);
            (self.from_ns, self.last_ns) = (wait.from_ns, wait.until_ns);
        }
    }

    /// The program does something else; gives the waits that are over.
    #[inline]
    pub(super) fn work(&mut self) -> [Option<Wait>; 2] {
        if self.vain == 0 && self.over.is_none() {
            return [None, None];
        }
        [self.over.take(), self.leave()]
    }

    fn stop(&mut self) {
        (self.vain, self.is_on, self.away) = (0, false, false);
    }

    /// Ends the stretch at its last poll.
    fn leave(&mut self) -> Option<Wait> {
        let wait = Wait { from_ns: self.from_ns, until_ns: self.last_ns, by: By::Itself };
        let was_on = self.is_on;
        self.stop();
        was_on.then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::PeerId;

    use super::*;

    /// Polls in vain, each so long after the one before; gives what was over meanwhile.
    fn polls(waits: &mut Waits, now: &mut u64, times: u32, each_ns: u64) -> Vec<Wait> {
        let mut over = Vec::new();
        for _ in 0..times {
            *now += each_ns;
            let at = *now;
            over.extend(waits.in_vain(at, || at, || at).into_iter().flatten());
        }
        over
    }

    const BY: By = By::Message(PeerId(3));

    #[test]
    fn a_wait_lasts_from_polls_in_vain_to_the_one_that_finds() {
        let (mut waits, mut now) = (Waits::default(), 1_000_000);
        assert_eq!(polls(&mut waits, &mut now, 5, 20), []);
        assert_eq!(waits.found(|| BY, || now), None);
        assert_eq!(waits.work(), [None, None], "too short to be one");
        polls(&mut waits, &mut now, 100, 20);
        let from_ns = 1_000_000 + 5 * 20 + 16 * 20;
        assert_eq!(waits.found(|| BY, || now + 7), None);
        let wait = Wait { from_ns, until_ns: now + 7, by: BY };
        assert_eq!(waits.work(), [Some(wait), None]);
    }

    #[test]
    fn where_cores_are_not_free_few_polls_are_a_wait() {
        let (mut waits, mut now) = (Waits::default(), 1_000_000);
        waits.turned();
        polls(&mut waits, &mut now, 1, 20);
        let from_ns = now;
        waits.turned();
        polls(&mut waits, &mut now, 1, 3_000_000);
        waits.found(|| BY, || now + 5);
        let wait = Wait { from_ns, until_ns: now + 5, by: BY };
        assert_eq!(waits.work(), [Some(wait), None]);
    }

    #[test]
    fn what_nobody_waited_for_ends_no_wait() {
        let (mut waits, mut now) = (Waits::default(), 1_000_000);
        polls(&mut waits, &mut now, 100, 20);
        waits.found(|| By::Message(PeerId(1)), || now);
        waits.go_on();
        assert_eq!(polls(&mut waits, &mut now, 100, 20), []);
        waits.found(|| BY, || now);
        let [over, _] = waits.work();
        let over = over.unwrap();
        assert_eq!((over.from_ns, over.by), (1_000_000 + 16 * 20, BY));
    }

    #[test]
    fn other_work_between_polls_is_no_wait_but_sleep_and_a_lost_processor_are() {
        let (mut waits, mut now) = (Waits::default(), 1_000_000);
        // A program that computes, and asks now and then.
        let over = polls(&mut waits, &mut now, 1000, 1_000_000);
        assert!(over.iter().all(|wait| wait.from_ns == wait.until_ns), "{over:?}");
        waits.work();
        polls(&mut waits, &mut now, 200, 100);
        assert_eq!(polls(&mut waits, &mut now, 1, 10_000_000), [], "it polled densely");
        waits.work();
        polls(&mut waits, &mut now, 20, 100);
        waits.sleep(now, || now);
        assert_eq!(polls(&mut waits, &mut now, 1, 500_000_000), [], "it slept");
        assert_eq!(polls(&mut waits, &mut now, 1, 1_000_000).len(), 1, "it did something else");
    }

    #[test]
    fn a_processor_that_was_another_s_ends_no_wait() {
        let (mut waits, mut now) = (Waits::default(), 1_000_000);
        polls(&mut waits, &mut now, 20, 100);
        let used = now;
        for turn in 1..=10 {
            now += 3_000_000;
            assert_eq!(waits.in_vain(now, || now, || used + 200 * turn), [None, None]);
        }
        now += 3_000_000;
        let [_, over] = waits.in_vain(now, || now, || used + 2_000_000);
        assert_eq!(over.map(|wait| wait.until_ns), Some(now - 3_000_000), "it computed");
    }
}
