//! Frames that no honest peer sends: forged ones, on a real segment; another version's and another
//! job's; and those of a peer that has the key and sends nonsense.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use weft::device::{Device, Event, SendError};
use weft::ether::Ether;
use weft_link::{
    ETHERTYPE, Link, LinkCounters, LinkError, LinkInfo, LinkOptions, MemoryHub, MemoryLink,
    PacketLink, RxFrame,
};
use weft_proto::Config;
use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_sys::packet::{ETHERNET_HEADER_LEN, PacketConfig, PacketSocket};
use weft_tests::job::{Cluster, Job, PATIENCE};
use weft_wire::{
    Address, Burst, Envelope, FrameKind, HEADER_LEN, HELLO_LEN, Header, Hello, JobKey, Kind,
    LinkAddr, OpId, PeerId, VERSION,
};

use super::{RANK, WEFT};

/// Frames that come to a node for a rank there, as anyone on the node who may look sees them.
pub(super) fn overhear(lab: &Cluster, node: u32, mut until: impl FnMut()) -> Vec<Vec<u8>> {
    let interface = lab.interface(node, "lan0");
    let opened = lab.node(node).run(|| {
        let config = PacketConfig {
            index: interface.index,
            ethertype: ETHERTYPE,
            mtu: interface.mtu,
            ring_frames: 4096,
            groups: &[],
            whole_len: weft_wire::whole_len,
        };
        PacketSocket::open(&config).map_err(|e| e.cause)
    });
    let mut socket = opened.expect("a packet socket");
    until();
    let mut frames = Vec::new();
    while socket.advance() {
        frames.push(socket.frame()[ETHERNET_HEADER_LEN..].to_vec());
    }
    frames
}

/// What can be made of a good frame without the key, each with the counter that it must end in.
fn forgeries(good: &[u8]) -> Vec<(Vec<u8>, &'static str)> {
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = good.to_vec();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    let mut cut = good.to_vec();
    cut.truncate(HEADER_LEN - 5);
    let mut changed = good.to_vec();
    changed[16] ^= 0x55;
    vec![
        (cut, "dropped_short"),
        (with(10, &[0xff, 0xff]), "dropped_short"),
        (with(24, &[good[24] ^ 1]), "dropped_tag"),
        (changed, "dropped_tag"),
        (with(12, &[0xff, 0xff, 0x0f]), "dropped_connection"),
        (with(12, &[good[12] ^ 1]), "dropped_connection"),
        (with(1, &[VERSION + 1]), "dropped_version"),
        (with(0, &[0]), "dropped_foreign"),
        (with(8, &[77]), "dropped_malformed"),
        (with(8, &[FrameKind::Datagram as u8]), "dropped_tag"),
        (with(15, &[200]), "dropped_malformed"),
        (good.to_vec(), "dropped_duplicate"),
    ]
}

/// A hello to one process by somebody, for this job, with this key.
pub(super) fn hello(
    (to_node, to_nonce, to_port): (u64, u64, u16),
    from: Address,
    job: u32,
    key: JobKey,
) -> Vec<u8> {
    let hello = Hello {
        versions: (1, 1),
        reply: false,
        path: 0,
        index: 0,
        mtu: 1500,
        messages: 1 << 20,
        bytes: 1 << 40,
        to_node,
        to_nonce,
        to_port,
        hops: 0,
        last_resort: false,
        from,
    };
    let mut frame = vec![0; HELLO_LEN];
    hello.encode(job, &key.hello(), &mut frame);
    frame
}

