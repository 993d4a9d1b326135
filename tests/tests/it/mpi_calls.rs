//! What `weft mpirun --profile` says of the calls of MPI programs: each is counted once, whatever
//! the library and however many arguments it has; without `--profile` nothing counts them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use weft_tests::job::{KILL, signal};
use weft_tests::mpi::{Mpi, Run, alone, counted};

use super::WEFT;

const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// What each rank of `calls.c` calls.
const CALLS: [(&str, u64); 19] = [
    ("MPI_Allreduce", 5),
    ("MPI_Alltoallw", 2),
    ("MPI_Barrier", 7),
    ("MPI_Comm_dup", 1),
    ("MPI_Comm_free", 1),
    ("MPI_Finalize", 1),
    ("MPI_Init_thread", 1),
    ("MPI_Irecv", 30),
    ("MPI_Isend", 30),
    ("MPI_Rget_accumulate", 3),
    ("MPI_Sendrecv", 40),
    ("MPI_Test", 4000),
    ("MPI_Wait", 3),
    ("MPI_Waitall", 30),
    ("MPI_Win_allocate", 1),
    ("MPI_Win_fence", 2),
    ("MPI_Win_free", 1),
    ("MPI_Win_lock_all", 1),
    ("MPI_Win_unlock_all", 1),
];

fn program(mpi: &Mpi) -> PathBuf {
    mpi.compile("calls", &["calls.c"], FOLDER)
}

/// A folder for pages and a profile, the options by which that is written, and the variables.
struct Room {
    folder: TempDir,
    provider: String,
    option: String,
}

impl Room {
    fn new(provider: &Path) -> Room {
        let folder = tempfile::Builder::new().prefix("calls").tempdir().expect("a folder");
        let option = format!("--profile={}", folder.path().join("p.html").display());
        Room { folder, provider: provider.to_str().expect("text").into(), option }
    }

    fn path(&self) -> &str {
        self.folder.path().to_str().expect("a path")
    }

    fn options(&self) -> [&str; 3] {
        ["--provider", &self.provider, &self.option]
    }

    fn record(&self) -> Value {
        let text = std::fs::read_to_string(self.folder.path().join("p.html.json"));
        let pages = std::fs::read_dir(self.folder.path().join("weft-pages"));
        assert_eq!(pages.map_or(0, Iterator::count), 0, "pages are left");
        serde_json::from_str(&text.expect("a record")).expect("an object")
    }
}

/// The ranks of a record.
fn ranks(run: &Value) -> &Vec<Value> {
    run["ranks"].as_array().expect("ranks")
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("{of} is no number"))
}

/// The functions of a rank: name, calls, ns; in the order of their names.
fn functions(rank: &Value) -> Vec<(&str, u64, u64)> {
    let all = rank["functions"].as_array().unwrap_or_else(|| panic!("no functions in {rank}"));
    let one = |f: &'_ Value| (number(&f["calls"]), number(&f["ns"]));
    let mut all: Vec<_> =
        all.iter().map(|f| (f["name"].as_str().expect("a name"), one(f).0, one(f).1)).collect();
    all.sort();
    all
}

#[test]
fn calls_are_counted_once_and_their_times_are_the_time_in_calls() {
    let _turn = alone();
    let Some(file) = counted(WEFT) else { return };
    for mpi in Mpi::all() {
        let room = Room::new(&file);
        let variables = [("XDG_RUNTIME_DIR", room.path())];
        let options = room.options();
        let run = Run { weft: WEFT, ranks: 3, lab: None, options: &options, variables: &variables };
        let said = run.start(&program(&mpi), &[]).ends_well();
        let name = mpi.name;
        assert!(said.contains("calls: good") && said.contains("counted 1, user -1"), "{said}");
        let run = room.record();
        assert_eq!(ranks(&run).len(), 3, "{name}: {run}");
        for (number_of, rank) in ranks(&run).iter().enumerate() {
            let mut wanted = CALLS.to_vec();
            wanted.extend(match number_of {
                0 => Some(("MPI_Recv", 1)),
                1 => Some(("MPI_Send", 1)),
                _ => None,
            });
            wanted.sort();
            let found = functions(rank);
            let calls: Vec<_> = found.iter().map(|(name, calls, _)| (*name, *calls)).collect();
            assert_eq!(calls, wanted, "{name}: rank {number_of}");
            let sum: u64 = found.iter().map(|(_, _, ns)| ns).sum();
            let (lasted, waits) = (number(&rank["lasted_ns"]), number(&rank["waits_ns"]));
            assert_eq!(number(&rank["calls_ns"]), sum.min(lasted), "{name}: {rank}");
            assert!(waits > 0 && waits <= sum, "{name}: waits of {waits} in calls of {sum}");
        }
        let table = said.lines().find(|line| line.starts_with("calls "));
        assert!(table.is_some_and(|line| line.contains('%')), "{name}: {said}");
        let page = std::fs::read_to_string(room.folder.path().join("p.html")).expect("a page");
        assert!(page.contains("<th>MPI_Sendrecv</th>"), "{name}");
    }
}

