//! What is done besides carrying messages: signs of life are kept ready, people are warned, and the
//! node, which other processes share, has its offices: who hands frames of others on, and who sets
//! when network cards interrupt.

use std::sync::Arc;

use weft_proto::{Engine, Warning};
use weft_wire::{Address, LinkId, PeerId};

use super::links::Links;
use super::relay::Relay;
use super::signs::Signs;
use super::tuning::Tuning;
use super::whereabouts::Twins;
use crate::device::Pulse;
use crate::error::Error;

/// See the module's page.
pub(super) struct Office {
    warnings: u64,
    signs: Arc<Signs>,
    relay: Relay,
    tuning: Tuning,
    twins: Twins,
    reduced: Told,
}

/// The interfaces of which something has been said that is the interface's and shows with every
/// peer and every link: once is enough.
#[derive(Default)]
struct Told(Vec<String>);

impl Told {
    /// Whether nothing has been said of it yet.
    fn is_first(&mut self, interface: &str) -> bool {
        let known = self.0.iter().any(|told| told == interface);
        if !known {
            self.0.push(interface.to_owned());
        }
        !known
    }
}

impl Office {
    /// Does nothing for the node.
    pub(super) fn new(engine: &Engine) -> Office {
        Office {
            warnings: 0,
            signs: Arc::new(Signs::new(engine.config().dead_after_ns)),
            relay: Relay::none(),
            tuning: Tuning::none(),
            twins: Twins::default(),
            reduced: Told::default(),
        }
    }

    /// As the user wants it.
    ///
    /// # Errors
    /// When `WEFT_RELAY` or `WEFT_TUNE` cannot be read.
    pub(super) fn from_env(engine: &Engine, job: u32, ethertype: u16) -> Result<Office, Error> {
        let relay = Relay::from_env(job, ethertype)?;
        let tuning = Tuning::from_env()?;
        Ok(Office { relay, tuning, ..Office::new(engine) })
    }

    /// Signs of life go out by these links.
    pub(super) fn speak_by(&self, links: &Links) {
        self.signs.set_voices(links.voices());
    }

    /// Does what depends on which links there are; `anew`: they are others than before.
    pub(super) fn settle(&mut self, links: &Links, engine: &mut Engine, anew: bool, now_ns: u64) {
        if anew {
            self.speak_by(links);
            self.tuning.begin(links.interface_names());
        }
        self.relay.settle(links, engine, now_ns);
    }

    /// What leads to a peer has changed.
    pub(super) fn renew(&self, engine: &Engine, peer: PeerId) {
        self.signs.renew(engine, peer);
    }

    /// What the tender sends while the program keeps the device to itself.
    pub(super) fn pulse(&self) -> Arc<dyn Pulse> {
        self.signs.clone()
    }

    /// A peer, one of `peers`, is reached over a link: is another node reached at the same address
    /// there?
    #[cold]
    pub(super) fn look_for_twin(
        &mut self,
        engine: &Engine,
        links: &Links,
        (me, peers): (&Address, &[Option<Address>]),
        peer: PeerId,
        link: LinkId,
    ) {
        let Some(address) = peers.get(peer.index()).copied().flatten() else { return };
        let Some(at) = engine.reached_at(peer, link) else { return };
        if let Some(own) = links.address(link) {
            self.twins.own(link, own, me.node);
        }
        let Some(other) = self.twins.meet(link, at, address.node) else { return };
        let all = peers.iter().flatten().chain([me]);
        let other = all.into_iter().find(|a| a.node == other).map(|a| a.host());
        self.warnings += 1;
        tracing::warn!(
            link = links.name(link),
            address = %at,
            "{} and {} have the same Ethernet address, so that frames for one go astray: give one \
             of them another, as with `ip link set NAME address 02:00:00:00:00:07`",
            address.host(),
            other.unwrap_or_default(),
        );
    }

    /// The engine has noticed something odd of a peer of this `name`.
    #[cold]
    pub(super) fn warn(&mut self, links: &Links, peer: PeerId, name: &str, what: &Warning) {
        self.warnings += 1;
        match what {
            Warning::Undelivered { .. } => tracing::warn!(%peer, name, "{what}"),
            // Happens to every peer that is not given a processor for some milliseconds.
            Warning::PathSuspect { .. } => tracing::debug!(%peer, "{what}"),
            Warning::MtuReduced { link, .. } => {
                let (link, interface) = (links.name(*link), links.interface(*link));
                if self.reduced.is_first(interface) {
                    tracing::warn!(link, name, "{what}");
                } else {
                    tracing::debug!(link, name, "{what}");
                }
            }
            Warning::Lossy { link } => {
                tracing::warn!(link = links.name(*link), name, "{what}");
            }
        }
    }

    /// From now on frames of others go from one link to the other: those of `from` to `to`, and
    /// back.
    pub(super) fn join(
        &mut self,
        links: &Links,
        (by, out): (LinkId, LinkId),
        from: [u8; 6],
        to: [u8; 6],
    ) {
        self.relay.join(links.interface(by), links.interface(out), from, to);
    }

    /// Arrivals were looked at, and something was found, or not.
    #[inline]
    pub(super) fn polled(&mut self, now_ns: u64, found: bool, engine: &Engine) {
        if self.tuning.is_on() && self.tuning.polled(now_ns, found, &engine.counters()) {
            self.tuning.decide(now_ns);
        }
    }

    /// Who calls this goes to sleep.
    pub(super) fn falls_asleep(&mut self) {
        if self.tuning.is_on() {
            self.tuning.falls_asleep();
        }
    }

    /// How often people were warned.
    pub(super) fn warnings(&self) -> u64 {
        self.warnings
    }

    /// What was handed on, by name.
    pub(super) fn counters(&self, each: &mut dyn FnMut(String, u64)) {
        let relayed = self.relay.counts();
        each("ether.relayed_frames".into(), relayed.frames);
        each("ether.relayed_bytes".into(), relayed.bytes);
        each("ether.relay_dropped_frames".into(), self.relay.dropped());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_interface_it_is_said_once() {
        let mut told = Told::default();
        let said = ["eth0", "eth1", "eth0", "eth1"].map(|interface| told.is_first(interface));
        assert_eq!(said, [true, true, false, false]);
    }
}
