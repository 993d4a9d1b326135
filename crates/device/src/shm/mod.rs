//! The shm device: processes of one node, by rings in shared memory and a doorbell. Nothing is lost
//! there, so there are no acknowledgements (the idea is PM2's).
//!
//! Each process makes, for every peer that sends to it, a piece of shared memory with a ring
//! (`inbox`), and has one doorbell page. A small message is one cache line written by the sender
//! and read by the receiver; a longer one lies in the ring's data area, or in a block that passes
//! to the receiver with it. Large messages are announced, and pulled by the receiver (`pull`).
//!
//! Processes find each other by the [`Port`], an abstract unix socket: over it they prove the job
//! key to each other and pass descriptors (`connect`, `hello`). There is no file anywhere,
//! `/dev/shm` included, so nothing can be left behind or be too small. The connection stays open:
//! its end says at once that the peer's process has ended, however that came; a stopped one keeps
//! it. Since a child of that process may have the socket as well, the process itself is watched
//! beside it, where the kernel lets it (a pidfd).
//!
//! | file | concern |
//! |---|---|
//! | `port` | the exclusive port |
//! | `hello`, `connect` | acquaintance |
//! | `inbox`, `bell`, `item` | what lies in shared memory |
//! | `peer` | what is known of a peer |
//! | `send`, `pull`, `poll` | out, large, in |
//! | `help` | large, by both ends at once |
//! | `region` | memory that peers can copy from directly |
//! | `board` | memory that a group shares |

mod bell;
mod board;
mod choice;
mod connect;
mod feed;
#[cfg(test)]
mod fuzzed;
mod hello;
mod help;
mod inbox;
mod item;
mod peer;
mod poll;
mod port;
mod pull;
mod region;
mod send;
mod stream;

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use weft_ring::{Bell, Board, Geometry, Sleep};
use weft_sys::buf::Buf;
use weft_sys::cma;
use weft_sys::cpu;
use weft_sys::epoll::Epoll;
use weft_sys::mem::{Mapping, ReadOnly};
use weft_wire::{Address, Envelope, JobKey, OpId, PeerId, Ticket};

use crate::device::{Caps, Counters, Device, Doorbell, Event, Found, SendError, Taker, Wake};
use crate::error::Error;
use crate::pace::Pace;
use bell::OwnBell;
use connect::{Guest, Stranger};
use help::Help;
use peer::{Peer, State};
use pull::Pull;
use stream::Stream;

pub use port::Port;
pub use region::{Memory, Regions};

/// The longest message that goes through every ring in one piece, bytes. To who hands payloads out
/// in place a longer one is announced and pulled.
pub const EAGER_MAX: usize = 16 << 10;

/// The same between two that copy all payloads to their places ([`Device::reads_all`]), where the
/// peer's ring is large enough. Two plain copies of what is in the cache are then faster than one
/// by the kernel, which looks up every page: 32 KiB both ways at once in 1.2 us and 4.0. Where the
/// ring is full, a message over [`EAGER_MAX`] is announced.
pub const READER_EAGER_MAX: usize = 64 << 10;

/// A peer that nobody sends to is called this long after it was associated, so that its death is
/// noticed also by those who only wait for it.
const CALL_AFTER_NS: u64 = 20_000_000;

/// One call is enough for two, and is the lower port's to make. Should it never come, because that
/// process died first, the other one calls after this long, and learns of it.
const CALL_LATER_NS: u64 = 100_000_000;

/// How a [`Shm`] behaves.
#[derive(Clone, Copy, Debug)]
pub struct ShmOptions {
    /// The ring for each peer that sends to this process.
    geometry: Geometry,
    cma: bool,
    feeds: Option<bool>,
    announce_from: Option<usize>,
}

impl ShmOptions {
    /// For about so many peers on the node: the more, the smaller the ring for each, so that the
    /// whole stays within about 10 MiB, of which only what is used takes memory.
    ///
    /// # Panics
    /// Never: the sizes are fit for a ring.
    pub fn for_peers(count: usize) -> ShmOptions {
        let (slots, data) = match count {
            0..=8 => (512, 256 << 10),
            9..=32 => (256, 256 << 10),
            _ => (128, 64 << 10),
        };
        let geometry = Geometry::new(slots, data).expect("powers of two within the limits");
        ShmOptions { geometry, cma: true, feeds: None, announce_from: None }
    }

    /// Whether cross-memory attach may be used where it works (usually yes).
    pub fn cma(self, cma: bool) -> ShmOptions {
        ShmOptions { cma, ..self }
    }

