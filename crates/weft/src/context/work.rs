//! A context's state: its device, the current message, and what the tender put aside.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_device::page::{Doing, Shower};
use weft_device::station::Work;
use weft_wire::{Envelope, Kind, PeerId, Ticket};

use crate::attention::Attention;
use crate::device::{Device, Event, SendError};
use crate::error::Error;
use crate::held::Held;

/// Bytes of messages that the tender puts aside before it asks the peers to hold.
const STASH_MAX: usize = 4 << 20;

/// Bytes that a message put aside is counted with besides its payload.
const STASH_OVERHEAD: usize = 64;

/// A message that arrived while the program made no calls.
struct Stashed {
    peer: PeerId,
    envelope: Envelope,
    payload: Vec<u8>,
}

/// Something of an endpoint's that arrived before this context became one.
pub(crate) enum Early {
    /// A whole message.
    Message { peer: PeerId, envelope: Envelope, payload: Vec<u8> },
    /// One whose payload waits at the sender.
    Announced { peer: PeerId, envelope: Envelope, len: u64, ticket: Ticket },
}

/// Why a peer is expelled.
const UNRULY: &str = "it was asked to send nothing for a while, for much waits here to be taken, \
     and goes on: is Weft the same on all nodes?";

impl Early {
    fn peer(&self) -> PeerId {
        match self {
            Early::Message { peer, .. } | Early::Announced { peer, .. } => *peer,
        }
    }
}

/// So many of them are no accident of timing: the peers have endpoints here, and this is none.
const EARLY_MANY: usize = 64;

/// Where the current message lies.
enum Current {
    Nowhere,
    /// In the device's memory, as its current event.
    Device,
    /// Put aside earlier.
    Stash(Stashed),
}

/// See the module's page.
pub(super) struct ContextWork {
    pub(super) device: Box<dyn Device>,
    current: Current,
    stash: VecDeque<Stashed>,
    stash_bytes: usize,
    /// Whether nobody takes messages any more.
    left: bool,
    /// Peers that were asked to hold because too much of theirs is here.
    held: Held,
    errors: VecDeque<Error>,
    pub(super) dead: Vec<(PeerId, Error)>,
    pub(super) early: Vec<Early>,
    /// Processes besides this one.
    others: usize,
    attention: Option<Arc<Attention>>,
    pub(super) shower: Shower,
}

impl ContextWork {
    pub(super) fn new(device: Box<dyn Device>, others: usize) -> ContextWork {
        ContextWork {
            device,
            current: Current::Nowhere,
            stash: VecDeque::new(),
            stash_bytes: 0,
            left: false,
            held: Held::default(),
            errors: VecDeque::new(),
            dead: Vec::new(),
            early: Vec::new(),
            others,
            attention: None,
            shower: Shower::default(),
        }
    }

    /// Gives the current message back and moves to the next, or to an error, which
    /// [`ContextWork::found`] gives; `false` when nothing is there.
    #[inline]
    pub(super) fn advance(&mut self, now_ns: u64) -> bool {
        self.polls(now_ns);
        if !self.stash.is_empty() || !self.errors.is_empty() {
            return self.advance_stash();
        }
        while self.device.poll(now_ns) {
            if self.look() {
                self.current = Current::Device;
                return true;
            }
            if !self.errors.is_empty() {
                self.current = Current::Nowhere;
                return true;
            }
        }
        false
    }

    /// Arrivals are looked at.
    #[inline]
    fn polls(&mut self, now_ns: u64) {
        if let Some(attention) = &self.attention
            && attention.polled(now_ns)
        {
            self.show(Doing::Calls);
        }
    }

    /// [`ContextWork::advance`] where the tender has put something aside.
    #[cold]
    fn advance_stash(&mut self) -> bool {
        self.current = Current::Nowhere;
        let Some(stashed) = self.stash.pop_front() else { return !self.errors.is_empty() };
        self.stash_bytes -= stashed.payload.len() + STASH_OVERHEAD;
        self.current = Current::Stash(stashed);
        if self.stash.is_empty() {
            // What is for an endpoint stays.
            let early = self.early.len() >= EARLY_MANY;
            for peer in self.held.take() {
                if !early || !self.early.iter().any(|early| early.peer() == peer) {
                    self.device.hold(peer, false);
                }
            }
        }
        true
    }

