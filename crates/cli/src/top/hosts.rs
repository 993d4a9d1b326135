//! Other hosts: `weft top --json` there, by the means of `weft run --hosts`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weft_sys::process::{self, Setup};

use super::item::Sample;
use crate::CliError;
use crate::run::{answer_limit, hosts, leader, silent, weft_on};

/// The longest line that is taken from a host, bytes.
const LINE_MAX: usize = 64 << 20;

/// What a host has said last; `Err`: that, and why, it says nothing more.
type Said = Arc<Mutex<Result<Option<Sample>, String>>>;

/// The hosts.
pub struct Hosts {
    all: Vec<Host>,
    began: Instant,
    limit: Duration,
}

struct Host {
    name: String,
    child: Child,
    said: Said,
}

impl Hosts {
    /// Has those of a list look.
    ///
    /// # Errors
    /// When the list is none, or the command that leads there cannot be started.
    pub fn start(list: &str, interval: Duration) -> Result<Hosts, CliError> {
        let limit = answer_limit()?;
        let all = hosts(list)?.into_iter().map(|host| Host::start(&host.name, interval));
        Ok(Hosts { all: all.collect::<Result<_, _>>()?, began: Instant::now(), limit })
    }

    /// Whether each has said something, or has had its time to.
    pub fn have_answered(&self) -> bool {
        let silent = |host: &Host| {
            matches!(*host.said.lock().unwrap_or_else(PoisonError::into_inner), Ok(None))
        };
        self.began.elapsed() > self.limit || !self.all.iter().any(silent)
    }

    /// Adds what they see. Ranks of one job are together, wherever they run.
    pub fn join(&mut self, sample: &mut Sample) {
        for host in &mut self.all {
            let said = host.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let name = &host.name;
            match said {
                Ok(Some(there)) => {
                    sample.notes.extend(there.notes.iter().map(|note| format!("{name}: {note}")));
                    add(sample, there);
                }
                Ok(None) if self.began.elapsed() > self.limit => {
                    sample.notes.push(format!("{name}: {}", silent(self.limit)));
                }
                Ok(None) => sample.notes.push(format!("{name} has not answered yet")),
                Err(why) => sample.notes.push(format!("{name}: {why}")),
            }
        }
    }
}

/// Adds what was seen elsewhere.
fn add(sample: &mut Sample, there: Sample) {
    for job in there.jobs {
        match sample.jobs.iter_mut().find(|known| known.job == job.job) {
            Some(known) => {
                // This machine may be among the hosts.
                let is_new = |new: &super::item::RankItem| {
                    !known.ranks.iter().any(|r| (r.pid, &r.host) == (new.pid, &new.host))
                };
                let new: Vec<_> = job.ranks.into_iter().filter(is_new).collect();
                known.ranks.extend(new);
                known.ranks.sort_by_key(|r| (r.rank.unwrap_or(u32::MAX), r.pid));
            }
            None => sample.jobs.push(job),
        }
    }
}

impl Host {
    fn start(name: &str, interval: Duration) -> Result<Host, CliError> {
        let mut command = weft_on(name).map_err(CliError::io("finding the weft program"))?;
        let first = command.get_program().to_string_lossy().into_owned();
        command.args(["top", "--json", "--interval"]).arg(interval.as_secs_f64().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let setup = Setup { dies_with_parent: true, own_group: true, ..Setup::default() };
        let mut child = process::spawn(&mut command, setup)
            .map_err(CliError::io(format!("starting {first} to {name}")))?;
        let said = Said::new(Mutex::new(Ok(None)));
        if let Some(out) = child.stdout.take() {
            let (said, way) = (Arc::clone(&said), leader());
            std::thread::spawn(move || {
                let why = listen(out, &said);
                let why = format!("{why}: does `{way}` lead there, and is weft there?");
                *said.lock().unwrap_or_else(PoisonError::into_inner) = Err(why);
            });
        }
        Ok(Host { name: name.to_string(), child, said })
    }
}

/// Takes line after line; gives why there are no more.
fn listen(out: impl std::io::Read, said: &Said) -> String {
    let mut lines = BufReader::new(out);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = std::io::Read::take(&mut lines, LINE_MAX as u64);
        match limited.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return "the connection to it ended".to_string(),
            Ok(_) => {}
        }
        match serde_json::from_slice::<Sample>(&line) {
            Ok(sample) => *said.lock().unwrap_or_else(PoisonError::into_inner) = Ok(Some(sample)),
            Err(error) => return format!("it says what this weft does not understand ({error})"),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Its pipe is closed with it, by which the one there ends at its next line.
        process::signal(self.child.id(), true, Signal::TERM.as_raw());
        std::thread::sleep(Duration::from_millis(20));
        process::signal(self.child.id(), true, Signal::KILL.as_raw());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::{JobItem, RankItem};
    use super::*;

    #[test]
    fn ranks_of_one_job_on_several_hosts_are_together_and_none_is_there_twice() {
        let sample = |host: &str, rank| {
            let ranks = vec![RankItem {
                rank: Some(rank),
                host: host.into(),
                pid: 9,
                ..RankItem::default()
            }];
            let job = JobItem { job: "2a".into(), size: Some(2), ranks };
            Sample { jobs: vec![job], ..Sample::default() }
        };
        let mut all = sample("b", 1);
        add(&mut all, sample("a", 0));
        add(&mut all, sample("a", 0));
        let ranks: Vec<_> = all.jobs[0].ranks.iter().map(|r| r.rank).collect();
        assert_eq!((all.jobs.len(), ranks), (1, vec![Some(0), Some(1)]));
    }

    #[test]
    fn what_is_no_sample_ends_a_host() {
        let said = Said::new(Mutex::new(Ok(None)));
        assert!(listen(&b"Welcome\n"[..], &said).contains("does not understand"));
        let line = serde_json::to_string(&Sample::default()).unwrap() + "\n";
        assert!(listen(line.as_bytes(), &said).contains("ended"));
        assert!(matches!(*said.lock().unwrap(), Ok(Some(_))));
    }
}
