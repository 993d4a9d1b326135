//! Groups of ranks, and the barrier of all.

use std::mem::ManuallyDrop;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weft::boundary::Seat;
use weft::collective::exchange::What;
use weft::endpoint::Endpoint as Native;
use weft::group::{Group as NativeGroup, GroupOptions};

use crate::collective::Team;
use crate::endpoint::{Endpoint, lock};
use crate::error::Failure;
use crate::memory::{Memory, Use};
use crate::wait::{Limit, in_slices};

/// Some ranks of a job, which do something together without the others.
///
/// `Group(endpoint, ranks=None)`: each member makes it from the same list of ranks, which gives its
/// members their ranks in the group: 0, 1, ... in this order; `None` is all ranks of the job.
/// Nothing is sent. Closed (it is a context manager), it tells the others so. Its collective
/// operations are those of an endpoint.
#[pyclass(frozen, weakref, module = "weft")]
pub struct Group {
    endpoint: Py<Endpoint>,
    seat: Mutex<Option<Seat>>,
    rank: u32,
    size: u32,
}

/// Uses the group of a seat.
pub fn on<R>(seat: Seat, endpoint: &Native, f: impl FnOnce(&NativeGroup<'_>) -> R) -> R {
    // A dropped one would leave.
    f(&ManuallyDrop::new(seat.on(endpoint)))
}

fn make(endpoint: &Native, ranks: Option<&[u32]>) -> Result<Seat, Failure> {
    let options = GroupOptions::from_env()?;
    let group = match ranks {
        Some(ranks) => NativeGroup::new(endpoint, ranks, &options)?,
        None => NativeGroup::all(endpoint, &options)?,
    };
    Ok(group.into_seat())
}

/// Enters a barrier, and waits for its end.
fn barrier(py: Python<'_>, endpoint: &Endpoint, seat: Seat) -> Result<(), Failure> {
    let mut entered = false;
    in_slices(py, Limit::NONE, |slice_ns| {
        endpoint.with(|native| {
            on(seat, native, |group| {
                if !std::mem::replace(&mut entered, true) {
                    group.arrive()?;
                }
                Ok(group.wait_for(slice_ns)?.then_some(()))
            })
        })
    })
}

#[pymethods]
impl Endpoint {
    /// Waits until all ranks have called it: a barrier of the group of all ranks, which the first
    /// call makes.
    ///
    /// Raises `PeerDead` or `PeerClosed` when a rank is gone.
    fn barrier(&self, py: Python<'_>) -> Result<(), Failure> {
        let known = *lock(&self.everybody);
        let seat = match known {
            Some(seat) => seat,
            None => {
                let seat = py.detach(|| self.with(|native| make(native, None)))?;
                *lock(&self.everybody) = Some(seat);
                seat
            }
        };
        barrier(py, self, seat)
    }
}

#[pymethods]
impl Group {
    #[new]
    #[pyo3(signature = (endpoint, ranks=None))]
    fn new(
        py: Python<'_>,
        endpoint: Py<Endpoint>,
        ranks: Option<Vec<u32>>,
    ) -> Result<Group, Failure> {
        let of = endpoint.get();
        let seat = py.detach(|| of.with(|native| make(native, ranks.as_deref())))?;
        lock(&of.seats).push(seat);
        let (rank, size) = (seat.rank(), seat.size());
        Ok(Group { endpoint, seat: Mutex::new(Some(seat)), rank, size })
    }

    /// This process's rank in the group.
    #[getter]
    fn rank(&self) -> u32 {
        self.rank
    }

    /// How many members there are.
    #[getter]
    fn size(&self) -> u32 {
        self.size
    }

    /// Waits until all members have called it.
    ///
    /// Raises `PeerDead` or `PeerClosed` when a member is gone or has left: then no barrier of the
    /// group ends any more.
    fn barrier(&self, py: Python<'_>) -> Result<(), Failure> {
        barrier(py, self.endpoint.get(), self.seat()?)
    }

    /// Enters a barrier, and goes on at once; to be followed by `wait`, or by `test` until that
    /// says yes.
    fn arrive(&self, py: Python<'_>) -> Result<(), Failure> {
        let seat = self.seat()?;
        self.with(py, |native| on(seat, native, |group| Ok(group.arrive()?)))
    }

    /// Waits, for at most `timeout_s` seconds, until all members have entered the barrier that
    /// this one entered last.
    #[pyo3(signature = (timeout_s=None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> Result<(), Failure> {
        let (seat, endpoint) = (self.seat()?, self.endpoint.get());
        in_slices(py, Limit::after(timeout_s)?, |slice_ns| {
            let over =
                endpoint.with(|native| on(seat, native, |group| Ok(group.wait_for(slice_ns)?)));
            Ok(over?.then_some(()))
        })
    }

    /// Whether all members have entered the barrier that this one entered last. Makes progress.
    fn test(&self, py: Python<'_>) -> Result<bool, Failure> {
        let seat = self.seat()?;
        self.with(py, |native| on(seat, native, |group| Ok(group.test()?)))
    }

    /// Gives `data` of the member `root` to all, each byte leaving it once where the network can
    /// multicast: arrays of one length. All members must call it, with the same root, their
    /// broadcasts in the same order, and all by Python.
    ///
    /// Raises `PeerDead` or `PeerClosed` if the root is gone, `Mismatch`, `BadArgument`.
    fn broadcast(&self, py: Python<'_>, root: u32, data: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let (seat, endpoint) = (self.seat()?, self.endpoint.get());
        let memory = Memory::of(data, Use::Fill)?;
        if seat.broadcasts_by_messages(memory.len()) {
            drop(memory);
            let team = Team { endpoint, seat: Some(seat) };
            return team.collective(py, What::Broadcast { root }, None, None, Some(data));
        }
        // After a panic nobody knows whether the memory is still used.
        let memory = ManuallyDrop::new(memory);
        let buf = memory.buf();
        let begun =
            self.with(py, |native| on(seat, native, |group| Ok(group.start_broadcast(root, buf)?)));
        let ended = begun.and_then(|broadcast| {
            let ended = in_slices(py, Limit::NONE, |slice_ns| {
                endpoint.with(|native| {
                    on(seat, native, |group| {
                        Ok(group.broadcast_for(broadcast, slice_ns)?.then_some(()))
                    })
                })
            });
            if ended.is_err() {
                // A closed endpoint has taken it back already.
                let _ = self.with(py, |native| {
                    on(seat, native, |group| group.forsake(broadcast));
                    Ok(())
                });
            }
            ended
        });
        drop(ManuallyDrop::into_inner(memory));
        ended
    }

    /// Sends `data`, 1 GiB at most, to all members, this one included, which `deliver` it in the
    /// group's order; waits while too many are under way, for at most `timeout_s` seconds: then
    /// nothing was sent.
    #[pyo3(signature = (data, timeout_s=None))]
    fn cast(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        timeout_s: Option<f64>,
    ) -> Result<(), Failure> {
        let (seat, endpoint) = (self.seat()?, self.endpoint.get());
        let memory = Memory::of(data, Use::Read)?;
        let bytes = memory.bytes();
        in_slices(py, Limit::after(timeout_s)?, |slice_ns| {
            let sent = endpoint
                .with(|native| on(seat, native, |group| Ok(group.cast_for(bytes, slice_ns)?)));
            Ok(sent?.then_some(()))
        })
    }

    /// The next message in the group's order, which is the same at all members, as its sender's
    /// rank in the group and its bytes; waits for it, for at most `timeout_s` seconds. Members must
    /// go on taking messages: one that does not stops the others in the end.
    #[pyo3(signature = (timeout_s=None))]
    fn deliver<'py>(
        &self,
        py: Python<'py>,
        timeout_s: Option<f64>,
    ) -> Result<(u32, Bound<'py, PyBytes>), Failure> {
        let (seat, endpoint) = (self.seat()?, self.endpoint.get());
        let mut bytes = Vec::new();
        let sender = in_slices(py, Limit::after(timeout_s)?, |slice_ns| {
            endpoint.with(|native| {
                on(seat, native, |group| Ok(group.deliver_for(&mut bytes, slice_ns)?))
            })
        })?;
        Ok((sender, PyBytes::new(py, &bytes)))
    }

    /// As `deliver`, but `None` if there is no message now. Makes progress.
    fn try_deliver<'py>(
        &self,
        py: Python<'py>,
    ) -> Result<Option<(u32, Bound<'py, PyBytes>)>, Failure> {
        let seat = self.seat()?;
        let delivery =
            self.with(py, |native| on(seat, native, |group| Ok(group.try_deliver()?)))?;
        Ok(delivery.map(|delivery| (delivery.sender, PyBytes::new(py, &delivery.bytes))))
    }

    /// Leaves the group: the others are told, and their barriers with it raise `PeerClosed`.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let endpoint = self.endpoint.get();
        endpoint.check_process()?;
        let Some(seat) = lock(&self.seat).take() else { return Ok(()) };
        lock(&endpoint.seats).retain(|other| *other != seat);
        self.with(py, |native| {
            drop(seat.on(native));
            Ok(())
        })
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) -> Result<(), Failure> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<weft.Group rank {} of {}>", self.rank, self.size)
    }
}

impl Group {
    fn seat(&self) -> Result<Seat, Failure> {
        lock(&self.seat).ok_or(Failure::Closed { what: "group" })
    }

    /// What its collective operations are done by.
    pub fn team(&self) -> Result<Team<'_>, Failure> {
        Ok(Team { endpoint: self.endpoint.get(), seat: Some(self.seat()?) })
    }

    fn with<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Native) -> Result<R, Failure> + Send,
    ) -> Result<R, Failure> {
        let endpoint = self.endpoint.get();
        py.detach(|| endpoint.with(f))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Of a closed endpoint, or in a forked child, there is nothing to leave.
        let _ = Python::try_attach(|py| self.close(py));
    }
}
