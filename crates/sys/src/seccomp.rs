//! Giving system calls up: what a container's seccomp profile does to a program, a program can do
//! to itself. Tests use it to see that refusals are coped with.

use std::io;

/// The number of `membarrier` on this machine.
pub const MEMBARRIER: u32 = libc::SYS_membarrier as u32;

/// The number of `process_vm_readv` on this machine.
pub const PROCESS_VM_READV: u32 = libc::SYS_process_vm_readv as u32;

/// The number of `process_vm_writev` on this machine.
pub const PROCESS_VM_WRITEV: u32 = libc::SYS_process_vm_writev as u32;

const LOAD_WORD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// From now on the kernel answers each of `calls` (at most 100 numbers, as this machine counts
/// them) with `EPERM`, in the calling thread and those that it starts, and in programs that it
/// becomes. There is no way back.
///
/// # Errors
/// When there are too many calls, or the kernel has no seccomp filters.
pub fn refuse(calls: &[u32]) -> io::Result<()> {
    let op = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    if calls.len() > 100 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many calls to refuse"));
    }
    // linux/seccomp.h: the first word that a filter sees is the call's number.
    let mut program = vec![op(LOAD_WORD, 0)];
    for (at, &call) in calls.iter().enumerate() {
        // On a match, jump over the calls left and the return that allows.
        let jt = (calls.len() - at) as u8;
        program.push(libc::sock_filter { code: JUMP_EQUAL, jt, jf: 0, k: call });
    }
    program.push(op(RETURN, libc::SECCOMP_RET_ALLOW));
    program.push(op(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: `filter` and the program it points to live through both calls, which only read them.
    let done = unsafe {
        // Without this promise an unprivileged process may not have a filter.
        match libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) {
            0 => libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter),
            failed => failed,
        }
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_is_refused_and_others_are_not() {
        // The filter holds for the thread that asks for it, so it goes with this one.
        let thread = std::thread::spawn(|| {
            if let Err(error) = refuse(&[libc::SYS_getpriority as u32, PROCESS_VM_READV]) {
                return println!("SKIPPED: no seccomp filters here: {error}");
            }
            // SAFETY: takes numbers only.
            let failed = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
            let error = io::Error::last_os_error();
            assert_eq!((failed, error.raw_os_error()), (-1, Some(libc::EPERM)));
            let into = crate::buf::Buf::from_vec(vec![0; 8]);
            let error = crate::cma::read(std::process::id(), &[(8, 8)], 0, &into, 0, 8);
            assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EPERM));
            assert!(crate::cpu::usable() > 0);
        });
        thread.join().unwrap();
    }
}
