//! What datatypes are made of, by the library.

use std::ffi::c_int;

use super::access::Target;
use crate::calls::BROKEN;
use crate::library::Handle;

/// What all elements of a datatype are made of, and the bytes from one to the next.
pub struct Basic {
    pub datatype: Handle,
    pub extent: usize,
}

/// Bytes of an element, gaps left out.
pub fn size(target: &Target, datatype: Handle) -> Option<usize> {
    let mut size: c_int = 0;
    // SAFETY: a number's place; the library checks the handle.
    let code = unsafe { (target.library.f.type_size)(datatype, &raw mut size) };
    usize::try_from(size).ok().filter(|_| code == 0)
}

/// Where elements of any datatype begin at a place of a target, if all of them are within.
pub fn is_within(target: &Target, place: isize, count: i64, datatype: Handle) -> Option<*mut u8> {
    let (mut low, mut len, mut first, mut step) = (0, 0, 0, 0);
    // SAFETY: numbers' places; the library checks the handle.
    let codes = unsafe {
        [
            (target.f.type_true_extent)(datatype, &raw mut low, &raw mut len),
            (target.f.type_extent)(datatype, &raw mut first, &raw mut step),
        ]
    };
    if codes != [0; 2] || count < 0 {
        return None;
    }
    let part = target.part;
    let start = usize::try_from(place).ok()?.checked_mul(part.unit)?;
    let start = isize::try_from(start).ok()?;
    // The first and the last element: the others lie between.
    let last = step.checked_mul(isize::try_from(count.max(1) - 1).ok()?)?;
    for element in [0, last] {
        let begin = start.checked_add(element)?.checked_add(low)?;
        let end = usize::try_from(begin.checked_add(len)?).ok()?;
        if count > 0 && (begin < 0 || end > part.segment.len) {
            return None;
        }
    }
    if start as usize > part.segment.len {
        return None;
    }
    // SAFETY: within the memory, or at its end.
    Some(unsafe { part.segment.memory().add(start as usize) })
}

/// What a datatype is made of: MPI demands that it is one thing where numbers are combined.
pub fn basic(target: &Target, datatype: Handle) -> Result<Basic, c_int> {
    let datatype = leaf(target, datatype)?;
    let (mut first, mut step) = (0, 0);
    // SAFETY: numbers' places; the library checks the handle.
    let code = unsafe { (target.f.type_extent)(datatype, &raw mut first, &raw mut step) };
    match usize::try_from(step) {
        Ok(extent) if code == 0 => Ok(Basic { datatype, extent }),
        _ => Err(if code == 0 { BROKEN } else { code }),
    }
}

/// The predefined datatype that is the first in one.
fn leaf(target: &Target, datatype: Handle) -> Result<Handle, c_int> {
    if target.library.plain_size(datatype).is_some() {
        return Ok(datatype);
    }
    let made_of = contents(target, datatype)?;
    let Some(first) = made_of.first() else { return Ok(datatype) };
    let found = leaf(target, *first);
    for mut given in made_of {
        // Those that are not predefined are this caller's to free.
        if !contents(target, given)?.is_empty() {
            // SAFETY: a handle, which the library has given for this.
            unsafe { (target.f.type_free)((&raw mut given).cast()) };
        }
    }
    found
}

/// The datatypes that one is made of; none: it is predefined.
fn contents(target: &Target, datatype: Handle) -> Result<Vec<Handle>, c_int> {
    let (mut numbers, mut places, mut kinds, mut how) = (0, 0, 0, 0);
    // SAFETY: numbers' places; the library checks the handle.
    let code = unsafe {
        let numbers = &raw mut numbers;
        (target.f.type_envelope)(datatype, numbers, &raw mut places, &raw mut kinds, &raw mut how)
    };
    if code != 0 {
        return Err(code);
    }
    if kinds <= 0 {
        return Ok(Vec::new());
    }
    let mut row = vec![0 as c_int; numbers as usize];
    let mut addresses = vec![0isize; places as usize];
    let mut handles = vec![0u32; kinds as usize];
    // SAFETY: there is room for as many as the library has named.
    let code = unsafe {
        let (row, addresses) = (row.as_mut_ptr(), addresses.as_mut_ptr());
        let given = handles.as_mut_ptr().cast();
        (target.f.type_contents)(datatype, numbers, places, kinds, row, addresses, given)
    };
    if code != 0 {
        return Err(code);
    }
    Ok(handles.into_iter().map(|handle| handle as Handle).collect())
}
