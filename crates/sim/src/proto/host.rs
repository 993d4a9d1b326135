//! One simulated process: the real engine, and a program that uses it as a busy one would.

use std::collections::{BTreeMap, VecDeque};

use weft_proto::{Counters, Engine, Incoming, Instant, Payloads, SendError};
use weft_wire::{Address, Burst, LinkAddr, LinkId, OpId, PeerId, Ticket};

use super::canary::{Canary, Sabotage};
use super::content::Content;
use super::describe::describe;
use super::oracle::Oracle;
use super::trace::Act;
use super::wrong::Wrong;
use crate::net::EVERYONE;
use crate::queue::{MS, Ns};
use crate::rng::Rng;
use crate::world::{Nic, Node};

/// What all processes of a run see.
#[derive(Debug)]
pub struct Shared {
    /// The checker.
    pub oracle: Oracle,
    /// The process that runs on each machine, or ran there last.
    pub process_on: Vec<u32>,
}

/// What a program does.
#[derive(Clone, Debug)]
pub struct Work {
    /// Whom it talks to.
    pub peers: Vec<u32>,
    /// How many messages it has still to send.
    pub left: u32,
    /// Mean time between two of them, ns.
    pub gap_ns: Ns,
    /// In a hundred, how many are large.
    pub large_percent: u32,
    /// The longest large one.
    pub large_max: u64,
    /// Whether large ones are sometimes left waiting before they are pulled.
    pub lazy: bool,
    /// Whether now and then only the beginning of a large one is pulled.
    pub cut_short: bool,
    /// Whether frames are taken together where they could have come merged, and copies of messages
    /// are kept now and then.
    pub merged: bool,
}

/// What has happened at processes, to show that a run had it in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Sends that became announcements, for the receiver had asked for that.
    pub held: u64,
    /// Requests for it that came.
    pub stops: u64,
    /// Times that a sender had to wait for credit.
    pub credit_waits: u64,
    /// Frames dropped for a wrong tag, and for a wrong checksum.
    pub bad_tags: u64,
    /// See above.
    pub bad_sums: u64,
    /// Rows of frames that were taken together, and how many frames those were.
    pub runs: u64,
    /// See above.
    pub run_frames: u64,
    /// Messages whose end nobody waited for.
    pub buffered: u64,
}

impl Seen {
    /// Adds what one more process has seen.
    pub fn add(&mut self, host: &Host) {
        let (seen, counters) = (&host.seen, host.counters());
        self.held += seen.held;
        self.stops += counters.stops_received;
        self.credit_waits += counters.credit_waits;
        self.bad_tags += counters.dropped_tag;
        self.bad_sums += counters.dropped_crc;
        self.runs += seen.runs;
        self.run_frames += seen.run_frames;
        self.buffered += seen.buffered;
    }
}

/// A message that is to be sent.
#[derive(Clone, Copy, Debug)]
struct Letter {
    to: u32,
    len: u64,
    large: bool,
}

/// An operation that has not ended.
#[derive(Clone, Copy, Debug)]
struct Op {
    peer: u32,
    n: u64,
    len: u64,
    outgoing: bool,
    /// A copy of it is kept.
    buffered: bool,
    /// It ends when its message has arrived, which is not announced.
    awaited: bool,
}

/// An announcement that the program has not answered.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    due: Ns,
    from: u32,
    n: u64,
    len: u64,
    ticket: Ticket,
}

/// A simulated process.
pub struct Host {
    /// Its number; peers know it by the same.
    pub process: u32,
    engine: Engine,
    burst: Burst,
    links_up: Vec<bool>,
    /// Which processes the engine knows.
    met: Vec<bool>,
    work: Work,
    rng: Rng,
    sabotage: Sabotage,
    next_act: Ns,
    letters: VecDeque<Letter>,
    blocked: Vec<u32>,
    ops: BTreeMap<u64, Op>,
    next_op: u64,
    waiting: Vec<Waiting>,
    holds: Vec<(Ns, u32)>,
    buffer: Vec<u8>,
    /// Frames that could have come merged.
    batch: Vec<u8>,
    /// Draws what only some runs do, so that it changes nothing for the others.
    other_rng: Rng,
    seen: Seen,
    closed_at: Option<Ns>,
    idle: (Ns, u64),
}

