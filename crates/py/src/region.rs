//! Regions: memory that peers read, write and change by themselves.

use std::ffi::c_int;
use std::sync::Arc;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weft::endpoint::Endpoint as Native;
use weft::error::Error;
use weft::region::{Notice as NativeNotice, Region as NativeRegion, RegionHandle as NativeHandle};
use weft::remote::Rights;
use weft_sys::buf::Buf;

use crate::endpoint::Endpoint;
use crate::error::Failure;
use crate::memory::{Memory, Use};
use crate::message::Status;
use crate::request::Request;
use crate::shelf;
use crate::wait::{Limit, in_slices};

/// Regions that are open on an endpoint.
pub type Regions = shelf::Shelf<NativeRegion<'static>>;

/// Names a region of some process, for its peers: it is sent to them as bytes (or pickled), and
/// given to `put` and its siblings there. When the region is closed its handles name nothing.
#[pyclass(frozen, eq, module = "weft")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RegionHandle {
    handle: NativeHandle,
}

#[pymethods]
impl RegionHandle {
    /// The handle that was made into these bytes (`HANDLE_LEN` of them).
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<RegionHandle, Failure> {
        let memory = Memory::of(data, Use::Read)?;
        Ok(RegionHandle { handle: NativeHandle::from_bytes(memory.bytes())? })
    }

    /// The handle as bytes, the same on every machine.
    #[pyo3(name = "to_bytes")]
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.handle.to_bytes())
    }

    /// The region's owner.
    #[getter]
    fn rank(&self) -> u32 {
        self.handle.rank()
    }

    /// What peers may do with it: get, put.
    #[getter]
    fn rights(&self) -> (bool, bool) {
        let Rights { get, put, .. } = self.handle.rights();
        (get, put)
    }

    fn __len__(&self) -> usize {
        self.handle.len() as usize
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = slf.get().bytes(slf.py());
        Ok((slf.get_type().getattr("from_bytes")?, (bytes,)))
    }

    fn __repr__(&self) -> String {
        format!("<weft.RegionHandle {} bytes of rank {}>", self.handle.len(), self.handle.rank())
    }
}

/// A peer's put with a value has been done.
#[pyclass(frozen, eq, module = "weft")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// Who.
    #[pyo3(get)]
    source: u32,
    /// The value that it gave along.
    #[pyo3(get)]
    value: u64,
    /// The first byte that it wrote.
    #[pyo3(get)]
    offset: u64,
    /// Bytes that it wrote.
    #[pyo3(get)]
    len: usize,
}

#[pymethods]
impl Notice {
    fn __repr__(&self) -> String {
        let Notice { source, value, offset, len } = self;
        format!("weft.Notice(source={source}, value={value}, offset={offset}, len={len})")
    }
}

impl From<NativeNotice> for Notice {
    fn from(notice: NativeNotice) -> Notice {
        let NativeNotice { source, value, offset, len } = notice;
        Notice { source, value, offset, len }
    }
}

/// Memory of this process that peers may reach.
///
/// Made by `endpoint.region(len)`, it is Weft's memory, zeroed, and a buffer: `memoryview(region)`
/// and `numpy.frombuffer(region, dtype)` show it in place, and show what peers write there. Made by
/// `endpoint.register(array)`, it is the array's. Closed (it is a context manager), no peer reaches
/// it any more; views of Weft's memory stay good. (A peer of the same node that copies to Weft's
/// memory in that very moment ends its copy.)
#[pyclass(frozen, weakref, module = "weft")]
pub struct Region {
    endpoint: Py<Endpoint>,
    number: u64,
    handle: NativeHandle,
    /// Weft's memory.
    own: Option<Buf>,
}

#[pymethods]
impl Region {
    /// What peers reach it by.
    #[getter]
    fn handle(&self) -> RegionHandle {
        RegionHandle { handle: self.handle }
    }

    fn __len__(&self) -> usize {
        self.handle.len() as usize
    }

    /// Copies bytes of the region, from byte `offset` on, to `into`, over its whole length. Bytes
    /// that a peer writes in this moment may be old or new.
    fn read(&self, offset: u64, into: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let mut memory = Memory::of(into, Use::Fill)?;
        let region = self.native()?;
        self.endpoint.get().with(|_| Ok(region.read(offset, memory.bytes_mut())?))
    }

    /// Copies `data` to the region, from byte `offset` on.
    fn write(&self, offset: u64, data: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let memory = Memory::of(data, Use::Read)?;
        let region = self.native()?;
        self.endpoint.get().with(|_| Ok(region.write(offset, memory.bytes())?))
    }

    /// The oldest notice that was not taken yet, if there is one. Makes progress.
    fn try_notice(&self, py: Python<'_>) -> Result<Option<Notice>, Failure> {
        let notice = py.detach(|| self.with(|region| Ok(region.try_notice())))?;
        Ok(notice.map(Notice::from))
    }

