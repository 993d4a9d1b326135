//! `--profile`: a job's record is what happened in it, also when a rank is killed or a disk is
//! full, and whatever cannot be written is said before the job starts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use weft_tests::job::{Cluster, INT, Job, KILL, eventually, signal};
use weft_tests::mpi::{Mpi, Run, alone, provider};

use super::{RANK, WEFT};

/// A folder for a profile and for pages.
struct Room(TempDir);

impl Room {
    fn new() -> Room {
        Room(tempfile::Builder::new().prefix("profile").tempdir().expect("a folder"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("profile.html")
    }

    fn option(&self) -> String {
        format!("--profile={}", self.file().display())
    }

    fn start(&self, ranks: u32, more: &[&str], role: &[&str]) -> Job {
        let (option, ranks) = (self.option(), ranks.to_string());
        let mut arguments = vec!["-n", &ranks, &option];
        arguments.extend(more);
        arguments.extend(["--", RANK]);
        arguments.extend(role);
        let room = self.0.path().to_str().expect("a path");
        Job::start(WEFT, &arguments, &[("XDG_RUNTIME_DIR", room)])
    }

    /// The record, beside the page; nothing else of the job is left.
    fn record(&self) -> Value {
        let text = std::fs::read_to_string(self.0.path().join("profile.html.json"));
        let pages = std::fs::read_dir(self.0.path().join("weft-pages"));
        assert_eq!(pages.map_or(0, Iterator::count), 0, "pages are left");
        serde_json::from_str(&text.expect("a record")).expect("an object")
    }
}

fn all<'a>(of: &'a Value, name: &str) -> &'a Vec<Value> {
    of[name].as_array().unwrap_or_else(|| panic!("no {name} in {of}"))
}

fn sum(of: &[Value], name: &str) -> u64 {
    of.iter().filter_map(|one| one[name].as_u64()).sum()
}

fn weft(arguments: &[&str], room: &Room) -> Output {
    let mut command = Command::new(WEFT);
    command.args(arguments).env("XDG_RUNTIME_DIR", room.0.path());
    command.output().expect("weft")
}

#[test]
fn messages_are_counted_by_ranks_sizes_and_ways() {
    let room = Room::new();
    let said = room.start(3, &[], &["talk", "4"]).ends_well();
    assert!(said.contains("profile.html"), "{said}");
    let run = room.record();
    let (ranks, flows) = (all(&run, "ranks"), all(&run, "flows"));
    assert_eq!((ranks.len(), flows.len()), (3, 6), "{run}");
    for rank in ranks {
        assert_eq!(rank["ended"], "well");
        let mine: Vec<Value> =
            flows.iter().filter(|flow| flow["from"] == rank["rank"]).cloned().collect();
        for what in ["messages", "bytes"] {
            let sent = sum(&mine, what);
            assert!(sent > 0);
            assert_eq!(sent, sum(all(rank, "sizes"), what), "{rank}");
            assert_eq!(sent, sum(all(rank, "ways"), what), "{rank}");
        }
        let ways: Vec<&str> = all(rank, "ways").iter().filter_map(|w| w["name"].as_str()).collect();
        assert_eq!(ways, ["eager shm", "rendezvous shm"]);
        assert!(rank["cpu_ns"].as_u64() > Some(0) && rank["lasted_ns"].as_u64() > Some(0));
    }
    // Each rank sends each other one the same.
    assert!(flows.iter().all(|flow| flow["bytes"] == flows[0]["bytes"]), "{run}");
}

#[test]
fn between_nodes_each_link_has_its_part() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,topology=mesh") else { return };
    let room = Room::new();
    room.start(2, &["--lab", lab.name()], &["talk", "3"]).ends_well();
    let run = room.record();
    for rank in all(&run, "ranks") {
        let links = all(rank, "links");
        assert!(sum(links, "sent_bytes") > 0 && sum(links, "received_frames") > 0, "{rank}");
        let ways: Vec<&str> = all(rank, "ways").iter().filter_map(|w| w["name"].as_str()).collect();
        assert!(ways.contains(&"eager ether"), "{ways:?}");
        assert!(rank["counts"]["frames_sent"].as_u64() > Some(0), "{rank}");
    }
}

