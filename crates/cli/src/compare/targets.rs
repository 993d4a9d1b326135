//! What Weft is to reach, as data: a figure, what it is judged by, and how far it may be from that.

use std::borrow::Cow;

use super::contender::AMONG;
use crate::bench::figure::Figure;

/// Names a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The benchmark.
    pub bench: &'static str,
    /// Its device, or the contender's name.
    pub device: Cow<'static, str>,
    /// Bytes of a message.
    pub bytes: u64,
    /// The way it was measured.
    pub mode: Option<&'static str>,
    /// How many ranks took part; none: whatever it was.
    pub ranks: Option<u32>,
}

/// How a figure is to stand to its base.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At most so many times the base.
    AtMost(f64),
    /// At least so many times the base.
    AtLeast(f64),
    /// Half the difference (one way of a round trip) at most so many nanoseconds.
    OneWayNs(f64),
    /// Processor time for a byte at most so many times the base's.
    CpuAtMost(f64),
    /// At most so much, by itself.
    Alone(f64),
}

/// One target.
#[derive(Clone, Debug)]
pub struct Target {
    /// For people.
    pub name: &'static str,
    /// The figure.
    pub ours: Key,
    /// What it is judged by.
    pub base: Key,
    /// Another that it could be judged by: the better of the two is taken.
    pub rival: Option<Key>,
    /// How.
    pub bound: Bound,
}

/// A figure's name.
pub const fn key(bench: &'static str, device: &'static str, bytes: u64) -> Key {
    Key { bench, device: Cow::Borrowed(device), bytes, mode: None, ranks: None }
}

fn in_mode(key: Key, mode: &'static str) -> Key {
    Key { mode: Some(mode), ..key }
}

/// A target with one base.
pub fn target(name: &'static str, ours: Key, bound: Bound, base: Key) -> Target {
    Target { name, ours, base, rival: None, bound }
}

const M: u64 = 1 << 20;
const SHM_8: Key = key("lat", "weft shm", 8);
const SHM_1M: Key = key("bw", "weft shm", M);
const ETHER_8: Key = key("lat", "weft ether", 8);
const ETHER_1M: Key = key("bw", "weft ether", M);

/// All targets, for a cable whose frames are `mtu` bytes.
pub fn targets(mtu: u64) -> Vec<Target> {
    use Bound::{Alone, AtLeast, AtMost, CpuAtMost, OneWayNs};
    let floor = |device, bytes| key("floor", device, bytes);
    let mut all = vec![
        target("shm 8 B RTT", SHM_8, AtMost(2.2), floor("cache-line", 8)),
        target("shm 4 KiB RTT", key("lat", "weft shm", 4096), AtMost(0.35), openmpi("lat", 4096)),
        target("shm 1 MiB window, ordinary memory", SHM_1M, AtLeast(1.0), openmpi("bw", M)),
        target(
            "shm 1 MiB window, Weft's memory",
            in_mode(SHM_1M, "weft-memory"),
            AtLeast(1.4),
            openmpi("bw", M),
        ),
        target("composite, one way", key("lat", "weft composite", 8), OneWayNs(10.0), SHM_8),
        target("Ethernet 8 B RTT", ETHER_8, AtMost(1.25), floor("packet-ring", 64)),
        target("Ethernet 8 B RTT", ETHER_8, AtMost(0.5), key("lat", "tcp sockets", 8)),
        target(
            "Ethernet 8 B RTT, udp link only",
            key("lat", "weft ether udp", 8),
            AtMost(1.2),
            floor("udp-poll", 64),
        ),
        target("Ethernet 1 MiB window", ETHER_1M, AtLeast(0.9), floor("udp-stream", mtu)),
        target("Ethernet 1 MiB window", ETHER_1M, AtLeast(1.8), key("bw", "tcp sockets", M)),
        target("Ethernet 1 MiB window", ETHER_1M, CpuAtMost(1.0), key("bw", "tcp sockets", M)),
        target(
            "Ethernet 64 B messages one way",
            key("rate", "weft ether", 64),
            AtLeast(4.0),
            floor("udp-rate", 64),
        ),
        target("token round 32", key("ring", "weft shm", 8), AtMost(1.5), floor("futex-ring", 0)),
        target("a receiver that waits", IDLE, Alone(2.0), IDLE),
        barrier("barrier, two nodes", 2, ("weft ether", "openmpi tcp", "mpich tcp"), 0.3),
        barrier(
            "barrier, nodes on a switch",
            AMONG,
            ("weft ether, nodes", "openmpi tcp, nodes", "mpich tcp, nodes"),
            0.35,
        ),
        barrier("barrier, 2 ranks of a node", 2, ("weft shm", "openmpi sm", "openmpi sm"), 1.0),
        barrier("barrier, 32 ranks of a node", 32, ("weft shm", "openmpi sm", "mpich shm"), 0.6),
        broadcast("broadcast of 64 KiB, nodes on a switch", 64 << 10),
        broadcast("broadcast of 1 MiB, nodes on a switch", M),
        receivers(
            "bytes of the root, 7 receivers / 1",
            ("bcast", Some("root bytes"), M),
            AtMost(1.1),
        ),
        // What more receivers cost is counted on the wire: the rates, which are shown beside, are
        // those of all nodes' processes on one machine's processors.
        receivers(
            "frames of ordered 64 B, 7 receivers / 1",
            ("group", Some("frames"), 64),
            AtMost(1.18),
        ),
        receivers(
            "frames of ordered 1 KiB, 7 receivers / 1",
            ("group", Some("frames"), 1 << 10),
            AtMost(1.18),
        ),
    ];
    all.extend(puts());
    all
}

