//! Which nodes of a lab have cables between them.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::LabError;
use super::drawing::{Drawing, Spot, Wire};

/// Which nodes have a cable between them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Topology {
    /// All on one switch.
    Switch,
    /// Each with each.
    Mesh,
    /// Each with the next.
    Chain,
    /// Each with the next, and the last with the first.
    Ring,
    /// The first with each other.
    Star,
    /// So many rows of so many nodes: each with the next in its row and in its column.
    Grid(u32, u32),
    /// So many groups of so many nodes: each with each of its group, and all on one switch.
    Groups(u32, u32),
    /// As drawn.
    Drawn(Drawing),
}

impl Topology {
    /// How many nodes it has, if it says so itself.
    pub fn nodes(&self) -> Option<u32> {
        match self {
            Topology::Grid(a, b) | Topology::Groups(a, b) => Some(a.saturating_mul(*b)),
            Topology::Drawn(drawing) => Some(drawing.nodes()),
            _ => None,
        }
    }

    /// The cables between `n` nodes, with `links` parallel ones or switches.
    pub(super) fn wires(&self, n: u32, links: u32) -> Vec<Wire> {
        let ports =
            || (0..links).flat_map(move |s| (0..n).map(move |n| Wire::new(n, Spot::Switch(s))));
        let cables = || {
            let wire = |(a, b)| (0..links).map(move |_| Wire::new(a, Spot::Node(b)));
            self.pairs(n).into_iter().flat_map(wire)
        };
        match self {
            Topology::Switch => ports().collect(),
            Topology::Groups(..) => cables().chain(ports()).collect(),
            Topology::Drawn(drawing) => drawing.wires.clone(),
            _ => cables().collect(),
        }
    }

    /// Which pairs of nodes have cables, each pair once.
    fn pairs(&self, n: u32) -> Vec<(u32, u32)> {
        let next = || (1..n).map(|b| (b - 1, b));
        match *self {
            Topology::Switch | Topology::Drawn(_) => Vec::new(),
            Topology::Mesh => mesh(0, n).collect(),
            Topology::Chain => next().collect(),
            // Two nodes are each other's neighbours on both sides: one cable is enough.
            Topology::Ring if n < 3 => next().collect(),
            Topology::Ring => next().chain([(0, n - 1)]).collect(),
            Topology::Star => (1..n).map(|b| (0, b)).collect(),
            Topology::Grid(_, width) => {
                let right = move |a: u32| (a % width + 1 < width).then_some((a, a + 1));
                let below = move |a: u32| (a + width < n).then_some((a, a + width));
                (0..n).flat_map(|a| right(a).into_iter().chain(below(a))).collect()
            }
            Topology::Groups(groups, size) => {
                (0..groups).flat_map(|g| mesh(g * size, (g + 1) * size)).collect()
            }
        }
    }
}

/// Every pair of the nodes from `first` to before `end`.
fn mesh(first: u32, end: u32) -> impl Iterator<Item = (u32, u32)> {
    (first..end).flat_map(move |a| (a + 1..end).map(move |b| (a, b)))
}

