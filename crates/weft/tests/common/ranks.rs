//! Ranks of a job as threads.

use std::thread;

use weft::endpoint::Endpoint;
use weft::remote::AtomicOp;

/// Runs `f` at each of the endpoints; they end together. One that panics leaves the others an
/// error.
pub fn all<R: Send>(endpoints: Vec<Endpoint>, f: impl Fn(&Endpoint) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let run = |endpoint: Endpoint| {
            let f = &f;
            scope.spawn(move || {
                let result = f(&endpoint);
                meet(&endpoint);
                result
            })
        };
        let threads: Vec<_> = endpoints.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Waits until all are here.
pub fn meet(endpoint: &Endpoint) {
    endpoint.allreduce(AtomicOp::Max, &mut [0u64]).unwrap();
}
