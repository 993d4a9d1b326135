//! Arrivals, in place, and everything that goes on in the background.

use std::os::fd::AsFd;
use std::time::Duration;

use weft_ring::{Item, RingError, Sleep};
use weft_sys::process::await_end;
use weft_wire::{Envelope, PeerId, Ticket};

use super::item::{self, Announcement};
use super::peer::{Post, State};
use super::{Current, Queued, Shm};
use crate::device::{Found, Take, Taker, Wake};
use crate::error::Error;

/// How often the sockets are looked at where nothing is expected on them; looking costs a system
/// call.
const LOOK_NS: u64 = 1_000_000;

/// How often while somebody is being connected.
const LOOK_SOON_NS: u64 = 20_000;

/// The same for who sleeps on the doorbell all the time, and wakes for a message now and then, and
/// for who shares its core with many.
const LOOK_RARELY_NS: u64 = 10_000_000;

/// How long a process whose socket was closed may take to end: the kernel tells of that only when
/// it has given its memory back.
pub(super) const DYING: Duration = Duration::from_millis(200);

/// With at most so many peers, each poll looks at all rings. With more, it looks at those that were
/// active last, and at some of the others in turn.
const ALL_PEERS: usize = 8;

/// How many of the others are looked at in a poll.
const IN_TURN: usize = 4;

/// Each so many polls, the others come first, so that a busy peer cannot keep them out.
const FAIR: u32 = 16;

/// Rings that were active last, the latest first.
pub(super) const HOT: usize = 4;

/// Takes no message: each becomes an event.
pub(super) struct Nobody;

impl Taker for Nobody {
    #[inline]
    fn take(&mut self, _: PeerId, _: &Envelope, _: &[u8]) -> Take {
        Take::Left
    }
}

impl Shm {
    #[inline]
    pub(super) fn poll_in(&mut self, now_ns: u64, taker: &mut (impl Taker + ?Sized)) -> Found {
        self.now_ns = now_ns;
        if let Some((sleep, empty)) = self.armed {
            self.disarm(sleep, empty);
        }
        self.release();
        if now_ns >= self.next_look_ns {
            self.look();
        }
        if self.copies() || !self.streams.is_empty() || self.backlogs > 0 {
            self.progress();
        }
        if !self.queued.is_empty() {
            return self.next_queued();
        }
        self.scan(taker)
    }

    /// Whether there are large messages that this process copies, for itself or for a peer.
    #[inline]
    fn copies(&self) -> bool {
        !self.pulls.is_empty() || !self.helps.is_empty()
    }

    /// Prepares for the owner's sleep; whether there is nothing to do.
    pub(super) fn arm_in(&mut self, wake: Wake) -> bool {
        // Who is about to sleep feeds nobody: else it would stay awake until there is room.
        self.helps.retain(|help| !help.is_feed());
        let sleep = match wake {
            Wake::Doorbell => Sleep::Futex,
            Wake::Descriptor => Sleep::Descriptor,
        };
        let calm = self.quiet && self.due == 0 && self.streams.is_empty() && self.backlogs == 0;
        let empty = if calm && self.bell.bell.arm_noting(sleep) {
            self.queued.is_empty() && !self.copies()
        } else {
            self.bell.bell.arm(sleep);
            self.nothing_to_do()
        };
        self.armed = Some((sleep, empty));
        empty
    }

    /// The owner is awake.
    #[cold]
    fn disarm(&mut self, sleep: Sleep, empty: bool) {
        self.armed = None;
        match sleep {
            Sleep::Descriptor => self.next_look_ns = 0,
            // Who sleeps on the doorbell has somebody else to watch the sockets.
            Sleep::Futex => self.look_rarely(),
        }
        self.quiet = empty && self.peers.len() > ALL_PEERS;
        self.sweep = !self.quiet;
        // Who has slept will most likely sleep again, having found what it was woken for.
        self.note = self.sweep;
        if self.quiet {
            self.bell.bell.wake_up();
        } else {
            self.bell.bell.disarm();
        }
    }

    /// The next look at the sockets need not be soon, unless something is expected there.
    pub(super) fn look_rarely(&mut self) {
        if self.next_look_ns > 0 {
            self.next_look_ns = self.next_look_ns.max(self.looked_ns + LOOK_RARELY_NS);
        }
    }

    /// Gives the current event's memory back.
    #[inline]
    fn release(&mut self) {
        match self.current {
            Current::None => return,
            Current::Queued => self.release_queued(),
            Current::Message { at } | Current::Datagram { at } | Current::Announced { at, .. } => {
                self.release_at(at);
            }
        }
        self.current = Current::None;
    }

    #[cold]
    fn release_queued(&mut self) {
        self.current_queued = None;
    }

