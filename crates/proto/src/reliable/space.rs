//! Packet numbers that came from a peer by one of its links, and when to acknowledge them.

use std::ops::Range;

use weft_wire::flags;

use crate::config::Config;
use crate::ranges::RangeSet;
use crate::time::Instant;

/// Ranges that are remembered. A packet older than all of them is taken for a duplicate; its
/// content has long been sent again in another.
const RANGES_KEPT: usize = 32;

/// How soon a packet is to be acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Haste {
    /// When it suits.
    Usual,
    /// Within microseconds: its sender's owner waits for it.
    Soon,
    /// At once: its sender can send no more before it.
    Now,
}

impl Haste {
    /// What a header says of it.
    #[inline]
    pub fn flags(self) -> u8 {
        match self {
            Haste::Usual => 0,
            Haste::Soon => flags::ACK_SOON,
            Haste::Now => flags::ACK_NOW,
        }
    }

    /// The haste of a packet whose header has these flags.
    #[inline]
    pub fn from_flags(bits: u8) -> Haste {
        match bits & (flags::ACK_NOW | flags::ACK_SOON) {
            0 => Haste::Usual,
            flags::ACK_SOON => Haste::Soon,
            _ => Haste::Now,
        }
    }
}

/// The receiving side of one path.
#[derive(Debug, Default)]
pub(crate) struct Space {
    received: RangeSet,
    /// Numbers below this are taken as received.
    floor: u64,
    /// When the highest number came; 0 where that is not known.
    highest_at: Instant,
    /// Packets that want an acknowledgement and have not had one.
    pending: u32,
    /// An acknowledgement shall go out at once.
    due: bool,
    /// When it shall go out at the latest.
    pub ack_at: Option<Instant>,
}

impl Space {
    /// Most memory behind the ranges, bytes: a vector that has grown to hold them all.
    #[cfg(test)]
    pub const RANGES_BYTES: usize = 2 * RANGES_KEPT * size_of::<(u64, u64)>();

    /// The whole packet number whose low bits are `low`: the nearest to what is expected next.
    #[inline]
    pub fn expand(&self, low: u32) -> u64 {
        expand(low, self.received.highest().map_or(0, |n| n + 1))
    }

    /// Whether the packet came before (or is too old to tell).
    #[inline]
    pub fn is_duplicate(&self, number: u64) -> bool {
        match self.received.highest() {
            Some(highest) if number <= highest => {
                number < self.floor || self.received.contains(number..number + 1)
            }
            _ => number < self.floor,
        }
    }

    /// Whether the packet is the next in order.
    #[inline]
    pub fn is_next(&self, number: u64) -> bool {
        number >= self.floor && number == self.received.highest().map_or(0, |n| n + 1)
    }

    /// Notes that packets came and were used. `wants`: they ask for an acknowledgement, so soon,
    /// and usually within `usual_ns`. Returns whether an acknowledgement is due now.
    #[inline]
    pub fn note(
        &mut self,
        numbers: Range<u64>,
        now: Instant,
        wants: bool,
        (haste, usual_ns): (Haste, u64),
        config: &Config,
    ) -> bool {
        let expected = self.received.highest().map_or(0, |n| n + 1);
        let (first, count) = (numbers.start, (numbers.end - numbers.start) as u32);
        self.received.insert(numbers);
        if self.received.count() > RANGES_KEPT
            && let Some(floor) = self.received.keep_highest(RANGES_KEPT)
        {
            self.floor = floor;
        }
        if first >= expected {
            self.highest_at = now;
        }
        if !wants {
            return self.due;
        }
        self.pending += count;
        // A packet out of order tells the sender of a loss, or that there was none: at once.
        if haste == Haste::Now || first != expected || self.pending >= config.ack_every {
            self.due = true;
            self.ack_at = None;
        } else if !self.due {
            let soon = haste == Haste::Soon;
            let at = now.plus(if soon { config.ack_soon_ns } else { usual_ns });
            self.ack_at = Some(self.ack_at.map_or(at, |before| before.min(at)));
        }
        self.due
    }

    /// The packets that were noted last may have come long before they were looked at.
    #[inline]
    pub fn came_unseen(&mut self) {
        self.highest_at = Instant(0);
    }

    /// Makes an acknowledgement due whose time has come.
    pub fn check(&mut self, now: Instant) {
        if self.ack_at.is_some_and(|at| at <= now) {
            self.ack_at = None;
            self.due = true;
        }
    }

