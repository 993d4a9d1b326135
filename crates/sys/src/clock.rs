//! The monotonic clock, and the one of a thread.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock. Costs no system call (the vDSO answers).
#[inline]
pub fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Nanoseconds of processors' time that the calling thread has used. Costs a system call.
pub fn used_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
