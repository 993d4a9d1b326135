//! `weft top`: the jobs of this machine, and with `--hosts` of others, while they run: what each
//! rank sends and receives, what it waits for, and what its links do. It only reads the pages that
//! processes show of themselves ([`weft::page`]), so it comes and goes as it likes.

mod hosts;
mod item;
mod listen;
mod rates;
mod screen;
mod show;

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weft_sys::process::Signals;

use crate::CliError;
use crate::run::seconds;
use hosts::Hosts;
use item::Sample;
pub(crate) use item::links;
use listen::Listener;
pub use rates::COUNTED;
use rates::Rates;
use screen::{Key, Screen};
use show::Order;

/// The shortest time between two looks: pages are written no more often.
const SHORTEST: Duration = Duration::from_millis(100);

/// How long it stands on a terminal that a job has ended.
const READING: Duration = Duration::from_secs(10);

/// Shows the jobs of this machine while they run.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Seconds between two looks
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Show one table, of one interval, and end
    #[arg(long)]
    once: bool,
    /// Write a line of JSON for each look
    #[arg(long)]
    json: bool,
    /// By what ranks are ordered: rank, out, in, wait
    #[arg(long, value_enum, default_value = "rank")]
    sort: Order,
    /// Look at these hosts as well, as alpha,beta
    #[arg(long)]
    hosts: Option<String>,
    /// Offer all counters to Prometheus at this address, as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// With --listen: an address that other machines reach may be given
    #[arg(long, requires = "listen")]
    listen_to_all: bool,
}

/// Shows what there is until it is ended.
///
/// # Errors
/// When no socket or terminal can be had, or a host does not answer.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let interval = args.interval.max(SHORTEST);
    let ended_by = [Signal::TERM, Signal::INT, Signal::HUP].map(Signal::as_raw);
    let signals = Signals::take(&ended_by).map_err(CliError::io("taking signals"))?;
    let mut hosts = args.hosts.as_deref().map(|list| Hosts::start(list, interval)).transpose()?;
    let listener = match args.listen {
        Some(at) => Some(Listener::bind(at, args.listen_to_all)?),
        None => None,
    };
    let shows = !args.json && !args.once && listener.is_none();
    let mut screen = match shows && std::io::stdout().is_terminal() {
        true => Some(Screen::open()?),
        false => None,
    };
    let mut order = args.sort;
    let mut rates = match screen {
        Some(_) => Rates::saying_ends_for(READING),
        None => Rates::default(),
    };
    let mut last = rates.next(item::look(hosts.as_mut()));
    let mut looks = 0;
    loop {
        if let Some(screen) = &mut screen {
            screen.draw(&show::page(&last, order, &screen.paper()))?;
        }
        match rest(interval, &signals, screen.as_mut(), listener.as_ref(), &last)? {
            Rest::Over => {}
            Rest::Pressed(Key::Quit) | Rest::Signal => return Ok(ExitCode::SUCCESS),
            Rest::Pressed(Key::Order(by)) => {
                order = by;
                continue;
            }
        }
        if args.once && hosts.as_ref().is_some_and(|hosts| !hosts.have_answered()) {
            continue;
        }
        let sample = rates.next(item::look(hosts.as_mut()));
        looks += 1;
        let text = match (args.json, screen.is_none() && listener.is_none()) {
            (true, _) => serde_json::to_string(&sample).unwrap_or_default() + "\n",
            (false, true) => plain(&sample, order, looks),
            (false, false) => String::new(),
        };
        // Nobody reads it any more: a look from another host ends so.
        if std::io::stdout().write_all(text.as_bytes()).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        last = sample;
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Plain lines, where nobody draws.
fn plain(sample: &Sample, order: Order, looks: u32) -> String {
    let between = if looks > 1 { "\n" } else { "" };
    format!("{between}{}", show::page(sample, order, &show::Paper::plain()))
}

/// How a pause ended.
enum Rest {
    Over,
    Pressed(Key),
    Signal,
}

/// Waits for the next look, and does meanwhile what is asked for.
fn rest(
    interval: Duration,
    signals: &Signals,
    mut screen: Option<&mut Screen>,
    listener: Option<&Listener>,
    last: &Sample,
) -> Result<Rest, CliError> {
    let until = Instant::now() + interval;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Rest::Over);
        }
        if signals.next().map_err(CliError::io("reading signals"))?.is_some() {
            return Ok(Rest::Signal);
        }
        if let Some(screen) = &mut screen {
            match screen.key(left.min(SHORTEST))? {
                Some(key) => return Ok(Rest::Pressed(key)),
                None => continue,
            }
        }
        match listener {
            Some(listener) => listener.serve(left.min(SHORTEST), last),
            None => {
                let _ = weft_sys::process::ready(signals, false, left);
            }
        }
    }
}
