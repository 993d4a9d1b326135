//! `weft tune`: how long network cards wait before they interrupt. Shows it, or sets it while a
//! command runs or until it is interrupted, and puts back what was there before, however it ends.

mod outside;
mod show;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use serde::Serialize;
use weft::tune::cards::{Card, CardError};
use weft::tune::control::Controller;
use weft::tune::guard::Guard;
use weft_sys::net::{self, Coalescing, InterfaceFilter};
use weft_sys::process::{self, Setup, Signals};

use crate::CliError;
use crate::output::json_line;
use outside::Outside;

/// How often signals and the command are looked at.
const TICK: Duration = Duration::from_millis(20);

/// Two that set the same cards would put back each other's.
const IN_USE: &str =
    "another weft tune, or a job with WEFT_TUNE, sets this node's cards: end it first";

/// What ends it.
const ENDING: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

/// Shows how long network cards wait before they interrupt, or sets it for a while.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// An interface; several times for several [default: all that Weft uses]
    #[arg(long = "interface", value_name = "IF")]
    interfaces: Vec<String>,
    /// Most microseconds between a frame's arrival and the interrupt; 0: none
    #[arg(long, value_name = "US")]
    rx_usecs: Option<u32>,
    /// Most frames before an interrupt
    #[arg(long, value_name = "FRAMES")]
    rx_frames: Option<u32>,
    /// Most microseconds before a sent frame's memory is given back
    #[arg(long, value_name = "US")]
    tx_usecs: Option<u32>,
    /// Most sent frames before that
    #[arg(long, value_name = "FRAMES")]
    tx_frames: Option<u32>,
    /// Follow the load: short delays while processors idle, longer ones while they are busy. In a
    /// job WEFT_TUNE=adaptive does it better, for it sees which ranks wait
    #[arg(long, conflicts_with_all = ["rx_usecs", "rx_frames"])]
    adaptive: bool,
    /// Write lines of JSON
    #[arg(long)]
    json: bool,
    /// What to run with it [default: hold it until interrupted]
    #[arg(last = true)]
    command: Vec<OsString>,
}

impl Args {
    fn sets(&self) -> bool {
        let numbers = [self.rx_usecs, self.rx_frames, self.tx_usecs, self.tx_frames];
        self.adaptive || numbers.iter().any(Option::is_some)
    }

    /// What is asked of a card that has `before`. A driver that adapts by itself would go on.
    fn asked(&self, before: &Coalescing) -> Coalescing {
        let rx = self.adaptive || self.rx_usecs.or(self.rx_frames).is_some();
        let tx = self.tx_usecs.or(self.tx_frames).is_some();
        let nearest = || Controller::new(before.rx_us).delay_us();
        let kept = if self.adaptive { nearest() } else { before.rx_us };
        Coalescing {
            rx_us: self.rx_usecs.unwrap_or(kept),
            rx_frames: self.rx_frames.unwrap_or(before.rx_frames),
            tx_us: self.tx_usecs.unwrap_or(before.tx_us),
            tx_frames: self.tx_frames.unwrap_or(before.tx_frames),
            adaptive_rx: before.adaptive_rx && !rx,
            adaptive_tx: before.adaptive_tx && !tx,
        }
    }

    fn names(&self) -> Result<Vec<String>, CliError> {
        if !self.interfaces.is_empty() {
            return Ok(self.interfaces.clone());
        }
        let all = net::interfaces().map_err(CliError::io("listing network interfaces"))?;
        let filter = InterfaceFilter::from_env().map_err(|e| CliError::Usage(e.to_string()))?;
        Ok(filter.admitted(&all).into_iter().map(|i| i.name.clone()).collect())
    }
}

/// Does what the arguments say; the exit status is the command's, if there is one.
///
/// # Errors
/// When nothing can be set, or the command cannot be started.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let names = args.names()?;
    if args.sets() {
        return hold(args, &names);
    }
    if !args.command.is_empty() {
        let why = "nothing to set: give --rx-usecs, --adaptive or others before the command";
        return Err(CliError::Usage(why.into()));
    }
    show::all(&names, args.json)
}

/// A card's settings, as shown.
#[derive(Clone, Copy, Serialize)]
struct Shown {
    rx_usecs: u32,
    rx_frames: u32,
    tx_usecs: u32,
    tx_frames: u32,
    adaptive_rx: bool,
    adaptive_tx: bool,
}

impl From<Coalescing> for Shown {
    fn from(of: Coalescing) -> Shown {
        Shown {
            rx_usecs: of.rx_us,
            rx_frames: of.rx_frames,
            tx_usecs: of.tx_us,
            tx_frames: of.tx_frames,
            adaptive_rx: of.adaptive_rx,
            adaptive_tx: of.adaptive_tx,
        }
    }
}

