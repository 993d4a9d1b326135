//! How results, tables, progress and logs are written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Seek, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Says which `WEFT_*` variables mean nothing to Weft: most often they are misspelt.
pub fn warn_of_unknown_variables() {
    weft::env::tell_unknown(|odd| eprintln!("weft: {odd}"));
}

/// Writes one result as one line of JSON. A reader that has gone away is not an error.
pub fn json_line<T: Serialize>(value: &T) {
    if let Ok(mut line) = serde_json::to_vec(value) {
        line.push(b'\n');
        let _ = io::stdout().lock().write_all(&line);
    }
}

/// A table for people: columns as wide as their widest cell, numbers to the right.
#[derive(Default, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new<S: Into<String>>(headings: impl IntoIterator<Item = S>) -> Table {
        Table { rows: vec![headings.into_iter().map(Into::into).collect()] }
    }

    /// One more row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The headings, then the rows.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The table as text, a line per row.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| {
            self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, &width) in row.iter().zip(&widths) {
                let pad = " ".repeat(width - cell.chars().count());
                let number = cell.starts_with(|c: char| c.is_ascii_digit());
                let (left, right) = if number { (pad.as_str(), "") } else { ("", pad.as_str()) };
                line.push_str(&format!("{left}{cell}{right}  "));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Writes it to standard output.
    pub fn print(&self) {
        let _ = io::stdout().lock().write_all(self.text().as_bytes());
    }
}

/// Whether a progress bar makes sense: a person looks at standard error.
pub fn progress_wanted() -> bool {
    io::stderr().is_terminal()
}

/// A file that is opened before the work whose result goes there. What is in it stays until there
/// is something to replace it by; one that was not there before is taken away again where nothing
/// is written into it, or not all.
pub struct OutputFile {
    path: PathBuf,
    file: File,
    is_new: bool,
    written: bool,
}

impl OutputFile {
    /// Opens it.
    ///
    /// # Errors
    /// The path, and why it cannot be written.
    pub fn open(path: PathBuf) -> Result<OutputFile, (PathBuf, io::Error)> {
        let is_new = !path.exists();
        match OpenOptions::new().write(true).create(true).truncate(false).open(&path) {
            Ok(file) => Ok(OutputFile { path, file, is_new, written: false }),
            Err(cause) => Err((path, cause)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// What the kernel says; then nothing is in it, for half of a result is none.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        let written = self.replace(text);
        self.written = written.is_ok();
        if written.is_err() {
            let _ = self.file.set_len(0);
        }
        written
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        // What the disk has no room for is found here, at the latest.
        self.file.sync_all().or_else(|e| if e.raw_os_error() == Some(22) { Ok(()) } else { Err(e) })
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_new && !self.written {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_stand_to_the_right() {
        let mut table = Table::new(["what", "bytes"]);
        table.row(["lat", "8"]);
        table.row(["bandwidth", "1048576"]);
        assert_eq!(table.text(), "what       bytes\nlat              8\nbandwidth  1048576\n");
    }
}
