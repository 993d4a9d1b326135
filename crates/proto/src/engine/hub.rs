//! What all peers share.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weft_wire::{Address, JobKey, Key, PeerId};

use crate::config::Config;
use crate::counters::Counters;
use crate::event::Incoming;
use crate::msg::buffers::Pool;
use crate::msg::transfer::{Pieces, Pull, Transfer};
use crate::rail::Link;
use crate::reliable::Content;
use crate::slab::Slab;
use crate::time::Instant;

/// Everything of the engine but the peers; a peer is given it wherever it does something.
#[derive(Debug)]
pub(crate) struct Hub {
    pub config: Config,
    pub me: Address,
    pub key: JobKey,
    pub hello_key: Key,
    pub job: u32,
    pub links: Vec<Link>,
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
    /// Events for the owner.
    pub events: VecDeque<Incoming>,
    /// Peers with held messages that have their turn.
    pub drain: VecDeque<PeerId>,
    /// Contents that arrived or were lost, between path and peer; empty otherwise.
    pub acked: Vec<Content>,
    pub lost: Vec<Content>,
    /// Peers to which something is on its way.
    pub unfinished: usize,
    /// Peers to which we are saying goodbye.
    pub leaving: usize,
    /// What was reserved: peer, place, length.
    pub reserved: Option<(PeerId, u32, usize)>,
    /// The peer whose burst was given out last.
    pub last_sent: Option<PeerId>,
}

impl Hub {
    pub fn new(mut config: Config, me: Address, key: JobKey, seed: u64) -> Hub {
        config.eager_max = config.eager_max.min(Config::EAGER_LIMIT);
        // Processes that start together shall not greet in step.
        config.hello_first_ns += seed % (config.hello_first_ns / 4 + 1);
        Hub {
            config,
            me,
            key,
            hello_key: key.hello(),
            job: key.job(),
            links: Vec::new(),
            counters: Counters::default(),
            ready: VecDeque::new(),
            timers: BinaryHeap::new(),
            transfers: Slab::new(),
            pulls: Slab::new(),
            pieces: Slab::new(),
            pool: Pool::default(),
            rings: Vec::new(),
            events: VecDeque::new(),
            drain: VecDeque::new(),
            acked: Vec::new(),
            lost: Vec::new(),
            unfinished: 0,
            leaving: 0,
            reserved: None,
            last_sent: None,
        }
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
