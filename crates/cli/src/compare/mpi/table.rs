//! The comparison as tables and as JSON lines.

use serde_json::json;

use super::cells::{Cell, Done, Number};
use super::summary::{Summary, summaries};
use super::{Layout, runs};
use crate::bench::figure::{Figure, digits, size_text};
use crate::compare::contender::Contender;
use crate::compare::report;
use crate::compare::shown::Shown;
use crate::compare::targets::Target;
use crate::mpi::{Brand, Install};
use crate::output::{Table, json_line};
use crate::plot::{Dot, Picture, Ratios, Row};

/// Everything as JSON lines: figures, targets, cells, and what these come to.
pub fn json(contenders: &[Contender], figures: &[Figure], targets: &[Target], cells: &[Cell]) {
    report::json(contenders, figures, targets);
    cells.iter().for_each(|cell| json_line(&cell_line(cell)));
    summaries(cells).iter().for_each(|summary| json_line(&summary_line(summary)));
}

fn cell_line(cell: &Cell) -> serde_json::Value {
    let what = cell.what();
    json!({
        "bench": "cell",
        "cell": name(cell),
        "library": cell.brand.name(),
        "place": cell.place.name(),
        "ranks": cell.place.ranks,
        "kind": if cell.task.is_kernel() { "kernel" } else { "pattern" },
        "of": cell.task.bench(),
        "what": what,
        "ratio": cell.ratio(),
        "mpi_ratio": cell.mpi_ratio(),
        "limit": cell.number.limit(),
        "slower": cell.is_slower(),
        "failed": cell.has_failed(),
    })
}

fn summary_line(summary: &Summary<'_>) -> serde_json::Value {
    json!({
        "bench": "summary",
        "library": summary.brand.name(),
        "place": summary.place.name(),
        "ranks": summary.place.ranks,
        "kind": summary.kind(),
        "cells": summary.cells,
        "slower": summary.slower,
        "failed": summary.failed,
        "worst": summary.worst.map(name),
        "worst_ratio": summary.worst.and_then(Cell::ratio),
        "geometric_mean": summary.mean,
        "mpi_geometric_mean": summary.mpi_mean,
    })
}

/// A cell's name, unlike all others'.
fn name(cell: &Cell) -> String {
    format!("{} {} {}", cell.brand.name(), cell.place.name(), cell.title())
}

/// Everything as tables for people; what the cells come to stands last.
pub fn tables(
    contenders: &[Contender],
    figures: &[Figure],
    targets: &[Target],
    cells: &[Cell],
) -> Shown {
    let mut shown = Shown::default();
    let mut installs: Vec<&Install> = Vec::new();
    for run in contenders.iter().flat_map(runs) {
        if !installs.contains(&&run.install) {
            installs.push(&run.install);
        }
    }
    for install in installs {
        shown.words(format!("{}: {}", install.brand.name(), install.title_and_place()));
    }
    for (title, those) in by_place(cells) {
        shown.table(title, of_cells(&those));
    }
    alone(&mut shown, figures, cells);
    report::verdicts(&mut shown, figures, targets);
    if !cells.is_empty() {
        shown.words(
            "\nWeft / own: times on Weft divided by those on the library's own transport (of \
             bandwidths, the other way\nround), so below 1 Weft is faster. slower: above 1.05 \
             times, and above 3 times where it is the p99. The mean\nis the geometric one of \
             all medians, and \"in MPI\" that of the times that programs spend in MPI.",
        );
        shown.table("", of_summaries(&summaries(cells)));
    }
    shown
}

/// The cells of each library and place, and what these are called.
fn by_place(cells: &[Cell]) -> Vec<(String, Vec<&Cell>)> {
    let mut places: Vec<(Brand, Layout)> = Vec::new();
    for cell in cells {
        if !places.contains(&(cell.brand, cell.place)) {
            places.push((cell.brand, cell.place));
        }
    }
    let of = |(brand, place): (Brand, Layout)| {
        let those = cells.iter().filter(|cell| (cell.brand, cell.place) == (brand, place));
        (format!("{}, {}", brand.title(), place.title()), those.collect())
    };
    places.into_iter().map(of).collect()
}

