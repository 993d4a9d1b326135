//! Rates: what counters of two looks differ by.

use std::collections::BTreeMap;

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
const BYTES_IN: &[&str] =
    &["shm.received_bytes", "shm.attach_bytes", "shm.region_bytes", "shm.ring_bytes"];

/// What is remembered of the look before.
#[derive(Default)]
pub struct Rates {
    unix_ms: u64,
    counters: BTreeMap<(String, u32, String), BTreeMap<String, u64>>,
    jobs: BTreeMap<String, (String, usize)>,
}

fn sum(counters: &BTreeMap<String, u64>, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| counters.get(*name)).sum()
}

impl Rates {
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
                sample.notes.push(format!("job {job} has ended ({ranks} ranks of {program})"));
            }
        }
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
}
