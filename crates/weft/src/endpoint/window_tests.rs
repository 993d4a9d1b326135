//! What a process is told of its windows, and windows whose owner is short of memory.

use weft_sys::buf::Buf;
use weft_wire::Kind;

use super::share::BEGUN_MAX;
use super::turn_tests::*;
use crate::boundary::{Along, Atomic, Occurrence, Share};
use crate::remote::{AtomicOp, Rights, Scalar, Spot};
use weft_proto::msg::matching::Want;

/// Has both connected, and `b` told of everything.
fn watched() -> (Side, Side, u32) {
    let (a, b, to_b) = pair();
    a.endpoint
        .turn(|turn| turn.put(to_b, &Buf::empty(), NOWHERE, word(None), Some(cookie(0))).unwrap());
    ended(next(&a, &b)).1.unwrap_err();
    b.endpoint.turn(|turn| turn.watch_windows(true));
    (a, b, to_b)
}

const NOWHERE: Spot = Spot { key: u64::MAX, addr: 0 };

/// What was told of windows: key, bytes, word.
fn accessed(occurrence: Occurrence) -> (Option<u64>, usize, Option<u64>) {
    match occurrence {
        Occurrence::Accessed { key, len, data, .. } => (key, len, data),
        Occurrence::Touched { key, len, .. } => (Some(key), len, None),
        other => panic!("nobody began an operation: {other:?}"),
    }
}

fn nothing(side: &Side) {
    for _ in 0..1000 {
        side.endpoint.turn(|turn| {
            turn.progress();
            assert!(turn.occurrence().is_none());
        });
    }
}

#[test]
fn several_puts_that_are_one_are_told_once_when_all_bytes_are_there() {
    let (a, b, to_b) = watched();
    let memory = [Buf::from_vec(vec![0; 1 << 20]), Buf::from_vec(vec![0; 8])];
    let keys = memory.each_ref().map(|m| b.windows.open(None, m, Rights::ALL, 0).unwrap());
    let from = [Buf::from_vec(pattern(1 << 20)), Buf::from_vec(pattern(8))];
    // A long one, which is pulled, and a short one with the word, which may overtake it.
    a.endpoint.turn(|turn| {
        let share = turn.share(2);
        for (n, data) in [(0, None), (1, Some(99))] {
            let (at, along) = (Spot { key: keys[n], addr: 0 }, Along { data, share });
            turn.put(to_b, &from[n], at, along, Some(cookie(n as u64))).unwrap();
        }
    });
    let mut parts = [accessed(next(&b, &a)), accessed(next(&b, &a))];
    parts.sort();
    assert_eq!(parts, [(Some(keys[0]), 1 << 20, None), (Some(keys[1]), 8, None)]);
    assert_eq!(accessed(next(&b, &a)), (None, (1 << 20) + 8, Some(99)));
    assert!(bytes(&memory[0]) == pattern(1 << 20));
    assert_eq!(bytes(&memory[1]), pattern(8));
    nothing(&b);
    ended(next(&a, &b)).1.unwrap();
    ended(next(&a, &b)).1.unwrap();
}

#[test]
fn a_peer_that_ends_no_operation_that_it_has_begun_is_refused_in_the_end() {
    let (a, b, to_b) = watched();
    let memory = Buf::from_vec(vec![0; 1 << 20]);
    let key = b.windows.open(None, &memory, Rights::ALL, 0).unwrap();
    let (short, long) = (Buf::from_vec(pattern(8)), Buf::from_vec(pattern(1 << 20)));
    let put = |from: &Buf, share: Option<Share>| {
        let (at, along) = (Spot { key, addr: 0 }, Along { data: None, share });
        a.endpoint.turn(|turn| turn.put(to_b, from, at, along, Some(cookie(1))).unwrap());
        ended(next(&a, &b)).1
    };
    // One request each of operations that have two.
    let share = || a.endpoint.turn(|turn| turn.share(2));
    let first = share();
    put(&short, first).unwrap();
    for _ in 1..BEGUN_MAX {
        put(&short, share()).unwrap();
    }
    for from in [&short, &long] {
        let error = put(from, share()).unwrap_err().to_string();
        assert!(error.contains("have begun there and not ended"), "{error}");
    }
    // Room comes with the end of one.
    put(&long, first).unwrap();
    assert_eq!(accessed(next(&b, &a)), (Some(key), 8 + (1 << 20), None));
    put(&short, share()).unwrap();
    nothing(&b);
}

#[test]
fn a_read_is_told_when_it_has_been_done() {
    let (a, b, to_b) = watched();
    let memory = Buf::from_vec(pattern(1 << 20));
    let key = b.windows.open(None, &memory, Rights::ALL, 0).unwrap();
    let into = Buf::from_vec(vec![0; 1 << 20]);
    let at = Spot { key, addr: 0 };
    a.endpoint.turn(|turn| turn.get(to_b, into.clone(), at, None, Some(cookie(1))).unwrap());
    // The asker does not come back for the bytes, unless its tender does.
    let look = |_| {
        b.endpoint.turn(|turn| {
            turn.progress();
            turn.occurrence()
        })
    };
    let told = (0..1000).find_map(look).unwrap_or_else(|| next(&b, &a));
    assert_eq!(accessed(told), (Some(key), 1 << 20, None));
    assert!(bytes(&into) == pattern(1 << 20));
    assert_eq!(ended(next(&a, &b)).0, 1);
}

