//! What a survey found, as processes of `weft links` tell it each other in JSON.

use serde::{Deserialize, Serialize};
use weft::survey::{Report, Row, Who};
use weft_proto::rail::Merit;

use crate::bench::figure::Spread;

/// A process that took part.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct WhoItem {
    /// Its host's name.
    pub host: String,
    /// Its node.
    pub node: u64,
    /// A number of its own.
    pub nonce: u64,
}

/// The way from one link to another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RowItem {
    /// The link it leaves by.
    pub link: String,
    /// Bytes of its largest frame.
    pub mtu: u32,
    /// Whom it leads to.
    pub peer: WhoItem,
    /// The link it arrives at.
    pub peer_link: String,
    /// Bytes of that one's largest frame.
    pub peer_mtu: u32,
    /// Whether the other answers, or is only heard.
    pub answers: bool,
    /// Round trips.
    pub rtt_us: Option<Spread>,
    /// Millions of bytes a second.
    pub bandwidth_mb_s: Option<f64>,
    /// Frames of the train that measured it, and how many of them arrived.
    pub train: Option<(u32, u32)>,
}

impl RowItem {
    /// Which share of the train got lost.
    pub fn loss(&self) -> f64 {
        let lost =
            |(sent, received): (u32, u32)| 1.0 - f64::from(received) / f64::from(sent.max(1));
        self.train.map_or(0.0, lost).max(0.0)
    }
}

/// By what links are compared: [`Merit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MeritItem {
    /// Time for an ordinary small frame, ns.
    pub small_ns: u64,
    /// For bulk, bytes per second.
    pub bandwidth: u64,
    /// As far as the processors' work goes.
    pub work: u64,
}

impl From<Merit> for MeritItem {
    fn from(merit: Merit) -> MeritItem {
        let Merit { small_ns, bandwidth, work } = merit;
        MeritItem { small_ns, bandwidth, work }
    }
}

/// One of a node's links.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LinkItem {
    /// Its name.
    pub name: String,
    /// Its interface.
    pub interface: String,
    /// Whether it is up.
    pub up: bool,
    /// By what a job compares it with the node's others.
    pub merit: MeritItem,
    /// What its interface is, where it is not an ordinary cable's: `Wi-Fi`, `bridge`, ...
    pub medium: Option<String>,
    /// Whether it is used only where nothing else reaches, because of that.
    pub last_resort: bool,
}

/// A way through other nodes, over one of a node's links.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WayItem {
    /// The link that it begins with.
    pub link: String,
    /// How many nodes are between.
    pub hops: u8,
    /// Their ids, as far as they are known.
    pub between: Vec<u64>,
    /// Whether it carries what is small.
    pub small: bool,
    /// Whether it carries a part of what is large.
    pub bulk: bool,
    /// Whether it is left alone as long as there is a better one.
    pub spare: bool,
    /// Its shortest round trip of late.
    pub rtt_us: Option<f64>,
}

/// What came of looking for a node that no cable leads to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FarItem {
    /// The other process.
    pub peer: WhoItem,
    /// Whether a message came from it.
    pub met: bool,
    /// What leads there.
    pub ways: Vec<WayItem>,
    /// 8 bytes there and back, by all ways as a job uses them.
    pub rtt_us: Option<Spread>,
    /// Large messages, by all ways together, millions of bytes a second.
    pub bandwidth_mb_s: Option<f64>,
}

/// What a process found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeItem {
    /// The process.
    pub who: WhoItem,
    /// Its links.
    pub links: Vec<LinkItem>,
    /// Links that could not be opened, and why.
    pub unusable: Vec<(String, String)>,
    /// What it found.
    pub rows: Vec<RowItem>,
    /// What others told it.
    pub others: Vec<(WhoItem, Vec<RowItem>)>,
    /// Processes of different machines with the same node id.
    pub duplicates: Vec<WhoItem>,
    /// Why it hands nothing on between others, where that is so.
    pub hands_nothing_on: Option<String>,
    /// The nodes that no cable leads to, if ways to them were tried.
    pub far: Vec<FarItem>,
}

