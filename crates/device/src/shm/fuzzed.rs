//! Harnesses: what another process says on the socket, and what it writes into shared memory.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use bolero::{TypeGenerator, check};
use weft_ring::{Head, LINE, Memory};
use weft_sys::mem::{self, Mapping};
use weft_sys::unix::{Received, Socket};
use weft_wire::Kind;

use super::hello::{MAX_LEN, Packet, Refusal, Terms, proof};
use super::inbox::{Inbox, OFFERS, Outbox, Parts};
use super::item::{self, Announcement, OfferId};
use super::*;
use crate::device::Event;

/// The bytes of every packet begin with these.
fn begun() -> Vec<u8> {
    let mut bytes = [0; MAX_LEN];
    let len = Packet::Wake.encode(&mut bytes);
    bytes[..len - 8].to_vec()
}

/// Bytes as a packet: what was understood is said by the same bytes.
fn packet(bytes: &[u8]) {
    let Ok(packet) = Packet::decode(bytes) else { return };
    let mut again = [0; MAX_LEN];
    let len = packet.encode(&mut again);
    // Of an address all that is not understood is dropped.
    if !matches!(packet, Packet::Hello { .. }) {
        assert_eq!(&again[..len], bytes, "{packet:?}");
    }
    assert_eq!(Packet::decode(&again[..len]), Ok(packet));
}

#[test]
fn fuzzed_packets_of_the_port() {
    let begun = begun();
    check!().with_iterations(100_000).with_max_len(MAX_LEN).for_each(|bytes| {
        packet(bytes);
        // Random bytes hardly ever begin like a packet; these do, and go deeper.
        let mut ours = begun.clone();
        ours.push(bytes.first().map_or(0, |kind| kind % 11));
        ours.extend_from_slice(&[0; 7]);
        ours.extend_from_slice(bytes);
        for len in [16, 24, 32, 40, 48, 56, 64, 96, 104, ours.len()] {
            packet(&ours[..len.min(ours.len())]);
        }
    });
}

#[test]
fn fuzzed_announcements_in_a_ring() {
    check!().with_iterations(100_000).with_max_len(200).for_each(|bytes| {
        let mut ours = bytes.to_vec();
        if let [_, .., low, second, third, fourth] =
            ours.as_mut_slice().get_mut(..32).unwrap_or_default()
        {
            (*low, *second, *third, *fourth) = (*low % 12, 0, 0, 0);
        }
        for bytes in [bytes, &ours] {
            let Some(announcement) = Announcement::decode(bytes) else { continue };
            let named: u64 = announcement.rest.iter().map(|piece| piece.1).sum();
            assert_eq!(announcement.first.1 + named, announcement.len);
            let mut again = vec![0; announcement.size()];
            announcement.encode(&mut again);
            assert_eq!(again, bytes);
        }
    });
}

/// A number of a liar: most often one that is nearly right.
#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Number {
    Small(u8),
    Any(u64),
}

impl Number {
    fn get(self) -> u64 {
        match self {
            Number::Small(small) => u64::from(small),
            Number::Any(any) => any,
        }
    }
}

/// What happens to a device that another process has called.
#[derive(Clone, Debug, TypeGenerator)]
enum Step {
    /// Somebody says any bytes after a right beginning, with so many descriptors of some kinds.
    Bytes(bool, Vec<u8>, [u8; 2]),
    /// Hello, by the name of the member or of another.
    Hello(bool),
    /// Rightly proved, with these sizes of a ring, and descriptors; or rather all as it should be.
    Join(bool, Number, Number, [u8; 2]),
    /// A packet of an open connection.
    Region(u8, Number, Number, u8),
    Gone(u8),
    Board(u8, u8),
    Wake,
    /// An item in the ring: kind, head, bytes.
    Item(u8, Number, Number, Number, u8),
    /// One whose payload is said to lie in a block: kind, block, length.
    Lent(u8, u8, Number),
    /// A message is announced: place, turn, bytes, region, pieces, whether all are named.
    Announce(u8, u8, Number, u8, Vec<(Number, Number)>, bool),
    /// A word in the memory that one of the two has made.
    Scribble(bool, u16, Number),
    /// It hangs up.
    HangUp,
    /// The program's own: it sends, announces, pulls, and so on.
    Send(u16),
    Datagram(u16),
    Offer(u16),
    Pull(u8, u16),
    Withdraw(u8),
    Hold(bool),
    Lend(u8),
    Take(u8),
    ReadsAll,
    Arm(bool),
    Poll,
}

