//! `weft bench put` and `weft bench get`: rank 0 writes or reads a region of rank 1, which waits in
//! a receive, or computes: one operation at a time, and in windows of 32.

use std::hint::black_box;

use weft::endpoint::Endpoint;
use weft::region::{HANDLE_LEN, Region, RegionHandle};
use weft::remote::Rights;
use weft_sys::clock::now_ns;
use weft_sys::floor::cpu_time_ns;

use super::{Common, Rank, Results, Sizes, failed, join, takes_part};
use crate::CliError;
use crate::bench::figure::Value;
use crate::bench::samples::repeat;

/// Arguments of `weft bench put`, `get` and `register`.
#[derive(clap::Args, Debug)]
pub struct RegionArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) sizes: Sizes,
}

/// Arguments of `weft bench put` and `get`.
#[derive(clap::Args, Debug)]
pub struct MoveArgs {
    #[command(flatten)]
    region: RegionArgs,
    /// Rank 1 computes, and makes no call of Weft, instead of waiting in one
    #[arg(long)]
    busy: bool,
}

/// Operations that are under way at once, as in `weft bench bw`.
const WINDOW: usize = 32;
const HANDLE: u64 = 1;
const END: u64 = 2;

/// What rank 0 does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Move {
    Put,
    Get,
}

/// Measures puts, and writes on rank 0.
///
/// # Errors
/// When the job or a peer fails.
pub fn put(args: &MoveArgs) -> Result<(), CliError> {
    run(args, Move::Put)
}

/// Measures gets, and writes on rank 0.
///
/// # Errors
/// When the job or a peer fails.
pub fn get(args: &MoveArgs) -> Result<(), CliError> {
    run(args, Move::Get)
}

fn run(args: &MoveArgs, what: Move) -> Result<(), CliError> {
    let MoveArgs { region: args, busy } = args;
    let mut rank = join(&args.common)?;
    if !takes_part(&mut rank) {
        return Ok(());
    }
    let mut results = Results::new(&rank);
    let Rank { context, _job, .. } = rank;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    let most = args.sizes.bytes.iter().copied().max().unwrap_or(0) as usize;
    if endpoint.rank() == 1 {
        // The last byte says that it is over.
        let region = endpoint.region(most + 1, Rights::ALL).map_err(failed)?;
        endpoint.send(0, HANDLE, &region.handle().to_bytes()).map_err(failed)?;
        if *busy {
            compute_until_told(&region, most)?;
        }
        endpoint.recv(0, END, &mut []).map_err(failed)?;
        return Ok(());
    }
    let mut handle = [0; HANDLE_LEN];
    endpoint.recv(1, HANDLE, &mut handle).map_err(failed)?;
    let there = RegionHandle::from_bytes(&handle).map_err(failed)?;
    let name = if what == Move::Put { "put" } else { "get" };
    for &bytes in &args.sizes.bytes {
        let mut memory = vec![1; bytes as usize];
        let time = repeat(args.common.ms, || match what {
            Move::Put => endpoint.put(&there, 0, &memory),
            Move::Get => endpoint.get(&there, 0, &mut memory),
        });
        results.add(
            name,
            bytes,
            busy.then_some("busy"),
            Value::TimeUs(time.map_err(failed)?),
            None,
        );
    }
    let mode = if *busy { "busy windows" } else { "windows" };
    for &bytes in &args.sizes.bytes {
        let (rate, cpu) = windows(&endpoint, &there, what, bytes as usize, args.common.ms)?;
        results.add(name, bytes, Some(mode), Value::BandwidthMbS(rate), Some(cpu));
    }
    endpoint.put(&there, most as u64, &[1]).map_err(failed)?;
    endpoint.send(1, END, &[]).map_err(failed)?;
    results.finish();
    Ok(())
}

/// Computes, some 100 us at a time, until the byte at `at` is set.
fn compute_until_told(region: &Region<'_>, at: usize) -> Result<(), CliError> {
    let mut told = [0];
    while told == [0] {
        let mut sum = 0u64;
        for i in 0..100_000 {
            sum = black_box(sum.wrapping_mul(3).wrapping_add(i));
        }
        region.read(at as u64, &mut told).map_err(failed)?;
    }
    Ok(())
}

/// Megabytes a second, and rank 0's processor time for a byte, ns.
fn windows(
    endpoint: &Endpoint,
    there: &RegionHandle,
    what: Move,
    bytes: usize,
    ms: u64,
) -> Result<(f64, f64), CliError> {
    let out = vec![1; bytes];
    // Several gets into the same memory make no sense to a program.
    let mut into = vec![0; if what == Move::Get { WINDOW * bytes } else { 0 }];
    let mut window = || {
        endpoint.scope(|scope| {
            // What is not waited for here the scope waits for.
            match what {
                Move::Put => (0..WINDOW).try_for_each(|_| scope.iput(there, 0, &out).map(drop)),
                Move::Get => {
                    into.chunks_mut(bytes).try_for_each(|into| scope.iget(there, 0, into).map(drop))
                }
            }
        })
    };
    let start = now_ns();
    while now_ns() < start + ms * 100_000 {
        window().map_err(failed)?;
    }
    let (since, cpu_since, mut moved) = (now_ns(), cpu_time_ns(), 0);
    loop {
        window().map_err(failed)?;
        moved += WINDOW * bytes;
        let now = now_ns();
        if now >= since + ms * 1_000_000 {
            // Megabytes a second are bytes a microsecond.
            let rate = moved as f64 * 1000.0 / (now - since).max(1) as f64;
            return Ok((rate, (cpu_time_ns() - cpu_since) as f64 / moved.max(1) as f64));
        }
    }
}
