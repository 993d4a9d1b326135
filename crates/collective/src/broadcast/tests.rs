//! Sender and receivers on a network with a seed: it loses, doubles and delays frames, receivers
//! are slow, late, or die.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::rng::Rng;
use super::*;

/// How the network and the ranks are.
#[derive(Clone, Debug)]
struct World {
    size: u32,
    loss_percent: u64,
    double_percent: u64,
    /// Frames are delayed by so much more, at random, ns.
    jitter_ns: u64,
    /// Lengths of the broadcasts of rank 0, in a row.
    lens: Vec<u64>,
    /// Time that each rank lets go by before each receive, at most, ns.
    late_ns: u64,
    /// Who dies, and when, ns.
    dies: Option<(u32, u64)>,
    datagram: usize,
    /// Bytes of a datagram that goes to all: its frame takes several on the wire.
    room: usize,
}

const WORLD: World = World {
    size: 8,
    loss_percent: 0,
    double_percent: 0,
    jitter_ns: 0,
    lens: Vec::new(),
    late_ns: 0,
    dies: None,
    datagram: 1400,
    room: 1400,
};

/// What came of it.
#[derive(Debug, Default)]
struct Outcome {
    /// Bytes on the sender's link, outwards.
    bytes_out: u64,
    datagrams_out: u64,
    frames_in: u64,
    repaired: u64,
    time_ns: u64,
}

/// What happens, when, and to whom: a frame's bytes, or nothing but the time.
type Event = Reverse<(u64, u64, u32, u32, Vec<u8>)>;

struct Run {
    world: World,
    rng: Rng,
    now: u64,
    events: BinaryHeap<Event>,
    count: u64,
    sender: Sender,
    receivers: Vec<Receiver>,
    data: Vec<Vec<u8>>,
    /// What each rank has received; and how many broadcasts, and when it asks for the next.
    got: Vec<Vec<Vec<u8>>>,
    done: Vec<usize>,
    posts_at: Vec<u64>,
    posted: Vec<bool>,
    started: usize,
    finished: usize,
    outcome: Outcome,
    /// When the sender's link is free again.
    link_free: u64,
}

const LATENCY_NS: u64 = 20_000;
const HEADER: usize = 60;

impl Run {
    fn new(world: &World, seed: u64) -> Run {
        let (size, n) = (world.size, world.size as usize);
        let limits = Limits::new(size);
        let mut rng = Rng(seed);
        let fill = |len: &u64| {
            let seed = rng.bits();
            (0..*len)
                .map(|at| (seed.wrapping_add(at.wrapping_mul(0x9e37_79b9)) >> 13) as u8)
                .collect()
        };
        let data = world.lens.iter().map(fill).collect();
        Run {
            world: world.clone(),
            rng,
            now: 0,
            events: BinaryHeap::new(),
            count: 0,
            sender: Sender::new(limits, 0, size),
            receivers: (0..size).map(|me| Receiver::new(limits, me, 0)).collect(),
            data,
            got: vec![Vec::new(); n],
            done: vec![0; n],
            posts_at: vec![0; n],
            posted: vec![false; n],
            started: 0,
            finished: 0,
            outcome: Outcome::default(),
            link_free: 0,
        }
    }

    fn dead(&self, rank: u32) -> bool {
        self.world.dies.is_some_and(|(who, when)| who == rank && self.now >= when)
    }

    fn carry(&mut self, from: u32, to: u32, bytes: &[u8]) {
        let copies = 1 + u64::from(self.rng.below(100) < self.world.double_percent);
        for _ in 0..copies {
            let on_wire = bytes.len().div_ceil(self.world.datagram).max(1);
            let lost = (0..on_wire).filter(|_| self.rng.below(100) < self.world.loss_percent);
            if lost.count() > 0 {
                continue;
            }
            let at = self.now + LATENCY_NS + self.rng.below(self.world.jitter_ns + 1);
            self.count += 1;
            self.events.push(Reverse((at, self.count, from, to, bytes.to_vec())));
        }
    }

