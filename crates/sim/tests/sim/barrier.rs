//! Barriers under LogP: against the papers' measurements, against their formulas, and with faults.

use weft_collective::Way;
use weft_collective::{Algorithm, Barrier, LogP, Mark, Target};
use weft_sim::barrier::{BarrierError, Machine, Options, Report, run, run_with};
use weft_sim::rng::Rng;

/// Of the MCD paper.
const MCD: LogP = LogP { o_s: 3.0, l: 17.5, o_r: 9.5, g: 9.0 };

fn mcd(name: &str, ranks: u32) -> Options {
    let way: Way = name.parse().unwrap();
    // The paper's benchmark.
    Options { work_us: 30.0, repeats: 100, ..Options::new(way, ranks, MCD) }
}

fn simulated(options: &Options) -> Report {
    run(options).unwrap_or_else(|e| panic!("{} with {}: {e}", options.way, options.ranks))
}

#[test]
fn the_papers_measurements_are_met_within_15_percent() {
    let measured = [
        ("dissemination", 32, 174.0),
        ("tree2", 32, 204.0),
        ("concurrent", 32, 309.0),
        ("tree3", 31, 200.0),
    ];
    for (name, ranks, paper_us) in measured {
        let report = simulated(&mcd(name, ranks));
        let ratio = report.mean_us / paper_us;
        assert!((0.85..=1.15).contains(&ratio), "{name}: {} us, paper {paper_us}", report.mean_us);
    }
}

#[test]
fn where_nothing_overlaps_a_barrier_takes_what_the_formula_says() {
    for (name, ranks) in
        [("dissemination", 32), ("tree2", 32), ("tree3", 31), ("nomial3", 27), ("concurrent", 32)]
    {
        let report = simulated(&Options::new(name.parse().unwrap(), ranks, MCD));
        let formula = name.parse::<Algorithm>().unwrap().cost(ranks, &MCD);
        assert!(
            (report.span_us - formula).abs() < 0.01,
            "{name}: {} and {formula}",
            report.span_us
        );
    }
}

#[test]
fn a_second_link_helps_where_frames_wait_for_the_first_and_not_for_the_processor() {
    let logp = LogP { o_r: 1.0, ..MCD };
    for name in ["concurrent", "tree3"] {
        let one = simulated(&Options::new(name.parse().unwrap(), 31, logp)).span_us;
        let two =
            simulated(&Options::new(format!("{name}-2net").parse().unwrap(), 31, logp)).span_us;
        assert!(two < one, "{name}: {two} with two links, {one} with one");
    }
}

/// Also where frames are late, as long as that is within what ranks are used to.
#[test]
fn frames_are_as_many_as_the_algorithm_needs_and_none_is_extra_without_loss() {
    let tree = |ranks: u64| if ranks == 1 { 0 } else { ranks - 1 + 1 };
    let wide = |ways: u64, ranks: u64| {
        let rounds = std::iter::successors(Some(1), |base| Some(base * (ways + 1)));
        let each = rounds.take_while(|base| *base < ranks).map(|b| ways.min((ranks - 1) / b));
        ranks * each.sum::<u64>()
    };
    for ranks in [1, 2, 3, 7, 8, 31, 32, 100] {
        let n = u64::from(ranks);
        for (name, frames) in [
            ("dissemination", wide(1, n)),
            ("dissemination2", wide(2, n)),
            ("dissemination3", wide(3, n)),
            ("tree2", tree(n)),
            ("tree3", tree(n)),
            ("tree4", tree(n)),
            ("tree3-2net", tree(n)),
            ("nomial3", tree(n)),
            ("nomial4", tree(n)),
            ("concurrent", tree(n)),
            ("concurrent-2net", tree(n)),
            ("sequencer", tree(n)),
        ] {
            let report = simulated(&Options { jitter_us: 50.0, ..mcd(name, ranks) });
            assert_eq!((report.frames, report.repairs), (frames * 100, 0), "{name} of {ranks}");
        }
    }
    // A rank that is not used to it asks.
    let hasty = Options { jitter_us: 50.0, patience_us: 60.0, ..mcd("tree3", 32) };
    assert!(simulated(&hasty).repairs > 0);
}

/// All that are compared, and one more of each kind.
fn algorithms() -> Vec<Algorithm> {
    let more = ["dissemination5", "tree5", "tree2-2net", "tree7-2net", "nomial5"];
    Algorithm::USUAL.into_iter().chain(more.map(|name| name.parse().unwrap())).collect()
}

