//! Cross-memory attach: copying straight between another process's memory and this one's, one copy,
//! with no help from the other process. The kernel allows it to whoever could trace that process:
//! same user, unless a container's seccomp filter or Yama (`kernel.yama.ptrace_scope`) forbids it.

use std::io;

use crate::buf::Buf;

/// Most pieces of memory on each side of one call.
const MAX_PIECES: usize = 64;

/// Memory of another process: address and bytes, as that process counts.
pub type Remote = (u64, u64);

/// Copies up to `len` bytes of process `pid` into `into`, from byte `at` on, and says how many:
/// fewer where either side's pieces end, where there are very many of them, or where the other's
/// memory ends. The remote bytes are those of the row `remote`, from byte `from` on.
///
/// # Errors
/// `EPERM` or `ENOSYS`: not allowed here. `ESRCH`: there is no such process any more. `EFAULT`: the
/// first byte is not readable there.
pub fn read(
    pid: u32,
    remote: &[Remote],
    from: u64,
    into: &Buf,
    at: usize,
    len: usize,
) -> io::Result<usize> {
    copy(libc::process_vm_readv, pid, (remote, from), (into, at), len)
}

/// Copies up to `len` bytes of `from`, from byte `at` on, into process `pid`, and says how many:
/// fewer as in [`read`]. They go to the bytes of the row `remote`, from byte `to` on. Whoever calls
/// it has been told by that process where it expects them.
///
/// # Errors
/// As [`read`].
pub fn write(
    pid: u32,
    remote: &[Remote],
    to: u64,
    from: &Buf,
    at: usize,
    len: usize,
) -> io::Result<usize> {
    copy(libc::process_vm_writev, pid, (remote, to), (from, at), len)
}

/// `process_vm_readv` or `process_vm_writev`.
type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// One of the two calls, for up to `len` bytes of both rows, each from a byte of its own on.
fn copy(
    call: Call,
    pid: u32,
    (remote, from): (&[Remote], u64),
    (buf, at): (&Buf, usize),
    len: usize,
) -> io::Result<usize> {
    let mut theirs = [EMPTY; MAX_PIECES];
    let row = remote.iter().map(|&(addr, len)| (addr as usize, len as usize));
    let (their_count, their_len) = cut(row, from as usize, len, &mut theirs);
    let mut ours = [EMPTY; MAX_PIECES];
    let row = buf.pieces().map(|piece| (piece.addr(), piece.len()));
    let (our_count, our_len) = cut(row, at, their_len, &mut ours);
    if our_len == 0 {
        return Ok(0);
    }
    // The kernel copies as much as both rows hold, so ours alone sets the limit.
    // SAFETY: our pieces lie inside `buf`, which vouches for being readable and writable; both
    // arrays have as many entries as is said. The remote addresses are checked by the kernel, and
    // what is written there is that process's own concern: it has asked for the bytes.
    let done = unsafe {
        call(
            pid as libc::pid_t,
            ours.as_ptr(),
            our_count as libc::c_ulong,
            theirs.as_ptr(),
            their_count as libc::c_ulong,
            0,
        )
    };
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

const EMPTY: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// Cuts `len` bytes from byte `skip` on out of a row of pieces; gives how many pieces that makes
/// and how many bytes they have.
fn cut(
    row: impl Iterator<Item = (usize, usize)>,
    mut skip: usize,
    len: usize,
    out: &mut [libc::iovec; MAX_PIECES],
) -> (usize, usize) {
    let (mut count, mut got) = (0, 0);
    for (addr, piece) in row {
        if skip >= piece {
            skip -= piece;
            continue;
        }
        if count == MAX_PIECES || got == len {
            break;
        }
        let take = (piece - skip).min(len - got);
        let base = addr.wrapping_add(skip) as *mut libc::c_void;
        out[count] = libc::iovec { iov_base: base, iov_len: take };
        (count, got, skip) = (count + 1, got + take, 0);
    }
    (count, got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_ranges_across_pieces_of_both_sides() {
        let (a, b) = (*b"abcdef", *b"ghij");
        let remote = [(a.as_ptr() as u64, 6), (b.as_ptr() as u64, 4)];
        let into = Buf::from_vec(vec![0; 8]);
        let pid = std::process::id();
        match read(pid, &remote, 2, &into, 1, 100) {
            Ok(done) => assert_eq!(done, 7),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                return eprintln!("SKIPPED: cross-memory attach is refused here: {error}");
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(into.into_vec().unwrap(), b"\0cdefghi");
    }

    #[test]
    fn writes_ranges_across_pieces_of_both_sides() {
        let into = Buf::from_vec(vec![0; 10]);
        let to = into.pieces().next().unwrap().addr() as u64;
        let remote = [(to, 6), (to + 6, 3)];
        let from = Buf::from_vec(b"abcdefghij".to_vec());
        match write(std::process::id(), &remote, 4, &from, 1, 100) {
            Ok(done) => assert_eq!(done, 5),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                return eprintln!("SKIPPED: cross-memory attach is refused here: {error}");
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(into.into_vec().unwrap(), b"\0\0\0\0bcdef\0");
    }

    #[test]
    fn a_bad_address_and_a_missing_process_are_errors() {
        let into = Buf::from_vec(vec![0; 8]);
        let error = read(std::process::id(), &[(8, 8)], 0, &into, 0, 8).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::EFAULT | libc::EPERM)), "{error}");
        let error = read(i32::MAX as u32, &[(8, 8)], 0, &into, 0, 8).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EPERM)), "{error}");
        assert_eq!(read(1, &[], 0, &into, 0, 8).unwrap(), 0);
        assert_eq!(read(1, &[(8, 8)], 0, &into, 8, 8).unwrap(), 0);
    }
}
