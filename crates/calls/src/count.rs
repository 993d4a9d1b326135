//! What is counted of each call. One that is made within another, by the library or by a function
//! of the program that it calls, is part of that one.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weft_ring::ticks;
use weft_sys::clock::now_ns;

use crate::functions::{FINALIZE, FUNCTIONS};
use crate::shown;

/// Calls of a function: how many, and the ticks in them.
struct Sum {
    calls: AtomicU64,
    ticks: AtomicU64,
}

/// The sums of all functions, by their numbers. They are the process's own, and copied into its
/// page now and then, for that is not there in a child made by `fork`.
type Sums = [Sum; FUNCTIONS];

const fn nothing() -> Sums {
    [const { Sum { calls: AtomicU64::new(0), ticks: AtomicU64::new(0) } }; FUNCTIONS]
}

/// Of the thread that made the first call: nobody else writes them, which needs no locked
/// instruction.
static FIRST: Sums = nothing();

/// Of all others.
static OTHERS: Sums = nothing();

/// There is a first thread.
static HAS_FIRST: AtomicBool = AtomicBool::new(false);

/// What a thread is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// It has made no call yet.
    New,
    /// The first of the process.
    First,
    /// Another one.
    Other,
    /// Whichever, it is in a call that is counted.
    InCall,
}

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread::New) };
}

/// The clock by which calls are timed: ticks of the processor's counter, or ns where it has none.
#[inline]
pub fn now() -> u64 {
    match ticks() {
        0 => without_counter(),
        now => now,
    }
}

#[cold]
fn without_counter() -> u64 {
    now_ns()
}

/// How often a function was called, and for how many ticks.
pub fn sum(function: usize) -> (u64, u64) {
    let of = |part: fn(&Sum) -> &AtomicU64| {
        let parts = [&FIRST, &OTHERS].map(|sums| part(&sums[function]).load(Ordering::Relaxed));
        parts[0].wrapping_add(parts[1])
    };
    (of(|sum| &sum.calls), of(|sum| &sum.ticks))
}

/// A call that is under way. Its end is noticed however it comes: it may be left by an exception of
/// C++, or by the end of the thread.
pub struct Call {
    function: usize,
    /// What this thread is, and what it was before.
    own: *const Cell<Thread>,
    thread: Thread,
    began: u64,
}

impl Call {
    /// Of the function with this number.
    #[inline(always)]
    pub fn begins(function: usize) -> Call {
        let (own, mut thread) = THREAD.with(|own| (&raw const *own, own.replace(Thread::InCall)));
        if thread == Thread::New {
            thread = Call::first_of_thread();
        }
        let began = if thread == Thread::InCall { 0 } else { now() };
        Call { function, own, thread, began }
    }

    #[cold]
    fn first_of_thread() -> Thread {
        let other = HAS_FIRST.swap(true, Ordering::Relaxed);
        if other { Thread::Other } else { Thread::First }
    }

    #[inline(always)]
    fn ended(&self) {
        let now = now();
        // Counters of two processors may differ a little.
        let ticks = now.saturating_sub(self.began);
        if self.thread == Thread::First {
            let sum = &FIRST[self.function];
            let add = |to: &AtomicU64, more: u64| {
                to.store(to.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
            };
            add(&sum.calls, 1);
            add(&sum.ticks, ticks);
        } else {
            let sum = &OTHERS[self.function];
            sum.calls.fetch_add(1, Ordering::Relaxed);
            sum.ticks.fetch_add(ticks, Ordering::Relaxed);
        }
        if now >= shown::next() || self.function == FINALIZE {
            shown::show();
        }
    }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        if self.thread != Thread::InCall {
            // SAFETY: a call ends in the thread in which it began (a pointer keeps it there), and
            // that has this, which is not dropped, to its end. To ask for it again costs 2 ns.
            unsafe { &*self.own }.set(self.thread);
            self.ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_within_calls_are_part_of_them_and_threads_have_their_own() {
        let outer = Call::begins(1);
        drop(Call::begins(2));
        std::thread::spawn(|| drop(Call::begins(3))).join().unwrap();
        drop(outer);
        drop(Call::begins(2));
        assert_eq!([1, 2, 3].map(|of| sum(of).0), [1, 1, 1]);
        assert!(sum(1).1 >= sum(3).1, "{:?} {:?}", sum(1), sum(3));
    }

    #[test]
    fn none_of_many_threads_calls_are_lost() {
        let calls = || (0..10_000).for_each(|_| drop(Call::begins(6)));
        std::thread::scope(|scope| {
            (0..4).for_each(|_| _ = scope.spawn(calls));
        });
        assert_eq!(sum(6).0, 40_000);
    }

    #[test]
    fn a_call_that_is_left_by_unwinding_has_ended() {
        let left = std::panic::catch_unwind(|| {
            let _call = Call::begins(4);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(left.is_err());
        drop(Call::begins(5));
        assert_eq!([4, 5].map(|of| sum(of).0), [1, 1]);
    }
}
