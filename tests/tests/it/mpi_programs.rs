//! The kernels of programs in `examples/mpi/programs`: every one runs with every word on both MPI
//! libraries on Weft, gives each figure whole, and notices a result that is wrong.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use weft_tests::job::Cluster;
use weft_tests::mpi::{Mpi, Run, alone, provider};

use super::WEFT;

const SOURCES: &str = "../../examples/mpi/programs";
const TIMES: [&str; 4] = ["min", "p50", "p99", "mean"];

/// A program and the words that it knows.
struct Program {
    name: String,
    path: PathBuf,
    words: Vec<String>,
}

/// All that are there, compiled.
fn programs(mpi: &Mpi) -> Vec<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/mpi/programs");
    let files = fs::read_dir(folder).expect("the programs").flatten().map(|entry| entry.path());
    let sources = files.filter(|file| file.extension().is_some_and(|e| e == "c"));
    let names = sources.filter_map(|file| Some(file.file_stem()?.to_str()?.to_string()));
    let names: BTreeSet<String> = names.collect();
    assert!(names.len() >= 12, "{names:?}");
    let program = |name: String| {
        let source = format!("{SOURCES}/{name}.c");
        let path = mpi.compile(&name, &[&source], env!("CARGO_TARGET_TMPDIR"));
        let list = Command::new(&path).arg("list").output().expect("the program starts");
        let words = text(&list.stdout).lines().map(str::to_string).collect();
        assert!(list.status.success(), "{name}");
        Program { name, path, words }
    };
    names.into_iter().map(program).collect()
}

/// Whether a line is the whole figure of this word.
fn whole(line: &str, program: &Program, word: &str, ranks: u32) -> bool {
    let Ok(figure) = serde_json::from_str::<Value>(line) else { return false };
    let is = |key: &str, value: &str| figure[key].as_str() == Some(value);
    let number = |value: &Value| value.as_f64().is_some_and(|n| n > 0.0);
    // The delay between two clocks that are known to some microseconds may come out below zero.
    let times = TIMES.iter().all(|name| figure["time_us"][name].as_f64().is_some());
    is("bench", &program.name)
        && is("device", "x")
        && is("mode", word)
        && figure["ranks"].as_u64() == Some(u64::from(ranks))
        && figure["checked"].as_bool() == Some(true)
        && times
        && ["bytes", "mpi_us", "mpi_share"].iter().all(|name| number(&figure[name]))
}

/// Runs a program with all words, and wants each figure.
fn gives_all(run: &Run<'_>, mpi: &Mpi, program: &Program) {
    let arguments = ["x", "1"].into_iter().chain(program.words.iter().map(String::as_str));
    let done = run.output(&program.path, &arguments.collect::<Vec<_>>());
    let said = text(&done.stdout);
    let told = format!("{} {}: {said}{}", program.name, mpi.name, text(&done.stderr));
    assert!(done.status.success(), "{told}");
    assert_eq!(said.lines().count(), program.words.len(), "{told}");
    for (line, word) in said.lines().zip(&program.words) {
        assert!(whole(line, program, word, run.ranks), "{word} of {told}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn kernels_of_programs_give_checked_figures() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let options = ["--provider", file.to_str().expect("a target directory's name is text")];
    let lab = Cluster::new(WEFT, "nodes=2");
    for mpi in Mpi::all() {
        for program in programs(&mpi) {
            assert!(program.words.len() >= 2, "{}: {:?}", program.name, program.words);
            let run = Run { weft: WEFT, ranks: 4, lab: None, options: &options, variables: &[] };
            gives_all(&run, &mpi, &program);
            if let Some(lab) = &lab {
                gives_all(&Run { ranks: 2, lab: Some(lab), ..run }, &mpi, &program);
            }
        }
    }
}

#[test]
fn kernels_of_programs_notice_a_wrong_result() {
    let _turn = alone();
    for mpi in Mpi::all() {
        for program in programs(&mpi) {
            let options = &["--transport", "own"];
            let run = Run { weft: WEFT, ranks: 2, lab: None, options, variables: &[] };
            // All modes and sizes of a program are checked by the same lines.
            let done = run.output(&program.path, &["x", "1", "spoil", &program.words[0]]);
            let (said, figures) = (text(&done.stderr), text(&done.stdout));
            let wanted = format!("{}: the result is wrong on rank ", program.name);
            let noticed = !done.status.success() && said.contains(&wanted) && figures.is_empty();
            assert!(noticed, "{} {}: {said}{figures}", program.name, mpi.name);
        }
    }
}
