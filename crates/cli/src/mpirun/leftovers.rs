//! Files that MPI libraries keep outside the job's directory while they run, and leave there when
//! their ranks or helpers are killed.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

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
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let maps = String::from_utf8_lossy(&maps);
        let mapped = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
        self.0.extend(mapped.filter_map(leftover));
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        self.0.extend(open.filter_map(|path| leftover(path.to_str()?)));
    }

    /// Removes what is left of them: to be called when the job has ended.
    pub fn remove(&mut self) {
        for path in std::mem::take(&mut self.0) {
            let _ = fs::remove_file(path);
        }
    }
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
}
