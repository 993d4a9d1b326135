//! The poll set: several queues and counters, looked at as one.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::*;
use crate::cntr::{Cntr, Counter};
use crate::cq::{Cq, Queue};
use crate::domain::Shared;
use crate::fail::{Fail, call, count};
use crate::object::{Object, give, head, of, ops, table, take};

enum Member {
    Queue(Arc<Queue>),
    /// With the value that was told last.
    Counter(Arc<Counter>, u64),
}

/// An open poll set.
#[repr(C)]
pub struct Poll {
    handle: fid_poll,
    /// Each with the context of its object, and the object's address.
    members: Mutex<Vec<(usize, usize, Member)>>,
    _domain: Arc<Shared>,
}

// SAFETY: `repr(C)`, and the handle is first.
unsafe impl Object for Poll {
    type Handle = fid_poll;
}

static OPS: fi_ops = ops(close, None, None);

static POLL_OPS: fi_ops_poll = fi_ops_poll {
    size: size_of::<fi_ops_poll>(),
    poll: Some(poll),
    poll_add: Some(add),
    poll_del: Some(del),
};

impl Poll {
    fn members(&self) -> MutexGuard<'_, Vec<(usize, usize, Member)>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `fi_poll_open`.
pub fn open(domain: &Arc<Shared>) -> *mut fid_poll {
    let handle =
        fid_poll { fid: head(FI_CLASS_POLL, std::ptr::null_mut(), &OPS), ops: table(&POLL_OPS) };
    give(Poll { handle, members: Mutex::default(), _domain: Arc::clone(domain) })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the handle of a set that is open, and no longer used by the caller.
    drop(unsafe { take::<Poll, _>(fid) });
    0
}

/// Makes progress for all, and names the contexts of those that have something.
unsafe extern "C" fn poll(set: *mut fid_poll, contexts: *mut *mut c_void, room: c_int) -> c_int {
    let look = || {
        // SAFETY: an open set.
        let set = unsafe { of::<Poll, _>(set) };
        let room = usize::try_from(room).map_err(|_| Fail::INVAL)?;
        let mut found = 0;
        for (context, _, member) in set.members().iter_mut() {
            // What finds no room is left for the next call.
            let full = found == room;
            let ready = match member {
                Member::Queue(queue) => {
                    queue.sources().progress();
                    !full && queue.any()
                }
                Member::Counter(counter, told) => {
                    let value = counter.peek();
                    !full && std::mem::replace(told, value) != value
                }
            };
            if ready {
                // SAFETY: the caller has room for `room` contexts.
                unsafe {
                    *contexts.add(found) = std::ptr::with_exposed_provenance_mut(*context);
                }
                found += 1;
            }
        }
        Ok(found)
    };
    count(look) as c_int
}

unsafe extern "C" fn add(set: *mut fid_poll, object: *mut fid, flags: u64) -> c_int {
    call(|| {
        if flags != 0 {
            return Err(Fail::BAD_FLAGS);
        }
        // SAFETY: an open set and an open object.
        let (set, head) = unsafe { (of::<Poll, _>(set), &*object) };
        let member = match head.fclass {
            // SAFETY: the class says what it is.
            FI_CLASS_CQ => Member::Queue(Arc::clone(unsafe { of::<Cq, _>(object) }.queue())),
            FI_CLASS_CNTR => {
                // SAFETY: as above.
                Member::Counter(Arc::clone(unsafe { of::<Cntr, _>(object) }.counter()), 0)
            }
            _ => return Err(Fail::INVAL),
        };
        let context = head.context.expose_provenance();
        set.members().push((context, object.addr(), member));
        Ok(())
    })
}

unsafe extern "C" fn del(set: *mut fid_poll, object: *mut fid, flags: u64) -> c_int {
    call(|| {
        if flags != 0 {
            return Err(Fail::BAD_FLAGS);
        }
        // SAFETY: an open set.
        let mut members = unsafe { of::<Poll, _>(set) }.members();
        let at = members.iter().position(|(_, addr, _)| *addr == object.addr());
        members.remove(at.ok_or(Fail::INVAL)?);
        Ok(())
    })
}
