//! Endpoints that an MPI library opens for remote memory, in case that it is wanted.

use weft_tests::job::Cluster;
use weft_tests::mpi::{Mpi, Run, alone, provider};

use super::WEFT;

/// The kernel offers each frame to every packet socket, so one that nobody needs costs all of them.
#[test]
fn links_of_an_endpoint_for_remote_memory_are_opened_with_the_first_window() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let options = ["--provider", file.to_str().expect("text")];
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for mpi in Mpi::all() {
        let program = mpi.compile("window_later", &["window_later.c"], env!("CARGO_TARGET_TMPDIR"));
        let run = Run { weft: WEFT, ranks: 2, lab: Some(&lab), options: &options, variables: &[] };
        let said = run.start(&program, &[]).ends_well();
        for rank in 0..2 {
            let line = format!("window_later: rank {rank} has 1 and ");
            assert!(said.contains(&line), "{}: {said}", mpi.name);
        }
    }
}
