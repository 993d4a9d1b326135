//! Every interleaving, and every order the memory model allows, of small runs.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-ring --release --test loom`
#![cfg(loom)]

use loom::thread;
use weft_ring::{
    Bell, Blocks, Board, Consumer, Duplex, Geometry, Head, Memory, Pace, Producer, Refused, Shown,
    Slate, Sleep, Turn,
};

fn pair() -> (Producer, Consumer) {
    let geometry = Geometry::new(4, 256).unwrap();
    let mem = Memory::zeroed(geometry.size());
    (Producer::new(mem.clone(), geometry).unwrap(), Consumer::new(mem, geometry).unwrap())
}

fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(f);
}

#[test]
fn what_is_read_is_what_was_written() {
    model(|| {
        let (mut producer, mut consumer) = pair();
        let sender = thread::spawn(move || {
            producer.push(1, Head(10, 0, 0), &[1; 8]).unwrap();
            producer.push(2, Head(20, 0, 0), &[2; 40]).unwrap();
        });
        for i in 1..=2u8 {
            let item = loop {
                match consumer.peek().unwrap() {
                    Some(&item) => break item,
                    None => thread::yield_now(),
                }
            };
            assert_eq!((item.kind, item.head.0), (i, u64::from(i) * 10));
            assert!(consumer.payload().iter().all(|&b| b == i));
            consumer.release();
        }
        sender.join().unwrap();
    });
}

#[test]
fn room_is_used_again_only_after_it_was_given_back() {
    model(|| {
        let (mut producer, mut consumer) = pair();
        for i in 0..4u8 {
            producer.push(i, Head::default(), &[i; 64]).unwrap();
        }
        let receiver = thread::spawn(move || {
            for i in 0..2u8 {
                consumer.peek().unwrap().unwrap();
                assert_eq!(consumer.payload(), &[i; 64]);
                consumer.release();
            }
            consumer
        });
        let mut sent = 0;
        for i in 4..6u8 {
            match producer.push(i, Head::default(), &[i; 64]) {
                Ok(()) => sent += 1,
                Err(Refused::Full) => thread::yield_now(),
                Err(other) => panic!("{other:?}"),
            }
        }
        let mut consumer = receiver.join().unwrap();
        let mut left = 0;
        while consumer.peek().unwrap().is_some() {
            consumer.payload();
            consumer.release();
            left += 1;
        }
        assert_eq!(left, 2 + sent);
    });
}

/// If the owner goes to sleep (it has armed, and looked once more in vain), then the sender must be
/// told to wake it.
#[test]
fn no_wake_up_is_lost() {
    model(|| {
        let (mut producer, mut consumer) = pair();
        let bell = Bell::new(Memory::zeroed(64)).unwrap();
        let theirs = bell.clone();
        let sender = thread::spawn(move || {
            producer.push(1, Head::default(), &[]).unwrap();
            theirs.ring(0)
        });
        bell.arm(Sleep::Futex);
        let sleeps = consumer.peek().unwrap().is_none();
        let woken = sender.join().unwrap();
        if sleeps {
            assert_eq!(woken, Some(Sleep::Futex));
        }
    });
}

/// If the producer goes to sleep for want of room, the consumer must be told that it waits.
#[test]
fn no_word_of_room_is_lost() {
    model(|| {
        let (mut producer, mut consumer) = pair();
        for _ in 0..4 {
            producer.push(0, Head::default(), &[]).unwrap();
        }
        assert_eq!(producer.push(0, Head::default(), &[]), Err(Refused::Full));
        let receiver = thread::spawn(move || {
            consumer.peek().unwrap().unwrap();
            consumer.release()
        });
        let room = producer.want_room().unwrap();
        let told = receiver.join().unwrap();
        assert!(room || told);
    });
}

