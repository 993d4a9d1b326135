//! How long to spin before sleeping. Spinning answers soonest where a core is free, and is the ruin
//! of everyone where ranks outnumber cores: there a rank must give its core away at once.

/// Polls between two looks at the clock while spinning.
pub(crate) const SPIN_POLLS: u32 = 64;

/// Polls before sleeping where cores are not free: what is not there now needs another rank to run.
pub(crate) const CROWDED_POLLS: u32 = 1;

/// How long to spin, by default, where nobody else wants the core: waking up costs what some
/// hundred messages do, and a program that waits longer than this for one does not notice it.
pub const SPIN_NS: u64 = 20_000_000;

/// While spinning, a yield is tried as often as this. It is a probe as well: see
/// [`Patience::yielded`].
const YIELD_INTERVAL_NS: u64 = 5_000;

/// A yield that took longer than this may have let somebody else run; then cores are not free.
pub(crate) const YIELD_LONG_NS: u64 = 4_000;

/// After a yield that let somebody else run, so many waits do not spin before the next one tries
/// it: few at first, for that may have been a moment's work, and four times as many for each try
/// that finds it so again.
const CROWDED_WAITS: (u32, u32) = (4, 256);

/// Where cores are not free, a wait gives its core away so many times, and for so long, before it
/// sleeps: often another rank only needs its turn to bring what this one waits for, and then all go
/// on at a third of what sleeping and waking costs (measured: 32 ranks of 2 cores in barriers). By
/// number alone, ranks whose neighbours sleep have their turns back at once and sleep as well, and
/// it stays so (measured: barriers of 8 nodes on 2 cores, 82 us instead of 55).
const TURNS: u32 = 3;
const TURNS_NS: u64 = 200_000;

/// Whether giving the core away is worth it, by how often it was: so many points at most, and at
/// first. Each wait that ends by it gives one, each that sleeps in the end takes one.
const TURNS_POINTS: u32 = 8;

/// Without any points, one wait in so many tries it again.
const TURNS_INTERVAL: u32 = 32;

/// A yield that took longer than this, for each of the ranks that share the core and for no less
/// than four, let a neighbour compute and not look for messages: who sleeps in its stead is woken
/// in the midst of that turn. It costs half of the points, and so many sleeps of a caller who polls
/// for ever are tried without yields: few at first, and fewer where ranks do not outnumber cores,
/// for there a host that took the core for a moment looks the same; and four times as many for each
/// try that finds it so again, until so many turns in a row were short, or so many yields that
/// nobody took: who computes beside a wait that spins takes one in some milliseconds.
const LONG_TURN_NS: u64 = 200_000;
const LONG_TURN_SLEEPS: (u32, u32) = (64, 4096);
const DOUBTFUL_SLEEPS: u32 = 4;
const SHORT_TURNS: u32 = 512;
const FREE_YIELDS: u32 = 16 << 10;

/// So many polls in vain such a caller makes before it sleeps: one call polls more than once.
const LONG_TURN_POLLS: u32 = 4;

/// Polls in vain with less than this gap between them are a wait.
const IDLE_GAP_NS: u64 = 20_000;

/// Where cores are not free, so many polls in vain give the processor away before one sleeps. Some
/// programs poll a few times in each call, whether or not anything is to come, and would sleep for
/// nothing (measured: tests of MPICH's one-sided operations, 4 ranks of 2 cores, ten times as slow
/// with 3; barriers of 32 ranks take a third longer with 3, and the same with 8 to 64).
const IDLE_CROWDED_POLLS: u32 = 16;

/// What to do after a round of polls that found nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    Spin,
    Yield,
    Sleep,
}

/// How often still to do without something: few times at first, and four times as many each time
/// that it is found so again.
#[derive(Debug)]
struct Spell {
    left: u32,
    next: u32,
    /// How many at first, and at most.
    limits: (u32, u32),
}

impl Spell {
    fn new(limits: (u32, u32)) -> Spell {
        Spell { left: 0, next: limits.0, limits }
    }

    fn begin(&mut self) {
        self.left = self.next;
        self.next = (self.next * 4).min(self.limits.1);
    }

    fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// It is no longer so: the next one is short again.
    fn forget(&mut self) {
        self.next = self.limits.0;
    }
}

