//! Socket addresses as the kernel lays them out.

use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for an IPv4 or IPv6 socket address.
#[derive(Clone, Copy)]
#[repr(C)]
union Room {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
    family: libc::sa_family_t,
}

/// An IPv4 or IPv6 socket address.
#[derive(Clone, Copy)]
pub(crate) struct SockAddr {
    room: Room,
    len: libc::socklen_t,
}

impl SockAddr {
    /// Room for an address that the kernel is to write.
    #[inline]
    pub(crate) fn empty() -> SockAddr {
        // SAFETY: all zeros are a valid `sockaddr_in6`, the largest part of the union.
        let v6 = unsafe { mem::zeroed() };
        SockAddr { room: Room { v6 }, len: mem::size_of::<libc::sockaddr_in6>() as u32 }
    }

    #[inline]
    pub(crate) fn new(addr: &SocketAddr) -> SockAddr {
        let mut raw = SockAddr::empty();
        match addr {
            SocketAddr::V4(v4) => {
                raw.len = mem::size_of::<libc::sockaddr_in>() as u32;
                raw.room.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
            }
            SocketAddr::V6(v6) => {
                raw.room.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
            }
        }
        raw
    }

    /// The address; `None` when it is of another family.
    #[inline]
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        // SAFETY: every variant begins with the family; the room was zeroed or written whole.
        let family = i32::from(unsafe { self.room.family });
        match family {
            libc::AF_INET => {
                // SAFETY: the family says so, and all 16 bytes are initialized.
                let v4 = unsafe { self.room.v4 };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(v4.sin_port))))
            }
            libc::AF_INET6 => {
                // SAFETY: the family says so, and all 28 bytes are initialized.
                let v6 = unsafe { self.room.v6 };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id)))
            }
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> libc::socklen_t {
        self.len
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.room).cast()
    }

    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.room).cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_changes_nothing() {
        for text in ["10.1.2.3:77", "[fe80::1%5]:8", "[2001:db8::7]:65535", "0.0.0.0:0"] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(SockAddr::new(&addr).get(), Some(addr));
        }
        assert_eq!(SockAddr::empty().get(), None);
    }
}
