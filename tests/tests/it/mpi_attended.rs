//! What a rank of an MPI program has begun goes on while it computes. The program computes until a
//! file says that the other rank has all: no time is asserted, and were a call needed it would not
//! end.

use std::fs;

use weft_tests::job::Cluster;
use weft_tests::mpi::{Mpi, Run, alone, provider};

use super::WEFT;

const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

#[test]
fn what_was_begun_goes_on_while_a_rank_computes() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let options = ["--provider", file.to_str().expect("a target directory's name is text")];
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for mpi in Mpi::all() {
        let program = mpi.compile("attended", &["attended.c"], FOLDER);
        for (place, lab) in [("node", None), ("lab", Some(&lab))] {
            let steps = format!("{FOLDER}/attended-{}-{place}", mpi.name);
            let _ = fs::remove_dir_all(&steps);
            fs::create_dir_all(&steps).expect("a folder for the steps");
            let run = Run { weft: WEFT, ranks: 2, lab, options: &options, variables: &[] };
            let said = run.start(&program, &[&[steps.as_str()], kinds(mpi.name)].concat());
            let said = said.ends_well();
            assert!(said.contains("attended: good"), "{} in a {place}: {said}", mpi.name);
            fs::remove_dir_all(&steps).expect("the folder of the steps");
        }
    }
}

/// What goes by the provider alone. What a library does by messages of its own needs its target's
/// calls, whatever carries them: MPICH and its relatives do so with atomic operations.
fn kinds(mpi: &str) -> &'static [&'static str] {
    match mpi {
        "openmpi" => &["messages", "memory", "atomics"],
        _ => &["messages", "memory"],
    }
}
