//! Ranks that are not there, or did not end well.

use super::Finding;
use crate::sums::Sums;
use crate::units::{many, ranks, time};
use crate::{Ended, Rank};

/// Nobody used Weft.
pub fn nobody(sums: &Sums) -> Vec<Finding> {
    if !sums.run.ranks.is_empty() {
        return Vec::new();
    }
    let what = "No rank opened Weft, so nothing is known of the run.".into();
    let cure = "Look whether the program runs on Weft at all: `weft mpirun` says which MPI library \
                it starts, and the program must use that one.";
    vec![Finding { cost: None, what, cure: cure.into() }]
}

/// The first rank that did not end well, and how many came after it. Of a job that was interrupted,
/// the signals by which that is done are none.
pub fn failed(sums: &Sums) -> Vec<Finding> {
    let mut failed = sums.failed();
    if sums.run.interrupted {
        failed.retain(|rank| ![9, 15].map(Ended::Signal).contains(&rank.ended));
    }
    let Some(first) = failed.first() else { return Vec::new() };
    let (node, after) = (sums.node(first.node), time(first.lasted_ns as f64));
    let how = end_text(first);
    let rank = ranks(&[first.rank]);
    let mut what = format!("{rank} on {node} {how} after {after}.");
    if failed.len() > 1 {
        let others = many(failed.len() - 1, "other");
        what.push_str(&format!(" So did {others} after it, perhaps for want of it."));
    }
    what.push_str(" All figures are of what was done until then.");
    vec![Finding { cost: None, what, cure: cure(first).into() }]
}

/// How a rank ended, as part of a sentence.
fn end_text(rank: &Rank) -> String {
    match rank.ended {
        Ended::Well => "ended well".into(),
        Ended::Code(code) => format!("ended with exit status {code}"),
        Ended::Signal(signal) => match name(signal) {
            Some(name) => format!("was ended by signal {signal} ({name})"),
            None => format!("was ended by signal {signal}"),
        },
        Ended::Unknown => "ended nobody knows how".into(),
    }
}

/// Names of the signals that end processes most often; these numbers are the same on all of
/// Linux's architectures that Weft runs on.
fn name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        _ => return None,
    })
}

fn cure(rank: &Rank) -> &'static str {
    match rank.ended {
        Ended::Signal(4 | 6 | 7 | 8 | 11) => {
            "That is a fault of the program, or of a library in it: what it wrote last tells more, \
             or a core file (`ulimit -c unlimited`) in a debugger."
        }
        Ended::Signal(9) => {
            "If nobody killed it, the kernel did, most often for want of memory: `dmesg` has a \
             line about it."
        }
        Ended::Signal(_) => {
            "Somebody sent that signal: a user, a time limit, or the launcher after another rank \
             had failed."
        }
        _ => "What it wrote last tells why.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{S, even};

    #[test]
    fn the_first_to_die_is_named_with_the_others_counted() {
        let mut run = even(4, 2);
        assert_eq!(failed(&Sums::new(&run)), []);
        run.ranks[1].ended = Ended::Signal(15);
        run.ranks[2].ended = Ended::Signal(11);
        run.ranks[2].lasted_ns = S;
        let found = failed(&Sums::new(&run)).remove(0);
        let said = "rank 2 on node1 was ended by signal 11 (SIGSEGV) after 1 s.";
        assert!(found.what.starts_with(said), "{}", found.what);
        assert!(found.what.contains("1 other after it"), "{}", found.what);
        assert!(found.cure.contains("fault of the program"), "{}", found.cure);
        run.ranks[2].ended = Ended::Code(3);
        let found = failed(&Sums::new(&run)).remove(0);
        assert!(found.what.contains("ended with exit status 3"), "{}", found.what);
        run.ranks[2].ended = Ended::Signal(64);
        let found = failed(&Sums::new(&run)).remove(0);
        assert!(found.what.contains("by signal 64 after"), "{}", found.what);
    }

    #[test]
    fn who_was_interrupted_has_not_failed() {
        let mut run = even(2, 1);
        run.interrupted = true;
        run.ranks[0].ended = Ended::Signal(15);
        run.ranks[1].ended = Ended::Signal(9);
        assert_eq!(failed(&Sums::new(&run)), []);
        run.ranks[1].ended = Ended::Signal(11);
        let found = failed(&Sums::new(&run)).remove(0);
        assert!(found.what.starts_with("rank 1 ") && !found.what.contains("other"), "{found:?}");
    }
}
