//! The shared objects of the process. libweft-mpi and libweft-calls have this file as well: they
//! have no other code of the provider.

use std::ffi::{CStr, CString, c_int, c_void};

/// All shared objects of the process whose file names are `wanted`, opened once more, never to be
/// closed: handles for `dlsym`.
pub fn loaded(wanted: impl Fn(&CStr) -> bool) -> Vec<*mut c_void> {
    unsafe extern "C" fn each(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        names: *mut c_void,
    ) -> c_int {
        // SAFETY: `dl_iterate_phdr` gives a valid structure, and the vector that it was given.
        let (info, names) = unsafe { (&*info, &mut *names.cast::<Vec<CString>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: a name ends in a zero byte.
            names.push(unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned());
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: `each` takes what it is given here, and does not unwind (pushing may only abort).
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut names).cast()) };
    let open = |name: &CString| {
        // SAFETY: the object is loaded already, so that no code of its own runs.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(handle)
    };
    names.iter().filter(|name| wanted(name)).filter_map(open).collect()
}
