//! `weft top`: jobs are seen while they run, by their user and by nobody else; on any terminal and
//! on none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use weft_tests::job::{Cluster, Job, eventually};
use weft_tests::program;

use super::{RANK, WEFT};

/// A directory in which all of a test's processes have their pages, and nobody else's.
struct Room(TempDir);

impl Room {
    fn new() -> Room {
        Room(tempfile::Builder::new().prefix("pages").tempdir().expect("a folder"))
    }

    fn path(&self) -> &str {
        self.0.path().to_str().expect("a path")
    }

    /// Two ranks that do something.
    fn job(&self, role: &[&str]) -> Job {
        let mut arguments = vec!["-n", "2", "--", RANK];
        arguments.extend(role);
        Job::start(WEFT, &arguments, &[("XDG_RUNTIME_DIR", self.path())])
    }

    fn top(&self, arguments: &[&str]) -> Command {
        let mut top = Command::new(WEFT);
        top.arg("top").args(arguments).env("XDG_RUNTIME_DIR", self.path());
        top
    }

    /// What `weft top --once --json` sees.
    fn look(&self) -> Value {
        let output = self.top(&["--once", "--json", "--interval", "0.3"]).output().expect("top");
        assert!(output.status.success(), "{}", text(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).expect("one object")
    }

    /// `weft top --json`, which goes on, and its lines.
    fn stream(&self) -> (Ended, impl Iterator<Item = Value> + use<>) {
        let mut top = self.top(&["--json", "--interval", "0.2"]);
        let mut top = Ended(top.stdout(Stdio::piped()).spawn().expect("top"));
        let lines = BufReader::new(top.0.stdout.take().expect("a pipe")).lines();
        let sample = |line: String| -> Value {
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        (top, lines.map_while(Result::ok).map(sample))
    }

    /// The job of that process among all that are seen: other tests have jobs as well.
    fn job_of(&self, pid: u32) -> Option<Value> {
        let jobs = self.look()["jobs"].as_array().cloned().unwrap_or_default();
        jobs.into_iter().find(|job| ranks(job).iter().any(|r| r["pid"] == pid))
    }
}

fn ranks(job: &Value) -> Vec<Value> {
    job["ranks"].as_array().cloned().unwrap_or_default()
}

fn text(output: &Output) -> String {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&said).into_owned()
}

/// A process that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn who_exchanges_has_rates_and_who_waits_says_for_whom() {
    let room = Room::new();
    let mut job = room.job(&["flow", "8", "65536"]);
    let pid = job.rank(0);
    eventually("rates of both ranks", || {
        let Some(seen) = room.job_of(pid) else { return false };
        let all = ranks(&seen);
        all.len() == 2 && all.iter().all(|r| r["rates"]["messages_out"].as_f64() > Some(0.0))
    });
    job.order("stop");
    job.ends_well();
    let mut job = room.job(&["wait"]);
    let pid = job.rank(0);
    eventually("a rank that waits for the other", || {
        let Some(seen) = room.job_of(pid) else { return false };
        let first = &ranks(&seen)[0];
        let waits = first["doing"] == "waits" || first["doing"] == "sleeps";
        waits && first["waits_for"] == "rank 1" && seen["size"] == 2
    });
    drop(job);
    eventually("the end of the job", || room.job_of(pid).is_none());
    let left = |path: PathBuf| std::fs::read_dir(path).map_or(0, Iterator::count);
    assert_eq!(left(room.0.path().join("weft-pages")), 0, "killed ranks' pages are removed");
}

#[test]
fn of_large_messages_as_many_bytes_come_in_as_go_out() {
    let room = Room::new();
    let mut job = room.job(&["flood", "4194304"]);
    let pid = job.rank(0);
    let (mut out, mut into, mut lines) = (0.0, 0.0, 0);
    let (top, samples) = room.stream();
    for sample in samples {
        let all = sample["jobs"].as_array().cloned().unwrap_or_default();
        let Some(seen) = all.iter().map(ranks).find(|all| all.iter().any(|r| r["pid"] == pid))
        else {
            continue;
        };
        let rate = |rank: usize, name: &str| seen.get(rank)?["rates"][name].as_f64();
        if let (Some(sent), Some(received)) = (rate(0, "bytes_out"), rate(1, "bytes_in")) {
            (out, into, lines) = (out + sent, into + received, lines + 1);
        }
        // Each process writes its figures at times of its own, so looks differ by what moves in a
        // tenth of a second.
        if lines >= 10 && into > 0.8 * out {
            break;
        }
        assert!(lines < 200, "{into} bytes in, {out} out");
    }
    assert!(lines >= 10 && out > 0.0, "two lines of JSON at least");
    drop(top);
    job.order("stop");
    job.ends_well();
}

