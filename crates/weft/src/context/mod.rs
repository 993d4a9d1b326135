//! The context: a channel's state, with numbered peers, and reliable ordered messages that are
//! built and read in place (PM2's model).
//!
//! Sending: [`Context::reserve`] room for a message in the device's own memory, fill it in place,
//! send. Receiving: [`Context::recv`] gives a [`Message`] that borrows the device's memory and
//! gives it back when it is dropped. A message is at most [`Context::message_max`] bytes; for
//! longer ones, tags and matching there is the endpoint.

mod message;
mod open;
mod work;

use std::sync::Arc;

use weft_device::page::{Doing, Shower};
use weft_device::patience::Patience;
use weft_device::station::{Station, Work};
use weft_sys::clock::now_ns;
use weft_wire::{Envelope, Kind, PeerId};

use crate::device::{Caps, Counters, Device};
use crate::error::Error;
use crate::shm::{Memory, Regions};

pub use message::{Message, SendBuf};
pub(crate) use open::alone;
pub use open::{ContextOptions, DeviceKind};
use work::ContextWork;
pub(crate) use work::Early;

/// How long an ending context goes on until what it has sent has arrived, ns. Longer only while its
/// device owes messages to peers that live.
pub(crate) const CLOSE_NS: u64 = 5_000_000_000;

/// What a context keeps about its place among its peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// This process's number.
    pub rank: PeerId,
    /// How many processes there are.
    pub size: u32,
    /// How many of them are on this node: where they outnumber the cores, waits do not spin.
    pub on_node: u32,
}

/// A channel's state: see the module's page.
pub struct Context {
    station: Option<Station<ContextWork>>,
    place: Place,
    spin_ns: u64,
    /// Where memory is allocated that peers of the node copy from directly.
    regions: Arc<Regions>,
    /// The node of each peer; empty where that is not known.
    nodes: Arc<[u64]>,
    /// What is to be kept as long as the context: its claim on the channel.
    kept: Option<Box<dyn Send + Sync>>,
}

impl Context {
    /// A context on a device whose peers are associated already.
    ///
    /// # Errors
    /// [`Error::Os`] when the tender thread cannot be started.
    pub fn on_device(
        device: Box<dyn Device>,
        place: Place,
        spin_ns: u64,
    ) -> Result<Context, Error> {
        Context::shown(device, place, spin_ns, Shower::default())
    }

    /// As [`Context::on_device`], with a page.
    fn shown(
        device: Box<dyn Device>,
        place: Place,
        spin_ns: u64,
        shower: Shower,
    ) -> Result<Context, Error> {
        let others = place.size.saturating_sub(1) as usize;
        let mut work = ContextWork::new(device, others);
        work.shower = shower;
        let station = Station::new(work, patience(&place, spin_ns))?;
        let regions = Arc::default();
        let nodes = Arc::new([]);
        Ok(Context { station: Some(station), place, spin_ns, regions, nodes, kept: None })
    }

    /// Says on which node each rank is, by rank: groups go by it.
    pub fn located(mut self, nodes: &[u64]) -> Context {
        self.nodes = nodes.into();
        self
    }

    /// Has memory that is allocated be the device's, of which that knows: without it, peers of the
    /// same node do not copy from it directly.
    pub fn allocating(mut self, regions: Arc<Regions>) -> Context {
        self.regions = regions;
        self
    }

    /// Memory for messages that a peer of the same node copies from directly, which is faster than
    /// any other way for large ones. It may be used like any other memory as well.
    ///
    /// # Errors
    /// [`Error::Os`] when memory is short.
    pub fn allocate(&self, len: usize) -> Result<Memory, Error> {
        self.regions.allocate(len)
    }

    fn station(&self) -> &Station<ContextWork> {
        self.station.as_ref().expect("a context has its station until it ends")
    }

    /// This process's number among its peers.
    pub fn rank(&self) -> u32 {
        self.place.rank.0
    }

    /// How many processes there are, this one included.
    pub fn size(&self) -> u32 {
        self.place.size
    }

    /// See [`Place`].
    pub fn place(&self) -> Place {
        self.place
    }

    /// What the device can do with `peer`.
    pub fn caps(&self, peer: u32) -> Caps {
        self.station().lock().device.caps(PeerId(peer))
    }

    /// Bytes of the longest message to `peer`.
    pub fn message_max(&self, peer: u32) -> usize {
        self.caps(peer).eager_max
    }

