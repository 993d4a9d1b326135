//! The completion queue: how operations have ended.

mod queue;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::abi::*;
use crate::domain::Shared;
use crate::fail::{Fail, call, count, guard};
use crate::loaded::loaded;
use crate::object::{Object, give, head, of, ops, table, take, unused};
use crate::wait::Sources;

pub use queue::{Entry, Failure, Queue};

/// An open completion queue.
#[repr(C)]
pub struct Cq {
    handle: fid_cq,
    queue: Arc<Queue>,
    domain: Arc<Shared>,
    /// See [`is_read_until_empty`].
    is_read_until_empty: bool,
    /// Whether such a reader has just been told all.
    is_emptied: Flag,
}

// SAFETY: `repr(C)`, and the handle is first.
unsafe impl Object for Cq {
    type Handle = fid_cq;
}

static OPS: fi_ops = ops(close, None, Some(control));

static CQ_OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read: Some(read),
    readfrom: Some(readfrom),
    readerr: Some(readerr),
    sread: Some(sread),
    sreadfrom: Some(sreadfrom),
    signal: Some(signal),
    strerror: Some(strerror),
};

impl Cq {
    /// Its entries.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Looks once, makes progress, and looks again; and once more if it has given way to others
    /// then, who may have brought something.
    ///
    /// # Safety
    /// As for [`Queue::take`].
    #[inline]
    unsafe fn look(
        &self,
        into: *mut c_void,
        count: usize,
        sources: *mut fi_addr_t,
    ) -> Result<usize, Fail> {
        let queue = &*self.queue;
        let take = || match queue.has_none() {
            true => Ok(None),
            // SAFETY: the caller's promise.
            false => unsafe { queue.take(into.cast(), count, sources) },
        };
        if count == 0 {
            // Asked for the sake of progress alone.
            queue.sources().progress();
        }
        let told = |taken| {
            self.is_emptied.set(self.is_read_until_empty && taken < count);
            queue.sources().begin_again();
            taken
        };
        if let Some(taken) = take()? {
            return Ok(told(taken));
        }
        if self.is_emptied.take() {
            return Err(Fail::AGAIN);
        }
        let did = queue.sources().progress_briskly();
        let did = did || queue.sources().idle() && queue.sources().progress_briskly();
        let taken = if did { take()? } else { None };
        taken.map(told).ok_or(Fail::AGAIN)
    }
}

/// `fi_cq_open`.
pub fn open(
    domain: &Arc<Shared>,
    attr: Option<&mut fi_cq_attr>,
    context: *mut c_void,
) -> Result<*mut fid_cq, Fail> {
    let attr = attr.ok_or(Fail::INVAL)?;
    if attr.format > FI_CQ_FORMAT_TAGGED {
        return Err(Fail::NO_SYS);
    }
    if attr.flags & !FI_AFFINITY != 0 {
        return Err(Fail::BAD_FLAGS);
    }
    if attr.format == FI_CQ_FORMAT_UNSPEC {
        attr.format = FI_CQ_FORMAT_CONTEXT;
    }
    if attr.wait_cond > FI_CQ_COND_THRESHOLD {
        return Err(Fail::INVAL);
    }
    let sources = Sources::new(attr.wait_obj, domain.threads)?;
    let queue = Queue::new(attr.format, sources, domain.threads);
    let handle = fid_cq { fid: head(FI_CLASS_CQ, context, &OPS), ops: table(&CQ_OPS) };
    let (domain, is_emptied) = (Arc::clone(domain), Flag::default());
    let is_read_until_empty = is_read_until_empty();
    Ok(give(Cq { handle, queue, domain, is_read_until_empty, is_emptied }))
}

/// Whether the MPI library of this process reads a queue until it is told that nothing is left,
/// before it does anything with what it has read: Open MPI 4 does. A look for more at that moment
/// would only keep it from going on (8 bytes there and back in a node 0.40 us with it, 0.29
/// without).
fn is_read_until_empty() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    let is_of_it = |name: &CStr| name.to_string_lossy().ends_with("/libopen-pal.so.40");
    *ANSWER.get_or_init(|| !loaded(is_of_it).is_empty())
}

/// A hint that threads may share.
#[derive(Default)]
struct Flag(AtomicBool);

impl Flag {
    #[inline]
    fn set(&self, to: bool) {
        if self.0.load(Ordering::Relaxed) != to {
            self.0.store(to, Ordering::Relaxed);
        }
    }

