//! The records of labs: a small file for each, in a directory of the user's own, by which later
//! commands find a lab. A record whose holder is gone is stale and removed when it is noticed.
//!
//! Processes' numbers hold in one PID namespace: of records that were made in another one, as in a
//! container that has the directory, too, nothing can be said. They are left alone.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_sys::process;

use super::{LabError, LabSpec};

/// What there is to know about a lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub spec: LabSpec,
    /// The process that holds it.
    pub holder: u32,
    /// When that process was started, in ticks since boot.
    pub started: u64,
    /// The PID namespace in which it has this number.
    #[serde(default = "pids")]
    pub pids: u64,
    /// The process it was made for, after which it goes; none if it stays until it is taken down.
    pub owner: Option<u32>,
    /// Whether it is in a user namespace.
    pub rootless: bool,
    /// The holder's descriptors of the nodes' network namespaces.
    pub nodes: Vec<i32>,
    /// The holder's descriptor of the switches' network namespace.
    pub switches: Option<i32>,
}

impl Record {
    /// Whether the process that holds the lab is still there.
    pub fn is_alive(&self) -> bool {
        process::start_time(self.holder) == Some(self.started)
    }

    /// The path of a descriptor of the holder, by which its namespace can be opened.
    pub fn path_of(&self, fd: i32) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{fd}", self.holder))
    }

    /// Writes the record; there must be none of that name.
    pub(super) fn publish(&self) -> Result<(), LabError> {
        forget_stale();
        let path = file_of(&directory()?, self);
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::from);
        // Written aside, then linked to its name: a half-written record is never read, and of two
        // labs of one name only one gets it.
        let aside = path.with_extension(format!("{}.new", std::process::id()));
        let written = text.and_then(|text| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            options.open(&aside)?.write_all(&text)?;
            fs::hard_link(&aside, &path)
        });
        let _ = fs::remove_file(&aside);
        written.map_err(|cause| match cause.kind() {
            ErrorKind::AlreadyExists => LabError::Exists(self.name.clone()),
            _ => LabError::Record { path, cause },
        })
    }

    /// Removes the record.
    pub(super) fn forget(&self) {
        if let Ok(directory) = directory() {
            let _ = fs::remove_file(file_of(&directory, self));
        }
    }
}

/// All labs of this user whose holder lives, by name.
///
/// # Errors
/// When the directory of the records cannot be read.
pub fn all() -> Result<Vec<Record>, LabError> {
    forget_stale();
    let mut labs: Vec<Record> = read_all()?.into_iter().map(|(_, r)| r).collect();
    labs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(labs)
}

/// This process's PID namespace.
pub(super) fn pids() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |about| about.ino())
}

/// Those of this PID namespace.
fn read_all() -> Result<Vec<(PathBuf, Record)>, LabError> {
    let directory = directory()?;
    let entries = fs::read_dir(&directory)
        .map_err(|cause| LabError::Record { path: directory.clone(), cause })?;
    let (pids, mut found) = (pids(), Vec::new());
    for path in entries.filter_map(|e| e.ok().map(|e| e.path())) {
        if path.extension().is_some_and(|e| e == "json")
            && let Ok(text) = fs::read(&path)
            && let Ok(record) = serde_json::from_slice::<Record>(&text)
            && record.pids == pids
        {
            found.push((path, record));
        }
    }
    Ok(found)
}

fn forget_stale() {
    for (path, record) in read_all().unwrap_or_default() {
        if !record.is_alive() {
            tracing::info!("the lab {} is gone: its record is removed", record.name);
            let _ = fs::remove_file(path);
        }
    }
}

fn file_of(directory: &Path, record: &Record) -> PathBuf {
    directory.join(format!("lab-{}.{:x}.json", record.name, record.pids))
}

/// The directory of the records: only this user may have written what is in it.
///
/// # Errors
/// When it cannot be made, or others may write to it.
pub fn directory() -> Result<PathBuf, LabError> {
    let uid = rustix::process::geteuid().as_raw();
    let path = match std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        _ if uid == 0 => PathBuf::from("/run/weft"),
        Some(directory) => PathBuf::from(directory).join("weft"),
        None => std::env::temp_dir().join(format!("weft-{uid}")),
    };
    let made = DirBuilder::new().mode(0o700).create(&path);
    let checked = match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => fs::symlink_metadata(&path).and_then(|meta| {
            if meta.is_dir() && meta.uid() == uid && meta.mode() & 0o022 == 0 {
                Ok(())
            } else {
                Err(io::Error::other("not a directory that only you may write to: remove it"))
            }
        }),
    };
    checked.map_err(|cause| LabError::Record { path: path.clone(), cause })?;
    Ok(path)
}
