//! The ether device: messages to other nodes over lossy links, made reliable by the protocol
//! engine.
//!
//! The engine decides, the links move frames, and here they are joined: frames from the links into
//! the engine, what it has for us out of it, bursts out of it into the links, the clock, and the
//! user's memory, which the engine never touches.

mod company;
mod datagram;
mod incoming;
mod links;
mod opening;
mod relay;
mod signs;
mod transfers;
mod tuning;
mod whereabouts;

use std::os::fd::RawFd;
use std::sync::Arc;

use weft_link::{Link, LinkOptions, Wrappers};
use weft_proto::{Cause, Config, Engine, Instant};
use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_wire::{Address, Burst, Envelope, JobKey, LinkId, OpId, PeerId, Ticket};

use crate::attention::Attention;
use crate::device::{Caps, Counters, Device, Event, Pulse, Row, SendError, Wake, Way};
use crate::error::Error;
use company::Company;
use incoming::{Current, EARLY_NS};
use links::Links;
use relay::Relay;
use signs::Signs;
use transfers::Transfers;
use tuning::Tuning;
use whereabouts::Twins;

/// What is sent in one go before arrivals are looked at: so many bytes of large messages ...
const BYTES_PER_ROUND: usize = 512 * 1024;
/// ... and so many bursts of what is short. With many ranks on a core a round is all that a turn on
/// it has, and the next one may be a tenth of a second away: what many peers wait for must not be
/// handed out in morsels.
const BURSTS_PER_ROUND: usize = 128;

/// Rounds of arrivals in one poll, while more have come.
const ROUNDS_PER_POLL: usize = 8;

/// Once in so many ns a lone message is sent by the clock, so that its acknowledgements measure the
/// round trip; the others do not wait for the clock.
const LOOK_NS: u64 = 20_000;

/// Polls that cost a system call each between two looks at the clock: some microseconds.
const POLLS_PER_LOOK: u32 = 8;

/// A peer that nobody sends to is called so long after it was associated, so that whoever only
/// waits for it learns of its death. Not at once: most often a message comes first.
const CALL_AFTER_NS: u64 = 20_000_000;

/// Peers called in one poll at most.
const CALLS_PER_POLL: usize = 64;

/// With more peers than this, none is called unless somebody waits for it: each would cost a ping
/// now and then.
const CALLED_MAX: usize = 256;

/// Messages to other nodes.
pub struct Ether {
    me: Address,
    engine: Engine,
    links: Links,
    peers: Vec<Option<Address>>,
    transfers: Transfers,
    burst: Burst,
    current: Current,
    /// The latest time that was told.
    now: Instant,
    company: Company,
    /// Whether there is a tender, so that nothing waits for company for long.
    is_attended: bool,
    /// Whom the last reserve was for.
    reserved: PeerId,
    /// When the last lone message was sent by the clock.
    looked: Instant,
    warnings: u64,
    signs: Arc<Signs>,
    /// Polls that cost system calls, round and round.
    polls: u32,
    /// Whether the last look for frames has left some where they were.
    unread: bool,
    /// Since when the current frame waits for a receive.
    early_since_ns: Option<u64>,
    /// Peers to be called, the last first, and when.
    to_call: Vec<PeerId>,
    call_at_ns: u64,
    relay: Relay,
    tuning: Tuning,
    twins: Twins,
}

impl Ether {
    /// A device whose links are opened by `options`, when the first peer on another node is
    /// associated.
    ///
    /// # Errors
    /// [`Error::Setting`] when `WEFT_RELAY` or `WEFT_TUNE` cannot be read.
    pub fn new(
        me: Address,
        key: JobKey,
        config: Config,
        options: LinkOptions,
        wrappers: Wrappers,
    ) -> Result<Ether, Error> {
        let engine = Engine::new(config, me, key, me.nonce);
        let relay = Relay::from_env(key.job(), options.ethertype)?;
        let mut ether = Ether::with(me, engine, Links::lazy(options, wrappers), relay);
        ether.tuning = Tuning::from_env()?;
        Ok(ether)
    }

    /// A device on links that are open already.
    pub fn on_links(me: Address, key: JobKey, config: Config, links: Vec<Box<dyn Link>>) -> Ether {
        let mut engine = Engine::new(config, me, key, me.nonce);
        let links = Links::opened(links, &mut engine);
        Ether::with(me, engine, links, Relay::none())
    }