    /// Room for a message of `len` bytes to `peer`, in the device's own memory; waits while there
    /// is none.
    ///
    /// # Errors
    /// [`Error::PeerDead`], [`Error::TooLong`], [`Error::UnknownPeer`].
    pub fn reserve(&mut self, peer: u32, len: usize) -> Result<SendBuf<'_>, Error> {
        let peer = PeerId(peer);
        let mut work = self.station().lock();
        match work.reserve(peer, len) {
            Some(result) => result?,
            None => {
                drop(work);
                work = self.wait_for_room(peer, len)?;
            }
        }
        Ok(SendBuf::new(work, len))
    }

    /// Waits until a reserve works. Messages that arrive meanwhile are put aside: two processes
    /// that both send without receiving do not block each other.
    #[cold]
    fn wait_for_room(&self, peer: PeerId, len: usize) -> Result<message::Guard<'_>, Error> {
        let mut reserved = None;
        let work = self.station().wait_until(None, |work, now_ns| {
            work.tend(now_ns);
            reserved = work.reserve(peer, len);
            reserved.is_some()
        });
        let (work, reserved) = work.zip(reserved).expect("a wait without a limit ends");
        reserved.map(|()| work)
    }

    /// Room for a message, if there is some now: otherwise `None`. Messages that arrive meanwhile
    /// are put aside, as in [`Context::reserve`].
    ///
    /// # Errors
    /// As for [`Context::reserve`].
    pub fn try_reserve(&mut self, peer: u32, len: usize) -> Result<Option<SendBuf<'_>>, Error> {
        let (mut work, peer) = (self.station().lock(), PeerId(peer));
        // Who calls this again and again keeps the tender away, and so has to make progress here:
        // it would answer nobody else, and be taken for dead.
        let reserved = work.reserve(peer, len).or_else(|| {
            work.tend(now_ns());
            work.reserve(peer, len)
        });
        match reserved {
            Some(result) => result.map(|()| Some(SendBuf::new(work, len))),
            None => Ok(None),
        }
    }

    /// Sends a copy of `payload` to `peer`, with a tag that the receiver sees.
    ///
    /// # Errors
    /// As for [`Context::reserve`].
    pub fn send(&mut self, peer: u32, tag: u64, payload: &[u8]) -> Result<(), Error> {
        let envelope = Envelope { tag, kind: Kind::PLAIN, ..Envelope::default() };
        // One call of the device where there is room, as there nearly always is.
        if let Some(result) = self.station().lock().send(PeerId(peer), &envelope, payload) {
            return result;
        }
        let mut buf = self.reserve(peer, payload.len())?;
        buf.bytes().copy_from_slice(payload);
        buf.send(&envelope);
        Ok(())
    }

    /// The next message, if one is there.
    ///
    /// # Errors
    /// [`Error::PeerDead`], once for each peer that dies; [`Error::PeerClosed`] when the last of
    /// the others has ended in good order. The context goes on working.
    pub fn try_recv(&mut self) -> Result<Option<Message<'_>>, Error> {
        let now_ns = now_ns();
        let mut work = self.station().lock();
        if !work.advance(now_ns) {
            return Ok(None);
        }
        work.found()?;
        Ok(Some(Message::new(work)))
    }

    /// The next message; waits for it.
    ///
    /// # Errors
    /// As for [`Context::try_recv`].
    pub fn recv(&mut self) -> Result<Message<'_>, Error> {
        self.recv_within(None)
    }

    /// The next message; waits for it for at most `timeout_ns`.
    ///
    /// # Errors
    /// As for [`Context::try_recv`], and [`Error::TimedOut`].
    pub fn recv_timeout(&mut self, timeout_ns: u64) -> Result<Message<'_>, Error> {
        self.recv_within(Some(timeout_ns))
    }

    #[inline]
    fn recv_within(&self, timeout_ns: Option<u64>) -> Result<Message<'_>, Error> {
        let found = self.station().wait_until(timeout_ns, ContextWork::advance);
        let Some(mut work) = found else {
            return Err(Error::TimedOut { after_ns: timeout_ns.unwrap_or(0) });
        };
        work.found()?;
        Ok(Message::new(work))
    }

    /// Hands everything that waits for company to the medium now.
    pub fn flush(&mut self) {
        self.station().lock().device.flush(now_ns());
    }

    /// What the devices and links have done so far, by name.
    pub fn counters(&self) -> Counters {
        self.station().lock().device.counters()
    }

    /// What an endpoint takes over. `None`: the context has no state any more.
    pub(crate) fn into_parts(mut self) -> Option<Parts> {
        let ContextWork { device, early, dead, shower, .. } = self.station.take()?.into_inner()?;
        let regions = Arc::clone(&self.regions);
        let kept = self.kept.take();
        let (place, spin_ns, nodes) = (self.place, self.spin_ns, Arc::clone(&self.nodes));
        Some(Parts { device, shower, early, dead, place, spin_ns, regions, nodes, kept })
    }
}

/// What a context is made of.
pub(crate) struct Parts {
    pub(crate) device: Box<dyn Device>,
    /// By which it is seen from outside.
    pub(crate) shower: Shower,
    /// What has arrived for the endpoint already, and who is gone.
    pub(crate) early: Vec<Early>,
    pub(crate) dead: Vec<(PeerId, Error)>,
    pub(crate) place: Place,
    pub(crate) spin_ns: u64,
    pub(crate) regions: Arc<Regions>,
    /// The node of each peer; empty where that is not known.
    pub(crate) nodes: Arc<[u64]>,
    pub(crate) kept: Option<Box<dyn Send + Sync>>,
}

/// How to wait in a context at `place`.
pub(crate) fn patience(place: &Place, spin_ns: u64) -> Patience {
    // Each rank may be bound to a processor of its own, so what this one may use says nothing.
    // Ranks that are bound to the same few are found out by how long a yield takes.
    Patience::new(spin_ns, place.on_node as usize, weft_sys::cpu::shared())
}

/// Says goodbye and goes on, within a limit, until what was sent has arrived.
pub(crate) fn close<W: Work>(station: &Station<W>) {
    {
        let mut work = station.lock();
        work.leave();
        work.device().close(now_ns());
    }
    finish(station, |work, now_ns| {
        work.tend(now_ns);
        work.device().flush(now_ns);
        !work.device().busy()
    });
    station.lock().show(Doing::Ends);
}

/// Calls `step` until it is done, or for [`CLOSE_NS`], or as long as messages may yet be taken.
pub(crate) fn finish<W: Work>(station: &Station<W>, mut step: impl FnMut(&mut W, u64) -> bool) {
    while station.wait(Some(CLOSE_NS), |work, now_ns| step(work, now_ns).then_some(())).is_none() {
        if !station.lock().device().owes(now_ns()) {
            let waited_s = CLOSE_NS / 1_000_000_000;
            tracing::warn!("not all that was sent has been taken: given up after {waited_s} s");
            return;
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(station) = &self.station {
            close(station);
        }
    }
}
