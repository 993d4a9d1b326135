//! Cells of an array: boxes of up to four dimensions, copied from one layout to another.

use std::ptr;

use crate::buf::Buf;
use crate::mem::ReadOnly;

/// Most dimensions.
pub const AXES: usize = 4;

/// A box of cells in one piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cells {
    /// Where the first cell begins, bytes.
    pub at: usize,
    /// How many cells there are along each axis, the slowest first; 1 along axes that are not used.
    pub counts: [usize; AXES],
    /// Bytes from a cell to the next along each axis.
    pub strides: [usize; AXES],
    /// Bytes of a cell.
    pub unit: usize,
}

impl Cells {
    /// Cells of `unit` bytes one behind the other, from byte `at` on.
    pub fn packed(at: usize, counts: [usize; AXES], unit: usize) -> Cells {
        let mut strides = [unit; AXES];
        for axis in (0..AXES - 1).rev() {
            strides[axis] = strides[axis + 1].saturating_mul(counts[axis + 1]);
        }
        Cells { at, counts, strides, unit }
    }

    /// Bytes of all cells; `None` if there are more than can be counted.
    pub fn len(&self) -> Option<usize> {
        self.counts.iter().try_fold(self.unit, |len, count| len.checked_mul(*count))
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.unit == 0 || self.counts.contains(&0)
    }

    /// The first byte behind the last cell; `None` if there is no such number.
    pub fn end(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(self.at);
        }
        let axes = self.counts.iter().zip(&self.strides);
        axes.into_iter().try_fold(self.at.checked_add(self.unit)?, |end, (count, stride)| {
            end.checked_add((count - 1).checked_mul(*stride)?)
        })
    }

    /// Whether the cells lie one behind the other.
    pub fn is_dense(&self) -> bool {
        self.is_empty() || self.folded(self).0.counts == [1; AXES]
    }

    /// Bytes that lie one behind the other, from a first cell of the fastest axis on.
    pub fn run(&self) -> usize {
        self.folded(self).0.unit
    }

    /// This box and another one of the same shape, with as few axes and as long cells as describe
    /// both.
    fn folded(&self, other: &Cells) -> (Cells, Cells) {
        let (mut a, mut b) = (*self, *other);
        // Axes with one cell have no stride; they go to the front.
        let mut used: Vec<usize> = (0..AXES).filter(|&axis| a.counts[axis] != 1).collect();
        while let Some(&last) = used.last() {
            if a.strides[last] != a.unit || b.strides[last] != b.unit {
                break;
            }
            let unit = a.unit * a.counts[last];
            (a.unit, b.unit) = (unit, unit);
            used.pop();
        }
        let (from_a, from_b) = (a, b);
        (a.counts, b.counts) = ([1; AXES], [1; AXES]);
        let first = AXES - used.len();
        for (to, from) in used.into_iter().enumerate().map(|(at, from)| (first + at, from)) {
            (a.counts[to], b.counts[to]) = (from_a.counts[from], from_b.counts[from]);
            (a.strides[to], b.strides[to]) = (from_a.strides[from], from_b.strides[from]);
        }
        (a, b)
    }

    fn fits(&self, other: &Cells, len: usize, other_len: usize) -> bool {
        let shape = self.counts == other.counts && self.unit == other.unit;
        let inside =
            |cells: &Cells, len| cells.len().is_some() && cells.end().is_some_and(|end| end <= len);
        shape && inside(self, len) && inside(other, other_len)
    }
}

impl Buf {
    /// Copies cells of this memory, which is in one piece as `into` is, to others of the same shape
    /// there. The two may be the same memory; if the boxes overlap, it is unspecified what those
    /// cells hold. `false`: the boxes differ, or lie not inside; nothing was written.
    pub fn copy_cells(&self, from: &Cells, into: &Buf, to: &Cells) -> bool {
        let (Some(here), Some(there)) = (self.only(), into.only()) else { return false };
        if !from.fits(to, here.len(), there.len()) {
            return false;
        }
        // SAFETY: both boxes lie inside memory that the keepers keep valid.
        unsafe { copy(here.addr() as *const u8, from, there.addr() as *mut u8, to) };
        true
    }
}

impl ReadOnly {
    /// Copies cells, counted from byte `base` on, to others of the same shape in `into`, which is
    /// in one piece. `false`: the boxes differ, or lie not inside; nothing was written.
    pub fn copy_cells(&self, base: usize, from: &Cells, into: &Buf, to: &Cells) -> bool {
        let Some(there) = into.only() else { return false };
        let Some(at) = from.at.checked_add(base) else { return false };
        let from = Cells { at, ..*from };
        if !from.fits(to, self.len(), there.len()) {
            return false;
        }
        // SAFETY: the first box lies inside the mapping, which is sealed against shrinking, the
        // second one inside memory that its keeper keeps valid. If the mapping's owner writes
        // meanwhile, the copy holds a mixture of bytes, as with any I/O buffer.
        unsafe { copy(self.start(), &from, there.addr() as *mut u8, to) };
        true
    }
}

