//! Every run of a few ranks by every algorithm, as `explore` goes through them.

use super::explore::{Member, explore, run, run_with_two_faults};
use super::*;

impl Member for Barrier {
    type Key = Barrier;
    type Frame = (u64, Mark);

    fn key(&self) -> Barrier {
        self.clone()
    }

    fn enter(&mut self, out: &mut Vec<(u32, (u64, Mark))>) {
        let others = self.others();
        Barrier::enter(self, collect(others, out));
    }

    fn ask(&mut self, out: &mut Vec<(u32, (u64, Mark))>) {
        let others = self.others();
        Barrier::ask(self, collect(others, out));
    }

    fn take(&mut self, from: u32, frame: &(u64, Mark), out: &mut Vec<(u32, (u64, Mark))>) {
        let (others, (number, mark)) = (self.others(), *frame);
        Barrier::take(self, from, number, mark, collect(others, out));
    }

    fn number(&self) -> u64 {
        Barrier::number(self)
    }

    fn is_inside(&self) -> bool {
        Barrier::is_inside(self)
    }

    fn is_question(frame: &(u64, Mark)) -> bool {
        matches!(frame.1, Mark::AskEntered(_) | Mark::AskReleased)
    }
}

/// Takes down frames; one to all goes to each by itself, for each may get lost by itself.
fn collect(others: Vec<u32>, out: &mut Vec<(u32, (u64, Mark))>) -> impl FnMut(Target, u64, Mark) {
    move |target, number, mark| match target {
        Target::One { rank, .. } => out.push((rank, (number, mark))),
        Target::All => out.extend(others.iter().map(|&to| (to, (number, mark)))),
    }
}

/// All that have names of their own, up to arities that make a difference with so few ranks.
const ALL: [&str; 16] = [
    "dissemination",
    "dissemination2",
    "dissemination3",
    "tree2",
    "tree2-2net",
    "tree3",
    "tree3-2net",
    "tree4",
    "tree4-2net",
    "tree5",
    "nomial3",
    "nomial4",
    "nomial5",
    "concurrent",
    "concurrent-2net",
    "sequencer",
];

/// With their steps worked out as asked for, or beforehand, as real ranks have them.
fn ranks(name: &str, size: u32, table: bool) -> Vec<Barrier> {
    let algorithm: Algorithm = name.parse().unwrap();
    let rank = |rank| {
        let barrier = Barrier::new(algorithm, rank, size);
        if table { barrier.with_table() } else { barrier }
    };
    (0..size).map(rank).collect()
}

/// Goes through all runs of each algorithm; `fits` says of which it would take too long.
fn explore_all(size: u32, barriers: u64, fits: impl Fn(&str) -> bool) {
    for name in ALL.into_iter().filter(|name| fits(name)) {
        let states = explore(ranks(name, size, true), &[], barriers);
        assert!(states > 50, "{name} with {size}: only {states} states");
    }
}

#[test]
fn no_run_of_two_ranks_breaks_the_promise_or_gets_stuck() {
    explore_all(2, 8, |_| true);
}

#[test]
fn no_run_of_three_ranks_breaks_the_promise_or_gets_stuck() {
    explore_all(3, 4, |_| true);
}

#[test]
fn no_run_of_four_ranks_breaks_the_promise_or_gets_stuck() {
    explore_all(4, 2, |_| true);
    explore_all(4, 3, |name| name != "dissemination3");
}

#[test]
fn no_run_of_five_ranks_breaks_the_promise_or_gets_stuck() {
    explore_all(5, 2, |name| name != "dissemination3");
}

/// Tables are what real ranks have, and the simulator has none: both do the same.
#[test]
fn steps_worked_out_beforehand_are_the_same() {
    for name in ALL {
        for size in 1..=20 {
            let (frames, questions) = run(ranks(name, size, false), &[], 3, &[]);
            assert_eq!((frames, questions), run(ranks(name, size, true), &[], 3, &[]));
        }
        assert_eq!(
            explore(ranks(name, 3, true), &[], 1),
            explore(ranks(name, 3, false), &[], 1),
            "{name}"
        );
    }
}

/// A node whose members meet on a board, as one member of the exploration: that a member arrives
/// is what can happen to it. Which one makes no difference: its first member goes on when all have
/// arrived, and whoever is out can do nothing but arrive again.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Node {
    meeting: Meeting,
    first: Barrier,
    /// A defect that has to be found: the first member goes on without waiting for the others.
    hasty: bool,
}

impl Node {
    /// Opens the board if the barrier of the first ones is over.
    fn after(&mut self) {
        if self.first.number() > self.meeting.opened() && !self.first.is_inside() {
            self.meeting.open();
        }
    }
}

impl Member for Node {
    type Key = Node;
    type Frame = (u64, Mark);

    fn key(&self) -> Node {
        self.clone()
    }

    fn enter(&mut self, out: &mut Vec<(u32, (u64, Mark))>) {
        let arrival = self.meeting.arrive();
        let begins = match self.hasty {
            true => self.first.number() == self.meeting.opened(),
            false => arrival == Arrival::FirstGoesOn,
        };
        if begins {
            Member::enter(&mut self.first, out);
            self.after();
        }
    }

