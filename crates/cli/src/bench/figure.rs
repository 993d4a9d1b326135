//! One measured figure, as it is written to JSON and read back from child processes.

use serde::{Deserialize, Serialize};

/// How a time is spread over its samples, us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The shortest.
    pub min: f64,
    /// Half are shorter.
    pub p50: f64,
    /// All but one in a hundred are shorter.
    pub p99: f64,
    /// The mean.
    pub mean: f64,
}

impl Spread {
    /// That of several rounds: the median of each number.
    pub fn median(rounds: impl Iterator<Item = Spread> + Clone) -> Spread {
        let of = |number: fn(Spread) -> f64| median(rounds.clone().map(number));
        Spread { min: of(|s| s.min), p50: of(|s| s.p50), p99: of(|s| s.p99), mean: of(|s| s.mean) }
    }
}

/// A figure with its unit; the unit is the name of the field in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// There and back.
    RttUs(Spread),
    /// One operation.
    TimeUs(Spread),
    /// Payload, in millions of bytes per second.
    BandwidthMbS(f64),
    /// Messages in one direction.
    MessagesPerS(f64),
    /// Processor time by the clock's time.
    CpuPercent(f64),
    /// Things that were counted, for each message.
    Count(f64),
}

impl Value {
    /// The one number that ratios are made of: the median time in us, or the rate.
    pub fn number(&self) -> f64 {
        match self {
            Value::RttUs(s) | Value::TimeUs(s) => s.p50,
            Value::BandwidthMbS(v) | Value::MessagesPerS(v) => *v,
            Value::CpuPercent(v) | Value::Count(v) => *v,
        }
    }

    /// The unit of [`Value::number`], as names of fields end.
    pub fn unit(&self) -> &'static str {
        match self {
            Value::RttUs(_) | Value::TimeUs(_) => "us",
            Value::BandwidthMbS(_) => "mb_s",
            Value::MessagesPerS(_) => "messages_per_s",
            Value::CpuPercent(_) => "percent",
            Value::Count(_) => "count",
        }
    }

    /// For people: three digits and a unit.
    pub fn text(&self) -> String {
        match self {
            Value::RttUs(s) | Value::TimeUs(s) => format!("{} us", digits(s.p50)),
            Value::BandwidthMbS(v) if *v >= 1000.0 => format!("{} GB/s", digits(v / 1000.0)),
            Value::BandwidthMbS(v) => format!("{} MB/s", digits(*v)),
            Value::MessagesPerS(v) => format!("{} M/s", digits(v / 1e6)),
            Value::CpuPercent(v) => format!("{} %", digits(*v)),
            Value::Count(v) => digits(*v),
        }
    }

    /// The figure of several rounds: the median of each of its numbers. `None` without rounds.
    pub fn median(rounds: &[Value]) -> Option<Value> {
        let spread = |of: fn(&Value) -> Spread| Spread::median(rounds.iter().map(of));
        let time = |v: &Value| match v {
            Value::RttUs(s) | Value::TimeUs(s) => *s,
            other => Spread { p50: other.number(), ..Spread::default() },
        };
        let number = median(rounds.iter().map(Value::number));
        Some(match rounds.first()? {
            Value::RttUs(_) => Value::RttUs(spread(time)),
            Value::TimeUs(_) => Value::TimeUs(spread(time)),
            Value::BandwidthMbS(_) => Value::BandwidthMbS(number),
            Value::MessagesPerS(_) => Value::MessagesPerS(number),
            Value::CpuPercent(_) => Value::CpuPercent(number),
            Value::Count(_) => Value::Count(number),
        })
    }
}

/// What a step of a program that exchanges boundaries is made of, us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// All of it.
    pub step_us: Spread,
    /// Computation.
    pub compute_us: Spread,
    /// What of the exchange has gone by, by packing and starting, before anything is waited for.
    pub pack_us: Spread,
    /// The whole exchange, packing included.
    pub wait_us: Spread,
}

/// One line of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured: `lat`, `bw`, `rate`, `floor`, ...
    pub bench: String,
    /// By what means: a device of Weft, a floor, or another message library's transport.
    pub device: String,
    /// Processes that took part.
    pub ranks: u32,
    /// Bytes of one message.
    pub bytes: u64,
    /// The way it was measured, where there are several: `endpoint`, `bidirectional`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The figure.
    #[serde(flatten)]
    pub value: Value,
    /// Processor seconds of both ends for a thousand million bytes, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s_per_gb: Option<f64>,
    /// How much of the time a program spent in MPI, us, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_us: Option<f64>,
    /// What a step is made of, where it was measured.
    #[serde(flatten)]
    pub share: Option<Share>,
}

impl Figure {
    /// Whether `other` is another round of the same figure.
    pub fn same_as(&self, other: &Figure) -> bool {
        (&self.bench, &self.device, self.ranks, self.bytes, &self.mode)
            == (&other.bench, &other.device, other.ranks, other.bytes, &other.mode)
    }
}

/// All rounds of each figure, in the order in which the figures first came.
pub fn by_figure<T>(all: &[T], figure: impl Fn(&T) -> &Figure) -> Vec<Vec<&T>> {
    let mut sorted: Vec<Vec<&T>> = Vec::new();
    for round in all {
        match sorted.iter_mut().find(|rounds| figure(rounds[0]).same_as(figure(round))) {
            Some(rounds) => rounds.push(round),
            None => sorted.push(vec![round]),
        }
    }
    sorted
}

