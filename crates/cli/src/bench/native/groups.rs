//! `weft bench bcast`: one rank's data to all others, by multicast and by a message to each; and
//! `weft bench group`: messages that all ranks deliver in one order. The first is the comparison of
//! CF's authors: what more receivers cost.

use std::path::PathBuf;

use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::group::{Group, GroupOptions};
use weft_sys::clock::now_ns;

use super::{Common, Rank, Sizes, failed, join};
use crate::CliError;
use crate::bench::figure::{Figure, Value, median, size_text};
use crate::bench::samples::Samples;
use crate::output::{Table, json_line};
use crate::plot::{self, Curve, Panel, What};

/// What both measure.
#[derive(clap::Args, Debug)]
struct Sweep {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    sizes: Sizes,
    /// Numbers of ranks, the first ones of the job; by default all of them, with --svg 2, 3, 4, ...
    #[arg(long, value_delimiter = ',', value_name = "N")]
    ranks: Vec<u32>,
}

/// Arguments of `weft bench bcast`.
#[derive(clap::Args, Debug)]
pub struct BcastArgs {
    #[command(flatten)]
    sweep: Sweep,
    /// Draws the bandwidth against the number of ranks, for the longest of the sizes
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Arguments of `weft bench group`.
#[derive(clap::Args, Debug)]
pub struct GroupArgs {
    #[command(flatten)]
    sweep: Sweep,
    /// Draws messages per second against the number of ranks, for the longest of the sizes
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Bytes that are broadcast between two looks at the clock.
const BLOCK: u64 = 4 << 20;
/// Broadcasts, or messages of a member, of a block at most.
const COUNT_MAX: u64 = 200;
const TAG: u64 = 78;

/// The ways of `weft bench bcast`.
const WAYS: [&str; 2] = ["multicast", "repeated"];

/// One measured point.
struct Point {
    figure: Figure,
    /// Datagrams that the first rank's broadcasts cost, each; where they were counted.
    datagrams: Option<f64>,
    /// From a cast to the delivery at its sender, us; median.
    latency_us: Option<f64>,
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
    let Rank { context, device, common, _job } = join(&args.sweep.common)?;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    let mut points = Vec::new();
    for ranks in ranks(&args.sweep.ranks, endpoint.size(), args.svg.is_some())? {
        for &bytes in &args.sweep.sizes.bytes {
            for way in WAYS {
                let plan = Plan { bench: "bcast", ranks, bytes, way: Some(way), ms: common.ms };
                measure(&endpoint, &plan, device, &common, &mut points).map_err(failed)?;
            }
        }
    }
    report(&endpoint, &points, &common, args.svg.as_deref(), What::Broadcast)
}

/// As [`bcast`], for ordered messages.
///
/// # Errors
/// As for [`bcast`].
pub fn group(args: &GroupArgs) -> Result<(), CliError> {
    let Rank { context, device, common, _job } = join(&args.sweep.common)?;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    let mut points = Vec::new();
    for ranks in ranks(&args.sweep.ranks, endpoint.size(), args.svg.is_some())? {
        for &bytes in &args.sweep.sizes.bytes {
            let plan = Plan { bench: "group", ranks, bytes, way: None, ms: common.ms };
            measure(&endpoint, &plan, device, &common, &mut points).map_err(failed)?;
        }
    }
    report(&endpoint, &points, &common, args.svg.as_deref(), What::Ordered)
}

/// What is measured.
struct Plan {
    bench: &'static str,
    ranks: u32,
    bytes: u64,
    way: Option<&'static str>,
    ms: u64,
}

impl Plan {
    fn count(&self) -> u64 {
        (BLOCK / self.bytes).clamp(1, COUNT_MAX)
    }
}

/// Measures one point; kept at rank 0.
fn measure(
    endpoint: &Endpoint,
    plan: &Plan,
    device: &str,
    common: &Common,
    points: &mut Vec<Point>,
) -> Result<(), Error> {
    if endpoint.rank() >= plan.ranks {
        return Ok(());
    }
    let members: Vec<u32> = (0..plan.ranks).collect();
    let group = Group::new(endpoint, &members, &GroupOptions::from_env()?)?;
    let mut data = vec![1u8; plan.bytes as usize];
    let (mut rates, mut latency) = (Vec::new(), Samples::new());
    let datagrams = || counter(endpoint, "group.cast");
    let (mut sent, mut blocks) = (0, 0);
    let started = now_ns();
    loop {
        // The first rank says whether there is another block; the first one warms up.
        let mut more = [u8::from(blocks < 2 || now_ns() - started < plan.ms * 1_000_000)];
        group.broadcast(0, &mut more)?;
        if more[0] == 0 {
            break;
        }
        group.barrier()?;
        let (before, sent_before) = (now_ns(), datagrams());
        match plan.way {
            Some("repeated") => repeated(&group, plan, &mut data)?,
            Some(_) => (0..plan.count()).try_for_each(|_| group.broadcast(0, &mut data))?,
            None => ordered(&group, plan, &data, &mut latency)?,
        }
        let sent_after = datagrams();
        group.barrier()?;
        if blocks > 0 {
            rates.push(plan.count() as f64 * 1e9 / (now_ns() - before) as f64);
            sent += sent_after - sent_before;
        }
        blocks += 1;
    }
    if group.rank() != 0 {
        return Ok(());
    }
    let rate = median(rates.iter().copied());
    let value = match plan.way {
        Some(_) => Value::BandwidthMbS(rate * plan.bytes as f64 / 1e6),
        None => Value::MessagesPerS(rate * f64::from(plan.ranks)),
    };
    let figure = Figure {
        bench: plan.bench.into(),
        device: device.into(),
        ranks: plan.ranks,
        bytes: plan.bytes,
        mode: plan.way.map(String::from),
        value,
        cpu_s_per_gb: None,
    };
    if common.json {
        json_line(&figure);
    }
    let each = sent as f64 / (plan.count() * (blocks - 1)) as f64;
    let datagrams = (plan.way == Some(WAYS[0])).then_some(each);
    let latency_us = plan.way.is_none().then(|| latency.spread().p50);
    points.push(Point { figure, datagrams, latency_us });
    Ok(())
}

fn counter(endpoint: &Endpoint, name: &str) -> u64 {
    let counters = endpoint.counters();
    counters.iter().find(|(n, _)| n == name).map_or(0, |(_, count)| *count)
}

/// The first rank sends its data to each other one by a message.
fn repeated(group: &Group<'_>, plan: &Plan, data: &mut [u8]) -> Result<(), Error> {
    let endpoint = group.endpoint();
    for _ in 0..plan.count() {
        if group.rank() != 0 {
            endpoint.recv(0, TAG, data)?;
            continue;
        }
        let data = &*data;
        endpoint.scope(|scope| {
            (1..plan.ranks).try_for_each(|rank| scope.isend(rank, TAG, data).map(|_| ()))
        })?;
    }
    Ok(())
}

/// All cast, and take what all have cast.
fn ordered(
    group: &Group<'_>,
    plan: &Plan,
    data: &[u8],
    latency: &mut Samples,
) -> Result<(), Error> {
    let all = plan.count() * u64::from(plan.ranks);
    let mut cast_ns = std::collections::VecDeque::new();
    let mut taken = 0;
    let mut take = |sender: u32, cast_ns: &mut std::collections::VecDeque<u64>| {
        if sender == group.rank()
            && let Some(at) = cast_ns.pop_front()
        {
            latency.record(now_ns() - at, 1);
        }
    };
    for _ in 0..plan.count() {
        cast_ns.push_back(now_ns());
        group.cast(data)?;
        while let Some(delivery) = group.try_deliver()? {
            take(delivery.sender, &mut cast_ns);
            taken += 1;
        }
    }
    while taken < all {
        take(group.deliver()?.sender, &mut cast_ns);
        taken += 1;
    }
    Ok(())
}

fn report(
    endpoint: &Endpoint,
    points: &[Point],
    common: &Common,
    svg: Option<&std::path::Path>,
    what: What,
) -> Result<(), CliError> {
    if endpoint.rank() != 0 {
        return Ok(());
    }
    if !common.json {
        let mut table =
            Table::new(["way", "ranks", "bytes", "rate", "datagrams each", "own delivery us"]);
        for Point { figure, datagrams, latency_us } in points {
            let number = |value: Option<f64>| value.map_or("-".into(), |v| format!("{v:.1}"));
            table.row(vec![
                figure.mode.clone().unwrap_or_else(|| "ordered".into()),
                figure.ranks.to_string(),
                size_text(figure.bytes),
                figure.value.text(),
                number(*datagrams),
                number(*latency_us),
            ]);
        }
        table.print();
    }
    let Some(path) = svg else { return Ok(()) };
    let longest = points.iter().map(|p| p.figure.bytes).max().unwrap_or(0);
    let mut curves: Vec<Curve> = Vec::new();
    for point in points.iter().filter(|p| p.figure.bytes == longest) {
        let label = point.figure.mode.clone().unwrap_or_else(|| "ordered".into());
        let at = (u64::from(point.figure.ranks), point.figure.value.number());
        match curves.iter_mut().find(|curve| curve.label == label) {
            Some(curve) => curve.points.push(at),
            None => curves.push(Curve { bold: label != WAYS[1], label, points: vec![at] }),
        }
    }
    let device = points.first().map_or("", |p| &p.figure.device);
    let title = format!("{}, {} ({device})", what.title(), size_text(longest));
    plot::svg(path, &[Panel { title, what, curves }]).map_err(CliError::Bench)?;
    eprintln!("weft: plot in {}", path.display());
    Ok(())
}
