//! A member of the job that lies: it has the key, so its frames are taken for genuine, and says
//! whatever can be said in them.

use std::collections::BTreeMap;

use bolero::TypeGenerator;
use weft_proto::{Config, Engine, Incoming, Instant, LinkSpec, Payloads, Relaying};
use weft_wire::{
    Address, Burst, Chunk, ChunkWriter, Envelope, FrameKind, GROUPS_PORT, HEADER_LEN, HELLO_LEN,
    HOPS_MAX, Header, Hello, Hop, INDEX_MAX, JobKey, Key, LinkAddr, LinkId, ORIGIN_LEN, OpId,
    Origin, PeerId, Pushed, Route, Ticket, VERSION,
};

use crate::group::Number;

/// A chunk of a lying frame. What names something of the engine's is an index into what it has
/// shown, or a number of the liar's own.
#[derive(Clone, Debug, TypeGenerator)]
pub enum Piece {
    /// Its place from the one that is next, and bytes.
    Message(u8, u8),
    /// Place, offset, bytes of the whole, bytes.
    Fragment(u8, Number, Number, u8),
    /// Place, bytes of the whole, ticket, how much is pushed.
    Announce(u8, Number, u8, u8),
    /// Place, one of the engine's tickets, bytes, number of the pull, again.
    Pull(u8, u8, Number, u8, bool),
    /// Place, one of the engine's pulls.
    Refuse(u8, u8),
    /// Place, whether all has come.
    Close(u8, bool),
    /// One of the engine's pulls, offset, bytes.
    Data(u8, Number, u8),
    /// A ticket of the liar's, offset, bytes.
    Push(u8, Number, u8),
    /// An answer is wanted.
    Ping,
    /// Hold, credit, bytes, epoch.
    Flow(bool, Number, Number, u8),
    /// Path, delay, the largest, ranges.
    Ack(u8, u32, Number, Vec<(u8, u8)>),
}

/// What happens to the engine.
#[derive(Clone, Debug, TypeGenerator)]
pub enum Step {
    /// The liar says hello: link, MTU, credit in messages and bytes, whether it is an answer.
    Hello(bool, Number, Number, Number, bool),
    /// Its frame: link, packet numbers left out, flags, chunks.
    Frame(bool, u8, u8, Vec<Piece>),
    /// A way: link, a reply with so many hops before it, its hops (node, and the two links).
    Route(bool, Option<u8>, Vec<(u8, u8, u8)>),
    /// Its frame with any bytes at all: whether a datagram, link, flags, to all, body.
    Bytes(bool, bool, u8, bool, Vec<u8>),
    /// Frames that follow each other, as one: whose, from where, bytes in each, how many; pushed.
    Run(u8, Number, u8, u8, bool),
    /// The program sends.
    Send(u16),
    /// The program announces, and may offer to keep a copy.
    Announce(Number, bool),
    /// The program pulls so much of what was announced to it.
    Pull(u8, Number),
    /// The program takes back what it has announced.
    Withdraw(u8),
    /// The program asks for announcements only.
    Hold(bool),
    /// A link fails, or works again.
    Link(bool, bool),
    /// All that is to be sent goes out; or is refused.
    Transmit(bool),
    /// So many us go by, shifted.
    Time(u16, u8),
    /// The program says goodbye.
    Close,
}

const KEY: JobKey = JobKey([9; 16]);
const PEER: PeerId = PeerId(3);
/// More events, or frames at one time, than anything sensible leads to.
const MANY: usize = 100_000;
const LINKS: u8 = 2;

fn me() -> Address {
    Address::new(1, 11, 5, 1, "me")
}

fn liar() -> Address {
    Address::new(2, 22, 6, 2, "liar")
}

/// The engine's own address at a link.
fn mac(link: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, link]
}

/// The engine, its program, and the liar.
struct World {
    engine: Engine,
    burst: Burst,
    now: u64,
    /// The liar's key.
    key: Key,
    numbers: [u32; LINKS as usize],
    next_seq: u32,
    /// Tickets and pulls that the engine has named.
    tickets: Vec<u64>,
    pulls: Vec<u64>,
    /// What was announced to the program.
    waiting: Vec<(Ticket, u64)>,
    /// The program's operations: whether outgoing, and bytes.
    ops: BTreeMap<u64, (bool, u64)>,
    next_op: u64,
    dead: bool,
}

