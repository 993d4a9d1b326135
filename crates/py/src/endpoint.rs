//! The endpoint as Python has it: the library's behind a lock that only its closing takes for
//! itself, and what must end before it: operations, plans, regions, joined buffers and groups.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weft::boundary::{Joining, Seat};
use weft::endpoint::{Completion, Endpoint as Native, Request as NativeRequest};
use weft::region::{Joined, Region};

use crate::error::Failure;
use crate::fork::Born;
use crate::halo;
use crate::job::Job;
use crate::joined::{Ends, Joins};
use crate::memory::Memory;
use crate::message::Status;
use crate::opened;
use crate::region::Regions;
use crate::request::{Operation, Request};
use crate::shelf::Kept;
use crate::wait::{Limit, apart};

/// So long each operation that cannot be cancelled may take to end when the endpoint is closed.
const CLOSE_NS: u64 = 1_000_000_000;
/// From so many on, those that have ended are looked for.
const OPERATIONS_KEPT: usize = 64;

/// The memory of an operation: what it reads and what it fills.
pub type Held = [Option<Memory>; 2];

/// A start that may copy as many bytes does so without the GIL: it takes some microseconds.
const COPIED_APART: usize = 64 << 10;

/// Tagged messages of any size, regions, collective operations: what the ranks of a job do with
/// each other.
///
/// `Endpoint(job, channel=0)` opens a channel of a job with all its ranks: all must call it, with
/// the same channel and in the same order. It is a context manager: closed, it takes what was
/// started on it back, and tells the others that it has ended in good order.
///
/// Threads may share it. A call waits without holding the GIL, and Ctrl-C ends the wait.
#[pyclass(frozen, weakref, module = "weft")]
pub struct Endpoint {
    /// In a forked child it must not be dropped, nor must its regions: they are the parent's.
    live: RwLock<Option<ManuallyDrop<Box<Native>>>>,
    /// The connection to the launcher lasts as long as the endpoint.
    job: Mutex<Option<Py<Job>>>,
    born: Born,
    rank: u32,
    size: u32,
    operations: Mutex<Vec<Weak<Operation>>>,
    /// Those that nobody holds a request for: they go on with their memory.
    loose: Mutex<Vec<Arc<Operation>>>,
    loose_count: AtomicUsize,
    pub(crate) regions: Regions,
    pub(crate) joins: Joins,
    pub(crate) ends: Ends,
    pub(crate) plans: Mutex<HashMap<u64, ManuallyDrop<halo::Kept>>>,
    pub(crate) seats: Mutex<Vec<Seat>>,
    /// The group of all ranks, once there was a barrier.
    pub(crate) everybody: Mutex<Option<Seat>>,
}

/// A lock that is as good after a panic as before.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl Endpoint {
    #[new]
    #[pyo3(signature = (job, channel=0))]
    fn new(py: Python<'_>, job: Py<Job>, channel: u16) -> Result<Py<Endpoint>, Failure> {
        let native = job.get().open(py, channel)?;
        let (rank, size) = (native.rank(), native.size());
        let endpoint = Endpoint {
            live: RwLock::new(Some(ManuallyDrop::new(Box::new(native)))),
            job: Mutex::new(Some(job)),
            born: Born::here("endpoint"),
            rank,
            size,
            operations: Mutex::default(),
            loose: Mutex::default(),
            loose_count: AtomicUsize::new(0),
            regions: Regions::new("region"),
            joins: Joins::new("endpoint"),
            ends: Ends::new("joined buffer"),
            plans: Mutex::default(),
            seats: Mutex::default(),
            everybody: Mutex::default(),
        };
        Ok(opened(Bound::new(py, endpoint)?)?.unbind())
    }

    /// This process's number among its peers.
    #[getter]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many processes there are, this one included.
    #[getter]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// What the devices and links have done so far, by name, and the lengths of the queues.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = py.detach(|| self.with(|endpoint| Ok(endpoint.counters())))?;
        let all = PyDict::new(py);
        for (name, count) in counters {
            all.set_item(name, count)?;
        }
        Ok(all)
    }

    /// Closes it: what was started and has not ended is cancelled, plans are closed, regions
    /// dropped and groups left, and the others are told. Waits for other threads' calls to end,
    /// which end in `Closed`. Nothing happens if it is closed already.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        self.born.check()?;
        if let Some(ending) = self.end(py) {
            let leavings = apart(py, move || Ok(ending.run()))?;
            drop(leavings);
        }
        // The launcher is told goodbye, if this was the last endpoint.
        let job = lock(&self.job).take();
        drop(job);
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) -> Result<(), Failure> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<weft.Endpoint rank {} of {}>", self.rank, self.size)
    }
}

