//! How peers meet and part: hello, silence, restart, goodbye, links that fail, frames too large.

mod toy;

use toy::{KEY, Net, Segment, address, envelope};
use weft_proto::{Cause, Config, Engine, Incoming, LinkSpec, SendError, Warning};
use weft_wire::{
    FrameError, HEADER_LEN, Hello, JobKey, LinkAddr, LinkId, OpId, PeerId, Ticket, VERSION,
};

fn net(segments: usize) -> Net {
    Net::new(2, &Config::default(), vec![Segment::default(); segments], 1)
}

fn causes(net: &Net, node: usize) -> Vec<Cause> {
    let dead = net.nodes[node].others().filter_map(|e| match e {
        Incoming::Dead { why, .. } => Some(*why),
        _ => None,
    });
    dead.collect()
}

#[test]
fn a_peer_that_never_answers_is_given_up_with_what_was_tried() {
    let mut net = net(2);
    net.nodes[1].alive = false;
    net.send(0, 1, 1, 10);
    let op = net.announce(0, 1, 2, 100);
    assert!(net.run(20_000, |n| !causes(n, 0).is_empty()));
    let [Cause::NoAnswer { waited_ms, hellos, links: 2, other_key: false }] = causes(&net, 0)[..]
    else {
        panic!("{:?}", causes(&net, 0))
    };
    assert!(waited_ms >= 10_000 && hellos > 20, "{waited_ms} ms, {hellos} hellos");
    assert!(net.nodes[0].others().any(|e| matches!(e, Incoming::Failed { op: o, .. } if *o == op)));
    let again = net.nodes[0].engine.send(net.now, PeerId(1), &envelope(3), b"x");
    assert!(matches!(again, Err(SendError::Dead(Cause::NoAnswer { .. }))));
    assert!(!net.nodes[0].engine.busy());
}

#[test]
fn a_peer_that_is_stopped_before_it_was_met_has_the_time_of_any_other() {
    let mut config = Config::default();
    config.set_silence_limit(1_000_000_000);
    assert_eq!(config.hello_limit_ns, Config::default().hello_limit_ns, "it may start late");
    config.set_silence_limit(60_000_000_000);
    let mut net = Net::new(2, &config, vec![Segment::default()], 1);
    net.nodes[1].alive = false;
    net.send(0, 1, 1, 10);
    net.run(55_000, |_| false);
    net.nodes[1].alive = true;
    assert!(net.run(1_000, |n| n.nodes[1].tags(0) == [1]), "{:?}", causes(&net, 0));
}

#[test]
fn a_peer_without_any_link_is_given_up_too() {
    let mut net = net(1);
    net.nodes[0].engine.set_link_up(net.now, LinkId(0), false);
    net.send(0, 1, 1, 10);
    net.run(20_000, |n| !causes(n, 0).is_empty());
    assert_eq!(causes(&net, 0), [Cause::NoLink]);
}

#[test]
fn a_late_starter_is_found() {
    let mut net = net(1);
    net.nodes[1].alive = false;
    net.send(0, 1, 1, 10);
    net.run(6_000, |_| false);
    net.nodes[1].alive = true;
    assert!(net.run(1_000, |n| n.nodes[1].tags(0) == [1]));
}

#[test]
fn the_death_of_an_idle_peer_is_noticed_and_ends_what_waits_for_it() {
    let mut net = net(2);
    net.nodes[0].auto_pull = false;
    net.send(0, 1, 1, 10);
    net.announce(1, 0, 2, 5_000);
    net.run(1_000, |n| n.nodes[0].arrived == 1 && n.nodes[1].arrived == 1);
    net.run(30_000, |_| false);
    assert!(causes(&net, 0).is_empty(), "idle is not dead");
    let frames = net.frames;
    net.run(10_000, |_| false);
    assert!(net.frames - frames < 100, "an idle connection is quiet: {}", net.frames - frames);
    net.nodes[1].alive = false;
    let died = net.now;
    let op = net.nodes[0].pull(net.now, PeerId(1), envelope(2), 100, Ticket(1 << 24));
    assert!(net.run(20_000, |n| !causes(n, 0).is_empty()));
    let waited = net.now.since(died) / 1_000_000;
    assert!((4_000..=7_000).contains(&waited), "{waited} ms");
    let fate: Vec<_> =
        net.nodes[0].others().filter(|e| !matches!(e, Incoming::Alive { .. })).collect();
    assert!(
        matches!(fate[..], [.., Incoming::Failed { op: o, .. }, Incoming::Dead { .. }] if *o == op)
    );
}

