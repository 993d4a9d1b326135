//! MPI programs under `weft mpirun`: they run, on the libraries' own transports and on Weft; a
//! rank's death is named, a pulled cable only delays, and nothing is left behind. `make test-mpi`
//! runs the long form.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use weft_tests::job::{Cluster, Job, KILL, eventually, inhabitants, namespace, run_in, signal};
use weft_tests::mpi::{Mpi, Run, alone, collectives, provider};

use super::WEFT;

const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");
const OWN: &[&str] = &["--transport", "own"];
/// Faults that every message meets.
const FAULTS: (&str, &str) = ("WEFT_FAULT", "loss=1%,dup=1%,reorder=1%,seed=11");
/// SIGINT.
const INT: i32 = 2;

fn stress(mpi: &Mpi) -> PathBuf {
    mpi.compile("stress", &["stress.c", "stress_messages.c", "stress_shared.c"], FOLDER)
}

fn steps(mpi: &Mpi) -> PathBuf {
    mpi.compile("steps", &["steps.c"], FOLDER)
}

fn here(ranks: u32) -> Run<'static> {
    Run { weft: WEFT, ranks, lab: None, options: &[], variables: &[] }
}

/// Options that say which provider to use.
fn on_weft(file: &std::path::Path) -> [&str; 2] {
    ["--provider", file.to_str().expect("a target directory's name is text")]
}

/// Runs the stress program and wants it to end well.
fn stressed(run: &Run<'_>, mpi: &Mpi, arguments: &[&str]) {
    let said = run.start(&stress(mpi), arguments).ends_well();
    assert!(said.contains("stress: good"), "{said}");
}

#[test]
fn programs_run_on_the_libraries_own_transports() {
    let _turn = alone();
    let lab = Cluster::new(WEFT, "nodes=2");
    for mpi in Mpi::all() {
        let small = ["--seed", "5", "--rounds", "20", "--largest", "100000"];
        stressed(&Run { options: OWN, ..here(3) }, &mpi, &small);
        if let Some(lab) = &lab {
            stressed(&Run { options: OWN, lab: Some(lab), ..here(3) }, &mpi, &small);
        }
    }
}

#[test]
fn programs_run_on_weft_within_a_node() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let options = on_weft(&file);
    for mpi in Mpi::all() {
        let run = Run { options: &options, ..here(2) };
        stressed(&run, &mpi, &["--seed", "7", "--rounds", "60"]);
        let run = Run { options: &options, ..here(4) };
        stressed(&run, &mpi, &["--seed", "8", "--rounds", "20", "--largest", "1000000"]);
        stressed(&run, &mpi, &["--seed", "9", "--rounds", "20", "--only", "threads", "--threads"]);
    }
}

#[test]
fn programs_run_on_weft_between_nodes_whatever_the_cable_does() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let options = on_weft(&file);
    for (spec, variables) in [("nodes=2", &[][..]), ("nodes=3,topology=mesh", &[FAULTS])] {
        let Some(lab) = Cluster::new(WEFT, spec) else { return };
        for mpi in Mpi::all() {
            let run = Run { options: &options, lab: Some(&lab), variables, ..here(4) };
            stressed(&run, &mpi, &["--seed", "10", "--rounds", "30", "--largest", "2000000"]);
        }
    }
}

#[test]
fn the_benchmark_that_libraries_are_compared_by_gives_each_figure() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let options = on_weft(&file);
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    let words = "lat 8 ssend 100 sendrecv 8 neighbours 100 bw 1024 bibw 1024 barrier 0 bcast 8 \
                 cast 8 reduce 80 allreduce 8 allgather 100 alltoall 100 alltoallv 101 \
                 neighbour_alltoall 100 put 8 lput 8 biput 100 get 100 acc 80 fadd 0";
    for mpi in Mpi::all() {
        let program = mpi.compile("patterns", &["../../examples/mpi/patterns.c"], FOLDER);
        let run = Run { options: &options, lab: Some(&lab), ..here(2) };
        let all: Vec<&str> = ["x", "2"].into_iter().chain(words.split(' ')).collect();
        let done = run.output(&program, &all);
        let said = String::from_utf8_lossy(&done.stdout);
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {said}{errors}", mpi.name);
        let begins =
            |(line, word): (&str, &&str)| line.starts_with(&format!("{{\"bench\":\"{word}\""));
        let benches: Vec<&str> = words.split(' ').step_by(2).collect();
        assert_eq!(said.lines().count(), benches.len(), "{}: {said}{errors}", mpi.name);
        assert!(said.lines().zip(&benches).all(begins), "{}: {said}", mpi.name);
    }
}

