//! From a specification to a list of cables: pure, so that it can be checked without making any.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use super::drawing::{self, Spot, Wire};
use super::{Addresses, LabSpec, Shape};

/// One end of a cable that is in a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct End {
    /// The node's number.
    pub node: u32,
    /// The interface's name there.
    pub interface: String,
    /// Its address and its subnet's prefix length, if it has one.
    pub address: Option<(Ipv4Addr, u8)>,
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
    /// Bytes of its largest IP packet.
    pub mtu: u32,
    /// What it does to frames.
    pub shape: Shape,
}

/// The switch of the network besides, and the name of each node's interface there.
const MANAGEMENT: u32 = 999;
const MANAGEMENT_INTERFACE: &str = "mgmt";

/// The cables of a lab.
pub(super) fn cables(spec: &LabSpec) -> Vec<Cable> {
    let wires = spec.topology.wires(spec.nodes, spec.links);
    let (mut parallel, mut plan) = (HashMap::new(), Plan::new(spec.addresses));
    let cable = |wire: Wire| {
        let before = parallel.entry(drawing::ends(&wire)).or_insert(0);
        let nth = *before;
        *before += 1;
        let (end, other) = match wire.to {
            Spot::Node(to) => plan.direct(wire.node, to, nth),
            Spot::Switch(switch) => plan.port(wire.node, switch, nth),
        };
        let mtu = wire.mtu.unwrap_or(spec.mtu);
        Cable { end, other, mtu, shape: wire.shape.or(spec.shape) }
    };
    let mut all: Vec<Cable> = wires.into_iter().map(cable).collect();
    if spec.management {
        all.extend((0..spec.nodes).map(management));
    }
    all
}

/// A node's cable to the network besides.
fn management(node: u32) -> Cable {
    let ip = Ipv4Addr::new(10, 99, (node / 250) as u8, (node % 250 + 1) as u8);
    let end = End { node, interface: MANAGEMENT_INTERFACE.into(), address: Some((ip, 16)) };
    let other = Other::Switch(MANAGEMENT, format!("p{MANAGEMENT}-{node}"));
    Cable { end, other, mtu: 1500, shape: Shape::default() }
}

/// A node's interface in the network besides, and its address there.
pub(super) fn managed(spec: &LabSpec, node: u32) -> Option<(String, Ipv4Addr)> {
    let end = management(node).end;
    Some((end.interface, end.address?.0)).filter(|_| spec.management)
}

/// Names and addresses that were given so far.
struct Plan {
    addresses: Addresses,
    /// Direct cables.
    direct: u32,
    /// Ends of all cables.
    ends: u32,
}

impl Plan {
    fn new(addresses: Addresses) -> Plan {
        Plan { addresses, direct: 0, ends: 0 }
    }

    /// The `nth` cable between two nodes.
    fn direct(&mut self, a: u32, b: u32, nth: u8) -> (End, Other) {
        // Four addresses a cable: its network, its two ends, its broadcast address.
        let base = 0x0a40_0000 + 4 * self.direct;
        self.direct += 1;
        let letter = (b'a' + nth) as char;
        let mut end = |node: u32, to: u32, host: u32| End {
            node,
            interface: format!("to{to}{letter}"),
            address: self.address((Ipv4Addr::from(base + host), 30)),
        };
        let (near, far) = (end(a, b, 1), end(b, a, 2));
        (near, Other::Node(far))
    }

    /// The `nth` cable between a node and a switch.
    fn port(&mut self, node: u32, switch: u32, nth: u8) -> (End, Other) {
        let letter = if nth == 0 { String::new() } else { ((b'a' + nth) as char).to_string() };
        let (high, low) = ((node / 250) as u8 + 2 * nth, (node % 250 + 1) as u8);
        let own = (Ipv4Addr::new(10, 100 + switch as u8, high, low), 16);
        let address = self.address(own);
        let end = End { node, interface: format!("lan{switch}{letter}"), address };
        (end, Other::Switch(switch, format!("p{switch}-{node}{letter}")))
    }

    /// The next end's address: with a subnet for each cable or switch, so that IP programs can be
    /// compared and no route leads round a corner, `own`.
    fn address(&mut self, own: (Ipv4Addr, u8)) -> Option<(Ipv4Addr, u8)> {
        self.ends += 1;
        match self.addresses {
            Addresses::None => None,
            Addresses::Each => Some(own),
            Addresses::Same => Some((Ipv4Addr::from(0x0a40_0000 + self.ends), 16)),
        }
    }
}

