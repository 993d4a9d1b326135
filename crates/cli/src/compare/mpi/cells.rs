//! The cells of the comparison: each a figure on Weft beside the same library's own transport.

use serde::Serialize;

use super::{Layout, Side, Task, label};
use crate::bench::figure::{Figure, Value};
use crate::mpi::Brand;

/// A median is slower above this ratio.
const SLOWER: f64 = 1.05;
/// One of a hundred is slower above this.
const TAIL_SLOWER: f64 = 3.0;
/// Kernels whose times are those of single messages or operations: of these the slowest one of a
/// hundred is judged as well.
const TAILS: [&str; 2] = ["stream", "counter"];

/// Which of a figure's numbers a cell is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Number {
    /// The median, or a bandwidth.
    P50,
    /// All but one in a hundred are better.
    P99,
}

impl Number {
    /// A ratio above this one is slower.
    pub fn limit(self) -> f64 {
        match self {
            Number::P50 => SLOWER,
            Number::P99 => TAIL_SLOWER,
        }
    }

    /// The number as people read it, and as a time: that of a byte where it is a bandwidth.
    fn of(self, figure: &Figure) -> (String, f64) {
        match (self, figure.value) {
            (Number::P99, Value::RttUs(s) | Value::TimeUs(s)) => {
                (Value::TimeUs(crate::bench::figure::Spread { p50: s.p99, ..s }).text(), s.p99)
            }
            (_, Value::RttUs(s) | Value::TimeUs(s)) => (figure.value.text(), s.p50),
            (_, value) => (value.text(), 1.0 / value.number()),
        }
    }
}

/// How one side did.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    /// What was measured.
    Measured {
        /// For people.
        text: String,
        /// As a time, whatever the unit.
        time: f64,
        /// How much of it was spent in MPI, us, where that is known.
        mpi_us: Option<f64>,
    },
    /// It failed or hung.
    Failed,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Of which library.
    pub brand: Brand,
    /// Where.
    pub place: Layout,
    /// What was measured.
    pub task: Task,
    /// Which number of it.
    pub number: Number,
    /// On Weft.
    pub weft: Done,
    /// On the library's own transport.
    pub own: Done,
}

impl Cell {
    /// The time on Weft divided by the other: below 1 Weft is faster. None where one has failed.
    pub fn ratio(&self) -> Option<f64> {
        let (Done::Measured { time: a, .. }, Done::Measured { time: b, .. }) =
            (&self.weft, &self.own)
        else {
            return None;
        };
        Some(a / b).filter(|ratio| ratio.is_finite())
    }

    /// The same of what was spent in MPI; of medians only.
    pub fn mpi_ratio(&self) -> Option<f64> {
        let of = |done: &Done| match done {
            Done::Measured { mpi_us, .. } => mpi_us.filter(|us| *us > 0.0),
            Done::Failed => None,
        };
        let medians = self.number == Number::P50;
        medians.then_some(()).and_then(|()| Some(of(&self.weft)? / of(&self.own)?))
    }

    /// Whether Weft is slower than the library's own transport.
    pub fn is_slower(&self) -> bool {
        self.excess() > 1.0
    }

    /// Whether one of both could not be measured.
    pub fn has_failed(&self) -> bool {
        self.ratio().is_none()
    }

    /// The ratio by the one that is still right.
    pub fn excess(&self) -> f64 {
        self.ratio().map_or(0.0, |ratio| ratio / self.number.limit())
    }

    /// The benchmark, and what of it.
    pub fn title(&self) -> String {
        format!("{} {}", self.task.bench(), self.what())
    }

    /// What of the benchmark: size or word, and the number where it is not the median.
    pub fn what(&self) -> String {
        let what = self.task.what();
        match self.number {
            Number::P50 => what,
            Number::P99 => format!("{what} p99"),
        }
    }
}

