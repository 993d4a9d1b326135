//! Operations on a window's memory.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::change::{self, Change};
use super::epoch::{CLOSED, GRANTED};
use super::{Functions, LargeFunctions, Part, here, of};
use crate::calls::{BROKEN, Caller, counted};
use crate::library::{Handle, Library};

/// Elements at the caller: where, how many, and which.
pub type Near<P> = (P, i64, Handle);
/// Elements at a target: its rank, a place in its memory, how many, and which.
pub type Far = (c_int, isize, i64, Handle);

/// What an operation is done with.
pub struct Target<'a> {
    pub library: &'static Library,
    pub f: &'static Functions,
    pub window: Handle,
    pub known: &'a super::Window,
    pub part: &'a Part,
}

/// Does an operation on a target by `directly`, or, where that gives `None`, `by_library`.
#[inline]
fn operate(
    window: Handle,
    rank: c_int,
    directly: impl FnOnce(&Target) -> Option<c_int>,
    by_library: impl FnOnce(&Functions, Option<&LargeFunctions>) -> c_int,
) -> c_int {
    let Some((library, f)) = here() else { return BROKEN };
    let large = library.large_windows.as_ref();
    let known = of(library, window).and_then(|known| Some((known, known.part(rank)?)));
    let Some((known, part)) = known else { return by_library(f, large) };
    let target = Target { library, f, window, known, part };
    match catch_unwind(AssertUnwindSafe(|| directly(&target))) {
        Ok(Some(code)) => counted(code),
        Ok(None) => {
            let code = by_library(f, large);
            // After the call: a flush that another thread makes meanwhile may not know of it.
            if part.state() != CLOSED {
                known.begun(part);
            }
            code
        }
        Err(_) => BROKEN,
    }
}

/// Bytes of elements that are a row of bytes.
#[inline]
pub fn row(library: &Library, count: i64, datatype: Handle) -> Option<usize> {
    let size = library.plain_size(library.handle(datatype))?;
    usize::try_from(count).ok()?.checked_mul(size)
}

/// The target's memory, and the bytes to copy, if both sides name a row of so many.
#[inline]
fn rows<P>(target: &Target, near: Near<P>, far: Far) -> Option<(*mut u8, usize)> {
    if target.part.state() != GRANTED {
        return None;
    }
    let bytes = row(target.library, near.1, near.2)?;
    let same = row(target.library, far.2, far.3)? == bytes;
    Some((target.part.range(far.1, bytes).filter(|_| same)?, bytes))
}

/// Calls the library's function that takes the counts: the usual one, or that for large ones.
macro_rules! by_count {
    ($f:ident, $large:ident, $name:ident, [$($count:ident),*], ($($argument:expr),*)) => {
        if let ($(Ok($count),)*) = ($(c_int::try_from($count),)*) {
            // SAFETY: the caller's promise.
            unsafe { ($f.$name)($($argument),*) }
        } else if let Some(large) = $large {
            // SAFETY: the caller's promise.
            unsafe { (large.$name)($($argument),*) }
        } else {
            BROKEN
        }
    };
}

/// `MPI_Put`.
///
/// # Safety
/// As MPI demands, as of all functions here.
#[inline]
pub unsafe fn put(_: Caller, near: Near<*const c_void>, far: Far, window: Handle) -> c_int {
    let ((from, count, kind), (rank, place, taken, as_kind)) = (near, far);
    operate(
        window,
        rank,
        |target| {
            let (memory, bytes) = rows(target, near, far)?;
            // SAFETY: the caller's memory and the target's, which has so many bytes there.
            unsafe { ptr::copy(from.cast(), memory, bytes) };
            Some(0)
        },
        |f, large| {
            by_count!(
                f,
                large,
                put,
                [count, taken],
                (from, count, kind, rank, place, taken, as_kind, window)
            )
        },
    )
}

/// `MPI_Get`.
///
/// # Safety
/// See [`put`].
#[inline]
pub unsafe fn get(_: Caller, near: Near<*mut c_void>, far: Far, window: Handle) -> c_int {
    let ((into, count, kind), (rank, place, taken, as_kind)) = (near, far);
    operate(
        window,
        rank,
        |target| {
            let (memory, bytes) = rows(target, near, far)?;
            // SAFETY: the target's memory, which has so many bytes there, and the caller's.
            unsafe { ptr::copy(memory, into.cast(), bytes) };
            Some(0)
        },
        |f, large| {
            by_count!(
                f,
                large,
                get,
                [count, taken],
                (into, count, kind, rank, place, taken, as_kind, window)
            )
        },
    )
}

/// `MPI_Rput`.
///
/// # Safety
/// See [`put`].
pub unsafe fn rput(
    _: Caller,
    (from, count, kind): Near<*const c_void>,
    (rank, place, taken, as_kind): Far,
    window: Handle,
    request: *mut c_void,
) -> c_int {
    operate(
        window,
        rank,
        |_| None,
        |f, large| {
            by_count!(
                f,
                large,
                rput,
                [count, taken],
                (from, count, kind, rank, place, taken, as_kind, window, request)
            )
        },
    )
}

