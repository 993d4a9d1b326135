//! The monotonic clock.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock. Costs no system call (the vDSO answers).
#[inline]
pub fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
