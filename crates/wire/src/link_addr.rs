//! Where a frame goes to or comes from, on one link.

use std::fmt;
use std::net::SocketAddr;

/// An address as one kind of link understands it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum LinkAddr {
    /// An Ethernet address (also a group address, for multicast).
    Mac([u8; 6]),
    /// A UDP socket address; a link-local IPv6 address carries its interface as the scope id.
    Udp(SocketAddr),
    /// A numbered port of a simulated or in-memory link.
    Port(u32),
}

impl fmt::Display for LinkAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkAddr::Mac([a, b, c, d, e, g]) => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
            LinkAddr::Udp(addr) => write!(f, "{addr}"),
            LinkAddr::Port(port) => write!(f, "port {port}"),
        }
    }
}
