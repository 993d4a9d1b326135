//! What groups need of their endpoint.

use std::sync::Arc;

use weft_proto::msg::matching::Want;
use weft_sys::buf::{Buf, lend};
use weft_sys::clock::now_ns;
use weft_wire::{Envelope, Kind, PeerId, Ticket};

use super::ops::{Owner, State};
use super::sends::{Outgoing, Started};
use super::work::EndpointWork;
use super::{Endpoint, Source, request};
use crate::collective::order::MESSAGE_MAX;
use crate::error::Error;
use crate::group::cast::{self, Cast};
use crate::group::ordered::{self, Ordered};
use crate::group::shared::{Shared, Spans};
use crate::group::{Outlet, Plan};

/// After so many barriers that ended without one, there is a poll.
const UNPOLLED_MAX: u32 = 16;

/// The longest of what is said in groups, bytes; and how many longer ones than the shortest are
/// brought here at one time: they can be asked for again.
const WORD_MAX: u64 = 80 << 10;
const WORDS_MAX: usize = 64;
const WORD_SHORT: u64 = 128;

impl Endpoint {
    /// The node of each peer, as far as it is known; peers are counted from 0 on.
    pub(crate) fn nodes(&self) -> Arc<[u64]> {
        match &self.station.lock().door {
            Some(door) => door.nodes().into(),
            None => Arc::clone(&self.nodes),
        }
    }

    /// This process's own number among its peers; `None` where it has none yet.
    pub(crate) fn own_peer(&self) -> Option<u32> {
        match &self.station.lock().door {
            Some(door) => door.own().map(|peer| peer.0),
            None => Some(self.place.rank.0),
        }
    }

    /// A new group; gives its place. `id` is what its members have agreed upon; `None` makes one
    /// from the members' numbers, which must be the same at all. `None` is given where this
    /// endpoint has a group with that id already.
    pub(crate) fn add_group(
        &self,
        peers: Vec<PeerId>,
        rank: u32,
        id: Option<u64>,
        plan: &Plan,
    ) -> Option<usize> {
        let mut work = self.station.lock();
        let dead: Vec<(PeerId, Error)> =
            peers.iter().filter_map(|peer| Some((*peer, work.death(*peer)?.clone()))).collect();
        let EndpointWork { groups, device, .. } = &mut *work;
        let slot = groups.add(&mut **device, peers, rank, id, plan)?;
        for (peer, why) in dead {
            groups.gone_of(&mut **device, slot, peer, &why);
        }
        work.pass_on();
        Some(slot)
    }

    /// Forgets a group once it is in no barrier any more, or after a while; its members are told
    /// how far it got.
    pub(crate) fn drop_group(&self, slot: usize) {
        if !std::thread::panicking() {
            // Others may hear only through this one that all have entered, and miss what only this
            // one can send again. Who has not entered, or does not take it, in this time has
            // stopped, or does something else.
            self.station.wait(Some(crate::context::CLOSE_NS), |work, now_ns| {
                work.progress(now_ns);
                let is_over = work.groups.has_ended(slot);
                (is_over && work.groups.may_leave(slot)).then_some(())
            });
        }
        let mut work = self.station.lock();
        work.progress(now_ns());
        work.leave_group(slot);
    }

    pub(crate) fn group_arrive(&self, slot: usize) -> Result<(), Error> {
        self.station.lock().enter(slot, now_ns())
    }

    pub(crate) fn group_barrier(&self, slot: usize) -> Result<(), Error> {
        let (mut entered, mut waits, mut refused) = (None, false, None);
        let work = self.station.wait_briefly(|work, now_ns| {
            let entered_ns = *entered.get_or_insert_with(|| {
                refused = work.enter(slot, now_ns).err();
                now_ns
            });
            if refused.is_some() {
                return true;
            }
            if now_ns != entered_ns && !std::mem::replace(&mut waits, true) {
                work.groups.waits(slot, now_ns);
            }
            work.group_has_ended(slot, now_ns)
        });
        match refused {
            None => work.expect("a wait without a limit ends").groups.result(slot),
            Some(error) => Err(error),
        }
    }

