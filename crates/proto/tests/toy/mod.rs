//! A toy network that joins engines: seeded loss, duplication, reordering, corruption and delay.
//! Time jumps to the next event, and a bound on steps finds livelock (the way quinn tests its
//! protocol).
#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::{BTreeMap, HashMap};

use weft_proto::{Config, Engine, Incoming, Instant, LinkSpec, Payloads};
use weft_wire::{Address, Burst, Envelope, JobKey, LinkAddr, LinkId, OpId, PeerId, Ticket};

/// xorshift64*: good enough to shake a protocol.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What one segment does to frames.
#[derive(Clone)]
pub struct Segment {
    pub delay_ns: u64,
    pub jitter_ns: u64,
    pub loss: u64,
    pub duplicate: u64,
    pub corrupt: u64,
    /// Larger frames vanish.
    pub mtu: usize,
    /// Nodes that cannot send on it.
    pub mute: Vec<usize>,
    /// Bytes per us; 0: no limit.
    pub rate: u64,
}

impl Default for Segment {
    fn default() -> Segment {
        Segment {
            delay_ns: 5_000,
            jitter_ns: 0,
            loss: 0,
            duplicate: 0,
            corrupt: 0,
            mtu: 65_000,
            mute: Vec::new(),
            rate: 1_000,
        }
    }
}

pub struct Node {
    pub engine: Engine,
    pub ops: Ops,
    pub got: Vec<Got>,
    pub pulling: HashMap<OpId, (PeerId, Envelope, Vec<u8>)>,
    pub auto_pull: bool,
    pub alive: bool,
    /// It has the processor only in turns: when the first begins, how long each lasts, and the time
    /// from one to the next. What comes meanwhile waits, as far as there is room.
    pub turns: Option<(Instant, u64, u64)>,
    /// So many bytes can wait for it, on each segment, and so many do.
    pub room: usize,
    waiting: HashMap<LinkId, usize>,
    /// Whether it takes frames without asking for their events.
    pub deaf: bool,
    /// Messages, announcements and pulled payloads that came.
    pub arrived: usize,
    next_op: u64,
}

/// What the owner of an engine has seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Got {
    Message(PeerId, Envelope, usize),
    Announced(PeerId, Envelope, u64, Ticket),
    Pulled(PeerId, Envelope, usize),
    Other(Incoming),
}

/// Payloads of announced messages.
#[derive(Default)]
pub struct Ops(pub HashMap<OpId, Vec<u8>>);

impl Payloads for Ops {
    fn read(&mut self, op: OpId, offset: u64, into: &mut [u8]) {
        let bytes = &self.0[&op][offset as usize..][..into.len()];
        into.copy_from_slice(bytes);
    }
}

struct Flight {
    to: usize,
    link: LinkId,
    from: LinkAddr,
    frame: Vec<u8>,
}

pub struct Net {
    pub now: Instant,
    pub nodes: Vec<Node>,
    pub segments: Vec<Segment>,
    pub random: Random,
    pub frames: u64,
    /// Bytes that were put on each segment.
    pub sent: Vec<u64>,
    flights: BTreeMap<(Instant, u64), Flight>,
    free_at: HashMap<(usize, usize), Instant>,
    pub burst: Burst,
    serial: u64,
    /// Messages go out at once where they can.
    pub alone: bool,
}

pub const KEY: JobKey = JobKey([42; 16]);

pub fn address(node: usize) -> Address {
    Address::new(node as u64 + 100, node as u64 + 1000, 7, node as u32, "toy")
}

pub fn envelope(tag: u64) -> Envelope {
    Envelope { tag, data: !tag, ..Envelope::default() }
}

/// Bytes that tell whose they are.
pub fn payload(tag: u64, len: usize) -> Vec<u8> {
    let start = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let word = |i: u64| (start ^ i.wrapping_mul(0xd134_2543_de82_ef95)).to_le_bytes();
    let mut bytes: Vec<u8> = (0..len.div_ceil(8) as u64).flat_map(word).collect();
    bytes.truncate(len);
    bytes
}

fn check(e: &Envelope, bytes: &[u8]) {
    assert_eq!(*e, envelope(e.tag));
    assert!(*bytes == payload(e.tag, bytes.len()), "content of message {}", e.tag);
}

