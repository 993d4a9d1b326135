//! A lock that an application may have made needless: with `FI_THREAD_DOMAIN` it promises that no
//! two threads use the objects of a domain at once.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value behind a lock that is only taken where threads may meet.
pub struct Gate<T> {
    lock: Option<Mutex<()>>,
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
    /// `threads`: several may come at once.
    pub fn new(value: T, threads: bool) -> Gate<T> {
        Gate { lock: threads.then(Mutex::default), value: UnsafeCell::new(value) }
    }

    /// Waits for the others. Not to be called by who is inside.
    #[inline]
    pub fn enter(&self) -> Inside<'_, T> {
        let guard =
            self.lock.as_ref().map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
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
