//! Rules that look at the project as a whole.

use std::collections::BTreeSet;
use std::path::Path;

use super::source::{File, code_of};

/// Which crates of Weft a crate may build on: the arrows of ARCHITECTURE.md. Crates that are not
/// listed (the command, tests, examples, fuzz harnesses) stand above all others.
const ARROWS: &[(&str, &[&str])] = &[
    ("weft-wire", &[]),
    ("weft-ring", &[]),
    ("weft-sys", &[]),
    ("weft-proto", &["weft-wire"]),
    ("weft-link", &["weft-wire", "weft-sys"]),
    ("weft-device", &["weft-wire", "weft-proto", "weft-ring", "weft-sys", "weft-link"]),
    ("weft-collective", &[]),
    ("weft-report", &[]),
    (
        "weft",
        &[
            "weft-wire",
            "weft-proto",
            "weft-ring",
            "weft-sys",
            "weft-link",
            "weft-device",
            "weft-collective",
        ],
    ),
    ("weft-sim", &["weft-wire", "weft-proto", "weft-collective"]),
    ("weft-capi", &["weft-wire", "weft-sys", "weft"]),
    ("weft-mpi", &[]),
    ("weft-calls", &["weft-ring", "weft-sys", "weft-device"]),
    ("weft-py", &["weft-wire", "weft-sys", "weft"]),
    ("weft-ofi", &["weft-wire", "weft-proto", "weft-sys", "weft"]),
];

fn manifests(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|f| f.path.ends_with("/Cargo.toml"))
}

/// A crate's name, from its manifest.
fn name_of(manifest: &str) -> &str {
    let line = manifest.lines().find(|line| line.starts_with("name = "));
    line.and_then(|line| line.split('"').nth(1)).unwrap_or("")
}

/// The crates of Weft among what a manifest's crate is built on; tests may use more.
fn builds_on(manifest: &str) -> Vec<&str> {
    let mut table = "";
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']']);
        }
        let dependencies = table == "dependencies" || table.ends_with(".dependencies");
        let name = line.split(['.', ' ', '=']).next().unwrap_or("");
        if dependencies && (name == "weft" || name.starts_with("weft-")) {
            found.push(name);
        }
    }
    found
}

/// Dependencies go one way only.
pub fn arrows(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in manifests(files) {
        let name = name_of(&file.text);
        let Some((_, allowed)) = ARROWS.iter().find(|(crate_name, _)| *crate_name == name) else {
            continue;
        };
        for other in builds_on(&file.text).into_iter().filter(|other| !allowed.contains(other)) {
            found.push(format!("{}: {name} must not build on {other}", file.path));
        }
    }
    found
}

/// Each manifest has the workspace's licence and lints, and those of crates that may be published
/// also what a registry shows of them.
pub fn licences(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in manifests(files) {
        if !file.text.contains("\nlicense.workspace = true") {
            found.push(format!("{}: `license.workspace = true` is missing", file.path));
        }
        if !file.text.contains("[lints]\nworkspace = true") {
            found.push(format!("{}: `[lints] workspace = true` is missing", file.path));
        }
        let published = !file.text.contains("\npublish = false");
        if published && !file.text.contains("\ndescription = \"") {
            found.push(format!("{}: `description` is missing", file.path));
        }
        for key in ["readme", "keywords", "categories"].iter().filter(|_| published) {
            if !file.text.contains(&format!("\n{key}.workspace = true")) {
                found.push(format!("{}: `{key}.workspace = true` is missing", file.path));
            }
        }
    }
    found
}

/// Names of `WEFT_*` variables within a text, whole words only.
fn variables(text: &str) -> BTreeSet<String> {
    let of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.split(|c: char| !(of_name(c) || c.is_ascii_lowercase()))
        .filter(|word| word.len() > 5 && word.starts_with("WEFT_") && word.chars().all(of_name))
        .filter(|word| !word.ends_with('_'))
        .map(str::to_string)
        .collect()
}

