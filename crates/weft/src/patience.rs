//! How long to spin before sleeping. Spinning answers soonest where a core is free, and is the ruin
//! of everyone where ranks outnumber cores: there a rank must give its core away at once.

/// Polls between two looks at the clock while spinning.
pub(crate) const SPIN_POLLS: u32 = 64;

/// Polls before sleeping where cores are not free: what is not there now needs another rank to run.
pub(crate) const CROWDED_POLLS: u32 = 1;

/// How long to spin, by default, where cores are free.
pub(crate) const SPIN_NS: u64 = 50_000;

/// While spinning, a yield is tried as often as this. It is a probe as well: see
/// [`Patience::yielded`].
const YIELD_INTERVAL_NS: u64 = 5_000;

/// A yield that took longer than this let somebody else run: cores are not free.
const YIELD_LONG_NS: u64 = 4_000;

/// After a long yield, so many waits go to sleep at once before the next try: few at first, for an
/// interrupt makes a yield long as well, and four times as many for each try that finds it so
/// again.
const CROWDED_WAITS: (u32, u32) = (4, 256);

/// What to do after a round of polls that found nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    Spin,
    Yield,
    Sleep,
}

/// What is known about the cores, from wait to wait.
#[derive(Debug)]
pub(crate) struct Patience {
    spin_ns: u64,
    /// Ranks outnumber cores by count: no probing, always sleep at once.
    outnumbered: bool,
    /// Waits that are still to sleep at once because a yield was long.
    crowded: u32,
    /// How many they will be the next time.
    next_crowded: u32,
}

impl Patience {
    /// `ranks` processes of the job share `cores` cores here.
    pub(crate) fn new(spin_ns: u64, ranks: usize, cores: usize) -> Patience {
        Patience { spin_ns, outnumbered: ranks > cores, crowded: 0, next_crowded: CROWDED_WAITS.0 }
    }

    /// Polls in the next round.
    #[inline]
    pub(crate) fn polls(&self) -> u32 {
        if self.outnumbered || self.crowded > 0 { CROWDED_POLLS } else { SPIN_POLLS }
    }

    /// What to do `waited_ns` after a wait began and `since_yield_ns` after its last yield.
    pub(crate) fn next(&mut self, waited_ns: u64, since_yield_ns: u64) -> Next {
        if self.outnumbered {
            return Next::Sleep;
        }
        if self.crowded > 0 {
            self.crowded -= 1;
            return Next::Sleep;
        }
        match (waited_ns >= self.spin_ns, since_yield_ns >= YIELD_INTERVAL_NS) {
            (true, _) => Next::Sleep,
            (false, true) => Next::Yield,
            (false, false) => Next::Spin,
        }
    }

    /// Learns from how long a yield took.
    pub(crate) fn yielded(&mut self, took_ns: u64) {
        if took_ns > YIELD_LONG_NS {
            self.crowded = self.next_crowded;
            self.next_crowded = (self.next_crowded * 4).min(CROWDED_WAITS.1);
        } else {
            self.next_crowded = CROWDED_WAITS.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_then_yields_then_sleeps_where_cores_are_free() {
        let mut p = Patience::new(SPIN_NS, 2, 2);
        assert_eq!(p.next(1_000, 1_000), Next::Spin);
        assert_eq!(p.next(6_000, 6_000), Next::Yield);
        p.yielded(1_000);
        assert_eq!(p.next(9_000, 2_000), Next::Spin);
        assert_eq!(p.next(SPIN_NS, 0), Next::Sleep);
    }

    #[test]
    fn long_yields_make_more_and_more_waits_sleep_at_once() {
        let mut p = Patience::new(SPIN_NS, 2, 2);
        for waits in [4, 16, 64, 256, 256] {
            p.yielded(100_000);
            for _ in 0..waits {
                assert_eq!(p.polls(), CROWDED_POLLS);
                assert_eq!(p.next(0, 0), Next::Sleep);
            }
            assert_eq!(p.next(0, 0), Next::Spin);
        }
        p.yielded(1_000);
        p.yielded(100_000);
        assert_eq!((0..5).filter(|_| p.next(0, 0) == Next::Sleep).count(), 4);
    }

    #[test]
    fn outnumbered_ranks_never_spin() {
        let mut p = Patience::new(SPIN_NS, 3, 2);
        assert_eq!((p.polls(), p.next(0, 0)), (CROWDED_POLLS, Next::Sleep));
    }
}
