//! Regions, between endpoints in one process: by shared memory, over a wire in memory, and over one
//! that loses, doubles and reorders frames.

mod common;

use std::sync::{Arc, Barrier};
use std::thread;

use common::{FAULTS, KEY, ether, shm};
use weft::context::ContextOptions;
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::region::{HANDLE_LEN, NOTICES_MAX, Region, RegionHandle, elements};
use weft::remote::{AtomicOp, ELEMENTS_MAX, Rights, Windows};
use weft_wire::PeerId;

fn open() -> Endpoint {
    Endpoint::open(&ContextOptions::default(), KEY, Arc::new(Windows::default())).unwrap()
}

/// Bytes that go with a request, that are announced, and that peers help each other to copy.
const LENS: [usize; 8] = [1, 0, 100, 5000, 16 << 10, 20_000, 70_000, 300_000];
const LONG: usize = 300_000;

const GET: Rights = Rights { get: true, put: false };
const PUT: Rights = Rights { get: false, put: true };

/// Has rank 0 own something and rank 1 use it, over each medium.
fn two(owner: impl Fn(&Endpoint) + Sync, user: impl Fn(&Endpoint) + Sync) {
    for endpoints in [shm(2), ether(2, None), ether(2, Some(FAULTS))] {
        let end = Barrier::new(2);
        thread::scope(|scope| {
            for endpoint in endpoints {
                let (owner, user, end) = (&owner, &user, &end);
                scope.spawn(move || {
                    if endpoint.rank() == 0 {
                        owner(&endpoint)
                    } else {
                        user(&endpoint)
                    }
                    // They end together.
                    end.wait();
                });
            }
        });
    }
}

/// Gives the other its turn, or waits for one's own.
fn pass(endpoint: &Endpoint) {
    endpoint.send(1 - endpoint.rank(), 1, &[]).unwrap();
}

fn turn(endpoint: &Endpoint) {
    endpoint.recv(1 - endpoint.rank(), 1, &mut []).unwrap();
}

fn offer(endpoint: &Endpoint, region: &Region<'_>) {
    endpoint.send(1, 2, &region.handle().to_bytes()).unwrap();
}

fn offered(endpoint: &Endpoint) -> RegionHandle {
    let mut bytes = [0; HANDLE_LEN];
    endpoint.recv(0, 2, &mut bytes).unwrap();
    RegionHandle::from_bytes(&bytes).unwrap()
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed * 89 + at * 7 + at / 251) as u8).collect()
}

fn all_of(region: &Region<'_>) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    region.read(0, &mut bytes).unwrap();
    bytes
}

/// The error of something that was refused at the owner.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, why: &str) {
    match result {
        Err(Error::Refused { peer: PeerId(0), why: said }) => assert!(said.contains(why), "{said}"),
        other => panic!("{other:?} instead of a refusal: {why}"),
    }
}

/// The error of something that was not even sent.
fn impossible<T: std::fmt::Debug>(result: Result<T, Error>, why: &str) {
    match result {
        Err(Error::Region { why: said }) => assert!(said.contains(why), "{said}"),
        other => panic!("{other:?} instead of an error: {why}"),
    }
}

/// Writes, reads back, and has the owner look.
fn there_and_back(endpoint: &Endpoint, handle: &RegionHandle) {
    for (seed, len) in LENS.into_iter().enumerate() {
        let (bytes, offset) = (pattern(seed, len), (LONG - len) as u64);
        let mut back = vec![0; len];
        endpoint.put(handle, offset, &bytes).unwrap();
        endpoint.get(handle, offset, &mut back).unwrap();
        assert!(back == bytes, "{len} bytes");

        let bytes = pattern(seed + 100, len);
        let put = endpoint.iput(handle, 0, bytes.clone()).unwrap();
        let put = endpoint.wait(put).unwrap();
        assert!(put.buffer == bytes && put.status.len == len && put.status.source == 0);
        let got = endpoint.iget(handle, 0, vec![0; len]).unwrap();
        let got = endpoint.wait(got).unwrap();
        assert!(got.buffer == bytes && got.status.len == len);

        let bytes = pattern(seed + 200, len);
        endpoint.scope(|s| s.iput(handle, 0, &bytes).map(drop)).unwrap();
        endpoint.scope(|s| s.iget(handle, 0, &mut back).map(drop)).unwrap();
        assert!(back == bytes, "{len} bytes");
    }
    endpoint.put(handle, 0, &pattern(7, LONG)).unwrap();
    pass(endpoint);
}

