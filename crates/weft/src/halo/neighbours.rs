//! Who has the cells beyond each side of a local array.

use std::collections::BTreeMap;

use weft_sys::cells::AXES;

use crate::error::Error;

/// Where a neighbour is, seen from here: -1, 0 or 1 along each axis.
pub(super) type Direction = [i8; AXES];

/// The ranks beyond the faces, edges and corners of this rank's block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbours {
    axes: usize,
    by_direction: BTreeMap<Direction, u32>,
    /// How many ranks the grid has that they were made from.
    grid: Option<u64>,
}

impl Neighbours {
    /// No neighbours yet, along so many axes.
    pub fn none(axes: usize) -> Neighbours {
        Neighbours { axes, by_direction: BTreeMap::new(), grid: None }
    }

    /// One more: `rank` is beyond the face, edge or corner in this direction, which has -1, 0 or 1
    /// for each axis, the slowest first. A rank may be its own neighbour.
    #[must_use]
    pub fn with(mut self, direction: &[i8], rank: u32) -> Neighbours {
        let mut known = [0; AXES];
        // One that makes no sense is kept as such, and refused when the plan is built.
        if direction.len() == self.axes && direction.len() <= AXES {
            known[..direction.len()].copy_from_slice(direction);
        }
        self.by_direction.insert(known, rank);
        self
    }

    /// The neighbours of `rank` in a grid of `processes` along each axis, the slowest first, whose
    /// ranks are numbered row by row; an axis that is `periodic` ends where it begins.
    ///
    /// # Errors
    /// [`Error::Halo`] if the two have not as many axes, or the rank is not in the grid.
    pub fn grid(rank: u32, processes: &[u32], periodic: &[bool]) -> Result<Neighbours, Error> {
        let axes = processes.len();
        if axes == 0 || axes > AXES || periodic.len() != axes {
            return Err(Error::halo(format!(
                "a grid of {axes} axes, {} of which are said to be periodic or not: give both for \
                 1 to {AXES} axes",
                periodic.len()
            )));
        }
        let all = processes.iter().try_fold(1u64, |all, &n| all.checked_mul(n.into()));
        let all = all.filter(|all| u64::from(rank) < *all).ok_or_else(|| {
            Error::halo(format!("rank {rank} is not in a grid of {processes:?} processes"))
        })?;
        let mut place = [0i64; AXES];
        let mut left = rank;
        for (axis, &n) in processes.iter().enumerate().rev() {
            (place[axis], left) = (i64::from(left % n), left / n);
        }
        let mut neighbours = Neighbours { grid: Some(all), ..Neighbours::none(axes) };
        for direction in directions(axes) {
            let beyond = (0..axes).try_fold(0u32, |number, axis| {
                let n = i64::from(processes[axis]);
                let at = place[axis] + i64::from(direction[axis]);
                let inside = (0..n).contains(&at);
                (inside || periodic[axis])
                    .then(|| number * processes[axis] + at.rem_euclid(n) as u32)
            });
            if let Some(rank) = beyond {
                neighbours.by_direction.insert(direction, rank);
            }
        }
        Ok(neighbours)
    }

    /// Who is in a direction.
    pub(super) fn get(&self, direction: Direction) -> Option<u32> {
        self.by_direction.get(&direction).copied()
    }

    /// How many axes.
    pub(super) fn axes(&self) -> usize {
        self.axes
    }

    /// All directions in which there is somebody.
    pub(super) fn all(&self) -> impl Iterator<Item = (Direction, u32)> + '_ {
        self.by_direction.iter().map(|(direction, rank)| (*direction, *rank))
    }

    /// Whether there is somebody beyond an edge or a corner.
    pub(super) fn has_corners(&self) -> bool {
        self.by_direction.keys().any(|direction| axes_of(*direction) > 1)
    }

    /// What is wrong with them in a job of so many ranks, if anything.
    pub(super) fn check(&self, size: u32) -> Result<(), Error> {
        if self.axes == 0 || self.axes > AXES {
            let why = format!("neighbours along {} axes: there may be 1 to {AXES}", self.axes);
            return Err(Error::halo(why));
        }
        if let Some(all) = self.grid.filter(|all| *all != u64::from(size)) {
            let why = format!("the grid has {all} processes, and the job {size} ranks");
            return Err(Error::halo(why));
        }
        for (direction, rank) in self.all() {
            let known = direction.iter().all(|step| (-1..=1).contains(step));
            if !known || axes_of(direction) == 0 {
                return Err(Error::halo(format!(
                    "rank {rank} was named as a neighbour in no direction: one has -1, 0 or 1 for \
                     each of {} axes, and not only 0",
                    self.axes
                )));
            }
            if rank >= size {
                return Err(Error::halo(format!(
                    "rank {rank} was named as a neighbour, and ranks are 0 to {}",
                    size.saturating_sub(1)
                )));
            }
        }
        Ok(())
    }
}

/// How many axes a direction goes along.
pub(super) fn axes_of(direction: Direction) -> usize {
    direction.iter().filter(|step| **step != 0).count()
}

/// The direction back.
pub(super) fn opposite(direction: Direction) -> Direction {
    direction.map(|step| -step)
}

/// All directions along so many axes.
pub(super) fn directions(axes: usize) -> impl Iterator<Item = Direction> {
    (0..3usize.pow(axes as u32)).filter_map(move |number| {
        let mut direction = [0; AXES];
        let mut left = number;
        for step in &mut direction[..axes] {
            (*step, left) = ((left % 3) as i8 - 1, left / 3);
        }
        (axes_of(direction) > 0).then_some(direction)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_knows_who_is_beyond_each_side() {
        // 0 1 2
        // 3 4 5, periodic to the sides only.
        let of = |rank| Neighbours::grid(rank, &[2, 3], &[false, true]).unwrap();
        let get = |rank, y, x| of(rank).get([y, x, 0, 0]);
        assert_eq!((get(0, 1, 0), get(0, -1, 0), get(0, 0, -1)), (Some(3), None, Some(2)));
        assert_eq!((get(5, -1, 1), get(5, 1, 1), get(4, -1, -1)), (Some(0), None, Some(0)));
        assert_eq!(of(0).all().count(), 5);
        let alone = Neighbours::grid(0, &[1, 1], &[true, true]).unwrap();
        assert!(alone.all().all(|(_, rank)| rank == 0) && alone.all().count() == 8);
        assert_eq!(directions(3).count(), 26);
    }

    #[test]
    fn neighbours_that_make_no_sense_are_refused() {
        assert!(Neighbours::grid(6, &[2, 3], &[false, true]).is_err());
        assert!(Neighbours::grid(0, &[2, 3], &[false]).is_err());
        assert!(Neighbours::grid(0, &[], &[]).is_err());
        assert!(Neighbours::grid(0, &[0, 2], &[true, true]).is_err());
        assert!(Neighbours::grid(1, &[2], &[true]).unwrap().check(3).is_err());
        let bad: [(&[i8], u32); 4] = [(&[0, 0], 1), (&[2, 0], 1), (&[1], 1), (&[1, 0], 9)];
        for (direction, rank) in bad {
            assert!(Neighbours::none(2).with(direction, rank).check(4).is_err(), "{direction:?}");
        }
        assert!(Neighbours::none(2).with(&[1, 0], 3).check(4).is_ok());
        for axes in [0, 5] {
            let none = Neighbours::none(axes);
            let why = none.check(4).unwrap_err().to_string();
            assert!(why.contains(&format!("neighbours along {axes} axes")), "{why}");
        }
    }
}
