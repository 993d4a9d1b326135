//! Tagged messages, and requests.

use std::ffi::c_void;

use weft::endpoint::{Completion, Endpoint, Matched, Request, Source, Status, Tag};
use weft::error::Error;
use weft_wire::{Envelope, Kind as Message};

use crate::endpoint::{OnEndpoint, on, weft_endpoint};
use crate::error::{Failure, call, weft_status};
use crate::memory::{bytes, fills, give, look, offer, reads, room, there};
use crate::table::{self, Kind, Table};

/// Whoever sends first, as the source of a receive.
pub const WEFT_ANY_SOURCE: u32 = u32::MAX;

/// Every tag, as the bits of a tag that a receive ignores.
pub const WEFT_ANY_TAG: u64 = u64::MAX;

/// What a message says of itself.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct weft_envelope {
    /// Its tag.
    pub tag: u64,
    /// Bytes that it has; a receive into less memory is `WEFT_TRUNCATED`.
    pub len: u64,
    /// Who sent it.
    pub source: u32,
}

impl From<Status> for weft_envelope {
    fn from(status: Status) -> weft_envelope {
        weft_envelope { tag: status.tag(), len: status.len as u64, source: status.source }
    }
}

/// An operation that was started. Its numbers are Weft's: all zero where there is none, as after
/// the call that told its end. A copy is the same request, and only one of them is told the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct weft_request {
    /// Which endpoint's.
    pub endpoint: u64,
    /// Which operation of it.
    pub operation: u64,
}

/// The operation of a send that had ended when it was started.
const ENDED: u64 = u64::MAX;

impl weft_request {
    const NONE: weft_request = weft_request { endpoint: 0, operation: 0 };

    pub(crate) fn new(endpoint: *mut weft_endpoint, request: Option<Request>) -> weft_request {
        // Its number is 0 if it has ended.
        let number = request.map_or(0, Request::into_number);
        let operation = if number == 0 { ENDED } else { number };
        weft_request { endpoint: endpoint.addr() as u64, operation }
    }

    fn endpoint(self) -> *mut weft_endpoint {
        std::ptr::without_provenance_mut(self.endpoint as usize)
    }

    /// The operation, unless it has ended with its start.
    fn operation(self) -> Result<Option<Request>, Failure> {
        match self.operation {
            0 => Err(Error::NoRequest.into()),
            ENDED => Ok(None),
            number => Ok(Some(Request::from_number(number))),
        }
    }
}

/// A message that `weft_mprobe` took out of the matching: nobody else can receive it.
pub struct weft_message {
    _none: (),
}

static MESSAGES: Table<OnEndpoint<Matched>> = Table::new();

impl Kind for OnEndpoint<Matched> {
    type Handle = weft_message;
    const NUMBER: usize = 5;
    const NAME: &'static str = "a message";

    fn table() -> &'static Table<OnEndpoint<Matched>> {
        &MESSAGES
    }
}

fn source(number: u32) -> Source {
    if number == WEFT_ANY_SOURCE { Source::Any } else { Source::Rank(number) }
}

fn tell(envelope: *mut weft_envelope, status: Status) {
    offer(envelope, weft_envelope::from(status));
}

/// Tells how a receive ended; of a message that was too long, what it is as well.
fn ended(envelope: *mut weft_envelope, result: Result<Status, Error>) -> Result<(), Failure> {
    match &result {
        Ok(status) | Err(Error::Truncated { status, .. }) => tell(envelope, *status),
        Err(_) => {}
    }
    result.map(drop).map_err(Failure::from)
}

fn status(result: Result<Completion, Error>) -> Result<Status, Error> {
    result.map(|completion| completion.status)
}

/// Starts something with a request, which goes to `request`.
pub(crate) fn start(
    endpoint: *mut weft_endpoint,
    request: *mut weft_request,
    f: impl FnOnce(&Endpoint) -> Result<Option<Request>, Failure>,
) -> weft_status {
    call(|| {
        there(request, "where the request goes")?;
        let started = on(endpoint, f)?;
        give(request, weft_request::new(endpoint, started), "where the request goes")
    })
}

/// Sends `len` bytes to rank `peer`, with a tag; waits until they may be used again, which for a
/// large message is when the receiver has taken it.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`, `WEFT_UNKNOWN_PEER`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_send(
    endpoint: *mut weft_endpoint,
    peer: u32,
    tag: u64,
    message: *const c_void,
    len: usize,
) -> weft_status {
    call(|| {
        let message = bytes(message, len, "the message")?;
        on(endpoint, |endpoint| Ok(endpoint.send(peer, tag, message)?))
    })
}

