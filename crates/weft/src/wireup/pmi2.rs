//! The PMI-2 client: `key=value;` pairs after their length in six characters. Spoken by
//! `srun --mpi=pmi2`.

use std::os::fd::OwnedFd;

use super::WireupError;
use super::board::Board;
use super::channel::{Asker, Channel};

/// Characters of a message's length.
const LENGTH: usize = 6;
/// Most characters of a value.
const VALUE_MAX: usize = 1024;

/// A connection to a PMI-2 server.
#[derive(Debug)]
pub(super) struct Pmi2 {
    channel: Channel,
    job: String,
}

impl Pmi2 {
    /// Greets the server on an open descriptor; `job` is the job's id from the environment.
    pub fn open(fd: OwnedFd, job: &str, asker: Asker) -> Result<Pmi2, WireupError> {
        let mut pmi = Pmi2 { channel: Channel::new(fd, asker), job: job.to_string() };
        // The first message has PMI-1's form, so that a server can speak both.
        let what = "a greeting";
        pmi.channel.send(b"cmd=init pmi_version=2 pmi_subversion=0\n", what)?;
        let line = pmi.channel.line(what)?;
        let text = String::from_utf8_lossy(&line).into_owned();
        if !text.starts_with("cmd=response_to_init") {
            return Err(asker.nonsense(what, &line));
        }
        if !text.split(' ').any(|w| w == "pmi_version=2") || !text.contains("rc=0") {
            return Err(asker.refused("PMI-2", &text));
        }
        let rank = asker.rank.to_string();
        let mut pairs = vec![("pmirank", rank.as_str()), ("threaded", "FALSE")];
        if !job.is_empty() {
            pairs.insert(0, ("pmijobid", job));
        }
        let joined = pmi.ask("fullinit", &pairs, "to join the job")?;
        let number = |name: &str| get(&joined, name).and_then(|v| v.parse().ok());
        pmi.channel.asker.rank = number("rank").unwrap_or(asker.rank);
        pmi.channel.asker.size = number("size").unwrap_or(asker.size);
        Ok(pmi)
    }

    pub fn asker(&self) -> Asker {
        self.channel.asker
    }

    fn ask(
        &mut self,
        command: &str,
        pairs: &[(&str, &str)],
        what: &str,
    ) -> Result<Vec<(String, String)>, WireupError> {
        let mut body = format!("cmd={command};");
        for (key, value) in pairs {
            // A semicolon inside a value is written twice.
            body.push_str(&format!("{key}={};", value.replace(';', ";;")));
        }
        let message = format!("{:<LENGTH$}{body}", body.len());
        self.channel.send(message.as_bytes(), what)?;
        let head = self.channel.exactly(LENGTH, what)?;
        let len = std::str::from_utf8(&head).ok().and_then(|t| t.trim().parse().ok());
        let len: usize = len.ok_or_else(|| self.channel.asker.nonsense(what, &head))?;
        let answer = self.channel.exactly(len, what)?;
        let pairs = read(&String::from_utf8_lossy(&answer));
        if get(&pairs, "cmd") != Some(&format!("{command}-response")) {
            return Err(self.channel.asker.nonsense(what, &answer));
        }
        if get(&pairs, "rc").is_some_and(|rc| rc != "0") {
            let why = get(&pairs, "errmsg").unwrap_or_default();
            return Err(self.channel.asker.refused(what, why));
        }
        Ok(pairs)
    }
}

impl Board for Pmi2 {
    fn service(&self) -> &'static str {
        self.channel.asker.service
    }

    fn value_max(&self) -> usize {
        VALUE_MAX - 1
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), WireupError> {
        let what = format!("to publish {key}");
        self.ask("kvs-put", &[("key", key), ("value", value)], &what).map(drop)
    }

    fn fence(&mut self) -> Result<(), WireupError> {
        self.ask("kvs-fence", &[], "all ranks to arrive").map(drop)
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<String, WireupError> {
        let (job, owner) = (self.job.clone(), owner.to_string());
        let mut pairs = vec![("srcid", owner.as_str()), ("key", key)];
        if !job.is_empty() {
            pairs.insert(0, ("jobid", job.as_str()));
        }
        let answer = self.ask("kvs-get", &pairs, key)?;
        let found = get(&answer, "found").or(get(&answer, "flag"));
        match get(&answer, "value") {
            Some(value) if found.is_none_or(|f| f == "TRUE") => Ok(value.to_string()),
            _ => Err(self.channel.asker.refused(key, "nobody has published it")),
        }
    }

    fn leave(&mut self) {
        let _ = self.ask("finalize", &[], "leave to go");
    }
}

