//! One machine of a barrier on real wires: who takes part, and the frames that it wants sent.

use std::fmt;

use weft_wire::PeerId;

use super::heading::HEADING_LEN;
use super::team::{Outlet, Team};
use crate::collective::{Algorithm, Barrier, Mark, Target};

/// Bytes after the heading: the barrier's number and a slot.
pub(super) const BODY_LEN: usize = 12;

/// What a datagram of a barrier says.
pub(super) mod what {
    pub(in crate::group) const ENTERED: u8 = 1;
    pub(in crate::group) const RELEASED: u8 = 2;
    pub(in crate::group) const ASK_ENTERED: u8 = 3;
    pub(in crate::group) const ASK_RELEASED: u8 = 4;
    /// The sender has left the barrier, and its group: sent as a message, which arrives. Instead of
    /// a slot: 1 more than the rank of the member that it found gone, or 0.
    pub(in crate::group) const LEFT: u8 = 5;
    /// A member of a node waits for the board of the first one there.
    pub(in crate::group) const ASK_BOARD: u8 = 6;
    /// There is none: datagrams go instead. The number is 0.
    pub(in crate::group) const NO_BOARD: u8 = 7;
    /// The sender has opened the board's barrier, and cannot wake all of the others: the node's
    /// first member can.
    pub(in crate::group) const RING: u8 = 8;
    /// A member is gone, as all shall hold: sent as a message. Instead of a slot: that one's rank.
    pub(in crate::group) const GONE: u8 = 9;
    /// The sender itself has lost a member: sent as a message. Instead of a slot: that one's rank.
    pub(in crate::group) const ACCUSES: u8 = 10;
    /// A member accuses the receiver, which shall answer by accusing that one: sent as a message.
    /// Instead of a slot: that one's rank.
    pub(in crate::group) const ACCUSED: u8 = 11;
}

pub(super) fn encode(mark: Mark, word: u32) -> (u8, u32) {
    match mark {
        Mark::Entered(slot) => (what::ENTERED, slot),
        Mark::Released => (what::RELEASED, word),
        Mark::AskEntered(slot) => (what::ASK_ENTERED, slot),
        Mark::AskReleased => (what::ASK_RELEASED, 0),
    }
}

fn decode(what: u8, slot: u32) -> Option<Mark> {
    match what {
        what::ENTERED => Some(Mark::Entered(slot)),
        what::RELEASED => Some(Mark::Released),
        what::ASK_ENTERED => Some(Mark::AskEntered(slot)),
        what::ASK_RELEASED => Some(Mark::AskReleased),
        _ => None,
    }
}

/// A datagram of a barrier.
#[inline]
pub(super) fn datagram(
    team: &Team,
    kind: u8,
    what: u8,
    number: u64,
    slot: u32,
) -> [u8; HEADING_LEN + BODY_LEN] {
    let mut bytes = [0; HEADING_LEN + BODY_LEN];
    bytes[..HEADING_LEN].copy_from_slice(&team.heading(kind, what));
    bytes[HEADING_LEN..HEADING_LEN + 8].copy_from_slice(&number.to_le_bytes());
    bytes[HEADING_LEN + 8..].copy_from_slice(&slot.to_le_bytes());
    bytes
}

/// What a datagram of a barrier says: [`what`], of which barrier, and which slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    pub(super) what: u8,
    pub(super) number: u64,
    pub(super) slot: u32,
}

/// The number and the slot of one.
#[inline]
pub(super) fn body(payload: &[u8]) -> Option<(u64, u32)> {
    let (number, rest) = payload.split_first_chunk::<8>()?;
    let slot = rest.first_chunk::<4>()?;
    Some((u64::from_le_bytes(*number), u32::from_le_bytes(*slot)))
}

/// Frames that a machine wants sent: where to, the barrier's number, and what it says.
#[derive(Clone, Default)]
pub(super) struct Said(Vec<(Target, u64, Mark)>);