const KEY: JobKey = JobKey([3; 16]);
const LIAR: PeerId = PeerId(2);
/// More events in one go than anything sensible leads to.
const MANY: usize = 100_000;

struct World {
    shm: Shm,
    liar: Address,
    now: u64,
    socket: Option<Socket>,
    /// The challenges, once both are known, and the liar's memory.
    challenges: Option<([u8; 16], [u8; 16])>,
    inbox: Option<(Inbox, Memory)>,
    outbox: Option<(Outbox, Memory)>,
    /// The program's operations, and what was announced to it.
    ops: BTreeMap<u64, bool>,
    next_op: u64,
    waiting: Vec<(Ticket, u64)>,
    dead: bool,
}

fn geometry() -> Geometry {
    ShmOptions::for_peers(100).geometry
}

fn memory(fd: BorrowedFd<'_>) -> Option<Memory> {
    let len = Parts::len(geometry());
    Memory::new(Arc::new(Mapping::new(fd, len).ok()?)).ok()
}

impl World {
    fn new() -> World {
        let port = Port::claim_any().expect("a port is free");
        let me = Address::new(1, 11, port.number(), 1, "me");
        let liar = Address::new(1, 22, 1, 2, "liar");
        let mut shm = Shm::new(port, me, KEY, ShmOptions::for_peers(100)).expect("a device");
        shm.associate(LIAR, &liar).expect("it is of this node");
        // The liar calls, and is not called.
        shm.peers[0].state = State::Idle { retry_ns: 0, wanted: false };
        World {
            shm,
            liar,
            now: 1_000_000,
            socket: None,
            challenges: None,
            inbox: None,
            outbox: None,
            ops: BTreeMap::new(),
            next_op: 0,
            waiting: Vec::new(),
            dead: false,
        }
    }

    /// An honest beginning, which leads to a connection.
    fn meet(&mut self) {
        self.lie(&Step::Hello(true));
        self.poll();
        self.hear();
        self.join(true, (Number::Small(0), Number::Small(0)), [0; 2]);
        self.poll();
        self.hear();
        assert!(self.outbox.is_some(), "no connection came of it");
    }

    fn say(&mut self, bytes: &[u8], kinds: &[u8]) {
        let file = std::fs::File::open("/dev/null").expect("there is one");
        let (small, large) = (mem::memfd("weft-fuzz", 64), mem::memfd("weft-fuzz", 1 << 20));
        let (small, large) = (small.expect("a memfd"), large.expect("a memfd"));
        let fds: Vec<BorrowedFd<'_>> = kinds
            .iter()
            .filter_map(|kind| match kind % 4 {
                0 => None,
                1 => Some(file.as_fd()),
                2 => Some(small.as_fd()),
                _ => Some(large.as_fd()),
            })
            .collect();
        if let Some(socket) = &self.socket {
            let _ = socket.send(bytes, &fds);
        }
    }

    fn packet(&mut self, packet: &Packet, kinds: &[u8]) {
        let mut bytes = [0; MAX_LEN];
        let len = packet.encode(&mut bytes);
        self.say(&bytes[..len], kinds);
    }

    /// Polls until there is nothing more.
    fn poll(&mut self) {
        for _ in 0..3 {
            self.now += 20_000_000;
            let mut events = 0;
            while self.shm.poll(self.now) {
                self.event();
                events += 1;
                assert!(events < MANY, "events without an end");
            }
        }
    }

    fn event(&mut self) {
        let ended = |op: OpId, ops: &mut BTreeMap<u64, bool>| {
            assert!(ops.remove(&op.0).is_some(), "{op:?} has ended twice");
        };
        let after = self.dead;
        match self.shm.event() {
            Event::Message { payload, .. } => assert!(payload.len() <= geometry().max_len()),
            Event::Datagram { bytes, .. } => assert!(bytes.len() <= geometry().max_len()),
            Event::Announced { len, ticket, .. } => self.waiting.push((ticket, len)),
            Event::Done { op } | Event::Failed { op, .. } => return ended(op, &mut self.ops),
            Event::Dead { error, .. } => {
                assert!(!error.to_string().is_empty());
                assert!(self.ops.is_empty(), "an operation with the dead goes on");
                self.dead = true;
            }
        }
        assert!(!after, "something came after the end");
    }

