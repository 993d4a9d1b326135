//! Which way a group's barrier goes.

use weft_collective::{CANDIDATES, Way};
use weft_wire::PeerId;

use super::patience::{LEAST_NS, LEAST_ON_NODE_NS};
use super::trial::{PACE, Pace};
use crate::collective::{Algorithm, LogP};

/// What a group has decided upon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// Between all members, or the first ones of each node.
    pub(super) algorithm: Algorithm,
    /// Candidates are tried first, at this pace; then it is the fastest, and not `algorithm`.
    pub(super) tried: Option<&'static Pace>,
    /// The members of each node by their rank in the group, where the barrier goes by node.
    pub(super) by_node: Option<Vec<Vec<u32>>>,
    /// How long a member waits before it asks. Not the same at all members.
    pub(super) patience_ns: u64,
}

impl Plan {
    /// For members on these nodes, by rank in the group.
    pub(super) fn new(way: Way, nodes: &[u64], logp: Option<&LogP>) -> Plan {
        let groups = by_node(nodes);
        let one_node = groups.len() == 1 && !nodes.is_empty();
        let patience_ns = if one_node { LEAST_ON_NODE_NS } else { LEAST_NS };
        if let Way::Flat(algorithm) = way {
            return Plan { algorithm, tried: None, by_node: None, patience_ns };
        }
        let chosen = match (way, logp) {
            (Way::ByNode(Some(algorithm)), _) => Some(algorithm),
            (_, logp) => logp.map(|logp| way.by_costs(groups.len() as u32, logp)),
        };
        let algorithm = chosen.unwrap_or(CANDIDATES[0]);
        // Among two, whatever the algorithm, each tells the other at best.
        let tried = (chosen.is_none() && groups.len() > 2).then_some(&PACE);
        let several = way != Way::Auto || groups.len() < nodes.len();
        Plan { algorithm, tried, by_node: several.then_some(groups), patience_ns }
    }

    /// A word that differs, most likely, where plans differ.
    pub(super) fn fingerprint(&self) -> u16 {
        let mut all = super::hash(0, self.algorithm.to_string().as_bytes());
        all = super::hash(all, &[u8::from(self.by_node.is_some()), u8::from(self.tried.is_some())]);
        for node in self.by_node.iter().flatten() {
            for rank in node {
                all = super::hash(all, &rank.to_le_bytes());
            }
            all = super::hash(all, b"/");
        }
        (all ^ all >> 16 ^ all >> 32 ^ all >> 48) as u16
    }
}

/// The ranks on each node, in the order of their first ones; `nodes` has the node of each rank.
pub fn by_node(nodes: &[u64]) -> Vec<Vec<u32>> {
    let mut groups: Vec<(u64, Vec<u32>)> = Vec::new();
    for (rank, node) in nodes.iter().enumerate() {
        match groups.iter_mut().find(|(known, _)| known == node) {
            Some((_, ranks)) => ranks.push(rank as u32),
            None => groups.push((*node, vec![rank as u32])),
        }
    }
    groups.into_iter().map(|(_, ranks)| ranks).collect()
}

/// The members that have told each other apart by peer, and the nodes they are on: `None` for a
/// peer of which the node is not known, which then counts as one of its own.
pub(super) fn nodes_of(peers: &[PeerId], known: &[u64]) -> Vec<u64> {
    let own = |peer: PeerId| u64::MAX - u64::from(peer.0);
    peers.iter().map(|&p| known.get(p.index()).copied().unwrap_or_else(|| own(p))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_ones_go_by_can_be_said() {
        let nodes = [5, 9, 5, 7, 9];
        let tree4 = Algorithm::Tree { arity: 4, links: 1 };
        let logp = LogP { o_s: 1.0, l: 20.0, o_r: 0.01, g: 0.01 };
        for logp in [None, Some(&logp)] {
            let said = Plan::new(Way::ByNode(Some(tree4)), &nodes, logp);
            assert_eq!((said.algorithm, said.tried), (tree4, None));
            assert_eq!(said.by_node, Some(by_node(&nodes)));
            let flat = Plan::new(Way::Flat(tree4), &nodes, logp);
            let found = Plan::new(Way::ByNode(None), &nodes, logp);
            assert_ne!(said.fingerprint(), flat.fingerprint());
            assert_ne!(said.fingerprint(), found.fingerprint());
        }
        assert!(Plan::new(Way::ByNode(None), &nodes, None).tried.is_some());
    }

    #[test]
    fn members_are_sorted_by_node_and_plans_told_apart() {
        let plan = Plan::new(Way::Auto, &[5, 9, 5, 7, 9], None);
        assert_eq!(plan.by_node, Some(vec![vec![0, 2], vec![1, 4], vec![3]]));
        let flat = Plan::new(Way::Auto, &[1, 2, 3, 4, 5], None);
        assert_eq!(flat.by_node, None);
        assert_ne!(plan.fingerprint(), flat.fingerprint());
        let two = Plan::new(Way::Auto, &[1, 1], None);
        assert!(two.patience_ns == LEAST_ON_NODE_NS && two.by_node.is_some());
        let unknown = nodes_of(&[PeerId(0), PeerId(1)], &[]);
        assert_eq!(Plan::new(Way::Auto, &unknown, None).patience_ns, LEAST_NS);
    }

    #[test]
    fn costs_decide() {
        // Receiving is dear: fewer messages to one rank.
        let by = |logp: &LogP| Plan::new(Way::Auto, &(0..16).collect::<Vec<_>>(), Some(logp));
        let dear = LogP { o_s: 1.0, l: 2.0, o_r: 10.0, g: 1.0 };
        assert_eq!(by(&dear).algorithm, Algorithm::Dissemination { ways: 1 });
        // Receiving costs next to nothing: all at once.
        let free = LogP { o_s: 1.0, l: 20.0, o_r: 0.01, g: 0.01 };
        assert_eq!(by(&free).algorithm, Algorithm::Concurrent { links: 1 });
        assert_eq!(by(&free).tried, None);
        assert_eq!(Plan::new(Way::Auto, &[1, 2, 3], None).tried, Some(&PACE));
        assert_eq!(Plan::new(Way::Auto, &[1, 2], None).tried, None);
    }
}
