//! A member's barrier on real wires: its stages, and when to ask.
//!
//! Where several members share a node it can have two parts: the members of each node meet (see
//! `node`), and the first member of each takes part in a barrier of the first ones.

use super::among::Among;
use super::choose::Plan;
use super::farewell::{Farewell, told_of};
use super::heading::kind;
use super::node::Node;
use super::part::{Count, Said, Word, datagram, what};
use super::patience::Asking;
use super::team::{Outlet, Team};
use crate::collective::Barrier;
use crate::error::Error;

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
#[derive(Clone, Debug)]
pub(super) struct Run {
    among: Option<Among>,
    node: Option<Node>,
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
    /// Who has left first, in good order.
    left: Option<u32>,
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
        let among = Among::new(team, &ranks, plan);
        let node = mine.and_then(|mine| Node::new(team, mine, ranks.len() == 1));
        Run {
            among,
            node,
            first,
            stage: Stage::Outside,
            number: 0,
            asking: Asking::new(plan.patience_ns),
            error: None,
            gone: None,
            left: None,
            count: Count::default(),
        }
    }

    /// Gets ready for the first barrier.
    pub(super) fn prepare(&mut self, out: &mut Outlet<'_>) {
        if let Some(node) = &mut self.node {
            node.prepare(out);
        }
    }

    /// The group ends here.
    pub(super) fn close(&self) {
        self.node.iter().for_each(Node::close);
    }

    /// How the members of this node meet, if there are others.
    pub(super) fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// Whether the member waits in a barrier.
    #[inline]
    pub(super) fn is_inside(&self) -> bool {
        self.stage != Stage::Outside
    }

    /// Whether it waits for something that no datagram tells: then [`Run::look`] is to be called
    /// now and then.
    #[inline]
    pub(super) fn wants_look(&self) -> bool {
        self.is_inside() && self.node.as_ref().is_some_and(Node::wants_look)
    }

    /// Whether it is known by what further barriers go.
    pub(super) fn is_settled(&self) -> bool {
        self.among.as_ref().is_none_or(Among::is_settled)
    }

    /// Whether the barrier has ended, well or not.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        !self.is_inside() || self.error.is_some()
    }

    /// How the barrier has ended. One that is over stays so, whoever is gone since.
    #[inline]
    pub(super) fn result(&self) -> Result<(), Error> {
        match &self.error {
            Some(error) if self.is_inside() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// When [`Run::due`] wants to be called.
    #[inline]
    pub(super) fn deadline_ns(&self) -> u64 {
        self.asking.next_ns()
    }

    /// Enters the next barrier.
    #[inline(always)]
    pub(super) fn enter(&mut self, out: &mut Outlet<'_>) -> Result<(), Error> {
        if let Some(error) = &self.error {
            self.gone = self.gone.or(self.left);
            return Err(error.clone());
        }
        if self.is_inside() {
            return Err(Error::InBarrier);
        }
        self.number += 1;
        self.asking.start(out.now_ns);
        if self.node.is_some() {
            self.enter_on_node(out);
            return Ok(());
        }
        self.stage = Stage::Among;
        self.enter_among(out);
        // Most often there is somebody to wait for.
        if self.among.as_ref().is_none_or(|a| !a.is_inside()) {
            self.advance(out);
        }
        Ok(())
    }

    /// See [`Groups::waits`](super::table::Groups::waits).
    pub(super) fn waits(&mut self, now_ns: u64) {
        if self.is_inside() {
            self.asking.start(now_ns);
        }
    }

    /// Enters the next barrier where others of the group share this node.
    #[inline(always)]
    fn enter_on_node(&mut self, out: &mut Outlet<'_>) {
        if let Some(node) = &mut self.node {
            node.arrive(self.number, out, &mut self.count);
        }
        self.stage = if self.first { Stage::Gathering } else { Stage::OnNode };
        self.advance(out);
    }

    fn step_among(&mut self, out: &mut Outlet<'_>, step: impl FnOnce(&mut Barrier, &mut Said)) {
        if let Some(among) = &mut self.among {
            among.run(out, &mut self.count, step);
        }
    }

    #[inline(always)]
    fn enter_among(&mut self, out: &mut Outlet<'_>) {
        if let Some(among) = &mut self.among {
            among.enter(out, &mut self.count);
        }
    }

    /// Goes on from stage to stage as far as nothing is missing.
    fn advance(&mut self, out: &mut Outlet<'_>) {
        let number = self.number;
        if self.stage == Stage::Gathering
            && self.node.as_mut().is_none_or(|node| node.is_gathered(number))
        {
            self.stage = Stage::Among;
            self.enter_among(out);
        }
        if self.stage == Stage::Among && self.among.as_ref().is_none_or(|a| !a.is_inside()) {
            self.stage = Stage::OnNode;
            if let Some(among) = &mut self.among {
                among.left();
            }
            if let Some(node) = &mut self.node {
                node.release(number, out, &mut self.count);
            }
        }
        if self.stage == Stage::OnNode && self.node.as_ref().is_none_or(|node| node.is_over(number))
        {
            self.stage = Stage::Outside;
            self.count.left += 1;
            self.asking.stop(out.now_ns);
        }
    }

    /// Looks at what no datagram tells.
    #[inline]
    pub(super) fn look(&mut self, out: &mut Outlet<'_>) {
        if let Some(node) = &mut self.node
            && self.stage != Stage::Outside
        {
            node.look(self.number, out, &mut self.count);
            if self.has_news() {
                self.advance(out);
            }
        }
    }

    /// Whether what no datagram tells has come.
    #[inline]
    pub(super) fn has_news(&mut self) -> bool {
        let number = self.number;
        let Some(node) = &mut self.node else { return false };
        match self.stage {
            Stage::Gathering => node.is_gathered(number),
            Stage::OnNode => node.is_over(number),
            Stage::Outside | Stage::Among => false,
        }
    }

    /// Takes a datagram of a barrier, or a message. `false`: it makes no sense.
    #[inline(always)]
    pub(super) fn take(&mut self, from: u32, which: u8, word: Word, out: &mut Outlet<'_>) -> bool {
        let (count, own) = (&mut self.count, self.number);
        let taken = match (which, &mut self.among, &mut self.node) {
            (kind::NODE_BARRIER, _, Some(node)) => node.take(from, word, own, out, count),
            (kind::NODE_BARRIER, _, None) | (_, None, _) => false,
            (_, Some(among), _) => among.take(from, which, word, out, count),
        };
        if taken && self.is_inside() {
            self.advance(out);
        }
        taken
    }

    /// A member has left the group, as its `word` says: it enters no barrier any more.
    pub(super) fn left_by(&mut self, from: u32, word: Word, why: &Error, out: &mut Outlet<'_>) {
        self.finish(word.number, out);
        let gone = word.slot.wrapping_sub(1);
        if let Some(&peer) = out.team.peers.get(gone as usize) {
            self.fail(told_of(peer, from, out.device), Some(gone));
        }
        let missing = self.is_inside().then_some(from);
        self.fail(why.clone(), missing);
        self.left = self.left.or(Some(from));
    }

    /// Somebody has left barrier `number`: so all have entered it, and it is over.
    fn finish(&mut self, number: u64, out: &mut Outlet<'_>) {
        if !self.is_inside() || number < self.number {
            return;
        }
        if self.stage == Stage::Gathering {
            self.enter_among(out);
        }
        self.step_among(out, |m, said| m.finish(said.down()));
        if let Some(node) = &mut self.node {
            if self.stage != Stage::OnNode {
                node.release(self.number, out, &mut self.count);
            }
            node.finish(self.number, out, &mut self.count);
        }
        self.stage = Stage::OnNode;
        self.advance(out);
    }

    /// Looks whether it is time to ask.
    pub(super) fn due(&mut self, out: &mut Outlet<'_>) {
        if !self.asking.is_due(out.now_ns) || self.error.is_some() {
            return;
        }
        match (self.stage, &mut self.node) {
            (Stage::Gathering | Stage::OnNode, Some(node)) => {
                node.ask(self.stage == Stage::Gathering, out, &mut self.count);
            }
            (Stage::Among, _) => self.step_among(out, |m, said| m.ask(said.down())),
            _ => {}
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
    /// they name who was missing, not who gave up because of that.
    pub(super) fn farewell(&self, team: &Team) -> Farewell {
        let gone = self.gone.map_or(0, |rank| rank + 1);
        datagram(team, kind::BARRIER, what::LEFT, self.count.left, gone)
    }
}

#[cfg(test)]
pub(super) mod tests;
