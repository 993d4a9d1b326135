//! An endpoint's calls for [regions](crate::region): what programs see of windows.

use weft_proto::msg::matching::Want;
use weft_sys::buf::{Buf, lend};
use weft_sys::plain::Plain;
use weft_wire::{Envelope, Kind, PeerId};

use super::ops::{Owner, State};
use super::reach::{self, mark_bytes, marked};
use super::request::Inner;
use super::turn::{Along, Atomic};
use super::work::EndpointWork;
use super::{Endpoint, Request, Scope, Source, is_finished, request};
use crate::error::Error;
use crate::region::joined::Joining;
use crate::region::{
    Element, HANDLE_LEN, Joined, Notice, OwnedRegion, Region, RegionHandle, bytes_of, elements,
};
use crate::remote::{AtomicOp, ELEMENTS_MAX, Rights, Scalar, Spot};

const GET: Rights = Rights { get: true, put: false };
const PUT: Rights = Rights { get: false, put: true };

/// Whose memory a region has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LentBy {
    /// Weft's, or a vector's that was given: it lives as long as somebody uses it.
    Nobody,
    /// A scope's: nobody may use it once the region is dropped.
    Scope,
}

/// What is done to a row of numbers, as bytes in the byte order of the machine.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// What is done with each.
    pub op: AtomicOp,
    /// Their type.
    pub scalar: Scalar,
    /// As many as there are numbers, also where `op` does not look at them.
    pub operands: &'a [u8],
    /// As many, if `op` compares; otherwise none.
    pub comparands: &'a [u8],
    /// Where what they were goes, if that is wanted: as long as `operands`.
    pub former: Option<Buf>,
}