/// A barrier with faults and of a size that are the seed's, by a way of those.
fn anyhow(rng: &mut Rng, ways: &[Way]) -> Options {
    Options {
        per_node: rng.between(1, 6) as u32,
        board_us: rng.spread(1, 500) as f64,
        jitter_us: rng.spread(1, 5_000) as f64,
        loss: rng.below(300_000) as u32,
        duplication: rng.below(300_000) as u32,
        hub: rng.chance(200_000),
        work_us: rng.spread(1, 100) as f64,
        repeats: 20,
        patience_us: rng.spread(50, 2_000) as f64,
        seed: rng.bits(),
        ..Options::new(ways[rng.index(ways.len())], rng.between(1, 40) as u32, MCD)
    }
}

#[test]
fn with_loss_duplication_and_reordering_all_get_through_and_nobody_early() {
    let mut rng = Rng::new(2024);
    let flat: Vec<Way> = algorithms().into_iter().map(Way::Flat).collect();
    let by_node = algorithms().into_iter().map(|among| Way::ByNode(Some(among)));
    let by_node: Vec<Way> = by_node.chain([Way::ByNode(None), Way::Auto]).collect();
    for ways in [flat, by_node] {
        for _ in 0..300 {
            let options = anyhow(&mut rng, &ways);
            let report = run(&options).unwrap_or_else(|e| panic!("{options:?}: {e}"));
            assert!(report.mean_us >= report.min_us && report.max_us >= report.mean_us);
        }
    }
}

/// A rank with a defect that has to be found.
struct Broken {
    barrier: Barrier,
    defect: Defect,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Defect {
    None,
    /// It takes all frames for ones of the barrier that it is in.
    Hasty,
    /// It never asks.
    Shy,
}

impl Machine for Broken {
    fn enter(&mut self, out: impl FnMut(Target, u64, Mark)) {
        self.barrier.enter(out);
    }

    fn take(&mut self, from: u32, number: u64, mark: Mark, out: impl FnMut(Target, u64, Mark)) {
        let own = self.barrier.number();
        let number = if self.defect == Defect::Hasty { own } else { number };
        self.barrier.take(from, number, mark, out);
    }

    fn ask(&mut self, out: impl FnMut(Target, u64, Mark)) {
        if self.defect != Defect::Shy {
            self.barrier.ask(out);
        }
    }

    fn is_inside(&self) -> bool {
        self.barrier.is_inside()
    }

