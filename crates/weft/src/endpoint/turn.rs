//! The endpoint as boundaries to other interfaces use it (libfabric, C): they keep their own
//! completion queues, number their peers themselves, and give memory by a promise.

use std::sync::Arc;

use weft_proto::msg::matching::Want;
use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_sys::watch::Signal;
use weft_wire::{Envelope, PeerId};

use super::many::Many;
use super::ops::{Owner, Status, Until};
use super::request::Matched;
use super::sends::{Outgoing, Started};
use super::share::Share;
use super::work::EndpointWork;
use super::{Collective, Endpoint};
use crate::collective::exchange::What;
use crate::error::Error;
use crate::group::seat::Seat;
use crate::remote::{AtomicOp, Scalar, Spot};

/// Looks in a row that share one at the clock.
const LOOKS_PER_TIME: u32 = 16;

/// What a boundary wants to be told with an operation's end. Both words are free for its use;
/// [`Turn::cancel`] looks for the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cookie {
    /// The user's name for the operation.
    pub context: u64,
    /// What else the boundary wants to know again.
    pub mark: u64,
}

/// Where in a receive of several messages one of them lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Its first byte.
    pub offset: usize,
    /// The receive has ended with it: the memory is the user's again.
    pub last: bool,
}

/// What a peer did with a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Wrote it.
    Put,
    /// Read it.
    Get,
    /// Changed it by an atomic operation.
    Atomic,
    /// Read it by an atomic operation, and perhaps changed it.
    FetchAtomic,
}

/// A receive that has got its message. All of it is whole words, for it is read a moment after it
/// was written: see [`Envelope`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Which one.
    pub cookie: Cookie,
    /// The peer.
    pub source: u32,
    /// Bytes.
    pub len: usize,
    /// As [`Envelope::words`] gives them.
    words: (u64, u32, u64),
}

impl Received {
    #[inline]
    pub(super) fn new(cookie: Cookie, status: &Status) -> Received {
        let Status { source, envelope, len } = status;
        Received { cookie, source: *source, len: *len, words: envelope.words() }
    }

    /// What the message says of itself.
    #[inline]
    pub fn envelope(&self) -> Envelope {
        let (tag, rest, data) = self.words;
        Envelope::from_words(tag, rest, data)
    }
}

/// What an endpoint tells its boundary.
#[derive(Debug)]
pub enum Occurrence {
    /// A receive of one message has ended well.
    Received(Received),
    /// An operation has ended in another way, or another operation.
    Ended {
        /// Which one.
        cookie: Cookie,
        /// How. For operations on a peer's memory the status has its number and the length only.
        result: Result<Status, Error>,
        /// For a receive of several messages: where this one is.
        placed: Option<Placed>,
    },
    /// A peer has used a window, and all that it did is done: told once for an operation, if a
    /// word came along or if [`Turn::watch_windows`] was asked for.
    Accessed {
        /// Who.
        peer: u32,
        /// What it did.
        access: Access,
        /// The window's key; `None` for several windows, each of which was told before as
        /// [`Occurrence::Touched`].
        key: Option<u64>,
        /// Bytes.
        len: usize,
        /// The word that it sent along.
        data: Option<u64>,
    },
    /// One of several windows that a peer has used in one operation.
    Touched {
        /// What it did.
        access: Access,
        /// The window's key.
        key: u64,
        /// Bytes in this window.
        len: usize,
    },
}

/// What goes along with a request for a peer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Along {
    /// A word for the peer, told to it when the operation is done.
    pub data: Option<u64>,
    /// For one of several requests that are one operation.
    pub share: Option<Share>,
}

impl Along {
    /// Whether the peer need not know of the request.
    pub(super) fn is_nothing(&self) -> bool {
        *self == Along::default()
    }
}

/// How a send began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It has ended: the memory may be used again, and no [`Occurrence`] comes for it.
    Ended,
    /// It goes on, and its end is told by an [`Occurrence`] if a cookie was given.
    UnderWay,
}

/// An atomic operation on a row of elements of a peer's window.
#[derive(Clone, Debug)]
pub struct Atomic<'a> {
    /// What is done with each element.
    pub op: AtomicOp,
    /// Their type.
    pub scalar: Scalar,
    /// How many, at most [`ELEMENTS_MAX`](crate::remote::ELEMENTS_MAX).
    pub count: usize,
    /// An operand for each; not looked at for [`AtomicOp::Read`].
    pub operands: &'a Buf,
    /// A comparand for each, for operations that compare.
    pub comparands: &'a Buf,
    /// Where the former values go, if they are wanted.
    pub fetch: Option<Buf>,
}

