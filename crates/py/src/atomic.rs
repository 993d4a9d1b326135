//! Changing numbers of regions, each in one step.

use pyo3::prelude::*;
use weft::boundary::Row;
use weft::remote::{AtomicOp as NativeOp, Scalar};
use weft_sys::buf::Buf;

use crate::endpoint::Endpoint;
use crate::error::Failure;
use crate::memory::{Memory, Use};
use crate::message::Status;
use crate::number::{AtomicOp, from_bytes, to_bytes, type_of};
use crate::region::RegionHandle;
use crate::request::Request;
use crate::wait::Limit;

/// A row of numbers as programs give it: arrays of the same type and length.
struct Numbers {
    op: NativeOp,
    scalar: Scalar,
    operands: Memory,
    comparands: Option<Memory>,
}

impl Numbers {
    /// A row, and the memory where what the numbers were is to go.
    fn of(
        op: AtomicOp,
        operands: &Bound<'_, PyAny>,
        comparands: Option<&Bound<'_, PyAny>>,
        into: Option<&Bound<'_, PyAny>>,
    ) -> Result<(Numbers, Option<Memory>), Failure> {
        let operands = Memory::of(operands, Use::Read)?;
        let comparands = comparands.map(|array| Memory::of(array, Use::Read)).transpose()?;
        let former = into.map(|array| Memory::of(array, Use::Fill)).transpose()?;
        let scalar = operands.scalar()?;
        for (name, other) in [("comparands", &comparands), ("into", &former)] {
            let Some(other) = other else { continue };
            if other.len() != operands.len() || other.scalar()? != scalar {
                return Err(Failure::Argument(format!(
                    "`{name}` must have as many numbers as `operands`, of the same type"
                )));
            }
        }
        Ok((Numbers { op: op.native(), scalar, operands, comparands }, former))
    }

    /// The same for the library, which copies it as the operation starts.
    fn row(&self, former: Option<&Memory>) -> Row<'_> {
        Row {
            op: self.op,
            scalar: self.scalar,
            operands: self.operands.bytes(),
            comparands: self.comparands.as_ref().map_or(&[], Memory::bytes),
            former: former.map(Memory::buf),
        }
    }
}

impl Endpoint {
    /// Does something to a row of numbers, and waits until it has been done.
    fn change(
        &self,
        py: Python<'_>,
        at: (&RegionHandle, u64),
        (numbers, former): (Numbers, Option<Memory>),
    ) -> Result<(), Failure> {
        let (handle, offset, row) = (at.0.native(), at.1, numbers.row(former.as_ref()));
        self.run(py, [former, None], Limit::NONE, move |endpoint| {
            Ok(Some(endpoint.start_atomic(&handle, offset, row)?))
        })
        .map(drop)
    }

    /// Starts to.
    fn start_change(
        slf: &Bound<'_, Self>,
        at: (&RegionHandle, u64),
        (numbers, former): (Numbers, Option<Memory>),
    ) -> Result<Request, Failure> {
        let (handle, offset, row) = (at.0.native(), at.1, numbers.row(former.as_ref()));
        Endpoint::start(slf, [former, None], Status::default(), move |endpoint| {
            Ok(Some(endpoint.start_atomic(&handle, offset, row)?))
        })
    }

    /// Does something to one number, and gives what it was.
    fn change_one(
        &self,
        py: Python<'_>,
        at: (&RegionHandle, u64),
        row: Row<'_>,
    ) -> Result<Py<PyAny>, Failure> {
        let (handle, offset, scalar) = (at.0.native(), at.1, row.scalar);
        let former = Some(Buf::from_vec(vec![0; row.operands.len()]));
        let ended = self.run(py, [None, None], Limit::NONE, move |endpoint| {
            Ok(Some(endpoint.start_atomic(&handle, offset, Row { former, ..row })?))
        })?;
        let bytes = ended.map(|completion| completion.buffer).unwrap_or_default();
        from_bytes(py, &bytes, scalar)
    }
}

