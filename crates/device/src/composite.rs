//! The composite device: several devices behind one table, "peer to device" (the idea is PM2's).
//! Sending looks the device up; receiving polls them all.

use std::os::fd::RawFd;
use std::sync::Arc;

use weft_ring::Board;
use weft_sys::buf::Buf;
use weft_sys::mem::{Mapping, ReadOnly};
use weft_wire::{Address, Envelope, OpId, PeerId, Ticket};

use crate::attention::Attention;
use crate::device::{
    Caps, Counters, Device, Doorbell, Event, Found, Pulse, Row, SendError, Taker, Wake, Way,
};
use crate::error::Error;
use crate::pace::Pace;

/// The entry of the table for a peer that was never associated.
const NONE: u8 = u8::MAX;

/// In one of so many rounds another device than that of the last event is asked first.
const TURN_INTERVAL: u32 = 8;

/// After so many events in a row of a passive device the others have their turn: all that was
/// queued when the row began is out by then.
const PASSIVE_RUN: u32 = crate::loopback::QUEUE_MAX as u32;

/// Several devices as one. They are asked in the order in which they were given; the first that
/// reaches a peer carries its messages.
pub struct Composite {
    devices: Vec<Box<dyn Device>>,
    /// The devices that every poll asks.
    active: Vec<usize>,
    /// The one that is passive: it is left alone until it is called.
    own: Option<usize>,
    /// Whether it was called, so that a poll of it may find something.
    stirred: bool,
    /// Its events in a row.
    own_run: u32,
    /// The device of each peer, by its position.
    table: Vec<u8>,
    /// The device that the current event is of.
    at: usize,
    /// Which of the active ones had the last event.
    turn: usize,
    /// The device that the last reserve was made on.
    reserved: usize,
    rounds: u32,
    /// The receivers of a multicast on one device; kept to be used again.
    some: Vec<PeerId>,
}

impl Composite {
    /// A composite of `devices`, the best first.
    ///
    /// # Panics
    /// If there are none, over 200, or several passive ones.
    pub fn new(devices: Vec<Box<dyn Device>>) -> Composite {
        assert!((1..=200).contains(&devices.len()), "a composite has 1 to 200 devices");
        let (passive, active): (Vec<usize>, Vec<usize>) =
            (0..devices.len()).partition(|&at| devices[at].is_passive());
        assert!(passive.len() <= 1, "a process needs one way to itself");
        Composite {
            devices,
            active,
            own: passive.first().copied(),
            stirred: true,
            own_run: 0,
            table: Vec::new(),
            at: 0,
            turn: 0,
            reserved: 0,
            rounds: 0,
            some: Vec::new(),
        }
    }

    #[inline]
    fn of(&self, peer: PeerId) -> Option<usize> {
        let entry = *self.table.get(peer.index())?;
        (entry != NONE).then_some(usize::from(entry))
    }

    /// The device that all of these peers have.
    fn of_all(&self, peers: &[PeerId]) -> Option<usize> {
        let at = self.of(*peers.first()?)?;
        peers.iter().all(|&peer| self.of(peer) == Some(at)).then_some(at)
    }

    /// The least that the devices of these peers say of those that they have.
    fn least_room(
        &self,
        peers: &[PeerId],
        room: impl Fn(&dyn Device, &[PeerId]) -> usize,
    ) -> usize {
        if let Some(at) = self.of_all(peers) {
            return room(&*self.devices[at], peers);
        }
        let room = |at: usize| {
            let some: Vec<PeerId> =
                peers.iter().copied().filter(|&peer| self.of(peer) == Some(at)).collect();
            (!some.is_empty()).then(|| room(&*self.devices[at], &some))
        };
        (0..self.devices.len()).filter_map(room).min().unwrap_or_else(|| self.datagram_max())
    }

    /// Calls each device that some of these peers have, with those.
    fn each_with(&mut self, peers: &[PeerId], mut f: impl FnMut(&mut dyn Device, &[PeerId])) {
        let mut some = std::mem::take(&mut self.some);
        for at in 0..self.devices.len() {
            some.clear();
            some.extend(peers.iter().filter(|&&peer| self.of(peer) == Some(at)));
            if !some.is_empty() {
                self.stirred |= self.own == Some(at);
                f(&mut *self.devices[at], &some);
            }
        }
        self.some = some;
    }

    /// Asks the passive device. What this process has sent to itself comes before anything that a
    /// peer sends in answer to its next step: programs count on that where it is kept in memory, as
    /// in most libraries.
    #[inline(never)]
    fn poll_own(&mut self, poll: &mut impl FnMut(&mut dyn Device) -> Found) -> Found {
        let Some(own) = self.own else { return Found::Nothing };
        let found = poll(&mut *self.devices[own]);
        if found == Found::Nothing {
            (self.stirred, self.own_run) = (false, 0);
        } else {
            self.at = own;
            self.own_run += 1;
        }
        found
    }

