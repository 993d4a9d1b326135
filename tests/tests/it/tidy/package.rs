//! Whether a crate, as it would be published, has the files that its code takes in.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::book::plain;
use super::source::{File, root};

/// What is between the parentheses of each `include_str!` and the like, with its line.
fn included(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for name in ["include_str!(", "include_bytes!(", "include!("] {
        for (at, _) in source.match_indices(name) {
            let begun = source[..at].lines().last().unwrap_or("").trim_start();
            if begun.starts_with("//") || source[..at].ends_with('"') {
                continue;
            }
            let rest = &source[at + name.len()..];
            let mut depth = 1;
            let end = rest.find(|c| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth == 0
            });
            let line = source[..at].matches('\n').count() + 1;
            found.push((line, rest[..end.unwrap_or(rest.len())].to_string()));
        }
    }
    found
}

/// The first and the last literal of such a text: the whole path, or how it begins and ends where a
/// macro puts it together.
fn literals(text: &str) -> Option<(&str, Option<&str>)> {
    let mut all = text.split('"').skip(1).step_by(2);
    let first = all.next()?;
    Some((first, all.last()))
}

/// Every file that a crate's code takes in is among `listed`, the crate's files when it is
/// published. `crate_folder` ends in a slash.
pub fn included_files(
    files: &[File],
    crate_folder: &str,
    listed: &BTreeSet<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.has_extension("rs")) {
        let Some(place) = file.path.strip_prefix(crate_folder) else { continue };
        let folder = Path::new(place).parent().unwrap_or(Path::new(""));
        for (n, text) in included(&file.text) {
            let Some((first, last)) = literals(&text) else {
                found.push(format!("{}:{n}: the path {text} is not known here", file.path));
                continue;
            };
            // What leaves the crate is left as it is: `plain` would lose the way out.
            let path = plain(&folder.join(first)).to_string_lossy().into_owned();
            let depth = folder.components().count();
            let out = first.split('/').take_while(|part| *part == "..").count() > depth;
            let there = match last {
                None => listed.contains(&path),
                Some(end) => listed.iter().any(|p| p.starts_with(&path) && p.ends_with(end)),
            };
            if out || !there {
                found.push(format!("{}:{n}: {first} is not in the crate's package", file.path));
            }
        }
    }
    found
}

/// The crates whose code takes files in: their folders, each with a slash behind it.
pub fn that_include(files: &[File]) -> BTreeSet<String> {
    let sources = files.iter().filter(|f| f.has_extension("rs") && !included(&f.text).is_empty());
    let folders = sources.filter_map(|file| file.path.strip_prefix("crates/")?.split('/').next());
    folders.map(|name| format!("crates/{name}/")).collect()
}

/// What `cargo package` would put into the package of this crate. Files that are not committed yet
/// count as well.
pub fn list(crate_folder: &str) -> BTreeSet<String> {
    let manifest = root().join(crate_folder).join("Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--list", "--allow-dirty", "--offline", "--quiet", "--manifest-path"]);
    let done = cargo.arg(manifest).output().expect("cargo starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "cargo package --list for {crate_folder}: {said}");
    String::from_utf8_lossy(&done.stdout).lines().map(str::to_string).collect()
}
