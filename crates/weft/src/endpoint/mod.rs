//! The endpoint: tagged messages of any size, matched as MPI does, with operations that go on while
//! the program does something else.
//!
//! Three ways to give it memory: by owned vectors ([`Endpoint::isend`], [`Endpoint::irecv`]), by
//! borrows for the length of a call ([`Endpoint::send`], [`Endpoint::recv`]) or of a scope
//! ([`Endpoint::scope`]), and, for boundaries to other languages, by a promise ([`Buf::from_raw`]).
//!
//! Messages from one process to another are matched in the order in which they were sent, whatever
//! their size. A small one is copied out at once; a large one stays in the sender's memory until
//! the receive is there, and is then placed once.

#[cfg(test)]
mod attended_tests;
#[cfg(test)]
mod bounds_tests;
mod collective;
mod door;
mod events;
mod exchange;
mod group;
mod halo;
mod joint;
mod late;
mod many;
mod notices;
pub(crate) mod ops;
mod reach;
mod reduce;
pub(crate) mod region;
#[cfg(test)]
mod region_tests;
mod remote;
mod request;
mod scope;
mod sends;
mod serve;
pub(crate) mod share;
#[cfg(test)]
mod tests;
pub(crate) mod turn;
#[cfg(test)]
mod turn_tests;
#[cfg(test)]
mod window_tests;
mod work;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use weft_device::station::{Guard, Station};
use weft_proto::msg::matching::Want;
use weft_sys::buf::{Buf, lend};
use weft_sys::clock::now_ns;
use weft_wire::{ADDRESS_LEN, Address, Envelope, JobKey, Kind, PeerId};

use crate::context::{Context, ContextOptions, Parts, Place, alone, close, finish, patience};
use crate::device::{Counters, Way};
use crate::error::Error;
use crate::remote::Windows;
use crate::shm::{Memory, Regions};

use door::Door;
pub use ops::Status;
use ops::{Op, Owner, State, Until};
pub use reduce::Collective;
pub(crate) use region::LentBy;
use request::Inner;
pub use request::{Completion, Matched, Request, Source, Tag};
pub use scope::Scope;
use sends::{Outgoing, Started};
use serve::Remote;
use work::EndpointWork;

/// See the module's page. May be shared by threads.
pub struct Endpoint {
    station: Station<EndpointWork>,
    place: Place,
    regions: Arc<Regions>,
    /// The node of each peer; empty where that is not known.
    nodes: Arc<[u64]>,
    address: Option<Address>,
    /// How many plans for the exchange of boundaries were begun.
    plans: AtomicU32,
    _kept: Option<Box<dyn Send + Sync>>,
}

impl Endpoint {
    /// An endpoint on a context's channel and peers, which it takes over.
    ///
    /// # Errors
    /// [`Error::Os`] when the tender thread cannot be started.
    pub fn new(context: Context) -> Result<Endpoint, Error> {
        let parts = context
            .into_parts()
            .ok_or_else(|| Error::os("taking the context over", "it has ended already"))?;
        Endpoint::from_parts(parts, |_| {})
    }

    /// An endpoint that belongs to no job: processes with the same `key` that were told each
    /// other's [`address`](Endpoint::address) can speak to each other. What peers do with `windows`
    /// is done by this endpoint. [`Endpoint::rank`] and [`Endpoint::size`] say nothing here.
    ///
    /// Links to other nodes are opened with the first peer there, or by [`Endpoint::welcome`].
    ///
    /// # Errors
    /// [`Error::Os`], [`Error::Setting`].
    pub fn open(
        options: &ContextOptions,
        key: JobKey,
        windows: Arc<Windows>,
    ) -> Result<Endpoint, Error> {
        let (parts, me) = alone(options, key)?;
        let regions = Arc::clone(&parts.regions);
        let mut endpoint = Endpoint::from_parts(parts, |work| {
            work.door = Some(Door::new(me));
            work.remote.windows = windows;
            work.remote.reach.regions = Some(regions);
        })?;
        endpoint.address = Some(me);
        Ok(endpoint)
    }

