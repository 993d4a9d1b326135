//! Ways to nodes that no cable leads to, used as a job uses them: the ranks that have surveyed open
//! an endpoint, see who is reached, and measure there and back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weft::context::{Context, ContextOptions};
use weft::endpoint::{Endpoint, Request};
use weft::error::Error;
use weft::wireup::Job;

use super::item::{FarItem, NodeItem, WayItem, WhoItem};
use crate::CliError;
use crate::bench::figure::Spread;
use crate::info::relaying;

/// How long it may take until a message comes from every node.
const MEET: Duration = Duration::from_secs(4);
/// How often each pair is measured: the best counts.
const PASSES: usize = 2;
/// How long one answer may take then.
const ANSWER_NS: u64 = 2_000_000_000;
/// Round trips measured, and how long they may take together.
const ECHOES: usize = 100;
const ECHOES_LAST: Duration = Duration::from_millis(30);
/// Bytes of a large message, how many go at first, and how many more where those took less than
/// this.
const LARGE: usize = 64 << 10;
const FIRST: u64 = 16;
const MORE: u64 = 64;
const SHORT: Duration = Duration::from_millis(20);

const TAG_MEET: u64 = 1;
const TAG_ORDER: u64 = 2;
const TAG_ANSWER: u64 = 3;
const TAG_LARGE: u64 = 4;

/// What a node is told to take part in.
const ORDER_ECHO: u64 = 0;
const ORDER_END: u64 = u64::MAX;

/// What each rank tells all others before they begin.
#[derive(Serialize, Deserialize)]
struct Told {
    who: WhoItem,
    /// The nonces of those that it reaches by a cable.
    near: BTreeSet<u64>,
}

/// Tries the ways of a rank that has found `node`, and puts what came of it there. All ranks of the
/// job must call it.
///
/// # Errors
/// When a rank is missing, or no endpoint can be opened.
pub(super) fn run(node: &mut NodeItem) -> Result<Option<Trial>, CliError> {
    node.hands_nothing_on = why_nothing_is_handed_on(node);
    let mut job = Job::from_env().map_err(|e| CliError::Bench(e.to_string()))?;
    if job.size() < 2 {
        return Ok(None);
    }
    let answering = node.rows.iter().filter(|row| row.answers);
    let own = Told { who: node.who.clone(), near: answering.map(|r| r.peer.nonce).collect() };
    let blob = serde_json::to_vec(&own).map_err(|e| CliError::Bench(e.to_string()))?;
    let wired = |e: weft::wireup::WireupError| CliError::Bench(e.to_string());
    let all: Vec<Option<Told>> = {
        let blobs = job.exchange(&blob).map_err(wired)?;
        blobs.iter().map(|blob| serde_json::from_slice(blob).ok()).collect()
    };
    let far = |a: usize, b: usize| match (&all[a], &all[b]) {
        (Some(a), Some(b)) => {
            let near = a.near.contains(&b.who.nonce) || b.near.contains(&a.who.nonce);
            !near && a.who.node != b.who.node
        }
        _ => false,
    };
    // All know the same of all, and so decide alike.
    if !(0..all.len()).any(|a| (0..a).any(|b| far(a, b))) {
        return Ok(None);
    }
    let failed = |e: Error| CliError::Bench(e.to_string());
    let options = ContextOptions::from_env().map_err(failed)?;
    let context = Context::open(&mut job, &options).map_err(failed)?;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    let me = endpoint.rank() as usize;
    let peers: Vec<u32> = (0..all.len()).filter(|b| far(me, *b)).map(|b| b as u32).collect();
    let met = meet(&endpoint, &peers);
    let found = |peer: &u32| {
        let told = all[*peer as usize].as_ref()?;
        let (peer, met) = (told.who.clone(), met.contains(peer));
        Some(FarItem { peer, met, ways: Vec::new(), rtt_us: None, bandwidth_mb_s: None })
    };
    let mut items: BTreeMap<u32, FarItem> =
        peers.iter().filter_map(|peer| Some((*peer, found(peer)?))).collect();
    for round in 0..PASSES * rounds(all.len()) {
        let peer = partner(me, round % rounds(all.len()), all.len()).map(|peer| peer as u32);
        let Some((peer, item)) = peer.and_then(|peer| Some((peer, items.get_mut(&peer)?))) else {
            continue;
        };
        if item.met {
            // What fails here is a figure that is missing, and shown as such.
            let _ = measure(&endpoint, peer, item);
        }
    }
    for (peer, item) in items.iter_mut().filter(|(_, item)| item.met) {
        item.ways = ways(&endpoint, *peer);
    }
    node.far = items.into_values().collect();
    Ok(Some(Trial { job, endpoint }))
}

