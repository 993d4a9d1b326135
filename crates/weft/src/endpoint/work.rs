//! An endpoint's state: its device, the matching, and the operations under way.

use std::sync::Arc;

use weft_device::courtesy::Courtesy;
use weft_device::page::{Doing, Shower, Waited};
use weft_device::station::Work;
use weft_proto::msg::matching::{Arrival, Matcher, Met, Want};
use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_sys::watch::Signal;
use weft_wire::{Envelope, Kind, PeerId, Ticket};

use super::collective::Collectives;
use super::door::Door;
use super::exchange::{EXCHANGED_MAX, Exchange};
use super::joint::Joints;
use super::many;
use super::ops::{Ops, Owner, State, Status};
use super::sends::Queue;
use super::serve::Remote;
use super::turn::Cookie;
use crate::attention::Attention;
use crate::context::Early;
use crate::device::{Counters, Device, Found};
use crate::error::Error;
use crate::group::Groups;
use crate::held::Held;

/// Bytes of unexpected messages that are stored before their senders are asked to announce instead.
const UNEXPECTED_MAX: usize = 64 << 20;

/// Why a peer is expelled.
pub(super) const UNRULY: &str = "it was asked to announce its messages, for many wait here to be \
     received, and goes on sending them: is Weft the same on all nodes?";

/// Bytes that an unexpected message is counted with besides its payload.
const UNEXPECTED_OVERHEAD: usize = 96;

/// Buffers of unexpected messages that are kept for the next ones.
const SPARE_MAX: usize = 256;

/// Events taken in one go, so that a flood of them does not keep the caller from its own business.
const EVENTS_MAX: usize = 64;

/// Messages that somebody waits for taken in one go, where they are at hand. The caller may then do
/// with all what it does between two calls, and that may be much: MPICH gives its processor away.
pub(super) const AWAITED_MAX: u32 = 8;

/// Messages of so many bytes are never announced for their length: no device is asked.
const ALWAYS_EAGER: usize = 64;

/// So many sends without a poll between them make one: the first ones are answered by what comes
/// next, most often.
const SENDS_PER_POLL: u32 = 4;

/// Of messages longer than this, bytes, the second one does.
const SMALL: usize = 1024;

/// So long the program is left to try waiting sends again, ns.
const QUEUED_NS: u64 = 50_000;

/// Calls between two looks at the clock where nothing goes by it closely. The tender looks itself
/// where the program makes no call for some milliseconds.
const CALLS_PER_LOOK: u32 = 8;

/// A message that nobody waited for. When it came is 0 where that is not recorded.
pub(super) enum Unexpected {
    /// Stored whole.
    Stored { envelope: Envelope, payload: Vec<u8>, came_ns: u64 },
    /// Its payload waits at the sender.
    Announced { envelope: Envelope, len: u64, ticket: Ticket, came_ns: u64 },
}

impl Unexpected {
    /// What a probe tells of it.
    pub(super) fn status(&self, source: PeerId) -> Status {
        let (envelope, len) = match self {
            Unexpected::Stored { envelope, payload, .. } => (*envelope, payload.len()),
            Unexpected::Announced { envelope, len, .. } => (*envelope, *len as usize),
        };
        Status { source: source.0, envelope, len }
    }

    fn came_ns(&self) -> u64 {
        match self {
            Unexpected::Stored { came_ns, .. } | Unexpected::Announced { came_ns, .. } => *came_ns,
        }
    }
}

