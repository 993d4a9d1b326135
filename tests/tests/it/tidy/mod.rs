//! What tools do not check of the project's style. Each rule has a canary: a made-up bad input that
//! it must find, so that a rule that finds nothing is known to look.

mod book;
mod package;
mod project;
mod rules;
mod source;

use std::path::Path;

use source::{File, project as project_files, root};

/// Where users read about the environment.
const ENVIRONMENT_PAGE: &str = "docs/environment.md";

fn nothing(found: Vec<String>) {
    assert!(found.is_empty(), "{} to mend:\n{}", found.len(), found.join("\n"));
}

fn every_file(rule: fn(&File) -> Vec<String>) {
    nothing(project_files().iter().flat_map(rule).collect());
}

/// The rule finds something in each of the bad files, and nothing in the good ones.
fn canary(rule: fn(&File) -> Vec<String>, bad: &[(&str, &str)], good: &[(&str, &str)]) {
    for (path, text) in bad {
        assert!(!rule(&File::new(path, text)).is_empty(), "not found in {path}: {text}");
    }
    for (path, text) in good {
        assert_eq!(rule(&File::new(path, text)), Vec::<String>::new(), "{path}");
    }
}

#[test]
fn files_are_short() {
    let (long, short) = ("a\n".repeat(801), "a\n".repeat(800));
    canary(rules::file_length, &[("a.rs", &long)], &[("a.rs", &short), ("a.md", &long)]);
    every_file(rules::file_length);
}

#[test]
fn lines_are_short() {
    let (long, short) = ("é".repeat(101), "é".repeat(100));
    let bad = [("a.rs", long.as_str()), ("Cargo.toml", &long)];
    canary(rules::line_length, &bad, &[("a.rs", &short), ("a.md", &long)]);
    every_file(rules::line_length);
}

#[test]
fn functions_are_short() {
    let function = |head: &str, body: usize| {
        format!("{head}(\n    a: u8,\n) {{\n{}}}\nfn g() {{}}\n", "    a();\n".repeat(body))
    };
    let long = function("pub(crate) const unsafe fn f", 67);
    let indented = "    fn f() {\n".to_string() + &"        a();\n".repeat(69) + "    }\n";
    let short = function("fn f", 66) + "trait T {\n    fn f();\n}\n" + &"// a\n".repeat(80);
    let bad = [("a.rs", long.as_str()), ("a.rs", &indented)];
    canary(rules::function_length, &bad, &[("a.rs", &short)]);
    every_file(rules::function_length);
}

#[test]
fn nothing_is_unfinished() {
    let bad = [
        ("a.rs", concat!("fn f() { to", "do!() }")),
        ("a.rs", concat!("fn f() { unimple", "mented!(\"later\") }")),
        ("a.rs", concat!("#[test]\n#[ig", "nore]\nfn f() {}")),
        ("a.rs", concat!("fn f() { assert!(", "true) }")),
        ("a.rs", concat!("// FIX", "ME: later")),
        ("Makefile", concat!("# XX", "X")),
    ];
    let good = [("a.rs", concat!("// to", "do!() in a comment\nlet a = \"to", "do!()\";"))];
    canary(rules::nothing_unfinished, &bad, &good);
    every_file(rules::nothing_unfinished);
}

#[test]
fn examples_are_run() {
    let bad = [
        ("a.rs", "//! ```no_run\n//! f();\n//! ```"),
        ("a.rs", "    /// ```rust,ignore\n    /// f();\n    /// ```"),
        ("a.md", "```no_run\nf();\n```"),
    ];
    let good = [("a.rs", "/// ```\n/// no_run();\n/// ```"), ("a.md", "```text\nignore\n```")];
    canary(rules::examples_run, &bad, &good);
    every_file(rules::examples_run);
}

#[test]
fn unsafe_code_is_in_its_crates_and_says_why() {
    let reasoned = "// SAFETY: nothing is touched.\nunsafe { f() }\n";
    let bad = [
        ("crates/weft/src/a.rs", reasoned),
        ("crates/sys/src/a.rs", "unsafe { f() }"),
        ("crates/ring/src/a.rs", "unsafe impl Send for A {}"),
    ];
    let good = [
        ("crates/sys/src/a.rs", reasoned),
        ("crates/weft/src/a.rs", "// unsafe { f() }\nlet unsafe_code = \"unsafe\";"),
    ];
    canary(rules::unsafe_code, &bad, &good);
    every_file(rules::unsafe_code);
}

#[test]
fn crates_begin_with_a_page() {
    let page = "//! A page of at least eight words, so that a reader learns something.\n";
    let forbid = "#![forbid(unsafe_code)]\n";
    let whole = page.to_string() + forbid;
    let bad = [
        ("crates/weft/src/lib.rs", page),
        ("crates/weft/src/lib.rs", forbid),
        ("crates/sys/src/lib.rs", "//! Short.\n"),
    ];
    let good = [
        ("crates/weft/src/lib.rs", whole.as_str()),
        ("crates/sys/src/lib.rs", page),
        ("crates/weft/src/a.rs", ""),
    ];
    canary(rules::crate_page, &bad, &good);
    every_file(rules::crate_page);
}

