//! What was found, for people and as JSON.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use super::far::Far;
use super::graph::{Cable, Graph, Range};
use super::odd::Odd;
use super::role::{LAST_RESORT, Role};
use super::view::{Edge, View, rate, us};
use crate::bench::figure::Spread;
use crate::output::{Table, json_line};

/// Larger matrices do not fit a screen: then there are only the lists.
const MATRIX_MAX: usize = 16;
/// Bytes of what an odd thing's kind is called, at most.
const KIND_MAX: usize = 14;
/// As many odd things of a kind are told, unless all are to be listed.
const ALIKE_MAX: usize = 4;
/// As many ends of a switch are named.
const ENDS_MAX: usize = 4;
/// More pairs of nodes without a cable than this are in no list, unless all is to be listed.
const FAR_MAX: usize = 36;

/// All that there is to show.
pub(super) struct Found<'a> {
    pub view: &'a View,
    pub graph: &'a Graph,
    /// By row.
    pub roles: &'a BTreeMap<usize, Role>,
    pub far: &'a [Far],
    pub odd: &'a [Odd],
}

/// What a cable is used for, and the figure that decides.
pub(super) struct CableRole {
    /// As [`Role`].
    pub small: bool,
    /// As [`Role`].
    pub bulk: bool,
    /// As [`Role`].
    pub spare: bool,
    /// What it is used for.
    pub what: &'static str,
    /// With the reason.
    pub text: String,
}