impl Endpoint {
    /// # Errors
    /// [`Failure::Forked`] in a forked child.
    pub fn check_process(&self) -> Result<(), Failure> {
        self.born.check()
    }

    /// Uses the library's endpoint. To be called without the GIL where `f` can wait, which must be
    /// in slices: closing waits for it. `f` must not ask for the GIL: whoever has it may wait here
    /// for the closing thread.
    pub fn with<R>(&self, f: impl FnOnce(&Native) -> Result<R, Failure>) -> Result<R, Failure> {
        self.born.check()?;
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        f(live.as_ref().ok_or(Failure::Closed { what: "endpoint" })?)
    }

    /// Starts an operation on `held`, and waits for its end. When the time is over, it is cancelled
    /// if that is still possible; after a signal it goes on where it cannot be cancelled.
    pub fn run(
        &self,
        py: Python<'_>,
        held: Held,
        limit: Limit,
        start: impl FnOnce(&Native) -> Result<Option<NativeRequest>, Failure> + Send,
    ) -> Result<Option<Completion>, Failure> {
        // After a panic nobody knows whether the memory is still used.
        let held = ManuallyDrop::new(held);
        self.collect(py);
        let started = self.begin(py, &held, start);
        let waited = match started {
            Ok(Some(request)) => {
                let slice_ns = limit.first_ns();
                py.detach(|| self.with(|endpoint| Ok(endpoint.wait_for(request, slice_ns))))
            }
            not_started => {
                drop(ManuallyDrop::into_inner(held));
                return not_started.map(|_| None);
            }
        };
        // An endpoint that was closed since the start does not say how the operation ended, so its
        // memory is never given back.
        let waited = waited?;
        let held = ManuallyDrop::into_inner(held);
        match waited {
            Ok(result) => Ok(Some(result?)),
            Err(request) => self.wait_on(py, Operation::new(request, held), limit).map(Some),
        }
    }

    /// Starts an operation on `held`. To start something is no wait: to give the GIL away for it
    /// costs a fifth of a short message's way, and whoever holds the endpoint's lock meanwhile does
    /// not ask for the GIL. But a start may copy all of the memory, so it is given away where that
    /// is long.
    fn begin(
        &self,
        py: Python<'_>,
        held: &Held,
        start: impl FnOnce(&Native) -> Result<Option<NativeRequest>, Failure> + Send,
    ) -> Result<Option<NativeRequest>, Failure> {
        let len: usize = held.iter().flatten().map(Memory::len).sum();
        if len < COPIED_APART { self.with(start) } else { py.detach(|| self.with(start)) }
    }

    /// The rest of [`Endpoint::run`].
    fn wait_on(
        &self,
        py: Python<'_>,
        operation: Operation,
        mut limit: Limit,
    ) -> Result<Completion, Failure> {
        let operation = Arc::new(operation);
        // Closing takes it back.
        self.note(&operation);
        loop {
            if let Err(signal) = py.check_signals() {
                let cancelled = py.detach(|| self.with(|endpoint| operation.cancel(endpoint)));
                operation.settle();
                if !matches!(cancelled, Ok(true)) {
                    self.let_loose(operation);
                }
                return Err(signal.into());
            }
            let Some(slice_ns) = limit.slice_ns() else {
                if py.detach(|| self.with(|endpoint| operation.cancel(endpoint)))? {
                    operation.settle();
                    return Err(limit.over());
                }
                // It has been matched, or cannot be cancelled: its end is near, and is told.
                limit = Limit::NONE;
                continue;
            };
            match py.detach(|| self.with(|endpoint| operation.wait(endpoint, slice_ns))) {
                Ok(Some(result)) => {
                    operation.settle();
                    return Ok(result?);
                }
                Ok(None) => {}
                Err(closed) => {
                    self.let_loose(operation);
                    return Err(closed);
                }
            }
        }
    }

    fn note(&self, operation: &Arc<Operation>) {
        let mut operations = lock(&self.operations);
        if operations.len() >= OPERATIONS_KEPT && operations.len() == operations.capacity() {
            operations.retain(|operation| operation.strong_count() > 0);
        }
        operations.push(Arc::downgrade(operation));
    }

