//! `weft info`: what Weft can use on this node, and for what it cannot: why, and what mends it.
//! Looks only; no link is opened and no frame sent.

mod relaying;

use std::process::ExitCode;

use serde::Serialize;
use weft_link::LinkKind;
use weft_sys::net::{self, Interface, InterfaceFilter};

use crate::CliError;
use crate::output::{Table, json_line};

pub(crate) use relaying::relaying;

/// Shows devices, links and rights of this node.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Write a line of JSON for each
    #[arg(long)]
    json: bool,
}

/// Something that Weft may use.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Item {
    /// What it is: `node`, `device`, `link` or `relay`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Whether it can be used.
    pub usable: bool,
    /// What there is to say of it; if it is unusable: why.
    pub about: String,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

/// Shows what there is.
///
/// # Errors
/// When the kernel does not list its interfaces, or `WEFT_INTERFACES` cannot be read.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let items = items()?;
    if args.json {
        items.iter().for_each(json_line);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["kind", "name", "usable", "about"]);
    for item in &items {
        let usable = if item.usable { "yes" } else { "no" };
        table.row([item.kind, &item.name, usable, &item.about]);
    }
    table.print();
    let mut cures: Vec<String> =
        items.iter().filter_map(|i| Some(format!("{}: {}", i.name, i.cure.as_ref()?))).collect();
    cures.dedup();
    if !cures.is_empty() {
        println!("\nWhat would mend it:\n  {}", cures.join("\n  "));
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything that `weft info` shows.
///
/// # Errors
/// As for [`run`].
pub fn items() -> Result<Vec<Item>, CliError> {
    let filter = InterfaceFilter::from_env().map_err(|e| CliError::Usage(e.to_string()))?;
    let interfaces = net::interfaces().map_err(CliError::io("listing network interfaces"))?;
    let right = net::packet_right().is_ok();
    let links_of = |i| {
        let why_not = filter.why_not(i, &interfaces);
        links_of(i, why_not, right)
    };
    let links: Vec<Item> = interfaces.iter().flat_map(links_of).collect();
    let node = weft_sys::cpu::node_id().map_err(CliError::io("asking which node this is"))?;
    let about = format!("id {node:016x}, {} processors", weft_sys::cpu::usable());
    let mut items = vec![item("node", &weft_sys::ns::host_name(), about)];
    items.append(&mut devices(&links));
    items.extend(links);
    items.push(match relaying() {
        Ok(about) => item("relay", "ways", about),
        Err(why) => unusable("relay", "ways", &why, None),
    });
    Ok(items)
}

fn item(kind: &'static str, name: &str, about: String) -> Item {
    Item { kind, name: name.to_string(), usable: true, about, cure: None }
}

fn unusable(kind: &'static str, name: &str, why: &str, cure: Option<String>) -> Item {
    Item { kind, name: name.to_string(), usable: false, about: why.to_string(), cure }
}

fn devices(links: &[Item]) -> Vec<Item> {
    let copy = match may_attach() {
        Ok(()) => "large messages are copied once, by cross-memory attach".to_string(),
        Err(why) => format!("large messages are copied twice: {why}"),
    };
    let usable: Vec<&str> = links.iter().filter(|l| l.usable).map(|l| l.name.as_str()).collect();
    let ether = if usable.is_empty() {
        unusable("device", "ether", "no link is usable, see below", None)
    } else {
        item("device", "ether", format!("over {}", usable.join(", ")))
    };
    vec![
        item("device", "shm", copy),
        ether,
        item("device", "loopback", "a process to itself".to_string()),
        item("device", "composite", "chooses among the others by destination".to_string()),
    ]
}

/// The links over one interface, which may be used unless there is a reason why not.
fn links_of(interface: &Interface, why_not: Option<&str>, right: bool) -> Vec<Item> {
    let name = interface.name.as_str();
    let named = |kind: LinkKind| format!("{kind}:{name}");
    let none = |why: &str, cure: Option<String>| {
        let all = [LinkKind::Packet, LinkKind::Udp, LinkKind::Tso];
        all.map(|kind| unusable("link", &named(kind), why, cure.clone())).to_vec()
    };
    if let Some(why) = why_not {
        return if interface.loopback { Vec::new() } else { none(why, None) };
    }
    if !interface.state.up {
        return none("the interface is down", Some(format!("ip link set {name} up")));
    }
    if !interface.state.carrier {
        return none("no carrier: nothing answers at the cable's other end", None);
    }
    let about = || match interface.last_resort() {
        Some(what) => format!("MTU {}, a last resort ({what})", interface.mtu),
        None => format!("MTU {}", interface.mtu),
    };
    let raw = |kind: LinkKind| {
        if interface.mac.is_none() {
            unusable("link", &named(kind), "not an Ethernet interface", None)
        } else if right {
            item("link", &named(kind), about())
        } else {
            let cure = "setcap cap_net_raw+ep PROGRAM, or run as root".to_string();
            let why = "no right to open packet sockets (CAP_NET_RAW)";
            unusable("link", &named(kind), why, Some(cure))
        }
    };
    let udp = named(LinkKind::Udp);
    let udp = match interface.ipv4().or(interface.ipv6()) {
        Some(address) => item("link", &udp, format!("{} at {}", about(), address.addr)),
        None => {
            let cure = format!("sysctl -w net.ipv6.conf.{name}.disable_ipv6=0");
            unusable(
                "link",
                &udp,
                "the interface has no IP address, not even IPv6's own",
                Some(cure),
            )
        }
    };
    vec![raw(LinkKind::Packet), udp, raw(LinkKind::Tso)]
}

/// Whether processes of this user may read each other's memory, as far as can be seen without a
/// second process.
///
/// # Errors
/// Why not.
pub fn may_attach() -> Result<(), String> {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let scope: u32 = scope.trim().parse().unwrap_or(0);
    let root = rustix::process::geteuid().is_root();
    if scope >= 3 || (scope >= 1 && !root) {
        return Err(format!("kernel.yama.ptrace_scope is {scope}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str) -> Interface {
        Interface {
            name: name.to_string(),
            index: 2,
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            state: net::LinkState { up: true, carrier: true },
            multicast: true,
            ..Interface::default()
        }
    }

    #[test]
    fn what_is_unusable_has_a_reason_and_a_cure() {
        let links = links_of(&interface("eth7"), None, false);
        assert!(links.iter().all(|l| !l.usable && l.cure.is_some()));
        assert!(links[0].about.contains("CAP_NET_RAW"));
        let mut down = interface("eth7");
        down.state.up = false;
        let links = links_of(&down, None, true);
        assert_eq!(links[1].cure.as_deref(), Some("ip link set eth7 up"));
        let links = links_of(&interface("eth7"), None, true);
        assert!(links[0].usable && !links[1].usable);
        assert_eq!(links[0].about, "MTU 1500");
        let radio = Interface { wireless: true, ..interface("eth7") };
        let links = links_of(&radio, None, true);
        assert_eq!(links[0].about, "MTU 1500, a last resort (Wi-Fi)");
        let links = links_of(&interface("eth7"), Some("it is not wanted"), true);
        assert!(!links[0].usable && links[0].about == "it is not wanted", "{links:?}");
    }
}