/// A comparison of one kernel and one pattern within a node, and what it says.
fn compared(mpi: &Mpi, provider: &Path) -> (Option<i32>, Vec<serde_json::Value>) {
    let plot = tempfile::tempdir().expect("a directory");
    let only = format!("{},2x1,wavefront,barrier", mpi.name);
    let mut command = Command::new(WEFT);
    command.args(["compare", "--mpi", "--json", "--rounds", "1", "--ms", "10", "--only", &only]);
    command.arg("--provider").arg(provider).arg("--svg").arg(plot.path().join("plot.svg"));
    let done = command.env("PATH", mpi.path()).output().expect("weft starts");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    eprintln!("{}", String::from_utf8_lossy(&done.stderr));
    let lines = said.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
    (done.status.code(), lines.collect())
}

/// The lines of one kind.
fn of<'a>(lines: &'a [serde_json::Value], bench: &str) -> Vec<&'a serde_json::Value> {
    lines.iter().filter(|line| line["bench"] == bench).collect()
}

#[test]
fn a_comparison_has_a_cell_for_each_thing_done_and_sums_them_up() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    for mpi in Mpi::all() {
        let (code, lines) = compared(&mpi, &file);
        assert_eq!(code, Some(0), "{lines:?}");
        let cells = of(&lines, "cell");
        let what: Vec<&str> = cells.iter().filter_map(|cell| cell["what"].as_str()).collect();
        assert_eq!(what, ["small", "large", "0"], "{lines:?}");
        for cell in &cells {
            let ratio = cell["ratio"].as_f64().expect("a ratio");
            assert_eq!(cell["slower"], ratio > cell["limit"].as_f64().expect("a limit"), "{cell}");
            assert!(ratio > 0.0 && cell["failed"] == false, "{cell}");
        }
        let sums = of(&lines, "summary");
        let counts: Vec<_> = sums.iter().map(|sum| sum["cells"].as_u64()).collect();
        assert_eq!(counts, [Some(2), Some(1)], "{sums:?}");
        assert!(sums[0]["mpi_geometric_mean"].is_f64() && sums[1]["mpi_geometric_mean"].is_null());
    }
}

/// A provider that cannot be loaded: nothing runs on Weft, all else is measured and shown.
#[test]
fn what_fails_in_a_comparison_is_shown_as_such_and_the_rest_goes_on() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a directory");
    let broken = folder.path().join("libweft-fi.so");
    fs::write(&broken, "no library").expect("a file");
    for mpi in Mpi::all() {
        let (code, lines) = compared(&mpi, &broken);
        assert_eq!(code, Some(1), "{lines:?}");
        let cells = of(&lines, "cell");
        assert!(cells.len() == 3 && cells.iter().all(|cell| cell["failed"] == true), "{lines:?}");
        let own = format!("{} own 2x1", mpi.name);
        assert!(of(&lines, "wavefront").iter().all(|line| line["device"] == *own), "{lines:?}");
        assert_eq!(of(&lines, "wavefront").len(), 2, "{lines:?}");
        assert_eq!(of(&lines, "summary")[0]["failed"], 2);
    }
}

