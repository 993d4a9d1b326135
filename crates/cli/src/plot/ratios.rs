//! Ratios of many things as dots on a logarithmic axis, a row for each kind of thing.

use plotters::prelude::*;

use super::{Area, COLOURS, Drawn};

/// A diagram of ratios.
#[derive(Clone, Debug)]
pub struct Ratios {
    /// Its heading.
    pub title: String,
    /// What stands left of 1, and what right of it.
    pub sides: (String, String),
    /// From top to bottom.
    pub rows: Vec<Row>,
}

/// A row of dots.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is of.
    pub name: String,
    /// Whether a line parts it from those above.
    pub begins: bool,
    /// Its dots.
    pub dots: Vec<Dot>,
}

/// A ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// Its value.
    pub ratio: f64,
    /// Whether it is one to be seen at once.
    pub marked: bool,
    /// Drawn as a ring.
    pub hollow: bool,
}

/// The axis goes from one by this to this; what is beyond stands at its end, as an arrow.
const MOST: f64 = 32.0;
/// Heights of the heading, a row and what is below.
const HEAD: u32 = 62;
const ROW: u32 = 19;
const FOOT: u32 = 22;
/// Widths of the names and of the margin on the right.
const NAMES: i32 = 150;
const MARGIN: i32 = 30;
const RADIUS: i32 = 4;

impl Ratios {
    /// How much room it takes, in pixels.
    pub fn height(&self) -> u32 {
        HEAD + FOOT + ROW * self.rows.len() as u32
    }

    /// Draws it.
    pub fn draw(&self, area: &Area<'_>) -> Drawn {
        let (width, _) = area.dim_in_pixel();
        let bottom = (HEAD + ROW * self.rows.len() as u32) as i32;
        let across = Across { left: NAMES, right: width as i32 - MARGIN };
        let text = |at: (i32, i32), words: &str, size: i32| {
            area.draw(&Text::new(words.to_string(), at, ("sans-serif", size)))
        };
        text((14, 10), &self.title, 20)?;
        let one = across.at(1.0);
        text((one - 8 - 7 * self.sides.0.len() as i32, 36), &self.sides.0, 14)?;
        text((one + 8, 36), &self.sides.1, 14)?;
        let mut power = 1.0 / MOST;
        while power <= MOST {
            let x = across.at(power);
            let line = if power == 1.0 { BLACK.stroke_width(2) } else { BLACK.mix(0.12).into() };
            area.draw(&PathElement::new(vec![(x, HEAD as i32 - 6), (x, bottom)], line))?;
            let name = if power < 1.0 { format!("1/{}", 1.0 / power) } else { power.to_string() };
            text((x - 4 * name.len() as i32, bottom + 4), &name, 13)?;
            power *= 2.0;
        }
        for (at, row) in self.rows.iter().enumerate() {
            let top = (HEAD + ROW * at as u32) as i32;
            if row.begins && at > 0 {
                let line = vec![(14, top), (across.right, top)];
                area.draw(&PathElement::new(line, BLACK.mix(0.3)))?;
            }
            text((14, top + 3), &row.name, 14)?;
            row.dots.iter().try_for_each(|dot| dot.draw(area, &across, top + ROW as i32 / 2))?;
        }
        Ok(())
    }
}

/// Where the axis is.
struct Across {
    left: i32,
    right: i32,
}

impl Across {
    fn at(&self, ratio: f64) -> i32 {
        let share = (ratio.clamp(1.0 / MOST, MOST).log2() / MOST.log2() + 1.0) / 2.0;
        self.left + (f64::from(self.right - self.left) * share).round() as i32
    }
}

impl Dot {
    fn draw(self, area: &Area<'_>, across: &Across, y: i32) -> Drawn {
        let colour = if self.marked { COLOURS[0] } else { COLOURS[1] }.mix(0.65);
        let style = if self.hollow { colour.stroke_width(2) } else { colour.filled() };
        let x = across.at(self.ratio);
        if (1.0 / MOST..=MOST).contains(&self.ratio) {
            area.draw(&Circle::new((x, y), RADIUS, style))?;
        } else {
            let way = if self.ratio > 1.0 { 2 * RADIUS } else { -2 * RADIUS };
            let arrow = vec![(x, y - RADIUS), (x + way, y), (x, y + RADIUS)];
            area.draw(&Polygon::new(arrow, style))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Picture, render};
    use super::*;

    #[test]
    fn each_ratio_is_a_dot_or_beyond_the_axis_an_arrow() {
        let dot = |ratio, marked| Dot { ratio, marked, hollow: false };
        let row =
            |name: &str, dots: &[Dot]| Row { name: name.into(), begins: true, dots: dots.to_vec() };
        let rows = vec![
            row("stream", &[dot(2000.0, true), dot(0.5, false)]),
            row("lat", &[dot(0.001, false), dot(1.0, false), dot(1.2, true)]),
        ];
        let sides = ("faster".into(), "slower".into());
        let ratios = Ratios { title: "two ranks".into(), sides, rows };
        let text = render(&[Picture::Ratios(ratios)]).unwrap();
        assert_eq!((text.matches("<circle").count(), text.matches("<polygon").count()), (3, 2));
        for word in ["stream", "lat", "two ranks", "1/32", "faster", "slower"] {
            assert!(text.contains(word), "{word}");
        }
        let across = Across { left: 0, right: 1000 };
        assert_eq!([1.0 / MOST, 1.0, MOST, 1e9].map(|r| across.at(r)), [0, 500, 1000, 1000]);
    }
}
