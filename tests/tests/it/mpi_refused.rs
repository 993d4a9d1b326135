//! What keeps an MPI program from running on Weft is said before it starts, and nothing else is
//! used in its place.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use weft_tests::job::Cluster;
use weft_tests::mpi::{Mpi, Run, alone, collectives, provider};
use weft_tests::program;

use super::WEFT;

const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

fn steps(mpi: &Mpi) -> PathBuf {
    mpi.compile("steps", &["steps.c"], FOLDER)
}

fn run(options: &[&str], program: &Path) -> Output {
    let run = Run { weft: WEFT, ranks: 2, lab: None, options, variables: &[] };
    run.output(program, &["5"])
}

/// The job did not start, or its program would have said so, and these words are why.
fn refused(output: &Output, words: &[&str]) {
    let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success() && out.is_empty(), "{}", String::from_utf8_lossy(out));
    for word in words {
        assert!(err.contains(word), "no {word:?} in: {err}");
    }
}

fn folder(name: &str) -> TempDir {
    tempfile::Builder::new().prefix(name).tempdir().expect("a folder")
}

/// Makes a script of this name.
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(folder).expect("a folder");
    program::script(&path, &format!("#!/bin/sh\n{text}\n"));
    path
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
        // Two of them have one binary interface, and tell by where the library is.
        let (others, title) = match mpi.name {
            "mpich" => (["openmpi", "impi"], "MPICH"),
            "impi" => (["openmpi", "mpich"], "Intel MPI"),
            _ => (["mpich", "impi"], "Open MPI"),
        };
        for other in others {
            let output = run(&["--mpi", other, "--transport", "own"], &steps(&mpi));
            refused(&output, &[&format!("is linked to {title}, not to"), "--mpi"]);
            assert_eq!(output.status.code(), Some(2));
        }
    }
    refused(&run(&[], Path::new("no-such-program-at-all")), &["no-such-program-at-all"]);
}

#[test]
fn a_library_that_is_no_provider_and_a_bad_setting_are_named() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let options = ["--provider", &file.display().to_string()];
    for mpi in Mpi::all() {
        let job = |variables| {
            let job = Run { weft: WEFT, ranks: 2, lab: None, options: &options, variables };
            job.output(&steps(&mpi), &["5"])
        };
        refused(&job(&[("WEFT_DEVICE", "warp")]), &["warp", "composite"]);
        // This is found out by the ranks only; the library knows no more than an error's number.
        let found_out = job(&[("WEFT_LINKS", "warp")]);
        let said = String::from_utf8_lossy(&found_out.stderr);
        assert!(
            !found_out.status.success() && said.contains("`warp` is no kind of link"),
            "{said}"
        );
        // A provider, but another one: Weft is not what libfabric then has to offer.
        let own = mpi.provider_of_another();
        let output = run(&["--provider", &own.display().to_string()], &steps(&mpi));
        let name = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
        refused(&output, &[&name]);
    }
}

/// The ranks leave word as the provider does, and the launcher has nothing to pass on of them.
#[test]
fn what_a_launcher_drops_of_what_went_wrong_is_said_all_the_same() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let folder = folder("words");
    let silent = "echo 'nothing can be opened' >\"$WEFT_MPIRUN/.said$$\"; exit 3";
    let program = script(folder.path(), "silent", silent);
    for mpi in Mpi::all() {
        let output = run(&["--mpi", mpi.name, "--provider", &file.display().to_string()], &program);
        refused(&output, &["weft mpirun: rank ", ": nothing can be opened"]);
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
fn a_host_that_does_not_answer_is_named() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let folder = folder("way");
    let way = script(folder.path(), "way", "exec sleep 3600").display().to_string();
    for mpi in Mpi::all() {
        let run = Run {
            weft: WEFT,
            ranks: 2,
            lab: None,
            options: &["--provider", &file.display().to_string(), "--hosts", "alpha,beta"],
            variables: &[("WEFT_SSH", &way), ("WEFT_WIREUP_LIMIT_S", "0.1")],
        };
        refused(&run.output(&steps(&mpi), &["5"]), &["on alpha", "has not answered for 0.1 s"]);
    }
}

