//! What the cells of a library at a place come to.

use super::Layout;
use super::cells::{Cell, Number};
use crate::mpi::Brand;

/// The cells of one kind, of a library at a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary<'a> {
    /// The library.
    pub brand: Brand,
    /// The place.
    pub place: Layout,
    /// Whether they are kernels of programs; else patterns.
    pub kernels: bool,
    /// How many there are.
    pub cells: usize,
    /// How many are slower.
    pub slower: usize,
    /// How many have failed.
    pub failed: usize,
    /// The one whose ratio is farthest above, or least below, its limit.
    pub worst: Option<&'a Cell>,
    /// The geometric mean of the ratios of medians.
    pub mean: Option<f64>,
    /// That of the ratios of the time in MPI.
    pub mpi_mean: Option<f64>,
}

impl Summary<'_> {
    /// What its cells are.
    pub fn kind(&self) -> &'static str {
        if self.kernels { "kernels" } else { "patterns" }
    }
}

/// The summaries of all cells, in the order in which those come.
pub fn summaries(cells: &[Cell]) -> Vec<Summary<'_>> {
    let key = |cell: &Cell| (cell.brand, cell.place, cell.task.is_kernel());
    let mut keys = Vec::new();
    for cell in cells {
        if !keys.contains(&key(cell)) {
            keys.push(key(cell));
        }
    }
    let of = |(brand, place, kernels)| {
        let those: Vec<&Cell> =
            cells.iter().filter(|cell| key(cell) == (brand, place, kernels)).collect();
        let count = |is: fn(&Cell) -> bool| those.iter().filter(|cell| is(cell)).count();
        let medians = those.iter().filter(|cell| cell.number == Number::P50);
        let measured = those.iter().filter(|cell| !cell.has_failed());
        Summary {
            brand,
            place,
            kernels,
            cells: those.len(),
            slower: count(Cell::is_slower),
            failed: count(Cell::has_failed),
            worst: measured.copied().max_by(|a, b| a.excess().total_cmp(&b.excess())),
            mean: geometric_mean(medians.filter_map(|cell| cell.ratio())),
            mpi_mean: geometric_mean(those.iter().filter_map(|cell| cell.mpi_ratio())),
        }
    };
    keys.into_iter().map(of).collect()
}

/// None of nothing.
fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = values.filter(|v| *v > 0.0).map(f64::ln).collect();
    let count = logarithms.len() as f64;
    (count > 0.0).then(|| (logarithms.iter().sum::<f64>() / count).exp())
}

#[cfg(test)]
mod tests {
    use super::super::cells::cells;
    use super::super::cells::tests::{PLACE, time};
    use super::super::{Side, Task};
    use super::*;

    #[test]
    fn kernels_and_patterns_are_summed_up_by_themselves() {
        let tasks = [
            Task::Pattern("lat", 8),
            Task::Pattern("lat", 64),
            Task::Kernel("stream", "8@30".into()),
            Task::Kernel("cg", "small".into()),
            Task::Kernel("cg", "large".into()),
        ];
        // Medians, those of a hundred, and times in MPI: 0.5, 2; 1.1 and 9, 1 (a sixteenth).
        let figures = [
            time(Side::Weft, &tasks[0], 1.0, 0.0, None),
            time(Side::Own, &tasks[0], 2.0, 0.0, None),
            time(Side::Weft, &tasks[1], 2.0, 0.0, None),
            time(Side::Own, &tasks[1], 1.0, 0.0, None),
            time(Side::Weft, &tasks[2], 1.1, 9.0, Some(1.0)),
            time(Side::Own, &tasks[2], 1.0, 1.0, Some(1.0)),
            time(Side::Weft, &tasks[3], 1.0, 1.0, Some(1.0)),
            time(Side::Own, &tasks[3], 1.1, 1.0, Some(16.0)),
        ];
        let both = ["mpich weft 2x1", "mpich own 2x1"];
        let failed = both.map(|who| (who.to_string(), Some(tasks[4].clone())));
        let all = cells(Brand::Mpich, PLACE, &tasks, &figures, &failed);
        let found = summaries(&all);
        let [patterns, kernels] = &found[..] else { panic!("{found:?}") };
        assert_eq!((patterns.kind(), patterns.cells, patterns.slower), ("patterns", 2, 1));
        assert_eq!(patterns.worst.map(Cell::what).as_deref(), Some("64"));
        assert!((patterns.mean.unwrap() - 1.0).abs() < 1e-9 && patterns.mpi_mean.is_none());
        assert_eq!((kernels.cells, kernels.slower, kernels.failed), (4, 2, 1));
        assert_eq!(kernels.worst.map(Cell::what).as_deref(), Some("8@30 p99"));
        assert!((kernels.mean.unwrap() - 1.0).abs() < 1e-9, "medians only: {kernels:?}");
        assert!((kernels.mpi_mean.unwrap() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!(geometric_mean([].into_iter()), None);
        assert!(summaries(&[]).is_empty());
    }
}
