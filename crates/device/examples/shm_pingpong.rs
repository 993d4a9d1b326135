//! How far the shm device is from the floor, in one run: a bare cache line between two cores, then
//! messages there and back, then large ones. Of many short batches the best one counts, so that
//! other load on the machine shows little.
//!
//! `cargo run --release -p weft-device --example shm_pingpong [ROUNDS]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use weft_device::device::{Device, Event};
use weft_device::shm::{Port, Regions, Shm, ShmOptions};
use weft_sys::buf::{Buf, lend};
use weft_sys::clock::now_ns;
use weft_sys::cpu;
use weft_wire::{Address, Envelope, JobKey, OpId, PeerId};

const THERE: PeerId = PeerId(1);
const BACK: PeerId = PeerId(0);

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let cpus = cpu::affinity().unwrap_or_default();
    let (here, there) = (cpus[0], *cpus.last().unwrap_or(&0));
    for run in 0..3 {
        println!("run {run}");
        let floor = cache_line(rounds, here, there);
        println!("  cache line     {floor:8.3} us there and back");
        println!("  one core       {:8.3} us for both sides of a message", one_core(rounds));
        for len in [0, 8, 32, 64, 256, 1024, 4096, 16384] {
            let (time, _) = both(here, there, ShmOptions::for_peers(2), move |shm, me, peer, _| {
                ping_pong(shm, me, peer, len, rounds)
            });
            println!("  {len:6} B       {time:8.3} us there and back, {:.2} floors", time / floor);
        }
        for (name, cma, weft) in
            [("attach", true, false), ("ring", false, false), ("weft memory", true, true)]
        {
            for len in [16 << 10, 64 << 10, 1 << 20] {
                let options = ShmOptions::for_peers(2).cma(cma);
                let (gb_s, _) = both(here, there, options, move |shm, first, peer, regions| {
                    window(shm, first, peer, len, weft.then_some(regions))
                });
                println!("  {name:12} {:5} KiB, window of 32 {gb_s:8.2} GB/s", len >> 10);
            }
        }
    }
}

/// What a message costs both sides together when no other core is in play.
fn one_core(rounds: u64) -> f64 {
    let (mut a, mut b) = pair(ShmOptions::for_peers(2));
    let mut bytes = [1; 8];
    while a.send(THERE, &Envelope::default(), &bytes).is_err() {
        a.poll(now_ns());
        b.poll(now_ns());
    }
    receive(&mut b, &mut bytes);
    let mut best = Best::new();
    for i in 0..rounds {
        best.round(i);
        send(&mut a, THERE, &bytes);
        receive(&mut b, &mut bytes);
    }
    best.us
}

/// Two devices that know each other.
fn pair(options: ShmOptions) -> (Shm, Shm) {
    let node = cpu::node_id().expect("/proc is there");
    let open = |nonce: u64| {
        let port = Port::claim_any().expect("a port");
        let me = Address::new(node, nonce, port.number(), std::process::id(), "here");
        (Shm::new(port, me, JobKey([1; 16]), options).expect("a device"), me)
    };
    let ((mut a, at_a), (mut b, at_b)) = (open(1), open(2));
    a.associate(THERE, &at_b).expect("on this node");
    b.associate(BACK, &at_a).expect("on this node");
    (a, b)
}

/// Runs `f` on two connected devices on two cores: first argument there, whether it is the first.
fn both<F>(here: usize, there: usize, options: ShmOptions, f: F) -> (f64, f64)
where
    F: Fn(&mut Shm, bool, PeerId, Arc<Regions>) -> f64 + Copy + Send + 'static,
{
    let (mut a, mut b) = pair(options);
    let other = std::thread::spawn(move || {
        let _ = cpu::set_affinity(&[there]);
        let regions = b.regions();
        let result = f(&mut b, false, BACK, regions);
        (result, b)
    });
    let _ = cpu::set_affinity(&[here]);
    let regions = a.regions();
    let result = f(&mut a, true, THERE, regions);
    (result, other.join().expect("no panic").0)
}

