//! What is known of a node by what one of its processes has shown: where it is reached over a link,
//! and what frames pass there. Others of the same node need not find it out for themselves: with
//! many processes on a node that would be most of what is sent at the start.

use std::collections::{HashMap, HashSet};

use weft_wire::{LinkAddr, LinkId};

use crate::time::Instant;

/// What is known of one node over one link.
#[derive(Debug)]
struct Way {
    /// Where the process that was met last is reached.
    to: LinkAddr,
    /// Nodes between.
    hops: u8,
    /// The largest frame that was seen to pass.
    passes: usize,
    /// A frame size is being tried out, until then.
    trying_until: Instant,
}

/// By link and node.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    all: HashMap<(LinkId, u64), Way>,
    /// By link and Ethernet address: how many nodes are between. A node may have several that one
    /// link leads to, each by another way.
    hops: HashMap<(LinkId, LinkAddr), u8>,
    /// Which these are, from here on, where that is known.
    between: HashMap<(LinkId, LinkAddr), Vec<u64>>,
    /// Where the user was told that full-size frames do not pass.
    told: HashSet<(LinkId, u64)>,
}

/// Whether both are the same interface.
fn same(a: &LinkAddr, b: &LinkAddr) -> bool {
    match (a, b) {
        (LinkAddr::Udp(a), LinkAddr::Udp(b)) => a.ip() == b.ip(),
        _ => a == b,
    }
}

impl Ways {
    /// A process of `node` is reached over `link` at `to`, through `hops` nodes between.
    pub fn met(&mut self, link: LinkId, node: u64, to: LinkAddr, hops: u8) {
        if matches!(to, LinkAddr::Mac(_)) {
            self.hops.insert((link, to), hops);
        }
        let fresh = || Way { to, hops, passes: 0, trying_until: Instant(0) };
        let way = self.all.entry((link, node)).or_insert_with(fresh);
        if !same(&way.to, &to) || way.hops != hops {
            *way = fresh();
        }
    }

    /// How many nodes are between this one and `node` over `link`, if it has been met there.
    pub fn hops(&self, link: LinkId, node: u64) -> Option<u8> {
        self.all.get(&(link, node)).map(|way| way.hops)
    }

    /// How many nodes are between, as far as is known, where a process is reached at `to`.
    pub fn hops_to(&self, link: LinkId, to: &LinkAddr) -> u8 {
        self.hops.get(&(link, *to)).copied().unwrap_or(0)
    }

    /// The way to `to` over `link` leads through these.
    pub fn leads(&mut self, link: LinkId, to: LinkAddr, between: Vec<u64>) {
        self.between.insert((link, to), between);
    }

    /// The nodes between this one and `to`, if they are so many and it is known which they are.
    pub fn between(&self, link: LinkId, to: &LinkAddr, hops: u8) -> Option<&[u64]> {
        let between = self.between.get(&(link, *to))?;
        (between.len() == usize::from(hops)).then_some(between)
    }

    /// Where a process of `node` with this UDP port is likely to be reached over `link`.
    pub fn to(&self, link: LinkId, node: u64, udp_port: u16) -> Option<LinkAddr> {
        match self.all.get(&(link, node))?.to {
            LinkAddr::Mac(mac) => Some(LinkAddr::Mac(mac)),
            LinkAddr::Udp(mut addr) if udp_port != 0 => {
                addr.set_port(udp_port);
                Some(LinkAddr::Udp(addr))
            }
            // Every process has its own.
            LinkAddr::Udp(_) | LinkAddr::Port(_) => None,
        }
    }

    /// The largest frame that was seen to pass to `node` at `to`; zero: not known.
    pub fn passes(&self, link: LinkId, node: u64, to: &LinkAddr) -> usize {
        let way = self.all.get(&(link, node)).filter(|way| same(&way.to, to));
        way.map_or(0, |way| way.passes)
    }

    /// A frame of `size` passed to `node` at `to`.
    pub fn passed(&mut self, link: LinkId, node: u64, to: &LinkAddr, size: usize) {
        if let Some(way) = self.all.get_mut(&(link, node)).filter(|way| same(&way.to, to)) {
            way.passes = way.passes.max(size);
        }
    }

