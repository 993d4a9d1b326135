//! A host reached by ssh, or by what `WEFT_SSH` names: `weft run`'s end of the connection to its
//! agent there.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weft_sys::process::{self, Setup};

use super::RunError;
use super::agent::Start;
use super::frames::{self, Frame, Kind};
use super::team::Event;
use super::way::{leader, silent, weft_on};

/// How long the command that leads there may take to end when it is asked to.
const LEAVE: Duration = Duration::from_millis(500);

/// The ranks on another host.
pub struct Remote {
    host: String,
    command: String,
    child: Child,
    to: ChildStdin,
    from: Option<ChildStdout>,
    received: Vec<u8>,
    /// Ranks that have not ended.
    left: usize,
    lost: bool,
    /// By when the agent must have answered; `None` once it has.
    answers_by: Option<Instant>,
    limit: Duration,
}

impl Remote {
    /// Connects, and has the ranks started.
    ///
    /// # Errors
    /// When the command that leads there cannot be started.
    pub(super) fn start(host: &str, start: &Start, limit: Duration) -> Result<Remote, RunError> {
        let ssh = leader();
        let mut command = weft_on(host).map_err(RunError::io("finding the weft program"))?;
        let first = command.get_program().to_string_lossy().into_owned();
        let lost =
            |why: String| RunError::HostLost { host: host.to_string(), why, command: ssh.clone() };
        command.arg("run-agent");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let setup = Setup { dies_with_parent: true, own_group: true, ..Setup::default() };
        let mut child = process::spawn(&mut command, setup)
            .map_err(|e| lost(format!("{first} could not be started ({e})")))?;
        let (Some(mut to), from) = (child.stdin.take(), child.stdout.take()) else {
            return Err(lost("it has no input".to_string()));
        };
        let order = serde_json::to_vec(start).map_err(|e| lost(e.to_string()))?;
        frames::write(&mut to, Kind::Start, 0, &order).map_err(|e| lost(e.to_string()))?;
        Ok(Remote {
            host: host.to_string(),
            command: ssh,
            child,
            to,
            from,
            received: Vec::new(),
            left: start.ranks.len(),
            lost: false,
            answers_by: Instant::now().checked_add(limit),
            limit,
        })
    }

    /// The host's name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// When [`Remote::look_at_clock`] is to be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.answers_by
    }

    /// Gives a host up that has not answered in time.
    pub fn look_at_clock(&mut self, events: &mut Vec<Event>) {
        if self.answers_by.is_some_and(|at| Instant::now() >= at) {
            self.lose(silent(self.limit), events);
        }
    }

    /// What [`Remote::hear`] is to be called for when it is readable.
    pub fn ear(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().map(|f| f.as_fd())
    }

    /// Reads what has come.
    pub fn hear(&mut self, events: &mut Vec<Event>) {
        let Some(from) = &mut self.from else { return };
        let mut buffer = [0; 64 * 1024];
        match from.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return,
            Ok(got) if got > 0 => self.received.extend_from_slice(&buffer[..got]),
            _ => {
                self.from = None;
                if self.left > 0 {
                    self.lose("the connection to it ended".to_string(), events);
                }
                return;
            }
        }
        loop {
            match frames::take(&mut self.received) {
                Ok(Some(frame)) => self.take(&frame, events),
                Ok(None) => return,
                Err(why) => {
                    self.lose(why, events);
                    return;
                }
            }
        }
    }

    fn take(&mut self, frame: &Frame, events: &mut Vec<Event>) {
        let rank = frame.rank;
        match frame.kind {
            Kind::Hello if frame.bytes != env!("CARGO_PKG_VERSION").as_bytes() => {
                self.lose(format!("its weft has version {}", frame.text()), events);
            }
            Kind::Hello => self.answers_by = None,
            Kind::Ask => events.push(Event::Ask { rank, line: frame.text() }),
            Kind::Output | Kind::Error => {
                let error = frame.kind == Kind::Error;
                events.push(Event::Output { rank, error, bytes: frame.bytes.clone() });
            }
            Kind::Ended => {
                let text = frame.text();
                let mut words = text.split(' ');
                let pid = words.next().and_then(|w| w.parse().ok()).unwrap_or(0);
                let status = words.next().and_then(|w| w.parse().ok()).unwrap_or(1 << 8);
                self.left = self.left.saturating_sub(1);
                events.push(Event::Ended { rank, pid, status });
            }
            Kind::Failed => self.lose(frame.text(), events),
            _ => {}
        }
    }

    fn lose(&mut self, why: String, events: &mut Vec<Event>) {
        if !self.lost {
            let (host, command) = (self.host.clone(), self.command.clone());
            events.push(Event::Lost { error: RunError::HostLost { host, why, command } });
        }
        self.lost = true;
        self.answers_by = None;
        self.left = 0;
        self.from = None;
    }

    /// Answers a rank.
    pub fn answer(&mut self, rank: u32, line: &str) {
        // A connection that has ended is noticed when reading.
        let _ = frames::write(&mut self.to, Kind::Answer, rank, line.as_bytes());
    }

    /// Sends a signal to every rank there.
    pub fn signal(&mut self, number: i32) {
        let _ = frames::write(&mut self.to, Kind::Signal, 0, number.to_string().as_bytes());
    }

    /// Whether nothing more will come.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The agent sees the end of its input and ends its ranks; the way there is then closed.
        let _ = frames::write(&mut self.to, Kind::Signal, 0, b"9");
        process::signal(self.child.id(), true, Signal::TERM.as_raw());
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if asked.elapsed() >= LEAVE {
                process::signal(self.child.id(), true, Signal::KILL.as_raw());
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
