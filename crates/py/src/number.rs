//! Numbers of regions, and what is done with them.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyFloat;
use weft::remote::{AtomicOp as NativeOp, Scalar};

use crate::error::Failure;

/// What is done with two numbers: by reductions (up to `BitXor`), and to the numbers of a region.
#[pyclass(frozen, eq, hash, from_py_object, module = "weft")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "they are the library's")]
pub enum AtomicOp {
    Min,
    Max,
    Sum,
    Product,
    LogicalOr,
    LogicalAnd,
    LogicalXor,
    BitOr,
    BitAnd,
    BitXor,
    Difference,
    Read,
    Write,
    SwapIfEqual,
    SwapIfNotEqual,
    SwapIfLessOrEqual,
    SwapIfLess,
    SwapIfGreaterOrEqual,
    SwapIfGreater,
    SwapMasked,
}

impl AtomicOp {
    /// The library's.
    pub fn native(self) -> NativeOp {
        match self {
            AtomicOp::Min => NativeOp::Min,
            AtomicOp::Max => NativeOp::Max,
            AtomicOp::Sum => NativeOp::Sum,
            AtomicOp::Product => NativeOp::Product,
            AtomicOp::LogicalOr => NativeOp::LogicalOr,
            AtomicOp::LogicalAnd => NativeOp::LogicalAnd,
            AtomicOp::LogicalXor => NativeOp::LogicalXor,
            AtomicOp::BitOr => NativeOp::BitOr,
            AtomicOp::BitAnd => NativeOp::BitAnd,
            AtomicOp::BitXor => NativeOp::BitXor,
            AtomicOp::Difference => NativeOp::Difference,
            AtomicOp::Read => NativeOp::Read,
            AtomicOp::Write => NativeOp::Write,
            AtomicOp::SwapIfEqual => NativeOp::SwapIfEqual,
            AtomicOp::SwapIfNotEqual => NativeOp::SwapIfNotEqual,
            AtomicOp::SwapIfLessOrEqual => NativeOp::SwapIfLessOrEqual,
            AtomicOp::SwapIfLess => NativeOp::SwapIfLess,
            AtomicOp::SwapIfGreaterOrEqual => NativeOp::SwapIfGreaterOrEqual,
            AtomicOp::SwapIfGreater => NativeOp::SwapIfGreater,
            AtomicOp::SwapMasked => NativeOp::SwapMasked,
        }
    }
}

/// A type of numbers by its name: `i8` to `u64`, `f32`, `f64`. Without one, that of `number`: `f64`
/// for a float, otherwise `i64`.
pub fn type_of(name: Option<&str>, number: &Bound<'_, PyAny>) -> Result<Scalar, Failure> {
    let Some(name) = name else {
        return Ok(if number.is_instance_of::<PyFloat>() { Scalar::F64 } else { Scalar::I64 });
    };
    let scalar = match name {
        "i8" | "int8" => Scalar::I8,
        "u8" | "uint8" => Scalar::U8,
        "i16" | "int16" => Scalar::I16,
        "u16" | "uint16" => Scalar::U16,
        "i32" | "int32" => Scalar::I32,
        "u32" | "uint32" => Scalar::U32,
        "i64" | "int64" => Scalar::I64,
        "u64" | "uint64" => Scalar::U64,
        "f32" | "float32" => Scalar::F32,
        "f64" | "float64" => Scalar::F64,
        _ => {
            return Err(Failure::Argument(format!(
                "there is no type {name:?} of numbers: there are int8 to int64, uint8 to uint64, \
                 float32 and float64"
            )));
        }
    };
    Ok(scalar)
}

/// The bytes of a number.
pub fn to_bytes(number: &Bound<'_, PyAny>, scalar: Scalar) -> Result<Vec<u8>, Failure> {
    macro_rules! bytes_as {
        ($type:ty) => {
            number.extract::<$type>().map(|number| number.to_ne_bytes().to_vec())
        };
    }
    let bytes = match scalar {
        Scalar::I8 => bytes_as!(i8),
        Scalar::U8 => bytes_as!(u8),
        Scalar::I16 => bytes_as!(i16),
        Scalar::U16 => bytes_as!(u16),
        Scalar::I32 => bytes_as!(i32),
        Scalar::U32 => bytes_as!(u32),
        Scalar::I64 => bytes_as!(i64),
        Scalar::U64 => bytes_as!(u64),
        Scalar::F32 => bytes_as!(f32),
        _ => bytes_as!(f64),
    };
    bytes.map_err(|_| {
        let name = format!("{scalar:?}").to_lowercase();
        Failure::Argument(format!("{number} is no number of type {name}: name another `dtype`"))
    })
}

/// The number that bytes are.
pub fn from_bytes(py: Python<'_>, bytes: &[u8], scalar: Scalar) -> Result<Py<PyAny>, Failure> {
    macro_rules! number_of {
        ($type:ty) => {
            weft::region::elements::<$type>(bytes)[0].into_py_any(py)
        };
    }
    let number = match scalar {
        Scalar::I8 => number_of!(i8),
        Scalar::U8 => number_of!(u8),
        Scalar::I16 => number_of!(i16),
        Scalar::U16 => number_of!(u16),
        Scalar::I32 => number_of!(i32),
        Scalar::U32 => number_of!(u32),
        Scalar::I64 => number_of!(i64),
        Scalar::U64 => number_of!(u64),
        Scalar::F32 => number_of!(f32),
        _ => number_of!(f64),
    };
    Ok(number?)
}
