//! The counter: how many operations have ended, and how many of them badly.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::*;
use crate::cq::wait_object;
use crate::domain::Shared;
use crate::fail::{Fail, call, guard};
use crate::object::{Object, give, head, of, ops, table, take, unused};
use crate::wait::Sources;

/// The numbers, shared by the counter's handle and its endpoints.
pub struct Counter {
    value: AtomicU64,
    errors: AtomicU64,
    /// Whether bytes are counted instead of operations.
    bytes: bool,
    /// What a read saw last: a reader who sees the same again and again gives way.
    seen: AtomicU64,
    sources: Sources,
}

impl Counter {
    /// What it depends on.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// An operation of `len` bytes has ended well.
    #[inline]
    pub fn count(&self, len: usize) {
        let by = if self.bytes { len as u64 } else { 1 };
        self.value.fetch_add(by, Ordering::Release);
        self.sources.notify();
    }

    /// An operation has failed.
    pub fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Release);
        self.sources.notify();
    }

    /// See [`Sources::arm`].
    pub fn arm(&self) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        self.sources.arm(|| self.value.load(Ordering::Acquire) != seen)
    }

    /// The value now, after a round of progress.
    pub fn peek(&self) -> u64 {
        self.sources.progress();
        self.value.load(Ordering::Acquire)
    }

    fn read(&self) -> u64 {
        let mut value = self.peek();
        if self.seen.load(Ordering::Relaxed) == value && self.sources.idle() {
            value = self.peek();
        }
        if self.seen.swap(value, Ordering::Relaxed) != value {
            self.sources.begin_again();
        }
        value
    }
}

/// An open counter.
#[repr(C)]
pub struct Cntr {
    handle: fid_cntr,
    counter: Arc<Counter>,
    _domain: Arc<Shared>,
}

// SAFETY: `repr(C)`, and the handle is first.
unsafe impl Object for Cntr {
    type Handle = fid_cntr;
}

static OPS: fi_ops = ops(close, None, Some(control));

static CNTR_OPS: fi_ops_cntr = fi_ops_cntr {
    size: size_of::<fi_ops_cntr>(),
    read: Some(read),
    readerr: Some(readerr),
    add: Some(add),
    set: Some(set),
    wait: Some(wait),
    adderr: Some(adderr),
    seterr: Some(seterr),
};

impl Cntr {
    /// Its numbers.
    pub fn counter(&self) -> &Arc<Counter> {
        &self.counter
    }
}

/// `fi_cntr_open`.
pub fn open(
    domain: &Arc<Shared>,
    attr: Option<&fi_cntr_attr>,
    context: *mut c_void,
) -> Result<*mut fid_cntr, Fail> {
    let (events, object, flags) =
        attr.map_or((0, FI_WAIT_UNSPEC, 0), |attr| (attr.events, attr.wait_obj, attr.flags));
    if events > FI_CNTR_EVENTS_BYTES {
        return Err(Fail::NO_SYS);
    }
    if flags != 0 {
        return Err(Fail::BAD_FLAGS);
    }
    let counter = Counter {
        value: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        bytes: events == FI_CNTR_EVENTS_BYTES,
        seen: AtomicU64::new(u64::MAX),
        sources: Sources::waitable(object, domain.threads)?,
    };
    let handle = fid_cntr { fid: head(FI_CLASS_CNTR, context, &OPS), ops: table(&CNTR_OPS) };
    Ok(give(Cntr { handle, counter: Arc::new(counter), _domain: Arc::clone(domain) }))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    call(|| {
        // SAFETY: the handle of a counter that is open.
        unused(&unsafe { of::<Cntr, _>(fid) }.counter, "counter")?;
        // SAFETY: it is open, and no longer used.
        drop(unsafe { take::<Cntr, _>(fid) });
        Ok(())
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: an open counter; `arg` is what the command asks for.
    call(|| unsafe { wait_object(of::<Cntr, _>(fid).counter.sources(), command, arg) })
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: an open counter.
    guard(|| unsafe { of::<Cntr, _>(cntr) }.counter.read(), 0)
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: an open counter.
    let counter = &unsafe { of::<Cntr, _>(cntr) }.counter;
    guard(|| counter.sources.progress(), false);
    counter.errors.load(Ordering::Acquire)
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, by: u64) -> c_int {
    // SAFETY: an open counter.
    let counter = &unsafe { of::<Cntr, _>(cntr) }.counter;
    counter.value.fetch_add(by, Ordering::Release);
    counter.sources.notify();
    0
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, to: u64) -> c_int {
    // SAFETY: an open counter.
    let counter = &unsafe { of::<Cntr, _>(cntr) }.counter;
    counter.value.store(to, Ordering::Release);
    counter.sources.notify();
    0
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, by: u64) -> c_int {
    // SAFETY: an open counter.
    let counter = &unsafe { of::<Cntr, _>(cntr) }.counter;
    counter.errors.fetch_add(by, Ordering::Release);
    counter.sources.notify();
    0
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, to: u64) -> c_int {
    // SAFETY: an open counter.
    let counter = &unsafe { of::<Cntr, _>(cntr) }.counter;
    counter.errors.store(to, Ordering::Release);
    counter.sources.notify();
    0
}

/// Waits for a value; an operation that fails meanwhile ends the wait.
unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout_ms: c_int) -> c_int {
    call(|| {
        // SAFETY: an open counter.
        let counter = &unsafe { of::<Cntr, _>(cntr) }.counter;
        let errors = counter.errors.load(Ordering::Acquire);
        let reached = || counter.value.load(Ordering::Acquire) >= threshold;
        let failed = || counter.errors.load(Ordering::Acquire) != errors;
        let step = || match (reached(), failed()) {
            (true, _) => Some(Ok(())),
            (false, true) => Some(Err(Fail::AVAIL)),
            (false, false) => None,
        };
        let found = counter.sources.wait(timeout_ms, || reached() || failed(), step)?;
        found.unwrap_or(Err(Fail::TIMED_OUT))
    })
}
