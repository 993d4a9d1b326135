//! Nodes and cables as a picture (SVG): colours and strokes say what a cable is used for, labels
//! how fast it is. Pure.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use super::graph::{Cable, End};
use super::layout::{At, Layout, Step};
use super::page::{Area, CHAR, Look, Page, SMALL_CHAR, shorten};
use super::show::{CableRole, Found, span};
use super::view::{rate, us};

/// Height of a node, and of a line of words.
const NODE: f64 = 28.0;
const LINE: f64 = 15.0;
/// What a label takes between two nodes of a row.
const LABEL: f64 = 96.0;
/// Between parallel cables.
const BESIDE: f64 = 36.0;
/// A switch, as it is drawn.
const SWITCH: (f64, f64) = (26.0, 18.0);
/// More cables than this have their figures in a list.
const LABELS_MAX: usize = 24;
/// A longer list has more columns than there is room for below the picture.
const ROWS_MAX: usize = 40;
/// Where along a cable its label may be.
const SHARES: [f64; 13] = [0.5, 0.45, 0.55, 0.4, 0.6, 0.35, 0.65, 0.3, 0.7, 0.26, 0.74, 0.22, 0.78];
/// As many points of a cable are looked at where its label must not be in the way.
const POINTS: u32 = 40;

/// A line of the picture.
struct Stroke {
    from: At,
    to: At,
    /// How far its middle is to the side.
    bend: f64,
    look: Look,
    /// What it ends at.
    name: String,
    /// What it is used for.
    role: String,
    /// How fast it is.
    figures: [String; 2],
}

impl Stroke {
    /// The control point of its curve.
    fn control(&self) -> At {
        let (dx, dy) = (self.to.0 - self.from.0, self.to.1 - self.from.1);
        let side = 2.0 * self.bend / dx.hypot(dy).max(1.0);
        let middle = ((self.from.0 + self.to.0) / 2.0, (self.from.1 + self.to.1) / 2.0);
        (middle.0 - side * dy, middle.1 + side * dx)
    }

    /// The point at a share of its length.
    fn at(&self, t: f64) -> At {
        let (control, s) = (self.control(), 1.0 - t);
        let mix = |a: f64, b: f64, c: f64| s * s * a + 2.0 * s * t * b + t * t * c;
        (mix(self.from.0, control.0, self.to.0), mix(self.from.1, control.1, self.to.1))
    }

    fn points(&self) -> impl Iterator<Item = At> + '_ {
        (0..=POINTS).map(|at| self.at(f64::from(at) / f64::from(POINTS)))
    }

    fn text(&self) -> String {
        match self.figures[0].as_str() {
            "not" => format!("{}: not measured", self.name),
            _ => format!("{}: {}, {}", self.name, self.figures[0], self.figures[1]),
        }
    }
}

/// How fast something is, in two lines.
fn figures(mb_s: Option<f64>, rtt_us: Option<f64>) -> [String; 2] {
    match (mb_s, rtt_us) {
        (None, None) => ["not".into(), "measured".into()],
        _ => [rate(mb_s), us(rtt_us)],
    }
}

/// A switch of the picture.
struct Switch<'a> {
    cable: &'a Cable,
    name: String,
    /// Where it stands; else each node that is on it has a mark.
    at: Option<At>,
}

/// The picture of what was found.
struct Picture<'a> {
    found: &'a Found<'a>,
    /// By node, in their order.
    areas: Vec<Area>,
    strokes: Vec<Stroke>,
    switches: Vec<Switch<'a>>,
    page: Page,
}

/// Draws what was found.
pub(super) fn draw(found: &Found<'_>) -> String {
    let names = found.view.order.iter().map(|node| shorten(found.view.label(*node)));
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
    let width = 18.0 + CHAR * longest as f64;
    let step = Step { across: width + LABEL, down: NODE + 80.0 };
    let place = |end: &End| found.view.order.iter().position(|n| *n == end.0).unwrap_or(0);
    let (shared, direct): (Vec<&Cable>, Vec<&Cable>) =
        found.graph.cables.iter().partition(|cable| cable.is_switch());
    let pairs: Vec<_> = direct.iter().map(|c| (place(&c.ends[0]), place(&c.ends[1]))).collect();
    let layout = |hub| Layout::new(found.view.order.len(), &pairs, hub, step);
    let about = layout(true);
    let in_middle = (1..=2).contains(&shared.len()) && about.leaves_middle(&pairs);
    let layout = if in_middle { about.clone() } else { layout(false) };
    // No node is in line with two of them.
    let turn = about.nodes.first().map_or(0.0, |at| at.1.atan2(at.0));
    let angle = turn + PI / (2.0 * about.nodes.len().max(1) as f64);
    let apart = if shared.len() > 1 { 44.0 } else { 0.0 };
    let side = |number: usize| apart * (2.0 * number as f64 - 1.0);
    let switch = |(number, cable)| Switch {
        at: in_middle.then(|| (side(number) * angle.cos(), side(number) * angle.sin())),
        name: format!("S{}", number + 1),
        cable,
    };
    let mut picture = Picture {
        found,
        areas: layout.nodes.iter().map(|at| Area::about(*at, (width, NODE))).collect(),
        strokes: Vec::new(),
        switches: shared.into_iter().enumerate().map(switch).collect(),
        page: Page::default(),
    };
    picture.add_cables(&direct, place);
    picture.add_spokes(place);
    picture.put()
}

