//! Making a lab: namespaces, cables, switches. Runs in the process that holds the lab. Everything
//! happens inside namespaces that were made here; the machine's own interfaces are never touched.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use weft_sys::netlink::Rtnetlink;
use weft_sys::ns::NetNs;

use super::forward::Line;
use super::plan::{self, Cable, End, Other};
use super::{LabError, LabSpec, shaped};

/// How long links may take to come up, in seconds.
const CARRIER_LIMIT_S: u64 = 10;

/// A lab that stands, for as long as this value lives.
#[derive(Debug)]
pub(super) struct Built {
    /// The nodes' namespaces, by number.
    pub nodes: Vec<NetNs>,
    /// The namespace of the switches, if there are any.
    pub switches: Option<NetNs>,
    /// The namespace of what is inside cables, if there is any.
    pub inside: Option<NetNs>,
    /// Cables whose frames are to be carried from one end to the other.
    pub lines: Vec<Line>,
}

/// A lab being built: namespaces, known by their place here, and ways to change what is in them.
#[derive(Default)]
pub(super) struct Site {
    names: Vec<String>,
    spaces: Vec<NetNs>,
    nets: Vec<Rtnetlink>,
}

/// Where an interface is: the place of its namespace, and its name.
pub(super) type At<'a> = (usize, &'a str);

/// Builds the lab and waits until its links carry frames.
pub(super) fn build(spec: &LabSpec) -> Result<Built, LabError> {
    let cables = plan::cables(spec);
    let mut site = Site::default();
    for node in 0..spec.nodes {
        site.add_space(&super::node_name(node))?;
    }
    let mtus = switches(&cables);
    let switches = if mtus.is_empty() { None } else { Some(site.add_space("the switch")?) };
    if let Some(place) = switches {
        for &(switch, mtu) in &mtus {
            site.add_bridge((place, &switch_name(switch)), mtu)?;
        }
    }
    let shaped = cables.iter().any(|cable| !cable.shape.is_plain());
    let inside = if shaped { Some(shaped::add_space(&mut site)?) } else { None };
    let mut lines = Vec::new();
    for (n, cable) in cables.iter().enumerate() {
        let (near, far) = ends(cable, switches)?;
        match inside.filter(|_| !cable.shape.is_plain()) {
            None => site.add_cable(near, far, cable.mtu)?,
            Some(inside) => lines.extend(shaped::plug(&mut site, (inside, n), near, far, cable)?),
        }
        site.connect(near, &cable.end)?;
        match &cable.other {
            Other::Node(end) => site.connect(far, end)?,
            Other::Switch(switch, _) => site.plug_in(far, &switch_name(*switch))?,
        }
    }
    let limit = Instant::now() + Duration::from_secs(CARRIER_LIMIT_S);
    for (n, cable) in cables.iter().enumerate() {
        let (near, far) = ends(cable, switches)?;
        site.wait_for(near, true, limit)?;
        site.wait_for(far, matches!(cable.other, Other::Node(_)), limit)?;
        if let Some(inside) = inside.filter(|_| !cable.shape.is_plain()) {
            for name in shaped::inner_ends(n) {
                site.wait_for((inside, &name), false, limit)?;
            }
        }
    }
    let mut rest = site.spaces.split_off(spec.nodes as usize).into_iter();
    let switches = switches.and_then(|_| rest.next());
    Ok(Built { nodes: site.spaces, switches, inside: rest.next(), lines })
}

/// The switches that cables lead to, each with the largest MTU of its ports.
fn switches(cables: &[Cable]) -> Vec<(u32, u32)> {
    let mut found: Vec<(u32, u32)> = Vec::new();
    for cable in cables {
        let Other::Switch(switch, _) = cable.other else { continue };
        match found.iter_mut().find(|(known, _)| *known == switch) {
            Some((_, mtu)) => *mtu = cable.mtu.max(*mtu),
            None => found.push((switch, cable.mtu)),
        }
    }
    found
}

fn switch_name(switch: u32) -> String {
    format!("sw{switch}")
}

/// Where a cable's ends are.
fn ends(cable: &Cable, switches: Option<usize>) -> Result<(At<'_>, At<'_>), LabError> {
    let missing = || LabError::Holder("a switch is missing".to_string());
    let far = match &cable.other {
        Other::Node(end) => (end.node as usize, end.interface.as_str()),
        Other::Switch(_, port) => (switches.ok_or_else(missing)?, port.as_str()),
    };
    Ok(((cable.end.node as usize, cable.end.interface.as_str()), far))
}

impl Site {
    /// An empty namespace with its loopback on, whose interfaces get usable addresses at once.
    fn add_space(&mut self, what: &str) -> Result<usize, LabError> {
        // Without the search for duplicates an IPv6 address is usable at once. Where /proc may not
        // be written, waiting for it takes a second or two longer.
        let settings = [
            ("all/accept_dad", "0"),
            ("default/accept_dad", "0"),
            ("default/router_solicitations", "0"),
        ];
        self.add_space_with(what, &settings)
    }

