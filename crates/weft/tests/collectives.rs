//! Collective operations of several endpoints over shared memory, each with a thread of its own.

use std::sync::Barrier;
use std::thread;

use weft::address::Address;
use weft::collective::Operator;
use weft::collective::exchange::What;
use weft::context::{Context, Place};
use weft::device::Device;
use weft::endpoint::{Collective, Endpoint, Source, Tag};
use weft::error::Error;
use weft::remote::AtomicOp;
use weft::shm::{Port, Shm, ShmOptions};
use weft_sys::cpu;
use weft_wire::{JobKey, PeerId};

/// Endpoints that know each other by their ranks, itself included where `size` is 1.
fn endpoints(size: u32) -> Vec<Endpoint> {
    let node = cpu::node_id().unwrap();
    let mut devices: Vec<(Shm, Address)> = (0..size)
        .map(|rank| {
            let port = Port::claim_any().unwrap();
            let mut nonce = [0; 8];
            cpu::random(&mut nonce).unwrap();
            let nonce = u64::from_ne_bytes(nonce);
            let me = Address::new(node, nonce, port.number(), 1000 + rank, "here");
            let options = ShmOptions::for_peers(size as usize);
            (Shm::new(port, me, JobKey([9; 16]), options).unwrap(), me)
        })
        .collect();
    let addresses: Vec<Address> = devices.iter().map(|(_, me)| *me).collect();
    for (rank, (device, _)) in devices.iter_mut().enumerate() {
        for (peer, address) in addresses.iter().enumerate().filter(|(peer, _)| *peer != rank) {
            device.associate(PeerId(peer as u32), address).unwrap();
        }
    }
    let place = |rank: usize| Place { rank: PeerId(rank as u32), size, on_node: size };
    let open = |(rank, (device, _)): (usize, (Shm, Address))| {
        let context = Context::on_device(Box::new(device), place(rank), 0).unwrap();
        Endpoint::new(context).unwrap()
    };
    devices.into_iter().enumerate().map(open).collect()
}

