//! The last things that happened, to be shown when a run has failed.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::queue::Ns;

/// One thing that happened at a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it; `to`, `from` are processes, `n` a message")]
pub enum Act {
    Send { to: u32, n: u64, len: u64 },
    Announce { to: u32, n: u64, len: u64 },
    Message { from: u32, n: u64, len: u64 },
    Announced { from: u32, n: u64, len: u64 },
    Pull { from: u32, n: u64, len: u64 },
    Pulled { from: u32, n: u64 },
    Taken { by: u32, n: u64 },
    Await { to: u32, n: u64 },
    There { to: u32, n: u64 },
    WaitFailed { to: u32, n: u64 },
    PullFailed { from: u32, n: u64 },
    AnnounceFailed { to: u32, n: u64 },
    Withdraw { to: u32, n: u64, back: bool },
    Hold { peer: u32, on: bool },
    Dead { peer: u32 },
    Start { machine: u32 },
    Kill { machine: u32 },
    Freeze { machine: u32, for_ns: Ns },
    Slow { machine: u32, every_ns: Ns },
    Loss { millionths: u32 },
    Calm,
    Plug { machine: u32, link: u8, up: bool },
    Deaf { machine: u32, link: u8, out: bool, inward: bool },
    Cut { from: u32, to: u32, on: bool },
    Heal,
    Close,
    Closed,
}

/// The last acts, and a digest over all of them.
#[derive(Debug)]
pub struct Trace {
    last: VecDeque<(Ns, u32, Act)>,
    keep: usize,
    digest: u64,
    print: bool,
}

impl Trace {
    /// Keeps the last `keep` acts; `print` writes each to standard error as it happens.
    pub fn new(keep: usize, print: bool) -> Trace {
        Trace { last: VecDeque::with_capacity(keep), keep, digest: 0, print }
    }

    /// Notes an act of process `who` (or of the network, on machine `who`).
    pub fn note(&mut self, at: Ns, who: u32, act: Act) {
        // Equal digests of two runs of one seed show that nothing but the seed decides: any act,
        // process or time that differs changes it.
        let mut fold = Fold(self.digest);
        (at, who, act).hash(&mut fold);
        self.digest = fold.finish();
        if self.print {
            eprintln!("{}", line(&(at, who, act)));
        }
        if self.last.len() == self.keep {
            self.last.pop_front();
        }
        self.last.push_back((at, who, act));
    }

    /// Writes what `text` says of a frame to standard error, if everything is written.
    pub fn frame(&self, at: Ns, who: u32, text: impl FnOnce() -> String) {
        if self.print {
            eprintln!("{} {who:>3}   {}", Micros(at), text());
        }
    }

    /// A number that two equal runs share.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The acts kept, a line for each.
    pub fn lines(&self) -> Vec<String> {
        self.last.iter().map(line).collect()
    }
}

fn line((at, who, act): &(Ns, u32, Act)) -> String {
    format!("{} {who:>3} {act:?}", Micros(*at))
}

/// A cheap hash, which is the same in every process, unlike the library's.
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.0 = crate::rng::mix(self.0 ^ u64::from_le_bytes(word));
        }
    }
}

/// A time in microseconds with three decimals.
struct Micros(Ns);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12}.{:03}us", self.0 / 1000, self.0 % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(acts: &[(Ns, u32, Act)]) -> u64 {
        let mut trace = Trace::new(1, false);
        acts.iter().for_each(|&(at, who, act)| trace.note(at, who, act));
        trace.digest()
    }

    #[test]
    fn whatever_differs_in_two_runs_changes_the_digest() {
        let send = |n, len| Act::Send { to: 1, n, len };
        let one = [(5, 0, send(0, 10)), (6, 1, Act::Message { from: 0, n: 0, len: 10 })];
        assert_eq!(digest(&one), digest(&one));
        let others = [
            vec![(5, 0, send(0, 11)), one[1]],
            vec![(5, 0, send(1, 10)), one[1]],
            vec![(5, 0, Act::Announce { to: 1, n: 0, len: 10 }), one[1]],
            vec![(4, 0, send(0, 10)), one[1]],
            vec![(5, 2, send(0, 10)), one[1]],
            vec![one[0], (6, 1, Act::Calm)],
            vec![one[1], one[0]],
            vec![one[0]],
        ];
        for other in others {
            assert_ne!(digest(&one), digest(&other), "{other:?}");
        }
    }
}
