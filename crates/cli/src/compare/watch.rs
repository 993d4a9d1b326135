//! How the two processors that measure stand to each other while they do. The host of a virtual
//! machine may put its two processors on two threads of one core, on two cores that share a cache,
//! or on two that do not, and change that at any time. A cache line then takes some 50, 100 or 500
//! ns there and back, and figures of two processes double or halve with it. So the way is measured
//! all the time, and figures are compared that were taken when it was the same.
//!
//! Two threads, one on each processor, meet a hundred times a second for some 10 us: that takes a
//! thousandth of what is measured meanwhile, whoever measures.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use weft_sys::clock::now_ns;
use weft_sys::floor::{null_system_call, pin, spin_hint, usable_cpus};

use crate::bench::figure::median;

/// How often the two meet.
const PERIOD_NS: u64 = 10_000_000;
/// How long one waits for the other, who may have to wait for its processor.
const PATIENCE_NS: u64 = 100_000;
/// Words there and back of a meeting: the best of so many times so many.
const BATCHES: u64 = 4;
const BATCH: u64 = 8;
/// System calls that are timed together, the best of as many times.
const CALLS: u64 = 16;
/// Ways that differ by less than this factor are the same one.
const SAME: f64 = 1.4;
/// System calls that differ by less than this factor take equally long.
const LITTLE_MORE: f64 = 1.1;

/// What a meeting found.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    at_ns: u64,
    state: State,
}

/// How the processors stood.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// A cache line from one to the other and back.
    pub way_ns: f64,
    /// The cheapest system call, on the slower of the two.
    pub call_ns: f64,
}

/// A word in a line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// What the two threads share.
#[derive(Default)]
struct Meeting {
    there: Line,
    back: Line,
    /// The second processor's system call: ns, as the bits of a number.
    call: Line,
    over: AtomicBool,
    samples: Mutex<Vec<Sample>>,
}

/// Watches from [`Watch::start`] until it is dropped.
pub struct Watch {
    meeting: Arc<Meeting>,
    threads: Vec<JoinHandle<()>>,
}

impl Watch {
    /// Begins; `None` where there is only one processor.
    pub fn start() -> Option<Watch> {
        // Those on which the benchmarks put their first two ranks.
        let [first, second, ..] = usable_cpus()[..] else { return None };
        let meeting = Arc::new(Meeting::default());
        let seat = |cpu: usize, part: fn(&Meeting)| {
            let meeting = Arc::clone(&meeting);
            spawn(move || {
                if pin(&[cpu]).is_ok() {
                    part(&meeting);
                }
            })
        };
        let threads = vec![seat(first, Meeting::leads), seat(second, Meeting::follows)];
        Some(Watch { meeting, threads })
    }

    /// How the processors stood most of the time; `None` as long as nothing is known.
    pub fn usual_way_ns(&self) -> Option<f64> {
        let samples = self.meeting.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let ways = samples.iter().map(|sample| sample.state.way_ns);
        (!samples.is_empty()).then(|| median(ways))
    }

