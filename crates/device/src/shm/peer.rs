//! What the device knows of one peer.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use weft_ring::{Bell, Board, Duplex, Head, Refused, Sleep};
use weft_sys::buf::Buf;
use weft_sys::copy::{self, Copier};
use weft_sys::futex;
use weft_sys::unix::Socket;
use weft_wire::{Address, OpId, PeerId};

use super::connect::Dial;
use super::hello::{MAX_LEN, Packet};
use super::inbox::{ANSWERS, OFFERS, Shared};
use super::item::{self, Announcement, OfferId};
use super::region::Mapped;
use crate::error::Error;

/// A process that a peer number was given to.
pub(super) struct Peer {
    pub(super) id: PeerId,
    pub(super) address: Address,
    pub(super) state: State,
    pub(super) line: Option<Line>,
    /// Announcements to it.
    pub(super) offers: Offers,
    /// Operations that end when messages to it have arrived, in their order.
    pub(super) awaited: VecDeque<OpId>,
    /// Its announcements that were not pulled yet, by its place for them: so a hostile peer can
    /// have no more of them than an honest one.
    pub(super) arrivals: Vec<Option<Announcement>>,
    /// Whether it was asked to announce only.
    pub(super) hold: bool,
    /// A send has found no room, or was held, since the last sleep.
    pub(super) refused: bool,
}

/// How far a peer is.
pub(super) enum State {
    /// Not connected. It is called at `retry_ns`, or, where that is 0, as soon as it is `wanted`:
    /// when something is to be sent.
    Idle { retry_ns: u64, wanted: bool },
    /// It was called and has not answered all yet.
    Dialing(Box<Dial>),
    /// Connected: there is a line.
    Open,
    /// It has ended, or cannot be talked with.
    Gone(Error),
}

impl Peer {
    pub(super) fn new(id: PeerId, address: &Address) -> Peer {
        Peer {
            id,
            address: *address,
            state: State::Idle { retry_ns: 0, wanted: false },
            line: None,
            offers: Offers::default(),
            awaited: VecDeque::new(),
            arrivals: Vec::new(),
            hold: false,
            refused: false,
        }
    }

    pub(super) fn dead(&self, why: &str) -> Error {
        Error::PeerDead { peer: self.id, name: self.address.to_string(), why: why.into() }
    }

    pub(super) fn closed(&self) -> Error {
        Error::PeerClosed { peer: self.id, name: self.address.to_string() }
    }
}

/// Most control items that wait for one peer. Of one that takes what comes to it there are never so
/// many: an answer to each of its announcements, a question for pieces of each, and a goodbye.
const BACKLOG_MAX: usize = 2 * OFFERS + 1;

/// A control item that found no room in the ring yet.
#[derive(Clone, Copy)]
pub(super) struct Post {
    kind: u8,
    head: Head,
}

impl Post {
    pub(super) fn done(id: OfferId, well: bool) -> Post {
        Post { kind: item::DONE, head: Head(id.pack(), u64::from(well), 0) }
    }

    pub(super) fn pull(id: OfferId, want: usize, pull: usize) -> Post {
        Post { kind: item::PULL, head: Head(id.pack(), want as u64, pull as u64) }
    }

    pub(super) fn taken() -> Post {
        Post { kind: item::TAKEN, head: Head::default() }
    }

    pub(super) fn bye() -> Post {
        Post { kind: item::BYE, head: Head::default() }
    }
}

/// What tells of the end of a peer's process, also while a child of it holds its socket open.
pub(super) struct Life {
    pub(super) fd: OwnedFd,
    /// What the poll set knows it by.
    pub(super) token: u64,
}