#[test]
fn how_large_messages_came_within_a_node_is_told() {
    let ways = [
        ("shm.attach_bytes", "read by the receiver straight from the sender"),
        ("shm.helped_bytes", "written by the sender straight into the receiver"),
        ("shm.region_bytes", "copied from memory that both have mapped"),
        ("shm.ring_bytes", "in pieces through the ring"),
    ];
    for cma in ["auto", "off"] {
        let room = Room::new();
        let (option, path) = (room.option(), room.0.path().to_str().expect("a path"));
        let arguments = ["-n", "2", &option, "--", RANK, "talk", "2"];
        let variables = [("XDG_RUNTIME_DIR", path), ("WEFT_CMA", cma)];
        Job::start(WEFT, &arguments, &variables).ends_well();
        let run = room.record();
        let ranks = all(&run, "ranks");
        let mut sent: Vec<Value> =
            ranks.iter().flat_map(|rank| all(rank, "ways").clone()).collect();
        sent.retain(|way| way["name"] == "rendezvous shm");
        let counted =
            |name| -> u64 { ranks.iter().filter_map(|r| r["counts"][name].as_u64()).sum() };
        // Each byte has come by one way, and is counted where it was copied.
        let moved = ways.map(|(name, _)| counted(name));
        assert!(sum(&sent, "bytes") > 0, "{run}");
        assert_eq!(moved.iter().sum::<u64>(), sum(&sent, "bytes"), "{run}");
        // The page looks for the names that devices have.
        for (name, told) in ways {
            let mut run = run.clone();
            for rank in run["ranks"].as_array_mut().expect("ranks") {
                for (other, _) in ways {
                    let count = rank["counts"].get_mut(other).unwrap_or_else(|| panic!("{other}"));
                    *count = if other == name { 1_000_000 } else { 0 }.into();
                }
            }
            let run = weft_report::Run::from_json(run.to_string().as_bytes()).expect("a record");
            let page = weft_report::page(&run);
            assert!(page.contains(&format!("Rendezvous within nodes: 2 MB {told}")), "{name}");
        }
        assert!(cma == "auto" || moved[3] > 0, "{run}");
    }
}

#[test]
fn what_is_lost_and_sent_again_is_counted() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    let room = Room::new();
    let (option, path) = (room.option(), room.0.path().to_str().expect("a path"));
    let arguments = ["-n", "2", "--lab", lab.name(), &option, "--", RANK, "talk", "4"];
    let variables = [("XDG_RUNTIME_DIR", path), ("WEFT_FAULT", "loss=10%,seed=5")];
    let said = Job::start(WEFT, &arguments, &variables).ends_well();
    let run = room.record();
    let again = |rank: &Value| rank["counts"]["retransmits"].as_u64().unwrap_or(0);
    assert!(all(&run, "ranks").iter().map(again).sum::<u64>() > 0, "{run}");
    let told = said.lines().find(|line| line.contains(" sent again;"));
    assert!(told.is_some_and(|line| !line.contains(" 0 sent again")), "{said}");
}

#[test]
fn a_receiver_that_comes_late_is_told() {
    let room = Room::new();
    room.start(2, &[], &["receive-late", "500"]).ends_well();
    let run = room.record();
    let late = |rank: usize| all(&run, "ranks")[rank]["late_receivers"]["ns"].as_u64().unwrap_or(0);
    assert!(late(1) > 300_000_000, "{run}");
    assert!(late(0) < late(1), "{run}");
}

#[test]
fn without_a_name_the_files_are_where_the_job_was_started() {
    let room = Room::new();
    let folder = room.0.path().join("here");
    std::fs::create_dir(&folder).expect("a folder");
    let mut command = Command::new(WEFT);
    command.args(["run", "-n", "2", "--profile", "--", RANK, "talk", "1"]);
    command.current_dir(&folder).env("XDG_RUNTIME_DIR", room.0.path());
    let said = Job::of(&mut command).ends_well();
    assert!(said.contains("the profile is in weft-profile.html, its record in"), "{said}");
    assert_eq!(files(&folder), ["weft-profile.html", "weft-profile.html.json"]);
}

