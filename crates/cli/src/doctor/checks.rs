//! The checks: each looks at one thing and costs next to nothing.

use std::fs;
use std::path::Path;

use weft_sys::net::{self, Ethtool, Interface, InterfaceFilter};

use super::Finding;
use crate::CliError;
use crate::info::may_attach;
use crate::lab;

/// Makes every check.
///
/// # Errors
/// When the kernel does not list its interfaces.
pub(super) fn all(ranks: Option<usize>) -> Result<Vec<Finding>, CliError> {
    let interfaces = net::interfaces().map_err(CliError::io("listing network interfaces"))?;
    let mut found = variables();
    let filter = InterfaceFilter::from_env().unwrap_or_default();
    let used: Vec<&Interface> = interfaces.iter().filter(|i| filter.admits(i)).collect();
    found.push(packet_right());
    found.append(&mut cables(&used));
    found.append(&mut addresses(&used));
    found.append(&mut long_frames(&used));
    found.push(receive_buffer());
    found.push(attach());
    found.push(processors(ranks));
    found.extend(sessions(ranks));
    found.push(open_files(ranks));
    found.append(&mut [governor(), huge_pages(), firewall()].into_iter().flatten().collect());
    found.append(&mut labs());
    Ok(found)
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

fn variables() -> Vec<Finding> {
    const CHECK: &str = "environment";
    let mut found = Vec::new();
    for (name, meant) in weft::env::unknown() {
        let cure = match meant {
            Some(meant) => format!("was {meant} meant? unset {name}"),
            None => format!("unset {name}"),
        };
        found.push(Finding::problem(CHECK, format!("{name} is no variable that Weft knows"), cure));
    }
    if let Err(error) = InterfaceFilter::from_env() {
        found.push(Finding::problem(
            CHECK,
            error.to_string(),
            "set WEFT_INTERFACES as in eth1,eth2",
        ));
    }
    if let Err(error) = weft_link::LinkOptions::from_env(0, None) {
        found.push(Finding::problem(CHECK, error.to_string(), "set it right, or unset it"));
    }
    if found.is_empty() {
        found.push(Finding::good(CHECK, "all WEFT_ variables are known"));
    }
    found
}

fn packet_right() -> Finding {
    match net::packet_right() {
        Ok(()) => Finding::good("packet sockets", "allowed: the packet link can be used"),
        Err(error) => Finding::problem(
            "packet sockets",
            format!("refused ({error}): small messages go by UDP, at about twice the time"),
            "sudo setcap cap_net_raw+ep PROGRAM; in a container --cap-add NET_RAW",
        ),
    }
}

fn cables(used: &[&Interface]) -> Vec<Finding> {
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

fn addresses(used: &[&Interface]) -> Vec<Finding> {
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
fn long_frames(used: &[&Interface]) -> Vec<Finding> {
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

fn receive_buffer() -> Finding {
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

fn attach() -> Finding {
    match may_attach() {
        Ok(()) => Finding::good("cross-memory attach", "allowed: one copy within the node"),
        Err(why) => Finding::problem(
            "cross-memory attach",
            format!("{why}: large messages within the node are copied twice"),
            "sudo sysctl -w kernel.yama.ptrace_scope=0, or use memory that Weft has allocated",
        ),
    }
}

fn processors(ranks: Option<usize>) -> Finding {
    let usable = weft_sys::cpu::usable();
    let there = std::thread::available_parallelism().map_or(usable, |n| n.get());
    let found = format!("{usable} can be used");
    match ranks {
        Some(ranks) if ranks > usable => Finding::problem(
            "processors",
            format!("{found}, for {ranks} ranks: they take turns"),
            "start fewer ranks on this node, or raise the control group's cpu.max",
        ),
        _ if usable < there => Finding::note(
            "processors",
            format!("{found} of {there}, by affinity or the control group's quota"),
            "weft doctor --ranks N says whether N ranks fit",
        ),
        _ => Finding::good("processors", found),
    }
}

/// Ranks that take turns on processors, and yield while they wait.
fn sessions(ranks: Option<usize>) -> Option<Finding> {
    if ranks? <= weft_sys::cpu::usable() || !weft_sys::cpu::by_session() {
        return None;
    }
    let why = "processors are shared out by session: ranks that a launcher starts in one each, as \
               MPICH's does, can stand still for seconds";
    let cure = "start them by weft mpirun, or sudo sysctl -w kernel.sched_autogroup_enabled=0";
    Some(Finding::note("sessions", why, cure))
}

fn open_files(ranks: Option<usize>) -> Finding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    // A connection to each rank of the node, and some for links, files and libraries.
    let wanted = 128 + 2 * ranks.unwrap_or(64) as u64;
    if soft >= wanted {
        return Finding::good("open files", format!("up to {soft}"));
    }
    let why = format!("up to {soft}: not enough for a connection to each rank");
    Finding::problem("open files", why, format!("ulimit -n {}", wanted.next_power_of_two()))
}

fn governor() -> Option<Finding> {
    let base = "/sys/devices/system/cpu/cpu0/cpufreq";
    let governor = read(format!("{base}/scaling_governor"))?;
    let driver = read(format!("{base}/scaling_driver")).unwrap_or_default();
    let found = format!("{governor} ({driver})");
    // Drivers that let the hardware choose are fast under this name as well.
    let slow = governor == "powersave" && !driver.ends_with("pstate") && !driver.ends_with("epp");
    Some(if slow {
        let cure = "sudo cpupower frequency-set -g performance";
        Finding::problem("frequency governor", format!("{found}: processors stay slow"), cure)
    } else {
        Finding::good("frequency governor", found)
    })
}

fn huge_pages() -> Option<Finding> {
    let text = read("/sys/kernel/mm/transparent_hugepage/enabled")?;
    let chosen = text.split('[').nth(1)?.split(']').next()?.to_string();
    Some(if chosen == "never" {
        let cure = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
        let found = "never: copies of large messages are a little slower";
        Finding::note("huge pages", found, cure)
    } else {
        Finding::good("huge pages", chosen)
    })
}

/// Packet sockets pass firewalls; UDP does not.
fn firewall() -> Option<Finding> {
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

fn labs() -> Vec<Finding> {
    let labs = match lab::all() {
        Ok(labs) => labs,
        Err(error) => {
            let cure = "remove it; weft lab makes it anew";
            return vec![Finding::problem("labs", error.to_string(), cure)];
        }
    };
    let mut found = Vec::new();
    for record in labs {
        let name = &record.name;
        let cure = format!("weft lab down --name {name}");
        match record.owner {
            Some(owner) if weft_sys::process::start_time(owner).is_none() => {
                let why = format!("{name} is left over from process {owner}");
                found.push(Finding::problem("labs", why, cure));
            }
            Some(_) => {}
            None => found.push(Finding::note("labs", format!("{name} is up"), cure)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn interface(name: &str, mtu: usize, mac: u8) -> Interface {
        Interface {
            name: name.to_string(),
            index: 2,
            mac: Some([2, 0, 0, 0, 0, mac]),
            mtu,
            state: net::LinkState { up: true, carrier: true },
            loopback: false,
            multicast: true,
            kind: String::new(),
            master: None,
            wireless: false,
            addresses: Vec::new(),
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

    #[test]
    fn too_many_ranks_are_a_problem() {
        assert_eq!(processors(Some(1_000_000)).level, Level::Problem);
        assert_eq!(open_files(Some(1_000_000_000)).level, Level::Problem);
    }
}