fn cache_line(rounds: u64, here: usize, there: usize) -> f64 {
    #[repr(align(128))]
    struct Line(AtomicU64);
    let line = Arc::new(Line(AtomicU64::new(0)));
    let theirs = line.clone();
    let other = std::thread::spawn(move || {
        let _ = cpu::set_affinity(&[there]);
        for i in 0..rounds {
            while theirs.0.load(Ordering::Acquire) != 2 * i + 1 {}
            theirs.0.store(2 * i + 2, Ordering::Release);
        }
    });
    let _ = cpu::set_affinity(&[here]);
    let mut best = Best::new();
    for i in 0..rounds {
        best.round(i);
        line.0.store(2 * i + 1, Ordering::Release);
        while line.0.load(Ordering::Acquire) != 2 * i + 2 {}
    }
    other.join().expect("no panic");
    best.us
}

/// The best batch so far, us a round.
struct Best {
    start: Instant,
    us: f64,
}

/// Rounds in a batch.
const BATCH: u64 = 100;

impl Best {
    fn new() -> Best {
        Best { start: Instant::now(), us: f64::INFINITY }
    }

    /// A round begins.
    fn round(&mut self, i: u64) {
        if i.is_multiple_of(BATCH) {
            let now = Instant::now();
            if i > 0 {
                let us = now.duration_since(self.start).as_secs_f64() * 1e6 / BATCH as f64;
                self.us = self.us.min(us);
            }
            self.start = now;
        }
    }
}

fn send(shm: &mut Shm, peer: PeerId, payload: &[u8]) {
    while shm.send(peer, &Envelope::default(), payload).is_err() {
        shm.poll(now_ns());
    }
}

fn receive(shm: &mut Shm, into: &mut [u8]) {
    loop {
        // A caller that polls often reads the clock seldom.
        let now = now_ns();
        for _ in 0..100 {
            if shm.poll(now)
                && let Event::Message { payload, .. } = shm.event()
            {
                return into[..payload.len()].copy_from_slice(payload);
            }
            // Looking less often lets the other's store through sooner.
            std::hint::spin_loop();
        }
    }
}

fn ping_pong(shm: &mut Shm, first: bool, peer: PeerId, len: usize, rounds: u64) -> f64 {
    let mut bytes = vec![1; len];
    let rounds = if len > 1024 { rounds / 4 } else { rounds };
    let mut best = Best::new();
    for i in 0..rounds {
        best.round(i);
        if first {
            send(shm, peer, &bytes);
        }
        receive(shm, &mut bytes);
        if !first {
            send(shm, peer, &bytes);
        }
    }
    best.us
}

/// The first sends 32 large messages, the other pulls them all and answers. GB/s.
fn window(
    shm: &mut Shm,
    first: bool,
    peer: PeerId,
    len: usize,
    regions: Option<Arc<Regions>>,
) -> f64 {
    const WINDOW: usize = 32;
    let rounds = (1 << 30) / (len * WINDOW);
    let mut own = vec![1u8; len * WINDOW];
    let mut region = regions.map(|r| r.allocate(len * WINDOW).expect("memory"));
    let memory = region.as_deref_mut().unwrap_or(&mut own);
    memory.fill(1);
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        lend(|loans| {
            let parts: Vec<Buf> = memory.chunks_exact_mut(len).map(|c| loans.fill(c)).collect();
            if first { offer(shm, peer, &parts) } else { fetch(shm, peer, parts) }
        });
        best = best.min(start.elapsed().as_secs_f64());
    }
    (WINDOW * len) as f64 / best / 1e9
}

fn offer(shm: &mut Shm, peer: PeerId, parts: &[Buf]) {
    for part in parts {
        while shm.announce(peer, &Envelope::default(), part, OpId(0)).is_err() {
            shm.poll(now_ns());
        }
    }
    let (mut done, mut answered) = (0, false);
    while done < parts.len() || !answered {
        if shm.poll(now_ns()) {
            match shm.event() {
                Event::Done { .. } => done += 1,
                Event::Message { .. } => answered = true,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn fetch(shm: &mut Shm, peer: PeerId, parts: Vec<Buf>) {
    let (mut done, mut next) = (0, parts.into_iter());
    let count = next.len();
    while done < count {
        if !shm.poll(now_ns()) {
            continue;
        }
        let ticket = match shm.event() {
            Event::Announced { ticket, .. } => Some(ticket),
            Event::Done { .. } => {
                done += 1;
                None
            }
            other => panic!("{other:?}"),
        };
        if let Some(ticket) = ticket {
            shm.pull(peer, ticket, next.next().expect("as many as offered"), OpId(0));
        }
    }
    send(shm, peer, &[]);
}
