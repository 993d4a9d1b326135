//! The end of a cable that a program holds in its hand: every frame that an interface receives,
//! taken and given as the kernel has it. What offloads keep whole stays whole, and a checksum that
//! is yet to be made stays so (PACKET_VNET_HDR).

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::RecvFlags;
use rustix::time::{ClockId, clock_gettime};

use crate::net::sockopt::{self, set};
use crate::net::{StepError, mmsg, step};
use crate::packet;
use crate::tso::{OFFLOAD_LEN, with_headers};

/// Bytes that every frame fits in, with the header before it.
pub const FRAME_MAX: usize = OFFLOAD_LEN + packet::ETHERNET_HEADER_LEN + 4 + (1 << 16);

/// Bytes asked for as buffers: what may come while the program has no processor, and what may wait
/// behind a queueing discipline.
const BUFFER: usize = 32 << 20;

/// All frames of one interface. It never waits.
#[derive(Debug)]
pub struct CableEnd {
    fd: OwnedFd,
}

impl CableEnd {
    /// Opens the interface with this number, in the calling thread's network namespace.
    ///
    /// # Errors
    /// Without CAP_NET_RAW (`EPERM`), or without such an interface (`ENODEV`).
    pub fn open(index: u32) -> Result<CableEnd, StepError> {
        let fd = with_headers()?;
        let raw = fd.as_raw_fd();
        let one = 1i32;
        let ignored = set(raw, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &one);
        step("leaving out what is sent", ignored)?;
        // Where limits are strict, less is held.
        let _ = sockopt::grow_buffer(raw, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, BUFFER);
        let _ = sockopt::grow_buffer(raw, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, BUFFER);
        let every = libc::ETH_P_ALL as u16;
        step("binding the packet socket", packet::bind(raw, index, every))?;
        Ok(CableEnd { fd })
    }

    /// Takes the next frame, its header before it, and says how many bytes that are; `None`: none
    /// is there. Frames that the header cannot describe are lost. One system call.
    pub fn take(&self, into: &mut [u8; FRAME_MAX]) -> Option<usize> {
        loop {
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            match rustix::net::recv(&self.fd, &mut into[..], flags) {
                Ok((got, whole)) if got == whole && got > OFFLOAD_LEN => return Some(got),
                Ok(_) => {}
                Err(error) if io::Error::from(error).kind() == ErrorKind::InvalidInput => {}
                // Also what waits on the socket once, as that the interface went down.
                Err(_) => return None,
            }
        }
    }

    /// How long ago the frame came that was taken last, ns; 0 where the kernel did not look at the
    /// clock, as for those that came before this was first asked. One system call.
    pub fn waited_ns(&self) -> u64 {
        // As asm-generic/sockios.h has it.
        const SIOCGSTAMPNS: libc::Ioctl = 0x8907;
        let mut came = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes one `timespec` to `came`.
        let done = unsafe { libc::ioctl(self.fd.as_raw_fd(), SIOCGSTAMPNS, &raw mut came) };
        if done != 0 || came.tv_sec <= 0 {
            return 0;
        }
        let now = clock_gettime(ClockId::Realtime);
        let waited = (now.tv_sec - came.tv_sec) * 1_000_000_000 + now.tv_nsec - came.tv_nsec;
        waited.max(0) as u64
    }

    /// Sends what another end took. One system call.
    ///
    /// # Errors
    /// `ENOBUFS` or `EAGAIN` when there is no room; `ENETDOWN`, `ENXIO` or `ENODEV` when the
    /// interface is down or gone.
    pub fn give(&self, frame: &[u8]) -> io::Result<()> {
        mmsg::send_one(self.fd.as_fd(), frame)
    }
}

impl AsFd for CableEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
