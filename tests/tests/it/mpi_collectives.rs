//! MPI programs whose collective operations are Weft's (`weft mpirun --collectives`), and those
//! that are not: the results are the MPI library's own, and a death is named.

use std::path::{Path, PathBuf};
use std::process::Command;

use weft_tests::job::Cluster;
use weft_tests::mpi::{Mpi, Run, alone, collectives};

use super::WEFT;

const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

fn program(mpi: &Mpi) -> PathBuf {
    mpi.compile("collectives", &["collectives.c"], FOLDER)
}

/// Options that have Weft do collective operations.
fn by_weft(file: &Path) -> [&str; 3] {
    let file = file.to_str().expect("a target directory's name is text");
    ["--collectives", "--provider", file]
}

/// Runs the program and wants it to end well, with so many operations done by Weft.
fn good(run: &Run<'_>, mpi: &Mpi, least: &str, arguments: &[&str]) {
    let all = [&["--rounds", "8", "--largest", "300000", "--weft", least], arguments].concat();
    let said = run.start(&program(mpi), &all).ends_well();
    assert!(said.contains("collectives: good"), "{} said: {said}", mpi.name);
}

#[test]
fn results_are_right_within_a_node() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let options = by_weft(&file);
    for mpi in Mpi::all() {
        let run = Run { weft: WEFT, ranks: 3, lab: None, options: &options, variables: &[] };
        good(&run, &mpi, "100", &["--seed", "2", "--threads", "--in-order"]);
        good(&Run { ranks: 1, ..run }, &mpi, "0", &[]);
        for ranks in [2, 5, 8] {
            good(&Run { ranks, ..run }, &mpi, "500", &["--seed", "5", "--rounds", "3"]);
        }
    }
}

#[test]
fn results_are_right_between_nodes_whatever_gets_lost() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let options = by_weft(&file);
    let Some(lab) = Cluster::new(WEFT, "nodes=3") else { return };
    for mpi in Mpi::all() {
        let lab = Some(&lab);
        let run = Run { weft: WEFT, ranks: 5, lab, options: &options, variables: &[] };
        good(&run, &mpi, "200", &["--seed", "3"]);
        let variables = &[("WEFT_FAULT", "loss=1%,dup=1%,reorder=1%,seed=12")];
        good(&Run { variables, ..run }, &mpi, "200", &["--seed", "4", "--threads"]);
    }
}

#[test]
fn what_weft_does_is_the_users_choice() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let options = by_weft(&file);
    let lab = Cluster::new(WEFT, "nodes=2");
    for mpi in Mpi::all() {
        for (choice, least, status) in [("barrier", "100", 0), ("none", "0", 0), ("none", "1", 1)] {
            let variables = &[("WEFT_COLLECTIVES", choice)];
            let lab = lab.as_ref();
            let run = Run { weft: WEFT, ranks: 2, lab, options: &options, variables };
            let arguments = ["--rounds", "4", "--largest", "5000", "--weft", least];
            let (ended, said) = run.start(&program(&mpi), &arguments).ends();
            assert_eq!(i32::from(!ended.success()), status, "{choice} {least}: {said}");
        }
    }
}

/// Also where a rank wants nothing: it does not go its own way while the others wait for it.
#[test]
fn of_different_choices_what_all_have_named_is_done() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let options = by_weft(&file);
    let choices = [
        ("all/none/all", "0"),
        ("none/all/barrier", "0"),
        ("barrier/bcast/allreduce", "0"),
        ("barrier,bcast/all/barrier", "100"),
    ];
    for mpi in Mpi::all() {
        for (choices, least) in choices {
            let run = Run { weft: WEFT, ranks: 3, lab: None, options: &options, variables: &[] };
            good(&run, &mpi, least, &["--choices", choices]);
        }
    }
}

#[test]
fn a_member_that_dies_is_named_wherever_it_was() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let options = by_weft(&file);
    let Some(lab) = Cluster::new(WEFT, "nodes=3") else { return };
    let every = Mpi::all()
        .into_iter()
        .flat_map(|mpi| ["0", "1", "2", "3", "4"].map(|at| (mpi.clone(), at)));
    for (mpi, place) in every {
        // Reductions to one rank, and exchanges, are the library's own between nodes.
        for lab in [Some(&lab), None].into_iter().skip(usize::from(place >= "3")) {
            dies(
                &Run { weft: WEFT, ranks: 3, lab, options: &options, variables: &[] },
                &mpi,
                place,
            );
        }
    }
}

