//! Rules for pages: the book has each page of the docs once, links lead to what is there, and
//! commands can be typed.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::project::targets;
use super::source::{File, numbered};

/// The list of the book's pages.
const SUMMARY: &str = "docs/SUMMARY.md";

fn pages(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|f| f.has_extension("md"))
}

/// A path without `..` in it.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain
}

/// Where a link on this page leads, if it is one within the project: a path and an anchor.
fn aim(file: &File, target: &str) -> Option<(String, Option<String>)> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(p, a)| (p, Some(a)));
    if path.contains("://") {
        return None;
    }
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let path = if path.is_empty() { file.path.clone().into() } else { plain(&folder.join(path)) };
    Some((path.to_string_lossy().into_owned(), anchor.map(str::to_string)))
}

/// The list has every page of the docs, once, and no page of the docs leads out of them: such a
/// link would lead nowhere in the book.
pub fn book(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    let docs = || pages(files).filter(|f| f.path.starts_with("docs/") && f.path != SUMMARY);
    let Some(summary) = files.iter().find(|f| f.path == SUMMARY) else {
        return vec![format!("{SUMMARY} is not there")];
    };
    let listed: Vec<String> = summary
        .lines()
        .flat_map(|(_, line)| targets(line).filter_map(|target| Some(aim(summary, target)?.0)))
        .collect();
    for page in docs() {
        let times = listed.iter().filter(|path| **path == page.path).count();
        if times != 1 {
            found.push(format!("{SUMMARY} has {} {times} times", page.path));
        }
        for (n, line) in page.lines() {
            let out = targets(line).filter_map(|target| aim(page, target));
            for (path, _) in out.filter(|(path, _)| !path.starts_with("docs/")) {
                found.push(format!("{}:{n}: {path} is no page of the book", page.path));
            }
        }
    }
    found
}

/// The lines of a page that are no code.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut code = false;
    let outside = |(_, line): &(usize, &str)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    };
    numbered(text).filter(outside).collect()
}

/// What a heading is linked to by.
fn anchor(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || " -_".contains(c);
    let text: String = heading.trim().to_lowercase().chars().filter(|&c| kept(c)).collect();
    text.replace(' ', "-")
}

/// Every anchor in a link to a page is a heading there.
pub fn anchors(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in pages(files) {
        for (n, line) in prose(&file.text) {
            let aims = targets(line).filter_map(|target| aim(file, target));
            for (path, wanted) in aims.filter_map(|(path, anchor)| Some((path, anchor?))) {
                let page = pages(files).find(|page| page.path == path);
                let headings = page.map(|page| prose(&page.text)).unwrap_or_default();
                let headings = headings.into_iter().filter(|(_, line)| line.starts_with('#'));
                let mut names = headings.map(|(_, line)| anchor(line.trim_start_matches('#')));
                if !names.any(|name| name == wanted) {
                    found.push(format!("{}:{n}: no heading #{wanted} in {path}", file.path));
                }
            }
        }
    }
    found
}

/// The commands in a page's blocks of code, each with its line, without `sudo` and variables before
/// them.
fn typed(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let outside: BTreeSet<usize> = prose(text).iter().map(|(n, _)| *n).collect();
    let mut lines = numbered(text).filter(|(n, _)| !outside.contains(n));
    while let Some((n, line)) = lines.next() {
        let mut whole = line.trim().to_string();
        while whole.ends_with('\\') {
            whole.pop();
            whole += lines.next().map_or("", |(_, more)| more.trim());
        }
        let words = shlex::split(&whole).unwrap_or_default();
        let names_variable = |word: &str| {
            let (name, _) = word.split_once('=').unwrap_or(("", ""));
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        };
        let ends = ["|", "&&", "||", "&", ">", ">>", "2>", "<", ";"];
        for command in words.split(|word| ends.contains(&word.as_str())) {
            let first = command.iter().position(|word| word != "sudo" && !names_variable(word));
            found.extend(first.map(|first| (n, command[first..].to_vec())));
        }
    }
    found
}