    fn with(me: Address, engine: Engine, links: Links, relay: Relay) -> Ether {
        let burst = Burst::new(links.max_burst());
        let signs = Signs::new(engine.config().dead_after_ns);
        signs.set_voices(links.voices());
        Ether {
            me,
            engine,
            links,
            peers: Vec::new(),
            transfers: Transfers::default(),
            burst,
            current: Current::Nothing,
            now: Instant(0),
            company: Company::new(),
            is_attended: false,
            reserved: PeerId(u32::MAX),
            looked: Instant(0),
            warnings: 0,
            signs: Arc::new(signs),
            polls: 0,
            unread: false,
            early_since_ns: None,
            to_call: Vec::new(),
            call_at_ns: 0,
            relay,
            tuning: Tuning::none(),
            twins: Twins::default(),
        }
    }

    /// The error for a peer that is gone.
    fn death(&self, peer: PeerId, cause: Cause) -> Error {
        let name = self.peer_name(peer);
        match cause {
            Cause::Closed => Error::PeerClosed { peer, name },
            cause => {
                let mut why = cause.to_string();
                if let Cause::NoAnswer { .. } = cause
                    && let Some(parts) = whereabouts::parts(&self.engine, &self.me, &self.peers)
                {
                    why = format!("{why}; {parts}");
                }
                Error::PeerDead { peer, name, why }
            }
        }
    }

    #[cold]
    fn refusal(&self, peer: PeerId, len: usize, error: weft_proto::SendError) -> SendError {
        match error {
            weft_proto::SendError::Full => SendError::Full,
            weft_proto::SendError::Held => SendError::Held,
            weft_proto::SendError::TooLong { max } => {
                SendError::Failed(Error::TooLong { len, max })
            }
            weft_proto::SendError::Dead(cause) => SendError::Failed(self.death(peer, cause)),
            weft_proto::SendError::NoPeer => SendError::Failed(Error::UnknownPeer { peer }),
        }
    }

    /// Sends what the engine has for the links, within a limit; `true` if the limit was reached.
    fn transmit(&mut self, now: Instant) -> bool {
        self.company.goes();
        let mut bytes = 0;
        for _ in 0..BURSTS_PER_ROUND {
            match self.engine.transmit(now, &mut self.transfers, &mut self.burst) {
                Some(link) => {
                    let (engine, burst) = (&mut self.engine, &mut self.burst);
                    bytes += burst.bytes().len() + burst.tail().map_or(0, |tail| tail.len);
                    self.links.send(engine, now, link, burst, &self.transfers);
                }
                None => return false,
            }
            if bytes >= BYTES_PER_ROUND {
                break;
            }
        }
        true
    }

    /// A message was given to the engine: sends it now, unless it does better to wait for company.
    #[inline]
    fn after_send(&mut self, now: Instant, peer: PeerId, len: usize) {
        // Where nobody sees to it, nothing waits.
        if !self.company.waits(now.0, peer, len) || !self.is_attended {
            self.transmit(now);
            let now = self.read_clock();
            self.company.done_by(now.0);
        }
    }

    /// A poll has found nothing.
    #[inline]
    fn found_none(&mut self) {
        self.company.looked();
        self.engine.found_none();
    }

    /// Whether the next message, of `len` bytes for `peer`, goes at once.
    #[inline]
    fn goes_alone(&mut self, peer: PeerId, len: usize) -> bool {
        self.company.is_alone(peer, len) || {
            let now = self.read_clock();
            self.company.begins_anew(now.0)
        }
    }

