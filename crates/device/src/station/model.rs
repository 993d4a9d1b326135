//! All that can happen between a program, its tender and the network, gone through to the end, in
//! steps of time: what is left due is done soon though the program makes no further call, or only
//! calls that do nothing about it; and a tender that has nothing to do does not spin.
//!
//! Between any two things that the tender does, it may be held up, and the program may act; but it
//! ends each of its rounds within [`DELAY`].

mod tests;
mod world;

use std::collections::{HashSet, VecDeque};

use super::judge::Limits;
use world::World;
use world::program::{LEAVE, UNATTENDED};

/// The real limits, in their order, but nearer to each other: some tens of steps are all.
const LIMITS: Limits = Limits { tick_ns: 6, long_tick_ns: 20, min_sleep_ns: 1, rare_ns: 2 };

/// So many steps a tender may take from waking up to its next sleep.
const DELAY: u64 = 1;

/// What a program does, and what it meets with.
#[derive(Clone, Copy, Default, Debug)]
struct Kind {
    sends: bool,
    /// Sends may be held.
    holds: bool,
    /// Sends may wait for room.
    queues: bool,
    /// Sends want an answer by some time.
    answers: bool,
    polls: bool,
    /// It polls in every step, until it stops for good.
    always_polls: bool,
    stops: bool,
    /// It sleeps in calls.
    sleeps: bool,
    keeps_lock: bool,
    arrivals: bool,
    /// Of these some are only for the program to take.
    unread: bool,
}

/// By which law the tender judges.
#[derive(Clone, Copy, Debug)]
struct Law {
    /// Its longest sleep while the program is awake.
    tick: u64,
    /// As it did once: all calls count, not only polls, and nothing but a tick wakes it.
    counts_calls: bool,
    /// A poll sends what is held before it looks for what has come.
    polls_send_first: bool,
    /// Polls put the timer off also after the tender has tended.
    polls_set_timer: bool,
    /// How long a program may wait for its turn on a core. The real one learns that; here any.
    turn: u64,
}

const REAL: Law = Law {
    tick: LIMITS.tick_ns,
    counts_calls: false,
    polls_send_first: true,
    polls_set_timer: true,
    turn: 0,
};

/// Goes through all that can happen; gives how many states there are, or how something that is due
/// waits for longer than `bound`.
fn explore(kind: Kind, law: Law, bound: u64) -> Result<usize, String> {
    let mut seen = HashSet::from([World::new(kind, law).key()]);
    // What has happened, and after what.
    let mut ways = vec![("", 0)];
    let mut open = VecDeque::from([(World::new(kind, law), 0)]);
    while let Some((world, from)) = open.pop_front() {
        for (what, next) in world.happenings(kind, law) {
            if !seen.insert(next.key()) {
                continue;
            }
            let waited = next.waited();
            ways.push((what, from));
            if waited > bound || next.spins() {
                let why = if next.spins() { "the tender spins" } else { "it waits for too long" };
                let way = way(&ways);
                return Err(format!("{why}, {waited} of {bound}:\n{way}\n{next:?}"));
            }
            open.push_back((next, ways.len() - 1));
        }
    }
    Ok(seen.len())
}

/// What has led to the last state.
fn way(ways: &[(&str, usize)]) -> String {
    let mut at = ways.len() - 1;
    let mut lines = Vec::new();
    while at != 0 {
        lines.push(ways[at].0);
        at = ways[at].1;
    }
    lines.reverse();
    lines.join("\n")
}
