//! Programs in Fortran. What they call is a binding of the MPI library's, which brings the
//! arguments into the form of C (handles, `MPI_IN_PLACE`, `MPI_BOTTOM`, descriptors of arrays) and
//! calls C's function: MPICH's by the name that is replaced, but for some, and Open MPI's by the
//! profiling name. The bindings stay as they are; here they are called by way of functions of the
//! same names, so that the next call by a profiling name is known to be the program's.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use crate::calls::Caller;
use crate::library;

thread_local! {
    /// Whether this thread is on the way from a binding to C's function.
    static UNDER_WAY: Cell<bool> = const { Cell::new(false) };
}

/// Who calls C's function by its profiling name: a binding does so once in each call of it, first
/// of all that might call it.
#[inline]
pub fn caller() -> Caller {
    if UNDER_WAY.replace(false) { Caller::Program } else { Caller::Profiler }
}

macro_rules! bindings {
    ($($name:ident($($argument:ident),*);)*) => {$(
        /// The binding of that name.
        ///
        /// # Safety
        /// As MPI demands. All arguments of Fortran's functions are addresses.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: *mut c_void),*) {
            static NEXT: OnceLock<usize> = OnceLock::new();
            let next = *NEXT.get_or_init(|| find(concat!(stringify!($name), "\0")));
            // SAFETY: the library's function of this name, which has as many arguments.
            let next = unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn($($argument: *mut c_void),*)>(
                    next,
                )
            };
            UNDER_WAY.set(true);
            // SAFETY: the caller's promise.
            unsafe { next($($argument),*) };
            UNDER_WAY.set(false);
        }
    )*};
}

// The names of the standard (MPI 4.1, section 19.1.5), as compilers for Linux write them: those of
// `mpif.h` and `use mpi`, those of `use mpi_f08`, and both for compilers that describe arrays
// (`fts`, `f08ts`), with large counts as well (`c`).
bindings! {
    mpi_barrier_(comm, error);
    mpi_barrier_f08_(comm, error);
    mpi_bcast_(buffer, count, datatype, root, comm, error);
    mpi_bcast_fts_(buffer, count, datatype, root, comm, error);
    mpi_bcast_f08_(buffer, count, datatype, root, comm, error);
    mpi_bcast_f08ts_(buffer, count, datatype, root, comm, error);
    mpi_bcast_c_f08_(buffer, count, datatype, root, comm, error);
    mpi_bcast_c_f08ts_(buffer, count, datatype, root, comm, error);
    mpi_allreduce_(from, into, count, datatype, op, comm, error);
    mpi_allreduce_fts_(from, into, count, datatype, op, comm, error);
    mpi_allreduce_f08_(from, into, count, datatype, op, comm, error);
    mpi_allreduce_f08ts_(from, into, count, datatype, op, comm, error);
    mpi_allreduce_c_f08_(from, into, count, datatype, op, comm, error);
    mpi_allreduce_c_f08ts_(from, into, count, datatype, op, comm, error);
    mpi_reduce_(from, into, count, datatype, op, root, comm, error);
    mpi_reduce_fts_(from, into, count, datatype, op, root, comm, error);
    mpi_reduce_f08_(from, into, count, datatype, op, root, comm, error);
    mpi_reduce_f08ts_(from, into, count, datatype, op, root, comm, error);
    mpi_reduce_c_f08_(from, into, count, datatype, op, root, comm, error);
    mpi_reduce_c_f08ts_(from, into, count, datatype, op, root, comm, error);
    mpi_allgather_(from, sent, kind, into, taken, as_kind, comm, error);
    mpi_allgather_fts_(from, sent, kind, into, taken, as_kind, comm, error);
    mpi_allgather_f08_(from, sent, kind, into, taken, as_kind, comm, error);
    mpi_allgather_f08ts_(from, sent, kind, into, taken, as_kind, comm, error);
    mpi_allgather_c_f08_(from, sent, kind, into, taken, as_kind, comm, error);
    mpi_allgather_c_f08ts_(from, sent, kind, into, taken, as_kind, comm, error);
    mpi_alltoall_(from, sent, kind, into, taken, as_kind, comm, error);
    mpi_alltoall_fts_(from, sent, kind, into, taken, as_kind, comm, error);
    mpi_alltoall_f08_(from, sent, kind, into, taken, as_kind, comm, error);
    mpi_alltoall_f08ts_(from, sent, kind, into, taken, as_kind, comm, error);
    mpi_alltoall_c_f08_(from, sent, kind, into, taken, as_kind, comm, error);
    mpi_alltoall_c_f08ts_(from, sent, kind, into, taken, as_kind, comm, error);
}

/// The library's binding of a name, which ends in a zero byte.
#[cold]
fn find(name: &str) -> usize {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
    let Some(found) = library::binding(name) else {
        // It cannot say so itself: that a place for an error is given is not certain.
        eprintln!(
            "weft: {}: the MPI library of this process has no such function: it is to be linked \
             with the library's own compiler for Fortran",
            name.to_string_lossy()
        );
        std::process::abort();
    };
    found as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_call_of_a_binding_is_the_programs_and_no_other() {
        assert!(caller() == Caller::Profiler);
        UNDER_WAY.set(true);
        assert!(caller() == Caller::Program);
        assert!(caller() == Caller::Profiler);
    }
}
