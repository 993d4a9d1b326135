//! `MPI_Dist_graph_create`, in which MPICH's ranks send to themselves and receive from anyone what
//! probes have shown them.

use weft_tests::job::Cluster;
use weft_tests::mpi::{Mpi, Run, alone, collectives};

use super::WEFT;

#[test]
fn graphs_are_what_was_named_with_the_library_before_the_mpi_library_and_without() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    let file = file.to_str().expect("text");
    for mpi in Mpi::all() {
        let program = mpi.compile("graph", &["graph.c"], env!("CARGO_TARGET_TMPDIR"));
        for (lab, more) in [(None, &[][..]), (Some(&lab), &[]), (Some(&lab), &["--collectives"])] {
            let options: Vec<&str> = ["--mpi", mpi.name, "--provider", file]
                .into_iter()
                .chain(more.iter().copied())
                .collect();
            let run = Run { weft: WEFT, ranks: 4, lab, options: &options, variables: &[] };
            let said = run.start(&program, &[]).ends_well();
            assert!(said.contains("graph: good"), "{}, {more:?}: {said}", mpi.name);
        }
    }
}
