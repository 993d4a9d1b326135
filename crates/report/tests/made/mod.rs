//! Records that are made up, the same each time: small ones with nothing odd, which tests change,
//! and large ones that look like those of a real program.
#![allow(dead_code, reason = "each test uses a part")]

use weft_report::{
    Ended, FORMAT, Flow, Function, Late, Link, Node, Rank, Run, Size, Wait, Waited, Way,
};

/// A second.
pub const S: u64 = 1_000_000_000;

/// Ranks that ran for ten seconds and have done nothing of note, in blocks on nodes.
pub fn even(ranks: u32, nodes: u32) -> Run {
    let each = ranks.div_ceil(nodes);
    let rank = |rank: u32| Rank {
        rank,
        node: rank / each,
        pid: 100 + rank,
        ended: Ended::Well,
        program: "prog".into(),
        lasted_ns: 10 * S,
        waits_ns: S / 50,
        cpu_ns: 10 * S,
        ..Rank::default()
    };
    Run {
        format: FORMAT,
        weft: "0.0.0".into(),
        command: vec!["prog".into()],
        lasted_ns: 10 * S,
        nodes: (0..nodes).map(|n| Node { name: format!("node{n}"), processors: each }).collect(),
        ranks: (0..ranks).map(rank).collect(),
        ..Run::default()
    }
}

/// Has one rank wait longer, for another or for nobody knows whom.
pub fn wait_for(run: &mut Run, rank: usize, other: Option<u32>, ns: u64) {
    let rank = &mut run.ranks[rank];
    rank.waits_ns += ns;
    rank.waited_for.push(Waited { rank: other, ns, times: 1 });
}

/// Numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to `below`, without it.
    fn below(&mut self, below: u64) -> u64 {
        self.next() % below.max(1)
    }
}

/// A solver on a ring of ranks, in which rank 3 has a fifth more work: `waits` stretches a rank.
pub fn solver(ranks: u32, nodes: u32, seconds: u64, waits: u64) -> Run {
    let mut random = Random(u64::from(ranks));
    let mut run = even(ranks, nodes);
    run.command = ["mpirun", "-n", "64", "--", "./heat", "--note", "<script>alert(1)</script>"]
        .map(String::from)
        .to_vec();
    run.started_unix_s = 1_800_000_000;
    run.lasted_ns = seconds * S;
    let (left, right) = (|r: u32| (r + ranks - 1) % ranks, |r: u32| (r + 1) % ranks);
    for at in 0..ranks {
        let rank = &mut run.ranks[at as usize];
        rank.began_ns = random.below(S / 4);
        rank.lasted_ns = seconds * S - S / 2 + random.below(S / 4);
        let step = rank.lasted_ns / waits.max(1);
        // The others wait a sixth of each step, rank 3 a fiftieth.
        let usual = if at == 3 { step / 50 } else { step / 6 };
        let mut waited = std::collections::BTreeMap::<u32, (u64, u64)>::new();
        for n in 0..waits {
            let ns = usual / 2 + random.below(usual);
            let other = match random.below(3) {
                0 => left(at),
                1 => right(at),
                _ => 3 % ranks,
            };
            let sum = waited.entry(other).or_default();
            *sum = (sum.0 + ns, sum.1 + 1);
            rank.waits_ns += ns;
            let from_ns = rank.began_ns + n * step + random.below(step / 4);
            rank.timeline.push(Wait { from_ns, ns, rank: Some(other) });
        }
        let waited = waited.into_iter().filter(|(other, _)| *other != at);
        rank.waited_for =
            waited.map(|(r, (ns, times))| Waited { rank: Some(r), ns, times }).collect();
        let calls_ns = rank.waits_ns + rank.lasted_ns / 50;
        rank.calls_ns = Some(calls_ns);
        let function = |(name, times, ns): (&str, u64, u64)| Function {
            name: name.into(),
            calls: times * seconds,
            ns,
        };
        let parts = [("MPI_Waitall", 900, calls_ns / 4 * 3), ("MPI_Isend", 2003, calls_ns / 4)];
        rank.functions = parts.map(function).to_vec();
        rank.cpu_ns = rank.lasted_ns / 100 * 99;
        rank.robbed_ns = random.below(rank.lasted_ns / 100);
        moved(rank, &mut random, seconds);
        for (to, times) in [(left(at), 1000), (right(at), 1000), (0, 3)] {
            let messages = times * seconds;
            run.flows.push(Flow { from: at, to, messages, bytes: messages * (4000 + at as u64) });
        }
    }
    run.flows.retain(|flow| flow.from != flow.to);
    run
}

/// What a rank sent, by sizes, ways and links, and its counters.
fn moved(rank: &mut Rank, random: &mut Random, seconds: u64) {
    let size = |(up_to, times): (u64, u64)| Size {
        up_to,
        messages: times * seconds,
        bytes: times * seconds * up_to * 3 / 4,
    };
    rank.sizes = [(8, 20), (64, 700), (4096, 900), (32768, 350), (1 << 20, 30)].map(size).to_vec();
    let way = |name: &str, times: u64, bytes: u64| Way {
        name: name.into(),
        messages: times * seconds,
        bytes: times * seconds * bytes,
    };
    rank.ways = vec![
        way("eager shm", 900, 3000),
        way("rendezvous shm", 30, 1 << 20),
        way("eager ether", 720, 2000),
        way("rendezvous ether", 350, 25_000),
    ];
    let link = |name: &str, frames: u64, bytes: u64| Link {
        name: name.into(),
        sent_frames: frames * seconds,
        sent_bytes: frames * seconds * bytes,
        received_frames: frames * seconds,
        received_bytes: frames * seconds * bytes,
        refused: 0,
        dropped: frames / 400,
    };
    rank.links = vec![link("packet:eth1", 700, 180), link("tso:eth1", 900, 9000)];
    let counts = [
        ("frames_sent", 1600 * seconds),
        ("messages_sent", 720 * seconds),
        ("announced", 350 * seconds),
        ("retransmits", random.below(40)),
        ("frames_lost", random.below(30)),
        ("stops_sent", random.below(5)),
        ("acks_only_sent", 200 * seconds),
        ("shm.attach_bytes", seconds * (30 << 20)),
    ];
    rank.counts = counts.map(|(name, n)| (name.to_string(), n)).into();
    rank.late_senders = Late { ns: rank.waits_ns / 2, times: 500 * seconds };
    rank.late_receivers = Late { ns: rank.waits_ns / 9, times: 20 * seconds };
}