/// The names of what is in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Of a job that has been interrupted no rank is said to have failed.
fn is_interrupted(run: &Value, said: &str) {
    assert_eq!(run["interrupted"], true, "{run}");
    let told = said.lines().find(|line| line.starts_with("run "));
    assert!(told.is_some_and(|line| line.ends_with("interrupted")), "{said}");
    assert!(!said.contains("was ended by signal"), "{said}");
}

#[test]
fn a_job_that_is_ended_was_interrupted_whoever_ends_it() {
    let room = Room::new();
    let (status, said) = room.start(2, &["--timeout", "1"], &["wait"]).ends();
    assert_eq!(status.code(), Some(1), "{said}");
    is_interrupted(&room.record(), &said);

    let room = Room::new();
    let mut job = room.start(2, &[], &["wait"]);
    (0..2).for_each(|rank| _ = job.says(&format!("@{rank} waits")));
    signal(job.pid(), INT);
    let (status, said) = job.ends();
    assert_eq!(status.code(), Some(128 + 2), "{said}");
    is_interrupted(&room.record(), &said);
}

#[test]
fn an_mpi_program_that_is_interrupted_leaves_its_profile_where_it_was_started() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    for mpi in Mpi::all() {
        let program = mpi.compile("waited", &["waited.c"], env!("CARGO_TARGET_TMPDIR"));
        let room = Room::new();
        let options = ["--provider", file.to_str().expect("text"), "--profile"];
        let variables = [("XDG_RUNTIME_DIR", room.0.path().to_str().expect("a path"))];
        let run = Run { weft: WEFT, ranks: 2, lab: None, options: &options, variables: &variables };
        let folder = room.0.path().join("here");
        std::fs::create_dir(&folder).expect("a folder");
        let mut job = Job::of(run.command(&program, &["60"]).current_dir(&folder));
        job.mentions("rank 0 waits");
        signal(job.pid(), INT);
        let (status, said) = job.ends();
        assert!(!status.success(), "{said}");
        assert_eq!(files(&folder), ["weft-profile.html", "weft-profile.html.json"], "{said}");
        let record = std::fs::read_to_string(folder.join("weft-profile.html.json"));
        let run = serde_json::from_str(&record.expect("a record")).expect("an object");
        is_interrupted(&run, &said);
    }
}

/// Also where ranks outnumber processors, and a wait's polls come late.
#[test]
fn who_is_waited_for_is_named_by_rank_in_mpi_programs_too() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    for mpi in Mpi::all() {
        let program = mpi.compile("waited", &["waited.c"], env!("CARGO_TARGET_TMPDIR"));
        let room = Room::new();
        let option = room.option();
        let options = ["--provider", file.to_str().expect("text"), &option];
        let variables = [("XDG_RUNTIME_DIR", room.0.path().to_str().expect("a path"))];
        let (options, variables) = (&options[..], &variables[..]);
        Run { weft: WEFT, ranks: 3, lab: None, options, variables }
            .start(&program, &["2"])
            .ends_well();
        let run = room.record();
        let waited = [0, 2].map(|rank| all(&all(&run, "ranks")[rank], "waited_for"));
        let by_word = |list: &&&Vec<Value>| {
            let first = list.iter().find(|waited| waited["rank"] == 1);
            first.and_then(|waited| waited["ns"].as_u64()).is_some_and(|ns| ns > 1_000_000_000)
        };
        // One of them may be woken by the other, which has had its word and goes on.
        assert!(waited.iter().filter(by_word).count() > 0, "{}: {waited:?}", mpi.name);
    }
}

