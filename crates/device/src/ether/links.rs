//! The links of an ether device: opened when first needed, polled in turn, watched for coming up
//! and going down.

mod receive;
mod send;

use std::os::fd::{AsRawFd, RawFd};

use weft_link::{Link, LinkError, LinkOptions, Voice, Wrappers, wire_speed};
use weft_proto::{Engine, Instant, LinkSpec};
use weft_wire::{LinkAddr, LinkId};

use super::opening::{Opening, spec, speeds};
use crate::error::Error;

/// How often the state of the interfaces is looked at, ns.
const STATE_INTERVAL_NS: u64 = 20_000_000;

/// See the module's page.
pub(super) struct Links {
    links: Vec<Box<dyn Link>>,
    /// How links are opened; nothing where they were given.
    opening: Option<Opening>,
    up: Vec<bool>,
    /// The link that is asked first in the next round.
    turn: usize,
    /// Frames in a row that came over one link.
    row: u32,
    /// The link of the current frame.
    current: Option<usize>,
    /// A link that was polled and has a frame, which nobody has seen yet.
    found: Option<usize>,
    /// From when until when no link wants to be polled whose polls cost a system call, where there
    /// are others.
    still_ns: (u64, u64),
    state_due_ns: u64,
    /// Whether there is a link whose polls cost nothing.
    any_free: bool,
    /// By link: until when every round polls it. For ever where polls cost nothing.
    warm_until_ns: Vec<u64>,
    /// When the last frame came, ns.
    heard_ns: u64,
    pub(super) generation: u64,
}

impl Links {
    /// Links that will be opened by `options` when first needed.
    pub(super) fn lazy(options: LinkOptions, wrappers: Wrappers) -> Links {
        Links {
            links: Vec::new(),
            opening: Some(Opening::new(options, wrappers)),
            up: Vec::new(),
            turn: 0,
            row: 0,
            current: None,
            found: None,
            still_ns: (u64::MAX, 0),
            state_due_ns: 0,
            any_free: false,
            warm_until_ns: Vec::new(),
            heard_ns: 0,
            generation: 0,
        }
    }

    /// Links that are open already.
    pub(super) fn opened(links: Vec<Box<dyn Link>>, engine: &mut Engine) -> Links {
        let mut all = Links::lazy(LinkOptions::new(0, None), Wrappers::default());
        all.opening = None;
        for link in links {
            all.add(link, engine);
        }
        all
    }

    /// Whether there are none: then a poll has nothing to look at.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Opens the links if that was not done yet.
    pub(super) fn open(&mut self, engine: &mut Engine) -> Result<(), Error> {
        let Some(opening) = &mut self.opening else { return Ok(()) };
        for link in opening.first()? {
            self.add(link, engine);
        }
        if self.links.is_empty() {
            let why = self.opening.as_ref().map_or(String::new(), Opening::why_unusable);
            return Err(Error::NoLinks { why });
        }
        Ok(())
    }

    /// All links, and those that will be opened, receive frames for groups with these tags.
    pub(super) fn hear_groups(&mut self, tags: &[u16]) {
        if let Some(opening) = &mut self.opening {
            opening.hear_groups(tags);
        }
        for link in &mut self.links {
            if let Err(error) = link.hear_groups(tags) {
                // Its peers do not find that this process hears them, and send to it alone.
                tracing::debug!(link = %link.info().name, %error, "no multicast");
            }
        }
    }

    fn add(&mut self, link: Box<dyn Link>, engine: &mut Engine) {
        if self.links.len() >= Engine::LINKS_MAX {
            let (link, most) = (&link.info().name, Engine::LINKS_MAX);
            return tracing::warn!(link, most, "link not used: there are too many");
        }
        engine.add_link(self.spec(&*link));
        let info = link.info();
        tracing::debug!(link = %info.name, mtu = info.mtu, "link opened");
        self.any_free |= info.free_poll;
        self.warm_until_ns.push(if info.free_poll { u64::MAX } else { 0 });
        self.links.push(link);
        self.up.push(true);
        self.generation += 1;
    }

    fn spec(&self, link: &dyn Link) -> LinkSpec {
        let name = &link.info().interface;
        let medium = self.links.iter().position(|l| l.info().interface == *name);
        spec(link, medium.unwrap_or(self.links.len()) as u32)
    }

    /// Opens links on interfaces that have come, or have come back.
    fn open_new(&mut self, engine: &mut Engine, now: Instant) {
        // What is being read lies in a link that might be replaced.
        if self.current.is_some() || self.found.is_some() {
            return;
        }
        let opening = self.opening.as_mut();
        let Some(new) = opening.and_then(|o| o.later(self.links.len(), now.0)) else { return };
        let seen = self.opening.as_ref().map_or(&[][..], Opening::seen);
        let names = self.links.iter().map(|link| link.info().interface.as_str());
        for (link, speed) in speeds(names, seen, wire_speed) {
            engine.set_wire_speed(link, speed);
        }
        for link in new.links {
            self.take_in(link, engine, now);
        }
    }