#[test]
fn a_process_that_was_itself_stopped_buries_nobody() {
    let mut net = net(1);
    net.send(0, 1, 1, 10);
    net.run(1_000, |n| n.nodes[1].arrived == 1);
    // Nobody runs for a minute; then both go on.
    net.now = net.now.plus(60_000_000_000);
    net.send(0, 1, 2, 10);
    net.run(20_000, |n| n.nodes[1].arrived == 2);
    net.run(20_000, |_| false);
    assert_eq!((causes(&net, 0), causes(&net, 1)), (vec![], vec![]));
}

#[test]
fn who_may_have_answered_is_not_buried_before_all_that_came_is_read() {
    let mut net = net(1);
    net.send(0, 1, 1, 10);
    net.run(1_000, |n| n.nodes[1].arrived == 1);
    // Node 0 looks, and what it finds never comes to an end.
    net.nodes[1].alive = false;
    for _ in 0..200 {
        net.nodes[0].engine.looks(net.now);
        net.run(100, |_| false);
    }
    assert_eq!(causes(&net, 0), []);
    net.nodes[0].engine.found_none();
    assert!(net.run(10_000, |n| !causes(n, 0).is_empty()), "a dead one is noticed then");
}

#[test]
fn a_restarted_process_is_not_taken_for_the_former_one() {
    let mut net = net(1);
    net.send(0, 1, 1, 10);
    net.run(1_000, |n| n.nodes[1].arrived == 1);
    let mut reborn = address(1);
    reborn.nonce += 1;
    let mut engine = Engine::new(Config::default(), reborn, KEY, 1);
    engine.add_link(LinkSpec {
        addr: LinkAddr::Port(1),
        everyone: Some(LinkAddr::Port(u32::MAX)),
        ..LinkSpec::default()
    });
    engine.add_peer(PeerId(0), &address(0));
    net.nodes[1] = toy::Node::new(engine);
    net.send(1, 0, 5, 10);
    net.run(1_000, |n| !causes(n, 0).is_empty());
    assert_eq!(causes(&net, 0), [Cause::Restarted]);
    assert!(net.nodes[0].tags(1).is_empty());
}

#[test]
fn a_message_sent_just_before_closing_arrives_and_closing_ends() {
    for loss in [0, 20] {
        let segment = Segment { loss, ..Segment::default() };
        let mut net = Net::new(2, &Config::default(), vec![segment], 3);
        net.send(0, 1, 1, 9_000);
        net.announce(0, 1, 2, 300_000);
        let now = net.now;
        net.nodes[0].engine.close(now);
        assert!(net.run(2_500, |n| !n.nodes[0].engine.busy()), "closing ends");
        assert_eq!((net.nodes[1].tags(0), net.nodes[1].pulled(0)), (vec![1, 2], vec![2]));
        net.nodes[0].alive = false;
        net.run(10, |n| !causes(n, 1).is_empty());
        assert_eq!(causes(&net, 1), [Cause::Closed]);
        let refused = net.nodes[1].engine.send(net.now, PeerId(0), &envelope(3), b"x");
        assert_eq!(refused, Err(SendError::Dead(Cause::Closed)));
        // The other end closes later, when nobody is there any more.
        let now = net.now;
        net.nodes[1].engine.close(now);
        assert!(!net.nodes[1].engine.busy());
    }
}

#[test]
fn who_has_all_that_it_pulled_and_closes_leaves_no_sender_in_doubt() {
    for seed in 1..100 {
        let segment = Segment { loss: 20, jitter_ns: 100_000, ..Segment::default() };
        let mut net = Net::new(2, &Config::default(), vec![segment.clone(), segment], seed);
        let op = net.announce(0, 1, 1, 30_000);
        assert!(net.run(2_500, |n| n.nodes[1].pulled(0) == [1]), "seed {seed}");
        let now = net.now;
        net.nodes[1].engine.close(now);
        assert!(net.run(2_500, |n| !n.nodes[1].engine.busy()), "seed {seed}: closing ends");
        net.nodes[1].alive = false;
        net.run(10, |n| !causes(n, 0).is_empty());
        assert_eq!(causes(&net, 0), [Cause::Closed], "seed {seed}");
        assert_eq!(net.nodes[0].done(), [op], "seed {seed}");
    }
}

