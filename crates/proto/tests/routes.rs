//! Ways through nodes between, on graphs of cables.

mod graph;

use graph::{Graph, Lie, RING};
use weft_proto::{Cause, Relaying};
use weft_wire::PeerId;

#[test]
fn all_of_a_chain_and_a_ring_reach_each_other_within_half_a_second() {
    let chain: Vec<[usize; 2]> = (1..8).map(|n| [n - 1, n]).collect();
    let chain: Vec<&[usize]> = chain.iter().map(|c| &c[..]).collect();
    for (count, cables) in [(4, RING), (4, &chain[..3]), (8, &chain[..])] {
        let mut graph = Graph::new(count, cables);
        assert!(graph.all_pairs(500), "{count} nodes: {:?}", graph.got);
        assert!(graph.relayed > 0 && graph.dead.is_empty());
    }
}

#[test]
fn groups_behind_a_switch_and_two_switches_are_crossed() {
    // Two pairs, one node of each on the switch; a node on two switches.
    let mut groups = Graph::new(6, &[&[0, 1], &[2, 3], &[1, 2, 4], &[4, 5]]);
    assert!(groups.all_pairs(500), "{:?}", groups.got);
}

#[test]
fn who_is_heard_directly_is_not_asked_for() {
    let mut graph = Graph::new(5, &[&[0, 1, 2, 3, 4], &[0, 1, 2, 3, 4]]);
    assert!(graph.all_pairs(500));
    graph.run(3_000, |_| false);
    assert_eq!((graph.counters(|c| c.ways_asked), graph.relayed), (0, 0));
}

#[test]
fn small_messages_to_a_neighbour_take_the_cable_and_not_the_way_round() {
    let mut graph = Graph::new(4, RING);
    assert!(graph.all_pairs(500));
    graph.run(1_000, |_| false);
    for (at, engine) in graph.engines.iter().enumerate() {
        let wires = (0..4).filter(|&p| p != at).map(|p| engine.wires(PeerId(p as u32)));
        assert!(wires.clone().all(|n| n == 2), "{at}: {:?}", wires.collect::<Vec<_>>());
    }
    let relayed = graph.relayed;
    for tag in 1..50 {
        graph.send(0, 1, tag);
        assert!(graph.run(1_000, |g| g.got[1].len() == 3 + tag as usize));
    }
    // But for a word now and then whether the way round still works.
    assert!(graph.relayed < relayed + 10);
}

#[test]
fn a_way_over_cables_is_preferred_to_a_direct_last_resort() {
    let mut graph = Graph::with_last_resorts(3, &[&[0, 1], &[1, 2], &[0, 2]], &[2]);
    assert!(graph.all_pairs(500));
    graph.run(1_000, |_| false);
    let mut tag = 0;
    // Which carry what is small from one end to the other, and how many nodes are between.
    let mut small = |graph: &mut Graph| {
        let before = graph.relayed;
        for _ in 0..50 {
            tag += 1;
            graph.send(0, 2, tag);
            assert!(graph.run(10_000, |g| g.got[2].contains(&(0, tag))));
        }
        let paths = graph.engines[0].paths(PeerId(2));
        let hops: Vec<u8> = paths.iter().filter(|p| p.small).map(|p| p.hops).collect();
        (hops, graph.relayed - before)
    };
    let (hops, relayed) = small(&mut graph);
    assert!(hops == [1] && relayed >= 50, "{hops:?}, {relayed} frames handed on");
    graph.cut[1] = true;
    graph.run(1_000, |_| false);
    let (hops, relayed) = small(&mut graph);
    assert!(hops == [0] && relayed < 20, "{hops:?}, {relayed} frames handed on");
    graph.cut[1] = false;
    assert!(graph.run(10_000, |g| g.engines[0].paths(PeerId(2)).iter().any(|p| p.spare)));
    assert_eq!(small(&mut graph).0, [1]);
}

