//! Engines joined by a toy network.

mod toy;

use toy::{Net, Segment};
use weft_proto::Config;

#[test]
fn messages_of_all_sizes_arrive_in_order_without_loss() {
    let mut net = Net::new(2, &Config::default(), vec![Segment::default()], 1);
    let sizes = [0, 1, 8, 64, 1000, 1400, 1412, 1413, 1500, 4096, 16384];
    for (tag, &len) in sizes.iter().cycle().take(200).enumerate() {
        net.send(0, 1, tag as u64, len);
    }
    assert!(net.run(1000, |n| n.nodes[1].got.len() > 200), "{}", net.nodes[1].got.len());
    assert_eq!(net.nodes[1].tags(0), (0..200).collect::<Vec<_>>());
    net.run(100, |n| !n.nodes[0].engine.busy());
    assert!(!net.nodes[0].engine.busy());
    let c = net.nodes[0].engine.counters();
    assert_eq!((c.retransmits, c.spurious, c.frames_lost), (0, 0, 0), "{c:?}");
}

#[test]
fn a_lone_message_goes_in_one_frame_with_what_is_said_beside_it() {
    let mut net = Net::new(2, &Config::default(), vec![Segment::default()], 1);
    net.send(0, 1, 0, 8);
    assert!(net.run(1000, |n| !n.nodes[1].got.is_empty()));
    net.alone = true;
    let (frames, acks) = (net.frames, net.nodes[0].engine.counters().acks_only_sent);
    for tag in 1..200 {
        let (from, to) = ((tag % 2) as usize, (tag + 1) as usize % 2);
        let arrived = net.nodes[to].arrived;
        // All lengths that a lone message may have, and some that go the usual way.
        net.send(from, to, tag, tag as usize * 2);
        assert!(net.run(1, |n| n.nodes[to].arrived > arrived), "{tag}");
    }
    assert!(net.nodes[0].engine.counters().acks_only_sent <= acks + 2);
    assert!(net.frames <= frames + 199 + 10, "{} frames", net.frames - frames);
    for at in 0..2 {
        let tags = net.nodes[1 - at].tags(at);
        assert!(tags.windows(2).all(|w| w[0] < w[1]), "{tags:?}");
        let c = net.nodes[at].engine.counters();
        assert_eq!((c.retransmits, c.spurious, c.frames_lost), (0, 0, 0), "{c:?}");
    }
    net.run(100, |n| !n.nodes[0].engine.busy() && !n.nodes[1].engine.busy());
    assert!(!net.nodes[0].engine.busy() && !net.nodes[1].engine.busy());
}

/// Beside a message that fills its frame there is no room for words: they go alone when they are
/// due.
#[test]
fn a_message_that_fills_its_frame_goes_at_once_and_is_acknowledged_all_the_same() {
    let mut net = Net::new(2, &Config::default(), vec![Segment::default()], 1);
    net.send(0, 1, 0, 8);
    assert!(net.run(1000, |n| !n.nodes[1].got.is_empty()));
    net.alone = true;
    let before = net.nodes[0].engine.counters();
    for tag in 1..401 {
        let (from, to) = ((tag % 2) as usize, (tag + 1) as usize % 2);
        let arrived = net.nodes[to].arrived;
        net.send(from, to, tag, 1412);
        assert!(net.run(1, |n| n.nodes[to].arrived > arrived), "{tag}");
    }
    let after = net.nodes[0].engine.counters();
    let alone = after.messages_alone - before.messages_alone;
    // All but those for which a word that was due had to wait.
    assert!((180..=200).contains(&alone), "{alone} of 200 messages");
    assert!(net.run(100, |n| !n.nodes[0].engine.busy() && !n.nodes[1].engine.busy()));
    for node in &net.nodes {
        let c = node.engine.counters();
        assert_eq!((c.retransmits, c.spurious, c.frames_lost), (0, 0, 0), "{c:?}");
    }
}

#[test]
fn messages_there_and_back_without_a_pause_are_acknowledged_now_and_then() {
    let near = Segment { delay_ns: 1_000, ..Segment::default() };
    let mut net = Net::new(2, &Config::default(), vec![near], 1);
    net.send(0, 1, 0, 8);
    assert!(net.run(1000, |n| !n.nodes[1].got.is_empty()));
    // The frame size is found out meanwhile.
    net.run(20, |_| false);
    net.alone = true;
    let play = |net: &mut Net, tags: std::ops::Range<u64>, pause_ns: u64| {
        let before = net.nodes[0].engine.counters();
        for tag in tags {
            let (from, to) = ((tag % 2) as usize, (tag + 1) as usize % 2);
            let arrived = net.nodes[to].arrived;
            net.send(from, to, tag, 8);
            assert!(net.run(1, |n| n.nodes[to].arrived > arrived), "{tag}");
            net.now = net.now.plus(pause_ns);
        }
        let after = net.nodes[0].engine.counters();
        let only = after.acks_only_sent - before.acks_only_sent;
        (after.acks_sent - before.acks_sent, only)
    };
    let (acks, only) = play(&mut net, 1..401, 0);
    assert!((10..100).contains(&acks) && only <= 1, "{acks} with 200 messages, {only} alone");
    // With pauses each message carries what is to be said: it would else take a frame of its own.
    let (acks, only) = play(&mut net, 401..801, 15_000);
    assert!(acks >= 199 && only <= 1, "{acks} with 200 messages, {only} alone");
    net.run(100, |n| !n.nodes[0].engine.busy() && !n.nodes[1].engine.busy());
    for node in &net.nodes {
        let c = node.engine.counters();
        assert_eq!((c.retransmits, c.spurious, c.probe_timeouts), (0, 0, 0), "{c:?}");
        assert!(!node.engine.busy());
    }
}

#[test]
fn announced_messages_are_pulled_and_both_ends_learn() {
    let mut net = Net::new(2, &Config::default(), vec![Segment::default()], 1);
    let sizes = [0, 1, 1424, 1425, 100_000, 1 << 20];
    let ops: Vec<_> =
        sizes.iter().enumerate().map(|(tag, &len)| net.announce(0, 1, tag as u64, len)).collect();
    assert!(net.run(1000, |n| n.nodes[0].done().len() == ops.len()));
    let mut pulled = net.nodes[1].pulled(0);
    pulled.sort();
    assert_eq!(pulled, [0, 1, 2, 3, 4, 5]);
    assert_eq!(net.nodes[1].tags(0), [0, 1, 2, 3, 4, 5]);
    let c = net.nodes[0].engine.counters();
    assert_eq!((c.retransmits, c.spurious, c.frames_lost), (0, 0, 0), "{c:?}");
}