#[test]
fn forged_frames_are_counted_and_dropped() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    let program = ["-n", "2", "--lab", lab.name(), "--", RANK, "serve"];
    let mut job = Job::start(WEFT, &program, &[]);
    let heard = overhear(&lab, 1, || {
        job.order("again");
        job.says("@0 served 1");
        job.says("@1 served 1");
    });
    let stream = |frame: &&Vec<u8>| {
        Header::decode(frame).is_ok_and(|h| h.kind == FrameKind::Stream && h.len > 0)
    };
    let good = heard.iter().find(stream).expect("a frame of the stream");
    let header = Header::decode(good).expect("a header");
    let mut forged = forgeries(good);
    let nobody = Address::new(3, 4, 5, 6, "nobody");
    let keyless = hello((1, 2, header.port), nobody, header.job, JobKey([66; 16]));
    forged.push((keyless, "dropped_key"));

    // By raw socket from the other node, and by UDP.
    let to = lab.interface(1, "lan0").mac.expect("an Ethernet address");
    let from = lab.interface(0, "lan0");
    let mut options = LinkOptions::new(1, None);
    options.ring_frames = 16;
    let link = lab.node(0).run(|| Ok(PacketLink::open(&from, &options)));
    let mut link = link.expect("the node").expect("a packet link");
    let socket = lab.node(0).run(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket");
    let mut burst = Burst::new(16 << 10);
    for (frame, _) in &forged {
        burst.reset(LinkAddr::Mac(to), link.info().headroom);
        burst.space(frame.len()).expect("room")[..].copy_from_slice(frame);
        burst.push(frame.len());
        assert_eq!(link.send(&mut burst).expect("sent"), 1);
        socket.send_to(frame, ("10.100.0.2", header.port)).expect("sent");
    }
    // Noise for the right port and job.
    for seed in 0..200u32 {
        let mut frame = good.clone();
        for (at, byte) in frame.iter_mut().enumerate().skip(8) {
            *byte = (seed.wrapping_mul(2_654_435_761).wrapping_add(at as u32 * 40_503) >> 9) as u8;
        }
        socket.send_to(&frame, ("10.100.0.2", header.port)).expect("sent");
    }

    for round in 2..4 {
        job.order("again");
        job.says(&format!("@0 served {round}"));
        job.says(&format!("@1 served {round}"));
    }
    job.order("end");
    let said = job.ends_well();
    for (_, name) in forged {
        let line = format!("@1 counter ether.{name} ");
        assert!(said.contains(&line), "{name} was not counted:\n{said}");
    }
    assert!(!said.contains("peers_dead"), "{said}");
}

const KEY: JobKey = JobKey([5; 16]);

fn address(node: u64) -> Address {
    Address::new(node, 1000 + node, 100 + node as u16, node as u32, &format!("host{node}"))
}

