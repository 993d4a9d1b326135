//! What all members do.

mod again;

use std::collections::VecDeque;

use super::super::broadcast::To;
use super::frame::{Frame, HEAD_MAX};
use super::ring::{Bytes, Pool, Ring};
use super::sequencer::Sequencer;
use super::{KEPT_MAX, Limits, OUT_MAX, REPAIR_MAX, UNTAKEN_MAX};
pub(super) use again::{Retry, TRIES};

/// A message, or a part of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) more: bool,
    pub(super) bytes: Bytes,
}

/// Memory of deliveries that is kept: pieces, and bytes of each.
const SPARE_MAX: usize = 256;
const SPARE_LEN_MAX: usize = 64 << 10;

/// Which message: whose, and which of that member's.
pub(super) type Name = (u32, u64);

/// A frame that is to go out, without its bytes.
#[derive(Clone, Debug)]
pub(super) enum Out {
    Data { message: u64, part: Part },
    Accept { number: u64, name: Name, count: u16 },
    Tell { asks: bool },
    Status,
    Ask { first: u64, last: u64, surely: bool },
    Again { number: u64, name: Name, part: Part },
}

/// What was delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Who sent it.
    pub sender: u32,
    /// The message.
    pub bytes: Vec<u8>,
}

/// In place of a message that is longer than [`Limits::message_max`]: its sender has counted
/// wrongly, or lies. All members find it at the same place of the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overlong {
    /// Who sent it.
    pub sender: u32,
}

/// What a member that is gone adds to the view.
fn mark_of(rank: u32) -> u32 {
    // Any function that spreads well: the sum of some is hardly ever that of others.
    let mixed = (rank ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b1);
    (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca77) ^ rank >> 13
}

/// How long own messages take until they are delivered here; one at a time is watched.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// Which one, and since when, ns.
    watched: Option<(u64, u64)>,
    /// Smoothed over the last ones, ns.
    smooth_ns: u64,
}

impl Pace {
    fn delivered(&mut self, message: u64, now_ns: u64) {
        if let Some((_, since)) = self.watched.take_if(|(watched, _)| *watched <= message) {
            self.smooth_ns = self.smooth_ns - self.smooth_ns / 8 + now_ns.saturating_sub(since) / 8;
        }
    }
}

/// A member of an ordered group: see the module's page.
#[derive(Clone, Debug)]
pub struct Member {
    pub(super) limits: Limits,
    pub(super) me: u32,
    pub(super) dead: Vec<bool>,
    /// A word for those: see [`Frame`].
    pub(super) view: u32,
    /// The sequencer's rank.
    pub(super) reign: u32,
    /// All numbers up to here were delivered.
    pub(super) delivered: u64,
    /// All numbers up to here were delivered by all live members.
    pub(super) stable: u64,
    /// Numbers that this reign is known to have given.
    pub(super) last: u64,
    /// What has a number, beyond `delivered`.
    pub(super) accepted: Ring<Name>,
    /// What has arrived and was not delivered, by sender.
    pub(super) arrived: Vec<Ring<Part>>,
    /// The last delivered message of each member.
    pub(super) last_of: Vec<u64>,
    /// What was delivered, numbers `stable + 1` to `delivered`.
    history: VecDeque<(Name, Part)>,
    /// Own messages that were not delivered, and the last one that was.
    own: VecDeque<Part>,
    /// Beginnings of messages; `None`: of one that is too long.
    begun: Vec<Option<Vec<u8>>>,
    deliveries: VecDeque<Result<Delivery, Overlong>>,
    /// Bytes of those.
    untaken: usize,
    /// The program waits for room to send.
    waits: bool,
    /// Memory to be used again: of parts, and of deliveries.
    pool: Pool,
    spare: Vec<Vec<u8>>,
    pub(super) out: VecDeque<(To, Out)>,
    /// Accepts that are to go out after that: the first number, whose message, how many.
    pub(super) accepts: VecDeque<(u64, Name, u16)>,
    /// Something is to go out that others wait for.
    pub(super) hurry: bool,
    /// How far the sequencer was told that this member is.
    said: u64,
    /// Sends own messages again.
    resend: Retry,
    /// How long that takes which it waits for.
    pace: Pace,
    /// Asks for what is missing.
    ask: Retry,
    /// Tells a new sequencer how far this member is, until that one is heard.
    greet: Retry,
    /// When each other member was last heard, ns; `None`: never.
    pub(super) heard: Vec<Option<u64>>,
    /// When this one last learned that another is gone, ns.
    buried_ns: u64,
    /// Whoever is waited for since then is given until then, ns: see [`Member::overdue`].
    grace: (u64, u64),
    pub(super) sequencer: Sequencer,
}