/// `MPI_Rget`.
///
/// # Safety
/// See [`put`].
pub unsafe fn rget(
    _: Caller,
    (into, count, kind): Near<*mut c_void>,
    (rank, place, taken, as_kind): Far,
    window: Handle,
    request: *mut c_void,
) -> c_int {
    operate(
        window,
        rank,
        |_| None,
        |f, large| {
            by_count!(
                f,
                large,
                rget,
                [count, taken],
                (into, count, kind, rank, place, taken, as_kind, window, request)
            )
        },
    )
}

/// `MPI_Accumulate`.
///
/// # Safety
/// See [`put`].
pub unsafe fn accumulate(
    _: Caller,
    near: Near<*const c_void>,
    far: Far,
    op: Handle,
    window: Handle,
) -> c_int {
    let ((from, count, kind), (rank, place, taken, as_kind)) = (near, far);
    operate(
        window,
        rank,
        |target| change::run(target, &Change { from: near, into: None, op }, far),
        |f, large| {
            by_count!(
                f,
                large,
                accumulate,
                [count, taken],
                (from, count, kind, rank, place, taken, as_kind, op, window)
            )
        },
    )
}

/// `MPI_Raccumulate`.
///
/// # Safety
/// See [`put`].
pub unsafe fn raccumulate(
    _: Caller,
    near: Near<*const c_void>,
    far: Far,
    op: Handle,
    window: Handle,
    request: *mut c_void,
) -> c_int {
    let ((from, count, kind), (rank, place, taken, as_kind)) = (near, far);
    operate(
        window,
        rank,
        |target| {
            let code = change::run(target, &Change { from: near, into: None, op }, far)?;
            Some(ended_request(target, code, request))
        },
        |f, large| {
            by_count!(
                f,
                large,
                raccumulate,
                [count, taken],
                (from, count, kind, rank, place, taken, as_kind, op, window, request)
            )
        },
    )
}

/// `MPI_Get_accumulate`.
///
/// # Safety
/// See [`put`].
pub unsafe fn get_accumulate(
    _: Caller,
    near: Near<*const c_void>,
    result: Near<*mut c_void>,
    far: Far,
    op: Handle,
    window: Handle,
) -> c_int {
    let ((from, count, kind), (into, room, in_kind)) = (near, result);
    let (rank, place, taken, as_kind) = far;
    operate(
        window,
        rank,
        |target| change::run(target, &Change { from: near, into: Some(result), op }, far),
        |f, large| {
            by_count!(
                f,
                large,
                get_accumulate,
                [count, room, taken],
                (from, count, kind, into, room, in_kind, rank, place, taken, as_kind, op, window)
            )
        },
    )
}

/// `MPI_Rget_accumulate`.
///
/// # Safety
/// See [`put`].
pub unsafe fn rget_accumulate(
    _: Caller,
    near: Near<*const c_void>,
    result: Near<*mut c_void>,
    far: Far,
    op: Handle,
    (window, request): (Handle, *mut c_void),
) -> c_int {
    let ((from, count, kind), (into, room, in_kind)) = (near, result);
    let (rank, place, taken, as_kind) = far;
    operate(
        window,
        rank,
        |target| {
            let change = Change { from: near, into: Some(result), op };
            let code = change::run(target, &change, far)?;
            Some(ended_request(target, code, request))
        },
        |f, large| {
            by_count!(
                f,
                large,
                rget_accumulate,
                [count, room, taken],
                (
                    from, count, kind, into, room, in_kind, rank, place, taken, as_kind, op,
                    window, request
                )
            )
        },
    )
}

/// A request of what has ended already: the library's, for nothing to nobody.
fn ended_request(target: &Target, code: c_int, request: *mut c_void) -> c_int {
    if code != 0 {
        return code;
    }
    let (library, window, nothing) = (target.library, target.window, 0u8);
    let (byte, nobody) = (library.byte, library.proc_null);
    // SAFETY: nothing is read; room for a request, by the program's promise.
    unsafe {
        let from = (&raw const nothing).cast();
        (target.f.rput)(from, 0, byte, nobody, 0, 0, byte, window, request)
    }
}

/// `MPI_Fetch_and_op`.
///
/// # Safety
/// See [`put`].
pub unsafe fn fetch_and_op(
    _: Caller,
    (from, into): (*const c_void, *mut c_void),
    kind: Handle,
    (rank, place): (c_int, isize),
    op: Handle,
    window: Handle,
) -> c_int {
    operate(
        window,
        rank,
        |target| {
            let change = Change { from: (from, 1, kind), into: Some((into, 1, kind)), op };
            change::run(target, &change, (rank, place, 1, kind))
        },
        // SAFETY: the caller's promise.
        |f, _| unsafe { (f.fetch_and_op)(from, into, kind, rank, place, op, window) },
    )
}

/// `MPI_Compare_and_swap`.
///
/// # Safety
/// See [`put`].
pub unsafe fn compare_and_swap(
    _: Caller,
    (from, expected): (*const c_void, *const c_void),
    into: *mut c_void,
    kind: Handle,
    (rank, place): (c_int, isize),
    window: Handle,
) -> c_int {
    operate(
        window,
        rank,
        |target| change::swap(target, (from, expected), into, (rank, place, 1, kind)),
        // SAFETY: the caller's promise.
        |f, _| unsafe { (f.compare_and_swap)(from, expected, into, kind, rank, place, window) },
    )
}
