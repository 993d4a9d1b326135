//! `weft bench rate`, `ring` and `idle`: messages one way, a token round all ranks, and what
//! waiting costs.

use std::time::Duration;

use weft::context::Context;
use weft::error::Error;
use weft_sys::clock::now_ns;
use weft_sys::floor::cpu_time_ns;

use super::{Common, Rank, Results, Sizes, failed, join, takes_part};
use crate::CliError;
use crate::bench::figure::{Spread, Value};
use crate::bench::samples::Samples;

/// Arguments of `weft bench rate`.
#[derive(clap::Args, Debug)]
pub struct RateArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    sizes: Sizes,
}

/// Arguments of `weft bench ring`.
#[derive(clap::Args, Debug)]
pub struct RingArgs {
    #[command(flatten)]
    common: Common,
}

/// Arguments of `weft bench idle`.
#[derive(clap::Args, Debug)]
pub struct IdleArgs {
    #[command(flatten)]
    common: Common,
}

const GO: u64 = 0;
const LAST: u64 = 1;
const KNOCK: u64 = 2;

/// Messages in one direction, from rank 0 to rank 1.
///
/// # Errors
/// When the job or a peer fails, or a size is more than one message of a context holds.
pub fn rate(args: &RateArgs) -> Result<(), CliError> {
    let mut rank = join(&args.common)?;
    if !takes_part(&mut rank) {
        return Ok(());
    }
    let mut results = Results::new(&rank);
    let Rank { mut context, _job, .. } = rank;
    let max = context.message_max(1 - context.rank()) as u64;
    for &bytes in args.sizes.bytes.iter().filter(|b| **b <= max) {
        let rate = one_rate(&mut context, bytes as usize, args.common.ms).map_err(failed)?;
        if context.rank() == 0 {
            results.add("rate", bytes, None, Value::MessagesPerS(rate), None);
        }
    }
    if context.rank() == 0 {
        results.finish();
    }
    Ok(())
}

fn one_rate(c: &mut Context, bytes: usize, ms: u64) -> Result<f64, Error> {
    if c.rank() != 0 {
        let mut count = 0u64;
        loop {
            let tag = c.recv()?.tag();
            match tag {
                LAST => break,
                GO => count += 1,
                _ => c.send(0, KNOCK, &[0])?,
            }
        }
        c.send(0, LAST, &count.to_le_bytes())?;
        return Ok(0.0);
    }
    let message = vec![7u8; bytes];
    // The first message finds the way; it is no part of the figure.
    c.send(1, KNOCK, &message)?;
    drop(c.recv()?);
    let start = now_ns();
    let until = start + ms * 1_000_000;
    while now_ns() < until {
        for _ in 0..64 {
            c.send(1, GO, &message)?;
        }
    }
    c.send(1, LAST, &message)?;
    let answer = c.recv()?;
    // The time includes the answer: what is still on its way when the sender stops counts too.
    let ns = now_ns() - start;
    let count = number(&answer);
    Ok(count as f64 * 1e9 / ns.max(1) as f64)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

/// A token round all ranks; the figure is the time of one hop.
///
/// # Errors
/// When the job or a peer fails.
pub fn ring(args: &RingArgs) -> Result<(), CliError> {
    let rank = join(&args.common)?;
    let mut results = Results::new(&rank);
    let Rank { mut context, _job, .. } = rank;
    let spread = one_ring(&mut context, args.common.ms).map_err(failed)?;
    if context.rank() == 0 {
        results.add("ring", 8, None, Value::TimeUs(spread), None);
        results.finish();
    }
    Ok(())
}

fn one_ring(c: &mut Context, ms: u64) -> Result<Spread, Error> {
    let next = (c.rank() + 1) % c.size();
    let token = [0u8; 8];
    if c.rank() != 0 {
        loop {
            let tag = c.recv()?.tag();
            c.send(next, tag, &token)?;
            if tag == LAST {
                return Ok(Spread::default());
            }
        }
    }
    let mut samples = Samples::new();
    let round = |c: &mut Context| -> Result<u64, Error> {
        c.send(next, GO, &token)?;
        drop(c.recv()?);
        Ok(now_ns())
    };
    // The first round finds the ways; it is no part of the figure.
    let mut before = round(c)?;
    let warm = before + ms * 100_000;
    while before < warm {
        before = round(c)?;
    }
    // One at least, however long a round takes.
    let until = before + (ms * 1_000_000).max(1);
    while before < until {
        let now = round(c)?;
        samples.record(now - before, u64::from(c.size()));
        before = now;
    }
    c.send(next, LAST, &token)?;
    drop(c.recv()?);
    Ok(samples.spread())
}

/// How long rank 1 waits for its message before the measurement begins, and in it.
const SETTLE_NS: u64 = 50_000_000;
const WAIT: Duration = Duration::from_millis(1000);

/// Processor time of a rank that waits a second for a message, after the first 50 ms.
///
/// # Errors
/// When the job or a peer fails.
pub fn idle(args: &IdleArgs) -> Result<(), CliError> {
    let mut rank = join(&args.common)?;
    if !takes_part(&mut rank) {
        return Ok(());
    }
    let mut results = Results::new(&rank);
    let Rank { mut context, _job, .. } = rank;
    let share = one_idle(&mut context).map_err(failed)?;
    if context.rank() == 0 {
        results.add("idle", 0, None, Value::CpuPercent(share), None);
        results.finish();
    }
    Ok(())
}

fn one_idle(c: &mut Context) -> Result<f64, Error> {
    if c.rank() == 0 {
        std::thread::sleep(WAIT + Duration::from_nanos(SETTLE_NS));
        c.send(1, GO, &[0])?;
        let answer = c.recv()?;
        return Ok(f64::from_bits(number(&answer)));
    }
    match c.recv_timeout(SETTLE_NS) {
        Err(Error::TimedOut { .. }) => {}
        other => drop(other?),
    }
    let (cpu, start) = (cpu_time_ns(), now_ns());
    drop(c.recv()?);
    let (cpu, ns) = (cpu_time_ns() - cpu, now_ns() - start);
    let share = cpu as f64 * 100.0 / ns.max(1) as f64;
    c.send(0, GO, &share.to_bits().to_le_bytes())?;
    Ok(share)
}
