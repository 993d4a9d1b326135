//! A running job: listens to its ranks, keeps their notice board, and sees that all ends well.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;
use weft_report::Ended;
use weft_sys::process::Signals;

use super::RunError;
use super::board::{Answer, Board};
use super::output::Printer;
use super::remote::Remote;
use super::team::{Event, Team, ending};
use crate::profile::Outcome;

/// How long ranks may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long output may still come after the last rank has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// After how long it is said which ranks the others wait for.
const MISSING_AFTER: Duration = Duration::from_secs(20);

/// What a job should do when not all goes well.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// A rank that fails does not end the others.
    pub keep_going: bool,
    /// The longest that the job may take.
    pub timeout: Option<Duration>,
}

/// A running job.
pub struct Job {
    /// The ranks on this machine.
    pub team: Team,
    /// The ranks on other hosts.
    pub remotes: Vec<Remote>,
    /// Where each rank runs, for people; by rank.
    pub places: Vec<String>,
    /// For each rank which of the remotes it is on.
    pub hosts: Vec<Option<usize>>,
    /// The notice board.
    pub board: Board,
    /// How output is written.
    pub printer: Printer,
    /// What to do when not all goes well.
    pub policy: Policy,
    /// Signals for the job.
    pub signals: Signals,
}

/// How far the end has come.
struct Ending {
    /// The exit status, once something has decided it.
    status: Option<u8>,
    /// When ranks were asked to end.
    asked: Option<Instant>,
    /// When they were killed.
    killed: Option<Instant>,
    /// When the last rank ended.
    last: Option<Instant>,
}

impl Job {
    /// Waits until all ranks have ended, and gives the exit status; how they ended is told to
    /// `outcome`.
    ///
    /// # Errors
    /// When waiting itself fails.
    pub fn run(mut self, outcome: &mut Outcome) -> Result<u8, RunError> {
        let began = Instant::now();
        let mut ending = Ending { status: None, asked: None, killed: None, last: None };
        let mut alive = self.places.len();
        let mut waiting: Option<Instant> = None;
        loop {
            let over = self.team.is_over() && self.remotes.iter().all(Remote::is_over);
            if over || ending.last.is_some_and(|at| at.elapsed() > LAST_WORDS) {
                break;
            }
            if ending.killed.is_some_and(|at| at.elapsed() > LAST_WORDS) {
                self.give_up();
                break;
            }
            let mut events = Vec::new();
            if self.listen(&mut events, self.patience(&ending, began, waiting))? {
                while let Some(number) =
                    self.signals.next().map_err(RunError::io("reading signals"))?
                {
                    outcome.interrupted = true;
                    self.interrupted(number, &mut ending);
                }
            }
            self.remotes.iter_mut().for_each(|remote| remote.look_at_clock(&mut events));
            for event in events {
                if let Event::Ended { rank, status, .. } = event {
                    outcome.ends.insert(rank, way_of_ending(status));
                    alive -= 1;
                    if alive == 0 {
                        ending.last = Some(Instant::now());
                    }
                }
                self.take(event, &mut ending);
            }
            outcome.interrupted |= self.look_at_clock(began, &mut ending);
            self.name_the_missing(&mut waiting);
        }
        self.printer.finish();
        Ok(ending.status.unwrap_or(0))
    }

    /// How long to sleep at most.
    fn patience(&self, ending: &Ending, began: Instant, waiting: Option<Instant>) -> Duration {
        let mut until = vec![began + Duration::from_secs(3600)];
        until.extend(self.policy.timeout.filter(|_| ending.asked.is_none()).map(|t| began + t));
        until.extend(ending.asked.filter(|_| ending.killed.is_none()).map(|at| at + GRACE));
        until.extend([ending.last, ending.killed].into_iter().flatten().map(|at| at + LAST_WORDS));
        until.extend(self.remotes.iter().filter_map(Remote::deadline));
        until.extend(waiting.map(|at| at + MISSING_AFTER));
        let next = until.into_iter().min().unwrap_or(began);
        let left = next.saturating_duration_since(Instant::now());
        left.clamp(Duration::from_millis(5), Duration::from_secs(3600))
    }

    /// Sleeps until something happens, and reads it. `true`: there may be a signal.
    fn listen(&mut self, events: &mut Vec<Event>, limit: Duration) -> Result<bool, RunError> {
        let ready: Vec<bool> = {
            let team = self.team.ears();
            let none: Option<BorrowedFd<'_>> = None;
            let remotes: Vec<_> = self.remotes.iter().map(|r| r.ear().or(none)).collect();
            let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
            // A remote that is no longer heard is waited for in its place by nothing.
            let quiet = PollFlags::empty();
            fds.extend(remotes.iter().map(|ear| match ear {
                Some(fd) => PollFd::from_borrowed_fd(*fd, PollFlags::IN),
                None => PollFd::from_borrowed_fd(self.signals.as_fd(), quiet),
            }));
            fds.extend(team.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
            let limit = limit.try_into().ok();
            match rustix::event::poll(&mut fds, limit.as_ref()) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => return Ok(true),
                Err(error) => return Err(RunError::io("waiting for ranks")(error.into())),
            }
            fds.iter().map(|fd| !fd.revents().is_empty()).collect()
        };
        let (own, team) = ready.split_at(1 + self.remotes.len());
        for (remote, _) in self.remotes.iter_mut().zip(&own[1..]).filter(|(_, ready)| **ready) {
            remote.hear(events);
        }
        self.team.hear(team, events);
        Ok(own[0])
    }

