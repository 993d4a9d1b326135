//! Tensors of other libraries, by DLPack (its structures: dmlc/dlpack, `dlpack.h`). The capsule
//! that an object gives is kept, and with it the memory: whoever made it frees it with the capsule.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weft::remote::Scalar;

use crate::error::Failure;

const CPU: i32 = 1;
/// Memory of the host that a card's driver has made, which is the CPU's as well: CUDA's, ROCm's.
const HOST: [i32; 3] = [CPU, 3, 11];
const READ_ONLY: u64 = 1;
const NAME: &CStr = c"dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Raw {
    data: *mut c_void,
    device: [i32; 2],
    ndim: i32,
    dtype: DataType,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct RawVersioned {
    version: [u32; 2],
    manager: *mut c_void,
    deleter: *mut c_void,
    flags: u64,
    tensor: Raw,
}

/// A tensor on the CPU.
pub struct Tensor {
    raw: NonNull<Raw>,
    flags: u64,
    _capsule: Py<PyAny>,
}

/// Where its elements are.
pub struct Parts {
    pub ptr: *mut u8,
    pub len: usize,
    pub unit: usize,
    pub scalar: Option<Scalar>,
    pub is_read_only: bool,
    pub is_contiguous: bool,
}

impl Tensor {
    /// The tensor that an object is, if it is one.
    ///
    /// # Errors
    /// [`Failure::Argument`] if it is on a device; what the object raises.
    pub fn of(object: &Bound<'_, PyAny>) -> Result<Option<Tensor>, Failure> {
        if !object.hasattr("__dlpack__")? {
            return Ok(None);
        }
        let (device, _): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
        if !HOST.contains(&device) {
            let why = "the tensor's memory is on a device, where it cannot be sent from: give a \
                       copy in the CPU's memory, such as `tensor.cpu()`";
            return Err(Failure::argument(why));
        }
        let wanted = PyDict::new(object.py());
        wanted.set_item("max_version", (1, 0))?;
        let capsule = match object.call_method("__dlpack__", (), Some(&wanted)) {
            // Older ones know of no versions.
            Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => {
                object.call_method0("__dlpack__")?
            }
            other => other?,
        };
        Tensor::in_capsule(capsule).map(Some)
    }

    fn in_capsule(capsule: Bound<'_, PyAny>) -> Result<Tensor, Failure> {
        let named = |name: &CStr| {
            // SAFETY: the object is one, and the GIL is held.
            let is = unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) } == 1;
            // SAFETY: it is a capsule with this name.
            let pointer = || unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) };
            is.then(pointer).and_then(NonNull::new)
        };
        let (raw, flags) = if let Some(versioned) = named(NAME_VERSIONED) {
            let versioned = versioned.cast::<RawVersioned>().as_ptr();
            // SAFETY: a capsule with this name has such a structure, of major version 1 as asked
            // for.
            unsafe { (NonNull::from(&(*versioned).tensor), (*versioned).flags) }
        } else if let Some(plain) = named(NAME) {
            (plain.cast::<Raw>(), 0)
        } else {
            let why = "`__dlpack__` of the object gives no capsule of a tensor: give an array that \
                       has Python's buffer protocol";
            return Err(Failure::argument(why));
        };
        Ok(Tensor { raw, flags, _capsule: capsule.unbind() })
    }

    /// Where its elements are.
    ///
    /// # Errors
    /// [`Failure::Argument`] if they have no whole bytes.
    pub fn parts(&self) -> Result<Parts, Failure> {
        // SAFETY: the capsule keeps it.
        let raw = unsafe { self.raw.as_ref() };
        let bits = usize::from(raw.dtype.bits) * usize::from(raw.dtype.lanes);
        if bits % 8 != 0 {
            let why = format!("the tensor's elements have {bits} bits: give elements of bytes");
            return Err(Failure::Argument(why));
        }
        let unit = bits / 8;
        let ndim = usize::try_from(raw.ndim).unwrap_or(0);
        let row = |from: *const i64| {
            if ndim == 0 || from.is_null() {
                return &[][..];
            }
            // SAFETY: shape and strides have a number for each dimension.
            unsafe { std::slice::from_raw_parts(from, ndim) }
        };
        let (shape, strides) = (row(raw.shape), row(raw.strides));
        let count: i64 = shape.iter().product();
        let mut step = 1;
        let in_order = shape.iter().zip(strides).rev().all(|(&size, &stride)| {
            let is = size == 1 || stride == step;
            step *= size;
            is
        });
        Ok(Parts {
            ptr: raw.data.cast::<u8>().wrapping_add(raw.byte_offset as usize),
            len: usize::try_from(count).unwrap_or(0) * unit,
            unit,
            scalar: scalar_of(&raw.dtype),
            is_read_only: self.flags & READ_ONLY != 0,
            is_contiguous: count == 0 || in_order,
        })
    }
}

fn scalar_of(dtype: &DataType) -> Option<Scalar> {
    let scalar = match (dtype.code, dtype.bits, dtype.lanes) {
        (0, 8, 1) => Scalar::I8,
        (0, 16, 1) => Scalar::I16,
        (0, 32, 1) => Scalar::I32,
        (0, 64, 1) => Scalar::I64,
        (1, 8, 1) => Scalar::U8,
        (1, 16, 1) => Scalar::U16,
        (1, 32, 1) => Scalar::U32,
        (1, 64, 1) => Scalar::U64,
        (2, 32, 1) => Scalar::F32,
        (2, 64, 1) => Scalar::F64,
        (5, 64, 1) => Scalar::ComplexF32,
        (5, 128, 1) => Scalar::ComplexF64,
        _ => return None,
    };
    Some(scalar)
}
