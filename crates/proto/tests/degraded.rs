//! Links that come, go, and get worse while messages are under way.

mod toy;

use toy::{Net, Segment};
use weft_proto::{Config, Instant, LinkSpec};
use weft_wire::{LinkAddr, LinkId};

/// Time of a message there and back, ns.
fn there_and_back(net: &mut Net, tag: u64) -> u64 {
    let begun = net.now;
    for (from, to) in [(0, 1), (1, 0)] {
        let before = net.nodes[to].arrived;
        net.send(from, to, tag, 8);
        assert!(net.run(10_000, |n| n.nodes[to].arrived > before));
    }
    net.now.since(begun)
}

/// Passes `ms`, with a message now and then.
fn pass(net: &mut Net, ms: u64) {
    for tag in 0..ms / 10 {
        net.run(10, |_| false);
        there_and_back(net, 1_000_000 + tag);
    }
}

#[test]
fn a_cable_that_loses_too_much_is_left_and_taken_again() {
    const SHORT_NS: u64 = 5_000;
    for seed in 1..10 {
        let short = Segment { delay_ns: SHORT_NS, loss: 8, ..Segment::default() };
        let long = Segment { delay_ns: 10 * SHORT_NS, ..Segment::default() };
        let specs =
            [3_000, 20_000].map(|ns| LinkSpec { mtu: 1472, latency_ns: ns, ..LinkSpec::default() });
        let mut net = Net::with_links(2, &Config::default(), vec![short, long], &specs, seed);
        net.alone = seed % 2 == 0;
        let mut tag = 0;
        while net.nodes.iter().any(|n| n.engine.counters().paths_left == 0) {
            tag += 1;
            assert!(tag < 3_000, "seed {seed}: it is not left");
            there_and_back(&mut net, tag);
            // One that does not answer for a moment is asked after a while.
            net.run(1, |_| false);
        }
        for _ in 0..100 {
            tag += 1;
            let took = there_and_back(&mut net, tag);
            assert!(took < 1_000_000, "seed {seed}: {took} ns");
        }
        net.segments[0].loss = 0;
        pass(&mut net, 40_000);
        for _ in 0..10 {
            tag += 1;
            let took = there_and_back(&mut net, tag);
            assert!(took < 4 * SHORT_NS, "seed {seed}: {took} ns");
        }
    }
}

#[test]
fn a_cable_that_loses_too_much_is_better_than_none_and_than_a_radio() {
    let bad = Segment { loss: 8, ..Segment::default() };
    let radio = Segment { delay_ns: 5_000_000, rate: 12, ..Segment::default() };
    for segments in [vec![bad.clone()], vec![bad.clone(), radio], vec![bad.clone(), bad]] {
        let count = segments.len();
        let mut net = Net::new(2, &Config::default(), segments, 5);
        let mut all: Vec<u64> = (0..500).map(|tag| there_and_back(&mut net, tag)).collect();
        all.sort_unstable();
        assert!(all[250] < 100_000, "{count}: {} ns", all[250]);
    }
}

/// Time until `len` bytes have been pulled, ns.
fn pulled_in(net: &mut Net, tag: u64, len: usize) -> u64 {
    let (begun, before) = (net.now, net.nodes[1].arrived);
    net.announce(0, 1, tag, len);
    // The announcement counts as well.
    let done = net.run(10_000, |n| n.nodes[1].arrived >= before + 2);
    assert!(done);
    net.now.since(begun)
}

#[test]
fn a_cable_with_a_tenth_of_its_speed_does_not_hold_up_the_other() {
    let cable = Segment { rate: 125, ..Segment::default() };
    let mut net = Net::new(2, &Config::default(), vec![cable.clone(), cable.clone()], 3);
    let mut tag = 0;
    let mut mean = |net: &mut Net, warm: u64| {
        (0..warm).for_each(|n| _ = pulled_in(net, tag + n, LEN));
        let all: u64 = (0..20).map(|n| pulled_in(net, tag + warm + n, LEN)).sum();
        tag += warm + 20;
        all / 20
    };
    let both = mean(&mut net, 30);
    net.segments[0].rate = 12;
    let one = mean(&mut net, 30);
    assert!(one < both * 5 / 2, "{one} ns by one, {both} by both");
    net.segments[0].rate = 125;
    let again = mean(&mut net, 60);
    assert!(again < both * 5 / 4, "{again} ns, {both} at first");
}

const SPEED: u64 = 125_000_000;
const LEN: usize = 1 << 20;

/// Two nodes with two cables of [`SPEED`], whose cards say so.
fn two_cables() -> Net {
    let cable = Segment { rate: 125, ..Segment::default() };
    let spec = LinkSpec { mtu: 1472, wire_bytes_per_s: SPEED, ..LinkSpec::default() };
    let specs = [spec.clone(), spec];
    Net::with_links(2, &Config::default(), vec![cable.clone(), cable], &specs, 3)
}

/// What the cards at both ends of the first cable say from now on.
fn say(net: &mut Net, speed: u64) {
    net.nodes.iter_mut().for_each(|n| n.engine.set_wire_speed(LinkId(0), speed));
}

/// Mean time of a long message, ns, after some that are not counted.
fn mean(net: &mut Net, tag: &mut u64) -> u64 {
    let mut pull = |count: u64| -> u64 {
        *tag += count;
        (0..count).map(|n| pulled_in(net, *tag - n, LEN)).sum()
    };
    pull(30);
    pull(20) / 20
}

