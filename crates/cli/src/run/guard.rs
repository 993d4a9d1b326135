//! `weft run-guard`: ends ranks' children when `weft run` is killed. A rank itself dies with its
//! parent by the kernel's hand; the processes that a rank has started do not. The guard is told of
//! each rank's process group, and ends those that are left when its standard input ends.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::process::{ChildStdin, Command, ExitCode, Stdio};

use weft::page::place::sweep_own;
use weft_sys::process::{self, Setup};

/// The guarded end: tells a guard what to watch.
#[derive(Debug)]
pub(super) struct Guard {
    to: ChildStdin,
}

impl Guard {
    /// Starts a guard.
    pub fn start() -> io::Result<Guard> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("run-guard").stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child =
            process::spawn(&mut command, Setup { own_session: true, ..Setup::default() })?;
        match child.stdin.take() {
            Some(to) => Ok(Guard { to }),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// From now on the process group `group` is watched.
    pub fn watch(&mut self, group: u32) {
        let _ = writeln!(self.to, "+{group}");
    }

    /// The process group is empty: its number may come to mean another.
    pub fn forget(&mut self, group: u32) {
        let _ = writeln!(self.to, "-{group}");
    }
}

/// Guards until standard input ends.
pub fn run() -> ExitCode {
    let mut groups = BTreeSet::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some((sign, Ok(group))) = line.split_at_checked(1).map(|(s, n)| (s, n.parse::<u32>()))
        else {
            continue;
        };
        match sign {
            "+" => groups.insert(group),
            _ => groups.remove(&group),
        };
    }
    let killed = !groups.is_empty();
    for group in groups {
        process::signal(group, true, 9);
    }
    if killed {
        sweep_own();
    }
    ExitCode::SUCCESS
}
