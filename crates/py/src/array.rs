//! Arrays of plans for the exchange of boundaries: their cells, as programs see them.

use std::ffi::{CStr, c_int};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use weft::halo::{Array as Native, ArrayId, Axis, Layout};

use crate::error::Failure;

/// The most axes of an array.
pub const AXES: usize = 4;

/// Ghost layers of an axis: as many on both sides, or before and behind the own cells.
#[derive(FromPyObject)]
pub enum Layers {
    Both(usize),
    Sides((usize, usize)),
}

/// Ghost layers of an array: as many along all axes, or those of each axis.
#[derive(FromPyObject)]
pub enum Ghosts {
    All(usize),
    Each(Vec<Layers>),
}

impl Ghosts {
    /// Those before and behind the cells of each axis.
    ///
    /// # Errors
    /// [`Failure::Argument`] for another number of axes.
    pub fn along(&self, axes: usize) -> Result<Vec<(usize, usize)>, Failure> {
        match self {
            Ghosts::All(layers) => Ok(vec![(*layers, *layers); axes]),
            Ghosts::Each(each) if each.len() == axes => {
                let sides = each.iter().map(|layers| match *layers {
                    Layers::Both(layers) => (layers, layers),
                    Layers::Sides(sides) => sides,
                });
                Ok(sides.collect())
            }
            Ghosts::Each(each) => Err(Failure::Argument(format!(
                "`ghosts` has {} axes, and the array {axes}: give one number for all of them, or \
                 for each axis a number or a pair (before, behind)",
                each.len()
            ))),
        }
    }
}

/// Axes of an array of so many own cells.
pub fn own(shape: &[usize], ghosts: &[(usize, usize)]) -> Vec<Axis> {
    let axis = |(cells, (low, high)): (&usize, &(usize, usize))| Axis::sided(*cells, *low, *high);
    shape.iter().zip(ghosts).map(axis).collect()
}

/// Axes of an array of so many cells, ghosts included.
///
/// # Errors
/// [`Failure::Argument`] where there are more ghost layers than cells.
pub fn whole(shape: &[usize], ghosts: &[(usize, usize)]) -> Result<Vec<Axis>, Failure> {
    let axis = |(axis, (all, (low, high))): (usize, (&usize, &(usize, usize)))| {
        let cells = low.checked_add(*high).and_then(|ghosts| all.checked_sub(ghosts));
        let cells = cells.ok_or_else(|| {
            Failure::Argument(format!(
                "the array has {all} cells along axis {axis}, and {low} and {high} of them are to \
                 be ghost layers: its shape has these and the own cells"
            ))
        })?;
        Ok(Axis::sided(cells, *low, *high))
    };
    shape.iter().zip(ghosts).enumerate().map(axis).collect()
}

/// The format, as the `struct` module has it, and the bytes of a type of numbers.
///
/// # Errors
/// [`Failure::Argument`] for a name that is none.
pub fn type_of(name: &str) -> Result<(&'static CStr, usize), Failure> {
    Ok(match name {
        "b" | "i8" | "int8" => (c"b", 1),
        "B" | "u8" | "uint8" => (c"B", 1),
        "h" | "i16" | "int16" => (c"h", 2),
        "H" | "u16" | "uint16" => (c"H", 2),
        "i" | "i32" | "int32" => (c"i", 4),
        "I" | "u32" | "uint32" => (c"I", 4),
        "q" | "i64" | "int64" => (c"q", 8),
        "Q" | "u64" | "uint64" => (c"Q", 8),
        "f" | "f32" | "float32" => (c"f", 4),
        "d" | "f64" | "float64" => (c"d", 8),
        "Zf" | "complex64" => (c"Zf", 8),
        "Zd" | "complex128" => (c"Zd", 16),
        "?" | "bool" => (c"?", 1),
        _ => {
            return Err(Failure::Argument(format!(
                "there is no type {name:?} of cells: there are int8 to int64, uint8 to uint64, \
                 float32, float64, complex64, complex128 and bool, or the `struct` module's \
                 letters for them"
            )));
        }
    })
}

