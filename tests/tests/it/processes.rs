//! Real processes, killed, stopped, cut off and kept busy, as jobs under `weft run`.

use std::path::Path;
use std::time::Duration;

use weft_tests::job::{
    CONT, Cluster, Job, KILL, LONG, eventually, inhabitants, is_there, namespace, resident, run_in,
    signal, stop,
};

use super::{RANK, WEFT};

/// A limit on silence that tests wait for.
const SHORT: (&str, &str) = ("WEFT_PEER_LIMIT_S", "1");
/// A limit on silence that no test comes near.
const LONGER: (&str, &str) = ("WEFT_PEER_LIMIT_S", "60");
/// What the memory of a sender may grow by while nobody takes what it sends: the device's buffers.
const GROWTH: u64 = 48 << 20;

fn cluster(spec: &str) -> Option<Cluster> {
    Cluster::new(WEFT, spec)
}

/// Starts a role with two ranks, on two nodes of a lab or on this one.
fn two(lab: Option<&Cluster>, role: &[&str], variables: &[(&str, &str)]) -> Job {
    let mut arguments = vec!["-n", "2", "--keep-going"];
    if let Some(lab) = lab {
        arguments.extend(["--lab", lab.name()]);
    }
    arguments.extend(["--", RANK]);
    arguments.extend(role);
    Job::start(WEFT, &arguments, variables)
}

/// Checks that an error names the rank and its process, and says where that was.
fn names(error: &str, rank: u32, pid: u32, place: &str) {
    let name = format!("rank {rank} (process {pid} on {place}) is gone: ");
    assert!(error.contains(&name), "not named: {error:?}; wanted: {name}");
}

/// What rank 0 says at the end of the role `survive`.
fn everything_fails(job: &mut Job, dead: u32, place: &str, pull_may_be_done: bool) {
    for what in ["receive", "receive from anyone", "large send", "pull"] {
        let said = job.says(&format!("@0 {what}:"));
        if !(what == "pull" && pull_may_be_done && said == "done") {
            names(&said, 1, dead, place);
        }
    }
    for what in ["late send", "late receive", "late probe"] {
        names(&job.says(&format!("@0 {what}:")), 1, dead, place);
    }
    assert_eq!(job.number("@0 operations left "), 0);
}

fn here() -> String {
    weft_sys::ns::host_name()
}

/// Has rank 0 pull from the victim and kills that: in the middle of the pull, which a stop makes
/// sure of, or before it.
fn kill_around_a_pull(job: &mut Job, victim: u32, stopped_first: bool) {
    if stopped_first {
        stop(victim);
        job.order("pull");
        job.says("@0 pulling");
        signal(victim, KILL);
    } else {
        signal(victim, KILL);
        job.order("pull");
    }
}

#[test]
fn a_killed_process_of_the_node_is_named_and_every_operation_with_it_ends() {
    // Within a node no limit has to pass: this one would outlast the test's patience.
    let limit = ("WEFT_PEER_LIMIT_S", "3600");
    for stopped_first in [false, true] {
        let mut job = two(None, &["survive"], &[limit]);
        let victim = job.rank(1);
        job.says("@0 posted");
        kill_around_a_pull(&mut job, victim, stopped_first);
        everything_fails(&mut job, victim, &here(), stopped_first);
        let (status, said) = job.ends();
        assert_eq!(status.code(), Some(137), "{said}");
        assert!(said.contains("@0 ended well"), "{said}");
    }
}

#[test]
fn a_killed_process_of_another_node_is_named_and_every_operation_with_it_ends() {
    let Some(lab) = cluster("nodes=2") else { return };
    for stopped_first in [false, true] {
        let mut job = two(Some(&lab), &["survive"], &[SHORT]);
        let victim = job.rank(1);
        job.says("@0 posted");
        kill_around_a_pull(&mut job, victim, stopped_first);
        everything_fails(&mut job, victim, "node1", false);
        assert!(job.ends().1.contains("@0 ended well"));
    }
}