    fn number(&self) -> u64 {
        self.barrier.number()
    }
}

/// A defect that the checks did not find would show that they find nothing.
#[test]
fn one_that_leaves_early_or_never_asks_is_found() {
    let mut rng = Rng::new(5);
    let early = |result: &_| matches!(result, Err(BarrierError::Early { .. }));
    let stuck = |result: &_| matches!(result, Err(BarrierError::Stuck { .. }));
    for algorithm in algorithms() {
        for way in [Way::Flat(algorithm), Way::ByNode(Some(algorithm))] {
            let (mut was_early, mut was_stuck) = (0, 0);
            for _ in 0..8 {
                let faults = Options { loss: 100_000, ..anyhow(&mut rng, &[way]) };
                // So few that a run that does not end is over soon.
                let options = Options { ranks: 13, repeats: 5, jitter_us: 200.0, ..faults };
                let with = |defect| {
                    run_with(&options, |algorithm, rank, size| Broken {
                        barrier: Barrier::new(algorithm, rank, size),
                        defect,
                    })
                };
                assert!(with(Defect::None).is_ok(), "{options:?}");
                was_early += u32::from(early(&with(Defect::Hasty)));
                was_stuck += u32::from(stuck(&with(Defect::Shy)));
            }
            assert!(was_early > 0 && was_stuck > 4, "{way}: {was_early} and {was_stuck} of 8");
        }
    }
}

#[test]
fn by_node_a_barrier_takes_what_the_first_ones_take_and_two_looks_at_the_board() {
    let at = |name: &str, ranks, per_node| Options {
        per_node,
        board_us: 0.25,
        ..Options::new(name.parse().unwrap(), ranks, MCD)
    };
    for (name, nodes) in
        [("dissemination", 8), ("tree2", 8), ("tree3", 7), ("nomial3", 9), ("concurrent", 5)]
    {
        let options = at(&format!("hierarchical-{name}"), 4 * nodes, 4);
        let report = simulated(&options);
        let first_ones = simulated(&at(name, nodes, 1));
        assert!((report.span_us - first_ones.span_us - 0.5).abs() < 0.001, "{name}: {report:?}");
        assert!((report.span_us - options.model_us()).abs() < 0.01, "{name}");
        assert_eq!(report.frames, first_ones.frames, "{name}");
    }
    // On one node: who comes last opens, the others see it; of two each sees the other come.
    for name in ["shm", "hierarchical"] {
        for (ranks, span_us) in [(1, 0.0), (2, 0.25), (3, 0.5), (100, 0.5)] {
            let report = simulated(&at(name, ranks, 100));
            assert_eq!((report.span_us, report.frames), (span_us, 0), "{name} of {ranks}");
            assert_eq!(at(name, ranks, 100).model_us(), span_us);
        }
    }
}

#[test]
fn by_node_is_as_over_all_where_each_rank_has_its_own() {
    for name in ["dissemination2", "tree3", "concurrent-2net"] {
        let faults = |way: String| Options {
            jitter_us: 30.0,
            loss: 50_000,
            patience_us: 500.0,
            ..mcd(&way, 20)
        };
        let over_all = simulated(&faults(name.into()));
        let by_node = simulated(&faults(format!("hierarchical-{name}")));
        assert_eq!(over_all, by_node, "{name}");
        // Over all, nobody knows of nodes.
        assert_eq!(over_all, simulated(&Options { per_node: 5, ..faults(name.into()) }));
    }
}

/// Interrupts take time from the first rank's work only, so the others wait for it.
#[test]
fn the_last_node_may_have_fewer_and_whoever_is_late_is_waited_for() {
    let report = simulated(&Options { per_node: 8, ..mcd("hierarchical-dissemination", 33) });
    assert_eq!(report.frames, 5 * 3 * 100);
    let whole = simulated(&Options { per_node: 8, ..mcd("hierarchical-dissemination", 40) });
    assert!(report.mean_us > 3.0 * 30.0 && whole.mean_us > 3.0 * 30.0, "{report:?} {whole:?}");
    assert!(report.min_us <= report.mean_us && report.skew_us > 0.0, "{report:?}");
}

#[test]
fn a_run_is_its_seed() {
    let with = |seed| Options { jitter_us: 9.0, loss: 100_000, seed, ..mcd("tree3", 20) };
    assert_eq!(simulated(&with(5)), simulated(&with(5)));
    assert_ne!(simulated(&with(5)), simulated(&with(6)));
}

#[test]
fn a_shared_wire_collides_and_costs_more_than_a_switch() {
    let switch = simulated(&mcd("dissemination", 32));
    let hub = simulated(&Options { hub: true, ..mcd("dissemination", 32) });
    assert!(hub.collisions > 0 && hub.mean_us > switch.mean_us, "{hub:?}");
}

#[test]
fn many_ranks_fit() {
    let report = simulated(&Options::new("dissemination".parse().unwrap(), 100_000, MCD));
    assert!((report.span_us - 17.0 * 30.0).abs() < 0.01, "{report:?}");
    assert_eq!(report.frames, 1_700_000);
}

#[test]
fn options_that_make_no_sense_are_refused_with_a_reason() {
    let wrong = |options: Options| match run(&options) {
        Err(BarrierError::Options(why)) => why,
        other => panic!("{other:?}"),
    };
    let base = mcd("tree2", 8);
    assert!(wrong(Options { ranks: 0, ..base.clone() }).contains("at least one rank"));
    assert!(wrong(Options { repeats: 0, ..base.clone() }).contains("at least one barrier"));
    assert!(wrong(Options { hub: true, ranks: 2000, ..base.clone() }).contains("1024"));
    assert!(wrong(Options { per_node: 0, ..base.clone() }).contains("at least one rank"));
    let node = |way: &str| Options { per_node: 7, way: way.parse().unwrap(), ..base.clone() };
    assert!(wrong(node("shm")).contains("8 do not fit on one that has 7"));
    assert!(run(&node("hierarchical")).is_ok());
    // Nodes are stations, not ranks.
    let wire = Options { hub: true, ranks: 2000, per_node: 2, ..node("hierarchical-tree2") };
    assert!(run(&Options { repeats: 1, ..wire }).is_ok());
    assert!(wrong(Options { work_us: f64::NAN, ..base }).contains("microseconds"));
}
