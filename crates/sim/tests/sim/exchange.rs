//! Reductions and exchanges of blocks in simulated time: every way, whatever is late.

use weft_collective::LogP;
use weft_collective::exchange::{Way, What};
use weft_sim::exchange::{ExchangeError, Options, Report, run};
use weft_sim::rng::Rng;

const LOGP: LogP = LogP { o_s: 3.0, l: 17.5, o_r: 9.5, g: 9.0 };

fn simulated(options: &Options) -> Report {
    run(options).unwrap_or_else(|e| panic!("{options:?}: {e}"))
}

fn all(root: u32) -> [What; 8] {
    [
        What::Broadcast { root },
        What::Reduce { root },
        What::Allreduce,
        What::ReduceScatter,
        What::Gather { root },
        What::Scatter { root },
        What::Allgather,
        What::Alltoall,
    ]
}

/// Each way, and each with operands in order where it can keep them.
fn ways(what: What) -> impl Iterator<Item = (Way, bool)> {
    let each = what.ways().iter().flat_map(|&way| [(way, false), (way, true)]);
    each.filter(move |&(way, ordered)| !ordered || what.combines() && what.keeps_order(way))
}

#[test]
fn every_way_is_right_with_2_to_64_ranks_that_are_late_and_messages_that_are_held_up() {
    let mut rng = Rng::new(77);
    for ranks in 2..=64 {
        for what in all(rng.below(u64::from(ranks)) as u32) {
            for (way, ordered) in ways(what) {
                // Nothing at all, less than an element for each rank, and more.
                for count in [0, 1, 1 + rng.index(70)] {
                    let options = Options {
                        way: Some(way),
                        ordered,
                        byte_us: rng.below(3) as f64 * 0.01,
                        // All announced, some, or none.
                        eager_max: [0, 100, 1 << 20][rng.index(3)],
                        jitter_us: rng.spread(1, 500) as f64,
                        skew_us: rng.spread(1, 500) as f64,
                        seed: rng.bits(),
                        ..Options::new(what, ranks, count, LOGP)
                    };
                    let report = simulated(&options);
                    assert_eq!(report.messages > 0, count > 0, "{options:?}");
                }
            }
        }
    }
}

#[test]
fn every_way_is_right_with_many_ranks() {
    for (ranks, count, what, way) in [
        (100_000, 1, What::Broadcast { root: 7 }, Way::Binomial),
        (50_000, 2, What::Reduce { root: 49_999 }, Way::Binomial),
        (5_000, 1, What::Reduce { root: 1 }, Way::Direct),
        (20_000, 1, What::Allreduce, Way::Doubling),
        (1_000, 1_100, What::Allreduce, Way::Halving),
        (300, 1_000, What::Allreduce, Way::Ring),
        (700, 1, What::ReduceScatter, Way::Halving),
        (700, 1, What::ReduceScatter, Way::Pairwise),
        (1_500, 1, What::Gather { root: 1_234 }, Way::Binomial),
        (1_500, 1, What::Gather { root: 1_234 }, Way::Direct),
        (1_500, 1, What::Scatter { root: 1_499 }, Way::Binomial),
        (1_500, 1, What::Scatter { root: 1_499 }, Way::Direct),
        (400, 1, What::Allgather, Way::Bruck),
        (400, 1, What::Allgather, Way::Ring),
        (300, 1, What::Alltoall, Way::Bruck),
        (300, 1, What::Alltoall, Way::Pairwise),
    ] {
        for eager_max in [0, 1 << 20] {
            let faults = Options {
                eager_max,
                jitter_us: 30.0,
                skew_us: 100.0,
                seed: 5,
                ..Options::new(what, ranks, count, LOGP)
            };
            simulated(&Options { way: Some(way), ..faults });
        }
    }
}

#[test]
fn where_nothing_overlaps_it_takes_what_the_formula_says() {
    // Rounds follow each other: o_s, L and o_r each, and the bytes of a message.
    let round = |bytes: f64| LOGP.o_s + LOGP.l + LOGP.o_r + 0.01 * bytes;
    let options = |what, way, count| Options {
        way: Some(way),
        byte_us: 0.01,
        ..Options::new(what, 32, count, LOGP)
    };
    let doubling = simulated(&options(What::Allreduce, Way::Doubling, 4));
    assert!((doubling.span_us - 5.0 * round(32.0)).abs() < 0.01, "{doubling:?}");
    assert_eq!((doubling.messages, doubling.rounds), (32 * 5, 5));
    let ring = simulated(&options(What::Allgather, Way::Ring, 4));
    assert!((ring.span_us - 31.0 * round(32.0)).abs() < 0.01, "{ring:?}");
    assert_eq!((ring.messages, ring.bytes), (32 * 31, 32 * 31 * 32));
    let halving = simulated(&options(What::ReduceScatter, Way::Halving, 4));
    let blocks = [16.0, 8.0, 4.0, 2.0, 1.0];
    let rounds: f64 = blocks.iter().map(|blocks| round(blocks * 32.0)).sum();
    assert!((halving.span_us - rounds).abs() < 0.01, "{halving:?}");
    assert_eq!((halving.messages, halving.bytes), (32 * 5, 32 * 31 * 32));
    // What is announced is asked for, and comes then.
    let announced =
        Options { eager_max: 0, ..options(What::Broadcast { root: 0 }, Way::Binomial, 4) };
    let two = simulated(&Options { ranks: 2, ..announced });
    assert!((two.span_us - 2.0 * round(0.0) - round(32.0) - round(0.0)).abs() < 10.0, "{two:?}");
    assert_eq!((two.messages, two.announced), (1, 1));
}

#[test]
fn a_run_is_its_seed() {
    let with = |seed| {
        let what = What::Alltoall;
        simulated(&Options { jitter_us: 9.0, seed, ..Options::new(what, 20, 3, LOGP) })
    };
    assert_eq!(with(5), with(5));
    assert_ne!(with(5), with(6));
}

#[test]
fn the_way_is_that_of_real_ranks() {
    for what in all(3) {
        for (ranks, count) in [(4, 1), (5, 1), (16, 100), (17, 10_000)] {
            let options = Options::new(what, ranks, count, LOGP);
            let real = weft_collective::exchange::Exchange::new(what, 1, ranks, 8, count);
            assert_eq!(options.chosen(), real.way, "{what:?}");
            simulated(&options);
        }
    }
}

#[test]
fn options_that_make_no_sense_are_refused_with_a_reason() {
    let wrong = |options: Options| match run(&options) {
        Err(ExchangeError::Options(why)) => why,
        other => panic!("{other:?}"),
    };
    let base = Options::new(What::Allreduce, 8, 4, LOGP);
    assert!(wrong(Options { ranks: 0, ..base.clone() }).contains("at least one rank"));
    assert!(wrong(Options { way: Some(Way::Bruck), ..base.clone() }).contains("Doubling"));
    for (what, way) in [(What::Allreduce, Way::Ring), (What::ReduceScatter, Way::Halving)] {
        let loose = Options { what, way: Some(way), ordered: true, ..base.clone() };
        assert!(wrong(loose).contains("order of ranks"));
    }
    assert!(wrong(Options { what: What::Reduce { root: 8 }, ..base.clone() }).contains("8 ranks"));
    assert!(
        wrong(Options { what: What::Alltoall, ranks: 1 << 20, ..base.clone() }).contains("GiB")
    );
    assert!(wrong(Options { jitter_us: f64::NAN, ..base }).contains("microseconds"));
}
