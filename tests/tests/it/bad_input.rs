//! What goes wrong around a job: settings, rights, limits, interfaces. Either it works all the
//! same, or an error names the cause and the cure.

use std::process::Command;

use weft_tests::job::{Cluster, Job, run_in};
use weft_tests::program;

use super::{RANK, WEFT};

/// Starts a role with two ranks on a lab's nodes, or on this node.
pub(super) fn two(lab: Option<&Cluster>, role: &[&str], variables: &[(&str, &str)]) -> Job {
    let mut arguments = vec!["-n", "2"];
    if let Some(lab) = lab {
        arguments.extend(["--lab", lab.name()]);
    }
    arguments.extend(["--", RANK]);
    arguments.extend(role);
    Job::start(WEFT, &arguments, variables)
}

/// Runs a job that must go well, and gives what was said.
pub(super) fn works(lab: Option<&Cluster>, role: &[&str], variables: &[(&str, &str)]) -> String {
    let said = two(lab, role, variables).ends_well();
    for rank in 0..2 {
        assert!(said.contains(&format!("@{rank} ended well")), "{said}");
    }
    said
}

/// Runs a job that must fail, and in whose words all of `words` must be.
pub(super) fn fails(
    lab: Option<&Cluster>,
    role: &[&str],
    variables: &[(&str, &str)],
    words: &[&str],
) {
    let (status, said) = two(lab, role, variables).ends();
    assert!(!status.success(), "it went well:\n{said}");
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in:\n{said}");
    }
}

/// A counter of a rank, as told at the end.
pub(super) fn counter(said: &str, rank: u32, name: &str) -> u64 {
    let start = format!("@{rank} counter {name} ");
    let line = said.lines().find_map(|l| l.strip_prefix(&start));
    line.and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[test]
fn unknown_devices_links_and_words_are_named() {
    let talk = ["talk", "1"];
    for (name, value, words) in [
        ("WEFT_DEVICE", "warp", &["no device \"warp\"", "composite, shm, ether"][..]),
        ("WEFT_CMA", "perhaps", &["WEFT_CMA=perhaps", "auto, off"]),
        ("WEFT_SPIN_US", "long", &["WEFT_SPIN_US=long", "microseconds"]),
        ("WEFT_PEER_LIMIT_S", "-1", &["WEFT_PEER_LIMIT_S=-1", "seconds"]),
        ("WEFT_FAULT", "loss=lots", &["WEFT_FAULT", "loss"]),
        ("WEFT_TRACE", "maybe", &["WEFT_TRACE", "write 1"]),
        ("WEFT_NODE", "here", &["WEFT_NODE=here", "a number"]),
        ("WEFT_WIREUP", "pigeon", &["WEFT_WIREUP=pigeon", "pmi1"]),
        ("WEFT_WIREUP_LIMIT_S", "soon", &["WEFT_WIREUP_LIMIT_S=soon", "seconds"]),
    ] {
        fails(None, &talk, &[(name, value)], words);
    }
    // What only matters between nodes is read when there are others.
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for (name, value, words) in [
        ("WEFT_LINKS", "packet,tcp", &["WEFT_LINKS=", "`tcp`", "`packet`, `udp` and `tso`"][..]),
        ("WEFT_ETHERTYPE", "1500", &["WEFT_ETHERTYPE=", "0x88b5"]),
        ("WEFT_INTERFACES", "10.1.0.0/99", &["WEFT_INTERFACES="]),
        ("WEFT_INTERFACES", "lan7", &["no network interface lan7", "`ip link`"]),
        ("WEFT_INTERFACES", "!lan0", &["no network interface is admitted", "WEFT_INTERFACES"]),
    ] {
        fails(Some(&lab), &talk, &[(name, value)], words);
    }
}

#[test]
fn a_device_that_does_not_reach_the_others_says_so() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    fails(Some(&lab), &["talk", "1"], &[("WEFT_DEVICE", "shm")], &["cannot reach rank", "node"]);
}

#[test]
fn misspelt_variables_are_warned_about() {
    let said = works(None, &["talk", "1"], &[("WEFT_DEVCE", "shm")]);
    assert!(said.contains("there is no variable WEFT_DEVCE; was WEFT_DEVICE meant?"), "{said}");
}

#[test]
fn misspelt_variables_are_warned_about_under_other_launchers() {
    // A program that has set up no log, as rank 0 and 1 of its node.
    for (local, times) in [("0", 1), ("1", 0)] {
        let mut rank = Command::new(RANK);
        rank.args(["talk", "1"]).envs([("WEFT_DEVCE", "shm"), ("MPI_LOCALRANKID", local)]);
        rank.env_remove("WEFT_LOG");
        let said = Job::of(&mut rank).ends_well();
        let warning = "weft: there is no variable WEFT_DEVCE; was WEFT_DEVICE meant?";
        assert_eq!(said.matches(warning).count(), times, "{said}");
    }
    // `weft run` has said it already.
    let said = works(None, &["talk", "1"], &[("WEFT_DEVCE", "shm")]);
    assert_eq!(said.matches("no variable WEFT_DEVCE").count(), 1, "{said}");
}