#[test]
fn a_rank_that_only_waits_learns_of_a_death() {
    let limit = ("WEFT_PEER_LIMIT_S", "3600");
    // Some of them before they have met, whichever of the two would have called the other.
    for pause_ms in [0, 0, 0, 0, 10, 60, 300] {
        let mut job = two(None, &["wait"], &[limit]);
        let victim = job.rank(1);
        job.says("@0 waits");
        job.says("@1 waits");
        std::thread::sleep(Duration::from_millis(pause_ms));
        signal(victim, KILL);
        names(&job.says("@0 receive:"), 1, victim, &here());
        job.ends();
    }

    let Some(lab) = cluster("nodes=2") else { return };
    let mut job = two(Some(&lab), &["wait"], &[SHORT]);
    let victim = job.rank(1);
    job.says("@0 waits");
    job.says("@1 waits");
    // Time to greet each other, or a kill in between: either is noticed.
    std::thread::sleep(Duration::from_millis(300));
    signal(victim, KILL);
    names(&job.says("@0 receive:"), 1, victim, "node1");
    job.ends();
}

#[test]
fn a_child_that_lives_on_does_not_hide_a_death() {
    let limit = ("WEFT_PEER_LIMIT_S", "3600");
    // Before they have met, whichever of the two calls the other, and after.
    for pause_ms in ["0", "0", "0", "300"] {
        let mut job = two(None, &["bequeath", pause_ms], &[limit]);
        let victim = job.rank(1);
        let child = job.number("@1 child ") as u32;
        job.says("@0 waits");
        signal(victim, KILL);
        let said = job.says("@0 receive:");
        assert!(weft_sys::process::signal(child, false, 0), "the child was to live on");
        signal(child, KILL);
        names(&said, 1, victim, &here());
        job.ends();
    }
}

#[test]
fn a_receive_from_anyone_ends_with_the_last_of_the_others() {
    let Some(lab) = cluster("nodes=2") else { return };
    // Ranks 0 and 1 share a node, rank 2 has its own: both devices see a death.
    let program = ["-n", "3", "--keep-going", "--lab", lab.name(), "--", RANK, "anyone"];
    let mut job = Job::start(WEFT, &program, &[SHORT]);
    let (near, far) = (job.rank(1), job.rank(2));
    job.says("@0 posted");
    job.says("@1 waits");
    job.says("@2 waits");
    std::thread::sleep(Duration::from_millis(300));
    signal(far, KILL);
    names(&job.says("@0 first:"), 2, far, "node1");
    job.says("@0 goes on");
    signal(near, KILL);
    names(&job.says("@0 last:"), 1, near, "node0");
    assert!(job.ends().1.contains("@0 ended well"));
}

/// Ends a job of the role `flow` or `flood`, which checks each byte that it moves.
fn complete(mut job: Job) -> String {
    job.order("stop");
    let (first, second) = (job.number("@0 complete"), job.number("@1 complete"));
    assert_eq!(first, second);
    assert!(first > 0);
    job.ends_well()
}

fn set(lab: &Cluster, interface: &str, how: &str) {
    run_in(&lab.node(0), "ip", &["link", "set", interface, how]);
}

#[test]
fn a_cable_that_is_out_for_a_while_loses_nothing() {
    let Some(lab) = cluster("nodes=2") else { return };
    for links in ["packet", "udp", "packet,udp"] {
        let mut job = two(Some(&lab), &["flow"], &[LONGER, ("WEFT_LINKS", links)]);
        job.grows("@0 got", 1);
        set(&lab, "lan0", "down");
        std::thread::sleep(Duration::from_millis(1200));
        set(&lab, "lan0", "up");
        // More than what was under way has arrived since.
        job.grows("@0 got", 50);
        job.grows("@1 got", 50);
        complete(job);
    }
}

#[test]
fn with_two_cables_one_carries_on_alone() {
    let Some(lab) = cluster("nodes=2,links=2") else { return };
    for links in ["packet", "udp", "packet,udp"] {
        let mut job = two(Some(&lab), &["flow"], &[LONGER, ("WEFT_LINKS", links)]);
        job.grows("@0 got", 1);
        for (out, other) in [("lan0", "lan1"), ("lan1", "lan0")] {
            set(&lab, out, "down");
            job.grows("@0 got", 50);
            job.grows("@1 got", 50);
            set(&lab, out, "up");
            job.grows("@0 got", 50);
            assert!(lab.interface(0, other).state.up);
        }
        let said = complete(job);
        for interface in ["lan0", "lan1"] {
            let kind = links.split(',').next().unwrap_or_default();
            let sent = said.lines().any(|l| l.contains(&format!("{kind}:{interface}.sent_bytes")));
            assert!(sent, "nothing went over {interface}:\n{said}");
        }
    }
}

