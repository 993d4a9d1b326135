//! Slates between threads: rounds of all kinds and lengths, over many pages.
#![cfg(not(loom))]

use std::thread;

use weft_ring::{Board, LINE, Memory, Shown, Slate};

fn slates(members: usize) -> Vec<Slate> {
    let mem = Memory::zeroed(Slate::len(members));
    (0..members).map(|own| Slate::new(mem.clone(), own, members).unwrap()).collect()
}

fn wait(mut is_there: impl FnMut() -> bool) {
    while !is_there() {
        thread::yield_now();
    }
}

fn byte(round: usize, member: usize, at: usize) -> u8 {
    (round * 31 + member * 7 + at) as u8
}

/// In each round all show something, or one does; and only those look who are to.
fn go_through(mut slate: Slate, own: usize, rounds: usize) {
    let members = slate.members();
    for round in 0..rounds {
        let len = [0, 1, 8, 32, 33, 56, 120, 121, 500, 4096, 9000, Slate::ROOM][round * 5 % 12];
        slate.begin(len, round as u32 % 3);
        let one = (round % 4 != 0).then_some(round / 16 % members);
        if one.is_none_or(|one| one == own) {
            wait(|| slate.may_show());
            let bytes: Vec<u8> = (0..len).map(|at| byte(round, own, at)).collect();
            slate.show(&bytes);
        }
        for member in (0..members).filter(|member| one.is_none_or(|one| one == *member)) {
            wait(|| slate.shown(member) == Shown::This);
            let right = |(at, b): (usize, &u8)| *b == byte(round, member, at);
            assert_eq!(slate.bytes(member).len(), len);
            assert!(slate.bytes(member).iter().enumerate().all(right), "round {round}");
        }
    }
}

#[test]
fn bytes_are_those_of_the_round_and_the_member() {
    for members in [1, 2, 3, 5] {
        thread::scope(|scope| {
            for (own, slate) in slates(members).into_iter().enumerate() {
                scope.spawn(move || go_through(slate, own, 3000));
            }
        });
    }
}

#[test]
fn nobody_writes_where_somebody_may_read() {
    let [mut ahead, mut behind] = <[Slate; 2]>::try_from(slates(2)).unwrap();
    let mut shown = 0;
    loop {
        ahead.begin(4096, 1);
        if !ahead.may_show() {
            break;
        }
        ahead.show(&[shown as u8; 4096]);
        shown += 1;
    }
    assert!(shown >= 8 && ahead.is_behind(1) && !ahead.is_behind(0));
    for round in 0..shown {
        behind.begin(4096, 1);
        assert_eq!((behind.shown(0), behind.bytes(0)), (Shown::This, &[round as u8; 4096][..]));
    }
    assert!(ahead.may_show());
}

#[test]
fn who_does_something_else_is_found_out() {
    let [mut one, mut other] = <[Slate; 2]>::try_from(slates(2)).unwrap();
    one.begin(8, 1);
    other.begin(8, 2);
    assert_eq!(one.shown(1), Shown::Nothing);
    other.show(&[0; 8]);
    assert_eq!((one.shown(1), other.shown(1)), (Shown::Other, Shown::This));
}

#[test]
fn a_board_has_a_slate_where_there_is_room_for_it() {
    let board = Board::new(Memory::zeroed(Board::len_with_slate(3))).unwrap();
    assert_eq!(board.slate(2, 3).unwrap().members(), 3);
    assert!(board.slate(3, 3).is_err() && board.slate(0, 4).is_err());
    let without = Board::new(Memory::zeroed(Board::LEN)).unwrap();
    assert!(without.slate(0, 1).is_err() && Slate::len(1).is_multiple_of(LINE));
}
