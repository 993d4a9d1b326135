//! A stand-in for ssh that brings launchers of MPI onto the nodes of a lab.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::CliError;
use crate::bench::place::Place;

/// A script that is called like ssh: options, a host, and a command line. Removed on drop.
#[derive(Debug)]
pub struct Launcher {
    directory: PathBuf,
    script: PathBuf,
}

impl Launcher {
    /// Writes the script for the nodes of `place`, whose hosts are named by their addresses.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(place: &Place) -> Result<Launcher, CliError> {
        let directory = std::env::temp_dir().join(format!("weft-compare-{}", std::process::id()));
        let make = |d: &Path| fs::DirBuilder::new().create(d);
        make(&directory).map_err(CliError::io(format!("make {}", directory.display())))?;
        let script = directory.join("launch");
        let launcher = Launcher { directory, script };
        let write = || {
            fs::write(&launcher.script, text(place))?;
            fs::set_permissions(&launcher.script, fs::Permissions::from_mode(0o700))
        };
        write().map_err(CliError::io(format!("write {}", launcher.script.display())))?;
        Ok(launcher)
    }

    /// The script.
    pub fn path(&self) -> &Path {
        &self.script
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn text(place: &Place) -> String {
    let mut text = String::from(
        "#!/bin/sh\n\
         while [ \"${1#-}\" != \"$1\" ]; do shift; done\n\
         host=$1; shift\n\
         case $host in\n",
    );
    for node in 0..2 {
        let (ip, prefix) = (place.site(node).ip, place.prefix(node).join(" "));
        text.push_str(&format!("{ip}) exec {prefix} sh -c \"$*\" ;;\n"));
    }
    text.push_str("*) echo \"$0: no node is called $host\" >&2; exit 1 ;;\nesac\n");
    text
}
