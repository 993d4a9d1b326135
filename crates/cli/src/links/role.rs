//! What a job uses the links between two nodes for, and which figure decides it: what was measured,
//! put into the engine's own rules ([`weft_proto::rail`]). Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weft_proto::rail::losses::{SHARE, is_too_much};
use weft_proto::rail::{
    DISTANT, DISTANT_NS, WORTH_SHARE, carried, distant_beyond, further_us, is_worth,
};

use super::item::{LinkItem, RowItem};
use super::view::{View, rate, us};

/// What a link is called that is one, before what makes it one.
pub(super) const LAST_RESORT: &str = "a last resort";

/// What a link is used for towards one peer.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Role {
    /// Whether it carries what is small.
    pub small: bool,
    /// Whether it carries a part of what is large.
    pub bulk: bool,
    /// Whether it is left alone as long as there is a better one.
    pub spare: bool,
    /// The figure that decides.
    pub why: String,
}

impl Role {
    /// What it is used for, in words.
    pub fn text(&self) -> &'static str {
        text(self.small, self.bulk, self.spare)
    }
}

/// What carries this, in words.
pub(super) fn text(small: bool, bulk: bool, spare: bool) -> &'static str {
    match (small, bulk) {
        (true, true) => "small messages and bulk",
        (true, false) => "small messages",
        (false, true) => "bulk",
        _ if spare => "only where nothing else reaches",
        _ => "in reserve",
    }
}

/// A link of one node that leads to another.
struct Candidate<'a> {
    /// The row, by its number in the view.
    at: usize,
    row: &'a RowItem,
    link: &'a LinkItem,
    /// Its place among the node's links.
    place: usize,
    /// There and back, ns, as measured from here or else from there.
    rtt_ns: u64,
    /// Bandwidth, MB/s, in the same way.
    mb_s: Option<f64>,
    /// What makes one of its ends a last resort, if it is one.
    last_resort: Option<&'a str>,
}

impl Candidate<'_> {
    fn wire(&self) -> &str {
        &self.link.interface
    }

    /// Which share of its frames gets lost, if that is too much. A long frame of `tso` is lost if
    /// any of its pieces is: it says nothing.
    fn lost(&self) -> Option<f64> {
        let (sent, received) = self.row.train.filter(|_| !self.link.name.starts_with("tso:"))?;
        is_too_much(sent.saturating_sub(received), sent).then(|| self.row.loss())
    }
}

/// The role of each row whose node has told of its links.
pub(super) fn foretell(view: &View) -> BTreeMap<usize, Role> {
    let mut pairs: BTreeMap<(u64, u64), Vec<Candidate<'_>>> = BTreeMap::new();
    for (at, edge) in view.rows.iter().enumerate().filter(|(_, edge)| edge.row.answers) {
        let links = view.nodes.get(&edge.from).and_then(|node| node.links.as_deref());
        let place = links.unwrap_or_default().iter().position(|l| l.name == edge.row.link);
        let Some((place, links)) = place.zip(links) else { continue };
        let back = || view.back(edge).map(|at| &view.rows[at].row);
        let rtt_us = edge.row.rtt_us.or_else(|| back()?.rtt_us);
        let mb_s = edge.row.bandwidth_mb_s.or_else(|| back()?.bandwidth_mb_s);
        // What nobody has measured may be anything.
        let Some(rtt_ns) = rtt_us.map(|rtt| (rtt.min * 1000.0) as u64) else { continue };
        let last_resort = view.last_resort(edge);
        let candidate =
            Candidate { at, row: &edge.row, link: &links[place], place, rtt_ns, mb_s, last_resort };
        pairs.entry((edge.from, edge.row.peer.nonce)).or_default().push(candidate);
    }
    pairs.values().flat_map(|pair| roles(pair)).collect()
}