    /// Adds a link, or puts it in the place of one of its name: its interface is another one. The
    /// next look finds it up.
    fn take_in(&mut self, link: Box<dyn Link>, engine: &mut Engine, now: Instant) {
        let known = self.links.iter().position(|l| l.info().name == link.info().name);
        let at = known.unwrap_or(self.links.len());
        match known {
            Some(_) => {
                engine.replace_link(now, LinkId(at as u8), self.spec(&*link));
                self.links[at] = link;
                self.generation += 1;
            }
            None => {
                self.add(link, engine);
                engine.set_link_up(now, LinkId(at as u8), false);
            }
        }
        if let Some(up) = self.up.get_mut(at) {
            *up = false;
        }
    }

    /// From now on the kernel cuts this link's long frames.
    pub(super) fn cut_in_software(&mut self, link: LinkId) {
        if let Some(link) = self.links.get_mut(link.index()) {
            link.cut_in_software();
        }
    }

    /// A voice of each link, as far as it has one.
    pub(super) fn voices(&self) -> Vec<Option<Box<dyn Voice>>> {
        self.links.iter().map(|link| link.voice()).collect()
    }

    /// The name of a link, for people.
    pub(super) fn name(&self, link: LinkId) -> &str {
        self.links.get(link.index()).map_or("?", |l| &l.info().name)
    }

    /// A link's own address.
    pub(super) fn address(&self, link: LinkId) -> Option<LinkAddr> {
        self.links.get(link.index()).map(|link| link.info().addr)
    }

    /// The network interface of a link.
    pub(super) fn interface(&self, link: LinkId) -> &str {
        self.links.get(link.index()).map_or("", |l| &l.info().interface)
    }

    /// The network interfaces that the links have.
    pub(super) fn interface_names(&self) -> Vec<String> {
        let mut all: Vec<_> = self.links.iter().map(|l| l.info().interface.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|name| !name.is_empty());
        all
    }

    /// How many they are.
    pub(super) fn interfaces(&self) -> usize {
        self.interface_names().len()
    }

    /// The most bytes that a burst of any link has.
    pub(super) fn max_burst(&self) -> usize {
        self.links.iter().map(|l| l.info().max_burst).max().unwrap_or(0)
    }

    /// Whether no link's poll costs a system call.
    pub(super) fn free_poll(&self) -> bool {
        self.links.iter().all(|l| l.info().free_poll)
    }

    /// When the last frame came.
    pub(super) fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// Looks at the state of the interfaces now and then; `true` when it was time to.
    pub(super) fn check_state(&mut self, engine: &mut Engine, now: Instant) -> bool {
        if now.0 < self.state_due_ns {
            return false;
        }
        self.state_due_ns = now.0 + STATE_INTERVAL_NS;
        self.open_new(engine, now);
        for at in 0..self.links.len() {
            let up = self.links[at].is_up();
            self.set_up(engine, now, at, up, None);
        }
        true
    }

    fn set_up(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        at: usize,
        up: bool,
        why: Option<&LinkError>,
    ) {
        if self.up[at] == up {
            return;
        }
        self.up[at] = up;
        let name = &self.links[at].info().name;
        match (up, why) {
            (true, _) => tracing::info!(link = %name, "link is up"),
            (false, Some(why)) => tracing::warn!(link = %name, %why, "link is down"),
            (false, None) => tracing::warn!(link = %name, "link is down"),
        }
        engine.set_link_up(now, LinkId(at as u8), up);
    }

    /// When a link wants to be polled though nothing arrives.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.links.iter().filter_map(|l| l.deadline_ns()).min()
    }

    /// See `Device::watch`.
    pub(super) fn watch(&self, each: &mut dyn FnMut(RawFd)) {
        for link in &self.links {
            link.watch(&mut |fd| each(fd.as_raw_fd()));
        }
    }

    /// What has gone through each link, by name.
    pub(super) fn counters(&self, each: &mut dyn FnMut(String, u64)) {
        for link in &self.links {
            let (name, c) = (&link.info().name, link.counters());
            for (what, count) in [
                ("sent_frames", c.sent_frames),
                ("sent_bytes", c.sent_bytes),
                ("send_calls", c.send_calls),
                ("send_refused", c.send_refused),
                ("received_frames", c.received_frames),
                ("received_bytes", c.received_bytes),
                ("receive_dropped", c.receive_dropped),
            ] {
                each(format!("{name}.{what}"), count);
            }
        }
    }
}
