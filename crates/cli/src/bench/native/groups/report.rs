//! What `weft bench bcast` and `weft bench group` write.

use std::path::Path;

use super::super::ranks::Ranks;
use crate::CliError;
use crate::bench::figure::{Figure, digits, size_text};
use crate::output::{Table, json_line};
use crate::plot::{self, Curve, Panel, Picture, What};

/// One measured point.
pub(super) struct Point {
    /// The rate.
    pub(super) figure: Figure,
    /// Frames and bytes on the wire that a message costs, where there is a wire: of all members, or
    /// those of a broadcast's root.
    pub(super) frames: Option<Figure>,
    pub(super) bytes: Option<Figure>,
    /// From a cast to the delivery at its sender, us; median.
    pub(super) latency_us: Option<f64>,
    /// The times of an operation at each rank.
    pub(super) ranks: Option<Ranks>,
}

/// The rate as JSON has it.
#[derive(serde::Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    figure: &'a Figure,
    #[serde(flatten)]
    ranks: &'a Option<Ranks>,
}

impl Point {
    fn label(&self) -> &str {
        match (self.figure.mode.as_deref(), self.figure.bench.as_str()) {
            (Some(mode), _) => mode,
            (None, "bcast") => "broadcast",
            (None, _) => "ordered",
        }
    }

    fn is_like(&self, other: &Point) -> bool {
        (self.figure.bytes, self.label()) == (other.figure.bytes, other.label())
    }
}

/// Writes everything.
pub(super) fn report(
    points: Vec<Point>,
    json: bool,
    svg: Option<&Path>,
    what: What,
) -> Result<(), CliError> {
    if json {
        for Point { figure, frames, bytes, ranks, .. } in &points {
            json_line(&Line { figure, ranks });
            [frames, bytes].into_iter().flatten().for_each(json_line);
        }
    } else {
        table(&points, what).print();
        ratios(&points, what);
    }
    svg.map_or(Ok(()), |path| draw(&points, path, what))
}

/// Whose frames are counted.
fn whose(what: What) -> &'static str {
    if what == What::Broadcast { "the root's" } else { "all" }
}

fn table(points: &[Point], what: What) -> Table {
    let frames = format!("{} frames each", whose(what));
    let bytes = format!("{} bytes each", whose(what));
    let rate = ["way", "ranks", "bytes", "rate"].map(String::from);
    let times = ["own delivery us", "rank min us", "rank mean", "rank max", "exit skew"];
    let headings = rate.into_iter().chain([frames, bytes]).chain(times.map(String::from));
    let mut table = Table::new(headings);
    for point in points {
        let Point { figure, frames, bytes, latency_us, ranks } = point;
        let number = |f: &Option<Figure>| f.as_ref().map(|f| f.value.number());
        let text = |value: Option<f64>| value.map_or("-".into(), digits);
        table.row(vec![
            point.label().to_string(),
            figure.ranks.to_string(),
            size_text(figure.bytes),
            figure.value.text(),
            text(number(frames)),
            text(number(bytes)),
            text(*latency_us),
            text(ranks.as_ref().map(|r| r.rank_min_us)),
            text(ranks.as_ref().map(|r| r.rank_mean_us)),
            text(ranks.as_ref().map(|r| r.rank_max_us)),
            text(ranks.as_ref().and_then(|r| r.exit_skew_us)),
        ]);
    }
    table
}

/// One of the figures of a point.
type Part = fn(&Point) -> Option<&Figure>;

/// What more receivers cost: the most ranks beside the fewest.
fn ratios(points: &[Point], what: What) {
    for (at, point) in points.iter().enumerate() {
        if points[..at].iter().any(|before| before.is_like(point)) {
            continue;
        }
        let like = || points.iter().filter(|other| other.is_like(point));
        let (Some(few), Some(many)) =
            (like().min_by_key(|p| p.figure.ranks), like().max_by_key(|p| p.figure.ranks))
        else {
            continue;
        };
        if few.figure.ranks == many.figure.ranks {
            continue;
        }
        let ratio = |of: Part| {
            let (many, few) = (of(many)?.value.number(), of(few)?.value.number());
            Some(digits(many / few))
        };
        let mut parts = Vec::new();
        let all: [(&str, Part); 3] = [
            ("rate", |p| Some(&p.figure)),
            ("frames", |p| p.frames.as_ref()),
            ("bytes", |p| p.bytes.as_ref()),
        ];
        for (name, of) in all {
            parts.extend(ratio(of).map(|ratio| format!("{name} {ratio} x")));
        }
        println!(
            "{} of {}, {} receivers / {}: {} ({} frames and bytes)",
            point.label(),
            size_text(point.figure.bytes),
            many.figure.ranks - 1,
            few.figure.ranks - 1,
            parts.join(", "),
            whose(what),
        );
    }
}

fn draw(points: &[Point], path: &Path, what: What) -> Result<(), CliError> {
    let mut curves: Vec<Curve> = Vec::new();
    for point in points {
        let label = format!("{}, {}", point.label(), size_text(point.figure.bytes));
        let at = (u64::from(point.figure.ranks), point.figure.value.number());
        match curves.iter_mut().find(|curve| curve.label == label) {
            Some(curve) => curve.points.push(at),
            None => {
                curves.push(Curve { bold: point.figure.mode.is_none(), label, points: vec![at] });
            }
        }
    }
    let device = points.first().map_or("", |p| &p.figure.device);
    let title = format!("{} ({device})", what.title());
    plot::svg(path, &[Picture::Curves(Panel { title, what, curves })]).map_err(CliError::Bench)?;
    eprintln!("weft: plot in {}", path.display());
    Ok(())
}
