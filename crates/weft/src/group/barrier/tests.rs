//! Every run of barriers by node, where the members of a node share no memory: the machine that
//! real members have, on a device that only takes down what is sent.

mod auto;

use std::os::fd::RawFd;
use std::rc::Rc;

use weft_collective::explore::{Member, explore, run_with_two_faults};
use weft_ring::Board;
use weft_sys::buf::Buf;
use weft_wire::{Envelope, OpId, PeerId, Ticket};

use super::*;
use crate::address::Address;
use crate::device::{Caps, Counters, Device, Event, SendError, Wake};
use crate::group::Way;
use crate::group::choose::Plan;
use crate::group::heading::Heading;
use crate::group::part::body;
use crate::group::trial::Trial;

/// Takes down datagrams; gives boards that are put here.
#[derive(Default)]
pub(in crate::group) struct Paper {
    pub sent: Sent,
    pub boards: Vec<Board>,
    /// So many lead to each peer.
    pub wires: usize,
}

const NO_MESSAGES: &str = "a barrier sends datagrams only";

impl Device for Paper {
    fn name(&self) -> &'static str {
        "paper"
    }

    fn caps(&self, _peer: PeerId) -> Caps {
        Caps { eager_max: 0, announce_from: 1, free_poll: true }
    }

    fn reaches(&self, _address: &Address) -> bool {
        true
    }

    fn associate(&mut self, _peer: PeerId, _address: &Address) -> Result<(), Error> {
        Ok(())
    }

    fn reserve(&mut self, _peer: PeerId, _len: usize) -> Result<(), SendError> {
        panic!("{NO_MESSAGES}")
    }

    fn space(&mut self) -> &mut [u8] {
        panic!("{NO_MESSAGES}")
    }

    fn commit(&mut self, _envelope: &Envelope) {
        panic!("{NO_MESSAGES}")
    }

    fn commit_awaited(&mut self, _envelope: &Envelope, _op: OpId) {
        panic!("{NO_MESSAGES}")
    }

    fn send(&mut self, _: PeerId, _: &Envelope, _: &[u8]) -> Result<(), SendError> {
        panic!("{NO_MESSAGES}")
    }

    fn announce(&mut self, _: PeerId, _: &Envelope, _: &Buf, _: OpId) -> Result<(), SendError> {
        panic!("{NO_MESSAGES}")
    }

    fn pull(&mut self, _peer: PeerId, _ticket: Ticket, _into: Buf, _op: OpId) {
        panic!("{NO_MESSAGES}")
    }

    fn withdraw(&mut self, _peer: PeerId, _op: OpId) -> bool {
        false
    }

    fn hold(&mut self, _peer: PeerId, _hold: bool) {}

    fn datagram_max(&self) -> usize {
        1000
    }

    fn datagram(&mut self, peer: PeerId, bytes: &[u8]) -> bool {
        self.sent.push((peer.0, bytes.to_vec()));
        true
    }

    fn wires(&self, _peer: PeerId) -> usize {
        self.wires
    }

    fn lend_board(&mut self, _group: u64, _peers: &[PeerId]) -> Result<Board, Error> {
        self.boards.pop().ok_or_else(|| Error::os("sharing a board", "paper has no memory"))
    }

    fn take_board(&mut self, _peer: PeerId, _group: u64) -> Option<Board> {
        self.boards.pop()
    }

    fn poll(&mut self, _now_ns: u64) -> bool {
        false
    }

    fn address(&self, _peer: PeerId) -> Option<&Address> {
        None
    }

    fn event(&self) -> Event<'_> {
        panic!("{NO_MESSAGES}")
    }

    fn flush(&mut self, _now_ns: u64) {}

    fn busy(&self) -> bool {
        false
    }

    fn close(&mut self, _now_ns: u64) {}

    fn deadline_ns(&self) -> Option<u64> {
        None
    }

    fn arm(&mut self, _wake: Wake) -> bool {
        false
    }

    fn watch(&self, _each: &mut dyn FnMut(RawFd)) {}

    fn watch_generation(&self) -> u64 {
        0
    }

    fn counters(&self) -> Counters {
        Counters::new()
    }
}

