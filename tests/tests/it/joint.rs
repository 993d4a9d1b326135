//! Barriers and broadcasts of groups as boundaries use them: several under way, their ends told,
//! nobody waits.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Instant;

use weft::boundary::{Cookie, Occurrence, Seat};
use weft::collective::Operator;
use weft::collective::exchange::What;
use weft::endpoint::{Collective, Endpoint};
use weft::error::Error;
use weft::group::{Group, GroupOptions};
use weft::remote::{AtomicOp, Scalar};
use weft_sys::buf::Buf;
use weft_tests::job::PATIENCE;

use super::groups::{counter, each, ether, ether_on, shm, way};

/// What an operation was called, and how it ended.
type End = (u64, Result<usize, Error>);

/// Goes on until so many ends were told.
fn ends(endpoint: &Endpoint, count: usize) -> Vec<End> {
    let (begun, mut found) = (Instant::now(), Vec::new());
    while found.len() < count {
        let told = endpoint.turn(|turn| {
            turn.progress();
            turn.occurrence()
        });
        match told {
            Some(Occurrence::Ended { cookie, result, .. }) => {
                found.push((cookie.context, result.map(|status| status.len)));
            }
            Some(other) => panic!("{other:?}"),
            None => thread::yield_now(),
        }
        assert!(begun.elapsed() < PATIENCE, "{} of {count} ends: {found:?}", found.len());
    }
    found
}

/// Goes on until all have come here.
fn meet(endpoint: &Endpoint, all: &Mutex<usize>, count: usize) {
    *all.lock().unwrap() += 1;
    let begun = Instant::now();
    while *all.lock().unwrap() < count {
        endpoint.progress();
        thread::yield_now();
        assert!(begun.elapsed() < PATIENCE, "somebody does not come");
    }
}

fn named(context: u64) -> Cookie {
    Cookie { context, mark: 0 }
}

fn pattern(len: usize, number: u64) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(7 + number) >> 2) as u8).collect()
}

fn sum() -> Collective {
    let operator = Operator::new(AtomicOp::Sum, Scalar::U64).unwrap();
    Collective::reducing(What::Allreduce, operator, 1)
}

/// Bytes of a broadcast: short ones, and one that its root keeps until all have it.
const LENS: [usize; 4] = [0, 100, 5_000, 200_000];
/// Rounds that are under way at once, and operations in each.
const ROUNDS: u64 = 12;
const OPS: u64 = 3;

/// A barrier, a broadcast of each in turn and a sum, many times, before any has ended.
fn all_at_once(endpoint: &Endpoint, seat: Seat) {
    let (sum, mut memory) = (sum(), Vec::new());
    for round in 0..ROUNDS {
        let (root, len) = (round as u32 % seat.size(), LENS[round as usize % LENS.len()]);
        let own = if seat.rank() == root { pattern(len, round) } else { vec![0; len] };
        let (data, word) = (Buf::from_vec(own), Buf::from_vec(1u64.to_ne_bytes().to_vec()));
        let both = (data.clone(), word.clone());
        let name = round * OPS;
        endpoint.turn(|turn| {
            turn.barrier(seat, named(name));
            turn.broadcast(seat, root, data, named(name + 1)).unwrap();
            turn.collective(seat, &sum, (Buf::empty(), word), named(name + 2)).unwrap();
        });
        memory.push(both);
    }
    let ended = ends(endpoint, (ROUNDS * OPS) as usize);
    for (round, (data, word)) in memory.into_iter().enumerate() {
        let wanted = pattern(LENS[round % LENS.len()], round as u64);
        assert!(data.into_vec().expect("nobody has it any more") == wanted, "round {round}");
        let sum = word.into_vec().expect("nobody has it any more");
        assert_eq!(sum, u64::from(seat.size()).to_ne_bytes(), "round {round}");
    }
    let order = ended.iter().map(|(name, _)| *name).filter(|name| name % OPS == 0);
    assert!(order.is_sorted(), "{ended:?}");
    for (name, result) in &ended {
        let len = [0, LENS[(name / OPS) as usize % LENS.len()], 8][(name % OPS) as usize];
        assert_eq!(*result, Ok(len), "operation {name}");
    }
}

fn many_at_once(endpoints: Vec<Endpoint>) {
    let count = endpoints.len();
    let there = Mutex::new(0);
    each(endpoints, |endpoint| {
        let options = GroupOptions::default();
        let group = Group::all(endpoint, &options).unwrap().into_seat();
        // The other way round, and half of them.
        let turned: Vec<u32> = (0..endpoint.size()).rev().collect();
        let turned = Group::new(endpoint, &turned, &options).unwrap().into_seat();
        let even: Vec<u32> = (0..endpoint.size()).step_by(2).collect();
        let even = even.contains(&endpoint.rank()).then_some(even);
        let even = even.map(|even| Group::new(endpoint, &even, &options).unwrap().into_seat());
        for _ in 0..3 {
            [Some(group), even, Some(turned)].into_iter().flatten().for_each(|seat| {
                all_at_once(endpoint, seat);
            });
        }
        endpoint.turn(|turn| [group, turned].map(|seat| turn.leave(seat)));
        assert_eq!(endpoint.turn(|turn| turn.occurrence().map(|_| ())), None);
        meet(endpoint, &there, count);
        // The rest goes with the endpoint.
    });
}

