//! Tagged messages.

use pyo3::prelude::*;
use weft::endpoint::{Source, Status as NativeStatus, Tag as NativeTag};
use weft_wire::{Envelope, Kind};

use crate::endpoint::Endpoint;
use crate::error::Failure;
use crate::memory::{Memory, Use};
use crate::request::Request;
use crate::wait::{Limit, in_slices};

/// What `weft.ANY` is: whoever sends first, or every tag.
#[pyclass(frozen, module = "weft", name = "AnyOf")]
pub struct AnyOf;

#[pymethods]
impl AnyOf {
    fn __repr__(&self) -> &'static str {
        "weft.ANY"
    }
}

/// Which tags to receive: those that agree with `tag` in every bit that is not in `ignore`.
#[pyclass(frozen, eq, hash, module = "weft")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The tag, 0 to 2**64 - 1.
    #[pyo3(get)]
    tag: u64,
    /// The bits of it that do not matter.
    #[pyo3(get)]
    ignore: u64,
}

#[pymethods]
impl Tag {
    #[new]
    #[pyo3(signature = (tag, ignore=0))]
    fn new(tag: u64, ignore: u64) -> Tag {
        Tag { tag, ignore }
    }

    fn __repr__(&self) -> String {
        format!("weft.Tag({:#x}, ignore={:#x})", self.tag, self.ignore)
    }
}

/// What a message says of itself.
#[pyclass(frozen, eq, module = "weft")]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Status {
    /// The rank that sent it; of an operation that does not receive, its other rank.
    #[pyo3(get)]
    source: u32,
    /// Its tag.
    #[pyo3(get)]
    tag: u64,
    /// Bytes that it has.
    #[pyo3(get)]
    len: usize,
}

#[pymethods]
impl Status {
    fn __repr__(&self) -> String {
        let Status { source, tag, len } = self;
        format!("weft.Status(source={source}, tag={tag}, len={len})")
    }
}

impl Status {
    /// The library's.
    pub fn of(status: &NativeStatus) -> Status {
        Status { source: status.source, tag: status.tag(), len: status.len }
    }
}

/// A rank to receive from, or `ANY`.
fn source_of(endpoint: &Endpoint, source: &Bound<'_, PyAny>) -> Result<Source, Failure> {
    if source.is_instance_of::<AnyOf>() {
        return Ok(Source::Any);
    }
    match source.extract::<u32>() {
        Ok(rank) => endpoint.checked_rank(rank).map(Source::Rank),
        Err(_) => Err(no_rank(endpoint, &source.repr()?.to_string())),
    }
}

/// A tag to receive, a `Tag` or `ANY`.
fn tag_of(tag: &Bound<'_, PyAny>) -> Result<NativeTag, Failure> {
    if let Ok(tag) = tag.extract::<u64>() {
        return Ok(tag.into());
    }
    if tag.is_instance_of::<AnyOf>() {
        return Ok(NativeTag::ANY);
    }
    if let Ok(tag) = tag.cast::<Tag>() {
        let Tag { tag, ignore } = *tag.get();
        return Ok(NativeTag::masked(tag, ignore));
    }
    let what = tag.repr()?;
    Err(Failure::Argument(format!(
        "{what} is no tag: give a whole number from 0 to 2**64 - 1, weft.ANY, or weft.Tag(tag, \
         ignore)"
    )))
}

fn no_rank(endpoint: &Endpoint, what: &str) -> Failure {
    let last = endpoint.size() - 1;
    Failure::Argument(format!("{what} is no rank of this job: ranks are 0 to {last}"))
}

fn envelope(tag: u64) -> Envelope {
    Envelope { tag, kind: Kind::TAGGED, ..Envelope::default() }
}

impl Endpoint {
    /// # Errors
    /// [`Failure::Argument`] if there is no such rank.
    pub fn checked_rank(&self, rank: u32) -> Result<u32, Failure> {
        if rank >= self.size() {
            return Err(no_rank(self, &rank.to_string()));
        }
        Ok(rank)
    }
}

#[pymethods]
impl Endpoint {
    /// Sends `data` to rank `peer`: anything whose memory lies in one piece. Waits until the memory
    /// may be changed again, which for a large message is when the receiver has taken it; for at
    /// most `timeout_s` seconds: then it is taken back, which a receiver that had heard of it
    /// already is told.
    ///
    /// Raises `PeerDead`, `PeerClosed`, `TimedOut`, `BadArgument`.
    #[pyo3(signature = (peer, tag, data, timeout_s=None))]
    fn send(
        &self,
        py: Python<'_>,
        peer: u32,
        tag: u64,
        data: &Bound<'_, PyAny>,
        timeout_s: Option<f64>,
    ) -> Result<(), Failure> {
        let (peer, limit) = (self.checked_rank(peer)?, Limit::after(timeout_s)?);
        let memory = Memory::of(data, Use::Read)?;
        let (envelope, buf) = (envelope(tag), memory.buf());
        let start = move |endpoint: &weft::endpoint::Endpoint| {
            Ok(endpoint.start_send(peer, &envelope, &buf)?)
        };
        self.run(py, [Some(memory), None], limit, start).map(drop)
    }