/// The most messages that wait for room before the program stops making new ones.
const LETTERS: usize = 64;
/// Runs without any need, within one simulated millisecond, that count as spinning.
const IDLE_RUNS: u64 = 5_000;
/// Events that one frame may give.
const EVENTS: u64 = 100_000;

impl Host {
    /// A process with an engine whose links and peers are set up.
    pub fn new(process: u32, engine: Engine, links: usize, work: Work, rng: Rng) -> Host {
        Host {
            process,
            engine,
            burst: Burst::new(128 * 1024),
            links_up: vec![true; links],
            met: vec![false; 1024],
            work,
            sabotage: Sabotage::new(None, rng.fork(1)),
            other_rng: rng.fork(3),
            seen: Seen::default(),
            rng,
            next_act: 0,
            letters: VecDeque::new(),
            blocked: Vec::new(),
            ops: BTreeMap::new(),
            next_op: 0,
            waiting: Vec::new(),
            holds: Vec::new(),
            buffer: Vec::new(),
            batch: Vec::new(),
            closed_at: None,
            idle: (0, 0),
        }
    }

    /// Puts a defect in.
    pub fn sabotage(&mut self, canary: Canary) {
        self.sabotage = Sabotage::new(Some(canary), self.rng.fork(2));
    }

    /// Tells the engine where another process is; once is enough.
    pub fn meet(&mut self, process: u32, address: &Address) {
        if !std::mem::replace(&mut self.met[process as usize], true) {
            self.engine.add_peer(PeerId(process), address);
        }
    }

    /// What the engine has done.
    pub fn counters(&self) -> Counters {
        self.engine.counters()
    }

    /// The program's peers.
    pub fn peers(&self) -> &[u32] {
        &self.work.peers
    }

    /// One more peer to talk to.
    pub fn befriend(&mut self, peer: u32) {
        self.work.peers.push(peer);
    }

    /// Lets the program do no more than answer, all at once from now on.
    pub fn calm(&mut self, now: Ns) {
        for w in &mut self.waiting {
            w.due = w.due.min(now);
        }
        for h in &mut self.holds {
            h.0 = h.0.min(now);
        }
        self.work.lazy = false;
        self.work.gap_ns = self.work.gap_ns.min(10_000);
    }

    /// Asks for one more message; it is sent on the next run.
    pub fn ask(&mut self, to: u32, len: u64, large: bool) {
        self.letters.push_back(Letter { to, len, large });
    }

    /// Says goodbye.
    pub fn close(&mut self, now: Ns, shared: &mut Shared) {
        shared.oracle.trace.note(now, self.process, Act::Close);
        shared.oracle.closed(self.process);
        self.work.left = 0;
        self.waiting.clear();
        self.holds.clear();
        self.letters.clear();
        self.closed_at = Some(now);
        self.engine.close(Instant(now));
    }

    /// Whether the engine still has something to bring out.
    pub fn busy(&self) -> bool {
        self.engine.busy()
    }

    /// Whether the program has done all it wanted to.
    pub fn backlog(&self) -> usize {
        self.letters.len() + self.waiting.len() + self.work.left as usize
    }

    fn op(&mut self, op: Op) -> OpId {
        self.next_op += 1;
        self.ops.insert(self.next_op, op);
        OpId(self.next_op)
    }

    /// Takes all events that wait.
    fn events(&mut self, now: Ns, frame: &[u8], shared: &mut Shared) -> u64 {
        let mut events = 0;
        while let Some(incoming) = self.engine.next(Instant(now), frame) {
            events += 1;
            self.event(now, frame, incoming, shared);
            if events == EVENTS {
                shared.oracle.report(now, self.process, Wrong::Endless { events });
                break;
            }
        }
        events
    }

