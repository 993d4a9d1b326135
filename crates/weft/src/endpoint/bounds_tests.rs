//! Peers that ask, announce or send more than is good for this process, and peers that take
//! nothing.

use std::sync::{Arc, Mutex, MutexGuard};

use weft_device::page::Shower;
use weft_sys::buf::Buf;
use weft_wire::{Envelope, Kind, Ticket};

use super::late::{ANSWERS_MAX, LATE_MAX};
use super::ops::{Owner, State, Until};
use super::sends::{Outgoing, Started};
use super::turn_tests::*;
use super::work::EndpointWork;
use super::*;
use crate::held::HELD_MAX;
use crate::remote::{Refusal, Rights, Spot};
use crate::script::{EAGER_MAX, Heard, PEER, Script, Seen};

struct World {
    work: EndpointWork,
    seen: Arc<Mutex<Seen>>,
    memory: Buf,
    key: u64,
}

impl World {
    fn new() -> World {
        let (device, seen) = Script::new();
        let work =
            EndpointWork::new((Box::new(device), Shower::default()), 1, Vec::new(), Vec::new());
        let memory = Buf::from_vec(vec![0; 1 << 20]);
        let key = work.remote.windows.open(None, &memory, Rights::ALL, 0).unwrap();
        World { work, seen, memory, key }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    fn hear(&mut self, heard: Heard) {
        self.seen().heard.push_back(heard);
        while self.work.progress(0) && !self.seen().heard.is_empty() {}
    }

    /// A request's first bytes.
    fn start(&self, addr: u64) -> Vec<u8> {
        [self.key.to_le_bytes(), addr.to_le_bytes()].concat()
    }

    /// A put of these bytes.
    fn put(&self, addr: u64, bytes: &[u8]) -> Vec<u8> {
        [&self.start(addr), bytes].concat()
    }

    /// Has what the endpoint has asked for first come in, with these bytes.
    fn pulled(&mut self, bytes: &[u8]) -> Ticket {
        let (ticket, into, op) = self.seen().pulls.pop_front().expect("something is pulled");
        into.write(0, bytes);
        self.hear(Heard::Done(op));
        ticket
    }

    fn pulling(&self) -> usize {
        self.seen().pulls.iter().map(|pull| pull.1.len()).sum()
    }

    /// The operations that were answered, in order.
    fn answered(&self) -> Vec<u64> {
        self.seen().sent.iter().map(|(envelope, _)| envelope.tag).collect()
    }
}

fn request(kind: Kind, tag: u64) -> Envelope {
    Envelope { kind, tag, ..Envelope::default() }
}

/// A send that ends when it has arrived; its operation.
fn sent_until_there(world: &mut World) -> u32 {
    let buf = Buf::from_vec(vec![5; 8]);
    let outgoing = Outgoing::Kept(&buf, Until::There);
    let started = world.work.send(PEER, &request(Kind::TAGGED, 1), outgoing).unwrap();
    let Started::Slot(slot) = started else { panic!("it cannot have arrived") };
    slot
}

#[test]
fn who_waits_for_an_arrival_is_told_of_it_and_of_a_death_before_it() {
    let mut world = World::new();
    let arrives = sent_until_there(&mut world);
    let lost = sent_until_there(&mut world);
    let op = world.seen().awaited[0];
    assert!(!matches!(world.work.ops.at(arrives).state, State::Ended(_)));
    world.hear(Heard::Done(op));
    let State::Ended(Ok(status)) = &world.work.ops.at(arrives).state else { panic!("it is there") };
    assert_eq!((status.source, status.len), (PEER.0, 8));
    world.hear(Heard::Dead);
    assert!(matches!(world.work.ops.at(lost).state, State::Ended(Err(Error::PeerDead { .. }))));
}

#[test]
fn announced_requests_stay_at_their_sender_until_their_turn_is_near() {
    let mut world = World::new();
    const MANY: u64 = 100;
    for tag in 0..MANY {
        world.hear(Heard::Announced(request(Kind::PUT, tag), 1 << 20, Ticket(tag)));
    }
    assert!(world.pulling() <= LATE_MAX, "{} bytes at once", world.pulling());
    assert!(world.work.remote.late.bytes() <= LATE_MAX);
    // One of the longest is pulled alone, in its turn.
    world.hear(Heard::Announced(request(Kind::PUT, MANY), LATE_MAX as u64, Ticket(MANY)));
    world.hear(Heard::Message(request(Kind::PUT, MANY + 1), world.put(0, b"last")));
    let put = world.put(0, &[1; 100]);
    for tag in 0..=MANY {
        assert_eq!(world.pulled(&put), Ticket(tag));
        assert!(world.pulling() <= LATE_MAX);
    }
    assert_eq!(world.answered(), (0..MANY + 2).collect::<Vec<_>>());
    assert_eq!(bytes(&world.memory)[..5], *b"last\x01".as_slice());
    assert!(!world.work.remote.late.waits(PEER) && world.work.ops.len() == 0);
}

#[test]
fn a_request_that_cannot_be_had_is_refused_in_its_turn() {
    let mut world = World::new();
    for tag in 0..3 {
        world.hear(Heard::Announced(request(Kind::PUT, tag), 200, Ticket(tag)));
    }
    world.hear(Heard::Message(request(Kind::PUT, 3), world.put(0, b"3")));
    let put = world.put(0, &[1; 100]);
    let (_, _, op) = world.seen().pulls.remove(1).unwrap();
    world.hear(Heard::Failed(op));
    world.pulled(&put);
    world.pulled(&put);
    assert_eq!(world.answered(), [0, 1, 2, 3]);
    let codes: Vec<_> = world.seen().sent.iter().map(|(envelope, _)| envelope.flags).collect();
    assert_eq!(codes, [0, Refusal::Lost as u8, 0, 0]);
    assert!(!world.work.remote.late.waits(PEER));
}

#[test]
fn short_requests_behind_one_that_is_pulled_are_asked_to_be_announced_and_then_must_be() {
    let mut world = World::new();
    world.hear(Heard::Announced(request(Kind::PUT, 0), 200, Ticket(0)));
    let put = world.put(0, &[1; 8000]);
    let mut tag = 0;
    while !world.seen().hold {
        tag += 1;
        assert!(world.work.remote.late.bytes() <= LATE_MAX + 2 * put.len());
        world.hear(Heard::Message(request(Kind::PUT, tag), put.clone()));
    }
    // Who does so is served in order, and may send again.
    world.pulled(&put);
    assert_eq!(world.answered(), (0..=tag).collect::<Vec<_>>());
    assert!(!world.seen().hold && !world.seen().expelled);
    // Who does not is cut off.
    world.hear(Heard::Announced(request(Kind::PUT, 0), 200, Ticket(0)));
    let mut sent = 0;
    while !world.seen().expelled {
        assert!(sent < 2 * (LATE_MAX + HELD_MAX), "{sent} bytes are kept");
        sent += put.len();
        world.hear(Heard::Message(request(Kind::PUT, 1), put.clone()));
    }
    world.hear(Heard::Dead);
    assert!(!world.work.remote.late.waits(PEER));
}

#[test]
fn messages_that_nobody_receives_must_be_announced_when_that_was_asked_for() {
    let mut world = World::new();
    let message = vec![1; EAGER_MAX];
    let mut sent = 0;
    while !world.seen().expelled {
        assert!(sent < 256 << 20, "{sent} bytes are kept");
        sent += message.len();
        world.hear(Heard::Message(request(Kind::TAGGED, 1), message.clone()));
    }
    assert!(world.seen().hold && sent > HELD_MAX);
    // Announcements are what it was asked for.
    let mut world = World::new();
    while !world.seen().hold {
        world.hear(Heard::Message(request(Kind::TAGGED, 1), message.clone()));
    }
    for tag in 0..400_000 {
        world.hear(Heard::Announced(request(Kind::TAGGED, tag), 1 << 20, Ticket(tag)));
    }
    assert!(!world.seen().expelled);
}

#[test]
fn who_takes_no_answers_is_asked_for_patience_and_answered_in_order() {
    let mut world = World::new();
    world.seen().full = true;
    let mut get = world.start(0);
    get.extend((EAGER_MAX as u64).to_le_bytes());
    const MANY: u64 = 100_000;
    for tag in 0..MANY / 2 {
        world.hear(Heard::Message(request(Kind::GET, tag), get.clone()));
    }
    assert!(world.work.ops.len() <= ANSWERS_MAX, "{} operations", world.work.ops.len());
    assert!(world.seen().hold);
    for tag in MANY / 2..MANY {
        world.hear(Heard::Announced(request(Kind::GET, tag), get.len() as u64, Ticket(tag)));
    }
    assert!(world.seen().pulls.is_empty() && world.work.ops.len() <= ANSWERS_MAX);
    // It takes them: all is answered, each once.
    world.seen().full = false;
    for _ in 0..MANY {
        world.work.progress(0);
        if !world.seen().pulls.is_empty() {
            world.pulled(&get);
        }
    }
    assert_eq!(world.answered(), (0..MANY).collect::<Vec<_>>());
    assert!(!world.seen().hold && !world.work.remote.late.waits(PEER));
    assert_eq!(world.work.ops.len(), 0);
}

#[test]
fn a_long_put_whose_bytes_cannot_be_had_is_refused() {
    let mut world = World::new();
    let start = world.start(0);
    world.hear(Heard::Message(request(Kind::CONTROL, 5), start));
    world.hear(Heard::Announced(request(Kind::LONG_PUT, 5), 1 << 19, Ticket(1)));
    let (_, into, op) = world.seen().pulls.pop_front().unwrap();
    assert_eq!(into.len(), 1 << 19);
    world.hear(Heard::Failed(op));
    assert_eq!(world.answered(), [5]);
    let code = world.seen().sent[0].0.flags;
    assert_eq!(code, Refusal::Lost as u8);
    assert!(Refusal::from_code(code).why().contains("could not be read"));
    assert_eq!(world.work.ops.len(), 0);
    // The window's memory is free.
    drop(into);
    assert!(world.work.remote.windows.close(world.key).unwrap().is_over());
}

#[test]
fn an_answer_of_another_length_than_was_asked_for_is_an_error() {
    let mut world = World::new();
    for len in [7, 9] {
        for announced in [false, true] {
            let into = Buf::from_vec(vec![0; 8]);
            let at = Spot { key: 1, addr: 0 };
            world.work.get(PEER, into, at, None, Owner::Boundary(cookie(1))).unwrap();
            let tag = world.seen().sent.pop().unwrap().0.tag;
            let answer = request(Kind::ANSWER, tag);
            if announced {
                world.hear(Heard::Announced(answer, len, Ticket(0)));
                world.pulled(&[]);
            } else {
                world.hear(Heard::Message(answer, vec![0; len as usize]));
            }
            let (_, result, _) = ended(world.work.ops.occurrences.remove(0));
            let error = result.unwrap_err().to_string();
            assert!(error.contains("another number of bytes"), "{len}, {announced}: {error}");
            assert_eq!(world.work.ops.len(), 0);
        }
    }
}

#[test]
fn large_sends_that_nobody_receives_hold_up_nothing_else() {
    let (a, b, to_b) = pair();
    let to_a = b.endpoint.add_peer(&a.endpoint.address().unwrap()).unwrap();
    let large = Buf::from_vec(pattern(100_000));
    // As many as a program may have in all likelihood, then something small that is waited for.
    let send = |tag| {
        let heading = envelope(Kind::TAGGED, tag);
        a.endpoint.turn(|turn| turn.send(to_b, &heading, &large, Some(cookie(tag))).unwrap());
        b.endpoint.turn(|turn| turn.progress());
    };
    (10..10_010).for_each(send);
    let small = Buf::from_vec(pattern(8));
    a.endpoint.turn(|turn| turn.send(to_b, &envelope(Kind::UNTAGGED, 0), &small, None).unwrap());
    let into = Buf::from_vec(vec![0; 8]);
    b.endpoint.turn(|turn| turn.receive(any(Kind::UNTAGGED), into.clone(), cookie(1)));
    assert_eq!(ended(next(&b, &a)).0, 1);
    assert_eq!(bytes(&into), pattern(8));
    // More than there are places: what the other asks for still comes.
    (10_010..20_000).for_each(send);
    let key = a.windows.open(None, &large, Rights::ALL, 0).unwrap();
    for (context, len) in [(2, 8), (3, 100_000)] {
        let into = Buf::from_vec(vec![0; len]);
        let at = Spot { key, addr: 0 };
        let asked = Some(cookie(context));
        b.endpoint.turn(|turn| turn.get(to_a, into.clone(), at, None, asked).unwrap());
        assert_eq!(ended(next(&b, &a)).0, context);
        assert!(bytes(&into) == pattern(len));
    }
    // And all of them can be received, in order.
    for tag in 10..20_000 {
        let into = Buf::from_vec(vec![0; 100_000]);
        b.endpoint.turn(|turn| turn.receive(any(Kind::TAGGED), into.clone(), cookie(4)));
        assert_eq!(ended(next(&b, &a)).1.unwrap().tag(), tag);
    }
}

#[test]
fn large_sends_that_are_taken_back_over_and_over_are_not_kept_without_end() {
    let (a, b, to_b) = pair();
    let large = Buf::from_vec(pattern(100_000));
    let unexpected = || {
        let counters = b.endpoint.counters();
        counters.iter().find(|(name, _)| name == "endpoint.unexpected").unwrap().1
    };
    for round in 0..40_000 {
        let heading = envelope(Kind::TAGGED, round);
        a.endpoint.turn(|turn| turn.send(to_b, &heading, &large, Some(cookie(1))).unwrap());
        b.endpoint.turn(|turn| turn.progress());
        assert!(a.endpoint.turn(|turn| turn.cancel(1)));
        assert_eq!(ended(next(&a, &b)).1.unwrap_err(), Error::Cancelled);
    }
    assert!(unexpected() <= 20_000, "{}", unexpected());
    // They make room as they are asked for in vain.
    while unexpected() > 0 {
        let into = Buf::from_vec(vec![0; 100_000]);
        b.endpoint.turn(|turn| turn.receive(any(Kind::TAGGED), into.clone(), cookie(2)));
        let error = ended(next(&b, &a)).1.unwrap_err();
        assert!(matches!(error, Error::Withdrawn { .. }), "{error}");
    }
    let into = Buf::from_vec(vec![0; 100_000]);
    b.endpoint.turn(|turn| turn.receive(any(Kind::TAGGED), into.clone(), cookie(3)));
    a.endpoint.turn(|turn| turn.send(to_b, &envelope(Kind::TAGGED, 7), &large, None).unwrap());
    assert_eq!(ended(next(&b, &a)).1.unwrap().tag(), 7);
}
