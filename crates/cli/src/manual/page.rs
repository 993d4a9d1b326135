//! A page of the docs as a manual page.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use roff::{Inline, Roff, bold, italic, roman};

/// A page.
pub struct Page {
    /// What it is called.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    /// What it says, in Markdown.
    pub text: &'static str,
}

impl Page {
    /// The page for section 7.
    pub fn roff(&self) -> String {
        let mut writer = Writer { begun: true, ..Writer::default() };
        let source = super::source();
        writer.roff.control("TH", [self.name, "7", super::date(), source.as_str(), "Weft"]);
        writer.roff.control("SH", ["NAME"]);
        writer.roff.text([roman(format!("{} - {}", self.name, self.about))]);
        writer.roff.control("SH", ["DESCRIPTION"]);
        for event in Parser::new_ext(self.text, Options::ENABLE_TABLES) {
            writer.event(event);
        }
        writer.roff.control("SH", ["SEE ALSO"]);
        writer.roff.text([roman("weft(1)")]);
        writer.roff.render()
    }
}

/// What has been written, and where in the page it stands.
#[derive(Default)]
struct Writer {
    roff: Roff,
    /// The piece of text that is being read.
    inlines: Vec<Inline>,
    /// How it is to look: the innermost counts.
    looks: Vec<fn(String) -> Inline>,
    /// Lists around it: the number of the next item, if items have numbers.
    lists: Vec<Option<u64>>,
    /// Whether something has just begun, so that its first paragraph needs no sign.
    begun: bool,
    /// Whether it is code, whose lines stay as they are.
    code: bool,
    headings: Vec<Vec<Inline>>,
    cells: Vec<Vec<Inline>>,
}

impl Writer {
    fn event(&mut self, event: Event) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code => {
                for line in text.lines() {
                    self.roff.text([roman(line)]);
                }
            }
            Event::Text(text) => {
                let look = self.looks.last().copied().unwrap_or(roman);
                self.inlines.push(look(text.into_string()));
            }
            Event::Code(text) => self.inlines.push(bold(text.into_string())),
            Event::SoftBreak | Event::HardBreak => self.inlines.push(roman(" ")),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag) {
        match tag {
            Tag::Paragraph if !std::mem::take(&mut self.begun) => {
                self.roff.control("PP", []);
            }
            Tag::CodeBlock(_) => {
                self.flush();
                if !std::mem::take(&mut self.begun) {
                    self.roff.control("PP", []);
                }
                self.roff.control("RS", ["4"]);
                self.roff.control("EX", []);
                self.code = true;
            }
            Tag::List(first) => {
                self.flush();
                if !self.lists.is_empty() {
                    self.roff.control("RS", []);
                }
                self.lists.push(first);
                self.begun = false;
            }
            Tag::Item => self.item(),
            Tag::Emphasis => self.looks.push(italic),
            Tag::Strong => self.looks.push(bold),
            Tag::TableHead | Tag::TableRow => self.cells.clear(),
            _ => {}
        }
    }

    fn item(&mut self) {
        match self.lists.last_mut() {
            Some(Some(number)) => {
                let sign = format!("{number}.");
                *number += 1;
                self.roff.control("IP", [sign.as_str(), "4"]);
            }
            _ => {
                self.roff.control("IP", ["\\(bu", "2"]);
            }
        }
        self.begun = true;
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::Item => self.flush(),
            TagEnd::Heading(level) => self.heading(level),
            TagEnd::CodeBlock => {
                self.code = false;
                self.roff.control("EE", []);
                self.roff.control("RE", []);
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.begun = false;
                if !self.lists.is_empty() {
                    self.roff.control("RE", []);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong => {
                self.looks.pop();
            }
            TagEnd::TableCell => self.cells.push(std::mem::take(&mut self.inlines)),
            TagEnd::TableHead => self.headings = std::mem::take(&mut self.cells),
            TagEnd::TableRow => self.row(),
            _ => {}
        }
    }

    fn heading(&mut self, level: HeadingLevel) {
        let text = plain(&std::mem::take(&mut self.inlines));
        match level {
            // The name stands for it.
            HeadingLevel::H1 => return,
            HeadingLevel::H2 => self.roff.control("SH", [text.to_uppercase().as_str()]),
            _ => self.roff.control("SS", [text.as_str()]),
        };
        self.begun = true;
    }

    /// A table is too wide for a terminal: a row is its first cell, with what the others say below.
    fn row(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        let Some((first, others)) = cells.split_first() else { return };
        self.begun = false;
        self.roff.control("TP", []);
        self.roff.text(first.iter().map(|one| bold(inner(one))).collect::<Vec<_>>());
        let many = others.len() > 1;
        let headings = self.headings.iter().skip(1).map(|heading| plain(heading));
        let filled = others.iter().zip(headings).filter(|(cell, _)| !cell.is_empty());
        for (n, (cell, heading)) in filled.enumerate() {
            if n > 0 {
                self.roff.control("br", []);
            }
            let mut line = cell.clone();
            if many && !heading.is_empty() {
                line.insert(0, italic(format!("{heading}: ")));
            }
            self.roff.text(line);
        }
    }

    /// Writes the piece of text that has been read.
    fn flush(&mut self) {
        if !self.inlines.is_empty() {
            self.roff.text(std::mem::take(&mut self.inlines));
        }
    }
}

fn inner(inline: &Inline) -> &str {
    match inline {
        Inline::Roman(text) | Inline::Bold(text) | Inline::Italic(text) => text,
        _ => " ",
    }
}

fn plain(inlines: &[Inline]) -> String {
    inlines.iter().map(inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pages_are_made_of_has_its_form() {
        let text = "# Title\n\nA *word* and `code`,\n[linked](a.md).\n\n## Part two\n\n\
                    - one\n- two\n  more\n\n1. first\n\nB\n\n\
                    ```sh\n.weft 'x' # y\n\n  a\\b\n```\n\n\
                    | a | b | c |\n|---|---|---|\n| `K` | 1 | |\n| L | 2 | *x* |\n\n\
                    | p | q |\n|-|-|\n| r | s |\n";
        let page = Page { name: "weft-x", about: "about x", text };
        let said = page.roff();
        for wanted in [
            "\\fIword\\fR and \\fBcode\\fR, linked.\n",
            ".SH \"PART TWO\"\n",
            ".IP \\(bu 2\none\n.IP \\(bu 2\ntwo more\n",
            ".IP 1. 4\nfirst\n.PP\nB\n",
            "a\\\\b\n.EE\n",
            ".TP\n\\fBK\\fR\n\\fIb: \\fR1\n.TP\n\\fBL\\fR\n",
            "\n\\fIb: \\fR2\n.br\n\\fIc: \\fR\\fIx\\fR\n",
            ".TP\n\\fBr\\fR\ns\n",
        ] {
            assert!(said.contains(wanted), "{wanted:?} is missing in\n{said}");
        }
        assert!(!said.contains("Title"), "{said}");
        assert!(!said.lines().any(|line| line.starts_with(".weft")), "{said}");
    }
}
