//! `weft bench lat`: a message there and back.

use std::hint::black_box;

use weft::context::Context;
use weft::endpoint::Endpoint;

use super::{Common, Rank, Results, Sizes, failed, join, takes_part};
use crate::CliError;
use crate::bench::figure::{Spread, Value};
use crate::bench::samples::repeat;

/// Arguments of `weft bench lat`.
#[derive(clap::Args, Debug)]
pub struct LatencyArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    sizes: Sizes,
    /// By which API; auto: contexts for what fits one message, endpoints for the rest
    #[arg(long, value_enum, default_value = "auto")]
    api: Api,
}

/// Weft's two APIs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Api {
    Auto,
    Endpoint,
}

/// The first byte of a message: go on, or that was the last. Not zero: memory of zeros that nobody
/// has written is one page of the kernel's over and over, which no program's data is.
const GO: u8 = 1;
const LAST: u8 = 2;
const TAG: u64 = 1;

/// Measures, and writes on rank 0.
///
/// # Errors
/// When the job or a peer fails.
pub fn run(args: &LatencyArgs) -> Result<(), CliError> {
    let mut rank = join(&args.common)?;
    if !takes_part(&mut rank) {
        return Ok(());
    }
    let mut results = Results::new(&rank);
    let first = rank.context.rank() == 0;
    let ms = args.common.ms;
    let Rank { mut context, _job, .. } = rank;
    let peer = 1 - context.rank();
    let max = context.message_max(peer) as u64;
    let fits = |bytes: u64| args.api == Api::Auto && bytes <= max;
    let mode = (args.api == Api::Endpoint).then_some("endpoint");
    for &bytes in args.sizes.bytes.iter().filter(|b| fits(**b)) {
        let spread = by_context(&mut context, peer, bytes, ms)?;
        if first {
            results.add("lat", bytes, mode, Value::RttUs(spread), None);
        }
    }
    let endpoint = Endpoint::new(context).map_err(failed)?;
    for &bytes in args.sizes.bytes.iter().filter(|b| !fits(**b)) {
        let spread = by_endpoint(&endpoint, peer, bytes, ms)?;
        if first {
            results.add("lat", bytes, mode, Value::RttUs(spread), None);
        }
    }
    if first {
        results.finish();
    }
    Ok(())
}

fn by_context(c: &mut Context, peer: u32, bytes: u64, ms: u64) -> Result<Spread, CliError> {
    let mut message = vec![GO; bytes as usize];
    if c.rank() != 0 {
        loop {
            let got = c.recv().map_err(failed)?;
            let last = got.first() == Some(&LAST);
            black_box(got.last());
            drop(got);
            if last {
                return Ok(Spread::default());
            }
            c.send(peer, TAG, &message).map_err(failed)?;
        }
    }
    let spread = repeat(ms, || {
        c.send(peer, TAG, &message)?;
        let got = c.recv()?;
        black_box(got.last());
        Ok(())
    });
    message[0] = LAST;
    c.send(peer, TAG, &message).map_err(failed)?;
    spread.map_err(failed)
}

fn by_endpoint(e: &Endpoint, peer: u32, bytes: u64, ms: u64) -> Result<Spread, CliError> {
    let mut message = vec![GO; bytes as usize];
    let mut into = vec![GO; bytes as usize];
    if e.rank() != 0 {
        loop {
            e.recv(peer, TAG, &mut into).map_err(failed)?;
            if into[0] == LAST {
                return Ok(Spread::default());
            }
            e.send(peer, TAG, &message).map_err(failed)?;
        }
    }
    let spread = repeat(ms, || {
        e.send(peer, TAG, &message)?;
        e.recv(peer, TAG, &mut into).map(drop)
    });
    message[0] = LAST;
    e.send(peer, TAG, &message).map_err(failed)?;
    spread.map_err(failed)
}
