//! What a lab looks like, as users write it: `nodes=4,topology=ring,links=2,mtu=9000`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{LabError, Shape, Topology, plan};

/// Which IPv4 addresses cables have.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Addresses {
    /// None
    None,
    /// Each cable, or each switch, is a subnet of its own
    #[default]
    Each,
    /// All cables and switches are one subnet
    Same,
}

/// A lab's shape.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct LabSpec {
    /// Nodes, 1 to [`LabSpec::NODES_MAX`].
    pub nodes: u32,
    /// Which have cables between them.
    pub topology: Topology,
    /// Parallel cables (or switches), 1 to [`LabSpec::LINKS_MAX`].
    pub links: u32,
    /// Bytes of the largest IP packet.
    pub mtu: u32,
    /// What cables do to frames.
    pub shape: Shape,
    /// Which IPv4 addresses they have.
    pub addresses: Addresses,
    /// Whether all nodes have a network besides, with addresses, for who starts jobs.
    pub management: bool,
}

impl Default for LabSpec {
    fn default() -> LabSpec {
        LabSpec {
            nodes: 2,
            topology: Topology::Switch,
            links: 1,
            mtu: 1500,
            shape: Shape::default(),
            addresses: Addresses::Each,
            management: false,
        }
    }
}

impl LabSpec {
    /// Most nodes of a lab.
    pub const NODES_MAX: u32 = 256;
    /// Most parallel links of a lab.
    pub const LINKS_MAX: u32 = 8;
    /// Most cables of a lab: more would take the kernel minutes to make.
    pub const CABLES_MAX: u32 = 4096;
    /// The smallest and the largest MTU: IPv6 needs the one, veth allows no more than the other.
    pub const MTU: std::ops::RangeInclusive<u32> = 1280..=65535;
    /// Characters of a topology that [`LabSpec::short`] shows.
    const SHORT: usize = 60;

    /// With so many nodes, if the user says how many, else as many as its topology has; checked.
    ///
    /// # Errors
    /// When both say it and differ, or when [`LabSpec::check`] finds something.
    pub fn with_nodes(self, nodes: Option<u32>) -> Result<LabSpec, LabError> {
        let nodes = match (nodes, self.topology.nodes()) {
            (Some(nodes), Some(has)) if nodes != has => {
                let why = format!("its topology has {has} nodes; leave `nodes` out");
                return Err(LabError::Spec { word: format!("nodes={nodes}"), why });
            }
            (told, has) => told.or(has).unwrap_or(self.nodes),
        };
        LabSpec { nodes, ..self }.check()
    }

    /// Checks that the numbers make sense together.
    ///
    /// # Errors
    /// When one does not.
    pub fn check(self) -> Result<LabSpec, LabError> {
        let refuse = |word: String, why: String| Err(LabError::Spec { word, why });
        if !(1..=Self::NODES_MAX).contains(&self.nodes) {
            let why = format!("a lab has 1 to {} nodes", Self::NODES_MAX);
            return refuse(format!("nodes={}", self.nodes), why);
        }
        if !(1..=Self::LINKS_MAX).contains(&self.links) {
            let why = format!("a lab has 1 to {} parallel links", Self::LINKS_MAX);
            return refuse(format!("links={}", self.links), why);
        }
        if matches!(self.topology, Topology::Drawn(_)) && self.links > 1 {
            let why = "parallel cables are lines of the file".to_string();
            return refuse(format!("links={}", self.links), why);
        }
        if !Self::MTU.contains(&self.mtu) {
            let why = format!("an MTU is {} to {}", Self::MTU.start(), Self::MTU.end());
            return refuse(format!("mtu={}", self.mtu), why);
        }
        let cables = self.topology.wires(self.nodes, self.links).len();
        if cables > Self::CABLES_MAX as usize {
            let why = format!("that is {cables} cables, more than {}", Self::CABLES_MAX);
            return refuse(format!("nodes={},topology={}", self.nodes, self.topology), why);
        }
        Ok(self)
    }

    /// Whether IP programs on all nodes reach each other over the cables.
    pub fn is_joined(&self) -> bool {
        let has_way = |a, b| plan::towards(self, a, b).is_some_and(|end| end.address.is_some());
        (0..self.nodes).all(|a| (0..self.nodes).all(|b| a == b || has_way(a, b)))
    }

    /// For people: without most of the cables that were drawn, if there are many.
    pub fn short(&self) -> String {
        let (whole, topology) = (self.to_string(), self.topology.to_string());
        match (&self.topology, topology.char_indices().nth(Self::SHORT)) {
            (Topology::Drawn(drawing), Some((end, _))) => {
                let seen = &topology[..topology[..end].rfind(';').unwrap_or(end)];
                let count = drawing.wires.len();
                whole.replace(&topology, &format!("{seen};... ({count} cables)"))
            }
            _ => whole,
        }
    }
}

impl FromStr for LabSpec {
    type Err = LabError;

