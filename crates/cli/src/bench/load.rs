//! What else runs on the machine while nothing of ours does: figures taken beside it say little.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// How long the machine is watched.
const WATCH: Duration = Duration::from_millis(200);

/// So many processors' worth of work beside a measurement spoil it.
const MUCH: f64 = 0.25;

/// What the kernel has counted of all processors' time since it was booted, clock ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ticks {
    all: u64,
    idle: u64,
    processors: usize,
}

impl Ticks {
    fn now() -> Option<Ticks> {
        Ticks::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line is `cpu user nice system idle iowait irq softirq steal guest guest_nice`, and
    /// the time of guests is in that of users, too. Lines of each processor follow.
    fn parse(stat: &str) -> Option<Ticks> {
        let mut words = stat.lines().next()?.split_ascii_whitespace();
        if words.next()? != "cpu" {
            return None;
        }
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let (&idle, &waiting) = (ticks.get(3)?, ticks.get(4)?);
        let processors = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
        Some(Ticks { all: ticks.iter().sum(), idle: idle + waiting, processors })
    }

    /// How many processors were at work since `before`, on average.
    fn busy_since(self, before: Ticks) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        let share = all.saturating_sub(idle) as f64 / all.max(1) as f64;
        share * self.processors as f64
    }
}

/// Watches the machine, on which nothing of ours runs, for a moment, and says so on standard error
/// if others are at work on it. What was said, without its beginning.
pub fn tell_of_others() -> Option<String> {
    let before = Ticks::now()?;
    sleep(WATCH);
    let after = Ticks::now()?;
    let note = note(after.busy_since(before), after.processors)?;
    eprintln!("weft: {note}");
    Some(note)
}

fn note(busy: f64, processors: usize) -> Option<String> {
    (busy >= MUCH).then(|| {
        format!(
            "other programs, or the host of this virtual machine, use {busy:.1} of \
             {processors} processors now: these figures will be worse than those of a quiet \
             machine. See what `top` shows, and measure again"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processors_did_is_read_from_the_kernels_count() {
        let stat = "cpu  10 1 5 100 20 2 3 4 7 7\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5 cpu\n";
        assert_eq!(Ticks::parse(stat), Some(Ticks { all: 145, idle: 120, processors: 2 }));
        for odd in ["", "cpu", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8", "cpu a b c d e f g h"] {
            assert_eq!(Ticks::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn others_are_told_of_where_they_use_much() {
        let before = Ticks { all: 1000, idle: 900, processors: 2 };
        let busy = Ticks { all: 1040, idle: 910, processors: 2 }.busy_since(before);
        assert_eq!(busy, 1.5);
        assert!(note(busy, 2).unwrap().contains("use 1.5 of 2 processors"));
        assert_eq!(note(before.busy_since(before), 2), None);
    }
}
