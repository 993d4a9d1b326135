//! Names for operations that go on, and for messages taken out of the matching.

use weft_sys::buf::Buf;
use weft_wire::PeerId;

use super::work::Unexpected;
use crate::endpoint::Status;

/// Whom to receive from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// One process, by its number.
    Rank(u32),
    /// Whoever sends first.
    Any,
}

impl From<u32> for Source {
    fn from(rank: u32) -> Source {
        Source::Rank(rank)
    }
}

impl Source {
    pub(super) fn peer(self) -> Option<PeerId> {
        match self {
            Source::Rank(rank) => Some(PeerId(rank)),
            Source::Any => None,
        }
    }
}

/// Which tags to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// The tag.
    pub tag: u64,
    /// The bits of it that do not matter.
    pub ignore: u64,
}

impl Tag {
    /// Every tag.
    pub const ANY: Tag = Tag { tag: 0, ignore: u64::MAX };

    /// Tags that agree with `tag` in every bit that is not in `ignore`.
    pub fn masked(tag: u64, ignore: u64) -> Tag {
        Tag { tag, ignore }
    }
}

impl From<u64> for Tag {
    fn from(tag: u64) -> Tag {
        Tag { tag, ignore: 0 }
    }
}

/// An operation that was started: ask for its end with [`test`](super::Endpoint::test) or
/// [`wait`](super::Endpoint::wait), or say with [`detach`](super::Endpoint::detach) that nobody
/// will.
#[derive(Debug)]
#[must_use = "an operation's end is only seen by asking for it; `detach` says that nobody will"]
pub struct Request {
    pub(super) inner: Inner,
}

#[derive(Debug)]
pub(super) enum Inner {
    /// A send that ended as it began, with its buffer.
    Ended(Status, Vec<u8>),
    /// An operation of the endpoint.
    Op { slot: u32, generation: u32 },
}

impl Request {
    /// One that has ended, with its memory.
    pub(super) fn ended(status: Status, memory: Buf) -> Request {
        Request { inner: Inner::Ended(status, memory.into_vec().unwrap_or_default()) }
    }

    /// Gives the memory of a request that has ended back with it: a vector's, if nobody else has
    /// it.
    pub(super) fn with(self, memory: Buf) -> Request {
        match self.inner {
            Inner::Ended(status, _) => Request::ended(status, memory),
            Inner::Op { .. } => self,
        }
    }

    /// The request as a number, for programs in other languages to keep: 0 for
    /// one that has ended already, whose end [`Request::from_number`] cannot tell again.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn into_number(self) -> u64 {
        match self.inner {
            Inner::Ended(..) => 0,
            // No slot has the number of all ones, so the sum is no overflow and never 0.
            Inner::Op { slot, generation } => u64::from(slot + 1) | u64::from(generation) << 32,
        }
    }

    /// The request with a number that [`Request::into_number`] gave. Any other number names an
    /// operation that is none, or another one of the same endpoint.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn from_number(number: u64) -> Request {
        let slot = (number as u32).wrapping_sub(1);
        Request { inner: Inner::Op { slot, generation: (number >> 32) as u32 } }
    }
}

/// How an operation ended.
#[derive(Debug)]
pub struct Completion {
    /// What was sent or received.
    pub status: Status,
    /// The buffer that the operation was started with; empty if it was not given one to own. A
    /// receive fills its first [`Status::len`] bytes.
    pub buffer: Vec<u8>,
}

/// A message that [`mprobe`](super::Endpoint::mprobe) took out of the matching: only its holder can
/// receive it.
#[must_use = "the message is lost to everyone else: receive it with `mrecv`"]
pub struct Matched {
    pub(super) source: PeerId,
    pub(super) message: Unexpected,
}

impl Matched {
    /// What is known of the message.
    pub fn status(&self) -> Status {
        self.message.status(self.source)
    }
}
