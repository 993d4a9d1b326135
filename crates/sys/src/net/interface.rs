//! The list of network interfaces.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;

use super::netlink::{self, attributes, string, word};
use super::{LinkState, control_socket, filter, sockopt};

/// An IP address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpAddress {
    /// The address.
    pub addr: IpAddr,
    /// Bits of it that name the subnet.
    pub prefix_len: u8,
    /// Whether it is valid on its own cable only, and needs the interface's index beside it.
    pub link_local: bool,
    /// Whether it may be used yet: a fresh IPv6 address is first checked for duplicates, which
    /// takes a second or two.
    pub ready: bool,
    /// The interface's index, the scope of a link-local IPv6 address.
    pub index: u32,
}

impl IpAddress {
    /// As a socket address with the scope that it needs.
    pub fn socket_addr(&self, port: u16) -> SocketAddr {
        match self.addr {
            IpAddr::V6(v6) if self.link_local => {
                SocketAddr::V6(SocketAddrV6::new(v6, port, 0, self.index))
            }
            other => SocketAddr::new(other, port),
        }
    }
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interface {
    /// Its name, as `ip link` shows it.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its Ethernet address, if it has one.
    pub mac: Option<[u8; 6]>,
    /// Its largest frame in bytes, the Ethernet header not counted.
    pub mtu: usize,
    /// Up, and with a carrier.
    pub state: LinkState,
    /// Whether it leads back to this machine.
    pub loopback: bool,
    /// Whether it can send to all at once.
    pub multicast: bool,
    /// What software makes it, as `veth`, `bridge`, `bond`, `vlan`, `tun`, `dummy`; empty for a
    /// NIC with a driver of its own.
    pub kind: String,
    /// The interface (a bridge or bond) that it serves: frames then belong to that one.
    pub master: Option<u32>,
    /// Whether it is wireless.
    pub wireless: bool,
    /// Its IP addresses.
    pub addresses: Vec<IpAddress>,
}

/// Kinds of interfaces that put frames into packets of a network that they cannot see.
const TUNNELS: [&str; 17] = [
    "bareudp",
    "erspan",
    "geneve",
    "gre",
    "gretap",
    "ip6erspan",
    "ip6gre",
    "ip6gretap",
    "ip6tnl",
    "ipip",
    "ovpn",
    "ppp",
    "sit",
    "tun",
    "vxlan",
    "wireguard",
    "xfrm",
];

impl Interface {
    /// What makes it a last resort, to be used only where nothing else reaches; `None` for a cable.
    /// Its kind tells, as the kernel knows it, and not what is measured: a radio is shared with
    /// strangers, and behind a bridge or a tunnel there may be anything.
    pub fn last_resort(&self) -> Option<&'static str> {
        match self.kind.as_str() {
            _ if self.wireless => Some("Wi-Fi"),
            _ if self.is_tunnel() => Some("tunnel"),
            // Of these no kind tells: theirs are those of bridges and cables.
            _ if filter::is_inner_name(&self.name) => Some("container network"),
            "bridge" | "openvswitch" => Some("bridge"),
            _ => None,
        }
    }

    /// Whether it puts frames into packets of another network, of a VPN for example.
    pub(super) fn is_tunnel(&self) -> bool {
        TUNNELS.contains(&self.kind.as_str())
    }

    /// The best IPv4 address to reach this node by, if there is one.
    pub fn ipv4(&self) -> Option<IpAddress> {
        let v4 = || self.addresses.iter().filter(|a| a.addr.is_ipv4());
        v4().find(|a| !a.link_local).or_else(|| v4().next()).copied()
    }

    /// The best IPv6 address that is ready: one with a wide scope before a link-local one.
    pub fn ipv6(&self) -> Option<IpAddress> {
        let v6 = || self.addresses.iter().filter(|a| a.addr.is_ipv6() && a.ready);
        v6().find(|a| !a.link_local).or_else(|| v6().next()).copied()
    }
}

/// All network interfaces of the calling thread's network namespace, in the kernel's order.
///
/// # Errors
/// When the kernel refuses netlink (a seccomp filter may).
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let control = control_socket()?;
    let mut found: BTreeMap<u32, Interface> = BTreeMap::new();
    netlink::dump(netlink::GET_LINK, |body| {
        if let Some(mut interface) = parse_link(body) {
            interface.wireless = sockopt::is_wireless(control.as_raw_fd(), &interface.name);
            found.insert(interface.index, interface);
        }
    })?;
    netlink::dump(netlink::GET_ADDRESS, |body| {
        let Some(address) = parse_address(body) else { return };
        if let Some(interface) = found.get_mut(&address.index) {
            interface.addresses.push(address);
        }
    })?;
    Ok(found.into_values().collect())
}