#[test]
fn who_is_waited_for_is_named() {
    let room = Room::new();
    room.start(2, &[], &["compute", "2"]).ends_well();
    let run = room.record();
    let rank = &all(&run, "ranks")[0];
    let waited = all(rank, "waited_for").iter().find(|waited| waited["rank"] == 1);
    let ns = |of: &Value| of.as_u64().unwrap_or(0);
    // The other computes for two seconds; that it takes longer on a loaded machine is no matter.
    assert!(waited.is_some_and(|waited| ns(&waited["ns"]) > 1_500_000_000), "{rank}");
    assert!(ns(&rank["late_senders"]["ns"]) > 1_500_000_000, "{rank}");
    let longest = all(rank, "timeline").iter().max_by_key(|wait| ns(&wait["ns"])).expect("waits");
    assert_eq!(longest["rank"], 1);
    assert!(ns(&rank["waits_ns"]) <= ns(&rank["lasted_ns"]), "{rank}");
}

#[test]
fn a_rank_that_is_killed_is_in_the_report_with_what_it_did_before() {
    let room = Room::new();
    let mut job = room.start(3, &[], &["wait"]);
    let pids = job.pids(3);
    (0..3).for_each(|rank| _ = job.says(&format!("@{rank} waits")));
    // It must have been seen to wait, by itself.
    let pages = || {
        let top = weft(&["top", "--once", "--json", "--interval", "0.2"], &room);
        let seen: Value = serde_json::from_slice(&top.stdout).expect("one object");
        let ranks = all(&seen, "jobs").iter().flat_map(|job| all(job, "ranks").clone());
        let waits = |r: &Value| r["doing"] == "waits" || r["doing"] == "sleeps";
        ranks.filter(|r| r["pid"] == pids[2] && waits(r)).count()
    };
    eventually("a job that is recorded, seen by `weft top`", || pages() == 1);
    signal(pids[2], KILL);
    let (status, said) = job.ends();
    assert!(!status.success() && said.contains("profile.html"), "{said}");
    let run = room.record();
    let killed = &all(&run, "ranks")[2];
    assert_eq!(killed["ended"]["signal"], 9, "{run}");
    let waited = all(killed, "waited_for");
    assert!(waited.iter().any(|waited| waited["rank"] == 0), "{killed}");
    // In words, on the terminal, where lines are broken anywhere, and on the page.
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let page = std::fs::read_to_string(room.file()).expect("a page");
    for text in [words, page] {
        let found =
            ["rank 2 on ", "was ended by signal 9 (SIGKILL) after"].map(|w| text.contains(w));
        assert_eq!(found, [true; 2], "{text}");
    }
}

#[test]
fn what_cannot_be_written_is_said_before_the_job_starts() {
    let room = Room::new();
    let mark = room.0.path().join("started");
    let touch = ["--", "touch", mark.to_str().expect("a path")];
    let folder = room.0.path().display();
    for file in [format!("{folder}/missing/profile.html"), folder.to_string()] {
        for launcher in ["run", "mpirun"] {
            let option = format!("--profile={file}");
            let mut arguments = vec![launcher, "-n", "1", &option];
            if launcher == "mpirun" {
                arguments.extend(["--mpi", "mpich"]);
            }
            arguments.extend(touch);
            let output = weft(&arguments, &room);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if launcher == "mpirun" && !said.contains("--profile") {
                println!("SKIPPED: weft mpirun --profile: {}", said.trim());
                continue;
            }
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("cannot be written") && said.contains(&file), "{said}");
        }
    }
    assert!(!mark.exists(), "it was started");
    // A job that cannot start leaves no empty report.
    let output = weft(&["run", "-n", "1", &room.option(), "--", "/no/such/program"], &room);
    assert!(!output.status.success() && !room.file().exists());
}

/// A file system in memory of one MiB, in a mount namespace of its own: `script` runs there.
fn on_small_disk(room: &Room, script: &str) -> Option<Output> {
    let mount = "mount -t tmpfs -o size=1m none \"$0\" || exit 99; cd / && ";
    let disk = room.0.path().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", &format!("{mount}{script}")]);
    let output = command.arg(&disk).env("XDG_RUNTIME_DIR", room.0.path()).output();
    let output = output.expect("unshare");
    if output.status.code() == Some(99)
        || output.status.code() == Some(1) && output.stdout.is_empty()
    {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        if why.contains("unshare") || why.contains("mount:") {
            println!("SKIPPED: no file system can be mounted here: {}", why.trim());
            return None;
        }
    }
    Some(output)
}

