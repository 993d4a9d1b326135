//! What the processes of a communicator do together by memory that all of them share, all being on
//! one node: each shows what it has, and takes what it needs of the others' (`SharedOp` of Weft's
//! groups). For few bytes that is faster than what the library does by messages.

use std::ffi::{CString, c_int, c_void};
use std::ops::RangeInclusive;
use std::ptr;

use crate::calls::{BROKEN, Caller, either, failed};
use crate::comm::{self, Comm};
use crate::library::{Brand, Handle, Library};
use crate::memory::Elements;
use crate::provider::provider;
use crate::settings::{ALLGATHER, ALLREDUCE, ALLTOALL, BCAST, REDUCE};
use crate::table::{Together, what};

/// How many bytes there may be in an operation of this kind to be done so, those for one process
/// where there are some for each: where that was measured to be faster than the library's own way
/// on Weft.
pub fn reach(brand: Brand, kind: u32) -> RangeInclusive<usize> {
    let most = match (brand, kind) {
        (_, BCAST | REDUCE) | (Brand::Mpich, ALLREDUCE) => 8 << 10,
        (Brand::OpenMpi, ALLGATHER) => 2 << 10,
        _ => 4 << 10,
    };
    1..=most
}

impl Together {
    /// A barrier.
    pub const NOTHING: Together = Together {
        what: what::BARRIER,
        op: 0,
        scalar: 0,
        root: 0,
        from: ptr::null(),
        into: ptr::null_mut(),
        len: 0,
    };
}

/// MPI's code for an end.
#[inline]
pub fn ended(
    library: &Library,
    comm: Handle,
    call: &str,
    known: &Comm,
    done: Result<(), CString>,
) -> c_int {
    match done {
        Ok(()) => 0,
        Err(why) => failed(library, comm, call, known.rank, &why),
    }
}

/// `MPI_Reduce`.
///
/// # Safety
/// As MPI demands.
#[inline]
pub unsafe fn reduce(
    caller: Caller,
    (from, into): (*const c_void, *mut c_void),
    count: c_int,
    (datatype, op): (Handle, Handle),
    root: c_int,
    comm: Handle,
) -> c_int {
    either(
        caller,
        |library| reduce_by_weft(library, (from, into), count, (datatype, op), root, comm),
        // SAFETY: the caller's promise.
        |library| unsafe { (library.f.reduce)(from, into, count, datatype, op, root, comm) },
    )
}

/// `MPI_Reduce_c`, for counts of any size.
///
/// # Safety
/// As MPI demands.
pub unsafe fn reduce_large(
    caller: Caller,
    (from, into): (*const c_void, *mut c_void),
    count: i64,
    (datatype, op): (Handle, Handle),
    root: c_int,
    comm: Handle,
) -> c_int {
    either(
        caller,
        |library| {
            let count = count.try_into().ok()?;
            reduce_by_weft(library, (from, into), count, (datatype, op), root, comm)
        },
        |library| match (library.large.reduce, count.try_into()) {
            // SAFETY: the caller's promise.
            (Some(function), _) => unsafe { function(from, into, count, datatype, op, root, comm) },
            // SAFETY: the caller's promise.
            (None, Ok(count)) => unsafe {
                (library.f.reduce)(from, into, count, datatype, op, root, comm)
            },
            (None, Err(_)) => BROKEN,
        },
    )
}

/// Reduces by Weft; `None` for what the library is to do.
fn reduce_by_weft(
    library: &Library,
    (from, into): (*const c_void, *mut c_void),
    count: c_int,
    (datatype, op): (Handle, Handle),
    root: c_int,
    comm: Handle,
) -> Option<c_int> {
    let (comm, datatype) = (library.handle(comm), library.handle(datatype));
    let (op, scalar) = library.reduction(library.handle(op), datatype)?;
    let len = usize::try_from(count).ok()? * library.plain_size(datatype)?;
    if !reach(library.brand, REDUCE).contains(&len) {
        return None;
    }
    let (known, table) = (comm::of(library, comm, REDUCE)?, provider()?);
    let root = u32::try_from(root).ok().filter(|root| *root < known.size)?;
    if known.room < len {
        return None;
    }
    // Only the root gets something, and may have it there already. What is wrong with memory is an
    // error that the library is to tell.
    let is_root = known.rank == root;
    let in_place = is_root && from as usize == library.in_place;
    if !(in_place || library.is_memory(from))
        || is_root && (!library.is_memory(into) || from == into.cast_const())
    {
        return None;
    }
    let from = if in_place { ptr::null() } else { from.cast() };
    let what = Together { what: what::REDUCE, op, scalar, root, from, into: into.cast(), len };
    let done = known.together(library, comm, table, &what);
    Some(ended(library, comm, "MPI_Reduce", known, done))
}

/// What a call names of its memory: where, how many elements of each process, and which.
type Named<P, C> = (P, C, Handle);

