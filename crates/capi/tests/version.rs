//! What the library says of its C interface's versions is what the linker is told.

use std::fs;
use std::path::Path;

use weft::version::{C_LIBRARY, C_SYMBOLS};

#[test]
fn versions_of_the_interface_are_those_that_are_linked() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(here.join(name)).expect("a file of the project");
    let map = read("weft.map");
    let mut names = map.lines().filter_map(|line| line.strip_suffix(" {")?.strip_prefix("WEFT_"));
    let newest = format!("{}.{}", C_SYMBOLS.0, C_SYMBOLS.1);
    assert_eq!(names.next_back(), Some(newest.as_str()));
    assert!(read("../../scripts/capi.sh").contains(&format!("\nso={C_LIBRARY}\n")));
}