/// The end, at the node `from`, of what leads straight to the node `to`: a cable between them, or
/// else the first switch that both are on; none if nothing does.
pub(super) fn towards(spec: &LabSpec, from: u32, to: u32) -> Option<End> {
    let (mut direct, mut ports) = (None, Vec::new());
    for Cable { end, other, .. } in cables(spec) {
        match other {
            Other::Node(far) if (end.node, far.node) == (from, to) => direct = direct.or(Some(end)),
            Other::Node(far) if (far.node, end.node) == (from, to) => direct = direct.or(Some(far)),
            Other::Switch(MANAGEMENT, _) => {}
            Other::Switch(switch, _) if [from, to].contains(&end.node) => ports.push((switch, end)),
            _ => {}
        }
    }
    let both = |switch: u32| ports.iter().any(|(s, end)| *s == switch && end.node == to);
    let shared = ports.iter().filter(|(s, end)| end.node == from && both(*s));
    let port = shared.min_by_key(|(s, _)| *s).map(|(_, end)| end.clone());
    direct.or(port).filter(|_| from != to)
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
        assert_eq!(ends("nodes=5,topology=star,links=2").0, 8);
        assert_eq!(ends("topology=grid=3x4").0, 3 * 3 + 2 * 4);
        assert_eq!(ends("topology=groups=2x3,links=2").0, 2 * (2 * 3 + 6));
    }

    #[test]
    fn a_node_knows_its_own_end_of_the_cable_to_another() {
        let ip = |spec: &str, from, to| {
            let end = towards(&spec.parse().unwrap(), from, to)?;
            end.address.map(|(ip, _)| (end.node, ip.octets()))
        };
        assert_eq!(ip("nodes=3,topology=switch", 1, 2), Some((1, [10, 100, 0, 2])));
        assert_eq!(ip("nodes=3,topology=mesh", 0, 1), Some((0, [10, 64, 0, 1])));
        assert_eq!(ip("nodes=3,topology=mesh", 1, 0), Some((1, [10, 64, 0, 2])));
        assert_eq!(ip("nodes=3,topology=chain", 0, 2), None);
        assert_eq!(ip("nodes=3,topology=switch", 1, 1), None);
        assert_eq!(ip("nodes=3,topology=switch", 0, 7), None);
        assert_eq!(ip("nodes=3,topology=star", 1, 2), None);
        // Within a group by the cable, to another by the switch.
        assert_eq!(ip("topology=groups=2x2", 0, 1), Some((0, [10, 64, 0, 1])));
        assert_eq!(ip("topology=groups=2x2", 0, 2), Some((0, [10, 100, 0, 1])));
        let two = "topology=cables=node0+switch1;node1+switch0;node2+switch0;node0+switch0";
        assert_eq!(ip(two, 0, 1), Some((0, [10, 100, 0, 1])));
        assert_eq!(ip(two, 1, 0), Some((1, [10, 100, 0, 2])));
        assert_eq!(ip("topology=cables=node0+switch1;node1+switch0", 0, 1), None);
    }

    #[test]
    fn no_address_and_no_interface_is_there_twice() {
        let drawn = ["node0+switch0"; 26].join(";");
        let drawn = format!("topology=cables={drawn};node255+switch0;node250+switch0");
        for spec in [
            "nodes=256,topology=switch,links=8",
            "nodes=32,topology=mesh,links=8",
            "nodes=256,topology=ring,links=8",
            "topology=groups=16x16,links=1",
            "topology=grid=16x16,addresses=same",
            "nodes=256,topology=switch,links=8,addresses=same",
            &drawn,
        ] {
            let ends = ends(spec).1;
            let ips: HashSet<_> = ends.iter().map(|e| e.address).collect();
            let names: HashSet<_> = ends.iter().map(|e| (e.node, &e.interface)).collect();
            assert_eq!((ips.len(), names.len()), (ends.len(), ends.len()), "{spec}");
            assert!(ends.iter().all(|e| e.interface.len() < 16));
        }
    }

    #[test]
    fn addresses_may_be_one_subnet_or_none() {
        let same = ends("nodes=3,topology=ring,addresses=same").1;
        let network = |(ip, prefix): (Ipv4Addr, u8)| (u32::from(ip) >> 16, prefix);
        assert!(same.iter().all(|e| e.address.map(network) == Some((0x0a40, 16))));
        assert!(ends("nodes=3,addresses=none").1.iter().all(|e| e.address.is_none()));
    }

    #[test]
    fn what_a_drawn_cable_leaves_open_is_as_the_labs() {
        let spec = "topology=cables=node0+node1+rate=1gbit+mtu=9000;node1+node0,rate=1mbit,loss=1%";
        let cables = cables(&spec.parse().unwrap());
        let seen: Vec<_> = cables.iter().map(|c| (c.mtu, c.shape.rate, c.shape.loss)).collect();
        let loss = Some(10_000_000);
        let expected = [(9000, Some(1_000_000_000), loss), (1500, Some(1_000_000), loss)];
        assert_eq!(seen, expected);
        let names: Vec<_> = cables.iter().map(|c| c.end.interface.as_str()).collect();
        assert_eq!(names, ["to1a", "to0b"]);
    }
}
