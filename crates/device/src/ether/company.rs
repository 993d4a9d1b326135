//! Whether a message goes at once, or waits for others that go to the same peer.
//!
//! A message that was sent is on its way when the call returns: programs compute between their
//! sends. The exception are bursts of who is trusted: whoever sends message after message to one
//! peer without looking for answers, each right after the one before, and has polled in time after
//! each of many such bursts, is in a hurry to send, not to be answered. Of these, messages wait
//! until a frame or a burst of frames is full, for the next poll, or for 20 us if more are sent; no
//! later call is needed, for the tender finds out when nobody has polled for some milliseconds.
//! Then trust has to be earned anew, by twice as many bursts unless it had lasted.
//!
//! (A timer would keep the 20 us without any trust. To set one costs as much as some messages do,
//! and where it must be asked of a hypervisor as ten: then it is better to send each at once.)

use std::mem::take;

use weft_wire::{Envelope, PeerId};

/// So many messages in a row to one peer go at once.
const ROW_MAX: u32 = 2;

/// So many messages go at once without a poll between them, to whomever.
const ALONE_MAX: u32 = 8;

/// A message that goes later than this after the one before is none of a burst, ns.
const BURST_GAP_NS: u64 = 2_000;

/// So long a message is held at most while others are sent, and so soon after the last one of a
/// burst a poll is in time, ns.
const HELD_NS: u64 = 20_000;

/// So many bursts in a row after each of which a poll was in time earn trust, at first and at most.
const TRUST: (u32, u32) = (16, 1 << 16);

/// Trust that has lasted for so many times as many bursts as it took is half as dear the next time:
/// even who always polls in time loses its core now and then.
const LASTING: u32 = 64;

/// Bytes of waiting messages that are worth a frame of their own: a frame's of the usual MTU.
const FULL_FRAME: usize = 1400;

/// The longest message that waits: of longer ones no two share a frame, and frames that go as they
/// come keep the receiver at work. (Windows of 32 messages of 1 KiB, by MPICH and Open MPI: 90 to
/// 125 MB/s held, seldom 300; 290 to 310 not held. With 512 B those that wait are faster by a
/// quarter.)
const SHARES_MAX: usize = FULL_FRAME / 2;

/// Bytes of waiting messages that are worth a burst of their own, for who sends many.
const FULL_BURST: usize = 56 * 1024;

/// A burst may be so many times as long as all before it: the receiver has something to do early,
/// and few bursts come to much. (Measured with windows of 32 messages of 512 B to 2 KiB, of Open
/// MPI and natively: 12 gives 2 to 7 % more than 8, which gives 8 % more than 5 and as much as 14
/// and 24. With 4 KiB all are alike.)
const GROWTH: usize = 12;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Company {
    /// Messages since the last poll that found nothing.
    messages: u32,
    /// To whom the last ones of these went, and how many.
    to: PeerId,
    row: u32,
    /// When the last message was sent whose time was looked at, and since when the first one waits,
    /// ns.
    last_ns: u64,
    since_ns: u64,
    /// Whether there was one in a row since the last poll, which waits if it is trusted.
    hurried: bool,
    /// Bursts in a row after which a poll was in time, and how many earn trust.
    kept: u32,
    wanted: u32,
    /// Bytes of them that have gone, and that wait.
    gone: usize,
    waiting: usize,
}

impl Company {
    pub(super) fn new() -> Company {
        let to = PeerId(u32::MAX);
        Company {
            messages: 0,
            to,
            row: 0,
            last_ns: 0,
            since_ns: 0,
            hurried: false,
            kept: 0,
            wanted: TRUST.0,
            gone: 0,
            waiting: 0,
        }
    }

    /// Whether the next message goes at once if it is for `peer`, whatever the time is.
    #[inline]
    pub(super) fn is_alone(&self, peer: PeerId, len: usize) -> bool {
        self.is_early(peer) || len > SHARES_MAX || !self.is_trusted()
    }

    fn is_early(&self, peer: PeerId) -> bool {
        self.messages < ALONE_MAX && (peer != self.to || self.row < ROW_MAX)
    }

    /// Whether messages may wait: polls alone make it so.
    #[inline]
    pub(super) fn is_trusted(&self) -> bool {
        self.kept >= self.wanted
    }

