//! `weft bench logp`: what a datagram costs, over all links and over each by itself, and what
//! barriers should cost by that.
//!
//! The method is that of Culler, Liu, Martin and Yoshikawa ("Assessing fast network interfaces",
//! 1996), with barriers of two ranks for messages: each is one datagram a way. o_s is the time that
//! entering takes; o_r that of leaving when the other's datagram has long arrived; L is half of a
//! round trip without both; g is the time between datagrams that come in a row without a pause.

mod four;
mod links;

use weft::collective::Algorithm;
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::group::{Group, GroupOptions, Way};
use weft_sys::clock::now_ns;
use weft_wire::JobKey;

use self::four::{Conditions, Four};
use super::barrier::{Block, Point, measure, wires};
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
/// A barrier's datagram.
const DATAGRAM_LEN: u64 = 28;

/// What rank 0 writes of a datagram, or of messages of one size.
#[derive(serde::Serialize)]
struct Line<'a> {
    bench: &'static str,
    device: &'a str,
    /// The one link that was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'a str>,
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
    /// Of a datagram: whether a 4-ary tree beats dissemination.
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<Conditions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    four: Option<Four>,
}

/// A barrier as it is measured, beside its model.
#[derive(serde::Serialize)]
struct Modelled<'a> {
    #[serde(flatten)]
    point: &'a Point,
    modelled_us: f64,
}

/// Measures, and writes on rank 0.
///
/// # Errors
/// When the job or a peer fails.
pub fn run(args: &LogpArgs) -> Result<(), CliError> {
    let Rank { context, device, common, _job } = join(&args.common)?;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    let found = parameters(&endpoint).map_err(failed)?;
    let mut costs = Costs::new(common.json, device, endpoint.size());
    if let (Some(found), false) = (&found, common.json) {
        say(found, device);
    }
    let plan = Block { size: endpoint.size(), work_ns: 30_000, count: 100 };
    let algorithms = algorithms(wires(&endpoint).map_err(failed)?);
    let ways: Vec<Way> = algorithms.iter().copied().map(Way::Flat).collect();
    let points = measure(&endpoint, &ways, &plan, common.ms, device).map_err(failed)?;
    if let (Some(found), 0) = (&found, endpoint.rank()) {
        compare(&mut costs, found, &algorithms, &points);
    }
    by_size(&endpoint, &args.bytes, &mut costs).map_err(failed)?;
    let (rank, meetings) = (endpoint.rank(), links::agree(&endpoint, JobKey(_job.key()))?);
    // With it goes what would hear the frames of the links, too, and take its time.
    drop(endpoint);
    for meeting in &meetings {
        let Some(endpoint) = meeting.begin(rank)? else { continue };
        costs.link = Some(meeting.link.clone());
        if let Some(found) = parameters(&endpoint).map_err(failed)? {
            costs.add(&found, None);
        }
        by_size(&endpoint, &args.bytes, &mut costs).map_err(failed)?;
    }
    costs.finish(rank);
    Ok(())
}

/// Those of which the model is held against what they take: the usual ones that want no more wires.
fn algorithms(wires: u8) -> Vec<Algorithm> {
    Algorithm::USUAL.into_iter().filter(|a| a.links() <= wires).collect()
}

/// The parameters of a datagram for people, before barriers are measured.
fn say(found: &Parameters, device: &str) {
    let Parameters { o_s, l, o_r, g, rtt } = *found;
    println!(
        "o_s {} us, L {} us, o_r {} us, g {} us, round trip {} us ({device})",
        digits(o_s),
        digits(l),
        digits(o_r),
        digits(g),
        digits(rtt)
    );
    println!("{}", Conditions::of(&found.logp()).text());
    println!("WEFT_LOGP={o_s:.3},{l:.3},{o_r:.3},{g:.3}\n");
}

