//! Unix sockets with abstract names: they lie in no file system, vanish with the process that bound
//! them however it ends, are seen only in their own network namespace, and carry descriptors from
//! process to process. All are of the sequenced-packet kind (reliable, ordered, with boundaries),
//! and nothing here blocks.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::{Pid, PidfdFlags};

/// Most descriptors in one packet.
pub const MAX_FDS: usize = 4;

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Who is at the other end of a socket, as the kernel says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// Its process when it connected, or listened, as this process's pid namespace numbers it; 0
    /// where it is not visible from here.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
}

/// Whether the process at the other end of a socket lives.
#[derive(Debug)]
pub enum Life {
    /// It does. The descriptor is readable once it has ended.
    Lives(OwnedFd),
    /// It has ended, though a child of it may hold its end open.
    Ended,
    /// It cannot be told: this kernel has no such descriptors, or none is left, or the process
    /// cannot be seen from here, or is this one.
    Unknown,
}

/// A socket that others can connect to.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

impl Listener {
    /// Takes the abstract name `name` and listens.
    ///
    /// # Errors
    /// `AddrInUse` when another process has it.
    pub fn bind(name: &[u8]) -> io::Result<Listener> {
        let fd = socket()?;
        rustix::net::bind(&fd, &SocketAddrUnix::new_abstract_name(name)?)?;
        rustix::net::listen(&fd, 1024)?;
        Ok(Listener { fd })
    }

    /// The next connection; `None` when nobody has come.
    ///
    /// # Errors
    /// When no more descriptors can be had.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        match rustix::net::accept_with(&self.fd, FLAGS) {
            Ok(fd) => Ok(Some(Socket { fd })),
            Err(error) => wait_or(error),
        }
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> OwnedFd {
        listener.fd
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What [`Socket::receive`] found.
#[derive(Debug)]
pub enum Received {
    /// Nothing yet.
    Nothing,
    /// A packet: its length, and how many descriptors came with it (the others are closed).
    Packet(usize),
    /// The other end is closed.
    End,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Connects to the abstract name `name`. `None`: too many wait there already, try again later.
    ///
    /// # Errors
    /// `ConnectionRefused` when nobody listens there.
    pub fn connect(name: &[u8]) -> io::Result<Option<Socket>> {
        let fd = socket()?;
        match rustix::net::connect(&fd, &SocketAddrUnix::new_abstract_name(name)?) {
            Ok(()) => Ok(Some(Socket { fd })),
            Err(error) => wait_or(error),
        }
    }

    /// Two sockets connected to each other.
    ///
    /// # Errors
    /// When no more descriptors can be had.
    pub fn pair() -> io::Result<(Socket, Socket)> {
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
        Ok((Socket { fd: a }, Socket { fd: b }))
    }

    /// Sends one packet, which must not be empty, with up to [`MAX_FDS`] descriptors. `false`:
    /// there is no room now.
    ///
    /// # Errors
    /// When the other end is closed.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut control, flags) {
            Ok(_) => Ok(true),
            Err(error) => Ok(wait_or::<()>(error)?.is_some()),
        }
    }

    /// Receives one packet into `bytes` (what does not fit is dropped) and appends the descriptors
    /// that came with it to `fds`.
    ///
    /// # Errors
    /// When the kernel refuses; a connection that was broken is an end, not an error.
    pub fn receive(&self, bytes: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = match rustix::net::recvmsg(
            &self.fd,
            &mut [IoSliceMut::new(bytes)],
            &mut control,
            flags,
        ) {
            Ok(got) => got,
            Err(rustix::io::Errno::CONNRESET) => return Ok(Received::End),
            Err(error) => return wait_or::<()>(error).map(|_| Received::Nothing),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        Ok(if got.bytes == 0 { Received::End } else { Received::Packet(got.bytes) })
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn peer(&self) -> io::Result<Credentials> {
        let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the pointers are to locals of the size that is said.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut cred).cast(),
                &raw mut len,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Credentials { pid: u32::try_from(cred.pid).unwrap_or(0), uid: cred.uid })
    }
}

