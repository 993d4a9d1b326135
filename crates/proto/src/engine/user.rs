//! The user's side: sending, announcing, pulling, closing.

use weft_wire::{Burst, Envelope, Kind, LinkAddr, LinkId, OpId, PeerId, Pushed, Ticket};

use super::Engine;
use crate::event::{Cause, Incoming, SendError};
use crate::msg::outbox::Body;
use crate::msg::transfer::Stage;
use crate::peer::{Payload, Peer, State};
use crate::reliable::Haste;
use crate::time::Instant;

impl Engine {
    #[inline]
    fn sendable(&mut self, peer: PeerId) -> Result<&mut Peer, SendError> {
        let Some(Some(p)) = self.peers.get_mut(peer.index()) else {
            return Err(SendError::NoPeer);
        };
        match p.state {
            State::Ended(why) => Err(SendError::Dead(why)),
            _ if self.close_at.is_some() => Err(SendError::Dead(Cause::ClosedHere)),
            _ => Ok(p),
        }
    }

    /// Room for an eager message of `len` bytes, to be filled in place and then
    /// [`Engine::commit`]ted. A second reserve forgets the first.
    ///
    /// # Errors
    /// [`SendError::Full`] when there is no room now, [`SendError::Held`] when the peer wants it
    /// announced, the others when it will never be taken.
    #[inline]
    pub fn reserve(&mut self, peer: PeerId, len: usize) -> Result<&mut [u8], SendError> {
        self.reserve_for(peer, len, false)
    }

    #[inline]
    fn reserve_for(
        &mut self,
        peer: PeerId,
        len: usize,
        control: bool,
    ) -> Result<&mut [u8], SendError> {
        let max = self.hub.config.eager_max;
        if len > max {
            return Err(SendError::TooLong { max });
        }
        self.sendable(peer)?;
        let hub = &mut self.hub;
        let Some(Some(p)) = self.peers.get_mut(peer.index()) else {
            return Err(SendError::NoPeer);
        };
        if p.flow.held && !control {
            return Err(SendError::Held);
        }
        if p.out.len() >= hub.config.outbox_messages {
            return Err(SendError::Full);
        }
        let at = p.out.reserve(len, hub.config.outbox_bytes, &mut hub.rings);
        let at = at.ok_or(SendError::Full)?;
        hub.reserved = Some((peer, at, len));
        Ok(p.out.reserved(at, len))
    }