#[test]
fn both_may_close_at_once_and_a_dead_peer_does_not_keep_us() {
    let mut net = net(1);
    net.send(0, 1, 1, 10);
    net.send(1, 0, 2, 10);
    let now = net.now;
    (0..2).for_each(|n| net.nodes[n].engine.close(now));
    assert!(net.run(500, |n| n.nodes.iter().all(|n| !n.engine.busy())));
    assert_eq!((net.nodes[1].tags(0), net.nodes[0].tags(1)), (vec![1], vec![2]));

    // It was not yet known that it is dead, but there is nothing for it.
    let mut net = self::net(1);
    net.send(0, 1, 1, 10);
    net.run(100, |_| false);
    net.nodes[1].alive = false;
    close(&mut net, 0);
    assert!(net.run(2_001, |n| !n.nodes[0].engine.busy()), "closing is bounded");
    assert_eq!(undelivered(&net, 0), (0, None));

    // It is known that it is dead.
    let mut net = self::net(1);
    net.nodes[1].alive = false;
    net.send(0, 1, 1, 10);
    net.run(20_000, |n| !causes(n, 0).is_empty());
    close(&mut net, 0);
    assert!(!net.nodes[0].engine.busy());
    assert_eq!(undelivered(&net, 0), (1, None), "its death was told already");
}

fn close(net: &mut Net, node: usize) {
    let now = net.now;
    net.nodes[node].engine.close(now);
}

/// Messages that are counted as not delivered, and what the owner was told of them.
fn undelivered(net: &Net, node: usize) -> (u64, Option<(u64, u64)>) {
    let told = net.nodes[node].others().find_map(|e| match e {
        Incoming::Warning { what: Warning::Undelivered { messages, bytes }, .. } => {
            Some((*messages, *bytes))
        }
        _ => None,
    });
    (net.nodes[node].engine.counters().undelivered, told)
}

#[test]
fn closing_waits_for_a_peer_that_does_not_run_for_a_while() {
    for (stopped_ms, large) in [(1_900, false), (4_500, false), (1_900, true), (4_500, true)] {
        let mut net = net(1);
        net.send(0, 1, 1, 10);
        net.run(100, |_| false);
        net.nodes[1].alive = false;
        match large {
            true => _ = net.announce(0, 1, 2, 3_000_000),
            false => net.send(0, 1, 2, 9_000),
        }
        close(&mut net, 0);
        net.run(stopped_ms, |_| false);
        net.nodes[1].alive = true;
        assert!(net.run(4_100, |n| !n.nodes[0].engine.busy()), "closing ends");
        assert_eq!(net.nodes[1].tags(0), [1, 2], "stopped for {stopped_ms} ms");
        assert_eq!(
            (net.nodes[1].pulled(0).len(), causes(&net, 1)),
            (large.into(), vec![Cause::Closed])
        );
        assert_eq!(undelivered(&net, 0), (0, None));
    }
}

#[test]
fn who_closes_is_told_what_did_not_arrive() {
    // The peer was heard before, or never.
    for met in [true, false] {
        let mut net = net(1);
        if met {
            net.send(0, 1, 1, 10);
            net.run(100, |_| false);
        }
        net.nodes[1].alive = false;
        (2..7).for_each(|tag| net.send(0, 1, tag, 1_000));
        net.announce(0, 1, 7, 300_000);
        close(&mut net, 0);
        let limit = if met { 7_000 } else { 11_000 };
        assert!(net.run(limit, |n| !n.nodes[0].engine.busy()), "closing ends");
        net.run(1, |_| false);
        assert_eq!(undelivered(&net, 0), (6, Some((6, 305_000))));
    }
}

#[test]
fn closing_does_not_wait_for_those_who_never_ask() {
    let mut net = net(1);
    (0..2).for_each(|n| net.nodes[n].auto_pull = false);
    net.announce(0, 1, 1, 300_000);
    net.announce(1, 0, 2, 300_000);
    net.run(1_000, |_| false);
    (0..2).for_each(|n| close(&mut net, n));
    assert!(net.run(2_100, |n| n.nodes.iter().all(|n| !n.engine.busy())));
    net.run(1, |_| false);
    assert_eq!(undelivered(&net, 0), (1, Some((1, 300_000))));
}