/// A member of a group whose time stands still, so that it may ask whenever it is told to.
#[derive(Clone)]
struct Hand {
    run: Run,
    rank: u32,
    plan: u16,
    size: u32,
    /// What the first member finds in each trial.
    finds: Finds,
}

/// By trial; what comes after is as the last one.
type Finds = Rc<[Finding]>;

/// What a trial comes to: which candidate is fastest, and whether two wires lead to all.
#[derive(Clone, Copy, Debug)]
struct Finding {
    fastest: usize,
    two_wires: bool,
}

/// Frames, and whom they are for.
pub(in crate::group) type Sent = Vec<(u32, Vec<u8>)>;

/// The same, and whom they are from.
type First = Vec<(u32, u32, Vec<u8>)>;

impl Hand {
    /// Does something with the barrier, and gives what that sends.
    fn with<R>(&mut self, out: &mut Sent, f: impl FnOnce(&mut Run, &mut Outlet<'_>) -> R) -> R {
        self.at(0, out, f)
    }

    /// The same, at a time.
    fn at<R>(
        &mut self,
        now_ns: u64,
        out: &mut Sent,
        f: impl FnOnce(&mut Run, &mut Outlet<'_>) -> R,
    ) -> R {
        let mut team = Team::new(7, self.rank, (0..self.size).map(PeerId).collect());
        team.plan = self.plan;
        let found = self.found();
        let wires = 1 + usize::from(found.is_some_and(|found| found.two_wires));
        let mut paper = Paper { wires, ..Paper::default() };
        let (mut scratch, mut long) = (Vec::new(), Vec::new());
        let (device, scratch, long) = (&mut paper, &mut scratch, &mut long);
        let mut outlet = Outlet { device, team: &team, scratch, long, now_ns };
        let result = f(&mut self.run, &mut outlet);
        // What it counts changes nothing.
        self.run.count = Count::default();
        // What the clock has said is not the same in each run.
        if let (Some(found), Some(trial)) = (self.found(), self.trial()) {
            trial.have_been_fastest(found.fastest);
        }
        out.append(&mut paper.sent);
        result
    }

    fn trial(&mut self) -> Option<&mut Trial> {
        self.run.among.as_mut()?.trial()
    }

    /// What the trial comes to that is, or comes next.
    fn found(&mut self) -> Option<Finding> {
        let at = self.trial()?.before() as usize;
        self.finds.get(at).or(self.finds.last()).copied()
    }
}

impl Member for Hand {
    type Key = String;
    type Frame = Vec<u8>;

    fn key(&self) -> String {
        format!("{:?}", self.run)
    }

    fn enter(&mut self, out: &mut Sent) {
        self.with(out, |run, outlet| run.enter(outlet)).unwrap();
    }

    fn ask(&mut self, out: &mut Sent) {
        self.with(out, |run, outlet| run.due(outlet));
    }

    fn take(&mut self, from: u32, frame: &Vec<u8>, out: &mut Sent) {
        let (heading, payload) = Heading::read(frame).unwrap();
        let (number, slot) = body(payload).unwrap();
        let word = Word { what: heading.what, number, slot };
        assert!(self.with(out, |run, outlet| run.take(from, heading.kind, word, outlet)));
    }

    fn number(&self) -> u64 {
        self.run.number
    }

    fn is_inside(&self) -> bool {
        self.run.is_inside()
    }

    fn goes_by(&self) -> Option<(u64, usize)> {
        let number = self.run.number - u64::from(self.run.stage == Stage::Gathering);
        self.run.among.as_ref().map(|among| (number, among.at()))
    }

    fn is_question(frame: &Vec<u8>) -> bool {
        let (heading, _) = Heading::read(frame).unwrap();
        [what::ASK_ENTERED, what::ASK_RELEASED, what::ASK_BOARD].contains(&heading.what)
    }
}

/// Members on these nodes, and what they have sent before their first barrier.
fn members(way: &str, nodes: &[u64]) -> (Vec<Hand>, First) {
    patient_members(way, nodes, 0)
}

/// The same, who ask only after so long.
fn patient_members(way: &str, nodes: &[u64], patience_ns: u64) -> (Vec<Hand>, First) {
    let mut plan = Plan::new(way.parse::<Way>().unwrap(), nodes, None);
    assert_eq!(plan.tried, None, "its trial has too many barriers");
    plan.patience_ns = patience_ns;
    members_of(&plan, nodes.len(), &Finds::default())
}

/// The same, so many, of a plan of which trials come to this.
fn members_of(plan: &Plan, size: usize, finds: &Finds) -> (Vec<Hand>, First) {
    let (mut hands, mut first) = (Vec::new(), Vec::new());
    let size = size as u32;
    for rank in 0..size {
        let mut team = Team::new(7, rank, (0..size).map(PeerId).collect());
        team.plan = plan.fingerprint();
        let mut hand =
            Hand { run: Run::new(&team, plan), rank, plan: team.plan, size, finds: finds.clone() };
        let mut out = Vec::new();
        hand.with(&mut out, |run, outlet| run.prepare(outlet));
        first.extend(out.into_iter().map(|(to, frame)| (rank, to, frame)));
        hands.push(hand);
    }
    (hands, first)
}

#[test]
fn who_enters_by_an_old_clock_asks_no_sooner() {
    let (patience_ns, entered_ns, now_ns) = (200_000, 1_000, 90_000_000);
    let (mut hands, _) = patient_members("dissemination", &[1, 2], patience_ns);
    let mut out = Vec::new();
    hands[0].at(entered_ns, &mut out, |run, outlet| run.enter(outlet)).unwrap();
    assert_eq!(out.len(), 1, "it has told the other");
    hands[0].run.waits(now_ns);
    assert_eq!(hands[0].run.deadline_ns(), now_ns + patience_ns);
    hands[0].at(now_ns + patience_ns - 1, &mut out, |run, outlet| run.due(outlet));
    assert_eq!(out.len(), 1, "nothing is missing yet");
    hands[0].at(now_ns + patience_ns, &mut out, |run, outlet| run.due(outlet));
    assert!(out.len() == 2 && Hand::is_question(&out[1].1), "{out:?}");
    // Outside of barriers nobody waits.
    hands[1].run.waits(now_ns);
    assert_eq!(hands[1].run.deadline_ns(), u64::MAX);
}

const AMONG: [&str; 9] = [
    "dissemination",
    "dissemination2",
    "tree2",
    "tree3",
    "tree3-2net",
    "tree4",
    "nomial3",
    "concurrent",
    "sequencer",
];

#[test]
fn no_run_by_node_breaks_the_promise_or_gets_stuck() {
    for among in AMONG {
        let way = format!("hierarchical-{among}");
        for (nodes, barriers) in
            [(&[1, 1][..], 8), (&[1, 2, 1], 5), (&[1, 1, 2, 2], 4), (&[1, 2, 1, 3, 2], 2)]
        {
            let (hands, first) = members(&way, nodes);
            let states = explore(hands, &first, barriers);
            assert!(states > 50, "{way} on {nodes:?}: only {states} states");
        }
    }
}

#[test]
fn one_or_two_faults_by_node_break_nothing() {
    for among in AMONG {
        let way = format!("hierarchical-{among}");
        for nodes in [&[1, 2, 1][..], &[1, 1, 2, 2], &[1, 2, 2, 3, 1], &[1, 2, 3, 3]] {
            let (hands, first) = members(&way, nodes);
            run_with_two_faults(&hands, &first, 2);
        }
    }
}