    pub(crate) fn group_wait(&self, slot: usize) -> Result<(), Error> {
        let ended = |work: &mut EndpointWork, now_ns| work.group_has_ended(slot, now_ns);
        let work = self.station.wait_until(None, ended);
        work.expect("a wait without a limit ends").groups.result(slot)
    }

    /// As [`Endpoint::group_wait`], for at most `timeout_ns`, or until something has happened that
    /// the boundary must be told. `false`: it is not over.
    pub(crate) fn group_wait_for(&self, slot: usize, timeout_ns: u64) -> Result<bool, Error> {
        let ended = self.wait_in_parts(timeout_ns, |work, now_ns| work.group_ended(slot, now_ns));
        ended.map_or(Ok(false), |result| result.map(|()| true))
    }

    /// Waits for an end in parts: see [`Endpoint::group_wait_for`].
    pub(super) fn wait_in_parts<T>(
        &self,
        timeout_ns: u64,
        mut ended: impl FnMut(&mut EndpointWork, u64) -> Option<T>,
    ) -> Option<T> {
        let mut told = None;
        let found = self.station.wait(Some(timeout_ns), |work, now_ns| {
            // Ends that the boundary did not take while it was asked to are no news.
            let told = *told.get_or_insert(work.ops.occurrences.len());
            match ended(work, now_ns) {
                Some(result) => Some(Some(result)),
                None => (work.ops.occurrences.len() > told).then_some(None),
            }
        });
        found.flatten()
    }

    fn wait_group(
        &self,
        step: impl FnMut(&mut EndpointWork, u64) -> Option<Result<(), Error>>,
    ) -> Result<(), Error> {
        let ended = self.station.wait(None, step);
        ended.expect("a wait without a limit ends with something")
    }

    pub(crate) fn group_broadcast(
        &self,
        slot: usize,
        root: u32,
        data: &mut [u8],
    ) -> Result<(), Error> {
        lend(|loans| {
            let number = self.group_start_broadcast(slot, root, loans.fill(data))?;
            self.wait_group(|work, now_ns| work.broadcast_ended(slot, number, now_ns))
        })
    }

    /// A broadcast by a message to each other member. Members that are gone hold nobody up.
    pub(crate) fn group_broadcast_by_messages(
        &self,
        slot: usize,
        root: u32,
        data: &mut [u8],
    ) -> Result<(), Error> {
        let (peer, rank, envelope) = {
            let work = self.station.lock();
            let Some(member) = work.groups.member(slot) else { return Err(Error::NoRequest) };
            if let Some(why) = work.groups.outcast(slot) {
                return Err(why.clone());
            }
            let envelope =
                Envelope { tag: member.team.id, kind: Kind::BROADCAST, ..Envelope::default() };
            (member.team.peers[root as usize], member.team.rank, envelope)
        };
        if rank == root {
            return self.tell_others(slot, &envelope, data);
        }
        let len = data.len();
        let ended = lend(|loans| {
            let buf = loans.fill(data);
            let from = Source::Rank(peer.0);
            let request = self.start_receive(from, envelope.tag.into(), envelope.kind, buf);
            self.station.lock().end_broadcasts(slot, root);
            self.wait(request)
        });
        let sent = match ended {
            Ok(completion) => completion.status.len,
            Err(Error::Truncated { status, .. }) => status.len,
            Err(error) => return Err(error),
        };
        if sent == len {
            return Ok(());
        }
        let why = format!(
            "rank {root} broadcasts {sent} bytes, where {len} bytes are expected: all ranks must \
             broadcast the same in the same order"
        );
        Err(Error::Mismatch { peer, why })
    }

    fn tell_others(&self, slot: usize, envelope: &Envelope, data: &[u8]) -> Result<(), Error> {
        lend(|loans| {
            let keep = || loans.read(data);
            let mut started = Vec::new();
            let mut result = Ok(());
            let mut note = |ended: Result<(), Error>| match ended {
                Err(Error::PeerDead { .. } | Error::PeerClosed { .. }) | Ok(()) => {}
                Err(error) => result = Err(error),
            };
            {
                let mut work = self.station.lock();
                let size = work.groups.member(slot).map_or(0, |member| member.team.others.len());
                for at in 0..size {
                    let Some(member) = work.groups.member(slot) else { break };
                    let peer = member.team.others[at];
                    match work.send(peer, envelope, Outgoing::Borrowed(data, &keep)) {
                        Ok(Started::Ended) => {}
                        Ok(Started::Slot(op)) => started.push(request(&mut work, op)),
                        Err(error) => note(Err(error)),
                    }
                }
            }
            for request in started {
                note(self.wait(request).map(drop));
            }
            result
        })
    }

