//! Arrays that plans exchange, as programs see them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use weft_sys::array;
use weft_sys::plain::{Plain, numbers, numbers_mut};

use super::layout::Layout;
use crate::error::Error;

/// Which array of a plan: 0, 1, ... in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayId(pub(super) usize);

/// A local array of a plan, ghost layers included, in memory that Weft has allocated, which peers
/// of the same node copy from directly. It lives as long as somebody uses it.
pub struct Array<T> {
    id: ArrayId,
    memory: array::Array,
    layout: Layout,
    number: PhantomData<T>,
}

/// The cells of an array, looked at: a slice of its numbers, in the order in which they lie in
/// memory. They do not change as long as it is there.
pub struct View<'a, T> {
    bytes: array::Reading,
    of: PhantomData<&'a T>,
}

/// The cells of an array, to be changed. Nobody else uses them as long as it is there.
pub struct ViewMut<'a, T> {
    bytes: array::Writing,
    of: PhantomData<&'a mut T>,
}

impl<T: Plain> Array<T> {
    pub(super) fn new(id: ArrayId, memory: array::Array, layout: Layout) -> Array<T> {
        Array { id, memory, layout, number: PhantomData }
    }

    /// Its name to stages.
    pub fn id(&self) -> ArrayId {
        self.id
    }

    /// How it lies in memory.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes. (One without cells has memory all the same.)
    fn len(&self) -> usize {
        self.layout.len().unwrap_or(0)
    }

    /// All cells.
    ///
    /// # Errors
    /// [`Error::Halo`] while cells arrive in it by themselves, or it is being changed.
    pub fn read(&self) -> Result<View<'_, T>, Error> {
        let bytes = self.memory.read(0..self.len()).ok_or_else(|| {
            busy(
                "cannot be looked at while cells arrive in it: wait for its stage, or look at \
                  `middle`",
            )
        })?;
        Ok(View { bytes, of: PhantomData })
    }

    /// All cells, to be changed.
    ///
    /// # Errors
    /// [`Error::Halo`] while it is exchanged or looked at.
    pub fn write(&mut self) -> Result<ViewMut<'_, T>, Error> {
        let bytes = self.memory.write(0..self.len()).ok_or_else(|| {
            busy("cannot be changed while it is exchanged or looked at: wait for its stage first")
        })?;
        Ok(ViewMut { bytes, of: PhantomData })
    }

    /// All cells but those of the slowest axis's ghost layers, with the place of the first one
    /// among all: what can be looked at while an exchange is under way. Its ghost layers along
    /// other axes hold what they held before.
    ///
    /// # Errors
    /// [`Error::Halo`] while it is being changed.
    pub fn middle(&self) -> Result<(usize, View<'_, T>), Error> {
        let span = self.layout.cells(|axis| Some((0, axis.low + axis.cells + axis.high)));
        let first = self.layout.axes()[0];
        let stride = span.map_or(0, |cells| cells.strides[0]);
        let len = self.len();
        // The slowest axis by name may not be so in memory: then there is no such part.
        let dense = self.layout.is_ordered();
        let (from, to) = match dense {
            true => (first.low * stride, len.saturating_sub(first.high * stride)),
            false => (0, len),
        };
        let bytes = self.memory.read(from..to.max(from)).ok_or_else(|| {
            busy("cannot be looked at while it is changed, or, with these strides, exchanged")
        })?;
        Ok((from / size_of::<T>(), View { bytes, of: PhantomData }))
    }
}

impl<T> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "array {} of {}", self.id.0, self.layout)
    }
}

fn busy(why: &str) -> Error {
    Error::halo(format!("the array {why}"))
}

impl<T: Plain> Deref for View<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        numbers(&self.bytes).expect("an array holds whole numbers, at the beginning of a page")
    }
}

impl<T: Plain> Deref for ViewMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        numbers(&self.bytes).expect("an array holds whole numbers, at the beginning of a page")
    }
}

impl<T: Plain> DerefMut for ViewMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        numbers_mut(&mut self.bytes).expect("an array holds whole numbers, at a page's beginning")
    }
}
