//! The engine: the owner's calls, the frames that come and go, the timers.

mod datagram;
mod hub;
mod input;
mod output;
mod row;
mod run;
mod user;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use weft_wire::{Address, Chunk, FRAME_MAX, JobKey, LinkId, PeerId};

pub(crate) use hub::Hub;

use crate::config::Config;
use crate::counters::Counters;
use crate::event::LinkSpec;
use crate::peer::{Cursor, Peer};
use crate::rail::Link;
use crate::ranges::RangeSet;
use crate::route::Relaying;
use crate::time::Instant;

/// The protocol of one process, over any number of links, to any number of peers. It does no I/O,
/// knows no time but what it is told, and never waits.
///
/// The owner calls, in any order and as often as it likes:
/// - [`Engine::send`], [`Engine::reserve`] and [`Engine::commit`], [`Engine::announce`],
///   [`Engine::pull`] for its user;
/// - [`Engine::receive`] with each frame that came, then [`Engine::next`] until it gives `None`;
/// - [`Engine::transmit`] until it gives `None`, handing each burst to the link it names;
/// - [`Engine::timeout`] when [`Engine::deadline`] has come, then [`Engine::next`] with no frame.
#[derive(Debug)]
pub struct Engine {
    hub: Hub,
    peers: Vec<Option<Box<Peer>>>,
    /// Who has a port of a node now, as far as the owner has said.
    names: HashMap<(u64, u16), PeerId>,
    /// Who has a node and a nonce: also the former processes of a port.
    nonces: HashMap<(u64, u64), PeerId>,
    /// The frame being read.
    current: Option<Cursor>,
    /// The datagram in the frame that was received last: it is no part of what is read in order.
    datagram: Option<(PeerId, Range<usize>)>,
    /// The payload of the event that was given last, if it was held.
    held: Option<Vec<u8>>,
    /// Which parts of it have come, if it is what was kept of a payload.
    parts: RangeSet,
    /// When closing ends, done or not.
    close_at: Option<Instant>,
    /// When to look next whether somebody is to be asked what it hears.
    probe_at: Instant,
    /// Processes of the job that have said hello and are no peers yet.
    strangers: VecDeque<Address>,
}

/// Least MTU of a link, bytes.
const MTU_LEAST: usize = 512;
/// Strangers that are remembered. They say hello again, so forgetting one only delays it.
const STRANGERS_MAX: usize = 64;

impl Engine {
    /// Links that an engine may have.
    pub const LINKS_MAX: usize = crate::peer::PATHS_MAX;

    /// An engine for the process at `me`, in the job with `key`. `seed` spreads in time what
    /// processes would otherwise do in step; a run with the same seed and inputs is the same run.
    pub fn new(config: Config, me: Address, key: JobKey, seed: u64) -> Engine {
        Engine {
            hub: Hub::new(config, me, key, seed),
            peers: Vec::new(),
            names: HashMap::new(),
            nonces: HashMap::new(),
            current: None,
            datagram: None,
            held: None,
            parts: RangeSet::new(),
            close_at: None,
            probe_at: Instant::default(),
            strangers: VecDeque::new(),
        }
    }

    /// Adds a link, which is up.
    ///
    /// # Panics
    /// If there are too many links, or its MTU is below 512 bytes or does not fit its burst.
    pub fn add_link(&mut self, spec: LinkSpec) -> LinkId {
        assert!(self.hub.links.len() < Self::LINKS_MAX, "at most {} links", Self::LINKS_MAX);
        let link = self.link(spec);
        self.hub.links.push(link);
        LinkId((self.hub.links.len() - 1) as u8)
    }

    /// Has another link take the place of one whose interface was gone and has come back, perhaps
    /// with another address or frame size. It is down until [`Engine::set_link_up`].
    ///
    /// # Panics
    /// As [`Engine::add_link`], or if there is no such link.
    pub fn replace_link(&mut self, now: Instant, id: LinkId, spec: LinkSpec) {
        self.set_link_up(now, id, false);
        let mut link = self.link(spec);
        link.up = false;
        self.hub.links[id.index()] = link;
    }

    /// The cable of a link was found to carry so many bytes per second now.
    pub fn set_wire_speed(&mut self, id: LinkId, bytes_per_s: u64) {
        let Some(link) = self.hub.links.get_mut(id.index()) else { return };
        if link.spec.wire_bytes_per_s != bytes_per_s {
            link.set_wire_speed(bytes_per_s);
            self.peers.iter_mut().flatten().for_each(|peer| peer.renegotiated(&self.hub, id));
        }
    }