/// Every variable that code or a script reads is known to the library, and the page for users tells
/// exactly of those that are known. Constants of that form in Rust are no variables.
pub fn environment(files: &[File], known: &[&str], page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let sources = || files.iter().filter(|f| f.has_extension("rs") && !is_test(&f.path));
    let constants: BTreeSet<String> =
        sources().flat_map(|file| variables(&code_of(&file.text))).collect();
    for file in sources() {
        let shown = file.text.split("#[cfg(test)]").next().unwrap_or("");
        for name in variables(shown) {
            if !known.contains(&name.as_str()) && !constants.contains(&name) {
                found.push(format!("{}: {name} is not in weft::env::KNOWN", file.path));
            }
        }
    }
    let told = files.iter().find(|f| f.path == page).map(|f| variables(&f.text));
    let told = told.unwrap_or_default();
    let untold = known.iter().filter(|name| !told.contains(**name));
    found.extend(untold.map(|name| format!("{page}: {name} is missing")));
    let unknown = told.iter().filter(|name| !known.contains(&name.as_str()));
    found.extend(unknown.map(|name| format!("{page}: there is no variable {name}")));
    found
}

/// Tests use made-up names.
fn is_test(path: &str) -> bool {
    path.contains("tests/") || path.ends_with("tests.rs")
}

/// Every relative link in a page leads to something. `exists` is asked with a path from the root.
pub fn links(files: &[File], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.has_extension("md")) {
        let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        for (n, line) in file.lines() {
            for target in targets(line) {
                let path = target.split('#').next().unwrap_or("");
                if !path.is_empty() && !path.contains("://") && !exists(&folder.join(path)) {
                    found.push(format!("{}:{n}: {target} is not there", file.path));
                }
            }
        }
    }
    found
}

/// What the links in a line lead to, also those that only say where a name leads (`[a]: b.md`), but
/// for those to items of Rust, which rustdoc checks.
pub fn targets(line: &str) -> impl Iterator<Item = &str> {
    let named = line.starts_with('[').then(|| line.split_once("]: ")).flatten();
    let within = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let named = named.map(|(_, target)| target.trim()).filter(|target| !target.contains("::"));
    within.map(|(target, _)| target).chain(named)
}

/// Paths in backticks on a page, like `crates/sys/src/ns.rs`, are there. Names with a placeholder
/// or a pattern in them are not looked for.
pub fn named_paths(files: &[File], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    const ROOMS: &[&str] = &["crates/", "tests/", "docs/", "scripts/", "fuzz/", "examples/"];
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.has_extension("md")) {
        for (n, line) in file.lines() {
            for word in line.split('`').skip(1).step_by(2) {
                let plain = !word.contains(|c: char| " *<>{}$".contains(c));
                let path = ROOMS.iter().any(|room| word.starts_with(room));
                if plain && path && !exists(Path::new(word)) {
                    found.push(format!("{}:{n}: {word} is not there", file.path));
                }
            }
        }
    }
    found
}

/// Calls of endpoints and of what belongs to them that the boundaries' page names, and that are on
/// the pages for programs nevertheless.
pub fn boundary_calls(files: &[File], page: &str) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == page) else { return vec![page.into()] };
    let names = page.text.lines().filter(|line| line.starts_with("//!")).flat_map(|line| {
        let words = line.split(|c: char| !c.is_alphanumeric() && !"_:".contains(c));
        words.filter_map(|word| word.split_once("::")).map(|(of, name)| (of.to_string(), name))
    });
    let names: BTreeSet<(String, &str)> =
        names.filter(|(of, _)| ["Endpoint", "Joined", "Request"].contains(&&**of)).collect();
    let mut shown = BTreeSet::new();
    for file in files.iter().filter(|file| file.path.starts_with("crates/weft/src/")) {
        let (mut of, mut is_hidden) = (String::new(), false);
        for line in file.text.lines() {
            if let Some(head) = line.strip_prefix("impl") {
                let name = head.trim_start_matches(|c| c != ' ').trim();
                of = name.chars().take_while(|c| c.is_alphanumeric()).collect();
            } else if let Some(head) = line.strip_prefix("    pub fn ") {
                let name: &str = head.split(['(', '<']).next().unwrap_or("");
                shown.extend((!is_hidden).then(|| (of.clone(), name)));
            }
            is_hidden = line.contains("#[doc(hidden)]") || is_hidden && line.contains("#[");
        }
    }
    let found = names.into_iter().filter(|named| shown.contains(named));
    found.map(|(of, name)| format!("{of}::{name} is for boundaries, and not hidden")).collect()
}
