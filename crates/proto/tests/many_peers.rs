//! Ten thousand peers: what an idle one costs in memory, and that it costs no work.

use weft_proto::{Config, Engine, Incoming, Instant, LinkSpec, Payloads};
use weft_sys::counted::Counted;
use weft_wire::{Address, Burst, Envelope, JobKey, LinkAddr, LinkId, OpId, PeerId};

#[global_allocator]
static MEMORY: Counted = Counted::new();

const PEERS: usize = 10_000;
/// What an idle peer may take of the engine's memory, bytes.
const IDLE_MAX: usize = 16 * 1024;
/// Time between two steps of the network, ns.
const STEP_NS: u64 = 10_000_000;

struct Nothing;

impl Payloads for Nothing {
    fn read(&mut self, _: OpId, _: u64, _: &mut [u8]) {}
}

fn address(node: usize) -> Address {
    Address::new(node as u64, node as u64 + 1, 7, 1, "many")
}

/// The engine of a node, with two links and the peers that it has.
fn engine(node: usize, config: &Config, peers: impl Iterator<Item = usize>) -> Engine {
    let mut engine = Engine::new(config.clone(), address(node), JobKey([3; 16]), 1);
    for medium in 0..2 {
        let (addr, everyone) = (LinkAddr::Port(node as u32), Some(LinkAddr::Port(u32::MAX)));
        engine.add_link(LinkSpec { addr, everyone, medium, mtu: 1472, ..LinkSpec::default() });
    }
    peers.for_each(|peer| engine.add_peer(PeerId(peer as u32), &address(peer)));
    engine
}

/// Node 0 and its peers, whose only peer it is.
struct Star {
    now: Instant,
    center: Engine,
    leaves: Vec<Engine>,
    burst: Burst,
    messages: usize,
}

impl Star {
    fn new() -> Star {
        let mut config = Config::default();
        config.set_silence_limit(60_000_000_000);
        let center = MEMORY.during(|| engine(0, &config, 1..PEERS + 1));
        // Their memory is not what is looked at.
        config.outbox_bytes = 16 * 1024;
        let leaves = (1..PEERS + 1).map(|node| engine(node, &config, 0..1)).collect();
        let burst = Burst::new(70_000);
        Star { now: Instant(1), center, leaves, burst, messages: 0 }
    }

    fn send(&mut self, leaf: usize, len: usize) {
        let (now, peer, bytes) = (self.now, PeerId(leaf as u32 + 1), vec![1; len]);
        let envelope = Envelope::default();
        MEMORY.during(|| self.center.send(now, peer, &envelope, &bytes)).unwrap();
        self.leaves[leaf].send(now, PeerId(0), &envelope, &bytes).unwrap();
    }

    fn take(engine: &mut Engine, now: Instant, link: LinkId, from: usize, frame: &[u8]) -> usize {
        let _ = engine.receive(now, link, &LinkAddr::Port(from as u32), frame);
        let mut count = 0;
        while let Some(event) = engine.next(now, frame) {
            let Incoming::Message = event else {
                assert!(!matches!(event, Incoming::Dead { .. }), "{event:?}");
                continue;
            };
            let (_, _, payload) = engine.message(frame);
            count += usize::from(!payload.is_empty());
        }
        count
    }

    /// Carries frames until nobody has any to send; `asked` are the leaves that may.
    fn carry(&mut self, mut asked: Vec<usize>) {
        let now = self.now;
        while !asked.is_empty() {
            for leaf in std::mem::take(&mut asked) {
                let leaf_engine = &mut self.leaves[leaf];
                while let Some(link) = leaf_engine.transmit(now, &mut Nothing, &mut self.burst) {
                    for frame in self.burst.frames_mut() {
                        let take = || Star::take(&mut self.center, now, link, leaf + 1, frame);
                        self.messages += MEMORY.during(take);
                    }
                }
            }
            let (center, burst) = (&mut self.center, &mut self.burst);
            while let Some(link) = MEMORY.during(|| center.transmit(now, &mut Nothing, burst)) {
                let LinkAddr::Port(to) = burst.to() else { panic!("an address of another kind") };
                assert_ne!(to, u32::MAX, "the leaves have said hello already");
                let leaf = to as usize - 1;
                for frame in burst.frames_mut() {
                    self.messages += Star::take(&mut self.leaves[leaf], now, link, 0, frame);
                }
                asked.push(leaf);
            }
        }
    }

    /// Every leaf says hello, and there is some traffic with each.
    fn meet(&mut self) {
        for leaf in 0..PEERS {
            self.leaves[leaf].send(self.now, PeerId(0), &Envelope::default(), b"hello").unwrap();
            self.carry(vec![leaf]);
            [10, 1_000, 10_000].into_iter().for_each(|len| self.send(leaf, len));
            self.carry(vec![leaf]);
            self.now = self.now.plus(10_000);
        }
        self.run(100);
        assert_eq!(self.messages, 7 * PEERS, "all has arrived");
    }

    fn run(&mut self, ms: u64) {
        let end = self.now.plus(ms * 1_000_000);
        while self.now < end {
            self.now = self.now.plus(STEP_NS);
            let now = self.now;
            for engine in &mut self.leaves {
                if engine.deadline().is_some_and(|at| at <= now) {
                    engine.timeout(now);
                }
            }
            MEMORY.during(|| self.center.timeout(now));
            let ready = |leaf: &usize| self.leaves[*leaf].has_to_send();
            // The center may have something to send, though no leaf has.
            let asked = (0..PEERS).filter(ready).chain([0]).collect();
            self.carry(asked);
        }
    }
}

#[test]
fn ten_thousand_idle_peers_take_little_memory_and_no_work() {
    let mut star = Star::new();
    star.meet();
    // Each is looked at once in half of the time that makes it dead, and gives back what it has no
    // use for.
    star.run(35_000);
    let each = MEMORY.live() / PEERS as isize;
    assert!(each <= IDLE_MAX as isize, "{each} bytes");

    // Pings do not become more with the number of peers: one of ours in ten seconds for each would
    // be 1000 in a second.
    let before = star.center.counters();
    star.run(10_000);
    let after = star.center.counters();
    let pings = after.pings_sent - before.pings_sent;
    assert!(pings <= 2 * 2 * PEERS as u64, "{pings} pings over two links in 10 s");
    let looks = after.peers_looked_at - before.peers_looked_at;
    assert!(looks <= 32 * PEERS as u64, "{looks} looks");

    // A message there and back looks at its peer only.
    let messages = star.messages;
    let (mut looks, mut steps) = (0, 0);
    for leaf in (0..PEERS).step_by(1_000) {
        let before = star.center.counters().peers_looked_at;
        star.send(leaf, 100);
        star.carry(vec![leaf]);
        looks += star.center.counters().peers_looked_at - before;
        steps += 1;
    }
    assert_eq!(star.messages - messages, 2 * steps);
    assert!(looks <= 10 * steps as u64, "{looks} looks for {steps} messages");
}
