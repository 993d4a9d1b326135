//! Devices to test with.

use std::time::{Duration, Instant};

use weft_device::device::{Device, Event, SendError};
use weft_device::error::Error;
use weft_device::shm::{Port, Shm, ShmOptions};
use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_sys::cpu;
use weft_wire::{Address, Envelope, JobKey, OpId, PeerId, Ticket};

/// What a device said, in words of its own memory.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    Message(PeerId, Envelope, Vec<u8>),
    Announced(PeerId, Envelope, u64, Ticket),
    Done(OpId),
    Failed(OpId, Error),
    Dead(PeerId, Error),
}

/// A device and where it can be reached.
pub struct End {
    pub shm: Shm,
    pub me: Address,
}

pub fn options() -> ShmOptions {
    ShmOptions::for_peers(2)
}

/// A tag as an envelope.
pub fn tag(tag: u64) -> Envelope {
    Envelope { tag, data: !tag, ..Envelope::default() }
}

impl End {
    pub fn new(options: ShmOptions, key: JobKey) -> End {
        let port = Port::claim_any().unwrap();
        let mut nonce = [0; 8];
        cpu::random(&mut nonce).unwrap();
        let (node, nonce) = (cpu::node_id().unwrap(), u64::from_ne_bytes(nonce));
        let me = Address::new(node, nonce, port.number(), std::process::id(), "here");
        End { shm: Shm::new(port, me, key, options).unwrap(), me }
    }

    pub fn knows(&mut self, peer: u32, other: &Address) {
        self.shm.associate(PeerId(peer), other).unwrap();
    }

    /// What it says next, if it says something now.
    pub fn poll(&mut self) -> Option<Said> {
        if !self.shm.poll(now_ns()) {
            return None;
        }
        Some(match self.shm.event() {
            Event::Message { peer, envelope, payload } => {
                Said::Message(peer, envelope, payload.to_vec())
            }
            Event::Announced { peer, envelope, len, ticket } => {
                Said::Announced(peer, envelope, len, ticket)
            }
            Event::Done { op } => Said::Done(op),
            Event::Failed { op, error } => Said::Failed(op, error),
            Event::Datagram { .. } => unreachable!("nobody sends one"),
            Event::Dead { peer, error } => Said::Dead(peer, error),
        })
    }

    /// What it says next, while `other` makes progress too and says nothing.
    pub fn hears(&mut self, other: &mut End) -> Said {
        patiently(|| {
            assert_eq!(other.poll(), None);
            self.poll()
        })
    }

    /// Sends, polling both while there is no room. The receiver must have nothing to say.
    pub fn sends(&mut self, other: &mut End, peer: u32, envelope: Envelope, payload: &[u8]) {
        patiently(|| {
            assert_eq!(self.poll(), None);
            assert_eq!(other.poll(), None);
            self.try_send(peer, envelope, payload)
        });
    }

    /// Sends; `None` when there is no room.
    pub fn try_send(&mut self, peer: u32, envelope: Envelope, payload: &[u8]) -> Option<()> {
        match self.shm.send(PeerId(peer), &envelope, payload) {
            Ok(()) => Some(()),
            Err(SendError::Full) => None,
            Err(other) => panic!("{other:?}"),
        }
    }

    pub fn announces(&mut self, peer: u32, envelope: Envelope, payload: &Buf, op: u64) {
        patiently(|| {
            match self.shm.announce(PeerId(peer), &envelope, payload, OpId(op)) {
                Ok(()) => return Some(()),
                Err(SendError::Full) => {}
                Err(other) => panic!("{other:?}"),
            }
            assert_eq!(self.poll(), None);
            None
        });
    }

    pub fn counter(&self, name: &str) -> u64 {
        let all = self.shm.counters();
        all.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }
}

/// Two devices that know each other as peers 1 and 0 and are connected.
pub fn pair(options: ShmOptions) -> (End, End) {
    let key = JobKey([7; 16]);
    let (mut a, mut b) = (End::new(options, key), End::new(options, key));
    a.knows(1, &b.me);
    b.knows(0, &a.me);
    a.sends(&mut b, 1, tag(0), b"hello");
    assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(0), b"hello".to_vec()));
    (a, b)
}

/// A device, its peer 0 to `count` others, which are its peers from 1 on.
pub fn star(count: usize) -> (End, Vec<End>) {
    let (key, options) = (JobKey([1; 16]), ShmOptions::for_peers(count));
    let mut hub = End::new(options, key);
    let mut others: Vec<End> = (0..count).map(|_| End::new(options, key)).collect();
    for (i, other) in others.iter_mut().enumerate() {
        other.knows(0, &hub.me);
        hub.knows(i as u32 + 1, &other.me);
    }
    (hub, others)
}

/// Tries until it works; a test that would hang fails instead.
pub fn patiently<T>(mut f: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(result) = f() {
            return result;
        }
        assert!(Instant::now() < end, "nothing happened for a minute");
        std::thread::yield_now();
    }
}

/// Bytes that tell where they come from.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29);
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