    /// As `try_notice`, but waits for one, for at most `timeout_s` seconds.
    ///
    /// Raises `TimedOut`; `PeerDead` or `PeerClosed` when the last of the others is gone.
    #[pyo3(signature = (timeout_s=None))]
    fn wait_notice(&self, py: Python<'_>, timeout_s: Option<f64>) -> Result<Notice, Failure> {
        let notice = in_slices(py, Limit::after(timeout_s)?, |slice_ns| {
            self.with(|region| match region.wait_notice_timeout(slice_ns) {
                Ok(notice) => Ok(Some(notice)),
                Err(Error::TimedOut { .. }) => Ok(None),
                Err(error) => Err(error.into()),
            })
        })?;
        Ok(notice.into())
    }

    /// Drops the region: no byte of it is read or written for peers afterwards.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let endpoint = self.endpoint.get();
        shelf::close(py, endpoint, &endpoint.regions, self.number)
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
        let Some(own) = &slf.get().own else {
            let why = "the region has the memory of an array: look at that";
            return Err(PyBufferError::new_err(why));
        };
        // SAFETY: the view is Python's to fill; it keeps the region, and that its memory.
        unsafe { show(slf.as_any(), own, view, flags) }
    }

    fn __repr__(&self) -> String {
        format!("<weft.Region {} bytes of rank {}>", self.handle.len(), self.handle.rank())
    }
}

impl RegionHandle {
    /// The library's.
    pub fn native(&self) -> NativeHandle {
        self.handle
    }
}

impl Region {
    fn native(&self) -> Result<Arc<NativeRegion<'static>>, Failure> {
        self.endpoint.get().regions.get(self.number)
    }

    /// Uses the library's region, which closing it waits for.
    fn with<R>(
        &self,
        f: impl FnOnce(&NativeRegion<'static>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.endpoint.get().with(|_| f(&*self.native()?))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _ = Python::try_attach(|py| self.close(py));
    }
}

/// Exports the memory of an object to Python.
///
/// # Safety
/// `view` may be filled, and the object keeps the memory for as long as it lives.
pub unsafe fn show(
    object: &Bound<'_, PyAny>,
    own: &Buf,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let ptr = own.pieces().next().map_or(0, |piece| piece.addr()) as *mut _;
    let len = own.len() as isize;
    // SAFETY: the rest is the caller's.
    match unsafe { ffi::PyBuffer_FillInfo(view, object.as_ptr(), ptr, len, 0, flags) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(object.py())),
    }
}

/// Where an operation goes and what it takes there.
fn started(
    to: &RegionHandle,
    offset: u64,
    memory: &Memory,
    value: Option<u64>,
) -> impl FnOnce(&Native) -> Result<Option<weft::endpoint::Request>, Failure> + use<> {
    let (handle, buf) = (to.handle, memory.buf());
    move |endpoint: &Native| Ok(Some(endpoint.start_put(&handle, offset, &buf, value)?))
}

fn fetched(
    from: &RegionHandle,
    offset: u64,
    memory: &Memory,
) -> impl FnOnce(&Native) -> Result<Option<weft::endpoint::Request>, Failure> + use<> {
    let (handle, buf) = (from.handle, memory.buf());
    move |endpoint: &Native| Ok(Some(endpoint.start_get(&handle, offset, buf)?))
}

impl Endpoint {
    /// Opens a region, and keeps it with `memory`, if that is a program's.
    fn open_region<R>(
        slf: &Bound<'_, Self>,
        memory: Option<Memory>,
        open: impl FnOnce(&Native) -> Result<(NativeRegion<'_>, R), Error>,
    ) -> Result<(u64, NativeHandle, R), Failure> {
        let endpoint = slf.get();
        endpoint.with(|native| {
            let (region, along) = open(native)?;
            // SAFETY: it only lives on the shelf, and for the length of slices in which the
            // endpoint cannot be closed; closing empties its shelves before it drops the endpoint.
            let region: NativeRegion<'static> = unsafe { std::mem::transmute(region) };
            let handle = region.handle();
            Ok((endpoint.regions.put(region, memory), handle, along))
        })
    }
}

#[pymethods]
impl Endpoint {
    /// Registers `len` bytes of memory that Weft allocates, zeroed, which peers may `get` from and
    /// `put` to.
    ///
    /// Raises `BadArgument` without any right.
    #[pyo3(signature = (len, get=true, put=true))]
    fn region(slf: &Bound<'_, Self>, len: usize, get: bool, put: bool) -> Result<Region, Failure> {
        let rights = Rights { get, put };
        let opened =
            Endpoint::open_region(slf, None, |native| native.region_and_memory(len, rights));
        let (number, handle, own) = opened?;
        Ok(Region { endpoint: slf.clone().unbind(), number, handle, own: Some(own) })
    }

