//! Which links carry what, and what they lose.

use std::collections::BTreeMap;

use super::{Finding, cost, cost_at_most, finding};
use crate::sums::{Sums, count};
use crate::units::{self, percent, share};
use crate::{Link, Rank};

/// The links of a node's ranks, those of one name joined.
fn links_of<'a>(sums: &Sums<'a>, node: u32) -> BTreeMap<&'a str, Link> {
    let mut links: BTreeMap<&str, Link> = BTreeMap::new();
    for link in sums.ranks_of(node).flat_map(|rank| &rank.links) {
        let sum = links.entry(&link.name).or_default();
        sum.add(link);
    }
    links
}

/// The interface of a link's name.
fn interface(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, interface)| interface)
}

fn moved(link: &Link) -> f64 {
    link.sent_bytes as f64 + link.received_bytes as f64
}

fn frames(link: &Link) -> f64 {
    link.sent_frames as f64 + link.received_frames as f64
}

/// Waits of a node's ranks for ranks of other nodes.
fn remote_waits(sums: &Sums, node: u32) -> f64 {
    sums.ranks_of(node).map(|rank| sums.remote_waits_ns(rank)).sum()
}

fn nodes(sums: &Sums) -> std::ops::Range<u32> {
    0..sums.run.nodes.len() as u32
}

/// One of several cables of a node carries nearly all.
pub fn one_carries_all(sums: &Sums) -> Vec<Finding> {
    /// Beyond this, what the others carry is signs of life.
    const ALL: f64 = 0.95;
    /// Shorter frames, on average, come of small messages, which a second cable makes no faster.
    const FRAME_BYTES_LEAST: f64 = 1000.0;
    let mut lost = 0.0;
    let mut said = Vec::new();
    for node in nodes(sums) {
        let links = links_of(sums, node);
        let mut by_interface: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (name, link) in &links {
            let sum = by_interface.entry(interface(name)).or_default();
            *sum = (sum.0 + moved(link), sum.1 + frames(link));
        }
        let all: f64 = by_interface.values().map(|(bytes, _)| bytes).sum();
        let most = by_interface.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let Some((&name, &(bytes, frames))) = most else { continue };
        let long = share(bytes, frames) >= FRAME_BYTES_LEAST;
        if by_interface.len() < 2 || share(bytes, all) < ALL || !long {
            continue;
        }
        // With all cables in use, bulk would take their part of the time at best.
        lost += remote_waits(sums, node) * (1.0 - 1.0 / by_interface.len() as f64);
        let others = by_interface.keys().filter(|other| **other != name).copied();
        let others = others.collect::<Vec<_>>().join(", ");
        let part = percent(share(bytes, all));
        said.push(format!(
            "{name} carries {part} of {}'s bytes, {others} the rest",
            sums.node(node)
        ));
    }
    let what = || format!("One cable of several does nearly all: {}.", some(&said));
    let cure = "`weft links` shows what each cable reaches and can do, and why one is not used; \
                look also whether WEFT_INTERFACES leaves it out.";
    finding(cost_at_most(sums, lost), what, cure)
}

/// Nodes without the right to raw sockets.
pub fn udp_only(sums: &Sums) -> Vec<Finding> {
    /// What a small message takes longer by udp than by packet, one way: `weft compare` shows 1 to
    /// 3 us. So much at least is lost for each frame that is waited for.
    const LONGER_NS: f64 = 1000.0;
    let mut lost = 0.0;
    let mut said = Vec::new();
    for node in nodes(sums) {
        let links = links_of(sums, node);
        let used: Vec<&str> =
            links.iter().filter(|(_, link)| frames(link) > 0.0).map(|(name, _)| *name).collect();
        if used.is_empty() || !links.keys().all(|name| name.starts_with("udp:")) {
            continue;
        }
        let received = |rank: &Rank| -> f64 {
            rank.links.iter().map(|link| link.received_frames as f64).sum()
        };
        let longer = |rank: &Rank| (received(rank) * LONGER_NS).min(sums.remote_waits_ns(rank));
        lost += sums.ranks_of(node).map(longer).sum::<f64>();
        said.push(format!("{} on {}", used.join(" and "), sums.node(node)));
    }
    let what = || {
        let carries = if said.len() == 1 { "carries" } else { "carry" };
        format!("{} {carries} all: no right to raw sockets.", some(&said))
    };
    let cure = "`sudo setcap cap_net_raw+ep PROGRAM`, or run it as root; in a container --cap-add \
                NET_RAW. (If WEFT_LINKS=udp asks for it, leave that out.)";
    finding(cost(sums, lost), what, cure)
}