    /// Whether senders that have nothing else to do put large messages into the ring in place of
    /// cross-memory attach; `None`: where it is found to be faster.
    pub fn feeds(self, feeds: Option<bool>) -> ShmOptions {
        ShmOptions { feeds, ..self }
    }

    /// From how many bytes on a message should be announced; at most [`EAGER_MAX`] + 1.
    pub fn announce_from(self, bytes: usize) -> ShmOptions {
        ShmOptions { announce_from: Some(bytes.min(EAGER_MAX + 1)), ..self }
    }
}

/// An event that is not in a ring.
enum Queued {
    Done(OpId),
    Failed(OpId, Error),
    Dead(PeerId, Error),
}

/// The event that is being looked at. It is plain numbers, because it changes with every message;
/// `at` is a place in `peers`.
#[derive(Clone, Copy)]
enum Current {
    None,
    /// The current item of the peer's ring.
    Message {
        at: usize,
    },
    /// The current item of the peer's ring as well.
    Datagram {
        at: usize,
    },
    /// The current item of the peer's ring, too.
    Announced {
        at: usize,
        len: u64,
        ticket: Ticket,
    },
    /// The one in `current_queued`.
    Queued,
}

/// What was done so far.
#[derive(Default)]
struct Count {
    sent: u64,
    /// Of messages, also of those that are only announced or reserved.
    sent_bytes: u64,
    /// Of messages that came whole.
    received_bytes: u64,
    /// Of connections that have ended.
    lent: u64,
    received: u64,
    announced: u64,
    pulled: u64,
    /// Of these messages, whoever has copied them.
    pulled_bytes: u64,
    attach_bytes: u64,
    region_bytes: u64,
    ring_bytes: u64,
    helped_bytes: u64,
    datagrams_sent: u64,
    datagrams_received: u64,
    full: u64,
    held: u64,
    holds: u64,
    woken: u64,
    refused: u64,
    dead: u64,
}

/// Processes of one node, by shared memory.
pub struct Shm {
    me: Address,
    key: JobKey,
    port: Port,
    options: ShmOptions,
    /// A word that peers read to try cross-memory attach.
    probe: Box<u64>,
    bell: Arc<OwnBell>,
    regions: Arc<Regions>,
    /// Port, guests, calls and connections.
    sockets: Epoll,
    next_token: u64,
    /// Tokens of sockets with news; kept to be used again.
    ready: Vec<u64>,
    spare: Option<OwnedFd>,
    /// From peer number to place in `peers`; `u32::MAX` for a peer that is not ours.
    route: Vec<u32>,
    peers: Vec<Peer>,
    guests: Vec<Guest>,
    strangers: Vec<Stranger>,
    /// Boards that were made here.
    lent: Vec<board::Lent>,
    queued: VecDeque<Queued>,
    current: Current,
    current_queued: Option<Queued>,
    /// Pulls that only this process works on, the first one first.
    pulls: VecDeque<Pull>,
    /// How fast cross-memory attach has copied long ones.
    attach_pace: Pace,
    /// Whether they go through the ring instead.
    feeding: choice::Choice,
    /// See `BOTH_WAYS_PULLS`.
    both_ways: u32,
    /// Pulls whose pieces come through the ring, by number.
    asked: Vec<Option<Pull>>,
    streams: VecDeque<Stream>,
    /// Messages of this process that it helps to copy.
    helps: VecDeque<Help>,
    /// How many processes of the node can compute at a time.
    processors: usize,
    /// Connections with control items that found no room yet.
    backlogs: usize,
    /// The place in `peers` on whose ring something is reserved.
    reserved: usize,
    cursor: usize,
    hot: [usize; poll::HOT],
    polls: u32,
    /// Look at all rings once.
    sweep: bool,
    /// Have callers noted from this sweep on.
    note: bool,
    /// All rings were found empty since callers are noted: only theirs are looked at.
    quiet: bool,
    /// The callers whose rings have not been found empty since, by their bits.
    due: u64,
    /// The bit of each peer.
    callers: Vec<u64>,
    /// How the bell is armed, and whether all rings were empty then.
    armed: Option<(Sleep, bool)>,
    closing: bool,
    /// The one above reads all of each payload.
    reads_all: bool,
    now_ns: u64,
    next_look_ns: u64,
    looked_ns: u64,
    changed: bool,
    count: Count,
}