    #[inline]
    fn release_at(&mut self, at: usize) {
        if let Some(line) = &mut self.peers[at].line
            && line.ends.release()
        {
            // It waits for room, and there is some now.
            line.ring();
        }
    }

    #[inline(never)]
    fn progress(&mut self) {
        self.unquiet();
        if self.backlogs > 0 {
            self.backlogs = 0;
            for line in self.peers.iter_mut().filter_map(|p| p.line.as_mut()) {
                line.relieve();
                self.backlogs += usize::from(!line.backlog.is_empty());
            }
        }
        let left = self.go_on_pulling();
        // One piece at least: of two that only read, each would wait for nothing from the other.
        self.go_on_helping(left.max(1));
        self.go_on_streaming();
        self.count_backlogs();
    }

    /// Pulls and pieces may have left control items behind for want of room.
    pub(super) fn count_backlogs(&mut self) {
        let full = |p: &&super::peer::Peer| p.line.as_ref().is_some_and(|l| !l.backlog.is_empty());
        self.backlogs = self.peers.iter().filter(full).count();
    }

    /// Something may have changed for which nobody rings.
    pub(super) fn unquiet(&mut self) {
        self.note = false;
        if std::mem::take(&mut self.quiet) {
            self.due = 0;
            self.sweep = true;
            self.bell.bell.disarm();
        }
    }

    /// What is done only now and then: sockets, calls, connections that have ended.
    #[cold]
    fn look(&mut self) {
        self.unquiet();
        self.serve();
        let mut soon = !self.guests.is_empty();
        for at in 0..self.peers.len() {
            let peer = &mut self.peers[at];
            if let State::Idle { retry_ns, wanted } = &mut peer.state
                && (*wanted || *retry_ns != 0)
            {
                if *retry_ns == 0 {
                    // Nobody waits for it yet: the first call can wait till the others are up.
                    *retry_ns = self.now_ns;
                }
                if *retry_ns <= self.now_ns && !self.closing {
                    self.dial(at);
                }
            }
            soon |= matches!(self.peers[at].state, State::Dialing(_));
        }
        self.tell_gone();
        if !self.lent.is_empty() {
            self.give_boards();
        }
        self.count_backlogs();
        self.next_look_ns = self.now_ns + if soon { LOOK_SOON_NS } else { LOOK_NS };
        // Who has something to look after does so, however it sleeps.
        self.looked_ns = if soon { 0 } else { self.now_ns };
    }

    /// Looks for the next arrival.
    #[inline]
    fn scan(&mut self, taker: &mut (impl Taker + ?Sized)) -> Found {
        let count = self.peers.len();
        if self.quiet {
            return self.scan_callers(count, taker);
        }
        if self.sweep && count > ALL_PEERS {
            let found = self.scan_hot(count, taker);
            if found != Found::Nothing {
                return found;
            }
            if self.note {
                self.bell.bell.note();
            }
        }
        if count <= ALL_PEERS || self.sweep {
            for _ in 0..count {
                // Goes on after the one that had something last, so that all get their turn.
                self.cursor = if self.cursor + 1 >= count { 0 } else { self.cursor + 1 };
                let found = self.take_from(self.cursor, taker);
                if found != Found::Nothing {
                    self.heat(self.cursor);
                    return found;
                }
            }
            self.sweep = false;
            self.quiet = std::mem::take(&mut self.note) && count > ALL_PEERS;
            return Found::Nothing;
        }
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(FAIR) {
            let found = self.scan_in_turn(count, taker);
            return if found == Found::Nothing { self.scan_hot(count, taker) } else { found };
        }
        let found = self.scan_hot(count, taker);
        if found == Found::Nothing { self.scan_in_turn(count, taker) } else { found }
    }

    /// Looks where somebody has rung, and there again until nothing is left.
    fn scan_callers(&mut self, count: usize, taker: &mut (impl Taker + ?Sized)) -> Found {
        self.due |= self.bell.bell.callers();
        if self.due == 0 {
            return Found::Nothing;
        }
        for _ in 0..count {
            self.cursor = if self.cursor + 1 >= count { 0 } else { self.cursor + 1 };
            if self.due & self.callers[self.cursor] != 0 {
                let found = self.take_from(self.cursor, taker);
                if found != Found::Nothing {
                    return found;
                }
            }
        }
        self.due = 0;
        Found::Nothing
    }

    #[inline(never)]
    fn scan_hot(&mut self, count: usize, taker: &mut (impl Taker + ?Sized)) -> Found {
        for place in 0..HOT {
            let at = self.hot[place];
            if at >= count {
                continue;
            }
            let found = self.take_from(at, taker);
            if found != Found::Nothing {
                self.hot[..=place].rotate_right(1);
                return found;
            }
        }
        Found::Nothing
    }

