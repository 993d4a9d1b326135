//! The project's files, and Rust source with its comments and strings blanked out.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file of the project.
pub struct File {
    /// From the project's root, with `/`.
    pub path: String,
    pub text: String,
}

impl File {
    pub fn new(path: &str, text: &str) -> File {
        File { path: path.to_string(), text: text.to_string() }
    }

    pub fn has_extension(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, e)| e == extension)
    }

    /// Its lines with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.text)
    }
}

/// The lines of a text, numbered from 1.
pub fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(n, line)| (n + 1, line))
}

/// Files that a program writes, or that are a law's words: no rule of style is for them.
const GENERATED: &[&str] = &[
    "Cargo.lock",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "crates/capi/include/weft.h",
    "crates/ofi/src/abi/generated.rs",
];

/// Folders that hold nothing of ours.
const FOREIGN: &[&str] = &["target", "out", "__pycache__", "node_modules"];

/// The project's root.
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the tests crate lies within the workspace").to_path_buf()
}

/// Every text file of the project, sorted.
pub fn project() -> Vec<File> {
    let root = root();
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 50, "this is not the project's root: {}", root.display());
    files
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).expect("a folder of the project can be read");
    for entry in entries.map(|entry| entry.expect("a folder of the project can be read")) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().expect("a file has a type");
        if kind.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci";
            if !hidden && !FOREIGN.contains(&name.as_str()) {
                collect(root, &path, files);
            }
        // In a work tree of Git's, `.git` is a file that says where the rest is.
        } else if kind.is_file() && name != ".git" {
            let relative = path.strip_prefix(root).expect("it was found below the root");
            let relative = relative.to_string_lossy().replace('\\', "/");
            let ours = !GENERATED.contains(&relative.as_str()) && !relative.ends_with(".snap.new");
            if let (true, Ok(text)) = (ours, fs::read_to_string(&path)) {
                files.push(File { path: relative, text });
            }
        }
    }
}

/// Rust source with what is in comments and in string and character literals replaced by blanks;
/// every line keeps its number and its length in characters.
pub fn code_of(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skip(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Where the comment or literal that begins at `at` ends; `at` itself where none begins.
fn skip(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match chars[at] {
        '/' if next == Some('/') => until(chars, at, |c, i| c[i] == '\n'),
        '/' if next == Some('*') => block_comment(chars, at),
        '"' => string(chars, at),
        'r' if !in_word && matches!(next, Some('"' | '#')) => raw_string(chars, at),
        'b' | 'c' if !in_word && next == Some('r') => match raw_string(chars, at + 1) {
            end if end > at + 1 => end,
            _ => at,
        },
        '\'' if next == Some('\\') => 1 + until(chars, at + 3, |c, i| c[i] == '\''),
        '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
}

fn until(chars: &[char], from: usize, end: impl Fn(&[char], usize) -> bool) -> usize {
    (from..chars.len()).find(|&i| end(chars, i)).unwrap_or(chars.len()).min(chars.len())
}

fn block_comment(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0usize, at);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') if depth == 1 => return i + 2,
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
    }
    chars.len()
}

fn string(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

/// `at` is at the `r`; gives `at` back where no raw string begins (a raw identifier, say).
fn raw_string(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return at;
    }
    let ends = |c: &[char], i: usize| {
        c[i] == '"' && c.get(i + 1..i + 1 + hashes).is_some_and(|t| t.iter().all(|&h| h == '#'))
    };
    (until(chars, at + 2 + hashes, ends) + 1 + hashes).min(chars.len())
}

#[test]
fn comments_and_literals_are_blanked_and_code_is_kept() {
    let source = concat!(
        "let a = \"un\\\"safe\"; // unsafe\n",
        "let b = r#\"unsafe \" \"#; /* unsafe /* unsafe */ unsafe */ let c = '\"';\n",
        "let d = '\\''; let r#type: &'static str = b\"unsafe\"; unsafe { f() }\n",
    );
    let code = code_of(source);
    assert_eq!(code.matches("unsafe").count(), 1);
    assert_eq!(code.lines().count(), 3);
    for kept in ["let a =", "let b =", "let c =", "let d =", "r#type: &'static str", "{ f() }"] {
        assert!(code.contains(kept), "{kept} is missing in:\n{code}");
    }
}
