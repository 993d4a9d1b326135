//! Executes collective operations: each is an operation like others, and its messages are
//! operations that belong to it.
//!
//! Messages have a kind of their own, so no receive of a user meets them, and the operation's
//! number as their tag: two may be under way at once, as long as all ranks start them in the same
//! order. `data` is a digest of what the sender believes to take part in.
//!
//! When a rank fails (a peer has died, or does something else), it tells so in place of every
//! message that it still owed, and takes what it was still owed into nothing. And it tells all of
//! its team, the job or a group, and with that no collective operation of that team ends well any
//! more: so a failure reaches also those who exchange nothing with the dead, but are ahead, and
//! wait for one that has given up. Nobody waits for ever, and nothing is left. Other teams go on.

use std::collections::HashMap;
use std::sync::Arc;

use weft_proto::msg::matching::Want;
use weft_sys::buf::Buf;
use weft_wire::{Envelope, Kind, PeerId};

use super::ops::{Owner, State, Status, Until};
use super::sends::{Outgoing, Started};
use super::work::EndpointWork;
use crate::collective::Operator;
use crate::collective::exchange::{Act, Exchange, Move, Round, Span, What};
use crate::device::Device;
use crate::error::Error;

/// In `flags`: the sender has failed; `data` is 1 + the rank that died, or 0.
const FAILED: u8 = 1;

/// In `flags`: the message belongs to no operation: its sender gives up. The tag is the team's id,
/// `data` as in [`FAILED`].
const BROKEN: u8 = 2;

/// The id of the team of all ranks of a job.
const JOB: u64 = 0;

/// Bytes that are combined at one go: operands and result fit the nearest cache.
const CHUNK: usize = 4 << 10;

/// Ranks that do something together.
#[derive(Clone, Debug)]
pub(crate) struct Team {
    /// The peers by their rank in the team; `None` where they have the same numbers.
    pub(crate) members: Option<Arc<[u32]>>,
    /// [`JOB`], or the group's.
    id: u64,
    /// The tag of all messages of one operation; in [`Known`] that of the one before the first.
    tag: u64,
}

impl Team {
    fn peer(&self, rank: u32) -> PeerId {
        let member = |members: &Arc<[u32]>| members.get(rank as usize).copied();
        PeerId(self.members.as_ref().map_or(Some(rank), member).unwrap_or(u32::MAX))
    }

    fn rank(&self, peer: PeerId) -> Option<u32> {
        match &self.members {
            None => Some(peer.0),
            Some(members) => members.iter().position(|m| *m == peer.0).map(|rank| rank as u32),
        }
    }

    /// What another rank says when it gives up.
    fn said(&self, data: u64, by: PeerId, device: &dyn Device) -> Error {
        let dead = data.checked_sub(1).map(|dead| self.peer(dead as u32));
        match dead {
            Some(dead) => Error::PeerDead {
                peer: dead,
                name: device.peer_name(dead),
                why: match &self.members {
                    None => format!("rank {by} says so"),
                    Some(_) => "another member says so".into(),
                },
            },
            None => Error::Mismatch { peer: by, why: "gave a collective operation up".into() },
        }
    }

    /// How it says so.
    fn to_say(&self, error: &Error) -> u64 {
        match error {
            Error::PeerDead { peer, .. } | Error::PeerClosed { peer, .. } => {
                self.rank(*peer).map_or(0, |rank| 1 + u64::from(rank))
            }
            _ => 0,
        }
    }
}

/// What is known of a team.
struct Known {
    team: Team,
    /// Its collective operations so far.
    started: u64,
    /// Why none ends well any more.
    broken: Option<Error>,
    /// Members of a group that have left it, and so send and take nothing more.
    left: Vec<(PeerId, Error)>,
}

/// Which message of a collective operation an operation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Send,
    Receive,
}

