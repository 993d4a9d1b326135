//! Large messages that both ends copy. One processor copies at half the speed of two, and the
//! sender of a large message has nothing to do but wait: so the receiver asks it for help, and each
//! of the two takes piece after piece, the receiver by reading the sender's memory, the sender by
//! writing the receiver's, until none is left. A sender that computes, or sleeps, takes none, and
//! costs nothing: nobody waits for a piece that was not begun.
//!
//! Which pieces are taken says a word in the receiver's memory for each announcement. A sender that
//! writes nonsense there, or other bytes than it should, spoils its own message only; a receiver
//! that does so gets a spoilt message.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weft_ring::Head;
use weft_sys::buf::Buf;
use weft_sys::cma;
use weft_sys::process::await_end;

use super::Shm;
use super::inbox::OFFERS;
use super::item::{self, OfferId};
use super::peer::Line;

/// From this many bytes on, the sender is asked for help, or to feed the message.
pub(super) const HELP_FROM: usize = 64 << 10;

/// A message is cut into about so many pieces: at the end, one of the two waits for the other's
/// last piece.
const PIECES: usize = 8;

/// A system call is a small part of copying so many bytes.
const PIECE_MIN: usize = 64 << 10;
const PIECE_MAX: usize = 512 << 10;

/// The word of an announcement has the announcement's turn in its upper half, and then the pieces
/// that were taken, whether the sender has failed, and the pieces that the sender has written.
const TAKEN: u32 = 16;
const FAILED: u64 = 1 << 15;
const WRITTEN: u64 = FAILED - 1;

/// How a message is cut: both ends know it from its length.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub(super) want: usize,
    pub(super) piece: usize,
}

impl Cut {
    /// `None`: too short, or so long that the pieces cannot be counted.
    fn of(want: usize) -> Option<Cut> {
        let piece = (want / PIECES).clamp(PIECE_MIN, PIECE_MAX).next_multiple_of(4 << 10);
        Cut::in_pieces(want, piece).filter(|_| want >= HELP_FROM)
    }

    /// In pieces of this length; `None` where they cannot be counted.
    pub(super) fn in_pieces(want: usize, piece: usize) -> Option<Cut> {
        let cut = Cut { want, piece };
        (piece > 0 && cut.count() < WRITTEN).then_some(cut)
    }

    fn count(self) -> u64 {
        self.want.div_ceil(self.piece) as u64
    }

    fn range(self, number: u64) -> Range<usize> {
        let from = number as usize * self.piece;
        from..(from + self.piece).min(self.want)
    }
}

/// The word of an announcement.
pub(super) struct Pieces<'a>(&'a AtomicU64);

impl<'a> Pieces<'a> {
    pub(super) fn new(word: &'a AtomicU64) -> Pieces<'a> {
        Pieces(word)
    }

    /// None is taken yet; the ring makes it visible.
    pub(super) fn open(&self, id: OfferId) {
        self.0.store(u64::from(id.turn) << 32, Ordering::Relaxed);
    }

    /// Takes the next piece, if one is left of this announcement's.
    pub(super) fn take(&self, id: OfferId, cut: Cut) -> Option<Range<usize>> {
        let taken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let left = word >> 32 == u64::from(id.turn) && count(word) < cut.count();
            left.then(|| word + (1 << TAKEN))
        });
        taken.ok().map(|word| cut.range(count(word)))
    }

    /// The sender has written a piece, or could not.
    fn written(&self, well: bool) {
        if !well {
            self.0.fetch_or(FAILED, Ordering::Relaxed);
        }
        self.0.fetch_add(1, Ordering::Release);
    }

    /// The receiver lets no more be taken, and learns how many were.
    pub(super) fn close(&self) -> u64 {
        count(self.0.fetch_or(u64::from(u16::MAX) << TAKEN, Ordering::AcqRel))
    }

    fn failed(&self) -> bool {
        self.0.load(Ordering::Acquire) & FAILED != 0
    }

    /// Whether the sender has done with so many pieces.
    fn has_written(&self, count: u64) -> bool {
        self.0.load(Ordering::Acquire) & WRITTEN >= count
    }
}

