//! Where a process can be reached, in 64 bytes that any wire-up can carry (an MPI library allows
//! its provider no more).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of an encoded [`Address`].
pub const ADDRESS_LEN: usize = 64;

/// The version of the encoding.
const VERSION: u8 = 1;

/// Most bytes of a host's name that an address keeps, for people to read.
const HOST_LEN: usize = 14;

/// Where a process can be reached. Two addresses with the same `node` share memory; between nodes,
/// links are found by hello frames that name `node` and `port`, so that no IP address is needed;
/// the IP addresses are a second way, for the udp link where hello frames cannot be multicast.
///
/// | bytes | field |
/// |---|---|
/// | 0 | version, 1 |
/// | 1 | zero |
/// | 2..4 | port |
/// | 4..8 | pid |
/// | 8..16 | node |
/// | 16..24 | nonce |
/// | 24..26 | udp port, zero if there is no udp link |
/// | 26..40 | host name, cut off, padded with zeros |
/// | 40..48 | two IPv4 addresses, zero if absent |
/// | 48..64 | one IPv6 address, zero if absent |
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The node: one network namespace of one booted kernel.
    pub node: u64,
    /// Different for every opening of a context, so that a process is not taken for one before it.
    pub nonce: u64,
    /// The process's Weft port, unique on its node.
    pub port: u16,
    /// The process's id on its node, for people to read.
    pub pid: u32,
    /// The UDP port of its udp link, or zero.
    pub udp_port: u16,
    /// IPv4 addresses of its node; unspecified where there are fewer.
    pub ipv4: [Ipv4Addr; 2],
    /// An IPv6 address of its node that is not link-local, or unspecified.
    pub ipv6: Ipv6Addr,
    host: [u8; HOST_LEN],
}

/// Why bytes are not an [`Address`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    /// Too short or too long.
    #[error("an address has {ADDRESS_LEN} bytes, not {0}: was it cut off on its way?")]
    Length(usize),
    /// Made by another version of Weft.
    #[error(
        "the address was made by a Weft that writes version {0}, this one reads {VERSION}: install \
         the same Weft on all nodes"
    )]
    Version(u8),
}

impl Address {
    /// An address with no IP addresses in it.
    pub fn new(node: u64, nonce: u64, port: u16, pid: u32, host: &str) -> Address {
        let mut short = [0; HOST_LEN];
        let mut end = host.len().min(HOST_LEN);
        while !host.is_char_boundary(end) {
            end -= 1;
        }
        short[..end].copy_from_slice(&host.as_bytes()[..end]);
        Address {
            node,
            nonce,
            port,
            pid,
            udp_port: 0,
            ipv4: [Ipv4Addr::UNSPECIFIED; 2],
            ipv6: Ipv6Addr::UNSPECIFIED,
            host: short,
        }
    }

    /// The host's name, perhaps cut off.
    pub fn host(&self) -> String {
        let end = self.host.iter().position(|&b| b == 0).unwrap_or(HOST_LEN);
        String::from_utf8_lossy(&self.host[..end]).into_owned()
    }

    /// As bytes.
    pub fn encode(&self) -> [u8; ADDRESS_LEN] {
        let mut b = [0; ADDRESS_LEN];
        b[0] = VERSION;
        b[2..4].copy_from_slice(&self.port.to_le_bytes());
        b[4..8].copy_from_slice(&self.pid.to_le_bytes());
        b[8..16].copy_from_slice(&self.node.to_le_bytes());
        b[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        b[24..26].copy_from_slice(&self.udp_port.to_le_bytes());
        b[26..40].copy_from_slice(&self.host);
        b[40..44].copy_from_slice(&self.ipv4[0].octets());
        b[44..48].copy_from_slice(&self.ipv4[1].octets());
        b[48..64].copy_from_slice(&self.ipv6.octets());
        b
    }

    /// From bytes.
    ///
    /// # Errors
    /// When the length or the version is not the expected one.
    pub fn decode(bytes: &[u8]) -> Result<Address, AddressError> {
        let b: &[u8; ADDRESS_LEN] =
            bytes.try_into().map_err(|_| AddressError::Length(bytes.len()))?;
        if b[0] != VERSION {
            return Err(AddressError::Version(b[0]));
        }
        let four = |at: usize| -> [u8; 4] { [b[at], b[at + 1], b[at + 2], b[at + 3]] };
        let mut eight = [0; 8];
        let mut u64_at = |at: usize| {
            eight.copy_from_slice(&b[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        let (node, nonce) = (u64_at(8), u64_at(16));
        let mut host = [0; HOST_LEN];
        host.copy_from_slice(&b[26..40]);
        let mut ipv6 = [0; 16];
        ipv6.copy_from_slice(&b[48..64]);
        Ok(Address {
            node,
            nonce,
            port: u16::from_le_bytes([b[2], b[3]]),
            pid: u32::from_le_bytes(four(4)),
            udp_port: u16::from_le_bytes([b[24], b[25]]),
            ipv4: [Ipv4Addr::from(four(40)), Ipv4Addr::from(four(44))],
            ipv6: Ipv6Addr::from(ipv6),
            host,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self}, node {:016x}, port {})", self.node, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_and_back_changes_nothing() {
        let mut a = Address::new(0x1122_3344_5566_7788, 9, 77, 4321, "a-long-hóst-name");
        a.udp_port = 5000;
        a.ipv4[1] = Ipv4Addr::new(10, 0, 0, 1);
        a.ipv6 = Ipv6Addr::LOCALHOST;
        assert_eq!(Address::decode(&a.encode()), Ok(a));
        assert_eq!(a.host(), "a-long-hóst-n");
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert_eq!(Address::decode(&[1; 63]), Err(AddressError::Length(63)));
        assert_eq!(Address::decode(&[7; 64]), Err(AddressError::Version(7)));
    }
}