impl Net {
    /// `count` nodes that know each other, each on all `segments`.
    pub fn new(count: usize, config: &Config, segments: Vec<Segment>, seed: u64) -> Net {
        let specs = vec![LinkSpec { mtu: 1472, ..LinkSpec::default() }; segments.len()];
        Net::with_links(count, config, segments, &specs, seed)
    }

    pub fn with_links(
        count: usize,
        config: &Config,
        segments: Vec<Segment>,
        specs: &[LinkSpec],
        seed: u64,
    ) -> Net {
        Net::on_wires(count, config, segments, specs, seed, false)
    }

    /// The same; `one_wire`: all segments are one wire.
    pub fn on_wires(
        count: usize,
        config: &Config,
        segments: Vec<Segment>,
        specs: &[LinkSpec],
        seed: u64,
        one_wire: bool,
    ) -> Net {
        let mut net = Net {
            now: Instant(1_000_000),
            nodes: Vec::new(),
            sent: Vec::new(),
            segments,
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            frames: 0,
            flights: BTreeMap::new(),
            free_at: HashMap::new(),
            burst: Burst::new(70_000),
            serial: 0,
            alone: false,
        };
        for at in 0..count {
            let mut engine = Engine::new(config.clone(), address(at), KEY, seed);
            for (segment, spec) in specs.iter().enumerate() {
                engine.add_link(LinkSpec {
                    addr: LinkAddr::Port(at as u32),
                    everyone: Some(LinkAddr::Port(u32::MAX)),
                    medium: if one_wire { 0 } else { segment as u32 },
                    ..spec.clone()
                });
            }
            (0..count).for_each(|p| engine.add_peer(PeerId(p as u32), &address(p)));
            net.nodes.push(Node::new(engine));
        }
        net
    }

    /// Sends what the nodes have to send.
    fn flush(&mut self, at: usize) {
        for _ in 0..100_000 {
            let node = &mut self.nodes[at];
            if !node.alive || node.runs_at(self.now) > self.now {
                return;
            }
            let Some(link) = node.engine.transmit(self.now, &mut node.ops, &mut self.burst) else {
                return;
            };
            self.carry(at, link);
        }
        panic!("node {at} never stops sending");
    }

    /// Puts what is in the burst on a segment.
    pub fn carry(&mut self, at: usize, link: LinkId) {
        let segment = self.segments[link.index()].clone();
        self.sent.resize(self.segments.len(), 0);
        let LinkAddr::Port(to) = self.burst.to() else { panic!("address") };
        let frames: Vec<Vec<u8>> = self.burst.frames_mut().map(|f| f.to_vec()).collect();
        for frame in frames {
            self.frames += 1;
            self.sent[link.index()] += frame.len() as u64;
            if frame.len() > segment.mtu || segment.mute.contains(&at) {
                continue;
            }
            let wire = frame.len() as u64 * 1000 / segment.rate.max(1);
            let free = self.free_at.entry((at, link.index())).or_default();
            let start = (*free).max(self.now);
            *free = if segment.rate == 0 { self.now } else { start.plus(wire) };
            let arrival = free.plus(segment.delay_ns);
            let everyone = 0..self.nodes.len();
            for node in everyone.filter(|&n| n as u32 == to || (to == u32::MAX && n != at)) {
                self.carry_to(node, at, link, &segment, arrival, &frame);
            }
        }
    }

    fn carry_to(
        &mut self,
        to: usize,
        from: usize,
        link: LinkId,
        segment: &Segment,
        arrival: Instant,
        frame: &[u8],
    ) {
        let copies = 1 + u64::from(self.random.chance(segment.duplicate));
        for _ in 0..copies {
            if self.random.chance(segment.loss) {
                continue;
            }
            let mut frame = frame.to_vec();
            if self.random.chance(segment.corrupt) {
                let bit = self.random.below(frame.len() as u64 * 8) as usize;
                frame[bit / 8] ^= 1 << (bit % 8);
            }
            // As Ethernet does with short frames.
            frame.resize(frame.len().max(46), 0);
            let at = arrival.plus(self.random.below(segment.jitter_ns + 1));
            self.serial += 1;
            let from = LinkAddr::Port(from as u32);
            self.flights.insert((at, self.serial), Flight { to, link, from, frame });
        }
    }