/// Stops rank 1, which takes what rank 0 sends, and looks at rank 0's memory meanwhile.
fn stop_for(job: &mut Job, sender: u32, receiver: u32, pause: Duration) {
    job.grows("@1 got", 1);
    let before = resident(sender).expect("the sender lives");
    stop(receiver);
    for _ in 0..10 {
        std::thread::sleep(pause / 10);
        let now = resident(sender).expect("the sender lives");
        assert!(now < before + GROWTH, "the sender has grown from {before} to {now} bytes");
    }
    signal(receiver, CONT);
}

#[test]
fn a_receiver_that_stops_for_a_while_loses_nothing() {
    let Some(lab) = cluster("nodes=2") else { return };
    let mut job = two(Some(&lab), &["flood"], &[LONGER]);
    let (sender, receiver) = (job.rank(0), job.rank(1));
    stop_for(&mut job, sender, receiver, Duration::from_millis(1500));
    job.grows("@1 got", 100);
    complete(job);
}

#[test]
fn a_receiver_that_stops_for_too_long_is_dead_by_name() {
    let Some(lab) = cluster("nodes=2") else { return };
    let mut job = two(Some(&lab), &["flood"], &[SHORT]);
    let (sender, receiver) = (job.rank(0), job.rank(1));
    job.grows("@1 got", 1);
    let before = resident(sender).expect("the sender lives");
    stop(receiver);
    let error = job.says("@0 error");
    names(&error, 1, receiver, "node1");
    assert!(error.contains("nothing was heard from it") && error.contains("stopped"), "{error}");
    assert!(resident(sender).unwrap_or(0) < before + GROWTH);
    // When it goes on, it finds that the other one is gone, and ends too.
    signal(receiver, CONT);
    names(&job.says("@1 error"), 0, sender, "node0");
    let (status, said) = job.ends();
    assert_eq!(status.code(), Some(1), "{said}");
}

#[test]
fn within_a_node_a_stopped_process_is_never_dead() {
    let mut job = two(None, &["flood"], &[SHORT]);
    let (sender, receiver) = (job.rank(0), job.rank(1));
    stop_for(&mut job, sender, receiver, Duration::from_secs(2));
    job.grows("@1 got", 100);
    complete(job);
}

#[test]
fn a_process_that_computes_is_not_dead() {
    // The whole minute, with the default limit, when there is time for it.
    let long = std::env::var_os(LONG).is_some();
    let (seconds, limit) = if long { ("60", "5") } else { ("6", "1") };
    let Some(lab) = cluster("nodes=2") else { return };
    let limit = ("WEFT_PEER_LIMIT_S", limit);
    let mut far = two(Some(&lab), &["compute", seconds], &[limit]);
    let mut near = two(None, &["compute", seconds], &[limit]);
    for job in [&mut far, &mut near] {
        job.says("@0 waits");
        job.says("@1 computes");
        job.says("@0 got");
    }
    far.ends_well();
    near.ends_well();
}

#[test]
fn a_process_that_computes_with_a_message_in_hand_is_not_dead() {
    let Some(lab) = cluster("nodes=2") else { return };
    let limit = ("WEFT_PEER_LIMIT_S", "1");
    let jobs = ["packet", "udp", "tso", "packet,udp,tso"]
        .map(|links| two(Some(&lab), &["hold", "5"], &[limit, ("WEFT_LINKS", links)]));
    for mut job in jobs {
        job.says("@0 got answer");
        job.ends_well();
    }
}