    /// How they stood between two times, if they met there.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> Option<State> {
        let samples = self.meeting.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = samples.partition_point(|sample| sample.at_ns < from_ns);
        let end = samples.partition_point(|sample| sample.at_ns <= to_ns);
        let those = samples.get(begin..end).filter(|those| !those.is_empty())?;
        let of = |number: fn(&State) -> f64| median(those.iter().map(|s| number(&s.state)));
        Some(State { way_ns: of(|s| s.way_ns), call_ns: of(|s| s.call_ns) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.meeting.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl State {
    /// Whether the way is the usual one.
    pub fn is_usual(&self, usual_way_ns: f64) -> bool {
        let times = self.way_ns / usual_way_ns;
        (1.0 / SAME..SAME).contains(&times)
    }
}

/// Which rounds of a figure count, by how the processors stood in each: those with the usual way;
/// and of these the ones in which system calls took little more than in the best, for a processor
/// by itself is slower while the host has its core do something else. At least a third of them, so
/// that one alone does not decide; and all there are where nothing is known.
pub fn those_that_count(states: &[Option<State>], usual_way_ns: f64) -> Vec<usize> {
    let usual = |at: &usize| states[*at].is_some_and(|state| state.is_usual(usual_way_ns));
    let mut those: Vec<usize> = (0..states.len()).filter(usual).collect();
    let call = |at: usize| states[at].map_or(f64::INFINITY, |state| state.call_ns);
    those.sort_by(|a, b| call(*a).total_cmp(&call(*b)));
    let Some(&best) = those.first() else { return (0..states.len()).collect() };
    let as_fast = those.partition_point(|at| call(*at) <= call(best) * LITTLE_MORE);
    those.truncate(as_fast.max(those.len().div_ceil(3)));
    those
}

/// The next time to meet, after sleeping until then; `None` when the watch is over.
fn next(over: &AtomicBool) -> Option<u64> {
    let now = now_ns();
    let at = (now / PERIOD_NS + 1) * PERIOD_NS;
    sleep(Duration::from_nanos(at - now));
    (!over.load(Ordering::Relaxed)).then_some(at)
}

/// The word of one step of the meeting at this time.
fn word(at: u64, step: u64) -> u64 {
    (at / PERIOD_NS) << 8 | step
}

/// Waits for a word; `false` if it did not come in time.
fn comes(line: &Line, word: u64, until_ns: u64) -> bool {
    loop {
        // The clock is not read every time, for that takes as long as the word may.
        for _ in 0..64 {
            if line.0.load(Ordering::Acquire) == word {
                return true;
            }
            spin_hint();
        }
        if now_ns() > until_ns {
            return false;
        }
    }
}

/// What the cheapest system call takes on this processor, ns.
fn call_ns() -> f64 {
    let once = || {
        let begun = now_ns();
        (0..CALLS).for_each(|_| null_system_call());
        (now_ns() - begun) as f64 / CALLS as f64
    };
    (0..BATCHES).map(|_| once()).fold(f64::INFINITY, f64::min)
}

impl Meeting {
    fn leads(&self) {
        while let Some(at) = next(&self.over) {
            let until = now_ns() + PATIENCE_NS;
            let step = |step: u64| {
                self.there.0.store(word(at, step), Ordering::Release);
                comes(&self.back, word(at, step), until)
            };
            if !step(0) {
                continue;
            }
            let mut best = f64::INFINITY;
            let whole = (0..BATCHES).all(|batch| {
                let begun = now_ns();
                let all = (1..=BATCH).all(|word| step(batch * BATCH + word));
                best = best.min((now_ns() - begun) as f64 / BATCH as f64);
                all
            });
            if whole {
                let theirs = f64::from_bits(self.call.0.load(Ordering::Relaxed));
                let state = State { way_ns: best, call_ns: call_ns().max(theirs) };
                let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
                samples.push(Sample { at_ns: at, state });
            }
        }
    }

    fn follows(&self) {
        while let Some(at) = next(&self.over) {
            let until = now_ns() + PATIENCE_NS;
            let whole = (0..=BATCHES * BATCH).all(|step| {
                let came = comes(&self.there, word(at, step), until);
                if came {
                    self.back.0.store(word(at, step), Ordering::Release);
                }
                came
            });
            if whole {
                self.call.0.store(call_ns().to_bits(), Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_with_the_usual_way_count_and_of_these_the_fast_ones() {
        let state = |way_ns, call_ns| Some(State { way_ns, call_ns });
        let all = [
            state(90.0, 220.0),
            state(500.0, 150.0),
            state(100.0, 170.0),
            None,
            state(110.0, 160.0),
            state(50.0, 140.0),
        ];
        assert_eq!(those_that_count(&all, 100.0), [4, 2]);
        // One that was alone with its speed is not alone.
        let alone = [150.0, 220.0, 200.0, 210.0].map(|call| state(100.0, call));
        assert_eq!(those_that_count(&alone, 100.0), [0, 2]);
        assert_eq!(those_that_count(&all[..1], 100.0), [0]);
        // Better than nothing.
        assert_eq!(those_that_count(&all[..2], 1000.0), [0, 1]);
        assert_eq!(those_that_count(&[None], 100.0), [0]);
    }

    #[test]
    fn what_was_found_between_two_times_is_found_again() {
        let Some(watch) = Watch::start() else {
            eprintln!("skipped: one processor");
            return;
        };
        let begun = now_ns();
        let found = || watch.between(begun, now_ns());
        while found().is_none() && now_ns() < begun + 20_000_000_000 {
            sleep(Duration::from_millis(5));
        }
        let state = found().expect("they meet within 20 s");
        assert!(state.way_ns > 0.0 && state.call_ns > 0.0, "{state:?}");
        assert!(watch.usual_way_ns().is_some());
        assert_eq!(watch.between(0, 1), None);
    }
}