fn dies(run: &Run<'_>, mpi: &Mpi, place: &str) {
    let (status, said) = run.start(&program(mpi), &["--die", place]).ends();
    assert!(!status.success(), "{said}");
    assert!(said.contains("rank 2 (process "), "{}: {said}", mpi.name);
    // Where the launcher lets them live for so long, the others have been told by name.
    for line in said.lines().filter(|line| line.contains("told:")) {
        assert!(line.contains("rank 2 of the communicator (process "), "{line}");
    }
}

#[test]
fn what_is_missing_is_said_before_the_start() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let folder = tempfile::tempdir().expect("a directory");
    let lonely = folder.path().join("one/two/libweft-fi.so");
    std::fs::create_dir_all(lonely.parent().expect("a folder")).expect("a directory");
    std::fs::copy(&file, &lonely).expect("a copy");
    for mpi in Mpi::all() {
        let options = by_weft(&lonely);
        let run = Run { weft: WEFT, ranks: 2, lab: None, options: &options, variables: &[] };
        let (status, said) = run.start(&program(&mpi), &[]).ends();
        assert!(!status.success() && said.contains("libweft-mpi.so"), "{said}");
        let options = ["--collectives", "--transport", "own"];
        let run = Run { options: &options, ..run };
        let (status, said) = run.start(&program(&mpi), &[]).ends();
        assert!(status.code() == Some(2) && said.contains("--transport own"), "{said}");
    }
}

/// libfabric loads whatever has such a name in the provider's folder, and uses one of them.
#[test]
fn another_build_of_the_provider_beside_it_takes_nothing_away() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let folder = tempfile::tempdir().expect("a directory");
    let of = |name: &str| folder.path().join(name);
    std::fs::copy(file.with_file_name("libweft_mpi.so"), of("libweft-mpi.so")).expect("a copy");
    for names in [&["libweft-fi.so", "libweft_fi.so"][..], &["liba-fi.so", "libz-fi.so"]] {
        for name in names {
            std::fs::copy(&file, of(name)).expect("a copy");
        }
        let meant = of("libweft-fi.so");
        let options = by_weft(&meant);
        for mpi in Mpi::all() {
            let run = Run { weft: WEFT, ranks: 2, lab: None, options: &options, variables: &[] };
            good(&run, &mpi, "100", &["--no-windows"]);
        }
    }
}

#[test]
fn a_library_of_another_build_is_refused_before_the_start() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let folder = tempfile::tempdir().expect("a directory");
    let meant = folder.path().join("libweft-fi.so");
    std::fs::copy(&file, &meant).expect("a copy");
    let build = "echo 'int weft_mpi_of_long_ago;' >a.c && cc -shared -fPIC -o libweft-mpi.so a.c";
    let done = Command::new("sh").args(["-c", build]).current_dir(&folder).output().expect("sh");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let options = by_weft(&meant);
    for mpi in Mpi::all() {
        let run = Run { weft: WEFT, ranks: 2, lab: None, options: &options, variables: &[] };
        let (status, said) = run.start(&program(&mpi), &[]).ends();
        assert!(!status.success() && said.contains("are of different builds"), "{said}");
        // Where nobody has asked for it, all goes on without it.
        let run = Run { options: &options[1..], ..run };
        let said = run.start(&program(&mpi), &["--rounds", "2", "--largest", "5000"]).ends_well();
        assert!(said.contains("collectives: good"), "{said}");
        assert!(said.contains("which would make it faster"), "{said}");
    }
}

/// What is wrong is an error of the library's, and nothing that Weft stumbles over.
#[test]
fn odd_arguments_are_the_librarys_to_judge() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let options = by_weft(&file);
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for mpi in Mpi::all() {
        let program = mpi.compile("odd", &["odd.c"], FOLDER);
        for (ranks, lab, least) in [(3, None, "10"), (3, Some(&lab), "30")] {
            let run = Run { weft: WEFT, ranks, lab, options: &options, variables: &[] };
            let said = run.start(&program, &["--weft", least]).ends_well();
            assert!(said.contains("odd: good"), "{} said: {said}", mpi.name);
        }
    }
}
