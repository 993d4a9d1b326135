//! Finding a peer: hellos on every link that may reach it, until it answers or the limit is over.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use weft_wire::{Address, Hello, LinkAddr, LinkId, VERSION};

use super::{Peer, State};
use crate::config::Config;
use crate::engine::Hub;
use crate::event::{Cause, Incoming};
use crate::rail::{self, Path};
use crate::time::Instant;

/// Hellos on further links after one has answered.
const MORE_TRIES: u32 = 8;
/// Rounds of hellos that nobody answers, before a way through other nodes is asked for.
const DIRECT_ROUNDS: u32 = 2;
/// Hello frames that may wait to be sent.
const WAITING_MAX: usize = 64;

/// A hello frame to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub link: LinkId,
    pub to: LinkAddr,
    pub reply: bool,
}

/// The state of the search for one peer.
#[derive(Debug, Default)]
pub(crate) struct Greeting {
    since: Instant,
    /// When the next round of hellos is due.
    pub next_at: Option<Instant>,
    pause: u64,
    rounds: u32,
    rounds_open: u32,
    hellos: u32,
    links: u32,
    /// Whether a process at the peer's address was heard that has not this job's key.
    pub other_key: bool,
    pub waiting: VecDeque<Due>,
}

impl Peer {
    /// Starts to look for the peer.
    pub fn greet(&mut self, hub: &mut Hub, now: Instant) {
        if self.state == State::Idle {
            self.state = State::Greeting;
            self.greeting.since = now;
            hub.met += 1;
        }
        self.greeting.pause = first_pause(hub);
        self.greeting.rounds_open = 0;
        self.greeting.next_at = Some(now);
        self.greeting_timer(hub, now);
        self.schedule(hub);
    }

    /// Sends a round of hellos if it is time.
    pub fn greeting_timer(&mut self, hub: &mut Hub, now: Instant) {
        if self.greeting.next_at.is_none_or(|at| at > now) {
            return;
        }
        let searching = self.state == State::Greeting;
        let waited = now.since(self.greeting.since);
        if searching && waited >= hub.config.hello_limit_ns {
            let g = &self.greeting;
            let (hellos, links, other_key) = (g.hellos, g.links.count_ones(), g.other_key);
            let why = match hellos {
                0 => Cause::NoLink,
                _ => Cause::NoAnswer { waited_ms: waited / 1_000_000, hellos, links, other_key },
            };
            return self.end(hub, why);
        }
        let g = &mut self.greeting;
        g.rounds += 1;
        g.rounds_open += u32::from(!searching);
        let (round, pause) = (g.rounds, g.pause);
        g.pause = (pause * 2).min(hub.config.hello_max_ns.max(pause));
        // Many processes start together and look for many peers each: were all to try again in
        // step, the same hellos would overflow the same buffers round after round.
        let spread = hub.random() % (pause + 1);
        let g = &mut self.greeting;
        let more = searching || g.rounds_open < MORE_TRIES;
        g.next_at = more.then(|| now.plus(pause / 2 + spread));
        let mut missing = false;
        for (at, link) in hub.links.iter().enumerate() {
            let id = LinkId(at as u8);
            if !link.up || self.paths.iter().any(|p| p.link == id && p.up) {
                continue;
            }
            missing = true;
            let way = hub.ways.to(id, self.address.node, self.address.udp_port);
            for to in destinations(link, &self.address, way, round) {
                let due = Due { link: id, to, reply: false };
                let g = &mut self.greeting;
                if g.waiting.len() < WAITING_MAX && !g.waiting.contains(&due) {
                    g.waiting.push_back(due);
                    g.hellos += 1;
                    g.links |= 1 << (at % 32);
                }
            }
        }
        if !searching && !missing {
            self.greeting.next_at = None;
        }
        if round > DIRECT_ROUNDS {
            let medium = |hub: &Hub, link: LinkId| hub.links[link.index()].spec.medium;
            for wire in hub.wires() {
                let own = medium(hub, wire);
                if !self.paths.iter().any(|p| p.up && medium(hub, p.link) == own) {
                    hub.ask_ways(wire, now);
                }
            }
        }
        self.wake(hub);
    }

    /// Looks anew for a peer that no longer answers on the segment of `link`: another of its
    /// interfaces may be there as well.
    pub fn greet_over(&mut self, hub: &Hub, link: LinkId) {
        let Some(everyone) = hub.links[link.index()].spec.everyone else { return };
        let due = Due { link, to: everyone, reply: false };
        if self.greeting.waiting.len() < WAITING_MAX && !self.greeting.waiting.contains(&due) {
            self.greeting.waiting.push_back(due);
        }
    }

