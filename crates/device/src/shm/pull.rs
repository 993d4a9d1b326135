//! Large messages: how a payload gets from the sender's memory into the receiver's once both are
//! known. In the order of preference: a plain copy out of the sender's region, which is mapped
//! here; one copy by cross-memory attach, or pieces that the sender [feeds](super::feed) through
//! the ring, whichever is faster; such pieces without attach ([`super::stream`]). With plain copies
//! and attach the sender may [help](super::help).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use weft_ring::Head;
use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_sys::cma;
use weft_sys::mem::ReadOnly;
use weft_wire::{OpId, PeerId, Ticket};

use super::connect::serve_line;
use super::feed::Feed;
use super::help::{self, Both, HELP_FROM, Next};
use super::item::{Announcement, OfferId};
use super::peer::{Line, Peer, Post};
use super::poll::DYING;
use super::region::Mapped;
use super::{Queued, Shm};
use crate::error::Error;

/// Most bytes that are copied in one poll, so that other arrivals do not wait longer than for this:
/// half a millisecond. Both ways at once, 4 MiB in pieces of one take a tenth longer.
pub(super) const BYTES_PER_POLL: usize = 4 << 20;

/// Longer pieces show how fast they are copied.
const PACED_MAX: usize = 16 << 10;

/// So many pulls from one that was both ways at once on count as such: a window of messages.
const BOTH_WAYS_PULLS: u32 = 32;

/// There is no such process any more; or no such memory.
const ESRCH: i32 = 3;
const EFAULT: i32 = 14;

/// A pull that goes on.
pub(super) struct Pull {
    /// The peer's place in `peers`.
    pub(super) at: usize,
    pub(super) op: OpId,
    pub(super) announcement: Announcement,
    pub(super) into: Buf,
    pub(super) want: usize,
    /// What is to be copied now; all of it, where nobody helps.
    pub(super) now: Range<usize>,
    pub(super) sender: Sender,
    way: Way,
    /// When it was begun, and whether there was one the other way.
    begun_ns: u64,
    both_ways: bool,
}

/// What the sender of a message may do for it, if it has nothing else to do.
pub(super) enum Sender {
    Idle,
    /// Writes pieces.
    Helps(Both),
    /// Puts pieces into the ring.
    Feeds(Feed),
}

impl Pull {
    /// Waits until the sender writes no more of it, at most so long: see [`Both::part`].
    pub(super) fn part(&mut self, peers: &[Peer], limit: Duration) {
        if let (Sender::Helps(both), Some(line)) = (&mut self.sender, &peers[self.at].line) {
            both.part(line, limit);
        }
    }

    /// Who feeds it: the peer's place.
    fn feeder(&self) -> Option<usize> {
        matches!(self.sender, Sender::Feeds(_)).then_some(self.at)
    }

    /// A piece could not be copied: has the sender begin none any more. `false`: it does nothing.
    fn stops_sender(&mut self, line: &Line) -> bool {
        match &mut self.sender {
            Sender::Helps(both) => _ = both.has_left(line),
            Sender::Feeds(feed) => feed.end(line),
            Sender::Idle => return false,
        }
        self.now = 0..0;
        true
    }

    /// What is left to be copied now, or what else there is to be done.
    fn next(&mut self, line: &Line) -> Next {
        if !self.now.is_empty() {
            return Next::Piece(self.now.clone());
        }
        let next = match &mut self.sender {
            Sender::Helps(both) => both.next(line),
            Sender::Feeds(feed) => feed.next(line, self.begun_ns),
            Sender::Idle => return Next::End,
        };
        match &next {
            Next::Piece(piece) => self.now = piece.clone(),
            Next::Alone => (self.sender, self.now) = (Sender::Idle, 0..self.want),
            Next::Wait | Next::End => {}
        }
        next
    }
}

/// What a look at a pull has led to.
enum Step {
    /// So many bytes were copied.
    Copied(usize),
    /// Its sender is at its last piece.
    Waits,
    /// It has ended, well or not.
    Ended(bool),
}

