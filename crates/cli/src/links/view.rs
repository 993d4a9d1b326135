//! All that is known, from whoever told it, as one matrix.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde::Serialize;

use super::item::{LinkItem, NodeItem, RowItem, WhoItem};
use super::odd::Odd;
use crate::bench::figure::{Spread, digits};
use crate::output::{Table, json_line};

/// Larger matrices do not fit a screen: then there is only the list.
const MATRIX_MAX: usize = 16;

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
            let (links, unusable) = (None, Vec::new());
            let node = Node { who: who.clone(), label, links, unusable, told: false };
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

    /// Which of the rows is the same way seen from the other end, if that end told.
    pub fn back(&self, edge: &Edge) -> Option<usize> {
        self.rows.iter().position(|e| {
            (e.from, e.row.peer.nonce) == (edge.row.peer.nonce, edge.from)
                && e.row.link == edge.row.peer_link
                && e.row.peer_link == edge.row.link
        })
    }

    /// Writes the matrix, the list, and what is odd.
    pub fn print(&self, odd: &[Odd]) {
        let mut text = String::new();
        if !self.rows.is_empty() {
            if self.order.len() <= MATRIX_MAX {
                text.push_str("from \\ to: links, shortest round trip, largest bandwidth\n");
                text.push_str(&self.matrix().text());
                text.push('\n');
            }
            text.push_str(&self.list().text());
        }
        for node in self.order.iter().filter_map(|nonce| self.nodes.get(nonce)) {
            for (link, why) in &node.unusable {
                text.push_str(&format!("\nnot usable: {link} of {}: {why}", node.label));
            }
        }
        for one in odd {
            text.push_str(&format!("\nodd: {}", one.what));
        }
        text.push('\n');
        // A reader that has gone away is not an error.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
    }

    fn matrix(&self) -> Table {
        let labels = self.order.iter().map(|n| self.label(*n).to_string());
        let mut table = Table::new([String::new()].into_iter().chain(labels));
        for from in &self.order {
            let cells = self.order.iter().map(|to| self.cell(*from, *to));
            table.row([self.label(*from).to_string()].into_iter().chain(cells));
        }
        table
    }

    fn cell(&self, from: u64, to: u64) -> String {
        let rows = || {
            let between = move |e: &&Edge| (e.from, e.row.peer.nonce) == (from, to);
            self.rows.iter().filter(between).map(|e| &e.row)
        };
        let count = rows().filter(|r| r.answers).count();
        match count {
            _ if from == to => return ".".to_string(),
            0 if rows().count() > 0 => return "heard only".to_string(),
            0 if self.nodes.get(&from).is_some_and(|n| !n.told) => return "?".to_string(),
            0 => return "-".to_string(),
            _ => {}
        }
        let rtt = rows().filter_map(|r| r.rtt_us.map(|s| s.p50)).min_by(f64::total_cmp);
        let most = rows().filter_map(|r| r.bandwidth_mb_s).max_by(f64::total_cmp);
        format!("{count}, {}, {}", us(rtt), rate(most))
    }

    fn list(&self) -> Table {
        let mut table =
            Table::new(["from", "to", "link", "its link", "MTU", "RTT", "least", "bandwidth"]);
        for Edge { from, row } in &self.rows {
            let mtu = match row.mtu == row.peer_mtu {
                true => row.mtu.to_string(),
                false => format!("{}/{}", row.mtu, row.peer_mtu),
            };
            table.row([
                self.label(*from).to_string(),
                self.label(row.peer.nonce).to_string(),
                row.link.clone(),
                row.peer_link.clone(),
                mtu,
                us(row.rtt_us.map(|s| s.p50)),
                us(row.rtt_us.map(|s| s.min)),
                rate(row.bandwidth_mb_s),
            ]);
        }
        table
    }

    /// Writes a line for each way, then one for each odd thing that belongs to none.
    pub fn json(&self, odd: &[Odd]) {
        for (at, Edge { from, row }) in self.rows.iter().enumerate() {
            let own = odd.iter().filter(|o| o.row == Some(at));
            let node = |nonce: u64| self.nodes.get(&nonce).map_or(0, |n| n.who.node);
            json_line(&Line {
                bench: "links",
                device: row.link.split(':').next().unwrap_or(""),
                ranks: 2,
                bytes: row.mtu.min(row.peer_mtu),
                from: self.label(*from),
                to: Some(self.label(row.peer.nonce)),
                from_node: format!("{:016x}", node(*from)),
                to_node: Some(format!("{:016x}", row.peer.node)),
                link: Some(&row.link),
                peer_link: Some(&row.peer_link),
                mtu: Some(row.mtu),
                peer_mtu: Some(row.peer_mtu),
                answers: Some(row.answers),
                rtt_us: row.rtt_us,
                bandwidth_mb_s: row.bandwidth_mb_s,
                odd: own.map(|o| o.what.as_str()).collect(),
            });
        }
        for one in odd.iter().filter(|o| o.row.is_none()) {
            json_line(&Line {
                bench: "links",
                from: self.label(one.node),
                from_node: self
                    .nodes
                    .get(&one.node)
                    .map_or(String::new(), |n| format!("{:016x}", n.who.node)),
                link: one.link.as_deref(),
                odd: vec![&one.what],
                ..Line::default()
            });
        }
    }
}

/// A line of JSON. What is not known, or does not apply, is null.
#[derive(Serialize, Default)]
struct Line<'a> {
    bench: &'static str,
    device: &'a str,
    ranks: u32,
    bytes: u32,
    from: &'a str,
    to: Option<&'a str>,
    from_node: String,
    to_node: Option<String>,
    link: Option<&'a str>,
    peer_link: Option<&'a str>,
    mtu: Option<u32>,
    peer_mtu: Option<u32>,
    answers: Option<bool>,
    rtt_us: Option<Spread>,
    bandwidth_mb_s: Option<f64>,
    odd: Vec<&'a str>,
}

fn us(time: Option<f64>) -> String {
    time.map_or("-".to_string(), |us| format!("{} us", digits(us)))
}

fn rate(mb_s: Option<f64>) -> String {
    match mb_s {
        None => "-".to_string(),
        Some(v) if v >= 1000.0 => format!("{} GB/s", digits(v / 1000.0)),
        Some(v) => format!("{} MB/s", digits(v)),
    }
}
