//! The PMI-1 client: a line of `key=value` pairs out, a line back. Spoken by Hydra (MPICH, Intel
//! MPI), by `weft run`, and by Slurm where asked.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::WireupError;
use super::board::Board;
use super::channel::{Asker, Channel};

/// Lines that a server may say unasked before its answer; more would be a wait without an end.
const UNASKED_MAX: usize = 64;

/// A connection to a PMI-1 server.
#[derive(Debug)]
pub(super) struct Pmi1 {
    channel: Channel,
    space: String,
    key_max: usize,
    value_max: usize,
}

impl Pmi1 {
    /// Greets the server on an open descriptor.
    pub fn open(fd: OwnedFd, asker: Asker) -> Result<Pmi1, WireupError> {
        Pmi1::greet(Channel::new(fd, asker))
    }

    /// Connects to a server at `host:port` that knows this process as `id` and tells it its rank.
    pub fn connect(at: &str, id: &str, mut asker: Asker) -> Result<Pmi1, WireupError> {
        let stream = call(at, asker.limit).map_err(|e| WireupError::Environment {
            variable: "PMI_PORT",
            value: at.to_string(),
            why: format!("nobody answers there: {e}"),
        })?;
        let mut channel = Channel::new(stream.into(), asker);
        channel.send(format!("cmd=initack pmiid={id}\n").as_bytes(), "its rank")?;
        let (mut known, mut lines) = ((None, None), 0);
        while known.0.is_none() || known.1.is_none() {
            let line = channel.line("its rank")?;
            lines += 1;
            if lines > UNASKED_MAX {
                return Err(asker.nonsense("its rank", &line));
            }
            let answer = Answer::read(&line);
            known.0 = known.0.or(answer.get("rank").and_then(|v| v.parse().ok()));
            known.1 = known.1.or(answer.get("size").and_then(|v| v.parse().ok()));
            if !matches!(answer.get("cmd"), Some("initack" | "set")) {
                return Err(asker.nonsense("its rank", &line));
            }
        }
        (asker.rank, asker.size) = (known.0.unwrap_or(0), known.1.unwrap_or(1));
        channel.asker = asker;
        Pmi1::greet(channel)
    }

    fn greet(channel: Channel) -> Result<Pmi1, WireupError> {
        let mut pmi = Pmi1 { channel, space: String::new(), key_max: 0, value_max: 0 };
        let hello = "cmd=init pmi_version=1 pmi_subversion=1\n";
        pmi.ask(hello, "response_to_init", "a greeting")?;
        let maxes = pmi.ask("cmd=get_maxes\n", "maxes", "its limits")?;
        let number = |name: &str, least: usize| {
            maxes.get(name).and_then(|v| v.parse().ok()).unwrap_or(least)
        };
        pmi.key_max = number("keylen_max", 32);
        pmi.value_max = number("vallen_max", 256);
        let name = pmi.ask("cmd=get_my_kvsname\n", "my_kvsname", "its key space")?;
        pmi.space = name.get("kvsname").unwrap_or_default().to_string();
        Ok(pmi)
    }

    pub fn asker(&self) -> Asker {
        self.channel.asker
    }

    /// Asks, and gives the answer if it has the right kind and does not say no.
    fn ask(&mut self, line: &str, kind: &str, what: &str) -> Result<Answer, WireupError> {
        self.channel.send(line.as_bytes(), what)?;
        let mut unasked = 0;
        let (line, answer) = loop {
            let line = self.channel.line(what)?;
            let answer = Answer::read(&line);
            // Some servers tell a rank's place twice, the second time unasked.
            if answer.get("cmd") != Some("set") || unasked == UNASKED_MAX {
                break (line, answer);
            }
            unasked += 1;
        };
        if answer.get("cmd") != Some(kind) {
            return Err(self.channel.asker.nonsense(what, &line));
        }
        if answer.get("rc").is_some_and(|rc| rc != "0") {
            return Err(self.channel.asker.refused(what, answer.get("msg").unwrap_or_default()));
        }
        Ok(answer)
    }
}

impl Board for Pmi1 {
    fn service(&self) -> &'static str {
        self.channel.asker.service
    }

    fn name(&self) -> &str {
        &self.space
    }

    fn value_max(&self) -> usize {
        // The limit counts a zero at the end.
        self.value_max.saturating_sub(1)
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), WireupError> {
        if key.len() >= self.key_max {
            return Err(self.channel.asker.refused(key, "its name is too long"));
        }
        let line = format!("cmd=put kvsname={} key={key} value={value}\n", self.space);
        self.ask(&line, "put_result", &format!("to publish {key}")).map(drop)
    }

    fn fence(&mut self) -> Result<(), WireupError> {
        self.ask("cmd=barrier_in\n", "barrier_out", "all ranks to arrive").map(drop)
    }

    fn get(&mut self, _owner: u32, key: &str) -> Result<String, WireupError> {
        let line = format!("cmd=get kvsname={} key={key}\n", self.space);
        let answer = self.ask(&line, "get_result", key)?;
        match answer.get("value") {
            Some(value) => Ok(value.to_string()),
            None => Err(self.channel.asker.refused(key, "the answer has no value")),
        }
    }

    fn leave(&mut self) {
        let _ = self.ask("cmd=finalize\n", "finalize_ack", "leave to go");
    }
}

/// Connects to the first of the addresses of `host:port` that answers, each within `limit`.
fn call(at: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for addr in at.to_socket_addrs()? {
        match TcpStream::connect_timeout(&addr, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// An answer, taken apart.
struct Answer {
    pairs: Vec<(String, String)>,
}

impl Answer {
    /// Takes a line apart. A value ends at a blank, except `msg` and `value`, which come last.
    fn read(line: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(line);
        let mut pairs = Vec::new();
        let mut rest = text.trim();
        while let Some((key, tail)) = rest.split_once('=') {
            let (value, next) = tail.split_once(' ').unwrap_or((tail, ""));
            pairs.push((key.trim().to_string(), value.trim().to_string()));
            rest = next.trim_start();
        }
        Answer { pairs }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;

    #[test]
    fn answers_are_taken_apart() {
        let a = Answer::read(b"cmd=get_result rc=0 msg=success value=6162");
        assert_eq!((a.get("cmd"), a.get("value")), (Some("get_result"), Some("6162")));
        assert_eq!(a.get("nothing"), None);
        assert_eq!(Answer::read(b"\xff\xfe no pairs").get("cmd"), None);
        assert_eq!(Answer::read(b"").get("cmd"), None);
    }
}
