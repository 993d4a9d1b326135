//! What was sent: to whom, how long, by which way, over which links.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::ranks::Blocks;
use crate::page::{Matrix, parts};
use crate::sums::Sums;
use crate::units::{bytes, count, percent, share, size};
use crate::{Link, Rank};

type Cells = BTreeMap<(usize, usize), f64>;

/// Bytes and messages, of ranks and of nodes.
pub fn matrices(sums: &Sums) -> Markup {
    let blocks = Blocks::new(sums);
    let place = |rank: u32| blocks.of(rank);
    let node = |rank: u32| sums.rank(rank).map(|rank| rank.node as usize);
    let names: Vec<String> = sums.run.nodes.iter().map(|node| node.name.clone()).collect();
    html! {
        div class="parts" {
            @for (title, text, is_bytes) in WHAT {
                (matrix(&format!("{title} from rank (row) to rank (column)"), &blocks.names,
                    cells(sums, is_bytes, &place), text))
            }
        }
        @if names.len() > 1 {
            div class="parts" {
                @for (title, text, is_bytes) in WHAT {
                    (matrix(&format!("{title} from node (row) to node (column)"), &names,
                        cells(sums, is_bytes, &node), text))
                }
            }
        } @else {
            p { "All ranks are on one node, so nodes sent each other nothing." }
        }
    }
}

type Text = fn(f64) -> String;
const WHAT: [(&str, Text, bool); 2] = [("Bytes", bytes, true), ("Messages", count, false)];

fn cells(sums: &Sums, is_bytes: bool, place: &dyn Fn(u32) -> Option<usize>) -> Cells {
    let mut cells = Cells::new();
    for flow in &sums.run.flows {
        if let (Some(from), Some(to)) = (place(flow.from), place(flow.to)) {
            let part = if is_bytes { flow.bytes } else { flow.messages };
            *cells.entry((from, to)).or_default() += part as f64;
        }
    }
    cells.retain(|_, part| *part > 0.0);
    cells
}

fn matrix(title: &str, names: &[String], cells: Cells, text: Text) -> Markup {
    let (rows, columns) = (names.to_vec(), names.to_vec());
    let (sides, logarithmic) = (("from", "to"), true);
    Matrix { title, sides, rows, columns, cells, text, logarithmic }.draw()
}

/// Named sums of messages and bytes as a table with bars.
fn messages(of: &str, sums: Vec<(String, f64, f64)>) -> Markup {
    let whole = |part: fn(&(String, f64, f64)) -> f64| sums.iter().map(part).sum::<f64>();
    let (messages, moved) = (whole(|sum| sum.1), whole(|sum| sum.2));
    let cell = |part: f64, whole: f64, text: String| {
        let share = share(part, whole);
        (format!("{text}, {}", percent(share)), share)
    };
    let rows: Vec<_> = sums
        .into_iter()
        .map(|(name, m, b)| (name, vec![cell(m, messages, count(m)), cell(b, moved, bytes(b))]))
        .collect();
    html! {
        @if rows.is_empty() { p { "None were counted." } }
        @else { (parts(of, &["messages", "bytes"], &rows)) }
    }
}

/// Messages by size.
pub fn sizes(sums: &Sums) -> Markup {
    let mut sizes: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for part in sums.run.ranks.iter().flat_map(|rank| &rank.sizes) {
        let sum = sizes.entry(part.up_to).or_default();
        *sum = (sum.0 + part.messages as f64, sum.1 + part.bytes as f64);
    }
    messages("up to, bytes", sizes.into_iter().map(|(s, (m, b))| (size(s), m, b)).collect())
}

/// Messages by way.
pub fn ways(sums: &Sums) -> Markup {
    let mut ways: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for way in sums.run.ranks.iter().flat_map(|rank| &rank.ways) {
        let sum = ways.entry(&way.name).or_default();
        *sum = (sum.0 + way.messages as f64, sum.1 + way.bytes as f64);
    }
    let mut ways: Vec<_> = ways.into_iter().map(|(n, (m, b))| (n.to_string(), m, b)).collect();
    ways.sort_by(|a, b| b.2.total_cmp(&a.2));
    html! {
        (messages("way", ways))
        @if let Some(told) = fetched(sums) { p { (told) } }
    }
}

/// How the bytes of announced messages came within nodes. Their ends count them by bytes only: one
/// message may have come by several ways.
fn fetched(sums: &Sums) -> Option<String> {
    let ways = [
        ("shm.attach_bytes", "read by the receiver straight from the sender's memory"),
        ("shm.helped_bytes", "written by the sender straight into the receiver's"),
        ("shm.region_bytes", "copied from memory that both have mapped"),
        ("shm.ring_bytes", "in pieces through the ring"),
    ];
    let told = ways.map(|(name, how)| (sums.count(name), how));
    let told = told.into_iter().filter(|(n, _)| *n > 0.0);
    let told: Vec<String> = told.map(|(n, how)| format!("{} {how}", bytes(n))).collect();
    (!told.is_empty()).then(|| format!("Rendezvous within nodes: {}.", told.join(", ")))
}

