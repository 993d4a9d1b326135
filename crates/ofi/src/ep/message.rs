//! Messages, tagged or not: what both tables of functions come down to.

use std::ffi::c_void;

use weft::boundary::{Cookie, Sent, Until};
use weft_proto::msg::matching::Want;
use weft_sys::buf::Buf;
use weft_wire::{Envelope, Kind as Queue, PeerId};

use super::Ep;
use super::live::{Bound, HAS_DATA, Told};
use super::mark::{Kind, Mark};
use crate::abi::*;
use crate::fail::Fail;
use crate::info::INJECT_MAX;

/// Flags that no operation here can honour.
const REFUSED: u64 = FI_FENCE | FI_TRIGGER | FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE;

/// A message to be sent, apart from its bytes.
#[derive(Clone, Copy)]
pub struct Outgoing {
    /// The peer.
    pub number: fi_addr_t,
    /// The tag of a tagged message.
    pub tag: Option<u64>,
    /// Remote CQ data.
    pub data: Option<u64>,
}

impl Outgoing {
    #[inline]
    fn envelope(&self) -> Envelope {
        // One word from a table, as it will be read: put together here, it would be stored in
        // parts.
        static RESTS: [[u32; 2]; 2] = [
            [Queue::UNTAGGED.0 as u32, Queue::UNTAGGED.0 as u32 | (HAS_DATA as u32) << 8],
            [Queue::TAGGED.0 as u32, Queue::TAGGED.0 as u32 | (HAS_DATA as u32) << 8],
        ];
        let rest = RESTS[usize::from(self.tag.is_some())][usize::from(self.data.is_some())];
        Envelope::from_words(self.tag.unwrap_or(0), rest, self.data.unwrap_or(0))
    }

    #[inline]
    fn kind(&self) -> Kind {
        if self.tag.is_some() { Kind::TaggedSend } else { Kind::Send }
    }
}

/// What a receive asks for.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// The peer, or [`FI_ADDR_UNSPEC`].
    pub number: fi_addr_t,
    /// The tag and the bits of it that do not matter, for a tagged receive.
    pub tag: Option<(u64, u64)>,
}

impl Wanted {
    #[inline]
    pub fn kind(&self) -> Kind {
        if self.tag.is_some() { Kind::TaggedReceive } else { Kind::Receive }
    }
}

/// Memory of the application for an operation.
///
/// # Safety
/// The application keeps it valid until the operation has ended.
#[inline]
pub unsafe fn memory(ptr: *const c_void, len: usize) -> Buf {
    // SAFETY: the caller's promise.
    unsafe { Buf::from_raw(ptr.cast_mut().cast(), len) }
}

/// The same in several pieces.
///
/// # Errors
/// When there are too many.
///
/// # Safety
/// There are `count` pieces, and the application keeps them valid until the operation has ended.
#[inline]
pub unsafe fn pieces(iov: *const iovec, count: usize) -> Result<Buf, Fail> {
    // SAFETY: the caller's promise.
    let iov = unsafe { crate::mr::slice(iov, count) };
    match iov {
        [] => Ok(Buf::empty()),
        // SAFETY: as above.
        [one] => Ok(unsafe { memory(one.iov_base, one.iov_len) }),
        _ if count > crate::info::IOV_MAX => Err(Fail::INVAL),
        several => {
            let pieces = several.iter().map(|piece| (piece.iov_base.cast(), piece.iov_len));
            // SAFETY: as above.
            Ok(unsafe { Buf::from_pieces(pieces) })
        }
    }
}

/// Whether an operation's end is to be told by a queue.
#[inline]
pub fn is_told(told: Option<&Told>, flags: u64) -> bool {
    told.is_some_and(|told| !told.selective || flags & FI_COMPLETION != 0)
}

/// An operation's name, as Weft keeps it.
#[inline]
pub fn context_of(context: *mut c_void) -> u64 {
    context.expose_provenance() as u64
}

impl Ep {
    /// Sends a copy of `bytes`; its end is not told.
    #[inline]
    pub fn inject(&self, message: Outgoing, bytes: &[u8]) -> Result<(), Fail> {
        let bound = self.live.bound()?;
        if bytes.len() > INJECT_MAX {
            return Err(Fail::SIZE);
        }
        bound.began();
        self.live.turn(|turn, state| {
            let peer = state.peer(message.number)?;
            state.lookout.sent();
            turn.inject(peer, &message.envelope(), bytes).map_err(|e| self.lost(state, &e))
        })?;
        bound.ended_at_once(0, Mark::new(message.kind(), false), bytes.len());
        Ok(())
    }

