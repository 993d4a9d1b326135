//! What a comparison comes to, for people: words and tables, for a terminal and for a page.

use std::io::{self, Write};

use crate::output::Table;

/// Words and tables in their order.
#[derive(Default)]
pub struct Shown {
    parts: Vec<Part>,
}

/// One of them.
pub enum Part {
    /// A paragraph.
    Words(String),
    /// A table and what it is called, which may be nothing.
    Table {
        /// Its heading.
        title: String,
        /// Its rows.
        table: Table,
    },
}

impl Shown {
    /// Adds a paragraph.
    pub fn words(&mut self, words: impl Into<String>) {
        self.parts.push(Part::Words(words.into()));
    }

    /// Adds a table.
    pub fn table(&mut self, title: impl Into<String>, table: Table) {
        self.parts.push(Part::Table { title: title.into(), table });
    }

    /// All there is.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Words(words) => text.push_str(&format!("{words}\n")),
                Part::Table { title, table } if title.is_empty() => {
                    text.push_str(&format!("\n{}", table.text()));
                }
                Part::Table { title, table } => {
                    text.push_str(&format!("\n{title}\n{}", table.text()));
                }
            }
        }
        text
    }

    /// Writes it to standard output.
    pub fn print(&self) {
        let _ = io::stdout().lock().write_all(self.text().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_stand_apart_under_their_headings() {
        let mut shown = Shown::default();
        shown.words("before");
        shown.table("title", Table::new(["a"]));
        shown.table("", Table::new(["b"]));
        assert_eq!(shown.text(), "before\n\ntitle\na\n\nb\n");
    }
}
