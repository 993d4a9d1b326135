//! Datagrams to one and to everyone, on a network in the same process.

mod toy;

use std::collections::VecDeque;

use toy::{KEY, address};
use weft_proto::{Config, Counters, Engine, Incoming, Instant, LinkSpec, Row, SendError};
use weft_wire::{Burst, FrameError, HEADER_LEN, LinkAddr, LinkId, ORIGIN_LEN, OpId, PeerId};

/// Engines on one segment, where a frame for everyone reaches those that `hears` allows.
struct Wire {
    engines: Vec<Engine>,
    now: Instant,
    burst: Burst,
    hears: fn(usize) -> bool,
    /// Datagrams as they came: to whom, from whom, what.
    came: Vec<(usize, u32, Vec<u8>)>,
    /// Frames that were put on the wire.
    frames: usize,
    flights: VecDeque<(usize, LinkAddr, Vec<u8>)>,
}

struct Nothing;

impl weft_proto::Payloads for Nothing {
    fn read(&mut self, _: OpId, _: u64, _: &mut [u8]) {}
}

const EVERYONE: LinkAddr = LinkAddr::Port(99);
const LINK: LinkId = LinkId(0);
const GROUP: u16 = 5;

impl Wire {
    fn new(count: usize, hears: fn(usize) -> bool) -> Wire {
        Wire::on(count, hears, LinkSpec::default())
    }

    /// On links of this kind.
    fn on(count: usize, hears: fn(usize) -> bool, spec: LinkSpec) -> Wire {
        let engine = |at: usize| {
            let mut engine = Engine::new(Config::default(), address(at), KEY, 1);
            let addr = LinkAddr::Port(at as u32);
            engine.add_link(LinkSpec { addr, everyone: Some(EVERYONE), ..spec.clone() });
            engine.hear_groups(&[GROUP]);
            let peers = (0..count).filter(|p| *p != at);
            peers.for_each(|p| engine.add_peer(PeerId(p as u32), &address(p)));
            engine
        };
        Wire {
            engines: (0..count).map(engine).collect(),
            now: Instant(1_000_000),
            burst: Burst::new(70_000),
            hears,
            came: Vec::new(),
            frames: 0,
            flights: VecDeque::new(),
        }
    }

    /// Puts the burst on the wire. Hellos reach everyone.
    fn carry(&mut self, at: usize) {
        let from = LinkAddr::Port(at as u32);
        let to = self.burst.to();
        for frame in self.burst.frames_mut() {
            self.frames += 1;
            let hello = frame[8] == 3;
            for node in 0..self.engines.len() {
                let group = to == EVERYONE && node != at && (hello || (self.hears)(node));
                if to == LinkAddr::Port(node as u32) || group {
                    self.flights.push_back((node, from, frame.to_vec()));
                }
            }
        }
    }

    fn datagram(&mut self, at: usize, to: u32, bytes: &[u8]) -> Result<(), SendError> {
        self.engines[at].connect(self.now, PeerId(to));
        let link = self.engines[at].datagram(PeerId(to), bytes, &mut self.burst);
        link.map(|_| self.carry(at))
    }

    /// What an owner does to reach several.
    fn multicast(&mut self, at: usize, peers: &[PeerId], bytes: &[u8]) {
        let link = self.engines[at].loudest(peers, &Row::one(bytes.len(), &mut |_, _| ()));
        if let Some(link) = link {
            let mut write = |_, into: &mut [u8]| into.copy_from_slice(bytes);
            let mut row = Row::one(bytes.len(), &mut write);
            self.engines[at].multicast(link, GROUP, &mut row, 0, &mut self.burst).unwrap();
            self.carry(at);
        }
        for peer in peers {
            if !link.is_some_and(|link| self.engines[at].hears(*peer, link)) {
                self.datagram(at, peer.0, bytes).unwrap();
            }
        }
        if self.engines[at].to_probe(self.now, peers) & 1 != 0 {
            self.engines[at].hear_probe(LINK, GROUP, &mut self.burst).unwrap();
            self.carry(at);
        }
    }

    /// Goes on for some milliseconds.
    fn run(&mut self, ms: u64) {
        let until = self.now.plus(ms * 1_000_000);
        while self.now < until {
            for at in 0..self.engines.len() {
                let now = self.now;
                if self.engines[at].deadline().is_some_and(|d| d <= now) {
                    self.engines[at].timeout(now);
                }
                self.take(at, &[]);
                while self.engines[at].transmit(now, &mut Nothing, &mut self.burst).is_some() {
                    self.carry(at);
                }
                while self.engines[at].hear_answer(&mut self.burst).is_some() {
                    self.carry(at);
                }
            }
            while let Some((to, from, frame)) = self.flights.pop_front() {
                let _ = self.engines[to].receive(self.now, LINK, &from, &frame);
                self.take(to, &frame);
            }
            self.now = self.now.plus(100_000);
        }
    }