/// What is known about the cores, from wait to wait.
#[derive(Debug)]
pub struct Patience {
    spin_ns: u64,
    /// Where this is above 1, ranks outnumber cores: no wait spins, and nothing is probed.
    ranks_per_core: u64,
    /// Waits that are not to spin because a yield let somebody else run.
    crowded: Spell,
    /// Whether the last yield let somebody else run.
    displaced: bool,
    /// Whether this wait is one where cores are not free, and since which of its rounds and how
    /// long after it began.
    in_crowd: bool,
    crowd_round: u32,
    crowd_ns: u64,
    /// See [`TURNS_POINTS`]; and waits since the last one that tried it.
    turns_points: u32,
    turns_waits: u32,
    /// This wait tries it.
    turning: bool,
    /// When polls in vain began, when the last was, and when a yield was last made for them.
    idle_since_ns: u64,
    idle_last_ns: u64,
    idle_yield_ns: u64,
    /// Polls in vain since then.
    idle_polls: u32,
    /// Sleeps that are to be tried without yields before them.
    idle_asleep: Spell,
    /// Turns in a row that were short.
    short_turns: u32,
    /// Yields that nobody took, since one that let a neighbour compute.
    free_yields: u32,
    /// Polls in vain for which nothing was given away, since something last was.
    idle_spins: u32,
}

impl Patience {
    /// `ranks` processes of the job share `cores` cores here.
    pub fn new(spin_ns: u64, ranks: usize, cores: usize) -> Patience {
        let mut patience = Patience {
            spin_ns,
            ranks_per_core: 1,
            crowded: Spell::new(CROWDED_WAITS),
            displaced: false,
            in_crowd: false,
            crowd_round: 0,
            crowd_ns: 0,
            turns_points: TURNS_POINTS,
            turns_waits: 0,
            turning: false,
            idle_since_ns: 0,
            idle_last_ns: 0,
            idle_yield_ns: 0,
            idle_polls: 0,
            idle_asleep: Spell::new((DOUBTFUL_SLEEPS, LONG_TURN_SLEEPS.1)),
            short_turns: 0,
            free_yields: 0,
            idle_spins: 0,
        };
        patience.share_cores(ranks, cores);
        patience
    }

    /// Polls in the next round.
    #[inline]
    pub(crate) fn polls(&self) -> u32 {
        if self.is_crowded() { CROWDED_POLLS } else { SPIN_POLLS }
    }

    /// What to do `waited_ns` after a wait began and `since_yield_ns` after its last yield, asked
    /// for the `round`th time in it, from 0 on.
    pub(crate) fn next(&mut self, round: u32, waited_ns: u64, since_yield_ns: u64) -> Next {
        if round == 0 {
            self.in_crowd = false;
        }
        if !self.in_crowd && self.is_crowded() {
            // From the beginning, or since a yield within this wait let somebody else run.
            (self.in_crowd, self.crowd_round, self.crowd_ns) = (true, round, waited_ns);
            self.crowded.spend();
        }
        if self.in_crowd {
            return self.next_turn(
                round.saturating_sub(self.crowd_round),
                waited_ns.saturating_sub(self.crowd_ns),
            );
        }
        match (waited_ns >= self.spin_ns, since_yield_ns >= YIELD_INTERVAL_NS) {
            (true, _) => Next::Sleep,
            (false, true) => Next::Yield,
            (false, false) => Next::Spin,
        }
    }

    /// The same where cores are not free.
    fn next_turn(&mut self, round: u32, waited_ns: u64) -> Next {
        if round == 0 {
            self.turns_waits += 1;
            self.turning = self.turns_points > 0 || self.turns_waits == TURNS_INTERVAL;
            if self.turning {
                self.turns_waits = 0;
            }
        }
        if self.turning && (round < TURNS || waited_ns < TURNS_NS) {
            return Next::Yield;
        }
        if self.turning {
            self.turns_points = self.turns_points.saturating_sub(1);
        }
        self.turning = false;
        Next::Sleep
    }

    /// A wait has ended, after rounds in vain.
    pub(crate) fn ended(&mut self) {
        if self.turning {
            self.turns_points = (self.turns_points + 1).min(TURNS_POINTS);
        }
    }

