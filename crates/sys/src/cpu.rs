//! Processors, and which node this is.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Lets another thread run on this processor, if one wants to.
#[inline]
pub fn yield_now() {
    rustix::thread::sched_yield();
}

/// The same; whether one did. Costs three system calls. Time that passes here says less: on a
/// virtual machine the host may have taken the processor away.
pub fn give_way() -> bool {
    let before = displaced();
    yield_now();
    displaced() != before
}

/// How often this thread has lost its processor to another one though it could have gone on.
fn displaced() -> libc::c_long {
    // SAFETY: all zeros are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage`.
    let done = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    if done == 0 { usage.ru_nivcsw } else { 0 }
}

/// The shortest turn that the kernel grants.
const SHORT_TURN_NS: u64 = 100_000;

/// Asks for short turns on the processor for this thread, where its policy is an ordinary one: its
/// share stays the same, but a yield gives up no more than a turn (three milliseconds if nothing is
/// asked), and who wakes up goes before those with long ones. Needs no rights. Linux before 6.12
/// does nothing of it.
///
/// # Errors
/// When the kernel refuses, as some sandboxes do.
pub fn take_short_turns() -> io::Result<()> {
    // SAFETY: all zeros are a valid `sched_attr`.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: the kernel writes at most `size` bytes.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    let ordinary = [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(attr.sched_policy as i32));
    if !ordinary || (1..=SHORT_TURN_NS).contains(&attr.sched_runtime) {
        return Ok(());
    }
    attr.sched_runtime = SHORT_TURN_NS;
    // SAFETY: the kernel reads the structure, whose size is in it.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A number for this thread that no other living one has: an address, which is a multiple of 8.
#[inline(always)]
pub fn thread() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let block: usize;
        // SAFETY: the first word of a thread's control block is its own address, by the ABI.
        unsafe {
            std::arch::asm!("mov {}, fs:[0]", out(reg) block,
                options(nostack, preserves_flags, readonly));
        }
        block
    }
    #[cfg(target_arch = "aarch64")]
    {
        let block: usize;
        // SAFETY: reads the register that says where the thread's control block is.
        unsafe {
            std::arch::asm!("mrs {}, tpidr_el0", out(reg) block,
                options(nostack, preserves_flags, nomem));
        }
        block
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        thread_local!(static HERE: u64 = const { 0 });
        HERE.with(|here| std::ptr::from_ref(here).addr())
    }
}

/// Bytes of a cache line, or a divisor of it.
pub(crate) const CACHE_LINE: usize = 64;

/// Has a cache line come while something else is done. Whatever `at` points to, nothing is
/// accessed.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which touches no memory; all x86-64 processors know it.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, which touches no memory, register or flag.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Has the lines of the first `most` of these bytes come while something else is done: of what
/// another processor has written, each takes some 10 ns if nothing else is done meanwhile.
#[inline]
pub(crate) fn prefetch_bytes(bytes: &[u8], most: usize) {
    bytes[..bytes.len().min(most)].chunks(CACHE_LINE).for_each(|line| prefetch(line.as_ptr()));
}

/// The processors that this thread may run on.
///
/// # Errors
/// When the kernel refuses.
pub fn affinity() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Lets this thread run on `cpus` only.
///
/// # Errors
/// When none of them can be used by this process.
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// How many processors this process can keep busy at once: those that it may run on, or fewer where
/// its control group has a quota. At least 1.
pub fn usable() -> usize {
    let allowed = affinity().map_or(1, |cpus| cpus.len());
    quota().map_or(allowed, |quota| quota.min(allowed)).max(1)
}

/// How many processors the processes of this control group can keep busy at once, whichever of them
/// each is bound to. At least 1.
pub fn shared() -> usize {
    // SAFETY: the call has no preconditions and touches no memory of ours.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let online = usize::try_from(online).unwrap_or(1);
    quota().map_or(online, |quota| quota.min(online)).max(1)
}

/// Whether Linux shares out the processors among sessions (autogroups) here, as it does among
/// processes that are in no control group of their own for processors. Threads that yield give way
/// to none but their own session's then.
pub fn by_session() -> bool {
    let on = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    on.is_ok_and(|on| on.trim() == "1")
        && !in_group_for_cpu(&groups)
        // The root has no weight.
        && !control_groups().iter().any(|group| group.join("cpu.weight").exists())
}