impl Member {
    /// Member `me` of `size`.
    pub fn new(limits: Limits, me: u32, size: u32) -> Member {
        let n = size as usize;
        // A member that is a whole history behind hears from one that is not, and a window more.
        let usual = limits.window.max(REPAIR_MAX);
        Member {
            limits,
            me,
            dead: vec![false; n],
            view: 0,
            reign: 0,
            delivered: 0,
            stable: 0,
            last: 0,
            accepted: Ring::new(limits.history, limits.history),
            arrived: (0..n).map(|_| Ring::new(usual, limits.history + usual)).collect(),
            last_of: vec![0; n],
            history: VecDeque::new(),
            own: VecDeque::new(),
            begun: vec![Some(Vec::new()); n],
            deliveries: VecDeque::new(),
            untaken: 0,
            waits: false,
            pool: Pool::default(),
            spare: Vec::new(),
            out: VecDeque::new(),
            accepts: VecDeque::new(),
            hurry: false,
            said: 0,
            resend: Retry::default(),
            pace: Pace::default(),
            ask: Retry::default(),
            greet: Retry::default(),
            heard: vec![None; n],
            buried_ns: 0,
            grace: (u64::MAX, 0),
            sequencer: Sequencer::new(me, n),
        }
    }

    /// Sends a message to all members, this one included, in datagrams with at most `datagram`
    /// bytes of payload, frame included. `false`: there is no room now. One that has more parts
    /// than the window only fits where nothing else waits.
    pub fn cast(&mut self, bytes: &[u8], datagram: usize, now_ns: u64) -> bool {
        let part_max = datagram.saturating_sub(HEAD_MAX).max(1);
        let parts = (bytes.len() as u64).div_ceil(part_max as u64).max(1);
        let fits = self.own.is_empty() || self.own.len() as u64 + parts <= self.limits.window;
        let waited = std::mem::replace(&mut self.waits, !fits);
        if !fits {
            if !waited {
                self.advance(now_ns);
            }
            return false;
        }
        for at in 0..parts {
            let start = at as usize * part_max;
            let end = bytes.len().min(start + part_max);
            let part = Part { more: at + 1 < parts, bytes: self.pool.copy(&bytes[start..end]) };
            self.own.push_back(part.clone());
            let message = self.last_of[self.me as usize] + self.own.len() as u64;
            if self.own.len() as u64 <= self.limits.window {
                self.arrived[self.me as usize].insert(message, part.clone());
                self.out.push_back((To::All, Out::Data { message, part }));
            }
        }
        let message = self.last_of[self.me as usize] + self.own.len() as u64;
        self.pace.watched.get_or_insert((message, now_ns));
        self.resend.set(now_ns + self.resend_patience());
        self.give_numbers(now_ns);
        true
    }

    /// How long own messages are given to be delivered here before they go again, ns.
    fn resend_patience(&self) -> u64 {
        self.limits.patience_ns.max(4 * self.pace.smooth_ns)
    }

    /// The next message in the group's order. Messages that are not taken stop the group in the
    /// end: it is as fast as its slowest member.
    pub fn deliver(&mut self, now_ns: u64) -> Option<Result<Delivery, Overlong>> {
        let was_full = self.is_full();
        let delivery = self.deliveries.pop_front();
        if let Some(Ok(Delivery { bytes, .. })) = &delivery {
            self.untaken -= bytes.len();
        }
        if was_full {
            self.advance(now_ns);
        }
        delivery
    }

