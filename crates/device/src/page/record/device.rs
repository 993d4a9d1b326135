//! The device that records what another one does.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::Arc;

use weft_ring::Board;
use weft_sys::buf::Buf;
use weft_sys::clock::{now_ns, used_ns};
use weft_sys::mem::{Mapping, ReadOnly};
use weft_wire::{Address, Envelope, OpId, PeerId, Ticket};

use super::super::layout::{PLAIN, record};
use super::super::write::Page;
use super::waits::Waits;
use super::{By, Wait};
use crate::attention::Attention;
use crate::device::{Caps, Counters, Device, Doorbell, Event, Pulse, Row, SendError, Wake, Way};
use crate::error::Error;
use crate::pace::Pace;

/// By what messages to a peer go, as in [`super::layout::WAYS`]: twice this, and one more for long
/// ones.
const SHM: u8 = 0;
const ETHER: u8 = 1;
const SELF: u8 = 2;

/// See the module's page.
pub struct Recorded {
    inner: Box<dyn Device>,
    page: Arc<Page>,
    node: u64,
    attention: Option<Arc<Attention>>,
    carriers: Vec<u8>,
    /// What was reserved last.
    reserved: (PeerId, usize),
    /// With whom operations are under way.
    operations: HashMap<OpId, PeerId>,
    waits: Waits,
}

impl Recorded {
    /// Records what `inner`, on this node, does, if the page is one that records.
    pub fn wrap(inner: Box<dyn Device>, page: Option<&Arc<Page>>, node: u64) -> Box<dyn Device> {
        let Some(page) = page.filter(|page| page.records()) else { return inner };
        Box::new(Recorded {
            inner,
            page: Arc::clone(page),
            node,
            attention: None,
            carriers: Vec::new(),
            reserved: (PeerId(u32::MAX), 0),
            operations: HashMap::new(),
            waits: Waits::default(),
        })
    }

    #[inline]
    fn keep(&self, waits: [Option<Wait>; 2]) {
        waits.iter().flatten().for_each(|wait| self.page.count_wait(wait));
    }

    /// The program does something else than to wait.
    #[inline]
    fn works(&mut self) {
        let over = self.waits.work();
        self.keep(over);
    }

    #[inline]
    fn sent(&mut self, peer: PeerId, len: usize, long: bool) {
        self.works();
        let carrier = self.carriers.get(peer.index()).copied().unwrap_or(SHM);
        self.page.count_sent(peer, len, usize::from(2 * carrier) + usize::from(long));
    }

    /// A poll has found something while somebody waited, or operations are under way.
    #[cold]
    fn has_found(&mut self) {
        let by = match self.inner.event() {
            Event::Message { peer, .. }
            | Event::Announced { peer, .. }
            | Event::Datagram { peer, .. }
            | Event::Dead { peer, .. } => By::Message(peer),
            Event::Done { op } | Event::Failed { op, .. } => {
                self.operations.remove(&op).map_or(By::Itself, By::Operation)
            }
        };
        let over = self.waits.found(|| by, now_ns);
        self.keep([over, None]);
    }
}

/// Calls that are handed on as they are.
macro_rules! hand_on {
    ($(fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $back:ty)?;)*) => {
        $(fn $name(&self $(, $arg: $type)*) $(-> $back)? { self.inner.$name($($arg),*) })*
    };
}

/// The same, for those that change something.
macro_rules! hand_on_mut {
    ($(fn $name:ident(&mut self $(, $arg:ident: $type:ty)*) $(-> $back:ty)?;)*) => {
        $(fn $name(&mut self $(, $arg: $type)*) $(-> $back)? { self.inner.$name($($arg),*) })*
    };
}

