//! Ways to nodes that no cable leads to, through nodes between: asked for when hellos do not find
//! everybody, by a request that is flooded over all cables, and made by the replies that come back,
//! one from each node. Whoever
//! hands frames on is told of each way by itself, in one direction and in the other, so that frames
//! take the way that was found, and no other: there is nothing that could lead them in a circle.

use std::collections::{HashMap, VecDeque};

use weft_wire::{HOPS_MAX, Hop, LinkAddr, LinkId, Route};

use crate::engine::Hub;
use crate::event::Incoming;
use crate::rail::Link;
use crate::time::Instant;

/// First pause between two requests over the same wire, ns, and the longest.
const PAUSE_NS: (u64, u64) = (20_000_000, 1_000_000_000);
/// So long the processes of a node leave it to the one that answers for it, ns: they hear the
/// replies as well.
const LEAVE_NS: u64 = 30_000_000;
/// Requests that are remembered, so that each is handed on once.
const SEEN_MAX: usize = 4096;
/// Frames that may wait to be sent.
const WAITING_MAX: usize = 1024;

/// What this process does for the others of its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Relaying {
    /// Nothing: another process of the node does it, or none.
    #[default]
    Not,
    /// It answers who asks for the node, but hands nothing on.
    Answers,
    /// It answers, and hands on.
    Relays,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    pub relaying: Relaying,
    number: u32,
    /// By wire: when to ask again, and the pause after that.
    asked: HashMap<u32, (Instant, u64)>,
    /// By origin and number: the fewest hops that a request has come with.
    seen: HashMap<(u64, u32), usize>,
    order: VecDeque<(u64, u32)>,
    /// Frames to be sent, to everyone on a link's segment.
    pub waiting: VecDeque<(LinkId, Route)>,
}

impl Routes {
    /// Whether this request is news: nobody has brought it yet, or only a longer way.
    fn is_news(&mut self, route: &Route) -> bool {
        let key = (route.nonce, route.number);
        let hops = route.hops.len();
        if let Some(fewest) = self.seen.get_mut(&key) {
            return hops < std::mem::replace(fewest, hops.min(*fewest));
        }
        if self.order.len() >= SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        self.order.push_back(key);
        self.seen.insert(key, hops);
        true
    }

    fn push(&mut self, link: LinkId, route: Route) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((link, route));
        }
    }
}

/// The Ethernet address of a link over which ways may lead, and that can speak to its segment.
fn mac(link: &Link) -> Option<[u8; 6]> {
    match link.spec.addr {
        LinkAddr::Mac(mac) if link.up && link.spec.everyone.is_some() => Some(mac),
        _ => None,
    }
}

impl Hub {
    /// The first link of each wire over which ways may lead.
    pub fn wires(&self) -> Vec<LinkId> {
        let mut all: Vec<LinkId> = Vec::new();
        for (at, link) in self.links.iter().enumerate() {
            let known = |id: &LinkId| self.links[id.index()].spec.medium == link.spec.medium;
            if mac(link).is_some() && !all.iter().any(known) {
                all.push(LinkId(at as u8));
            }
        }
        all
    }

    fn medium(&self, link: LinkId) -> u32 {
        self.links[link.index()].spec.medium
    }

    /// Asks for ways that begin with `link`'s wire, if that was not done a moment ago.
    pub fn ask_ways(&mut self, link: LinkId, now: Instant) {
        let Some(from) = self.links.get(link.index()).and_then(mac) else { return };
        let leave = if self.routes.relaying == Relaying::Not { LEAVE_NS } else { 0 };
        let entry = self.routes.asked.entry(self.medium(link));
        let (next, pause) = entry.or_insert((now.plus(leave), PAUSE_NS.0));
        if now < *next {
            return;
        }
        // Long ago: it is another matter.
        *pause = if now.since(*next) > 2 * PAUSE_NS.1 { PAUSE_NS.0 } else { *pause };
        *next = now.plus(*pause);
        *pause = (*pause * 2).min(PAUSE_NS.1);
        self.routes.number += 1;
        let route = Route {
            back: None,
            link: link.0,
            number: self.routes.number,
            origin: self.me.node,
            nonce: self.me.nonce,
            target: 0,
            from,
            to: [0; 6],
            hops: Vec::new(),
        };
        self.counters.ways_asked += 1;
        self.routes.push(link, route);
    }

