//! What comes from one peer in order: gives everything out once and in its turn, and holds what
//! came too early. What is held is bounded by what was granted.

use std::collections::VecDeque;
use std::ops::Range;

use weft_wire::Envelope;

use super::buffers::Pool;
use crate::config::Config;
use crate::ranges::RangeSet;

/// A message that came before its turn, or in pieces.
#[derive(Debug)]
enum Slot {
    /// Nothing of it has come.
    Empty,
    /// Some of it has come.
    Part { envelope: Envelope, buffer: Vec<u8>, have: RangeSet },
    /// It waits for its turn.
    Ready(Ready),
    /// A control word that was obeyed at once.
    Obeyed,
}

/// What has its turn.
#[derive(Debug)]
pub(crate) enum Ready {
    /// An eager message.
    Message { envelope: Envelope, buffer: Vec<u8> },
    /// An announcement.
    Announced { envelope: Envelope, len: u64, ticket: u64 },
    /// The last word, and whether its sender has all that it pulled.
    Close { whole: bool },
}

/// What to do with something that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It has its turn: use it now.
    Now,
    /// It is held, or came before: nothing to do.
    Later,
    /// It lies beyond what was granted.
    Beyond,
}

/// Messages on their way from one peer to the owner.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// The next in order.
    next: u64,
    /// From `next` on.
    slots: VecDeque<Slot>,
    held_bytes: u64,
    /// Eager bytes given to the owner since the beginning.
    taken_bytes: u64,
    /// The credit that the peer was last told.
    told_until: u64,
    told_bytes: u64,
}

impl Inbox {
    /// The sequence number that is next in order.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Where `seq` stands: `Now` if it is the next, `Later` if it is to be held (its slot exists
    /// then), `None` if it came before.
    #[inline]
    fn place(&mut self, seq: u64, window: u64) -> Option<Verdict> {
        let ahead = seq.checked_sub(self.next)?;
        if ahead >= window {
            return Some(Verdict::Beyond);
        }
        if ahead == 0 && self.slots.is_empty() {
            return Some(Verdict::Now);
        }
        let ahead = ahead as usize;
        if self.slots.len() <= ahead {
            self.slots.resize_with(ahead + 1, || Slot::Empty);
        }
        match (&self.slots[ahead], ahead) {
            (Slot::Empty | Slot::Part { .. }, 0) => Some(Verdict::Now),
            (Slot::Empty | Slot::Part { .. }, _) => Some(Verdict::Later),
            _ => None,
        }
    }

    /// Goes on to the next in order.
    #[inline]
    fn advance(&mut self, bytes: u64, pool: &mut Pool) {
        self.next += 1;
        self.taken_bytes += bytes;
        if let Some(Slot::Part { buffer, .. }) = self.slots.pop_front() {
            self.held_bytes -= buffer.len() as u64;
            pool.give(buffer);
        }
    }

    /// A whole message came. `Now`: the owner is to have it, in place.
    #[inline]
    pub fn message(
        &mut self,
        seq: u64,
        envelope: &Envelope,
        payload: &[u8],
        config: &Config,
        pool: &mut Pool,
    ) -> Verdict {
        match self.place(seq, u64::from(config.window_messages)) {
            Some(Verdict::Now) => {
                self.advance(payload.len() as u64, pool);
                Verdict::Now
            }
            Some(Verdict::Later) => {
                let len = payload.len() as u64;
                self.fragment(seq, envelope, 0..len, len, payload, config, pool)
            }
            Some(beyond) => beyond,
            None => Verdict::Later,
        }
    }

