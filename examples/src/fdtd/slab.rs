//! How the box is cut: planes of cells along the slowest axis, so many for each rank.

use std::ops::Range;

/// A rank's part of a box of `cells` cubed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// Cells along each edge of the whole box.
    pub cells: usize,
    /// Which plane of the box is this rank's first.
    pub first: usize,
    /// How many planes are this rank's.
    pub planes: usize,
}

impl Slab {
    /// The slab of one rank of several; `None` where there are more ranks than planes.
    pub fn of(rank: u32, ranks: u32, cells: usize) -> Option<Slab> {
        let (rank, ranks) = (rank as usize, ranks as usize);
        let more = cells.checked_rem(ranks)?;
        let planes = cells / ranks + usize::from(rank < more);
        let first = rank * (cells / ranks) + rank.min(more);
        (cells >= ranks).then_some(Slab { cells, first, planes })
    }

    /// Points of a row, and rows of a plane: one more than cells, for both walls are among them.
    pub fn row(&self) -> usize {
        self.cells + 1
    }

    /// Points of a plane.
    pub fn plane(&self) -> usize {
        self.row() * self.row()
    }

    /// Cells of this rank.
    pub fn own(&self) -> usize {
        self.planes * self.cells * self.cells
    }
}

/// Planes of a field to read: plane 0 is the rank's first own, plane -1 the ghost layer below.
#[derive(Clone, Copy, Debug)]
pub struct Planes<'a> {
    cells: &'a [f64],
    below: usize,
    plane: usize,
}

impl<'a> Planes<'a> {
    /// Planes of so many points, `below` of them before plane 0.
    pub fn new(cells: &'a [f64], below: usize, plane: usize) -> Planes<'a> {
        Planes { cells, below, plane }
    }

    /// One of them.
    pub fn at(&self, plane: isize) -> &'a [f64] {
        &self.cells[place(plane, self.below, self.plane)]
    }
}

/// Planes of a field to change.
#[derive(Debug)]
pub struct PlanesMut<'a> {
    cells: &'a mut [f64],
    below: usize,
    plane: usize,
}

impl<'a> PlanesMut<'a> {
    /// As [`Planes::new`].
    pub fn new(cells: &'a mut [f64], below: usize, plane: usize) -> PlanesMut<'a> {
        PlanesMut { cells, below, plane }
    }

    /// One of them.
    pub fn at(&mut self, plane: isize) -> &mut [f64] {
        &mut self.cells[place(plane, self.below, self.plane)]
    }
}

fn place(plane: isize, below: usize, len: usize) -> Range<usize> {
    let from = (plane + below as isize) as usize * len;
    from..from + len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_the_whole_box_one_behind_the_other() {
        for (ranks, cells) in [(1, 5), (2, 5), (3, 5), (5, 5), (4, 64)] {
            let mut next = 0;
            for rank in 0..ranks {
                let slab = Slab::of(rank, ranks, cells).unwrap();
                assert_eq!(slab.first, next);
                assert!(slab.planes >= 1);
                next += slab.planes;
            }
            assert_eq!(next, cells);
        }
        assert_eq!(Slab::of(0, 6, 5), None);
    }

    #[test]
    fn ghost_layers_lie_around_the_own_planes() {
        let mut cells: Vec<f64> = (0..6).map(f64::from).collect();
        assert_eq!(Planes::new(&cells, 1, 2).at(-1), [0.0, 1.0]);
        PlanesMut::new(&mut cells, 1, 2).at(1)[0] = 9.0;
        assert_eq!(Planes::new(&cells, 0, 2).at(2), [9.0, 5.0]);
    }
}