/// How many pieces were taken.
fn count(word: u64) -> u64 {
    word >> TAKEN & u64::from(u16::MAX)
}

/// The receiver's side of a message that both copy.
pub(super) struct Both {
    id: OfferId,
    cut: Cut,
    /// Pieces taken by the receiver.
    own: u64,
    /// The pieces of the sender, once it can take no more.
    theirs: Option<u64>,
}

/// What the receiver of a message that both copy does next.
pub(super) enum Next {
    /// Copies this.
    Piece(Range<usize>),
    /// Looks again later: the sender is at its last piece.
    Wait,
    /// The whole message is there.
    End,
    /// Copies all of it alone: one of the two could not copy a piece.
    Alone,
}

impl Both {
    pub(super) fn next(&mut self, line: &Line) -> Next {
        let pieces = line.inbox.pieces(self.id);
        if self.theirs.is_none() && !pieces.failed() {
            if let Some(range) = pieces.take(self.id, self.cut) {
                self.own += 1;
                return Next::Piece(range);
            }
            let theirs = self.cut.count().saturating_sub(self.own);
            return if pieces.has_written(theirs) && !pieces.failed() {
                Next::End
            } else {
                Next::Wait
            };
        }
        if self.has_left(line) { Next::Alone } else { Next::Wait }
    }

    /// The sender takes no more pieces. Whether it has left the message alone: nothing that it has
    /// begun goes on.
    pub(super) fn has_left(&mut self, line: &Line) -> bool {
        let pieces = line.inbox.pieces(self.id);
        let own = self.own;
        let theirs = *self.theirs.get_or_insert_with(|| pieces.close().saturating_sub(own));
        pieces.has_written(theirs)
    }

    /// Waits until the sender has left the message alone, or its process has ended, because the
    /// memory is about to be used for something else; not longer than `limit`.
    pub(super) fn part(&mut self, line: &Line, limit: Duration) {
        /// How long a piece takes on a busy machine.
        const SOON: Duration = Duration::from_millis(1);
        let mut waited = Duration::ZERO;
        while !self.has_left(line) && waited < limit && !await_end(line.pid, SOON) {
            waited += SOON;
        }
    }
}

/// A message of this process that its receiver wants help with.
pub(super) struct Help {
    /// The peer's place in `peers`.
    pub(super) at: usize,
    pub(super) id: OfferId,
    pub(super) cut: Cut,
    into: Into,
}

/// Where the sender puts its pieces.
#[derive(Clone, Copy)]
pub(super) enum Into {
    /// Into the receiver's memory, from this address on as the receiver counts.
    Memory(u64),
    /// Into the ring, where they have this number.
    Ring(u32),
}

impl Help {
    /// Whether the receiver is [fed](super::feed).
    pub(super) fn is_feed(&self) -> bool {
        matches!(self.into, Into::Ring(_))
    }
}

/// Asks the sender of a message of `want` bytes for help.
pub(super) fn ask(line: &mut Line, id: OfferId, into: &Buf, want: usize) -> Option<Both> {
    let cut = Cut::of(want).filter(|_| line.cma)?;
    let mut pieces = into.pieces();
    let (Some(whole), None) = (pieces.next(), pieces.next()) else { return None };
    invite(line, id, item::HELP, whole.addr() as u64, want);
    Some(Both { id, cut, own: 0, theirs: None })
}

/// Lets the sender of a message of `want` bytes take pieces, and tells it so by an item of this
/// kind, which says how. Where there is no room, or the sender sleeps, it goes on without.
pub(super) fn invite(line: &mut Line, id: OfferId, kind: u8, how: u64, want: usize) {
    line.inbox.pieces(id).open(id);
    if line.ends.push_by_ring(kind, Head(id.pack(), how, want as u64), &[]).is_ok() {
        line.mention();
    }
}

impl Shm {
    /// The receiver of one of our messages asks for help.
    pub(super) fn on_help(&mut self, at: usize, head: Head) {
        let into = Into::Memory(head.1);
        self.enlist(at, head, into, |line, want| Cut::of(want).filter(|_| line.cma && line.writes));
    }