    fn event(&mut self, now: Ns, frame: &[u8], incoming: Incoming, shared: &mut Shared) {
        let me = self.process;
        let oracle = &mut shared.oracle;
        match incoming {
            Incoming::Message => self.message(now, frame, oracle),
            Incoming::Announced { peer, envelope, len, ticket } => {
                oracle.announced(now, me, peer.0, &envelope, len);
                let late = self.work.lazy && self.rng.chance(300_000);
                let due = if late { now + self.rng.spread(1000, 20 * MS) } else { now };
                if self.closed_at.is_none() {
                    let (from, n) = (peer.0, envelope.data);
                    self.waiting.push(Waiting { due, from, n, len, ticket });
                }
            }
            Incoming::Data { op, offset, range, .. } => match self.ops.get(&op.0) {
                Some(&Op { peer, n, outgoing: false, .. }) => {
                    let shift = u64::from(self.sabotage.strikes(Canary::Misplace));
                    oracle.data(now, me, peer, n, offset + shift, &frame[range]);
                }
                _ => oracle.report(now, me, Wrong::UnknownOp { op: op.0 }),
            },
            Incoming::Kept { op, .. } => match self.ops.get(&op.0) {
                Some(&Op { peer, n, outgoing: false, .. }) => {
                    let shift = u64::from(self.sabotage.strikes(Canary::Misplace));
                    for (offset, part) in self.engine.kept() {
                        oracle.data(now, me, peer, n, offset + shift, part);
                    }
                }
                _ => oracle.report(now, me, Wrong::UnknownOp { op: op.0 }),
            },
            Incoming::Done { op } => {
                if self.sabotage.strikes(Canary::Forget) {
                    return;
                }
                match self.ops.remove(&op.0) {
                    Some(o) if o.awaited => oracle.known_there(now, me, o.peer, o.n),
                    Some(o) if o.outgoing => oracle.taken(now, me, o.peer, o.n),
                    Some(o) => oracle.pulled(now, me, o.peer, o.n),
                    None => oracle.report(now, me, Wrong::UnknownOp { op: op.0 }),
                }
            }
            Incoming::Failed { op, .. } => match self.ops.remove(&op.0) {
                Some(o) if o.awaited => oracle.wait_failed(now, me, o.peer, o.n),
                Some(o) if o.outgoing => oracle.announce_failed(now, me, o.peer, o.n),
                Some(o) => oracle.pull_failed(now, me, o.peer, o.n),
                None => oracle.report(now, me, Wrong::UnknownOp { op: op.0 }),
            },
            Incoming::Dead { peer, .. } => {
                let open = self.ops.values().filter(|o| o.peer == peer.0).count();
                oracle.dead(now, me, peer.0, open);
                self.waiting.retain(|w| w.from != peer.0);
                self.letters.retain(|l| l.to != peer.0);
                self.work.peers.retain(|p| *p != peer.0);
                self.holds.retain(|h| h.1 != peer.0);
            }
            Incoming::Alive { .. }
            | Incoming::CutInSoftware { .. }
            | Incoming::Relay { .. }
            | Incoming::Warning { .. }
            | Incoming::Datagram { .. } => {}
        }
    }

    fn message(&mut self, now: Ns, frame: &[u8], oracle: &mut Oracle) {
        if self.sabotage.strikes(Canary::Lose) {
            return;
        }
        let (peer, envelope, payload) = self.engine.message(frame);
        if self.sabotage.strikes(Canary::Damage) && !payload.is_empty() {
            let mut other = payload.to_vec();
            other[0] ^= 1;
            oracle.message(now, self.process, peer.0, &envelope, &other);
            return;
        }
        oracle.message(now, self.process, peer.0, &envelope, payload);
        if self.sabotage.strikes(Canary::Twice) {
            oracle.message(now, self.process, peer.0, &envelope, payload);
        }
    }

    /// What the program does on its own: sends, pulls, withdraws, holds. Gives how many things.
    fn act(&mut self, nic: &mut Nic<'_>, oracle: &mut Oracle) -> u64 {
        let now = nic.now();
        let mut acts = self.pull_due(now, oracle);
        while self.next_act <= now && self.work.left > 0 && self.letters.len() < LETTERS {
            self.new_letters(now, oracle);
            acts += 1;
        }
        self.blocked.clear();
        for _ in 0..self.letters.len() {
            let Some(letter) = self.letters.pop_front() else { break };
            if self.blocked.contains(&letter.to) || !self.post(nic, letter, oracle) {
                self.letters.push_back(letter);
            } else {
                acts += 1;
            }
        }
        acts
    }

