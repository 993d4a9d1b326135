//! One peer: what is known of it, and all that is under way with it.

mod bulk;
mod end;
mod fill;
mod greeting;
mod hearing;
mod life;
mod lone;
mod settle;
mod take;

pub(crate) use greeting::Greeting;
pub(crate) use hearing::{Hearing, bit};
pub(crate) use lone::{Lone, Payload};
pub(crate) use take::{Cursor, Step};

use std::collections::VecDeque;

use weft_wire::{Address, Envelope, Key, Kind, LastHeader, PeerId};

use crate::config::Config;
use crate::engine::Hub;
use crate::event::Cause;
use crate::flow::Flow;
use crate::msg::inbox::Inbox;
use crate::msg::outbox::{Body, Outbox};
use crate::msg::pushes::Pushes;
use crate::rail::Path;
use crate::reliable::Space;
use crate::time::Instant;
use life::Life;

/// How far the acquaintance goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Known by address; no frame was exchanged.
    Idle,
    /// Hellos go out, none has come.
    Greeting,
    /// Connected.
    Open,
    /// Nothing more comes or goes, but acknowledgements after an orderly end.
    Ended(Cause),
}

/// Most links that a peer may use towards us.
pub(crate) const PATHS_MAX: usize = 32;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Peer {
    pub id: PeerId,
    pub address: Address,
    pub state: State,
    /// What the peer wants to see in the headers of our frames.
    pub index: u32,
    pub send_key: Key,
    pub receive_key: Key,
    /// What it seals with when it sends to everyone.
    pub everyone_key: Key,
    /// Of the last datagrams to it and from it.
    pub last_out: LastHeader,
    pub last_in: LastHeader,
    /// Whether it hears what we send to everyone.
    pub hearing: Hearing,
    /// By our links, in the order in which they were opened.
    pub paths: Vec<Path>,
    /// By the peer's links.
    pub spaces: Vec<Space>,
    /// How long an acknowledgement usually waits, ns.
    pub ack_ns: u64,
    pub out: Outbox,
    pub inbox: Inbox,
    pub flow: Flow,
    /// Transfers with something to send, in turn.
    pub bulk: VecDeque<u64>,
    /// Transfers of ours to it that have not ended, and how many of them are pushed.
    pub transfers: u32,
    pub pushed: u32,
    /// Announcements to go before one is pushed again, and how often pushing was in vain lately.
    pub push_wait: u32,
    pub push_misses: u32,
    /// What it pushes.
    pub pushes: Pushes,
    pub greeting: Greeting,
    pub life: Life,
    /// Whether we are saying goodbye, and whether the last word is in the outbox.
    pub leaving: bool,
    pub said_close: bool,
    /// Whether something was owed to it when the time for closing was last over.
    pub owed: bool,
    /// Whether it is in the row of peers with work.
    pub queued: bool,
    /// Whether bulk has the next turn.
    pub bulk_turn: bool,
    /// Which bulk path has the next turn.
    pub next_path: usize,
    /// The earliest entry of it in the heap of timers.
    pub timer_at: Instant,
}

/// After so many pushes in vain one announcement in two to the power of this is pushed.
const PUSH_MISSES_MAX: u32 = 6;

/// No time: later than all others.
pub(crate) const NEVER: Instant = Instant(u64::MAX);

impl Peer {
    pub fn new(id: PeerId, address: &Address, hub: &Hub) -> Peer {
        let mut inbox = Inbox::default();
        // The hello will say this.
        inbox.tell_credit(&hub.config);
        Peer {
            id,
            address: *address,
            state: State::Idle,
            index: 0,
            send_key: hub.key.connection(hub.me.nonce, address.nonce),
            receive_key: hub.key.connection(address.nonce, hub.me.nonce),
            everyone_key: hub.key.everyone(address.nonce),
            last_out: LastHeader::default(),
            last_in: LastHeader::default(),
            hearing: Hearing::default(),
            paths: Vec::new(),
            spaces: Vec::new(),
            ack_ns: hub.config.ack_delay_ns,
            out: Outbox::default(),
            inbox,
            flow: Flow::default(),
            bulk: VecDeque::new(),
            transfers: 0,
            pushed: 0,
            push_wait: 0,
            push_misses: 0,
            pushes: Pushes::default(),
            greeting: Greeting::default(),
            life: Life::default(),
            leaving: false,
            said_close: false,
            owed: false,
            queued: false,
            bulk_turn: false,
            next_path: 0,
            timer_at: NEVER,
        }
    }

