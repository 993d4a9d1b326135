//! Contexts: messages that are built and read in the device's own memory.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, TryLockError};
use std::thread::{self, ThreadId};

use weft::context::{Context, ContextOptions, Message, SendBuf};
use weft::error::Error;
use weft_wire::PeerId;

use crate::error::{Failure, call, weft_status};
use crate::job::{weft_job, with_job};
use crate::memory::{bytes, give, offer, there};
use crate::message::weft_envelope;
use crate::table::{self, Kind, Table};

/// A process's end of its ways to the others of its job, without matching: messages are built and
/// read where the device has them.
pub struct weft_context {
    _none: (),
}

/// What a handle of a context stands for.
struct Channel(Mutex<State>);

struct State {
    /// What a thread has in hand, which borrows the context, and which thread.
    hand: Option<(Hand, ThreadId)>,
    /// It is being freed.
    ends: bool,
    context: NonNull<Context>,
}

/// The memory of one message.
enum Hand {
    /// To be filled.
    Room(SendBuf<'static>),
    /// To be read.
    Message(
        #[expect(dead_code, reason = "gives its memory back when it is dropped")] Message<'static>,
    ),
}

// SAFETY: a context may go to other threads; what is in hand is used and dropped by the thread that
// got it alone (`State::take_hand`), and is reached through the lock.
unsafe impl Send for State {}

static CONTEXTS: Table<Channel> = Table::new();

impl Kind for Channel {
    type Handle = weft_context;
    const NUMBER: usize = 7;
    const NAME: &'static str = "a context";

    fn table() -> &'static Table<Channel> {
        &CONTEXTS
    }
}

impl State {
    /// The context, for something that is kept in `hand` or let go at once.
    fn context(&mut self) -> Result<&'static mut Context, Failure> {
        if self.ends {
            return Err(busy("another thread frees this context"));
        }
        if self.hand.is_some() {
            return Err(busy(
                "a message of this context is in hand: send it by weft_context_commit, or give it \
                 back by weft_context_release, in the thread that got it, first",
            ));
        }
        // SAFETY: nothing borrows it, for nothing is in hand, and whoever calls has the lock; what
        // is put in hand is gone before the context is (`Drop`).
        Ok(unsafe { self.context.as_mut() })
    }

    /// What this thread has in hand.
    fn take_hand(&mut self) -> Result<Hand, Failure> {
        match self.hand.take_if(|(_, thread)| *thread == thread::current().id()) {
            Some((hand, _)) => Ok(hand),
            None => {
                let whose = if self.hand.is_some() { "another thread has" } else { "there is no" };
                let why = format!("{whose} message of this context in hand");
                Err(Failure::new(weft_status::WEFT_BAD_MESSAGE, why))
            }
        }
    }

    fn keep(&mut self, hand: Hand) {
        self.hand = Some((hand, thread::current().id()));
    }
}

impl Drop for State {
    fn drop(&mut self) {
        debug_assert!(self.hand.is_none(), "a context with a message in hand is not freed");
        // SAFETY: it was a box, and nothing borrows it any more.
        drop(unsafe { Box::from_raw(self.context.as_ptr()) });
    }
}

#[cold]
fn busy(why: &str) -> Failure {
    Failure::new(weft_status::WEFT_BUSY, why)
}

/// Lets `f` use a context, unless another thread does: that one may wait for a message.
fn with<R>(
    context: *mut weft_context,
    f: impl FnOnce(&mut State) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let channel = table::get::<Channel>(context)?;
    let mut state = match channel.0.try_lock() {
        Ok(state) => state,
        Err(TryLockError::Poisoned(state)) => state.into_inner(),
        Err(TryLockError::WouldBlock) => {
            return Err(busy(
                "another thread is in a call with this context: one uses it at a time",
            ));
        }
    };
    f(&mut state)
}