    /// What [`ContextWork::advance`] has moved to: a message, or an error.
    #[inline]
    pub(super) fn found(&mut self) -> Result<(), Error> {
        match self.current {
            Current::Device | Current::Stash(_) => Ok(()),
            Current::Nowhere => self.errors.pop_front().map_or(Ok(()), Err),
        }
    }

    /// Looks at the device's current event: `true` for a message. The others are dealt with.
    #[inline]
    fn look(&mut self) -> bool {
        match self.device.event() {
            Event::Message { envelope, .. } if envelope.kind == Kind::PLAIN => true,
            Event::Message { peer, envelope, payload } => {
                let payload = payload.to_vec();
                self.keep_early(Early::Message { peer, envelope, payload }, peer);
                false
            }
            Event::Announced { peer, envelope, len, ticket } => {
                self.keep_early(Early::Announced { peer, envelope, len, ticket }, peer);
                false
            }
            Event::Dead { peer, error } => {
                self.dead.push((peer, error.clone()));
                // That a peer has ended in good order is no news, unless nobody is left who could
                // send what the program waits for.
                let closed = matches!(error, Error::PeerClosed { .. });
                if !closed || self.dead.len() >= self.others {
                    self.errors.push_back(error);
                }
                false
            }
            // A datagram is for an endpoint, which asks for it again once there is one.
            Event::Done { .. } | Event::Failed { .. } | Event::Datagram { .. } => false,
        }
    }

    /// Keeps what is for an endpoint: contexts never announce, and send plain messages only. A peer
    /// may have made its endpoint a moment before this process makes its own.
    #[cold]
    fn keep_early(&mut self, early: Early, peer: PeerId) {
        let bytes = match &early {
            Early::Message { payload, .. } => payload.len() + STASH_OVERHEAD,
            Early::Announced { .. } => 0,
        };
        self.early.push(early);
        if self.early.len() == EARLY_MANY {
            self.errors.push_back(Error::NotAContext { peer });
        }
        if self.early.len() >= EARLY_MANY {
            self.held.ask(&mut *self.device, peer, bytes, UNRULY);
        }
    }

    /// Who sent the current message, and what it says of itself.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(super) fn message(&self) -> (PeerId, Envelope) {
        match &self.current {
            Current::Device => match self.device.event() {
                Event::Message { peer, envelope, .. } => (peer, envelope),
                _ => unreachable!("the current event is a message"),
            },
            Current::Stash(s) => (s.peer, s.envelope),
            Current::Nowhere => unreachable!("there is a current message"),
        }
    }

    /// Its payload.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(super) fn payload(&self) -> &[u8] {
        match &self.current {
            Current::Device => self.device.payload(),
            Current::Stash(s) => &s.payload,
            Current::Nowhere => unreachable!("there is a current message"),
        }
    }

    /// Gives the current message back. The device's memory is its own again with the next poll.
    #[inline]
    pub(super) fn release(&mut self) {
        self.current = Current::Nowhere;
    }

    /// Why `peer` is gone, if it is.
    pub(super) fn death(&self, peer: PeerId) -> Option<&Error> {
        self.dead.iter().find(|(p, _)| *p == peer).map(|(_, e)| e)
    }

    /// One try to reserve room.
    #[inline]
    pub(super) fn reserve(&mut self, peer: PeerId, len: usize) -> Option<Result<(), Error>> {
        let reserved = self.device.reserve(peer, len);
        self.tried(peer, reserved)
    }

    /// One try to send.
    #[inline]
    pub(super) fn send(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &[u8],
    ) -> Option<Result<(), Error>> {
        let sent = self.device.send(peer, envelope, payload);
        self.tried(peer, sent)
    }

    #[inline]
    fn tried(&self, peer: PeerId, result: Result<(), SendError>) -> Option<Result<(), Error>> {
        match result {
            Ok(()) => Some(Ok(())),
            Err(SendError::Full | SendError::Held) => {
                self.death(peer).map(|error| Err(error.clone()))
            }
            Err(SendError::Failed(error)) => Some(Err(error)),
        }
    }

    /// Puts the device's current event aside, a message.
    fn stash_current(&mut self) {
        let Event::Message { peer, envelope, payload } = self.device.event() else { return };
        if self.left {
            return;
        }
        let payload = payload.to_vec();
        let bytes = payload.len() + STASH_OVERHEAD;
        self.stash_bytes += bytes;
        self.stash.push_back(Stashed { peer, envelope, payload });
        if self.stash_bytes > STASH_MAX {
            self.held.ask(&mut *self.device, peer, bytes, UNRULY);
        }
    }
}