impl Shm {
    /// The device of the process at `me`, which holds `port`.
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors or memory are short.
    pub fn new(port: Port, me: Address, key: JobKey, options: ShmOptions) -> Result<Shm, Error> {
        let os = |e: std::io::Error| Error::system("opening the shm device", &e);
        let sockets = Epoll::new().map_err(os)?;
        sockets.add(port.as_fd(), connect::PORT_TOKEN).map_err(os)?;
        let mut probe = [0; 8];
        cpu::random(&mut probe).map_err(os)?;
        Ok(Shm {
            me,
            key,
            port,
            options,
            probe: Box::new(u64::from_ne_bytes(probe)),
            bell: Arc::new(OwnBell::new()?),
            regions: Arc::default(),
            sockets,
            next_token: connect::PORT_TOKEN,
            ready: Vec::new(),
            spare: connect::spare(),
            route: Vec::new(),
            peers: Vec::new(),
            guests: Vec::new(),
            strangers: Vec::new(),
            lent: Vec::new(),
            queued: VecDeque::new(),
            current: Current::None,
            current_queued: None,
            pulls: VecDeque::new(),
            attach_pace: Pace::default(),
            feeding: choice::Choice::default(),
            both_ways: 0,
            asked: Vec::new(),
            streams: VecDeque::new(),
            helps: VecDeque::new(),
            processors: cpu::shared(),
            backlogs: 0,
            reserved: usize::MAX,
            cursor: 0,
            hot: [usize::MAX; poll::HOT],
            polls: 0,
            sweep: false,
            note: false,
            quiet: false,
            due: 0,
            callers: Vec::new(),
            armed: None,
            closing: false,
            reads_all: false,
            now_ns: 0,
            next_look_ns: 0,
            looked_ns: 0,
            changed: false,
            count: Count::default(),
        })
    }

    /// Where memory for messages can be allocated that peers of the node copy from directly.
    pub fn regions(&self) -> Arc<Regions> {
        self.regions.clone()
    }

    /// The port that this process holds.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Where the current event lies.
    #[inline]
    fn ends(&self, at: usize) -> &weft_ring::Duplex {
        let line = self.peers[at].line.as_ref();
        &line.expect("an event's connection stays till the next poll").ends
    }

    /// Who sent the current event, and its envelope.
    #[inline]
    fn arrived(&self, at: usize) -> (PeerId, Envelope) {
        let item = self.ends(at).current().expect("an event's item stays till the next poll");
        (self.peers[at].id, item::envelope(item.head))
    }

    fn place(&mut self, peer: PeerId, address: &Address) -> usize {
        if self.route.len() <= peer.index() {
            self.route.resize(peer.index() + 1, u32::MAX);
        }
        let at = self.peers.len();
        self.route[peer.index()] = at as u32;
        self.peers.push(Peer::new(peer, address));
        self.callers.push(Bell::bit(address.port));
        at
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        // Nobody writes memory that its owner has back. A sender that was stopped in the midst of a
        // piece is waited for.
        for pull in &mut self.pulls {
            pull.part(&self.peers, Duration::MAX);
        }
    }
}

