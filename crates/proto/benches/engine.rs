//! What the engine itself costs, without any link: both sides of a small message and of a segment
//! of bulk, each measured alone, in the thread and cache of one process.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use std::time::{Duration, Instant as Clock};

use criterion::{Criterion, criterion_group, criterion_main};
use weft_proto::{Config, Engine, Incoming, Instant, LinkSpec, Payloads};
use weft_wire::{Address, Burst, Envelope, HEADER_LEN, JobKey, LinkAddr, LinkId, OpId, PeerId};

/// One large buffer, copied from for every operation.
struct Source(Vec<u8>);

impl Payloads for Source {
    fn read(&mut self, _: OpId, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0[offset as usize..][..into.len()]);
    }
}

struct Pair {
    engines: [Engine; 2],
    source: Source,
    burst: Burst,
    now: u64,
    memory: Vec<u8>,
    done: usize,
    /// Time spent by each engine, sending and receiving.
    sending: [Duration; 2],
    receiving: [Duration; 2],
    frames: [u64; 2],
}

const MIB: usize = 1 << 20;

impl Pair {
    fn new() -> Pair {
        let address = |n: u64| Address::new(n, n + 10, 7, n as u32, "bench");
        let engine = |n: u64| {
            let mut e = Engine::new(Config::default(), address(n), JobKey([1; 16]), 0);
            let addr = LinkAddr::Port(n as u32);
            e.add_link(LinkSpec { addr, everyone: Some(LinkAddr::Port(9)), ..LinkSpec::default() });
            e.add_peer(PeerId(1 - n as u32), &address(1 - n));
            e
        };
        let mut pair = Pair {
            engines: [engine(0), engine(1)],
            source: Source(vec![7; MIB]),
            burst: Burst::new(70_000),
            now: 1_000_000,
            memory: vec![0; MIB],
            done: 0,
            sending: [Duration::ZERO; 2],
            receiving: [Duration::ZERO; 2],
            frames: [0; 2],
        };
        pair.engines[0].send(Instant(pair.now), PeerId(1), &Envelope::default(), b"hi").unwrap();
        (0..20).for_each(|_| pair.exchange());
        pair
    }

    /// One burst from each to the other, as far as there is something to send.
    fn exchange(&mut self) {
        for from in 0..2 {
            while self.carry(from) {}
        }
    }

    fn carry(&mut self, from: usize) -> bool {
        self.now += 2_000;
        let now = Instant(self.now);
        let start = Clock::now();
        let sent = self.engines[from].transmit(now, &mut self.source, &mut self.burst);
        self.sending[from] += start.elapsed();
        if sent.is_none() {
            return false;
        }
        self.frames[from] += self.burst.count() as u64;
        let start = Clock::now();
        let engine = &mut self.engines[1 - from];
        for frame in self.burst.frames_mut() {
            let frame = &*frame;
            let _ = engine.receive(now, LinkId(0), &LinkAddr::Port(from as u32), frame);
            while let Some(event) = engine.next(now, frame) {
                match event {
                    Incoming::Data { offset, range, .. } => {
                        let piece = &frame[range];
                        self.memory[offset as usize..][..piece.len()].copy_from_slice(piece);
                    }
                    Incoming::Kept { .. } => {
                        for (offset, part) in engine.kept() {
                            self.memory[offset as usize..][..part.len()].copy_from_slice(part);
                        }
                    }
                    Incoming::Announced { peer, ticket, len, .. } => {
                        engine.pull(now, peer, ticket, len, OpId(2));
                    }
                    Incoming::Done { .. } => self.done += 1,
                    _ => {}
                }
            }
        }
        self.receiving[1 - from] += start.elapsed();
        true
    }

    fn reset(&mut self) {
        self.sending = [Duration::ZERO; 2];
        self.receiving = [Duration::ZERO; 2];
        self.frames = [0; 2];
    }

    fn bulk(&mut self) {
        let target = self.done + 2;
        let (now, e) = (Instant(self.now), Envelope::default());
        self.engines[0].announce(now, PeerId(1), &e, MIB as u64, OpId(1)).unwrap();
        while self.done < target {
            self.exchange();
            if let Some(deadline) = self.engines[1].deadline() {
                self.now = self.now.max(deadline.0.min(self.now + 10_000));
                self.engines[1].timeout(Instant(self.now));
            }
        }
    }

    fn small(&mut self, from: usize) {
        let now = Instant(self.now);
        let room = self.engines[from].reserve(PeerId(1 - from as u32), 8).unwrap();
        room.copy_from_slice(&[1; 8]);
        self.engines[from].commit(now, &Envelope::default());
        self.carry(from);
    }
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    group.bench_function("8 bytes there and back, both sides", |b| {
        let mut pair = Pair::new();
        b.iter(|| {
            pair.small(0);
            pair.small(1);
        });
    });
    for (name, side) in [("1424-byte segment, sender", 0), ("1424-byte segment, receiver", 1)] {
        group.bench_function(name, |b| {
            let mut pair = Pair::new();
            (0..50).for_each(|_| pair.bulk());
            b.iter_custom(|count| {
                pair.reset();
                while pair.frames[0] < count {
                    pair.bulk();
                }
                let whole = pair.sending[side] + pair.receiving[side];
                whole.mul_f64(count as f64 / pair.frames[0] as f64)
            });
        });
    }
    group.bench_function("memcpy of 1424 bytes, for comparison", |b| {
        let (from, mut to) = (vec![1u8; MIB], vec![0u8; MIB]);
        let mut at = 0;
        b.iter(|| {
            at = (at + 1424) % (MIB - 1424 - HEADER_LEN);
            to[at..at + 1424].copy_from_slice(&from[at..at + 1424]);
        });
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
