//! The ranks on this machine: started, listened to, signalled, reaped. Used by `weft run` itself
//! and by its agents on other hosts.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::thread::CpuSet;
use weft::page::place::sweep_own;
use weft_sys::ns::Enter;
use weft_sys::process::{self, Setup};

use super::RunError;
use super::board::REQUEST_MAX;
use super::guard::Guard;

/// What to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Ranks in the job.
    pub size: u32,
    /// Variables for all ranks.
    pub variables: Vec<(String, String)>,
}

/// What differs from rank to rank.
#[derive(Debug)]
pub struct Post {
    /// The rank.
    pub rank: u32,
    /// Its number among those of the same node, and how many they are.
    pub local: (u32, u32),
    /// The processor it is bound to.
    pub cpu: Option<usize>,
    /// The lab's node it runs on.
    pub enter: Option<Enter>,
    /// Where its input comes from.
    pub input: Stdio,
    /// Whether its output is to be read by us.
    pub piped: bool,
}

/// What happens to ranks.
#[derive(Debug)]
pub enum Event {
    /// A rank asks the notice board.
    Ask {
        /// Who.
        rank: u32,
        /// One line, without its end.
        line: String,
    },
    /// A rank has written something.
    Output {
        /// Who.
        rank: u32,
        /// To standard error, not standard output.
        error: bool,
        /// What; empty at the end.
        bytes: Vec<u8>,
    },
    /// A rank has ended.
    Ended {
        /// Who.
        rank: u32,
        /// Its process.
        pid: u32,
        /// How, as wait(2) says it.
        status: i32,
    },
    /// A host is no longer reached.
    Lost {
        /// Why.
        error: RunError,
    },
}

/// What is to be listened to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ear {
    Board,
    Output,
    Error,
    End,
}

struct Member {
    rank: u32,
    child: Child,
    pidfd: OwnedFd,
    board: Option<UnixStream>,
    asked: Vec<u8>,
    output: Option<ChildStdout>,
    error: Option<ChildStderr>,
    ended: bool,
}

/// The ranks on this machine.
#[derive(Default)]
pub struct Team {
    members: Vec<Member>,
    guard: Option<Guard>,
}

impl Team {
    /// Starts one more rank. It is killed when the calling thread ends.
    ///
    /// # Errors
    /// When the program does not exist or may not be started.
    pub fn start(&mut self, program: &Program, post: Post) -> Result<(), RunError> {
        if self.guard.is_none() {
            self.guard = Some(Guard::start().map_err(RunError::io("starting a guard for ranks"))?);
        }
        let name = program.words.first().map(|w| w.to_string_lossy().into_owned());
        let rank = post.rank;
        let started = start(program, post).map_err(|cause| RunError::Start {
            program: name.unwrap_or_default(),
            rank,
            cure: match cause.kind() {
                ErrorKind::NotFound => ": is its name right, and is it in PATH?",
                ErrorKind::PermissionDenied => ": `chmod +x` makes a file a program",
                _ => "",
            },
            cause,
        })?;
        if let Some(guard) = &mut self.guard {
            guard.watch(started.child.id());
        }
        self.members.push(started);
        Ok(())
    }

    /// What [`Team::hear`] is to be called for when it is readable, in order.
    pub fn ears(&self) -> Vec<BorrowedFd<'_>> {
        self.all_ears().into_iter().map(|(_, _, fd)| fd).collect()
    }

    fn all_ears(&self) -> Vec<(usize, Ear, BorrowedFd<'_>)> {
        let mut ears = Vec::new();
        for (at, m) in self.members.iter().enumerate() {
            let board = m.board.as_ref().map(|f| (Ear::Board, f.as_fd()));
            let output = m.output.as_ref().map(|f| (Ear::Output, f.as_fd()));
            let error = m.error.as_ref().map(|f| (Ear::Error, f.as_fd()));
            let end = (!m.ended).then(|| (Ear::End, m.pidfd.as_fd()));
            let each = [board, output, error, end].into_iter().flatten();
            ears.extend(each.map(|(ear, fd)| (at, ear, fd)));
        }
        ears
    }

    /// Reads what there is at those of [`Team::ears`] that are `ready`.
    pub fn hear(&mut self, ready: &[bool], events: &mut Vec<Event>) {
        let which: Vec<(usize, Ear)> = self
            .all_ears()
            .into_iter()
            .zip(ready)
            .filter(|(_, ready)| **ready)
            .map(|((at, ear, _), _)| (at, ear))
            .collect();
        for (at, ear) in which {
            let member = &mut self.members[at];
            match ear {
                Ear::Board => member.hear_board(events),
                Ear::Output => {
                    hear_pipe(&mut member.output, member.rank, false, events);
                }
                Ear::Error => hear_pipe(&mut member.error, member.rank, true, events),
                Ear::End => {
                    member.reap(events);
                    if let Some(guard) = self.guard.as_mut().filter(|_| member.ended) {
                        guard.forget(member.child.id());
                    }
                }
            }
        }
    }

    /// Answers a rank.
    pub fn answer(&mut self, rank: u32, line: &str) {
        if let Some(member) = self.members.iter_mut().find(|m| m.rank == rank)
            && let Some(board) = &mut member.board
        {
            // A rank that does not read its answers loses its connection; nobody waits for it.
            let sent = rustix::net::send(
                &*board,
                line.as_bytes(),
                rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL,
            );
            if sent != Ok(line.len()) {
                member.board = None;
            }
        }
    }

    /// Sends a signal to every rank and its children.
    pub fn signal(&self, number: i32) {
        for member in self.members.iter().filter(|m| !m.ended) {
            process::signal(member.child.id(), true, number);
        }
    }

    /// Whether nothing more will come.
    pub fn is_over(&self) -> bool {
        self.members.iter().all(|m| m.ended && m.output.is_none() && m.error.is_none())
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.signal(Signal::KILL.as_raw());
        for member in self.members.iter_mut().filter(|m| !m.ended) {
            let _ = member.child.wait();
            if let Some(guard) = &mut self.guard {
                guard.forget(member.child.id());
            }
        }
        // Those that were killed have left theirs.
        sweep_own();
    }
}