/// What barriers take beside what they should by the parameters of a datagram.
fn compare(costs: &mut Costs, found: &Parameters, algorithms: &[Algorithm], points: &[Point]) {
    let (ranks, logp) = (costs.ranks, found.logp());
    let mut table =
        Table::new(["way", "ranks", "modelled us", "measured us", "measured / modelled"]);
    let time = |(algorithm, point): (&Algorithm, &Point)| {
        (*algorithm, algorithm.cost(ranks, &logp), point.mean_us())
    };
    let times: Vec<_> = algorithms.iter().zip(points).map(time).collect();
    let four = Four::of(ranks, &times);
    for &(algorithm, modelled, measured) in &times {
        table.row([
            algorithm.to_string(),
            ranks.to_string(),
            digits(modelled),
            digits(measured),
            digits(measured / modelled),
        ]);
    }
    if !costs.json {
        table.print();
        println!("{}\n", four.text());
    }
    costs.add(found, Some(four));
    if costs.json {
        let lines = times.iter().zip(points);
        lines.for_each(|(time, point)| json_line(&Modelled { point, modelled_us: time.1 }));
    }
}

/// Measures messages of these sizes. G is the slope of g from the size before.
fn by_size(endpoint: &Endpoint, sizes: &[u64], costs: &mut Costs) -> Result<(), Error> {
    if endpoint.rank() > 1 {
        return Ok(());
    }
    let mut before: Option<(u64, f64)> = None;
    for &bytes in sizes {
        let Some(found) = messages::parameters(endpoint, bytes as usize)? else { continue };
        let per_byte_ns = before
            .filter(|(shorter, _)| *shorter < bytes)
            .map(|(shorter, its_g)| (found.g - its_g) * 1000.0 / (bytes - shorter) as f64);
        before = Some((bytes, found.g));
        costs.line(Some(bytes), &found, per_byte_ns, None);
    }
    Ok(())
}

/// What datagrams and messages cost: written at once as JSON, at the end as a table.
struct Costs {
    json: bool,
    device: &'static str,
    ranks: u32,
    /// The one link that is measured now; `None`: all of the device.
    link: Option<String>,
    table: Table,
}

impl Costs {
    fn new(json: bool, device: &'static str, ranks: u32) -> Costs {
        let names = ["over", "bytes", "o_s us", "L us", "o_r us", "g us", "round trip us"];
        let table = Table::new(names.into_iter().chain(["G ns/byte"]));
        Costs { json, device, ranks, link: None, table }
    }

    /// Those of a datagram.
    fn add(&mut self, found: &Parameters, four: Option<Four>) {
        self.line(None, found, None, four);
    }

    /// Those of a message of so many bytes, or of a datagram.
    fn line(
        &mut self,
        message: Option<u64>,
        found: &Parameters,
        per_byte_ns: Option<f64>,
        four: Option<Four>,
    ) {
        let Parameters { o_s, l, o_r, g, rtt } = *found;
        let link = self.link.as_deref();
        if self.json {
            return json_line(&Line {
                bench: "logp",
                device: link.map_or(self.device, |_| "ether"),
                link,
                ranks: link.map_or(self.ranks, |_| 2),
                bytes: message.unwrap_or(DATAGRAM_LEN),
                mode: message.map_or("datagram", |_| "message"),
                o_s_us: o_s,
                l_us: l,
                o_r_us: o_r,
                g_us: g,
                rtt_us: rtt,
                per_byte_ns,
                condition: message.is_none().then(|| Conditions::of(&found.logp())),
                four,
            });
        }
        let size = message.map_or("datagram".to_string(), size_text);
        let us = [o_s, l, o_r, g, rtt].map(digits);
        let slope = per_byte_ns.map_or(String::new(), digits);
        let over = link.unwrap_or(self.device).to_string();
        self.table.row([over, size].into_iter().chain(us).chain([slope]));
    }

    fn finish(self, rank: u32) {
        if rank == 0 && !self.json {
            self.table.print();
        }
    }
}

/// Measures between ranks 0 and 1; rank 0 learns what came of it.
fn parameters(endpoint: &Endpoint) -> Result<Option<Parameters>, Error> {
    if endpoint.rank() > 1 {
        return Ok(None);
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
        return Ok(None);
    }
    let middle = |times: Vec<f64>| median(times.into_iter()).max(0.0);
    let (o_s, o_r, rtt) = (middle(send), middle(receive), middle(trip));
    let l = (rtt / 2.0 - o_s - o_r).max(0.0);
    Ok(Some(Parameters { o_s, l, o_r, g, rtt }))
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