impl Work for ContextWork {
    fn device(&mut self) -> &mut dyn Device {
        &mut *self.device
    }

    fn leave_to(&mut self, attention: &Arc<Attention>) {
        self.device.leave_to(attention);
        self.attention = Some(attention.clone());
    }

    #[cold]
    fn show(&mut self, doing: Doing) {
        let device = &self.device;
        self.shower.show(doing, || None, || device.counters());
    }

    /// Were the stash to fill up now, acknowledgements would not be looked at any more either.
    fn leave(&mut self) {
        self.left = true;
        self.stash.clear();
        self.stash_bytes = 0;
    }

    /// Messages that arrive are put aside. Above the stash's limit their senders are asked to hold;
    /// what they had sent before they learn of it still comes in, and is bounded by their credit.
    /// However much that is with many of them, the device is polled: else nobody would answer for
    /// this process, and all would take it for dead.
    fn tend(&mut self, now_ns: u64) -> bool {
        let mut did = false;
        self.polls(now_ns);
        // A limit on messages, so that the program gets the lock if it comes back.
        for _ in 0..256 {
            if !self.device.poll(now_ns) {
                break;
            }
            did = true;
            if self.look() {
                self.stash_current();
            }
        }
        did
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;
    use crate::held::HELD_MAX;
    use crate::loopback::{Loopback, QUEUE_MAX};
    use crate::script::{EAGER_MAX, Heard, Script};

    #[test]
    fn the_device_is_polled_however_much_is_put_aside() {
        let me = Address::new(1, 2, 3, 4, "here");
        let mut device = Loopback::new(me);
        device.associate(PeerId(0), &me).unwrap();
        let envelope = Envelope { kind: Kind::PLAIN, ..Envelope::default() };
        // As many senders at once do: none of them has been asked to hold yet.
        let payload = vec![0; 4 * STASH_MAX / QUEUE_MAX];
        (0..QUEUE_MAX).for_each(|_| device.send(PeerId(0), &envelope, &payload).unwrap());
        let mut work = ContextWork::new(Box::new(device), 0);
        while work.tend(0) {}
        assert_eq!(work.stash.len(), QUEUE_MAX);
        assert!(work.held.has(PeerId(0)));
        (0..QUEUE_MAX).for_each(|_| assert!(work.advance(0) && work.found().is_ok()));
        assert!(!work.advance(0) && work.held.is_empty() && work.stash_bytes == 0);
    }

    #[test]
    fn a_peer_that_does_not_hold_when_it_is_asked_to_is_cut_off() {
        for kind in [Kind::PLAIN, Kind::TAGGED] {
            let (device, seen) = Script::new();
            let mut work = ContextWork::new(Box::new(device), 1);
            let envelope = Envelope { kind, ..Envelope::default() };
            let (mut sent, mut held) = (0, 0);
            while !seen.lock().unwrap().expelled {
                assert!(sent < 64 << 20, "{sent} bytes are kept");
                let mut seen = seen.lock().unwrap();
                held += if seen.hold { EAGER_MAX } else { 0 };
                seen.heard.push_back(Heard::Message(envelope, vec![0; EAGER_MAX]));
                sent += EAGER_MAX;
                drop(seen);
                while work.tend(0) {}
            }
            assert!(held > HELD_MAX / 2, "{held} bytes: no time to learn of it");
        }
    }
}
