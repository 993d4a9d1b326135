//! What the provider gives to `libweft-mpi.so`: functions over the endpoint that the process's MPI
//! library uses. Both libraries are built of this file, and are of one version.

use std::ffi::{c_char, c_int, c_void};

/// The layout below; a library that finds another one uses nothing.
pub const VERSION: u32 = 8;

/// Bytes of the address of a process.
pub const ADDRESS_LEN: usize = 64;

/// [`Table::wait`]: the operation has ended well.
pub const ENDED: c_int = 0;
/// It has not ended yet; the time is up.
pub const LATER: c_int = 1;
/// It has not ended yet; something has happened that the MPI library ought to be told.
pub const NEWS: c_int = 2;
/// It has ended well, and what others had sent before has come, of which the MPI library does not
/// know yet.
pub const ENDED_WITH_NEWS: c_int = 3;
/// It has failed, and so will all that follow: see [`Table::text`].
pub const FAILED: c_int = -1;

/// Types of elements that can be reduced, by number.
pub mod scalar {
    pub const I8: u32 = 0;
    pub const U8: u32 = 1;
    pub const I16: u32 = 2;
    pub const U16: u32 = 3;
    pub const I32: u32 = 4;
    pub const U32: u32 = 5;
    pub const I64: u32 = 6;
    pub const U64: u32 = 7;
    pub const F32: u32 = 8;
    pub const F64: u32 = 9;
}

/// What a reduction does with two elements, by number.
pub mod op {
    pub const MIN: u32 = 0;
    pub const MAX: u32 = 1;
    pub const SUM: u32 = 2;
    pub const PRODUCT: u32 = 3;
    pub const LOGICAL_OR: u32 = 4;
    pub const LOGICAL_AND: u32 = 5;
    pub const LOGICAL_XOR: u32 = 6;
    pub const BIT_OR: u32 = 7;
    pub const BIT_AND: u32 = 8;
    pub const BIT_XOR: u32 = 9;
}

/// What members do together by memory that they share, by number.
pub mod what {
    pub const BARRIER: u32 = 0;
    pub const BROADCAST: u32 = 1;
    pub const REDUCE: u32 = 2;
    pub const ALLREDUCE: u32 = 3;
    pub const ALLGATHER: u32 = 4;
    pub const ALLTOALL: u32 = 5;
}

/// What members do together: see [`Table::together`].
#[repr(C)]
pub struct Together {
    /// One of [`what`], and of [`op`] and [`scalar`] for reductions.
    pub what: u32,
    pub op: u32,
    pub scalar: u32,
    /// The member that has what all are to get, or that gets what all have.
    pub root: u32,
    /// What this member has; null: what lies where the result goes (in an allgather, at this
    /// member's place).
    pub from: *const u8,
    /// Where the result goes, as long as the operation says.
    pub into: *mut u8,
    /// Bytes that each member has, where it has any.
    pub len: usize,
}

/// The functions. A group is used by one thread at a time, and has one operation under way.
#[repr(C)]
pub struct Table {
    /// [`VERSION`].
    pub version: u32,
    /// Writes the process's address, of [`ADDRESS_LEN`] bytes; not 0 where it has none.
    pub address: unsafe extern "C" fn(into: *mut u8) -> c_int,
    /// A group of the processes at `count` addresses, of which this one is number `rank`. All give
    /// the same addresses and `id`. Null where that fails. It is closed by [`Table::close`].
    pub open:
        unsafe extern "C" fn(addresses: *const u8, count: u32, rank: u32, id: u64) -> *mut c_void,
    /// On how many nodes the members are.
    pub nodes: unsafe extern "C" fn(group: *mut c_void) -> u32,
    /// Enters a barrier; [`Table::wait`] follows. [`ENDED`] or [`FAILED`].
    pub barrier: unsafe extern "C" fn(group: *mut c_void) -> c_int,
    /// Begins to give `len` bytes of member `root` to all; [`Table::wait`] follows, until whose end
    /// the memory is not touched. [`ENDED`] or [`FAILED`].
    pub broadcast:
        unsafe extern "C" fn(group: *mut c_void, root: u32, data: *mut u8, len: usize) -> c_int,
    /// Begins to combine `count` elements of all members into those of all; [`Table::wait`]
    /// follows, until whose end the memory is not touched. [`ENDED`] or [`FAILED`].
    pub allreduce: unsafe extern "C" fn(
        group: *mut c_void,
        op: u32,
        scalar: u32,
        data: *mut u8,
        count: usize,
    ) -> c_int,
    /// The most bytes that each member may have for [`Table::together`]; 0: these members can do
    /// nothing so. Asked once, after the first barrier: then all members are answered alike.
    pub room: unsafe extern "C" fn(group: *mut c_void) -> usize,
    /// Does something together with the others by memory that all share, as far as it can be done
    /// at once. [`ENDED`], [`ENDED_WITH_NEWS`] or [`FAILED`]; [`LATER`]: [`Table::wait`] follows,
    /// until whose end the memory stays.
    pub together: unsafe extern "C" fn(group: *mut c_void, what: *const Together) -> c_int,
    /// Waits for the end of what was begun, for at most `timeout_ns`.
    pub wait: unsafe extern "C" fn(group: *mut c_void, timeout_ns: u64) -> c_int,
    /// Why the last operation has failed, for people; valid until the next call.
    pub text: unsafe extern "C" fn(group: *mut c_void) -> *const c_char,
    /// Leaves the group, once the others do not need this member any more.
    pub close: unsafe extern "C" fn(group: *mut c_void),
    /// Whether a caller that waits may keep its processor, for nobody else needs that, as far as
    /// the endpoint knows: 1 or 0.
    pub may_spin: unsafe extern "C" fn() -> c_int,
    /// The caller has done something by itself: what it asks the MPI library next is no wait.
    pub began: unsafe extern "C" fn(),
    /// Whether several threads may call at once, as long as nothing is said: 1 or 0. To be called
    /// while no other thread does.
    pub threads: unsafe extern "C" fn(meet: c_int),
    /// Whether who looks for a message from anyone right after a send may be told "nothing yet"
    /// from now on, as is so until something is said: 1 or 0.
    pub withholds: unsafe extern "C" fn(may: c_int),
}

/// The function of `libweft-mpi.so` that is given the table.
pub type Take = unsafe extern "C" fn(table: *const Table);
