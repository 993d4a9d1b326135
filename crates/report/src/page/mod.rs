//! The frame of a page: one file, with its style and script in it, that loads nothing. Without the
//! script all figures are there; it adds what a pointer shows and the order of tables.
//!
//! Text is escaped by [`maud`]; what is drawn already (SVG) is taken as it is.

mod bars;
mod matrix;

use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(crate) use bars::{bar, parts};
pub(crate) use matrix::Matrix;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Nothing is loaded from anywhere, whatever is in a name.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; \
     script-src 'unsafe-inline'";

/// A page in the making.
pub struct Page {
    title: String,
    sections: Vec<(String, Markup)>,
}

impl Page {
    /// A page with this title.
    pub fn new(title: impl Into<String>) -> Page {
        Page { title: title.into(), sections: Vec::new() }
    }

    pub(crate) fn section(&mut self, title: &str, body: Markup) {
        self.sections.push((title.into(), body));
    }

    /// A section of names and what they are.
    pub fn facts(&mut self, title: &str, facts: &[(String, String)]) {
        self.section(title, list(facts));
    }

    /// A section of a table. Columns whose cells begin with a digit are numbers.
    pub fn table(&mut self, title: &str, note: &str, headings: &[String], rows: &[Vec<String>]) {
        let number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let class = |text: &str| if number(text) { "n" } else { "" };
        // A heading stands where the cells below it do.
        let below = |column: usize| rows.first().and_then(|row| row.get(column));
        let headings = headings.iter().enumerate();
        let headings = headings.map(|(at, text)| (below(at).map_or("", |cell| class(cell)), text));
        let body = html! {
            @if !note.is_empty() { p { (note) } }
            div class="wide" {
                table {
                    thead { tr { @for (class, text) in headings { th class=(class) { (text) } } } }
                    tbody {
                        @for row in rows {
                            tr { @for cell in row { td class=(class(cell)) { (cell) } } }
                        }
                    }
                }
            }
        };
        self.section(title, body);
    }

    /// A section of text as a terminal shows it.
    pub fn lines(&mut self, title: &str, text: &str) {
        self.section(title, html! { pre { (text) } });
    }

    /// A section with a drawing, which must be SVG of the caller's own making.
    pub fn svg(&mut self, title: &str, svg: &str) {
        self.section(title, html! { div class="wide paper" { (PreEscaped(svg)) } });
    }

    /// The whole file.
    pub fn html(self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    // Else browsers ask for one.
                    link rel="icon" href="data:,";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    h1 { (self.title) }
                    main {
                        @for (title, body) in &self.sections {
                            section {
                                @if !title.is_empty() { h2 { (title) } }
                                (body)
                            }
                        }
                    }
                    div id="hint" hidden {}
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }
}

/// Names and what they are.
pub(crate) fn list(facts: &[(String, String)]) -> Markup {
    html! {
        dl { @for (name, value) in facts { dt { (name) } dd { (value) } } }
    }
}

/// Data for the script: JSON in which no tag can end or begin.
pub(crate) fn data<T: serde::Serialize>(value: &T) -> Markup {
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
    let text = text.replace('<', "\\u003c");
    html! { script type="application/json" { (PreEscaped(text)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_is_text() {
        let bad = "<script>alert(1)</script>";
        let mut page = Page::new(bad);
        page.facts(bad, &[(bad.into(), bad.into())]);
        page.table(bad, bad, &[bad.into()], &[vec![bad.into(), "\" onload=x".into()]]);
        page.lines(bad, bad);
        page.section("data", data(&[bad]));
        let text = page.html();
        assert!(!text.contains("<script>alert"), "{text}");
        assert!(text.contains("&lt;script&gt;alert(1)"), "{text}");
        assert!(text.contains("\\u003cscript>alert"), "{text}");
    }

    #[test]
    fn a_page_loads_nothing() {
        let text = Page::new("a").html();
        for word in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!text.contains(word), "{word}");
        }
    }

    /// Okabe and Ito's colours, and cividis from light to dark; in the dark, the other way round.
    #[test]
    fn colours_stay_apart_for_the_colour_blind_and_are_printed() {
        let text = Page::new("a").html();
        for colour in ["--work: #0072b2", "--call: #56b4e9", "--wait: #e69f00", "--bad: #d55e00"] {
            assert!(text.contains(colour), "{colour}");
        }
        let levels = |part: &str| -> Vec<u32> {
            let level = |n: usize| {
                let colour = part.split(&format!("--l{n}: #")).nth(1).expect("a level");
                let number = |at: usize| u32::from_str_radix(&colour[at..at + 2], 16).unwrap();
                2126 * number(0) + 7152 * number(2) + 722 * number(4)
            };
            (0..10).map(level).collect()
        };
        let (light, dark) = text.split_once("@media (prefers-color-scheme: dark)").expect("both");
        assert!(levels(light).is_sorted_by(|a, b| a > b), "lighter means less on white paper");
        assert!(levels(dark).is_sorted_by(|a, b| a < b), "darker means less on black paper");
        let print = text.split("@media print {").nth(1).expect("rules for print");
        for rule in ["print-color-adjust: exact", ".wide { overflow: visible; }", "#hint"] {
            assert!(print.contains(rule), "{rule}");
        }
    }
}