/// The rounds of one figure as one. `None` without rounds.
pub fn join(rounds: &[&Figure]) -> Option<Figure> {
    let values: Vec<Value> = rounds.iter().map(|f| f.value).collect();
    let of = |number: fn(&Figure) -> Option<f64>| {
        let all: Vec<f64> = rounds.iter().filter_map(|f| number(f)).collect();
        (!all.is_empty()).then(|| median(all.iter().copied()))
    };
    let (cpu_s_per_gb, mpi_us) = (of(|f| f.cpu_s_per_gb), of(|f| f.mpi_us));
    let shares: Vec<Share> = rounds.iter().filter_map(|f| f.share).collect();
    let spread = |part: fn(&Share) -> Spread| Spread::median(shares.iter().map(part));
    let share = (!shares.is_empty()).then(|| Share {
        step_us: spread(|s| s.step_us),
        compute_us: spread(|s| s.compute_us),
        pack_us: spread(|s| s.pack_us),
        wait_us: spread(|s| s.wait_us),
    });
    let first: Figure = (*rounds.first()?).clone();
    Some(Figure { value: Value::median(&values)?, cpu_s_per_gb, mpi_us, share, ..first })
}

/// Joins the rounds of each figure into one, in the order in which they first came.
pub fn join_rounds(all: &[Figure]) -> Vec<Figure> {
    by_figure(all, |figure| figure).iter().filter_map(|rounds| join(rounds)).collect()
}

/// The middle one; the mean of the two in the middle where there are as many on both sides; 0 for
/// none.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// A number with three significant digits, as people write it.
pub fn digits(v: f64) -> String {
    match v.abs() {
        a if a >= 100.0 => format!("{v:.0}"),
        a if a >= 10.0 => format!("{v:.1}"),
        _ => format!("{v:.2}"),
    }
}

/// A count of bytes, as people write it: `64`, `4K`, `1M`.
pub fn size_text(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{}M", b >> 20),
        b if b >= 1 << 10 && b % (1 << 10) == 0 => format!("{}K", b >> 10),
        b => b.to_string(),
    }
}

/// Reads a count of bytes: a number, or one with `K`, `M` or `G` (powers of 1024).
///
/// # Errors
/// A message that says what was expected.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.trim().to_ascii_uppercase().trim_end_matches("IB") {
        t if t.ends_with('K') => (t[..t.len() - 1].to_owned(), 10),
        t if t.ends_with('M') => (t[..t.len() - 1].to_owned(), 20),
        t if t.ends_with('G') => (t[..t.len() - 1].to_owned(), 30),
        t => (t.to_owned(), 0),
    };
    let n: Option<u64> = number.parse().ok().and_then(|n: u64| n.checked_mul(1 << shift));
    n.filter(|n| *n <= 1 << 40).ok_or_else(|| format!("`{text}` is no size like 64, 4K or 1M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: Value) -> Figure {
        let (bench, device, mode) = ("lat".into(), "shm".into(), None);
        let (cpu_s_per_gb, mpi_us, share) = (None, None, None);
        Figure { bench, device, ranks: 2, bytes: 8, mode, value, cpu_s_per_gb, mpi_us, share }
    }

    #[test]
    fn a_figure_survives_json_and_names_its_unit() {
        let spread = Spread { min: 1.0, p50: 2.0, p99: 3.0, mean: 2.5 };
        let all = [
            Value::RttUs(spread),
            Value::TimeUs(spread),
            Value::BandwidthMbS(5.0),
            Value::MessagesPerS(6.0),
            Value::CpuPercent(0.5),
            Value::Count(1.5),
        ];
        let units =
            ["rtt_us", "time_us", "bandwidth_mb_s", "messages_per_s", "cpu_percent", "count"];
        for (value, unit) in all.into_iter().zip(units) {
            let text = serde_json::to_string(&figure(value)).unwrap();
            assert!(text.contains(&format!("\"{unit}\":")), "{text}");
            assert_eq!(serde_json::from_str::<Figure>(&text).unwrap(), figure(value));
        }
    }

    #[test]
    fn a_step_tells_what_it_is_made_of_and_rounds_of_it_join() {
        let step = |wait: f64| {
            let wait_us = Spread { p50: wait, ..Spread::default() };
            let share = Some(Share { wait_us, ..Share::default() });
            Figure { share, ..figure(Value::TimeUs(Spread::default())) }
        };
        let text = serde_json::to_string(&step(3.0)).unwrap();
        assert!(text.contains("\"wait_us\":{\"min\":0.0,\"p50\":3.0"), "{text}");
        assert_eq!(serde_json::from_str::<Figure>(&text).unwrap(), step(3.0));
        assert_eq!(join_rounds(&[step(3.0), step(9.0), step(4.0)]), [step(4.0)]);
    }

    #[test]
    fn rounds_join_to_their_median() {
        let rounds = [3.0, 100.0, 4.0].map(|v| figure(Value::BandwidthMbS(v)));
        let joined = join_rounds(&rounds);
        assert_eq!(joined, [figure(Value::BandwidthMbS(4.0))]);
        assert_eq!(median([1.0, 2.0].into_iter()), 1.5);
        assert_eq!(median([].into_iter()), 0.0);
    }

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [("8", 8), ("64", 64), ("4K", 4096), ("1M", 1 << 20)] {
            assert_eq!(parse_size(text), Ok(bytes));
            assert_eq!(size_text(bytes), text);
        }
        assert_eq!(parse_size("1MiB"), Ok(1 << 20));
        for bad in ["", "K", "-1", "1X", "99999999999999999999", "9999999999G"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