    #[inline(never)]
    fn scan_in_turn(&mut self, count: usize, taker: &mut (impl Taker + ?Sized)) -> Found {
        for _ in 0..IN_TURN {
            self.cursor = if self.cursor + 1 >= count { 0 } else { self.cursor + 1 };
            let at = self.cursor;
            let found = self.take_from(at, taker);
            if found != Found::Nothing {
                self.heat(at);
                return found;
            }
        }
        Found::Nothing
    }

    /// A peer had something: it may have more soon.
    #[inline]
    fn heat(&mut self, at: usize) {
        if !self.hot.contains(&at) {
            self.hot.rotate_right(1);
            self.hot[0] = at;
        }
    }

    /// Takes items from one ring until there is an event for the one above, or `taker` has taken
    /// the messages at hand.
    #[inline]
    fn take_from(&mut self, at: usize, taker: &mut (impl Taker + ?Sized)) -> Found {
        // What a sweep or a call leads to is not looked at again before somebody sleeps.
        let patiently = !self.sweep && !self.quiet;
        let mut taken = Found::Nothing;
        loop {
            let Shm { peers, count, .. } = self;
            let id = peers[at].id;
            let Some(line) = &mut peers[at].line else { return taken };
            let found = if patiently { line.ends.peek_patiently() } else { line.ends.peek() };
            match found {
                Ok(Some(item)) if item.kind == item::MESSAGE => {
                    let (envelope, len) = (item::envelope(item.head), item.len);
                    let take = taker.take(id, &envelope, line.ends.payload());
                    // Only behind others: else who comes first here could be kept out by a peer
                    // that has something at each poll.
                    if take == Take::Later && taken == Found::Taken {
                        return taken;
                    }
                    count.received += 1;
                    count.received_bytes += len as u64;
                    if matches!(take, Take::Left | Take::Later) {
                        self.current = Current::Message { at };
                        return Found::Event;
                    }
                    taken = Found::Taken;
                    let more = take == Take::Taken && line.ends.has_more();
                    if line.ends.release() {
                        // It waits for room, and there is some now.
                        line.ring();
                    }
                    if !more {
                        return taken;
                    }
                }
                Ok(Some(item)) if item.kind == item::DATAGRAM => {
                    self.current = Current::Datagram { at };
                    self.count.datagrams_received += 1;
                    return Found::Event;
                }
                Ok(None) if line.ended.is_none() => return taken,
                Ok(None) => return self.end(at),
                Ok(Some(&item)) => {
                    let found = self.take_up(at, item);
                    if found != Found::Nothing {
                        return found;
                    }
                }
                Err(error) => return self.spoilt(at, error),
            }
        }
    }

    #[cold]
    fn spoilt(&mut self, at: usize, error: RingError) -> Found {
        self.bury(at, &error.to_string());
        self.next_queued()
    }

    #[cold]
    fn next_queued(&mut self) -> Found {
        if self.queued.is_empty() {
            return Found::Nothing;
        }
        self.current_queued = self.queued.pop_front();
        self.current = Current::Queued;
        Found::Event
    }

    /// Deals with an item that is no message, which may be, or lead to, an event. Unless it is the
    /// event itself, it is released.
    #[cold]
    fn take_up(&mut self, at: usize, item: Item) -> Found {
        match item.kind {
            item::ANNOUNCE => {
                let found = self.take_announcement(at);
                if found != Found::Nothing {
                    return found;
                }
            }
            item::AWAITED => {
                self.count.received_bytes += item.len as u64;
                self.take_awaited(at);
                return Found::Event;
            }
            item::TAKEN => {
                let arrived = self.peers[at].awaited.pop_front();
                self.queued.extend(arrived.map(Queued::Done));
            }
            item::DONE => self.on_done(at, item.head),
            item::PULL => self.on_pull(at, item.head),
            item::HELP => self.on_help(at, item.head),
            item::FEED => self.on_feed(at, item.head),
            item::PIECE => self.on_piece(at, item.head),
            item::BYE => {
                if let Some(line) = &mut self.peers[at].line {
                    line.bye = true;
                    line.talks = false;
                }
            }
            _ => {
                self.bury(at, "it sends what no Weft of this version sends");
                return self.next_queued();
            }
        }
        self.release_at(at);
        self.next_queued()
    }

    /// Makes a message the current event, and says that it is here.
    fn take_awaited(&mut self, at: usize) {
        self.current = Current::Message { at };
        self.count.received += 1;
        if let Some(line) = &mut self.peers[at].line {
            line.post(Post::taken());
        }
        self.count_backlogs();
    }

