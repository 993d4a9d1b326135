//! Linux namespaces: making network namespaces that live only as long as a descriptor or a process
//! holds them, and entering them. Nothing here gives a namespace a name, so nothing is left behind
//! when a process is killed.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Which namespace: the device and inode of its file under `/proc/PID/ns`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NsId {
    /// Device of the namespace file system.
    pub dev: u64,
    /// Its number there.
    pub ino: u64,
}

impl NsId {
    /// Of the namespace file at `path`, as `/proc/1/ns/net`.
    ///
    /// # Errors
    /// When the process is gone, or may not be looked at.
    pub fn of(path: impl AsRef<Path>) -> io::Result<NsId> {
        let meta = fs::metadata(path)?;
        Ok(NsId { dev: meta.dev(), ino: meta.ino() })
    }
}

/// A network namespace, kept alive by this descriptor.
#[derive(Debug)]
pub struct NetNs {
    file: OwnedFd,
}

impl NetNs {
    /// The calling thread's namespace.
    ///
    /// # Errors
    /// When /proc is not there.
    pub fn current() -> io::Result<NetNs> {
        NetNs::open("/proc/thread-self/ns/net")
    }

    /// The namespace at `path` (`/proc/PID/ns/net`, `/proc/PID/fd/N`, `/run/netns/NAME`).
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> io::Result<NetNs> {
        Ok(NetNs { file: File::open(path)?.into() })
    }

    /// A new, empty namespace. The caller's threads stay where they are.
    ///
    /// # Errors
    /// Without the right to make one (CAP_SYS_ADMIN in the caller's user namespace).
    pub fn create() -> io::Result<NetNs> {
        on_own_thread(|| {
            unshare(libc::CLONE_NEWNET)?;
            NetNs::current()
        })
    }

    /// Which one it is.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn id(&self) -> io::Result<NsId> {
        Ok(ns_id(rustix::fs::fstat(&self.file)?))
    }

    /// Runs `work` on a thread of its own inside the namespace: sockets that it opens belong to the
    /// namespace for good.
    ///
    /// # Errors
    /// Without the right to enter, and whatever `work` gives.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_own_thread(|| {
            setns(self.file.as_fd(), libc::CLONE_NEWNET)?;
            work()
        })
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What the kernel tells of a namespace's file says which one it is.
fn ns_id(stat: rustix::fs::Stat) -> NsId {
    NsId { dev: stat.st_dev, ino: stat.st_ino }
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread in a namespace panicked")))
    })
}

/// Moves the calling process, which must have one thread only, into a new user namespace where it
/// keeps its user and group ids and has all capabilities.
///
/// # Errors
/// When the machine does not allow user namespaces, or the process has threads.
pub fn enter_new_user_ns() -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(libc::CLONE_NEWUSER)?;
    // Without `setgroups` denied an unprivileged process may not write its group map.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// The way into a node of a virtual cluster, opened beforehand so that a forked child can take it
/// without allocating.
#[derive(Debug)]
pub struct Enter {
    user: Option<OwnedFd>,
    net: OwnedFd,
    host_name: CString,
}

impl Enter {
    /// Into the user namespace `user` (none: the caller's own) and the network namespace `net`,
    /// with the host name `host_name`.
    ///
    /// # Errors
    /// When the host name has a zero byte.
    pub fn new(user: Option<OwnedFd>, net: OwnedFd, host_name: &str) -> io::Result<Enter> {
        Ok(Enter { user, net, host_name: CString::new(host_name)? })
    }

