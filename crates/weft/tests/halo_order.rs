//! In which order the stages of a plan are started and waited for, by shared memory and over a wire
//! in memory: what is in order goes on, and what would wait for ever is told.

mod common;
#[path = "common/ranks.rs"]
mod ranks;

use std::thread;
use std::time::{Duration, Instant};

use common::{FAULTS, ether, shm};
use ranks::all;
use weft::endpoint::Endpoint;
use weft::halo::{Array, Axis, Draft, Layout, Neighbours, Plan, Stage};

/// A time that only a wait for ever takes.
const PATIENCE: Duration = Duration::from_secs(90);

/// Two ranks in a ring, and two stages: rows that go straight, and others so that they differ.
fn two_stages(endpoint: &Endpoint) -> ([Array<f64>; 2], [Stage; 2], Plan<'_>) {
    let ring = Neighbours::grid(endpoint.rank(), &[2, 1], &[true, false]).unwrap();
    let mut draft = Draft::new(endpoint, ring);
    let mut array = |width| {
        let axes = [Axis::new(3, 1), Axis::new(width, 0)];
        let mut array = draft.array(&Layout::new::<f64>(&axes)).unwrap();
        array.write().unwrap().fill(endpoint.rank() as f64);
        array
    };
    // The long one is fetched by its receiver.
    let arrays = [array(400), array(50_000)];
    let stages = [draft.stage(&[arrays[0].id()]), draft.stage(&[arrays[1].id()])];
    (arrays, stages, draft.build().unwrap())
}

#[test]
fn neighbours_that_take_the_stages_in_another_order_are_told() {
    // Last the one that would never end.
    for how in ["wait_timeout", "test", "wait"] {
        for endpoints in [shm(2), ether(2, None), ether(2, Some(FAULTS))] {
            let texts = all(endpoints, |endpoint| {
                let (arrays, stages, mut plan) = two_stages(endpoint);
                for stage in stages {
                    plan.exchange(stage).unwrap();
                }
                let own = stages[endpoint.rank() as usize];
                plan.start(own).unwrap();
                let give_up = Instant::now() + PATIENCE;
                let goes_on = |is_over: bool| {
                    assert!(!is_over && Instant::now() < give_up, "{how}: {is_over}");
                };
                let error = match how {
                    "wait" => plan.wait(own).unwrap_err(),
                    "wait_timeout" => loop {
                        match plan.wait_timeout(own, 1_000_000) {
                            Ok(is_over) => goes_on(is_over),
                            Err(error) => break error,
                        }
                    },
                    _ => loop {
                        match plan.test(own) {
                            Ok(is_over) => goes_on(is_over),
                            Err(error) => break error,
                        }
                        thread::yield_now();
                    },
                };
                // Nothing was written over, and the plan is of no use any more.
                let other = 1.0 - endpoint.rank() as f64;
                for array in &arrays {
                    let cells = array.read().unwrap();
                    let width = cells.len() / 5;
                    let is = |row: usize, value: f64| {
                        cells[row * width..(row + 1) * width].iter().all(|cell| *cell == value)
                    };
                    assert!(is(0, other) && is(4, other));
                    assert!((1..4).all(|row| is(row, endpoint.rank() as f64)));
                }
                assert_eq!(plan.start(own).unwrap_err().to_string(), error.to_string());
                error.to_string()
            });
            // One is told by the other if that has taken its message back.
            let told = |rank: usize, says: &str| {
                let by_peer = format!("rank {} has given this plan up", 1 - rank);
                assert!(texts[rank].contains(says) || texts[rank].contains(&by_peer), "{texts:?}");
                texts[rank].contains(says)
            };
            let first = told(0, "rank 1 has started stage 1 where this one has started stage 0");
            let second = told(1, "rank 0 has started stage 0 where this one has started stage 1");
            assert!(first || second, "{texts:?}");
        }
    }
}

#[test]
fn a_rank_that_skips_a_stage_is_told_when_the_next_one_comes() {
    for endpoints in [shm(2), ether(2, None)] {
        all(endpoints, |endpoint| {
            let (_arrays, [first, second], mut plan) = two_stages(endpoint);
            let result = match endpoint.rank() {
                0 => plan.exchange(second),
                _ => plan.start(first).and_then(|()| plan.exchange(second)),
            };
            let text = result.unwrap_err().to_string();
            assert!(text.contains("the same stages of a plan in the same order"), "{text}");
        });
    }
}

#[test]
fn stages_that_are_under_way_together_may_be_waited_for_in_any_order() {
    for endpoints in [shm(2), ether(2, None)] {
        all(endpoints, |endpoint| {
            let (mut arrays, stages, mut plan) = two_stages(endpoint);
            let (rank, other) = (endpoint.rank(), 1.0 - endpoint.rank() as f64);
            for step in 0..20 {
                for array in &mut arrays {
                    array.write().unwrap().fill(step as f64 + endpoint.rank() as f64);
                }
                stages.iter().for_each(|stage| plan.start(*stage).unwrap());
                for at in 0..2 {
                    let stage = stages[at ^ rank as usize];
                    assert!(plan.wait_timeout(stage, 100_000_000_000).unwrap(), "it hangs");
                }
                let rows = arrays.iter().map(|array| array.read().unwrap());
                rows.for_each(|cells| assert_eq!(cells[0], step as f64 + other));
            }
        });
    }
}

#[test]
fn stages_may_be_under_way_together_and_be_waited_for_later() {
    for endpoints in [shm(2), ether(2, None), ether(2, Some(FAULTS))] {
        all(endpoints, |endpoint| {
            let (mut arrays, [first, second], mut plan) = two_stages(endpoint);
            let other = 1.0 - endpoint.rank() as f64;
            for step in 0..100 {
                for array in &mut arrays {
                    array.write().unwrap().fill(step as f64 + endpoint.rank() as f64);
                }
                plan.start(first).unwrap();
                // One of them begins the second one only when the first has ended, and one of them
                // is late: nobody takes that for another order.
                if endpoint.rank() == 0 && step % 2 == 1 {
                    plan.wait(first).unwrap();
                }
                if endpoint.rank() == 1 && step == 0 {
                    thread::sleep(Duration::from_millis(500));
                }
                plan.start(second).unwrap();
                plan.wait(first).unwrap();
                plan.wait(second).unwrap();
                let rows = arrays.iter().map(|array| array.read().unwrap());
                rows.for_each(|cells| assert_eq!(cells[0], step as f64 + other));
            }
        });
    }
}