/// Polls until there is an event that `what` makes something of.
fn hear<T>(device: &mut Ether, mut what: impl FnMut(Event<'_>) -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        while device.poll(now_ns()) {
            if let Some(found) = what(device.event()) {
                return found;
            }
        }
        assert!(Instant::now() < give_up, "nothing happens");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Says hello to the process at `to` from a link without a device behind it.
fn greet(link: &mut MemoryLink, versions: (u8, u8), to: &Address, from: &Address, key: JobKey) {
    let hello = Hello {
        versions,
        reply: false,
        path: 0,
        index: 5,
        mtu: 1500,
        messages: 10,
        bytes: 10_000,
        to_node: to.node,
        to_nonce: to.nonce,
        to_port: to.port,
        hops: 0,
        last_resort: false,
        from: *from,
    };
    let mut burst = Burst::new(2048);
    burst.reset(link.info().everyone.expect("everyone"), 0);
    let len = hello.encode(KEY.job(), &key.hello(), burst.space(HELLO_LEN).expect("room"));
    burst.push(len);
    link.send(&mut burst).expect("sent");
}

fn death(event: Event<'_>) -> Option<String> {
    match event {
        Event::Dead { error, .. } => Some(error.to_string()),
        _ => None,
    }
}

#[test]
fn a_peer_of_another_version_is_named_with_its_versions() {
    let hub = MemoryHub::new(1500, 64);
    let (me, other) = (address(1), address(2));
    let mut link = hub.attach().expect("a link");
    let own = hub.attach().expect("a link");
    let mut device = Ether::on_links(me, KEY, Config::default(), vec![Box::new(own)]);
    device.associate(PeerId(7), &other).expect("associated");
    let later = (VERSION + 1, VERSION + 2);
    greet(&mut link, later, &me, &other, KEY);
    let error = hear(&mut device, death);
    let versions = format!("version {} to {}", later.0, later.1);
    for word in ["rank 7 (process 2 on host2) is gone", &versions, "install the same Weft"] {
        assert!(error.contains(word), "{error}");
    }
    let later = device.send(PeerId(7), &Envelope::default(), b"x");
    assert!(matches!(later, Err(SendError::Failed(_))), "{later:?}");
}

#[test]
fn a_peer_with_another_key_is_no_peer_and_is_told_of() {
    let hub = MemoryHub::new(1500, 64);
    let (me, other) = (address(1), address(2));
    let mut link = hub.attach().expect("a link");
    let own = hub.attach().expect("a link");
    let config = Config { hello_limit_ns: 200_000_000, ..Config::default() };
    let mut device = Ether::on_links(me, KEY, config, vec![Box::new(own)]);
    device.associate(PeerId(7), &other).expect("associated");
    greet(&mut link, (1, 1), &me, &other, JobKey([6; 16]));
    let error = hear(&mut device, death);
    assert!(error.contains("a process with another job key was heard there"), "{error}");
    assert!(error.contains("rank 7 (process 2 on host2)"), "{error}");
    let counted = device.counters();
    assert!(counted.iter().any(|(name, count)| name == "ether.dropped_key" && *count == 1));
}

/// A link that writes nonsense into frames on their way to one process, and proves it with the
/// right key: offsets, lengths, numbers and kinds of chunks are all anything.
struct Liar {
    inner: MemoryLink,
    /// Whom it lies to, and with which key.
    to: Address,
    key: weft_wire::Key,
    random: u64,
}

impl Liar {
    fn next(&mut self) -> u64 {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl Link for Liar {
    fn info(&self) -> &LinkInfo {
        self.inner.info()
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, LinkError> {
        let dice: Vec<u64> = (0..burst.count() * 4).map(|_| self.next()).collect();
        for (frame, dice) in burst.frames_mut().zip(dice.chunks(4)) {
            let Ok(header) = Header::decode(frame) else { continue };
            let body = usize::from(header.len);
            if header.kind != FrameKind::Stream || header.port != self.to.port || body == 0 {
                continue;
            }
            if !dice[0].is_multiple_of(3) {
                for value in &dice[1..] {
                    // Mostly near the start, where a chunk's own words are.
                    let room = if value.is_multiple_of(2) { body.min(24) } else { body };
                    let at = HEADER_LEN + (value >> 8) as usize % room;
                    frame[at] = (value >> 32) as u8;
                }
                header.seal(&self.key, frame);
            }
        }
        self.inner.send(burst)
    }

    fn poll(&mut self) -> Result<bool, LinkError> {
        self.inner.poll()
    }

    fn frame(&self) -> RxFrame<'_> {
        self.inner.frame()
    }

    fn watch(&self, each: &mut dyn FnMut(std::os::fd::BorrowedFd<'_>)) {
        self.inner.watch(each);
    }

    fn counters(&self) -> LinkCounters {
        self.inner.counters()
    }
}

/// Messages from the honest peer that have to come through.
const HONEST: u64 = 3000;
/// Bytes of the honest peer's large messages.
const LARGE: usize = 40_000;

fn honest_payload(number: u64) -> Vec<u8> {
    let len = if number % 50 == 49 { LARGE } else { (number * 37 % 3000) as usize };
    (0..len).map(|at| (at as u64 * 7 + number) as u8).collect()
}

fn tagged(tag: u64) -> Envelope {
    Envelope { tag, kind: Kind::TAGGED, ..Envelope::default() }
}

/// The end that is lied to by peer 1, and gets peer 2's messages.
struct Victim {
    device: Ether,
    /// The next one of peer 2's messages, and the pull that is under way for one.
    next: u64,
    pulled: Option<(OpId, u64, Buf)>,
    ops: u64,
    lies: u64,
}

impl Victim {
    /// Takes what has come.
    fn look(&mut self) {
        while self.device.poll(now_ns()) {
            let mut pull = None;
            match self.device.event() {
                Event::Message { peer: PeerId(2), envelope, payload } => {
                    assert_eq!(envelope.tag, self.next, "in order");
                    assert!(payload == honest_payload(self.next), "message {}", self.next);
                    self.next += 1;
                }
                Event::Announced { peer: PeerId(2), envelope, len, ticket } => {
                    assert_eq!((envelope.tag, len as usize), (self.next, LARGE));
                    let into = Buf::from_vec(vec![0; LARGE]);
                    self.pulled = Some((OpId(self.ops), self.next, into.clone()));
                    pull = Some((PeerId(2), ticket, into));
                    self.next += 1;
                }
                Event::Announced { peer, len, ticket, .. } => {
                    let len = len.min(1 << 20) as usize;
                    pull = Some((peer, ticket, Buf::from_vec(vec![0; len])));
                }
                Event::Done { op } => {
                    let ours = self.pulled.take_if(|(pulled, ..)| *pulled == op);
                    if let Some((_, number, into)) = ours {
                        let mut got = vec![0; LARGE];
                        into.read(0, &mut got);
                        assert!(got == honest_payload(number), "large message {number}");
                    }
                }
                Event::Dead { peer: PeerId(2), error } => panic!("the honest one: {error}"),
                Event::Failed { op, error } => {
                    let ours = self.pulled.as_ref().is_some_and(|(pulled, ..)| *pulled == op);
                    assert!(!ours, "the honest one's message: {error}");
                }
                Event::Message { .. } | Event::Datagram { .. } => self.lies += 1,
                Event::Dead { .. } => {}
            }
            if let Some((peer, ticket, into)) = pull {
                self.device.pull(peer, ticket, into, OpId(self.ops));
                self.ops += 1;
            }
        }
    }
}

fn on(hub: &MemoryHub, me: Address) -> Ether {
    let link = hub.attach().expect("a link");
    Ether::on_links(me, KEY, Config::default(), vec![Box::new(link)])
}

/// One step of a peer that sends: `number` goes up when its message was taken.
fn push(device: &mut Ether, number: &mut u64, payload: &[u8]) {
    while device.poll(now_ns()) {}
    let sent = if payload.len() > 16 << 10 {
        let payload = Buf::from_vec(payload.to_vec());
        device.announce(PeerId(0), &tagged(*number), &payload, OpId(*number))
    } else {
        device.send(PeerId(0), &tagged(*number), payload)
    };
    device.flush(now_ns());
    *number += u64::from(sent.is_ok());
}

#[test]
fn a_peer_that_sends_nonsense_with_the_right_key_harms_only_itself() {
    for seed in 1..=6_u64 {
        let hub = MemoryHub::new(1500, 4096);
        let addresses = [address(1), address(2), address(3)];
        let liar = Liar {
            inner: hub.attach().expect("a link"),
            to: addresses[0],
            key: KEY.connection(addresses[1].nonce, addresses[0].nonce),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let mut bad = Ether::on_links(addresses[1], KEY, Config::default(), vec![Box::new(liar)]);
        let mut honest = on(&hub, addresses[2]);
        let device = on(&hub, addresses[0]);
        let mut victim = Victim { device, next: 0, pulled: None, ops: 0, lies: 0 };
        victim.device.associate(PeerId(1), &addresses[1]).expect("associated");
        victim.device.associate(PeerId(2), &addresses[2]).expect("associated");
        bad.associate(PeerId(0), &addresses[0]).expect("associated");
        honest.associate(PeerId(0), &addresses[0]).expect("associated");

        let give_up = Instant::now() + PATIENCE;
        let (mut said, mut lied) = (0, 0);
        let lie = vec![0x5a; 20_000];
        while victim.next < HONEST || victim.pulled.is_some() {
            if said < HONEST {
                let payload = honest_payload(said);
                push(&mut honest, &mut said, &payload);
            } else {
                while honest.poll(now_ns()) {}
            }
            let len = if lied % 20 == 7 { lie.len() } else { (lied * 13 % 900) as usize };
            push(&mut bad, &mut lied, &lie[..len]);
            victim.look();
            assert!(Instant::now() < give_up, "seed {seed}: stuck at {} of {said}", victim.next);
        }
        // The lies were proven ones, and were looked at.
        let counters = victim.device.counters();
        let count = |name| counters.iter().find(|(n, _)| n == name).map_or(0, |(_, count)| *count);
        assert_eq!(count("ether.dropped_tag"), 0, "seed {seed}");
        let seen = count("ether.dropped_malformed") + count("ether.dropped_credit") + victim.lies;
        assert!(lied > 0 && seen > 0, "seed {seed}: nothing was lied about");
    }
}