/// The hosts were looked at, which takes the same way; then the launcher takes it, and fails.
#[test]
fn a_way_that_fails_at_the_launch_is_named() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let folder = folder("way");
    let way = "host=$1; shift; case \"$*\" in *mpi-check*) exec \"$@\" ;; esac; exit 255";
    let way = script(folder.path(), "way", way).display().to_string();
    for mpi in Mpi::all() {
        // Numbers, for launchers ask name servers for names.
        let run = Run {
            weft: WEFT,
            ranks: 2,
            lab: None,
            options: &["--provider", &file.display().to_string(), "--hosts", "127.0.0.9:2"],
            variables: &[("WEFT_SSH", &way)],
        };
        let mut output = run.output(&steps(&mpi), &["5"]);
        // Some launchers say there what they have to say.
        let told = String::from_utf8_lossy(&std::mem::take(&mut output.stdout)).into_owned();
        assert!(!told.contains("begun"), "{}: {told}", mpi.name);
        let words = ["the way to the host 127.0.0.9 has ended with status 255", &way, "WEFT_SSH"];
        refused(&output, &words);
    }
}

#[test]
fn nodes_without_a_cable_are_named() {
    let _turn = alone();
    for mpi in Mpi::all() {
        let options = ["--transport", "own", "--lab", "nodes=3,topology=chain"];
        let output = run(&options, &steps(&mpi));
        refused(&output, &["node0 and node2", "no cable", "--management"]);
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
        let own = match mpi.name {
            "mpich" => "MPIR_CVAR_CH4_NETMOD",
            "impi" => "I_MPI_FABRICS",
            _ => "OMPI_MCA_mtl",
        };
        assert_eq!(said[own], "ofi");
    }
}

#[test]
fn another_version_or_no_weft_on_a_host_is_named() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let room = folder("hosts");
    let way = script(room.path(), "way", "shift; exec \"$@\"");
    let other = "echo '{\"weft\":\"9.9.9\",\"trouble\":null,\"links\":[]}'";
    let other = script(room.path(), "other", other);
    let none = script(room.path(), "none", "echo 'no such program' >&2; exit 127");
    // By its name it is ssh: it must be told to ask for no password, or it would wait for one.
    let ask = "case \"$*\" in *BatchMode=yes*ConnectTimeout=*) ;; *) exit 0 ;; esac\n\
               echo 'Permission denied (publickey,password).' >&2; exit 255";
    let ssh = script(room.path(), "ssh", ask);
    let cure = "alpha weft --version` must work without a password";
    for mpi in Mpi::all() {
        for (way, exe, words) in [
            (&way, &other, ["on alpha", "version 9.9.9 there", "install the same"]),
            (&way, &none, ["on alpha", "no such program", cure]),
            (&ssh, &other, ["on alpha", "Permission denied", cure]),
        ] {
            let (way, exe) = (way.display().to_string(), exe.display().to_string());
            let run = Run {
                weft: WEFT,
                ranks: 2,
                lab: None,
                options: &["--provider", &file.display().to_string(), "--hosts", "alpha:2"],
                variables: &[("WEFT_SSH", &way), ("WEFT_REMOTE_EXE", &exe)],
            };
            refused(&run.output(&steps(&mpi), &["5"]), &words);
        }
    }
}

