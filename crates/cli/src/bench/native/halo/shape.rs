//! What is exchanged: fields of so many cells, cut into slabs along one axis, and in which
//! direction the boundaries of each stage go.

use std::fmt;
use std::str::FromStr;

/// In which directions boundaries go, as in BDS's measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Pattern {
    /// To the next rank only.
    OneWay,
    /// To both neighbours.
    TwoWay,
    /// To the next rank in one stage, to the one before in the other: always two stages.
    Alternating,
}

impl Pattern {
    /// Its name, as the option has it.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::OneWay => "one-way",
            Pattern::TwoWay => "two-way",
            Pattern::Alternating => "alternating",
        }
    }

    /// Whether a stage's boundaries go up, to the next rank, or down.
    pub fn goes(self, stage: usize, up: bool) -> bool {
        match self {
            Pattern::OneWay => up,
            Pattern::TwoWay => true,
            Pattern::Alternating => up == stage.is_multiple_of(2),
        }
    }
}

/// Cells along each axis, slowest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cells(pub [usize; 3]);

/// The most cells along an axis.
const CELLS_MAX: usize = 4096;

impl FromStr for Cells {
    type Err = String;

    fn from_str(text: &str) -> Result<Cells, String> {
        let bad = || format!("`{text}` is neither a number like 128 nor three like 64x64x128");
        let number = |word: &str| word.parse().ok().filter(|n| (1..=CELLS_MAX).contains(n));
        let numbers: Option<Vec<usize>> = text.split('x').map(number).collect();
        match numbers.ok_or_else(bad)?[..] {
            [n] => Ok(Cells([n; 3])),
            [x, y, z] => Ok(Cells([x, y, z])),
            _ => Err(bad()),
        }
    }
}

/// A measurement, as the MPI program `halo` names it too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Directions.
    pub pattern: Pattern,
    /// Of all ranks together.
    pub cells: Cells,
    /// Fields that are exchanged in each stage.
    pub fields: usize,
    /// Stages of a step.
    pub stages: usize,
    /// The axis that is cut.
    pub axis: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, [x, y, z]) = (self.pattern.name(), self.cells.0);
        write!(f, "{name}/{x}x{y}x{z}/{}/{}/{}", self.fields, self.stages, self.axis)
    }
}

/// One rank's part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slab {
    /// All of it.
    pub shape: Shape,
    /// This rank's number, and how many there are.
    pub rank: u32,
    /// How many there are.
    pub ranks: u32,
    /// This rank's own cells.
    pub own: [usize; 3],
}

impl Slab {
    /// The part of one rank; `None` where there are more ranks than layers.
    pub fn of(shape: Shape, rank: u32, ranks: u32) -> Option<Slab> {
        let mut own = shape.cells.0;
        let all = own[shape.axis];
        own[shape.axis] =
            all / ranks as usize + usize::from((rank as usize) < all % ranks as usize);
        (all >= ranks as usize).then_some(Slab { shape, rank, ranks, own })
    }

    /// Ghost layers of a stage's fields below and above the own cells: what goes up comes in below.
    pub fn ghosts(&self, stage: usize) -> (usize, usize) {
        let goes = |up| usize::from(self.shape.pattern.goes(stage, up));
        (goes(true), goes(false))
    }

    /// The neighbour in that direction, if there is one.
    pub fn neighbour(&self, up: bool) -> Option<u32> {
        match up {
            true => Some(self.rank + 1).filter(|rank| *rank < self.ranks),
            false => self.rank.checked_sub(1),
        }
    }

    /// Cells of one boundary.
    pub fn face(&self) -> usize {
        self.own.iter().product::<usize>() / self.own[self.shape.axis]
    }

    /// All cells of a field, ghost layers included.
    pub fn len(&self, stage: usize) -> usize {
        self.whole(stage).iter().product()
    }

    fn whole(&self, stage: usize) -> [usize; 3] {
        let (below, above) = self.ghosts(stage);
        let mut whole = self.own;
        whole[self.shape.axis] += below + above;
        whole
    }

    /// The layer that goes up or down.
    pub fn inner(&self, up: bool) -> isize {
        if up { self.own[self.shape.axis] as isize - 1 } else { 0 }
    }

    /// The ghost layer where what goes up or down comes in.
    pub fn outer(&self, up: bool) -> isize {
        if up { -1 } else { self.own[self.shape.axis] as isize }
    }

    /// The rows of cells, one behind the other in memory, of so many layers from `layer` on: where
    /// each begins, and how long all are.
    pub fn rows(
        &self,
        stage: usize,
        layer: isize,
        layers: usize,
    ) -> (impl Iterator<Item = usize> + use<>, usize) {
        let (axis, whole, mut some) = (self.shape.axis, self.whole(stage), self.own);
        some[axis] = layers;
        let mut first = [0; 3];
        first[axis] = (layer + self.ghosts(stage).0 as isize) as usize;
        let place = move |x: usize, y: usize| {
            ((first[0] + x) * whole[1] + first[1] + y) * whole[2] + first[2]
        };
        let all = (0..some[0]).flat_map(move |x| (0..some[1]).map(move |y| place(x, y)));
        (all, some[2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(pattern: Pattern, cells: [usize; 3], axis: usize) -> Shape {
        Shape { pattern, cells: Cells(cells), fields: 1, stages: 2, axis }
    }

    #[test]
    fn cells_are_a_cube_or_three_numbers() {
        assert_eq!("128".parse(), Ok(Cells([128; 3])));
        assert_eq!("64x2x128".parse(), Ok(Cells([64, 2, 128])));
        for bad in ["", "0", "1x2", "1x2x3x4", "-1", "5000", "ax1x1"] {
            assert!(bad.parse::<Cells>().is_err(), "{bad}");
        }
        let named = shape(Pattern::OneWay, [1, 2, 3], 2).to_string();
        assert_eq!(named, "one-way/1x2x3/1/2/2");
    }

    #[test]
    fn own_layers_and_ghosts_are_all_cells_each_once() {
        for pattern in [Pattern::OneWay, Pattern::TwoWay, Pattern::Alternating] {
            for axis in 0..3 {
                for stage in 0..2 {
                    let slab = Slab::of(shape(pattern, [5, 3, 4], axis), 1, 2).unwrap();
                    let mut met = vec![0; slab.len(stage)];
                    let mut meet = |layer, layers| {
                        let (rows, len) = slab.rows(stage, layer, layers);
                        rows.for_each(|row| met[row..row + len].iter_mut().for_each(|m| *m += 1));
                    };
                    meet(0, slab.own[axis]);
                    for up in [true, false] {
                        if pattern.goes(stage, up) {
                            meet(slab.outer(up), 1);
                        }
                    }
                    assert!(met.iter().all(|m| *m == 1), "{pattern:?} {axis} {stage}: {met:?}");
                }
            }
        }
        assert_eq!(Slab::of(shape(Pattern::TwoWay, [2, 9, 9], 0), 0, 3), None);
    }
}
