//! The checker: knows every message that was sent, and says at once when an engine does what no
//! reliable message service may do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_wire::Envelope;

use super::content::Content;
use super::cover::Cover;
use super::trace::{Act, Trace};
use super::wrong::Wrong;
use crate::queue::Ns;

/// A message that has been sent and not delivered.
#[derive(Debug)]
struct Sent {
    len: u64,
    announced: bool,
    withdrawn: bool,
}

/// A large message between its announcement and the end of both sides' operations.
#[derive(Debug, Default)]
struct Offer {
    withdrawn: bool,
    /// What the receiver asked for, and what has come of it.
    pull: Option<(u64, Cover)>,
    receiver_ended: bool,
    sender_ended: bool,
}

/// One direction between two processes.
#[derive(Debug, Default)]
struct Pair {
    sent: VecDeque<Sent>,
    /// The number of the first message in `sent`.
    base: u64,
    offers: BTreeMap<u64, Offer>,
    /// Eager bytes and messages that were accepted and are not delivered.
    pending_bytes: u64,
    /// When the receiver last heard the sender.
    heard: Ns,
}

/// A process, alive or not.
#[derive(Clone, Debug, Default)]
struct Process {
    started: Ns,
    killed: bool,
    closed: bool,
    /// Processes that this one has reported dead.
    buried: Vec<u32>,
}

/// What has been checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Messages that arrived whole.
    pub messages: u64,
    /// Large messages that were pulled.
    pub pulls: u64,
    /// Payload bytes of both.
    pub bytes: u64,
    /// Pieces of large messages that overlapped others.
    pub overlapping: u64,
    /// Messages whose senders were told of their arrival.
    pub told: u64,
    /// Announcements taken back.
    pub withdrawn: u64,
    /// Operations that ended in an error, rightly.
    pub failed: u64,
    /// Deaths reported, rightly.
    pub deaths: u64,
}

/// Knows what must happen.
#[derive(Debug)]
pub struct Oracle {
    pairs: BTreeMap<(u32, u32), Pair>,
    /// Messages whose sender waits to be told that they have arrived: from, to, number.
    awaited: BTreeSet<(u32, u32, u64)>,
    processes: Vec<Process>,
    limit_ns: Ns,
    /// The most eager bytes to one peer that may be accepted and not delivered.
    pending_max: u64,
    /// The first thing that was wrong.
    pub wrong: Option<(Ns, u32, Wrong)>,
    /// What happened last.
    pub trace: Trace,
    /// What has been checked.
    pub tally: Tally,
}

impl Oracle {
    /// An oracle for engines that take a peer for dead after `limit_ns` of silence, and that hold
    /// at most `pending_max` bytes for one peer.
    pub fn new(limit_ns: Ns, pending_max: u64, trace: Trace) -> Oracle {
        Oracle {
            pairs: BTreeMap::new(),
            awaited: BTreeSet::new(),
            processes: Vec::new(),
            limit_ns,
            pending_max,
            wrong: None,
            trace,
            tally: Tally::default(),
        }
    }

    /// A new process; gives its number.
    pub fn start(&mut self, now: Ns, machine: u32) -> u32 {
        self.processes.push(Process { started: now, ..Process::default() });
        let process = (self.processes.len() - 1) as u32;
        self.trace.note(now, process, Act::Start { machine });
        process
    }

    /// How many processes there have been.
    pub fn processes(&self) -> u32 {
        self.processes.len() as u32
    }

    /// A process was killed.
    pub fn killed(&mut self, process: u32) {
        self.processes[process as usize].killed = true;
    }

    /// A process says goodbye.
    pub fn closed(&mut self, process: u32) {
        self.processes[process as usize].closed = true;
    }

    /// Notes the first violation; the run ends at it.
    pub fn report(&mut self, now: Ns, who: u32, wrong: Wrong) {
        self.wrong.get_or_insert((now, who, wrong));
    }

    fn check(&mut self, now: Ns, who: u32, good: bool, wrong: impl FnOnce() -> Wrong) -> bool {
        if !good {
            self.report(now, who, wrong());
        }
        good
    }

    /// The number and content of the next message from one process to another.
    pub fn next_message(&self, from: u32, to: u32) -> (u64, Content) {
        let n = self.pairs.get(&(from, to)).map_or(0, |p| p.base + p.sent.len() as u64);
        (n, Content::new(from, to, n))
    }

