//! `weft mpirun-guard`: waits until `weft mpirun` is done or dead, then ends what is left of its
//! job on this machine: every process of this user that has the job's mark in its environment, the
//! job's directory, and what the MPI library keeps elsewhere.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

use weft::page::place::sweep_own;
use weft_sys::process::{self, Setup};

use super::board::MARK;
use super::leftovers::{Leftovers, remove_orphans};

/// How long processes are looked for that start others faster than they are killed.
const LIMIT: Duration = Duration::from_secs(10);

/// The guard of a job, seen from `weft mpirun`.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    mark: PathBuf,
    leftovers: Leftovers,
}

impl Guard {
    /// Starts one for the job with this mark.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mark: &str) -> io::Result<Guard> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["mpirun-guard", mark]).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let setup = Setup { own_session: true, ..Setup::default() };
        let child = process::spawn(&mut command, setup)?;
        Ok(Guard { child, mark: mark.into(), leftovers: Leftovers::default() })
    }

    /// Looks at what files the job keeps elsewhere: to be called before its ranks are ended by
    /// others than the guard, for then nothing says any more what was theirs.
    pub fn look(&mut self) {
        marked(&self.mark).into_iter().for_each(|pid| self.leftovers.note(pid));
    }
}

impl Drop for Guard {
    /// Has it do its work, and waits for that.
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        self.leftovers.remove();
    }
}

/// Arguments of `weft mpirun-guard`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The job's directory.
    mark: PathBuf,
}

/// Guards until standard input ends, then sweeps.
pub fn run(args: &Args) -> ExitCode {
    // The clock of files is a tick behind.
    let began = SystemTime::now() - Duration::from_millis(20);
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    let limit = Instant::now() + LIMIT;
    let mut leftovers = Leftovers::default();
    while sweep(&args.mark, &mut leftovers) > 0 && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(10));
    }
    // The last of them may still be closing its files.
    for _ in 0..10 {
        leftovers.remove();
        if !remove_orphans(began) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    sweep_own();
    let _ = fs::remove_dir_all(&args.mark);
    ExitCode::SUCCESS
}

/// Kills all processes with the mark, and says how many there were.
fn sweep(mark: &Path, leftovers: &mut Leftovers) -> usize {
    let found = marked(mark);
    // Before the first of them ends: a launcher ends the others by itself.
    found.iter().for_each(|pid| leftovers.note(*pid));
    for pid in &found {
        process::signal(*pid, false, rustix::process::Signal::KILL.as_raw());
    }
    found.len()
}

/// The other processes with the mark.
fn marked(mark: &Path) -> Vec<u32> {
    let wanted = format!("{MARK}={}", mark.display()).into_bytes();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        // A process that has ended and waits for its parent has no environment any more.
        environment.split(|b| *b == 0).any(|word| word == wanted)
    };
    pids.filter(|pid| *pid != std::process::id()).filter(has_it).collect()
}