    /// Has the engine announce a message; gives the time and the transfer's id.
    fn prepare(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<(Instant, OpId), SendError> {
        let (now, len) = (self.read_clock(), payload.len());
        let id = self.transfers.insert(op, payload.clone());
        match self.engine.announce(now, peer, envelope, len as u64, id) {
            Ok(()) => Ok((now, id)),
            Err(error) => {
                self.transfers.remove(id);
                Err(self.refusal(peer, len, error))
            }
        }
    }

    /// The burst is a lone message of `len` bytes: sends it. All else, the clock included, is done
    /// while it is on its way.
    #[inline]
    fn send_now(&mut self, peer: PeerId, link: LinkId, len: usize) {
        let sent = self.links.hand_over(link, &mut self.burst);
        let now = self.read_clock();
        self.company.went(now.0, peer, len);
        self.engine.went(now, &self.burst);
        self.links.settle_sent(&mut self.engine, now, link, 1, sent);
    }

    /// The time, for a lone message, and whether it is exact: only now and then.
    #[inline]
    fn read_clock_rarely(&mut self) -> (Instant, bool) {
        let exact = self.now.since(self.looked) >= LOOK_NS;
        if exact {
            self.looked = self.read_clock();
        }
        (self.now, exact)
    }

    /// The time, exactly. The engine's time never goes back.
    #[inline]
    fn read_clock(&mut self) -> Instant {
        self.now = self.now.max(Instant(now_ns()));
        self.now
    }

    /// Looks at what changes seldom, when it is time to.
    fn look_around(&mut self, now: Instant) {
        let generation = self.links.generation;
        if self.links.check_state(&mut self.engine, now) {
            self.settle_links(generation, now.0);
        }
    }

    /// Does what depends on which links there are, where they were those of `generation` before.
    fn settle_links(&mut self, generation: u64, now_ns: u64) {
        if self.links.generation != generation {
            self.signs.set_voices(self.links.voices());
            self.tuning.begin(self.links.interface_names());
        }
        self.relay.settle(&self.links, &mut self.engine, now_ns);
        if self.burst.bytes_max() < self.links.max_burst() {
            self.burst = Burst::new(self.links.max_burst());
        }
    }

    #[inline]
    fn poll_links(&mut self, now_ns: u64) -> bool {
        self.current = Current::Nothing;
        if self.company.hurried() {
            let now = self.read_clock();
            self.company.polled(now.0);
            // Before anything is found, for whoever finds something may compute from then on.
            if self.company.is_waiting() {
                self.transmit(now);
            }
        }
        // A time that is a little old will do where a poll is next to nothing: what needs it
        // exactly reads the clock. Polls that cost a system call make it too old.
        self.now = self.now.max(Instant(now_ns));
        self.engine.looks(self.now);
        self.engine.end_read(self.now);
        let quiet = self.to_call.is_empty() && self.engine.is_idle(self.now);
        if quiet {
            if self.links.is_idle(self.now) {
                self.found_none();
                return false;
            }
            if self.take_found() {
                return true;
            }
        }
        if self.links.is_warm(self.now) {
            self.polls = self.polls.wrapping_add(1);
            if self.polls.is_multiple_of(POLLS_PER_LOOK) {
                self.read_clock();
            }
        }
        // With many ranks on a core this may be all that a turn on it has.
        for _ in 0..ROUNDS_PER_POLL {
            if self.next_event() {
                return true;
            }
            if !self.unread || self.early_since_ns.is_some() {
                break;
            }
            let now = self.read_clock();
            self.transmit(now);
        }
        // What is sent says when: a poll's time may be an old one.
        let now = if self.engine.has_to_send() { self.read_clock() } else { self.now };
        if !self.unread {
            self.found_none();
        }
        if self.engine.deadline().is_some_and(|deadline| deadline <= now) {
            self.engine.timeout(now);
        }
        if !self.to_call.is_empty() {
            self.call_some(now);
        }
        self.look_around(now);
        self.answer_probes();
        self.transmit(now);
        if self.early_since_ns.is_some() {
            return false;
        }
        // Timers and the links' state cause events as well, and so does what sending has freed.
        while let Some(incoming) = self.engine.next(now, &[]) {
            if self.take(incoming) {
                return true;
            }
        }
        false
    }

    /// Calls some of the peers that nobody has sent to.
    #[cold]
    fn call_some(&mut self, now: Instant) {
        if now.0 < self.call_at_ns {
            return;
        }
        for _ in 0..CALLS_PER_POLL {
            let Some(peer) = self.to_call.pop() else { break };
            self.engine.connect(now, peer);
        }
    }
}

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
            self.to_call.push(peer);
            self.call_at_ns = now_ns() + CALL_AFTER_NS;
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
        if self.tuning.is_on() && self.tuning.polled(self.now.0, found, &self.engine.counters()) {
            self.tuning.decide(self.now.0);
        }
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
        let call = (!self.to_call.is_empty()).then_some(self.call_at_ns);
        let early = self.early_since_ns.map(|since| since + EARLY_NS);
        [engine, self.links.deadline_ns(), call, early].into_iter().flatten().min()
    }

    fn arm(&mut self, _wake: Wake) -> bool {
        if self.tuning.is_on() {
            self.tuning.falls_asleep();
        }
        // Descriptors are readable as long as frames wait, so nothing is missed.
        self.links.poll_all();
        let now = self.read_clock();
        !self.transmit(now)
    }

    fn pulse(&self) -> Option<Arc<dyn Pulse>> {
        Some(self.signs.clone())
    }

    fn watch(&self, each: &mut dyn FnMut(RawFd)) {
        self.links.watch(each);
    }

    fn watch_generation(&self) -> u64 {
        self.links.generation
    }

    fn counters(&self) -> Counters {
        let mut counters = vec![("ether.warnings".to_string(), self.warnings)];
        let mut add = |name: String, count: u64| counters.push((name, count));
        self.engine.counters().each(|name, count| add(format!("ether.{name}"), count));
        self.links.counters(&mut add);
        let relayed = self.relay.counts();
        add("ether.relayed_frames".into(), relayed.frames);
        add("ether.relayed_bytes".into(), relayed.bytes);
        add("ether.relay_dropped_frames".into(), self.relay.dropped());
        counters
    }
}
