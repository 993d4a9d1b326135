//! Regions: memory that peers read, write and change by themselves.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weft::boundary::Row;
use weft::endpoint::Endpoint as Native;
use weft::error::Error;
use weft::region::{Notice as NativeNotice, Region as NativeRegion, RegionHandle as NativeHandle};
use weft::remote::{AtomicOp as NativeOp, Rights};
use weft_sys::buf::Buf;

use crate::endpoint::{Endpoint, Held, lock};
use crate::error::Failure;
use crate::memory::{Memory, Use};
use crate::message::Status;
use crate::number::{AtomicOp, from_bytes, to_bytes, type_of};
use crate::request::Request;
use crate::wait::{Limit, in_slices};

/// A region that is open. The library's is dropped before the memory, and before its endpoint.
pub struct Kept {
    region: Arc<NativeRegion<'static>>,
    _memory: Option<Memory>,
}

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
/// it any more; views of Weft's memory stay good.
#[pyclass(frozen, weakref, module = "weft")]
pub struct Region {
    endpoint: Py<Endpoint>,
    number: u64,
    handle: NativeHandle,
    /// Weft's memory.
    own: Option<Buf>,
}

// SAFETY: `own` is only asked for its address and length, and dropped.
unsafe impl Sync for Region {}

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
        endpoint.check_process()?;
        // The endpoint stays meanwhile: the library's region uses it when it is dropped.
        let ended = py.detach(|| {
            endpoint.with(|_| {
                let kept = lock(&endpoint.regions).remove(&self.number);
                let Some(kept) = kept.map(ManuallyDrop::into_inner) else { return Ok(None) };
                let Kept { mut region, _memory: memory } = kept;
                // Other threads are at most a slice long in it.
                while let Err(used) = Arc::try_unwrap(region) {
                    region = used;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(memory)
            })
        });
        match ended {
            // The GIL is held here, as those want it who have the memory.
            Ok(memory) => drop(memory),
            // Closing has dropped it.
            Err(Failure::Closed { .. }) => {}
            Err(failure) => return Err(failure),
        }
        Ok(())
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
        let ptr = own.pieces().next().map_or(0, |piece| piece.addr()) as *mut _;
        let (object, len) = (slf.as_ptr(), own.len() as isize);
        // SAFETY: the view is Python's to fill; it keeps the region, and that its memory.
        match unsafe { ffi::PyBuffer_FillInfo(view, object, ptr, len, 0, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }

    fn __repr__(&self) -> String {
        format!("<weft.Region {} bytes of rank {}>", self.handle.len(), self.handle.rank())
    }
}

impl Region {
    fn native(&self) -> Result<Arc<NativeRegion<'static>>, Failure> {
        let regions = lock(&self.endpoint.get().regions);
        let kept = regions.get(&self.number).ok_or(Failure::Closed { what: "region" })?;
        Ok(Arc::clone(&kept.region))
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
    /// Opens a region of `buf`, which is `memory`'s or Weft's.
    fn open_region(
        slf: &Bound<'_, Self>,
        buf: &Buf,
        rights: Rights,
        memory: Option<Memory>,
    ) -> Result<(u64, NativeHandle), Failure> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let endpoint = slf.get();
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        endpoint.with(|native| {
            let region = native.register_buf(buf, rights)?;
            // SAFETY: it only lives in `regions`, and for the length of slices in which the
            // endpoint cannot be closed; closing empties `regions` before it drops the endpoint.
            let region: NativeRegion<'static> = unsafe { std::mem::transmute(region) };
            let handle = region.handle();
            let kept = ManuallyDrop::new(Kept { region: Arc::new(region), _memory: memory });
            lock(&endpoint.regions).insert(number, kept);
            Ok((number, handle))
        })
    }

    /// Does something to the numbers of a region, and gives what they were, if that is wanted.
    fn atomic(
        &self,
        py: Python<'_>,
        at: (&RegionHandle, u64),
        row: Row<'_>,
    ) -> Result<Vec<u8>, Failure> {
        let (handle, offset) = (at.0.handle, at.1);
        // The row's bytes are copied as it starts.
        let held: Held = [None, None];
        let ended = self.run(py, held, Limit::NONE, move |endpoint| {
            Ok(Some(endpoint.start_atomic(&handle, offset, row)?))
        })?;
        Ok(ended.map(|completion| completion.buffer).unwrap_or_default())
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
        let own = slf.get().with(|native| Ok(native.allocate(len)?.into_buf()))?;
        let (number, handle) = Endpoint::open_region(slf, &own, Rights { get, put }, None)?;
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
        let (number, handle) = Endpoint::open_region(slf, &buf, rights, Some(memory))?;
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

    /// Adds to a number of a region in one step, and gives what it was. `dtype` names its type
    /// (`"int64"`, which ints have by default; `"float64"`, which floats have; ...); it lies at a
    /// multiple of its size. Whole numbers wrap around. Raises as `put`.
    #[pyo3(signature = (at, offset, number, dtype=None))]
    fn fetch_add(
        &self,
        py: Python<'_>,
        at: &RegionHandle,
        offset: u64,
        number: &Bound<'_, PyAny>,
        dtype: Option<&str>,
    ) -> Result<Py<PyAny>, Failure> {
        let scalar = type_of(dtype, number)?;
        let operands = &to_bytes(number, scalar)?;
        let former = Some(Buf::from_vec(vec![0; operands.len()]));
        let row = Row { op: NativeOp::Sum, scalar, operands, comparands: &[], former };
        from_bytes(py, &self.atomic(py, (at, offset), row)?, scalar)
    }

    /// Sets a number of a region to `new` if it is `expected`, in one step; gives what it was.
    /// `dtype` as for `fetch_add`. Raises as `put`.
    #[pyo3(signature = (at, offset, expected, new, dtype=None))]
    fn compare_swap(
        &self,
        py: Python<'_>,
        at: &RegionHandle,
        offset: u64,
        expected: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
        dtype: Option<&str>,
    ) -> Result<Py<PyAny>, Failure> {
        let scalar = type_of(dtype, new)?;
        let (operands, comparands) = (&to_bytes(new, scalar)?, &to_bytes(expected, scalar)?);
        let former = Some(Buf::from_vec(vec![0; operands.len()]));
        let row = Row { op: NativeOp::SwapIfEqual, scalar, operands, comparands, former };
        from_bytes(py, &self.atomic(py, (at, offset), row)?, scalar)
    }

    /// Changes a row of numbers of a region by `op` and an array of operands, 512 at most, each in
    /// one step; waits until it has been done. Raises as `put`.
    fn accumulate(
        &self,
        py: Python<'_>,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        operands: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        let memory = Memory::of(operands, Use::Read)?;
        let (op, scalar, operands) = (op.native(), memory.scalar()?, memory.bytes());
        let row = Row { op, scalar, operands, comparands: &[], former: None };
        self.atomic(py, (at, offset), row).map(drop)
    }

    /// As `accumulate`, and puts what the numbers were into `into`, an array like `operands`.
    fn fetch_and_op(
        &self,
        py: Python<'_>,
        at: &RegionHandle,
        offset: u64,
        op: AtomicOp,
        operands: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
    ) -> Result<(), Failure> {
        let memory = Memory::of(operands, Use::Read)?;
        let mut former = Memory::of(into, Use::Fill)?;
        if former.len() != memory.len() || former.scalar()? != memory.scalar()? {
            let why = "`into` must have as many numbers as `operands`, of the same type";
            return Err(Failure::argument(why));
        }
        let (op, scalar, operands) = (op.native(), memory.scalar()?, memory.bytes());
        let wanted = Some(Buf::from_vec(vec![0; operands.len()]));
        let row = Row { op, scalar, operands, comparands: &[], former: wanted };
        let bytes = self.atomic(py, (at, offset), row)?;
        former.bytes_mut().copy_from_slice(&bytes);
        Ok(())
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
