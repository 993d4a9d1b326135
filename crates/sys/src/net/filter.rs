//! Which interfaces may be used: `WEFT_INTERFACES`.

use std::net::IpAddr;

use super::Interface;

/// What one term of a filter says about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    /// Interfaces by name; `*` stands for any characters, `?` for one.
    Name(String),
    /// Interfaces with an address in a subnet.
    Subnet { addr: IpAddr, prefix_len: u8 },
}

/// Which interfaces may be used. Made from a list with commas, as in `WEFT_INTERFACES`:
///
/// | term | admits |
/// |---|---|
/// | `eth1`, `en*` | interfaces by name; `*` stands for any characters, `?` for one |
/// | `10.1.0.0/16`, `fd00::/8` | interfaces with an address in the subnet |
/// | `!eth0`, `!10.0.0.0/8` | all but these |
///
/// With at least one term that is not negated, only what these name is admitted (so `lo` can be
/// asked for); with negated terms only, or none, everything usual is: interfaces that are not the
/// loopback, do not lead nowhere (`dummy`, `ifb`), do not serve a bridge or bond, and do not look
/// like the inner network of a container or virtual-machine system or a tunnel (by kind: `tun`,
/// `wireguard`; by name: `docker*`, `br-*`, `virbr*`, `vmnet*`, `vboxnet*`, `lxcbr*`, `lxdbr*`,
/// `cni*`, `cali*`, `flannel*`, `kube-*`, `podman*`, `tailscale*`, `zt*`). These inner ones are
/// admitted only while nothing that is usual is up. A negated term always wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceFilter {
    wanted: Vec<Pattern>,
    unwanted: Vec<Pattern>,
}

/// Why a filter cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A term is empty.
    #[error("an empty term in the interface list `{0}`: write names with single commas between")]
    Empty(String),
    /// A term with a slash is not a subnet.
    #[error("`{0}` is not a subnet: write an address and its prefix length, as in 10.1.0.0/16")]
    Subnet(String),
}

/// Names of interfaces that belong to container and virtual-machine systems and overlay networks.
const INNER_NAMES: [&str; 14] = [
    "docker*",
    "br-*",
    "virbr*",
    "vmnet*",
    "vboxnet*",
    "lxcbr*",
    "lxdbr*",
    "cni*",
    "cali*",
    "flannel*",
    "kube-*",
    "podman*",
    "tailscale*",
    "zt*",
];

/// Kinds of interfaces that lead nowhere.
const NOWHERE: [&str; 2] = ["dummy", "ifb"];

/// Whether that is the name of an interface of a container system or the like.
pub(super) fn is_inner_name(name: &str) -> bool {
    INNER_NAMES.iter().any(|pattern| glob(pattern, name))
}

/// Whether it belongs to containers, virtual machines or a tunnel.
fn is_inner(interface: &Interface) -> bool {
    interface.is_tunnel() || is_inner_name(&interface.name)
}

/// Why an inner network is not used.
const INNER: &str = "it belongs to containers, virtual machines or a tunnel, and another interface \
                     is up: WEFT_INTERFACES admits it";

impl InterfaceFilter {
    /// Reads a list with commas; an empty one admits everything usual.
    ///
    /// # Errors
    /// When a term is empty or not a subnet.
    pub fn parse(list: &str) -> Result<InterfaceFilter, FilterError> {
        let mut filter = InterfaceFilter::default();
        if list.trim().is_empty() {
            return Ok(filter);
        }
        for term in list.split(',') {
            let term = term.trim();
            let (negated, name) = match term.strip_prefix('!') {
                Some(rest) => (true, rest.trim()),
                None => (false, term),
            };
            if name.is_empty() {
                return Err(FilterError::Empty(list.to_owned()));
            }
            let pattern = parse_pattern(name)?;
            if negated { &mut filter.unwanted } else { &mut filter.wanted }.push(pattern);
        }
        Ok(filter)
    }

    /// The filter in `WEFT_INTERFACES`; the usual one where that is not set.
    ///
    /// # Errors
    /// As for [`InterfaceFilter::parse`].
    pub fn from_env() -> Result<InterfaceFilter, FilterError> {
        InterfaceFilter::parse(&std::env::var("WEFT_INTERFACES").unwrap_or_default())
    }