/// A local array of a plan, ghost layers included.
///
/// Made by `plan.array(shape)` it is Weft's memory, zeroed, and a buffer with its shape and type:
/// `numpy.asarray(array)` shows all cells in place, and is good for as long as somebody has it,
/// also when the plan is closed. Made by `plan.lay(memory)` it only names the program's array.
#[pyclass(frozen, module = "weft")]
pub struct Array {
    pub(crate) plan: u64,
    pub(crate) id: ArrayId,
    layout: Layout,
    own: Option<Own>,
}

/// Weft's memory, as the buffer protocol has it.
struct Own {
    _memory: Native<u8>,
    begin: usize,
    format: &'static CStr,
    shape: Vec<isize>,
    strides: Vec<isize>,
}

// SAFETY: the library's array is only kept and dropped here; all else are numbers.
unsafe impl Sync for Array {}

impl Array {
    /// One in the program's memory.
    pub fn laid(plan: u64, id: ArrayId, layout: Layout) -> Array {
        Array { plan, id, layout, own: None }
    }

    /// One in Weft's.
    ///
    /// # Errors
    /// [`weft::error::Error::Halo`] if somebody uses it already.
    pub fn of(plan: u64, mut memory: Native<u8>, format: &'static CStr) -> Result<Array, Failure> {
        let (id, layout) = (memory.id(), memory.layout().clone());
        let begin = memory.write()?.as_mut_ptr().addr();
        let whole = |axis: &Axis| (axis.low + axis.cells + axis.high) as isize;
        let shape: Vec<isize> = layout.axes().iter().map(whole).collect();
        let mut strides = vec![layout.unit() as isize; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis];
        }
        let own = Some(Own { _memory: memory, begin, format, shape, strides });
        Ok(Array { plan, id, layout, own })
    }
}

#[pymethods]
impl Array {
    /// Cells along each axis, ghost layers included, the slowest axis first.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.layout.axes().iter().map(|axis| axis.low + axis.cells + axis.high).collect()
    }

    /// Ghost layers of each axis: before and behind its own cells.
    #[getter]
    fn ghosts(&self) -> Vec<(usize, usize)> {
        self.layout.axes().iter().map(|axis| (axis.low, axis.high)).collect()
    }

    /// # Safety
    /// As Python's: `view` may be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let Some(own) = &slf.get().own else {
            return Err(PyBufferError::new_err("the cells lie in an array of yours: look at that"));
        };
        let asks = |flag: c_int| flags & flag == flag;
        if asks(ffi::PyBUF_F_CONTIGUOUS) && own.shape.len() > 1 && !asks(ffi::PyBUF_ANY_CONTIGUOUS)
        {
            return Err(PyBufferError::new_err("the cells lie in C order, not in Fortran's"));
        }
        let if_asked = |flag, there: *const isize| match asks(flag) {
            true => there.cast_mut(),
            false => std::ptr::null_mut(),
        };
        let format = match asks(ffi::PyBUF_FORMAT) {
            true => own.format.as_ptr().cast_mut(),
            false => std::ptr::null_mut(),
        };
        let unit = slf.get().layout.unit() as isize;
        // SAFETY: the view is Python's to fill. It keeps the object, and that the memory, the shape
        // and the strides, none of which change; the format lives for ever.
        unsafe {
            (*view).buf = std::ptr::with_exposed_provenance_mut(own.begin);
            (*view).len = own.shape.iter().product::<isize>() * unit;
            (*view).itemsize = unit;
            (*view).readonly = 0;
            (*view).ndim = own.shape.len() as c_int;
            (*view).format = format;
            (*view).shape = if_asked(ffi::PyBUF_ND, own.shape.as_ptr());
            (*view).strides = if_asked(ffi::PyBUF_STRIDES, own.strides.as_ptr());
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.clone().into_ptr();
        }
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<weft.Array {}>", self.layout)
    }
}