#[test]
fn bytes_of_all_lengths_go_there_and_back() {
    let owner = |endpoint: &Endpoint| {
        let region = endpoint.region(LONG, Rights::ALL).unwrap();
        assert_eq!(all_of(&region), vec![0; LONG]);
        offer(endpoint, &region);
        turn(endpoint);
        assert!(all_of(&region) == pattern(7, LONG));

        let mut memory = vec![1; LONG];
        endpoint
            .scope(|scope| {
                let region = scope.register(&mut memory, Rights::ALL)?;
                offer(endpoint, &region);
                turn(endpoint);
                assert!(all_of(&region) == pattern(7, LONG));
                region.write(10, b"mine")
            })
            .unwrap();
        assert!(memory[..10] == pattern(7, LONG)[..10] && &memory[10..14] == b"mine");

        let region = endpoint.register(memory, Rights::ALL).unwrap();
        offer(endpoint, &region);
        turn(endpoint);
        region.write(10, b"ours").unwrap();
        let memory = region.into_vec();
        assert!(memory[..10] == pattern(7, LONG)[..10] && &memory[10..14] == b"ours");
        assert!(memory[14..] == pattern(7, LONG)[14..]);
    };
    two(owner, |endpoint| {
        there_and_back(endpoint, &offered(endpoint));
        there_and_back(endpoint, &offered(endpoint));
        there_and_back(endpoint, &offered(endpoint));
    });
}

#[test]
fn a_notice_is_told_when_the_bytes_are_there() {
    let owner = |endpoint: &Endpoint| {
        let region = endpoint.region(LONG, PUT).unwrap();
        assert_eq!(region.try_notice(), None);
        let late = region.wait_notice_timeout(1_000_000);
        assert_eq!(late, Err(Error::TimedOut { after_ns: 1_000_000 }));
        offer(endpoint, &region);
        for (seed, len) in LENS.into_iter().enumerate() {
            let notice = region.wait_notice().unwrap();
            assert_eq!((notice.source, notice.value, notice.len), (1, seed as u64 * 3, len));
            assert_eq!(notice.offset, (LONG - len) as u64);
            let mut bytes = vec![0; len];
            region.read(notice.offset, &mut bytes).unwrap();
            assert!(bytes == pattern(seed, len), "{len} bytes");
            pass(endpoint);
        }
        // Started ones: all are told, each once.
        let mut values: Vec<u64> = (0..64).map(|_| region.wait_notice().unwrap().value).collect();
        values.sort_unstable();
        assert_eq!(values, (0..64).collect::<Vec<_>>());
        assert_eq!(region.try_notice(), None);
    };
    two(owner, |endpoint| {
        let handle = offered(endpoint);
        for (seed, len) in LENS.into_iter().enumerate() {
            let offset = (LONG - len) as u64;
            endpoint.put_with(&handle, offset, &pattern(seed, len), seed as u64 * 3).unwrap();
            turn(endpoint);
        }
        for value in 0..64 {
            let len = LENS[value as usize % LENS.len()];
            endpoint.detach(endpoint.iput_with(&handle, 0, vec![0; len], value).unwrap());
        }
        endpoint.flush(0).unwrap();
    });
}