#[test]
fn frames_that_are_too_large_in_the_middle_are_found_and_told() {
    let specs = [LinkSpec { mtu: 8972, ..LinkSpec::default() }];
    let segment = Segment { mtu: 1472, ..Segment::default() };
    let mut net = Net::with_links(2, &Config::default(), vec![segment], &specs, 1);
    net.announce(0, 1, 1, 1_000_000);
    assert!(net.run(5_000, |n| n.nodes[1].pulled(0) == [1]));
    net.run(1_000, |_| false);
    let warned = net.nodes[0].others().any(|e| {
        matches!(e, Incoming::Warning { what: Warning::MtuReduced { wanted: 8972, .. }, .. })
    });
    assert!(warned && net.nodes[0].engine.counters().mtu_reduced > 0);
    let before = net.nodes[0].engine.counters();
    net.announce(0, 1, 2, 1_000_000);
    assert!(net.run(5_000, |n| n.nodes[1].pulled(0) == [1, 2]));
    let sent = net.nodes[0].engine.counters().frames_sent - before.frames_sent;
    assert!(sent < 800, "frames of 1472 bytes are used, not of 1232: {sent}");
}

#[test]
fn a_link_that_goes_down_under_load_loses_nothing() {
    let mut net = net(2);
    for tag in 0..40 {
        net.announce(0, 1, tag, 200_000);
        net.send(0, 1, 100 + tag, 3_000);
    }
    net.run(1, |_| false);
    let now = net.now;
    net.nodes[0].engine.set_link_up(now, LinkId(0), false);
    net.segments[0].mute = vec![0, 1];
    net.run(20, |_| false);
    let now = net.now;
    net.nodes[0].engine.set_link_up(now, LinkId(0), true);
    net.segments[0].mute.clear();
    net.segments[1].mute = vec![0, 1];
    assert!(net.run(20_000, |n| n.nodes[1].arrived == 120), "{}", net.nodes[1].arrived);
    assert_eq!((causes(&net, 0), causes(&net, 1)), (vec![], vec![]));
}

#[test]
fn a_cable_pulled_without_notice_is_survived_and_told() {
    let mut net = net(2);
    (0..40).for_each(|tag| _ = net.announce(0, 1, tag, 200_000));
    net.run(1, |_| false);
    net.segments[1].mute = vec![0, 1];
    assert!(net.run(3_000, |n| n.nodes[1].arrived == 80), "{}", net.nodes[1].arrived);
    let told = Warning::PathSuspect { link: LinkId(1) };
    assert!(
        net.nodes[0].others().any(|e| matches!(e, Incoming::Warning { what, .. } if *what == told))
    );
    net.segments[1].mute.clear();
    net.run(3_000, |_| false);
    let frames = net.nodes[0].engine.counters();
    net.announce(0, 1, 100, 200_000);
    assert!(net.run(1_000, |n| n.nodes[1].arrived == 82));
    assert_eq!(net.nodes[0].engine.counters().frames_lost, frames.frames_lost);
}

#[test]
fn an_idle_peer_answers_over_the_cable_that_it_is_asked_over() {
    let mut net = net(2);
    net.send(0, 1, 1, 10);
    net.run(2_000, |_| false);
    // Node 0's end of the first cable is down, and node 1, which has nothing to send, cannot see
    // it.
    let now = net.now;
    net.nodes[0].engine.set_link_up(now, LinkId(0), false);
    net.segments[0].mute = vec![0, 1];
    net.run(30_000, |_| false);
    assert_eq!((causes(&net, 0), causes(&net, 1)), (vec![], vec![]));
    net.announce(0, 1, 2, 100_000);
    assert!(net.run(1_000, |n| n.nodes[1].pulled(0) == [2]));
}

#[test]
fn stop_and_go_are_obeyed_and_counted() {
    let mut net = net(1);
    net.send(0, 1, 1, 10);
    net.run(100, |n| n.nodes[1].arrived == 1);
    let now = net.now;
    net.nodes[1].engine.hold(now, PeerId(0), true);
    net.run(100, |n| n.nodes[0].engine.is_held(PeerId(1)));
    let held = net.nodes[0].engine.send(net.now, PeerId(1), &envelope(2), b"x");
    assert_eq!(held, Err(SendError::Held));
    net.announce(0, 1, 2, 10);
    assert!(net.run(100, |n| n.nodes[1].pulled(0) == [2]), "announcing is always allowed");
    let now = net.now;
    net.nodes[1].engine.hold(now, PeerId(0), false);
    net.run(100, |n| !n.nodes[0].engine.is_held(PeerId(1)));
    net.send(0, 1, 3, 10);
    let (a, b) = (net.nodes[0].engine.counters(), net.nodes[1].engine.counters());
    assert_eq!((a.stops_received, a.gos_received, b.stops_sent, b.gos_sent), (1, 1, 1, 1));
}

