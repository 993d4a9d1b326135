//! The loopback device: a process's path to itself. Nothing can be lost, so it is only a queue; it
//! is the smallest whole device, and the template for the next one.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use weft_sys::buf::Buf;
use weft_wire::{Address, Envelope, OpId, PeerId, Ticket};

use crate::device::{Caps, Counters, Device, Event, SendError, Wake};
use crate::error::Error;

/// Bytes of the longest message that is copied through the queue. Above it one copy, straight
/// between the two user buffers, is cheaper than two.
const EAGER_MAX: usize = 16 << 10;

/// Messages that may wait in the queue; more is [`SendError::Full`], as on any device.
pub const QUEUE_MAX: usize = 1024;

/// What waits to be looked at.
enum Item {
    Message { envelope: Envelope, payload: Vec<u8> },
    Announced { envelope: Envelope, len: u64, ticket: Ticket },
    Datagram { bytes: Vec<u8> },
    Done { op: OpId },
}

/// A message whose payload stays with the sender.
struct Announced {
    ticket: Ticket,
    op: OpId,
    payload: Buf,
}

/// A process's path to itself.
pub struct Loopback {
    me: Address,
    peer: PeerId,
    queue: VecDeque<Item>,
    current: Option<Item>,
    announced: Vec<Announced>,
    next_ticket: u64,
    reserved: Option<Vec<u8>>,
    /// Buffers of messages that were read, to be used again.
    spare: Vec<Vec<u8>>,
    held: bool,
    sent: u64,
    received: u64,
}

impl Loopback {
    /// The path of the process at `me` to itself.
    pub fn new(me: Address) -> Loopback {
        Loopback {
            me,
            peer: PeerId(0),
            queue: VecDeque::new(),
            current: None,
            announced: Vec::new(),
            next_ticket: 0,
            reserved: None,
            spare: Vec::new(),
            held: false,
            sent: 0,
            received: 0,
        }
    }

    fn check_room(&self) -> Result<(), SendError> {
        if self.queue.len() < QUEUE_MAX { Ok(()) } else { Err(SendError::Full) }
    }

    /// Gives the buffer of the current message back to the spare ones.
    fn release(&mut self) {
        let used = match self.current.take() {
            Some(Item::Message { payload, .. }) => payload,
            Some(Item::Datagram { bytes }) => bytes,
            _ => return,
        };
        if self.spare.len() < 64 {
            self.spare.push(used);
        }
    }
}