    fn pull_due(&mut self, now: Ns, oracle: &mut Oracle) -> u64 {
        let mut acts = 0;
        let mut i = 0;
        while i < self.waiting.len() {
            let Waiting { due, from, n, len, ticket } = self.waiting[i];
            if due > now {
                i += 1;
                continue;
            }
            self.waiting.swap_remove(i);
            // A receive may be shorter than the message.
            let short = self.work.cut_short && self.rng.chance(50_000);
            let len = if short { self.rng.below(len + 1) } else { len };
            oracle.pull(now, self.process, from, n, len);
            let op = Op { peer: from, n, len, outgoing: false, buffered: false, awaited: false };
            let op = self.op(op);
            self.engine.pull(Instant(now), PeerId(from), ticket, len, op);
            acts += 1;
        }
        for i in (0..self.holds.len()).rev() {
            let (until, peer) = self.holds[i];
            if until <= now {
                self.holds.swap_remove(i);
                oracle.trace.note(now, self.process, Act::Hold { peer, on: false });
                self.engine.hold(Instant(now), PeerId(peer), false);
            }
        }
        acts
    }

    /// Decides what the program does next.
    fn new_letters(&mut self, now: Ns, oracle: &mut Oracle) {
        self.next_act = now + self.rng.below(self.work.gap_ns * 2 + 1);
        let Some(&to) = self.work.peers.get(self.rng.index(self.work.peers.len())) else {
            self.work.left = 0;
            return;
        };
        if self.rng.chance(20_000) {
            self.withdraw_one(now, oracle);
        }
        if self.rng.chance(5_000) && !self.holds.iter().any(|h| h.1 == to) {
            self.holds.push((now + self.rng.spread(1000, 5 * MS), to));
            oracle.trace.note(now, self.process, Act::Hold { peer: to, on: true });
            self.engine.hold(Instant(now), PeerId(to), true);
        }
        let large = self.rng.below(100) < u64::from(self.work.large_percent);
        let row = if self.rng.chance(50_000) { self.rng.between(2, 20) as u32 } else { 1 };
        for _ in 0..row.min(self.work.left) {
            self.work.left -= 1;
            let len = match (large, self.rng.index(8)) {
                (true, 0) => self.rng.below(64),
                (true, _) => self.rng.spread(1, self.work.large_max),
                (false, 0) => 0,
                (false, 1) => self.rng.spread(1024, 16 << 10),
                (false, _) => self.rng.spread(1, 2048),
            };
            self.letters.push_back(Letter { to, len, large });
        }
    }

    fn withdraw_one(&mut self, now: Ns, oracle: &mut Oracle) {
        let Some((&id, &op)) = self.ops.iter().find(|(_, o)| o.outgoing && !o.buffered) else {
            return;
        };
        let back = self.engine.withdraw(Instant(now), PeerId(op.peer), OpId(id));
        oracle.withdrew(now, self.process, op.peer, op.n, back);
        if back {
            self.ops.remove(&id);
        }
    }

    /// Gives a message to the engine; `false`: not now.
    fn post(&mut self, nic: &mut Nic<'_>, letter: Letter, oracle: &mut Oracle) -> bool {
        let now = nic.now();
        let Letter { to, len, large } = letter;
        let (n, content) = oracle.next_message(self.process, to);
        let result = if large {
            self.announce(now, letter, n, content)
        } else {
            self.send(nic, letter, n, content, oracle)
        };
        match result {
            Ok(()) => oracle.sent(now, self.process, to, len, large),
            Err(SendError::Full) => {
                self.blocked.push(to);
                return false;
            }
            Err(SendError::Held) if !large => {
                self.seen.held += 1;
                return self.post(nic, Letter { to, len, large: true }, oracle);
            }
            Err(SendError::Dead(_)) => self.work.peers.retain(|p| *p != to),
            Err(error) => {
                let why = error.to_string();
                oracle.report(now, self.process, Wrong::Refused { to, why });
            }
        }
        true
    }

    /// Wants to know when what was reserved has arrived.
    fn await_arrival(&mut self, now: Ns, to: Letter, n: u64, oracle: &mut Oracle) {
        let Letter { to, len, .. } = to;
        let op = self.op(Op { peer: to, n, len, outgoing: true, buffered: false, awaited: true });
        self.engine.await_arrival(op);
        oracle.awaits(now, self.process, to, n);
    }

