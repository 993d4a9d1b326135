//! A square of figures: a table where it is small, else coloured cells that say their figures when
//! pointed at.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::data;
use crate::units::share;

/// Figures by row and column.
pub struct Matrix<'a> {
    /// What it shows, for readers who do not see it.
    pub title: &'a str,
    /// What rows and columns are: `waits`, `for`.
    pub sides: (&'a str, &'a str),
    /// What stands at each row.
    pub rows: Vec<String>,
    /// What stands above each column.
    pub columns: Vec<String>,
    /// The figures that are not 0.
    pub cells: BTreeMap<(usize, usize), f64>,
    /// A figure in words.
    pub text: fn(f64) -> String,
    /// Colours by the logarithm, where figures differ by a power of ten at least.
    pub logarithmic: bool,
}

/// Levels of colour.
const LEVELS: usize = 10;
/// With more columns, texts in cells cannot be read: sixteen ranks, and one for nobody known.
const TABLE_MOST: usize = 17;

/// From which figure to which colours go.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// The colour of a figure.
    fn level(&self, v: f64) -> usize {
        let part = match self.logarithmic {
            true => share((v / self.low).ln(), (self.high / self.low).ln()),
            false => share(v, self.high),
        };
        ((part * LEVELS as f64) as usize).min(LEVELS - 1)
    }
}

