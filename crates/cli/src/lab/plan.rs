//! From a specification to a list of cables: pure, so that it can be checked without making any.

use std::net::Ipv4Addr;

use super::{LabSpec, Topology};

/// One end of a cable that is in a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct End {
    /// The node's number.
    pub node: u32,
    /// The interface's name there.
    pub interface: String,
    /// Its address. Each cable, or each switch, is a subnet of its own, so that IP programs can be
    /// compared and no route leads round a corner.
    pub ip: Ipv4Addr,
    /// The subnet's prefix length.
    pub prefix: u8,
}

/// What is at the other end of a cable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Other {
    /// Another node.
    Node(End),
    /// A port of a switch: which switch, and the port's name.
    Switch(u32, String),
}

/// A cable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cable {
    pub end: End,
    pub other: Other,
}

/// The cables of a lab.
pub(super) fn cables(spec: &LabSpec) -> Vec<Cable> {
    match spec.topology {
        Topology::Switch => switched(spec),
        _ => direct(spec),
    }
}

fn switched(spec: &LabSpec) -> Vec<Cable> {
    let port = |switch: u32, node: u32| Cable {
        end: End {
            node,
            interface: format!("lan{switch}"),
            ip: Ipv4Addr::new(10, 100 + switch as u8, (node / 250) as u8, (node % 250 + 1) as u8),
            prefix: 16,
        },
        other: Other::Switch(switch, format!("p{switch}-{node}")),
    };
    (0..spec.links).flat_map(|s| (0..spec.nodes).map(move |n| port(s, n))).collect()
}

fn direct(spec: &LabSpec) -> Vec<Cable> {
    let mut cables = Vec::new();
    for (a, b) in pairs(spec) {
        for link in 0..spec.links {
            // Four addresses a cable: its network, its two ends, its broadcast address.
            let base = 0x0a40_0000 + 4 * cables.len() as u32;
            let end = |node: u32, to: u32, host: u32| End {
                node,
                interface: format!("to{to}{}", (b'a' + link as u8) as char),
                ip: Ipv4Addr::from(base + host),
                prefix: 30,
            };
            cables.push(Cable { end: end(a, b, 1), other: Other::Node(end(b, a, 2)) });
        }
    }
    cables
}

/// The end, at the node `from`, of what leads straight to the node `to`; none if nothing does.
pub(super) fn towards(spec: &LabSpec, from: u32, to: u32) -> Option<End> {
    let mut ends = cables(spec).into_iter().filter_map(|cable| match cable.other {
        Other::Switch(0, _) => (cable.end.node == from).then_some(cable.end),
        Other::Switch(..) => None,
        Other::Node(other) if (cable.end.node, other.node) == (from, to) => Some(cable.end),
        Other::Node(other) if (other.node, cable.end.node) == (from, to) => Some(other),
        Other::Node(_) => None,
    });
    ends.find(|_| from != to && from < spec.nodes && to < spec.nodes)
}

/// Which pairs of nodes have cables, each pair once.
fn pairs(spec: &LabSpec) -> Vec<(u32, u32)> {
    let n = spec.nodes;
    let next = || (1..n).map(|b| (b - 1, b));
    match spec.topology {
        Topology::Switch => Vec::new(),
        Topology::Mesh => (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect(),
        Topology::Chain => next().collect(),
        // Two nodes are each other's neighbours on both sides: one cable is enough.
        Topology::Ring if n < 3 => next().collect(),
        Topology::Ring => next().chain([(0, n - 1)]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn ends(spec: &str) -> (usize, Vec<End>) {
        let cables = cables(&spec.parse().unwrap());
        let count = cables.len();
        let mut ends = Vec::new();
        for cable in cables {
            ends.push(cable.end);
            if let Other::Node(end) = cable.other {
                ends.push(end);
            }
        }
        (count, ends)
    }

    #[test]
    fn each_shape_has_its_cables() {
        assert_eq!(ends("nodes=4,topology=switch,links=2").0, 8);
        assert_eq!(ends("nodes=4,topology=mesh,links=2").0, 12);
        assert_eq!(ends("nodes=4,topology=chain").0, 3);
        assert_eq!(ends("nodes=4,topology=ring").0, 4);
        assert_eq!(ends("nodes=2,topology=ring").0, 1);
        assert_eq!(ends("nodes=1,topology=ring").0, 0);
    }

    #[test]
    fn a_node_knows_its_own_end_of_the_cable_to_another() {
        let ip = |spec: &str, from, to| {
            towards(&spec.parse().unwrap(), from, to).map(|end| (end.node, end.ip.octets()))
        };
        assert_eq!(ip("nodes=3,topology=switch", 1, 2), Some((1, [10, 100, 0, 2])));
        assert_eq!(ip("nodes=3,topology=mesh", 0, 1), Some((0, [10, 64, 0, 1])));
        assert_eq!(ip("nodes=3,topology=mesh", 1, 0), Some((1, [10, 64, 0, 2])));
        assert_eq!(ip("nodes=3,topology=chain", 0, 2), None);
        assert_eq!(ip("nodes=3,topology=switch", 1, 1), None);
    }

    #[test]
    fn no_address_and_no_interface_is_there_twice() {
        for spec in [
            "nodes=256,topology=switch,links=8",
            "nodes=32,topology=mesh,links=8",
            "nodes=256,topology=ring,links=8",
        ] {
            let ends = ends(spec).1;
            let ips: HashSet<_> = ends.iter().map(|e| e.ip).collect();
            let names: HashSet<_> = ends.iter().map(|e| (e.node, &e.interface)).collect();
            assert_eq!((ips.len(), names.len()), (ends.len(), ends.len()), "{spec}");
            assert!(ends.iter().all(|e| e.interface.len() < 16));
        }
    }
}