    /// What a hello from us says.
    pub fn hello(&self, hub: &Hub, due: &Due) -> Hello {
        Hello {
            versions: (VERSION, VERSION),
            reply: due.reply,
            path: due.link.0,
            index: self.id.0,
            mtu: hub.links[due.link.index()].spec.mtu as u32,
            messages: hub.config.window_messages,
            bytes: hub.config.window_bytes,
            to_node: self.address.node,
            to_nonce: self.address.nonce,
            to_port: self.address.port,
            hops: hub.ways.hops_to(due.link, &due.to),
            last_resort: hub.links[due.link.index()].spec.last_resort,
            from: hub.me,
        }
    }

    /// A hello came from the peer, proved and meant for us.
    pub fn on_hello(
        &mut self,
        hub: &mut Hub,
        now: Instant,
        link: LinkId,
        from: LinkAddr,
        hello: &Hello,
    ) {
        // It says hello again, and by then the link may be known to be up.
        if !hub.links[link.index()].up {
            return;
        }
        // Who is told that we are here will send; after the end nobody would take it. A peer of
        // another version is told, so that it can name the cause.
        let answer = match self.state {
            State::Ended(why) => matches!(why, Cause::Version { .. }),
            _ => true,
        };
        if answer && !hello.reply && self.greeting.waiting.len() < WAITING_MAX {
            self.greeting.waiting.push_back(Due { link, to: from, reply: true });
            self.wake(hub);
        }
        if matches!(self.state, State::Ended(_)) {
            return;
        }
        if !hello.speaks_ours() {
            let (lowest, highest) = hello.versions;
            return self.end(hub, Cause::Version { lowest, highest });
        }
        self.index = hello.index;
        self.out.grant(u64::from(hello.messages), hello.bytes);
        if hello.reply || self.state != State::Open {
            self.heard(now, link);
        } else {
            self.heard_greeting(hub, now, link);
        }
        if self.state != State::Open {
            hub.open += 1;
            if self.state == State::Greeting {
                let took = now.since(self.greeting.since);
                hub.hello_ns = (3 * hub.hello_ns + took) / 4;
            } else {
                hub.met += 1;
            }
            self.greeting.pause = first_pause(hub);
            self.greeting.next_at = Some(now.plus(self.greeting.pause));
            self.state = State::Open;
            self.life_start(hub, now);
        }
        self.open_path(hub, link, from, hello);
        self.wake(hub);
        self.schedule(hub);
    }

    /// Makes the peer reachable over `link`, or reachable again.
    fn open_path(&mut self, hub: &mut Hub, link: LinkId, from: LinkAddr, hello: &Hello) {
        let goal = (hello.mtu as usize).clamp(MTU_LEAST, hub.links[link.index()].spec.mtu);
        hub.ways.met(link, self.address.node, from, hello.hops);
        let last_resort = hello.last_resort || hub.links[link.index()].spec.last_resort;
        let shared = |addr| self.paths.iter().any(|p| p.link != link && p.to == addr);
        let (now_shared, from_shared) =
            (self.paths.iter().any(|p| p.link == link && shared(p.to)), shared(from));
        match self.paths.iter_mut().position(|p| p.link == link) {
            None => {
                let mut path = Path::new(link, from, goal, &hub.config);
                let spec = &hub.links[link.index()].spec;
                (path.hops, path.last_resort) = (hello.hops, last_resort);
                path.most = (spec.waiting * spec.mtu) as u64 / 4 * 3;
                path.sender.rtt.late(2 * hub.hello_ns);
                let at = self.paths.partition_point(|p| p.link < link);
                self.paths.insert(at, path);
                hub.events.push_back(Incoming::Alive { peer: self.id, link });
            }
            Some(at) => {
                let path = &mut self.paths[at];
                // Two links of the peer may lie on one segment and both answer: each of our links
                // is to have its own. Where nothing is amiss, nothing is changed.
                let nearer = hello.hops < path.hops;
                if path.suspect || !path.up || nearer || (now_shared && !from_shared) {
                    (path.to, path.hops, path.last_resort) = (from, hello.hops, last_resort);
                }
                if !path.up {
                    path.set_mtu(goal.min(hub.config.base_mtu));
                    path.search.begin(goal, path.mtu);
                }
                if path.suspect || !path.up {
                    path.up = true;
                    path.suspect = false;
                    path.retry_at = None;
                    path.sender.timeouts = 0;
                    hub.events.push_back(Incoming::Alive { peer: self.id, link });
                }
            }
        }
        rail::assign(&mut self.paths, &hub.links);
    }

