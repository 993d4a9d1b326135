//! An endpoint's state: its device, the matching, and the operations under way.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_proto::msg::matching::{Arrival, Matcher, Met, Want};
use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_sys::watch::Signal;
use weft_wire::{Envelope, Kind, PeerId, Ticket};

use super::collective::{Collectives, says_broken};
use super::door::Door;
use super::many::{self, MANY};
use super::ops::{Ops, Owner, State, Status};
use super::remote::{Remote, answered};
use super::turn::Cookie;
use crate::context::Early;
use crate::device::{Device, Event, SendError};
use crate::error::Error;
use crate::group::Groups;
use crate::station::Work;

/// Bytes of unexpected messages that are stored before their senders are asked to announce instead.
const UNEXPECTED_MAX: usize = 64 << 20;

/// Bytes that an unexpected message is counted with besides its payload.
const UNEXPECTED_OVERHEAD: usize = 96;

/// Buffers of unexpected messages that are kept for the next ones.
const SPARE_MAX: usize = 256;

/// Events taken in one go, so that a flood of them does not keep the caller from its own business.
const EVENTS_MAX: usize = 64;

/// Calls between two looks at the clock where nothing goes by it closely. The tender looks itself
/// where the program makes no call for some milliseconds.
const CALLS_PER_LOOK: u32 = 8;

/// A message that nobody waited for.
pub(super) enum Unexpected {
    /// Stored whole.
    Stored { envelope: Envelope, payload: Vec<u8> },
    /// Its payload waits at the sender.
    Announced { envelope: Envelope, len: u64, ticket: Ticket },
}

impl Unexpected {
    /// What a probe tells of it.
    pub(super) fn status(&self, source: PeerId) -> Status {
        let (envelope, len) = match self {
            Unexpected::Stored { envelope, payload } => (*envelope, payload.len()),
            Unexpected::Announced { envelope, len, .. } => (*envelope, *len as usize),
        };
        Status { source: source.0, envelope, len }
    }
}

/// Sends to one peer that wait for room, in order.
struct Queue {
    peer: PeerId,
    sends: VecDeque<(u32, Envelope)>,
}

/// How a send began.
pub(super) enum Started {
    /// It has ended: the payload is on its way and may be used again.
    Ended,
    /// It goes on as an operation.
    Slot(u32),
}

/// What is sent, and how it stays valid if the send goes on as an operation.
pub(super) enum Outgoing<'a> {
    /// Memory that stays valid by its `Buf`.
    Kept(&'a Buf),
    /// The same; the send ends only when the receiver has it, even if the device could copy it.
    Delivered(&'a Buf),
    /// Borrowed memory, and how to borrow it for longer.
    Borrowed(&'a [u8], &'a dyn Fn() -> Buf),
}

impl Outgoing<'_> {
    fn len(&self) -> usize {
        match self {
            Outgoing::Kept(buf) | Outgoing::Delivered(buf) => buf.len(),
            Outgoing::Borrowed(bytes, _) => bytes.len(),
        }
    }

    fn keep(self) -> Buf {
        match self {
            Outgoing::Kept(buf) | Outgoing::Delivered(buf) => buf.clone(),
            Outgoing::Borrowed(_, keep) => keep(),
        }
    }
}

/// See the module's page.
pub(super) struct EndpointWork {
    pub(super) device: Box<dyn Device>,
    pub(super) matcher: Matcher<u32, Unexpected>,
    pub(super) ops: Ops,
    queues: Vec<Queue>,
    unexpected_bytes: usize,
    held: Vec<PeerId>,
    spare: Vec<Vec<u8>>,
    dead: Vec<(PeerId, Error)>,
    /// Processes besides this one.
    pub(super) others: usize,
    /// Messages of the context API that came here by mistake.
    pub(super) misdirected: u64,
    pub(super) remote: Remote,
    pub(super) collectives: Collectives,
    /// Where an endpoint that was opened without a job lets in processes it does not know.
    pub(super) door: Option<Door>,
    /// Set when the tender has done something of which the boundary must be told.
    pub(super) signals: Vec<Arc<Signal>>,
    pub(super) groups: Groups,
    /// Barriers that ended since the last poll.
    pub(super) unpolled: u32,
    /// The time at the last look at the clock, and calls to [`EndpointWork::time`].
    looked_ns: u64,
    calls: u32,
}