    /// A piece of a message of `total` bytes came. Never `Now`: complete messages come out of
    /// [`Inbox::pop`].
    #[expect(clippy::too_many_arguments, reason = "a fragment's fields, borrowed one by one")]
    pub fn fragment(
        &mut self,
        seq: u64,
        envelope: &Envelope,
        part: Range<u64>,
        total: u64,
        payload: &[u8],
        config: &Config,
        pool: &mut Pool,
    ) -> Verdict {
        match self.place(seq, u64::from(config.window_messages)) {
            Some(Verdict::Beyond) => return Verdict::Beyond,
            None => return Verdict::Later,
            _ => {}
        }
        let ahead = (seq - self.next) as usize;
        if self.slots.len() <= ahead {
            self.slots.resize_with(ahead + 1, || Slot::Empty);
        }
        if matches!(self.slots[ahead], Slot::Empty) {
            if total > Config::EAGER_LIMIT as u64 || self.held_bytes + total > config.window_bytes {
                return Verdict::Beyond;
            }
            let mut buffer = pool.take(total as usize);
            buffer.resize(total as usize, 0);
            self.held_bytes += total;
            self.slots[ahead] = Slot::Part { envelope: *envelope, buffer, have: RangeSet::new() };
        }
        let Slot::Part { envelope, buffer, have } = &mut self.slots[ahead] else {
            return Verdict::Later;
        };
        if buffer.len() as u64 != total {
            return Verdict::Beyond;
        }
        buffer[part.start as usize..part.end as usize].copy_from_slice(payload);
        have.insert(part);
        if total == 0 || have.first() == Some(0..total) {
            let (envelope, buffer) = (*envelope, std::mem::take(buffer));
            self.slots[ahead] = Slot::Ready(Ready::Message { envelope, buffer });
        }
        Verdict::Later
    }

    /// An announcement or the last word came. `Now`: the owner is to have it.
    pub fn word(&mut self, seq: u64, ready: Ready, config: &Config, pool: &mut Pool) -> Verdict {
        match self.place(seq, u64::from(config.window_messages)) {
            Some(Verdict::Now) => {
                self.advance(0, pool);
                Verdict::Now
            }
            Some(Verdict::Later) => {
                self.slots[(seq - self.next) as usize] = Slot::Ready(ready);
                Verdict::Later
            }
            Some(beyond) => beyond,
            None => Verdict::Later,
        }
    }

    /// A control word came, which need not wait for its turn. `Now`: obey it.
    pub fn control(&mut self, seq: u64, config: &Config, pool: &mut Pool) -> Verdict {
        match self.place(seq, u64::from(config.window_messages)) {
            Some(Verdict::Now) => {
                self.advance(0, pool);
                Verdict::Now
            }
            Some(Verdict::Later) => {
                self.slots[(seq - self.next) as usize] = Slot::Obeyed;
                Verdict::Now
            }
            Some(beyond) => beyond,
            None => Verdict::Later,
        }
    }

    /// Whether something held has its turn.
    #[inline]
    pub fn has_ready(&self) -> bool {
        matches!(self.slots.front(), Some(Slot::Ready(_) | Slot::Obeyed))
    }

    /// The next that was held and has its turn.
    pub fn pop(&mut self) -> Option<Ready> {
        while self.has_ready() {
            self.next += 1;
            if let Some(Slot::Ready(ready)) = self.slots.pop_front() {
                if let Ready::Message { buffer, .. } = &ready {
                    self.held_bytes -= buffer.len() as u64;
                    self.taken_bytes += buffer.len() as u64;
                }
                return Some(ready);
            }
        }
        None
    }

    /// Whether the peer should be told of new credit: it has used half of what it knows of.
    #[inline]
    pub fn credit_due(&self, config: &Config) -> bool {
        let (messages, bytes) = (u64::from(config.window_messages), config.window_bytes);
        self.told_until < self.next + messages / 2 || self.told_bytes < self.taken_bytes + bytes / 2
    }

    /// The credit to tell: sequence numbers below the first, and so many bytes, may be sent.
    pub fn tell_credit(&mut self, config: &Config) -> (u64, u64) {
        self.told_until = self.next + u64::from(config.window_messages);
        self.told_bytes = self.taken_bytes + config.window_bytes;
        (self.told_until, self.told_bytes)
    }

    /// Forgets what is held.
    pub fn clear(&mut self, pool: &mut Pool) {
        for slot in self.slots.drain(..) {
            if let Slot::Part { buffer, .. } | Slot::Ready(Ready::Message { buffer, .. }) = slot {
                pool.give(buffer);
            }
        }
        self.held_bytes = 0;
    }

    /// Gives memory back that is not needed while idle.
    pub fn shrink(&mut self) {
        if self.slots.is_empty() {
            self.slots = VecDeque::new();
        }
    }
}
