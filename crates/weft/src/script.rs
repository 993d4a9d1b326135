//! A device for tests whose one peer does what the test says, however unfriendly.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};

use weft_device::pace::Pace;
use weft_sys::buf::Buf;
use weft_wire::{Address, Envelope, OpId, PeerId, Ticket};

use crate::device::{Caps, Counters, Device, Event, SendError, Wake};
use crate::error::Error;

pub(crate) const PEER: PeerId = PeerId(1);
pub(crate) const EAGER_MAX: usize = 16 << 10;

/// What the peer does, or the device says.
pub(crate) enum Heard {
    Message(Envelope, Vec<u8>),
    Announced(Envelope, u64, Ticket),
    Done(OpId),
    Failed(OpId),
    Dead,
}

/// What the endpoint has had the device do.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) heard: VecDeque<Heard>,
    pub(crate) pulls: VecDeque<(Ticket, Buf, OpId)>,
    pub(crate) sent: Vec<(Envelope, Vec<u8>)>,
    /// Operations that end when a message has arrived.
    pub(crate) awaited: Vec<OpId>,
    pub(crate) hold: bool,
    pub(crate) expelled: bool,
    /// Whether there is no room for messages.
    pub(crate) full: bool,
    /// How fast what is announced is copied, where that is one copy: all else is eager then.
    pub(crate) pace: Option<Pace>,
}

/// A device with one peer, which does what the test has it do.
pub(crate) struct Script {
    seen: Arc<Mutex<Seen>>,
    current: Option<Heard>,
    space: Vec<u8>,
}

impl Script {
    pub(crate) fn new() -> (Script, Arc<Mutex<Seen>>) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        (Script { seen: seen.clone(), current: None, space: Vec::new() }, seen)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }
}

impl Device for Script {
    fn name(&self) -> &'static str {
        "script"
    }
    fn caps(&self, _: PeerId) -> Caps {
        let eager_max = self.seen().pace.map_or(EAGER_MAX, |_| usize::MAX / 2);
        Caps { eager_max, announce_from: eager_max + 1, free_poll: true }
    }
    fn copy_pace(&self, _: PeerId) -> Option<Pace> {
        self.seen().pace
    }
    fn reaches(&self, _: &Address) -> bool {
        true
    }
    fn associate(&mut self, _: PeerId, _: &Address) -> Result<(), Error> {
        Ok(())
    }
    fn reserve(&mut self, _: PeerId, len: usize) -> Result<(), SendError> {
        if self.seen().full {
            return Err(SendError::Full);
        }
        self.space = vec![0; len];
        Ok(())
    }
    fn space(&mut self) -> &mut [u8] {
        &mut self.space
    }
    fn commit(&mut self, envelope: &Envelope) {
        let bytes = std::mem::take(&mut self.space);
        self.seen().sent.push((*envelope, bytes));
    }
    fn commit_awaited(&mut self, envelope: &Envelope, op: OpId) {
        self.commit(envelope);
        self.seen().awaited.push(op);
    }
    fn send(&mut self, peer: PeerId, envelope: &Envelope, bytes: &[u8]) -> Result<(), SendError> {
        self.reserve(peer, bytes.len())?;
        self.space.copy_from_slice(bytes);
        self.commit(envelope);
        Ok(())
    }
    fn announce(
        &mut self,
        _: PeerId,
        envelope: &Envelope,
        _: &Buf,
        _: OpId,
    ) -> Result<(), SendError> {
        let mut seen = self.seen();
        if seen.full {
            return Err(SendError::Full);
        }
        seen.sent.push((*envelope, Vec::new()));
        Ok(())
    }
    fn pull(&mut self, _: PeerId, ticket: Ticket, into: Buf, op: OpId) {
        self.seen().pulls.push_back((ticket, into, op));
    }
    fn withdraw(&mut self, _: PeerId, _: OpId) -> bool {
        false
    }
    fn expel(&mut self, _: PeerId, _: &'static str) {
        let mut seen = self.seen();
        if !std::mem::replace(&mut seen.expelled, true) {
            seen.heard.clear();
            seen.heard.push_back(Heard::Dead);
        }
    }
    fn hold(&mut self, _: PeerId, hold: bool) {
        self.seen().hold = hold;
    }
    fn datagram_max(&self) -> usize {
        EAGER_MAX
    }
    fn datagram(&mut self, _: PeerId, _: &[u8]) -> bool {
        true
    }
    fn poll(&mut self, _: u64) -> bool {
        let next = self.seen().heard.pop_front();
        self.current = next;
        self.current.is_some()
    }
    fn address(&self, _: PeerId) -> Option<&Address> {
        None
    }
    fn event(&self) -> Event<'_> {
        let error = || Error::PeerDead { peer: PEER, name: "it".into(), why: "a test".into() };
        match self.current.as_ref().expect("the last poll found an event") {
            Heard::Message(envelope, payload) => {
                Event::Message { peer: PEER, envelope: *envelope, payload }
            }
            Heard::Announced(envelope, len, ticket) => {
                Event::Announced { peer: PEER, envelope: *envelope, len: *len, ticket: *ticket }
            }
            Heard::Done(op) => Event::Done { op: *op },
            Heard::Failed(op) => Event::Failed { op: *op, error: error() },
            Heard::Dead => Event::Dead { peer: PEER, error: error() },
        }
    }
    fn flush(&mut self, _: u64) {}
    fn busy(&self) -> bool {
        false
    }
    fn close(&mut self, _: u64) {}
    fn deadline_ns(&self) -> Option<u64> {
        None
    }
    fn arm(&mut self, _: Wake) -> bool {
        true
    }
    fn watch(&self, _: &mut dyn FnMut(RawFd)) {}
    fn watch_generation(&self) -> u64 {
        0
    }
    fn counters(&self) -> Counters {
        Counters::new()
    }
}
