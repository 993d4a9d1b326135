//! AF_PACKET with offload headers (PACKET_VNET_HDR): TCP-shaped frames far longer than the MTU,
//! which the NIC, or the kernel just before it, cuts into pieces of that size (TSO), and which the
//! receiver's kernel joins again before it hands them over (GRO).
//!
//! The kernel writes each frame whole into a mapped ring, so to take one costs no system call.

use std::cell::Cell;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::buf::Buf;
use crate::net::sockopt::{self, set};
use crate::net::{self, Condition, StepError, mmsg, step};
use crate::packet::{self, ETHERNET_HEADER_LEN, FrameSender};
use crate::rx_ring::RxRing;

/// Bytes of the header that says what the NIC shall do with a frame, and that stands before it.
pub const OFFLOAD_LEN: usize = 10;

/// The EtherType of IPv6.
const IPV6: u16 = 0x86dd;

// linux/virtio_net.h.
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;

/// Bytes asked for as send buffer.
const SEND_BUFFER: usize = 2 << 20;

/// What the NIC shall do with a frame of IPv6 and TCP. Offsets count from the frame's first byte.
#[derive(Clone, Copy, Debug)]
pub struct Offload {
    /// Bytes of all headers: each piece begins with them.
    pub headers: u16,
    /// Payload bytes of each piece but the last; 0: the frame fits in one.
    pub segment: u16,
    /// Where the TCP header begins.
    pub tcp_start: u16,
    /// Whether the kernel shall cut it even where the NIC could. It does unless the NIC says that
    /// it knows TCP with congestion notices (`tx-tcp-ecn-segmentation`), for that is what the frame
    /// then seems to be. Nothing of that is on the wire.
    pub in_software: bool,
}

impl Offload {
    /// Writes the header at the start of `into`.
    #[inline]
    pub fn write(&self, into: &mut [u8]) {
        let tcp_checksum_at = 16u16;
        into[0] = NEEDS_CSUM;
        into[1] = match (self.segment, self.in_software) {
            (0, _) => 0,
            (_, false) => GSO_TCPV6,
            (_, true) => GSO_TCPV6 | GSO_ECN,
        };
        into[2..4].copy_from_slice(&self.headers.to_ne_bytes());
        into[4..6].copy_from_slice(&self.segment.to_ne_bytes());
        into[6..8].copy_from_slice(&self.tcp_start.to_ne_bytes());
        into[8..10].copy_from_slice(&tcp_checksum_at.to_ne_bytes());
    }
}

/// What such a socket is opened with.
#[derive(Clone, Debug)]
pub struct TsoConfig<'a> {
    /// The interface's number.
    pub index: u32,
    /// What frames must have to be received; offsets count from after the Ethernet header.
    pub conditions: &'a [Condition],
    /// Group addresses to receive as well.
    pub groups: &'a [[u8; 6]],
    /// Frames are received that have more than so many bytes, from the Ethernet header on, ...
    pub longer_than: usize,
    /// ... and at most so many. Each takes as much of the ring.
    pub at_most: usize,
    /// Frames that may wait, at least.
    pub ring_frames: usize,
}

/// A packet socket on one interface that sends and receives long IPv6 frames, each behind an
/// [`Offload`] header. It never waits.
#[derive(Debug)]
pub struct TsoSocket {
    fd: OwnedFd,
    ring: RxRing,
    lengths: (usize, usize),
    dropped: Cell<u64>,
}

/// A packet socket whose frames have offload headers. Its protocol is 0: nothing is received before
/// it is bound, when everything is in place.
pub(crate) fn with_headers() -> Result<OwnedFd, StepError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None);
    let fd = step("opening a packet socket", fd.map_err(io::Error::from))?;
    step("asking for offload headers", set(fd.as_raw_fd(), libc::SOL_PACKET, VNET_HDR, &1i32))?;
    Ok(fd)
}

impl TsoSocket {
    /// Opens a socket. An interface that is down is no error: frames come once it is up.
    ///
    /// # Errors
    /// Without CAP_NET_RAW (`EPERM`), or without such an interface (`ENODEV`).
    pub fn open(config: &TsoConfig<'_>) -> Result<TsoSocket, StepError> {
        let lengths = (config.longer_than, config.at_most);
        let attach = |fd| attach(fd, config.conditions, lengths);
        let socket = TsoSocket::unbound(attach, lengths, config.ring_frames)?;
        let raw = socket.fd.as_raw_fd();
        for group in config.groups {
            step("joining the group address", packet::join(raw, config.index, *group))?;
        }
        socket.bind(config.index, IPV6)?;
        Ok(socket)
    }

    /// A socket for frames of such lengths that its filter lets through. It receives nothing
    /// before it is bound.
    pub(crate) fn unbound(
        filter: impl FnOnce(RawFd) -> io::Result<()>,
        lengths: (usize, usize),
        ring_frames: usize,
    ) -> Result<TsoSocket, StepError> {
        let fd = with_headers()?;
        let raw = fd.as_raw_fd();
        step("attaching the frame filter", filter(raw))?;
        // All are improvements that old kernels or strict limits lack. The queueing discipline is
        // not gone round: whatever does that drops what the kernel has to cut itself.
        let _ = set(raw, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32);
        let _ = sockopt::grow_buffer(raw, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER);
        let ring = RxRing::map(fd.as_fd(), OFFLOAD_LEN, lengths.1, ring_frames, None)?;
        Ok(TsoSocket { fd, ring, lengths, dropped: Cell::new(0) })
    }

