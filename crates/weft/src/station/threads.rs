//! What the lock on a station needs of the threads of this process.

use std::hint::spin_loop;
use std::sync::atomic::{Ordering, compiler_fence};
use std::thread::sleep;
use std::time::Duration;

use weft_ring::Surroundings;
use weft_sys::{barrier, cpu};

/// So many times who waits for the lock's owner looks again at once, and so many times more it
/// gives its processor away; then it naps.
const SPINS: u32 = 100;
const YIELDS: u32 = 10;
const NAP: Duration = Duration::from_micros(50);

/// The threads of this process.
pub(super) struct Threads;

impl Surroundings for Threads {
    #[inline]
    fn thread() -> usize {
        cpu::thread()
    }

    #[inline]
    fn light_barrier() {
        compiler_fence(Ordering::SeqCst);
    }

    fn heavy_barrier() {
        barrier::everywhere();
    }

    fn wait(round: u32) {
        match round {
            0..SPINS => spin_loop(),
            _ if round < SPINS + YIELDS => cpu::yield_now(),
            _ => sleep(NAP),
        }
    }
}
