//! What a match costs, with few and with many entries waiting.
#![allow(missing_docs)] // criterion's macro makes a public function

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use weft_proto::msg::matching::{Arrival, Matcher, Want};
use weft_wire::{Kind, PeerId};

fn want(source: Option<u32>, tag: u64, ignore: u64) -> Want {
    Want { source: source.map(PeerId), tag, ignore, kind: Kind::TAGGED }
}

fn arrival(source: u32, tag: u64) -> Arrival {
    Arrival { source: PeerId(source), tag, kind: Kind::TAGGED }
}

/// Each iteration posts a receive and lets its message arrive, with `waiting` others posted.
fn posted(c: &mut Criterion) {
    let mut group = c.benchmark_group("post, arrive");
    for waiting in [0u64, 3, 100, 10_000] {
        for (name, receive) in [
            ("exact", want(Some(1), 1 << 40, 0)),
            ("any source", want(None, 1 << 40, 0)),
            ("any tag", want(Some(1), 1 << 40, u64::MAX >> 20)),
        ] {
            let mut matcher: Matcher<u64, u64> = Matcher::new();
            for n in 0..waiting {
                assert!(matcher.post(want(Some(n as u32 % 16), n, 0), n).is_ok());
            }
            group.bench_function(format!("{name}, {waiting} posted"), |b| {
                b.iter(|| {
                    assert!(matcher.post(black_box(receive), 1).is_ok());
                    matcher.arrive(black_box(arrival(1, 1 << 40)))
                });
            });
        }
    }
    group.finish();
}

/// Each iteration stores a message and posts the receive that takes it; `waiting` others are
/// stored.
fn unexpected(c: &mut Criterion) {
    let mut group = c.benchmark_group("keep, post");
    for waiting in [0u64, 3, 100, 10_000] {
        for (name, receive) in [
            ("exact", want(Some(1), 1 << 40, 0)),
            ("any source", want(None, 1 << 40, 0)),
            ("any tag", want(Some(1), 1 << 40, u64::MAX >> 20)),
        ] {
            let mut matcher: Matcher<u64, u64> = Matcher::new();
            for n in 0..waiting {
                matcher.keep(arrival(n as u32 % 16, n), n);
            }
            group.bench_function(format!("{name}, {waiting} stored"), |b| {
                b.iter(|| {
                    let message = black_box(arrival(1, 1 << 40));
                    assert!(matcher.arrive(message).is_none());
                    matcher.keep(message, 1);
                    matcher.post(black_box(receive), 1).is_err()
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, posted, unexpected);
criterion_main!(benches);