/// Remote memory: beside what memory itself does, and beside messages.
fn puts() -> [Target; 5] {
    let of = |device, mode, bytes| in_mode(key("put", device, bytes), mode);
    let floor = |device, bytes| key("floor", device, bytes);
    let copy = || floor("memcpy", M);
    let windows = || of("weft ether", "windows", M);
    [
        target(
            "put 8 B, there and back, shm",
            of("weft shm", "there and back", 8),
            Bound::AtMost(3.0),
            floor("cache-line", 8),
        ),
        target(
            "put 1 MiB, shm, memory that is lent",
            of("weft shm", "borrowed windows", M),
            Bound::AtLeast(0.6),
            copy(),
        ),
        target(
            "put 1 MiB, shm, Weft's memory",
            of("weft shm", "windows", M),
            Bound::AtLeast(0.95),
            copy(),
        ),
        target("put 1 MiB window, Ethernet", windows(), Bound::AtLeast(1.0), ETHER_1M),
        target(
            "put 1 MiB window, Ethernet, to one that computes",
            of("weft ether", "busy windows", M),
            Bound::AtLeast(0.9),
            windows(),
        ),
    ]
}

const NODES: &str = "weft ether, nodes";

/// A broadcast to all nodes against the better MPI library over TCP.
fn broadcast(name: &'static str, bytes: u64) -> Target {
    let of = |bench, device| Key { ranks: Some(AMONG), ..key(bench, device, bytes) };
    let (base, rival) = (of("cast", "openmpi tcp, nodes"), Some(of("cast", "mpich tcp, nodes")));
    Target { rival, ..target(name, of("bcast", NODES), Bound::AtLeast(1.5), base) }
}

/// Something with all nodes against the same with two: what more receivers cost.
fn receivers(
    name: &'static str,
    (bench, mode, bytes): (&'static str, Option<&'static str>, u64),
    bound: Bound,
) -> Target {
    let of = |ranks| Key { ranks: Some(ranks), mode, ..key(bench, NODES, bytes) };
    target(name, of(AMONG), bound, of(2))
}

/// A barrier against the better of two others.
fn barrier(
    name: &'static str,
    ranks: u32,
    (ours, base, rival): (&'static str, &'static str, &'static str),
    most: f64,
) -> Target {
    let of = |device| Key { ranks: Some(ranks), ..key("barrier", device, 0) };
    let rival = Some(of(rival));
    Target { rival, ..target(name, of(ours), Bound::AtMost(most), of(base)) }
}

const IDLE: Key = key("idle", "weft shm", 0);

const fn openmpi(bench: &'static str, bytes: u64) -> Key {
    key(bench, "openmpi sm", bytes)
}

/// How a target stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict<'a> {
    /// The figure.
    pub ours: &'a Figure,
    /// What it is judged by; none where it stands by itself.
    pub base: Option<&'a Figure>,
    /// How it is to stand to that.
    pub bound: Bound,
    /// How it does: what `bound` limits.
    pub found: f64,
    /// Whether it is reached.
    pub reached: bool,
}