fn ends() -> (Duplex, Duplex) {
    let geometry = Geometry::new(4, 256).unwrap();
    let (there, back) = (Memory::zeroed(geometry.size()), Memory::zeroed(geometry.size()));
    let (line, blocks) = (Memory::zeroed(64), Memory::zeroed(2 * 64));
    let end = |out: &Memory, into: &Memory, first| {
        let out = Producer::new(out.clone(), geometry).unwrap();
        let into = Consumer::new(into.clone(), geometry).unwrap();
        let turn = Turn::new(line.clone(), first, Pace::Pause(0)).unwrap();
        Duplex::new(out, into, turn, Blocks::new(blocks.clone(), 64, first).unwrap())
    };
    (end(&there, &back, true), end(&back, &there, false))
}

/// The same, and longer payloads go in the one block that each end has; and who has just written
/// leaves out one look.
fn lending() -> (Duplex, Duplex) {
    let (mut a, mut b) = ends();
    for end in [&mut a, &mut b] {
        end.lend();
        end.set_pace(Pace::Skip(1));
    }
    (a, b)
}

fn next(end: &mut Duplex) -> (u8, u64) {
    let item = loop {
        match end.peek_patiently().unwrap() {
            Some(&item) => break item,
            None => thread::yield_now(),
        }
    };
    assert!(end.payload().iter().all(|&b| b == item.kind));
    end.release();
    (item.kind, item.head.0)
}

/// The first item of each round goes by the turn line, the second by the ring.
#[test]
fn the_order_holds_between_turn_line_and_ring() {
    model(|| {
        let (mut a, mut b) = ends();
        let sender = thread::spawn(move || {
            a.push(1, Head(10, 0, 0), &[1; 8]).unwrap();
            a.push(2, Head(20, 0, 0), &[2; 8]).unwrap();
            assert_eq!(next(&mut a), (3, 30));
            a.push(4, Head(40, 0, 0), &[4; 8]).unwrap();
        });
        assert_eq!(next(&mut b), (1, 10));
        assert_eq!(next(&mut b), (2, 20));
        b.push(3, Head(30, 0, 0), &[3; 8]).unwrap();
        assert_eq!(next(&mut b), (4, 40));
        sender.join().unwrap();
    });
}

/// An item of the ring that was sent before the one in the turn line comes first.
#[test]
fn the_turn_line_does_not_overtake_the_ring() {
    model(|| {
        let (mut a, mut b) = ends();
        let sender = thread::spawn(move || {
            a.push(1, Head(10, 0, 0), &[1; 40]).unwrap();
            a.push(2, Head(20, 0, 0), &[2; 8]).unwrap();
        });
        assert_eq!(next(&mut b), (1, 10));
        assert_eq!(next(&mut b), (2, 20));
        sender.join().unwrap();
    });
}

/// A block that came by the turn line goes back by the ring, and there and back once more.
#[test]
fn a_block_is_written_by_one_end_at_a_time() {
    model(|| {
        let (mut a, mut b) = lending();
        let sender = thread::spawn(move || {
            a.push(1, Head(10, 0, 0), &[1; 40]).unwrap();
            assert_eq!(next(&mut a), (2, 20));
            assert_eq!(next(&mut a), (3, 30));
            a.push(4, Head(40, 0, 0), &[4; 64]).unwrap();
        });
        assert_eq!(next(&mut b), (1, 10));
        b.push(2, Head(20, 0, 0), &[2; 40]).unwrap();
        b.push(3, Head(30, 0, 0), &[3; 64]).unwrap();
        assert_eq!(next(&mut b), (4, 40));
        sender.join().unwrap();
    });
}

/// Both ends send at once, each by its own block.
#[test]
fn blocks_of_both_ends_are_on_their_way_at_once() {
    model(|| {
        let (mut a, mut b) = lending();
        let sender = thread::spawn(move || {
            a.push(1, Head(10, 0, 0), &[1; 40]).unwrap();
            assert_eq!(next(&mut a), (2, 20));
            a.push(3, Head(30, 0, 0), &[3; 40]).unwrap();
        });
        b.push(2, Head(20, 0, 0), &[2; 40]).unwrap();
        assert_eq!(next(&mut b), (1, 10));
        assert_eq!(next(&mut b), (3, 30));
        sender.join().unwrap();
    });
}

