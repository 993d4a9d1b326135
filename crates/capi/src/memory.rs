//! What C gives as a pointer and a length. Null is found out; that the memory is there, and stays
//! while it must, is the promise of who calls.

use std::ffi::c_void;

use weft_sys::buf::Buf;

use crate::error::{Failure, weft_status};

/// An address within the program, of memory that C has and vouches for.
fn check(at: *const c_void, len: usize, what: &str) -> Result<(), Failure> {
    if at.is_null() && len > 0 {
        let why = format!("{what} is null: give the address of {len} bytes");
        return Err(Failure::new(weft_status::WEFT_NULL, why));
    }
    if len > isize::MAX as usize {
        return Err(Failure::argument(format!("{what} of {len} bytes: no memory is as long")));
    }
    Ok(())
}

/// Memory that an operation reads.
pub(crate) fn reads(at: *const c_void, len: usize, what: &str) -> Result<Buf, Failure> {
    fills(at.cast_mut(), len, what)
}

/// Memory that an operation fills.
pub(crate) fn fills(at: *mut c_void, len: usize, what: &str) -> Result<Buf, Failure> {
    check(at, len, what)?;
    if len == 0 {
        return Ok(Buf::empty());
    }
    // SAFETY: it is the promise of the C function's caller, by its comment, that the memory is
    // there until the operation has ended.
    Ok(unsafe { Buf::from_raw(at.cast(), len) })
}

/// Memory that a call reads and does not keep.
pub(crate) fn bytes<'a>(at: *const c_void, len: usize, what: &str) -> Result<&'a [u8], Failure> {
    check(at, len, what)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: as in `fills`; the caller of this function lets it go with its own call's end.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), len) })
}

/// Memory that a call fills and does not keep.
pub(crate) fn room<'a>(at: *mut c_void, len: usize, what: &str) -> Result<&'a mut [u8], Failure> {
    check(at, len, what)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as in `bytes`, and nobody else uses it meanwhile.
    Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), len) })
}

/// Puts a value where C wants it.
pub(crate) fn give<T>(to: *mut T, value: T, what: &str) -> Result<(), Failure> {
    there(to, what)?;
    // SAFETY: it is not null, and by its comment the C function's caller has memory for a value
    // there. It may be unaligned in a packed structure.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// As [`give`], where C may not want it.
pub(crate) fn offer<T>(to: *mut T, value: T) {
    if !to.is_null() {
        let _ = give(to, value, "");
    }
}

/// Takes a value that C has somewhere.
pub(crate) fn look<T: Copy>(at: *const T, what: &str) -> Result<T, Failure> {
    there(at, what)?;
    // SAFETY: it is not null, and by its comment the C function's caller has a value there; every
    // pattern of bits is one for the types that this is called with.
    Ok(unsafe { at.read_unaligned() })
}

/// Whether memory for a result is there, to be asked before anything is done.
pub(crate) fn there<T>(at: *const T, what: &str) -> Result<(), Failure> {
    check(at.cast(), size_of::<T>(), what)
}