/// The roles of all links between two nodes.
fn roles(pair: &[Candidate<'_>]) -> Vec<(usize, Role)> {
    let least = |wire: &str| pair.iter().filter(|c| c.wire() == wire).map(|c| c.rtt_ns).min();
    let others_reach = pair.iter().any(|c| c.last_resort.is_none());
    let is_last = |c: &Candidate<'_>| others_reach && c.last_resort.is_some();
    let nearest = pair.iter().filter(|c| !is_last(c)).map(|c| c.rtt_ns).min().unwrap_or(0);
    let is_far = |c: &Candidate<'_>| {
        nearest > 0 && least(c.wire()).is_some_and(|ns| ns > distant_beyond(nearest))
    };
    let is_good = |c: &Candidate<'_>| !is_last(c) && !is_far(c);
    let lost = |wire: &str| pair.iter().filter(|c| c.wire() == wire).find_map(Candidate::lost);
    // What loses some is better than what is far.
    let any_is_good = pair.iter().any(|c| is_good(c) && lost(c.wire()).is_none());
    let is_spare = |c: &Candidate<'_>| !is_good(c) || (any_is_good && lost(c.wire()).is_some());
    let sound: Vec<_> = pair.iter().filter(|c| !is_spare(c)).collect();
    let further = |c: &Candidate<'_>| further_us(least(c.wire()).unwrap_or(0), nearest);
    let small_ns = |c: &Candidate<'_>| c.link.merit.small_ns + u64::from(further(c)) * 1000;
    let small = sound.iter().min_by_key(|c| (small_ns(c), c.place));
    let rank = |c: &Candidate<'_>| (c.link.merit.bandwidth, c.link.merit.work, Reverse(c.place));
    // As soon as a cable is in use its speed is known: that of the survey, here.
    let speed = |c: &Candidate<'_>| {
        let seen = pair.iter().filter(|other| other.wire() == c.wire()).filter_map(|c| c.mb_s);
        let fastest = seen.max_by(f64::total_cmp).map(|mb_s| (mb_s * 1e6) as u64);
        let said = rank(c).0;
        fastest.map_or(said, |measured| carried(said, measured))
    };
    let best = sound.iter().map(|c| speed(c)).max().unwrap_or(0);
    let first = |wire: &str| sound.iter().filter(|c| c.wire() == wire).max_by_key(|c| rank(c));
    let role = |c: &Candidate<'_>| {
        let spare = is_spare(c);
        let is_small = small.is_some_and(|s| s.place == c.place);
        let leads = first(c.wire()).is_some_and(|f| f.place == c.place);
        let bulk = !spare && leads && is_worth(speed(c), best);
        let why = if let Some(what) = c.last_resort.filter(|_| others_reach) {
            format!("{LAST_RESORT} ({what})")
        } else if is_far(c) {
            too_far(least(c.wire()).unwrap_or(0), nearest)
        } else if let Some(share) = lost(c.wire()).filter(|_| spare) {
            format!("{:.1} % of its frames get lost, more than one in {SHARE}", share * 100.0)
        } else {
            let (small, first) = (small.copied(), first(c.wire()).copied());
            let times = |c: &Candidate<'_>| small_ns(c);
            let figures = Figures { pair, times: &times, speed: &speed, best };
            reason(&figures, c, (is_small, bulk), small, first)
        };
        (c.at, Role { small: is_small, bulk, spare, why })
    };
    pair.iter().map(role).collect()
}

/// A round trip that is beyond the limit.
fn too_far(ns: u64, nearest: u64) -> String {
    let ms = |ns: u64| {
        let ms = ns as f64 / 1e6;
        let places = if ms < 1.0 { 3 } else { 1 };
        let text = format!("{ms:.places$}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    };
    let (far, near, more) = (ms(ns), ms(nearest), ms(DISTANT_NS));
    format!("{far} ms is more than {DISTANT} x {near} + {more} ms")
}

/// By what links are compared that are near enough.
struct Figures<'a> {
    pair: &'a [Candidate<'a>],
    /// Time for a small frame, ns.
    times: &'a dyn Fn(&Candidate<'_>) -> u64,
    /// What the cable carries, bytes per second, and the most of all.
    speed: &'a dyn Fn(&Candidate<'_>) -> u64,
    best: u64,
}

impl Figures<'_> {
    /// What was measured of a link's cable, MB/s.
    fn mb_s(&self, wire: &str) -> Option<f64> {
        let own = self.pair.iter().filter(|c| c.wire() == wire);
        own.filter_map(|c| c.mb_s).max_by(f64::total_cmp)
    }

    /// The most that was measured of any other cable.
    fn beside(&self, wire: &str) -> Option<f64> {
        let other = self.pair.iter().filter(|c| c.wire() != wire);
        other.filter_map(|c| self.mb_s(c.wire())).max_by(f64::total_cmp)
    }

    /// Bandwidth of two links of a cable, as they are compared: that of the first is more.
    fn widths(&self, more: &Candidate<'_>, less: &Candidate<'_>) -> String {
        let of = |c: &Candidate<'_>| c.link.merit.bandwidth;
        if of(more) == of(less) {
            // Both fill the wire.
            return format!("the same {} for less work", bytes(of(more)));
        }
        format!("{}, and not {}", bytes(of(more)), bytes(of(less)))
    }

    /// Time for a small frame, us.
    fn time(&self, c: &Candidate<'_>) -> String {
        us(Some((self.times)(c) as f64 / 1000.0))
    }
}

/// Bytes per second in words.
fn bytes(bytes_per_s: u64) -> String {
    rate(Some(bytes_per_s as f64 / 1e6))
}

