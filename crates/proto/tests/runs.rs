//! Bursts that are taken many frames at once, as a link gives them whose kernel merges datagrams.

mod toy;

use toy::{KEY, Random, address, envelope, payload};
use weft_proto::{Config, Engine, Incoming, Instant, LinkSpec, Payloads};
use weft_wire::{Burst, LinkAddr, LinkId, OpId, PeerId};

/// The sender's messages, by operation.
struct Sent(Vec<Vec<u8>>);

impl Payloads for Sent {
    fn read(&mut self, op: OpId, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0[op.0 as usize][offset as usize..][..into.len()]);
    }
}

struct Node {
    engine: Engine,
    into: Vec<Vec<u8>>,
    done: Vec<OpId>,
    /// Frames taken in runs.
    in_runs: usize,
    /// Whether announcements are pulled at once.
    pulls: bool,
    waiting: Vec<Incoming>,
}

impl Node {
    fn new(me: usize) -> Node {
        let mut engine = Engine::new(Config::default(), address(me), KEY, 1);
        let (addr, everyone) = (LinkAddr::Port(me as u32), Some(LinkAddr::Port(100)));
        engine.add_link(LinkSpec { addr, everyone, ..LinkSpec::default() });
        engine.add_peer(PeerId(0), &address(1 - me));
        let (into, done, waiting) = (Vec::new(), Vec::new(), Vec::new());
        Node { engine, into, done, in_runs: 0, pulls: true, waiting }
    }

    fn pull(&mut self, now: Instant, event: &Incoming) {
        let Incoming::Announced { peer, len, ticket, .. } = *event else { panic!("{event:?}") };
        let op = OpId(self.into.len() as u64);
        self.into.push(vec![0; len as usize]);
        self.engine.pull(now, peer, ticket, len, op);
    }

    fn events(&mut self, now: Instant, frame: &[u8]) {
        while let Some(event) = self.engine.next(now, frame) {
            match event {
                Incoming::Announced { .. } if self.pulls => self.pull(now, &event),
                Incoming::Announced { .. } => self.waiting.push(event),
                Incoming::Data { op, offset, range, .. } => {
                    let piece = &frame[range];
                    self.into[op.0 as usize][offset as usize..][..piece.len()]
                        .copy_from_slice(piece);
                }
                Incoming::Kept { op, .. } => {
                    for (offset, part) in self.engine.kept() {
                        self.into[op.0 as usize][offset as usize..][..part.len()]
                            .copy_from_slice(part);
                    }
                }
                Incoming::Done { op } => self.done.push(op),
                _ => {}
            }
        }
    }

    /// Takes frames of `stride` bytes that came together.
    fn take(&mut self, now: Instant, frames: &[u8], stride: usize) {
        let (link, from) = (LinkId(0), LinkAddr::Port(9));
        let mut at = 0;
        while at < frames.len() {
            let frame = &frames[at..frames.len().min(at + stride)];
            let _ = self.engine.receive(now, link, &from, frame);
            self.events(now, frame);
            at += stride;
            let into = &mut self.into;
            let rest = frames.get(at..).unwrap_or(&[]);
            let taken = self.engine.receive_run(now, link, rest, stride, |op, offset, bytes| {
                into[op.0 as usize][offset as usize..][..bytes.len()].copy_from_slice(bytes);
            });
            self.in_runs += taken;
            at += taken * stride;
            self.events(now, &[]);
        }
    }
}

struct Pair {
    nodes: [Node; 2],
    sent: Sent,
    now: Instant,
    random: Random,
    /// Of 1000 frames so many vanish, which tears the bursts apart.
    loss: u64,
}

impl Pair {
    /// Lets both go on until `ends`.
    fn run(&mut self, ends: impl Fn(&[Node; 2]) -> bool) {
        let mut burst = Burst::new(64 * 1024);
        for _ in 0..50_000 {
            self.now = self.now.plus(20_000);
            (0..2).for_each(|at| self.turn(at, &mut burst));
            if ends(&self.nodes) {
                return;
            }
        }
        panic!("a second was not enough");
    }

    fn turn(&mut self, at: usize, burst: &mut Burst) {
        let now = self.now;
        self.nodes[at].engine.timeout(now);
        self.nodes[at].events(now, &[]);
        while self.nodes[at].engine.transmit(now, &mut self.sent, burst).is_some() {
            let stride = burst.stride();
            let mut together = Vec::new();
            for frame in burst.bytes().chunks(stride) {
                if self.random.below(1000) >= self.loss {
                    together.extend_from_slice(frame);
                }
            }
            self.nodes[1 - at].take(now, &together, stride);
        }
    }
}

#[test]
fn payloads_arrive_whole_however_the_runs_are_torn() {
    let lens = [40_000usize, 200_000, 1_424 * 50, 1_000_003];
    for (loss, pulls) in [(0, true), (0, false), (10, true), (10, false), (100, true)] {
        let mut nodes = [Node::new(0), Node::new(1)];
        nodes[1].pulls = pulls;
        let sent = Sent((0..).zip(lens).map(|(tag, len)| payload(tag, len)).collect());
        let mut pair = Pair { nodes, sent, now: Instant(1), random: Random(7 + loss), loss };
        let (now, peer) = (pair.now, PeerId(0));
        pair.nodes[0].engine.send(now, peer, &envelope(9), b"hello").unwrap();
        pair.run(|n| !n[0].engine.busy());
        for (n, len) in lens.into_iter().enumerate() {
            let (op, e, now) = (OpId(n as u64), envelope(n as u64), pair.now);
            pair.nodes[0].engine.announce(now, peer, &e, len as u64, op).unwrap();
        }
        if !pulls {
            pair.run(|n| n[1].waiting.len() == lens.len());
            let events = std::mem::take(&mut pair.nodes[1].waiting);
            let now = pair.now;
            events.iter().for_each(|event| pair.nodes[1].pull(now, event));
        }
        pair.run(|n| n.iter().all(|n| n.done.len() == lens.len()));
        let receiver = &pair.nodes[1];
        assert!(receiver.into == pair.sent.0, "loss {loss}, pulls {pulls}");
        assert!(receiver.in_runs > 100, "{} frames in runs", receiver.in_runs);
    }
}
