//! The functions of MPI that are replaced, under the names by which C finds them: `MPI_*`, and
//! `PMPI_*`, by which the bindings for Fortran call what they stand for. All else that asks for a
//! function by its profiling name (the MPI library itself does, for files) gets the library's own.

use std::ffi::{c_char, c_int, c_void};

use crate::calls::{self, Caller};
use crate::fortran;
use crate::level;
use crate::library::Handle;
use crate::probes;
use crate::together;
use crate::window::{self, access, epoch};

macro_rules! entries {
    ($(
        $name:ident, $profiling:ident($($argument:ident: $kind:ty),*) =
            $module:ident::$function:ident($($given:expr),*);
    )*) => {$(
        /// See `calls.rs`.
        ///
        /// # Safety
        /// As MPI demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // SAFETY: the caller's promise.
            unsafe { $module::$function(Caller::Program, $($given),*) }
        }

        /// See `calls.rs`.
        ///
        /// # Safety
        /// As MPI demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $profiling($($argument: $kind),*) -> c_int {
            // SAFETY: the caller's promise.
            unsafe { $module::$function(fortran::caller(), $($given),*) }
        }
    )*};
}

entries! {
    MPI_Barrier, PMPI_Barrier(comm: Handle) = calls::barrier(comm);
    MPI_Bcast, PMPI_Bcast(
        buffer: *mut c_void, count: c_int, datatype: Handle, root: c_int, comm: Handle
    ) = calls::bcast((buffer, count, datatype), root, comm);
    MPI_Bcast_c, PMPI_Bcast_c(
        buffer: *mut c_void, count: i64, datatype: Handle, root: c_int, comm: Handle
    ) = calls::bcast_large((buffer, count, datatype), root, comm);
    MPI_Allreduce, PMPI_Allreduce(
        from: *const c_void, into: *mut c_void, count: c_int, datatype: Handle, op: Handle,
        comm: Handle
    ) = calls::allreduce((from, into), count, (datatype, op), comm);
    MPI_Allreduce_c, PMPI_Allreduce_c(
        from: *const c_void, into: *mut c_void, count: i64, datatype: Handle, op: Handle,
        comm: Handle
    ) = calls::allreduce_large((from, into), count, (datatype, op), comm);
    MPI_Reduce, PMPI_Reduce(
        from: *const c_void, into: *mut c_void, count: c_int, datatype: Handle, op: Handle,
        root: c_int, comm: Handle
    ) = together::reduce((from, into), count, (datatype, op), root, comm);
    MPI_Reduce_c, PMPI_Reduce_c(
        from: *const c_void, into: *mut c_void, count: i64, datatype: Handle, op: Handle,
        root: c_int, comm: Handle
    ) = together::reduce_large((from, into), count, (datatype, op), root, comm);
    MPI_Allgather, PMPI_Allgather(
        from: *const c_void, sent: c_int, kind: Handle, into: *mut c_void, taken: c_int,
        as_kind: Handle, comm: Handle
    ) = together::allgather((from, sent, kind), (into, taken, as_kind), comm);
    MPI_Allgather_c, PMPI_Allgather_c(
        from: *const c_void, sent: i64, kind: Handle, into: *mut c_void, taken: i64,
        as_kind: Handle, comm: Handle
    ) = together::allgather_large((from, sent, kind), (into, taken, as_kind), comm);
    MPI_Alltoall, PMPI_Alltoall(
        from: *const c_void, sent: c_int, kind: Handle, into: *mut c_void, taken: c_int,
        as_kind: Handle, comm: Handle
    ) = together::alltoall((from, sent, kind), (into, taken, as_kind), comm);
    MPI_Alltoall_c, PMPI_Alltoall_c(
        from: *const c_void, sent: i64, kind: Handle, into: *mut c_void, taken: i64,
        as_kind: Handle, comm: Handle
    ) = together::alltoall_large((from, sent, kind), (into, taken, as_kind), comm);
    MPI_Dist_graph_create, PMPI_Dist_graph_create(
        comm: Handle, count: c_int, from: *const c_void, degrees: *const c_void,
        to: *const c_void, weights: *const c_void, info: Handle, reorder: c_int,
        made: *mut c_void
    ) = probes::dist_graph_create(
        (comm, count), (from, degrees, to, weights), (info, reorder), made
    );
    MPI_Win_allocate, PMPI_Win_allocate(
        bytes: isize, unit: c_int, info: Handle, comm: Handle, base: *mut c_void,
        win: *mut c_void
    ) = window::allocate((bytes, unit as isize), (info, comm), base, win);
    MPI_Win_allocate_c, PMPI_Win_allocate_c(
        bytes: isize, unit: isize, info: Handle, comm: Handle, base: *mut c_void,
        win: *mut c_void
    ) = window::allocate((bytes, unit), (info, comm), base, win);
    MPI_Win_free, PMPI_Win_free(win: *mut c_void) = window::free(win);
    MPI_Win_get_attr, PMPI_Win_get_attr(
        win: Handle, key: c_int, value: *mut c_void, found: *mut c_int
    ) = window::get_attr(win, key, value, found);
    MPI_Win_lock, PMPI_Win_lock(kind: c_int, rank: c_int, assertion: c_int, win: Handle) =
        epoch::lock(kind, rank, assertion, win);
    MPI_Win_lock_all, PMPI_Win_lock_all(assertion: c_int, win: Handle) =
        epoch::lock_all(assertion, win);
    MPI_Win_unlock, PMPI_Win_unlock(rank: c_int, win: Handle) = epoch::unlock(rank, win);
    MPI_Win_unlock_all, PMPI_Win_unlock_all(win: Handle) = epoch::unlock_all(win);
    MPI_Win_flush, PMPI_Win_flush(rank: c_int, win: Handle) = epoch::flush(rank, win);
    MPI_Win_flush_all, PMPI_Win_flush_all(win: Handle) = epoch::flush_all(win);
    MPI_Win_flush_local, PMPI_Win_flush_local(rank: c_int, win: Handle) =
        epoch::flush_local(rank, win);
    MPI_Win_flush_local_all, PMPI_Win_flush_local_all(win: Handle) =
        epoch::flush_local_all(win);
    MPI_Put, PMPI_Put(
        from: *const c_void, count: c_int, kind: Handle, rank: c_int, at: isize, taken: c_int,
        as_kind: Handle, win: Handle
    ) = access::put(
        (from, count.into(), kind), (rank, at, taken.into(), as_kind), win
    );
    MPI_Put_c, PMPI_Put_c(
        from: *const c_void, count: i64, kind: Handle, rank: c_int, at: isize, taken: i64,
        as_kind: Handle, win: Handle
    ) = access::put((from, count, kind), (rank, at, taken, as_kind), win);
    MPI_Get, PMPI_Get(
        into: *mut c_void, count: c_int, kind: Handle, rank: c_int, at: isize, taken: c_int,
        as_kind: Handle, win: Handle
    ) = access::get(
        (into, count.into(), kind), (rank, at, taken.into(), as_kind), win
    );
    MPI_Get_c, PMPI_Get_c(
        into: *mut c_void, count: i64, kind: Handle, rank: c_int, at: isize, taken: i64,
        as_kind: Handle, win: Handle
    ) = access::get((into, count, kind), (rank, at, taken, as_kind), win);
    MPI_Rput, PMPI_Rput(
        from: *const c_void, count: c_int, kind: Handle, rank: c_int, at: isize, taken: c_int,
        as_kind: Handle, win: Handle, request: *mut c_void
    ) = access::rput(
        (from, count.into(), kind), (rank, at, taken.into(), as_kind), win, request
    );
    MPI_Rput_c, PMPI_Rput_c(
        from: *const c_void, count: i64, kind: Handle, rank: c_int, at: isize, taken: i64,
        as_kind: Handle, win: Handle, request: *mut c_void
    ) = access::rput((from, count, kind), (rank, at, taken, as_kind), win, request);
    MPI_Rget, PMPI_Rget(
        into: *mut c_void, count: c_int, kind: Handle, rank: c_int, at: isize, taken: c_int,
        as_kind: Handle, win: Handle, request: *mut c_void
    ) = access::rget(
        (into, count.into(), kind), (rank, at, taken.into(), as_kind), win, request
    );
    MPI_Rget_c, PMPI_Rget_c(
        into: *mut c_void, count: i64, kind: Handle, rank: c_int, at: isize, taken: i64,
        as_kind: Handle, win: Handle, request: *mut c_void
    ) = access::rget((into, count, kind), (rank, at, taken, as_kind), win, request);
    MPI_Accumulate, PMPI_Accumulate(
        from: *const c_void, count: c_int, kind: Handle, rank: c_int, at: isize, taken: c_int,
        as_kind: Handle, op: Handle, win: Handle
    ) = access::accumulate(
        (from, count.into(), kind), (rank, at, taken.into(), as_kind), op, win
    );
    MPI_Accumulate_c, PMPI_Accumulate_c(
        from: *const c_void, count: i64, kind: Handle, rank: c_int, at: isize, taken: i64,
        as_kind: Handle, op: Handle, win: Handle
    ) = access::accumulate((from, count, kind), (rank, at, taken, as_kind), op, win);
    MPI_Raccumulate, PMPI_Raccumulate(
        from: *const c_void, count: c_int, kind: Handle, rank: c_int, at: isize, taken: c_int,
        as_kind: Handle, op: Handle, win: Handle, request: *mut c_void
    ) = access::raccumulate(
        (from, count.into(), kind), (rank, at, taken.into(), as_kind), op, win, request
    );
    MPI_Raccumulate_c, PMPI_Raccumulate_c(
        from: *const c_void, count: i64, kind: Handle, rank: c_int, at: isize, taken: i64,
        as_kind: Handle, op: Handle, win: Handle, request: *mut c_void
    ) = access::raccumulate((from, count, kind), (rank, at, taken, as_kind), op, win, request);
    MPI_Get_accumulate, PMPI_Get_accumulate(
        from: *const c_void, count: c_int, kind: Handle, into: *mut c_void, room: c_int,
        in_kind: Handle, rank: c_int, at: isize, taken: c_int, as_kind: Handle, op: Handle,
        win: Handle
    ) = access::get_accumulate(
        (from, count.into(), kind), (into, room.into(), in_kind),
        (rank, at, taken.into(), as_kind), op, win
    );
    MPI_Get_accumulate_c, PMPI_Get_accumulate_c(
        from: *const c_void, count: i64, kind: Handle, into: *mut c_void, room: i64,
        in_kind: Handle, rank: c_int, at: isize, taken: i64, as_kind: Handle, op: Handle,
        win: Handle
    ) = access::get_accumulate(
        (from, count, kind), (into, room, in_kind), (rank, at, taken, as_kind), op, win
    );
    MPI_Rget_accumulate, PMPI_Rget_accumulate(
        from: *const c_void, count: c_int, kind: Handle, into: *mut c_void, room: c_int,
        in_kind: Handle, rank: c_int, at: isize, taken: c_int, as_kind: Handle, op: Handle,
        win: Handle, request: *mut c_void
    ) = access::rget_accumulate(
        (from, count.into(), kind), (into, room.into(), in_kind),
        (rank, at, taken.into(), as_kind), op, (win, request)
    );
    MPI_Rget_accumulate_c, PMPI_Rget_accumulate_c(
        from: *const c_void, count: i64, kind: Handle, into: *mut c_void, room: i64,
        in_kind: Handle, rank: c_int, at: isize, taken: i64, as_kind: Handle, op: Handle,
        win: Handle, request: *mut c_void
    ) = access::rget_accumulate(
        (from, count, kind), (into, room, in_kind), (rank, at, taken, as_kind), op,
        (win, request)
    );
    MPI_Fetch_and_op, PMPI_Fetch_and_op(
        from: *const c_void, into: *mut c_void, kind: Handle, rank: c_int, at: isize, op: Handle,
        win: Handle
    ) = access::fetch_and_op((from, into), kind, (rank, at), op, win);
    MPI_Compare_and_swap, PMPI_Compare_and_swap(
        from: *const c_void, expected: *const c_void, into: *mut c_void, kind: Handle,
        rank: c_int, at: isize, win: Handle
    ) = access::compare_and_swap((from, expected), into, kind, (rank, at), win);
    MPI_Init, PMPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) = level::init(argc, argv);
    MPI_Init_thread, PMPI_Init_thread(
        argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int
    ) = level::init_thread((argc, argv), required, provided);
    MPI_Session_init, PMPI_Session_init(
        info: Handle, errhandler: Handle, session: *mut c_void
    ) = level::session_init(info, errhandler, session);
    MPI_Finalize, PMPI_Finalize() = calls::finalize();
}
