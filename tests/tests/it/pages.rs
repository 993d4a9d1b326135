//! The programs that pages for users show: each is built as it stands there, and run, in a node and
//! on two. (Those in Python are for `tests/python/pages.py`, which has the package.)

use std::fs;
use std::path::Path;

use weft_tests::c::Library;
use weft_tests::job::{Cluster, Job};
use weft_tests::pages::{Block, blocks, blocks_of, root};

use super::WEFT;

/// The program that plays the examples in Rust.
const PAGE: &str = env!("CARGO_BIN_EXE_page");

/// What the ranks of an example say, some of them, in any order.
const SAID: &[(&str, &str, &[&str])] = &[
    ("README.md", "rust", &["rank 0 says hello", "rank 1 says hello"]),
    ("docs/c.md", "c", &["hello"]),
];

/// Runs an example, with a folder for what it takes.
type Run = fn(&Block, &Path);

/// How the examples in a language are run; `None` for what is no program, or another's.
fn runs(language: &str) -> Result<Option<Run>, String> {
    match language {
        "rust" => Ok(Some(|block, _| everywhere(block, PAGE, &[&block.place]))),
        "c" => Ok(Some(in_c)),
        "python" | "sh" | "text" => Ok(None),
        other => Err(format!("nobody knows how to run what is in {other:?}")),
    }
}

/// By two ranks in a node, and on two nodes.
fn everywhere(block: &Block, program: &str, arguments: &[&str]) {
    let run = |place: &[&str]| {
        let all = [&["-n", "2"], place, &["--", program], arguments].concat();
        let said = Job::start(WEFT, &all, &[("WEFT_PEER_LIMIT_S", "60")]).ends_well();
        let page = block.place.split(':').next().expect("a page");
        let promised = SAID.iter().filter(|row| (row.0, row.1) == (page, &block.language));
        for line in promised.flat_map(|row| row.2) {
            assert!(said.contains(line), "{}: not said: {line}; but:\n{said}", block.place);
        }
    };
    run(&[]);
    if let Some(lab) = Cluster::new(WEFT, "nodes=2") {
        run(&["--lab", lab.name()]);
    }
}

fn in_c(block: &Block, folder: &Path) {
    let Some(library) = Library::get(WEFT, env!("CARGO_TARGET_TMPDIR")) else { return };
    let source = folder.join("page.c");
    fs::write(&source, &block.text).expect("a source");
    let program = library.compile_at(&source, &folder.join("page"));
    everywhere(block, program.to_str().expect("text"), &[]);
}

#[test]
fn every_program_on_a_page_runs() {
    let (mut rust, mut c) = (0, 0);
    for block in blocks() {
        let how = runs(&block.language).unwrap_or_else(|why| panic!("{}: {why}", block.place));
        let folder = tempfile::tempdir().expect("a folder");
        if let Some(run) = how {
            run(&block, folder.path());
        }
        rust += usize::from(block.language == "rust");
        c += usize::from(block.language == "c");
    }
    // Where nothing is found, nothing is looked at.
    assert!(rust >= 3 && c >= 1, "{rust} in Rust, {c} in C");
}

#[test]
fn a_program_is_found_wherever_it_stands_on_a_page() {
    let found =
        blocks_of("a.md", "a\n```c\nb\n\nc\n```\n1. d\n\n   ```  rs\n   e\n   ```\n```\n```\n");
    let words = |b: &Block| format!("{} {:?} {:?}", b.place, b.language, b.text);
    let found: Vec<String> = found.iter().map(words).collect();
    assert_eq!(found, [r#"a.md:2 "c" "b\n\nc\n""#, r#"a.md:9 "rs" "   e\n""#, r#"a.md:12 "" """#,]);
    assert!(runs("rs").is_err() && runs("").is_err() && runs("c++").is_err());
    assert!(root().join("README.md").exists());
}
