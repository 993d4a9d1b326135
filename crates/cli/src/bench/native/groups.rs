//! `weft bench bcast`: one rank's data to all others, by a group's broadcast and by a message to
//! each; and `weft bench group`: messages that all ranks deliver in one order. The comparison is
//! that of CF's authors: what more receivers cost. Numbers of ranks take turns, a short time each,
//! so that what else the machine does disturbs all alike.

mod report;

use std::path::{Path, PathBuf};

use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::group::{Group, GroupOptions};
use weft_sys::clock::now_ns;

use self::report::{Point, report};
use super::ranks::{Ranks, Times};
use super::{Common, Rank, Sizes, failed, join};
use crate::CliError;
use crate::bench::figure::{Figure, Value, median};
use crate::bench::samples::Samples;
use crate::plot::What;

/// What both measure.
#[derive(clap::Args, Debug)]
struct Sweep {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    sizes: Sizes,
    /// Numbers of ranks, the first ones of the job; by default all of them, with --svg 2, 3, 4, ...
    /// Of several the most and the fewest are compared
    #[arg(long, value_delimiter = ',', value_name = "N")]
    ranks: Vec<u32>,
}

/// Arguments of `weft bench bcast`.
#[derive(clap::Args, Debug)]
pub struct BcastArgs {
    #[command(flatten)]
    sweep: Sweep,
    /// Draws the bandwidth against the number of ranks, a curve for each way and size
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Arguments of `weft bench group`.
#[derive(clap::Args, Debug)]
pub struct GroupArgs {
    #[command(flatten)]
    sweep: Sweep,
    /// How many members send, from the second one on, for the first gives the numbers; all take
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    senders: u32,
    /// Draws messages per second against the number of ranks, a curve for each size
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Bytes that are broadcast, or cast by a sender, between two looks at the clock.
const BLOCK: u64 = 4 << 20;
/// Broadcasts, or messages of a sender, of a block at most.
const COUNT_MAX: u64 = 2000;
/// Turns of each number of ranks.
const TURNS: u64 = 4;
/// Before that, ms: long frames are still tried on new paths, and their bytes would be counted.
const WARM_MS: u64 = 200;
/// Where operations are shorter than those of so many bytes, to read the clock for each would take
/// its share of the rate: one block of a turn is for that alone.
const LONG: u64 = 4096;
const TAG: u64 = 78;

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// A group's broadcast.
    Broadcast,
    /// A message to each instead.
    Repeated,
    /// Ordered messages of so many members.
    Ordered { senders: u32 },
}

fn ranks(asked: &[u32], most: u32, draws: bool) -> Result<Vec<u32>, CliError> {
    if let Some(wrong) = asked.iter().find(|&&n| !(2..=most).contains(&n)) {
        let why = format!("--ranks {wrong}: the job has {most}, and a group wants 2");
        return Err(CliError::Usage(why));
    }
    Ok(match (asked.is_empty(), draws) {
        (false, _) => asked.to_vec(),
        (true, true) => (2..=most).collect(),
        (true, false) => vec![most],
    })
}

/// Measures, and writes on rank 0.
///
/// # Errors
/// When the job or a peer fails; [`CliError::Usage`] for options that make no sense.
pub fn bcast(args: &BcastArgs) -> Result<(), CliError> {
    let ways = [Way::Broadcast, Way::Repeated];
    sweep("bcast", &args.sweep, &ways, args.svg.as_deref(), What::Broadcast)
}

/// As [`bcast`], for ordered messages.
///
/// # Errors
/// As for [`bcast`].
pub fn group(args: &GroupArgs) -> Result<(), CliError> {
    sweep(
        "group",
        &args.sweep,
        &[Way::Ordered { senders: args.senders }],
        args.svg.as_deref(),
        What::Ordered,
    )
}

fn sweep(
    bench: &str,
    args: &Sweep,
    ways: &[Way],
    svg: Option<&Path>,
    what: What,
) -> Result<(), CliError> {
    let Rank { context, device, common, _job } = join(&args.common)?;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    let ranks = ranks(&args.ranks, endpoint.size(), svg.is_some())?;
    let points = measure(&endpoint, &ranks, args, ways, common.ms).map_err(failed)?;
    if endpoint.rank() != 0 {
        return Ok(());
    }
    let name = |(way, ranks, bytes, tally): (Way, u32, u64, Tally)| {
        let figure = |value, mode: Option<&str>| Figure {
            bench: bench.into(),
            device: device.into(),
            ranks,
            bytes,
            mode: mode.map(String::from),
            value,
            cpu_s_per_gb: None,
            mpi_us: None,
            share: None,
        };
        tally.point(way, ranks, bytes, figure)
    };
    report(points.into_iter().map(name).collect(), common.json, svg, what)
}

/// What was measured of a way with so many ranks and bytes.
#[derive(Default)]
struct Tally {
    /// Broadcasts, or messages of each member, per second; a figure for each block.
    rates: Vec<f64>,
    /// From a cast to the delivery at its sender.
    latency: Samples,
    /// Of each operation: a broadcast, or, where messages are ordered, from one delivery to the
    /// next.
    times: Times,
    /// The same of all ranks.
    ranks: Option<Ranks>,
    messages: u64,
    /// Frames and bytes on the wires: of all members, and of the first.
    wire: [u64; 2],
    first: [u64; 2],
}

impl Tally {
    fn point(
        self,
        way: Way,
        ranks: u32,
        bytes: u64,
        figure: impl Fn(Value, Option<&str>) -> Figure,
    ) -> Point {
        let rate = median(self.rates.iter().copied());
        let each = |count: u64| (count > 0).then(|| count as f64 / self.messages.max(1) as f64);
        let (value, mode) = match way {
            Way::Ordered { .. } => (Value::MessagesPerS(rate), None),
            Way::Broadcast => (Value::BandwidthMbS(rate * bytes as f64 / 1e6), None),
            Way::Repeated => (Value::BandwidthMbS(rate * bytes as f64 / 1e6), Some("repeated")),
        };
        let count =
            |what, each: Option<f64>| each.map(|each| figure(Value::Count(each), Some(what)));
        let costs = match way {
            Way::Ordered { .. } => [("frames", self.wire[0]), ("wire bytes", self.wire[1])],
            Way::Broadcast => [("root frames", self.first[0]), ("root bytes", self.first[1])],
            Way::Repeated => {
                [("repeated root frames", self.first[0]), ("repeated root bytes", self.first[1])]
            }
        };
        let [frames, bytes] = costs.map(|(what, sum)| count(what, each(sum)));
        // Rank 0 keeps time, and sends only where all do.
        let all = matches!(way, Way::Ordered { senders } if senders >= ranks);
        let latency_us = all.then(|| self.latency.spread().p50);
        Point { figure: figure(value, mode), frames, bytes, latency_us, ranks: self.ranks }
    }
}

/// Measures everything; complete at rank 0.
fn measure(
    endpoint: &Endpoint,
    ranks: &[u32],
    args: &Sweep,
    ways: &[Way],
    ms: u64,
) -> Result<Vec<(Way, u32, u64, Tally)>, Error> {
    let mut all = Vec::new();
    let group_of = |ranks: u32| {
        let members: Vec<u32> = (0..ranks).collect();
        Group::new(endpoint, &members, &GroupOptions::from_env()?)
    };
    let most = ranks.iter().copied().max().unwrap_or(0);
    if let (Some(&way), Some(&bytes)) = (ways.first(), args.sizes.bytes.first())
        && endpoint.rank() < most
    {
        turn(&group_of(most)?, way, bytes, WARM_MS, &mut Tally::default())?;
    }
    for &bytes in &args.sizes.bytes {
        let each =
            |&ranks: &u32| ways.iter().map(move |&way| (way, ranks, bytes, Tally::default()));
        let mut tallies: Vec<_> = ranks.iter().flat_map(each).collect();
        for _ in 0..TURNS {
            for (way, ranks, bytes, tally) in &mut tallies {
                if endpoint.rank() < *ranks {
                    turn(&group_of(*ranks)?, *way, *bytes, ms / TURNS, tally)?;
                }
            }
        }
        for (_, ranks, _, tally) in &mut tallies {
            add_up(endpoint, *ranks, tally)?;
        }
        all.extend(tallies);
    }
    Ok(all)
}

/// One turn: blocks until the time is up, the first of which warms up.
fn turn(group: &Group<'_>, way: Way, bytes: u64, ms: u64, tally: &mut Tally) -> Result<(), Error> {
    let (endpoint, count) = (group.endpoint(), (BLOCK / bytes).clamp(1, COUNT_MAX));
    let mut data = vec![1u8; bytes as usize];
    let senders = match way {
        Way::Ordered { senders } => senders.min(group.size()),
        _ => 1,
    };
    let long = bytes >= LONG;
    let uncounted = if long { 1 } else { 2 };
    let (mut blocks, started) = (0, now_ns());
    loop {
        // The first rank says whether there is another block.
        let more = blocks <= uncounted || now_ns() - started < ms * 1_000_000;
        let mut more = [u8::from(more)];
        group.broadcast(0, &mut more)?;
        if more[0] == 0 {
            return Ok(());
        }
        group.barrier()?;
        let (before, wire) = (now_ns(), wire(endpoint));
        let timed = blocks > 0 && (long || blocks < uncounted);
        let mut watch = Watch::new(timed.then_some(&mut tally.times));
        match way {
            Way::Repeated => repeated(group, count, &mut data, &mut watch)?,
            Way::Broadcast => {
                (0..count).try_for_each(|_| group.broadcast(0, &mut data).map(|()| watch.lap()))?
            }
            Way::Ordered { .. } => {
                ordered(group, (count, senders), &data, &mut tally.latency, &mut watch)?;
            }
        }
        group.barrier()?;
        if blocks >= uncounted {
            let messages = count * u64::from(senders);
            tally.rates.push(messages as f64 * 1e9 / (now_ns() - before) as f64);
            tally.messages += messages;
            for (sum, (after, before)) in
                tally.first.iter_mut().zip(self::wire(endpoint).iter().zip(wire))
            {
                *sum += after - before;
            }
        }
        blocks += 1;
    }
}

/// Takes the time of each operation of a block, or of none.
struct Watch<'t> {
    times: Option<&'t mut Times>,
    since_ns: u64,
}