    /// Starts an operation on `held` that goes on; `at_once` is its status if it ends at once.
    pub fn start(
        slf: &Bound<'_, Endpoint>,
        held: Held,
        at_once: Status,
        start: impl FnOnce(&Native) -> Result<Option<NativeRequest>, Failure> + Send,
    ) -> Result<Request, Failure> {
        let (py, endpoint) = (slf.py(), slf.get());
        let held = ManuallyDrop::new(held);
        endpoint.collect(py);
        let started = endpoint.begin(py, &held, start);
        let held = ManuallyDrop::into_inner(held);
        let operation = Arc::new(match started? {
            Some(request) => Operation::new(request, held),
            None => Operation::ended(at_once),
        });
        endpoint.note(&operation);
        Ok(Request::new(slf.clone().unbind(), operation))
    }

    /// Keeps an operation that nobody asks for any more, until it has ended.
    pub fn let_loose(&self, operation: Arc<Operation>) {
        if operation.has_ended() {
            return;
        }
        let mut loose = lock(&self.loose);
        loose.push(operation);
        self.loose_count.store(loose.len(), Ordering::Relaxed);
    }

    /// Gives the memory of such operations back that have ended.
    fn collect(&self, py: Python<'_>) {
        if self.loose_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let all = std::mem::take(&mut *lock(&self.loose));
        let (ended, left) = py.detach(|| {
            all.into_iter().partition::<Vec<_>, _>(|operation| {
                matches!(self.with(|endpoint| operation.wait(endpoint, 0)), Ok(Some(_)))
            })
        });
        ended.iter().for_each(|operation| operation.settle());
        let mut loose = lock(&self.loose);
        loose.extend(left);
        self.loose_count.store(loose.len(), Ordering::Relaxed);
    }

    /// Takes the library's endpoint away, once nobody uses it, with all that hangs on it.
    fn end(&self, py: Python<'_>) -> Option<Ending> {
        let native =
            py.detach(|| self.live.write().unwrap_or_else(PoisonError::into_inner).take())?;
        let mut operations = std::mem::take(&mut *lock(&self.loose));
        let started = std::mem::take(&mut *lock(&self.operations));
        operations.extend(started.iter().filter_map(Weak::upgrade));
        let mut seats = std::mem::take(&mut *lock(&self.seats));
        seats.extend(lock(&self.everybody).take());
        let regions = self.regions.take_all();
        let (joins, ends) = (self.joins.take_all(), self.ends.take_all());
        let plans = std::mem::take(&mut *lock(&self.plans)).into_values();
        let plans = plans.map(ManuallyDrop::into_inner).collect();
        let native = ManuallyDrop::into_inner(native);
        Some(Ending { operations, plans, seats, joins, ends, regions, native })
    }
}

/// An endpoint that nobody uses any more, and what must end before it. (Fields are dropped in this
/// order.)
struct Ending {
    operations: Vec<Arc<Operation>>,
    plans: Vec<halo::Kept>,
    seats: Vec<Seat>,
    joins: Vec<Kept<Mutex<Joining<'static>>>>,
    ends: Vec<Kept<Joined<'static>>>,
    regions: Vec<Kept<Region<'static>>>,
    native: Box<Native>,
}

impl Ending {
    /// Ends all of it. Gives the operations, whose memory is free where they have ended.
    fn run(self) -> Vec<Arc<Operation>> {
        let Ending { operations, plans, seats, joins, ends, regions, native } = self;
        let ended: Vec<_> = plans.iter().map(halo::Kept::end).collect();
        for operation in &operations {
            // What cannot be cancelled ends by itself, or its peer is in trouble.
            if !matches!(operation.cancel(&native), Ok(true)) {
                let _ = operation.wait(&native, CLOSE_NS);
            }
        }
        for seat in seats {
            drop(seat.on(&native));
        }
        drop((joins, ends, regions));
        if ended.iter().all(Result::is_ok) {
            drop(native);
        } else {
            // A thread still waits in it for peers that do not come: it stays until the process's
            // end, which tells them.
            std::mem::forget(native);
        }
        for operation in &operations {
            operation.settle();
            operation.forsake();
        }
        operations
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // A child must not even look: a thread of the parent's may have had a lock as it was made.
        if self.born.is_elsewhere() {
            return;
        }
        let _ = Python::try_attach(|py| {
            if let Some(ending) = self.end(py) {
                drop(py.detach(|| ending.run()));
            }
        });
    }
}