    /// The receiver of one of our messages lets us take pieces, cut so, if that can be.
    pub(super) fn enlist(
        &mut self,
        at: usize,
        Head(id, _, want): Head,
        into: Into,
        cut: impl FnOnce(&Line, usize) -> Option<Cut>,
    ) {
        let (id, peer) = (OfferId::unpack(id), &self.peers[at]);
        let (Some(offer), Some(line)) = (peer.offers.get(id), &peer.line) else { return };
        let want = usize::try_from(want).unwrap_or(usize::MAX);
        let cut = cut(line, want).filter(|_| want <= offer.payload.len());
        // A peer that asks twice for each of its messages is not honest.
        if let Some(cut) = cut
            && self.helps.len() < OFFERS
        {
            self.helps.push_back(Help { at, id, cut, into });
        }
    }

    /// Copies pieces of messages whose receivers want help, at most about `budget` bytes.
    pub(super) fn go_on_helping(&mut self, mut budget: usize) {
        while budget > 0
            && let Some(help) = self.helps.pop_front()
        {
            let done = match help.into {
                // One at a time: what the other end feeds meanwhile is taken out in between.
                Into::Ring(number) => self.feed(&help, number).map(|len| (len, budget)),
                Into::Memory(addr) => Some(self.write(&help, addr)).map(|len| (len, len)),
            };
            match done {
                Some((0, _)) => {}
                Some((_, spent)) => {
                    budget -= spent.min(budget);
                    self.helps.push_front(help);
                }
                None => return self.helps.push_front(help),
            }
        }
    }

    /// Copies one piece into the receiver's memory and gives its length, 0 when nothing is left.
    fn write(&mut self, help: &Help, addr: u64) -> usize {
        let peer = &mut self.peers[help.at];
        let (Some(line), Some(offer)) = (&mut peer.line, peer.offers.get(help.id)) else {
            return 0;
        };
        let pieces = line.outbox.pieces(help.id);
        let Some(range) = pieces.take(help.id, help.cut) else { return 0 };
        let len = range.len();
        let done = write(line.pid, &offer.payload, range, (addr, help.cut.want as u64));
        pieces.written(done.is_ok());
        if let Err(error) = done {
            tracing::info!("{}: no help with large messages: {error}", peer.address);
            line.writes = false;
            return 0;
        }
        self.count.helped_bytes += len as u64;
        len
    }
}

fn write(pid: u32, from: &Buf, range: Range<usize>, whole: (u64, u64)) -> std::io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        match cma::write(pid, &[whole], at as u64, from, at, range.end - at)? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            done => at += done,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_in_one_piece() {
        for want in [HELP_FROM, HELP_FROM + 1, 1 << 20, (1 << 20) + 4097, 1 << 30, 15 << 30] {
            let cut = Cut::of(want).unwrap();
            let mut end = 0;
            for number in 0..cut.count() {
                let range = cut.range(number);
                assert!(range.start == end && !range.is_empty(), "{want}: {range:?}");
                end = range.end;
            }
            assert_eq!(end, want);
        }
        assert!(Cut::of(HELP_FROM - 1).is_none());
        assert!(Cut::of(usize::MAX / 2).is_none(), "more pieces than can be counted");
    }

    #[test]
    fn each_piece_is_taken_once_and_none_after_the_end() {
        let word = AtomicU64::new(u64::MAX);
        let (pieces, cut) = (Pieces::new(&word), Cut::of(1 << 20).unwrap());
        let id = OfferId { slot: 1, turn: u32::MAX };
        pieces.open(id);
        let other = OfferId { slot: 1, turn: 0 };
        assert_eq!(pieces.take(other, cut), None, "of an earlier message in this place");
        for number in 0..cut.count() {
            assert_eq!(pieces.take(id, cut), Some(cut.range(number)));
        }
        assert_eq!(pieces.take(id, cut), None);
        assert!(!pieces.has_written(1));
        pieces.written(true);
        assert!(pieces.has_written(1) && !pieces.has_written(2) && !pieces.failed());
        pieces.written(false);
        assert!(pieces.has_written(2) && pieces.failed());

        pieces.open(id);
        assert!(pieces.take(id, cut).is_some());
        assert_eq!(pieces.close(), 1);
        assert_eq!(pieces.take(id, cut), None);
    }
}
