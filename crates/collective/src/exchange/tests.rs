//! All ways with up to 17 ranks, executed in memory, against what a single process computes.

use std::collections::{HashMap, VecDeque};

use super::*;

/// What a rank has.
struct Rank {
    exchange: Exchange,
    at: u32,
    memory: Memory,
    /// Its message of this round is sent.
    sent: bool,
    done: bool,
}

const UNIT: usize = 3;

/// An operation that neither commutes nor forgets: the elements are maps x -> a x + b modulo 251,
/// and are combined by doing one after the other. The third byte counts the operands.
fn after(left: &mut [u8], right: &[u8]) {
    for (l, r) in left.chunks_exact_mut(UNIT).zip(right.chunks_exact(UNIT)) {
        let (a, b) = (u32::from(l[0]), u32::from(l[1]));
        let (c, d) = (u32::from(r[0]), u32::from(r[1]));
        l[0] = (a * c % 251) as u8;
        l[1] = ((a * d + b) % 251) as u8;
        l[2] = l[2].wrapping_add(r[2]);
    }
}

/// An operation that commutes: sums.
fn sum(left: &mut [u8], right: &[u8]) {
    left.iter_mut().zip(right).for_each(|(l, r)| *l = l.wrapping_add(*r));
}

/// Runs the exchange that all have a part in; gives the filled memory and how many messages and
/// bytes there were.
fn run(
    exchanges: &[Exchange],
    input: impl Fn(usize, usize) -> u8,
    combine: fn(&mut [u8], &[u8]),
) -> (Vec<Vec<u8>>, usize, usize) {
    let mut ranks: Vec<Rank> = exchanges
        .iter()
        .enumerate()
        .map(|(rank, exchange)| Rank {
            exchange: *exchange,
            at: 0,
            memory: Memory::new(exchange, |at| input(rank, at)),
            sent: false,
            done: false,
        })
        .collect();
    let mut wires: HashMap<(usize, usize), VecDeque<Vec<u8>>> = HashMap::new();
    let (mut messages, mut bytes) = (0, 0);
    loop {
        let mut moved = false;
        for (me, rank) in ranks.iter_mut().enumerate() {
            let Some(round) = rank.exchange.round(rank.at) else {
                rank.done = true;
                continue;
            };
            if !rank.sent {
                rank.sent = true;
                moved = true;
                rank.memory.act(round.before, combine);
                if let Some(Move { rank: to, span }) = round.send {
                    let message = rank.memory.read(span).to_vec();
                    (messages, bytes) = (messages + 1, bytes + message.len());
                    wires.entry((me, to as usize)).or_default().push_back(message);
                }
            }
            if let Some(Move { rank: from, span }) = round.receive {
                let wire = wires.entry((from as usize, me)).or_default();
                let Some(message) = wire.pop_front() else { continue };
                assert_eq!(message.len(), span.len, "{:?}", rank.exchange);
                rank.memory.write(span, &message);
            }
            rank.memory.act(round.after, combine);
            (rank.at, rank.sent, moved) = (rank.at + 1, false, true);
        }
        if !moved {
            break;
        }
    }
    assert!(ranks.iter().all(|r| r.done), "stuck: {:?}", exchanges[0]);
    assert!(wires.values().all(VecDeque::is_empty), "left over: {:?}", exchanges[0]);
    (ranks.into_iter().map(|r| r.memory.work().to_vec()).collect(), messages, bytes)
}

fn all(size: u32, what: What, way: Way, ordered: bool, count: usize) -> Vec<Exchange> {
    (0..size).map(|rank| Exchange { what, way, ordered, rank, size, unit: UNIT, count }).collect()
}

fn byte(rank: usize, at: usize) -> u8 {
    (rank * 89 + at * 7 + at / 256 + 1) as u8
}

const COUNTS: [usize; 6] = [0, 1, 2, 5, 16, 301];

fn roots(size: u32) -> Vec<u32> {
    Vec::from([0, size / 2, size - 1])
}

#[test]
fn reductions_are_right_with_any_number_of_ranks() {
    for size in 1..=17u32 {
        for count in COUNTS {
            for ordered in [false, true] {
                let combine = if ordered { after } else { sum };
                let len = count * UNIT;
                let row = |rank: u32| (0..len).map(|i| byte(rank as usize, i)).collect::<Vec<_>>();
                let mut expected = row(0);
                (1..size).for_each(|rank| combine(&mut expected, &row(rank)));
                for root in roots(size) {
                    for &way in (What::Reduce { root }).ways() {
                        let exchanges = all(size, What::Reduce { root }, way, ordered, count);
                        let (results, ..) = run(&exchanges, byte, combine);
                        assert_eq!(results[root as usize], expected, "{:?}", exchanges[0]);
                    }
                    let what = What::Broadcast { root };
                    let (results, ..) =
                        run(&all(size, what, Way::Binomial, false, count), byte, sum);
                    assert!(results.iter().all(|r| *r == row(root)), "{what:?} of {size}");
                }
                let fits = |what: What| {
                    let ways = what.ways().iter().copied();
                    ways.filter(move |&way| !ordered || what.keeps_order(way))
                };
                for way in fits(What::Allreduce) {
                    let exchanges = all(size, What::Allreduce, way, ordered, count);
                    let (results, ..) = run(&exchanges, byte, combine);
                    assert!(results.iter().all(|r| *r == expected), "{:?}", exchanges[0]);
                }
                let len = len * size as usize;
                let row = |rank: u32| (0..len).map(|i| byte(rank as usize, i)).collect::<Vec<_>>();
                let mut expected = row(0);
                (1..size).for_each(|rank| combine(&mut expected, &row(rank)));
                for way in fits(What::ReduceScatter) {
                    let exchanges = all(size, What::ReduceScatter, way, ordered, count);
                    let (results, ..) = run(&exchanges, byte, combine);
                    assert_eq!(results.concat(), expected, "{:?}", exchanges[0]);
                }
            }
        }
    }
}