    /// An engine has accepted the next message.
    pub fn sent(&mut self, now: Ns, from: u32, to: u32, len: u64, announced: bool) {
        let starts = self.processes[from as usize].started.max(self.processes[to as usize].started);
        for pair in [(from, to), (to, from)] {
            let other_was_used = self.pairs.contains_key(&pair);
            let p = self.pairs.entry(pair).or_default();
            if !other_was_used {
                p.heard = now.max(starts);
            }
        }
        let p = self.pairs.entry((from, to)).or_default();
        let n = p.base + p.sent.len() as u64;
        p.sent.push_back(Sent { len, announced, withdrawn: false });
        if announced {
            p.offers.insert(n, Offer::default());
            self.trace.note(now, from, Act::Announce { to, n, len });
        } else {
            p.pending_bytes += len;
            let pending = p.pending_bytes;
            self.trace.note(now, from, Act::Send { to, n, len });
            let max = self.pending_max;
            self.check(now, from, pending <= max + len, || Wrong::Memory { to, pending, max });
        }
    }

    /// A frame of `from` has been accepted by `at`.
    pub fn heard(&mut self, now: Ns, at: u32, from: u32) {
        if let Some(p) = self.pairs.get_mut(&(from, at)) {
            p.heard = now;
        }
    }

    /// Common to both sorts of arrival: the order, and what the envelope says.
    fn arrived(&mut self, now: Ns, at: u32, from: u32, envelope: &Envelope) -> Option<Sent> {
        let n = envelope.data;
        let buried = self.processes[at as usize].buried.contains(&from);
        self.check(now, at, !buried, || Wrong::AfterDeath { from });
        let Some(p) = self.pairs.get_mut(&(from, at)) else {
            self.report(now, at, Wrong::NeverSent { from, n });
            return None;
        };
        while p.base < n && p.sent.front().is_some_and(|s| s.withdrawn) {
            p.sent.pop_front();
            p.base += 1;
        }
        let (base, end) = (p.base, p.base + p.sent.len() as u64);
        let wrong = if Content::new(from, at, n).envelope(n) != *envelope {
            Wrong::Envelope { from, n }
        } else if n < base {
            Wrong::Twice { from, n }
        } else if n >= end {
            Wrong::NeverSent { from, n }
        } else if n > base {
            Wrong::Order { from, n, expected: base }
        } else {
            p.base += 1;
            return p.sent.pop_front();
        };
        self.report(now, at, wrong);
        None
    }

    /// A whole message has come.
    pub fn message(&mut self, now: Ns, at: u32, from: u32, envelope: &Envelope, payload: &[u8]) {
        let n = envelope.data;
        self.trace.note(now, at, Act::Message { from, n, len: payload.len() as u64 });
        let Some(sent) = self.arrived(now, at, from, envelope) else { return };
        let good = !sent.announced && sent.len == payload.len() as u64;
        self.check(now, at, good, || Wrong::Length { from, n, len: payload.len() as u64 });
        let same = Content::new(from, at, n).is(0, payload);
        self.check(now, at, same, || Wrong::Content { from, n, offset: 0 });
        if let Some(p) = self.pairs.get_mut(&(from, at)) {
            p.pending_bytes -= sent.len;
        }
        self.tally.messages += 1;
        self.tally.bytes += payload.len() as u64;
    }

    /// An announcement has come.
    pub fn announced(&mut self, now: Ns, at: u32, from: u32, envelope: &Envelope, len: u64) {
        let n = envelope.data;
        self.trace.note(now, at, Act::Announced { from, n, len });
        let Some(sent) = self.arrived(now, at, from, envelope) else { return };
        let good = sent.announced && sent.len == len;
        self.check(now, at, good, || Wrong::Length { from, n, len });
    }

    /// The receiver asks for `len` bytes of an announced message.
    pub fn pull(&mut self, now: Ns, at: u32, from: u32, n: u64, len: u64) {
        self.trace.note(now, at, Act::Pull { from, n, len });
        if let Some(offer) = self.offer(from, at, n) {
            offer.pull = Some((len, Cover::default()));
        }
    }

    fn offer(&mut self, from: u32, to: u32, n: u64) -> Option<&mut Offer> {
        self.pairs.get_mut(&(from, to))?.offers.get_mut(&n)
    }