    fn take(&mut self, at: usize, frame: &[u8]) {
        while let Some(incoming) = self.engines[at].next(self.now, frame) {
            if let Incoming::Datagram { peer, range } = incoming {
                self.came.push((at, peer.0, frame[range].to_vec()));
            }
        }
    }

    /// Makes all know each other.
    fn connect(&mut self) {
        for at in 0..self.engines.len() {
            for to in (0..self.engines.len()).filter(|to| *to != at) {
                self.engines[at].connect(self.now, PeerId(to as u32));
            }
        }
        self.run(100);
    }

    fn count(&self, at: usize) -> Counters {
        self.engines[at].counters()
    }
}

#[test]
fn a_datagram_looks_for_its_peer_and_then_takes_one_frame_and_no_answer() {
    let mut wire = Wire::new(2, |_| true);
    assert_eq!(wire.datagram(0, 1, b"early"), Err(SendError::Full));
    assert_eq!(wire.datagram(0, 5, b"nobody"), Err(SendError::NoPeer));
    wire.run(100);
    let before = wire.frames;
    wire.datagram(0, 1, b"hello").unwrap();
    wire.datagram(1, 0, b"").unwrap();
    wire.run(20);
    assert_eq!(wire.came, [(1, 0, b"hello".to_vec()), (0, 1, vec![])]);
    assert_eq!(wire.frames - before, 2, "nothing but the two");
    let c = wire.count(0);
    assert_eq!((c.datagrams_sent, c.datagrams_received, c.datagrams_unsent), (1, 1, 1));
    let peers = [PeerId(1)];
    let room = wire.engines[0].datagram_room(&peers);
    let max = LinkSpec::default().mtu - HEADER_LEN;
    assert_eq!(room, max - ORIGIN_LEN, "the path has been tried out");
    assert_eq!(wire.datagram(0, 1, &vec![7; max + 1]), Err(SendError::TooLong { max }));
    wire.datagram(0, 1, &vec![7; max]).unwrap();
    wire.run(1);
    assert_eq!(wire.came.pop(), Some((1, 0, vec![7; max])));
}

#[test]
fn a_row_goes_in_bursts_that_the_link_takes() {
    let mut wire = Wire::new(2, |_| true);
    wire.connect();
    let mut write = |at: usize, into: &mut [u8]| into.fill(at as u8);
    let mut row = Row { count: 100, len: 900, last: 10, ..Row::one(0, &mut write) };
    let mut at = 0;
    while at < row.count {
        let sent = wire.engines[0].datagrams(PeerId(1), &mut row, at, &mut wire.burst);
        at += sent.unwrap().1;
        wire.carry(0);
    }
    wire.run(1);
    let lens: Vec<usize> = wire.came.iter().map(|(.., bytes)| bytes.len()).collect();
    assert_eq!(lens, [vec![900; 99], vec![10]].concat());
    assert!(wire.came.iter().enumerate().all(|(at, (.., b))| b.iter().all(|b| *b == at as u8)));
}

#[test]
fn who_hears_is_told_by_one_frame_and_the_deaf_by_one_each() {
    let mut wire = Wire::new(5, |node| node != 3);
    wire.connect();
    let all: Vec<PeerId> = (1..5).map(PeerId).collect();
    wire.multicast(0, &all, b"first");
    assert_eq!(wire.count(0).multicasts_sent, 0, "nobody is known to hear");
    wire.run(10);
    let before = wire.frames;
    wire.came.clear();
    wire.multicast(0, &all, b"second");
    wire.run(1);
    let mut who: Vec<usize> = wire.came.iter().map(|(at, ..)| *at).collect();
    who.sort_unstable();
    assert_eq!(who, [1, 2, 3, 4], "each once");
    // One for all, one for the deaf one, the question whether it is still deaf, and the answers of
    // those who are not.
    assert_eq!(wire.frames - before, 3 + 3);
    for round in 0..2000 {
        wire.multicast(0, &all, b"more");
        wire.run(if round < 20 { 100 } else { 1 });
    }
    assert!(wire.count(0).hear_probes_sent <= 20, "the deaf are asked ever more rarely");
    assert_eq!(wire.count(0).multicasts_sent, 2001);
    // The link fails and comes back: it is asked anew.
    wire.engines[0].set_link_up(wire.now, LINK, false);
    assert_eq!(wire.engines[0].loudest(&all, &Row::one(1, &mut |_, _| ())), None);
    wire.engines[0].set_link_up(wire.now, LINK, true);
    wire.run(1000);
    wire.multicast(0, &all, b"again");
    assert!(!wire.engines[0].hears(PeerId(1), LINK));
    wire.run(10);
    assert!(wire.engines[0].hears(PeerId(1), LINK));
}

