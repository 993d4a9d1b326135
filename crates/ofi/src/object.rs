//! Objects that C code holds by a pointer to their first field.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use crate::abi::{FI_ENOSYS, fi_ops, fid};
use crate::core::{Level, Part, log};
use crate::fail::Fail;

/// An object of the provider.
///
/// # Safety
/// The type is `repr(C)` and begins with a `Handle`, which begins with a `fid`.
pub unsafe trait Object: Sized {
    /// What libfabric's headers declare for it.
    type Handle;
}

/// The object behind a handle.
///
/// # Safety
/// `handle` came from [`give`] for a `T`, and [`take`] is not called before `'a` ends. By
/// libfabric's rules both hold for whatever an application passes.
#[inline]
pub unsafe fn of<'a, T: Object, H>(handle: *mut H) -> &'a T {
    // SAFETY: the handle is the object's first field, or that one's first field.
    unsafe { &*handle.cast::<T>() }
}

/// Hands an object over to the application.
pub fn give<T: Object>(object: T) -> *mut T::Handle {
    Box::into_raw(Box::new(object)).cast()
}

/// Takes an object back that is being closed.
///
/// # Safety
/// As for [`of`]; nobody uses the handle afterwards.
pub unsafe fn take<T: Object, H>(handle: *mut H) -> Box<T> {
    // SAFETY: the box's pointer went out through `give`.
    unsafe { Box::from_raw(handle.cast::<T>()) }
}

/// Whether an object can be closed, for nothing else stands on it.
///
/// # Errors
/// [`Fail::BUSY`].
pub fn unused<T>(shared: &Arc<T>, what: &str) -> Result<(), Fail> {
    match Arc::strong_count(shared) - 1 {
        0 => Ok(()),
        others => {
            let text = format_args!("the {what} is not closed: {others} objects still use it");
            log(Level::Info, Part::Core, text);
            Err(Fail::BUSY)
        }
    }
}

/// The head of an object of `class`.
pub fn head(class: usize, context: *mut c_void, ops: &'static fi_ops) -> fid {
    fid { fclass: class, context, ops: ptr::from_ref(ops).cast_mut() }
}

/// A pointer to a table as the headers want it. Nobody writes through it.
pub const fn table<T>(table: &'static T) -> *mut T {
    ptr::from_ref(table).cast_mut()
}

type Close = unsafe extern "C" fn(*mut fid) -> c_int;
type Bind = unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int;
type Control = unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int;

/// The table that every object has.
pub const fn ops(close: Close, bind: Option<Bind>, control: Option<Control>) -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close: Some(close),
        bind: Some(match bind {
            Some(bind) => bind,
            None => no_bind,
        }),
        control: Some(match control {
            Some(control) => control,
            None => no_control,
        }),
        ops_open: Some(no_ops_open),
        tostr: None,
        ops_set: Some(no_ops_set),
    }
}

unsafe extern "C" fn no_bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_ops_open(
    _: *mut fid,
    _: *const c_char,
    _: u64,
    _: *mut *mut c_void,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_ops_set(
    _: *mut fid,
    _: *const c_char,
    _: u64,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}