/// Of these the ones that begin with `weft`, also as what another `weft` starts.
fn commands(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for (n, words) in typed(text).into_iter().filter(|(_, words)| words[0] == "weft") {
        let starts = (0..words.len())
            .filter(|&at| words[at] == "weft" && (at == 0 || words[at - 1] == "--"));
        found.extend(starts.map(|at| (n, words[at..].to_vec())));
    }
    found
}

/// What `make` can make by this Makefile.
fn goals(makefile: &str) -> BTreeSet<&str> {
    let rules = makefile.lines().filter(|line| !line.starts_with(['\t', ' ', '#', '.']));
    let names = rules.filter_map(|line| Some(line.split_once(':')?.0.split_whitespace()));
    names.flatten().collect()
}

/// Every target that a page has made is in the Makefile, and every script that it starts is there.
/// `exists` is asked with a path from the root.
pub fn things_to_run(files: &[File], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in pages(files) {
        for (n, words) in typed(&file.text) {
            let program = words[0].trim_start_matches("./");
            if program.starts_with("scripts/") && !exists(Path::new(program)) {
                found.push(format!("{}:{n}: {program} is not there", file.path));
            }
            if program != "make" {
                continue;
            }
            let within = words.iter().position(|word| word == "-C").map(|at| at + 1);
            let folder = within.and_then(|at| words.get(at));
            let makefile = folder.map_or("Makefile".into(), |folder| format!("{folder}/Makefile"));
            let text = files.iter().find(|f| f.path == makefile).map_or("", |f| f.text.as_str());
            if text.is_empty() {
                found.push(format!("{}:{n}: {makefile} is not there", file.path));
            }
            let known = goals(text);
            let plain = |word: &str| !word.starts_with(['-', '#']) && !word.contains('=');
            let asked = words.iter().enumerate().skip(1).filter(|(at, _)| Some(*at) != within);
            let asked = asked.map(|(_, word)| word.as_str()).filter(|word| plain(word));
            for goal in asked.filter(|goal| !known.contains(goal)) {
                found.push(format!("{}:{n}: {makefile} has no target {goal}", file.path));
            }
        }
    }
    found
}

/// Every such command can be typed: the command line is understood.
pub fn commands_parse(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in pages(files) {
        for (n, words) in commands(&file.text) {
            let Err(why) = weft_cli::command().try_get_matches_from(&words) else { continue };
            // Help and versions are told by an error as well.
            if why.use_stderr() {
                let why = why.to_string();
                let why = why.lines().next().unwrap_or("");
                found.push(format!("{}:{n}: {}: {why}", file.path, words.join(" ")));
            }
        }
    }
    found
}

/// What is not released yet stands first in the changelog, and then the version of the crates, with
/// a date. Lists have no gaps: a blank line stands only around headings and paragraphs.
pub fn changelog(text: &str, version: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let item = |line: &str| line.starts_with("- ");
    let gap = |three: &&[&str]| three[1].is_empty() && item(three[2]) && !three[0].starts_with('#');
    if let Some(three) = lines.windows(3).find(gap) {
        return vec![format!("CHANGELOG.md: a blank line in the list before {:?}", three[2])];
    }
    let mut headings = lines.iter().filter_map(|line| line.strip_prefix("## ["));
    let first = headings.next();
    if first != Some("Unreleased]") {
        return vec![format!("CHANGELOG.md begins with {first:?}, not with [Unreleased]")];
    }
    let newest = headings.next();
    let wanted = |newest: &&str| {
        let Some((name, date)) = newest.split_once("] - ") else { return false };
        let digits = date.split('-').map(str::len).eq([4, 2, 2]);
        name == version && digits && date.chars().all(|c| c.is_ascii_digit() || c == '-')
    };
    if newest.is_some_and(|newest| wanted(&newest)) {
        return Vec::new();
    }
    vec![format!("CHANGELOG.md: {newest:?} comes first, not [{version}] and a date")]
}

/// What is wrong with what docs/versions.md says of the version of frames: it stays within a minor
/// version.
pub fn wire(page: &str, version: &str, wire: u8) -> Vec<String> {
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let said = format!("Weft {minor}.x has version {wire} on the wire.");
    let found = if page.contains(&said) { None } else { Some(format!("not said: {said}")) };
    found.into_iter().collect()
}
