//! What plans for the exchange of boundaries need of an endpoint: see [`halo`](crate::halo).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_sys::mem::ReadOnly;
use weft_wire::{Kind, PeerId};

use super::ops::State;
use super::request::Inner;
use super::work::EndpointWork;
use super::{Completion, Endpoint, Request, Source, Status, Tag, take_finished, want};
use crate::error::Error;

impl Endpoint {
    /// The number of the next plan; the same at all ranks, for all build all plans.
    pub(crate) fn next_plan(&self) -> u32 {
        self.plans.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets a peer look at memory that Weft has allocated here; `false`: it cannot.
    pub(crate) fn show(&self, peer: u32, addr: usize, len: usize) -> bool {
        self.station.lock().device.show(PeerId(peer), addr, len)
    }

    /// Memory that a peer has shown, and the place in it of its byte `addr`.
    pub(crate) fn view(
        &self,
        peer: u32,
        addr: usize,
        len: usize,
    ) -> Option<(Arc<ReadOnly>, usize)> {
        self.station.lock().device.view(PeerId(peer), addr, len)
    }

    /// Whether an operation has ended; makes no progress.
    pub(crate) fn has_ended(&self, request: &Request) -> bool {
        has_ended(&mut self.station.lock(), request)
    }

    /// The end of an operation, if it has come; makes no progress.
    pub(crate) fn ended(&self, request: Request) -> Result<Result<Completion, Error>, Request> {
        let mut work = self.station.lock();
        match request.inner {
            Inner::Op { slot, generation } if has_ended(&mut work, &request) => {
                Ok(take_finished(&mut work, slot, generation))
            }
            Inner::Op { .. } => Err(request),
            Inner::Ended(status, buffer) => Ok(Ok(Completion { status, buffer })),
        }
    }

    /// What the oldest message of a peer's plans says of itself that no receive was there for;
    /// makes no progress.
    pub(crate) fn oldest(&self, peer: u32, tag: Tag) -> Option<Status> {
        let want = want(Source::Rank(peer), tag, Kind::HALO);
        let mut work = self.station.lock();
        let found = work.matcher.peek(&want);
        found.map(|(arrival, message)| message.status(arrival.source))
    }

    /// Waits until one of the operations has ended, at most so long; whether one has.
    pub(crate) fn wait_any(&self, requests: &[&Request], timeout_ns: Option<u64>) -> bool {
        let any = |work: &mut EndpointWork| requests.iter().any(|one| has_ended(work, one));
        let step = |work: &mut EndpointWork, now_ns| {
            any(work) || {
                work.progress(now_ns);
                any(work)
            }
        };
        self.station.wait_until(timeout_ns, step).is_some()
    }
}

fn has_ended(work: &mut EndpointWork, request: &Request) -> bool {
    let Inner::Op { slot, generation } = request.inner else { return true };
    work.ops.named(slot, generation).is_none_or(|op| matches!(op.state, State::Ended(_)))
}