/// Regions: see [`region`](crate::region).
impl Endpoint {
    /// Registers `len` bytes of memory that Weft allocates: zeroed, at the beginning of a page, and
    /// reached by peers of the same node with one plain copy.
    ///
    /// # Errors
    /// [`Error::Os`] when memory is short, [`Error::Region`] without any right.
    pub fn region(&self, len: usize, rights: Rights) -> Result<Region<'_>, Error> {
        self.allocated(len, rights, LentBy::Nobody).map(|(region, _)| region)
    }

    /// As [`Endpoint::region`]; gives the memory as well, which lives as long as somebody has it.
    /// So the region's drop waits as if the memory were borrowed; a peer of the same node that is
    /// copying by itself in that moment is not waited for.
    ///
    /// # Errors
    /// As for [`Endpoint::region`].
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn region_and_memory(
        &self,
        len: usize,
        rights: Rights,
    ) -> Result<(Region<'_>, Buf), Error> {
        self.allocated(len, rights, LentBy::Scope)
    }

    fn allocated(
        &self,
        len: usize,
        rights: Rights,
        lent_by: LentBy,
    ) -> Result<(Region<'_>, Buf), Error> {
        let (all, at_mark) = marked(len).ok_or_else(|| {
            Error::region(format!("a region of {len} bytes: no memory is as long"))
        })?;
        if !rights.put {
            let memory = self.allocate(len)?.into_buf();
            let region = self.open_region(&memory, rights, lent_by, None)?;
            return Ok((region, memory));
        }
        let memory = self.regions.allocate_open(all)?;
        let mark = memory.range(at_mark, all - at_mark);
        let memory = memory.truncated(len);
        let region = self.open_region(&memory, rights, lent_by, Some(mark))?;
        Ok((region, memory))
    }

    /// Registers a vector of numbers, which [`OwnedRegion::into_vec`] gives back.
    ///
    /// # Errors
    /// [`Error::Region`] without any right; the vector is dropped then.
    pub fn register<T: Plain>(
        &self,
        numbers: Vec<T>,
        rights: Rights,
    ) -> Result<OwnedRegion<'_, T>, Error> {
        let memory = Buf::from_numbers(numbers);
        let region = self.open_region(&memory, rights, LentBy::Nobody, None)?;
        Ok(OwnedRegion::new(region, memory))
    }

    /// The vector of a region that was dropped, as soon as nobody moves bytes of it any more.
    pub(crate) fn take_back<T: Plain>(&self, mut memory: Buf) -> Vec<T> {
        let vec = self.station.wait(None, |work, now_ns| {
            match std::mem::replace(&mut memory, Buf::empty()).into_numbers() {
                Ok(vec) => Some(vec),
                Err(in_use) => {
                    memory = in_use;
                    work.progress(now_ns);
                    None
                }
            }
        });
        vec.unwrap_or_default()
    }

    /// Joins memory here with such memory of `peer`, which makes the same call with this rank and
    /// the same `number`: each then moves bytes to the other's. `len` is this end's, and may
    /// differ.
    ///
    /// # Errors
    /// [`Error::Os`] when memory is short; [`Error::PeerDead`], [`Error::PeerClosed`],
    /// [`Error::UnknownPeer`].
    pub fn join(&self, peer: u32, number: u32, len: usize) -> Result<Joined<'_>, Error> {
        let mut joining = self.start_join(peer, number, len)?;
        loop {
            if let Some(joined) = joining.wait_for(u64::MAX)? {
                return Ok(joined);
            }
        }
    }

    /// Starts what [`Endpoint::join`] does.
    ///
    /// # Errors
    /// As for [`Endpoint::join`].
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn start_join(&self, peer: u32, number: u32, len: usize) -> Result<Joining<'_>, Error> {
        let (own, memory) = self.allocated(len, PUT, LentBy::Nobody)?;
        let tag = u64::from(number);
        let envelope = Envelope { tag, kind: Kind::JOIN, ..Envelope::default() };
        let handle = Buf::from_vec(own.handle().to_bytes().to_vec());
        if let Some(sent) = self.start_send(peer, &envelope, &handle)? {
            // A peer that does not get it sends none: that is waited for.
            self.detach(sent);
        }
        let came = Buf::from_vec(vec![0; HANDLE_LEN]);
        let came = self.start_receive(Source::Rank(peer), tag.into(), Kind::JOIN, came);
        Ok(Joining::new(self, peer, (own, memory), came))
    }

    /// Waits until operations have ended, for at most `timeout_ns`; how they did is told by a wait
    /// for each. `false`: the time is over.
    pub(crate) fn have_ended(&self, requests: &[Request], timeout_ns: Option<u64>) -> bool {
        let under_way = requests.iter().filter_map(|request| match request.inner {
            Inner::Op { slot, generation } => Some((slot, generation)),
            Inner::Ended(..) => None,
        });
        self.wait_for_those(under_way.collect(), timeout_ns)
    }

    /// As [`Endpoint::iput`], of any memory; tells as well whether later puts may overtake it.
    pub(crate) fn put_from(
        &self,
        to: &RegionHandle,
        offset: u64,
        from: &Buf,
        value: Option<u64>,
    ) -> Result<(Request, bool), Error> {
        let request = self.start_put(to, offset, from, value)?;
        let goes_at_once = self.turn(|turn| turn.puts_at_once(to.rank, from.len()));
        Ok((request, !goes_at_once))
    }

    /// A notice of one's own region, which only `peer` writes to.
    pub(crate) fn notice_of(
        &self,
        region: &RegionHandle,
        peer: u32,
        timeout_ns: Option<u64>,
    ) -> Result<Notice, Error> {
        self.wait_notice_from(region.key, Some(PeerId(peer)), timeout_ns)
    }

    /// Registers memory that stays valid by its [`Buf`] until the region has been dropped.
    ///
    /// # Errors
    /// [`Error::Region`] without any right.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn register_buf(&self, buf: &Buf, rights: Rights) -> Result<Region<'_>, Error> {
        self.open_region(buf, rights, LentBy::Scope, None)
    }

    /// With a `mark`, which lies behind it, peers of the node may reach the memory by themselves.
    fn open_region(
        &self,
        buf: &Buf,
        rights: Rights,
        lent_by: LentBy,
        mark: Option<Buf>,
    ) -> Result<Region<'_>, Error> {
        if rights == Rights::default() {
            let why = "a region without any right is of no use: register it with `Rights::ALL`, or \
                       with the right to get or to put";
            return Err(Error::region(why));
        }
        let mut work = self.station.lock();
        let windows = work.remote.windows.clone();
        let key = windows.open_region(buf, rights, lent_by == LentBy::Scope, mark.clone())?;
        work.remote.notes.notices.open(key);
        // Without a job each peer has another number for this process.
        let rank = match &work.door {
            Some(door) => door.own().map_or(u32::MAX, |own| own.0),
            None => self.rank(),
        };
        let len = buf.len() as u64;
        let addr = mark.map_or(0, |mark| {
            mark.write(0, &mark_bytes(reach::mark(key, len, rights)));
            buf.pieces().next().map_or(0, |piece| piece.addr() as u64)
        });
        let handle = RegionHandle { rank, key, len, rights, addr };
        Ok(Region::new(self, windows, handle, lent_by))
    }

    /// Closes a region, if it is still open. Memory that was lent is its lender's again.
    pub(crate) fn drop_region(&self, key: u64, lent_by: LentBy) {
        let closing = self.station.lock().close_region(key);
        if let Some(closing) = closing.filter(|_| lent_by == LentBy::Scope) {
            let _ = self.station.wait_until(None, |work, now_ns| {
                closing.is_over() || {
                    work.progress(now_ns);
                    closing.is_over()
                }
            });
        }
    }

    pub(crate) fn try_notice(&self, key: u64) -> Option<Notice> {
        notice(&mut self.station.lock(), key, weft_sys::clock::now_ns())
    }

    pub(crate) fn wait_notice(&self, key: u64, timeout_ns: Option<u64>) -> Result<Notice, Error> {
        self.wait_notice_from(key, None, timeout_ns)
    }

    /// As [`Endpoint::wait_notice`]; without a `source`, all others must be gone for it to end.
    fn wait_notice_from(
        &self,
        key: u64,
        source: Option<PeerId>,
        timeout_ns: Option<u64>,
    ) -> Result<Notice, Error> {
        let want = Want { source, tag: 0, ignore: u64::MAX, kind: Kind::PUT };
        let found = self.station.wait(timeout_ns, |work, now_ns| match notice(work, key, now_ns) {
            Some(notice) => Some(Ok(notice)),
            None => work.hopeless(&want).map(Err),
        });
        found.unwrap_or(Err(Error::TimedOut { after_ns: timeout_ns.unwrap_or(0) }))
    }

    /// Writes `bytes` to a region, from `offset` on; waits until they are there.
    ///
    /// # Errors
    /// [`Error::Region`], [`Error::Refused`], [`Error::PeerDead`], [`Error::PeerClosed`],
    /// [`Error::UnknownPeer`]: see [`region`](crate::region#errors).
    pub fn put(&self, to: &RegionHandle, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.put_along(to, offset, bytes, None)
    }

    /// As [`Endpoint::put`]; then the region's owner is told `value`, by a [`Notice`].
    ///
    /// # Errors
    /// As for [`Endpoint::put`]; [`Error::Refused`] also if the owner leaves too many notices
    /// ([`NOTICES_MAX`](crate::region::NOTICES_MAX)).
    pub fn put_with(
        &self,
        to: &RegionHandle,
        offset: u64,
        bytes: &[u8],
        value: u64,
    ) -> Result<(), Error> {
        self.put_along(to, offset, bytes, Some(value))
    }

    fn put_along(
        &self,
        to: &RegionHandle,
        offset: u64,
        bytes: &[u8],
        value: Option<u64>,
    ) -> Result<(), Error> {
        lend(|loans| {
            let request = self.start_put(to, offset, &loans.read(bytes), value)?;
            self.wait(request).map(drop)
        })
    }

    /// Starts to write a vector to a region; it comes back with the end of the operation, when its
    /// bytes are there.
    ///
    /// # Errors
    /// As for [`Endpoint::put`]; what the owner refuses is told by the operation's end.
    pub fn iput(&self, to: &RegionHandle, offset: u64, bytes: Vec<u8>) -> Result<Request, Error> {
        let bytes = Buf::from_vec(bytes);
        Ok(self.start_put(to, offset, &bytes, None)?.with(bytes))
    }

    /// As [`Endpoint::iput`], with a value as of [`Endpoint::put_with`].
    ///
    /// # Errors
    /// As for [`Endpoint::iput`].
    pub fn iput_with(
        &self,
        to: &RegionHandle,
        offset: u64,
        bytes: Vec<u8>,
        value: u64,
    ) -> Result<Request, Error> {
        self.start_put(to, offset, &Buf::from_vec(bytes), Some(value))
    }

    /// Starts to write memory that stays valid by its [`Buf`] to a region, with a value for its
    /// owner or without.
    ///
    /// # Errors
    /// As for [`Endpoint::iput`].
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn start_put(
        &self,
        to: &RegionHandle,
        offset: u64,
        from: &Buf,
        value: Option<u64>,
    ) -> Result<Request, Error> {
        let at = self.place(to, offset, from.len(), PUT)?;
        let along = Along { data: value, share: None };
        let mut work = self.station.lock();
        // A value is a request: its owner is told by it.
        if value.is_none()
            && let Some(there) = work.reached(to)
        {
            drop(work);
            there.put(offset, from);
            return Ok(Request::ended(reach::done(to, Kind::PUT, from.len()), Buf::empty()));
        }
        let slot = work.put(PeerId(to.rank), from, at, along, Owner::Request)?;
        let request = request(&mut work, slot);
        work.has_sent(from.len());
        self.give_back(work);
        Ok(request)
    }

    /// Reads bytes of a region, from `offset` on, as many as `into` has; waits for them.
    ///
    /// # Errors
    /// As for [`Endpoint::put`].
    pub fn get(&self, from: &RegionHandle, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        lend(|loans| {
            let request = self.start_get(from, offset, loans.fill(into))?;
            self.wait(request).map(drop)
        })
    }

    /// Starts to read bytes of a region into a vector, over its whole length; it comes back with
    /// the end of the operation.
    ///
    /// # Errors
    /// As for [`Endpoint::iput`].
    pub fn iget(
        &self,
        from: &RegionHandle,
        offset: u64,
        buffer: Vec<u8>,
    ) -> Result<Request, Error> {
        self.start_get(from, offset, Buf::from_vec(buffer))
    }

    /// Starts to read bytes of a region into memory that stays valid by its [`Buf`].
    ///
    /// # Errors
    /// As for [`Endpoint::iput`].
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn start_get(&self, from: &RegionHandle, offset: u64, into: Buf) -> Result<Request, Error> {
        let at = self.place(from, offset, into.len(), GET)?;
        let mut work = self.station.lock();
        if let Some(there) = work.reached(from) {
            drop(work);
            there.get(offset, &into);
            return Ok(Request::ended(reach::done(from, Kind::GET, into.len()), into));
        }
        let slot = work.get(PeerId(from.rank), into, at, None, Owner::Request)?;
        let request = request(&mut work, slot);
        work.has_sent(0);
        self.give_back(work);
        Ok(request)
    }

    /// Adds to a number of a region in one step, and gives what it was. Whole numbers wrap around.
    ///
    /// # Errors
    /// As for [`Endpoint::fetch_and_op`].
    pub fn fetch_add<T: Element>(
        &self,
        at: &RegionHandle,
        offset: u64,
        number: T,
    ) -> Result<T, Error> {
        self.fetch_and_op(at, offset, AtomicOp::Sum, &[number]).map(|former| former[0])
    }

    /// Sets a number of a region to `new` if it is `expected`, in one step; gives what it was.
    ///
    /// # Errors
    /// As for [`Endpoint::fetch_and_op`].
    pub fn compare_swap<T: Element>(
        &self,
        at: &RegionHandle,
        offset: u64,
        expected: T,
        new: T,
    ) -> Result<T, Error> {
        let former = self.compare_and_op(at, offset, AtomicOp::SwapIfEqual, &[expected], &[new])?;
        Ok(former[0])
    }

    /// Changes a row of numbers of a region, each in one step, and gives what they were. With
    /// [`AtomicOp::Read`] nothing is changed, and `operands` says how many there are.
    ///
    /// # Errors
    /// As for [`Endpoint::put`]; [`Error::Region`] also if `offset` is no multiple of a number's
    /// size, if there are more than [`ELEMENTS_MAX`], and if the operation is not one for such
    /// numbers, or compares.
    pub fn fetch_and_op<T: Element>(
        &self,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        operands: &[T],
    ) -> Result<Vec<T>, Error> {
        let request = self.ifetch_and_op(at, offset, op, operands)?;
        self.wait(request).map(|completion| elements(&completion.buffer))
    }

    /// As [`Endpoint::fetch_and_op`], with a comparand for each number.
    ///
    /// # Errors
    /// As for [`Endpoint::fetch_and_op`]; [`Error::Region`] also if there is another number of
    /// comparands than of operands.
    pub fn compare_and_op<T: Element>(
        &self,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        comparands: &[T],
        operands: &[T],
    ) -> Result<Vec<T>, Error> {
        let request = self.icompare_and_op(at, offset, op, comparands, operands)?;
        self.wait(request).map(|completion| elements(&completion.buffer))
    }

    /// Changes a row of numbers of a region, each in one step; waits until it has been done.
    ///
    /// # Errors
    /// As for [`Endpoint::fetch_and_op`].
    pub fn accumulate<T: Element>(
        &self,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        operands: &[T],
    ) -> Result<(), Error> {
        let request = self.iaccumulate(at, offset, op, operands)?;
        self.wait(request).map(drop)
    }

    /// Starts what [`Endpoint::fetch_and_op`] does. The former numbers are the bytes of
    /// [`Completion::buffer`](super::Completion::buffer): see [`elements`].
    ///
    /// # Errors
    /// As for [`Endpoint::fetch_and_op`]; what the owner refuses is told by the operation's end.
    pub fn ifetch_and_op<T: Element>(
        &self,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        operands: &[T],
    ) -> Result<Request, Error> {
        self.start_row(at, offset, op, (operands, &[]), true)
    }

    /// Starts what [`Endpoint::compare_and_op`] does. The former numbers are told as by
    /// [`Endpoint::ifetch_and_op`].
    ///
    /// # Errors
    /// As for [`Endpoint::compare_and_op`]; what the owner refuses is told by the operation's end.
    pub fn icompare_and_op<T: Element>(
        &self,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        comparands: &[T],
        operands: &[T],
    ) -> Result<Request, Error> {
        self.start_row(at, offset, op, (operands, comparands), true)
    }

    /// Starts what [`Endpoint::accumulate`] does.
    ///
    /// # Errors
    /// As for [`Endpoint::ifetch_and_op`].
    pub fn iaccumulate<T: Element>(
        &self,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        operands: &[T],
    ) -> Result<Request, Error> {
        self.start_row(at, offset, op, (operands, &[]), false)
    }

    fn start_row<T: Element>(
        &self,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        (operands, comparands): (&[T], &[T]),
        fetch: bool,
    ) -> Result<Request, Error> {
        let (operands, comparands) = (&bytes_of(operands), &bytes_of(comparands));
        let former = fetch.then(|| Buf::from_vec(vec![0; operands.len()]));
        let row = Row { op, scalar: T::SCALAR, operands, comparands, former };
        self.start_atomic(at, offset, row)
    }

    /// Starts to change a row of numbers of a region, each in one step.
    ///
    /// # Errors
    /// As for [`Endpoint::ifetch_and_op`] and [`Endpoint::compare_and_op`].
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn start_atomic(
        &self,
        at: &RegionHandle,
        offset: u64,
        row: Row<'_>,
    ) -> Result<Request, Error> {
        row.check(offset)?;
        let Row { op, scalar, operands, comparands, former } = row;
        let rights = Rights { get: former.is_some(), put: op != AtomicOp::Read };
        let len = operands.len();
        let spot = self.place(at, offset, len, rights)?;
        let buf = |bytes: &[u8]| Buf::from_vec(bytes.to_vec());
        let atomic = Atomic {
            op,
            scalar,
            count: len / scalar.size(),
            operands: &buf(operands),
            comparands: &buf(comparands),
            fetch: former,
        };
        let mut work = self.station.lock();
        let slot = work.atomic(PeerId(at.rank), atomic, spot, Along::default(), Owner::Request)?;
        let request = request(&mut work, slot);
        work.has_sent(0);
        self.give_back(work);
        Ok(request)
    }

    /// Waits until all operations on regions of `peer` that this process has started have ended:
    /// what they have written is there.
    ///
    /// # Errors
    /// How the first operation since the last flush failed whose end nobody asked for. Others tell
    /// their own.
    pub fn flush(&self, peer: u32) -> Result<(), Error> {
        self.flush_those(Some(PeerId(peer)), None).map(drop)
    }

    /// As [`Endpoint::flush`], for all peers.
    ///
    /// # Errors
    /// As for [`Endpoint::flush`].
    pub fn flush_all(&self) -> Result<(), Error> {
        self.flush_those(None, None).map(drop)
    }

    /// As [`Endpoint::flush`] of `peer`, or of all, for at most `timeout_ns`. `false`: operations
    /// are still under way.
    ///
    /// # Errors
    /// As for [`Endpoint::flush`].
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn flush_for(&self, peer: Option<u32>, timeout_ns: u64) -> Result<bool, Error> {
        self.flush_those(peer.map(PeerId), Some(timeout_ns))
    }

    fn flush_those(&self, peer: Option<PeerId>, timeout_ns: Option<u64>) -> Result<bool, Error> {
        // Those of other threads that come meanwhile are not waited for.
        let under_way = self.station.lock().ops.remote_of(peer);
        if !self.wait_for_those(under_way, timeout_ns) {
            return Ok(false);
        }
        let unasked = &mut self.station.lock().ops.unasked;
        let failed = match peer {
            Some(peer) => unasked.remove(&peer),
            None => unasked.drain().min_by_key(|(peer, _)| peer.0).map(|(_, error)| error),
        };
        failed.map_or(Ok(true), Err)
    }

    /// Has what is started on regions of `peer` from now on be done after all that was started
    /// before. Waits for less than [`Endpoint::flush`]: for what later operations could overtake,
    /// which is puts whose bytes the peer fetches and gets; and not at all where there are none.
    pub fn fence(&self, peer: u32) {
        self.fence_those(peer, None);
    }

    /// As [`Endpoint::fence`], waiting for at most `timeout_ns`. `false`: what is started now may
    /// still be done before.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn fence_for(&self, peer: u32, timeout_ns: u64) -> bool {
        self.fence_those(peer, Some(timeout_ns))
    }

    fn fence_those(&self, peer: u32, timeout_ns: Option<u64>) -> bool {
        let under_way = self.station.lock().ops.overtaken_by_later(PeerId(peer));
        self.wait_for_those(under_way, timeout_ns)
    }

    /// Waits for operations, named by slot and generation; how they end is told elsewhere. `false`:
    /// the time is over.
    fn wait_for_those(&self, mut under_way: Vec<(u32, u32)>, timeout_ns: Option<u64>) -> bool {
        let over = self.station.wait_until(timeout_ns, |work, now_ns| {
            while let Some(&(slot, generation)) = under_way.last() {
                if !is_finished(work, slot, generation, now_ns) {
                    return false;
                }
                under_way.pop();
            }
            true
        });
        over.is_some()
    }

    /// Where an operation goes, if the handle says that it can be done.
    fn place(
        &self,
        handle: &RegionHandle,
        offset: u64,
        len: usize,
        rights: Rights,
    ) -> Result<Spot, Error> {
        let (rank, size) = (handle.rank, self.size());
        if self.address.is_none() && rank >= size {
            return Err(Error::region(format!(
                "the handle is of rank {rank}, and this job has {size} ranks: it is of another job"
            )));
        }
        handle.place(offset, len, rights)
    }
}

