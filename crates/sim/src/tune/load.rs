//! What programs do: loads that are made up, loads that were recorded, and mixtures of both.

use crate::queue::Ns;
use crate::rng::Rng;

/// What a program does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Compute(Ns),
    Send(u64),
    /// Waits until so many bytes more have come.
    Receive(u64),
}

use Op::{Compute, Receive, Send};

/// A part of a program that is repeated.
#[derive(Clone, Debug)]
struct Phase {
    /// By node.
    ops: [Vec<Op>; 2],
    times: u64,
}

/// What the programs of two nodes do.
#[derive(Clone, Debug)]
pub struct Load {
    /// For people.
    pub name: &'static str,
    phases: Vec<Phase>,
}

/// Where a node's program is.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    phases: &'a [Phase],
    node: usize,
    phase: usize,
    round: u64,
    op: usize,
}

impl Cursor<'_> {
    pub fn next(&mut self) -> Option<Op> {
        loop {
            let phase = self.phases.get(self.phase)?;
            if self.round == phase.times {
                (self.phase, self.round) = (self.phase + 1, 0);
                continue;
            }
            let op = phase.ops[self.node].get(self.op).copied();
            self.op += 1;
            if op.is_some() {
                return op;
            }
            (self.round, self.op) = (self.round + 1, 0);
        }
    }
}

/// How long a load is without anything in its way, about; long against the interval of decisions.
const LONG_NS: Ns = 600_000_000;

impl Load {
    pub(super) fn program(&self, node: usize) -> Cursor<'_> {
        Cursor { phases: &self.phases, node, phase: 0, round: 0, op: 0 }
    }

    /// The ops over and over, for about so long.
    fn repeated(name: &'static str, ops: [Vec<Op>; 2], long_ns: Ns) -> Load {
        let ns = |ops: &[Op]| -> Ns {
            let each = ops.iter().map(|op| match op {
                Compute(ns) => *ns,
                Send(bytes) => 2_000 + bytes * 8,
                Receive(_) => 5_000,
            });
            each.sum()
        };
        let once = ops.iter().map(|ops| ns(ops)).max().unwrap_or(1).max(1);
        Load { name, phases: vec![Phase { ops, times: (long_ns / once).max(1) }] }
    }

    /// One after the other, again and again.
    fn mixed(name: &'static str, parts: &[Load], times: usize) -> Load {
        let once = parts.iter().flat_map(|part| part.phases.iter().cloned());
        let once: Vec<Phase> = once.collect();
        let phases = std::iter::repeat_n(once, times).flatten().collect();
        Load { name, phases }
    }

    /// From what `scripts/record-load.sh` has written: a line of each rank's own for each thing
    /// that its program did, `c` and nanoseconds, `s` and bytes, `r` and bytes.
    fn recorded(name: &'static str, text: &str) -> Load {
        let mut ops = [Vec::new(), Vec::new()];
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let node = words.next().and_then(|word| word.parse::<usize>().ok());
            let (what, number) = (words.next(), words.next().and_then(|word| word.parse().ok()));
            let (Some(node @ 0..=1), Some(what), Some(number)) = (node, what, number) else {
                continue;
            };
            ops[node].push(match what {
                "c" => Compute(number),
                "s" => Send(number),
                _ => Receive(number),
            });
        }
        Load::repeated(name, ops, LONG_NS)
    }
}

/// 8 bytes there and back.
fn ping_pong(long_ns: Ns) -> Load {
    let there = vec![Send(8), Receive(8), Compute(500)];
    let back = vec![Receive(8), Compute(500), Send(8)];
    Load::repeated("ping-pong", [there, back], long_ns / 4)
}

/// Windows of 64 frames, each answered when it has come.
fn windows(long_ns: Ns) -> Load {
    let window = 64 * 1448;
    let from = vec![Send(window), Receive(4)];
    let to = vec![Receive(window), Compute(20_000), Send(4)];
    Load::repeated("windows", [from, to], long_ns)
}

