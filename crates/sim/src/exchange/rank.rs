//! A rank: its processor, its link, its memory, and where it is in its rounds.

use std::collections::{HashMap, VecDeque};

use weft_collective::exchange::{Exchange, Memory, Round, Span};

use super::content::Content;
use crate::queue::Ns;

/// A message that has come, and waits for the round that takes it.
#[derive(Debug)]
pub(super) enum Arrived {
    Whole(Vec<u8>),
    Announced { len: usize },
}

impl Arrived {
    pub(super) fn len(&self) -> usize {
        match self {
            Arrived::Whole(bytes) => bytes.len(),
            Arrived::Announced { len } => *len,
        }
    }
}

/// See the module's page.
pub(super) struct Rank {
    exchange: Exchange,
    pub(super) memory: Memory,
    /// The round that it is in, from 0 on.
    pub(super) at: u32,
    /// That round's first act is done, and its message on its way.
    pub(super) begun: bool,
    /// Its message was sent, so that the memory may be changed.
    pub(super) sent: bool,
    /// The message that it waits for was asked for, and has come.
    pub(super) fetching: bool,
    pub(super) received: bool,
    /// What has come and was not taken, by its sender.
    pub(super) waiting: HashMap<u32, VecDeque<Arrived>>,
    /// When the last frame to each other rank arrives.
    pub(super) last_to: HashMap<u32, Ns>,
    started_at: Option<Ns>,
    ended_at: Ns,
    /// The processor is busy, and the link, until then.
    busy_until: Ns,
    link_until: Ns,
}

impl Rank {
    pub(super) fn new(exchange: Exchange, content: &Content) -> Rank {
        Rank {
            memory: content.memory(&exchange),
            exchange,
            at: 0,
            begun: false,
            sent: false,
            fetching: false,
            received: false,
            waiting: HashMap::new(),
            last_to: HashMap::new(),
            started_at: None,
            ended_at: 0,
            busy_until: 0,
            link_until: 0,
        }
    }

    pub(super) fn start(&mut self, now: Ns) {
        (self.started_at, self.ended_at) = (Some(now), now);
    }

    pub(super) fn has_started(&self) -> bool {
        self.started_at.is_some()
    }

    /// The round that it is in; `None`: it is through.
    pub(super) fn round(&self) -> Option<Round> {
        self.exchange.round(self.at)
    }

    pub(super) fn next_round(&mut self, now: Ns) {
        (self.at, self.begun) = (self.at + 1, false);
        self.ended_at = now.max(self.busy_until);
    }

    /// What it sends in this round.
    pub(super) fn span_sent(&self) -> Span {
        let message = self.round().and_then(|round| round.send);
        message.expect("a message belongs to the round that sends it").span
    }

    /// The next message of that sender.
    pub(super) fn next_from(&mut self, from: u32) -> Option<Arrived> {
        self.waiting.get_mut(&from)?.pop_front()
    }

    /// The message that it waits for is there.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        let message = self.round().and_then(|round| round.receive);
        let span = message.expect("a message belongs to the round that takes it").span;
        self.memory.write(span, bytes);
        (self.fetching, self.received) = (false, true);
    }

    /// The processor has something to do.
    pub(super) fn work(&mut self, now: Ns, takes: Ns) {
        self.busy_until = self.busy_until.max(now) + takes;
    }

    /// Sends a frame; gives when its first byte leaves.
    pub(super) fn send(&mut self, now: Ns, o_s: Ns, gap: Ns) -> Ns {
        self.work(now, o_s);
        let leaves = self.busy_until.max(self.link_until);
        self.link_until = leaves + gap;
        leaves
    }

    pub(super) fn ended_at(&self) -> Ns {
        self.ended_at
    }

    pub(super) fn took(&self) -> Ns {
        self.ended_at - self.started_at.unwrap_or(self.ended_at)
    }
}
