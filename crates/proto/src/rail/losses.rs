//! Cables that lose frames: a plug that is not quite in, a wire that was bent too far, a radio.
//!
//! Retransmission hides a loss, but what is lost arrives late, and so does what stands behind it.
//! So a cable that loses more than one frame in fifty is left to what has no other, for a while,
//! and for longer each time that the try after it fails.

use crate::time::Instant;

/// More than one frame in so many is lost: 2 %.
pub const SHARE: u32 = 50;
/// Lost frames below which nothing is concluded.
const LEAST: u16 = 8;

/// Whether so many lost frames of so many are too many.
pub fn is_too_much(lost: u32, all: u32) -> bool {
    lost >= u32::from(LEAST) && lost.saturating_mul(SHARE) > all
}
/// The frames of about so many last ones count.
const LATELY: u32 = 1024;
/// How long the cable is left at first, and at most, ns.
const LEFT_NS: (u64, u64) = (1_000_000_000, 32_000_000_000);
/// A path that has gone so many times that time without too many losses starts anew.
const FORGIVEN: u64 = 4;

/// What one path has lost lately.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    arrived: u16,
    lost: u16,
    /// How long it was left the last time, ms; zero: never yet.
    last_ms: u32,
    /// When that ends, or has ended.
    until: Instant,
    /// Whether it is left.
    is_left: bool,
}

impl Losses {
    /// So many frames more have arrived and are lost; `spurious` had been held to be lost, and were
    /// not. Whether these are too many.
    pub fn count(&mut self, arrived: u64, lost: u64, spurious: u64) -> bool {
        let add = |to: u16, more: u64| u64::from(to).saturating_add(more).min(0x7fff) as u16;
        self.arrived = add(self.arrived, arrived);
        self.lost = add(self.lost, lost).saturating_sub(spurious.min(0x7fff) as u16);
        let all = u32::from(self.arrived) + u32::from(self.lost);
        let many = is_too_much(u32::from(self.lost), all);
        if all > LATELY {
            (self.arrived, self.lost) = (self.arrived / 2, self.lost / 2);
        }
        many
    }

    /// The cable is left from now on; whether that is the first time.
    pub fn leave(&mut self, now: Instant) -> bool {
        let last_ns = u64::from(self.last_ms) * 1_000_000;
        let soon = now.since(self.until) < last_ns * FORGIVEN;
        let next = if soon { (2 * last_ns).min(LEFT_NS.1) } else { LEFT_NS.0 };
        (self.arrived, self.lost, self.is_left) = (0, 0, true);
        self.until = now.plus(next);
        std::mem::replace(&mut self.last_ms, (next / 1_000_000) as u32) == 0
    }

    /// When it is tried again, if it is left.
    pub fn deadline(&self) -> Option<Instant> {
        self.is_left.then_some(self.until)
    }

    /// Takes the cable again if it is time; whether it is.
    pub fn is_over(&mut self, now: Instant) -> bool {
        let over = self.is_left && self.until <= now;
        self.is_left &= !over;
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether losing one frame in `each` is too much, within 4000 frames.
    fn loses_too_much(each: u64) -> bool {
        let mut losses = Losses::default();
        (1..4_000).any(|frame: u64| losses.count(1, u64::from(frame.is_multiple_of(each)), 0))
    }

    #[test]
    fn one_in_fifty_is_too_much() {
        assert!(loses_too_much(40) && loses_too_much(10));
        assert!(!loses_too_much(100) && !loses_too_much(60));
        let mut losses = Losses::default();
        assert!(!losses.count(0, u64::from(LEAST) - 1, 0), "a few say nothing");
        assert!(!losses.count(0, 100, 100), "nor does what was only late");
    }

    #[test]
    fn it_is_left_for_longer_each_time_that_it_fails() {
        let (mut losses, mut now) = (Losses::default(), Instant(5));
        for (at, seconds) in [1, 2, 4, 8, 16, 32, 32].into_iter().enumerate() {
            assert_eq!(losses.leave(now), at == 0);
            assert!(!losses.is_over(now));
            now = now.plus(seconds * 1_000_000_000);
            assert_eq!(losses.deadline(), Some(now));
            assert!(losses.is_over(now) && losses.deadline().is_none());
        }
        now = now.plus(FORGIVEN * LEFT_NS.1);
        assert!(!losses.leave(now));
        assert_eq!(losses.deadline(), Some(now.plus(LEFT_NS.0)));
    }
}
