//! The functions of MPI that are replaced, under the names by which C finds them: `MPI_*`, and
//! `PMPI_*`, by which the bindings for Fortran call what they stand for. All else that asks for a
//! function by its profiling name (the MPI library itself does, for files) gets the library's own.

use std::ffi::{c_char, c_int, c_void};

use crate::calls::{self, Caller};
use crate::fortran;
use crate::library::Handle;
use crate::together;

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
    MPI_Init, PMPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) = calls::init(argc, argv);
    MPI_Init_thread, PMPI_Init_thread(
        argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int
    ) = calls::init_thread((argc, argv), required, provided);
    MPI_Finalize, PMPI_Finalize() = calls::finalize();
}