/// Copies `from`, counted from `source`, to `to`, counted from `target`.
///
/// # Safety
/// The boxes have one shape, and are valid: the first for reads, the second for writes.
unsafe fn copy(source: *const u8, from: &Cells, target: *mut u8, to: &Cells) {
    if from.is_empty() {
        return;
    }
    let (from, to) = from.folded(to);
    let offset = |cells: &Cells, i: usize, j: usize, k: usize| {
        cells.at + i * cells.strides[0] + j * cells.strides[1] + k * cells.strides[2]
    };
    let [slow, middle, fast, _] = from.counts;
    for (i, j) in (0..slow).flat_map(|i| (0..middle).map(move |j| (i, j))) {
        for k in 0..fast {
            // SAFETY: the first cell of a row of either box, which lie inside.
            unsafe {
                let (a, b) = (source.add(offset(&from, i, j, k)), target.add(offset(&to, i, j, k)));
                let count = from.counts[3];
                let strides = (from.strides[3], to.strides[3]);
                match from.unit {
                    4 => row::<u32>(a, b, count, strides),
                    8 => row::<u64>(a, b, count, strides),
                    16 => row::<u128>(a, b, count, strides),
                    unit => {
                        for cell in 0..count {
                            ptr::copy(a.add(cell * strides.0), b.add(cell * strides.1), unit);
                        }
                    }
                }
            }
        }
    }
}

/// Copies a row of cells as long as a `T`, which need not be aligned.
///
/// # Safety
/// As for [`copy`].
#[inline]
unsafe fn row<T: Copy>(from: *const u8, to: *mut u8, count: usize, strides: (usize, usize)) {
    for cell in 0..count {
        // SAFETY: the caller's: each cell is inside.
        unsafe {
            let value = from.add(cell * strides.0).cast::<T>().read_unaligned();
            to.add(cell * strides.1).cast::<T>().write_unaligned(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a cell is.
    fn place(cells: &Cells, index: [usize; AXES]) -> usize {
        cells.at + index.iter().zip(&cells.strides).map(|(i, stride)| i * stride).sum::<usize>()
    }

    fn check(from: Cells, to: Cells, from_len: usize, to_len: usize) {
        let source: Vec<u8> = (0..from_len).map(|i| (i * 7 + 1) as u8).collect();
        let (a, b) = (Buf::from_vec(source.clone()), Buf::from_vec(vec![0; to_len]));
        assert!(a.copy_cells(&from, &b, &to), "{from:?} to {to:?}");
        let mut expected = vec![0; to_len];
        let [n, m, o, p] = from.counts;
        for index in (0..n * m * o * p).map(|i| [i / p / o / m, i / p / o % m, i / p % o, i % p]) {
            let (at, into) = (place(&from, index), place(&to, index));
            expected[into..into + from.unit].copy_from_slice(&source[at..at + from.unit]);
        }
        assert_eq!(b.into_vec().unwrap(), expected, "{from:?} to {to:?}");
    }

    #[test]
    fn boxes_of_every_shape_and_unit_are_copied() {
        for unit in [1, 2, 3, 4, 8, 12, 16, 24] {
            for counts in [[1, 1, 1, 1], [1, 1, 1, 5], [1, 4, 1, 3], [2, 3, 4, 1], [3, 1, 2, 5]] {
                let packed = Cells::packed(unit + 1, counts, unit);
                let wide = counts.map(|count| count + 2);
                let whole = Cells::packed(0, wide, unit);
                let at = whole.strides.iter().sum();
                let inner = Cells { at, counts, ..whole };
                let (len, all) = (packed.end().unwrap(), whole.len().unwrap());
                check(inner, packed, all, len);
                check(packed, inner, len, all);
                check(inner, inner, all, all);
            }
        }
    }

    #[test]
    fn boxes_that_differ_or_lie_outside_are_refused() {
        let (a, b) = (Buf::from_vec(vec![1; 64]), Buf::from_vec(vec![0; 64]));
        let cells = Cells::packed(0, [1, 2, 4, 8], 1);
        assert!(a.copy_cells(&cells, &b, &cells));
        let outside = Cells { at: 1, ..cells };
        let other = Cells::packed(0, [1, 2, 8, 4], 1);
        let longer = Cells { strides: [0, 64, 8, 1], ..cells };
        let endless = Cells { strides: [0, usize::MAX, 8, 1], ..cells };
        for bad in [outside, other, longer, endless] {
            assert!(!a.copy_cells(&cells, &b, &bad) && !a.copy_cells(&bad, &b, &cells), "{bad:?}");
        }
        let none = Cells { counts: [0, 2, 4, 8], at: 64, ..cells };
        assert!(a.copy_cells(&none, &b, &none));
    }

    #[test]
    fn boxes_know_whether_they_are_dense() {
        let whole = Cells::packed(0, [1, 4, 6, 8], 8);
        assert!(whole.is_dense());
        assert!(Cells { counts: [1, 2, 6, 8], ..whole }.is_dense());
        assert!(Cells { counts: [1, 1, 3, 8], ..whole }.is_dense());
        assert!(!Cells { counts: [1, 2, 3, 8], ..whole }.is_dense());
        assert!(!Cells { counts: [1, 1, 2, 1], ..whole }.is_dense());
        assert!(Cells { counts: [1, 1, 1, 1], ..whole }.is_dense());
        for (counts, run) in [([1, 4, 6, 8], 1536), ([1, 2, 3, 8], 192), ([1, 4, 6, 1], 8)] {
            assert_eq!(Cells { counts, ..whole }.run(), run);
        }
    }
}
