//! A process's place in its job.

use std::sync::{Mutex, PoisonError};

use weft::wireup::Job;

use crate::error::{Failure, call, weft_status};
use crate::memory::{give, there};
use crate::table::{self, Kind, Table};

/// A process's place in its job, and its connection to the launcher.
pub struct weft_job {
    _none: (),
}

/// What a handle of a job stands for.
pub(crate) struct Place(Mutex<Job>);

static JOBS: Table<Place> = Table::new();

impl Kind for Place {
    type Handle = weft_job;
    const NUMBER: usize = 1;
    const NAME: &'static str = "a job";

    fn table() -> &'static Table<Place> {
        &JOBS
    }
}

/// Lets `f` use a job, one thread at a time.
pub(crate) fn with_job<R>(
    job: *mut weft_job,
    f: impl FnOnce(&mut Job) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let place = table::get::<Place>(job)?;
    let mut job = place.0.lock().unwrap_or_else(PoisonError::into_inner);
    f(&mut job)
}

/// Joins the job that the environment speaks of: under `weft run`, mpiexec or srun; without a
/// launcher the process is a job of its own, of one rank. All ranks must call it, once. Waits for
/// the others, for at most 60 s in each of its steps (the variable for that is in the page of
/// environment variables).
///
/// Errors: `WEFT_WIRE_UP`, `WEFT_SETTING`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_job_from_env(job: *mut *mut weft_job) -> weft_status {
    call(|| {
        there(job, "where the job goes")?;
        give(job, table::put(Place(Mutex::new(Job::from_env()?)))?, "where the job goes")
    })
}

/// A job of one rank, whatever the environment says.
///
/// Errors: `WEFT_WIRE_UP`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_job_single(job: *mut *mut weft_job) -> weft_status {
    call(|| {
        there(job, "where the job goes")?;
        give(job, table::put(Place(Mutex::new(Job::single()?)))?, "where the job goes")
    })
}

/// This process's number in the job, from 0.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_job_rank(job: *mut weft_job, rank: *mut u32) -> weft_status {
    call(|| give(rank, with_job(job, |job| Ok(job.rank()))?, "where the rank goes"))
}

/// Ranks in the job.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_job_size(job: *mut weft_job, size: *mut u32) -> weft_status {
    call(|| give(size, with_job(job, |job| Ok(job.size()))?, "where the size goes"))
}

/// Says goodbye to the launcher: some take a process that ends without that for a crashed one.
/// Endpoints that were opened go on, but it is best called after the last of them was freed.
///
/// Errors: `WEFT_BUSY` while another thread uses the job.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_job_free(job: *mut weft_job) -> weft_status {
    call(|| table::take::<Place>(job).map(drop))
}
