//! Whether a message goes at once, or waits for others that go to the same peer.
//!
//! A message that was sent is on its way when the call returns: programs compute between their
//! sends. The exception are bursts: whoever sends message after message to one peer without looking
//! for answers, each right after the one before, is in a hurry to send, not to be answered. Then
//! messages wait until a frame or a burst of frames is full, or for the next poll, or until a time
//! that the tender keeps; no later call is needed.
//!
//! To set a time costs a system call, and where a timer must be asked of a hypervisor as much as
//! ten messages do. So it is left out for who has polled in time after each of many bursts, as
//! programs do that wait for their sends: should one of these begin to compute instead, the tender
//! finds out when nobody has polled for some milliseconds, and trust has to be earned anew, by
//! twice as many bursts.

use weft_wire::{Envelope, PeerId};

/// So many messages in a row to one peer go at once.
const ROW_MAX: u32 = 2;

/// So many messages go at once without a poll between them, to whomever.
const ALONE_MAX: u32 = 8;

/// A message that goes later than this after the one before is none of a burst, ns.
const BURST_GAP_NS: u64 = 2_000;

/// So long a message is held, ns.
const HELD_NS: u64 = 20_000;

/// So many bursts in a row that were over in time earn trust, at first and at most.
const TRUST: (u32, u32) = (16, 1 << 16);

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

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goes {
    /// It goes now, and what waits goes with it.
    Now,
    /// It is held, and goes by this time, ns, if nothing else has it go before.
    By(u64),
    /// It is held, and a time is set already.
    Joins,
    /// It is held without a time: a poll is to come.
    Trusted,
}

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
    /// The time that was set last.
    by_ns: u64,
    /// Bursts in a row that were over in time, and how many earn trust.
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
            by_ns: 0,
            kept: 0,
            wanted: TRUST.0,
            gone: 0,
            waiting: 0,
        }
    }

    /// Whether the next message goes at once if it is for `peer`, whatever the time is.
    #[inline]
    pub(super) fn is_alone(&self, peer: PeerId) -> bool {
        self.messages < ALONE_MAX && (peer != self.to || self.row < ROW_MAX)
    }

    /// Whether a message at `now_ns` comes so long after the one before that it begins a new row.
    #[inline]
    pub(super) fn begins_anew(&mut self, now_ns: u64) -> bool {
        let anew = self.waiting == 0 && now_ns >= self.last_ns + BURST_GAP_NS;
        if anew {
            self.looked();
        }
        anew
    }

    /// A message of `len` bytes for `peer` is sent at `now_ns`.
    #[inline]
    pub(super) fn joins(&mut self, now_ns: u64, peer: PeerId, len: usize) -> Goes {
        let alone = self.is_alone(peer) || len > SHARES_MAX;
        let hurries = now_ns < self.last_ns + BURST_GAP_NS;
        self.last_ns = now_ns;
        self.count(peer);
        if self.waiting == 0 {
            self.since_ns = now_ns;
        }
        self.waiting += len + size_of::<Envelope>();
        let enough = (GROWTH * self.gone).clamp(FULL_FRAME, FULL_BURST);
        if alone || !hurries || self.waiting >= enough || now_ns >= self.since_ns + HELD_NS {
            return Goes::Now;
        }
        if now_ns < self.by_ns {
            return Goes::Joins;
        }
        if self.kept >= self.wanted {
            return Goes::Trusted;
        }
        self.by_ns = now_ns + HELD_NS;
        Goes::By(self.by_ns)
    }

    /// What was done about a message took until `now_ns`, which is no pause between two.
    #[inline]
    pub(super) fn done_by(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
    }

    /// A message of `len` bytes for `peer` has gone alone, at a time that may be an old one.
    #[inline]
    pub(super) fn went(&mut self, now_ns: u64, peer: PeerId, len: usize) {
        self.last_ns = now_ns;
        self.gone += len;
        self.count(peer);
    }

    #[inline]
    fn count(&mut self, peer: PeerId) {
        self.messages += 1;
        self.row = if peer == self.to { self.row + 1 } else { 1 };
        self.to = peer;
    }

    /// What waited is being sent at `now_ns`; whether anything did.
    #[inline]
    pub(super) fn goes(&mut self, now_ns: u64) -> bool {
        if self.waiting == 0 {
            return false;
        }
        self.gone += self.waiting;
        self.waiting = 0;
        if now_ns < self.since_ns + HELD_NS {
            self.kept = self.kept.saturating_add(1);
        } else {
            if self.kept >= self.wanted {
                self.wanted = (2 * self.wanted).min(TRUST.1);
            }
            self.kept = 0;
        }
        true
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
            if company.joins(now_ns, PeerId(to(n)), len) == Goes::Now {
                company.goes(now_ns);
                all.push(n);
            }
        }
        all
    }

    #[test]
    fn a_row_to_one_peer_goes_in_ever_longer_bursts() {
        let mut company = Company::new();
        assert_eq!(sent(&mut company, (32, HALF, 200), |_| 1), [1, 2, 26]);
        company.looked();
        company.goes(0);
        assert_eq!(sent(&mut company, (3, HALF, 200), |_| 1), [1, 2]);
    }

    #[test]
    fn what_shares_no_frame_waits_for_nothing() {
        let mut company = Company::new();
        let all: Vec<u32> = (1..=32).collect();
        assert_eq!(sent(&mut company, (32, SHARES_MAX + 1, 200), |_| 1), all);
    }

    #[test]
    fn what_goes_now_and_then_goes_at_once() {
        let mut company = Company::new();
        let all: Vec<u32> = (1..=100).collect();
        assert_eq!(sent(&mut company, (100, 8, BURST_GAP_NS), |_| 1), all);
    }

    #[test]
    fn nothing_is_held_for_longer_than_its_time() {
        let mut company = Company::new();
        let gap_ns = BURST_GAP_NS - 1;
        let went = sent(&mut company, (100, 8, gap_ns), |_| 1);
        let most = HELD_NS.div_ceil(gap_ns) + 1;
        assert!(went.windows(2).all(|w| u64::from(w[1] - w[0]) <= most), "{went:?}");
        assert!(went.len() < 20, "they share frames: {went:?}");
    }

    #[test]
    fn a_time_is_set_for_the_first_that_is_held_unless_one_is_to_come() {
        use Goes::{By, Joins, Now};
        let mut company = Company::new();
        for (at, wanted) in
            [(1, By(1 + HELD_NS)), (HELD_NS, Joins), (1 + HELD_NS, By(1 + 2 * HELD_NS))]
        {
            company.looked();
            company.done_by(at);
            assert_eq!([1, 2].map(|_| company.joins(at, PeerId(1), 8)), [Now, Now]);
            assert!(company.goes(at) && !company.goes(at));
            assert_eq!([3, 4].map(|_| company.joins(at, PeerId(1), 8)), [wanted, Joins]);
            assert!(company.goes(at));
        }
    }

    #[test]
    fn who_polls_in_time_after_each_burst_is_trusted_until_it_does_not() {
        use Goes::{By, Trusted};
        let mut company = Company::new();
        let mut at = 0;
        let mut burst = |took_ns: u64| {
            at += 2 * HELD_NS;
            company.looked();
            company.done_by(at);
            let goes = [1, 2, 3].map(|_| {
                let goes = company.joins(at, PeerId(1), 8);
                if goes == Goes::Now {
                    company.goes(at);
                }
                goes
            });
            company.goes(at + took_ns);
            goes[2]
        };
        for bursts in [TRUST.0, 2 * TRUST.0, 4 * TRUST.0] {
            // Two that go at once come before each that is held, and count as well.
            let timed = (0..bursts).take_while(|_| matches!(burst(HELD_NS - 1), By(_))).count();
            assert!((1..bursts as usize).contains(&timed), "{timed} of {bursts}");
            assert_eq!(burst(HELD_NS), Trusted, "it is trusted still, and is late");
            assert!(matches!(burst(HELD_NS), By(_)), "no more");
        }
    }

    #[test]
    fn one_message_to_each_of_a_few_neighbours_waits_for_nothing() {
        let mut company = Company::new();
        assert_eq!(sent(&mut company, (6, 8, 200), |n| n), [1, 2, 3, 4, 5, 6]);
        let more = sent(&mut company, (20, 8, 200), |n| n);
        assert!(!more.contains(&9), "that is no longer a few");
    }

    #[test]
    fn who_answers_every_frame_is_in_no_hurry() {
        let mut company = Company::new();
        for _ in 0..100 {
            assert!(company.is_alone(PeerId(1)));
            company.went(1, PeerId(1), 8);
            company.answers();
        }
        // Many answers to one frame do well together.
        (0..3).for_each(|_| _ = company.joins(1, PeerId(1), 8));
        company.answers();
        assert!(!company.is_alone(PeerId(1)));
        company.looked();
        assert!(company.is_alone(PeerId(1)));
    }
}
