//! AF_PACKET: raw Ethernet frames, received through a ring in shared memory.
//!
//! Frames of one EtherType on one interface are written by the kernel into a ring (TPACKET_V2) that
//! is mapped here, so looking for a frame costs no system call. Sending is a plain `send` that goes
//! to the driver at once (PACKET_QDISC_BYPASS).

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::cpu;
use crate::net::sockopt::{self, set};
use crate::net::{Condition, Sent, StepError, mmsg, step};

/// Bytes of an Ethernet header: destination, source, EtherType.
pub const ETHERNET_HEADER_LEN: usize = 14;

/// The memory that the kernel is asked for at once. A multiple of every page size.
const BLOCK_LEN: usize = 64 * 1024;

/// Bytes of a cache line, or a divisor of it.
const CACHE_LINE: usize = 64;

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
    /// What frames must have to be received; offsets count from after the Ethernet header.
    pub conditions: &'a [Condition],
    /// Group addresses to receive as well.
    pub groups: &'a [[u8; 6]],
}

/// A packet socket on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    ring: Ring,
    /// Where the slot begins that comes next, or is looked at, in the ring.
    at: usize,
    /// Which one it is within its block.
    in_block: usize,
    /// The frame being looked at, as offset in the ring and length.
    current: Option<(usize, usize)>,
    losing: bool,
    damaged: u64,
    dropped: Cell<u64>,
}

/// The mapped receive ring.
#[derive(Debug)]
struct Ring {
    memory: NonNull<u8>,
    len: usize,
    slot_len: usize,
    slots_per_block: usize,
    block_len: usize,
}

// SAFETY: the mapping belongs to this value alone (the kernel aside, with which the status words
// synchronize), and is not tied to a thread.
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `Ring::map` with this length; no reference into it
        // outlives the socket that owns the ring.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.len) };
    }
}

impl Ring {
    /// Asks for a ring and maps it.
    fn map(fd: BorrowedFd<'_>, mtu: usize, frames: usize) -> Result<Ring, StepError> {
        // The kernel's header, then room that aligns the network header to 16, then the frame. An
        // odd number of cache lines, so that slots do not all fall into the same few cache sets.
        let bytes = libc::TPACKET2_HDRLEN + 16 + ETHERNET_HEADER_LEN + mtu;
        let slot_len = (bytes.div_ceil(CACHE_LINE) | 1) * CACHE_LINE;
        let block_len = BLOCK_LEN.max(slot_len.next_power_of_two());
        let slots_per_block = block_len / slot_len;
        let blocks = frames.max(2).div_ceil(slots_per_block);
        let request = libc::tpacket_req {
            tp_block_size: block_len as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot_len as u32,
            tp_frame_nr: (blocks * slots_per_block) as u32,
        };
        let raw = fd.as_raw_fd();
        step(
            "asking for a receive ring",
            set(raw, libc::SOL_PACKET, libc::PACKET_RX_RING, &request),
        )?;
        let len = block_len * blocks;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
        let mapped = unsafe { mmap(std::ptr::null_mut(), len, access, flags, fd, 0) };
        let memory = step("mapping the receive ring", mapped.map_err(io::Error::from))?;
        let Some(memory) = NonNull::new(memory.cast::<u8>()) else {
            return step("mapping the receive ring", Err(io::ErrorKind::OutOfMemory.into()));
        };
        Ok(Ring { memory, len, slot_len, slots_per_block, block_len })
    }

    /// Where the slot after `(at, in_block)` begins. Slots fill a block without crossing its end.
    #[inline]
    fn after(&self, at: usize, in_block: usize) -> (usize, usize) {
        if in_block + 1 < self.slots_per_block {
            return (at + self.slot_len, in_block + 1);
        }
        let next = at - in_block * self.slot_len + self.block_len;
        (if next < self.len { next } else { 0 }, 0)
    }

    /// The status word of the slot at `at`.
    #[inline]
    fn status(&self, at: usize) -> &AtomicU32 {
        assert!(at + self.slot_len <= self.len, "a slot lies inside the ring");
        // SAFETY: in bounds, as was just checked; aligned, for slots are multiples of 64 and the
        // mapping is page-aligned; the kernel's side accesses the word as one 32-bit unit.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(at).cast()) }
    }