    /// Receives a message from rank `source` with `tag` into the start of `into`, and gives its
    /// `Status`. `source` may be `ANY`; `tag` may be `ANY`, or a `Tag` with bits to ignore. Waits
    /// for it for at most `timeout_s` seconds: then nothing was received.
    ///
    /// Raises `Truncated` if the message is longer than `into`, `PeerDead`, `PeerClosed`,
    /// `TimedOut`, `BadArgument`.
    #[pyo3(signature = (source, tag, into, timeout_s=None))]
    fn recv(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        tag: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
        timeout_s: Option<f64>,
    ) -> Result<Status, Failure> {
        let (source, tag) = (source_of(self, source)?, tag_of(tag)?);
        let limit = Limit::after(timeout_s)?;
        let memory = Memory::of(into, Use::Fill)?;
        let buf = memory.buf();
        let start = |endpoint: &weft::endpoint::Endpoint| {
            Ok(Some(endpoint.start_receive(source, tag, Kind::TAGGED, buf)))
        };
        let ended = self.run(py, [Some(memory), None], limit, start)?;
        Ok(ended.map(|completion| Status::of(&completion.status)).unwrap_or_default())
    }

    /// Starts to send `data`, which must not be changed until the request has ended.
    ///
    /// Raises `PeerDead`, `PeerClosed`, `BadArgument`.
    fn isend(
        slf: &Bound<'_, Self>,
        peer: u32,
        tag: u64,
        data: &Bound<'_, PyAny>,
    ) -> Result<Request, Failure> {
        let peer = slf.get().checked_rank(peer)?;
        let memory = Memory::of(data, Use::Read)?;
        let (envelope, buf) = (envelope(tag), memory.buf());
        let start = move |endpoint: &weft::endpoint::Endpoint| {
            Ok(endpoint.start_send(peer, &envelope, &buf)?)
        };
        let at_once = Status { source: peer, tag, len: memory.len() };
        Endpoint::start(slf, [Some(memory), None], at_once, start)
    }

    /// Starts to receive into the start of `into`; `source` and `tag` as for `recv`.
    ///
    /// Raises `BadArgument`.
    fn irecv(
        slf: &Bound<'_, Self>,
        source: &Bound<'_, PyAny>,
        tag: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
    ) -> Result<Request, Failure> {
        let (source, tag) = (source_of(slf.get(), source)?, tag_of(tag)?);
        let memory = Memory::of(into, Use::Fill)?;
        let buf = memory.buf();
        let start = |endpoint: &weft::endpoint::Endpoint| {
            Ok(Some(endpoint.start_receive(source, tag, Kind::TAGGED, buf)))
        };
        Endpoint::start(slf, [Some(memory), None], Status::default(), start)
    }

    /// Waits for all requests, for at most `timeout_s` seconds, and gives their `Status` in the
    /// same order. Raises the first error, after all have ended; `TimedOut` if some go on.
    #[pyo3(signature = (requests, timeout_s=None))]
    fn wait_all(
        &self,
        py: Python<'_>,
        requests: Vec<Py<Request>>,
        timeout_s: Option<f64>,
    ) -> Result<Vec<Status>, Failure> {
        let limit = Limit::after(timeout_s)?;
        let mut ends = Vec::with_capacity(requests.len());
        for request in &requests {
            match request.get().wait_until(py, limit) {
                Err(Failure::Python(signal)) => return Err(signal.into()),
                end => ends.push(end),
            }
        }
        ends.into_iter().collect()
    }

    /// What the oldest message that fits says of itself, if one has arrived; it stays. `source` and
    /// `tag` as for `recv`.
    fn iprobe(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        tag: &Bound<'_, PyAny>,
    ) -> Result<Option<Status>, Failure> {
        let (source, tag) = (source_of(self, source)?, tag_of(tag)?);
        let found = py.detach(|| self.with(|endpoint| Ok(endpoint.iprobe(source, tag))))?;
        Ok(found.as_ref().map(Status::of))
    }

    /// As `iprobe`, but waits for the message, for at most `timeout_s` seconds.
    ///
    /// Raises `PeerDead` or `PeerClosed` when none can come any more, `TimedOut`.
    #[pyo3(signature = (source, tag, timeout_s=None))]
    fn probe(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        tag: &Bound<'_, PyAny>,
        timeout_s: Option<f64>,
    ) -> Result<Status, Failure> {
        let (source, tag) = (source_of(self, source)?, tag_of(tag)?);
        let found = in_slices(py, Limit::after(timeout_s)?, |slice_ns| {
            self.with(|endpoint| Ok(endpoint.probe_for(source, tag, slice_ns)?))
        })?;
        Ok(Status::of(&found))
    }
}
