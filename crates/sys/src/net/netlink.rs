//! The little of netlink that listing interfaces takes.

use std::io;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// RTM_GETLINK: all interfaces.
pub(super) const GET_LINK: u16 = 18;
/// RTM_GETADDR: all addresses.
pub(super) const GET_ADDRESS: u16 = 22;

const HEADER_LEN: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x001 | 0x300;

/// Asks for everything of one sort and calls `each` with the body of every answer.
pub(super) fn dump(what: u16, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    // The kernel answers at once; the limit is there so that nothing can hang.
    let limit = std::time::Duration::from_secs(2);
    rustix::net::sockopt::set_socket_timeout(
        &socket,
        rustix::net::sockopt::Timeout::Recv,
        Some(limit),
    )?;
    // Header (length, type, flags, sequence, port) and a body of zeros: any family.
    let mut request = [0u8; HEADER_LEN + 16];
    request[..4].copy_from_slice(&(HEADER_LEN as u32 + 16).to_ne_bytes());
    request[4..6].copy_from_slice(&what.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    send(&socket, &request, SendFlags::empty())?;
    let mut buffer = vec![0u8; 128 * 1024];
    loop {
        let (len, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if walk(&buffer[..len], &mut each)? {
            return Ok(());
        }
    }
}

/// Calls `each` for the messages of one answer; `true` when it was the last one.
fn walk(mut bytes: &[u8], each: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    while let (Some(len), Some(what)) = (word(bytes), bytes.get(4..6)) {
        let what = u16::from_ne_bytes([what[0], what[1]]);
        let len = len as usize;
        let Some(body) = bytes.get(HEADER_LEN..len) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "netlink message cut off"));
        };
        match what {
            DONE => return Ok(true),
            ERROR => {
                let code = word(body).unwrap_or(0) as i32;
                return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
            }
            _ => each(body),
        }
        bytes = bytes.get(align(len)..).unwrap_or(&[]);
    }
    Ok(false)
}

/// The attributes in a message's body or in another attribute.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = bytes.get(..4)?;
        let len = u16::from_ne_bytes([head[0], head[1]]) as usize;
        // The two highest bits are flags.
        let what = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(align(len)..).unwrap_or(&[]);
        Some((what, value))
    })
}

/// The 32-bit word at the start of `bytes`.
pub(super) fn word(bytes: &[u8]) -> Option<u32> {
    bytes.get(..4)?.try_into().ok().map(u32::from_ne_bytes)
}

/// A string that a zero may end.
pub(super) fn string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn align(len: usize) -> usize {
    (len + 3) & !3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_lengths_end_the_walk_and_never_hang() {
        assert!(!walk(&[], &mut |_| ()).unwrap());
        let mut message = [0u8; 32];
        for len in [0u32, 15, 33, u32::MAX] {
            message[..4].copy_from_slice(&len.to_ne_bytes());
            assert!(walk(&message, &mut |_| ()).is_err());
        }
        for len in [0u8, 3, 200] {
            assert_eq!(attributes(&[len, 0, 1, 0, 9, 9, 9, 9]).count(), 0);
        }
        let both = [6, 0, 1, 0, 7, 8, 0, 0, 4, 0, 2, 0];
        let all: Vec<_> = attributes(&both).collect();
        assert_eq!(all, [(1, &[7u8, 8][..]), (2, &[][..])]);
    }
}
