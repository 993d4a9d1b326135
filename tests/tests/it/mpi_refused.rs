//! What keeps an MPI program from running on Weft is said before it starts, and nothing else is
//! used in its place.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use weft_tests::mpi::{Mpi, Run, alone, provider};

use super::WEFT;

const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

fn steps(mpi: &Mpi) -> PathBuf {
    mpi.compile("steps", &["steps.c"], FOLDER)
}

fn run(options: &[&str], program: &Path) -> Output {
    let run = Run { weft: WEFT, ranks: 2, lab: None, options, variables: &[] };
    run.output(program, &["5"])
}

/// The job did not start, and these words are why.
fn refused(output: &Output, words: &[&str]) {
    let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success() && out.is_empty(), "{}", String::from_utf8_lossy(out));
    for word in words {
        assert!(err.contains(word), "no {word:?} in: {err}");
    }
}

#[test]
fn a_provider_that_is_not_there_or_no_provider_is_named() {
    let _turn = alone();
    let nonsense = Path::new(FOLDER).join("nonsense-fi.so");
    std::fs::write(&nonsense, "no library").expect("a file");
    for mpi in Mpi::all() {
        let program = steps(&mpi);
        let missing = run(&["--provider", "/nowhere/at-all"], &program);
        refused(&missing, &["libweft-fi.so is not found", "/nowhere/at-all", "WEFT_PROVIDER"]);
        let wrong = run(&["--provider", &nonsense.display().to_string()], &program);
        refused(&wrong, &["the provider cannot be loaded", "nonsense-fi.so"]);
    }
}

#[test]
fn a_program_of_another_library_is_named() {
    let _turn = alone();
    for mpi in Mpi::all() {
        let (other, title) =
            if mpi.name == "mpich" { ("openmpi", "MPICH") } else { ("mpich", "Open MPI") };
        let output = run(&["--mpi", other, "--transport", "own"], &steps(&mpi));
        refused(&output, &[&format!("is linked to {title}, not to"), "--mpi"]);
        assert_eq!(output.status.code(), Some(2));
    }
    refused(&run(&[], Path::new("no-such-program-at-all")), &["no-such-program-at-all"]);
}

#[test]
fn a_library_that_is_no_provider_and_a_bad_setting_are_named() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let options = ["--provider", &file.display().to_string()];
    for mpi in Mpi::all() {
        let variables = &[("WEFT_DEVICE", "warp")];
        let job = Run { weft: WEFT, ranks: 2, lab: None, options: &options, variables };
        refused(&job.output(&steps(&mpi), &["5"]), &["warp", "composite"]);
        // A provider, but another one: Weft is not what libfabric then has to offer.
        let own = mpi.provider_of_another();
        let output = run(&["--provider", &own.display().to_string()], &steps(&mpi));
        let name = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
        refused(&output, &[&name]);
    }
}

#[test]
fn nodes_whose_links_cannot_be_used_are_named() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    for mpi in Mpi::all() {
        let run = Run {
            weft: WEFT,
            ranks: 2,
            lab: None,
            options: &["--provider", &file.display().to_string(), "--lab", "nodes=2"],
            variables: &[("WEFT_INTERFACES", "eth77")],
        };
        refused(&run.output(&steps(&mpi), &["5"]), &["on node0", "no link", "WEFT_INTERFACES"]);
    }
}

#[test]
fn nodes_without_a_cable_are_named() {
    let _turn = alone();
    for mpi in Mpi::all() {
        let options = ["--transport", "own", "--lab", "nodes=3,topology=chain"];
        let output = run(&options, &steps(&mpi));
        refused(&output, &["node0 and node2", "no cable"]);
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn the_environment_for_other_launchers_is_the_same() {
    let Some(file) = provider(WEFT) else { return };
    for mpi in Mpi::all() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut command = Command::new(WEFT);
        command.args(["env", "--json", "--mpi", mpi.name, "--provider"]).arg(&file);
        let output = command.current_dir(root).output().expect("weft env");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(said["FI_PROVIDER"], "weft");
        let path = said["FI_PROVIDER_PATH"].as_str().expect("a directory");
        assert!(Path::new(path).join("libweft-fi.so").exists(), "{path}");
        let own = if mpi.name == "mpich" { "MPIR_CVAR_CH4_NETMOD" } else { "OMPI_MCA_mtl" };
        assert_eq!(said[own], "ofi");
    }
}
