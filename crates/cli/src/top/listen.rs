//! Counters for Prometheus, in its text form, by a server that answers one question after the
//! other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::item::{RankItem, Sample};
use crate::CliError;

/// So long somebody may take to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest question.
const QUESTION_MAX: usize = 8192;

/// See the module's page.
pub struct Listener(TcpListener);

impl Listener {
    /// Listens at an address: only at one that other machines do not reach, unless that is wanted.
    ///
    /// # Errors
    /// For an address of another kind, or one that is taken.
    pub fn bind(at: SocketAddr, to_all: bool) -> Result<Listener, CliError> {
        if !at.ip().is_loopback() && !to_all {
            let why = format!(
                "--listen {at}: other machines would read there what runs here, and for whom; a \
                 loopback address as 127.0.0.1:{} is reached by this machine's users only, and \
                 --listen-to-all says that this is meant",
                at.port()
            );
            return Err(CliError::Usage(why));
        }
        let socket = TcpListener::bind(at).map_err(CliError::io(format!("listen at {at}")))?;
        let own = socket.local_addr().map_err(CliError::io("listen"))?;
        socket.set_nonblocking(true).map_err(CliError::io("listen"))?;
        let said = format!("weft top: counters are offered at http://{own}/metrics\n");
        let _ = std::io::stderr().write_all(said.as_bytes());
        Ok(Listener(socket))
    }

    /// Answers whoever asks within a time.
    pub fn serve(&self, limit: Duration, sample: &Sample) {
        if !weft_sys::process::ready(&self.0, false, limit).unwrap_or(false) {
            return;
        }
        if let Ok((peer, _)) = self.0.accept() {
            // Whoever asks badly, or goes away, has no answer.
            let _ = answer(peer, sample);
        }
    }
}

fn answer(mut peer: TcpStream, sample: &Sample) -> std::io::Result<()> {
    peer.set_nonblocking(false)?;
    peer.set_read_timeout(Some(PATIENCE))?;
    peer.set_write_timeout(Some(PATIENCE))?;
    let limit = Instant::now() + PATIENCE;
    let (mut asked, mut bytes) = (Vec::new(), [0; 1024]);
    while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
        let got = peer.read(&mut bytes)?;
        asked.extend_from_slice(&bytes[..got]);
        if got == 0 || asked.len() > QUESTION_MAX || Instant::now() > limit {
            return Ok(());
        }
    }
    let known = asked.starts_with(b"GET /metrics ") || asked.starts_with(b"GET / ");
    let (status, text) = match known {
        true => ("200 OK", metrics(sample)),
        false => ("404 Not Found", "only /metrics is here\n".to_string()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    peer.write_all(head.as_bytes())?;
    peer.write_all(text.as_bytes())
}

/// The sample in Prometheus's text form.
pub fn metrics(sample: &Sample) -> String {
    let mut text = String::from(
        "# HELP weft_counter_total What a rank's devices and links have done, by name.\n\
         # TYPE weft_counter_total counter\n",
    );
    let all = || sample.jobs.iter().flat_map(|job| job.ranks.iter().map(move |r| (&job.job, r)));
    for (job, rank) in all() {
        for (name, count) in &rank.counters {
            let labels = labels(job, rank);
            let name = quoted(name);
            text += &format!("weft_counter_total{{{labels},counter={name}}} {count}\n");
        }
    }
    text += "# HELP weft_waiting_seconds For how long a rank has waited; 0 if it does not.\n\
             # TYPE weft_waiting_seconds gauge\n";
    for (job, rank) in all() {
        let waits = ["waits", "sleeps"].contains(&rank.doing.as_str());
        let s = if waits { rank.for_s } else { 0.0 };
        text += &format!("weft_waiting_seconds{{{}}} {s:.3}\n", labels(job, rank));
    }
    text
}

fn labels(job: &str, rank: &RankItem) -> String {
    let number = rank.rank.map_or(String::new(), |rank| rank.to_string());
    let program = rank.program.split(' ').next().unwrap_or("");
    format!(
        "job={},rank={},host={},pid=\"{}\",program={}",
        quoted(job),
        quoted(&number),
        quoted(&rank.host),
        rank.pid,
        quoted(program)
    )
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::super::item::JobItem;
    use super::*;

    #[test]
    fn what_others_reach_is_refused_unless_it_is_meant() {
        let at = "0.0.0.0:0".parse().unwrap();
        let why = Listener::bind(at, false).map(|_| ()).unwrap_err().to_string();
        assert!(why.contains("--listen-to-all"), "{why}");
        assert!(Listener::bind("127.0.0.1:0".parse().unwrap(), false).is_ok());
    }

    #[test]
    fn each_counter_is_a_line_and_names_are_quoted() {
        let counters = [("shm.sent".to_string(), 42)].into();
        let rank = RankItem {
            rank: Some(3),
            pid: 7,
            program: "a\"b".into(),
            counters,
            ..RankItem::default()
        };
        let job = JobItem { job: "2a".into(), size: None, ranks: vec![rank] };
        let text = metrics(&Sample { jobs: vec![job], ..Sample::default() });
        let line = "weft_counter_total{job=\"2a\",rank=\"3\",host=\"\",pid=\"7\",\
                    program=\"a\\\"b\",counter=\"shm.sent\"} 42";
        assert!(text.lines().any(|l| l == line), "{text}");
        assert!(text.lines().any(|l| l.starts_with("weft_waiting_seconds{job=\"2a\"")), "{text}");
    }
}
