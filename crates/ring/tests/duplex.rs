//! Both ends of a connection: rings, turn line and blocks together. Also for Miri.
#![cfg(not(loom))]

use std::sync::atomic::Ordering;

use weft_ring::{
    Blocks, Consumer, Duplex, Geometry, Head, Memory, Pace, Producer, RingError, Taken, Turn,
};

/// Longer under the real machine than under Miri, which is a thousand times slower.
const ROUNDS: u64 = if cfg!(miri) { 100 } else { 50_000 };

/// Blocks of two ends, and the bytes of each.
const BLOCKS: usize = 4;
const BLOCK: usize = 64;

/// What two ends share.
struct Between {
    there: Memory,
    back: Memory,
    line: Memory,
    blocks: Memory,
}

/// Two ends that use all there is, and their turn line.
fn ends(slots: usize) -> (Duplex, Duplex, Memory) {
    let (mut a, mut b, between) = apart(slots);
    for end in [&mut a, &mut b] {
        end.lend();
        end.set_pace(Pace::Skip(u64::MAX));
    }
    (a, b, between.line)
}

/// Two ends that send no blocks.
fn apart(slots: usize) -> (Duplex, Duplex, Between) {
    let geometry = Geometry::new(slots, 1024).unwrap();
    let (there, back) = (Memory::zeroed(geometry.size()), Memory::zeroed(geometry.size()));
    let (line, blocks) = (Memory::zeroed(64), Memory::zeroed(BLOCKS * BLOCK));
    let end = |out: &Memory, into: &Memory, first| {
        let out = Producer::new(out.clone(), geometry).unwrap();
        let into = Consumer::new(into.clone(), geometry).unwrap();
        let turn = Turn::new(line.clone(), first, Pace::Pause(1)).unwrap();
        Duplex::new(out, into, turn, Blocks::new(blocks.clone(), BLOCK, first).unwrap())
    };
    let (a, b) = (end(&there, &back, true), end(&back, &there, false));
    (a, b, Between { there, back, line, blocks })
}

/// What a block holds: the bytes of its first word.
fn first_of(block: usize, between: &Between) -> u8 {
    between.blocks.word(block * BLOCK).load(Ordering::Relaxed) as u8
}

fn send(end: &mut Duplex, i: u64, len: usize) {
    while end.push(i as u8, Head(i, !i, 7), &vec![i as u8; len]).is_err() {
        std::thread::yield_now();
    }
}