    /// A yield let somebody else run, and took so long.
    pub(crate) fn turned(&mut self, took_ns: u64) {
        if took_ns > LONG_TURN_NS.saturating_mul(self.ranks_per_core.max(4)) {
            self.turning = false;
            self.turns_points /= 2;
            self.idle_asleep.begin();
            self.crowded.left = self.idle_asleep.left.min(CROWDED_WAITS.1);
            (self.short_turns, self.free_yields) = (0, 0);
        } else {
            self.short_turns += 1;
            if self.short_turns == SHORT_TURNS {
                self.short_turns = 0;
                self.idle_asleep.forget();
            }
        }
    }

    /// Learns how many processes of the job share so many cores.
    pub(crate) fn share_cores(&mut self, ranks: usize, cores: usize) {
        self.ranks_per_core = per_core(ranks, cores);
        let first = if self.ranks_per_core > 1 { LONG_TURN_SLEEPS.0 } else { DOUBTFUL_SLEEPS };
        self.idle_asleep = Spell::new((first, LONG_TURN_SLEEPS.1));
    }

    /// How many processes of the job share a core, at least 1.
    pub(crate) fn ranks_per_core(&self) -> u64 {
        self.ranks_per_core
    }

    /// Whether cores are not free, as far as is known.
    #[inline]
    fn is_crowded(&self) -> bool {
        self.ranks_per_core > 1 || self.crowded.left > 0
    }

    /// What to do after polls in vain, at `now_ns`, of a caller who polls for ever; `anew`: for the
    /// first time since it last found or did something. One who does other work between its polls
    /// is not put to sleep, nor one who may not be: it yields.
    pub(crate) fn idle(&mut self, anew: bool, now_ns: u64, may_sleep: bool) -> Next {
        if anew || now_ns.saturating_sub(self.idle_last_ns) > IDLE_GAP_NS {
            self.idle_since_ns = now_ns;
            self.idle_yield_ns = now_ns;
            self.idle_polls = 0;
        }
        self.idle_last_ns = now_ns;
        self.idle_polls = self.idle_polls.saturating_add(1);
        if self.is_crowded() {
            return self.idle_in_crowd(may_sleep);
        }
        // Of several threads another one may have been told a later time.
        let waited = now_ns.saturating_sub(self.idle_since_ns);
        if may_sleep && waited > self.spin_ns {
            Next::Sleep
        } else if now_ns.saturating_sub(self.idle_yield_ns) >= YIELD_INTERVAL_NS {
            self.idle_yield_ns = now_ns;
            Next::Yield
        } else {
            Next::Spin
        }
    }

    /// The same where cores are not free.
    fn idle_in_crowd(&mut self, may_sleep: bool) -> Next {
        if self.idle_asleep.left == 0 || !may_sleep {
            self.crowded.spend();
            if !may_sleep || self.idle_polls < IDLE_CROWDED_POLLS {
                return Next::Yield;
            }
        } else if self.idle_polls >= LONG_TURN_POLLS {
            self.idle_asleep.spend();
        } else if self.idle_spins < IDLE_CROWDED_POLLS {
            self.idle_spins += 1;
            return Next::Spin;
        } else {
            // Waits that begin again and again: several queues are looked at in turn.
            self.idle_spins = 0;
            return Next::Yield;
        }
        self.idle_spins = 0;
        Next::Sleep
    }

    /// The caller has slept or given its core away in [`Patience::idle`]'s name until `now_ns`.
    pub(crate) fn idled(&mut self, now_ns: u64) {
        self.idle_last_ns = now_ns;
    }

    /// Whether a yield that took so long is worth a closer look: by a second one, of which the
    /// kernel is asked whether somebody ran. A processor that its host took away is not crowded.
    #[inline]
    pub(crate) fn is_long(took_ns: u64) -> bool {
        took_ns > YIELD_LONG_NS
    }

    /// Learns from a yield: whether somebody else ran. Once says little: that may have been a
    /// moment's work, as a tender's is.
    pub(crate) fn yielded(&mut self, crowded: bool) {
        let again = std::mem::replace(&mut self.displaced, crowded);
        if crowded && again {
            self.crowded.begin();
        } else if !crowded {
            self.crowded.forget();
            self.free_yields += 1;
            if self.free_yields == FREE_YIELDS {
                self.free_yields = 0;
                self.idle_asleep.forget();
            }
        }
    }
}

