//! The members of one node in a barrier: they meet on a board, two words in memory that they share.
//!
//! Whoever arrives counts itself there. Where there are no other nodes, the last one to arrive
//! opens the barrier for all. Else it wakes the node's first member, which takes part in the
//! barrier of the first ones, then opens. So each member is woken once, however many share a core.
//!
//! The first member makes the board and gives it to the others. Where it cannot, for they share no
//! memory, it says so, and datagrams go instead.

use weft_ring::{Board, Slate};
use weft_wire::PeerId;

use super::heading::kind;
use super::part::{Count, Part, Word, datagram, what};
use super::team::{Outlet, Team};
use crate::collective::{Algorithm, have_all_arrived};

#[derive(Clone, Debug)]
enum Means {
    Board(Board),
    /// The first member has not given it yet.
    Awaited,
    Datagrams,
}

/// See the module's page. Barriers are numbered from 1.
#[derive(Clone, Debug)]
pub(super) struct Node {
    part: Part,
    means: Means,
    /// Whether this process is the node's first member.
    first: bool,
    /// Whether the group has members on this node only.
    alone: bool,
    /// Whether it has two, and these alone.
    pair: bool,
    /// This process has arrived, and the board has not come.
    owed: bool,
    /// Somebody has left this barrier, as it says: it is over.
    over: u64,
}

impl Node {
    /// Of the members `ranks`, if this process is one of them and not the only one.
    pub(super) fn new(team: &Team, ranks: &[u32], alone: bool) -> Option<Node> {
        let algorithm = Algorithm::Concurrent { links: 1 };
        let part = Part::new(team, ranks, algorithm, kind::NODE_BARRIER)?;
        let first = ranks[0] == team.rank;
        let pair = alone && ranks.len() == 2;
        Some(Node { part, means: Means::Awaited, first, alone, pair, owed: false, over: 0 })
    }

    /// The slate of the group's members, where all of them meet here, on a board that has one.
    pub(super) fn slate(&self, rank: u32) -> Option<Slate> {
        match &self.means {
            Means::Board(board) if self.alone => {
                board.slate(rank as usize, self.part.peers.len()).ok()
            }
            _ => None,
        }
    }

    /// Wakes members that sleep, for something on the board.
    pub(super) fn wake(&self, peers: &[PeerId], out: &mut Outlet<'_>) {
        if !out.device.ring(peers) && !self.first {
            self.say(what::RING, 0, out);
        }
    }

    /// Makes the board, if this process is to make it.
    pub(super) fn prepare(&mut self, out: &mut Outlet<'_>) {
        if !self.first {
            return;
        }
        match out.device.lend_board(out.team.id, &self.part.others) {
            Ok(board) => self.means = Means::Board(board),
            Err(error) => {
                tracing::debug!("a group's barriers go by datagrams on this node: {error}");
                self.means = Means::Datagrams;
                for at in 0..self.part.others.len() {
                    self.say(what::NO_BOARD, at, out);
                }
            }
        }
    }

    /// The group ends here: whoever finds the board of this process later knows that it is none of
    /// another group with the same id.
    pub(super) fn close(&self) {
        if let Means::Board(board) = &self.means
            && self.first
        {
            board.close();
        }
    }

    /// Whether somebody has to look at the board now and then.
    pub(super) fn wants_look(&self) -> bool {
        !matches!(self.means, Means::Datagrams)
    }

    /// Says something about the board to one of the others.
    fn say(&self, what: u8, to: usize, out: &mut Outlet<'_>) {
        let bytes = datagram(out.team, kind::NODE_BARRIER, what, 0, 0);
        // Who misses it asks.
        out.device.datagram(self.part.others[to], &bytes);
    }

    /// All members arrive here once in each barrier; the first one may be early.
    pub(super) fn arrive(&mut self, number: u64, out: &mut Outlet<'_>, sent: &mut Count) {
        match &self.means {
            Means::Board(board) if self.pair => {
                let own = usize::from(!self.first);
                board.tell(own, number);
                // Looked at already while the other learns of this one.
                if board.told(1 - own) >= number {
                    self.over = number;
                }
                if !out.device.ring(&self.part.others) && !self.first {
                    self.say(what::RING, 0, out);
                }
            }
            Means::Board(board) => {
                if !have_all_arrived(board.arrive(), self.part.peers.len() as u64, number) {
                    return;
                }
                if self.alone {
                    board.open(number);
                    if !out.device.ring(&self.part.others) && !self.first {
                        self.say(what::RING, 0, out);
                    }
                } else if !self.first {
                    out.device.ring(&self.part.peers[..1]);
                }
            }
            Means::Awaited => {
                self.owed = true;
                self.look(number, out, sent);
            }
            // The first one enters when it has something to tell.
            Means::Datagrams if self.first => {}
            Means::Datagrams => self.part.run(out, sent, |m, said| m.enter(said.down())),
        }
    }