/// A counter of a rank, as told at the end.
fn counter(said: &str, rank: u32, name: &str) -> u64 {
    let start = format!("@{rank} counter {name} ");
    let line = said.lines().find_map(|l| l.strip_prefix(&start));
    line.and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[test]
fn a_receiver_that_lets_messages_pile_up_asks_for_a_stop() {
    let mut job = two(None, &["pile"], &[]);
    let held = job.number("@1 resident");
    let said = job.ends_well();
    assert!(counter(&said, 1, "shm.holds") > 0, "{said}");
    assert!(counter(&said, 0, "shm.held") > 0, "{said}");
    assert!(held < 256 << 20, "{held} bytes");

    let Some(lab) = cluster("nodes=2") else { return };
    let mut job = two(Some(&lab), &["pile"], &[LONGER]);
    let held = job.number("@1 resident");
    let said = job.ends_well();
    for (rank, name) in [(1, "stops_sent"), (1, "gos_sent"), (0, "stops_received")] {
        assert!(counter(&said, rank, &format!("ether.{name}")) > 0, "{name}\n{said}");
    }
    assert!(counter(&said, 0, "ether.gos_received") > 0, "{said}");
    assert!(held < 256 << 20, "{held} bytes");
}

#[test]
fn a_rank_that_ends_early_is_reported_as_ended_after_its_messages() {
    let lab = cluster("nodes=2");
    for lab in [None].into_iter().chain(lab.as_ref().map(Some)) {
        let mut job = two(lab, &["quit"], &[]);
        let gone = job.rank(1);
        let error = job.says("@0 receive:");
        let wanted = format!("rank 1 (process {gone} on ");
        assert!(error.starts_with(&wanted) && error.contains("has ended"), "{error}");
        job.ends_well();
    }
}

#[test]
fn who_sends_and_ends_waits_for_a_peer_that_is_stopped_and_tells_what_a_dead_one_missed() {
    let Some(lab) = cluster("nodes=2") else { return };
    for comes_back in [true, false] {
        let limit = if comes_back { LONGER } else { SHORT };
        let mut job = two(Some(&lab), &["part"], &[limit]);
        let receiver = job.rank(1);
        job.says("@0 met");
        stop(receiver);
        job.order("part");
        job.says("@0 sent");
        if comes_back {
            std::thread::sleep(Duration::from_secs(3));
            signal(receiver, CONT);
            job.says("@1 complete");
            job.ends_well();
        } else {
            job.says("@0 ended well");
            signal(receiver, KILL);
            let (_, said) = job.ends();
            assert!(said.contains("100 message(s) of 100000 bytes"), "{said}");
        }
    }
}

#[test]
fn nothing_is_left_of_a_job_that_is_ended_in_mid_flow() {
    if cluster("nodes=1").is_none() {
        return;
    }
    const INT: i32 = 2;
    const TERM: i32 = 15;
    for number in [INT, TERM, KILL] {
        let program = ["-n", "4", "--lab", "nodes=2,links=2", "--", RANK, "talk", "1000000"];
        let mut job = Job::start(WEFT, &program, &[]);
        let ranks = job.pids(4);
        for rank in 0..4 {
            job.says(&format!("@{rank} job"));
        }
        let spaces: Vec<String> = ranks.iter().map(|&r| namespace(r).expect("lives")).collect();
        let launcher = job.pid();
        signal(launcher, number);
        let (status, said) = job.ends();
        if number != KILL {
            assert_eq!(status.code(), Some(128 + number), "{said}");
        }
        let lives = |pid: u32| weft_sys::process::start_time(pid).is_some();
        eventually("the end of all ranks", || ranks.iter().all(|&r| !lives(r)));
        // A namespace without a process has gone: nothing else holds it.
        eventually("the end of the lab", || spaces.iter().all(|s| inhabitants(s).is_empty()));
        eventually("the end of its record", || {
            let records = weft_cli::lab::all().unwrap_or_default();
            !records.iter().any(|r| r.owner == Some(launcher))
        });
        assert!(!is_there("/dev/shm/weft"));
        // There are the directories of users' pages, in which those of others may be.
        let names = |folder: &Path| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|f| f.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let is_pages =
            |name: &str| name.strip_prefix("weft-").is_some_and(|user| user.parse::<u32>().is_ok());
        let ours: Vec<String> = names(Path::new("/dev/shm"));
        let ours: Vec<&String> =
            ours.iter().filter(|name| name.contains("weft") && !is_pages(name)).collect();
        assert!(ours.is_empty(), "left in /dev/shm: {ours:?}");
        let own = weft::page::place::own().expect("a directory for pages");
        let is_theirs =
            |page: &String| ranks.iter().any(|rank| page.starts_with(&format!("{rank}-")));
        eventually("the end of the ranks' pages", || !names(&own).iter().any(is_theirs));
    }
}
