//! Small collective operations of a group whose members are all on one node: they show each other
//! what they have on a slate, in memory that they share. No message is sent, and where nobody waits
//! for long nothing of the endpoint is touched.
//!
//! Each operation is a round of the slate. In a broadcast the root shows; in a reduction to one
//! member all do, and that one waits; in all else everybody waits for everybody. The last one to
//! show something wakes those that sleep, so each of these is woken once.

use weft_ring::{Shown, Slate};
use weft_wire::PeerId;

use super::Group;
use super::table::{Groups, Member, Opened};
use crate::collective::Operator;
use crate::device::Device;
use crate::endpoint::Endpoint;
use crate::error::Error;

/// Looks at the slate before anything else is done, where the processor may be kept: some
/// microseconds.
pub const LOOKS: u32 = 100;

/// What the members do together. All of them name the same, with as many bytes.
#[derive(Clone, Debug)]
pub enum SharedOp {
    /// Nobody goes on before all are there. There are no bytes.
    Barrier,
    /// The member with rank `root` gives its bytes to all.
    Broadcast {
        /// Whose bytes.
        root: u32,
    },
    /// The members' elements are combined, in the order of ranks, at the one with rank `root`.
    Reduce {
        /// Who gets them.
        root: u32,
        /// How.
        operator: Operator,
    },
    /// The same, at all.
    Allreduce {
        /// How.
        operator: Operator,
    },
    /// All get the bytes of all, in the order of ranks.
    Allgather,
    /// Each has a block for each: all get those that are for them, in the order of ranks.
    Alltoall,
}

impl SharedOp {
    /// A number that differs for operations that differ.
    fn mark(&self, len: usize) -> u32 {
        let (kind, detail) = match self {
            SharedOp::Barrier => (1, 0),
            SharedOp::Broadcast { root } => (2, *root),
            SharedOp::Reduce { root, operator } => (3, *root ^ (operator.code() as u32) << 8),
            SharedOp::Allreduce { operator } => (4, operator.code() as u32),
            SharedOp::Allgather => (5, 0),
            SharedOp::Alltoall => (6, 0),
        };
        kind ^ detail << 3 ^ (len as u32).wrapping_mul(0x9e37_79b1)
    }

    /// Whether this member shows something.
    fn shows(&self, own: u32) -> bool {
        match self {
            SharedOp::Broadcast { root } => *root == own,
            _ => true,
        }
    }

    /// Whose bytes this member waits for: from, to.
    fn awaits(&self, own: u32, members: u32) -> (u32, u32) {
        match self {
            SharedOp::Broadcast { root } if *root == own => (0, 0),
            SharedOp::Broadcast { root } => (*root, *root + 1),
            SharedOp::Reduce { root, .. } if *root != own => (0, 0),
            _ => (0, members),
        }
    }
}

/// What a member waits for on the slate.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    slate: Slate,
    /// The page; else what these members show: from, to.
    page: bool,
    members: (u32, u32),
}

impl Awaited {
    /// Whether it is there.
    pub(super) fn is_there(&mut self) -> bool {
        if self.page {
            return self.slate.may_show();
        }
        let mut members = self.members.0..self.members.1;
        members.all(|member| self.slate.shown(member as usize) != Shown::Nothing)
    }
}

/// What an operation's bytes are, and where its result goes.
#[derive(Debug)]
pub struct Spans<'a> {
    /// What this member has; `None`: what `output` has (in an allgather, at this member's place).
    pub input: Option<&'a [u8]>,
    /// Where the result goes; empty where there is none.
    pub output: &'a mut [u8],
}

/// See the module's page. A member's own side, apart from its endpoint.
#[derive(Debug)]
pub struct Shared {
    slate: Slate,
    slot: usize,
    rank: u32,
    peers: Vec<PeerId>,
    /// What is under way, how many bytes are shown, whether this member has still to show its own,
    /// and whose it waits for: from, to.
    op: SharedOp,
    len: usize,
    shows: bool,
    awaits: (u32, u32),
}

impl Group<'_> {
    /// What the members can do by memory that they share; `None` where not all are on one node,
    /// they share none, or are too many. After a barrier all members answer alike. Taken once.
    pub fn shared(&self) -> Option<Shared> {
        self.endpoint.group_shared(self.slot)
    }
}

impl Shared {
    /// The most bytes that a member can show in an operation: in an alltoall, those for all
    /// together.
    pub const ROOM: usize = Slate::ROOM;

    /// Begins an operation in which members show `len` bytes each, and does as much of it as can be
    /// done at once, with so many `looks` at what others show. If it is not over then,
    /// [`Shared::wait_for`] follows, with the same memory.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where a member does something else: then nothing more is possible here.
    ///
    /// # Panics
    /// If memory is not as long as the operation says.
    #[inline]
    pub fn start(
        &mut self,
        op: SharedOp,
        len: usize,
        spans: &mut Spans<'_>,
        looks: u32,
    ) -> Result<Started, Error> {
        self.shows = op.shows(self.rank);
        self.awaits = op.awaits(self.rank, self.peers.len() as u32);
        let turned = self.slate.begin(len, op.mark(len));
        (self.op, self.len) = (op, len);
        let mut is_over = self.go_on(spans)?;
        if !is_over {
            // Of those who find something missing here as well, none is the last: another one will
            // see to those that sleep.
            self.slate.settle();
            is_over = self.go_on(spans)?;
        }
        let wakes = (turned || is_over) && self.slate.sleepers().next().is_some();
        for _ in 0..looks {
            if is_over || wakes {
                break;
            }
            std::hint::spin_loop();
            is_over = self.go_on(spans)?;
        }
        Ok(Started { is_over, wakes })
    }

