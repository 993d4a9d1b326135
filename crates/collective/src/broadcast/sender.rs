//! The one who has the data.

use std::collections::VecDeque;

use super::frame::{Asked, DATA_LEN, Data, Frame, Report};
use super::{ASKED_MAX, Limits};

/// To whom a frame goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// One rank.
    One(u32),
    /// One rank, which has asked for it again and again: if it is long, by a way that does not
    /// depend on what frames the paths carry.
    Surely(u32),
    /// All others, by one multicast.
    All,
}

/// What the sender knows of a receiver.
#[derive(Clone, Debug)]
struct Peer {
    /// It takes no part: it has died, or is the sender itself.
    gone: bool,
    got: u64,
    limit: u64,
    /// When it was last asked, and how far the sender had sent then.
    asked_at: u64,
    asked_sent: u64,
    /// It has been asked and has not answered.
    owes: bool,
    /// It waits and has not heard of all that was sent.
    complains: bool,
    /// How often it was asked since it got anything.
    tries: u32,
}

/// Who misses a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Missed {
    Nobody,
    One(u32),
    Several,
}

/// What the sender keeps about a fragment of the window.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// When it last went to all.
    at: u64,
    /// That was a repair.
    again: bool,
    missed: Missed,
    /// Whom it was sent to again.
    helped: Option<u32>,
    /// How often it was sent again.
    tries: u32,
}

/// What was sent again so often goes to each that still misses it for [`To::Surely`].
const TRIES: u32 = 3;

/// Raised by 4 when two ranks miss the same fragment, lowered by 1 when one does: from here on,
/// repairs go to all at once, for the others' reports are on their way.
const CROWD: u32 = 8;

/// Its highest value.
const CROWD_MAX: u32 = 16;

/// A broadcast that not all have confirmed.
#[derive(Clone, Copy, Debug)]
struct Message {
    number: u32,
    first: u64,
    len: u64,
    /// Bytes of each fragment but the last, and how many there are.
    piece: u16,
    count: u64,
    /// Somebody waits for its end.
    urgent: bool,
}

/// Bytes that are under way at once, at most: what a receiver's socket keeps for it.
const FLIGHT_BYTES: u64 = 2 << 20;

/// Fragments that may always be under way.
const FLIGHT_LEAST: u64 = 64;

/// One in so many fragments lost is the network's way of saying that they are too many at once.
const LOSS_SHARE: u64 = 32;

/// For so many fragments, at least and at most, they go one by one after much was lost; for as few
/// as at first once so many times as many have gone together.
const APART: (u64, u64) = (1 << 10, 1 << 20);
const APART_FORGIVEN: u64 = 8;

/// How much is under way at once: more and more while nothing is lost.
#[derive(Clone, Debug, Default)]
struct Flight {
    now: u64,
    least: u64,
    most: u64,
    /// Fragments confirmed, and missed, since it was changed.
    came: u64,
    missed: u64,
    /// What is missed below was sent before it was cut.
    cut_at: u64,
    /// Below, fragments go one by one, and how many did so the last time: where one frame carries
    /// many, it is lost with any of its parts.
    apart_until: u64,
    apart: u64,
}

impl Flight {
    fn confirm(&mut self, fragments: u64) {
        self.came += fragments;
        if self.came >= self.now {
            let calm = self.missed * LOSS_SHARE < self.came;
            (self.came, self.missed) = (0, 0);
            self.now = if calm { (self.now * 2).min(self.most) } else { self.now };
        }
    }

    fn miss(&mut self, fragment: u64, next: u64) {
        if fragment < self.cut_at {
            return;
        }
        self.missed += 1;
        if self.missed * LOSS_SHARE > self.now {
            self.now = (self.now / 2).max(self.least);
            (self.came, self.missed, self.cut_at) = (0, 0, next);
            self.part(next);
        }
    }

