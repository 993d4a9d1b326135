//! Graphs of cables and switches, between whose nodes frames are handed on as engines say.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::{BTreeMap, HashMap};

use weft_proto::{Cause, Config, Engine, Incoming, Instant, LinkSpec, Payloads, Relaying};
use weft_wire::{Address, Burst, Envelope, Header, JobKey, LinkAddr, LinkId, OpId, PeerId, Route};

const EVERYONE: [u8; 6] = [3; 6];
pub const DELAY_NS: u64 = 5_000;
const KEY: JobKey = JobKey([42; 16]);

pub type Mac = [u8; 6];
/// A node and one of its links.
pub type End = (usize, usize);

struct Nothing;

impl Payloads for Nothing {
    fn read(&mut self, _op: OpId, _offset: u64, _into: &mut [u8]) {}
}

struct Flight {
    end: End,
    from: Mac,
    to: Mac,
    frame: Vec<u8>,
    /// Nodes that have handed it on.
    hops: u32,
}

/// What a node that lies does with ways through it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// It tells of ways, and hands nothing on.
    Swallows,
    /// It says of everybody that they are at its own address.
    AllAreHere,
    /// It says of each node that it is where another one is.
    Swaps,
}

pub struct Graph {
    pub now: Instant,
    pub engines: Vec<Engine>,
    /// Who is on each segment: two for a cable, more for a switch.
    pub cables: Vec<Vec<End>>,
    pub cut: Vec<bool>,
    /// By end, from and to: the link that frames leave by.
    pub flows: HashMap<(End, Mac, Mac), usize>,
    flights: BTreeMap<(Instant, u64), Flight>,
    pub serial: u64,
    pub sent: u64,
    pub relayed: u64,
    /// Tags that came, by node and sender.
    pub got: Vec<Vec<(usize, u64)>>,
    pub dead: Vec<(usize, usize, Cause)>,
    pub liar: Option<(usize, Lie)>,
    burst: Burst,
    /// What a cable carries, bytes per us; 0: no limit.
    pub rate: u64,
    /// When each end of a cable has sent what it was given.
    free_at: HashMap<End, Instant>,
    /// Bytes that each end has sent of its own.
    pub own: HashMap<End, u64>,
    /// Long messages that have come.
    pub pulled: usize,
}

pub fn mac(end: End) -> Mac {
    [2, 0, 0, 0, end.0 as u8, end.1 as u8]
}

fn address(node: usize) -> Address {
    Address::new(node as u64 + 100, node as u64 + 1000, 7, node as u32, "graph")
}

impl Graph {
    /// `count` nodes, and segments between them.
    pub fn new(count: usize, segments: &[&[usize]]) -> Graph {
        Graph::with_last_resorts(count, segments, &[])
    }

    /// The same, and some of the segments are a last resort.
    pub fn with_last_resorts(count: usize, segments: &[&[usize]], last: &[usize]) -> Graph {
        let mut links = vec![0; count];
        let mut next = |node: usize| {
            links[node] += 1;
            (node, links[node] - 1)
        };
        let cables: Vec<Vec<End>> =
            segments.iter().map(|s| s.iter().map(|&node| next(node)).collect()).collect();
        let is_last = |end: End| last.iter().any(|&segment| cables[segment].contains(&end));
        let engine = |node: usize| {
            let mut engine = Engine::new(Config::default(), address(node), KEY, 1);
            for link in 0..links[node] {
                engine.add_link(LinkSpec {
                    addr: LinkAddr::Mac(mac((node, link))),
                    everyone: Some(LinkAddr::Mac(EVERYONE)),
                    medium: link as u32,
                    last_resort: is_last((node, link)),
                    ..LinkSpec::default()
                });
            }
            engine.set_relaying(Relaying::Relays);
            (0..count).for_each(|p| engine.add_peer(PeerId(p as u32), &address(p)));
            engine
        };
        Graph {
            now: Instant(1_000_000),
            engines: (0..count).map(engine).collect(),
            cut: vec![false; cables.len()],
            cables,
            flows: HashMap::new(),
            flights: BTreeMap::new(),
            serial: 0,
            sent: 0,
            relayed: 0,
            got: vec![Vec::new(); count],
            dead: Vec::new(),
            liar: None,
            burst: Burst::new(70_000),
            rate: 0,
            free_at: HashMap::new(),
            own: HashMap::new(),
            pulled: 0,
        }
    }

    /// Puts a frame on the segment of `end`.
    fn put(&mut self, end: End, from: Mac, to: Mac, frame: &[u8], hops: u32) {
        assert!(hops < 64, "a frame goes round");
        let at = self.cables.iter().position(|c| c.contains(&end)).expect("a cable");
        if self.cut[at] {
            return;
        }
        self.sent += 1;
        let free = self.free_at.entry(end).or_default();
        let wire = (frame.len() as u64 * 1_000).checked_div(self.rate).unwrap_or(0);
        *free = (*free).max(self.now).plus(wire);
        let arrives = free.plus(DELAY_NS);
        if hops == 0 {
            *self.own.entry(end).or_default() += frame.len() as u64;
        }
        for &other in self.cables[at].clone().iter().filter(|&&other| other != end) {
            self.serial += 1;
            let flight = Flight { end: other, from, to, frame: frame.to_vec(), hops };
            self.flights.insert((arrives, self.serial), flight);
        }
    }

