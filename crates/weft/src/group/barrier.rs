//! A member's barrier on real wires: the pure machines, the frames they want sent, and when to ask.
//!
//! Where several members share a node it can have two parts: the first member of each node hears of
//! the others there, then takes part in a barrier of the first ones, then tells the others.

use weft_wire::PeerId;

use super::choose::Plan;
use super::heading::{HEADING_LEN, kind};
use super::patience::Asking;
use super::team::{Outlet, Team};
use crate::collective::{Algorithm, Barrier, Mark, Target};
use crate::error::Error;

/// Bytes after the heading: the barrier's number and a slot.
const BODY_LEN: usize = 12;

/// What a datagram of a barrier says.
mod what {
    pub(super) const ENTERED: u8 = 1;
    pub(super) const RELEASED: u8 = 2;
    pub(super) const ASK_ENTERED: u8 = 3;
    pub(super) const ASK_RELEASED: u8 = 4;
    /// The sender has left the barrier, and its group: sent as a message, which arrives. Instead of
    /// a slot: 1 more than the rank of the member that it found gone, or 0.
    pub(super) const LEFT: u8 = 5;
}

fn encode(mark: Mark) -> (u8, u32) {
    match mark {
        Mark::Entered(slot) => (what::ENTERED, slot),
        Mark::Released => (what::RELEASED, 0),
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

/// One of the barrier's machines, and who takes part in it.
struct Part {
    machine: Barrier,
    kind: u8,
    /// Who takes part, by rank in this part.
    peers: Vec<PeerId>,
    /// All of them but this process.
    others: Vec<PeerId>,
    /// From rank in the group to rank in this part; `u32::MAX`: not in it.
    rank_of: Vec<u32>,
}

impl Part {
    /// Of the members `ranks`, if this process is one of them and not the only one.
    fn new(team: &Team, ranks: &[u32], algorithm: Algorithm, kind: u8) -> Option<Part> {
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
        Some(Part { machine, kind, peers, others, rank_of })
    }

    /// Runs a step of the machine, and sends what it wants sent.
    #[inline]
    fn run(
        &mut self,
        out: &mut Outlet<'_>,
        sent: &mut Count,
        step: impl FnOnce(&mut Barrier, &mut dyn FnMut(Target, u64, Mark)),
    ) {
        let Part { machine, kind, peers, others, .. } = self;
        step(machine, &mut |target, number, mark| {
            let (what, slot) = encode(mark);
            let mut bytes = [0; HEADING_LEN + BODY_LEN];
            bytes[..HEADING_LEN].copy_from_slice(&out.team.heading(*kind, what));
            bytes[HEADING_LEN..HEADING_LEN + 8].copy_from_slice(&number.to_le_bytes());
            bytes[HEADING_LEN + 8..].copy_from_slice(&slot.to_le_bytes());
            match mark {
                Mark::Entered(_) | Mark::Released => sent.told += 1,
                Mark::AskEntered(_) | Mark::AskReleased => sent.asked += 1,
            }
            match target {
                // Both links of an algorithm with two lead to the same wire if there is but one;
                // which one a datagram takes is for the device to choose.
                Target::One { rank, .. } => {
                    let _ = out.device.datagram(peers[rank as usize], &bytes);
                }
                Target::All => out.device.multicast(others, &bytes),
            }
        });
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

/// Where a member is in its barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// In none.
    Outside,
    /// It hears of the others of its node first.
    Gathering,
    /// In the barrier of the first ones, or of all.
    Among,
    /// In that of its node.
    OnNode,
}

/// See the module's page.
pub(super) struct Run {
    among: Option<Part>,
    on_node: Option<Part>,
    /// Whether this process is its node's first.
    first: bool,
    stage: Stage,
    /// The barrier entered last; counted from 1.
    number: u64,
    asking: Asking,
    /// Why the barrier will never end.
    error: Option<Error>,
    /// Who was found gone first, by rank in the group.
    gone: Option<u32>,
    pub(super) count: Count,
}

impl Run {
    pub(super) fn new(team: &Team, plan: &Plan) -> Run {
        let nodes = plan.by_node.as_deref();
        let mine = nodes.and_then(|nodes| nodes.iter().find(|node| node.contains(&team.rank)));
        let (ranks, first): (Vec<u32>, bool) = match (nodes, mine) {
            (Some(nodes), Some(mine)) => {
                (nodes.iter().map(|node| node[0]).collect(), mine[0] == team.rank)
            }
            _ => ((0..team.size()).collect(), true),
        };
        let among = Part::new(team, &ranks, plan.algorithm, kind::BARRIER);
        let concurrent = Algorithm::Concurrent { links: 1 };
        let on_node = mine.and_then(|mine| Part::new(team, mine, concurrent, kind::NODE_BARRIER));
        Run {
            among,
            on_node,
            first,
            stage: Stage::Outside,
            number: 0,
            asking: Asking::new(plan.one_node),
            error: None,
            gone: None,
            count: Count::default(),
        }
    }

    /// Whether the member waits in a barrier.
    #[inline]
    pub(super) fn is_inside(&self) -> bool {
        self.stage != Stage::Outside
    }

    /// How the barrier has ended; `None`: it has not.
    #[inline]
    pub(super) fn ended(&self) -> Option<Result<(), Error>> {
        // One that is over stays so, whoever is gone since.
        if !self.is_inside() {
            return Some(Ok(()));
        }
        self.error.as_ref().map(|error| Err(error.clone()))
    }

    /// When [`Run::due`] wants to be called.
    #[inline]
    pub(super) fn deadline_ns(&self) -> u64 {
        self.asking.next_ns()
    }

    /// Enters the next barrier.
    pub(super) fn enter(&mut self, out: &mut Outlet<'_>) -> Result<(), Error> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        if self.is_inside() {
            return Err(Error::InBarrier);
        }
        self.number += 1;
        self.asking.start(out.now_ns);
        self.stage = if self.on_node.is_some() && !self.first {
            self.step_on_node(out, |m, o| m.enter(o));
            Stage::OnNode
        } else {
            Stage::Gathering
        };
        self.advance(out);
        Ok(())
    }

    fn step_among(
        &mut self,
        out: &mut Outlet<'_>,
        step: impl FnOnce(&mut Barrier, &mut dyn FnMut(Target, u64, Mark)),
    ) {
        if let Some(part) = &mut self.among {
            part.run(out, &mut self.count, step);
        }
    }

    fn step_on_node(
        &mut self,
        out: &mut Outlet<'_>,
        step: impl FnOnce(&mut Barrier, &mut dyn FnMut(Target, u64, Mark)),
    ) {
        if let Some(part) = &mut self.on_node {
            part.run(out, &mut self.count, step);
        }
    }

    /// Goes on from stage to stage as far as nothing is missing.
    fn advance(&mut self, out: &mut Outlet<'_>) {
        if self.stage == Stage::Gathering
            && self.on_node.as_mut().is_none_or(|part| part.machine.is_awaited())
        {
            self.stage = Stage::Among;
            self.step_among(out, |m, o| m.enter(o));
        }
        let inside = |part: &Option<Part>| part.as_ref().is_some_and(|p| p.machine.is_inside());
        if self.stage == Stage::Among && !inside(&self.among) {
            self.stage = Stage::OnNode;
            // All of the node are heard already, so this only tells them.
            self.step_on_node(out, |m, o| m.enter(o));
        }
        if self.stage == Stage::OnNode && !inside(&self.on_node) {
            self.stage = Stage::Outside;
            self.count.left += 1;
            self.asking.stop(out.now_ns);
        }
    }

    /// Takes a datagram of a barrier, or a message. `false`: it makes no sense.
    pub(super) fn take(
        &mut self,
        from: u32,
        which: u8,
        what: u8,
        payload: &[u8],
        out: &mut Outlet<'_>,
    ) -> bool {
        let Some((number, slot)) = body(payload) else { return false };
        if what == what::LEFT {
            self.finish(number, out);
            if let Some(&peer) = out.team.peers.get((slot as usize).wrapping_sub(1)) {
                self.fail(told_of(peer, from), Some(slot - 1));
            }
            return true;
        }
        let part = match which {
            kind::BARRIER => &mut self.among,
            kind::NODE_BARRIER => &mut self.on_node,
            _ => return false,
        };
        let (Some(part), Some(mark)) = (part, decode(what, slot)) else { return false };
        let from = part.rank_of[from as usize];
        if from == u32::MAX {
            return false;
        }
        part.run(out, &mut self.count, |machine, o| machine.take(from, number, mark, o));
        if self.is_inside() {
            self.advance(out);
        }
        true
    }

    /// Somebody has left barrier `number`: so all have entered it, and it is over.
    fn finish(&mut self, number: u64, out: &mut Outlet<'_>) {
        if !self.is_inside() || number < self.number {
            return;
        }
        if self.stage == Stage::Gathering {
            self.step_among(out, |m, o| m.enter(o));
        }
        self.step_among(out, |m, o| m.finish(o));
        if self.stage != Stage::OnNode {
            self.step_on_node(out, |m, o| m.enter(o));
        }
        self.step_on_node(out, |m, o| m.finish(o));
        self.stage = Stage::OnNode;
        self.advance(out);
    }

    /// Looks whether it is time to ask.
    pub(super) fn due(&mut self, out: &mut Outlet<'_>) {
        if !self.asking.is_due(out.now_ns) || self.error.is_some() {
            return;
        }
        match self.stage {
            Stage::Outside => {}
            Stage::Gathering => self.step_on_node(out, |m, o| m.ask_next(o)),
            Stage::Among => self.step_among(out, |m, o| m.ask(o)),
            Stage::OnNode => self.step_on_node(out, |m, o| m.ask(o)),
        }
    }

    /// No barrier ends any more: `gone` is the member that is missing, by its rank in the group.
    pub(super) fn fail(&mut self, why: Error, gone: Option<u32>) {
        if self.error.is_none() {
            self.error = Some(why);
            self.gone = gone;
            self.asking.stop(0);
        }
    }

    /// What is said to all at the end, so that nobody waits for a datagram that was lost, and that
    /// they name who was missing, not who gave up because of that. Nothing where there is nothing
    /// to say.
    pub(super) fn farewell(&self, team: &Team) -> Option<[u8; HEADING_LEN + BODY_LEN]> {
        if self.count.left == 0 && self.gone.is_none() {
            return None;
        }
        let gone = self.gone.map_or(0, |rank| rank + 1);
        let mut bytes = [0; HEADING_LEN + BODY_LEN];
        bytes[..HEADING_LEN].copy_from_slice(&team.heading(kind::BARRIER, what::LEFT));
        bytes[HEADING_LEN..HEADING_LEN + 8].copy_from_slice(&self.count.left.to_le_bytes());
        bytes[HEADING_LEN + 8..].copy_from_slice(&gone.to_le_bytes());
        Some(bytes)
    }
}

#[cold]
fn told_of(peer: PeerId, by: u32) -> Error {
    let name = "a member of this group".into();
    Error::PeerDead { peer, name, why: format!("member {by} has found it gone") }
}

#[inline]
fn body(payload: &[u8]) -> Option<(u64, u32)> {
    let (number, rest) = payload.split_first_chunk::<8>()?;
    let slot = rest.first_chunk::<4>()?;
    Some((u64::from_le_bytes(*number), u32::from_le_bytes(*slot)))
}
