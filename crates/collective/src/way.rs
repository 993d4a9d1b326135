//! The ways that barriers go, by name, and the algorithms that are considered for them.

use std::fmt;
use std::str::FromStr;

use crate::{Algorithm, AlgorithmError, LogP};

/// How the members of a group tell each other that they have entered a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Way {
    /// What is held to be fastest for these members.
    #[default]
    Auto,
    /// One algorithm over all members, wherever they are.
    Flat(Algorithm),
    /// The members of each node meet in shared memory; an algorithm between the first ones: this
    /// one, or what is held to be fastest.
    ByNode(Option<Algorithm>),
    /// All members meet in shared memory: for those of one node.
    Shm,
}

impl Way {
    /// The algorithm between all members, or the first ones of so many nodes: the one that it
    /// names, or, where it names none, the one that costs least by the papers' formulas.
    pub fn by_costs(self, nodes: u32, logp: &LogP) -> Algorithm {
        match self {
            Way::Flat(algorithm) | Way::ByNode(Some(algorithm)) => algorithm,
            Way::Auto | Way::ByNode(None) | Way::Shm => cheapest(nodes, logp),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Auto => f.write_str("auto"),
            Way::Flat(algorithm) => write!(f, "{algorithm}"),
            Way::ByNode(None) => f.write_str("hierarchical"),
            Way::ByNode(Some(algorithm)) => write!(f, "hierarchical-{algorithm}"),
            Way::Shm => f.write_str("shm"),
        }
    }
}

/// Why a name is not a way's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}; other ways are auto, shm, hierarchical, and hierarchical-ALGORITHM")]
pub struct WayError(AlgorithmError);

impl FromStr for Way {
    type Err = WayError;

    fn from_str(name: &str) -> Result<Way, WayError> {
        let algorithm = |name: &str| name.parse::<Algorithm>().map_err(WayError);
        match name {
            "auto" => Ok(Way::Auto),
            "hierarchical" => Ok(Way::ByNode(None)),
            "shm" => Ok(Way::Shm),
            _ => match name.strip_prefix("hierarchical-") {
                Some(among) => algorithm(among).map(|among| Way::ByNode(Some(among))),
                None => algorithm(name).map(Way::Flat),
            },
        }
    }
}

/// Algorithms that are considered between nodes: first those over one wire.
pub const CANDIDATES: [Algorithm; 9] = [
    Algorithm::Dissemination { ways: 1 },
    Algorithm::Dissemination { ways: 2 },
    Algorithm::Dissemination { ways: 3 },
    Algorithm::Tree { arity: 2, links: 1 },
    Algorithm::Tree { arity: 3, links: 1 },
    Algorithm::Tree { arity: 4, links: 1 },
    Algorithm::Concurrent { links: 1 },
    Algorithm::Tree { arity: 3, links: 2 },
    Algorithm::Concurrent { links: 2 },
];

/// So many of [`CANDIDATES`] go over one wire. The last of these ends by a release of the first
/// member.
pub const OVER_ONE: usize = 7;

fn cheapest(size: u32, logp: &LogP) -> Algorithm {
    // Nobody has said how many wires there are, and the costs are those of one.
    let mut best = CANDIDATES[0];
    for algorithm in CANDIDATES.into_iter().take(OVER_ONE) {
        if algorithm.cost(size, logp) < best.cost(size, logp) {
            best = algorithm;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_there_and_back() {
        let plain = ["auto", "hierarchical", "shm", "dissemination", "tree4", "concurrent"];
        let by_node = ["tree4", "nomial3", "dissemination2", "tree3-2net", "sequencer"];
        let by_node = by_node.map(|among| format!("hierarchical-{among}"));
        for name in plain.into_iter().chain(by_node.iter().map(String::as_str)) {
            assert_eq!(name.parse::<Way>().unwrap().to_string(), name);
        }
        for wrong in ["shm5", "hierarchical-", "hierarchical-auto", "hierarchicaltree4"] {
            let error = wrong.parse::<Way>().unwrap_err().to_string();
            assert!(
                error.contains("hierarchical-") && error.contains("tree2 to tree64"),
                "{error}"
            );
        }
    }

    #[test]
    fn candidates_over_one_wire_come_first() {
        let one = CANDIDATES.iter().take_while(|algorithm| algorithm.links() == 1);
        assert_eq!(one.count(), OVER_ONE);
        assert!(CANDIDATES[OVER_ONE..].iter().all(|algorithm| algorithm.links() == 2));
        assert!(CANDIDATES[OVER_ONE - 1].multicasts());
    }
}