/// The end of a message of a collective operation.
pub(super) struct PartEnd {
    /// The collective operation's slot. It does not end before its parts have.
    pub(super) whole: u32,
    pub(super) side: Side,
    pub(super) result: Result<Status, Error>,
}

/// How far a message of the current round is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// There is none, or it is through.
    Through,
    /// It is under way.
    UnderWay,
    /// It came to nothing: it is still owed.
    Owed,
}

/// A collective operation that is under way.
#[derive(Debug)]
pub(super) struct Running {
    exchange: Exchange,
    operator: Option<Operator>,
    team: Team,
    digest: u64,
    /// Input, work and scratch memory, by [`Span::area`].
    memory: [Buf; 3],
    at: u32,
    send: Stage,
    receive: Stage,
    failed: Option<Error>,
}

/// What executing needs besides the operations.
#[derive(Default)]
pub(super) struct Collectives {
    /// Scratch memory to be used again.
    scratch: Vec<Vec<u8>>,
    left: Vec<u8>,
    right: Vec<u8>,
    /// By their ids.
    teams: HashMap<u64, Known>,
}

/// Scratch memory that is kept, pieces and bytes of each.
const SCRATCH_KEPT: (usize, usize) = (4, 1 << 20);

impl Collectives {
    fn known(&mut self, id: u64, members: impl FnOnce() -> Option<Arc<[u32]>>) -> &mut Known {
        self.teams.entry(id).or_insert_with(|| {
            // Near ids give tags that are far apart, so the numbers of two teams do not meet.
            let tag = crate::group::hash(0, &id.to_le_bytes());
            let team = Team { members: members(), id, tag };
            Known { team, started: 0, broken: None, left: Vec::new() }
        })
    }

    fn known_group(&mut self, id: u64, members: &[PeerId]) -> &mut Known {
        self.known(id, || Some(members.iter().map(|peer| peer.0).collect()))
    }

    /// The team of the next operation of the whole job.
    pub(super) fn next_of_job(&mut self) -> Team {
        Collectives::next(self.known(JOB, || None))
    }

    /// The same for a group with this id and these members.
    pub(super) fn next_of(&mut self, id: u64, members: &[PeerId]) -> Team {
        Collectives::next(self.known_group(id, members))
    }

    /// A group's team.
    pub(super) fn of(&mut self, id: u64, members: &[PeerId]) -> Team {
        self.known_group(id, members).team.clone()
    }

    /// Why a member of a team sends and takes nothing more, if so.
    #[inline]
    fn left(&self, team: &Team, rank: u32) -> Option<&Error> {
        let left = &self.teams.get(&team.id)?.left;
        left.iter().find(|(peer, _)| *peer == team.peer(rank)).map(|(_, why)| why)
    }

    /// Why no operation of a team ends well any more.
    pub(super) fn failure(&self, id: u64) -> Option<&Error> {
        self.teams.get(&id)?.broken.as_ref()
    }

    fn next(known: &mut Known) -> Team {
        known.started += 1;
        Team { tag: known.team.tag.wrapping_add(known.started), ..known.team.clone() }
    }

    /// Forgets a group.
    pub(super) fn forget(&mut self, id: u64) {
        self.teams.remove(&id);
    }

    fn take_scratch(&mut self, len: usize) -> Buf {
        if len == 0 {
            return Buf::empty();
        }
        let mut scratch = self.scratch.pop().unwrap_or_default();
        scratch.resize(len, 0);
        Buf::from_vec(scratch)
    }

    fn give_back(&mut self, scratch: Buf) {
        if let Some(scratch) = scratch.into_vec()
            && self.scratch.len() < SCRATCH_KEPT.0
            && scratch.capacity() <= SCRATCH_KEPT.1
        {
            self.scratch.push(scratch);
        }
    }

