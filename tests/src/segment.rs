//! A virtual Ethernet segment: nodes that are network namespaces, joined by one cable or a switch.
//! The namespaces have no names; they vanish with the value, also when a test panics or is killed.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use weft_sys::net::{self, Interface};
use weft_sys::netlink::Rtnetlink;
use weft_sys::ns::NetNs;

/// The name of every node's interface.
pub const INTERFACE: &str = "eth1";

/// How long anything may take that the kernel does in the background.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Nodes on one segment.
#[derive(Debug)]
pub struct Segment {
    nodes: Vec<NetNs>,
    /// Keeps the switch alive, where there is one.
    switch: Option<NetNs>,
}

/// How a segment is set up.
#[derive(Clone, Copy, Debug)]
pub struct SegmentConfig {
    /// Nodes on it: two are joined by a cable, more by a switch.
    pub nodes: usize,
    /// The MTU of every interface, bytes.
    pub mtu: u32,
    /// Whether nodes get IPv4 addresses (10.77.0.1 and up), or only IPv6 link-local ones.
    pub ipv4: bool,
}

impl Segment {
    /// Makes a segment and waits until its interfaces can be used.
    ///
    /// # Errors
    /// `PermissionDenied` without the right to make namespaces.
    pub fn new(config: SegmentConfig) -> io::Result<Segment> {
        let nodes = (0..config.nodes).map(|_| NetNs::create()).collect::<io::Result<Vec<_>>>()?;
        for node in &nodes {
            node.run(|| {
                // A fresh IPv6 address is usable at once without the check for duplicates.
                let dad = "/proc/sys/net/ipv6/conf/default/accept_dad";
                let _ = std::fs::write(dad, "0");
                Rtnetlink::open()?.switch_on(1, None)
            })?;
        }
        let switch = (config.nodes > 2).then(NetNs::create).transpose()?;
        match &switch {
            None => nodes[0].run(|| {
                let mut rtnetlink = Rtnetlink::open()?;
                rtnetlink.add_cable(INTERFACE, INTERFACE, nodes[1].as_fd(), config.mtu)
            })?,
            Some(switch) => switch.run(|| {
                let mut rtnetlink = Rtnetlink::open()?;
                rtnetlink.add_bridge("switch", config.mtu)?;
                let bridge = rtnetlink.index("switch")?;
                rtnetlink.switch_on(bridge, None)?;
                for (number, node) in nodes.iter().enumerate() {
                    let port = format!("port{number}");
                    rtnetlink.add_cable(&port, INTERFACE, node.as_fd(), config.mtu)?;
                    let index = rtnetlink.index(&port)?;
                    rtnetlink.switch_on(index, Some(bridge))?;
                }
                Ok(())
            })?,
        }
        let segment = Segment { nodes, switch };
        for (number, node) in segment.nodes.iter().enumerate() {
            node.run(|| {
                let mut rtnetlink = Rtnetlink::open()?;
                let index = rtnetlink.index(INTERFACE)?;
                if config.ipv4 {
                    let address = Ipv4Addr::new(10, 77, 0, number as u8 + 1);
                    rtnetlink.add_ipv4(index, address, 24)?;
                }
                rtnetlink.switch_on(index, None)
            })?;
        }
        for node in 0..config.nodes {
            segment.wait_until(node, |i| {
                i.state.usable() && if config.ipv4 { i.ipv4() } else { i.ipv6() }.is_some()
            })?;
        }
        segment.wait_for_switch(config.nodes)?;
        Ok(segment)
    }

    /// Waits until the switch forwards on all its ports, which is later than the nodes have a
    /// carrier.
    fn wait_for_switch(&self, ports: usize) -> io::Result<()> {
        let Some(switch) = &self.switch else { return Ok(()) };
        switch.run(|| {
            let mut rtnetlink = Rtnetlink::open()?;
            for number in 0..ports {
                let index = rtnetlink.index(&format!("port{number}"))?;
                let give_up = Instant::now() + PATIENCE;
                while !rtnetlink.has_carrier(index)? {
                    if Instant::now() > give_up {
                        return Err(io::Error::other("a port of the switch has no carrier"));
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            Ok(())
        })
    }

    /// Runs `work` inside a node.
    ///
    /// # Errors
    /// Whatever `work` gives.
    pub fn run<T: Send>(
        &self,
        node: usize,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        self.nodes[node].run(work)
    }

    /// A node's interface as it is now.
    ///
    /// # Errors
    /// When it is gone.
    pub fn interface(&self, node: usize) -> io::Result<Interface> {
        self.run(node, || net::interface(INTERFACE)?.ok_or(io::ErrorKind::NotFound.into()))
    }

    /// Switches a node's interface on or off.
    ///
    /// # Errors
    /// When the `ip` program is missing or fails.
    pub fn set_up(&self, node: usize, up: bool) -> io::Result<()> {
        let word = if up { "up" } else { "down" };
        self.ip(node, &["link", "set", INTERFACE, word])
    }

    /// Runs the `ip` program inside a node.
    ///
    /// # Errors
    /// When it is missing or fails.
    pub fn ip(&self, node: usize, arguments: &[&str]) -> io::Result<()> {
        let status = self.run(node, || Command::new("ip").args(arguments).status())?;
        if status.success() { Ok(()) } else { Err(io::Error::other("`ip` failed")) }
    }

    /// Waits until a node's interface is as `is` wants it.
    fn wait_until(&self, node: usize, is: impl Fn(&Interface) -> bool) -> io::Result<()> {
        let give_up = Instant::now() + PATIENCE;
        while !is(&self.interface(node)?) {
            if Instant::now() > give_up {
                return Err(io::Error::other("the interface did not become usable"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}
