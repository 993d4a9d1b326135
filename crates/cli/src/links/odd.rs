//! What is not as it should be, and what may be the cause: pure.

use std::collections::{BTreeMap, BTreeSet};

use weft_proto::rail::losses::is_too_much;

use super::graph::interface;
use super::view::{Edge, Node, View};

/// A link is slow if it has less than this part of the bandwidth of the best beside it.
const SLOW: f64 = 0.4;

/// Something odd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Odd {
    /// The row of [`View::rows`] that it is about, if it is about one.
    pub row: Option<usize>,
    /// The node, by nonce.
    pub node: u64,
    /// The link or interface, if it is about one.
    pub link: Option<String>,
    /// What it is, for people.
    pub what: String,
}

/// Everything odd.
pub(super) fn find(view: &View) -> Vec<Odd> {
    let mut found = Vec::new();
    for (at, edge) in view.rows.iter().enumerate() {
        let checks = [one_way(view, edge), mtu(view, at, edge), long_frames(view, edge)];
        let rest = [lossy(view, edge), slow(view, edge), unmeasured(view, edge)];
        for what in checks.into_iter().chain(rest).flatten() {
            let link = Some(edge.row.link.clone());
            found.push(Odd { row: Some(at), node: edge.from, link, what });
        }
    }
    for nonce in &view.order {
        found.extend(
            view.nodes.get(nonce).map(|node| quiet(view, *nonce, node)).unwrap_or_default(),
        );
    }
    found.extend(duplicates(view));
    found
}

/// `link of node`.
fn end(view: &View, nonce: u64, link: &str) -> String {
    format!("{link} of {}", view.label(nonce))
}

/// Seen on one side only.
fn one_way(view: &View, edge: &Edge) -> Option<String> {
    let row = &edge.row;
    if row.answers {
        return None;
    }
    let told = view.nodes.get(&row.peer.nonce).is_some_and(|n| n.told);
    let unheard = told && view.back(edge).is_none();
    let (here, there) =
        (end(view, edge.from, &row.link), end(view, row.peer.nonce, &row.peer_link));
    let what = if unheard { "is never heard there" } else { "gets no answer from there" };
    Some(format!(
        "one way only: {here} hears {there}, but {what}: a firewall, a switch that blocks a \
         direction, or a damaged cable"
    ))
}

/// Ends that do not take the same frames. Said once for both directions.
fn mtu(view: &View, at: usize, edge: &Edge) -> Option<String> {
    let row = &edge.row;
    let second = view.back(edge).is_some_and(|back| back < at);
    if row.mtu == row.peer_mtu || second {
        return None;
    }
    let (here, there) =
        (end(view, edge.from, &row.link), end(view, row.peer.nonce, &row.peer_link));
    Some(format!(
        "MTU mismatch: {here} takes frames of {} bytes, {there} of {}: Weft keeps to the smaller; \
         `ip link set dev INTERFACE mtu N` makes them alike",
        row.mtu, row.peer_mtu
    ))
}

/// Short frames come through, long ones do not.
fn long_frames(view: &View, edge: &Edge) -> Option<String> {
    let row = &edge.row;
    let lost = row.train.is_some_and(|(sent, received)| sent > 0 && received == 0);
    // Where one frame in some gets lost, so do all that are sent in many pieces.
    let same = |e: &&Edge| {
        let ends = |e: &Edge| (e.from, e.row.peer.nonce, interface(&e.row.link).to_string());
        ends(e) == ends(edge)
    };
    let some = |e: &Edge| e.row.train.is_some_and(|(_, received)| received > 0);
    let lossy = || view.rows.iter().filter(same).any(|e| loses(e) && some(e));
    if !lost || row.rtt_us.is_none() || lossy() {
        return None;
    }
    Some(format!(
        "frames of {} bytes from {} do not reach {}, short ones do: something between has a \
         smaller MTU",
        row.mtu.min(row.peer_mtu),
        end(view, edge.from, &row.link),
        end(view, row.peer.nonce, &row.peer_link)
    ))
}

