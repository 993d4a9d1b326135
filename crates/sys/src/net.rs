//! Network interfaces: which there are, how they are, which of them the user admits.
//!
//! Everything here asks the kernel by netlink and `ioctl`, never by sysfs: sysfs shows the network
//! namespace in which it was mounted, which need not be the thread's.

mod bpf;
mod changes;
mod ethtool;
mod filter;
mod interface;
pub(crate) mod mmsg;
mod netlink;
pub(crate) mod sockaddr;
pub(crate) mod sockopt;

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

pub use bpf::{Condition, FILTER_VALUES_MAX, frame_filter};
pub(crate) use bpf::{attach as attach_filter, attach_for_lengths, put as put_filter};
pub use changes::Changes;
pub use ethtool::{Coalescing, Eee, Ethtool, LinkModes, TWISTED_PAIR};
pub use filter::{FilterError, InterfaceFilter};
pub use interface::{Interface, IpAddress, interface, interfaces};
pub use mmsg::Sent;

/// The error numbers that users of these modules tell apart.
pub mod errno {
    pub use libc::{
        EINVAL, EIO, EMSGSIZE, ENETDOWN, ENOBUFS, ENODEV, ENXIO, EOPNOTSUPP, EPERM, ERANGE,
    };
}

/// A step of several that failed, and why.
#[derive(Debug)]
pub struct StepError {
    /// What was being done, as in "asking for a receive ring".
    pub doing: &'static str,
    /// What the kernel said.
    pub cause: io::Error,
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, self.cause)
    }
}

impl std::error::Error for StepError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// Names the step in which an I/O call failed.
pub(crate) fn step<T>(doing: &'static str, done: io::Result<T>) -> Result<T, StepError> {
    done.map_err(|cause| StepError { doing, cause })
}

/// Whether this process may open packet sockets in its network namespace.
///
/// # Errors
/// What the kernel said: permission denied, or a protocol that is not built in.
pub fn packet_right() -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None).map(drop)?;
    Ok(())
}

/// Whether an interface is usable, by the flags that `ip link` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkState {
    /// The administrator has set it up.
    pub up: bool,
    /// It has a carrier: the cable is plugged in and the other end is up.
    pub carrier: bool,
}

impl LinkState {
    /// Both up and with a carrier.
    pub fn usable(self) -> bool {
        self.up && self.carrier
    }
}

/// Asks for the state of one interface again and again, cheaply: two `ioctl` each time.
#[derive(Debug)]
pub struct StateProbe {
    socket: OwnedFd,
    index: u32,
}

impl StateProbe {
    /// A probe for the interface that is called `name` now in the calling thread's network
    /// namespace.
    ///
    /// # Errors
    /// When there is none, or no socket can be had (out of file descriptors).
    pub fn new(name: &str) -> io::Result<StateProbe> {
        let socket = control_socket()?;
        let index = name_to_index(&socket, name)?;
        Ok(StateProbe { socket, index })
    }

    /// The state now.
    ///
    /// # Errors
    /// `ENODEV` when the interface is gone: another of its name is another one.
    pub fn state(&self) -> io::Result<LinkState> {
        let name = index_to_name(&self.socket, self.index)?;
        let flags = sockopt::interface_flags(self.socket.as_raw_fd(), &name)?;
        Ok(LinkState {
            up: flags & libc::IFF_UP as u32 != 0,
            carrier: flags & libc::IFF_RUNNING as u32 != 0,
        })
    }

    /// Its largest frame now, bytes, the Ethernet header not counted.
    ///
    /// # Errors
    /// `ENODEV` when the interface is gone.
    pub fn mtu(&self) -> io::Result<usize> {
        let name = index_to_name(&self.socket, self.index)?;
        sockopt::interface_mtu(self.socket.as_raw_fd(), &name)
    }
}

/// A socket that serves only for asking about interfaces.
pub(crate) fn control_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_with_its_address() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|i| i.loopback).expect("every namespace has a loopback");
        assert_eq!(lo.name, "lo");
        assert_eq!(interface("lo").unwrap().unwrap().index, lo.index);
        assert!(interface("no-such-interface").unwrap().is_none());
        let state = StateProbe::new("lo").unwrap().state().unwrap();
        assert_eq!(state.up, lo.state.up);
        if lo.state.up {
            assert!(lo.addresses.iter().any(|a| a.addr.is_loopback()));
        }
        assert!(StateProbe::new("nope0").is_err());
    }
}