#[test]
fn what_goes_by_a_way_that_dies_goes_by_the_other() {
    for dead in [0, 1, 2, 3] {
        let mut graph = Graph::new(4, RING);
        assert!(graph.all_pairs(500));
        graph.run(1_000, |_| false);
        // The ends see nothing of it: their cards have a carrier as before.
        graph.cut[dead] = true;
        for (from, to) in [(0, 2), (2, 0), (1, 3), (0, 1), (3, 0)] {
            (0..20).for_each(|tag| graph.send(from, to, 1 + tag));
        }
        let whole = |g: &Graph| g.got.iter().map(Vec::len).sum::<usize>() == 12 + 100;
        assert!(graph.run(500, whole), "cable {dead}: {:?}", graph.got);
        assert!(graph.dead.is_empty());
        // A cable that is back is used again.
        graph.cut[dead] = false;
        graph.run(3_000, |_| false);
        graph.cut[(dead + 1) % 4] = true;
        (0..20).for_each(|tag| graph.send(0, 2, 100 + tag));
        let more = |g: &Graph| g.got.iter().map(Vec::len).sum::<usize>() == 12 + 120;
        assert!(graph.run(500, more), "cable {dead} is back: {:?}", graph.got);
    }
}

/// A node of a grid has several addresses that another reaches over one of its links, each by a way
/// of another length.
#[test]
fn each_way_is_known_by_the_nodes_between() {
    let (rows, columns) = (3, 3);
    let right = |n: usize| (n % columns + 1 < columns).then_some([n, n + 1]);
    let below = |n: usize| (n + columns < rows * columns).then_some([n, n + columns]);
    let cables: Vec<[usize; 2]> =
        (0..rows * columns).flat_map(|n| right(n).into_iter().chain(below(n))).collect();
    let cables: Vec<&[usize]> = cables.iter().map(|c| &c[..]).collect();
    let mut graph = Graph::new(rows * columns, &cables);
    assert!(graph.all_pairs(2_000), "{:?}", graph.got);
    graph.run(2_000, |_| false);
    let is_cable = |a: u64, b: u64| {
        let (a, b) = (a as usize - 100, b as usize - 100);
        cables.iter().any(|c| c.contains(&a) && c.contains(&b))
    };
    let (mut all, mut known) = (0, 0);
    for (at, engine) in graph.engines.iter().enumerate() {
        for peer in (0..rows * columns).filter(|peer| *peer != at) {
            let (from, to) = (100 + at as u64, 100 + peer as u64);
            for path in engine.paths(PeerId(peer as u32)) {
                let nodes: Vec<u64> = [&[from], &path.between[..], &[to]].concat();
                all += 1;
                known += usize::from(path.between.len() == usize::from(path.hops));
                assert_eq!(
                    path.hops == 0,
                    is_cable(from, to) && path.between.is_empty(),
                    "{path:?}"
                );
                if path.between.len() == usize::from(path.hops) {
                    assert!(nodes.windows(2).all(|two| is_cable(two[0], two[1])), "{nodes:?}");
                }
            }
        }
    }
    assert!(all > 100 && known * 10 > all * 9, "{known} of {all}");
}

/// As when the process that handed them on has ended, and another has taken its place.
#[test]
fn a_way_that_a_node_has_forgotten_is_made_again() {
    for (count, cables) in [(3, &RING[..2]), (4, RING)] {
        let mut graph = Graph::new(count, cables);
        assert!(graph.all_pairs(500));
        graph.run(1_000, |_| false);
        graph.flows.retain(|&((node, _), ..), _| node != 1);
        (0..20).for_each(|tag| graph.send(0, 2, 1 + tag));
        (0..20).for_each(|tag| graph.send(2, 0, 1 + tag));
        let whole =
            |g: &Graph| g.got.iter().map(Vec::len).sum::<usize>() == count * (count - 1) + 40;
        assert!(graph.run(1_000, whole), "{:?}", graph.got);
        assert!(graph.dead.is_empty() && graph.flows.keys().any(|((node, _), ..)| *node == 1));
    }
}