    fn ask(&mut self, out: &mut Vec<(u32, (u64, Mark))>) {
        Member::ask(&mut self.first, out);
    }

    fn take(&mut self, from: u32, frame: &(u64, Mark), out: &mut Vec<(u32, (u64, Mark))>) {
        Member::take(&mut self.first, from, frame, out);
        self.after();
    }

    /// The barrier that all its members have entered.
    fn number(&self) -> u64 {
        self.meeting.entered()
    }

    /// Whether none of its members may enter the next one: those out of this one may, so a node is
    /// inside when all have arrived at a barrier that is not open.
    fn is_inside(&self) -> bool {
        self.meeting.entered() > self.meeting.opened()
    }

    fn is_question(frame: &(u64, Mark)) -> bool {
        Barrier::is_question(frame)
    }
}

/// Nodes with so many members each.
fn nodes(name: &str, members: &[u32], hasty: bool) -> Vec<Node> {
    let size = members.len() as u32;
    let node = |(first, members): (Barrier, &u32)| Node {
        meeting: Meeting::new(*members, size == 1),
        first,
        hasty,
    };
    ranks(name, size, true).into_iter().zip(members).map(node).collect()
}

#[test]
fn no_run_of_nodes_with_boards_breaks_the_promise_or_gets_stuck() {
    for name in ALL {
        for (members, barriers) in
            [(&[2, 2][..], 6), (&[3, 1], 6), (&[2, 1, 2], 4), (&[1, 2, 1, 3], 2)]
        {
            let states = explore(nodes(name, members, false), &[], barriers);
            assert!(states > 50, "{name} with {members:?}: only {states} states");
        }
        for members in [&[2, 3][..], &[2, 1, 2], &[1, 2, 1, 3]] {
            run_with_two_faults(&nodes(name, members, false), &[], 2);
        }
    }
}

#[test]
#[should_panic(expected = "but not all have entered it")]
fn a_first_member_that_does_not_wait_for_its_node_is_found() {
    explore(nodes("tree3", &[2, 2], true), &[], 2);
}

/// A barrier with a defect that has to be found.
#[derive(Clone)]
struct Broken {
    barrier: Barrier,
    /// It takes all frames for ones of the barrier that it is in; else it never asks.
    hasty: bool,
}

impl Member for Broken {
    type Key = Barrier;
    type Frame = (u64, Mark);

    fn key(&self) -> Barrier {
        self.barrier.clone()
    }

    fn enter(&mut self, out: &mut Vec<(u32, (u64, Mark))>) {
        Member::enter(&mut self.barrier, out);
    }

    fn ask(&mut self, out: &mut Vec<(u32, (u64, Mark))>) {
        if self.hasty {
            Member::ask(&mut self.barrier, out);
        }
    }

    fn take(&mut self, from: u32, (number, mark): &(u64, Mark), out: &mut Vec<(u32, (u64, Mark))>) {
        let number = if self.hasty { self.barrier.number() } else { *number };
        Member::take(&mut self.barrier, from, &(number, *mark), out);
    }

    fn number(&self) -> u64 {
        self.barrier.number()
    }

    fn is_inside(&self) -> bool {
        self.barrier.is_inside()
    }

    fn is_question(frame: &(u64, Mark)) -> bool {
        Barrier::is_question(frame)
    }
}

fn broken(hasty: bool) -> Vec<Broken> {
    ranks("tree3", 3, true).into_iter().map(|barrier| Broken { barrier, hasty }).collect()
}

#[test]
#[should_panic(expected = "but not all have entered it")]
fn one_that_leaves_early_is_found() {
    explore(broken(true), &[], 2);
}

#[test]
#[should_panic(expected = "stuck for ever")]
fn one_that_never_asks_is_found() {
    explore(broken(false), &[], 1);
}

#[test]
#[should_panic(expected = "not all have entered it, [(")]
fn one_that_leaves_early_after_two_faults_is_found() {
    run_with_two_faults(&broken(true), &[], 2);
}

#[test]
#[should_panic(expected = "stuck, with [")]
fn one_that_never_asks_after_a_fault_is_found() {
    run_with_two_faults(&broken(false), &[], 1);
}

#[test]
fn one_or_two_faults_break_nothing() {
    for name in ALL {
        for size in 2..=7 {
            let runs = run_with_two_faults(&ranks(name, size, true), &[], 2);
            assert!(runs >= 9, "{name} with {size}: {runs}");
        }
    }
}

/// Without a fault there is no frame but those that tell what the algorithm has to tell, whatever
/// it is.
#[test]
fn without_a_fault_there_is_no_frame_too_many() {
    for name in ALL {
        let algorithm: Algorithm = name.parse().unwrap();
        for size in 2..=40u32 {
            let per_barrier = match algorithm {
                Algorithm::Dissemination { ways } => {
                    let mut each = 0;
                    let mut base = 1;
                    while base < size {
                        each += ways.min((size - 1) / base);
                        base *= ways + 1;
                    }
                    each * size
                }
                // One upwards, and what the release is for each.
                _ => 2 * (size - 1),
            };
            let frames = run(ranks(name, size, true), &[], 5, &[]);
            assert_eq!(frames, (5 * per_barrier as usize, 0), "{name} with {size}");
        }
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
