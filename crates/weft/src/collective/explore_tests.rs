//! Every run of a few ranks: whatever the network loses, doubles, delays and reorders, and whenever
//! ranks enter and lose patience.
//!
//! The network keeps every frame that was ever sent, and may deliver each at any time, as often as
//! it likes, or never: no network does more. A state is the ranks and the set of frames sent.

use std::collections::{HashSet, VecDeque};

use super::*;

/// From, to, number, mark.
type Sent = (u32, u32, u64, Mark);

/// Every frame that was ever seen, so that a set of them is a word.
#[derive(Default)]
struct Frames(Vec<Sent>);

impl Frames {
    fn bit(&mut self, frame: Sent) -> u128 {
        let at = self.0.iter().position(|&f| f == frame).unwrap_or_else(|| {
            self.0.push(frame);
            self.0.len() - 1
        });
        assert!(at < 128, "too many different frames");
        1 << at
    }

    fn of(&self, set: u128) -> impl Iterator<Item = Sent> + '_ {
        self.0.iter().enumerate().filter(move |(at, _)| set >> at & 1 != 0).map(|(_, f)| *f)
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    ranks: Vec<Barrier>,
    sent: u128,
}

/// What can happen to a rank.
#[derive(Clone, Copy)]
enum Happening {
    Enter(u32),
    Ask(u32),
    Deliver(Sent),
}

impl State {
    fn new(algorithm: Algorithm, size: u32) -> State {
        let ranks = (0..size).map(|rank| Barrier::new(algorithm, rank, size)).collect();
        State { ranks, sent: 0 }
    }

    fn happens(&mut self, frames: &mut Frames, happening: Happening) {
        let size = self.ranks.len() as u32;
        let State { ranks, sent } = self;
        let (Happening::Enter(rank) | Happening::Ask(rank) | Happening::Deliver((_, rank, ..))) =
            happening;
        let out = |target: Target, number, mark| match target {
            Target::One { rank: to, .. } => *sent |= frames.bit((rank, to, number, mark)),
            Target::All => {
                for to in (0..size).filter(|&to| to != rank) {
                    *sent |= frames.bit((rank, to, number, mark));
                }
            }
        };
        let barrier = &mut ranks[rank as usize];
        match happening {
            Happening::Enter(_) => barrier.enter(out),
            Happening::Ask(_) => barrier.ask(out),
            Happening::Deliver((from, _, number, mark)) => barrier.take(from, number, mark, out),
        }
    }

    /// The promise: none has left a barrier that not all have entered.
    fn check(&self) {
        let entered = self.ranks.iter().map(Barrier::number).min().unwrap_or(0);
        for barrier in &self.ranks {
            let left = barrier.number() - u64::from(barrier.is_inside());
            assert!(left <= entered, "left barrier {left}, but not all have entered it");
        }
    }

    /// What the ranks may do of themselves.
    fn of_themselves(&self, barriers: u64) -> Vec<Happening> {
        let own = |(rank, barrier): (usize, &Barrier)| match barrier.is_inside() {
            true => Some(Happening::Ask(rank as u32)),
            false => (barrier.number() < barriers).then_some(Happening::Enter(rank as u32)),
        };
        self.ranks.iter().enumerate().filter_map(own).collect()
    }

    /// From here on the network delivers, but all that was sent before is lost: everyone must get
    /// through by asking.
    fn check_recovery(&self, frames: &mut Frames, barriers: u64) {
        let mut state = self.clone();
        state.sent = 0;
        for _ in 0..1000 {
            for happening in state.of_themselves(barriers) {
                state.happens(frames, happening);
            }
            let sent: Vec<Sent> = frames.of(std::mem::take(&mut state.sent)).collect();
            for frame in sent {
                state.happens(frames, Happening::Deliver(frame));
            }
            if state.ranks.iter().all(|b| !b.is_inside() && b.number() == barriers) {
                return;
            }
        }
        panic!("stuck: {:?}", state.ranks);
    }
}

/// Goes through all states; gives how many there are.
fn explore(algorithm: Algorithm, size: u32, barriers: u64) -> usize {
    let start = State::new(algorithm, size);
    let mut seen = HashSet::from([start.clone()]);
    let mut queue = VecDeque::from([start]);
    let mut recovered = HashSet::new();
    let mut frames = Frames::default();
    while let Some(state) = queue.pop_front() {
        state.check();
        if recovered.insert(state.ranks.clone()) {
            state.check_recovery(&mut frames, barriers);
        }
        let mut all = state.of_themselves(barriers);
        all.extend(frames.of(state.sent).map(Happening::Deliver));
        for happening in all {
            let mut next = state.clone();
            next.happens(&mut frames, happening);
            if seen.insert(next.clone()) {
                queue.push_back(next);
            }
        }
    }
    seen.len()
}

#[test]
fn no_run_of_two_ranks_breaks_the_promise_or_gets_stuck() {
    for algorithm in Algorithm::USUAL {
        let states = explore(algorithm, 2, 3);
        assert!(states > 100, "{algorithm}: only {states} states");
    }
}

#[test]
fn no_run_of_three_or_four_ranks_breaks_the_promise_or_gets_stuck() {
    let runs = [
        ("dissemination", 3, 2),
        ("dissemination2", 3, 1),
        ("dissemination", 4, 1),
        ("tree2", 3, 2),
        ("tree3", 3, 2),
        ("concurrent", 3, 2),
        ("tree2", 4, 2),
        ("nomial3", 5, 1),
        ("concurrent", 5, 1),
    ];
    for (name, size, barriers) in runs {
        let states = explore(name.parse().unwrap(), size, barriers);
        assert!(states > 300, "{name} with {size}: only {states} states");
    }
}

#[test]
fn frames_that_make_no_sense_change_nothing() {
    let algorithm = Algorithm::Tree { arity: 3, links: 1 };
    let mut barrier = Barrier::new(algorithm, 0, 4);
    let no_frame = |_: Target, _: u64, _: Mark| panic!("a frame was sent");
    barrier.enter(no_frame);
    let before = barrier.clone();
    let nonsense = [
        (3, 1, Mark::Entered(0)),
        (1, 1, Mark::Entered(2)),
        (1, 1, Mark::Entered(u32::MAX)),
        (1, 0, Mark::Entered(0)),
        (1, 3, Mark::Entered(0)),
        (1, u64::MAX, Mark::Entered(0)),
        (1, 1, Mark::Released),
        (1, 1, Mark::AskEntered(0)),
        (9, 0, Mark::AskEntered(0)),
        (1, 1, Mark::AskReleased),
        (u32::MAX, 7, Mark::AskReleased),
    ];
    for (from, number, mark) in nonsense {
        barrier.take(from, number, mark, no_frame);
        assert_eq!(barrier, before, "{from} {number} {mark:?}");
    }
}
