//! Large messages through the ring, by a sender who has nothing else to do: it puts piece after
//! piece in while the receiver takes others out. That is two copies in place of one by cross-memory
//! attach, but plain ones, at both ends at once and of what lies in the cache; attach has to find
//! each page of the sender's memory first, which can take longer than to copy it. Which of the two
//! is faster differs by processor and kernel, so it is measured.
//!
//! A sender that computes must not be waited for. So pieces are taken as those of messages that
//! both copy ([`super::help`]): the sender takes one only when the ring has room for all of it, and
//! the receiver reads one by itself when none has come for a while.

use weft_ring::{Head, Refused};
use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;

use super::Shm;
use super::help::{self, Cut, HELP_FROM, Help, Into, Next};
use super::item::{self, OfferId};
use super::peer::Line;
use super::pull::{Pull, Sender};

/// The receiver reads a piece by itself when none has come for so long: a sender that waits has
/// answered by then.
const PATIENCE_NS: u64 = 20_000;

/// Marks the number of a feed among those of pulls.
const FEED: u32 = 1 << 31;

/// The receiver's side of a message that it is fed.
pub(super) struct Feed {
    id: OfferId,
    cut: Cut,
    number: u32,
    /// Bytes that have come, and those that the receiver reads itself.
    come: usize,
    own: usize,
    /// One could not be read: the sender takes no more.
    is_over: bool,
}

impl Feed {
    /// What the receiver does next of a message that was begun then.
    pub(super) fn next(&mut self, line: &Line, begun_ns: u64) -> Next {
        if self.is_over {
            return Next::Alone;
        }
        if self.come + self.own >= self.cut.want {
            return Next::End;
        }
        let is_fed = line.attentive || self.is_fed();
        let last_ns = begun_ns.max(line.fed_ns);
        if is_fed && now_ns().saturating_sub(last_ns) < PATIENCE_NS {
            return Next::Wait;
        }
        match line.inbox.pieces(self.id).take(self.id, self.cut) {
            Some(range) => {
                self.own += range.len();
                Next::Piece(range)
            }
            // What the sender has taken is in the ring, or will be in a moment.
            None => Next::Wait,
        }
    }

    /// A piece by itself could not be read, or the message is given up.
    pub(super) fn end(&mut self, line: &Line) {
        line.inbox.pieces(self.id).close();
        self.is_over = true;
    }

    /// Whether the sender has put anything into the ring.
    pub(super) fn is_fed(&self) -> bool {
        self.come > 0
    }

    /// A piece of this feed has come, for this place: writes it there.
    pub(super) fn take(&mut self, head: Head, bytes: &[u8], into: &Buf) -> bool {
        let (number, from) = (head.0, usize::try_from(head.1).unwrap_or(usize::MAX));
        let fits = from.checked_add(bytes.len()).is_some_and(|end| end <= self.cut.want);
        let is_one = number == u64::from(self.number) && !self.is_over && fits;
        if is_one {
            into.write(from, bytes);
            self.come += bytes.len();
        }
        is_one
    }
}

/// Whether a piece with this number is one of a feed.
pub(super) fn is_feed(number: u64) -> bool {
    number >= u64::from(FEED)
}

impl Shm {
    /// Asks the sender of a message of `want` bytes to feed it, if that is the faster way.
    pub(super) fn ask_to_be_fed(&mut self, at: usize, id: OfferId, want: usize) -> Option<Feed> {
        let both_ways = self.both_ways > 0;
        let first = self.pulls.is_empty();
        let is_ring = || self.feeding.is_ring(first, both_ways, self.attach_pace);
        if want < HELP_FROM || !self.options.feeds.unwrap_or_else(is_ring) {
            return None;
        }
        let line = self.peers[at].line.as_mut()?;
        let cut = Cut::in_pieces(want, self.options.geometry.max_len() / 2)?;
        let number = FEED | self.feeding.feeds;
        self.feeding.feeds = (self.feeding.feeds + 1) % FEED;
        let how = u64::from(number) | (cut.piece as u64) << 32;
        help::invite(line, id, item::FEED, how, want);
        Some(Feed { id, cut, number, come: 0, own: 0, is_over: false })
    }

    /// The receiver of one of our messages wants to be fed.
    pub(super) fn on_feed(&mut self, at: usize, head: Head) {
        let (number, piece) = (head.1 as u32, (head.1 >> 32) as usize);
        self.enlist(at, head, Into::Ring(number), |line, want| {
            Cut::in_pieces(want, piece).filter(|_| piece <= line.ends.max_len())
        });
    }

    /// A piece of a message that a sender feeds has come.
    pub(super) fn on_fed_piece(&mut self, at: usize, head: Head) {
        let Some(line) = &mut self.peers[at].line else { return };
        let begun_ns = now_ns();
        let bytes = line.ends.payload();
        let takes = |pull: &mut Pull| match &mut pull.sender {
            Sender::Feeds(feed) => pull.at == at && feed.take(head, bytes, &pull.into),
            Sender::Helps(_) | Sender::Idle => false,
        };
        // A peer that feeds what it was not asked for does so in vain.
        if self.pulls.iter_mut().any(takes) {
            let (len, now_ns) = (bytes.len(), now_ns());
            self.feeding.drain.note(len, now_ns - begun_ns);
            self.count.ring_bytes += len as u64;
            line.fed_ns = now_ns;
        }
    }

    /// Puts one piece into the ring and gives its length, 0 when nothing is left; `None`: there is
    /// no room for it now.
    pub(super) fn feed(&mut self, help: &Help, number: u32) -> Option<usize> {
        let peer = &mut self.peers[help.at];
        let (Some(line), Some(offer)) = (&mut peer.line, peer.offers.get(help.id)) else {
            return Some(0);
        };
        match line.ends.reserve(help.cut.piece) {
            Ok(_) => {}
            Err(Refused::Full) => return None,
            Err(Refused::TooLong) => return Some(0),
            Err(Refused::Corrupt(error)) => {
                line.end(&error.to_string());
                return Some(0);
            }
        }
        let taken = line.outbox.pieces(help.id).take(help.id, help.cut);
        let Some(range) = taken else { return Some(0) };
        // The last one is shorter, and finds room where a longer one would.
        if line.ends.reserve(range.len()).is_err() {
            line.end("a ring that had room has none");
            return Some(0);
        }
        let begun_ns = now_ns();
        line.fill(|copier, space| _ = copier.read(&offer.payload, range.start, space));
        self.feeding.fill.note(range.len(), now_ns() - begun_ns);
        line.ends.commit(item::PIECE, Head(number.into(), range.start as u64, 0));
        self.count.woken += u64::from(line.ring());
        Some(range.len())
    }
}