/// Where there are fewer cells, none of them is drawn.
const DRAWN_MIN: usize = 6;

/// The ratios of each library and place: a row for each benchmark, a dot for each cell.
pub fn pictures(cells: &[Cell]) -> Vec<Picture> {
    let many = by_place(cells).into_iter().filter(|(_, those)| those.len() >= DRAWN_MIN);
    many.map(|(title, those)| {
        let mut rows: Vec<Row> = Vec::new();
        let mut was_kernel = None;
        for cell in those {
            let is_kernel = Some(cell.task.is_kernel());
            let name = cell.task.bench();
            if rows.last().is_none_or(|row| row.name != name) {
                let begins = is_kernel != was_kernel;
                rows.push(Row { name: name.into(), begins, dots: Vec::new() });
            }
            was_kernel = is_kernel;
            let hollow = cell.number == Number::P99;
            let dot = |ratio| Dot { ratio, marked: cell.is_slower(), hollow };
            if let Some(row) = rows.last_mut() {
                row.dots.extend(cell.ratio().map(dot));
            }
        }
        let sides = ("Weft is faster".into(), "slower (rings: p99)".into());
        Picture::Ratios(Ratios { title, sides, rows })
    })
    .collect()
}

/// A row for each cell.
fn of_cells(cells: &[&Cell]) -> Table {
    let mut table = Table::new(["bench", "Weft", "own", "Weft / own", ""]);
    let text = |done: &Done| match done {
        Done::Measured { text, .. } => text.clone(),
        Done::Failed => "failed".into(),
    };
    for cell in cells {
        let mark = match (cell.has_failed(), cell.is_slower()) {
            (true, _) => "FAILED",
            (_, true) => "slower",
            _ => "",
        };
        let ratio = cell.ratio().map_or("-".into(), digits);
        table.row([cell.title(), text(&cell.weft), text(&cell.own), ratio, mark.into()]);
    }
    table
}

/// Figures that stand in no cell: the other side was not asked for.
fn alone(shown: &mut Shown, figures: &[Figure], cells: &[Cell]) {
    let has_cell = |f: &&Figure| {
        let of = |cell: &Cell| {
            let sides = [super::Side::Weft, super::Side::Own];
            let label = |side| super::label(cell.brand, side, cell.place);
            cell.task.gave(f) && sides.into_iter().any(|side| f.device == label(side))
        };
        cells.iter().any(of)
    };
    let mut rest = figures.iter().filter(|f| !has_cell(f)).peekable();
    if rest.peek().is_none() {
        return;
    }
    let mut table = Table::new(["by", "bench", "what", "figure"]);
    for f in rest {
        let what = f.mode.clone().unwrap_or_else(|| size_text(f.bytes));
        table.row([f.device.clone(), f.bench.clone(), what, f.value.text()]);
    }
    shown.table("what else was measured", table);
}

/// A row for each library, place and kind.
fn of_summaries(summaries: &[Summary<'_>]) -> Table {
    let mut table = Table::new([
        "library", "place", "kind", "cells", "slower", "failed", "worst", "ratio", "mean", "in MPI",
    ]);
    let number = |v: Option<f64>| v.map_or("-".into(), digits);
    for s in summaries {
        table.row([
            s.brand.name().to_string(),
            s.place.name(),
            s.kind().to_string(),
            s.cells.to_string(),
            s.slower.to_string(),
            s.failed.to_string(),
            s.worst.map_or("-".into(), Cell::title),
            number(s.worst.and_then(Cell::ratio)),
            number(s.mean),
            number(s.mpi_mean),
        ]);
    }
    table
}