/// Why a link that is near enough has its role: what other link has the rest, and the figures that
/// decide.
fn reason(
    figures: &Figures<'_>,
    own: &Candidate<'_>,
    (is_small, bulk): (bool, bool),
    small: Option<&Candidate<'_>>,
    first: Option<&Candidate<'_>>,
) -> String {
    let name = |c: &Candidate<'_>| c.link.name.clone();
    // Other links of its cable that carry what this one does not.
    let other = |c: &&Candidate<'_>| c.place != own.place && c.wire() == own.wire();
    match (is_small, bulk, first.filter(other), small.filter(other)) {
        (true, true, ..) => {
            let (took, most) = (figures.time(own), bytes((figures.speed)(own)));
            format!("the quickest ({took} a frame), and the most bandwidth of its cable ({most})")
        }
        (true, false, Some(wider), _) => {
            let (took, widths) = (figures.time(own), figures.widths(wider, own));
            format!("the quickest ({took} a frame); {} carries {widths}", name(wider))
        }
        (false, true, _, Some(quicker)) => format!(
            "most bandwidth of its cable ({}); {} is quicker: {} a frame, and not {}",
            bytes((figures.speed)(own)),
            name(quicker),
            figures.time(quicker),
            figures.time(own),
        ),
        (false, true, ..) => format!(
            "{} beside {}; {} is quicker: {} and {}",
            rate(figures.mb_s(own.wire())),
            rate(figures.beside(own.wire())),
            small.map_or("?".into(), name),
            us(small.map(|s| s.rtt_ns as f64 / 1000.0)),
            us(Some(own.rtt_ns as f64 / 1000.0))
        ),
        (false, false, Some(wider), _) => {
            format!("{} of the same cable carries {}", name(wider), figures.widths(wider, own))
        }
        _ => {
            let (own, best) = (bytes((figures.speed)(own)), bytes(figures.best));
            format!("its cable carries {own}, less than 1/{WORTH_SHARE} of the best one's {best}")
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_proto::rail::Merit;

    use super::super::item::NodeItem;
    use super::super::item::tests::{node, row, who};
    use super::*;
    use crate::bench::figure::Spread;

    fn said(links: &[(&str, Merit)], rows: Vec<RowItem>) -> Vec<(String, String)> {
        let mut node = node(1, rows);
        let link = |(name, merit): &(&str, Merit)| LinkItem {
            name: name.to_string(),
            interface: name.split(':').nth(1).unwrap_or("").into(),
            merit: (*merit).into(),
            ..LinkItem::default()
        };
        node.links = links.iter().map(link).collect();
        let view = View::new(&[node]);
        let roles = foretell(&view);
        view.rows
            .iter()
            .enumerate()
            .map(|(at, edge)| {
                let role = &roles[&at];
                (edge.row.link.clone(), format!("{}: {}", role.text(), role.why))
            })
            .collect()
    }

    fn merit(small_ns: u64, bandwidth: u64) -> Merit {
        Merit { small_ns, bandwidth, work: bandwidth }
    }

    fn over(link: &str, rtt_us: f64, mb_s: f64) -> RowItem {
        let rtt_us = Some(Spread { min: rtt_us, p50: rtt_us, ..Spread::default() });
        RowItem { peer: who(2), rtt_us, ..row(link, 2, mb_s) }
    }

    #[test]
    fn small_goes_by_the_quickest_and_bulk_by_the_widest_of_each_cable() {
        let (packet, tso) = (merit(2_000, 1 << 30), merit(4_000, 8 << 30));
        let links = [("packet:a", packet), ("tso:a", tso), ("packet:b", packet), ("tso:b", tso)];
        let rows =
            links.map(|(name, _)| over(name, 4.0, if name.ends_with('a') { 940.0 } else { 118.0 }));
        let said = said(&links, rows.to_vec());
        let small = "small messages: the quickest (2.00 us a frame); tso:a carries 8.59 GB/s, \
                     and not 1.07 GB/s";
        assert_eq!(said[0].1, small);
        let bulk = "bulk: most bandwidth of its cable (940 MB/s); packet:a is quicker: 2.00 us a \
                    frame, and not 4.00 us";
        assert_eq!(said[2].1, bulk);
        assert_eq!(
            said[1].1,
            "in reserve: tso:b of the same cable carries 8.59 GB/s, and not 1.07 GB/s"
        );
        assert!(said[3].1.starts_with("bulk: 118 MB/s beside 940 MB/s; packet:a"), "{said:?}");
    }

    #[test]
    fn of_two_that_are_alike_the_nearer_carries_what_is_small() {
        let links = [("packet:a", merit(2_000, 1 << 30)), ("packet:b", merit(2_000, 1 << 30))];
        let small = |a: f64, b: f64| {
            let said = said(&links, vec![over("packet:a", a, 90.0), over("packet:b", b, 90.0)]);
            said.iter().position(|(_, said)| said.starts_with("small")).unwrap()
        };
        assert_eq!(small(200.0, 5.0), 1);
        assert_eq!(small(24.0, 5.0), 0, "that may be the nodes' doing");
    }

    #[test]
    fn what_is_far_is_for_where_nothing_else_reaches() {
        let links = [("packet:a", merit(2_000, 1 << 30)), ("packet:b", merit(2_000, 1 << 30))];
        let rows = vec![over("packet:a", 5_100.0, 90.0), over("packet:b", 4.0, 90.0)];
        let both = said(&links, rows);
        assert_eq!(
            both[0].1,
            "only where nothing else reaches: 5.1 ms is more than 4 x 0.004 + 0.4 ms"
        );
        assert!(both[1].1.starts_with("small messages and bulk"), "{both:?}");
        let alone = said(&links[..1], vec![over("packet:a", 5_100.0, 90.0)]);
        assert!(alone[0].1.starts_with("small messages and bulk"), "nothing is nearer: {alone:?}");
    }

    #[test]
    fn what_loses_too_much_is_left_unless_all_others_are_worse() {
        let links = [("packet:a", merit(2_000, 1 << 30)), ("packet:b", merit(2_000, 1 << 30))];
        let lossy = RowItem { train: Some((1000, 950)), ..over("packet:a", 4.0, 90.0) };
        let both = said(&links, vec![lossy.clone(), over("packet:b", 4.0, 90.0)]);
        let why =
            "only where nothing else reaches: 5.0 % of its frames get lost, more than one in 50";
        assert_eq!(both[0].1, why);
        assert!(both[1].1.starts_with("small messages and bulk"), "{both:?}");
        let far = said(&links, vec![lossy, over("packet:b", 5_000.0, 90.0)]);
        assert!(far[0].1.starts_with("small messages and bulk"), "{far:?}");
    }

    #[test]
    fn a_last_resort_is_for_where_nothing_else_reaches_however_quick_it_is() {
        let (cable, bridge) = (merit(2_000, 1 << 30), merit(2_000, 8 << 30));
        let rows = || vec![over("packet:a", 300.0, 90.0), over("packet:b", 4.0, 900.0)];
        let mut node = node(1, rows());
        let link = |(name, merit): (&str, Merit)| LinkItem {
            name: name.into(),
            interface: name.into(),
            merit: merit.into(),
            ..LinkItem::default()
        };
        node.links = [("packet:a", cable), ("packet:b", bridge)].map(link).to_vec();
        node.links[1].medium = Some("bridge".into());
        node.links[1].last_resort = true;
        let mut other = super::super::item::tests::node(2, Vec::new());
        let why = |nodes: &[NodeItem]| {
            let roles = foretell(&View::new(nodes));
            roles.values().map(|r| format!("{}: {}", r.text(), r.why)).collect::<Vec<_>>()
        };
        let both = why(&[node.clone()]);
        assert!(both[0].starts_with("small messages and bulk"), "{both:?}");
        assert_eq!(both[1], "only where nothing else reaches: a last resort (bridge)");
        // It is the other end that is one.
        other.links[1] = node.links[1].clone();
        (node.links[1].medium, node.links[1].last_resort) = (None, false);
        assert_eq!(why(&[node.clone(), other]), both);
        node.links[1].last_resort = true;
        node.rows.remove(0);
        let alone = why(&[node]);
        assert!(alone[0].starts_with("small messages and bulk"), "{alone:?}");
    }

    #[test]
    fn a_cable_that_is_known_to_be_slow_carries_no_bulk() {
        let links = [("packet:a", merit(2_000, 1 << 30)), ("packet:b", merit(2_000, 1 << 20))];
        let rows = vec![over("packet:a", 4.0, 900.0), over("packet:b", 4.0, 1.0)];
        let said = said(&links, rows);
        let why =
            "in reserve: its cable carries 1.00 MB/s, less than 1/16 of the best one's 900 MB/s";
        assert_eq!(said[1].1, why);
        let alone = "small messages and bulk: the quickest (2.00 us a frame), and the most \
                     bandwidth of its cable (900 MB/s)";
        assert_eq!(said[0].1, alone);
        // Its card says less than it carries.
        let rows = vec![over("packet:a", 4.0, 900.0), over("packet:b", 4.0, 300.0)];
        let said = self::said(&links, rows);
        assert!(said[1].1.starts_with("bulk: 300 MB/s beside 900 MB/s"), "{said:?}");
    }
}