#[test]
fn who_hears_no_more_is_told_alone_and_by_all_again_when_it_does() {
    let mut wire = Wire::new(4, |_| true);
    wire.connect();
    let all: Vec<PeerId> = (1..4).map(PeerId).collect();
    let say = |wire: &mut Wire| {
        wire.came.clear();
        wire.multicast(0, &all, b"more");
        wire.run(10);
        let mut who: Vec<usize> = wire.came.iter().map(|(at, ..)| *at).collect();
        who.sort_unstable();
        who
    };
    (0..10).for_each(|_| assert_eq!(say(&mut wire), [1, 2, 3]));
    // The switch forgets that one of them is in the group.
    wire.hears = |node| node != 2;
    assert_eq!(say(&mut wire), [1, 3], "it is relied upon");
    (0..300).for_each(|_| drop(say(&mut wire)));
    assert!(!wire.engines[0].hears(PeerId(2), LINK) && wire.engines[0].hears(PeerId(3), LINK));
    assert_eq!(say(&mut wire), [1, 2, 3]);
    wire.hears = |_| true;
    // Until it has answered it is told alone as well.
    (0..150).for_each(|_| drop(say(&mut wire)));
    assert!(wire.engines[0].hears(PeerId(2), LINK));
    assert_eq!(say(&mut wire), [1, 2, 3]);
}

#[test]
fn long_datagrams_to_all_are_for_paths_that_carry_them_and_peers_that_hear() {
    let spec = LinkSpec { mtu: 9000, max_burst: 70_000, ..LinkSpec::default() };
    let mut wire = Wire::on(3, |_| true, spec);
    let peers = [PeerId(1), PeerId(2)];
    let usual = wire.engines[0].datagram_max();
    assert_eq!(wire.engines[0].multicast_room(&peers, 100_000), usual, "nobody is known to hear");
    wire.connect();
    wire.multicast(0, &peers, b"first");
    wire.run(100);
    let room = wire.engines[0].multicast_room(&peers, 100_000);
    assert_eq!(room, 9000 - HEADER_LEN - ORIGIN_LEN, "the search for the MTU has ended");
    wire.engines[0].set_link_up(wire.now, LINK, false);
    assert_eq!(wire.engines[0].multicast_room(&peers, 100_000), usual, "the link is down");
}

#[test]
fn a_forged_or_damaged_multicast_is_counted_and_dropped() {
    let mut wire = Wire::on(3, |_| true, LinkSpec { integrity: false, ..LinkSpec::default() });
    wire.connect();
    let mut write = |_, into: &mut [u8]| into.copy_from_slice(b"genuine");
    let mut row = Row::one(7, &mut write);
    wire.engines[0].multicast(LINK, GROUP, &mut row, 0, &mut wire.burst).unwrap();
    let good: Vec<u8> = wire.burst.frames_mut().next().unwrap().to_vec();
    let mut take = |frame: &[u8]| {
        let (now, from) = (wire.now, LinkAddr::Port(0));
        wire.engines[1].receive(now, LINK, &from, frame)
    };
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(take(&bad).is_err(), "bit {bit}");
    }
    // For a group that the receiver is not in.
    let mut other = Engine::new(Config::default(), address(0), KEY, 1);
    let link = LinkSpec { everyone: Some(EVERYONE), integrity: false, ..LinkSpec::default() };
    other.add_link(link);
    let mut burst = Burst::new(2000);
    other.multicast(LINK, GROUP + 1, &mut row, 0, &mut burst).unwrap();
    let foreign = take(burst.frames_mut().next().unwrap());
    assert!(matches!(foreign, Err(FrameError::Port(_))), "{foreign:?}");
    // From a process of the job that nobody has named.
    let mut stranger = Engine::new(Config::default(), address(9), KEY, 1);
    stranger.add_link(LinkSpec { everyone: Some(EVERYONE), ..LinkSpec::default() });
    stranger.multicast(LINK, GROUP, &mut row, 0, &mut burst).unwrap();
    let strange = take(burst.frames_mut().next().unwrap());
    assert!(matches!(strange, Err(FrameError::Index(_))), "{strange:?}");
    assert_eq!(take(&good), Ok(()));
}
