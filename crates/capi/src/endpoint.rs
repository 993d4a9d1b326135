//! An endpoint, and what stands on one.

use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use weft::context::{Context, ContextOptions};
use weft::endpoint::Endpoint;
use weft::group::{Group, GroupOptions};

use crate::error::{Failure, call, weft_status};
use crate::job::{weft_job, with_job};
use crate::memory::{give, offer, room, there};
use crate::table::{self, Kind, Table};

/// A process's end of all its ways to the others of its job: tagged messages, regions, groups.
pub struct weft_endpoint {
    _none: (),
}

/// What a handle of an endpoint stands for.
pub(crate) struct Port {
    /// The group of all ranks, from the first barrier on: before its endpoint, as it uses it.
    all: OnceLock<Group<'static>>,
    /// Held by the thread that makes it.
    making: Mutex<()>,
    endpoint: Arc<Endpoint>,
}

static ENDPOINTS: Table<Port> = Table::new();

impl Kind for Port {
    type Handle = weft_endpoint;
    const NUMBER: usize = 2;
    const NAME: &'static str = "an endpoint";

    fn table() -> &'static Table<Port> {
        &ENDPOINTS
    }
}

/// Something that borrows its endpoint, kept with it.
pub(crate) struct OnEndpoint<T> {
    /// Dropped first: fields are dropped in their order.
    pub(crate) value: T,
    pub(crate) port: Arc<Port>,
}

impl<T> OnEndpoint<T> {
    /// Makes a value on the endpoint that a handle names.
    pub(crate) fn make(
        endpoint: *mut weft_endpoint,
        make: impl FnOnce(&'static Endpoint) -> Result<T, Failure>,
    ) -> Result<OnEndpoint<T>, Failure> {
        let port = port(endpoint)?;
        Ok(OnEndpoint { value: make(port.for_ever())?, port })
    }
}

/// The id of the group of all ranks, for barriers of a job: members make it by themselves, whatever
/// groups they have made before. It is far from the ids that Weft makes of lists of ranks, as any
/// number of 64 bits is.
const ALL_ID: u64 = 0x6261_7272_6965_7221;

impl Port {
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The endpoint, for what is kept with it.
    fn for_ever(&self) -> &'static Endpoint {
        // SAFETY: the endpoint stays where it is while its `Arc` is there; what is given the
        // borrow lies beside a `Port` (`OnEndpoint`) or in one, and is dropped before it.
        unsafe { &*Arc::as_ptr(&self.endpoint) }
    }

    /// The group of all ranks.
    pub(crate) fn all(&self) -> Result<&Group<'static>, Failure> {
        if let Some(all) = self.all.get() {
            return Ok(all);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(all) = self.all.get() {
            return Ok(all);
        }
        let ranks: Vec<u32> = (0..self.endpoint.size()).collect();
        let options = GroupOptions::from_env()?;
        let made = Group::with_id(self.for_ever(), &ranks, ALL_ID, &options)?;
        Ok(self.all.get_or_init(|| made))
    }
}

thread_local! {
    /// The endpoint that this thread has used last, by its handle, without keeping it.
    static LAST: RefCell<(usize, Weak<Port>)> = const { RefCell::new((0, Weak::new())) };
}

/// The endpoint that a handle names. Nearly always it is the one that the thread has used last,
/// which is found without the table and its lock: on the way of a small message that is felt.
pub(crate) fn port(endpoint: *mut weft_endpoint) -> Result<Arc<Port>, Failure> {
    let known = LAST.try_with(|last| {
        let (handle, port) = &*last.borrow();
        if *handle == endpoint.addr() { port.upgrade() } else { None }
    });
    if let Ok(Some(port)) = known {
        return Ok(port);
    }
    let port = table::get::<Port>(endpoint)?;
    // A thread that is ending remembers nothing.
    let _ = LAST.try_with(|last| last.replace((endpoint.addr(), Arc::downgrade(&port))));
    Ok(port)
}

/// Lets `f` use an endpoint; then other threads may as well.
pub(crate) fn on<R>(
    endpoint: *mut weft_endpoint,
    f: impl FnOnce(&Endpoint) -> Result<R, Failure>,
) -> Result<R, Failure> {
    f(port(endpoint)?.endpoint())
}

/// Opens an endpoint on a channel of a job with all its ranks. All ranks must call it, with the
/// same channel and in the same order. A job may have several endpoints, on different channels.
/// The variables of the environment are heeded.
///
/// Errors: `WEFT_CHANNEL_TAKEN`, `WEFT_UNREACHABLE`, `WEFT_WIRE_UP`, `WEFT_SETTING`,
/// `WEFT_SYSTEM`.
/// Threads: any; others that use the job wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_endpoint_open(
    job: *mut weft_job,
    channel: u16,
    endpoint: *mut *mut weft_endpoint,
) -> weft_status {
    call(|| {
        there(endpoint, "where the endpoint goes")?;
        let options = ContextOptions { channel, ..ContextOptions::from_env()? };
        let context = with_job(job, |job| Ok(Context::open(job, &options)?))?;
        let opened = Arc::new(Endpoint::new(context)?);
        let port = Port { all: OnceLock::new(), making: Mutex::new(()), endpoint: opened };
        give(endpoint, table::put(port)?, "where the endpoint goes")
    })
}

/// This process's number among the endpoint's ranks, from 0.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_endpoint_rank(endpoint: *mut weft_endpoint, rank: *mut u32) -> weft_status {
    call(|| give(rank, on(endpoint, |endpoint| Ok(endpoint.rank()))?, "where the rank goes"))
}

/// How many ranks there are, this one included.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_endpoint_size(endpoint: *mut weft_endpoint, size: *mut u32) -> weft_status {
    call(|| give(size, on(endpoint, |endpoint| Ok(endpoint.size()))?, "where the size goes"))
}

/// Makes progress; `done` (which may be null) says whether something was done. There is no need to
/// call it: other calls make progress, and Weft's own thread where there are none.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_progress(endpoint: *mut weft_endpoint, done: *mut bool) -> weft_status {
    call(|| {
        offer(done, on(endpoint, |endpoint| Ok(endpoint.progress()))?);
        Ok(())
    })
}

/// What the devices and links have done so far, as text: a line "name number" for each counter,
/// cut off where `room` bytes are full, and with a zero byte at its end if there is room for any.
/// `len` (which may be null) is told how many bytes all of it has, without the zero byte.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_counters(
    endpoint: *mut weft_endpoint,
    into: *mut c_char,
    room_len: usize,
    len: *mut usize,
) -> weft_status {
    call(|| {
        let into = room(into.cast::<c_void>(), room_len, "where the counters go")?;
        let counters = on(endpoint, |endpoint| Ok(endpoint.counters()))?;
        let mut text = String::new();
        for (name, count) in counters {
            let _ = writeln!(text, "{name} {count}");
        }
        if let Some(most) = into.len().checked_sub(1) {
            let fits = most.min(text.len());
            into[..fits].copy_from_slice(&text.as_bytes()[..fits]);
            into[fits] = 0;
        }
        offer(len, text.len());
        Ok(())
    })
}

/// Closes an endpoint in good order: waits until what was sent has arrived, as long as the others
/// live, for 5 s if they do not take it. Operations that were started and not waited for end with
/// it, and their memory is the caller's again.
///
/// Errors: `WEFT_BUSY` while there are regions, joined buffers, groups or messages of the endpoint,
/// or calls of other threads that use it.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_endpoint_free(endpoint: *mut weft_endpoint) -> weft_status {
    call(|| table::take::<Port>(endpoint).map(drop))
}
