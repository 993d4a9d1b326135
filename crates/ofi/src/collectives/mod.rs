//! Collective operations on the endpoint that the process's MPI library uses, for `libweft-mpi.so`:
//! it replaces MPI's functions by Weft's groups. So both share sockets, rings and connections, and
//! whoever waits in a collective operation keeps the MPI library's messages going.

mod party;
pub mod table;

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use weft::boundary::SharedOp;
use weft::collective::Operator;
use weft::remote::{AtomicOp, Scalar};
use weft_sys::buf::Buf;

use crate::abi::FI_TAGGED;
use crate::core::{Level, Part, log};
use crate::ep::{Live, withhold};
use crate::fail::guard;
use crate::gate::of_mpi_meet;
use party::Party;
use table::{ADDRESS_LEN, ENDED, FAILED, Table, Take, Together, VERSION};

const _: () = assert!(ADDRESS_LEN == weft_wire::ADDRESS_LEN);

static TABLE: Table = Table {
    version: VERSION,
    address,
    open,
    nodes,
    barrier,
    broadcast,
    allreduce,
    room,
    together,
    wait,
    text,
    close,
    may_spin,
    began,
    threads,
    withholds,
};

/// The endpoints of the process that are in use, and what they were opened for.
static ENDPOINTS: Mutex<Vec<(Weak<Live>, u64)>> = Mutex::new(Vec::new());

/// Whether `libweft-mpi.so` has the table.
static OFFERED: AtomicBool = AtomicBool::new(false);

/// Whether threads of the application may come by `libweft-mpi.so` as well.
pub fn are_offered() -> bool {
    OFFERED.load(Ordering::Relaxed)
}

/// Gives the table to `libweft-mpi.so` if the process has it. To be called by what libfabric calls
/// of the provider that it uses only: it loads all that it finds, and drops a second one of the
/// same name, whose table would lead to no endpoint.
pub fn offer() {
    // SAFETY: the name ends in a zero byte.
    let take = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"weft_mpi_take".as_ptr()) };
    if take.is_null() {
        return;
    }
    OFFERED.store(true, Ordering::Relaxed);
    // SAFETY: the function of that name is Weft's own, and has this type; the table is static.
    unsafe { std::mem::transmute::<*mut c_void, Take>(take)(&raw const TABLE) };
}

/// An endpoint with these capabilities has become usable.
pub fn joined(live: &Arc<Live>, caps: u64) {
    let mut all = ENDPOINTS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(other, _)| other.strong_count() > 0);
    all.push((Arc::downgrade(live), caps));
}

/// The endpoint by which messages go: the first for tagged ones, if there is one.
fn chosen() -> Option<Arc<Live>> {
    let all = ENDPOINTS.lock().unwrap_or_else(PoisonError::into_inner);
    let tagged = all.iter().filter(|(_, caps)| caps & FI_TAGGED != 0);
    tagged.chain(all.iter()).find_map(|(live, _)| live.upgrade())
}

unsafe extern "C" fn address(into: *mut u8) -> c_int {
    let write = || {
        let Some(bytes) = chosen().and_then(|live| live.endpoint.address()) else { return FAILED };
        // SAFETY: the caller has room for an address.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), into, ADDRESS_LEN) };
        ENDED
    };
    guard(write, FAILED)
}

unsafe extern "C" fn open(addresses: *const u8, count: u32, rank: u32, id: u64) -> *mut c_void {
    let open = || {
        // SAFETY: the caller has so many addresses there.
        let all = unsafe { std::slice::from_raw_parts(addresses.cast(), count as usize) };
        match Party::open(all, rank, id) {
            Ok(party) => Box::into_raw(Box::new(party)).cast(),
            Err(error) => {
                log(Level::Warn, Part::EpCtrl, format_args!("no group for MPI: {error}"));
                ptr::null_mut()
            }
        }
    };
    guard(open, ptr::null_mut())
}

/// The group behind a pointer.
///
/// # Safety
/// It came from [`open`], was not closed, and no other thread uses it now.
unsafe fn party<'a>(group: *mut c_void) -> &'a mut Party {
    // SAFETY: the caller's promise.
    unsafe { &mut *group.cast::<Party>() }
}

unsafe extern "C" fn nodes(group: *mut c_void) -> u32 {
    // SAFETY: an open group.
    unsafe { party(group) }.nodes()
}

unsafe extern "C" fn barrier(group: *mut c_void) -> c_int {
    // SAFETY: an open group.
    let party = unsafe { party(group) };
    guard(|| party.barrier(), FAILED)
}

