//! A bare packet socket with a version 2 receive ring, or without one.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::shared::owned;

const FRAME_BYTES: usize = 2048;
const FRAMES: usize = 256;
const RING_BYTES: usize = FRAME_BYTES * FRAMES;

/// A raw packet socket on one interface, for one EtherType, sending past the queueing discipline.
#[derive(Debug)]
pub struct FloorPacket {
    fd: OwnedFd,
    ring: Option<NonNull<u8>>,
    next: usize,
    mac: [u8; 6],
}

impl FloorPacket {
    /// Opens the socket, with a receive ring in user memory if `ring`.
    ///
    /// # Errors
    /// `PermissionDenied` without the raw-socket right; what the kernel says otherwise.
    pub fn open(interface: &str, ether_type: u16, ring: bool) -> io::Result<FloorPacket> {
        let name = CString::new(interface)?;
        // SAFETY: `name` is a terminated string that lives through the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: makes a descriptor and touches no memory. Protocol 0: nothing arrives before
        // bind.
        let fd = owned(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        set(&fd, libc::PACKET_QDISC_BYPASS, &1i32)?;
        // Frames that this host sends would only be read again; older kernels cannot leave them
        // out.
        const PACKET_IGNORE_OUTGOING: i32 = 23;
        let _ = set(&fd, PACKET_IGNORE_OUTGOING, &1i32);
        let ring = if ring { Some(map_ring(&fd)?) } else { None };
        let mut socket = FloorPacket { fd, ring, next: 0, mac: [0; 6] };
        socket.bind(index, ether_type)?;
        Ok(socket)
    }

    fn bind(&mut self, index: u32, ether_type: u16) -> io::Result<()> {
        // SAFETY: all-zero is a valid socket address of this plain structure.
        let mut addr: libc::sockaddr_ll = unsafe { zeroed() };
        addr.sll_family = libc::AF_PACKET as u16;
        addr.sll_protocol = ether_type.to_be();
        addr.sll_ifindex = index as i32;
        let mut len = size_of::<libc::sockaddr_ll>() as u32;
        let at: *mut libc::sockaddr_ll = &mut addr;
        // SAFETY: `at` points to a socket address of `len` bytes.
        if unsafe { libc::bind(self.fd.as_raw_fd(), at.cast(), len) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above; the kernel writes at most `len` bytes.
        if unsafe { libc::getsockname(self.fd.as_raw_fd(), at.cast(), &mut len) } < 0 {
            return Err(io::Error::last_os_error());
        }
        self.mac.copy_from_slice(&addr.sll_addr[..6]);
        Ok(())
    }

    /// The hardware address of the interface.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Sends one frame, Ethernet header included. Waits when the device has no room.
    ///
    /// # Errors
    /// What the kernel says.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads `frame.len()` bytes of a borrowed slice.
        let n = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Takes the next frame from the ring and gives its length; `None` when there is none. No
    /// system call. Always `None` without a ring.
    #[inline]
    pub fn poll(&mut self) -> Option<usize> {
        let at = self.ring?.as_ptr().wrapping_add(self.next * FRAME_BYTES);
        // SAFETY: `next` is below FRAMES, so the frame's header lies inside the mapping, aligned to
        // FRAME_BYTES; its first word is shared with the kernel and only used as an atomic.
        let status = unsafe { &*at.cast::<AtomicU32>() };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: while the status says USER, the rest of the header is ours to read.
        let len = unsafe { (*at.cast::<libc::tpacket2_hdr>()).tp_snaplen } as usize;
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % FRAMES;
        Some(len)
    }

    /// Receives one frame by a plain system call, without waiting; `None` when there is none.
    ///
    /// # Errors
    /// What the kernel says.
    #[inline]
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let (at, len) = (into.as_mut_ptr().cast(), into.len());
        // SAFETY: the kernel writes at most `len` bytes into a slice that is exclusively borrowed.
        let n = unsafe { libc::recv(self.fd.as_raw_fd(), at, len, libc::MSG_DONTWAIT) };
        if n >= 0 {
            return Ok(Some(n as usize));
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) }
    }
}

impl Drop for FloorPacket {
    fn drop(&mut self) {
        if let Some(ring) = self.ring {
            // SAFETY: the mapping was made in `map_ring` with this length; nothing refers to it
            // now.
            unsafe { libc::munmap(ring.as_ptr().cast(), RING_BYTES) };
        }
    }
}

fn set<T>(fd: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    let (at, len) = (std::ptr::from_ref(value).cast(), size_of::<T>() as u32);
    // SAFETY: the kernel reads `len` bytes of a borrowed value.
    let r = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, at, len) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn map_ring(fd: &OwnedFd) -> io::Result<NonNull<u8>> {
    set(fd, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as i32))?;
    let request = libc::tpacket_req {
        tp_block_size: RING_BYTES as u32,
        tp_block_nr: 1,
        tp_frame_size: FRAME_BYTES as u32,
        tp_frame_nr: FRAMES as u32,
    };
    set(fd, libc::PACKET_RX_RING, &request)?;
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    let null = std::ptr::null_mut();
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory in use.
    let at = unsafe { libc::mmap(null, RING_BYTES, rights, flags, fd.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(at.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
