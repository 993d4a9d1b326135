//! Where pages lie: in a directory of the user in memory, and, for a job that is recorded, in one
//! of the job's own, which its launcher names by `WEFT_PROFILE`.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use weft_sys::lease::nobody_else_uses;
use weft_sys::page::look_at;
use weft_sys::process::{self, start_time};
use weft_sys::unix::my_uid;

use crate::env;

/// The variable that names the directory of a job that is recorded.
pub const RECORD: &str = "WEFT_PROFILE";

/// How the names of such directories begin that a launcher makes.
const RECORDS: &str = "profile-";

/// A process that opens an endpoint looks at so many pages of others, whether they are left behind.
const LOOKED_AT: usize = 16;

/// How often a launcher looks at most whether pages stay, and how long apart: on a loaded machine
/// it may take seconds for a process to end.
const LOOKS_AT_USED: u32 = 5;
const LOOKS_AT_ENDING: u32 = 500;
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The directory of this user's pages, which is made if it is not there.
///
/// # Errors
/// When it cannot be made, or others may look into it or write to it.
pub fn own() -> io::Result<PathBuf> {
    let path = own_path();
    ensure(&path)?;
    Ok(path)
}

fn own_path() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let is_own =
        |d: &PathBuf| d.is_absolute() && fs::metadata(d).is_ok_and(|m| m.uid() == my_uid());
    match runtime.filter(is_own) {
        Some(runtime) => runtime.join("weft-pages"),
        None => PathBuf::from(format!("/dev/shm/weft-{}", my_uid())),
    }
}

/// Makes a directory that only this user may look into, with those above it that are missing.
///
/// # Errors
/// As for [`own`].
pub fn ensure(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)?;
    ensure_is_own(path)
}

fn ensure_is_own(path: &Path) -> io::Result<()> {
    let about = fs::symlink_metadata(path)?;
    if about.is_dir() && about.uid() == my_uid() && about.mode() & 0o077 == 0 {
        return Ok(());
    }
    let why = format!("{} is no directory of yours alone: remove it", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// The directory that this process writes its pages into, and whether it records.
///
/// # Errors
/// As for [`own`].
pub(super) fn chosen() -> io::Result<(PathBuf, bool)> {
    match of_record()? {
        Some(path) => Ok((path, true)),
        None => Ok((own()?, false)),
    }
}

/// The directory of the job's own that this process writes pages into; `None` where it is not
/// recorded.
///
/// # Errors
/// As for [`own`].
pub fn of_record() -> io::Result<Option<PathBuf>> {
    let Some(path) = env::text(RECORD) else { return Ok(None) };
    let path = here(Path::new(&path));
    ensure(&path)?;
    Ok(Some(path))
}

/// A new directory for the pages of a job of this process, which is to be recorded.
///
/// # Errors
/// As for [`own`].
pub fn make_record() -> io::Result<PathBuf> {
    let pid = std::process::id();
    let started = start_time(pid).unwrap_or(0);
    let own = own()?;
    let name = (0..).map(|n| own.join(format!("{RECORDS}{pid}-{started}-{n}")));
    let path = name.into_iter().find(|path| !path.exists()).unwrap_or(own);
    ensure(&path)?;
    Ok(path)
}

/// Where the directory of a recorded job is on this host: its launcher's may have other ones for
/// its users.
pub fn here(path: &Path) -> PathBuf {
    let fits = path.parent().is_some_and(Path::exists);
    let other = || Some(own().ok()?.join(path.file_name()?));
    if fits { path.to_path_buf() } else { other().unwrap_or_else(|| path.to_path_buf()) }
}

/// Whether a path is that of such a directory of this user's.
pub fn is_record(path: &Path) -> bool {
    let named = path.file_name().and_then(|name| name.to_str());
    let own = fs::symlink_metadata(path).is_ok_and(|m| m.is_dir() && m.uid() == my_uid());
    own && named.is_some_and(|name| name.starts_with(RECORDS))
}

/// The directories to look into: this user's, or, for root, everybody's.
pub fn all() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = own().into_iter().collect();
    let listed = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in listed("/run/user") {
        found.push(entry.path().join("weft-pages"));
    }
    for entry in listed("/dev/shm") {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("weft-")) {
            found.push(entry.path());
        }
    }
    // Those of others cannot be looked into, unless by root.
    let readable = |path: &PathBuf| {
        let about = fs::symlink_metadata(path);
        about.is_ok_and(|m| m.is_dir() && (m.uid() == my_uid() || my_uid() == 0))
    };
    found.retain(readable);
    found.sort();
    found.dedup();
    let inner: Vec<PathBuf> = found.iter().flat_map(|path| records(path)).collect();
    found.extend(inner);
    found
}

