//! What MPI programs are to reach on Weft beyond not being slower: ratios of single figures.

use super::work::{CROWD, NODES};
use super::{Layout, Side, label};
use crate::compare::targets::{Bound, Key, Target, key, target};
use crate::mpi::Brand;

/// Where most of them are measured.
const WITHIN: Layout = Layout::new(2, 1);
const BETWEEN: Layout = Layout::new(2, 2);

/// The figure of a library.
fn of(bench: &'static str, bytes: u64, brand: Brand, place: Layout, side: Side) -> Key {
    Key { device: label(brand, side, place).into(), ..key(bench, "", bytes) }
}

/// What MPI programs are to reach on Weft.
pub fn targets() -> Vec<Target> {
    use Bound::{AtLeast, AtMost};
    use Brand::{Mpich, OpenMpi};
    const M: u64 = 1 << 20;
    let same = |name, bench, bytes, brand, place, bound| {
        let at = |side| of(bench, bytes, brand, place, side);
        target(name, at(Side::Weft), bound, at(Side::Own))
    };
    let (within, between) = (WITHIN, BETWEEN);
    let mut all = vec![
        same("Ethernet 8 B RTT, Open MPI", "lat", 8, OpenMpi, between, AtMost(0.33)),
        same("Ethernet 8 B RTT, MPICH", "lat", 8, Mpich, between, AtMost(0.42)),
        same("Ethernet 1 KiB RTT, Open MPI", "lat", 1024, OpenMpi, between, AtMost(0.40)),
        same("Ethernet 1 KiB RTT, MPICH", "lat", 1024, Mpich, between, AtMost(0.30)),
    ];
    // Against the better of the two libraries over TCP.
    for (brand, names) in
        [(OpenMpi, BETTER.map(|(name, ..)| name)), (Mpich, BETTER.map(|(_, name, ..)| name))]
    {
        for (name, (_, _, bench, bytes, bound)) in names.into_iter().zip(BETTER) {
            let ours = of(bench, bytes, brand, between, Side::Weft);
            let base = of(bench, bytes, OpenMpi, between, Side::Own);
            let rival = Some(of(bench, bytes, Mpich, between, Side::Own));
            all.push(Target { rival, ..target(name, ours, bound, base) });
        }
    }
    all.extend([
        same("in a node 8 B RTT, Open MPI", "lat", 8, OpenMpi, within, AtMost(1.4)),
        same("in a node 8 B RTT, MPICH", "lat", 8, Mpich, within, AtMost(0.95)),
        same("in a node 4 KiB RTT, Open MPI", "lat", 4096, OpenMpi, within, AtMost(0.35)),
        same("in a node 1 MiB window, Open MPI", "bw", M, OpenMpi, within, AtLeast(1.0)),
        same("barrier of 32, MPICH", "barrier", 0, Mpich, CROWD, AtMost(0.01)),
        same("barrier of 32, Open MPI", "barrier", 0, OpenMpi, CROWD, AtMost(1.0)),
        same("Ethernet put of 8 B with its lock, MPICH", "lput", 8, Mpich, between, AtMost(0.5)),
        same("Ethernet put of 8 B, flushed, MPICH", "put", 8, Mpich, between, AtMost(0.5)),
        same("Ethernet fetch-and-add, MPICH", "fadd", 8, Mpich, between, AtMost(0.5)),
    ]);
    // Weft's own collective operations against the library's, both on Weft.
    let own = |name, bench, bytes, brand| {
        let at = |side| of(bench, bytes, brand, NODES, side);
        target(name, at(Side::Collectives), AtMost(0.7), at(Side::Weft))
    };
    all.extend([
        own("barrier of 8 nodes, MPICH", "barrier", 0, Mpich),
        own("barrier of 8 nodes, Open MPI", "barrier", 0, OpenMpi),
        own("broadcast of 64 KiB to 8 nodes, MPICH", "bcast", 64 << 10, Mpich),
        own("broadcast of 64 KiB to 8 nodes, Open MPI", "bcast", 64 << 10, OpenMpi),
    ]);
    all
}

/// Targets against the better peer: name for Open MPI and for MPICH, benchmark, bytes, bound. A
/// greater round-trip bandwidth by so much is a round-trip time that is less by so much.
const BETTER: [(&str, &str, &str, u64, Bound); 4] = [
    (
        "Ethernet 64 KiB RTT, Open MPI",
        "Ethernet 64 KiB RTT, MPICH",
        "lat",
        64 << 10,
        Bound::AtMost(0.75),
    ),
    (
        "Ethernet 1 MiB window, Open MPI",
        "Ethernet 1 MiB window, MPICH",
        "bw",
        1 << 20,
        Bound::AtLeast(1.1),
    ),
    (
        "Ethernet 1 MiB ping-pong time, Open MPI",
        "Ethernet 1 MiB ping-pong time, MPICH",
        "lat",
        1 << 20,
        Bound::AtMost(0.833),
    ),
    (
        "Ethernet 1 KiB window, Open MPI",
        "Ethernet 1 KiB window, MPICH",
        "bw",
        1 << 10,
        Bound::AtLeast(5.0),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figure::{Figure, Spread, Value};

    #[test]
    fn the_better_peer_is_the_measure() {
        let figure = |device: &str, p50: f64| Figure {
            bench: "lat".into(),
            device: device.into(),
            ranks: 2,
            bytes: 64 << 10,
            mode: None,
            value: Value::RttUs(Spread { p50, ..Spread::default() }),
            cpu_s_per_gb: None,
            mpi_us: None,
            share: None,
        };
        let all = [
            figure("mpich weft 2x2", 40.0),
            figure("mpich own 2x2", 50.0),
            figure("openmpi own 2x2", 90.0),
        ];
        let verdicts: Vec<_> = targets().iter().filter_map(|t| t.judge(&all)).collect();
        assert_eq!(verdicts.len(), 1);
        assert!(!verdicts[0].reached && verdicts[0].base == Some(&all[1]), "{verdicts:?}");
    }

    #[test]
    fn every_target_names_a_contender() {
        let all = targets();
        assert_eq!(all.len(), 25);
        let own = |t: &&Target| t.ours.device.contains("collectives");
        assert!(all.iter().filter(own).all(|t| t.base.device.contains("weft 8x8")));
        let others = || all.iter().filter(|t| !own(t));
        assert!(others().all(|t| t.ours.device.contains("weft")));
        assert!(others().all(|t| !t.base.device.contains("weft")));
    }
}