/// For boundaries to other interfaces ([`boundary`](crate::boundary)), not for programs.
impl Endpoint {
    /// Several steps under one lock. Not to be called within another turn.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    #[inline]
    pub fn turn<R>(&self, steps: impl FnOnce(&mut Turn<'_>) -> R) -> R {
        let mut work = self.station.lock();
        let result = steps(&mut Turn { work: &mut work });
        self.give_back(work);
        result
    }

    /// For a caller who asks again and again whether something has happened, and never sleeps:
    /// called when [`Endpoint::is_idle_due`] says so, with whether that is for the first time
    /// (`anew`) since something had happened or was done, it gives the processor away where others
    /// need it, and, if it may, sleeps for a moment, or until something arrives, after long. `true`
    /// if it did, so that another look may find something.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    #[inline]
    pub fn idle(&self, anew: bool, may_sleep: bool) -> bool {
        self.station.idle(anew, may_sleep)
    }

    /// Whether [`Endpoint::idle`] is to be called after so many looks in a row that found nothing.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    #[inline]
    pub fn is_idle_due(&self, rounds: u32) -> bool {
        self.station.is_idle_due(rounds)
    }

    /// Whether the caller may look for something several times in a row: nobody else needs its
    /// processor.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    #[inline]
    pub fn may_spin(&self) -> bool {
        self.station.may_spin()
    }

    /// Sets `signal` from now on when something happens for the boundary while it makes no calls.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn signal_by(&self, signal: Arc<Signal>) {
        self.station.lock().signals.push(signal);
    }

    /// Says that the caller goes to sleep on a [`Signal`]: the tender takes over at once.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn rest(&self) {
        self.station.leave();
    }
}

/// One caller's turn at an endpoint: several steps under one lock, by `Endpoint::turn`.
pub struct Turn<'a> {
    pub(super) work: &'a mut EndpointWork,
}