    /// Does what can be done now; whether the operation is over.
    #[inline]
    pub(crate) fn go_on(&mut self, spans: &mut Spans<'_>) -> Result<bool, Error> {
        if self.shows {
            if !self.slate.may_show() {
                return Ok(false);
            }
            self.show(spans);
            self.shows = false;
        }
        while self.awaits.0 < self.awaits.1 {
            match self.slate.shown(self.awaits.0 as usize) {
                Shown::This => self.awaits.0 += 1,
                Shown::Nothing => return Ok(false),
                Shown::Other => {
                    let (peer, why) = (self.peers[self.awaits.0 as usize], "does something else");
                    return Err(Error::Mismatch { peer, why: why.into() });
                }
            }
        }
        self.take(spans.output);
        Ok(true)
    }

    #[inline]
    fn show(&mut self, spans: &Spans<'_>) {
        let own = match (spans.input, &self.op) {
            (Some(input), _) => input,
            (None, SharedOp::Allgather) => {
                &spans.output[self.rank as usize * self.len..][..self.len]
            }
            (None, _) => &*spans.output,
        };
        self.slate.show(own);
    }

    /// Takes what others have shown.
    #[inline]
    fn take(&self, output: &mut [u8]) {
        let (slate, own, members) = (&self.slate, self.rank as usize, self.peers.len());
        match &self.op {
            SharedOp::Barrier => {}
            SharedOp::Broadcast { root } if *root as usize == own => {}
            SharedOp::Broadcast { root } => output.copy_from_slice(slate.bytes(*root as usize)),
            SharedOp::Reduce { root, .. } if *root as usize != own => {}
            SharedOp::Reduce { operator, .. } | SharedOp::Allreduce { operator } => {
                output.copy_from_slice(slate.bytes(0));
                (1..members).for_each(|m| operator.apply(output, slate.bytes(m)));
            }
            SharedOp::Allgather => {
                for member in 0..members {
                    output[member * self.len..][..self.len].copy_from_slice(slate.bytes(member));
                }
            }
            SharedOp::Alltoall => {
                let len = self.len / members;
                for member in 0..members {
                    let block = &slate.bytes(member)[own * len..][..len];
                    output[member * len..][..len].copy_from_slice(block);
                }
            }
        }
    }

    /// Whether it is this member, by its rank, that is waited for.
    fn misses(&self, rank: u32) -> bool {
        let (member, (from, to)) = (rank as usize, self.awaits);
        match self.shows {
            true => self.slate.is_behind(member),
            false => (from..to).contains(&rank) && self.slate.shown(member) == Shown::Nothing,
        }
    }

    /// Wakes those that sleep, and have nothing to wait for any more.
    #[cold]
    pub fn wake(&self, endpoint: &Endpoint) {
        let sleepers = self.slate.sleepers().map(|member| self.peers[member]).collect::<Vec<_>>();
        if !sleepers.is_empty() {
            endpoint.group_wake(self.slot, &sleepers);
        }
    }

    /// Goes on with what was started, for at most `timeout_ns`, or until there is something that
    /// [`Turn::occurrence`](crate::boundary::Turn::occurrence) gives. `false`: it is not over.
    ///
    /// # Errors
    /// As for [`Shared::start`]; [`Error::PeerDead`] or [`Error::PeerClosed`] if a member is gone
    /// or has left the group, and has not shown what is waited for.
    pub fn wait_for(
        &mut self,
        endpoint: &Endpoint,
        spans: &mut Spans<'_>,
        timeout_ns: u64,
    ) -> Result<bool, Error> {
        self.slate.doze(true);
        let ended = endpoint.group_shared_wait(self.slot, self, spans, timeout_ns);
        self.slate.doze(false);
        let is_over = ended?;
        if is_over {
            self.wake(endpoint);
        }
        Ok(is_over)
    }

    pub(crate) fn awaited(&self) -> Awaited {
        let (slate, page, members) = (self.slate.clone(), self.shows, self.awaits);
        Awaited { slate, page, members }
    }
}

/// How far an operation came at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Started {
    /// It is over.
    pub is_over: bool,
    /// Others sleep, and want to be woken by [`Shared::wake`].
    pub wakes: bool,
}

impl Groups {
    /// See [`Group::shared`].
    pub(crate) fn shared(&mut self, device: &mut dyn Device, slot: usize) -> Option<Shared> {
        let Opened { barrier, out, .. } = self.open(device, slot)?;
        let rank = out.team.rank;
        let slate = barrier.node()?.slate(rank)?;
        let (peers, op) = (out.team.peers.clone(), SharedOp::Barrier);
        Some(Shared { slate, slot, rank, peers, op, len: 0, shows: false, awaits: (0, 0) })
    }

    /// Wakes members of a group, who have something to see on the slate.
    pub(crate) fn wake(&mut self, device: &mut dyn Device, slot: usize, peers: &[PeerId]) {
        let Some(Opened { barrier, mut out, .. }) = self.open(device, slot) else { return };
        if let Some(node) = barrier.node() {
            node.wake(peers, &mut out);
        }
    }

    /// What this process waits for on the slate of a group, before it sleeps.
    pub(crate) fn awaits(&mut self, slot: usize, awaited: Option<Awaited>) {
        if let Some(Some(member)) = self.members.get_mut(slot) {
            member.awaited = awaited;
        }
    }

    /// Why what is missing on the slate of a group will not come, if so. Those who have left in
    /// good order have shown before what others still wait for.
    pub(crate) fn trouble(&self, slot: usize, shared: &Shared) -> Option<&Error> {
        let Member { team, lost, outcast, .. } = self.member(slot)?;
        let missing = |rank: u32| lost.why(rank).filter(|_| shared.misses(rank));
        outcast.as_ref().or_else(|| (0..team.size()).find_map(missing))
    }
}
