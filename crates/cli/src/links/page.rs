//! What pictures of cables are made of: boxes, lines and words, and how much room they take.

use std::fmt::Write;

use plotters::style::RGBColor;

use super::layout::At;
use crate::plot::COLOURS;

/// What a character of a node's name, and of all else, is wide at most.
pub(super) const CHAR: f64 = 7.6;
pub(super) const SMALL_CHAR: f64 = 6.6;
/// Names longer than this are cut; the whole one is shown where a mouse points.
const NAME_MAX: usize = 16;

/// A part of the picture, its sides along the axes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    /// About a place, so wide and so high.
    pub fn about((x, y): At, (width, height): (f64, f64)) -> Area {
        let (w, h) = (width / 2.0, height / 2.0);
        Area { left: x - w, top: y - h, right: x + w, bottom: y + h }
    }

    pub fn middle(&self) -> At {
        ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0)
    }

    pub fn meets(&self, other: &Area) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    pub fn has(&self, (x, y): At) -> bool {
        (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
    }

    /// The least that has both.
    pub fn with(self, other: Area) -> Area {
        Area {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }
}

/// How a line looks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Look {
    colour: RGBColor,
    width: f64,
    dashes: &'static str,
}

impl Look {
    /// Of a cable that carries this: told apart by width and dashes as well as by colour.
    pub fn of(small: bool, bulk: bool, spare: bool) -> Look {
        let look = |colour: usize, width, dashes| Look { colour: COLOURS[colour], width, dashes };
        match (small, bulk) {
            (true, true) => look(1, 3.5, ""),
            (true, false) => look(2, 1.6, ""),
            (false, true) => look(0, 3.5, "11 4"),
            _ if spare => look(3, 2.2, "2 5"),
            _ => look(6, 1.2, "5 5"),
        }
    }
}

/// A picture that grows as things are put on it.
#[derive(Default, Debug)]
pub(super) struct Page {
    body: String,
    area: Option<Area>,
}

/// Text as it may stand in a file.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A node's name as it is shown.
pub(super) fn shorten(name: &str) -> String {
    if name.chars().count() <= NAME_MAX {
        return name.to_string();
    }
    name.chars().take(NAME_MAX - 1).chain(['…']).collect()
}

impl Page {
    /// What has been put on it takes so much room.
    pub fn area(&self) -> Area {
        self.area.unwrap_or(Area::about((0.0, 0.0), (1.0, 1.0)))
    }

    /// Takes this room.
    pub fn takes(&mut self, area: Area) {
        self.area = Some(self.area.map_or(area, |before| before.with(area)));
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing into a string does not fail.
        let _ = self.body.write_fmt(text);
        self.body.push('\n');
    }

    /// A curve, straight if `control` is in the middle; `title` is shown where a mouse points.
    pub fn curve(&mut self, (from, control, to): (At, At, At), look: Look, title: &str) {
        let Look { colour: RGBColor(r, g, b), width, dashes } = look;
        self.put(format_args!(
            "<path d=\"M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}\" fill=\"none\" \
             stroke=\"rgb({r},{g},{b})\" stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\">\
             <title>{}</title></path>",
            from.0,
            from.1,
            control.0,
            control.1,
            to.0,
            to.1,
            escape(title)
        ));
    }

    /// A box with a name in it: of a node, or, where it is `dark`, of a switch.
    pub fn named(&mut self, area: Area, name: &str, title: &str, (dark, dashed): (bool, bool)) {
        let (fill, ink) = if dark { ("#505050", "#ffffff") } else { ("#ffffff", "#000000") };
        let (round, dashes) = (if dark { 1 } else { 7 }, if dashed { "4 3" } else { "" });
        self.put(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{round}\" \
             fill=\"{fill}\" stroke=\"#000000\" stroke-width=\"1.2\" stroke-dasharray=\"{dashes}\">\
             <title>{}</title></rect>",
            area.left,
            area.top,
            area.right - area.left,
            area.bottom - area.top,
            escape(title)
        ));
        let (x, y) = area.middle();
        let size = if dark { 11 } else { 13 };
        self.words((x, y + 0.35 * f64::from(size)), name, size, ("middle", ink));
        self.takes(area);
    }

    /// Words on the line `y`; `how`: where `x` is in them, and their colour.
    pub fn words(&mut self, (x, y): At, text: &str, size: u32, how: (&str, &str)) {
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{}\" \
             fill=\"{}\">{}</text>",
            how.0,
            how.1,
            escape(text)
        ));
    }

    /// Lines of words in the middle of an area that hides what is below.
    pub fn label(&mut self, area: Area, lines: &[String]) {
        self.put(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#ffffff\" \
             fill-opacity=\"0.88\"/>",
            area.left,
            area.top,
            area.right - area.left,
            area.bottom - area.top
        ));
        let height = (area.bottom - area.top) / lines.len().max(1) as f64;
        for (at, line) in lines.iter().enumerate() {
            let y = area.top + height * (at as f64 + 0.78);
            self.words((area.middle().0, y), line, 11, ("middle", "#000000"));
        }
        self.takes(area);
    }

    /// The file: what is on the page, with so much free about it.
    pub fn file(self, margin: f64) -> String {
        let area = self.area();
        let (width, height) = (area.right - area.left, area.bottom - area.top);
        let (width, height) = ((width + 2.0 * margin).ceil(), (height + 2.0 * margin).ceil());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
             <g transform=\"translate({:.1} {:.1})\">\n{}</g>\n</svg>\n",
            margin - area.left,
            margin - area.top,
            self.body
        )
    }
}