    /// Combines `own` with `theirs`, which is as long.
    fn combine(&mut self, operator: &Operator, own: &Buf, theirs: &Buf, theirs_first: bool) {
        let chunk = (CHUNK / operator.unit()).max(1) * operator.unit();
        let (first, second) = if theirs_first { (theirs, own) } else { (own, theirs) };
        for done in (0..own.len()).step_by(chunk) {
            let len = chunk.min(own.len() - done);
            self.left.resize(len, 0);
            self.right.resize(len, 0);
            first.read(done, &mut self.left);
            second.read(done, &mut self.right);
            operator.apply(&mut self.left, &self.right);
            own.write(done, &self.left);
        }
    }
}

/// A number that differs for ranks that believe different things.
fn digest(exchange: &Exchange, operator: Option<&Operator>) -> u64 {
    let Exchange { what, way, ordered, size, unit, count, .. } = *exchange;
    let kind = match what {
        What::Broadcast { root } => (1, root),
        What::Reduce { root } => (2, root),
        What::Allreduce => (3, 0),
        What::Gather { root } => (4, root),
        What::Scatter { root } => (5, root),
        What::Allgather => (6, 0),
        What::Alltoall => (7, 0),
        What::ReduceScatter => (8, 0),
    };
    let operator = operator.map_or(u64::MAX, Operator::code);
    let words = [
        kind.0,
        u64::from(kind.1),
        way as u64,
        u64::from(ordered),
        u64::from(size),
        unit as u64,
        count as u64,
        operator,
    ];
    // The constant is FNV's; any mixing does.
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
        (sum ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23)
    })
}

impl Running {
    fn span(&self, span: Span) -> Buf {
        self.memory[span.area as usize].range(span.at, span.len)
    }

    fn round(&self) -> Option<Round> {
        self.exchange.round(self.at)
    }

    fn is_idle(&self) -> bool {
        self.send != Stage::UnderWay && self.receive != Stage::UnderWay
    }

    fn stage(&mut self, side: Side) -> &mut Stage {
        match side {
            Side::Send => &mut self.send,
            Side::Receive => &mut self.receive,
        }
    }

    fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }

    fn want(&self, rank: u32) -> Want {
        let source = Some(self.team.peer(rank));
        Want { source, tag: self.team.tag, ignore: 0, kind: Kind::COLLECTIVE }
    }

    fn envelope(&self) -> Envelope {
        let (tag, data) = (self.team.tag, self.digest);
        Envelope { tag, data, kind: Kind::COLLECTIVE, ..Envelope::default() }
    }

    /// Whether a message is what its receiver waits for.
    fn check(&self, status: &Status, wanted: usize, device: &dyn Device) -> Result<(), Error> {
        let peer = PeerId(status.source);
        if status.envelope.flags & FAILED != 0 {
            return Err(self.team.said(status.envelope.data, peer, device));
        }
        if status.envelope.data != self.digest || status.len != wanted {
            return Err(Error::Mismatch { peer, why: "does something else".into() });
        }
        Ok(())
    }
}

/// Whether a message says that a rank has given up.
#[inline]
pub(super) fn says_broken(envelope: &Envelope) -> bool {
    envelope.kind == Kind::COLLECTIVE && envelope.flags & BROKEN != 0
}

impl EndpointWork {
    /// Takes another rank's word that it gives up.
    #[cold]
    pub(super) fn take_broken(&mut self, source: PeerId, envelope: &Envelope) {
        let id = envelope.tag;
        let known = match (id, self.groups.members_of(id)) {
            (JOB, _) => self.collectives.known(JOB, || None),
            // Of a group that is not here, any more or yet.
            (_, None) => return,
            (_, Some(peers)) => self.collectives.known_group(id, peers),
        };
        let team = known.team.clone();
        if team.rank(source).is_none() {
            return;
        }
        let dead = envelope.data.checked_sub(1).map(|dead| team.peer(dead as u32));
        let own = dead.and_then(|dead| self.death(dead)).cloned();
        let told = || team.said(envelope.data, source, &*self.device);
        let error = own.unwrap_or_else(told);
        self.break_all(id, &error);
    }

