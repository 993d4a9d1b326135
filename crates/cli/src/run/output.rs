//! Writing what ranks write: as it comes, or line by line with the rank before each.

use std::collections::HashMap;
use std::io::{self, Write};

/// Most bytes of a line that are kept until its end comes.
const LINE_MAX: usize = 64 * 1024;

/// Writes the output of ranks.
#[derive(Default, Debug)]
pub struct Printer {
    /// By rank, what is put before its lines; none: output is passed on as it comes.
    labels: Option<Vec<String>>,
    /// Begun lines, by rank and stream.
    begun: HashMap<(u32, bool), Vec<u8>>,
}

impl Printer {
    /// A printer that puts `labels` (by rank) before lines.
    pub fn new(labels: Option<Vec<String>>) -> Printer {
        Printer { labels, begun: HashMap::new() }
    }

    /// Whether it needs the ranks' output: without labels they can write for themselves.
    pub fn wants_all(&self) -> bool {
        self.labels.is_some()
    }

    /// Writes what a rank wrote to standard output, or with `error` to standard error.
    pub fn write(&mut self, rank: u32, error: bool, bytes: &[u8]) {
        let Some(labels) = &self.labels else {
            return out(error, bytes);
        };
        let label = labels.get(rank as usize).map_or("", |l| l.as_str());
        let begun = self.begun.entry((rank, error)).or_default();
        begun.extend_from_slice(bytes);
        let mut text = Vec::new();
        while let Some(at) = begun.iter().position(|&b| b == b'\n') {
            text.extend_from_slice(label.as_bytes());
            text.extend(begun.drain(..=at));
        }
        if begun.len() > LINE_MAX || (bytes.is_empty() && !begun.is_empty()) {
            text.extend_from_slice(label.as_bytes());
            text.append(begun);
            text.push(b'\n');
        }
        out(error, &text);
    }

    /// Writes lines that were begun and not ended.
    pub fn finish(&mut self) {
        let left: Vec<(u32, bool)> = self.begun.keys().copied().collect();
        for (rank, error) in left {
            self.write(rank, error, b"");
        }
    }
}

fn out(error: bool, bytes: &[u8]) {
    // A reader that has gone away is no reason to end the job.
    let _ = if error {
        io::stderr().write_all(bytes)
    } else {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    };
}
