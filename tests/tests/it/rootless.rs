//! Jobs of a user without any rights, on a lab in a user namespace: there he may use packet
//! sockets.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use weft_tests::job::{Job, KILL, eventually, signal};
use weft_tests::mpi::{Mpi, alone, provider};
use weft_tests::program;

use super::{RANK, WEFT};

/// A user of this test process alone, who may read his own copies of the programs and write to one
/// folder. Where the tests run without root rights, the user who runs them.
struct User {
    uid: Option<u32>,
    folder: TempDir,
}

impl User {
    /// `None`, said aloud, where user namespaces are not for everyone.
    fn new(salt: u32) -> Option<User> {
        let root = rustix::process::geteuid().is_root();
        // Not a number of the system's users.
        let uid = root.then_some(100_000_000 + 4 * std::process::id() + salt);
        let folder = tempfile::Builder::new().prefix("weft-user").tempdir().expect("a folder");
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("its mode");
        let user = User { uid, folder };
        fs::create_dir(user.records()).expect("a folder");
        chown(user.records(), uid, uid).expect("its owner");
        let try_out = user.command(Path::new("unshare")).args(["-U", "-r", "-n", "true"]).output();
        if !try_out.as_ref().is_ok_and(|done| done.status.success()) {
            println!("SKIPPED: a user without rights may make no user namespaces: {try_out:?}");
            return None;
        }
        for (file, name) in [(WEFT, "weft"), (RANK, "rank")] {
            program::copy(Path::new(file), &user.path(name));
        }
        Some(user)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the records of his labs are.
    fn records(&self) -> PathBuf {
        self.path("run")
    }

    /// A command that he starts.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("XDG_RUNTIME_DIR", self.records()).current_dir("/");
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        command
    }

    /// Starts a job of two ranks on two nodes.
    fn start(&self, role: &[&str], links: &str) -> Job {
        self.start_on("nodes=2,topology=mesh", "2", role, links)
    }

    fn start_on(&self, lab: &str, ranks: &str, role: &[&str], links: &str) -> Job {
        let mut command = self.command(&self.path("weft"));
        command.args(["run", "-n", ranks, "--lab", lab, "--"]);
        command.arg(self.path("rank")).args(role).env("WEFT_LINKS", links);
        Job::of(&mut command)
    }

    /// Processes that run one of his programs.
    fn processes(&self) -> Vec<u32> {
        let is_his = |pid: &u32| {
            let exe = fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe.starts_with(self.folder.path()))
        };
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(is_his).collect()
    }

    /// Waits until nothing is left of his jobs: no process, and so no namespace, and no record.
    fn has_left_nothing(&self) {
        eventually("the end of all processes", || self.processes().is_empty());
        // A record outlives a holder that was killed; the next command removes it.
        let list = self.command(&self.path("weft")).args(["lab", "list", "--json"]).output();
        let list = list.expect("weft lab list");
        assert!(list.status.success() && list.stdout.is_empty(), "{list:?}");
        let records = fs::read_dir(self.records().join("weft")).expect("the records' folder");
        assert_eq!(records.count(), 0, "a record is left");
    }
}

#[test]
fn a_user_without_rights_has_packet_links_on_his_lab() {
    let Some(user) = User::new(0) else { return };
    for links in ["packet", "packet,udp,tso"] {
        let job = user.start(&["talk", "3"], links);
        let said = job.ends_well();
        for rank in 0..2 {
            assert!(said.contains(&format!("@{rank} ended well")), "{said}");
            let start = format!("@{rank} counter packet:to{}a.sent_frames ", 1 - rank);
            let sent = said.lines().find_map(|l| l.strip_prefix(&start)?.parse::<u64>().ok());
            assert!(sent.is_some_and(|frames| frames > 10), "{start}{sent:?}:\n{said}");
        }
        user.has_left_nothing();
    }
}

/// His kernel loads no program for him: the node between hands frames on by a thread of its rank.
#[test]
fn a_user_without_rights_has_frames_handed_on_along_a_chain() {
    let Some(user) = User::new(3) else { return };
    for links in ["packet", "packet,tso"] {
        let job = user.start_on("nodes=3,topology=chain", "3", &["talk", "3"], links);
        let said = job.ends_well();
        let relayed =
            |line: &str| line.strip_prefix("@1 counter ether.relayed_frames ")?.parse::<u64>().ok();
        let frames = said.lines().find_map(relayed);
        assert!(frames.is_some_and(|frames| frames > 10), "{links}, {frames:?}:\n{said}");
        user.has_left_nothing();
    }
}

#[test]
fn nothing_is_left_of_a_rootless_job_whose_launcher_is_killed() {
    let Some(user) = User::new(1) else { return };
    let mut job = user.start(&["wait"], "packet");
    for rank in 0..2 {
        let pid = job.rank(rank);
        let owner = std::os::unix::fs::MetadataExt::uid(
            &fs::metadata(format!("/proc/{pid}")).expect("it runs"),
        );
        assert!(user.uid.is_none_or(|uid| uid == owner), "rank {rank} runs as {owner}");
        job.says(&format!("@{rank} waits"));
    }
    assert!(user.processes().len() >= 4, "launcher, holder, ranks");
    signal(job.pid(), KILL);
    user.has_left_nothing();
}

/// The library's launcher starts its helpers on the other nodes from the first one, which is in the
/// same user namespace.
#[test]
fn a_user_without_rights_runs_mpi_programs_on_the_nodes_of_his_lab() {
    let _turn = alone();
    let Some(file) = provider(WEFT) else { return };
    let Some(user) = User::new(2) else { return };
    let cache = user.path("cache");
    fs::create_dir(&cache).expect("a folder");
    chown(&cache, user.uid, user.uid).expect("its owner");
    fs::copy(file, user.path("libweft-fi.so")).expect("a copy of the provider");
    for mpi in Mpi::all() {
        let launcher =
            user.command(Path::new(mpi.launcher().get_program())).arg("--version").output();
        if !launcher.is_ok_and(|done| done.status.success()) {
            println!("SKIPPED: {} is where only its owner may go", mpi.name);
            continue;
        }
        let steps = mpi.compile("steps", &["steps.c"], env!("CARGO_TARGET_TMPDIR"));
        program::copy(&steps, &user.path("steps"));
        let mut command = user.command(&user.path("weft"));
        command.args(["mpirun", "-n", "3", "--lab", "nodes=2", "--timeout", "60", "--"]);
        command.arg(user.path("steps")).arg("50").env("XDG_CACHE_HOME", &cache);
        let done = command.output().expect("weft mpirun");
        let said = String::from_utf8_lossy(&done.stdout);
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("@0 done"), "{}: {said}{errors}", mpi.name);
        user.has_left_nothing();
    }
}
