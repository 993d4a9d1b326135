//! Curves over message size or number of ranks on logarithmic axes, and ratios as dots, as an SVG
//! file.

mod axis;
mod ratios;

use std::path::Path;

use plotters::prelude::*;

use axis::Axis;

use crate::bench::figure::size_text;
pub use ratios::{Dot, Ratios, Row};

/// What a panel shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Round-trip times, us: less is better.
    Latency,
    /// MB/s: more is better.
    Bandwidth,
    /// Times of a barrier against the number of ranks, us: less is better.
    Barrier,
    /// MB/s of a broadcast against the number of ranks: more is better.
    Broadcast,
    /// Ordered messages per second against the number of ranks: more is better.
    Ordered,
}

impl What {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            What::Latency => "Round-trip time",
            What::Bandwidth => "Bandwidth",
            What::Barrier => "Barrier",
            What::Broadcast => "Broadcast",
            What::Ordered => "Ordered messages",
        }
    }

    fn axis(self) -> &'static str {
        match self {
            What::Latency => "median round-trip time, us (lower is better)",
            What::Bandwidth => "MB/s, windows of 32 messages (higher is better)",
            What::Barrier => "mean time of a barrier, us (lower is better)",
            What::Broadcast => "MB/s at each receiver (higher is better)",
            What::Ordered => "messages per second, of all (higher is better)",
        }
    }

    fn across(self) -> &'static str {
        if self.grows_with_the_job() { "ranks" } else { "message size, bytes" }
    }

    /// Whether it is drawn against the number of ranks.
    fn grows_with_the_job(self) -> bool {
        match self {
            What::Latency | What::Bandwidth => false,
            What::Barrier | What::Broadcast | What::Ordered => true,
        }
    }
}

/// One contender's figures.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What the legend says.
    pub label: String,
    /// Drawn thick.
    pub bold: bool,
    /// Message size in bytes or number of ranks, and the figure.
    pub points: Vec<(u64, f64)>,
}

/// One diagram.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Its heading.
    pub title: String,
    /// What it shows.
    pub what: What,
    /// The curves in the legend's order.
    pub curves: Vec<Curve>,
}

/// A part of the drawing.
#[derive(Clone, Debug)]
pub enum Picture {
    /// Curves.
    Curves(Panel),
    /// Ratios.
    Ratios(Ratios),
}

impl Picture {
    fn height(&self) -> u32 {
        match self {
            Picture::Curves(_) => PANEL.1,
            Picture::Ratios(ratios) => ratios.height(),
        }
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), String> {
        let (drawn, title) = match self {
            Picture::Curves(panel) => (draw(area, panel), &panel.title),
            Picture::Ratios(ratios) => (ratios.draw(area), &ratios.title),
        };
        drawn.map_err(|e| format!("cannot draw {title}: {e}"))
    }
}

const PANEL: (u32, u32) = (720, 520);
const COLUMNS: usize = 2;

/// Colours that stay apart for most kinds of colour blindness (Okabe and Ito). Curves beyond these
/// have them once more, with hollow points.
pub const COLOURS: [RGBColor; 8] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(80, 80, 80),
    RGBColor(0, 0, 0),
];

/// Draws the pictures, two in a row, into the file at `path`.
///
/// # Errors
/// When the file cannot be written.
pub fn svg(path: &Path, pictures: &[Picture]) -> Result<(), String> {
    write(path, &render(pictures)?)
}

/// Writes a drawing into the file at `path`, and makes its folder.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|e| format!("make {}: {e}", parent.display()))?;
    }
    std::fs::write(path, text).map_err(|e| format!("write {}: {e}", path.display()))
}

