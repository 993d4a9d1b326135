//! The event queue: what is told besides the ends of operations (here: insertions of addresses, and
//! what an application writes itself).

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::*;
use crate::core::core;
use crate::cq::wait_object;
use crate::fail::{Fail, call, count, guard};
use crate::gate::Threads;
use crate::object::{Object, give, head, of, ops, table, take, unused};
use crate::wait::Sources;

/// Bytes of the longest event that an application may write.
const EVENT_MAX: usize = 4096;

enum Event {
    Plain { event: u32, bytes: Vec<u8> },
    Failed { fid: usize, context: usize, data: u64, error: c_int },
}

/// The events, shared by the queue's handle and who tells something.
pub struct Events {
    list: Mutex<VecDeque<Event>>,
    sources: Sources,
}

/// An open event queue.
#[repr(C)]
pub struct Eq {
    handle: fid_eq,
    events: Arc<Events>,
}

// SAFETY: `repr(C)`, and the handle is first.
unsafe impl Object for Eq {
    type Handle = fid_eq;
}

static OPS: fi_ops = ops(close, None, Some(control));

static EQ_OPS: fi_ops_eq = fi_ops_eq {
    size: size_of::<fi_ops_eq>(),
    read: Some(read),
    readerr: Some(readerr),
    write: Some(write),
    sread: Some(sread),
    strerror: Some(strerror),
};

impl Eq {
    /// Its events.
    pub fn events(&self) -> &Arc<Events> {
        &self.events
    }

    /// See [`Sources::arm`].
    pub fn arm(&self) -> bool {
        self.events.sources.arm(|| !self.events.list().is_empty())
    }
}

impl Events {
    /// The endpoints whose events it tells.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: Event) {
        self.list().push_back(event);
        self.sources.notify();
    }

    /// Something that was asked for has been done.
    pub fn complete(&self, event: u32, fid: *mut fid, context: *mut c_void, data: u64) {
        let entry = fi_eq_entry { fid, context, data };
        // SAFETY: the structure has no padding, and is plain data.
        let bytes = unsafe {
            std::slice::from_raw_parts(ptr::from_ref(&entry).cast::<u8>(), size_of_val(&entry))
        };
        self.push(Event::Plain { event, bytes: bytes.to_vec() });
    }

    /// A part of it could not be done.
    pub fn fail(&self, fid: *mut fid, context: *mut c_void, data: u64, error: c_int) {
        let (fid, context) = (fid.expose_provenance(), context.expose_provenance());
        self.push(Event::Failed { fid, context, data, error });
    }

    /// Moves the first event to the caller, who may want its kind alone, or the rest alone.
    ///
    /// # Safety
    /// `event` may be written, and `room` bytes from `into` on, unless they are null.
    unsafe fn take(
        &self,
        event: *mut u32,
        into: *mut c_void,
        room: usize,
        flags: u64,
    ) -> Result<usize, Fail> {
        let mut list = self.list();
        let (kind, bytes) = match list.front() {
            None => return Err(Fail::AGAIN),
            Some(Event::Failed { .. }) => return Err(Fail::AVAIL),
            Some(Event::Plain { event, bytes }) => (*event, bytes),
        };
        let len = if into.is_null() { 0 } else { bytes.len() };
        if len > room {
            return Err(Fail::TOO_SMALL);
        }
        // SAFETY: the caller's promise.
        if let Some(event) = unsafe { event.as_mut() } {
            *event = kind;
        }
        if len > 0 {
            // SAFETY: the caller's promise; there is room.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), into.cast(), len) };
        }
        if flags & FI_PEEK == 0 {
            list.pop_front();
        }
        Ok(len)
    }
}

