//! `weft compare --mpi`: MPICH and Open MPI on Weft beside the same libraries on their own
//! transports, running the same program.

use super::contender::{AMONG, Contender, Means, Reach};
use super::mpi::{Mpi, MpiRun};
use super::targets::{Bound, Key, Target, key, target};
use super::{Args, mpis};
use crate::CliError;
use crate::mpi::{Brand, Preload, Provider, collectives_by_weft};

/// Ranks of the barrier that shows what waiting costs where ranks outnumber processors.
const CROWD: u32 = 32;

/// Sizes of a full comparison; the targets are among them.
const FULL: &str = "lat 8 64 512 1024 4096 16384 65536 262144 1048576 \
                    bw 64 1024 4096 16384 65536 262144 1048576";

/// What is measured in one start of the program: where, with how many ranks, and the words. Each is
/// a contender of its own, so that one that fails leaves the others.
const RUNS: [(Option<Reach>, u32, &str, &str); 4] = [
    (None, 2, FULL, "lat 8 1024 16384 262144 1048576 bw 64 1024 16384 262144 1048576"),
    (None, 2, "barrier 0 allreduce 8", ""),
    (Some(Reach::Within), CROWD, "barrier 0", ""),
    (Some(Reach::Between), 2, "put 8 lput 8 fadd 8", ""),
];

/// What is measured among nodes on a switch: on Weft with and without its collective operations.
const AMONG_WORDS: &str = "barrier 0 bcast 8 1024 16384 65536 1048576 allreduce 8";

/// The libraries that are installed, on Weft and on their own transports.
///
/// # Errors
/// When Weft's provider is not found, or no library.
pub fn contenders(args: &Args, lab: bool) -> Result<Vec<Contender>, CliError> {
    let only = &args.only;
    let wanted = |l: &str| only.is_empty() || only.iter().any(|o| l.contains(o.as_str()));
    let labels = Brand::ALL.map(|b| [Reach::Within, Reach::Between].map(|r| label(b, r, true)));
    let provider = match labels.as_flattened().iter().any(|l| wanted(l)) {
        true => Some(Provider::find(args.provider.as_deref())?),
        false => None,
    };
    let preload = Preload::find(args.provider.as_deref());
    let mut all = Vec::new();
    let mpis = mpis();
    for (reach, ranks, full, quick) in RUNS {
        for at in [Reach::Within, Reach::Between] {
            let words = if args.quick { quick } else { full };
            let out = reach.is_some_and(|r| r != at) || (at == Reach::Between && !lab);
            if out || words.is_empty() {
                continue;
            }
            for (brand, mpi) in &mpis {
                for weft in [true, false] {
                    let label = label(*brand, at, weft);
                    if !wanted(label) {
                        continue;
                    }
                    let provider = provider.as_ref().filter(|_| weft);
                    // As `weft mpirun` does.
                    let collectives = provider.is_some()
                        && preload.is_some()
                        && at == Reach::Within
                        && collectives_by_weft(ranks);
                    let words = words.split(' ').map(String::from).collect();
                    let (mpi, provider) = (mpi.clone(), provider.cloned());
                    let preload = preload.clone();
                    let run = MpiRun { mpi, provider, preload, collectives, ranks, words };
                    let means = Means::Mpi(run);
                    all.push(Contender { label: label.into(), reach: at, means });
                }
            }
        }
    }
    if lab && !args.quick {
        for (brand, mpi) in &mpis {
            all.extend(among(args, *brand, mpi)?);
        }
    }
    Ok(all)
}

/// A library among nodes on a switch: on Weft with Weft's collective operations, on Weft without,
/// and by TCP.
fn among(args: &Args, brand: Brand, mpi: &Mpi) -> Result<Vec<Contender>, CliError> {
    let labels = [collectives(brand), label(brand, Reach::Among, true)];
    let own = label(brand, Reach::Among, false);
    let mut all = Vec::new();
    for label in labels.into_iter().chain([own]) {
        if !args.only.is_empty() && !args.only.iter().any(|o| label.contains(o.as_str())) {
            continue;
        }
        let provider = match label == own {
            true => None,
            false => Some(Provider::find(args.provider.as_deref())?),
        };
        let collectives = label == labels[0];
        let preload = match &provider {
            Some(provider) if collectives => Some(provider.preload()?),
            _ => Preload::find(args.provider.as_deref()),
        };
        let words = AMONG_WORDS.split(' ').map(String::from).collect();
        let (mpi, ranks) = (mpi.clone(), AMONG);
        let means = Means::Mpi(MpiRun { mpi, provider, preload, collectives, ranks, words });
        all.push(Contender { label: label.into(), reach: Reach::Among, means });
    }
    Ok(all)
}

