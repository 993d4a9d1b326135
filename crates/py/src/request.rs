//! Operations that go on while the program does something else.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use weft::endpoint::{Completion, Endpoint as Native, Request as NativeRequest};
use weft::error::Error;

use crate::endpoint::{Endpoint, Held, lock};
use crate::error::Failure;
use crate::message::Status;
use crate::wait::{Limit, in_slices};

/// An operation, with the memory that it uses until it has ended.
pub struct Operation {
    state: Mutex<State>,
    held: Mutex<ManuallyDrop<Held>>,
}

enum State {
    UnderWay(NativeRequest),
    /// A thread waits for it.
    Waited,
    Ended(Result<Status, Error>),
}

impl Operation {
    /// One that uses `held`.
    pub fn new(request: NativeRequest, held: Held) -> Operation {
        let held = Mutex::new(ManuallyDrop::new(held));
        Operation { state: Mutex::new(State::UnderWay(request)), held }
    }

    /// One that ended as it began.
    pub fn ended(status: Status) -> Operation {
        let held = Mutex::new(ManuallyDrop::new([None, None]));
        Operation { state: Mutex::new(State::Ended(Ok(status))), held }
    }

    /// Waits for its end for at most so long; `None` if it goes on. Its completion is given once.
    pub fn wait(
        &self,
        endpoint: &Native,
        timeout_ns: u64,
    ) -> Result<Option<Result<Completion, Error>>, Failure> {
        let Some(request) = self.take_request()? else { return Ok(None) };
        match endpoint.wait_for(request, timeout_ns) {
            Ok(result) => {
                self.end(&result);
                Ok(Some(result))
            }
            Err(request) => {
                *lock(&self.state) = State::UnderWay(request);
                Ok(None)
            }
        }
    }

    /// Cancels it, if it has not begun to take effect: `true` if it has ended so. Another end is
    /// told by the next wait.
    pub fn cancel(&self, endpoint: &Native) -> Result<bool, Failure> {
        let Some(request) = self.take_request()? else { return Ok(false) };
        if !endpoint.cancel(&request) {
            *lock(&self.state) = State::UnderWay(request);
            return Ok(false);
        }
        let result = endpoint.wait(request);
        self.end(&result);
        Ok(matches!(result, Err(Error::Cancelled)))
    }

    /// The request, for this thread alone; `None` if the operation has ended.
    fn take_request(&self) -> Result<Option<NativeRequest>, Failure> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Waited) {
            State::UnderWay(request) => Ok(Some(request)),
            State::Waited => Err(Failure::Busy),
            ended => {
                *state = ended;
                Ok(None)
            }
        }
    }

    fn end(&self, result: &Result<Completion, Error>) {
        let told = match result {
            Ok(completion) => Ok(Status::of(&completion.status)),
            Err(error) => Err(error.clone()),
        };
        *lock(&self.state) = State::Ended(told);
    }

    /// How it ended, if it has.
    fn result(&self) -> Option<Result<Status, Error>> {
        match &*lock(&self.state) {
            State::Ended(result) => Some(result.clone()),
            _ => None,
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        matches!(*lock(&self.state), State::Ended(_))
    }

    /// Gives the memory back to its owner, if the operation has ended. Not to be called within
    /// [`Endpoint::with`], for it takes the GIL.
    pub fn settle(&self) {
        if !self.has_ended() {
            return;
        }
        // Taken out first: nobody must wait for the GIL with a lock.
        let held = std::mem::take(&mut **lock(&self.held));
        drop(held);
    }

    /// The endpoint is no more: an operation that has not ended never tells its end, and nobody
    /// knows whether a peer still uses its memory, so that is never given back.
    pub fn forsake(&self) {
        let mut state = lock(&self.state);
        if !matches!(*state, State::Ended(_)) {
            *state = State::Ended(Err(Error::Cancelled));
        }
    }
}

/// An operation that was started: a message, a put or a get that goes on.
///
/// The memory that it was given must not be changed until it has ended (nor read, if it is being
/// filled); Python keeps it alive and in its place. A request that is dropped lets the operation go
/// on.
#[pyclass(frozen, module = "weft")]
pub struct Request {
    endpoint: Py<Endpoint>,
    operation: Arc<Operation>,
}

#[pymethods]
impl Request {
    /// Whether the operation has ended: its `Status` then, otherwise `None`. Makes progress. Raises
    /// what the operation has failed with.
    fn test(&self, py: Python<'_>) -> Result<Option<Status>, Failure> {
        if let Some(result) = self.operation.result() {
            return Ok(Some(result?));
        }
        let endpoint = self.endpoint.get();
        py.detach(|| endpoint.with(|native| self.operation.wait(native, 0)))?;
        self.operation.settle();
        match self.operation.result() {
            Some(result) => Ok(Some(result?)),
            None => Ok(None),
        }
    }

    /// Waits for the operation's end, for at most `timeout_s` seconds, and gives its `Status`.
    /// Raises what the operation has failed with; `TimedOut` if it goes on.
    #[pyo3(signature = (timeout_s=None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> Result<Status, Failure> {
        self.wait_until(py, Limit::after(timeout_s)?)
    }

    /// Cancels the operation if it has not begun to take effect: a receive without a message, a
    /// send that the receiver has not seen. Gives whether it did; then `wait` raises `Cancelled`.
    fn cancel(&self, py: Python<'_>) -> Result<bool, Failure> {
        if self.operation.result().is_some() {
            return Ok(false);
        }
        let endpoint = self.endpoint.get();
        let cancelled = py.detach(|| endpoint.with(|native| self.operation.cancel(native)));
        self.operation.settle();
        cancelled
    }

    fn __repr__(&self) -> String {
        let how = match self.operation.result() {
            None => "under way",
            Some(Ok(_)) => "ended",
            Some(Err(_)) => "failed",
        };
        format!("<weft.Request {how}>")
    }
}

impl Request {
    /// For an operation of an endpoint.
    pub fn new(endpoint: Py<Endpoint>, operation: Arc<Operation>) -> Request {
        Request { endpoint, operation }
    }

    /// Waits for the end.
    pub fn wait_until(&self, py: Python<'_>, limit: Limit) -> Result<Status, Failure> {
        let endpoint = self.endpoint.get();
        let result = match self.operation.result() {
            Some(result) => result,
            None => in_slices(py, limit, |slice_ns| {
                endpoint.with(|native| self.operation.wait(native, slice_ns))?;
                Ok(self.operation.result())
            })?,
        };
        self.operation.settle();
        Ok(result?)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.endpoint.get().check_process().is_ok() {
            self.endpoint.get().let_loose(self.operation.clone());
        }
    }
}