#[test]
fn numbers_are_changed_in_one_step_by_all_and_by_threads() {
    let adders = |endpoint: &Endpoint, handle: &RegionHandle| {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        endpoint.fetch_add(handle, 8, 1u64).unwrap();
                        endpoint.accumulate(handle, 16, AtomicOp::Sum, &[0.5f64, 2.0]).unwrap();
                    }
                });
            }
        });
    };
    let owner = |endpoint: &Endpoint| {
        let region = endpoint.region(4096, Rights::ALL).unwrap();
        offer(endpoint, &region);
        turn(endpoint);
        let bytes = all_of(&region);
        assert_eq!(elements::<u64>(&bytes[8..16]), [200]);
        assert_eq!(elements::<f64>(&bytes[16..32]), [100.0, 400.0]);
        assert_eq!(elements::<i32>(&bytes[32..44]), [7, -7, 9]);
    };
    two(owner, |endpoint| {
        let handle = offered(endpoint);
        adders(endpoint, &handle);
        assert_eq!(endpoint.compare_swap(&handle, 32, 0i32, 7), Ok(0));
        assert_eq!(endpoint.compare_swap(&handle, 32, 0i32, 8), Ok(7));
        let former = endpoint.fetch_and_op(&handle, 36, AtomicOp::Min, &[-7i32, 9]);
        assert_eq!(former, Ok(vec![0, 0]));
        let former = endpoint.compare_and_op(&handle, 40, AtomicOp::SwapIfLess, &[-1], &[9i32]);
        assert_eq!(former, Ok(vec![0]));
        let read = endpoint.fetch_and_op(&handle, 32, AtomicOp::Read, &[0i32; 3]);
        assert_eq!(read, Ok(vec![7, -7, 9]));
        let request = endpoint.ifetch_and_op(&handle, 32, AtomicOp::BitOr, &[0i32; 3]).unwrap();
        let buffer = endpoint.wait(request).unwrap().buffer;
        assert_eq!(elements::<i32>(&buffer), [7, -7, 9]);
        let less = AtomicOp::SwapIfLess;
        for (comparands, wanted) in [([-1, 0], [0, 0]), ([5, 1], [5, 0])] {
            let request = endpoint.icompare_and_op(&handle, 44, less, &comparands, &[5, 6]);
            let buffer = endpoint.wait(request.unwrap()).unwrap().buffer;
            assert_eq!(elements::<i32>(&buffer), wanted);
        }
        let none = endpoint.fetch_and_op::<u8>(&handle, 4096, AtomicOp::Sum, &[]);
        assert_eq!(none, Ok(Vec::new()));
        pass(endpoint);
    });
}

/// Starts many puts and gets, and drops the region while they are under way; then uses the handle
/// again. Gives how many ended well.
fn use_what_goes(endpoint: &Endpoint, handle: &RegionHandle, lens: &[usize]) -> usize {
    let mut started = Vec::new();
    for round in 0..40 {
        let len = lens[round % lens.len()];
        started.push(endpoint.iput(handle, 0, vec![round as u8; len]).unwrap());
        started.push(endpoint.iget(handle, 0, vec![0; len]).unwrap());
        if round == 20 {
            pass(endpoint);
        }
    }
    let mut well = 0;
    for request in started {
        match endpoint.wait(request) {
            Ok(_) => well += 1,
            failed => refused(failed, "it was dropped"),
        }
    }
    turn(endpoint);
    refused(endpoint.put(handle, 0, &[1]), "it was dropped");
    refused(endpoint.put(handle, 0, &vec![1; LONG]), "it was dropped");
    refused(endpoint.get(handle, 0, &mut [1]), "it was dropped");
    refused(endpoint.get(handle, 0, &mut vec![1; LONG]), "it was dropped");
    refused(endpoint.fetch_add(handle, 0, 1u64), "it was dropped");
    refused(endpoint.put_with(handle, 0, &[], 1), "it was dropped");
    well
}

/// Memory is the owner's again: peers go on, and write none of it.
fn check_untouched<T: Copy + PartialEq + From<u8>>(endpoint: &Endpoint, mut memory: Vec<T>) {
    assert!(!memory.is_empty());
    memory.fill(T::from(200));
    (0..200).for_each(|_| _ = endpoint.progress());
    pass(endpoint);
    turn(endpoint);
    assert!(memory.iter().all(|number| *number == T::from(200)));
}

