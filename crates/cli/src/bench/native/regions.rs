//! `weft bench put` and `weft bench get`: rank 0 writes or reads a region of rank 1, which waits in
//! a receive, or computes: one operation at a time, and in windows of 32. Puts go there and back as
//! well: each rank looks into its own region until it sees what the other has put there.

use std::hint::black_box;

use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::region::{HANDLE_LEN, Region, RegionHandle};
use weft::remote::Rights;
use weft_sys::clock::now_ns;
use weft_sys::floor::cpu_time_ns;

use super::{Common, Rank, Results, Sizes, failed, join, takes_part};
use crate::CliError;
use crate::bench::figure::{Spread, Value};
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
    /// The region is memory of rank 1's own, lent for the time, instead of Weft's
    #[arg(long)]
    borrowed: bool,
}

impl MoveArgs {
    /// How a figure was taken, beside `more`.
    fn mode(&self, more: Option<&str>) -> Option<String> {
        let busy = self.busy.then_some("busy");
        let borrowed = self.borrowed.then_some("borrowed");
        let words: Vec<&str> = [busy, borrowed, more].into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

/// Operations that are under way at once, as in `weft bench bw`.
const WINDOW: usize = 32;
const HANDLE: u64 = 1;
const END: u64 = 2;
/// The number that goes there last, and is not put back.
const LAST: u64 = u64::MAX;
/// Looks at a region between two calls.
const LOOKS: usize = 64;

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
    let common = &args.region.common;
    let mut rank = join(common)?;
    if !takes_part(&mut rank) {
        return Ok(());
    }
    let mut results = Results::new(&rank);
    let Rank { context, _job, .. } = rank;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    if endpoint.rank() == 1 {
        return target(&endpoint, args, what);
    }
    let there = take_handle(&endpoint, 1)?;
    let name = if what == Move::Put { "put" } else { "get" };
    let sizes = &args.region.sizes.bytes;
    let mut add = |bytes, more, value, cpu| {
        results.add(name, bytes, args.mode(more).as_deref(), value, cpu);
    };
    for &bytes in sizes {
        let mut memory = vec![1; bytes as usize];
        let time = repeat(common.ms, || match what {
            Move::Put => endpoint.put(&there, 0, &memory),
            Move::Get => endpoint.get(&there, 0, &mut memory),
        });
        add(bytes, None, Value::TimeUs(time.map_err(failed)?), None);
    }
    for &bytes in sizes {
        let (rate, cpu) = windows(&endpoint, &there, what, bytes as usize, common.ms)?;
        add(bytes, Some("windows"), Value::BandwidthMbS(rate), Some(cpu));
    }
    endpoint.put(&there, most(args), &[1]).map_err(failed)?;
    endpoint.send(1, END, &[]).map_err(failed)?;
    if what == Move::Put && !args.busy && !args.borrowed {
        add(8, Some("there and back"), Value::RttUs(there_and_back(&endpoint, common.ms)?), None);
    }
    results.finish();
    Ok(())
}

/// Where the byte lies that says that it is over.
fn most(args: &MoveArgs) -> u64 {
    args.region.sizes.bytes.iter().copied().max().unwrap_or(0)
}

/// Rank 1: what it does while rank 0 measures.
fn target(endpoint: &Endpoint, args: &MoveArgs, what: Move) -> Result<(), CliError> {
    let len = most(args) as usize + 1;
    let serve = |region: &Region<'_>| {
        endpoint.send(0, HANDLE, &region.handle().to_bytes())?;
        if args.busy {
            compute_until_told(region, most(args))?;
        }
        endpoint.recv(0, END, &mut []).map(drop)
    };
    if args.borrowed {
        let mut memory = vec![0; len];
        let scope = endpoint.scope(|scope| serve(&scope.register(&mut memory, Rights::ALL)?));
        return scope.map_err(failed);
    }
    serve(&endpoint.region(len, Rights::ALL).map_err(failed)?).map_err(failed)?;
    match what {
        Move::Put if !args.busy => there_and_back(endpoint, 0).map(drop),
        _ => Ok(()),
    }
}

fn take_handle(endpoint: &Endpoint, from: u32) -> Result<RegionHandle, CliError> {
    let mut handle = [0; HANDLE_LEN];
    endpoint.recv(from, HANDLE, &mut handle).map_err(failed)?;
    RegionHandle::from_bytes(&handle).map_err(failed)
}

/// Rank 0 puts a number, and rank 1, as soon as it sees it, puts it back.
fn there_and_back(endpoint: &Endpoint, ms: u64) -> Result<Spread, CliError> {
    let own = endpoint.region(8, Rights::ALL).map_err(failed)?;
    let peer = 1 - endpoint.rank();
    endpoint.send(peer, HANDLE, &own.handle().to_bytes()).map_err(failed)?;
    let there = take_handle(endpoint, peer)?;
    let put = |number: u64| endpoint.put(&there, 0, &number.to_le_bytes());
    let mut number = 0;
    if endpoint.rank() == 0 {
        let spread = repeat(ms, || {
            number += 1;
            put(number)?;
            see(endpoint, &own, number).map(drop)
        });
        put(LAST).map_err(failed)?;
        return spread.map_err(failed);
    }
    while number != LAST {
        number = see(endpoint, &own, number + 1).map_err(failed)?;
        // What rank 0 does not look for any more finds no region.
        if number != LAST {
            put(number).map_err(failed)?;
        }
    }
    Ok(Spread::default())
}

/// Looks until the region's number is at least that, and gives it.
fn see(endpoint: &Endpoint, own: &Region<'_>, least: u64) -> Result<u64, Error> {
    loop {
        for _ in 0..LOOKS {
            let mut bytes = [0; 8];
            own.read(0, &mut bytes)?;
            let number = u64::from_le_bytes(bytes);
            if number >= least {
                return Ok(number);
            }
        }
        // Over a cable a put comes in by calls.
        endpoint.progress();
    }
}

/// Computes, some 100 us at a time, until the byte at `at` is set.
fn compute_until_told(region: &Region<'_>, at: u64) -> Result<(), Error> {
    let mut told = [0];
    while told == [0] {
        let mut sum = 0u64;
        for i in 0..100_000 {
            sum = black_box(sum.wrapping_mul(3).wrapping_add(i));
        }
        region.read(at, &mut told)?;
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