/// What was set.
#[derive(Serialize)]
struct Set<'a> {
    interface: &'a str,
    before: Shown,
    asked: Shown,
    now: Shown,
}

/// Sets, waits for the end, and has everything put back.
fn hold(args: &Args, names: &[String]) -> Result<ExitCode, CliError> {
    // Before the guard and the command are started.
    let signals = Signals::take(&ENDING.map(Signal::as_raw));
    let signals = signals.map_err(CliError::io("taking signals"))?;
    let mut guard = Guard::start().map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => CliError::Bench(IN_USE.into()),
        _ => CliError::io("starting weft tune-guard")(error),
    })?;
    let cards = set_all(args, names, &mut guard)?;
    let outside = args.adaptive.then(|| Outside::new(cards, args.json));
    let ended = attend(args, &signals, outside);
    if !guard.end() {
        let why = "not everything was put back: see above, and set it by ethtool -C";
        return Err(CliError::Bench(why.into()));
    }
    ended
}

/// Sets what can be set, and says what cannot; an error where that is nothing or was named.
fn set_all(args: &Args, names: &[String], guard: &mut Guard) -> Result<Vec<Card>, CliError> {
    let mut cards = Vec::new();
    let mut failed = Vec::new();
    for name in names {
        match set(args, name, guard)? {
            Ok(card) => cards.push(card),
            Err(error) => failed.push(error.to_string()),
        }
    }
    if cards.is_empty() || (!failed.is_empty() && !args.interfaces.is_empty()) {
        if failed.is_empty() {
            failed.push("there is no interface to set: weft info says why".into());
        }
        return Err(CliError::Bench(failed.join("\nweft: ")));
    }
    failed.iter().for_each(|why| eprintln!("weft: {why}"));
    Ok(cards)
}

fn set(args: &Args, name: &str, guard: &mut Guard) -> Result<Result<Card, CardError>, CliError> {
    let (card, before) = match Card::open(name) {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    let asked = args.asked(&before);
    guard.watch(name, &before).map_err(CliError::io("telling weft tune-guard"))?;
    let now = match card.set(&asked) {
        Ok(now) => now,
        Err(error) => {
            guard.forget(name).map_err(CliError::io("telling weft tune-guard"))?;
            return Ok(Err(error));
        }
    };
    if args.json {
        let [before, asked, now] = [before, asked, now].map(Shown::from);
        json_line(&Set { interface: name, before, asked, now });
    } else {
        eprintln!("weft: {name}: {}", show::change(&before, &asked, &now));
    }
    Ok(Ok(card))
}

/// Until the command has ended, or this process is asked to end.
fn attend(
    args: &Args,
    signals: &Signals,
    mut outside: Option<Outside>,
) -> Result<ExitCode, CliError> {
    let mut child = start(&args.command)?;
    loop {
        while let Ok(Some(number)) = signals.next() {
            let Some(child) = &child else { return Ok(ExitCode::SUCCESS) };
            process::signal(child.id(), false, number);
        }
        if let Some(child) = &mut child
            && let Some(status) = child.try_wait().map_err(CliError::io("awaiting the command"))?
        {
            let code = status.code().or(status.signal().map(|number| 128 + number));
            return Ok(ExitCode::from(code.unwrap_or(1) as u8));
        }
        if let Some(outside) = &mut outside {
            outside.look();
        }
        sleep(TICK);
    }
}

fn start(words: &[OsString]) -> Result<Option<Child>, CliError> {
    let Some((program, arguments)) = words.split_first() else { return Ok(None) };
    let mut command = Command::new(program);
    let started: io::Result<Child> = process::spawn(command.args(arguments), Setup::default());
    let doing = format!("starting {}", program.to_string_lossy());
    started.map(Some).map_err(CliError::io(doing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(words: &[&str]) -> Args {
        use clap::Parser;
        Line::parse_from([&["tune"], words].concat()).args
    }

    #[test]
    fn only_what_is_asked_for_changes_and_drivers_stop_adapting_it() {
        let before = Coalescing {
            rx_us: 3,
            rx_frames: 8,
            tx_us: 5,
            tx_frames: 9,
            adaptive_rx: true,
            adaptive_tx: true,
        };
        let asked = args(&["--rx-usecs", "30"]).asked(&before);
        assert_eq!(asked, Coalescing { rx_us: 30, adaptive_rx: false, ..before });
        let asked = args(&["--tx-usecs", "0", "--tx-frames", "1"]).asked(&before);
        assert_eq!(asked, Coalescing { tx_us: 0, tx_frames: 1, adaptive_tx: false, ..before });
        let asked = args(&["--adaptive"]).asked(&Coalescing { rx_us: 200, ..before });
        assert_eq!((asked.rx_us, asked.adaptive_rx, asked.adaptive_tx), (250, false, true));
        assert!(!args(&["--json"]).sets() && args(&["--adaptive", "--", "a", "-b"]).sets());
    }
}