    /// Polls as `poll` polls a device.
    ///
    /// Messages come in runs, so the device of the last event goes first; now and then its
    /// neighbour does, so that none starves another. A device that is passed over keeps its event,
    /// which the owner has done with, until its next turn: that does no harm.
    #[inline]
    fn poll_by(&mut self, mut poll: impl FnMut(&mut dyn Device) -> Found) -> Found {
        self.rounds = self.rounds.wrapping_add(1);
        let anyway = self.stirred || self.rounds.is_multiple_of(TURN_INTERVAL);
        let Some(&at) = self.active.get(self.turn).filter(|_| !anyway) else {
            return self.poll_all(poll);
        };
        self.own_run = 0;
        let found = poll(&mut *self.devices[at]);
        if found != Found::Nothing {
            self.at = at;
            return found;
        }
        self.poll_others(self.turn + 1, self.active.len() - 1, poll)
    }

    /// Asks so many active devices, from the one at `turn` on.
    #[inline]
    fn poll_others(
        &mut self,
        mut turn: usize,
        count: usize,
        mut poll: impl FnMut(&mut dyn Device) -> Found,
    ) -> Found {
        for _ in 0..count {
            turn = if turn < self.active.len() { turn } else { 0 };
            let at = self.active[turn];
            let found = poll(&mut *self.devices[at]);
            if found != Found::Nothing {
                (self.at, self.turn, self.own_run) = (at, turn, 0);
                return found;
            }
            turn += 1;
        }
        Found::Nothing
    }

    /// Asks all of several devices, another one first, and the passive one if it was called.
    #[inline(never)]
    fn poll_all(&mut self, mut poll: impl FnMut(&mut dyn Device) -> Found) -> Found {
        let own_first = self.stirred && self.own_run < PASSIVE_RUN;
        if own_first {
            let found = self.poll_own(&mut poll);
            if found != Found::Nothing {
                return found;
            }
        }
        let next = usize::from(self.rounds.is_multiple_of(TURN_INTERVAL));
        let found = self.poll_others(self.turn + next, self.active.len(), &mut poll);
        if found != Found::Nothing {
            return found;
        }
        self.own_run = 0;
        if self.stirred && !own_first { self.poll_own(&mut poll) } else { Found::Nothing }
    }

    #[inline]
    fn device(&mut self, peer: PeerId) -> Result<&mut dyn Device, SendError> {
        match self.of(peer) {
            Some(at) => {
                self.stirred |= self.own == Some(at);
                Ok(&mut *self.devices[at])
            }
            None => Err(SendError::Failed(Error::UnknownPeer { peer })),
        }
    }
}

