//! Barriers and broadcasts of groups as operations whose end is told, for boundaries: several may
//! be under way in a group, nobody waits in a call, and nobody does when a group is left.
//!
//! In a group barriers end in the order in which they were started, and so do broadcasts: all
//! members start them in the same order, so that none is held up by one that it must not wait for.

use std::collections::VecDeque;

use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_wire::{Envelope, Kind, PeerId};

use super::ops::{Owner, State, Status};
use super::turn::Cookie;
use super::work::EndpointWork;
use crate::context::CLOSE_NS;
use crate::error::Error;
use crate::group::seat::Seat;

/// What is under way in a group, oldest first.
#[derive(Default)]
struct Queue {
    /// The slots of barriers. The first one has been entered; the next one is when that is over,
    /// for then all have begun it, and so all will begin the next.
    barriers: VecDeque<u32>,
    /// The numbers and slots of broadcasts.
    broadcasts: VecDeque<(u32, u32)>,
}

/// See the module's page.
#[derive(Default)]
pub(super) struct Joints {
    /// By the group's place.
    queues: Vec<Queue>,
    /// How many are in them.
    pending: usize,
    /// Groups that are left when nobody needs this member any more, and when at the latest, ns.
    leaving: Vec<(usize, u64)>,
}

impl Joints {
    /// Whether [`EndpointWork::go_on_jointly`] is to be called.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.pending > 0 || self.is_leaving()
    }

    /// Whether a group is still to be left.
    pub(super) fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// When something is to be done though nothing arrives.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.leaving.iter().map(|(_, limit_ns)| *limit_ns).min()
    }

    fn of(&mut self, group: usize) -> &mut Queue {
        if self.queues.len() <= group {
            self.queues.resize_with(group + 1, Queue::default);
        }
        &mut self.queues[group]
    }
}

impl EndpointWork {
    fn begin_jointly(&mut self, buf: Buf, cookie: Cookie) -> u32 {
        let slot = self.ops.insert(State::Joint, PeerId(u32::MAX), buf);
        self.ops.at(slot).owner = Owner::Boundary(cookie);
        self.joints.pending += 1;
        slot
    }

    fn end_jointly(&mut self, slot: u32, result: Result<(), Error>) {
        self.joints.pending -= 1;
        let envelope = Envelope { kind: Kind::GROUP, ..Envelope::default() };
        let len = self.ops.at(slot).buf.len();
        self.ops.end(slot, result.map(|()| Status { source: u32::MAX, envelope, len }));
    }

    /// Enters a barrier of a group, after those before it.
    pub(super) fn begin_barrier(&mut self, seat: Seat, cookie: Cookie) {
        let (group, slot) = (seat.slot(), self.begin_jointly(Buf::empty(), cookie));
        let queue = self.joints.of(group);
        queue.barriers.push_back(slot);
        if queue.barriers.len() == 1 {
            self.enter_next(group, now_ns());
        }
        self.end_what_is_over(group, now_ns());
    }

    /// Starts a broadcast of a group by datagrams.
    pub(super) fn begin_broadcast(&mut self, seat: Seat, root: u32, buf: Buf, cookie: Cookie) {
        let (group, memory) = (seat.slot(), buf.clone());
        let slot = self.begin_jointly(buf, cookie);
        match self.cast(group, |machine, out| machine.start(root, memory, out)) {
            Some(number) => self.joints.of(group).broadcasts.push_back((number, slot)),
            None => self.end_jointly(slot, Err(Error::NoRequest)),
        }
        self.end_what_is_over(group, now_ns());
    }

    /// Enters the first barrier that waits; those end that cannot be entered.
    fn enter_next(&mut self, group: usize, now_ns: u64) {
        while let Some(&slot) = self.joints.of(group).barriers.front() {
            let Err(error) = self.enter(group, now_ns) else { return };
            self.joints.of(group).barriers.pop_front();
            self.end_jointly(slot, Err(error));
        }
    }

    /// Tells of what has ended; `true` if something has. To be called whenever something may have,
    /// if [`Joints::is_busy`].
    pub(super) fn go_on_jointly(&mut self, now_ns: u64) -> bool {
        let before = self.joints.pending;
        for group in 0..self.joints.queues.len() {
            self.end_what_is_over(group, now_ns);
        }
        self.leave_what_can_be_left(now_ns);
        self.joints.pending != before
    }

    fn end_what_is_over(&mut self, group: usize, now_ns: u64) {
        while let Some(&slot) = self.joints.of(group).barriers.front() {
            let Some(result) = self.groups.ended(group) else { break };
            self.joints.of(group).barriers.pop_front();
            self.end_jointly(slot, result);
            self.enter_next(group, now_ns);
        }
        while let Some(&(number, slot)) = self.joints.of(group).broadcasts.front() {
            let ended = self.cast(group, |machine, out| machine.ended(number, &out.team.peers));
            let Some(result) = ended.unwrap_or(Some(Err(Error::NoRequest))) else { break };
            self.joints.of(group).broadcasts.pop_front();
            self.end_jointly(slot, result);
        }
    }

    /// Leaves a group as soon as the others do not need this member any more. What is under way in
    /// it here is given up, which the others are told.
    pub(super) fn quit(&mut self, group: usize, now_ns: u64) {
        let Queue { barriers, broadcasts } = std::mem::take(self.joints.of(group));
        for slot in barriers {
            self.end_jointly(slot, Err(Error::Cancelled));
        }
        for (number, slot) in broadcasts {
            self.cast(group, |machine, _| machine.forsake(number));
            self.end_jointly(slot, Err(Error::Cancelled));
        }
        self.cancel_collectives(group);
        self.joints.leaving.push((group, now_ns.saturating_add(CLOSE_NS)));
        self.leave_what_can_be_left(now_ns);
    }

    /// Leaves all groups that have not been left.
    pub(super) fn quit_all(&mut self, now_ns: u64) {
        for group in self.groups.places() {
            if !self.joints.leaving.iter().any(|(leaving, _)| *leaving == group) {
                self.quit(group, now_ns);
            }
        }
    }

    fn leave_what_can_be_left(&mut self, now_ns: u64) {
        let mut at = 0;
        while let Some(&(group, limit_ns)) = self.joints.leaving.get(at) {
            if self.groups.may_leave(group) || now_ns >= limit_ns {
                self.joints.leaving.swap_remove(at);
                self.leave_group(group);
            } else {
                at += 1;
            }
        }
    }
}