/// Whether too many of its frames get lost.
fn loses(edge: &Edge) -> bool {
    let by_pieces = edge.row.link.starts_with("tso:");
    let lost = |(sent, received): (u32, u32)| is_too_much(sent.saturating_sub(received), sent);
    !by_pieces && edge.row.rtt_us.is_some() && edge.row.train.is_some_and(lost)
}

/// Some of its frames get lost, short ones as well.
fn lossy(view: &View, edge: &Edge) -> Option<String> {
    let nothing = edge.row.train.is_some_and(|(_, received)| received == 0);
    (loses(edge) && !nothing).then(|| {
        format!(
            "lossy: {:.1} % of the frames from {} to {} get lost: is its plug in, its cable whole, \
             or is one of the two too busy to take them?",
            edge.row.loss() * 100.0,
            end(view, edge.from, &edge.row.link),
            view.label(edge.row.peer.nonce)
        )
    })
}

/// Much slower than a link of the same kind between the same nodes.
fn slow(view: &View, edge: &Edge) -> Option<String> {
    let kind = |e: &Edge| e.row.link.split(':').next().unwrap_or("").to_string();
    let speed = edge.row.bandwidth_mb_s?;
    let beside = view.rows.iter().filter(|e| {
        (e.from, e.row.peer.nonce) == (edge.from, edge.row.peer.nonce) && kind(e) == kind(edge)
    });
    let best = beside.max_by(|a, b| {
        let speed = |e: &Edge| e.row.bandwidth_mb_s.unwrap_or(0.0);
        speed(a).total_cmp(&speed(b))
    })?;
    let most = best.row.bandwidth_mb_s?;
    (speed < SLOW * most).then(|| {
        format!(
            "slow: {} sends {speed:.0} MB/s to {}, {} beside it {most:.0} MB/s: compare `ethtool` \
             of both, and their cables",
            end(view, edge.from, &edge.row.link),
            view.label(edge.row.peer.nonce),
            best.row.link
        )
    })
}

/// There was no time to measure it.
fn unmeasured(view: &View, edge: &Edge) -> Option<String> {
    let row = &edge.row;
    (row.answers && row.train.is_none()).then(|| {
        format!(
            "not measured: {} to {}: both were busy with others all the time, or frames get lost; \
             give it longer with --seconds",
            end(view, edge.from, &row.link),
            view.label(row.peer.nonce)
        )
    })
}

/// Interfaces, or one kind of link on them, on which nobody answers.
fn quiet(view: &View, nonce: u64, node: &Node) -> Vec<Odd> {
    let mut interfaces: BTreeMap<&str, (Vec<&str>, Vec<&str>)> = BTreeMap::new();
    let mut down = BTreeSet::new();
    for link in node.links.iter().flatten() {
        // What is heard and does not answer is told of elsewhere.
        let heard = |e: &Edge| e.from == nonce && e.row.link == link.name;
        let entry = interfaces.entry(&link.interface).or_default();
        let list = if view.rows.iter().any(heard) { &mut entry.0 } else { &mut entry.1 };
        list.push(&link.name);
        if !link.up {
            down.insert(&link.interface);
        }
    }
    let mut found = Vec::new();
    for (interface, (lively, silent)) in interfaces {
        if silent.is_empty() {
            continue;
        }
        let at = &node.label;
        let what = if down.iter().any(|name| *name == interface) {
            format!("the interface {interface} of {at} went down, or lost its carrier")
        } else if lively.is_empty() {
            format!(
                "nobody answers on {interface} of {at}, though it is up: nobody surveys at its \
                 other end, or the cable leads elsewhere"
            )
        } else {
            format!(
                "nobody answers on {} of {at}, though somebody does on {}: IP addresses of \
                 different subnets, a firewall, or a missing right at the other end",
                silent.join(", "),
                lively.join(", ")
            )
        };
        let link = Some(silent.join(","));
        found.push(Odd { row: None, node: nonce, link, what });
    }
    found
}

