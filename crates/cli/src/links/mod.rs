//! `weft links`: who is reached over which link, how fast, and what is odd about it. This process,
//! and those that run the same command on other nodes at the time, survey together
//! ([`weft::survey`]); with `--lab` or `--hosts` they are started there, as ranks of `weft run`.

mod gather;
mod item;
mod odd;
mod view;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::Signal;
use weft::survey::{Options, Report, Survey};
use weft_sys::process::Signals;

use crate::CliError;
use crate::output::{json_line, progress_wanted};
use gather::{Ranks, Where};
use item::NodeItem;
use view::View;

/// How much longer a survey lasts on hosts, which do not all begin at the same time.
const HOSTS_EXTRA: Duration = Duration::from_secs(2);
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
    /// For how long
    #[arg(long, value_name = "S", default_value = "3", value_parser = seconds)]
    seconds: Duration,
    /// Write a line of JSON for each pair of links, and for each thing that is odd
    #[arg(long)]
    json: bool,
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

/// Surveys and shows what was found: exit status 0 if there is anybody, 1 if there is nobody.
///
/// # Errors
/// When a survey cannot begin, or a lab or the hosts cannot be used.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    // Before threads and children are started, which would else be ended before they tidied up.
    let ended_by = [Signal::TERM, Signal::INT, Signal::HUP].map(Signal::as_raw);
    let signals = Signals::take(&ended_by).map_err(CliError::io("taking signals"))?;
    if args.report {
        let report = survey(args, args.seconds, |_| came(&signals))?;
        json_line(&NodeItem::from(&report));
        return Ok(ExitCode::SUCCESS);
    }
    let (nodes, interrupted) = match (&args.lab, &args.hosts) {
        (Some(lab), _) => on_lab(args, lab, &signals)?,
        (None, Some(hosts)) => on_hosts(args, hosts, &signals)?,
        (None, None) => here(args, &signals)?,
    };
    let view = View::new(&nodes);
    let odd = odd::find(&view);
    if args.json {
        view.json(&odd);
    } else {
        view.print(&odd);
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

/// What was found, and the signal that ended it.
type Found = (Vec<NodeItem>, Option<i32>);

/// Surveys on this machine only.
fn here(args: &Args, signals: &Signals) -> Result<Found, CliError> {
    let bar = Bar::new(args.seconds);
    let mut signal = None;
    let report = survey(args, args.seconds, |elapsed| {
        bar.show(elapsed);
        signal = signals.next().ok().flatten();
        signal.is_some()
    })?;
    Ok((vec![NodeItem::from(&report)], signal))
}

fn on_lab(args: &Args, lab: &str, signals: &Signals) -> Result<Found, CliError> {
    let mut ranks = Ranks::start(&Where::lab(lab)?, args.seconds, &[])?;
    let bar = Bar::new(args.seconds);
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
fn on_hosts(args: &Args, hosts: &str, signals: &Signals) -> Result<Found, CliError> {
    let place = Where::hosts(hosts)?;
    let ask = place.addresses();
    let lasts = args.seconds + HOSTS_EXTRA;
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
    let mut nodes = vec![NodeItem::from(&report)];
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
