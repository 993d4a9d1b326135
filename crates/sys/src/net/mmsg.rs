//! Sending: one message, or many with one system call.

use std::io;
use std::mem;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::net::SendFlags;

use super::sockaddr::SockAddr;

/// Messages that one `sendmmsg` is given at most.
const BATCH: usize = 32;

/// How far a burst came.
#[derive(Debug, Default)]
pub struct Sent {
    /// Frames that the kernel took, counted from the first.
    pub frames: usize,
    /// System calls.
    pub calls: usize,
    /// Why it did not take the next one.
    pub error: Option<io::Error>,
}

/// Sends one message to where the socket is bound or connected to.
#[inline]
pub(crate) fn send_one(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    // Not by the C library's function: that one is a point of cancellation, which costs a good part
    // of what a call does.
    rustix::net::send(fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Sends messages that lie `stride` bytes apart, the last one perhaps shorter.
pub(crate) fn send_many(fd: RawFd, to: Option<&SockAddr>, bytes: &[u8], stride: usize) -> Sent {
    let mut sent = Sent::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(rest.len().min(stride * BATCH));
        let count = batch.len().div_ceil(stride);
        sent.calls += 1;
        match send_batch(fd, to, batch, stride) {
            Ok(taken) if taken == count => sent.frames += taken,
            Ok(taken) => {
                // `sendmmsg` keeps the reason of a stop to itself: the next call tells it.
                sent.frames += taken;
                rest = &rest[taken * stride..];
                sent.calls += 1;
                match send_batch(fd, to, &rest[..rest.len().min(stride)], stride) {
                    Ok(more) => {
                        sent.frames += more;
                        rest = &rest[rest.len().min(stride)..];
                        continue;
                    }
                    Err(error) => sent.error = Some(error),
                }
                return sent;
            }
            Err(error) => {
                sent.error = Some(error);
                return sent;
            }
        }
        rest = after;
    }
    sent
}

/// One `sendmmsg` of at most [`BATCH`] messages; says how many were taken, at least one.
fn send_batch(fd: RawFd, to: Option<&SockAddr>, bytes: &[u8], stride: usize) -> io::Result<usize> {
    // SAFETY: all zeros are valid for these plain structures (no address, no data).
    let mut pieces: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
    let mut count = 0;
    for (at, frame) in bytes.chunks(stride).take(BATCH).enumerate() {
        pieces[at] =
            libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        let header = &mut messages[at].msg_hdr;
        header.msg_iov = &raw mut pieces[at];
        header.msg_iovlen = 1;
        if let Some(to) = to {
            header.msg_name = to.as_ptr().cast_mut().cast();
            header.msg_namelen = to.len();
        }
        count += 1;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the first `count` headers name one piece each, which lies in `bytes`, and an address
    // of the stated length; all outlive the call, which only reads them, and writes `msg_len`.
    let done = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count as u32, flags as _) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as usize) }
}