/// Receives a message into the start of `into`, which has room for `len` bytes; waits for it. It
/// comes from rank `source_rank` (or `WEFT_ANY_SOURCE`), and its tag is `tag` but for the bits that
/// are set in `ignore` (0: none; `WEFT_ANY_TAG`: all). Messages of one rank are received in the
/// order in which they were sent. `envelope` (which may be null) is told what the message is.
///
/// Errors: `WEFT_TRUNCATED` (then `envelope` is told, too), `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_recv(
    endpoint: *mut weft_endpoint,
    source_rank: u32,
    tag: u64,
    ignore: u64,
    into: *mut c_void,
    len: usize,
    envelope: *mut weft_envelope,
) -> weft_status {
    call(|| {
        let into = fills(into, len, "the memory to receive into")?;
        let tag = Tag::masked(tag, ignore);
        let result = on(endpoint, |endpoint| {
            let request = endpoint.start_receive(source(source_rank), tag, Message::TAGGED, into);
            Ok(status(endpoint.wait(request)))
        })?;
        ended(envelope, result)
    })
}

/// As `weft_recv`, for at most `timeout_ns` nanoseconds.
///
/// Errors: as for `weft_recv`, and `WEFT_TIMED_OUT`: then nothing was received.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_recv_timeout(
    endpoint: *mut weft_endpoint,
    source_rank: u32,
    tag: u64,
    ignore: u64,
    into: *mut c_void,
    len: usize,
    timeout_ns: u64,
    envelope: *mut weft_envelope,
) -> weft_status {
    call(|| {
        let into = room(into, len, "the memory to receive into")?;
        let tag = Tag::masked(tag, ignore);
        let result = on(endpoint, |endpoint| {
            Ok(endpoint.recv_timeout(source(source_rank), tag, into, timeout_ns))
        })?;
        ended(envelope, result)
    })
}

/// Starts to send: the message must stay as it is until the request has ended.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`, `WEFT_UNKNOWN_PEER`; then nothing was started.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_isend(
    endpoint: *mut weft_endpoint,
    peer: u32,
    tag: u64,
    message: *const c_void,
    len: usize,
    request: *mut weft_request,
) -> weft_status {
    start(endpoint, request, |endpoint| {
        let message = reads(message, len, "the message")?;
        let envelope = Envelope { tag, kind: Message::TAGGED, ..Envelope::default() };
        Ok(endpoint.start_send(peer, &envelope, &message)?)
    })
}

/// Starts to receive as `weft_recv` does: nobody may touch the memory until the request has ended.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_irecv(
    endpoint: *mut weft_endpoint,
    source_rank: u32,
    tag: u64,
    ignore: u64,
    into: *mut c_void,
    len: usize,
    request: *mut weft_request,
) -> weft_status {
    start(endpoint, request, |endpoint| {
        let into = fills(into, len, "the memory to receive into")?;
        let tag = Tag::masked(tag, ignore);
        Ok(Some(endpoint.start_receive(source(source_rank), tag, Message::TAGGED, into)))
    })
}

/// Whether a request has ended, and how; makes progress. If it has, `done` is true, the request is
/// none any more, and `envelope` (which may be null) is told what was received; for operations that
/// receive nothing it is left as it is, or told something of no use.
///
/// Errors: the operation's own, with `done` true: `WEFT_TRUNCATED`, `WEFT_PEER_DEAD`,
/// `WEFT_CANCELLED`, ... `WEFT_NO_REQUEST`.
/// Threads: any; of those that ask for the end of one request, one is told.
#[unsafe(no_mangle)]
pub extern "C" fn weft_test(
    request: *mut weft_request,
    done: *mut bool,
    envelope: *mut weft_envelope,
) -> weft_status {
    call(|| {
        there(done, "where it is told whether it has ended")?;
        let asked = look(request, "the request")?;
        let operation = asked.operation()?;
        let result = on(asked.endpoint(), |endpoint| match operation {
            Some(operation) => Ok(endpoint.test(operation).ok().map(|end| status(end).map(Some))),
            None => Ok(Some(Ok(None))),
        })?;
        give(done, result.is_some(), "")?;
        let Some(result) = result else { return Ok(()) };
        give(request, weft_request::NONE, "")?;
        match result {
            Ok(None) => Ok(()),
            Ok(Some(status)) => ended(envelope, Ok(status)),
            Err(error) => ended(envelope, Err(error)),
        }
    })
}

fn wait(request: *mut weft_request, envelope: *mut weft_envelope) -> Result<(), Failure> {
    let asked = look(request, "the request")?;
    let operation = asked.operation()?;
    let result = on(asked.endpoint(), |endpoint| {
        Ok(operation.map(|operation| status(endpoint.wait(operation))))
    })?;
    give(request, weft_request::NONE, "")?;
    result.map_or(Ok(()), |result| ended(envelope, result))
}

/// Waits for a request's end, which is told as by `weft_test`.
///
/// Errors: as for `weft_test`.
/// Threads: any; of those that wait for one request, one is told.
#[unsafe(no_mangle)]
pub extern "C" fn weft_wait(
    request: *mut weft_request,
    envelope: *mut weft_envelope,
) -> weft_status {
    call(|| wait(request, envelope))
}

