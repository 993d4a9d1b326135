//! Joined buffers: two regions that are connected, each at one of two ranks.

use std::ffi::c_void;

use weft::region::Joined;

use crate::endpoint::{OnEndpoint, weft_endpoint};
use crate::error::{Failure, call, weft_status};
use crate::memory::{bytes, give, offer, room, there};
use crate::table::{self, Kind, Table};

/// One end of two joined buffers. What is written moves to the other end, and a flag wakes the
/// other side: it is seen there after all that any thread had written before it, and after earlier
/// flags.
pub struct weft_joined {
    _none: (),
}

static JOINED: Table<OnEndpoint<Joined<'static>>> = Table::new();

impl Kind for OnEndpoint<Joined<'static>> {
    type Handle = weft_joined;
    const NUMBER: usize = 8;
    const NAME: &'static str = "a joined buffer";

    fn table() -> &'static Table<OnEndpoint<Joined<'static>>> {
        &JOINED
    }
}

fn with_joined<R>(
    joined: *mut weft_joined,
    f: impl FnOnce(&Joined<'static>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    f(&table::get::<OnEndpoint<Joined<'static>>>(joined)?.value)
}

/// Joins `len` bytes of memory that Weft allocates, zeroed, with such memory of rank `peer`, which
/// makes the same call with this rank and the same `number`; its `len` may differ. Waits for it.
/// The number tells pairs apart that join the same two ranks.
///
/// Errors: `WEFT_SYSTEM` when memory is short; `WEFT_UNKNOWN_PEER`, `WEFT_PEER_DEAD`,
/// `WEFT_PEER_CLOSED`.
/// Threads: any; several with the same peer need different numbers.
#[unsafe(no_mangle)]
pub extern "C" fn weft_join(
    endpoint: *mut weft_endpoint,
    peer: u32,
    number: u32,
    len: usize,
    joined: *mut *mut weft_joined,
) -> weft_status {
    call(|| {
        there(joined, "where the joined buffer goes")?;
        if len > isize::MAX as usize {
            return Err(Failure::argument(format!("{len} bytes: no memory is as long")));
        }
        let end = OnEndpoint::make(endpoint, |endpoint| Ok(endpoint.join(peer, number, len)?))?;
        give(joined, table::put(end)?, "")
    })
}

/// Gives the bytes of the other end.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_joined_peer_len(joined: *mut weft_joined, len: *mut u64) -> weft_status {
    call(|| give(len, with_joined(joined, |end| Ok(end.peer_len()))?, "where the length goes"))
}

/// Copies `len` bytes from `from` into this end, from byte `offset` of it on.
///
/// Errors: `WEFT_REGION` if they would not all be inside.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_joined_fill(
    joined: *mut weft_joined,
    offset: u64,
    from: *const c_void,
    len: usize,
) -> weft_status {
    call(|| {
        let from = bytes(from, len, "the bytes to fill it with")?;
        with_joined(joined, |end| Ok(end.fill(offset, from)?))
    })
}

/// Copies `len` bytes of this end, from byte `offset` on, to `into`.
///
/// Errors: `WEFT_REGION` if they are not all inside.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_joined_look(
    joined: *mut weft_joined,
    offset: u64,
    into: *mut c_void,
    len: usize,
) -> weft_status {
    call(|| {
        let into = room(into, len, "the memory to look into")?;
        with_joined(joined, |end| Ok(end.look(offset, into)?))
    })
}

/// Starts to move `len` bytes of this end, from byte `from` on, to byte `to` of the other one.
/// They must not be changed before the next flag has been given, or a `weft_joined_flush`. What is
/// written between two flags is unordered.
///
/// Errors: `WEFT_REGION` if they are not all inside, here or there; `WEFT_PEER_DEAD`,
/// `WEFT_PEER_CLOSED`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_joined_write(
    joined: *mut weft_joined,
    from: u64,
    to: u64,
    len: usize,
) -> weft_status {
    call(|| with_joined(joined, |end| Ok(end.write(from, to, len)?)))
}

/// Gives the other side a flag, with a value. Waits for long writes that it could overtake.
///
/// Errors: as for `weft_joined_write`; `WEFT_REFUSED` for a long write if the other end was freed.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_joined_flag(joined: *mut weft_joined, value: u64) -> weft_status {
    call(|| with_joined(joined, |end| Ok(end.flag(value)?)))
}

/// Waits until all that was written is there, and all flags.
///
/// Errors: how the first of them failed.
/// Threads: any; what other threads write meanwhile is not waited for.
#[unsafe(no_mangle)]
pub extern "C" fn weft_joined_flush(joined: *mut weft_joined) -> weft_status {
    call(|| with_joined(joined, |end| Ok(end.flush()?)))
}

/// The value of the other side's oldest flag that was not taken yet, if there is one: `found` says
/// so. Makes progress.
///
/// Threads: any; each flag is given once.
#[unsafe(no_mangle)]
pub extern "C" fn weft_joined_try_flag(
    joined: *mut weft_joined,
    found: *mut bool,
    value: *mut u64,
) -> weft_status {
    call(|| {
        there(found, "where it is told whether there is one")?;
        there(value, "where the flag's value goes")?;
        let taken = with_joined(joined, |end| Ok(end.try_flag()))?;
        give(found, taken.is_some(), "")?;
        taken.into_iter().for_each(|taken| offer(value, taken));
        Ok(())
    })
}

/// As `weft_joined_try_flag`, but waits for one.
///
/// Errors: `WEFT_PEER_DEAD` or `WEFT_PEER_CLOSED` when the other side is gone.
/// Threads: any; each flag is given once.
#[unsafe(no_mangle)]
pub extern "C" fn weft_joined_wait_flag(joined: *mut weft_joined, value: *mut u64) -> weft_status {
    call(|| {
        there(value, "where the flag's value goes")?;
        give(value, with_joined(joined, |end| Ok(end.wait_flag()?))?, "")
    })
}

/// As `weft_joined_wait_flag`, for at most `timeout_ns` nanoseconds.
///
/// Errors: as for `weft_joined_wait_flag`, and `WEFT_TIMED_OUT`.
/// Threads: any; each flag is given once.
#[unsafe(no_mangle)]
pub extern "C" fn weft_joined_wait_flag_timeout(
    joined: *mut weft_joined,
    timeout_ns: u64,
    value: *mut u64,
) -> weft_status {
    call(|| {
        there(value, "where the flag's value goes")?;
        give(value, with_joined(joined, |end| Ok(end.wait_flag_timeout(timeout_ns)?))?, "")
    })
}

/// Drops this end: what the other side writes from then on ends in `WEFT_REFUSED`.
///
/// Errors: `WEFT_BUSY` while another thread uses it, as in a wait for a flag.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_joined_free(joined: *mut weft_joined) -> weft_status {
    call(|| table::take::<OnEndpoint<Joined<'static>>>(joined).map(drop))
}