    /// The header of the slot at `at`, which the kernel has handed over.
    #[inline]
    fn header(&self, at: usize) -> libc::tpacket2_hdr {
        assert!(at + self.slot_len <= self.len, "a slot lies inside the ring");
        // SAFETY: in bounds and aligned, as in `status`; any bits are a valid header; the kernel
        // does not write to a slot that it has handed over.
        unsafe { self.memory.as_ptr().add(at).cast::<libc::tpacket2_hdr>().read() }
    }

    /// Bytes of the ring that the kernel has handed over.
    #[inline]
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(at + len <= self.len, "a frame lies inside the ring");
        // SAFETY: in bounds; the kernel does not write to a slot that it has handed over, and the
        // slot is given back only through `&mut PacketSocket`, when no such slice is left.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(at), len) }
    }
}

impl PacketSocket {
    /// Opens a packet socket. An interface that is down is no error: frames come once it is up.
    ///
    /// # Errors
    /// Without CAP_NET_RAW (`EPERM`), without such an interface (`ENODEV`), or out of memory.
    pub fn open(config: &PacketConfig<'_>) -> Result<PacketSocket, StepError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol 0: nothing is received before `bind`, when everything is in place.
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None);
        let fd = step("opening a packet socket", fd.map_err(io::Error::from))?;
        let raw = fd.as_raw_fd();
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        let one = 1i32;
        step(
            "choosing the ring's layout",
            set(raw, libc::SOL_PACKET, libc::PACKET_VERSION, &version),
        )?;
        let base = ETHERNET_HEADER_LEN;
        step(
            "attaching the frame filter",
            crate::net::attach_filter(raw, config.conditions, base, true),
        )?;
        // Both are improvements that old kernels lack; the filter drops outgoing frames as well.
        let _ = set(raw, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &one);
        let _ = set(raw, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &one);
        let _ = sockopt::grow_buffer(raw, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, 1 << 20);
        let ring = Ring::map(fd.as_fd(), config.mtu, config.ring_frames)?;
        for group in config.groups {
            step("joining the group address", join(raw, config.index, *group))?;
        }
        step("binding the packet socket", bind(raw, config.index, config.ethertype))?;
        Ok(PacketSocket {
            fd,
            ring,
            at: 0,
            in_block: 0,
            current: None,
            losing: false,
            damaged: 0,
            dropped: Cell::new(0),
        })
    }

    /// Receives from now on what meets these conditions, as those given to [`PacketSocket::open`].
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
        if self.current.is_some() {
            self.give_back();
        }
        // A full turn at most: each slot that is passed over has been given back.
        loop {
            let status = self.ring.status(self.at).load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                return false;
            }
            // The lines that a small frame is in, which another core has just written, come while
            // the header is looked at and the clock is read.
            cpu::prefetch(self.ring.bytes(self.at + CACHE_LINE, 2 * CACHE_LINE));
            self.losing |= status & libc::TP_STATUS_LOSING != 0;
            let header = self.ring.header(self.at);
            let (start, len) = (header.tp_mac as usize, header.tp_snaplen as usize);
            let whole = header.tp_len == header.tp_snaplen
                && len >= ETHERNET_HEADER_LEN
                && start + len <= self.ring.slot_len;
            self.current = Some((self.at + start, len));
            if whole {
                return true;
            }
            // Longer than the interface's MTU was when the ring was made: of no use.
            self.damaged += 1;
            self.give_back();
        }
    }

    /// Gives the slot that is looked at back to the kernel.
    #[inline]
    fn give_back(&mut self) {
        self.current = None;
        self.ring.status(self.at).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        (self.at, self.in_block) = self.ring.after(self.at, self.in_block);
    }

    /// The current frame with its Ethernet header.
    ///
    /// # Panics
    /// If the last [`PacketSocket::advance`] found none.
    #[inline]
    pub fn frame(&self) -> &[u8] {
        let (at, len) = self.current.expect("advance() found a frame");
        self.ring.bytes(at, len)
    }

    /// Sends one frame that begins with its Ethernet header. One system call, which does not wait.
    ///
    /// # Errors
    /// `ENOBUFS` or `EAGAIN` when there is no room; `EMSGSIZE` when it is too long; `ENETDOWN`,
    /// `ENXIO` or `ENODEV` when the interface is down or gone.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        mmsg::send_one(self.fd.as_fd(), frame)
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
        std::mem::take(&mut self.losing)
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
    let mut address = [0; 8];
    address[..6].copy_from_slice(&group);
    let request = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_MULTICAST as u16,
        mr_alen: 6,
        mr_address: address,
    };
    set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
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
