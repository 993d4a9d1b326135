//! What tools do not check of the project's style. Each rule has a canary: a made-up bad input that
//! it must find, so that a rule that finds nothing is known to look.

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
fn manifests_have_licence_and_lints() {
    let bare = File::new("crates/a/Cargo.toml", "[package]\nname = \"a\"\n");
    assert_eq!(project::licences(&[bare]).len(), 2);
    nothing(project::licences(&project_files()));
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
    let page = File::new("docs/a.md", "[a](b.md#c), [d](../e.md), [f](https://g), [h](#i)");
    let named = File::new("docs/a.md", "`crates/no/such.rs`, `crates/*/src`, `a/b`");
    let there = |path: &Path| path == Path::new("docs/b.md");
    assert_eq!(project::links(&[page], there), ["docs/a.md:1: ../e.md is not there"]);
    assert_eq!(project::named_paths(&[named], there).len(), 1);
    let exists = |path: &Path| root().join(path).exists();
    nothing(project::links(&project_files(), exists));
    nothing(project::named_paths(&project_files(), exists));
}