    /// A request or a reply came over `link`. Where it tells this process of a way, the node that
    /// it leads to, and the wire it begins with.
    pub fn on_route(&mut self, link: LinkId, route: Route) -> Option<(u64, LinkId)> {
        match route.back {
            None => self.on_request(link, route),
            Some(0) => return self.on_found(link, &route),
            Some(_) => self.on_reply(link, route),
        }
        None
    }

    fn on_request(&mut self, link: LinkId, route: Route) {
        let me = self.me.node;
        let mine = route.origin == me || route.hops.iter().any(|hop| hop.node == me);
        let Some(to) = mac(&self.links[link.index()]) else { return };
        if self.routes.relaying == Relaying::Not || mine || !self.routes.is_news(&route) {
            return;
        }
        // Who is heard on a segment finds everybody there itself.
        let direct = |hub: &Hub, link| hub.ways.hops(link, route.origin) == Some(0);
        if !route.hops.is_empty() && !direct(self, link) {
            let back = Some(route.hops.len() as u8);
            let between = route.hops.iter().rev().map(|hop| hop.node).collect();
            self.lead(link, route.from, between);
            self.counters.ways_answered += 1;
            self.routes.push(link, Route { back, to, target: me, ..route.clone() });
        }
        if self.routes.relaying != Relaying::Relays || route.hops.len() >= HOPS_MAX {
            return;
        }
        let medium = self.medium(link);
        for out in self.wires() {
            if self.medium(out) == medium || direct(self, out) {
                continue;
            }
            let mut longer = route.clone();
            longer.hops.push(Hop { node: me, by: link.0, out: out.0 });
            if longer.frame_len() <= self.links[out.index()].spec.mtu {
                self.routes.push(out, longer);
            }
        }
    }

    /// A reply on its way back: hands frames on from now on, if it is for this node.
    fn on_reply(&mut self, link: LinkId, mut route: Route) {
        let Some(left) = route.back.and_then(|back| usize::from(back).checked_sub(1)) else {
            return;
        };
        let Some(&hop) = route.hops.get(left) else { return };
        let (by, out) = (LinkId(hop.by), LinkId(hop.out));
        let known = |id: LinkId| self.links.get(id.index()).and_then(mac).is_some();
        if hop.node != self.me.node
            || self.routes.relaying != Relaying::Relays
            || !known(by)
            || !known(out)
            || self.medium(by) == self.medium(out)
            || self.medium(link) != self.medium(out)
        {
            return;
        }
        let (from, to) = (route.from, route.to);
        self.counters.ways_relayed += 1;
        self.events.push_back(Incoming::Relay { by, out, from, to });
        route.back = Some(left as u8);
        self.routes.push(by, route);
    }

    /// A reply that has come all the way: to this process, or another of its node.
    fn on_found(&mut self, link: LinkId, route: &Route) -> Option<(u64, LinkId)> {
        let own = mac(&self.links[link.index()])?;
        if route.origin != self.me.node || route.from != own || route.hops.is_empty() {
            return None;
        }
        self.counters.ways_found += 1;
        self.lead(link, route.to, route.hops.iter().map(|hop| hop.node).collect());
        let medium = self.medium(link);
        for at in 0..self.links.len() {
            let each = &self.links[at];
            if each.spec.medium == medium && mac(each).is_some() {
                let (id, to) = (LinkId(at as u8), LinkAddr::Mac(route.to));
                self.ways.met(id, route.target, to, route.hops.len() as u8);
            }
        }
        Some((route.target, link))
    }

    /// The way to an address over the wire of `link` leads through these.
    fn lead(&mut self, link: LinkId, to: [u8; 6], between: Vec<u64>) {
        let medium = self.medium(link);
        for (at, each) in self.links.iter().enumerate() {
            if each.spec.medium == medium && mac(each).is_some() {
                self.ways.leads(LinkId(at as u8), LinkAddr::Mac(to), between.clone());
            }
        }
    }
}
