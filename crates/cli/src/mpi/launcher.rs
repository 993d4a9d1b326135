//! Stand-ins for ssh: they bring launchers of MPI onto the nodes of a lab, and to other hosts by
//! what `WEFT_SSH` names.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use crate::CliError;
use crate::cache::kept;

/// Called like ssh: options, a host, and a command line. Which lab is meant is in the environment,
/// so that the script is the same for all and stays in the cache. Each word of `LAB_HOSTS` is the
/// address of a node, its name, and the address that node 0 has towards it: a launcher that tells
/// its helpers only one address of its own tells each of them the right one that way. (Intel's also
/// tells them its own interface, whose name is another one there.)
const TO_NODES: &str = r#"#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
line=$*
for each in $LAB_HOSTS; do
    ip=${each%%=*}; rest=${each#*=}; node=${rest%%=*}; hub=${rest#*=}
    if [ "$ip" = "$host" ] || [ "$node" = "$host" ]; then
        line=$(printf '%s\n' "$line" | sed "s/--control-port $LAB_HUB:/--control-port $hub:/
            s/--upstream-host $LAB_HUB /--upstream-host $hub /; s/--iface [^ ]* //")
        exec "$LAB_EXEC" lab exec --name "$LAB_NAME" "$node" -- sh -c "$line"
    fi
done
echo "$0: no node of the lab is called $host" >&2
exit 1
"#;

/// Called in the same way. What leads to the host gets no options that are meant for ssh, as from
/// `weft run`. A way that fails is written down, for MPICH's launcher does not say to which host it
/// was to lead.
const TO_HOSTS: &str = r#"#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
$HOSTS_WAY "$@" && exit
status=$?
echo "the way to the host $1 has ended with status $status: \`$HOSTS_WAY $1 COMMAND\` must run" \
    "COMMAND there, as ssh does (WEFT_SSH says what leads there)" >>"$WEFT_MPIRUN/.ways"
exit $status
"#;

/// A script, and what it is told.
#[derive(Debug)]
pub struct Launcher {
    script: PathBuf,
    environment: Vec<(&'static str, String)>,
}

/// How a node of a lab is reached from node 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The node's address.
    pub ip: Ipv4Addr,
    /// Node 0's address towards it.
    pub hub: Ipv4Addr,
}

impl Launcher {
    /// For the nodes of the lab called `lab`; `ways` has one for each node, that to node 0 first.
    ///
    /// # Errors
    /// When the script cannot be kept in the cache.
    pub fn to_nodes(lab: &str, ways: &[Way]) -> Result<Launcher, CliError> {
        let weft = std::env::current_exe().map_err(CliError::io("find this program's file"))?;
        let hosts: Vec<String> = ways
            .iter()
            .enumerate()
            .map(|(node, way)| format!("{}=node{node}={}", way.ip, way.hub))
            .collect();
        let environment = vec![
            ("LAB_EXEC", weft.to_string_lossy().into_owned()),
            ("LAB_NAME", lab.to_string()),
            ("LAB_HUB", ways.first().map_or(String::new(), |w| w.ip.to_string())),
            ("LAB_HOSTS", hosts.join(" ")),
        ];
        Ok(Launcher { script: script(TO_NODES)?, environment })
    }

    /// For other hosts: `way` stands before the host.
    ///
    /// # Errors
    /// As for [`Launcher::to_nodes`].
    pub fn to_hosts(way: &str) -> Result<Launcher, CliError> {
        let environment = vec![("HOSTS_WAY", way.to_string())];
        Ok(Launcher { script: script(TO_HOSTS)?, environment })
    }

    /// Tells a launcher of MPI to use it: by `option`, in place of ssh.
    pub fn stand_in(&self, command: &mut Command, option: &[&str]) {
        command.args(option).arg(&self.script);
        command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
    }
}

fn script(text: &str) -> Result<PathBuf, CliError> {
    kept("launch", text, |path| {
        fs::write(path, text).map_err(CliError::io(format!("write {}", path.display())))
    })
}
