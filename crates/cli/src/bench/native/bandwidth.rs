//! `weft bench bw`: windows of 32 messages, then a short answer; in one direction or in both.

use weft::endpoint::{Endpoint, Request, Source, Tag};
use weft_sys::buf::{Buf, lend};
use weft_sys::clock::now_ns;
use weft_sys::floor::cpu_time_ns;
use weft_wire::{Envelope, Kind};

use super::{Common, Rank, Results, Sizes, failed, join, takes_part};
use crate::CliError;
use crate::bench::figure::Value;

/// Arguments of `weft bench bw`.
#[derive(clap::Args, Debug)]
pub struct BandwidthArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    sizes: Sizes,
    /// Whose memory the messages lie in
    #[arg(long, value_enum, value_delimiter = ',', default_value = "user")]
    memory: Vec<Memory>,
    /// Both ranks send
    #[arg(long)]
    bidirectional: bool,
}

/// Whose memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Memory {
    /// The program's own.
    User,
    /// Allocated by Weft.
    Weft,
}

/// Messages before an answer, as in the OSU benchmarks.
const WINDOW: usize = 32;
/// Not zero: see `latency.rs`.
const GO: u8 = 1;
const LAST: u8 = 2;
const TAG: u64 = 2;
const ANSWER: u64 = 3;

/// What one rank counted.
#[derive(Default)]
struct Count {
    bytes: u64,
    ns: u64,
    cpu_ns: u64,
}

/// Measures, and writes on rank 0.
///
/// # Errors
/// When the job or a peer fails.
pub fn run(args: &BandwidthArgs) -> Result<(), CliError> {
    let mut rank = join(&args.common)?;
    if !takes_part(&mut rank) {
        return Ok(());
    }
    let mut results = Results::new(&rank);
    let Rank { context, _job, .. } = rank;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    for &memory in &args.memory {
        for &bytes in &args.sizes.bytes {
            let count = measure(&endpoint, args, memory, bytes as usize)?;
            if endpoint.rank() == 0 {
                // Megabytes a second are bytes a microsecond.
                let rate = count.bytes as f64 * 1000.0 / count.ns.max(1) as f64;
                let cpu = count.cpu_ns as f64 / count.bytes.max(1) as f64;
                let mode = mode(args, memory);
                results.add("bw", bytes, mode, Value::BandwidthMbS(rate), Some(cpu));
            }
        }
    }
    if endpoint.rank() == 0 {
        results.finish();
    }
    Ok(())
}

fn mode(args: &BandwidthArgs, memory: Memory) -> Option<&'static str> {
    match (memory, args.bidirectional) {
        (Memory::User, false) => None,
        (Memory::User, true) => Some("bidirectional"),
        (Memory::Weft, false) => Some("weft-memory"),
        (Memory::Weft, true) => Some("bidirectional, weft-memory"),
    }
}

fn measure(
    e: &Endpoint,
    args: &BandwidthArgs,
    memory: Memory,
    bytes: usize,
) -> Result<Count, CliError> {
    let one = |out: Buf, into: Buf| windows(e, args, &out, &into);
    let count = match memory {
        Memory::User => one(Buf::from_vec(vec![GO; bytes]), Buf::from_vec(vec![GO; bytes]))?,
        Memory::Weft => {
            let mut out = e.allocate(bytes).map_err(failed)?;
            let mut into = e.allocate(bytes).map_err(failed)?;
            lend(|loans| one(loans.fill(&mut out), loans.fill(&mut into)))?
        }
    };
    with_peer_cpu(e, count)
}

/// Plays windows until rank 0 says that it was the last. All messages of a window lie in the same
/// memory, at both ends, as in the OSU benchmarks.
fn windows(e: &Endpoint, args: &BandwidthArgs, out: &Buf, into: &Buf) -> Result<Count, CliError> {
    let peer = 1 - e.rank();
    let first = e.rank() == 0;
    let (sends, receives) = (first || args.bidirectional, !first || args.bidirectional);
    let directions = if args.bidirectional { 2 } else { 1 };
    // The first message finds the way; it is no part of the figure.
    e.send(peer, ANSWER, &[0]).map_err(failed)?;
    e.recv(peer, ANSWER, &mut [0]).map_err(failed)?;
    let (cpu, start) = (cpu_time_ns(), now_ns());
    let warm_until = start + args.common.ms * 100_000;
    let until = start + args.common.ms * 1_100_000;
    let (mut since, mut cpu_since, mut bytes, mut warm) = (start, cpu, 0u64, false);
    let mut requests: Vec<Request> = Vec::with_capacity(2 * WINDOW);
    let mut last = false;
    while !last {
        if first {
            let now = now_ns();
            last = now >= until;
            out.write(0, &[if last { LAST } else { GO }]);
        }
        for _ in 0..WINDOW {
            if receives {
                let tag = Tag::from(TAG);
                let into = into.clone();
                requests.push(e.start_receive(Source::Rank(peer), tag, Kind::TAGGED, into));
            }
            if sends {
                let envelope = Envelope { tag: TAG, kind: Kind::TAGGED, ..Envelope::default() };
                requests.extend(e.start_send(peer, &envelope, out).map_err(failed)?);
            }
        }
        for request in requests.drain(..) {
            e.wait(request).map_err(failed)?;
        }
        bytes += (directions * WINDOW * out.len()) as u64;
        if !first {
            let mut sign = [GO];
            into.read(0, &mut sign);
            last = sign[0] == LAST;
            e.send(peer, ANSWER, &[0]).map_err(failed)?;
            continue;
        }
        e.recv(peer, ANSWER, &mut [0]).map_err(failed)?;
        if !warm && now_ns() >= warm_until {
            (warm, since, cpu_since, bytes) = (true, now_ns(), cpu_time_ns(), 0);
        }
    }
    let moved = if first { bytes } else { bytes.max(1) };
    Ok(Count { bytes: moved, ns: now_ns() - since, cpu_ns: cpu_time_ns() - cpu_since })
}

/// Adds the other rank's processor time, for as many bytes as rank 0 has counted.
fn with_peer_cpu(e: &Endpoint, count: Count) -> Result<Count, CliError> {
    if e.rank() != 0 {
        let per_gb = count.cpu_ns as f64 / count.bytes.max(1) as f64;
        e.send(0, ANSWER, &per_gb.to_le_bytes()).map_err(failed)?;
        return Ok(count);
    }
    let mut per_gb = [0u8; 8];
    e.recv(1, ANSWER, &mut per_gb).map_err(failed)?;
    let theirs = f64::from_le_bytes(per_gb) * count.bytes as f64;
    Ok(Count { cpu_ns: count.cpu_ns + theirs as u64, ..count })
}
