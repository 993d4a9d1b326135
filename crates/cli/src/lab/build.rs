//! Making a lab: namespaces, cables, switches. Runs in the process that holds the lab. Everything
//! happens inside namespaces that were made here; the machine's own interfaces are never touched.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use weft_sys::netlink::Rtnetlink;
use weft_sys::ns::NetNs;

use super::plan::{self, Cable, End, Other};
use super::{LabError, LabSpec};

/// How long links may take to come up, in seconds.
const CARRIER_LIMIT_S: u64 = 10;

/// A lab that stands, for as long as this value lives.
#[derive(Debug)]
pub(super) struct Built {
    /// The nodes' namespaces, by number.
    pub nodes: Vec<NetNs>,
    /// The namespace of the switches, if there are any.
    pub switches: Option<NetNs>,
}

/// A namespace and a way to change what is in it.
struct Place {
    ns: NetNs,
    net: Rtnetlink,
}

/// Builds the lab and waits until its links carry frames.
pub(super) fn build(spec: &LabSpec) -> Result<Built, LabError> {
    let mut places = Vec::new();
    for node in 0..spec.nodes {
        places.push(place(&format!("node {node}"))?);
    }
    let switched = matches!(spec.topology, super::Topology::Switch);
    let mut switches = if switched { Some(place("the switch")?) } else { None };
    if let Some(place) = &mut switches {
        for s in 0..spec.links {
            let name = format!("sw{s}");
            place.net.add_bridge(&name, spec.mtu).map_err(refused(format!("switch {s}")))?;
            on(place, &name, None)?;
        }
    }
    let cables = plan::cables(spec);
    for cable in &cables {
        plug(cable, spec.mtu, &mut places, switches.as_mut())?;
    }
    let limit = Instant::now() + Duration::from_secs(CARRIER_LIMIT_S);
    for cable in &cables {
        wait_for(&cable.end, &mut places, limit)?;
        if let Other::Node(end) = &cable.other {
            wait_for(end, &mut places, limit)?;
        }
    }
    Ok(Built {
        nodes: places.into_iter().map(|p| p.ns).collect(),
        switches: switches.map(|p| p.ns),
    })
}

/// An empty namespace with its loopback on, whose interfaces get usable addresses at once.
fn place(what: &str) -> Result<Place, LabError> {
    let ns = NetNs::create().map_err(|cause| match cause.kind() {
        ErrorKind::PermissionDenied => LabError::NoRight { cause },
        _ => refused(what.to_string())(cause),
    })?;
    let net = ns
        .run(|| {
            // Without the search for duplicates an IPv6 address is usable at once. Where /proc may
            // not be written, the wait below takes a second or two longer.
            for file in ["all/accept_dad", "default/accept_dad"] {
                let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{file}"), "0");
            }
            let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/router_solicitations", "0");
            Rtnetlink::open()
        })
        .map_err(refused(what.to_string()))?;
    let mut place = Place { ns, net };
    on(&mut place, "lo", None)?;
    Ok(place)
}

fn on(place: &mut Place, name: &str, bridge: Option<u32>) -> Result<u32, LabError> {
    let index = place.net.index(name).map_err(refused(format!("interface {name}")))?;
    place.net.switch_on(index, bridge).map_err(refused(format!("switching {name} on")))?;
    Ok(index)
}

fn plug(
    cable: &Cable,
    mtu: u32,
    places: &mut [Place],
    switches: Option<&mut Place>,
) -> Result<(), LabError> {
    let end = &cable.end;
    let name =
        |other: &str| format!("cable from {} of node {} to {other}", end.interface, end.node);
    let node = end.node as usize;
    match (&cable.other, switches) {
        (Other::Switch(switch, port), Some(place)) => {
            let ns = place.ns.as_fd();
            let made = places[node].net.add_cable(&end.interface, port, ns, mtu);
            made.map_err(refused(name(port)))?;
            let bridge = place.net.index(&format!("sw{switch}")).map_err(refused(name(port)))?;
            on(place, port, Some(bridge))?;
        }
        (Other::Node(other), _) => {
            // The socket of the one node is used while the other's namespace is looked at.
            let (left, right) = (node, other.node as usize);
            let [a, b] = places
                .get_disjoint_mut([left, right])
                .map_err(|_| LabError::Holder("a cable from a node to itself".to_string()))?;
            let made = a.net.add_cable(&end.interface, &other.interface, b.ns.as_fd(), mtu);
            made.map_err(refused(name(&other.interface)))?;
            address(other, b)?;
        }
        (Other::Switch(..), None) => {
            return Err(LabError::Holder("a switch is missing".to_string()));
        }
    }
    address(end, &mut places[node])
}

fn address(end: &End, place: &mut Place) -> Result<(), LabError> {
    let index = on(place, &end.interface, None)?;
    let added = place.net.add_ipv4(index, end.ip, end.prefix);
    added.map_err(refused(format!("address {} of node {}", end.ip, end.node)))
}

/// Waits until an interface has a carrier and, where the machine has IPv6, a usable link-local
/// address.
fn wait_for(end: &End, places: &mut [Place], limit: Instant) -> Result<(), LabError> {
    let place = &mut places[end.node as usize];
    let step = || format!("looking at {} of node {}", end.interface, end.node);
    let index = place.net.index(&end.interface).map_err(refused(step()))?;
    loop {
        let carrier = place.net.has_carrier(index).map_err(refused(step()))?;
        let usable = place.ns.run(|| Ok(has_link_local(&end.interface)));
        if carrier && usable.map_err(refused(step()))? {
            return Ok(());
        }
        if Instant::now() > limit {
            return Err(LabError::NoCarrier {
                node: super::node_name(end.node),
                interface: end.interface.clone(),
                limit_s: CARRIER_LIMIT_S,
            });
        }
        thread::sleep(Duration::from_millis(5));
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
fn refused(step: String) -> impl FnOnce(io::Error) -> LabError {
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