/// Whether a process is in a control group of version 1 for processors, other than the root.
fn in_group_for_cpu(groups: &str) -> bool {
    groups.lines().any(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (kinds, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        kinds.split(',').any(|kind| kind == "cpu") && path != "/"
    })
}

/// The smallest quota of the control groups that this process is in, rounded up to processors.
fn quota() -> Option<usize> {
    let limit = |group: &PathBuf| fs::read_to_string(group.join("cpu.max")).ok();
    control_groups().iter().filter_map(limit).filter_map(|limit| parse_quota(&limit)).min()
}

/// The directories of the control groups (version 2) that this process is in, the root last.
fn control_groups() -> Vec<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(path) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
        return Vec::new();
    };
    let path = Path::new(path.trim_matches('/'));
    path.ancestors().map(|group| Path::new("/sys/fs/cgroup").join(group)).collect()
}

/// `cpu.max`: microseconds of processor time, or `max`, in a period of so many microseconds.
fn parse_quota(limit: &str) -> Option<usize> {
    let (quota, period) = limit.trim().split_once(' ')?;
    let (quota, period) = (quota.parse::<usize>().ok()?, period.parse::<usize>().ok()?);
    (period > 0).then(|| quota.div_ceil(period))
}

/// A number for this node: one network namespace of one booted kernel. Processes that get the same
/// number can share memory, and find each other by abstract unix names.
///
/// # Errors
/// When `/proc` is not there.
pub fn node_id() -> io::Result<u64> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id")?;
    let net = fs::metadata("/proc/thread-self/ns/net")?;
    let place = [net.dev().to_le_bytes(), net.ino().to_le_bytes()];
    Ok(hash(boot.iter().chain(place.as_flattened())))
}

/// FNV-1a, with splitmix64's last step so that all bits depend on all bytes. Not for secrets.
fn hash<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
    let mut h = bytes.fold(0xcbf2_9ce4_8422_2325, step);
    h = (h ^ h >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ h >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ h >> 31
}

/// Fills `bytes` with random ones, fit for secrets.
///
/// # Errors
/// When the kernel has no random numbers to give.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        done += rustix::rand::getrandom(&mut bytes[done..], flags)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_is_what_was_set() {
        let before = affinity().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                set_affinity(&before[..1]).unwrap();
                assert_eq!(affinity().unwrap(), before[..1]);
                assert_eq!(usable(), 1);
            });
        });
        assert!(set_affinity(&[]).is_err());
    }

    #[test]
    fn living_threads_have_different_numbers() {
        let (mine, barrier) = (thread(), std::sync::Barrier::new(8));
        let number = || {
            let number = thread();
            barrier.wait();
            assert_eq!(number, thread());
            number
        };
        let mut all = std::thread::scope(|scope| {
            let threads = [(); 8].map(|()| scope.spawn(number));
            threads.map(|thread| thread.join().unwrap()).to_vec()
        });
        all.push(mine);
        assert!(all.iter().all(|number| *number != 0 && number.is_multiple_of(8)), "{all:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 9);
    }

    #[test]
    fn short_turns_leave_policy_and_niceness_as_they_are() {
        let told = || {
            let file = fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
            let about = |l: &&str| l.starts_with("policy") || l.starts_with("prio");
            file.lines().filter(about).map(String::from).collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let before = told();
                take_short_turns().unwrap();
                take_short_turns().unwrap();
                assert_eq!(told(), before);
            });
        });
    }

    #[test]
    fn groups_for_processors_are_told_from_others() {
        assert!(in_group_for_cpu("2:memory:/\n4:cpu,cpuacct:/docker/7f:1\n0::/"));
        assert!(!in_group_for_cpu("3:cpuset:/a\n2:cpuacct:/a\n1:cpu:/\n0::/user.slice"));
    }

    #[test]
    fn quotas_are_rounded_up() {
        assert_eq!(parse_quota("150000 100000\n"), Some(2));
        assert_eq!(parse_quota("max 100000\n"), None);
        assert_eq!(parse_quota("1 0"), None);
    }

    #[test]
    fn the_node_stays_the_same_and_random_bytes_do_not() {
        assert_eq!(node_id().unwrap(), node_id().unwrap());
        let (mut a, mut b) = ([0; 16], [0; 16]);
        random(&mut a).unwrap();
        random(&mut b).unwrap();
        assert_ne!(a, b);
    }
}