/// Node ids that are there twice.
fn duplicates(view: &View) -> Vec<Odd> {
    let mut by_node: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for who in &view.duplicates {
        by_node.entry(who.node).or_default().push(who.nonce);
    }
    let odd = |(node, nonces): (u64, Vec<u64>)| {
        let names: Vec<&str> = nonces.iter().map(|n| view.label(*n)).collect();
        let what = format!(
            "duplicate node id {node:016x}: {} are different machines; machines that were copied \
             while running share it: reboot them, or set WEFT_NODE differently on each",
            names.join(" and ")
        );
        Odd { row: None, node: nonces[0], link: None, what }
    };
    by_node.into_iter().map(odd).collect()
}

#[cfg(test)]
mod tests {
    use super::super::item::tests::{node, row, who};
    use super::super::item::{NodeItem, RowItem, WhoItem};
    use super::*;

    fn both(peer: u64) -> Vec<RowItem> {
        vec![row("packet:a", peer, 1000.0), row("packet:b", peer, 900.0)]
    }

    fn said(nodes: &[NodeItem]) -> Vec<String> {
        find(&View::new(nodes)).into_iter().map(|o| o.what).collect()
    }

    #[test]
    fn where_all_is_well_nothing_is_odd() {
        assert!(said(&[node(1, both(2)), node(2, both(1))]).is_empty());
    }

    #[test]
    fn one_way_links_slow_links_and_mismatches_are_named() {
        let mut nodes = [node(1, both(2)), node(2, both(1))];
        nodes[1].rows.remove(1);
        nodes[0].rows[1].answers = false;
        let all = said(&nodes);
        assert!(all[0].contains("packet:b of node1 hears packet:b of node2"), "{all:?}");
        assert!(all[1].contains("nobody answers on b of node2"), "{all:?}");

        let mut nodes = [node(1, both(2)), node(2, both(1))];
        nodes[0].rows[1].bandwidth_mb_s = Some(100.0);
        (nodes[0].rows[0].peer_mtu, nodes[1].rows[0].mtu) = (1400, 1400);
        let all = said(&nodes);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].contains("1500 bytes") && all[0].contains("of 1400"), "{all:?}");
        assert!(all[1].contains("slow: packet:b of node1"), "{all:?}");
    }

    #[test]
    fn lost_long_frames_unmeasured_ways_and_duplicates_are_named() {
        let mut nodes = [node(1, both(2)), node(2, both(1))];
        nodes[0].rows[0].train = Some((100, 0));
        nodes[1].rows[1].train = None;
        nodes[0].duplicates = vec![who(1), WhoItem { node: 101, ..who(2) }];
        let all = said(&nodes);
        assert!(all[0].contains("frames of 1500 bytes"), "{all:?}");
        nodes[0].rows[0].train = Some((100, 90));
        let lossy = said(&nodes);
        assert!(lossy[0].starts_with("lossy: 10.0 % of the frames from packet:a"), "{lossy:?}");
        nodes[0].rows[0].train = Some((100, 99));
        assert!(!said(&nodes)[0].contains("lossy"), "one frame says nothing");
        assert!(all[1].contains("not measured: packet:b of node2"), "{all:?}");
        assert!(all[2].contains("node1 and node2") && all[2].contains("WEFT_NODE"), "{all:?}");
    }

    #[test]
    fn who_was_only_told_of_has_a_place_but_no_complaints() {
        let mut one = node(1, both(2));
        one.others = vec![(who(2), [both(1), vec![row("packet:c", 3, 5.0)]].concat())];
        let view = View::new(&[one]);
        assert_eq!((view.nodes.len(), view.rows.len()), (3, 5));
        assert!(find(&view).is_empty());
    }
}
