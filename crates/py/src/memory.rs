//! The memory that programs give: anything with the buffer protocol, or with DLPack.

use std::ffi::{CStr, c_int};

use pyo3::ffi;
use pyo3::prelude::*;
use weft::remote::Scalar;
use weft_sys::buf::Buf;

use crate::dlpack::Tensor;
use crate::error::Failure;

/// What the memory is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// It is only read.
    Read,
    /// It is filled, or changed.
    Fill,
}

/// A program's memory: one row of elements, exported for as long as this lives.
pub struct Memory {
    ptr: *mut u8,
    len: usize,
    unit: usize,
    scalar: Option<Scalar>,
    /// Keeps it.
    export: Export,
}

enum Export {
    /// Boxed: exporters may have pointers from the view into itself.
    Buffer(Box<View>),
    Tensor(#[allow(dead_code, reason = "it is kept")] Tensor),
}

/// A filled `Py_buffer`.
struct View(ffi::Py_buffer);

impl Drop for View {
    fn drop(&mut self) {
        // Once the interpreter has ended, so has the exporter.
        Python::try_attach(|_| {
            // SAFETY: the view was filled by `PyObject_GetBuffer`, and the GIL is held.
            unsafe { ffi::PyBuffer_Release(&mut self.0) }
        });
    }
}

// SAFETY: it is an address that the export keeps valid on any thread, and a view, which is only
// touched when it is dropped, under the GIL.
unsafe impl Send for Memory {}
// SAFETY: as above; a shared reference gives copies of numbers only.
unsafe impl Sync for Memory {}

impl Memory {
    /// The memory of an object.
    ///
    /// # Errors
    /// [`Failure::Argument`] for an object without memory, or with memory that cannot be used so.
    pub fn of(object: &Bound<'_, PyAny>, usage: Use) -> Result<Memory, Failure> {
        // SAFETY: the object is one.
        if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 1 {
            return Memory::of_buffer(object, usage);
        }
        if let Some(tensor) = Tensor::of(object)? {
            return Memory::of_tensor(tensor, usage);
        }
        Err(Failure::Argument(format!(
            "an object of type {} has no memory that can be {}: give a NumPy array, bytes, a \
             bytearray, an array.array, a memoryview, or a tensor on the CPU",
            object.get_type().name()?,
            if usage == Use::Read { "sent" } else { "filled" },
        )))
    }

    fn of_buffer(object: &Bound<'_, PyAny>, usage: Use) -> Result<Memory, Failure> {
        const FLAGS: c_int = ffi::PyBUF_STRIDES | ffi::PyBUF_FORMAT;
        let mut view = Box::new(View(ffi::Py_buffer::new()));
        // SAFETY: the object is one, the view may be filled, and the GIL is held.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut view.0, FLAGS) } != 0 {
            // What is not filled needs no release.
            std::mem::forget(view);
            return Err(not_exported(object, PyErr::fetch(object.py())));
        }
        let raw = &view.0;
        if usage == Use::Fill && raw.readonly != 0 {
            return Err(read_only());
        }
        // SAFETY: the view was filled just now.
        if unsafe { ffi::PyBuffer_IsContiguous(raw, b'C' as _) } == 0 {
            return Err(scattered());
        }
        let format = if raw.format.is_null() {
            c"B"
        } else {
            // SAFETY: a format is a C string, and lives as long as the view.
            unsafe { CStr::from_ptr(raw.format) }
        };
        let unit = usize::try_from(raw.itemsize).unwrap_or(0);
        let format = format.to_bytes();
        if has_objects(format) {
            return Err(Failure::argument(
                "the array has Python objects, which are addresses of this process: send \
                 `pickle.dumps(array)`, or an array of numbers",
            ));
        }
        let (ptr, len) = (raw.buf.cast(), usize::try_from(raw.len).unwrap_or(0));
        let scalar = scalar_of(format, unit);
        Ok(Memory { ptr, len, unit, scalar, export: Export::Buffer(view) })
    }

    fn of_tensor(tensor: Tensor, usage: Use) -> Result<Memory, Failure> {
        let parts = tensor.parts()?;
        if usage == Use::Fill && parts.is_read_only {
            return Err(read_only());
        }
        if !parts.is_contiguous {
            return Err(scattered());
        }
        let (ptr, len, unit, scalar) = (parts.ptr, parts.len, parts.unit, parts.scalar);
        Ok(Memory { ptr, len, unit, scalar, export: Export::Tensor(tensor) })
    }

