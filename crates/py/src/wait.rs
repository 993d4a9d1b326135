//! Waits that do not hold the GIL, and that Ctrl-C ends: they are made of slices, between which
//! Python's signal handlers run.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use weft::boundary::going_on;

use crate::error::Failure;

/// As long as a signal has to wait for its handler, at most.
const SLICE_NS: u64 = 100_000_000;

/// When a wait is to end without having found something.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    end: Option<Instant>,
    timeout_ns: u64,
}

impl Limit {
    /// Never.
    pub const NONE: Limit = Limit { end: None, timeout_ns: 0 };

    /// After so many seconds from now on; `None` is never.
    ///
    /// # Errors
    /// [`Failure::Argument`] for what is no time.
    pub fn after(timeout_s: Option<f64>) -> Result<Limit, Failure> {
        let Some(timeout_s) = timeout_s else { return Ok(Limit::NONE) };
        if timeout_s.is_nan() || timeout_s < 0.0 {
            let why = format!(
                "`timeout_s` is {timeout_s}: give seconds, 0 or more, or None to wait for as long \
                 as it takes"
            );
            return Err(Failure::Argument(why));
        }
        let timeout_ns = (timeout_s * 1e9) as u64;
        let end = Instant::now().checked_add(Duration::from_nanos(timeout_ns));
        Ok(Limit { end, timeout_ns })
    }

    /// How long the next slice is; `None` if the time is over.
    pub fn slice_ns(&self) -> Option<u64> {
        let Some(end) = self.end else { return Some(SLICE_NS) };
        let rest = end.saturating_duration_since(Instant::now()).as_nanos() as u64;
        (rest > 0).then_some(rest.min(SLICE_NS))
    }

    /// The first slice, which there is even if there is no time.
    pub fn first_ns(&self) -> u64 {
        self.slice_ns().unwrap_or(0)
    }

    /// What a wait ends in that has found nothing.
    pub fn over(&self) -> Failure {
        weft::error::Error::TimedOut { after_ns: self.timeout_ns }.into()
    }
}

/// Calls `slice` without the GIL, with how long it may wait, until it gives something.
///
/// # Errors
/// What `slice` gives; `TimedOut`; what a signal's handler raises (`KeyboardInterrupt`).
pub fn in_slices<T: Send>(
    py: Python<'_>,
    limit: Limit,
    mut slice: impl FnMut(u64) -> Result<Option<T>, Failure> + Send,
) -> Result<T, Failure> {
    if let Some(found) = py.detach(|| slice(limit.first_ns()))? {
        return Ok(found);
    }
    py.check_signals()?;
    while let Some(slice_ns) = limit.slice_ns() {
        if let Some(found) = py.detach(|| going_on(|| slice(slice_ns)))? {
            return Ok(found);
        }
        py.check_signals()?;
    }
    Err(limit.over())
}

/// Calls `f`, which waits in a way that cannot be cut into slices, on a thread of its own. After a
/// signal whose handler raises something `f` goes on, and what it gives is dropped.
///
/// # Errors
/// What `f` gives; what a signal's handler raises.
pub fn apart<T: Send + 'static>(
    py: Python<'_>,
    f: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, mut receiver) = channel();
    let spawned = std::thread::Builder::new().name("weft-wait".into()).spawn(move || {
        // Nobody listens any more after a signal.
        let _ = sender.send(f());
    });
    spawned.map_err(|e| weft::error::Error::system("starting a thread to wait on", &e))?;
    loop {
        let slice = Duration::from_nanos(SLICE_NS);
        let (came, back) = py.detach(move || (receiver.recv_timeout(slice), receiver));
        receiver = back;
        match came {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                let why = "its thread has panicked, and has said why on standard error";
                return Err(weft::error::Error::os("waiting", why).into());
            }
        }
    }
}
