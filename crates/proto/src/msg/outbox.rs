//! What goes out to one peer in order: eager messages, announcements, control words. Each has a
//! sequence number and stays here until the peer has it.

use std::collections::VecDeque;
use std::ops::Range;

use weft_wire::{ChunkWriter, Envelope, FRAGMENT_LEN, MESSAGE_LEN, OpId, Pushed};

use super::buffers::RingPlaces;
use super::transfer::Pieces;
use crate::ranges::RangeSet;
use crate::reliable::Content;
use crate::slab::Slab;

/// What a sequence number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// An eager message: `len` bytes at `at` in the ring.
    Eager,
    /// A message whose payload is pulled.
    Announce { len: u64, ticket: u64, pushed: Pushed },
    /// A request for a payload.
    Pull { ticket: u64, len: u64, pull: u64, again: bool },
    /// A request that cannot be met.
    Refuse { pull: u64 },
    /// The last word, and whether all that we pulled has come.
    Close { whole: bool },
}

#[derive(Debug)]
struct Item {
    envelope: Envelope,
    body: Body,
    at: u32,
    len: u32,
    acked: bool,
    /// The account of its fragments, if it was too long for one frame.
    pieces: Option<u64>,
}

impl Item {
    fn chunk_len(&self) -> usize {
        match self.body {
            Body::Eager => MESSAGE_LEN + self.len as usize,
            Body::Announce { .. } => 44,
            Body::Pull { .. } => 32,
            Body::Refuse { .. } => 16,
            Body::Close { .. } => 8,
        }
    }

    fn write(&self, w: &mut ChunkWriter<'_>, seq: u32, ring: &[u8]) {
        match self.body {
            Body::Eager => w.message(seq, &self.envelope, self.payload(ring)),
            Body::Announce { len, ticket, pushed } => {
                w.announce(seq, &self.envelope, len, ticket, pushed);
            }
            Body::Pull { ticket, len, pull, again } => w.pull(seq, ticket, len, pull, again),
            Body::Refuse { pull } => w.refuse(seq, pull),
            Body::Close { whole } => w.close(seq, whole),
        }
    }

    fn payload<'a>(&self, ring: &'a [u8]) -> &'a [u8] {
        &ring[self.at as usize..][..self.len as usize]
    }
}

/// Rings that are kept for the next peer: were all kept, each peer would hold one for ever.
const SPARE_RINGS: usize = 16;

/// Bytes of a fragment below which it is not worth filling the rest of a frame.
const FRAGMENT_LEAST: usize = 64;

/// The length of the fragments of a message of `len` bytes where a frame has room for `fresh`: as
/// few as can be, and alike. A burst's frames have one length, so that a short one would end it.
fn even(len: usize, fresh: usize) -> usize {
    let most = fresh.saturating_sub(FRAGMENT_LEN).max(FRAGMENT_LEAST);
    len.div_ceil(len.div_ceil(most).max(1))
}

/// Messages on their way to one peer.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Sequence number of the first item.
    base: u64,
    items: VecDeque<Item>,
    /// The first that was never sent.
    unsent: u64,
    /// What must be sent again.
    resend: RangeSet,
    /// The bytes of eager messages; taken while there are any.
    ring: Option<Vec<u8>>,
    places: RingPlaces,
    /// Bytes of items that were never sent, those in pieces until the last piece is.
    waiting_bytes: usize,
    /// Eager bytes sent so far, each counted once.
    sent_bytes: u64,
    /// Sequence numbers below this may be sent.
    granted_until: u64,
    /// Eager bytes that may be sent.
    granted_bytes: u64,
    /// Announcements that the peer has not asked for yet.
    pub announced: u32,
    /// Whether credit is what keeps the next item back.
    pub waits_for_credit: bool,
    /// Operations that end when the item with this number, and so all before it, has arrived.
    awaited: VecDeque<(u64, OpId)>,
    /// Whether the last word has arrived.
    pub close_acked: bool,
}