    /// Begins a broadcast; gives its number.
    pub(crate) fn group_start_broadcast(
        &self,
        slot: usize,
        root: u32,
        buf: Buf,
    ) -> Result<u32, Error> {
        let mut work = self.station.lock();
        let number = work.cast(slot, |machine, out| machine.start(root, buf, out));
        number.ok_or(Error::NoRequest)
    }

    /// Takes the caller's memory back from a broadcast that has not ended.
    pub(crate) fn group_forsake(&self, slot: usize, number: u32) {
        self.station.lock().cast(slot, |machine, _| machine.forsake(number));
    }

    /// As [`Endpoint::group_wait_for`], for a broadcast.
    pub(crate) fn group_broadcast_wait_for(
        &self,
        slot: usize,
        number: u32,
        timeout_ns: u64,
    ) -> Result<bool, Error> {
        let ended = self
            .wait_in_parts(timeout_ns, |work, now_ns| work.broadcast_ended(slot, number, now_ns));
        ended.map_or(Ok(false), |result| result.map(|()| true))
    }

    /// `false`: too many messages are under way, and the time is over.
    pub(crate) fn group_cast(
        &self,
        slot: usize,
        bytes: &[u8],
        timeout_ns: Option<u64>,
    ) -> Result<bool, Error> {
        if bytes.len() > MESSAGE_MAX {
            let len = bytes.len();
            let why = format!(
                "a message of {len} bytes is longer than the {MESSAGE_MAX} that a member may send \
                 at one time: send it in parts, or by a broadcast"
            );
            return Err(Error::BadGroup { why });
        }
        let sent = self.station.wait(timeout_ns, |work, now_ns| {
            if let Some(why) = work.groups.outcast(slot) {
                return Some(Err(why.clone()));
            }
            match work.ordered(slot, now_ns, |machine, out| machine.cast(bytes, out)) {
                Some(true) => Some(Ok(())),
                Some(false) => {
                    work.progress(now_ns);
                    None
                }
                None => Some(Err(Error::NoRequest)),
            }
        });
        sent.map_or(Ok(false), |result| result.map(|()| true))
    }

    /// `None`: there was no message in this time.
    pub(crate) fn group_deliver(
        &self,
        slot: usize,
        into: &mut Vec<u8>,
        timeout_ns: Option<u64>,
    ) -> Result<Option<u32>, Error> {
        let mut waits = false;
        let found = self.station.wait(timeout_ns, |work, now_ns| {
            let found = work.next_delivery(slot, into, now_ns).transpose();
            if found.is_none() && !std::mem::replace(&mut waits, true) {
                work.ordered(slot, now_ns, |machine, out| machine.wait(out));
            }
            found
        });
        found.transpose()
    }

    pub(crate) fn group_try_deliver(
        &self,
        slot: usize,
        into: &mut Vec<u8>,
    ) -> Result<Option<u32>, Error> {
        self.station.lock().next_delivery(slot, into, now_ns())
    }

    pub(crate) fn group_settled(&self, slot: usize) -> bool {
        self.station.lock().groups.is_settled(slot)
    }

    pub(crate) fn group_shared(&self, slot: usize) -> Option<Shared> {
        let mut work = self.station.lock();
        let EndpointWork { groups, device, .. } = &mut *work;
        groups.shared(&mut **device, slot)
    }

    pub(crate) fn group_wake(&self, slot: usize, peers: &[PeerId]) {
        let mut work = self.station.lock();
        let EndpointWork { groups, device, .. } = &mut *work;
        groups.wake(&mut **device, slot, peers);
    }