/// The interface with this name, if there is one.
///
/// # Errors
/// As for [`interfaces`].
pub fn interface(name: &str) -> io::Result<Option<Interface>> {
    Ok(interfaces()?.into_iter().find(|i| i.name == name))
}

/// An interface from the body of an RTM_NEWLINK message.
fn parse_link(body: &[u8]) -> Option<Interface> {
    // Attributes of linux/if_link.h.
    const ADDRESS: u16 = 1;
    const NAME: u16 = 3;
    const MTU: u16 = 4;
    const MASTER: u16 = 10;
    const LINK_INFO: u16 = 18;
    const INFO_KIND: u16 = 1;
    // `struct ifinfomsg`: family, pad, type (16 bits), index, flags, change.
    let (head, rest) = body.split_at_checked(16)?;
    let flags = word(&head[8..])?;
    let has = |flag: i32| flags & flag as u32 != 0;
    let mut interface = Interface {
        index: word(&head[4..])?,
        state: LinkState { up: has(libc::IFF_UP), carrier: has(libc::IFF_RUNNING) },
        loopback: has(libc::IFF_LOOPBACK),
        multicast: has(libc::IFF_MULTICAST),
        ..Interface::default()
    };
    for (what, value) in attributes(rest) {
        match what {
            ADDRESS => interface.mac = value.try_into().ok().filter(|m| *m != [0; 6]),
            NAME => interface.name = string(value),
            MTU => interface.mtu = word(value)? as usize,
            MASTER => interface.master = word(value),
            LINK_INFO => {
                let kind = attributes(value).find(|(what, _)| *what == INFO_KIND);
                interface.kind = kind.map(|(_, value)| string(value)).unwrap_or_default();
            }
            _ => {}
        }
    }
    (!interface.name.is_empty()).then_some(interface)
}

/// An address from the body of an RTM_NEWADDR message.
fn parse_address(body: &[u8]) -> Option<IpAddress> {
    // Attributes of linux/if_addr.h.
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    const FLAGS: u16 = 8;
    const TENTATIVE: u32 = 0x40;
    const DAD_FAILED: u32 = 0x08;
    // `struct ifaddrmsg`: family, prefix length, flags, scope (8 bits each), index.
    let (head, rest) = body.split_at_checked(8)?;
    let mut flags = u32::from(head[2]);
    let (mut address, mut local) = (None, None);
    for (what, value) in attributes(rest) {
        match what {
            ADDRESS => address = ip(value),
            LOCAL => local = ip(value),
            FLAGS => flags = word(value)?,
            _ => {}
        }
    }
    // On a point-to-point interface "address" is the other end, and "local" this one.
    let addr = local.or(address)?;
    let link_local = match addr {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    };
    Some(IpAddress {
        addr,
        prefix_len: head[1],
        link_local,
        ready: flags & (TENTATIVE | DAD_FAILED) == 0,
        index: word(&head[4..])?,
    })
}

/// An IP address from its bytes.
fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::V4(Ipv4Addr::from(four)));
    }
    <[u8; 16]>::try_from(bytes).ok().map(|sixteen| IpAddr::V6(Ipv6Addr::from(sixteen)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_off_messages_give_nothing() {
        for len in 0..16 {
            assert!(parse_link(&vec![0xff; len]).is_none());
        }
        assert!(parse_link(&[0; 64]).is_none(), "an interface without a name");
        assert!(parse_address(&[0; 7]).is_none());
        assert!(parse_address(&[2, 24, 0, 0, 1, 0, 0, 0]).is_none());
    }

    #[test]
    fn a_last_resort_is_told_by_what_the_kernel_says() {
        let of = |name: &str, kind: &str, wireless| {
            let (name, kind) = (name.to_owned(), kind.to_owned());
            Interface { name, kind, wireless, ..Interface::default() }.last_resort()
        };
        for cable in ["", "veth", "bond", "team", "vlan", "macvlan"] {
            assert_eq!(of("eth0", cable, false), None, "{cable}");
            assert_eq!(of("wlan0", cable, false), None, "a name says nothing");
        }
        assert_eq!(of("eth0", "", true), Some("Wi-Fi"));
        assert_eq!(of("eth0", "bridge", false), Some("bridge"));
        assert_eq!(of("eth0", "wireguard", false), Some("tunnel"));
        assert_eq!(of("docker0", "bridge", false), Some("container network"));
        assert_eq!(of("tailscale0", "tun", false), Some("tunnel"));
    }

    #[test]
    fn a_link_local_address_carries_its_scope() {
        let address = IpAddress {
            addr: "fe80::1".parse().unwrap(),
            prefix_len: 64,
            link_local: true,
            ready: true,
            index: 7,
        };
        assert_eq!(address.socket_addr(9).to_string(), "[fe80::1%7]:9");
    }
}
