//! The table of functions for atomic operations on peers' memory.

use std::ffi::{c_int, c_void};

use weft::boundary::Atomic;
use weft::remote::{AtomicOp, ELEMENTS_MAX, Scalar, Spot};
use weft_sys::buf::Buf;

use super::Ep;
use super::mark::Kind;
use super::rma::{Transfer, plain, silent};
use crate::abi::*;
use crate::fail::{Fail, call, post};
use crate::info::{ATOMIC_MAX, IOV_MAX};
use crate::mr::slice;
use crate::object::of;

pub static OPS: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    readwrite: Some(readwrite),
    readwritev: Some(readwritev),
    readwritemsg: Some(readwritemsg),
    compwrite: Some(compwrite),
    compwritev: Some(compwritev),
    compwritemsg: Some(compwritemsg),
    writevalid: Some(writevalid),
    readwritevalid: Some(readwritevalid),
    compwritevalid: Some(compwritevalid),
};

/// What libfabric's three kinds of calls are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Change,
    Fetch,
    Compare,
}

/// A type of elements, as Weft knows it.
pub fn scalar(datatype: fi_datatype) -> Option<Scalar> {
    Some(match datatype {
        FI_INT8 => Scalar::I8,
        FI_UINT8 => Scalar::U8,
        FI_INT16 => Scalar::I16,
        FI_UINT16 => Scalar::U16,
        FI_INT32 => Scalar::I32,
        FI_UINT32 => Scalar::U32,
        FI_INT64 => Scalar::I64,
        FI_UINT64 => Scalar::U64,
        FI_INT128 => Scalar::I128,
        FI_UINT128 => Scalar::U128,
        FI_FLOAT => Scalar::F32,
        FI_DOUBLE => Scalar::F64,
        FI_FLOAT_COMPLEX => Scalar::ComplexF32,
        FI_DOUBLE_COMPLEX => Scalar::ComplexF64,
        FI_LONG_DOUBLE => Scalar::Opaque16,
        FI_LONG_DOUBLE_COMPLEX => Scalar::Opaque32,
        _ => return None,
    })
}

/// An operation, as Weft knows it.
pub fn operation(op: fi_op) -> Option<AtomicOp> {
    Some(match op {
        FI_MIN => AtomicOp::Min,
        FI_MAX => AtomicOp::Max,
        FI_SUM => AtomicOp::Sum,
        FI_PROD => AtomicOp::Product,
        FI_LOR => AtomicOp::LogicalOr,
        FI_LAND => AtomicOp::LogicalAnd,
        FI_BOR => AtomicOp::BitOr,
        FI_BAND => AtomicOp::BitAnd,
        FI_LXOR => AtomicOp::LogicalXor,
        FI_BXOR => AtomicOp::BitXor,
        FI_ATOMIC_READ => AtomicOp::Read,
        FI_ATOMIC_WRITE => AtomicOp::Write,
        FI_CSWAP => AtomicOp::SwapIfEqual,
        FI_CSWAP_NE => AtomicOp::SwapIfNotEqual,
        FI_CSWAP_LE => AtomicOp::SwapIfLessOrEqual,
        FI_CSWAP_LT => AtomicOp::SwapIfLess,
        FI_CSWAP_GE => AtomicOp::SwapIfGreaterOrEqual,
        FI_CSWAP_GT => AtomicOp::SwapIfGreater,
        FI_MSWAP => AtomicOp::SwapMasked,
        FI_DIFF => AtomicOp::Difference,
        _ => return None,
    })
}

/// The operation, if it can be done with this type by this kind of call.
fn valid(datatype: fi_datatype, op: fi_op, call: Call) -> Result<(Scalar, AtomicOp), Fail> {
    let none = Fail::NOT_SUPPORTED;
    let (scalar, op) = (scalar(datatype).ok_or(none)?, operation(op).ok_or(none)?);
    let fits = match call {
        Call::Change => !op.compares() && op != AtomicOp::Read,
        Call::Fetch => !op.compares(),
        Call::Compare => op.compares(),
    };
    if fits && op.takes(scalar) { Ok((scalar, op)) } else { Err(none) }
}

/// Elements of one operation at most.
fn most(scalar: Scalar) -> usize {
    (ATOMIC_MAX / scalar.size()).min(ELEMENTS_MAX)
}

