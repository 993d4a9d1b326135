//! What was sent: one record for each packet, in a ring by packet number.

use std::collections::VecDeque;

use crate::time::Instant;

/// What a packet carried, beyond acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Nothing that must arrive.
    Nothing,
    /// Whole messages and control words, `count` of them from sequence number `first` on.
    Messages { first: u64, count: u16 },
    /// A piece of an eager message.
    Fragment { seq: u64, offset: u32, len: u32 },
    /// A piece of an announced payload.
    Bulk { id: u64, offset: u64, len: u32 },
    /// Messages as in [`Content::Messages`], the last of them an announcement, and then the first
    /// `len` bytes of its payload.
    Pushed { first: u64, count: u16, id: u64, len: u16 },
    /// Padding up to a size that is being tried out.
    Probe { size: u16 },
    /// Credit or STOP/GO: what matters is that the latest word arrives.
    Flow,
}

/// What has become of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// On its way; an acknowledgement is expected.
    Flying,
    Acked,
    /// Held to be lost; an acknowledgement may still come.
    Lost,
    /// Nobody will acknowledge it: it asked for nothing.
    Quiet,
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub at: Instant,
    pub content: Content,
    /// Bytes that count as being on the way.
    pub size: u32,
    pub state: State,
    /// Whether it also carried credit.
    pub flow: bool,
}

impl Sent {
    /// Whether somebody waits for it to arrive.
    #[inline]
    pub fn is_needed(&self) -> bool {
        self.flow || !matches!(self.content, Content::Nothing | Content::Probe { .. })
    }
}

/// Records by packet number.
#[derive(Debug, Default)]
pub(super) struct SentRing {
    base: u64,
    records: VecDeque<Sent>,
}

impl SentRing {
    /// The number that the next packet gets.
    pub fn next(&self) -> u64 {
        self.base + self.records.len() as u64
    }

    /// The lowest number that has a record.
    pub fn base(&self) -> u64 {
        self.base
    }

    pub fn push(&mut self, sent: Sent) {
        self.records.push_back(sent);
    }

    /// Records numbered `from..to`, as far as there are any, with their numbers.
    pub fn range_mut(&mut self, from: u64, to: u64) -> impl Iterator<Item = (u64, &mut Sent)> {
        let base = self.base;
        let end = to.saturating_sub(base).min(self.records.len() as u64) as usize;
        let start = (from.saturating_sub(base) as usize).min(end);
        self.records
            .range_mut(start..end)
            .enumerate()
            .map(move |(i, sent)| (base + (start + i) as u64, sent))
    }

    /// Drops records at the front that nothing can be learnt from any more: acknowledged, quiet, or
    /// lost and sent before `forget`.
    pub fn prune(&mut self, forget: Instant) {
        while let Some(front) = self.records.front() {
            let done = match front.state {
                State::Flying => false,
                State::Acked | State::Quiet => true,
                State::Lost => front.at < forget,
            };
            if !done {
                return;
            }
            self.records.pop_front();
            self.base += 1;
        }
    }

    /// Gives memory back that a burst of packets has left behind.
    pub fn shrink(&mut self) {
        if self.records.is_empty() {
            self.records = VecDeque::new();
        }
    }
}