/// A function that gives each process a block of each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exchange {
    /// The same to all.
    Allgather,
    /// Another to each.
    Alltoall,
}

macro_rules! exchanges {
    ($($(#[$text:meta])* $name:ident, $large:ident = $which:ident;)*) => {$(
        $(#[$text])*
        ///
        /// # Safety
        /// As MPI demands.
        #[inline]
        pub unsafe fn $name(
            caller: Caller,
            (from, sent, kind): Named<*const c_void, c_int>,
            (into, taken, as_kind): Named<*mut c_void, c_int>,
            comm: Handle,
        ) -> c_int {
            let which = Exchange::$which;
            either(
                caller,
                |library| {
                    let into = (into, taken, as_kind);
                    exchange(library, which, (from, sent, kind), into, comm)
                },
                // SAFETY: the caller's promise.
                |library| unsafe {
                    (library.f.$name)(from, sent, kind, into, taken, as_kind, comm)
                },
            )
        }

        /// The same for counts of any size.
        ///
        /// # Safety
        /// As MPI demands.
        pub unsafe fn $large(
            caller: Caller,
            (from, sent, kind): Named<*const c_void, i64>,
            (into, taken, as_kind): Named<*mut c_void, i64>,
            comm: Handle,
        ) -> c_int {
            let which = Exchange::$which;
            either(
                caller,
                |library| {
                    // In place there is no count to look at.
                    let in_place = from as usize == library.in_place;
                    let sent = if in_place { 0 } else { sent.try_into().ok()? };
                    let into = (into, taken.try_into().ok()?, as_kind);
                    exchange(library, which, (from, sent, kind), into, comm)
                },
                |library| match (library.large.$name, sent.try_into(), taken.try_into()) {
                    // SAFETY: the caller's promise.
                    (Some(function), ..) => unsafe {
                        function(from, sent, kind, into, taken, as_kind, comm)
                    },
                    // SAFETY: the caller's promise.
                    (None, Ok(sent), Ok(taken)) => unsafe {
                        (library.f.$name)(from, sent, kind, into, taken, as_kind, comm)
                    },
                    _ => BROKEN,
                },
            )
        }
    )*};
}

exchanges! {
    /// `MPI_Allgather`.
    allgather, allgather_large = Allgather;
    /// `MPI_Alltoall`.
    alltoall, alltoall_large = Alltoall;
}

/// Exchanges blocks by Weft; `None` for what the library is to do.
fn exchange(
    library: &Library,
    which: Exchange,
    (from, sent, kind): Named<*const c_void, c_int>,
    (into, taken, as_kind): Named<*mut c_void, c_int>,
    comm: Handle,
) -> Option<c_int> {
    let comm = library.handle(comm);
    let taken = Elements { at: into, count: taken, datatype: library.handle(as_kind) };
    let block = taken.len(library, comm)?;
    let (call, number, bit) = match which {
        Exchange::Allgather => ("MPI_Allgather", what::ALLGATHER, ALLGATHER),
        Exchange::Alltoall => ("MPI_Alltoall", what::ALLTOALL, ALLTOALL),
    };
    if !reach(library.brand, bit).contains(&block) {
        return None;
    }
    let (known, table) = (comm::of(library, comm, bit)?, provider()?);
    let all = block * known.size as usize;
    let len = if which == Exchange::Alltoall { all } else { block };
    if known.room < len {
        return None;
    }
    let in_place = from as usize == library.in_place;
    let sent = Elements { at: from.cast_mut(), count: sent, datatype: library.handle(kind) };
    if !in_place && sent.len(library, comm)? != block {
        return None;
    }
    let run = |from: *const u8, into: *mut u8| {
        let what = Together { what: number, from, into, len, ..Together::NOTHING };
        let done = known.together(library, comm, table, &what);
        ended(library, comm, call, known, done)
    };
    if taken.is_plain(library) && (in_place || sent.is_plain(library)) {
        return Some(run(if in_place { ptr::null() } else { from.cast() }, into.cast()));
    }
    // All that this process sends, and all that it takes, as rows of bytes.
    let times = |elements: Elements, bytes: usize| {
        let count = elements.count * (bytes / block) as c_int;
        Elements { count, ..elements }
    };
    let (sent, taken) = (times(sent, len), times(taken, all));
    let (mut own, mut row) = (vec![0; len], vec![0; all]);
    let packed = match in_place {
        true => taken.pack(library, comm, &mut row),
        false => sent.pack(library, comm, &mut own),
    };
    if let Err(code) = packed {
        return Some(code);
    }
    let code = run(if in_place { ptr::null() } else { own.as_ptr() }, row.as_mut_ptr());
    if code != 0 {
        return Some(code);
    }
    Some(taken.unpack(library, comm, &row).err().unwrap_or(0))
}
