//! Links that are a last resort: they carry something only to whom nothing else reaches, whatever
//! is measured on them.

mod toy;

use toy::{Net, Segment};
use weft_proto::{Config, LinkSpec, PathState, Row};
use weft_wire::{LinkAddr, LinkId, PeerId};

/// The links of the tests: a cable, and what is far quicker.
const CABLE: usize = 0;
const LAST: usize = 1;

fn spec(node: usize, segment: usize, last_resort: bool) -> LinkSpec {
    LinkSpec {
        addr: LinkAddr::Port(node as u32),
        everyone: Some(LinkAddr::Port(u32::MAX)),
        medium: segment as u32,
        last_resort,
        ..LinkSpec::default()
    }
}

/// Nodes with a link on each segment; `last`: whether node and segment make it a last resort.
fn net(nodes: usize, segments: &[Segment], last: impl Fn(usize, usize) -> bool, seed: u64) -> Net {
    let mut net = Net::with_links(nodes, &Config::default(), segments.to_vec(), &[], seed);
    net.sent = vec![0; segments.len()];
    net.alone = seed.is_multiple_of(2);
    for node in 0..nodes {
        for segment in 0..segments.len() {
            net.nodes[node].engine.add_link(spec(node, segment, last(node, segment)));
        }
    }
    net
}

/// A cable beside something that looks better in all that is measured.
fn beside() -> [Segment; 2] {
    let cable = Segment { delay_ns: 100_000, rate: 125, ..Segment::default() };
    [cable, Segment { delay_ns: 1_000, rate: 10_000, ..Segment::default() }]
}

/// Messages there and back, and a large one there.
fn talk(net: &mut Net, tag: u64, rounds: u64) {
    for tag in tag..tag + rounds {
        for (from, to) in [(0, 1), (1, 0)] {
            let before = net.nodes[to].arrived;
            net.send(from, to, tag, 8);
            assert!(net.run(10_000, |n| n.nodes[to].arrived > before));
        }
        let before = net.nodes[1].arrived;
        net.announce(0, 1, 1_000_000 + tag, 100_000);
        assert!(net.run(10_000, |n| n.nodes[1].arrived >= before + 2));
    }
}

/// Bytes that each segment carries of such an exchange.
fn carried(net: &mut Net, tag: u64, rounds: u64) -> Vec<u64> {
    let before = net.sent.clone();
    talk(net, tag, rounds);
    net.sent.iter().zip(before).map(|(now, before)| now - before).collect()
}

fn path(net: &Net, from: usize, to: u32, segment: usize) -> PathState {
    let paths = net.nodes[from].engine.paths(PeerId(to));
    paths.into_iter().find(|p| p.link == LinkId(segment as u8)).expect("a path")
}

/// Until both have found each other over all that there is.
fn settle(net: &mut Net, segments: usize) {
    talk(net, 0, 1);
    let all = |n: &Net| {
        [(0, 1), (1, 0)].iter().all(|&(a, b)| n.nodes[a].engine.paths(PeerId(b)).len() == segments)
    };
    assert!(net.run(10_000, all));
    // What was sent before all paths were known has arrived.
    net.run(50, |_| false);
}

/// Next to nothing: questions whether it still answers.
fn is_little(bytes: u64) -> bool {
    bytes < 2_000
}

#[test]
fn a_cable_carries_all_though_the_last_resort_is_quicker_and_wider() {
    for seed in 1..10 {
        // One end suffices.
        for ends in [[true, true], [true, false], [false, true]] {
            let mut net = net(2, &beside(), |node, at| at == LAST && ends[node], seed);
            settle(&mut net, 2);
            let sent = carried(&mut net, 1, 50);
            assert!(is_little(sent[LAST]) && sent[CABLE] > 5_000_000, "{seed}, {ends:?}: {sent:?}");
            for (from, to) in [(0, 1), (1, 0)] {
                let (cable, last) = (path(&net, from, to, CABLE), path(&net, from, to, LAST));
                assert!(cable.small && cable.bulk && !cable.spare, "{cable:?}");
                assert!(!last.small && !last.bulk && last.spare, "{last:?}");
            }
        }
    }
}

#[test]
fn the_last_resort_carries_all_while_the_cable_is_dead_and_nothing_afterwards() {
    for seed in 1..10 {
        let mut net = net(2, &beside(), |_, at| at == LAST, seed);
        settle(&mut net, 2);
        for round in 0..3 {
            let tag = 1_000 * (round + 1);
            net.segments[CABLE].loss = 100;
            talk(&mut net, tag, 2);
            let sent = carried(&mut net, tag + 10, 20);
            assert!(sent[LAST] > 2_000_000, "seed {seed}, it is dead: {sent:?}");
            net.segments[CABLE].loss = 0;
            let back = |n: &Net| path(n, 0, 1, LAST).spare && path(n, 1, 0, LAST).spare;
            assert!(net.run(20_000, back), "seed {seed}: the cable is not taken again");
            net.run(50, |_| false);
            let sent = carried(&mut net, tag + 100, 20);
            assert!(is_little(sent[LAST]), "seed {seed}, it is back: {sent:?}");
        }
    }
}

