//! Many seeds, on all cores.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use super::oracle::Tally;
use super::run::{Failure, Options, Outcome, run};

/// Runs `count` seeds from `first` on, with `threads` at a time, and gives each outcome to `each`
/// as it comes; where that says `false`, seeds that have not begun are left out. An engine that
/// panics is a failure of its seed.
pub fn sweep(
    first: u64,
    count: u64,
    options: &Options,
    threads: usize,
    mut each: impl FnMut(Outcome) -> bool,
) {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (sender, outcomes) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (next, stop, sender) = (&next, &stop, sender.clone());
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count || sender.send(run_caught(first + i, options)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for outcome in &outcomes {
            if !each(outcome) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
}

/// Runs a seed; a panic becomes a failure.
fn run_caught(seed: u64, options: &Options) -> Outcome {
    panic::catch_unwind(AssertUnwindSafe(|| run(seed, options))).unwrap_or_else(|cause| {
        let text = cause
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| cause.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Outcome {
            seed,
            nodes: 0,
            simulated_ns: 0,
            settled_ns: 0,
            steps: 0,
            frames: 0,
            tally: Tally::default(),
            digest: 0,
            failure: Some(Failure {
                at_ns: 0,
                process: 0,
                what: format!("panicked: {text}"),
                part: "panic",
                trace: Vec::new(),
            }),
            net: Default::default(),
            seen: Default::default(),
        }
    })
}