impl EndpointWork {
    /// The state on a device from which `early` has already arrived, and whose peers in `dead` are
    /// gone.
    pub(super) fn new(
        device: Box<dyn Device>,
        others: usize,
        early: Vec<Early>,
        dead: Vec<(PeerId, Error)>,
    ) -> EndpointWork {
        let mut work = EndpointWork {
            device,
            matcher: Matcher::new(),
            ops: Ops::default(),
            queues: Vec::new(),
            unexpected_bytes: 0,
            held: Vec::new(),
            spare: Vec::new(),
            dead,
            others,
            misdirected: 0,
            remote: Remote::default(),
            collectives: Collectives::default(),
            door: None,
            signals: Vec::new(),
            groups: Groups::default(),
            unpolled: 0,
            looked_ns: now_ns(),
            calls: 0,
        };
        for early in early {
            let (source, message) = match early {
                Early::Message { peer, envelope, payload } => {
                    (peer, Unexpected::Stored { envelope, payload })
                }
                Early::Announced { peer, envelope, len, ticket } => {
                    (peer, Unexpected::Announced { envelope, len, ticket })
                }
            };
            let Envelope { tag, kind, .. } = message.status(source).envelope;
            work.keep(Arrival { source, tag, kind }, message);
            work.device.hold(source, false);
        }
        work
    }

    /// Why `peer` is gone, if it is.
    pub(super) fn death(&self, peer: PeerId) -> Option<&Error> {
        self.dead.iter().find(|(p, _)| *p == peer).map(|(_, e)| e)
    }

    /// Whether a message of `len` bytes to `peer` is announced, and its payload pulled.
    #[inline]
    pub(super) fn announces(&self, peer: PeerId, len: usize) -> bool {
        let caps = self.device.caps(peer);
        len > caps.eager_max || len >= caps.announce_from
    }

    /// Starts a send. Small messages are copied to the device at once; those it has no room for,
    /// and large ones, become operations.
    #[inline]
    pub(super) fn send(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        outgoing: Outgoing<'_>,
    ) -> Result<Started, Error> {
        let len = outgoing.len();
        let eager = !self.announces(peer, len);
        let first = self.queues.is_empty() || self.queues.iter().all(|q| q.peer != peer);
        if eager && first {
            let sent = match &outgoing {
                Outgoing::Borrowed(bytes, _) => self.device.send(peer, envelope, bytes),
                Outgoing::Kept(buf) | Outgoing::Delivered(buf) => {
                    self.device.reserve(peer, len).map(|()| {
                        buf.read(0, self.device.space());
                        self.device.commit(envelope);
                    })
                }
            };
            match sent {
                Ok(()) => return Ok(Started::Ended),
                Err(SendError::Failed(error)) => return Err(error),
                Err(SendError::Full | SendError::Held) => {}
            }
        }
        if let Some(error) = self.death(peer) {
            return Err(error.clone());
        }
        let delivered = matches!(outgoing, Outgoing::Delivered(_));
        let slot = self.ops.insert(State::Waiting, peer, outgoing.keep());
        self.ops.at(slot).delivered = delivered;
        if !first || !self.try_send(slot, envelope) {
            self.enqueue(peer, slot, *envelope);
        }
        Ok(Started::Slot(slot))
    }

    fn enqueue(&mut self, peer: PeerId, slot: u32, envelope: Envelope) {
        match self.queues.iter_mut().find(|q| q.peer == peer) {
            Some(queue) => queue.sends.push_back((slot, envelope)),
            None => self.queues.push(Queue { peer, sends: VecDeque::from([(slot, envelope)]) }),
        }
    }