/// An MPI in a folder of its own: a launcher that says what MPICH's says, and a library that is
/// linked to what says that it is libfabric 1.5, if there is one.
#[test]
fn an_mpi_without_libfabric_or_with_an_old_one_is_named() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let room = folder("mpi");
    let launcher = "[ \"$1\" = --version ] || { echo begun; exit; }\n\
                    echo 'HYDRA build details:'; echo '    Version:    4.1'";
    script(&room.path().join("bin"), "mpiexec.hydra", launcher);
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}/bin:{path}", room.path().display());
    let options = ["--mpi", "mpich", "--provider", &file.display().to_string()];
    let variables = [("PATH", &*path), ("VIRTUAL_ENV", "")];
    let run = Run { weft: WEFT, ranks: 2, lab: None, options: &options, variables: &variables };
    let program = script(room.path(), "program", "echo begun");
    refused(&run.output(&program, &[]), &["MPICH", "built without libfabric", "use the wheels"]);

    let build = "mkdir lib && cd lib && printf '%s\\n' '#include <stdlib.h>' \
        'unsigned fi_version(void) { return 1 << 16 | 5; }' \
        'void *fi_dupinfo(void *info) { return calloc(1, 4096); }' \
        'void fi_freeinfo(void *info) { free(info); }' \
        'int fi_getinfo(void) { return -61; }' >fabric.c && echo 'int MPI_Init;' >mpi.c && \
        cc -shared -fPIC -Wl,-soname,libfabric.so.1 -o libfabric.so.1 fabric.c && \
        cc -shared -fPIC -Wl,--no-as-needed,-rpath,\"$PWD\" -o libmpi.so.12 mpi.c libfabric.so.1";
    let done = Command::new("sh").args(["-c", build]).current_dir(&room).output().expect("sh");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let words = ["libfabric 1.5", "does not give MPICH what it needs", "nothing meets them"];
    refused(&run.output(&program, &[]), &words);
}

#[test]
fn a_program_that_is_linked_to_no_mpi_does_not_choose_one() {
    let _turn = alone();
    let all = Mpi::all();
    if let [one, other] = &all[..] {
        let path = format!("{}:{}", one.path(), other.path());
        let variables = [("PATH", &*path)];
        let run = Run { weft: WEFT, ranks: 2, lab: None, options: &[], variables: &variables };
        let output = run.output(Path::new("echo"), &["begun"]);
        refused(&output, &["echo is not linked to an MPI", "--mpi"]);
        assert_eq!(output.status.code(), Some(2));
    }
}

/// Not refused, for nothing else than Weft is used, and said.
#[test]
fn without_the_right_to_raw_sockets_udp_serves_and_is_named() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for mpi in Mpi::all() {
        let options = ["--provider", &file.display().to_string()];
        let run = Run { weft: WEFT, ranks: 2, lab: Some(&lab), options: &options, variables: &[] };
        let whole = run.command(&steps(&mpi), &["50"]);
        let mut without = Command::new("setpriv");
        without.args(["--bounding-set", "-net_raw", "--inh-caps", "-net_raw"]);
        without.arg(whole.get_program()).args(whole.get_args());
        let output = without.output().expect("setpriv");
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains("@0 done"), "{}: {out}{err}", mpi.name);
        for node in ["node0", "node1"] {
            let told = err.lines().any(|line| {
                let about = format!("weft mpirun: on {node}: packet:lan0: no right");
                line.starts_with(&about) && line.contains("setcap cap_net_raw+ep")
            });
            assert!(told, "{}, {node}: {err}", mpi.name);
        }
        // Where only what needs the right is admitted, nothing can be used.
        without.env("WEFT_LINKS", "packet,tso");
        refused(&without.output().expect("setpriv"), &["on node0", "no link", "CAP_NET_RAW"]);
    }
}

/// What the user's environment says for other jobs does not lead away from Weft: the program counts
/// what Weft has done for it.
#[test]
fn settings_for_other_transports_do_not_lead_away_from_weft() {
    let _turn = alone();
    let Some(file) = collectives(WEFT) else { return };
    let file = file.display().to_string();
    let options = ["--collectives", "--provider", &file];
    let variables = [
        ("FI_PROVIDER", "tcp"),
        ("FI_PROVIDER_PATH", "/nowhere"),
        ("MPIR_CVAR_CH4_NETMOD", "ucx"),
        ("MPIR_CVAR_NOLOCAL", "0"),
        ("OMPI_MCA_pml", "ob1"),
        ("OMPI_MCA_mtl", "^ofi"),
        ("OMPI_MCA_btl", "self,tcp"),
    ];
    for mpi in Mpi::all() {
        let program = mpi.compile("collectives", &["collectives.c"], FOLDER);
        let run = Run { weft: WEFT, ranks: 2, lab: None, options: &options, variables: &variables };
        let output = run.output(&program, &["--seed", "3", "--rounds", "10", "--weft", "10"]);
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("collectives: good"), "{}: {said}{errors}", mpi.name);
    }
}

