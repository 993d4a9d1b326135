//! The functions of Weft's provider: it gives them when the MPI library loads it.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::probes;
use crate::table::{Table, VERSION};

static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// Called by the provider with its table, which lasts for ever.
///
/// # Safety
/// `table` points to one, of which the first field may be read whatever the version.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mpi_take(table: *const Table) {
    // SAFETY: the caller's promise.
    let version = unsafe { (*table).version };
    if version == VERSION {
        TABLE.store(table.cast_mut(), Ordering::Release);
        probes::taken();
    } else {
        eprintln!(
            "weft: libweft-mpi.so and libweft-fi.so are of different versions: the MPI library \
             does all collective operations itself; install both from one build"
        );
    }
}

/// Whether the provider that the process uses has given its table: 1 or 0. `weft mpirun` asks
/// before it starts a program.
#[unsafe(no_mangle)]
pub extern "C" fn weft_mpi_has_provider() -> c_int {
    c_int::from(provider().is_some())
}

/// The provider's functions; `None` where it is not loaded.
pub fn provider() -> Option<&'static Table> {
    let table = TABLE.load(Ordering::Acquire);
    // SAFETY: null, or the table of a library that is never unloaded.
    unsafe { table.as_ref() }
}