    /// As [`Endpoint::group_wait_for`], for what is under way on a group's slate.
    pub(crate) fn group_shared_wait(
        &self,
        slot: usize,
        shared: &mut Shared,
        spans: &mut Spans<'_>,
        timeout_ns: u64,
    ) -> Result<bool, Error> {
        let ended = self.wait_in_parts(timeout_ns, |work, now_ns| {
            work.shared_ended(slot, shared, spans, now_ns)
        });
        self.station.lock().groups.awaits(slot, None);
        ended.map_or(Ok(false), |result| result.map(|()| true))
    }

    pub(crate) fn group_test(&self, slot: usize) -> Result<bool, Error> {
        let ended = self.station.lock().group_ended(slot, now_ns());
        ended.map_or(Ok(false), |result| result.map(|()| true))
    }
}

impl EndpointWork {
    /// Sends on what members of groups are to be told of others, and ends what waits for a
    /// broadcast, or for messages, that will not come.
    pub(super) fn pass_on(&mut self) {
        let envelope = Envelope { kind: Kind::GROUP, ..Envelope::default() };
        for (peer, word) in std::mem::take(&mut self.groups.words) {
            // Who is gone needs no word.
            let _ = self.send_copy(peer, &envelope, &word);
        }
        for (peer, bytes) in std::mem::take(&mut self.groups.long) {
            // Who does not take what it was sent is sent no more of what it can ask for again.
            if !self.has_waiting_for(peer) {
                let _ = self.send_copy(peer, &envelope, &bytes);
            }
        }
        for (id, peer, why) in std::mem::take(&mut self.groups.silent) {
            self.end_broadcasts_of(id, peer, &why);
            self.end_collectives_with(id, peer, &why);
        }
    }

    /// Forgets a group; its members are told how far it got.
    pub(super) fn leave_group(&mut self, slot: usize) {
        let envelope = Envelope { kind: Kind::GROUP, ..Envelope::default() };
        for (peer, farewell) in self.groups.farewells(slot) {
            // Who is gone needs no word.
            let _ = self.send_copy(peer, &envelope, &farewell);
        }
        if let Some((id, _)) = self.groups.team_at(slot) {
            self.collectives.forget(id);
        }
        let Some((others, farewell)) = self.groups.remove(&mut *self.device, slot) else { return };
        for peer in others {
            // Who is gone needs no word.
            let _ = self.send_copy(peer, &envelope, &farewell);
        }
    }

    /// Whether what a peer says in a group, announced with this length, is brought here.
    pub(super) fn has_room_for_word(&self, len: u64) -> bool {
        len <= WORD_MAX && (len <= WORD_SHORT || self.words_pulled < WORDS_MAX)
    }

    /// A peer has announced what is for a group: it is brought here, and taken when it is.
    pub(super) fn pull_word(&mut self, peer: PeerId, len: u64, ticket: Ticket) {
        let buf = Buf::from_vec(vec![0; len as usize]);
        let slot = self.ops.insert(State::Waiting, peer, buf.clone());
        let op = self.ops.at(slot);
        (op.owner, op.state) = (Owner::Nobody, State::Word);
        self.words_pulled += 1;
        let id = self.ops.id(slot);
        self.device.pull(peer, ticket, buf, id);
    }

    /// It is here, or will not come.
    pub(super) fn word_ended(&mut self, slot: u32, is_here: bool) {
        self.words_pulled -= 1;
        let op = self.ops.at(slot);
        let (peer, buf) = (op.peer, op.buf.clone());
        op.state = State::Waiting;
        self.ops.remove(slot);
        if is_here {
            let mut bytes = vec![0; buf.len()];
            buf.read(0, &mut bytes);
            self.groups.accept(&mut *self.device, peer, &bytes);
            self.pass_on();
        }
    }

    /// As [`EndpointWork::end_broadcasts_of`], if the member with that rank broadcasts nothing
    /// more.
    fn end_broadcasts(&mut self, slot: usize, root: u32) {
        let Some(why) = self.groups.silence(slot, root).cloned() else { return };
        let team = self.groups.team_at(slot).map(|(id, peers)| (id, peers[root as usize]));
        if let Some((id, peer)) = team {
            self.end_broadcasts_of(id, peer, &why);
        }
    }

