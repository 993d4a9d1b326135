//! Barriers of a job's ranks, of which one is killed.

use weft::group::{Group, GroupOptions};

use super::{Failure, Rank};

/// All ranks go through `rounds` barriers, then on until one fails; each says which and why.
pub fn meet(rank: &Rank, rounds: u64) -> Result<(), Failure> {
    let group = Group::all(&rank.endpoint, &GroupOptions::from_env()?)?;
    for _ in 0..rounds {
        group.barrier()?;
    }
    rank.say("met");
    loop {
        if let Err(error) = group.barrier() {
            rank.say(format_args!("barrier: {error}"));
            return Ok(());
        }
    }
}
