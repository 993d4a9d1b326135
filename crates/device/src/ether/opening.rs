//! Opening links: all that the user admits when they are first needed, and later what has come
//! since: a cable was plugged in, an address given, an adapter put back.

use weft_link::{
    Link, LinkError, LinkKind, LinkOptions, OpenLinks, Wrappers, open_links, open_new,
};
use weft_proto::LinkSpec;
use weft_sys::net::{Changes, Interface};
use weft_wire::LinkId;

use crate::error::Error;

/// Pause between two looks at all interfaces, ns: where they come by the dozen, each is news.
const PAUSE_NS: u64 = 200_000_000;

/// See the module's page.
pub(super) struct Opening {
    options: LinkOptions,
    wrappers: Wrappers,
    is_done: bool,
    /// Links that were refused, and why, for people.
    unusable: Vec<(String, LinkError)>,
    /// The interfaces as they were when they were last looked at.
    seen: Vec<Interface>,
    /// What was opened: kinds, and the numbers of the interfaces.
    open: Vec<(LinkKind, u32)>,
    /// Tells that something has changed since; nothing where the kernel does not tell.
    changes: Option<Changes>,
    /// When to look next, at the earliest.
    look_ns: u64,
}

impl Opening {
    pub(super) fn new(options: LinkOptions, wrappers: Wrappers) -> Opening {
        Opening {
            options,
            wrappers,
            is_done: false,
            unusable: Vec::new(),
            seen: Vec::new(),
            open: Vec::new(),
            changes: None,
            look_ns: 0,
        }
    }

    /// All links, if that was not done yet.
    pub(super) fn first(&mut self) -> Result<Vec<Box<dyn Link>>, Error> {
        if std::mem::replace(&mut self.is_done, true) {
            return Ok(Vec::new());
        }
        // Before anything is looked at, so that nothing is missed.
        self.changes = Changes::new()
            .inspect_err(|error| tracing::info!(%error, "interfaces that come are not seen"))
            .ok();
        let opened = open_links(&self.options);
        for (name, why) in &opened.unusable {
            tracing::info!(link = %name, %why, "link not used");
        }
        self.note(&opened);
        (self.unusable, self.seen) = (opened.unusable, opened.interfaces);
        let links = opened.links.into_iter().enumerate();
        let wrap = |(number, link)| self.wrappers.wrap(link, number as u64, self.options.ethertype);
        links.map(wrap).collect::<Result<_, _>>().map_err(|e| Error::os("wrapping a link", e))
    }

    /// What has come since: the interfaces that are new or have changed, and links on them where
    /// there were none. Nothing where nothing has changed.
    pub(super) fn later(&mut self, first_number: usize, now_ns: u64) -> Option<OpenLinks> {
        if now_ns < self.look_ns || !self.changes.as_ref()?.any() {
            return None;
        }
        self.look_ns = now_ns + PAUSE_NS;
        let is_open = |kind, index| self.open.contains(&(kind, index));
        let opened = open_new(&self.options, &mut self.seen, is_open);
        let mut opened =
            opened.inspect_err(|error| tracing::debug!(%error, "listing the interfaces")).ok()?;
        for (name, why) in &opened.unusable {
            tracing::debug!(link = %name, %why, "link not used");
        }
        self.note(&opened);
        let found = std::mem::take(&mut opened.links).into_iter().zip(first_number as u64..);
        for (link, number) in found {
            match self.wrappers.wrap(link, number, self.options.ethertype) {
                Ok(link) => opened.links.push(link),
                Err(error) => tracing::warn!(%error, "a new link is not used"),
            }
        }
        Some(opened)
    }

    /// All interfaces as they were at the last look, those that have not changed as well.
    pub(super) fn seen(&self) -> &[Interface] {
        &self.seen
    }

    fn note(&mut self, opened: &OpenLinks) {
        for link in &opened.links {
            let (kind, name) = (link.info().kind, &link.info().interface);
            let on = opened.interfaces.iter().find(|i| i.name == *name);
            self.open.extend(on.map(|interface| (kind, interface.index)));
        }
    }

    /// Links that will be opened receive frames for groups with these tags.
    pub(super) fn hear_groups(&mut self, tags: &[u16]) {
        self.options.groups = tags.to_vec();
    }

    /// Each unusable link with its reason, for an error's message.
    pub(super) fn why_unusable(&self) -> String {
        if self.unusable.is_empty() {
            return "no network interface is admitted: `ip link` lists them, WEFT_INTERFACES admits \
                    them by name"
                .into();
        }
        let each = self.unusable.iter().map(|(name, why)| format!("{name}: {why}"));
        each.collect::<Vec<_>>().join("; ")
    }
}

/// How fast the cable is of each link, whose interfaces have these names. The ends may agree on
/// another speed without anything else of the interface changing between two looks, so at any news
/// all of them are asked.
pub(super) fn speeds<'a>(
    links: impl Iterator<Item = &'a str>,
    interfaces: &[Interface],
    speed: impl Fn(&Interface) -> u64,
) -> Vec<(LinkId, u64)> {
    let named = |name: &str| interfaces.iter().find(|i| i.name == name);
    let each = links.enumerate().filter_map(|(at, name)| Some((LinkId(at as u8), named(name)?)));
    each.map(|(link, interface)| (link, speed(interface))).collect()
}

/// What the engine must know of a link.
pub(super) fn spec(link: &dyn Link, medium: u32) -> LinkSpec {
    let info = link.info();
    LinkSpec {
        addr: info.addr,
        everyone: info.everyone,
        mtu: info.mtu,
        headroom: info.headroom,
        max_burst: info.max_burst,
        max_frames: info.max_frames,
        pieces: info.pieces,
        waiting: info.waiting,
        cuts: info.cuts,
        gathers: info.gathers,
        send_ns: info.costs.send_ns,
        receive_ns: info.costs.receive_ns,
        latency_ns: info.costs.latency_ns,
        bytes_per_s: info.costs.bytes_per_s,
        wire_bytes_per_s: info.costs.wire_bytes_per_s,
        integrity: info.integrity,
        medium,
        last_resort: info.last_resort,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_is_told_the_speed_of_its_interface() {
        let interface =
            |name: &str, index| Interface { name: name.into(), index, ..Interface::default() };
        let interfaces = [interface("slow", 1), interface("fast", 2), interface("unused", 3)];
        let speed = |i: &Interface| u64::from(i.index) * 125_000_000;
        let links = ["fast", "slow", "gone", "fast"];
        let said = speeds(links.into_iter(), &interfaces, speed);
        let expected = [(0, 250_000_000), (1, 125_000_000), (3, 250_000_000)];
        assert_eq!(said, expected.map(|(link, speed)| (LinkId(link), speed)));
    }
}