#[pymethods]
impl Endpoint {
    /// Adds to a number of a region in one step, and gives what it was. `dtype` names its type
    /// (`"int64"`, which ints have by default; `"float64"`, which floats have; ...); it lies at a
    /// multiple of its size. Whole numbers wrap around. Raises as `put`.
    #[pyo3(signature = (at, offset, number, dtype=None))]
    fn fetch_add(
        &self,
        py: Python<'_>,
        at: &RegionHandle,
        offset: u64,
        number: &Bound<'_, PyAny>,
        dtype: Option<&str>,
    ) -> Result<Py<PyAny>, Failure> {
        let scalar = type_of(dtype, number)?;
        let operands = &to_bytes(number, scalar)?;
        let row = Row { op: NativeOp::Sum, scalar, operands, comparands: &[], former: None };
        self.change_one(py, (at, offset), row)
    }

    /// Sets a number of a region to `new` if it is `expected`, in one step; gives what it was.
    /// `dtype` as for `fetch_add`. Raises as `put`.
    #[pyo3(signature = (at, offset, expected, new, dtype=None))]
    fn compare_swap(
        &self,
        py: Python<'_>,
        at: &RegionHandle,
        offset: u64,
        expected: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
        dtype: Option<&str>,
    ) -> Result<Py<PyAny>, Failure> {
        let scalar = type_of(dtype, new)?;
        let (operands, comparands) = (&to_bytes(new, scalar)?, &to_bytes(expected, scalar)?);
        let row = Row { op: NativeOp::SwapIfEqual, scalar, operands, comparands, former: None };
        self.change_one(py, (at, offset), row)
    }

    /// Changes a row of numbers of a region by `op` and an array of operands, 512 at most, each in
    /// one step; waits until it has been done. The first is at byte `offset`, a multiple of a
    /// number's size. Raises as `put`.
    fn accumulate(
        &self,
        py: Python<'_>,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        operands: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        self.change(py, (at, offset), Numbers::of(op, operands, None, None)?)
    }

    /// As `accumulate`, and puts what the numbers were into `into`, an array like `operands`.
    fn fetch_and_op(
        &self,
        py: Python<'_>,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        operands: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        self.change(py, (at, offset), Numbers::of(op, operands, None, Some(into))?)
    }

    /// As `fetch_and_op`, for operations that compare (`AtomicOp.SwapIfLess` and its like):
    /// `comparands` is an array like `operands`, a comparand for each number.
    #[pyo3(signature = (at, offset, op, comparands, operands, into))]
    #[allow(clippy::too_many_arguments, reason = "they are the library's, and the array to fill")]
    fn compare_and_op(
        &self,
        py: Python<'_>,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        comparands: &Bound<'_, PyAny>,
        operands: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        let numbers = Numbers::of(op, operands, Some(comparands), Some(into))?;
        self.change(py, (at, offset), numbers)
    }

    /// Starts what `accumulate` does. The operands are copied.
    fn iaccumulate(
        slf: &Bound<'_, Self>,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        operands: &Bound<'_, PyAny>,
    ) -> Result<Request, Failure> {
        Endpoint::start_change(slf, (at, offset), Numbers::of(op, operands, None, None)?)
    }

    /// Starts what `fetch_and_op` does: `into` is filled when the request has ended. The operands
    /// are copied.
    fn ifetch_and_op(
        slf: &Bound<'_, Self>,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        operands: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
    ) -> Result<Request, Failure> {
        Endpoint::start_change(slf, (at, offset), Numbers::of(op, operands, None, Some(into))?)
    }

    /// Starts what `compare_and_op` does: `into` is filled when the request has ended. Operands and
    /// comparands are copied.
    fn icompare_and_op(
        slf: &Bound<'_, Self>,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        comparands: &Bound<'_, PyAny>,
        operands: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
    ) -> Result<Request, Failure> {
        let numbers = Numbers::of(op, operands, Some(comparands), Some(into))?;
        Endpoint::start_change(slf, (at, offset), numbers)
    }
}