impl Outbox {
    /// Whether everything has arrived.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How many items have not arrived.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether a message or an announcement is not known to have arrived.
    pub fn has_messages(&self) -> bool {
        let is_message = |body| matches!(body, Body::Eager | Body::Announce { .. });
        self.items.iter().any(|i| !i.acked && is_message(i.body))
    }

    /// Eager messages that are not known to have arrived, and their bytes.
    pub fn undelivered(&self) -> (u64, u64) {
        let eager = self.items.iter().filter(|i| !i.acked && i.body == Body::Eager);
        eager.fold((0, 0), |(count, bytes), i| (count + 1, bytes + u64::from(i.len)))
    }

    /// The sequence number that the next item gets.
    pub fn end(&self) -> u64 {
        self.base + self.items.len() as u64
    }

    /// Whether [`Outbox::fill`] may have something to send.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.unsent < self.end() || !self.resend.is_empty()
    }

    /// Whether all there is to send is one message.
    #[inline]
    pub fn has_lone_message(&self) -> bool {
        self.unsent + 1 == self.end()
            && self.resend.is_empty()
            && self.items.back().is_some_and(|item| item.body == Body::Eager)
    }

    /// Whether an item has never been sent.
    #[inline]
    pub fn is_unsent(&self, seq: u64) -> bool {
        seq >= self.unsent
    }

    /// Bytes that wait to be sent for the first time: what the choice of a path goes by.
    #[inline]
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Takes credit: it only grows.
    pub fn grant(&mut self, until: u64, bytes: u64) {
        self.granted_until = self.granted_until.max(until);
        self.granted_bytes = self.granted_bytes.max(bytes);
    }

    /// What has been granted, as a whole sequence number near to which the peer's short one lies.
    pub fn granted_until(&self) -> u64 {
        self.granted_until
    }

    /// Room for an eager message, in a ring from `rings` where there is none yet.
    #[inline]
    pub fn reserve(
        &mut self,
        len: usize,
        capacity: usize,
        rings: &mut Vec<Vec<u8>>,
    ) -> Option<u32> {
        if self.ring.is_none() {
            self.ring = Some(rings.pop().unwrap_or_else(|| vec![0; capacity]));
        }
        let capacity = self.ring.as_ref().map_or(0, Vec::len);
        self.places.find(len, capacity, self.items.is_empty()).map(|at| at as u32)
    }

    /// The memory that was reserved.
    #[inline]
    pub fn reserved(&mut self, at: u32, len: usize) -> &mut [u8] {
        let ring = self.ring.as_deref_mut().unwrap_or(&mut []);
        &mut ring[at as usize..at as usize + len]
    }

    /// Adds the message that was written into what was reserved.
    #[inline]
    pub fn commit(&mut self, envelope: &Envelope, at: u32, len: usize) {
        self.places.take(at as usize, len, self.items.is_empty());
        self.waiting_bytes += self.push_item(*envelope, Body::Eager, at, len as u32);
    }

    /// Whether a message of `len` bytes could be sent at this moment: nothing goes before it, and
    /// there is credit for it.
    #[inline]
    pub fn takes_lone(&self, len: usize) -> bool {
        !self.has_more()
            && self.end() < self.granted_until
            && self.sent_bytes + len as u64 <= self.granted_bytes
    }

    /// Adds the message that was written into what was reserved, and that is sent at this moment.
    #[inline]
    pub fn commit_lone(&mut self, envelope: &Envelope, at: u32, len: usize) {
        let seq = self.end();
        self.places.take(at as usize, len, self.items.is_empty());
        self.sent_bytes += len as u64;
        self.unsent = seq + 1;
        self.push_item(*envelope, Body::Eager, at, len as u32);
    }

    /// `op` ends when the next item has arrived.
    #[inline]
    pub fn await_next(&mut self, op: OpId) {
        self.awaited.push_back((self.end(), op));
    }

    /// Whether somebody waits for an item to arrive.
    #[inline]
    pub fn has_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// An operation whose item has arrived; each is given once.
    #[inline]
    pub fn next_arrived(&mut self) -> Option<OpId> {
        let (seq, op) = *self.awaited.front()?;
        if seq >= self.base {
            return None;
        }
        self.awaited.pop_front();
        Some(op)
    }

    /// The operations whose items have not arrived, and will not.
    pub fn give_up_awaited(&mut self) -> impl Iterator<Item = OpId> {
        std::mem::take(&mut self.awaited).into_iter().map(|(_, op)| op)
    }

    /// Adds an item without bytes.
    pub fn push(&mut self, envelope: &Envelope, body: Body) {
        let at = self.places.here(self.items.is_empty());
        self.places.take(at, 0, self.items.is_empty());
        self.waiting_bytes += self.push_item(*envelope, body, at as u32, 0);
    }

    /// Adds an item, and gives its bytes in a frame.
    #[inline]
    fn push_item(&mut self, envelope: Envelope, body: Body, at: u32, len: u32) -> usize {
        let item = Item { envelope, body, at, len, acked: false, pieces: None };
        let bytes = item.chunk_len();
        self.items.push_back(item);
        bytes
    }

    /// Writes as many items as fit into `w`; `fresh` is the room of a frame with nothing in it.
    /// Gives what was written and how much of it was sent before.
    pub fn fill(
        &mut self,
        w: &mut ChunkWriter<'_>,
        fresh: usize,
        pieces: &mut Slab<Pieces>,
        again: &mut u64,
    ) -> Option<Content> {
        while let Some(run) = self.resend.first() {
            let content = self.fill_from(w, run.clone(), fresh, pieces, again);
            match content {
                Some(Content::Messages { first, count }) => {
                    self.resend.remove(run.start..first + u64::from(count));
                    *again += u64::from(count);
                    return content;
                }
                Some(_) => return content,
                // Nothing of the run is left to send, or it does not fit here.
                None if self.resend.first() == Some(run) => return None,
                None => {}
            }
        }
        let content = self.fill_from(w, self.unsent..self.end(), fresh, pieces, again);
        if let Some(Content::Messages { first, count }) = content {
            self.unsent = first + u64::from(count);
        }
        content
    }

    fn fill_from(
        &mut self,
        w: &mut ChunkWriter<'_>,
        run: Range<u64>,
        fresh: usize,
        pieces: &mut Slab<Pieces>,
        again: &mut u64,
    ) -> Option<Content> {
        let mut written: Option<Range<u64>> = None;
        for seq in run {
            let Some(item) = seq.checked_sub(self.base).and_then(|i| self.items.get(i as usize))
            else {
                self.resend.remove(seq..seq + 1);
                continue;
            };
            let is_new = seq >= self.unsent;
            if item.acked && written.is_none() {
                self.resend.remove(seq..seq + 1);
                continue;
            }
            if item.acked {
                break;
            }
            if is_new && !self.is_granted(seq) {
                break;
            }
            let item = &self.items[(seq - self.base) as usize];
            if item.pieces.is_some() || item.chunk_len() > fresh {
                if written.is_none() {
                    return self.fill_fragment(w, seq, fresh, pieces, again);
                }
                break;
            }
            if item.chunk_len() > w.room()
                || written.as_ref().is_some_and(|r| r.end - r.start > 999)
            {
                break;
            }
            item.write(w, seq as u32, self.ring.as_deref().unwrap_or(&[]));
            if is_new {
                self.waiting_bytes -= item.chunk_len();
                self.sent_bytes += u64::from(item.len);
            }
            written = Some(written.map_or(seq, |r| r.start)..seq + 1);
        }
        written.map(|r| Content::Messages { first: r.start, count: (r.end - r.start) as u16 })
    }

    fn is_granted(&mut self, seq: u64) -> bool {
        let item = &self.items[(seq - self.base) as usize];
        let bytes = if item.body == Body::Eager { u64::from(item.len) } else { 0 };
        let granted = seq < self.granted_until
            && (item.pieces.is_some() || self.sent_bytes + bytes <= self.granted_bytes);
        self.waits_for_credit = !granted;
        granted
    }

    fn fill_fragment(
        &mut self,
        w: &mut ChunkWriter<'_>,
        seq: u64,
        fresh: usize,
        slab: &mut Slab<Pieces>,
        again: &mut u64,
    ) -> Option<Content> {
        let item = &mut self.items[(seq - self.base) as usize];
        if item.pieces.is_none() {
            let (id, account) = slab.take()?;
            account.start(u64::from(item.len));
            item.pieces = Some(id);
            if seq >= self.unsent {
                self.sent_bytes += u64::from(item.len);
            }
        }
        let account = slab.get_mut(item.pieces?)?;
        let room = w.room().checked_sub(FRAGMENT_LEN).filter(|&r| r > 0)?;
        if room < FRAGMENT_LEAST && account.waiting() > room as u64 {
            return None;
        }
        let taken = account.take(room.min(even(item.len as usize, fresh)) as u64);
        if !account.has_more() {
            self.resend.remove(seq..seq + 1);
            if seq >= self.unsent {
                self.waiting_bytes -= item.chunk_len();
                self.unsent = seq + 1;
            }
        }
        let (range, before) = taken?;
        *again += u64::from(before);
        let item = &self.items[(seq - self.base) as usize];
        let payload = item.payload(self.ring.as_deref().unwrap_or(&[]));
        let part = &payload[range.start as usize..range.end as usize];
        w.fragment(seq as u32, &item.envelope, range.start as u32, item.len, part);
        Some(Content::Fragment { seq, offset: range.start as u32, len: part.len() as u32 })
    }

    fn item_mut(&mut self, seq: u64) -> Option<&mut Item> {
        self.items.get_mut(seq.checked_sub(self.base)? as usize)
    }

    /// Items `first..first + count` have arrived.
    #[inline]
    pub fn on_acked(&mut self, first: u64, count: u16, pieces: &mut Slab<Pieces>) {
        for seq in first..first + u64::from(count) {
            if let Some(item) = self.item_mut(seq) {
                item.acked = true;
            }
        }
        self.settle(pieces);
    }

    /// A fragment has arrived.
    pub fn on_fragment_acked(&mut self, seq: u64, part: Range<u64>, pieces: &mut Slab<Pieces>) {
        let Some(item) = self.item_mut(seq) else { return };
        let Some(account) = item.pieces.and_then(|id| pieces.get_mut(id)) else { return };
        if account.on_acked(part) {
            item.acked = true;
            self.settle(pieces);
        }
    }

    fn settle(&mut self, pieces: &mut Slab<Pieces>) {
        while let Some(front) = self.items.front() {
            if !front.acked {
                break;
            }
            if let Some(id) = front.pieces {
                pieces.release(id);
            }
            self.close_acked |= matches!(front.body, Body::Close { .. });
            self.items.pop_front();
            self.base += 1;
        }
        self.unsent = self.unsent.max(self.base);
        if let Some(front) = self.items.front() {
            self.places.free_before(front.at as usize);
        }
    }

    /// Items `first..first + count` were lost on their way.
    pub fn on_lost(&mut self, first: u64, count: u16) {
        let start = first.max(self.base);
        let end = (first + u64::from(count)).min(self.end());
        if start < end {
            self.resend.insert(start..end);
        }
    }

    /// A fragment was lost on its way.
    pub fn on_fragment_lost(&mut self, seq: u64, part: Range<u64>, pieces: &mut Slab<Pieces>) {
        let Some(item) = self.item_mut(seq).filter(|i| !i.acked) else { return };
        let Some(account) = item.pieces.and_then(|id| pieces.get_mut(id)) else { return };
        if account.on_lost(part) && seq < self.unsent {
            self.resend.insert(seq..seq + 1);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self, pieces: &mut Slab<Pieces>) {
        self.items.iter_mut().for_each(|item| item.acked = true);
        self.settle(pieces);
        self.resend.clear();
        self.waiting_bytes = 0;
    }

    /// Gives memory back while nothing is on its way.
    pub fn shrink(&mut self, rings: &mut Vec<Vec<u8>>) {
        if self.items.is_empty() {
            let ring = self.ring.take();
            rings.extend(ring.filter(|_| rings.len() < SPARE_RINGS));
            self.items = VecDeque::new();
            self.resend.shrink();
        }
    }
}
