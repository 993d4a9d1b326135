//! Child processes: where they run, how they end, and signals as something to read.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;

use crate::ns::Enter;

/// What a child does between fork and exec.
#[derive(Default)]
pub struct Setup {
    /// The namespaces it runs in.
    pub enter: Option<Enter>,
    /// The processors it may run on.
    pub cpus: Option<CpuSet>,
    /// Descriptors it inherits, under the same numbers.
    pub inherit: Vec<OwnedFd>,
    /// Whether it is killed when the thread that started it ends, however that ends.
    pub dies_with_parent: bool,
    /// Whether it starts a process group of its own, so that all its children can be signalled.
    pub own_group: bool,
    /// Whether it starts a session of its own, away from the terminal.
    pub own_session: bool,
    /// Whether writing to what nobody reads is an error for it and does not end it.
    pub outlives_readers: bool,
}

impl Setup {
    /// Does it all in the calling process. Makes system calls only.
    fn apply(&self, parent: Option<Pid>) -> io::Result<()> {
        if self.own_session {
            rustix::process::setsid()?;
        } else if self.own_group {
            rustix::process::setpgid(None, None)?;
        }
        if let Some(cpus) = &self.cpus {
            rustix::thread::sched_setaffinity(None, cpus)?;
        }
        for fd in &self.inherit {
            rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
        }
        if let Some(enter) = &self.enter {
            enter.enter()?;
        }
        if self.outlives_readers {
            // SAFETY: no function is installed.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        // Last, because a change of rights resets it.
        if self.dies_with_parent {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before the line above took effect.
            if parent.is_some_and(|p| rustix::process::getppid() != Some(p)) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        Ok(())
    }
}

/// Starts `command` as a child, set up as said.
///
/// # Errors
/// When the program does not exist, or a step of the set-up is refused.
pub fn spawn(command: &mut Command, setup: Setup) -> io::Result<Child> {
    let parent = Some(rustix::process::getpid());
    // A child in another pid namespace would not see its parent's number; Weft makes none.
    // SAFETY: `apply` makes system calls only: no allocation, no lock.
    unsafe { command.pre_exec(move || unblock().and_then(|()| setup.apply(parent))) };
    command.spawn()
}

/// Lets all signals through to this thread: what [`Signals`] takes, a child would inherit as
/// blocked, and could then be ended by nothing but SIGKILL. Makes system calls only.
fn unblock() -> io::Result<()> {
    let mut none = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, pthread_sigmask reads it.
    let error = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Becomes `command`, set up as said; the process must have one thread only. Returns only on
/// errors.
pub fn replace(command: &mut Command, setup: &Setup) -> io::Error {
    match setup.apply(None) {
        Ok(()) => command.exec(),
        Err(error) => error,
    }
}

/// Signals that arrive as something to read instead of interrupting.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// From now on these signals (numbers, as `SIGINT` is 2) are to be read here by the calling
    /// thread and those it starts later. Children of [`spawn`] start with no signal blocked.
    ///
    /// # Errors
    /// When a number is not a signal's, or no descriptor is left.
    pub fn take(signals: &[i32]) -> io::Result<Signals> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set, the other calls read it; the descriptor that
        // signalfd gives is ours alone.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for &signal in signals {
                if libc::sigaddset(set.as_mut_ptr(), signal) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            let set = set.assume_init();
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { fd: OwnedFd::from_raw_fd(fd) })
        }
    }

    /// The next signal that has come, by its number.
    ///
    /// # Errors
    /// When the descriptor fails, which it does not do by itself.
    pub fn next(&self) -> io::Result<Option<i32>> {
        // The structure signalfd_siginfo has 128 bytes and begins with the signal's number.
        let mut info = [0; 128];
        match rustix::io::read(&self.fd, &mut info) {
            Ok(_) => Ok(Some(i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether this process may change network interfaces (CAP_NET_ADMIN).
pub fn may_administer() -> bool {
    const NET_ADMIN: u64 = 1 << 12;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    rights.is_some_and(|rights| rights & NET_ADMIN != 0)
}

/// Sends a signal to a process, or with `group` to all of its process group. Says whether there was
/// somebody to get it.
pub fn signal(pid: u32, group: bool, number: i32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    // One is the machine's own first process; zero and negative numbers mean many.
    if pid <= 1 {
        return false;
    }
    // SAFETY: takes numbers only.
    unsafe { libc::kill(if group { -pid } else { pid }, number) == 0 }
}

/// When a process was started, in ticks since boot: with the process id it names a process for
/// good.
/// `None` when there is no such process, or it has ended and waits for its parent.
pub fn start_time(pid: u32) -> Option<u64> {
    let (state, started) = state_and_start(pid)?;
    (!matches!(state, 'Z' | 'X')).then_some(started)
}

/// Whether the process of that number and start is ending: the kernel takes its memory from one
/// thread after the other, and what only its last thread keeps is kept until that one has run. Its
/// parent may have to be told yet, too.
pub fn is_ending(pid: u32, started: u64) -> bool {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm"));
    pages.is_ok_and(|pages| pages.starts_with("0 "))
        && state_and_start(pid).is_some_and(|(_, start)| start == started)
}

/// What a process does, by the kernel's letter, and when it was started.
fn state_and_start(pid: u32) -> Option<(char, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may hold anything; the fields are counted after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// A second descriptor for one that this process inherited under the number `fd`, not inherited
/// further. The number comes from outside: it may be anything.
///
/// # Errors
/// When no descriptor of that number is open.
pub fn inherited(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: fcntl checks the number itself; the new descriptor is ours alone.
    unsafe {
        let new = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3);
        if new < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(new)) }
    }
}

/// Waits until `fd` can be read, or with `write` written, at most `limit`. `false`: time is over.
///
/// # Errors
/// When the descriptor cannot be waited for.
pub fn ready(fd: impl AsFd, write: bool, limit: Duration) -> io::Result<bool> {
    let end = Instant::now() + limit;
    let flags = if write { PollFlags::OUT } else { PollFlags::IN };
    loop {
        let left = end.saturating_duration_since(Instant::now()).try_into().ok();
        match rustix::event::poll(&mut [PollFd::new(&fd, flags)], left.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until a process of this node has ended, at most `limit`; says whether it has.
pub fn await_end(pid: u32, limit: Duration) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else { return true };
    match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        Ok(process) => ready(process, false, limit).unwrap_or(false),
        Err(error) => error == Errno::SRCH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ending_from_its_end_until_its_parent_knows() {
        let mut child = spawn(Command::new("sleep").arg("1000"), Setup::default()).unwrap();
        let (id, started) = (child.id(), start_time(child.id()).unwrap());
        assert!(!is_ending(id, started));
        child.kill().unwrap();
        assert!(await_end(id, Duration::from_secs(60)));
        assert!(is_ending(id, started) && !is_ending(id, started + 1));
        child.wait().unwrap();
        assert!(!is_ending(id, started));
    }

    #[test]
    fn a_child_gets_the_signals_that_its_parent_reads() {
        let _signals = Signals::take(&[libc::SIGTERM]).unwrap();
        let mut child = spawn(Command::new("sleep").arg("1000"), Setup::default()).unwrap();
        assert!(signal(child.id(), false, libc::SIGTERM));
        let ended = await_end(child.id(), Duration::from_secs(60));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ended, "SIGTERM was blocked");
    }

    #[test]
    fn a_process_is_waited_for_until_it_has_ended() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(!await_end(child.id(), Duration::from_millis(1)));
        child.kill().unwrap();
        assert!(await_end(child.id(), Duration::from_secs(60)), "though nobody has taken its end");
        let id = child.id();
        child.wait().unwrap();
        assert!(await_end(id, Duration::ZERO));
    }
}
