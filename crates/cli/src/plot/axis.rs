//! Where a logarithmic axis begins and ends, and where its ticks are.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// An axis in logarithms: of 2 for sizes, of 10 for figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its low end.
    pub from: f64,
    /// Its high end.
    pub to: f64,
    /// Where lines and labels go, ascending.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// An axis for message sizes: ticks at powers of two, at most ten.
    pub fn sizes(values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = bounds(values.map(|v| v.max(1.0).log2()), 1.0);
        let (first, last) = (low.floor() as i64, high.ceil() as i64);
        let step = ((last - first) / 9 + 1).max(1);
        // Multiples of the step: 1K, 4K, ... 1M rather than 512, 2K, ... 512K.
        let ticks = (first..=last).filter(|t| t % step == 0).map(|t| t as f64).collect();
        Axis { from: low - 0.4, to: high + 0.4, ticks }
    }

    /// An axis for numbers of ranks: ticks at those that there are, or at powers of two where they
    /// are more than ten.
    pub fn ranks(values: impl Iterator<Item = f64> + Clone) -> Axis {
        let axis = Axis::sizes(values.clone());
        let mut ticks: Vec<f64> = values.map(|v| v.max(1.0).log2()).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        if ticks.len() > 10 { axis } else { Axis { ticks, ..axis } }
    }

    /// An axis for times or rates: ticks at 1, 2, 5 of every power of ten, or at powers of ten only
    /// where it spans many.
    pub fn figures(values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = bounds(values.filter(|v| *v > 0.0).map(f64::log10), 0.0);
        let (from, to) = (low - 0.12, high + 0.12);
        let steps: &[f64] = if to - from > 3.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let decades = from.floor() as i32..=to.ceil() as i32;
        let ticks = decades
            .flat_map(|d| steps.iter().map(move |s| f64::from(d) + s.log10()))
            .filter(|t| (from..=to).contains(t))
            .collect();
        Axis { from, to, ticks }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let share = (value - self.from) / (self.to - self.from);
        start + (f64::from(end - start) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

/// The least and the greatest, or a range about `otherwise` where there are none.
fn bounds(values: impl Iterator<Item = f64>, otherwise: f64) -> (f64, f64) {
    let start = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = values.fold(start, |(l, h), v| (l.min(v), h.max(v)));
    if low <= high { (low, high) } else { (otherwise, otherwise + 1.0) }
}

/// A tick's label: no more digits than it needs.
pub fn number(v: f64) -> String {
    if v >= 1.0 { format!("{v:.0}") } else { format!("{}", (v * 1000.0).round() / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_lie_inside_and_are_few() {
        let x = Axis::sizes([8.0, 1048576.0].into_iter());
        assert!(x.ticks.len() <= 10 && x.from < 3.0 && x.to > 20.0, "{x:?}");
        let few = Axis::ranks([3.0, 2.0, 3.0, 6.0].into_iter());
        assert_eq!(few.ticks, [2.0, 3.0, 6.0].map(f64::log2));
        let many = Axis::ranks((1..40).map(f64::from));
        assert!(many.ticks.len() <= 10 && many.ticks.contains(&5.0), "{many:?}");
        let y = Axis::figures([0.3, 900.0].into_iter());
        assert!(y.ticks.iter().all(|t| (y.from..=y.to).contains(t)), "{y:?}");
        assert!((3..=12).contains(&y.ticks.len()), "{y:?}");
        assert_eq!([0.5, 1.0, 20.0, 0.001].map(number), ["0.5", "1", "20", "0.001"]);
        assert_eq!(Axis::figures([].into_iter()).ticks.first(), Some(&0.0));
    }
}
