//! Types and operators, and what changes numbers of regions in one step.

use std::ffi::{c_int, c_void};

use weft::boundary::Row;
use weft::remote::{AtomicOp, Scalar};
use weft_sys::buf::Buf;

use crate::endpoint::{on, weft_endpoint};
use crate::error::{Failure, call, weft_status};
use crate::memory::{bytes, fills};
use crate::message::{start, weft_request};
use crate::region::{handle, weft_region_handle};

/// The type of a number, in the byte order of the machine.
pub type weft_scalar = c_int;

/// `int8_t`
pub const WEFT_I8: weft_scalar = 1;
/// `uint8_t`
pub const WEFT_U8: weft_scalar = 2;
/// `int16_t`
pub const WEFT_I16: weft_scalar = 3;
/// `uint16_t`
pub const WEFT_U16: weft_scalar = 4;
/// `int32_t`
pub const WEFT_I32: weft_scalar = 5;
/// `uint32_t`
pub const WEFT_U32: weft_scalar = 6;
/// `int64_t`
pub const WEFT_I64: weft_scalar = 7;
/// `uint64_t`
pub const WEFT_U64: weft_scalar = 8;
/// `__int128`
pub const WEFT_I128: weft_scalar = 9;
/// `unsigned __int128`
pub const WEFT_U128: weft_scalar = 10;
/// `float`
pub const WEFT_F32: weft_scalar = 11;
/// `double`
pub const WEFT_F64: weft_scalar = 12;

/// What is done with a number `t` of a region, an operand `a`, and for the last ones a comparand
/// `c`. Reductions take those up to `WEFT_BIT_XOR`, but no difference.
pub type weft_op = c_int;

/// The lesser of `t` and `a`.
pub const WEFT_MIN: weft_op = 1;
/// The greater.
pub const WEFT_MAX: weft_op = 2;
/// `t + a`; whole numbers wrap around.
pub const WEFT_SUM: weft_op = 3;
/// `t * a`; whole numbers wrap around.
pub const WEFT_PRODUCT: weft_op = 4;
/// `t - a`; whole numbers wrap around.
pub const WEFT_DIFFERENCE: weft_op = 5;
/// 1 if either is not zero, else 0.
pub const WEFT_LOGICAL_OR: weft_op = 6;
/// 1 if both are not zero, else 0.
pub const WEFT_LOGICAL_AND: weft_op = 7;
/// 1 if exactly one is not zero, else 0.
pub const WEFT_LOGICAL_XOR: weft_op = 8;
/// `t | a`, of whole numbers.
pub const WEFT_BIT_OR: weft_op = 9;
/// `t & a`, of whole numbers.
pub const WEFT_BIT_AND: weft_op = 10;
/// `t ^ a`, of whole numbers.
pub const WEFT_BIT_XOR: weft_op = 11;
/// `t`: nothing is changed; operands are not looked at, and may be null.
pub const WEFT_READ: weft_op = 12;
/// `a`
pub const WEFT_WRITE: weft_op = 13;
/// `a` if `c == t`
pub const WEFT_SWAP_IF_EQUAL: weft_op = 14;
/// `a` if `c != t`
pub const WEFT_SWAP_IF_NOT_EQUAL: weft_op = 15;
/// `a` if `c <= t`
pub const WEFT_SWAP_IF_LESS_OR_EQUAL: weft_op = 16;
/// `a` if `c < t`
pub const WEFT_SWAP_IF_LESS: weft_op = 17;
/// `a` if `c >= t`
pub const WEFT_SWAP_IF_GREATER_OR_EQUAL: weft_op = 18;
/// `a` if `c > t`
pub const WEFT_SWAP_IF_GREATER: weft_op = 19;
/// `a` in the bits that are set in `c`, `t` in the others.
pub const WEFT_SWAP_MASKED: weft_op = 20;

fn numbered<T: Copy>(all: &[T], number: c_int, what: &str) -> Result<T, Failure> {
    let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let found = at.and_then(|at| all.get(at)).copied();
    found.ok_or_else(|| {
        let most = all.len();
        Failure::argument(format!(
            "{number} is no {what}: they are 1 to {most}, with names in weft.h"
        ))
    })
}

pub(crate) fn scalar(number: weft_scalar) -> Result<Scalar, Failure> {
    // As with operators: those that C has come first on the wire.
    numbered(&Scalar::ALL[..WEFT_F64 as usize], number, "type of numbers")
}

