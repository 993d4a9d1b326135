//! What this process has seen of the nodes of its job, in words for people: which answer and which
//! do not, and which two have the same Ethernet address.

use std::collections::{BTreeSet, HashMap, HashSet};

use weft_proto::Engine;
use weft_wire::{Address, LinkAddr, LinkId, PeerId};

/// Nodes that are named; of more it is said how many.
const NAMED_MAX: usize = 8;

/// Names, the first few of them.
fn list(names: &BTreeSet<String>) -> String {
    let mut text = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > NAMED_MAX {
        text += &format!(" and {} more", names.len() - NAMED_MAX);
    }
    text
}

/// Which nodes answer this one and which do not, where that says more than that a single one does
/// not: a job whose cables leave it in two parts shows by it.
pub(super) fn parts(engine: &Engine, me: &Address, peers: &[Option<Address>]) -> Option<String> {
    let (mut answer, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for (at, address) in peers.iter().enumerate() {
        let Some(address) = address.filter(|address| address.node != me.node) else { continue };
        match engine.has_answered(PeerId(at as u32)) {
            Some(true) => answer.insert(address.host()),
            Some(false) => silent.insert(address.host()),
            None => false,
        };
    }
    // A node of which one process answers is reached, whatever the others do.
    silent.retain(|host| !answer.contains(host));
    if silent.is_empty() || (answer.is_empty() && silent.len() < 2) {
        return None;
    }
    answer.insert(me.host());
    Some(format!(
        "seen from here, the job's nodes are in two parts: {} answer; {} do not",
        list(&answer),
        list(&silent)
    ))
}

/// Who is reached at which Ethernet address.
#[derive(Default)]
pub(super) struct Twins {
    met: HashMap<(LinkId, [u8; 6]), u64>,
    told: HashSet<[u8; 6]>,
}

impl Twins {
    /// This process reaches itself at `addr`, as far as the cable of `link` goes.
    pub fn own(&mut self, link: LinkId, addr: LinkAddr, node: u64) {
        if let LinkAddr::Mac(mac) = addr {
            self.met.insert((link, mac), node);
        }
    }

    /// `node` is reached over `link` at `addr`. Another node that is reached there as well, the
    /// first time that this shows.
    pub fn meet(&mut self, link: LinkId, addr: LinkAddr, node: u64) -> Option<u64> {
        let LinkAddr::Mac(mac) = addr else { return None };
        let before = self.met.insert((link, mac), node).filter(|&before| before != node)?;
        self.told.insert(mac).then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_cut_short() {
        let names = |count: u32| (0..count).map(|n| format!("n{n}")).collect();
        assert_eq!(list(&names(2)), "n0, n1");
        assert_eq!(list(&names(10)), "n0, n1, n2, n3, n4, n5, n6, n7 and 2 more");
    }

    #[test]
    fn twins_are_told_of_once_for_each_address() {
        let mut twins = Twins::default();
        let (mac, other) = (LinkAddr::Mac([2; 6]), LinkAddr::Mac([4; 6]));
        twins.own(LinkId(0), mac, 1);
        assert_eq!(twins.meet(LinkId(1), mac, 2), None, "another cable");
        assert_eq!(twins.meet(LinkId(0), other, 2), None);
        assert_eq!(twins.meet(LinkId(0), other, 2), None, "another process of that node");
        assert_eq!(twins.meet(LinkId(0), mac, 2), Some(1));
        assert_eq!(twins.meet(LinkId(0), mac, 3), None);
        assert_eq!(twins.meet(LinkId(0), other, 3), Some(2));
        twins.own(LinkId(2), mac, 1);
        assert_eq!(twins.meet(LinkId(2), mac, 2), None, "told already");
        assert_eq!(twins.meet(LinkId(0), LinkAddr::Port(1), 3), None);
    }
}