impl Socket {
    /// Whether the process lives that connected, or listened, at the other end. The socket itself
    /// does not tell of its end while a child of that process has a copy of it.
    pub fn life(&self) -> Life {
        let pid = self.peer().map_or(0, |peer| peer.pid);
        if pid == std::process::id() {
            return Life::Unknown;
        }
        let process = match self.process() {
            Err(Errno::SRCH) => return Life::Ended,
            // Kernels before 6.5, and some that cannot name a process that is not there any more.
            // The number may have been given anew by now; then it is the other's end that is told.
            Err(Errno::NOPROTOOPT | Errno::INVAL | Errno::NODATA) => {
                let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
                let Some(pid) = pid else { return Life::Unknown };
                rustix::process::pidfd_open(pid, PidfdFlags::empty())
            }
            result => result,
        };
        match process {
            Ok(fd) => match crate::process::ready(&fd, false, Duration::ZERO) {
                Ok(true) => Life::Ended,
                Ok(false) => Life::Lives(fd),
                Err(_) => Life::Unknown,
            },
            Err(Errno::SRCH) => Life::Ended,
            Err(_) => Life::Unknown,
        }
    }

    fn process(&self) -> Result<OwnedFd, Errno> {
        let mut fd: libc::c_int = -1;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the pointers are to locals of the size that is said; the descriptor that the
        // kernel gives is ours alone, and closed on exec.
        unsafe {
            let result = libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERPIDFD,
                (&raw mut fd).cast(),
                &raw mut len,
            );
            if result != 0 {
                let error = io::Error::last_os_error();
                return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
            }
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// This process's effective user.
pub fn my_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?)
}

/// What means "not now" as `None`.
fn wait_or<T>(error: rustix::io::Errno) -> io::Result<Option<T>> {
    use rustix::io::Errno;
    match error {
        Errno::AGAIN | Errno::INTR | Errno::CONNABORTED => Ok(None),
        other => Err(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(test: &str) -> Vec<u8> {
        format!("weft/test/{test}/{}", std::process::id()).into_bytes()
    }

    #[test]
    fn packets_and_descriptors_cross_a_connection() {
        let listener = Listener::bind(&name("cross")).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let a = Socket::connect(&name("cross")).unwrap().unwrap();
        let b = listener.accept().unwrap().unwrap();
        let me = Credentials { pid: std::process::id(), uid: my_uid() };
        assert_eq!((a.peer().unwrap(), b.peer().unwrap()), (me, me));
        let memfd = crate::mem::memfd("weft-test", 64).unwrap();
        assert!(a.send(b"one", &[memfd.as_fd(), memfd.as_fd()]).unwrap());
        assert!(a.send(b"two", &[]).unwrap());
        let (mut bytes, mut fds) = ([0; 16], Vec::new());
        assert!(matches!(b.receive(&mut bytes, &mut fds), Ok(Received::Packet(3))));
        assert_eq!((&bytes[..3], fds.len()), (&b"one"[..], 2));
        crate::mem::Mapping::new(fds[1].as_fd(), 64).unwrap();
        assert!(matches!(b.receive(&mut bytes, &mut fds), Ok(Received::Packet(3))));
        assert!(matches!(b.receive(&mut bytes, &mut fds), Ok(Received::Nothing)));
        drop(a);
        assert!(matches!(b.receive(&mut bytes, &mut fds), Ok(Received::End)));
        assert!(b.send(b"x", &[]).is_err());
    }

    #[test]
    fn a_name_is_taken_once_and_free_when_its_holder_is_gone() {
        let first = Listener::bind(&name("once")).unwrap();
        let error = Listener::bind(&name("once")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        Listener::bind(&name("once")).unwrap();
        let error = Socket::connect(&name("nobody")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_process_at_the_other_end_is_told_from_this_one() {
        // Only real processes show more: see the integration tests.
        let (a, _b) = Socket::pair().unwrap();
        assert!(matches!(a.life(), Life::Unknown));
    }

    #[test]
    fn a_full_socket_says_so() {
        let (a, b) = Socket::pair().unwrap();
        while a.send(&[1], &[]).unwrap() {}
        assert!(matches!(b.receive(&mut [0; 4], &mut Vec::new()), Ok(Received::Packet(1))));
    }
}
