//! The process that holds a lab. The namespaces have no names: they exist while this process has
//! descriptors of them, or something runs inside. It ends when it is told to (`weft lab down`), or,
//! for a temporary lab, when the process it was made for ends, however that ends: it then sees the
//! end of its standard input. Before it goes, it ends what still runs inside the lab.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Resource, Signal};
use serde::{Deserialize, Serialize};
use weft_sys::ns::{self, NsId};
use weft_sys::process::{self, Signals};

use super::build::{Built, build};
use super::state::pids;
use super::{LabError, LabSpec, Record, forward};
use crate::CliError;

/// How long processes inside may take to end after they were asked to.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the holder is told; written by `weft lab up` and its like, not by people.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[arg(long)]
    name: String,
    #[arg(long)]
    spec: LabSpec,
    #[arg(long)]
    rootless: bool,
    #[arg(long)]
    owner: Option<u32>,
}

/// The one line that the holder writes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Report {
    /// The lab stands.
    Ready(Record),
    /// It does not, and why.
    Failed(String),
}

/// Builds a lab, says so on standard output, and holds it.
///
/// # Errors
/// When the lab cannot be built; it has been reported as well.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let (mut built, record, signals) = match start(args) {
        Ok(started) => started,
        Err(error) => {
            report(&Report::Failed(error.to_string()));
            return Ok(ExitCode::FAILURE);
        }
    };
    let lines = std::mem::take(&mut built.lines);
    if !lines.is_empty()
        && let Err(cause) = forward::start(lines)
    {
        record.forget();
        let error = LabError::io("starting what carries frames")(cause);
        report(&Report::Failed(error.to_string()));
        return Ok(ExitCode::FAILURE);
    }
    report(&Report::Ready(record.clone()));
    let _ = std::env::set_current_dir("/");
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    wait(args.owner.is_some(), &signals);
    record.forget();
    end_all_inside(&built);
    Ok(ExitCode::SUCCESS)
}

fn start(args: &Args) -> Result<(Built, Record, Signals), LabError> {
    let ended_by = [Signal::TERM, Signal::INT, Signal::HUP].map(Signal::as_raw);
    let signals = Signals::take(&ended_by).map_err(LabError::io("taking signals"))?;
    take_all_descriptors();
    let mut rootless = args.rootless;
    if rootless {
        go_rootless()?;
    }
    let built = match build(&args.spec) {
        // Not root, or a root without rights: a user namespace may help.
        Err(LabError::NoRight { .. }) if !rootless => {
            rootless = true;
            go_rootless()?;
            build(&args.spec)?
        }
        other => other?,
    };
    let holder = std::process::id();
    let record = Record {
        name: args.name.clone(),
        spec: args.spec.clone(),
        holder,
        started: process::start_time(holder).unwrap_or(0),
        pids: pids(),
        owner: args.owner,
        rootless,
        nodes: built.nodes.iter().map(|n| n.as_fd().as_raw_fd()).collect(),
        switches: built.switches.as_ref().map(|n| n.as_fd().as_raw_fd()),
    };
    record.publish()?;
    Ok((built, record, signals))
}

/// A lab takes two descriptors for each node, and two for each cable with frames to carry.
fn take_all_descriptors() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

fn go_rootless() -> Result<(), LabError> {
    let mut tries = 100;
    loop {
        match ns::enter_new_user_ns() {
            // A thread that was just joined may still be on its way out of the kernel.
            Err(error) if error.kind() == ErrorKind::InvalidInput && tries > 0 => {
                tries -= 1;
                thread::sleep(Duration::from_millis(1));
            }
            other => return other.map_err(|cause| LabError::NoRight { cause }),
        }
    }
}

fn report(report: &Report) {
    let mut line = serde_json::to_vec(report).unwrap_or_default();
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(&line).and_then(|()| out.flush());
}

/// Waits for a signal, or with `owned` for the end of standard input.
fn wait(owned: bool, signals: &Signals) {
    let stdin = std::io::stdin();
    loop {
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        if owned {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        match rustix::event::poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) => {}
        }
        // Nobody writes to standard input: whatever happens there is its end.
        let owner_gone = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if owner_gone || !matches!(signals.next(), Ok(None)) {
            return;
        }
    }
}

/// Ends every process in the lab: asks first, then kills.
fn end_all_inside(built: &Built) {
    let spaces = built.nodes.iter().chain(&built.switches).chain(&built.inside);
    let spaces: Vec<NsId> = spaces.filter_map(|n| n.id().ok()).collect();
    let asked = Instant::now();
    let mut signal = Signal::TERM;
    while signal_all_in(&spaces, signal) > 0 && asked.elapsed() < 10 * PATIENCE {
        thread::sleep(Duration::from_millis(10));
        if asked.elapsed() > PATIENCE {
            signal = Signal::KILL;
        }
    }
}

/// Sends a signal to every process in these namespaces, and says how many there were.
fn signal_all_in(spaces: &[NsId], signal: Signal) -> usize {
    let mut found = 0;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
            continue;
        };
        let inside =
            || NsId::of(format!("/proc/{pid}/ns/net")).is_ok_and(|id| spaces.contains(&id));
        if pid as u32 == std::process::id() || !inside() {
            continue;
        }
        let Some(pid) = Pid::from_raw(pid) else { continue };
        // The descriptor names the process for good; a second look makes sure that it is still the
        // one that was found.
        if let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            && inside()
            && rustix::process::pidfd_send_signal(process, signal).is_ok()
        {
            found += 1;
        }
    }
    found
}
