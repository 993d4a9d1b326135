//! What each rank has measured of the same operations, brought together at rank 0: the mean over
//! ranks of each rank's shortest, mean and longest, as MCD's authors give them, and how far apart
//! ranks leave one operation.

use serde::Serialize;
use weft::endpoint::Endpoint;
use weft::error::Error;

use crate::bench::figure::Spread;
use crate::bench::samples::Samples;

/// Goes with what ranks say of themselves.
const TAG: u64 = 79;
/// Of so many operations of the last block at most it is known when each was left.
const LEFT_MAX: usize = 4096;

/// What a rank measures.
#[derive(Default)]
pub(super) struct Times {
    samples: Samples,
    /// Of the last block: when each operation was left, ns of the monotonic clock.
    left_ns: Vec<u64>,
}

impl Times {
    /// A block begins, which all ranks go through.
    pub(super) fn begin(&mut self) {
        self.left_ns.clear();
    }

    /// Notes that `count` operations took `ns` together, and the last was left at `now_ns`.
    pub(super) fn record(&mut self, ns: u64, count: u32, now_ns: u64) {
        self.samples.record(ns, u64::from(count));
        if self.left_ns.len() < LEFT_MAX {
            self.left_ns.push(now_ns);
        }
    }

    /// What the first so many ranks have measured, by rank; `None` at all but rank 0.
    ///
    /// # Errors
    /// When one of them is gone.
    pub(super) fn collect(
        self,
        endpoint: &Endpoint,
        ranks: u32,
    ) -> Result<Option<Vec<Took>>, Error> {
        let took = Took {
            spread: self.samples.spread(),
            max: self.samples.max_us(),
            left_ns: self.left_ns,
            clock: clock(),
        };
        if endpoint.rank() != 0 {
            endpoint.send(0, TAG, &encode(&took))?;
            return Ok(None);
        }
        let mut all = vec![took];
        for rank in 1..ranks {
            let mut bytes = vec![0; 8 * (WORDS + LEFT_MAX)];
            let status = endpoint.recv(rank, TAG, &mut bytes)?;
            all.push(decode(&bytes[..status.len.min(bytes.len())]));
        }
        Ok(Some(all))
    }
}

/// What one rank has measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Took {
    /// Of an operation, us: shortest, half, 99 of 100, mean.
    spread: Spread,
    /// The longest, us.
    max: f64,
    /// As in [`Times`].
    left_ns: Vec<u64>,
    /// Which boot of which kernel that clock is of.
    clock: u64,
}

/// All ranks beside each other, as JSON has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Ranks {
    /// The means over ranks of each rank's shortest, of its mean and of its longest operation.
    pub(super) rank_min_us: f64,
    pub(super) rank_mean_us: f64,
    pub(super) rank_max_us: f64,
    /// The least and the greatest of the ranks' means.
    pub(super) least_mean_us: f64,
    pub(super) greatest_mean_us: f64,
    /// From the first rank that leaves to the last, the mean; where all share a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_skew_us: Option<f64>,
    /// Each by itself, by rank.
    each_rank: Vec<Own>,
}

/// One rank's own.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Own {
    min_us: f64,
    mean_us: f64,
    max_us: f64,
}

impl Ranks {
    /// Of what the ranks have measured.
    pub(super) fn of(all: &[Took]) -> Ranks {
        let means = || all.iter().map(|took| took.spread.mean);
        let own = |took: &Took| Own {
            min_us: took.spread.min,
            mean_us: took.spread.mean,
            max_us: took.max,
        };
        Ranks {
            rank_min_us: mean(all, |took| took.spread.min),
            rank_mean_us: mean(all, |took| took.spread.mean),
            rank_max_us: mean(all, |took| took.max),
            least_mean_us: means().fold(f64::INFINITY, f64::min),
            greatest_mean_us: means().fold(0.0, f64::max),
            exit_skew_us: skew_us(all),
            each_rank: all.iter().map(own).collect(),
        }
    }
}

/// How operations are spread: the shortest of any rank, the means over ranks of the others.
pub(super) fn spread(all: &[Took]) -> Spread {
    Spread {
        min: all.iter().map(|took| took.spread.min).fold(f64::INFINITY, f64::min),
        p50: mean(all, |took| took.spread.p50),
        p99: mean(all, |took| took.spread.p99),
        mean: mean(all, |took| took.spread.mean),
    }
}

