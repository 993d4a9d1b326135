//! Groups with the same id, one after the other: what comes late of the first counts for the first.

use std::os::fd::AsFd;
use std::sync::Arc;

use weft_ring::{Board, Memory};
use weft_sys::mem::{self, Mapping};
use weft_wire::PeerId;

use super::barrier::tests::Paper;
use super::heading::kind;
use super::part::{datagram, what};
use super::team::Team;
use super::{Groups, Plan};

const ID: u64 = 7;

/// The member that this process is.
const ME: u32 = 1;

fn board() -> Board {
    let fd = mem::memfd("weft-test", Board::LEN).unwrap();
    let mapping = Mapping::new(fd.as_fd(), Board::LEN).unwrap();
    Board::new(Memory::new(Arc::new(mapping)).unwrap()).unwrap()
}

/// This process, and its groups of members on these nodes.
struct Process {
    paper: Paper,
    groups: Groups,
    plan: Plan,
    peers: Vec<PeerId>,
}

impl Process {
    fn new(nodes: &[u64], way: &str) -> Process {
        let peers = (0..nodes.len() as u32).map(PeerId).collect();
        let plan = Plan::new(way.parse().unwrap(), nodes, None);
        Process { paper: Paper::default(), groups: Groups::default(), plan, peers }
    }

    fn make(&mut self) -> usize {
        let Process { paper, groups, plan, peers } = self;
        groups.add(paper, peers.clone(), ME, Some(ID), plan).unwrap()
    }

    /// Member `from` says something of its group with the id.
    fn hear(&mut self, from: u32, kind: u8, what: u8, number: u64) {
        let mut team = Team::new(ID, from, self.peers.clone());
        team.plan = self.plan.fingerprint();
        let bytes = datagram(&team, kind, what, number, 0);
        self.groups.accept(&mut self.paper, PeerId(from), &bytes);
    }

    fn hear_farewells(&mut self) {
        for from in (0..self.peers.len() as u32).filter(|from| *from != ME) {
            self.hear(from, kind::BARRIER, what::LEFT, 0);
        }
    }

    fn enter(&mut self, slot: usize) {
        self.groups.enter(&mut self.paper, slot).unwrap();
    }

    /// Whether the barrier is over once a board has come that may be one of the group's.
    fn is_over(&mut self, slot: usize, board: Option<&Board>) -> bool {
        self.paper.boards.extend(board.cloned());
        self.groups.look(&mut self.paper);
        self.groups.has_ended(slot)
    }
}

#[test]
fn a_late_board_is_not_that_of_the_next_group() {
    for others in [1, 2] {
        let mut process = Process::new(&vec![1; 1 + others], "auto");
        let (old, new) = (board(), board());
        let arrives = |board: &Board| match others {
            1 => board.tell(0, 1),
            _ => (1..=others as u64).for_each(|count| assert_eq!(board.arrive(), count)),
        };
        // The others enter its first barrier, which this one does not.
        let slot = process.make();
        arrives(&old);
        process.groups.remove(&mut process.paper, slot).unwrap();
        let slot = process.make();
        process.enter(slot);
        assert!(!process.is_over(slot, Some(&old)), "the others are in the group before");
        assert_eq!(old.told(1), 0, "and nobody has entered its barrier");
        // Now they have left that as well.
        old.close();
        process.hear_farewells();
        assert!(!process.is_over(slot, Some(&old)));
        arrives(&new);
        assert!(process.is_over(slot, Some(&new)));
        assert_eq!(process.groups.ended(slot), Some(Ok(())));
    }
}

#[test]
fn whoever_has_made_a_board_closes_it_in_the_end_and_no_other() {
    for (nodes, is_maker) in [([2, 1, 1], true), ([1, 1, 1], false)] {
        let mut process = Process::new(&nodes, "auto");
        let board = board();
        process.paper.boards.push(board.clone());
        let slot = process.make();
        process.enter(slot);
        assert!(process.paper.boards.is_empty() && !board.is_closed());
        process.groups.remove(&mut process.paper, slot).unwrap();
        assert_eq!(board.is_closed(), is_maker);
    }
}

#[test]
fn a_late_datagram_is_not_of_the_next_group() {
    let mut process = Process::new(&[1, 2], "dissemination");
    let slot = process.make();
    process.groups.remove(&mut process.paper, slot).unwrap();
    let slot = process.make();
    process.enter(slot);
    process.hear(0, kind::BARRIER, what::ENTERED, 1);
    assert!(!process.is_over(slot, None), "it was said in the group before");
    process.hear_farewells();
    process.hear(0, kind::BARRIER, what::ENTERED, 1);
    assert_eq!(process.groups.ended(slot), Some(Ok(())));
}

#[test]
fn an_early_datagram_of_the_next_group_is_none_of_this_one() {
    let mut process = Process::new(&[1, 2], "dissemination");
    let slot = process.make();
    process.enter(slot);
    process.hear_farewells();
    process.hear(0, kind::BARRIER, what::ENTERED, 1);
    assert!(process.groups.ended(slot).is_some_and(|ended| ended.is_err()));
}