impl Bound {
    /// The limit, and whether it is a lower one.
    pub fn limit(self) -> (f64, bool) {
        match self {
            Bound::AtLeast(limit) => (limit, true),
            Bound::AtMost(limit)
            | Bound::OneWayNs(limit)
            | Bound::CpuAtMost(limit)
            | Bound::Alone(limit) => (limit, false),
        }
    }
}

impl Key {
    /// The figure of this name among `all`.
    pub fn find<'a>(&self, all: &'a [Figure]) -> Option<&'a Figure> {
        all.iter().find(|f| {
            (f.bench.as_str(), f.device.as_str(), f.bytes, f.mode.as_deref())
                == (self.bench, &*self.device, self.bytes, self.mode)
                && self.ranks.is_none_or(|ranks| f.ranks == ranks)
        })
    }
}

impl Target {
    /// What it is judged by: the better one, where there are two.
    fn base<'a>(&self, all: &'a [Figure]) -> Option<&'a Figure> {
        let (base, rival) =
            (self.base.find(all), self.rival.as_ref().and_then(|key| key.find(all)));
        let (Some(a), Some(b)) = (base, rival) else { return base.or(rival) };
        let a_is_more = a.value.number() > b.value.number();
        let more_is_better = matches!(self.bound, Bound::AtLeast(_));
        Some(if a_is_more == more_is_better { a } else { b })
    }

    /// Judges; `None` when one of the two figures was not measured.
    pub fn judge<'a>(&self, all: &'a [Figure]) -> Option<Verdict<'a>> {
        let ours = self.ours.find(all)?;
        let base = self.base(all)?;
        let (a, b) = (ours.value.number(), base.value.number());
        let found = match self.bound {
            Bound::AtMost(_) | Bound::AtLeast(_) => a / b,
            Bound::OneWayNs(_) => (a - b) * 1000.0 / 2.0,
            Bound::CpuAtMost(_) => ours.cpu_s_per_gb? / base.cpu_s_per_gb?,
            Bound::Alone(_) => a,
        };
        let alone = matches!(self.bound, Bound::Alone(_));
        let (limit, lower) = self.bound.limit();
        let reached = if lower { found >= limit } else { found <= limit };
        let base = (!alone).then_some(base);
        Some(Verdict { ours, base, bound: self.bound, found, reached })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figure::{Spread, Value};

    fn figure(bench: &str, device: &str, bytes: u64, value: Value) -> Figure {
        let (bench, device) = (bench.into(), device.into());
        Figure {
            bench,
            device,
            ranks: 2,
            bytes,
            mode: None,
            value,
            cpu_s_per_gb: Some(0.5),
            mpi_us: None,
            share: None,
        }
    }

    fn rtt(p50: f64) -> Value {
        Value::RttUs(Spread { p50, ..Spread::default() })
    }

    #[test]
    fn ratios_are_judged_on_the_right_side() {
        let all = [
            figure("lat", "weft shm", 8, rtt(0.3)),
            figure("lat", "weft composite", 8, rtt(0.33)),
            figure("floor", "cache-line", 8, rtt(0.1)),
            figure("bw", "weft ether", M, Value::BandwidthMbS(5000.0)),
            figure("bw", "tcp sockets", M, Value::BandwidthMbS(2500.0)),
        ];
        let verdicts: Vec<(&str, Verdict<'_>)> =
            targets(1500).iter().filter_map(|t| Some((t.name, t.judge(&all)?))).collect();
        let reached: Vec<(&str, bool)> = verdicts.iter().map(|(n, v)| (*n, v.reached)).collect();
        assert_eq!(
            reached,
            [
                ("shm 8 B RTT", false),
                ("composite, one way", false),
                ("Ethernet 1 MiB window", true),
                ("Ethernet 1 MiB window", true)
            ]
        );
        assert!((verdicts[1].1.found - 15.0).abs() < 1e-6);
    }
}