    /// Whether it was set; it is not afterwards.
    #[inline]
    fn take(&self) -> bool {
        let was = self.0.load(Ordering::Relaxed);
        self.set(false);
        was
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    call(|| {
        // SAFETY: the handle of a queue that is open.
        unused(&unsafe { of::<Cq, _>(fid) }.queue, "completion queue")?;
        // SAFETY: it is open, and no longer used.
        drop(unsafe { take::<Cq, _>(fid) });
        Ok(())
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: an open queue; `arg` is what the command asks for.
    call(|| unsafe { wait_object(of::<Cq, _>(fid).queue.sources(), command, arg) })
}

/// Answers what an object can be slept on with.
///
/// # Safety
/// `arg` is what the command asks for.
pub unsafe fn wait_object(sources: &Sources, command: c_int, arg: *mut c_void) -> Result<(), Fail> {
    let descriptor = sources.descriptor();
    match command {
        FI_GETWAIT if arg.is_null() => Err(Fail::INVAL),
        FI_GETWAIT => {
            // SAFETY: the caller wants a descriptor there.
            unsafe { *arg.cast::<c_int>() = descriptor.ok_or(Fail::NO_SYS)? };
            Ok(())
        }
        FI_GETWAITOBJ if !arg.is_null() => {
            let object = if descriptor.is_some() { FI_WAIT_FD } else { FI_WAIT_NONE };
            // SAFETY: the caller wants a kind of wait object there.
            unsafe { *arg.cast::<fi_wait_obj>() = object };
            Ok(())
        }
        _ => Err(Fail::NO_SYS),
    }
}

unsafe extern "C" fn read(cq: *mut fid_cq, into: *mut c_void, room: usize) -> isize {
    // SAFETY: an open queue, and room for so many entries, by the caller's promise.
    count(|| unsafe { of::<Cq, _>(cq).look(into, room, ptr::null_mut()) })
}

unsafe extern "C" fn readfrom(
    cq: *mut fid_cq,
    into: *mut c_void,
    room: usize,
    sources: *mut fi_addr_t,
) -> isize {
    // SAFETY: as for `read`; `sources` has room for as many numbers.
    count(|| unsafe { of::<Cq, _>(cq).look(into, room, sources) })
}

unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    into: *mut c_void,
    room: usize,
    condition: *const c_void,
    timeout_ms: c_int,
) -> isize {
    // SAFETY: as for `sreadfrom`.
    unsafe { sreadfrom(cq, into, room, ptr::null_mut(), condition, timeout_ms) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    into: *mut c_void,
    room: usize,
    sources: *mut fi_addr_t,
    _condition: *const c_void,
    timeout_ms: c_int,
) -> isize {
    let wait = || {
        // SAFETY: an open queue.
        let queue = &unsafe { of::<Cq, _>(cq) }.queue;
        let look = || {
            // SAFETY: as for `readfrom`.
            match unsafe { queue.take(into.cast(), room, sources) } {
                Ok(taken) => taken.map(Ok),
                Err(Fail::AGAIN) => None,
                Err(fail) => Some(Err(fail)),
            }
        };
        let found = queue.sources().wait(timeout_ms, || queue.any(), look)?;
        found.unwrap_or(Err(Fail::AGAIN))
    };
    count(wait)
}

unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    // SAFETY: an open queue.
    call(|| unsafe { of::<Cq, _>(cq) }.queue.sources().wake())
}

unsafe extern "C" fn readerr(cq: *mut fid_cq, into: *mut fi_cq_err_entry, _flags: u64) -> isize {
    let read = || {
        // SAFETY: an open queue.
        let cq = unsafe { of::<Cq, _>(cq) };
        if into.is_null() {
            return Err(Fail::INVAL);
        }
        let (failure, number) = cq.queue.take_failure().ok_or(Fail::AGAIN)?;
        let Failure { entry, lost, error, .. } = *failure;
        // SAFETY: the caller has room for an entry as long as its version of the interface has it;
        // newer fields are left alone.
        unsafe {
            (*into).op_context = ptr::with_exposed_provenance_mut(entry.context as usize);
            (*into).flags = entry.flags;
            (*into).len = entry.len;
            (*into).buf = ptr::with_exposed_provenance_mut(entry.buf);
            (*into).data = entry.data;
            (*into).tag = entry.tag;
            (*into).olen = lost;
            (*into).err = error.0;
            (*into).prov_errno = number;
            if cq.domain.api >= version(1, 5) {
                (*into).err_data_size = 0;
            } else {
                (*into).err_data = ptr::null_mut();
            }
            if cq.domain.api >= version(1, 20) {
                (*into).src_addr = entry.source;
            }
        }
        Ok(1)
    };
    count(read)
}

unsafe extern "C" fn strerror(
    cq: *mut fid_cq,
    number: c_int,
    _data: *const c_void,
    into: *mut c_char,
    room: usize,
) -> *const c_char {
    let write = || {
        // SAFETY: an open queue.
        let queue = &unsafe { of::<Cq, _>(cq) }.queue;
        queue.with_text(number, |text| {
            if into.is_null() || room == 0 {
                // Valid as long as the queue keeps the text.
                return text.as_ptr();
            }
            let len = text.count_bytes().min(room - 1);
            // SAFETY: the caller has so much room, and one byte more.
            unsafe {
                ptr::copy_nonoverlapping(text.as_ptr(), into, len);
                *into.add(len) = 0;
            }
            into.cast_const()
        })
    };
    guard(write, c"error".as_ptr())
}
