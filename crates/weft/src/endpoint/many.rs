//! Receives that take several messages, one behind the other in the same memory.

use weft_proto::msg::matching::{Matcher, Posted, Want};
use weft_sys::buf::Buf;
use weft_wire::{PeerId, Ticket};

use super::ops::{Ops, Owner, State, Status};
use super::turn::{Cookie, Occurrence, Placed};
use super::work::{EndpointWork, Unexpected, whole};
use crate::error::Error;

/// Marks, in the matcher, the slot of a receive that takes several messages.
pub(super) const MANY: u32 = 1 << 31;

/// How far such a receive has come.
#[derive(Debug)]
pub(super) struct Many {
    cookie: Cookie,
    /// `None` before it was posted and after it has left the matcher.
    posted: Option<Posted>,
    /// Where the next message goes.
    offset: usize,
    /// With less room than this it takes no more.
    least: usize,
    /// Messages on their way into it.
    parts: usize,
    full: bool,
    /// What it ends with, besides the messages, when the last of them is there.
    error: Option<Error>,
}

impl Many {
    pub(super) fn new(least: usize, cookie: Cookie) -> Many {
        let (posted, error) = (None, None);
        Many { cookie, posted, offset: 0, least, parts: 0, full: false, error }
    }
}

fn many(ops: &mut Ops, slot: u32) -> &mut Many {
    match &mut ops.at(slot).state {
        State::Many(many) => many,
        other => unreachable!("the matcher holds it as a receive of several, it is {other:?}"),
    }
}

/// Takes room for a message of `len` bytes; gives where, and how much there is. The receive leaves
/// the matcher when not enough is left for the next.
fn place(
    ops: &mut Ops,
    matcher: &mut Matcher<u32, Unexpected>,
    slot: u32,
    len: usize,
) -> (usize, usize) {
    let total = ops.at(slot).buf.len();
    let many = many(ops, slot);
    let offset = many.offset;
    let room = len.min(total - offset);
    many.offset += room;
    if total - many.offset < many.least || room < len || many.offset == total {
        many.full = true;
        if let Some(posted) = many.posted.take() {
            matcher.cancel(posted);
        }
    }
    (offset, room)
}

/// Tells of a message that is there, and of the receive's end if that was the last.
fn told(ops: &mut Ops, slot: u32, offset: usize, result: Result<Status, Error>) {
    let many = many(ops, slot);
    let cookie = many.cookie;
    let over = many.full && many.parts == 0;
    let error = if over { many.error.take() } else { None };
    let placed = Some(Placed { offset, last: over && error.is_none() });
    ops.tell(Occurrence::Ended { cookie, result, placed });
    if let Some(error) = error {
        ended(ops, slot, error);
    } else if over {
        ops.remove(slot);
    }
}

/// Tells that the receive has ended in an error of its own.
fn ended(ops: &mut Ops, slot: u32, error: Error) {
    let Many { cookie, offset, .. } = *many(ops, slot);
    let placed = Some(Placed { offset, last: true });
    ops.remove(slot);
    ops.tell(Occurrence::Ended { cookie, result: Err(error), placed });
}

/// A message has arrived whole.
pub(super) fn fill(
    ops: &mut Ops,
    matcher: &mut Matcher<u32, Unexpected>,
    slot: u32,
    status: Status,
    payload: &[u8],
) {
    let (offset, room) = place(ops, matcher, slot, payload.len());
    ops.at(slot).buf.write(offset, payload);
    told(ops, slot, offset, whole(status, room));
}

/// A message has been announced; gives the operation to pull it with, and its memory.
pub(super) fn part(
    ops: &mut Ops,
    matcher: &mut Matcher<u32, Unexpected>,
    slot: u32,
    status: Status,
) -> (u32, Buf) {
    let (offset, room) = place(ops, matcher, slot, status.len);
    many(ops, slot).parts += 1;
    let into = ops.at(slot).buf.range(offset, room);
    let state = State::Part { status, many: slot, offset };
    let part = ops.insert(state, PeerId(status.source), into.clone());
    ops.at(part).owner = Owner::Nobody;
    (part, into)
}

/// A pulled message is there, or will never be.
pub(super) fn part_ended(ops: &mut Ops, part: u32, error: Option<Error>) {
    let State::Part { status, many: slot, offset } = ops.at(part).state else { return };
    let room = ops.remove(part).len();
    many(ops, slot).parts -= 1;
    told(ops, slot, offset, error.map_or_else(|| whole(status, room), Err));
}

/// Takes the receive out of the matcher and ends it with `error`, now or when what is on its way is
/// there.
pub(super) fn end(ops: &mut Ops, matcher: &mut Matcher<u32, Unexpected>, slot: u32, error: Error) {
    let many = many(ops, slot);
    if let Some(posted) = many.posted.take() {
        matcher.cancel(posted);
    }
    many.full = true;
    if many.parts == 0 {
        ended(ops, slot, error);
    } else {
        many.error = Some(error);
    }
}

impl EndpointWork {
    /// Starts a receive of several messages.
    pub(super) fn receive_many(&mut self, want: Want, buf: Buf, receive: Many) {
        let cookie = receive.cookie;
        let slot = self.ops.insert(State::Many(Box::new(receive)), PeerId(u32::MAX), buf);
        self.ops.at(slot).owner = Owner::Boundary(cookie);
        while let Some((arrival, message)) = self.matcher.claim(&want) {
            let full = self.deliver_many(slot, arrival.source, message);
            if full {
                return;
            }
        }
        self.awaits(want.source);
        match self.matcher.post(want, slot | MANY) {
            Ok(posted) => many(&mut self.ops, slot).posted = Some(posted),
            Err(_) => unreachable!("all messages that fit have just been taken"),
        }
    }

    /// Gives an unexpected message to such a receive; `true` if it takes no more.
    fn deliver_many(&mut self, slot: u32, source: PeerId, message: Unexpected) -> bool {
        let generation = self.ops.at(slot).generation;
        let status = message.status(source);
        self.forget(&message);
        match message {
            Unexpected::Stored { payload, .. } => {
                fill(&mut self.ops, &mut self.matcher, slot, status, &payload);
                self.recycle(payload);
            }
            Unexpected::Announced { ticket, .. } => self.pull_part(slot, status, ticket),
        }
        match self.ops.named(slot, generation).map(|op| &op.state) {
            Some(State::Many(many)) => many.full,
            _ => true,
        }
    }

    /// Asks for an announced message's payload.
    pub(super) fn pull_part(&mut self, slot: u32, status: Status, ticket: Ticket) {
        let (part, into) = part(&mut self.ops, &mut self.matcher, slot, status);
        let id = self.ops.id(part);
        self.device.pull(PeerId(status.source), ticket, into, id);
    }
}
