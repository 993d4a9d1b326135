//! UDP sockets that send and receive many datagrams with one system call (UDP_SEGMENT, UDP_GRO).

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::net::sockaddr::SockAddr;
use crate::net::sockopt::{self, set};
use crate::net::{Condition, Sent, StepError, mmsg, step};

/// The most bytes that the kernel hands over at once: what fits in an IP packet.
pub const RECEIVE_MAX: usize = 65_535;

/// The most payload bytes that one segmented send may have, over IPv4 and IPv6.
pub const SEND_MAX: usize = 65_535 - 40 - UDP_HEADER_LEN;

/// The most segments of one send (the limit of kernels before 6.9; later ones allow 128).
pub const SEGMENTS_MAX: usize = 64;

/// Bytes of a UDP header.
pub const UDP_HEADER_LEN: usize = 8;

/// What a UDP socket is opened with.
#[derive(Clone, Copy, Debug)]
pub struct UdpConfig<'a> {
    /// The address to bind to; port 0 lets the kernel choose. A group address serves a socket that
    /// only hears what is sent to the group.
    pub bind: SocketAddr,
    /// Whether other sockets may bind to the same port, as all that hear a group must.
    pub shared: bool,
    /// The interface to stay on.
    pub interface: Option<&'a str>,
}

/// A UDP socket that never waits.
#[derive(Debug)]
pub struct UdpSocket {
    fd: OwnedFd,
}

/// What one call received: a datagram, or several of one sender, of equal length but perhaps the
/// last, which is shorter, one behind the other. Of what length they say themselves.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Who sent them.
    pub from: SocketAddr,
    /// Bytes in all.
    pub len: usize,
}

/// Room for control messages, aligned as the kernel's headers want it.
#[repr(C, align(8))]
struct Control([u8; 96]);