fn expect(end: &mut Duplex, i: u64, len: usize) {
    let item = loop {
        match end.peek_patiently().unwrap() {
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
    [0, 8, 32, 33, 31, 100, 64, 17, 65, 50][i as usize % 10]
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

/// A payload goes back in the block that it came in, as soon as it was read; who has none uses the
/// ring, and so does who never asked for blocks.
#[test]
fn a_block_passes_with_its_payload() {
    let (mut a, mut b, between) = apart(8);
    send(&mut a, 1, 40);
    expect(&mut b, 1, 40);
    assert!((0..BLOCKS).all(|block| first_of(block, &between) == 0), "nobody uses blocks yet");
    a.lend();
    b.lend();
    a.reserve(40).unwrap();
    assert!(a.in_block());
    // The first end begins with the lower half, and takes the upper one of these.
    for i in 2..100 {
        send(&mut a, i, 40);
        assert_eq!(first_of(1, &between), i as u8);
        expect(&mut b, i, 40);
        send(&mut b, i + 100, 64);
        assert_eq!(first_of(1, &between), (i + 100) as u8);
        expect(&mut a, i + 100, 64);
    }
    // The other end's, which it still has.
    assert!([0, 2, 3].iter().all(|&block| first_of(block, &between) == 0));
    a.reserve(65).unwrap();
    assert!(!a.in_block(), "too long for a block");
    for (i, in_block) in [(200, true), (201, true), (202, false)] {
        a.reserve(40).unwrap();
        assert_eq!(a.in_block(), in_block, "both blocks are on their way at last");
        send(&mut a, i, 40);
    }
    // What was not read yet is not used.
    assert!(b.peek().unwrap().is_some());
    for i in [203, 204, 205] {
        send(&mut b, i, 40);
    }
    (200..203).for_each(|i| expect(&mut b, i, 40));
    (203..206).for_each(|i| expect(&mut a, i, 40));
    assert_eq!((a.peek(), b.peek()), (Ok(None), Ok(None)));
}

/// What no other end writes: a block that is this end's already, or none, or a length that does not
/// fit; by the turn line and by the ring.
#[test]
fn a_block_that_cannot_have_come_is_an_error_never_a_crash() {
    let slot = 128;
    for (block, len, wrong) in [
        (0, 40, None),
        (1, 64, None),
        (2, 40, Some("a block")),
        (3, 40, Some("a block")),
        (4, 40, Some("a block")),
        (255, 40, Some("a block")),
        (0, 65, Some("a length")),
        (0, 0x7f_ffff, Some("a length")),
        (0, 32, Some("a length")),
        (0, 0, Some("a length")),
    ] {
        let (_, mut b, between) = apart(4);
        between.there.word(slot + 32).store(block, Ordering::Relaxed);
        between.there.word(slot).store(1 | len << 40 | 1 << 63, Ordering::Relaxed);
        let found = b.peek().map(|item| item.unwrap().len as u64);
        assert_eq!(found, wrong.map_or(Ok(len), |w| Err(RingError::Corrupt(w))), "{block} {len}");
        if found.is_ok() {
            assert_eq!(b.payload().len() as u64, len);
        }
        b.release();

        let (_, mut b, between) = apart(4);
        between.line.word(32).store(block, Ordering::Relaxed);
        between.line.word(0).store(1 | (len & 0xffff) << 16, Ordering::Relaxed);
        let found = b.peek().is_ok();
        assert_eq!(found, wrong.is_none() || len <= 32, "{block} {len} by the turn line");
        b.release();
    }
    // The same block twice.
    let (_, mut b, between) = apart(4);
    for (at, seq) in [(slot, 1), (slot + 64, 2)] {
        between.there.word(at + 32).store(1, Ordering::Relaxed);
        between.there.word(at).store(seq | 40 << 40 | 1 << 63, Ordering::Relaxed);
    }
    assert!(b.peek().unwrap().is_some());
    b.release();
    assert_eq!(b.peek(), Err(RingError::Corrupt("a block")));
    assert!(between.back.word(slot).load(Ordering::Relaxed) == 0);
}

#[test]
fn blocks_are_whole_lines_and_few() {
    for (bytes, size, well) in [(256, 64, true), (0, 64, true), (100, 64, true)]
        .into_iter()
        .chain([(256, 0, false), (256, 63, false), (64 * 33, 64, false), (1 << 17, 1 << 16, false)])
    {
        let made = Blocks::new(Memory::zeroed(bytes), size, true);
        assert_eq!(made.is_ok(), well, "{bytes} {size}");
    }
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
                    assert!(b.payload().len() <= BLOCK);
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
    for wrong in [2, 65 << 16 | 1, 5 << 32 | 1] {
        line.word(0).store(wrong, Ordering::Relaxed);
        assert_eq!(b.peek(), Err(RingError::Corrupt("a turn")), "{wrong:x}");
    }
    line.word(0).store(4 << 32 | 1, Ordering::Relaxed);
    assert_eq!(b.peek(), Ok(None), "after items that never come");
}

#[test]
fn who_has_just_written_leaves_out_one_look_and_only_a_patient_one() {
    let (mut a, mut b, _) = ends(4);
    for i in 0..4 {
        send(&mut a, i, 8);
        expect(&mut b, i, 8);
        send(&mut b, i, 8);
        match i {
            0 => assert_eq!(a.peek_patiently(), Ok(None), "the first look"),
            // What comes behind it is not shown before it.
            1 => send(&mut b, 7, 8),
            _ => assert!(a.peek().unwrap().is_some(), "somebody who wants to sleep, for example"),
        }
        assert!(a.peek_patiently().unwrap().is_some(), "{i}");
        expect(&mut a, i, 8);
        if i == 1 {
            expect(&mut a, 7, 8);
        }
    }
    // Long after the write no look is left out.
    a.set_pace(Pace::Skip(0));
    send(&mut a, 4, 8);
    expect(&mut b, 4, 8);
    send(&mut b, 4, 8);
    assert!(a.peek_patiently().unwrap().is_some());
}

#[test]
fn an_end_that_is_not_at_turn_finds_nothing() {
    let line = Memory::zeroed(64);
    let mut first = Turn::new(line.clone(), true, Pace::Pause(0)).unwrap();
    assert_eq!(first.take(0, 4), Ok(Taken::Nothing));
    line.word(0).store(1, Ordering::Relaxed);
    assert_eq!(first.take(0, 4), Ok(Taken::Nothing), "it is its own turn");
    assert!(Turn::new(line.part(0, 0).unwrap(), true, Pace::Pause(0)).is_err());
}