    /// One try to hand a waiting send to the device; `false`: no room.
    fn try_send(&mut self, slot: u32, envelope: &Envelope) -> bool {
        let id = self.ops.id(slot);
        let op = self.ops.at(slot);
        let (peer, len) = (op.peer, op.buf.len());
        let mut announce = self.announces(peer, len);
        let op = self.ops.at(slot);
        if !announce {
            let result = self.device.reserve(peer, len);
            match result {
                Ok(()) => {
                    op.buf.read(0, self.device.space());
                    self.device.commit(envelope);
                    self.ops.end(slot, Ok(Status { source: peer.0, envelope: *envelope, len }));
                    return true;
                }
                Err(SendError::Full) => return false,
                Err(SendError::Held) => announce = true,
                Err(SendError::Failed(error)) => {
                    self.ops.end(slot, Err(error));
                    return true;
                }
            }
        }
        debug_assert!(announce);
        // Only the ends of plain messages say nothing of their receiver.
        let announced = if is_matched(envelope.kind) && !op.delivered {
            self.device.announce_buffered(peer, envelope, &op.buf, id)
        } else {
            self.device.announce(peer, envelope, &op.buf, id).map(|()| false)
        };
        match announced {
            Ok(false) => op.state = State::Announced,
            Ok(true) => {
                self.ops.end(slot, Ok(Status { source: peer.0, envelope: *envelope, len }));
            }
            Err(SendError::Full | SendError::Held) => return false,
            Err(SendError::Failed(error)) => self.ops.end(slot, Err(error)),
        }
        true
    }

    /// Tries the waiting sends again, in order for each peer.
    #[cold]
    fn retry(&mut self) -> bool {
        let mut did = false;
        let mut queues = std::mem::take(&mut self.queues);
        queues.retain_mut(|queue| {
            while let Some((slot, envelope)) = queue.sends.front().copied() {
                if !self.try_send(slot, &envelope) {
                    return true;
                }
                did = true;
                queue.sends.pop_front();
            }
            false
        });
        // Nothing that `try_send` does queues a send.
        self.queues = queues;
        did
    }

    /// Starts a receive.
    #[inline]
    pub(super) fn receive(&mut self, want: Want, buf: Buf, owner: Owner) -> u32 {
        let slot = self.ops.insert(State::Waiting, PeerId(u32::MAX), buf);
        self.ops.at(slot).owner = owner;
        if self.dead.is_empty() {
            self.post(want, slot)
        } else {
            self.receive_from_dead(want, slot)
        }
        slot
    }

    #[inline]
    fn post(&mut self, want: Want, slot: u32) {
        match self.matcher.post(want, slot) {
            Ok(posted) => self.ops.at(slot).state = State::Posted(posted),
            Err(Met { arrival, message, .. }) => self.deliver(slot, arrival.source, message),
        }
    }

    /// Why no message that is wanted can come any more, if so.
    pub(super) fn hopeless(&self, want: &Want) -> Option<Error> {
        match want.source {
            Some(source) => self.death(source).cloned(),
            None if self.dead.len() >= self.others => self.dead.last().map(|(_, e)| e.clone()),
            None => None,
        }
    }

    /// Messages of a dead peer that have arrived can still be received; others never come.
    #[cold]
    fn receive_from_dead(&mut self, want: Want, slot: u32) {
        match self.hopeless(&want) {
            Some(error) if self.matcher.peek(&want).is_none() => self.ops.end(slot, Err(error)),
            _ => self.post(want, slot),
        }
    }

    /// Gives an unexpected message to a receive.
    pub(super) fn deliver(&mut self, slot: u32, source: PeerId, message: Unexpected) {
        let status = message.status(source);
        self.forget(&message);
        match message {
            Unexpected::Stored { payload, .. } => {
                self.fill(slot, status, &payload);
                self.recycle(payload);
            }
            Unexpected::Announced { ticket, .. } => self.pull(slot, status, ticket),
        }
    }