    /// Those of a node's interfaces that may be used, in their order. Whether they are up is
    /// another question.
    pub fn admitted<'a>(&self, all: &'a [Interface]) -> Vec<&'a Interface> {
        all.iter().filter(|interface| self.why_not(interface, all).is_none()).collect()
    }

    /// Why the interface, which is one of `all` of its node, may not be used; `None` when it may.
    pub fn why_not(&self, interface: &Interface, all: &[Interface]) -> Option<&'static str> {
        let why = self.unusual(interface)?;
        let is_usable = |i: &Interface| i.state.usable() && self.unusual(i).is_none();
        let has_other = why != INNER || all.iter().any(is_usable);
        has_other.then_some(why)
    }

    /// Why it may not be used as long as there is another.
    fn unusual(&self, interface: &Interface) -> Option<&'static str> {
        if self.unwanted.iter().any(|p| p.matches(interface)) {
            return Some("WEFT_INTERFACES excludes it");
        }
        if !self.wanted.is_empty() {
            let named = self.wanted.iter().any(|p| p.matches(interface));
            return (!named).then_some("WEFT_INTERFACES does not name it");
        }
        if interface.loopback {
            Some("it is the loopback")
        } else if interface.master.is_some() {
            Some("it serves a bridge or bond, which is used instead")
        } else if NOWHERE.contains(&interface.kind.as_str()) {
            Some("it leads nowhere")
        } else if is_inner(interface) {
            Some(INNER)
        } else {
            None
        }
    }

    /// Whether the filter names an interface outright, so that its absence is an error: the names
    /// without wildcards.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.wanted.iter().filter_map(|p| match p {
            Pattern::Name(name) if !name.contains(['*', '?']) => Some(name.as_str()),
            _ => None,
        })
    }
}

fn parse_pattern(term: &str) -> Result<Pattern, FilterError> {
    let bad = || FilterError::Subnet(term.to_owned());
    if let Some((addr, len)) = term.split_once('/') {
        let addr: IpAddr = addr.parse().map_err(|_| bad())?;
        let prefix_len: u8 = len.parse().map_err(|_| bad())?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        return if prefix_len <= most {
            Ok(Pattern::Subnet { addr, prefix_len })
        } else {
            Err(bad())
        };
    }
    if let Ok(addr) = term.parse::<IpAddr>() {
        let prefix_len = if addr.is_ipv4() { 32 } else { 128 };
        return Ok(Pattern::Subnet { addr, prefix_len });
    }
    Ok(Pattern::Name(term.to_owned()))
}

impl Pattern {
    fn matches(&self, interface: &Interface) -> bool {
        match self {
            Pattern::Name(name) => glob(name, &interface.name),
            Pattern::Subnet { addr, prefix_len } => {
                interface.addresses.iter().any(|a| same_subnet(a.addr, *addr, *prefix_len))
            }
        }
    }
}

/// Whether two addresses agree in their first `prefix_len` bits.
fn same_subnet(a: IpAddr, b: IpAddr, prefix_len: u8) -> bool {
    let differ = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
        (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
        _ => return false,
    };
    differ.leading_zeros() >= u32::from(prefix_len)
}