#[test]
fn a_graph_in_two_parts_is_said_to_be_and_costs_little() {
    let mut graph = Graph::new(4, &[&[0, 1], &[2, 3]]);
    assert!(!graph.all_pairs(15_000));
    let lost = |&(a, b, why): &(usize, usize, Cause)| {
        a / 2 != b / 2 && matches!(why, Cause::NoAnswer { .. })
    };
    assert!(graph.dead.len() == 8 && graph.dead.iter().all(lost), "{:?}", graph.dead);
    assert!(graph.sent < 4_000, "{} frames", graph.sent);
}

#[test]
fn a_node_that_does_not_relay_is_gone_round_or_ends_the_way() {
    let mut ring = Graph::new(4, RING);
    ring.engines[1].set_relaying(Relaying::Answers);
    assert!(ring.all_pairs(500), "round the other side: {:?}", ring.got);
    let mut chain = Graph::new(3, &RING[..2]);
    chain.engines[1].set_relaying(Relaying::Answers);
    assert!(!chain.all_pairs(15_000));
    assert_eq!((chain.dead.len(), chain.relayed), (2, 0));
}

/// Whoever tells of a way has the job's key. What goes through it is lost, and no more.
#[test]
fn a_node_that_lies_about_ways_loses_only_what_goes_through_it() {
    for lie in [Lie::Swallows, Lie::AllAreHere, Lie::Swaps] {
        let mut ring = Graph::new(4, RING);
        ring.liar = Some((1, lie));
        assert!(ring.all_pairs(5_000), "{lie:?}: {:?}", ring.got);
        (0..20).for_each(|tag| ring.send(0, 2, 1 + tag));
        (0..20).for_each(|tag| ring.send(2, 0, 1 + tag));
        let whole = |g: &Graph| g.got.iter().map(Vec::len).sum::<usize>() == 12 + 40;
        assert!(ring.run(5_000, whole), "{lie:?}: {:?}", ring.got);
        assert!(ring.dead.is_empty(), "{lie:?}: {:?}", ring.dead);
        // Where all goes through it, its neighbours are reached, and the others are given up.
        let mut chain = Graph::new(3, &RING[..2]);
        chain.liar = Some((1, lie));
        assert!(!chain.all_pairs(11_000), "{lie:?}");
        let lost = |dead: &[(usize, usize, Cause)], pair| dead.iter().any(|d| (d.0, d.1) == pair);
        assert!(
            lost(&chain.dead, (0, 2)) && lost(&chain.dead, (2, 0)),
            "{lie:?}: {:?}",
            chain.dead
        );
        assert!(chain.dead.len() == 2 && chain.got[1].len() == 2, "{lie:?}: {:?}", chain.dead);
        let no_answer = |d: &(usize, usize, Cause)| matches!(d.2, Cause::NoAnswer { .. });
        assert!(chain.dead.iter().all(no_answer), "{lie:?}: {:?}", chain.dead);
    }
}

#[test]
fn no_frame_goes_in_circles_on_any_graph() {
    let mut seed = 1u64;
    let mut random = |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % n as u64) as usize
    };
    for _ in 0..40 {
        let count = 4 + random(5);
        // A tree, so that all are joined, and some cables more.
        let mut cables: Vec<[usize; 2]> = (1..count).map(|n| [random(n), n]).collect();
        for _ in 0..random(6) {
            let (a, b) = (random(count), random(count));
            if a != b {
                cables.push([a, b]);
            }
        }
        let all: Vec<&[usize]> = cables.iter().map(|c| &c[..]).collect();
        let mut graph = Graph::new(count, &all);
        assert!(graph.all_pairs(500), "{cables:?}: {:?}", graph.got);
        // While cables come and go, a frame that goes round fails in `put`.
        for _ in 0..10 {
            let at = random(all.len());
            graph.cut[at] = !graph.cut[at];
            let (from, to) = (random(count), random(count));
            if from != to && !graph.dead.iter().any(|d| (d.0, d.1) == (from, to)) {
                graph.send(from, to, 9);
            }
            graph.run(300, |_| false);
        }
    }
}