    fn arrive(&mut self, flight: &Flight) {
        let Flight { end, from, to, frame, hops } = flight;
        let (node, link) = *end;
        if *to == EVERYONE || *to == mac(*end) {
            let from = LinkAddr::Mac(*from);
            let _ = self.engines[node].receive(self.now, LinkId(link as u8), &from, frame);
            self.events(node, frame);
        } else if let Some(&out) = self.flows.get(&(*end, *from, *to))
            && self.liar != Some((node, Lie::Swallows))
        {
            self.relayed += 1;
            self.put((node, out), *from, *to, frame, hops + 1);
        }
    }

    fn events(&mut self, node: usize, frame: &[u8]) {
        while let Some(event) = self.engines[node].next(self.now, frame) {
            match event {
                Incoming::Message => {
                    let (peer, envelope, _) = self.engines[node].message(frame);
                    self.got[node].push((peer.index(), envelope.tag));
                }
                Incoming::Relay { by, out, from, to } => {
                    let (by, out) = (by.index(), out.index());
                    self.flows.insert(((node, by), from, to), out);
                    self.flows.insert(((node, out), to, from), by);
                }
                Incoming::Announced { peer, len, ticket, .. } => {
                    let op = OpId(self.pulled as u64);
                    self.engines[node].pull(self.now, peer, ticket, len, op);
                }
                Incoming::Done { .. } if node != 0 => self.pulled += 1,
                Incoming::Dead { peer, why } => self.dead.push((node, peer.index(), why)),
                _ => {}
            }
        }
    }

    fn flush(&mut self) {
        for node in 0..self.engines.len() {
            self.events(node, &[]);
            while let Some(link) =
                self.engines[node].transmit(self.now, &mut Nothing, &mut self.burst)
            {
                let LinkAddr::Mac(to) = self.burst.to() else { panic!("address") };
                let mut frames: Vec<Vec<u8>> =
                    self.burst.frames_mut().map(|f| f.to_vec()).collect();
                let end = (node, link.index());
                if let Some((_, lie)) = self.liar.filter(|(liar, _)| *liar == node) {
                    frames.iter_mut().for_each(|frame| self.falsify(end, lie, frame));
                }
                frames.iter().for_each(|frame| self.put(end, mac(end), to, frame, 0));
            }
        }
    }

    /// What a liar, who has the job's key, makes of a reply that it sends or passes on.
    fn falsify(&self, end: End, lie: Lie, frame: &mut Vec<u8>) {
        let (key, nodes) = (KEY.hello(), self.engines.len() as u64);
        let header = Header::decode(frame).expect("an engine's frame");
        let Ok(mut route) = Route::decode(&key, &header, frame) else { return };
        if route.back.is_none() {
            return;
        }
        match lie {
            Lie::Swallows => {}
            Lie::AllAreHere => route.to = mac(end),
            Lie::Swaps => {
                let on_it =
                    |node| node == route.origin || route.hops.iter().any(|h| h.node == node);
                let others = (1..nodes).map(|n| 100 + (route.target - 100 + n) % nodes);
                route.target = others.into_iter().find(|&node| !on_it(node)).unwrap_or(999);
            }
        }
        frame.resize(route.frame_len(), 0);
        route.encode(header.job, &key, frame);
    }

    /// Runs until `done` or for `ms`; whether `done`.
    pub fn run(&mut self, ms: u64, done: impl Fn(&Graph) -> bool) -> bool {
        let until = self.now.plus(ms * 1_000_000);
        for _ in 0..3_000_000 {
            self.flush();
            if done(self) {
                return true;
            }
            let flight = self.flights.keys().next().map(|key| key.0);
            let timer = self.engines.iter().filter_map(Engine::deadline).min();
            let Some(next) = flight.into_iter().chain(timer).min().filter(|&at| at <= until) else {
                self.now = until;
                return done(self);
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.flights.first_entry().filter(|e| e.key().0 <= self.now) {
                let flight = entry.remove();
                self.arrive(&flight);
            }
            for engine in &mut self.engines {
                if engine.deadline().is_some_and(|at| at <= self.now) {
                    engine.timeout(self.now);
                }
            }
        }
        panic!("too many steps: livelock");
    }

    pub fn send(&mut self, from: usize, to: usize, tag: u64) {
        let envelope = Envelope { tag, ..Envelope::default() };
        self.engines[from].send(self.now, PeerId(to as u32), &envelope, &[7; 600]).expect("room");
    }

    /// Time until node `by` has pulled `len` bytes of node 0, ns.
    pub fn pulled_in(&mut self, by: usize, len: usize) -> u64 {
        let (begun, before) = (self.now, self.pulled);
        let (op, peer) = (OpId(1 << 40), PeerId(by as u32));
        let envelope = Envelope::default();
        self.engines[0].announce(self.now, peer, &envelope, len as u64, op).expect("room");
        assert!(self.run(10_000, |g| g.pulled > before));
        self.now.since(begun)
    }

    /// Every node sends to every other one; all must arrive in good time.
    pub fn all_pairs(&mut self, ms: u64) -> bool {
        let count = self.engines.len();
        for (from, to) in (0..count * count).map(|i| (i / count, i % count)) {
            if from != to {
                self.send(from, to, 0);
            }
        }
        self.run(ms, |g| g.got.iter().all(|got| got.len() == count - 1))
    }

    pub fn counters(&self, of: impl Fn(weft_proto::Counters) -> u64) -> u64 {
        self.engines.iter().map(|engine| of(engine.counters())).sum()
    }
}

/// Four nodes, each with a cable to two others.
pub const RING: &[&[usize]] = &[&[0, 1], &[1, 2], &[2, 3], &[0, 3]];
