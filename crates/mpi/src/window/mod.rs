//! Windows that MPI allocates for processes of one node are memory that all of them map: put, get
//! and atomic operations between lock and unlock are done by the one who calls, at once, whatever
//! the target does. The MPI library has a window on the same memory, and does all else: its locks,
//! fences and posts are what they are, and so are operations that come before a lock is known to be
//! granted, or between fences.
//!
//! | module | is |
//! |---|---|
//! | `access` | operations on a window's memory |
//! | `change` | those that must not come between each other, on any datatype |
//! | `datatype` | what datatypes are made of |
//! | `epoch` | when a target's memory may be reached: locks and flushes |
//! | `functions` | the library's functions for windows |
//! | `segment` | memory that processes share |
//!
//! A window belongs to all who use it, whatever name they call: under the profiling names, too,
//! operations on such a window are done here. Half of them by another way would not be atomic.

pub mod access;
mod change;
mod datatype;
pub mod epoch;
mod functions;
mod segment;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::calls::{BROKEN, Caller, either};
use crate::comm;
use crate::library::{Brand, Handle, Library, library};
use crate::settings::WINDOWS;
pub use functions::{Functions, LargeFunctions};
use segment::{Place, Segment};

/// A window whose memory all its processes map.
pub struct Window {
    /// In the order of ranks.
    parts: Vec<Part>,
    /// Whether the library has operations under way that a flush is to end.
    pending: AtomicBool,
    /// Flushes that were none of the library's.
    flushes: AtomicU32,
}

/// A process's memory.
pub struct Part {
    segment: Segment,
    /// Bytes of a step of the numbers by which programs name places in it.
    unit: usize,
    /// See `epoch`.
    state: AtomicU8,
    /// As in [`Window`], for this target.
    pending: AtomicBool,
}

/// What processes tell each other.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Card {
    place: Place,
    /// 0: it has no memory to show.
    unit: u64,
}

/// The windows of this process, by their handles.
static OPEN: Mutex<Vec<(Handle, Box<Window>)>> = Mutex::new(Vec::new());

/// Counts windows that come and go: what was known by a handle may be wrong then.
static CHANGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The window that this thread has used last (null: one of the library's), and the changes by
    /// then.
    static LAST: Cell<(Handle, *const Window, u64)> = const { Cell::new((0, ptr::null(), 0)) };
}

fn open() -> MutexGuard<'static, Vec<(Handle, Box<Window>)>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The window of that handle if it is one of these.
#[inline]
fn of(library: &Library, window: Handle) -> Option<&'static Window> {
    let changes = CHANGES.load(Ordering::Acquire);
    if changes == 0 {
        return None;
    }
    let handle = library.handle(window);
    let (last, mut known, then) = LAST.get();
    if last != handle || then != changes {
        let all = open();
        known = match all.iter().find(|(other, _)| *other == handle) {
            Some((_, window)) => &raw const **window,
            None => ptr::null(),
        };
        LAST.set((handle, known, changes));
    }
    // SAFETY: it is there until it is freed, which changes the count; who uses a window in one
    // thread must not free it in another.
    unsafe { known.as_ref() }
}

/// The library and its functions for windows.
#[inline]
fn here() -> Option<(&'static Library, &'static Functions)> {
    let library = library()?;
    Some((library, library.windows.as_ref()?))
}

impl Window {
    #[inline]
    fn part(&self, rank: c_int) -> Option<&Part> {
        self.parts.get(usize::try_from(rank).ok()?)
    }
}

impl Part {
    /// Where so many bytes begin at a place of the program's numbering, if they are all within.
    #[inline]
    fn range(&self, place: isize, bytes: usize) -> Option<*mut u8> {
        let start = usize::try_from(place).ok()?.checked_mul(self.unit)?;
        let within = start.checked_add(bytes)? <= self.segment.len;
        // SAFETY: within the memory, or at its end.
        within.then(|| unsafe { self.segment.memory().add(start) })
    }
}

/// What a program asks for: bytes, and the step of numbers.
type Wanted = (isize, isize);

/// `MPI_Win_allocate`, and the same for steps of any size.
///
/// # Safety
/// As MPI demands.
pub unsafe fn allocate(
    _: Caller,
    (bytes, unit): Wanted,
    (info, comm): (Handle, Handle),
    base: *mut c_void,
    window: *mut c_void,
) -> c_int {
    either(
        Caller::Program,
        |library| {
            let room = (base.cast::<*mut u8>(), window);
            let (info, comm) = (library.handle(info), library.handle(comm));
            // SAFETY: the caller's promise.
            unsafe { allocate_by_weft(library, (bytes, unit), (info, comm), room) }
        },
        |library| match (&library.windows, &library.large_windows, c_int::try_from(unit)) {
            // SAFETY: the caller's promise.
            (Some(f), _, Ok(unit)) => unsafe {
                (f.allocate)(bytes, unit, info, comm, base, window)
            },
            // SAFETY: the caller's promise.
            (_, Some(f), _) => unsafe { (f.allocate)(bytes, unit, info, comm, base, window) },
            _ => BROKEN,
        },
    )
}