struct Memory<'a>(&'a BTreeMap<u64, (bool, u64)>);

impl Payloads for Memory<'_> {
    fn read(&mut self, op: OpId, offset: u64, into: &mut [u8]) {
        let (outgoing, len) = self.0[&op.0];
        assert!(outgoing && offset + into.len() as u64 <= len, "it reads what it may not");
        into.fill(7);
    }
}

/// An engine does nothing that it may not, and comes to an end, whatever a member tells it. Most
/// often the two have met before.
pub fn lies(strange: u8, steps: &[Step]) {
    let mut world = World::new();
    if strange >= 32 {
        for link in 0..LINKS {
            world.hello(link, (9000, 64, 1 << 20), false);
        }
        world.transmit(false);
    }
    for step in steps {
        world.step(step);
        world.events(&[]);
    }
    world.transmit(false);
    let _ = (world.engine.busy(), world.engine.is_idle(Instant(world.now)));
}

impl World {
    fn new() -> World {
        // Small, so that its limits are met.
        let config = Config {
            outbox_bytes: 16 << 10,
            outbox_messages: 16,
            window_messages: 16,
            window_bytes: 64 << 10,
            eager_max: 8 << 10,
            ..Config::default()
        };
        let mut engine = Engine::new(config, me(), KEY, 1);
        for link in 0..LINKS {
            let mtu = if link == 0 { 1500 } else { 9000 };
            let (addr, everyone) = (LinkAddr::Mac(mac(link)), Some(LinkAddr::Mac([3; 6])));
            let medium = u32::from(link);
            engine.add_link(LinkSpec { addr, everyone, mtu, medium, ..LinkSpec::default() });
        }
        engine.add_peer(PEER, &liar());
        engine.hear_groups(&[1, 2, 8]);
        engine.set_relaying(Relaying::Relays);
        World {
            engine,
            burst: Burst::new(128 << 10),
            now: 1_000_000,
            key: KEY.connection(liar().nonce, me().nonce),
            numbers: [0; 2],
            next_seq: 0,
            tickets: Vec::new(),
            pulls: Vec::new(),
            waiting: Vec::new(),
            ops: BTreeMap::new(),
            next_op: 0,
            dead: false,
        }
    }

    fn op(&mut self, outgoing: bool, len: u64) -> OpId {
        self.next_op += 1;
        self.ops.insert(self.next_op, (outgoing, len));
        OpId(self.next_op)
    }

    fn step(&mut self, step: &Step) {
        let now = Instant(self.now);
        match step {
            Step::Hello(link, mtu, messages, bytes, reply) => {
                self.hello(u8::from(*link), (mtu.get(), messages.get(), bytes.get()), *reply);
            }
            Step::Route(link, back, hops) => self.route(u8::from(*link), *back, hops),
            Step::Frame(link, gap, flags, pieces) => self.frame(*link, *gap, *flags, pieces),
            Step::Bytes(datagram, link, flags, all, body) => {
                self.bytes((*datagram, *all), u8::from(*link), *flags, body);
            }
            Step::Run(whose, offset, len, count, pushed) => {
                self.run(*whose, offset.get(), usize::from(*len) + 1, *count, *pushed);
            }
            Step::Send(len) => {
                let bytes = vec![1; usize::from(*len)];
                let _ = self.engine.send(now, PEER, &Envelope::default(), &bytes);
            }
            Step::Announce(len, keep) => {
                // No longer than memory can be.
                let op = self.op(true, len.get() >> 16);
                let envelope = Envelope::default();
                match self.engine.announce(now, PEER, &envelope, len.get() >> 16, op) {
                    Ok(()) if *keep => drop(self.engine.buffer(PEER, op)),
                    Ok(()) => {}
                    Err(_) => drop(self.ops.remove(&op.0)),
                }
            }
            Step::Pull(which, len) if !self.waiting.is_empty() => {
                let at = usize::from(*which) % self.waiting.len();
                let (ticket, whole) = self.waiting.swap_remove(at);
                let len = len.get().min(whole);
                let op = self.op(false, len);
                self.engine.pull(now, PEER, ticket, len, op);
            }
            Step::Withdraw(which) => {
                let outgoing = self.ops.iter().filter(|(_, (out, _))| *out).map(|(op, _)| *op);
                let Some(op) = outgoing.collect::<Vec<_>>().get(usize::from(*which)).copied()
                else {
                    return;
                };
                if self.engine.withdraw(now, PEER, OpId(op)) {
                    self.ops.remove(&op);
                }
            }
            Step::Hold(hold) => self.engine.hold(now, PEER, *hold),
            Step::Link(link, up) => self.engine.set_link_up(now, LinkId(u8::from(*link)), *up),
            Step::Transmit(refuse) => self.transmit(*refuse),
            Step::Time(us, shift) => {
                self.now += (u64::from(*us) * 1000) << (shift % 12);
                self.engine.timeout(Instant(self.now));
            }
            Step::Close => self.engine.close(now),
            Step::Pull(..) => {}
        }
    }

