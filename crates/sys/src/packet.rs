//! AF_PACKET: raw Ethernet frames, received through a ring in shared memory.
//!
//! Frames of one EtherType on one interface are written by the kernel into a ring (TPACKET_V2) that
//! is mapped here, so looking for a frame costs no system call. Sending is a plain `send` that goes
//! to the driver at once (PACKET_QDISC_BYPASS).

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::net::sockopt::{self, set};
use crate::net::{Condition, Sent, StepError, mmsg, step};
use crate::rx_ring::{RxRing, WholeLen, said_len};
use crate::stamp::{self, STAMPED_MAX};

pub use crate::stamp::STAMP_ROOM;

/// Bytes of an Ethernet header: destination, source, EtherType.
pub const ETHERNET_HEADER_LEN: usize = 14;

/// What a packet socket is opened with.
#[derive(Clone, Debug)]
pub struct PacketConfig<'a> {
    /// The interface's number.
    pub index: u32,
    /// Which EtherType to receive.
    pub ethertype: u16,
    /// The largest frame, bytes, the Ethernet header not counted.
    pub mtu: usize,
    /// Frames that the receive ring holds, at least.
    pub ring_frames: usize,
    /// Group addresses to receive as well.
    pub groups: &'a [[u8; 6]],
    /// How long the frame is, its Ethernet header not counted, that these bytes begin with, as it
    /// says itself; `None`: it does not say. What is behind that is padding.
    pub whole_len: WholeLen,
}

/// A packet socket on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    ring: RxRing,
    /// Says how long a frame is, if the longest stamped one fits.
    stamps: Option<WholeLen>,
    damaged: u64,
    dropped: Cell<u64>,
}

impl PacketSocket {
    /// Opens a packet socket. An interface that is down is no error: frames come once it is up.
    /// Every frame of the EtherType that the interface receives is received, also one for another
    /// Ethernet address, until [`PacketSocket::filter`] is called.
    ///
    /// # Errors
    /// Without CAP_NET_RAW (`EPERM`), without such an interface (`ENODEV`), or out of memory.
    pub fn open(config: &PacketConfig<'_>) -> Result<PacketSocket, StepError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol 0: nothing is received before `bind`, when everything is in place.
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None);
        let fd = step("opening a packet socket", fd.map_err(io::Error::from))?;
        let raw = fd.as_raw_fd();
        let one = 1i32;
        // Kernels before 4.20 receive what is sent here as well; that must not fill the ring.
        if set(raw, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &one).is_err() {
            let attached = crate::net::attach_filter(raw, &[], ETHERNET_HEADER_LEN, true);
            step("attaching the filter for outgoing frames", attached)?;
        }
        // An improvement that old kernels lack.
        let _ = set(raw, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &one);
        let _ = sockopt::grow_buffer(raw, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, 1 << 20);
        let (bytes, whole_len) = (ETHERNET_HEADER_LEN + config.mtu, Some(config.whole_len));
        let ring = RxRing::map(fd.as_fd(), 0, bytes, config.ring_frames, whole_len)?;
        for group in config.groups {
            step("joining the group address", join(raw, config.index, *group))?;
        }
        step("binding the packet socket", bind(raw, config.index, config.ethertype))?;
        let stamps = whole_len.filter(|_| bytes >= STAMPED_MAX);
        Ok(PacketSocket { fd, ring, stamps, damaged: 0, dropped: Cell::new(0) })
    }

    /// Has the kernel receive from now on only what meets these conditions and is not for another
    /// Ethernet address. That costs some 30 ns for each frame that is received.
    ///
    /// # Errors
    /// When there are too many.
    pub fn filter(&self, conditions: &[Condition]) -> io::Result<()> {
        crate::net::attach_filter(self.fd.as_raw_fd(), conditions, ETHERNET_HEADER_LEN, true)
    }

    /// Gives the current frame back to the kernel and moves to the next one; `false` when none has
    /// come. No system call.
    #[inline]
    pub fn advance(&mut self) -> bool {
        while let Some(slot) = self.ring.advance() {
            if slot.len == slot.whole && slot.len >= ETHERNET_HEADER_LEN {
                return true;
            }
            // Longer than the interface's MTU was when the ring was made: of no use.
            self.damaged += 1;
        }
        false
    }

    /// The current frame with its Ethernet header.
    ///
    /// # Panics
    /// If the last [`PacketSocket::advance`] found none.
    #[inline]
    pub fn frame(&self) -> &[u8] {
        assert!(self.ring.current().is_some(), "advance() found a frame");
        self.ring.frame()
    }

    /// Sends one frame that begins with its Ethernet header. One system call, which does not wait.
    ///
    /// # Errors
    /// `ENOBUFS` or `EAGAIN` when there is no room; `EMSGSIZE` when it is too long; `ENETDOWN`,
    /// `ENXIO` or `ENODEV` when the interface is down or gone.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let sent = mmsg::send_one(self.fd.as_fd(), frame);
        // Who sends at the same time as the other side has its frame by now.
        self.ring.prefetch_next();
        sent
    }

    /// As [`PacketSocket::send`], for the first `len` bytes of `frame`, where the memory behind
    /// them may be written: up to [`STAMP_ROOM`] bytes of it follow a short frame, as padding by
    /// which the receiver knows 0.1 us sooner that all is there.
    ///
    /// # Errors
    /// As for [`PacketSocket::send`].
    #[inline]
    pub fn send_stamped(&self, frame: &mut [u8], len: usize) -> io::Result<()> {
        // Who receives it is to find out where it ends.
        let said = self.stamps.and_then(|whole_len| said_len(whole_len, frame));
        let whole = if said == Some(len) { stamp::write(frame, len) } else { None };
        self.send(&frame[..whole.unwrap_or(len)])
    }

    /// The sending half once more, for another thread.
    ///
    /// # Errors
    /// When no more descriptors can be had.
    pub fn sender(&self) -> io::Result<FrameSender> {
        self.fd.try_clone().map(FrameSender)
    }

    /// Sends frames that lie `stride` bytes apart, the last one perhaps shorter, with as few system
    /// calls as it takes.
    pub fn send_many(&self, frames: &[u8], stride: usize) -> Sent {
        mmsg::send_many(self.fd.as_raw_fd(), None, frames, stride)
    }

    /// An error that waits on the socket, as `ENETDOWN` when the interface went down. Asking
    /// removes it; while it waits, the descriptor counts as readable.
    pub fn take_error(&self) -> Option<io::Error> {
        sockopt::take_error(self.fd.as_raw_fd())
    }

    /// Frames lost since the socket was opened because the ring was full or a frame was longer than
    /// a slot. One system call.
    pub fn dropped(&self) -> u64 {
        self.dropped.set(self.dropped.get() + drops(self.fd.as_raw_fd()));
        self.dropped.get() + self.damaged
    }

    /// Whether the kernel has lost frames since this was last asked.
    pub fn take_losing(&mut self) -> bool {
        self.ring.take_losing()
    }
}