    /// What the device has said.
    fn hear(&mut self) {
        let Some(socket) = &self.socket else { return };
        let (mut bytes, mut fds) = ([0; MAX_LEN], Vec::new());
        while let Ok(Received::Packet(len)) = socket.receive(&mut bytes, &mut fds) {
            match Packet::decode(&bytes[..len]).expect("it says what can be understood") {
                Packet::Challenge { challenge, .. } => {
                    self.challenges = Some(([5; 16], challenge));
                }
                Packet::Welcome { .. } => {
                    assert_eq!(fds.len(), 2);
                    let fd = fds[0].as_fd();
                    let outbox = Outbox::attach(fd, geometry()).expect("what it made is whole");
                    self.outbox = memory(fd).map(|memory| (outbox, memory));
                }
                _ => {}
            }
            fds.clear();
        }
    }

    fn join(&mut self, well: bool, (slots, data): (Number, Number), kinds: [u8; 2]) {
        let Some((dialer, listener)) = self.challenges else { return };
        let who = (&self.liar, self.shm.me.nonce);
        let proof = proof(&KEY, 1, &dialer, &listener, who);
        let Some(socket) = &self.socket else { return };
        let size = |number: Number| 1usize << (number.get() % 26);
        let wild = Geometry::new(size(slots), size(data)).unwrap_or(geometry());
        let terms = |geometry| Terms { geometry, probe_addr: 8, probe_value: slots.get() };
        if !well {
            return self.packet(&Packet::Join { proof, terms: terms(wild) }, &kinds);
        }
        let inbox = Inbox::new(geometry()).expect("memory");
        let bell = bell::OwnBell::new().expect("a doorbell");
        let mut bytes = [0; MAX_LEN];
        let len = Packet::Join { proof, terms: terms(geometry()) }.encode(&mut bytes);
        let _ = socket.send(&bytes[..len], &[inbox.as_fd(), bell.as_fd()]);
        let memory = memory(inbox.as_fd());
        self.inbox = memory.map(|memory| (inbox, memory));
    }

    fn announce(&mut self, place: (u8, u8), len: u64, region: u8, more: &[(Number, Number)]) {
        let Some((outbox, _)) = &mut self.outbox else { return };
        let id = OfferId { slot: u32::from(place.0), turn: u32::from(place.1) };
        let rest: Vec<_> = more.iter().take(4).map(|(a, l)| (a.get(), l.get() % 9000)).collect();
        let named = rest.iter().map(|piece| piece.1).sum::<u64>();
        let len = len.max(named);
        let first = (u64::from(place.1) << 12, len - named);
        let region = u32::from(region % 4);
        let announcement = Announcement { id, len, region, first, rest, named: true };
        let mut bytes = vec![0; announcement.size()];
        announcement.encode(&mut bytes);
        if (id.slot as usize) < OFFERS {
            outbox.shared.offer(id);
        }
        let _ = outbox.ring.push(item::ANNOUNCE, Head::default(), &bytes);
    }

