//! What all peers share.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weft_wire::{Address, JobKey, Key, LastHeader, PeerId};

use crate::config::Config;
use crate::counters::Counters;
use crate::event::{Incoming, Message};
use crate::msg::buffers::Pool;
use crate::msg::pushes::Kept;
use crate::msg::transfer::{Pieces, Pull, Transfer};
use crate::peer::Lone;
use crate::rail::{Link, Ways};
use crate::reliable::Content;
use crate::route::Routes;
use crate::slab::Slab;
use crate::time::Instant;

/// Everything of the engine but the peers; a peer is given it wherever it does something.
#[derive(Debug)]
pub(crate) struct Hub {
    pub config: Config,
    pub me: Address,
    pub key: JobKey,
    pub hello_key: Key,
    /// What datagrams to everyone are sealed with.
    pub everyone_key: Key,
    /// What was last sent to everyone.
    pub last_out: LastHeader,
    pub job: u32,
    pub links: Vec<Link>,
    /// What is known of the nodes.
    pub ways: Ways,
    /// What is asked and answered of ways through other nodes.
    pub routes: Routes,
    /// How long hellos have lately taken to be answered, ns: how busy the others are.
    pub hello_ns: u64,
    /// The least MTU of any link.
    pub least_mtu: usize,
    pub counters: Counters,
    /// Peers with something to send, perhaps.
    pub ready: VecDeque<PeerId>,
    /// Deadlines of peers; entries may be out of date, never missing.
    timers: BinaryHeap<Reverse<(Instant, PeerId)>>,
    pub transfers: Slab<Transfer>,
    pub pulls: Slab<Pull>,
    /// Accounts of fragmented messages.
    pub pieces: Slab<Pieces>,
    pub pool: Pool,
    /// Rings for eager messages that no peer has just now.
    pub rings: Vec<Vec<u8>>,
    /// The tags of the groups that this process is in.
    pub groups: Vec<u16>,
    /// Who asked whether we hear what it sends to everyone, and over which of its links.
    pub heard: Vec<(PeerId, u8)>,
    /// Events for the owner.
    pub events: VecDeque<Incoming>,
    /// The message that it was told of last.
    pub message: Message,
    /// What was pushed ahead of its pull, one for each [`Incoming::Kept`] among the events.
    pub kept: VecDeque<Kept>,
    /// Peers with held messages that have their turn.
    pub drain: VecDeque<PeerId>,
    /// Contents that arrived or were lost, between path and peer; empty otherwise.
    pub acked: Vec<Content>,
    pub lost: Vec<Content>,
    /// Peers to which something is on its way.
    pub unfinished: usize,
    /// Peers that are connected.
    pub open: usize,
    /// Peers to which we are saying goodbye.
    pub leaving: usize,
    /// What was reserved: peer, place, length.
    pub reserved: Option<(PeerId, u32, usize)>,
    /// A message whose frame has been made, and that is to be recorded.
    pub lone: Option<Lone>,
    /// When nobody looked for frames.
    pub absence: Absence,
    /// Whether frames may have come that were not handed over yet.
    pub unread: bool,
    /// Peers that were called, or have called, and have not ended.
    pub met: usize,
    /// State of [`Hub::random`].
    seed: u64,
    /// The peer whose burst was given out last.
    pub last_sent: Option<PeerId>,
}

/// More than this between two looks for frames is an absence, ns: a program computes, or sleeps.
const ABSENCE_NS: u64 = 20_000;

/// Times in which nobody looks for frames. What comes meanwhile waits here, not in the network, and
/// must not count for its round trip: else a window shrinks because a program computes.
#[derive(Debug, Default)]
pub struct Absence {
    looked: Instant,
    /// Until then, what is found may have come in the last absence.
    until: Instant,
    /// How long that was, ns.
    away: u64,
}

impl Absence {
    /// Somebody looks for frames. After an absence there may be so many that it takes as long again
    /// to read them.
    #[inline]
    pub fn looks(&mut self, now: Instant) {
        let away = now.since(self.looked);
        if away > ABSENCE_NS {
            (self.until, self.away) = (now.plus(away), away);
        }
        self.looked = now;
    }

    /// All that had come has been read.
    #[inline]
    pub fn is_over(&mut self) {
        self.until = Instant(0);
    }

    /// How long before `now` what is found then may have come, ns; zero: just now.
    #[inline]
    pub fn before(&self, now: Instant) -> u64 {
        if now < self.until { self.away } else { 0 }
    }
}

impl Hub {
    pub fn new(mut config: Config, me: Address, key: JobKey, seed: u64) -> Hub {
        config.eager_max = config.eager_max.min(Config::EAGER_LIMIT);
        Hub {
            config,
            me,
            key,
            hello_key: key.hello(),
            everyone_key: key.everyone(me.nonce),
            last_out: LastHeader::default(),
            job: key.job(),
            links: Vec::new(),
            ways: Ways::default(),
            routes: Routes::default(),
            hello_ns: 0,
            least_mtu: usize::MAX,
            counters: Counters::default(),
            ready: VecDeque::new(),
            timers: BinaryHeap::new(),
            transfers: Slab::new(),
            pulls: Slab::new(),
            pieces: Slab::new(),
            pool: Pool::default(),
            rings: Vec::new(),
            groups: Vec::new(),
            heard: Vec::new(),
            events: VecDeque::new(),
            message: Message::none(),
            kept: VecDeque::new(),
            drain: VecDeque::new(),
            acked: Vec::new(),
            lost: Vec::new(),
            unfinished: 0,
            open: 0,
            leaving: 0,
            reserved: None,
            lone: None,
            absence: Absence::default(),
            unread: false,
            met: 0,
            seed: seed ^ me.nonce ^ me.node.rotate_left(32) ^ u64::from(me.port),
            last_sent: None,
        }
    }

    /// A number to spread things in time with (splitmix64).
    pub fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Whether memory of the peer's outbox is reserved and not committed.
    pub fn is_reserved(&self, peer: PeerId) -> bool {
        self.reserved.is_some_and(|(p, ..)| p == peer)
    }

    pub fn add_timer(&mut self, at: Instant, peer: PeerId) {
        self.timers.push(Reverse((at, peer)));
    }

    /// The earliest deadline, or one before it.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// A peer whose time has come.
    pub fn pop_timer(&mut self, now: Instant) -> Option<(Instant, PeerId)> {
        if self.next_timer()? > now {
            return None;
        }
        self.timers.pop().map(|Reverse(entry)| entry)
    }
}
