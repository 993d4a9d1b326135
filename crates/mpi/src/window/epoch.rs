//! When a target's memory may be reached: between a lock that is known to be granted and its
//! unlock. Libraries may say that a lock is there before it is. So the first put or get behind it
//! goes by the library, and once a flush has ended that, the lock was granted: the target's memory
//! may be reached from then on, until the unlock.

use std::ffi::c_int;
use std::sync::atomic::{Ordering, fence};

use super::{Functions, Part, Window, here, of};
use crate::calls::{BROKEN, Caller};
use crate::library::Handle;
use crate::provider::provider;

/// The states of a target: no lock, or another kind of epoch.
pub const CLOSED: u8 = 0;
/// A lock has been asked for.
pub const ASKED: u8 = 1;
/// It was granted.
pub const GRANTED: u8 = 2;

/// One flush in so many is the library's although it has nothing to end: programs wait in loops of
/// flushes, and the library's messages are to go on meanwhile.
const LOOK_EVERY: u32 = 16;

impl Part {
    fn begin(&self, granted: bool) {
        self.pending.store(false, Ordering::Relaxed);
        self.state.store(if granted { GRANTED } else { ASKED }, Ordering::Release);
    }

    fn end(&self) {
        self.state.store(CLOSED, Ordering::Release);
    }

    #[inline]
    pub fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }
}

impl Window {
    /// The library has begun an operation on a target.
    pub fn begun(&self, part: &Part) {
        part.pending.store(true, Ordering::Release);
        self.pending.store(true, Ordering::Release);
    }

    /// A flush of the library's has ended all that was under way on a target, or failed.
    pub fn ended(&self, part: &Part, code: c_int) {
        if code != 0 {
            return self.begun(part);
        }
        // Unless the lock has been given back.
        let (asked, granted) = (ASKED, GRANTED);
        _ = part.state.compare_exchange(asked, granted, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether this flush may be left out, nothing being under way.
    #[inline]
    fn is_idle(&self) -> bool {
        // What others read of this window is to be there before all that this process does next.
        fence(Ordering::SeqCst);
        let idle = self.flushes.fetch_add(1, Ordering::Relaxed) % LOOK_EVERY != LOOK_EVERY - 1;
        if let (false, Some(table)) = (idle, provider()) {
            // Else a row of looks that find nothing, each in a flush of the library's, would be
            // taken for a wait, and end in sleeps.
            // SAFETY: a function without arguments.
            unsafe { (table.began)() };
        }
        idle
    }
}

/// `MPI_MODE_NOCHECK`: a lock is granted without being asked for.
const UNCHECKED: c_int = 1024;

/// Calls a function of the library's for a window.
#[inline]
fn by_library(
    window: Handle,
    before: impl FnOnce(&Window),
    call: impl FnOnce(&Functions) -> c_int,
    after: impl FnOnce(&Window),
) -> c_int {
    let Some((library, f)) = here() else { return BROKEN };
    let known = of(library, window);
    if let Some(known) = known {
        before(known);
    }
    let code = call(f);
    if let Some(known) = known.filter(|_| code == 0) {
        after(known);
    }
    code
}

/// `MPI_Win_lock`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn lock(_: Caller, kind: c_int, rank: c_int, assertion: c_int, window: Handle) -> c_int {
    by_library(
        window,
        |_| {},
        // SAFETY: the caller's promise.
        |f| unsafe { (f.lock)(kind, rank, assertion, window) },
        |known| {
            if let Some(part) = known.part(rank) {
                part.begin(assertion & UNCHECKED != 0);
            }
        },
    )
}

/// `MPI_Win_lock_all`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn lock_all(_: Caller, assertion: c_int, window: Handle) -> c_int {
    by_library(
        window,
        |_| {},
        // SAFETY: the caller's promise.
        |f| unsafe { (f.lock_all)(assertion, window) },
        |known| {
            known.parts.iter().for_each(|part| part.begin(assertion & UNCHECKED != 0));
        },
    )
}

/// `MPI_Win_unlock`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn unlock(_: Caller, rank: c_int, window: Handle) -> c_int {
    by_library(
        window,
        |known| {
            fence(Ordering::SeqCst);
            if let Some(part) = known.part(rank) {
                part.end();
            }
        },
        // SAFETY: the caller's promise.
        |f| unsafe { (f.unlock)(rank, window) },
        |_| {},
    )
}

/// `MPI_Win_unlock_all`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn unlock_all(_: Caller, window: Handle) -> c_int {
    by_library(
        window,
        |known| {
            fence(Ordering::SeqCst);
            known.parts.iter().for_each(Part::end);
        },
        // SAFETY: the caller's promise.
        |f| unsafe { (f.unlock_all)(window) },
        |_| {},
    )
}

/// `MPI_Win_flush`, and `MPI_Win_flush_local`, which says less: with this library's own operations
/// both ends are one.
///
/// # Safety
/// As MPI demands.
#[inline]
pub unsafe fn flush(_: Caller, rank: c_int, window: Handle) -> c_int {
    let Some((library, f)) = here() else { return BROKEN };
    // SAFETY: the caller's promise.
    let by_library = || unsafe { (f.flush)(rank, window) };
    let Some((known, part)) = of(library, window).and_then(|it| Some((it, it.part(rank)?))) else {
        return by_library();
    };
    let pending = part.pending.load(Ordering::Acquire);
    if !pending && part.state() == GRANTED && known.is_idle() {
        return 0;
    }
    part.pending.store(false, Ordering::Release);
    let code = by_library();
    if pending {
        known.ended(part, code);
    }
    code
}

/// `MPI_Win_flush_all`.
///
/// # Safety
/// As MPI demands.
#[inline]
pub unsafe fn flush_all(_: Caller, window: Handle) -> c_int {
    let Some((library, f)) = here() else { return BROKEN };
    // SAFETY: the caller's promise.
    let by_library = || unsafe { (f.flush_all)(window) };
    let Some(known) = of(library, window) else { return by_library() };
    let locked = known.parts.iter().any(|part| part.state() != CLOSED);
    if locked && !known.pending.load(Ordering::Acquire) && known.is_idle() {
        return 0;
    }
    known.pending.store(false, Ordering::Release);
    let all = &known.parts;
    let ended: Vec<_> =
        all.iter().filter(|part| part.pending.swap(false, Ordering::AcqRel)).collect();
    let code = by_library();
    ended.iter().for_each(|part| known.ended(part, code));
    code
}

/// `MPI_Win_flush_local`.
///
/// # Safety
/// As MPI demands.
#[inline]
pub unsafe fn flush_local(_: Caller, rank: c_int, window: Handle) -> c_int {
    let Some((library, f)) = here() else { return BROKEN };
    let part = of(library, window).and_then(|it| Some((it, it.part(rank)?)));
    if let Some((known, part)) = part
        && part.state() == GRANTED
        && !part.pending.load(Ordering::Acquire)
        && known.is_idle()
    {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { (f.flush_local)(rank, window) }
}

/// `MPI_Win_flush_local_all`.
///
/// # Safety
/// As MPI demands.
#[inline]
pub unsafe fn flush_local_all(_: Caller, window: Handle) -> c_int {
    let Some((library, f)) = here() else { return BROKEN };
    if let Some(known) = of(library, window)
        && known.parts.iter().any(|part| part.state() != CLOSED)
        && !known.pending.load(Ordering::Acquire)
        && known.is_idle()
    {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { (f.flush_local_all)(window) }
}