/// Allocates memory that all map, and has the library make a window of it. `None`: the library is
/// to do it all, at each process.
///
/// # Safety
/// As MPI demands.
unsafe fn allocate_by_weft(
    library: &Library,
    (bytes, unit): Wanted,
    (info, comm): (Handle, Handle),
    (base, window): (*mut *mut u8, *mut c_void),
) -> Option<c_int> {
    // Open MPI has windows in shared memory itself.
    if library.brand != Brand::Mpich {
        return None;
    }
    let known = comm::of(library, comm, WINDOWS)?;
    let f = library.windows.as_ref().filter(|_| known.nodes == 1)?;
    // What is wrong with one process's arguments is for the library to say, at that one.
    let good = !base.is_null() && !window.is_null() && unit > 0 && c_int::try_from(unit).is_ok();
    let own = usize::try_from(bytes).ok().filter(|_| good).and_then(|len| Segment::new(len).ok());
    let mut card = Card::default();
    if let Some((_, _, place)) = &own {
        card = Card { place: *place, unit: unit as u64 };
    }
    let mut cards = vec![Card::default(); known.size as usize];
    let len = size_of::<Card>() as c_int;
    // SAFETY: there is room for a card of each.
    let code = unsafe {
        let (from, into) = ((&raw const card).cast(), cards.as_mut_ptr().cast());
        (library.f.allgather)(from, len, library.byte, into, len, library.byte, comm)
    };
    if code != 0 {
        return Some(code);
    }
    let parts = own.map(|(segment, file, _)| (map(&cards, known.rank, segment), file));
    let (mapped, mut all): (c_int, c_int) = (matches!(parts, Some((Some(_), _))).into(), 0);
    // SAFETY: one number there and back.
    let code = unsafe {
        let (from, into) = ((&raw const mapped).cast(), (&raw mut all).cast());
        (library.f.allreduce)(from, into, 1, library.int, library.min, comm)
    };
    if code != 0 {
        return Some(code);
    }
    let parts = parts?.0.filter(|_| all == 1)?;
    let memory = parts[known.rank as usize].segment.memory();
    // SAFETY: the caller's promise; the memory is there as long as the window.
    let code = unsafe { (f.create)(memory.cast(), bytes, unit as c_int, info, comm, window) };
    if code == 0 {
        // SAFETY: the library has written the handle; room for an address, by the caller's promise.
        let handle = unsafe {
            *base = memory;
            library.handle_at(window)
        };
        let (pending, flushes) = (AtomicBool::new(false), AtomicU32::new(0));
        open().push((handle, Box::new(Window { parts, pending, flushes })));
        CHANGES.fetch_add(1, Ordering::AcqRel);
    }
    Some(code)
}

/// Maps the memory of all; `None` if that of one cannot be.
fn map(cards: &[Card], rank: u32, own: Segment) -> Option<Vec<Part>> {
    let mut own = Some(own);
    let part = |(number, card): (usize, &Card)| {
        let unit = usize::try_from(card.unit).ok().filter(|unit| *unit > 0)?;
        let segment = if number == rank as usize { own.take() } else { None };
        let segment = segment.or_else(|| Segment::of(&card.place).ok())?;
        let (state, pending) = (AtomicU8::new(epoch::CLOSED), AtomicBool::new(false));
        Some(Part { segment, unit, state, pending })
    };
    cards.iter().enumerate().map(part).collect()
}

/// `MPI_Win_free`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn free(_: Caller, window: *mut c_void) -> c_int {
    let Some((library, f)) = here() else { return BROKEN };
    let mut gone = None;
    if CHANGES.load(Ordering::Acquire) > 0 && !window.is_null() {
        // SAFETY: the caller has a handle there.
        let handle = unsafe { library.handle_at(window) };
        let mut all = open();
        // Its handle may be another window's at once.
        gone = all.iter().position(|(other, _)| *other == handle).map(|at| all.swap_remove(at));
        CHANGES.fetch_add(1, Ordering::AcqRel);
    }
    // SAFETY: the caller's promise. The memory is mapped still.
    let code = unsafe { (f.free)(window) };
    if let Some(gone) = gone.filter(|_| code != 0) {
        open().push(gone);
        CHANGES.fetch_add(1, Ordering::AcqRel);
    }
    code
}

/// `MPI_WIN_CREATE_FLAVOR`, and what it says of allocated memory, which this is although the
/// library was given it.
const FLAVOR_KEY: c_int = 0x6600_0007;
static ALLOCATED: c_int = 2;

/// `MPI_Win_get_attr`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_attr(
    _: Caller,
    window: Handle,
    key: c_int,
    value: *mut c_void,
    found: *mut c_int,
) -> c_int {
    let Some((library, f)) = here() else { return BROKEN };
    // SAFETY: the caller's promise.
    let code = unsafe { (f.get_attr)(window, key, value, found) };
    if code == 0 && key == FLAVOR_KEY && of(library, window).is_some() {
        // SAFETY: the library has written an address there.
        unsafe { *value.cast::<*const c_int>() = &raw const ALLOCATED };
    }
    code
}