    /// Puts an item into the ring, then says that its payload lies in a block.
    fn lend(&mut self, kind: u8, block: u8, len: u64) {
        let Some((outbox, memory)) = &mut self.outbox else { return };
        let place = outbox.ring.put() as usize % geometry().slots();
        if outbox.ring.push(kind % 10, Head::default(), &[block % 8]).is_ok() {
            let control = memory.word(inbox::RING + (2 + place) * LINE);
            let len = (len & 0x7f_ffff) << 40 | 1 << 63;
            control.fetch_or(len, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// What the other process does.
    fn lie(&mut self, step: &Step) {
        match *step {
            Step::Bytes(begins, ref bytes, kinds) => {
                let mut said = if begins { begun() } else { Vec::new() };
                said.extend_from_slice(bytes);
                self.say(&said, &kinds);
            }
            Step::Hello(as_liar) => {
                self.socket = Socket::connect(&port::name(self.shm.port.number())).ok().flatten();
                (self.challenges, self.outbox, self.inbox) = (None, None, None);
                let other = Address::new(1, 23, 1, 2, "other");
                let from = if as_liar { self.liar } else { other };
                let to_nonce = self.shm.me.nonce;
                self.packet(&Packet::Hello { from, to_nonce, challenge: [5; 16] }, &[]);
            }
            Step::Join(well, slots, data, kinds) => self.join(well, (slots, data), kinds),
            Step::Region(id, addr, len, kind) => {
                let (id, addr, len) = (u32::from(id % 4), addr.get() << 12, len.get() << 8);
                self.packet(&Packet::Region { id, addr, len }, &[kind]);
            }
            Step::Gone(id) => self.packet(&Packet::Gone { id: u32::from(id % 4) }, &[]),
            Step::Board(group, kind) => {
                self.packet(&Packet::Board { group: u64::from(group) }, &[kind]);
            }
            Step::Wake => self.packet(&Packet::Wake, &[]),
            Step::Item(kind, a, b, c, len) => {
                if let Some((outbox, _)) = &mut self.outbox {
                    let head = Head(a.get(), b.get(), c.get());
                    let _ = outbox.ring.push(kind % 13, head, &vec![9; usize::from(len)]);
                }
            }
            Step::Lent(kind, block, len) => self.lend(kind, block, len.get()),
            Step::Announce(slot, turn, len, region, ref more, _) => {
                self.announce((slot, turn), len.get(), region, more);
            }
            Step::Scribble(theirs, at, word) => {
                let memory = if theirs {
                    self.outbox.as_ref().map(|(_, memory)| memory)
                } else {
                    self.inbox.as_ref().map(|(_, memory)| memory)
                };
                if let Some(memory) = memory {
                    // Most words that mean something are at the beginning.
                    let at = usize::from(at) % 1024 * 8;
                    memory.word(at).store(word.get(), std::sync::atomic::Ordering::Relaxed);
                }
            }
            Step::HangUp => self.socket = None,
            _ => self.work(step),
        }
    }

    fn op(&mut self, outgoing: bool) -> OpId {
        self.next_op += 1;
        self.ops.insert(self.next_op, outgoing);
        OpId(self.next_op)
    }

    /// What the program does.
    fn work(&mut self, step: &Step) {
        let envelope = Envelope { kind: Kind(1), ..Envelope::default() };
        match *step {
            Step::Send(len) => {
                let bytes = vec![1; usize::from(len) % (EAGER_MAX + 1)];
                let _ = self.shm.send(LIAR, &envelope, &bytes);
            }
            Step::Datagram(len) => {
                let bytes = vec![1; usize::from(len) % (EAGER_MAX + 1)];
                self.shm.datagram(LIAR, &bytes);
            }
            Step::Offer(len) => {
                let (payload, op) = (Buf::from_vec(vec![2; usize::from(len)]), self.op(true));
                if self.shm.announce(LIAR, &envelope, &payload, op).is_err() {
                    self.ops.remove(&op.0);
                }
            }
            Step::Pull(which, len) if !self.waiting.is_empty() => {
                let at = usize::from(which) % self.waiting.len();
                let (ticket, whole) = self.waiting.swap_remove(at);
                let len = usize::from(len).min(usize::try_from(whole).unwrap_or(usize::MAX));
                let op = self.op(false);
                self.shm.pull(LIAR, ticket, Buf::from_vec(vec![0; len]), op);
            }
            Step::Withdraw(which) => {
                let outgoing: Vec<_> =
                    self.ops.iter().filter(|(_, out)| **out).map(|(op, _)| *op).collect();
                if let Some(&op) = outgoing.get(usize::from(which))
                    && self.shm.withdraw(LIAR, OpId(op))
                {
                    self.ops.remove(&op);
                }
            }
            Step::Hold(hold) => self.shm.hold(LIAR, hold),
            Step::ReadsAll => self.shm.reads_all(),
            Step::Lend(group) => drop(self.shm.lend_board(u64::from(group), &[LIAR])),
            Step::Take(group) => {
                if let Some(board) = self.shm.take_board(LIAR, u64::from(group)) {
                    board.open(board.arrive());
                }
            }
            Step::Arm(futex) => {
                self.shm.arm(if futex { Wake::Doorbell } else { Wake::Descriptor });
                self.poll();
            }
            _ => self.poll(),
        }
    }
}

/// A device takes no harm, and comes to an end, whatever a process says that has the job's key.
#[test]
fn fuzzed_members_of_the_node() {
    let check = check!().with_iterations(1_500).with_max_len(2048);
    check.with_type::<(u8, Vec<Step>)>().for_each(|(strange, steps)| {
        let mut world = World::new();
        if *strange >= 64 {
            world.meet();
        }
        for step in steps {
            world.lie(step);
            if matches!(step, Step::Hello(_) | Step::Join(..)) {
                world.poll();
            }
            world.hear();
        }
        world.poll();
        let _ = (world.shm.busy(), world.shm.deadline_ns(), world.shm.counters());
        world.shm.close(world.now);
        world.poll();
    });
}

/// The dialer refuses what is not what it has asked for.
#[test]
fn fuzzed_listeners_at_the_port_of_a_peer() {
    let check = check!().with_iterations(1_000).with_max_len(256);
    check.with_type::<(Vec<u8>, bool, u8)>().for_each(|(bytes, begins, kind)| {
        let squatter = Port::claim_any().expect("a port is free");
        let port = Port::claim_any().expect("a port is free");
        let me = Address::new(1, 11, port.number(), 1, "me");
        let peer = Address::new(1, 22, squatter.number(), 2, "peer");
        let mut shm = Shm::new(port, me, KEY, ShmOptions::for_peers(2)).expect("a device");
        shm.associate(LIAR, &peer).expect("it is of this node");
        shm.dial(0);
        let socket = squatter.accept().expect("it has called").expect("it has called");
        let mut said = [0; MAX_LEN];
        let packet = match kind % 4 {
            0 => Packet::Challenge { challenge: [7; 16], proof: [1, 2] },
            1 => Packet::Refuse(Refusal::Closing),
            2 => {
                let terms = Terms { geometry: geometry(), probe_addr: 1, probe_value: 2 };
                Packet::Welcome { terms }
            }
            _ => Packet::Wake,
        };
        let mut raw = if *begins { begun() } else { Vec::new() };
        raw.extend_from_slice(bytes);
        raw.truncate(MAX_LEN);
        let len = packet.encode(&mut said);
        if *kind < 128 || raw.is_empty() {
            let _ = socket.send(&said[..len], &[]);
        } else {
            let _ = socket.send(&raw, &[]);
        }
        shm.serve_peer(0, 1);
        assert!(shm.peers[0].line.is_none(), "a stranger was given memory");
        while shm.poll(1) {
            assert!(matches!(shm.event(), Event::Dead { .. }));
        }
    });
}

#[test]
fn a_peer_that_announces_and_never_reads_is_given_up() {
    let mut world = World::new();
    world.meet();
    for number in 0..4 * OFFERS {
        if world.dead {
            return;
        }
        world.announce((number as u8, (number / 256) as u8), 0, 0, &[]);
        world.poll();
        world.work(&Step::Pull(0, 0));
        world.poll();
    }
    panic!("{} answers wait for it", world.shm.peers[0].line.as_ref().unwrap().backlog.len());
}

#[test]
fn a_peer_that_has_more_announcements_than_places_is_given_up() {
    let mut world = World::new();
    world.meet();
    world.announce((7, 0), 100, 0, &[]);
    world.announce((8, 0), 100, 0, &[]);
    world.poll();
    world.poll();
    assert_eq!((world.waiting.len(), world.dead), (2, false));
    // The same place, which was neither asked for nor given back.
    world.announce((7, 1), 100, 0, &[]);
    world.poll();
    assert!(world.dead);
}

#[test]
fn a_connection_that_was_given_up_wakes_nobody_though_a_child_has_its_socket() {
    let mut world = World::new();
    world.meet();
    let line = world.shm.peers[0].line.as_ref().expect("they have met");
    let _childs = line.socket.as_fd().try_clone_to_owned().expect("a copy");
    world.lie(&Step::Item(12, Number::Small(0), Number::Small(0), Number::Small(0), 1));
    world.poll();
    assert!(world.dead, "no Weft sends such an item");
    world.lie(&Step::HangUp);
    let mut woken = Vec::new();
    world.shm.sockets.wait(Some(0), |token| woken.push(token)).expect("it can be waited on");
    assert_eq!(woken, []);
}
