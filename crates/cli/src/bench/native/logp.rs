//! `weft bench logp`: what a datagram costs, and what barriers should cost by that.
//!
//! The method is that of Culler, Liu, Martin and Yoshikawa ("Assessing fast network interfaces",
//! 1996), with barriers of two ranks for messages: each is one datagram a way. o_s is the time that
//! entering takes; o_r that of leaving when the other's datagram has long arrived; L is half of a
//! round trip without both; g is the time between datagrams that come in a row without a pause.

use weft::collective::{Algorithm, LogP};
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::group::{Group, GroupOptions, Way};
use weft_sys::clock::now_ns;

use super::barrier::{Block, measure, wires};
use super::messages::{self, Parameters};
use super::{Common, Rank, failed, join};
use crate::CliError;
use crate::bench::figure::{digits, median, size_text};
use crate::output::{Table, json_line};

/// Arguments of `weft bench logp`.
#[derive(clap::Args, Debug)]
pub struct LogpArgs {
    #[command(flatten)]
    common: Common,
    /// Sizes of messages whose parameters are measured as well, as 8,1K,64K
    #[arg(long, value_delimiter = ',', value_parser = super::message_size,
          default_value = "8,64,512,1K,4K,8K,64K,1M")]
    bytes: Vec<u64>,
}

/// Between two steps of the measurement; longer than any round trip, ns.
const PAUSE_NS: u64 = 60_000;
/// Measurements of each time.
const TIMES: usize = 400;
/// Datagrams in a row.
const ROW: usize = 16;
/// Reading the clock is part of every time; this many times show how much.
const CLOCK_READS: u32 = 1000;

/// What rank 0 writes.
#[derive(serde::Serialize)]
struct Line {
    bench: &'static str,
    device: &'static str,
    ranks: u32,
    bytes: u64,
    o_s_us: f64,
    l_us: f64,
    o_r_us: f64,
    g_us: f64,
    rtt_us: f64,
    favours_four: bool,
}

/// The same of messages of one size.
#[derive(serde::Serialize)]
struct SizeLine {
    bench: &'static str,
    device: &'static str,
    ranks: u32,
    bytes: u64,
    mode: &'static str,
    o_s_us: f64,
    l_us: f64,
    o_r_us: f64,
    g_us: f64,
    rtt_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_byte_ns: Option<f64>,
}

/// Measures, and writes on rank 0.
///
/// # Errors
/// When the job or a peer fails.
pub fn run(args: &LogpArgs) -> Result<(), CliError> {
    let Rank { context, device, common, _job } = join(&args.common)?;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    let (logp, rtt_us) = parameters(&endpoint).map_err(failed)?;
    let mut table =
        Table::new(["way", "ranks", "modelled us", "measured us", "measured / modelled"]);
    let first = endpoint.rank() == 0;
    if first {
        say(&common, device, endpoint.size(), &logp, rtt_us);
    }
    let plan = Block { size: endpoint.size(), work_ns: 30_000, count: 100 };
    let algorithms = algorithms(wires(&endpoint).map_err(failed)?);
    let ways: Vec<Way> = algorithms.iter().copied().map(Way::Flat).collect();
    let points = measure(&endpoint, &ways, &plan, common.ms, device).map_err(failed)?;
    for (algorithm, point) in algorithms.iter().zip(&points) {
        let modelled = algorithm.cost(plan.size, &logp);
        let measured = point.mean_us();
        if common.json {
            json_line(point);
        }
        table.row([
            algorithm.to_string(),
            plan.size.to_string(),
            digits(modelled),
            digits(measured),
            digits(measured / modelled),
        ]);
    }
    if first && !common.json {
        table.print();
    }
    by_size(&endpoint, &common, device, &args.bytes)
}

/// Those of which the model is held against what they take: the usual ones that want no more wires,
/// and those whose cost the paper's formula gives.
fn algorithms(wires: u8) -> Vec<Algorithm> {
    let usual = Algorithm::USUAL.into_iter().filter(|a| a.links() <= wires);
    usual.chain([3, 4].map(|arity| Algorithm::Nomial { arity })).collect()
}

/// Measures messages of these sizes, and writes on rank 0. G is the slope of g from the size
/// before.
fn by_size(
    endpoint: &Endpoint,
    common: &Common,
    device: &'static str,
    sizes: &[u64],
) -> Result<(), CliError> {
    if endpoint.rank() > 1 {
        return Ok(());
    }
    let names = ["bytes", "o_s us", "L us", "o_r us", "g us", "round trip us", "G ns/byte"];
    let mut table = Table::new(names);
    let mut before: Option<(u64, f64)> = None;
    for &bytes in sizes {
        let found = messages::parameters(endpoint, bytes as usize).map_err(failed)?;
        let Some(Parameters { o_s, l, o_r, g, rtt }) = found else { continue };
        let per_byte_ns = before
            .filter(|(shorter, _)| *shorter < bytes)
            .map(|(shorter, its_g)| (g - its_g) * 1000.0 / (bytes - shorter) as f64);
        before = Some((bytes, g));
        if common.json {
            json_line(&SizeLine {
                bench: "logp",
                device,
                ranks: endpoint.size(),
                bytes,
                mode: "message",
                o_s_us: o_s,
                l_us: l,
                o_r_us: o_r,
                g_us: g,
                rtt_us: rtt,
                per_byte_ns,
            });
            continue;
        }
        let us = [o_s, l, o_r, g, rtt].map(digits);
        let slope = per_byte_ns.map_or(String::new(), digits);
        table.row([size_text(bytes)].into_iter().chain(us).chain([slope]));
    }
    if endpoint.rank() == 0 && !common.json {
        println!();
        table.print();
    }
    Ok(())
}

