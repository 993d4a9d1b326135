//! Who waits for a message to arrive is told so by its acknowledgement.

mod toy;

use toy::{Net, Segment};
use weft_proto::{Cause, Config, Incoming};
use weft_wire::OpId;

/// Two that have met.
fn net(segment: Segment) -> Net {
    let mut net = Net::new(2, &Config::default(), vec![segment], 1);
    net.send(0, 1, 0, 8);
    assert!(net.run(1000, |n| !n.nodes[1].got.is_empty()));
    assert!(net.run(1000, |n| !n.nodes[0].engine.busy()));
    net
}

fn failed(net: &Net, op: OpId) -> Option<Cause> {
    net.nodes[0].others().find_map(|event| match event {
        Incoming::Failed { op: failed, why, .. } if *failed == op => Some(*why),
        _ => None,
    })
}

#[test]
fn it_is_told_of_each_message_once_and_after_it_has_come() {
    for alone in [false, true] {
        let mut net = net(Segment::default());
        net.alone = alone;
        let mut ops = Vec::new();
        for tag in 1..200 {
            // From nothing to many fragments; those in between go untold.
            ops.push(net.send_awaited(0, 1, tag * 2, (tag * 80) as usize));
            assert!(net.nodes[0].done().len() < ops.len(), "not before it could be");
            net.send(0, 1, tag * 2 + 1, 8);
            let done = |n: &Net| n.nodes[0].done().len();
            assert!(net.run(100, |n| done(n) == tag as usize), "{tag} alone {alone}");
            assert!(net.nodes[1].tags(0).contains(&(tag * 2)), "{tag} alone {alone}");
        }
        assert_eq!(net.nodes[0].done(), ops);
        net.run(100, |n| !n.nodes[0].engine.busy());
        let c = net.nodes[0].engine.counters();
        assert_eq!((c.retransmits, c.spurious, c.frames_lost), (0, 0, 0), "{c:?}");
    }
}

#[test]
fn where_the_peer_answers_it_costs_no_frame() {
    let mut net = net(Segment { delay_ns: 1_000, ..Segment::default() });
    net.alone = true;
    let frames = net.frames;
    for tag in 1..101 {
        let (from, to) = ((tag % 2) as usize, (tag + 1) as usize % 2);
        let arrived = net.nodes[to].arrived;
        net.send_awaited(from, to, tag, 8);
        assert!(net.run(1, |n| n.nodes[to].arrived > arrived), "{tag}");
        if tag > 1 {
            let told = net.nodes[to].done().len() as u64;
            assert_eq!(told, tag / 2, "the answer said that its question had come");
        }
    }
    assert!(net.frames <= frames + 102, "{} frames for 100 messages", net.frames - frames);
}

#[test]
fn where_nobody_answers_it_takes_microseconds() {
    let config = Config::default();
    let mut net = net(Segment { delay_ns: 1_000, ..Segment::default() });
    let start = net.now;
    net.send_awaited(0, 1, 1, 8);
    assert!(net.run(1, |n| n.nodes[0].done().len() == 1));
    let took = net.now.since(start);
    assert!(took < 2 * 2_000 + config.ack_soon_ns && took < config.ack_delay_ns, "{took} ns");
}

#[test]
fn it_comes_through_loss_and_disorder() {
    let bad = Segment { loss: 15, duplicate: 10, jitter_ns: 30_000, ..Segment::default() };
    let mut net = net(Segment::default());
    net.segments[0] = bad;
    let ops: Vec<_> = (1..300).map(|tag| net.send_awaited(0, 1, tag, 300)).collect();
    assert!(net.run(20_000, |n| n.nodes[0].done().len() == ops.len()));
    assert_eq!(net.nodes[0].done(), ops, "in order");
    assert_eq!(net.nodes[1].tags(0).len(), 300);
}

/// The acknowledgement was lost, and the peer, which has all that it wanted, will not be there to
/// repeat it.
#[test]
fn a_peer_that_has_it_and_closes_says_so_with_its_last_word() {
    let mut net = net(Segment::default());
    net.segments[0].mute = vec![1];
    let op = net.send_awaited(0, 1, 1, 8);
    assert!(net.run(1, |n| n.nodes[1].arrived == 2));
    let sent = net.nodes[1].engine.counters().acks_sent;
    assert!(net.run(1, |n| n.nodes[1].engine.counters().acks_sent > sent), "into the void");
    net.segments[0].mute.clear();
    let now = net.now;
    net.nodes[1].engine.close(now);
    let gone = |n: &Net| n.nodes[0].others().any(|e| matches!(e, Incoming::Dead { .. }));
    assert!(net.run(1000, gone));
    assert_eq!((net.nodes[0].done(), failed(&net, op)), (vec![op], None));
}

#[test]
fn with_a_peer_that_dies_it_fails() {
    let mut net = net(Segment::default());
    net.nodes[1].alive = false;
    let op = net.send_awaited(0, 1, 1, 8);
    assert!(net.run(60_000, |n| failed(n, op).is_some()));
    assert!(matches!(failed(&net, op), Some(Cause::Silent { .. })), "{:?}", failed(&net, op));
    assert!(net.nodes[0].done().is_empty());
    let left = net.nodes[0].others().filter(|e| matches!(e, Incoming::Failed { .. })).count();
    assert_eq!(left, 1, "told once");
}