/// The directories of recorded jobs in one.
fn records(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let found = entries.filter(|entry| {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_directory && entry.file_name().to_str().is_some_and(|name| name.starts_with(RECORDS))
    });
    found.map(|entry| entry.path()).collect()
}

/// The process that a name speaks of: its number, a `-`, and when it began.
fn process_of(name: &str) -> Option<(u32, u64)> {
    let mut words = name.split(['-', '.']);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Whether that process lives.
fn lives(name: &str) -> Option<bool> {
    process_of(name).map(|(pid, started)| start_time(pid) == Some(started))
}

/// Whether that process is ending: it may have its page yet.
fn is_ending(name: &str) -> bool {
    process_of(name).is_some_and(|(pid, started)| process::is_ending(pid, started))
}

/// Removes pages that dead processes have left in a directory, and, in one of a user, those of jobs
/// whose launcher is dead; looks at `most` entries at most. Says whether some stay, for somebody
/// uses them: perhaps a process in a container, where its number is another.
pub fn sweep(path: &Path, most: usize) -> bool {
    let mut stay = false;
    for entry in fs::read_dir(path).into_iter().flatten().flatten().take(most) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(record) = name.strip_prefix(RECORDS) {
            if lives(record) == Some(false) {
                stay |= sweep(&entry.path(), usize::MAX);
                // Only if nothing is left in it.
                let _ = fs::remove_dir(entry.path());
            }
        } else if lives(name) == Some(false) {
            let used = !is_unused(&entry.path());
            if !used {
                // Another one may have removed it meanwhile.
                let _ = fs::remove_file(entry.path());
            }
            stay |= used;
        }
    }
    stay
}

/// As [`sweep`], what processes of this user have left: for launchers, when a job has ended. Waits
/// a moment for those that are ending.
pub fn sweep_own() {
    let path = own_path();
    // It may not be there, or be another's.
    if ensure_is_own(&path).is_err() {
        return;
    }
    let ends = |entry: fs::DirEntry| entry.file_name().to_str().is_some_and(is_ending);
    for look in 0..LOOKS_AT_ENDING {
        let stay = sweep(&path, usize::MAX);
        // Of those that are left.
        let end = fs::read_dir(&path).into_iter().flatten().flatten().any(ends);
        if !end && !stay {
            // Only if nothing is left in it.
            let _ = fs::remove_dir(&path);
            return;
        }
        if !end && look >= LOOKS_AT_USED {
            return;
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// As [`sweep`], in passing.
pub(super) fn sweep_a_little(path: &Path) {
    sweep(path, LOOKED_AT);
}

/// A process may live in a container, where its number is another.
fn is_unused(path: &Path) -> bool {
    look_at(path).is_ok_and(|file| nobody_else_uses(&file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_dead_are_removed_and_no_others() {
        let path = std::env::temp_dir().join(format!("weft-sweep-{}", std::process::id()));
        ensure(&path).unwrap();
        let me = std::process::id();
        let own = format!("{me}-{}.0", start_time(me).unwrap());
        let dead = format!("{me}-1.0");
        for name in [&own, &dead, "notes", "1-x.0"] {
            fs::write(path.join(name), "").unwrap();
        }
        let record = path.join(format!("{RECORDS}{me}-1-0"));
        ensure(&record).unwrap();
        fs::write(record.join(&dead), "").unwrap();
        // A process that another test starts has all descriptors for a moment.
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while (path.join(&dead).exists() || record.exists()) && std::time::Instant::now() < limit {
            sweep(&path, usize::MAX);
        }
        let mut left: Vec<_> =
            fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        let mut kept: Vec<std::ffi::OsString> = vec![own.into(), "1-x.0".into(), "notes".into()];
        kept.sort();
        assert!(left.iter().eq(kept.iter()), "{left:?}");
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_directory_that_others_may_look_into_is_refused() {
        let path = std::env::temp_dir().join(format!("weft-open-{}", std::process::id()));
        DirBuilder::new().mode(0o755).create(&path).unwrap();
        let why = ensure(&path).unwrap_err().to_string();
        fs::remove_dir(&path).unwrap();
        assert!(why.contains("remove it"), "{why}");
    }
}
