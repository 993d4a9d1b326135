//! Rates: what counters of two looks differ by.

use std::collections::BTreeMap;
use std::time::Duration;

use super::item::{JobItem, LinkItem, RankItem, RateItem, Sample};

/// Counters that together say what goes out and comes in, and what is odd.
const MESSAGES_OUT: &[&str] =
    &["shm.sent", "shm.announced", "ether.messages_sent", "ether.announced", "loopback.sent"];
const MESSAGES_IN: &[&str] =
    &["shm.received", "ether.messages_received", "ether.pulls", "loopback.received"];
const RETRANSMITS: &[&str] = &["ether.retransmits"];
const HOLDS: &[&str] = &["ether.stops_sent", "shm.holds"];
const RELAYED: &[&str] = &["ether.relayed_frames"];
const BYTES_OUT: &[&str] = &["shm.sent_bytes"];
const BYTES_IN: &[&str] = &["shm.received_bytes", "shm.pulled_bytes"];

/// All counters that rates are made of.
pub const COUNTED: [&[&str]; 7] =
    [MESSAGES_OUT, MESSAGES_IN, RETRANSMITS, HOLDS, RELAYED, BYTES_OUT, BYTES_IN];

/// What is remembered of the look before.
#[derive(Default)]
pub struct Rates {
    unix_ms: u64,
    counters: BTreeMap<(String, u32, String), BTreeMap<String, u64>>,
    jobs: BTreeMap<String, (String, usize)>,
    /// Jobs that have ended: since when, ms since 1970, and what is said of that. Then for how long
    /// it is.
    ended: BTreeMap<String, (u64, String)>,
    said_ms: u64,
}

fn sum(counters: &BTreeMap<String, u64>, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| counters.get(*name)).sum()
}

impl Rates {
    /// That a job has ended is said not only in the next sample, but in all for so long: where each
    /// takes the place of the one before, nobody could read it otherwise.
    pub fn saying_ends_for(time: Duration) -> Rates {
        Rates { said_ms: time.as_millis() as u64, ..Rates::default() }
    }

    /// Adds to a sample what it says beside the one before: rates, and which jobs have ended.
    pub fn next(&mut self, mut sample: Sample) -> Sample {
        let s = sample.unix_ms.saturating_sub(self.unix_ms) as f64 / 1e3;
        let before = std::mem::take(&mut self.counters);
        for job in &mut sample.jobs {
            for rank in &mut job.ranks {
                let key = (rank.host.clone(), rank.pid, job.job.clone());
                if let Some(before) = before.get(&key).filter(|_| s > 0.0) {
                    compare(rank, before, s);
                }
                self.counters.insert(key, rank.counters.clone());
            }
        }
        let jobs: BTreeMap<_, _> = sample.jobs.iter().map(about).collect();
        for (job, (program, ranks)) in &self.jobs {
            if !jobs.contains_key(job) {
                let note = format!("job {job} has ended ({ranks} ranks of {program})");
                self.ended.insert(job.clone(), (sample.unix_ms, note));
            }
        }
        let is_new = |at: u64| sample.unix_ms <= at.saturating_add(self.said_ms);
        self.ended.retain(|job, (at, _)| is_new(*at) && !jobs.contains_key(job));
        sample.notes.extend(self.ended.values().map(|(_, note)| note.clone()));
        (self.jobs, self.unix_ms) = (jobs, sample.unix_ms);
        sample
    }
}

/// What is said of a job when it has ended.
fn about(job: &JobItem) -> (String, (String, usize)) {
    let program = job.ranks.first().map_or("", |rank| rank.program.as_str());
    let program = program.split(' ').next().unwrap_or("").to_string();
    (job.job.clone(), (program, job.ranks.len()))
}