impl fmt::Debug for Said {
    /// What was sent last says nothing of what comes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Said")
    }
}

impl Said {
    /// Takes down what a machine says.
    #[inline]
    pub(super) fn down(&mut self) -> impl FnMut(Target, u64, Mark) {
        |target, number, mark| self.0.push((target, number, mark))
    }
}

/// One of the barrier's machines, and who takes part in it.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) machine: Barrier,
    kind: u8,
    /// Who takes part, by rank in this part.
    pub(super) peers: Vec<PeerId>,
    /// All of them but this process.
    pub(super) others: Vec<PeerId>,
    /// From rank in the group to rank in this part; `u32::MAX`: not in it.
    rank_of: Vec<u32>,
    /// What a release carries, in place of a slot.
    pub(super) word: u32,
    /// The algorithm makes use of several wires.
    wires: bool,
    said: Said,
}

impl Part {
    /// Of the members `ranks`, if this process is one of them and not the only one.
    pub(super) fn new(team: &Team, ranks: &[u32], algorithm: Algorithm, kind: u8) -> Option<Part> {
        let rank = ranks.iter().position(|&rank| rank == team.rank)?;
        if ranks.len() < 2 {
            return None;
        }
        let peers: Vec<PeerId> = ranks.iter().map(|&rank| team.peers[rank as usize]).collect();
        let mut others = peers.clone();
        others.remove(rank);
        let mut rank_of = vec![u32::MAX; team.peers.len()];
        for (at, &rank) in ranks.iter().enumerate() {
            rank_of[rank as usize] = at as u32;
        }
        let machine = Barrier::new(algorithm, rank as u32, ranks.len() as u32).with_table();
        let wires = algorithm.links() > 1;
        let said = Said::default();
        Some(Part { machine, kind, peers, others, rank_of, word: 0, wires, said })
    }

    /// Runs a step of the machine, and sends what it wants sent.
    #[inline(always)]
    pub(super) fn run(
        &mut self,
        out: &mut Outlet<'_>,
        sent: &mut Count,
        step: impl FnOnce(&mut Barrier, &mut Said),
    ) {
        // Sent from here, not from within the machine: a system call spoils the processor's
        // forecast of all returns to the callers above it.
        self.said.0.clear();
        step(&mut self.machine, &mut self.said);
        for &(target, number, mark) in &self.said.0 {
            let (what, slot) = encode(mark, self.word);
            let bytes = datagram(out.team, self.kind, what, number, slot);
            match mark {
                Mark::Entered(_) | Mark::Released => sent.told += 1,
                Mark::AskEntered(_) | Mark::AskReleased => sent.asked += 1,
            }
            match target {
                // Where there is but one wire, both links of an algorithm with two lead to it.
                Target::One { rank, link } => {
                    let peer = self.peers[rank as usize];
                    match self.wires {
                        true => out.device.datagram_over(peer, link, &bytes),
                        false => out.device.datagram(peer, &bytes),
                    };
                }
                Target::All => out.device.multicast(out.team.tag, &self.others, &bytes),
            }
        }
    }

    /// The rank in this part of a member of the group, by its rank there, if it is in it.
    #[inline]
    pub(super) fn rank(&self, member: u32) -> Option<u32> {
        Some(self.rank_of[member as usize]).filter(|rank| *rank != u32::MAX)
    }

    /// Takes a datagram from a member of the group, by its rank there. `false`: it makes no sense.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        from: u32,
        word: Word,
        out: &mut Outlet<'_>,
        sent: &mut Count,
    ) -> bool {
        let Word { what, number, slot } = word;
        let (Some(from), Some(mark)) = (self.rank(from), decode(what, slot)) else { return false };
        self.run(out, sent, |machine, said| machine.take(from, number, mark, said.down()));
        true
    }
}

/// What barriers have sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// What was told, whether it was asked for or not; a release counts once.
    pub(super) told: u64,
    /// Questions.
    pub(super) asked: u64,
    /// Barriers left.
    pub(super) left: u64,
}