#[test]
fn without_a_profile_nothing_is_counted_and_what_the_user_preloads_stays() {
    let _turn = alone();
    let Some(file) = counted(WEFT) else { return };
    let user = Path::new(FOLDER).join(format!("user-{}.so", std::process::id()));
    let text = "int user_sendrecvs; typedef long w; \
        int PMPI_Sendrecv(w, w, w, w, w, w, w, w, w, w, w, w); \
        int MPI_Sendrecv(w a, w b, w c, w d, w e, w f, w g, w h, w i, w j, w k, w l) \
        { user_sendrecvs++; return PMPI_Sendrecv(a, b, c, d, e, f, g, h, i, j, k, l); }";
    let build = "printf '%s' \"$1\" | cc -O1 -shared -fPIC -x c -o \"$0\" -";
    let built = Command::new("sh").args(["-c", build]).arg(&user).arg(text).status();
    assert!(built.expect("sh").success());
    for mpi in Mpi::all() {
        let room = Room::new(&file);
        let preload = user.to_str().expect("a path");
        let variables = [("XDG_RUNTIME_DIR", room.path()), ("LD_PRELOAD", preload)];
        let options = room.options();
        let start = |options: &[&str], variables: &[(&str, &str)]| {
            let run = Run { weft: WEFT, ranks: 2, lab: None, options, variables };
            run.start(&program(&mpi), &[]).ends_well()
        };
        let said = start(&options[..2], &variables[..1]);
        assert!(said.contains("counted 0, user -1"), "{}: {said}", mpi.name);
        let said = start(&options, &variables);
        assert!(said.contains("@1 counted 1, user 40"), "{}: {said}", mpi.name);
        let run = room.record();
        let found = functions(&ranks(&run)[1]);
        let sendrecv = found.iter().find(|(name, _, _)| *name == "MPI_Sendrecv");
        assert!(sendrecv.is_some_and(|(_, calls, _)| *calls == 40), "{}: {found:?}", mpi.name);
    }
    std::fs::remove_file(user).expect("it was there");
}

#[test]
fn a_rank_that_is_killed_has_the_calls_that_it_made_before() {
    let _turn = alone();
    let Some(file) = counted(WEFT) else { return };
    for mpi in Mpi::all() {
        let room = Room::new(&file);
        let variables = [("XDG_RUNTIME_DIR", room.path())];
        let options = room.options();
        let run = Run { weft: WEFT, ranks: 2, lab: None, options: &options, variables: &variables };
        let mut job = run.start(&mpi.compile("steps", &["steps.c"], FOLDER), &[]);
        let pids = job.pids(2);
        // It says so some ten times a second.
        (0..4).for_each(|_| _ = job.says("@0 steps"));
        signal(pids[1], KILL);
        let (status, said) = job.ends();
        assert!(!status.success() && said.contains("p.html"), "{}: {said}", mpi.name);
        let run = room.record();
        let found = functions(&ranks(&run)[1]);
        let steps = found.iter().find(|(name, _, _)| *name == "MPI_Allreduce");
        assert!(steps.is_some_and(|(_, calls, _)| *calls > 0), "{}: {found:?}", mpi.name);
        assert_eq!(ranks(&run)[1]["ended"]["signal"], KILL, "{}: {said}", mpi.name);
    }
}

/// How many arguments `headers` declare for each function, and whether one is no machine word.
fn arguments(headers: &str, name: &str) -> Option<(usize, bool)> {
    let declared = headers.split(&format!("int {name}(")).nth(1)?;
    let all = declared.split(')').next()?;
    let count = if ["", "void"].contains(&all.trim()) { 0 } else { all.split(',').count() };
    Some((count, ["double", "float"].iter().any(|kind| all.contains(kind))))
}

#[test]
fn no_function_has_more_arguments_than_are_handed_on() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/calls/src/functions.rs");
    let source = std::fs::read_to_string(source).expect("the functions");
    let (_, lists) = source.split_once("\n    few:\n").expect("a list");
    let (few, many) = lists.split_once("\n    many:\n").expect("another one");
    let (few, many) = (few, many.split(';').next().unwrap_or(""));
    let names = |list: &str| -> Vec<String> {
        let words = list.lines().filter(|line| !line.contains("//"));
        let words = words.flat_map(|line| line.split([' ', ';'])).map(String::from);
        words.filter(|word| word.starts_with("MPI_")).collect()
    };
    for mpi in Mpi::all() {
        let headers = mpi.headers();
        let mut seen = 0;
        for (list, most) in [(few, 8), (many, 13)] {
            for name in names(list) {
                let Some((count, is_other)) = arguments(&headers, &name) else { continue };
                assert!(count <= most && !is_other, "{}: {name} has {count}", mpi.name);
                seen += 1;
            }
        }
        assert!(seen > 150, "{}: {seen} functions are declared", mpi.name);
    }
}
