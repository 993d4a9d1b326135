//! Cables of very different kinds to one peer: a radio, or the network of the house, beside one
//! that is short.

mod toy;

use toy::{Net, Segment};
use weft_proto::{Config, LinkSpec};

fn net(seed: u64) -> Net {
    let radio = Segment { delay_ns: 5_000_000, rate: 12, ..Segment::default() };
    Net::new(2, &Config::default(), vec![radio, Segment::default()], seed)
}

/// Time of a message there and back, ns.
fn there_and_back(net: &mut Net, tag: u64, len: usize) -> u64 {
    let begun = net.now;
    for (from, to) in [(0, 1), (1, 0)] {
        let before = net.nodes[to].arrived;
        net.send(from, to, tag, len);
        assert!(net.run(1_000, |n| n.nodes[to].arrived > before));
    }
    net.now.since(begun)
}

#[test]
fn small_messages_leave_the_long_way_to_others() {
    for seed in 1..20 {
        let mut net = net(seed);
        net.alone = seed % 2 == 0;
        (0..20).for_each(|tag| _ = there_and_back(&mut net, tag, 8));
        for tag in 20..40 {
            let took = there_and_back(&mut net, tag, 8);
            assert!(took < 1_000_000, "seed {seed}, message {tag}: {took} ns");
        }
    }
}

#[test]
fn small_messages_take_the_nearer_of_two_cables_whichever_was_opened_first() {
    for seed in 1..20 {
        for delays in [[100_000, 2_000], [2_000, 100_000]] {
            let cables = delays.map(|delay_ns| cable(1_000, delay_ns));
            let mut net = Net::new(2, &Config::default(), cables.to_vec(), seed);
            net.alone = seed % 2 == 0;
            (0..400).for_each(|tag| _ = there_and_back(&mut net, tag, 8));
            for tag in 400..420 {
                let took = there_and_back(&mut net, tag, 8);
                assert!(took < 100_000, "seed {seed}, {delays:?}, message {tag}: {took} ns");
            }
        }
    }
}

/// Time until `len` bytes have been pulled, ns.
fn pulled_in(net: &mut Net, tag: u64, len: usize) -> u64 {
    let (begun, before) = (net.now, net.nodes[1].arrived);
    net.announce(0, 1, tag, len);
    // The announcement counts as well.
    assert!(net.run(10_000, |n| n.nodes[1].arrived >= before + 2));
    net.now.since(begun)
}

/// The mean time of the last of many such messages, us.
fn bulk_us(segments: Vec<Segment>, len: usize) -> u64 {
    let mut net = Net::new(2, &Config::default(), segments, 3);
    net.send(0, 1, 0, 8);
    (1..60).for_each(|tag| _ = pulled_in(&mut net, tag, len));
    (60..80).map(|tag| pulled_in(&mut net, tag, len)).sum::<u64>() / 20_000
}

fn cable(rate: u64, delay_ns: u64) -> Segment {
    Segment { rate, delay_ns, ..Segment::default() }
}

#[test]
fn bulk_leaves_the_slow_way_what_it_brings_in_time() {
    for (fast, slow) in [
        (cable(1_000, 5_000), cable(12, 5_000_000)),
        (cable(1_000, 5_000), cable(12, 20_000)),
        (cable(125, 5_000), cable(31, 5_000)),
    ] {
        for len in [64 << 10, 1 << 20] {
            let alone = bulk_us(vec![fast.clone()], len);
            // One that brings next to nothing is to cost nothing.
            let percent = if fast.rate / slow.rate > 16 { 105 } else { 125 };
            for both in [vec![fast.clone(), slow.clone()], vec![slow.clone(), fast.clone()]] {
                let took = bulk_us(both, len);
                let limit = alone * percent / 100;
                assert!(took < limit, "{len} bytes: {took} us, {alone} by the fast one");
            }
        }
    }
}

/// As near as the cable, so that only its speed can tell.
#[test]
fn the_network_of_the_house_carries_next_to_nothing_beside_a_fast_cable() {
    const UNKNOWN: u64 = u64::MAX;
    let (fast, slow) = (cable(1_000, 5_000), cable(40, 5_000));
    for said in [[UNKNOWN, UNKNOWN], [1_000_000_000, 40_000_000], [1_000_000_000, UNKNOWN]] {
        let specs = said.map(|wire_bytes_per_s| LinkSpec {
            mtu: 1472,
            wire_bytes_per_s,
            ..LinkSpec::default()
        });
        let segments = vec![fast.clone(), slow.clone()];
        let mut net = Net::with_links(2, &Config::default(), segments, &specs, 3);
        for tag in 0..400 {
            pulled_in(&mut net, tag, 1 << 20);
            there_and_back(&mut net, 1_000 + tag, 8);
            net.run(20, |_| false);
        }
        let [fast, slow] = [0, 1].map(|at| net.sent[at]);
        assert!(slow * 100 < fast + slow, "{said:?}: {slow} bytes beside {fast}");
    }
}

#[test]
fn two_ways_that_are_alike_share_what_is_to_be_sent() {
    for len in [64 << 10, 1 << 20, 4 << 20] {
        let alone = bulk_us(vec![cable(125, 5_000)], len);
        let both = bulk_us(vec![cable(125, 5_000), cable(125, 5_000)], len);
        assert!(both < alone * 3 / 4, "{len} bytes: {both} us, {alone} by one");
    }
}
