//! Accounts of byte ranges: what of a payload has been sent, acknowledged, lost, or received.

use std::ops::Range;

use weft_wire::{OpId, PeerId};

use crate::ranges::RangeSet;

/// The sending of `len` bytes in pieces, in any order, as often as it takes.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    len: u64,
    next: u64,
    acked: RangeSet,
    lost: RangeSet,
}

impl Pieces {
    /// Begins anew with `len` bytes.
    pub fn start(&mut self, len: u64) {
        self.len = len;
        self.next = 0;
        self.acked.clear();
        self.lost.clear();
    }

    /// Changes the length to `len`; what lies beyond it is not sent (again).
    pub fn set_len(&mut self, len: u64) {
        self.len = len;
        self.lost.remove(len..u64::MAX);
    }

    /// Bytes that have been sent, each counted once.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.next
    }

    /// Whether nothing has been sent.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.next == 0
    }

    /// Whether there is something to send now.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.next < self.len || !self.lost.is_empty()
    }

    /// Bytes to send now, at least.
    pub fn waiting(&self) -> u64 {
        self.len.saturating_sub(self.next) + self.lost.first().map_or(0, |r| r.end - r.start)
    }

    /// The next piece to send, of at most `most` bytes, and whether it is sent again.
    #[inline]
    pub fn take(&mut self, most: u64) -> Option<(Range<u64>, bool)> {
        if let Some(range) = self.lost.take_first(most) {
            return Some((range, true));
        }
        let end = self.len.min(self.next + most).max(self.next);
        let range = self.next..end;
        self.next = end;
        (!range.is_empty()).then_some((range, false))
    }

    /// How many pieces of `len` bytes follow each other and are new, and not the last.
    pub fn run(&self, len: u64) -> u64 {
        let left = if self.lost.is_empty() { self.len.saturating_sub(self.next) } else { 0 };
        left.saturating_sub(1) / len
    }

    /// Takes the next `len` bytes, which [`Pieces::run`] has found; gives where they begin.
    pub fn take_run(&mut self, len: u64) -> u64 {
        self.next += len;
        self.next - len
    }

    /// A piece has arrived; whether that was the last.
    pub fn on_acked(&mut self, range: Range<u64>) -> bool {
        // What was lost is rarely acknowledged after all; then it need not be sent again.
        if !self.lost.is_empty() {
            self.lost.remove(range.clone());
        }
        self.acked.insert(range);
        self.is_complete()
    }

    /// Whether everything has arrived.
    pub fn is_complete(&self) -> bool {
        self.len == 0 || self.acked.first().is_some_and(|r| r.start == 0 && r.end >= self.len)
    }

    /// A piece was lost; whether there is now something to send again.
    pub fn on_lost(&mut self, range: Range<u64>) -> bool {
        self.lost.insert(range);
        self.lost.remove(self.len..u64::MAX);
        for acked in self.acked.iter() {
            self.lost.remove(acked);
        }
        !self.lost.is_empty()
    }
}

/// How far an announced message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stage {
    /// Announced; the peer has not asked for it.
    #[default]
    Announced,
    /// Announced; the peer has not asked for it, but the beginning is being sent.
    Pushing {
        /// The announcement's place in the order: it goes first.
        seq: u64,
    },
    /// Being sent as the answer to this pull.
    Sending {
        /// The receiver's number.
        pull: u64,
    },
}

/// A message of ours whose payload stays in the owner's memory until it has been pulled.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub peer: PeerId,
    pub op: OpId,
    pub len: u64,
    pub stage: Stage,
    pub pieces: Pieces,
    /// Whether it is in its peer's row of transfers to send from.
    pub queued: bool,
    /// Whether it counts among its peer's pushed ones.
    pub pushed: bool,
    /// Whether nobody waits for its end.
    pub buffered: bool,
}

impl Transfer {
    /// Whether the peer may have all of it, or be about to: it has been asked for, or has been sent
    /// without that.
    pub fn is_out(&self) -> bool {
        match self.stage {
            Stage::Sending { .. } => true,
            Stage::Pushing { .. } => self.pieces.sent() == self.len,
            Stage::Announced => false,
        }
    }
}

impl Default for Transfer {
    fn default() -> Transfer {
        Transfer {
            peer: PeerId(u32::MAX),
            op: OpId(0),
            len: 0,
            stage: Stage::Announced,
            pieces: Pieces::default(),
            queued: false,
            pushed: false,
            buffered: false,
        }
    }
}

/// A payload that we have asked a peer for.
#[derive(Debug)]
pub(crate) struct Pull {
    pub peer: PeerId,
    pub op: OpId,
    pub len: u64,
    pub received: RangeSet,
}

impl Default for Pull {
    fn default() -> Pull {
        Pull { peer: PeerId(u32::MAX), op: OpId(0), len: 0, received: RangeSet::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_pieces_go_first_and_acknowledged_ones_never_again() {
        let mut p = Pieces::default();
        p.start(100);
        assert_eq!(p.take(40), Some((0..40, false)));
        assert_eq!(p.take(40), Some((40..80, false)));
        assert!(!p.on_acked(0..40));
        assert!(p.on_lost(30..80));
        assert_eq!(p.waiting(), 20 + 40);
        assert_eq!(p.take(15), Some((40..55, true)));
        assert!(!p.on_acked(50..70));
        assert_eq!(p.take(99), Some((70..80, true)));
        assert_eq!(p.take(99), Some((80..100, false)));
        assert_eq!((p.take(9), p.has_more()), (None, false));
        assert!(!p.on_lost(50..60), "it has arrived");
        assert!(!p.on_acked(70..100));
        assert!(p.on_acked(40..50));
    }
}
