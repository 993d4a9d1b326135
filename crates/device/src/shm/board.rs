//! Boards: memory that all members of a group on this node share. The member that makes one gives
//! it to the others over the sockets of their connections.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use weft_ring::{Board, Memory};
use weft_sys::mem::{self, Mapping};
use weft_wire::PeerId;

use super::Shm;
use super::hello::Packet;
use super::peer::{Line, State};
use crate::error::Error;

/// Most boards of one peer that are kept for groups that are not made here yet.
const MAX_BOARDS: usize = 64;

/// Most members for which a board has a slate. With more of them, those who look at all of it have
/// much to look at.
const SLATE_MEMBERS: usize = 64;

/// Bytes of a board for so many members.
fn len(members: usize) -> usize {
    if members <= SLATE_MEMBERS { Board::len_with_slate(members) } else { Board::LEN }
}

/// A board that this process has made.
pub(super) struct Lent {
    group: u64,
    fd: OwnedFd,
    /// Who is still to be given it.
    waiting: Vec<PeerId>,
}

/// Maps a board.
fn attach(fd: BorrowedFd<'_>) -> Result<Board, String> {
    let mapping = Mapping::whole(fd, len(SLATE_MEMBERS)).map_err(|e| e.to_string())?;
    let memory = Memory::new(Arc::new(mapping)).map_err(|e| e.to_string())?;
    Board::new(memory).map_err(|e| e.to_string())
}

/// A peer has sent a board.
pub(super) fn receive(line: &mut Line, group: u64, fds: &[OwnedFd]) {
    let Some(fd) = fds.first() else { return };
    match attach(fd.as_fd()) {
        Ok(board) => {
            // Whoever misses one asks for it again.
            line.boards.retain(|(known, _)| *known != group);
            if line.boards.len() == MAX_BOARDS {
                line.boards.remove(0);
            }
            line.boards.push((group, board));
        }
        Err(error) => tracing::warn!("mapping a group's board: {error}: raise `ulimit -n`"),
    }
}

impl Shm {
    pub(super) fn lend(&mut self, group: u64, peers: &[PeerId]) -> Result<Board, Error> {
        if let Some(stranger) = peers.iter().find(|&&peer| self.at(peer).is_none()) {
            return Err(Error::UnknownPeer { peer: *stranger });
        }
        // It takes memory only where something is shown.
        let fd = mem::memfd("weft-board", len(peers.len() + 1))
            .map_err(|e| Error::system("making a group's board", &e))?;
        let board = attach(fd.as_fd()).map_err(|e| Error::os("making a group's board", e))?;
        self.lent.push(Lent { group, fd, waiting: peers.to_vec() });
        self.give_boards();
        Ok(board)
    }

    /// Gives boards to those who are connected by now, and sees to it that the others will be.
    pub(super) fn give_boards(&mut self) {
        let mut lent = std::mem::take(&mut self.lent);
        for Lent { group, fd, waiting } in &mut lent {
            waiting.retain(|&peer| {
                let Some(at) = self.at(peer) else { return false };
                let peer = &mut self.peers[at];
                match (&peer.line, &mut peer.state) {
                    (Some(line), _) => {
                        line.talks && !line.packet(&Packet::Board { group: *group }, &[fd.as_fd()])
                    }
                    (None, State::Idle { retry_ns, wanted: wanted @ false }) => {
                        (*wanted, *retry_ns) = (true, 0);
                        self.next_look_ns = 0;
                        true
                    }
                    (None, state) => !matches!(state, State::Gone(_)),
                }
            });
        }
        self.lent = lent;
    }

    pub(super) fn take_lent(&mut self, peer: PeerId, group: u64) -> Option<Board> {
        let at = self.at(peer)?;
        let boards = &mut self.peers[at].line.as_mut()?.boards;
        let found = boards.iter().position(|(g, _)| *g == group)?;
        Some(boards.remove(found).1)
    }

    /// Gives a board again to one that asks for it; `false`: there is none.
    pub(super) fn lend_again(&mut self, group: u64, peer: PeerId) -> bool {
        let Some(lent) = self.lent.iter_mut().find(|lent| lent.group == group) else {
            return false;
        };
        if !lent.waiting.contains(&peer) {
            lent.waiting.push(peer);
        }
        self.give_boards();
        true
    }

    pub(super) fn drop_lent(&mut self, group: u64) {
        self.lent.retain(|lent| lent.group != group);
        for line in self.peers.iter_mut().filter_map(|peer| peer.line.as_mut()) {
            line.boards.retain(|(known, _)| *known != group);
        }
    }

    pub(super) fn ring_all(&mut self, peers: &[PeerId]) -> bool {
        let mut all = true;
        for &peer in peers {
            let Some(at) = self.at(peer) else { continue };
            match &self.peers[at].line {
                Some(line) => self.count.woken += u64::from(line.nudge()),
                None => {
                    drop(self.way_to(peer, false));
                    all = false;
                }
            }
        }
        all
    }
}