    /// An empty namespace with its loopback on, and with settings of IPv6 where they can be made.
    pub fn add_space_with(
        &mut self,
        what: &str,
        settings: &[(&str, &str)],
    ) -> Result<usize, LabError> {
        let ns = NetNs::create().map_err(|cause| match cause.kind() {
            ErrorKind::PermissionDenied => LabError::NoRight { cause },
            _ => refused(what.to_string())(cause),
        })?;
        let net = ns
            .run(|| {
                for (file, value) in settings {
                    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{file}"), value);
                }
                Rtnetlink::open()
            })
            .map_err(refused(what.to_string()))?;
        self.names.push(what.to_string());
        self.spaces.push(ns);
        self.nets.push(net);
        let place = self.spaces.len() - 1;
        self.on((place, "lo"), None)?;
        Ok(place)
    }

    /// The namespace of a place, and the way to change what is in it.
    pub fn place(&mut self, place: usize) -> (&NetNs, &mut Rtnetlink) {
        (&self.spaces[place], &mut self.nets[place])
    }

    pub fn index(&self, (place, name): At<'_>) -> Result<u32, LabError> {
        self.nets[place].index(name).map_err(refused(format!("interface {name}")))
    }

    pub fn on(&mut self, at: At<'_>, bridge: Option<u32>) -> Result<u32, LabError> {
        let index = self.index(at)?;
        let on = self.nets[at.0].switch_on(index, bridge);
        on.map_err(refused(format!("switching {} on", at.1)))?;
        Ok(index)
    }

    pub fn add_bridge(&mut self, at: At<'_>, mtu: u32) -> Result<(), LabError> {
        let made = self.nets[at.0].add_bridge(at.1, mtu);
        made.map_err(refused(format!("switch {}", at.1)))?;
        self.on(at, None).map(drop)
    }

    pub fn add_cable(&mut self, near: At<'_>, far: At<'_>, mtu: u32) -> Result<(), LabError> {
        let ns = self.spaces[far.0].as_fd();
        let made = self.nets[near.0].add_cable(near.1, far.1, ns, mtu);
        made.map_err(refused(format!(
            "cable from {} of {} to {}",
            near.1, self.names[near.0], far.1
        )))
    }

    /// Switches a port on, plugged into a bridge of its namespace.
    pub fn plug_in(&mut self, port: At<'_>, bridge: &str) -> Result<(), LabError> {
        let bridge = self.index((port.0, bridge))?;
        self.on(port, Some(bridge)).map(drop)
    }

    /// Switches a node's end on, with its address.
    fn connect(&mut self, at: At<'_>, end: &End) -> Result<(), LabError> {
        let index = self.on(at, None)?;
        let Some((ip, prefix)) = end.address else { return Ok(()) };
        let added = self.nets[at.0].add_ipv4(index, ip, prefix);
        added.map_err(refused(format!("address {ip} of {}", self.names[at.0])))
    }

    /// Waits until an interface has a carrier and, if it shall have one and the machine has IPv6, a
    /// usable link-local address.
    fn wait_for(&mut self, at: At<'_>, address: bool, limit: Instant) -> Result<(), LabError> {
        let (space, net) = (&self.spaces[at.0], &mut self.nets[at.0]);
        let step = || format!("looking at {} of {}", at.1, self.names[at.0]);
        let index = net.index(at.1).map_err(refused(step()))?;
        loop {
            let carrier = net.has_carrier(index).map_err(refused(step()))?;
            if carrier && !address {
                return Ok(());
            }
            let usable = space.run(|| Ok(has_link_local(at.1)));
            if carrier && usable.map_err(refused(step()))? {
                return Ok(());
            }
            if Instant::now() > limit {
                return Err(LabError::NoCarrier {
                    node: self.names[at.0].clone(),
                    interface: at.1.to_string(),
                    limit_s: CARRIER_LIMIT_S,
                });
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn has_link_local(interface: &str) -> bool {
    const TENTATIVE: u32 = 0x40;
    let conf = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
    let off = std::fs::read_to_string(conf).is_ok_and(|v| v.trim() == "1");
    let Ok(list) = std::fs::read_to_string("/proc/thread-self/net/if_inet6") else { return true };
    off || list.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.len() == 6
            && words[5] == interface
            && words[0].starts_with("fe8")
            && u32::from_str_radix(words[4], 16).is_ok_and(|flags| flags & TENTATIVE == 0)
    })
}

/// Makes an error of a step that the kernel refused, with the cure where it is known.
pub(super) fn refused(step: String) -> impl FnOnce(io::Error) -> LabError {
    move |cause| {
        let cure = match cause.kind() {
            ErrorKind::Unsupported => {
                "; the kernel lacks the modules veth and bridge: `modprobe -a veth bridge` as root"
            }
            ErrorKind::PermissionDenied => "; in a container, start it with --cap-add NET_ADMIN",
            _ => "",
        };
        LabError::Build { step, cause, cure }
    }
}