impl Turn<'_> {
    /// Sends a copy of `bytes`: they may be used again at once, whatever their length.
    ///
    /// # Errors
    /// [`Error::PeerDead`], [`Error::PeerClosed`], [`Error::UnknownPeer`].
    #[inline]
    pub fn inject(&mut self, peer: u32, envelope: &Envelope, bytes: &[u8]) -> Result<(), Error> {
        self.work.send_copy(PeerId(peer), envelope, bytes)?;
        self.work.has_sent(bytes.len());
        Ok(())
    }

    /// Starts to send `buf`.
    ///
    /// # Errors
    /// As for [`Turn::inject`]; then no [`Occurrence`] comes.
    #[inline]
    pub fn send(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        buf: &Buf,
        cookie: Option<Cookie>,
    ) -> Result<Sent, Error> {
        self.send_until(peer, envelope, buf, Until::Free, cookie)
    }

    /// As [`Turn::send`]; its end says more than that its memory is free.
    ///
    /// # Errors
    /// As for [`Turn::inject`]; then no [`Occurrence`] comes.
    #[inline]
    pub fn send_until(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        buf: &Buf,
        until: Until,
        cookie: Option<Cookie>,
    ) -> Result<Sent, Error> {
        let sent = match self.work.send(PeerId(peer), envelope, Outgoing::Kept(buf, until))? {
            Started::Ended => Sent::Ended,
            Started::Slot(slot) => {
                self.work.entrust(slot, cookie);
                Sent::UnderWay
            }
        };
        self.work.has_sent(buf.len());
        Ok(sent)
    }

    /// Whether a message of `len` bytes to `peer` is long: its payload is fetched by the receiver.
    #[inline]
    pub fn is_long(&self, peer: u32, len: usize) -> bool {
        self.work.announces(PeerId(peer), len)
    }

    /// Starts to receive one message.
    #[inline]
    pub fn receive(&mut self, want: Want, buf: Buf, cookie: Cookie) {
        self.receive_into(want, || buf, cookie);
    }

    /// As [`Turn::receive`], into memory that is made where it is kept: faster than to move it
    /// there.
    #[inline(always)]
    pub fn receive_into(&mut self, want: Want, memory: impl FnOnce() -> Buf, cookie: Cookie) {
        self.work.receive_into(want, memory, Owner::Boundary(cookie));
    }

    /// Starts to receive message after message into `buf`, one behind the other, until less than
    /// `least` bytes are left.
    pub fn receive_many(&mut self, want: Want, buf: Buf, least: usize, cookie: Cookie) {
        self.work.receive_many(want, buf, Many::new(least, cookie));
    }

    /// What the oldest unexpected message that fits says of itself.
    pub fn peek(&mut self, want: &Want) -> Option<Status> {
        let found = self.work.matcher.peek(want);
        let status = found.map(|(arrival, message)| message.status(arrival.source));
        if status.is_none() {
            self.work.awaits(want.source);
        }
        status
    }

    /// Which of the [kept](Turn::kept) messages [`Turn::peek`] shows, counted from 0.
    pub fn number(&mut self, want: &Want) -> Option<u64> {
        self.work.matcher.number(want)
    }

    /// Messages for which no receive was there when they came, ever.
    pub fn kept(&self) -> u64 {
        self.work.matcher.kept()
    }

    /// Why no message that is wanted can come any more, if so.
    pub fn hopeless(&self, want: &Want) -> Option<Error> {
        self.work.hopeless(want)
    }

    /// Takes the oldest unexpected message that fits out of the matching: only its holder can
    /// receive it then.
    pub fn claim(&mut self, want: &Want) -> Option<Matched> {
        let (arrival, message) = self.work.matcher.claim(want)?;
        Some(Matched { source: arrival.source, message })
    }

    /// Receives a message that [`Turn::claim`] took out.
    pub fn receive_matched(&mut self, matched: Matched, buf: Buf, cookie: Cookie) {
        let slot = self.work.ops.insert_receive(|| buf, Owner::Boundary(cookie));
        self.work.deliver(slot, matched.source, matched.message);
    }

    /// Throws a message away that [`Turn::claim`] took out; its sender's operation ends well.
    pub fn discard(&mut self, matched: Matched) {
        let slot = self.work.ops.insert_receive(Buf::empty, Owner::Nobody);
        self.work.deliver(slot, matched.source, matched.message);
    }

    /// Starts a collective operation of a group's members: see
    /// [`Group::start_collective`](crate::group::Group::start_collective). Its end is told.
    ///
    /// # Errors
    /// [`Error::Collective`] if lengths do not fit.
    pub fn collective(
        &mut self,
        seat: Seat,
        collective: &Collective,
        memory: (Buf, Buf),
        cookie: Cookie,
    ) -> Result<(), Error> {
        let slot = self.work.collect_in(seat, collective, memory.0, memory.1)?;
        self.work.entrust(slot, Some(cookie));
        Ok(())
    }

    /// Enters a barrier of a group, once those before it are over; its end is told. As
    /// [`Group::arrive`](crate::group::Group::arrive), but any number may be under way. A failure
    /// is told as its end, too.
    pub fn barrier(&mut self, seat: Seat, cookie: Cookie) {
        self.work.begin_barrier(seat, cookie);
    }

    /// Starts a broadcast of a group; its end is told. As
    /// [`Group::broadcast`](crate::group::Group::broadcast): by multicast, and by messages in a
    /// group of two, within a node, and above 64 KiB where members share nodes. A failure is told
    /// as its end, too.
    ///
    /// # Errors
    /// [`Error::Collective`] if there is no such member.
    pub fn broadcast(
        &mut self,
        seat: Seat,
        root: u32,
        buf: Buf,
        cookie: Cookie,
    ) -> Result<(), Error> {
        if seat.broadcasts_by_messages(buf.len()) || root >= seat.size() {
            let by_messages = Collective::moving(What::Broadcast { root }, 1, buf.len());
            return self.collective(seat, &by_messages, (Buf::empty(), buf), cookie);
        }
        self.work.begin_broadcast(seat, root, buf, cookie);
        Ok(())
    }

    /// Leaves a group, without waiting: when the others do not need this member any more, or after
    /// some seconds. What has not ended in it ends in [`Error::Cancelled`], and in an error at the
    /// others.
    pub fn leave(&mut self, seat: Seat) {
        self.work.quit(seat.slot(), now_ns());
    }

    /// Cancels an operation that has not begun to take effect, and has `context` in its cookie.
    /// `true`: it has ended in [`Error::Cancelled`], which is told as usual.
    pub fn cancel(&mut self, context: u64) -> bool {
        let Some(slot) = self.work.ops.by_context(context) else { return false };
        self.work.cancel(slot)
    }

    /// What makes `parts` requests to one peer one operation, of which the peer is told once, when
    /// all are done; not at all if one of them is refused.
    pub fn share(&mut self, parts: usize) -> Option<Share> {
        self.work.share(parts)
    }

    /// Starts to write to a peer's memory. It has ended when the bytes are there; until then `from`
    /// must not be changed.
    ///
    /// # Errors
    /// As for [`Turn::inject`].
    pub fn put(
        &mut self,
        peer: u32,
        from: &Buf,
        at: Spot,
        along: Along,
        cookie: Option<Cookie>,
    ) -> Result<(), Error> {
        let _ = self.work.put(PeerId(peer), from, at, along, owner(cookie))?;
        self.work.has_sent(from.len());
        Ok(())
    }

    /// Whether [`Turn::put`] of `len` bytes copies them, so that they may change once it returns.
    #[inline]
    pub fn puts_at_once(&self, peer: u32, len: usize) -> bool {
        self.work.puts_at_once(PeerId(peer), len)
    }

    /// Starts to read a peer's memory.
    ///
    /// # Errors
    /// As for [`Turn::inject`].
    pub fn get(
        &mut self,
        peer: u32,
        into: Buf,
        at: Spot,
        share: Option<Share>,
        cookie: Option<Cookie>,
    ) -> Result<(), Error> {
        let _ = self.work.get(PeerId(peer), into, at, share, owner(cookie))?;
        self.work.has_sent(0);
        Ok(())
    }

    /// Starts an atomic operation on a peer's memory. The operands may be used again at once.
    ///
    /// # Errors
    /// As for [`Turn::inject`], and [`Error::Refused`] if it cannot be done with such elements.
    pub fn atomic(
        &mut self,
        peer: u32,
        atomic: Atomic<'_>,
        at: Spot,
        along: Along,
        cookie: Option<Cookie>,
    ) -> Result<(), Error> {
        let _ = self.work.atomic(PeerId(peer), atomic, at, along, owner(cookie))?;
        self.work.has_sent(0);
        Ok(())
    }

    /// The directory of a peer: memory, and from which word on.
    #[cfg(test)]
    pub(super) fn directory_of(
        &mut self,
        peer: u32,
    ) -> Option<(Arc<weft_sys::mem::Mapping>, usize)> {
        self.work.remote.reach.directory(&mut *self.work.device, PeerId(peer))
    }

    /// Tells from now on of every use of the windows, or of those with a word only.
    pub fn watch_windows(&mut self, all: bool) {
        self.work.remote.notes.watched = all;
        if all {
            let super::serve::Remote { reach, windows, .. } = &mut self.work.remote;
            reach.introduces_no_more(windows);
        }
    }

    /// Takes what has arrived; `true` if something was done.
    #[inline]
    pub fn progress(&mut self) -> bool {
        self.progress_within(1)
    }

    /// As [`Turn::progress`], looking up to so many times until something is done, and once if
    /// something has ended that was not told yet: nobody is to wait for more then. Some looks share
    /// one at the clock.
    #[inline]
    pub fn progress_within(&mut self, looks: u32) -> bool {
        let mut now_ns = self.work.time();
        let looks = if self.work.ops.occurrences.is_empty() { looks } else { 1 };
        for look in 1..looks {
            if self.work.progress(now_ns) {
                return true;
            }
            // Also for the sender's sake, who writes the line that is looked at.
            std::hint::spin_loop();
            if look.is_multiple_of(LOOKS_PER_TIME) {
                now_ns = self.work.time();
            }
        }
        self.work.progress(now_ns)
    }

    /// What has happened since, one thing at a time, oldest first. For who takes much at once there
    /// is [`Turn::occurrences`].
    pub fn occurrence(&mut self) -> Option<Occurrence> {
        let all = &mut self.work.ops.occurrences;
        (!all.is_empty()).then(|| all.remove(0))
    }

    /// All of it, where it lies, oldest first; `true` if there was anything.
    #[inline]
    pub fn occurrences(&mut self, each: impl FnMut(&Occurrence)) -> bool {
        let all = &mut self.work.ops.occurrences;
        if all.is_empty() {
            return false;
        }
        all.iter().for_each(each);
        all.clear();
        true
    }
}

fn owner(cookie: Option<Cookie>) -> Owner {
    cookie.map_or(Owner::Nobody, Owner::Boundary)
}
