//! Nodes that do not reach each other, and why. Pure.

use std::collections::BTreeMap;

use super::far::Far;
use super::graph::Graph;
use super::odd::Odd;
use super::view::View;

/// More pairs of nodes than this are counted, and not named.
const NAMED_MAX: usize = 4;

/// What there is to say.
pub(super) fn find(view: &View, graph: &Graph, far: &[Far]) -> Vec<Odd> {
    let mut found = parts(view, graph, far);
    // Each pair once, by what is in its way.
    let mut by_cause: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for one in far.iter().filter(|one| one.tried && !one.is_reached()) {
        let place = |nonce: u64| view.order.iter().position(|n| *n == nonce);
        let pair =
            if place(one.from) < place(one.to) { (one.from, one.to) } else { (one.to, one.from) };
        let Some(cause) = cause(view, graph, one) else { continue };
        let pairs = by_cause.entry(cause).or_default();
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    for (cause, pairs) in by_cause {
        let mut named: Vec<String> = pairs
            .iter()
            .map(|(a, b)| format!("{} and {}", view.label(*a), view.label(*b)))
            .take(NAMED_MAX)
            .collect();
        if pairs.len() > NAMED_MAX {
            named.push(format!("{} other pairs", pairs.len() - NAMED_MAX));
        }
        let what = format!("no way between {}: {cause}", named.join(", "));
        found.push(Odd { row: None, node: pairs[0].0, link: None, what });
    }
    found
}

/// Parts that no cable joins, said of all but the largest.
fn parts(view: &View, graph: &Graph, far: &[Far]) -> Vec<Odd> {
    let known = |node: &&u64| view.nodes.get(node).is_some_and(|n| n.told);
    let nodes: Vec<u64> = view.order.iter().filter(known).copied().collect();
    let parts = graph.parts(&nodes);
    let Some((largest, others)) = parts.split_first() else { return Vec::new() };
    let alone = |part: &&Vec<u64>| {
        // Somebody may hear it all the same: then its cable is odd, and told of elsewhere.
        !far.iter().any(|f| f.is_reached() && f.from == part[0] && largest.contains(&f.to))
    };
    let odd = |part: &Vec<u64>| {
        let names = |part: &[u64]| {
            let all: Vec<&str> = part.iter().map(|node| view.label(*node)).collect();
            match all.split_last() {
                Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
                _ => all.join(""),
            }
        };
        let is = if part.len() == 1 { "is" } else { "are" };
        let what = format!(
            "{} {is} reached by nobody else: no cable leads from there to {}, and none to a node \
             between; the interfaces on which nobody answers are named as well",
            names(part),
            names(largest)
        );
        Odd { row: None, node: part[0], link: None, what }
    };
    others.iter().filter(alone).map(odd).collect()
}

/// What is in the way between two nodes that cables do join.
fn cause(view: &View, graph: &Graph, far: &Far) -> Option<String> {
    let ways = graph.ways(far.from, far.to);
    if ways.is_empty() {
        return None;
    }
    let mut between: Vec<u64> = ways.into_iter().flat_map(|way| way.between).collect();
    between.sort_by_key(|nonce| view.order.iter().position(|n| n == nonce));
    between.dedup();
    let why = |nonce: &u64| {
        let node = view.nodes.get(nonce)?;
        let why = node.hands_nothing_on.as_ref()?;
        Some(format!("{} hands nothing on because of this: {why}", node.label))
    };
    let said: Vec<String> = between.iter().filter_map(why).collect();
    if !said.is_empty() {
        return Some(said.join("; "));
    }
    let names: Vec<&str> = between.iter().map(|node| view.label(*node)).collect();
    let by_udp = !view.rows.iter().any(|e| !e.row.link.starts_with("udp:") && e.row.answers);
    Some(match by_udp {
        true => "ways lead over links of the kinds packet and tso only, and none are used".into(),
        false => format!(
            "what should come through {} does not: something there, or a switch between, takes no \
             frames for others' Ethernet addresses",
            names.join(" or ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::far;
    use super::super::item::FarItem;
    use super::super::item::tests::{cabled, who};
    use super::*;
    use crate::links::item::NodeItem;

    fn said(nodes: &[NodeItem]) -> Vec<String> {
        let view = View::new(nodes);
        let graph = Graph::of(&view);
        let far = far::find(&view, &graph);
        find(&view, &graph, &far).into_iter().map(|odd| odd.what).collect()
    }

    fn not_met(nonce: u64) -> FarItem {
        FarItem {
            peer: who(nonce),
            met: false,
            ways: Vec::new(),
            rtt_us: None,
            bandwidth_mb_s: None,
        }
    }

    #[test]
    fn a_part_of_its_own_is_named() {
        let all = said(&cabled(4, &[(0, 1), (1, 2)]));
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].starts_with("node4 is reached by nobody else"), "{all:?}");
        assert!(all[0].contains("to node1, node2 and node3"), "{all:?}");
        assert!(said(&cabled(3, &[(0, 1), (1, 2)])).is_empty());
    }

    #[test]
    fn who_hands_nothing_on_is_named_with_its_reason() {
        let mut nodes = cabled(3, &[(0, 1), (1, 2)]);
        nodes[0].far = vec![not_met(3)];
        nodes[2].far = vec![not_met(1)];
        nodes[1].hands_nothing_on = Some("WEFT_RELAY=off".into());
        let all = said(&nodes);
        assert_eq!(all.len(), 1, "each pair once: {all:?}");
        assert!(all[0].contains("between node1 and node3: node2 hands nothing on"), "{all:?}");
        assert!(all[0].ends_with("WEFT_RELAY=off"), "{all:?}");
        nodes[1].hands_nothing_on = None;
        assert!(said(&nodes)[0].contains("should come through node2"), "{:?}", said(&nodes));
    }
}
