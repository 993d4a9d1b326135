//! What a lab looks like, as users write it: `nodes=4,topology=ring,links=2,mtu=9000`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::LabError;

/// Which nodes have a cable between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// All on one switch.
    Switch,
    /// Each with each.
    Mesh,
    /// Each with the next.
    Chain,
    /// Each with the next, and the last with the first.
    Ring,
}

impl Topology {
    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Topology::Switch => "switch",
            Topology::Mesh => "mesh",
            Topology::Chain => "chain",
            Topology::Ring => "ring",
        }
    }
}

/// A lab's shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LabSpec {
    /// Nodes, 1 to [`LabSpec::NODES_MAX`].
    pub nodes: u32,
    /// Which have cables between them.
    pub topology: Topology,
    /// Parallel cables (or switches), 1 to [`LabSpec::LINKS_MAX`].
    pub links: u32,
    /// Bytes of the largest IP packet.
    pub mtu: u32,
}

impl Default for LabSpec {
    fn default() -> LabSpec {
        LabSpec { nodes: 2, topology: Topology::Switch, links: 1, mtu: 1500 }
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
        if !Self::MTU.contains(&self.mtu) {
            let why = format!("an MTU is {} to {}", Self::MTU.start(), Self::MTU.end());
            return refuse(format!("mtu={}", self.mtu), why);
        }
        if self.topology == Topology::Mesh {
            let cables = self.nodes * (self.nodes - 1) / 2 * self.links;
            if cables > Self::CABLES_MAX {
                let why = format!("that is {cables} cables, more than {}", Self::CABLES_MAX);
                return refuse(format!("nodes={},topology=mesh", self.nodes), why);
            }
        }
        Ok(self)
    }
}

impl FromStr for LabSpec {
    type Err = LabError;

    fn from_str(text: &str) -> Result<LabSpec, LabError> {
        let mut spec = LabSpec::default();
        for word in text.split(',').filter(|w| !w.is_empty()) {
            let refuse =
                |why: &str| LabError::Spec { word: word.to_string(), why: why.to_string() };
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| refuse("a key, `=` and a value are expected"))?;
            let number = || value.parse().map_err(|_| refuse("a number is expected"));
            match key.trim() {
                "nodes" => spec.nodes = number()?,
                "links" => spec.links = number()?,
                "mtu" => spec.mtu = number()?,
                "topology" => {
                    spec.topology = clap::ValueEnum::from_str(value, true)
                        .map_err(|_| refuse("there are switch, mesh, chain and ring"))?;
                }
                _ => return Err(refuse("there are nodes, topology, links and mtu")),
            }
        }
        spec.check()
    }
}

impl fmt::Display for LabSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LabSpec { nodes, topology, links, mtu } = self;
        write!(f, "nodes={nodes},topology={},links={links},mtu={mtu}", topology.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_read_and_written() {
        let spec: LabSpec = "nodes=4,topology=ring,links=2,mtu=9000".parse().unwrap();
        assert_eq!(spec, LabSpec { nodes: 4, topology: Topology::Ring, links: 2, mtu: 9000 });
        assert_eq!(spec.to_string().parse::<LabSpec>().unwrap(), spec);
        assert_eq!("".parse::<LabSpec>().unwrap(), LabSpec::default());
    }

    #[test]
    fn nonsense_is_named() {
        let error = |text: &str| text.parse::<LabSpec>().unwrap_err().to_string();
        assert!(error("nodes=two").contains("nodes=two"));
        assert!(error("topology=star").contains("switch, mesh, chain and ring"));
        assert!(error("color=red").contains("nodes, topology, links and mtu"));
        assert!(error("nodes=0").contains("1 to 256"));
        assert!(error("mtu=100").contains("1280"));
        assert!(error("nodes=200,topology=mesh").contains("cables"));
        assert!(error("nodes").contains("`=`"));
    }
}
