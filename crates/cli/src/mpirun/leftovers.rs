//! Files that MPI libraries keep outside the job's directory while they run, and leave there when
//! their ranks or helpers are killed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags};
use weft_sys::lease::nobody_else_uses;

/// Folders, and how the libraries' files in them begin. What a program keeps there itself is its
/// own business.
const NAMES: [(&str, &str); 4] = [
    ("/dev/shm/", "mpich_"),
    ("/dev/shm/", "sm_segment."),
    ("/dev/shm/", "vader_segment."),
    ("/tmp/", "hydra_hwloc_xmlfile_"),
];

/// Such files of a job.
#[derive(Debug, Default)]
pub struct Leftovers(BTreeSet<PathBuf>);

impl Leftovers {
    /// Takes note of those that a process has mapped or open.
    pub fn note(&mut self, pid: u32) {
        self.0.extend(used(pid).unwrap_or_default());
    }

    /// Removes what is left of them: to be called when the job has ended.
    pub fn remove(&mut self) {
        for path in std::mem::take(&mut self.0) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes those that have come since then, are this user's, and are used by nobody any more, in
/// whatever container, for these may share the folders: where a launcher ended the job by itself,
/// or ended with it, nobody is left who could tell whose they were. Says whether others are there
/// that somebody uses, or of which the kernel does not tell.
pub fn remove_orphans(since: SystemTime) -> bool {
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
    let found: Vec<PathBuf> = NAMES.iter().flat_map(|(folder, _)| new_in(folder, since)).collect();
    let removed = found.iter().filter(|path| remove_if_unused(path));
    removed.count() < found.len()
}

/// Who opens the file meanwhile waits until it is gone.
fn remove_if_unused(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()).map(fs::File::from) else {
        return false;
    };
    nobody_else_uses(&file) && fs::remove_file(path).is_ok()
}

/// Files of the libraries that a process has mapped or open.
fn used(pid: u32) -> Option<BTreeSet<PathBuf>> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    let maps = String::from_utf8_lossy(&maps);
    let mapped = maps.lines().filter_map(|line| leftover(&line[line.find('/')?..]));
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let open = open.filter_map(|entry| leftover(fs::read_link(entry.path()).ok()?.to_str()?));
    Some(mapped.chain(open).collect())
}

/// This user's files of the libraries in a folder that have changed since then.
fn new_in(folder: &str, since: Duration) -> Vec<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(Path::new(folder)).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let file = leftover(entry.path().to_str()?)?;
        let about = fs::symlink_metadata(&file).ok()?;
        let changed = Duration::new(about.ctime().try_into().ok()?, about.ctime_nsec() as u32);
        (about.is_file() && about.uid() == own && changed >= since).then_some(file)
    });
    found.collect()
}

/// The file of this path, as `/proc` has it, if it is one of a library's and still has its name.
fn leftover(path: &str) -> Option<PathBuf> {
    let known = |(folder, start): &(&str, &str)| {
        path.strip_prefix(folder).is_some_and(|name| name.starts_with(start) && !name.contains('/'))
    };
    (NAMES.iter().any(known) && !path.ends_with(" (deleted)")).then(|| path.into())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn only_files_of_the_libraries_that_have_a_name_are_found() {
        for kept in [
            "/dev/shm/mpich_shm_2f_0",
            "/dev/shm/sm_segment.vm.0.b52b0001.1",
            "/tmp/hydra_hwloc_xmlfile_rFkVSU",
        ] {
            assert_eq!(leftover(kept), Some(PathBuf::from(kept)));
        }
        for other in [
            "/dev/shm/mpich_shar_tmpL7 (deleted)",
            "/dev/shm/my_own",
            "/dev/shm/mpich_/../../etc/passwd",
            "/usr/lib/libmpich_x.so",
            "/tmp/dev/shm/mpich_shm_2f_0",
            "",
        ] {
            assert_eq!(leftover(other), None, "{other}");
        }
    }

    #[test]
    fn a_file_is_an_orphan_when_nobody_uses_it_any_more() {
        let path = PathBuf::from(format!("/dev/shm/mpich_weft-test-{}", std::process::id()));
        // The kernel's clock for files is a tick behind.
        let since = SystemTime::now() - Duration::from_secs(1);
        let open = fs::File::create(&path).unwrap();
        assert!(remove_orphans(since) && path.exists());
        drop(open);
        remove_orphans(since + Duration::from_secs(3600));
        assert!(path.exists());
        // A process that another test starts has all descriptors for a moment.
        let limit = Instant::now() + Duration::from_secs(30);
        while path.exists() && Instant::now() < limit {
            remove_orphans(since);
        }
        assert!(!path.exists());
    }
}