/// A trial that has been made: its node hands on for others until all have ended theirs.
pub(super) struct Trial {
    job: Job,
    endpoint: Endpoint,
}

impl Trial {
    /// Waits for the others. Whom nobody reaches is owed messages that will never go: nothing is
    /// said goodbye to.
    pub fn end(mut self) {
        let _ = self.job.fence();
        std::mem::forget(self.endpoint);
    }
}

/// Why this node hands on no frames between others; `None` if it does, or has one interface only.
fn why_nothing_is_handed_on(node: &NodeItem) -> Option<String> {
    let interfaces: BTreeSet<&str> = node.links.iter().map(|l| l.interface.as_str()).collect();
    if interfaces.len() < 2 {
        return None;
    }
    relaying().err()
}

/// Whom of `peers` a message has come from, before the time is up.
fn meet(endpoint: &Endpoint, peers: &[u32]) -> BTreeSet<u32> {
    let mut met = BTreeSet::new();
    let mut waiting: Vec<(u32, Request)> =
        peers.iter().map(|&p| (p, endpoint.irecv(p, TAG_MEET, vec![0; 8]))).collect();
    let sent: Vec<_> = peers
        .iter()
        .map(|&p| endpoint.isend(p, TAG_MEET, vec![0; 8]))
        .filter_map(Result::ok)
        .collect();
    let until = Instant::now() + MEET;
    while !waiting.is_empty() && Instant::now() < until {
        let mut rest = Vec::new();
        for (peer, request) in waiting {
            match endpoint.test(request) {
                Ok(Ok(_)) => _ = met.insert(peer),
                // The engine has given it up.
                Ok(Err(_)) => {}
                Err(request) => rest.push((peer, request)),
            }
        }
        waiting = rest;
        std::thread::sleep(Duration::from_micros(200));
    }
    for (_, request) in waiting {
        endpoint.cancel(&request);
        endpoint.detach(request);
    }
    sent.into_iter().for_each(|request| endpoint.detach(request));
    met
}

/// In how many rounds each of `n` meets each other.
fn rounds(n: usize) -> usize {
    n + n % 2 - 1
}

/// Whom `me` of `n` meets in this round: each pair meets once (the circle method of tournaments).
fn partner(me: usize, round: usize, n: usize) -> Option<usize> {
    let turning = rounds(n);
    let partner = match (round + turning - me % turning) % turning {
        // Who would meet itself meets the one that stands still.
        other if me < turning && other == me => turning,
        other if me < turning => other,
        _ => (0..turning).find(|other| (2 * other) % turning == round % turning)?,
    };
    (partner < n).then_some(partner)
}

/// Both measure, the one with the lower rank first.
fn measure(endpoint: &Endpoint, peer: u32, item: &mut FarItem) -> Result<(), Error> {
    if endpoint.rank() < peer {
        lead(endpoint, peer, item)?;
        follow(endpoint, peer)
    } else {
        follow(endpoint, peer)?;
        lead(endpoint, peer, item)
    }
}

