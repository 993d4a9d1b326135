//! Both ends of a connection: rings and the turn line together. Also for Miri.
#![cfg(not(loom))]

use std::sync::atomic::Ordering;

use weft_ring::{Consumer, Duplex, Geometry, Head, Memory, Producer, RingError, Taken, Turn};

/// Longer under the real machine than under Miri, which is a thousand times slower.
const ROUNDS: u64 = if cfg!(miri) { 100 } else { 50_000 };

/// Two ends, and their turn line.
fn ends(slots: usize) -> (Duplex, Duplex, Memory) {
    let geometry = Geometry::new(slots, 1024).unwrap();
    let (there, back) = (Memory::zeroed(geometry.size()), Memory::zeroed(geometry.size()));
    let line = Memory::zeroed(64);
    let end = |out: &Memory, into: &Memory, first| {
        let out = Producer::new(out.clone(), geometry).unwrap();
        let into = Consumer::new(into.clone(), geometry).unwrap();
        Duplex::new(out, into, Turn::new(line.clone(), first, 1).unwrap())
    };
    (end(&there, &back, true), end(&back, &there, false), line)
}

fn send(end: &mut Duplex, i: u64, len: usize) {
    while end.push(i as u8, Head(i, !i, 7), &vec![i as u8; len]).is_err() {
        std::thread::yield_now();
    }
}

fn expect(end: &mut Duplex, i: u64, len: usize) {
    let item = loop {
        match end.peek().unwrap() {
            Some(&item) => break item,
            None => std::thread::yield_now(),
        }
    };
    assert_eq!((item.kind, item.head, item.len), (i as u8, Head(i, !i, 7), len));
    assert_eq!(end.peek(), Ok(Some(&item)), "the same again until it is released");
    assert_eq!(end.current(), Some(&item));
    assert_eq!(end.payload(), vec![i as u8; len]);
    end.release();
    assert_eq!(end.current(), None);
}

/// How many items go one way before as many come back: one (a ping-pong), a few, more than the ring
/// holds of long ones; and how long each is.
fn run_of(i: u64) -> u64 {
    [1, 1, 1, 3, 2, 5][i as usize / 7 % 6]
}

fn len_of(i: u64) -> usize {
    [0, 8, 32, 33, 31, 100, 1, 17][i as usize % 8]
}

#[test]
fn items_arrive_once_and_in_order_whichever_way_they_take() {
    let (mut a, mut b, _) = ends(8);
    let other = std::thread::spawn(move || {
        let mut i = 0;
        while i < ROUNDS {
            let run = run_of(i);
            (i..i + run).for_each(|i| expect(&mut b, i, len_of(i)));
            (i..i + run).for_each(|i| send(&mut b, i, len_of(i + 1)));
            i += run;
        }
    });
    let mut i = 0;
    while i < ROUNDS {
        let run = run_of(i);
        (i..i + run).for_each(|i| send(&mut a, i, len_of(i)));
        (i..i + run).for_each(|i| expect(&mut a, i, len_of(i + 1)));
        i += run;
    }
    other.join().unwrap();
    assert_eq!(a.peek(), Ok(None));
}

#[test]
fn a_ping_pong_leaves_the_rings_alone() {
    let (mut a, mut b, line) = ends(4);
    for i in 0..1000 {
        let before = line.word(0).load(Ordering::Relaxed);
        send(&mut a, i, 8);
        let between = line.word(0).load(Ordering::Relaxed);
        expect(&mut b, i, 8);
        send(&mut b, i, 8);
        expect(&mut a, i, 8);
        assert_ne!(before, between);
        assert_ne!(between, line.word(0).load(Ordering::Relaxed));
    }
}

#[test]
fn a_reservation_is_forgotten_by_the_next() {
    let (mut a, mut b, _) = ends(4);
    a.reserve(8).unwrap().fill(9);
    a.reserve(40).unwrap().fill(8);
    a.space().fill(0);
    a.commit(0, Head(0, !0, 7));
    expect(&mut b, 0, 40);
    a.reserve(8).unwrap();
    send(&mut a, 1, 100);
    a.reserve(3).unwrap();
    a.space().fill(2);
    a.commit(2, Head(2, !2, 7));
    expect(&mut b, 1, 100);
    expect(&mut b, 2, 3);
}

/// Every word of the turn line set to nonsense: an error or an item, never a crash.
#[test]
fn nonsense_in_the_turn_line_is_an_error_never_a_crash() {
    for at in (0..64).step_by(8) {
        for nonsense in [u64::MAX, 1, 2, 0x21_0001, 0xffff_0001, 5 << 32 | 1, 1 << 32 | 1] {
            let (mut a, mut b, line) = ends(4);
            line.word(at).store(nonsense, Ordering::Relaxed);
            for _ in 0..3 {
                if let Ok(Some(_)) = b.peek() {
                    assert!(b.payload().len() <= 32);
                    b.release();
                }
                let _ = a.push(1, Head::default(), &[1; 8]);
                let _ = b.push(1, Head::default(), &[1; 8]);
                if let Ok(Some(_)) = a.peek() {
                    a.release();
                }
            }
        }
    }
    let (_, mut b, line) = ends(4);
    for wrong in [2, 33 << 16 | 1, 5 << 32 | 1] {
        line.word(0).store(wrong, Ordering::Relaxed);
        assert_eq!(b.peek(), Err(RingError::Corrupt("a turn")), "{wrong:x}");
    }
    line.word(0).store(4 << 32 | 1, Ordering::Relaxed);
    assert_eq!(b.peek(), Ok(None), "after items that never come");
}

#[test]
fn an_end_that_is_not_at_turn_finds_nothing() {
    let line = Memory::zeroed(64);
    let mut first = Turn::new(line.clone(), true, 0).unwrap();
    assert_eq!(first.take(0, 4), Ok(Taken::Nothing));
    line.word(0).store(1, Ordering::Relaxed);
    assert_eq!(first.take(0, 4), Ok(Taken::Nothing), "it is its own turn");
    assert!(Turn::new(line.part(0, 0).unwrap(), true, 0).is_err());
}
