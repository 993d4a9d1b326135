//! Opening every link that the user admits.

use std::path::Path;
use std::time::{Duration, Instant};

use weft_sys::net::{self, Interface};

use crate::LinkError;
use crate::fault::{Fault, FaultSpec};
use crate::info::{Link, LinkKind};
use crate::options::LinkOptions;
use crate::packet::PacketLink;
use crate::pcap::Pcap;
use crate::trace::Trace;
use crate::tso::TsoLink;
use crate::udp::UdpLink;

/// How long to wait for the first IPv6 address of an interface to pass the kernel's check for
/// duplicates, which takes one to two seconds after the interface came up.
const ADDRESS_WAIT: Duration = Duration::from_millis(2500);

/// What [`open_links`] opened, and what it could not.
#[derive(Default)]
pub struct OpenLinks {
    /// The links, interface by interface, on each in the order of the kinds asked for.
    pub links: Vec<Box<dyn Link>>,
    /// For each that could not be had, its name (as `packet:eth1`) and why.
    pub unusable: Vec<(String, LinkError)>,
    /// The interfaces that were looked at, as they were: those that [`open_new`] found changed.
    pub interfaces: Vec<Interface>,
}

/// Opens links of every kind wanted on every interface admitted. Never fails as a whole: what
/// cannot be had is listed with the reason and the cure, and a program may go on with the rest, or
/// with none.
pub fn open_links(options: &LinkOptions) -> OpenLinks {
    let mut opened = OpenLinks::default();
    let interfaces = match admitted(options) {
        Ok(interfaces) => interfaces,
        Err(cause) => {
            let doing = "listing the network interfaces";
            let interface = "this node".to_owned();
            opened.unusable.push(("all".to_owned(), LinkError::Io { doing, interface, cause }));
            return opened;
        }
    };
    for name in options.filter.names() {
        if !interfaces.iter().any(|i| i.name == name) {
            let error = LinkError::NoInterface { interface: name.to_owned() };
            opened.unusable.push((name.to_owned(), error));
        }
    }
    for interface in &interfaces {
        opened.try_all(interface, options, |_| true);
    }
    opened.interfaces = interfaces;
    opened
}

impl OpenLinks {
    fn try_all(
        &mut self,
        interface: &Interface,
        options: &LinkOptions,
        wanted: impl Fn(LinkKind) -> bool,
    ) {
        for &kind in options.kinds.iter().filter(|kind| wanted(**kind)) {
            match open_link(kind, interface, options) {
                Ok(link) => self.links.push(link),
                Err(error) => self.unusable.push((format!("{kind}:{}", interface.name), error)),
            }
        }
    }
}

/// Opens what is missing on interfaces that are new, or have changed since they were `seen`: a
/// cable was plugged in, an address given. `is_open` tells whether there is a link of a kind on
/// the interface with a number: one that was taken out and put back has another.
///
/// # Errors
/// When the kernel does not list the interfaces.
pub fn open_new(
    options: &LinkOptions,
    seen: &mut Vec<Interface>,
    is_open: impl Fn(LinkKind, u32) -> bool,
) -> std::io::Result<OpenLinks> {
    let interfaces = listed(options)?;
    let mut opened = OpenLinks::default();
    for interface in &interfaces {
        if !seen.contains(interface) {
            opened.try_all(interface, options, |kind| !is_open(kind, interface.index));
            opened.interfaces.push(interface.clone());
        }
    }
    *seen = interfaces;
    Ok(opened)
}

/// Opens one link.
///
/// # Errors
/// As the link of that kind. A memory link cannot be opened: it belongs to a
/// [`MemoryHub`](crate::MemoryHub).
pub fn open_link(
    kind: LinkKind,
    interface: &Interface,
    options: &LinkOptions,
) -> Result<Box<dyn Link>, LinkError> {
    match kind {
        LinkKind::Packet => Ok(Box::new(PacketLink::open(interface, options)?)),
        LinkKind::Udp => Ok(Box::new(UdpLink::open(interface, options)?)),
        LinkKind::Tso => Ok(Box::new(TsoLink::open(interface, options)?)),
        LinkKind::Memory => Err(LinkError::NoInterface { interface: "memory".to_owned() }),
    }
}

/// The interfaces that are there and admitted.
fn listed(options: &LinkOptions) -> std::io::Result<Vec<Interface>> {
    let interfaces = net::interfaces()?;
    let admitted = options.filter.admitted(&interfaces);
    Ok(admitted.into_iter().cloned().collect())
}

/// The admitted interfaces, once each that is up has an address that is ready, or the time for
/// that is over.
fn admitted(options: &LinkOptions) -> std::io::Result<Vec<Interface>> {
    let give_up = Instant::now() + ADDRESS_WAIT;
    loop {
        let interfaces = listed(options)?;
        let waits = |i: &Interface| {
            let coming = i.addresses.iter().any(|a| a.addr.is_ipv6() && !a.ready);
            i.state.usable() && i.ipv4().is_none() && i.ipv6().is_none() && coming
        };
        let udp = options.kinds.contains(&LinkKind::Udp);
        if !udp || !interfaces.iter().any(waits) || Instant::now() >= give_up {
            return Ok(interfaces);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The wrappers that a user can ask for, closest to the medium first: `WEFT_PCAP` (a prefix of file
/// names), `WEFT_TRACE` (`1`), `WEFT_FAULT` (see [`FaultSpec::parse`]).
#[derive(Clone, Debug, Default)]
pub struct Wrappers {
    /// Where to record frames, if at all.
    pub pcap: Option<String>,
    /// Whether to tell of every frame.
    pub trace: bool,
    /// Which mistakes to make, if any.
    pub fault: Option<FaultSpec>,
}

impl Wrappers {
    /// Those that the environment asks for.
    ///
    /// # Errors
    /// When a variable cannot be read.
    pub fn from_env() -> Result<Wrappers, LinkError> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let trace = match set("WEFT_TRACE").as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(value) => {
                return Err(LinkError::Setting {
                    variable: "WEFT_TRACE",
                    value: value.to_owned(),
                    why: "write 1 to trace every frame, or 0".to_owned(),
                });
            }
        };
        Ok(Wrappers { pcap: set("WEFT_PCAP"), trace, fault: FaultSpec::from_env()? })
    }

    /// Wraps a link. `number`, the link's, goes into the seed, so that links do not make the same
    /// mistakes.
    ///
    /// # Errors
    /// When the file for recording cannot be made.
    pub fn wrap(
        &self,
        mut link: Box<dyn Link>,
        number: u64,
        ethertype: u16,
    ) -> Result<Box<dyn Link>, LinkError> {
        if let Some(prefix) = &self.pcap {
            let path = Pcap::<Box<dyn Link>>::file_name(prefix, &link.info().name);
            link = Box::new(Pcap::new(link, Path::new(&path))?.with_ethertype(ethertype));
        }
        if self.trace {
            link = Box::new(Trace::new(link));
        }
        if let Some(mut spec) = self.fault {
            spec.seed = spec.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            link = Box::new(Fault::new(link, spec));
        }
        Ok(link)
    }
}
