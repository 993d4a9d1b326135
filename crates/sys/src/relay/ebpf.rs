//! bpf(2), as far as a relay needs it: a table, a program, and its place where frames come in.

use std::error::Error;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::Value;

// linux/bpf.h.
const MAP_CREATE: i32 = 0;
const MAP_LOOKUP_ELEM: i32 = 1;
const MAP_UPDATE_ELEM: i32 = 2;
const PROG_LOAD: i32 = 5;
const OBJ_GET_INFO_BY_FD: i32 = 15;
const MAP_LOOKUP_AND_DELETE_ELEM: i32 = 21;
const LINK_CREATE: i32 = 28;
const LINK_DETACH: i32 = 34;
const MAP_TYPE_HASH: u32 = 1;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const TCX_INGRESS: u32 = 46;

/// As `bpftool` shows the table and the program.
const NAME: [u8; 16] = *b"relay\0\0\0\0\0\0\0\0\0\0\0";

/// No function of the kernel that the program calls asks for more.
const LICENSE: &CStr = c"MIT OR Apache-2.0";

/// Bytes of the kernel's reasons for refusing a program.
const LOG_LEN: usize = 64 << 10;

/// What values of a table lie under.
pub(super) type Key = [u8; 16];

// Arguments of commands, each as the kernel lays it out, without padding; what is left out is zero.

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
struct Element {
    map_fd: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct LinkDetach {
    link_fd: u32,
}

#[repr(C)]
struct GetInfo {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// # Safety
/// The arguments are those of the command, and addresses in them are of memory that lives through
/// the call, is as long as the command says, and may be written where it writes.
unsafe fn bpf<T>(command: i32, arguments: &T) -> io::Result<i32> {
    let len = mem::size_of::<T>();
    // SAFETY: the kernel reads `len` bytes of `arguments`; the caller answers for the rest.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *arguments, len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}

fn descriptor(new: i32) -> OwnedFd {
    // SAFETY: the call that gave the descriptor made it for this caller alone.
    unsafe { OwnedFd::from_raw_fd(new) }
}

fn address<T: ?Sized>(of: &T) -> u64 {
    (&raw const *of).cast::<u8>().expose_provenance() as u64
}

/// A hash table that programs and this process share.
#[derive(Debug)]
pub(super) struct Table(OwnedFd);

impl Table {
    /// A table with room for so many entries.
    pub(super) fn new(entries: u32) -> io::Result<Table> {
        let arguments = MapCreate {
            map_type: MAP_TYPE_HASH,
            key_size: mem::size_of::<Key>() as u32,
            value_size: mem::size_of::<Value>() as u32,
            max_entries: entries,
            map_flags: 0,
            inner_map_fd: 0,
            numa_node: 0,
            map_name: NAME,
        };
        // SAFETY: there is no address in them.
        unsafe { bpf(MAP_CREATE, &arguments) }.map(|made| Table(descriptor(made)))
    }

    pub(super) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn element(&self, key: &Key, value: u64) -> Element {
        Element { map_fd: self.fd() as u32, zero: 0, key: address(key), value, flags: 0 }
    }

    /// Adds an entry, or replaces it at once.
    pub(super) fn put(&self, key: &Key, value: &Value) -> io::Result<()> {
        let arguments = self.element(key, address(value));
        // SAFETY: key and value are as long as the table's, and are read only.
        unsafe { bpf(MAP_UPDATE_ELEM, &arguments) }.map(drop)
    }

    /// The value of an entry.
    pub(super) fn get(&self, key: &Key) -> io::Result<Option<Value>> {
        self.read(MAP_LOOKUP_ELEM, key)
    }

    /// Removes an entry, and gives the value that it had.
    pub(super) fn take(&self, key: &Key) -> io::Result<Option<Value>> {
        self.read(MAP_LOOKUP_AND_DELETE_ELEM, key)
    }

    fn read(&self, command: i32, key: &Key) -> io::Result<Option<Value>> {
        let mut value = Value::default();
        let arguments = self.element(key, (&raw mut value).expose_provenance() as u64);
        // SAFETY: key and value are as long as the table's; the key is read only, and any bits are
        // a valid value.
        match unsafe { bpf(command, &arguments) } {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The kernel does not let a program run.
#[derive(Debug)]
struct Refused {
    cause: io::Error,
    /// What its verifier says: shown by `Debug` only, for it may be long.
    #[expect(dead_code, reason = "for `Debug`")]
    log: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel refuses the program that relays frames: {}", self.cause)
    }
}

impl Error for Refused {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// Loads a program for frames that come in.
pub(super) fn load(program: &[u64]) -> io::Result<OwnedFd> {
    let load = |log_level, log_size, log_buf| {
        let arguments = ProgLoad {
            prog_type: PROG_TYPE_SCHED_CLS,
            insn_cnt: program.len() as u32,
            insns: address(program),
            license: address(LICENSE.to_bytes_with_nul()),
            log_level,
            log_size,
            log_buf,
            kern_version: 0,
            prog_flags: 0,
            prog_name: NAME,
        };
        // SAFETY: the program has `insn_cnt` instructions, the license ends in zero, and the log,
        // if there is one, has `log_size` bytes that nothing else uses.
        unsafe { bpf(PROG_LOAD, &arguments) }.map(descriptor)
    };
    let cause = match load(0, 0, 0) {
        Ok(program) => return Ok(program),
        Err(cause) => cause,
    };
    // Once more, for the reasons. Who lacks the right is given none.
    let mut log = vec![0u8; LOG_LEN];
    let into = log.as_mut_ptr().expose_provenance() as u64;
    let _ = load(1, LOG_LEN as u32, into);
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(LOG_LEN);
    if end == 0 {
        return Err(cause);
    }
    let log = String::from_utf8_lossy(&log[..end]).into_owned();
    Err(io::Error::new(io::ErrorKind::Unsupported, Refused { cause, log }))
}

/// A program in its place, for as long as this lives or its process does.
#[derive(Debug)]
pub(super) struct Attached(pub(super) OwnedFd);

impl Drop for Attached {
    /// Closing does not suffice: a child that this process is just starting, or has forked, holds
    /// the descriptor too.
    fn drop(&mut self) {
        let link = LinkDetach { link_fd: self.0.as_raw_fd() as u32 };
        // SAFETY: there is no address in it. It fails where the interface has gone: nothing is
        // left to detach then.
        let _ = unsafe { bpf(LINK_DETACH, &link) };
    }
}

/// Has a program see all frames that come in over an interface of the calling thread's network
/// namespace, after those programs that do so already.
pub(super) fn attach(program: &OwnedFd, interface: u32) -> io::Result<Attached> {
    let link = LinkCreate {
        prog_fd: program.as_raw_fd() as u32,
        target_ifindex: interface,
        attach_type: TCX_INGRESS,
        flags: 0,
    };
    // SAFETY: there is no address in them.
    match unsafe { bpf(LINK_CREATE, &link) } {
        Ok(link) => Ok(Attached(descriptor(link))),
        // Older kernels know neither the place nor what it would be.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let why = "this kernel runs no programs where frames come in (tcx, Linux 6.6)";
            Err(io::Error::new(io::ErrorKind::Unsupported, why))
        }
        Err(error) => Err(error),
    }
}

/// Whether the interface is still there that [`attach`] was given.
pub(super) fn is_attached(Attached(link): &Attached) -> io::Result<bool> {
    // `struct bpf_link_info`: type, number, program's number, a gap; then of tcx: interface, place.
    let mut info = [0u32; 6];
    let into = (&raw mut info).expose_provenance() as u64;
    let info_len = mem::size_of_val(&info) as u32;
    let arguments = GetInfo { bpf_fd: link.as_raw_fd() as u32, info_len, info: into };
    // SAFETY: the kernel writes at most `info_len` bytes of `info`; any bits are valid words.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &arguments) }?;
    Ok(info[4] != 0)
}

/// How many programs see what comes in over an interface, for tests.
///
/// # Errors
/// When the kernel has none of these programs (before Linux 6.6), or the right is missing.
pub fn programs_at(interface: u32) -> io::Result<u32> {
    const PROG_QUERY: libc::c_long = 16;
    // The interface, the place; in the seventh word, how many there are. The kernel writes to its
    // whole structure, whatever length it is told: this is that of Linux 6.6, and some more.
    let mut query = [0u32; 32];
    (query[0], query[1]) = (interface, TCX_INGRESS);
    let len = mem::size_of_val(&query);
    // SAFETY: the kernel reads and writes `len` bytes of `query`, which names no other memory.
    let done = unsafe { libc::syscall(libc::SYS_bpf, PROG_QUERY, &raw mut query, len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(query[6]) }
}