#[test]
fn no_machine_or_registry_is_named() {
    let bad = [
        ("a.rs", concat!("let a = \"/ho", "me/me/a\";")),
        ("a.md", concat!("see /ro", "ot/a")),
        ("Makefile", concat!("pip --index-url https://py", "pi.org/simple")),
        ("a.toml", concat!("registry = \"crates", ".io\"")),
    ];
    let good = [("a.rs", concat!("let a = \"{folder}/ho", "me/a\"; let b = \"/tmp/a\";"))];
    canary(rules::no_place_names, &bad, &good);
    every_file(rules::no_place_names);
}

#[test]
fn dependencies_go_one_way() {
    let manifest = |name: &str, lines: &str| {
        File::new("crates/a/Cargo.toml", &format!("[package]\nname = \"{name}\"\n{lines}"))
    };
    let up = manifest("weft-wire", "[dependencies]\nweft-proto.workspace = true\n");
    let side = manifest("weft-sys", "[target.\"cfg(a)\".dependencies]\nweft = { path = \"\" }\n");
    assert_eq!(project::arrows(&[up, side]).len(), 2);
    let tests = manifest("weft-wire", "[dev-dependencies]\nweft-proto.workspace = true\n");
    let down = manifest("weft-link", "[dependencies]\nweft-wire.workspace = true\nlibc = \"1\"\n");
    assert_eq!(project::arrows(&[tests, down]), Vec::<String>::new());
    nothing(project::arrows(&project_files()));
}

#[test]
fn what_only_boundaries_call_is_not_on_the_pages_for_programs() {
    let page = "//! `Endpoint::one`, [`Endpoint::two`], `Other::three`\n// `Endpoint::three`\n";
    let code = "impl Endpoint {\n    #[doc(hidden)]\n    #[inline]\n    pub fn one(&self) {}\n    \
                pub fn two<T>(&self) {}\n    pub fn three() {}\n}\nimpl<'e> Group<'e> {\n    \
                pub fn one() {}\n";
    let files = [("crates/weft/src/boundary.rs", page), ("crates/weft/src/a.rs", code)];
    let files = files.map(|(path, text)| File::new(path, text));
    let found = project::boundary_calls(&files, "crates/weft/src/boundary.rs");
    assert_eq!(found, ["Endpoint::two is for boundaries, and not hidden"]);
    nothing(project::boundary_calls(&project_files(), "crates/weft/src/boundary.rs"));
}

#[test]
fn manifests_have_licence_and_lints() {
    let bare = File::new("crates/a/Cargo.toml", "[package]\nname = \"a\"\n");
    assert_eq!(project::licences(&[bare]).len(), 6);
    let own = File::new("tests/Cargo.toml", "[package]\nname = \"a\"\npublish = false\n");
    assert_eq!(project::licences(&[own]).len(), 2);
    nothing(project::licences(&project_files()));
}

#[test]
fn packages_have_the_files_that_their_code_takes_in() {
    let text = "const A: &str = include_str!(\"../a.txt\");\nconst B: &[u8] = \
                include_bytes!(concat!(\"../b/\", $name, \".c\"));\n// include!(\"c\")\n";
    let file = [File::new("crates/x/src/a.rs", text)];
    let listed = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    let found = |names| package::included_files(&file, "crates/x/", &listed(names)).len();
    assert_eq!(found(&["a.txt", "b/c.c"]), 0);
    assert_eq!(found(&["a.txt", "b/c.h"]), 1);
    assert_eq!(found(&["src/a.txt"]), 2);
    let out = [File::new("crates/x/src/a.rs", "include_str!(\"../../a.txt\")")];
    assert_eq!(package::included_files(&out, "crates/x/", &listed(&["a.txt"])).len(), 1);

    let files = project_files();
    let crates = package::that_include(&files);
    assert!(crates.contains("crates/cli/"), "{crates:?}");
    let wrong = |folder: &String| package::included_files(&files, folder, &package::list(folder));
    nothing(crates.iter().flat_map(wrong).collect());
}

#[test]
fn variables_are_documented() {
    let code = File::new("crates/a/src/a.rs", "text(\"WEFT_A\"); text(\"WEFT_B\"); WEFT_C + 1");
    let page = File::new("page.md", "`WEFT_B` and `WEFT_D`");
    let found = project::environment(&[code, page], &["WEFT_B", "WEFT_E"], "page.md");
    assert_eq!(found.len(), 3, "{found:?}");
    let known: Vec<&str> = weft::env::KNOWN.iter().map(|variable| variable.name).collect();
    nothing(project::environment(&project_files(), &known, ENVIRONMENT_PAGE));
}