    /// Keeps the buffer of an unexpected message for the next one.
    pub(super) fn recycle(&mut self, payload: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(payload);
        }
    }

    /// No longer counts an unexpected message, and lets the senders go on when enough have left.
    pub(super) fn forget(&mut self, message: &Unexpected) {
        let payload = match message {
            Unexpected::Stored { payload, .. } => payload.len(),
            Unexpected::Announced { .. } => 0,
        };
        self.unexpected_bytes -= payload + UNEXPECTED_OVERHEAD;
        if !self.held.is_empty() && self.unexpected_bytes < UNEXPECTED_MAX / 2 {
            for peer in std::mem::take(&mut self.held) {
                self.device.hold(peer, false);
            }
        }
    }

    /// Copies a payload into a receive's memory, and ends the receive.
    #[inline]
    fn fill(&mut self, slot: u32, status: Status, payload: &[u8]) {
        let room = self.ops.at(slot).buf.write(0, payload);
        self.ops.end(slot, whole(status, room));
    }

    /// Asks for the payload of an announced message.
    pub(super) fn pull(&mut self, slot: u32, status: Status, ticket: Ticket) {
        let id = self.ops.id(slot);
        let op = self.ops.at(slot);
        op.state = State::Pulling(status);
        let into = op.buf.truncated(status.len);
        self.device.pull(PeerId(status.source), ticket, into, id);
    }

    /// The time, for who makes progress over and over: where nothing goes by it closely, as within
    /// a node, it may be that of some calls ago. A look at the clock costs as much as a poll.
    #[inline]
    pub(super) fn time(&mut self) -> u64 {
        self.calls = self.calls.wrapping_add(1);
        let close = self.groups.next_ns != u64::MAX || self.device.is_timed();
        if close || self.calls.is_multiple_of(CALLS_PER_LOOK) {
            self.looked_ns = now_ns();
        }
        self.looked_ns
    }

    /// Takes what has arrived, and tries waiting sends again; `true` if something was done. Stops
    /// at the first small message that somebody waits for: a poll that finds nothing more can cost
    /// system calls, and would come between the message and the answer to it.
    #[inline]
    pub(super) fn progress(&mut self, now_ns: u64) -> bool {
        let mut did = !self.queues.is_empty() && self.retry();
        self.groups.tell_time(now_ns);
        if self.groups.looking && self.groups.look(&mut *self.device) {
            return true;
        }
        self.unpolled = 0;
        for _ in 0..EVENTS_MAX {
            if !self.device.poll(now_ns) {
                break;
            }
            did = true;
            let ends = (self.ops.ends, self.groups.ends);
            if self.take_event() && (self.ops.ends, self.groups.ends) != ends {
                break;
            }
        }
        // After what has come: whoever had no processor for long shall not complain of what is
        // there.
        if self.groups.next_ns <= now_ns {
            self.groups.due(&mut *self.device);
        }
        if !self.ops.parts.is_empty() {
            self.parts_ended();
        }
        if !did && self.door.is_some() {
            self.answer_door();
        }
        did
    }

    /// Takes the device's current event; `true` if it was a whole message, or the end of one, and
    /// whoever waits for it can go on.
    #[inline]
    fn take_event(&mut self) -> bool {
        match self.device.event() {
            Event::Message { peer, envelope, payload } => {
                let arrival = Arrival { source: peer, tag: envelope.tag, kind: envelope.kind };
                let status = Status { source: peer.0, envelope, len: payload.len() };
                match self.matcher.arrive_at(arrival, |receive| receive & MANY != 0) {
                    Some(slot) if slot & MANY == 0 => {
                        let room = self.ops.at(slot).buf.write(0, payload);
                        self.ops.end(slot, whole(status, room));
                    }
                    Some(slot) => {
                        let slot = slot & !MANY;
                        many::fill(&mut self.ops, &mut self.matcher, slot, status, payload);
                    }
                    None if says_broken(&envelope) => self.take_broken(peer, &envelope),
                    None if is_matched(envelope.kind) => {
                        let mut stored = self.spare.pop().unwrap_or_default();
                        stored.clear();
                        stored.extend_from_slice(payload);
                        self.keep(arrival, Unexpected::Stored { envelope, payload: stored });
                    }
                    None if envelope.kind == Kind::PLAIN => self.misdirected += 1,
                    None if envelope.kind == Kind::GROUP => {
                        self.groups.note(peer, payload);
                        self.groups.take(&mut *self.device, peer);
                    }
                    None if envelope.kind == Kind::ANSWER => {
                        answered(&mut self.ops, peer, &envelope, payload);
                    }
                    None => {
                        let answer = self.remote.take(&mut self.ops, peer, &envelope, payload);
                        self.answer(peer, answer);
                    }
                }
                return true;
            }
            Event::Announced { peer, envelope, len, ticket } => {
                self.take_announced(peer, envelope, len, ticket);
            }
            Event::Done { op } => {
                if let Some(slot) = self.ops.slot(op) {
                    self.done(slot);
                }
                // Whoever waits for it may go on, unless a word to another is due first.
                return !self.device.has_to_send();
            }
            Event::Failed { op, error } => {
                if let Some(slot) = self.ops.slot(op) {
                    match self.ops.at(slot).state {
                        State::Part { .. } => many::part_ended(&mut self.ops, slot, Some(error)),
                        _ => self.ops.end(slot, Err(error)),
                    }
                }
            }
            Event::Datagram { peer, bytes } => {
                self.groups.note(peer, bytes);
                self.groups.take(&mut *self.device, peer);
                return true;
            }
            Event::Dead { peer, error } => self.bury(peer, error),
        }
        false
    }

    fn take_announced(&mut self, peer: PeerId, envelope: Envelope, len: u64, ticket: Ticket) {
        let arrival = Arrival { source: peer, tag: envelope.tag, kind: envelope.kind };
        let status = Status { source: peer.0, envelope, len: len as usize };
        match self.matcher.arrive_at(arrival, |receive| receive & MANY != 0) {
            Some(slot) if slot & MANY == 0 => self.pull(slot, status, ticket),
            Some(slot) => self.pull_part(slot & !MANY, status, ticket),
            None if is_matched(envelope.kind) => {
                self.keep(arrival, Unexpected::Announced { envelope, len, ticket });
            }
            None => self.take_unmatched(peer, &envelope, len, ticket),
        }
    }

    /// Stores an unexpected message.
    fn keep(&mut self, arrival: Arrival, message: Unexpected) {
        let stored = match &message {
            Unexpected::Stored { payload, .. } => payload.len(),
            Unexpected::Announced { .. } => 0,
        };
        self.unexpected_bytes += stored + UNEXPECTED_OVERHEAD;
        self.matcher.keep(arrival, message);
        if self.unexpected_bytes > UNEXPECTED_MAX && !self.held.contains(&arrival.source) {
            self.held.push(arrival.source);
            self.device.hold(arrival.source, true);
        }
    }

    /// The device has ended an operation.
    fn done(&mut self, slot: u32) {
        let op = self.ops.at(slot);
        let result = match op.state {
            State::Pulling(status) => whole(status, op.buf.len()),
            State::Part { .. } => return many::part_ended(&mut self.ops, slot, None),
            State::Landing(_) => return self.landed(slot),
            _ => Ok(Status { source: op.peer.0, envelope: Envelope::default(), len: op.buf.len() }),
        };
        self.ops.end(slot, result);
    }

    /// Ends everything that waits for a dead peer. The device has failed what it had itself.
    fn bury(&mut self, peer: PeerId, error: Error) {
        self.queues.retain(|q| q.peer != peer);
        for slot in self.ops.expected_of(peer) {
            self.ops.end(slot, Err(error.clone()));
        }
        let mut lost = Vec::new();
        self.groups.gone(&mut *self.device, peer, &error);
        self.dead.push((peer, error.clone()));
        // With the last of the others gone, nobody is left to meet a receive from anyone.
        let alone = self.dead.len() >= self.others;
        let hopeless = |want: &Want| want.source.map_or(alone, |source| source == peer);
        self.matcher.cancel_all(|want, _| hopeless(want), |_, slot| lost.push(slot));
        for slot in lost {
            if slot & MANY == 0 {
                self.ops.end(slot, Err(error.clone()));
            } else {
                let slot = slot & !MANY;
                many::end(&mut self.ops, &mut self.matcher, slot, error.clone());
            }
        }
    }

    /// Says who is told of the end of an operation that has just begun.
    #[inline]
    pub(super) fn entrust(&mut self, slot: u32, cookie: Option<Cookie>) {
        self.own(slot, cookie.map_or(Owner::Nobody, Owner::Boundary));
    }

    /// As [`EndpointWork::entrust`], for any owner.
    #[inline]
    pub(super) fn own(&mut self, slot: u32, owner: Owner) {
        // It may have ended already, if the peer has died.
        match self.ops.at(slot).state {
            State::Ended(_) => self.ops.entrust_ended(slot, owner),
            _ => self.ops.at(slot).owner = owner,
        }
    }

    /// Cancels an operation: `true` if it had not begun to take effect, and has now ended in
    /// [`Error::Cancelled`].
    pub(super) fn cancel(&mut self, slot: u32) -> bool {
        let id = self.ops.id(slot);
        let op = self.ops.at(slot);
        let peer = op.peer;
        let cancelled = match op.state {
            State::Posted(posted) => self.matcher.cancel(posted).is_some(),
            State::Many(_) => {
                many::end(&mut self.ops, &mut self.matcher, slot, Error::Cancelled);
                return true;
            }
            State::Announced => self.device.withdraw(peer, id),
            State::Waiting => {
                for queue in &mut self.queues {
                    queue.sends.retain(|(s, _)| *s != slot);
                }
                true
            }
            State::Free(_)
            | State::Pulling(_)
            | State::Part { .. }
            | State::Remote
            | State::Landing(_)
            | State::Collective(_)
            | State::Ended(_) => false,
        };
        if cancelled {
            self.ops.end(slot, Err(Error::Cancelled));
        }
        cancelled
    }

    /// Bytes of unexpected messages, bookkeeping included.
    pub(super) fn unexpected_bytes(&self) -> usize {
        self.unexpected_bytes
    }

    /// Whether sends to this peer still wait for room.
    pub(super) fn has_waiting_for(&self, peer: PeerId) -> bool {
        self.queues.iter().any(|q| q.peer == peer)
    }

    /// Whether sends still wait for room.
    pub(super) fn has_waiting(&self) -> bool {
        !self.queues.is_empty()
    }
}

/// Whether receives are matched with messages of this kind.
#[inline]
fn is_matched(kind: Kind) -> bool {
    [Kind::TAGGED, Kind::UNTAGGED, Kind::COLLECTIVE, Kind::BROADCAST].contains(&kind)
}

/// How a receive ends for which there was `room` bytes.
#[inline]
pub(super) fn whole(status: Status, room: usize) -> Result<Status, Error> {
    if room >= status.len { Ok(status) } else { Err(Error::Truncated { status, room }) }
}

impl Work for EndpointWork {
    fn device(&mut self) -> &mut dyn Device {
        &mut *self.device
    }

    fn deadline_ns(&mut self) -> Option<u64> {
        let group = Some(self.groups.next_ns).filter(|at| *at != u64::MAX);
        [group, self.device.deadline_ns()].into_iter().flatten().min()
    }

    fn has_news(&mut self) -> bool {
        self.groups.has_news()
    }

    fn tend(&mut self, now_ns: u64) -> bool {
        let did = self.progress(now_ns);
        if self.door.is_some() {
            self.let_in();
        }
        if !self.ops.occurrences.is_empty() {
            self.signals.iter().for_each(|signal| signal.set());
        }
        did
    }
}
