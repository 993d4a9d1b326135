//! The groups of an endpoint: who is given what has come, and whose time it is.

use std::any::Any;
use std::collections::{HashMap, VecDeque};

use weft_collective::quarrel::Quarrels;
use weft_wire::PeerId;

use super::barrier::Run;
use super::cast::{self, Cast};
use super::choose::Plan;
use super::farewell::Farewell;
use super::gone::Gone;
use super::heading::{Heading, kind};
use super::machine::Machine;
use super::ordered::{self, Ordered};
use super::part::{Count, Word, body};
use super::shared::Awaited;
use super::team::{Outlet, Team};
use crate::device::Device;
use crate::error::Error;

/// One group, as this process sees it.
pub(crate) struct Member {
    pub(crate) team: Team,
    pub(super) barrier: Run,
    /// What else the group does, by the kind of its datagrams.
    machines: Vec<(u8, Box<dyn Machine>)>,
    /// Who takes no part any more, and why; and who among them has said that it leaves.
    pub(super) lost: Gone,
    pub(super) left: Vec<PeerId>,
    /// Who has lost whom, where that is not decided yet.
    pub(super) quarrels: Quarrels,
    /// Others have found this process gone.
    pub(super) outcast: Option<Error>,
    /// What is waited for on the slate.
    pub(super) awaited: Option<Awaited>,
}

/// What has come for groups, and was not taken.
#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    /// For a group that is not here, yet or any more.
    strange: u64,
    /// Made no sense.
    malformed: u64,
}

/// See the module's page.
pub(crate) struct Groups {
    pub(super) members: Vec<Option<Box<Member>>>,
    /// The ids of those in `members`.
    pub(super) ids: Vec<u64>,
    /// How many groups of the same members were made.
    made: HashMap<u64, u32>,
    /// When [`Groups::due`] wants to be called.
    pub(crate) next_ns: u64,
    /// The latest time that was told.
    pub(super) now_ns: u64,
    scratch: Vec<u8>,
    refused: Refused,
    /// Whether somebody waits in a barrier for what no datagram tells.
    pub(crate) looking: bool,
    /// Counts barriers that ended, well or not, so that whoever polls knows when to stop.
    pub(crate) ends: u64,
    /// What barriers of groups that are gone have sent.
    pub(super) past: Count,
    /// What members have said of groups that are not made here yet.
    pub(super) early: HashMap<PeerId, VecDeque<(Heading, Word)>>,
    /// The ids of groups that were here, by the member whose farewell has not come yet.
    pub(super) staying: HashMap<PeerId, VecDeque<u64>>,
    /// What is to be told for certain.
    pub(crate) words: Vec<(PeerId, Farewell)>,
    /// What is to go by messages, since it is too long for a datagram: it may get lost.
    pub(crate) long: Vec<(PeerId, Vec<u8>)>,
    /// Who broadcasts nothing more in which group, found since this was emptied.
    pub(crate) silent: Vec<(u64, PeerId, Error)>,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups {
            members: Vec::new(),
            ids: Vec::new(),
            made: HashMap::new(),
            next_ns: u64::MAX,
            now_ns: 0,
            scratch: Vec::new(),
            refused: Refused::default(),
            looking: false,
            ends: 0,
            past: Default::default(),
            early: HashMap::new(),
            staying: HashMap::new(),
            words: Vec::new(),
            long: Vec::new(),
            silent: Vec::new(),
        }
    }
}

/// A group opened for something to be done with it.
pub(super) struct Opened<'a> {
    pub(super) barrier: &'a mut Run,
    pub(super) machines: &'a mut Vec<(u8, Box<dyn Machine>)>,
    pub(super) lost: &'a mut Gone,
    pub(super) out: Outlet<'a>,
}

