//! `weft links`: who is reached over which link, how fast, and what is odd about it. This process,
//! and those that run the same command on other nodes at the time, survey together
//! ([`weft::survey`]); with `--lab` or `--hosts` they are started there, as ranks of `weft run`,
//! and then also try the ways to nodes that no cable leads to, as a job does (`trial`).

mod apart;
mod far;
mod gather;
mod graph;
mod item;
mod layout;
mod odd;
mod page;
mod role;
mod show;
mod svg;
mod trial;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::Signal;
use weft::survey::{Options, Report, Survey};
use weft_sys::process::Signals;

use crate::CliError;
use crate::output::{json_line, progress_wanted};
use gather::{Ranks, Where};
use graph::Graph;
use item::NodeItem;
use show::Found;
use trial::Trial;
use view::View;

/// How much longer a survey lasts on hosts, which do not all begin at the same time.
const HOSTS_EXTRA: Duration = Duration::from_secs(2);
/// How long a survey lasts of so many nodes, and for each further one: each has more cables to
/// measure then, one after the other.
const USUAL: (Duration, usize) = (Duration::from_secs(3), 6);
const FOR_EACH: Duration = Duration::from_millis(500);
/// How long it may take until all hosts have begun.
const HOSTS_LIMIT: Duration = Duration::from_secs(30);

/// Finds peers on every link; prints who reaches whom over which link, and how fast.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Survey on the nodes of a lab: its name, or a specification such as nodes=2,topology=mesh
    #[arg(long)]
    lab: Option<String>,
    /// Survey on these hosts as well, reached by ssh, as alpha,beta
    #[arg(long, conflicts_with = "lab")]
    hosts: Option<String>,
    /// For how long [default: 3, and half a second for each node beyond 6]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Write a line of JSON for each pair of links, for each pair of nodes that no cable joins, and
    /// for each thing that is odd
    #[arg(long)]
    json: bool,
    /// List each link of each cable in each direction, and all ways through other nodes
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Draw nodes and cables into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Only tell the `weft links` that started this one what was found
    #[arg(long, hide = true)]
    report: bool,
    /// Addresses that hello frames are sent to besides
    #[arg(long, hide = true, value_delimiter = ',')]
    ask: Vec<std::net::IpAddr>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "a number of seconds is expected")?;
    if !(0.5..=3600.0).contains(&number) {
        return Err("a survey lasts 0.5 to 3600 seconds".to_string());
    }
    Ok(Duration::from_secs_f64(number))
}

/// How long a survey lasts of so many nodes.
fn lasts(args: &Args, nodes: usize) -> Duration {
    let more = nodes.saturating_sub(USUAL.1) as u32;
    args.seconds.unwrap_or(USUAL.0 + FOR_EACH * more)
}

