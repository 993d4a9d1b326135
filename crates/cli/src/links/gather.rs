//! Surveys on the nodes of a lab or on other hosts: ranks of a `weft run` of our own, each of which
//! writes what it found as one line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, ToSocketAddrs};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;
use weft_sys::process::{self, Setup};

use super::item::NodeItem;
use crate::CliError;
use crate::lab::{Lab, LabSpec};

/// How much longer than the survey the run may take, s: labs and connections take their time.
const LIMIT_S: f64 = 60.0;

/// Where to survey.
pub(super) struct Where {
    option: &'static str,
    place: String,
    ranks: usize,
    hosts: Vec<String>,
}

impl Where {
    /// On all nodes of a lab, which is named or specified.
    pub fn lab(text: &str) -> Result<Where, CliError> {
        let nodes = match text.contains('=') {
            true => text.parse::<LabSpec>()?.nodes,
            false => Lab::find(text)?.nodes(),
        };
        let place = text.to_string();
        Ok(Where { option: "--lab", place, ranks: nodes as usize, hosts: Vec::new() })
    }

    /// On hosts; how many ranks each of them takes does not matter here.
    pub fn hosts(text: &str) -> Result<Where, CliError> {
        let name = |word: &str| word.split(':').next().unwrap_or("").to_string();
        let hosts: Vec<String> = text.split(',').map(name).collect();
        if hosts.iter().any(|h| h.is_empty() || h.starts_with('-')) {
            let why = format!("`{text}` is no list of hosts; as in --hosts alpha,beta");
            return Err(CliError::Usage(why));
        }
        let place = hosts.join(",");
        Ok(Where { option: "--hosts", place, ranks: hosts.len(), hosts })
    }

    /// How many processes survey there.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// The hosts' IP addresses, as far as names are known.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let name = |host: &String| host.rsplit('@').next().unwrap_or(host).to_string();
        let known = |host: &String| (name(host), 0).to_socket_addrs().ok();
        let all = self.hosts.iter().filter_map(known).flatten().map(|a| a.ip());
        all.filter(|ip| !ip.is_loopback()).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The surveys elsewhere.
pub(super) struct Ranks {
    run: Child,
    reader: Option<JoinHandle<Vec<NodeItem>>>,
    started: usize,
}

impl Ranks {
    /// Starts them.
    pub fn start(place: &Where, lasts: Duration, ask: &[IpAddr]) -> Result<Ranks, CliError> {
        let exe = std::env::current_exe().map_err(CliError::io("finding the weft program"))?;
        let there = match weft::env::text("WEFT_REMOTE_EXE") {
            Some(exe) if place.option == "--hosts" => exe.into(),
            _ => exe.clone(),
        };
        let s = lasts.as_secs_f64();
        let mut command = Command::new(&exe);
        command.args(["run", "-n", &place.ranks.to_string(), place.option, &place.place]);
        command.args(["--keep-going", "--label", "--timeout", &(s + LIMIT_S).to_string(), "--"]);
        command.arg(there).args(["links", "--report", "--seconds", &s.to_string()]);
        if !ask.is_empty() {
            let list: Vec<String> = ask.iter().map(IpAddr::to_string).collect();
            command.args(["--ask", &list.join(",")]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // Signals of the terminal are for us, who pass them on.
        let setup = Setup { own_group: true, dies_with_parent: true, ..Setup::default() };
        let mut run = process::spawn(&mut command, setup)
            .map_err(CliError::io(format!("starting {}", exe.display())))?;
        let out = run.stdout.take();
        let reader = std::thread::spawn(move || {
            let lines = out.into_iter().flat_map(|out| BufReader::new(out).lines());
            let mut begun = BTreeMap::new();
            lines.map_while(Result::ok).filter_map(|line| read(&mut begun, &line)).collect()
        });
        Ok(Ranks { run, reader: Some(reader), started: place.ranks })
    }

    /// Whether they have ended.
    pub fn are_over(&mut self) -> bool {
        !matches!(self.run.try_wait(), Ok(None))
    }

    /// Asks them to end.
    pub fn end(&self) {
        process::signal(self.run.id(), false, Signal::TERM.as_raw());
    }

    /// What they have found, sorted by name.
    ///
    /// # Errors
    /// When none of them has said anything, unless they were asked to end.
    pub fn found(mut self, ended: bool) -> Result<Vec<NodeItem>, CliError> {
        if !self.are_over() {
            self.end();
        }
        let _ = self.run.wait();
        let reader = self.reader.take();
        let mut found = reader.and_then(|r| r.join().ok()).unwrap_or_default();
        found.sort_by_key(|node| by_name(&node.who.host));
        if ended || found.len() == self.started {
            return Ok(found);
        }
        let why = format!(
            "of {} surveys {} came to an end: what is said above is the reason, and `weft links` \
             must run there",
            self.started,
            found.len()
        );
        if found.is_empty() {
            return Err(CliError::Bench(why));
        }
        eprintln!("weft: {why}");
        Ok(found)
    }
}

/// node2 comes before node10.
fn by_name(host: &str) -> (String, u64) {
    let stem = host.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem.to_string(), host[stem.len()..].parse().unwrap_or(0))
}

/// A line of a rank: its label, then JSON, or a piece of it: `weft run` cuts lines that are very
/// long. What has come of each rank so far is in `begun`.
fn read(begun: &mut BTreeMap<String, String>, line: &str) -> Option<NodeItem> {
    let (label, piece) = line.split_once("] ")?;
    let whole = begun.entry(label.to_string()).or_default();
    if whole.is_empty() && !piece.starts_with('{') {
        return None;
    }
    whole.push_str(piece);
    let item = serde_json::from_str(whole).ok()?;
    begun.remove(label);
    Some(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted() {
        assert_eq!(Where::lab("nodes=5,topology=chain").unwrap().ranks, 5);
        let hosts = Where::hosts("alpha:4,me@beta").unwrap();
        assert_eq!((hosts.place.as_str(), hosts.ranks), ("alpha,me@beta", 2));
        assert!(Where::lab("nodes=0").is_err());
        assert!(Where::hosts("127.0.0.1").unwrap().addresses().is_empty());
        assert!(["", "a,,b", "-oProxyCommand=x"].iter().all(|bad| Where::hosts(bad).is_err()));
        assert!(by_name("node2") < by_name("node10"));
    }

    #[test]
    fn only_reports_are_read() {
        let mut begun = BTreeMap::new();
        assert!(read(&mut begun, "[0@node0] nonsense").is_none());
        assert!(read(&mut begun, "{\"who\":1}").is_none());
    }

    #[test]
    fn long_reports_come_in_pieces() {
        let node = super::super::item::tests::node(7, Vec::new());
        let text = serde_json::to_string(&node).unwrap();
        let (first, second) = text.split_at(100);
        let mut begun = BTreeMap::new();
        assert!(read(&mut begun, &format!("[0@node0] {first}")).is_none());
        assert_eq!(read(&mut begun, &format!("[1@node1] {text}")), Some(node.clone()));
        assert_eq!(read(&mut begun, &format!("[0@node0] {second}")), Some(node.clone()));
        assert_eq!(read(&mut begun, &format!("[0@node0] {text}")), Some(node));
    }
}
