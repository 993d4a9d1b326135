//! Wire-up under other launchers than `weft run`: Hydra of MPICH and prterun of Open MPI, where
//! they are installed.

use std::path::PathBuf;

use super::*;

/// A program of an MPI library's wheel, in `.venv/NAME` or `.venv` of the project or in the active
/// virtual environment; says so loudly if there is none.
pub fn launcher(library: &str, program: &str) -> Option<PathBuf> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut roots = vec![project.join(".venv").join(library), project.join(".venv")];
    roots.extend(std::env::var_os("VIRTUAL_ENV").map(PathBuf::from));
    let found = roots.iter().map(|r| r.join("bin").join(program)).find(|p| p.exists());
    if found.is_none() {
        println!("SKIPPED: {program}: pip install {library} in .venv/{library} brings it");
    }
    found
}

fn probe(launcher: &Path, options: &[&str]) -> String {
    probe_by(&mut Command::new(launcher), options)
}

fn probe_by(command: &mut Command, options: &[&str]) -> String {
    command.args(options).args(["-n", "3", WEFT, "run-probe", "--rounds", "2"]);
    command.args(["--bytes", "5000"]);
    // Root is told apart by Open MPI; the tests may be run by it.
    command.env("PRTE_ALLOW_RUN_AS_ROOT", "1").env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let output = command.output().expect("the launcher starts");
    assert!(output.status.success(), "{}{}", out(&output), err(&output));
    out(&output)
}

fn all_by(service: &str, text: &str) {
    for rank in 0..3 {
        let start = format!("rank {rank} of 3 on ");
        let line = text.lines().find(|l| l.contains(&start));
        assert!(line.is_some_and(|l| l.contains(service)), "{text}");
    }
}

#[test]
fn hydra_starts_ranks_that_find_each_other() {
    let Some(mpiexec) = launcher("mpich", "mpiexec.hydra") else { return };
    all_by("PMI-1", &probe(&mpiexec, &[]));
    all_by("PMI-1", &probe(&mpiexec, &["-pmi-port"]));
}

#[test]
fn hydra_inside_a_rank_starts_ranks_that_find_each_other() {
    let Some(mpiexec) = launcher("mpich", "mpiexec.hydra") else { return };
    let mut outer = Command::new(WEFT);
    outer.args(["run", "-n", "1", "--"]).arg(mpiexec);
    all_by("PMI-1", &probe_by(&mut outer, &[]));
}

#[test]
fn prterun_starts_ranks_that_find_each_other() {
    let Some(prterun) = launcher("openmpi", "prterun") else { return };
    all_by("PMIx", &probe(&prterun, &["--map-by", ":OVERSUBSCRIBE"]));
}

#[test]
fn prterun_inside_a_rank_starts_ranks_that_find_each_other() {
    let Some(prterun) = launcher("openmpi", "prterun") else { return };
    let mut outer = Command::new(WEFT);
    outer.args(["run", "-n", "1", "--"]).arg(prterun);
    all_by("PMIx", &probe_by(&mut outer, &["--map-by", ":OVERSUBSCRIBE"]));
}