    /// A piece of a pulled message has come.
    pub fn data(&mut self, now: Ns, at: u32, from: u32, n: u64, offset: u64, bytes: &[u8]) {
        let buried = self.processes[at as usize].buried.contains(&from);
        self.check(now, at, !buried, || Wrong::AfterDeath { from });
        let end = offset + bytes.len() as u64;
        let Some(Offer { pull: Some((len, cover)), receiver_ended: false, .. }) =
            self.offer(from, at, n)
        else {
            self.report(now, at, Wrong::NotAsked { from, n, offset });
            return;
        };
        // Pieces may overlap, with the same bytes: one that is sent again may be cut differently.
        let (inside, fresh) = (end <= *len, cover.add(offset, end));
        self.tally.overlapping += u64::from(!fresh);
        self.check(now, at, inside, || Wrong::NotAsked { from, n, offset });
        let same = Content::new(from, at, n).is(offset, bytes);
        self.check(now, at, same, || Wrong::Content { from, n, offset });
        self.tally.bytes += bytes.len() as u64;
    }

    /// The receiver's operation has ended well.
    pub fn pulled(&mut self, now: Ns, at: u32, from: u32, n: u64) {
        self.trace.note(now, at, Act::Pulled { from, n });
        let whole = match self.offer(from, at, n) {
            Some(Offer { pull: Some((len, cover)), receiver_ended: ended @ false, .. }) => {
                *ended = true;
                cover.is_all(*len)
            }
            _ => false,
        };
        self.check(now, at, whole, || Wrong::Hole { from, n });
        self.tally.pulls += 1;
        self.forget(from, at, n);
    }

    /// The sender's operation has ended well.
    pub fn taken(&mut self, now: Ns, at: u32, by: u32, n: u64) {
        self.trace.note(now, at, Act::Taken { by, n });
        let good = match self.offer(at, by, n) {
            Some(Offer { pull: Some((len, cover)), sender_ended: ended @ false, .. }) => {
                *ended = true;
                cover.is_all(*len)
            }
            // Forgotten: the receiver has ended, in an error perhaps, which it may if one is dead.
            _ => false,
        };
        self.check(now, at, good, || Wrong::TooEarly { to: by, n });
        self.forget(at, by, n);
    }

    /// The sender of the next message wants to be told when that has arrived.
    pub fn awaits(&mut self, now: Ns, from: u32, to: u32, n: u64) {
        self.trace.note(now, from, Act::Await { to, n });
        self.awaited.insert((from, to, n));
    }

    /// The sender was told that a message has arrived.
    pub fn known_there(&mut self, now: Ns, from: u32, to: u32, n: u64) {
        self.trace.note(now, from, Act::There { to, n });
        let there = self.pairs.get(&(from, to)).is_some_and(|p| n < p.base);
        let good = self.awaited.remove(&(from, to, n)) && there;
        self.check(now, from, good, || Wrong::NotThere { to, n });
        self.tally.told += 1;
    }

    /// The sender was told that nobody will know whether a message has arrived.
    pub fn wait_failed(&mut self, now: Ns, from: u32, to: u32, n: u64) {
        self.trace.note(now, from, Act::WaitFailed { to, n });
        let gone = self.may_bury(now, from, to);
        let good = self.awaited.remove(&(from, to, n)) && gone;
        self.check(now, from, good, || Wrong::FalseFailure { peer: to, n });
        self.tally.failed += 1;
    }

    /// The sender asked for an announcement back.
    pub fn withdrew(&mut self, now: Ns, from: u32, to: u32, n: u64, back: bool) {
        self.trace.note(now, from, Act::Withdraw { to, n, back });
        if !back {
            return;
        }
        self.tally.withdrawn += 1;
        let Some(p) = self.pairs.get_mut(&(from, to)) else { return };
        if let Some(i) = n.checked_sub(p.base)
            && let Some(sent) = p.sent.get_mut(i as usize)
        {
            sent.withdrawn = true;
        }
        if let Some(offer) = p.offers.get_mut(&n) {
            offer.withdrawn = true;
            offer.sender_ended = true;
        }
    }

    /// A pull has ended in an error: right if the message was taken back or one side is gone.
    pub fn pull_failed(&mut self, now: Ns, at: u32, from: u32, n: u64) {
        self.trace.note(now, at, Act::PullFailed { from, n });
        let gone = self.may_bury(now, at, from);
        let good = match self.offer(from, at, n) {
            Some(offer) if !offer.receiver_ended => {
                offer.receiver_ended = true;
                offer.withdrawn || gone
            }
            _ => false,
        };
        self.check(now, at, good, || Wrong::FalseFailure { peer: from, n });
        self.tally.failed += 1;
    }