    /// The same for the library. It must not be used there once this is dropped.
    pub fn buf(&self) -> Buf {
        // SAFETY: the memory is exported for as long as `self` lives, which is kept until the
        // operation has ended. What a program does to it meanwhile, though it is told not to, is
        // as for any array that two threads use.
        unsafe { Buf::from_raw(self.ptr, self.len) }
    }

    /// Its bytes, to be copied at once.
    pub fn bytes(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: it is exported for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    /// The same, to be filled at once; only of memory that was asked for with [`Use::Fill`].
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: as above, and it may be written.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of an element.
    pub fn unit(&self) -> usize {
        self.unit
    }

    /// Elements.
    pub fn count(&self) -> usize {
        self.len.checked_div(self.unit).unwrap_or(0)
    }

    /// Elements along each axis, the slowest first; `None` of a tensor.
    pub fn shape(&self) -> Option<Vec<usize>> {
        let Export::Buffer(view) = &self.export else { return None };
        let raw = &view.0;
        let axes = usize::try_from(raw.ndim).unwrap_or(0);
        // SAFETY: a view that was asked for its strides has a shape, of as many numbers as axes.
        let count = |axis| unsafe { *raw.shape.add(axis) };
        Some((0..axes).map(|axis| usize::try_from(count(axis)).unwrap_or(0)).collect())
    }

    /// What its numbers are.
    ///
    /// # Errors
    /// [`Failure::Argument`] if they are none that can be reduced.
    pub fn scalar(&self) -> Result<Scalar, Failure> {
        self.scalar.ok_or_else(|| {
            Failure::argument(
                "the array's elements are no numbers that can be combined: use whole numbers of 8 \
                 to 64 bits, float32, float64 or complex numbers of these, in the machine's byte \
                 order (booleans as `array.view('uint8')`)",
            )
        })
    }

    /// Whether some byte belongs to both.
    pub fn overlaps(&self, other: &Memory) -> bool {
        let (own, its) = (self.ptr as usize, other.ptr as usize);
        own < its + other.len && its < own + self.len
    }
}

fn read_only() -> Failure {
    Failure::argument(
        "the memory is read-only and was to be filled: give an array that can be written, \
         `numpy.empty` makes one, or a bytearray",
    )
}

fn scattered() -> Failure {
    Failure::argument(
        "the array's elements do not lie one behind the other in C order: send \
         `numpy.ascontiguousarray(array)`; receive into a new array, and copy it from there",
    )
}

/// The exporter's own words, with what to do.
fn not_exported(object: &Bound<'_, PyAny>, error: PyErr) -> Failure {
    let why = error.value(object.py()).to_string();
    Failure::Argument(format!(
        "the array's memory cannot be had ({why}): give numbers, `array.view('int64')` makes some \
         of times"
    ))
}

/// Whether a format has Python objects in it, the names of fields left out.
fn has_objects(format: &[u8]) -> bool {
    let mut in_name = false;
    format.iter().any(|&byte| {
        in_name ^= byte == b':';
        !in_name && byte == b'O'
    })
}

/// The scalar that a format of the `struct` module means, in the machine's byte order.
fn scalar_of(format: &[u8], unit: usize) -> Option<Scalar> {
    let foreign = if cfg!(target_endian = "little") { b">!" } else { b"<<" };
    let code = match format.split_first() {
        Some((first, _)) if foreign.contains(first) => return None,
        Some((b'@' | b'=' | b'<' | b'>' | b'!', rest)) => rest,
        _ => format,
    };
    match (code, unit) {
        ([b'b' | b'h' | b'i' | b'l' | b'q' | b'n'], 1) => Some(Scalar::I8),
        ([b'b' | b'h' | b'i' | b'l' | b'q' | b'n'], 2) => Some(Scalar::I16),
        ([b'b' | b'h' | b'i' | b'l' | b'q' | b'n'], 4) => Some(Scalar::I32),
        ([b'b' | b'h' | b'i' | b'l' | b'q' | b'n'], 8) => Some(Scalar::I64),
        ([b'B' | b'H' | b'I' | b'L' | b'Q' | b'N'], 1) => Some(Scalar::U8),
        ([b'B' | b'H' | b'I' | b'L' | b'Q' | b'N'], 2) => Some(Scalar::U16),
        ([b'B' | b'H' | b'I' | b'L' | b'Q' | b'N'], 4) => Some(Scalar::U32),
        ([b'B' | b'H' | b'I' | b'L' | b'Q' | b'N'], 8) => Some(Scalar::U64),
        (b"f", 4) => Some(Scalar::F32),
        (b"d", 8) => Some(Scalar::F64),
        (b"Zf", 8) => Some(Scalar::ComplexF32),
        (b"Zd", 16) => Some(Scalar::ComplexF64),
        _ => None,
    }
}
