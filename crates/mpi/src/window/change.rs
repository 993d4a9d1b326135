//! Operations that must not come between each other: those that add to a target's memory, whatever
//! their datatypes, and compare-and-swap. All of a window's are done here as long as it is locked,
//! under a lock for each target.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use super::access::{Far, Near, Target, row};
use super::datatype::{basic, is_within, size};
use super::epoch::{ASKED, CLOSED};
use crate::calls::BROKEN;
use crate::library::Handle;
use crate::memory::Elements;

/// What is to be done to a target's elements.
pub struct Change {
    /// What they are combined with.
    pub from: Near<*const c_void>,
    /// Where they go before that.
    pub into: Option<Near<*mut c_void>>,
    pub op: Handle,
}

/// MPI's code, or that of a call that failed on the way.
type Done = Result<(), c_int>;

fn done(code: c_int) -> Done {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// The most elements that the library's functions take at once.
const COUNT_MAX: i64 = 1 << 30;

/// Changes a target's elements. `None`: the library is to do it, for no lock is held, or to say
/// what is wrong.
pub fn run(target: &Target, change: &Change, far: Far) -> Option<c_int> {
    if target.part.state() == CLOSED {
        return None;
    }
    let change = Change { op: target.library.handle(change.op), ..*change };
    let Some((memory, bytes)) = plain(target, &change, far) else {
        return by_packing(target, &change, far);
    };
    let run = || {
        // SAFETY: the target's memory has so many bytes there, and so have the caller's, where the
        // operation reads or writes any.
        unsafe {
            if let Some((into, ..)) = change.into {
                ptr::copy(memory, into.cast(), bytes);
            }
            if change.op == target.library.replace {
                ptr::copy(change.from.0.cast(), memory, bytes);
            } else if change.op != target.library.no_op {
                let (from, count, kind) = change.from;
                combine(target, from, memory, (count, kind, change.op))?;
            }
        }
        Ok(())
    };
    Some(alone(target, far.0, run))
}

/// The target's memory, and its bytes, where all that is named are rows of the same elements.
#[inline]
fn plain(target: &Target, change: &Change, far: Far) -> Option<(*mut u8, usize)> {
    let (library, (_, place, count, kind)) = (target.library, far);
    let bytes = row(library, count, kind)?;
    let (_, own_count, own_kind) = change.from;
    let alike = own_count == count && library.handle(own_kind) == library.handle(kind);
    let fits = match change.into {
        Some((_, count, kind)) => row(library, count, kind)? == bytes,
        None => true,
    };
    if !fits || !(alike || change.op == library.no_op) {
        return None;
    }
    Some((target.part.range(place, bytes)?, bytes))
}

/// Combines a row of elements of one kind with those at the target.
///
/// # Safety
/// So many are at both.
unsafe fn combine(
    target: &Target,
    from: *const c_void,
    memory: *mut u8,
    (count, kind, op): (i64, Handle, Handle),
) -> Done {
    let step = target.library.plain_size(target.library.handle(kind)).ok_or(BROKEN)?;
    let mut at = 0;
    while at < count {
        let some = (count - at).min(COUNT_MAX);
        let start = at as usize * step;
        // SAFETY: within both.
        done(unsafe {
            let (from, memory) = (from.byte_add(start), memory.add(start).cast());
            (target.f.reduce_local)(from, memory, some as c_int, kind, op)
        })?;
        at += some;
    }
    Ok(())
}

/// Makes sure that the lock of this epoch is granted: by something that the library cannot do
/// before.
fn granted(target: &Target, rank: c_int) -> Done {
    let part = target.part;
    if part.state() != ASKED {
        return Ok(());
    }
    let (mut byte, kind) = (0u8, target.library.byte);
    // SAFETY: a byte's place here; the target has one, for something of it was to be reached.
    unsafe {
        let into = (&raw mut byte).cast();
        done((target.f.get)(into, 1, kind, rank, 0, 1, kind, target.window))?;
        let code = (target.f.flush)(rank, target.window);
        target.known.ended(part, code);
        done(code)
    }
}

/// Does something to a target that nobody else does meanwhile; gives MPI's code.
fn alone(target: &Target, rank: c_int, work: impl FnOnce() -> Done) -> c_int {
    let locked = || target.part.segment.locked(work).unwrap_or(Err(BROKEN));
    granted(target, rank).and_then(|()| locked()).err().unwrap_or(0)
}

/// `MPI_Compare_and_swap` of an element.
pub fn swap(
    target: &Target,
    (from, expected): (*const c_void, *const c_void),
    into: *mut c_void,
    far: Far,
) -> Option<c_int> {
    if target.part.state() == CLOSED {
        return None;
    }
    let bytes = row(target.library, 1, far.3)?;
    let memory = target.part.range(far.1, bytes)?;
    let run = || {
        // SAFETY: an element's bytes are at each.
        unsafe {
            let same = {
                let now = slice::from_raw_parts(memory, bytes);
                now == slice::from_raw_parts(expected.cast::<u8>(), bytes)
            };
            ptr::copy(memory, into.cast(), bytes);
            if same {
                ptr::copy(from.cast(), memory, bytes);
            }
        }
        Ok(())
    };
    Some(alone(target, far.0, run))
}

/// The same for elements of any kind: as rows of what they are made of.
fn by_packing(target: &Target, change: &Change, far: Far) -> Option<c_int> {
    let (library, (rank, place, count, kind)) = (target.library, far);
    let kind = library.handle(kind);
    let memory = is_within(target, place, count, kind)?;
    let whole = |at, count: i64, datatype| {
        let datatype = library.handle(datatype);
        let bytes = size(target, datatype)?.checked_mul(usize::try_from(count).ok()?)?;
        c_int::try_from(bytes).ok()?;
        Some((Elements { at, count: count.try_into().ok()?, datatype }, bytes))
    };
    let (theirs, bytes) = whole(memory.cast(), count, kind)?;
    let into = match change.into {
        Some((into, count, kind)) => Some(whole(into, count, kind).filter(|it| it.1 == bytes)?.0),
        None => None,
    };
    let mut given = vec![0; bytes];
    if change.op != library.no_op {
        let (from, count, kind) = change.from;
        let (own, _) = whole(from.cast_mut(), count, kind).filter(|it| it.1 == bytes)?;
        if let Err(code) = own.pack(library, library.world, &mut given) {
            return Some(code);
        }
    }
    let run = || {
        let mut row = vec![0; bytes];
        theirs.pack(library, library.world, &mut row)?;
        if let Some(into) = into {
            into.unpack(library, library.world, &row)?;
        }
        if change.op == library.no_op {
            return Ok(());
        }
        if change.op == library.replace {
            return theirs.unpack(library, library.world, &given);
        }
        combine_packed(target, &given, &mut row, (kind, change.op))?;
        theirs.unpack(library, library.world, &row)
    };
    Some(alone(target, rank, run))
}

/// Combines two packed rows of the elements that a datatype is made of.
fn combine_packed(
    target: &Target,
    given: &[u8],
    row: &mut [u8],
    (kind, op): (Handle, Handle),
) -> Done {
    let library = target.library;
    let element = basic(target, kind)?;
    let packed = size(target, element.datatype).filter(|size| *size > 0).ok_or(BROKEN)?;
    let count = (row.len() / packed) as c_int;
    // As elements are in memory: with gaps, where they have some, and aligned.
    let room = || vec![0u128; (count as usize * element.extent).div_ceil(size_of::<u128>())];
    let (mut own, mut theirs) = (room(), room());
    let elements = |room: &mut Vec<u128>| Elements {
        at: room.as_mut_ptr().cast(),
        count,
        datatype: element.datatype,
    };
    let (own, theirs) = (elements(&mut own), elements(&mut theirs));
    own.unpack(library, library.world, given)?;
    theirs.unpack(library, library.world, row)?;
    // SAFETY: so many elements are in both rooms.
    done(unsafe { (target.f.reduce_local)(own.at, theirs.at, count, element.datatype, op) })?;
    theirs.pack(library, library.world, row)
}