    /// Fragments from `next` on go one by one for a while, for longer if that was so a short time
    /// ago.
    fn part(&mut self, next: u64) {
        if next >= self.apart_until {
            let soon = next < self.apart_until + APART_FORGIVEN * self.apart;
            let (least, most) = APART;
            self.apart = if soon { (2 * self.apart).min(most) } else { least };
            self.apart_until = next + self.apart;
        }
    }
}

/// Sends broadcasts, one after the other. Does not hold the data: who polls it fills the payload
/// in.
#[derive(Clone, Debug)]
pub struct Sender {
    limits: Limits,
    peers: Vec<Peer>,
    messages: VecDeque<Message>,
    /// Messages among them for whose end somebody waits.
    urgent: usize,
    /// Fragments of all broadcasts so far.
    queued: u64,
    /// All below were sent, the last one at this time.
    next: u64,
    next_at: u64,
    /// All below were confirmed by all.
    base: u64,
    /// All below may be sent.
    limit: u64,
    flight: Flight,
    sent: Vec<Sent>,
    repairs: VecDeque<u64>,
    /// Those that go to one for certain.
    sure: VecDeque<(u64, u32)>,
    /// Whose turn to report it is, and fragments since somebody was asked.
    turn: u32,
    unasked: u64,
    finished: VecDeque<u32>,
    /// How likely it is that what one misses others miss as well: see [`CROWD`].
    crowd: u32,
    /// Fragments that were sent again.
    repaired: u64,
}

impl Sender {
    /// The sender of rank `me` among `size`.
    ///
    /// # Panics
    /// If a window is no power of two.
    pub fn new(limits: Limits, me: u32, size: u32) -> Sender {
        let Limits { window, ahead, .. } = limits;
        assert!(window.is_power_of_two() && ahead.is_power_of_two() && window <= ahead);
        let peer = |rank| Peer {
            gone: rank == me,
            got: 0,
            limit: window,
            asked_at: 0,
            asked_sent: 0,
            owes: false,
            complains: false,
            tries: 0,
        };
        let unsent = Sent { at: 0, again: false, missed: Missed::Nobody, helped: None, tries: 0 };
        let least = FLIGHT_LEAST.max(8 * u64::from(size)).min(window);
        let flight = Flight { now: window, least, most: window, ..Flight::default() };
        let mut sender = Sender {
            limits,
            peers: (0..size).map(peer).collect(),
            messages: VecDeque::new(),
            urgent: 0,
            queued: 0,
            next: 0,
            next_at: 0,
            base: 0,
            limit: 0,
            flight,
            sent: vec![unsent; ahead as usize],
            repairs: VecDeque::new(),
            sure: VecDeque::new(),
            turn: me,
            unasked: 0,
            finished: VecDeque::new(),
            crowd: 0,
            repaired: 0,
        };
        sender.move_on();
        sender
    }

    /// Begins the broadcast with this number, of `len` bytes in fragments of `piece` bytes. The
    /// data must stay as it is until [`Sender::finished`] gives the number; `urgent`: somebody
    /// waits for that.
    pub fn start(&mut self, number: u32, len: u64, piece: u16, urgent: bool) {
        let piece = piece.max(1);
        let (first, count) = (self.queued, len.div_ceil(u64::from(piece)).max(1));
        self.messages.push_back(Message { number, first, len, piece, count, urgent });
        self.urgent += usize::from(urgent);
        self.queued += count;
        let Limits { window, ahead, .. } = self.limits;
        self.flight.most = (FLIGHT_BYTES / u64::from(piece)).clamp(window, ahead);
        self.flight.now = self.flight.now.min(self.flight.most);
        self.move_on();
    }

    /// The next broadcast that all have got.
    pub fn finished(&mut self) -> Option<u32> {
        self.finished.pop_front()
    }

    /// Whether all have got everything.
    pub fn is_idle(&self) -> bool {
        self.messages.is_empty()
    }

