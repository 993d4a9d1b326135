//! UDP sockets: segmentation and merging by the kernel, and many datagrams in one call.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// The most bytes that one segmented send may carry.
pub const BURST_MAX: usize = 65_000;

const UDP_SEGMENT: i32 = 103;
const UDP_GRO: i32 = 104;

fn set(socket: &UdpSocket, level: i32, option: i32, value: i32) -> io::Result<()> {
    let (at, len) = (std::ptr::from_ref(&value).cast(), size_of::<i32>() as u32);
    // SAFETY: the kernel reads `len` bytes of a borrowed integer.
    let r = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, len) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel cut every send on this socket into datagrams of `bytes` (UDP_SEGMENT).
///
/// # Errors
/// When the kernel cannot (before 4.18).
pub fn set_segment(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    set(socket, libc::SOL_UDP, UDP_SEGMENT, bytes as i32)
}

/// Lets the kernel hand several datagrams of equal length over as one (UDP_GRO).
///
/// # Errors
/// When the kernel cannot (before 5.0).
pub fn allow_merging(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::SOL_UDP, UDP_GRO, 1)
}

/// Asks for socket buffers of `bytes`, as far as the system allows.
pub fn room(socket: &UdpSocket, bytes: usize) {
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes as i32);
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes as i32);
}

/// Receives what has been merged into one piece, without waiting: its length and the length of
/// each datagram in it (the last may be shorter); `None` when nothing has come.
///
/// # Errors
/// What the kernel says.
pub fn receive_merged(socket: &UdpSocket, into: &mut [u8]) -> io::Result<Option<(usize, usize)>> {
    let mut control = [0u64; 8];
    let mut piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: all-zero is a valid message header.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: every pointer in `message` is to memory of the stated length that lives through this.
    let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
    if n < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    let mut segment = n as usize;
    // SAFETY: the kernel has filled `message.msg_controllen` bytes of `control`; the macro checks
    // that a whole header lies there, and the value behind a UDP_GRO header is an integer.
    unsafe {
        let at = libc::CMSG_FIRSTHDR(&message);
        if !at.is_null() && (*at).cmsg_level == libc::SOL_UDP && (*at).cmsg_type == UDP_GRO {
            segment = libc::CMSG_DATA(at).cast::<i32>().read_unaligned() as usize;
        }
    }
    Ok(Some((n as usize, segment.max(1))))
}

/// Many datagrams of one length, sent or received by one system call (`sendmmsg`, `recvmmsg`).
pub struct Many {
    bytes: Vec<u8>,
    pieces: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

impl Many {
    /// Room for `count` datagrams of `len` bytes.
    pub fn new(count: usize, len: usize) -> Many {
        let mut bytes = vec![0u8; count * len];
        let piece = |c: &mut [u8]| libc::iovec { iov_base: c.as_mut_ptr().cast(), iov_len: len };
        let mut pieces: Vec<libc::iovec> = bytes.chunks_exact_mut(len).map(piece).collect();
        let message = |piece: &mut libc::iovec| {
            // SAFETY: all-zero is a valid message header.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        let messages = pieces.iter_mut().map(message).collect();
        Many { bytes, pieces, messages }
    }

    /// Sends all datagrams to the socket's peer; says how many were taken.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let (at, count) = (self.messages.as_mut_ptr(), self.messages.len() as u32);
        // SAFETY: the headers point to `pieces`, and these to `bytes`; neither has moved or changed
        // since `new`, and both live as long as `self`.
        let n = unsafe { libc::sendmmsg(socket.as_raw_fd(), at, count, 0) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
    }

    /// Receives up to as many datagrams as there is room for, without waiting.
    ///
    /// # Errors
    /// What the kernel says; nothing there is `Ok(0)`.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let (at, count) = (self.messages.as_mut_ptr(), self.messages.len() as u32);
        let (flags, no_limit) = (libc::MSG_DONTWAIT, std::ptr::null_mut());
        // SAFETY: as in `send`; `self` is exclusively borrowed while the kernel writes. The type of
        // the flags differs between C libraries.
        let n = unsafe { libc::recvmmsg(socket.as_raw_fd(), at, count, flags as _, no_limit) };
        if n >= 0 {
            return Ok(n as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) }
    }

    /// The bytes of all datagrams, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many there is room for.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_datagrams_in_one_call() {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        let mut out = Many::new(16, 64);
        assert_eq!(out.send(&from).unwrap(), 16);
        let mut into = Many::new(32, 64);
        assert_eq!(into.receive(&to).unwrap(), 16);
        assert_eq!(into.receive(&to).unwrap(), 0);
        assert_eq!((into.count(), into.bytes().len()), (32, 2048));
    }

    #[test]
    fn a_segmented_send_arrives_whole() {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        room(&to, 1 << 20);
        if let Err(e) = set_segment(&from, 1000).and_then(|()| allow_merging(&to)) {
            println!("SKIPPED: no UDP segmentation offload in this kernel: {e}");
            return;
        }
        from.send(&[1; 10_500]).unwrap();
        let (mut got, mut into) = (0, vec![0; 65_536]);
        while let Some((n, segment)) = receive_merged(&to, &mut into).unwrap() {
            assert!(segment <= 1000);
            got += n;
        }
        assert_eq!(got, 10_500);
    }
}