#[test]
fn a_withdrawn_announcement_fails_at_the_peer_only() {
    let mut net = net(1);
    net.nodes[1].auto_pull = false;
    let op = net.announce(0, 1, 1, 1_000);
    net.run(100, |n| n.nodes[1].arrived == 1);
    let toy::Got::Announced(peer, e, len, ticket) =
        net.nodes[1].got.iter().find(|g| matches!(g, toy::Got::Announced(..))).cloned().unwrap()
    else {
        unreachable!()
    };
    let now = net.now;
    assert!(net.nodes[0].engine.withdraw(now, PeerId(1), op));
    assert!(!net.nodes[0].engine.withdraw(now, PeerId(1), op));
    let pull = net.nodes[1].pull(now, peer, e, len, ticket);
    net.run(100, |n| n.nodes[1].others().any(|e| matches!(e, Incoming::Failed { .. })));
    let failed = Incoming::Failed { op: pull, peer: PeerId(0), why: Cause::Withdrawn };
    assert!(net.nodes[1].others().any(|e| *e == failed));
    assert_eq!(net.nodes[0].done(), []);
    let bogus = net.nodes[1].pull(net.now, peer, e, 77, Ticket(123));
    net.run(100, |n| {
        n.nodes[1].others().any(|e| matches!(e, Incoming::Failed { op, .. } if *op == bogus))
    });
    assert_eq!(net.nodes[1].engine.config().ack_every, 32);
}

fn hello(versions: (u8, u8), nonce: u64) -> Hello {
    let mut from = address(1);
    from.nonce = nonce;
    Hello {
        versions,
        reply: false,
        path: 0,
        index: 0,
        mtu: 1472,
        messages: 10,
        bytes: 1000,
        to_node: address(0).node,
        to_nonce: address(0).nonce,
        to_port: address(0).port,
        hops: 0,
        last_resort: false,
        from,
    }
}

#[test]
fn who_greets_and_does_not_answer_is_dead_in_the_end() {
    let mut net = net(1);
    net.send(0, 1, 1, 10);
    assert!(net.run(100, |n| n.nodes[1].arrived == 1 && !n.nodes[0].engine.busy()));
    // From now on only what it sends to everyone arrives, as where two have one Ethernet address.
    net.segments[0].mute = vec![0, 1];
    let (from, said) = (LinkAddr::Port(1), hello((0, u8::MAX), address(1).nonce));
    for _ in 0..60 {
        let mut frame = [0; 200];
        let len = said.encode(KEY.job(), &KEY.hello(), &mut frame);
        let now = net.now;
        let _ = net.nodes[0].engine.receive(now, LinkId(0), &from, &frame[..len]);
        net.events(0, &frame[..len]);
        net.run(250, |_| false);
    }
    let dead = |e: &Incoming| matches!(e, Incoming::Dead { why: Cause::Silent { .. }, .. });
    assert!(net.nodes[0].others().any(dead), "{:?}", net.nodes[0].got);
}

#[test]
fn another_version_and_another_key_are_named() {
    let mut net = net(1);
    net.send(0, 1, 1, 10);
    let (now, mut frame) = (net.now, [0; 200]);
    let other = JobKey([9; 16]);
    let said = hello((1, 1), address(1).nonce);
    let len = said.encode(KEY.job(), &other.hello(), &mut frame);
    let engine = &mut net.nodes[0].engine;
    let from = LinkAddr::Port(1);
    assert_eq!(engine.receive(now, LinkId(0), &from, &frame[..len]), Err(FrameError::Tag));
    let len = said.encode(other.job(), &KEY.hello(), &mut frame);
    assert_eq!(engine.receive(now, LinkId(0), &from, &frame[..len]), Err(FrameError::Job));
    assert_eq!(engine.counters().dropped_key, 2);
    net.nodes[1].alive = false;
    net.run(20_000, |n| !causes(n, 0).is_empty());
    let told = causes(&net, 0)[0];
    assert!(matches!(told, Cause::NoAnswer { other_key: true, .. }), "{told:?}");
    assert!(told.to_string().contains("another job key"), "{told}");

    let mut net = self::net(1);
    net.send(0, 1, 1, 10);
    let said = hello((VERSION + 1, VERSION + 2), address(1).nonce);
    let len = said.encode(KEY.job(), &KEY.hello(), &mut frame);
    frame[1] = VERSION + 2;
    // The header's version is under the proof as well.
    let now = net.now;
    let engine = &mut net.nodes[0].engine;
    assert_eq!(engine.receive(now, LinkId(0), &from, &frame[..len]), Err(FrameError::Tag));
    frame[1] = VERSION;
    engine.receive(now, LinkId(0), &from, &frame[..len]).unwrap();
    net.events(0, &[]);
    let told = causes(&net, 0)[0];
    assert_eq!(told, Cause::Version { lowest: VERSION + 1, highest: VERSION + 2 });
    let words = format!("speaks version {} to {}", VERSION + 1, VERSION + 2);
    assert!(told.to_string().contains(&words), "{told}");
}