    /// A way to the peer's node is known that begins with the wire of `link`.
    pub fn on_way(&mut self, hub: &mut Hub, now: Instant, link: LinkId) {
        if !matches!(self.state, State::Greeting | State::Open) {
            return;
        }
        let medium = hub.links[link.index()].spec.medium;
        for (at, link) in hub.links.iter().enumerate().filter(|(_, l)| l.spec.medium == medium) {
            let id = LinkId(at as u8);
            let sound = self.paths.iter().any(|p| p.link == id && p.up && !p.suspect);
            let way = hub.ways.to(id, self.address.node, self.address.udp_port);
            if let Some(to) = way.filter(|_| link.up && !sound)
                && self.greeting.waiting.len() < WAITING_MAX
            {
                self.greeting.waiting.push_back(Due { link: id, to, reply: false });
                self.greeting.hellos += 1;
            }
        }
        if self.state == State::Greeting {
            // The hello may overtake what makes the way.
            self.greeting.pause = first_pause(hub);
            self.greeting.next_at = Some(now.plus(self.greeting.pause));
        }
        self.wake(hub);
        self.schedule(hub);
    }

    /// Our link went up or down.
    pub fn on_link(&mut self, hub: &mut Hub, now: Instant, link: LinkId, up: bool) {
        if let Some(at) = self.paths.iter().position(|p| p.link == link) {
            let path = &mut self.paths[at];
            if up {
                // It is used again when the peer answers a hello; frames it sends come in already.
                path.ping = path.up;
            } else if path.up {
                self.hearing.doubt(link);
                path.up = false;
                path.extra = 0;
                path.ping = false;
                path.retry_at = None;
                path.pause_until = None;
                path.sender.give_up_all(&mut hub.lost);
                self.settle(hub, now, at);
            }
            rail::assign(&mut self.paths, &hub.links);
            self.wake(hub);
        }
        if up && matches!(self.state, State::Greeting | State::Open) {
            self.greet(hub, now);
        }
        self.schedule(hub);
    }

    /// The next hello frame to be sent.
    pub fn next_hello(&mut self, hub: &Hub) -> Option<Due> {
        while let Some(due) = self.greeting.waiting.pop_front() {
            if hub.links.get(due.link.index()).is_some_and(|l| l.up) {
                return Some(due);
            }
        }
        None
    }
}

/// The pause after the first hello: longer with many peers, and where others were seen to take
/// their time, for they wait for their processors, and each hello more has to wait as well.
fn first_pause(hub: &Hub) -> u64 {
    let Config { hello_first_ns, hello_max_ns, hello_spread_ns, .. } = hub.config;
    let late = (2 * hub.hello_ns).min(hello_max_ns);
    late.max(hello_first_ns).max(hub.met as u64 * hello_spread_ns).min(4 * hello_max_ns)
}

/// A peer cannot make our frames smaller than this.
const MTU_LEAST: usize = 512;

/// Where on `link` hellos to the process at `address` go in this round: the `way` to its node where
/// one is known, which spares all others of the segment; else, and in every other round, to
/// everyone where the link can; and in every other round (or always) to the addresses it is known
/// by.
fn destinations(
    link: &rail::Link,
    address: &Address,
    way: Option<LinkAddr>,
    round: u32,
) -> Vec<LinkAddr> {
    if let Some(way) = way.filter(|_| !round.is_multiple_of(2)) {
        return vec![way];
    }
    let mut all = Vec::new();
    let mut known = Vec::new();
    if let LinkAddr::Udp(own) = link.spec.addr
        && address.udp_port != 0
    {
        let four = address.ipv4.into_iter().filter(|a| !a.is_unspecified()).map(IpAddr::V4);
        let six = Some(address.ipv6).filter(|a| !a.is_unspecified()).map(IpAddr::V6);
        known.extend(
            four.chain(six)
                .filter(|ip| ip.is_ipv4() == own.is_ipv4())
                .map(|ip| LinkAddr::Udp(SocketAddr::new(ip, address.udp_port))),
        );
    }
    if let Some(everyone) = link.spec.everyone {
        all.push(everyone);
    }
    if all.is_empty() || round.is_multiple_of(2) {
        all.extend(known);
    }
    all
}