    /// Makes an announcement the current event, unless it was withdrawn.
    fn take_announcement(&mut self, at: usize) -> Found {
        let peer = &mut self.peers[at];
        let Some(line) = &mut peer.line else { return Found::Nothing };
        let Some(a) = Announcement::decode(line.ends.payload()) else {
            self.bury(at, "it sends an announcement that is none");
            return self.next_queued();
        };
        let (slot, len, ticket) = (a.id.slot as usize, a.len, Ticket(a.id.pack()));
        if slot >= super::inbox::OFFERS {
            return Found::Nothing;
        }
        if peer.arrivals.get(slot).is_some_and(Option::is_some) {
            self.bury(at, "it announces a message in the place of one that was not asked for yet");
            return self.next_queued();
        }
        if !line.inbox.is_offered(a.id) {
            line.post(Post::done(a.id, false));
            self.count_backlogs();
            return Found::Nothing;
        }
        if peer.arrivals.len() <= slot {
            peer.arrivals.resize(slot + 1, None);
        }
        peer.arrivals[slot] = Some(a);
        self.current = Current::Announced { at, len, ticket };
        self.count.received += 1;
        Found::Event
    }

    /// A connection has ended, and all that came over it was seen. The one above is told also after
    /// a goodbye, for it may still wait for a message.
    #[cold]
    fn end(&mut self, at: usize) -> Found {
        let peer = &self.peers[at];
        match peer.line.as_ref().map(|line| (line.bye, &line.ended, line.pid)) {
            Some((false, Some(why), pid)) => {
                // Its socket is closed before it has ended. Who learns of a death often ends as
                // well, and shall not be the first to have ended.
                if pid != 0 && pid != std::process::id() {
                    await_end(pid, DYING);
                }
                self.bury_as(at, peer.dead(why));
            }
            _ => self.bury_as(at, peer.closed()),
        }
        self.next_queued()
    }

    /// The peer is gone: all operations with it end, then the one above is told.
    pub(super) fn bury(&mut self, at: usize, why: &str) {
        self.bury_as(at, self.peers[at].dead(why));
    }

    fn bury_as(&mut self, at: usize, error: Error) {
        if matches!(self.peers[at].state, State::Gone(_)) {
            return;
        }
        self.drop_pulls(at, &error);
        self.hang_up(at);
        let peer = &mut self.peers[at];
        let id = peer.id;
        let queued = &mut self.queued;
        let offered = peer.offers.drain().map(|offer| offer.op);
        let lost = offered.chain(peer.awaited.drain(..));
        queued.extend(lost.map(|op| Queued::Failed(op, error.clone())));
        peer.state = State::Gone(error.clone());
        self.count.dead += u64::from(!matches!(error, Error::PeerClosed { .. }));
        self.queued.push_back(Queued::Dead(id, error));
    }

    /// Gives the connection's memory and socket back.
    fn hang_up(&mut self, at: usize) {
        if let Some(line) = self.peers[at].line.take() {
            self.count.lent += line.ends.lent();
            // Not by closing alone: a child of this process may have copies of the descriptors.
            let _ = self.sockets.remove(line.socket.as_fd());
            if let Some(life) = &line.life {
                let _ = self.sockets.remove(life.fd.as_fd());
            }
        }
        self.peers[at].arrivals = Vec::new();
        self.changed = true;
    }

    /// Whether the owner may sleep, the bell being armed already.
    pub(super) fn nothing_to_do(&mut self) -> bool {
        if !self.queued.is_empty() || self.copies() {
            return false;
        }
        for at in 0..self.peers.len() {
            let streams = self.streams.iter().any(|s| s.at() == at);
            let peer = &mut self.peers[at];
            let refused = std::mem::take(&mut peer.refused);
            let Some(line) = &mut peer.line else { continue };
            // An error is found again, and dealt with, by the next poll.
            if line.ended.is_some() || line.ends.peek() != Ok(None) {
                return false;
            }
            let waits = refused && !line.outbox.held() || streams || !line.backlog.is_empty();
            if waits && line.ends.want_room() != Ok(false) {
                return false;
            }
        }
        true
    }

    /// Says goodbye to everybody who is connected.
    pub(super) fn close_in(&mut self) {
        if self.closing {
            return;
        }
        self.closing = true;
        self.guests.clear();
        self.strangers.clear();
        for peer in &mut self.peers {
            if matches!(peer.state, State::Dialing(_)) {
                peer.state = State::Idle { retry_ns: u64::MAX, wanted: false };
            }
            if let Some(line) = &mut peer.line {
                line.talks = false;
                line.post(Post::bye());
            }
        }
        self.count_backlogs();
    }
}