/// Draws the pictures as the text of an SVG file.
///
/// # Errors
/// When one of them cannot be drawn.
pub fn render(pictures: &[Picture]) -> Result<String, String> {
    let mut text = String::new();
    {
        let rows: Vec<&[Picture]> = pictures.chunks(COLUMNS).collect();
        let height_of = |row: &[Picture]| row.iter().map(Picture::height).max().unwrap_or(0);
        let height = rows.iter().map(|row| height_of(row)).sum();
        let size = (PANEL.0 * pictures.len().clamp(1, COLUMNS) as u32, height);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(|e| e.to_string())?;
        let mut top = 0;
        for row in rows {
            for (column, picture) in row.iter().enumerate() {
                let left = PANEL.0 * column as u32;
                let area = root.clone().shrink((left, top), (PANEL.0, height_of(row)));
                picture.draw(&area)?;
            }
            top += height_of(row);
        }
        root.present().map_err(|e| e.to_string())?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// More curves than this have their names beside the diagram: in it they would cover points.
const INSIDE_MAX: usize = 6;
/// What the names take there: a width, and a height each.
const NAMES: (u32, i32) = (176, 22);

/// How curve number `i` is drawn: its line, its points and how large they are.
fn looks(i: usize, curve: &Curve) -> (ShapeStyle, ShapeStyle, i32) {
    let colour = COLOURS[i % COLOURS.len()];
    let line = colour.stroke_width(if curve.bold { 4 } else { 2 });
    let point = if i < COLOURS.len() { colour.filled() } else { line };
    (line, point, if curve.bold { 5 } else { 4 })
}

fn draw(area: &Area<'_>, panel: &Panel) -> Drawn {
    let many = panel.curves.len() > INSIDE_MAX;
    let (width, _) = area.dim_in_pixel();
    let (chart, names) = area.split_horizontally(if many { width - NAMES.0 } else { width });
    if many {
        name_beside(&names, &panel.curves)?;
    }
    draw_chart(&chart, panel, !many)
}

/// The names of curves, one below the other.
fn name_beside(area: &Area<'_>, curves: &[Curve]) -> Drawn {
    for (i, curve) in curves.iter().enumerate() {
        let (line, point, radius) = looks(i, curve);
        let y = 54 + NAMES.1 * i as i32;
        area.draw(&PathElement::new(vec![(4, y), (28, y)], line))?;
        area.draw(&Circle::new((16, y), radius, point))?;
        area.draw(&Text::new(curve.label.as_str(), (36, y - 7), ("sans-serif", 15)))?;
    }
    Ok(())
}

fn draw_chart(area: &Area<'_>, panel: &Panel, named: bool) -> Drawn {
    let points = || panel.curves.iter().flat_map(|c| c.points.iter().copied());
    let along = points().map(|p| p.0 as f64);
    let x = match panel.what.grows_with_the_job() {
        true => Axis::ranks(along),
        false => Axis::sizes(along),
    };
    let y = Axis::figures(points().map(|p| p.1));
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 22))
        .margin(14)
        .x_label_area_size(48)
        .y_label_area_size(66)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(x.ticks.len())
        .y_labels(y.ticks.len())
        .x_label_formatter(&|v| size_text(v.exp2().round() as u64))
        .y_label_formatter(&|v| axis::number(10f64.powf(*v)))
        .x_desc(panel.what.across())
        .y_desc(panel.what.axis())
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .draw()?;
    for (i, curve) in panel.curves.iter().enumerate() {
        let (style, point, radius) = looks(i, curve);
        let at: Vec<(f64, f64)> =
            curve.points.iter().map(|p| ((p.0.max(1) as f64).log2(), p.1.log10())).collect();
        let line = chart.draw_series(LineSeries::new(at.iter().copied(), style))?;
        if named {
            line.label(&curve.label).legend(move |at| {
                let line = PathElement::new(vec![(0, 0), (24, 0)], style);
                EmptyElement::at(at) + line + Circle::new((12, 0), radius, point)
            });
        }
        chart.draw_series(at.iter().map(|&p| Circle::new(p, radius, point)))?;
    }
    if !named {
        return Ok(());
    }
    let corner = match panel.what {
        What::Latency | What::Barrier => SeriesLabelPosition::UpperLeft,
        What::Bandwidth | What::Broadcast | What::Ordered => SeriesLabelPosition::LowerRight,
    };
    chart
        .configure_series_labels()
        .position(corner)
        .legend_area_size(34)
        .margin(12)
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 15))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_names_every_curve_and_axis() {
        let curve = |label: &str, by: f64| Curve {
            label: label.into(),
            bold: by < 1.5,
            points: vec![(8, 4.0 * by), (4096, 9.0 * by), (1 << 20, 300.0 * by)],
        };
        let panel = |what: What| Panel {
            title: what.title().into(),
            what,
            curves: vec![curve("weft ether", 1.0), curve("tcp sockets", 2.0)],
        };
        let text =
            render(&[What::Latency, What::Bandwidth].map(|w| Picture::Curves(panel(w)))).unwrap();
        for word in ["weft ether", "tcp sockets", "message size", "lower is better", "4K", "1M"] {
            assert!(text.contains(word), "{word}");
        }
    }

    #[test]
    fn many_curves_are_named_beside_the_diagram_and_no_two_look_alike() {
        let curve = |i: usize| Curve {
            label: format!("curve {i}"),
            bold: false,
            points: vec![(2, 1.0 + i as f64), (4, 9.0)],
        };
        for count in [INSIDE_MAX, 2 * COLOURS.len()] {
            let curves: Vec<Curve> = (0..count).map(curve).collect();
            let looks: Vec<_> = curves.iter().enumerate().map(|(i, c)| looks(i, c)).collect();
            let look = |at: usize| (looks[at].0.color, looks[at].1.filled);
            for (a, b) in (0..count).flat_map(|a| (0..a).map(move |b| (a, b))) {
                assert!(look(a) != look(b), "{a} and {b}");
            }
            let panel = Panel { title: "Barrier".into(), what: What::Barrier, curves };
            let text = render(&[Picture::Curves(panel)]).unwrap();
            let named = text.lines().filter(|line| line.starts_with("curve ")).count();
            assert_eq!((named, text.matches("<circle").count()), (count, 3 * count));
        }
    }
}
