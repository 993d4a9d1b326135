//! What `weft top` sees: jobs, their ranks, their links.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft::page::layout::{self, View, at};
use weft::page::place;
use weft::page::read::{self, Found};
use weft_sys::clock::now_ns;

use super::hosts::Hosts;

/// One look at all jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, ms since 1970.
    pub unix_ms: u64,
    /// The jobs, and their ranks in order.
    pub jobs: Vec<JobItem>,
    /// What is to be said: jobs that have ended since the look before, hosts that say nothing.
    pub notes: Vec<String>,
}

/// A job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobItem {
    /// Its number, in hexadecimal digits.
    pub job: String,
    /// How many ranks it has, where they know.
    pub size: Option<u32>,
    /// Those that are seen.
    pub ranks: Vec<RankItem>,
}

/// A rank: a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankItem {
    /// Its number, where it is known.
    pub rank: Option<u32>,
    /// Its host and process, the user it runs for, and its program.
    pub host: String,
    /// See `host`.
    pub pid: u32,
    /// See `host`.
    pub uid: u32,
    /// See `host`.
    pub program: String,
    /// What it does: `computes`, `exchanges`, `waits`, `sleeps`.
    pub doing: String,
    /// For how long, s.
    pub for_s: f64,
    /// For which rank it waits, or which process, if it does for one.
    pub waits_for: Option<String>,
    /// What goes through it in a second; `None` at the first look.
    pub rates: Option<RateItem>,
    /// Its links.
    pub links: Vec<LinkItem>,
    /// All its counters, since it began.
    pub counters: BTreeMap<String, u64>,
}

/// What goes through a rank in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateItem {
    /// Messages and bytes out and in.
    pub messages_out: f64,
    /// See `messages_out`.
    pub messages_in: f64,
    /// See `messages_out`.
    pub bytes_out: f64,
    /// See `messages_out`.
    pub bytes_in: f64,
    /// Pieces that were sent again, times that peers were asked to stop, frames handed on for
    /// others.
    pub retransmits: f64,
    /// See `retransmits`.
    pub holds: f64,
    /// See `retransmits`.
    pub relayed: f64,
}

/// A link of a rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkItem {
    /// Its name, as `packet:eth1`.
    pub name: String,
    /// Bytes out and in, a second; `None` at the first look.
    pub bytes_out: Option<f64>,
    /// See `bytes_out`.
    pub bytes_in: Option<f64>,
    /// Frames that found no room, since it was opened: going out, coming in.
    pub refused: u64,
    /// See `refused`.
    pub dropped: u64,
}

/// Looks at this machine, and at what other hosts have said last.
pub fn look(hosts: Option<&mut Hosts>) -> Sample {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let unix_ms = unix.map_or(0, |since| since.as_millis() as u64);
    let mut found = Vec::new();
    for directory in place::all() {
        place::sweep(&directory, usize::MAX);
        found.extend(read::directory(&directory));
    }
    let mut sample = Sample { unix_ms, jobs: jobs(&found), notes: foreign(&found) };
    if let Some(hosts) = hosts {
        hosts.join(&mut sample);
    }
    sample
}

/// Pages of another Weft cannot be read, which is said.
fn foreign(found: &[Found]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for found in found {
        if let Err(why @ layout::NoPage::Version { .. }) = &found.view {
            notes.push(format!("a process of user {} shows a page, but {why}", found.uid));
        }
    }
    notes.sort();
    notes.dedup();
    notes
}

/// The jobs of these pages. A process may have several endpoints in a job: it is one rank.
pub fn jobs(found: &[Found]) -> Vec<JobItem> {
    let now = now_ns();
    let living = found.iter().filter(|found| found.lives);
    let pages: Vec<(&View, u32)> =
        living.filter_map(|found| Some((found.view.as_ref().ok()?, found.uid))).collect();
    let names: BTreeMap<(u64, u64), String> = pages.iter().map(|(view, _)| name(view)).collect();
    let mut jobs: BTreeMap<(u32, u64), JobItem> = BTreeMap::new();
    for (view, uid) in pages {
        let number = view.word(at::JOB);
        let job = jobs.entry((uid, number)).or_default();
        job.job = format!("{number:08x}");
        job.size = job.size.or(view.number(at::SIZE));
        let item = rank(view, uid, &names, now);
        match job.ranks.iter_mut().find(|r| (r.pid, &r.host) == (item.pid, &item.host)) {
            Some(there) => there.join(item),
            None => job.ranks.push(item),
        }
    }
    let mut jobs: Vec<JobItem> = jobs.into_values().collect();
    for job in &mut jobs {
        job.ranks.sort_by_key(|r| (r.rank.unwrap_or(u32::MAX), r.pid));
    }
    jobs
}

/// By what peers know an endpoint, and what people call it.
fn name(view: &View) -> ((u64, u64), String) {
    let called = match view.number(at::RANK) {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {}", view.word(at::PID)),
    };
    ((view.word(at::NODE), view.word(at::NONCE)), called)
}

fn rank(view: &View, uid: u32, names: &BTreeMap<(u64, u64), String>, now: u64) -> RankItem {
    let doing = match view.word(at::DOING) {
        layout::COMPUTES => "computes",
        layout::EXCHANGES => "exchanges",
        layout::WAITS => "waits",
        layout::SLEEPS => "sleeps",
        _ => "?",
    };
    let awaited = view.number(at::AWAITED);
    let known = names.get(&(view.word(at::AWAITED_NODE), view.word(at::AWAITED_NONCE)));
    // Peers of an endpoint of a job have their ranks as numbers.
    let waits_for = awaited.map(|peer| known.cloned().unwrap_or_else(|| format!("peer {peer}")));
    let counters: BTreeMap<String, u64> = view.counters().collect();
    RankItem {
        rank: view.number(at::RANK),
        host: view.text(at::HOST),
        pid: view.number(at::PID).unwrap_or(0),
        uid,
        program: view.text(at::PROGRAM),
        doing: doing.to_string(),
        for_s: now.saturating_sub(view.word(at::SINCE_NS)) as f64 / 1e9,
        waits_for,
        rates: None,
        links: links(&counters),
        counters,
    }
}

/// The links that counters speak of, as `packet:eth1.sent_frames` does.
pub fn links(counters: &BTreeMap<String, u64>) -> Vec<LinkItem> {
    let mut names: Vec<&str> = counters
        .keys()
        .filter_map(|name| name.rsplit_once('.'))
        .filter_map(|(link, what)| (what == "sent_frames" && link.contains(':')).then_some(link))
        .collect();
    names.dedup();
    let count = |name: &str, what| counters.get(&format!("{name}.{what}")).copied().unwrap_or(0);
    let link = |name: &str| LinkItem {
        name: name.to_string(),
        refused: count(name, "send_refused"),
        dropped: count(name, "receive_dropped"),
        ..LinkItem::default()
    };
    names.into_iter().map(link).collect()
}

impl RankItem {
    /// Another endpoint of the same process: what it counts comes to this; what it does is of
    /// interest where this one is not in use.
    fn join(&mut self, other: RankItem) {
        for (name, count) in other.counters {
            *self.counters.entry(name).or_default() += count;
        }
        self.links = links(&self.counters);
        let is_busy = |item: &str| item != "computes";
        if is_busy(&other.doing) && (!is_busy(&self.doing) || other.for_s < self.for_s) {
            (self.doing, self.for_s) = (other.doing, other.for_s);
            self.waits_for = other.waits_for;
        }
    }
}
