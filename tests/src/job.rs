//! Jobs of real processes: started by the `weft` command, on this node or on a lab's, listened to
//! line by line, signalled, and always ended. Ranks say `@RANK WORD ...`; everything that they say
//! is told when a test fails.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use weft_cli::lab::{Lab, LabSpec, Options};
use weft_sys::net::{self, Interface};
use weft_sys::ns::NetNs;
use weft_sys::process::{self, Setup};

/// How long anything may take: a time that only a hang takes.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A lab that lives as long as this value.
#[derive(Debug)]
pub struct Cluster {
    lab: Lab,
}

impl Cluster {
    /// Makes a lab by the `weft` program at `exe`; without the right to make one, says so loudly
    /// and gives `None`.
    ///
    /// # Panics
    /// If it cannot be made for another reason.
    pub fn new(exe: &str, spec: &str) -> Option<Cluster> {
        if let Err(error) = NetNs::create() {
            println!("SKIPPED: no network namespaces can be made here: {error}");
            return None;
        }
        let spec: LabSpec = spec.parse().expect("a lab's specification");
        let options = Options { rootless: false, exe: Some(exe.into()) };
        Some(Cluster { lab: Lab::temporary(&spec, &options).expect("a lab") })
    }

    /// By which name `weft run --lab` finds it.
    pub fn name(&self) -> &str {
        &self.lab.record().name
    }

    /// A node's network namespace.
    pub fn node(&self, node: u32) -> NetNs {
        self.lab.net(node).expect("the node's namespace")
    }

    /// The network namespace of the switches.
    pub fn switch(&self) -> NetNs {
        let record = self.lab.record();
        let path = record.path_of(record.switches.expect("the lab has a switch"));
        NetNs::open(path).expect("the switches' namespace")
    }

    /// An interface of a node as it is now.
    pub fn interface(&self, node: u32, name: &str) -> Interface {
        let found = self.node(node).run(|| net::interface(name)).expect("interfaces");
        found.expect("the interface is there")
    }
}

/// Runs `program` in a network namespace.
///
/// # Panics
/// If it is missing or fails.
pub fn run_in(ns: &NetNs, program: &str, arguments: &[&str]) {
    let output = ns
        .run(|| Command::new(program).args(arguments).output())
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
}

/// A job that runs. It is killed when the value goes.
pub struct Job {
    child: Child,
    orders: Option<ChildStdin>,
    from: Receiver<String>,
    /// What was said and not yet taken by a test.
    pending: Vec<String>,
    /// All that was said.
    all: Vec<String>,
    /// How long a line may take.
    patience: Duration,
}