    /// Puts the peer into the row of those with work.
    #[inline]
    pub fn wake(&mut self, hub: &mut Hub) {
        if !self.queued {
            self.queued = true;
            hub.ready.push_back(self.id);
        }
    }

    /// Adds something without bytes to what goes out in order.
    pub fn push(&mut self, hub: &mut Hub, envelope: &Envelope, body: Body) {
        self.add(hub, envelope, body);
        self.wake(hub);
    }

    /// The same, but there is no hurry with it: something else will wake the peer.
    pub fn add(&mut self, hub: &mut Hub, envelope: &Envelope, body: Body) {
        hub.unfinished += usize::from(self.out.is_empty());
        self.out.push(envelope, body);
    }

    /// Whether it may be told of one more message that it has to ask for.
    pub fn may_announce(&self, config: &Config, kind: Kind) -> bool {
        let kept = if kind == Kind::ANSWER { 0 } else { config.announced_answers };
        self.out.announced < config.announced_most.saturating_sub(kept)
    }

    /// How many bytes of an announced payload of `len` are sent at once, before they are pulled.
    /// None while others wait: then there is something to do until the pull comes.
    pub fn push_len(&mut self, hub: &Hub, len: u64) -> u64 {
        let may = self.state == State::Open
            && !self.flow.held
            && self.pushed < hub.config.push_most
            && self.bulk.is_empty();
        if !may {
            return 0;
        }
        if self.push_wait > 0 {
            self.push_wait -= 1;
            return 0;
        }
        len.min(hub.config.push_bytes)
    }

    /// What was pushed found no place (`in_vain`), or did. A receiver that posts its receives late
    /// is tried ever more rarely.
    pub fn learn_from_push(&mut self, in_vain: bool) {
        self.push_misses = if in_vain { (self.push_misses + 1).min(PUSH_MISSES_MAX) } else { 0 };
        self.push_wait = if in_vain { 1 << self.push_misses } else { 0 };
    }

    /// Whether something is under way that an end would disappoint.
    pub fn is_active(&self) -> bool {
        !self.out.is_empty() || self.transfers > 0
    }

    /// The next moment at which [`Peer::on_timer`] has something to do.
    fn next_deadline(&self, hub: &Hub) -> Instant {
        let sooner = |at: Instant, time: Option<Instant>| at.min(time.unwrap_or(NEVER));
        let mut at = sooner(self.life.next_at, self.greeting.next_at);
        for path in &self.paths {
            at = sooner(at, path.sender.deadline(&hub.config));
            at = sooner(at, path.pause_until);
            at = sooner(at, path.retry_at);
            at = sooner(at, path.search.again_at);
            at = sooner(at, path.rest.deadline());
            at = sooner(at, path.left_until());
        }
        self.spaces.iter().fold(at, |at, s| sooner(at, s.ack_at))
    }

    /// Makes sure that the heap of timers has an entry early enough. Entries that turn out to be
    /// too early are cheap; so nothing is done when a deadline moves away.
    #[inline]
    pub fn schedule(&mut self, hub: &mut Hub) {
        let at = self.next_deadline(hub);
        self.schedule_by(hub, Some(at));
    }

    /// The same, where only the deadline `at` may have come nearer.
    #[inline]
    pub fn schedule_by(&mut self, hub: &mut Hub, at: Option<Instant>) {
        if let Some(at) = at.filter(|at| *at < self.timer_at) {
            self.timer_at = at;
            hub.add_timer(at, self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an idle peer may take, bytes.
    const IDLE_MAX: usize = 16 * 1024;
    /// Links of a node that is well off.
    const LINKS: usize = 8;

    #[test]
    fn an_idle_peer_is_small() {
        // Queues are given back when idle (`Peer::shrink`, `Outbox::shrink`); what stays is the
        // peer, its paths with their congestion control, and the ranges of packets that came.
        let path = size_of::<Path>() + 512;
        let space = size_of::<Space>() + Space::RANGES_BYTES;
        let whole = size_of::<Peer>() + LINKS * (path + space) + 2 * 64;
        assert!(whole <= IDLE_MAX, "{whole} bytes");
        assert!(size_of::<Peer>() <= 1024, "never used: {} bytes", size_of::<Peer>());
    }
}
