//! Every interleaving, and every order the memory model allows, of small runs.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-sys --release --test loom`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use weft_sys::biased::BiasedLock;

fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(f);
}

type Locked = Arc<BiasedLock<UnsafeCell<u32>>>;

/// Loom sees if two are inside at once.
fn add_inside(lock: &Locked) {
    // SAFETY: the lock makes this access the only one.
    lock.lock().with_mut(|value| unsafe { *value += 1 });
}

#[test]
fn one_at_a_time_has_a_biased_lock() {
    model(|| {
        let lock: Locked = Arc::new(BiasedLock::new(UnsafeCell::new(0)));
        add_inside(&lock);
        let other = lock.clone();
        let other = thread::spawn(move || {
            add_inside(&other);
        });
        add_inside(&lock);
        other.join().unwrap();
        // SAFETY: as above.
        lock.lock().with(|value| assert_eq!(unsafe { *value }, 3));
    });
}

#[test]
fn who_tries_a_biased_lock_is_inside_alone_or_not_at_all() {
    model(|| {
        let lock: Locked = Arc::new(BiasedLock::new(UnsafeCell::new(0)));
        add_inside(&lock);
        let other = lock.clone();
        let other = thread::spawn(move || {
            let inside = other.try_lock();
            // SAFETY: as above.
            inside.map_or(0, |cell| {
                cell.with_mut(|value| unsafe { *value += 1 });
                1
            })
        });
        add_inside(&lock);
        add_inside(&lock);
        let tried = other.join().unwrap();
        // SAFETY: as above.
        lock.lock().with(|value| assert_eq!(unsafe { *value }, 3 + tried));
    });
}