impl Row<'_> {
    /// Whether it can be done at such an offset.
    fn check(&self, offset: u64) -> Result<(), Error> {
        let Row { op, scalar, operands, comparands, .. } = *self;
        let (size, count) = (scalar.size(), operands.len() / scalar.size());
        let why = if !op.takes(scalar) {
            format!("there is no {op:?} for numbers of type {scalar:?}")
        } else if op.compares() && comparands.len() != operands.len() {
            format!("{op:?} needs a comparand for each operand: use `compare_and_op`")
        } else if !op.compares() && !comparands.is_empty() {
            format!("{op:?} takes no comparands: use `fetch_and_op`")
        } else if count > ELEMENTS_MAX {
            format!("{count} numbers are too many for one operation: {ELEMENTS_MAX} at most")
        } else if !offset.is_multiple_of(size as u64) {
            format!(
                "byte {offset} is not aligned: numbers of type {scalar:?} lie at multiples of \
                 {size}"
            )
        } else {
            return Ok(());
        };
        Err(Error::region(why))
    }
}

/// The oldest notice of a region, before or after a round of progress.
fn notice(work: &mut EndpointWork, key: u64, now_ns: u64) -> Option<Notice> {
    work.remote.notes.notices.take(key).or_else(|| {
        work.progress(now_ns);
        work.remote.notes.notices.take(key)
    })
}

