//! `include/weft.h` is what the sources say: it is made of them here, and compared.

use std::fs;
use std::path::Path;

use cbindgen::{Builder, Config, DocumentationStyle, ItemType, Language, Style};

/// What stands at the beginning of the header.
const PAGE: &str = "\
/* Weft: message passing over shared memory and plain Ethernet. The C interface, made from
 * crates/capi/src by its test `header`: change it there. Ten minutes of it: docs/c.md.
 *
 * A call that can fail returns a weft_status: WEFT_OK (0), or why it has failed, of which
 * weft_error_text() tells more. What a call gives is stored where its pointers say, and only if it
 * has not failed, but for what \"Errors\" says. No call ends the process, and none waits for ever:
 * what waits for a process that dies ends in an error that names it.
 *
 * Handles (pointers to weft_job, weft_endpoint, weft_context, weft_region, weft_joined,
 * weft_group, weft_message, weft_plan) are checked numbers, nothing can be read through them. One
 * that is null or was freed is WEFT_DEAD_HANDLE, also while other threads use or free it; one that
 * is in use is not freed, which is WEFT_BUSY.
 *
 * \"Threads: any\" means that any thread may make the call at any time, also while others make
 * calls with the same handle.
 *
 * Memory: lengths are bytes, counts are numbers of elements. A pointer may be null where there is
 * nothing to read or fill. Memory must stay, and stay untouched, as long as the call uses it; with
 * calls that start something (weft_i...), until its request has ended.
 *
 * After a fork the child has no part in the job: all calls fail there with WEFT_FORKED, until it
 * executes a program. */";

fn made() -> String {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut config = Config {
        language: Language::C,
        header: Some(PAGE.to_string()),
        include_guard: Some("WEFT_H".to_string()),
        cpp_compat: true,
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"].map(str::to_string).to_vec(),
        style: Style::Type,
        line_length: 100,
        tab_width: 4,
        usize_is_size_t: true,
        documentation_style: DocumentationStyle::Cxx,
        ..Config::default()
    };
    // Calls take a number, for C gives any.
    config.export.include = vec!["weft_corners".to_string()];
    config.export.item_types = vec![
        ItemType::Constants,
        ItemType::Enums,
        ItemType::Structs,
        ItemType::OpaqueItems,
        ItemType::Typedefs,
        ItemType::Functions,
    ];
    let files = [
        "error",
        "job",
        "endpoint",
        "context",
        "message",
        "region",
        "joined",
        "numbers",
        "collective",
        "group",
        "halo",
    ];
    let mut builder = Builder::new().with_config(config);
    for file in files {
        builder = builder.with_src(src.join(file).with_extension("rs"));
    }
    let mut text = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut text);
    String::from_utf8(text).expect("the header is text")
}

/// Functions of a header whose comments do not have a word.
fn without(header: &str, word: &str) -> Vec<String> {
    let (mut found, mut comment) = (Vec::new(), String::new());
    for line in header.lines() {
        if line.starts_with("///") {
            comment += line;
            continue;
        }
        let name = line.split('(').next().and_then(|head| head.rsplit([' ', '*']).next());
        let is_code = !line.starts_with([' ', '/']) && line.contains('(');
        let name = name.filter(|name| is_code && name.starts_with("weft_"));
        found.extend(name.filter(|_| !comment.contains(word)).map(str::to_string));
        comment.clear();
    }
    found
}

#[test]
fn every_call_says_which_threads_may_make_it() {
    let bad =
        "/// A.\nint weft_a(void);\n/// Threads: any\nint *weft_b(int\n  b);\nint weft_c();\n";
    assert_eq!(without(bad, "Threads:"), ["weft_a", "weft_c"]);
    let header = made();
    assert!(without(&header, "no such word").len() > 80, "functions are not found");
    assert_eq!(without(&header, "Threads:"), Vec::<String>::new());
}

#[test]
fn the_header_is_current() {
    let header = made();
    let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("weft.h");
    fs::write(&new, &header).expect("the new header is written");
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/weft.h");
    let current = fs::read_to_string(&committed).unwrap_or_default();
    let same = current == header;
    assert!(same, "weft.h is not current: cp {} {}", new.display(), committed.display());
}
