//! Making and setting up network interfaces (rtnetlink), as far as virtual clusters need it. A
//! socket acts on the network namespace in which it was opened.

mod rate;

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

pub use rate::RateLimit;

const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const F_REQUEST: u16 = 1;
const F_ACK: u16 = 4;
const F_CREATE_NEW: u16 = 0x600;

const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_BR_FORWARD_DELAY: u16 = 1;
const IFLA_BR_STP_STATE: u16 = 5;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFF_UP: u32 = 1;
const OPERSTATE_UP: u8 = 6;

/// Bytes of a netlink message header, and of the `ifinfomsg` after it.
const HEADER: usize = 16;
const IFINFO: usize = 16;

/// A socket to the part of the kernel that keeps the interfaces.
#[derive(Debug)]
pub struct Rtnetlink {
    fd: OwnedFd,
    sequence: u32,
}

impl Rtnetlink {
    /// A socket for the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel has no netlink, or no descriptor is left.
    pub fn open() -> io::Result<Rtnetlink> {
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::RAW;
        let family = AddressFamily::NETLINK;
        let fd = rustix::net::socket_with(family, kind, flags, None)?;
        // The kernel answers at once; the limit is there so that nothing can hang for ever.
        rustix::net::sockopt::set_socket_timeout(
            &fd,
            rustix::net::sockopt::Timeout::Recv,
            Some(std::time::Duration::from_secs(10)),
        )?;
        Ok(Rtnetlink { fd, sequence: 0 })
    }

    /// The number of the interface `name`.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn index(&self, name: &str) -> io::Result<u32> {
        Ok(rustix::net::netdevice::name_to_index(&self.fd, name)?)
    }

    /// Makes a bridge that floods multicast and has no spanning tree: the behaviour of a plain
    /// switch.
    ///
    /// # Errors
    /// When the kernel has no bridges, or the name is taken.
    pub fn add_bridge(&mut self, name: &str, mtu: u32) -> io::Result<()> {
        let mut m = Message::link(RTM_NEWLINK, F_CREATE_NEW, 0, 0);
        m.attribute(IFLA_IFNAME, &zero_ended(name));
        m.attribute(IFLA_MTU, &mtu.to_ne_bytes());
        let info = m.open(IFLA_LINKINFO);
        m.attribute(IFLA_INFO_KIND, b"bridge");
        let data = m.open(IFLA_INFO_DATA);
        m.attribute(IFLA_BR_FORWARD_DELAY, &0u32.to_ne_bytes());
        m.attribute(IFLA_BR_STP_STATE, &0u32.to_ne_bytes());
        m.attribute(IFLA_BR_MCAST_SNOOPING, &[0]);
        m.close(data);
        m.close(info);
        self.ask(m).map(drop)
    }

    /// Makes a virtual cable: `name` in this socket's namespace, `peer` in the namespace `ns`.
    ///
    /// # Errors
    /// When the kernel has no veth, a name is taken, or the right is missing in either namespace.
    pub fn add_cable(
        &mut self,
        name: &str,
        peer: &str,
        ns: BorrowedFd<'_>,
        mtu: u32,
    ) -> io::Result<()> {
        let mut m = Message::link(RTM_NEWLINK, F_CREATE_NEW, 0, 0);
        m.attribute(IFLA_IFNAME, &zero_ended(name));
        m.attribute(IFLA_MTU, &mtu.to_ne_bytes());
        let info = m.open(IFLA_LINKINFO);
        m.attribute(IFLA_INFO_KIND, b"veth");
        let data = m.open(IFLA_INFO_DATA);
        let other = m.open(VETH_INFO_PEER);
        m.bytes.extend_from_slice(&[0; IFINFO]);
        m.attribute(IFLA_IFNAME, &zero_ended(peer));
        m.attribute(IFLA_MTU, &mtu.to_ne_bytes());
        m.attribute(IFLA_NET_NS_FD, &ns.as_raw_fd().to_ne_bytes());
        m.close(other);
        m.close(data);
        m.close(info);
        self.ask(m).map(drop)
    }

    /// Switches an interface on, plugged into the bridge `bridge` if one is named (by number).
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn switch_on(&mut self, index: u32, bridge: Option<u32>) -> io::Result<()> {
        let mut m = Message::link(RTM_NEWLINK, 0, index, IFF_UP);
        if let Some(bridge) = bridge {
            m.attribute(IFLA_MASTER, &bridge.to_ne_bytes());
        }
        self.ask(m).map(drop)
    }

    /// Gives an interface an IPv4 address.
    ///
    /// # Errors
    /// When there is no such interface, or it has the address already.
    pub fn add_ipv4(&mut self, index: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut m = Message::new(RTM_NEWADDR, F_CREATE_NEW);
        m.bytes.extend_from_slice(&[libc::AF_INET as u8, prefix, 0, 0]);
        m.bytes.extend_from_slice(&index.to_ne_bytes());
        m.attribute(IFA_LOCAL, &address.octets());
        m.attribute(IFA_ADDRESS, &address.octets());
        self.ask(m).map(drop)
    }

    /// Whether an interface is switched on and has a carrier.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn has_carrier(&mut self, index: u32) -> io::Result<bool> {
        let answer = self.ask(Message::link(RTM_GETLINK, 0, index, 0))?;
        let state = attribute_of(answer.get(HEADER + IFINFO..).unwrap_or(&[]), IFLA_OPERSTATE);
        Ok(state.and_then(|s| s.first()) == Some(&OPERSTATE_UP))
    }

    /// Sends a request and waits for the kernel's answer to it.
    fn ask(&mut self, message: Message) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let request = message.finish(self.sequence);
        rustix::net::send(&self.fd, &request, SendFlags::empty())?;
        let mut answer = Vec::new();
        loop {
            let mut buffer = vec![0; 32 * 1024];
            let (got, _) = rustix::net::recv(&self.fd, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = &buffer[..got];
            while rest.len() >= HEADER {
                let len = u32_at(rest, 0) as usize;
                if len < HEADER || len > rest.len() {
                    return Err(io::Error::other("the kernel sent a message of a wrong length"));
                }
                let (this, kind) = (&rest[..len], u16_at(rest, 4));
                rest = &rest[align(len).min(rest.len())..];
                if u32_at(this, 8) != self.sequence {
                    continue;
                }
                if kind != NLMSG_ERROR {
                    answer = this.to_vec();
                    continue;
                }
                let error = if len >= HEADER + 4 { u32_at(this, HEADER) as i32 } else { 0 };
                return match error {
                    0 => Ok(answer),
                    _ => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
                };
            }
        }
    }
}