#[test]
fn a_vector_of_numbers_comes_back_with_what_was_done_to_them() {
    let owner = |endpoint: &Endpoint| {
        let reals = endpoint.register(vec![0.5f64; 1000], Rights::ALL).unwrap();
        let numbers = endpoint.register(vec![7i16; 3], PUT).unwrap();
        let none = endpoint.register::<u64>(Vec::new(), GET).unwrap();
        assert_eq!((reals.len(), numbers.len(), none.is_empty()), (8000, 6, true));
        [&*reals, &numbers, &none].into_iter().for_each(|region| offer(endpoint, region));
        assert_eq!(numbers.wait_notice().unwrap().offset, 2);
        turn(endpoint);
        let (reals, numbers) = (reals.into_vec(), numbers.into_vec());
        assert!(reals[0] == 0.5 && reals[1] == 2.75 && reals[2..] == [0.5; 998]);
        assert_eq!((numbers, none.into_vec().len()), (vec![7, -2, 7], 0));
        impossible(endpoint.register(vec![1u8], Rights::default()), "without any right");
        pass(endpoint);
    };
    two(owner, |endpoint| {
        let [reals, numbers, none] = [(); 3].map(|()| offered(endpoint));
        assert_eq!(endpoint.fetch_add(&reals, 8, 2.25f64), Ok(0.5));
        endpoint.put_with(&numbers, 2, &(-2i16).to_ne_bytes(), 1).unwrap();
        impossible(endpoint.get(&none, 0, &mut [0]), "not all inside");
        pass(endpoint);
        turn(endpoint);
        refused(endpoint.get(&reals, 0, &mut [0]), "it was dropped");
        refused(endpoint.put(&numbers, 0, &[0]), "it was dropped");
    });
}

#[test]
fn a_region_can_be_dropped_while_peers_use_it() {
    let owner = |endpoint: &Endpoint| {
        for _ in 0..3 {
            let region = endpoint.region(LONG, Rights::ALL).unwrap();
            offer(endpoint, &region);
            turn(endpoint);
            drop(region);
            pass(endpoint);

            let mut memory = vec![0; LONG];
            endpoint
                .scope(|scope| {
                    let region = scope.register(&mut memory, Rights::ALL)?;
                    offer(endpoint, &region);
                    turn(endpoint);
                    drop(region);
                    Ok(())
                })
                .unwrap();
            check_untouched(endpoint, memory);

            let region = endpoint.register(vec![0u64; LONG / 8], Rights::ALL).unwrap();
            offer(endpoint, &region);
            turn(endpoint);
            check_untouched(endpoint, region.into_vec());

            let region = endpoint.register(vec![0u8; LONG], Rights::ALL).unwrap();
            offer(endpoint, &region);
            turn(endpoint);
            drop(region);
            pass(endpoint);
            turn(endpoint);
        }
    };
    two(owner, |endpoint| {
        for lens in [&[LONG][..], &[1000], &[LONG, 10, 20_000]] {
            use_what_goes(endpoint, &offered(endpoint), lens);
            for _ in 0..3 {
                use_what_goes(endpoint, &offered(endpoint), lens);
                pass(endpoint);
            }
        }
    });
}

#[test]
fn a_handle_of_a_dropped_region_never_names_the_next_one() {
    let owner = |endpoint: &Endpoint| {
        let first = endpoint.region(64, Rights::ALL).unwrap();
        let old = first.handle();
        offer(endpoint, &first);
        drop(first);
        let next = endpoint.region(64, Rights::ALL).unwrap();
        assert_ne!(old, next.handle());
        offer(endpoint, &next);
        turn(endpoint);
        assert_eq!(all_of(&next)[..3], [0, 5, 0]);
    };
    two(owner, |endpoint| {
        let (old, new) = (offered(endpoint), offered(endpoint));
        refused(endpoint.put(&old, 0, &[9; 64]), "it was dropped, or the handle is of another job");
        endpoint.put(&new, 1, &[5]).unwrap();
        pass(endpoint);
    });
}

/// The handle with some bytes changed, as a peer might make it that has not read the page.
fn forged(handle: &RegionHandle, change: impl Fn(&mut [u8; HANDLE_LEN])) -> RegionHandle {
    let mut bytes = handle.to_bytes();
    change(&mut bytes);
    RegionHandle::from_bytes(&bytes).unwrap()
}

