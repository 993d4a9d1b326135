//! The C interface: programs in C that make every call, well and badly, under `weft run`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use weft_tests::c::Library;
use weft_tests::job::{Cluster, Job};

use super::WEFT;

fn library() -> Option<Library> {
    Library::get(WEFT, env!("CARGO_TARGET_TMPDIR"))
}

fn project(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn start(program: &Path, role: &[&str], count: u32, lab: Option<&Cluster>) -> Job {
    let (count, program) = (count.to_string(), program.to_str().expect("text"));
    let mut arguments = vec!["-n", &count, "--keep-going"];
    if let Some(lab) = lab {
        arguments.extend(["--lab", lab.name()]);
    }
    arguments.extend(["--", program]);
    arguments.extend(role);
    // Within a node no limit has to pass; between nodes only a dead one's.
    let limit = if lab.is_some() && role.contains(&"dead") { "1" } else { "60" };
    Job::start(WEFT, &arguments, &[("WEFT_PEER_LIMIT_S", limit)])
}

/// So many ranks say that all is well with them.
fn well(said: &str, count: usize) {
    let good = said.lines().filter(|line| line.ends_with("all is well")).count();
    assert_eq!(good, count, "{said}");
}

fn good(program: &Path, role: &[&str], count: u32, lab: Option<&Cluster>) {
    well(&start(program, role, count, lab).ends_well(), count as usize);
}

/// In a node by one, two and four ranks, in a lab of two nodes by two and four.
fn everywhere(name: &str) {
    let Some(library) = library() else { return };
    let program = library.compile(name);
    for count in [1, 2, 4] {
        good(&program, &[], count, None);
    }
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for count in [2, 4] {
        good(&program, &[], count, Some(&lab));
    }
}

#[test]
fn messages_in_c() {
    everywhere("messages");
}

#[test]
fn regions_in_c() {
    everywhere("regions");
}

#[test]
fn collective_operations_and_groups_in_c() {
    everywhere("together");
}

#[test]
fn boundaries_in_c() {
    everywhere("halo");
}

/// By two ranks in a node, and on two nodes.
fn by_two(name: &str) {
    let Some(library) = library() else { return };
    let program = library.compile(name);
    good(&program, &[], 2, None);
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    good(&program, &[], 2, Some(&lab));
}

#[test]
fn messages_in_place_in_c() {
    by_two("contexts");
}

/// A rank that is alone has nobody to join.
#[test]
fn joined_buffers_in_c() {
    let Some(library) = library() else { return };
    let program = library.compile("joined");
    for count in [2, 3] {
        good(&program, &[], count, None);
    }
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for count in [2, 3] {
        good(&program, &[], count, Some(&lab));
    }
}

#[test]
fn no_byte_beside_memory_is_touched() {
    by_two("guards");
}

#[test]
fn what_c_programs_do_wrong_is_told() {
    let Some(library) = library() else { return };
    let program = library.compile("misuse");
    for (role, count) in [("arguments", 1), ("arguments", 2), ("forked", 2), ("left", 2)] {
        good(&program, &[role], count, None);
    }
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for (role, count) in [("arguments", 2), ("forked", 2), ("left", 2)] {
        good(&program, &[role], count, Some(&lab));
    }
}

#[test]
fn threads_in_c_share_handles() {
    let Some(library) = library() else { return };
    let program = library.compile("misuse");
    good(&program, &["threads"], 1, None);
    good(&program, &["threads"], 2, None);
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    good(&program, &["threads"], 2, Some(&lab));
}

#[test]
fn a_region_that_c_frees_is_left_alone_by_peers() {
    let Some(library) = library() else { return };
    let program = library.compile("misuse");
    good(&program, &["freed"], 3, None);
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    good(&program, &["freed"], 3, Some(&lab));
}

#[test]
fn a_dead_rank_is_named_to_c_programs() {
    let Some(library) = library() else { return };
    let program = library.compile("misuse");
    well(&start(&program, &["dead"], 3, None).ends().1, 2);
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    well(&start(&program, &["dead"], 3, Some(&lab)).ends().1, 2);
}

#[test]
fn the_examples_in_c_run() {
    let Some(library) = library() else { return };
    let examples = library.examples();
    let said = start(&examples.join("hello"), &[], 3, None).ends_well();
    assert!(said.contains("rank 0 of 3: 8 bytes from rank 2, the sum is 3"), "{said}");
    let said = start(&examples.join("region"), &[], 3, None).ends_well();
    assert!(said.contains("rank 2 drew "), "{said}");
    assert!(said.contains(", its row sums up to 2000"), "{said}");
    let said = start(&examples.join("heat"), &["20", "50"], 3, None).ends_well();
    assert!(said.contains(": good"), "{said}");
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    let said = start(&examples.join("heat"), &["20", "50"], 2, Some(&lab)).ends_well();
    assert!(said.contains(": good"), "{said}");
}

/// The functions of the header.
fn functions() -> BTreeSet<String> {
    let header = project("crates/capi/include/weft.h");
    let is_code = |line: &&str| !line.trim_start().starts_with("///");
    let code: String = header.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect();
    let words = code.split(|c: char| !(c.is_alphanumeric() || "_(".contains(c)));
    let calls = words.filter(|word| word.starts_with("weft_") && word.contains('('));
    calls.filter_map(|word| word.split('(').next()).map(str::to_string).collect()
}

#[test]
fn every_call_is_made_by_a_test_and_told_of() {
    let functions = functions();
    assert!(functions.len() > 60, "{functions:?}");
    let programs: String = [
        "check.h",
        "messages.c",
        "regions.c",
        "joined.c",
        "together.c",
        "halo.c",
        "contexts.c",
        "guards.c",
        "misuse.c",
    ]
    .map(|file| project(&format!("tests/c/{file}")))
    .concat();
    let page = project("docs/c.md");
    for name in &functions {
        assert!(programs.contains(&format!("{name}(")), "{name} is in no test");
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/c.md");
    }
}

/// What was added to the interface since its first version.
const ADDED: [(&str, &str); 1] = [(
    "0.2",
    "weft_fence weft_icompare_and_op weft_join weft_joined_fill weft_joined_flag \
     weft_joined_flush weft_joined_free weft_joined_look weft_joined_peer_len \
     weft_joined_try_flag weft_joined_wait_flag weft_joined_wait_flag_timeout weft_joined_write",
)];

/// The version that a function has, and keeps.
fn version_of(function: &str) -> &'static str {
    let added = ADDED.iter().find(|(_, names)| names.split(' ').any(|name| name == function));
    added.map_or("0.1", |(version, _)| version)
}

#[test]
fn the_library_gives_these_functions_only_each_with_its_version() {
    let Some(library) = library() else { return };
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--with-symbol-versions"]).arg(library.shared());
    let output = nm.output().expect("nm");
    let said = String::from_utf8_lossy(&output.stdout);
    let functions_of = |line: &str| Some(line.split(" T ").nth(1)?.to_string());
    let exported: BTreeSet<String> = said.lines().filter_map(functions_of).collect();
    let wanted: BTreeSet<String> =
        functions().iter().map(|name| format!("{name}@@WEFT_{}", version_of(name))).collect();
    assert_eq!(exported, wanted, "{said}");
    // Beside them there are the versions themselves.
    assert_eq!(said.lines().count(), wanted.len() + 2, "{said}");
    let program = fs::read(library.compile("messages")).expect("a program");
    let has = |name: &[u8]| program.windows(name.len()).any(|window| window == name);
    assert!(has(b"libweft.so.0\0") && has(b"WEFT_0.1\0"));
}
