//! What a probe from anyone may be told. MPICH's own `MPI_Dist_graph_create` receives from anyone
//! what a probe has shown it, and gets its rank's own message instead unless the provider says
//! "nothing yet" once after a send (`ep/peek.rs` there says why). Programs receive from the sender
//! that they were shown, and need not wait: so it says so within that function alone.

use std::ffi::{c_int, c_void};

use crate::calls::{BROKEN, Caller};
use crate::library::{Handle, library};
use crate::provider::provider;

/// The provider's functions are known: probes are told at once what has come.
pub fn taken() {
    withhold(false);
}

fn withhold(may: bool) {
    if let Some(table) = provider() {
        // SAFETY: a number is all it takes.
        unsafe { (table.withholds)(c_int::from(may)) };
    }
}

/// `MPI_Dist_graph_create`, done by the library whoever calls it.
///
/// # Safety
/// As MPI demands.
pub unsafe fn dist_graph_create(
    _caller: Caller,
    (comm, count): (Handle, c_int),
    (from, degrees, to, weights): (*const c_void, *const c_void, *const c_void, *const c_void),
    (info, reorder): (Handle, c_int),
    made: *mut c_void,
) -> c_int {
    let Some(library) = library() else { return BROKEN };
    withhold(true);
    // SAFETY: the caller's promise.
    let code = unsafe {
        (library.f.dist_graph_create)(comm, count, from, degrees, to, weights, info, reorder, made)
    };
    withhold(false);
    code
}