pub(crate) fn operator(number: weft_op) -> Result<AtomicOp, Failure> {
    // In this crate their numbers are those of the wire, counted from 1.
    numbered(&AtomicOp::ALL, number, "operation")
}

/// Bytes of `count` numbers.
pub(crate) fn len_of(scalar: Scalar, count: usize) -> Result<usize, Failure> {
    scalar.size().checked_mul(count).ok_or_else(|| {
        Failure::argument(format!("{count} numbers of type {scalar:?}: no memory has as many"))
    })
}

/// A row of numbers of a region, as C names it.
struct Numbers {
    op: weft_op,
    scalar: weft_scalar,
    count: usize,
    comparands: Option<*const c_void>,
    operands: *const c_void,
    former: Option<*mut c_void>,
}

impl Numbers {
    /// Lets `f` have it as the library takes it.
    fn with<R>(self, f: impl FnOnce(Row<'_>) -> Result<R, Failure>) -> Result<R, Failure> {
        let (op, scalar) = (operator(self.op)?, scalar(self.scalar)?);
        let len = len_of(scalar, self.count)?;
        let zeros;
        let operands = if op == AtomicOp::Read {
            // More than the library takes at one time is refused by their number.
            zeros = vec![0; len.min(1 << 20)];
            &zeros
        } else {
            bytes(self.operands, len, "the row of operands")?
        };
        let comparands = match self.comparands {
            Some(comparands) => bytes(comparands, len, "the row of comparands")?,
            None => &[],
        };
        let into = |former| fills(former, len, "where the former numbers go");
        let former: Option<Buf> = self.former.map(into).transpose()?;
        f(Row { op, scalar, operands, comparands, former })
    }

    fn wait(
        self,
        endpoint: *mut weft_endpoint,
        at: *const weft_region_handle,
        offset: u64,
    ) -> weft_status {
        call(|| {
            let at = handle(at)?;
            self.with(|row| {
                on(endpoint, |endpoint| {
                    let request = endpoint.start_atomic(&at, offset, row)?;
                    Ok(endpoint.wait(request).map(drop)?)
                })
            })
        })
    }

    fn start(
        self,
        endpoint: *mut weft_endpoint,
        at: *const weft_region_handle,
        offset: u64,
        request: *mut weft_request,
    ) -> weft_status {
        start(endpoint, request, |endpoint| {
            let at = handle(at)?;
            self.with(|row| Ok(Some(endpoint.start_atomic(&at, offset, row)?)))
        })
    }
}

/// Adds the number at `number` to one of a region, at byte `offset`, in one step; what it was goes
/// to `former`.
///
/// Errors: as for `weft_fetch_and_op`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_fetch_add(
    endpoint: *mut weft_endpoint,
    at: *const weft_region_handle,
    offset: u64,
    scalar: weft_scalar,
    number: *const c_void,
    former: *mut c_void,
) -> weft_status {
    let (op, operands, former) = (WEFT_SUM, number, Some(former));
    Numbers { op, scalar, count: 1, comparands: None, operands, former }.wait(endpoint, at, offset)
}

/// Sets a number of a region to `desired` if it is `expected`, in one step; what it was goes to
/// `former`.
///
/// Errors: as for `weft_fetch_and_op`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_compare_swap(
    endpoint: *mut weft_endpoint,
    at: *const weft_region_handle,
    offset: u64,
    scalar: weft_scalar,
    expected: *const c_void,
    desired: *const c_void,
    former: *mut c_void,
) -> weft_status {
    let (op, comparands, operands) = (WEFT_SWAP_IF_EQUAL, Some(expected), desired);
    let former = Some(former);
    Numbers { op, scalar, count: 1, comparands, operands, former }.wait(endpoint, at, offset)
}

/// Changes a row of `count` numbers of a region, from byte `offset` on, each in one step with
/// respect to all such operations; what they were goes to `former`. `offset` is a multiple of a
/// number's size, and there are 512 of them at most.
///
/// Errors: as for `weft_put`; `WEFT_REGION` also for what is not aligned, too many, or no operation
/// for such numbers, or one that compares; `WEFT_BAD_ARGUMENT` for a type or operation that is
/// none.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_fetch_and_op(
    endpoint: *mut weft_endpoint,
    at: *const weft_region_handle,
    offset: u64,
    op: weft_op,
    scalar: weft_scalar,
    count: usize,
    operands: *const c_void,
    former: *mut c_void,
) -> weft_status {
    let (comparands, former) = (None, Some(former));
    Numbers { op, scalar, count, comparands, operands, former }.wait(endpoint, at, offset)
}

