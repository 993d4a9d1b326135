//! All that is known, from whoever told it, as one matrix.

use std::collections::{BTreeMap, BTreeSet};

use super::item::{FarItem, LinkItem, NodeItem, RowItem, WhoItem};
use crate::bench::figure::digits;

/// The way from a link of one node to a link of another.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    /// Nonce of the node that measured.
    pub from: u64,
    /// What it found.
    pub row: RowItem,
}

/// What is known of a node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Who it is.
    pub who: WhoItem,
    /// What it is called here: its host's name, made different from all others'.
    pub label: String,
    /// Its links, if it told us itself.
    pub links: Option<Vec<LinkItem>>,
    /// Links that it could not open, and why.
    pub unusable: Vec<(String, String)>,
    /// Whether we know what it found.
    pub told: bool,
    /// Why it hands nothing on between others, where that is so.
    pub hands_nothing_on: Option<String>,
    /// What came of the ways that it tried.
    pub far: Vec<FarItem>,
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct View {
    /// By nonce.
    pub nodes: BTreeMap<u64, Node>,
    /// All ways, in the nodes' order.
    pub rows: Vec<Edge>,
    /// Processes that share a node id with one on another machine.
    pub duplicates: BTreeSet<WhoItem>,
    /// The nodes in the order in which they are shown.
    pub order: Vec<u64>,
}

impl View {
    /// Joins what these say; what a process says itself comes before what others say of it.
    pub fn new(all: &[NodeItem]) -> View {
        let mut view = View {
            nodes: BTreeMap::new(),
            rows: Vec::new(),
            duplicates: all.iter().flat_map(|n| n.duplicates.iter().cloned()).collect(),
            order: Vec::new(),
        };
        for node in all {
            view.add(&node.who);
            let entry = view.nodes.get_mut(&node.who.nonce);
            if let Some(entry) = entry {
                entry.links = Some(node.links.clone());
                entry.unusable.clone_from(&node.unusable);
                entry.hands_nothing_on.clone_from(&node.hands_nothing_on);
                entry.far.clone_from(&node.far);
            }
            view.told(&node.who, &node.rows);
        }
        for (who, rows) in all.iter().flat_map(|n| &n.others) {
            view.add(who);
            view.told(who, rows);
        }
        for row in view.rows.clone() {
            view.add(&row.row.peer);
        }
        view.name();
        let place = |nonce: u64| view.order.iter().position(|n| *n == nonce);
        let mut rows = std::mem::take(&mut view.rows);
        rows.sort_by_key(|e| (place(e.from), place(e.row.peer.nonce), e.row.link.clone()));
        view.rows = rows;
        view
    }

    fn add(&mut self, who: &WhoItem) {
        if !self.nodes.contains_key(&who.nonce) {
            self.order.push(who.nonce);
            let label = who.host.clone();
            let node = Node {
                who: who.clone(),
                label,
                links: None,
                unusable: Vec::new(),
                told: false,
                hands_nothing_on: None,
                far: Vec::new(),
            };
            self.nodes.insert(who.nonce, node);
        }
    }

    /// Takes the rows of a node, unless better ones are there.
    fn told(&mut self, who: &WhoItem, rows: &[RowItem]) {
        let Some(node) = self.nodes.get_mut(&who.nonce) else { return };
        if !node.told {
            node.told = true;
            let edge = |row: &RowItem| Edge { from: who.nonce, row: row.clone() };
            self.rows.extend(rows.iter().map(edge));
        }
    }

    /// Makes labels differ.
    fn name(&mut self) {
        let mut used: BTreeMap<String, u32> = BTreeMap::new();
        for nonce in &self.order {
            let Some(node) = self.nodes.get_mut(nonce) else { continue };
            let count = used.entry(node.who.host.clone()).or_default();
            *count += 1;
            if *count > 1 {
                node.label = format!("{}#{count}", node.who.host);
            }
        }
    }

    /// What a node is called.
    pub fn label(&self, nonce: u64) -> &str {
        self.nodes.get(&nonce).map_or("?", |n| &n.label)
    }

    /// What the node with this id is called.
    pub fn label_of_node(&self, node: u64) -> &str {
        self.nodes.values().find(|n| n.who.node == node).map_or("?", |n| &n.label)
    }

    /// A link of a node, if that told of it.
    fn link(&self, node: u64, name: &str) -> Option<&LinkItem> {
        self.nodes.get(&node)?.links.as_ref()?.iter().find(|link| link.name == name)
    }

    /// What makes one end of a way a last resort, if it is one: each end tells the other.
    pub fn last_resort(&self, edge: &Edge) -> Option<&str> {
        let row = &edge.row;
        let ends = [self.link(edge.from, &row.link), self.link(row.peer.nonce, &row.peer_link)];
        let last = ends.into_iter().flatten().find(|link| link.last_resort)?;
        last.medium.as_deref()
    }

    /// Which of the rows is the same way seen from the other end, if that end told.
    pub fn back(&self, edge: &Edge) -> Option<usize> {
        self.rows.iter().position(|e| {
            (e.from, e.row.peer.nonce) == (edge.row.peer.nonce, edge.from)
                && e.row.link == edge.row.peer_link
                && e.row.peer_link == edge.row.link
        })
    }
}

/// A time, for people.
pub(super) fn us(time: Option<f64>) -> String {
    time.map_or("-".to_string(), |us| format!("{} us", digits(us)))
}

/// A bandwidth, for people.
pub(super) fn rate(mb_s: Option<f64>) -> String {
    match mb_s {
        None => "-".to_string(),
        Some(v) if v >= 1000.0 => format!("{} GB/s", digits(v / 1000.0)),
        Some(v) => format!("{} MB/s", digits(v)),
    }
}
