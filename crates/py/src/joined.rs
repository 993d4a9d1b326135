//! Joined buffers: two regions that are connected, each at one of two ranks.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use pyo3::ffi;
use pyo3::prelude::*;
use weft::boundary::Joining as NativeJoining;
use weft::error::Error;
use weft::region::Joined as NativeJoined;
use weft_sys::buf::Buf;

use crate::endpoint::{Endpoint, lock};
use crate::error::Failure;
use crate::memory::{Memory, Use};
use crate::region::show;
use crate::shelf;
use crate::wait::{Limit, in_slices};

/// Ends that are open on an endpoint, and joins that have begun.
pub type Ends = shelf::Shelf<NativeJoined<'static>>;
pub type Joins = shelf::Shelf<Mutex<NativeJoining<'static>>>;

/// One end of two joined buffers, made by `endpoint.join(peer, number, len)` at both ranks. A write
/// moves any part of this end to any place of the other one, and a flag wakes the other side: it is
/// seen there after all that was written before it, and after earlier flags.
///
/// It is a buffer of bytes: `memoryview(end)` and `numpy.frombuffer(end, dtype)` show this end in
/// place, and what the peer writes there. Closed (it is a context manager), the peer writes it no
/// more; views of it stay good.
#[pyclass(frozen, weakref, module = "weft")]
pub struct Joined {
    endpoint: Py<Endpoint>,
    number: u64,
    own: Buf,
    peer: u32,
    peer_len: u64,
}

#[pymethods]
impl Joined {
    /// The rank at the other end.
    #[getter]
    fn peer(&self) -> u32 {
        self.peer
    }

    /// Bytes of the other end.
    #[getter]
    fn peer_len(&self) -> u64 {
        self.peer_len
    }

    fn __len__(&self) -> usize {
        self.own.len()
    }

    /// Copies `data` into this end, from byte `offset` on.
    fn fill(&self, offset: u64, data: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let memory = Memory::of(data, Use::Read)?;
        self.with(|end| Ok(end.fill(offset, memory.bytes())?))
    }

    /// Copies bytes of this end, from byte `offset` on, to `into`, over its whole length.
    fn look(&self, offset: u64, into: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let mut memory = Memory::of(into, Use::Fill)?;
        self.with(|end| Ok(end.look(offset, memory.bytes_mut())?))
    }

    /// Starts to move `len` bytes of this end, from byte `offset` on, to byte `to` of the other
    /// one. They must not be changed before the next flag has been given, or a `flush`. What is
    /// written between two flags is unordered.
    ///
    /// Raises `BadArgument` if they are not all inside, here or there; `PeerDead`, `PeerClosed`.
    fn write(&self, py: Python<'_>, offset: u64, to: u64, len: usize) -> Result<(), Failure> {
        // Another thread that is giving a flag is waited for.
        py.detach(|| self.with(|end| Ok(end.write(offset, to, len)?)))
    }

    /// Gives the other side a flag, with a value of 0 to 2**64 - 1. Waits for long writes that it
    /// could overtake.
    ///
    /// Raises as `write`; `Refused` for a long write if the other end was closed.
    fn flag(&self, py: Python<'_>, value: u64) -> Result<(), Failure> {
        in_slices(py, Limit::NONE, |slice_ns| {
            self.with(|end| {
                if !end.settle_for(slice_ns)? {
                    return Ok(None);
                }
                end.flag(value)?;
                Ok(Some(()))
            })
        })
    }

    /// Waits until all that was written is there, and all flags. Raises how the first of them
    /// failed.
    fn flush(&self, py: Python<'_>) -> Result<(), Failure> {
        in_slices(py, Limit::NONE, |slice_ns| {
            self.endpoint.get().with(|endpoint| {
                let is_over = self.native()?.settle_for(slice_ns)?
                    && endpoint.flush_for(Some(self.peer), slice_ns)?;
                Ok(is_over.then_some(()))
            })
        })
    }

