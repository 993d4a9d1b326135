//! Collective operations, each checked, until rank 0 gets the order `stop` or one fails.

use std::time::{Duration, Instant};

use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::remote::AtomicOp;

use super::{Failure, Rank};

fn value(rank: u32, at: usize, round: u64) -> u64 {
    u64::from(rank) * 1_000_003 + at as u64 * 7 + round
}

/// Elements in this round: of all kinds, up to `max`.
fn count(round: u64, max: usize) -> usize {
    let counts = [1, 0, 17, 500, 3, max / 3, 2, max];
    counts[(round % counts.len() as u64) as usize].min(max)
}

/// A round: all operations, each with elements that only this round has.
struct Round<'a> {
    e: &'a Endpoint,
    number: u64,
    /// Elements of a block, or of the whole data where there are no blocks.
    count: usize,
    root: u32,
}

impl Round<'_> {
    fn row(&self, rank: u32, len: usize) -> Vec<u64> {
        (0..len).map(|at| value(rank, at, self.number)).collect()
    }

    fn own(&self, len: usize) -> Vec<u64> {
        self.row(self.e.rank(), len)
    }

    /// What ranks have, added up.
    fn sum(&self, at: usize) -> u64 {
        (0..self.e.size()).map(|rank| value(rank, at, self.number)).sum()
    }

    /// As many elements as all blocks have.
    fn all(&self) -> usize {
        self.count * self.e.size() as usize
    }

    /// That many, where only the root has some.
    fn at_root(&self) -> usize {
        if self.e.rank() == self.root { self.all() } else { 0 }
    }

    /// Where the rank's own block is among all.
    fn place(&self) -> usize {
        self.e.rank() as usize * self.count
    }

    /// Whether these are the first elements of each rank, in the order of ranks.
    fn gathered(&self, got: &[u64]) -> bool {
        let rows: Vec<u64> =
            (0..self.e.size()).flat_map(|rank| self.row(rank, self.count)).collect();
        got == rows
    }

    fn reductions(&self) -> Result<[(&'static str, bool); 3], Error> {
        let Round { e, count, root, .. } = *self;
        let added = |data: &[u64], from| (from..).zip(data).all(|(at, got)| *got == self.sum(at));
        let mut everywhere = self.own(count);
        e.allreduce(AtomicOp::Sum, &mut everywhere)?;
        let mut there = self.own(count);
        e.reduce(root, AtomicOp::Sum, &mut there)?;
        let mut slice = vec![0; count];
        e.reduce_scatter(AtomicOp::Sum, &self.own(self.all()), &mut slice)?;
        Ok([
            ("allreduce", added(&everywhere, 0)),
            ("reduce", e.rank() != root || added(&there, 0)),
            ("reduce-scatter", added(&slice, self.place())),
        ])
    }

    fn moves(&self) -> Result<[(&'static str, bool); 5], Error> {
        let Round { e, count, root, .. } = *self;
        let mut data = self.own(count);
        e.broadcast(root, &mut data)?;
        let mut collected = vec![0; self.at_root()];
        e.gather(root, &self.own(count), &mut collected)?;
        let mut block = vec![0; count];
        e.scatter(root, &self.own(self.at_root()), &mut block)?;
        let mut spread = vec![0; self.all()];
        e.allgather(&self.own(count), &mut spread)?;
        let mut blocks = vec![0; self.all()];
        e.alltoall(&self.own(self.all()), &mut blocks)?;
        let slice = |rank| (self.place()..).take(count).map(move |at| value(rank, at, self.number));
        Ok([
            ("broadcast", data == self.row(root, count)),
            ("gather", e.rank() != root || self.gathered(&collected)),
            ("scatter", block.iter().copied().eq(slice(root))),
            ("allgather", self.gathered(&spread)),
            ("alltoall", blocks.iter().copied().eq((0..e.size()).flat_map(slice))),
        ])
    }

    /// The first operation whose result is wrong.
    fn wrong(&self) -> Result<Option<&'static str>, Error> {
        let (reductions, moves) = (self.reductions()?, self.moves()?);
        let mut all = reductions.into_iter().chain(moves);
        Ok(all.find(|(_, right)| !right).map(|(name, _)| name))
    }
}

/// See the module's page.
pub fn collect(rank: &Rank, max: usize) -> Result<(), Failure> {
    let mut told = Instant::now();
    for number in 0.. {
        let stop = rank.orders.try_recv().is_ok_and(|order| order == "stop");
        let mut stops = [u8::from(stop)];
        let mut agreed = || rank.endpoint.allreduce(AtomicOp::Max, &mut stops);
        let (e, root) = (&rank.endpoint, (number % u64::from(rank.endpoint.size())) as u32);
        let round = Round { e, number, count: count(number, max), root };
        match round.wrong().and_then(|wrong| agreed().map(|()| wrong)) {
            Ok(None) => {}
            Ok(Some(name)) => return Err(format!("round {number}: {name} is wrong").into()),
            Err(error) => {
                rank.say(format_args!("fails: {error}"));
                // Stays until the test has seen enough: who ends now is gone for those that have
                // not noticed the death yet.
                std::thread::sleep(Duration::from_secs(60));
                return Ok(());
            }
        }
        rank.say_at_pace(&mut told, format_args!("rounds {number}"));
        if stops[0] != 0 {
            rank.say(format_args!("complete {number}"));
            return Ok(());
        }
    }
    Ok(())
}
