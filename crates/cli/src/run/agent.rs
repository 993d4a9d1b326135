//! `weft run-agent`: the part of `weft run` on another host. It starts the ranks it is told to,
//! hands their requests and output on, and ends them when its connection ends.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};
use weft_sys::process::inherited;

use super::frames::{self, Frame, Kind};
use super::team::{Event, Post, Program, Team};
use crate::CliError;

/// What the agent is told to start. The connection carries it, never a command line.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Start {
    pub words: Vec<String>,
    pub directory: String,
    pub size: u32,
    pub variables: Vec<(String, String)>,
    /// Rank and processor.
    pub ranks: Vec<(u32, Option<usize>)>,
}

struct Agent {
    team: Team,
    output: File,
    received: Vec<u8>,
}

/// Does what the other end of standard input says, until it ends or all ranks have.
///
/// # Errors
/// When it is spoken to by something else than `weft run`.
pub fn run() -> Result<ExitCode, CliError> {
    let own = |number| inherited(number).map_err(CliError::io("taking the connection"));
    let (input, output): (OwnedFd, OwnedFd) = (own(0)?, own(1)?);
    let mut input = File::from(input);
    let mut agent = Agent { team: Team::default(), output: output.into(), received: Vec::new() };
    agent.say(Kind::Hello, 0, env!("CARGO_PKG_VERSION").as_bytes())?;
    let mut started = false;
    while !(started && agent.team.is_over()) {
        let ready = wait(&agent.team, &input)?;
        let mut events = Vec::new();
        agent.team.hear(&ready[1..], &mut events);
        for event in events {
            agent.tell(event)?;
        }
        if !ready[0] {
            continue;
        }
        let mut buffer = [0; 16 * 1024];
        let got = input.read(&mut buffer).map_err(CliError::io("reading orders"))?;
        if got == 0 {
            // Dropping the team ends its ranks.
            return Ok(ExitCode::FAILURE);
        }
        agent.received.extend_from_slice(&buffer[..got]);
        while let Some(frame) = frames::take(&mut agent.received).map_err(CliError::Usage)? {
            started |= agent.obey(&frame)?;
        }
    }
    agent.say(Kind::Over, 0, b"")?;
    Ok(ExitCode::SUCCESS)
}

fn wait(team: &Team, input: &File) -> Result<Vec<bool>, CliError> {
    let ears = team.ears();
    let mut fds = vec![PollFd::new(input, PollFlags::IN)];
    fds.extend(ears.iter().map(|e| PollFd::from_borrowed_fd(e.as_fd(), PollFlags::IN)));
    match rustix::event::poll(&mut fds, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(CliError::io("waiting for ranks")(error.into())),
    }
    Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
}

impl Agent {
    fn say(&mut self, kind: Kind, rank: u32, bytes: &[u8]) -> Result<(), CliError> {
        frames::write(&mut self.output, kind, rank, bytes).map_err(CliError::io("reporting"))
    }

    fn tell(&mut self, event: Event) -> Result<(), CliError> {
        match event {
            Event::Ask { rank, line } => self.say(Kind::Ask, rank, line.as_bytes()),
            Event::Output { rank, error, bytes } => {
                self.say(if error { Kind::Error } else { Kind::Output }, rank, &bytes)
            }
            Event::Ended { rank, pid, status } => {
                self.say(Kind::Ended, rank, format!("{pid} {status}").as_bytes())
            }
            Event::Lost { error } => self.say(Kind::Failed, 0, error.to_string().as_bytes()),
        }
    }

    /// Obeys one order; `true` if it was the one to start.
    fn obey(&mut self, frame: &Frame) -> Result<bool, CliError> {
        match frame.kind {
            Kind::Answer => self.team.answer(frame.rank, &frame.text()),
            Kind::Signal => {
                if let Ok(number) = frame.text().parse() {
                    self.team.signal(number);
                }
            }
            Kind::Start => {
                let start: Start = serde_json::from_slice(&frame.bytes)
                    .map_err(|e| CliError::Usage(format!("the order to start: {e}")))?;
                return self.start(start).map(|()| true);
            }
            _ => {}
        }
        Ok(false)
    }

    fn start(&mut self, start: Start) -> Result<(), CliError> {
        if let Err(error) = std::env::set_current_dir(&start.directory) {
            let why = format!("there is no directory {} here ({error})", start.directory);
            return self.say(Kind::Failed, 0, why.as_bytes());
        }
        let program = Program {
            words: start.words.into_iter().map(Into::into).collect(),
            size: start.size,
            variables: start.variables,
        };
        let count = start.ranks.len() as u32;
        for (local, (rank, cpu)) in start.ranks.into_iter().enumerate() {
            let local = (local as u32, count);
            let post = Post { rank, local, cpu, enter: None, input: Stdio::null(), piped: true };
            if let Err(error) = self.team.start(&program, post) {
                return self.say(Kind::Failed, rank, error.to_string().as_bytes());
            }
        }
        Ok(())
    }
}
