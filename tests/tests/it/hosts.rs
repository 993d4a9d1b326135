//! Jobs on several hosts (`weft run --hosts`): nodes of a lab, to which `weft lab exec` leads in
//! ssh's place. The launcher is on neither.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use weft_tests::job::{Cluster, Job, KILL, eventually, inhabitants, namespace, signal};
use weft_tests::program;

use super::{RANK, WEFT};

/// SIGINT.
const INT: i32 = 2;

/// A lab, and a command that takes ssh's place on the way into its nodes.
struct Hosts {
    lab: Cluster,
    folder: TempDir,
}

impl Hosts {
    fn new() -> Option<Hosts> {
        let lab = Cluster::new(WEFT, "nodes=2,topology=mesh")?;
        let folder = tempfile::Builder::new().prefix("way").tempdir().expect("a folder");
        let hosts = Hosts { lab, folder };
        // As with ssh, what runs there has the variables of that host, is no child of what is
        // started here, and learns of the launcher's end by the end of its input.
        let script = format!(
            "#!/bin/sh\nhost=$1\nshift\nsetsid -w env -u WEFT_NODE -u WEFT_SSH -u WEFT_LOG \
             '{WEFT}' lab exec --name '{}' $host -- \"$@\"\nexit $?\n",
            hosts.lab.name()
        );
        program::script(Path::new(&hosts.way()), &script);
        Some(hosts)
    }

    fn way(&self) -> String {
        self.folder.path().join("way").to_string_lossy().into_owned()
    }

    /// Starts two ranks, one on each host.
    fn start(&self, program: &[&str], variables: &[(&str, &str)]) -> Job {
        let mut command = Command::new(WEFT);
        command.args(["run", "-n", "2", "--hosts", "node0:1,node1:1", "--"]).args(program);
        command.env("WEFT_SSH", self.way()).envs(variables.iter().copied());
        Job::of(&mut command)
    }
}

#[test]
fn ranks_on_two_hosts_talk_over_ethernet() {
    let Some(hosts) = Hosts::new() else { return };
    // The launcher's own number is none of the hosts': with it they would be one node.
    let said = hosts.start(&[RANK, "talk", "3"], &[("WEFT_NODE", "7")]).ends_well();
    for rank in 0..2 {
        assert!(said.contains(&format!("@{rank} ended well")), "{said}");
        let sent = format!("@{rank} counter ether.");
        assert!(said.contains(&sent), "nothing of Ethernet: {said}");
    }
    assert!(!said.contains("counter shm."), "{said}");
    let show = "echo node=$WEFT_NODE ssh=$WEFT_SSH cma=$WEFT_CMA log=$WEFT_LOG.";
    let variables = [("WEFT_NODE", "7"), ("WEFT_CMA", "off"), ("WEFT_LOG", "weft=info")];
    let said = hosts.start(&["sh", "-c", show], &variables).ends_well();
    assert_eq!(said.matches("node= ssh= cma=off log=weft=info.").count(), 2, "{said}");
}

#[test]
fn the_end_of_the_launcher_ends_the_ranks_on_all_hosts() {
    let Some(hosts) = Hosts::new() else { return };
    let script = format!("sleep 600 & exec '{RANK}' wait");
    for number in [INT, KILL] {
        let mut job = hosts.start(&["sh", "-c", &script], &[]);
        let spaces = [0, 1].map(|rank| namespace(job.rank(rank)).expect("it runs"));
        assert_ne!(spaces[0], spaces[1]);
        for rank in 0..2 {
            job.says(&format!("@{rank} waits"));
        }
        assert!(spaces.iter().all(|space| inhabitants(space).len() >= 3), "agent, rank, child");
        signal(job.pid(), number);
        for space in &spaces {
            eventually("the end of all on a host", || inhabitants(space).is_empty());
        }
        assert!(!job.ends().0.success());
    }
}

#[test]
fn a_host_that_never_answers_is_named_and_given_up() {
    let folder = tempfile::Builder::new().prefix("way").tempdir().expect("a folder");
    let way = folder.path().join("way");
    // Nor does it end when it is asked to.
    program::script(&way, "#!/bin/sh\ntrap '' TERM\nexec sleep 3600\n");
    let job = |options: &[&str], limit: &str| {
        let mut command = Command::new(WEFT);
        command.arg("run").args(options).args(["-n", "2", "--hosts", "alpha,beta", "--", "true"]);
        command.env("WEFT_SSH", &way).env("WEFT_WIREUP_LIMIT_S", limit);
        Job::of(&mut command).ends()
    };
    let (status, said) = job(&[], "0.1");
    assert!(!status.success() && said.contains("the host alpha: it has not answered"), "{said}");
    let (status, said) = job(&["--timeout", "0.1"], "3000");
    assert!(!status.success(), "{said}");
    assert!(said.contains("--timeout") && said.contains("beta does not say"), "{said}");
}
