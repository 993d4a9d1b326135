//! A command that measures: run to its end, or ended in order.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weft_sys::clock::now_ns;
use weft_sys::process::{self, Setup};

use super::rounds::Timed;
use crate::CliError;
use crate::interrupt::Interrupt;
use crate::mpirun::sweep::Guard;

/// No command gives nothing for longer than this beyond what it was asked to measure.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one may take to end what it has started after it was asked.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// What came of a command.
pub struct Run {
    /// The figures that it gave before it ended.
    pub figures: Vec<Timed>,
    /// How it ended.
    pub end: Result<(), CliError>,
}

impl Run {
    /// All figures of a command that has ended well.
    ///
    /// # Errors
    /// When it has not.
    pub fn whole(self) -> Result<Vec<Timed>, CliError> {
        self.end.map(|()| self.figures)
    }
}

/// Runs a command and reads a figure from each line of its output that is one; it may take `time`
/// for each. Where it has a `guard`, that ends what is left after it.
///
/// # Errors
/// When it cannot be started, or a signal comes: then it has ended.
pub fn run(
    mut command: Command,
    setup: Setup,
    time: Duration,
    mut guard: Option<Guard>,
    stop: &Interrupt,
) -> Result<Run, CliError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Signals of the terminal are for us, who pass them on.
    let setup = Setup { dies_with_parent: true, own_group: true, ..setup };
    let started = process::spawn(&mut command, setup);
    let mut child = started.map_err(CliError::io(format!("run {program}")))?;
    let heard = Arc::new(AtomicU64::new(now_ns()));
    let out = figures(child.stdout.take(), Arc::clone(&heard));
    let errors = reader(child.stderr.take());
    let waiting = CliError::io(format!("wait for {program}"));
    let longest = time + PATIENCE;
    let status = await_end(&mut child, &heard, longest, &mut guard, stop).map_err(waiting)?;
    // Processes that are left would keep the output open.
    drop(guard);
    stop.check()?;
    let figures = out.join().unwrap_or_default();
    let end = match status {
        None => {
            let seconds = longest.as_secs();
            Err(CliError::Bench(format!("{program} gave nothing for {seconds} s, and was ended")))
        }
        Some(status) if status.success() && !figures.is_empty() => Ok(()),
        Some(status) => {
            let said = in_short(&errors.join().unwrap_or_default());
            Err(CliError::Bench(format!("{program} ended with {status}: {said}")))
        }
    };
    Ok(Run { figures, end })
}

/// What a program has said, in one line: how it began, where the cause is, and how it ended.
fn in_short(said: &str) -> String {
    let mut lines: Vec<&str> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    if lines.len() > 4 {
        lines.drain(3..lines.len() - 1);
    }
    lines.join(" / ")
}

/// Waits until the command has ended; none if it had to be ended.
fn await_end(
    child: &mut Child,
    heard: &AtomicU64,
    longest: Duration,
    guard: &mut Option<Guard>,
    stop: &Interrupt,
) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let silent = now_ns().saturating_sub(heard.load(Ordering::Relaxed));
        if Duration::from_nanos(silent) > longest || stop.count() > 0 {
            guard.iter_mut().for_each(Guard::look);
            end(child, stop)?;
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Asks a command to end, and kills it if that takes long or another signal comes.
fn end(child: &mut Child, stop: &Interrupt) -> std::io::Result<()> {
    let (asked, before) = (Instant::now(), stop.count());
    for signal in [Signal::TERM, Signal::CONT] {
        process::signal(child.id(), false, signal.as_raw());
    }
    while child.try_wait()?.is_none() {
        if asked.elapsed() > GRACE || stop.count() > before {
            child.kill()?;
            child.wait()?;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn reader(from: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.map(|mut from| from.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The figures among the lines, each with the time at which it came; `heard` is that of the last.
fn figures(
    from: Option<impl Read + Send + 'static>,
    heard: Arc<AtomicU64>,
) -> JoinHandle<Vec<Timed>> {
    std::thread::spawn(move || {
        let lines = from.into_iter().flat_map(|from| BufReader::new(from).split(b'\n'));
        let figure = |line: Vec<u8>| serde_json::from_slice(&line).ok();
        let timed = lines.map_while(Result::ok).filter_map(figure).map(Timed::now);
        timed.inspect(|timed| heard.store(timed.at_ns, Ordering::Relaxed)).collect()
    })
}
