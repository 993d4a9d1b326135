//! The launcher at work: its output is passed on and listened to, signals are passed to it, and
//! what is left is ended after it.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, Signal};
use weft_sys::process::{self, Setup, Signals};

use super::board::Board;
use super::names::Failure;
use super::sweep::Guard;
use super::watch::Watch;
use crate::CliError;
use crate::mpi::Launch;
use crate::profile::Outcome;
use crate::run::{ending, input};

/// How long the launcher may take to end its ranks after it was asked.
const GRACE: Duration = Duration::from_secs(5);
/// How long output may still come after the launcher has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// A line longer than this is not looked at any further.
const LINE_MAX: usize = 4096;

/// Signals that end a job, and those that its ranks get.
const ENDING: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];
const PASSED: [Signal; 2] = [Signal::USR1, Signal::USR2];

/// Runs a launcher.
pub struct Errand {
    signals: Signals,
}

impl Errand {
    /// From now on signals are for the job; to be called before threads are started.
    ///
    /// # Errors
    /// When the kernel gives no descriptor for them.
    pub fn prepare() -> Result<Errand, CliError> {
        let all: Vec<i32> = ENDING.iter().chain(&PASSED).map(|s| s.as_raw()).collect();
        let signals = Signals::take(&all).map_err(CliError::io("taking signals"))?;
        Ok(Errand { signals })
    }

    /// Starts the launcher, waits for its end, and gives the exit status to pass on.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(
        self,
        mut command: Command,
        setup: Setup,
        launch: &Launch<'_>,
        board: Board,
        timeout: Option<Duration>,
        outcome: &mut Outcome,
    ) -> Result<u8, CliError> {
        let mut guard = Guard::start(&board.mark()).map_err(CliError::io("starting a guard"))?;
        command.stdin(input()?).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Hydra writes to its helpers even as they end. Ended by that, it would take along what
        // ranks have said last. They have the signal as usual: `weft mpi-rank` restores it.
        let setup =
            Setup { dies_with_parent: true, own_group: true, outlives_readers: true, ..setup };
        let name = launch.install.mpiexec.display();
        let mut child = process::spawn(&mut command, setup)
            .map_err(CliError::io(format!("starting {name}")))?;
        let failure = Arc::new(Mutex::new(Failure::default()));
        let out = child.stdout.take().map(|from| pass_on(from, io::stdout(), failure.clone()));
        let err = child.stderr.take().map(|from| pass_on(from, io::stderr(), failure.clone()));
        let pid = rustix::process::Pid::from_child(&child);
        let mut watch = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            .map_err(io::Error::from)
            .and_then(|end| Watch::new(&board, launch.ranks as usize, end))
            .map_err(CliError::io("watching the launcher"))?;
        let pause = |limit| watch.wait(&board, limit);
        let (status, asked) = self.wait(&mut child, &mut guard, timeout, pause)?;
        outcome.interrupted = asked;
        watch.settle(&board);
        let (ranks, said, lost_way) = (board.entries(), board.said(), board.lost_way());
        // What is left of the job is ended here, which also ends its output.
        drop(guard);
        let limit = Instant::now() + LAST_WORDS;
        for pump in [out, err].into_iter().flatten() {
            while !pump.is_finished() && Instant::now() < limit {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        if status == 0 || asked {
            return Ok(status);
        }
        let failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
        let first = watch.first();
        for (pid, text) in failure.lost(said) {
            match ranks.iter().find(|entry| entry.pid == pid) {
                Some(entry) => say(&format!("rank {}: {text}", entry.rank)),
                None => say(&format!("process {pid}: {text}")),
            }
        }
        // When a rank has failed, what the launcher has on its host may fail as well.
        let lost_way = lost_way.filter(|_| !failure.is_of_a_rank());
        if let Some(text) = failure.text(&ranks, first).or(lost_way) {
            say(&text);
        }
        outcome.ends.extend(failure.ended(&ranks, first));
        Ok(failure.status(first).unwrap_or(status))
    }

    /// Waits for the launcher's end; gives its status, and whether it was asked to end.
    fn wait(
        &self,
        child: &mut Child,
        guard: &mut Guard,
        timeout: Option<Duration>,
        mut pause: impl FnMut(Duration),
    ) -> Result<(u8, bool), CliError> {
        let began = Instant::now();
        let mut asked: Option<(Instant, u8)> = None;
        loop {
            if let Some(status) = child.try_wait().map_err(CliError::io("waiting"))? {
                let (_, code) = ending(std::os::unix::process::ExitStatusExt::into_raw(status));
                return Ok(asked.map_or((code, false), |(_, code)| (code, true)));
            }
            while let Some(number) = self.signals.next().map_err(CliError::io("reading signals"))? {
                if PASSED.iter().any(|s| s.as_raw() == number) {
                    process::signal(child.id(), false, number);
                } else {
                    let second = asked.is_some();
                    asked = Some((Instant::now(), (128 + number) as u8));
                    self.end(child, guard, second);
                }
            }
            if asked.is_none()
                && let Some(limit) = timeout.filter(|limit| began.elapsed() >= *limit)
            {
                let s = limit.as_secs_f64();
                say(&format!("the job took longer than {s} s and is ended (--timeout)"));
                asked = Some((Instant::now(), 1));
                self.end(child, guard, false);
            }
            if asked.is_some_and(|(at, _)| at.elapsed() > GRACE) {
                self.end(child, guard, true);
            }
            pause(Duration::from_millis(if asked.is_some() { 20 } else { 100 }));
        }
    }

    /// Asks the launcher to end its ranks and itself, or does not ask.
    fn end(&self, child: &Child, guard: &mut Guard, now: bool) {
        guard.look();
        let signal = if now { Signal::KILL } else { Signal::TERM };
        process::signal(child.id(), false, signal.as_raw());
        process::signal(child.id(), false, Signal::CONT.as_raw());
    }
}

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "weft mpirun: {text}");
}

/// Copies what comes to where it belongs, and looks for what a launcher says of failures.
fn pass_on(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    failure: Arc<Mutex<Failure>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 * 1024];
        let mut line = Vec::new();
        let mut gone = false;
        loop {
            let got = match from.read(&mut bytes) {
                Ok(0) => return,
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            // A reader that has gone away does not end the job; nor may it block it.
            gone = gone || to.write_all(&bytes[..got]).and_then(|()| to.flush()).is_err();
            for byte in &bytes[..got] {
                match byte {
                    b'\n' => {
                        let text = String::from_utf8_lossy(&line);
                        failure.lock().unwrap_or_else(PoisonError::into_inner).read(&text);
                        line.clear();
                    }
                    _ if line.len() < LINE_MAX => line.push(*byte),
                    _ => {}
                }
            }
        }
    })
}