/// See the module's page.
pub(super) struct EndpointWork {
    pub(super) device: Box<dyn Device>,
    pub(super) matcher: Matcher<u32, Unexpected>,
    pub(super) ops: Ops,
    pub(super) queues: Vec<Queue>,
    unexpected_bytes: usize,
    /// Who was asked to announce.
    held: Held,
    pub(super) spare: Vec<Vec<u8>>,
    pub(super) dead: Vec<(PeerId, Error)>,
    /// Processes besides this one.
    pub(super) others: usize,
    pub(super) exchange: Exchange,
    /// Whom a receive or probe named last.
    pub(super) awaited: Option<PeerId>,
    /// Messages of the context API that came here by mistake.
    pub(super) misdirected: u64,
    pub(super) remote: Remote,
    pub(super) collectives: Collectives,
    /// What boundaries have begun in groups.
    pub(super) joints: Joints,
    /// Where an endpoint that was opened without a job lets in processes it does not know.
    pub(super) door: Option<Door>,
    /// Set when the tender has done something of which the boundary must be told.
    pub(super) signals: Vec<Arc<Signal>>,
    pub(super) groups: Groups,
    /// What peers have announced for groups, and is on its way here.
    pub(super) words_pulled: usize,
    /// Barriers that ended since the last poll.
    pub(super) unpolled: u32,
    /// The time at the last look at the clock, and calls to [`EndpointWork::time`].
    looked_ns: u64,
    calls: u32,
    /// Who looks after what is left behind.
    attention: Option<Arc<Attention>>,
    /// When sends are followed by a yield, and whether one is due when the state is given back.
    courtesy: Courtesy,
    pub(super) lets_run: bool,
    /// Sends that the program has begun since the last poll.
    sent: u32,
    /// Whether the device went closely by the clock then, or may do so by now.
    pub(super) timed: bool,
    shower: Shower,
    /// Whether the device records what is done.
    is_recorded: bool,
}

