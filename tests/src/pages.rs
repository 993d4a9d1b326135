//! The pages that users read, and the code that is shown there.
//!
//! The build script of this crate has this file as well: it makes functions of what is in Rust.

use std::fs;
use std::path::{Path, PathBuf};

/// Code on a page: what stands between two fences.
#[derive(Clone, Debug)]
pub struct Block {
    /// Where it is, as `docs/c.md:31`.
    pub place: String,
    /// What the fence says of it: `rust`, `c`, `sh`, or nothing.
    pub language: String,
    /// The code.
    pub text: String,
}

/// The project's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The pages for users, from the project's root: the first one, and all of the book.
pub fn pages() -> Vec<String> {
    let mut found = vec!["README.md".to_string()];
    let mut folders = vec!["docs".to_string()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root().join(&folder)).expect("a folder of pages");
        for entry in entries.map(|entry| entry.expect("its entries")) {
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// What is shown on all pages.
pub fn blocks() -> Vec<Block> {
    let read = |page: &String| fs::read_to_string(root().join(page)).expect("a page");
    pages().iter().flat_map(|page| blocks_of(page, &read(page))).collect()
}

/// What is shown on a page.
///
/// # Panics
/// If a fence is not closed.
pub fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((n, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let (place, language) = (format!("{page}:{}", n + 1), language.trim().to_string());
        let mut text = String::new();
        loop {
            let (_, line) = lines.next().unwrap_or_else(|| panic!("{place}: it has no end"));
            if line.trim() == "```" {
                break;
            }
            text += line;
            text.push('\n');
        }
        found.push(Block { place, language, text });
    }
    found
}