#[test]
fn links_lead_somewhere() {
    let page =
        File::new("docs/a.md", "[a](b.md#c), [d](../e.md), [f](https://g), [h](#i)\n[k]: l.md\n");
    let named = File::new("docs/a.md", "`crates/no/such.rs`, `crates/*/src`, `a/b`");
    let there = |path: &Path| path == Path::new("docs/b.md");
    let found = project::links(&[page], there);
    assert_eq!(found, ["docs/a.md:1: ../e.md is not there", "docs/a.md:2: l.md is not there"]);
    assert_eq!(project::named_paths(&[named], there).len(), 1);
    let exists = |path: &Path| root().join(path).exists();
    nothing(project::links(&project_files(), exists));
    nothing(project::named_paths(&project_files(), exists));
}

#[test]
fn the_book_has_each_page_once_and_links_within_itself() {
    let summary = File::new("docs/SUMMARY.md", "- [a](a.md)\n- [a](a.md)\n- [b](c/b.md)");
    let pages = [("docs/a.md", "[x](c/b.md#y)"), ("docs/c/b.md", "[r](../../README.md)")];
    let pages = pages.map(|(path, text)| File::new(path, text));
    let missing = File::new("docs/d.md", "");
    let files: Vec<File> = pages.into_iter().chain([summary, missing]).collect();
    let found = book::book(&files);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(book::book(&files[..2]).len(), 1);
    nothing(book::book(&project_files()));
}

#[test]
fn anchors_are_headings() {
    let page = File::new("docs/a.md", "# One `two`: 3\n[x](#one-two-3) [y](b.md#z) [w](#none)\n");
    let other = File::new("docs/b.md", "```\n# z\n```\n[c](https://d#e)\n");
    let found = book::anchors(&[page, other]);
    let wanted = ["#z in docs/b.md", "#none in docs/a.md"];
    assert_eq!(found, wanted.map(|wanted| format!("docs/a.md:2: no heading {wanted}")));
    nothing(book::anchors(&project_files()));
}

#[test]
fn commands_on_pages_can_be_typed() {
    let text = "weft no such\n```sh\nWEFT_A=1 sudo weft run -n 2 -- \\\n\
                weft bench lat --bites 3\nweft lab list # c\nweft info --jason | head\n\
                weft --version\necho weft x\n```\n";
    let found = book::commands_parse(&[File::new("a.md", text)]);
    assert_eq!(found.len(), 2, "{found:?}");
    nothing(book::commands_parse(&project_files()));
}

#[test]
fn what_pages_make_and_start_is_there() {
    let text = "make no\n```sh\nmake one && sudo make two P=1 # three\nA=1 scripts/a.sh x\n\
                ./scripts/b.sh\nmake -C d four\nmake -C e\necho make x\n```\n";
    let files = [
        ("a.md", text),
        ("Makefile", "V ?= x\none three: four ## it\n\tfive: six\n"),
        ("d/Makefile", "four:\n"),
    ];
    let files = files.map(|(path, text)| File::new(path, text));
    let found = book::things_to_run(&files, |path| path == Path::new("scripts/a.sh"));
    let wanted = [
        "3: Makefile has no target two",
        "5: scripts/b.sh is not there",
        "7: e/Makefile is not there",
    ];
    assert_eq!(found, wanted.map(|wanted| format!("a.md:{wanted}")));
    nothing(book::things_to_run(&project_files(), |path| root().join(path).exists()));
}

#[test]
fn the_changelog_begins_with_this_version() {
    let whole = "# C\n\n## [Unreleased]\n\n- a\n- b\n\n## [1.2.3] - 2026-01-02\n## [9]";
    assert_eq!(book::changelog(whole, "1.2.3"), Vec::<String>::new());
    for bad in ["", "## [1.2.4] - 2026-01-02", "## [1.2.3]", "## [1.2.3] - soon"] {
        let all = format!("## [Unreleased]\n{bad}");
        assert_eq!(book::changelog(&all, "1.2.3").len(), 1, "{bad}");
    }
    for bad in ["## [1.2.3] - 2026-01-02", &whole.replace("- b", "\n- b")] {
        assert_eq!(book::changelog(bad, "1.2.3").len(), 1, "{bad}");
    }
    let text = std::fs::read_to_string(root().join("CHANGELOG.md")).expect("the changelog");
    nothing(book::changelog(&text, env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_page_on_versions_tells_what_is_on_the_wire() {
    let page = "a\n\n*Frames.* Weft 1.2.x has version 7 on the wire.\n";
    assert_eq!(book::wire(page, "1.2.3", 7), Vec::<String>::new());
    for (version, wire) in [("1.2.3", 8), ("1.3.0", 7), ("1.20.0", 7)] {
        assert_eq!(book::wire(page, version, wire).len(), 1, "{version} {wire}");
    }
    let text = std::fs::read_to_string(root().join("docs/versions.md")).expect("the page");
    nothing(book::wire(&text, env!("CARGO_PKG_VERSION"), weft_wire::VERSION));
}