    /// Large frames no longer pass to `node`.
    pub fn blocked(&mut self, link: LinkId, node: u64) {
        if let Some(way) = self.all.get_mut(&(link, node)) {
            way.passes = 0;
        }
    }

    /// A frame size is to be tried out now, which takes up to `ns`; when to ask again, if another
    /// is doing so.
    pub fn try_out(&mut self, link: LinkId, node: u64, now: Instant, ns: u64) -> Option<Instant> {
        let way = self.all.get_mut(&(link, node))?;
        if way.trying_until > now {
            return Some(way.trying_until);
        }
        way.trying_until = now.plus(ns);
        None
    }

    /// A try has ended, in whatever way.
    pub fn tried(&mut self, link: LinkId, node: u64) {
        if let Some(way) = self.all.get_mut(&(link, node)) {
            way.trying_until = Instant(0);
        }
    }

    /// Whether the user has not been told yet that full-size frames do not pass there.
    pub fn is_news(&mut self, link: LinkId, node: u64) -> bool {
        self.told.insert((link, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkId = LinkId(0);

    #[test]
    fn one_process_finds_out_for_all_of_its_node() {
        let mut ways = Ways::default();
        let mac = LinkAddr::Mac([2; 6]);
        assert_eq!(ways.to(LINK, 7, 0), None);
        ways.met(LINK, 7, mac, 0);
        assert_eq!((ways.to(LINK, 7, 0), ways.to(LinkId(1), 7, 0)), (Some(mac), None));
        assert_eq!(ways.try_out(LINK, 7, Instant(5), 10), None);
        assert_eq!(ways.try_out(LINK, 7, Instant(6), 10), Some(Instant(15)), "one at a time");
        assert_eq!(ways.try_out(LINK, 8, Instant(6), 10), None);
        ways.passed(LINK, 7, &mac, 9000);
        ways.met(LINK, 7, mac, 0);
        assert_eq!(ways.passes(LINK, 7, &mac), 9000);
        ways.tried(LINK, 7);
        assert_eq!(ways.try_out(LINK, 7, Instant(7), 10), None);
        // Another interface of the same node says nothing.
        let other = LinkAddr::Mac([3; 6]);
        assert_eq!(ways.passes(LINK, 7, &other), 0);
        ways.blocked(LINK, 7);
        assert_eq!(ways.passes(LINK, 7, &mac), 0);
        assert!(ways.is_news(LINK, 7) && !ways.is_news(LINK, 7));
    }

    #[test]
    fn each_address_of_a_node_may_be_at_the_end_of_another_way() {
        let mut ways = Ways::default();
        let (near, far) = (LinkAddr::Mac([2; 6]), LinkAddr::Mac([3; 6]));
        ways.met(LINK, 7, far, 2);
        ways.met(LINK, 7, near, 1);
        assert_eq!((ways.hops_to(LINK, &near), ways.hops_to(LINK, &far)), (1, 2));
        assert_eq!((ways.hops_to(LinkId(1), &far), ways.hops(LINK, 7)), (0, Some(1)));
        ways.leads(LINK, far, vec![3, 4]);
        assert_eq!(ways.between(LINK, &far, 2), Some(&[3, 4][..]));
        assert_eq!(ways.between(LINK, &far, 1), None, "another way than the one that is known");
    }

    #[test]
    fn udp_ports_are_each_processes_own() {
        let mut ways = Ways::default();
        let udp = |text: &str| LinkAddr::Udp(text.parse().unwrap());
        ways.met(LINK, 7, udp("[fe80::1%3]:500"), 0);
        assert_eq!(ways.to(LINK, 7, 600), Some(udp("[fe80::1%3]:600")));
        assert_eq!(ways.to(LINK, 7, 0), None);
        ways.passed(LINK, 7, &udp("[fe80::1%3]:500"), 1400);
        assert_eq!(ways.passes(LINK, 7, &udp("[fe80::1%3]:600")), 1400);
        ways.met(LINK, 8, LinkAddr::Port(3), 0);
        assert_eq!(ways.to(LINK, 8, 600), None);
    }
}
