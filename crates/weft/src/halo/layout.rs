//! How a local array lies in memory, its ghost layers included.

use std::fmt;

use weft_sys::cells::{AXES, Cells};
use weft_sys::plain::Plain;

use crate::error::Error;

/// One axis of a local array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Cells of this process's own.
    pub cells: usize,
    /// Ghost layers before them, which the lower neighbour's last cells are copied to.
    pub low: usize,
    /// Ghost layers behind them, which the upper neighbour's first cells are copied to.
    pub high: usize,
}

impl Axis {
    /// So many cells, with as many ghost layers on both sides.
    pub fn new(cells: usize, ghosts: usize) -> Axis {
        Axis::sided(cells, ghosts, ghosts)
    }

    /// So many cells, with `low` ghost layers before and `high` behind them.
    pub fn sided(cells: usize, low: usize, high: usize) -> Axis {
        Axis { cells, low, high }
    }

    /// All layers.
    fn whole(&self) -> Option<usize> {
        self.cells.checked_add(self.low)?.checked_add(self.high)
    }
}

/// How a local array lies in memory: one to four axes, the slowest first, each with its ghost
/// layers; without gaps unless strides are given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    axes: Vec<Axis>,
    unit: usize,
    strides: Option<Vec<usize>>,
}

impl Layout {
    /// An array of `T`.
    pub fn new<T: Plain>(axes: &[Axis]) -> Layout {
        Layout::of_unit(size_of::<T>(), axes)
    }

    /// An array whose cells have `unit` bytes, as a vector with three components has.
    pub fn of_unit(unit: usize, axes: &[Axis]) -> Layout {
        Layout { axes: axes.to_vec(), unit, strides: None }
    }

    /// The same, with so many bytes from a cell to the next along each axis, as many as there are
    /// axes.
    #[must_use]
    pub fn with_strides(mut self, strides: &[usize]) -> Layout {
        self.strides = Some(strides.to_vec());
        self
    }

    /// The axes, the slowest first.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Bytes of a cell.
    pub fn unit(&self) -> usize {
        self.unit
    }

    /// Bytes from the first ghost cell to the end of the last one; `None` if there are more than
    /// can be counted.
    pub fn len(&self) -> Option<usize> {
        let whole = self.cells(|axis| Some((0, axis.whole()?)))?;
        whole.len()?;
        whole.end()
    }

