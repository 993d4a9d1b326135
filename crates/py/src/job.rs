//! This process's place in its job.

use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weft::context::{Context, ContextOptions};
use weft::endpoint::Endpoint as Native;
use weft::wireup::Job as NativeJob;

use crate::error::Failure;
use crate::fork::Born;
use crate::opened;
use crate::wait::apart;

/// This process's place in its job, and its connection to the launcher.
///
/// A process has one. Closing it says goodbye to the launcher; close the endpoints first.
#[pyclass(frozen, weakref, module = "weft")]
pub struct Job {
    /// In a forked child it must not be dropped: the connection is the parent's.
    job: Mutex<Option<ManuallyDrop<NativeJob>>>,
    born: Born,
    rank: u32,
    size: u32,
    service: &'static str,
}

#[pymethods]
impl Job {
    /// Joins the job that the environment speaks of (`weft run`, `mpiexec`, `srun`); without a
    /// launcher the process is a job of its own, of size 1. All ranks must call it. Raises `Error`
    /// when the launcher does not answer, or when the process has joined before.
    #[staticmethod]
    fn from_env(py: Python<'_>) -> Result<Bound<'_, Job>, Failure> {
        Job::of(py, apart(py, || Ok(NativeJob::from_env()?))?)
    }

    /// A job of one rank, whatever the environment says.
    #[staticmethod]
    fn single(py: Python<'_>) -> Result<Bound<'_, Job>, Failure> {
        Job::of(py, NativeJob::single()?)
    }

    /// This process's number in the job, from 0.
    #[getter]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in the job.
    #[getter]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// How the ranks find each other, for people: `PMI-1`, ...
    #[getter]
    fn service(&self) -> &'static str {
        self.service
    }

    /// Gives some bytes (16 MiB at most) to all ranks, and gets theirs, by rank. All ranks must
    /// call it, in the same order as they open endpoints.
    fn exchange<'py>(
        &self,
        py: Python<'py>,
        blob: Vec<u8>,
    ) -> Result<Vec<Bound<'py, PyBytes>>, Failure> {
        let blobs = self.with(py, move |job| Ok(job.exchange(&blob)?))?;
        Ok(blobs.iter().map(|blob| PyBytes::new(py, blob)).collect())
    }

    /// Says goodbye to the launcher.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        self.born.check()?;
        let job = self.take();
        py.detach(|| drop(job));
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
        format!("<weft.Job rank {} of {}>", self.rank, self.size)
    }
}

impl Job {
    fn of(py: Python<'_>, job: NativeJob) -> Result<Bound<'_, Job>, Failure> {
        let (rank, size, service) = (job.rank(), job.size(), job.service());
        let born = Born::here("job");
        let job = Job { job: Mutex::new(Some(ManuallyDrop::new(job))), born, rank, size, service };
        Ok(opened(Bound::new(py, job)?)?)
    }

    /// Opens an endpoint on a channel.
    pub fn open(&self, py: Python<'_>, channel: u16) -> Result<Native, Failure> {
        self.with(py, move |job| {
            let mut options = ContextOptions::from_env()?;
            options.channel = channel;
            Ok(Native::new(Context::open(job, &options)?)?)
        })
    }

    /// Calls `f` on a thread of its own, which has the job meanwhile.
    fn with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut NativeJob) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.born.check()?;
        let mut job = self.take().ok_or(Failure::Closed { what: "job" })?;
        let (job, result) = apart(py, move || {
            let result = f(&mut job);
            Ok((job, result))
        })?;
        *self.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(ManuallyDrop::new(job));
        result
    }

    fn take(&self) -> Option<NativeJob> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner).take().map(ManuallyDrop::into_inner)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.born.is_elsewhere() {
            drop(self.take());
        }
    }
}
