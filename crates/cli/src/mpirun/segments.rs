//! What MPI libraries keep in `/dev/shm` while they run, and leave there when their ranks are
//! killed.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

const FOLDER: &str = "/dev/shm/";

/// How the libraries' files begin. What a program keeps there itself is its own business.
const NAMES: [&str; 3] = ["mpich_", "sm_segment.", "vader_segment."];

/// Files of a job there.
#[derive(Debug, Default)]
pub struct Segments(BTreeSet<PathBuf>);

impl Segments {
    /// Takes note of those that a process has mapped.
    pub fn note(&mut self, pid: u32) {
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        self.0.extend(String::from_utf8_lossy(&maps).lines().filter_map(segment));
    }

    /// Removes what is left of them: to be called when the job has ended.
    pub fn remove(&mut self) {
        for path in std::mem::take(&mut self.0) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The file of a line of `/proc/PID/maps`, if it is one of a library's and still has its name.
fn segment(line: &str) -> Option<PathBuf> {
    let (_, name) = line.split_once(FOLDER)?;
    let known = NAMES.iter().any(|start| name.starts_with(start));
    let plain = !name.contains('/') && !name.ends_with(" (deleted)");
    (known && plain).then(|| PathBuf::from(FOLDER).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_libraries_that_have_a_name_are_found() {
        let of = |name: &str| segment(&format!("7f00-7f01 rw-s 00000000 00:1a 9  {name}"));
        for kept in ["/dev/shm/mpich_shm_2f_0", "/dev/shm/sm_segment.vm.0.b52b0001.1"] {
            assert_eq!(of(kept), Some(PathBuf::from(kept)));
        }
        for other in [
            "/dev/shm/mpich_shar_tmpL7 (deleted)",
            "/dev/shm/my_own",
            "/dev/shm/mpich_/../../etc/passwd",
            "/usr/lib/libmpich_x.so",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