/// Frames are lost and sent again.
pub fn loss(sums: &Sums) -> Vec<Finding> {
    /// A loss that the receiver's acknowledgements name is mended about a round trip later, which
    /// on a busy network is some tenths of a millisecond.
    const NAMED_NS: f64 = 0.2e6;
    /// The last frames of a burst have nothing behind them that would tell of their loss: they wait
    /// for a timeout, which is a millisecond at least.
    const TIMEOUT_NS: f64 = 1e6;
    let lost = |rank: &Rank| (count(rank, "frames_lost") - count(rank, "spurious")).max(0.0);
    let frames: f64 = sums.run.ranks.iter().map(lost).sum();
    let timeouts = sums.count("probe_timeouts");
    // Not more than was waited for other nodes in all.
    let waits: f64 = nodes(sums).map(|node| remote_waits(sums, node)).sum();
    let mended = (frames * NAMED_NS + timeouts * TIMEOUT_NS).min(waits);
    if frames == 0.0 {
        return Vec::new();
    }
    let links = || sums.run.ranks.iter().flat_map(|rank| rank.links.iter().map(move |l| (rank, l)));
    let dropped: f64 = links().map(|(_, link)| link.dropped as f64).sum();
    let part = percent(share(frames, sums.count("frames_sent")));
    let what = format!("{} frames were lost and sent again, {part} of all.", units::count(frames));
    let worst = links().max_by_key(|(_, link)| link.dropped);
    let Some((rank, link)) = worst.filter(|_| dropped >= frames / 2.0) else {
        let cure = "`weft links` shows on which cable; `ethtool -S IF` there counts errors and \
                    drops: a bad cable, a switch that is overrun, another MTU on the way.";
        return finding(cost(sums, mended), || what, cure);
    };
    let (name, node) = (&link.name, sums.node(rank.node));
    let what = || format!("{what} The receive buffer was full, most on {name} of {node}.");
    let cure = "`weft doctor` on that node says to what net.core.rmem_max is to be raised; see \
                also that its ranks have processors of their own.";
    finding(cost(sums, mended), what, cure)
}

/// The first of these, and how many more there are.
fn some(said: &[String]) -> String {
    match said {
        [] => String::new(),
        [one] => one.clone(),
        [one, two] => format!("{one}, and {two}"),
        [one, more @ ..] => format!("{one}, and so on {} more nodes", more.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Run;
    use crate::made::{S, even, wait_for};

    fn link(name: &str, frames: u64, bytes: u64) -> Link {
        let (sent_frames, received_frames) = (frames, frames);
        let (sent_bytes, received_bytes) = (bytes, bytes);
        let name = name.to_string();
        Link { name, sent_frames, sent_bytes, received_frames, received_bytes, ..Link::default() }
    }

    /// Two nodes of one rank, which wait for each other for 4 s of 10, with these links.
    fn pair(links: &[Link]) -> Run {
        let mut run = even(2, 2);
        for rank in 0..2 {
            wait_for(&mut run, rank, Some(1 - rank as u32), 4 * S);
            run.ranks[rank].links = links.to_vec();
        }
        run
    }

    fn found(rule: fn(&Sums) -> Vec<Finding>, run: &Run) -> Option<Finding> {
        rule(&Sums::new(run)).pop()
    }

    #[test]
    fn a_cable_that_lies_idle_is_named() {
        let links = [link("udp:eth1", 1000, 9_000_000), link("udp:eth2", 10, 400)];
        let said = found(one_carries_all, &pair(&links)).unwrap();
        let words = "eth1 carries 99 % of node0's bytes, eth2 the rest, and eth1";
        assert!(said.what.contains(words), "{}", said.what);
        assert!(said.cost.unwrap().at_most, "{said:?}");
        // Two kinds of links on one cable are one cable; small frames gain nothing; both used.
        let kinds = [link("udp:eth1", 1000, 9_000_000), link("packet:eth1", 10, 400)];
        let small = [link("udp:eth1", 1000, 9_000), link("udp:eth2", 10, 400)];
        let both = [link("udp:eth1", 1000, 9_000_000), link("udp:eth2", 1000, 9_000_000)];
        for links in [&kinds, &small, &both] {
            assert_eq!(found(one_carries_all, &pair(links)), None, "{links:?}");
        }
        assert_eq!(found(one_carries_all, &pair(&[])), None);
    }

    #[test]
    fn udp_alone_says_how_to_grant_the_right() {
        let said = found(udp_only, &pair(&[link("udp:eth1", 2_000_000, 128_000_000)])).unwrap();
        let words = "udp:eth1 on node0, and udp:eth1 on node1 carry all: no right to raw sockets.";
        assert_eq!(said.what, words);
        assert!(said.cure.contains("setcap cap_net_raw+ep"), "{}", said.cure);
        assert!((said.cost.unwrap().share - 0.2).abs() < 1e-9, "{said:?}");
        let few = pair(&[link("udp:eth1", 1000, 1 << 30)]);
        assert_eq!(found(udp_only, &few), None, "no small messages");
        let packet = pair(&[link("udp:eth1", 2_000_000, 9), link("packet:eth1", 0, 0)]);
        assert_eq!(found(udp_only, &packet), None);
    }

    #[test]
    fn loss_is_told_with_where_it_was() {
        let mut run = pair(&[link("udp:eth1", 100_000, 9_000_000)]);
        let counts = [("frames_lost", 1100), ("spurious", 100), ("frames_sent", 100_000)];
        let counts = counts.map(|(name, n)| (name.to_string(), n));
        run.ranks[0].counts = counts.into();
        assert_eq!(found(loss, &run), None, "a fifth of a second of twenty is not worth telling");
        run.ranks[0].counts.insert("probe_timeouts".into(), 900);
        let said = found(loss, &run).unwrap();
        assert!(said.what.starts_with("1 k frames were lost and sent again, 1.0 %"), "{said:?}");
        assert!(said.cure.contains("ethtool -S"), "{}", said.cure);
        run.ranks[1].links[0].dropped = 800;
        let said = found(loss, &run).unwrap();
        assert!(said.what.ends_with("was full, most on udp:eth1 of node1."), "{}", said.what);
        assert!(said.cure.contains("rmem_max"), "{}", said.cure);
    }
}
