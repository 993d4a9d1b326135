//! A stand-in for ssh that brings launchers of MPI onto the nodes of a lab.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::cache::kept;
use crate::CliError;
use crate::bench::place::Place;

/// Called like ssh: options, a host, and a command line. Which lab is meant is in the environment,
/// so that the script is the same for all and stays in the cache.
const SCRIPT: &str = r#"#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
case $host in
"$LAB_IP_0") node=node0 ;;
"$LAB_IP_1") node=node1 ;;
*) echo "$0: no node of the lab is called $host" >&2; exit 1 ;;
esac
exec "$LAB_EXEC" lab exec --name "$LAB_NAME" "$node" -- sh -c "$*"
"#;

/// The script, and the lab it is for.
#[derive(Debug)]
pub struct Launcher {
    script: PathBuf,
    environment: Vec<(&'static str, String)>,
}

impl Launcher {
    /// For the nodes of `place`, whose hosts are named by their addresses.
    ///
    /// # Errors
    /// When the script cannot be kept in the cache.
    pub fn new(place: &Place) -> Result<Launcher, CliError> {
        let script = kept("launch", SCRIPT, |path| {
            fs::write(path, SCRIPT).map_err(CliError::io(format!("write {}", path.display())))
        })?;
        let weft = std::env::current_exe().map_err(CliError::io("find this program's file"))?;
        let environment = vec![
            ("LAB_EXEC", weft.to_string_lossy().into_owned()),
            ("LAB_NAME", place.lab_name().unwrap_or_default().to_string()),
            ("LAB_IP_0", place.site(0).ip.to_string()),
            ("LAB_IP_1", place.site(1).ip.to_string()),
        ];
        Ok(Launcher { script, environment })
    }

    /// Tells a launcher of MPI to use it: by `option`, in place of ssh.
    pub fn stand_in(&self, command: &mut Command, option: &[&str]) {
        command.args(option).arg(&self.script);
        command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
    }
}