#[test]
fn many_are_under_way_at_once_over_a_lossy_wire() {
    many_at_once(ether(5, Some("loss=3%,dup=3%,reorder=3%,seed=11")));
    many_at_once(ether(2, Some("loss=3%,seed=12")));
}

#[test]
fn many_are_under_way_at_once_where_members_share_nodes() {
    many_at_once(ether_on(&[1, 1, 2, 2, 3], Some("loss=2%,seed=13")));
    many_at_once(shm(4));
    many_at_once(shm(1));
}

/// Without loss there is not one frame but those that tell the others, and a broadcast is one row
/// of frames to all.
#[test]
fn nothing_is_sent_but_what_must_be() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let (warm, row, kib) = (300, 50, 1024);
    let sums = Mutex::new([0; 5]);
    let (there, here) = (Barrier::new(4), Barrier::new(4));
    each(ether(4, None), |endpoint| {
        let options = GroupOptions { patience_ns: Some(HOUR_NS), ..way("tree2") };
        let seat = Group::all(endpoint, &options).unwrap().into_seat();
        // All have made it, and are connected.
        let others = || (0..endpoint.size()).filter(|&rank| rank != endpoint.rank());
        others().for_each(|rank| endpoint.send(rank, 1, b"here").unwrap());
        for rank in others() {
            endpoint.recv(rank, 1, &mut [0; 4]).unwrap();
        }
        let barrier = |name: u64| endpoint.turn(|turn| turn.barrier(seat, named(name)));
        (0..warm).for_each(|name| {
            barrier(name);
            ends(endpoint, 1);
        });
        there.wait();
        let names = ["ether.datagrams_sent", "ether.multicasts_sent", "group.asked", "group.cast"];
        let read = || names.map(|name| counter(endpoint, name));
        let before = read();
        // All at once, too.
        (0..row).for_each(&barrier);
        ends(endpoint, row as usize);
        here.wait();
        let barriers = read();
        // Whoever has not read yet would count what its tender does for the broadcast, too.
        here.wait();
        // By the one whose releases have shown who hears multicast.
        let data = Buf::from_vec(vec![endpoint.rank() as u8; kib]);
        endpoint.turn(|turn| turn.broadcast(seat, 0, data.clone(), named(0)).unwrap());
        ends(endpoint, 1);
        assert!(data.into_vec().unwrap() == [0; 1024]);
        let mut sums = sums.lock().unwrap();
        (0..4).for_each(|at| sums[at] += barriers[at] - before[at]);
        sums[4] += if seat.rank() == 0 { read()[1] - barriers[1] } else { 0 };
    });
    assert_eq!(sums.into_inner().unwrap(), [3 * row, row, 0, 0, 1]);
}

/// Who leaves while something is under way gets its ends, and so do the others: nobody waits.
#[test]
fn who_leaves_ends_what_is_under_way() {
    for endpoints in [ether(4, None), shm(4), ether_on(&[1, 1, 2, 2], None)] {
        let (there, gone) = (Mutex::new(0), Mutex::new(0));
        each(endpoints, |endpoint| {
            let seat = Group::all(endpoint, &GroupOptions::default()).unwrap().into_seat();
            all_at_once(endpoint, seat);
            meet(endpoint, &there, 4);
            let (leaver, data) = (seat.rank() == 3, Buf::from_vec(vec![0; 200_000]));
            // The others enter a barrier that it enters not, and receive what it does not send.
            endpoint.turn(|turn| {
                turn.broadcast(seat, if leaver { 0 } else { 3 }, data.clone(), named(1)).unwrap();
                if leaver {
                    turn.leave(seat);
                } else {
                    turn.barrier(seat, named(2));
                    turn.barrier(seat, named(3));
                    let nothing = (Buf::empty(), Buf::from_vec(vec![0; 8]));
                    turn.collective(seat, &sum(), nothing, named(4)).unwrap();
                }
            });
            for (name, result) in ends(endpoint, if leaver { 1 } else { 4 }) {
                let named = matches!(&result, Err(Error::PeerDead { peer, .. }) if peer.0 == 3);
                let good = if leaver { result == Err(Error::Cancelled) } else { named };
                assert!(good, "{name} of {}: {result:?}", seat.rank());
            }
            assert!(data.into_vec().is_some(), "nobody has the memory any more");
            meet(endpoint, &gone, 4);
        });
    }
}

/// A member whose endpoint goes: what is under way ends everywhere, in errors that name it.
#[test]
fn an_endpoint_that_goes_ends_what_is_under_way() {
    for endpoints in [ether(4, None), shm(4)] {
        let there = Mutex::new(0);
        each(endpoints, |endpoint| {
            let seat = Group::all(endpoint, &GroupOptions::default()).unwrap().into_seat();
            all_at_once(endpoint, seat);
            meet(endpoint, &there, 4);
            if seat.rank() == 1 {
                // It leaves the group as its endpoint goes.
                return;
            }
            let data = Buf::from_vec(vec![0; 3_000]);
            endpoint.turn(|turn| {
                turn.barrier(seat, named(1));
                turn.broadcast(seat, 1, data.clone(), named(2)).unwrap();
                turn.barrier(seat, named(3));
            });
            for (name, result) in ends(endpoint, 3) {
                let named = match &result {
                    Err(Error::PeerDead { peer, .. } | Error::PeerClosed { peer, .. }) => {
                        peer.0 == 1
                    }
                    _ => false,
                };
                assert!(named, "{name}: {result:?}");
            }
            assert!(data.into_vec().is_some(), "nobody has the memory any more");
        });
    }
}
