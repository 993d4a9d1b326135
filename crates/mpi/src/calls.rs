//! What the functions of MPI that are replaced do.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::comm::{self, Comm};
use crate::library::{Brand, Handle, Library, library};
use crate::memory::Elements;
use crate::provider::provider;
use crate::settings::{self, ALLREDUCE, BARRIER, BCAST};
use crate::table::Table;
use crate::table::{Together, what};
use crate::together::{self, ended};

/// Broadcasts of so many bytes between nodes are done by Weft: where that was measured to be faster
/// than what the library does by the same means. Within a node its own ways were.
fn broadcast_range(brand: Brand) -> RangeInclusive<usize> {
    match brand {
        Brand::OpenMpi => 512..=1 << 20,
        _ => 512..=8 << 20,
    }
}

/// The longest of them where ranks share nodes: to each of those goes a copy of its own, where the
/// library's ranks take long messages out of each other's memory (measured: 8 ranks of 2 nodes,
/// 64 KiB in 70 % of the library's time and less, 128 KiB in twice as much).
const SHARED_BROADCAST_MAX: usize = 64 << 10;

/// The same for reductions.
fn reduction_range(brand: Brand) -> RangeInclusive<usize> {
    match brand {
        Brand::OpenMpi => 1..=512,
        _ => 1..=64 << 10,
    }
}

/// What a function gives where no MPI library is found, or a bug was met.
pub(crate) const BROKEN: c_int = 16;

/// Operations done by Weft.
static DONE: AtomicU64 = AtomicU64::new(0);

/// How many operations of this process Weft has done, for programs that want to know whether it
/// does any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_mpi_done() -> u64 {
    DONE.load(Ordering::Relaxed)
}

/// Who calls one of the functions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// The program, or what the library has for programs in Fortran.
    Program,
    /// Whoever wants the library's own function, by its profiling name.
    Profiler,
}