/// Sends single frames over a socket that another owns.
#[derive(Debug)]
pub struct FrameSender(pub(crate) OwnedFd);

impl FrameSender {
    /// Sends one frame with all the headers that its socket wants. One system call, which does not
    /// wait.
    ///
    /// # Errors
    /// As for [`PacketSocket::send`].
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        mmsg::send_one(self.0.as_fd(), frame)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Frames that a packet socket has lost since this was last asked. One system call.
pub(crate) fn drops(fd: i32) -> u64 {
    // `tp_packets`, `tp_drops`.
    let counts = sockopt::get_words::<2>(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS);
    counts.map_or(0, |[_, drops]| u64::from(drops))
}

/// Receives what is sent to a group address, on one interface.
pub(crate) fn join(fd: i32, index: u32, group: [u8; 6]) -> io::Result<()> {
    membership(fd, Membership::Add, libc::PACKET_MR_MULTICAST, index, group)
}

/// Whether an interface shall take frames for one more address, or no longer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Membership {
    Add,
    Drop,
}

/// Changes which frames an interface takes: those for an address, of a kind of PACKET_MR_*.
pub(crate) fn membership(
    fd: i32,
    change: Membership,
    kind: i32,
    index: u32,
    address: [u8; 6],
) -> io::Result<()> {
    let mut mr_address = [0; 8];
    mr_address[..6].copy_from_slice(&address);
    let request = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: kind as u16,
        mr_alen: 6,
        mr_address,
    };
    let option = match change {
        Membership::Add => libc::PACKET_ADD_MEMBERSHIP,
        Membership::Drop => libc::PACKET_DROP_MEMBERSHIP,
    };
    set(fd, libc::SOL_PACKET, option, &request)
}

/// Binds to an interface and an EtherType: from now on frames come.
pub(crate) fn bind(fd: i32, index: u32, ethertype: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ethertype.to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = std::mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `address`.
    let done = unsafe { libc::bind(fd, (&raw const address).cast(), len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether the interface is still there that a socket was bound to.
pub(crate) fn is_bound(fd: i32) -> bool {
    // SAFETY: all zeros are a valid `sockaddr_ll`: no interface.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = std::mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes of `address`, any of which are valid.
    let done = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) };
    done == 0 && address.sll_ifindex > 0
}