impl UdpSocket {
    /// Opens and binds a socket. Fragmentation is off: a datagram that is too long fails.
    ///
    /// # Errors
    /// When the address is not this node's (`EADDRNOTAVAIL`), is taken (`EADDRINUSE`), or the
    /// address family is switched off (`EAFNOSUPPORT`).
    pub fn open(config: &UdpConfig<'_>) -> Result<UdpSocket, StepError> {
        let v4 = config.bind.is_ipv4();
        let family = if v4 { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(family, SocketType::DGRAM, flags, None);
        let fd = step("opening a UDP socket", fd.map_err(io::Error::from))?;
        let raw = fd.as_raw_fd();
        let one = 1i32;
        if config.shared {
            let done = set(raw, libc::SOL_SOCKET, libc::SO_REUSEADDR, &one);
            step("sharing the UDP port", done)?;
        }
        if let Some(interface) = config.interface {
            step("staying on the interface", bind_to_device(raw, interface))?;
        }
        let (level, name) = if v4 {
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)
        } else {
            step("leaving IPv4 alone", set(raw, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &one))?;
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)
        };
        // PROBE: never fragment, and do not believe ICMP messages about the path's MTU, which
        // anybody can forge. The constant is the same for IPv4 and IPv6.
        let probe = libc::IP_PMTUDISC_PROBE;
        step("switching fragmentation off", set(raw, level, name, &probe))?;
        step("binding the UDP socket", bind(raw, &config.bind))?;
        Ok(UdpSocket { fd })
    }

    /// A second socket on the same address and port, and like this one on `interface`. It hears the
    /// peer that it is connected to, and this one does not any more; at first it is connected to
    /// its own address, from which nothing comes.
    ///
    /// To and from such a peer, the kernel asks for the route once and not for every datagram.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn twin(&self, interface: Option<&str>) -> Result<UdpSocket, StepError> {
        let bind = step("asking for the UDP port", self.local_addr())?;
        // The port is shared for this moment only: nobody else shall have it.
        step("sharing the UDP port", self.share(true))?;
        let twin = UdpSocket::open(&UdpConfig { bind, shared: true, interface });
        step("keeping the UDP port", self.share(false))?;
        let twin = twin?;
        step("connecting a UDP socket", twin.connect(&bind))?;
        Ok(twin)
    }

    fn share(&self, shared: bool) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        set(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &i32::from(shared))
    }

    /// The same socket once more, for another thread to send over.
    ///
    /// # Errors
    /// When no more descriptors can be had.
    pub fn try_clone(&self) -> io::Result<UdpSocket> {
        Ok(UdpSocket { fd: self.fd.try_clone()? })
    }

    /// Has it send to `peer`, and hear from `peer` only, instead of the one before.
    ///
    /// # Errors
    /// When there is no way to the peer.
    pub fn connect(&self, peer: &SocketAddr) -> io::Result<()> {
        let peer = SockAddr::new(peer);
        // SAFETY: the kernel reads an address of the given length.
        let done = unsafe { libc::connect(self.fd.as_raw_fd(), peer.as_ptr(), peer.len()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The address that the socket is bound to.
    ///
    /// # Errors
    /// Only if the descriptor is not a UDP socket, which cannot be.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let mut addr = SockAddr::empty();
        let mut len = addr.len();
        // SAFETY: the kernel writes at most `len` bytes, the size of `addr`.
        let done =
            unsafe { libc::getsockname(self.fd.as_raw_fd(), addr.as_mut_ptr(), &raw mut len) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        addr.get().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Lets the kernel hand over several datagrams of one sender in one piece (UDP_GRO), or has it
    /// hand over each for itself.
    ///
    /// # Errors
    /// On kernels before 5.0.
    pub fn merge_received(&self, merge: bool) -> io::Result<()> {
        set(self.fd.as_raw_fd(), libc::SOL_UDP, libc::UDP_GRO, &i32::from(merge))
    }

    /// Makes the receive buffer `bytes` large or as large as `net.core.rmem_max` allows, and gives
    /// the size it has.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn grow_receive_buffer(&self, bytes: usize) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        sockopt::grow_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
    }

    /// Makes the send buffer `bytes` large or as large as `net.core.wmem_max` allows, and gives the
    /// size it has.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn grow_send_buffer(&self, bytes: usize) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        sockopt::grow_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
    }

    /// Sends to groups over the interface with number `index`, no farther than its cable; `own`:
    /// whether listeners on this node hear it too.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn multicast_over(&self, index: u32, own: bool) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        let (own, one) = (i32::from(own), 1i32);
        if self.local_addr()?.is_ipv4() {
            let request = libc::ip_mreqn {
                imr_multiaddr: libc::in_addr { s_addr: 0 },
                imr_address: libc::in_addr { s_addr: 0 },
                imr_ifindex: index as i32,
            };
            set(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)?;
            set(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, &one)?;
            set(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, &own)
        } else {
            set(fd, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, &(index as i32))?;
            set(fd, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, &one)?;
            set(fd, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, &own)
        }
    }

    /// Receives what is sent to `group` on the interface with number `index`.
    ///
    /// # Errors
    /// When there is no such interface, or it cannot multicast.
    pub fn join(&self, group: IpAddr, index: u32) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        match group {
            IpAddr::V4(v4) => {
                let request = libc::ip_mreqn {
                    imr_multiaddr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.octets()) },
                    imr_address: libc::in_addr { s_addr: 0 },
                    imr_ifindex: index as i32,
                };
                set(fd, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &request)
            }
            IpAddr::V6(v6) => {
                let request = libc::ipv6_mreq {
                    ipv6mr_multiaddr: libc::in6_addr { s6_addr: v6.octets() },
                    ipv6mr_interface: index,
                };
                set(fd, libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &request)
            }
        }
    }

    /// Drops datagrams in the kernel that do not meet all conditions; offsets count from the start
    /// of the payload.
    ///
    /// # Errors
    /// When there are too many conditions.
    pub fn filter(&self, conditions: &[Condition]) -> io::Result<()> {
        crate::net::attach_filter(self.fd.as_raw_fd(), conditions, UDP_HEADER_LEN, false)
    }

    /// Sends `bytes` as datagrams of `segment` bytes each, the last perhaps shorter, with one
    /// system call (UDP_SEGMENT), to `to` or the peer that it is connected to. All are taken or
    /// none.
    ///
    /// # Errors
    /// `EIO`, `EINVAL` or `EOPNOTSUPP` where the kernel or the interface cannot segment; `EMSGSIZE`
    /// when a datagram is too long; `EAGAIN` or `ENOBUFS` when there is no room; `ENETUNREACH`,
    /// `ENETDOWN` and the like when there is no way.
    #[inline]
    pub fn send(&self, to: Option<&SocketAddr>, bytes: &[u8], segment: usize) -> io::Result<()> {
        let to = to.map(SockAddr::new);
        let (name, name_len) = to.as_ref().map_or((ptr::null(), 0), |to| (to.as_ptr(), to.len()));
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        if bytes.len() <= segment {
            let (fd, at, len) = (self.fd.as_raw_fd(), bytes.as_ptr(), bytes.len());
            // SAFETY: the kernel reads `len` bytes at `at`, and an address of the given length, or
            // none.
            let done =
                unsafe { libc::syscall(libc::SYS_sendto, fd, at, len, flags, name, name_len) };
            return if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        }
        self.send_cut(to.as_ref(), bytes, segment)
    }

    /// Sends several datagrams, which the kernel or the interface cuts.
    fn send_cut(&self, to: Option<&SockAddr>, bytes: &[u8], segment: usize) -> io::Result<()> {
        let mut piece =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: all zeros are a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        if let Some(to) = to {
            message.msg_name = to.as_ptr().cast_mut().cast();
            message.msg_namelen = to.len();
        }
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        let mut control = Control([0; 96]);
        let segment = u16::try_from(segment).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: CMSG_SPACE and CMSG_LEN only calculate.
        let (space, len) = unsafe { (libc::CMSG_SPACE(2), libc::CMSG_LEN(2)) };
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = space as _;
        // SAFETY: `control` is aligned and larger than `space`, so that the first header and its
        // two bytes of data lie inside; CMSG_FIRSTHDR gives `control`'s start.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_UDP;
            (*header).cmsg_type = libc::UDP_SEGMENT;
            (*header).cmsg_len = len as _;
            libc::CMSG_DATA(header).cast::<u16>().write_unaligned(segment);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `message` names an address, one piece and a control buffer with their right
        // lengths; all outlive the call, which only reads them.
        let done = unsafe {
            libc::syscall(libc::SYS_sendmsg, self.fd.as_raw_fd(), &raw const message, flags)
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sends the same as [`UdpSocket::send`], a datagram at a time as far as the kernel sees, for
    /// where it cannot segment.
    pub fn send_many(&self, to: Option<&SocketAddr>, bytes: &[u8], segment: usize) -> Sent {
        let to = to.map(SockAddr::new);
        mmsg::send_many(self.fd.as_raw_fd(), to.as_ref(), bytes, segment)
    }

    /// Receives into `buffer`, which must have [`RECEIVE_MAX`] bytes to be sure that nothing is cut
    /// off; `None` when nothing has come. A datagram cut off, or from no IP address, is skipped.
    ///
    /// # Errors
    /// When the socket has an error waiting, or the kernel refuses.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        self.take(buffer, None)
    }

    /// The same on a socket that is connected to `peer`, and has nothing of others in its queue.
    ///
    /// # Errors
    /// As for [`UdpSocket::receive`].
    #[inline]
    pub fn receive_of(&self, peer: SocketAddr, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        self.take(buffer, Some(peer))
    }

    /// By `recvfrom`: a message header, and control messages in it, cost more than what is asked
    /// for (measured: 0.2 us of a datagram's way there and back, most of which is looks in vain).
    #[inline]
    fn take(&self, buffer: &mut [u8], peer: Option<SocketAddr>) -> io::Result<Option<Received>> {
        let mut from = SockAddr::empty();
        let mut from_len = from.len();
        let (name, name_len) = match peer {
            None => (from.as_mut_ptr(), &raw mut from_len),
            Some(_) => (ptr::null_mut(), ptr::null_mut()),
        };
        let (fd, at, room) = (self.fd.as_raw_fd(), buffer.as_mut_ptr(), buffer.len());
        // The length of what was cut off is told as well.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // Not by the C library's functions, which are points of cancellation: most calls find
        // nothing, and then that costs a good part of them.
        // SAFETY: the kernel writes at most `room` bytes at `at`, and at most `from_len` bytes of
        // an address, or none; all outlive the call.
        let done =
            unsafe { libc::syscall(libc::SYS_recvfrom, fd, at, room, flags, name, name_len) };
        if done < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(None),
                _ => Err(error),
            };
        }
        let len = done as usize;
        let from = peer.or_else(|| from.get()).filter(|_| len <= room);
        Ok(from.map(|from| Received { from, len }))
    }

    /// Datagrams dropped because the receive buffer was full. One system call.
    pub fn dropped(&self) -> u64 {
        // `SK_MEMINFO_DROPS` of what `SO_MEMINFO` gives, which kernels before 4.12 do not have.
        const DROPS: usize = 8;
        let fd = self.fd.as_raw_fd();
        let info = sockopt::get_words::<{ DROPS + 1 }>(fd, libc::SOL_SOCKET, libc::SO_MEMINFO);
        info.map_or(0, |info| u64::from(info[DROPS]))
    }

    /// An error that waits on the socket. Asking removes it; while it waits, the descriptor counts
    /// as readable.
    pub fn take_error(&self) -> Option<io::Error> {
        sockopt::take_error(self.fd.as_raw_fd())
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn bind(fd: i32, to: &SocketAddr) -> io::Result<()> {
    let addr = SockAddr::new(to);
    // SAFETY: the kernel reads `len()` bytes of `addr`.
    let done = unsafe { libc::bind(fd, addr.as_ptr(), addr.len()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a socket send and receive over one interface only. Needs no right since Linux 5.7; where
/// it does, the socket still works, by the routing table.
fn bind_to_device(fd: i32, interface: &str) -> io::Result<()> {
    let mut name = [0u8; libc::IFNAMSIZ];
    let len = interface.len();
    let Some(room) = name.get_mut(..len).filter(|_| len < libc::IFNAMSIZ) else {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    };
    room.copy_from_slice(interface.as_bytes());
    match set(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(bind: &str) -> UdpSocket {
        let config = UdpConfig { bind: bind.parse().unwrap(), shared: false, interface: None };
        UdpSocket::open(&config).unwrap()
    }

    #[test]
    fn segments_sent_with_one_call_arrive_whole_and_in_order() {
        let sender = socket("127.0.0.1:0");
        let receiver = socket("127.0.0.1:0");
        receiver.merge_received(true).unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(10_500).collect();
        let to = receiver.local_addr().unwrap();
        sender.send(Some(&to), &bytes, 1000).unwrap();
        let mut buffer = vec![0; RECEIVE_MAX];
        let mut got = Vec::new();
        while let Some(received) = receiver.receive(&mut buffer).unwrap() {
            assert_eq!(received.from, sender.local_addr().unwrap());
            assert!(received.len.is_multiple_of(1000) || received.len % 1000 == 500);
            got.extend_from_slice(&buffer[..received.len]);
        }
        assert_eq!(got, bytes);
    }

    #[test]
    fn the_filter_drops_in_the_kernel() {
        let sender = socket("127.0.0.1:0");
        let receiver = socket("127.0.0.1:0");
        receiver.filter(&[Condition::u16_le(2, &[0x0403])]).unwrap();
        let to = receiver.local_addr().unwrap();
        sender.send(Some(&to), &[1, 2, 3, 5], 4).unwrap();
        sender.send(Some(&to), &[1, 2], 2).unwrap();
        sender.send(Some(&to), &[1, 2, 3, 4], 4).unwrap();
        let mut buffer = [0; 100];
        let received = receiver.receive(&mut buffer).unwrap().unwrap();
        assert_eq!(&buffer[..received.len], [1, 2, 3, 4]);
        assert!(receiver.receive(&mut buffer).unwrap().is_none());
    }

    #[test]
    fn what_is_longer_than_the_buffer_is_skipped_and_what_does_not_fit_the_queue_counted() {
        let sender = socket("127.0.0.1:0");
        let receiver = socket("127.0.0.1:0");
        let to = receiver.local_addr().unwrap();
        let mut buffer = [0; 1000];
        sender.send(Some(&to), &[7; 1001], 1001).unwrap();
        assert!(receiver.receive(&mut buffer).unwrap().is_none());
        assert_eq!(receiver.dropped(), 0);
        for _ in 0..10_000 {
            sender.send(Some(&to), &[7; 1000], 1000).unwrap();
        }
        let mut got = 0;
        while receiver.receive(&mut buffer).unwrap().is_some() {
            got += 1;
        }
        assert!(receiver.dropped() > 0);
        assert_eq!(got + receiver.dropped(), 10_000);
    }

    #[test]
    fn a_datagram_over_the_mtu_fails_and_full_buffers_say_so() {
        let sender = socket("127.0.0.1:0");
        let to = socket("127.0.0.1:0").local_addr().unwrap();
        let long = vec![0; 65_536];
        let error = sender.send(Some(&to), &long, 65_536).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
    }
}