    fn send(
        &mut self,
        nic: &mut Nic<'_>,
        to: Letter,
        n: u64,
        content: Content,
        oracle: &mut Oracle,
    ) -> Result<(), SendError> {
        let (now, peer, len) = (nic.now(), PeerId(to.to), to.len as usize);
        let envelope = content.envelope(n);
        let time = (Instant(now), self.rng.chance(500_000));
        if self.rng.chance(500_000) {
            content.fill(0, self.engine.reserve(peer, len)?);
            if self.rng.chance(250_000) {
                self.await_arrival(now, to, n, oracle);
            }
            let lone = self.engine.commit_lone(time, &envelope, &mut self.burst);
            match lone {
                Some(link) => self.put_lone(link, nic, oracle),
                None => self.engine.commit(Instant(now), &envelope),
            }
            return Ok(());
        }
        self.buffer.resize(len, 0);
        content.fill(0, &mut self.buffer);
        if self.rng.chance(500_000) {
            let (bytes, burst) = (&self.buffer, &mut self.burst);
            let lone = self.engine.send_lone(time, peer, &envelope, bytes, burst);
            if let Some(link) = lone {
                self.put_lone(link, nic, oracle);
                return Ok(());
            }
        }
        self.engine.send(Instant(now), peer, &envelope, &self.buffer)
    }

    fn announce(&mut self, now: Ns, to: Letter, n: u64, content: Content) -> Result<(), SendError> {
        let (peer, len) = (to.to, to.len);
        let op = self.op(Op { peer, n, len, outgoing: true, buffered: false, awaited: false });
        let envelope = content.envelope(n);
        let result = self.engine.announce(Instant(now), PeerId(to.to), &envelope, to.len, op);
        if result.is_err() {
            self.ops.remove(&op.0);
        } else if self.work.merged
            && self.other_rng.chance(500_000)
            && self.engine.buffer(PeerId(to.to), op)
            && let Some(op) = self.ops.get_mut(&op.0)
        {
            op.buffered = true;
            self.seen.buffered += 1;
        }
        result
    }

    /// Sends what the engine has to send.
    fn transmit(&mut self, nic: &mut Nic<'_>, oracle: &mut Oracle) -> u64 {
        let now = nic.now();
        let (mut wrong, mut frames) = (None, 0);
        loop {
            let mut memory = Memory { ops: &self.ops, me: self.process, wrong };
            let link = self.engine.transmit(Instant(now), &mut memory, &mut self.burst);
            wrong = memory.wrong;
            let Some(link) = link else { break };
            self.put(link, nic, oracle);
            frames += self.burst.count() as u64;
            if frames > EVENTS || self.burst.is_empty() {
                oracle.report(now, self.process, Wrong::Babbles { frames });
                break;
            }
        }
        if let Some(wrong) = wrong {
            oracle.report(now, self.process, wrong);
        }
        frames
    }

    /// Puts a lone message on the wire, of which the engine wants to know that it went.
    fn put_lone(&mut self, link: LinkId, nic: &mut Nic<'_>, oracle: &mut Oracle) {
        self.engine.went(Instant(nic.now()), &self.burst);
        self.put(link, nic, oracle);
    }

    /// Puts the burst on the wire.
    fn put(&mut self, link: LinkId, nic: &mut Nic<'_>, oracle: &mut Oracle) {
        let now = nic.now();
        let to = match self.burst.to() {
            LinkAddr::Port(port) => port,
            _ => EVERYONE,
        };
        let mut taken = 0;
        for frame in self.burst.frames_mut() {
            let sent = nic.send(link.0, to, frame);
            oracle.trace.frame(now, self.process, || {
                let refused = if sent { "" } else { "REFUSED " };
                format!("> link {} to port {to}: {refused}{}", link.0, describe(frame))
            });
            if !sent {
                break;
            }
            taken += 1;
        }
        if taken < self.burst.count() {
            self.engine.refused(Instant(now), link, self.burst.count() - taken);
        }
    }