    fn from_parts(
        parts: Parts,
        prepare: impl FnOnce(&mut EndpointWork),
    ) -> Result<Endpoint, Error> {
        let Parts { device, shower, early, dead, place, spin_ns, regions, nodes, kept } = parts;
        let others = place.size.saturating_sub(1) as usize;
        let mut work = EndpointWork::new((device, shower), others, early, dead);
        work.device.reads_all();
        prepare(&mut work);
        let station = Station::new(work, patience(&place, spin_ns))?;
        let plans = AtomicU32::new(0);
        Ok(Endpoint { station, place, regions, nodes, address: None, plans, _kept: kept })
    }

    /// Where an endpoint without a job is reached; `None` for one of a job.
    pub fn address(&self) -> Option<[u8; ADDRESS_LEN]> {
        self.address.map(|address| address.encode())
    }

    /// The number of the process at an address, for an endpoint without a job: 0, 1, ... in the
    /// order in which they were named, or came by themselves.
    ///
    /// # Errors
    /// [`Error::BadAddress`], [`Error::Unreachable`], [`Error::NoLinks`].
    pub fn add_peer(&self, address: &[u8]) -> Result<u32, Error> {
        let address =
            Address::decode(address).map_err(|e| Error::BadAddress { why: e.to_string() })?;
        let (peer, on_node) = {
            let mut work = self.station.lock();
            let peer = work.add_peer(&address)?;
            (peer, work.door.as_ref().map_or(1, Door::on_node))
        };
        self.station.share_cores(on_node as usize);
        Ok(peer.0)
    }

    /// Opens the links to other nodes now, so that processes there which know this one's address,
    /// but are not known to it, are heard.
    ///
    /// # Errors
    /// [`Error::NoLinks`].
    pub fn welcome(&self) -> Result<(), Error> {
        let mut work = self.station.lock();
        work.timed = true;
        work.device.welcome()
    }

    /// Memory for messages that a peer of the same node copies from directly: see
    /// [`Context::allocate`].
    ///
    /// # Errors
    /// [`Error::Os`] when memory is short.
    pub fn allocate(&self, len: usize) -> Result<Memory, Error> {
        self.regions.allocate(len)
    }

    /// This process's number among its peers.
    pub fn rank(&self) -> u32 {
        self.place.rank.0
    }

    /// How many processes there are, this one included.
    pub fn size(&self) -> u32 {
        self.place.size
    }

    /// Starts to send a vector, which comes back with the end of the operation.
    ///
    /// # Errors
    /// [`Error::PeerDead`], [`Error::UnknownPeer`].
    pub fn isend(&self, peer: u32, tag: u64, bytes: Vec<u8>) -> Result<Request, Error> {
        let envelope = tagged(tag);
        let buf = Buf::from_vec(bytes);
        match self.start_send(peer, &envelope, &buf)? {
            Some(request) => Ok(request),
            None => {
                let status = Status { source: peer, envelope, len: buf.len() };
                let bytes = buf.into_vec().unwrap_or_default();
                Ok(Request { inner: Inner::Ended(status, bytes) })
            }
        }
    }

    /// Starts to receive into a vector, over its whole length; it comes back with the end of the
    /// operation.
    pub fn irecv(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
        buffer: Vec<u8>,
    ) -> Request {
        self.start_receive(source.into(), tag.into(), Kind::TAGGED, Buf::from_vec(buffer))
    }

    /// Starts to send memory that stays valid by its [`Buf`]; `None` if the operation has ended
    /// already.
    ///
    /// # Errors
    /// As for [`Endpoint::isend`].
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn start_send(
        &self,
        peer: u32,
        envelope: &Envelope,
        buf: &Buf,
    ) -> Result<Option<Request>, Error> {
        let peer = PeerId(peer);
        let mut work = self.station.lock();
        let sent = match work.send(peer, envelope, Outgoing::Kept(buf, Until::Free))? {
            Started::Ended => None,
            Started::Slot(slot) => Some(request(&mut work, slot)),
        };
        work.has_sent(buf.len());
        self.give_back(work);
        Ok(sent)
    }

