//! The line: a socket of its own for the peer that a link exchanges datagrams with, as long as
//! there is but one. Connected to it, the kernel asks for the route once and not for every
//! datagram, both ways. With several peers, each would cost a system call more in every poll.

use std::io;
use std::net::SocketAddr;

use weft_sys::net::StepError;
use weft_sys::udp::{Received, UdpSocket};

/// So many datagrams or bursts are exchanged with one peer alone until it has the line.
const ROW: u32 = 64;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) socket: UdpSocket,
    own: SocketAddr,
    /// Who has it; the link's own address where nobody does.
    to: SocketAddr,
    /// The last exchange was with this peer, and so were `row` before it.
    with: SocketAddr,
    row: u32,
    /// Nothing of who had it before is in its queue.
    empty: bool,
}

impl Line {
    /// A line for the socket of a link, which is bound to `own`.
    pub(super) fn open(
        link: &UdpSocket,
        own: SocketAddr,
        interface: &str,
    ) -> Result<Line, StepError> {
        let socket = link.twin(Some(interface))?;
        Ok(Line { socket, own, to: own, with: own, row: 0, empty: false })
    }

    /// Whether what goes to `peer` goes by the line.
    #[inline]
    pub(super) fn serves(&self, peer: &SocketAddr) -> bool {
        self.to == *peer
    }

    /// Whether a peer has it.
    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.to != self.own
    }

    /// Something goes to or has come from `peer`; `true`: the line has another peer now, or none.
    #[inline]
    pub(super) fn note(&mut self, peer: &SocketAddr) -> bool {
        if self.with != *peer {
            return self.begin(peer);
        }
        self.row = self.row.saturating_add(1);
        self.row == ROW && self.give(*peer)
    }

    #[cold]
    fn begin(&mut self, peer: &SocketAddr) -> bool {
        (self.with, self.row) = (*peer, 0);
        self.is_taken() && self.give(self.own)
    }

    /// Connects it. What had come before stays in its queue.
    #[cold]
    fn give(&mut self, to: SocketAddr) -> bool {
        let done = self.socket.connect(&to);
        self.to = if done.is_ok() { to } else { self.own };
        self.empty = false;
        true
    }

    /// See [`UdpSocket::receive`]. The kernel is not asked for the sender where it is known.
    #[inline]
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        if self.empty && self.is_taken() {
            return self.socket.receive_of(self.to, buffer);
        }
        let received = self.socket.receive(buffer);
        self.empty = matches!(received, Ok(None));
        received
    }
}
