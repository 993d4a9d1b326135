//! Large messages: how a payload gets from the sender's memory into the receiver's once both are
//! known. In the order of preference: a plain copy out of the sender's region, which is mapped
//! here; one copy by cross-memory attach; pieces through the ring, which the sender puts in while
//! the receiver takes others out.

use std::sync::Arc;

use weft_ring::{Head, Refused};
use weft_sys::buf::Buf;
use weft_sys::cma;
use weft_sys::mem::ReadOnly;
use weft_wire::{OpId, PeerId, Ticket};

use super::connect::serve_line;
use super::item::{self, Announcement, OfferId};
use super::peer::{Line, Post};
use super::{Queued, Shm};
use crate::error::Error;

/// Most bytes that are copied in one poll, so that other arrivals do not wait longer than for this.
const BYTES_PER_POLL: usize = 1 << 20;

/// A pull that goes on.
pub(super) struct Pull {
    /// The peer's place in `peers`.
    at: usize,
    op: OpId,
    announcement: Announcement,
    into: Buf,
    want: usize,
    done: usize,
    way: Way,
}

enum Way {
    /// Out of the sender's region, from this byte on.
    Region(Arc<ReadOnly>, usize),
    Attach,
    /// Through the ring.
    Ring,
}

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
    pub(super) fn pull_in(&mut self, peer: PeerId, ticket: Ticket, into: Buf, op: OpId) {
        let Some(at) = self.at(peer) else {
            return self.queued.push_back(Queued::Failed(op, Error::UnknownPeer { peer }));
        };
        let id = OfferId::unpack(ticket.0);
        let known = &mut self.peers[at];
        let arrival = known.arrivals.get_mut(id.slot as usize);
        let announcement = arrival.and_then(|a| a.take_if(|a| a.id == id));
        let Some(line) = &mut known.line else {
            let error = known.dead("its memory is gone");
            return self.queued.push_back(Queued::Failed(op, error));
        };
        // From here on the sender cannot take it back.
        let Some(announcement) = announcement.filter(|a| line.inbox.take(a.id)) else {
            return self.queued.push_back(Queued::Failed(op, Error::Withdrawn { peer }));
        };
        let want = usize::try_from(announcement.len).map_or(into.len(), |len| len.min(into.len()));
        let way = way(line, &announcement, &self.sockets);
        let pull = Pull { at, op, announcement, into, want, done: 0, way };
        if want == 0 {
            self.pulled(pull, true);
        } else if matches!(pull.way, Way::Ring) {
            self.ask(pull);
        } else {
            self.pulls.push_back(pull);
        }
    }

    /// Asks the sender for pieces through the ring.
    fn ask(&mut self, pull: Pull) {
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

    /// Goes on with pulls that need no help of the sender.
    pub(super) fn go_on_pulling(&mut self) {
        let mut budget = BYTES_PER_POLL;
        while budget > 0
            && let Some(mut pull) = self.pulls.pop_front()
        {
            let len = (pull.want - pull.done).min(budget);
            match self.copy(&mut pull, len) {
                Ok(0) => self.pulled(pull, false),
                Ok(done) => {
                    pull.done += done;
                    budget = budget.saturating_sub(done.max(1 << 12));
                    if pull.done == pull.want {
                        self.pulled(pull, true);
                    } else {
                        self.pulls.push_front(pull);
                    }
                }
                Err(error) => return self.attach_failed(pull, &error),
            }
        }
    }

    fn copy(&mut self, pull: &mut Pull, len: usize) -> std::io::Result<usize> {
        let done = pull.done;
        if let Way::Region(memory, from) = &pull.way {
            self.count.region_bytes += len as u64;
            return Ok(memory.copy_to(from + done, &pull.into, done, len));
        }
        let pid = self.peers[pull.at].line.as_ref().map_or(0, |line| line.pid);
        let Announcement { first, rest, .. } = &pull.announcement;
        let got = if rest.is_empty() {
            cma::read(pid, &[*first], done as u64, &pull.into, done, len)?
        } else {
            let mut all = Vec::with_capacity(1 + rest.len());
            all.push(*first);
            all.extend_from_slice(rest);
            cma::read(pid, &all, done as u64, &pull.into, done, len)?
        };
        self.count.attach_bytes += got as u64;
        Ok(got)
    }

    /// Cross-memory attach has failed. A bad address fails the message; a process that has ended
    /// will be noticed by its closed socket; whatever else, the ring still works.
    fn attach_failed(&mut self, mut pull: Pull, error: &std::io::Error) {
        const EFAULT: i32 = 14;
        if error.raw_os_error() == Some(EFAULT) {
            return self.pulled(pull, false);
        }
        tracing::info!("cross-memory attach failed ({error}); large messages go through the ring");
        if let Some(line) = &mut self.peers[pull.at].line {
            line.cma = false;
        }
        (pull.way, pull.done) = (Way::Ring, 0);
        self.ask(pull);
    }

    /// A pull has ended; the sender is told.
    fn pulled(&mut self, pull: Pull, well: bool) {
        let peer = &mut self.peers[pull.at];
        if let Some(line) = &mut peer.line {
            line.post(Post::done(pull.announcement.id, well));
        }
        self.count.pulled += 1;
        let event = if well {
            Queued::Done(pull.op)
        } else {
            Queued::Failed(pull.op, peer.dead("the memory of its message cannot be read"))
        };
        self.queued.push_back(event);
    }

    /// The receiver has pulled one of our messages.
    pub(super) fn on_done(&mut self, at: usize, head: Head) {
        let peer = &mut self.peers[at];
        let Some(offer) = peer.offers.remove(OfferId::unpack(head.0)) else { return };
        let event = if head.1 == 1 {
            Queued::Done(offer.op)
        } else {
            Queued::Failed(offer.op, peer.dead("it could not read the message's memory"))
        };
        self.queued.push_back(event);
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
        let number = usize::try_from(head.0).unwrap_or(usize::MAX);
        let Some(slot) = self.asked.get_mut(number) else { return };
        let (Some(pull), Some(line)) = (slot.as_mut(), &self.peers[at].line) else { return };
        let bytes = line.ends.payload();
        // A peer that sends other pieces than it was asked for spoils its own message.
        if pull.at != at || head.1 != pull.done as u64 || bytes.len() > pull.want - pull.done {
            return;
        }
        pull.into.write(pull.done, bytes);
        pull.done += bytes.len();
        self.count.ring_bytes += bytes.len() as u64;
        if pull.done == pull.want
            && let Some(pull) = slot.take()
        {
            self.count.pulled += 1;
            self.queued.push_back(Queued::Done(pull.op));
        }
    }

    /// Ends every pull and stream with a peer that is gone.
    pub(super) fn drop_pulls(&mut self, at: usize, error: &Error) {
        let queued = &mut self.queued;
        let mut fail = |pull: &Pull| {
            queued.push_back(Queued::Failed(pull.op, error.clone()));
        };
        self.pulls.retain(|pull| {
            if pull.at == at {
                fail(pull);
            }
            pull.at != at
        });
        for slot in &mut self.asked {
            if let Some(pull) = slot.take_if(|pull| pull.at == at) {
                fail(&pull);
            }
        }
        self.streams.retain(|stream| stream.at != at);
    }
}

