//! What an endpoint does with what its device tells it.

use weft_proto::msg::matching::{Arrival, Matcher, Want};
use weft_sys::clock::now_ns;
use weft_wire::{Envelope, Kind, PeerId, Ticket};

use super::collective::says_broken;
use super::exchange::{EXCHANGED_MAX, Exchange};
use super::many::{self, MANY};
use super::ops::{Ops, State, Status};
use super::remote::{answered, end_unanswered};
use super::serve::{Answer, Remote};
use super::work::{AWAITED_MAX, EndpointWork, Unexpected, is_matched, whole};
use crate::device::{Device, Event, Take, Taker};
use crate::error::Error;
use crate::remote::{FIRST_REGION_KEY, Refusal};

/// Gives messages to the receives that wait for them.
pub(super) struct Receiving<'a> {
    pub(super) matcher: &'a mut Matcher<u32, Unexpected>,
    pub(super) ops: &'a mut Ops,
    pub(super) exchange: &'a mut Exchange,
    /// How many it has taken so far.
    pub(super) taken: u32,
}

impl Receiving<'_> {
    /// Gives a message to its receive. Not to one of several messages: which that is, if any, is
    /// the error.
    #[inline]
    fn receive(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &[u8],
    ) -> Result<(), Option<u32>> {
        // Word by word, as it was written a moment ago.
        let (tag, rest, data) = envelope.words();
        let envelope = Envelope::from_words(tag, rest, data);
        let arrival = Arrival { source: peer, tag, kind: envelope.kind };
        let matched = self.matcher.arrive_at(arrival, |receive| receive & MANY != 0);
        let slot = matched.filter(|slot| slot & MANY == 0).ok_or(matched)?;
        let (source, len) = (peer.0, payload.len());
        let begun = (len > EXCHANGED_MAX).then(now_ns);
        let room = self.ops.at(slot).buf.write(0, payload);
        if let Some(begun) = begun {
            self.exchange.out_of_ring.note(len, now_ns() - begun);
        }
        let status = Status { source, envelope, len };
        if room >= len {
            self.ops.end_received(slot, status);
        } else {
            self.end_truncated(slot, status, room);
        }
        Ok(())
    }

    #[cold]
    fn end_truncated(&mut self, slot: u32, status: Status, room: usize) {
        self.ops.end(slot, whole(status, room));
    }
}

impl Taker for Receiving<'_> {
    #[inline]
    fn take(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> Take {
        match self.receive(peer, envelope, payload) {
            // To be stored, it costs more than it does where it lies until it is wanted.
            Err(None) if self.taken > 0 && is_matched(envelope.kind) => return Take::Later,
            Err(_) => return Take::Left,
            Ok(()) => {}
        }
        self.taken += 1;
        if self.taken < AWAITED_MAX { Take::Taken } else { Take::Enough }
    }
}

impl EndpointWork {
    /// What gives messages to receives, of which it has taken so many.
    #[inline]
    pub(super) fn receiving(&mut self, taken: u32) -> (&mut dyn Device, Receiving<'_>) {
        let EndpointWork { device, matcher, ops, exchange, .. } = self;
        (&mut **device, Receiving { matcher, ops, exchange, taken })
    }

    /// Takes the device's current event; `true` if it was a whole message, or the end of one, and
    /// whoever waits for it can go on.
    #[inline]
    pub(super) fn take_event(&mut self) -> bool {
        let EndpointWork { device, matcher, ops, exchange, .. } = self;
        match device.event() {
            Event::Message { peer, envelope, payload } => {
                let mut receiving = Receiving { matcher, ops, exchange, taken: 0 };
                if let Err(matched) = receiving.receive(peer, &envelope, payload) {
                    self.take_other(matched);
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
                    self.failed(slot, error);
                }
            }
            Event::Datagram { peer, bytes } => {
                let noted = self.groups.note(peer, bytes);
                self.groups.take(&mut *self.device, peer, noted);
                return true;
            }
            Event::Dead { peer, error } => self.bury(peer, error),
        }
        false
    }

