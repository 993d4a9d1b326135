//! Many pairs of endpoints, by shared memory and between the nodes of a lab, that send each other
//! messages with random gaps in which they make no call. Nothing is lost, nothing comes twice, all
//! comes in order, and the last message of each row comes though its sender makes no further call
//! until it has been told so by another way than messages.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use std::{io, iter};

use weft::context::{ContextOptions, DeviceKind};
use weft::endpoint::{Endpoint, Tag};
use weft::error::Error;
use weft::remote::Windows;
use weft_cli::lab::Lab;
use weft_sys::clock::now_ns;
use weft_sys::ns::NetNs;
use weft_sys::process::{Setup, spawn};
use weft_wire::JobKey;

use super::Failure;
use super::flow::fill;

/// The longest gap before a send.
const GAP: Duration = Duration::from_millis(20);
/// A gap that is shorter than this is no time to sleep in.
const SHORT: Duration = Duration::from_micros(60);
/// The longest row of messages in one direction.
const ROW_MAX: u64 = 64;
/// What only a hang takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// A waiting receiver looks as often as this whether the other one has failed.
const LOOK_NS: u64 = 1_000_000_000;
/// Bytes at the start of each message: its number, and when it was sent.
const HEAD: usize = 16;
/// Lengths of messages, and of how many messages one is so long: from one that shares a frame to
/// one that is announced.
const LENGTHS: [(usize, u64); 5] = [(100_000, 256), (16 << 10, 32), (4000, 16), (1320, 8), (64, 2)];

/// How a receiver waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waits {
    Spinning,
    Yielding,
    Sleeping,
}

const WAITS: [Waits; 3] = [Waits::Spinning, Waits::Yielding, Waits::Sleeping];

impl Waits {
    /// Of the pair of this number: cores are few, so nearly all sleep.
    fn of(pair: u64) -> Waits {
        match pair {
            0 => Waits::Spinning,
            1 => Waits::Yielding,
            _ => Waits::Sleeping,
        }
    }
}

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    /// None at all for one in four; of the others shorter ones are the more likely.
    fn gap(&mut self) -> Duration {
        if self.below(4) == 0 {
            return Duration::ZERO;
        }
        let part = self.below(1 << 20) as f64 / f64::from(1 << 20);
        GAP.mul_f64(part * part)
    }

    fn len(&mut self) -> usize {
        let found = LENGTHS.iter().find(|(_, one_in)| self.below(*one_in) == 0);
        found.map_or(HEAD, |(len, _)| *len)
    }
}

/// What the two of a pair share.
struct Pair {
    device: DeviceKind,
    number: u64,
    /// Messages, both ways together.
    count: u64,
    addresses: Mutex<Vec<(usize, [u8; 64])>>,
    /// Messages that have been received.
    received: AtomicU64,
    /// Sides that have said where they are, then those that are through.
    met: AtomicU64,
    failed: AtomicBool,
}

