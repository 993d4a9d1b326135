//! The lock, by threads as they come. `tests/loom.rs` has all orders of small runs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;

use super::*;

/// More than anybody needs to get the bias.
const OFTEN: u32 = 100_000;

type Lock<T> = Arc<BiasedLock<T>>;

fn new<T>(value: T) -> Lock<T> {
    Arc::new(BiasedLock::new(value))
}

/// Gives the calling thread the bias.
fn take_often(lock: &Lock<u64>) {
    (0..OFTEN).for_each(|_| *lock.lock() += 1);
}

#[test]
fn all_that_threads_do_inside_is_there() {
    for plain in [false, true] {
        let lock: Lock<u64> = Arc::new(BiasedLock::with(0, plain));
        let begun = Arc::new(AtomicU32::new(0));
        // More of them than can have a bias. One comes now and then, as a tender does.
        let busy = (0..12).map(|_| {
            let (lock, begun) = (lock.clone(), begun.clone());
            thread::spawn(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                take_often(&lock);
                u64::from(OFTEN)
            })
        });
        let busy: Vec<_> = busy.collect();
        let mut tried = 0;
        while begun.load(Ordering::Relaxed) < 12 || tried < 1000 {
            if let Some(mut value) = lock.try_lock() {
                *value += 1;
                tried += 1;
            }
            thread::yield_now();
        }
        let done: u64 = busy.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(*lock.lock(), done + tried);
    }
}

#[test]
fn biases_that_come_one_after_the_other_are_exclusive() {
    let lock = new(0);
    for _ in 0..20 {
        let (told, hears) = mpsc::channel();
        thread::scope(|scope| {
            let lock = &lock;
            scope.spawn(move || {
                take_often(lock);
                let mut value = lock.lock();
                let before = *value;
                told.send(()).unwrap();
                (0..1000).for_each(|_| thread::yield_now());
                assert_eq!(*value, before, "somebody else was inside");
                *value += 1;
            });
            hears.recv().unwrap();
            take_often(lock);
        });
    }
    assert_eq!(*lock.lock(), 20 * (2 * u64::from(OFTEN) + 1));
}

fn bias<T>(lock: &Lock<T>) -> usize {
    lock.bias.load(Ordering::Relaxed)
}

#[test]
fn who_comes_often_has_the_bias_and_who_tries_takes_it_away() {
    let lock = new(0);
    for _ in 0..20 {
        take_often(&lock);
        // Where the kernel has no such barriers the others alone say something.
        assert!(!threads::have_barriers() || bias(&lock) & !(SEATS - 1) == number());
        thread::scope(|scope| {
            let other = || drop(lock.try_lock().expect("nobody is inside"));
            scope.spawn(other).join().unwrap();
        });
        assert_eq!(bias(&lock), 0);
        drop(lock.lock());
        assert!(!threads::have_barriers() || bias(&lock) != 0, "it has come back");
    }
}

#[test]
fn threads_that_take_turns_soon_leave_the_bias_alone() {
    let lock = new(0);
    for round in 0..100 {
        take_often(&lock);
        let had = bias(&lock);
        thread::scope(|scope| {
            scope.spawn(|| (0..STREAK).for_each(|_| drop(lock.lock()))).join().unwrap();
        });
        assert_eq!(bias(&lock), 0, "{round}: {had:x}");
    }
    let wanted = lock.queue.lock().unwrap().wanted;
    assert!(!threads::have_barriers() || wanted == STREAK_MAX, "{wanted}");
}

#[test]
fn who_only_tries_leaves_alone_who_is_inside() {
    let lock = new(0);
    for inside in [false, true] {
        take_often(&lock);
        let guard = inside.then(|| lock.lock());
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(lock.try_lock().is_none(), inside)).join().unwrap();
        });
        drop(guard);
    }
}

#[test]
fn a_plain_lock_gives_nobody_the_bias() {
    let lock: Lock<u64> = Arc::new(BiasedLock::with(0, true));
    take_often(&lock);
    assert_eq!(bias(&lock), 0);
    drop(lock.try_lock().expect("nobody is inside"));
}

#[test]
fn who_is_inside_is_told_so_instead_of_waiting_for_itself() {
    let lock = new(0);
    take_often(&lock);
    let inside = lock.lock();
    let twice = catch_unwind(AssertUnwindSafe(|| drop(lock.lock())));
    assert!(twice.is_err());
    drop(inside);
    assert_eq!(*lock.lock(), u64::from(OFTEN));
}

#[test]
fn a_panic_inside_leaves_the_lock_usable() {
    let lock = new(0);
    for _ in 0..2 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _inside = lock.lock();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        take_often(&lock);
    }
    let lock = Arc::into_inner(lock).unwrap();
    assert_eq!(lock.into_inner(), 2 * u64::from(OFTEN));
}