/// The best way to a payload.
fn way(line: &mut Line, a: &Announcement, sockets: &weft_sys::epoll::Epoll) -> Way {
    if a.region != 0 && a.rest.is_empty() {
        if !line.regions.iter().any(|r| r.id == a.region) {
            // Its descriptor was sent before the announcement, so it is on the socket.
            serve_line(line, sockets);
        }
        if let Some(found) = line.regions.iter().position(|r| r.id == a.region) {
            let region = &line.regions[found];
            let from = a.first.0.checked_sub(region.addr).and_then(|f| usize::try_from(f).ok());
            let room = from.and_then(|from| region.memory.len().checked_sub(from));
            if let (Some(from), Some(room)) = (from, room)
                && room as u64 >= a.len
            {
                return Way::Region(region.memory.clone(), from);
            }
        }
    }
    if line.cma && a.named { Way::Attach } else { Way::Ring }
}

/// Puts pieces into the ring until it is full (`false`) or the budget is spent.
fn put_pieces(stream: &mut Stream, from: &Buf, line: &mut Line, budget: &mut usize) -> bool {
    let longest = line.ends.max_len() / 2;
    while stream.sent < stream.want && *budget > 0 {
        let len = (stream.want - stream.sent).min(longest);
        match line.ends.reserve(len) {
            Ok(space) => from.read(stream.sent, space),
            Err(Refused::Corrupt(error)) => {
                line.end(&error.to_string());
                return false;
            }
            Err(Refused::Full | Refused::TooLong) => return false,
        };
        line.ends.commit(item::PIECE, Head(stream.pull, stream.sent as u64, 0));
        stream.sent += len;
        *budget = budget.saturating_sub(len);
    }
    true
}