/// Waits for the ends of `count` requests; those that are none are passed over. `envelopes` (which
/// may be null) has as many places.
///
/// Errors: the first one, after all have ended.
/// Threads: any; as for `weft_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_wait_all(
    requests: *mut weft_request,
    count: usize,
    envelopes: *mut weft_envelope,
) -> weft_status {
    call(|| {
        if count > 0 {
            there(requests, "the row of requests")?;
        }
        let mut first = Ok(());
        for at in 0..count {
            let request = requests.wrapping_add(at);
            if look(request, "the request")?.operation == 0 {
                continue;
            }
            let envelope = if envelopes.is_null() { envelopes } else { envelopes.wrapping_add(at) };
            first = first.and(wait(request, envelope));
        }
        first
    })
}

/// Cancels an operation that has not begun to take effect: a receive without a message, a send that
/// the receiver has not seen. Whether or not it could be cancelled, it ends, and is to be waited
/// for. `cancelled` (which may be null) says whether it was.
///
/// Errors: `WEFT_NO_REQUEST`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_cancel(request: *mut weft_request, cancelled: *mut bool) -> weft_status {
    call(|| {
        let asked = look(request, "the request")?;
        let operation = asked.operation()?;
        let was = on(asked.endpoint(), |endpoint| {
            Ok(operation.is_some_and(|operation| endpoint.cancel(&operation)))
        })?;
        offer(cancelled, was);
        Ok(())
    })
}

/// Says that nobody will ask how an operation ended. It goes on, and its memory must stay until it
/// has ended all the same: for operations on regions that is until the next flush, for others as
/// soon as the program knows it by itself. The request is none any more.
///
/// Errors: `WEFT_NO_REQUEST`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_detach(request: *mut weft_request) -> weft_status {
    call(|| {
        let asked = look(request, "the request")?;
        let operation = asked.operation()?;
        on(asked.endpoint(), |endpoint| {
            operation.into_iter().for_each(|operation| endpoint.detach(operation));
            Ok(())
        })?;
        give(request, weft_request::NONE, "")
    })
}

/// Waits for a message that fits (as for `weft_recv`), and tells what it is; it stays.
///
/// Errors: `WEFT_PEER_DEAD` or `WEFT_PEER_CLOSED` when no such message can come any more.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_probe(
    endpoint: *mut weft_endpoint,
    source_rank: u32,
    tag: u64,
    ignore: u64,
    envelope: *mut weft_envelope,
) -> weft_status {
    call(|| {
        let tag = Tag::masked(tag, ignore);
        tell(envelope, on(endpoint, |endpoint| Ok(endpoint.probe(source(source_rank), tag)?))?);
        Ok(())
    })
}

/// As `weft_probe`, but does not wait: `found` says whether there is such a message now. Makes
/// progress.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_iprobe(
    endpoint: *mut weft_endpoint,
    source_rank: u32,
    tag: u64,
    ignore: u64,
    found: *mut bool,
    envelope: *mut weft_envelope,
) -> weft_status {
    call(|| {
        there(found, "where it is told whether one was found")?;
        let tag = Tag::masked(tag, ignore);
        let probed = on(endpoint, |endpoint| Ok(endpoint.iprobe(source(source_rank), tag)))?;
        give(found, probed.is_some(), "")?;
        probed.into_iter().for_each(|status| tell(envelope, status));
        Ok(())
    })
}

/// Takes the oldest message that fits (as for `weft_recv`) out of the matching, if one has arrived;
/// otherwise `message` becomes null. It is to be received by `weft_mrecv`, by which it is freed.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_mprobe(
    endpoint: *mut weft_endpoint,
    source_rank: u32,
    tag: u64,
    ignore: u64,
    message: *mut *mut weft_message,
    envelope: *mut weft_envelope,
) -> weft_status {
    call(|| {
        there(message, "where the message goes")?;
        let tag = Tag::masked(tag, ignore);
        let probed =
            OnEndpoint::make(endpoint, |endpoint| Ok(endpoint.mprobe(source(source_rank), tag)))?;
        let OnEndpoint { value: Some(matched), port } = probed else {
            return give(message, std::ptr::null_mut(), "");
        };
        tell(envelope, matched.status());
        give(message, table::put(OnEndpoint { value: matched, port })?, "")
    })
}

/// Receives a message that `weft_mprobe` took out, into the start of `into`, which has room for
/// `len` bytes; with less room than it has, what is beyond is lost. The handle is dead from then
/// on.
///
/// Errors: as for `weft_recv`.
/// Threads: any; of those that receive one message, one does.
#[unsafe(no_mangle)]
pub extern "C" fn weft_mrecv(
    message: *mut weft_message,
    into: *mut c_void,
    len: usize,
    envelope: *mut weft_envelope,
) -> weft_status {
    call(|| {
        let into = room(into, len, "the memory to receive into")?;
        let OnEndpoint { value, port } = table::take::<OnEndpoint<Matched>>(message)?;
        ended(envelope, port.endpoint().mrecv(value, into))
    })
}
