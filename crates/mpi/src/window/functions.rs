//! The library's functions for windows.

use std::ffi::{c_int, c_void};

use crate::library::{Handle, Scope, functions};

/// An address that nobody writes to, and one that somebody does.
type From = *const c_void;
type Into = *mut c_void;

functions! {
    /// Those that every library has.
    Functions:
    create = c"PMPI_Win_create": fn(Into, isize, c_int, Handle, Handle, *mut c_void);
    allocate = c"PMPI_Win_allocate": fn(isize, c_int, Handle, Handle, Into, *mut c_void);
    free = c"PMPI_Win_free": fn(*mut c_void);
    get_attr = c"PMPI_Win_get_attr": fn(Handle, c_int, *mut c_void, *mut c_int);
    lock = c"PMPI_Win_lock": fn(c_int, c_int, c_int, Handle);
    lock_all = c"PMPI_Win_lock_all": fn(c_int, Handle);
    unlock = c"PMPI_Win_unlock": fn(c_int, Handle);
    unlock_all = c"PMPI_Win_unlock_all": fn(Handle);
    flush = c"PMPI_Win_flush": fn(c_int, Handle);
    flush_all = c"PMPI_Win_flush_all": fn(Handle);
    flush_local = c"PMPI_Win_flush_local": fn(c_int, Handle);
    flush_local_all = c"PMPI_Win_flush_local_all": fn(Handle);
    put = c"PMPI_Put": fn(From, c_int, Handle, c_int, isize, c_int, Handle, Handle);
    get = c"PMPI_Get": fn(Into, c_int, Handle, c_int, isize, c_int, Handle, Handle);
    accumulate = c"PMPI_Accumulate":
        fn(From, c_int, Handle, c_int, isize, c_int, Handle, Handle, Handle);
    get_accumulate = c"PMPI_Get_accumulate":
        fn(From, c_int, Handle, Into, c_int, Handle, c_int, isize, c_int, Handle, Handle, Handle);
    fetch_and_op = c"PMPI_Fetch_and_op": fn(From, Into, Handle, c_int, isize, Handle, Handle);
    compare_and_swap = c"PMPI_Compare_and_swap":
        fn(From, From, Into, Handle, c_int, isize, Handle);
    rput = c"PMPI_Rput":
        fn(From, c_int, Handle, c_int, isize, c_int, Handle, Handle, *mut c_void);
    rget = c"PMPI_Rget":
        fn(Into, c_int, Handle, c_int, isize, c_int, Handle, Handle, *mut c_void);
    raccumulate = c"PMPI_Raccumulate":
        fn(From, c_int, Handle, c_int, isize, c_int, Handle, Handle, Handle, *mut c_void);
    rget_accumulate = c"PMPI_Rget_accumulate":
        fn(From, c_int, Handle, Into, c_int, Handle, c_int, isize, c_int, Handle, Handle, Handle,
           *mut c_void);
    reduce_local = c"PMPI_Reduce_local": fn(From, Into, c_int, Handle, Handle);
    type_extent = c"PMPI_Type_get_extent": fn(Handle, *mut isize, *mut isize);
    type_true_extent = c"PMPI_Type_get_true_extent": fn(Handle, *mut isize, *mut isize);
    type_envelope = c"PMPI_Type_get_envelope":
        fn(Handle, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
    type_contents = c"PMPI_Type_get_contents":
        fn(Handle, c_int, c_int, c_int, *mut c_int, *mut isize, *mut c_void);
    type_free = c"PMPI_Type_free": fn(*mut c_void);
}

functions! {
    /// Those for counts of any size, which MPI has from version 4 on.
    LargeFunctions:
    allocate = c"PMPI_Win_allocate_c": fn(isize, isize, Handle, Handle, Into, *mut c_void);
    put = c"PMPI_Put_c": fn(From, i64, Handle, c_int, isize, i64, Handle, Handle);
    get = c"PMPI_Get_c": fn(Into, i64, Handle, c_int, isize, i64, Handle, Handle);
    accumulate = c"PMPI_Accumulate_c":
        fn(From, i64, Handle, c_int, isize, i64, Handle, Handle, Handle);
    get_accumulate = c"PMPI_Get_accumulate_c":
        fn(From, i64, Handle, Into, i64, Handle, c_int, isize, i64, Handle, Handle, Handle);
    rput = c"PMPI_Rput_c": fn(From, i64, Handle, c_int, isize, i64, Handle, Handle, *mut c_void);
    rget = c"PMPI_Rget_c": fn(Into, i64, Handle, c_int, isize, i64, Handle, Handle, *mut c_void);
    raccumulate = c"PMPI_Raccumulate_c":
        fn(From, i64, Handle, c_int, isize, i64, Handle, Handle, Handle, *mut c_void);
    rget_accumulate = c"PMPI_Rget_accumulate_c":
        fn(From, i64, Handle, Into, i64, Handle, c_int, isize, i64, Handle, Handle, Handle,
           *mut c_void);
}