impl Matrix<'_> {
    /// The figure drawn.
    pub fn draw(&self) -> Markup {
        let drawn = match self.columns.len().max(self.rows.len()) <= TABLE_MOST {
            true => self.table(),
            false => self.picture(),
        };
        html! { div class="part" { div class="wide" { (drawn) } (self.legend()) } }
    }

    fn bounds(&self) -> (f64, f64) {
        let start = (f64::INFINITY, 0.0);
        self.cells.values().fold(start, |(low, high), &v| (v.min(low), v.max(high)))
    }

    fn table(&self) -> Markup {
        let scale = self.scale();
        let level = |v: &f64| format!("n l{}", scale.level(*v));
        let class = |v: Option<&f64>| v.map_or("n".into(), level);
        html! {
            table class="matrix" {
                caption { (self.title) }
                thead {
                    tr {
                        th { (self.sides.0) " \\ " (self.sides.1) }
                        @for column in &self.columns { th { (column) } }
                    }
                }
                tbody {
                    @for (r, row) in self.rows.iter().enumerate() {
                        tr {
                            th { (row) }
                            @for c in 0..self.columns.len() {
                                @let cell = self.cells.get(&(r, c));
                                td class=(class(cell)) {
                                    (cell.map_or(String::new(), |v| (self.text)(*v)))
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Cells of one level are one path, which browsers draw at once.
    fn picture(&self) -> Markup {
        /// Room for names such as `1008-1023`.
        const MARGIN: usize = 62;
        /// How wide and high it is, as far as cells are not too small or too large for that.
        const SIDE: usize = 560;
        /// Names nearer to each other cannot be read.
        const NAME: usize = 18;
        let mut paths = vec![String::new(); LEVELS];
        let levels = self.scale();
        let mut texts: Vec<(usize, usize, String)> = Vec::new();
        for (&(r, c), &v) in &self.cells {
            paths[levels.level(v)].push_str(&format!("M{c} {r}h1v1h-1z"));
            texts.push((r, c, (self.text)(v)));
        }
        let (columns, rows) = (self.columns.len(), self.rows.len());
        let cell = (SIDE / rows.max(columns).max(1)).clamp(9, 20);
        let (width, height) = (MARGIN + columns * cell + 2, MARGIN + rows * cell + 2);
        let every = rows.max(columns).div_ceil(SIDE / NAME);
        let ticks = |names: &[String]| -> Vec<(usize, String)> {
            let last = names.len().saturating_sub(1);
            let marked =
                |i: &usize| i.is_multiple_of(every) || *i == last && last % every > every / 2;
            (0..names.len())
                .filter(marked)
                .map(|i| (i * cell + cell / 2, names[i].clone()))
                .collect()
        };
        let scale = format!("translate({MARGIN} {MARGIN}) scale({cell})");
        html! {
            figure class="cells" data-cell=(cell) data-margin=(MARGIN) data-sides=(self.sides.0)
                data-for=(self.sides.1) {
                figcaption { (self.title) }
                svg viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height)
                    role="img" aria-label=(self.title) {
                    rect class="frame" x=(MARGIN) y=(MARGIN) width=(columns * cell)
                        height=(rows * cell) {}
                    g transform=(scale) {
                        @for (level, path) in paths.iter().enumerate() {
                            @if !path.is_empty() { path class={ "l" (level) } d=(path) {} }
                        }
                    }
                    @for (at, name) in ticks(&self.rows) {
                        text class="row" x=(MARGIN - 4) y=(MARGIN + at + 4) { (name) }
                    }
                    @for (at, name) in ticks(&self.columns) {
                        text transform={ "translate(" (MARGIN + at + 4) " " (MARGIN - 4)
                            ") rotate(-90)" } { (name) }
                    }
                }
                (data(&(&self.rows, &self.columns, texts)))
            }
        }
    }

    /// The least and the most of the colours' scale, and whether it is logarithmic.
    fn scale(&self) -> Scale {
        let (low, high) = self.bounds();
        match self.logarithmic && low * 10.0 <= high {
            true => Scale { low, high, logarithmic: true },
            false => Scale { low: 0.0, high, logarithmic: false },
        }
    }

    /// The colours from the least to the most.
    fn legend(&self) -> Markup {
        let Scale { low, high, logarithmic } = self.scale();
        let scale = if logarithmic { "logarithmic" } else { "linear" };
        html! {
            @if self.cells.is_empty() {
                p { "None." }
            } @else {
                p class="legend" {
                    ((self.text)(low)) " "
                    @for level in 0..LEVELS { i class={ "l" (level) } {} }
                    " " ((self.text)(high)) ", " (scale)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(n: usize, cells: &[((usize, usize), f64)], logarithmic: bool) -> Matrix<'static> {
        let names: Vec<String> = (0..n).map(|i| i.to_string()).collect();
        let (title, sides, text) = ("a", ("from", "to"), (|v| format!("{v}!")) as fn(f64) -> _);
        let (rows, columns) = (names.clone(), names);
        let cells = cells.iter().copied().collect();
        Matrix { title, sides, rows, columns, cells, text, logarithmic }
    }

    #[test]
    fn small_ones_are_text_and_large_ones_tell_when_pointed_at() {
        let cells = [((0, 1), 1.0), ((1, 0), 1000.0)];
        let small = square(2, &cells, true).draw().into_string();
        assert!(small.contains("<td class=\"n l0\">1!</td>"), "{small}");
        assert!(small.contains("<td class=\"n l9\">1000!</td>"), "{small}");
        let large = square(20, &cells, true).draw().into_string();
        assert!(large.contains("<path class=\"l9\" d=\"M0 1h1v1h-1z\">"), "{large}");
        assert!(large.contains("[1,0,\"1000!\"]"), "{large}");
    }

    #[test]
    fn alike_and_none_and_odd_figures_do_not_break_it() {
        let alike = square(2, &[((0, 0), 5.0), ((1, 1), 5.0)], true).draw().into_string();
        assert_eq!(alike.matches("class=\"n l9\"").count(), 2, "{alike}");
        for n in [0, 1, 18] {
            assert!(square(n, &[], false).draw().into_string().contains("None."));
        }
        let odd = [((0, 0), f64::NAN), ((1, 1), f64::INFINITY), ((0, 1), 0.0)];
        for logarithmic in [true, false] {
            square(2, &odd, logarithmic).draw();
        }
    }
}
