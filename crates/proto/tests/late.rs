//! Peers that wait for their processor, for tens to hundreds of milliseconds at a time: all that is
//! sent to them arrives, only late. And the real thing beside it: frames that are too large for
//! something in between.

mod toy;

use toy::{Net, Segment};
use weft_proto::{Config, Counters, Incoming, Instant, LinkSpec, Warning};

const MS: u64 = 1_000_000;

/// A link for small messages and one for large ones on the same wire, as on an Ethernet interface.
fn specs(long: usize) -> Vec<LinkSpec> {
    let packet = LinkSpec { mtu: 1500, latency_ns: 3_000, ..LinkSpec::default() };
    let bulk = LinkSpec {
        mtu: long,
        latency_ns: 9_000,
        bytes_per_s: 5 * packet.bytes_per_s,
        pieces: long.div_ceil(1500),
        max_burst: 65_536,
        ..LinkSpec::default()
    };
    vec![packet, bulk]
}

/// `nodes` on one wire.
fn net(nodes: usize, long: usize, seed: u64) -> Net {
    let segments = vec![Segment::default(); 2];
    Net::on_wires(nodes, &Config::default(), segments, &specs(long), seed, true)
}

fn warned(net: &Net, node: usize) -> usize {
    let reduced =
        |e: &&Incoming| matches!(e, Incoming::Warning { what: Warning::MtuReduced { .. }, .. });
    net.nodes[node].others().filter(reduced).count()
}

fn sum(net: &Net, count: impl Fn(&Counters) -> u64) -> u64 {
    net.nodes.iter().map(|node| count(&node.engine.counters())).sum()
}

/// Frames that node 0 sends for a message of 1 MB to node 1.
fn frames_for_a_large_one(net: &mut Net, tag: u64) -> u64 {
    let before = net.nodes[0].engine.counters().frames_sent;
    net.announce(0, 1, tag, 1_000_000);
    assert!(net.run(20_000, |n| n.nodes[1].pulled(0).contains(&tag)), "message {tag} arrives");
    net.nodes[0].engine.counters().frames_sent - before
}

#[test]
fn who_waits_for_the_processor_is_late_and_nothing_else() {
    const NODES: usize = 12;
    const ROUNDS: u64 = 30;
    for (seed, period_ms) in [(1, 12), (2, 24), (3, 60), (4, 150), (5, 400)] {
        let mut net = net(NODES, 60_000, seed);
        // One after another has its turn, as on one processor.
        let period = period_ms * MS;
        let each = period / NODES as u64;
        for (at, node) in net.nodes.iter_mut().enumerate() {
            node.turns = Some((Instant(MS + at as u64 * each), each, period));
            // Not all that is long has room until then.
            node.room = 150_000;
        }
        let pairs =
            |from: usize| (0..NODES).filter(move |&to| to != from).map(move |to| (from, to));
        for tag in 0..ROUNDS {
            (0..NODES).flat_map(pairs).for_each(|(from, to)| net.send(from, to, tag, 1_000));
            let whole = (tag as usize + 1) * (NODES - 1);
            let all = |n: &Net| n.nodes.iter().all(|node| node.arrived == whole);
            assert!(net.run(10_000, all), "round {tag} of turns of {period_ms} ms");
        }
        let told: usize = (0..NODES).map(|at| warned(&net, at)).sum();
        assert_eq!((told, sum(&net, |c| c.mtu_reduced)), (0, 0), "turns of {period_ms} ms");
        let dead = |e: &&Incoming| matches!(e, Incoming::Dead { .. });
        assert_eq!(net.nodes.iter().flat_map(|n| n.others().filter(dead)).count(), 0);
        let (sent, again) = (sum(&net, |c| c.messages_sent), sum(&net, |c| c.retransmits));
        assert!(again < sent / 8, "{again} of {sent} sent again, turns of {period_ms} ms");
        let (all, needed) = (sum(&net, |c| c.frames_sent), 2 * sent);
        assert!(all < 2 * needed, "{all} frames for {sent} messages, turns of {period_ms} ms");
        // When the crowd has gone, large frames are used.
        net.nodes.iter_mut().for_each(|node| node.turns = None);
        net.run(12_000, |_| false);
        let frames = frames_for_a_large_one(&mut net, 1_000_000);
        assert!(frames < 100, "{frames} frames, turns of {period_ms} ms");
    }
}

#[test]
fn what_is_too_large_is_told_once_for_a_node_and_used_again_when_it_passes() {
    let mut net = net(2, 8_972, 1);
    net.segments[1].mtu = 3_000;
    net.send(0, 1, 1, 10);
    net.run(3_000, |_| false);
    assert_eq!(warned(&net, 0), 1);
    let small = frames_for_a_large_one(&mut net, 2);
    assert!(small > 500, "frames of 1472 bytes: {small}");
    net.run(30_000, |_| false);
    assert_eq!(warned(&net, 0), 1, "it is known");
    net.segments[1].mtu = 65_000;
    net.run(12_000, |_| false);
    let large = frames_for_a_large_one(&mut net, 3);
    assert!(large < 300, "frames of 8972 bytes: {large}");
}

#[test]
fn long_frames_that_a_network_card_spoils_are_cut_in_software() {
    for mended in [true, false] {
        let mut specs = specs(60_000);
        specs[1].cuts = true;
        let segments = vec![Segment::default(); 2];
        let mut net = Net::on_wires(2, &Config::default(), segments, &specs, 1, true);
        net.segments[1].mtu = 1_500;
        let recut = |n: &Net| {
            let told = |e: &&Incoming| matches!(e, Incoming::CutInSoftware { link } if link.0 == 1);
            [0, 1].map(|at: usize| n.nodes[at].others().filter(told).count())
        };
        net.send(0, 1, 1, 10);
        assert!(net.run(3_000, |n| recut(n) == [1, 1]), "both ends find it out");
        if mended {
            net.segments[1].mtu = 65_000;
        }
        net.run(3_000, |_| false);
        assert_eq!(recut(&net), [1, 1], "told once");
        assert_eq!(warned(&net, 0), usize::from(!mended));
        let frames = frames_for_a_large_one(&mut net, 2);
        assert_eq!(frames < 100, mended, "{frames} frames");
    }
}

#[test]
fn large_frames_that_no_longer_pass_are_noticed_by_what_is_sent_with_them() {
    let mut net = net(2, 8_972, 1);
    net.send(0, 1, 1, 10);
    net.run(1_000, |_| false);
    let large = frames_for_a_large_one(&mut net, 2);
    assert!(large < 300, "frames of 8972 bytes: {large}");
    net.segments.iter_mut().for_each(|s| s.mtu = 1_400);
    for tag in 3..20 {
        net.announce(0, 1, tag, 100_000);
        net.send(0, 1, 100 + tag, 1_400);
        let came = |n: &Net| n.nodes[1].pulled(0).len() as u64 == tag - 1;
        assert!(net.run(2_000, came), "message {tag}");
    }
    net.run(3_000, |_| false);
    assert!((1..=2).contains(&warned(&net, 0)), "once for each link that carried some");
    net.segments.iter_mut().for_each(|s| s.mtu = 65_000);
    net.run(12_000, |_| false);
    let large = frames_for_a_large_one(&mut net, 20);
    assert!(large < 300, "frames of 8972 bytes again: {large}");
}
