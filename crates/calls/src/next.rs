//! Whither a call goes on: to the next function of its name.

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::loaded::loaded;
use crate::shown;

/// `MPI_ERR_OTHER` of Open MPI; in no library this is success.
const NONE: c_int = 16;

/// The next function of a name, once it was looked for.
pub struct Next(AtomicPtr<c_void>);

impl Next {
    /// Not looked for yet.
    pub const fn new() -> Next {
        Next(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The function that comes next after the one called `name` here.
    #[inline]
    pub fn get(&self, name: &str) -> *mut c_void {
        let found = self.0.load(Ordering::Relaxed);
        if found.is_null() { self.find(name) } else { found }
    }

    #[cold]
    fn find(&self, name: &str) -> *mut c_void {
        // Before the first call is timed.
        shown::open();
        let found = find(name);
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

/// Behind this library in the order of symbols; or, where a program has loaded the MPI library by
/// itself (Python), among all that is loaded.
fn find(name: &str) -> *mut c_void {
    let symbol = |scope: *mut c_void, name: &CStr| {
        // SAFETY: a handle that is never closed, or a constant; the name ends in a zero byte.
        let found = unsafe { libc::dlsym(scope, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    let c_name = CString::new(name).unwrap_or_default();
    let next = symbol(libc::RTLD_NEXT, &c_name);
    let all = || loaded(is_mpi).into_iter().find_map(|scope| symbol(scope, &c_name));
    next.or_else(all).unwrap_or_else(|| {
        eprintln!("weft: {name}: the MPI library of this process has no such function");
        let none: unsafe extern "C-unwind" fn() -> c_int = none;
        none as *mut c_void
    })
}

/// What a program calls that the library has not: it can only have found it here, at run time.
unsafe extern "C-unwind" fn none() -> c_int {
    NONE
}

fn is_mpi(name: &CStr) -> bool {
    let name = name.to_string_lossy();
    let file = name.rsplit('/').next().unwrap_or("");
    file.starts_with("libmpi")
}