/// As `weft_fetch_and_op`, with a comparand for each number, for operations that compare.
///
/// Errors: as for `weft_fetch_and_op`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_compare_and_op(
    endpoint: *mut weft_endpoint,
    at: *const weft_region_handle,
    offset: u64,
    op: weft_op,
    scalar: weft_scalar,
    count: usize,
    comparands: *const c_void,
    operands: *const c_void,
    former: *mut c_void,
) -> weft_status {
    let (comparands, former) = (Some(comparands), Some(former));
    Numbers { op, scalar, count, comparands, operands, former }.wait(endpoint, at, offset)
}

/// As `weft_fetch_and_op`, without what the numbers were.
///
/// Errors: as for `weft_fetch_and_op`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_accumulate(
    endpoint: *mut weft_endpoint,
    at: *const weft_region_handle,
    offset: u64,
    op: weft_op,
    scalar: weft_scalar,
    count: usize,
    operands: *const c_void,
) -> weft_status {
    let (comparands, former) = (None, None);
    Numbers { op, scalar, count, comparands, operands, former }.wait(endpoint, at, offset)
}

/// Starts what `weft_fetch_and_op` does: the operands are copied, but nobody may touch `former`
/// until the request has ended.
///
/// Errors: as for `weft_fetch_and_op`; what the owner refuses is told by the request's end.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_ifetch_and_op(
    endpoint: *mut weft_endpoint,
    at: *const weft_region_handle,
    offset: u64,
    op: weft_op,
    scalar: weft_scalar,
    count: usize,
    operands: *const c_void,
    former: *mut c_void,
    request: *mut weft_request,
) -> weft_status {
    let (comparands, former) = (None, Some(former));
    Numbers { op, scalar, count, comparands, operands, former }.start(endpoint, at, offset, request)
}

/// Starts what `weft_compare_and_op` does: comparands and operands are copied, but nobody may touch
/// `former` until the request has ended.
///
/// Errors: as for `weft_ifetch_and_op`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_icompare_and_op(
    endpoint: *mut weft_endpoint,
    at: *const weft_region_handle,
    offset: u64,
    op: weft_op,
    scalar: weft_scalar,
    count: usize,
    comparands: *const c_void,
    operands: *const c_void,
    former: *mut c_void,
    request: *mut weft_request,
) -> weft_status {
    let (comparands, former) = (Some(comparands), Some(former));
    Numbers { op, scalar, count, comparands, operands, former }.start(endpoint, at, offset, request)
}

/// Starts what `weft_accumulate` does: the operands are copied.
///
/// Errors: as for `weft_ifetch_and_op`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_iaccumulate(
    endpoint: *mut weft_endpoint,
    at: *const weft_region_handle,
    offset: u64,
    op: weft_op,
    scalar: weft_scalar,
    count: usize,
    operands: *const c_void,
    request: *mut weft_request,
) -> weft_status {
    let (comparands, former) = (None, None);
    Numbers { op, scalar, count, comparands, operands, former }.start(endpoint, at, offset, request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_names() {
        assert_eq!(scalar(WEFT_I8).ok(), Some(Scalar::I8));
        assert_eq!(scalar(WEFT_F64).ok(), Some(Scalar::F64));
        for (number, op) in [
            (WEFT_MIN, AtomicOp::Min),
            (WEFT_DIFFERENCE, AtomicOp::Difference),
            (WEFT_BIT_XOR, AtomicOp::BitXor),
            (WEFT_SWAP_IF_EQUAL, AtomicOp::SwapIfEqual),
            (WEFT_SWAP_MASKED, AtomicOp::SwapMasked),
        ] {
            assert_eq!(operator(number).ok(), Some(op));
        }
        assert!([-1, 0, 13, c_int::MAX, c_int::MIN].into_iter().all(|n| scalar(n).is_err()));
        assert!([-1, 0, 21].into_iter().all(|n| operator(n).is_err()));
        assert!(len_of(Scalar::F64, usize::MAX).is_err());
    }
}