    /// Gives the state back after a call that may have sent something.
    #[inline]
    fn give_back(&self, mut work: Guard<'_, EndpointWork>) {
        let lets_run = std::mem::take(&mut work.lets_run);
        drop(work);
        if lets_run {
            self.station.let_others_run();
        }
    }

    /// Starts to receive a message of a kind into memory that stays valid by its [`Buf`].
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn start_receive(&self, source: Source, tag: Tag, kind: Kind, buf: Buf) -> Request {
        let mut work = self.station.lock();
        let slot = work.receive(want(source, tag, kind), buf, Owner::Request);
        request(&mut work, slot)
    }

    /// Sends `bytes`; waits until they may be used again, which for a large message is when the
    /// receiver has taken it.
    ///
    /// # Errors
    /// [`Error::PeerDead`], [`Error::UnknownPeer`].
    pub fn send(&self, peer: u32, tag: u64, bytes: &[u8]) -> Result<(), Error> {
        let envelope = tagged(tag);
        lend(|loans| {
            let keep = || loans.read(bytes);
            let outgoing = Outgoing::Borrowed(bytes, &keep);
            let mut work = self.station.lock();
            match work.send(PeerId(peer), &envelope, outgoing)? {
                Started::Ended => {
                    work.has_sent(bytes.len());
                    self.give_back(work);
                    Ok(())
                }
                Started::Slot(slot) => {
                    let request = request(&mut work, slot);
                    drop(work);
                    self.wait(request).map(drop)
                }
            }
        })
    }

    /// Receives a message into the start of `into`; waits for it.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it is longer than `into`, [`Error::PeerDead`].
    pub fn recv(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
        into: &mut [u8],
    ) -> Result<Status, Error> {
        let (source, tag) = (source.into(), tag.into());
        lend(|loans| {
            let request = self.start_receive(source, tag, Kind::TAGGED, loans.fill(into));
            self.wait(request).map(|completion| completion.status)
        })
    }

    /// As [`Endpoint::recv`], for at most `timeout_ns`.
    ///
    /// # Errors
    /// As for [`Endpoint::recv`], and [`Error::TimedOut`]: then nothing was received.
    pub fn recv_timeout(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
        into: &mut [u8],
        timeout_ns: u64,
    ) -> Result<Status, Error> {
        let (source, tag) = (source.into(), tag.into());
        lend(|loans| {
            let request = self.start_receive(source, tag, Kind::TAGGED, loans.fill(into));
            let Inner::Op { slot, generation } = request.inner else {
                unreachable!("a receive is an operation")
            };
            let step = |work: &mut EndpointWork, now| is_finished(work, slot, generation, now);
            let has_ended = self.station.wait_until(Some(timeout_ns), step).is_some();
            if !has_ended && self.cancel(&request) {
                let _ = self.wait(request);
                return Err(Error::TimedOut { after_ns: timeout_ns });
            }
            // It may have been matched in the last moment.
            self.wait(request).map(|completion| completion.status)
        })
    }

    /// Runs `f`, which may start operations on borrowed memory; waits, at the end of `f`, for those
    /// that it has not waited for.
    ///
    /// # Errors
    /// What `f` gives; otherwise the first error of an operation that `f` did not wait for.
    pub fn scope<'env, R>(
        &'env self,
        f: impl FnOnce(&Scope<'_, 'env>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        lend(|loans| Scope::new(self, loans).run(f))
    }

    /// Whether an operation has ended, and how; makes progress. `Err` gives the request back.
    ///
    /// # Errors
    /// The inner result is the operation's own.
    pub fn test(&self, request: Request) -> Result<Result<Completion, Error>, Request> {
        match request.inner {
            Inner::Ended(status, buffer) => Ok(Ok(Completion { status, buffer })),
            Inner::Op { slot, generation } => {
                let found = finished(&mut self.station.lock(), slot, generation, now_ns());
                found.ok_or(request)
            }
        }
    }