impl Device for Loopback {
    fn name(&self) -> &'static str {
        "loopback"
    }

    fn caps(&self, _peer: PeerId) -> Caps {
        Caps { eager_max: EAGER_MAX, announce_from: EAGER_MAX + 1, free_poll: true }
    }

    fn is_self(&self, peer: PeerId) -> bool {
        peer == self.peer
    }

    fn address(&self, peer: PeerId) -> Option<&Address> {
        (peer == self.peer).then_some(&self.me)
    }

    fn reaches(&self, address: &Address) -> bool {
        (address.node, address.nonce, address.port) == (self.me.node, self.me.nonce, self.me.port)
    }

    fn associate(&mut self, peer: PeerId, address: &Address) -> Result<(), Error> {
        if !self.reaches(address) {
            return Err(Error::unreachable(
                peer,
                address,
                "loopback reaches only the process itself",
            ));
        }
        self.peer = peer;
        Ok(())
    }

    fn reserve(&mut self, _peer: PeerId, len: usize) -> Result<(), SendError> {
        if len > EAGER_MAX {
            return Err(SendError::Failed(Error::TooLong { len, max: EAGER_MAX }));
        }
        if self.held {
            return Err(SendError::Held);
        }
        self.check_room()?;
        let mut payload = self.reserved.take().or_else(|| self.spare.pop()).unwrap_or_default();
        payload.resize(len, 0);
        self.reserved = Some(payload);
        Ok(())
    }

    fn space(&mut self) -> &mut [u8] {
        self.reserved.as_mut().expect("space follows reserve")
    }

    fn commit(&mut self, envelope: &Envelope) {
        let payload = self.reserved.take().expect("commit follows reserve");
        self.queue.push_back(Item::Message { envelope: *envelope, payload });
        self.sent += 1;
    }

    fn commit_awaited(&mut self, envelope: &Envelope, op: OpId) {
        self.commit(envelope);
        self.queue.push_back(Item::Done { op });
    }

    fn send(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> Result<(), SendError> {
        self.reserve(peer, payload.len())?;
        self.space().copy_from_slice(payload);
        self.commit(envelope);
        Ok(())
    }

    fn announce(
        &mut self,
        _peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<(), SendError> {
        self.check_room()?;
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let len = payload.len() as u64;
        self.announced.push(Announced { ticket, op, payload: payload.clone() });
        self.queue.push_back(Item::Announced { envelope: *envelope, len, ticket });
        self.sent += 1;
        Ok(())
    }

    fn pull(&mut self, _peer: PeerId, ticket: Ticket, into: Buf, op: OpId) {
        let found = self.announced.iter().position(|a| a.ticket == ticket);
        let announced = self.announced.swap_remove(found.expect("a ticket is pulled once"));
        announced.payload.copy_to(&into);
        self.queue.push_back(Item::Done { op: announced.op });
        self.queue.push_back(Item::Done { op });
    }

    fn withdraw(&mut self, _peer: PeerId, op: OpId) -> bool {
        let Some(at) = self.announced.iter().position(|a| a.op == op) else { return false };
        let ticket = self.announced[at].ticket;
        let waits = |i: &Item| matches!(i, Item::Announced { ticket: t, .. } if *t == ticket);
        let Some(queued) = self.queue.iter().position(waits) else { return false };
        self.queue.remove(queued);
        self.announced.swap_remove(at);
        true
    }

    fn hold(&mut self, _peer: PeerId, hold: bool) {
        self.held = hold;
    }

    fn datagram_max(&self) -> usize {
        EAGER_MAX
    }

    fn datagram(&mut self, _peer: PeerId, bytes: &[u8]) -> bool {
        if bytes.len() > EAGER_MAX || self.check_room().is_err() {
            return false;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        self.queue.push_back(Item::Datagram { bytes: copy });
        self.sent += 1;
        true
    }

    fn poll(&mut self, _now_ns: u64) -> bool {
        self.release();
        self.current = self.queue.pop_front();
        let arrived = !matches!(self.current, None | Some(Item::Done { .. }));
        self.received += u64::from(arrived);
        self.current.is_some()
    }

    fn is_passive(&self) -> bool {
        true
    }

    fn event(&self) -> Event<'_> {
        match self.current.as_ref().expect("the last poll found an event") {
            Item::Message { envelope, payload } => {
                Event::Message { peer: self.peer, envelope: *envelope, payload }
            }
            Item::Announced { envelope, len, ticket } => Event::Announced {
                peer: self.peer,
                envelope: *envelope,
                len: *len,
                ticket: *ticket,
            },
            Item::Datagram { bytes } => Event::Datagram { peer: self.peer, bytes },
            Item::Done { op } => Event::Done { op: *op },
        }
    }

    fn flush(&mut self, _now_ns: u64) {}

    fn busy(&self) -> bool {
        false
    }

    fn close(&mut self, _now_ns: u64) {}

    fn deadline_ns(&self) -> Option<u64> {
        None
    }

    fn arm(&mut self, _wake: Wake) -> bool {
        self.queue.is_empty()
    }

    fn watch(&self, _each: &mut dyn FnMut(RawFd)) {}

    fn watch_generation(&self) -> u64 {
        0
    }

    fn counters(&self) -> Counters {
        vec![("loopback.sent".into(), self.sent), ("loopback.received".into(), self.received)]
    }
}