#[test]
fn blocks_come_to_where_they_belong_with_any_number_of_ranks() {
    for size in 1..=17u32 {
        for count in COUNTS {
            let (n, block) = (size as usize, count * UNIT);
            let gathered: Vec<u8> =
                (0..n).flat_map(|rank| (0..block).map(move |i| byte(rank, i))).collect();
            for root in roots(size) {
                for &way in (What::Gather { root }).ways() {
                    let (results, ..) =
                        run(&all(size, What::Gather { root }, way, false, count), byte, sum);
                    assert_eq!(results[root as usize], gathered, "{way:?} {size} {root}");
                    let (results, ..) =
                        run(&all(size, What::Scatter { root }, way, false, count), byte, sum);
                    for (rank, result) in results.iter().enumerate() {
                        let expected: Vec<u8> =
                            (0..block).map(|i| byte(root as usize, rank * block + i)).collect();
                        assert_eq!(*result, expected, "{way:?} {size} {root}");
                    }
                }
            }
            for &way in What::Allgather.ways() {
                let (results, ..) = run(&all(size, What::Allgather, way, false, count), byte, sum);
                assert!(results.iter().all(|r| *r == gathered), "{way:?} {size} {count}");
            }
            for &way in What::Alltoall.ways() {
                let (results, ..) = run(&all(size, What::Alltoall, way, false, count), byte, sum);
                for (rank, result) in results.iter().enumerate() {
                    let expected: Vec<u8> = (0..n)
                        .flat_map(|from| (0..block).map(move |i| byte(from, rank * block + i)))
                        .collect();
                    assert_eq!(*result, expected, "{way:?} {size} {count}");
                }
            }
        }
    }
}

/// Sums of floating-point numbers are the same bit for bit, at every rank and, with a power of two
/// of ranks, whatever the way.
#[test]
fn operands_are_bracketed_alike_everywhere() {
    fn add(left: &mut [u8], right: &[u8]) {
        for (l, r) in left.chunks_exact_mut(4).zip(right.chunks_exact(4)) {
            let [l_value, r_value] = [&*l, r].map(|v| f32::from_ne_bytes(v.try_into().unwrap()));
            l.copy_from_slice(&(l_value + r_value).to_ne_bytes());
        }
    }
    let numbers = |rank: usize, at: usize| {
        let value = ((rank * 31 + at / 4) as f32).sin() * 10f32.powi(rank as i32 % 7 - 3);
        value.to_ne_bytes()[at % 4]
    };
    for size in 1..=17u32 {
        let mut of_all = Vec::new();
        for way in [Way::Doubling, Way::Halving] {
            let exchanges: Vec<_> = (0..size)
                .map(|rank| Exchange {
                    unit: 4,
                    ..all(size, What::Allreduce, way, false, 37)[rank as usize]
                })
                .collect();
            let (results, ..) = run(&exchanges, numbers, add);
            of_all.extend(results);
        }
        assert!(of_all.iter().all(|r| *r == of_all[0]), "{size} ranks");
    }
}

#[test]
fn long_rows_cost_each_link_little_more_than_twice_their_length() {
    let count = 16 * 15 * 7;
    for (way, size) in [(Way::Ring, 7), (Way::Ring, 15), (Way::Halving, 8), (Way::Halving, 16)] {
        let (_, _, bytes) = run(&all(size, What::Allreduce, way, false, count), byte, sum);
        let ideal = 2 * (size as usize - 1) * count * UNIT;
        assert_eq!(bytes, ideal, "{way:?} {size}");
    }
    let (_, messages, _) = run(&all(16, What::Allreduce, Way::Doubling, false, 1), byte, sum);
    assert_eq!(messages, 16 * 4);
    let (_, messages, _) = run(&all(17, What::Allgather, Way::Bruck, false, 1), byte, sum);
    assert_eq!(messages, 17 * 5);
    // Of reduce-scatter, whatever the number of ranks, no way sends a byte more than it must.
    for (way, rounds) in [(Way::Halving, 4), (Way::Pairwise, 12)] {
        let (_, messages, bytes) = run(&all(13, What::ReduceScatter, way, false, 5), byte, sum);
        assert_eq!((messages, bytes), (13 * rounds, 13 * 12 * 5 * UNIT), "{way:?}");
    }
}

#[test]
fn the_way_is_the_same_at_all_ranks_and_fits_the_length() {
    for size in 1..=17 {
        for what in [
            What::Allreduce,
            What::ReduceScatter,
            What::Allgather,
            What::Alltoall,
            What::Gather { root: 0 },
        ] {
            for count in [0, 1, 1000, 1 << 20] {
                let way = |rank| Exchange::new(what, rank, size, 8, count).way;
                assert!(what.ways().contains(&way(0)));
                assert!((1..size).all(|rank| way(rank) == way(0)));
            }
        }
        for what in [What::Allreduce, What::ReduceScatter] {
            for count in [1, 1 << 20] {
                let exchange = Exchange::new(what, 0, size, 8, count).in_order();
                assert!(what.keeps_order(exchange.way), "{exchange:?}");
            }
        }
    }
}
