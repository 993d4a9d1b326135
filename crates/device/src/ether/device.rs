//! The calls of the device.

use std::os::fd::RawFd;
use std::sync::Arc;

use weft_proto::Instant;
use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_wire::{Address, Envelope, OpId, PeerId, Ticket};

use super::Ether;
use super::calls::CALLED_MAX;
use super::incoming::EARLY_NS;
use crate::attention::Attention;
use crate::device::{Caps, Counters, Device, Event, Pulse, Row, SendError, Wake, Way};
use crate::error::Error;

/// While a large message is under way, its next frame or the acknowledgement is expected for so
/// long after the last, ns.
const LIVELY_NS: u64 = 100_000;

impl Device for Ether {
    fn name(&self) -> &'static str {
        "ether"
    }

    fn caps(&self, _peer: PeerId) -> Caps {
        let eager_max = self.engine.config().eager_max;
        Caps { eager_max, announce_from: eager_max + 1, free_poll: self.links.free_poll() }
    }

    #[inline]
    fn eager_limit(&self, _peer: PeerId) -> usize {
        self.engine.config().eager_max
    }

    fn reaches(&self, address: &Address) -> bool {
        // A process of the same node as well, over a cable that leads back; only not itself.
        (address.node, address.nonce) != (self.me.node, self.me.nonce)
    }

    fn leave_to(&mut self, _attention: &Arc<Attention>) {
        self.is_attended = true;
    }

    fn welcome(&mut self) -> Result<(), Error> {
        let generation = self.links.generation;
        self.links.open(&mut self.engine)?;
        self.settle_links(generation, now_ns());
        Ok(())
    }

    fn stranger(&mut self) -> Option<Address> {
        self.engine.stranger()
    }

    fn associate(&mut self, peer: PeerId, address: &Address) -> Result<(), Error> {
        self.welcome()?;
        if self.peers.len() <= peer.index() {
            self.peers.resize(peer.index() + 1, None);
        }
        self.peers[peer.index()] = Some(*address);
        self.engine.add_peer(peer, address);
        if self.peers.len() <= CALLED_MAX {
            self.calls.add(peer, now_ns());
        }
        Ok(())
    }

    fn call(&mut self, peer: PeerId) {
        // Fewer are all called anyway.
        if self.peers.len() > CALLED_MAX && self.engine.is_unmet(peer) {
            let now = self.read_clock();
            self.engine.connect(now, peer);
        }
    }

    #[inline]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<(), SendError> {
        match self.engine.reserve(peer, len) {
            Ok(_) => {
                self.reserved = peer;
                Ok(())
            }
            Err(error) => Err(self.refusal(peer, len, error)),
        }
    }

    #[inline]
    fn space(&mut self) -> &mut [u8] {
        self.engine.space()
    }

    #[inline]
    fn commit(&mut self, envelope: &Envelope) {
        let (peer, len) = (self.reserved, self.engine.space().len());
        if self.goes_alone(peer, len) {
            let time = self.read_clock_rarely();
            if let Some(link) = self.engine.commit_lone(time, envelope, &mut self.burst) {
                return self.send_now(peer, link, len);
            }
        }
        let now = self.read_clock();
        self.engine.commit(now, envelope);
        self.after_send(now, peer, len);
    }

    fn commit_awaited(&mut self, envelope: &Envelope, op: OpId) {
        let id = self.transfers.insert(op, Buf::empty());
        self.engine.await_arrival(id);
        self.commit(envelope);
    }

    #[inline]
    fn send(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> Result<(), SendError> {
        if self.goes_alone(peer, payload.len()) {
            let time = self.read_clock_rarely();
            let lone = self.engine.send_lone(time, peer, envelope, payload, &mut self.burst);
            if let Some(link) = lone {
                self.send_now(peer, link, payload.len());
                return Ok(());
            }
        }
        let now = self.read_clock();
        match self.engine.send(now, peer, envelope, payload) {
            Ok(()) => {
                self.after_send(now, peer, payload.len());
                Ok(())
            }
            Err(error) => Err(self.refusal(peer, payload.len(), error)),
        }
    }

    fn announce(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<(), SendError> {
        let (now, _) = self.prepare(peer, envelope, payload, op)?;
        self.after_send(now, peer, 0);
        Ok(())
    }

    fn announce_buffered(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<bool, SendError> {
        let (now, id) = self.prepare(peer, envelope, payload, op)?;
        let buffered = self.engine.buffer(peer, id);
        self.after_send(now, peer, 0);
        if buffered {
            // It has been sent from where it lies: the copy is made while it is on its way.
            self.transfers.buffer(id);
        }
        Ok(buffered)
    }

    fn pull(&mut self, peer: PeerId, ticket: Ticket, into: Buf, op: OpId) {
        let (now, len) = (self.read_clock(), into.len() as u64);
        let id = self.transfers.insert(op, into);
        self.engine.pull(now, peer, ticket, len, id);
        self.transmit(now);
    }

    fn withdraw(&mut self, peer: PeerId, op: OpId) -> bool {
        let Some(id) = self.transfers.find(op) else { return false };
        let now = self.read_clock();
        let withdrawn = self.engine.withdraw(now, peer, id);
        if withdrawn {
            self.transfers.remove(id);
        }
        withdrawn
    }

    fn expel(&mut self, peer: PeerId, why: &'static str) {
        self.engine.expel(peer, why);
    }

    fn hold(&mut self, peer: PeerId, hold: bool) {
        let now = self.read_clock();
        self.engine.hold(now, peer, hold);
    }

    fn datagram_max(&self) -> usize {
        self.engine.datagram_max()
    }

    #[inline]
    fn datagram(&mut self, peer: PeerId, bytes: &[u8]) -> bool {
        self.send_datagram(peer, None, bytes)
    }

    fn hear_groups(&mut self, tags: &[u16]) {
        self.engine.hear_groups(tags);
        self.links.hear_groups(tags);
    }

    fn multicast(&mut self, group: u16, peers: &[PeerId], bytes: &[u8]) {
        let mut write = |_, into: &mut [u8]| into.copy_from_slice(bytes);
        self.send_to_all(group, peers, &mut Row::one(bytes.len(), &mut write));
    }

    fn datagram_room(&self, peers: &[PeerId]) -> usize {
        self.engine.datagram_room(peers)
    }

    fn multicast_room(&self, peers: &[PeerId], of: usize) -> usize {
        self.engine.multicast_room(peers, of)
    }

    fn multicast_row(&mut self, group: u16, peers: &[PeerId], row: &mut Row<'_>) {
        self.send_to_all(group, peers, row);
    }

    fn wires(&self, peer: PeerId) -> usize {
        self.engine.wires(peer)
    }

    fn ways(&self, peer: PeerId) -> Vec<Way> {
        let paths = self.engine.paths(peer).into_iter();
        paths.map(|state| Way { link: self.links.name(state.link).to_string(), state }).collect()
    }

    fn datagram_over(&mut self, peer: PeerId, wire: u8, bytes: &[u8]) -> bool {
        self.send_datagram(peer, Some(wire), bytes)
    }

    fn address(&self, peer: PeerId) -> Option<&Address> {
        self.peers.get(peer.index())?.as_ref()
    }

    fn is_timed(&self) -> bool {
        !self.links.is_empty()
    }

    #[inline]
    fn poll(&mut self, now_ns: u64) -> bool {
        if self.links.is_empty() {
            return false;
        }
        let found = self.poll_links(now_ns);
        self.office.polled(self.now.0, found, &self.engine);
        found
    }

    fn event(&self) -> Event<'_> {
        self.current_event()
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        self.engine.message(self.links.frame()).2
    }

    fn flush(&mut self, now_ns: u64) {
        self.now = self.now.max(Instant(now_ns));
        self.transmit(self.now);
    }

    #[inline]
    fn has_more(&self) -> bool {
        self.engine.has_more(self.links.frame())
    }

    fn has_to_send(&self) -> bool {
        self.engine.has_to_send()
    }

    fn is_lively(&self, now_ns: u64) -> bool {
        self.engine.has_bulk() && now_ns < self.links.heard_ns() + LIVELY_NS
    }

    fn may_hold(&self) -> bool {
        self.company.is_trusted()
    }

    fn busy(&self) -> bool {
        self.engine.busy()
    }

    fn close(&mut self, _now_ns: u64) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            let all = self.counters();
            let what = all.iter().filter(|(_, count)| *count > 0);
            let what: Vec<_> = what.map(|(name, count)| format!("{name}={count}")).collect();
            tracing::debug!("counters: {}", what.join(" "));
        }
        let now = self.read_clock();
        self.engine.close(now);
        self.transmit(now);
    }

    fn owes(&self, now_ns: u64) -> bool {
        self.engine.owes(self.now.max(Instant(now_ns)))
    }

    fn silence_ns(&self) -> u64 {
        self.engine.config().dead_after_ns
    }

    fn deadline_ns(&self) -> Option<u64> {
        let engine = self.engine.deadline().map(|deadline| deadline.0);
        let early = self.early_since_ns.map(|since| since + EARLY_NS);
        [engine, self.links.deadline_ns(), self.calls.deadline_ns(), early]
            .into_iter()
            .flatten()
            .min()
    }

    fn arm(&mut self, _wake: Wake) -> bool {
        self.office.falls_asleep();
        // Descriptors are readable as long as frames wait, so nothing is missed.
        self.links.poll_all();
        let now = self.read_clock();
        !self.transmit(now)
    }

    fn pulse(&self) -> Option<Arc<dyn Pulse>> {
        Some(self.office.pulse())
    }

    fn watch(&self, each: &mut dyn FnMut(RawFd)) {
        self.links.watch(each);
    }

    fn watch_generation(&self) -> u64 {
        self.links.generation
    }

    fn counters(&self) -> Counters {
        let mut counters = vec![("ether.warnings".to_string(), self.office.warnings())];
        let mut add = |name: String, count: u64| counters.push((name, count));
        self.engine.counters().each(|name, count| add(format!("ether.{name}"), count));
        self.links.counters(&mut add);
        self.office.counters(&mut add);
        counters
    }
}