fn say(common: &Common, device: &'static str, ranks: u32, logp: &LogP, rtt_us: f64) {
    let LogP { o_s, l, o_r, g } = *logp;
    let favours_four = logp.favours_four();
    if common.json {
        return json_line(&Line {
            bench: "logp",
            device,
            ranks,
            bytes: 28,
            o_s_us: o_s,
            l_us: l,
            o_r_us: o_r,
            g_us: g,
            rtt_us,
            favours_four,
        });
    }
    let sign = if favours_four { "<" } else { ">=" };
    println!(
        "o_s {} us, L {} us, o_r {} us, g {} us, round trip {} us ({device})",
        digits(o_s),
        digits(l),
        digits(o_r),
        digits(g),
        digits(rtt_us)
    );
    println!(
        "3 o_r {sign} o_s + L: the 4-ary tree {} against dissemination",
        if favours_four { "wins" } else { "loses" }
    );
    println!("WEFT_LOGP={o_s:.3},{l:.3},{o_r:.3},{g:.3}\n");
}

/// Measures between ranks 0 and 1; rank 0 learns all, the others get zeros.
fn parameters(endpoint: &Endpoint) -> Result<(LogP, f64), Error> {
    let none = (LogP { o_s: 0.0, l: 0.0, o_r: 0.0, g: 0.0 }, 0.0);
    if endpoint.rank() > 1 {
        return Ok(none);
    }
    let make = |algorithm: Algorithm| {
        let options = GroupOptions { way: Way::Flat(algorithm), ..GroupOptions::default() };
        Group::new(endpoint, &[1, 0], &options)
    };
    let exchange = make(Algorithm::Dissemination { ways: 1 })?;
    let errand = make(Algorithm::Concurrent { links: 1 })?;
    for _ in 0..TIMES {
        exchange.barrier()?;
        errand.barrier()?;
    }
    let clock_us = clock_us();
    let (mut send, mut receive, mut trip) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TIMES {
        exchange.barrier()?;
        pause();
        let start = now_ns();
        exchange.arrive()?;
        send.push(us_since(start) - clock_us);
        pause();
        let start = now_ns();
        exchange.wait()?;
        receive.push(us_since(start) - clock_us);
    }
    // Rank 1 of the job is the first of the group, and waits while rank 0 goes there and back.
    for _ in 0..TIMES {
        exchange.barrier()?;
        if endpoint.rank() == 0 {
            pause();
        }
        let start = now_ns();
        errand.barrier()?;
        trip.push(us_since(start) - clock_us);
    }
    let g = gap(endpoint, &exchange)?;
    if endpoint.rank() != 0 {
        return Ok(none);
    }
    let middle = |times: Vec<f64>| median(times.into_iter()).max(0.0);
    let (o_s, o_r, rtt) = (middle(send), middle(receive), middle(trip));
    let l = (rtt / 2.0 - o_s - o_r).max(0.0);
    Ok((LogP { o_s, l, o_r, g }, rtt))
}

/// Rank 1 sends datagrams in a row, each a barrier of a group of its own; rank 0 takes the time
/// from the first to the last.
fn gap(endpoint: &Endpoint, exchange: &Group<'_>) -> Result<f64, Error> {
    let way = Way::Flat(Algorithm::Concurrent { links: 1 });
    let options = GroupOptions { way, ..GroupOptions::default() };
    let groups: Result<Vec<Group<'_>>, Error> =
        (0..ROW).map(|_| Group::new(endpoint, &[0, 1], &options)).collect();
    let groups = groups?;
    let mut gaps = Vec::new();
    for round in 0..=TIMES / 8 {
        exchange.barrier()?;
        if endpoint.rank() == 1 {
            pause();
            for group in &groups {
                group.arrive()?;
            }
            for group in &groups {
                group.wait()?;
            }
            continue;
        }
        let mut first = 0;
        for group in &groups {
            group.barrier()?;
            if first == 0 {
                first = now_ns();
            }
        }
        // The first round finds everything cold.
        if round > 0 {
            gaps.push(us_since(first) / (ROW - 1) as f64);
        }
    }
    Ok(median(gaps.into_iter()))
}

pub(super) fn pause() {
    let until = now_ns() + PAUSE_NS;
    while now_ns() < until {
        std::hint::spin_loop();
    }
}

pub(super) fn us_since(start: u64) -> f64 {
    (now_ns() - start) as f64 / 1000.0
}

pub(super) fn clock_us() -> f64 {
    let start = now_ns();
    for _ in 1..CLOCK_READS {
        std::hint::black_box(now_ns());
    }
    us_since(start) / f64::from(CLOCK_READS)
}