    /// Starts to send `buf`.
    #[inline]
    pub fn send(
        &self,
        message: Outgoing,
        buf: &Buf,
        context: *mut c_void,
        flags: u64,
    ) -> Result<(), Fail> {
        let bound = self.live.bound()?;
        let mark = Mark::new(message.kind(), is_told(bound.transmit.as_ref(), flags));
        let context = context_of(context);
        bound.began();
        if flags & (FI_INJECT | FI_DELIVERY_COMPLETE | REFUSED) != 0 {
            return self.send_specially(bound, message, buf, (context, mark), flags);
        }
        let envelope = message.envelope();
        self.live.turn(|turn, state| {
            let peer = state.peer(message.number)?;
            state.lookout.sent();
            let cookie = Some(Cookie { context, mark: mark.0 });
            // What has ended before is told before.
            self.live.tell_all(turn, bound, state);
            let sent = if self.ends_early {
                turn.send(peer, &envelope, buf, cookie)
            } else {
                turn.send_until(peer, &envelope, buf, Until::Taken, cookie)
            };
            match sent.map_err(|e| self.lost(state, &e))? {
                Sent::Ended => bound.ended_at_once(context, mark, buf.len()),
                Sent::UnderWay => {}
            }
            Ok(())
        })
    }

    /// As [`Ep::send`], with flags that want more.
    #[cold]
    fn send_specially(
        &self,
        bound: &Bound,
        message: Outgoing,
        buf: &Buf,
        (context, mark): (u64, Mark),
        flags: u64,
    ) -> Result<(), Fail> {
        if flags & REFUSED != 0 {
            return Err(Fail::BAD_FLAGS);
        }
        let envelope = message.envelope();
        let copy = is_injected(flags, buf.len())?.then(|| copied(buf));
        self.live.turn(|turn, state| {
            let peer = state.peer(message.number)?;
            state.lookout.sent();
            if flags & FI_DELIVERY_COMPLETE == 0 {
                if let Some(copy) = &copy {
                    // Nobody asks how it ends, and its bytes are its own.
                    let sent = turn.send(peer, &envelope, copy, None);
                    sent.map_err(|e| self.lost(state, &e))?;
                    bound.ended_at_once(context, mark, copy.len());
                }
                return Ok(());
            }
            let buf = copy.as_ref().unwrap_or(buf);
            let cookie = Some(Cookie { context, mark: mark.0 });
            let sent = turn.send_until(peer, &envelope, buf, Until::There, cookie);
            if sent.map_err(|e| self.lost(state, &e))? == Sent::Ended {
                bound.ended_at_once(context, mark, buf.len());
            }
            if let Some(told) = &bound.receive
                && !turn.is_long(peer, buf.len())
            {
                told.queue.give_way();
            }
            Ok(())
        })
    }

    /// What to match with.
    #[inline]
    pub fn want(&self, state: &super::State, wanted: Wanted) -> Result<Want, Fail> {
        let directed = self.caps & FI_DIRECTED_RECV != 0 && wanted.number != FI_ADDR_UNSPEC;
        let source = if directed { Some(PeerId(state.peer(wanted.number)?)) } else { None };
        Ok(match wanted.tag {
            Some((tag, ignore)) => Want { source, tag, ignore, kind: Queue::TAGGED },
            None => Want { source, tag: 0, ignore: u64::MAX, kind: Queue::UNTAGGED },
        })
    }

    /// Starts to receive into the memory that `memory` gives: made where it is kept, for what is
    /// moved a moment after it was made waits for the store buffer.
    #[inline]
    pub fn receive(
        &self,
        wanted: Wanted,
        memory: impl FnOnce() -> Buf,
        context: *mut c_void,
        flags: u64,
    ) -> Result<(), Fail> {
        let bound = self.live.bound()?;
        let mark = Mark::new(wanted.kind(), is_told(bound.receive.as_ref(), flags));
        let context = context_of(context);
        self.live.turn(|turn, state| {
            let want = self.want(state, wanted)?;
            if flags & FI_MULTI_RECV == 0 {
                turn.receive_into(want, memory, Cookie { context, mark: mark.0 });
            } else {
                let buf = memory();
                let base = buf.pieces().next().map_or(0, |piece| piece.addr());
                let cookie = Cookie { context, mark: mark.many(base).0 };
                turn.receive_many(want, buf, self.least(), cookie);
            }
            // What had come before has ended it: found without another look.
            self.live.tell_all(turn, bound, state);
            Ok(())
        })
    }
}

/// Whether the application may change the `len` bytes of an operation at once.
///
/// # Errors
/// When there are too many for that.
#[inline]
pub fn is_injected(flags: u64, len: usize) -> Result<bool, Fail> {
    match flags & FI_INJECT != 0 {
        true if len > INJECT_MAX => Err(Fail::SIZE),
        injected => Ok(injected),
    }
}

/// A copy of these bytes.
pub fn copied(buf: &Buf) -> Buf {
    let mut copy = vec![0; buf.len()];
    buf.read(0, &mut copy);
    Buf::from_vec(copy)
}
