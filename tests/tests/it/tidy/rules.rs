//! Rules that look at one file at a time. Each gives what it finds as lines for people.

use super::source::{File, code_of, numbered};

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 70;
const COLUMNS: usize = 100;

/// Crates that may hold `unsafe` code: what it is made of, and boundaries to other languages.
const UNSAFE_CRATES: &[&str] = &[
    "crates/sys/",
    "crates/ring/",
    "crates/ofi/",
    "crates/mpi/",
    "crates/calls/",
    "crates/capi/",
    "crates/py/",
];

/// Lines above an `unsafe` within which its reason must stand.
const REASON_LINES: usize = 8;

fn finding(file: &File, line: usize, what: &str) -> String {
    format!("{}:{line}: {what}", file.path)
}

/// No file over 800 lines.
pub fn file_length(file: &File) -> Vec<String> {
    let lines = file.text.lines().count();
    let code = ["rs", "c", "h", "py", "sh"].iter().any(|e| file.has_extension(e));
    if !code || lines <= FILE_LINES {
        return Vec::new();
    }
    vec![finding(file, lines, &format!("{lines} lines; split the file ({FILE_LINES} at most)"))]
}

/// No line over 100 columns, in code and manifests; text for people wraps as its reader likes.
pub fn line_length(file: &File) -> Vec<String> {
    if !["rs", "c", "h", "py", "toml"].iter().any(|e| file.has_extension(e)) {
        return Vec::new();
    }
    let long = |line: &str| line.chars().count() > COLUMNS && !line.contains("https://");
    let found = file.lines().filter(|(_, line)| long(line));
    found.map(|(n, _)| finding(file, n, &format!("over {COLUMNS} columns"))).collect()
}

/// No function over 70 lines. Formatted source is taken for granted: a function ends at the brace
/// with its own indentation.
pub fn function_length(file: &File) -> Vec<String> {
    if !file.has_extension("rs") {
        return Vec::new();
    }
    let code = code_of(&file.text);
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate().filter(|(_, line)| begins_function(line)) {
        let indent = line.len() - line.trim_start().len();
        let ends = |line: &&str| {
            line.len() - line.trim_start().len() == indent
                && (line.trim_start().starts_with('}') || line.trim_end().ends_with(';'))
        };
        let one_line = line.trim_end().ends_with([';', '}']);
        let length = if one_line {
            1
        } else {
            lines[start + 1..].iter().position(ends).map_or(0, |n| n + 2)
        };
        if length > FUNCTION_LINES {
            let what = format!("a function of {length} lines; {FUNCTION_LINES} at most");
            found.push(finding(file, start + 1, &what));
        }
    }
    found
}

fn begins_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let qualifier = |w: &&str| {
        w.starts_with("pub")
            || ["const", "async", "unsafe", "extern", "crate)", "super)"].contains(w)
    };
    words.find(|w| !qualifier(w)) == Some("fn")
}

/// Nothing unfinished and no test switched off.
pub fn nothing_unfinished(file: &File) -> Vec<String> {
    // In pieces, so that the rule does not find itself.
    let stand_ins = ["todo", "unimplemented"].map(|name| format!("{name}!("));
    let notes = [concat!("FIX", "ME"), concat!("XX", "X")];
    let code = if file.has_extension("rs") { code_of(&file.text) } else { String::new() };
    let unfinished = |line: &str| {
        stand_ins.iter().any(|w| line.contains(w.as_str()))
            || line.contains(concat!("#[", "ignore"))
            || line.contains(concat!("assert!(", "true)"))
    };
    let mut found: Vec<String> = numbered(&code)
        .filter(|(_, line)| unfinished(line))
        .map(|(n, _)| finding(file, n, "unfinished code or a test that is switched off"))
        .collect();
    let noted = file.lines().filter(|(_, line)| notes.iter().any(|note| line.contains(note)));
    found.extend(noted.map(|(n, _)| finding(file, n, "a note to do something later: do it")));
    found
}

/// Examples on pages are run, not only compiled, or not even that.
pub fn examples_run(file: &File) -> Vec<String> {
    let fence = |line: &str| {
        let line = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        line.starts_with("```") && ["no_run", "ignore"].iter().any(|word| line.contains(word))
    };
    let pages = file.has_extension("rs") || file.has_extension("md");
    let those = file.lines().filter(|(_, line)| pages && fence(line));
    those.map(|(n, _)| finding(file, n, "an example that is not run")).collect()
}

/// `unsafe` only in the crates for it, and never without its reason.
pub fn unsafe_code(file: &File) -> Vec<String> {
    if !file.has_extension("rs") {
        return Vec::new();
    }
    let allowed = UNSAFE_CRATES.iter().any(|prefix| file.path.starts_with(prefix));
    let text: Vec<&str> = file.text.lines().collect();
    let code = code_of(&file.text);
    let mut found = Vec::new();
    for (n, line) in numbered(&code) {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        if !words.contains(&"unsafe") {
            continue;
        }
        if !allowed {
            let what = format!("`unsafe` belongs into one of {}", UNSAFE_CRATES.join(", "));
            found.push(finding(file, n, &what));
        }
        let needs_reason = line.contains("unsafe {") || line.contains("unsafe impl");
        let above = &text[n.saturating_sub(REASON_LINES + 1)..n];
        if needs_reason && !above.iter().any(|line| line.contains("SAFETY:")) {
            found.push(finding(file, n, "`unsafe` without a `// SAFETY:` line above it"));
        }
    }
    found
}

/// A crate begins with a page that explains it, and forbids `unsafe` unless it is there for that.
pub fn crate_page(file: &File) -> Vec<String> {
    let root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
    if !root {
        return Vec::new();
    }
    let mut found = Vec::new();
    let page: Vec<&str> = file.text.lines().take_while(|l| l.starts_with("//!")).collect();
    let words: usize = page.iter().map(|line| line.split_whitespace().count() - 1).sum();
    if words < 8 {
        found.push(finding(file, 1, "a crate begins with a `//!` page that explains it"));
    }
    let allowed = UNSAFE_CRATES.iter().any(|prefix| file.path.starts_with(prefix));
    if !allowed && !file.text.contains("#![forbid(unsafe_code)]") {
        found.push(finding(file, 1, "`#![forbid(unsafe_code)]` is missing"));
    }
    found
}

/// Nothing of the machine it was written on, and no package registry's address.
pub fn no_place_names(file: &File) -> Vec<String> {
    // In pieces, so that the rule does not find itself.
    let paths = ["work", "root", "home"].map(|folder| format!("/{folder}/"));
    let hosts = ["crates.", "pypi.", "pythonhosted.", "npmjs."]
        .map(|name| name.to_string() + if name == "crates." { "io" } else { "org" });
    let path_here = |line: &str| {
        paths.iter().any(|p| line.match_indices(p.as_str()).any(|(at, _)| begins_path(line, at)))
    };
    let host_here = |line: &str| hosts.iter().any(|h| line.contains(h.as_str()));
    let found = file.lines().filter_map(|(n, line)| match line {
        line if path_here(line) => Some(finding(file, n, "a path of one machine")),
        line if host_here(line) => Some(finding(file, n, "a package registry's address")),
        _ => None,
    });
    found.collect()
}

/// Whether an absolute path begins there, rather than a later part of one.
fn begins_path(line: &str, at: usize) -> bool {
    let before = line[..at].chars().next_back();
    !before.is_some_and(|c| c.is_alphanumeric() || "._-}$~*".contains(c))
}