impl Member {
    fn hear_board(&mut self, events: &mut Vec<Event>) {
        let Some(board) = &mut self.board else { return };
        let mut buffer = [0; 4096];
        match board.read(&mut buffer) {
            Ok(0) => self.board = None,
            Ok(n) => self.asked.extend_from_slice(&buffer[..n]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.board = None,
        }
        while let Some(end) = self.asked.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.asked.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            events.push(Event::Ask { rank: self.rank, line });
        }
        if self.asked.len() > REQUEST_MAX {
            tracing::warn!("rank {} sends what is no request: no longer heard", self.rank);
            self.board = None;
        }
    }

    fn reap(&mut self, events: &mut Vec<Event>) {
        // First its children: as long as it has not been waited for, nobody else has its number.
        process::signal(self.child.id(), true, Signal::KILL.as_raw());
        let Ok(status) = self.child.wait() else { return };
        self.ended = true;
        // What it asked last is of interest; answers are not.
        self.hear_board(events);
        self.board = None;
        let (rank, pid) = (self.rank, self.child.id());
        events.push(Event::Ended { rank, pid, status: status.into_raw() });
    }
}

fn hear_pipe<P: Read>(pipe: &mut Option<P>, rank: u32, error: bool, events: &mut Vec<Event>) {
    let Some(open) = pipe else { return };
    let mut bytes = vec![0; 64 * 1024];
    let got = match open.read(&mut bytes) {
        Err(e) if e.kind() == ErrorKind::Interrupted => return,
        Err(_) => 0,
        Ok(got) => got,
    };
    bytes.truncate(got);
    if got == 0 {
        *pipe = None;
    }
    events.push(Event::Output { rank, error, bytes });
}

fn start(program: &Program, post: Post) -> io::Result<Member> {
    let Some((name, arguments)) = program.words.split_first() else {
        return Err(ErrorKind::NotFound.into());
    };
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let theirs = OwnedFd::from(theirs);
    let number = theirs.as_raw_fd();
    let mut command = Command::new(name);
    command.args(arguments);
    let out = || if post.piped { Stdio::piped() } else { Stdio::inherit() };
    command.stdout(out()).stderr(out()).stdin(post.input);
    if std::env::var_os("WEFT_LOG").is_none() {
        // The library's warnings are for the user, whatever the program does about logs.
        command.env("WEFT_LOG", "warn");
    }
    for (name, value) in &program.variables {
        command.env(name, value);
    }
    let numbers = [
        ("PMI_FD", number.to_string()),
        ("PMI_RANK", post.rank.to_string()),
        ("PMI_SIZE", program.size.to_string()),
        ("MPI_LOCALRANKID", post.local.0.to_string()),
        ("MPI_LOCALNRANKS", post.local.1.to_string()),
    ];
    command.envs(numbers);
    // A job inside another launcher's job is a job of its own.
    command.env_remove("PMI_PORT").env_remove("PMI_ID");
    let cpus = post.cpu.map(|cpu| {
        let mut set = CpuSet::new();
        set.set(cpu);
        set
    });
    let setup = Setup {
        enter: post.enter,
        cpus,
        inherit: vec![theirs],
        dies_with_parent: true,
        own_group: true,
        ..Setup::default()
    };
    let mut child = process::spawn(&mut command, setup)?;
    // The command holds our copy of the rank's end: without it gone, its end would not be seen.
    drop(command);
    let pid = Pid::from_child(&child);
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    Ok(Member {
        rank: post.rank,
        pidfd,
        board: Some(ours),
        asked: Vec::new(),
        output: child.stdout.take(),
        error: child.stderr.take(),
        ended: false,
        child,
    })
}

/// How a process ended, in words, and the exit status to pass on.
pub fn ending(status: i32) -> (String, u8) {
    let status = ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(code), _) => (format!("exited with status {code}"), code as u8),
        (None, Some(number)) => {
            let known = [
                (1, "SIGHUP"),
                (2, "SIGINT"),
                (3, "SIGQUIT"),
                (4, "SIGILL"),
                (6, "SIGABRT"),
                (7, "SIGBUS"),
                (8, "SIGFPE"),
                (9, "SIGKILL"),
                (11, "SIGSEGV"),
                (13, "SIGPIPE"),
                (14, "SIGALRM"),
                (15, "SIGTERM"),
            ];
            let name = known.iter().find(|(n, _)| *n == number).map_or("a signal", |(_, s)| s);
            (format!("was killed by signal {number} ({name})"), (128 + number) as u8)
        }
        (None, None) => ("ended in an unknown way".to_string(), 1),
    }
}