/// The cells of a library at a place, for all tasks that both sides have done or failed at.
pub fn cells(
    brand: Brand,
    place: Layout,
    tasks: &[Task],
    figures: &[Figure],
    failed: &[(String, Option<Task>)],
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for task in tasks {
        let numbers: &[Number] = match TAILS.contains(&task.bench()) && task.is_kernel() {
            true => &[Number::P50, Number::P99],
            false => &[Number::P50],
        };
        for &number in numbers {
            let done = |side| {
                let label = label(brand, side, place);
                let fell = |(who, what): &(String, Option<Task>)| {
                    *who == label && what.as_ref().is_none_or(|what| what == task)
                };
                if failed.iter().any(fell) {
                    return Some(Done::Failed);
                }
                let figure = figures.iter().find(|f| f.device == label && task.gave(f))?;
                let (text, time) = number.of(figure);
                Some(Done::Measured { text, time, mpi_us: figure.mpi_us })
            };
            if let (Some(weft), Some(own)) = (done(Side::Weft), done(Side::Own)) {
                cells.push(Cell { brand, place, task: task.clone(), number, weft, own });
            }
        }
    }
    cells
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::bench::figure::Spread;

    pub const PLACE: Layout = Layout::new(2, 1);

    pub fn time(side: Side, task: &Task, p50: f64, p99: f64, mpi_us: Option<f64>) -> Figure {
        let (bytes, mode) = match task {
            Task::Pattern(_, bytes) => (*bytes, None),
            Task::Kernel(_, word) => (8, Some(word.clone())),
        };
        Figure {
            bench: task.bench().into(),
            device: label(Brand::Mpich, side, PLACE),
            ranks: 2,
            bytes,
            mode,
            value: Value::TimeUs(Spread { p50, p99, ..Spread::default() }),
            cpu_s_per_gb: None,
            mpi_us,
            share: None,
        }
    }

    fn bandwidth(side: Side, task: &Task, value: f64) -> Figure {
        Figure { value: Value::BandwidthMbS(value), ..time(side, task, 0.0, 0.0, None) }
    }

    #[test]
    fn ratios_are_of_times_whatever_was_measured() {
        let (lat, bw) = (Task::Pattern("lat", 8), Task::Pattern("bw", 1 << 20));
        let figures = [
            time(Side::Weft, &lat, 3.0, 9.0, None),
            time(Side::Own, &lat, 2.0, 1.0, None),
            bandwidth(Side::Weft, &bw, 4000.0),
            bandwidth(Side::Own, &bw, 2000.0),
            time(Side::Weft, &Task::Pattern("lat", 64), 1.0, 1.0, None),
        ];
        let tasks = [lat, bw, Task::Pattern("lat", 64)];
        let all = cells(Brand::Mpich, PLACE, &tasks, &figures, &[]);
        let found: Vec<_> = all.iter().map(|c| (c.ratio(), c.is_slower())).collect();
        assert_eq!(found, [(Some(1.5), true), (Some(0.5), false)], "one side alone is no cell");
        assert!(cells(Brand::OpenMpi, PLACE, &tasks, &figures, &[]).is_empty());
    }

    #[test]
    fn the_slowest_of_a_hundred_are_judged_where_single_messages_are() {
        let stream = Task::Kernel("stream", "8@30".into());
        let figures = [
            time(Side::Weft, &stream, 5.2, 29.0, Some(1.0)),
            time(Side::Own, &stream, 5.0, 10.0, Some(4.0)),
        ];
        let all = cells(Brand::Mpich, PLACE, &[stream], &figures, &[]);
        let what: Vec<_> = all.iter().map(|c| (c.what(), c.ratio(), c.mpi_ratio())).collect();
        let expected =
            [("8@30".into(), Some(1.04), Some(0.25)), ("8@30 p99".into(), Some(2.9), None)];
        assert_eq!(what, expected);
        assert!(!all.iter().any(Cell::is_slower));
    }

    #[test]
    fn what_failed_is_a_cell_without_a_ratio() {
        let (a, b) = (Task::Kernel("cg", "small".into()), Task::Kernel("cg", "large".into()));
        let figures = [time(Side::Weft, &a, 1.0, 1.0, None), time(Side::Own, &a, 1.0, 1.0, None)];
        let weft = label(Brand::Mpich, Side::Weft, PLACE);
        let failed = [(weft.clone(), Some(b.clone())), ("other".into(), None)];
        let fell = |failed: &[(String, Option<Task>)]| {
            let all = cells(Brand::Mpich, PLACE, &[a.clone(), b.clone()], &figures, failed);
            all.iter().map(Cell::has_failed).collect::<Vec<_>>()
        };
        // The other side has done nothing of the second, so that is no cell yet.
        assert_eq!(fell(&failed), [false]);
        let own = label(Brand::Mpich, Side::Own, PLACE);
        assert_eq!(fell(&[(weft, None), (own, Some(b.clone()))]), [true, true]);
    }
}
