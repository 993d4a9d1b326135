//! The cables that the ways between links tell of, and what they join. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::item::WayItem;
use super::view::{Edge, View};

/// An interface of a node.
pub(super) type End = (u64, String);

/// From the least to the most.
pub(super) type Range = Option<(f64, f64)>;

/// A cable between two nodes, or a switch with all that are on it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Cable {
    /// What it ends at, in the nodes' order; a switch has more than two, or two of one node.
    pub ends: Vec<End>,
    /// The rows of the view that go over it.
    pub rows: Vec<usize>,
    /// The median round trips of the quickest links, one for each pair of ends and direction.
    pub rtt_us: Range,
    /// The bandwidth of the widest links, one for each pair of ends and direction.
    pub mb_s: Range,
    /// The largest share of a train that got lost.
    pub loss: f64,
}

impl Cable {
    /// Whether there is a switch in it, or something like one.
    pub fn is_switch(&self) -> bool {
        self.ends.len() > 2
    }
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Graph {
    /// All cables, in the nodes' order.
    pub cables: Vec<Cable>,
    /// By node: own interfaces, and who is at their other ends.
    near: BTreeMap<u64, Vec<(String, u64)>>,
}

/// Whether frames of this link have Ethernet addresses of their ends, and so stay on their cable.
fn is_by_mac(edge: &Edge) -> bool {
    !edge.row.link.starts_with("udp:")
}

/// The interface of a link by its name.
pub(super) fn interface(link: &str) -> &str {
    link.split_once(':').map_or(link, |(_, interface)| interface)
}

fn ends(edge: &Edge) -> (End, End) {
    let row = &edge.row;
    let to = (row.peer.nonce, interface(&row.peer_link).to_string());
    ((edge.from, interface(&row.link).to_string()), to)
}

impl Graph {
    /// The cables of what was found.
    pub fn of(view: &View) -> Graph {
        let alive = || view.rows.iter().enumerate().filter(|(_, edge)| edge.row.answers);
        let pair = |edge: &Edge| (edge.from, edge.row.peer.nonce);
        let by_mac: BTreeSet<_> =
            alive().filter(|(_, e)| is_by_mac(e)).map(|(_, e)| pair(e)).collect();
        // What IP routers carry is no cable, unless it is all that there is.
        let joins = |edge: &Edge| is_by_mac(edge) || !by_mac.contains(&pair(edge));
        let mut joined = Joined::default();
        for (_, edge) in alive().filter(|(_, edge)| joins(edge)) {
            let (a, b) = ends(edge);
            joined.join(a, b);
        }
        let mut rows: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, edge) in alive() {
            let (a, b) = ends(edge);
            if let Some(cable) = joined.of_both(&a, &b) {
                rows.entry(cable).or_default().push(at);
            }
        }
        let place = |end: &End| (view.order.iter().position(|n| *n == end.0), end.1.clone());
        let mut cables: Vec<Cable> = Vec::new();
        for (number, mut ends) in joined.groups() {
            ends.sort_by_cached_key(place);
            cables.push(cable(view, ends, rows.remove(&number).unwrap_or_default()));
        }
        cables.sort_by_cached_key(|c| c.ends.iter().map(place).collect::<Vec<_>>());
        let mut near: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
        for ends in cables.iter().map(|c| &c.ends) {
            for (node, interface) in ends {
                let others = ends.iter().filter(|end| end.0 != *node);
                near.entry(*node).or_default().extend(others.map(|e| (interface.clone(), e.0)));
            }
        }
        Graph { cables, near }
    }

    /// Who is at the other ends of a node's cables: the own interface, and the node.
    pub fn neighbours(&self, node: u64) -> &[(String, u64)] {
        self.near.get(&node).map_or(&[], Vec::as_slice)
    }

    /// The ways from one node to another that a job would ask for: of those that begin with the
    /// same interface, one of the shortest. The nodes between are by their nonces.
    pub fn ways(&self, from: u64, to: u64) -> Vec<WayItem> {
        let mut ways: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (interface, first) in self.neighbours(from) {
            let Some(between) = self.between(from, *first, to) else { continue };
            let known = ways.entry(interface).or_insert_with(|| between.clone());
            if between.len() < known.len() {
                *known = between;
            }
        }
        let way = |(interface, between): (&str, Vec<u64>)| WayItem {
            link: interface.to_string(),
            hops: between.len() as u8,
            between,
            ..WayItem::default()
        };
        ways.into_iter().map(way).collect()
    }

