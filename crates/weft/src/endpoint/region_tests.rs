//! Regions whose peer does what the test says: what is under way when one is dropped, and when an
//! operation has ended.

use std::sync::{Arc, Mutex, MutexGuard};

use weft_device::page::Shower;
use weft_sys::buf::Buf;
use weft_wire::{Envelope, Kind, Ticket};

use super::ops::{Owner, State};
use super::turn::{Along, Atomic};
use super::work::EndpointWork;
use crate::error::Error;
use crate::remote::{AtomicOp, Refusal, Rights, Scalar, Spot};
use crate::script::{Heard, PEER, Script, Seen};

const LONG: usize = 1 << 20;

struct World {
    work: EndpointWork,
    seen: Arc<Mutex<Seen>>,
    memory: Buf,
    key: u64,
}

impl World {
    fn new(lent: bool) -> World {
        let (device, seen) = Script::new();
        let mut work =
            EndpointWork::new((Box::new(device), Shower::default()), 1, Vec::new(), Vec::new());
        let memory = Buf::from_vec(vec![0; LONG]);
        let key = work.remote.windows.open_region(&memory, Rights::ALL, lent, None).unwrap();
        work.remote.notes.notices.open(key);
        World { work, seen, memory, key }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    fn hear(&mut self, heard: Heard) {
        self.seen().heard.push_back(heard);
        while self.work.progress(0) && !self.seen().heard.is_empty() {}
    }

    /// A request's first bytes, then these.
    fn request(&self, rest: &[u8]) -> Vec<u8> {
        [&self.key.to_le_bytes()[..], &[0; 8], rest].concat()
    }

    /// The operations that were answered, and with which codes.
    fn answered(&self) -> Vec<(u64, u8)> {
        self.seen().sent.iter().map(|(envelope, _)| (envelope.tag, envelope.flags)).collect()
    }
}

fn envelope(kind: Kind, tag: u64) -> Envelope {
    Envelope { kind, tag, ..Envelope::default() }
}

#[test]
fn a_long_put_to_a_region_that_is_dropped_meanwhile_is_refused() {
    for lent in [false, true] {
        let mut world = World::new(lent);
        let start = world.request(&[]);
        world.hear(Heard::Message(envelope(Kind::CONTROL, 5), start));
        world.hear(Heard::Announced(envelope(Kind::LONG_PUT, 5), LONG as u64, Ticket(1)));
        let (_, into, op) = world.seen().pulls.pop_front().unwrap();
        let closing = world.work.close_region(world.key).unwrap();
        // Lent memory is used until the bytes are there; other memory is nobody's.
        assert_eq!(closing.is_over(), !lent);
        into.write(0, &[9]);
        drop(into);
        world.hear(Heard::Done(op));
        assert!(closing.is_over());
        assert_eq!(world.answered(), [(5, Refusal::Key as u8)]);
        assert!(world.work.close_region(world.key).is_none());
    }
}

#[test]
fn a_read_that_waits_for_room_when_its_region_is_dropped_is_refused() {
    let mut world = World::new(true);
    world.seen().full = true;
    let request = world.request(&(LONG as u64).to_le_bytes());
    world.hear(Heard::Message(envelope(Kind::GET, 6), request));
    let closing = world.work.close_region(world.key).unwrap();
    assert!(closing.is_over());
    assert!(world.answered().is_empty());
    world.seen().full = false;
    world.work.progress(0);
    assert_eq!(world.answered(), [(6, Refusal::Key as u8)]);
    assert_eq!(world.work.ops.len(), 0);
}

#[test]
fn notices_beyond_the_room_for_them_are_refused_before_a_byte_is_written() {
    let mut world = World::new(false);
    let mut put = envelope(Kind::PUT, 7);
    (put.flags, put.data) = (1, 44);
    for tag in 0..=crate::region::NOTICES_MAX as u64 {
        let request = world.request(&[tag as u8 | 1]);
        world.hear(Heard::Message(Envelope { tag, ..put }, request));
    }
    let last = world.answered().pop();
    assert_eq!(last, Some((crate::region::NOTICES_MAX as u64, Refusal::Notices as u8)));
    assert_eq!(world.work.remote.notes.notices.take(world.key).unwrap().value, 44);
    assert!(world.work.ops.occurrences.is_empty());
    let mut byte = [0];
    world.memory.read(0, &mut byte);
    assert_eq!(byte[0], (crate::region::NOTICES_MAX - 1) as u8 | 1);
}

/// A long put with a request; its slot, and that of the operation which sends its bytes.
fn long_put(world: &mut World) -> (u32, u32) {
    let from = Buf::from_vec(vec![1; LONG]);
    let at = Spot { key: 1, addr: 0 };
    let slot = world.work.put(PEER, &from, at, Along::default(), Owner::Request).unwrap();
    (slot, slot + 1)
}

#[test]
fn a_put_has_ended_when_it_was_answered_and_its_memory_is_free() {
    for answered_first in [false, true] {
        let mut world = World::new(false);
        let (put, long) = long_put(&mut world);
        let (tag, sent) = (world.work.ops.id(put).0, world.work.ops.id(long));
        let answer = Heard::Message(envelope(Kind::ANSWER, tag), Vec::new());
        let mut steps = vec![answer, Heard::Done(sent)];
        if !answered_first {
            steps.reverse();
        }
        for step in steps {
            assert!(!matches!(world.work.ops.at(put).state, State::Ended(_)));
            assert_eq!(world.work.ops.remote_of(Some(PEER)).len(), 1);
            world.hear(step);
        }
        let State::Ended(Ok(status)) = &world.work.ops.at(put).state else { panic!("it is there") };
        assert_eq!(status.len, LONG);
        assert_eq!(world.work.ops.remove(put).into_vec(), Some(vec![1; LONG]));
        assert!(world.work.ops.remote_of(None).is_empty());
        assert_eq!(world.work.ops.len(), 0);
    }
}

#[test]
fn a_fence_waits_for_what_later_operations_could_overtake_and_for_nothing_else() {
    let mut world = World::new(false);
    let at = Spot { key: 1, addr: 0 };
    let (along, owner) = (Along::default(), Owner::Request);
    let short = Buf::from_vec(vec![1; 8]);
    world.work.put(PEER, &short, at, along, owner).unwrap();
    let atomic = Atomic {
        op: AtomicOp::Sum,
        scalar: Scalar::U64,
        count: 1,
        operands: &short,
        comparands: &Buf::empty(),
        fetch: Some(Buf::from_vec(vec![0; 8])),
    };
    world.work.atomic(PEER, atomic, at, along, owner).unwrap();
    let fenced = |world: &World| -> Vec<u32> {
        let found = world.work.ops.overtaken_by_later(PEER);
        found.into_iter().map(|(slot, _)| slot).collect()
    };
    assert_eq!(fenced(&world), []);
    let into = |len| Buf::from_vec(vec![0; len]);
    let get = world.work.get(PEER, into(8), at, None, owner).unwrap();
    let long_get = world.work.get(PEER, into(LONG), at, None, owner).unwrap();
    let (put, sent) = long_put(&mut world);
    assert_eq!(fenced(&world), [get, long_get, put]);

    let tag = |world: &World, slot| world.work.ops.id(slot).0;
    let answer = envelope(Kind::ANSWER, tag(&world, get));
    world.hear(Heard::Message(answer, vec![5; 8]));
    assert_eq!(fenced(&world), [long_get, put]);
    // Its bytes are still the peer's when it is announced.
    let answer = envelope(Kind::ANSWER, tag(&world, long_get));
    world.hear(Heard::Announced(answer, LONG as u64, Ticket(2)));
    assert_eq!(fenced(&world), [long_get, put]);
    let (_, _, op) = world.seen().pulls.pop_front().unwrap();
    world.hear(Heard::Done(op));
    let sent = world.work.ops.id(sent);
    world.hear(Heard::Done(sent));
    assert_eq!(fenced(&world), []);
}

#[test]
fn a_death_ends_puts_wherever_they_stand() {
    let mut world = World::new(false);
    let (first, _) = long_put(&mut world);
    let (second, _) = long_put(&mut world);
    let tag = world.work.ops.id(second).0;
    world.hear(Heard::Message(envelope(Kind::ANSWER, tag), Vec::new()));
    let (third, _) = long_put(&mut world);
    world.work.ops.at(third).owner = Owner::Nobody;
    world.hear(Heard::Dead);
    let ended = |world: &mut World, slot| match &world.work.ops.at(slot).state {
        State::Ended(result) => result.clone(),
        state => panic!("{state:?}"),
    };
    assert!(matches!(ended(&mut world, first), Err(Error::PeerDead { .. })));
    // It had been done before.
    assert!(ended(&mut world, second).is_ok());
    assert!(matches!(world.work.ops.unasked.get(&PEER), Some(Error::PeerDead { .. })));
    assert_eq!(world.work.ops.len(), 2);
}