    /// Sends what the sender has to send, as fast as its link takes it: a byte in a nanosecond.
    fn send(&mut self) {
        while self.now >= self.link_free {
            let Some((to, frame, (offset, len))) = self.sender.poll(self.now, self.world.room)
            else {
                return;
            };
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            if let Frame::Data(data) = frame {
                let number = data.number as usize;
                bytes.extend_from_slice(&self.data[number][offset as usize..offset as usize + len]);
            }
            let most = if to == To::All { self.world.room } else { self.world.datagram };
            assert!(bytes.len() <= most.max(self.world.datagram));
            let wire = (bytes.len() + bytes.len().div_ceil(self.world.datagram) * HEADER) as u64;
            self.outcome.datagrams_out += 1;
            self.outcome.bytes_out += wire;
            self.link_free = self.now + wire;
            match to {
                To::One(rank) | To::Surely(rank) => self.carry(0, rank, &bytes),
                To::All => (1..self.world.size).for_each(|rank| self.carry(0, rank, &bytes)),
            }
        }
    }

    fn receive(&mut self, rank: u32) {
        if self.dead(rank) {
            return;
        }
        let me = rank as usize;
        loop {
            let at = self.done[me];
            if at == self.world.lens.len() {
                break;
            }
            if !self.posted[me] {
                if self.now < self.posts_at[me] {
                    break;
                }
                self.posted[me] = true;
                let len = self.world.lens[at];
                let mut into = vec![0; len as usize];
                self.receivers[me].post(at as u32, len, self.now, |_, offset, bytes| {
                    into[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
                });
                self.got[me].push(into);
            }
            assert_eq!(self.receivers[me].failed(), None);
            let Some(number) = self.receivers[me].finished() else { break };
            assert_eq!(number as usize, at);
            assert!(self.got[me][at] == self.data[at], "broadcast {at} is damaged at {rank}");
            self.done[me] += 1;
            self.posted[me] = false;
            self.posts_at[me] = self.now + self.rng.below(self.world.late_ns + 1);
        }
        while let Some(frame) = self.receivers[me].poll(self.now) {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            self.carry(rank, 0, &bytes);
        }
    }

    fn deliver(&mut self, from: u32, to: u32, bytes: &[u8]) {
        let (frame, payload) = Frame::decode(bytes).unwrap();
        if to == 0 {
            self.outcome.frames_in += 1;
            let Frame::Report(report) = frame else { panic!("{frame:?}") };
            return self.sender.take(from, &report, self.now);
        }
        if !self.dead(to) {
            let got = &mut self.got[to as usize];
            self.receivers[to as usize].take(&frame, payload, self.now, |number, offset, bytes| {
                let into = &mut got[number as usize];
                into[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
            });
        }
    }

    /// When something happens next without a frame.
    fn deadline(&self) -> u64 {
        let all = self.world.lens.len();
        let of_sender = self.sender.deadline_ns().map(|at| at.max(self.link_free));
        let of_death = self.world.dies.map(|(_, at)| at).filter(|at| *at > self.now);
        let of_receivers = (1..self.world.size).filter(|rank| !self.dead(*rank)).flat_map(|rank| {
            let me = rank as usize;
            let post = (!self.posted[me] && self.done[me] < all).then(|| self.posts_at[me]);
            [post, self.receivers[me].deadline_ns()]
        });
        let link = (self.link_free > self.now).then_some(self.link_free);
        let next = of_receivers.chain([of_sender, of_death, link]).flatten().min();
        next.unwrap_or(u64::MAX).max(self.now + 1)
    }

    fn run(mut self) -> Outcome {
        for _ in 0..20_000_000u64 {
            // Three broadcasts under way at once.
            while self.started < self.world.lens.len() && self.started < self.finished + 3 {
                // The pieces change from one to the next, as paths do.
                let piece = piece_of(self.world.datagram - 100 * (self.started % 2));
                let urgent = !self.started.is_multiple_of(3);
                let len = self.world.lens[self.started];
                self.sender.start(self.started as u32, len, piece, urgent);
                self.started += 1;
            }
            if let Some((who, when)) = self.world.dies
                && self.now >= when + 2_000_000
            {
                self.sender.bury(who);
            }
            self.send();
            (1..self.world.size).for_each(|rank| self.receive(rank));
            let before = self.finished;
            while let Some(number) = self.sender.finished() {
                assert_eq!(number as usize, self.finished);
                self.finished += 1;
            }
            if before < self.finished && self.started < self.world.lens.len() {
                continue;
            }
            let live = || (1..self.world.size).filter(|rank| !self.dead(*rank));
            let all = self.world.lens.len();
            if self.finished == all && live().all(|rank| self.done[rank as usize] == all) {
                self.outcome.time_ns = self.now;
                self.outcome.repaired = self.sender.repaired();
                return self.outcome;
            }
            let next = self.deadline();
            match self.events.peek() {
                Some(Reverse((at, ..))) if *at <= next => {
                    let Some(Reverse((at, _, from, to, bytes))) = self.events.pop() else { break };
                    self.now = self.now.max(at);
                    self.deliver(from, to, &bytes);
                }
                _ => self.now = next,
            }
            assert!(self.now < 600_000_000_000, "nothing moves: {:?}", self.world);
        }
        panic!("it does not end: {:?}", self.world);
    }
}

fn run(world: &World, seed: u64) -> Outcome {
    Run::new(world, seed).run()
}

#[test]
fn any_number_of_ranks_gets_any_number_of_broadcasts() {
    for size in [1, 2, 3, 5, 8, 17, 64] {
        for seed in 0..4 {
            let lens = vec![0, 1, 1368, 1369, 1370, 5000, 0, 300_000, 3, 1_000_000];
            let late_ns = [0, 100_000][seed as usize % 2];
            run(&World { size, lens, late_ns, ..WORLD }, seed);
        }
    }
}

#[test]
fn loss_doubles_and_disorder_are_repaired() {
    for size in [2, 3, 7, 16, 64] {
        for loss_percent in [1, 5, 20] {
            for seed in 0..6 {
                let lens = vec![100_000, 0, 10, 40_000, 1, 1, 1, 20_000];
                let (double_percent, jitter_ns) =
                    (loss_percent, [0, 5_000, 200_000][seed as usize % 3]);
                let late_ns = [0, 3_000_000][seed as usize % 2];
                let world =
                    World { size, loss_percent, double_percent, jitter_ns, lens, late_ns, ..WORLD };
                run(&world, seed);
            }
        }
    }
}

#[test]
fn a_receiver_that_dies_holds_nobody_up() {
    for seed in 0..40 {
        let mut rng = Rng(seed);
        let size = 2 + rng.below(7) as u32;
        let who = 1 + rng.below(u64::from(size) - 1) as u32;
        let dies = Some((who, rng.below(1_500_000)));
        let loss_percent = rng.below(10);
        let lens = vec![500_000, 7, 500_000, 0];
        run(&World { size, dies, loss_percent, lens, ..WORLD }, seed);
    }
}

#[test]
fn a_receiver_that_is_late_stops_the_sender_and_costs_nothing() {
    const LATE_NS: u64 = 1_000_000_000;
    for size in [2, 3, 8, 64] {
        // More than a receiver keeps that does not wait for it yet; the first one stops others.
        for lens in [vec![4 << 20], vec![10, 0, 100_000, 1 << 20, 7, 1 << 20]] {
            let mut run = Run::new(&World { size, lens, ..WORLD }, 7);
            run.posts_at[size as usize - 1] = LATE_NS;
            let outcome = run.run();
            assert!(outcome.time_ns > LATE_NS);
            assert_eq!(outcome.repaired, 0, "{size}: nothing was sent that there was no room for");
        }
    }
}

#[test]
fn seven_receivers_cost_the_senders_link_hardly_more_than_one() {
    let bytes = |size| run(&World { size, lens: vec![4 << 20], ..WORLD }, 1).bytes_out;
    let (one, seven) = (bytes(2), bytes(8));
    assert!(seven * 10 <= one * 11, "{seven} bytes for seven receivers, {one} for one");
    let least = (4 << 20) / 1369 * (1400 + HEADER as u64);
    assert!(one * 100 <= least * 102, "{one} bytes where {least} are needed");
}

#[test]
fn sixty_four_mebibytes_arrive_whole() {
    let world = World { size: 3, loss_percent: 1, lens: vec![64 << 20], datagram: 8900, ..WORLD };
    let outcome = run(&world, 5);
    // What is lost on the way to one is sent again to one: 1 % for each of two, and their repairs.
    assert!(outcome.bytes_out * 10 < (64 << 20) * 11, "{outcome:?}");
}

#[test]
fn long_datagrams_carry_many_fragments_and_short_ones_where_much_is_lost() {
    let world = World { room: 64_800, lens: vec![3, 0, 8 << 20, 100_000, 1], ..WORLD };
    let calm = run(&world, 1);
    assert!(calm.datagrams_out < (8 << 20) / 40_000, "{calm:?}");
    // One in a hundred frames on the wire: nearly every other long one.
    let lossy = run(&World { loss_percent: 1, ..world.clone() }, 1);
    assert!(lossy.bytes_out * 10 < (8 << 20) * 13, "{lossy:?}");
    for size in [2, 3, 8, 64] {
        for seed in 0..12 {
            let loss_percent = [0, 1, 5, 20][seed as usize % 4];
            let late_ns = [0, 3_000_000][seed as usize % 2];
            let jitter_ns = [0, 5_000, 200_000][seed as usize % 3];
            let lens = vec![100_000, 0, 10, 400_000, 1, 64 << 10, 1, 20_000];
            run(&World { size, loss_percent, late_ns, jitter_ns, lens, ..world.clone() }, seed);
        }
    }
}

#[test]
fn reports_are_few_without_loss() {
    for size in [8, 64] {
        let outcome = run(&World { size, lens: vec![4 << 20], ..WORLD }, 3);
        let fragments = (4 << 20) / 1369;
        assert_eq!(outcome.repaired, 0);
        assert!(outcome.frames_in <= fragments / 2 + 64 * 4, "{size}: {outcome:?}");
    }
}

#[test]
fn what_several_miss_is_repaired_for_all_at_once() {
    let world = World { size: 64, loss_percent: 5, lens: vec![2 << 20], ..WORLD };
    let outcome = run(&world, 9);
    // Nearly every fragment is lost on the way to one of 63; each one's own repair would be three
    // times the data.
    assert!(outcome.bytes_out < 3 * (2 << 20), "{outcome:?}");
}

#[test]
fn nonsense_changes_nothing() {
    let limits = Limits::new(4);
    let mut sender = Sender::new(limits, 0, 4);
    sender.start(0, 10_000, 1400, true);
    let mut frames = 0;
    while sender.poll(0, 0).is_some() {
        frames += 1;
    }
    assert!(frames >= 8);
    let report = Report { got: 9, seen: 9, limit: 9 + limits.ahead, ..Report::default() };
    for from in [0, 1, 4, u32::MAX] {
        sender.take(from, &report, 0);
        let endless = Report { got: 0, seen: u64::MAX, limit: u64::MAX, ..report };
        sender.take(from, &endless, 0);
    }
    assert_eq!(sender.finished(), None);
    let mut receiver = Receiver::new(limits, 1, 0);
    let fragment = u64::MAX;
    let data = Data { number: 0, asked: Asked::Nobody, fragment, len: 3, piece: 9, index: 0 };
    let none = |_: u32, _: u64, _: &[u8]| panic!("placed");
    receiver.take(&Frame::Data(data), b"abc", 0, none);
    receiver.take(&Frame::Ask { sent: u64::MAX }, &[], 0, none);
    assert!(receiver.poll(0).is_some());
    receiver.post(0, 3, 0, none);
    let wrong = Data { fragment: 0, len: 4, ..data };
    for bad in [wrong, Data { piece: 0, ..wrong }, Data { index: 7, ..wrong }] {
        let mut receiver = receiver.clone();
        receiver.take(&Frame::Data(bad), b"abcd", 0, none);
        assert_eq!(receiver.failed().map(|f| (f.len, f.wanted_len)), Some((4, 3)));
    }
    // Another broadcast than is waited for.
    let other = Data { number: 1, fragment: 0, ..data };
    receiver.take(&Frame::Data(other), b"abc", 0, none);
    assert_eq!(receiver.failed().map(|f| (f.number, f.wanted)), Some((1, 0)));
}

#[test]
fn frames_there_and_back() {
    let mut missing = Ranges::default();
    while missing.push(7, 3) {}
    let report = Report { got: 1, seen: 2, limit: 3, waits: true, missing };
    let data = Data { number: 1, asked: Asked::One(2), fragment: 3, len: 4, piece: 5, index: 6 };
    for frame in [
        Frame::Data(data),
        Frame::Data(Data { asked: Asked::Nobody, ..data }),
        Frame::Data(Data { asked: Asked::All, ..data }),
        Frame::Ask { sent: 9 },
        Frame::Report(report),
        Frame::Report(Report::default()),
    ] {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        assert_eq!(Frame::decode(&bytes), Ok((frame, &[][..])));
        for len in 0..bytes.len() {
            // Whole ranges may be missing from a report; nothing else may.
            let whole = len >= 26 && (len - 26) % 12 == 0 && bytes[0] == 3;
            assert!(whole || Frame::decode(&bytes[..len]).is_err(), "{frame:?} of {len}");
        }
    }
    assert_eq!(Frame::decode(&[9]), Err(FrameError::Kind { kind: 9 }));
}

#[test]
fn what_is_missed_again_and_again_goes_for_certain() {
    let limits = Limits::new(3);
    let mut sender = Sender::new(limits, 0, 3);
    sender.start(0, 10, 10, true);
    let (mut now, mut ways) = (1, Vec::new());
    let mut poll = |sender: &mut Sender, now| {
        while let Some((to, frame, _)) = sender.poll(now, 100) {
            ways.extend(matches!(frame, Frame::Data(_)).then_some(to));
        }
    };
    poll(&mut sender, now);
    for _ in 0..5 {
        let mut missing = Ranges::default();
        assert!(missing.push(0, 1));
        let report = Report { got: 0, seen: 1, limit: limits.window, waits: true, missing };
        sender.take(1, &report, now);
        assert_eq!(sender.deadline_ns(), Some(0));
        poll(&mut sender, now);
        now += 1_000_000_000;
    }
    let (again, sure) = (To::One(1), To::Surely(1));
    assert_eq!(ways, [To::All, again, again, again, sure, sure]);
}

/// A fragment that holds a whole broadcast of 9 bytes.
fn whole(number: u32, fragment: u64) -> Frame {
    Frame::Data(Data { number, asked: Asked::Nobody, fragment, len: 9, piece: 9, index: 0 })
}

#[test]
fn who_expects_another_length_is_told_so_and_stops_nobody() {
    let limits = Limits::new(3);
    let len = 4 * limits.ahead * 100;
    for wanted in [0, 99, len - 1, len + 1] {
        let mut sender = Sender::new(limits, 0, 3);
        let mut receivers = [1, 2].map(|me| Receiver::new(limits, me, 0));
        sender.start(0, len, 100, true);
        receivers[0].post(0, len, 1, |_, _, _| ());
        receivers[1].post(0, wanted, 1, |_, _, _| ());
        let (mut now, mut done) = (1, false);
        while !done && now < 1_000_000 {
            now += 1000;
            while let Some((to, frame, (_, len))) = sender.poll(now, 0) {
                let payload = vec![0; len];
                for (at, receiver) in receivers.iter_mut().enumerate() {
                    if to == To::All || to == To::One(at as u32 + 1) {
                        receiver.take(&frame, &payload, now, |_, _, _| ());
                    }
                }
            }
            for (at, receiver) in receivers.iter_mut().enumerate() {
                while let Some(frame) = receiver.poll(now) {
                    let Frame::Report(report) = frame else { panic!("{frame:?}") };
                    sender.take(at as u32 + 1, &report, now);
                }
            }
            done = sender.finished() == Some(0);
        }
        assert!(done, "the sender is stopped by one that expects {wanted} bytes");
        assert_eq!((receivers[0].finished(), receivers[0].failed()), (Some(0), None));
        let failed = receivers[1].failed().map(|f| (f.len, f.wanted_len));
        assert_eq!((receivers[1].finished(), failed), (None, Some((len, wanted))));
        assert_eq!(receivers[1].deadline_ns(), None, "it waits for nothing");
    }
}

#[test]
fn a_broadcast_that_is_left_out_is_found_missing() {
    let limits = Limits::new(2);
    let mut receiver = Receiver::new(limits, 1, 0);
    (0..3).for_each(|number| receiver.post(number, 9, 0, |_, _, _| ()));
    receiver.take(&whole(0, 0), &[0; 9], 0, |_, _, _| ());
    assert_eq!((receiver.finished(), receiver.failed()), (Some(0), None));
    receiver.take(&whole(2, 1), &[0; 9], 0, |_, _, _| panic!("it is placed"));
    assert_eq!(receiver.failed().map(|f| (f.number, f.wanted)), Some((2, 1)));
    assert_eq!(receiver.finished(), None);
}

#[test]
fn pieces_that_do_not_fit_together_are_no_broadcast() {
    let mut receiver = Receiver::new(Limits::new(2), 1, 0);
    receiver.post(0, 18, 0, |_, _, _| ());
    let first = Data { number: 0, asked: Asked::Nobody, fragment: 0, len: 18, piece: 9, index: 0 };
    receiver.take(&Frame::Data(first), &[0; 9], 0, |_, _, _| ());
    let second = Data { fragment: 1, piece: 10, index: 1, ..first };
    receiver.take(&Frame::Data(second), &[0; 8], 0, |_, _, _| panic!("it is placed"));
    assert!(receiver.failed().is_some());
    assert_eq!(receiver.finished(), None, "it has a hole");
}