#[test]
fn a_log_level_that_there_is_not_is_warned_about() {
    let said = works(None, &["talk", "1"], &[("WEFT_LOG", "loud")]);
    assert!(said.contains("WEFT_LOG=loud: there is no such level"), "{said}");
    assert!(said.contains("error, warn, info, debug, trace"), "{said}");
}

#[test]
fn an_unknown_host_is_named() {
    // What ssh says where nobody knows the name; the network is not asked. It is ssh by its file
    // name, and so is told to ask for no password.
    let ssh = tempfile::Builder::new().prefix("no-host").tempdir().expect("a folder");
    let path = ssh.path().join("ssh");
    let script = "#!/bin/sh\ncase \"$*\" in *BatchMode=yes*) ;; *) exit 1 ;; esac\n\
                  while getopts To: _; do :; done; shift $((OPTIND - 1))\n\
                  echo \"ssh: Could not resolve hostname $1\" >&2\nexit 255\n";
    program::script(&path, script);
    let ssh = path.to_string_lossy().into_owned();
    let program = ["-n", "2", "--hosts", "nosuchhost", "--", RANK, "talk", "1"];
    let (status, said) = Job::start(WEFT, &program, &[("WEFT_SSH", &ssh)]).ends();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("the host nosuchhost"), "{said}");
    assert!(said.contains("Could not resolve hostname nosuchhost"), "{said}");
}

#[test]
fn without_the_right_to_raw_sockets_udp_carries_all() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    let role = ["--no-raw-sockets", "talk", "2"];
    let said = works(Some(&lab), &role, &[("WEFT_LOG", "info")]);
    assert!(said.contains("no right to open a packet socket on lan0"), "{said}");
    assert!(said.contains("setcap cap_net_raw+ep") && !said.contains("counter packet:"), "{said}");
    assert!(counter(&said, 0, "udp:lan0.sent_frames") > 0, "{said}");
    // One end alone without the right.
    let said = works(Some(&lab), &["--only", "1", "--no-raw-sockets", "talk", "2"], &[]);
    assert!(!said.contains("@1 counter packet:"), "{said}");
    let words = ["no right to open a packet socket on lan0", "setcap cap_net_raw+ep"];
    fails(Some(&lab), &role, &[("WEFT_LINKS", "packet")], &words);
}

#[test]
fn an_interface_that_is_down_is_named() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    run_in(&lab.node(1), "ip", &["link", "set", "lan0", "down"]);
    let talk = ["talk", "1"];
    // Whether the user names it or not.
    for interfaces in ["lan0", ""] {
        let words = ["cannot reach rank 0", "lan0 is down", "`ip link set lan0 up`"];
        fails(Some(&lab), &talk, &[("WEFT_INTERFACES", interfaces)], &words);
    }
    run_in(&lab.node(1), "ip", &["link", "set", "lan0", "up"]);
    works(Some(&lab), &talk, &[]);
}

#[test]
fn ends_of_different_mtu_agree_on_the_smaller() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,mtu=9000") else { return };
    run_in(&lab.node(1), "ip", &["link", "set", "lan0", "mtu", "1500"]);
    for links in ["packet", "udp", "packet,udp"] {
        works(Some(&lab), &["talk", "2"], &[("WEFT_LINKS", links)]);
    }
}

#[test]
fn a_smaller_mtu_in_between_is_found_out_and_told() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2,mtu=9000") else { return };
    run_in(&lab.switch(), "ip", &["link", "set", "p0-1", "mtu", "3000"]);
    let said = works(Some(&lab), &["talk", "6"], &[("WEFT_LINKS", "packet")]);
    assert!(said.contains("do not pass on link") && said.contains("MTU"), "{said}");
    assert!(counter(&said, 0, "ether.mtu_reduced") > 0, "{said}");
}

/// Runs a job in a mount namespace that `mounts`, a line of shell, changes before.
fn with_mounts(mounts: &str) -> Option<String> {
    let run = format!("{mounts} && exec \"$0\" run -n 2 -- \"$1\" talk 1");
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", &run, WEFT, RANK]);
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|s| s.success()) {
        println!("SKIPPED: no mount namespaces can be made here (`unshare --mount`)");
        return None;
    }
    Some(Job::of(&mut unshare).ends_well())
}

