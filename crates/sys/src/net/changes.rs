//! Word that interfaces or their addresses have come, gone or changed.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// Groups of rtnetlink: links, IPv4 addresses, IPv6 addresses.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

/// See the module's page.
#[derive(Debug)]
pub struct Changes(OwnedFd);

impl Changes {
    /// Listens from now on, in the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses netlink (a seccomp filter may), or no descriptor is left.
    pub fn new() -> io::Result<Changes> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Changes(socket))
    }

    /// Whether something has changed since this was last asked. One system call where nothing has.
    pub fn any(&self) -> bool {
        let mut any = false;
        // What has changed is asked for anew, so each message's beginning is enough.
        let mut start = [0u8; 16];
        loop {
            match recv(&self.0, &mut start[..], RecvFlags::empty()) {
                // More has changed than the socket holds.
                Ok(_) | Err(Errno::NOBUFS) => any = true,
                Err(Errno::INTR) => {}
                Err(_) => return any,
            }
        }
    }
}