    /// Ends receives of a group's broadcasts by messages of `peer`, of which none comes any more.
    fn end_broadcasts_of(&mut self, id: u64, peer: PeerId, why: &Error) {
        let hopeless = |want: &Want| {
            want.kind == Kind::BROADCAST && want.tag == id && want.source == Some(peer)
        };
        let mut lost = Vec::new();
        self.matcher.cancel_all(|want, _| hopeless(want), |_, slot| lost.push(slot));
        for slot in lost {
            self.ops.end(slot, Err(why.clone()));
        }
    }

    #[inline]
    pub(super) fn enter(&mut self, slot: usize, now_ns: u64) -> Result<(), Error> {
        self.groups.tell_time(now_ns);
        self.groups.enter(&mut *self.device, slot)
    }

    pub(super) fn cast<R>(
        &mut self,
        slot: usize,
        f: impl FnOnce(&mut Cast, &mut Outlet<'_>) -> R,
    ) -> Option<R> {
        self.groups.tell_time(now_ns());
        let result = self.groups.drive(&mut *self.device, slot, cast::KIND, f);
        self.pass_long();
        result
    }

    fn ordered<R>(
        &mut self,
        slot: usize,
        now_ns: u64,
        f: impl FnOnce(&mut Ordered, &mut Outlet<'_>) -> R,
    ) -> Option<R> {
        self.groups.tell_time(now_ns);
        let result = self.groups.drive(&mut *self.device, slot, ordered::KIND, f);
        self.pass_long();
        result
    }

    #[inline]
    fn pass_long(&mut self) {
        if !self.groups.long.is_empty() {
            self.pass_on();
        }
    }

    /// The next message in a group's order, if it is there before or after a round of progress.
    fn next_delivery(
        &mut self,
        slot: usize,
        into: &mut Vec<u8>,
        now_ns: u64,
    ) -> Result<Option<u32>, Error> {
        let mut next = |work: &mut EndpointWork| {
            if let Some(why) = work.groups.outcast(slot) {
                return Err(why.clone());
            }
            let found = work.ordered(slot, now_ns, |machine, out| {
                machine.deliver(into, out).or_else(|| machine.hopeless().map(Err))
            });
            found.unwrap_or(Some(Err(Error::NoRequest))).transpose()
        };
        match next(self)? {
            Some(sender) => Ok(Some(sender)),
            None => {
                self.progress(now_ns);
                next(self)
            }
        }
    }

    /// The end of a broadcast, if it has come, before or after a round of progress.
    fn broadcast_ended(
        &mut self,
        slot: usize,
        number: u32,
        now_ns: u64,
    ) -> Option<Result<(), Error>> {
        let ended = |work: &mut EndpointWork| {
            work.cast(slot, |machine, out| machine.ended(number, &out.team.peers))
                .unwrap_or(Some(Err(Error::NoRequest)))
        };
        ended(self).or_else(|| {
            self.progress(now_ns);
            ended(self)
        })
    }

    /// Whether a barrier has ended, before or after a round of progress.
    #[inline]
    fn group_has_ended(&mut self, slot: usize, now_ns: u64) -> bool {
        if self.groups.has_ended(slot) {
            // Who is always the last to come waits for nothing; but others may wait for it.
            self.unpolled += 1;
            if self.unpolled == UNPOLLED_MAX {
                self.progress(now_ns);
            }
            return true;
        }
        self.progress(now_ns);
        self.groups.has_ended(slot)
    }

    /// The end of what is under way on a group's slate, before or after a round of progress.
    fn shared_ended(
        &mut self,
        slot: usize,
        shared: &mut Shared,
        spans: &mut Spans<'_>,
        now_ns: u64,
    ) -> Option<Result<(), Error>> {
        let mut over = |shared: &mut Shared| match shared.go_on(spans) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        if let Some(ended) = over(shared) {
            return Some(ended);
        }
        self.progress(now_ns);
        let mut ended = over(shared);
        if ended.is_none() {
            ended = self.groups.trouble(slot, shared).cloned().map(Err);
        }
        if ended.is_none() {
            self.groups.awaits(slot, Some(shared.awaited()));
        }
        ended
    }

    /// The end of a barrier, if it has come, before or after a round of progress.
    fn group_ended(&mut self, slot: usize, now_ns: u64) -> Option<Result<(), Error>> {
        self.group_has_ended(slot, now_ns).then(|| self.groups.result(slot))
    }
}