#[test]
fn rates_are_made_of_counters_that_devices_have_and_links_have_theirs() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    let room = Room::new();
    let arguments = ["-n", "2", "--lab", lab.name(), "--", RANK, "flow", "8", "65536"];
    let mut job = Job::start(WEFT, &arguments, &[("XDG_RUNTIME_DIR", room.path())]);
    let pid = job.rank(0);
    let mut seen = Vec::new();
    eventually("rates of both ranks, over links", || {
        seen = room.job_of(pid).map_or(Vec::new(), |job| ranks(&job));
        let flows = |of: &Value| ["bytes_out", "bytes_in"].map(|n| of[n].as_f64() > Some(0.0));
        let of_link = |r: &Value| {
            r["links"].as_array().is_some_and(|l| l.iter().any(|l| flows(l) == [true; 2]))
        };
        seen.len() == 2 && seen.iter().all(|r| flows(&r["rates"]) == [true; 2] && of_link(r))
    });
    job.order("stop");
    job.ends_well();
    // Who has ranks on its own node and on another one has all devices.
    let arguments = ["-n", "4", "--lab", lab.name(), "--", RANK, "wait"];
    let mut job = Job::start(WEFT, &arguments, &[("XDG_RUNTIME_DIR", room.path())]);
    let pid = job.rank(0);
    job.says("@0 waits");
    let mut seen = None;
    eventually("its counters", || {
        seen = room.job_of(pid);
        seen.is_some()
    });
    let seen = ranks(&seen.expect("a job")).into_iter().find(|rank| rank["pid"] == pid);
    let counters = &seen.expect("the rank")["counters"];
    for name in weft_cli::top::COUNTED.into_iter().flatten() {
        assert!(counters[name].is_u64(), "no counter {name}: {counters}");
    }
}

#[test]
fn plain_lines_say_when_a_job_ends_that_is_watched() {
    let room = Room::new();
    let mut job = room.job(&["wait"]);
    let pid = job.rank(0);
    eventually("the job", || room.job_of(pid).is_some());
    let mut top = room.top(&["--interval", "0.2"]);
    let mut top = Ended(top.stdout(Stdio::piped()).spawn().expect("top"));
    let mut out = top.0.stdout.take().expect("a pipe");
    let (mut said, mut bytes) = (String::new(), [0; 4096]);
    let mut says = |what: &str| {
        while !said.contains(what) {
            let got = out.read(&mut bytes).expect("more of it");
            assert!(got > 0, "{what} is missing in {said}");
            said += &String::from_utf8_lossy(&bytes[..got]);
        }
        assert!(!said.contains('\x1b'), "it is no terminal: {said}");
    };
    says("2 ranks of test-rank wait");
    drop(job);
    says("has ended (2 ranks of test-rank)");
}

/// `weft top` on a terminal of so many columns; gives all that it has written. `keys` are typed as
/// soon as what it has written so far is `enough`.
fn on_terminal(
    room: &Room,
    columns: u32,
    variables: &str,
    keys: &[u8],
    mut enough: impl FnMut(&str) -> bool,
) -> String {
    let command =
        format!("stty cols {columns} rows 60; {variables} exec '{WEFT}' top --interval 0.2");
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).env("XDG_RUNTIME_DIR", room.path());
    script.env("TERM", "xterm").env_remove("NO_COLOR");
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = Ended(script.spawn().expect("script"));
    let mut keyboard = script.0.stdin.take().expect("a pipe");
    let mut out = script.0.stdout.take().expect("a pipe");
    let (mut said, mut bytes, mut typed) = (String::new(), [0; 4096], false);
    loop {
        let got = out.read(&mut bytes).unwrap_or(0);
        if got == 0 {
            break;
        }
        said += &String::from_utf8_lossy(&bytes[..got]);
        if !typed && enough(&said) {
            typed = keyboard.write_all(keys).is_ok();
        }
    }
    assert!(script.0.wait().expect("its end").success(), "{said}");
    said
}

/// Whether it has drawn the job twice.
fn twice(said: &str) -> bool {
    said.matches("ranks of test-rank").count() >= 2
}