    /// Whether a message at `now_ns` comes so long after the one before that it begins a new row.
    #[inline]
    pub(super) fn begins_anew(&mut self, now_ns: u64) -> bool {
        let anew = !self.is_waiting() && now_ns >= self.last_ns + BURST_GAP_NS;
        if anew {
            self.looked();
        }
        anew
    }

    /// A message of `len` bytes for `peer` is sent at `now_ns`; whether it waits.
    #[inline]
    pub(super) fn waits(&mut self, now_ns: u64, peer: PeerId, len: usize) -> bool {
        let alone = self.is_alone(peer, len);
        let hurries = now_ns < self.last_ns + BURST_GAP_NS;
        self.count(now_ns, peer);
        if !self.is_waiting() {
            self.since_ns = now_ns;
        }
        self.waiting += len + size_of::<Envelope>();
        let enough = (GROWTH * self.gone).clamp(FULL_FRAME, FULL_BURST);
        !alone && hurries && self.waiting < enough && now_ns < self.since_ns + HELD_NS
    }

    /// To send a message took until `now_ns`, which is no pause between two.
    #[inline]
    pub(super) fn done_by(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
    }

    /// Whether it counts when the next poll is.
    #[inline]
    pub(super) fn hurried(&self) -> bool {
        self.hurried
    }

    /// Whether a message waits.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// A poll is made, at `now_ns` exactly.
    pub(super) fn polled(&mut self, now_ns: u64) {
        if !take(&mut self.hurried) {
            return;
        }
        if now_ns < self.last_ns + HELD_NS {
            self.kept = self.kept.saturating_add(1);
            return;
        }
        if self.is_trusted() {
            let lasted = self.kept / LASTING >= self.wanted;
            self.wanted = if lasted { self.wanted / 2 } else { 2 * self.wanted };
            self.wanted = self.wanted.clamp(TRUST.0, TRUST.1);
        }
        self.kept = 0;
    }

    /// A message of `len` bytes for `peer` has gone alone, by `now_ns`.
    #[inline]
    pub(super) fn went(&mut self, now_ns: u64, peer: PeerId, len: usize) {
        self.gone += len;
        self.count(now_ns, peer);
    }

    #[inline]
    fn count(&mut self, now_ns: u64, peer: PeerId) {
        if self.hurried && now_ns >= self.last_ns + HELD_NS {
            self.polled(now_ns);
        }
        self.hurried |= !self.is_early(peer);
        self.last_ns = now_ns;
        self.messages += 1;
        self.row = if peer == self.to { self.row + 1 } else { 1 };
        self.to = peer;
    }

    /// What waited is being sent.
    #[inline]
    pub(super) fn goes(&mut self) {
        self.gone += take(&mut self.waiting);
    }

    /// A new frame has come. Who answers each as it comes, and only that, is in no hurry.
    #[inline]
    pub(super) fn answers(&mut self) {
        if self.messages <= ALONE_MAX && self.row <= ROW_MAX {
            self.looked();
        }
    }