/// An open connection: shared memory both ways, and the socket over which it was exchanged.
pub(super) struct Line {
    pub(super) socket: Socket,
    /// What the poll set knows the socket by.
    pub(super) token: u64,
    /// Of the peer's process, where the kernel tells.
    pub(super) life: Option<Life>,
    /// What goes to and fro.
    pub(super) ends: Duplex,
    /// Writes what is long into the ring, whose memory the peer has read last.
    pub(super) copier: Copier,
    /// The same for blocks, which were read here last.
    pub(super) block_copier: Copier,
    /// What else is in the peer's memory for us, and in ours for it.
    pub(super) outbox: Shared,
    pub(super) inbox: Shared,
    pub(super) bell: Bell,
    /// This process, to the peer's bell.
    pub(super) caller: u16,
    /// The peer's process, 0 where it cannot be seen from here.
    pub(super) pid: u32,
    /// Whether cross-memory attach to it works.
    pub(super) cma: bool,
    /// Whether it has not failed yet to write there.
    pub(super) writes: bool,
    /// Whether the peer has fed the last message that it was to, and when the last piece came.
    pub(super) attentive: bool,
    pub(super) fed_ns: u64,
    pub(super) backlog: VecDeque<Post>,
    /// The peer's regions that are mapped here, the one used last at the end.
    pub(super) regions: Vec<Mapped>,
    /// Boards that the peer has made, by group, which nobody here has asked for yet.
    pub(super) boards: Vec<(u64, Board)>,
    /// Our regions that the peer was told of.
    pub(super) told: Vec<u32>,
    /// Why nothing more will come once the ring is empty.
    pub(super) ended: Option<String>,
    /// The peer has said goodbye.
    pub(super) bye: bool,
    /// Whether more can be sent: nobody has said goodbye, and nothing has ended.
    pub(super) talks: bool,
}

impl Line {
    /// Whether the poll set knows something of it by this.
    pub(super) fn is(&self, token: u64) -> bool {
        self.token == token || self.is_life(token)
    }

    /// Whether this is the token by which the peer's process is watched.
    pub(super) fn is_life(&self, token: u64) -> bool {
        self.life.as_ref().is_some_and(|life| life.token == token)
    }

    /// Nothing more will come, nor can be sent, for this reason (the first one counts).
    pub(super) fn end(&mut self, why: &str) {
        self.talks = false;
        if self.ended.is_none() {
            self.ended = Some(why.into());
        }
    }

    /// Puts an item with a copy of `payload` into the ring, or into the turn line if `turn`.
    ///
    /// # Errors
    /// As for [`Duplex::push`].
    #[inline]
    pub(super) fn push(
        &mut self,
        kind: u8,
        head: Head,
        payload: &[u8],
        turn: bool,
    ) -> Result<(), Refused> {
        if payload.len() >= copy::MIN {
            self.ends.reserve(payload.len())?;
            self.fill(|copier, space| copier.copy(payload, space));
            self.ends.commit(kind, head);
            return Ok(());
        }
        match turn {
            true => self.ends.push(kind, head, payload),
            false => self.ends.push_by_ring(kind, head, payload),
        }
    }

    /// Has a copier write to what was reserved last.
    #[inline]
    pub(super) fn fill(&mut self, fill: impl FnOnce(&mut Copier, &mut [u8])) {
        let copier = match self.ends.in_block() {
            true => &mut self.block_copier,
            false => &mut self.copier,
        };
        fill(copier, self.ends.space());
    }

    /// Tells the peer that there is news; wakes it if it sleeps. One look at a word where it does
    /// not.
    #[inline]
    pub(super) fn ring(&self) -> bool {
        match self.bell.ring(self.caller) {
            None => false,
            Some(sleep) => self.wake(sleep),
        }
    }

    /// Tells the peer that there is news, which can wait where it sleeps.
    pub(super) fn mention(&self) {
        self.bell.mention(self.caller);
    }

    /// Wakes the peer, if it sleeps, for something that lies in no ring.
    pub(super) fn nudge(&self) -> bool {
        self.bell.nudge().is_some_and(|sleep| self.wake(sleep))
    }

    #[cold]
    fn wake(&self, sleep: Sleep) -> bool {
        match sleep {
            Sleep::Futex => futex::wake(self.bell.word(), 1),
            // A full socket is readable already; a broken one is noticed by reading it.
            Sleep::Descriptor => drop(self.packet(&Packet::Wake, &[])),
        }
        true
    }