    fn take(&mut self, event: Event, ending: &mut Ending) {
        let mut answers = Vec::new();
        match event {
            Event::Ask { rank, line } => self.board.ask(rank, &line, &mut answers),
            Event::Output { rank, error, bytes } => self.printer.write(rank, error, &bytes),
            Event::Ended { rank, pid, status } => {
                self.board.gone(rank, &mut answers);
                self.ended(rank, pid, status, ending);
            }
            Event::Lost { error } => {
                say(&error.to_string());
                ending.status.get_or_insert(1);
                self.end(ending);
            }
        }
        for Answer { rank, line } in answers {
            match self.hosts.get(rank as usize).copied().flatten() {
                Some(host) => self.remotes[host].answer(rank, &line),
                None => self.team.answer(rank, &line),
            }
        }
    }

    /// A rank has ended: if not well, the others are ended too, unless they were told to go on.
    fn ended(&mut self, rank: u32, pid: u32, status: i32, ending: &mut Ending) {
        if status == 0 || ending.asked.is_some() {
            return;
        }
        let (how, code) = self::ending(status);
        let place = self.places.get(rank as usize).map_or("", |p| p.as_str());
        let then = if self.policy.keep_going { "" } else { "; the job is ended" };
        say(&format!("rank {rank} (process {pid} on {place}) {how}{then}"));
        ending.status.get_or_insert(code);
        if !self.policy.keep_going {
            self.end(ending);
        }
    }

    fn interrupted(&mut self, number: i32, ending: &mut Ending) {
        ending.status = Some((128 + number) as u8);
        if ending.asked.is_some() {
            // Asked twice: without further patience.
            self.kill(ending);
        }
        self.end(ending);
    }

    /// Sees to what has a time. Whether the job has had its time and is ended now.
    fn look_at_clock(&mut self, began: Instant, ending: &mut Ending) -> bool {
        let mut ends = false;
        if ending.asked.is_none()
            && let Some(timeout) = self.policy.timeout.filter(|t| began.elapsed() >= *t)
        {
            let s = timeout.as_secs_f64();
            say(&format!("the job took longer than {s} s and is ended (--timeout)"));
            ending.status = Some(1);
            self.end(ending);
            ends = true;
        }
        if ending.asked.is_some_and(|at| at.elapsed() >= GRACE) {
            self.kill(ending);
        }
        ends
    }

    fn end(&mut self, ending: &mut Ending) {
        if ending.asked.is_none() {
            ending.asked = Some(Instant::now());
            self.signal(Signal::TERM.as_raw());
            // A stopped process hears nothing before it goes on.
            self.signal(Signal::CONT.as_raw());
        }
    }

    fn kill(&mut self, ending: &mut Ending) {
        if ending.killed.is_none() {
            ending.killed = Some(Instant::now());
            self.signal(Signal::KILL.as_raw());
        }
    }

    /// Waits no longer for hosts that do not say that their ranks have ended.
    fn give_up(&self) {
        for remote in self.remotes.iter().filter(|remote| !remote.is_over()) {
            let host = remote.host();
            say(&format!("{host} does not say that its ranks have ended: see there what is left"));
        }
    }

    fn signal(&mut self, number: i32) {
        self.team.signal(number);
        self.remotes.iter_mut().for_each(|r| r.signal(number));
    }

    /// Says, once, which ranks the others have been waiting for.
    fn name_the_missing(&self, waiting: &mut Option<Instant>) {
        let Some(missing) = self.board.missing() else {
            *waiting = None;
            return;
        };
        let since = *waiting.get_or_insert_with(Instant::now);
        if since.elapsed() >= MISSING_AFTER {
            let s = MISSING_AFTER.as_secs();
            say(&format!("ranks have waited {s} s for others to join the job: {missing}"));
            // Far enough away that it is not said again.
            *waiting = Some(Instant::now() + Duration::from_secs(3600));
        }
    }
}

/// What wait(2) says.
fn way_of_ending(status: i32) -> Ended {
    let status = ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(0), _) => Ended::Well,
        (Some(code), _) => Ended::Code(code),
        (None, Some(number)) => Ended::Signal(number),
        (None, None) => Ended::Unknown,
    }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "weft run: {text}");
}