fn mean(all: &[Took], of: fn(&Took) -> f64) -> f64 {
    all.iter().map(of).sum::<f64>() / all.len() as f64
}

/// The mean time from the first rank that leaves an operation to the last.
fn skew_us(all: &[Took]) -> Option<f64> {
    let first = all.first()?;
    if all.iter().any(|took| took.clock != first.clock) {
        return None;
    }
    let count = all.iter().map(|took| took.left_ns.len()).min().filter(|count| *count > 0)?;
    let skew = |at: usize| {
        let times = || all.iter().map(|took| took.left_ns[at]);
        (times().max().unwrap_or(0) - times().min().unwrap_or(0)) as f64 / 1000.0
    };
    Some((0..count).map(skew).sum::<f64>() / count as f64)
}

/// Names the clock, so that only times of one clock are compared.
fn clock() -> u64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.bytes()
        .filter_map(|b| char::from(b).to_digit(16))
        .fold(0, |h: u64, d| h.wrapping_mul(31).wrapping_add(u64::from(d)))
}

/// What a rank says before the times at which it left.
const WORDS: usize = 6;

fn encode(took: &Took) -> Vec<u8> {
    let Spread { min, p50, p99, mean } = took.spread;
    let words: [u64; WORDS - 1] = [min, p50, p99, mean, took.max].map(f64::to_bits);
    let words = words.iter().chain([&took.clock]).chain(&took.left_ns);
    words.flat_map(|word| word.to_le_bytes()).collect()
}

fn decode(bytes: &[u8]) -> Took {
    let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let mut next = || words.next().unwrap_or(0);
    let [min, p50, p99, mean, max] = std::array::from_fn(|_| f64::from_bits(next()));
    let clock = next();
    Took { spread: Spread { min, p50, p99, mean }, max, clock, left_ns: words.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(mean: f64, left_ns: &[u64], clock: u64) -> Took {
        let spread = Spread { min: mean / 2.0, p50: 2.0, p99: 3.0, mean };
        Took { spread, max: 2.0 * mean, left_ns: left_ns.to_vec(), clock }
    }

    #[test]
    fn what_a_rank_says_is_understood_and_cut_words_are_zeros() {
        let said = took(2.5, &[10, 20, 30], 7);
        assert_eq!(decode(&encode(&said)), said);
        assert_eq!(decode(&encode(&said)[..20]).clock, 0);
    }

    #[test]
    fn skew_is_the_mean_over_operations_and_only_of_one_clock() {
        let all = [took(1.0, &[1000, 5000], 7), took(3.0, &[3000, 9000], 7)];
        assert_eq!(skew_us(&all), Some(3.0));
        assert_eq!(skew_us(&[all[0].clone(), took(1.0, &[1, 2], 8)]), None);
        assert_eq!(skew_us(&[all[0].clone(), took(1.0, &[], 7)]), None);
    }

    #[test]
    fn ranks_are_told_together_and_each_by_itself() {
        let all = [took(1.0, &[1000], 7), took(3.0, &[3000], 7)];
        let ranks = Ranks::of(&all);
        assert_eq!((ranks.rank_min_us, ranks.rank_mean_us, ranks.rank_max_us), (1.0, 2.0, 4.0));
        assert_eq!((ranks.least_mean_us, ranks.greatest_mean_us), (1.0, 3.0));
        assert_eq!((spread(&all).min, spread(&all).mean), (0.5, 2.0));
        let text = serde_json::to_string(&ranks).unwrap();
        let second = "{\"min_us\":1.5,\"mean_us\":3.0,\"max_us\":6.0}";
        assert!(text.contains(second) && text.contains("\"exit_skew_us\":2.0"), "{text}");
    }

    #[test]
    fn times_of_a_block_are_those_of_the_last_one_and_bounded() {
        let mut times = Times::default();
        for block in 0..2u64 {
            times.begin();
            (0..=LEFT_MAX as u64).for_each(|at| times.record(1000, 1, 10_000 * block + at));
        }
        assert_eq!((times.left_ns.len(), times.left_ns[0]), (LEFT_MAX, 10_000));
    }
}
