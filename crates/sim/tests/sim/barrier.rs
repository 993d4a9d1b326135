//! Barriers under LogP: against the papers' measurements, against their formulas, and with faults.

use weft::collective::{Algorithm, LogP};
use weft_sim::barrier::{BarrierError, Options, Report, run};
use weft_sim::rng::Rng;

/// Of the MCD paper.
const MCD: LogP = LogP { o_s: 3.0, l: 17.5, o_r: 9.5, g: 9.0 };

fn mcd(name: &str, ranks: u32) -> Options {
    let algorithm: Algorithm = name.parse().unwrap();
    // The paper's benchmark.
    Options { work_us: 30.0, repeats: 100, ..Options::new(algorithm, ranks, MCD) }
}

fn simulated(options: &Options) -> Report {
    run(options).unwrap_or_else(|e| panic!("{} with {}: {e}", options.algorithm, options.ranks))
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

#[test]
fn with_loss_duplication_and_reordering_all_get_through_and_nobody_early() {
    let mut rng = Rng::new(2024);
    for _ in 0..300 {
        let algorithm = Algorithm::USUAL[rng.index(Algorithm::USUAL.len())];
        let options = Options {
            jitter_us: rng.spread(1, 5_000) as f64,
            loss: rng.below(300_000) as u32,
            duplication: rng.below(300_000) as u32,
            hub: rng.chance(200_000),
            work_us: rng.spread(1, 100) as f64,
            repeats: 20,
            patience_us: rng.spread(50, 2_000) as f64,
            seed: rng.bits(),
            ..Options::new(algorithm, rng.between(1, 40) as u32, MCD)
        };
        let report = run(&options).unwrap_or_else(|e| panic!("{options:?}: {e}"));
        assert!(report.mean_us >= report.min_us && report.max_us >= report.mean_us);
    }
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
    assert!(wrong(Options { work_us: f64::NAN, ..base }).contains("microseconds"));
}
