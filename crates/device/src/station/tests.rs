//! What the steps of a wait are told of the time.

use weft_sys::clock::now_ns;

use super::*;
use crate::loopback::Loopback;
use crate::patience::SPIN_POLLS;
use weft_wire::Address;

/// A program that has nothing to do.
struct Still(Loopback);

impl Work for Still {
    fn device(&mut self) -> &mut dyn Device {
        &mut self.0
    }

    fn leave_to(&mut self, _attention: &Arc<Attention>) {}

    fn tend(&mut self, _now_ns: u64) -> bool {
        false
    }
}

fn station() -> Station<Still> {
    let device = Loopback::new(Address::new(1, 1, 1, 1, "test"));
    Station::new(Still(device), Patience::new(50_000, 1, 2)).unwrap()
}

#[test]
fn a_wait_that_goes_on_learns_the_time() {
    let station = station();
    for _ in 0..3 * WAITS_PER_LOOK {
        let (before, mut told) = (now_ns(), Vec::new());
        let waited = station.wait_briefly(|_, now| {
            told.push(now);
            now >= before
        });
        drop(waited.expect("a wait without a limit ends"));
        assert!(told.is_sorted(), "time does not go back: {told:?}");
    }
}

#[test]
fn of_many_short_waits_one_looks_at_the_clock() {
    let station = station();
    let (mut looks, begun) = (0, now_ns());
    for _ in 0..10 * WAITS_PER_LOOK {
        let before = now_ns();
        let waited = station.wait_briefly(|_, now| {
            looks += u32::from(now >= before);
            true
        });
        drop(waited);
    }
    // The tender's looks come in between, where that took long.
    assert!(looks >= 10, "{looks} in {} ns", now_ns() - begun);
}

#[test]
fn the_tender_keeps_the_time_while_the_program_computes() {
    let station = station();
    let mut told = 0;
    let until = now_ns() + 1_000_000_000;
    // Only the tender looks here: each wait is one of the blind ones, up to the last.
    for _ in 1..WAITS_PER_LOOK {
        let before = told;
        while told == before && now_ns() < until {
            thread::sleep(std::time::Duration::from_nanos(tender::TICK_NS));
            told = station.shared.looked_ns.load(Ordering::Relaxed);
        }
        assert!(told > before, "a second without a look at the clock");
        drop(station.wait_briefly(|_, now| now >= told));
    }
}

#[test]
fn a_wait_that_goes_on_with_another_does_not_look_on_anew() {
    let device = Loopback::new(Address::new(1, 1, 1, 1, "test"));
    let station = Station::new(Still(device), Patience::new(60_000_000_000, 1, 2)).unwrap();
    let mut steps = 0;
    let mut wait = || {
        let waited = station.wait_until(Some(20_000_000), |_, _| {
            steps += 1;
            false
        });
        assert!(waited.is_none(), "nothing came");
    };
    going_on(&mut wait);
    going_on(&mut wait);
    // A look before each sleep, and one after it; a sleep may end early, but not often.
    assert!(steps <= 20 * SPIN_POLLS, "{steps} steps");
}
