//! Nodes that no cable joins: the ways between them, as they were used, or else as the cables let
//! expect. Pure.

use std::collections::BTreeSet;

use super::graph::Graph;
use super::item::{FarItem, WayItem};
use super::view::View;
use crate::bench::figure::Spread;

/// A way through other nodes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Through {
    /// The link, or only the interface, that it begins with.
    pub link: String,
    /// How many nodes are between.
    pub hops: u8,
    /// What they are called, as far as they are known.
    pub between: Vec<String>,
    /// Whether it carries what is small, and a part of what is large; not known where it was not
    /// tried.
    pub carries: Option<(bool, bool)>,
    /// Whether it is left alone as long as there is a better one.
    pub spare: bool,
    /// Its shortest round trip.
    pub rtt_us: Option<f64>,
}

/// From one node to another that no cable leads to.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Far {
    /// The nodes, by nonce.
    pub from: u64,
    /// See above.
    pub to: u64,
    /// Whether it was tried to reach it.
    pub tried: bool,
    /// The ways; none: it is not reached.
    pub ways: Vec<Through>,
    /// There and back, by what a job would use.
    pub rtt_us: Option<Spread>,
    /// By all ways together.
    pub mb_s: Option<f64>,
}

impl Far {
    /// Whether a message came through, or is expected to.
    pub fn is_reached(&self) -> bool {
        !self.ways.is_empty()
    }

    /// The fewest nodes between.
    pub fn hops(&self) -> Option<u8> {
        self.ways.iter().map(|way| way.hops).min()
    }

    /// The nodes between, by the shortest ways, each once: of two links of an interface only one is
    /// named; then how many ways are longer.
    pub fn through(&self) -> String {
        let name = |way: &Through| match way.between.is_empty() {
            true => format!("{} nodes", way.hops),
            false => way.between.join(", "),
        };
        let fewest = self.hops();
        let names = |short: bool| {
            let ways = self.ways.iter().filter(|way| (Some(way.hops) == fewest) == short);
            ways.map(name).collect::<BTreeSet<_>>()
        };
        let mut text: Vec<String> = names(true).into_iter().collect();
        match names(false).len() {
            0 => {}
            longer => text.push(format!("{longer} longer")),
        }
        text.join(" | ")
    }
}

/// All ordered pairs of nodes that no cable joins.
pub(super) fn find(view: &View, graph: &Graph) -> Vec<Far> {
    let mut all = Vec::new();
    let near: BTreeSet<(u64, u64)> = {
        let alive = view.rows.iter().filter(|edge| edge.row.answers);
        alive.flat_map(|e| [(e.from, e.row.peer.nonce), (e.row.peer.nonce, e.from)]).collect()
    };
    for &from in &view.order {
        for &to in view.order.iter().filter(|to| **to != from && !near.contains(&(from, **to))) {
            let (Some(a), Some(b)) = (view.nodes.get(&from), view.nodes.get(&to)) else { continue };
            if a.who.node == b.who.node {
                continue;
            }
            let tried = a.far.iter().find(|item| item.peer.nonce == to);
            let far = match tried {
                Some(item) => as_tried(view, from, item),
                None => Far { ways: expected(view, graph, from, to), ..unreached(from, to) },
            };
            // Of whom nothing is known but its name, nothing is said.
            if far.tried || far.is_reached() || (a.told && b.told) {
                all.push(far);
            }
        }
    }
    all
}

fn unreached(from: u64, to: u64) -> Far {
    Far { from, to, tried: false, ways: Vec::new(), rtt_us: None, mb_s: None }
}

fn as_tried(view: &View, from: u64, item: &FarItem) -> Far {
    let through = |way: &WayItem| Through {
        link: way.link.clone(),
        hops: way.hops,
        between: way.between.iter().map(|n| view.label_of_node(*n).to_string()).collect(),
        carries: Some((way.small, way.bulk)),
        spare: way.spare,
        rtt_us: way.rtt_us,
    };
    let ways = if item.met { item.ways.iter().map(through).collect() } else { Vec::new() };
    let (rtt_us, mb_s) = (item.rtt_us, item.bandwidth_mb_s);
    Far { tried: true, ways, rtt_us, mb_s, ..unreached(from, item.peer.nonce) }
}

/// Ways that were not tried.
fn expected(view: &View, graph: &Graph, from: u64, to: u64) -> Vec<Through> {
    let through = |way: WayItem| Through {
        link: way.link,
        hops: way.hops,
        between: way.between.iter().map(|n| view.label(*n).to_string()).collect(),
        carries: None,
        spare: false,
        rtt_us: None,
    };
    graph.ways(from, to).into_iter().map(through).collect()
}

#[cfg(test)]
mod tests {
    use super::super::item::tests::{cabled, who};
    use super::*;

    #[test]
    fn what_was_tried_counts_and_else_what_the_cables_let_expect() {
        let mut nodes = cabled(4, &[(0, 1), (1, 2), (2, 3), (3, 0)]);
        let way = WayItem {
            link: "packet:to1".into(),
            hops: 1,
            between: vec![102],
            ..WayItem::default()
        };
        let item = FarItem {
            peer: who(3),
            met: true,
            ways: vec![WayItem { link: "tso:to1".into(), ..way.clone() }, way],
            rtt_us: None,
            bandwidth_mb_s: Some(9.0),
        };
        nodes[0].far = vec![item];
        let view = View::new(&nodes);
        let far = find(&view, &Graph::of(&view));
        assert_eq!(far.len(), 4, "{far:?}");
        let tried = far.iter().find(|f| (f.from, f.to) == (1, 3)).unwrap();
        assert!(tried.tried && tried.mb_s == Some(9.0));
        assert_eq!((tried.through().as_str(), tried.hops()), ("node2", Some(1)));
        let other = far.iter().find(|f| (f.from, f.to) == (2, 4)).unwrap();
        assert!(!other.tried && other.is_reached());
        assert_eq!(other.through(), "node1 | node3");
    }

    #[test]
    fn who_was_not_met_is_not_reached_whatever_the_cables_are() {
        let mut nodes = cabled(3, &[(0, 1), (1, 2)]);
        let item = FarItem {
            peer: who(3),
            met: false,
            ways: Vec::new(),
            rtt_us: None,
            bandwidth_mb_s: None,
        };
        nodes[0].far = vec![item];
        let view = View::new(&nodes);
        let far = find(&view, &Graph::of(&view));
        assert!(far.iter().any(|f| (f.from, f.to) == (1, 3) && !f.is_reached()), "{far:?}");
    }
}
