//! What came of a run: how long what took, and whether the fields are right.

use std::time::Duration;

use super::Args;
use super::slab::Slab;
use super::transport::Done;

/// A point may be wrong by so much, where the wave is about 1 high: rounding alone is below it.
pub const RIGHT: f64 = 1e-9;

/// What a rank tells of its part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// In the updates of the fields, s.
    pub compute_s: f64,
    /// In calls for the boundary, s.
    pub wait_s: f64,
    /// How far the worst point is from what it must be.
    pub error: f64,
    /// Names the bits of its fields.
    pub sum: u64,
}

/// Bytes of a [`Part`] as ranks tell it.
const PART: usize = 32;

impl Part {
    /// As bytes.
    pub fn to_bytes(self) -> [u8; PART] {
        let numbers = [self.compute_s, self.wait_s, self.error].map(f64::to_bits);
        let mut bytes = [0; PART];
        let words = numbers.into_iter().chain([self.sum]);
        bytes.as_chunks_mut().0.iter_mut().zip(words).for_each(|(b, w)| *b = w.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; PART]) -> Part {
        let mut words = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut word = || words.next().unwrap_or(0);
        let [compute_s, wait_s, error] = std::array::from_fn(|_| f64::from_bits(word()));
        Part { compute_s, wait_s, error, sum: word() }
    }
}

/// Adds a value to a sum that names the bits of all values and their places.
pub fn mix(sum: &mut u64, place: u64, value: f64) {
    let odd = place.wrapping_mul(2).wrapping_add(1);
    *sum = sum.wrapping_add(value.to_bits().wrapping_mul(odd.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
}

/// Tells what all ranks have told, and whether all is right.
///
/// # Errors
/// When a point is wrong.
pub fn tell(args: &Args, slab: &Slab, steps: u64, whole: Duration, told: &[u8]) -> Done {
    let parts: Vec<Part> = told.as_chunks().0.iter().map(Part::from_bytes).collect();
    let (ranks, done) = (parts.len() as f64, steps.max(1) as f64);
    let mean = |of: fn(&Part) -> f64| parts.iter().map(of).sum::<f64>() / ranks;
    // A cell is computed by one rank only, so these are seconds of one rank for one cell.
    let of_all: f64 = parts.iter().map(|part| part.compute_s).sum();
    let compute_ns = of_all * 1e9 / (done * (slab.cells as f64).powi(3));
    let (step_us, wait_us) = (whole.as_secs_f64() * 1e6 / done, mean(|p| p.wait_s) * 1e6 / done);
    let error = parts.iter().map(|part| part.error).fold(0.0, f64::max);
    let sum = parts.iter().fold(0u64, |sum, part| sum.wrapping_add(part.sum));
    let (cells, whole_s, by) = (slab.cells, whole.as_secs_f64(), args.transport.name());
    if args.json {
        println!(
            "{{\"bench\":\"fdtd\",\"device\":\"{by}\",\"ranks\":{ranks},\"bytes\":{},\
             \"cells\":{cells},\"steps\":{steps},\"whole_s\":{whole_s:.6},\"step_us\":{step_us:.3},\
             \"compute_ns_per_cell\":{compute_ns:.4},\"wait_us\":{wait_us:.3},\
             \"error\":{error:.3e},\"sum\":\"{sum:016x}\"}}",
            2 * slab.plane() * size_of::<f64>(),
        );
    } else {
        println!("{cells}^3 cells, {steps} steps, ranks: {ranks}, by {by}");
        println!("whole    {whole_s:.3} s, {step_us:.1} us a step");
        println!("compute  {compute_ns:.3} ns a cell and step");
        println!("waits    {wait_us:.1} us a step, {:.1} %", 100.0 * wait_us / step_us);
        println!("error    {error:.1e} at the worst point; sum {sum:016x}");
    }
    // Not what is no number either.
    if error <= RIGHT {
        return Ok(());
    }
    Err(format!("the fields are wrong by {error:e}: {by} has lost or spoilt a boundary").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_and_sums_know_places() {
        let part = Part { compute_s: 1.5, wait_s: 0.25, error: 1e-15, sum: 77 };
        assert_eq!(Part::from_bytes(&part.to_bytes()), part);
        let sum = |values: &[(u64, f64)]| {
            let mut sum = 0;
            values.iter().for_each(|(place, value)| mix(&mut sum, *place, *value));
            sum
        };
        assert_eq!(sum(&[(1, 2.0), (5, 3.0)]), sum(&[(5, 3.0), (1, 2.0)]));
        assert_ne!(sum(&[(1, 2.0), (5, 3.0)]), sum(&[(1, 3.0), (5, 2.0)]));
        assert_ne!(sum(&[(1, 0.0)]), sum(&[(1, -0.0)]));
    }
}