    /// An announced message has ended in an error at its sender.
    pub fn announce_failed(&mut self, now: Ns, at: u32, to: u32, n: u64) {
        self.trace.note(now, at, Act::AnnounceFailed { to, n });
        let gone = self.may_bury(now, at, to);
        let good = match self.offer(at, to, n) {
            Some(offer) if !offer.sender_ended => {
                offer.sender_ended = true;
                gone
            }
            _ => false,
        };
        self.check(now, at, good, || Wrong::FalseFailure { peer: to, n });
        self.tally.failed += 1;
    }

    /// Forgets an offer that both sides have ended.
    fn forget(&mut self, from: u32, to: u32, n: u64) {
        if let Some(p) = self.pairs.get_mut(&(from, to))
            && p.offers.get(&n).is_some_and(|o| o.sender_ended && o.receiver_ended)
        {
            p.offers.remove(&n);
        }
    }

    /// Whether `at` may take `peer` for dead: it is gone, it has given `at` up itself, or one of
    /// the two has heard nothing from the other for as long as the limit.
    fn may_bury(&self, now: Ns, at: u32, peer: u32) -> bool {
        let p = &self.processes[peer as usize];
        if p.killed || p.closed || p.buried.contains(&at) {
            return true;
        }
        if self.processes[at as usize].closed {
            return true;
        }
        [(peer, at), (at, peer)].iter().any(|pair| {
            self.pairs.get(pair).is_some_and(|p| now.saturating_sub(p.heard) >= self.limit_ns)
        })
    }

    /// `at` reports that `peer` is dead, with `open` operations of it not ended.
    pub fn dead(&mut self, now: Ns, at: u32, peer: u32, open: usize) {
        self.trace.note(now, at, Act::Dead { peer });
        let silent = self.pairs.get(&(peer, at)).map_or(0, |p| now.saturating_sub(p.heard));
        let right = self.may_bury(now, at, peer);
        self.check(now, at, right, || Wrong::FalseDeath { peer, silent });
        self.check(now, at, open == 0, || Wrong::LeftOpen { peer, open });
        let first = !self.processes[at as usize].buried.contains(&peer);
        self.check(now, at, first, || Wrong::AfterDeath { from: peer });
        self.processes[at as usize].buried.push(peer);
        self.tally.deaths += 1;
    }

    /// Whether two processes still owe each other anything.
    fn bound(&self, a: u32, b: u32) -> bool {
        let gone = |x: u32, y: u32| {
            let p = &self.processes[x as usize];
            p.killed || p.buried.contains(&y)
        };
        !gone(a, b) && !gone(b, a)
    }

    /// The first thing that has not happened though it must, once faults are over; `None` when all
    /// is delivered and every operation has ended.
    pub fn unfinished(&self) -> Option<Wrong> {
        for (&(from, to), p) in &self.pairs {
            if !self.bound(from, to) {
                // A death that concerns a living process is told to it.
                let (other, told) = (&self.processes[from as usize], &self.processes[to as usize]);
                let owed = (other.killed || other.buried.contains(&to))
                    && !(told.killed || told.closed || told.buried.contains(&from));
                let sent = |p: &Pair| p.base + p.sent.len() as u64 > 0;
                // One who has neither sent nor got anything cannot know that the other was there.
                if owed && (p.base > 0 || self.pairs.get(&(to, from)).is_some_and(sent)) {
                    return Some(Wrong::Unnoticed { at: to, peer: from });
                }
                continue;
            }
            if self.processes[to as usize].closed {
                continue;
            }
            if let Some(i) = p.sent.iter().position(|s| !s.withdrawn) {
                let n = p.base + i as u64;
                return Some(Wrong::Lost { from, to, n, left: p.sent.len() as u64 });
            }
            if let Some(&(.., n)) = self.awaited.range((from, to, 0)..=(from, to, u64::MAX)).next()
            {
                return Some(Wrong::Untold { from, to, n });
            }
            // An announcement that was taken back ends a pull of it, but need not be pulled.
            let over = |o: &Offer| {
                (o.sender_ended && o.receiver_ended) || (o.withdrawn && o.pull.is_none())
            };
            if let Some((&n, offer)) = p.offers.iter().find(|(_, o)| !over(o)) {
                let pulled = offer.receiver_ended;
                return Some(Wrong::Stuck { from, to, n, pulled });
            }
        }
        None
    }

    /// Whether a message has passed between two processes.
    pub fn acquainted(&self, a: u32, b: u32) -> bool {
        [(a, b), (b, a)].iter().any(|pair| self.pairs.get(pair).is_some_and(|p| p.base > 0))
    }

    /// Whether `at` has reported `peer` dead.
    pub fn has_buried(&self, at: u32, peer: u32) -> bool {
        self.processes[at as usize].buried.contains(&peer)
    }
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
