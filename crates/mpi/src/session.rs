//! One session for all ranks of a machine. Hydra, MPICH's launcher, gives each rank one of its own,
//! and so it does with its helpers. By sessions Linux shares out processors where nobody has set up
//! control groups (autogroups): a rank that yields while it waits then gives way to none but its
//! own threads, and ranks whose threads yield take the processor from others for seconds (Linux
//! 6.18; measured: collective operations of 8 ranks with four threads each on 2 cores in 2 s rather
//! than 30, and one run in three ended since a rank was taken for dead).

use std::ffi::CStr;

unsafe extern "C" {
    /// The name by which this program was called, without its directory: glibc's and musl's.
    static program_invocation_short_name: *const libc::c_char;
}

/// Set where Hydra starts its helpers in a lab of this machine; elsewhere it does by ssh, which
/// must not find a terminal.
const IN_LAB: &CStr = c"LAB_NAME";

/// `setsid`: what Hydra starts on this machine gets a process group in Hydra's session, by which
/// Hydra finds all processes of a rank as well. In all other programs what it is everywhere.
#[unsafe(no_mangle)]
pub extern "C" fn setsid() -> libc::pid_t {
    if !is_hydra() {
        // SAFETY: touches no memory. By its number, for its name leads here.
        return unsafe { libc::syscall(libc::SYS_setsid) } as libc::pid_t;
    }
    // SAFETY: neither touches memory.
    unsafe {
        match libc::setpgid(0, 0) {
            0 => libc::getpid(),
            failed => failed,
        }
    }
}

/// Whether this is Hydra, about to start something on this machine.
fn is_hydra() -> bool {
    // SAFETY: set by the C library before the program starts, to a text or to nothing.
    let name = unsafe { program_invocation_short_name };
    if name.is_null() {
        return false;
    }
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    // SAFETY: a text that ends in a zero byte.
    let in_lab = || !unsafe { libc::getenv(IN_LAB.as_ptr()) }.is_null();
    name == b"hydra_pmi_proxy" || (name.starts_with(b"mpiexec") && in_lab())
}