impl FromStr for Topology {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Topology, LabError> {
        let refuse = |why: &str| LabError::Spec { word: text.to_string(), why: why.to_string() };
        match text.to_ascii_lowercase().as_str() {
            "switch" => return Ok(Topology::Switch),
            "mesh" => return Ok(Topology::Mesh),
            "chain" => return Ok(Topology::Chain),
            "ring" => return Ok(Topology::Ring),
            "star" => return Ok(Topology::Star),
            _ => {}
        }
        let two = |value: &str| {
            // In a specification the comma ends the word.
            let (a, b) = value.split_once(['x', ','])?;
            let count = |text: &str| text.parse::<u32>().ok().filter(|n| *n > 0);
            Some((count(a)?, count(b)?))
        };
        match text.split_once('=') {
            Some(("grid", value)) => two(value)
                .map(|(a, b)| Topology::Grid(a, b))
                .ok_or_else(|| refuse("rows and columns are expected, as grid=2x3")),
            Some(("groups", value)) => two(value)
                .map(|(a, b)| Topology::Groups(a, b))
                .ok_or_else(|| refuse("groups and nodes in each are expected, as groups=2x4")),
            Some(("file", path)) => Drawing::read(Path::new(path)).map(Topology::Drawn),
            Some(("cables", word)) => Drawing::from_word(word).map(Topology::Drawn),
            _ if Path::new(text).is_file() => Drawing::read(Path::new(text)).map(Topology::Drawn),
            _ => Err(refuse(
                "there are switch, mesh, chain, ring, star, grid=AxB, groups=GxS and file=PATH",
            )),
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Topology::Switch => f.write_str("switch"),
            Topology::Mesh => f.write_str("mesh"),
            Topology::Chain => f.write_str("chain"),
            Topology::Ring => f.write_str("ring"),
            Topology::Star => f.write_str("star"),
            Topology::Grid(rows, columns) => write!(f, "grid={rows}x{columns}"),
            Topology::Groups(groups, size) => write!(f, "groups={groups}x{size}"),
            Topology::Drawn(drawing) => write!(f, "cables={drawing}"),
        }
    }
}

impl From<Topology> for String {
    fn from(topology: Topology) -> String {
        topology.to_string()
    }
}

impl TryFrom<String> for Topology {
    type Error = LabError;

    fn try_from(text: String) -> Result<Topology, LabError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str, n: u32) -> Vec<(u32, u32)> {
        text.parse::<Topology>().unwrap().pairs(n)
    }

    #[test]
    fn neighbours_have_cables() {
        assert_eq!(pairs("star", 4), [(0, 1), (0, 2), (0, 3)]);
        let grid = [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)];
        assert_eq!(pairs("grid=2x3", 6), grid);
        assert_eq!(pairs("grid=1x3", 3), pairs("chain", 3));
        assert_eq!(pairs("grid=3x1", 3), pairs("chain", 3));
        assert_eq!(pairs("groups=2,2", 4), [(0, 1), (2, 3)]);
        assert_eq!(pairs("groups=1x3", 3), pairs("mesh", 3));
        assert_eq!("groups=2x3".parse::<Topology>().unwrap().wires(6, 1).len(), 2 * 3 + 6);
        assert_eq!("groups=2x3".parse::<Topology>().unwrap().wires(6, 2).len(), 2 * 12);
    }

    #[test]
    fn each_is_written_as_it_is_read() {
        let cables = "cables=node0+node1+rate=1gbit;node1+switch0";
        for text in ["switch", "mesh", "chain", "ring", "star", "grid=2x3", "groups=2x4", cables] {
            let topology: Topology = text.parse().unwrap();
            assert_eq!(topology.to_string(), text);
            let json = serde_json::to_string(&topology).unwrap();
            assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), topology);
        }
        assert_eq!("RING".parse::<Topology>().unwrap(), Topology::Ring);
        assert_eq!("groups=2,4".parse::<Topology>().unwrap(), Topology::Groups(2, 4));
    }

    #[test]
    fn what_is_expected_is_said() {
        let error = |text: &str| text.parse::<Topology>().unwrap_err().to_string();
        for text in ["torus", "", "grid", "mesh=3", "/no/such/file"] {
            assert!(error(text).contains("grid=AxB, groups=GxS and file=PATH"), "{text}");
        }
        for text in ["grid=", "grid=2", "grid=0x3", "grid=2x", "grid=2x3x4", "grid=-1x2"] {
            assert!(error(text).contains("grid=2x3"), "{text}");
        }
        assert!(error("groups=2").contains("groups=2x4"));
        assert!(error("file=/no/such/file").contains("/no/such/file"));
        assert!(error("cables=node0").contains("two ends"));
    }
}