/// Regions of borrowed memory, and operations on regions with it.
impl<'env> Scope<'_, 'env> {
    /// Registers borrowed memory. It can be borrowed again when the scope has ended; when the
    /// region has been dropped, no peer reaches it any more.
    ///
    /// # Errors
    /// [`Error::Region`] without any right.
    pub fn register(&self, memory: &'env mut [u8], rights: Rights) -> Result<Region<'_>, Error> {
        let buf = self.loans.fill(memory);
        let region = self.endpoint.open_region(&buf, rights, LentBy::Scope, None)?;
        self.lent.borrow_mut().push((region.handle().key, buf));
        Ok(region)
    }

    /// As [`Endpoint::iput`], of borrowed memory.
    ///
    /// # Errors
    /// As for [`Endpoint::iput`].
    pub fn iput(
        &self,
        to: &RegionHandle,
        offset: u64,
        bytes: &'env [u8],
    ) -> Result<Request, Error> {
        let request = self.endpoint.start_put(to, offset, &self.loans.read(bytes), None)?;
        Ok(self.note(request))
    }

    /// As [`Endpoint::iput_with`], of borrowed memory.
    ///
    /// # Errors
    /// As for [`Endpoint::iput`].
    pub fn iput_with(
        &self,
        to: &RegionHandle,
        offset: u64,
        bytes: &'env [u8],
        value: u64,
    ) -> Result<Request, Error> {
        let request = self.endpoint.start_put(to, offset, &self.loans.read(bytes), Some(value))?;
        Ok(self.note(request))
    }

    /// As [`Endpoint::iget`], into borrowed memory.
    ///
    /// # Errors
    /// As for [`Endpoint::iput`].
    pub fn iget(
        &self,
        from: &RegionHandle,
        offset: u64,
        into: &'env mut [u8],
    ) -> Result<Request, Error> {
        let request = self.endpoint.start_get(from, offset, self.loans.fill(into))?;
        Ok(self.note(request))
    }
}

impl EndpointWork {
    /// Nobody will ask how an operation ended that has: a flush tells it if it failed at a peer.
    pub(super) fn forget_ended(&mut self, slot: u32) {
        let op = self.ops.at(slot);
        let peer = op.peer;
        if let State::Ended(Err(error)) = &op.state
            && peer.0 != u32::MAX
            && *error != Error::Cancelled
        {
            let error = error.clone();
            self.ops.unasked.entry(peer).or_insert(error);
        }
        self.ops.remove(slot);
    }
}
