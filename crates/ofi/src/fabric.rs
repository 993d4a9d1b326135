//! The fabric: what domains and event queues belong to. There is one kind of it.

use std::ffi::{c_int, c_void};

use crate::abi::*;
use crate::fail::{Fail, call};
use crate::object::{Object, give, head, of, ops, table, take};
use crate::{cntr, cq, domain, eq};

/// An open fabric. Nothing that is opened in it needs it afterwards, so it can be closed at any
/// time; Open MPI 5 closes it before its domain.
#[repr(C)]
pub struct Fabric {
    handle: fid_fabric,
}

// SAFETY: `repr(C)`, and the handle is first.
unsafe impl Object for Fabric {
    type Handle = fid_fabric;
}

static OPS: fi_ops = ops(close, None, None);

static FABRIC_OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(open_domain),
    passive_ep: Some(no_passive_ep),
    eq_open: Some(open_eq),
    wait_open: Some(no_wait_open),
    trywait: Some(try_wait),
    domain2: Some(open_domain2),
};

impl Fabric {
    /// The version of the interface that the application asked for.
    pub fn api(&self) -> u32 {
        self.handle.api_version
    }
}

/// `fi_fabric`.
pub unsafe extern "C" fn open(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the application gives the attributes of an `fi_info`.
        let attr = unsafe { attr.as_ref() }.ok_or(Fail::INVAL)?;
        let handle = fid_fabric {
            fid: head(FI_CLASS_FABRIC, context, &OPS),
            ops: table(&FABRIC_OPS),
            api_version: attr.api_version,
        };
        // SAFETY: the caller wants the answer there.
        unsafe { *fabric = give(Fabric { handle }) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    call(|| {
        // SAFETY: it is open, and no longer used.
        drop(unsafe { take::<Fabric, _>(fid) });
        Ok(())
    })
}

unsafe extern "C" fn open_domain(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: an open fabric, and the application's `fi_info`.
        let (fabric, info) = unsafe { (of::<Fabric, _>(fabric), info.as_ref()) };
        let new = domain::open(fabric, info.ok_or(Fail::INVAL)?, context)?;
        // SAFETY: the caller wants the answer there.
        unsafe { *domain = new };
        Ok(())
    })
}

unsafe extern "C" fn open_domain2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -FI_EBADFLAGS;
    }
    // SAFETY: what the caller promises for this call it promises for that one.
    unsafe { open_domain(fabric, info, domain, context) }
}

unsafe extern "C" fn open_eq(
    _: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    queue: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the caller gives attributes or none.
        let new = eq::open(unsafe { attr.as_ref() }, context)?;
        // SAFETY: the caller wants the answer there.
        unsafe { *queue = new };
        Ok(())
    })
}

/// Prepares for the application's own sleep on descriptors: refuses where there already is
/// something.
unsafe extern "C" fn try_wait(_: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    call(|| {
        let count = usize::try_from(count).map_err(|_| Fail::INVAL)?;
        for i in 0..count {
            // SAFETY: the caller gives that many open objects.
            let object = unsafe { *fids.add(i) };
            // SAFETY: as above; every object begins with its `fid`.
            let class = unsafe { (*object).fclass };
            let may_sleep = match class {
                // SAFETY: the class says what it is.
                FI_CLASS_CQ => unsafe { of::<cq::Cq, _>(object) }.queue().arm(),
                // SAFETY: as above.
                FI_CLASS_CNTR => unsafe { of::<cntr::Cntr, _>(object) }.counter().arm(),
                // SAFETY: as above.
                FI_CLASS_EQ => unsafe { of::<eq::Eq, _>(object) }.arm(),
                _ => return Err(Fail::INVAL),
            };
            if !may_sleep {
                return Err(Fail::AGAIN);
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn no_passive_ep(
    _: *mut fid_fabric,
    _: *mut fi_info,
    _: *mut *mut fid_pep,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_wait_open(
    _: *mut fid_fabric,
    _: *mut fi_wait_attr,
    _: *mut *mut fid_wait,
) -> c_int {
    -FI_ENOSYS
}
