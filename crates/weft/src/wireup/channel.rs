//! A connection to a launcher on which every wait has an end.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::WireupError;

/// Most bytes of one answer: what a launcher sends is checked like everything from outside.
const ANSWER_MAX: usize = 1 << 20;

/// Who is asking, and how long it will wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub service: &'static str,
    pub rank: u32,
    pub size: u32,
    pub limit: Duration,
}

impl Asker {
    pub fn timed_out(&self, what: &str) -> WireupError {
        WireupError::TimedOut {
            rank: self.rank,
            size: self.size,
            limit_s: self.limit.as_secs(),
            what: what.to_string(),
            service: self.service,
        }
    }

    pub fn gone(&self, what: &str) -> WireupError {
        WireupError::LauncherGone { rank: self.rank, what: what.to_string(), service: self.service }
    }

    pub fn refused(&self, what: &str, why: &str) -> WireupError {
        let why = if why.is_empty() { "it does not say why" } else { why };
        WireupError::Refused { what: what.to_string(), why: why.to_string(), service: self.service }
    }

    pub fn nonsense(&self, what: &str, answer: &[u8]) -> WireupError {
        let cut = &answer[..answer.len().min(120)];
        WireupError::Nonsense {
            what: what.to_string(),
            answer: String::from_utf8_lossy(cut).into_owned(),
            service: self.service,
        }
    }
}

/// A byte stream to the launcher.
#[derive(Debug)]
pub(super) struct Channel {
    stream: File,
    pub asker: Asker,
    /// Received, not yet taken.
    waiting: Vec<u8>,
}

impl Channel {
    pub fn new(fd: OwnedFd, asker: Asker) -> Channel {
        Channel { stream: fd.into(), asker, waiting: Vec::new() }
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, mut bytes: &[u8], what: &str) -> Result<(), WireupError> {
        let end = Instant::now() + self.asker.limit;
        while !bytes.is_empty() {
            self.wait(true, end, what)?;
            match self.stream.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(error) => self.judge(error, what)?,
            }
        }
        Ok(())
    }

    /// The next line, without its end.
    pub fn line(&mut self, what: &str) -> Result<Vec<u8>, WireupError> {
        let end = Instant::now() + self.asker.limit;
        let mut looked = 0;
        loop {
            if let Some(at) = self.waiting[looked..].iter().position(|&b| b == b'\n') {
                let mut line: Vec<u8> = self.waiting.drain(..=looked + at).collect();
                line.pop();
                return Ok(line);
            }
            looked = self.waiting.len();
            self.more(end, what)?;
        }
    }

    /// The next `len` bytes.
    pub fn exactly(&mut self, len: usize, what: &str) -> Result<Vec<u8>, WireupError> {
        let end = Instant::now() + self.asker.limit;
        while self.waiting.len() < len {
            self.more(end, what)?;
        }
        Ok(self.waiting.drain(..len).collect())
    }

    fn more(&mut self, end: Instant, what: &str) -> Result<(), WireupError> {
        if self.waiting.len() > ANSWER_MAX {
            return Err(self.asker.nonsense(what, &self.waiting));
        }
        self.wait(false, end, what)?;
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(self.asker.gone(what)),
            Ok(n) => {
                self.waiting.extend_from_slice(&buffer[..n]);
                Ok(())
            }
            Err(error) => self.judge(error, what),
        }
    }

    fn wait(&self, write: bool, end: Instant, what: &str) -> Result<(), WireupError> {
        let left = end.saturating_duration_since(Instant::now());
        match weft_sys::process::ready(&self.stream, write, left) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.asker.timed_out(what)),
            Err(error) => self.judge(error, what),
        }
    }

    /// Whether an error is one that passes.
    fn judge(&self, error: io::Error, what: &str) -> Result<(), WireupError> {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(()),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Err(self.asker.gone(what)),
            _ => Err(WireupError::Io {
                doing: format!("asking the launcher for {what}"),
                cause: error.to_string(),
            }),
        }
    }
}