    fn from_str(text: &str) -> Result<LabSpec, LabError> {
        let (mut spec, mut nodes) = (LabSpec::default(), None);
        for word in text.split(',').filter(|w| !w.is_empty()) {
            let refuse =
                |why: &str| LabError::Spec { word: word.to_string(), why: why.to_string() };
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| refuse("a key, `=` and a value are expected"))?;
            let number = || value.parse().map_err(|_| refuse("a number is expected"));
            match key.trim() {
                "nodes" => nodes = Some(number()?),
                "links" => spec.links = number()?,
                "mtu" => spec.mtu = number()?,
                "topology" => spec.topology = value.parse()?,
                "addresses" => {
                    spec.addresses = clap::ValueEnum::from_str(value, true)
                        .map_err(|_| refuse("there are none, each and same"))?;
                }
                "management" => {
                    spec.management = match value {
                        "yes" => true,
                        "no" => false,
                        _ => return Err(refuse("yes or no is expected")),
                    };
                }
                key => match spec.shape.set(key, value) {
                    Some(set) => set.map_err(|why| refuse(&why))?,
                    None => {
                        return Err(refuse(
                            "there are nodes, topology, links, mtu, rate, delay, loss, addresses \
                             and management",
                        ));
                    }
                },
            }
        }
        spec.with_nodes(nodes)
    }
}

impl fmt::Display for LabSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LabSpec { nodes, topology, links, mtu, shape, addresses, management } = self;
        write!(f, "nodes={nodes},topology={topology},links={links},mtu={mtu}{shape}")?;
        match addresses {
            Addresses::None => f.write_str(",addresses=none")?,
            Addresses::Each => {}
            Addresses::Same => f.write_str(",addresses=same")?,
        }
        f.write_str(if *management { ",management=yes" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_read_and_written() {
        let spec: LabSpec = "nodes=4,topology=ring,links=2,mtu=9000".parse().unwrap();
        let plain = LabSpec::default();
        let ring = LabSpec { nodes: 4, topology: Topology::Ring, links: 2, mtu: 9000, ..plain };
        assert_eq!(spec, ring);
        assert_eq!(spec.to_string(), "nodes=4,topology=ring,links=2,mtu=9000");
        assert_eq!("".parse::<LabSpec>().unwrap(), LabSpec::default());
        for text in [
            "nodes=4,topology=ring,links=2,mtu=9000",
            "nodes=3,topology=star,rate=1gbit,delay=20us,loss=0.1%",
            "topology=grid=2x3,addresses=none,management=yes",
            "topology=groups=2x4,links=2,addresses=same",
            "topology=cables=node0+node1+rate=1gbit;node0+node1,delay=1ms",
        ] {
            let spec: LabSpec = text.parse().unwrap();
            assert_eq!(spec.to_string().parse::<LabSpec>().unwrap(), spec, "{text}");
            let json = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<LabSpec>(&json).unwrap(), spec, "{text}");
        }
    }

    #[test]
    fn nodes_follow_from_a_topology_that_has_its_own() {
        let nodes = |text: &str| text.parse::<LabSpec>().map(|spec| spec.nodes);
        assert_eq!(nodes("topology=grid=2x3").unwrap(), 6);
        assert_eq!(nodes("nodes=6,topology=grid=2x3").unwrap(), 6);
        assert_eq!(nodes("topology=groups=2x4").unwrap(), 8);
        assert_eq!(nodes("topology=cables=node0+node4").unwrap(), 5);
        assert_eq!(nodes("topology=star").unwrap(), 2);
        let error = nodes("topology=grid=2x3,nodes=5").unwrap_err().to_string();
        assert!(error.contains("nodes=5") && error.contains("has 6 nodes"), "{error}");
    }

    #[test]
    fn nonsense_is_named() {
        let error = |text: &str| text.parse::<LabSpec>().unwrap_err().to_string();
        assert!(error("nodes=two").contains("nodes=two"));
        assert!(error("topology=torus").contains("switch, mesh, chain, ring, star"));
        assert!(error("topology=groups=2,4").contains("groups=2x4"));
        assert!(error("color=red").contains("loss, addresses and management"));
        assert!(error("nodes=0").contains("1 to 256"));
        assert!(error("topology=grid=99x99").contains("1 to 256"));
        assert!(error("topology=grid=99999x99999").contains("1 to 256"));
        assert!(error("mtu=100").contains("1280"));
        assert!(error("rate=fast").contains("1gbit"));
        assert!(error("addresses=many").contains("none, each and same"));
        assert!(error("nodes=200,topology=mesh").contains("cables"));
        assert!(error("links=2,topology=cables=node0+node1").contains("lines of the file"));
        assert!(error("nodes").contains("`=`"));
    }

    #[test]
    fn many_drawn_cables_are_shown_short() {
        let cables = ["node0+node1"; 20].join(";");
        let spec: LabSpec = format!("topology=cables={cables},delay=1ms").parse().unwrap();
        let short = spec.short();
        assert!(short.contains("node1;... (20 cables),links=1"), "{short}");
        assert!(short.ends_with("delay=1ms") && short.len() < 130, "{short}");
        let few: LabSpec = "topology=cables=node0+node1".parse().unwrap();
        assert_eq!(few.short(), few.to_string());
    }
}