impl Job {
    /// Starts `weft run` with these arguments and variables.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(exe: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Job {
        let mut command = Command::new(exe);
        command.arg("run").args(arguments).envs(variables.iter().copied());
        Job::of(&mut command)
    }

    /// Starts a command, which runs a job in the end.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn of(command: &mut Command) -> Job {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Variables for the tests themselves are none of Weft's.
        command.env_remove(crate::job::LONG);
        let setup = Setup { dies_with_parent: true, ..Setup::default() };
        let mut child = process::spawn(command, setup).expect("the job starts");
        let (to, from) = channel();
        listen(child.stdout.take().expect("a pipe"), to.clone());
        listen(child.stderr.take().expect("a pipe"), to);
        let orders = child.stdin.take();
        let (pending, all) = (Vec::new(), Vec::new());
        Job { child, orders, from, pending, all, patience: PATIENCE }
    }

    /// The process of `weft run`.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives rank 0 a line to read.
    pub fn order(&mut self, line: &str) {
        let orders = self.orders.as_mut().expect("the job takes orders");
        if let Err(error) = writeln!(orders, "{line}") {
            self.fail(&format!("nobody takes the order {line:?}: {error}"));
        }
    }

    /// From now on a line may take so long to come, where that is known to happen.
    pub fn patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Takes the next line that begins so, and gives what follows there.
    pub fn says(&mut self, start: &str) -> String {
        self.says_any(&[start]).1
    }

    /// As [`Job::says`], with one of several beginnings; also says with which.
    pub fn says_any(&mut self, starts: &[&str]) -> (usize, String) {
        let which = |line: &str| starts.iter().position(|start| line.starts_with(start));
        let line = self.next(&starts.join(" or "), |line| which(line).is_some());
        let which = which(&line).expect("it begins so");
        (which, line[starts[which].len()..].trim().to_string())
    }

    /// Takes the next line with this text in it.
    pub fn mentions(&mut self, text: &str) {
        self.next(text, |line| line.contains(text));
    }

    /// Takes the next line that is so; `what` is what is looked for.
    fn next(&mut self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let give_up = Instant::now() + self.patience;
        loop {
            if let Some(at) = self.pending.iter().position(|line| is(line)) {
                return self.pending.remove(at);
            }
            match self.from.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
                Ok(line) => self.take(line),
                Err(RecvTimeoutError::Timeout) => self.fail(&format!("no {what:?} in time")),
                Err(RecvTimeoutError::Disconnected) => self.fail(&format!("{what:?} is missing")),
            }
        }
    }

    /// The number in the next line that begins so.
    pub fn number(&mut self, start: &str) -> u64 {
        let text = self.says(start);
        text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or_else(|| {
            self.fail(&format!("{start:?} is followed by {text:?}, which is no number"))
        })
    }

    /// The process of a rank.
    pub fn rank(&mut self, rank: u32) -> u32 {
        self.number(&format!("@{rank} pid ")) as u32
    }

    /// The processes of the first `count` ranks.
    pub fn pids(&mut self, count: u32) -> Vec<u32> {
        (0..count).map(|rank| self.rank(rank)).collect()
    }

    /// Waits until the number in lines that begin so has grown by at least `by` from what it is
    /// now.
    pub fn grows(&mut self, start: &str, by: u64) {
        while let Ok(line) = self.from.try_recv() {
            self.take(line);
        }
        let latest = self.pending.iter().rev().find(|l| l.starts_with(start));
        let now = latest.and_then(|l| l[start.len()..].trim().parse().ok());
        self.pending.retain(|l| !l.starts_with(start));
        let now: u64 = now.unwrap_or_else(|| self.number(start));
        while self.number(start) < now + by {}
    }

    /// Waits for the job's end, and gives its status and all that was said.
    pub fn ends(mut self) -> (ExitStatus, String) {
        self.orders = None;
        let give_up = Instant::now() + PATIENCE;
        loop {
            match self.from.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
                Ok(line) => self.take(line),
                Err(RecvTimeoutError::Timeout) => self.fail("the job does not end"),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.child.wait().expect("its status");
        (status, std::mem::take(&mut self.all).join("\n"))
    }

    /// Waits for the job's end, which must be a good one; gives all that was said.
    pub fn ends_well(self) -> String {
        let (status, said) = self.ends();
        assert!(status.success(), "the job ended with {status}; it said:\n{said}");
        said
    }

    fn take(&mut self, line: String) {
        self.all.push(line.clone());
        self.pending.push(line);
    }

    fn fail(&mut self, why: &str) -> ! {
        while let Ok(line) = self.from.try_recv() {
            self.take(line);
        }
        let from = self.all.len().saturating_sub(60);
        panic!("{why}; the job said last:\n{}", self.all[from..].join("\n"));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // Its ranks, and their children, go with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Variable that asks for the tests' long form.
pub const LONG: &str = "WEFT_TEST_LONG";

fn listen(pipe: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_string();
            if to.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// Sends a signal by its number.
///
/// # Panics
/// If there is no such process any more.
pub fn signal(pid: u32, number: i32) {
    assert!(process::signal(pid, false, number), "there is no process {pid} to signal");
}

/// Stops a process and waits until all its threads have stopped: the kernel tells one of them,
/// which tells the others when it has its turn, and until then they go on.
///
/// # Panics
/// If there is no such process, or it runs on for long.
pub fn stop(pid: u32) {
    signal(pid, STOP);
    eventually("a stop of all threads", || is_stopped(pid));
}

/// Whether all threads of a process are stopped: the state is the word after the name, which stands
/// in brackets.
fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}

/// SIGINT.
pub const INT: i32 = 2;
/// SIGKILL.
pub const KILL: i32 = 9;
/// SIGCONT.
pub const CONT: i32 = 18;
/// SIGSTOP.
const STOP: i32 = 19;

/// Bytes of memory that a process holds.
///
/// # Errors
/// When it has ended.
pub fn resident(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Which network namespace a process is in, as `net:[4026531840]`.
///
/// # Errors
/// When it has ended.
pub fn namespace(pid: u32) -> io::Result<String> {
    let path = fs::read_link(format!("/proc/{pid}/ns/net"))?;
    Ok(path.to_string_lossy().into_owned())
}

/// Processes in a network namespace.
pub fn inhabitants(namespace: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid| self::namespace(*pid).is_ok_and(|n| n == namespace)).collect()
}

/// Waits until `is` holds.
///
/// # Panics
/// If it does not come about.
pub fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < give_up, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the file at `path` is there.
pub fn is_there(path: &str) -> bool {
    Path::new(path).exists()
}