/// Runs `by_weft`, which gives `None` for what the library is to do; then `by_library`.
#[inline]
pub(crate) fn either(
    caller: Caller,
    by_weft: impl FnOnce(&'static Library) -> Option<c_int>,
    by_library: impl FnOnce(&Library) -> c_int,
) -> c_int {
    let Some(library) = library() else { return BROKEN };
    if caller == Caller::Profiler || settings::is_off() {
        return by_library(library);
    }
    match catch_unwind(AssertUnwindSafe(|| by_weft(library))) {
        Ok(Some(code)) => counted(code),
        Ok(None) => by_library(library),
        Err(_) => BROKEN,
    }
}

/// Counts what Weft has done; gives MPI's code for it.
#[inline]
pub(crate) fn counted(code: c_int) -> c_int {
    DONE.fetch_add(1, Ordering::Relaxed);
    code
}

/// Tells the user of a failure as the communicator's error handler says. MPI's code for it.
#[cold]
pub(crate) fn failed(library: &Library, comm: Handle, call: &str, rank: u32, why: &CStr) -> c_int {
    let text = format!("{call} at rank {rank} of the communicator: {}", why.to_string_lossy());
    eprintln!("weft: {text}");
    let mut code = 0;
    let f = &library.f;
    // SAFETY: a number's place; a text that ends in a zero byte; the communicator of the call.
    unsafe {
        if (f.add_error_code)(library.err_other, &raw mut code) == 0 {
            let text = CString::new(text).unwrap_or_default();
            (f.add_error_string)(code, text.as_ptr());
        } else {
            code = library.err_other;
        }
        (f.comm_call_errhandler)(comm, code);
    }
    code
}

/// `MPI_Barrier`.
///
/// # Safety
/// As MPI demands.
#[inline]
pub unsafe fn barrier(caller: Caller, comm: Handle) -> c_int {
    either(
        caller,
        |library| barrier_by_weft(library, comm),
        // SAFETY: the caller's promise.
        |library| unsafe { (library.f.barrier)(comm) },
    )
}

/// A barrier by Weft; `None` for what the library is to do.
fn barrier_by_weft(library: &Library, comm: Handle) -> Option<c_int> {
    let comm = library.handle(comm);
    let (known, table) = (comm::of(library, comm, BARRIER)?, provider()?);
    // Of more, the last one to arrive is told apart by a counter, and wakes the others.
    if known.room > 0 && known.size == 2 {
        let done = known.together(library, comm, table, &Together::NOTHING);
        return Some(ended(library, comm, "MPI_Barrier", known, done));
    }
    // SAFETY: an open group; MPI allows one operation on a communicator at a time.
    let begun = unsafe { (table.barrier)(known.group()) };
    Some(match known.wait(library, comm, table, begun) {
        Ok(()) => 0,
        Err(why) => failed(library, comm, "MPI_Barrier", known.rank, &why),
    })
}

/// `MPI_Bcast`.
///
/// # Safety
/// As MPI demands.
#[inline]
pub unsafe fn bcast(
    caller: Caller,
    (buffer, count, datatype): (*mut c_void, c_int, Handle),
    root: c_int,
    comm: Handle,
) -> c_int {
    either(
        caller,
        |library| bcast_by_weft(library, (buffer, count, datatype), root, comm),
        // SAFETY: the caller's promise.
        |library| unsafe { (library.f.bcast)(buffer, count, datatype, root, comm) },
    )
}

/// `MPI_Bcast_c`, for counts of any size.
///
/// # Safety
/// As MPI demands.
#[inline]
pub unsafe fn bcast_large(
    caller: Caller,
    (buffer, count, datatype): (*mut c_void, i64, Handle),
    root: c_int,
    comm: Handle,
) -> c_int {
    either(
        caller,
        // What is done by Weft has a count of the usual size.
        |library| bcast_by_weft(library, (buffer, count.try_into().ok()?, datatype), root, comm),
        |library| match (library.large.bcast, count.try_into()) {
            // SAFETY: the caller's promise.
            (Some(function), _) => unsafe { function(buffer, count, datatype, root, comm) },
            // A library from before MPI 4: programs that look for this name find it here.
            // SAFETY: the caller's promise.
            (None, Ok(count)) => unsafe { (library.f.bcast)(buffer, count, datatype, root, comm) },
            (None, Err(_)) => BROKEN,
        },
    )
}

/// Broadcasts by Weft; `None` for what the library is to do.
fn bcast_by_weft(
    library: &Library,
    (buffer, count, datatype): (*mut c_void, c_int, Handle),
    root: c_int,
    comm: Handle,
) -> Option<c_int> {
    let (comm, datatype) = (library.handle(comm), library.handle(datatype));
    let data = Elements { at: buffer, count, datatype };
    let len = data.len(library, comm)?;
    let together = together::reach(library.brand, BCAST).contains(&len);
    if !together && !broadcast_range(library.brand).contains(&len) {
        return None;
    }
    let (known, table) = (comm::of(library, comm, BCAST)?, provider()?);
    let root = u32::try_from(root).ok().filter(|root| *root < known.size)?;
    if together && known.room >= len {
        return Some(broadcast(library, comm, (known, table), data, (len, root)));
    }
    if !broadcast_range(library.brand).contains(&len)
        || known.nodes == 1
        || (known.nodes < known.size && len > SHARED_BROADCAST_MAX)
    {
        return None;
    }
    Some(broadcast(library, comm, (known, table), data, (len, root)))
}

fn broadcast(
    library: &Library,
    comm: Handle,
    (known, table): (&Comm, &Table),
    data: Elements,
    (len, root): (usize, u32),
) -> c_int {
    let plain = data.is_plain(library);
    let mut row = if plain { Vec::new() } else { vec![0; len] };
    let is_root = known.rank == root;
    if !plain
        && is_root
        && let Err(code) = data.pack(library, comm, &mut row)
    {
        return code;
    }
    let at = if plain { data.at.cast() } else { row.as_mut_ptr() };
    let done = if known.nodes == 1 {
        let what =
            Together { what: what::BROADCAST, root, from: at, into: at, len, ..Together::NOTHING };
        known.together(library, comm, table, &what)
    } else {
        // SAFETY: an open group; the memory stays until the operation has ended.
        let begun = unsafe { (table.broadcast)(known.group(), root, at, len) };
        known.wait(library, comm, table, begun)
    };
    if let Err(why) = done {
        return failed(library, comm, "MPI_Bcast", known.rank, &why);
    }
    match plain || is_root {
        true => 0,
        false => data.unpack(library, comm, &row).err().unwrap_or(0),
    }
}

/// `MPI_Allreduce`.
///
/// # Safety
/// As MPI demands.
#[inline]
pub unsafe fn allreduce(
    caller: Caller,
    (from, into): (*const c_void, *mut c_void),
    count: c_int,
    (datatype, op): (Handle, Handle),
    comm: Handle,
) -> c_int {
    either(
        caller,
        // SAFETY: the caller's promise.
        |library| unsafe { allreduce_by_weft(library, (from, into), count, (datatype, op), comm) },
        // SAFETY: the caller's promise.
        |library| unsafe { (library.f.allreduce)(from, into, count, datatype, op, comm) },
    )
}

/// `MPI_Allreduce_c`, for counts of any size.
///
/// # Safety
/// As MPI demands.
#[inline]
pub unsafe fn allreduce_large(
    caller: Caller,
    (from, into): (*const c_void, *mut c_void),
    count: i64,
    (datatype, op): (Handle, Handle),
    comm: Handle,
) -> c_int {
    either(
        caller,
        |library| {
            let count = count.try_into().ok()?;
            // SAFETY: the caller's promise.
            unsafe { allreduce_by_weft(library, (from, into), count, (datatype, op), comm) }
        },
        |library| match (library.large.allreduce, count.try_into()) {
            // SAFETY: the caller's promise.
            (Some(function), _) => unsafe { function(from, into, count, datatype, op, comm) },
            // SAFETY: the caller's promise.
            (None, Ok(count)) => unsafe {
                (library.f.allreduce)(from, into, count, datatype, op, comm)
            },
            (None, Err(_)) => BROKEN,
        },
    )
}

/// Reduces by Weft; `None` for what the library is to do.
///
/// # Safety
/// As MPI demands of the memory.
unsafe fn allreduce_by_weft(
    library: &Library,
    (from, into): (*const c_void, *mut c_void),
    count: c_int,
    (datatype, op): (Handle, Handle),
    comm: Handle,
) -> Option<c_int> {
    let (comm, datatype) = (library.handle(comm), library.handle(datatype));
    let (op, scalar) = library.reduction(library.handle(op), datatype)?;
    let len = usize::try_from(count).ok()? * library.plain_size(datatype)?;
    let together = together::reach(library.brand, ALLREDUCE).contains(&len);
    if !together && !reduction_range(library.brand).contains(&len) {
        return None;
    }
    // No memory, or the same for both, is an error that the library is to tell.
    let in_place = from as usize == library.in_place;
    if !library.is_memory(into)
        || from == into.cast_const()
        || !(in_place || library.is_memory(from))
    {
        return None;
    }
    let (known, table) = (comm::of(library, comm, ALLREDUCE)?, provider()?);
    if together && known.room >= len {
        let from = if in_place { std::ptr::null() } else { from.cast() };
        let what = what::ALLREDUCE;
        let what = Together { what, op, scalar, root: 0, from, into: into.cast(), len };
        let done = known.together(library, comm, table, &what);
        return Some(ended(library, comm, "MPI_Allreduce", known, done));
    }
    if known.nodes == 1 || !reduction_range(library.brand).contains(&len) {
        return None;
    }
    if !in_place {
        // SAFETY: the caller's memory, of which both parts have this length.
        unsafe { std::ptr::copy(from.cast::<u8>(), into.cast(), len) };
    }
    let (group, count) = (known.group(), count as usize);
    // SAFETY: an open group; the memory stays until the operation has ended.
    let begun = unsafe { (table.allreduce)(group, op, scalar, into.cast(), count) };
    Some(match known.wait(library, comm, table, begun) {
        Ok(()) => 0,
        Err(why) => failed(library, comm, "MPI_Allreduce", known.rank, &why),
    })
}

/// `MPI_Finalize`, by whatever name: leaves all groups first.
///
/// # Safety
/// As MPI demands.
pub unsafe fn finalize(_: Caller) -> c_int {
    either(
        Caller::Program,
        |_| {
            comm::leave_all();
            None
        },
        // SAFETY: the caller's promise.
        |library| unsafe { (library.f.finalize)() },
    )
}
