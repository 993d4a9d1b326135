//! What has come for the owner of the device: out of frames, into the engine, out of that, one
//! event at a time.

use std::ops::Range;

use weft_proto::Incoming;
use weft_sys::clock::now_ns;
use weft_wire::{Envelope, OpId, PeerId, Ticket};

use super::Ether;
use crate::device::{Device, Event};
use crate::error::Error;

/// Frames of large messages that are taken in one poll before acknowledgements go out.
const FRAMES_PER_ROUND: usize = 64;

/// How long a frame waits for the receive of a message that it has a piece of, ns.
pub(super) const EARLY_NS: u64 = 20_000;

/// What the current event is.
pub(super) enum Current {
    Nothing,
    Message,
    Announced { peer: PeerId, envelope: Envelope, len: u64, ticket: Ticket },
    Datagram { peer: PeerId, range: Range<usize> },
    Done { op: OpId },
    Failed { op: OpId, error: Error },
    Dead { peer: PeerId, error: Error },
}

impl Ether {
    /// Makes what the engine has for us the current event, or deals with it: `true` if there is an
    /// event for the owner.
    #[inline]
    pub(super) fn take(&mut self, incoming: Incoming) -> bool {
        self.current = match incoming {
            Incoming::Message => Current::Message,
            Incoming::Announced { peer, envelope, len, ticket } => {
                Current::Announced { peer, envelope, len, ticket }
            }
            Incoming::Data { op, offset, range, .. } => {
                self.transfers.place(op, offset, &self.links.frame()[range]);
                return false;
            }
            Incoming::Kept { op, .. } => {
                for (offset, part) in self.engine.kept() {
                    self.transfers.place(op, offset, part);
                }
                return false;
            }
            Incoming::Datagram { peer, range } => Current::Datagram { peer, range },
            Incoming::Done { op } => match self.transfers.remove(op) {
                Some(op) => Current::Done { op },
                None => return false,
            },
            Incoming::Failed { op, peer, why } => match self.transfers.remove(op) {
                Some(op) => Current::Failed { op, error: self.death(peer, why) },
                None => return false,
            },
            Incoming::Dead { peer, why } => {
                self.office.renew(&self.engine, peer);
                Current::Dead { peer, error: self.death(peer, why) }
            }
            Incoming::Alive { peer, link } => {
                self.office.renew(&self.engine, peer);
                tracing::debug!(%peer, link = self.links.name(link), "connected");
                let known = (&self.me, &self.peers[..]);
                self.office.look_for_twin(&self.engine, &self.links, known, peer, link);
                return false;
            }
            Incoming::CutInSoftware { link } => {
                self.links.cut_in_software(link);
                let link = self.links.name(link);
                tracing::info!(
                    link,
                    "long frames that the NIC cuts do not arrive: the kernel does"
                );
                return false;
            }
            Incoming::Relay { by, out, from, to } => {
                self.office.join(&self.links, (by, out), from, to);
                return false;
            }
            Incoming::Warning { peer, what } => {
                let name = self.peer_name(peer);
                self.office.warn(&self.links, peer, &name, &what);
                return false;
            }
        };
        true
    }

    /// Whether the current frame waits for a moment: a piece in it has no place yet, because its
    /// message has no receive yet. Often that is posted within microseconds, for its poster was
    /// kept by the acknowledgement that came just before.
    #[inline]
    fn waits_for_receive(&mut self) -> bool {
        if !self.engine.has_frame() || !self.engine.is_early(self.links.frame()) {
            self.early_since_ns = None;
            return false;
        }
        let now = now_ns();
        now < *self.early_since_ns.get_or_insert(now) + EARLY_NS
    }

    /// Takes the frame that was found where nothing was expected, if there is one: what
    /// [`Ether::next_event`] does, in fewer steps. `true`: it has brought an event.
    #[inline]
    pub(super) fn take_found(&mut self) -> bool {
        if !self.links.take_found(&mut self.engine, &mut self.now) {
            return false;
        }
        self.company.answers();
        let frame = if self.engine.has_frame() { self.links.frame() } else { &[] };
        match self.engine.next(self.now, frame) {
            Some(incoming) => self.take(incoming),
            None => false,
        }
    }

    /// Looks for the next event in what has arrived; `false`: nothing more has.
    #[inline]
    pub(super) fn next_event(&mut self) -> bool {
        if self.waits_for_receive() {
            self.unread = true;
            return false;
        }
        let expects = self.engine.expects_bulk();
        let mut frames = 0;
        loop {
            while let frame = if self.engine.has_frame() { self.links.frame() } else { &[] }
                && let Some(incoming) = self.engine.next(self.now, frame)
            {
                if self.take(incoming) {
                    return true;
                }
            }
            let taken = self.links.take_run(&mut self.engine, self.now, &self.transfers);
            if taken > 0 {
                frames += taken;
                continue;
            }
            // No frame is taken that is not read to its end here: what the caller does next would
            // drop it, and it would have to come again.
            let (engine, now) = (&mut self.engine, &mut self.now);
            self.unread = frames >= FRAMES_PER_ROUND;
            if self.unread || !self.links.next_frame(engine, now, expects, frames == 0) {
                return false;
            }
            frames += 1;
            self.company.answers();
        }
    }

    /// What the last poll has found.
    pub(super) fn current_event(&self) -> Event<'_> {
        match &self.current {
            Current::Message => {
                let (peer, envelope, payload) = self.engine.message(self.links.frame());
                Event::Message { peer, envelope, payload }
            }
            Current::Announced { peer, envelope, len, ticket } => {
                Event::Announced { peer: *peer, envelope: *envelope, len: *len, ticket: *ticket }
            }
            Current::Datagram { peer, range } => {
                let bytes = &self.links.frame()[Range::clone(range)];
                Event::Datagram { peer: *peer, bytes }
            }
            Current::Done { op } => Event::Done { op: *op },
            Current::Failed { op, error } => Event::Failed { op: *op, error: error.clone() },
            Current::Dead { peer, error } => Event::Dead { peer: *peer, error: error.clone() },
            Current::Nothing => unreachable!("the last poll found an event"),
        }
    }
}