    fn link(&mut self, spec: LinkSpec) -> Link {
        assert!((MTU_LEAST..=FRAME_MAX).contains(&spec.mtu), "a link's MTU of {}", spec.mtu);
        assert!(spec.mtu + spec.headroom <= spec.max_burst && spec.max_frames > 0);
        self.hub.least_mtu = self.hub.least_mtu.min(spec.mtu);
        Link::new(spec)
    }

    /// Says what this process does for others: one process of each node is to answer
    /// who asks for ways.
    pub fn set_relaying(&mut self, relaying: Relaying) {
        self.hub.routes.relaying = relaying;
    }

    /// Says that a link has gone down, or works again.
    pub fn set_link_up(&mut self, now: Instant, link: LinkId, up: bool) {
        let Some(entry) = self.hub.links.get_mut(link.index()) else { return };
        if std::mem::replace(&mut entry.up, up) != up {
            for peer in self.peers.iter_mut().flatten() {
                peer.on_link(&mut self.hub, now, link, up);
            }
        }
    }

    /// Makes `peer` the name of the process at `address`. Nothing is sent until it is used.
    ///
    /// # Panics
    /// If the number is 2^24 - 1 or more: it could not be named on the wire.
    pub fn add_peer(&mut self, peer: PeerId, address: &Address) {
        assert!(peer.0 < weft_wire::INDEX_MAX, "peer numbers end at {}", weft_wire::INDEX_MAX);
        if self.peers.len() <= peer.index() {
            self.peers.resize_with(peer.index() + 1, || None);
        }
        if let Some(former) = &mut self.peers[peer.index()] {
            former.end(&mut self.hub, crate::event::Cause::Restarted);
        }
        self.peers[peer.index()] = Some(Box::new(Peer::new(peer, address, &self.hub)));
        self.names.insert((address.node, address.port), peer);
        self.nonces.insert((address.node, address.nonce), peer);
    }

    /// A process that has the job's key and has said hello, but is no peer: an owner that wants to
    /// hear of it adds it. It goes on saying hello meanwhile.
    pub fn stranger(&mut self) -> Option<Address> {
        self.strangers.pop_front()
    }

    fn remember_stranger(&mut self, address: Address) {
        if self.strangers.len() < STRANGERS_MAX && !self.strangers.contains(&address) {
            self.strangers.push_back(address);
        }
    }

    /// What has been done so far.
    #[inline]
    pub fn counters(&self) -> Counters {
        self.hub.counters
    }

    /// What the engine is tuned with.
    pub fn config(&self) -> &Config {
        &self.hub.config
    }

    /// Whether large messages are under way, in either direction.
    #[inline]
    pub fn has_bulk(&self) -> bool {
        self.hub.pulls.len() + self.hub.transfers.len() > 0
    }

    /// Whether something goes out at the next [`Engine::transmit`].
    #[inline]
    pub fn has_to_send(&self) -> bool {
        !self.hub.ready.is_empty() || !self.hub.routes.waiting.is_empty()
    }

    /// Whether the frame that was received last has not been read to its end.
    #[inline]
    pub fn has_frame(&self) -> bool {
        self.current.is_some()
    }

    /// Whether what comes next in `frame`, the one received last, is a piece of a message that was
    /// announced and has not been pulled yet: taken now, it would be dropped.
    #[inline]
    pub fn is_early(&self, frame: &[u8]) -> bool {
        let Some(cursor) = self.current.filter(|_| self.hub.events.is_empty()) else {
            return false;
        };
        let Some(Some(peer)) = self.peers.get(cursor.peer.index()) else { return false };
        match Chunk::decode(frame, cursor.at, cursor.end) {
            Ok((Chunk::Push { ticket, .. }, _)) => peer.pushes.awaits(ticket),
            _ => false,
        }
    }

    /// Whether bulk is expected soon, so that links whose poll costs a system call are worth
    /// polling.
    #[inline]
    pub fn expects_bulk(&self) -> bool {
        self.hub.pulls.len() > 0
    }

    /// Whether nothing is to be done as long as no frame comes: no event waits, nothing is to be
    /// sent, no timer is due, and no bulk is expected.
    #[inline]
    pub fn is_idle(&self, now: Instant) -> bool {
        let hub = &self.hub;
        hub.events.is_empty()
            && hub.drain.is_empty()
            && hub.ready.is_empty()
            && hub.routes.waiting.is_empty()
            && hub.heard.is_empty()
            && self.current.is_none()
            && self.datagram.is_none()
            && self.held.is_none()
            && !self.expects_bulk()
            && self.deadline().is_none_or(|at| now < at)
    }
}