    /// Takes the memory of a delivery back, to be used again.
    pub fn give_back(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && bytes.capacity() <= SPARE_LEN_MAX {
            self.spare.push(bytes);
        }
    }

    /// Sends something that can be asked for again, or is said again.
    pub(super) fn push(&mut self, out: (To, Out)) {
        self.hurry = true;
        // Who asks for more than can be sent is not answered.
        if self.out.len() < OUT_MAX {
            self.out.push_back(out);
        }
    }

    /// Whether something is to be sent that others wait for: more than own messages.
    pub fn is_in_a_hurry(&self) -> bool {
        self.hurry
    }

    /// Whether so many messages wait to be taken that no more are delivered. Not while the program
    /// waits for room to send, for then it can take none, and its own may be behind them; nor while
    /// it takes over, for which nobody shall wait longer than he must: that is a history at most.
    fn is_full(&self) -> bool {
        let many = self.deliveries.len() as u64 >= self.limits.history;
        !self.waits && !self.is_taking_over() && (many || self.untaken >= UNTAKEN_MAX)
    }

    /// Whether the group does not need this member any more: all of its own messages have numbers,
    /// and those that it gave numbers to are at all members.
    pub fn may_leave(&self) -> bool {
        let settled = self.stable == self.last && self.accepted.is_empty();
        self.own.is_empty() && (self.reign != self.me || settled)
    }

    /// Whether all own messages were delivered here.
    pub fn is_idle(&self) -> bool {
        self.own.is_empty()
    }

    /// A word for the members that this one holds for gone: see [`Frame`].
    pub fn view(&self) -> u32 {
        self.view
    }

    /// Messages and parts that are kept for members that may miss them.
    pub fn kept(&self) -> usize {
        self.history.len()
    }

