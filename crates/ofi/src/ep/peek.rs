//! Looking for a message that has arrived, and taking it out of the matching.

use std::ffi::c_void;

use weft::endpoint::{Cookie, Status, Turn};
use weft_sys::buf::Buf;

use super::Ep;
use super::live::{Bound, State};
use super::mark::Mark;
use super::message::{Wanted, context_of, is_told};
use crate::abi::*;
use crate::cq::{Entry, Failure};
use crate::fail::Fail;

impl Ep {
    /// Tells what the oldest message that fits says of itself, or, by a failure, that there is
    /// none. With `FI_CLAIM` the message is kept for who receives it by the same context; with
    /// `FI_DISCARD` it is thrown away.
    pub fn peek(&self, wanted: Wanted, context: *mut c_void, flags: u64) -> Result<(), Fail> {
        let bound = self.live.bound()?;
        let mark = Mark::new(wanted.kind(), true);
        let context = context_of(context);
        self.live.turn(|turn, state| {
            let want = self.want(state, wanted)?;
            turn.progress();
            let Some(status) = turn.peek(&want) else {
                match turn.hopeless(&want) {
                    Some(error) => bound.failed(state, context, mark, error, None),
                    None => nothing(bound, context, wanted),
                }
                return Ok(());
            };
            if flags & (FI_CLAIM | FI_DISCARD) != 0
                && let Some(matched) = turn.claim(&want)
            {
                if flags & FI_DISCARD != 0 {
                    turn.discard(matched);
                } else if let Some((older, _)) = state.claimed.insert(context, (matched, status)) {
                    turn.discard(older);
                }
            }
            seen(bound, state, context, mark, status);
            Ok(())
        })
    }

    /// Receives a message that was claimed by the same context. With `FI_DISCARD` it is thrown
    /// away: its end says which message that was, as when it was seen.
    pub fn receive_claimed(&self, buf: Buf, context: *mut c_void, flags: u64) -> Result<(), Fail> {
        let bound = self.live.bound()?;
        let context = context_of(context);
        let mark =
            Mark::new(super::mark::Kind::TaggedReceive, is_told(bound.receive.as_ref(), flags));
        self.live.turn(|turn: &mut Turn<'_>, state: &mut State| {
            let (matched, status) = state.claimed.remove(&context).ok_or(Fail::INVAL)?;
            if flags & FI_DISCARD == 0 {
                turn.receive_matched(matched, buf, Cookie { context, mark: mark.0 });
            } else {
                turn.discard(matched);
                bound.ended(state, context, mark, Ok(status), None);
            }
            Ok(())
        })
    }
}

/// A message was seen; it counts when it is received.
fn seen(bound: &Bound, state: &State, context: u64, mark: Mark, status: Status) {
    if let Some(told) = &bound.receive {
        told.queue.push(super::live::entry(state, context, mark, &status, None));
    }
}

fn nothing(bound: &Bound, context: u64, wanted: Wanted) {
    let Some(told) = &bound.receive else { return };
    let tag = wanted.tag.map_or(0, |(tag, _)| tag);
    let flags = FI_RECV | FI_TAGGED;
    let source = FI_ADDR_NOTAVAIL;
    told.queue.fail(Failure {
        entry: Entry { context, flags, len: 0, buf: 0, data: 0, tag, source },
        lost: 0,
        error: Fail::NO_MSG,
        text: "no such message has arrived".into(),
    });
}
