//! What the tender does next, and when its timer rings: decided from what it sees, without looking
//! at anything itself. The tender and [`Attention`](crate::attention::Attention) ask here, and so
//! does the model that goes through all that can happen.

/// What the program is doing, as far as the tender must know.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    /// In a call, or computing: the count of polls tells which.
    Awake,
    /// Asleep on the device's doorbell: descriptors are the tender's to watch.
    OnDoorbell,
    /// Asleep on the descriptors: nothing is left to the tender.
    OnDescriptors,
}

impl Phase {
    /// The one that `of as u8` gives.
    pub(super) fn from_u8(number: u8) -> Phase {
        [Phase::Awake, Phase::OnDoorbell, Phase::OnDescriptors][usize::from(number)]
    }
}

/// How long the tender lets things be, ns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Limits {
    /// Its longest sleep while the program is awake, and may leave something to it without a word.
    pub(super) tick_ns: u64,
    /// Its longest sleep otherwise: something will wake it.
    pub(super) long_tick_ns: u64,
    /// Its shortest sleep, so that a deadline it cannot meet does not make it spin.
    pub(super) min_sleep_ns: u64,
    /// A program that polls less often than this is looked after all the same.
    pub(super) rare_ns: u64,
}

/// What the tender sees at a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) now_ns: u64,
    /// How often has been polled.
    pub(super) polls: u64,
    /// Whether the timer has rung since the last look.
    pub(super) rang: bool,
    pub(super) phase: Phase,
    /// Whether the program has gone to sleep somewhere else since it last polled.
    pub(super) left: bool,
    /// See [`turn_ns`].
    pub(super) turn_ns: u64,
}

/// What is to be done at a look.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Then {
    /// Sleep so long, by time: the program needs nobody.
    Nap(u64),
    /// Watch the descriptors in the place of a program that sleeps on its doorbell.
    StandIn,
    /// The program polls: it is left alone until it has not for a while.
    StandBack,
    /// The program computes: its work is done here.
    Tend,
}

/// How the tender rests after it has tended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Rest {
    /// Until something arrives, or so long.
    Watch(u64),
    /// So long, by time: something is there that only the program can take.
    Nap(u64),
    /// Not at all.
    None,
}

/// The tender's judgement, from look to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge {
    limits: Limits,
    /// How often had been polled when the tender last stood back or tended, and when that was.
    pub(super) seen: u64,
    pub(super) seen_ns: u64,
    /// The last nap beside a program that sleeps.
    pub(super) asleep_ns: u64,
}

impl Judge {
    pub(super) fn new(limits: Limits, polls: u64, now_ns: u64) -> Judge {
        Judge { limits, seen: polls, seen_ns: now_ns, asleep_ns: limits.tick_ns }
    }

    /// What is to be done.
    pub(super) fn judge(&mut self, sight: &Sight) -> Then {
        let Limits { tick_ns, long_tick_ns, rare_ns, .. } = self.limits;
        if sight.phase == Phase::OnDescriptors {
            self.asleep_ns = (self.asleep_ns * 2).min(long_tick_ns);
            return Then::Nap(self.asleep_ns);
        }
        self.asleep_ns = tick_ns;
        if sight.phase == Phase::OnDoorbell {
            return Then::StandIn;
        }
        let rare_ns = rare_ns.max(sight.turn_ns);
        let polled = sight.polls.wrapping_sub(self.seen);
        let brisk = rare_ns * polled > sight.now_ns.saturating_sub(self.seen_ns);
        // Who polls puts the timer off: that it rang says that nobody has for a while, or that
        // something is due.
        if sight.rang || sight.left || !brisk { Then::Tend } else { Then::StandBack }
    }

    /// The tender stands back, or has tended: what is polled from now on counts.
    pub(super) fn saw(&mut self, polls: u64, now_ns: u64) {
        (self.seen, self.seen_ns) = (polls, now_ns);
    }

    /// How to rest after tending: whether all is `quiet` and what comes wakes the tender, whether
    /// it `did` anything, how long until something is to be done though nothing comes, ns, and
    /// whether it is to be `short`: where sends may be held, nothing tells of them.
    pub(super) fn rest(&self, quiet: bool, did: bool, until_ns: Option<u64>, short: bool) -> Rest {
        let Limits { tick_ns, long_tick_ns, min_sleep_ns, .. } = self.limits;
        let longest_ns = if short { tick_ns } else { long_tick_ns };
        let until_ns = until_ns.unwrap_or(longest_ns);
        match (quiet, did) {
            (true, _) => Rest::Watch(until_ns.clamp(min_sleep_ns, longest_ns)),
            (false, true) => Rest::None,
            (false, false) => Rest::Nap(tick_ns),
        }
    }

    /// How long to sleep while the program keeps the lock, ns.
    pub(super) fn stays_out(&self, is_due: bool) -> u64 {
        if is_due { self.limits.min_sleep_ns } else { self.limits.tick_ns }
    }
}

/// Other nodes' ranks and other programs share the cores as well, and are not counted: a tender
/// that hears the timer late has had to wait for a core, and so has the program. So many times as
/// long it may go without a poll, up to the other: a tender that takes a program's place because
/// that waits for its turn only takes another turn from all (measured: alltoall of 128 ranks of 2
/// cores, two thirds of the processors' time).
pub(crate) const TURNS: u64 = 4;
const TURNS_MAX_NS: u64 = 100_000_000;

/// By how much the tender is late to hear the timer, lately, ns: it has heard one at `now_ns` that
/// was set to `rings_ns`, and `before` that was so much.
pub(crate) fn late_ns(before: u64, rings_ns: u64, now_ns: u64) -> u64 {
    let late_ns = now_ns.saturating_sub(rings_ns);
    // Not more than counts: whoever was stopped for long has not waited for a turn.
    (3 * before + late_ns.min(TURNS_MAX_NS / TURNS)) / 4
}

/// So long a program may wait for its turn on a core, ns, where the tender is so late.
pub(crate) fn turn_ns(late_ns: u64) -> u64 {
    (TURNS * late_ns).min(TURNS_MAX_NS)
}

/// The timer was put off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Off {
    /// When it rings, ns, and when a poll puts it off again.
    pub(crate) rings_ns: u64,
    pub(crate) again_ns: u64,
}

/// The timer is to ring when nobody has polled from now on for so long, or for a turn.
pub(crate) fn put_off(now_ns: u64, leave_ns: u64, turn_ns: u64) -> Off {
    let leave_ns = leave_ns.max(turn_ns);
    Off { rings_ns: now_ns + leave_ns, again_ns: now_ns + leave_ns / 2 }
}

/// How long the program may go without a poll where it has polled in time so often in a row: so
/// long at first, and so long once it has shown that it polls steadily. A program that waits for
/// long then sets the timer seldom; the tender of one that computes in between comes soon, and so
/// does that of one that loses its core to a neighbour, whose turn it ends. (On a virtual machine,
/// to set a timer that is the next of its processor's to ring costs 8 us, and one beyond the next
/// tick of the kernel's 0.8.)
pub(crate) fn leave_ns(in_time: u64, steady: u64, (first_ns, later_ns): (u64, u64)) -> u64 {
    if in_time < steady { first_ns } else { later_ns }
}