#[test]
fn a_cable_whose_ends_agree_on_another_speed_is_left_and_taken_again() {
    let (mut net, mut tag) = (two_cables(), 0);
    let both = mean(&mut net, &mut tag);
    let mut other = |net: &mut Net, share: u64| {
        say(net, SPEED / share);
        net.segments[0].rate = (125 / share).max(1);
        // At once: without a message that it has held up.
        tag += 1;
        (pulled_in(net, tag, LEN), mean(net, &mut tag))
    };
    let (first, one) = other(&mut net, 100);
    assert!(first < both * 3 && one > both * 3 / 2, "{first}, {one} ns by one, {both} by both");
    let (_, again) = other(&mut net, 1);
    assert!(again < both * 5 / 4, "{again} ns, {both} at first");
}

#[test]
fn a_cable_that_carries_more_than_its_card_says_is_used_by_what_is_measured() {
    let (mut net, mut tag) = (two_cables(), 0);
    let both = mean(&mut net, &mut tag);
    say(&mut net, SPEED / 100);
    let one = mean(&mut net, &mut tag);
    assert!(one > both * 3 / 2, "believed at first: {one} ns by one, {both} by both");
    // Now and then a little goes by it, and shows what it carries.
    pass(&mut net, 3_000);
    let again = mean(&mut net, &mut tag);
    assert!(again < both * 5 / 4, "{again} ns, {both} at first");
}

#[test]
fn a_cable_that_was_slow_for_a_while_is_taken_again() {
    let (mut net, mut tag) = (two_cables(), 0);
    let both = mean(&mut net, &mut tag);
    net.segments[0].rate = 2;
    let one = mean(&mut net, &mut tag);
    assert!(one > both * 3 / 2, "{one} ns by one, {both} by both");
    for _ in 0..10 {
        // It is tried all the while, and that holds up no more than a message now and then.
        pass(&mut net, 1_000);
        let one = mean(&mut net, &mut tag);
        assert!(one < both * 3, "{one} ns, {both} at first");
    }
    net.segments[0].rate = 125;
    for _ in 0..3 {
        pass(&mut net, 20_000);
        pulled_in(&mut net, tag + 1, LEN);
        tag += 1;
    }
    let again = mean(&mut net, &mut tag);
    assert!(again < both * 5 / 4, "{again} ns, {both} at first");
}

/// What the toy network's links say of themselves.
fn spec(at: u32, medium: u32, mtu: usize) -> LinkSpec {
    let everyone = Some(LinkAddr::Port(u32::MAX));
    LinkSpec { addr: LinkAddr::Port(at), everyone, medium, mtu, ..LinkSpec::default() }
}

#[test]
fn a_link_that_is_opened_later_takes_part() {
    let mut net = Net::new(2, &Config::default(), vec![Segment::default()], 7);
    there_and_back(&mut net, 1);
    // The other end looks a second later.
    net.segments.push(Segment::default());
    for node in 0..2 {
        let now = net.now;
        let engine = &mut net.nodes[node].engine;
        let link = engine.add_link(spec(node as u32, 1, 1472));
        engine.set_link_up(now, link, false);
        engine.set_link_up(now, link, true);
        pass(&mut net, 1_000);
    }
    net.segments[0].loss = 100;
    for tag in 2..20 {
        there_and_back(&mut net, tag);
    }
}

/// Looks for new interfaces are the device's doing; from then on the engine may take so long.
const ADDED_NS: u64 = 1_000_000_000;

#[test]
fn a_cable_that_is_added_carries_its_part_within_a_second() {
    for seed in 1..10 {
        let cable = Segment { rate: 125, ..Segment::default() };
        let mut net = Net::new(2, &Config::default(), vec![cable.clone()], seed);
        let mut tag = 0;
        let alone = mean(&mut net, &mut tag);
        net.segments.push(cable);
        let links: Vec<LinkId> = (0..2)
            .map(|node| net.nodes[node].engine.add_link(spec(node as u32, 1, 1472)))
            .collect();
        for (node, link) in links.into_iter().enumerate() {
            let now = net.now;
            net.nodes[node].engine.set_link_up(now, link, false);
            net.nodes[node].engine.set_link_up(now, link, true);
            // The other end finds it a little later.
            net.run(20 * seed, |_| false);
        }
        let end = net.now.plus(ADDED_NS);
        while net.now < end {
            tag += 1;
            pulled_in(&mut net, tag, LEN);
        }
        tag += 1;
        let (before, took) = (net.sent[1], pulled_in(&mut net, tag, LEN));
        let part = net.sent[1] - before;
        assert!(part > LEN as u64 / 3, "seed {seed}: {part} bytes of {LEN}");
        assert!(took < alone * 3 / 4, "seed {seed}: {took} ns by both, {alone} by one");
    }
}

#[test]
fn another_link_takes_the_place_of_one_that_was_gone() {
    for mtu in [1472, 600, 9000] {
        let mut net = Net::new(2, &Config::default(), vec![Segment::default()], 7);
        pulled_in(&mut net, 1, 100_000);
        let link = LinkId(0);
        for node in 0..2 {
            let now = net.now;
            let engine = &mut net.nodes[node].engine;
            engine.replace_link(now, link, spec(node as u32, 0, mtu));
            net.run(500, |_| false);
            let now: Instant = net.now;
            net.nodes[node].engine.set_link_up(now, link, true);
        }
        net.segments[0].mtu = mtu;
        for tag in 2..20 {
            pulled_in(&mut net, tag, 100_000);
        }
    }
}
