//! Where ranks are: how many, and on how many nodes.

/// Ranks on nodes, as evenly as they can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How many ranks.
    pub ranks: u32,
    /// On how many nodes: one is this machine, two have a cable, more are on a switch.
    pub nodes: u32,
}

impl Layout {
    /// So many ranks on so many nodes.
    pub const fn new(ranks: u32, nodes: u32) -> Layout {
        Layout { ranks, nodes }
    }

    /// As options and devices name it: `4x2`.
    pub fn name(self) -> String {
        format!("{}x{}", self.ranks, self.nodes)
    }

    /// For people.
    pub fn title(self) -> String {
        let Layout { ranks, nodes } = self;
        format!("{ranks} ranks on {nodes} {}", if nodes == 1 { "node" } else { "nodes" })
    }

    /// How many ranks each of so many nodes has, of which the first ones are used.
    pub fn share(self, there: u32) -> Vec<u32> {
        let of = |node: u32| self.ranks / self.nodes + u32::from(node < self.ranks % self.nodes);
        (0..there).map(|node| if node < self.nodes { of(node) } else { 0 }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_shared_out_evenly() {
        assert_eq!(Layout::new(4, 2).share(2), [2, 2]);
        assert_eq!(Layout::new(5, 2).share(3), [3, 2, 0]);
        assert_eq!(Layout::new(4, 2).name(), "4x2");
        assert_eq!(Layout::new(2, 1).title(), "2 ranks on 1 node");
    }
}