/// Measures there and back, then the bandwidth.
fn lead(endpoint: &Endpoint, peer: u32, item: &mut FarItem) -> Result<(), Error> {
    let mut answer = [0; 8];
    let began = Instant::now();
    let mut echoes: Vec<f64> = Vec::with_capacity(ECHOES);
    let goes_on = |count: usize, lasted: Duration| match lasted {
        lasted if lasted < ECHOES_LAST => count < ECHOES,
        lasted if lasted < 10 * ECHOES_LAST => count < ECHOES / 4,
        _ => false,
    };
    while goes_on(echoes.len(), began.elapsed()) {
        let sent = Instant::now();
        endpoint.send(peer, TAG_ORDER, &ORDER_ECHO.to_le_bytes())?;
        endpoint.recv_timeout(peer, TAG_ANSWER, &mut answer, ANSWER_NS)?;
        echoes.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    let before = item.rtt_us.into_iter();
    item.rtt_us = before.chain(spread(&mut echoes)).min_by(|a, b| a.p50.total_cmp(&b.p50));
    let payload = vec![0; LARGE];
    for count in [FIRST, MORE] {
        let sent = Instant::now();
        endpoint.send(peer, TAG_ORDER, &count.to_le_bytes())?;
        let all: Result<Vec<_>, Error> =
            (0..count).map(|_| endpoint.isend(peer, TAG_LARGE, payload.clone())).collect();
        all?.into_iter().for_each(|request| endpoint.detach(request));
        endpoint.recv_timeout(peer, TAG_ANSWER, &mut answer, 5 * ANSWER_NS)?;
        let took = sent.elapsed();
        let mb_s = (count * LARGE as u64) as f64 / took.as_secs_f64() / 1e6;
        item.bandwidth_mb_s = Some(item.bandwidth_mb_s.unwrap_or(0.0).max(mb_s));
        if took > SHORT {
            break;
        }
    }
    endpoint.send(peer, TAG_ORDER, &ORDER_END.to_le_bytes())
}

/// Does what the one that measures says.
fn follow(endpoint: &Endpoint, peer: u32) -> Result<(), Error> {
    loop {
        let mut order = [0; 8];
        endpoint.recv_timeout(peer, TAG_ORDER, &mut order, 5 * ANSWER_NS)?;
        match u64::from_le_bytes(order) {
            ORDER_END => return Ok(()),
            count => {
                let large = |_| endpoint.irecv(peer, TAG_LARGE, vec![0; LARGE]);
                endpoint.wait_all((0..count.min(MORE)).map(large).collect())?;
                endpoint.send(peer, TAG_ANSWER, &[0; 8])?;
            }
        }
    }
}

fn spread(samples: &mut [f64]) -> Option<Spread> {
    samples.sort_by(f64::total_cmp);
    let last = samples.len().checked_sub(1)?;
    Some(Spread {
        min: samples[0],
        p50: samples[last / 2],
        p99: samples[last * 99 / 100],
        mean: samples.iter().sum::<f64>() / samples.len() as f64,
    })
}

/// What leads to a peer now, as the engine uses it.
fn ways(endpoint: &Endpoint, peer: u32) -> Vec<WayItem> {
    let way = |way: weft::device::Way| WayItem {
        link: way.link,
        hops: way.state.hops,
        between: way.state.between,
        small: way.state.small,
        bulk: way.state.bulk,
        spare: way.state.spare,
        rtt_us: Some(way.state.rtt_ns as f64 / 1000.0).filter(|us| *us > 0.0),
    };
    endpoint.ways(peer).into_iter().map(way).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_meets_each_other_once_and_one_at_a_time() {
        for n in 2..12 {
            let mut met = BTreeSet::new();
            for round in 0..rounds(n) {
                for me in 0..n {
                    let Some(other) = partner(me, round, n) else { continue };
                    assert_eq!(partner(other, round, n), Some(me), "{n}, round {round}");
                    assert!(me != other && met.insert((me, other)), "{n}, round {round}");
                }
            }
            assert_eq!(met.len(), n * (n - 1));
        }
    }
}