    /// The value of the oldest flag that was not taken yet, if there is one. Makes progress.
    fn try_flag(&self, py: Python<'_>) -> Result<Option<u64>, Failure> {
        py.detach(|| self.with(|end| Ok(end.try_flag())))
    }

    /// As `try_flag`, but waits for one, for at most `timeout_s` seconds.
    ///
    /// Raises `TimedOut`; `PeerDead` or `PeerClosed` when the other side is gone.
    #[pyo3(signature = (timeout_s=None))]
    fn wait_flag(&self, py: Python<'_>, timeout_s: Option<f64>) -> Result<u64, Failure> {
        in_slices(py, Limit::after(timeout_s)?, |slice_ns| {
            self.with(|end| match end.wait_flag_timeout(slice_ns) {
                Ok(value) => Ok(Some(value)),
                Err(Error::TimedOut { .. }) => Ok(None),
                Err(error) => Err(error.into()),
            })
        })
    }

    /// Drops this end: what the other side writes to it afterwards is refused.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let endpoint = self.endpoint.get();
        shelf::close(py, endpoint, &endpoint.ends, self.number)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) -> Result<(), Failure> {
        self.close(py)
    }

    /// # Safety
    /// As Python's: `view` may be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the view is Python's to fill; it keeps the object, and that its memory.
        unsafe { show(slf.as_any(), &slf.get().own, view, flags) }
    }

    fn __repr__(&self) -> String {
        let Joined { own, peer, peer_len, .. } = self;
        format!("<weft.Joined {} bytes with {peer_len} of rank {peer}>", own.len())
    }
}

impl Joined {
    fn native(&self) -> Result<Arc<NativeJoined<'static>>, Failure> {
        self.endpoint.get().ends.get(self.number)
    }

    /// Uses the library's end, which closing it waits for.
    fn with<R>(
        &self,
        f: impl FnOnce(&NativeJoined<'static>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.endpoint.get().with(|_| f(&*self.native()?))
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let _ = Python::try_attach(|py| self.close(py));
    }
}

#[pymethods]
impl Endpoint {
    /// Joins `len` bytes of memory that Weft allocates, zeroed, with such memory of rank `peer`,
    /// which makes the same call with this rank and the same `number` (0 to 2**32 - 1, which tells
    /// several pairs apart); its `len` may differ. Waits for it. After Ctrl-C the number is used
    /// up.
    ///
    /// Raises `PeerDead`, `PeerClosed`.
    fn join(slf: &Bound<'_, Self>, peer: u32, number: u32, len: usize) -> Result<Joined, Failure> {
        let (py, endpoint) = (slf.py(), slf.get());
        let peer = endpoint.checked_rank(peer)?;
        let join = endpoint.with(|native| {
            let joining = native.start_join(peer, number, len)?;
            // SAFETY: it only lives on the shelf, and for the length of slices in which the
            // endpoint cannot be closed; closing empties its shelves before it drops the endpoint.
            // What it becomes goes to a shelf as well.
            let joining: NativeJoining<'static> = unsafe { std::mem::transmute(joining) };
            Ok(endpoint.joins.put(Mutex::new(joining), None))
        })?;
        let joined = in_slices(py, Limit::NONE, |slice_ns| {
            endpoint.with(|_| {
                let joining = endpoint.joins.get(join)?;
                let joined = lock(&joining).wait_for(slice_ns)?;
                Ok(joined.map(|end| {
                    let (own, peer_len) = (end.memory().clone(), end.peer_len());
                    (endpoint.ends.put(end, None), own, peer_len)
                }))
            })
        });
        // Called off, if it has not ended well.
        shelf::close(py, endpoint, &endpoint.joins, join)?;
        let (number, own, peer_len) = joined?;
        Ok(Joined { endpoint: slf.clone().unbind(), number, own, peer, peer_len })
    }
}