    /// Tells the members of a group that this one gives up.
    #[cold]
    pub(super) fn give_up_group(&mut self, slot: usize, error: &Error) {
        let EndpointWork { groups, collectives, .. } = self;
        let Some((id, peers)) = groups.team_at(slot) else { return };
        let team = collectives.of(id, peers);
        self.spread(&team, error);
        self.break_all(id, error);
        self.parts_ended();
    }

    /// This member is about to leave a group: what is under way in it here is cancelled, and the
    /// others are told if there is something.
    #[cold]
    pub(super) fn cancel_collectives(&mut self, slot: usize) {
        let Some(member) = self.groups.member(slot) else { return };
        let (id, own) = (member.team.id, member.team.peers[member.team.rank as usize]);
        if self.ops.running().all(|(_, running)| running.team.id != id) {
            return;
        }
        let team = self.collectives.of(id, &member.team.peers);
        let why = "it has left the group".into();
        self.spread(&team, &Error::PeerDead { peer: own, name: String::new(), why });
        self.break_all(id, &Error::Cancelled);
        self.parts_ended();
    }

    /// A rank has given up: no collective operation of its team ends well any more.
    #[cold]
    pub(super) fn break_all(&mut self, id: u64, error: &Error) {
        if let Some(known) = self.collectives.teams.get_mut(&id) {
            known.broken.get_or_insert_with(|| error.clone());
        }
        for slot in self.ops.collectives() {
            let state = std::mem::replace(&mut self.ops.at(slot).state, State::Waiting);
            match state {
                State::Collective(mut running) if running.team.id == id => {
                    running.fail(error.clone());
                    self.go_on(slot, running);
                }
                other => self.ops.at(slot).state = other,
            }
        }
    }

    /// A member has left a group: no message from it comes any more, for what it had sent before
    /// has come before its word, and it takes none. What is owed to it or by it fails; an operation
    /// in which it has done its part goes on.
    #[cold]
    pub(super) fn end_collectives_with(&mut self, id: u64, peer: PeerId, why: &Error) {
        let EndpointWork { groups, collectives, ops, .. } = self;
        let Some(members) = groups.members_of(id) else { return };
        collectives.known_group(id, members).left.push((peer, why.clone()));
        let of_group = |(slot, running): (u32, &Running)| (running.team.id == id).then_some(slot);
        let slots: Vec<u32> = ops.running().filter_map(of_group).collect();
        for slot in slots {
            let mut hopeless = false;
            for part in self.ops.parts_of(slot) {
                hopeless |= self.is_with(slot, part, peer) && self.cancel(part);
            }
            let state = std::mem::replace(&mut self.ops.at(slot).state, State::Waiting);
            if let State::Collective(mut running) = state {
                if hopeless {
                    running.fail(why.clone());
                }
                self.ops.at(slot).state = State::Collective(running);
            }
        }
        self.parts_ended();
    }

    /// Whether a message of a collective operation goes to `peer`, or is to come from it.
    fn is_with(&mut self, whole: u32, part: u32, peer: PeerId) -> bool {
        let Owner::Part { side, .. } = self.ops.at(part).owner else { return false };
        let State::Collective(running) = &self.ops.at(whole).state else { return false };
        let round = running.round();
        let message = round.and_then(|round| match side {
            Side::Send => round.send,
            Side::Receive => round.receive,
        });
        message.is_some_and(|message| running.team.peer(message.rank) == peer)
    }