impl Device for Composite {
    fn name(&self) -> &'static str {
        "composite"
    }

    fn caps(&self, peer: PeerId) -> Caps {
        let at = self.of(peer).unwrap_or(0);
        let free_poll = self.devices.iter().all(|d| d.caps(peer).free_poll);
        Caps { free_poll, ..self.devices[at].caps(peer) }
    }

    #[inline]
    fn eager_limit(&self, peer: PeerId) -> usize {
        self.devices[self.of(peer).unwrap_or(0)].eager_limit(peer)
    }

    fn copy_pace(&self, peer: PeerId) -> Option<Pace> {
        self.devices[self.of(peer)?].copy_pace(peer)
    }

    fn is_self(&self, peer: PeerId) -> bool {
        self.of(peer).is_some_and(|at| self.devices[at].is_self(peer))
    }

    fn reaches(&self, address: &Address) -> bool {
        self.devices.iter().any(|d| d.reaches(address))
    }

    fn associate(&mut self, peer: PeerId, address: &Address) -> Result<(), Error> {
        let mut refusals = Vec::new();
        for (at, device) in self.devices.iter_mut().enumerate() {
            if !device.reaches(address) {
                continue;
            }
            match device.associate(peer, address) {
                Ok(()) => {
                    if self.table.len() <= peer.index() {
                        self.table.resize(peer.index() + 1, NONE);
                    }
                    self.table[peer.index()] = at as u8;
                    return Ok(());
                }
                Err(error) => refusals.push(format!("{}: {error}", device.name())),
            }
        }
        if refusals.is_empty() {
            let names: Vec<&str> = self.devices.iter().map(|d| d.name()).collect();
            refusals.push(format!("none of the devices in use ({}) can", names.join(", ")));
        }
        Err(Error::unreachable(peer, address, refusals.join("; ")))
    }

    fn leave_to(&mut self, attention: &Arc<Attention>) {
        self.devices.iter_mut().for_each(|d| d.leave_to(attention));
    }

    fn call(&mut self, peer: PeerId) {
        if let Some(at) = self.of(peer) {
            self.devices[at].call(peer);
        }
    }

    fn welcome(&mut self) -> Result<(), Error> {
        self.devices.iter_mut().try_for_each(|d| d.welcome())
    }

    fn stranger(&mut self) -> Option<Address> {
        self.devices.iter_mut().find_map(|d| d.stranger())
    }

    #[inline]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<(), SendError> {
        let at = self.of(peer).ok_or(SendError::Failed(Error::UnknownPeer { peer }))?;
        self.reserved = at;
        self.stirred |= self.own == Some(at);
        self.devices[at].reserve(peer, len)
    }

    #[inline]
    fn space(&mut self) -> &mut [u8] {
        self.devices[self.reserved].space()
    }

    #[inline]
    fn fill(&mut self, at: usize, from: &Buf) {
        self.devices[self.reserved].fill(at, from);
    }

    #[inline]
    fn commit(&mut self, envelope: &Envelope) {
        self.devices[self.reserved].commit(envelope);
    }

    fn commit_awaited(&mut self, envelope: &Envelope, op: OpId) {
        self.devices[self.reserved].commit_awaited(envelope, op);
    }

    #[inline]
    fn send(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> Result<(), SendError> {
        self.device(peer)?.send(peer, envelope, payload)
    }

    fn announce(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<(), SendError> {
        self.device(peer)?.announce(peer, envelope, payload, op)
    }

    fn announce_buffered(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<bool, SendError> {
        self.device(peer)?.announce_buffered(peer, envelope, payload, op)
    }

    fn pull(&mut self, peer: PeerId, ticket: Ticket, into: Buf, op: OpId) {
        let at = self.of(peer).expect("an announcement came from an associated peer");
        self.stirred |= self.own == Some(at);
        self.devices[at].pull(peer, ticket, into, op);
    }

    fn withdraw(&mut self, peer: PeerId, op: OpId) -> bool {
        self.of(peer).is_some_and(|at| self.devices[at].withdraw(peer, op))
    }

    fn expel(&mut self, peer: PeerId, why: &'static str) {
        if let Some(at) = self.of(peer) {
            self.devices[at].expel(peer, why);
        }
    }

    fn hold(&mut self, peer: PeerId, hold: bool) {
        if let Some(at) = self.of(peer) {
            self.devices[at].hold(peer, hold);
        }
    }

    fn datagram_max(&self) -> usize {
        self.devices.iter().map(|d| d.datagram_max()).min().unwrap_or(0)
    }

    #[inline]
    fn datagram(&mut self, peer: PeerId, bytes: &[u8]) -> bool {
        let Some(at) = self.of(peer) else { return false };
        self.stirred |= self.own == Some(at);
        self.devices[at].datagram(peer, bytes)
    }

    fn hear_groups(&mut self, tags: &[u16]) {
        self.devices.iter_mut().for_each(|d| d.hear_groups(tags));
    }

    fn multicast(&mut self, group: u16, peers: &[PeerId], bytes: &[u8]) {
        self.each_with(peers, |device, some| device.multicast(group, some, bytes));
    }

    fn datagram_room(&self, peers: &[PeerId]) -> usize {
        self.least_room(peers, |device, some| device.datagram_room(some))
    }

    fn multicast_room(&self, peers: &[PeerId], of: usize) -> usize {
        self.least_room(peers, |device, some| device.multicast_room(some, of))
    }

    fn multicast_row(&mut self, group: u16, peers: &[PeerId], row: &mut Row<'_>) {
        self.each_with(peers, |device, some| device.multicast_row(group, some, row));
    }

    fn wires(&self, peer: PeerId) -> usize {
        self.of(peer).map_or(0, |at| self.devices[at].wires(peer))
    }

    fn ways(&self, peer: PeerId) -> Vec<Way> {
        self.of(peer).map_or(Vec::new(), |at| self.devices[at].ways(peer))
    }

    #[inline]
    fn datagram_over(&mut self, peer: PeerId, wire: u8, bytes: &[u8]) -> bool {
        self.device(peer).is_ok_and(|device| device.datagram_over(peer, wire, bytes))
    }

    fn lend_board(&mut self, group: u64, peers: &[PeerId]) -> Result<Board, Error> {
        let Some(at) = self.of_all(peers) else {
            return Err(Error::os("sharing a board", "not all members share memory with this one"));
        };
        self.devices[at].lend_board(group, peers)
    }

    fn reads_all(&mut self) {
        self.devices.iter_mut().for_each(|device| device.reads_all());
    }

    fn lend_board_again(&mut self, group: u64, peer: PeerId) -> bool {
        let at = self.of(peer);
        at.is_some_and(|at| self.devices[at].lend_board_again(group, peer))
    }

    fn take_board(&mut self, peer: PeerId, group: u64) -> Option<Board> {
        let at = self.of(peer)?;
        self.devices[at].take_board(peer, group)
    }

    fn drop_board(&mut self, group: u64) {
        self.devices.iter_mut().for_each(|d| d.drop_board(group));
    }

    fn show(&mut self, peer: PeerId, addr: usize, len: usize) -> bool {
        self.of(peer).is_some_and(|at| self.devices[at].show(peer, addr, len))
    }

    fn view(&mut self, peer: PeerId, addr: usize, len: usize) -> Option<(Arc<ReadOnly>, usize)> {
        let at = self.of(peer)?;
        self.devices[at].view(peer, addr, len)
    }

    fn reach(&mut self, peer: PeerId, addr: usize, len: usize) -> Option<(Arc<Mapping>, usize)> {
        let at = self.of(peer)?;
        self.devices[at].reach(peer, addr, len)
    }

    fn copy_in(&mut self, peer: PeerId, addr: u64, into: &Buf) -> bool {
        self.of(peer).is_some_and(|at| self.devices[at].copy_in(peer, addr, into))
    }

    fn copy_out(&mut self, peer: PeerId, addr: u64, from: &Buf) -> bool {
        self.of(peer).is_some_and(|at| self.devices[at].copy_out(peer, addr, from))
    }

    #[inline]
    fn ring(&mut self, peers: &[PeerId]) -> bool {
        let at = peers.first().and_then(|&peer| self.of(peer));
        at.is_some_and(|at| self.devices[at].ring(peers))
    }

    fn address(&self, peer: PeerId) -> Option<&Address> {
        self.devices[self.of(peer)?].address(peer)
    }

    fn is_timed(&self) -> bool {
        self.devices.iter().any(|d| d.is_timed())
    }

    #[inline]
    fn poll(&mut self, now_ns: u64) -> bool {
        let poll = |device: &mut dyn Device| match device.poll(now_ns) {
            true => Found::Event,
            false => Found::Nothing,
        };
        self.poll_by(poll) != Found::Nothing
    }

    #[inline]
    fn poll_for(&mut self, now_ns: u64, taker: &mut dyn Taker) -> Found {
        self.poll_by(|device| device.poll_for(now_ns, taker))
    }

    fn event(&self) -> Event<'_> {
        self.devices[self.at].event()
    }

    fn payload(&self) -> &[u8] {
        self.devices[self.at].payload()
    }

    fn flush(&mut self, now_ns: u64) {
        for device in &mut self.devices {
            device.flush(now_ns);
        }
    }

    fn turned(&mut self) {
        self.devices.iter_mut().for_each(|d| d.turned());
    }

    #[inline]
    fn has_more(&self) -> bool {
        self.devices[self.at].has_more()
    }

    fn has_to_send(&self) -> bool {
        self.devices[self.at].has_to_send()
    }

    fn is_lively(&self, now_ns: u64) -> bool {
        self.devices.iter().any(|d| d.is_lively(now_ns))
    }

    fn may_hold(&self) -> bool {
        self.devices.iter().any(|d| d.may_hold())
    }

    fn busy(&self) -> bool {
        self.devices.iter().any(|d| d.busy())
    }

    fn close(&mut self, now_ns: u64) {
        for device in &mut self.devices {
            device.close(now_ns);
        }
    }

    fn owes(&self, now_ns: u64) -> bool {
        self.devices.iter().any(|d| d.owes(now_ns))
    }

    fn silence_ns(&self) -> u64 {
        self.devices.iter().map(|d| d.silence_ns()).max().unwrap_or(0)
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.devices.iter().filter_map(|d| d.deadline_ns()).min()
    }

    fn arm(&mut self, wake: Wake) -> bool {
        // All are armed, even after one says no: the next poll disarms them all.
        let mut quiet = true;
        for device in &mut self.devices {
            quiet &= device.arm(wake);
        }
        quiet
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        // Only where no other device has anything to wait for: one cannot sleep on two things.
        let mut doorbell = None;
        for device in &self.devices {
            let mut watched = false;
            device.watch(&mut |_| watched = true);
            match device.doorbell() {
                Some(bell) if doorbell.is_none() => doorbell = Some(bell),
                Some(_) => return None,
                None if watched => return None,
                None => {}
            }
        }
        doorbell
    }

    fn pulse(&self) -> Option<Arc<dyn Pulse>> {
        // Only one of them reaches processes that are not on this node.
        self.devices.iter().find_map(|d| d.pulse())
    }

    fn watch(&self, each: &mut dyn FnMut(RawFd)) {
        for device in &self.devices {
            device.watch(each);
        }
    }

    fn watch_generation(&self) -> u64 {
        self.devices.iter().map(|d| d.watch_generation()).sum()
    }

    fn counters(&self) -> Counters {
        self.devices.iter().flat_map(|d| d.counters()).collect()
    }
}