    /// Takes the device's current event, a message for a receive of several (`matched`), or for
    /// none. Apart, so that what becomes of others does not burden the way of most.
    #[inline(never)]
    fn take_other(&mut self, matched: Option<u32>) {
        let Event::Message { peer, envelope, payload } = self.device.event() else { return };
        let status = Status { source: peer.0, envelope, len: payload.len() };
        match matched {
            Some(slot) => {
                let slot = slot & !MANY;
                many::fill(&mut self.ops, &mut self.matcher, slot, status, payload);
            }
            None if says_broken(&envelope) => self.take_broken(peer, &envelope),
            None if is_matched(envelope.kind) => {
                let arrival = Arrival { source: peer, tag: envelope.tag, kind: envelope.kind };
                let mut stored = self.spare.pop().unwrap_or_default();
                stored.clear();
                stored.extend_from_slice(payload);
                let came_ns = self.device.unexpected();
                self.keep(arrival, Unexpected::Stored { envelope, payload: stored, came_ns });
            }
            None if envelope.kind == Kind::PLAIN => self.misdirected += 1,
            None if envelope.kind == Kind::GROUP => {
                let noted = self.groups.note(peer, payload);
                self.groups.take(&mut *self.device, peer, noted);
                self.pass_on();
            }
            None if envelope.kind == Kind::ANSWER => {
                self.remote.learn(peer, &envelope);
                answered(&mut self.ops, peer, &envelope, payload);
            }
            None => self.take_request(),
        }
    }

    fn take_announced(&mut self, peer: PeerId, envelope: Envelope, len: u64, ticket: Ticket) {
        let arrival = Arrival { source: peer, tag: envelope.tag, kind: envelope.kind };
        let status = Status { source: peer.0, envelope, len: len as usize };
        match self.matcher.arrive_at(arrival, |receive| receive & MANY != 0) {
            Some(slot) if slot & MANY == 0 => self.pull(slot, status, ticket),
            Some(slot) => self.pull_part(slot & !MANY, status, ticket),
            // All is in the envelope. It comes this way where memory for messages is short.
            None if says_broken(&envelope) => {
                self.take_broken(peer, &envelope);
                self.take_unmatched(peer, envelope, len, ticket);
            }
            None if is_matched(envelope.kind) => {
                let came_ns = self.device.unexpected();
                self.keep(arrival, Unexpected::Announced { envelope, len, ticket, came_ns });
            }
            None => self.take_unmatched(peer, envelope, len, ticket),
        }
    }

    /// The device has ended an operation.
    fn done(&mut self, slot: u32) {
        let op = self.ops.at(slot);
        let result = match op.state {
            State::Pulling(status) => whole(status, op.buf.len()),
            State::Part { .. } => return many::part_ended(&mut self.ops, slot, None),
            State::Landing(_) => return self.landed(slot, true),
            State::Request => return self.request_pulled(slot, true),
            State::Word => return self.word_ended(slot, true),
            _ => Ok(Status { source: op.peer.0, envelope: Envelope::default(), len: op.buf.len() }),
        };
        self.ops.end(slot, result);
    }

    /// Takes the device's current event, a request of a peer. Apart, so that what it takes to serve
    /// one does not burden the way of a message.
    #[inline(never)]
    fn take_request(&mut self) {
        let Event::Message { peer, envelope, payload } = self.device.event() else { return };
        if self.remote.late.waits(peer) {
            return self.keep_late(peer, envelope, payload.to_vec());
        }
        let answer = self.remote.take(&mut self.ops, peer, &envelope, payload);
        if let Some(key) = self.remote.asked_for.take() {
            let Remote { reach, windows, .. } = &mut self.remote;
            if key >= FIRST_REGION_KEY {
                reach.answers(&mut *self.device, windows, (peer, key));
            } else if matches!(answer, Answer::Code(_, Ok(())) | Answer::Memory(..)) {
                let told = reach.introduces(&mut *self.device, windows, peer);
                self.remote.introduces = told.unwrap_or(0);
            }
        }
        self.answer(peer, answer);
    }

    /// The device could not do an operation.
    #[cold]
    fn failed(&mut self, slot: u32, error: Error) {
        let op = self.ops.at(slot);
        let by_peer = matches!(error, Error::Withdrawn { peer } if peer == op.peer);
        match op.state {
            State::Part { .. } => many::part_ended(&mut self.ops, slot, Some(error)),
            State::Request => self.request_pulled(slot, false),
            State::Landing(_) => self.landed(slot, false),
            State::Word => self.word_ended(slot, false),
            // What was read of a region was taken back: receives have no peer of their own.
            State::Pulling(_) if by_peer => {
                end_unanswered(&mut self.ops, slot, Refusal::Key as u8);
            }
            _ => self.ops.end(slot, Err(error)),
        }
    }

    /// Ends everything that waits for a dead peer. The device has failed what it had itself.
    fn bury(&mut self, peer: PeerId, error: Error) {
        self.queues.retain(|q| q.peer != peer);
        self.remote.bury(peer);
        for slot in self.ops.expected_of(peer) {
            self.ops.end(slot, Err(error.clone()));
        }
        let mut lost = Vec::new();
        self.groups.gone(&mut *self.device, peer, &error);
        self.dead.push((peer, error.clone()));
        self.pass_on();
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
}