fn compare(rank: &mut RankItem, before: &BTreeMap<String, u64>, s: f64) {
    let now = &rank.counters;
    let rate = |names| sum(now, names).saturating_sub(sum(before, names)) as f64 / s;
    let one = |name: String| {
        let of = |all: &BTreeMap<String, u64>| all.get(&name).copied().unwrap_or(0);
        of(now).saturating_sub(of(before)) as f64 / s
    };
    let over = |link: &LinkItem, what| one(format!("{}.{what}", link.name));
    for link in &mut rank.links {
        link.bytes_out = Some(over(link, "sent_bytes"));
        link.bytes_in = Some(over(link, "received_bytes"));
    }
    let by_links =
        |what: fn(&LinkItem) -> Option<f64>| rank.links.iter().filter_map(what).sum::<f64>();
    rank.rates = Some(RateItem {
        messages_out: rate(MESSAGES_OUT),
        messages_in: rate(MESSAGES_IN),
        bytes_out: rate(BYTES_OUT) + by_links(|link| link.bytes_out),
        bytes_in: rate(BYTES_IN) + by_links(|link| link.bytes_in),
        retransmits: rate(RETRANSMITS),
        holds: rate(HOLDS),
        relayed: rate(RELAYED),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(unix_ms: u64, jobs: &[(&str, u64)]) -> Sample {
        let job = |(name, count): &(&str, u64)| {
            let counters = BTreeMap::from([
                ("shm.sent".to_string(), *count),
                ("udp:eth1.sent_frames".to_string(), 1),
                ("udp:eth1.sent_bytes".to_string(), 1000 * count),
            ]);
            let links = super::super::item::links(&counters);
            let rank =
                RankItem { pid: 7, program: "x y".into(), links, counters, ..RankItem::default() };
            JobItem { job: name.to_string(), size: Some(1), ranks: vec![rank] }
        };
        Sample { unix_ms, jobs: jobs.iter().map(job).collect(), notes: Vec::new() }
    }

    #[test]
    fn rates_are_what_two_looks_differ_by() {
        let mut rates = Rates::default();
        let first = rates.next(sample(1_000, &[("a", 100)]));
        assert_eq!(first.jobs[0].ranks[0].rates, None);
        let next = rates.next(sample(1_500, &[("a", 200)]));
        let rates = next.jobs[0].ranks[0].rates.unwrap();
        assert_eq!((rates.messages_out, rates.bytes_out), (200.0, 200_000.0));
        assert_eq!(next.jobs[0].ranks[0].links[0].bytes_out, Some(200_000.0));
    }

    #[test]
    fn a_job_that_has_ended_is_said_once() {
        let mut rates = Rates::default();
        rates.next(sample(1_000, &[("a", 1), ("b", 1)]));
        let next = rates.next(sample(2_000, &[("b", 1)]));
        assert_eq!(next.notes, ["job a has ended (1 ranks of x)"]);
        assert!(rates.next(sample(3_000, &[("b", 1)])).notes.is_empty());
    }

    #[test]
    fn on_a_terminal_an_end_is_said_for_a_while_unless_the_job_is_back() {
        let mut rates = Rates::saying_ends_for(Duration::from_secs(10));
        let mut notes = |s: u64, jobs: &[&str]| {
            let jobs: Vec<_> = jobs.iter().map(|job| (*job, 1)).collect();
            rates.next(sample(1_000 * s, &jobs)).notes
        };
        notes(1, &["a", "b"]);
        let (a, b) = ("job a has ended (1 ranks of x)", "job b has ended (1 ranks of x)");
        assert_eq!(notes(2, &["b"]), [a]);
        assert_eq!(notes(3, &[]), [a, b]);
        assert_eq!(notes(12, &[]), [a, b]);
        assert_eq!(notes(13, &[]), [b]);
        assert!(notes(13, &["b"]).is_empty());
    }

    #[test]
    fn bytes_that_a_peer_copies_come_in_as_well() {
        let counted = |received, pulled| {
            let mut sample = sample(received, &[("a", 0)]);
            let counters = &mut sample.jobs[0].ranks[0].counters;
            counters.insert("shm.received_bytes".into(), received);
            counters.insert("shm.pulled_bytes".into(), pulled);
            sample
        };
        let mut rates = Rates::default();
        rates.next(counted(1_000, 5_000));
        let next = rates.next(counted(2_000, 7_000));
        assert_eq!(next.jobs[0].ranks[0].rates.unwrap().bytes_in, 3_000.0);
    }
}