impl NodeItem {
    /// Says of this node's links what their interfaces are.
    pub fn describe_media(&mut self) {
        let interfaces = weft_sys::net::interfaces().unwrap_or_default();
        for link in &mut self.links {
            let interface = interfaces.iter().find(|i| i.name == link.interface);
            let last_resort = interface.and_then(|interface| interface.last_resort());
            let kind = interface.map_or("", |interface| interface.kind.as_str());
            link.last_resort = last_resort.is_some();
            link.medium = match (last_resort, kind) {
                (Some(what), _) => Some(what.into()),
                // A veth is a cable, as far as it goes.
                (None, "" | "veth") => None,
                (None, kind) => Some(kind.into()),
            };
        }
    }
}

impl From<&Who> for WhoItem {
    fn from(who: &Who) -> WhoItem {
        WhoItem { host: who.host.clone(), node: who.node, nonce: who.nonce }
    }
}

impl From<&Row> for RowItem {
    fn from(row: &Row) -> RowItem {
        let us = |ns: u32| f64::from(ns) / 1000.0;
        RowItem {
            link: row.link.clone(),
            mtu: row.mtu,
            peer: (&row.peer).into(),
            peer_link: row.peer_link.clone(),
            peer_mtu: row.peer_mtu,
            answers: row.answers,
            rtt_us: row.rtt.map(|r| Spread {
                min: us(r.min_ns),
                p50: us(r.p50_ns),
                p99: us(r.p99_ns),
                mean: us(r.mean_ns),
            }),
            bandwidth_mb_s: row
                .stream
                .filter(|s| s.bytes_per_s > 0)
                .map(|s| s.bytes_per_s as f64 / 1e6),
            train: row.stream.map(|s| (s.sent, s.received)),
        }
    }
}

impl From<&Report> for NodeItem {
    fn from(report: &Report) -> NodeItem {
        let rows = |rows: &[Row]| rows.iter().map(RowItem::from).collect::<Vec<_>>();
        let link = |l: &weft::survey::SurveyedLink| LinkItem {
            name: l.name.clone(),
            interface: l.interface.clone(),
            up: l.up,
            merit: l.merit.into(),
            medium: None,
            last_resort: false,
        };
        NodeItem {
            who: (&report.who).into(),
            links: report.links.iter().map(link).collect(),
            unusable: report.unusable.clone(),
            rows: rows(&report.rows),
            others: report.others.iter().map(|(who, r)| (who.into(), rows(r))).collect(),
            duplicates: report.duplicates.iter().map(WhoItem::from).collect(),
            hands_nothing_on: None,
            far: Vec::new(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn who(nonce: u64) -> WhoItem {
        WhoItem { host: format!("node{nonce}"), node: 100 + nonce, nonce }
    }

    pub fn row(link: &str, peer: u64, mb_s: f64) -> RowItem {
        RowItem {
            link: link.into(),
            mtu: 1500,
            peer: who(peer),
            peer_link: link.into(),
            peer_mtu: 1500,
            answers: true,
            rtt_us: Some(Spread::default()),
            bandwidth_mb_s: Some(mb_s),
            train: Some((100, 100)),
        }
    }

    pub fn node(nonce: u64, rows: Vec<RowItem>) -> NodeItem {
        let link = |name: &str| LinkItem {
            name: name.into(),
            interface: name.split(':').nth(1).unwrap_or("").into(),
            up: true,
            ..LinkItem::default()
        };
        NodeItem {
            who: who(nonce),
            links: ["packet:a", "packet:b"].map(link).to_vec(),
            unusable: Vec::new(),
            rows,
            others: Vec::new(),
            duplicates: Vec::new(),
            hands_nothing_on: None,
            far: Vec::new(),
        }
    }

    /// Nodes `0..n` with a cable between each two that are named: its interface is `toN`.
    pub fn cabled(n: u64, cables: &[(u64, u64)]) -> Vec<NodeItem> {
        let mut nodes: Vec<_> = (0..n).map(|at| node(at + 1, Vec::new())).collect();
        nodes.iter_mut().for_each(|node| node.links.clear());
        for &(a, b) in cables {
            for (from, to) in [(a, b), (b, a)] {
                let row = RowItem {
                    peer_link: format!("packet:to{from}"),
                    rtt_us: Some(Spread { min: 3.0, p50: 3.5, ..Spread::default() }),
                    ..row(&format!("packet:to{to}"), to + 1, 900.0)
                };
                nodes[from as usize].links.push(LinkItem {
                    name: row.link.clone(),
                    interface: format!("to{to}"),
                    up: true,
                    ..LinkItem::default()
                });
                nodes[from as usize].rows.push(row);
            }
        }
        nodes
    }
}
