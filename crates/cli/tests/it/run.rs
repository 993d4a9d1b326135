//! Jobs: they start, exchange, end with the right status, and leave nothing behind.

use std::io::Write;
use std::process::Stdio;

use super::*;

fn job(arguments: &[&str]) -> Output {
    let mut all = vec!["run"];
    all.extend_from_slice(arguments);
    weft(&all)
}

/// Lines that a probe wrote, each naming another rank of `size` and all the same mark.
fn all_joined(output: &Output, size: usize) {
    assert!(output.status.success(), "{}", err(output));
    let text = out(output);
    let mut ranks: Vec<&str> = text.lines().filter_map(|l| l.split("rank ").nth(1)).collect();
    ranks.sort_unstable();
    assert_eq!(ranks.len(), size, "{text}");
    let marks: Vec<_> = ranks.iter().filter_map(|l| l.split("mark ").nth(1)).collect();
    assert!(marks.len() == size && marks.windows(2).all(|w| w[0] == w[1]), "{text}");
    for (rank, line) in ranks.iter().enumerate().take(10) {
        assert!(line.starts_with(&format!("{rank} of {size} ")), "{text}");
    }
}

#[test]
fn ranks_find_each_other() {
    all_joined(&job(&["-n", "5", "--", WEFT, "run-probe", "--rounds", "3"]), 5);
    all_joined(&job(&["-n", "1", "--", WEFT, "run-probe"]), 1);
    all_joined(&job(&["-n", "2", "--", WEFT, "run-probe", "--bytes", "70000"]), 2);
}

#[test]
fn ranks_on_the_nodes_of_a_lab_find_each_other() {
    if !labs_work("run-lab") {
        return;
    }
    let spec = "nodes=2,topology=mesh,links=2,mtu=1500";
    for (map, nodes) in [("block", [0, 0, 1, 1]), ("cyclic", [0, 1, 0, 1])] {
        let program = ["--", WEFT, "run-probe"];
        let mut all = vec!["-n", "4", "--lab", spec, "--label", "--map", map];
        all.extend(program);
        let output = job(&all);
        all_joined(&output, 4);
        for (rank, node) in nodes.iter().enumerate() {
            let line = format!("[{rank}@node{node}] rank {rank} of 4 on node{node}");
            assert!(out(&output).contains(&line), "{}", out(&output));
        }
    }
}

#[test]
fn frames_may_be_as_long_as_those_of_usb4() {
    if !labs_work("run-long-frames") {
        return;
    }
    // With the most that a virtual cable takes, too; each kind of link for itself.
    for mtu in [65_520, 65_535] {
        let lab = format!("topology=cables=node0+node1+mtu={mtu}");
        for links in ["packet,udp,tso", "packet", "udp", "tso,packet"] {
            let probe = ["--", WEFT, "run-probe", "--rounds", "3", "--bytes", "400000"];
            let mut job = Command::new(WEFT);
            job.args(["run", "-n", "2", "--lab", &lab]).args(probe).env("WEFT_LINKS", links);
            let output = job.output().expect("weft");
            all_joined(&output, 2);
        }
    }
}

#[test]
fn a_process_without_a_launcher_is_a_job_of_one() {
    let mut alone = Command::new(WEFT);
    alone.arg("run-probe").env_remove("PMI_FD").env_remove("PMI_PORT");
    let output = alone.output().expect("weft");
    assert!(out(&output).starts_with("rank 0 of 1"), "{}", err(&output));
}

