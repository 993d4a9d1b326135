//! Rings in shared memory: random use beside a plain queue, and a peer that writes nonsense.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use bolero::TypeGenerator;
use weft_ring::{Consumer, Geometry, Head, Memory, Producer, Refused};

/// What happens to a ring.
#[derive(Clone, Copy, Debug, TypeGenerator)]
pub enum Step {
    /// An item with so many bytes, modulo a little more than what fits, goes in.
    Push(u16),
    /// Room is reserved and left.
    Reserve(u16),
    /// The oldest item is looked at.
    Peek,
    /// What was looked at is given back.
    Release,
    /// The producer asks to be told of room.
    WantRoom,
    /// A hostile peer writes a word (only in [`hostile`]).
    Scribble(u16, u64),
    /// A hostile peer writes a word that looks nearly right.
    Nudge(u16, u8),
}

const SLOTS: usize = 8;
const DATA: usize = 1024;

struct Ring {
    producer: Producer,
    consumer: Consumer,
    memory: Memory,
    peeked: bool,
    number: u64,
}

impl Ring {
    fn new() -> Ring {
        let geometry = Geometry::new(SLOTS, DATA).expect("both are powers of two");
        let memory = Memory::zeroed(geometry.size());
        let producer = Producer::new(memory.clone(), geometry).expect("the memory fits");
        let consumer = Consumer::new(memory.clone(), geometry).expect("the memory fits");
        Ring { producer, consumer, memory, peeked: false, number: 0 }
    }

    fn len(&self, wish: u16) -> usize {
        usize::from(wish) % (self.producer.max_len() + 8)
    }

    /// Puts the next item in, filled with its number.
    fn push(&mut self, len: usize) -> Result<(), Refused> {
        self.producer.reserve(len)?.fill(self.number as u8);
        self.producer.commit(self.number as u8, Head(self.number, len as u64, 0));
        self.number += 1;
        Ok(())
    }
}

/// An honest pair: items come out as a plain queue would give them, and only as many fit as fit.
pub fn honest(steps: &[Step]) {
    let mut ring = Ring::new();
    let mut model: VecDeque<(u64, usize)> = VecDeque::new();
    for step in steps {
        match *step {
            Step::Push(wish) => {
                let (len, number) = (ring.len(wish), ring.number);
                match ring.push(len) {
                    Ok(()) => model.push_back((number, len)),
                    Err(Refused::TooLong) => assert!(len > ring.producer.max_len()),
                    Err(Refused::Full) => assert!(!model.is_empty() || len > 32),
                    Err(Refused::Corrupt(error)) => panic!("an honest ring: {error}"),
                }
            }
            Step::Reserve(wish) => {
                let len = ring.len(wish);
                if let Ok(room) = ring.producer.reserve(len) {
                    assert_eq!(room.len(), len);
                }
            }
            Step::Peek => {
                let item = ring.consumer.peek().expect("an honest ring is whole").copied();
                ring.peeked = item.is_some();
                let expected = model.front();
                assert_eq!(item.map(|i| (i.head.0, i.len)), expected.copied());
                if let Some(item) = item {
                    let payload = ring.consumer.payload();
                    assert_eq!(payload.len(), item.len);
                    assert!(payload.iter().all(|&b| b == item.kind));
                }
            }
            Step::Release if ring.peeked => {
                ring.consumer.release();
                ring.peeked = false;
                model.pop_front();
            }
            Step::WantRoom => {
                ring.producer.want_room().expect("an honest ring is whole");
            }
            Step::Release | Step::Scribble(..) | Step::Nudge(..) => {}
        }
        assert!(model.len() <= SLOTS);
    }
}

/// The other process writes anything anywhere at any time: errors, but never a panic, an item out
/// of bounds, or a ring that works again after it was found broken.
pub fn hostile(steps: &[Step]) {
    let mut ring = Ring::new();
    let mut broken = false;
    for step in steps {
        match *step {
            Step::Push(wish) => {
                let len = ring.len(wish);
                let _ = ring.push(len);
            }
            Step::Reserve(wish) => {
                let len = ring.len(wish);
                if let Ok(room) = ring.producer.reserve(len) {
                    assert_eq!(room.len(), len);
                }
            }
            Step::Peek => match ring.consumer.peek().map(|item| item.copied()) {
                Ok(item) => {
                    assert!(!broken || item.is_none() || ring.peeked);
                    ring.peeked = item.is_some();
                    if let Some(item) = item {
                        assert!(item.len <= ring.producer.max_len());
                        assert_eq!(ring.consumer.payload().len(), item.len);
                    }
                }
                Err(_) => broken = true,
            },
            Step::Release => {
                ring.consumer.release();
                ring.peeked = false;
            }
            Step::WantRoom => {
                let _ = ring.producer.want_room();
            }
            Step::Scribble(place, word) => write(&ring, place, |_| word),
            Step::Nudge(place, by) => write(&ring, place, |old| old.wrapping_add(u64::from(by))),
        }
    }
}

/// Changes one of the words that a peer would change to do harm: the places, and those of slots.
fn write(ring: &Ring, place: u16, change: impl Fn(u64) -> u64) {
    let at = usize::from(place) % (SLOTS + 2) * 64;
    let word = ring.memory.word(at);
    word.store(change(word.load(Ordering::Relaxed)), Ordering::Relaxed);
}