impl Device for Recorded {
    fn associate(&mut self, peer: PeerId, address: &Address) -> Result<(), Error> {
        self.inner.associate(peer, address)?;
        let carrier = match self.inner.name() {
            "shm" => SHM,
            "ether" => ETHER,
            _ if self.inner.is_self(peer) => SELF,
            _ if address.node == self.node => SHM,
            _ => ETHER,
        };
        if self.carriers.len() <= peer.index() {
            self.carriers.resize(peer.index() + 1, SHM);
        }
        self.carriers[peer.index()] = carrier;
        self.page.name_peer(peer, address.node, address.nonce);
        Ok(())
    }

    fn leave_to(&mut self, attention: &Arc<Attention>) {
        self.attention = Some(Arc::clone(attention));
        self.inner.leave_to(attention);
    }

    #[inline]
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<(), SendError> {
        self.reserved = (peer, len);
        self.inner.reserve(peer, len)
    }

    #[inline]
    fn commit(&mut self, envelope: &Envelope) {
        self.inner.commit(envelope);
        let (peer, len) = self.reserved;
        self.sent(peer, len, false);
    }

    fn commit_awaited(&mut self, envelope: &Envelope, op: OpId) {
        self.inner.commit_awaited(envelope, op);
        let (peer, len) = self.reserved;
        self.operations.insert(op, peer);
        self.sent(peer, len, false);
    }

