//! Payloads that are sent before they are asked for.

mod toy;

use toy::{Got, Net, Segment};
use weft_proto::{Cause, Config, Incoming};
use weft_wire::{OpId, PeerId};

/// Two nodes that know each other; node 1 pulls what is announced to it if `pulls`.
fn net(pulls: bool) -> Net {
    let mut net = Net::new(2, &Config::default(), vec![Segment::default()], 1);
    net.send(0, 1, 999, 10);
    assert!(net.run(100, |n| n.nodes[1].arrived == 1 && !n.nodes[0].engine.busy()));
    net.nodes[1].auto_pull = pulls;
    net
}

/// Pulls the announcement with `tag` on node 1.
fn pull(net: &mut Net, tag: u64, most: u64) -> OpId {
    let found = net.nodes[1].got.iter().find_map(|got| match got {
        Got::Announced(peer, e, len, ticket) if e.tag == tag => Some((*peer, *e, *len, *ticket)),
        _ => None,
    });
    let (peer, e, len, ticket) = found.expect("it was announced");
    let now = net.now;
    net.nodes[1].pull(now, peer, e, len.min(most), ticket)
}

#[test]
fn what_is_pulled_at_once_needs_no_second_round_trip() {
    let mut net = net(true);
    let rtt_ns = 2 * Segment::default().delay_ns;
    let op = net.announce(0, 1, 1, 20_000);
    let sent_at = net.now;
    assert!(net.run(100, |n| n.nodes[1].pulled(0) == [1]));
    // 20 us for the bytes.
    assert!(net.now.since(sent_at) < 20_000 + rtt_ns, "{} ns", net.now.since(sent_at));
    assert!(net.run(100, |n| n.nodes[0].done() == [op]));
    let large = net.announce(0, 1, 2, 3_000_000);
    assert!(net.run(1000, |n| n.nodes[0].done() == [op, large]));
    assert_eq!(net.nodes[1].pulled(0), [1, 2]);
    let (sender, receiver) = (net.nodes[0].engine.counters(), net.nodes[1].engine.counters());
    assert_eq!((sender.pushed, receiver.pushed_in_vain), (2, 0));
    assert_eq!((sender.retransmits, sender.frames_lost), (0, 0), "{sender:?}");
}

#[test]
fn what_came_before_its_pull_is_kept_for_it() {
    for (len, kept) in [(60_000u64, 60_000u64), (3_000_000, Config::default().push_bytes)] {
        let mut net = net(false);
        let op = net.announce(0, 1, 1, len as usize);
        net.run(100, |_| false);
        assert!(net.nodes[0].done().is_empty(), "nobody has it");
        assert_eq!(net.nodes[0].engine.counters().bulk_bytes_sent, kept);
        pull(&mut net, 1, u64::MAX);
        assert!(net.run(100, |n| n.nodes[0].done() == [op] && n.nodes[1].pulled(0) == [1]));
        let (sender, receiver) = (net.nodes[0].engine.counters(), net.nodes[1].engine.counters());
        assert_eq!((sender.bulk_bytes_sent, sender.retransmits), (len, 0));
        assert_eq!(receiver.pushed_in_vain, 0);
    }
}

#[test]
fn many_that_came_before_their_pulls_are_pulled_in_any_order() {
    let mut net = net(false);
    let tags: Vec<u64> = (1..25).collect();
    let len = |tag: u64| 60_000 + tag as usize;
    let ops: Vec<_> = tags.iter().map(|&tag| net.announce(0, 1, tag, len(tag))).collect();
    net.run(100, |_| false);
    let most = u64::from(Config::default().push_most);
    assert!((1..=most).contains(&net.nodes[0].engine.counters().pushed));
    tags.iter().rev().for_each(|&tag| _ = pull(&mut net, tag, 60_000));
    assert!(net.run(100, |n| n.nodes[0].done().len() == ops.len()));
    let mut pulled = net.nodes[1].pulled(0);
    pulled.sort();
    assert_eq!(pulled, tags);
}

