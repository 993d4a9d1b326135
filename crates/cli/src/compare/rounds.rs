//! The rounds of a comparison: each contender in turn, so that a change of the machine's mood meets
//! all of them; and which rounds of a figure count.

use indicatif::ProgressBar;
use weft_sys::clock::now_ns;

use super::Args;
use super::contender::{Arena, Contender, Plan};
use super::watch::{State, Watch, those_that_count};
use crate::CliError;
use crate::bench::figure::{Figure, digits, join_rounds};
use crate::bench::floors::progress;

/// A figure, and when it was ready.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The figure.
    pub figure: Figure,
    /// By the monotonic clock.
    pub at_ns: u64,
}

impl Timed {
    /// A figure that is ready now.
    pub fn now(figure: Figure) -> Timed {
        Timed { figure, at_ns: now_ns() }
    }
}

/// What came of all rounds.
pub struct Outcome {
    /// The medians of the rounds that count.
    pub figures: Vec<Figure>,
    /// The name of a Weft contender that failed.
    pub failed: Option<String>,
    /// What is to be said about rounds that do not count.
    pub note: Option<String>,
}

/// So many times the rounds that were asked for are run at most, where processors are moved.
const MORE: u32 = 3;

/// One contender's place in the comparison.
struct Entry<'a> {
    contender: &'a Contender,
    figures: Vec<Timed>,
    /// It has failed.
    out: bool,
}

