//! The rounds of a comparison: each contender in turn, so that a change of the machine's mood meets
//! all of them; and which rounds of a figure count.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use weft_sys::clock::now_ns;

use super::Args;
use super::contender::{Arena, Contender, Plan};
use super::mpi::Task;
use super::watch::{State, Watch, those_that_count};
use crate::CliError;
use crate::bench::figure::{Figure, by_figure, digits, join};
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

/// What came of one round of a contender.
#[derive(Debug, Default)]
pub struct Round {
    /// What was measured.
    pub figures: Vec<Timed>,
    /// What could not be.
    pub failed: Vec<Failure>,
}

/// Something that could not be measured, and is not tried again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What; none: nothing of the contender could.
    pub task: Option<Task>,
    /// Why.
    pub why: String,
}

/// What came of all rounds.
pub struct Outcome {
    /// The medians of the rounds that count.
    pub figures: Vec<Figure>,
    /// What failed: the contender's place in the list, and what of it.
    pub failed: Vec<(usize, Option<Task>)>,
    /// What is to be said about rounds that do not count, or that were not run.
    pub notes: Vec<String>,
}

/// So many times the rounds that were asked for are run at most, where processors are moved.
const MORE: u32 = 3;

/// One contender's place in the comparison.
struct Entry<'a> {
    contender: &'a Contender,
    figures: Vec<Timed>,
    failed: Vec<Failure>,
    /// How long its last round took.
    took: Duration,
}

/// Runs the rounds, and those of a contender once more for which too few count. When the plan's
/// time is up no others begin, but each contender has one.
///
/// # Errors
/// When a signal came.
pub fn run(
    args: &Args,
    plan: &Plan,
    contenders: &[Contender],
    arena: &mut Arena<'_>,
) -> Result<Outcome, CliError> {
    let (rounds, begun) = (plan.rounds, Instant::now());
    let watch = Watch::start();
    let bar = progress(u64::from(rounds) * contenders.len() as u64);
    let mut entries: Vec<Entry<'_>> = contenders.iter().map(Entry::new).collect();
    // A single round is asked for by who is in a hurry.
    let most = if rounds > 1 && !args.quick { rounds * MORE } else { rounds };
    let mut left_out = 0;
    for round in 0..most {
        let more = round >= rounds;
        let judge = Judge::new(watch.as_ref().filter(|_| more), plan.ms);
        for entry in &mut entries {
            if more && !judge.as_ref().is_some_and(|judge| entry.wants(judge, rounds)) {
                continue;
            }
            bar.inc_length(u64::from(more));
            bar.set_message(entry.contender.title());
            let late = round > 0 && begun.elapsed() + entry.took > plan.limit;
            left_out += u32::from(late && !more);
            if !entry.is_out() && !late {
                entry.round(plan, arena, &bar)?;
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let mut notes = Vec::new();
    if left_out > 0 {
        let minutes = plan.limit.as_secs_f64() / 60.0;
        let all = rounds * entries.len() as u32;
        notes.push(format!(
            "weft: {left_out} of {all} rounds were left out after {} minutes",
            digits(minutes)
        ));
    }
    let failed = entries.iter_mut().enumerate().flat_map(|(at, entry)| {
        entry.failed.drain(..).map(move |failure| (at, failure.task)).collect::<Vec<_>>()
    });
    let failed = failed.collect();
    let all: Vec<Timed> = entries.into_iter().flat_map(|entry| entry.figures).collect();
    let (figures, note) = outcome(&all, Judge::new(watch.as_ref(), plan.ms).as_ref());
    notes.extend(note);
    Ok(Outcome { figures, failed, notes })
}

/// Tells which rounds count, by how the processors stood while they were run.
struct Judge<'a> {
    watch: &'a Watch,
    usual_way_ns: f64,
    /// How long a figure takes.
    ms: u64,
}

impl<'a> Judge<'a> {
    /// `None` where nothing is known.
    fn new(watch: Option<&'a Watch>, ms: u64) -> Option<Judge<'a>> {
        let watch = watch?;
        Some(Judge { watch, usual_way_ns: watch.usual_way_ns()?, ms })
    }

    fn state(&self, timed: &Timed) -> Option<State> {
        self.watch.between(timed.at_ns.saturating_sub(self.ms * 1_000_000), timed.at_ns)
    }

    fn is_usual(&self, state: &State) -> bool {
        state.is_usual(self.usual_way_ns)
    }
}

impl<'a> Entry<'a> {
    fn new(contender: &'a Contender) -> Entry<'a> {
        let took = Duration::ZERO;
        Entry { contender, figures: Vec::new(), failed: Vec::new(), took }
    }

    /// Whether nothing of it can be measured.
    fn is_out(&self) -> bool {
        self.failed.iter().any(|failure| failure.task.is_none())
    }

    /// One round more.
    fn round(
        &mut self,
        plan: &Plan,
        arena: &mut Arena<'_>,
        bar: &ProgressBar,
    ) -> Result<(), CliError> {
        let begun = Instant::now();
        let measured = self.contender.round(plan, arena, &self.failed);
        self.took = begun.elapsed();
        arena.stop.check()?;
        let round = measured.unwrap_or_else(|why| Round {
            figures: Vec::new(),
            failed: vec![Failure { task: None, why: why.to_string() }],
        });
        let label = &self.contender.label;
        for Failure { task, why } in &round.failed {
            bar.suspend(|| match task {
                Some(task) => eprintln!("weft: {label}: {task} failed: {why}"),
                None => eprintln!("weft: {label} is left out: {why}"),
            });
        }
        self.figures.extend(round.figures);
        self.failed.extend(round.failed);
        Ok(())
    }

    /// Whether of one of its figures less than half as many rounds count, as far as is known, as
    /// were asked for.
    fn wants(&self, judge: &Judge<'_>, rounds: u32) -> bool {
        let counts = |timed: &&&Timed| judge.state(timed).is_none_or(|s| judge.is_usual(&s));
        let few = |of: &Vec<&Timed>| of.iter().filter(counts).count() < rounds.div_ceil(2) as usize;
        !self.is_out() && by_figure(&self.figures, |timed| &timed.figure).iter().any(few)
    }
}

/// The medians of the rounds that count, and what is to be said about the others. Without a judge
/// all count.
fn outcome(all: &[Timed], judge: Option<&Judge<'_>>) -> (Vec<Figure>, Option<String>) {
    let mut figures = Vec::new();
    let mut others: Vec<f64> = Vec::new();
    for rounds in by_figure(all, |timed| &timed.figure) {
        let mut those: Vec<&Figure> = rounds.iter().map(|timed| &timed.figure).collect();
        if let Some(judge) = judge {
            let states: Vec<Option<State>> = rounds.iter().map(|t| judge.state(t)).collect();
            let count = those_that_count(&states, judge.usual_way_ns);
            those = count.into_iter().map(|at| those[at]).collect();
            let other = states.iter().flatten().filter(|state| !judge.is_usual(state));
            others.extend(other.map(|state| state.way_ns));
        }
        figures.extend(join(&those));
    }
    let note = judge.and_then(|judge| note(&mut others, judge.usual_way_ns, all.len()));
    (figures, note)
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
            mpi_us: None,
            share: None,
        })
    }

    #[test]
    fn rounds_of_a_figure_are_found_again() {
        let all = [timed("a", 1.0), timed("b", 2.0), timed("a", 3.0)];
        let counts: Vec<usize> = by_figure(&all, |t| &t.figure).iter().map(Vec::len).collect();
        assert_eq!(counts, [2, 1]);
        let (figures, note) = outcome(&all, None);
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
