//! Ways between two nodes that have no cable in common, and which is taken first.

mod graph;

use graph::{DELAY_NS, Graph, RING};
use weft_proto::Engine;
use weft_wire::PeerId;

/// What leads from node 0 to `to`: nodes between, and whether it carries what is small, and bulk.
fn ways(engine: &Engine, to: u32) -> Vec<(u8, bool, bool)> {
    let paths = engine.paths(PeerId(to));
    let mut ways: Vec<_> = paths.iter().map(|p| (p.hops, p.small, p.bulk)).collect();
    ways.sort_unstable();
    ways
}

/// The first cable of node 0 begins the longer way: the order of links tells nothing.
#[test]
fn the_shortest_way_carries_what_is_small() {
    let ring: &[&[usize]] = &[&[0, 3], &[0, 1], &[1, 2], &[2, 3]];
    let five: &[&[usize]] = &[&[0, 4], &[0, 1], &[1, 2], &[2, 3], &[3, 4]];
    for (count, cables, to, hops) in [(4, ring, 1, [0, 2]), (5, five, 2, [1, 2])] {
        let mut graph = Graph::new(count, cables);
        assert!(graph.all_pairs(500));
        graph.run(1_000, |_| false);
        let known: Vec<_> = ways(&graph.engines[0], to).iter().map(|w| (w.0, w.1)).collect();
        assert_eq!(known, [(hops[0], true), (hops[1], false)], "{count} nodes");
        let before = graph.own.clone();
        for tag in 1..50 {
            let (begun, got) = (graph.now, graph.got[to as usize].len());
            graph.send(0, to as usize, tag);
            assert!(graph.run(1_000, |g| g.got[to as usize].len() > got));
            let took = graph.now.since(begun);
            assert_eq!(took, DELAY_NS * (1 + u64::from(hops[0])), "{count} nodes, message {tag}");
        }
        let by = |link| graph.own[&(0, link)] - before[&(0, link)];
        assert!(by(0) * 4 < by(1), "{} bytes by the longer way, {} by the other", by(0), by(1));
    }
}

#[test]
fn two_ways_without_a_common_cable_both_carry_bulk() {
    const LEN: usize = 1 << 20;
    // To the neighbour, by the cable and the way round; and to the node opposite.
    for to in [1, 2] {
        let mean = |cables: &[&[usize]]| {
            let mut graph = Graph::new(4, cables);
            graph.rate = 125;
            assert!(graph.all_pairs(500));
            graph.run(1_000, |_| false);
            (0..30).for_each(|_| _ = graph.pulled_in(to, LEN));
            let before = graph.own.clone();
            let all: u64 = (0..20).map(|_| graph.pulled_in(to, LEN)).sum();
            let by = |(node, link)| graph.own[&(node, link)] - before[&(node, link)];
            let parts: Vec<u64> =
                before.keys().filter(|end| end.0 == 0).map(|end| by(*end)).collect();
            (all / 20, parts, ways(&graph.engines[0], to as u32))
        };
        let (one, ..) = mean(&RING[..3]);
        let (both, parts, ways) = mean(RING);
        assert!(ways.len() == 2 && ways.iter().all(|(.., bulk)| *bulk), "{ways:?}");
        let whole = 20 * LEN as u64;
        assert!(parts.iter().all(|part| *part > whole / 3), "{parts:?} of {whole}");
        assert!(both * 3 < one * 2, "{both} ns by both ways, {one} by one");
    }
}