enum Way {
    /// Out of the sender's region, from this byte on.
    Region(Arc<ReadOnly>, usize),
    Attach,
    /// Through the ring.
    Ring,
}

impl Shm {
    pub(super) fn pull_in(&mut self, peer: PeerId, ticket: Ticket, into: Buf, op: OpId) {
        let Some(at) = self.at(peer) else {
            return self.queued.push_back(Queued::Failed(op, Error::UnknownPeer { peer }));
        };
        let id = OfferId::unpack(ticket.0);
        // Where processes outnumber the processors, each piece may mean a wait for its copier.
        let crowded = self.peers.len() >= self.processors;
        // Who sends while it receives most likely has a partner that does so too, and has its own
        // copy to make: both ways at once, each is fastest with its own message in one piece.
        // What follows soon is most likely more of the same, also where one of the two is ahead.
        let sends = self.peers.iter().any(|peer| !peer.offers.is_empty());
        self.both_ways = if sends { BOTH_WAYS_PULLS } else { self.both_ways.saturating_sub(1) };
        let both_ways = self.both_ways > 0;
        let known = &mut self.peers[at];
        let arrival = known.arrivals.get_mut(id.slot as usize);
        let announcement = arrival.and_then(|a| a.take_if(|a| a.id == id));
        let Some(line) = &mut known.line else {
            let error = known.dead("its memory is gone");
            return self.queued.push_back(Queued::Failed(op, error));
        };
        // From here on the sender cannot take it back.
        let has_come = announcement.is_some();
        let Some(announcement) = announcement.filter(|a| line.inbox.take(a.id)) else {
            if has_come {
                line.post(Post::done(id, false));
                self.count_backlogs();
            }
            return self.queued.push_back(Queued::Failed(op, Error::Withdrawn { peer }));
        };
        let want = usize::try_from(announcement.len).map_or(into.len(), |len| len.min(into.len()));
        let way = way(line, &announcement, &self.sockets);
        let begun_ns = now_ns();
        let sender = if crowded || matches!(way, Way::Ring) {
            Sender::Idle
        } else {
            self.ask_sender(at, announcement.id, &into, (want, &way))
        };
        let now = if matches!(sender, Sender::Idle) { 0..want } else { 0..0 };
        let pull = Pull { at, op, announcement, into, want, now, sender, way, begun_ns, both_ways };
        if want == 0 {
            self.pulled(pull, true);
        } else if matches!(pull.way, Way::Ring) {
            self.ask(pull);
        } else {
            self.pulls.push_back(pull);
        }
    }

    /// Asks the sender of a message of so many bytes, which goes this way, to feed it or to help.
    fn ask_sender(&mut self, at: usize, id: OfferId, into: &Buf, how: (usize, &Way)) -> Sender {
        let (want, way) = how;
        let attach = matches!(way, Way::Attach);
        if let Some(feed) = attach.then(|| self.ask_to_be_fed(at, id, want)).flatten() {
            return Sender::Feeds(feed);
        }
        let line = self.peers[at].line.as_mut().filter(|_| self.both_ways == 0);
        line.and_then(|line| help::ask(line, id, into, want)).map_or(Sender::Idle, Sender::Helps)
    }

    /// Goes on with pulls that this process copies; gives how many bytes more might be copied.
    pub(super) fn go_on_pulling(&mut self) -> usize {
        let (mut budget, mut place) = (BYTES_PER_POLL, 0);
        // Who feeds messages does so one after the other.
        let mut feeder = None;
        while budget > 0 && place < self.pulls.len() {
            if feeder.is_some() && feeder == self.pulls[place].feeder() {
                place += 1;
                continue;
            }
            match self.copy(place, budget) {
                Ok(Step::Copied(done)) => budget = budget.saturating_sub(done.max(1 << 12)),
                // The next one can be begun.
                Ok(Step::Waits) => {
                    feeder = self.pulls[place].feeder().or(feeder);
                    place += 1;
                }
                Ok(Step::Ended(well)) => {
                    if let Some(pull) = self.pulls.remove(place) {
                        self.pulled(pull, well);
                    }
                }
                Err(error) => {
                    if let Some(pull) = self.pulls.remove(place) {
                        self.attach_failed(pull, &error);
                    }
                    return 0;
                }
            }
        }
        budget
    }

