//! Rings and doorbells without an operating system: also for Miri.
#![cfg(not(loom))]

use std::sync::atomic::Ordering;

use weft_ring::{Bell, Consumer, Geometry, Head, Memory, Producer, Refused, RingError, Sleep};

/// Longer under the real machine than under Miri, which is a thousand times slower.
const ROUNDS: u64 = if cfg!(miri) { 300 } else { 100_000 };

fn pair(slots: usize, data: usize) -> (Producer, Consumer, Memory) {
    let geometry = Geometry::new(slots, data).unwrap();
    let mem = Memory::zeroed(geometry.size());
    let producer = Producer::new(mem.clone(), geometry).unwrap();
    (producer, Consumer::new(mem.clone(), geometry).unwrap(), mem)
}

/// A length that varies with the item: inline, of a few lines, and the longest.
fn len_of(i: u64, max: usize) -> usize {
    match i % 7 {
        0 => 0,
        1 => 32,
        2 => 33,
        3 => max,
        other => (i as usize * 131 + other as usize) % (max + 1),
    }
}

fn fill(i: u64, bytes: &mut [u8]) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (i as u8).wrapping_mul(31).wrapping_add(at as u8);
    }
}

#[test]
fn items_arrive_once_in_order_and_whole_between_threads() {
    let (mut producer, mut consumer, _) = pair(8, 2048);
    let max = producer.max_len();
    let sender = std::thread::spawn(move || {
        for i in 0..ROUNDS {
            loop {
                match producer.reserve(len_of(i, max)) {
                    Ok(bytes) => break fill(i, bytes),
                    Err(Refused::Full) => std::thread::yield_now(),
                    Err(other) => panic!("{other:?}"),
                }
            }
            producer.commit(i as u8, Head(i, !i, 7));
        }
    });
    let mut want = vec![0; max];
    for i in 0..ROUNDS {
        let item = loop {
            match consumer.peek().unwrap() {
                Some(&item) => break item,
                None => std::thread::yield_now(),
            }
        };
        let len = len_of(i, max);
        assert_eq!((item.kind, item.head, item.len), (i as u8, Head(i, !i, 7), len));
        fill(i, &mut want[..len]);
        assert_eq!(consumer.payload(), &want[..len]);
        consumer.release();
    }
    sender.join().unwrap();
    assert_eq!(consumer.peek(), Ok(None));
}

#[test]
fn a_full_ring_refuses_and_a_waiting_producer_is_told_of_room() {
    let (mut producer, mut consumer, _) = pair(4, 1024);
    for i in 0..4 {
        producer.push(i, Head::default(), b"abc").unwrap();
    }
    assert_eq!(producer.push(4, Head::default(), b""), Err(Refused::Full));
    assert_eq!(producer.want_room(), Ok(false));
    assert_eq!(consumer.peek().unwrap().unwrap().kind, 0);
    assert!(consumer.release(), "a quarter is free: the producer must be told");
    assert_eq!(producer.want_room(), Ok(true));
    producer.push(4, Head::default(), b"").unwrap();
    consumer.peek().unwrap().unwrap();
    assert!(!consumer.release(), "nobody waits any more");
}

#[test]
fn the_data_area_is_full_before_the_slots() {
    let (mut producer, mut consumer, _) = pair(16, 1024);
    assert_eq!(producer.max_len(), 256);
    assert_eq!(producer.push(0, Head::default(), &[0; 257]), Err(Refused::TooLong));
    for i in 0..4 {
        producer.push(i, Head::default(), &[i; 256]).unwrap();
    }
    assert_eq!(producer.push(4, Head::default(), &[9; 33]), Err(Refused::Full));
    producer.push(5, Head::default(), &[9; 32]).unwrap();
    for i in 0..4 {
        consumer.peek().unwrap().unwrap();
        assert_eq!(consumer.payload(), &[i; 256]);
        consumer.release();
    }
    consumer.peek().unwrap().unwrap();
    assert_eq!(consumer.payload(), &[9; 32]);
}

#[test]
fn a_reservation_without_commit_is_forgotten() {
    let (mut producer, mut consumer, _) = pair(4, 1024);
    producer.reserve(200).unwrap().fill(1);
    producer.reserve(2).unwrap().copy_from_slice(b"ok");
    producer.commit(3, Head(1, 2, 3));
    let item = consumer.peek().unwrap().unwrap();
    assert_eq!((item.kind, item.head, item.len), (3, Head(1, 2, 3), 2));
    assert_eq!(consumer.payload(), b"ok");
}

#[test]
fn positions_wrap_round_many_laps() {
    let (mut producer, mut consumer, _) = pair(4, 256);
    for i in 0..200u64 {
        let len = (i as usize * 17) % 65;
        producer.push(0, Head(i, 0, 0), &vec![i as u8; len]).unwrap();
        assert_eq!(consumer.peek().unwrap().unwrap().head.0, i);
        assert_eq!(consumer.payload(), vec![i as u8; len]);
        consumer.release();
        assert_eq!(consumer.peek(), Ok(None));
    }
}

