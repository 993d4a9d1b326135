//! How many messages one peer may announce that nobody asks for.

mod toy;

use toy::{Got, KEY, Net, Node, Segment, address, envelope, payload};
use weft_proto::{Cause, Config, Engine, Incoming, LinkSpec, SendError};
use weft_wire::{Envelope, Kind, LinkAddr, OpId, PeerId, Ticket};

/// So many, of which two are for answers.
fn few() -> Config {
    Config { announced_most: 8, announced_answers: 2, ..Config::default() }
}

fn net(config: &Config) -> Net {
    let mut net = Net::new(2, config, vec![Segment::default()], 1);
    net.nodes[1].auto_pull = false;
    net
}

fn announce(net: &mut Net, envelope: &Envelope) -> Result<OpId, SendError> {
    let (now, node) = (net.now, &mut net.nodes[0]);
    let op = node.op();
    node.ops.0.insert(op, payload(envelope.tag, 4000));
    node.engine.announce(now, PeerId(1), envelope, 4000, op).map(|()| op)
}

/// Announces until there is no room.
fn fill(net: &mut Net) -> Vec<OpId> {
    let mut ops = Vec::new();
    loop {
        match announce(net, &envelope(ops.len() as u64)) {
            Ok(op) => ops.push(op),
            Err(why) => {
                assert_eq!(why, SendError::Full);
                return ops;
            }
        }
        assert!(ops.len() < 1000, "there is always room");
    }
}

fn announced(net: &Net) -> Vec<(Envelope, Ticket)> {
    let found = net.nodes[1].got.iter().filter_map(|got| match got {
        Got::Announced(_, envelope, _, ticket) => Some((*envelope, *ticket)),
        _ => None,
    });
    found.collect()
}

fn pull(net: &mut Net, (envelope, ticket): (Envelope, Ticket)) -> OpId {
    let now = net.now;
    net.nodes[1].pull(now, PeerId(0), envelope, 4000, ticket)
}

#[test]
fn who_is_not_asked_for_what_it_announces_waits_and_goes_on() {
    let mut net = net(&few());
    assert_eq!(fill(&mut net).len(), 6);
    // Messages go on, and so does what the peer has asked for.
    net.send(0, 1, 77, 10);
    let answer = Envelope { kind: Kind::ANSWER, ..envelope(100) };
    announce(&mut net, &answer).unwrap();
    announce(&mut net, &answer).unwrap();
    assert_eq!(announce(&mut net, &answer), Err(SendError::Full));
    assert!(net.run(1000, |n| n.nodes[1].tags(0).len() == 9));
    let first = announced(&net)[0];
    pull(&mut net, first);
    assert!(net.run(1000, |n| n.nodes[1].pulled(0) == [0]));
    assert_eq!(announce(&mut net, &envelope(9)), Err(SendError::Full), "for answers only");
    for at in 1..3 {
        let next = announced(&net)[at];
        pull(&mut net, next);
    }
    assert!(net.run(1000, |n| n.nodes[1].pulled(0).len() == 3));
    announce(&mut net, &envelope(9)).unwrap();
    assert!(net.run(1000, |n| n.nodes[1].tags(0).len() == 10));
}

#[test]
fn what_is_announced_and_taken_back_over_and_over_is_not_kept_without_end() {
    let mut net = net(&few());
    for _ in 0..2 {
        let ops = fill(&mut net);
        let now = net.now;
        for op in ops {
            assert!(net.nodes[0].engine.withdraw(now, PeerId(1), op));
        }
    }
    assert!(fill(&mut net).is_empty());
    assert!(net.run(1000, |n| n.nodes[1].tags(0).len() == 6));
    // The peer asks for one in vain, and so forgets it.
    let first = announced(&net)[0];
    let op = pull(&mut net, first);
    let failed = |n: &Net| {
        let why = Cause::Withdrawn;
        n.nodes[1].others().any(|e| *e == Incoming::Failed { op, peer: PeerId(0), why })
    };
    assert!(net.run(1000, failed));
    net.run(100, |n| !n.nodes[1].engine.busy());
    assert_eq!(fill(&mut net).len(), 1);
}

#[test]
fn a_peer_that_announces_more_than_it_may_gets_no_more_in_than_that() {
    let mut net = net(&few());
    // It does not count.
    let wild = Config { announced_most: u32::MAX, ..Config::default() };
    let mut engine = Engine::new(wild, address(0), KEY, 1);
    engine.add_link(LinkSpec {
        addr: LinkAddr::Port(0),
        everyone: Some(LinkAddr::Port(u32::MAX)),
        mtu: 1472,
        ..LinkSpec::default()
    });
    (0..2).for_each(|p| engine.add_peer(PeerId(p), &address(p as usize)));
    net.nodes[0] = Node::new(engine);
    for tag in 0..300 {
        announce(&mut net, &envelope(tag)).unwrap();
    }
    net.run(2000, |n| n.nodes[1].tags(0).len() > 8);
    assert_eq!(net.nodes[1].tags(0), (0..8).collect::<Vec<_>>());
    assert!(net.nodes[1].engine.counters().dropped_credit > 0);
    // What it may get in comes in, the order kept.
    let mut asked = 0;
    while asked < 300 {
        assert!(net.run(60_000, |n| n.nodes[1].tags(0).len() > asked), "{asked}");
        let next = announced(&net)[asked];
        pull(&mut net, next);
        asked += 1;
    }
    assert!(net.run(60_000, |n| n.nodes[1].pulled(0).len() == 300));
    assert_eq!(net.nodes[1].tags(0), (0..300).collect::<Vec<_>>());
}

#[test]
fn who_is_expelled_is_gone_with_all_that_is_under_way() {
    let mut net = net(&few());
    announce(&mut net, &envelope(0)).unwrap();
    assert!(net.run(1000, |n| n.nodes[1].tags(0).len() == 1));
    let now = net.now;
    let node = &mut net.nodes[1];
    let op = node.op();
    node.ops.0.insert(op, payload(5, 4000));
    node.engine.announce(now, PeerId(0), &envelope(5), 4000, op).unwrap();
    node.engine.expel(PeerId(0), "it sends too much");
    net.events(1, &[]);
    let (peer, why) = (PeerId(0), Cause::Expelled { why: "it sends too much" });
    let told: Vec<_> = net.nodes[1].others().cloned().collect();
    assert!(told.ends_with(&[Incoming::Failed { op, peer, why }, Incoming::Dead { peer, why }]));
    assert!(why.to_string().contains("it sends too much"), "{why}");
    let sent = net.nodes[1].engine.send(net.now, peer, &envelope(1), &[]);
    assert_eq!(sent, Err(SendError::Dead(why)));
    // The other is told by silence; nothing it goes on to send comes in.
    let before = net.nodes[1].arrived;
    announce(&mut net, &envelope(1)).unwrap();
    net.run(100, |_| false);
    assert_eq!(net.nodes[1].arrived, before);
}