    /// Waits for an operation's end.
    ///
    /// # Errors
    /// The operation's own: [`Error::Truncated`], [`Error::PeerDead`], [`Error::Cancelled`].
    pub fn wait(&self, request: Request) -> Result<Completion, Error> {
        match request.inner {
            Inner::Ended(status, buffer) => Ok(Completion { status, buffer }),
            Inner::Op { slot, generation } => {
                let work = self
                    .station
                    .wait_until(None, |work, now_ns| is_finished(work, slot, generation, now_ns));
                take_finished(&mut work.expect("a wait without a limit ends"), slot, generation)
            }
        }
    }

    /// Waits for all; gives their completions in the same order.
    ///
    /// # Errors
    /// The first error, after all have ended.
    pub fn wait_all(&self, requests: Vec<Request>) -> Result<Vec<Completion>, Error> {
        let results: Vec<_> = requests.into_iter().map(|request| self.wait(request)).collect();
        results.into_iter().collect()
    }

    /// Cancels an operation that has not begun to take effect: a receive without a message, a send
    /// that the receiver has not seen. Whether or not it could be cancelled, it ends, and is waited
    /// for as usual.
    pub fn cancel(&self, request: &Request) -> bool {
        let Inner::Op { slot, generation } = request.inner else { return false };
        let mut work = self.station.lock();
        work.ops.named(slot, generation).is_some() && work.cancel(slot)
    }

    /// Says that nobody will ask how an operation ended. It goes on.
    pub fn detach(&self, request: Request) {
        let Inner::Op { slot, generation } = request.inner else { return };
        let mut work = self.station.lock();
        match work.ops.named(slot, generation) {
            Some(Op { state: State::Ended(_), .. }) => work.forget_ended(slot),
            Some(op) => op.owner = Owner::Nobody,
            None => {}
        }
    }

    /// What the oldest message that fits says of itself, if one has arrived; it stays.
    pub fn iprobe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Option<Status> {
        let want = want(source.into(), tag.into(), Kind::TAGGED);
        probe(&mut self.station.lock(), &want, now_ns())
    }

    /// As [`Endpoint::iprobe`], but waits for the message.
    ///
    /// # Errors
    /// [`Error::PeerDead`] when no such message can come any more.
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status, Error> {
        let found = self.probe_those(source.into(), tag.into(), None);
        found.map(|found| found.expect("a wait without a limit ends with something"))
    }

    /// As [`Endpoint::probe`], for at most `timeout_ns`: `None` then.
    ///
    /// # Errors
    /// As for [`Endpoint::probe`].
    ///
    /// For the boundaries, which wait in parts; not for programs.
    #[doc(hidden)]
    pub fn probe_for(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
        timeout_ns: u64,
    ) -> Result<Option<Status>, Error> {
        self.probe_those(source.into(), tag.into(), Some(timeout_ns))
    }

    fn probe_those(
        &self,
        source: Source,
        tag: Tag,
        timeout_ns: Option<u64>,
    ) -> Result<Option<Status>, Error> {
        let want = want(source, tag, Kind::TAGGED);
        let found =
            self.station.wait(timeout_ns, |work, now_ns| match probe(work, &want, now_ns) {
                Some(status) => Some(Ok(status)),
                None => work.hopeless(&want).map(Err),
            });
        found.transpose()
    }

    /// Takes the oldest message that fits out of the matching, if one has arrived.
    pub fn mprobe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Option<Matched> {
        let want = want(source.into(), tag.into(), Kind::TAGGED);
        let mut work = self.station.lock();
        probe(&mut work, &want, now_ns())?;
        let (arrival, message) = work.matcher.claim(&want)?;
        Some(Matched { source: arrival.source, message })
    }