/// Opens a context on a channel of a job with all its ranks, as `weft_endpoint_open` opens an
/// endpoint. A channel is a context's or an endpoint's.
///
/// Errors: as for `weft_endpoint_open`.
/// Threads: any; others that use the job wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_open(
    job: *mut weft_job,
    channel: u16,
    context: *mut *mut weft_context,
) -> weft_status {
    call(|| {
        there(context, "where the context goes")?;
        let options = ContextOptions { channel, ..ContextOptions::from_env()? };
        let opened = Box::new(with_job(job, |job| Ok(Context::open(job, &options)?))?);
        let state = State { hand: None, ends: false, context: NonNull::from(Box::leak(opened)) };
        give(context, table::put(Channel(Mutex::new(state)))?, "where the context goes")
    })
}

/// This process's number among the context's ranks, from 0.
///
/// Threads: any, while no message is in hand.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_rank(context: *mut weft_context, rank: *mut u32) -> weft_status {
    call(|| give(rank, with(context, |it| Ok(it.context()?.rank()))?, "where the rank goes"))
}

/// How many ranks there are, this one included.
///
/// Threads: any, while no message is in hand.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_size(context: *mut weft_context, size: *mut u32) -> weft_status {
    call(|| give(size, with(context, |it| Ok(it.context()?.size()))?, "where the size goes"))
}

/// Bytes of the longest message to rank `peer`.
///
/// Threads: any, while no message is in hand.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_message_max(
    context: *mut weft_context,
    peer: u32,
    len: *mut usize,
) -> weft_status {
    call(|| {
        let longest = with(context, |it| {
            let context = it.context()?;
            if peer >= context.size() {
                return Err(Error::UnknownPeer { peer: PeerId(peer) }.into());
            }
            Ok(context.message_max(peer))
        })?;
        give(len, longest, "where the length goes")
    })
}

/// Takes `len` bytes of the device's memory for a message to rank `peer`; waits while there are
/// none. The message is then in hand: its bytes, which mean nothing yet, are filled at `*memory`,
/// and `weft_context_commit` sends it, or `weft_context_release` gives it back unsent. Meanwhile
/// the context does nothing else, and no other call can use it.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_UNKNOWN_PEER`, `WEFT_BAD_MESSAGE` (longer than
/// `weft_context_message_max`), `WEFT_BUSY` while a message is in hand.
/// Threads: any, one at a time; what is in hand belongs to the thread that got it.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_reserve(
    context: *mut weft_context,
    peer: u32,
    len: usize,
    memory: *mut *mut c_void,
) -> weft_status {
    room(context, memory, |context| context.reserve(peer, len).map(Some))
}

/// As `weft_context_reserve`, without waiting: where there is no memory now, `*memory` becomes
/// null, and nothing is in hand.
///
/// Errors: as for `weft_context_reserve`.
/// Threads: as for `weft_context_reserve`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_try_reserve(
    context: *mut weft_context,
    peer: u32,
    len: usize,
    memory: *mut *mut c_void,
) -> weft_status {
    room(context, memory, |context| context.try_reserve(peer, len))
}

/// Puts room for a message in hand, and tells where it is.
fn room(
    context: *mut weft_context,
    memory: *mut *mut c_void,
    get: impl FnOnce(&'static mut Context) -> Result<Option<SendBuf<'static>>, Error>,
) -> weft_status {
    call(|| {
        there(memory, "where the memory's address goes")?;
        with(context, |it| {
            let Some(mut room) = get(it.context()?)? else {
                return give(memory, std::ptr::null_mut(), "");
            };
            give(memory, room.bytes().as_mut_ptr().cast(), "")?;
            it.keep(Hand::Room(room));
            Ok(())
        })
    })
}

/// Sends what `weft_context_reserve` gave, with a tag that the receiver sees. Its memory is not the
/// program's any more.
///
/// Errors: `WEFT_BAD_MESSAGE` where nothing is in hand, or a message that was received.
/// Threads: the one that reserved it.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_commit(context: *mut weft_context, tag: u64) -> weft_status {
    call(|| {
        with(context, |it| match it.take_hand()? {
            Hand::Room(room) => {
                room.send_tagged(tag);
                Ok(())
            }
            message @ Hand::Message(_) => {
                it.keep(message);
                let why = "the message in hand was received: weft_context_release gives it back";
                Err(Failure::new(weft_status::WEFT_BAD_MESSAGE, why))
            }
        })
    })
}

