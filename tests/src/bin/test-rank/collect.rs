//! Collective operations, each checked, until rank 0 gets the order `stop` or one fails.

use std::time::{Duration, Instant};

use weft::error::Error;
use weft::remote::AtomicOp;

use super::{Failure, Rank};

const PACE: Duration = Duration::from_millis(50);

fn value(rank: u32, at: usize, round: u64) -> u64 {
    u64::from(rank) * 1_000_003 + at as u64 * 7 + round
}

/// Elements in this round: of all kinds, up to `max`.
fn count(round: u64, max: usize) -> usize {
    let counts = [1, 0, 17, 500, 3, max / 3, 2, max];
    counts[(round % counts.len() as u64) as usize].min(max)
}

fn round(rank: &Rank, round: u64, max: usize) -> Result<bool, Error> {
    let e = &rank.endpoint;
    let (me, size, count) = (e.rank(), e.size(), count(round, max));
    let row = |rank: u32, len: usize| (0..len).map(|at| value(rank, at, round)).collect::<Vec<_>>();
    let mut data = row(me, count);
    e.allreduce(AtomicOp::Sum, &mut data)?;
    let sum = |at| (0..size).map(|rank| value(rank, at, round)).sum::<u64>();
    let mut right = data.iter().enumerate().all(|(at, got)| *got == sum(at));

    let mut all = vec![0; count * size as usize];
    e.alltoall(&row(me, all.len()), &mut all)?;
    right &= all.iter().enumerate().all(|(at, got)| {
        let (from, within) = (at / count, at % count);
        *got == value(from as u32, me as usize * count + within, round)
    });
    let root = (round % u64::from(size)) as u32;
    let mut data = row(me, count);
    e.broadcast(root, &mut data)?;
    right &= data == row(root, count);
    Ok(right)
}

/// See the module's page.
pub fn collect(rank: &Rank, max: usize) -> Result<(), Failure> {
    let mut told = Instant::now();
    for number in 0.. {
        let stop = rank.orders.try_recv().is_ok_and(|order| order == "stop");
        let mut stops = [u8::from(stop)];
        let mut agreed = || rank.endpoint.allreduce(AtomicOp::Max, &mut stops);
        match round(rank, number, max).and_then(|right| agreed().map(|()| right)) {
            Ok(true) => {}
            Ok(false) => return Err(format!("round {number} is wrong").into()),
            Err(error) => {
                rank.say(format_args!("fails: {error}"));
                // Stays until the test has seen enough: who ends now is gone for those that have
                // not noticed the death yet.
                std::thread::sleep(Duration::from_secs(60));
                return Ok(());
            }
        }
        if told.elapsed() >= PACE {
            told = Instant::now();
            rank.say(format_args!("rounds {number}"));
        }
        if stops[0] != 0 {
            rank.say(format_args!("complete {number}"));
            return Ok(());
        }
    }
    Ok(())
}
