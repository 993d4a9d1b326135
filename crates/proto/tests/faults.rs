//! Engines on bad networks: whatever is lost, doubled, damaged or late, everything arrives once and
//! in order.

mod toy;

use toy::{Net, Random, Segment};
use weft_proto::Config;

fn bad(seed: u64) -> Segment {
    let mut r = Random(seed.wrapping_mul(77) | 1);
    (0..20).for_each(|_| _ = r.next());
    Segment {
        loss: [0, 1, 5, 20][r.below(4) as usize],
        duplicate: r.below(10),
        corrupt: r.below(5),
        jitter_ns: [0, 5_000, 100_000][r.below(3) as usize],
        ..Segment::default()
    }
}

fn shake(seed: u64) {
    let links = 1 + (seed % 2) as usize;
    let segments = (0..links as u64).map(|i| bad(seed * 3 + i)).collect();
    let mut spec = weft_proto::LinkSpec { mtu: 1472, ..Default::default() };
    spec.integrity = false;
    let mut net = Net::with_links(3, &Config::default(), segments, &vec![spec; links], seed);
    net.alone = seed % 4 >= 2;
    let mut r = Random(seed | 1 << 40);
    let mut expected = [0u64; 9];
    let mut bulk = [0usize; 9];
    for tag in 0..150 {
        let (from, to) = (r.below(3) as usize, r.below(2) as usize);
        let to = (from + 1 + to) % 3;
        let pair = from * 3 + to;
        if r.chance(10) {
            net.announce(from, to, tag, r.below(200_000) as usize);
            bulk[pair] += 1;
        } else {
            let len = [8, 300, 1400, 5_000, 16_000][r.below(5) as usize];
            net.send(from, to, tag, r.below(len) as usize);
        }
        expected[pair] += 1;
        if r.chance(30) {
            let until = net.now.plus(r.below(100_000));
            net.step(until);
        }
    }
    let total = expected.iter().sum::<u64>() as usize + bulk.iter().sum::<usize>();
    let done = |n: &Net| {
        n.nodes.iter().map(|n| n.arrived).sum::<usize>() == total
            && n.nodes.iter().all(|n| !n.engine.busy())
    };
    assert!(net.run(60_000, done), "seed {seed}: not all arrived by {:?}", net.now);
    for (pair, &count) in expected.iter().enumerate() {
        let tags = net.nodes[pair % 3].tags(pair / 3);
        assert_eq!(tags.len() as u64, count, "seed {seed}");
        assert!(tags.windows(2).all(|w| w[0] < w[1]), "seed {seed}: order {tags:?}");
    }
    for node in &net.nodes {
        for event in node.others() {
            let fine = !matches!(
                event,
                weft_proto::Incoming::Dead { .. } | weft_proto::Incoming::Failed { .. }
            );
            assert!(fine, "seed {seed}: {event:?}");
        }
    }
}

#[test]
fn everything_arrives_once_and_in_order_on_bad_networks() {
    (0..120).for_each(shake);
}