fn per_core(ranks: usize, cores: usize) -> u64 {
    ranks.div_ceil(cores.max(1)).max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_then_yields_then_sleeps_where_cores_are_free() {
        let mut p = Patience::new(SPIN_NS, 2, 2);
        assert_eq!(p.next(0, 1_000, 1_000), Next::Spin);
        assert_eq!(p.next(1, 6_000, 6_000), Next::Yield);
        p.yielded(false);
        assert_eq!(p.next(2, 9_000, 2_000), Next::Spin);
        assert_eq!(p.next(3, SPIN_NS, 0), Next::Sleep);
    }

    #[test]
    fn a_wait_that_learns_that_others_want_the_core_gives_it_away_from_then_on() {
        let mut p = Patience::new(SPIN_NS, 2, 2);
        assert_eq!(p.next(0, 1_000, 1_000), Next::Spin);
        assert_eq!(p.next(1, 6_000, 6_000), Next::Yield);
        p.yielded(true);
        assert_eq!(p.next(2, 7_000, 1_000), Next::Spin, "that may have been a moment's work");
        p.yielded(true);
        assert_eq!(p.next(2, 9_000, 3_000), Next::Yield);
        assert_eq!(p.next(3, 9_000 + TURNS_NS, 0), Next::Yield);
        assert_eq!(p.next(5, 9_000 + TURNS_NS, 0), Next::Sleep);
    }

    #[test]
    fn yields_to_others_make_more_and_more_waits_give_way_at_once() {
        let mut p = Patience::new(SPIN_NS, 2, 2);
        p.yielded(true);
        for waits in [4, 16, 64, 256, 256] {
            p.yielded(true);
            for _ in 0..waits {
                assert_eq!(p.polls(), CROWDED_POLLS);
                assert_ne!(p.next(0, 0, 0), Next::Spin);
            }
            assert_eq!(p.next(0, 0, 0), Next::Spin);
        }
        p.yielded(false);
        p.yielded(true);
        p.yielded(true);
        assert_eq!((0..5).filter(|_| p.next(0, 0, 0) != Next::Spin).count(), 4);
    }

    #[test]
    fn polls_in_vain_yield_and_in_the_end_sleep_unless_other_work_lies_between_them() {
        let mut p = Patience::new(SPIN_NS, 2, 2);
        assert_eq!(p.idle(true, 100, true), Next::Spin);
        assert_eq!(p.idle(false, 3_000, true), Next::Spin);
        assert_eq!(p.idle(false, 6_000, true), Next::Yield);
        assert_eq!(p.idle(false, 7_000, true), Next::Spin);
        for at in (10_000..=SPIN_NS).step_by(10_000) {
            assert_ne!(p.idle(false, at, true), Next::Sleep);
        }
        assert_eq!(p.idle(false, SPIN_NS + 10_000, true), Next::Sleep);
        p.idled(2 * SPIN_NS);
        assert_eq!(p.idle(false, 2 * SPIN_NS + 1_000, true), Next::Sleep);
        assert_eq!(p.idle(false, 2 * SPIN_NS + 50_000, true), Next::Spin);
    }

    #[test]
    fn who_may_not_sleep_yields() {
        let mut p = Patience::new(SPIN_NS, 2, 2);
        let at = |round: u32| u64::from(round) * 10_000;
        for round in 1..=2 * (SPIN_NS / 10_000) as u32 {
            assert_ne!(p.idle(round == 1, at(round), false), Next::Sleep);
        }
        (0..4).for_each(|_| p.turned(1_000_000));
        assert!((1..100).all(|round| p.idle(round == 1, 1, false) == Next::Yield));
        assert_eq!((1..100).find(|round| p.idle(*round == 1, 1, true) == Next::Sleep), Some(4));
    }

    #[test]
    fn outnumbered_ranks_yield_a_little_and_then_sleep_when_they_poll_in_vain() {
        let mut p = Patience::new(SPIN_NS, 1, 2);
        p.share_cores(3, 2);
        let yields = |p: &mut Patience, first: u32, now: u64| {
            (first..).position(|round| p.idle(round == 1, now, true) == Next::Sleep).unwrap()
        };
        assert_eq!(yields(&mut p, 1, 1), 15);
        assert_eq!(yields(&mut p, 17, 2), 0, "it goes on sleeping");
        p.idled(1_000_000);
        assert_eq!(yields(&mut p, 18, 1_000_100), 0);
        // After other work, and after something has come, it begins anew.
        assert_eq!(yields(&mut p, 19, 2_000_000), 15);
        assert_eq!(yields(&mut p, 1, 2_000_001), 15);
    }

    #[test]
    fn nobody_gives_a_core_away_to_who_computes() {
        let mut p = Patience::new(SPIN_NS, 3, 2);
        for _ in 0..TURNS_POINTS.ilog2() + 1 {
            assert_eq!(p.next(0, 0, 0), Next::Yield);
            p.turned(1_000_000);
            assert_eq!(p.next(1, 1, 0), Next::Sleep, "even if the wait is young");
        }
        assert_eq!(p.next(0, 0, 0), Next::Sleep);
        // Polls in vain begin to sleep early, so many times; what comes before that does not count.
        let begin =
            |p: &mut Patience| (1..4).map(|round| p.idle(round == 1, 1, true)).collect::<Vec<_>>();
        let asleep = |p: &mut Patience| {
            let sleeps =
                |_: &u32| begin(p) == [Next::Spin; 3] && p.idle(false, 1, true) == Next::Sleep;
            (0..).take_while(sleeps).count()
        };
        (0..5).for_each(|_| assert_eq!(begin(&mut p), [Next::Spin; 3]));
        assert_eq!(begin(&mut p), [Next::Spin, Next::Yield, Next::Spin], "they begin too often");
        assert_eq!(p.idle(false, 1, true), Next::Sleep);
        let most = LONG_TURN_SLEEPS.1 as usize;
        assert_eq!(asleep(&mut p) + 1, most, "four times in a row");
        p.turned(100_000);
        assert_eq!(begin(&mut p), [Next::Yield; 3], "a turn that is short");
        p.turned(1_000_000);
        assert_eq!(asleep(&mut p), most);
        (0..SHORT_TURNS).for_each(|_| p.turned(100_000));
        p.turned(1_000_000);
        assert_eq!(asleep(&mut p), LONG_TURN_SLEEPS.0 as usize, "many that were short");
    }

    #[test]
    fn a_core_that_was_lost_for_a_moment_is_soon_one_s_own_again() {
        let mut p = Patience::new(SPIN_NS, 2, 2);
        for _ in 0..3 {
            p.turned(1_000_000);
            for _ in 0..DOUBTFUL_SLEEPS {
                assert_eq!(
                    (1..).find(|&round| p.idle(round == 1, 1, true) == Next::Sleep),
                    Some(4)
                );
            }
            for round in 1..=CROWDED_WAITS.0 {
                assert_eq!(p.idle(round == 1, 1, true), Next::Yield);
                p.turned(1_000);
            }
            assert_eq!(p.polls(), SPIN_POLLS);
            // Nobody wants it: the next time is as the first.
            (0..FREE_YIELDS).for_each(|_| p.yielded(false));
        }
    }

    #[test]
    fn outnumbered_ranks_give_their_core_away_as_long_as_that_helps() {
        let mut p = Patience::new(SPIN_NS, 3, 2);
        assert_eq!(p.polls(), CROWDED_POLLS);
        let at = [0, 1, 2, 3, TURNS_NS - 1, TURNS_NS, 2 * TURNS_NS];
        let wait = |p: &mut Patience| {
            let next = |round: usize| p.next(round as u32, at[round], 0);
            (0..at.len()).map(next).collect::<Vec<_>>()
        };
        let [y, s] = [Next::Yield, Next::Sleep];
        for _ in 0..TURNS_POINTS {
            assert_eq!(wait(&mut p), [y, y, y, y, y, s, s]);
            p.ended();
        }
        // It has never helped.
        for _ in 1..TURNS_INTERVAL {
            assert_eq!(p.next(0, 0, 0), s);
        }
        // One more try, and this time it does.
        assert_eq!(p.next(0, 0, 0), y);
        p.ended();
        assert_eq!(p.next(0, 0, 0), y);
    }
}
