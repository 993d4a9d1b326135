//! What links are opened with, and the environment variables that say so.

use weft_sys::net::{Condition, FILTER_VALUES_MAX, InterfaceFilter};
use weft_wire::{EVERYONE_PORT, GROUP_OFFSET, GROUPS_PORT, JOB_OFFSET, PORT_OFFSET};

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
    /// The tags of groups whose frames are received as well.
    pub groups: Vec<u16>,
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
            groups: Vec::new(),
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
        Wanted { port: self.port, groups: self.groups.clone(), job: self.job }
    }
}

/// Which frames a process is to see.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    port: u16,
    groups: Vec<u16>,
    job: Option<u32>,
}

impl Wanted {
    /// From now on those for groups with these tags as well.
    pub(crate) fn set_groups(&mut self, tags: &[u16]) {
        self.groups = tags.to_vec();
    }

    /// What a frame must have where its port, its job's number and its group's tag lie at these
    /// offsets.
    pub(crate) fn conditions_at(&self, port: usize, job: usize, group: usize) -> Vec<Condition> {
        let ports = [EVERYONE_PORT, self.port, GROUPS_PORT];
        let ports = if self.groups.is_empty() { &ports[..2] } else { &ports[..] };
        let mut conditions = vec![Condition::u16_le(port, ports)];
        conditions.extend(self.job.map(|number| Condition::u32_le(job, &[number])));
        // Who is in more than a filter can name gets what is for any.
        if (1..=FILTER_VALUES_MAX).contains(&self.groups.len()) {
            conditions.push(Condition::u16_le(group, &self.groups).only_if(port, GROUPS_PORT));
        }
        conditions
    }

    /// Whether a frame that begins with Weft's header meets [`Wanted::conditions`], in few steps.
    #[inline]
    pub(crate) fn admits(&self, frame: &[u8]) -> bool {
        let Some(head) = frame.first_chunk::<{ GROUP_OFFSET + 2 }>() else { return false };
        let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let job = u32::from(word(JOB_OFFSET)) | u32::from(word(JOB_OFFSET + 2)) << 16;
        if self.job.is_some_and(|wanted| wanted != job) {
            return false;
        }
        match word(PORT_OFFSET) {
            EVERYONE_PORT => true,
            port if port == self.port => true,
            GROUPS_PORT if self.groups.len() > FILTER_VALUES_MAX => true,
            GROUPS_PORT => self.groups.contains(&word(GROUP_OFFSET)),
            _ => false,
        }
    }

    /// What a frame must have, from Weft's header on.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        self.conditions_at(PORT_OFFSET, JOB_OFFSET, GROUP_OFFSET)
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
    use weft_sys::net::frame_filter;

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
        let mut wanted = LinkOptions::new(7, Some(9)).wanted();
        let frame = |port: u16, job: u32, group: u16| {
            let mut frame = [0; 16];
            frame[PORT_OFFSET..PORT_OFFSET + 2].copy_from_slice(&port.to_le_bytes());
            frame[JOB_OFFSET..JOB_OFFSET + 4].copy_from_slice(&job.to_le_bytes());
            frame[GROUP_OFFSET..GROUP_OFFSET + 2].copy_from_slice(&group.to_le_bytes());
            frame
        };
        let sees = |wanted: &Wanted, frame: &[u8]| {
            let seen = frame_filter(&wanted.conditions(), frame);
            assert_eq!(wanted.admits(frame), seen, "{frame:?}");
            seen
        };
        let of_groups =
            |wanted: &Wanted| [0, 1, 2].map(|group| sees(wanted, &frame(GROUPS_PORT, 9, group)));
        for (groups, seen) in [
            (vec![], [false; 3]),
            (vec![1], [false, true, false]),
            (vec![2, 1], [false, true, true]),
            ((1000..1000 + FILTER_VALUES_MAX as u16 + 1).collect(), [true; 3]),
        ] {
            wanted.set_groups(&groups);
            assert_eq!(of_groups(&wanted), seen, "{groups:?}");
            assert!(sees(&wanted, &frame(7, 9, 5)) && sees(&wanted, &frame(0, 9, 5)));
            assert!(!sees(&wanted, &frame(8, 9, 1)) && !sees(&wanted, &frame(7, 8, 1)));
            assert!(!sees(&wanted, &frame(7, 9, 1)[..5]));
        }
    }
}