/// `fi_query_atomic`.
pub unsafe extern "C" fn query_atomic(
    _: *mut fid_domain,
    datatype: fi_datatype,
    op: fi_op,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    call(|| {
        let kind = match flags {
            0 => Call::Change,
            FI_FETCH_ATOMIC => Call::Fetch,
            FI_COMPARE_ATOMIC => Call::Compare,
            _ => return Err(Fail::BAD_FLAGS),
        };
        let (scalar, _) = valid(datatype, op, kind)?;
        // SAFETY: the caller wants the answer there.
        let attr = unsafe { attr.as_mut() }.ok_or(Fail::INVAL)?;
        *attr = fi_atomic_attr { count: most(scalar), size: scalar.size() };
        Ok(())
    })
}

/// What a call asks for.
struct Request<'a> {
    datatype: fi_datatype,
    op: fi_op,
    call: Call,
    operands: &'a [fi_ioc],
    comparands: &'a [fi_ioc],
    results: &'a [fi_ioc],
    target: &'a [fi_rma_ioc],
    data: Option<u64>,
}

/// Elements of the application, as bytes.
fn elements(iocs: &[fi_ioc], scalar: Scalar) -> Result<Buf, Fail> {
    if iocs.len() > IOV_MAX || iocs.iter().any(|ioc| ioc.count > ELEMENTS_MAX) {
        return Err(Fail::INVAL);
    }
    let pieces = iocs.iter().map(|ioc| (ioc.addr.cast(), ioc.count * scalar.size()));
    // SAFETY: the application keeps its memory valid until the operation has ended.
    Ok(unsafe { Buf::from_pieces(pieces) })
}

impl Ep {
    fn atomic(&self, transfer: &Transfer, request: &Request<'_>) -> Result<(), Fail> {
        let (scalar, op) = valid(request.datatype, request.op, request.call)?;
        let size = scalar.size();
        let operands =
            if op == AtomicOp::Read { Buf::empty() } else { elements(request.operands, scalar)? };
        let comparands = elements(request.comparands, scalar)?;
        let results = elements(request.results, scalar)?;
        let total: usize =
            request.target.iter().map(|ioc| ioc.count).fold(0, usize::saturating_add);
        let bytes = total.checked_mul(size).ok_or(Fail::INVAL)?;
        let each_has = |buf: &Buf, wanted: bool| !wanted || buf.len() == bytes;
        let whole = each_has(&operands, op != AtomicOp::Read)
            && each_has(&comparands, op.compares())
            && each_has(&results, request.call != Call::Change);
        if !whole || total > most(scalar) || request.target.len() > IOV_MAX || total == 0 {
            return Err(Fail::INVAL);
        }
        let kind = if request.call == Call::Change { Kind::Atomic } else { Kind::FetchAtomic };
        let (parts, mut offset) = (request.target.len(), 0);
        self.transfer(transfer, kind, parts, |turn, peer, at, part| {
            let ioc = &request.target[at];
            let len = ioc.count * size;
            let atomic = Atomic {
                op,
                scalar,
                count: ioc.count,
                operands: &operands.range(offset, len),
                comparands: &comparands.range(offset, len),
                fetch: (request.call != Call::Change).then(|| results.range(offset, len)),
            };
            offset += len;
            let along = part.along(request.data.filter(|_| at + 1 == parts));
            let spot = Spot { key: ioc.key, addr: ioc.addr };
            turn.atomic(peer, atomic, spot, along, Some(part.cookie))
        })
    }
}

fn one(addr: *const c_void, count: usize) -> [fi_ioc; 1] {
    [fi_ioc { addr: addr.cast_mut(), count }]
}

fn at(addr: u64, count: usize, key: u64) -> [fi_rma_ioc; 1] {
    [fi_rma_ioc { addr, count, key }]
}

fn total(iocs: &[fi_ioc]) -> usize {
    iocs.iter().map(|ioc| ioc.count).fold(0, usize::saturating_add)
}

// SAFETY of this table's functions: an application passes an enabled endpoint that stays open, and
// memory that stays valid until the operation's end is told (or, for `inject`, until the return).

unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let (iov, mut desc) = (one(buf, count), desc);
    // SAFETY: see above.
    unsafe { writev(ep, iov.as_ptr(), &mut desc, 1, dest, addr, key, datatype, op, context) }
}

unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, operands) = unsafe { (of::<Ep, _>(ep), slice(iov, count)) };
    let target = at(addr, total(operands), key);
    let request = Request {
        datatype,
        op,
        call: Call::Change,
        operands,
        comparands: &[],
        results: &[],
        target: &target,
        data: None,
    };
    post(|| ep.atomic(&plain(ep, dest, context), &request))
}