#[test]
fn a_full_disk_is_said_and_the_job_is_none_the_worse() {
    // The report finds no room.
    let room = Room::new();
    let script = format!(
        "head -c 2M /dev/zero > \"$0/all\" 2>/dev/null; \
         '{WEFT}' run -n 2 --profile=\"$0/p.html\" -- '{RANK}' talk 1; echo \"status $?\"; \
         ls \"$0\""
    );
    let Some(output) = on_small_disk(&room, &script) else { return };
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("@0 ended well") && said.contains("@1 ended well"), "{said}");
    assert!(said.contains("writing the profile to") && said.contains("No space left"), "{said}");
    assert!(said.contains("status 1") && !said.contains("p.html.json\n"), "{said}");
    // The terminal has room for what the disk has none for.
    assert!(
        said.lines().any(|line| line.starts_with("run ") && line.contains("2 ranks")),
        "{said}"
    );
    assert!(!said.contains("the profile is in"), "{said}");
    // Of a job that has failed, the failure is told by the exit status.
    let room = Room::new();
    let script = format!(
        "head -c 2M /dev/zero > \"$0/all\" 2>/dev/null; \
         '{WEFT}' run -n 2 --profile=\"$0/p.html\" -- sh -c 'exit 7'; echo \"status $?\""
    );
    let Some(output) = on_small_disk(&room, &script) else { return };
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("writing the profile to"), "{said}");
    assert!(said.lines().any(|line| line == "status 7"), "{said}");
    // The pages find none.
    let room = Room::new();
    let script = format!(
        "chmod 700 \"$0\"; export XDG_RUNTIME_DIR=\"$0\"; head -c 2M /dev/zero > \"$0/all\"; \
         '{WEFT}' run -n 2 --profile='{}' -- '{RANK}' talk 1; echo \"status $?\"",
        room.file().display()
    );
    let Some(output) = on_small_disk(&room, &script) else { return };
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("@1 ended well") && said.contains("status 0"), "{said}");
    assert!(said.contains("is not recorded"), "{said}");
    let notes = room.record()["notes"].to_string();
    assert!(notes.contains("left no record: 0, 1"), "{notes}");
}

#[test]
fn hosts_hand_over_what_their_ranks_have_recorded() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,topology=mesh") else { return };
    let room = Room::new();
    let enter = format!("'{WEFT}' lab exec --name '{}' $host --", lab.name());
    let Some(hosts) = OtherHosts::new(&room, &enter, "node0") else { return };
    let option = room.option();
    let mut command = Command::new(WEFT);
    command.args(["run", "-n", "2", "--hosts", "node0:1,node1:1", &option, "--"]);
    command.args([RANK, "talk", "2"]).envs(hosts.variables());
    Job::of(&mut command).ends_well();
    let run = room.record();
    assert_eq!((all(&run, "ranks").len(), all(&run, "flows").len()), (2, 2), "{run}");
    hosts.have_given_up_their_pages(&["node0", "node1"]);
}

#[test]
fn mpi_programs_are_recorded_without_a_change() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let folder = env!("CARGO_TARGET_TMPDIR");
    for mpi in Mpi::all() {
        let sources = ["stress.c", "stress_messages.c", "stress_shared.c"];
        let program = mpi.compile("stress", &sources, folder);
        let room = Room::new();
        let path = room.0.path().to_str().expect("a path");
        let option = room.option();
        let options = ["--provider", file.to_str().expect("text"), &option];
        let variables = [("XDG_RUNTIME_DIR", path)];
        let run = Run { weft: WEFT, ranks: 3, lab: None, options: &options, variables: &variables };
        let said = run.start(&program, &["--seed", "5", "--rounds", "20"]).ends_well();
        assert!(said.contains("stress: good") && said.contains("profile.html"), "{said}");
        let run = room.record();
        let (ranks, flows) = (all(&run, "ranks"), all(&run, "flows"));
        assert_eq!(ranks.len(), 3, "{run}");
        assert!(ranks.iter().all(|rank| rank["ended"] == "well"), "{run}");
        // Peers have numbers of the library's own; they are told apart all the same.
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            let has = |flow: &&Value| flow["from"] == from && flow["to"] == to;
            let flow = flows.iter().find(has).unwrap_or_else(|| panic!("{from} to {to}: {run}"));
            assert!(flow["bytes"].as_u64() > Some(0), "{flow}");
        }
        let waits: u64 = sum(ranks, "waits_ns");
        assert!(waits > 0, "{run}");
    }
}

