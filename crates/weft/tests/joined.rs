//! Joined buffers, between endpoints in one process.

mod common;

use std::sync::Barrier;
use std::thread;

use common::{FAULTS, ether, shm};
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::region::Joined;

/// Has both ranks join ends of 400,000 bytes, and do what `f` says, over each medium.
fn both(f: impl Fn(&Endpoint, &Joined<'_>) + Sync) {
    for endpoints in [shm(2), ether(2, None), ether(2, Some(FAULTS))] {
        thread::scope(|scope| {
            for endpoint in endpoints {
                let f = &f;
                scope.spawn(move || {
                    let end = endpoint.join(1 - endpoint.rank(), 3, 400_000).unwrap();
                    f(&endpoint, &end);
                    // They end together.
                    end.flag(u64::MAX).unwrap();
                    assert_eq!(end.wait_flag().unwrap(), u64::MAX);
                });
            }
        });
    }
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed * 89 + at * 7 + at / 251) as u8).collect()
}

#[test]
fn a_flag_is_seen_after_all_that_was_written_before() {
    const LENS: [usize; 6] = [1, 0, 700, 20_000, 70_000, 190_000];
    both(|endpoint, end| {
        let (rank, other) = (endpoint.rank() as usize, 1 - endpoint.rank() as usize);
        assert_eq!((end.peer(), end.len(), end.peer_len()), (other as u32, 400_000, 400_000));
        for round in 0..40 {
            let len = LENS[round % LENS.len()];
            // Its own half of the end is what it writes from; the other half is the peer's.
            end.fill(200_000, &pattern(round + rank, len)).unwrap();
            let middle = len / 3;
            end.write(200_000, 5, middle).unwrap();
            end.write(200_000 + middle as u64, 5 + middle as u64, len - middle).unwrap();
            end.flag(round as u64).unwrap();
            assert_eq!(end.wait_flag().unwrap(), round as u64);
            let mut bytes = vec![0; len];
            end.look(5, &mut bytes).unwrap();
            assert!(bytes == pattern(round + other, len), "round {round}, {len} bytes");
            // The next round writes over both.
            end.flush().unwrap();
            end.flag(1000 + round as u64).unwrap();
            assert_eq!(end.wait_flag().unwrap(), 1000 + round as u64);
        }
    });
}

#[test]
fn flags_come_in_order_and_wait_to_be_taken() {
    both(|_, end| {
        for value in 0..500 {
            end.flag(value).unwrap();
        }
        for value in 0..500 {
            assert_eq!(end.wait_flag().unwrap(), value);
        }
    });
}

#[test]
fn threads_share_an_end() {
    /// So long that a short one could overtake it, over each medium.
    const PART: usize = 150_000;
    const HALF: usize = 10 * PART;
    both(|endpoint, end| {
        let (rank, other) = (endpoint.rank() as usize, end.peer() as usize);
        let end = &endpoint.join(end.peer(), 4, 2 * HALF).unwrap();
        let written = &Barrier::new(2);
        thread::scope(|scope| {
            // Each thread has five places, which it writes to the other end's second half.
            for thread in 0..2 {
                scope.spawn(move || {
                    for place in thread * 5..thread * 5 + 5 {
                        let at = place * PART;
                        end.fill(at as u64, &pattern(place + rank, PART)).unwrap();
                        end.write(at as u64, (HALF + at) as u64, PART).unwrap();
                        // Both flags come while both writes are under way.
                        written.wait();
                        end.flag(place as u64).unwrap();
                    }
                });
            }
            for _ in 0..10 {
                let place = end.wait_flag().unwrap() as usize;
                let mut bytes = vec![0; PART];
                end.look((HALF + place * PART) as u64, &mut bytes).unwrap();
                assert!(bytes == pattern(place + other, PART), "place {place}");
            }
        });
        // They drop their ends together.
        end.flag(10).unwrap();
        assert_eq!(end.wait_flag().unwrap(), 10);
    });
}

#[test]
fn a_join_that_is_called_off_leaves_nothing_behind() {
    both(|endpoint, end| {
        let operations = || {
            let counters = endpoint.counters();
            counters.into_iter().find(|(name, _)| name == "endpoint.operations").unwrap().1
        };
        if endpoint.rank() == 0 {
            let mut joining = endpoint.start_join(1, 8, 100).unwrap();
            assert!(joining.wait_for(1_000_000).unwrap().is_none());
            assert!(operations() > 0);
            drop(joining);
            // What was sent is acknowledged some time.
            while operations() > 0 {
                endpoint.progress();
                thread::yield_now();
            }
        }
        // Another one goes on.
        assert!(endpoint.join(end.peer(), u32::MAX, 0).unwrap().is_empty());
    });
}

#[test]
fn what_lies_outside_is_refused() {
    both(|_, end| {
        assert!(matches!(end.write(399_999, 0, 2), Err(Error::Region { .. })));
        assert!(matches!(end.write(0, 399_999, 2), Err(Error::Region { .. })));
        assert!(matches!(end.write(u64::MAX, 0, 2), Err(Error::Region { .. })));
        assert!(matches!(end.fill(400_000, &[1]), Err(Error::Region { .. })));
        assert!(matches!(end.look(400_000, &mut [1]), Err(Error::Region { .. })));
        end.write(400_000, 400_000, 0).unwrap();
    });
}

#[test]
fn a_peer_that_is_gone_ends_the_wait() {
    for endpoints in [shm(2), ether(2, None)] {
        thread::scope(|scope| {
            for endpoint in endpoints {
                scope.spawn(move || {
                    let end = endpoint.join(1 - endpoint.rank(), 0, 10).unwrap();
                    if endpoint.rank() == 1 {
                        end.flag(9).unwrap();
                        return;
                    }
                    assert_eq!(end.wait_flag().unwrap(), 9);
                    let error = end.wait_flag().unwrap_err();
                    let gone = matches!(error, Error::PeerDead { .. } | Error::PeerClosed { .. });
                    assert!(gone, "{error}");
                });
            }
        });
    }
}