/// Runs `part` on each of `size` ranks at once, and gives what they gave.
fn all<R: Send>(size: u32, part: impl Fn(&Endpoint) -> R + Sync) -> Vec<R> {
    let endpoints = endpoints(size);
    let end = Barrier::new(size as usize);
    thread::scope(|scope| {
        let run = |endpoint: Endpoint| {
            let (part, end) = (&part, &end);
            scope.spawn(move || {
                let result = part(&endpoint);
                end.wait();
                result
            })
        };
        let threads: Vec<_> = endpoints.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn value(rank: u32, at: usize) -> u64 {
    u64::from(rank) * 1_000_003 + at as u64 * 7 + 1
}

fn row(rank: u32, len: usize) -> Vec<u64> {
    (0..len).map(|at| value(rank, at)).collect()
}

fn one_of_each(e: &Endpoint, count: usize, root: u32) -> Result<(), Error> {
    let (me, size) = (e.rank(), e.size());
    let n = size as usize;
    let at_root = |rows: usize| vec![0; if me == root { rows } else { 0 }];
    let sums: Vec<u64> = (0..count).map(|at| (0..size).map(|rank| value(rank, at)).sum()).collect();
    let gathered: Vec<u64> = (0..size).flat_map(|rank| row(rank, count)).collect();

    let mut data = row(me, count);
    e.allreduce(AtomicOp::Sum, &mut data)?;
    assert_eq!(data, sums);
    let mut data = row(me, count);
    e.reduce(root, AtomicOp::Max, &mut data)?;
    assert!(me != root || data == row(size - 1, count));
    let mut data = row(me, count);
    e.broadcast(root, &mut data)?;
    assert_eq!(data, row(root, count));

    let mut into = at_root(n * count);
    e.gather(root, &row(me, count), &mut into)?;
    assert!(me != root || into == gathered);
    let mut into = vec![0; n * count];
    e.allgather(&row(me, count), &mut into)?;
    assert_eq!(into, gathered);
    let mut block = vec![0; count];
    let sums: Vec<u64> =
        (0..n * count).map(|at| (0..size).map(|rank| value(rank, at)).sum()).collect();
    let own = me as usize * count..(me as usize + 1) * count;
    e.reduce_scatter(AtomicOp::Sum, &row(me, n * count), &mut block)?;
    assert_eq!(block, sums[own.clone()]);
    let from = if me == root { row(root, n * count) } else { Vec::new() };
    e.scatter(root, &from, &mut block)?;
    assert_eq!(block, row(root, n * count)[own.clone()]);
    let mut into = vec![0; n * count];
    e.alltoall(&row(me, n * count), &mut into)?;
    let expected: Vec<u64> =
        (0..size).flat_map(|rank| row(rank, n * count)[own.clone()].to_vec()).collect();
    assert_eq!(into, expected);
    Ok(())
}

fn nothing_is_left(e: &Endpoint) {
    let counters = e.counters();
    let counter = |name: &str| counters.iter().find(|(n, _)| n == name).unwrap().1;
    assert_eq!(counter("endpoint.operations"), 0);
    assert_eq!(counter("endpoint.posted"), 0);
    assert_eq!(counter("endpoint.unexpected"), 0);
}

#[test]
fn all_operations_are_right_with_any_number_of_ranks() {
    for size in 1..=17 {
        all(size, |e| {
            for count in [0, 1, 3, 100, 700] {
                one_of_each(e, count, (count as u32 + 1) % size).unwrap();
            }
            // Everyone has sent all it had to when everyone has got all it was sent.
            e.allreduce::<u8>(AtomicOp::Sum, &mut [1]).unwrap();
            nothing_is_left(e);
        });
    }
}

#[test]
fn long_rows_are_right() {
    for size in [2, 3, 5, 8] {
        all(size, |e| one_of_each(e, 100_003, size - 1).unwrap());
    }
}

#[test]
fn a_users_function_is_called_in_the_order_of_ranks() {
    // The elements are pairs (first rank, last rank): only neighbours can be combined.
    fn joined(left: &mut [u8], right: &[u8]) {
        for (l, r) in left.chunks_exact_mut(2).zip(right.chunks_exact(2)) {
            assert_eq!(l[1] + 1, r[0], "operands out of order");
            l[1] = r[1];
        }
    }
    for size in 1..=9 {
        all(size, |e| {
            let operator = Operator::user(2, false, joined).unwrap();
            for count in [1, 50_000] {
                let mut data = vec![e.rank() as u8; 2 * count];
                let what = What::Allreduce;
                let collective = Collective::reducing(what, operator.clone(), count);
                e.collective(&collective, &[], &mut data).unwrap();
                assert!(data.chunks_exact(2).all(|pair| pair == [0, size as u8 - 1]));
                let n = size as usize;
                let (from, mut data) = (vec![e.rank() as u8; 2 * n * count], vec![0; 2 * count]);
                let collective = Collective::reducing(What::ReduceScatter, operator.clone(), count);
                e.collective(&collective, &from, &mut data).unwrap();
                assert!(data.chunks_exact(2).all(|pair| pair == [0, size as u8 - 1]));
                let root = size - 1;
                let mut data = vec![e.rank() as u8; 2 * count];
                let collective =
                    Collective::reducing(What::Reduce { root }, operator.clone(), count);
                e.collective(&collective, &[], &mut data).unwrap();
                let result = [0, size as u8 - 1];
                assert!(e.rank() != root || data.chunks_exact(2).all(|pair| pair == result));
            }
        });
    }
}

#[test]
fn several_are_under_way_at_once_and_no_receive_of_a_user_meets_them() {
    all(4, |e| {
        let any = e.irecv(Source::Any, Tag::ANY, vec![0; 8]);
        let operator = Operator::new(AtomicOp::Sum, <u32 as weft::collective::Element>::SCALAR);
        let collective = Collective::reducing(What::Allreduce, operator.unwrap(), 1);
        let start = |number: u32| {
            let work = (number + e.rank()).to_ne_bytes().to_vec();
            e.icollective(&collective, Vec::new(), work).unwrap()
        };
        let requests: Vec<_> = (0..50).map(start).collect();
        // The last ones first.
        for (number, request) in requests.into_iter().enumerate().rev() {
            let sum = e.wait(request).unwrap().buffer;
            assert_eq!(sum, (4 * number as u32 + 6).to_ne_bytes());
        }
        assert!(e.cancel(&any));
        assert_eq!(e.wait(any).unwrap_err(), Error::Cancelled);
    });
}

#[test]
fn the_tender_goes_on_with_one_while_the_program_does_something_else() {
    all(3, |e| {
        let operator = Operator::new(AtomicOp::Max, <i8 as weft::collective::Element>::SCALAR);
        let collective = Collective::reducing(What::Allreduce, operator.unwrap(), 1 << 20);
        let work = vec![e.rank() as u8; 1 << 20];
        let mut request = e.icollective(&collective, Vec::new(), work).unwrap();
        for _ in 0..10_000 {
            thread::sleep(std::time::Duration::from_millis(1));
            request = match e.test(request) {
                Ok(end) => return assert!(end.unwrap().buffer.iter().all(|byte| *byte == 2)),
                Err(request) => request,
            };
        }
        panic!("it does not end");
    });
}

/// Rank `dead` takes part in nothing and ends: everyone else ends in an error that names it or says
/// who does not go on, whomever it exchanges messages with.
#[test]
fn all_end_when_one_is_gone() {
    for size in [2, 3, 4, 7] {
        for dead in [0, size - 1] {
            for (what, count) in [
                (What::Allreduce, 1),
                (What::Allreduce, 100_000),
                (What::ReduceScatter, 10),
                (What::ReduceScatter, 30_000),
                (What::Allgather, 10),
                (What::Allgather, 30_000),
                (What::Alltoall, 10),
                (What::Alltoall, 30_000),
            ] {
                let mut endpoints = endpoints(size);
                drop(endpoints.remove(dead as usize));
                let end = &Barrier::new(size as usize - 1);
                thread::scope(|scope| {
                    for e in endpoints {
                        scope.spawn(move || {
                            let (unit, n) = (8, size as usize);
                            let collective = match what {
                                _ if what.combines() => {
                                    let scalar = <u64 as weft::collective::Element>::SCALAR;
                                    let operator = Operator::new(AtomicOp::Sum, scalar).unwrap();
                                    Collective::reducing(what, operator, count)
                                }
                                _ => Collective::moving(what, unit, count),
                            };
                            let (own, all) = (count * unit, count * unit * n);
                            let (input, work) = match what {
                                What::Allreduce => (0, own),
                                What::ReduceScatter => (all, own),
                                What::Allgather => (own, all),
                                _ => (all, all),
                            };
                            let input = vec![1; input];
                            let error = e.collective(&collective, &input, &mut vec![1; work]);
                            let error = error.unwrap_err();
                            let named = matches!(error,
                                Error::PeerDead { peer, .. } | Error::PeerClosed { peer, .. }
                                    | Error::Unreachable { peer, .. }
                                    if peer == PeerId(dead));
                            assert!(named, "{what:?} {count} {size} {dead}: {error}");
                            end.wait();
                        });
                    }
                });
            }
        }
    }
}

/// One goes after some operations; those that have given up stay, so that nobody is told by their
/// end.
#[test]
fn all_end_whichever_operation_they_had_come_to() {
    for size in [3, 4, 6] {
        for leaver in 0..size {
            let mut endpoints = endpoints(size);
            let left = endpoints.remove(leaver as usize);
            let end = &Barrier::new(size as usize - 1);
            let work = |e: &Endpoint| -> Result<(), Error> {
                e.allreduce(AtomicOp::Sum, &mut [1u32])?;
                e.allgather(&[1u8], &mut vec![0; size as usize])?;
                e.alltoall(&vec![1u8; size as usize], &mut vec![0; size as usize])
            };
            thread::scope(|scope| {
                scope.spawn(move || {
                    (0..leaver + 2).for_each(|_| work(&left).unwrap());
                });
                for e in endpoints {
                    scope.spawn(move || {
                        let error = (0..1000).find_map(|_| work(&e).err()).expect("an end");
                        assert!(!matches!(error, Error::Collective { .. }), "{error}");
                        end.wait();
                    });
                }
            });
        }
    }
}

#[test]
fn ranks_that_do_different_things_are_told_so() {
    let errors = all(2, |e| {
        let count = 1 + e.rank() as usize;
        e.allreduce(AtomicOp::Sum, &mut vec![1u32; count]).unwrap_err()
    });
    for error in errors {
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    }
}

#[test]
fn calls_that_make_no_sense_are_refused() {
    all(2, |e| {
        let refused = |result: Result<(), Error>| {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Collective { .. }), "{error}");
        };
        refused(e.broadcast(2, &mut [0u8]));
        refused(e.allreduce(AtomicOp::Write, &mut [0u8]));
        refused(e.allreduce(AtomicOp::BitOr, &mut [0f32]));
        refused(e.allgather(&[1u8], &mut [0u8; 3]));
        refused(e.alltoall(&[1u8; 3], &mut [0u8; 3]));
        refused(e.reduce_scatter(AtomicOp::Sum, &[1u8; 3], &mut [0u8; 2]));
        let what = What::Broadcast { root: 0 };
        refused(e.collective(&Collective::moving(what, usize::MAX, 2), &[], &mut []));
        refused(e.collective(&Collective::moving(What::Allreduce, 1, 2), &[], &mut [0; 2]));
        // They have sent nothing.
        one_of_each(e, 5, 1).unwrap();
    });
}
