//! A command that measures: run to its end, or ended in order.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weft_sys::process::{self, Setup};

use super::rounds::Timed;
use crate::CliError;
use crate::interrupt::Interrupt;
use crate::mpirun::sweep::Guard;

/// No command takes longer than this beyond what it was asked to measure.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one may take to end what it has started after it was asked.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Runs a command and reads a figure from each line of its output that is one. Where it has a
/// `guard`, that ends what is left after it.
///
/// # Errors
/// When it cannot be run, fails, takes too long, or a signal comes: then it has ended.
pub fn figures_of(
    mut command: Command,
    setup: Setup,
    time: Duration,
    mut guard: Option<Guard>,
    stop: &Interrupt,
) -> Result<Vec<Timed>, CliError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Signals of the terminal are for us, who pass them on.
    let setup = Setup { dies_with_parent: true, own_group: true, ..setup };
    let started = process::spawn(&mut command, setup);
    let mut child = started.map_err(CliError::io(format!("run {program}")))?;
    let out = figures(child.stdout.take());
    let errors = reader(child.stderr.take());
    let limit = Instant::now() + time + PATIENCE;
    let waiting = CliError::io(format!("wait for {program}"));
    let Some(status) = await_end(&mut child, limit, &mut guard, stop).map_err(waiting)? else {
        stop.check()?;
        return Err(CliError::Bench(format!("{program} did not end in time")));
    };
    // Processes that are left would keep the output open.
    drop(guard);
    let figures = out.join().unwrap_or_default();
    if status.success() && !figures.is_empty() {
        return Ok(figures);
    }
    let said = errors.join().unwrap_or_default();
    let last: Vec<&str> = said.lines().rev().filter(|l| !l.trim().is_empty()).take(3).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    Err(CliError::Bench(format!("{program} ended with {status}: {}", last.join(" / "))))
}

/// Waits until the command has ended; none if it had to be ended.
fn await_end(
    child: &mut Child,
    limit: Instant,
    guard: &mut Option<Guard>,
    stop: &Interrupt,
) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > limit || stop.count() > 0 {
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

/// The figures among the lines, each with the time at which it came.
fn figures(from: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<Timed>> {
    std::thread::spawn(move || {
        let lines = from.into_iter().flat_map(|from| BufReader::new(from).split(b'\n'));
        let figure = |line: Vec<u8>| serde_json::from_slice(&line).ok();
        lines.map_while(Result::ok).filter_map(figure).map(Timed::now).collect()
    })
}