/// Two windows are under way at a time, as a stream is: the receiver works on each.
fn stream(long_ns: Ns) -> Load {
    let window = 32 * 1448;
    let mut from = vec![Send(window), Send(window)];
    let mut to = Vec::new();
    for _ in 0..64 {
        from.extend([Receive(4), Send(window)]);
        to.extend([Receive(window), Compute(300_000), Send(4)]);
    }
    from.extend([Receive(4), Receive(4)]);
    to.extend([Receive(window), Send(4), Receive(window), Send(4)]);
    Load::repeated("stream", [from, to], long_ns)
}

/// Each computes while what the other has sent comes in, and then finds it there.
fn overlap(long_ns: Ns) -> Load {
    let own = vec![Send(100 * 1448), Compute(4_000_000), Receive(100 * 1448)];
    Load::repeated("overlap", [own.clone(), own], long_ns)
}

/// The same in small pieces, which come one by one all the time.
fn drizzle(long_ns: Ns) -> Load {
    let mut own = Vec::new();
    for _ in 0..100 {
        own.extend([Send(200), Compute(20_000)]);
    }
    own.push(Receive(100 * 200));
    Load::repeated("drizzle", [own.clone(), own], long_ns)
}

/// Computes, exchanges, waits, as a stencil does: neither is quite as fast as the other.
fn exchange(name: &'static str, work_ns: Ns, bytes: u64, long_ns: Ns) -> Load {
    let mut rng = Rng::new(7);
    let mut ops = [Vec::new(), Vec::new()];
    for _ in 0..50 {
        for own in &mut ops {
            let work = work_ns + rng.below(work_ns / 10 + 1);
            own.extend([Compute(work), Send(bytes), Receive(bytes)]);
        }
    }
    Load::repeated(name, ops, long_ns)
}

/// Programs of `examples/mpi/programs` on two nodes of a lab.
fn recorded() -> Vec<Load> {
    let all = [
        ("heat", include_str!("recorded/heat.txt")),
        ("heat, overlapped", include_str!("recorded/heat-overlap.txt")),
        ("cg, small", include_str!("recorded/cg-small.txt")),
        ("cg, large", include_str!("recorded/cg-large.txt")),
        ("transpose", include_str!("recorded/transpose.txt")),
        ("sort", include_str!("recorded/sort.txt")),
    ];
    all.into_iter().map(|(name, text)| Load::recorded(name, text)).collect()
}

/// The loads that are one thing all the time: made up, and then recorded.
pub fn loads() -> Vec<Load> {
    let mut all = vec![
        ping_pong(LONG_NS),
        windows(LONG_NS),
        stream(LONG_NS),
        overlap(LONG_NS),
        drizzle(LONG_NS),
        exchange("fine steps", 50_000, 512, LONG_NS),
        exchange("coarse steps", 1_000_000, 72 << 10, LONG_NS),
    ];
    all.extend(recorded());
    all
}

/// Programs that do one thing for a while, and then another.
pub fn mixtures() -> Vec<Load> {
    const PART_NS: Ns = 200_000_000;
    let fine = || exchange("fine steps", 50_000, 512, PART_NS);
    vec![
        Load::mixed("ping-pong, drizzle", &[ping_pong(PART_NS), drizzle(PART_NS)], 4),
        Load::mixed("fine steps, overlap", &[fine(), overlap(PART_NS)], 4),
        Load::mixed("fine steps, drizzle", &[fine(), drizzle(PART_NS)], 4),
        Load::mixed(
            "all in turn",
            &[ping_pong(PART_NS), overlap(PART_NS), fine(), drizzle(PART_NS), stream(PART_NS)],
            2,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_fits_together() {
        for load in recorded() {
            let ways = [0, 1].map(|node| {
                let ops = &load.phases[0].ops;
                let bytes = |op: &Op| if let Send(bytes) = op { *bytes } else { 0 };
                let wanted = |op: &Op| if let Receive(bytes) = op { *bytes } else { 0 };
                let sent: u64 = ops[node].iter().map(bytes).sum();
                let awaited: u64 = ops[1 - node].iter().map(wanted).sum();
                (sent, awaited)
            });
            for (sent, awaited) in ways {
                assert!(sent > 0 && sent == awaited, "{}: {sent}, {awaited}", load.name);
            }
        }
    }
}