/// The links of each node, those of its ranks joined.
pub fn links(sums: &Sums) -> Markup {
    let mut links: BTreeMap<(u32, &str), Link> = BTreeMap::new();
    for rank in &sums.run.ranks {
        for link in &rank.links {
            links.entry((rank.node, &link.name)).or_default().add(link);
        }
    }
    let all: f64 = links.values().map(|link| link.sent_bytes as f64).sum();
    let cells = |link: &Link| {
        let number = |n: u64| (n as f64, count(n as f64));
        let size = |n: u64| (n as f64, bytes(n as f64));
        let part = share(link.sent_bytes as f64, all);
        [
            (part, percent(part)),
            size(link.sent_bytes),
            number(link.sent_frames),
            size(link.received_bytes),
            number(link.received_frames),
            number(link.refused),
            number(link.dropped),
        ]
    };
    let headings = ["of all sent", "sent", "frames", "received", "frames", "refused", "dropped"];
    html! {
        @if links.is_empty() { p { "No link was used: all messages stayed within a node." } }
        @else {
            p {
                "Refused: the medium had no room for a frame. Dropped: the receive buffer was full."
            }
            div class="wide" {
                table class="sorted" {
                    thead {
                        tr { th { "node" } th { "link" } @for name in headings { th { (name) } } }
                    }
                    tbody {
                        @for ((node, name), link) in &links {
                            tr {
                                td { (sums.node(*node)) } td { (name) }
                                @for (value, text) in cells(link) {
                                    td class="n" data-v=(value) { (text) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The engine's counters: the sum, and the rank with the most.
pub fn counters(sums: &Sums) -> Markup {
    let mut counters: BTreeMap<&str, (f64, &Rank, u64)> = BTreeMap::new();
    for rank in &sums.run.ranks {
        for (name, &n) in rank.counts.iter().filter(|(_, n)| **n > 0) {
            let entry = counters.entry(name).or_insert((0.0, rank, 0));
            entry.0 += n as f64;
            if n > entry.2 {
                (entry.1, entry.2) = (rank, n);
            }
        }
    }
    let each = sums.frames_a_message();
    html! {
        @if let Some(each) = each {
            p { "Frames for each message over Ethernet, acknowledgements included: "
                (format!("{each:.2}")) "." }
        }
        @if counters.is_empty() { p { "All are 0: no message went over Ethernet." } }
        @else {
            details {
                summary { (counters.len()) " counters" }
                table class="sorted" {
                    thead { tr { th { "counter" } th { "all" } th { "most" } th { "rank" } } }
                    tbody {
                        @for (name, (all, rank, most)) in &counters {
                            tr {
                                td { (name) }
                                td class="n" data-v=(all) { (count(*all)) }
                                td class="n" data-v=(most) { (count(*most as f64)) }
                                td class="n" { (rank.rank) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Run;
    use crate::made::solver;

    #[test]
    fn figures_of_all_ranks_are_joined() {
        let run = solver(4, 2, 10, 10);
        let sums = Sums::new(&run);
        // Both links of both nodes, two ranks each: 2 * 10 s * 900 frames of 9000 bytes.
        let links = links(&sums).into_string();
        assert_eq!(links.matches("<td>tso:eth1</td>").count(), 2, "{links}");
        assert!(links.contains(">162 MB</td>") && links.contains(">18 k</td>"), "{links}");
        let sizes = sizes(&sums).into_string();
        assert!(sizes.contains("<th>4K</th>") && sizes.contains("36 k, 45 %"), "{sizes}");
        let ways = ways(&sums).into_string();
        assert!(ways.contains("<th>rendezvous ether</th>"), "{ways}");
        // Four ranks, 10 s, 30 MiB each second.
        let told = "Rendezvous within nodes: 1.26 GB read by the receiver straight from";
        assert!(ways.contains(told) && !ways.contains("through the ring"), "{ways}");
        let none = super::ways(&Sums::new(&Run::default())).into_string();
        assert!(!none.contains("Rendezvous"), "{none}");
        let counters = counters(&sums).into_string();
        assert!(counters.contains("<td>frames_sent</td>"), "{counters}");
        assert!(counters.contains("included: 1.50."), "{counters}");
    }

    #[test]
    fn ranks_send_to_ranks_and_nodes_to_nodes() {
        let run = solver(4, 2, 10, 10);
        let text = matrices(&Sums::new(&run)).into_string();
        let figures: Vec<&str> = text.split("<caption>").skip(1).collect();
        let titles = ["Bytes from rank", "Messages from rank", "Bytes from node", "Messages from"];
        assert!(figures.iter().zip(titles).all(|(f, title)| f.starts_with(title)), "{text}");
        assert_eq!(figures.len(), 4, "{text}");
        // Rank 2 sends rank 1 in each of 10 s 1000 messages of 4002 bytes, and rank 0 three more
        // than none; what ranks 2 and 3 send to 0 and 1, node 1 sends to node 0.
        let cell = |figure: &str, row: usize, column: usize| -> String {
            let row = figure.split("<tr>").nth(row + 2).expect("a row");
            let cell = row.split("<td").nth(column + 1).expect("a column");
            let text = cell.split_once('>').and_then(|(_, rest)| rest.split_once('<'));
            text.expect("a text").0.to_string()
        };
        let ranks = [cell(figures[0], 2, 1), cell(figures[1], 2, 1), cell(figures[1], 2, 0)];
        assert_eq!(ranks, ["40 MB", "10 k", "30"], "{text}");
        let nodes = [cell(figures[2], 1, 0), cell(figures[3], 1, 0)];
        assert_eq!(nodes, ["80.3 MB", "20.1 k"], "{text}");
        let one = Run { nodes: run.nodes[..1].to_vec(), ranks: vec![], ..run };
        let text = matrices(&Sums::new(&one)).into_string();
        assert!(text.contains("on one node"), "{text}");
    }
}
