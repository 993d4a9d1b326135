//! What a survey found, as processes of `weft links` tell it each other in JSON.

use serde::{Deserialize, Serialize};
use weft::survey::{Report, Row, Who};

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

/// One of a node's links.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkItem {
    /// Its name.
    pub name: String,
    /// Its interface.
    pub interface: String,
    /// Whether it is up.
    pub up: bool,
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
        };
        NodeItem {
            who: (&report.who).into(),
            links: report.links.iter().map(link).collect(),
            unusable: report.unusable.clone(),
            rows: rows(&report.rows),
            others: report.others.iter().map(|(who, r)| (who.into(), rows(r))).collect(),
            duplicates: report.duplicates.iter().map(WhoItem::from).collect(),
        }
    }
}
