//! Finds out whether full-size frames really pass. Two ends may agree on an MTU that a switch
//! between them does not carry; then small frames pass and large ones vanish, and the user sees a
//! program that hangs. So a path starts at a size that passes everywhere, and a padded frame tries
//! the full size out.

use crate::config::Config;
use crate::time::Instant;

/// Frame sizes tried when larger ones do not pass: usual MTUs, less IPv6 and UDP headers.
const LADDER: [usize; 5] = [8952, 4048, 1472, 1452, 1352];

/// The search on one path.
#[derive(Debug)]
pub(crate) struct MtuSearch {
    /// What both ends allow.
    goal: usize,
    /// The size being tried.
    size: usize,
    /// How often it was tried.
    tries: u32,
    /// A frame of that size shall go out.
    pub due: bool,
    /// When to begin anew after a failure.
    pub again_at: Option<Instant>,
}

/// How a try ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Frames of this size pass.
    Passes(usize),
    /// The search goes on.
    Trying,
    /// Full-size frames do not pass.
    Reduced,
}

impl MtuSearch {
    /// A search for `goal` bytes, from a path that carries `base`.
    pub fn new(goal: usize, base: usize) -> MtuSearch {
        MtuSearch { goal, size: goal, tries: 0, due: goal > base, again_at: None }
    }

    /// What both ends allow.
    pub fn goal(&self) -> usize {
        self.goal
    }

    /// The size to try now.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Begins anew.
    pub fn restart(&mut self, base: usize) {
        *self = MtuSearch::new(self.goal, base);
    }

    /// A frame of `size` arrived.
    pub fn on_acked(&mut self, size: usize) -> Found {
        if size == self.size {
            self.due = false;
        }
        Found::Passes(size)
    }

    /// A frame of `size` was lost; `current` is what is known to pass.
    pub fn on_lost(&mut self, now: Instant, size: usize, current: usize, c: &Config) -> Found {
        if size != self.size || size <= current {
            return Found::Trying;
        }
        self.tries += 1;
        self.due = true;
        if self.tries < c.probe_tries {
            return Found::Trying;
        }
        let first = self.size == self.goal;
        self.tries = 0;
        match LADDER.into_iter().find(|&s| s < self.size && s > current) {
            Some(smaller) => self.size = smaller,
            None => {
                self.due = false;
                self.size = self.goal;
                self.again_at = Some(now.plus(c.probe_again_ns));
            }
        }
        if first { Found::Reduced } else { Found::Trying }
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
        while search.due {
            sizes.push(search.size());
            search.on_lost(Instant(5), search.size(), 1232, &config);
        }
        sizes.dedup();
        assert_eq!(sizes, [8972, 8952, 4048, 1472, 1452, 1352]);
        assert!(search.again_at.is_some());
        search.restart(1232);
        assert_eq!(search.on_acked(8972), Found::Passes(8972));
        assert!(!search.due);
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
}