/// `fi_eq_open`.
pub fn open(attr: Option<&fi_eq_attr>, context: *mut c_void) -> Result<*mut fid_eq, Fail> {
    let object = attr.map_or(FI_WAIT_UNSPEC, |attr| attr.wait_obj);
    let events =
        Events { list: Mutex::default(), sources: Sources::waitable(object, Threads::Several)? };
    let handle = fid_eq { fid: head(FI_CLASS_EQ, context, &OPS), ops: table(&EQ_OPS) };
    Ok(give(Eq { handle, events: Arc::new(events) }))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    call(|| {
        // SAFETY: the handle of a queue that is open.
        unused(&unsafe { of::<Eq, _>(fid) }.events, "event queue")?;
        // SAFETY: it is open, and no longer used.
        drop(unsafe { take::<Eq, _>(fid) });
        Ok(())
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: an open queue; `arg` is what the command asks for.
    call(|| unsafe { wait_object(&of::<Eq, _>(fid).events.sources, command, arg) })
}

unsafe extern "C" fn read(
    eq: *mut fid_eq,
    event: *mut u32,
    into: *mut c_void,
    room: usize,
    flags: u64,
) -> isize {
    // SAFETY: an open queue, and room as the caller says.
    count(|| unsafe {
        let events = of::<Eq, _>(eq).events();
        events.sources.progress();
        events.take(event, into, room, flags)
    })
}

unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    into: *mut c_void,
    room: usize,
    timeout_ms: c_int,
    flags: u64,
) -> isize {
    count(|| {
        // SAFETY: an open queue.
        let events = unsafe { of::<Eq, _>(eq) }.events();
        // SAFETY: room as the caller says.
        let take = || match unsafe { events.take(event, into, room, flags) } {
            Err(Fail::AGAIN) => None,
            taken => Some(taken),
        };
        let any = || !events.list().is_empty();
        events.sources.wait(timeout_ms, any, take)?.unwrap_or(Err(Fail::AGAIN))
    })
}

unsafe extern "C" fn write(
    eq: *mut fid_eq,
    event: u32,
    bytes: *const c_void,
    len: usize,
    flags: u64,
) -> isize {
    count(|| {
        if flags != 0 || len > EVENT_MAX {
            return Err(Fail::INVAL);
        }
        // SAFETY: an open queue, and so many bytes.
        let (events, bytes) =
            unsafe { (of::<Eq, _>(eq).events(), crate::mr::slice(bytes.cast::<u8>(), len)) };
        events.push(Event::Plain { event, bytes: bytes.to_vec() });
        Ok(len)
    })
}

unsafe extern "C" fn readerr(eq: *mut fid_eq, into: *mut fi_eq_err_entry, flags: u64) -> isize {
    count(|| {
        // SAFETY: an open queue, and room for an entry.
        let (events, into) =
            unsafe { (of::<Eq, _>(eq).events(), into.as_mut().ok_or(Fail::INVAL)?) };
        let mut list = events.list();
        let Some(&Event::Failed { fid, context, data, error }) = list.front() else {
            return Err(Fail::AGAIN);
        };
        into.fid = ptr::with_exposed_provenance_mut(fid);
        into.context = ptr::with_exposed_provenance_mut(context);
        into.data = data;
        into.err = error;
        into.prov_errno = error;
        into.err_data = ptr::null_mut();
        into.err_data_size = 0;
        if flags & FI_PEEK == 0 {
            list.pop_front();
        }
        Ok(size_of::<fi_eq_err_entry>())
    })
}

unsafe extern "C" fn strerror(
    _: *mut fid_eq,
    number: c_int,
    _data: *const c_void,
    into: *mut c_char,
    room: usize,
) -> *const c_char {
    let write = || {
        let text = core().map_or(c"error", |core| core.error_text(number));
        if into.is_null() || room == 0 {
            return text.as_ptr();
        }
        let len = text.count_bytes().min(room - 1);
        // SAFETY: the caller has so much room, and one byte more.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), into, len);
            *into.add(len) = 0;
        }
        into.cast_const()
    };
    guard(write, c"error".as_ptr())
}