    /// Whether it has no cell at all.
    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(|axis| axis.whole() == Some(0))
    }

    /// Where a cell is, counted in cells from the first one in memory on. Own cells have the
    /// numbers from 0 on along each axis, ghost layers before them negative ones.
    ///
    /// # Panics
    /// If the index has not as many numbers as there are axes, or lies outside.
    pub fn index(&self, at: &[isize]) -> usize {
        assert_eq!(at.len(), self.axes.len(), "an index has a number for each axis");
        let strides = self.byte_strides().unwrap_or([0; AXES]);
        let place = |(axis, (&i, a)): (usize, (&isize, &Axis))| {
            let layer = usize::try_from(i + a.low as isize).unwrap_or(usize::MAX);
            assert!(a.whole().is_some_and(|all| layer < all), "index {at:?} lies outside {self}");
            layer * strides[axis]
        };
        at.iter().zip(&self.axes).enumerate().map(place).sum::<usize>() / self.unit.max(1)
    }

    /// What is wrong with it, if anything.
    pub(super) fn check(&self) -> Result<(), Error> {
        let refuse = |why: String| Err(Error::halo(format!("an array of {self} {why}")));
        if self.axes.is_empty() || self.axes.len() > AXES {
            return refuse(format!("has {} axes: it must have 1 to {AXES}", self.axes.len()));
        }
        if self.unit == 0 {
            return refuse("has cells of 0 bytes".into());
        }
        if let Some(strides) = &self.strides
            && strides.len() != self.axes.len()
        {
            let (has, axes) = (strides.len(), self.axes.len());
            return refuse(format!("has {has} strides for {axes} axes"));
        }
        if self.len().is_none() {
            return refuse("is larger than memory can be".into());
        }
        if self.overlaps() {
            return refuse("has strides by which cells overlap".into());
        }
        Ok(())
    }

    /// Whether two cells share bytes: so if some axis's stride is less than what lies within one
    /// step of it.
    fn overlaps(&self) -> bool {
        let Some(strides) = &self.strides else { return false };
        let mut order: Vec<usize> = (0..self.axes.len()).collect();
        order.sort_by_key(|&axis| strides[axis]);
        let mut within = self.unit;
        order.into_iter().any(|axis| {
            let count = self.axes[axis].whole().unwrap_or(0);
            let overlaps = count > 1 && strides[axis] < within;
            within = within.saturating_add(count.saturating_sub(1).saturating_mul(strides[axis]));
            overlaps
        })
    }

    /// Whether a layer of the first axis is one stretch of memory, before all later layers.
    pub(super) fn is_ordered(&self) -> bool {
        let Some(strides) = &self.strides else { return true };
        let layer = self.cells(|_| Some((0, 1))).map(|mut cells| {
            for (count, axis) in cells.counts.iter_mut().zip(&self.axes).skip(1) {
                *count = axis.whole().unwrap_or(0);
            }
            cells.end()
        });
        layer.flatten().is_some_and(|end| end <= strides[0])
    }

    fn byte_strides(&self) -> Option<[usize; AXES]> {
        let mut strides = [0; AXES];
        match &self.strides {
            Some(given) => strides.iter_mut().zip(given).for_each(|(to, from)| *to = *from),
            None => {
                let mut stride = self.unit;
                for (axis, to) in self.axes.iter().zip(&mut strides).rev() {
                    *to = stride;
                    stride = stride.checked_mul(axis.whole()?)?;
                }
            }
        }
        Some(strides)
    }

    /// The box of the cells that `span` names by first layer and number of layers, counted from the
    /// first ghost layer on.
    pub(super) fn cells(
        &self,
        mut span: impl FnMut(&Axis) -> Option<(usize, usize)>,
    ) -> Option<Cells> {
        let strides = self.byte_strides()?;
        let mut cells = Cells { at: 0, counts: [1; AXES], strides, unit: self.unit };
        for (axis, layers) in self.axes.iter().enumerate() {
            let (first, count) = span(layers)?;
            cells.at = cells.at.checked_add(first.checked_mul(strides[axis])?)?;
            cells.counts[axis] = count;
        }
        Some(cells)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Axis { cells, low, high }) in self.axes.iter().enumerate() {
            let by = if at == 0 { "" } else { " x " };
            write!(f, "{by}{low}+{cells}+{high}")?;
        }
        write!(f, " cells of {} bytes", self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_their_index() {
        let layout = Layout::new::<f64>(&[Axis::new(2, 1), Axis::sided(3, 2, 0)]);
        assert_eq!(layout.len(), Some(4 * 5 * 8));
        assert_eq!(layout.index(&[-1, -2]), 0);
        assert_eq!(layout.index(&[0, 0]), 5 + 2);
        assert_eq!(layout.index(&[2, 2]), 19);
        let wide = layout.with_strides(&[64, 8]);
        assert_eq!((wide.len(), wide.index(&[0, 0])), (Some(3 * 64 + 40), 8 + 2));
        assert!(wide.check().is_ok());
    }

    #[test]
    fn layouts_that_make_no_sense_are_refused() {
        let axis = Axis::new(4, 1);
        let bad = [
            (Layout::of_unit(8, &[]), "0 axes"),
            (Layout::of_unit(8, &[axis; 5]), "5 axes"),
            (Layout::of_unit(0, &[axis]), "0 bytes"),
            (Layout::of_unit(8, &[axis; 2]).with_strides(&[8]), "1 strides for 2"),
            (Layout::of_unit(8, &[axis; 2]).with_strides(&[40, 8]), "overlap"),
            (Layout::of_unit(8, &[Axis::new(usize::MAX, 1)]), "larger"),
            (Layout::of_unit(8, &[Axis::new(1 << 40, 1); 2]), "larger"),
        ];
        for (layout, why) in bad {
            let error = layout.check().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let transposed = Layout::of_unit(8, &[axis; 2]).with_strides(&[8, 48]);
        assert!(transposed.check().is_ok());
    }
}
