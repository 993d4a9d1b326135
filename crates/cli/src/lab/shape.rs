//! What a cable does to frames: how fast it takes them, how long they are on their way, how many it
//! loses. As users write it: `rate=1gbit`, `delay=20us`, `loss=0.1%`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a cable does to frames, each way. What is `None` it does not do.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Shape {
    /// Bits a second at most.
    pub rate: Option<u64>,
    /// Nanoseconds that each frame takes.
    pub delay: Option<u64>,
    /// Of a thousand million frames so many are lost.
    pub loss: Option<u32>,
}

/// A thousand million: what [`Shape::loss`] is a share of.
pub(super) const WHOLE: u32 = 1_000_000_000;

/// Names of units and what they stand for, the smallest first.
const RATES: [(&str, f64); 4] = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

impl Shape {
    /// The slowest and the fastest cable, bits a second.
    pub const RATE: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;
    /// The longest delay, ns.
    pub const DELAY_MAX: u64 = 10_000_000_000;

    /// What `self` does not say, as `other` says it.
    pub fn or(self, other: Shape) -> Shape {
        Shape {
            rate: self.rate.or(other.rate),
            delay: self.delay.or(other.delay),
            loss: self.loss.or(other.loss),
        }
    }

    /// Whether it does nothing to frames.
    pub fn is_plain(self) -> bool {
        self == Shape::default()
    }

    /// Whether frames must be held back or dropped one by one.
    pub fn is_slow_or_lossy(self) -> bool {
        self.delay.is_some() || self.loss.is_some()
    }

    /// Takes over what a key and its value say; `None` if it is another key.
    ///
    /// # Errors
    /// What is expected in place of the value.
    pub fn set(&mut self, key: &str, value: &str) -> Option<Result<(), String>> {
        match key {
            "rate" => Some(rate(value).map(|v| self.rate = Some(v))),
            "delay" => Some(delay(value).map(|v| self.delay = Some(v))),
            "loss" => Some(loss(value).map(|v| self.loss = Some(v))),
            _ => None,
        }
    }

    /// What it does, each as a key and its value.
    pub fn words(self) -> Vec<(&'static str, String)> {
        let rate = self.rate.map(|v| ("rate", with_unit(v, &RATES)));
        let delay = self.delay.map(|v| ("delay", with_unit(v, &TIMES)));
        let loss = self.loss.map(|v| ("loss", format!("{}%", f64::from(v) / 1e7)));
        [rate, delay, loss].into_iter().flatten().collect()
    }
}

impl fmt::Display for Shape {
    /// Each word with a comma before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words().iter().try_for_each(|(key, value)| write!(f, ",{key}={value}"))
    }
}

/// Bits a second, as `1gbit` says them.
///
/// # Errors
/// What is expected in its place.
pub fn rate(text: &str) -> Result<u64, String> {
    let bits = number(text, &RATES).filter(|bits| Shape::RATE.contains(bits));
    bits.ok_or_else(|| "a rate from 1kbit to 1000gbit is expected, as 1gbit or 2.5gbit".into())
}

/// Nanoseconds, as `20us` says them.
///
/// # Errors
/// What is expected in its place.
pub fn delay(text: &str) -> Result<u64, String> {
    let ns = number(text, &TIMES).filter(|ns| (1..=Shape::DELAY_MAX).contains(ns));
    ns.ok_or_else(|| "a delay from 1ns to 10s is expected, as 20us or 1.5ms".into())
}

/// A share of [`WHOLE`], as `0.1%` says it.
///
/// # Errors
/// What is expected in its place.
pub fn loss(text: &str) -> Result<u32, String> {
    let share = number(text, &[("%", 1e7)]).filter(|share| (1..=WHOLE.into()).contains(share));
    let expected = "a share of more than 0% and at most 100% is expected, as 0.1%";
    share.map(|share| share as u32).ok_or_else(|| expected.into())
}

/// A number with one of these units.
fn number(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?;
    number.parse::<f64>().ok().map(|n| (n * factor).round() as u64)
}

/// The number in the largest unit in which it is a whole one.
fn with_unit(number: u64, units: &[(&str, f64)]) -> String {
    let mut text = String::new();
    for (name, factor) in units {
        if text.is_empty() || number.is_multiple_of(*factor as u64) {
            text = format!("{}{name}", number / *factor as u64);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written() {
        for (word, value) in [("1gbit", 1_000_000_000), ("2500MBit", 2_500_000_000)] {
            assert_eq!(rate(word), Ok(value));
        }
        assert_eq!(rate("2.5gbit"), Ok(2_500_000_000));
        assert_eq!(delay("20us"), Ok(20_000));
        assert_eq!(delay("0.5ms"), Ok(500_000));
        assert_eq!((loss("0.1%"), loss("100%")), (Ok(1_000_000), Ok(WHOLE)));
        let shape = Shape { rate: Some(2_500_000_000), delay: Some(20_000), loss: Some(12_345) };
        assert_eq!(shape.to_string(), ",rate=2500mbit,delay=20us,loss=0.0012345%");
        for (key, value) in shape.words() {
            let mut read = shape;
            assert_eq!(read.set(key, &value), Some(Ok(())), "{key}={value}");
            assert_eq!(read, shape);
        }
        assert_eq!(Shape::default().to_string(), "");
    }

    #[test]
    fn nonsense_is_refused_with_what_is_expected() {
        for word in ["", "1", "gbit", "1 gbit", "-1gbit", "1.2.3gbit", "5bit", "2000gbit", "1Gb/s"]
        {
            assert!(rate(word).unwrap_err().contains("1gbit"), "{word}");
        }
        for word in ["", "20", "us", "0us", "20usec", "11s", "-1us"] {
            assert!(delay(word).unwrap_err().contains("20us"), "{word}");
        }
        for word in ["", "0.1", "%", "0%", "101%", "-1%", "nan%"] {
            assert!(loss(word).unwrap_err().contains("0.1%"), "{word}");
        }
        assert_eq!(Shape::default().set("color", "red"), None);
    }

    #[test]
    fn what_one_shape_leaves_open_another_says() {
        let (slow, fast) = (rate("1mbit").ok(), rate("1gbit").ok());
        let both = Shape { rate: slow, ..Shape::default() }.or(Shape {
            rate: fast,
            delay: Some(1),
            loss: None,
        });
        assert_eq!(both, Shape { rate: slow, delay: Some(1), loss: None });
        assert!(both.is_slow_or_lossy() && !both.is_plain());
    }
}
