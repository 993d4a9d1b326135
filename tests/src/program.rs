//! Programs that a test makes and then runs.
//!
//! They are written by a process of their own: a child that another test starts meanwhile holds
//! this process's open files until its `exec`, and a program that somebody still has open for
//! writing is not started ("Text file busy").

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Copies a program.
pub fn copy(program: &Path, to: &Path) {
    done("cp", &[program.as_os_str(), to.as_os_str()]);
}

/// Writes a script that everybody may run.
pub fn script(path: &Path, text: &str) {
    let write = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
    done("sh", &["-c".as_ref(), write.as_ref(), "sh".as_ref(), text.as_ref(), path.as_os_str()]);
}

fn done(program: &str, arguments: &[&OsStr]) {
    let status = Command::new(program).args(arguments).status().expect(program);
    assert!(status.success(), "{program} {arguments:?}: {status}");
}
