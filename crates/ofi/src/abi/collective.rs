//! What `rdma/fi_collective.h` declares; layouts as in 2.5.1.

use std::ffi::{c_int, c_void};

use super::{fi_addr_t, fi_atomic_attr, fi_datatype, fi_ioc, fi_op, fid, fid_ep};

pub const FI_COLLECTIVE: u64 = 1 << 6;
pub const FI_CLASS_MC: usize = 19;
pub const FI_CLASS_AV_SET: usize = 21;

pub type fi_collective_op = u32;
pub const FI_BARRIER: fi_collective_op = 0;
pub const FI_BROADCAST: fi_collective_op = 1;
pub const FI_ALLTOALL: fi_collective_op = 2;
pub const FI_ALLREDUCE: fi_collective_op = 3;
pub const FI_ALLGATHER: fi_collective_op = 4;
pub const FI_REDUCE_SCATTER: fi_collective_op = 5;
pub const FI_REDUCE: fi_collective_op = 6;
pub const FI_SCATTER: fi_collective_op = 7;
pub const FI_GATHER: fi_collective_op = 8;

#[repr(C)]
pub struct fi_av_set_attr {
    pub count: usize,
    pub start_addr: fi_addr_t,
    pub end_addr: fi_addr_t,
    pub stride: u64,
    pub comm_key_size: usize,
    pub comm_key: *mut u8,
    pub flags: u64,
}

#[repr(C)]
pub struct fi_ops_av_set {
    pub size: usize,
    pub set_union: Option<unsafe extern "C" fn(*mut fid_av_set, *const fid_av_set) -> c_int>,
    pub intersect: Option<unsafe extern "C" fn(*mut fid_av_set, *const fid_av_set) -> c_int>,
    pub diff: Option<unsafe extern "C" fn(*mut fid_av_set, *const fid_av_set) -> c_int>,
    pub insert: Option<unsafe extern "C" fn(*mut fid_av_set, fi_addr_t) -> c_int>,
    pub remove: Option<unsafe extern "C" fn(*mut fid_av_set, fi_addr_t) -> c_int>,
    pub addr: Option<unsafe extern "C" fn(*mut fid_av_set, *mut fi_addr_t) -> c_int>,
}

#[repr(C)]
pub struct fid_av_set {
    pub fid: fid,
    pub ops: *mut fi_ops_av_set,
}

#[repr(C)]
pub struct fi_collective_attr {
    pub op: fi_op,
    pub datatype: fi_datatype,
    pub datatype_attr: fi_atomic_attr,
    pub max_members: usize,
    pub mode: u64,
}

#[repr(C)]
pub struct fi_collective_addr {
    pub set: *const fid_av_set,
    pub coll_addr: fi_addr_t,
}

/// A group that an endpoint has joined; elsewhere only passed by, as `fid_mc`.
#[repr(C)]
pub struct fid_group {
    pub fid: fid,
    pub fi_addr: fi_addr_t,
}

#[repr(C)]
pub struct fi_msg_collective {
    pub msg_iov: *const fi_ioc,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub coll_addr: fi_addr_t,
    pub root_addr: fi_addr_t,
    pub coll: fi_collective_op,
    pub datatype: fi_datatype,
    pub op: fi_op,
    pub context: *mut c_void,
}

/// `fi_broadcast`.
pub type Broadcast = unsafe extern "C" fn(
    ep: *mut fid_ep,
    buf: *mut c_void,
    count: usize,
    desc: *mut c_void,
    coll_addr: fi_addr_t,
    root_addr: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize;

/// `fi_alltoall`, `fi_allgather`.
pub type Exchange = unsafe extern "C" fn(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    coll_addr: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize;

/// `fi_allreduce`, `fi_reduce_scatter`.
pub type Reduce = unsafe extern "C" fn(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    coll_addr: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    flags: u64,
    context: *mut c_void,
) -> isize;

/// `fi_reduce`.
pub type ReduceTo = unsafe extern "C" fn(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    coll_addr: fi_addr_t,
    root_addr: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    flags: u64,
    context: *mut c_void,
) -> isize;

/// `fi_scatter`, `fi_gather`.
pub type Rooted = unsafe extern "C" fn(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    coll_addr: fi_addr_t,
    root_addr: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize;

/// `fi_ops_collective`, which is another structure's name for nothing here.
#[repr(C)]
pub struct fi_collective_ops {
    pub size: usize,
    pub barrier: Option<unsafe extern "C" fn(*mut fid_ep, fi_addr_t, *mut c_void) -> isize>,
    pub broadcast: Option<Broadcast>,
    pub alltoall: Option<Exchange>,
    pub allreduce: Option<Reduce>,
    pub allgather: Option<Exchange>,
    pub reduce_scatter: Option<Reduce>,
    pub reduce: Option<ReduceTo>,
    pub scatter: Option<Rooted>,
    pub gather: Option<Rooted>,
    pub msg: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const fi_msg_collective,
            *mut fi_ioc,
            *mut *mut c_void,
            usize,
            u64,
        ) -> isize,
    >,
    pub barrier2: Option<unsafe extern "C" fn(*mut fid_ep, fi_addr_t, u64, *mut c_void) -> isize>,
}