    /// The room that was reserved last.
    ///
    /// # Panics
    /// If nothing was reserved.
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        let (peer, at, len) = self.hub.reserved.expect("space without reserve");
        let p = self.peers[peer.index()].as_mut().expect("the reserve found the peer");
        p.out.reserved(at, len)
    }

    /// Whether nothing was ever sent to a peer or heard from it.
    pub fn is_unmet(&self, peer: PeerId) -> bool {
        matches!(self.peers.get(peer.index()), Some(Some(p)) if p.state == State::Idle)
    }

    /// Whether a peer that was looked for has answered, be it before its end; `None`: it was not
    /// looked for.
    pub fn has_answered(&self, peer: PeerId) -> Option<bool> {
        match self.peers.get(peer.index())?.as_ref()?.state {
            State::Idle => None,
            State::Greeting | State::Ended(Cause::NoAnswer { .. } | Cause::NoLink) => Some(false),
            State::Open | State::Ended(_) => Some(true),
        }
    }

    /// Where a peer is reached over a link.
    pub fn reached_at(&self, peer: PeerId, link: LinkId) -> Option<LinkAddr> {
        let peer = self.peers.get(peer.index())?.as_ref()?;
        peer.paths.iter().find(|path| path.link == link).map(|path| path.to)
    }

    /// Ends everything with a peer that breaks the rules of the one above, as if it had died: its
    /// memory is bounded here only as long as it keeps to them.
    pub fn expel(&mut self, peer: PeerId, why: &'static str) {
        if let Some(Some(p)) = self.peers.get_mut(peer.index()) {
            p.end(&mut self.hub, Cause::Expelled { why });
        }
    }

    /// Looks for a peer though there is nothing to send: whoever only waits for it must learn of
    /// its death, too.
    pub fn connect(&mut self, now: Instant, peer: PeerId) {
        if let Some(Some(p)) = self.peers.get_mut(peer.index())
            && p.state == State::Idle
            && self.close_at.is_none()
        {
            p.greet(&mut self.hub, now);
        }
    }

    /// `op` ends in [`Incoming::Done`] when the peer has what was reserved last, and is now to be
    /// committed. Its acknowledgement hurries: the peer's next frame within microseconds carries
    /// it, or else one of its own.
    ///
    /// # Panics
    /// If nothing was reserved.
    #[inline]
    pub fn await_arrival(&mut self, op: OpId) {
        let (peer, ..) = self.hub.reserved.expect("a wish without reserve");
        if let Some(Some(p)) = self.peers.get_mut(peer.index()) {
            p.out.await_next(op);
        }
    }

    /// Sends what was reserved last. If the peer has died since, the message is forgotten, as are
    /// all others to it.
    ///
    /// # Panics
    /// If nothing was reserved.
    #[inline]
    pub fn commit(&mut self, now: Instant, envelope: &Envelope) {
        let (peer, at, len) = self.hub.reserved.take().expect("commit without reserve");
        self.end_awaited_read(now);
        let Some(Some(p)) = self.peers.get_mut(peer.index()) else { return };
        let hub = &mut self.hub;
        if let State::Ended(why) = p.state {
            let failed = p.out.give_up_awaited().map(|op| Incoming::Failed { op, peer, why });
            return hub.events.extend(failed);
        }
        hub.unfinished += usize::from(p.out.is_empty());
        p.out.commit(envelope, at, len);
        hub.counters.messages_sent += 1;
        p.wake(hub);
        if p.state == State::Idle {
            p.greet(hub, now);
        }
    }

    /// Sends a message of at most [`eager_max`](crate::Config::eager_max) bytes; the payload may be
    /// used again at once.
    ///
    /// # Errors
    /// As for [`Engine::reserve`]. Messages of [`Kind::CONTROL`] are never [`SendError::Held`].
    #[inline]
    pub fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        envelope: &Envelope,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let control = envelope.kind == Kind::CONTROL;
        self.reserve_for(peer, payload.len(), control)?.copy_from_slice(payload);
        self.commit(now, envelope);
        Ok(())
    }

    /// As [`Engine::send`] and [`Engine::transmit`] together, where that is simple: a small message
    /// to a peer for whom nothing else waits. Then `burst` is one frame, to be sent by the link
    /// that it gives, and [`Engine::went`] follows before anything else. `None`: nothing was sent.
    ///
    /// `now` need not be `exact`, so that a frame does not wait for the clock; but it must be so
    /// now and then: round trips are else not measured.
    #[inline]
    pub fn send_lone(
        &mut self,
        (now, exact): (Instant, bool),
        peer: PeerId,
        envelope: &Envelope,
        payload: &[u8],
        burst: &mut Burst,
    ) -> Option<LinkId> {
        let link = self.lone((now, exact), peer, envelope, Payload::Given(payload), burst);
        if link.is_some() {
            // What was reserved and not committed is forgotten, as by any other message.
            self.hub.reserved = None;
        }
        link
    }

    /// As [`Engine::commit`] and [`Engine::transmit`] together, where that is simple, as
    /// [`Engine::send_lone`]. `None`: nothing was sent, and what was reserved is still to be
    /// committed.
    #[inline]
    pub fn commit_lone(
        &mut self,
        (now, exact): (Instant, bool),
        envelope: &Envelope,
        burst: &mut Burst,
    ) -> Option<LinkId> {
        let (peer, at, len) = self.hub.reserved?;
        let payload = Payload::Reserved { at, len };
        let link = self.lone((now, exact), peer, envelope, payload, burst)?;
        self.hub.reserved = None;
        Some(link)
    }

    /// What is sent carries the acknowledgement of the frame that was received last, if somebody
    /// waits for that.
    #[inline]
    fn end_awaited_read(&mut self, now: Instant) {
        if self.current.as_ref().is_some_and(|cursor| cursor.haste != Haste::Usual) {
            self.end_read(now);
        }
    }

    #[inline]
    fn lone(
        &mut self,
        time: (Instant, bool),
        peer: PeerId,
        envelope: &Envelope,
        payload: Payload<'_>,
        burst: &mut Burst,
    ) -> Option<LinkId> {
        debug_assert!(self.hub.lone.is_none(), "a lone message before this one went");
        self.end_awaited_read(time.0);
        let p = self.peers.get_mut(peer.index())?.as_mut()?;
        if self.close_at.is_some() {
            return None;
        }
        p.make_lone(&mut self.hub, time, envelope, payload, burst)
    }

    /// The lone message in `burst` is on its way since `now`.
    #[inline]
    pub fn went(&mut self, now: Instant, burst: &Burst) {
        if let Some(lone) = self.hub.lone.take()
            && let Some(Some(p)) = self.peers.get_mut(lone.peer.index())
        {
            p.went(&mut self.hub, now, &lone, burst);
        }
    }

    /// Announces a message of `len` bytes, in order with those that are sent. When the peer has
    /// pulled them, `op` ends in [`Incoming::Done`]; until then [`Payloads`](crate::Payloads) gives
    /// its bytes.
    ///
    /// # Errors
    /// As for [`Engine::reserve`], but never held; [`SendError::Full`] also when the peer has not
    /// asked for [`announced_most`](crate::Config::announced_most) of them.
    pub fn announce(
        &mut self,
        now: Instant,
        peer: PeerId,
        envelope: &Envelope,
        len: u64,
        op: OpId,
    ) -> Result<(), SendError> {
        self.sendable(peer)?;
        let hub = &mut self.hub;
        let Some(Some(p)) = self.peers.get_mut(peer.index()) else {
            return Err(SendError::NoPeer);
        };
        if p.out.len() >= hub.config.outbox_messages || !p.may_announce(&hub.config, envelope.kind)
        {
            return Err(SendError::Full);
        }
        let push = p.push_len(hub, len);
        let (ticket, t) = hub.transfers.take().ok_or(SendError::Full)?;
        t.peer = peer;
        t.op = op;
        t.len = len;
        t.stage = Stage::Announced;
        t.queued = push > 0;
        t.pushed = push > 0;
        t.buffered = false;
        p.transfers += 1;
        p.out.announced += 1;
        hub.counters.announced += 1;
        if push > 0 {
            t.stage = Stage::Pushing { seq: p.out.end() };
            t.pieces.start(push);
            p.pushed += 1;
            p.bulk.push_back(ticket);
            hub.counters.pushed += 1;
        }
        let pushed = match push {
            0 => Pushed::Nothing,
            n if n == len => Pushed::Whole,
            _ => Pushed::Begun,
        };
        p.push(hub, envelope, Body::Announce { len, ticket, pushed });
        if p.state == State::Idle {
            p.greet(hub, now);
        }
        Ok(())
    }

    /// Says, right after [`Engine::announce`], that the owner could keep a copy of the message, so
    /// that nobody need wait for its end. `true`: it shall; there is no hurry with the end then.
    /// `false` where more is under way to the peer than this one message, or not all of it goes at
    /// once: then the copy would cost more than it gains.
    pub fn buffer(&mut self, peer: PeerId, op: OpId) -> bool {
        let Some(Some(p)) = self.peers.get_mut(peer.index()) else { return false };
        let Some(&ticket) = p.bulk.back().filter(|_| p.transfers == 1) else { return false };
        let last = self.hub.transfers.get_mut(ticket).filter(|t| t.op == op && t.pushed);
        let Some(t) = last.filter(|t| t.pieces.is_fresh() && t.pieces.waiting() == t.len) else {
            return false;
        };
        t.buffered = true;
        true
    }

    /// Asks for the first `len` bytes of an announced message; the rest is dropped. They come as
    /// [`Incoming::Data`], what was kept of them as [`Incoming::Kept`]; `op` ends in
    /// [`Incoming::Done`] or [`Incoming::Failed`].
    pub fn pull(&mut self, now: Instant, peer: PeerId, ticket: Ticket, len: u64, op: OpId) {
        let _ = now;
        let hub = &mut self.hub;
        let failed = |why| Incoming::Failed { op, peer, why };
        let Some(Some(p)) = self.peers.get_mut(peer.index()) else {
            return hub.events.push_back(failed(Cause::NoLink));
        };
        if let State::Ended(why) = p.state {
            return hub.events.push_back(failed(why));
        }
        if p.said_close {
            return hub.events.push_back(failed(Cause::ClosedHere));
        }
        hub.counters.pulls += 1;
        let pull = if len == 0 {
            // The sender is told that nothing is wanted; there is nothing to wait for.
            hub.events.push_back(Incoming::Done { op });
            0
        } else {
            // There are as many numbers as frames could name; one more has no way to fail but this.
            let Some((id, pull)) = hub.pulls.take() else {
                return hub.events.push_back(failed(Cause::Withdrawn));
            };
            pull.peer = peer;
            pull.op = op;
            pull.len = len;
            pull.received.clear();
            id
        };
        p.pull(hub, ticket.0, len, (pull, op));
    }

    /// Takes an announcement back that the peer has not pulled yet. `true`: nothing more will be
    /// read of it, and no event comes for `op`; a pull that is on its way fails at the peer.
    /// `false`: too late, it ends as usual. It is too late, too, when all of it has been pushed:
    /// the peer needs nothing more from here.
    pub fn withdraw(&mut self, now: Instant, peer: PeerId, op: OpId) -> bool {
        let _ = now;
        let hub = &mut self.hub;
        let found = hub.transfers.iter().find(|(_, t)| t.peer == peer && t.op == op && !t.is_out());
        let Some((id, _)) = found else { return false };
        hub.counters.withdrawn += 1;
        if let Some(Some(p)) = self.peers.get_mut(peer.index()) {
            p.transfer_done(hub, id);
            if p.leaving {
                p.leave_further(hub);
            }
        }
        true
    }

    /// Asks `peer` (`hold`), or no longer asks it, to announce its messages instead of sending them
    /// eagerly: STOP and GO.
    pub fn hold(&mut self, now: Instant, peer: PeerId, hold: bool) {
        let _ = now;
        let hub = &mut self.hub;
        let Some(Some(p)) = self.peers.get_mut(peer.index()) else { return };
        if matches!(p.state, State::Ended(_)) || !p.flow.set(hold) {
            return;
        }
        if hold {
            hub.counters.stops_sent += 1;
        } else {
            hub.counters.gos_sent += 1;
        }
        p.wake(hub);
    }

    /// Whether `peer` asks for announcements instead of eager messages.
    pub fn is_held(&self, peer: PeerId) -> bool {
        matches!(self.peers.get(peer.index()), Some(Some(p)) if p.flow.held)
    }

    /// Says goodbye to all peers, after everything that is still on its way to them.
    /// [`Engine::busy`] tells when it is done. A peer that messages are still on their way to is
    /// waited for as long as it is not dead, any other for
    /// [`close_limit_ns`](crate::Config::close_limit_ns); what then has not arrived is told by
    /// [`Warning::Undelivered`](crate::Warning::Undelivered).
    pub fn close(&mut self, now: Instant) {
        if self.close_at.is_none() {
            self.close_at = Some(now.plus(self.hub.config.close_limit_ns));
            for peer in self.peers.iter_mut().flatten() {
                peer.leave(&mut self.hub);
            }
        }
    }

    /// Whether messages, goodbyes or acknowledgements are still on their way out.
    pub fn busy(&self) -> bool {
        let hub = &self.hub;
        hub.unfinished > 0 || hub.leaving > 0 || !hub.ready.is_empty()
    }

    /// Whether messages that were taken from the owner are on their way to a peer that is not
    /// known to be dead: a reason to go on polling.
    pub fn owes(&self, now: Instant) -> bool {
        self.peers.iter().flatten().any(|peer| peer.is_owed(&self.hub, now))
    }

    /// Ends closing when its time is over, but with those that something is owed to.
    pub(super) fn close_timer(&mut self, now: Instant) {
        if self.close_at.is_some_and(|at| at <= now && self.hub.leaving > 0) {
            self.close_at = Some(now.plus(self.hub.config.close_limit_ns));
            for peer in self.peers.iter_mut().flatten() {
                peer.leave_late(&mut self.hub, now);
            }
        }
    }
}