/// Surveys and shows what was found: exit status 0 if there is anybody, 1 if there is nobody.
///
/// # Errors
/// When a survey cannot begin, or a lab or the hosts cannot be used.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    // Before threads and children are started, which would else be ended before they tidied up.
    let ended_by = [Signal::TERM, Signal::INT, Signal::HUP].map(Signal::as_raw);
    let signals = Signals::take(&ended_by).map_err(CliError::io("taking signals"))?;
    if args.report {
        report(args, &signals)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (nodes, interrupted) = match (&args.lab, &args.hosts) {
        (Some(lab), _) => on_lab(args, lab, &signals)?,
        (None, Some(hosts)) => on_hosts(args, hosts, &signals)?,
        (None, None) => here(args, &signals)?,
    };
    let view = View::new(&nodes);
    let graph = Graph::of(&view);
    let far = far::find(&view, &graph);
    let mut odd = apart::find(&view, &graph, &far);
    odd.extend(odd::find(&view));
    let roles = role::foretell(&view);
    let found = Found { view: &view, graph: &graph, roles: &roles, far: &far, odd: &odd };
    if args.json {
        found.json();
    } else {
        found.print(args.all);
    }
    if let Some(path) = &args.svg {
        crate::plot::write(path, &svg::draw(&found)).map_err(CliError::Bench)?;
    }
    if let Some(number) = interrupted {
        return Ok(ExitCode::from((128 + number) as u8));
    }
    if view.rows.is_empty() {
        eprintln!("weft: {}", nobody(args, &nodes));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Surveys here for another `weft links`, and tells it what was found.
fn report(args: &Args, signals: &Signals) -> Result<(), CliError> {
    let mut ended = false;
    let report = survey(args, lasts(args, 1), |_| {
        ended |= came(signals);
        ended
    })?;
    let mut node = NodeItem::from(&report);
    node.describe_media();
    let tried = if ended { Ok(None) } else { trial::run(&mut node) };
    json_line(&node);
    match tried {
        Ok(trial) => trial.into_iter().for_each(Trial::end),
        Err(error) => eprintln!("weft: ways through other nodes were not tried: {error}"),
    }
    Ok(())
}

/// What was found, and the signal that ended it.
type Gathered = (Vec<NodeItem>, Option<i32>);

/// Surveys on this machine only.
fn here(args: &Args, signals: &Signals) -> Result<Gathered, CliError> {
    let lasts = lasts(args, 1);
    let bar = Bar::new(lasts);
    let mut signal = None;
    let report = survey(args, lasts, |elapsed| {
        bar.show(elapsed);
        signal = signals.next().ok().flatten();
        signal.is_some()
    })?;
    let mut node = NodeItem::from(&report);
    node.describe_media();
    Ok((vec![node], signal))
}

fn on_lab(args: &Args, lab: &str, signals: &Signals) -> Result<Gathered, CliError> {
    let place = Where::lab(lab)?;
    let lasts = lasts(args, place.ranks());
    let mut ranks = Ranks::start(&place, lasts, &[])?;
    let bar = Bar::new(lasts);
    let began = Instant::now();
    let mut signal = None;
    while !ranks.are_over() {
        bar.show(began.elapsed());
        std::thread::sleep(Duration::from_millis(10));
        if let Ok(Some(number)) = signals.next() {
            signal = Some(number);
            ranks.end();
        }
    }
    Ok((ranks.found(signal.is_some())?, signal))
}

/// Surveys on hosts and, at the same time, here.
fn on_hosts(args: &Args, hosts: &str, signals: &Signals) -> Result<Gathered, CliError> {
    let place = Where::hosts(hosts)?;
    let ask = place.addresses();
    let lasts = lasts(args, place.ranks() + 1) + HOSTS_EXTRA;
    let mut ranks = Ranks::start(&place, lasts, &ask)?;
    let bar = Bar::new(lasts);
    let mut signal = None;
    let mut options = Options::from_env(lasts + HOSTS_LIMIT).map_err(setting)?;
    options.ask = ask;
    let began = Instant::now();
    let report = Survey::open(&options).map_err(setting)?.run(|| {
        bar.show(began.elapsed());
        if let Ok(Some(number)) = signals.next() {
            signal = Some(number);
            ranks.end();
        }
        ranks.are_over()
    });
    let mut node = NodeItem::from(&report);
    node.describe_media();
    let mut nodes = vec![node];
    nodes.append(&mut ranks.found(signal.is_some())?);
    Ok((nodes, signal))
}

fn survey(
    args: &Args,
    duration: Duration,
    mut stop: impl FnMut(Duration) -> bool,
) -> Result<Report, CliError> {
    let mut options = Options::from_env(duration).map_err(setting)?;
    options.ask.clone_from(&args.ask);
    let survey = Survey::open(&options).map_err(setting)?;
    let began = Instant::now();
    Ok(survey.run(|| stop(began.elapsed())))
}

fn setting(error: weft::error::Error) -> CliError {
    match error {
        weft::error::Error::Setting { why } => CliError::Usage(why),
        other => CliError::Bench(other.to_string()),
    }
}

fn came(signals: &Signals) -> bool {
    matches!(signals.next(), Ok(Some(_)))
}

/// What to say when nobody was found.
fn nobody(args: &Args, nodes: &[NodeItem]) -> String {
    let links = nodes.iter().map(|n| n.links.len()).sum::<usize>();
    if links == 0 {
        return "no link can be used here, so nobody could be looked for: `weft info` says why, and \
                what mends it"
            .to_string();
    }
    let start = if args.lab.is_some() || args.hosts.is_some() {
        "the nodes did not find each other"
    } else {
        "nobody answers on any link: run `weft links` on the other nodes at the same time, or use \
         --hosts (for longer: --seconds)"
    };
    format!(
        "{start}; check that cables are plugged in (`weft info`), that WEFT_INTERFACES and \
         WEFT_LINKS admit the same network on all nodes, and that no firewall drops \
         EtherType 0x88b5 or UDP"
    )
}

/// A bar that shows a person how long it will still take.
struct Bar(Option<ProgressBar>);

impl Bar {
    fn new(duration: Duration) -> Bar {
        let bar = progress_wanted().then(|| {
            let style = ProgressStyle::with_template("surveying {bar:40} {percent} %");
            let bar = ProgressBar::new(duration.as_millis() as u64);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Bar(bar)
    }

    fn show(&self, elapsed: Duration) {
        if let Some(bar) = &self.0 {
            bar.set_position(elapsed.as_millis() as u64);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