fn get<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
}

/// Takes `key=value;` pairs apart; two semicolons stand for one inside a value.
fn read(text: &str) -> Vec<(String, String)> {
    let mut words = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        if c == ';' && letters.next_if_eq(&';').is_none() {
            words.push(String::new());
        } else if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    let pair = |word: &String| {
        let (key, value) = word.split_once('=')?;
        Some((key.to_string(), value.to_string()))
    };
    words.iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, Barrier, Mutex};
    use std::time::Duration;

    use super::super::Job;
    use super::*;

    #[test]
    fn pairs_are_taken_apart() {
        let pairs = read("cmd=kvs-get-response;rc=0;value=a;;b=c;");
        assert_eq!(get(&pairs, "value"), Some("a;b=c"));
        assert_eq!(get(&pairs, "rc"), Some("0"));
        assert!(read("").is_empty() && read(";;;").is_empty());
    }

    type Notes = Arc<Mutex<HashMap<String, String>>>;

    /// A server for one rank, as far as a job needs it.
    fn serve(stream: UnixStream, size: usize, notes: &Notes, fence: &Barrier) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains("pmi_version=2"));
        writer.write_all(b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n").unwrap();
        loop {
            let mut head = [0; LENGTH];
            if reader.read_exact(&mut head).is_err() {
                return;
            }
            let len: usize = std::str::from_utf8(&head).unwrap().trim().parse().unwrap();
            let mut body = vec![0; len];
            reader.read_exact(&mut body).unwrap();
            let pairs = read(std::str::from_utf8(&body).unwrap());
            let of = |k: &str| get(&pairs, k).unwrap_or_default().to_string();
            let command = of("cmd");
            let more = match command.as_str() {
                "fullinit" => format!("rank={};size={size};appnum=0;", of("pmirank")),
                "kvs-put" => {
                    notes.lock().unwrap().insert(of("key"), of("value"));
                    String::new()
                }
                "kvs-fence" => {
                    fence.wait();
                    String::new()
                }
                "kvs-get" => match notes.lock().unwrap().get(&of("key")) {
                    Some(value) => format!("found=TRUE;value={value};"),
                    None => "found=FALSE;".to_string(),
                },
                _ => String::new(),
            };
            let body = format!("cmd={command}-response;rc=0;{more}");
            write!(writer, "{:6}{body}", body.len()).unwrap();
        }
    }

    #[test]
    fn ranks_exchange_over_a_server() {
        const SIZE: usize = 3;
        let (notes, fence) = (Notes::default(), Barrier::new(SIZE));
        std::thread::scope(|scope| {
            for rank in 0..SIZE as u32 {
                let (ours, theirs) = UnixStream::pair().unwrap();
                let (notes, fence) = (&notes, &fence);
                scope.spawn(move || serve(theirs, SIZE, notes, fence));
                scope.spawn(move || {
                    let limit = Duration::from_secs(30);
                    let asker = Asker { service: "PMI-2", rank, size: 1, limit };
                    let board = Pmi2::open(ours.into(), "job;1", asker).unwrap();
                    let asker = board.asker();
                    let mut job = Job::on(Box::new(board), asker.rank, asker.size).unwrap();
                    assert_eq!((job.rank(), job.size()), (rank, SIZE as u32));
                    let blobs = job.exchange(&vec![rank as u8; 1500]).unwrap();
                    for (from, blob) in blobs.iter().enumerate() {
                        assert_eq!(blob, &vec![from as u8; 1500]);
                    }
                });
            }
        });
    }

    #[test]
    fn a_server_that_is_silent_or_gone_is_named() {
        let asker = Asker { service: "PMI-2", rank: 0, size: 2, limit: Duration::from_millis(20) };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let silent = Pmi2::open(ours.into(), "1", asker).unwrap_err();
        assert!(matches!(silent, WireupError::TimedOut { .. }), "{silent}");
        drop(theirs);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"HTTP/1.1 400 Bad Request\n").unwrap();
        let other = Pmi2::open(ours.into(), "1", asker).unwrap_err();
        assert!(other.to_string().contains("HTTP"), "{other}");
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let gone = Pmi2::open(ours.into(), "1", asker).unwrap_err();
        assert!(matches!(gone, WireupError::LauncherGone { .. }), "{gone}");
    }
}