impl Found<'_> {
    /// Writes tables, and what is odd; `all`: each link of each cable, in both directions.
    pub fn print(&self, all: bool) {
        let mut text = String::new();
        if !self.view.rows.is_empty() {
            if self.view.order.len() <= MATRIX_MAX {
                text.push_str(
                    "from \\ to: links (+1: none, but through 1 node), shortest round trip, \
                     largest bandwidth\n",
                );
                text.push_str(&self.matrix().text());
                text.push('\n');
            }
            let cables = if all { self.list() } else { self.cables() };
            text.push_str(&cables.text());
        }
        text.push_str(&self.ways(all));
        for node in self.view.order.iter().filter_map(|nonce| self.view.nodes.get(nonce)) {
            for (link, why) in &node.unusable {
                text.push_str(&format!("\nnot usable: {link} of {}: {why}", node.label));
            }
        }
        let mut alike: BTreeMap<&str, usize> = BTreeMap::new();
        for one in self.odd {
            // `slow: ...`; what does not begin so is of its own kind.
            let kind = match one.what.split_once(": ") {
                Some((kind, _)) if kind.len() <= KIND_MAX => kind,
                _ => &one.what,
            };
            let count = alike.entry(kind).or_default();
            *count += 1;
            if *count <= ALIKE_MAX || all {
                text.push_str(&format!("\nodd: {}", one.what));
            }
        }
        for (kind, count) in alike.into_iter().filter(|(_, count)| *count > ALIKE_MAX && !all) {
            text.push_str(&format!("\nodd: {kind}: {} more, see --all", count - ALIKE_MAX));
        }
        text.push('\n');
        // A reader that has gone away is not an error.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
    }

    fn matrix(&self) -> Table {
        let order = &self.view.order;
        let labels = order.iter().map(|n| self.view.label(*n).to_string());
        let mut table = Table::new([String::new()].into_iter().chain(labels));
        for from in order {
            let cells = order.iter().map(|to| self.cell(*from, *to));
            table.row([self.view.label(*from).to_string()].into_iter().chain(cells));
        }
        table
    }

    fn cell(&self, from: u64, to: u64) -> String {
        let rows = || {
            let between = move |e: &&Edge| (e.from, e.row.peer.nonce) == (from, to);
            self.view.rows.iter().filter(between).map(|e| &e.row)
        };
        let count = rows().filter(|r| r.answers).count();
        let far = self.far.iter().find(|far| (far.from, far.to) == (from, to));
        match (count, far.and_then(|far| Some((far, far.hops()?)))) {
            _ if from == to => return ".".to_string(),
            (0, Some((far, hops))) => {
                let rtt = far.rtt_us.map(|rtt| rtt.p50);
                return match far.tried {
                    true => format!("+{hops}, {}, {}", us(rtt), rate(far.mb_s)),
                    false => format!("+{hops}"),
                };
            }
            (0, None) if rows().count() > 0 => return "heard only".to_string(),
            (0, None) if self.view.nodes.get(&from).is_some_and(|n| !n.told) => {
                return "?".to_string();
            }
            (0, None) => return "-".to_string(),
            _ => {}
        }
        let rtt = rows().filter_map(|r| r.rtt_us.map(|s| s.p50)).min_by(f64::total_cmp);
        let most = rows().filter_map(|r| r.bandwidth_mb_s).max_by(f64::total_cmp);
        format!("{count}, {}, {}", us(rtt), rate(most))
    }

    /// A line for each cable.
    fn cables(&self) -> Table {
        let mut table = Table::new(["cable", "", "RTT", "bandwidth", "lost", "used for"]);
        for cable in &self.graph.cables {
            let (a, b) = self.ends(cable);
            let lost = match cable.loss {
                loss if loss > 0.0 => format!("{:.1} %", loss * 100.0),
                _ => "-".to_string(),
            };
            let role = self.role(cable);
            table.row([
                a,
                b,
                span(cable.rtt_us, us),
                span(cable.mb_s, rate),
                lost,
                format!("{}{}", role.text, self.medium(cable, &role.text)),
            ]);
        }
        table
    }

    /// What a cable ends at.
    pub fn ends(&self, cable: &Cable) -> (String, String) {
        let end =
            |(node, interface): &(u64, String)| format!("{} {interface}", self.view.label(*node));
        if let [a, b] = cable.ends.as_slice() {
            return (end(a), end(b));
        }
        let mut named: Vec<String> = cable.ends.iter().take(ENDS_MAX).map(end).collect();
        if cable.ends.len() > ENDS_MAX {
            named.push(format!("{} more", cable.ends.len() - ENDS_MAX));
        }
        (format!("switch of {}", cable.ends.len()), named.join(", "))
    }

    /// What a cable is used for between all that it joins.
    pub fn role(&self, cable: &Cable) -> CableRole {
        let roles = || cable.rows.iter().filter_map(|at| self.roles.get(at));
        let any = |of: fn(&Role) -> bool| roles().any(of);
        let (small, bulk) = (any(|r| r.small), any(|r| r.bulk));
        let spare = roles().next().is_some() && roles().all(|r| r.spare);
        let role = Role { small, bulk, spare, why: String::new() };
        // Who does both needs no reason: there is nothing better.
        let why = match (small, bulk) {
            (true, true) => None,
            _ => roles().find(|r| (r.small, r.bulk, r.spare) == (small, bulk, spare)),
        };
        let what = roles().next().map_or("not measured", |_| role.text());
        let text = why.map_or(what.to_string(), |why| format!("{what}: {}", why.why));
        CableRole { small, bulk, spare, what, text }
    }

    /// What kind of network it is, where that is no ordinary cable, behind what it is used for.
    fn medium(&self, cable: &Cable, role: &str) -> String {
        let of = |(node, interface): &(u64, String)| {
            let links = self.view.nodes.get(node)?.links.as_ref()?;
            let link = links.iter().find(|l| l.interface == *interface)?;
            Some((link.medium.as_deref()?, link.last_resort))
        };
        // One end is enough to make it a last resort.
        match cable.ends.iter().filter_map(of).max_by_key(|(_, last_resort)| *last_resort) {
            Some((_, true)) if role.contains(LAST_RESORT) => String::new(),
            Some((medium, true)) => format!("; {LAST_RESORT} ({medium})"),
            Some((medium, false)) => format!(" ({medium})"),
            None => String::new(),
        }
    }

    /// A line for each link, to each link that it leads to.
    fn list(&self) -> Table {
        let mut table = Table::new([
            "from",
            "to",
            "link",
            "its link",
            "MTU",
            "RTT",
            "least",
            "bandwidth",
            "used for",
        ]);
        for (at, Edge { from, row }) in self.view.rows.iter().enumerate() {
            let mtu = match row.mtu == row.peer_mtu {
                true => row.mtu.to_string(),
                false => format!("{}/{}", row.mtu, row.peer_mtu),
            };
            let role = self.roles.get(&at);
            table.row([
                self.view.label(*from).to_string(),
                self.view.label(row.peer.nonce).to_string(),
                row.link.clone(),
                row.peer_link.clone(),
                mtu,
                us(row.rtt_us.map(|s| s.p50)),
                us(row.rtt_us.map(|s| s.min)),
                rate(row.bandwidth_mb_s),
                role.map_or("-".to_string(), |r| format!("{}: {}", r.text(), r.why)),
            ]);
        }
        table
    }

    /// A line for each two nodes that no cable joins.
    fn ways(&self, all: bool) -> String {
        let place = |nonce: u64| self.view.order.iter().position(|n| *n == nonce);
        let pairs: Vec<&Far> =
            self.far.iter().filter(|far| place(far.from) < place(far.to)).collect();
        if pairs.is_empty() {
            return String::new();
        }
        if pairs.len() > FAR_MAX && !all {
            let farthest = pairs.iter().max_by_key(|far| far.hops());
            let named = farthest.and_then(|far| Some((far, far.hops()?))).map(|(far, hops)| {
                let (a, b) = (self.view.label(far.from), self.view.label(far.to));
                format!(", at most {hops} between ({a} and {b})")
            });
            let named = named.unwrap_or_default();
            let reached = pairs.iter().filter(|far| far.is_reached()).count();
            return format!(
                "\nof {} pairs of nodes without a cable {reached} reach each other through \
                 others{named}; --all lists them\n",
                pairs.len()
            );
        }
        let mut table = Table::new(["no cable", "", "through", "RTT", "bandwidth"]);
        for far in pairs {
            let through = match (far.is_reached(), far.tried) {
                (true, true) => far.through(),
                (true, false) => format!("{} (not tried)", far.through()),
                (false, _) => "no way".to_string(),
            };
            table.row([
                self.view.label(far.from).to_string(),
                self.view.label(far.to).to_string(),
                through,
                us(far.rtt_us.map(|rtt| rtt.p50)),
                rate(far.mb_s),
            ]);
        }
        format!("\n{}", table.text())
    }

    /// Writes a line for each link to each that it leads to, one for each node to each that no
    /// cable leads to, then one for each odd thing that belongs to none.
    pub fn json(&self) {
        for (at, edge) in self.view.rows.iter().enumerate() {
            self.json_link(at, edge);
        }
        self.far.iter().for_each(|far| self.json_far(far));
        for one in self.odd.iter().filter(|o| o.row.is_none()) {
            json_line(&Line {
                bench: "links",
                from: self.view.label(one.node),
                from_node: self.node(one.node),
                link: one.link.as_deref(),
                odd: vec![&one.what],
                ..Line::default()
            });
        }
    }

    fn node(&self, nonce: u64) -> String {
        self.view.nodes.get(&nonce).map_or(String::new(), |n| format!("{:016x}", n.who.node))
    }

    fn json_link(&self, at: usize, Edge { from, row }: &Edge) {
        let role = self.roles.get(&at);
        json_line(&Line {
            bench: "links",
            device: row.link.split(':').next().unwrap_or(""),
            ranks: 2,
            bytes: row.mtu.min(row.peer_mtu),
            from: self.view.label(*from),
            to: Some(self.view.label(row.peer.nonce)),
            from_node: self.node(*from),
            to_node: Some(format!("{:016x}", row.peer.node)),
            link: Some(&row.link),
            peer_link: Some(&row.peer_link),
            mtu: Some(row.mtu),
            peer_mtu: Some(row.peer_mtu),
            answers: Some(row.answers),
            rtt_us: row.rtt_us,
            bandwidth_mb_s: row.bandwidth_mb_s,
            loss: row.train.map(|_| row.loss()),
            hops: Some(0),
            small: role.map(|r| r.small),
            bulk: role.map(|r| r.bulk),
            spare: role.map(|r| r.spare),
            last_resort: self.view.last_resort(&self.view.rows[at]),
            used_for: role.map(Role::text),
            why: role.map(|r| r.why.as_str()),
            odd: self.odd.iter().filter(|o| o.row == Some(at)).map(|o| o.what.as_str()).collect(),
            ..Line::default()
        });
    }

    fn json_far(&self, far: &Far) {
        let way = |way: &super::far::Through| WayLine {
            link: way.link.clone(),
            hops: way.hops,
            through: way.between.clone(),
            small: way.carries.map(|c| c.0),
            bulk: way.carries.map(|c| c.1),
            spare: way.carries.map(|_| way.spare),
            rtt_us: way.rtt_us,
        };
        json_line(&Line {
            bench: "links",
            device: "ways",
            ranks: 2,
            bytes: 8,
            from: self.view.label(far.from),
            to: Some(self.view.label(far.to)),
            from_node: self.node(far.from),
            to_node: Some(self.node(far.to)),
            answers: far.tried.then_some(far.is_reached()),
            rtt_us: far.rtt_us,
            bandwidth_mb_s: far.mb_s,
            hops: far.hops(),
            ways: Some(far.ways.iter().map(way).collect()),
            ..Line::default()
        });
    }
}

/// From the least to the most, or one of them where both read alike.
pub(super) fn span(range: Range, text: fn(Option<f64>) -> String) -> String {
    let Some((least, most)) = range else { return "-".to_string() };
    let (a, b) = (text(Some(least)), text(Some(most)));
    if a == b { a } else { format!("{a} to {b}") }
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
    loss: Option<f64>,
    hops: Option<u8>,
    ways: Option<Vec<WayLine>>,
    small: Option<bool>,
    bulk: Option<bool>,
    spare: Option<bool>,
    last_resort: Option<&'a str>,
    used_for: Option<&'a str>,
    why: Option<&'a str>,
    odd: Vec<&'a str>,
}

/// A way through other nodes.
#[derive(Serialize)]
struct WayLine {
    link: String,
    hops: u8,
    through: Vec<String>,
    small: Option<bool>,
    bulk: Option<bool>,
    spare: Option<bool>,
    rtt_us: Option<f64>,
}