#[test]
fn on_a_terminal_the_end_of_a_job_can_be_read() {
    let room = Room::new();
    let mut job = room.job(&["wait"]);
    let pid = job.rank(0);
    let mut seen = None;
    eventually("the job", || {
        seen = room.job_of(pid);
        seen.is_some()
    });
    // Root sees the jobs of other tests as well, of which some may end meanwhile.
    let number = seen.expect("a job")["job"].as_str().expect("a number").to_string();
    let (is_there, note) =
        (format!("job {number}: 2 ranks"), format!("job {number} has ended (2 "));
    let mut job = Some(job);
    // It draws five times a second: all of these pages are a second apart at most, unless it is
    // kept from drawing for much longer.
    const MORE: usize = 3;
    let pages = |said: &str| said.split("\x1b[1;1H").map(String::from).collect::<Vec<_>>();
    let after = |said: &str| {
        let pages = pages(said);
        let first = pages.iter().position(|page| page.contains(&note));
        // What is written of the last one may not be all of it.
        first.map_or(Vec::new(), |first| pages[first..pages.len() - 1].to_vec())
    };
    let said = on_terminal(&room, 60, "", b"q", |said| {
        if said.contains(&is_there) {
            job = None;
        }
        after(said).len() > MORE
    });
    let after = after(&said);
    assert!(after[..=MORE].iter().all(|page| page.contains(&note)), "{after:?}");
}

#[test]
fn it_fits_on_a_narrow_terminal_and_leaves_it_as_it_was() {
    let room = Room::new();
    let mut job = room.job(&["wait"]);
    job.says("@0 waits");
    let said = on_terminal(&room, 60, "", b"wq", twice);
    assert!(said.contains("\x1b[1m") && said.contains("q ends"), "{said:?}");
    assert!(said.contains("\x1b[?1049h") && said.contains("\x1b[?1049l"), "{said:?}");
    let drawn = said.split("\x1b[1;1H").skip(1);
    for line in drawn.flat_map(|page| page.split("\x1b[?").next().unwrap_or("").split("\r\n")) {
        let line = line.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[2J", "");
        assert!(line.chars().count() <= 60, "{line:?}");
    }
    let said = on_terminal(&room, 60, "NO_COLOR=1", b"\x03", twice);
    assert!(!said.contains("\x1b[1m"), "{said:?}");
}

#[test]
fn prometheus_gets_counters_and_others_do_not_reach_them() {
    let room = Room::new();
    let mut job = room.job(&["flow", "8", "1000"]);
    let pid = job.rank(0);
    eventually("the job", || room.job_of(pid).is_some());
    let mut top = room.top(&["--listen", "127.0.0.1:0", "--interval", "0.2"]);
    let mut top = Ended(top.stderr(Stdio::piped()).spawn().expect("top"));
    let (mut said, from) = (String::new(), top.0.stderr.take().expect("a pipe"));
    BufReader::new(from).read_line(&mut said).expect("where it listens");
    let at = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let at = at.unwrap_or_else(|| panic!("{said}"));
    let ask = |path: &str| {
        let mut peer = TcpStream::connect(at).expect("it listens");
        write!(peer, "GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").expect("a question");
        let mut answer = String::new();
        peer.read_to_string(&mut answer).expect("an answer");
        answer
    };
    eventually("its counters", || {
        let answer = ask("/metrics");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let mine = format!("pid=\"{pid}\"");
        let line = answer.lines().find(|l| l.contains(&mine) && l.contains("\"shm.sent\""));
        line.and_then(|l| l.rsplit(' ').next()?.parse::<u64>().ok()).is_some_and(|n| n > 0)
    });
    assert!(ask("/secrets").starts_with("HTTP/1.1 404"));
    // Who says nothing, or goes away, keeps nobody else waiting for long.
    let _silent = TcpStream::connect(at).expect("it listens");
    assert!(ask("/").starts_with("HTTP/1.1 200"));
    let refused = room.top(&["--listen", "0.0.0.0:0"]).output().expect("top");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("--listen-to-all"), "{}", text(&refused));
}