/// Gives back what is in hand: a message that was read, or memory that was reserved and is not
/// sent.
///
/// Errors: `WEFT_BAD_MESSAGE` where nothing is in hand.
/// Threads: the one that got it.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_release(context: *mut weft_context) -> weft_status {
    call(|| with(context, |it| it.take_hand().map(drop)))
}

/// Sends a copy of `len` bytes to rank `peer`, with a tag that the receiver sees.
///
/// Errors: as for `weft_context_reserve`.
/// Threads: any, one at a time, while no message is in hand.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_send(
    context: *mut weft_context,
    peer: u32,
    tag: u64,
    from: *const c_void,
    len: usize,
) -> weft_status {
    call(|| {
        let from = bytes(from, len, "the message")?;
        with(context, |it| Ok(it.context()?.send(peer, tag, from)?))
    })
}

/// Receives the next message, from whomever; waits for it. It is then in hand: `*from` is where its
/// bytes can be read (never null), and `envelope` (which may be null) tells its sender, tag and
/// length; `weft_context_release` gives it back. Meanwhile the context does nothing else: peers
/// that send are kept waiting, so what is worked on for long is better copied out.
///
/// Errors: `WEFT_PEER_DEAD`, once for each peer that dies; `WEFT_PEER_CLOSED` when the last of the
/// others has ended in good order; `WEFT_BUSY` while a message is in hand.
/// Threads: any, one at a time; what is in hand belongs to the thread that got it.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_recv(
    context: *mut weft_context,
    from: *mut *const c_void,
    envelope: *mut weft_envelope,
) -> weft_status {
    receive(context, from, envelope, |context| context.recv().map(Some))
}

/// As `weft_context_recv`, waiting for at most `timeout_ns`.
///
/// Errors: as for `weft_context_recv`, and `WEFT_TIMED_OUT`.
/// Threads: as for `weft_context_recv`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_recv_timeout(
    context: *mut weft_context,
    timeout_ns: u64,
    from: *mut *const c_void,
    envelope: *mut weft_envelope,
) -> weft_status {
    receive(context, from, envelope, |context| context.recv_timeout(timeout_ns).map(Some))
}

/// As `weft_context_recv`, without waiting: where no message is there, `*from` becomes null, and
/// nothing is in hand.
///
/// Errors: as for `weft_context_recv`.
/// Threads: as for `weft_context_recv`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_try_recv(
    context: *mut weft_context,
    from: *mut *const c_void,
    envelope: *mut weft_envelope,
) -> weft_status {
    receive(context, from, envelope, Context::try_recv)
}

fn receive(
    context: *mut weft_context,
    from: *mut *const c_void,
    envelope: *mut weft_envelope,
    get: impl FnOnce(&'static mut Context) -> Result<Option<Message<'static>>, Error>,
) -> weft_status {
    call(|| {
        there(from, "where the message's address goes")?;
        with(context, |it| {
            let Some(message) = get(it.context()?)? else {
                return give(from, std::ptr::null(), "");
            };
            let told = weft_envelope {
                tag: message.tag(),
                len: message.len() as u64,
                source: message.source(),
            };
            offer(envelope, told);
            give(from, message.as_ptr().cast(), "")?;
            it.keep(Hand::Message(message));
            Ok(())
        })
    })
}

/// Hands everything that waits for company to the medium now.
///
/// Threads: any, one at a time, while no message is in hand.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_flush(context: *mut weft_context) -> weft_status {
    call(|| {
        with(context, |it| {
            it.context()?.flush();
            Ok(())
        })
    })
}

/// Closes a context in good order: waits until what was sent has arrived, as long as the others
/// live, for 5 s if they do not take it.
///
/// Errors: `WEFT_BUSY` while a message is in hand, or another thread is in a call with it.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_context_free(context: *mut weft_context) -> weft_status {
    call(|| {
        // From here on no thread gets a message in hand, unless this fails.
        with(context, |it| {
            it.context()?;
            it.ends = true;
            Ok(())
        })?;
        let taken = table::take::<Channel>(context);
        if taken.is_err() {
            let _ = with(context, |it| {
                it.ends = false;
                Ok(())
            });
        }
        taken.map(drop)
    })
}
