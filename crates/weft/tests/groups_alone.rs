//! Groups of endpoints that belong to no job: each numbers its peers as it likes, and an id is
//! agreed upon by other means.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use weft::collective::Operator;
use weft::collective::exchange::What;
use weft::context::ContextOptions;
use weft::endpoint::{Collective, Endpoint, Request};
use weft::error::Error;
use weft::group::{Group, GroupOptions};
use weft::remote::{AtomicOp, Scalar, Windows};
use weft_sys::buf::Buf;
use weft_wire::JobKey;

const KEY: JobKey = JobKey([7; 16]);

/// What takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(100);

fn open() -> Endpoint {
    let windows = Arc::new(Windows::default());
    Endpoint::open(&ContextOptions::default(), KEY, windows).unwrap()
}

/// Runs `part` at `count` endpoints, each of which knows all, in an order of its own; it is given
/// its place, and the peers' numbers in the common order.
fn all(count: usize, part: impl Fn(&Endpoint, usize, &[u32]) + Sync) {
    let endpoints: Vec<Endpoint> = (0..count).map(|_| open()).collect();
    let addresses: Vec<_> = endpoints.iter().map(|e| e.address().unwrap()).collect();
    let end = Barrier::new(count);
    thread::scope(|scope| {
        for (me, endpoint) in endpoints.into_iter().enumerate() {
            let (addresses, part, end) = (&addresses, &part, &end);
            scope.spawn(move || {
                let mut peers = vec![0; count];
                for at in 0..count {
                    let at = (at * (me + 1) + me) % count;
                    peers[at] = endpoint.add_peer(&addresses[at]).unwrap();
                }
                for (at, peer) in peers.iter_mut().enumerate() {
                    *peer = endpoint.add_peer(&addresses[at]).unwrap();
                }
                part(&endpoint, me, &peers);
                end.wait();
            });
        }
    });
}

#[test]
fn barriers_and_broadcasts_need_no_job() {
    all(5, |endpoint, me, peers| {
        for id in 1..4u64 {
            // The other way round every other time, so that ranks in the group differ.
            let mut members = peers.to_vec();
            if id % 2 == 0 {
                members.reverse();
            }
            let group = Group::with_id(endpoint, &members, id, &GroupOptions::default()).unwrap();
            assert_eq!(group.rank() as usize, if id % 2 == 0 { 4 - me } else { me });
            for round in 0..20u32 {
                group.barrier().unwrap();
                let root = round % 5;
                let want = vec![(round as u8) ^ (id as u8); 1000 * round as usize];
                let mut data =
                    if group.rank() == root { want.clone() } else { vec![0; want.len()] };
                group.broadcast(root, &mut data).unwrap();
                assert!(data == want, "round {round} at {me}");
            }
        }
    });
}

#[test]
fn subsets_and_waits_in_parts() {
    all(4, |endpoint, me, peers| {
        let members = [peers[me & !1], peers[me | 1]];
        let id = 10 + (me / 2) as u64;
        let group = Group::with_id(endpoint, &members, id, &GroupOptions::default()).unwrap();
        let seat = group.into_seat();
        for round in 0..10u8 {
            let group = seat.on(endpoint);
            group.arrive().unwrap();
            while !group.wait_for(50_000).unwrap() {}
            let root = u32::from(round) % 2;
            let value = if seat.rank() == root { round } else { 255 };
            let buf = Buf::from_vec(vec![value; 70_000]);
            let broadcast = group.start_broadcast(root, buf.clone()).unwrap();
            while !group.broadcast_for(broadcast, 50_000).unwrap() {}
            let mut got = vec![0; 70_000];
            buf.read(0, &mut got);
            assert!(got.iter().all(|byte| *byte == round));
            group.into_seat();
        }
        drop(seat.on(endpoint));
    });
}

#[test]
fn what_cannot_be_a_group_is_refused() {
    all(2, |endpoint, me, peers| {
        let options = GroupOptions::default();
        let refused = |peers: &[u32], id: u64| {
            let made = Group::with_id(endpoint, peers, id, &options);
            assert!(matches!(made.err(), Some(Error::BadGroup { .. })), "{peers:?} {id}");
        };
        refused(&[peers[0], peers[0]], 1);
        refused(&[peers[0], 99], 1);
        refused(&[peers[1 - me]], 1);
        refused(peers, 0);
        let group = Group::with_id(endpoint, peers, 1, &options).unwrap();
        refused(peers, 1);
        group.barrier().unwrap();
        drop(group);
        Group::with_id(endpoint, peers, 1, &options).unwrap().barrier().unwrap();
        assert!(Group::new(endpoint, peers, &options).is_err());
    });
}