#[test]
fn no_wake_up_by_the_turn_line_is_lost() {
    model(|| {
        let (mut a, mut b) = ends();
        let bell = Bell::new(Memory::zeroed(64)).unwrap();
        let theirs = bell.clone();
        let sender = thread::spawn(move || {
            a.push(1, Head::default(), &[1]).unwrap();
            theirs.ring(0)
        });
        bell.arm(Sleep::Futex);
        let sleeps = b.peek().unwrap().is_none();
        let woken = sender.join().unwrap();
        if sleeps {
            assert_eq!(woken, Some(Sleep::Futex));
        }
    });
}

/// The same for an owner who has its callers noted: it looks once, and from then on only where
/// somebody has rung. It never sleeps with something in its ring that it does not know of.
#[test]
fn no_wake_up_is_lost_by_who_looks_once() {
    model(|| {
        let bell = Bell::new(Memory::zeroed(64)).unwrap();
        let (mut producer, mut consumer) = pair();
        let ring = bell.clone();
        let sender = thread::spawn(move || {
            producer.push(1, Head(10, 0, 0), &[]).unwrap();
            ring.ring(5)
        });
        bell.note();
        let found = consumer.peek().unwrap().is_some();
        let asleep = !found && bell.arm_noting(Sleep::Futex);
        let woken = sender.join().unwrap();
        if asleep {
            assert_eq!(woken, Some(Sleep::Futex));
            bell.wake_up();
        }
        assert!(found || bell.callers() == Bell::bit(5));
        assert!(found || consumer.peek().unwrap().is_some());
    });
}

/// Of two callers at once none is forgotten, and one at most wakes the owner.
#[test]
fn no_caller_is_forgotten() {
    model(|| {
        let bell = Bell::new(Memory::zeroed(64)).unwrap();
        bell.note();
        let (one, two) = (bell.clone(), bell.clone());
        let one = thread::spawn(move || one.ring(1));
        let two = thread::spawn(move || two.ring(2));
        let asleep = bell.arm_noting(Sleep::Futex);
        let early = if asleep { 0 } else { bell.callers() };
        let woken = [one.join().unwrap(), two.join().unwrap()];
        let wakes = woken.iter().filter(|w| w.is_some()).count();
        assert!(wakes <= 1 && (wakes == 1 || !asleep));
        assert_eq!(early | bell.callers(), Bell::bit(1) | Bell::bit(2));
    });
}

/// Nobody leaves a barrier before all have entered it, and who sleeps is woken: the last one to
/// arrive opens it, then rings.
#[test]
fn a_board_opens_for_all_or_nobody() {
    /// What became of one who has arrived.
    #[derive(PartialEq)]
    enum End {
        Opened(Option<Sleep>),
        Left,
        Asleep,
    }
    model(|| {
        let board = Board::new(Memory::zeroed(Board::LEN)).unwrap();
        let bells: Vec<Bell> = (0..2).map(|_| Bell::new(Memory::zeroed(64)).unwrap()).collect();
        let cell = loom::sync::Arc::new(loom::cell::UnsafeCell::new(0u32));
        let meet = |board: &Board, own: &Bell, other: &Bell| {
            if board.arrive() == 2 {
                board.open(1);
                return End::Opened(other.nudge());
            }
            own.arm(Sleep::Futex);
            if board.opened() == 1 { End::Left } else { End::Asleep }
        };
        let (theirs, shared) = (board.clone(), cell.clone());
        let (one, two) = (bells[0].clone(), bells[1].clone());
        let other = thread::spawn(move || {
            // SAFETY: nobody reads before the barrier.
            shared.with_mut(|at| unsafe { *at = 7 });
            meet(&theirs, &two, &one)
        });
        let mine = meet(&board, &bells[0], &bells[1]);
        if mine != End::Asleep {
            // SAFETY: written before the barrier only.
            assert_eq!(cell.with(|at| unsafe { *at }), 7);
        }
        let ends = [mine, other.join().unwrap()];
        assert!(ends.iter().any(|end| matches!(end, End::Opened(_))));
        if ends.contains(&End::Asleep) {
            assert!(ends.contains(&End::Opened(Some(Sleep::Futex))), "nobody wakes the sleeper");
        }
        assert!(board.opened() == 1 && board.arrived() == 2);
    });
}