    /// Sends a packet over the socket; `false` when it cannot be sent now, or ever.
    pub(super) fn packet(&self, packet: &Packet, fds: &[std::os::fd::BorrowedFd<'_>]) -> bool {
        let mut bytes = [0; MAX_LEN];
        let len = packet.encode(&mut bytes);
        self.socket.send(&bytes[..len], fds).unwrap_or(false)
    }

    /// Puts a control item into the ring, or into the backlog until there is room.
    pub(super) fn post(&mut self, post: Post) {
        if !self.backlog.is_empty() || !self.put(post) {
            if self.backlog.len() >= BACKLOG_MAX {
                return self.end("it announces messages, and never reads what becomes of them");
            }
            self.backlog.push_back(post);
        }
    }

    /// Moves what it can from the backlog into the ring.
    pub(super) fn relieve(&mut self) {
        while let Some(&post) = self.backlog.front() {
            if !self.put(post) {
                break;
            }
            self.backlog.pop_front();
        }
    }

    fn put(&mut self, post: Post) -> bool {
        match self.ends.push(post.kind, post.head, &[]) {
            Ok(()) => {
                self.ring();
                true
            }
            Err(Refused::Full | Refused::TooLong) => false,
            Err(Refused::Corrupt(error)) => {
                // Nobody reads there any more: what is posted is as good as delivered.
                self.end(&error.to_string());
                true
            }
        }
    }
}

/// A message that was announced and not pulled yet.
pub(super) struct Offer {
    pub(super) op: OpId,
    pub(super) payload: Buf,
    turn: u32,
}

/// A place for an announcement.
enum Slot {
    Free,
    Used(Offer),
    /// Taken back, under this turn; the peer has not yet said that it has learnt of it.
    Withdrawn(u32),
}

impl Slot {
    fn offer(self) -> Option<Offer> {
        match self {
            Slot::Used(offer) => Some(offer),
            _ => None,
        }
    }
}

/// Announcements to one peer.
#[derive(Default)]
pub(super) struct Offers {
    slots: Vec<Slot>,
    free: Vec<u32>,
    turn: u32,
    /// Places with an offer.
    used: u32,
}

impl Offers {
    /// A place for one more; `None` when all are used that are for such a one.
    pub(super) fn place(&mut self, answer: bool) -> Option<OfferId> {
        let most = if answer { OFFERS } else { OFFERS - ANSWERS };
        if self.slots.len() - self.free.len() >= most {
            return None;
        }
        let slot = self.free.last().copied().unwrap_or(self.slots.len() as u32);
        Some(OfferId { slot, turn: self.turn })
    }

    /// Uses the place that [`Offers::place`] gave last.
    pub(super) fn put(&mut self, op: OpId, payload: &Buf) {
        let offer = Slot::Used(Offer { op, payload: payload.clone(), turn: self.turn });
        match self.free.pop() {
            Some(slot) => self.slots[slot as usize] = offer,
            None => self.slots.push(offer),
        }
        self.turn = self.turn.wrapping_add(1);
        self.used += 1;
    }

    pub(super) fn get(&self, id: OfferId) -> Option<&Offer> {
        match self.slots.get(id.slot as usize)? {
            Slot::Used(offer) if offer.turn == id.turn => Some(offer),
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, id: OfferId) -> Option<Offer> {
        self.get(id)?;
        self.used -= 1;
        self.free.push(id.slot);
        std::mem::replace(&mut self.slots[id.slot as usize], Slot::Free).offer()
    }

    /// Gives an offer up whose announcement the peer may still have: its place is used again only
    /// when the peer says that it has not. So a peer never has more announcements than places.
    pub(super) fn withdraw(&mut self, id: OfferId) {
        if self.get(id).is_some() {
            self.used -= 1;
            self.slots[id.slot as usize] = Slot::Withdrawn(id.turn);
        }
    }

    /// The peer has learnt that an announcement was taken back.
    pub(super) fn forgotten(&mut self, id: OfferId) {
        if let Some(slot @ &mut Slot::Withdrawn(turn)) = self.slots.get_mut(id.slot as usize)
            && turn == id.turn
        {
            *slot = Slot::Free;
            self.free.push(id.slot);
        }
    }

    pub(super) fn find(&self, op: OpId) -> Option<OfferId> {
        self.slots.iter().enumerate().find_map(|(slot, place)| match place {
            Slot::Used(o) if o.op == op => Some(OfferId { slot: slot as u32, turn: o.turn }),
            _ => None,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Offer> {
        self.free.clear();
        self.used = 0;
        std::mem::take(&mut self.slots).into_iter().filter_map(Slot::offer)
    }
}
