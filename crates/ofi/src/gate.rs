//! A lock that an application may have made needless: with `FI_THREAD_DOMAIN` it promises that no
//! two threads use the objects of a domain at once.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which threads may meet at the objects of a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// None: the application's promise.
    One,
    /// Any.
    Several,
    /// Those that the MPI library admits. They come by `libweft-mpi.so` as well, past the lock by
    /// which the library keeps its promise: so the promise holds only once [`of_mpi_meet`] says so.
    OfMpi,
}

/// Whether the MPI library may admit several threads at once.
static OF_MPI_MEET: AtomicBool = AtomicBool::new(true);

/// The MPI library has said whether it admits several threads at once. Called by one of them, with
/// no other in a gate.
pub fn of_mpi_meet(meet: bool) {
    OF_MPI_MEET.store(meet, Ordering::Relaxed);
}

/// A value behind a lock that is only taken where threads may meet. (Two atomic operations each
/// time: with them 8 bytes there and back in a node took 0.38 us with MPICH, 0.34 without.)
pub struct Gate<T> {
    threads: Threads,
    lock: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `enter` alone, by one thread at a time: because of the lock,
// or by the application's promise.
unsafe impl<T: Send> Sync for Gate<T> {}

/// The only user of a [`Gate`]'s value, until it is dropped.
pub struct Inside<'a, T> {
    value: &'a mut T,
    _guard: Option<MutexGuard<'a, ()>>,
}

impl<T> Gate<T> {
    pub fn new(value: T, threads: Threads) -> Gate<T> {
        Gate { threads, lock: Mutex::default(), value: UnsafeCell::new(value) }
    }

    /// Waits for the others. Not to be called by who is inside.
    #[inline]
    pub fn enter(&self) -> Inside<'_, T> {
        let meet = match self.threads {
            Threads::One => false,
            Threads::Several => true,
            Threads::OfMpi => OF_MPI_MEET.load(Ordering::Relaxed),
        };
        let guard = meet.then(|| self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: nobody else is inside: see the `Sync` of this type. Within one thread, the crate
        // never enters a gate that it is inside of.
        Inside { value: unsafe { &mut *self.value.get() }, _guard: guard }
    }
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for Inside<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_locked_inside(gate: &Gate<u32>) -> bool {
        let _inside = gate.enter();
        gate.lock.try_lock().is_err()
    }

    #[test]
    fn the_lock_is_taken_where_threads_may_meet() {
        let [one, several, of_mpi] =
            [Threads::One, Threads::Several, Threads::OfMpi].map(|threads| Gate::new(0, threads));
        for meet in [true, false, true] {
            of_mpi_meet(meet);
            let locked = [&one, &several, &of_mpi].map(is_locked_inside);
            assert_eq!(locked, [false, true, meet]);
        }
    }
}
