//! Looking for a message that has arrived, and taking it out of the matching.
//!
//! Who looks for a message from anyone right after a send is told "nothing yet" once, even if there
//! is one. That is for MPICH's sake. What a rank sends to itself goes by MPICH's own memory, and is
//! seen there only after MPICH has made progress; a probe looks there first, and then here. So a
//! probe from anyone right after the sends would be shown a peer's message, MPICH then takes in the
//! rank's own, and the receive from anyone gets that one instead: `MPI_Dist_graph_create` makes
//! wrong graphs so. Between two looks MPICH makes progress. A program loses nothing by it: it asks
//! again, as it must where a message is late.
//!
//! A program of its own receives from the sender that it was shown, as MPI demands, and gets what
//! it was shown. So where `libweft-mpi.so` sees the program's calls, this is done within
//! `MPI_Dist_graph_create` alone: elsewhere it costs each step of a consensus 0.5 us of 2.5.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use weft::boundary::{Cookie, Turn};
use weft::endpoint::Status;
use weft_proto::msg::matching::Want;
use weft_sys::buf::Buf;

use super::Ep;
use super::live::{Bound, State};
use super::mark::Mark;
use super::message::{Wanted, context_of, is_told};
use crate::abi::*;
use crate::cq::{Entry, Failure};
use crate::fail::Fail;

/// Whether any look is told "nothing yet".
static WITHHOLDS: AtomicBool = AtomicBool::new(true);

/// Says whether any look is told so from now on.
pub fn withhold(may: bool) {
    WITHHOLDS.store(may, Ordering::Relaxed);
}

/// When a look for a message from anyone is told "nothing yet"; see the module's page.
#[derive(Default)]
pub struct Lookout {
    /// Something was sent, and no progress asked for since.
    sent: bool,
    /// Messages that had come when "nothing" was told last. They are shown, whatever is sent: else
    /// a program that sends before each look would never see them.
    known: u64,
}

impl Lookout {
    #[inline]
    pub fn sent(&mut self) {
        self.sent = true;
    }

    #[inline]
    pub fn progressed(&mut self) {
        self.sent = false;
    }

    /// Whether the message that was found is not to be shown yet.
    fn withholds(&self, turn: &mut Turn<'_>, want: &Want) -> bool {
        self.sent
            && want.source.is_none()
            && WITHHOLDS.load(Ordering::Relaxed)
            && turn.number(want).is_some_and(|number| number >= self.known)
    }

    fn told_nothing(&mut self, turn: &Turn<'_>, want: &Want) {
        if want.source.is_none() {
            self.known = turn.kept();
        }
    }
}

impl Ep {
    /// Tells what the oldest message that fits says of itself, or, by a failure, that there is
    /// none. With `FI_CLAIM` the message is kept for who receives it by the same context; with
    /// `FI_DISCARD` it is thrown away.
    pub fn peek(&self, wanted: Wanted, context: *mut c_void, flags: u64) -> Result<(), Fail> {
        let bound = self.live.bound()?;
        let mark = Mark::new(wanted.kind(), true);
        let context = context_of(context);
        let is_there = self.live.turn(|turn, state| {
            let want = self.want(state, wanted)?;
            // What comes behind messages for others is met by the next look.
            if turn.progress() && turn.peek(&want).is_none() {
                turn.progress();
            }
            // What is taken at once is what was shown, in any case.
            let takes = flags & (FI_CLAIM | FI_DISCARD) != 0;
            let found = turn.peek(&want);
            let Some(status) = found.filter(|_| takes || !state.lookout.withholds(turn, &want))
            else {
                state.lookout.told_nothing(turn, &want);
                match turn.hopeless(&want) {
                    Some(error) if found.is_none() => {
                        bound.failed(state, context, mark, &error, None);
                        return Ok(true);
                    }
                    _ => nothing(bound, context, wanted),
                }
                // One that is withheld is there: nobody is to look out for it in the next look.
                return Ok(found.is_some());
            };
            if takes && let Some(matched) = turn.claim(&want) {
                if flags & FI_DISCARD != 0 {
                    turn.discard(matched);
                } else if let Some((older, _)) = state.claimed.insert(context, (matched, status)) {
                    turn.discard(older);
                }
            }
            seen(bound, state, context, mark, status);
            Ok::<bool, Fail>(true)
        })?;
        // Who peeks again and again waits, and never finds the queue empty, where waits give way.
        if !is_there && let Some(told) = &bound.receive {
            told.queue.sources().idle();
        }
        Ok(())
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
                bound.ended(state, context, mark, &Ok(status), None);
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
        text: c"no such message has arrived".into(),
    });
}