    /// Receives a message that [`Endpoint::mprobe`] took out, into the start of `into`.
    ///
    /// # Errors
    /// As for [`Endpoint::recv`].
    pub fn mrecv(&self, matched: Matched, into: &mut [u8]) -> Result<Status, Error> {
        lend(|loans| {
            let request = {
                let mut work = self.station.lock();
                let slot = work.ops.insert_receive(|| loans.fill(into), Owner::Request);
                work.deliver(slot, matched.source, matched.message);
                request(&mut work, slot)
            };
            self.wait(request).map(|completion| completion.status)
        })
    }

    /// Makes progress; `true` if something was done.
    pub fn progress(&self) -> bool {
        self.station.lock().progress(now_ns())
    }

    /// How many wires lead to `peer` now: 0 within a node, and for one that is not connected.
    pub fn wires(&self, peer: u32) -> usize {
        self.station.lock().device.wires(PeerId(peer))
    }

    /// What leads to `peer` now, link by link: nothing within a node, and to one that is not
    /// connected.
    pub fn ways(&self, peer: u32) -> Vec<Way> {
        self.station.lock().device.ways(PeerId(peer))
    }

    /// What the devices and links have done so far, by name, and the lengths of the queues.
    pub fn counters(&self) -> Counters {
        self.station.lock().counters()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Groups that boundaries have left open, and detached sends that still wait for room; the
        // device's goodbye follows them.
        let mut work = self.station.lock();
        work.quit_all(now_ns());
        let Remote { reach, windows, .. } = &mut work.remote;
        reach.introduces_no_more(windows);
        drop(work);
        finish(&self.station, |work, now_ns| {
            work.progress(now_ns);
            !work.has_waiting() && !work.joints.is_leaving()
        });
        close(&self.station);
    }
}

/// The envelope of a tagged message.
fn tagged(tag: u64) -> Envelope {
    Envelope { tag, kind: Kind::TAGGED, ..Envelope::default() }
}

fn want(source: Source, tag: Tag, kind: Kind) -> Want {
    Want { source: source.peer(), tag: tag.tag, ignore: tag.ignore, kind }
}

/// The request for an operation.
#[inline]
fn request(work: &mut EndpointWork, slot: u32) -> Request {
    let generation = work.ops.at(slot).generation;
    Request { inner: Inner::Op { slot, generation } }
}

/// Whether an operation has ended, before or after a round of progress; so has one that is none.
#[inline]
fn is_finished(work: &mut EndpointWork, slot: u32, generation: u32, now_ns: u64) -> bool {
    let has_ended = |work: &mut EndpointWork| {
        let op = work.ops.named(slot, generation);
        op.is_none_or(|op| matches!(op.state, State::Ended(_)))
    };
    has_ended(work) || {
        work.progress(now_ns);
        has_ended(work)
    }
}

/// The end of an operation, if it has come, before or after a round of progress.
fn finished(
    work: &mut EndpointWork,
    slot: u32,
    generation: u32,
    now_ns: u64,
) -> Option<Result<Completion, Error>> {
    let ended = is_finished(work, slot, generation, now_ns);
    ended.then(|| take_finished(work, slot, generation))
}

/// The end of an operation that has come: the operation is no more.
#[inline]
fn take_finished(work: &mut EndpointWork, slot: u32, generation: u32) -> Result<Completion, Error> {
    let op = work.ops.named(slot, generation).ok_or(Error::NoRequest)?;
    let State::Ended(result) = &mut op.state else { return Err(Error::NoRequest) };
    let result = std::mem::replace(result, Err(Error::NoRequest));
    let buffer = work.ops.remove(slot).into_vec().unwrap_or_default();
    result.map(|status| Completion { status, buffer })
}

/// Looks for a message that fits, before or after a round of progress, and after one more if that
/// has found something for others.
fn probe(work: &mut EndpointWork, want: &Want, now_ns: u64) -> Option<Status> {
    let found = |work: &mut EndpointWork| {
        work.matcher.peek(want).map(|(arrival, message)| message.status(arrival.source))
    };
    found(work).or_else(|| {
        work.awaits(want.source);
        let did = work.progress(now_ns);
        found(work).or_else(|| {
            let did = did && work.progress(now_ns);
            if did { found(work) } else { None }
        })
    })
}