    /// The nodes from `first` to before `to`, of a shortest way that does not lead over `from`.
    fn between(&self, from: u64, first: u64, to: u64) -> Option<Vec<u64>> {
        let mut before = BTreeMap::from([(first, from)]);
        let mut queue = VecDeque::from([first]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                let mut way = Vec::new();
                let mut at = before[&to];
                while at != from {
                    way.push(at);
                    at = before[&at];
                }
                way.reverse();
                return Some(way);
            }
            for &(_, next) in self.neighbours(node) {
                if next != from && !before.contains_key(&next) {
                    before.insert(next, node);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// The nodes that cables join, part by part, the largest first.
    pub fn parts(&self, nodes: &[u64]) -> Vec<Vec<u64>> {
        let mut parts: Vec<Vec<u64>> = Vec::new();
        for &node in nodes {
            if parts.iter().any(|part| part.contains(&node)) {
                continue;
            }
            let (mut part, mut at) = (vec![node], 0);
            while let Some(&member) = part.get(at) {
                at += 1;
                for (_, next) in self.neighbours(member) {
                    if !part.contains(next) {
                        part.push(*next);
                    }
                }
            }
            parts.push(nodes.iter().filter(|n| part.contains(n)).copied().collect());
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
        parts
    }
}

/// Ends that are joined.
#[derive(Default)]
struct Joined {
    numbers: BTreeMap<End, usize>,
    /// By number: one that it is joined with, or itself.
    with: Vec<usize>,
}

impl Joined {
    fn number(&mut self, end: End) -> usize {
        let next = self.with.len();
        let number = *self.numbers.entry(end).or_insert(next);
        if number == next {
            self.with.push(next);
        }
        self.first(number)
    }

    fn first(&self, mut number: usize) -> usize {
        while self.with[number] != number {
            number = self.with[number];
        }
        number
    }

    fn join(&mut self, a: End, b: End) {
        let (a, b) = (self.number(a), self.number(b));
        self.with[a.max(b)] = a.min(b);
    }

    /// The number of what joins both, if something does.
    fn of_both(&self, a: &End, b: &End) -> Option<usize> {
        let (a, b) = (self.numbers.get(a)?, self.numbers.get(b)?);
        (self.first(*a) == self.first(*b)).then(|| self.first(*a))
    }

    fn groups(&self) -> BTreeMap<usize, Vec<End>> {
        let mut groups: BTreeMap<usize, Vec<End>> = BTreeMap::new();
        for (end, number) in &self.numbers {
            groups.entry(self.first(*number)).or_default().push(end.clone());
        }
        groups
    }
}

/// The cable with these ends, over which these rows go.
fn cable(view: &View, ends_of: Vec<End>, rows: Vec<usize>) -> Cable {
    let (mut rtt, mut mb_s) = (BTreeMap::new(), BTreeMap::new());
    let mut loss: f64 = 0.0;
    for edge in rows.iter().map(|at| &view.rows[*at]) {
        let pair = ends(edge);
        if let Some(spread) = edge.row.rtt_us {
            let least = rtt.entry(pair.clone()).or_insert(f64::INFINITY);
            *least = f64::min(*least, spread.p50);
        }
        if let Some(value) = edge.row.bandwidth_mb_s {
            let most = mb_s.entry(pair).or_insert(0.0);
            *most = f64::max(*most, value);
        }
        // A long frame of `tso` is lost if any of its pieces is.
        if !edge.row.link.starts_with("tso:") {
            loss = loss.max(edge.row.loss());
        }
    }
    Cable { rtt_us: range(rtt.values()), mb_s: range(mb_s.values()), ends: ends_of, rows, loss }
}

fn range<'a>(values: impl Iterator<Item = &'a f64> + Clone) -> Range {
    let least = values.clone().copied().min_by(f64::total_cmp)?;
    Some((least, values.copied().max_by(f64::total_cmp)?))
}

#[cfg(test)]
mod tests {
    use super::super::item::tests::{cabled, node, row};
    use super::*;

    fn ways(n: u64, cables: &[(u64, u64)], from: u64, to: u64) -> Vec<Vec<u64>> {
        let graph = Graph::of(&View::new(&cabled(n, cables)));
        graph.ways(from + 1, to + 1).into_iter().map(|way| way.between).collect()
    }

    #[test]
    fn a_ring_has_two_ways_across_and_a_chain_one() {
        let ring = [(0, 1), (1, 2), (2, 3), (3, 0)];
        assert_eq!(ways(4, &ring, 0, 2), [vec![2], vec![4]]);
        assert_eq!(ways(4, &ring, 0, 1), [vec![], vec![4, 3]], "and the long one round");
        assert_eq!(ways(4, &ring[..3], 0, 3), [vec![2, 3]]);
        assert!(ways(4, &ring[..2], 0, 3).is_empty());
    }

    #[test]
    fn who_hears_more_than_one_other_is_on_a_switch() {
        let nodes: Vec<_> = (1..4u64)
            .map(|me| {
                let others = (1..4).filter(|other| *other != me);
                node(me, others.map(|other| row("packet:a", other, 100.0)).collect())
            })
            .collect();
        let graph = Graph::of(&View::new(&nodes));
        assert_eq!(graph.cables.len(), 1);
        assert!(graph.cables[0].is_switch() && graph.cables[0].rows.len() == 6);
        assert_eq!(graph.cables[0].mb_s, Some((100.0, 100.0)));
        let cable = Graph::of(&View::new(&cabled(2, &[(0, 1)])));
        assert!(!cable.cables[0].is_switch());
        assert_eq!(cable.cables[0].ends, [(1, "to1".to_string()), (2, "to0".to_string())]);
    }

    #[test]
    fn parts_that_no_cable_joins_are_told_apart() {
        let graph = Graph::of(&View::new(&cabled(4, &[(1, 2), (2, 3)])));
        assert_eq!(graph.parts(&[1, 2, 3, 4]), [vec![2, 3, 4], vec![1]]);
    }
}
