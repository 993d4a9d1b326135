//! Taking times: repeated until a time is up, one histogram per round.

use hdrhistogram::Histogram;
use weft_sys::clock::now_ns;

use super::figure::Spread;

/// Samples shorter than this are taken several at a time, so that reading the clock (some 30 ns)
/// does not become part of the figure.
const SAMPLE_NS: u64 = 2_000;

/// Where one histogram unit is a tenth of a nanosecond.
const UNITS_PER_NS: u64 = 10;

/// Times of one round.
pub struct Samples(Histogram<u64>);

impl Samples {
    /// No samples yet.
    pub fn new() -> Samples {
        // Three digits, up to 100 s: the bounds are right by construction.
        let bounds = Histogram::new_with_bounds(1, 100_000_000_000 * UNITS_PER_NS, 3);
        Samples(bounds.expect("fixed bounds are valid"))
    }

    /// Notes that `count` repetitions took `ns` together.
    pub fn record(&mut self, ns: u64, count: u64) {
        self.0.saturating_record((ns * UNITS_PER_NS / count.max(1)).max(1));
    }

    /// The longest, us; 0 without any.
    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / (UNITS_PER_NS * 1000) as f64
    }

    /// How they are spread.
    pub fn spread(&self) -> Spread {
        if self.0.is_empty() {
            return Spread::default();
        }
        let us = |units: f64| units / (UNITS_PER_NS * 1000) as f64;
        Spread {
            min: us(self.0.min() as f64),
            p50: us(self.0.value_at_quantile(0.5) as f64),
            p99: us(self.0.value_at_quantile(0.99) as f64),
            mean: us(self.0.mean()),
        }
    }
}

impl Default for Samples {
    fn default() -> Samples {
        Samples::new()
    }
}

/// Repeats `once` for `ms` milliseconds, after a tenth of that to warm up, and gives how long it
/// takes. At least one sample is taken. The very first time, which may find the way to a peer, is
/// no part of it, nor of what says how many times one sample is made of.
///
/// # Errors
/// The first error of `once`.
pub fn repeat<E>(ms: u64, mut once: impl FnMut() -> Result<(), E>) -> Result<Spread, E> {
    once()?;
    let start = now_ns();
    let warm_until = start + ms * 100_000;
    let mut warm: u64 = 0;
    let warmed = loop {
        once()?;
        warm += 1;
        let now = now_ns();
        if now >= warm_until {
            break now - start;
        }
    };
    let batch = (SAMPLE_NS * warm / warmed.max(1)).clamp(1, 1000);
    let mut samples = Samples::new();
    let mut before = now_ns();
    let until = before + ms * 900_000;
    loop {
        for _ in 0..batch {
            once()?;
        }
        let now = now_ns();
        samples.record(now - before, batch);
        before = now;
        if now >= until {
            return Ok(samples.spread());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_ordered() {
        let mut samples = Samples::new();
        for ns in 1..=1000 {
            samples.record(ns * 1000, 1);
        }
        let s = samples.spread();
        assert!((s.min - 1.0).abs() < 0.01 && (s.p50 - 500.0).abs() < 2.0, "{s:?}");
        assert!((s.p99 - 990.0).abs() < 2.0 && (s.mean - 500.5).abs() < 2.0, "{s:?}");
    }

    #[test]
    fn an_error_ends_the_repetition() {
        let mut left = 5;
        let once = || {
            left -= 1;
            if left == 0 { Err("no more") } else { Ok(()) }
        };
        assert_eq!(repeat(60_000, once), Err("no more"));
    }
}
