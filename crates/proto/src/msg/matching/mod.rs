//! Tag matching: which receive a message is for.
//!
//! One [`Matcher`] per endpoint, above all devices, because a receive from any source may be met by
//! any of them. It holds the receives that wait for a message (*posted*) and the messages that wait
//! for a receive (*unexpected*), and pairs them in MPI's order: a message goes to the oldest posted
//! receive that fits, a receive takes the oldest unexpected message that fits.
//!
//! ```text
//! posted      a queue of those that want the same, while no others wait; for others a hash table
//!             per *shape* (source named or not, ignored tag bits) of the receives in use: an
//!             arrival looks up one key in each and takes the oldest of what it found
//! unexpected  one list in the order of arrival, looked through while it is short; a search that
//!             would look far makes a table of the searched shape, which then is kept up to date
//! ```
//!
//! So a match costs the same with one entry waiting as with ten thousand, wildcards included, and a
//! short list pays for no table that it does not need. Entries live in slabs; in steady state
//! nothing is allocated, and a passed peak's memory is given back.
//!
//! The structure is generic over what the owner hangs on a receive (`R`) and on a message (`U`),
//! and knows nothing of buffers.

mod index;
mod posted;
mod queue;
mod run;
mod shape;
mod slab;
mod unexpected;

#[cfg(test)]
mod tests;

use weft_wire::{Kind, PeerId};

use posted::PostedQueue;
use unexpected::UnexpectedQueue;

/// What a receive is willing to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// From whom; `None`: from anyone.
    pub source: Option<PeerId>,
    /// The tag.
    pub tag: u64,
    /// The bits of the tag that do not matter: 0 for an exact tag, all ones for any tag.
    pub ignore: u64,
    /// The kind of message, which always matters.
    pub kind: Kind,
}

impl Want {
    /// Whether a message is one of those wanted.
    #[inline]
    pub fn fits(&self, arrival: &Arrival) -> bool {
        (self.tag ^ arrival.tag) & !self.ignore == 0
            && self.kind == arrival.kind
            && self.source.is_none_or(|source| source == arrival.source)
    }
}

/// What a message shows to receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub source: PeerId,
    /// Its tag.
    pub tag: u64,
    /// Its kind.
    pub kind: Kind,
}

/// Names a posted receive, to cancel it. It is never valid again once the receive has left, however
/// often its place is used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Posted {
    slot: u32,
    seq: u64,
}

/// A receive that found its message already there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Met<R, U> {
    /// The message.
    pub arrival: Arrival,
    /// What the owner had stored with the message.
    pub message: U,
    /// What the owner brought with the receive, given back.
    pub receive: R,
}

/// The posted receives and the unexpected messages of one endpoint.
#[derive(Debug)]
pub struct Matcher<R, U> {
    posted: PostedQueue<R>,
    unexpected: UnexpectedQueue<U>,
}

impl<R, U> Default for Matcher<R, U> {
    fn default() -> Self {
        Matcher::new()
    }
}

impl<R, U> Matcher<R, U> {
    /// Nothing posted, nothing unexpected, no memory taken.
    pub fn new() -> Matcher<R, U> {
        Matcher { posted: PostedQueue::new(), unexpected: UnexpectedQueue::new() }
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// Not an error but the other case: the oldest unexpected message that fits is taken out and
    /// given back with `receive`, which is then not posted.
    #[inline]
    pub fn post(&mut self, want: Want, receive: R) -> Result<Posted, Met<R, U>> {
        match self.unexpected.claim(&want) {
            None => Ok(self.posted.insert(want, receive)),
            Some((arrival, message)) => Err(Met { arrival, message, receive }),
        }
    }

    /// Takes out the oldest posted receive that the message fits. `None`: nobody waits for it, and
    /// the owner stores it with [`Matcher::keep`] before any other call.
    #[inline]
    pub fn arrive(&mut self, arrival: Arrival) -> Option<R> {
        let found = self.posted.find(&arrival)?;
        self.posted.take(found)
    }

    /// As [`Matcher::arrive`], but leaves the receive where it is, for receives that take several
    /// messages; [`Matcher::cancel`] takes it out when it is used up.
    #[inline]
    pub fn meet(&mut self, arrival: Arrival) -> Option<(Posted, &mut R)> {
        let found = self.posted.find(&arrival)?;
        self.posted.get_mut(found)
    }

    /// [`Matcher::arrive`] or [`Matcher::meet`], as `stays` says of the receive that was found.
    #[inline]
    pub fn arrive_at(&mut self, arrival: Arrival, stays: impl FnOnce(&R) -> bool) -> Option<R>
    where
        R: Copy,
    {
        let found = self.posted.find(&arrival)?;
        let (_, receive) = self.posted.get_mut(found)?;
        if stays(receive) { Some(*receive) } else { self.posted.take(found) }
    }

    /// Stores a message that [`Matcher::arrive`] found no receive for, behind those stored before.
    #[inline]
    pub fn keep(&mut self, arrival: Arrival, message: U) {
        debug_assert!(self.posted.find(&arrival).is_none(), "a receive waits for {arrival:?}");
        self.unexpected.keep(arrival, message);
    }

    /// Takes a posted receive out. `None`: it has left already.
    pub fn cancel(&mut self, posted: Posted) -> Option<R> {
        self.posted.cancel(posted)
    }

    /// The oldest unexpected message that fits, left where it is. (`&mut`: a search through many
    /// may make a table.)
    #[inline]
    pub fn peek(&mut self, want: &Want) -> Option<(Arrival, &U)> {
        self.unexpected.peek(want)
    }

    /// Which of the [kept](Matcher::kept) messages [`Matcher::peek`] shows, counted from 0.
    pub fn number(&mut self, want: &Want) -> Option<u64> {
        self.unexpected.number(want)
    }

    /// Messages ever stored.
    pub fn kept(&self) -> u64 {
        self.unexpected.kept()
    }

    /// Takes out the oldest unexpected message that fits: from now on no other receive sees it.
    #[inline]
    pub fn claim(&mut self, want: &Want) -> Option<(Arrival, U)> {
        self.unexpected.claim(want)
    }

    /// Takes out all posted receives that satisfy `which`, in the order of their posting. Costs a
    /// look at every posted receive: for what is rare.
    pub fn cancel_all(&mut self, which: impl FnMut(&Want, &R) -> bool, each: impl FnMut(Want, R)) {
        self.posted.cancel_all(which, each);
    }

    /// Takes out the receives that nothing can meet any more because their one source has died, in
    /// the order of their posting. Receives from any source stay; so do messages of the dead peer
    /// that have arrived.
    pub fn source_died(&mut self, source: PeerId, each: impl FnMut(Want, R)) {
        self.cancel_all(|want, _| want.source == Some(source), each);
    }

    /// The unexpected messages, oldest first.
    pub fn unexpected(&self) -> impl Iterator<Item = (Arrival, &U)> {
        self.unexpected.iter()
    }

    /// Shows every unexpected message, oldest first, and drops those for which `keep` says `false`.
    pub fn retain_unexpected(&mut self, keep: impl FnMut(&Arrival, &mut U) -> bool) {
        self.unexpected.retain(keep);
    }

    /// Receives posted.
    #[inline]
    pub fn posted_len(&self) -> usize {
        self.posted.len()
    }

    /// Messages stored.
    #[inline]
    pub fn unexpected_len(&self) -> usize {
        self.unexpected.len()
    }
}