/// With a session for each rank or node, Linux would share the cores out by session, and ranks that
/// wait politely would stand still until others take them for dead.
#[test]
fn the_ranks_of_a_machine_share_a_session_and_nothing_is_preloaded_unasked() {
    let _turn = alone();
    if collectives(WEFT).is_none() {
        return;
    }
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for mpi in Mpi::all() {
        for lab in [None, Some(&lab)] {
            let options = &[OWN, &["--mpi", mpi.name]].concat();
            let variables = &[("PATH", &*mpi.path())];
            let run = Run { options, lab, variables, ..here(2) };
            let told = ["-c", "echo $(cut -d ' ' -f 6 /proc/self/stat) ${LD_PRELOAD-nothing}"];
            let done = run.output(std::path::Path::new("sh"), &told);
            let said = String::from_utf8_lossy(&done.stdout);
            let lines: Vec<&str> = said.lines().collect();
            let ended = String::from_utf8_lossy(&done.stderr);
            let alike = lines.len() == 2 && lines[0] == lines[1];
            assert!(alike && lines[0].ends_with(" nothing"), "{} {said}{ended}", mpi.name);
        }
    }
}

/// Starts three ranks that take steps, and waits until they do.
fn stepping(run: &Run<'_>, mpi: &Mpi) -> (Job, Vec<u32>) {
    let mut job = run.start(&steps(mpi), &[]);
    let pids = job.pids(run.ranks);
    job.grows("@0 steps ", 1);
    (job, pids)
}

/// The processes of the job that `rank` is one of, by the mark that all have, and what they keep
/// outside of its folders: the job's own folder and what they have open or mapped.
fn belongings(rank: u32) -> (Vec<u32>, Vec<PathBuf>) {
    let environment = |pid: u32| fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let is_mark = |word: &&[u8]| word.starts_with(b"WEFT_MPIRUN=");
    let own = environment(rank);
    let mark = own.split(|b| *b == 0).find(is_mark).expect("a mark").to_vec();
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let mut all: Vec<u32> = entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    all.retain(|pid| environment(*pid).split(|b| *b == 0).any(|word| word == mark));
    let text = String::from_utf8_lossy(&mark).into_owned();
    let mut files = vec![PathBuf::from(text.trim_start_matches("WEFT_MPIRUN="))];
    for pid in &all {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        files.extend(maps.lines().filter_map(|line| Some(PathBuf::from(&line[line.find('/')?..]))));
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.extend(open.filter_map(|entry| fs::read_link(entry.path()).ok()));
    }
    let temporary = |file: &PathBuf| file.parent().is_some_and(|p| p == Path::new("/tmp"));
    // A rank that starts looks at pages of others, whether they are left behind.
    let page_of_others = |file: &PathBuf| {
        let name = file.file_name().map_or(String::new(), |name| name.to_string_lossy().into());
        let is_page = file.parent().is_some_and(|p| p.to_string_lossy().contains("/weft-"));
        is_page && !all.iter().any(|pid| name.starts_with(&format!("{pid}-")))
    };
    let is_kept = |file: &PathBuf| file.starts_with("/dev/shm") || temporary(file);
    let kept = |file: &PathBuf| is_kept(file) && !page_of_others(file);
    let folder = files[0].clone();
    files.retain(|file| (*file == folder || kept(file)) && file.exists());
    assert!(files.contains(&folder), "the job's folder is not there");
    (all, files)
}

/// Kills a rank in the middle of a collective; the job must end, say who it was, and leave nothing.
fn a_death_is_named(run: &Run<'_>, mpi: &Mpi, place: &str) {
    let (job, pids) = stepping(run, mpi);
    let (all, files) = belongings(pids[0]);
    assert!(all.len() > pids.len() && pids.iter().all(|pid| all.contains(pid)), "{all:?}");
    let victim = run.ranks - 1;
    signal(pids[victim as usize], KILL);
    let (status, said) = job.ends();
    nothing_is_left(&all, &[]);
    let ended = format!("the end of the job's files, {files:?},");
    eventually(&ended, || !files.iter().any(|file| file.exists()));
    assert!(!status.success(), "{said}");
    let name = format!("rank {victim} (process {} on {place})", pids[victim as usize]);
    assert!(said.contains(&name), "{} on {place}: no {name:?} in:\n{said}", mpi.name);
}