    /// An acknowledgement was not sent after all: it is due again.
    pub fn again(&mut self) {
        self.due |= self.has_any();
    }

    /// Whether anything has come.
    pub fn has_any(&self) -> bool {
        self.received.highest().is_some()
    }

    /// Whether an acknowledgement shall go out even if nothing else does.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Whether an acknowledgement is of use to a frame that goes out anyway.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.pending > 0 || self.due
    }

    /// What an acknowledgement sent now says: delay, where the time is known, and inclusive ranges,
    /// newest first. It settles what was pending.
    pub fn acknowledge(
        &mut self,
        now: Option<Instant>,
    ) -> (Option<u32>, impl Iterator<Item = (u64, u64)> + '_) {
        self.settle();
        let known = now.filter(|_| self.highest_at != Instant(0));
        let since = |now: Instant| now.since(self.highest_at).min(u64::from(u32::MAX)) as u32;
        (known.map(since), self.received.iter().rev().map(|r| (r.start, r.end - 1)))
    }

    fn settle(&mut self) {
        self.pending = 0;
        self.due = false;
        self.ack_at = None;
    }
}

/// The number nearest to `expected` whose low 32 bits are `low`.
#[inline]
pub(crate) fn expand(low: u32, expected: u64) -> u64 {
    let distance = low.wrapping_sub(expected as u32) as i32;
    let number = expected.wrapping_add(distance as i64 as u64);
    // Before the first 2^31 numbers, what seems to lie below zero lies ahead.
    if distance < 0 && number > expected { u64::from(low) } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_are_completed_from_what_is_expected() {
        assert_eq!(expand(0, 0), 0);
        assert_eq!(expand(5, 7), 5);
        assert_eq!(expand(u32::MAX, 3), u64::from(u32::MAX));
        assert_eq!(expand(2, (1 << 32) - 2), (1 << 32) + 2);
        assert_eq!(expand(u32::MAX - 1, (5 << 32) + 3), (5 << 32) - 2);
    }

    #[test]
    fn acknowledges_by_count_by_time_and_at_once_on_a_gap() {
        let config = Config { ack_every: 3, ..Config::default() };
        let mut s = Space::default();
        assert!(!s.note(0..1, Instant(10), true, (Haste::Usual, 50), &config));
        assert_eq!(s.ack_at, Some(Instant(60)));
        assert!(!s.note(1..2, Instant(11), true, (Haste::Usual, 50), &config));
        assert!(s.note(2..3, Instant(12), true, (Haste::Usual, 50), &config));
        let (delay, ranges) = s.acknowledge(Some(Instant(15)));
        assert_eq!((delay, ranges.collect::<Vec<_>>()), (Some(3), vec![(0, 2)]));
        assert!(!s.is_pending());
        assert!(
            s.note(5..6, Instant(20), true, (Haste::Usual, 50), &config),
            "a gap is told at once"
        );
        assert!(s.is_duplicate(5) && !s.is_duplicate(4) && !s.is_duplicate(6));
    }

    #[test]
    fn who_is_waited_for_is_acknowledged_sooner_and_nobody_later() {
        let config = Config { ack_soon_ns: 5, ..Config::default() };
        let mut s = Space::default();
        assert!(!s.note(0..1, Instant(10), true, (Haste::Usual, 50), &config));
        assert!(!s.note(1..2, Instant(11), true, (Haste::Soon, 50), &config));
        assert_eq!(s.ack_at, Some(Instant(16)));
        assert!(!s.note(2..3, Instant(12), true, (Haste::Soon, 50), &config));
        assert!(!s.note(3..4, Instant(13), true, (Haste::Usual, 50), &config));
        assert_eq!(s.ack_at, Some(Instant(16)), "the first that is due");
        assert!(s.note(4..5, Instant(14), true, (Haste::Now, 50), &config));
        for haste in [Haste::Usual, Haste::Soon, Haste::Now] {
            assert_eq!(Haste::from_flags(haste.flags() | flags::CRC), haste);
        }
    }

    #[test]
    fn memory_is_bounded_and_what_is_too_old_counts_as_seen() {
        let config = Config::default();
        let mut s = Space::default();
        for n in 0..1000 {
            s.note(n * 2..n * 2 + 1, Instant(n), false, (Haste::Usual, 50), &config);
        }
        assert!(s.received.count() <= RANGES_KEPT);
        assert!(s.is_duplicate(1) && !s.is_duplicate(1997));
    }
}