unsafe extern "C" fn broadcast(group: *mut c_void, root: u32, data: *mut u8, len: usize) -> c_int {
    // SAFETY: an open group.
    let party = unsafe { party(group) };
    // SAFETY: the caller leaves the memory alone until the operation has ended.
    guard(|| party.broadcast(root, unsafe { Buf::from_raw(data, len) }), FAILED)
}

fn scalar_of(number: u32) -> Option<Scalar> {
    use table::scalar;
    Some(match number {
        scalar::I8 => Scalar::I8,
        scalar::U8 => Scalar::U8,
        scalar::I16 => Scalar::I16,
        scalar::U16 => Scalar::U16,
        scalar::I32 => Scalar::I32,
        scalar::U32 => Scalar::U32,
        scalar::I64 => Scalar::I64,
        scalar::U64 => Scalar::U64,
        scalar::F32 => Scalar::F32,
        scalar::F64 => Scalar::F64,
        _ => return None,
    })
}

fn op_of(number: u32) -> Option<AtomicOp> {
    use table::op;
    Some(match number {
        op::MIN => AtomicOp::Min,
        op::MAX => AtomicOp::Max,
        op::SUM => AtomicOp::Sum,
        op::PRODUCT => AtomicOp::Product,
        op::LOGICAL_OR => AtomicOp::LogicalOr,
        op::LOGICAL_AND => AtomicOp::LogicalAnd,
        op::LOGICAL_XOR => AtomicOp::LogicalXor,
        op::BIT_OR => AtomicOp::BitOr,
        op::BIT_AND => AtomicOp::BitAnd,
        op::BIT_XOR => AtomicOp::BitXor,
        _ => return None,
    })
}

fn operator_of(op: u32, scalar: u32) -> Option<Operator> {
    Operator::new(op_of(op)?, scalar_of(scalar)?).ok()
}

fn shared_op_of(together: &Together) -> Option<SharedOp> {
    use table::what;
    let &Together { what, op, scalar, root, .. } = together;
    Some(match what {
        what::BARRIER => SharedOp::Barrier,
        what::BROADCAST => SharedOp::Broadcast { root },
        what::REDUCE => SharedOp::Reduce { root, operator: operator_of(op, scalar)? },
        what::ALLREDUCE => SharedOp::Allreduce { operator: operator_of(op, scalar)? },
        what::ALLGATHER => SharedOp::Allgather,
        what::ALLTOALL => SharedOp::Alltoall,
        _ => return None,
    })
}

unsafe extern "C" fn room(group: *mut c_void) -> usize {
    // SAFETY: an open group.
    let party = unsafe { party(group) };
    guard(|| party.room(), 0)
}

unsafe extern "C" fn together(group: *mut c_void, what: *const Together) -> c_int {
    // SAFETY: an open group, and what the caller has filled in.
    let (party, what) = unsafe { (party(group), &*what) };
    let begin = || match shared_op_of(what) {
        // SAFETY: the caller's memory is as long as the operation says, and stays.
        Some(op) => unsafe { party.together(op, what) },
        None => FAILED,
    };
    guard(begin, FAILED)
}

unsafe extern "C" fn allreduce(
    group: *mut c_void,
    op: u32,
    scalar: u32,
    data: *mut u8,
    count: usize,
) -> c_int {
    // SAFETY: an open group.
    let party = unsafe { party(group) };
    let begin = || {
        let Some(operator) = operator_of(op, scalar) else { return FAILED };
        // SAFETY: the caller leaves the memory alone until the operation has ended.
        let buf = unsafe { Buf::from_raw(data, count * operator.unit()) };
        party.allreduce(operator, count, buf)
    };
    guard(begin, FAILED)
}

unsafe extern "C" fn wait(group: *mut c_void, timeout_ns: u64) -> c_int {
    // SAFETY: an open group.
    let party = unsafe { party(group) };
    guard(|| party.wait(timeout_ns), FAILED)
}

unsafe extern "C" fn text(group: *mut c_void) -> *const c_char {
    // SAFETY: an open group.
    unsafe { party(group) }.text.as_ptr()
}

unsafe extern "C" fn may_spin() -> c_int {
    guard(|| c_int::from(chosen().is_some_and(|live| live.endpoint.may_spin())), 0)
}

unsafe extern "C" fn began() {
    let tell = || {
        if let Some(live) = chosen()
            && let Ok(bound) = live.bound()
        {
            bound.began();
        }
    };
    guard(tell, ());
}

unsafe extern "C" fn threads(meet: c_int) {
    of_mpi_meet(meet != 0);
}

unsafe extern "C" fn withholds(may: c_int) {
    withhold(may != 0);
}

unsafe extern "C" fn close(group: *mut c_void) {
    let close = || {
        // SAFETY: an open group, which the caller uses no more.
        let party = unsafe { Box::from_raw(group.cast::<Party>()) };
        party.close();
    };
    guard(close, ());
}