    fn receive(&mut self, link: u8, frame: &[u8]) {
        let (now, from) = (Instant(self.now), LinkAddr::Mac([4, 0, 0, 0, 0, link]));
        if self.engine.receive(now, LinkId(link), &from, frame).is_ok() {
            let _ = (self.engine.is_early(frame), self.engine.has_more(frame));
            self.events(frame);
        }
    }

    fn events(&mut self, frame: &[u8]) {
        let mut count = 0;
        while let Some(incoming) = self.engine.next(Instant(self.now), frame) {
            self.event(incoming, frame);
            count += 1;
            assert!(count < MANY, "events without an end");
        }
    }

    fn event(&mut self, incoming: Incoming, frame: &[u8]) {
        let outside = matches!(incoming, Incoming::Warning { .. } | Incoming::Failed { .. });
        assert!(!self.dead || outside || matches!(incoming, Incoming::Done { .. }), "{incoming:?}");
        match incoming {
            Incoming::Message => {
                let (_, _, payload) = self.engine.message(frame);
                assert!(payload.len() <= Config::EAGER_LIMIT);
            }
            Incoming::Announced { len, ticket, .. } => self.waiting.push((ticket, len)),
            Incoming::Data { op, offset, range, .. } => {
                let (outgoing, len) = self.ops[&op.0];
                assert!(!outgoing && offset + range.len() as u64 <= len, "{op:?} of {len}");
                assert!(range.end <= frame.len());
            }
            Incoming::Kept { op, .. } => {
                let (outgoing, len) = self.ops[&op.0];
                let is_inside = |(at, part): (u64, &[u8])| at + part.len() as u64 <= len;
                assert!(!outgoing && self.engine.kept().all(is_inside), "{op:?} of {len}");
            }
            Incoming::Done { op } | Incoming::Failed { op, .. } => {
                assert!(self.ops.remove(&op.0).is_some(), "{op:?} has ended twice");
            }
            Incoming::Dead { .. } => {
                self.dead = true;
                assert!(self.ops.is_empty(), "an operation with the dead goes on");
            }
            Incoming::Datagram { range, .. } => assert!(range.end <= frame.len()),
            Incoming::Relay { by, out, .. } => assert!(by != out && by.0 < LINKS && out.0 < LINKS),
            Incoming::Alive { .. } | Incoming::CutInSoftware { .. } | Incoming::Warning { .. } => {}
        }
    }