/// Sends messages that nobody receives, until the other asks for announcements only.
fn flood(from: &Side, to: u32, at: &Side) {
    let message = Buf::from_vec(vec![1; 16 << 10]);
    for tag in 0..4110 {
        let envelope = envelope(Kind::TAGGED, tag);
        from.endpoint.turn(|turn| turn.send(to, &envelope, &message, None).unwrap());
        at.endpoint.turn(|turn| turn.progress());
    }
    let last = Want { source: None, tag: 4109, ignore: 0, kind: Kind::TAGGED };
    shown(at, from, &last);
}

#[test]
fn windows_work_in_order_while_messages_must_be_announced() {
    let (a, b, to_b) = watched();
    let to_a = b.endpoint.add_peer(&a.endpoint.address().unwrap()).unwrap();
    flood(&a, to_b, &b);
    flood(&b, to_a, &a);
    let memory = Buf::from_vec(vec![0; 1 << 20]);
    let key = b.windows.open(None, &memory, Rights::ALL, 0).unwrap();
    let at = |addr| Spot { key, addr };
    let none = Buf::empty();
    let (short, long) = (Buf::from_vec(pattern(100)), Buf::from_vec(pattern(1 << 19)));
    let into = Buf::from_vec(vec![0; 1 << 19]);
    a.endpoint.turn(|turn| {
        turn.put(to_b, &short, at(0), word(Some(5)), Some(cookie(1))).unwrap();
        turn.put(to_b, &long, at(1 << 19), word(Some(6)), Some(cookie(2))).unwrap();
        turn.put(to_b, &short, NOWHERE, word(Some(7)), Some(cookie(3))).unwrap();
        // 3, then 3 + 4, then (3 + 4) * 5.
        let steps = [(AtomicOp::Write, 3u64), (AtomicOp::Sum, 4), (AtomicOp::Product, 5)];
        for (n, (op, operand)) in steps.into_iter().enumerate() {
            let operands = Buf::from_vec(operand.to_ne_bytes().to_vec());
            let (scalar, count, fetch) = (Scalar::U64, 1, None);
            let atomic =
                Atomic { op, scalar, count, operands: &operands, comparands: &none, fetch };
            turn.atomic(to_b, atomic, at(128), word(None), Some(cookie(4 + n as u64))).unwrap();
        }
    });
    let mut ends: Vec<_> = (0..6).map(|_| ended(next(&a, &b))).map(|e| (e.0, e.1)).collect();
    ends.sort_by_key(|end| end.0);
    for (context, result) in ends {
        assert_eq!(result.is_err(), context == 3, "{context}: {result:?}");
        if let Err(error) = result {
            assert!(error.to_string().contains("no window with this key"), "{error}");
        }
    }
    a.endpoint
        .turn(|turn| turn.get(to_b, into.clone(), at(1 << 19), None, Some(cookie(7))).unwrap());
    assert_eq!(ended(next(&a, &b)).1.unwrap().len, 1 << 19);
    assert!(bytes(&into) == pattern(1 << 19));
    assert_eq!(bytes(&memory)[..100], pattern(100));
    assert_eq!(bytes(&memory)[128..136], 35u64.to_ne_bytes());
    let mut words: Vec<u64> = (0..6).filter_map(|_| accessed(next(&b, &a)).2).collect();
    words.sort_unstable();
    assert_eq!(words, [5, 6]);
}

/// Puts that would go in one piece, were there room for so many: the others are announced, and
/// pulled from where they lie. There is room for all if the owner's tender takes them meanwhile, so
/// it is tried more than once.
#[test]
fn puts_that_find_no_room_arrive_all_the_same() {
    let (a, b, to_b) = watched();
    let (len, puts) = (30_000, 40);
    let memory = Buf::from_vec(vec![0; puts * len]);
    let key = b.windows.open(None, &memory, Rights::ALL, 0).unwrap();
    let announced = || {
        let all = a.endpoint.counters();
        all.into_iter().find(|(name, _)| name == "shm.announced").unwrap().1
    };
    for round in 1..=100 {
        let from: Vec<Buf> =
            (0..puts).map(|n| Buf::from_vec(vec![(n + round) as u8; len])).collect();
        a.endpoint.turn(|turn| {
            for (n, from) in from.iter().enumerate() {
                let at = Spot { key, addr: (n * len) as u64 };
                turn.put(to_b, from, at, Along::default(), Some(cookie(n as u64))).unwrap();
            }
        });
        let mut told = 0;
        while told < puts {
            told += usize::from(matches!(next(&a, &b), Occurrence::Ended { result: Ok(_), .. }));
        }
        for (n, part) in bytes(&memory).chunks(len).enumerate() {
            assert!(part.iter().all(|byte| *byte == (n + round) as u8), "put {n}");
        }
        if announced() > 0 {
            assert!(announced() < (round * puts) as u64, "all were");
            return;
        }
    }
    panic!("none was announced");
}
