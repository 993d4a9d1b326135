//! What one side has begun goes on though it makes no further call: its tender looks after it. No
//! time is asserted; were a call needed, these would not end.

use super::turn_tests::*;
use super::*;
use crate::boundary::Occurrence;
use crate::remote::{Rights, Spot};

/// The next occurrence at one side; nobody makes a call at the other.
fn alone(at: &Side) -> Occurrence {
    for _ in 0..10_000_000 {
        let found = at.endpoint.turn(|turn| {
            turn.progress();
            turn.occurrence()
        });
        if let Some(occurrence) = found {
            return occurrence;
        }
        std::thread::yield_now();
    }
    panic!("the other side needs a call");
}

#[test]
fn what_was_sent_arrives_though_the_sender_makes_no_further_call() {
    let (a, b, to_b) = pair();
    // The first one finds no connection yet; the last ones are announced.
    for (len, count) in [(8, 1), (8, 40), (1320, 40), (16 << 10, 40), (300_000, 3)] {
        let from = Buf::from_vec(pattern(len));
        for tag in 0..count {
            a.endpoint.turn(|turn| {
                turn.send(to_b, &envelope(Kind::TAGGED, tag), &from, None).unwrap();
            });
        }
        for tag in 0..count {
            let into = Buf::from_vec(vec![0; len]);
            b.endpoint.turn(|turn| turn.receive(any(Kind::TAGGED), into.clone(), cookie(tag)));
            let (context, result, _) = ended(alone(&b));
            assert_eq!((context, result.unwrap().tag()), (tag, tag));
            assert!(bytes(&into) == pattern(len), "{len} bytes");
        }
    }
}

#[test]
fn memory_is_reached_though_its_owner_makes_no_call() {
    const LEN: usize = 100_000;
    let (a, b, to_b) = pair();
    let memory = Buf::from_vec(vec![0; LEN]);
    let key = b.windows.open(None, &memory, Rights::ALL, 0).unwrap();
    for len in [8, LEN] {
        let (from, into) = (Buf::from_vec(pattern(len)), Buf::from_vec(vec![0; len]));
        let spot = Spot { key, addr: 0 };
        a.endpoint.turn(|turn| turn.put(to_b, &from, spot, word(None), Some(cookie(1))).unwrap());
        assert_eq!(ended(alone(&a)).0, 1);
        a.endpoint.turn(|turn| turn.get(to_b, into.clone(), spot, None, Some(cookie(2))).unwrap());
        assert_eq!(ended(alone(&a)).0, 2);
        assert!(bytes(&into) == pattern(len), "{len} bytes");
    }
}