    /// All frames that the engine has to send, read as the liar would.
    fn transmit(&mut self, refuse: bool) {
        let mut bursts = 0;
        while let Some(link) =
            self.engine.transmit(Instant(self.now), &mut Memory(&self.ops), &mut self.burst)
        {
            assert!(!self.burst.is_empty());
            let key = KEY.connection(me().nonce, liar().nonce);
            for frame in self.burst.frames_mut() {
                let header = Header::decode(frame).expect("it sends frames");
                if header.kind == FrameKind::Hello {
                    continue;
                }
                if header.kind == FrameKind::Route {
                    let key = KEY.hello();
                    Route::decode(&key, &header, frame).expect("a way that makes sense");
                    continue;
                }
                header.verify(&key, frame).expect("with its key");
                let (mut at, end) = (HEADER_LEN, HEADER_LEN + usize::from(header.len));
                while header.kind == FrameKind::Stream && at < end {
                    let (chunk, next) = Chunk::decode(frame, at, end).expect("of chunks");
                    at = next;
                    match chunk {
                        Chunk::Announce { ticket, .. } => self.tickets.push(ticket),
                        Chunk::Pull { pull, .. } => self.pulls.push(pull),
                        Chunk::Pad => break,
                        _ => {}
                    }
                }
            }
            if refuse {
                self.engine.refused(Instant(self.now), link, self.burst.count());
            }
            bursts += 1;
            assert!(bursts < MANY, "it never stops talking");
        }
        let mut answers = 0;
        while self.engine.hear_answer(&mut self.burst).is_some() {
            answers += 1;
            assert!(answers < MANY, "it never stops answering");
        }
    }

    fn hello(&mut self, link: u8, (mtu, messages, bytes): (u64, u64, u64), reply: bool) {
        let hello = Hello {
            versions: (VERSION, VERSION),
            reply,
            path: link,
            index: 1,
            mtu: mtu as u32,
            messages: messages as u32,
            bytes,
            to_node: me().node,
            to_nonce: me().nonce,
            to_port: me().port,
            hops: messages as u8,
            last_resort: bytes % 2 == 1,
            from: liar(),
        };
        let mut frame = [0; HELLO_LEN];
        hello.encode(KEY.job(), &KEY.hello(), &mut frame);
        self.receive(link, &frame);
    }

    fn route(&mut self, link: u8, back: Option<u8>, hops: &[(u8, u8, u8)]) {
        // Few nodes, this one among them.
        let hop = |&(node, by, out): &(u8, u8, u8)| Hop { node: u64::from(node % 40), by, out };
        let from = mac(link);
        let route = Route {
            back,
            link,
            number: self.next_seq,
            origin: if hops.len().is_multiple_of(3) { me().node } else { liar().node },
            nonce: liar().nonce,
            target: if back.is_some() { 77 } else { 0 },
            from,
            to: [9; 6],
            hops: hops.iter().take(HOPS_MAX).map(hop).collect(),
        };
        let mut frame = [0; Route::LEN_MAX];
        let len = route.encode(KEY.job(), &KEY.hello(), &mut frame);
        self.receive(link, &frame[..len]);
    }

    fn header(&mut self, link: u8, gap: u8, flags: u8, len: usize) -> Header {
        let number = &mut self.numbers[usize::from(link)];
        *number = number.wrapping_add(u32::from(gap));
        let header = Header {
            kind: FrameKind::Stream,
            flags,
            port: me().port,
            job: KEY.job(),
            len: len as u16,
            index: PEER.0,
            path: link,
            number: *number,
            crc: 0,
        };
        *number = number.wrapping_add(1);
        header
    }

    fn frame(&mut self, link: bool, gap: u8, flags: u8, pieces: &[Piece]) {
        let mut frame = vec![0; 9000];
        let mut writer = ChunkWriter::new(&mut frame);
        for piece in pieces {
            if writer.room() < 600 {
                break;
            }
            self.write(&mut writer, piece);
        }
        let len = writer.len();
        // One in four leaves numbers out.
        let gap = gap.saturating_sub(192);
        let header = self.header(u8::from(link), gap, flags & 15, len - HEADER_LEN);
        header.seal(&self.key, &mut frame[..len]);
        self.receive(u8::from(link), &frame[..len]);
    }

    /// A place in the order: most often the next one.
    fn seq(&mut self, ahead: u8) -> u32 {
        let ahead = if ahead < 128 { 0 } else { u32::from(ahead - 128) };
        self.next_seq = self.next_seq.wrapping_add(u32::from(ahead == 0));
        self.next_seq.wrapping_add(ahead).wrapping_sub(u32::from(ahead == 0))
    }