    /// From now on it receives what comes over an interface, of an EtherType.
    pub(crate) fn bind(&self, index: u32, ethertype: u16) -> Result<(), StepError> {
        step("binding the packet socket", packet::bind(self.fd.as_raw_fd(), index, ethertype))
    }

    /// Receives from now on what meets these conditions, as those given to [`TsoSocket::open`].
    ///
    /// # Errors
    /// When there are too many.
    pub fn filter(&self, conditions: &[Condition]) -> io::Result<()> {
        attach(self.fd.as_raw_fd(), conditions, self.lengths)
    }

    /// Sends one frame, which begins with its [`Offload`] header. One system call.
    ///
    /// # Errors
    /// `ENOBUFS` or `EAGAIN` when there is no room; `EINVAL` when the headers make no sense;
    /// `ENETDOWN`, `ENXIO` or `ENODEV` when the interface is down or gone.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        mmsg::send_one(self.fd.as_fd(), frame)
    }

    /// The sending half once more, for another thread.
    ///
    /// # Errors
    /// When no more descriptors can be had.
    pub fn sender(&self) -> io::Result<FrameSender> {
        self.fd.try_clone().map(FrameSender)
    }

    /// As [`TsoSocket::send`], for a frame whose end is `len` bytes of `tail` from `at` on, which
    /// need not be copied to its beginning. `None`: they lie in too many pieces; nothing was done.
    #[inline]
    pub fn send_from(
        &self,
        head: &[u8],
        tail: &Buf,
        at: usize,
        len: usize,
    ) -> Option<io::Result<()>> {
        let mut vector = Vector::new(head.as_ptr().cast_mut(), head.len());
        vector.add_buf(tail, at, len)?;
        let message = vector.message();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let fd = self.fd.as_raw_fd();
        // SAFETY: `message` names pieces of `head` and of `tail`, whose keeper keeps them valid;
        // the call only reads them.
        let done = unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const message, flags) };
        Some(if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) })
    }

    /// Lets go of the current frame, if there is one.
    #[inline]
    pub fn release(&mut self) {
        self.ring.release();
    }

    /// When the next frame came (seconds, and nanoseconds of these), if there is one, and the last
    /// was let go of.
    #[inline]
    pub fn next_came(&mut self) -> Option<(u32, u32)> {
        self.ring.next_came()
    }

    /// Lets go of the current frame and moves on to the next; `false` when none has come. No system
    /// call.
    #[inline]
    pub fn advance(&mut self) -> bool {
        while let Some(slot) = self.ring.advance() {
            if slot.len == slot.whole {
                return true;
            }
        }
        false
    }

    /// The current frame, from its Ethernet header on.
    #[inline]
    pub fn frame(&self) -> &[u8] {
        self.ring.frame()
    }

    /// The current frame and the header before it, as the kernel has written it: as it can be sent.
    #[inline]
    pub(crate) fn with_header(&self) -> &[u8] {
        self.ring.frame_behind(OFFLOAD_LEN)
    }

    /// An error that waits on the socket. Asking removes it; while it waits, the descriptor counts
    /// as readable.
    pub fn take_error(&self) -> Option<io::Error> {
        sockopt::take_error(self.fd.as_raw_fd())
    }

    /// Frames lost since the socket was opened because there was no room. One system call.
    pub fn dropped(&self) -> u64 {
        let dropped = self.dropped.get() + packet::drops(self.fd.as_raw_fd());
        self.dropped.set(dropped);
        dropped
    }
}

/// Pieces of memory for one call.
const PIECES_MAX: usize = 16;

/// Where a call's bytes lie.
struct Vector {
    pieces: [libc::iovec; PIECES_MAX],
    count: usize,
}

impl Vector {
    fn new(at: *mut u8, len: usize) -> Vector {
        // SAFETY: all zeros are a valid `iovec`: no memory.
        let mut pieces: [libc::iovec; PIECES_MAX] = unsafe { mem::zeroed() };
        pieces[0] = libc::iovec { iov_base: at.cast(), iov_len: len };
        Vector { pieces, count: 1 }
    }

    /// Adds `len` bytes of `buf` from `at` on; `None` if there are not so many, or in too many
    /// pieces.
    #[inline]
    fn add_buf(&mut self, buf: &Buf, at: usize, len: usize) -> Option<()> {
        let mut fits = true;
        let covered = buf.each(at, len, |at, _, len| {
            fits &= self.count < PIECES_MAX;
            if let Some(piece) = self.pieces.get_mut(self.count) {
                *piece = libc::iovec { iov_base: at.cast(), iov_len: len };
                self.count += 1;
            }
        });
        (fits && covered == len).then_some(())
    }

    /// A message of these pieces, which must outlive it.
    fn message(&mut self) -> libc::msghdr {
        // SAFETY: all zeros are a valid `msghdr`: no address, no data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = self.pieces.as_mut_ptr();
        message.msg_iovlen = self.count as _;
        message
    }
}

/// PACKET_VNET_HDR, which the `libc` crate does not name everywhere.
const VNET_HDR: i32 = 15;

/// Has the socket receive what meets these conditions and has such a length.
fn attach(fd: RawFd, conditions: &[Condition], lengths: (usize, usize)) -> io::Result<()> {
    net::attach_for_lengths(fd, conditions, ETHERNET_HEADER_LEN, lengths)
}

impl AsFd for TsoSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