impl Groups {
    #[inline]
    pub(super) fn open<'a>(
        &'a mut self,
        device: &'a mut dyn Device,
        slot: usize,
    ) -> Option<Opened<'a>> {
        let member = self.members.get_mut(slot)?.as_deref_mut()?;
        let Member { team, barrier, machines, lost, .. } = member;
        let (scratch, long, now_ns) = (&mut self.scratch, &mut self.long, self.now_ns);
        let out = Outlet { device, team, scratch, long, now_ns };
        Some(Opened { barrier, machines, lost, out })
    }

    /// An id from the members' numbers, and how many groups of the very same there were before.
    fn id_of(&mut self, peers: &[PeerId]) -> u64 {
        let mut list = 0;
        for peer in peers {
            list = super::hash(list, &peer.0.to_le_bytes());
        }
        let count = self.made.entry(list).or_default();
        *count += 1;
        super::hash(list, &count.to_le_bytes())
    }

    /// A new group of `peers`, of whom this process is number `rank`. Gives its place here; `None`
    /// where the given id is taken.
    pub(crate) fn add(
        &mut self,
        device: &mut dyn Device,
        peers: Vec<PeerId>,
        rank: u32,
        id: Option<u64>,
        plan: &Plan,
    ) -> Option<usize> {
        let id = id.unwrap_or_else(|| self.id_of(&peers));
        if id == 0 || self.ids.contains(&id) {
            return None;
        }
        let mut team = Team::new(id, rank, peers);
        team.plan = plan.fingerprint();
        let stays = |peer: &PeerId| self.staying.get(peer).is_some_and(|ids| ids.contains(&id));
        team.past = team.others.iter().copied().filter(stays).collect();
        let barrier = Run::new(&team, plan);
        let size = team.size();
        let machines: Vec<(u8, Box<dyn Machine>)> = Vec::from([
            (cast::KIND, Box::new(Cast::new(rank, size)) as Box<dyn Machine>),
            (ordered::KIND, Box::new(Ordered::new(rank, size, device.silence_ns()))),
        ]);
        let (lost, left, outcast, awaited) = (Gone::new(size), Vec::new(), None, None);
        let quarrels = Quarrels::new(rank, size);
        let member = Member { team, barrier, machines, lost, left, quarrels, outcast, awaited };
        let member = Some(Box::new(member));
        let slot = match self.members.iter().position(Option::is_none) {
            Some(free) => {
                self.members[free] = member;
                self.ids[free] = id;
                free
            }
            None => {
                self.members.push(member);
                self.ids.push(id);
                self.members.len() - 1
            }
        };
        self.hear(device);
        if let Some(Opened { barrier, mut out, .. }) = self.open(device, slot) {
            barrier.prepare(&mut out);
        }
        self.take_early(device, slot);
        Some(slot)
    }

    /// Tells the device what this process is in.
    pub(super) fn hear(&self, device: &mut dyn Device) {
        let mut tags: Vec<u16> = self.members.iter().flatten().map(|m| m.team.tag).collect();
        tags.sort_unstable();
        tags.dedup();
        device.hear_groups(&tags);
    }

    pub(crate) fn member(&self, slot: usize) -> Option<&Member> {
        self.members.get(slot)?.as_deref()
    }

    /// Where groups are.
    pub(crate) fn places(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|slot| self.member(*slot).is_some()).collect()
    }

    /// Has a machine of a group do something; `None`: there is none of that kind.
    pub(crate) fn drive<M: Machine, R>(
        &mut self,
        device: &mut dyn Device,
        slot: usize,
        kind: u8,
        f: impl FnOnce(&mut M, &mut Outlet<'_>) -> R,
    ) -> Option<R> {
        let Opened { machines, mut out, .. } = self.open(device, slot)?;
        let (_, machine) = machines.iter_mut().find(|(k, _)| *k == kind)?;
        let machine: &mut dyn Any = &mut **machine;
        let machine: &mut M = machine.downcast_mut()?;
        let result = f(machine, &mut out);
        let deadline_ns = machine.deadline_ns();
        self.next_ns = self.next_ns.min(deadline_ns);
        Some(result)
    }

    /// A group's id and members.
    pub(crate) fn team_at(&self, slot: usize) -> Option<(u64, &[PeerId])> {
        self.member(slot).map(|member| (member.team.id, &*member.team.peers))
    }

    /// Where the group with this id is, if it is here.
    #[inline(always)]
    pub(super) fn slot_of(&self, id: u64) -> Option<usize> {
        self.ids.iter().position(|known| *known == id)
    }

    /// The members of the group with this id, if it is here.
    pub(crate) fn members_of(&self, id: u64) -> Option<&[PeerId]> {
        let slot = self.slot_of(id).filter(|_| id != 0)?;
        self.team_at(slot).map(|(_, peers)| peers)
    }

    /// Whether no machine of a group is needed by others any more.
    pub(crate) fn may_leave(&self, slot: usize) -> bool {
        let done = |member: &Member| member.machines.iter().all(|(_, machine)| machine.may_leave());
        self.member(slot).is_none_or(done)
    }

    /// What the machines of a group have to say to each member for certain before it is forgotten.
    pub(crate) fn farewells(&mut self, slot: usize) -> Vec<(PeerId, Vec<u8>)> {
        let mut all = Vec::new();
        let member = self.members.get_mut(slot).and_then(Option::as_deref_mut);
        let Some(Member { team, machines, .. }) = member else { return all };
        for (kind, machine) in machines {
            for (rank, peer) in team.peers.iter().enumerate() {
                if rank as u32 == team.rank {
                    continue;
                }
                if let Some((what, payload)) = machine.farewell(rank as u32) {
                    let mut bytes = team.heading(*kind, what).to_vec();
                    bytes.extend_from_slice(&payload);
                    all.push((*peer, bytes));
                }
            }
        }
        all
    }

    /// Enters a barrier of a group; [`Groups::tell_time`] comes just before.
    #[inline(always)]
    pub(crate) fn enter(&mut self, device: &mut dyn Device, slot: usize) -> Result<(), Error> {
        let Some(Opened { barrier, mut out, .. }) = self.open(device, slot) else {
            return Err(Error::NoRequest);
        };
        let entered = barrier.enter(&mut out);
        let next_ns = barrier.deadline_ns();
        let looking = barrier.wants_look();
        self.next_ns = self.next_ns.min(next_ns);
        self.looking |= looking;
        entered
    }

    /// The barrier of a group that was entered last is waited for since now: the time that was
    /// known when it was entered may have been an old one.
    #[cold]
    pub(crate) fn waits(&mut self, slot: usize, now_ns: u64) {
        if let Some(Some(member)) = self.members.get_mut(slot) {
            member.barrier.waits(now_ns);
            self.next_ns = self.next_ns.min(member.barrier.deadline_ns());
        }
    }

    /// Looks at what no datagram tells; whether a barrier has ended by that. Not to be called in
    /// vain: see `looking`.
    pub(crate) fn look(&mut self, device: &mut dyn Device) -> bool {
        let (mut looking, mut ended) = (false, false);
        for slot in 0..self.members.len() {
            let Some(Opened { barrier, mut out, .. }) = self.open(&mut *device, slot) else {
                continue;
            };
            if barrier.wants_look() {
                barrier.look(&mut out);
                ended |= !barrier.is_inside();
                looking |= barrier.is_inside();
            }
        }
        self.looking = looking;
        self.ends += u64::from(ended);
        ended
    }

    /// Whether [`Groups::look`] would find something: for who is about to sleep.
    pub(crate) fn has_news(&mut self) -> bool {
        let mut members = self.members.iter_mut().flatten();
        members.any(|member| {
            let on_slate = member.awaited.as_mut().is_some_and(Awaited::is_there);
            on_slate || self.looking && member.barrier.has_news()
        })
    }

    /// Whether it is known by what a group's further barriers go.
    pub(crate) fn is_settled(&self, slot: usize) -> bool {
        self.member(slot).is_none_or(|member| member.barrier.is_settled())
    }

    /// Whether a barrier of a group has ended, well or not.
    #[inline]
    pub(crate) fn has_ended(&self, slot: usize) -> bool {
        self.member(slot).is_none_or(|member| member.barrier.has_ended())
    }

    /// How a barrier that has ended did.
    #[inline]
    pub(crate) fn result(&self, slot: usize) -> Result<(), Error> {
        self.member(slot).map_or(Err(Error::NoRequest), |member| member.barrier.result())
    }

    /// Both in one; `None`: it has not ended.
    pub(crate) fn ended(&self, slot: usize) -> Option<Result<(), Error>> {
        self.has_ended(slot).then(|| self.result(slot))
    }

    /// Looks at what has come from `peer`, which lies in the device's memory: a machine is given it
    /// there; what is of a barrier is given back, for [`Groups::take`], since the device is needed
    /// for the answer.
    #[inline(always)]
    pub(crate) fn note(&mut self, peer: PeerId, bytes: &[u8]) -> Option<(Heading, Word)> {
        let read = Heading::read(bytes);
        if let Some((heading, payload)) = read
            && heading.kind >= kind::MACHINES
        {
            let given = self.give(peer, &heading, payload);
            self.refused.malformed += u64::from(!given);
            return None;
        }
        let noted = read.and_then(|(heading, payload)| {
            let (number, slot) = body(payload)?;
            Some((heading, Word { what: heading.what, number, slot }))
        });
        self.refused.malformed += u64::from(noted.is_none());
        noted
    }

    /// Gives a machine what is for it; `false`: it makes no sense.
    fn give(&mut self, peer: PeerId, heading: &Heading, payload: &[u8]) -> bool {
        let Some(slot) = self.slot_of(heading.group) else {
            self.refused.strange += 1;
            return true;
        };
        let Heading { rank: from, kind: which, what, .. } = *heading;
        let member = self.members.get_mut(slot).and_then(Option::as_deref_mut);
        let Some(Member { team, machines, left, outcast, .. }) = member else { return false };
        if team.peers.get(from as usize) != Some(&peer) || from == team.rank {
            return false;
        }
        if outcast.is_some() || is_of_another(team, left, peer) {
            return true;
        }
        let Some(at) = machines.iter().position(|(k, _)| *k == which) else { return false };
        machines[at].1.take(from, what, payload, self.now_ns);
        // What it has to send in answer it sends when all that has come was taken.
        let deadline_ns = machines[at].1.deadline_ns();
        self.next_ns = self.next_ns.min(deadline_ns);
        true
    }

    /// Deals with what was noted; it came from `peer`.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        device: &mut dyn Device,
        peer: PeerId,
        noted: Option<(Heading, Word)>,
    ) {
        let Some((heading, word)) = noted else { return };
        let taken = self.route(device, peer, &heading, word);
        self.refused.malformed += u64::from(!taken);
    }

    /// Both in one, for bytes that are not the device's.
    pub(crate) fn accept(&mut self, device: &mut dyn Device, peer: PeerId, bytes: &[u8]) {
        let noted = self.note(peer, bytes);
        self.take(device, peer, noted);
    }

    #[inline]
    fn route(
        &mut self,
        device: &mut dyn Device,
        peer: PeerId,
        heading: &Heading,
        word: Word,
    ) -> bool {
        if word.is_of_member() {
            return self.take_word(device, peer, heading, word);
        }
        let Some(slot) = self.slot_of(heading.group) else {
            self.refused.strange += 1;
            return true;
        };
        let Heading { rank: from, kind: which, plan, .. } = *heading;
        if self.member(slot).is_some_and(|m| is_of_another(&m.team, &m.left, peer)) {
            return true;
        }
        let Some(Opened { barrier, mut out, .. }) = self.open(device, slot) else {
            return false;
        };
        if out.team.peers.get(from as usize) != Some(&peer) {
            return false;
        }
        let was_inside = barrier.is_inside();
        let taken = if plan == out.team.plan {
            barrier.take(from, which, word, &mut out)
        } else {
            barrier.fail(other_plan(peer), None);
            true
        };
        let ended = was_inside && barrier.has_ended();
        self.ends += u64::from(ended);
        taken
    }

    /// Learns the time.
    #[inline]
    pub(crate) fn tell_time(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Does what is due by now: whoever waits for long asks.
    #[cold]
    pub(crate) fn due(&mut self, device: &mut dyn Device) {
        let (mut next_ns, now, mut overdue) = (u64::MAX, self.now_ns, Vec::new());
        for slot in 0..self.members.len() {
            let Some(opened) = self.open(&mut *device, slot) else { continue };
            let Opened { barrier, machines, mut out, .. } = opened;
            barrier.due(&mut out);
            next_ns = next_ns.min(barrier.deadline_ns());
            for (_, machine) in machines {
                if machine.deadline_ns() <= now {
                    machine.due(&mut out);
                    overdue.extend(machine.overdue(now).map(|found| (slot, found)));
                }
                next_ns = next_ns.min(machine.deadline_ns());
            }
        }
        // What is decided here may have more for machines to do.
        self.next_ns = u64::MAX;
        for (slot, found) in overdue {
            self.give_up(device, slot, found);
        }
        let decided_ns = self.decide(device);
        self.next_ns = self.next_ns.min(next_ns).min(decided_ns);
    }

    /// A peer is gone: no barrier with it ends any more.
    pub(crate) fn gone(&mut self, device: &mut dyn Device, peer: PeerId, why: &Error) {
        self.staying.remove(&peer);
        self.early.remove(&peer);
        for slot in 0..self.members.len() {
            self.gone_of(&mut *device, slot, peer, why);
        }
        self.ends += 1;
    }

    /// As [`Groups::gone`], for one group.
    pub(crate) fn gone_of(
        &mut self,
        device: &mut dyn Device,
        slot: usize,
        peer: PeerId,
        why: &Error,
    ) {
        let Some((_, peers)) = self.team_at(slot) else { return };
        let Some(rank) = peers.iter().position(|p| *p == peer) else { return };
        match why {
            // Nobody else can think otherwise.
            Error::PeerClosed { .. } => self.lose(device, slot, rank as u32, why),
            _ => self.miss(device, slot, rank as u32, why),
        }
    }

    /// Datagrams of broadcasts, fragments among them that went again, and datagrams of ordered
    /// messages, of the groups that there are now.
    fn machine_counts(&self) -> [u64; 3] {
        let mut sum = [0; 3];
        for (_, machine) in self.members.iter().flatten().flat_map(|member| &member.machines) {
            let machine: &dyn Any = &**machine;
            if let Some(cast) = machine.downcast_ref::<Cast>() {
                let (frames, again) = cast.counts();
                sum[0] += frames;
                sum[1] += again;
            } else if let Some(ordered) = machine.downcast_ref::<Ordered>() {
                sum[2] += ordered.frames();
            }
        }
        sum
    }

    /// Counts, by name.
    pub(crate) fn counters(&self, mut each: impl FnMut(&'static str, u64)) {
        let mut sum = self.past;
        for member in self.members.iter().flatten() {
            sum.told += member.barrier.count.told;
            sum.asked += member.barrier.count.asked;
            sum.left += member.barrier.count.left;
        }
        each("group.groups", self.members.iter().flatten().count() as u64);
        each("group.barriers", sum.left);
        each("group.told", sum.told);
        each("group.asked", sum.asked);
        let [cast, again, ordered] = self.machine_counts();
        each("group.cast", cast);
        each("group.cast_again", again);
        each("group.ordered", ordered);
        each("group.strange", self.refused.strange);
        each("group.malformed", self.refused.malformed);
    }
}

/// Whether what a peer sends with this group's id is of another one: of one that was here before,
/// or that it has made after it has left this one.
#[inline]
fn is_of_another(team: &Team, left: &[PeerId], peer: PeerId) -> bool {
    team.past.contains(&peer) || left.contains(&peer)
}

#[cold]
pub(super) fn other_plan(peer: PeerId) -> Error {
    let why = format!(
        "rank {peer} has chosen another way for its barriers: give all members the same one, and \
         the same WEFT_BARRIER"
    );
    Error::BadGroup { why }
}
