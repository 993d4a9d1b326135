//! What links are opened with, and the environment variables that say so.

use weft_sys::net::{Condition, InterfaceFilter};
use weft_wire::{EVERYONE_PORT, GROUPS_PORT, JOB_OFFSET, PORT_OFFSET};

use crate::{LinkError, LinkKind};

/// The EtherType of Weft's frames: the first of those that IEEE 802 sets aside for experiments
/// within one site.
pub const ETHERTYPE: u16 = 0x88b5;

/// The UDP port on which hello frames to everyone are heard.
pub const HELLO_PORT: u16 = 28_738;

/// Which links to open, and for whom.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// The kinds to open on every interface, in this order.
    pub kinds: Vec<LinkKind>,
    /// Which interfaces may be used.
    pub filter: InterfaceFilter,
    /// The process's Weft port: frames for other ports are left to other processes. Those for
    /// [`EVERYONE_PORT`] are always received.
    pub port: u16,
    /// Whether frames for [`GROUPS_PORT`] are received as well.
    pub groups: bool,
    /// The job's number, where frames of other jobs are not even to be seen.
    pub job: Option<u32>,
    /// The EtherType of the packet link.
    pub ethertype: u16,
    /// Frames that a packet link's receive ring holds.
    pub ring_frames: usize,
    /// Where the udp link hears hello frames to everyone.
    pub hello_port: u16,
    /// Whether the udp link may let the kernel cut bursts into datagrams and merge them again.
    pub segmentation: bool,
}

impl LinkOptions {
    /// The usual: packet, udp and tso on every usual interface.
    pub fn new(port: u16, job: Option<u32>) -> LinkOptions {
        LinkOptions {
            kinds: vec![LinkKind::Packet, LinkKind::Udp, LinkKind::Tso],
            filter: InterfaceFilter::default(),
            port,
            groups: false,
            job,
            ethertype: ETHERTYPE,
            ring_frames: 1024,
            hello_port: HELLO_PORT,
            segmentation: true,
        }
    }

    /// The usual, changed by `WEFT_LINKS` (`packet`, `udp`, `tso`, with commas between),
    /// `WEFT_INTERFACES` (see [`InterfaceFilter`]), and `WEFT_ETHERTYPE` (as `0x88b5`).
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn from_env(port: u16, job: Option<u32>) -> Result<LinkOptions, LinkError> {
        let mut options = LinkOptions::new(port, job);
        if let Ok(list) = std::env::var("WEFT_LINKS") {
            options.kinds = parse_kinds(&list)?;
        }
        if let Ok(list) = std::env::var("WEFT_INTERFACES") {
            options.filter = InterfaceFilter::parse(&list).map_err(|error| LinkError::Setting {
                variable: "WEFT_INTERFACES",
                why: error.to_string(),
                value: list,
            })?;
        }
        if let Ok(number) = std::env::var("WEFT_ETHERTYPE") {
            options.ethertype = parse_ethertype(&number)?;
        }
        Ok(options)
    }

    /// Which frames this process is to see.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted { port: self.port, groups: self.groups, job: self.job }
    }
}

/// Which frames a process is to see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    port: u16,
    groups: bool,
    job: Option<u32>,
}

impl Wanted {
    /// Those for groups as well.
    pub(crate) fn with_groups(self) -> Wanted {
        Wanted { groups: true, ..self }
    }

    /// What a frame must have where its port and its job's number lie at these offsets.
    pub(crate) fn conditions_at(&self, port: usize, job: usize) -> Vec<Condition> {
        let ports = [EVERYONE_PORT, self.port, GROUPS_PORT];
        let ports = if self.groups { &ports[..] } else { &ports[..2] };
        let mut conditions = vec![Condition::u16_le(port, ports)];
        conditions.extend(self.job.map(|number| Condition::u32_le(job, &[number])));
        conditions
    }

    /// What a frame must have, from Weft's header on.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        self.conditions_at(PORT_OFFSET, JOB_OFFSET)
    }
}

/// Reads `WEFT_LINKS`: kinds of links with commas between.
///
/// # Errors
/// When a kind is unknown, or none is named.
pub fn parse_kinds(list: &str) -> Result<Vec<LinkKind>, LinkError> {
    let mut kinds = Vec::new();
    for name in list.split(',').map(str::trim) {
        let kind = match name {
            "packet" => LinkKind::Packet,
            "udp" => LinkKind::Udp,
            "tso" => LinkKind::Tso,
            _ => {
                return Err(LinkError::Setting {
                    variable: "WEFT_LINKS",
                    value: list.to_owned(),
                    why: format!(
                        "`{name}` is no kind of link: there are `packet`, `udp` and `tso`"
                    ),
                });
            }
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Ok(kinds)
}

/// Reads `WEFT_ETHERTYPE`: a number, hexadecimal after `0x`, that no protocol with a length field
/// could have.
fn parse_ethertype(text: &str) -> Result<u16, LinkError> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.filter(|n| *n >= 0x0600).ok_or_else(|| LinkError::Setting {
        variable: "WEFT_ETHERTYPE",
        value: text.to_owned(),
        why: "write a number from 0x0600 to 0xffff, as in 0x88b5".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_once_each_and_in_order() {
        assert_eq!(parse_kinds("udp, packet,udp").unwrap(), [LinkKind::Udp, LinkKind::Packet]);
        for bad in ["", "tcp", "udp,"] {
            let error = parse_kinds(bad).unwrap_err().to_string();
            assert!(error.contains("WEFT_LINKS") && error.contains("`packet`"), "{error}");
        }
    }

    #[test]
    fn an_ethertype_is_no_length() {
        assert_eq!(parse_ethertype("0x88b6").unwrap(), 0x88b6);
        assert_eq!(parse_ethertype("4096").unwrap(), 4096);
        for bad in ["1500", "0x", "0x12345", "-1", ""] {
            assert!(parse_ethertype(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn own_port_and_everyones_port_are_seen() {
        let wanted = LinkOptions::new(7, Some(9)).wanted();
        let frame = |port: u8, job: u8| [0, 0, port, port / 255 * 255, job, 0, 0, 0];
        let (alone, grouped) = (wanted.conditions(), wanted.with_groups().conditions());
        for conditions in [&alone, &grouped] {
            let sees = |frame: &[u8]| weft_sys::net::frame_filter(conditions, frame);
            assert!(sees(&frame(7, 9)) && sees(&frame(0, 9)));
            assert!(!sees(&frame(8, 9)) && !sees(&frame(7, 8)) && !sees(&frame(7, 9)[..5]));
        }
        assert!(weft_sys::net::frame_filter(&grouped, &frame(255, 9)));
        assert!(!weft_sys::net::frame_filter(&alone, &frame(255, 9)));
    }
}