/// The same for two members, who tell each other: each rings in any case, and then looks.
#[test]
fn a_board_of_two_lets_both_go_or_nobody() {
    model(|| {
        let board = Board::new(Memory::zeroed(Board::LEN)).unwrap();
        let bells: Vec<Bell> = (0..2).map(|_| Bell::new(Memory::zeroed(64)).unwrap()).collect();
        let cell = loom::sync::Arc::new(loom::cell::UnsafeCell::new(0u32));
        // Whether it has left, and whom it has found asleep.
        let meet = |board: &Board, who: usize, own: &Bell, other: &Bell| {
            board.tell(who, 1);
            let early = board.told(1 - who) == 1;
            let found = other.nudge();
            if early || board.told(1 - who) == 1 {
                return (true, found);
            }
            own.arm(Sleep::Futex);
            (board.told(1 - who) == 1, found)
        };
        let (theirs, shared) = (board.clone(), cell.clone());
        let (one, two) = (bells[0].clone(), bells[1].clone());
        let other = thread::spawn(move || {
            // SAFETY: nobody reads before the barrier.
            shared.with_mut(|at| unsafe { *at = 7 });
            meet(&theirs, 1, &two, &one)
        });
        let mine = meet(&board, 0, &bells[0], &bells[1]);
        if mine.0 {
            // SAFETY: written before the barrier only.
            assert_eq!(cell.with(|at| unsafe { *at }), 7);
        }
        let theirs = other.join().unwrap();
        for ((left, _), (other_left, found)) in [(mine, theirs), (theirs, mine)] {
            let woken = other_left && found == Some(Sleep::Futex);
            assert!(left || woken, "nobody wakes the sleeper");
        }
    });
}

/// Two members show each other a byte over several pages, and go to sleep where the other is late:
/// what is seen is of this round, and nobody sleeps for something that was shown.
#[test]
fn what_a_slate_shows_is_of_this_round_and_wakes_who_sleeps_for_it() {
    /// What became of a member: how many rounds it saw, whether it fell asleep then, and in which
    /// rounds it found the other asleep.
    fn run(mut slate: Slate, own: usize) -> (u32, bool, u32) {
        let (mut seen, mut woken) = (0, 0);
        for round in 1..=3u8 {
            let turned = slate.begin(1, 9);
            if turned && slate.sleepers().next().is_some() {
                woken += 1;
            }
            if !slate.may_show() {
                slate.doze(true);
                if !slate.may_show() {
                    return (seen, true, woken);
                }
                slate.doze(false);
            }
            slate.show(&[round * 2 + own as u8]);
            let there = |slate: &Slate| slate.shown(1 - own) == Shown::This;
            let mut over = there(&slate);
            if !over {
                slate.settle();
                over = there(&slate);
            }
            if over {
                woken += slate.sleepers().count() as u32;
            } else {
                slate.doze(true);
                over = there(&slate);
                if !over {
                    return (seen, true, woken);
                }
                slate.doze(false);
                woken += slate.sleepers().count() as u32;
            }
            assert_eq!(slate.bytes(1 - own), [round * 2 + (1 - own) as u8]);
            seen += 1;
        }
        (seen, false, woken)
    }
    model(|| {
        let mem = Memory::zeroed(Slate::len(2));
        let theirs = Slate::new(mem.clone(), 1, 2).unwrap();
        let other = thread::spawn(move || run(theirs, 1));
        let mine = run(Slate::new(mem, 0, 2).unwrap(), 0);
        let theirs = other.join().unwrap();
        for ((_, asleep, _), (_, also, woken)) in [(mine, theirs), (theirs, mine)] {
            assert!(!asleep || woken > 0 || also, "nobody wakes the sleeper");
        }
        assert!(!(mine.1 && theirs.1) || mine.2 + theirs.2 > 0, "both sleep");
    });
}
