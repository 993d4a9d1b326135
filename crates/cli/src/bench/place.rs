//! Where the processes of a measurement run: here, or on the two nodes of a temporary lab.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::floor::Site;
use crate::CliError;

/// Two nodes, or one twice.
pub struct Place {
    sites: [Site; 2],
    nodes: Vec<Node>,
}

/// A network namespace that lives as long as the process that holds it.
struct Node {
    holder: Child,
}

const IPS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)];
const INTERFACE: &str = "weft0";

impl Place {
    /// This machine as it is; over the network only the loopback interface is used.
    pub fn here() -> Place {
        let (ip, peer_ip) = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
        let site = Site { interface: "lo".into(), ip, peer_ip };
        Place { sites: [site.clone(), site], nodes: Vec::new() }
    }

    /// Two network namespaces with a cable between them whose frames are up to `mtu` bytes. They
    /// vanish with this value, and with this process however it ends.
    ///
    /// # Errors
    /// Without the right to make namespaces, or without the programs `unshare`, `nsenter`, `ip`.
    pub fn lab(mtu: usize) -> Result<Place, CliError> {
        let nodes = vec![Node::new()?, Node::new()?];
        let (a, b) = (nodes[0].holder.id().to_string(), nodes[1].holder.id().to_string());
        let mtu = mtu.to_string();
        let pair = ["link", "add", INTERFACE, "mtu", &mtu, "netns", &a, "type", "veth"];
        let peer = ["peer", "name", INTERFACE, "mtu", &mtu, "netns", &b];
        finish(Command::new("ip").args(pair).args(peer))?;
        let mut place = Place { sites: Place::here().sites, nodes };
        for node in 0..2 {
            let address = format!("{}/24", IPS[node]);
            let add = ["addr", "add", &address, "dev", INTERFACE];
            finish(place.command(node, Path::new("ip")).args(add))?;
            for interface in ["lo", INTERFACE] {
                let up = ["link", "set", interface, "up"];
                finish(place.command(node, Path::new("ip")).args(up))?;
            }
            let (ip, peer_ip) = (IPS[node], IPS[1 - node]);
            place.sites[node] = Site { interface: INTERFACE.into(), ip, peer_ip };
        }
        Ok(place)
    }

    /// Whether it has two nodes with a cable.
    pub fn is_lab(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// How node 0 or 1 sees the network.
    pub fn site(&self, node: usize) -> &Site {
        &self.sites[node]
    }

    /// The words of a command line that bring a program onto node 0 or 1; none if it is this one.
    pub fn prefix(&self, node: usize) -> Vec<String> {
        let Some(node) = self.nodes.get(node) else { return Vec::new() };
        let pid = node.holder.id().to_string();
        ["nsenter", "-t", &pid, "-n", "-u", "--"].map(String::from).to_vec()
    }

    /// A command that runs `program` on node 0 or 1.
    pub fn command(&self, node: usize, program: &Path) -> Command {
        let prefix = self.prefix(node);
        let mut words = prefix.iter().map(OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or(program.as_os_str()));
        command.args(words);
        command
    }
}

impl Node {
    fn new() -> Result<Node, CliError> {
        let mut hold = Command::new("unshare");
        // `cat` ends when its input does, which is when this process ends. It first repeats a line,
        // which tells that the namespace is there.
        hold.args(["-n", "-u", "--", "sh", "-c", "hostname node 2>/dev/null; echo; exec cat"]);
        hold.stdin(Stdio::piped()).stdout(Stdio::piped());
        let holder = hold.spawn().map_err(CliError::io("run `unshare` (install util-linux)"))?;
        let mut node = Node { holder };
        let mut sign = [0u8; 1];
        let out = node.holder.stdout.as_mut().map(|out| std::io::Read::read(out, &mut sign));
        if !matches!(out, Some(Ok(1))) {
            return Err(CliError::Bench("cannot make a network namespace: run as root".into()));
        }
        Ok(node)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn finish(command: &mut Command) -> Result<(), CliError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(CliError::io(format!("run `{program}`")))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(CliError::Bench(format!("`{program}` failed while making the lab: {}", said.trim())))
}