    /// Copies `len` bytes by calls that take the process, where to begin and how much is left; out
    /// of this one, if it `writes`.
    pub(super) fn copy_alone(
        &mut self,
        (peer, writes): (PeerId, bool),
        len: usize,
        copy: impl Fn(u32, usize, usize) -> std::io::Result<usize>,
    ) -> bool {
        let line = self.at(peer).and_then(|at| self.peers[at].line.as_mut());
        let Some(line) = line.filter(|l| l.talks && l.cma && (l.writes || !writes)) else {
            return false;
        };
        let mut done = 0;
        while done < len {
            match copy(line.pid, done, len - done) {
                Ok(copied @ 1..) => done += copied,
                Ok(0) => return false,
                Err(error) => {
                    // One that has ended, or memory that is none, says nothing of others.
                    if !matches!(error.raw_os_error(), Some(ESRCH | EFAULT)) {
                        line.writes &= !writes;
                        line.cma &= writes;
                    }
                    return false;
                }
            }
        }
        self.count.attach_bytes += len as u64;
        true
    }

    /// Copies what is next of a pull, at most `budget` bytes.
    fn copy(&mut self, place: usize, budget: usize) -> std::io::Result<Step> {
        let pull = &mut self.pulls[place];
        let Some(line) = &self.peers[pull.at].line else { return Ok(Step::Ended(false)) };
        let piece = match pull.next(line) {
            Next::Piece(piece) => piece,
            Next::Wait => return Ok(Step::Waits),
            Next::End => return Ok(Step::Ended(true)),
            Next::Alone => return Ok(Step::Copied(0)),
        };
        let len = piece.len().min(budget);
        let (copied, count) = match &pull.way {
            Way::Region(memory, from) => {
                let done = memory.copy_to(from + piece.start, &pull.into, piece.start, len);
                (Ok(done), &mut self.count.region_bytes)
            }
            _ => {
                let begun = (len > PACED_MAX).then(now_ns);
                let done = attach(line.pid, &pull.announcement, &pull.into, piece.start, len);
                if let (Some(begun), Ok(done @ 1..)) = (begun, &done) {
                    self.attach_pace.note(*done, now_ns() - begun);
                }
                (done, &mut self.count.attach_bytes)
            }
        };
        if matches!(copied, Ok(0) | Err(_)) && pull.stops_sender(line) {
            // What the sender has begun ends first; then all is tried alone.
            return Ok(Step::Waits);
        }
        let done = copied?;
        if done == 0 {
            return Ok(Step::Ended(false));
        }
        *count += done as u64;
        pull.now.start += done;
        // What the sender feeds meanwhile is taken out between two pieces.
        Ok(Step::Copied(if pull.feeder().is_some() { BYTES_PER_POLL } else { done }))
    }

    /// Cross-memory attach has failed. A bad address fails the message; a process that has ended
    /// will be noticed by its closed socket; whatever else, the ring still works.
    fn attach_failed(&mut self, mut pull: Pull, error: &std::io::Error) {
        if error.raw_os_error() == Some(EFAULT) {
            return self.pulled(pull, false);
        }
        tracing::info!("cross-memory attach failed ({error}); large messages go through the ring");
        if let Some(line) = &mut self.peers[pull.at].line {
            line.cma = false;
        }
        (pull.way, pull.now) = (Way::Ring, 0..pull.want);
        self.ask(pull);
    }