    /// Looks whether the board has come.
    #[inline]
    pub(super) fn look(&mut self, number: u64, out: &mut Outlet<'_>, sent: &mut Count) {
        if matches!(self.means, Means::Awaited) {
            self.look_for_board(number, out, sent);
        }
    }

    #[cold]
    fn look_for_board(&mut self, number: u64, out: &mut Outlet<'_>, sent: &mut Count) {
        let maker = self.part.peers[0];
        if out.team.past.contains(&maker) {
            return;
        }
        if let Some(board) = out.device.take_board(maker, out.team.id) {
            // It was given twice to a group that had the same id, or has come late. No barrier ends
            // without this process, so what was opened is of that one as well.
            let is_used = board.opened() > 0 || self.pair && board.told(1) > 0;
            if is_used || board.is_closed() {
                return;
            }
            self.means = Means::Board(board);
            self.settle(number, out, sent);
        }
    }

    /// It is known by what means members meet: arrives if that is owed.
    fn settle(&mut self, number: u64, out: &mut Outlet<'_>, sent: &mut Count) {
        if std::mem::take(&mut self.owed) {
            self.arrive(number, out, sent);
        }
    }

    /// For the first one: whether all others of the node have arrived.
    #[inline]
    pub(super) fn is_gathered(&mut self, number: u64) -> bool {
        match &self.means {
            Means::Board(_) if self.alone => self.is_over(number),
            Means::Board(board) => {
                have_all_arrived(board.arrived(), self.part.peers.len() as u64, number)
            }
            Means::Awaited => false,
            Means::Datagrams => self.part.machine.is_awaited(),
        }
    }

    /// For the first one, when all members everywhere have entered: tells the others.
    pub(super) fn release(&mut self, number: u64, out: &mut Outlet<'_>, sent: &mut Count) {
        match &self.means {
            Means::Board(_) if self.alone => {}
            Means::Board(board) => {
                board.open(number);
                out.device.ring(&self.part.others);
            }
            Means::Awaited => {}
            Means::Datagrams => self.part.run(out, sent, |m, said| m.enter(said.down())),
        }
    }

    /// Whether this process may leave, having arrived, or released.
    #[inline]
    pub(super) fn is_over(&self, number: u64) -> bool {
        match &self.means {
            _ if self.over >= number => true,
            Means::Board(board) if self.pair => board.told(usize::from(self.first)) >= number,
            Means::Board(board) => board.opened() >= number,
            Means::Awaited => false,
            Means::Datagrams => !self.part.machine.is_inside(),
        }
    }

    /// All have entered this barrier, as somebody says who has left it.
    pub(super) fn finish(&mut self, number: u64, out: &mut Outlet<'_>, sent: &mut Count) {
        self.over = number;
        if matches!(self.means, Means::Datagrams) {
            self.part.run(out, sent, |m, said| m.finish(said.down()));
        }
    }

    /// Asks those that this process waits for; before it has released, the first one asks all.
    pub(super) fn ask(&mut self, gathering: bool, out: &mut Outlet<'_>, sent: &mut Count) {
        match self.means {
            // Nothing gets lost there.
            Means::Board(_) => {}
            Means::Awaited => self.say(what::ASK_BOARD, 0, out),
            Means::Datagrams if gathering => {
                self.part.run(out, sent, |m, said| m.ask_next(said.down()))
            }
            Means::Datagrams => self.part.run(out, sent, |m, said| m.ask(said.down())),
        }
    }

    /// Takes a datagram from a member of the group, by its rank there. `false`: it makes no sense.
    pub(super) fn take(
        &mut self,
        from: u32,
        word: Word,
        now: u64,
        out: &mut Outlet<'_>,
        sent: &mut Count,
    ) -> bool {
        let Some(at) = self.part.rank(from) else { return false };
        match (word.what, &self.means) {
            // The only one that it can be asked of has the lowest rank, so the others follow it.
            (what::ASK_BOARD, Means::Datagrams) if self.first && at > 0 => {
                self.say(what::NO_BOARD, at as usize - 1, out);
            }
            (what::ASK_BOARD, Means::Board(_)) if self.first && at > 0 => {
                let asker = self.part.others[at as usize - 1];
                out.device.lend_board_again(out.team.id, asker);
            }
            (what::NO_BOARD, Means::Awaited) if at == 0 => {
                self.means = Means::Datagrams;
                self.settle(now, out, sent);
            }
            (what::RING, Means::Board(_)) => drop(out.device.ring(&self.part.others)),
            (what::ASK_BOARD | what::NO_BOARD | what::RING, _) => {}
            _ => return self.part.take(from, word, out, sent),
        }
        true
    }
}
