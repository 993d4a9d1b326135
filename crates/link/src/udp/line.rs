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
    /// The last exchange was with this peer, and so were `row` before it.
    with: SocketAddr,
    row: u32,
    /// That peer has it; else it is connected to the link's own address.
    taken: bool,
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
        Ok(Line { socket, own, with: own, row: 0, taken: false, empty: false })
    }

    /// Whether what goes to `peer` goes by the line.
    #[inline]
    pub(super) fn serves(&self, peer: &SocketAddr) -> bool {
        self.taken && self.with == *peer
    }

    /// Whether a peer has it.
    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Something goes to or has come from `peer`; `true`: the line has another peer now, or none.
    #[inline]
    pub(super) fn note(&mut self, peer: &SocketAddr) -> bool {
        if self.with != *peer {
            return self.begin(peer);
        }
        self.row = self.row.saturating_add(1);
        self.row == ROW && self.give(true)
    }

    #[cold]
    fn begin(&mut self, peer: &SocketAddr) -> bool {
        (self.with, self.row) = (*peer, 0);
        self.taken && self.give(false)
    }

    /// Connects it to the peer, or to nobody. What had come before stays in its queue.
    #[cold]
    fn give(&mut self, taken: bool) -> bool {
        let to = if taken { self.with } else { self.own };
        self.taken = self.socket.connect(&to).is_ok() && taken;
        self.empty = false;
        true
    }

    /// See [`UdpSocket::receive`]. The kernel is not asked for the sender where it is known.
    #[inline]
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        if self.empty && self.taken {
            return self.socket.receive_of(self.with, buffer);
        }
        let received = self.socket.receive(buffer);
        self.empty = matches!(received, Ok(None));
        received
    }
}