    fn write(&mut self, w: &mut ChunkWriter<'_>, piece: &Piece) {
        let e = Envelope::default();
        let one = |of: &[u64], at: u8| {
            let known = of.len().checked_sub(1 + usize::from(at) % (of.len() + 1));
            known.map_or(u64::from(at), |at| of[at])
        };
        match *piece {
            Piece::Message(seq, len) => w.message(self.seq(seq), &e, &vec![2; usize::from(len)]),
            Piece::Fragment(seq, offset, total, len) => {
                let (offset, total) = (offset.get() as u32, total.get() as u32);
                w.fragment(self.seq(seq), &e, offset, total, &vec![2; usize::from(len)]);
            }
            Piece::Announce(seq, len, ticket, pushed) => {
                let pushed =
                    [Pushed::Nothing, Pushed::Begun, Pushed::Whole][usize::from(pushed % 3)];
                w.announce(self.seq(seq), &e, len.get(), u64::from(ticket), pushed);
            }
            Piece::Pull(seq, ticket, len, pull, again) => {
                let ticket = one(&self.tickets, ticket);
                w.pull(self.seq(seq), ticket, len.get(), u64::from(pull), again);
            }
            Piece::Refuse(seq, pull) => w.refuse(self.seq(seq), one(&self.pulls, pull)),
            Piece::Close(seq, whole) => w.close(self.seq(seq), whole),
            Piece::Data(pull, offset, len) => {
                w.data(one(&self.pulls, pull), offset.get(), usize::from(len)).fill(3);
            }
            Piece::Push(ticket, offset, len) => {
                w.push(u64::from(ticket), offset.get(), usize::from(len)).fill(3);
            }
            Piece::Ping => w.ping(),
            Piece::Flow(hold, until, bytes, epoch) => {
                w.flow(hold, until.get() as u32, bytes.get(), u32::from(epoch));
            }
            Piece::Ack(path, delay, largest, ref ranges) => {
                let mut low = largest.get().min(u64::from(u32::MAX));
                let ranges = ranges.iter().map_while(|(gap, len)| {
                    let end = low.checked_sub(u64::from(*gap))?;
                    let start = end.saturating_sub(u64::from(*len % 8));
                    low = start.saturating_sub(2);
                    (start > 1).then_some((start, end))
                });
                w.ack(path % LINKS, Some(delay), ranges);
            }
        }
    }

    fn bytes(&mut self, (datagram, all): (bool, bool), link: u8, flags: u8, body: &[u8]) {
        let mut frame = vec![0; HEADER_LEN];
        if all {
            frame.resize(HEADER_LEN + ORIGIN_LEN, 0);
            Origin { node: liar().node, nonce: liar().nonce }.encode(&mut frame[HEADER_LEN..]);
        }
        frame.extend_from_slice(body);
        let mut header = self.header(link, 0, flags & 15, frame.len() - HEADER_LEN);
        let mut key = self.key;
        if datagram {
            header.kind = FrameKind::Datagram;
            if all {
                key = KEY.everyone(liar().nonce);
                (header.port, header.index) = (GROUPS_PORT, u32::from(flags) & INDEX_MAX);
            }
        }
        header.seal(&key, &mut frame);
        self.receive(link, &frame);
    }

    fn run(&mut self, whose: u8, offset: u64, len: usize, count: u8, pushed: bool) {
        let (mut frames, stride) = (Vec::new(), HEADER_LEN + weft_wire::DATA_LEN + len);
        let known = self.pulls.last().copied().unwrap_or(u64::from(whose));
        for at in 0..u64::from(count % 64) + 1 {
            let mut frame = vec![0; stride];
            let mut writer = ChunkWriter::new(&mut frame);
            let offset = offset.wrapping_add(at * len as u64);
            if pushed {
                writer.push(u64::from(whose), offset, len).fill(4);
            } else {
                writer.data(known, offset, len).fill(4);
            }
            let header = self.header(0, 0, 0, stride - HEADER_LEN);
            header.seal(&self.key, &mut frame);
            frames.extend_from_slice(&frame);
        }
        let ops = &self.ops;
        let taken = self.engine.receive_run(
            Instant(self.now),
            LinkId(0),
            &frames,
            stride,
            |op, at, bytes| {
                let (outgoing, whole) = ops[&op.0];
                assert!(!outgoing && at + bytes.len() as u64 <= whole, "{op:?} of {whole}");
            },
        );
        self.events(&[]);
        for frame in frames.chunks_exact(stride).skip(taken) {
            self.receive(0, frame);
        }
    }
}