impl Picture<'_> {
    /// A line for each cable, parallel ones beside each other.
    fn add_cables(&mut self, cables: &[&Cable], place: impl Fn(&End) -> usize) {
        let pair = |cable: &Cable| (place(&cable.ends[0]), place(&cable.ends[1]));
        let mut count: BTreeMap<(usize, usize), (usize, usize)> = BTreeMap::new();
        cables.iter().for_each(|cable| count.entry(pair(cable)).or_default().1 += 1);
        for cable in cables {
            let (a, b) = pair(cable);
            let Some((nth, all)) = count.get_mut(&(a, b)) else { continue };
            let bend = BESIDE * (*nth as f64 - (*all as f64 - 1.0) / 2.0);
            *nth += 1;
            let CableRole { small, bulk, spare, text, .. } = self.found.role(cable);
            let ends = self.found.ends(cable);
            self.strokes.push(Stroke {
                from: self.areas[a].middle(),
                to: self.areas[b].middle(),
                bend,
                look: Look::of(small, bulk, spare),
                name: format!("{} to {}", ends.0, ends.1),
                role: text,
                figures: figures(
                    cable.mb_s.map(|(_, most)| most),
                    cable.rtt_us.map(|(least, _)| least),
                ),
            });
        }
    }

    /// A line from each end of a switch to where that stands.
    fn add_spokes(&mut self, place: impl Fn(&End) -> usize) {
        for switch in &self.switches {
            let Some(middle) = switch.at else { continue };
            let CableRole { small, bulk, spare, text, .. } = self.found.role(switch.cable);
            for end in &switch.cable.ends {
                let rows = || {
                    let rows = switch.cable.rows.iter().map(|at| &self.found.view.rows[*at]);
                    rows.filter(|e| {
                        (e.from, super::graph::interface(&e.row.link)) == (end.0, &*end.1)
                    })
                };
                let most = rows().filter_map(|e| e.row.bandwidth_mb_s).max_by(f64::total_cmp);
                let least =
                    rows().filter_map(|e| e.row.rtt_us).map(|r| r.p50).min_by(f64::total_cmp);
                self.strokes.push(Stroke {
                    from: self.areas[place(end)].middle(),
                    to: middle,
                    bend: 0.0,
                    look: Look::of(small, bulk, spare),
                    name: format!("{} {} to {}", self.found.view.label(end.0), end.1, switch.name),
                    role: text.clone(),
                    figures: figures(most, least),
                });
            }
        }
    }

    /// Puts all on the page, and gives the file.
    fn put(mut self) -> String {
        for stroke in &self.strokes {
            let title = format!("{}; {}", stroke.text(), stroke.role);
            let (from, to) = (stroke.from, stroke.to);
            self.page.curve((from, stroke.control(), to), stroke.look, &title);
            for at in stroke.points() {
                self.page.takes(Area::about(at, (4.0, 4.0)));
            }
        }
        let mut taken = self.areas.clone();
        for (node, area) in self.found.view.order.iter().zip(&self.areas) {
            let label = self.found.view.label(*node);
            let alone = self.found.graph.neighbours(*node).is_empty();
            self.page.named(*area, &shorten(label), label, (false, alone));
        }
        taken.extend(self.put_switches());
        let labels = self.labels(taken);
        for (stroke, area) in self.strokes.iter().zip(labels.iter().flatten()) {
            self.page.label(*area, &stroke.figures);
        }
        self.put_words(labels.is_none());
        self.page.file(30.0)
    }

    /// Draws switches, or a mark at each node that is on one; gives what they take.
    fn put_switches(&mut self) -> Vec<Area> {
        let mut taken = Vec::new();
        let mut marks: BTreeMap<usize, usize> = BTreeMap::new();
        let all = self.areas.iter().copied().reduce(Area::with);
        let middle = all.map_or(0.0, |all| all.middle().1 + 1.0);
        for switch in &self.switches {
            let title = format!("{}: {}", switch.name, self.found.ends(switch.cable).1);
            if let Some(at) = switch.at {
                taken.push(Area::about(at, SWITCH));
                self.page.named(Area::about(at, SWITCH), &switch.name, &title, (true, false));
                continue;
            }
            for (node, _) in &switch.cable.ends {
                let Some(at) = self.found.view.order.iter().position(|n| n == node) else {
                    continue;
                };
                let nth = marks.entry(at).or_default();
                let area = self.areas[at];
                let x = area.right - SWITCH.0 / 2.0 - (SWITCH.0 + 4.0) * *nth as f64;
                // Away from the cables.
                let (edge, side) = match area.middle().1 > middle {
                    true => (area.bottom, 1.0),
                    false => (area.top, -1.0),
                };
                let mark = Area::about((x, edge + side * (SWITCH.1 / 2.0 + 5.0)), SWITCH);
                *nth += 1;
                let CableRole { small, bulk, spare, .. } = self.found.role(switch.cable);
                let (from, to) = (mark.middle(), (x, edge));
                self.page.curve((from, from, to), Look::of(small, bulk, spare), &title);
                self.page.named(mark, &switch.name, &title, (true, false));
                taken.push(mark);
            }
        }
        taken
    }

    /// Where each label is; `None` if they do not all find room.
    fn labels(&self, mut taken: Vec<Area>) -> Option<Vec<Area>> {
        if self.strokes.len() > LABELS_MAX {
            return None;
        }
        let mut labels = Vec::new();
        for (number, stroke) in self.strokes.iter().enumerate() {
            let longest = stroke.figures.iter().map(|text| text.chars().count()).max().unwrap_or(0);
            let size = (SMALL_CHAR * longest as f64 + 4.0, 2.0 * LINE - 4.0);
            let others = || self.strokes.iter().enumerate().filter(|(other, _)| *other != number);
            let crossed = |area: &Area| {
                others().filter(|(_, other)| other.points().any(|point| area.has(point))).count()
            };
            let places = SHARES.iter().map(|share| Area::about(stroke.at(*share), size));
            let free = places.filter(|area| !taken.iter().any(|other| other.meets(area)));
            let best = free.min_by_key(crossed).filter(|area| crossed(area) < 2)?;
            taken.push(best);
            labels.push(best);
        }
        Some(labels)
    }

    /// The heading, what strokes mean, what has no room in the picture, and what is odd.
    fn put_words(&mut self, listed: bool) {
        let area = self.page.area();
        let count = |n: usize, what: &str| match n {
            1 => format!("1 {what}"),
            n if what == "switch" => format!("{n} switches"),
            n => format!("{n} {what}s"),
        };
        let direct = self.found.graph.cables.len() - self.switches.len();
        let mut heading = count(self.found.view.order.len(), "node");
        heading.push_str(&format!(", {}", count(direct, "cable")));
        if !self.switches.is_empty() {
            heading.push_str(&format!(", {}", count(self.switches.len(), "switch")));
        }
        let ink = ("start", "#000000");
        let top = area.top - 2.0 * LINE;
        self.page.words((area.left, top), &heading, 16, ink);
        let room = Area::about((area.left, top), (0.0, 2.0 * LINE));
        self.page.takes(Area { right: area.left + 9.0 * heading.len() as f64, ..room });
        let mut y = area.bottom + 2.0 * LINE;
        let mut seen: Vec<&str> = Vec::new();
        for cable in &self.found.graph.cables {
            let CableRole { small, bulk, spare, what, .. } = self.found.role(cable);
            let look = Look::of(small, bulk, spare);
            if seen.contains(&what) {
                continue;
            }
            seen.push(what);
            let (from, to) = ((area.left, y - 4.0), (area.left + 44.0, y - 4.0));
            self.page.curve((from, from, to), look, "");
            self.put_line((area.left + 54.0, y), what);
            y += LINE + 3.0;
        }
        let mut lines: Vec<String> = self.switches.iter().map(|s| self.about_switch(s)).collect();
        if self.found.far.iter().any(|far| far.is_reached()) {
            lines.push("Nodes without a cable reach each other through those between.".into());
        }
        if listed {
            lines.extend(self.strokes.iter().map(Stroke::text));
        }
        self.put_list((area.left, y), &lines, area.right - area.left);
    }

    fn about_switch(&self, switch: &Switch<'_>) -> String {
        let Cable { ends, mb_s, rtt_us, .. } = switch.cable;
        let (mb_s, rtt) = (span(*mb_s, rate), span(*rtt_us, us));
        format!("{}: switch of {} interfaces, {mb_s}, {rtt}", switch.name, ends.len())
    }

    fn put_line(&mut self, (x, y): At, text: &str) {
        self.page.words((x, y), text, 12, ("start", "#000000"));
        let right = x + SMALL_CHAR * 1.05 * text.chars().count() as f64;
        self.page.takes(Area { left: x, top: y - LINE, right, bottom: y + 4.0 });
    }

    /// Lines in as many columns as fit.
    fn put_list(&mut self, (x, y): At, lines: &[String], width: f64) {
        let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let column = SMALL_CHAR * 1.05 * longest as f64 + 24.0;
        let columns =
            ((width / column.max(1.0)) as usize).max(lines.len().div_ceil(ROWS_MAX)).max(1);
        let rows = lines.len().div_ceil(columns);
        for (at, line) in lines.iter().enumerate() {
            let (column_at, row) = (at / rows.max(1), at % rows.max(1));
            self.put_line((x + column * column_at as f64, y + LINE * row as f64 + 6.0), line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::NodeItem;
    use super::super::item::tests::{cabled, node, row};
    use super::super::{far, graph::Graph, role, view::View};
    use super::*;

    fn picture(nodes: &[NodeItem]) -> String {
        let view = View::new(nodes);
        let graph = Graph::of(&view);
        let (roles, far) = (role::foretell(&view), far::find(&view, &graph));
        let found = Found { view: &view, graph: &graph, roles: &roles, far: &far, odd: &[] };
        draw(&found)
    }

    /// Whether each element ends, in the right order.
    fn is_whole(text: &str) -> bool {
        let mut open: Vec<&str> = Vec::new();
        for tag in text.split('<').skip(1) {
            let Some((tag, words)) = tag.split_once('>') else { return false };
            let name = tag.split_whitespace().next().unwrap_or("");
            if words.contains('"') || tag.matches('"').count() % 2 == 1 {
                return false;
            }
            match name.strip_prefix('/') {
                Some(name) if open.pop() != Some(name) => return false,
                None if !tag.ends_with('/') => open.push(name),
                _ => {}
            }
        }
        open.is_empty() && text.ends_with("</svg>\n")
    }

    #[test]
    fn all_nodes_and_cables_are_there_and_named_whatever_the_shape() {
        for n in 2..=16u64 {
            let chain: Vec<_> = (1..n).map(|b| (b - 1, b)).collect();
            let ring: Vec<_> = chain.iter().copied().chain([(0, n - 1)]).collect();
            let star: Vec<_> = (1..n).map(|b| (0, b)).collect();
            let mesh: Vec<_> = (0..n).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
            for cables in [chain, ring, star, mesh] {
                if n == 2 && cables.len() == 2 {
                    continue;
                }
                let text = picture(&cabled(n, &cables));
                assert!(is_whole(&text), "{text}");
                for at in 1..=n {
                    assert!(text.contains(&format!(">node{at}</text>")), "{at}: {text}");
                }
                let (curves, labels) =
                    (text.matches("<path").count(), text.matches("900 MB/s").count());
                assert_eq!(curves, cables.len() + 1, "one for the legend");
                // Where it points, and in the picture or the list.
                assert_eq!(labels, 2 * cables.len(), "{n}: {text}");
            }
        }
    }

    #[test]
    fn labels_stand_in_the_picture_where_there_is_room() {
        let ring = picture(&cabled(8, &(0..8).map(|a| (a, (a + 1) % 8)).collect::<Vec<_>>()));
        assert_eq!(ring.matches("fill-opacity").count(), 8, "{ring}");
        assert!(ring.contains("through those between"), "{ring}");
        let mesh: Vec<_> = (0..10).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
        let mesh = picture(&cabled(10, &mesh));
        assert!(!mesh.contains("fill-opacity") && !mesh.contains("through those"), "{mesh}");
    }

    #[test]
    fn a_switch_is_in_the_middle_or_a_mark_at_each_node() {
        let on_switch = |nodes: &mut [NodeItem]| {
            let n = nodes.len() as u64;
            for (me, node) in (1..).zip(nodes.iter_mut()) {
                let others = (1..=n).filter(|other| *other != me);
                node.rows.extend(others.map(|other| row("packet:lan", other, 118.0)));
            }
        };
        let mut nodes: Vec<_> = (1..=4).map(|nonce| node(nonce, Vec::new())).collect();
        on_switch(&mut nodes);
        let alone = picture(&nodes);
        assert_eq!(alone.matches(">S1</text>").count(), 1, "{alone}");
        assert!(alone.contains("4 nodes, 0 cables, 1 switch") && is_whole(&alone), "{alone}");
        let mut nodes = cabled(4, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
        on_switch(&mut nodes);
        let beside = picture(&nodes);
        assert_eq!(beside.matches(">S1</text>").count(), 4, "{beside}");
    }

    #[test]
    fn names_may_be_long_and_odd() {
        let mut nodes = cabled(2, &[(0, 1)]);
        nodes[0].who.host = "a<b>&\"c\" of a very long name".into();
        let text = picture(&nodes);
        assert!(is_whole(&text) && text.contains("a&lt;b&gt;&amp;"), "{text}");
        assert!(text.contains('…'), "{text}");
    }
}