/// What the three calls that take a whole message have in common.
///
/// # Safety
/// The message is whole, and its memory stays valid until the operation has ended.
unsafe fn message(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    (call, comparands, results): (Call, &[fi_ioc], &[fi_ioc]),
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    let (ep, msg) = unsafe { (of::<Ep, _>(ep), &*msg) };
    // SAFETY: as above.
    let (operands, target) =
        unsafe { (slice(msg.msg_iov, msg.iov_count), slice(msg.rma_iov, msg.rma_iov_count)) };
    let request = Request {
        datatype: msg.datatype,
        op: msg.op,
        call,
        operands,
        comparands,
        results,
        target,
        data: (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data),
    };
    let transfer = Transfer { number: msg.addr, context: msg.context, flags, silent: false };
    post(|| ep.atomic(&transfer, &request))
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize {
    // SAFETY: see above.
    unsafe { message(ep, msg, (Call::Change, &[], &[]), flags) }
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
) -> isize {
    // SAFETY: see above.
    let ep = unsafe { of::<Ep, _>(ep) };
    let request = Request {
        datatype,
        op,
        call: Call::Change,
        operands: &one(buf, count),
        comparands: &[],
        results: &[],
        target: &at(addr, count, key),
        data: None,
    };
    post(|| ep.atomic(&silent(dest), &request))
}

unsafe extern "C" fn readwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let (iov, mut desc) = (one(buf, count), desc);
    let (mut results, mut result_desc) = (one(result, count), result_desc);
    // SAFETY: see above.
    unsafe {
        readwritev(
            ep,
            iov.as_ptr(),
            &mut desc,
            1,
            results.as_mut_ptr(),
            &mut result_desc,
            1,
            dest,
            addr,
            key,
            datatype,
            op,
            context,
        )
    }
}

unsafe extern "C" fn readwritev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    results: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, operands) = unsafe { (of::<Ep, _>(ep), slice(iov, count)) };
    // SAFETY: see above.
    let results = unsafe { slice(results.cast_const(), result_count) };
    let request = Request {
        datatype,
        op,
        call: Call::Fetch,
        operands,
        comparands: &[],
        results,
        // There are no operands to count for a read.
        target: &at(addr, total(results), key),
        data: None,
    };
    post(|| ep.atomic(&plain(ep, dest, context), &request))
}

unsafe extern "C" fn readwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    results: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: see above.
    unsafe {
        let results = slice(results.cast_const(), result_count);
        message(ep, msg, (Call::Fetch, &[], results), flags)
    }
}

unsafe extern "C" fn compwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let ep = unsafe { of::<Ep, _>(ep) };
    let request = Request {
        datatype,
        op,
        call: Call::Compare,
        operands: &one(buf, count),
        comparands: &one(compare, count),
        results: &one(result, count),
        target: &at(addr, count, key),
        data: None,
    };
    post(|| ep.atomic(&plain(ep, dest, context), &request))
}

unsafe extern "C" fn compwritev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    compare: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    results: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, operands) = unsafe { (of::<Ep, _>(ep), slice(iov, count)) };
    // SAFETY: see above.
    let (comparands, results) =
        unsafe { (slice(compare, compare_count), slice(results.cast_const(), result_count)) };
    let request = Request {
        datatype,
        op,
        call: Call::Compare,
        operands,
        comparands,
        results,
        target: &at(addr, total(operands), key),
        data: None,
    };
    post(|| ep.atomic(&plain(ep, dest, context), &request))
}

unsafe extern "C" fn compwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    compare: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    results: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: see above.
    unsafe {
        let compare = slice(compare, compare_count);
        let results = slice(results.cast_const(), result_count);
        message(ep, msg, (Call::Compare, compare, results), flags)
    }
}

/// Answers whether an operation is there, and for how many elements.
unsafe fn is_valid(datatype: fi_datatype, op: fi_op, kind: Call, count: *mut usize) -> c_int {
    call(|| {
        let (scalar, _) = valid(datatype, op, kind)?;
        // SAFETY: the caller wants the answer there, or nowhere.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = most(scalar);
        }
        Ok(())
    })
}

unsafe extern "C" fn writevalid(
    _: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: see above.
    unsafe { is_valid(datatype, op, Call::Change, count) }
}

unsafe extern "C" fn readwritevalid(
    _: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: see above.
    unsafe { is_valid(datatype, op, Call::Fetch, count) }
}

unsafe extern "C" fn compwritevalid(
    _: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: see above.
    unsafe { is_valid(datatype, op, Call::Compare, count) }
}