    #[inline]
    fn send(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> Result<(), SendError> {
        self.inner.send(peer, envelope, payload)?;
        self.sent(peer, payload.len(), false);
        Ok(())
    }

    fn announce(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<(), SendError> {
        self.inner.announce(peer, envelope, payload, op)?;
        self.operations.insert(op, peer);
        self.sent(peer, payload.len(), true);
        Ok(())
    }

    fn announce_buffered(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<bool, SendError> {
        let buffered = self.inner.announce_buffered(peer, envelope, payload, op)?;
        if !buffered {
            self.operations.insert(op, peer);
        }
        self.sent(peer, payload.len(), true);
        Ok(buffered)
    }

    fn pull(&mut self, peer: PeerId, ticket: Ticket, into: Buf, op: OpId) {
        self.operations.insert(op, peer);
        self.inner.pull(peer, ticket, into, op);
    }

    fn withdraw(&mut self, peer: PeerId, op: OpId) -> bool {
        let withdrawn = self.inner.withdraw(peer, op);
        if withdrawn {
            self.operations.remove(&op);
        }
        withdrawn
    }

    fn unexpected(&mut self) -> u64 {
        self.waits.go_on();
        now_ns()
    }

    fn found_elsewhere(&mut self) {
        let over = self.waits.found(|| By::Itself, now_ns);
        self.keep([over, None]);
    }

    fn taken_late(&mut self, came_ns: u64) {
        let ns = now_ns().saturating_sub(came_ns);
        self.page.count_time(PLAIN + record::LATE_RECEIVERS, ns);
    }

    #[inline]
    fn poll(&mut self, now_ns: u64) -> bool {
        let found = self.inner.poll(now_ns);
        if self.attention.as_ref().is_some_and(|attention| attention.is_tended()) {
            return found;
        }
        if !found {
            let over = self.waits.in_vain(now_ns, weft_sys::clock::now_ns, used_ns);
            self.keep(over);
        } else if self.waits.is_on() || !self.operations.is_empty() {
            self.has_found();
        } else {
            let over = self.waits.found(|| By::Itself, || 0);
            self.keep([over, None]);
        }
        found
    }

    fn arm(&mut self, wake: Wake) -> bool {
        if self.attention.as_ref().is_some_and(|attention| !attention.is_tended()) {
            self.waits.sleep(now_ns(), used_ns);
        }
        self.inner.arm(wake)
    }

    fn turned(&mut self) {
        self.waits.turned();
        self.inner.turned();
    }

    fn close(&mut self, now_ns: u64) {
        self.works();
        self.inner.close(now_ns);
    }

    fn lend_board(&mut self, group: u64, peers: &[PeerId]) -> Result<Board, Error> {
        self.inner.lend_board(group, peers)
    }

    fn view(&mut self, peer: PeerId, addr: usize, len: usize) -> Option<(Arc<ReadOnly>, usize)> {
        self.inner.view(peer, addr, len)
    }

    /// What the program copies there by itself is no message, and is not counted.
    fn reach(&mut self, peer: PeerId, addr: usize, len: usize) -> Option<(Arc<Mapping>, usize)> {
        self.inner.reach(peer, addr, len)
    }

    /// Nor is that.
    fn copy_in(&mut self, peer: PeerId, addr: u64, into: &Buf) -> bool {
        self.inner.copy_in(peer, addr, into)
    }

    fn copy_out(&mut self, peer: PeerId, addr: u64, from: &Buf) -> bool {
        self.inner.copy_out(peer, addr, from)
    }

    fn multicast_row(&mut self, group: u16, peers: &[PeerId], row: &mut Row<'_>) {
        self.inner.multicast_row(group, peers, row);
    }

    fn address(&self, peer: PeerId) -> Option<&Address> {
        self.inner.address(peer)
    }

    fn event(&self) -> Event<'_> {
        self.inner.event()
    }

    fn payload(&self) -> &[u8] {
        self.inner.payload()
    }

    fn space(&mut self) -> &mut [u8] {
        self.inner.space()
    }

    hand_on! {
        fn name(&self) -> &'static str;
        fn caps(&self, peer: PeerId) -> Caps;
        fn eager_limit(&self, peer: PeerId) -> usize;
        fn copy_pace(&self, peer: PeerId) -> Option<Pace>;
        fn is_self(&self, peer: PeerId) -> bool;
        fn reaches(&self, address: &Address) -> bool;
        fn datagram_max(&self) -> usize;
        fn datagram_room(&self, peers: &[PeerId]) -> usize;
        fn multicast_room(&self, peers: &[PeerId], of: usize) -> usize;
        fn wires(&self, peer: PeerId) -> usize;
        fn ways(&self, peer: PeerId) -> Vec<Way>;
        fn peer_name(&self, peer: PeerId) -> String;
        fn is_timed(&self) -> bool;
        fn is_passive(&self) -> bool;
        fn has_more(&self) -> bool;
        fn has_to_send(&self) -> bool;
        fn is_lively(&self, now_ns: u64) -> bool;
        fn may_hold(&self) -> bool;
        fn busy(&self) -> bool;
        fn owes(&self, now_ns: u64) -> bool;
        fn silence_ns(&self) -> u64;
        fn deadline_ns(&self) -> Option<u64>;
        fn doorbell(&self) -> Option<Arc<dyn Doorbell>>;
        fn pulse(&self) -> Option<Arc<dyn Pulse>>;
        fn watch(&self, each: &mut dyn FnMut(RawFd));
        fn watch_generation(&self) -> u64;
        fn counters(&self) -> Counters;
    }

    hand_on_mut! {
        fn call(&mut self, peer: PeerId);
        fn welcome(&mut self) -> Result<(), Error>;
        fn stranger(&mut self) -> Option<Address>;
        fn fill(&mut self, at: usize, from: &Buf);
        fn expel(&mut self, peer: PeerId, why: &'static str);
        fn hold(&mut self, peer: PeerId, hold: bool);
        fn reads_all(&mut self);
        fn datagram(&mut self, peer: PeerId, bytes: &[u8]) -> bool;
        fn hear_groups(&mut self, tags: &[u16]);
        fn multicast(&mut self, group: u16, peers: &[PeerId], bytes: &[u8]);
        fn datagram_over(&mut self, peer: PeerId, wire: u8, bytes: &[u8]) -> bool;
        fn lend_board_again(&mut self, group: u64, peer: PeerId) -> bool;
        fn take_board(&mut self, peer: PeerId, group: u64) -> Option<Board>;
        fn drop_board(&mut self, group: u64);
        fn show(&mut self, peer: PeerId, addr: usize, len: usize) -> bool;
        fn ring(&mut self, peers: &[PeerId]) -> bool;
        fn flush(&mut self, now_ns: u64);
    }
}
