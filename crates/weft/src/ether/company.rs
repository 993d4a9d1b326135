//! Whether a message goes at once, or waits for others that go to the same peer.
//!
//! One that is answered must go at once. Whoever sends message after message to one peer without
//! looking for answers is in a hurry to send, not to be answered: then messages wait until a frame
//! or a burst of frames is full, or until the next poll that finds nothing, or flush.

use weft_wire::{Envelope, PeerId};

/// So many messages in a row to one peer go at once.
const ROW_MAX: u32 = 2;

/// So many messages go at once without a poll between them, to whomever.
const ALONE_MAX: u32 = 8;

/// Bytes of waiting messages that are worth a frame of their own: a frame's of the usual MTU.
const FULL_FRAME: usize = 1400;

/// Bytes of waiting messages that are worth a burst of their own, for who sends many.
const FULL_BURST: usize = 56 * 1024;

/// A burst may be so many times as long as all before it: the receiver has something to do early,
/// and few bursts come to much. (Measured with windows of 32 messages of 512 B to 2 KiB, of Open
/// MPI and natively: 12 gives 2 to 7 % more than 8, which gives 8 % more than 5 and as much as 14
/// and 24. With 4 KiB all are alike.)
const GROWTH: usize = 12;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Company {
    /// Messages since the last poll that found nothing.
    messages: u32,
    /// To whom the last ones of these went, and how many.
    to: PeerId,
    row: u32,
    /// Bytes of them that have gone, and that wait.
    gone: usize,
    waiting: usize,
}

impl Company {
    pub(super) fn new() -> Company {
        Company { messages: 0, to: PeerId(u32::MAX), row: 0, gone: 0, waiting: 0 }
    }

    /// Whether the next message goes at once if it is for `peer`.
    #[inline]
    pub(super) fn is_alone(&self, peer: PeerId) -> bool {
        self.messages < ALONE_MAX && (peer != self.to || self.row < ROW_MAX)
    }

    /// A message of `len` bytes for `peer` is to be sent: whether to send now what waits.
    #[inline]
    pub(super) fn joins(&mut self, peer: PeerId, len: usize) -> bool {
        let alone = self.is_alone(peer);
        self.waiting += len + size_of::<Envelope>();
        self.count(peer);
        let enough = (GROWTH * self.gone).clamp(FULL_FRAME, FULL_BURST);
        alone || self.waiting >= enough
    }

    /// A message of `len` bytes for `peer` has gone alone.
    #[inline]
    pub(super) fn went(&mut self, peer: PeerId, len: usize) {
        self.gone += len;
        self.count(peer);
    }

    #[inline]
    fn count(&mut self, peer: PeerId) {
        self.messages += 1;
        self.row = if peer == self.to { self.row + 1 } else { 1 };
        self.to = peer;
    }

    /// What waited is being sent.
    #[inline]
    pub(super) fn goes(&mut self) {
        self.gone += self.waiting;
        self.waiting = 0;
    }

    /// A new frame has come. Who answers each as it comes, and only that, is in no hurry.
    #[inline]
    pub(super) fn answers(&mut self) {
        if self.messages <= ALONE_MAX && self.row <= ROW_MAX {
            self.looked();
        }
    }

    /// A poll has found nothing.
    #[inline]
    pub(super) fn looked(&mut self) {
        self.messages = 0;
        self.row = 0;
        self.gone = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    /// Which of `count` messages to peers by `to` are followed by sending.
    fn sent(company: &mut Company, count: u32, len: usize, to: impl Fn(u32) -> u32) -> Vec<u32> {
        let mut all = Vec::new();
        for n in 1..=count {
            if company.joins(PeerId(to(n)), len) {
                company.goes();
                all.push(n);
            }
        }
        all
    }

    #[test]
    fn a_row_to_one_peer_goes_in_ever_longer_bursts() {
        let mut company = Company::new();
        assert_eq!(sent(&mut company, 32, KIB, |_| 1), [1, 2, 26]);
        company.looked();
        assert_eq!(sent(&mut company, 3, KIB, |_| 1), [1, 2]);
    }

    #[test]
    fn one_message_to_each_of_a_few_neighbours_waits_for_nothing() {
        let mut company = Company::new();
        assert_eq!(sent(&mut company, 6, 8, |n| n), [1, 2, 3, 4, 5, 6]);
        assert!(!sent(&mut company, 20, 8, |n| n).contains(&9), "that is no longer a few");
    }

    #[test]
    fn who_answers_every_frame_is_in_no_hurry() {
        let mut company = Company::new();
        for _ in 0..100 {
            assert!(company.is_alone(PeerId(1)));
            company.went(PeerId(1), 8);
            company.answers();
        }
        // Many answers to one frame do well together.
        (0..3).for_each(|_| _ = company.joins(PeerId(1), 8));
        company.answers();
        assert!(!company.is_alone(PeerId(1)));
        company.looked();
        assert!(company.is_alone(PeerId(1)));
    }
}