    /// A poll has found nothing.
    #[inline]
    pub(super) fn looked(&mut self) {
        self.messages = 0;
        self.row = 0;
        self.gone = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: usize = 512;

    fn trusted() -> Company {
        Company { kept: TRUST.0, ..Company::new() }
    }

    /// Which of `count` messages to peers by `to`, each `gap_ns` after the one before, go at once.
    fn sent(
        company: &mut Company,
        (count, len, gap_ns): (u32, usize, u64),
        to: impl Fn(u32) -> u32,
    ) -> Vec<u32> {
        let mut all = Vec::new();
        for n in 1..=count {
            let now_ns = company.last_ns + gap_ns;
            company.begins_anew(now_ns);
            if !company.waits(now_ns, PeerId(to(n)), len) {
                company.goes();
                all.push(n);
            }
        }
        all
    }

    #[test]
    fn a_row_to_one_peer_goes_in_ever_longer_bursts() {
        let mut company = trusted();
        assert_eq!(sent(&mut company, (32, HALF, 200), |_| 1), [1, 2, 26]);
        company.looked();
        company.goes();
        assert_eq!(sent(&mut company, (3, HALF, 200), |_| 1), [1, 2]);
    }

    #[test]
    fn what_shares_no_frame_waits_for_nothing_nor_what_is_not_trusted() {
        let all: Vec<u32> = (1..=32).collect();
        assert_eq!(sent(&mut trusted(), (32, SHARES_MAX + 1, 200), |_| 1), all);
        assert_eq!(sent(&mut Company::new(), (32, 8, 200), |_| 1), all);
    }

    #[test]
    fn what_goes_now_and_then_goes_at_once() {
        let mut company = trusted();
        let all: Vec<u32> = (1..=100).collect();
        assert_eq!(sent(&mut company, (100, 8, BURST_GAP_NS), |_| 1), all);
    }

    #[test]
    fn nothing_is_held_for_longer_than_its_time() {
        let mut company = trusted();
        let gap_ns = BURST_GAP_NS - 1;
        let went = sent(&mut company, (100, 8, gap_ns), |_| 1);
        let most = HELD_NS.div_ceil(gap_ns) + 1;
        assert!(went.windows(2).all(|w| u64::from(w[1] - w[0]) <= most), "{went:?}");
        assert!(went.len() < 20, "they share frames: {went:?}");
    }

    /// A burst that is polled after `took_ns`; whether its third message waits.
    fn burst(company: &mut Company, took_ns: u64) -> bool {
        let at = company.last_ns + BURST_GAP_NS;
        company.begins_anew(at);
        let waits = [1, 2, 3].map(|_| {
            let waits = company.waits(at, PeerId(1), 8);
            if !waits {
                company.goes();
            }
            waits
        });
        company.polled(at + took_ns);
        company.looked();
        company.goes();
        waits[2]
    }

    #[test]
    fn who_polls_in_time_after_each_burst_is_trusted_until_it_does_not() {
        let mut company = Company::new();
        for bursts in [TRUST.0, 2 * TRUST.0, 4 * TRUST.0] {
            assert!((0..bursts).all(|_| !burst(&mut company, HELD_NS - 1)), "of {bursts}");
            assert!(burst(&mut company, HELD_NS), "it is trusted still, and is late");
            assert!(!burst(&mut company, HELD_NS), "no more");
        }
    }

    #[test]
    fn trust_that_lasted_is_easier_to_earn_again() {
        let mut company = Company { kept: 256, wanted: 256, ..Company::new() };
        let dear = |company: &mut Company, bursts| {
            (0..bursts).for_each(|_| _ = burst(company, 0));
            burst(company, HELD_NS);
            company.wanted
        };
        assert_eq!(dear(&mut company, 1000), 512, "it was late soon");
        assert_eq!(dear(&mut company, 511), 512, "it was not trusted");
        assert_eq!(dear(&mut company, 512 * LASTING), 256);
        assert_eq!(dear(&mut company, 256 * LASTING), 128);
    }

    #[test]
    fn who_sends_again_before_it_polls_was_late() {
        let mut company = Company::new();
        for n in 1..200 {
            let at = n * 10 * HELD_NS;
            assert!([1, 2, 3].iter().all(|_| !company.waits(at, PeerId(1), 8)));
            company.goes();
            // Some polls are in time, but not after each.
            if n % 2 == 0 {
                company.polled(at + 1);
            }
        }
    }

    #[test]
    fn one_message_to_each_of_a_few_neighbours_waits_for_nothing() {
        let mut company = trusted();
        assert_eq!(sent(&mut company, (6, 8, 200), |n| n), [1, 2, 3, 4, 5, 6]);
        let more = sent(&mut company, (20, 8, 200), |n| n);
        assert!(!more.contains(&9), "that is no longer a few");
    }

    #[test]
    fn who_answers_every_frame_is_in_no_hurry() {
        let mut company = trusted();
        for _ in 0..100 {
            assert!(company.is_alone(PeerId(1), 8));
            company.went(1, PeerId(1), 8);
            company.answers();
        }
        // Many answers to one frame do well together.
        (0..3).for_each(|_| _ = company.waits(1, PeerId(1), 8));
        company.answers();
        assert!(!company.is_alone(PeerId(1), 8));
        company.looked();
        assert!(company.is_alone(PeerId(1), 8));
    }
}