    /// Goes on to the next event; `false` when there is none before `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        for at in 0..self.nodes.len() {
            self.events(at, &[]);
            self.flush(at);
        }
        let flight = self.flights.keys().next().map(|k| k.0);
        let alive = self.nodes.iter().filter(|n| n.alive);
        let due = |n: &Node| n.engine.deadline().map(|at| n.runs_at(self.now.max(at)));
        let to_send = |n: &Node| n.engine.has_to_send().then(|| n.runs_at(self.now));
        let late = |at: &Instant| *at > self.now;
        let timer = alive.flat_map(|n| [due(n), to_send(n).filter(late)]).flatten().min();
        let Some(next) = flight.into_iter().chain(timer).min().filter(|&t| t <= until) else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.flights.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let flight = entry.remove();
            let node = &mut self.nodes[flight.to];
            let runs_at = node.runs_at(self.now);
            if runs_at == self.now {
                node.waiting.clear();
                self.arrive(flight);
                continue;
            }
            let waiting = node.waiting.entry(flight.link).or_default();
            if *waiting + flight.frame.len() <= node.room {
                *waiting += flight.frame.len();
                self.serial += 1;
                self.flights.insert((runs_at, self.serial), flight);
            }
        }
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at];
            let runs = node.alive && node.runs_at(self.now) <= self.now;
            if runs && node.engine.deadline().is_some_and(|d| d <= self.now) {
                node.engine.timeout(self.now);
                assert!(
                    node.engine.deadline().is_none_or(|d| d > self.now),
                    "a deadline of the past remains: livelock"
                );
            }
        }
        true
    }

    fn arrive(&mut self, flight: Flight) {
        let node = &mut self.nodes[flight.to];
        if node.alive {
            let _ = node.engine.receive(self.now, flight.link, &flight.from, &flight.frame);
            self.events(flight.to, &flight.frame);
        }
    }

    pub fn events(&mut self, at: usize, frame: &[u8]) {
        let now = self.now;
        let node = &mut self.nodes[at];
        if node.deaf {
            return;
        }
        while let Some(event) = node.engine.next(now, frame) {
            node.take(now, event, frame);
        }
    }

    /// Runs until `done` or for `ms`; whether `done`.
    pub fn run(&mut self, ms: u64, mut done: impl FnMut(&Net) -> bool) -> bool {
        let until = self.now.plus(ms * 1_000_000);
        for _ in 0..3_000_000 {
            if done(self) {
                return true;
            }
            if !self.step(until) {
                let is_done = done(self);
                self.now = if is_done { self.now } else { until };
                return is_done;
            }
        }
        panic!("too many steps: livelock");
    }

    pub fn send(&mut self, from: usize, to: usize, tag: u64, len: usize) {
        let bytes = payload(tag, len);
        for _ in 0..1_000_000 {
            let (node, peer) = (&mut self.nodes[from], PeerId(to as u32));
            if self.alone {
                let time = (self.now, self.random.chance(10));
                let burst = &mut self.burst;
                if let Some(link) = node.engine.send_lone(time, peer, &envelope(tag), &bytes, burst)
                {
                    node.engine.went(self.now, &self.burst);
                    self.carry(from, link);
                    return;
                }
            }
            match node.engine.send(self.now, peer, &envelope(tag), &bytes) {
                Ok(()) => return,
                Err(weft_proto::SendError::Full) => {
                    assert!(self.step(Instant(u64::MAX)), "full, and nothing goes on");
                }
                Err(why) => panic!("{why}"),
            }
        }
        panic!("full for ever");
    }

    /// Sends a message, to be told when it has arrived.
    pub fn send_awaited(&mut self, from: usize, to: usize, tag: u64, len: usize) -> OpId {
        let (node, peer) = (&mut self.nodes[from], PeerId(to as u32));
        let op = node.op();
        node.engine.reserve(peer, len).unwrap().copy_from_slice(&payload(tag, len));
        node.engine.await_arrival(op);
        if self.alone
            && let Some(link) =
                node.engine.commit_lone((self.now, false), &envelope(tag), &mut self.burst)
        {
            node.engine.went(self.now, &self.burst);
            self.carry(from, link);
            return op;
        }
        node.engine.commit(self.now, &envelope(tag));
        op
    }

    pub fn announce(&mut self, from: usize, to: usize, tag: u64, len: usize) -> OpId {
        let node = &mut self.nodes[from];
        let op = node.op();
        node.ops.0.insert(op, payload(tag, len));
        let peer = PeerId(to as u32);
        node.engine.announce(self.now, peer, &envelope(tag), len as u64, op).unwrap();
        op
    }
}