    /// Takes the frames behind the current one that could have come merged with it, as far as they
    /// are pieces of one large message in a row.
    fn take_runs(&mut self, nic: &mut Nic<'_>, (link, from): (u8, u32), shared: &mut Shared) {
        let (now, me) = (nic.now(), self.process);
        loop {
            let stride = nic.rest(link, from, &mut self.batch);
            if stride == 0 || self.batch.len() < 2 * stride {
                return;
            }
            let (ops, oracle) = (&self.ops, &mut shared.oracle);
            let place = |op: OpId, offset, bytes: &[u8]| match ops.get(&op.0) {
                Some(&Op { peer, n, outgoing: false, .. }) => {
                    oracle.data(now, me, peer, n, offset, bytes);
                }
                _ => oracle.report(now, me, Wrong::UnknownOp { op: op.0 }),
            };
            let (engine, time) = (&mut self.engine, Instant(now));
            let taken = engine.receive_run(time, LinkId(link), &self.batch, stride, place);
            if taken == 0 {
                return;
            }
            nic.skip(taken);
            self.seen.runs += 1;
            self.seen.run_frames += taken as u64;
            shared.oracle.trace.frame(now, me, || {
                format!("< link {link} from port {from}: {taken} frames of {stride} bytes together")
            });
            let from = shared.process_on[nic.owner(from) as usize];
            shared.oracle.heard(now, me, from);
            self.events(now, &[], shared);
        }
    }

    /// When the process has to run though nothing comes.
    fn deadline(&mut self, now: Ns) -> Option<Ns> {
        if self.sabotage.strikes(Canary::Spin) {
            self.idle.1 = IDLE_RUNS;
        }
        let engine = self.engine.deadline().map(|d| d.0);
        let act = (self.work.left > 0 && self.letters.len() < LETTERS).then_some(self.next_act);
        let retry = (!self.letters.is_empty()).then_some(now + MS);
        let pull = self.waiting.iter().map(|w| w.due).min();
        let hold = self.holds.iter().map(|h| h.0).min();
        [engine, act, retry, pull, hold].into_iter().flatten().min()
    }
}

/// The memory of announced messages: made up when it is read.
struct Memory<'a> {
    ops: &'a BTreeMap<u64, Op>,
    me: u32,
    wrong: Option<Wrong>,
}

impl Payloads for Memory<'_> {
    fn read(&mut self, op: OpId, offset: u64, into: &mut [u8]) {
        match self.ops.get(&op.0) {
            Some(o) if o.outgoing && offset + into.len() as u64 <= o.len => {
                Content::new(self.me, o.peer, o.n).fill(offset, into);
            }
            _ => self.wrong = Some(Wrong::ReadAfterEnd { op: op.0 }),
        }
    }
}

impl Node for Host {
    type Shared = Shared;

    fn run(&mut self, nic: &mut Nic<'_>, shared: &mut Shared) -> Option<Ns> {
        let now = nic.now();
        let mut done = 0;
        for link in 0..self.links_up.len() {
            let up = nic.is_up(link as u8);
            if up != self.links_up[link] {
                self.links_up[link] = up;
                self.engine.set_link_up(Instant(now), LinkId(link as u8), up);
                done += 1;
            }
        }
        while let Some((link, from)) = nic.receive() {
            done += 1;
            let (frame, port) = (nic.frame(), LinkAddr::Port(from));
            let result = self.engine.receive(Instant(now), LinkId(link), &port, frame);
            shared.oracle.trace.frame(now, self.process, || {
                let why = result.as_ref().err().map_or(String::new(), |e| format!("DROPPED: {e} "));
                format!("< link {link} from port {from}: {why}{}", describe(frame))
            });
            if result.is_ok() {
                let from = shared.process_on[nic.owner(from) as usize];
                shared.oracle.heard(now, self.process, from);
            }
            self.events(now, frame, shared);
            if self.work.merged && self.other_rng.chance(900_000) {
                self.take_runs(nic, (link, from), shared);
            }
        }
        self.engine.timeout(Instant(now));
        done += self.events(now, &[], shared);
        done += self.act(nic, &mut shared.oracle);
        done += self.transmit(nic, &mut shared.oracle);
        done += self.events(now, &[], shared);
        if done > 0 || now >= self.idle.0 + MS {
            self.idle = (now, 0);
        }
        self.idle.1 += 1;
        if self.idle.1 > IDLE_RUNS {
            shared.oracle.report(now, self.process, Wrong::Spins { wakes: self.idle.1 });
        }
        self.deadline(now)
    }
}
