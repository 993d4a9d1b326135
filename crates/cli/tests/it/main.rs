//! Tests of the `weft` command as users start it: one binary, a module per subcommand.

mod bench;
mod compare;
mod lab;
mod launchers;
mod links;
mod look;
mod plots;
mod run;
mod shapes;
mod sim;
mod tune;

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The command under test.
const WEFT: &str = env!("CARGO_BIN_EXE_weft");

/// Runs `weft` with these arguments to its end.
fn weft(arguments: &[&str]) -> Output {
    Command::new(WEFT).args(arguments).output().expect("weft starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until `is` holds; gives up after a time that only a hang takes.
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < limit, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process is there and has not ended.
fn lives(pid: u32) -> bool {
    weft_sys::process::start_time(pid).is_some()
}

/// Processes whose command line holds `mark`.
fn processes_with(mark: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
        line.is_ok_and(|l| String::from_utf8_lossy(&l).contains(mark)) && lives(*pid)
    })
    .collect()
}

/// Labs that a process owns.
fn labs_of(owner: u32) -> usize {
    out(&weft(&["lab", "list", "--json"])).matches(&format!("\"owner\":{owner}")).count()
}

/// Whether labs can be made here; says so loudly if not.
fn labs_work(test: &str) -> bool {
    let name = format!("try-{}-{test}", std::process::id());
    let made = weft(&["lab", "up", "--nodes", "1", "--name", &name]);
    if !made.status.success() {
        println!("SKIPPED: {test}: {}", err(&made).trim());
        return false;
    }
    weft(&["lab", "down", "--name", &name]).status.success()
}
