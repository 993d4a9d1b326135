//! Paths whose frames take many on the wire rest after a loss.
//!
//! Where one piece of such a frame is lost, all of it is; on a wire that loses one frame in a
//! hundred, every other long one. Where something gets lost, the paths with short frames do better:
//! they carry the bulk for a while, and longer each time that the try after it fails.

use crate::config::Config;
use crate::time::Instant;

/// The rest of one path.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// When it ends; zero: the path does not rest.
    until: Instant,
    /// How long it was the last time, ns, and when it ended.
    last_ns: u64,
    ended: Instant,
}

/// A path that has gone so many times its last rest without a loss starts anew with short ones.
const FORGIVEN: u64 = 8;

impl Rest {
    /// Whether the path rests.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.until != Instant(0)
    }

    /// When it ends, if the path rests.
    pub fn deadline(&self) -> Option<Instant> {
        self.is_on().then_some(self.until)
    }

    /// A long frame was lost; whether the path rests from now on.
    pub fn on_loss(&mut self, now: Instant, config: &Config) -> bool {
        if self.is_on() {
            return false;
        }
        let (least, most) = config.rest_ns;
        let soon = now.since(self.ended) < self.last_ns.saturating_mul(FORGIVEN);
        self.last_ns = if soon { (self.last_ns * 2).min(most) } else { least };
        self.until = now.plus(self.last_ns);
        true
    }

    /// What had seemed lost has arrived after all: the path need not rest.
    pub fn on_false_alarm(&mut self, now: Instant) -> bool {
        self.last_ns /= 2;
        self.ended = now;
        std::mem::take(&mut self.until) != Instant(0)
    }

    /// Ends the rest if it is time.
    pub fn is_over(&mut self, now: Instant) -> bool {
        let over = self.deadline().is_some_and(|until| until <= now);
        if over {
            self.until = Instant(0);
            self.ended = now;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_while_losses_recur_and_are_short_again_later() {
        let config = Config { rest_ns: (10, 50), ..Config::default() };
        let mut rest = Rest::default();
        let mut now = Instant(1000);
        for expected in [10, 20, 40, 50, 50] {
            assert!(rest.on_loss(now, &config) && !rest.on_loss(now, &config));
            assert!(rest.is_on() && !rest.is_over(now));
            assert_eq!(rest.deadline(), Some(now.plus(expected)));
            now = now.plus(expected);
            assert!(rest.is_over(now) && !rest.is_on());
            now = now.plus(1);
        }
        now = now.plus(50 * FORGIVEN);
        rest.on_loss(now, &config);
        assert_eq!(rest.deadline(), Some(now.plus(10)));
        assert!(rest.on_false_alarm(now) && !rest.is_on());
    }
}