    /// Tells all others of a team that this rank gives up, once.
    #[cold]
    pub(super) fn spread(&mut self, team: &Team, error: &Error) {
        let others = self.others;
        let Some(known) = self.collectives.teams.get_mut(&team.id) else { return };
        if known.broken.is_some() {
            return;
        }
        known.broken = Some(error.clone());
        let (tag, data, kind) = (team.id, team.to_say(error), Kind::COLLECTIVE);
        let envelope = Envelope { tag, data, kind, flags: BROKEN, ..Envelope::default() };
        let size = team.members.as_ref().map_or(others as u32 + 1, |all| all.len() as u32);
        // The dead one's device refuses it, and to this rank itself it is no news.
        for rank in 0..size {
            let _ = self.send_copy(team.peer(rank), &envelope, &[]);
        }
    }

    /// Starts a collective operation: `input` is only read, `work` filled or changed in place; they
    /// have the lengths that `exchange` says. Gives its slot.
    pub(super) fn collect(
        &mut self,
        exchange: Exchange,
        operator: Option<Operator>,
        team: Team,
        input: Buf,
        work: Buf,
    ) -> u32 {
        let digest = digest(&exchange, operator.as_ref());
        let scratch = self.collectives.take_scratch(exchange.scratch_len());
        // A vector stays with the operation, which gives it back.
        let memory = [input, work.clone(), scratch];
        let (send, receive) = (Stage::Through, Stage::Through);
        let running = Running {
            exchange,
            operator,
            team,
            digest,
            memory,
            at: 0,
            send,
            receive,
            failed: None,
        };
        let slot = self.ops.insert_receive(|| work, Owner::Request);
        let mut running = Box::new(running);
        running.failed = self.collectives.failure(running.team.id).cloned();
        if running.failed.is_some() {
            (running.send, running.receive) = (Stage::Owed, Stage::Owed);
        } else {
            self.begin_round(slot, &mut running);
        }
        self.go_on(slot, running);
        self.parts_ended();
        slot
    }

    /// Takes the ends of messages of collective operations, and what follows from them.
    pub(super) fn parts_ended(&mut self) {
        while let Some(PartEnd { whole, side, result }) = self.ops.parts.pop_front() {
            let state = std::mem::replace(&mut self.ops.at(whole).state, State::Waiting);
            let State::Collective(mut running) = state else { continue };
            self.part_ended(&mut running, side, result);
            self.go_on(whole, running);
        }
    }

    fn part_ended(&mut self, running: &mut Running, side: Side, result: Result<Status, Error>) {
        let wanted = running.round().and_then(|round| round.receive).map_or(0, |m| m.span.len);
        let checked = match (&result, side) {
            (Ok(_), Side::Send) => Ok(()),
            // A receive that is too short has met a message that is none of ours.
            (Ok(status), _) | (Err(Error::Truncated { status, .. }), _) => {
                running.check(status, wanted, &*self.device)
            }
            (Err(error), _) => Err(error.clone()),
        };
        // A message that was taken back is followed by why.
        let again = matches!(result, Err(Error::Withdrawn { .. }));
        let through = matches!(result, Ok(_) | Err(Error::Truncated { .. }));
        *running.stage(side) = if through { Stage::Through } else { Stage::Owed };
        match checked {
            Ok(()) | Err(Error::Cancelled) => {}
            Err(_) if again => {}
            Err(error) => running.fail(error),
        }
    }

    /// Does what can be done without waiting. Puts `running` back where it belongs.
    fn go_on(&mut self, slot: u32, mut running: Box<Running>) {
        loop {
            if running.failed.is_some() {
                return self.give_up(slot, running);
            }
            if !running.is_idle() {
                break;
            }
            if running.receive == Stage::Owed {
                let wanted = running.round().and_then(|round| round.receive);
                self.start_part(slot, &mut running, Side::Receive, wanted);
                break;
            }
            let Some(round) = running.round() else {
                return self.complete(slot, running, None);
            };
            self.act(&running, round.after);
            running.at += 1;
            self.begin_round(slot, &mut running);
        }
        self.ops.at(slot).state = State::Collective(running);
    }

