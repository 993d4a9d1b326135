//! Cables that are too slow for bulk are tried now and then.
//!
//! A card may say a tenth of what its cable carries, and a cable that was slow may be mended: what
//! carries nothing is not measured, and would be left for good. So a little of what is large goes
//! over it, at growing intervals: enough for its congestion control to learn a rate.

use crate::time::Instant;

/// Bytes of a trial: a few windows of a path that has just begun.
const BYTES: u64 = 128 << 10;
/// Less is not worth it: the trial would hold up the end of what is sent.
const FROM: u64 = 4 * BYTES;
/// Time before the first trial, ns, and between two at most. Each is twice the one before.
const FIRST_NS: u64 = 1_000_000_000;
const LAST_NS: u64 = 60_000_000_000;

/// The trials of one path.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// When the next one begins, and how long is waited after it, ns; zero: none is planned.
    next: Instant,
    pause_ns: u64,
    /// Bytes that are left of this one.
    left: u64,
}

impl Trial {
    /// Whether a part of `waiting` bytes is to go over a path that is too slow.
    pub fn is_due(&mut self, now: Instant, waiting: u64) -> bool {
        if self.pause_ns == 0 {
            (self.pause_ns, self.next) = (FIRST_NS, now.plus(FIRST_NS));
        }
        if self.left == 0 && waiting >= FROM && self.next <= now {
            self.pause_ns = (2 * self.pause_ns).min(LAST_NS);
            self.next = now.plus(self.pause_ns);
            self.left = BYTES;
        }
        self.left > 0
    }

    /// So many bytes have gone out.
    pub fn spend(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_short_and_become_rarer() {
        let mut trial = Trial::default();
        let (mut now, mut begun) = (Instant(5), Vec::new());
        for _ in 0..3_000 {
            assert!(!trial.is_due(now, FROM - 1), "too little to be held up by a trial");
            if trial.is_due(now, FROM) {
                begun.push(now.0 / 1_000_000_000);
                trial.spend(BYTES / 2);
                assert!(trial.is_due(now, 1), "one that has begun goes on");
                trial.spend(BYTES);
            }
            now = now.plus(100_000_000);
        }
        assert_eq!(begun, [1, 3, 7, 15, 31, 63, 123, 183, 243]);
    }
}
