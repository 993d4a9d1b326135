//! The links of an ether device: opened when first needed, polled in turn, watched for coming up
//! and going down.

use std::os::fd::{AsRawFd, RawFd};

use weft_link::{Link, LinkError, LinkOptions, Voice, Wrappers, wire_speed};
use weft_proto::{Engine, Instant, LinkSpec};
use weft_sys::clock::now_ns;
use weft_wire::{Burst, LinkAddr, LinkId, Tail, begins_with_message, is_datagram};

use super::opening::{Opening, spec};
use super::transfers::Transfers;
use crate::error::Error;

/// How often the state of the interfaces is looked at, ns.
const STATE_INTERVAL_NS: u64 = 20_000_000;

/// A link whose polls cost a system call is polled this often when nothing is expected from it, ns.
const COSTLY_POLL_NS: u64 = 20_000;

/// After a frame went or came over such a link, more is expected from it for so long, ns: an
/// answer, an acknowledgement, the rest.
const WARM_NS: u64 = 200_000;

/// So many frames in a row are taken from one link before another is asked.
const ROW_MAX: u32 = 32;

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
        for interface in &new.interfaces {
            // Its ends may have agreed on another speed.
            for at in 0..self.links.len() {
                if self.links[at].info().interface == interface.name {
                    engine.set_wire_speed(LinkId(at as u8), wire_speed(interface));
                }
            }
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

    /// The current frame; nothing if there is none.
    #[inline]
    pub(super) fn frame(&self) -> &[u8] {
        self.current.map_or(&[], |at| self.links[at].bytes())
    }

    /// Whether nothing has come and nothing is to be looked after: the shortest of all looks, for
    /// who spins and has read the current frame to its end. Links are polled if their polls are
    /// free, or no link's are.
    #[inline]
    pub(super) fn is_idle(&mut self, now: Instant) -> bool {
        // Where no link's polls are free all are polled here.
        let all = !self.any_free;
        let still = all || (self.still_ns.0 <= now.0 && now.0 < self.still_ns.1);
        if !still || now.0 >= self.state_due_ns || self.found.is_some() {
            return false;
        }
        // Of a link that is polled here, which gives the frame back.
        if let Some(at) = self.current {
            if !all && self.warm_until_ns[at] != u64::MAX {
                return false;
            }
            self.current = None;
        }
        for (at, link) in self.links.iter_mut().enumerate() {
            if all || self.warm_until_ns[at] == u64::MAX {
                match link.poll() {
                    Ok(false) => {}
                    Ok(true) => {
                        self.found = Some(at);
                        return false;
                    }
                    // It fails again, and will be dealt with, in the round that follows.
                    Err(_) => return false,
                }
            }
        }
        true
    }

    /// Works out anew when the links with costly polls want none.
    fn settle_still(&mut self) {
        let costly = self.warm_until_ns.iter().filter(|until| **until != u64::MAX);
        let from = costly.clone().max().copied().unwrap_or(0);
        let until = costly.min().map_or(u64::MAX, |first| first + COSTLY_POLL_NS);
        self.still_ns = (from, until);
    }

    /// Gives the current frame back, moves to the next one, from any link, and hands it to the
    /// engine; `false` when none has come. Links whose polls cost a system call are passed over
    /// while nothing is expected from them (`eager`: something is) and another link's polls are
    /// free.
    #[inline]
    pub(super) fn next_frame(
        &mut self,
        engine: &mut Engine,
        now: &mut Instant,
        eager: bool,
        first_of_run: bool,
    ) -> bool {
        // What is expected comes over the links that are warm, if there are any.
        let all = !self.any_free || (eager && !self.is_warm(*now));
        // The link of the last frame first: frames come in runs, and its frame must be given back.
        let last = self.current.take();
        let found = self.found.take();
        debug_assert!(last.is_none() || found.is_none(), "a frame is found in an idle poll");
        let last = last.or(found);
        // But not for ever: what comes over another link may be what everybody waits for.
        self.row = if last.is_some() { self.row + 1 } else { 0 };
        let turned = self.row >= ROW_MAX && found.is_none();
        self.row = if turned { 0 } else { self.row };
        let first =
            last.map_or(self.turn, |at| if turned { (at + 1) % self.links.len() } else { at });
        let count = self.links.len();
        for step in 0..count {
            let at = if first + step < count { first + step } else { first + step - count };
            if !all && now.0 >= self.warm_until_ns[at] && last != Some(at) {
                if now.0 < self.warm_until_ns[at] + COSTLY_POLL_NS {
                    continue;
                }
                self.warm_until_ns[at] = now.0;
            }
            let link = &mut self.links[at];
            let polled = if found == Some(at) { Ok(true) } else { link.poll() };
            match polled {
                Ok(true) => {
                    self.take_frame(at, engine, now, first_of_run);
                    return true;
                }
                Ok(false) => {}
                Err(error) => self.set_up(engine, *now, at, false, Some(&error)),
            }
        }
        self.turn = if self.turn + 1 < self.links.len() { self.turn + 1 } else { 0 };
        self.settle_still();
        false
    }

    /// Makes a frame that [`Links::is_idle`] found the current one; `false` where it found none.
    #[inline]
    pub(super) fn take_found(&mut self, engine: &mut Engine, now: &mut Instant) -> bool {
        let Some(at) = self.found.take() else { return false };
        self.take_frame(at, engine, now, true);
        true
    }

    /// Makes the frame that a link has found the current one, and hands it to the engine.
    #[inline]
    fn take_frame(
        &mut self,
        at: usize,
        engine: &mut Engine,
        now: &mut Instant,
        first_of_run: bool,
    ) {
        // Round-trip times come from this, so for the first frame of a run the clock is read; polls
        // that find nothing do with a time that is a little old. Nor does a message wait for the
        // clock (what stands behind it is read in the next poll), nor a datagram.
        let frame = self.links[at].frame();
        if first_of_run && !begins_with_message(frame.bytes) && !is_datagram(frame.bytes) {
            *now = (*now).max(Instant(now_ns()));
        }
        keep_warm(&mut self.warm_until_ns[at], &mut self.still_ns, *now);
        self.heard_ns = now.0;
        self.current = Some(at);
        // Damaged and foreign frames are counted by the engine, and yield nothing.
        let _ = engine.receive(*now, LinkId(at as u8), &frame.from, frame.bytes);
    }

    /// Hands the frames that came with the current one, as far as they are pieces of one large
    /// message, to the engine, and puts the pieces in their places; gives how many there were.
    #[inline]
    pub(super) fn take_run(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        transfers: &Transfers,
    ) -> usize {
        let Some(at) = self.current else { return 0 };
        let (frames, stride) = self.links[at].rest();
        if frames.len() < 2 * stride || stride == 0 {
            return 0;
        }
        let place = |op, offset, bytes: &[u8]| transfers.place(op, offset, bytes);
        let taken = engine.receive_run(now, LinkId(at as u8), frames, stride, place);
        if taken > 0 {
            self.links[at].skip(taken);
        }
        taken
    }

    /// Whether a link is polled in every round whose polls cost a system call.
    #[inline]
    pub(super) fn is_warm(&self, now: Instant) -> bool {
        let warm = |until: &u64| *until != u64::MAX && now.0 < *until;
        !self.any_free || self.warm_until_ns.iter().any(warm)
    }

    /// When the last frame came.
    pub(super) fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// From now on something is expected from a link.
    #[inline]
    fn warm(&mut self, at: usize, now: Instant) {
        keep_warm(&mut self.warm_until_ns[at], &mut self.still_ns, now);
    }

    /// Sends a burst over a link; what it lacks at its end is in one of the transfers.
    #[inline]
    pub(super) fn send(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        id: LinkId,
        burst: &mut Burst,
        transfers: &Transfers,
    ) {
        let sent = match burst.tail() {
            None => self.hand_over(id, burst),
            Some(Tail { op, offset, len }) => {
                let (link, memory) = (&mut self.links[id.index()], transfers.memory(op));
                memory.map_or(Ok(0), |from| link.send_from(burst, from, offset as usize, len))
            }
        };
        self.settle_sent(engine, now, id, burst.count(), sent);
    }

    /// Hands a burst to a link; what came of it is for [`Links::settle_sent`].
    #[inline]
    pub(super) fn hand_over(&mut self, id: LinkId, burst: &mut Burst) -> Result<usize, LinkError> {
        self.links[id.index()].send(burst)
    }

    /// Tells the engine what a link that was handed `count` frames has not taken.
    #[inline]
    pub(super) fn settle_sent(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        id: LinkId,
        count: usize,
        sent: Result<usize, LinkError>,
    ) {
        self.warm(id.index(), now);
        match sent {
            Ok(taken) if taken == count => {}
            Ok(taken) => engine.refused(now, id, count - taken),
            Err(error) => {
                engine.refused(now, id, count);
                self.set_up(engine, now, id.index(), false, Some(&error));
            }
        }
    }

    /// Looks at what came of a burst of datagrams; `false` when the medium did not take it, and it
    /// is lost.
    #[inline]
    pub(super) fn settle_datagram(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        id: LinkId,
        sent: Result<usize, LinkError>,
    ) -> bool {
        self.warm(id.index(), now);
        match sent {
            Ok(taken) => taken > 0,
            Err(error) => {
                self.set_up(engine, now, id.index(), false, Some(&error));
                false
            }
        }
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

    /// The next round polls all links: the owner is about to sleep, or has slept.
    pub(super) fn poll_all(&mut self) {
        for until in self.warm_until_ns.iter_mut().filter(|until| **until != u64::MAX) {
            *until = 0;
        }
        self.links.iter_mut().for_each(|link| link.rouse());
        self.still_ns = (u64::MAX, 0);
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

/// Something is expected from a link until later.
#[inline]
fn keep_warm(until: &mut u64, still_ns: &mut (u64, u64), now: Instant) {
    if *until != u64::MAX {
        *until = now.0 + WARM_NS;
        still_ns.0 = *until;
    }
}

#[cfg(test)]
mod tests {
    use weft_link::MemoryHub;
    use weft_proto::Config;
    use weft_wire::{Address, JobKey};

    use super::*;

    #[test]
    fn a_link_that_never_runs_dry_keeps_no_other_waiting() {
        let me = Address::new(1, 1, 7, 1, "one");
        let mut engine = Engine::new(Config::default(), me, JobKey([1; 16]), 1);
        let hubs = [MemoryHub::new(1500, 1000), MemoryHub::new(1500, 1000)];
        let attach = |hub: &MemoryHub| -> Box<dyn Link> { Box::new(hub.attach().unwrap()) };
        let mut links = Links::opened(hubs.iter().map(attach).collect(), &mut engine);
        let mut others: Vec<_> = hubs.iter().map(attach).collect();
        let mut burst = Burst::new(2000);
        let mut say = |at: usize| {
            burst.reset(LinkAddr::Port(0), 0);
            burst.space(64).unwrap().fill(0);
            burst.push(64);
            others[at].send(&mut burst).unwrap();
        };
        let mut now = Instant(1);
        say(0);
        assert!(links.next_frame(&mut engine, &mut now, false, true));
        assert_eq!(links.current, Some(0));
        say(1);
        let taken = (0..2 * ROW_MAX).take_while(|_| {
            say(0);
            links.next_frame(&mut engine, &mut now, false, false) && links.current == Some(0)
        });
        assert!(taken.count() < 2 * ROW_MAX as usize, "the other link has its turn");
        assert_eq!(links.current, Some(1));
    }
}