impl Pair {
    /// Waits, without a call, until so many have come; no longer where the other one has failed.
    fn until(&self, come: &AtomicU64, count: u64) -> Result<(), Failure> {
        let begun = Instant::now();
        while come.load(Ordering::Acquire) < count {
            let come = come.load(Ordering::Relaxed);
            self.goes_on(begun, || format!("{come} of {count} have come"))?;
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    fn meet(&self, count: u64) -> Result<(), Failure> {
        self.met.fetch_add(1, Ordering::AcqRel);
        self.until(&self.met, count)
    }

    fn goes_on(&self, begun: Instant, how_far: impl Fn() -> String) -> Result<(), Failure> {
        if self.failed.load(Ordering::Relaxed) {
            return Err("the other one has failed".into());
        }
        if begun.elapsed() < PATIENCE { Ok(()) } else { Err(how_far().into()) }
    }
}

/// One of a pair.
struct Side<'a> {
    endpoint: Endpoint,
    me: usize,
    peer: u32,
    pair: &'a Pair,
    /// The memory to receive into.
    into: Vec<u8>,
    delays: Vec<u64>,
}

/// Computes: no call is made meanwhile.
fn compute(gap: Duration) {
    if gap >= SHORT {
        return std::thread::sleep(gap);
    }
    let begun = Instant::now();
    while begun.elapsed() < gap {
        std::hint::spin_loop();
    }
}

impl Side<'_> {
    /// The rows of both, in turn; both know how they go.
    fn run(&mut self) -> Result<(), Failure> {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ ((self.pair.number + 1) << 20));
        let mut next = 0;
        for row in 0.. {
            if next == self.pair.count {
                break;
            }
            let last = self.pair.count.min(next + 1 + random.below(ROW_MAX));
            let sends = row % 2 == self.me;
            for number in next..last {
                let (gap, len) = (random.gap(), random.len());
                if sends {
                    compute(gap);
                    self.send(number, len)?;
                } else {
                    self.receive(number, len)?;
                }
            }
            if sends {
                // Messages, by another way than them: this side makes no call meanwhile.
                self.pair.until(&self.pair.received, last)?;
            }
            next = last;
        }
        self.pair.meet(4)?;
        match self.endpoint.iprobe(self.peer, Tag::ANY) {
            Some(status) => Err(format!("one more message, of {} bytes", status.len).into()),
            None => Ok(()),
        }
    }

    fn send(&self, number: u64, len: usize) -> Result<(), Failure> {
        let mut bytes = vec![0; len];
        fill(&mut bytes[HEAD..], 0, number);
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..HEAD].copy_from_slice(&now_ns().to_le_bytes());
        // To wait for its end would be a call that does what is left.
        let send = self.endpoint.isend(self.peer, 0, bytes)?;
        self.endpoint.detach(send);
        Ok(())
    }

    fn receive(&mut self, number: u64, len: usize) -> Result<(), Failure> {
        let got = match Waits::of(self.pair.number) {
            Waits::Sleeping => self.receive_asleep(number)?,
            Waits::Spinning => self.receive_awake(number, std::hint::spin_loop)?,
            Waits::Yielding => self.receive_awake(number, std::thread::yield_now)?,
        };
        let now_ns = now_ns();
        let bytes = &self.into[..got];
        let word = |at: usize| -> Result<u64, Failure> {
            Ok(u64::from_le_bytes(bytes.get(at..at + 8).ok_or("a short message")?.try_into()?))
        };
        let (came, sent_ns) = (word(0)?, word(8)?);
        if came != number {
            return Err(format!("message {came} in the place of {number}").into());
        }
        let mut wanted = vec![0; len - HEAD];
        fill(&mut wanted, 0, number);
        if bytes[HEAD..] != wanted {
            return Err(format!("message {number} is damaged").into());
        }
        self.delays.push(now_ns.saturating_sub(sent_ns));
        self.pair.received.store(number + 1, Ordering::Release);
        Ok(())
    }

    fn receive_asleep(&mut self, number: u64) -> Result<usize, Failure> {
        let begun = Instant::now();
        loop {
            match self.endpoint.recv_timeout(self.peer, Tag::ANY, &mut self.into, LOOK_NS) {
                Ok(status) => return Ok(status.len),
                Err(Error::TimedOut { .. }) => {
                    self.pair.goes_on(begun, || format!("message {number} does not come"))?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive_awake(&mut self, number: u64, pause: fn()) -> Result<usize, Failure> {
        let begun = Instant::now();
        let into = std::mem::take(&mut self.into);
        let mut request = self.endpoint.irecv(self.peer, Tag::ANY, into);
        loop {
            match self.endpoint.test(request) {
                Ok(done) => {
                    let done = done?;
                    self.into = done.buffer;
                    return Ok(done.status.len);
                }
                Err(again) => request = again,
            }
            self.pair.goes_on(begun, || format!("message {number} does not come"))?;
            pause();
        }
    }
}

/// One of a pair, in the network of its node; gives how long each message that it received took.
fn side(pair: &Pair, me: usize) -> Result<Vec<u64>, Failure> {
    let options = ContextOptions { device: pair.device, ..ContextOptions::from_env()? };
    let key = JobKey((pair.number + 1).to_le_bytes().repeat(2).try_into().unwrap_or_default());
    let endpoint = Endpoint::open(&options, key, Arc::new(Windows::default()))?;
    let mine = endpoint.address().ok_or("an endpoint without an address")?;
    pair.addresses.lock().map_err(|_| "the other one has failed")?.push((me, mine));
    pair.meet(2)?;
    let addresses = pair.addresses.lock().map_err(|_| "the other one has failed")?.clone();
    let other = addresses.iter().find(|(who, _)| *who != me).ok_or("nobody else is there")?;
    let peer = endpoint.add_peer(&other.1)?;
    let into = vec![0; LENGTHS[0].0];
    let mut side = Side { endpoint, me, peer, pair, into, delays: Vec::new() };
    side.run()?;
    Ok(side.delays)
}

/// Runs it, in a node of the lab where there is one; says what goes wrong.
fn play(pair: &Pair, me: usize, node: Option<&NetNs>) -> Result<Vec<u64>, String> {
    let work = || side(pair, me).map_err(|error| io::Error::other(error.to_string()));
    let done = match node {
        Some(node) => node.run(work),
        None => work(),
    };
    done.map_err(|error| {
        pair.failed.store(true, Ordering::Relaxed);
        format!("side {me}: {error}")
    })
}

/// Both sides of the pair of this number, which send each other `count` messages in all; by shared
/// memory, or between the first two nodes of a lab. Prints how long each took, ns.
pub fn pair(number: u64, count: u64, lab: Option<&str>) -> Result<(), Failure> {
    let lab = lab.map(Lab::find).transpose()?;
    let nodes = lab.as_ref().map(|lab| Ok::<_, Failure>([lab.net(0)?, lab.net(1)?])).transpose()?;
    let device = if nodes.is_some() { DeviceKind::Ether } else { DeviceKind::Shm };
    let pair = Pair {
        device,
        number,
        count,
        addresses: Mutex::default(),
        received: AtomicU64::new(0),
        met: AtomicU64::new(0),
        failed: AtomicBool::new(false),
    };
    let delays = std::thread::scope(|scope| {
        let (pair, nodes) = (&pair, &nodes);
        let node = |me: usize| nodes.as_ref().map(|nodes| &nodes[me]);
        let threads = [0, 1].map(|me| scope.spawn(move || play(pair, me, node(me))));
        let ends = threads.map(|thread| thread.join().unwrap_or_else(|_| Err("a panic".into())));
        ends.into_iter().collect::<Result<Vec<_>, String>>()
    })?;
    let words: Vec<String> = delays.concat().iter().map(u64::to_string).collect();
    println!("{DELAYS}{}", words.join(" "));
    Ok(())
}

/// What a pair's line of delays begins with.
const DELAYS: &str = "@0 delays ";

/// A pair in a process of its own, as ranks are: a process's memory has one lock, and one of all
/// threads that maps memory would keep all others from copying.
fn process(number: u64, count: u64, lab: Option<&str>) -> Result<Vec<u64>, String> {
    let run = || -> Result<Vec<u64>, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["soak-pair", &number.to_string(), &count.to_string()]).args(lab);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let setup = Setup { dies_with_parent: true, ..Setup::default() };
        let out = spawn(&mut command, setup)?.wait_with_output()?;
        let said = String::from_utf8(out.stdout)?;
        match said.lines().find_map(|line| line.strip_prefix(DELAYS)) {
            Some(delays) if out.status.success() => {
                Ok(delays.split(' ').map(str::parse).collect::<Result<_, _>>()?)
            }
            _ => Err(said.into()),
        }
    };
    run().map_err(|error| format!("pair {number} in {}: {error}", lab.unwrap_or("a node")))
}

/// `count` messages in all between `pairs` pairs by shared memory, and as many between the first
/// two nodes of a lab, where there is one.
pub fn soak(count: u64, pairs: u64, lab: Option<&str>) -> Result<(), Failure> {
    let kinds: Vec<Option<&str>> = iter::once(None).chain(lab.map(Some)).collect();
    let each = count.div_ceil(pairs * kinds.len() as u64);
    let begun = Instant::now();
    let ends: Vec<_> = std::thread::scope(|scope| {
        let all = kinds.iter().flat_map(|lab| (0..pairs).map(move |number| (*lab, number)));
        let start = |(lab, number)| {
            let run = move || process(number, each, lab);
            (lab, Waits::of(number), scope.spawn(run))
        };
        let threads: Vec<_> = all.map(start).collect();
        let end = |thread: ScopedJoinHandle<'_, Result<_, String>>| {
            thread.join().unwrap_or_else(|_| Err("a panic".into()))
        };
        threads.into_iter().map(|(lab, waits, thread)| (lab, waits, end(thread))).collect()
    });
    let failed: Vec<&str> =
        ends.iter().filter_map(|(.., end)| Some(end.as_ref().err()?.trim())).collect();
    if !failed.is_empty() {
        return Err(failed.join("; ").into());
    }
    for (lab, waits) in kinds.iter().flat_map(|lab| WAITS.map(|waits| (*lab, waits))) {
        let of = ends.iter().filter(|(l, w, _)| (*l, *w) == (lab, waits));
        tell(lab, waits, of.flat_map(|(.., end)| end.iter().flatten()).copied().collect());
    }
    let received: usize = ends.iter().flat_map(|(.., end)| end).map(Vec::len).sum();
    println!("@0 received {received} in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// How long messages to receivers that wait so took.
fn tell(lab: Option<&str>, waits: Waits, mut delays: Vec<u64>) {
    let Some(last) = delays.len().checked_sub(1) else { return };
    delays.sort_unstable();
    let us = |at: usize| delays[at] as f64 / 1000.0;
    println!(
        "@0 {} messages {}, {waits:?}: p50 {:.1} us, p99 {:.1} us, largest {:.1} us",
        delays.len(),
        if lab.is_some() { "between nodes" } else { "in a node" },
        us(last / 2),
        us(last * 99 / 100),
        us(last)
    );
}