#[test]
fn what_came_before_its_announcement_is_sent_anew_and_teaches_the_sender() {
    let mut net = net(false);
    net.segments[0].jitter_ns = 50_000;
    net.segments[0].mtu = 9_000;
    let first = net.announce(0, 1, 1, 60_000);
    net.run(100, |_| false);
    net.segments[0].jitter_ns = 0;
    assert!(net.nodes[0].done().is_empty(), "nobody has it");
    assert!(net.nodes[1].engine.counters().pushed_in_vain > 0);
    pull(&mut net, 1, u64::MAX);
    assert!(net.run(100, |n| n.nodes[0].done() == [first] && n.nodes[1].pulled(0) == [1]));
    net.nodes[1].auto_pull = true;
    let ops: Vec<_> = (2..7).map(|tag| net.announce(0, 1, tag, 60_000)).collect();
    assert!(net.run(100, |n| n.nodes[0].done().len() == 1 + ops.len()));
    assert_eq!(
        net.nodes[0].engine.counters().pushed,
        2,
        "two were not pushed, one was, two waited"
    );
}

#[test]
fn less_may_be_pulled_than_was_pushed() {
    for late in [false, true] {
        let mut net = net(false);
        let op = net.announce(0, 1, 1, 60_000);
        let announced = |n: &Net| n.nodes[1].got.iter().any(|g| matches!(g, Got::Announced(..)));
        assert!(net.run(100, announced));
        if late {
            net.run(100, |_| false);
        }
        pull(&mut net, 1, 10_001);
        assert!(net.run(100, |n| n.nodes[0].done() == [op] && n.nodes[1].pulled(0) == [1]));
        net.run(100, |n| !n.nodes[0].engine.busy() && !n.nodes[1].engine.busy());
        assert!(!net.nodes[0].engine.busy() && !net.nodes[1].engine.busy());
    }
}

#[test]
fn a_pushed_message_can_be_withdrawn_until_all_of_it_has_gone() {
    let mut net = net(false);
    let whole = net.announce(0, 1, 2, 60_000);
    let op = net.announce(0, 1, 1, 600_000);
    net.run(100, |_| false);
    let now = net.now;
    assert!(!net.nodes[0].engine.withdraw(now, PeerId(1), whole));
    pull(&mut net, 2, u64::MAX);
    assert!(net.run(100, |n| n.nodes[0].done() == [whole] && n.nodes[1].pulled(0) == [2]));
    let now = net.now;
    assert!(net.nodes[0].engine.withdraw(now, PeerId(1), op));
    let op = pull(&mut net, 1, u64::MAX);
    let failed = Got::Other(Incoming::Failed { op, peer: PeerId(0), why: Cause::Withdrawn });
    assert!(net.run(100, |n| n.nodes[1].got.contains(&failed)));
    let (engine, now) = (&mut net.nodes[0].engine, net.now);
    engine.close(now);
    assert!(net.run(3000, |n| !n.nodes[0].engine.busy()));
}

#[test]
fn what_waits_behind_a_message_cut_short_is_sent() {
    let mut net = net(false);
    let ops = [net.announce(0, 1, 1, 60_000), net.announce(0, 1, 2, 200)];
    let is_announced = |g: &&Got| matches!(g, Got::Announced(..));
    let announced = |n: &Net| n.nodes[1].got.iter().filter(is_announced).count();
    // Before the window has let all of the first be pushed.
    assert!(net.run(100, |n| announced(n) == 2));
    pull(&mut net, 1, 10_001);
    pull(&mut net, 2, u64::MAX);
    assert!(net.run(100, |n| n.nodes[0].done().len() == ops.len()), "{:?}", net.nodes[0].done());
    let mut pulled = net.nodes[1].pulled(0);
    pulled.sort();
    assert_eq!(pulled, [1, 2]);
}