/// Each word of the control lines and slots set to nonsense: an error or a message, never a panic
/// or an access outside (Miri and the bounds in debug builds watch).
#[test]
fn nonsense_in_shared_memory_is_an_error_never_a_crash() {
    let size = Geometry::new(4, 256).unwrap().size();
    for at in (0..size).step_by(8) {
        for nonsense in [u64::MAX, 1, 5, 2 | 0xff_ffff << 40, 1 << 63, 0x1_0000_0001] {
            let (mut producer, mut consumer, mem) = pair(4, 256);
            producer.push(1, Head::default(), &[1; 60]).unwrap();
            mem.word(at).store(nonsense, Ordering::Relaxed);
            for _ in 0..20 {
                if producer.push(1, Head::default(), &[2; 64]).is_err() {
                    let _ = producer.want_room();
                }
                if let Ok(Some(_)) = consumer.peek() {
                    assert!(consumer.payload().len() <= 64);
                    consumer.release();
                }
            }
        }
    }
}

#[test]
fn a_bad_sequence_number_and_a_bad_length_are_named() {
    let (_, mut consumer, mem) = pair(4, 256);
    mem.word(128).store(9, Ordering::Relaxed);
    assert_eq!(consumer.peek(), Err(RingError::Corrupt("a sequence number")));
    let (_, mut consumer, mem) = pair(4, 256);
    mem.word(128).store(1 | 65 << 40, Ordering::Relaxed);
    assert_eq!(consumer.peek(), Err(RingError::Corrupt("a length")));
    mem.word(128).store(1, Ordering::Relaxed);
    assert_eq!(consumer.peek(), Err(RingError::Corrupt("a length")), "it stays unusable");
    let (mut producer, _, mem) = pair(4, 256);
    mem.word(0).store(17, Ordering::Relaxed);
    for _ in 0..4 {
        producer.push(0, Head::default(), &[]).unwrap();
    }
    let corrupt = RingError::Corrupt("the consumer's place");
    assert_eq!(producer.push(0, Head::default(), &[]), Err(Refused::Corrupt(corrupt)));
}

#[test]
fn memory_that_does_not_fit_is_refused() {
    let geometry = Geometry::new(4, 256).unwrap();
    let mem = Memory::zeroed(geometry.size() - 64);
    assert!(Producer::new(mem.clone(), geometry).is_err());
    assert!(Consumer::new(mem.clone(), geometry).is_err());
    assert!(mem.part(64, mem.len()).is_err());
    assert!(mem.part(8, 64).is_err());
    assert!(mem.part(usize::MAX - 63, 64).is_err());
    assert!(Geometry::new(5, 256).is_err());
    assert!(Geometry::new(1 << 17, 256).is_err());
    assert!(Geometry::new(4, 100).is_err());
}

#[test]
fn one_of_several_ringers_wakes_the_sleeper_in_the_way_it_asked() {
    let bell = Bell::new(Memory::zeroed(64)).unwrap();
    assert_eq!(bell.ring(1), None);
    bell.arm(Sleep::Descriptor);
    assert_eq!(bell.ring(1), Some(Sleep::Descriptor));
    assert_eq!(bell.ring(2), None);
    bell.arm(Sleep::Futex);
    bell.disarm();
    assert_eq!(bell.ring(1), None);
    bell.word().store(77, Ordering::Relaxed);
    assert_eq!(bell.ring(1), None);
}

#[test]
fn callers_are_noted_for_an_owner_who_wants_it() {
    let bell = Bell::new(Memory::zeroed(64)).unwrap();
    bell.ring(1);
    assert_eq!(bell.callers(), 0, "the owner looks at everything by itself");
    bell.note();
    assert_eq!((bell.ring(1), bell.ring(3), bell.nudge()), (None, None, None));
    assert!(!bell.arm_noting(Sleep::Futex), "there is news");
    assert_eq!((bell.callers(), bell.callers()), (Bell::bit(1) | Bell::bit(3), 0));
    // Asleep: a nudge wakes, and nobody is noted.
    assert!(bell.arm_noting(Sleep::Futex));
    assert_eq!((bell.nudge(), bell.nudge()), (Some(Sleep::Futex), None));
    bell.wake_up();
    assert_eq!(bell.callers(), 0);
    // Asleep: a ring wakes, and is noted; so is one before the owner is awake again.
    assert!(bell.arm_noting(Sleep::Descriptor));
    assert_eq!((bell.ring(64), bell.ring(9)), (Some(Sleep::Descriptor), None));
    bell.wake_up();
    assert_eq!(bell.callers(), Bell::bit(0) | Bell::bit(9));
}