/// Where a process reaches memory by itself, what the owner has written beside it counts, and not
/// what a handle says.
fn reached_alone(endpoint: &Endpoint, [all, put]: [&RegionHandle; 2], readable: &RegionHandle) {
    // 20 bytes more end where what it has written lies, too.
    for _ in 0..4 {
        endpoint.put(all, 0, &[0; 100]).unwrap();
        endpoint.put(put, 0, &[0; 100]).unwrap();
    }
    let padded = forged(all, |bytes| bytes[16..24].copy_from_slice(&120u64.to_le_bytes()));
    for _ in 0..4 {
        refused(endpoint.put(&padded, 100, &[1; 20]), "not all inside the region");
        endpoint.put(all, 0, &[0; 100]).unwrap();
        endpoint.put(put, 0, &[0; 100]).unwrap();
        refused(endpoint.get(readable, 0, &mut [1]), "without the right");
        for _ in 0..2 {
            endpoint.put(all, 0, &[0; 100]).unwrap();
            endpoint.put(put, 0, &[0; 100]).unwrap();
        }
    }
    refused(endpoint.get(readable, 0, &mut [1]), "without the right");
}

#[test]
fn what_must_not_be_done_is_refused_here_and_there() {
    let owner = |endpoint: &Endpoint| {
        let regions = [Rights::ALL, GET, PUT].map(|rights| endpoint.region(100, rights).unwrap());
        regions.iter().for_each(|region| offer(endpoint, region));
        turn(endpoint);
        for region in &regions {
            assert_eq!(all_of(region), [0; 100]);
            impossible(region.read(99, &mut [0; 2]), "not all inside");
            impossible(region.write(u64::MAX, &[0]), "not all inside");
        }
        impossible(endpoint.region(8, Rights::default()), "without any right");
        let none = endpoint.scope(|s| s.register(&mut [], Rights::default()).map(drop));
        impossible(none, "without any right");
    };
    two(owner, |endpoint| {
        let [all, get, put] = [(); 3].map(|()| offered(endpoint));
        assert_eq!((all.rank(), all.len(), get.rights(), all.is_empty()), (0, 100, GET, false));
        // What the handle tells.
        for (offset, len) in [(99, 2), (101, 0), (u64::MAX, 2), (u64::MAX - 3, LONG)] {
            impossible(endpoint.put(&all, offset, &vec![1; len]), "not all inside");
            impossible(endpoint.get(&all, offset, &mut vec![1; len]), "not all inside");
        }
        impossible(endpoint.put(&get, 0, &[1]), "without the right to put");
        impossible(endpoint.get(&put, 0, &mut [1]), "without the right to get");
        impossible(endpoint.fetch_add(&put, 0, 1u8), "without the right to get");
        impossible(endpoint.accumulate(&get, 0, AtomicOp::Sum, &[1u8]), "without the right to put");
        assert_eq!(endpoint.fetch_and_op(&get, 0, AtomicOp::Read, &[1u8]), Ok(vec![0]));
        endpoint.accumulate(&put, 0, AtomicOp::Sum, &[0u8]).unwrap();
        impossible(endpoint.put(&all.of_peer(7), 0, &[1]), "of rank 7, and this job has 2 ranks");
        // Numbers.
        impossible(endpoint.fetch_add(&all, 4, 1u64), "byte 4 is not aligned");
        impossible(endpoint.fetch_add(&all, 96, 1u64), "not all inside");
        impossible(endpoint.fetch_and_op(&all, 0, AtomicOp::BitOr, &[1f32]), "there is no BitOr");
        impossible(endpoint.fetch_and_op(&all, 0, AtomicOp::SwapIfLess, &[1u8]), "comparand");
        let two_for_one = endpoint.compare_and_op(&all, 0, AtomicOp::SwapIfLess, &[1u8, 2], &[1]);
        impossible(two_for_one, "a comparand for each operand");
        impossible(endpoint.compare_and_op(&all, 0, AtomicOp::Sum, &[1u8], &[1]), "no comparands");
        let many = vec![0u8; ELEMENTS_MAX + 1];
        impossible(endpoint.accumulate(&all, 0, AtomicOp::Sum, &many), "too many");
        // What only the owner can tell, for the handle lies.
        let longer = forged(&all, |bytes| bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes()));
        for len in [1, LONG] {
            refused(endpoint.put(&longer, 100, &vec![1; len]), "not all inside the region");
            refused(endpoint.get(&longer, 100, &mut vec![1; len]), "not all inside the region");
            let far = endpoint.put(&longer, u64::MAX - LONG as u64, &vec![1; len]);
            refused(far, "not all inside the region");
        }
        let writable = forged(&get, |bytes| bytes[3] = 3);
        refused(endpoint.put(&writable, 0, &[1]), "without the right");
        refused(endpoint.put(&writable, 0, &[1; 100]), "without the right");
        let readable = forged(&put, |bytes| bytes[3] = 3);
        reached_alone(endpoint, [&all, &put], &readable);
        refused(endpoint.fetch_add(&readable, 0, 1u64), "without the right");
        let unknown = forged(&all, |bytes| bytes[9] ^= 1);
        refused(endpoint.put(&unknown, 0, &[1]), "of another job or rank");
        pass(endpoint);
    });
}