#[test]
fn shared_memory_does_not_depend_on_dev_shm() {
    let tiny = "mount -t tmpfs -o size=4k tmpfs /dev/shm";
    let closed = "mount -t tmpfs -o size=4k,mode=000,ro tmpfs /dev/shm";
    // A /dev that has no shm in it.
    let absent = "T=$(mktemp -d) && mount -t tmpfs tmpfs $T && for f in null zero urandom random; \
                  do touch $T/$f && mount --bind /dev/$f $T/$f; done && mount --move $T /dev && \
                  rmdir $T && ! test -e /dev/shm";
    for mounts in [tiny, closed, absent] {
        let Some(said) = with_mounts(mounts) else { return };
        assert!(counter(&said, 0, "shm.sent") > 0, "{said}");
    }
}

#[test]
fn where_cross_memory_attach_is_refused_the_ring_carries_large_messages() {
    // By a seccomp filter as containers have it, on both sides and on one; by a process that may
    // not be traced, as under Yama; by the user's word.
    for how in [&["--no-attach"][..], &["--undumpable"]] {
        let said = works(None, &[how, &["talk", "2"]].concat(), &[]);
        assert_eq!(counter(&said, 0, "shm.attach_bytes"), 0, "{said}");
        assert!(counter(&said, 0, "shm.ring_bytes") > 1 << 20, "{said}");
    }
    let said = works(None, &["--only", "1", "--no-attach", "talk", "2"], &[]);
    assert!(counter(&said, 1, "shm.ring_bytes") > 1 << 20, "{said}");
    let said = works(None, &["talk", "2"], &[("WEFT_CMA", "off")]);
    assert_eq!(counter(&said, 0, "shm.attach_bytes"), 0, "{said}");
}

#[test]
fn where_barriers_across_threads_are_refused_messages_go_as_well() {
    for how in [&["--no-barriers"][..], &["--only", "1", "--no-barriers"]] {
        let said = works(None, &[how, &["talk", "2"]].concat(), &[]);
        assert!(counter(&said, 0, "shm.sent") > 0, "{said}");
    }
}

#[test]
fn two_jobs_on_one_segment_do_not_disturb_each_other() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    let mut jobs = [0, 1].map(|_| two(Some(&lab), &["flow"], &[("WEFT_PEER_LIMIT_S", "60")]));
    for job in &mut jobs {
        job.grows("@0 got", 1);
    }
    for job in &mut jobs {
        job.grows("@1 got", 50);
        job.order("stop");
    }
    for job in jobs {
        let said = job.ends_well();
        for rank in 0..2 {
            assert_eq!(counter(&said, rank, "ether.peers_dead"), 0, "{said}");
            // The kernel's filter keeps the other job's frames out before they cost anything.
            assert_eq!(counter(&said, rank, "ether.dropped_job"), 0, "{said}");
        }
    }
}

#[test]
fn a_message_longer_than_the_receives_memory_is_named_with_both_sizes() {
    let lab = Cluster::new(WEFT, "nodes=2");
    for lab in [None].into_iter().chain(lab.as_ref().map(Some)) {
        let said = works(lab, &["truncate"], &[]);
        for len in ["100", "1048576"] {
            let words = format!("tag 0x5 has {len} bytes, the receive has room for 10");
            assert!(said.contains(&words) && said.contains("probe for the length"), "{said}");
        }
    }
}

#[test]
fn out_of_descriptors_is_an_error_with_its_cure_or_no_error() {
    let lab = Cluster::new(WEFT, "nodes=2");
    for lab in [None].into_iter().chain(lab.as_ref().map(Some)) {
        let mut worked = false;
        for files in ["5", "7", "9", "12", "15", "18", "24", "40"] {
            let (status, said) = two(lab, &["--files", files, "talk", "1"], &[]).ends();
            assert!(!said.contains("panicked"), "with {files} files:\n{said}");
            worked = status.success();
            assert!(worked || said.contains("`ulimit -n`"), "with {files} files:\n{said}");
        }
        assert!(worked, "40 files must be enough");
    }
}

#[test]
fn memory_need_not_be_locked() {
    let lab = Cluster::new(WEFT, "nodes=2");
    for lab in [None].into_iter().chain(lab.as_ref().map(Some)) {
        works(lab, &["--locked", "0", "talk", "1"], &[]);
    }
}

#[test]
fn a_channel_is_opened_once_in_a_rank() {
    let said = works(None, &["twice"], &[]);
    for rank in 0..2 {
        let words = format!("@{rank} refused rank {rank} of this job has channel 0 open already");
        assert!(said.contains(&words) && said.contains("another channel"), "{said}");
        assert!(said.contains(&format!("@{rank} opened again")), "{said}");
    }
}
