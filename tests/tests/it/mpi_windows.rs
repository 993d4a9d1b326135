//! Windows of MPI programs, whose memory all ranks of a node map, and those that the library keeps:
//! what is done to them is the same.

use weft_tests::job::Cluster;
use weft_tests::mpi::{Mpi, Run, alone, collectives};

use super::WEFT;

fn good(run: &Run<'_>, mpi: &Mpi, least: &str) {
    let program = mpi.compile("windows", &["windows.c"], env!("CARGO_TARGET_TMPDIR"));
    let said = run.start(&program, &[least]).ends_well();
    assert!(said.contains("windows: good"), "{} {} {least}: {said}", mpi.name, run.ranks);
}

/// How many operations of `windows.c` are Weft's in each rank at least. Open MPI's windows within a
/// node are its own.
fn least(mpi: &Mpi) -> &'static str {
    if mpi.name == "openmpi" { "0" } else { "1000" }
}

#[test]
fn operations_on_the_windows_of_a_node_are_done_by_who_calls() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let options = ["--provider", file.to_str().expect("text")];
    for mpi in Mpi::all() {
        for ranks in [2, 3, 4, 8] {
            let run = Run { weft: WEFT, ranks, lab: None, options: &options, variables: &[] };
            good(&run, &mpi, least(&mpi));
        }
    }
}

#[test]
fn they_are_the_library_s_where_the_user_wants_that() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let options = ["--provider", file.to_str().expect("text")];
    let never = ["--collectives=never", options[0], options[1]];
    for mpi in Mpi::all() {
        let run = Run { weft: WEFT, ranks: 3, lab: None, options: &never, variables: &[] };
        good(&run, &mpi, "0");
        let program = mpi.compile("windows", &["windows.c"], env!("CARGO_TARGET_TMPDIR"));
        for variables in [&[("WEFT_COLLECTIVES", "none")], &[("WEFT_COLLECTIVES", "barrier")]] {
            let run = Run { options: &options, variables, ..run };
            let (ended, said) = run.start(&program, &["1000"]).ends();
            assert!(!ended.success(), "{}: {said}", mpi.name);
            good(&run, &mpi, "0");
        }
    }
}

#[test]
fn between_nodes_they_are_the_library_s() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let options = ["--collectives", "--provider", file.to_str().expect("text")];
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for mpi in Mpi::all() {
        let lab = Some(&lab);
        let run = Run { weft: WEFT, ranks: 4, lab, options: &options, variables: &[] };
        good(&run, &mpi, "0");
    }
}