/// Whether `name` fits `pattern`, in which `*` stands for any characters and `?` for one. Takes
/// time in proportion to the product of the lengths at worst.
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go back to: the last star, and how much of the name it took.
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((star, taken)) = back else { return false };
                back = Some((star, taken + 1));
                p = star + 1;
                n = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{IpAddress, LinkState};

    fn interface(name: &str, addr: &str) -> Interface {
        Interface {
            name: name.to_owned(),
            index: 2,
            mac: None,
            mtu: 1500,
            state: LinkState { up: true, carrier: true },
            loopback: name == "lo",
            multicast: true,
            kind: String::new(),
            master: None,
            wireless: false,
            addresses: vec![IpAddress {
                addr: addr.parse().unwrap(),
                prefix_len: 24,
                link_local: false,
                ready: true,
                index: 2,
            }],
        }
    }

    /// Whether it may be used beside a cable.
    fn admits(filter: &InterfaceFilter, interface: &Interface) -> bool {
        let all = [interface.clone(), self::interface("eth9", "10.9.9.9")];
        filter.why_not(interface, &all).is_none()
    }

    #[test]
    fn the_usual_filter_leaves_out_inner_networks() {
        let usual = InterfaceFilter::parse("").unwrap();
        assert!(admits(&usual, &interface("eth0", "10.0.0.1")));
        assert!(admits(&usual, &interface("br0", "10.0.0.1")));
        for name in ["lo", "docker0", "br-12ab", "virbr0", "cali123", "tailscale0"] {
            assert!(!admits(&usual, &interface(name, "10.0.0.1")), "{name}");
        }
        let mut slave = interface("eth1", "10.0.0.1");
        slave.master = Some(3);
        assert!(!admits(&usual, &slave));
        for kind in ["tun", "wireguard", "vxlan", "gre", "ppp"] {
            let mut tunnel = interface("t0", "10.0.0.1");
            tunnel.kind = kind.to_owned();
            let all = [tunnel.clone(), interface("eth0", "10.0.0.2")];
            let why = usual.why_not(&tunnel, &all).unwrap_or_default();
            assert!(why.contains("WEFT_INTERFACES"), "{kind}: {why}");
            assert_eq!(tunnel.last_resort(), Some("tunnel"), "{kind}");
            assert!(admits(&InterfaceFilter::parse("t0").unwrap(), &tunnel), "{kind}");
        }
    }

    #[test]
    fn inner_networks_are_used_only_while_nothing_else_is_up() {
        let names = |filter: &str, all: &[Interface]| {
            let filter = InterfaceFilter::parse(filter).unwrap();
            filter.admitted(all).iter().map(|i| i.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let of_kind = |name: &str, kind: &str| Interface {
            kind: kind.to_owned(),
            ..interface(name, "10.0.0.1")
        };
        let (lo, none) = (interface("lo", "127.0.0.1"), of_kind("dummy0", "dummy"));
        let served = Interface { master: Some(7), ..interface("eth1", "10.0.0.1") };
        let vpn = of_kind("home", "wireguard");
        let mut all = vec![lo, none, served, vpn, interface("docker0", "172.17.0.1")];
        assert_eq!(names("", &all), "home docker0");
        assert_eq!(names("!home", &all), "docker0");
        assert_eq!(names("eth0", &all), "", "what is named is all that is used");
        all.push(interface("eth0", "10.0.0.1"));
        assert_eq!(names("", &all), "eth0");
        assert_eq!(names("!eth0", &all), "home docker0");
        all[5].state.carrier = false;
        assert_eq!(names("", &all), "home docker0 eth0", "it may come up yet");
    }

    #[test]
    fn terms_name_exclude_and_match_subnets() {
        let f = InterfaceFilter::parse("eth1, en*0 ,!en10").unwrap();
        assert!(admits(&f, &interface("eth1", "10.0.0.1")));
        assert!(admits(&f, &interface("enp5s0", "10.0.0.1")));
        assert!(!admits(&f, &interface("en10", "10.0.0.1")));
        assert!(!admits(&f, &interface("eth10", "10.0.0.1")));
        assert_eq!(f.names().collect::<Vec<_>>(), ["eth1"]);
        let f = InterfaceFilter::parse("10.1.0.0/16,fd00::/8").unwrap();
        assert!(admits(&f, &interface("docker0", "10.1.200.3")));
        assert!(admits(&f, &interface("x", "fd12::3")));
        assert!(!admits(&f, &interface("x", "10.2.0.1")));
        let f = InterfaceFilter::parse("!eth0").unwrap();
        assert!(!admits(&f, &interface("eth0", "10.0.0.1")));
        assert!(admits(&f, &interface("eth1", "10.0.0.1")));
        let f = InterfaceFilter::parse("0.0.0.0/0").unwrap();
        assert!(admits(&f, &interface("x", "1.2.3.4")));
    }

    #[test]
    fn bad_lists_say_what_is_wrong() {
        for bad in ["eth0,,eth1", "!", ",", "10.0.0.0/33", "10.0.0/8", "a/b", "fd00::/129"] {
            assert!(InterfaceFilter::parse(bad).is_err(), "{bad}");
        }
    }
}
