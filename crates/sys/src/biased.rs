//! A lock that one thread takes and gives back without a locked instruction.
//!
//! It is *biased* to the thread that takes it most: that one says in a word of its own, its seat,
//! that it is inside, and looks whether it still has the bias. Whoever else comes takes an ordinary
//! lock, takes the bias away, and has a barrier executed on every processor that runs a thread of
//! this process: after that, either the former owner's seat is seen taken, or the owner sees that
//! it has the bias no more. So the costs of an uncontended lock, two locked instructions and the
//! wait for all earlier writes that each of them is, fall on who comes rarely.
//!
//! The idea is that of biased locks for Java (Kawachiya, Koseki, Onodera: "Lock Reservation",
//! OOPSLA 2002) with the asymmetric barriers of `membarrier(2)`.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use threads::{heavy_barrier, light_barrier, number, pause};

/// So many threads of a process may have the bias, one after the other. A seat is never given to
/// another thread: its former owner could be about to take it.
const SEATS: usize = 8;

/// So many times in a row a thread takes the lock before it gets the bias. Four times as often when
/// it was another thread's, up to [`STREAK_MAX`]: to take it away costs microseconds.
const STREAK: u32 = if cfg!(loom) { 1 } else { 16 };
const STREAK_MAX: u32 = 1 << 16;

/// See the module's page.
pub struct BiasedLock<T> {
    /// Who has the bias: its thread's number, and that of its seat in the lowest bits; 0: nobody.
    bias: AtomicUsize,
    /// Whether the thread of each seat is inside, or about to see that it has lost the bias.
    seats: [AtomicU32; SEATS],
    /// Held by whoever is inside without the bias, or changes it.
    queue: Mutex<Queue>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard alone, of which there is one at a time.
unsafe impl<T: Send> Sync for BiasedLock<T> {}
// SAFETY: as a lock around a value.
unsafe impl<T: Send> Send for BiasedLock<T> {}

/// Who takes the lock without the bias.
struct Queue {
    /// No bias is given any more.
    plain: bool,
    /// Whose each seat is.
    owners: [usize; SEATS],
    /// Who was last, and how often in a row.
    last: usize,
    streak: u32,
    /// How often in a row it takes to get the bias.
    wanted: u32,
}

impl Queue {
    /// `thread` has come. Its bias, if it is to have it.
    fn came(&mut self, thread: usize) -> Option<usize> {
        if self.last != thread {
            let had = self.streak >= self.wanted;
            self.wanted = if had { (self.wanted * 4).min(STREAK_MAX) } else { self.wanted };
            (self.last, self.streak) = (thread, 0);
        }
        self.streak = self.streak.saturating_add(1);
        if self.plain || self.streak < self.wanted {
            return None;
        }
        let mut owners = self.owners.iter();
        let seat = owners.position(|&owner| owner == thread || owner == 0)?;
        self.owners[seat] = thread;
        Some(thread | seat)
    }
}

enum Held<'a> {
    Seat(&'a AtomicU32),
    Queue { _queue: MutexGuard<'a, Queue> },
}

/// The value of a lock that is taken, until it is dropped.
pub struct Biased<'a, T> {
    value: &'a UnsafeCell<T>,
    held: Held<'a>,
}

impl<T> BiasedLock<T> {
    /// A lock around `value`; an ordinary one where the kernel has no such barriers. For the first
    /// in a process this takes milliseconds, if it has several threads already.
    pub fn new(value: T) -> BiasedLock<T> {
        BiasedLock::with(value, !threads::have_barriers())
    }

    fn with(value: T, plain: bool) -> BiasedLock<T> {
        let queue = Queue { plain, owners: [0; SEATS], last: 0, streak: 0, wanted: STREAK };
        BiasedLock {
            bias: AtomicUsize::new(0),
            seats: std::array::from_fn(|_| AtomicU32::new(0)),
            queue: Mutex::new(queue),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until nobody else has the lock.
    ///
    /// # Panics
    /// If this thread has it already, as far as that is known: it would wait for ever.
    #[inline]
    pub fn lock(&self) -> Biased<'_, T> {
        let (thread, bias) = (number(), self.bias.load(Ordering::Relaxed));
        if bias & !(SEATS - 1) == thread {
            let seat = &self.seats[bias & (SEATS - 1)];
            assert!(seat.load(Ordering::Relaxed) == 0, "a lock is taken twice by one thread");
            seat.store(1, Ordering::Relaxed);
            light_barrier();
            if self.bias.load(Ordering::Relaxed) == bias {
                return Biased { value: &self.value, held: Held::Seat(seat) };
            }
            seat.store(0, Ordering::Release);
        }
        self.lock_queue(thread)
    }

    #[cold]
    fn lock_queue(&self, thread: usize) -> Biased<'_, T> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let bias = self.bias.load(Ordering::Relaxed);
        if bias & !(SEATS - 1) == thread {
            // It was taken away, and given back: somebody has only tried.
            return self.sit(bias);
        }
        self.take_bias(bias);
        let mut round = 0;
        while !self.is_free(bias) {
            pause(round);
            round += 1;
        }
        match queue.came(thread) {
            // Others who come find the seat taken, so the queue may go on.
            Some(bias) => self.sit(bias),
            None => Biased { value: &self.value, held: Held::Queue { _queue: queue } },
        }
    }