impl<'t> Watch<'t> {
    /// A block begins.
    fn new(mut times: Option<&'t mut Times>) -> Watch<'t> {
        times.iter_mut().for_each(|times| times.begin());
        Watch { times, since_ns: now_ns() }
    }

    /// An operation has ended, and the next one begins.
    fn lap(&mut self) {
        if let Some(times) = &mut self.times {
            let now = now_ns();
            times.record(now - self.since_ns, 1, now);
            self.since_ns = now;
        }
    }
}

/// Frames and bytes that this process has sent over its links so far.
fn wire(endpoint: &Endpoint) -> [u64; 2] {
    let counters = endpoint.counters();
    [".sent_frames", ".sent_bytes"].map(|what| {
        counters.iter().filter(|(name, _)| name.ends_with(what)).map(|(_, count)| count).sum()
    })
}

/// Adds up at rank 0 what the members have sent, and brings their times together.
fn add_up(endpoint: &Endpoint, ranks: u32, tally: &mut Tally) -> Result<(), Error> {
    let mut bytes = [0; 16];
    tally.wire = tally.first;
    if endpoint.rank() < ranks {
        let all = std::mem::take(&mut tally.times).collect(endpoint, ranks)?;
        tally.ranks = all.map(|all| Ranks::of(&all));
    }
    if endpoint.rank() == 0 {
        for rank in 1..ranks {
            endpoint.recv(rank, TAG + 1, &mut bytes)?;
            for (sum, word) in tally.wire.iter_mut().zip(bytes.chunks_exact(8)) {
                *sum += word.try_into().map_or(0, u64::from_le_bytes);
            }
        }
    } else if endpoint.rank() < ranks {
        for (word, count) in bytes.chunks_exact_mut(8).zip(tally.first) {
            word.copy_from_slice(&count.to_le_bytes());
        }
        endpoint.send(0, TAG + 1, &bytes)?;
    }
    Ok(())
}

/// The first rank sends its data to each other one by a message.
fn repeated(
    group: &Group<'_>,
    count: u64,
    data: &mut [u8],
    watch: &mut Watch<'_>,
) -> Result<(), Error> {
    let endpoint = group.endpoint();
    for _ in 0..count {
        if group.rank() != 0 {
            endpoint.recv(0, TAG, data)?;
        } else {
            let data = &*data;
            endpoint.scope(|scope| {
                (1..group.size()).try_for_each(|rank| scope.isend(rank, TAG, data).map(|_| ()))
            })?;
        }
        watch.lap();
    }
    Ok(())
}

/// Some cast, and all take what they have cast.
fn ordered(
    group: &Group<'_>,
    (count, senders): (u64, u32),
    data: &[u8],
    latency: &mut Samples,
    watch: &mut Watch<'_>,
) -> Result<(), Error> {
    let all = count * u64::from(senders);
    // The first member has its turn last.
    let sends = (group.rank() + group.size() - 1) % group.size() < senders;
    let mut bytes = Vec::new();
    let mut cast_ns = std::collections::VecDeque::new();
    let mut taken = 0;
    let mut take = |sender: u32, cast_ns: &mut std::collections::VecDeque<u64>| {
        watch.lap();
        if sender == group.rank()
            && let Some(at) = cast_ns.pop_front()
        {
            latency.record(now_ns() - at, 1);
        }
    };
    for _ in 0..if sends { count } else { 0 } {
        cast_ns.push_back(now_ns());
        group.cast(data)?;
        while let Some(sender) = group.try_deliver_into(&mut bytes)? {
            take(sender, &mut cast_ns);
            taken += 1;
        }
    }
    while taken < all {
        take(group.deliver_into(&mut bytes)?, &mut cast_ns);
        taken += 1;
    }
    Ok(())
}
