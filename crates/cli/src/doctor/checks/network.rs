//! What the node is joined by: interfaces and their addresses, frame sizes, buffers, firewalls.

use std::path::Path;

use weft_sys::net::{self, Ethtool, Interface};

use super::super::Finding;
use super::read;

pub(super) fn packet_right() -> Finding {
    match net::packet_right() {
        Ok(()) => Finding::good("packet sockets", "allowed: the packet link can be used"),
        Err(error) => Finding::problem(
            "packet sockets",
            format!("refused ({error}): small messages go by UDP, at about twice the time"),
            "sudo setcap cap_net_raw+ep PROGRAM; in a container --cap-add NET_RAW",
        ),
    }
}

pub(super) fn cables(used: &[&Interface]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut up = Vec::new();
    for i in used {
        let name = &i.name;
        if !i.state.up {
            let cure = format!("sudo ip link set {name} up, or WEFT_INTERFACES=!{name}");
            found.push(Finding::note("interfaces", format!("{name} is down and not used"), cure));
        } else if !i.state.carrier {
            let why = format!("{name} has no carrier and is not used");
            found.push(Finding::note("interfaces", why, "look at its cable and the other end"));
        } else {
            up.push(*i);
            if i.wireless {
                let cure = format!("WEFT_INTERFACES=!{name} leaves it alone");
                let why = format!("{name} is wireless: slow and lossy beside a cable");
                found.push(Finding::note("interfaces", why, cure));
            }
        }
    }
    if up.is_empty() {
        let why = "no interface can be used: only ranks on this node reach each other";
        let cure = "weft info says of each interface why";
        found.push(Finding::note("interfaces", why, cure));
        return found;
    }
    let names: Vec<String> = up.iter().map(|i| format!("{} (MTU {})", i.name, i.mtu)).collect();
    let all = names.join(", ");
    if up.iter().any(|i| i.mtu != up[0].mtu) {
        let least = up.iter().map(|i| i.mtu).min().unwrap_or(1500);
        let cure = format!("give all the same, e.g. sudo ip link set IF mtu {least}");
        let why = format!("different MTUs on {all}: bulk over both goes in the smaller frames");
        found.push(Finding::problem("MTU", why, cure));
    } else {
        found.push(Finding::good("MTU", all));
    }
    for (n, i) in up.iter().enumerate() {
        if i.mac.is_some() && up[..n].iter().any(|other| other.mac == i.mac) {
            let why = format!("{} has the Ethernet address of another interface", i.name);
            let cure =
                format!("sudo ip link set {} address 02:...; on one switch it hangs jobs", i.name);
            found.push(Finding::problem("Ethernet addresses", why, cure));
        }
    }
    found
}

pub(super) fn addresses(used: &[&Interface]) -> Vec<Finding> {
    let without = used.iter().filter(|i| i.state.usable() && i.ipv4().or(i.ipv6()).is_none());
    without
        .map(|i| {
            let name = &i.name;
            let why =
                format!("{name} has no IP address, not even IPv6's own: no udp link, slow bulk");
            let cure = format!("sudo sysctl -w net.ipv6.conf.{name}.disable_ipv6=0");
            Finding::problem("IP addresses", why, cure)
        })
        .collect()
}

/// Whether the tso link's long frames are cut by the NIC and joined by the kernel.
pub(super) fn long_frames(used: &[&Interface]) -> Vec<Finding> {
    let usable = used.iter().filter(|i| i.state.usable());
    let told = usable.filter_map(|i| {
        let tool = Ethtool::new(&i.name).ok()?;
        // Where the driver does not say, the link finds out by itself.
        Some((&i.name, tool.tso().ok()?, tool.gro().ok()?))
    });
    let told = told.map(|(name, cut, joined)| {
        let (what, flag) = match (cut, joined) {
            (true, true) => {
                return Finding::good("long frames", format!("{name} cuts and joins them"));
            }
            (false, true) => ("does not cut long frames: the processor does", "tso on"),
            (true, false) => ("does not join long frames: bulk costs more", "gro on"),
            (false, false) => ("neither cuts nor joins long frames", "tso on gro on"),
        };
        let cure = format!("sudo ethtool -K {name} {flag}");
        Finding::note("long frames", format!("{name} {what}"), cure)
    });
    told.collect()
}

pub(super) fn receive_buffer() -> Finding {
    let max: usize = read("/proc/sys/net/core/rmem_max").and_then(|t| t.parse().ok()).unwrap_or(0);
    let wanted = weft_link::SMALL_RECEIVE_BUFFER;
    let found = format!("net.core.rmem_max is {max} bytes");
    // The file is not there in a network namespace of its own; the right is what counts then.
    if max == 0 || max >= wanted {
        return Finding::good("receive buffers", found);
    }
    let cure = format!("sudo sysctl -w net.core.rmem_max={}", 8 * wanted);
    if rustix::process::geteuid().is_root() {
        return Finding::note(
            "receive buffers",
            format!("{found}; as root that is no limit"),
            cure,
        );
    }
    Finding::problem("receive buffers", format!("{found}: bulk over UDP loses frames"), cure)
}

/// Packet sockets pass firewalls; UDP does not.
pub(super) fn firewall() -> Option<Finding> {
    let ufw = read("/etc/ufw/ufw.conf").is_some_and(|t| t.lines().any(|l| l == "ENABLED=yes"));
    let (name, cure) = if ufw {
        ("ufw", "sudo ufw allow in on IF proto udp")
    } else if Path::new("/run/firewalld").exists() {
        ("firewalld", "sudo firewall-cmd --zone=trusted --change-interface=IF")
    } else {
        return None;
    };
    let found = format!("{name} is on: it may drop the udp link's frames");
    Some(Finding::note("firewall", found, cure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn interface(name: &str, mtu: usize, mac: u8) -> Interface {
        Interface {
            name: name.to_string(),
            index: 2,
            mac: Some([2, 0, 0, 0, 0, mac]),
            mtu,
            state: net::LinkState { up: true, carrier: true },
            multicast: true,
            ..Interface::default()
        }
    }

    fn problems(interfaces: &[Interface]) -> Vec<&'static str> {
        let used: Vec<&Interface> = interfaces.iter().collect();
        let found = cables(&used).into_iter().filter(|f| f.level == Level::Problem);
        found.map(|f| f.check).collect()
    }

    #[test]
    fn what_differs_and_what_should_differ_is_seen() {
        let same = [interface("a", 1500, 1), interface("b", 1500, 2)];
        assert!(problems(&same).is_empty());
        assert_eq!(problems(&[interface("a", 1500, 1), interface("b", 9000, 2)]), ["MTU"]);
        let twins = [interface("a", 1500, 1), interface("b", 1500, 1)];
        assert_eq!(problems(&twins), ["Ethernet addresses"]);
        assert_eq!(addresses(&[&same[0]])[0].check, "IP addresses");
    }
}