/// What `weft env` says of a place where nothing but `bin` is on the path, as JSON and for people.
fn environment(place: &Path, bin: &str, options: &[&str]) -> (bool, serde_json::Value, String) {
    let provider = place.join("provider-fi.so");
    std::fs::write(&provider, "").expect("a file");
    let mut command = Command::new(WEFT);
    command.args(["env", "--json", "--provider"]).arg(provider).args(options);
    let output = command.current_dir(place).env("PATH", bin).output().expect("weft env");
    let said = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.success(), said, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Launchers that say which library's they are.
fn fake_launchers(root: &Path) {
    let mpich = "echo 'HYDRA build details:'; echo '    Version:    4.1'";
    script(&root.join("path"), "mpiexec.hydra", mpich);
    script(&root.join("above/.venv/mpich/bin"), "mpiexec", &mpich.replace("4.1", "4.2"));
    script(&root.join("above/.venv/bin"), "mpiexec", "echo 'mpiexec (Open MPI) 5.0.1'");
}

#[test]
fn the_path_counts_first_and_then_what_is_above() {
    let room = folder("found");
    let root = room.path();
    fake_launchers(root);
    let (path, below) = (root.join("path").display().to_string(), root.join("above/far/below"));
    std::fs::create_dir_all(&below).expect("a folder");

    let (good, said, told) = environment(&below, &path, &[]);
    assert!(good && said["MPIR_CVAR_NOLOCAL"] == "1" && said["OMPI_MCA_pml"] == "cm", "{told}");
    for words in [format!("for MPICH 4.1.0, {path}/mpiexec"), "for Open MPI 5.0.1, ".into()] {
        assert!(told.contains(&words), "no {words}: {told}");
    }
    let (good, _, told) = environment(&below, "/nowhere", &["--mpi", "mpich"]);
    assert!(good && told.contains("for MPICH 4.2.0, ") && !told.contains("Open MPI"), "{told}");

    // What is not there is left out, and said.
    let (good, said, told) = environment(root, &path, &[]);
    assert!(good && said["OMPI_MCA_pml"].is_null(), "{said}");
    assert!(told.contains("left out: Open MPI is not here") && told.contains("PATH"), "{told}");
    let (good, _, told) = environment(root, "/nowhere", &[]);
    assert!(!good && told.contains("no MPI is here"), "{told}");
}

#[test]
fn programs_that_another_user_has_put_above_are_not_started() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can make files of another user");
        return;
    }
    let room = folder("others");
    fake_launchers(room.path());
    let above = room.path().join("above");
    std::os::unix::fs::chown(above.join(".venv"), Some(4711), None).expect("another owner");
    let (good, _, told) = environment(&above, "/nowhere", &[]);
    assert!(!good && told.contains("no MPI is here"), "{told}");
}

/// By a launcher of the MPI's own, for `weft mpirun` makes a key.
#[test]
fn a_key_that_is_none_is_refused_by_the_ranks() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    for mpi in Mpi::all() {
        let mut command = Command::new(WEFT);
        command.args(["env", "--json", "--mpi", mpi.name, "--provider"]).arg(&file);
        let said = command.env("PATH", mpi.path()).output().expect("weft env").stdout;
        let variables: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
        let mut job = mpi.launcher();
        for (name, value) in variables.as_object().expect("an object") {
            job.env(name, value.as_str().expect("a text"));
        }
        // Short of a digit, then whole.
        let key = "00112233445566778899aabbccddeeff";
        job.arg("-n").arg("1").arg(steps(&mpi)).arg("5").env("WEFT_JOB_KEY", &key[1..]);
        let output = job.output().expect("mpiexec");
        let said = String::from_utf8_lossy(&output.stderr);
        let named = "WEFT_JOB_KEY=...: it has 31 characters";
        assert!(!output.status.success() && said.contains(named), "{said}");
        let good = job.env("WEFT_JOB_KEY", key).output().expect("mpiexec");
        assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    }
}