    /// Fragments that were sent again.
    pub fn repaired(&self) -> u64 {
        self.repaired
    }

    fn sent(&mut self, fragment: u64) -> &mut Sent {
        &mut self.sent[(fragment & (self.limits.ahead - 1)) as usize]
    }

    /// All below may be sent as far as a receiver is concerned.
    fn room(&self, peer: &Peer) -> u64 {
        peer.limit.min(peer.got + self.flight.now)
    }

    /// Takes account of what receivers have got.
    fn move_on(&mut self) {
        let live = || self.peers.iter().filter(|peer| !peer.gone);
        // Alone, the sender has told everyone as soon as it has sent.
        let base = live().map(|peer| peer.got).min().unwrap_or(self.queued);
        self.flight.confirm(base.saturating_sub(self.base));
        self.base = base;
        let live = self.peers.iter().filter(|peer| !peer.gone);
        self.limit = live.map(|peer| self.room(peer)).min().unwrap_or(self.queued);
        self.next = self.next.max(self.base);
        while let Some(message) = self.messages.front()
            && self.base >= message.first + message.count
        {
            self.urgent -= usize::from(message.urgent);
            self.finished.push_back(message.number);
            self.messages.pop_front();
        }
    }

    /// A rank is dead: nothing is expected of it any more.
    pub fn bury(&mut self, rank: u32) {
        if let Some(peer) = self.peers.get_mut(rank as usize) {
            peer.gone = true;
        }
        self.move_on();
    }

    /// Takes a report; what makes no sense is ignored.
    pub fn take(&mut self, from: u32, report: &Report, now_ns: u64) {
        let Report { got, seen, limit, waits, missing } = *report;
        let ahead = self.limits.ahead;
        let Some(peer) = self.peers.get_mut(from as usize).filter(|peer| !peer.gone) else {
            return;
        };
        if got > self.next || seen > self.next || limit > got.saturating_add(ahead) {
            return;
        }
        peer.owes = false;
        if got > peer.got || limit > peer.limit {
            peer.tries = 0;
        }
        // What it has not heard of may be on its way to it, behind a busy program: told how far the
        // sender is, it says what is missing.
        peer.complains = waits && seen < self.next;
        peer.got = peer.got.max(got);
        peer.limit = peer.limit.max(limit);
        for (first, count) in missing.iter() {
            self.miss(from, first, first.saturating_add(u64::from(count)), now_ns);
        }
        self.move_on();
    }

    /// A rank misses `first..end`.
    fn miss(&mut self, rank: u32, first: u64, end: u64, now_ns: u64) {
        let young = self.limits.patience_ns;
        for fragment in first.max(self.base)..end.min(self.next) {
            let sent = self.sent(fragment);
            if sent.tries >= TRIES {
                if !self.sure.contains(&(fragment, rank)) {
                    self.sure.push_back((fragment, rank));
                }
                continue;
            }
            let late = sent.again && now_ns.saturating_sub(sent.at) < young;
            let other = match (sent.missed, sent.helped) {
                (Missed::One(other), _) | (Missed::Nobody, Some(other)) => other != rank,
                (Missed::Several, _) => true,
                (Missed::Nobody, None) => late,
            };
            if !late {
                if sent.missed == Missed::Nobody {
                    self.repairs.push_back(fragment);
                    self.flight.miss(fragment, self.next);
                }
                let sent = self.sent(fragment);
                sent.missed = if other { Missed::Several } else { Missed::One(rank) };
            }
            let crowd = if other { self.crowd + 4 } else { self.crowd.saturating_sub(1) };
            self.crowd = crowd.min(CROWD_MAX);
        }
    }

    /// Bytes of the broadcast that the next new fragment is of, if there is one.
    pub fn next_len(&self) -> Option<u64> {
        (self.next < self.queued.min(self.limit)).then(|| self.message(self.next))?.map(|m| m.len)
    }