    pub(super) fn live(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.dead.len() as u32).filter(|rank| !self.dead[*rank as usize])
    }

    /// A member is dead, or has left. `me` itself cannot be.
    pub fn bury(&mut self, rank: u32, now_ns: u64) {
        if rank == self.me || self.dead.get(rank as usize).is_none_or(|dead| *dead) {
            return;
        }
        self.dead[rank as usize] = true;
        self.view ^= mark_of(rank);
        self.buried_ns = now_ns;
        let reign = self.live().next().unwrap_or(self.me);
        if reign != self.reign {
            self.reign = reign;
            // Nobody knows of these whether anyone has delivered them. If someone has, they come
            // again; their data is kept.
            self.accepted.clear();
            self.last = self.delivered;
            self.ask.clear();
            self.resend.clear();
            // What is still to be sent speaks of the old reign, but for data.
            self.out.retain(|(_, out)| matches!(out, Out::Data { .. }));
            self.accepts.clear();
            self.sequencer.begin(self.delivered);
            if reign != self.me {
                self.push((To::One(reign), Out::Status));
                self.greet = Retry { at: Some(now_ns + self.limits.patience_ns), tries: 1 };
            }
            if !self.own.is_empty() {
                self.resend.set(now_ns + self.resend_patience());
            }
        } else if reign == self.me {
            // Nothing more is held for delivered by all until they agree on who that is.
            self.sequencer.part(now_ns + self.limits.patience_ns);
        } else {
            self.push((To::One(reign), Out::Status));
        }
        self.sequence(now_ns);
    }

    /// Takes a frame of member `from`; what makes no sense is ignored.
    pub fn take(&mut self, from: u32, frame: &Frame<'_>, now_ns: u64) {
        if from == self.me || self.dead.get(from as usize).is_none_or(|dead| *dead) {
            return;
        }
        self.heard[from as usize] = Some(now_ns);
        let rules = |reign: u32| reign == self.reign && from == self.reign;
        match *frame {
            Frame::Data { reign, message, delivered, more, bytes } => {
                self.keep(from, message, more, bytes);
                if self.reign == self.me {
                    self.take_data_as_sequencer(from, reign, message, delivered, now_ns);
                }
            }
            Frame::Accept { reign, number, stable, view, sender, message, count }
                if rules(reign) =>
            {
                let more = u64::from(count.max(1)) - 1;
                self.hear(number.saturating_add(more), (stable, view), now_ns);
                for at in 0..=more.min(self.limits.history) {
                    let (number, message) = (number.checked_add(at), message.checked_add(at));
                    if let (Some(number), Some(message)) = (number, message) {
                        self.accept(number, (sender, message));
                    }
                }
            }
            Frame::Tell { reign, last, stable, view, asks } if rules(reign) => {
                self.hear(last, (stable, view), now_ns);
                if asks {
                    self.push((To::One(from), Out::Status));
                }
            }
            Frame::Status { reign, delivered, view }
                if reign == self.me && self.reign == self.me =>
            {
                self.take_status(from, delivered, view, now_ns);
            }
            Frame::Ask { reign, first, last, surely } if reign == self.reign => {
                let to = if surely { To::Surely(from) } else { To::One(from) };
                self.answer(to, first, last);
            }
            Frame::Again { reign, number, sender, message, more, bytes }
                if reign == self.reign
                    && (from == self.reign || self.is_taking_over())
                    && self.accept(number, (sender, message)) =>
            {
                self.keep(sender, message, more, bytes);
            }
            _ => {}
        }
        self.advance(now_ns);
    }

    /// Takes what the sequencer says of its numbers.
    fn hear(&mut self, last: u64, (stable, view): (u64, u32), now_ns: u64) {
        if self.greet.at.is_some() {
            self.greet.clear();
            // The new sequencer may never have seen what the old one was sent.
            self.resend_own();
        }
        self.last = self.last.max(last.min(self.delivered.saturating_add(self.limits.history)));
        // Whom the sequencer holds for gone and this member does not may need what they have not.
        if view == self.view {
            self.prune(stable);
        }
        self.sequence(now_ns);
    }

    /// Forgets what all have delivered.
    pub(super) fn prune(&mut self, stable: u64) {
        while self.stable < stable.min(self.delivered) {
            if let Some((_, part)) = self.history.pop_front() {
                self.pool.give_back(part.bytes);
            }
            self.stable += 1;
        }
    }

    /// Keeps what has arrived, if it is not there and near enough.
    fn keep(&mut self, sender: u32, message: u64, more: bool, bytes: &[u8]) {
        let last = self.last_of[sender as usize];
        let arrived = &mut self.arrived[sender as usize];
        let near = message > last && message - last <= arrived.reach();
        if near && arrived.get(message).is_none() {
            let bytes = self.pool.copy(bytes);
            arrived.insert(message, Part { more, bytes });
        }
    }

    /// Notes that a message has a number; `false` if that is of no use.
    fn accept(&mut self, number: u64, name: Name) -> bool {
        let known = (name.0 as usize) < self.dead.len();
        let near = number > self.delivered && number - self.delivered <= self.limits.history;
        if known && near {
            self.accepted.insert(number, name);
        }
        known && near
    }

    fn answer(&mut self, to: To, first: u64, last: u64) {
        let first = first.max(self.stable + 1);
        let last = last.min(self.delivered).min(first.saturating_add(REPAIR_MAX - 1));
        for number in first..=last {
            let at = (number - self.stable - 1) as usize;
            if let Some((name, part)) = self.history.get(at).cloned() {
                self.push((to, Out::Again { number, name, part }));
            }
        }
    }

    /// Gives numbers, delivers, and sees to what is missing.
    pub(super) fn advance(&mut self, now_ns: u64) {
        let before = self.delivered;
        self.deliver_all(now_ns);
        self.sequence(now_ns);
        if self.delivered > before {
            self.ask.clear();
        }
        // Who sends nothing says now and then how far it is, before the sequencer has to ask.
        if self.reign != self.me && self.delivered - self.said >= self.limits.history / 4 {
            self.said = self.delivered;
            self.push((To::One(self.reign), Out::Status));
        }
        let misses = self.delivered < self.last || !self.accepted.is_empty();
        if !misses || self.is_full() {
            self.ask.clear();
        } else if self.reign != self.me {
            self.ask.set(now_ns + self.limits.reorder_ns);
        }
    }

    /// Delivers all that has its number and is there.
    pub(super) fn deliver_all(&mut self, now_ns: u64) {
        while let Some(name) = self.accepted.get(self.delivered + 1).copied()
            && !self.is_full()
            && self.delivered - self.stable < KEPT_MAX * self.limits.history
        {
            let (sender, message) = name;
            let Some(part) = self.arrived[sender as usize].remove(message) else { return };
            self.delivered += 1;
            self.accepted.remove(self.delivered);
            self.last = self.last.max(self.delivered);
            self.last_of[sender as usize] = message;
            if sender == self.me {
                if let Some(own) = self.own.pop_front() {
                    self.pool.give_back(own.bytes);
                }
                self.widen();
                self.pace.delivered(message, now_ns);
                self.resend.restart(now_ns + self.resend_patience());
            }
            self.assemble(sender, &part);
            self.history.push_back((name, part));
        }
    }

    /// The next part of a member's messages was delivered.
    fn assemble(&mut self, sender: u32, part: &Part) {
        let begun = &mut self.begun[sender as usize];
        match begun {
            Some(bytes) if bytes.len() + part.bytes.len() <= self.limits.message_max => {
                bytes.extend_from_slice(&part.bytes);
            }
            _ => *begun = None,
        }
        if !part.more {
            let mut next = self.spare.pop().unwrap_or_default();
            next.clear();
            let whole = begun.replace(next).map(|bytes| Delivery { sender, bytes });
            self.untaken += whole.as_ref().map_or(0, |whole| whole.bytes.len());
            self.deliveries.push_back(whole.ok_or(Overlong { sender }));
        }
    }

    /// The window has moved: one more own part may go.
    fn widen(&mut self) {
        let window = self.limits.window;
        if self.own.len() as u64 >= window {
            let message = self.last_of[self.me as usize] + window;
            let part = self.own[window as usize - 1].clone();
            self.arrived[self.me as usize].insert(message, part.clone());
            self.out.push_back((To::All, Out::Data { message, part }));
        }
    }

    /// The next frame to be sent. Calls `send` with it and gives what that gives.
    pub fn poll<R>(&mut self, now_ns: u64, send: impl FnOnce(To, &Frame<'_>) -> R) -> Option<R> {
        if self.out.is_empty() && self.accepts.is_empty() {
            self.do_again(now_ns);
        }
        let accept = |(number, name, count)| (To::All, Out::Accept { number, name, count });
        let next = self.out.pop_front();
        let (to, out) = next.or_else(|| self.accepts.pop_front().map(accept))?;
        self.hurry &= !self.out.is_empty() || !self.accepts.is_empty();
        if matches!(out, Out::Data { .. } | Out::Status) {
            self.said = self.delivered;
        }
        let Member { reign, delivered, stable, view, last, .. } = *self;
        let frame = match &out {
            Out::Data { message, part: Part { more, bytes } } => {
                Frame::Data { reign, message: *message, delivered, more: *more, bytes }
            }
            Out::Accept { number, name: (sender, message), count } => {
                let (number, sender, message, count) = (*number, *sender, *message, *count);
                Frame::Accept { reign, number, stable, view, sender, message, count }
            }
            Out::Tell { asks } => Frame::Tell { reign, last, stable, view, asks: *asks },
            Out::Status => Frame::Status { reign, delivered, view },
            Out::Ask { first, last, surely } => {
                Frame::Ask { reign, first: *first, last: *last, surely: *surely }
            }
            Out::Again { number, name: (sender, message), part: Part { more, bytes } } => {
                let (number, sender, message, more) = (*number, *sender, *message, *more);
                Frame::Again { reign, number, sender, message, more, bytes }
            }
        };
        let sent = send(to, &frame);
        if let Out::Data { part, .. } | Out::Again { part, .. } = out {
            self.pool.give_back(part.bytes);
        }
        Some(sent)
    }
}