/// Hosts with directories of pages of their own, though all are this machine: neither they nor the
/// launcher see what another one has there.
struct OtherHosts {
    /// What takes ssh's place on the way to them.
    way: PathBuf,
    /// The launcher's directory, and the one with those of the hosts by name.
    here: PathBuf,
    there: PathBuf,
}

impl OtherHosts {
    /// The way takes a host and no options; as with ssh, a shell there takes the words apart.
    /// `enter` leads to `$host`, `first` is one of them.
    fn new(room: &Room, enter: &str, first: &str) -> Option<OtherHosts> {
        let [way, here, there] = ["way", "here", "there"].map(|name| room.0.path().join(name));
        for path in [&here, &there] {
            std::fs::create_dir(path).expect("a folder");
        }
        // Where the launcher's directory is, each host sees its own.
        let text = format!(
            "#!/bin/sh\nhost=$1\nshift\n\
             own='{there}'/$host\nmkdir -p \"$own\"\nexec env -u WEFT_SSH -u WEFT_NODE \
             {enter} unshare --mount sh -c \"mount --bind '$own' '{here}' && exec $*\"\n",
            there = there.display(),
            here = here.display(),
        );
        weft_tests::program::script(&way, &text);
        let hosts = OtherHosts { way, here, there };
        let mut trial = Command::new(&hosts.way);
        let tried = trial.args([first, "true"]).output().expect("a shell");
        if !tried.status.success() {
            let why = String::from_utf8_lossy(&tried.stderr).into_owned();
            println!("SKIPPED: nothing can be mounted here: {}", why.trim());
            return None;
        }
        Some(hosts)
    }

    /// For the launcher. The hosts have the same, and see their own directory there.
    fn variables(&self) -> [(&str, &str); 2] {
        let [here, way] = [&self.here, &self.way].map(|path| path.to_str().expect("text"));
        [("XDG_RUNTIME_DIR", here), ("WEFT_SSH", way)]
    }

    /// Neither they nor the launcher have pages any more.
    fn have_given_up_their_pages(&self, names: &[&str]) {
        let hosts = names.iter().map(|name| self.there.join(name));
        for host in hosts.chain([self.here.clone()]) {
            let pages = std::fs::read_dir(host.join("weft-pages"));
            assert_eq!(pages.map_or(0, Iterator::count), 0, "pages are left in {host:?}");
        }
    }
}

#[test]
fn hosts_of_mpi_programs_hand_over_what_their_ranks_have_recorded() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let Some(mpi) = Mpi::all().into_iter().find(|mpi| mpi.name == "mpich") else { return };
    let sources = ["stress.c", "stress_messages.c", "stress_shared.c"];
    let program = mpi.compile("stress", &sources, env!("CARGO_TARGET_TMPDIR"));
    let room = Room::new();
    // No name, or Hydra would ask a name server for it.
    const HOST: &str = "127.0.0.9";
    let Some(other) = OtherHosts::new(&room, "", HOST) else { return };
    let option = room.option();
    // The launcher's own connections stay on this machine.
    let hosts = ["--hosts", &format!("{HOST}:2"), "--mpi-args=-iface lo"];
    let options = [&["--provider", file.to_str().expect("text"), &option][..], &hosts].concat();
    let variables = other.variables();
    let run = Run { weft: WEFT, ranks: 2, lab: None, options: &options, variables: &variables };
    let said = run.start(&program, &["--seed", "5", "--rounds", "20"]).ends_well();
    assert!(said.contains("stress: good"), "{said}");
    let run = room.record();
    assert_eq!((all(&run, "ranks").len(), all(&run, "flows").len()), (2, 2), "{run}");
    assert!(!run["notes"].to_string().contains("left no record"), "{run}");
    other.have_given_up_their_pages(&[HOST]);
}