    fn begin_round(&mut self, slot: u32, running: &mut Running) {
        let Some(round) = running.round() else { return };
        self.act(running, round.before);
        self.start_part(slot, running, Side::Receive, round.receive);
        self.start_part(slot, running, Side::Send, round.send);
    }

    fn start_part(&mut self, whole: u32, running: &mut Running, side: Side, message: Option<Move>) {
        *running.stage(side) = Stage::Through;
        let Some(Move { rank, span }) = message else { return };
        if let Some(why) = self.collectives.left(&running.team, rank)
            && (side == Side::Send || self.matcher.peek(&running.want(rank)).is_none())
        {
            let why = why.clone();
            *running.stage(side) = Stage::Owed;
            return running.fail(why);
        }
        let buf = running.span(span);
        let owner = Owner::Part { whole, side };
        if side == Side::Receive {
            running.receive = Stage::UnderWay;
            self.receive(running.want(rank), buf, owner);
            return;
        }
        let kept = Outgoing::Kept(&buf, Until::Free);
        match self.send(running.team.peer(rank), &running.envelope(), kept) {
            Ok(Started::Ended) => {}
            Ok(Started::Slot(slot)) => {
                running.send = Stage::UnderWay;
                self.own(slot, owner);
            }
            Err(error) => {
                running.send = Stage::Owed;
                running.fail(error);
            }
        }
    }

    fn act(&mut self, running: &Running, act: Act) {
        let Running { exchange, operator, memory, .. } = running;
        match act {
            Act::Nothing => {}
            Act::Combine { span, with, theirs_first } => {
                let operator = operator.as_ref().expect("a reduction has an operator");
                let (own, theirs) = (running.span(span), running.span(with));
                self.collectives.combine(operator, &own, &theirs, theirs_first);
            }
            Act::Blocks { from, to, order } => {
                let block = exchange.block();
                let (from, to) = (&memory[from as usize], &memory[to as usize]);
                order.each(exchange.size as usize, |source, target| {
                    from.range(source * block, block).copy_to(&to.range(target * block, block));
                });
            }
        }
    }

    /// The operation has failed: takes back what is under way, and when that has ended, tells the
    /// others and ends.
    #[cold]
    fn give_up(&mut self, slot: u32, running: Box<Running>) {
        if !running.is_idle() {
            // Put back first: what is cancelled is told in `parts`.
            self.ops.at(slot).state = State::Collective(running);
            for part in self.ops.parts_of(slot) {
                self.cancel(part);
            }
            return;
        }
        let error = running.failed.clone();
        if let Some(error) = &error {
            self.spread(&running.team, error);
        }
        let data = error.as_ref().map_or(0, |error| running.team.to_say(error));
        let farewell = Envelope { flags: FAILED, data, ..running.envelope() };
        let (mut send, mut receive) = (running.send, running.receive);
        for at in running.at.. {
            let Some(round) = running.exchange.round(at) else { break };
            if let Some(message) = round.receive.filter(|_| receive == Stage::Owed) {
                self.receive(running.want(message.rank), Buf::empty(), Owner::Nobody);
            }
            if let Some(message) = round.send.filter(|_| send == Stage::Owed) {
                // One that is gone needs no word.
                let _ = self.send_copy(running.team.peer(message.rank), &farewell, &[]);
            }
            (send, receive) = (Stage::Owed, Stage::Owed);
        }
        self.complete(slot, running, error);
    }

    fn complete(&mut self, slot: u32, running: Box<Running>, error: Option<Error>) {
        let Running { exchange, memory: [input, work, scratch], .. } = *running;
        self.collectives.give_back(scratch);
        // The user's memory is given up before the end is told.
        drop((input, work));
        let envelope = Envelope { kind: Kind::COLLECTIVE, ..Envelope::default() };
        let status = Status { source: exchange.rank, envelope, len: exchange.work_len() };
        self.ops.end(slot, error.map_or(Ok(status), Err));
    }
}