#[test]
fn a_killed_rank_ends_the_job_and_is_named() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let options = on_weft(&file);
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for mpi in Mpi::all() {
        let run = Run { options: &options, ..here(3) };
        a_death_is_named(&run, &mpi, &weft_sys::ns::host_name());
        let run = Run { options: &options, lab: Some(&lab), ..here(3) };
        a_death_is_named(&run, &mpi, "node1");
    }
}

#[test]
fn a_pulled_cable_only_delays() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let options = on_weft(&file);
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for mpi in Mpi::all() {
        let run = Run { options: &options, lab: Some(&lab), ..here(2) };
        let (mut job, pids) = stepping(&run, &mpi);
        let switch = lab.switch();
        run_in(&switch, "ip", &["link", "set", "p0-1", "down"]);
        std::thread::sleep(Duration::from_secs(3));
        run_in(&switch, "ip", &["link", "set", "p0-1", "up"]);
        job.grows("@0 steps ", 10);
        signal(job.pid(), INT);
        assert_eq!(job.ends().0.code(), Some(130));
        eventually("the end of all ranks", || {
            pids.iter().all(|pid| weft_sys::process::start_time(*pid).is_none())
        });
    }
}

/// Whether nothing of a job is left.
fn nothing_is_left(pids: &[u32], rooms: &[String]) {
    eventually("the end of all ranks", || {
        pids.iter().all(|pid| weft_sys::process::start_time(*pid).is_none())
    });
    eventually("the end of the launcher's helpers", || {
        rooms.iter().all(|room| inhabitants(room).is_empty())
    });
}

#[test]
fn an_interrupted_or_killed_job_leaves_nothing_behind() {
    let _turn = alone();
    for mpi in Mpi::all() {
        for number in [INT, KILL] {
            let run = Run { options: OWN, ..here(3) };
            let (job, pids) = stepping(&run, &mpi);
            signal(job.pid(), number);
            let said = job.ends();
            assert_eq!(said.0.code(), if number == INT { Some(130) } else { None }, "{}", said.1);
            nothing_is_left(&pids, &[]);

            let options = ["--transport", "own", "--lab", "nodes=2"];
            let run = Run { options: &options, ..here(3) };
            let (job, pids) = stepping(&run, &mpi);
            let rooms: Vec<String> = pids.iter().filter_map(|p| namespace(*p).ok()).collect();
            signal(job.pid(), number);
            job.ends();
            nothing_is_left(&pids, &rooms);
        }
    }
}

/// Ends the guard of a job of a container that has `/dev/shm` and `/tmp`, but not the processes.
/// `meanwhile` is called when it has begun.
fn guarded_elsewhere(mark: &Path, meanwhile: impl FnOnce()) {
    let mut guard = Command::new("unshare");
    guard.args(["--pid", "--fork", "--mount-proc", WEFT, "mpirun-guard"]).arg(mark);
    let mut guard = guard.stdin(Stdio::piped()).spawn().expect("unshare");
    let path = mark.display().to_string();
    let waits = |pid: &str| {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let (line, status) = (read("cmdline"), read("status"));
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let waiting = String::from_utf8_lossy(&status).contains("State:\tS");
        line.starts_with(WEFT) && line.contains(&path) && waiting
    };
    eventually("the guard", || {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|e| e.file_name().into_string().ok()).any(|pid| waits(&pid))
    });
    meanwhile();
    drop(guard.stdin.take());
    assert!(guard.wait().expect("its end").success());
}

#[test]
fn what_another_container_has_in_use_is_not_removed() {
    let works = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
    if !works.is_ok_and(|done| done.status.success()) {
        println!("SKIPPED: a PID namespace of one's own cannot be had here (root's right)");
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let mark = folder.path().join("job");
    let file = PathBuf::from(format!("/dev/shm/mpich_weft-used-{}", std::process::id()));
    let mut open = None;
    guarded_elsewhere(&mark, || open = Some(fs::File::create(&file).expect("a file")));
    assert!(file.exists());
    drop(open);
    eventually("the end of a file that nobody uses", || {
        guarded_elsewhere(&mark, || drop(fs::File::create(&file).expect("a file")));
        !file.exists()
    });
}
