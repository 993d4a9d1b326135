//! Processors, time and other processes, as bare as the kernel gives them.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, futex, sched_getaffinity, sched_setaffinity, sched_yield};
use rustix::time::{ClockId, clock_gettime};

/// The processors that this process may run on, by number.
pub fn usable_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(_) => vec![0],
    }
}

/// Binds this process to the processors with these numbers.
///
/// # Errors
/// When none of them may be used.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu < CpuSet::MAX_CPU {
            set.set(*cpu);
        }
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Processor time that this process has used so far, all threads, user and system, ns.
pub fn cpu_time_ns() -> u64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Has the kernel kill this process as soon as its parent ends, however that ends.
///
/// # Errors
/// What `prctl` says.
pub fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// The cheapest system call there is.
#[inline]
pub fn null_system_call() {
    // SAFETY: takes no argument and only returns a number.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

/// Gives the rest of this process's turn away.
#[inline]
pub fn yield_now() {
    sched_yield();
}

/// One step of a busy wait.
#[inline]
pub fn spin_hint() {
    std::hint::spin_loop();
}

/// Sleeps while `word` has the value `seen`, at most `limit`; shared between processes. Returns on
/// any signal too: the caller looks again.
pub fn futex_wait(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit =
        futex::Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&limit));
}

/// Wakes one sleeper on `word`.
pub fn futex_wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), 1);
}

/// Copies `into.len()` bytes from `address` in the memory of process `pid`; says how many came.
///
/// # Errors
/// When the kernel refuses (`EPERM`: Yama or a container's filter) or the address is not mapped.
pub fn read_process(pid: u32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let pid = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: into.len() };
    // SAFETY: the kernel writes only into `local`, which is exclusively borrowed, and checks the
    // other process's addresses itself.
    let n = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_can_be_read() {
        let from = [5u8; 100];
        let mut into = [0u8; 100];
        match read_process(std::process::id(), from.as_ptr() as u64, &mut into) {
            Ok(n) => assert_eq!((n, into), (100, from)),
            Err(e) => println!("SKIPPED: process_vm_readv is refused here: {e}"),
        }
    }

    #[test]
    fn a_futex_with_another_value_does_not_sleep() {
        futex_wait(&AtomicU32::new(1), 0, Duration::from_secs(60));
    }
}