impl Device for Shm {
    fn name(&self) -> &'static str {
        "shm"
    }

    #[inline]
    fn caps(&self, peer: PeerId) -> Caps {
        let eager_max = self.eager_max(peer);
        let announce_from = self.options.announce_from.unwrap_or(eager_max + 1);
        Caps { eager_max, announce_from, free_poll: true }
    }

    fn copy_pace(&self, peer: PeerId) -> Option<Pace> {
        let line = self.peers[self.at(peer)?].line.as_ref()?;
        line.cma.then_some(self.attach_pace)
    }

    fn address(&self, peer: PeerId) -> Option<&Address> {
        Some(&self.peers[self.at(peer)?].address)
    }

    fn reaches(&self, address: &Address) -> bool {
        address.node == self.me.node && address.port != 0 && address.port != self.me.port
    }

    fn associate(&mut self, peer: PeerId, address: &Address) -> Result<(), Error> {
        if !self.reaches(address) {
            let why = if address.node == self.me.node {
                "shm reaches other processes, not the process itself"
            } else {
                "it is on another node, and shm reaches only processes of this one"
            };
            return Err(Error::unreachable(peer, address, why));
        }
        if self.at(peer).is_some_and(|at| self.peers[at].address == *address) {
            return Ok(());
        }
        let at = self.place(peer, address);
        let known =
            |s: &Stranger| (s.address.port, s.address.nonce) == (address.port, address.nonce);
        if let Some(found) = self.strangers.iter().position(known) {
            let line = self.strangers.swap_remove(found).line;
            self.open(at, line);
        } else {
            let lower = self.me.port < address.port;
            let after_ns = if lower { CALL_AFTER_NS } else { CALL_LATER_NS };
            let retry_ns = weft_sys::clock::now_ns() + after_ns;
            self.peers[at].state = State::Idle { retry_ns, wanted: false };
        }
        Ok(())
    }

    fn stranger(&mut self) -> Option<Address> {
        // The last, so that one which is not associated does not hide those that come after it.
        self.strangers.last().map(|s| s.address)
    }

    #[inline]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<(), SendError> {
        self.reserve_in(peer, len)
    }

    #[inline]
    fn space(&mut self) -> &mut [u8] {
        self.reserved_line().ends.space()
    }

    #[inline]
    fn fill(&mut self, at: usize, from: &Buf) {
        self.reserved_line().fill(|copier, space| _ = copier.read(from, 0, &mut space[at..]));
    }

    #[inline]
    fn commit(&mut self, envelope: &Envelope) {
        self.commit_in(item::MESSAGE, envelope);
    }

    fn commit_awaited(&mut self, envelope: &Envelope, op: OpId) {
        self.peers[self.reserved].awaited.push_back(op);
        self.commit_in(item::AWAITED, envelope);
    }

    #[inline]
    fn send(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> Result<(), SendError> {
        self.send_in(peer, envelope, payload)
    }

    fn announce(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<(), SendError> {
        self.announce_in(peer, envelope, payload, op)
    }

    fn pull(&mut self, peer: PeerId, ticket: Ticket, into: Buf, op: OpId) {
        self.pull_in(peer, ticket, into, op);
    }

    fn withdraw(&mut self, peer: PeerId, op: OpId) -> bool {
        self.withdraw_in(peer, op)
    }

    fn expel(&mut self, peer: PeerId, why: &'static str) {
        if let Some(at) = self.at(peer) {
            self.bury(at, why);
        }
    }

    fn hold(&mut self, peer: PeerId, hold: bool) {
        let Some(at) = self.at(peer) else { return };
        let peer = &mut self.peers[at];
        peer.hold = hold;
        self.count.holds += u64::from(hold);
        if let Some(line) = &peer.line {
            line.inbox.hold(hold);
            // It may sleep until it can send again.
            line.ring();
        }
    }

    fn reads_all(&mut self) {
        self.reads_all = true;
        let lines = self.peers.iter_mut().filter_map(|peer| peer.line.as_mut());
        let strangers = self.strangers.iter_mut().map(|stranger| &mut stranger.line);
        lines.chain(strangers).for_each(|line| inbox::serve_reader(&mut line.ends));
    }

    fn datagram_max(&self) -> usize {
        EAGER_MAX
    }

    #[inline]
    fn datagram(&mut self, peer: PeerId, bytes: &[u8]) -> bool {
        self.datagram_in(peer, bytes).is_ok()
    }

    fn lend_board(&mut self, group: u64, peers: &[PeerId]) -> Result<Board, Error> {
        self.lend(group, peers)
    }

    fn lend_board_again(&mut self, group: u64, peer: PeerId) -> bool {
        self.lend_again(group, peer)
    }

    fn take_board(&mut self, peer: PeerId, group: u64) -> Option<Board> {
        self.take_lent(peer, group)
    }

    fn drop_board(&mut self, group: u64) {
        self.drop_lent(group);
    }

    fn show(&mut self, peer: PeerId, addr: usize, len: usize) -> bool {
        self.at(peer).is_some_and(|at| self.show_region(at, addr, len) != 0)
    }

    fn view(&mut self, peer: PeerId, addr: usize, len: usize) -> Option<(Arc<ReadOnly>, usize)> {
        let at = self.at(peer)?;
        let line = self.peers[at].line.as_mut()?;
        let (region, from) = pull::view(line, &self.sockets, addr as u64, len as u64)?;
        Some((region.memory.clone(), from))
    }

    fn reach(&mut self, peer: PeerId, addr: usize, len: usize) -> Option<(Arc<Mapping>, usize)> {
        let at = self.at(peer)?;
        let line = self.peers[at].line.as_mut()?;
        let (region, from) = pull::view(line, &self.sockets, addr as u64, len as u64)?;
        Some((region.open.clone()?, from))
    }

    fn copy_in(&mut self, peer: PeerId, addr: u64, into: &Buf) -> bool {
        self.copy_alone((peer, false), into.len(), |pid, at, len| {
            cma::read(pid, &[(addr, into.len() as u64)], at as u64, into, at, len)
        })
    }

    fn copy_out(&mut self, peer: PeerId, addr: u64, from: &Buf) -> bool {
        self.copy_alone((peer, true), from.len(), |pid, at, len| {
            cma::write(pid, &[(addr, from.len() as u64)], at as u64, from, at, len)
        })
    }

    #[inline]
    fn ring(&mut self, peers: &[PeerId]) -> bool {
        self.ring_all(peers)
    }

    #[inline]
    fn poll(&mut self, now_ns: u64) -> bool {
        self.poll_in(now_ns, &mut poll::Nobody) != Found::Nothing
    }

    #[inline]
    fn poll_for(&mut self, now_ns: u64, taker: &mut dyn Taker) -> Found {
        self.poll_in(now_ns, taker)
    }

    #[inline]
    fn has_more(&self) -> bool {
        matches!(self.current, Current::Message { at } if self.ends(at).has_more())
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        match self.current {
            Current::Message { at } => self.ends(at).payload(),
            _ => panic!("the current event is a message"),
        }
    }

    #[inline]
    fn event(&self) -> Event<'_> {
        match self.current {
            Current::Message { at } => {
                let (peer, envelope) = self.arrived(at);
                let payload = self.ends(at).payload();
                Event::Message { peer, envelope, payload }
            }
            Current::Announced { at, len, ticket } => {
                let (peer, envelope) = self.arrived(at);
                Event::Announced { peer, envelope, len, ticket }
            }
            Current::Datagram { at } => {
                let ends = self.ends(at);
                Event::Datagram { peer: self.peers[at].id, bytes: ends.payload() }
            }
            Current::Queued => match &self.current_queued {
                Some(Queued::Done(op)) => Event::Done { op: *op },
                Some(Queued::Failed(op, error)) => Event::Failed { op: *op, error: error.clone() },
                Some(Queued::Dead(peer, error)) => {
                    Event::Dead { peer: *peer, error: error.clone() }
                }
                None => unreachable!("set together with `current`"),
            },
            Current::None => panic!("the last poll found no event"),
        }
    }

    fn turned(&mut self) {
        // Where callers are noted, that is enough; from now on they are.
        if !self.quiet {
            self.sweep = true;
            self.note = true;
        }
        self.look_rarely();
    }

    fn flush(&mut self, _now_ns: u64) {}

    fn busy(&self) -> bool {
        let waits = |p: &Peer| {
            let backlog = p.line.as_ref().is_some_and(|l| !l.backlog.is_empty());
            backlog || p.line.is_some() && !p.offers.is_empty()
        };
        !self.streams.is_empty() || !self.pulls.is_empty() || self.peers.iter().any(waits)
    }

    fn close(&mut self, _now_ns: u64) {
        self.close_in();
    }

    fn deadline_ns(&self) -> Option<u64> {
        if self.closing {
            return None;
        }
        let retry = |p: &Peer| match p.state {
            State::Idle { retry_ns, wanted } if wanted || retry_ns != 0 => Some(retry_ns),
            _ => None,
        };
        self.peers.iter().filter_map(retry).min()
    }

    fn arm(&mut self, wake: Wake) -> bool {
        self.arm_in(wake)
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        Some(self.bell.clone())
    }

    fn watch(&self, each: &mut dyn FnMut(RawFd)) {
        each(self.sockets.as_fd().as_raw_fd());
    }

    fn watch_generation(&self) -> u64 {
        0
    }

    fn counters(&self) -> Counters {
        let c = &self.count;
        let lines = self.peers.iter().filter_map(|peer| peer.line.as_ref());
        let lent = lines.fold(c.lent, |lent, line| lent + line.ends.lent());
        [
            ("sent", c.sent),
            ("sent_bytes", c.sent_bytes),
            ("received_bytes", c.received_bytes),
            ("lent", lent),
            ("received", c.received),
            ("announced", c.announced),
            ("pulled", c.pulled),
            ("pulled_bytes", c.pulled_bytes),
            ("attach_bytes", c.attach_bytes),
            ("region_bytes", c.region_bytes),
            ("ring_bytes", c.ring_bytes),
            ("helped_bytes", c.helped_bytes),
            ("datagrams_sent", c.datagrams_sent),
            ("datagrams_received", c.datagrams_received),
            ("full", c.full),
            ("held", c.held),
            ("holds", c.holds),
            ("woken", c.woken),
            ("refused", c.refused),
            ("dead", c.dead),
        ]
        .map(|(name, value)| (format!("shm.{name}"), value))
        .into()
    }
}