#[test]
fn other_hosts_are_seen_by_the_way_that_jobs_go() {
    let room = Room::new();
    let mut job = room.job(&["wait"]);
    let pid = job.rank(0);
    eventually("the job", || room.job_of(pid).is_some());
    // One host has a directory of its own, and there a job that is not seen here.
    let other = Room::new();
    let mut there = other.job(&["wait"]);
    let pid_there = there.rank(0);
    eventually("its job", || other.job_of(pid_there).is_some());
    assert!(room.job_of(pid_there).is_none(), "it is seen here as well");
    let way = room.0.path().join("way");
    let text = format!(
        "#!/bin/sh\n[ $1 = beta ] && exit 3\n[ $1 = gamma ] && export XDG_RUNTIME_DIR='{}'\n\
         shift\nexec \"$@\"\n",
        other.path()
    );
    program::script(&way, &text);
    let hosts = "alpha,beta,gamma";
    let mut top = room.top(&["--once", "--json", "--interval", "0.2", "--hosts", hosts]);
    let output = top.env("WEFT_SSH", &way).output().expect("top");
    let seen: Value = serde_json::from_slice(&output.stdout).expect("one object");
    // One host is this one: its ranks are not there twice. One is not reached.
    let jobs = seen["jobs"].as_array().cloned().unwrap_or_default();
    let found: Vec<Value> = jobs.iter().flat_map(ranks).filter(|rank| rank["pid"] == pid).collect();
    assert_eq!(found.len(), 1, "{seen}");
    let found: Vec<Value> = jobs.iter().flat_map(ranks).filter(|r| r["pid"] == pid_there).collect();
    assert_eq!(found.len(), 1, "{seen}");
    let notes = seen["notes"].to_string();
    // Others may have jobs there that end meanwhile.
    assert!(notes.contains("beta: the connection to it ended"), "{notes}");
    assert!(!notes.contains("alpha: the connection"), "{notes}");
}

#[test]
fn pages_of_other_versions_are_named_and_nonsense_is_passed_over() {
    let room = Room::new();
    let mut job = room.job(&["wait"]);
    let pid = job.rank(0);
    eventually("the job", || room.job_of(pid).is_some());
    let pages = room.0.path().join("weft-pages");
    let page = std::fs::read_dir(&pages).expect("pages").next().expect("a page").expect("one");
    let mut bytes = std::fs::read(page.path()).expect("its bytes");
    bytes[8..16].copy_from_slice(&77u64.to_ne_bytes());
    std::fs::write(pages.join("another"), &bytes).expect("a page");
    std::fs::write(pages.join("short"), &bytes[..100]).expect("a file");
    std::fs::write(pages.join("nonsense"), [255; 20_000]).expect("a file");
    std::os::unix::fs::symlink("/dev/zero", pages.join("endless")).expect("a link");
    std::fs::create_dir(pages.join("folder")).expect("a folder");
    let seen = room.look();
    let notes = seen["notes"].to_string();
    assert!(notes.contains("version 77") && notes.contains("reads 1"), "{notes}");
    assert!(room.job_of(pid).is_some());
}

#[test]
fn users_see_their_own_jobs_and_root_sees_all() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can be somebody else");
        return;
    }
    let room = Room::new();
    let mut job = room.job(&["wait"]);
    let pid = job.rank(0);
    eventually("the job", || room.job_of(pid).is_some());
    // A program that everybody may start, wherever the project lies.
    let folder = Room::new();
    let (weft, rank) = (folder.0.path().join("weft"), folder.0.path().join("test-rank"));
    program::copy(WEFT.as_ref(), &weft);
    program::copy(RANK.as_ref(), &rank);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.0.path(), open).expect("an open folder");
    let other = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.arg(&weft).args(arguments).env_remove("XDG_RUNTIME_DIR").current_dir("/");
        command
    };
    let output = other(&["top", "--once", "--json"]).output().expect("setpriv");
    assert!(output.status.success(), "{}", text(&output));
    let seen: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let jobs = seen["jobs"].as_array().expect("jobs");
    assert!(jobs.iter().flat_map(ranks).all(|rank| rank["uid"] == 65534), "{seen}");
    // In a directory of theirs alone they have no job, whatever else runs here.
    let empty = folder.0.path().join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    std::os::unix::fs::chown(&empty, Some(65534), Some(65534)).expect("their folder");
    let output =
        other(&["top", "--once"]).env("XDG_RUNTIME_DIR", &empty).output().expect("setpriv");
    assert!(text(&output).contains("no job of yours runs here on Weft"), "{}", text(&output));
    let mut theirs = other(&["run", "-n", "2", "--", rank.to_str().expect("a path"), "wait"]);
    let mut theirs = Ended(theirs.stdout(Stdio::null()).spawn().expect("setpriv"));
    let is_seen = || {
        let seen = room.look();
        let jobs = seen["jobs"].as_array().cloned().unwrap_or_default();
        jobs.iter().flat_map(ranks).any(|rank| rank["uid"] == 65534)
    };
    eventually("their job", || {
        is_seen() || theirs.0.try_wait().expect("its state").is_some_and(|s| panic!("ended: {s}"))
    });
    drop(theirs);
    eventually("the end of their job", || !is_seen());
}