    /// A pull has ended; the sender is told.
    fn pulled(&mut self, pull: Pull, well: bool) {
        if well && matches!(pull.way, Way::Attach) {
            self.learn(&pull);
        }
        let peer = &mut self.peers[pull.at];
        if let Some(line) = &mut peer.line {
            line.post(Post::done(pull.announcement.id, well));
        }
        self.count.pulled += 1;
        let event = if well {
            self.count.pulled_bytes += pull.want as u64;
            Queued::Done(pull.op)
        } else {
            Queued::Failed(pull.op, peer.dead("the memory of its message cannot be read"))
        };
        self.queued.push_back(event);
    }

    /// Learns from a large message how fast those go.
    fn learn(&mut self, pull: &Pull) {
        let by_ring = match &pull.sender {
            Sender::Feeds(feed) => {
                if let Some(line) = &mut self.peers[pull.at].line {
                    line.attentive = feed.is_fed();
                }
                true
            }
            Sender::Helps(_) | Sender::Idle => false,
        };
        if pull.want >= HELP_FROM {
            self.feeding.ended(by_ring, pull.both_ways, pull.want, pull.begun_ns);
        }
    }

    /// The receiver has pulled one of our messages.
    pub(super) fn on_done(&mut self, at: usize, head: Head) {
        let peer = &mut self.peers[at];
        let id = OfferId::unpack(head.0);
        let Some(offer) = peer.offers.remove(id) else { return peer.offers.forgotten(id) };
        let event = if head.1 == 1 {
            Queued::Done(offer.op)
        } else {
            Queued::Failed(offer.op, peer.dead("it could not read the message's memory"))
        };
        self.queued.push_back(event);
    }

    /// Ends every pull and stream with a peer that is gone.
    pub(super) fn drop_pulls(&mut self, at: usize, error: &Error) {
        // A process that has ended, as it most likely has, writes nothing any more.
        for pull in self.pulls.iter_mut().filter(|pull| pull.at == at) {
            pull.part(&self.peers, DYING);
        }
        self.helps.retain(|help| help.at != at);
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
        self.streams.retain(|stream| stream.at() != at);
    }
}

/// Copies bytes of the sender's memory, from byte `at` of the message on.
fn attach(pid: u32, a: &Announcement, into: &Buf, at: usize, len: usize) -> std::io::Result<usize> {
    if a.rest.is_empty() {
        return cma::read(pid, &[a.first], at as u64, into, at, len);
    }
    let mut all = Vec::with_capacity(1 + a.rest.len());
    all.push(a.first);
    all.extend_from_slice(&a.rest);
    cma::read(pid, &all, at as u64, into, at, len)
}

/// Memory of the peer that it has told of, and the place in it of its byte `addr`.
pub(super) fn view<'a>(
    line: &'a mut Line,
    sockets: &weft_sys::epoll::Epoll,
    addr: u64,
    len: u64,
) -> Option<(&'a Mapped, usize)> {
    // Its descriptor was sent before the message that has brought the address here, and must be
    // here before one is looked for: memory that is gone may have had the same address, and is
    // older.
    serve_line(line, sockets);
    let holds = |region: &Mapped| {
        let from = usize::try_from(addr.checked_sub(region.addr)?).ok()?;
        let room = region.memory.len().checked_sub(from)?;
        (room as u64 >= len).then_some((region.id, from))
    };
    let (id, from) = line.regions.iter().filter_map(holds).max_by_key(|(id, _)| *id)?;
    Some((used(line, id)?, from))
}

/// A peer's region that is mapped here and is used now: of too many, those go first that have not
/// been for longest.
fn used(line: &mut Line, id: u32) -> Option<&Mapped> {
    let found = line.regions.iter().position(|region| region.id == id)?;
    line.regions[found..].rotate_left(1);
    line.regions.last()
}

/// The best way to a payload.
fn way(line: &mut Line, a: &Announcement, sockets: &weft_sys::epoll::Epoll) -> Way {
    if a.region != 0 && a.rest.is_empty() {
        if !line.regions.iter().any(|r| r.id == a.region) {
            // Its descriptor was sent before the announcement, so it is on the socket.
            serve_line(line, sockets);
        }
        if let Some(region) = used(line, a.region) {
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