#[test]
fn frames_for_others_and_nonsense_are_counted_by_cause() {
    let mut net = net(1);
    net.send(0, 1, 1, 100);
    net.run(100, |n| n.nodes[1].arrived == 1);
    let (now, link, from) = (net.now, LinkId(0), LinkAddr::Port(1));
    let engine = &mut net.nodes[0].engine;
    let mut take = |frame: &[u8]| engine.receive(now, link, &from, frame);
    assert_eq!(take(&[]), Err(FrameError::Short(0)));
    assert_eq!(take(&[0; 64]), Err(FrameError::Magic));
    let mut frame = [0; 64];
    let header = |kind, port, job, index, path| weft_wire::Header {
        kind,
        flags: 0,
        port,
        job,
        len: 32,
        index,
        path,
        number: 900,
        crc: 0,
    };
    let key = KEY.connection(address(1).nonce, address(0).nonce);
    let stream = weft_wire::FrameKind::Stream;
    let job = KEY.job();
    let mut sealed = |h: weft_wire::Header, body: u8| {
        frame[HEADER_LEN..].fill(body);
        h.seal(&key, &mut frame);
        frame
    };
    assert_eq!(take(&sealed(header(stream, 8, job, 1, 0), 0)), Err(FrameError::Port(8)));
    assert_eq!(take(&sealed(header(stream, 7, 1, 1, 0), 0)), Err(FrameError::Job));
    assert_eq!(take(&sealed(header(stream, 7, job, 99, 0), 0)), Err(FrameError::Index(99)));
    assert_eq!(take(&sealed(header(stream, 7, job, 1, 200), 0)), Err(FrameError::Path(200)));
    let mut bad = sealed(header(stream, 7, job, 1, 0), 0);
    bad[25] ^= 1;
    assert_eq!(take(&bad), Err(FrameError::Tag));
    let summed = weft_wire::Header { flags: weft_wire::flags::CRC, ..header(stream, 7, job, 1, 0) };
    let mut bad = sealed(summed, 0);
    bad[HEADER_LEN] ^= 1;
    assert_eq!(take(&bad), Err(FrameError::Crc));
    // A genuine frame with a chunk of an unknown kind is not acknowledged.
    let strange = sealed(header(stream, 7, job, 1, 0), 0xee);
    assert_eq!(take(&strange), Ok(()));
    assert_eq!(engine.next(now, &strange), None);
    assert_eq!(engine.receive(now, link, &from, &strange), Ok(()), "not seen as received");
    let c = engine.counters();
    assert_eq!((c.dropped_short, c.dropped_foreign, c.dropped_port, c.dropped_job), (1, 1, 1, 1));
    assert_eq!((c.dropped_connection, c.dropped_tag, c.dropped_malformed), (1, 1, 2));
    assert_eq!(c.dropped_crc, 1);
    let _ = OpId(0);
}

#[test]
fn an_owner_that_does_not_read_loses_nothing_and_holds_nothing() {
    let mut net = net(1);
    (0..20).for_each(|tag| net.send(0, 1, tag, 1_000));
    net.run(100, |n| n.nodes[1].arrived >= 1);
    // A frame whose events are never fetched is as good as lost.
    (20..40).for_each(|tag| net.send(0, 1, tag, 1_000));
    net.nodes[1].deaf = true;
    net.run(300, |_| false);
    let before = net.nodes[1].arrived;
    assert!(before < 40);
    net.nodes[1].deaf = false;
    assert!(net.run(2_000, |n| n.nodes[1].arrived == 40));
    assert_eq!(net.nodes[1].tags(0), (0..40).collect::<Vec<_>>());
}