fn sum(count: usize) -> Collective {
    let operator = Operator::new(AtomicOp::Sum, Scalar::U64).unwrap();
    Collective::reducing(What::Allreduce, operator, count)
}

/// The sum of `value` over the members, `count` times side by side.
fn summed(group: &Group<'_>, value: u64, count: usize) -> Result<u64, Error> {
    let mut row: Vec<u8> = std::iter::repeat_n(value.to_ne_bytes(), count).flatten().collect();
    group.collective(&sum(count), &[], &mut row)?;
    let (words, _) = row.as_chunks::<8>();
    assert!(words.iter().all(|word| word == &words[0]));
    Ok(u64::from_ne_bytes(words[0]))
}

/// Begins a sum of one word.
fn start_sum(group: &Group<'_>, value: u64) -> Request {
    let work = Buf::from_vec(value.to_ne_bytes().to_vec());
    group.start_collective(&sum(1), Buf::empty(), work).unwrap()
}

#[test]
fn reductions_of_groups_with_near_ids_do_not_meet() {
    all(2, |endpoint, me, peers| {
        let options = GroupOptions::default();
        let [first, second] = [1, 2].map(|id| Group::with_id(endpoint, peers, id, &options));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(summed(&first, 1, 1), Ok(2));
        // Only within a group all start their operations in the same order.
        let mut groups = [(&first, 10), (&second, 1000)];
        if me == 1 {
            groups.reverse();
        }
        for (value, request) in groups.map(|(group, value)| (value, start_sum(group, value))) {
            let sum = endpoint.wait(request).unwrap().buffer;
            assert_eq!(sum, (2 * value).to_ne_bytes());
        }
    });
}

#[test]
fn reductions_of_overlapping_groups_do_not_meet() {
    all(5, |endpoint, me, peers| {
        let options = GroupOptions::default();
        let everyone = Group::with_id(endpoint, peers, 1000, &options).unwrap();
        let low = [peers[2], peers[0], peers[1]];
        let low = (me < 3).then(|| Group::with_id(endpoint, &low, 2000, &options).unwrap());
        for round in 0..20u64 {
            let count = [1, 100, 5000][round as usize % 3];
            if let Some(low) = &low {
                assert_eq!(summed(low, me as u64 + round, count), Ok(3 + 3 * round));
            }
            assert_eq!(summed(&everyone, me as u64 * round, count), Ok(10 * round));
            everyone.barrier().unwrap();
        }
        let gather = Collective::moving(What::Gather { root: 1 }, 1, 2);
        if let Some(low) = &low {
            let mut into = vec![0; if low.rank() == 1 { 6 } else { 0 }];
            low.collective(&gather, &[low.rank() as u8, me as u8], &mut into).unwrap();
            assert!(into.is_empty() || into == [0, 2, 1, 0, 2, 1], "{into:?}");
        }
    });
}

#[test]
fn a_failure_ends_the_reductions_of_its_group_and_of_no_other() {
    let (here, gone) = (Barrier::new(4), Barrier::new(4));
    all(4, |endpoint, me, peers| {
        let options = GroupOptions::default();
        let everyone = Group::with_id(endpoint, peers, 1, &options).unwrap();
        let three = &peers[..3];
        let three = (me < 3).then(|| Group::with_id(endpoint, three, 2, &options).unwrap());
        assert_eq!(summed(&everyone, 1, 10), Ok(4));
        here.wait();
        // The last one does something else, and the others see it.
        let count = if me == 3 { 11 } else { 10 };
        assert!(matches!(summed(&everyone, 1, count), Err(Error::Mismatch { .. })));
        assert!(summed(&everyone, 1, 10).is_err());
        gone.wait();
        for _ in 0..10 {
            if let Some(three) = &three {
                assert_eq!(summed(three, 2, 10), Ok(6));
            }
        }
        everyone.barrier().unwrap();
    });
}