/// A request being written.
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn new(kind: u16, flags: u16) -> Message {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | F_REQUEST | F_ACK).to_ne_bytes());
        Message { bytes }
    }

    /// A request about the interface `index`, whose flags `flags` are to be set.
    fn link(kind: u16, request: u16, index: u32, flags: u32) -> Message {
        let mut m = Message::new(kind, request);
        m.bytes.extend_from_slice(&[0; 4]);
        m.bytes.extend_from_slice(&index.to_ne_bytes());
        m.bytes.extend_from_slice(&flags.to_ne_bytes());
        m.bytes.extend_from_slice(&flags.to_ne_bytes());
        m
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let at = self.open(kind);
        self.bytes.extend_from_slice(value);
        self.close(at);
    }

    /// Begins an attribute that holds others; [`Message::close`] ends it.
    fn open(&mut self, kind: u16) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        at
    }

    fn close(&mut self, at: usize) {
        let len = (self.bytes.len() - at) as u16;
        self.bytes[at..at + 2].copy_from_slice(&len.to_ne_bytes());
        self.bytes.resize(align(self.bytes.len()), 0);
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// The value of the first attribute of this kind.
fn attribute_of(mut rest: &[u8], kind: u16) -> Option<&[u8]> {
    while rest.len() >= 4 {
        let len = u16_at(rest, 0) as usize;
        if len < 4 || len > rest.len() {
            return None;
        }
        if u16_at(rest, 2) & 0x3fff == kind {
            return Some(&rest[4..len]);
        }
        rest = &rest[align(len).min(rest.len())..];
    }
    None
}

fn zero_ended(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn align(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_found_again() {
        let mut m = Message::link(RTM_NEWLINK, 0, 7, IFF_UP);
        m.attribute(IFLA_IFNAME, b"abc\0x");
        m.attribute(IFLA_OPERSTATE, &[6]);
        let bytes = m.finish(3);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(u32_at(&bytes, 0) as usize, bytes.len());
        assert_eq!(attribute_of(&bytes[HEADER + IFINFO..], IFLA_OPERSTATE), Some(&[6][..]));
        assert_eq!(attribute_of(&bytes[HEADER + IFINFO..], IFLA_MTU), None);
    }

    #[test]
    fn loopback_is_found_and_nonsense_is_not() {
        let mut net = Rtnetlink::open().expect("netlink");
        let lo = net.index("lo").expect("every namespace has lo");
        assert!(net.has_carrier(lo).is_ok());
        assert!(net.index("no-such-if").is_err());
        assert!(net.has_carrier(u32::MAX / 2).is_err());
    }
}
