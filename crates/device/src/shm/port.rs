//! The port of a process: its number on its node, held exclusively.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use weft_sys::unix::{Listener, Socket};
use weft_wire::GROUPS_PORT;

use crate::error::Error;

/// The first of the ports that are given out where none was asked for.
const FIRST_FREE: u16 = 1024;

/// A claimed port. It is an abstract unix socket, so it is free again the moment its process ends,
/// in whatever way; nothing is left in any file system. Its peers on the node connect to it to be
/// given shared memory.
#[derive(Debug)]
pub struct Port {
    number: u16,
    listener: Listener,
}

impl Port {
    /// Claims port `number`, from 1 to 65534.
    ///
    /// # Errors
    /// [`Error::PortTaken`], which names the holder; [`Error::Os`] when no socket can be had.
    pub fn claim(number: u16) -> Result<Port, Error> {
        match Listener::bind(&name(number)) {
            Ok(listener) => Ok(Port { number, listener }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Err(Error::PortTaken { port: number, holder: holder(number) })
            }
            Err(error) => Err(os(&error)),
        }
    }

    /// Claims any port that is free.
    ///
    /// # Errors
    /// [`Error::Os`] when no socket can be had, or all ports are taken.
    pub fn claim_any() -> Result<Port, Error> {
        // Processes that start together begin at different places, so that few collide.
        let span = u32::from(GROUPS_PORT - FIRST_FREE);
        let start = std::process::id().wrapping_mul(0x9e37_79b1);
        for step in 0..span {
            let number = FIRST_FREE + (start.wrapping_add(step) % span) as u16;
            match Listener::bind(&name(number)) {
                Ok(listener) => return Ok(Port { number, listener }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(os(&error)),
            }
        }
        Err(Error::os("claiming a port", "all 64511 ports of this node are taken"))
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The next process that wants to connect.
    pub(super) fn accept(&self) -> io::Result<Option<Socket>> {
        self.listener.accept()
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// The abstract name of a port's socket.
pub(super) fn name(number: u16) -> Vec<u8> {
    format!("weft/port/{number}").into_bytes()
}

fn os(error: &io::Error) -> Error {
    Error::system("claiming a port", error)
}

/// Who holds a port: the kernel tells whoever connects.
fn holder(number: u16) -> String {
    let other = Socket::connect(&name(number)).ok().flatten();
    match other.and_then(|socket| socket.peer().ok()) {
        Some(peer) if peer.pid != 0 => format!("process {} (user {})", peer.pid, peer.uid),
        Some(peer) => format!("a process of another container (user {})", peer.uid),
        None => "another process".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_exclusive_and_its_holder_is_named() {
        let port = Port::claim_any().unwrap();
        let error = Port::claim(port.number()).unwrap_err();
        let me = format!("process {}", std::process::id());
        assert!(error.to_string().contains(&me), "{error}");
        let number = port.number();
        drop(port);
        assert_eq!(Port::claim(number).unwrap().number(), number);
    }
}