fn is_gone<T>(result: Result<T, Error>, peer: u32) -> bool {
    matches!(result, Err(Error::PeerDead { peer: dead, .. }) if dead.0 == peer)
}

#[test]
fn whoever_waits_for_one_that_left_is_told_so() {
    // Barriers that the first one has left before, and whether others make the group after that.
    for (done, late) in [(0, false), (3, false), (0, true)] {
        let made = Barrier::new(3);
        all(3, |endpoint, me, peers| {
            let make = || Group::with_id(endpoint, peers, 7, &GroupOptions::default()).unwrap();
            let group = (!late || me == 0).then(make);
            for _ in 0..done {
                group.as_ref().unwrap().barrier().unwrap();
            }
            made.wait();
            if me == 0 {
                drop(group);
                return;
            }
            if late {
                let told = Instant::now();
                while told.elapsed() < Duration::from_millis(50) {
                    endpoint.progress();
                }
            }
            let group = group.unwrap_or_else(make);
            assert!(is_gone(group.broadcast(0, &mut [0; 9]), peers[0]));
            let error = group.barrier();
            assert!(is_gone(error.clone(), peers[0]), "{error:?}");
            assert_eq!(group.barrier(), error, "and so for ever");
            // Not in the way of those who stay.
            let mut data = [me as u8; 3];
            group.broadcast(1, &mut data).unwrap();
            assert_eq!(data, [1; 3]);
        });
    }
}

#[test]
fn a_group_is_dropped_within_a_barrier_that_others_never_enter() {
    let (done, is_done) = mpsc::channel();
    let (done, is_done, found) = (Mutex::new(done), Mutex::new(is_done), Mutex::new(Vec::new()));
    all(2, |endpoint, me, peers| {
        let group = Group::with_id(endpoint, peers, 18, &GroupOptions::default()).unwrap();
        group.barrier().unwrap();
        if me == 0 {
            group.arrive().unwrap();
            drop(group);
            let _ = done.lock().unwrap().send(());
        } else {
            // Where nothing else ends the drop, this one enters after all.
            let in_time = is_done.lock().unwrap().recv_timeout(PATIENCE).is_ok();
            // The farewell is here, and is taken before this one enters: the barrier would end well
            // otherwise, for both have come.
            while endpoint.progress() {}
            let ends = [group.barrier(), group.barrier()].map(|end| is_gone(end, peers[0]));
            found.lock().unwrap().push((in_time, ends));
        }
    });
    assert_eq!(found.into_inner().unwrap(), [(true, [true; 2])]);
}

#[test]
fn one_that_left_without_a_message_gives_no_numbers() {
    let left = Barrier::new(3);
    all(3, |endpoint, me, peers| {
        let group = Group::with_id(endpoint, peers, 8, &GroupOptions::default()).unwrap();
        group.barrier().unwrap();
        if me == 0 {
            drop(group);
            left.wait();
            return;
        }
        left.wait();
        group.cast(&[me as u8]).unwrap();
        let mut senders = [(); 2].map(|()| group.deliver().unwrap().sender);
        senders.sort_unstable();
        assert_eq!(senders, [1, 2]);
    });
}

#[test]
fn a_farewell_of_a_group_that_was_is_none_of_the_next_with_its_id() {
    all(2, |endpoint, me, peers| {
        for round in 0..20 {
            let group = Group::with_id(endpoint, peers, 9, &GroupOptions::default()).unwrap();
            if round % 2 == me {
                thread::sleep(Duration::from_millis(2));
            }
            group.barrier().unwrap();
        }
    });
}

#[test]
fn a_board_that_came_long_before_its_group_is_asked_for_again() {
    let made = Barrier::new(2);
    all(2, |endpoint, me, peers| {
        let make = |id| Group::with_id(endpoint, peers, id, &GroupOptions::default()).unwrap();
        let few = make(1000);
        few.barrier().unwrap();
        let first: Vec<Group<'_>> = (1..=70).filter(|_| me == 0).map(make).collect();
        made.wait();
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(50) {
            endpoint.progress();
        }
        let others: Vec<Group<'_>> = (1..=70).filter(|_| me == 1).map(make).collect();
        for group in first.iter().chain(&others) {
            group.barrier().unwrap();
        }
    });
}
