//! Finds out whether full-size frames really pass. Two ends may agree on an MTU that a switch
//! between them does not carry; then small frames pass and large ones vanish, and the user sees a
//! program that hangs. So a path starts at a size that passes everywhere, and a padded frame tries
//! the full size out.
//!
//! A peer that waits for its processor answers nothing at all for a while. So a size is given up on
//! proof only: a smaller frame that was sent later has been acknowledged, in good time, and this
//! has happened several times. A try that proves nothing is made again, and so, now and then, is
//! one that failed.

use crate::config::Config;
use crate::time::Instant;

/// Frame sizes tried when larger ones do not pass: usual MTUs, less IPv6 and UDP headers.
const LADDER: [usize; 5] = [8952, 4048, 1472, 1452, 1352];

/// The pauses double so often at most.
const VAIN_MAX: u8 = 16;

/// The search on one path.
#[derive(Debug)]
pub(crate) struct MtuSearch {
    /// What both ends allow.
    goal: u32,
    /// The size being tried.
    size: u32,
    /// How often it was tried and is proved not to have passed.
    tries: u8,
    /// Tries in a row that proved nothing.
    vain: u8,
    /// Whether the goal was found not to pass.
    reduced: bool,
    /// Whether it has begun anew because frames are cut in another way.
    pub recut: bool,
    /// A frame of that size shall go out.
    pub due: bool,
    /// When to go on after a pause.
    pub again_at: Option<Instant>,
}

/// How a try ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The search goes on.
    Trying,
    /// Full-size frames do not pass. Told once, until they do.
    Reduced,
}

impl MtuSearch {
    /// A search for `goal` bytes, from a path that carries `base`.
    pub fn new(goal: usize, base: usize) -> MtuSearch {
        MtuSearch {
            goal: goal as u32,
            size: goal as u32,
            tries: 0,
            vain: 0,
            reduced: false,
            recut: false,
            due: goal > base,
            again_at: None,
        }
    }

    /// What both ends allow.
    pub fn goal(&self) -> usize {
        self.goal as usize
    }

    /// The size to try now.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// Begins anew, on a path of which both ends allow `goal` now.
    pub fn begin(&mut self, goal: usize, base: usize) {
        self.goal = goal as u32;
        self.restart(base);
    }

    /// Begins anew, on a path that carries `base`.
    pub fn restart(&mut self, base: usize) {
        *self = MtuSearch {
            reduced: self.reduced,
            recut: self.recut,
            ..MtuSearch::new(self.goal(), base)
        };
    }

    /// Begins anew as if nothing had been found out, for frames are cut in another way now.
    pub fn forget(&mut self, base: usize) {
        *self = MtuSearch { recut: true, ..MtuSearch::new(self.goal(), base) };
    }

    /// Goes on, if it is time, on a path that carries `current`; whether it does.
    pub fn goes_on(&mut self, now: Instant, current: usize) -> bool {
        if self.again_at.is_none_or(|at| at > now) {
            return false;
        }
        self.again_at = None;
        self.due = self.size() > current;
        self.due
    }

    /// Goes on at `at`, and not before.
    pub fn wait_until(&mut self, at: Instant) {
        self.due = false;
        self.again_at = Some(at);
    }

    /// Ends for good: nothing is sent any more.
    pub fn end(&mut self) {
        self.due = false;
        self.again_at = None;
    }

    /// A frame of `size` arrived.
    pub fn on_acked(&mut self, now: Instant, size: usize, c: &Config) {
        if size != self.size() {
            return;
        }
        self.end();
        (self.tries, self.vain) = (0, 0);
        if size == self.goal() {
            self.reduced = false;
        } else {
            // What was in the way may go away.
            self.size = self.goal;
            self.again_at = Some(now.plus(c.probe_again_ns));
        }
    }

    /// Nothing was heard of a frame of `size`, nor of others.
    pub fn on_silence(&mut self, now: Instant, size: usize, c: &Config) {
        if size == self.size() {
            let pause = (c.probe_pause_ns << self.vain).min(c.probe_again_ns);
            self.vain = (self.vain + 1).min(VAIN_MAX);
            self.wait_until(now.plus(pause));
        }
    }

    /// A frame of `size` was lost, and a smaller one arrived; `current` is what is known to pass.
    pub fn on_lost(&mut self, now: Instant, size: usize, current: usize, c: &Config) -> Found {
        if size != self.size() || size <= current {
            return Found::Trying;
        }
        self.tries = self.tries.saturating_add(1);
        self.due = true;
        if u32::from(self.tries) < c.probe_tries {
            return Found::Trying;
        }
        let first = self.size == self.goal;
        self.tries = 0;
        match LADDER.into_iter().find(|&s| s < size && s > current) {
            Some(smaller) => self.size = smaller as u32,
            None => {
                self.size = self.goal;
                self.wait_until(now.plus(c.probe_again_ns));
            }
        }
        let is_news = first && !self.reduced;
        self.reduced |= first;
        if is_news { Found::Reduced } else { Found::Trying }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_down_the_ladder_and_comes_back_later() {
        let config = Config::default();
        let mut search = MtuSearch::new(8972, 1232);
        let mut sizes = Vec::new();
        let mut told = 0;
        while search.due {
            sizes.push(search.size());
            let found = search.on_lost(Instant(5), search.size(), 1232, &config);
            told += u32::from(found == Found::Reduced);
        }
        sizes.dedup();
        assert_eq!(sizes, [8972, 8952, 4048, 1472, 1452, 1352]);
        let again = search.again_at.unwrap();
        assert!(!search.goes_on(Instant(again.0 - 1), 1232) && search.goes_on(again, 1232));
        for _ in 0..config.probe_tries {
            let found = search.on_lost(again, 8972, 1232, &config);
            told += u32::from(found == Found::Reduced);
        }
        assert_eq!(told, 1, "what is known already is not told again");
        search.on_acked(again, 8952, &config);
        assert_eq!((search.due, search.size()), (false, 8972));
        assert!(search.goes_on(again.plus(config.probe_again_ns), 8952), "it may get better still");
        search.on_acked(again, 8972, &config);
        assert_eq!((search.due, search.again_at), (false, None));
    }

    #[test]
    fn chance_losses_do_not_reduce() {
        let config = Config::default();
        let mut search = MtuSearch::new(1472, 1232);
        for _ in 0..config.probe_tries - 1 {
            assert_eq!(search.on_lost(Instant(5), 1472, 1232, &config), Found::Trying);
        }
        assert_eq!(search.on_lost(Instant(5), 1472, 1232, &config), Found::Reduced);
        assert!(!MtuSearch::new(1000, 1232).due);
    }

    #[test]
    fn silence_proves_nothing_and_is_asked_about_ever_more_rarely() {
        let config = Config::default();
        let mut search = MtuSearch::new(1472, 1232);
        let mut now = Instant(5);
        let mut pauses = Vec::new();
        for _ in 0..20 {
            search.on_silence(now, 1472, &config);
            let at = search.again_at.unwrap();
            pauses.push(at.since(now));
            now = at;
            assert!(search.goes_on(now, 1232));
        }
        assert_eq!(pauses[..2], [config.probe_pause_ns, 2 * config.probe_pause_ns]);
        assert_eq!(pauses.last(), Some(&config.probe_again_ns));
    }
}