    /// The next frame to be sent, and for a data frame which bytes of which broadcast are its
    /// payload: offset and length. `room`: bytes of a datagram to all, frame included.
    pub fn poll(&mut self, now_ns: u64, room: usize) -> Option<(To, Frame, (u64, usize))> {
        if let Some(repair) = self.repair(now_ns) {
            return Some(repair);
        }
        if self.next < self.queued.min(self.limit) {
            let (fragment, count) = (self.next, self.together(room));
            self.next += count;
            self.next_at = now_ns;
            let (missed, helped) = (Missed::Nobody, None);
            let sent = Sent { at: now_ns, again: false, missed, helped, tries: 0 };
            (fragment..self.next).for_each(|fragment| *self.sent(fragment) = sent);
            let asked = self.whose_turn(now_ns, count);
            return self.data(To::All, fragment, count, asked);
        }
        self.ask(now_ns)
    }

    /// How many fragments go in the next datagram to all, of those that may be sent: datagrams of
    /// about the same length, so that the last is not a short one.
    fn together(&self, room: usize) -> u64 {
        let Some(message) =
            self.message(self.next).filter(|_| self.next >= self.flight.apart_until)
        else {
            return 1;
        };
        let most = (room.saturating_sub(DATA_LEN) / usize::from(message.piece)).max(1) as u64;
        let end = self.limit.min(message.first + message.count);
        let left = end.saturating_sub(self.next).max(1);
        left.div_ceil(left.div_ceil(most))
    }

    fn repair(&mut self, now_ns: u64) -> Option<(To, Frame, (u64, usize))> {
        while let Some((fragment, rank)) = self.sure.pop_front() {
            let misses = |peer: &Peer| !peer.gone && peer.got <= fragment;
            if fragment >= self.base && self.peers.get(rank as usize).is_some_and(misses) {
                self.repaired += 1;
                return self.data(To::Surely(rank), fragment, 1, Asked::Nobody);
            }
        }
        loop {
            let fragment = self.repairs.pop_front()?;
            if fragment < self.base {
                continue;
            }
            let crowded = self.crowd >= CROWD;
            let sent = self.sent(fragment);
            sent.tries = sent.tries.saturating_add(1);
            let to = match std::mem::replace(&mut sent.missed, Missed::Nobody) {
                Missed::Nobody => continue,
                Missed::One(rank) if !crowded => To::One(rank),
                _ => To::All,
            };
            match to {
                To::All => (sent.at, sent.again, sent.helped) = (now_ns, true, None),
                To::One(rank) | To::Surely(rank) => sent.helped = Some(rank),
            }
            self.repaired += 1;
            return self.data(to, fragment, 1, Asked::Nobody);
        }
    }

    /// The broadcast that a fragment is of.
    fn message(&self, fragment: u64) -> Option<&Message> {
        let at = self.messages.partition_point(|message| message.first <= fragment);
        self.messages.get(at.checked_sub(1)?)
    }

    fn data(
        &self,
        to: To,
        fragment: u64,
        count: u64,
        asked: Asked,
    ) -> Option<(To, Frame, (u64, usize))> {
        let Message { number, first, len, piece, .. } = *self.message(fragment)?;
        let index = fragment - first;
        let offset = index * u64::from(piece);
        let payload = len.saturating_sub(offset).min(count * u64::from(piece)) as usize;
        let data = Data { number, asked, fragment, len, piece, index: index as u32 };
        Some((to, Frame::Data(data), (offset, payload)))
    }