#[test]
fn ranks_whose_launcher_offers_no_service_are_told_so() {
    // As `srun` without `--mpi` starts them: all as rank 0 of 1, if nobody noticed.
    let probe = |more: &[(&str, &str)]| {
        let mut rank = Command::new(WEFT);
        rank.arg("run-probe").env_remove("PMI_FD").env_remove("PMI_PORT");
        rank.envs([("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "2")]);
        rank.envs(more.iter().copied()).output().expect("weft")
    };
    let output = probe(&[]);
    assert!(!output.status.success(), "{}", out(&output));
    for part in ["SLURM_STEP_NUM_TASKS=4", "srun --mpi=pmi2", "WEFT_WIREUP=single"] {
        assert!(err(&output).contains(part), "{}", err(&output));
    }
    all_joined(&probe(&[("WEFT_WIREUP", "single")]), 1);
    // A job inside such a step has a service of its own.
    let run = ["run", "-n", "2", "--", WEFT, "run-probe"];
    let output = Command::new(WEFT).args(run).env("SLURM_STEP_NUM_TASKS", "4").output();
    all_joined(&output.expect("weft"), 2);
}

#[test]
fn a_job_inside_a_rank_has_a_key_of_its_own() {
    all_joined(&job(&["-n", "1", "--", WEFT, "run", "-n", "2", "--", WEFT, "run-probe"]), 2);
    let single = ["-n", "1", "--", "env", "WEFT_WIREUP=single", WEFT, "run-probe"];
    all_joined(&job(&single), 1);
}

#[test]
fn a_rank_that_fails_ends_the_job_by_name() {
    let script = "if [ $PMI_RANK = 1 ]; then kill -9 $$; fi; sleep 600";
    let output = job(&["-n", "3", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(137));
    let text = err(&output);
    assert!(text.contains("rank 1 (process") && text.contains("SIGKILL"), "{text}");

    let output = job(&["-n", "3", "--", WEFT, "run-probe", "--absent", "2"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("exited with status 3"), "{}", err(&output));
}

#[test]
fn with_keep_going_the_others_go_on_and_learn_of_it() {
    let script = "if [ $PMI_RANK = 1 ]; then exit 4; fi; sleep 0.3; echo still here";
    let output = job(&["-n", "3", "--keep-going", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(out(&output).matches("still here").count(), 2);

    let output = job(&["-n", "3", "--keep-going", "--", WEFT, "run-probe", "--absent", "2"]);
    assert!(err(&output).contains("rank_2_has_ended"), "{}", err(&output));
}

#[test]
fn a_rank_that_ignores_being_asked_is_killed() {
    let script = "trap '' TERM; if [ $PMI_RANK = 0 ]; then exit 9; fi; while :; do sleep 1; done";
    assert_eq!(job(&["-n", "2", "--", "sh", "-c", script]).status.code(), Some(9));
}

#[test]
fn input_goes_to_rank_0_only() {
    let mut child = Command::new(WEFT)
        .args(["run", "-n", "3", "--label", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("weft");
    child.stdin.take().expect("stdin").write_all(b"one\ntwo").expect("written");
    let output = child.wait_with_output().expect("output");
    let lines: Vec<String> = out(&output).lines().map(String::from).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("[0@") && lines[0].ends_with("] one"), "{lines:?}");
    assert!(lines[1].ends_with("] two"), "{lines:?}");
}

#[test]
fn a_job_past_its_time_is_ended() {
    let output = job(&["-n", "2", "--timeout", "0.2", "--", "sleep", "600"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("--timeout"), "{}", err(&output));
}

#[test]
fn bad_usage_is_named() {
    for (arguments, status, word) in [
        (&["-n", "2", "--device", "warp", "--", "true"][..], 2, "composite, shm"),
        (&["-n", "0", "--", "true"], 2, "1..=65536"),
        (&["-n", "2", "--hosts", "a,,b", "--", "true"], 2, "list of hosts"),
        (&["-n", "9", "--hosts", "a:2,b:2", "--", "true"], 2, "take 4 ranks"),
        (&["-n", "2", "--lab", "never-made", "--", "true"], 2, "no lab never-made"),
        (&["-n", "2", "--lab", "nodes=x", "--", "true"], 2, "nodes=x"),
        (&["-n", "2", "--", "no-such-program"], 1, "no-such-program"),
    ] {
        let output = job(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?} {}", err(&output));
        assert!(err(&output).contains(word), "{}", err(&output));
    }
}

/// Starts a job whose ranks, each with a child of its own, sleep for a number of seconds that names
/// them; gives it and that number.
fn sleeping_job(lab: bool, salt: u32) -> (std::process::Child, String) {
    let mark = format!("{}{salt}", 100_000 + std::process::id());
    let mut arguments = vec!["run", "-n", "2"];
    if lab {
        arguments.extend(["--lab", "nodes=2,topology=mesh"]);
    }
    let script = format!("sleep {mark} & sleep {mark}");
    arguments.extend(["--", "sh", "-c", &script]);
    let child = Command::new(WEFT).args(arguments).spawn().expect("weft");
    let sleeping = format!("sleep\0{mark}");
    eventually("four sleeping processes", || processes_with(&sleeping).len() == 4);
    (child, sleeping)
}

#[test]
fn a_signal_ends_all() {
    for (number, lab) in [(2, false), (15, false), (2, true)] {
        if lab && !labs_work("run-signal") {
            continue;
        }
        let (mut child, sleeping) = sleeping_job(lab, number as u32 + 10 * u32::from(lab));
        assert!(weft_sys::process::signal(child.id(), false, number));
        let status = child.wait().expect("weft ends");
        assert_eq!(status.code(), Some(128 + number));
        eventually("the end of all ranks", || processes_with(&sleeping).is_empty());
        assert_eq!(labs_of(child.id()), 0);
    }
}

#[test]
fn kill_9_leaves_nothing_behind() {
    for lab in [false, true] {
        if lab && !labs_work("run-kill") {
            continue;
        }
        let (mut child, sleeping) = sleeping_job(lab, 90 + u32::from(lab));
        assert_eq!(labs_of(child.id()), usize::from(lab));
        child.kill().and_then(|()| child.wait()).expect("killed");
        eventually("the end of all ranks", || processes_with(&sleeping).is_empty());
        eventually("the end of the lab", || labs_of(child.id()) == 0);
    }
}

/// A launcher that takes ssh's place: it runs the agent here, under another host name.
fn fake_ssh() -> String {
    let path = std::env::temp_dir().join(format!("weft-fake-ssh-{}", std::process::id()));
    let script = "#!/bin/sh\nhost=$1; shift\n[ $host = nowhere ] && exit 255\nexec \"$@\"\n";
    // Written by a process of its own: a child of another test that holds the file open for writing
    // until its `exec` would make its start fail ("Text file busy").
    let write = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
    let done = Command::new("sh").args(["-c", write, "sh", script]).arg(&path).status();
    assert!(done.is_ok_and(|status| status.success()), "a program");
    path.to_string_lossy().into_owned()
}

fn on_hosts(ssh: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(WEFT);
    command.arg("run").args(arguments).env("WEFT_SSH", ssh);
    command.output().expect("weft")
}

#[test]
fn ranks_on_other_hosts_find_each_other() {
    let ssh = fake_ssh();
    let program = ["--", WEFT, "run-probe", "--rounds", "2"];
    let mut all = vec!["-n", "4", "--hosts", "alpha,beta:3", "--label"];
    all.extend(program);
    let output = on_hosts(&ssh, &all);
    all_joined(&output, 4);
    assert!(out(&output).contains("[0@alpha] rank 0"), "{}", out(&output));
    assert!(out(&output).contains("[3@beta] rank 3"), "{}", out(&output));

    let script = "if [ $PMI_RANK = 1 ]; then exit 6; fi; sleep 600";
    let output = on_hosts(&ssh, &["-n", "2", "--hosts", "alpha,beta", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(6), "{}", err(&output));
    assert!(err(&output).contains("on beta) exited with status 6"), "{}", err(&output));

    let output = on_hosts(&ssh, &["-n", "2", "--hosts", "alpha,nowhere", "--", "sleep", "600"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("the host nowhere"), "{}", err(&output));

    let output = on_hosts(&ssh, &["-n", "1", "--hosts", "alpha", "--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("no-such-program"), "{}", err(&output));
    let _ = std::fs::remove_file(ssh);
}
