//! Where the processes of a measurement run: here, or on the two nodes of a temporary lab.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;

use weft_sys::net::interfaces;

use super::floor::Site;
use crate::CliError;
use crate::lab::{Lab, LabSpec, Options, Topology, node_name};

/// Two nodes, or one twice.
pub struct Place {
    sites: [Site; 2],
    lab: Option<Lab>,
    weft: PathBuf,
}

impl Place {
    /// This machine as it is; over the network only the loopback interface is used.
    pub fn here() -> Place {
        let (ip, peer_ip) = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
        let site = Site { interface: "lo".into(), ip, peer_ip };
        let weft = std::env::current_exe().unwrap_or_else(|_| "weft".into());
        Place { sites: [site.clone(), site], lab: None, weft }
    }

    /// A temporary lab: two nodes with a cable between them whose frames are up to `mtu` bytes. It
    /// goes with this value, and with this process however that ends.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn lab(mtu: u32) -> Result<Place, CliError> {
        Place::cables(mtu, 1)
    }

    /// As [`Place::lab`], with so many cables. Sites are of the first one.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn cables(mtu: u32, links: u32) -> Result<Place, CliError> {
        let topology = Topology::Mesh;
        let spec = LabSpec { nodes: 2, topology, links, mtu, ..LabSpec::default() };
        let lab = Lab::temporary(&spec, &Options::default())?;
        let mut place = Place { lab: Some(lab), ..Place::here() };
        let (a, b) = (place.cable_end(0)?, place.cable_end(1)?);
        place.sites[0] = Site { interface: a.0, ip: a.1, peer_ip: b.1 };
        place.sites[1] = Site { interface: b.0, ip: b.1, peer_ip: a.1 };
        Ok(place)
    }

    /// The interface of a node of the lab and its address.
    fn cable_end(&self, node: usize) -> Result<(String, Ipv4Addr), CliError> {
        let mut ask = self.command(node, &self.weft);
        let said = ask.args(["bench", "site"]).output().map_err(CliError::io("ask a node"))?;
        serde_json::from_slice(&said.stdout).map_err(|_| {
            let why = String::from_utf8_lossy(&said.stderr).trim().to_string();
            CliError::Bench(format!("{} of the lab has no cable: {why}", node_name(node as u32)))
        })
    }

    /// Whether it has two nodes with a cable.
    pub fn is_lab(&self) -> bool {
        self.lab.is_some()
    }

    /// The lab, if there is one.
    pub fn as_lab(&self) -> Option<&Lab> {
        self.lab.as_ref()
    }

    /// The lab's name, for `weft run --lab`.
    pub fn lab_name(&self) -> Option<&str> {
        self.lab.as_ref().map(|lab| lab.record().name.as_str())
    }

    /// How node 0 or 1 sees the network.
    pub fn site(&self, node: usize) -> &Site {
        &self.sites[node]
    }

    /// The words of a command line that bring a program onto node 0 or 1; none if it is this one.
    pub fn prefix(&self, node: usize) -> Vec<String> {
        let Some(lab) = &self.lab else { return Vec::new() };
        let weft = self.weft.to_string_lossy();
        let node = node_name(node as u32);
        [&weft, "lab", "exec", "--name", &lab.record().name, &node, "--"].map(String::from).into()
    }

    /// A command that runs `program` on node 0 or 1.
    pub fn command(&self, node: usize, program: &Path) -> Command {
        let prefix = self.prefix(node);
        match prefix.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        }
    }
}

/// Tells the process that made a lab what this node's cable is (`weft bench site`): the first
/// interface besides loopback, and its IPv4 address, as JSON.
///
/// # Errors
/// When there is none.
pub fn tell_site() -> Result<(), CliError> {
    let all = interfaces().map_err(CliError::io("list the interfaces"))?;
    let ip = |a: &IpAddr| match a {
        IpAddr::V4(ip) => Some(*ip),
        IpAddr::V6(_) => None,
    };
    let end = all.iter().filter(|i| !i.loopback).find_map(|i| {
        let ip = i.addresses.iter().find_map(|a| ip(&a.addr))?;
        Some((&i.name, ip))
    });
    let end = end.ok_or_else(|| CliError::Bench("no interface with an IPv4 address".into()))?;
    crate::output::json_line(&end);
    Ok(())
}