    /// Who reports by the fragments that are being sent: each in turn, twice a flight; and all by
    /// the last one, if somebody waits for their word and they are not too many.
    fn whose_turn(&mut self, now_ns: u64, count: u64) -> Asked {
        self.unasked += count;
        let (sent, size) = (self.next, self.peers.len() as u64);
        let live = self.peers.iter().filter(|peer| !peer.gone).count();
        if sent == self.queued && self.urgent > 0 && live <= ASKED_MAX {
            for peer in self.peers.iter_mut().filter(|peer| !peer.gone) {
                (peer.asked_at, peer.asked_sent, peer.owes) = (now_ns, sent, true);
            }
            self.unasked = 0;
            return Asked::All;
        }
        if self.unasked < self.flight.now / (2 * size.max(1)) {
            return Asked::Nobody;
        }
        self.unasked = 0;
        for _ in 0..size {
            self.turn = (self.turn + 1) % size as u32;
            let peer = &mut self.peers[self.turn as usize];
            if !peer.gone {
                (peer.asked_at, peer.asked_sent, peer.owes) = (now_ns, sent, true);
                return Asked::One(self.turn);
            }
        }
        Asked::Nobody
    }

    /// When a rank that has not got everything is to be asked.
    fn due(&self, peer: &Peer) -> u64 {
        // Once at once when all that may be sent was sent; again only after patience. Where nobody
        // waits for the end, there may be more to send first.
        if peer.asked_sent < self.next {
            let waits = self.urgent > 0 || self.next < self.queued;
            if waits { 0 } else { self.next_at + self.limits.patience_ns }
        } else {
            peer.asked_at + self.limits.patience(peer.tries)
        }
    }

    fn lagging(&self) -> impl Iterator<Item = (usize, &Peer)> {
        let lags = |peer: &Peer| !peer.gone && peer.got < self.next;
        // Where the window is what stops the sender, only those that have no room.
        let blocked = self.next < self.queued;
        let stops = move |peer: &Peer| !blocked || self.room(peer) <= self.next;
        // One that has got all of a full window may have room again that it was not asked for.
        let shut = move |peer: &Peer| !peer.gone && blocked && self.room(peer) <= self.next;
        self.peers.iter().enumerate().filter(move |(_, p)| (lags(p) && stops(p)) || shut(p))
    }

    fn ask(&mut self, now_ns: u64) -> Option<(To, Frame, (u64, usize))> {
        let complaint = self.peers.iter().position(|peer| peer.complains && !peer.gone);
        if let Some(rank) = complaint {
            self.peers[rank].complains = false;
            return Some((To::One(rank as u32), Frame::Ask { sent: self.next }, (0, 0)));
        }
        let overdue = |peer: &Peer| now_ns >= peer.asked_at + self.limits.patience(peer.tries);
        let owing = || self.lagging().filter(|(_, peer)| peer.owes);
        let again = owing().find(|(_, peer)| overdue(peer));
        let full = owing().count() >= ASKED_MAX;
        let fresh = || self.lagging().filter(|_| !full).find(|(_, peer)| self.due(peer) <= now_ns);
        let (rank, _) = again.or_else(fresh)?;
        let sent = self.next;
        let peer = &mut self.peers[rank];
        peer.tries = if peer.asked_sent == sent { peer.tries.saturating_add(1) } else { 0 };
        (peer.asked_at, peer.asked_sent, peer.owes) = (now_ns, sent, true);
        Some((To::One(rank as u32), Frame::Ask { sent }, (0, 0)))
    }

    /// When to poll although nothing has arrived, ns.
    pub fn deadline_ns(&self) -> Option<u64> {
        let complains = self.peers.iter().any(|peer| peer.complains && !peer.gone);
        let again = !self.repairs.is_empty() || !self.sure.is_empty();
        if complains || again || self.next < self.queued.min(self.limit) {
            return Some(0);
        }
        let again = |peer: &Peer| peer.asked_at + self.limits.patience(peer.tries);
        let owing = || self.lagging().filter(|(_, peer)| peer.owes);
        if owing().count() >= ASKED_MAX {
            return owing().map(|(_, peer)| again(peer)).min();
        }
        self.lagging().map(|(_, peer)| self.due(peer)).min()
    }
}
