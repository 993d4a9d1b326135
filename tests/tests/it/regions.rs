//! Regions of real processes: used by peers, and outlived by them.

use weft_tests::job::{Cluster, Job, KILL, signal};

use super::{RANK, WEFT};

fn ranks(lab: Option<&Cluster>, count: &str, role: &[&str], limit: &str) -> Job {
    let mut arguments = vec!["-n", count, "--keep-going"];
    if let Some(lab) = lab {
        arguments.extend(["--lab", lab.name()]);
    }
    arguments.extend(["--", RANK]);
    arguments.extend(role);
    Job::start(WEFT, &arguments, &[("WEFT_PEER_LIMIT_S", limit)])
}

#[test]
fn ranks_use_each_others_memory_within_a_node_and_across() {
    // One rank is its own next.
    for count in ["1", "2", "3"] {
        ranks(None, count, &["regions", "10"], "60").ends_well();
    }
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    for count in ["2", "3"] {
        ranks(Some(&lab), count, &["regions", "10"], "60").ends_well();
    }
}

#[test]
fn a_region_in_the_node_is_used_without_anything_of_its_owner() {
    ranks(None, "2", &["stopped-owner"], "60").ends_well();
}

/// Within a node it would be no matter: there the owner is not needed.
#[test]
fn a_region_is_used_over_the_network_while_its_owner_computes() {
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("text");
    ranks(Some(&lab), "2", &["computing-owner", path], "60").ends_well();
}

fn outlived(lab: Option<&Cluster>, limit: &str) {
    let mut job = ranks(lab, "2", &["outlive-region"], limit);
    let victim = job.rank(1);
    job.says("@1 waits");
    job.says("@0 goes on");
    signal(victim, KILL);
    for what in ["operation", "late put", "notice"] {
        let said = job.says(&format!("@0 {what}:"));
        assert!(said.contains(&format!("rank 1 (process {victim} on ")), "{what}: {said}");
        assert!(said.contains("is gone"), "{what}: {said}");
    }
    assert_eq!(job.number("@0 operations left "), 0);
    assert!(job.ends().1.contains("@0 ended well"));
}

#[test]
fn a_killed_owner_is_named_and_every_operation_ends() {
    // Within a node no limit has to pass: this one would outlast the test's patience.
    outlived(None, "3600");
    let Some(lab) = Cluster::new(WEFT, "nodes=2") else { return };
    outlived(Some(&lab), "1");
}