/// A library on Weft among nodes, with Weft's collective operations.
fn collectives(brand: Brand) -> &'static str {
    match brand {
        Brand::Mpich => "mpich weft collectives",
        Brand::OpenMpi => "openmpi weft collectives",
    }
}

fn label(brand: Brand, reach: Reach, weft: bool) -> &'static str {
    match (brand, reach, weft) {
        (Brand::Mpich, Reach::Within, true) => "mpich weft shm",
        (Brand::Mpich, Reach::Within, false) => "mpich shm",
        (Brand::Mpich, Reach::Among, true) => "mpich weft, nodes",
        (Brand::OpenMpi, Reach::Among, true) => "openmpi weft, nodes",
        (Brand::Mpich, Reach::Among, false) => "mpich tcp, nodes",
        (Brand::OpenMpi, Reach::Among, false) => "openmpi tcp, nodes",
        (Brand::Mpich, Reach::Between, true) => "mpich weft ether",
        (Brand::Mpich, Reach::Between, false) => "mpich tcp",
        (Brand::OpenMpi, Reach::Within, true) => "openmpi weft shm",
        (Brand::OpenMpi, Reach::Within, false) => "openmpi sm",
        (Brand::OpenMpi, Reach::Between, true) => "openmpi weft ether",
        (Brand::OpenMpi, Reach::Between, false) => "openmpi tcp",
    }
}

/// What MPI programs are to reach on Weft.
pub fn targets() -> Vec<Target> {
    use Bound::{AtLeast, AtMost};
    use Brand::{Mpich, OpenMpi};
    const M: u64 = 1 << 20;
    let of = |bench, bytes, brand, reach, weft| key(bench, label(brand, reach, weft), bytes);
    let same = |name, bench, bytes, brand, reach, bound| {
        let (ours, base) =
            (of(bench, bytes, brand, reach, true), of(bench, bytes, brand, reach, false));
        target(name, ours, bound, base)
    };
    let ranks = |count: u32, t: Target| {
        let with = |key: Key| Key { ranks: Some(count), ..key };
        Target { ours: with(t.ours), base: with(t.base), ..t }
    };
    let (within, between) = (Reach::Within, Reach::Between);
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
            let ours = of(bench, bytes, brand, between, true);
            let base = of(bench, bytes, OpenMpi, between, false);
            let rival = Some(of(bench, bytes, Mpich, between, false));
            all.push(Target { rival, ..target(name, ours, bound, base) });
        }
    }
    all.extend([
        same("in a node 8 B RTT, Open MPI", "lat", 8, OpenMpi, within, AtMost(1.4)),
        same("in a node 8 B RTT, MPICH", "lat", 8, Mpich, within, AtMost(0.95)),
        same("in a node 4 KiB RTT, Open MPI", "lat", 4096, OpenMpi, within, AtMost(0.35)),
        same("in a node 1 MiB window, Open MPI", "bw", M, OpenMpi, within, AtLeast(1.0)),
        ranks(CROWD, same("barrier of 32, MPICH", "barrier", 0, Mpich, within, AtMost(0.01))),
        ranks(CROWD, same("barrier of 32, Open MPI", "barrier", 0, OpenMpi, within, AtMost(1.0))),
        same("Ethernet put of 8 B with its lock, MPICH", "lput", 8, Mpich, between, AtMost(0.5)),
        same("Ethernet put of 8 B, flushed, MPICH", "put", 8, Mpich, between, AtMost(0.5)),
        same("Ethernet fetch-and-add, MPICH", "fadd", 8, Mpich, between, AtMost(0.5)),
    ]);
    // Weft's own collective operations against the library's, both on Weft.
    let own = |name, bench, bytes, brand| {
        let (ours, base) =
            (key(bench, collectives(brand), bytes), of(bench, bytes, brand, Reach::Among, true));
        target(name, ours, AtMost(0.7), base)
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
        };
        let all = [
            figure("mpich weft ether", 40.0),
            figure("mpich tcp", 50.0),
            figure("openmpi tcp", 90.0),
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
        assert!(all.iter().filter(own).all(|t| t.base.device.contains("weft, nodes")));
        let others = || all.iter().filter(|t| !own(t));
        assert!(others().all(|t| t.ours.device.contains("weft")));
        assert!(others().all(|t| !t.base.device.contains("weft")));
    }
}
