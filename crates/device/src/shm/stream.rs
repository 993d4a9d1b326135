//! Large messages through the ring where there is no other way: the receiver asks, and the sender
//! puts piece after piece in, in order, while the receiver takes others out.

use weft_ring::{Head, Refused};
use weft_sys::buf::Buf;

use super::item::{self, OfferId};
use super::peer::{Line, Post};
use super::pull::{BYTES_PER_POLL, Pull};
use super::{Queued, Shm, feed};

/// What is sent through the ring because the peer has asked for it.
pub(super) struct Stream {
    at: usize,
    id: OfferId,
    /// The receiver's number for it.
    pull: u64,
    sent: usize,
    want: usize,
}

impl Stream {
    /// The peer's place in `peers`.
    pub(super) fn at(&self) -> usize {
        self.at
    }
}

impl Shm {
    /// Asks the sender for pieces through the ring.
    pub(super) fn ask(&mut self, pull: Pull) {
        let (id, want, at) = (pull.announcement.id, pull.want, pull.at);
        let free = self.asked.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.asked.push(None);
            self.asked.len() - 1
        });
        self.asked[number] = Some(pull);
        if let Some(line) = &mut self.peers[at].line {
            line.post(Post::pull(id, want, number));
        }
    }

    /// The receiver wants one of our messages in pieces.
    pub(super) fn on_pull(&mut self, at: usize, head: Head) {
        let id = OfferId::unpack(head.0);
        let Some(offer) = self.peers[at].offers.get(id) else { return };
        let twice = self.streams.iter().any(|s| s.at == at && s.id == id);
        let want = usize::try_from(head.1).unwrap_or(usize::MAX);
        if !twice && want > 0 && want <= offer.payload.len() {
            self.streams.push_back(Stream { at, id, pull: head.2, sent: 0, want });
        }
    }

    /// Puts pieces into the rings where there is room. Gives whether anything was put.
    pub(super) fn go_on_streaming(&mut self) {
        let mut budget = BYTES_PER_POLL;
        for _ in 0..self.streams.len() {
            let Some(mut stream) = self.streams.pop_front() else { return };
            let peer = &mut self.peers[stream.at];
            let (Some(offer), Some(line)) = (peer.offers.get(stream.id), &mut peer.line) else {
                continue;
            };
            let full = !put_pieces(&mut stream, &offer.payload, line, &mut budget);
            self.count.woken += u64::from(line.ring());
            if stream.sent == stream.want {
                if let Some(offer) = peer.offers.remove(stream.id) {
                    self.queued.push_back(Queued::Done(offer.op));
                }
                continue;
            }
            self.streams.push_back(stream);
            if !full && budget == 0 {
                return;
            }
        }
    }

    /// A piece of a message has come.
    pub(super) fn on_piece(&mut self, at: usize, head: Head) {
        if feed::is_feed(head.0) {
            return self.on_fed_piece(at, head);
        }
        let number = usize::try_from(head.0).unwrap_or(usize::MAX);
        let Some(slot) = self.asked.get_mut(number) else { return };
        let (Some(pull), Some(line)) = (slot.as_mut(), &self.peers[at].line) else { return };
        let bytes = line.ends.payload();
        // A peer that sends other pieces than it was asked for spoils its own message.
        let done = pull.now.start;
        if pull.at != at || head.1 != done as u64 || bytes.len() > pull.now.len() {
            return;
        }
        pull.into.write(done, bytes);
        pull.now.start += bytes.len();
        self.count.ring_bytes += bytes.len() as u64;
        if pull.now.is_empty()
            && let Some(pull) = slot.take()
        {
            self.count.pulled += 1;
            self.count.pulled_bytes += pull.want as u64;
            self.queued.push_back(Queued::Done(pull.op));
        }
    }
}

/// Puts pieces into the ring until it is full (`false`) or the budget is spent.
fn put_pieces(stream: &mut Stream, from: &Buf, line: &mut Line, budget: &mut usize) -> bool {
    let longest = line.ends.max_len() / 2;
    while stream.sent < stream.want && *budget > 0 {
        let len = (stream.want - stream.sent).min(longest);
        match line.ends.reserve(len) {
            Ok(_) => line.fill(|copier, space| _ = copier.read(from, stream.sent, space)),
            Err(Refused::Corrupt(error)) => {
                line.end(&error.to_string());
                return false;
            }
            Err(Refused::Full | Refused::TooLong) => return false,
        }
        line.ends.commit(item::PIECE, Head(stream.pull, stream.sent as u64, 0));
        stream.sent += len;
        *budget = budget.saturating_sub(len);
    }
    true
}