/// Runs the rounds, and those of a contender once more for which too few count.
///
/// # Errors
/// When a signal came.
pub fn run(
    args: &Args,
    plan: &Plan,
    contenders: &[Contender],
    arena: &mut Arena<'_>,
) -> Result<Outcome, CliError> {
    let rounds = args.rounds.unwrap_or(if args.quick { 2 } else { 3 });
    let watch = Watch::start();
    let bar = progress(u64::from(rounds) * contenders.len() as u64);
    let entry = |contender| Entry { contender, figures: Vec::new(), out: false };
    let mut entries: Vec<Entry<'_>> = contenders.iter().map(entry).collect();
    for round in 0..rounds * MORE {
        let more = round >= rounds;
        for entry in &mut entries {
            if more && !entry.wants(watch.as_ref(), plan.ms, rounds) {
                continue;
            }
            bar.inc_length(u64::from(more));
            bar.set_message(entry.contender.label.clone());
            if !entry.out {
                entry.round(plan, arena, &bar)?;
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let failed = entries.iter().find(|entry| entry.out && entry.contender.is_weft());
    let failed = failed.map(|entry| entry.contender.label.clone());
    let all: Vec<Timed> = entries.into_iter().flat_map(|entry| entry.figures).collect();
    let (figures, note) = join(&all, watch.as_ref(), plan.ms);
    Ok(Outcome { figures, failed, note })
}

/// How the processors stood while a figure was taken.
fn state(watch: &Watch, timed: &Timed, ms: u64) -> Option<State> {
    watch.between(timed.at_ns.saturating_sub(ms * 1_000_000), timed.at_ns)
}

/// Each figure that there is, with all its rounds, in the order in which they first came.
fn by_figure(all: &[Timed]) -> Vec<Vec<&Timed>> {
    let mut sorted: Vec<Vec<&Timed>> = Vec::new();
    for timed in all {
        match sorted.iter_mut().find(|rounds| rounds[0].figure.same_as(&timed.figure)) {
            Some(rounds) => rounds.push(timed),
            None => sorted.push(vec![timed]),
        }
    }
    sorted
}

impl Entry<'_> {
    /// One round more.
    fn round(
        &mut self,
        plan: &Plan,
        arena: &mut Arena<'_>,
        bar: &ProgressBar,
    ) -> Result<(), CliError> {
        let measured = self.contender.round(plan, arena);
        arena.stop.check()?;
        match measured {
            Ok(more) => self.figures.extend(more),
            Err(why) => {
                let label = &self.contender.label;
                bar.suspend(|| eprintln!("weft: {label} is left out: {why}"));
                self.out = true;
            }
        }
        Ok(())
    }

    /// Whether of one of its figures less than half as many rounds count, as far as is known, as
    /// were asked for. (A single one is asked for by who is in a hurry.)
    fn wants(&self, watch: Option<&Watch>, ms: u64, rounds: u32) -> bool {
        let usual = watch.and_then(|watch| Some((watch, watch.usual_way_ns()?)));
        let Some((watch, usual)) = usual.filter(|_| !self.out && rounds > 1) else { return false };
        let counts = |timed: &&Timed| state(watch, timed, ms).is_none_or(|s| s.is_usual(usual));
        let few = |of: &Vec<&Timed>| {
            let count = of.iter().copied().filter(counts).count();
            count < rounds.div_ceil(2) as usize
        };
        by_figure(&self.figures).iter().any(few)
    }
}

/// The medians of the rounds that count, and what is to be said about the others.
fn join(all: &[Timed], watch: Option<&Watch>, ms: u64) -> (Vec<Figure>, Option<String>) {
    let every = || all.iter().map(|timed| timed.figure.clone()).collect::<Vec<Figure>>();
    let usual = watch.and_then(|watch| Some((watch, watch.usual_way_ns()?)));
    let Some((watch, usual)) = usual else { return (join_rounds(&every()), None) };
    let mut counted = Vec::new();
    let mut others: Vec<f64> = Vec::new();
    for rounds in by_figure(all) {
        let states: Vec<Option<State>> =
            rounds.iter().map(|timed| state(watch, timed, ms)).collect();
        let those = those_that_count(&states, usual);
        counted.extend(those.into_iter().map(|at| rounds[at].figure.clone()));
        let other = |state: &State| !state.is_usual(usual);
        others.extend(states.iter().flatten().filter(|s| other(s)).map(|s| s.way_ns));
    }
    (join_rounds(&counted), note(&mut others, usual, all.len()))
}

/// Says that processors were moved, if many figures met it.
fn note(others: &mut [f64], usual: f64, all: usize) -> Option<String> {
    others.sort_by(f64::total_cmp);
    let (first, last) = (others.first()?, others.last()?);
    (others.len() * 10 > all).then(|| {
        format!(
            "weft: while {} of {all} figures were taken, the host of this virtual machine had its \
             processors nearer to or farther from each other than most of the time (a cache line \
             there and back took {} to {} ns, else {}): those count only where there are no others",
            others.len(),
            digits(*first),
            digits(*last),
            digits(usual)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figure::Value;

    fn timed(device: &str, rate: f64) -> Timed {
        Timed::now(Figure {
            bench: "rate".into(),
            device: device.into(),
            ranks: 2,
            bytes: 8,
            mode: None,
            value: Value::MessagesPerS(rate),
            cpu_s_per_gb: None,
        })
    }

    #[test]
    fn rounds_of_a_figure_are_found_again() {
        let all = [timed("a", 1.0), timed("b", 2.0), timed("a", 3.0)];
        let counts: Vec<usize> = by_figure(&all).iter().map(Vec::len).collect();
        assert_eq!(counts, [2, 1]);
        let (figures, note) = join(&all, None, 10);
        let rates: Vec<f64> = figures.iter().map(|f| f.value.number()).collect();
        assert_eq!((rates, note), (vec![2.0, 2.0], None));
    }

    #[test]
    fn moved_processors_are_told_of_where_they_are_many() {
        assert_eq!(note(&mut [500.0], 100.0, 100), None);
        assert_eq!(note(&mut [], 100.0, 100), None);
        let text = note(&mut [500.0, 50.0], 100.0, 8).expect("two of eight");
        assert!(text.contains("2 of 8") && text.contains("50.0 to 500 ns, else 100"), "{text}");
    }
}