    /// The lock, if it can be had at once. Leaves the bias to its owner who is inside, and has no
    /// influence on who gets it: for those who come now and then.
    pub fn try_lock(&self) -> Option<Biased<'_, T>> {
        let queue = match self.queue.try_lock() {
            Ok(queue) => queue,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let bias = self.bias.load(Ordering::Relaxed);
        if !self.is_free(bias) {
            return None;
        }
        self.take_bias(bias);
        if !self.is_free(bias) {
            self.bias.store(bias, Ordering::Relaxed);
            return None;
        }
        Some(Biased { value: &self.value, held: Held::Queue { _queue: queue } })
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Nobody has the bias any more; who had it is inside still, or knows.
    fn take_bias(&self, bias: usize) {
        if bias != 0 {
            self.bias.store(0, Ordering::Relaxed);
            heavy_barrier();
        }
    }

    /// Whether the owner of a bias is not inside.
    fn is_free(&self, bias: usize) -> bool {
        bias == 0 || self.seats[bias & (SEATS - 1)].load(Ordering::Acquire) == 0
    }

    /// The calling thread, which holds the queue, gets the bias and is inside.
    fn sit(&self, bias: usize) -> Biased<'_, T> {
        let seat = &self.seats[bias & (SEATS - 1)];
        seat.store(1, Ordering::Relaxed);
        self.bias.store(bias, Ordering::Relaxed);
        Biased { value: &self.value, held: Held::Seat(seat) }
    }
}

impl<T> Deref for Biased<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: whoever has a guard is the only one inside.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Biased<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: whoever has a guard is the only one inside.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Drop for Biased<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Held::Seat(seat) = &self.held {
            seat.store(0, Ordering::Release);
        }
    }
}

/// What the lock needs of this process's threads.
#[cfg(not(loom))]
mod threads {
    use std::hint::spin_loop;
    use std::sync::atomic::{Ordering, compiler_fence};
    use std::thread::sleep;
    use std::time::Duration;

    pub(super) use crate::barrier::{everywhere as heavy_barrier, register as have_barriers};
    use crate::cpu;
    pub(super) use crate::cpu::thread as number;

    /// So many times who waits for the owner looks again at once, and so many times more it gives
    /// its processor away; then it naps.
    const SPINS: u32 = 100;
    const YIELDS: u32 = 10;
    const NAP: Duration = Duration::from_micros(50);

    /// Keeps the compiler from moving accesses to memory across.
    #[inline(always)]
    pub(super) fn light_barrier() {
        compiler_fence(Ordering::SeqCst);
    }

    /// The calling thread waits for another one, for the `round`th time in a row.
    pub(super) fn pause(round: u32) {
        match round {
            0..SPINS => spin_loop(),
            _ if round < SPINS + YIELDS => cpu::yield_now(),
            _ => sleep(NAP),
        }
    }
}

/// The same in a model, where both barriers are full ones, of which loom knows.
#[cfg(loom)]
mod threads {
    use loom::sync::atomic::{AtomicUsize, Ordering, fence};

    loom::lazy_static! {
        static ref NUMBERS: AtomicUsize = AtomicUsize::new(0);
    }

    loom::thread_local! {
        static NUMBER: usize = NUMBERS.fetch_add(8, Ordering::Relaxed) + 8;
    }

    pub(super) fn number() -> usize {
        NUMBER.with(|number| *number)
    }

    pub(super) fn have_barriers() -> bool {
        true
    }

    pub(super) fn light_barrier() {
        fence(Ordering::SeqCst);
    }

    pub(super) fn heavy_barrier() {
        fence(Ordering::SeqCst);
    }

    pub(super) fn pause(_round: u32) {
        loom::thread::yield_now();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