impl EndpointWork {
    /// The state on a device from which `early` has already arrived, and whose peers in `dead` are
    /// gone.
    pub(super) fn new(
        (device, shower): (Box<dyn Device>, Shower),
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
            held: Held::default(),
            spare: Vec::new(),
            dead,
            others,
            exchange: Exchange::default(),
            awaited: None,
            misdirected: 0,
            remote: Remote::default(),
            collectives: Collectives::default(),
            joints: Joints::default(),
            door: None,
            signals: Vec::new(),
            groups: Groups::default(),
            words_pulled: 0,
            unpolled: 0,
            looked_ns: now_ns(),
            calls: 0,
            attention: None,
            courtesy: Courtesy::default(),
            lets_run: false,
            sent: 0,
            timed: true,
            is_recorded: shower.records(),
            shower,
        };
        for early in early {
            if let Early::Message { peer, envelope, payload } = &early
                && envelope.kind == Kind::GROUP
            {
                work.groups.accept(&mut *work.device, *peer, payload);
                work.device.hold(*peer, false);
                continue;
            }
            let (source, message) = match early {
                Early::Message { peer, envelope, payload } => {
                    (peer, Unexpected::Stored { envelope, payload, came_ns: 0 })
                }
                Early::Announced { peer, envelope, len, ticket } => {
                    (peer, Unexpected::Announced { envelope, len, ticket, came_ns: 0 })
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
        len > ALWAYS_EAGER && len > self.device.eager_limit(peer)
    }

    /// Starts a receive.
    #[inline]
    pub(super) fn receive(&mut self, want: Want, buf: Buf, owner: Owner) -> u32 {
        self.receive_into(want, || buf, owner)
    }

    /// As [`EndpointWork::receive`], into memory that is made where it is kept.
    #[inline(always)]
    pub(super) fn receive_into(
        &mut self,
        want: Want,
        memory: impl FnOnce() -> Buf,
        owner: Owner,
    ) -> u32 {
        let slot = self.ops.insert_receive(memory, owner);
        if self.dead.is_empty() {
            self.post(want, slot)
        } else {
            self.receive_from_dead(want, slot)
        }
        slot
    }

    /// Nothing has come that fits: has the device look for the peer that is waited for.
    #[inline]
    pub(super) fn awaits(&mut self, source: Option<PeerId>) {
        if let Some(peer) = source
            && self.awaited != source
        {
            self.awaited = source;
            self.device.call(peer);
        }
    }

    #[inline]
    fn post(&mut self, want: Want, slot: u32) {
        let source = want.source;
        match self.matcher.post(want, slot) {
            Ok(posted) => {
                let op = self.ops.at(slot);
                op.go_to(State::Posted(posted));
                if op.buf.len() > EXCHANGED_MAX {
                    self.exchange.receive = slot;
                }
                self.awaits(source);
            }
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
        if message.came_ns() != 0 {
            self.device.taken_late(message.came_ns());
        }
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

    /// Stores an unexpected message.
    pub(super) fn keep(&mut self, arrival: Arrival, message: Unexpected) {
        let stored = match &message {
            Unexpected::Stored { payload, .. } => payload.len(),
            Unexpected::Announced { .. } => 0,
        };
        let announced = matches!(message, Unexpected::Announced { .. });
        self.unexpected_bytes += stored + UNEXPECTED_OVERHEAD;
        self.matcher.keep(arrival, message);
        if self.unexpected_bytes > UNEXPECTED_MAX && !announced {
            let bytes = stored + UNEXPECTED_OVERHEAD;
            self.held.ask(&mut *self.device, arrival.source, bytes, UNRULY);
        }
    }

    /// Whether a peer is asked to announce its messages.
    pub(super) fn holds(&self, peer: PeerId) -> bool {
        self.held.has(peer) || self.remote.late.holds(peer)
    }

    /// No longer counts an unexpected message, and lets the senders go on when enough have left.
    pub(super) fn forget(&mut self, message: &Unexpected) {
        let payload = match message {
            Unexpected::Stored { payload, .. } => payload.len(),
            Unexpected::Announced { .. } => 0,
        };
        self.unexpected_bytes -= payload + UNEXPECTED_OVERHEAD;
        if !self.held.is_empty() && self.unexpected_bytes < UNEXPECTED_MAX / 2 {
            for peer in self.held.take() {
                if !self.holds(peer) {
                    self.device.hold(peer, false);
                }
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
        let close = self.timed || self.groups.next_ns != u64::MAX;
        if close || self.calls.is_multiple_of(CALLS_PER_LOOK) {
            self.looked_ns = now_ns();
            // Asked no more often, for it takes several calls.
            self.timed = self.device.is_timed();
        }
        self.looked_ns
    }

    /// Takes what has arrived, and tries waiting sends again; `true` if something was done. Stops
    /// at a small message that somebody waits for, unless more are at hand: a poll that finds
    /// nothing more can cost system calls, and would come between the message and the answer to it.
    #[inline]
    pub(super) fn progress(&mut self, now_ns: u64) -> bool {
        self.sent = 0;
        if let Some(attention) = &self.attention
            && attention.polled(now_ns)
        {
            self.show(Doing::Calls);
        }
        let mut did = !self.queues.is_empty() && self.retry();
        self.groups.tell_time(now_ns);
        if self.groups.looking && self.groups.look(&mut *self.device) {
            if self.is_recorded {
                self.device.found_elsewhere();
            }
            if self.joints.is_busy() {
                self.go_on_jointly(now_ns);
            }
            return true;
        }
        self.unpolled = 0;
        let mut awaited = 0;
        for _ in 0..EVENTS_MAX {
            let ends = self.ops.ends;
            let (device, mut receiving) = self.receiving(awaited);
            let found = device.poll_for(now_ns, &mut receiving);
            if found == Found::Nothing {
                break;
            }
            did = true;
            awaited += self.ops.ends.wrapping_sub(ends);
            if found == Found::Event {
                let before = (self.ops.ends, self.groups.ends);
                let may_go_on = self.take_event();
                awaited += u32::from(may_go_on && (self.ops.ends, self.groups.ends) != before);
            }
            let more = found == Found::Event && self.device.has_more();
            if awaited >= AWAITED_MAX || awaited > 0 && !more {
                break;
            }
        }
        // After what has come: whoever had no processor for long shall not complain of what is
        // there.
        if self.groups.next_ns <= now_ns {
            self.groups.due(&mut *self.device);
        }
        if !self.groups.words.is_empty() || !self.groups.long.is_empty() {
            self.pass_on();
        }
        if !self.ops.given.is_empty() {
            self.reads_ended();
        }
        if !self.ops.parts.is_empty() {
            self.parts_ended();
        }
        if self.joints.is_busy() {
            did |= self.go_on_jointly(now_ns);
        }
        if !did && self.door.is_some() {
            self.answer_door();
        }
        did
    }

    /// The program has sent one more message. Who only sends looks after acknowledgements, credits
    /// and connections that way. Not before the message: what a poll costs now and then is none of
    /// its time.
    #[inline]
    pub(super) fn has_sent(&mut self, len: usize) {
        if let Some(attention) = &self.attention
            && self.courtesy.sent(attention)
        {
            self.lets_run = true;
        }
        self.sent += 1;
        // Within a node nothing of that waits for a poll, but what found no room.
        let due = self.sent >= SENDS_PER_POLL || self.sent > 1 && len > SMALL;
        if self.timed && due || !self.queues.is_empty() {
            // Who sends now and then polls too rarely for a time of some calls ago.
            self.progress(now_ns());
        }
    }

    /// Sends wait now, or no longer: the tender tries them if the program does not.
    #[cold]
    pub(super) fn note_queues(&self) {
        let Some(attention) = &self.attention else { return };
        if self.queues.is_empty() {
            attention.done();
        } else {
            attention.due_by(now_ns() + QUEUED_NS);
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
            | State::Remote { .. }
            | State::Answered(_)
            | State::Landing(_)
            | State::Request
            | State::Word
            | State::Joint
            | State::Collective(_)
            | State::Ended(_) => false,
        };
        if cancelled {
            self.ops.end(slot, Err(Error::Cancelled));
        }
        cancelled
    }

    /// What the devices and links have done so far, by name, and the lengths of the queues.
    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.device.counters();
        let own = [
            ("endpoint.posted", self.matcher.posted_len() as u64),
            ("endpoint.unexpected", self.matcher.unexpected_len() as u64),
            ("endpoint.unexpected_bytes", self.unexpected_bytes() as u64),
            ("endpoint.operations", self.ops.len() as u64),
            ("endpoint.misdirected", self.misdirected),
        ];
        counters.extend(own.map(|(name, count)| (name.to_string(), count)));
        self.groups.counters(|name, count| counters.push((name.to_string(), count)));
        counters
    }

    /// Whom the program waits for, if it does: one who has no room for what is to be sent to it, or
    /// of whom a message is wanted.
    fn whom_it_waits_for(&self) -> Option<Waited> {
        let receives = self.matcher.posted_len() > 0;
        let peer = match self.queues.first() {
            Some(queue) => queue.peer,
            None => self.awaited.filter(|_| receives).or_else(|| self.ops.announced_to())?,
        };
        let address = self.device.address(peer);
        let (node, nonce) = address.map_or((0, 0), |address| (address.node, address.nonce));
        Some(Waited { peer: peer.0, node, nonce })
    }

    /// Bytes of unexpected messages, bookkeeping included.
    pub(super) fn unexpected_bytes(&self) -> usize {
        self.unexpected_bytes
    }

    /// Whether sends to this peer, other than answers, still wait for room.
    pub(super) fn has_waiting_for(&self, peer: PeerId) -> bool {
        self.waits(peer, false)
    }

    /// Whether sends to this peer, answers or others, still wait for room.
    pub(super) fn waits(&self, peer: PeerId, answers: bool) -> bool {
        self.queues.iter().any(|q| q.peer == peer && q.answers == answers)
    }

    /// Whether sends still wait for room.
    pub(super) fn has_waiting(&self) -> bool {
        !self.queues.is_empty()
    }
}

/// Whether receives are matched with messages of this kind.
#[inline]
pub(super) fn is_matched(kind: Kind) -> bool {
    const OURS: [Kind; 4] = [Kind::COLLECTIVE, Kind::BROADCAST, Kind::HALO, Kind::JOIN];
    [Kind::TAGGED, Kind::UNTAGGED].contains(&kind) || OURS.contains(&kind)
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

    fn leave_to(&mut self, attention: &Arc<Attention>) {
        self.device.leave_to(attention);
        self.attention = Some(attention.clone());
    }

    fn deadline_ns(&mut self) -> Option<u64> {
        let group = Some(self.groups.next_ns).filter(|at| *at != u64::MAX);
        let all = [group, self.joints.deadline_ns(), self.device.deadline_ns()];
        all.into_iter().flatten().min()
    }

    fn has_news(&mut self) -> bool {
        self.groups.has_news()
    }

    fn has_untold(&self) -> bool {
        !self.ops.occurrences.is_empty()
    }

    fn waited(&mut self) {
        if self.is_recorded {
            self.device.found_elsewhere();
        }
    }

    #[cold]
    fn show(&mut self, doing: Doing) {
        let mut shower = std::mem::take(&mut self.shower);
        shower.show(doing, || self.whom_it_waits_for(), || self.counters());
        self.shower = shower;
    }

    fn tend(&mut self, now_ns: u64) -> bool {
        let did = self.progress(now_ns);
        if self.door.is_some() {
            self.let_in();
        }
        if self.has_untold() {
            self.signals.iter().for_each(|signal| signal.set());
        }
        did
    }
}