    /// Moves the calling process, which must have one thread only, in. It gets the host name, and
    /// where the machine allows it a view of `/sys` that shows the namespace's interfaces. Rights
    /// inside a user namespace survive the next `exec`. Makes system calls only, so that it can run
    /// between fork and exec.
    ///
    /// # Errors
    /// Without the right, or when the namespace is gone.
    pub fn enter(&self) -> io::Result<()> {
        if let Some(user) = &self.user
            && !is_own_user_ns(user)
        {
            setns(user.as_fd(), libc::CLONE_NEWUSER)?;
        }
        setns(self.net.as_fd(), libc::CLONE_NEWNET)?;
        unshare(libc::CLONE_NEWUTS)?;
        let name = self.host_name.as_bytes();
        // SAFETY: the pointer and the length are those of one live string.
        check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })?;
        if unshare(libc::CLONE_NEWNS).is_ok() {
            show_own_interfaces();
        }
        if self.user.is_some() { keep_rights_over_exec() } else { Ok(()) }
    }
}

/// Whether this is the user namespace that the process is in, as on the way from one node of a
/// cluster to another: the kernel refuses to have it enter that again.
fn is_own_user_ns(user: &OwnedFd) -> bool {
    let own = rustix::fs::stat(c"/proc/self/ns/user").map(ns_id);
    own.is_ok() && own == rustix::fs::fstat(user).map(ns_id)
}

/// Mounts a /sys that shows the interfaces of the network namespace, and the control groups in it
/// as before. Best effort: where it is refused, only programs that read /sys are misled.
fn show_own_interfaces() {
    const TREE_CLONE: libc::c_uint = 1;
    const AT_RECURSIVE: libc::c_uint = 0x8000;
    const FROM_EMPTY_PATH: libc::c_uint = 4;
    let groups = c"/sys/fs/cgroup";
    // SAFETY: all strings are constants that end in zero; unused pointers are null, which mount(2)
    // allows; the descriptor that open_tree gives is closed once here.
    unsafe {
        let none = std::ptr::null();
        let slave = libc::MS_REC | libc::MS_SLAVE;
        if libc::mount(none, c"/".as_ptr(), none, slave, none.cast()) != 0 {
            return;
        }
        let flags = TREE_CLONE | AT_RECURSIVE | libc::O_CLOEXEC as libc::c_uint;
        let tree = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, groups.as_ptr(), flags);
        let kind = c"sysfs".as_ptr();
        let quiet = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        let mounted = libc::mount(kind, c"/sys".as_ptr(), kind, quiet, none.cast()) == 0;
        if tree >= 0 {
            if mounted {
                libc::syscall(
                    libc::SYS_move_mount,
                    tree,
                    c"".as_ptr(),
                    libc::AT_FDCWD,
                    groups.as_ptr(),
                    FROM_EMPTY_PATH,
                );
            }
            libc::close(tree as i32);
        }
    }
}

/// Bytes of capget(2) and capset(2), version 3.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Makes the capabilities of the calling process ambient. A process that is not root inside its
/// user namespace would otherwise lose them with `exec`.
fn keep_rights_over_exec() -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = CapHeader { version: VERSION_3, pid: 0 };
    let mut data = [CapData { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: header and data have the layout of version 3, which the header names, and outlive
    // the calls.
    unsafe {
        check_long(libc::syscall(libc::SYS_capget, &mut header, data.as_mut_ptr()))?;
        for word in &mut data {
            word.inheritable = word.permitted;
        }
        check_long(libc::syscall(libc::SYS_capset, &mut header, data.as_ptr()))?;
    }
    for capability in 0..64u64 {
        if data[capability as usize / 32].permitted >> (capability % 32) & 1 == 1 {
            let (raise, zero) = (libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong, 0 as libc::c_ulong);
            // SAFETY: this prctl takes numbers only.
            unsafe {
                libc::prctl(libc::PR_CAP_AMBIENT, raise, capability as libc::c_ulong, zero, zero)
            };
        }
    }
    Ok(())
}

/// The host name of the calling thread.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether a path that the kernel offers is there.
pub fn kernel_has(path: &CStr) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXISTS).is_ok()
}

fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: takes a number and touches no memory of ours.
    check(unsafe { libc::unshare(flags) })
}

fn setns(ns: BorrowedFd<'_>, kind: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open while borrowed; no memory of ours is touched.
    check(unsafe { libc::setns(ns.as_raw_fd(), kind) })
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn check_long(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