impl Node {
    pub fn new(engine: Engine) -> Node {
        Node {
            engine,
            ops: Ops::default(),
            got: Vec::new(),
            pulling: HashMap::new(),
            auto_pull: true,
            alive: true,
            turns: None,
            room: usize::MAX,
            waiting: HashMap::new(),
            deaf: false,
            arrived: 0,
            next_op: 1,
        }
    }

    /// When it has the processor next, or still.
    fn runs_at(&self, now: Instant) -> Instant {
        let Some((first, lasts, period)) = self.turns else { return now };
        let gone = now.since(first) % period;
        if now < first || gone < lasts { now.max(first) } else { now.plus(period - gone) }
    }

    pub fn op(&mut self) -> OpId {
        self.next_op += 1;
        OpId(self.next_op)
    }

    pub fn pull(&mut self, now: Instant, p: PeerId, e: Envelope, len: u64, t: Ticket) -> OpId {
        let op = self.op();
        self.pulling.insert(op, (p, e, vec![0; len as usize]));
        self.engine.pull(now, p, t, len, op);
        op
    }

    fn take(&mut self, now: Instant, event: Incoming, frame: &[u8]) {
        let before = self.got.len();
        self.take_one(now, event, frame);
        let new = self.got[before..].iter().filter(|g| !matches!(g, Got::Other(_)));
        self.arrived += new.count();
    }

    fn take_one(&mut self, now: Instant, event: Incoming, frame: &[u8]) {
        match event {
            Incoming::Message => {
                let (peer, envelope, bytes) = self.engine.message(frame);
                check(&envelope, bytes);
                self.got.push(Got::Message(peer, envelope, bytes.len()));
            }
            Incoming::Announced { peer, envelope, len, ticket } => {
                self.got.push(Got::Announced(peer, envelope, len, ticket));
                if self.auto_pull {
                    self.pull(now, peer, envelope, len, ticket);
                }
            }
            Incoming::Data { op, offset, range, .. } => {
                let memory = &mut self.pulling.get_mut(&op).expect("data for a live pull").2;
                let piece = &frame[range];
                memory[offset as usize..][..piece.len()].copy_from_slice(piece);
            }
            Incoming::Kept { op, .. } => {
                let memory = &mut self.pulling.get_mut(&op).expect("data for a live pull").2;
                for (offset, part) in self.engine.kept() {
                    memory[offset as usize..][..part.len()].copy_from_slice(part);
                }
            }
            Incoming::Done { op } if self.pulling.contains_key(&op) => {
                let (peer, envelope, bytes) = self.pulling.remove(&op).unwrap();
                check(&envelope, &bytes);
                self.got.push(Got::Pulled(peer, envelope, bytes.len()));
            }
            other => self.got.push(Got::Other(other)),
        }
    }

    /// Tags of messages and announcements from `peer`, in order.
    pub fn tags(&self, from: usize) -> Vec<u64> {
        let tags = self.got.iter().filter_map(|got| match got {
            Got::Message(p, e, _) | Got::Announced(p, e, ..) if p.index() == from => Some(e.tag),
            _ => None,
        });
        tags.collect()
    }

    /// Tags of pulled messages from `peer`.
    pub fn pulled(&self, from: usize) -> Vec<u64> {
        let pulled = self.got.iter().filter_map(|got| match got {
            Got::Pulled(peer, e, _) if peer.index() == from => Some(e.tag),
            _ => None,
        });
        pulled.collect()
    }

    pub fn done(&self) -> Vec<OpId> {
        let done = self.got.iter().filter_map(|got| match got {
            Got::Other(Incoming::Done { op }) => Some(*op),
            _ => None,
        });
        done.collect()
    }

    pub fn others(&self) -> impl Iterator<Item = &Incoming> {
        self.got.iter().filter_map(|got| match got {
            Got::Other(event) => Some(event),
            _ => None,
        })
    }
}
