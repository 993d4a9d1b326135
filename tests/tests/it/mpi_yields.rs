//! MPICH's calls for giving the processor away, which `libweft-mpi.so` answers where nobody else
//! wants it.

use std::path::{Path, PathBuf};

use weft_tests::job::Cluster;
use weft_tests::mpi::{Mpi, Run, alone, collectives};

use super::WEFT;

fn mpich() -> Option<(Mpi, PathBuf, PathBuf)> {
    let file = collectives(WEFT)?;
    let mpi = Mpi::all().into_iter().find(|mpi| mpi.name == "mpich")?;
    let program = mpi.compile("yields", &["yields.c"], env!("CARGO_TARGET_TMPDIR"));
    Some((mpi, program, file))
}

fn good(run: &Run<'_>, program: &Path, arguments: &[&str]) {
    let said = run.start(program, arguments).ends_well();
    assert!(said.contains("yields: good"), "{arguments:?}: {said}");
}

#[test]
fn calls_of_a_rank_that_is_alone_on_its_processor_are_answered() {
    let _turn = alone();
    let Some((_, program, file)) = mpich() else { return };
    let options = ["--provider", file.to_str().expect("text")];
    let lab = Cluster::new(WEFT, "nodes=2");
    for lab in [None, lab.as_ref()] {
        let run = Run { weft: WEFT, ranks: 2, lab, options: &options, variables: &[] };
        // MPI_THREAD_SINGLE, and MPI_THREAD_SERIALIZED.
        good(&run, &program, &["answered", "0"]);
        good(&run, &program, &["answered", "2"]);
    }
}

#[test]
fn where_somebody_counts_on_them_they_go_to_the_kernel() {
    let _turn = alone();
    let Some((_, program, file)) = mpich() else { return };
    let file = file.to_str().expect("text");
    let options = ["--provider", file];
    let run = Run { weft: WEFT, ranks: 2, lab: None, options: &options, variables: &[] };
    // MPI_THREAD_MULTIPLE: by them a thread gives others the library's lock.
    good(&run, &program, &["kernel", "3"]);
    // A session may have that level, whatever the program's is.
    good(&run, &program, &["kernel", "0", "session"]);
    good(&Run { variables: &[("WEFT_YIELDS", "all")], ..run }, &program, &["kernel", "0"]);
    let own = ["--transport", "own"];
    good(&Run { options: &own, variables: &[], ..run }, &program, &["kernel", "0"]);
}

/// A rank that Weft's library is in for this alone does all collective operations by the MPI
/// library, whatever the user has chosen for those that Weft does.
#[test]
fn collective_operations_are_weft_s_only_where_that_is_asked_for() {
    let _turn = alone();
    let Some((mpi, _, file)) = mpich() else { return };
    let program = mpi.compile("collectives", &["collectives.c"], env!("CARGO_TARGET_TMPDIR"));
    let options = ["--provider", file.to_str().expect("text")];
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for variables in [&[][..], &[("WEFT_COLLECTIVES", "all")]] {
        let run = Run { weft: WEFT, ranks: 2, lab: Some(&lab), options: &options, variables };
        let arguments = ["--rounds", "4", "--largest", "5000", "--weft", "1"];
        let (ended, said) = run.start(&program, &arguments).ends();
        assert!(!ended.success(), "{said}");
        let said = run.start(&program, &arguments[..4]).ends_well();
        assert!(said.contains("collectives: good"), "{said}");
    }
}