#[test]
fn a_link_that_goes_down_leaves_all_to_the_last_resort_at_once() {
    let mut net = net(2, &beside(), |_, at| at == LAST, 3);
    settle(&mut net, 2);
    for up in [false, true] {
        for node in &mut net.nodes {
            node.engine.set_link_up(net.now, LinkId(CABLE as u8), up);
        }
        if up {
            assert!(net.run(10_000, |n| path(n, 0, 1, LAST).spare && path(n, 1, 0, LAST).spare));
        }
        let sent = carried(&mut net, 100 + 100 * u64::from(up), 20);
        assert_eq!(is_little(sent[LAST]), up, "{sent:?}");
    }
}

#[test]
fn of_two_that_are_a_last_resort_the_better_one_is_used() {
    for seed in 1..10 {
        let mut net = net(2, &beside(), |_, _| true, seed);
        settle(&mut net, 2);
        talk(&mut net, 1, 400);
        assert!(path(&net, 0, 1, LAST).small && !path(&net, 0, 1, LAST).spare, "seed {seed}");
        let sent = carried(&mut net, 1_000, 20);
        assert!(sent[LAST] > 10 * sent[CABLE], "seed {seed}: {sent:?}");
    }
}

#[test]
fn a_cable_that_loses_much_or_is_far_is_used_before_the_last_resort() {
    for worse in [
        Segment { loss: 8, ..Segment::default() },
        Segment { delay_ns: 5_000_000, rate: 12, ..Segment::default() },
    ] {
        let mut net = net(2, &[worse, beside()[LAST].clone()], |_, at| at == LAST, 5);
        settle(&mut net, 2);
        let sent = carried(&mut net, 1, 50);
        assert!(sent[LAST] < sent[CABLE] / 20, "{sent:?}");
    }
}

/// Who has a cable to the one peer has none to the other.
#[test]
fn each_peer_is_reached_by_what_leads_to_it() {
    let mut segments = beside();
    segments[CABLE].mute = vec![2];
    let mut net = net(3, &segments, |_, at| at == LAST, 7);
    settle(&mut net, 2);
    for tag in 1..20 {
        let before = net.nodes[2].arrived;
        net.send(0, 2, tag, 8);
        assert!(net.run(10_000, |n| n.nodes[2].arrived > before));
    }
    let sent = carried(&mut net, 100, 20);
    assert!(sent[LAST] < sent[CABLE] / 100, "{sent:?}");
    assert!(path(&net, 0, 2, LAST).small && path(&net, 0, 1, LAST).spare);
}

/// Finds out for `ms` who hears what is sent to a group.
fn ask_for_hearers(net: &mut Net, group: u16, ms: u64) {
    let all: Vec<PeerId> = (0..net.nodes.len() as u32).map(PeerId).collect();
    for _ in 0..ms {
        for at in 0..net.nodes.len() {
            let others: Vec<PeerId> = all.iter().copied().filter(|p| p.index() != at).collect();
            let asked = net.nodes[at].engine.to_probe(net.now, &others);
            for link in (0..32).filter(|link| asked & (1 << link) != 0).map(LinkId) {
                net.nodes[at].engine.hear_probe(link, group, &mut net.burst).expect("a question");
                net.carry(at, link);
            }
            while let Some(link) = net.nodes[at].engine.hear_answer(&mut net.burst) {
                net.carry(at, link);
            }
        }
        net.run(1, |_| false);
    }
}

#[test]
fn what_is_for_a_group_goes_by_the_cable_until_it_is_down() {
    const GROUP: u16 = 5;
    let mut net = net(3, &beside(), |_, at| at == LAST, 9);
    net.nodes.iter_mut().for_each(|node| node.engine.hear_groups(&[GROUP]));
    for (from, to) in [(0, 1), (0, 2), (1, 2)] {
        let before = net.nodes[to].arrived;
        net.send(from, to, 1, 8);
        assert!(net.run(10_000, |n| n.nodes[to].arrived > before));
    }
    ask_for_hearers(&mut net, GROUP, 500);
    let by = |net: &Net| {
        let mut write = |_, _: &mut [u8]| ();
        let row = Row::one(8, &mut write);
        net.nodes[0].engine.loudest(&[PeerId(1), PeerId(2)], &row).map(LinkId::index)
    };
    assert_eq!(by(&net), Some(CABLE));
    assert!(!net.nodes[0].engine.hears(PeerId(1), LinkId(LAST as u8)));
    net.nodes[0].engine.set_link_up(net.now, LinkId(CABLE as u8), false);
    assert_eq!(by(&net), Some(LAST), "what is heard there is known already");
}
