//! What programs of several kinds can count on.

use super::*;

/// Nobody has polled for a while, and a round of the tender; twice, for just before the end of the
/// first the tender may have seen that the program has polled enough to be left alone.
const BOUND: u64 = 2 * (LEAVE + DELAY);

/// The same beside a program that has not polled steadily.
const FIRST_BOUND: u64 = 2 * (UNATTENDED + DELAY);

fn keeps(kind: Kind) {
    keeps_within(kind, REAL, BOUND);
}

fn keeps_within(kind: Kind, law: Law, bound: u64) {
    match explore(kind, law, bound) {
        Ok(states) => println!("{states} states of {kind:?}"),
        Err(way) => panic!("{kind:?}: {way}"),
    }
}

const SENDS: Kind = Kind {
    sends: true,
    holds: true,
    queues: true,
    answers: false,
    polls: false,
    always_polls: false,
    stops: false,
    sleeps: false,
    keeps_lock: false,
    arrivals: true,
    unread: false,
};

#[test]
fn who_only_sends_is_looked_after() {
    keeps(SENDS);
    keeps(Kind { queues: false, answers: true, ..SENDS });
}

#[test]
fn who_only_computes_is_looked_after() {
    keeps_within(Kind { arrivals: true, ..Kind::default() }, REAL, FIRST_BOUND);
    keeps_within(Kind { arrivals: true, unread: true, ..Kind::default() }, REAL, FIRST_BOUND);
    keeps(Kind { arrivals: true, keeps_lock: true, ..Kind::default() });
}

#[test]
fn who_sends_in_bursts_then_computes_is_looked_after() {
    keeps(Kind { queues: false, ..SENDS });
    keeps(Kind { queues: false, arrivals: false, ..SENDS });
}

#[test]
fn who_sends_and_polls_now_and_then_is_looked_after() {
    keeps(Kind { polls: true, queues: false, ..SENDS });
    keeps(Kind { polls: true, holds: false, ..SENDS });
}

#[test]
fn who_polls_all_the_time_then_stops_is_looked_after() {
    let polls = Kind { polls: true, always_polls: true, stops: true, ..Kind::default() };
    keeps(Kind { arrivals: true, ..polls });
    keeps(Kind { sends: true, holds: true, ..polls });
}

#[test]
fn who_sleeps_in_calls_then_computes_is_looked_after() {
    keeps(Kind { sleeps: true, arrivals: true, ..Kind::default() });
}

#[test]
fn who_waits_for_cores_is_looked_after_later() {
    const TURN: u64 = 2 * UNATTENDED;
    let (kind, law) = (Kind { queues: false, ..SENDS }, Law { turn: TURN, ..REAL });
    keeps_within(kind, law, 2 * (TURN + DELAY));
}

/// The tender's former law: it stood back while calls were made.
#[test]
fn a_tender_that_counts_calls_is_found_out() {
    let former = Law { counts_calls: true, ..REAL };
    let way = explore(SENDS, former, BOUND).expect_err("nothing was found");
    println!("{way}");
}

fn is_found_out(kind: Kind, law: Law) {
    let way = explore(kind, law, BOUND).expect_err("nothing was found");
    println!("{law:?}: {way}");
}

#[test]
fn a_poll_that_finds_something_and_sends_nothing_is_found_out() {
    let kind = Kind { polls: true, queues: false, ..SENDS };
    is_found_out(kind, Law { polls_send_first: false, ..REAL });
}

#[test]
fn a_long_sleep_beside_who_may_hold_messages_is_found_out() {
    is_found_out(SENDS, Law { tick: LIMITS.long_tick_ns, ..REAL });
}

/// What has been attended to is looked at again in a tick at the latest; here that is long.
#[test]
fn a_poll_that_disarms_the_bell_and_sets_no_timer_is_found_out() {
    let kind = Kind { polls: true, arrivals: true, ..Kind::default() };
    let law = Law { tick: BOUND + 2, ..REAL };
    keeps_within(kind, law, BOUND);
    is_found_out(kind, Law { polls_set_timer: false, ..law });
}