    /// Registers the memory of `array`, which is kept until the region is closed.
    ///
    /// Raises `BadArgument` without any right, or if the array cannot be written.
    #[pyo3(signature = (array, get=true, put=true))]
    fn register(
        slf: &Bound<'_, Self>,
        array: &Bound<'_, PyAny>,
        get: bool,
        put: bool,
    ) -> Result<Region, Failure> {
        let usage = if put { Use::Fill } else { Use::Read };
        let memory = Memory::of(array, usage)?;
        let buf = memory.buf();
        let rights = Rights { get, put };
        let opened = Endpoint::open_region(slf, Some(memory), |native| {
            Ok((native.register_buf(&buf, rights)?, ()))
        });
        let (number, handle, ()) = opened?;
        Ok(Region { endpoint: slf.clone().unbind(), number, handle, own: None })
    }

    /// Writes `data` to a region, from byte `offset` on; waits until it is there.
    ///
    /// Raises `BadArgument` if it is not all inside, or without the right; `Refused` if the owner
    /// does so, for one because the region was closed; `PeerDead`, `PeerClosed`.
    fn put(
        &self,
        py: Python<'_>,
        to: &RegionHandle,
        offset: u64,
        data: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        let memory = Memory::of(data, Use::Read)?;
        let start = started(to, offset, &memory, None);
        self.run(py, [Some(memory), None], Limit::NONE, start).map(drop)
    }

    /// As `put`; then the region's owner is told `value`, by a `Notice`.
    fn put_with(
        &self,
        py: Python<'_>,
        to: &RegionHandle,
        offset: u64,
        data: &Bound<'_, PyAny>,
        value: u64,
    ) -> Result<(), Failure> {
        let memory = Memory::of(data, Use::Read)?;
        let start = started(to, offset, &memory, Some(value));
        self.run(py, [Some(memory), None], Limit::NONE, start).map(drop)
    }

    /// Reads bytes of a region, from byte `offset` on, as many as `into` has; waits for them.
    /// Raises as `put`.
    fn get(
        &self,
        py: Python<'_>,
        at: &RegionHandle,
        offset: u64,
        into: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        let memory = Memory::of(into, Use::Fill)?;
        let start = fetched(at, offset, &memory);
        self.run(py, [Some(memory), None], Limit::NONE, start).map(drop)
    }

    /// Starts what `put` does. The request ends when the bytes are there.
    fn iput(
        slf: &Bound<'_, Self>,
        to: &RegionHandle,
        offset: u64,
        data: &Bound<'_, PyAny>,
    ) -> Result<Request, Failure> {
        let memory = Memory::of(data, Use::Read)?;
        let start = started(to, offset, &memory, None);
        Endpoint::start(slf, [Some(memory), None], Status::default(), start)
    }

    /// Starts what `put_with` does.
    fn iput_with(
        slf: &Bound<'_, Self>,
        to: &RegionHandle,
        offset: u64,
        data: &Bound<'_, PyAny>,
        value: u64,
    ) -> Result<Request, Failure> {
        let memory = Memory::of(data, Use::Read)?;
        let start = started(to, offset, &memory, Some(value));
        Endpoint::start(slf, [Some(memory), None], Status::default(), start)
    }

    /// Starts what `get` does.
    fn iget(
        slf: &Bound<'_, Self>,
        at: &RegionHandle,
        offset: u64,
        into: &Bound<'_, PyAny>,
    ) -> Result<Request, Failure> {
        let memory = Memory::of(into, Use::Fill)?;
        let start = fetched(at, offset, &memory);
        Endpoint::start(slf, [Some(memory), None], Status::default(), start)
    }

    /// Has what is started on regions of rank `peer` from now on be done after all that was started
    /// before. Waits for less than `flush`: for what later operations could overtake, which is puts
    /// whose bytes the peer fetches and gets; and not at all where there are none.
    fn fence(&self, py: Python<'_>, peer: u32) -> Result<(), Failure> {
        let peer = self.checked_rank(peer)?;
        in_slices(py, Limit::NONE, |slice_ns| {
            let is_over = self.with(|endpoint| Ok(endpoint.fence_for(peer, slice_ns)))?;
            Ok(is_over.then_some(()))
        })
    }

    /// Waits until all operations on regions that this process has started have ended, those of
    /// rank `peer` or of all. Raises how the first of those failed whose request was dropped.
    #[pyo3(signature = (peer=None))]
    fn flush(&self, py: Python<'_>, peer: Option<u32>) -> Result<(), Failure> {
        let peer = peer.map(|peer| self.checked_rank(peer)).transpose()?;
        in_slices(py, Limit::NONE, |slice_ns| {
            let over = self.with(|endpoint| Ok(endpoint.flush_for(peer, slice_ns)?))?;
            Ok(over.then_some(()))
        })
    }
}
