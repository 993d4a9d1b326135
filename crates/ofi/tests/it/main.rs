//! The provider through libfabric's own interface, as applications use it: the libfabric that is
//! installed, and those of the MPI libraries.

mod apart;
mod atomics;
mod collective;
mod deaths;
mod formats;
mod groups;
mod info;
mod library;
mod load;
mod lookout;
mod memory;
mod messages;
mod net;
mod objects;
mod pieces;
mod pingpong;
mod processes;
mod trouble;
mod versions;
mod waiting;

use std::process::Command;

use library::{CHOICE, library, of_wheels};

/// All of these tests once more, with the libfabric of an MPI library.
#[test]
fn newer_libfabrics_work_as_well() {
    if std::env::var_os(CHOICE).is_some() || library().is_none() {
        return;
    }
    let wheels = of_wheels();
    if wheels.is_empty() {
        println!("SKIPPED: no MPI library is installed (scripts/setup.sh mpi installs them)");
    }
    for path in wheels {
        let exe = std::env::current_exe().expect("this program");
        let mut again = Command::new(exe);
        let output = again.env(CHOICE, &path).output().expect("this program runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "with {}:\n{said}", path.display());
    }
}