#[test]
fn what_failed_unasked_is_told_by_a_flush_once() {
    let owner = |endpoint: &Endpoint| {
        let region = endpoint.region(LONG, PUT).unwrap();
        offer(endpoint, &region);
        turn(endpoint);
        assert!(all_of(&region) == pattern(3, LONG));
    };
    two(owner, |endpoint| {
        let handle = offered(endpoint);
        let longer =
            forged(&handle, |bytes| bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes()));
        endpoint.flush(0).unwrap();
        for len in [1, LONG] {
            let bad = endpoint.iput(&longer, LONG as u64, vec![1; len]).unwrap();
            endpoint.detach(bad);
            endpoint.detach(endpoint.iput(&handle, 0, pattern(3, LONG)).unwrap());
            endpoint.flush_all().unwrap_err();
            endpoint.flush_all().unwrap();
        }
        // One that has ended before nobody asks for it.
        let bad = endpoint.iput(&longer, LONG as u64, vec![1]).unwrap();
        endpoint.flush(0).unwrap();
        endpoint.detach(bad);
        refused(endpoint.flush(0), "not all inside the region");
        endpoint.flush(0).unwrap();
        endpoint.flush(1).unwrap();
        pass(endpoint);
    });
}

#[test]
fn notices_that_nobody_takes_are_bounded() {
    let owner = |endpoint: &Endpoint| {
        let region = endpoint.region(8, PUT).unwrap();
        offer(endpoint, &region);
        turn(endpoint);
        let taken = std::iter::from_fn(|| region.try_notice()).take(NOTICES_MAX).count();
        assert_eq!((taken, region.try_notice()), (NOTICES_MAX, None));
        pass(endpoint);
        assert_eq!(region.wait_notice().unwrap().value, 5);
    };
    two(owner, |endpoint| {
        let handle = offered(endpoint);
        for _ in 0..NOTICES_MAX / 512 {
            let put = |_| endpoint.iput_with(&handle, 0, vec![1], 1).unwrap();
            endpoint.wait_all((0..512).map(put).collect()).unwrap();
        }
        refused(endpoint.put_with(&handle, 0, &[1], 2), "too many notices");
        endpoint.put(&handle, 0, &[1]).unwrap();
        pass(endpoint);
        turn(endpoint);
        endpoint.put_with(&handle, 0, &[1], 5).unwrap();
    });
}

#[test]
fn threads_share_a_region_and_its_peers() {
    let owner = |endpoint: &Endpoint| {
        let region = endpoint.region(80 * 30_000, Rights::ALL).unwrap();
        offer(endpoint, &region);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..40 {
                        let notice = region.wait_notice().unwrap();
                        let mut bytes = vec![0; notice.len];
                        region.read(notice.offset, &mut bytes).unwrap();
                        assert!(bytes.iter().all(|byte| u64::from(*byte) == notice.value));
                    }
                });
            }
        });
    };
    two(owner, |endpoint| {
        let handle = offered(endpoint);
        thread::scope(|scope| {
            for half in 0..2 {
                let handle = &handle;
                scope.spawn(move || {
                    for round in 0..40 {
                        let len = [10, 30_000][round % 2];
                        let value = half * 40 + round as u64;
                        let at = value * 30_000;
                        let bytes = vec![value as u8; len];
                        endpoint.put_with(handle, at, &bytes, value).unwrap();
                        endpoint.flush(0).unwrap();
                    }
                });
            }
        });
    });
}

#[test]
fn endpoints_without_a_job_name_the_owner_as_they_know_it() {
    let (owner, user) = (open(), open());
    let region = owner.region(LONG, Rights::ALL).unwrap();
    assert!(user.put(&region.handle(), 0, &[1]).is_err());
    let peer = user.add_peer(&owner.address().unwrap()).unwrap();
    let itself = owner.add_peer(&owner.address().unwrap()).unwrap();
    let there = region.handle().of_peer(peer);
    user.put_with(&there, 0, &[1; LONG], 3).unwrap();
    assert_eq!(region.wait_notice().unwrap().value, 3);
    assert!(all_of(&region) == [1; LONG]);
    // To itself, as to others.
    let here = region.handle().of_peer(itself);
    assert_eq!(owner.fetch_add(&here, 0, 1u8), Ok(1));
    owner.put(&here, 8, &[7; 20_000]).unwrap();
    let mut bytes = [0; 2];
    owner.get(&here, 7, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 7]);
    assert_eq!(owner.region(8, Rights::ALL).unwrap().handle().rank(), itself);
    // The other has ended in good order.
    drop(region);
    drop(owner);
    let error = user.put(&there, 0, &[1]).unwrap_err();
    assert!(matches!(error, Error::PeerClosed { .. } | Error::PeerDead { .. }), "{error}");
}

#[test]
fn a_region_that_is_forgotten_in_its_scope_is_gone_after_it() {
    let owner = |endpoint: &Endpoint| {
        let mut memory = vec![0; LONG];
        endpoint
            .scope(|scope| {
                let region = scope.register(&mut memory, Rights::ALL)?;
                offer(endpoint, &region);
                std::mem::forget(region);
                turn(endpoint);
                Ok(())
            })
            .unwrap();
        assert!(memory.iter().all(|byte| *byte == 1));
        memory.fill(2);
        pass(endpoint);
        turn(endpoint);
        assert!(memory.iter().all(|byte| *byte == 2));
    };
    two(owner, |endpoint| {
        let handle = offered(endpoint);
        endpoint.put(&handle, 0, &[1; LONG]).unwrap();
        pass(endpoint);
        turn(endpoint);
        refused(endpoint.put(&handle, 0, &[3; LONG]), "it was dropped");
        pass(endpoint);
    });
}

#[test]
fn what_is_started_after_a_fence_is_done_after_what_was_before() {
    two(
        |endpoint| {
            let region = endpoint.region(LONG, Rights::ALL).unwrap();
            offer(endpoint, &region);
            for round in 0..30 {
                let notice = region.wait_notice().unwrap();
                assert_eq!((notice.value, notice.len), (round, 8));
                let mut last = [0; 1];
                region.read(LONG as u64 - 1, &mut last).unwrap();
                assert_eq!(last, [round as u8]);
                pass(endpoint);
            }
        },
        |endpoint| {
            let there = offered(endpoint);
            for round in 0..30 {
                let long = endpoint.iput(&there, 0, vec![round as u8; LONG]).unwrap();
                endpoint.fence(0);
                // This one is short enough to overtake the other.
                endpoint.put_with(&there, 0, &[0; 8], round).unwrap();
                endpoint.wait(long).unwrap();
                turn(endpoint);
            }
        },
    );
}

#[test]
fn a_get_before_a_fence_reads_nothing_of_a_put_after_it() {
    two(
        |endpoint| {
            let mut memory = vec![0; LONG];
            endpoint
                .scope(|scope| {
                    let region = scope.register(&mut memory, Rights::ALL)?;
                    offer(endpoint, &region);
                    turn(endpoint);
                    Ok(())
                })
                .unwrap();
        },
        |endpoint| {
            let there = offered(endpoint);
            for round in 1..30 {
                let got = endpoint.iget(&there, 0, vec![9; LONG]).unwrap();
                endpoint.fence(0);
                endpoint.detach(endpoint.iput(&there, 0, vec![round; 1000]).unwrap());
                endpoint.detach(endpoint.iput(&there, LONG as u64 - 8, vec![round; 8]).unwrap());
                let got = endpoint.wait(got).unwrap().buffer;
                let before = round - 1;
                assert!(got[..1000] == [before; 1000] && got[LONG - 8..] == [before; 8]);
                endpoint.flush(0).unwrap();
            }
            pass(endpoint);
        },
    );
}
